/* Trees of arrays in device memory, and rings of them. On devices whose buffers are host memory a leaf is read and written in place as soon as the last
 * submission that uses the slab is done; while one is running, and on all other devices, copies go through the device's queue, in order. */
#include "exec_impl.h"

#include <stdlib.h>
#include <string.h>

#include "quern/driver.h" /* for the counters: copies in place are counted as if the queue had made them */

qn_status qn_tensors_create(qn_device *d, const qn_layout *layout, const char *label, qn_tensors **out_tensors) {
  qn_status st = QN_OK;
  *out_tensors = NULL;
  if (!label)
    label = "tensors";
  qn_tensors *t = calloc(1, sizeof *t);
  char *name = malloc(strlen(label) + 1);
  if (!t || !name) {
    free(t);
    free(name);
    return QN_ERR(QN_OUT_OF_MEMORY, "tensors %s: no memory", label);
  }
  memcpy(name, label, strlen(label) + 1);
  t->label = name;
  atomic_init(&t->refs, 1);
  QN_TRY_GOTO(st, qn_layout_copy(layout, &t->layout), failed);
  QN_TRY_GOTO(st, qn_buffer_create(d, &(qn_buffer_desc){.size = layout->bytes, .label = label}, &t->buffer), failed);
  t->device = qn_device_retain(d);
  t->host = qn_buffer_map(t->buffer);
  *out_tensors = t;
  return QN_OK;
failed:
  qn_layout_free(&t->layout);
  free(t->label);
  free(t);
  return st;
}

qn_tensors *qn_tensors_retain(qn_tensors *t) {
  if (t)
    (void)atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  return t;
}

void qn_tensors_release(qn_tensors *t) {
  if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
    return;
  qn_buffer_release(t->buffer); /* recordings that still use it hold it, too */
  qn_device_release(t->device);
  qn_layout_free(&t->layout);
  free(t->label);
  free(t);
}

const qn_layout *qn_tensors_layout(const qn_tensors *t) { return &t->layout; }
qn_buffer *qn_tensors_buffer(const qn_tensors *t) { return t->buffer; }
qn_device *qn_tensors_device(const qn_tensors *t) { return t->device; }
const char *qn_tensors_label(const qn_tensors *t) { return t->label; }
bool qn_tensors_lost(const qn_tensors *t) { return atomic_load_explicit(&t->lost, memory_order_acquire); }
void qn_tensors_mark_lost(qn_tensors *t) { atomic_store_explicit(&t->lost, true, memory_order_release); }

void qn_tensors_used(qn_tensors *t, uint64_t ticket) {
  unsigned long long before = atomic_load_explicit(&t->last_ticket, memory_order_relaxed);
  while (before < ticket && !atomic_compare_exchange_weak(&t->last_ticket, &before, ticket)) {
  }
  /* Writes queued before the submission are done when it is. */
  atomic_store_explicit(&t->queued, false, memory_order_release);
}

/* Nothing that was submitted or queued touches the slab any more. */
static bool in_place(const qn_tensors *t) {
  return t->host && !atomic_load_explicit(&t->queued, memory_order_acquire) && !qn_tensors_lost(t) &&
         qn_device_done(t->device, atomic_load_explicit(&t->last_ticket, memory_order_acquire));
}

