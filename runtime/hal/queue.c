/* Submissions, waits and host copies: faults are injected here, waits on other devices resolved, and a timeout gets a
 * message that names the oldest work. */
#include "state.h"

#include <string.h>

static void count(atomic_ullong *counter, uint64_t n) {
  (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static uint64_t deadline_of(uint64_t timeout_ns) {
  uint64_t bound = timeout_ns ? timeout_ns : QN_WAIT_DEFAULT_NS;
  uint64_t now = qn_time_ns();
  return bound > UINT64_MAX - now ? UINT64_MAX : now + bound;
}

static qn_status inject(qn_device *d) {
  qn_hal_state *s = d->hal;
  uint64_t n = atomic_fetch_add(&s->submits, 1) + 1;
  if (n == s->fault.submit)
    return QN_ERR(QN_OUT_OF_MEMORY, "submit to %s: failure injected by QN_FAULT", d->caps.id);
  if (n == s->fault.lost)
    return qn_hal_note(d, QN_ERR(QN_DEVICE_LOST, "device %s lost: injected by QN_FAULT", d->caps.id));
  return QN_OK;
}

static void remember(qn_hal_state *s, const qn_recording *r, uint64_t ticket) {
  size_t at = ticket % QN_HISTORY;
  s->history[at].ticket = ticket;
  s->history[at].time_ns = qn_time_ns();
  const char *label = r->program_count ? r->programs[0]->entries[0].label : "copies";
  size_t n = strnlen(label, sizeof s->history[at].label - 1);
  memcpy(s->history[at].label, label, n);
  s->history[at].label[n] = 0;
}

/* The waits that are really still open, on other devices; the mutex is held. */
static qn_status submit_ordered(qn_device *d, qn_recording *r, const qn_wait *open, size_t open_count,
                                uint64_t *out_ticket) {
  qn_hal_state *s = d->hal;
  QN_TRY(qn_hal_check_alive(d));
  uint64_t ticket = s->issued + 1;
  if (open_count || s->head)
    QN_TRY(qn_hal_defer(d, r, open, open_count, ticket));
  else
    QN_TRY(qn_hal_submit_now(d, r, ticket));
  s->issued = ticket;
  atomic_store(&r->last_ticket, ticket);
  remember(s, r, ticket);
  *out_ticket = ticket;
  return QN_OK;
}

enum { MOST_WAITS = 64 };

qn_status qn_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket) {
  uint64_t ticket = 0;
  if (out_ticket)
    *out_ticket = 0;
  if (!r)
    return QN_ERR(QN_INVALID, "submit to %s: no recording", d->caps.id);
  if (r->device != d)
    return QN_ERR(QN_INVALID, "submit: the recording belongs to device %s, not to %s", r->device->caps.id, d->caps.id);
  if (wait_count > MOST_WAITS || (wait_count && !waits))
    return QN_ERR(QN_INVALID, "submit to %s: %zu waits, at most %d", d->caps.id, wait_count, MOST_WAITS);
  qn_wait open[MOST_WAITS];
  size_t open_count = 0;
  for (size_t i = 0; i < wait_count; i++) {
    if (!waits[i].device)
      return QN_ERR(QN_INVALID, "submit to %s: wait %zu names no device", d->caps.id, i);
    if (waits[i].device != d && !qn_device_done(waits[i].device, waits[i].ticket))
      open[open_count++] = waits[i];
  }
  QN_TRY(qn_hal_check_alive(d));
  QN_TRY(inject(d));
  qn_mutex_lock(&d->hal->mutex);
  qn_status st = submit_ordered(d, r, open, open_count, &ticket);
  qn_mutex_unlock(&d->hal->mutex);
  if (st != QN_OK)
    return qn_error_trace(st, __FILE__, __LINE__, "submit_ordered");
  count(&d->stats.submits, 1);
  count(&d->stats.launches, r->launch_count);
  if (out_ticket)
    *out_ticket = ticket;
  if (d->hal->sync)
    QN_TRY(qn_device_wait(d, ticket, 0));
  return QN_OK;
}

bool qn_device_done(qn_device *d, uint64_t ticket) {
  if (ticket == 0)
    return true;
  if (atomic_load_explicit(&d->hal->submitted, memory_order_acquire) < ticket)
    return false;
  return d->vt->done(d, ticket);
}

/* Writes the message of a timeout over the driver's. */
static qn_status timed_out(qn_device *d, uint64_t ticket, uint64_t bound_ns) {
  qn_hal_state *s = d->hal;
  qn_mutex_lock(&s->mutex);
  uint64_t first = ticket > QN_HISTORY ? ticket - QN_HISTORY + 1 : 1;
  while (first < ticket && qn_device_done(d, first))
    first++;
  size_t at = first % QN_HISTORY;
  char label[sizeof s->history[at].label];
  memcpy(label, s->history[at].label, sizeof label);
  uint64_t since = s->history[at].ticket == first ? s->history[at].time_ns : 0;
  qn_mutex_unlock(&s->mutex);
  double age = since ? (double)(qn_time_ns() - since) * 1e-9 : 0;
  return QN_ERR(QN_TIMEOUT, "device %s: not done after %.3f s; oldest work is submission %llu (%s), %.3f s old",
                d->caps.id, (double)bound_ns * 1e-9, (unsigned long long)first, label, age);
}

/* Waits for a ticket without counting it. */
static qn_status wait_for(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  uint64_t deadline = deadline_of(timeout_ns);
  uint64_t bound = timeout_ns ? timeout_ns : QN_WAIT_DEFAULT_NS;
  qn_status st = qn_hal_drain(d, ticket, deadline);
  if (st == QN_TIMEOUT)
    return timed_out(d, ticket, bound);
  QN_TRY(st);
  uint64_t now = qn_time_ns();
  st = qn_hal_note(d, d->vt->wait(d, ticket, now < deadline ? deadline - now : 1));
  if (st == QN_TIMEOUT)
    return timed_out(d, ticket, bound);
  QN_TRY(st);
  return QN_OK;
}

qn_status qn_device_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  if (ticket == 0)
    return QN_OK;
  QN_TRY(qn_hal_check_alive(d));
  qn_mutex_lock(&d->hal->mutex);
  uint64_t issued = d->hal->issued;
  qn_mutex_unlock(&d->hal->mutex);
  if (ticket > issued)
    return QN_ERR(QN_INVALID, "wait: device %s has given %llu tickets, asked for %llu", d->caps.id,
                  (unsigned long long)issued, (unsigned long long)ticket);
  count(&d->stats.host_waits, 1);
  QN_TRY(wait_for(d, ticket, timeout_ns));
  return QN_OK;
}

