/* The device's queue and who works it off.
 *
 * A thread that waits for the device leads: it runs the queued recordings itself as slot 0, so that a step of a few
 * dozen microseconds costs no hand-over. If nobody waits soon after a submission, the dispatcher thread leads instead;
 * it is called at once when all helpers sleep, and by a helper that sees work lie about when they don't. */
#include "cpu.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STAGED = 64 << 20, SPIN_NS = 50 * 1000 };
/* A wait with less time than this doesn't take over work, for it could not let go of it in time. */
#define LEAD_NS UINT64_C(1000000000)

static void call_dispatcher(void *arg) {
  cpu_device *d = arg;
  d->dispatcher_called = true;
  qn_cond_broadcast(&d->called);
}

/* Work is queued and nobody leads; the mutex is held. Helpers that are awake see it, and wait a moment before they call
 * the dispatcher, for a caller that is about to wait would be quicker. */
static void leave_to_others(cpu_device *d) {
  atomic_store(&d->pool->orphan, true);
  if (!d->dispatcher_spins && !qn_cpu_pool_watches(d->pool))
    call_dispatcher(d);
}

/* ---- running what is queued; the mutex is held around each function but run_node ---- */

static void run_node(cpu_device *d, cpu_node *n) {
  if (n->recording) {
    qn_cpu_pool_run(d->pool, n->recording);
    return;
  }
  memcpy(n->buffer->data + n->offset, n->data, (size_t)n->size);
  free(n->data);
  n->data = NULL;
}

static void keep_times(cpu_recording *r) {
  for (size_t i = 0; r->stamps && i < r->step_count; ++i)
    r->times[r->steps[i].cmd] = r->stamps[i + 1] - r->stamps[i];
  r->timed = true;
}

static void finish_node(cpu_device *d, cpu_node *n) {
  if (n->recording) {
    keep_times(n->recording);
  } else {
    d->staged_bytes -= n->size;
    (void)atomic_fetch_sub(&n->buffer->pending, 1);
  }
  n->next = d->spare;
  d->spare = n;
}

/* Leads until `ticket` is done (0: the queue is empty). A ticket counts as done only when the writes queued right
 * behind it are, too: whoever waits for it may then look at mapped memory. */
static void lead(cpu_device *d, uint64_t ticket) {
  cpu_pool *p = d->pool;
  fenv_t caller;
  uint64_t finished = atomic_load(&d->done);
  (void)fegetenv(&caller);
  (void)fesetenv(FE_DFL_ENV);
  d->leading = true;
  atomic_store(&p->orphan, false);
  while (d->head && (ticket == 0 || finished < ticket || !d->head->recording)) {
    cpu_node *n = d->head;
    d->head = n->next;
    if (!d->head)
      d->tail = &d->head;
    d->busy = true;
    qn_mutex_unlock(&p->mutex);
    run_node(d, n);
    qn_mutex_lock(&p->mutex);
    d->busy = false;
    finished += n->recording != NULL;
    finish_node(d, n);
    if (!d->head || d->head->recording) {
      atomic_store_explicit(&d->done, finished, memory_order_release);
      if (d->waiters)
        qn_cond_broadcast(&d->finished);
    }
  }
  d->leading = false;
  if (d->head)
    leave_to_others(d);
  (void)fesetenv(&caller);
}

static bool work_lies_about(const cpu_device *d) { return d->head && !d->leading; }

/* ---- the dispatcher ---- */

/* Watches for work a moment longer; the mutex is held before and after, not meanwhile. */
static void linger(cpu_device *d) {
  cpu_pool *p = d->pool;
  if (!p->spin_ns || d->waiters) /* who waited is likely to be next, and wants the processor */
    return;
  d->dispatcher_spins = true;
  qn_mutex_unlock(&p->mutex);
  uint64_t until = qn_time_ns() + SPIN_NS;
  for (unsigned spins = 0; !atomic_load_explicit(&p->orphan, memory_order_acquire) && !atomic_load(&p->stop); ++spins) {
    qn_cpu_pause();
    if (spins % 16 == 0 && qn_time_ns() >= until)
      break;
  }
  qn_mutex_lock(&p->mutex);
  d->dispatcher_spins = false;
}

static void dispatcher_main(void *arg) {
  cpu_device *d = arg;
  cpu_pool *p = d->pool;
  (void)fesetenv(FE_DFL_ENV); /* a new thread begins with its maker's */
  qn_mutex_lock(&p->mutex);
  while (!atomic_load(&p->stop)) {
    if (work_lies_about(d)) {
      lead(d, 0);
      linger(d);
      continue;
    }
    d->dispatcher_called = false;
    while (!d->dispatcher_called && !atomic_load(&p->stop))
      qn_cond_wait(&d->called, &p->mutex);
  }
  qn_mutex_unlock(&p->mutex);
}

/* ---- submitting ---- */

/* A free node, the mutex held; NULL when memory is gone. */
static cpu_node *take_node(cpu_device *d) {
  cpu_node *n = d->spare;
  if (n)
    d->spare = n->next;
  else
    n = malloc(sizeof *n);
  return n;
}

