/* Vulkan's results as names and as statuses. */
#include "vk.h"

typedef struct result_row {
  VkResult code;
  const char *name;
  qn_status status;
} result_row;

#define ROW(code, status)                                                                                              \
  { code, #code, status }
static const result_row rows[] = {
    ROW(VK_NOT_READY, QN_TIMEOUT),
    ROW(VK_TIMEOUT, QN_TIMEOUT),
    ROW(VK_ERROR_OUT_OF_HOST_MEMORY, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_OUT_OF_DEVICE_MEMORY, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_OUT_OF_POOL_MEMORY, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_FRAGMENTED_POOL, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_TOO_MANY_OBJECTS, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_INITIALIZATION_FAILED, QN_UNSUPPORTED),
    ROW(VK_ERROR_DEVICE_LOST, QN_DEVICE_LOST),
    ROW(VK_ERROR_MEMORY_MAP_FAILED, QN_OUT_OF_MEMORY),
    ROW(VK_ERROR_LAYER_NOT_PRESENT, QN_UNSUPPORTED),
    ROW(VK_ERROR_EXTENSION_NOT_PRESENT, QN_UNSUPPORTED),
    ROW(VK_ERROR_FEATURE_NOT_PRESENT, QN_UNSUPPORTED),
    ROW(VK_ERROR_INCOMPATIBLE_DRIVER, QN_UNSUPPORTED),
    ROW(VK_ERROR_INVALID_SHADER_NV, QN_COMPILE),
    ROW(VK_ERROR_UNKNOWN, QN_INTERNAL),
};
#undef ROW

qn_status qn_vk_fail(VkResult code, const char *file, int line, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == code)
      return qn_error_raise(rows[i].status, file, line, "%s: %s (%d)", text, rows[i].name, (int)code);
  return qn_error_raise(QN_INTERNAL, file, line, "%s: unknown Vulkan result (%d)", text, (int)code);
}
