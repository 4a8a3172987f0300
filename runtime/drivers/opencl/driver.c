/* OpenCL platforms and devices: enumeration with reasons, capabilities, opening. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PLATFORMS = 32, MOST_DEVICES = 64 };

static void platform_text(const ocl_api *cl, cl_platform_id p, cl_platform_info what, char *out, size_t size) {
  char text[1024] = "";
  (void)cl->clGetPlatformInfo(p, what, sizeof text - 1, text, NULL);
  (void)snprintf(out, size, "%s", text);
}

static void device_text(const ocl_api *cl, cl_device_id id, cl_device_info what, char *out, size_t size) {
  char *text = calloc(1, 65536);
  if (text)
    (void)cl->clGetDeviceInfo(id, what, 65535, text, NULL);
  (void)snprintf(out, size, "%s", text ? text : "");
  free(text);
}

static cl_uint device_uint(const ocl_api *cl, cl_device_id id, cl_device_info what) {
  cl_uint value = 0;
  (void)cl->clGetDeviceInfo(id, what, sizeof value, &value, NULL);
  return value;
}
static uint64_t device_ulong(const ocl_api *cl, cl_device_id id, cl_device_info what) {
  cl_ulong value = 0;
  (void)cl->clGetDeviceInfo(id, what, sizeof value, &value, NULL);
  return value;
}
static size_t device_size(const ocl_api *cl, cl_device_id id, cl_device_info what) {
  size_t value = 0;
  (void)cl->clGetDeviceInfo(id, what, sizeof value, &value, NULL);
  return value;
}

static uint32_t narrow(uint64_t x) { return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* "OpenCL 1.2 ..." as 102; 0 if it is something else. */
static int version_of(const char *text) {
  int major = 0, minor = 0;
  return sscanf(text, "OpenCL %d.%d", &major, &minor) == 2 ? major * 100 + minor : 0;
}

