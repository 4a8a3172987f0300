/* The hardware abstraction: device, buffer, program, recording, ticket.
 *
 * Public functions check their arguments once and dispatch to a driver's table; drivers never repeat the checks. Objects are counted and a
 * child retains its device, so any release order is safe. Everything may be called from any thread. Only qn_device_wait, qn_buffer_read and
 * the destruction of something in flight block, always with a bound. Work of one device runs in the order of submission; commands of one
 * recording run in order too, and see each other's writes only across a QN_CMD_BARRIER. */
#ifndef QUERN_HAL_H
#define QUERN_HAL_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_device qn_device;
typedef struct qn_buffer qn_buffer;
typedef struct qn_program qn_program;
typedef struct qn_recording qn_recording;

/* How a device wants its kernels; classes differ in kind, not in degree (docs/devices.md). */
typedef enum qn_device_class {
  QN_CLASS_CPU_NATIVE, /* host code: one item a group, wide vectors, threads take ranges of groups */
  QN_CLASS_CPU_TILE,   /* a CPU behind OpenCL: one work-item per register tile, explicit vectors, no barriers */
  QN_CLASS_CPU_SIMT,   /* a CPU behind Vulkan: vec4 loads, 8x8 outputs an invocation, no shared memory */
  QN_CLASS_CPU_SCALAR, /* a CPU behind Mesa's OpenCL, which vectorises over items by itself and builds code anew at each launch: little code */
  QN_CLASS_GPU /* staged tiles in local memory, many items a group */
} qn_device_class;

typedef enum qn_code_format {
  QN_CODE_NATIVE,   /* entry points in this process (qn_native_entry) */
  QN_CODE_OPENCL_C, /* text */
  QN_CODE_SPIRV,    /* words; one module per entry, entry point "main" */
  QN_CODE_NULL      /* the null driver: nothing runs */
} qn_code_format;

typedef struct qn_device_caps {
  char id[32];        /* "cpu", "opencl:0", "vulkan:1" */
  char name[128];     /* device as its driver calls it */
  char driver[128];   /* driver and version: part of every cache key */
  char platform[128]; /* OpenCL platform or Vulkan driver name and API version */
  char vendor[64];
  qn_device_class device_class;
  qn_code_format format;
  bool software;    /* a CPU pretending to be a device */
  bool host_memory; /* buffers are host memory: qn_buffer_map works and costs nothing */
  uint32_t compute_units;
  uint32_t max_group_items; /* work-items a group */
  uint32_t max_groups[3];   /* per dimension; launches are folded to fit */
  uint32_t local_bytes;     /* local (shared) memory a group */
  uint32_t max_bindings;    /* buffers a kernel may use, the parameter buffer not counted */
  uint32_t subgroup_size;   /* as reported; nothing may depend on it for correctness */
  uint32_t vector_lanes;    /* f32 lanes worth using: 16, 8, 4 or 1 */
  /* Of all loops that an item runs, as measured at opening; UINT32_MAX: no bound found. Beyond it, loops just end. */
  uint32_t max_loop_rounds;
  uint32_t cache_line;
  uint64_t memory_bytes, max_buffer_bytes, max_range_bytes; /* range: one binding's window */
  bool f16, f64, i64, i16, i8;                              /* arithmetic in kernels */
  bool storage8, storage16; /* 8- and 16-bit elements in buffers; without it they are packed words */
  bool denormals;           /* f32 subnormals survive arithmetic, as measured at opening */
  bool fma;                 /* fused f32 fma is single-rounded, as measured at opening */
  uint64_t pci_id;          /* 0: none */
} qn_device_caps;

/* ---- discovery ---- */
typedef struct qn_device_info {
  qn_device_caps caps;
  bool usable, is_default;
  char reason[256]; /* why it was skipped, or why it is the default */
} qn_device_info;
typedef struct qn_driver qn_driver; /* a driver's entry: name, enumerate, open; see driver.h */
/* Every device of the given drivers in order of preference (real GPUs, the cpu, software devices), with reasons; free with free(). */
qn_status qn_devices_list(const qn_driver *const *drivers, size_t driver_count, qn_device_info **out_infos,
                          size_t *out_count);
/* `which`: NULL or "" (QN_DEVICE, else the default), "cpu", "cpu-ref", "null", "opencl[:N|:TEXT]", "vulkan[:N|:TEXT]"; TEXT is any part of platform,
 * device, vendor, driver or version strings, case ignored, platform strings tried first. QN_NOT_FOUND lists what there is. */
qn_status qn_device_open(const qn_driver *const *drivers, size_t driver_count, const char *which,
                         qn_device **out_device);
qn_device *qn_device_retain(qn_device *d);
void qn_device_release(qn_device *d);
const qn_device_caps *qn_device_get_caps(const qn_device *d);
/* Why it was opened: "the default: no real device is usable", "asked for by name". */
const char *qn_device_why(const qn_device *d);

