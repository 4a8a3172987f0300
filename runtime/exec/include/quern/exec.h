/* Plans and their replay: device tensors, steps, profiling. Knows no graph and no compiler, so a plan may come from a file.
 *
 * A plan is a fixed list of commands over slabs: slab 0 is the arena (temporaries and constants), then one slab per argument, then one for the
 * results that are not donated. A step is a plan loaded on a device: programs compiled, constants uploaded, everything warmed up. A call
 * records once per set of slabs and replays from then on: no allocation, no compilation, no descriptor update, no wait.
 *
 * Commands may be in loops. A counted loop costs no more than its commands: it's recorded as often as it runs where that is short, else its body is, and
 * submitted again and again. How often a loop with a flag runs only the device knows, so the host looks at the flag (a bool in a slab) now and
 * then: a *host point*. Where the body is guarded (its commands do nothing when the flag is down) it looks after 1, 2, 4 ... iterations, else
 * before each. A call of a step with host points returns when the last of them is behind it. */
#ifndef QUERN_EXEC_H
#define QUERN_EXEC_H

#include "quern/base.h"
#include "quern/dtype.h"
#include "quern/hal.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QN_LAYOUT_RANK = 12, QN_SLAB_ALIGN = 256 };

/* Where the leaves of a tree lie in a slab. Offsets are multiples of 256; order is the tree's. */
typedef struct qn_layout_entry {
  char *path;
  qn_dtype dtype;
  int32_t rank;
  int64_t dims[QN_LAYOUT_RANK];
  uint64_t offset, bytes;
} qn_layout_entry;
typedef struct qn_layout {
  qn_layout_entry *entries;
  size_t count, capacity;
  uint64_t bytes; /* of the slab */
} qn_layout;
qn_status qn_layout_add(qn_layout *l, const char *path, qn_dtype dtype, int rank,
                        const int64_t *dims); /* appended behind the rest */
qn_status qn_layout_copy(const qn_layout *from, qn_layout *out_copy);
ptrdiff_t qn_layout_find(const qn_layout *l, const char *path);
bool qn_layout_equal(const qn_layout *a, const qn_layout *b, const char **out_path);
void qn_layout_free(qn_layout *l);

/* ---- tensors: a tree of arrays in one slab of device memory; counted ---- */
typedef struct qn_tensors qn_tensors;
qn_status qn_tensors_create(qn_device *d, const qn_layout *layout, const char *label,
                            qn_tensors **out_tensors); /* contents undefined */
qn_tensors *qn_tensors_retain(qn_tensors *t);
void qn_tensors_release(qn_tensors *t);
const qn_layout *qn_tensors_layout(const qn_tensors *t);
qn_buffer *qn_tensors_buffer(const qn_tensors *t);
/* Whole leaf from or to row-major host memory in its dtype. Reading waits for the work submitted so far; writing doesn't disturb it. */
qn_status qn_tensors_write(qn_tensors *t, const char *path, const void *data);
qn_status qn_tensors_read(const qn_tensors *t, const char *path, void *out_data);
qn_status qn_tensors_write_at(qn_tensors *t, size_t index, const void *data);
qn_status qn_tensors_read_at(const qn_tensors *t, size_t index, void *out_data);
qn_status qn_tensors_zero(qn_tensors *t);
/* After a fault behind the first donated write: contents are lost; reads and calls say so. */
bool qn_tensors_lost(const qn_tensors *t);

/* ---- plans ---- */
typedef struct qn_plan_cmd {
  qn_cmd_kind kind;
  uint32_t entry; /* launch: which of the code's entries */
  uint32_t groups;
  uint32_t binding_count;
  uint32_t bindings[QN_MAX_BINDINGS]; /* slab indexes */
  const uint32_t *params;
  uint32_t param_count;
  uint32_t src, dst; /* copy, fill: slab indexes */
  uint64_t src_offset, dst_offset, size;
  uint32_t pattern;
  int64_t trips;     /* loop, up to its end command: how often; -1: while the bool at src, src_offset is set */
  bool guarded;      /* loop with a flag: running its commands with the flag down changes nothing */
  const char *label; /* "dot_general+add+maximum (mnist_mlp.c:41)" */
  double flops;      /* of one run; estimates, for the profiler's roofline */
  uint64_t bytes;    /* read and written */
} qn_plan_cmd;
typedef struct qn_plan_constant {
  uint64_t offset; /* in the arena */
  const void *data;
  size_t bytes;
} qn_plan_constant;
typedef struct qn_plan_donation {
  size_t arg;
  const char *
      prefix; /* result leaves under prefix/ (or the leaf prefix itself) live in argument `arg`'s slab, same paths behind it */
} qn_plan_donation;
typedef struct qn_plan {
  qn_arena arena; /* owns everything below but layouts */
  const char *name;
  qn_code code;
  qn_plan_cmd *cmds;
  size_t cmd_count;
  qn_plan_constant *constants;
  size_t constant_count;
  uint64_t arena_bytes; /* slab 0 */
  qn_layout *args;      /* slabs 1 .. arg_count; the array lies in the arena, qn_plan_free frees the layouts */
  size_t arg_count;
  qn_layout result; /* slab arg_count + 1: results that are not donated */
  qn_plan_donation *donations;
  size_t donation_count;
  uint64_t first_donated_write; /* index of the command that first writes a donated slab; cmd_count if none */
  qn_digest key;                /* of code and capabilities: the cache key of its binary */
  uint64_t host_points;         /* loops whose flag the host looks at */
  uint64_t fallbacks;           /* operations that run on another device: none, a compiler refuses instead */
  uint64_t copies;              /* inserted copies (conversions, donations that could not be in place), for explain */
} qn_plan;
void qn_plan_free(qn_plan *p);                      /* releases code.owner too unless a step took it */
void qn_plan_print(const qn_plan *p, qn_text *out); /* commands, slabs, offsets, forecast */

