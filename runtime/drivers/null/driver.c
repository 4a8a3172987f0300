/* The null device: one row, always usable, never the default. */
#include "null.h"

#include <stdlib.h>
#include <string.h>

static void describe(qn_device_caps *c) {
  *c = (qn_device_caps){.device_class = QN_CLASS_GPU,
                        .format = QN_CODE_NULL,
                        .software = true,
                        .host_memory = true,
                        .compute_units = 1,
                        .max_group_items = 1024,
                        .max_groups = {65535, 65535, 65535},
                        .local_bytes = 65536,
                        .max_bindings = QN_MAX_BINDINGS,
                        .subgroup_size = 1,
                        .vector_lanes = 4,
                        .cache_line = 64,
                        .memory_bytes = UINT64_C(1) << 40,
                        .max_buffer_bytes = UINT64_C(1) << 40,
                        .max_range_bytes = UINT64_C(1) << 40,
                        .f16 = true,
                        .f64 = true,
                        .i64 = true,
                        .i16 = true,
                        .i8 = true,
                        .storage8 = true,
                        .storage16 = true,
                        .max_loop_rounds = UINT32_MAX,
                        .denormals = true,
                        .fma = true};
  (void)snprintf(c->id, sizeof c->id, "null");
  (void)snprintf(c->name, sizeof c->name, "null device (launches do nothing)");
  (void)snprintf(c->driver, sizeof c->driver, "Quern %s", QN_VERSION);
  (void)snprintf(c->platform, sizeof c->platform, "Quern");
  (void)snprintf(c->vendor, sizeof c->vendor, "Quern");
}

static qn_status null_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  qn_device_info row = {.usable = true};
  describe(&row.caps);
  (void)snprintf(row.reason, sizeof row.reason, "for tests; computes nothing");
  QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  return QN_OK;
}

static void null_destroy(qn_device *d) { free(d); }

static const qn_device_vt table = {
    .destroy = null_destroy,
    .buffer_create = qn_null_buffer_create,
    .buffer_destroy = qn_null_buffer_destroy,
    .buffer_map = qn_null_buffer_map,
    .buffer_write = qn_null_buffer_write,
    .buffer_read = qn_null_buffer_read,
    .program_create = qn_null_program_create,
    .program_binary = qn_null_program_binary,
    .program_warm_up = qn_null_program_warm_up,
    .program_destroy = qn_null_program_destroy,
    .record = qn_null_record,
    .recording_times = qn_null_recording_times,
    .recording_destroy = qn_null_recording_destroy,
    .submit = qn_null_submit,
    .wait = qn_null_wait,
    .done = qn_null_done,
};

static qn_status null_open(const qn_device_info *info, qn_device **out_device) {
  null_device *d = calloc(1, sizeof *d);
  if (!d)
    return QN_ERR(QN_OUT_OF_MEMORY, "open the null device: no memory");
  d->base.vt = &table;
  d->base.caps = info->caps;
  *out_device = &d->base;
  return QN_OK;
}

const qn_driver qn_driver_null = {.name = "null", .by_nodes = true, .enumerate = null_enumerate, .open = null_open};
