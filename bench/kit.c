/* Times of launches, and what becomes of a list of them. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

double bench_min(const double *seconds, size_t count) {
  double best = count ? seconds[0] : 0;
  for (size_t i = 1; i < count; i++)
    best = seconds[i] < best ? seconds[i] : best;
  return best;
}

double bench_max(const double *seconds, size_t count) {
  double best = count ? seconds[0] : 0;
  for (size_t i = 1; i < count; i++)
    best = seconds[i] > best ? seconds[i] : best;
  return best;
}

static int by_value(const void *a, const void *b) {
  double x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

double bench_median(double *seconds, size_t count) {
  qsort(seconds, count, sizeof *seconds, by_value);
  return count ? seconds[count / 2] : 0;
}

qn_status bench_times(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds) {
  const uint32_t params[16] = {0};
  qn_cmd *cmds = calloc((size_t)repeat * 2, sizeof *cmds);
  if (!cmds || launch->param_count > 16) {
    free(cmds);
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for %d launches", repeat);
  }
  for (int i = 0; i < repeat; i++) {
    qn_cmd *c = &cmds[2 * i];
    *c = (qn_cmd){.kind = QN_CMD_LAUNCH,
                  .program = launch->program,
                  .entry = launch->entry,
                  .groups = launch->groups,
                  .binding_count = launch->buffer_count,
                  .params = params,
                  .param_count = launch->param_count};
    for (uint32_t b = 0; b < launch->buffer_count; b++)
      c->bindings[b] = b;
    cmds[2 * i + 1].kind = QN_CMD_BARRIER;
  }
  qn_recording_desc desc = {
      .cmds = cmds, .cmd_count = (size_t)repeat * 2, .buffers = launch->buffers, .buffer_count = launch->buffer_count};
  qn_recording *r = NULL;
  qn_status st = qn_record(d, &desc, &r);
  free(cmds);
  for (int i = 0; st == QN_OK && i < rounds; i++) {
    uint64_t ticket = 0, start = qn_time_ns();
    st = qn_submit(d, r, NULL, 0, &ticket);
    if (st == QN_OK)
      st = qn_device_wait(d, ticket, 0);
    out_seconds[i] = (double)(qn_time_ns() - start) * 1e-9 / repeat;
  }
  qn_recording_release(r);
  return st;
}

qn_status bench_best(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds) {
  double *seconds = calloc((size_t)rounds, sizeof *seconds);
  qn_status st = seconds ? bench_times(d, launch, repeat, rounds, seconds)
                         : QN_ERR(QN_OUT_OF_MEMORY, "no memory for %d times", rounds);
  if (st == QN_OK)
    *out_seconds = bench_min(seconds, (size_t)rounds);
  free(seconds);
  return st;
}
