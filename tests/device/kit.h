/* Devices and kernels for the device tests: every kernel in OpenCL C, SPIR-V and plain C, so that each case runs on every
 * device that is there. Tests open devices themselves, never their parent process. */
#ifndef QUERN_TEST_DEVICE_KIT_H
#define QUERN_TEST_DEVICE_KIT_H

#include <stdlib.h>
#include <string.h>

#include "quern/driver.h"
#include "shaders/words.h"
#include "support.h"

static const qn_driver *const kit_drivers[] = {
    &qn_driver_null,
    &qn_driver_cpu,
#ifdef QN_HAVE_OPENCL
    &qn_driver_opencl,
#endif
#ifdef QN_HAVE_VULKAN
    &qn_driver_vulkan,
#endif
};
enum { KIT_DRIVERS = sizeof kit_drivers / sizeof *kit_drivers };

enum { KIT_ITEMS = 64 };
typedef enum kit_kernel { KIT_ADD, KIT_COUNT, KIT_CHAIN, KIT_SLOW, KIT_FUSED, KIT_LOCAL, KIT_KERNELS } kit_kernel;

static const char kit_source[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#define GROUP (get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)))\n"
    "#define KERNEL __kernel __attribute__((reqd_work_group_size(64, 1, 1))) void\n"
    "#define TAIL __global const uint *p, uint base\n"
    "#define BEGIN uint g = GROUP; if (g >= p[base]) return; uint i = g * 64 + get_local_id(0);\n"
    "KERNEL add(__global uchar *b0, __global uchar *b1, __global uchar *b2, TAIL) {\n"
    "  BEGIN\n"
    "  __global const float *a = (__global const float *)b0, *b = (__global const float *)b1;\n"
    "  if (i < p[base + 1]) ((__global float *)b2)[i + p[base + 4]] = a[i + p[base + 2]] + b[i + p[base + 3]];\n"
    "}\n"
    "KERNEL count(__global uchar *b0, TAIL) {\n"
    "  BEGIN\n"
    "  if (i == g * 64) ((__global uint *)b0)[g] += 1;\n"
    "}\n"
    "KERNEL chain(__global uchar *b0, __global uchar *b1, TAIL) {\n"
    "  BEGIN\n"
    "  uint n = p[base + 1];\n"
    "  if (i < n) ((__global uint *)b1)[i] = ((__global uint *)b0)[n - 1 - i] * 3 + 1;\n"
    "}\n"
    "KERNEL slow(__global uchar *b0, TAIL) {\n"
    "  BEGIN\n"
    "  uint v = i;\n"
    "  for (uint k = 0; k < p[base + 1]; k++) v = v * 1664525u + 1013904223u;\n"
    "  ((__global uint *)b0)[i] = v;\n"
    "}\n"
    "KERNEL fused(__global uchar *b0, __global uchar *b1, __global uchar *b2, TAIL) {\n"
    "  BEGIN\n"
    "  float a = ((__global float *)b0)[i < p[base + 1] ? i : 0];\n"
    "  if (i < p[base + 1]) ((__global float *)b2)[i] = a * a + ((__global float *)b1)[i];\n"
    "}\n"
    "KERNEL local_sum(__global uchar *b0, __global uchar *b1, TAIL) {\n"
    "  __local uint part[64];\n"
    "  BEGIN\n"
    "  uint l = get_local_id(0);\n"
    "  part[l] = ((__global uint *)b0)[i];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (uint s = 32; s > 0; s >>= 1) {\n"
    "    if (l < s) part[l] += part[l + s];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  }\n"
    "  if (l == 0) ((__global uint *)b1)[g] = part[0];\n"
    "}\n";

static void kit_native_add(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  for (uint32_t i = g0 * KIT_ITEMS; i < g1 * KIT_ITEMS && i < p[1]; i++)
    ((float *)b[2])[i + p[4]] = ((float *)b[0])[i + p[2]] + ((float *)b[1])[i + p[3]];
}
static void kit_native_count(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  (void)p;
  for (uint32_t g = g0; g < g1; g++)
    ((uint32_t *)b[0])[g]++;
}
static void kit_native_chain(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  for (uint32_t i = g0 * KIT_ITEMS; i < g1 * KIT_ITEMS && i < p[1]; i++)
    ((uint32_t *)b[1])[i] = ((uint32_t *)b[0])[p[1] - 1 - i] * 3 + 1;
}
static void kit_native_slow(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  for (uint32_t i = g0 * KIT_ITEMS; i < g1 * KIT_ITEMS; i++) {
    uint32_t v = i;
    for (uint32_t k = 0; k < p[1]; k++)
      v = v * 1664525u + 1013904223u;
    ((uint32_t *)b[0])[i] = v;
  }
}
static void kit_native_fused(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  for (uint32_t i = g0 * KIT_ITEMS; i < g1 * KIT_ITEMS && i < p[1]; i++)
    ((float *)b[2])[i] = ((float *)b[0])[i] * ((float *)b[0])[i] + ((float *)b[1])[i];
}
static void kit_native_local(const void *x, void *const *b, const uint32_t *p, uint32_t g0, uint32_t g1) {
  (void)x;
  (void)p;
  for (uint32_t g = g0; g < g1; g++) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < KIT_ITEMS; i++)
      sum += ((uint32_t *)b[0])[g * KIT_ITEMS + i];
    ((uint32_t *)b[1])[g] = sum;
  }
}

