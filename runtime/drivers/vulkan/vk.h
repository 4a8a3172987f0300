/* The Vulkan driver's objects. Vulkan 1.1 core, called through tables filled at run time; extensions only where offered.
 *
 * One queue a device. Everything that goes into it (a recording, a host copy, a warm-up) has a node with a fence; nodes
 * are looked at in order, so that completion is one counter. A recording is one command buffer that starts behind a full
 * barrier and ends with one towards the host, so submissions follow one another whatever they hold. */
#ifndef QUERN_DRIVER_VULKAN_H
#define QUERN_DRIVER_VULKAN_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "findings.h"
#include "quern/driver.h"

#define VK_INSTANCE_CALLS(X)                                                                                           \
  X(vkDestroyInstance)                                                                                                 \
  X(vkEnumeratePhysicalDevices)                                                                                        \
  X(vkEnumerateDeviceExtensionProperties)                                                                              \
  X(vkGetPhysicalDeviceProperties)                                                                                     \
  X(vkGetPhysicalDeviceProperties2)                                                                                    \
  X(vkGetPhysicalDeviceFeatures2)                                                                                      \
  X(vkGetPhysicalDeviceMemoryProperties)                                                                               \
  X(vkGetPhysicalDeviceQueueFamilyProperties)                                                                          \
  X(vkCreateDevice)                                                                                                    \
  X(vkGetDeviceProcAddr)

#define VK_DEVICE_CALLS(X)                                                                                             \
  X(vkDestroyDevice)                                                                                                   \
  X(vkGetDeviceQueue)                                                                                                  \
  X(vkQueueSubmit)                                                                                                     \
  X(vkAllocateMemory)                                                                                                  \
  X(vkFreeMemory)                                                                                                      \
  X(vkMapMemory)                                                                                                       \
  X(vkCreateBuffer)                                                                                                    \
  X(vkDestroyBuffer)                                                                                                   \
  X(vkGetBufferMemoryRequirements)                                                                                     \
  X(vkBindBufferMemory)                                                                                                \
  X(vkCreateFence)                                                                                                     \
  X(vkDestroyFence)                                                                                                    \
  X(vkResetFences)                                                                                                     \
  X(vkGetFenceStatus)                                                                                                  \
  X(vkWaitForFences)                                                                                                   \
  X(vkCreateShaderModule)                                                                                              \
  X(vkDestroyShaderModule)                                                                                             \
  X(vkCreatePipelineCache)                                                                                             \
  X(vkDestroyPipelineCache)                                                                                            \
  X(vkGetPipelineCacheData)                                                                                            \
  X(vkCreateComputePipelines)                                                                                          \
  X(vkDestroyPipeline)                                                                                                 \
  X(vkCreatePipelineLayout)                                                                                            \
  X(vkDestroyPipelineLayout)                                                                                           \
  X(vkCreateDescriptorSetLayout)                                                                                       \
  X(vkDestroyDescriptorSetLayout)                                                                                      \
  X(vkCreateDescriptorPool)                                                                                            \
  X(vkDestroyDescriptorPool)                                                                                           \
  X(vkAllocateDescriptorSets)                                                                                          \
  X(vkUpdateDescriptorSets)                                                                                            \
  X(vkCreateCommandPool)                                                                                               \
  X(vkDestroyCommandPool)                                                                                              \
  X(vkAllocateCommandBuffers)                                                                                          \
  X(vkBeginCommandBuffer)                                                                                              \
  X(vkEndCommandBuffer)                                                                                                \
  X(vkCmdBindPipeline)                                                                                                 \
  X(vkCmdBindDescriptorSets)                                                                                           \
  X(vkCmdPushConstants)                                                                                                \
  X(vkCmdDispatch)                                                                                                     \
  X(vkCmdCopyBuffer)                                                                                                   \
  X(vkCmdFillBuffer)                                                                                                   \
  X(vkCmdPipelineBarrier)                                                                                              \
  X(vkCreateQueryPool)                                                                                                 \
  X(vkDestroyQueryPool)                                                                                                \
  X(vkGetQueryPoolResults)                                                                                             \
  X(vkCmdResetQueryPool)                                                                                               \
  X(vkCmdWriteTimestamp)

typedef struct vk_findings {
  qn_mutex mutex;
  uint64_t count;
  char first[1024];
} vk_findings;

typedef struct vk_instance {
  VkInstance handle;
  VkDebugUtilsMessengerEXT messenger;
  vk_findings *findings; /* with validation only */
#define VK_FIELD(name) PFN_##name name;
  VK_INSTANCE_CALLS(VK_FIELD)
} vk_instance;

typedef struct vk_calls {
  VK_DEVICE_CALLS(VK_FIELD)
#undef VK_FIELD
} vk_calls;

/* A buffer with memory of its own. */
typedef struct vk_block {
  VkBuffer buffer;
  VkDeviceMemory memory;
  uint64_t size;
  void *host; /* mapped for good where the memory is host-visible */
} vk_block;

/* A place in the queue. */
typedef struct vk_node {
  struct vk_node *next;
  VkFence fence;
  uint64_t seq, ticket; /* ticket 0: not a submission of the caller's */
  unsigned waiters;     /* threads that look at the fence without the lock */
} vk_node;

/* A staging buffer and a command buffer that copies from or to it. */
typedef struct vk_transfer {
  struct vk_transfer *next;
  vk_block block;
  VkCommandBuffer cmd;
  uint64_t seq; /* free again when this is done */
} vk_transfer;

