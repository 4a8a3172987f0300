/* The peak is measured by code that the project itself generates: 24 chains of 16-lane multiply-adds, as many as hide the latency of
 * two units, compiled like any other kernel and run by the cpu device's own threads. */
#include "kit.h"

#include <stdlib.h>
#include <string.h>

#include "quern/kernel.h"

enum { LANES = 16, CHAINS = 24, TURNS = 100000, PEAK_FLOATS = 1 << 16 };

double bench_min(const double *seconds, size_t count) {
  double best = count ? seconds[0] : 0;
  for (size_t i = 1; i < count; i++)
    best = seconds[i] < best ? seconds[i] : best;
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

qn_status bench_best(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds) {
  const uint32_t params[16] = {0};
  *out_seconds = 1e9;
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
    double t = (double)(qn_time_ns() - start) * 1e-9 / repeat;
    *out_seconds = t < *out_seconds ? t : *out_seconds;
  }
  qn_recording_release(r);
  return st;
}

#ifdef QN_HAVE_LLVM
static qn_status build_peak(qn_kernel *kernel) {
  qn_kbuild b;
  QN_TRY(qn_kbuild_begin(&b, kernel));
  qn_sink *s = &b.sink;
  (void)qn_kb_new_param(&b);
  (void)qn_kb_new_param(&b);
  uint32_t c = qn_kb_buffer(&b, QN_F32, 0, 1, true, true, 64);
  qn_sval acc[CHAINS], zero = qs_const(s, QN_I32, 0);
  qn_sval x = qn_kb_load(&b, c, zero, LANES, (qn_sval){0});
  for (int i = 0; i < CHAINS; i++)
    acc[i] = qn_kb_var(&b, qn_kb_splat(&b, qs_const(s, QN_F32, i), LANES));
  (void)qn_kb_loop(&b, zero, qs_const(s, QN_I32, TURNS), 1, false);
  for (int i = 0; i < CHAINS; i++)
    qn_kb_set(&b, acc[i], qs_fma(s, x, x, qn_kb_get(&b, acc[i])));
  qn_kb_close(&b);
  qn_sval g = qs_mul(s, qs_convert(s, QN_I32, qn_kb_group(&b)), qs_const(s, QN_I32, CHAINS * LANES));
  for (int i = 0; i < CHAINS; i++)
    qn_kb_store(&b, c, qs_add(s, g, qs_const(s, QN_I32, i * LANES)), qn_kb_get(&b, acc[i]), (qn_sval){0});
  return qn_kbuild_end(&b);
}

static qn_status load_peak(qn_device *cpu, qn_kernel *kernel, qn_program **out_program) {
  QN_TRY(build_peak(kernel));
  const qn_kernel *list[] = {kernel};
  qn_code_entry entry = {.name = kernel->name, .items = 1, .binding_count = 1, .param_count = 2};
  qn_code code = {.format = QN_CODE_NATIVE, .entries = &entry, .entry_count = 1};
  QN_TRY(qn_llvm_compile(list, 1, NULL, &entry, &code, NULL));
  return qn_program_create(cpu, &code, NULL, NULL, out_program);
}

qn_status bench_peak_measure(qn_device *cpu, bench_peak *out_peak) {
  qn_kernel kernel = {0};
  qn_buffer *buffer = NULL;
  bench_launch launch = {.buffers = &buffer, .buffer_count = 1, .param_count = 2, .groups = 1};
  double seconds;
  qn_status st;
  *out_peak = (bench_peak){.threads = qn_device_get_caps(cpu)->compute_units};
  if (out_peak->threads > PEAK_FLOATS / (CHAINS * LANES))
    out_peak->threads = PEAK_FLOATS / (CHAINS * LANES);
  double work = 2.0 * CHAINS * LANES * TURNS;
  QN_TRY_GOTO(st, qn_buffer_create(cpu, &(qn_buffer_desc){.size = PEAK_FLOATS * sizeof(float)}, &buffer), done);
  memset(qn_buffer_map(buffer), 0, PEAK_FLOATS * sizeof(float));
  QN_TRY_GOTO(st, load_peak(cpu, &kernel, &launch.program), done);
  QN_TRY_GOTO(st, bench_best(cpu, &launch, 1, 40, &seconds), done);
  out_peak->one = work / seconds * 1e-9;
  launch.groups = out_peak->threads;
  QN_TRY_GOTO(st, bench_best(cpu, &launch, 1, 40, &seconds), done);
  out_peak->all = work * out_peak->threads / seconds * 1e-9;
done:
  qn_program_release(launch.program);
  qn_buffer_release(buffer);
  qn_kernel_free(&kernel);
  return st;
}
#else
qn_status bench_peak_measure(qn_device *cpu, bench_peak *out_peak) {
  *out_peak = (bench_peak){.threads = qn_device_get_caps(cpu)->compute_units};
  return QN_OK;
}
#endif
