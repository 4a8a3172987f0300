/* What a physical device offers: features that are asked for where they exist, limits, names, and whether it can be used
 * at all. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

typedef struct extension_list {
  VkExtensionProperties *rows;
  uint32_t count;
} extension_list;

static extension_list list_extensions(const vk_instance *i, VkPhysicalDevice p) {
  extension_list l = {0};
  if (i->vkEnumerateDeviceExtensionProperties(p, NULL, &l.count, NULL) != VK_SUCCESS || l.count == 0)
    return (extension_list){0};
  l.rows = calloc(l.count, sizeof *l.rows);
  if (!l.rows || i->vkEnumerateDeviceExtensionProperties(p, NULL, &l.count, l.rows) < 0)
    l.count = 0;
  return l;
}

static bool offers(const extension_list *l, const char *name) {
  for (uint32_t i = 0; i < l->count; i++)
    if (strcmp(l->rows[i].extensionName, name) == 0)
      return true;
  return false;
}

qn_status qn_vk_features(const vk_instance *i, VkPhysicalDevice p, vk_features *out) {
  *out = (vk_features){.core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                       .storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                       .storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
                       .small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  extension_list l = list_extensions(i, p);
  out->core.pNext = &out->storage16;
  void **tail = &out->storage16.pNext;
  if (offers(&l, VK_KHR_8BIT_STORAGE_EXTENSION_NAME)) {
    *tail = &out->storage8;
    tail = &out->storage8.pNext;
    out->extensions[out->extension_count++] = VK_KHR_8BIT_STORAGE_EXTENSION_NAME;
  }
  if (offers(&l, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME)) {
    *tail = &out->small;
    out->extensions[out->extension_count++] = VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME;
  }
  free(l.rows);
  i->vkGetPhysicalDeviceFeatures2(p, &out->core);
  /* Only these are enabled. */
  VkPhysicalDeviceFeatures have = out->core.features;
  out->core.features = (VkPhysicalDeviceFeatures){
      .shaderFloat64 = have.shaderFloat64, .shaderInt64 = have.shaderInt64, .shaderInt16 = have.shaderInt16};
  out->storage16.uniformAndStorageBuffer16BitAccess = VK_FALSE;
  out->storage16.storagePushConstant16 = out->storage16.storageInputOutput16 = VK_FALSE;
  out->storage8.uniformAndStorageBuffer8BitAccess = out->storage8.storagePushConstant8 = VK_FALSE;
  return QN_OK;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void describe_limits(const vk_instance *i, VkPhysicalDevice p, const VkPhysicalDeviceLimits *l,
                            const VkPhysicalDeviceMaintenance3Properties *more, qn_device_caps *c) {
  c->max_group_items = least(l->maxComputeWorkGroupInvocations, l->maxComputeWorkGroupSize[0]);
  memcpy(c->max_groups, l->maxComputeWorkGroupCount, sizeof c->max_groups);
  c->local_bytes = l->maxComputeSharedMemorySize;
  /* One storage buffer is the parameter words'. */
  uint32_t bindings = least(l->maxPerStageDescriptorStorageBuffers, l->maxDescriptorSetStorageBuffers);
  bindings = least(bindings, l->maxPerStageResources);
  c->max_bindings = least(bindings ? bindings - 1 : 0, QN_MAX_BINDINGS);
  c->max_range_bytes = l->maxStorageBufferRange;
  VkPhysicalDeviceMemoryProperties m;
  i->vkGetPhysicalDeviceMemoryProperties(p, &m);
  for (uint32_t k = 0; k < m.memoryHeapCount; k++)
    if ((m.memoryHeaps[k].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && m.memoryHeaps[k].size > c->memory_bytes)
      c->memory_bytes = m.memoryHeaps[k].size;
  uint64_t most = more->maxMemoryAllocationSize;
  c->max_buffer_bytes = most && most < c->memory_bytes ? most : c->memory_bytes;
  c->compute_units = c->software ? (uint32_t)qn_cpu_count() : 32; /* core Vulkan does not say */
  c->vector_lanes = 4;
  c->cache_line = 64;
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                       VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  for (uint32_t k = 0; k < m.memoryTypeCount && c->host_memory == false; k++)
    c->host_memory = (m.memoryTypes[k].propertyFlags & wanted) == wanted;
}

static void describe_driver(const VkPhysicalDeviceProperties *p, const VkPhysicalDeviceDriverProperties *d,
                            qn_device_caps *c) {
  const char *name = d->driverName[0] ? d->driverName : p->deviceName;
  bool lavapipe = d->driverID == VK_DRIVER_ID_MESA_LLVMPIPE;
  (void)snprintf(c->platform, sizeof c->platform, "%s%.80s, Vulkan %u.%u.%u", lavapipe ? "lavapipe, " : "", name,
                 VK_API_VERSION_MAJOR(p->apiVersion), VK_API_VERSION_MINOR(p->apiVersion),
                 VK_API_VERSION_PATCH(p->apiVersion));
  (void)snprintf(c->driver, sizeof c->driver, "%.80s, %u.%u.%u", d->driverInfo[0] ? d->driverInfo : name,
                 VK_API_VERSION_MAJOR(p->driverVersion), VK_API_VERSION_MINOR(p->driverVersion),
                 VK_API_VERSION_PATCH(p->driverVersion));
}

static const char *vendor_name(uint32_t id) {
  static const struct {
    uint32_t id;
    const char *name;
  } rows[] = {{0x1002, "AMD"},      {0x10de, "NVIDIA"},      {0x8086, "Intel"}, {0x13b5, "ARM"},
              {0x5143, "Qualcomm"}, {0x1010, "Imagination"}, {0x106b, "Apple"}, {0x14e4, "Broadcom"},
              {0x10005, "Mesa"},    {0x1ae0, "Google"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].id == id)
      return rows[i].name;
  return "unknown";
}

static bool has_compute_queue(const vk_instance *i, VkPhysicalDevice p) {
  VkQueueFamilyProperties families[32];
  uint32_t n = sizeof families / sizeof *families;
  i->vkGetPhysicalDeviceQueueFamilyProperties(p, &n, families);
  for (uint32_t k = 0; k < n; k++)
    if (families[k].queueFlags & VK_QUEUE_COMPUTE_BIT)
      return true;
  return false;
}

static uint64_t pci_of(const VkPhysicalDevicePCIBusInfoPropertiesEXT *pci) {
  return (uint64_t)pci->pciDomain << 32 | (uint64_t)pci->pciBus << 16 | (uint64_t)pci->pciDevice << 8 |
         pci->pciFunction;
}

static void judge(const vk_instance *i, VkPhysicalDevice p, const VkPhysicalDeviceDriverProperties *driver,
                  uint32_t version, qn_device_info *row) {
  if (version < VK_API_VERSION_1_1)
    (void)snprintf(row->reason, sizeof row->reason, "it offers Vulkan 1.0, 1.1 is needed");
  else if (driver->driverID == VK_DRIVER_ID_MESA_RADV && getenv("RADV_FORCE_FAMILY"))
    (void)snprintf(row->reason, sizeof row->reason, "RADV_FORCE_FAMILY is set: it compiles, but runs nothing");
  else if (!has_compute_queue(i, p))
    (void)snprintf(row->reason, sizeof row->reason, "it has no compute queue");
  else
    row->usable = true;
}

qn_status qn_vk_describe(const vk_instance *i, VkPhysicalDevice p, size_t index, qn_device_info *row) {
  qn_device_caps *c = &row->caps;
  (void)snprintf(c->id, sizeof c->id, "vulkan:%zu", index);
  c->format = QN_CODE_SPIRV;
  VkPhysicalDeviceProperties first;
  i->vkGetPhysicalDeviceProperties(p, &first);
  VkPhysicalDeviceDriverProperties driver = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci = {.sType =
                                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
  VkPhysicalDeviceSubgroupProperties subgroup = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties more = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                 .pNext = &subgroup};
  VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &more};
  (void)snprintf(c->name, sizeof c->name, "%.120s", first.deviceName);
  (void)snprintf(c->vendor, sizeof c->vendor, "%s", vendor_name(first.vendorID));
  c->software = first.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  c->device_class = c->software ? QN_CLASS_CPU_SIMT : QN_CLASS_GPU;
  if (first.apiVersion >= VK_API_VERSION_1_1) {
    extension_list l = list_extensions(i, p);
    void **tail = &subgroup.pNext;
    if (offers(&l, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME) || first.apiVersion >= VK_API_VERSION_1_2) {
      *tail = &driver;
      tail = &driver.pNext;
    }
    if (offers(&l, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME))
      *tail = &pci;
    free(l.rows);
    i->vkGetPhysicalDeviceProperties2(p, &all);
    vk_features f;
    QN_TRY(qn_vk_features(i, p, &f));
    c->f64 = f.core.features.shaderFloat64;
    c->i64 = f.core.features.shaderInt64;
    c->i16 = f.core.features.shaderInt16;
    c->f16 = f.small.shaderFloat16;
    c->i8 = f.small.shaderInt8;
    c->storage16 = f.storage16.storageBuffer16BitAccess;
    c->storage8 = f.storage8.storageBuffer8BitAccess;
    describe_limits(i, p, &all.properties.limits, &more, c);
    c->subgroup_size = subgroup.subgroupSize;
    c->pci_id = c->software ? 0 : pci_of(&pci);
  }
  describe_driver(&first, &driver, c);
  judge(i, p, &driver, first.apiVersion, row);
  return QN_OK;
}
