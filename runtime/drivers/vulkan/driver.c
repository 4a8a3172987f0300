/* Vulkan's physical devices: enumeration with reasons, opening. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 32 };

static qn_status skipped(qn_device_info **infos, size_t *count, size_t *capacity, const char *name,
                         const char *reason) {
  qn_device_info row = {0};
  (void)snprintf(row.caps.id, sizeof row.caps.id, "vulkan");
  (void)snprintf(row.caps.name, sizeof row.caps.name, "%.120s", name);
  (void)snprintf(row.reason, sizeof row.reason, "%.250s", reason);
  return qn_device_info_append(infos, count, capacity, &row);
}

static uint32_t list(const vk_instance *i, VkPhysicalDevice out[MOST_DEVICES]) {
  uint32_t n = MOST_DEVICES;
  VkResult result = i->vkEnumeratePhysicalDevices(i->handle, &n, out);
  return result == VK_SUCCESS || result == VK_INCOMPLETE ? n : 0;
}

static qn_status vk_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  vk_instance *i;
  if (qn_vk_shared_instance(&i) != QN_OK)
    return skipped(infos, count, capacity, "no loader", qn_error_message());
  VkPhysicalDevice physical[MOST_DEVICES];
  uint32_t n = list(i, physical);
  if (n == 0)
    return skipped(infos, count, capacity, "no device",
                   "the loader finds no device; install a driver, such as "
                   "mesa-vulkan-drivers");
  for (uint32_t k = 0; k < n; k++) {
    qn_device_info row = {0};
    QN_TRY(qn_vk_describe(i, physical[k], k, &row));
    QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  }
  return QN_OK;
}

/* ---- opening ---- */
static void free_layouts(vk_device *d) {
  for (size_t n = 0; n <= QN_MAX_BINDINGS; n++) {
    if (d->layouts[n])
      d->vk.vkDestroyPipelineLayout(d->handle, d->layouts[n], NULL);
    if (d->set_layouts[n])
      d->vk.vkDestroyDescriptorSetLayout(d->handle, d->set_layouts[n], NULL);
  }
}

static void vk_destroy(qn_device *base) {
  vk_device *d = (vk_device *)base;
  if (d->vk.vkDestroyDevice && d->queue) {
    if (!qn_vk_queue_close(d))
      return; /* the device never answered: nothing of it may be freed */
    qn_vk_transfers_free(d);
    free_layouts(d);
  }
  if (d->vk.vkDestroyDevice)
    d->vk.vkDestroyDevice(d->handle, NULL);
  qn_mutex_destroy(&d->lock);
  qn_vk_instance_destroy(d->instance);
  free(d);
}

static const qn_device_vt table = {
    .destroy = vk_destroy,
    .buffer_create = qn_vk_buffer_create,
    .buffer_destroy = qn_vk_buffer_destroy,
    .buffer_map = qn_vk_buffer_map,
    .buffer_write = qn_vk_buffer_write,
    .buffer_read = qn_vk_buffer_read,
    .program_create = qn_vk_program_create,
    .program_binary = qn_vk_program_binary,
    .program_warm_up = qn_vk_program_warm_up,
    .program_destroy = qn_vk_program_destroy,
    .record = qn_vk_record,
    .recording_times = qn_vk_recording_times,
    .recording_destroy = qn_vk_recording_destroy,
    .submit = qn_vk_submit,
    .wait = qn_vk_wait,
    .done = qn_vk_done,
};

static qn_status pick_family(vk_device *d) {
  VkQueueFamilyProperties families[32];
  uint32_t n = sizeof families / sizeof *families;
  d->instance->vkGetPhysicalDeviceQueueFamilyProperties(d->physical, &n, families);
  uint32_t best = UINT32_MAX;
  for (uint32_t k = 0; k < n; k++) {
    bool compute = families[k].queueFlags & VK_QUEUE_COMPUTE_BIT;
    /* Without graphics a long kernel does not hold up the screen. */
    bool alone = !(families[k].queueFlags & VK_QUEUE_GRAPHICS_BIT);
    if (compute && (best == UINT32_MAX || alone))
      best = k;
  }
  if (best == UINT32_MAX)
    return QN_ERR(QN_UNSUPPORTED, "open %s: no compute queue", d->base.caps.id);
  d->family = best;
  uint32_t bits = families[best].timestampValidBits;
  VkPhysicalDeviceProperties p;
  d->instance->vkGetPhysicalDeviceProperties(d->physical, &p);
  d->timestamp_ns = bits ? (double)p.limits.timestampPeriod : 0;
  d->timestamp_mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  memcpy(d->cache_uuid, p.pipelineCacheUUID, sizeof d->cache_uuid);
  d->vendor_id = p.vendorID;
  d->device_id = p.deviceID;
  return QN_OK;
}

static qn_status create_device(vk_device *d) {
  vk_features f;
  QN_TRY(pick_family(d));
  QN_TRY(qn_vk_features(d->instance, d->physical, &f));
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                   .queueFamilyIndex = d->family,
                                   .queueCount = 1,
                                   .pQueuePriorities = &priority};
  VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                             .pNext = &f.core,
                             .queueCreateInfoCount = 1,
                             .pQueueCreateInfos = &queue,
                             .enabledExtensionCount = f.extension_count,
                             .ppEnabledExtensionNames = f.extensions};
  VkResult error = d->instance->vkCreateDevice(d->physical, &info, NULL, &d->handle);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "open %s (%s)", d->base.caps.id, d->base.caps.name);
  QN_TRY(qn_vk_load_device(d->instance, d->handle, &d->vk));
  d->instance->vkGetPhysicalDeviceMemoryProperties(d->physical, &d->memory);
  QN_TRY(qn_vk_queue_open(d));
  return qn_vk_probe(d);
}

static qn_status find_physical(vk_device *d) {
  VkPhysicalDevice physical[MOST_DEVICES];
  uint32_t n = list(d->instance, physical);
  const char *colon = strchr(d->base.caps.id, ':');
  unsigned long wanted = colon ? strtoul(colon + 1, NULL, 10) : 0;
  if (wanted >= n)
    return QN_ERR(QN_NOT_FOUND, "open %s: it is gone, there are %u devices now", d->base.caps.id, n);
  d->physical = physical[wanted];
  return QN_OK;
}

static qn_status vk_open(const qn_device_info *info, qn_device **out_device) {
  vk_device *d = calloc(1, sizeof *d);
  if (!d)
    return QN_ERR(QN_OUT_OF_MEMORY, "open %s: no memory", info->caps.id);
  d->base.vt = &table;
  d->base.caps = info->caps;
  qn_status st = qn_mutex_init(&d->lock);
  if (st != QN_OK) {
    free(d);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_mutex_init");
  }
  QN_TRY_GOTO(
      st, qn_env_on(QN_ENV_VALIDATION) ? qn_vk_validated_instance(&d->instance) : qn_vk_shared_instance(&d->instance),
      failed);
  QN_TRY_GOTO(st, find_physical(d), failed);
  QN_TRY_GOTO(st, create_device(d), failed);
  *out_device = &d->base;
  return QN_OK;
failed:
  vk_destroy(&d->base);
  return st;
}

const qn_driver qn_driver_vulkan = {.name = "vulkan", .by_nodes = true, .enumerate = vk_enumerate, .open = vk_open};
