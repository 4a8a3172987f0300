/* Device times per command. Times are taken over when a later call, wait or report finds the submission done; the profiler itself never waits. A recording
 * that is submitted again before its times could be had loses that sample, so rows count the calls they have seen. */
#include "exec_impl.h"

#include <stdlib.h>
#include <string.h>

static size_t longest_piece(const qn_step *s) {
  size_t n = 0;
  for (size_t i = 0; i < s->piece_count; i++)
    n = s->pieces[i].count > n ? s->pieces[i].count : n;
  return n;
}

qn_status qn_step_profiler_create(qn_step *s) {
  size_t n = s->plan->cmd_count;
  qn_arena *a = &s->arena_memory;
  qn_step_profiler *p = QN_NEW(a, qn_step_profiler, 1);
  if (p) {
    p->rows = QN_NEW(a, qn_step_row, n + 1);
    p->shown = QN_NEW(a, qn_step_row, n + 1);
    p->times = QN_NEW(a, uint64_t, longest_piece(s) + 1);
    p->sums = QN_NEW(a, uint64_t, n + 1);
    p->trace = QN_NEW(a, uint64_t, QN_STEP_TRACE_CALLS * (n + 1));
  }
  if (!p || !p->rows || !p->shown || !p->times || !p->sums || !p->trace)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for the profile of %zu commands", n);
  for (size_t i = 0; i < n; i++) {
    const qn_plan_cmd *c = &s->plan->cmds[i];
    p->rows[i] = (qn_step_row){.label = qn_plan_cmd_label(s->plan, c), .flops = c->flops, .bytes = c->bytes};
    if (!c->bytes && (c->kind == QN_CMD_COPY || c->kind == QN_CMD_FILL))
      p->rows[i].bytes = c->kind == QN_CMD_COPY ? 2 * c->size : c->size;
  }
  s->profiler = p;
  return QN_OK;
}

/* Takes over the times of one submission. False: a device without timestamps, or a lost one; its rows stay empty. */
static bool take_times(qn_step *s, const qn_step_entry *e, uint32_t piece) {
  qn_step_profiler *p = s->profiler;
  const qn_step_piece *c = &s->pieces[piece];
  if (qn_recording_times(e->recordings[piece], p->times, c->count) != QN_OK)
    return false;
  for (size_t i = 0; i < c->count; i++) {
    if (c->rows[i] == QN_STEP_NO_ROW)
      continue;
    qn_step_row *r = &p->rows[c->rows[i]];
    double ns = (double)p->times[i];
    r->ns_min = r->calls == 0 || ns < r->ns_min ? ns : r->ns_min;
    r->ns_total += ns;
    r->calls++;
    p->sums[c->rows[i]] += p->times[i];
  }
  return true;
}

void qn_step_profiler_call(qn_step *s, qn_step_entry *e) {
  qn_step_profiler *p = s->profiler;
  size_t n = s->plan->cmd_count, slot = p->count % QN_STEP_TRACE_CALLS;
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += p->sums[i];
  memcpy(p->trace + slot * n, p->sums, n * sizeof *p->sums);
  memset(p->sums, 0, n * sizeof *p->sums);
  uint64_t start = e->submitted_ns > p->end_ns ? e->submitted_ns : p->end_ns;
  p->calls[slot] = (qn_step_trace_call){.number = p->count, .start_ns = start};
  p->end_ns = start + sum;
  p->count++;
}

qn_status qn_step_profiler_piece(qn_step *s, qn_step_entry *e, uint32_t piece) {
  QN_TRY(qn_device_wait(s->device, e->ticket, 0));
  (void)take_times(s, e, piece);
  return QN_OK;
}

void qn_step_profiler_collect(qn_step *s, qn_step_entry *e) {
  qn_step_profiler *p = s->profiler;
  if (!p || !e->unread || !qn_device_done(s->device, e->ticket))
    return;
  e->unread = false;
  if (take_times(s, e, 0))
    qn_step_profiler_call(s, e);
}

void qn_step_profiler_collect_all(qn_step *s) {
  for (;;) { /* oldest first, so that the trace is in order */
    qn_step_entry *next = NULL;
    for (size_t i = 0; i < s->entry_count; i++) {
      qn_step_entry *e = &s->entries[i];
      if (e->unread && (!next || e->ticket < next->ticket))
        next = e;
    }
    if (!next || !qn_device_done(s->device, next->ticket))
      return;
    qn_step_profiler_collect(s, next);
  }
}

static qn_status check_profiled(const qn_step *s) {
  if (!s->profiler)
    return QN_ERR(QN_INVALID, "step %s: it was made without a profile", s->plan->name);
  return QN_OK;
}

qn_status qn_step_profile(qn_step *s, const qn_step_row **out_rows, size_t *out_count) {
  *out_rows = NULL;
  *out_count = 0;
  QN_TRY(check_profiled(s));
  size_t n = s->plan->cmd_count;
  qn_mutex_lock(&s->mutex);
  qn_step_profiler_collect_all(s);
  if (n)
    memcpy(s->profiler->shown, s->profiler->rows, n * sizeof(qn_step_row));
  qn_mutex_unlock(&s->mutex);
  *out_rows = s->profiler->shown;
  *out_count = n;
  return QN_OK;
}

static int by_time(const void *a, const void *b) {
  double x = ((const qn_step_row *)a)->ns_total, y = ((const qn_step_row *)b)->ns_total;
  return (x < y) - (x > y);
}

