/* Blocks of memory: the type is chosen by use. Where all memory is the host's, buffers are host memory, mapped for good. */
#include "vk.h"

#include <string.h>

enum { VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT };

typedef struct memory_choice {
  VkMemoryPropertyFlags required, liked, disliked;
} memory_choice;

static memory_choice choice_of(const vk_device *d, vk_memory_use use) {
  if (use == VK_USE_UPLOAD)
    return (memory_choice){VISIBLE, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0};
  if (use == VK_USE_READBACK)
    return (memory_choice){VISIBLE, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT};
  if (d->base.caps.host_memory)
    return (memory_choice){VISIBLE, VK_MEMORY_PROPERTY_HOST_CACHED_BIT | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  return (memory_choice){VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT};
}

static int bits(VkMemoryPropertyFlags f) {
  int n = 0;
  for (; f; f &= f - 1)
    n++;
  return n;
}

/* The best type; -1 if none will do. */
static int32_t pick(const vk_device *d, uint32_t allowed, memory_choice want) {
  int best_score = 0;
  int32_t best = -1;
  for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
    VkMemoryPropertyFlags have = d->memory.memoryTypes[i].propertyFlags;
    if (!(allowed >> i & 1) || (have & want.required) != want.required)
      continue;
    int score = 100 + 10 * bits(have & want.liked) - bits(have & want.disliked);
    if (score > best_score) {
      best_score = score;
      best = (int32_t)i;
    }
  }
  return best;
}

static qn_status give_memory(vk_device *d, vk_memory_use use, vk_block *b) {
  VkMemoryRequirements need;
  d->vk.vkGetBufferMemoryRequirements(d->handle, b->buffer, &need);
  memory_choice want = choice_of(d, use);
  int32_t type = pick(d, need.memoryTypeBits, want);
  if (type < 0 && use == VK_USE_DEVICE) /* some devices have no local memory that takes buffers */
    type = pick(d, need.memoryTypeBits, (memory_choice){0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0});
  if (type < 0)
    return QN_ERR(QN_UNSUPPORTED, "device %s has no memory of the kind needed", d->base.caps.id);
  VkMemoryAllocateInfo info = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = need.size, .memoryTypeIndex = (uint32_t)type};
  VkResult error = d->vk.vkAllocateMemory(d->handle, &info, NULL, &b->memory);
  if (error == VK_SUCCESS)
    error = d->vk.vkBindBufferMemory(d->handle, b->buffer, b->memory, 0);
  bool mapped = use != VK_USE_DEVICE || d->base.caps.host_memory;
  if (error == VK_SUCCESS && mapped)
    error = d->vk.vkMapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &b->host);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "device %s: %llu bytes of memory", d->base.caps.id, (unsigned long long)need.size);
  return QN_OK;
}

qn_status qn_vk_block_create(vk_device *d, uint64_t size, vk_memory_use use, vk_block *out_block) {
  *out_block = (vk_block){.size = size};
  VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                             .size = size,
                             .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                      VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                             .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
  VkResult error = d->vk.vkCreateBuffer(d->handle, &info, NULL, &out_block->buffer);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "device %s: buffer of %llu bytes", d->base.caps.id, (unsigned long long)size);
  qn_status st = give_memory(d, use, out_block);
  if (st != QN_OK) {
    qn_vk_block_destroy(d, out_block);
    return qn_error_trace(st, __FILE__, __LINE__, "give_memory");
  }
  return QN_OK;
}

void qn_vk_block_destroy(vk_device *d, vk_block *b) {
  if (b->buffer)
    d->vk.vkDestroyBuffer(d->handle, b->buffer, NULL);
  if (b->memory)
    d->vk.vkFreeMemory(d->handle, b->memory, NULL);
  *b = (vk_block){0};
}