typedef struct vk_device {
  qn_device base;
  vk_instance *instance; /* shared, or its own with validation */
  VkPhysicalDevice physical;
  VkDevice handle;
  vk_calls vk;
  VkPhysicalDeviceMemoryProperties memory;
  uint8_t cache_uuid[VK_UUID_SIZE];
  uint32_t vendor_id, device_id;
  double timestamp_ns; /* per tick; 0: the queue has none */
  uint64_t timestamp_mask;
  uint32_t family;
  qn_mutex lock; /* the queue, nodes, transfers, layouts */
  VkQueue queue;
  VkCommandPool pool; /* of transfers */
  vk_node *oldest, **newest, *spare;
  vk_transfer *transfers;
  uint64_t seq, tickets;
  atomic_ullong done_seq, done_ticket;
  VkDescriptorSetLayout set_layouts[QN_MAX_BINDINGS + 1];
  VkPipelineLayout layouts[QN_MAX_BINDINGS + 1];
} vk_device;

typedef struct vk_buffer {
  qn_buffer base;
  vk_block block;
  uint64_t write_seq; /* newest queued copy that touches it */
} vk_buffer;

typedef struct vk_entry {
  VkPipeline pipeline;
  uint32_t binding_count, param_count;
} vk_entry;

typedef struct vk_program {
  qn_program base;
  VkPipelineCache cache;
  size_t count;
  vk_entry entries[];
} vk_program;

typedef struct vk_recording {
  qn_recording base;
  vk_block params;
  VkDescriptorPool sets;
  VkCommandPool pool;
  VkCommandBuffer cmd;
  VkQueryPool times;
  size_t cmd_count;
  bool *timed; /* which commands have a pair of timestamps */
  bool submitted;
} vk_recording;

/* loader.c */
qn_status qn_vk_shared_instance(vk_instance **out_instance); /* lives as long as the process */
qn_status qn_vk_validated_instance(vk_instance **out_instance);
void qn_vk_instance_destroy(vk_instance *i); /* of validated ones */
qn_status qn_vk_load_device(const vk_instance *i, VkDevice device, vk_calls *out_calls);
/* Failure with the first finding, if validation has found something. */
qn_status qn_vk_check_findings(const vk_device *d);
/* error.c */
#define VK_ERR(code, ...) qn_vk_fail((code), __FILE__, __LINE__, __VA_ARGS__)
qn_status qn_vk_fail(VkResult code, const char *file, int line, const char *format, ...) QN_PRINTF(4, 5);
/* caps.c */
typedef struct vk_features {
  VkPhysicalDeviceFeatures2 core;
  VkPhysicalDevice16BitStorageFeatures storage16;
  VkPhysicalDevice8BitStorageFeatures storage8;
  VkPhysicalDeviceShaderFloat16Int8Features small;
  const char *extensions[4];
  uint32_t extension_count;
} vk_features;
/* Queries what there is and asks for what Quern uses; the chain points into *out. */
qn_status qn_vk_features(const vk_instance *i, VkPhysicalDevice p, vk_features *out);
qn_status qn_vk_describe(const vk_instance *i, VkPhysicalDevice p, size_t index, qn_device_info *row);
/* spirv.c: what a driver may crash on is refused here. */
qn_status qn_vk_check_module(const vk_device *d, const qn_code_entry *e);
/* memory.c */
typedef enum vk_memory_use { VK_USE_DEVICE, VK_USE_UPLOAD, VK_USE_READBACK } vk_memory_use;
qn_status qn_vk_block_create(vk_device *d, uint64_t size, vk_memory_use use, vk_block *out_block);
void qn_vk_block_destroy(vk_device *d, vk_block *b);
/* buffer.c */
qn_status qn_vk_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
void qn_vk_buffer_destroy(qn_buffer *b);
void *qn_vk_buffer_map(qn_buffer *b);
qn_status qn_vk_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
qn_status qn_vk_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);
void qn_vk_transfers_free(vk_device *d);
/* program.c */
qn_status qn_vk_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                               qn_program **out_program);
qn_status qn_vk_program_binary(qn_program *p, qn_bytes *out_binary);
qn_status qn_vk_program_warm_up(qn_program *p);
void qn_vk_program_destroy(qn_program *p);
/* recording.c */
qn_status qn_vk_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
qn_status qn_vk_recording_times(qn_recording *r, uint64_t *out_ns, size_t count);
void qn_vk_recording_destroy(qn_recording *r);
/* Everything before happens before everything behind, host accesses at both ends included. */
void qn_vk_full_barrier(const vk_device *d, VkCommandBuffer cmd, bool from_host, bool to_host);
/* queue.c */
qn_status qn_vk_queue_open(vk_device *d);
bool qn_vk_queue_close(vk_device *d); /* bounded; false: it did not end, nothing may be freed */
/* Submits; the lock is held. ticket 0 for internal work. */
qn_status qn_vk_queue_push(vk_device *d, VkCommandBuffer cmd, uint64_t ticket);
/* Looks at the fences; the lock is held. */
qn_status qn_vk_queue_poll(vk_device *d);
qn_status qn_vk_wait_seq(vk_device *d, uint64_t seq, uint64_t timeout_ns);
/* Submits internal work, waits for it and destroys it; after QN_TIMEOUT it may still run, so it stays. */
qn_status qn_vk_run_once(vk_device *d, qn_recording *r);
qn_status qn_vk_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
qn_status qn_vk_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
bool qn_vk_done(qn_device *d, uint64_t ticket);
/* probe.c */
qn_status qn_vk_probe(vk_device *d);

#endif
