/* Submissions that wait for other devices. Drivers need not know one another: a thread of the waiting device, started
 * when the first such submission comes, waits for the foreign tickets and then hands the recording on. Later
 * submissions to the device queue up behind it, so its order stays that of submission. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

static void deferred_free(qn_deferred *e) {
  for (size_t i = 0; i < e->wait_count; i++)
    qn_device_release(e->waits[i].device);
  free(e->waits);
  free(e);
}

qn_status qn_hal_submit_now(qn_device *d, qn_recording *r, uint64_t ticket) {
  uint64_t got = 0;
  QN_TRY(qn_hal_note(d, d->vt->submit(d, r, NULL, 0, &got)));
  if (got != ticket)
    return QN_ERR(QN_INTERNAL, "driver of %s numbered a submission %llu, expected %llu", d->caps.id,
                  (unsigned long long)got, (unsigned long long)ticket);
  atomic_store_explicit(&d->hal->submitted, ticket, memory_order_release);
  return QN_OK;
}

/* The thread's work on one entry; the mutex is not held. An entry holds no reference to its recording: that would let
 * the thread drop the last one of its own device. Instead the end of a recording waits for its tickets. */
static void run_deferred(qn_device *d, qn_deferred *e) {
  qn_hal_state *s = d->hal;
  qn_status st = qn_hal_check_alive(d);
  for (size_t i = 0; i < e->wait_count && st == QN_OK; i++)
    st = qn_device_wait(e->waits[i].device, e->waits[i].ticket, 0);
  qn_mutex_lock(&s->mutex);
  if (st == QN_OK)
    st = qn_hal_check_alive(d);
  if (st == QN_OK && e->recording)
    st = qn_hal_submit_now(d, e->recording, e->ticket);
  s->head = e->next;
  if (!s->head)
    s->tail = &s->head;
  if (st != QN_OK) {
    /* Its ticket can never be reached, nor can any behind it. */
    char why[1024];
    (void)snprintf(why, sizeof why, "%s", qn_error_message());
    (void)qn_hal_note(d, QN_ERR(QN_DEVICE_LOST, "a submission that waited for another device failed: %s", why));
  }
  qn_cond_broadcast(&s->cond);
  qn_mutex_unlock(&s->mutex);
}

static void defer_main(void *arg) {
  qn_device *d = arg;
  qn_hal_state *s = d->hal;
  qn_mutex_lock(&s->mutex);
  while (!s->stop || s->head) {
    qn_deferred *e = s->head;
    if (!e) {
      qn_cond_wait(&s->cond, &s->mutex);
      continue;
    }
    qn_mutex_unlock(&s->mutex);
    run_deferred(d, e);
    deferred_free(e);
    qn_mutex_lock(&s->mutex);
  }
  qn_mutex_unlock(&s->mutex);
}

qn_status qn_hal_defer(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t ticket) {
  qn_hal_state *s = d->hal;
  qn_deferred *e = calloc(1, sizeof *e);
  if (e)
    e->waits = calloc(wait_count ? wait_count : 1, sizeof *e->waits);
  if (!e || !e->waits) {
    free(e);
    return QN_ERR(QN_OUT_OF_MEMORY, "submit to %s: no memory", d->caps.id);
  }
  if (!s->thread_started) {
    qn_status st = qn_thread_start(&s->thread, defer_main, d);
    if (st != QN_OK) {
      free(e->waits);
      free(e);
      return qn_error_trace(st, __FILE__, __LINE__, "qn_thread_start");
    }
    s->thread_started = true;
  }
  for (size_t i = 0; i < wait_count; i++)
    e->waits[i] = (qn_wait){qn_device_retain(waits[i].device), waits[i].ticket};
  e->wait_count = wait_count;
  e->recording = r;
  e->ticket = ticket;
  *s->tail = e;
  s->tail = &e->next;
  qn_cond_broadcast(&s->cond);
  return QN_OK;
}

qn_status qn_hal_drain(qn_device *d, uint64_t ticket, uint64_t deadline_ns) {
  qn_hal_state *s = d->hal;
  if (atomic_load_explicit(&s->submitted, memory_order_acquire) >= ticket)
    return QN_OK;
  bool in_time = true;
  qn_mutex_lock(&s->mutex);
  while (atomic_load(&s->submitted) < ticket && !atomic_load(&s->lost) && in_time)
    in_time = qn_cond_wait_until(&s->cond, &s->mutex, deadline_ns);
  bool reached = atomic_load(&s->submitted) >= ticket;
  qn_mutex_unlock(&s->mutex);
  if (reached)
    return QN_OK;
  QN_TRY(qn_hal_check_alive(d));
  return QN_ERR(QN_TIMEOUT, "device %s: submission %llu still waits for another device", d->caps.id,
                (unsigned long long)ticket);
}

void qn_hal_forget(qn_device *d, const qn_recording *r) {
  qn_hal_state *s = d->hal;
  qn_mutex_lock(&s->mutex);
  for (qn_deferred *e = s->head; e; e = e->next)
    if (e->recording == r)
      e->recording = NULL;
  qn_mutex_unlock(&s->mutex);
}
