/* Calling a step. A call finds the recording of its set of slabs, or makes it, and submits it; nothing else happens in steady state. What a failed
 * submission or a lost device means for donated arguments is decided here. */
#include "exec_impl.h"

#include <string.h>

qn_status qn_step_fail(const char *name, qn_status st) {
  char message[1900];
  (void)snprintf(message, sizeof message, "%s", qn_error_message());
  return QN_ERR(st, "step %s: %s", name, message);
}

/* ---- recordings ---- */

static qn_step_entry *find_entry(qn_step *s, qn_tensors *const *args, const qn_tensors *result) {
  size_t n = s->plan->arg_count;
  for (size_t i = 0; i < s->entry_count; i++) {
    qn_step_entry *e = &s->entries[i];
    size_t k = 0;
    while (e->result == result && k < n && e->args[k] == args[k])
      k++;
    if (e->result == result && k == n)
      return e;
  }
  return NULL;
}

/* What can only be wrong with a set of slabs that has not been seen before. */
static qn_status check_args(const qn_step *s, qn_tensors *const *args, const qn_tensors *result) {
  const qn_plan *p = s->plan;
  for (size_t i = 0; i < p->arg_count; i++) {
    char what[160];
    (void)snprintf(what, sizeof what, "argument %zu (%.100s)", i, args[i]->label);
    if (args[i]->device != s->device)
      return QN_ERR(QN_INVALID, "%s is on device %s, expected %s", what, qn_device_get_caps(args[i]->device)->id,
                    qn_device_get_caps(s->device)->id);
    QN_TRY(qn_layout_check(what, &p->args[i], &args[i]->layout));
    if (args[i] == result && p->result.bytes)
      return QN_ERR(
          QN_INVALID,
          "%s is the result slab that this call would overwrite; a larger result_ring or donation avoids that", what);
    for (size_t k = 0; k < p->arg_count; k++)
      if (k != i && args[k] == args[i] && s->donated[i])
        return QN_ERR(QN_INVALID, "%s is donated and also given as argument %zu", what, k);
  }
  return QN_OK;
}

static void drop_entry(qn_step *s, size_t at) {
  qn_step_entry *e = &s->entries[at];
  qn_step_profiler_collect(s, e);
  for (size_t i = 0; i < s->piece_count; i++)
    qn_recording_release(e->recordings[i]);
  for (size_t i = 0; i < s->plan->arg_count; i++)
    qn_tensors_release(e->args[i]);
  qn_step_entry room = *e;
  size_t last = --s->entry_count;
  if (at != last) {
    *e = s->entries[last];
    s->entries[last].args =
        room.args; /* each entry keeps a room for the names of its slabs, and one for its recordings */
    s->entries[last].recordings = room.recordings;
  }
}

/* Makes room for one more: the least recently used goes, one that is done if there is any, for the end of one in flight is waited for. */
static void evict_one(qn_step *s) {
  size_t oldest = 0, oldest_done = s->entry_count;
  for (size_t i = 0; i < s->entry_count; i++) {
    const qn_step_entry *e = &s->entries[i];
    if (e->used < s->entries[oldest].used)
      oldest = i;
    if ((oldest_done == s->entry_count || e->used < s->entries[oldest_done].used) &&
        qn_device_done(s->device, e->ticket))
      oldest_done = i;
  }
  drop_entry(s, oldest_done < s->entry_count ? oldest_done : oldest);
}

/* All pieces on the slabs in s->buffers, into s->made. */
static qn_status record_pieces(qn_step *s) {
  qn_status st = QN_OK;
  size_t done = 0;
  for (; done < s->piece_count && st == QN_OK; done += st == QN_OK)
    st = qn_record(s->device,
                   &(qn_recording_desc){.cmds = s->pieces[done].cmds,
                                        .cmd_count = s->pieces[done].count,
                                        .buffers = s->buffers,
                                        .buffer_count = s->plan->arg_count + 2,
                                        .timestamps = s->profiler != NULL},
                   &s->made[done]);
  for (; done > 0 && st != QN_OK; done--)
    qn_recording_release(s->made[done - 1]);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_record");
}

static qn_status make_entry(qn_step *s, qn_tensors *const *args, qn_tensors *result, qn_step_entry **out_entry) {
  size_t n = s->plan->arg_count;
  QN_TRY(check_args(s, args, result));
  s->buffers[0] = s->arena;
  for (size_t i = 0; i < n; i++)
    s->buffers[i + 1] = args[i]->buffer;
  s->buffers[n + 1] = result->buffer;
  QN_TRY(record_pieces(s));
  if (s->entry_count == s->entry_limit)
    evict_one(s);
  qn_step_entry *e = &s->entries[s->entry_count++];
  *e = (qn_step_entry){.recordings = e->recordings, .args = e->args, .result = result};
  memcpy(e->recordings, s->made, s->piece_count * sizeof(qn_recording *));
  for (size_t i = 0; i < n; i++)
    e->args[i] = qn_tensors_retain(args[i]);
  s->stats.recordings_created++;
  *out_entry = e;
  return QN_OK;
}