/* ---- buffers ---- */
typedef struct qn_buffer_desc {
  uint64_t size;     /* bytes; 0 is allowed and binds as an empty buffer */
  const char *label; /* for messages and the memory report */
} qn_buffer_desc;
/* Contents are undefined at first. Alignment is at least 256 bytes. */
qn_status qn_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
qn_buffer *qn_buffer_retain(qn_buffer *b);
void qn_buffer_release(qn_buffer *b);
uint64_t qn_buffer_size(const qn_buffer *b);
qn_device *qn_buffer_device(const qn_buffer *b);
/* The memory itself on host_memory devices, NULL elsewhere. The caller orders its accesses by tickets. */
void *qn_buffer_map(qn_buffer *b);
/* Copies host bytes in after all work submitted so far; `data` may be reused at once. Does not wait on devices with a queue of their own. */
qn_status qn_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
/* Waits for all work submitted so far and copies out. */
qn_status qn_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);

/* ---- programs ---- */
/* Host code: runs groups g0 <= g < g1. bindings[i] is the base of the i-th bound buffer, params the launch's words. */
typedef void (*qn_native_entry)(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0,
                                uint32_t g1);
typedef struct qn_code_entry {
  const char *name;  /* kernel function name (OpenCL C); for messages elsewhere */
  const char *label; /* the kernel's place in the graph, for messages: "dot_general+add+maximum (mnist_mlp.c:41)" */
  uint32_t items;    /* work-items a group */
  uint32_t binding_count;
  uint32_t param_count; /* words, params[0] is the group count */
  uint32_t local_bytes;
  const void *spirv; /* QN_CODE_SPIRV: this entry's module */
  size_t spirv_bytes;
  qn_native_entry native; /* QN_CODE_NATIVE */
  const void *native_context;
} qn_code_entry;
typedef struct qn_code {
  qn_code_format format;
  const char *source; /* QN_CODE_OPENCL_C: the whole text */
  size_t source_bytes;
  const qn_code_entry *entries;
  size_t entry_count;
  void (*release)(void *owner); /* called when the program is destroyed (native code's JIT memory); may be NULL */
  void *owner;
} qn_code;
/* Compiles; copies what it needs of `code`. `binary` may hold what qn_program_binary gave before for the same code, device and driver:
 * then nothing is compiled; a binary that the driver refuses is ignored (*out_binary_used says which). QN_COMPILE has the log and label.
 * On failure `release` has been called. */
qn_status qn_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                            qn_program **out_program);
/* The compiled form for the cache, malloc'd; size 0 where the driver has none. Drivers that compile at the first launch want warm-up first. */
qn_status qn_program_binary(qn_program *p, qn_bytes *out_binary);
/* Launches every entry once over zero groups or scratch memory so that later launches compile nothing. */
qn_status qn_program_warm_up(qn_program *p);
qn_program *qn_program_retain(qn_program *p);
void qn_program_release(qn_program *p);

/* ---- recordings ---- */
typedef enum qn_cmd_kind {
  QN_CMD_LAUNCH,
  QN_CMD_COPY,
  QN_CMD_FILL,
  QN_CMD_BARRIER,
  QN_CMD_LOOP, /* in plans only (exec.h): recordings have no loops */
  QN_CMD_LOOP_END
} qn_cmd_kind;
enum { QN_MAX_BINDINGS = 16 };
typedef struct qn_cmd {
  qn_cmd_kind kind;
  /* launch */
  qn_program *program;
  uint32_t entry;
  uint32_t groups; /* 0: nothing runs */
  uint32_t binding_count;
  uint32_t bindings[QN_MAX_BINDINGS]; /* indexes into the recording's buffers */
  const uint32_t *params;             /* param_count words, copied; params[0] is overwritten with `groups` */
  uint32_t param_count;
  /* copy: from buffers[src] to buffers[dst]; fill: `size` bytes of buffers[dst] with the word `pattern` (multiples of 4) */
  uint32_t src, dst;
  uint64_t src_offset, dst_offset, size;
  uint32_t pattern;
} qn_cmd;
typedef struct qn_recording_desc {
  const qn_cmd *cmds;
  size_t cmd_count;
  qn_buffer *const *buffers; /* retained */
  size_t buffer_count;
  bool timestamps; /* keep device times per command */
} qn_recording_desc;
qn_status qn_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
/* Device time of each command of the newest finished submission, nanoseconds (0 for barriers); QN_UNSUPPORTED without timestamps. */
qn_status qn_recording_times(qn_recording *r, uint64_t *out_ns, size_t count);
qn_recording *qn_recording_retain(qn_recording *r);
void qn_recording_release(qn_recording *r);

typedef struct qn_wait {
  qn_device *device;
  uint64_t ticket;
} qn_wait;
/* Queues the recording behind everything submitted before and returns at once; it may be submitted again while in flight. */
qn_status qn_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
/* timeout_ns 0: the default bound (QN_WAIT_DEFAULT_NS). QN_TIMEOUT names the oldest work and its age. Ticket 0 is always done. */
#define QN_WAIT_DEFAULT_NS UINT64_C(60000000000)
qn_status qn_device_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
bool qn_device_done(qn_device *d, uint64_t ticket); /* never blocks */

/* Counters since opening, for tests and reports: a steady-state step moves only `submits`, `launches` and `bytes_written`. */
typedef struct qn_device_stats {
  uint64_t buffers_created, bytes_live, bytes_peak, programs_compiled, recordings, submits, launches, host_waits,
      bytes_written, bytes_read, descriptor_updates;
} qn_device_stats;
void qn_device_get_stats(const qn_device *d, qn_device_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