/* ---- steps ---- */
typedef struct qn_cache qn_cache; /* kernel cache (cache.h); may be NULL */
typedef struct qn_step qn_step;
typedef struct qn_step_desc {
  qn_cache *cache;
  bool profile;         /* keep device times per command */
  uint32_t result_ring; /* result slabs that rotate; default 2 */
  uint32_t recordings;  /* sets of slabs whose recordings are kept; default 8, or 4 a result slab if that is more */
} qn_step_desc;
/* Takes the plan over (frees it, also on failure). Checks the forecast against the device's limits before it allocates. */
qn_status qn_step_create(qn_device *d, qn_plan *plan, const qn_step_desc *desc, qn_step **out_step);
qn_step *qn_step_retain(qn_step *s);
void qn_step_release(qn_step *s);
const qn_plan *qn_step_plan(const qn_step *s);
/* Submits one run and returns at once. Layouts of args must equal the plan's. Donated arguments hold their results afterwards; *out_result (may
 * be NULL) is the slab of the others, borrowed: it is reused after `result_ring` further calls. *out_ticket may be NULL. */
qn_status qn_step_call(qn_step *s, qn_tensors *const *args, size_t arg_count, qn_tensors **out_result,
                       uint64_t *out_ticket);
qn_status qn_step_wait(qn_step *s); /* for the newest call */
/* Ends the call that is going on, or the next one, at its next host point with QN_CANCELLED: the way out of a loop that doesn't end. What the
 * call may have begun to write in place is lost then. Any thread, also a signal's handler. A step without host points never notices. */
void qn_step_interrupt(qn_step *s);

typedef struct qn_step_row {
  const char *label;
  uint64_t calls;
  double ns_total, ns_min;
  double flops;   /* per call */
  uint64_t bytes; /* per call */
} qn_step_row;
/* One row per command of the plan, accumulated over its runs; needs desc.profile. A step whose loops are not written out waits for each submission
 * while it is profiled. *out_rows is borrowed until the next call. */
qn_status qn_step_profile(qn_step *s, const qn_step_row **out_rows, size_t *out_count);
/* Table: kernel, calls, device time, share, GFLOP/s, GB/s, share of the given peaks (0: unknown). */
qn_status qn_step_profile_print(qn_step *s, double peak_flops, double peak_bytes, qn_text *out);
/* Chrome/Perfetto trace events of the newest calls, appended to `out` as JSON array elements. */
qn_status qn_step_profile_trace(qn_step *s, qn_text *out);

/* ---- additions ---- */
/* "f32[32,784]", as messages show a leaf's type; always ends with a NUL. */
void qn_layout_entry_text(const qn_layout_entry *e, char *out, size_t size);
/* QN_INVALID unless the layouts are equal; the message begins with `what` and names the leaf and both types. */
qn_status qn_layout_check(const char *what, const qn_layout *expected, const qn_layout *got);

/* An empty plan of that name, all else zero; its arena is the place for what it points to. Freed by qn_plan_free. */
qn_status qn_plan_create(const char *name, qn_plan **out_plan);
/* Indexes, ranges and alignments of a plan, without a device. */
qn_status qn_plan_check(const qn_plan *p);
/* Device memory of a step, forecast before anything is allocated. */
typedef struct qn_plan_forecast {
  uint64_t arena, args, results, total; /* results: all slabs of the ring */
} qn_plan_forecast;
void qn_plan_get_forecast(const qn_plan *p, uint32_t result_ring,
                          qn_plan_forecast *out_forecast); /* ring 0: the default */

/* Says that a submission made without a step uses the tensors' buffer; steps say so themselves. Reads, writes and rings go by it. */
void qn_tensors_used(qn_tensors *t, uint64_t ticket);
/* Waits for the newest submission that uses the tensors; work behind it is not waited for. */
qn_status qn_tensors_wait(const qn_tensors *t);
qn_device *qn_tensors_device(const qn_tensors *t);
const char *qn_tensors_label(const qn_tensors *t);

/* ---- ring: equal tensors in rotation, for batches ---- */
typedef struct qn_ring qn_ring;
qn_status qn_ring_create(qn_device *d, const qn_layout *layout, const char *label, uint32_t count,
                         qn_ring **out_ring); /* count 0: 3 */
void qn_ring_destroy(qn_ring *r);             /* tensors that steps still use live on */
/* The next tensors in rotation, borrowed. Waits for their last use, which is over in steady state, so that writing them is a plain copy on
 * host_memory devices. Whoever takes more than `count` ahead of the calls that use them overwrites his own. Any thread. */
qn_status qn_ring_next(qn_ring *r, qn_tensors **out_tensors);

typedef struct qn_step_stats {
  uint64_t calls, recordings_created, recordings_live, profiled_calls;
  uint64_t host_points; /* how often the host has looked at a loop's flag */
  bool binary_cached;   /* the program came from the cache */
} qn_step_stats;
void qn_step_get_stats(qn_step *s, qn_step_stats *out_stats);
/* Drops recordings that are not in flight, and with them the step's hold on their arguments. */
void qn_step_trim(qn_step *s);

#ifdef __cplusplus
}
#endif
#endif