static void classify(const ocl_api *cl, cl_device_id id, qn_device_caps *c) {
  cl_device_type type = 0;
  (void)cl->clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  c->software = (type & CL_DEVICE_TYPE_CPU) != 0;
  bool mesa = strstr(c->platform, "rusticl") || strstr(c->platform, "Clover");
  c->device_class = !c->software ? QN_CLASS_GPU : mesa ? QN_CLASS_CPU_SCALAR : QN_CLASS_CPU_TILE;
  uint32_t lanes = device_uint(cl, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
  c->vector_lanes = c->device_class == QN_CLASS_CPU_SCALAR ? 1
                    : c->device_class != QN_CLASS_CPU_TILE ? 4
                    : lanes >= 16                          ? 16
                    : lanes >= 8                           ? 8
                                                           : 4;
}

static void describe_limits(const ocl_api *cl, cl_device_id id, qn_device_caps *c) {
  size_t sizes[3] = {0};
  (void)cl->clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL);
  c->compute_units = device_uint(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS);
  c->max_group_items = least(narrow(device_size(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE)), narrow(sizes[0]));
  /* OpenCL bounds the global size only by the width of addresses. */
  bool wide = device_uint(cl, id, CL_DEVICE_ADDRESS_BITS) >= 64;
  c->max_groups[0] = wide ? 0x7fffffff : 0xfffff;
  c->max_groups[1] = c->max_groups[2] = 65535;
  c->local_bytes = narrow(device_ulong(cl, id, CL_DEVICE_LOCAL_MEM_SIZE));
  size_t argument_bytes = device_size(cl, id, CL_DEVICE_MAX_PARAMETER_SIZE);
  c->max_bindings = least(QN_MAX_BINDINGS, argument_bytes >= 256 ? narrow(argument_bytes / 8 - 3) : 4);
  c->subgroup_size = 1;
  c->cache_line = device_uint(cl, id, CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE);
  c->memory_bytes = device_ulong(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  c->max_buffer_bytes = c->max_range_bytes = device_ulong(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
}

static void describe_types(const ocl_api *cl, cl_device_id id, qn_device_caps *c) {
  char *extensions = calloc(1, 65536);
  char profile[64];
  device_text(cl, id, CL_DEVICE_PROFILE, profile, sizeof profile);
  if (extensions)
    (void)cl->clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, 65535, extensions, NULL);
  cl_device_fp_config f64 = 0;
  (void)cl->clGetDeviceInfo(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof f64, &f64, NULL);
  c->f16 = extensions && strstr(extensions, "cl_khr_fp16");
  c->f64 = extensions && strstr(extensions, "cl_khr_fp64") && f64 != 0;
  c->i64 = strstr(profile, "FULL_PROFILE") || (extensions && strstr(extensions, "cles_khr_int64"));
  /* LLVM 15 in llvmpipe crashes on selects of bytes, and Mesa makes them of wider ones whose result is stored as bytes. */
  c->i16 = c->i8 = c->storage8 = c->storage16 = c->device_class != QN_CLASS_CPU_SCALAR;
  free(extensions);
}

static void describe(const ocl_api *cl, cl_platform_id p, cl_device_id id, size_t index, qn_device_info *row) {
  qn_device_caps *c = &row->caps;
  char name[64], version[200], device_version[200];
  platform_text(cl, p, CL_PLATFORM_NAME, name, sizeof name);
  platform_text(cl, p, CL_PLATFORM_VERSION, version, sizeof version);
  (void)snprintf(c->platform, sizeof c->platform, "%s, %.60s", name, version);
  (void)snprintf(c->id, sizeof c->id, "opencl:%zu", index);
  device_text(cl, id, CL_DEVICE_NAME, c->name, sizeof c->name);
  device_text(cl, id, CL_DEVICE_VENDOR, c->vendor, sizeof c->vendor);
  device_text(cl, id, CL_DEVICE_VERSION, device_version, sizeof device_version);
  char driver[64];
  device_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver);
  (void)snprintf(c->driver, sizeof c->driver, "%.60s, %.60s", driver, device_version);
  c->format = QN_CODE_OPENCL_C;
  classify(cl, id, c);
  describe_limits(cl, id, c);
  describe_types(cl, id, c);
  if (!device_uint(cl, id, CL_DEVICE_AVAILABLE))
    (void)snprintf(row->reason, sizeof row->reason, "its driver says that it is not available");
  else if (!device_uint(cl, id, CL_DEVICE_COMPILER_AVAILABLE))
    (void)snprintf(row->reason, sizeof row->reason, "its driver has no compiler");
  else if (!device_uint(cl, id, CL_DEVICE_ENDIAN_LITTLE))
    (void)snprintf(row->reason, sizeof row->reason, "it is big-endian");
  else if (version_of(device_version) < 102)
    (void)snprintf(row->reason, sizeof row->reason, "it offers \"%.100s\", OpenCL 1.2 is needed", device_version);
  else if (!c->max_group_items || !c->max_buffer_bytes)
    (void)snprintf(row->reason, sizeof row->reason, "its driver reports no limits");
  else
    row->usable = true;
}

static qn_status skipped(qn_device_info **infos, size_t *count, size_t *capacity, const char *name,
                         const char *reason) {
  qn_device_info row = {0};
  (void)snprintf(row.caps.id, sizeof row.caps.id, "opencl");
  (void)snprintf(row.caps.name, sizeof row.caps.name, "%.120s", name);
  (void)snprintf(row.reason, sizeof row.reason, "%.250s", reason);
  return qn_device_info_append(infos, count, capacity, &row);
}

static qn_status list_platform(const ocl_api *cl, cl_platform_id p, size_t *index, qn_device_info **infos,
                               size_t *count, size_t *capacity) {
  cl_device_id ids[MOST_DEVICES];
  cl_uint n = 0;
  cl_int error = cl->clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &n);
  if (error != CL_SUCCESS || n == 0) {
    char name[96], why[200];
    platform_text(cl, p, CL_PLATFORM_NAME, name, sizeof name);
    (void)snprintf(why, sizeof why, "the platform has no devices: %s (%d)%s", qn_ocl_error_name(error), (int)error,
                   strstr(name, "rusticl") ? "; RUSTICL_ENABLE names what it may use" : "");
    return skipped(infos, count, capacity, name, why);
  }
  for (cl_uint i = 0; i < n && i < MOST_DEVICES; i++) {
    qn_device_info row = {0};
    describe(cl, p, ids[i], (*index)++, &row);
    QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  }
  return QN_OK;
}

