/* Devices, buffers, programs and recordings as counted objects: creation through the driver, base members filled here,
 * release in any order because a child holds its device. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

static void count(atomic_ullong *counter, uint64_t n) {
  (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static bool last_reference(atomic_int *refs) {
  int before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
  QN_CHECK(before > 0);
  return before == 1;
}
static void add_reference(atomic_int *refs) { (void)atomic_fetch_add_explicit(refs, 1, memory_order_relaxed); }

/* ---- device ---- */
qn_device *qn_device_retain(qn_device *d) {
  if (d)
    add_reference(&d->refs);
  return d;
}

void qn_device_release(qn_device *d) {
  if (!d || !last_reference(&d->refs))
    return;
  qn_hal_state_detach(d);
  d->vt->destroy(d);
}

const qn_device_caps *qn_device_get_caps(const qn_device *d) { return &d->caps; }
const char *qn_device_why(const qn_device *d) { return d->why; }

void qn_device_get_stats(const qn_device *d, qn_device_stats *out_stats) {
#define TAKE(field) .field = atomic_load_explicit(&d->stats.field, memory_order_relaxed)
  *out_stats =
      (qn_device_stats){TAKE(buffers_created), TAKE(bytes_live), TAKE(bytes_peak),        TAKE(programs_compiled),
                        TAKE(recordings),      TAKE(submits),    TAKE(launches),          TAKE(host_waits),
                        TAKE(bytes_written),   TAKE(bytes_read), TAKE(descriptor_updates)};
#undef TAKE
}

/* ---- buffers ---- */
static void count_live(qn_device *d, uint64_t size) {
  uint64_t live = atomic_fetch_add_explicit(&d->stats.bytes_live, size, memory_order_relaxed) + size;
  unsigned long long peak = atomic_load_explicit(&d->stats.bytes_peak, memory_order_relaxed);
  while (live > peak && !atomic_compare_exchange_weak(&d->stats.bytes_peak, &peak, live)) {
  }
}

static bool fault_hits(atomic_ullong *counter, uint64_t at) { return atomic_fetch_add(counter, 1) + 1 == at; }

static qn_status poison(qn_buffer *b) {
  uint64_t at = 0;
  uint8_t bytes[4096];
  memset(bytes, 0xff, sizeof bytes); /* NaN as f32, f64 and f16 */
  void *host = b->device->vt->buffer_map(b);
  if (host) {
    memset(host, 0xff, (size_t)b->size);
    return QN_OK;
  }
  for (; at < b->size; at += sizeof bytes) {
    uint64_t n = b->size - at < sizeof bytes ? b->size - at : sizeof bytes;
    QN_TRY(b->device->vt->buffer_write(b, at, n, bytes));
  }
  return QN_OK;
}

qn_status qn_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer) {
  *out_buffer = NULL;
  const char *label = desc->label ? desc->label : "";
  QN_TRY(qn_hal_check_alive(d));
  if (desc->size > d->caps.max_buffer_bytes)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: %llu bytes asked for, device %s allows %llu", label,
                  (unsigned long long)desc->size, d->caps.id, (unsigned long long)d->caps.max_buffer_bytes);
  uint64_t live = atomic_load_explicit(&d->stats.bytes_live, memory_order_relaxed);
  if (d->caps.memory_bytes && live + desc->size > d->caps.memory_bytes)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: %llu bytes asked for, %llu in use, device %s has %llu", label,
                  (unsigned long long)desc->size, (unsigned long long)live, d->caps.id,
                  (unsigned long long)d->caps.memory_bytes);
  if (fault_hits(&d->hal->allocs, d->hal->fault.alloc))
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: %llu bytes: failure injected by QN_FAULT", label,
                  (unsigned long long)desc->size);
  qn_buffer *b = NULL;
  QN_TRY(qn_hal_note(d, d->vt->buffer_create(d, desc, &b)));
  atomic_init(&b->refs, 1);
  b->device = qn_device_retain(d);
  b->size = desc->size;
  (void)snprintf(b->label, sizeof b->label, "%s", label);
  count(&d->stats.buffers_created, 1);
  count_live(d, b->size);
  if (d->hal->poison && b->size) {
    qn_status st = poison(b);
    if (st != QN_OK) {
      qn_buffer_release(b);
      return qn_error_trace(st, __FILE__, __LINE__, "poison");
    }
  }
  *out_buffer = b;
  return QN_OK;
}