/* Flops and bytes per nanosecond are GFLOP/s and GB/s. */
static void print_row(const qn_step_row *r, double all_ns, double peak_flops, double peak_bytes, qn_text *out) {
  double mean = r->calls ? r->ns_total / (double)r->calls : 0;
  double gflops = mean > 0 ? r->flops / mean : 0, gbytes = mean > 0 ? (double)r->bytes / mean : 0;
  double of_flops = peak_flops > 0 ? gflops * 1e9 / peak_flops : 0,
         of_bytes = peak_bytes > 0 ? gbytes * 1e9 / peak_bytes : 0;
  double share = of_flops > of_bytes ? of_flops : of_bytes;
  qn_text_add(out, "%8llu %12.3f %6.1f%% %12.3f %12.3f %9.2f %9.2f ", (unsigned long long)r->calls, r->ns_total * 1e-6,
              all_ns > 0 ? 100 * r->ns_total / all_ns : 0, mean * 1e-3, r->ns_min * 1e-3, gflops, gbytes);
  if (share > 0)
    qn_text_add(out, "%5.1f%% %-6s", 100 * share, of_flops >= of_bytes ? "flops" : "memory");
  else
    qn_text_add(out, "%6s %-6s", "-", "");
  qn_text_add(out, "  %s\n", r->label);
}

qn_status qn_step_profile_print(qn_step *s, double peak_flops, double peak_bytes, qn_text *out) {
  const qn_step_row *rows;
  size_t count;
  double all = 0, flops = 0;
  uint64_t bytes = 0;
  QN_TRY(qn_step_profile(s, &rows, &count));
  qn_step_row *sorted = malloc((count + 1) * sizeof *sorted);
  if (!sorted)
    return QN_ERR(QN_OUT_OF_MEMORY, "step %s: no memory for its table", s->plan->name);
  size_t n = 0;
  for (size_t i = 0; i < count; i++) {
    if (s->plan->cmds[i].kind == QN_CMD_BARRIER)
      continue;
    sorted[n++] = rows[i];
    all += rows[i].ns_total;
    flops += rows[i].flops;
    bytes += rows[i].bytes;
  }
  qsort(sorted, n, sizeof *sorted, by_time);
  qn_text_add(out, "step %s on %s (%s)\n", s->plan->name, qn_device_get_caps(s->device)->id,
              qn_device_get_caps(s->device)->name);
  qn_text_add(out, "%8s %12s %7s %12s %12s %9s %9s %6s %-6s  %s\n", "calls", "total ms", "share", "mean us", "min us",
              "GFLOP/s", "GB/s", "peak", "bound", "kernel");
  for (size_t i = 0; i < n; i++)
    print_row(&sorted[i], all, peak_flops, peak_bytes, out);
  qn_step_row sum = {.label = "all", .calls = s->profiler->count, .ns_total = all, .flops = flops, .bytes = bytes};
  for (size_t i = 0; i < n; i++)
    sum.ns_min += sorted[i].ns_min;
  print_row(&sum, all, peak_flops, peak_bytes, out);
  free(sorted);
  QN_TRY(qn_text_check(out));
  return QN_OK;
}

static void separate(qn_text *out) {
  size_t n = out->len;
  while (n && (out->buf[n - 1] == ' ' || out->buf[n - 1] == '\n' || out->buf[n - 1] == '\t'))
    n--;
  if (n && out->buf[n - 1] != '[' && out->buf[n - 1] != ',')
    qn_text_puts(out, ",\n");
}

static void trace_name(const char *what, const char *name, qn_text *out) {
  separate(out);
  qn_text_add(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{\"name\":", what);
  qn_text_json_string(out, name);
  qn_text_puts(out, "}}");
}

/* One command of one call; a device tells durations, so commands stand one behind the other from the submission on. */
static void trace_event(const qn_step *s, size_t at, uint64_t call, uint64_t start_ns, uint64_t ns, qn_text *out) {
  const qn_step_row *r = &s->profiler->rows[at];
  separate(out);
  qn_text_puts(out, "{\"name\":");
  qn_text_json_string(out, r->label);
  qn_text_puts(out, ",\"cat\":");
  qn_text_json_string(out, s->plan->name);
  qn_text_add(out,
              ",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":1,\"args\":{\"call\":%llu,\"command\":%zu,"
              "\"flops\":%.17g,"
              "\"bytes\":%llu}}",
              (double)start_ns * 1e-3, (double)ns * 1e-3, (unsigned long long)call, at, r->flops,
              (unsigned long long)r->bytes);
}

qn_status qn_step_profile_trace(qn_step *s, qn_text *out) {
  QN_TRY(check_profiled(s));
  qn_step_profiler *p = s->profiler;
  size_t n = s->plan->cmd_count;
  qn_mutex_lock(&s->mutex);
  qn_step_profiler_collect_all(s);
  trace_name("process_name", qn_device_get_caps(s->device)->id, out);
  trace_name("thread_name", qn_device_get_caps(s->device)->name, out);
  uint64_t first = p->count > QN_STEP_TRACE_CALLS ? p->count - QN_STEP_TRACE_CALLS : 0;
  for (uint64_t call = first; call < p->count; call++) {
    size_t slot = call % QN_STEP_TRACE_CALLS;
    uint64_t at_ns = p->calls[slot].start_ns;
    for (size_t i = 0; i < n; i++) {
      uint64_t ns = p->trace[slot * n + i];
      if (s->plan->cmds[i].kind != QN_CMD_BARRIER)
        trace_event(s, i, p->calls[slot].number, at_ns, ns, out);
      at_ns += ns;
    }
  }
  qn_mutex_unlock(&s->mutex);
  QN_TRY(qn_text_check(out));
  return QN_OK;
}
