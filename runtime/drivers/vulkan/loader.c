/* Opens the Vulkan loader once and makes instances: a plain one for the whole process, and, with QN_VALIDATION=on, one
 * per device with the validation layer, whose findings are collected. */
#include "vk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static PFN_vkGetInstanceProcAddr get_proc;
static vk_instance shared;
static qn_error_copy failure;
static bool ready;

static const char *const loader_names[] = {"libvulkan.so.1", "libvulkan.so", "/system/lib64/libvulkan.so", NULL};
static const char swiftshader[] = "/usr/lib/chromium/vk_swiftshader_icd.json";
static const char layer_name[] = "VK_LAYER_KHRONOS_validation";

static qn_status load_calls(vk_instance *i) {
#define VK_LOAD(name)                                                                                                  \
  i->name = (PFN_##name)get_proc(i->handle, #name);                                                                    \
  if (!i->name)                                                                                                        \
    return QN_ERR(QN_NOT_FOUND, "Vulkan loader has no " #name);
  VK_INSTANCE_CALLS(VK_LOAD)
#undef VK_LOAD
  return QN_OK;
}

static VkApplicationInfo application(void) {
  return (VkApplicationInfo){.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "quern",
                             .pEngineName = "quern",
                             .apiVersion = VK_API_VERSION_1_1};
}

static qn_status make(const VkInstanceCreateInfo *info, vk_instance *out_instance) {
  PFN_vkCreateInstance create = (PFN_vkCreateInstance)get_proc(NULL, "vkCreateInstance");
  PFN_vkEnumerateInstanceVersion version = (PFN_vkEnumerateInstanceVersion)get_proc(NULL, "vkEnumerateInstanceVersion");
  if (!create || !version)
    return QN_ERR(QN_UNSUPPORTED, "the Vulkan loader offers Vulkan 1.0, 1.1 is needed");
  VkResult error = create(info, NULL, &out_instance->handle);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "Vulkan instance (no driver that works?)");
  QN_TRY(load_calls(out_instance));
  return QN_OK;
}

static qn_status open_all(void) {
  /* Chromium's software device, beside whatever else is installed. */
  if (!getenv("VK_ADD_DRIVER_FILES") && qn_file_exists(swiftshader))
    (void)setenv("VK_ADD_DRIVER_FILES", swiftshader, 0);
  qn_library *lib = NULL;
  QN_TRY(qn_library_open(loader_names, &lib));
  qn_status st = qn_library_symbol(lib, "vkGetInstanceProcAddr", &get_proc);
  qn_library_close(lib); /* stays mapped */
  QN_TRY(st);
  VkApplicationInfo app = application();
  QN_TRY(make(&(VkInstanceCreateInfo){.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app},
              &shared));
  return QN_OK;
}

static void load(void) {
  qn_status st = open_all();
  if (st != QN_OK)
    qn_error_save(st, &failure);
  ready = st == QN_OK;
}

qn_status qn_vk_shared_instance(vk_instance **out_instance) {
  (void)pthread_once(&once, load);
  *out_instance = ready ? &shared : NULL;
  return ready ? QN_OK : qn_error_restore(&failure);
}

/* ---- validation ---- */
static VkBool32 VKAPI_PTR on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                     VkDebugUtilsMessageTypeFlagsEXT type,
                                     const VkDebugUtilsMessengerCallbackDataEXT *data, void *arg) {
  (void)severity;
  (void)type;
  vk_findings *f = arg;
  qn_mutex_lock(&f->mutex);
  if (f->count++ == 0)
    (void)snprintf(f->first, sizeof f->first, "%s", data->pMessage ? data->pMessage : "(no text)");
  qn_mutex_unlock(&f->mutex);
  return VK_FALSE;
}

static bool has_layer(void) {
  PFN_vkEnumerateInstanceLayerProperties list =
      (PFN_vkEnumerateInstanceLayerProperties)get_proc(NULL, "vkEnumerateInstanceLayerProperties");
  uint32_t n = 0;
  if (!list || list(&n, NULL) != VK_SUCCESS || n == 0)
    return false;
  VkLayerProperties *layers = calloc(n, sizeof *layers);
  bool found = false;
  if (layers && list(&n, layers) >= 0)
    for (uint32_t i = 0; i < n; i++)
      found = found || strcmp(layers[i].layerName, layer_name) == 0;
  free(layers);
  return found;
}