qn_buffer *qn_buffer_retain(qn_buffer *b) {
  if (b)
    add_reference(&b->refs);
  return b;
}

void qn_buffer_release(qn_buffer *b) {
  if (!b || !last_reference(&b->refs))
    return;
  qn_device *d = b->device;
  (void)atomic_fetch_sub_explicit(&d->stats.bytes_live, b->size, memory_order_relaxed);
  d->vt->buffer_destroy(b);
  qn_device_release(d);
}

uint64_t qn_buffer_size(const qn_buffer *b) { return b->size; }
qn_device *qn_buffer_device(const qn_buffer *b) { return b->device; }
void *qn_buffer_map(qn_buffer *b) { return b->device->caps.host_memory ? b->device->vt->buffer_map(b) : NULL; }

/* ---- programs ---- */
static void release_code(const qn_code *code) {
  if (code->release)
    code->release(code->owner);
}

static qn_status fill_entries(qn_program *p, const qn_code *code) {
  p->entries = calloc(code->entry_count, sizeof *p->entries);
  if (!p->entries)
    return QN_ERR(QN_OUT_OF_MEMORY, "program of %zu entries: no memory", code->entry_count);
  p->entry_count = code->entry_count;
  for (size_t i = 0; i < code->entry_count; i++) {
    const qn_code_entry *e = &code->entries[i];
    const char *label = qn_code_entry_label(e);
    (void)snprintf(p->entries[i].label, sizeof p->entries[i].label, "%s", label);
    p->entries[i].items = e->items;
    p->entries[i].binding_count = e->binding_count;
    p->entries[i].param_count = e->param_count;
  }
  return QN_OK;
}

static qn_status program_make(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_used,
                              qn_program **out_program) {
  QN_TRY(qn_hal_check_alive(d));
  QN_TRY(qn_check_code(d, code));
  if (fault_hits(&d->hal->compiles, d->hal->fault.compile))
    return QN_ERR(QN_COMPILE, "kernel %s: failure injected by QN_FAULT",
                  code->entries[0].label ? code->entries[0].label : "unnamed");
  qn_program *p = NULL;
  QN_TRY(qn_hal_note(d, d->vt->program_create(d, code, binary && binary->size ? binary : NULL, out_used, &p)));
  struct qn_program_entry *own = p->entries; /* some drivers have no use for them, none keeps them */
  free(own);
  qn_status st = fill_entries(p, code);
  if (st != QN_OK) {
    d->vt->program_destroy(p);
    return qn_error_trace(st, __FILE__, __LINE__, "fill_entries");
  }
  atomic_init(&p->refs, 1);
  p->device = qn_device_retain(d);
  p->release = code->release;
  p->owner = code->owner;
  if (!*out_used)
    count(&d->stats.programs_compiled, 1);
  *out_program = p;
  return QN_OK;
}

qn_status qn_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                            qn_program **out_program) {
  bool used = false;
  *out_program = NULL;
  qn_status st = program_make(d, code, binary, &used, out_program);
  if (out_binary_used)
    *out_binary_used = used;
  if (st != QN_OK) {
    release_code(code);
    return qn_error_trace(st, __FILE__, __LINE__, "program_make");
  }
  return QN_OK;
}

qn_status qn_program_binary(qn_program *p, qn_bytes *out_binary) {
  *out_binary = (qn_bytes){0};
  QN_TRY(qn_hal_check_alive(p->device));
  QN_TRY(qn_hal_note(p->device, p->device->vt->program_binary(p, out_binary)));
  return QN_OK;
}

qn_status qn_program_warm_up(qn_program *p) {
  QN_TRY(qn_hal_check_alive(p->device));
  QN_TRY(qn_hal_note(p->device, p->device->vt->program_warm_up(p)));
  return QN_OK;
}

qn_program *qn_program_retain(qn_program *p) {
  if (p)
    add_reference(&p->refs);
  return p;
}

void qn_program_release(qn_program *p) {
  if (!p || !last_reference(&p->refs))
    return;
  qn_device *d = p->device;
  struct qn_program_entry *entries = p->entries;
  void (*release)(void *) = p->release;
  void *owner = p->owner;
  d->vt->program_destroy(p);
  free(entries);
  if (release)
    release(owner);
  qn_device_release(d);
}

