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

/* Commands that are recorded as one. */
#define QN_STEP_NO_ROW UINT32_MAX
typedef struct qn_step_piece {
  qn_cmd *cmds;
  uint32_t *rows; /* the plan's command that each is; QN_STEP_NO_ROW: one of our own */
  size_t count, capacity, row_capacity;
  uint32_t last_row;
} qn_step_piece;

/* What is submitted in which order: a list with loops in it. */
typedef enum qn_step_node_kind {
  QN_STEP_RUN,    /* piece `once` */
  QN_STEP_REPEAT, /* `once` over and over, or `many`, which is `copies` of it */
  QN_STEP_LOOP,   /* what follows, up to the node `end` */
  QN_STEP_END
} qn_step_node_kind;
typedef struct qn_step_node {
  qn_step_node_kind kind;
  uint32_t once, many;
  uint64_t copies;
  int64_t trips; /* -1: while the flag is up */
  uint32_t slab; /* of the flag */
  uint64_t offset;
  size_t end;
} qn_step_node;

/* The recordings, one a piece, for one set of slabs. Retaining the tensors makes their addresses a safe key. */
typedef struct qn_step_entry {
  qn_recording **recordings;
  qn_tensors **args;
  qn_tensors *result;
  uint64_t used;   /* the step's clock */
  uint64_t ticket; /* newest submission */
  uint64_t submitted_ns;
  uint32_t reached; /* highest command of the plan that the newest call has submitted */
  bool unread;      /* its times have not been collected */
} qn_step_entry;

enum { QN_STEP_TRACE_CALLS = 32 };
typedef struct qn_step_trace_call {
  uint64_t number, start_ns;
} qn_step_trace_call;
typedef struct qn_step_profiler {
  qn_step_row *rows, *shown; /* one per plan command; `shown` is what the caller looks at */
  uint64_t *times;           /* of one recording */
  uint64_t *sums;            /* of the call at hand, one per plan command */
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
  qn_step_piece *pieces;
  size_t piece_count, piece_capacity;
  qn_step_node *walk;
  size_t walk_count, walk_capacity;
  qn_recording **made; /* scratch, one a piece */
  atomic_bool interrupted;
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
/* step_walk.c: the plan's commands, behind those of our own. Running submits them all, and returns behind the last host point; the mutex is held. */
qn_status qn_step_walk_create(qn_step *s, const qn_cmd *prefix, size_t prefix_count);
void qn_step_walk_destroy(qn_step *s);
qn_status qn_step_walk_run(qn_step *s, qn_step_entry *e);
qn_status qn_step_piece_add(qn_step_piece *p, const qn_cmd *c, uint32_t row);
/* step_profile.c; the mutex is held. */
qn_status qn_step_profiler_piece(qn_step *s, qn_step_entry *e, uint32_t piece); /* waits: for plans of several pieces */
void qn_step_profiler_call(qn_step *s, qn_step_entry *e);                       /* the pieces of a call were the last */
qn_status qn_step_profiler_create(qn_step *s);
void qn_step_profiler_collect(qn_step *s, qn_step_entry *e); /* if finished and not collected yet */
void qn_step_profiler_collect_all(qn_step *s);
/* tensors.c */
void qn_tensors_mark_lost(qn_tensors *t);

#endif
