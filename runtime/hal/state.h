/* What the HAL keeps beside a driver's device: the order of submissions, injected faults, submissions that wait for
 * another device. Private to runtime/hal. */
#ifndef QUERN_HAL_STATE_H
#define QUERN_HAL_STATE_H

#include "quern/driver.h"

/* QN_FAULT: the N-th attempt fails; 0: never. */
typedef struct qn_fault_plan {
  uint64_t alloc, compile, submit, lost;
} qn_fault_plan;

/* A submission whose waits on other devices are not over yet. */
typedef struct qn_deferred {
  struct qn_deferred *next;
  qn_recording *recording; /* not retained; NULL once it is gone, after a loss */
  qn_wait *waits;          /* devices retained */
  size_t wait_count;
  uint64_t ticket;
} qn_deferred;

enum { QN_HISTORY = 64 };

typedef struct qn_hal_state {
  qn_mutex mutex; /* orders submissions; guards what follows */
  qn_cond cond;   /* `submitted` moved, the queue or `stop` changed */
  uint64_t issued;
  atomic_ullong submitted; /* tickets the driver has got */
  qn_deferred *head, **tail;
  qn_thread thread;
  bool thread_started, stop;
  struct {
    uint64_t ticket, time_ns;
    char label[96];
  } history[QN_HISTORY]; /* newest submissions, for the message of a timeout */
  atomic_bool lost;
  qn_mutex failure_mutex;
  qn_error_copy failure; /* why the device is lost */
  qn_fault_plan fault;
  atomic_ullong allocs, compiles, submits;
  bool sync, poison;
} qn_hal_state;

/* limits.c */
qn_status qn_limits_apply(const char *text, qn_device_caps *caps); /* text may be NULL */
qn_status qn_fault_parse(const char *text, qn_fault_plan *out_plan);
/* state.c */
qn_status qn_hal_state_attach(qn_device *d);
void qn_hal_state_detach(qn_device *d); /* before the driver destroys the device */
/* QN_DEVICE_LOST with the first cause if the device is gone. */
qn_status qn_hal_check_alive(qn_device *d);
/* Remembers a loss that a driver reports; returns `st`. */
qn_status qn_hal_note(qn_device *d, qn_status st);
/* defer.c: waits till the driver has got everything up to `ticket`, at most until the deadline. */
qn_status qn_hal_drain(qn_device *d, uint64_t ticket, uint64_t deadline_ns);
/* Queues a submission behind its waits; the mutex is held. */
qn_status qn_hal_defer(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t ticket);
/* Queued submissions no longer name this recording: it is about to be destroyed. */
void qn_hal_forget(qn_device *d, const qn_recording *r);
/* Hands a recording to the driver as submission `ticket`; the mutex is held. */
qn_status qn_hal_submit_now(qn_device *d, qn_recording *r, uint64_t ticket);
/* checks.c */
qn_status qn_check_code(const qn_device *d, const qn_code *code);
qn_status qn_check_recording(const qn_device *d, const qn_recording_desc *desc);
qn_status qn_check_range(const qn_buffer *b, const char *what, uint64_t offset, uint64_t size);

#endif
