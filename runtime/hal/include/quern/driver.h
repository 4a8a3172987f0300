/* What a driver implements. A new one starts as a copy of runtime/drivers/null; same file names in each. See docs/adding-a-device.md. */
#ifndef QUERN_DRIVER_H
#define QUERN_DRIVER_H

#ifdef __cplusplus
#include <atomic>
using std::atomic_int;
using std::atomic_ullong;
#else
#include <stdatomic.h>
#endif

#include "quern/hal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qn_driver {
  const char *name; /* "cpu", "opencl", "vulkan", "null" */
  bool by_nodes;    /* its devices are software, or work through a node in /dev (qn_gpu_possible) */
  /* Appends this driver's devices, usable or not, with reasons. A missing loader is a reason, not a failure: one unusable row. */
  qn_status (*enumerate)(qn_device_info **infos, size_t *count, size_t *capacity);
  qn_status (*open)(const qn_device_info *info, qn_device **out_device);
};
/* Appends a row (for enumerate). */
qn_status qn_device_info_append(qn_device_info **infos, size_t *count, size_t *capacity, const qn_device_info *info);

typedef struct qn_device_vt {
  void (*destroy)(qn_device *d);
  qn_status (*buffer_create)(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
  void (*buffer_destroy)(qn_buffer *b);
  void *(*buffer_map)(qn_buffer *b);
  qn_status (*buffer_write)(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
  qn_status (*buffer_read)(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);
  qn_status (*program_create)(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                              qn_program **out_program);
  qn_status (*program_binary)(qn_program *p, qn_bytes *out_binary);
  qn_status (*program_warm_up)(qn_program *p);
  void (*program_destroy)(qn_program *p);
  qn_status (*record)(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
  qn_status (*recording_times)(qn_recording *r, uint64_t *out_ns, size_t count);
  void (*recording_destroy)(qn_recording *r);
  qn_status (*submit)(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
  qn_status (*wait)(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
  bool (*done)(qn_device *d, uint64_t ticket);
} qn_device_vt;

/* First members of every driver's objects. Drivers allocate them zeroed (calloc) and need not fill them: once a driver's function has returned QN_OK, the
 * HAL sets refs, device (retained), size, label, entries, counts, and keeps what the object needs alive (buffers and programs of a recording).
 * A driver sets only `vt` and `caps` of a device, and frees only its own object and what it added: the HAL has released the rest, or does so afterwards.
 * The HAL counts all statistics but descriptor_updates, waits before it destroys a recording that is in flight, and calls code->release.
 * vt->submit is called by one thread at a time, with no waits (the HAL has resolved them), and must number its submissions 1, 2, 3, ...; a submit that
 * fails takes no number. vt->wait has the real bound in nanoseconds; it returns QN_TIMEOUT with any message, the HAL writes the better one.
 * Binding and launch checks are done: cmds are valid, launches with 0 groups and empty copies are still there. */
struct qn_device {
  atomic_int refs;
  const qn_device_vt *vt;
  qn_device_caps caps;
  char why[256];            /* qn_device_why; the HAL's own */
  struct qn_hal_state *hal; /* the HAL's own */
  struct {
    atomic_ullong buffers_created, bytes_live, bytes_peak, programs_compiled, recordings, submits, launches, host_waits,
        bytes_written, bytes_read, descriptor_updates;
  } stats;
};
struct qn_buffer {
  atomic_int refs;
  qn_device *device;
  uint64_t size;
  char label[48];
};
struct qn_program {
  atomic_int refs;
  qn_device *device;
  size_t entry_count;
  struct qn_program_entry {
    char label[160];
    uint32_t items, binding_count, param_count;
  } * entries;
  void (*release)(void *owner);
  void *owner;
};
struct qn_recording {
  atomic_int refs;
  qn_device *device;
  size_t cmd_count, buffer_count;
  bool timestamps;
  size_t launch_count;       /* launches of at least one group */
  atomic_ullong last_ticket; /* newest submission */
  qn_buffer **buffers;       /* retained */
  qn_program **programs;     /* retained, one per launch */
  size_t program_count;
};

/* Folds a linear count of groups into three dimensions within the limits; the kernel's linear index is x + nx * (y + ny * z), and indexes from `groups` on
 * do nothing. False when they do not fit, or when the product would not fit a u32. groups 0 gives 0 x 1 x 1. */
bool qn_fold_groups(uint32_t groups, const uint32_t max_groups[3], uint32_t out_groups[3]);

/* Probes run n = n * 1664525 + i for x[13] rounds and leave n's low 29 bits in x[14], below those of a normal number. This finds
 * how many rounds were run: the bound, or UINT32_MAX if it was all. */
enum { QN_PROBE_ROUNDS_AT = 13, QN_PROBE_ROUNDS = 131072 };
uint32_t qn_probe_rounds(const float *x);

/* How messages and profiles call an entry: its label, else its name, else "unnamed". */
const char *qn_code_entry_label(const qn_code_entry *e);

extern const qn_driver qn_driver_null;
extern const qn_driver qn_driver_cpu;
extern const qn_driver qn_driver_opencl;
extern const qn_driver qn_driver_vulkan;

#ifdef __cplusplus
}
#endif
#endif