/* ---- losses ---- */

static void lose_donated(qn_step *s, const qn_step_entry *e) {
  for (size_t i = 0; s->writes_donated && i < s->plan->arg_count; i++)
    if (s->donated[i])
      qn_tensors_mark_lost(e->args[i]);
}

/* The device is gone: what was being written in place is neither old nor new. */
static void lose_in_flight(qn_step *s) {
  for (size_t i = 0; i < s->entry_count; i++)
    if (!qn_device_done(s->device, s->entries[i].ticket))
      lose_donated(s, &s->entries[i]);
}

/* ---- calls ---- */

static qn_status check_call(const qn_step *s, qn_tensors *const *args, size_t arg_count) {
  if (arg_count != s->plan->arg_count || (arg_count && !args))
    return QN_ERR(QN_INVALID, "called with %zu arguments, expected %zu", args ? arg_count : 0, s->plan->arg_count);
  for (size_t i = 0; i < arg_count; i++) {
    if (!args[i])
      return QN_ERR(QN_INVALID, "argument %zu is missing", i);
    if (qn_tensors_lost(args[i]))
      return QN_ERR(QN_DEVICE_LOST, "argument %zu (%s) is lost, for a step failed after it began to write it in place",
                    i, args[i]->label);
  }
  return QN_OK;
}

static qn_status call_locked(qn_step *s, qn_tensors *const *args, qn_tensors **out_result, uint64_t *out_ticket) {
  qn_tensors *result = s->results[s->next];
  qn_step_entry *e = find_entry(s, args, result);
  if (!e)
    QN_TRY(make_entry(s, args, result, &e));
  if (s->profiler) {
    qn_step_profiler_collect_all(s); /* e's own times are overwritten by what follows */
    e->submitted_ns = qn_time_ns();
  }
  e->used = ++s->clock;
  uint64_t before = e->ticket;
  qn_status st = qn_step_walk_run(s, e);
  bool any = e->ticket != before;
  if (st == QN_DEVICE_LOST) {
    lose_donated(s, e);
    lose_in_flight(s);
  } else if (st != QN_OK && any && s->walk_count > 1 && e->reached >= s->plan->first_donated_write) {
    lose_donated(s, e); /* stopped on the way */
  }
  if (any) {
    e->unread = s->profiler != NULL && s->walk_count == 1;
    s->last_ticket = e->ticket;
    s->next = (s->next + 1) % s->ring;
    s->stats.calls++;
  }
  QN_TRY(st);
  if (s->profiler && s->walk_count > 1)
    qn_step_profiler_call(s, e);
  *out_result = result;
  *out_ticket = e->ticket;
  return QN_OK;
}

qn_status qn_step_call(qn_step *s, qn_tensors *const *args, size_t arg_count, qn_tensors **out_result,
                       uint64_t *out_ticket) {
  qn_tensors *result = NULL;
  uint64_t ticket = 0;
  qn_status st = check_call(s, args, arg_count);
  if (st == QN_OK) {
    qn_mutex_lock(&s->mutex);
    st = call_locked(s, args, &result, &ticket);
    qn_mutex_unlock(&s->mutex);
  }
  if (out_result) /* only now, for it may be one of `args` */
    *out_result = result;
  if (out_ticket)
    *out_ticket = ticket;
  return st == QN_OK ? QN_OK : qn_step_fail(s->plan->name, st);
}

qn_status qn_step_wait(qn_step *s) {
  qn_mutex_lock(&s->mutex);
  uint64_t ticket = s->last_ticket;
  qn_mutex_unlock(&s->mutex);
  qn_status st = qn_device_wait(s->device, ticket, 0);
  qn_mutex_lock(&s->mutex);
  if (st == QN_DEVICE_LOST)
    lose_in_flight(s);
  if (s->profiler)
    qn_step_profiler_collect_all(s);
  qn_mutex_unlock(&s->mutex);
  return st == QN_OK ? QN_OK : qn_step_fail(s->plan->name, st);
}

void qn_step_interrupt(qn_step *s) { atomic_store(&s->interrupted, true); }

void qn_step_get_stats(qn_step *s, qn_step_stats *out_stats) {
  qn_mutex_lock(&s->mutex);
  *out_stats = s->stats;
  out_stats->recordings_live = s->entry_count;
  out_stats->profiled_calls = s->profiler ? s->profiler->count : 0;
  qn_mutex_unlock(&s->mutex);
}

void qn_step_trim(qn_step *s) {
  qn_mutex_lock(&s->mutex);
  for (size_t i = s->entry_count; i-- > 0;)
    if (qn_device_done(s->device, s->entries[i].ticket))
      drop_entry(s, i);
  qn_mutex_unlock(&s->mutex);
}
