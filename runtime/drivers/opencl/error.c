/* OpenCL's error numbers as names and as statuses. */
#include "ocl.h"

typedef struct error_row {
  cl_int code;
  const char *name;
  qn_status status;
} error_row;

#define ROW(code, status)                                                                                              \
  { code, #code, status }
static const error_row rows[] = {
    ROW(CL_DEVICE_NOT_FOUND, QN_NOT_FOUND),
    ROW(CL_DEVICE_NOT_AVAILABLE, QN_DEVICE_LOST),
    ROW(CL_COMPILER_NOT_AVAILABLE, QN_UNSUPPORTED),
    ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE, QN_OUT_OF_MEMORY),
    ROW(CL_OUT_OF_RESOURCES, QN_OUT_OF_MEMORY),
    ROW(CL_OUT_OF_HOST_MEMORY, QN_OUT_OF_MEMORY),
    ROW(CL_BUILD_PROGRAM_FAILURE, QN_COMPILE),
    ROW(CL_LINK_PROGRAM_FAILURE, QN_COMPILE),
    ROW(CL_COMPILE_PROGRAM_FAILURE, QN_COMPILE),
    ROW(CL_MAP_FAILURE, QN_INTERNAL),
    ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, QN_DEVICE_LOST),
    ROW(CL_INVALID_VALUE, QN_INTERNAL),
    ROW(CL_INVALID_DEVICE, QN_INTERNAL),
    ROW(CL_INVALID_CONTEXT, QN_INTERNAL),
    ROW(CL_INVALID_QUEUE_PROPERTIES, QN_UNSUPPORTED),
    ROW(CL_INVALID_COMMAND_QUEUE, QN_DEVICE_LOST),
    ROW(CL_INVALID_MEM_OBJECT, QN_INTERNAL),
    ROW(CL_INVALID_BINARY, QN_INTERNAL),
    ROW(CL_INVALID_BUILD_OPTIONS, QN_INTERNAL),
    ROW(CL_INVALID_PROGRAM, QN_INTERNAL),
    ROW(CL_INVALID_PROGRAM_EXECUTABLE, QN_COMPILE),
    ROW(CL_INVALID_KERNEL_NAME, QN_COMPILE),
    ROW(CL_INVALID_KERNEL_DEFINITION, QN_COMPILE),
    ROW(CL_INVALID_KERNEL, QN_INTERNAL),
    ROW(CL_INVALID_ARG_INDEX, QN_INVALID),
    ROW(CL_INVALID_ARG_VALUE, QN_INVALID),
    ROW(CL_INVALID_ARG_SIZE, QN_INVALID),
    ROW(CL_INVALID_KERNEL_ARGS, QN_INVALID),
    ROW(CL_INVALID_WORK_DIMENSION, QN_INTERNAL),
    ROW(CL_INVALID_WORK_GROUP_SIZE, QN_UNSUPPORTED),
    ROW(CL_INVALID_WORK_ITEM_SIZE, QN_UNSUPPORTED),
    ROW(CL_INVALID_GLOBAL_WORK_SIZE, QN_UNSUPPORTED),
    ROW(CL_INVALID_EVENT, QN_INTERNAL),
    ROW(CL_INVALID_OPERATION, QN_INTERNAL),
    ROW(CL_INVALID_BUFFER_SIZE, QN_OUT_OF_MEMORY),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR", QN_NOT_FOUND},
};
#undef ROW

static const error_row *find(cl_int code) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].code == code)
      return &rows[i];
  return NULL;
}

const char *qn_ocl_error_name(cl_int code) {
  const error_row *row = find(code);
  return row ? row->name : "unknown OpenCL error";
}

qn_status qn_ocl_fail(cl_int code, const char *file, int line, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const error_row *row = find(code);
  return qn_error_raise(row ? row->status : QN_INTERNAL, file, line, "%s: %s (%d)", text, qn_ocl_error_name(code),
                        (int)code);
}