#define KIT_ROW(function, text, bindings, words, module, host)                                                         \
  {                                                                                                                    \
    .name = function, .label = text, .items = KIT_ITEMS, .binding_count = bindings, .param_count = words,              \
    .spirv = module, .spirv_bytes = sizeof module, .native = host                                                      \
  }
static const qn_code_entry kit_entries[KIT_KERNELS] = {
    [KIT_ADD] = KIT_ROW("add", "add (test.c:1)", 3, 5, spirv_add, kit_native_add),
    [KIT_COUNT] = KIT_ROW("count", "count (test.c:2)", 1, 1, spirv_count, kit_native_count),
    [KIT_CHAIN] = KIT_ROW("chain", "chain (test.c:3)", 2, 2, spirv_chain, kit_native_chain),
    [KIT_SLOW] = KIT_ROW("slow", "slow (test.c:4)", 1, 2, spirv_slow, kit_native_slow),
    [KIT_FUSED] = KIT_ROW("fused", "fused (test.c:5)", 3, 2, spirv_fused, kit_native_fused),
    [KIT_LOCAL] = KIT_ROW("local_sum", "local (test.c:6)", 2, 1, spirv_local, kit_native_local),
};

/* The program of all kernels in the device's own format. */
static inline qn_code kit_code(const qn_device *d) {
  return (qn_code){.format = qn_device_get_caps(d)->format,
                   .source = kit_source,
                   .source_bytes = sizeof kit_source - 1,
                   .entries = kit_entries,
                   .entry_count = KIT_KERNELS};
}

static inline qn_status kit_program(qn_device *d, qn_program **out_program) {
  qn_code code = kit_code(d);
  return qn_program_create(d, &code, NULL, NULL, out_program);
}

static inline qn_status kit_buffer(qn_device *d, uint64_t size, const char *label, qn_buffer **out_buffer) {
  return qn_buffer_create(d, &(qn_buffer_desc){.size = size, .label = label}, out_buffer);
}

/* Does the device compute? */
static inline bool kit_computes(const qn_device *d) { return qn_device_get_caps(d)->format != QN_CODE_NULL; }

static inline qn_cmd kit_launch(qn_program *p, kit_kernel kernel, uint32_t groups, const uint32_t *bindings,
                                const uint32_t *params) {
  qn_cmd c = {.kind = QN_CMD_LAUNCH, .program = p, .entry = kernel, .groups = groups, .params = params};
  c.binding_count = kit_entries[kernel].binding_count;
  c.param_count = kit_entries[kernel].param_count;
  memcpy(c.bindings, bindings, c.binding_count * sizeof *bindings);
  return c;
}

/* Records, submits, waits, releases. */
static inline qn_status kit_run(qn_device *d, const qn_cmd *cmds, size_t count, qn_buffer *const *buffers, size_t n) {
  qn_recording *r = NULL;
  uint64_t ticket = 0;
  QN_TRY(
      qn_record(d, &(qn_recording_desc){.cmds = cmds, .cmd_count = count, .buffers = buffers, .buffer_count = n}, &r));
  qn_status st = qn_submit(d, r, NULL, 0, &ticket);
  if (st == QN_OK)
    st = qn_device_wait(d, ticket, 0);
  qn_recording_release(r);
  return st;
}

/* The ids of all usable devices, which the caller's process then opens one after another. */
typedef struct kit_list {
  char ids[32][32];
  size_t count;
} kit_list;
static inline qn_status kit_devices(kit_list *out_list) {
  qn_device_info *infos;
  size_t count;
  out_list->count = 0;
  QN_TRY(qn_devices_list(kit_drivers, KIT_DRIVERS, &infos, &count));
  for (size_t i = 0; i < count && out_list->count < 32; i++)
    if (infos[i].usable)
      memcpy(out_list->ids[out_list->count++], infos[i].caps.id, sizeof infos[i].caps.id);
  free(infos);
  return QN_OK;
}
static inline qn_status kit_open(const char *id, qn_device **out_device) {
  return qn_device_open(kit_drivers, KIT_DRIVERS, id, out_device);
}

#endif