/* ---- recordings ---- */
static void drop_children(qn_buffer **buffers, size_t buffer_count, qn_program **programs, size_t program_count) {
  for (size_t i = 0; buffers && i < buffer_count; i++)
    qn_buffer_release(buffers[i]);
  for (size_t i = 0; programs && i < program_count; i++)
    qn_program_release(programs[i]);
  free(buffers);
  free(programs);
}

static void keep_children(qn_recording *r, const qn_recording_desc *desc, qn_buffer **buffers, qn_program **programs) {
  for (size_t i = 0; i < desc->buffer_count; i++)
    buffers[i] = qn_buffer_retain(desc->buffers[i]);
  size_t n = 0;
  r->launch_count = 0;
  for (size_t i = 0; i < desc->cmd_count; i++) {
    if (desc->cmds[i].kind != QN_CMD_LAUNCH)
      continue;
    r->launch_count += desc->cmds[i].groups > 0;
    programs[n++] = qn_program_retain(desc->cmds[i].program);
  }
  r->buffers = buffers;
  r->buffer_count = desc->buffer_count;
  r->programs = programs;
  r->program_count = n;
}

qn_status qn_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording) {
  *out_recording = NULL;
  QN_TRY(qn_hal_check_alive(d));
  QN_TRY(qn_check_recording(d, desc));
  qn_buffer **buffers = calloc(desc->buffer_count + 1, sizeof *buffers);
  qn_program **programs = calloc(desc->cmd_count + 1, sizeof *programs);
  qn_recording *r = NULL;
  qn_status st = QN_OK;
  if (!buffers || !programs)
    st = QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  else
    st = qn_hal_note(d, d->vt->record(d, desc, &r));
  if (st != QN_OK) {
    free(buffers);
    free(programs);
    return qn_error_trace(st, __FILE__, __LINE__, "record");
  }
  keep_children(r, desc, buffers, programs);
  atomic_init(&r->refs, 1);
  atomic_init(&r->last_ticket, 0);
  r->device = qn_device_retain(d);
  r->cmd_count = desc->cmd_count;
  r->timestamps = desc->timestamps;
  count(&d->stats.recordings, 1);
  *out_recording = r;
  return QN_OK;
}

qn_status qn_recording_times(qn_recording *r, uint64_t *out_ns, size_t n) {
  if (!r->timestamps)
    return QN_ERR(QN_UNSUPPORTED, "recording times: recorded without timestamps");
  if (n != r->cmd_count)
    return QN_ERR(QN_INVALID, "recording times: room for %zu commands, the recording has %zu", n, r->cmd_count);
  QN_TRY(qn_hal_check_alive(r->device));
  QN_TRY(qn_hal_note(r->device, r->device->vt->recording_times(r, out_ns, n)));
  return QN_OK;
}

qn_recording *qn_recording_retain(qn_recording *r) {
  if (r)
    add_reference(&r->refs);
  return r;
}

void qn_recording_release(qn_recording *r) {
  if (!r || !last_reference(&r->refs))
    return;
  qn_device *d = r->device;
  uint64_t ticket = atomic_load(&r->last_ticket);
  if (ticket && !qn_device_done(d, ticket)) {
    qn_status st = qn_device_wait(d, ticket, 0);
    if (st == QN_TIMEOUT)
      return; /* the device still reads it: a leak is better than freed memory in use */
  }
  qn_hal_forget(d, r);
  qn_buffer **buffers = r->buffers;
  qn_program **programs = r->programs;
  size_t buffer_count = r->buffer_count, program_count = r->program_count;
  d->vt->recording_destroy(r);
  drop_children(buffers, buffer_count, programs, program_count);
  qn_device_release(d);
}

uint32_t qn_probe_rounds(const float *x) {
  uint32_t got, n = 1;
  memcpy(&got, x, sizeof got);
  got &= 0x1fffffffu;
  for (uint32_t i = 0; i < QN_PROBE_ROUNDS; i++) {
    if ((n & 0x1fffffffu) == got)
      return i;
    n = n * 1664525u + i;
  }
  return (n & 0x1fffffffu) == got ? UINT32_MAX
                                  : 1024; /* neither: it is broken in another way, and little is trusted to it */
}
