/* The HAL's half of a device: made after the driver has opened it, gone before the driver destroys it. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_hal_state_attach(qn_device *d) {
  qn_hal_state *s = calloc(1, sizeof *s);
  if (!s)
    return QN_ERR(QN_OUT_OF_MEMORY, "open %s: no memory", d->caps.id);
  s->tail = &s->head;
  s->sync = qn_env_on(QN_ENV_SYNC);
  s->poison = qn_env_on(QN_ENV_POISON);
  qn_status st = qn_fault_parse(qn_env_get(QN_ENV_FAULT), &s->fault);
  if (st == QN_OK)
    st = qn_mutex_init(&s->mutex);
  if (st == QN_OK) {
    st = qn_mutex_init(&s->failure_mutex);
    if (st == QN_OK) {
      st = qn_cond_init(&s->cond);
      if (st != QN_OK)
        qn_mutex_destroy(&s->failure_mutex);
    }
    if (st != QN_OK)
      qn_mutex_destroy(&s->mutex);
  }
  if (st != QN_OK) {
    free(s);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_hal_state_attach");
  }
  d->hal = s;
  return QN_OK;
}

void qn_hal_state_detach(qn_device *d) {
  qn_hal_state *s = d->hal;
  if (!s)
    return;
  if (s->thread_started) {
    qn_mutex_lock(&s->mutex);
    s->stop = true;
    qn_cond_broadcast(&s->cond);
    qn_mutex_unlock(&s->mutex);
    qn_thread_join(s->thread);
  }
  qn_cond_destroy(&s->cond);
  qn_mutex_destroy(&s->failure_mutex);
  qn_mutex_destroy(&s->mutex);
  free(s);
  d->hal = NULL;
}

qn_status qn_hal_check_alive(qn_device *d) {
  qn_hal_state *s = d->hal;
  if (!atomic_load_explicit(&s->lost, memory_order_acquire))
    return QN_OK;
  qn_mutex_lock(&s->failure_mutex);
  qn_error_copy copy = s->failure;
  qn_mutex_unlock(&s->failure_mutex);
  return QN_ERR(QN_DEVICE_LOST, "device %s was lost before: %.1500s", d->caps.id, copy.message);
}

qn_status qn_hal_note(qn_device *d, qn_status st) {
  if (st != QN_DEVICE_LOST)
    return st;
  qn_hal_state *s = d->hal;
  qn_mutex_lock(&s->failure_mutex);
  if (!atomic_load_explicit(&s->lost, memory_order_relaxed)) {
    qn_error_save(st, &s->failure);
    atomic_store_explicit(&s->lost, true, memory_order_release);
  }
  qn_mutex_unlock(&s->failure_mutex);
  return st;
}
