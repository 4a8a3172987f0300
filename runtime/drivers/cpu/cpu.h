/* The CPU driver's objects. Buffers are host memory, programs are entry points in this process, a recording is a list
 * of steps that a pool of threads walks together.
 *
 * A recording runs on `threads` slots. Slot 0 is the leader: a thread that waits for the device and does the work
 * itself meanwhile, or, when nobody waits, the device's own dispatcher thread. Slots 1 and up are pinned threads that
 * spin for a moment after their last job and then sleep. Every thread walks all steps and does its own contiguous share
 * of each launch's groups; they meet only where the recording says so. */
#ifndef QUERN_DRIVER_CPU_H
#define QUERN_DRIVER_CPU_H

#include "quern/driver.h"

enum { CPU_MAX_THREADS = 256, CPU_LINE = 128 };

typedef struct cpu_buffer {
  qn_buffer base;
  uint8_t *data;
  atomic_uint pending; /* queued writes that will touch it */
} cpu_buffer;

typedef struct cpu_entry {
  qn_native_entry run;
  const void *context;
} cpu_entry;

typedef struct cpu_program {
  qn_program base;
  cpu_entry entries[];
} cpu_program;

typedef enum cpu_step_kind { CPU_LAUNCH, CPU_COPY, CPU_FILL } cpu_step_kind;
typedef struct cpu_step {
  cpu_step_kind kind;
  bool join;  /* all threads meet before it */
  bool alone; /* slot 0 does all of it */
  cpu_entry entry;
  void **bindings;
  uint32_t *params;
  uint32_t groups;
  uint32_t pattern;
  uint8_t *dst;
  const uint8_t *src;
  uint64_t size;
  size_t cmd; /* its place in the recording, for times */
} cpu_step;

typedef struct cpu_recording {
  qn_recording base;
  cpu_step *steps;
  size_t step_count;
  bool parallel;    /* some step is for more than slot 0 */
  uint64_t *stamps; /* with timestamps: before each step, and after the last */
  uint64_t *times;  /* of each command, of the newest finished run; the queue's mutex guards it */
  bool timed;       /* there is one */
  qn_arena arena;
} cpu_recording;

/* ---- pool.c: threads that walk a recording together ---- */
typedef struct cpu_pool cpu_pool;
typedef struct cpu_slot {
  _Alignas(CPU_LINE) atomic_ullong arrived; /* meetings this slot has come to */
  _Alignas(CPU_LINE) uint64_t met;          /* the same, for the slot's own thread only */
  cpu_pool *pool;
  unsigned index;
  int cpu; /* number of the processor it is pinned to; -1: none */
  qn_thread thread;
  bool started;
} cpu_slot;

struct cpu_pool {
  _Alignas(CPU_LINE) atomic_ullong generation; /* recordings handed to the helpers */
  atomic_bool orphan, stop;                    /* orphan: work is queued and nobody leads */
  _Alignas(CPU_LINE) atomic_ullong released;   /* meetings that are over; pools of many threads only */
  _Alignas(CPU_LINE) cpu_recording *job;       /* published by generation */
  int leader_cpu;                              /* likewise */
  atomic_int free_cpu;                         /* the processor that no helper is pinned to */
  cpu_slot *slots;
  unsigned threads;
  uint64_t spin_ns;  /* how long an idle thread watches before it sleeps; 0 when threads outnumber processors */
  unsigned patience; /* pauses before a thread that waits for others yields */
  qn_mutex mutex;
  qn_cond work; /* helpers: a recording or the end */
  atomic_uint sleepers;
  void (*call_dispatcher)(void *arg); /* a helper saw orphaned work for a while; called with the mutex held */
  void *call_arg;
};
qn_status qn_cpu_pool_start(cpu_pool *p, unsigned threads);
void qn_cpu_pool_destroy(cpu_pool *p);               /* nothing runs; also after a failed start */
void qn_cpu_pool_run(cpu_pool *p, cpu_recording *r); /* as slot 0; one caller at a time */
void qn_cpu_pause(void);
/* True when helpers are awake and will notice orphaned work; the mutex is held. */
bool qn_cpu_pool_watches(const cpu_pool *p);

/* ---- the device ---- */
typedef struct cpu_node {
  struct cpu_node *next;
  cpu_recording *recording; /* or a write: */
  cpu_buffer *buffer;
  uint64_t offset, size;
  uint8_t *data; /* owned */
} cpu_node;

typedef struct cpu_device {
  qn_device base;
  cpu_pool *pool;
  /* Queue; the pool's mutex guards it. */
  cpu_node *head, **tail, *spare;
  uint64_t issued; /* tickets */
  uint64_t staged_bytes;
  unsigned waiters;
  bool leading, busy; /* somebody leads; a node is being run */
  bool dispatcher_spins, dispatcher_called;
  atomic_ullong done; /* newest finished ticket */
  qn_cond called, finished;
  qn_thread dispatcher;
  bool dispatcher_started;
} cpu_device;

/* device.c */
qn_status qn_cpu_describe(qn_device_caps *out_caps);
/* buffer.c */
qn_status qn_cpu_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
void qn_cpu_buffer_destroy(qn_buffer *b);
void *qn_cpu_buffer_map(qn_buffer *b);
qn_status qn_cpu_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
qn_status qn_cpu_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);
/* program.c */
qn_status qn_cpu_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                qn_program **out_program);
qn_status qn_cpu_program_binary(qn_program *p, qn_bytes *out_binary);
qn_status qn_cpu_program_warm_up(qn_program *p);
void qn_cpu_program_destroy(qn_program *p);
/* recording.c */
qn_status qn_cpu_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
qn_status qn_cpu_recording_times(qn_recording *r, uint64_t *out_ns, size_t count);
void qn_cpu_recording_destroy(qn_recording *r);
void qn_cpu_step_run(const cpu_step *s, unsigned slot, unsigned threads);
/* queue.c */
void qn_cpu_queue_prepare(cpu_device *d); /* before any thread */
qn_status qn_cpu_queue_start(cpu_device *d);
void qn_cpu_queue_destroy(cpu_device *d); /* also after a failed start */
qn_status qn_cpu_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
qn_status qn_cpu_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
bool qn_cpu_done(qn_device *d, uint64_t ticket);
/* Copies at once when nothing is queued, else queues a copy of the bytes. */
qn_status qn_cpu_queue_write(cpu_device *d, cpu_buffer *b, uint64_t offset, uint64_t size, const void *data);
qn_status qn_cpu_wait_idle(cpu_device *d, uint64_t timeout_ns);

#endif
