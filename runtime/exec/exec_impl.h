/* What the files of runtime/exec share. Tensors know the newest submission that uses them; everything that must not disturb running work goes by that. */
#ifndef QUERN_EXEC_IMPL_H
#define QUERN_EXEC_IMPL_H

#include <stdatomic.h>

#include "quern/cache.h"
#include "quern/exec.h"

struct qn_tensors {
  atomic_int refs;
  qn_device *device;
  qn_buffer *buffer;
  qn_layout layout;
  char *label;
  uint8_t *host;             /* the memory itself on host_memory devices */
  atomic_ullong last_ticket; /* newest submission that uses the buffer */
  atomic_bool queued;        /* a write went through the device's queue since then */
  atomic_bool lost;
};

/* One recording for one set of slabs. Retaining the tensors makes their addresses a safe key. */
typedef struct qn_step_entry {
  qn_recording *recording;
  qn_tensors **args;
  qn_tensors *result;
  uint64_t used;   /* the step's clock */
  uint64_t ticket; /* newest submission */
  uint64_t submitted_ns;
  bool unread; /* its times have not been collected */
} qn_step_entry;

enum { QN_STEP_TRACE_CALLS = 32 };
typedef struct qn_step_trace_call {
  uint64_t number, start_ns;
} qn_step_trace_call;
typedef struct qn_step_profiler {
  qn_step_row *rows, *shown; /* one per plan command; `shown` is what the caller looks at */
  uint64_t *times;           /* of one recording, prefix included */
  uint64_t *trace;           /* QN_STEP_TRACE_CALLS x plan commands */
  qn_step_trace_call calls[QN_STEP_TRACE_CALLS];
  uint64_t count;  /* calls collected */
  uint64_t end_ns; /* of the newest call on the trace */
} qn_step_profiler;

struct qn_step {
  atomic_int refs;
  qn_device *device;
  qn_plan *plan;
  qn_program *program; /* NULL for plans without launches */
  qn_buffer *arena;
  qn_tensors **results;
  uint32_t ring, next;
  qn_mutex mutex; /* guards what follows, and `next` */
  qn_step_entry *entries;
  size_t entry_count, entry_limit;
  uint64_t clock;
  qn_cmd *cmds; /* as recorded: `prefix` commands of our own, then the plan's */
  size_t cmd_count, prefix;
  bool *donated;       /* per argument */
  bool writes_donated; /* some command writes a donated slab */
  qn_buffer **buffers; /* scratch for recording */
  uint64_t last_ticket;
  qn_step_stats stats;
  qn_step_profiler *profiler; /* NULL without desc.profile */
  qn_arena arena_memory;      /* of the lists above */
};

/* plan.c: "1.5 MiB" */
void qn_exec_bytes_text(uint64_t bytes, char *out, size_t size);
/* plan.c: what a command is called in messages and tables. */
const char *qn_plan_cmd_label(const qn_plan *p, const qn_plan_cmd *c);
/* step.c: the failure again, with the step's name before the message. */
qn_status qn_step_fail(const char *name, qn_status st);
/* step_profile.c; the mutex is held. */
qn_status qn_step_profiler_create(qn_step *s);
void qn_step_profiler_collect(qn_step *s, qn_step_entry *e); /* if finished and not collected yet */
void qn_step_profiler_collect_all(qn_step *s);
/* tensors.c */
void qn_tensors_mark_lost(qn_tensors *t);

#endif