/* Host copies come behind everything submitted, so submissions still held back by another device must go first. */
static qn_status drain_all(qn_device *d) {
  qn_mutex_lock(&d->hal->mutex);
  uint64_t issued = d->hal->issued;
  qn_mutex_unlock(&d->hal->mutex);
  return qn_hal_drain(d, issued, deadline_of(0));
}

qn_status qn_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  qn_device *d = b->device;
  QN_TRY(qn_check_range(b, "write", offset, size));
  if (size && !data)
    return QN_ERR(QN_INVALID, "write to buffer %s: no data", b->label);
  QN_TRY(qn_hal_check_alive(d));
  if (size == 0)
    return QN_OK;
  QN_TRY(drain_all(d));
  QN_TRY(qn_hal_note(d, d->vt->buffer_write(b, offset, size, data)));
  count(&d->stats.bytes_written, size);
  return QN_OK;
}

qn_status qn_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  qn_device *d = b->device;
  QN_TRY(qn_check_range(b, "read", offset, size));
  if (size && !out_data)
    return QN_ERR(QN_INVALID, "read of buffer %s: no room", b->label);
  QN_TRY(qn_hal_check_alive(d));
  if (size == 0)
    return QN_OK;
  QN_TRY(drain_all(d));
  count(&d->stats.host_waits, 1);
  qn_status st = qn_hal_note(d, d->vt->buffer_read(b, offset, size, out_data));
  if (st == QN_TIMEOUT) {
    qn_mutex_lock(&d->hal->mutex);
    uint64_t issued = d->hal->issued;
    qn_mutex_unlock(&d->hal->mutex);
    return timed_out(d, issued, QN_WAIT_DEFAULT_NS);
  }
  QN_TRY(st);
  count(&d->stats.bytes_read, size);
  return QN_OK;
}