static qn_status make_validated(vk_instance *i) {
  static const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
  static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                           VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
  static const char *const layers[] = {layer_name};
  VkApplicationInfo app = application();
  VkDebugUtilsMessengerCreateInfoEXT messenger = {.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
                                                  .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT |
                                                                     VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT,
                                                  .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
                                                  .pfnUserCallback = on_message,
                                                  .pUserData = i->findings};
  VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                      .enabledValidationFeatureCount = sizeof enabled / sizeof *enabled,
                                      .pEnabledValidationFeatures = enabled};
  VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                               .pNext = &features,
                               .pApplicationInfo = &app,
                               .enabledLayerCount = 1,
                               .ppEnabledLayerNames = layers,
                               .enabledExtensionCount = sizeof extensions / sizeof *extensions,
                               .ppEnabledExtensionNames = extensions};
  QN_TRY(make(&info, i));
  PFN_vkCreateDebugUtilsMessengerEXT create =
      (PFN_vkCreateDebugUtilsMessengerEXT)get_proc(i->handle, "vkCreateDebugUtilsMessengerEXT");
  VkResult error = create ? create(i->handle, &messenger, NULL, &i->messenger) : VK_ERROR_EXTENSION_NOT_PRESENT;
  if (error != VK_SUCCESS)
    return VK_ERR(error, "Vulkan validation messages");
  return QN_OK;
}

/* The layer keeps tables in static memory: mapped once, it stays, or every instance would strand its own. */
static void hold_layer(void) {
  static const char *const names[] = {"libVkLayer_khronos_validation.so", NULL};
  qn_library *lib = NULL;
  if (qn_library_open(names, &lib) == QN_OK)
    qn_library_close(lib);
}

qn_status qn_vk_validated_instance(vk_instance **out_instance) {
  vk_instance *plain;
  *out_instance = NULL;
  QN_TRY(qn_vk_shared_instance(&plain));
  if (!has_layer())
    return QN_ERR(QN_UNSUPPORTED, "QN_VALIDATION is on, but %s is not installed", layer_name);
  hold_layer();
  vk_instance *i = calloc(1, sizeof *i);
  if (i)
    i->findings = calloc(1, sizeof *i->findings);
  if (!i || !i->findings || qn_mutex_init(&i->findings->mutex) != QN_OK) {
    if (i)
      free(i->findings);
    free(i);
    return QN_ERR(QN_OUT_OF_MEMORY, "Vulkan validation: no memory");
  }
  qn_status st = make_validated(i);
  if (st != QN_OK) {
    qn_vk_instance_destroy(i);
    return qn_error_trace(st, __FILE__, __LINE__, "make_validated");
  }
  *out_instance = i;
  return QN_OK;
}

void qn_vk_instance_destroy(vk_instance *i) {
  if (!i || i == &shared)
    return;
  if (i->messenger) {
    PFN_vkDestroyDebugUtilsMessengerEXT destroy =
        (PFN_vkDestroyDebugUtilsMessengerEXT)get_proc(i->handle, "vkDestroyDebugUtilsMessengerEXT");
    if (destroy)
      destroy(i->handle, i->messenger, NULL);
  }
  if (i->handle && i->vkDestroyInstance)
    i->vkDestroyInstance(i->handle, NULL);
  qn_mutex_destroy(&i->findings->mutex);
  free(i->findings);
  free(i);
}

uint64_t qn_vk_finding_count(const qn_device *d) {
  vk_findings *f = ((const vk_device *)d)->instance->findings;
  if (!f)
    return 0;
  qn_mutex_lock(&f->mutex);
  uint64_t n = f->count;
  qn_mutex_unlock(&f->mutex);
  return n;
}

qn_status qn_vk_check_findings(const vk_device *d) {
  vk_findings *f = d->instance->findings;
  if (!f || qn_vk_finding_count(&d->base) == 0)
    return QN_OK;
  /* The text is written once, before the count is seen to be positive. */
  return QN_ERR(QN_INTERNAL, "Vulkan validation on %s: %s", d->base.caps.id, f->first);
}

qn_status qn_vk_load_device(const vk_instance *i, VkDevice device, vk_calls *out_calls) {
#define VK_LOAD(name)                                                                                                  \
  out_calls->name = (PFN_##name)i->vkGetDeviceProcAddr(device, #name);                                                 \
  if (!out_calls->name)                                                                                                \
    return QN_ERR(QN_UNSUPPORTED, "the Vulkan driver has no " #name);
  VK_DEVICE_CALLS(VK_LOAD)
#undef VK_LOAD
  return QN_OK;
}