static void count(atomic_ullong *counter, uint64_t n) {
  (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static qn_status find_leaf(const qn_tensors *t, const char *path, size_t *out_index) {
  ptrdiff_t at = path ? qn_layout_find(&t->layout, path) : -1;
  if (at >= 0) {
    *out_index = (size_t)at;
    return QN_OK;
  }
  char there[512] = "none";
  int n = 0;
  for (size_t i = 0; i < t->layout.count && n >= 0 && (size_t)n < sizeof there; i++)
    n += snprintf(there + n, sizeof there - (size_t)n, "%s%s", i ? ", " : "", t->layout.entries[i].path);
  return QN_ERR(QN_NOT_FOUND, "tensors %s: no leaf \"%s\"; there are: %s", t->label, path ? path : "(null)", there);
}

static qn_status check_leaf(const qn_tensors *t, size_t index, const void *data, const char *verb) {
  if (index >= t->layout.count)
    return QN_ERR(QN_INVALID, "%s tensors %s: leaf %zu asked for, there are %zu", verb, t->label, index,
                  t->layout.count);
  if (!data && t->layout.entries[index].bytes)
    return QN_ERR(QN_INVALID, "%s tensors %s: no memory given for leaf \"%s\"", verb, t->label,
                  t->layout.entries[index].path);
  return QN_OK;
}

qn_status qn_tensors_write_at(qn_tensors *t, size_t index, const void *data) {
  QN_TRY(check_leaf(t, index, data, "write"));
  const qn_layout_entry *e = &t->layout.entries[index];
  if (e->bytes == 0)
    return QN_OK;
  if (in_place(t)) {
    memcpy(t->host + e->offset, data, (size_t)e->bytes);
    count(&t->device->stats.bytes_written, e->bytes);
    return QN_OK;
  }
  atomic_store_explicit(&t->queued, true, memory_order_release);
  QN_TRY(qn_buffer_write(t->buffer, e->offset, e->bytes, data));
  return QN_OK;
}

static qn_status lost(const qn_tensors *t) {
  return QN_ERR(QN_DEVICE_LOST,
                "tensors %s: the contents are lost, for a step failed after it began to write them in place", t->label);
}

qn_status qn_tensors_wait(const qn_tensors *t) {
  uint64_t ticket = atomic_load_explicit(&t->last_ticket, memory_order_acquire);
  if (!qn_device_done(t->device, ticket))
    QN_TRY(qn_device_wait(t->device, ticket, 0));
  return QN_OK;
}

qn_status qn_tensors_read_at(const qn_tensors *t, size_t index, void *out_data) {
  QN_TRY(check_leaf(t, index, out_data, "read"));
  const qn_layout_entry *e = &t->layout.entries[index];
  if (qn_tensors_lost(t))
    return lost(t);
  if (e->bytes == 0)
    return QN_OK;
  if (t->host && !atomic_load_explicit(&t->queued, memory_order_acquire)) {
    QN_TRY(qn_tensors_wait(t));
    memcpy(out_data, t->host + e->offset, (size_t)e->bytes);
    count(&t->device->stats.bytes_read, e->bytes);
    return QN_OK;
  }
  QN_TRY(qn_buffer_read(t->buffer, e->offset, e->bytes, out_data));
  return QN_OK;
}

qn_status qn_tensors_write(qn_tensors *t, const char *path, const void *data) {
  size_t index;
  QN_TRY(find_leaf(t, path, &index));
  QN_TRY(qn_tensors_write_at(t, index, data));
  return QN_OK;
}

qn_status qn_tensors_read(const qn_tensors *t, const char *path, void *out_data) {
  size_t index;
  QN_TRY(find_leaf(t, path, &index));
  QN_TRY(qn_tensors_read_at(t, index, out_data));
  return QN_OK;
}

qn_status qn_tensors_zero(qn_tensors *t) {
  uint64_t size = t->layout.bytes, ticket = 0;
  if (size == 0)
    return QN_OK;
  if (in_place(t)) {
    memset(t->host, 0, (size_t)size);
    count(&t->device->stats.bytes_written, size);
    return QN_OK;
  }
  qn_cmd fill = {.kind = QN_CMD_FILL, .size = size};
  qn_recording_desc desc = {.cmds = &fill, .cmd_count = 1, .buffers = &t->buffer, .buffer_count = 1};
  qn_recording *r = NULL;
  QN_TRY(qn_record(t->device, &desc, &r));
  qn_status st = qn_submit(t->device, r, NULL, 0, &ticket);
  if (st == QN_OK)
    qn_tensors_used(t, ticket);
  qn_recording_release(r); /* waits till the device has let go of it */
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_submit");
}

/* ---- rings ---- */
struct qn_ring {
  qn_mutex mutex;
  uint32_t count, next;
  qn_tensors *slots[];
};

qn_status qn_ring_create(qn_device *d, const qn_layout *layout, const char *label, uint32_t slots, qn_ring **out_ring) {
  *out_ring = NULL;
  if (slots == 0)
    slots = 3;
  if (slots > 1024)
    return QN_ERR(QN_INVALID, "ring %s: %u tensors asked for, expected at most 1024", label ? label : "", slots);
  qn_ring *r = calloc(1, sizeof *r + slots * sizeof r->slots[0]);
  if (!r)
    return QN_ERR(QN_OUT_OF_MEMORY, "ring %s: no memory", label ? label : "");
  qn_status st = qn_mutex_init(&r->mutex);
  if (st != QN_OK) {
    free(r);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_mutex_init");
  }
  for (; r->count < slots && st == QN_OK; r->count += st == QN_OK)
    st = qn_tensors_create(d, layout, label ? label : "ring", &r->slots[r->count]);
  if (st != QN_OK) {
    qn_ring_destroy(r);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_tensors_create");
  }
  *out_ring = r;
  return QN_OK;
}

void qn_ring_destroy(qn_ring *r) {
  if (!r)
    return;
  for (uint32_t i = 0; i < r->count; i++)
    qn_tensors_release(r->slots[i]);
  qn_mutex_destroy(&r->mutex);
  free(r);
}

qn_status qn_ring_next(qn_ring *r, qn_tensors **out_tensors) {
  *out_tensors = NULL;
  qn_mutex_lock(&r->mutex);
  qn_tensors *t = r->slots[r->next];
  r->next = (r->next + 1) % r->count;
  qn_mutex_unlock(&r->mutex);
  QN_TRY(qn_tensors_wait(t)); /* the oldest: if it is in flight, all are */
  *out_tensors = t;
  return QN_OK;
}