static qn_status ocl_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  const ocl_api *cl;
  size_t vendors = 0;
  if (qn_ocl_api(&cl) != QN_OK)
    return skipped(infos, count, capacity, "no loader", qn_error_message());
  QN_TRY(qn_ocl_report_vendors(infos, count, capacity, &vendors));
  cl_platform_id platforms[MOST_PLATFORMS];
  cl_uint n = 0;
  cl_int error = cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &n);
  if (error != CL_SUCCESS || n == 0) {
    char why[200];
    (void)snprintf(why, sizeof why,
                   "the loader finds no driver: %s (%d); %zu vendor files were read; "
                   "install one, such as pocl-opencl-icd",
                   qn_ocl_error_name(error), (int)error, vendors);
    return skipped(infos, count, capacity, "no platform", why);
  }
  size_t index = 0;
  for (cl_uint i = 0; i < n && i < MOST_PLATFORMS; i++)
    QN_TRY(list_platform(cl, platforms[i], &index, infos, count, capacity));
  return QN_OK;
}

/* ---- opening ---- */
static qn_status find_device(const ocl_api *cl, const char *id, cl_platform_id *out_platform,
                             cl_device_id *out_device) {
  cl_platform_id platforms[MOST_PLATFORMS];
  cl_uint n = 0;
  size_t index = 0;
  const char *colon = strchr(id, ':');
  size_t wanted = colon ? (size_t)strtoul(colon + 1, NULL, 10) : 0;
  (void)cl->clGetPlatformIDs(MOST_PLATFORMS, platforms, &n);
  for (cl_uint i = 0; i < n && i < MOST_PLATFORMS; i++) {
    cl_device_id ids[MOST_DEVICES];
    cl_uint m = 0;
    if (cl->clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, MOST_DEVICES, ids, &m) != CL_SUCCESS)
      continue;
    m = least(m, MOST_DEVICES);
    if (wanted < index + m) {
      *out_platform = platforms[i];
      *out_device = ids[wanted - index];
      return QN_OK;
    }
    index += m;
  }
  return QN_ERR(QN_NOT_FOUND, "open %s: it is gone, there are %zu devices now", id, index);
}

static void ocl_destroy(qn_device *d) { qn_ocl_queue_close((ocl_device *)d); }

static const qn_device_vt table = {
    .destroy = ocl_destroy,
    .buffer_create = qn_ocl_buffer_create,
    .buffer_destroy = qn_ocl_buffer_destroy,
    .buffer_map = qn_ocl_buffer_map,
    .buffer_write = qn_ocl_buffer_write,
    .buffer_read = qn_ocl_buffer_read,
    .program_create = qn_ocl_program_create,
    .program_binary = qn_ocl_program_binary,
    .program_warm_up = qn_ocl_program_warm_up,
    .program_destroy = qn_ocl_program_destroy,
    .record = qn_ocl_record,
    .recording_times = qn_ocl_recording_times,
    .recording_destroy = qn_ocl_recording_destroy,
    .submit = qn_ocl_submit,
    .wait = qn_ocl_wait,
    .done = qn_ocl_done,
};

static qn_status ocl_open(const qn_device_info *info, qn_device **out_device) {
  const ocl_api *cl;
  QN_TRY(qn_ocl_api(&cl));
  cl_platform_id platform = NULL;
  cl_device_id id = NULL;
  QN_TRY(find_device(cl, info->caps.id, &platform, &id));
  ocl_device *d = calloc(1, sizeof *d);
  if (!d)
    return QN_ERR(QN_OUT_OF_MEMORY, "open %s: no memory", info->caps.id);
  d->base.vt = &table;
  d->base.caps = info->caps;
  d->cl = cl;
  d->id = id;
  d->unified = device_uint(cl, id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
  cl_device_fp_config f32 = 0;
  (void)cl->clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof f32, &f32, NULL);
  d->correct_division = (f32 & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  cl_int error = CL_SUCCESS;
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
  d->context = cl->clCreateContext(properties, 1, &id, NULL, NULL, &error);
  if (!d->context) {
    free(d);
    return OCL_ERR(error, "open %s: context", info->caps.id);
  }
  qn_status st = qn_ocl_queue_open(d);
  if (st != QN_OK) {
    (void)cl->clReleaseContext(d->context);
    free(d);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_ocl_queue_open");
  }
  st = qn_ocl_probe(d);
  if (st != QN_OK) {
    qn_ocl_queue_close(d);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_ocl_probe");
  }
  *out_device = &d->base;
  return QN_OK;
}

const qn_driver qn_driver_opencl = {.name = "opencl", .by_nodes = true, .enumerate = ocl_enumerate, .open = ocl_open};