static void push(cpu_device *d, cpu_node *n) {
  n->next = NULL;
  *d->tail = n;
  d->tail = &n->next;
  if (!d->leading)
    leave_to_others(d);
}

qn_status qn_cpu_submit(qn_device *dev, qn_recording *r, const qn_wait *waits, size_t wait_count,
                        uint64_t *out_ticket) {
  (void)waits;
  (void)wait_count;
  cpu_device *d = (cpu_device *)dev;
  qn_mutex_lock(&d->pool->mutex);
  cpu_node *n = take_node(d);
  if (n) {
    *n = (cpu_node){.recording = (cpu_recording *)r};
    *out_ticket = ++d->issued;
    push(d, n);
  }
  qn_mutex_unlock(&d->pool->mutex);
  return n ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "submit to %s: no memory", dev->caps.id);
}

qn_status qn_cpu_queue_write(cpu_device *d, cpu_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  cpu_pool *p = d->pool;
  bool copied = false, room = size <= MAX_STAGED;
  cpu_node *n = NULL;
  qn_mutex_lock(&p->mutex);
  room = room && d->staged_bytes + size <= MAX_STAGED;
  if (!d->head && !d->busy) {
    memcpy(b->data + offset, data, (size_t)size);
    copied = true;
  } else if (room && (n = take_node(d))) {
    *n = (cpu_node){.buffer = b, .offset = offset, .size = size, .data = malloc((size_t)size)};
    if (n->data) {
      memcpy(n->data, data, (size_t)size);
      d->staged_bytes += size;
      (void)atomic_fetch_add(&b->pending, 1);
      push(d, n);
      copied = true;
    } else {
      n->next = d->spare;
      d->spare = n;
    }
  }
  qn_mutex_unlock(&p->mutex);
  if (copied)
    return QN_OK;
  QN_TRY(qn_cpu_wait_idle(d, QN_WAIT_DEFAULT_NS)); /* too much to hold a second time */
  memcpy(b->data + offset, data, (size_t)size);
  return QN_OK;
}

/* ---- waiting ---- */

static bool reached(const cpu_device *d, uint64_t ticket) {
  return ticket ? atomic_load_explicit(&d->done, memory_order_acquire) >= ticket : !d->head && !d->busy;
}

/* Waits for a ticket; 0: till nothing is queued or running. */
static qn_status wait_for(cpu_device *d, uint64_t ticket, uint64_t timeout_ns) {
  cpu_pool *p = d->pool;
  uint64_t now = qn_time_ns(), deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
  bool in_time = true;
  qn_mutex_lock(&p->mutex);
  while (!reached(d, ticket) && in_time) {
    if (timeout_ns >= LEAD_NS && work_lies_about(d)) {
      lead(d, ticket);
      continue;
    }
    d->waiters++;
    in_time = qn_cond_wait_until(&d->finished, &p->mutex, deadline);
    d->waiters--;
  }
  bool done = reached(d, ticket);
  qn_mutex_unlock(&p->mutex);
  return done ? QN_OK : QN_ERR(QN_TIMEOUT, "cpu: ticket %llu is not done", (unsigned long long)ticket);
}

/* Who asks again and again doesn't wait, so the dispatcher must see to the work. */
bool qn_cpu_done(qn_device *dev, uint64_t ticket) {
  cpu_device *d = (cpu_device *)dev;
  if (atomic_load_explicit(&d->done, memory_order_acquire) >= ticket)
    return true;
  if (atomic_load_explicit(&d->pool->orphan, memory_order_relaxed)) {
    qn_mutex_lock(&d->pool->mutex);
    if (work_lies_about(d) && !d->dispatcher_called)
      call_dispatcher(d);
    qn_mutex_unlock(&d->pool->mutex);
  }
  return false;
}

qn_status qn_cpu_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  if (atomic_load_explicit(&((cpu_device *)d)->done, memory_order_acquire) >= ticket)
    return QN_OK;
  QN_TRY(wait_for((cpu_device *)d, ticket, timeout_ns));
  return QN_OK;
}

qn_status qn_cpu_wait_idle(cpu_device *d, uint64_t timeout_ns) {
  QN_TRY(wait_for(d, 0, timeout_ns));
  return QN_OK;
}

/* ---- life ---- */

void qn_cpu_queue_prepare(cpu_device *d) {
  d->tail = &d->head;
  d->pool->call_dispatcher = call_dispatcher;
  d->pool->call_arg = d;
}

qn_status qn_cpu_queue_start(cpu_device *d) {
  QN_TRY(qn_thread_start(&d->dispatcher, dispatcher_main, d));
  d->dispatcher_started = true;
  return QN_OK;
}

void qn_cpu_queue_destroy(cpu_device *d) {
  if (d->dispatcher_started) {
    qn_mutex_lock(&d->pool->mutex);
    atomic_store(&d->pool->stop, true);
    call_dispatcher(d);
    qn_mutex_unlock(&d->pool->mutex);
    qn_thread_join(d->dispatcher);
  }
  for (cpu_node *n = d->spare; n;) {
    cpu_node *next = n->next;
    free(n);
    n = next;
  }
}
