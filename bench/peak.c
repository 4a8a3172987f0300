/* The peak of multiply-adds is measured by code that the project itself generates: independent chains in registers, as many as hide the
 * latency of an addition, made and run like any other kernel of the device. */
#include <stdlib.h>
#include <string.h>

#include "kernels/compile/backend.h"
#include "kit.h"
#include "quern/kernel.h"

enum { UNROLL = 4, INPUTS = 64 };
static const float factor = 0x1p-5f; /* squares and their sums are exact */

typedef struct peak_shape {
  uint32_t items, lanes, chains, turns, groups;
} peak_shape;

/* Drivers hand out groups in portions, so theirs are many. */
static peak_shape shape_of(const qn_device_caps *c) {
  static const peak_shape shapes[] = {
      [QN_CLASS_CPU_NATIVE] = {.items = 1, .chains = 24, .turns = 25000, .groups = 1},
      [QN_CLASS_CPU_TILE] = {.items = 1, .chains = 24, .turns = 2048, .groups = 16},
      [QN_CLASS_CPU_SIMT] = {.items = 64, .lanes = 4, .chains = 3, .turns = 1024, .groups = 16},
      [QN_CLASS_CPU_SCALAR] = {.items = 64, .lanes = 4, .chains = 3, .turns = 1024, .groups = 16},
      [QN_CLASS_GPU] = {.items = 256, .lanes = 4, .chains = 4, .turns = 4096, .groups = 32}};
  peak_shape s = shapes[c->device_class];
  s.groups *= c->compute_units ? c->compute_units : 1;
  s.lanes = s.lanes ? s.lanes : c->vector_lanes;
  s.chains = s.lanes < 16 && s.chains > 12 ? 12 : s.chains; /* narrower vectors come in sets of 16 registers */
  s.items = s.items > c->max_group_items ? c->max_group_items : s.items;
  s.turns = s.turns > c->max_loop_rounds / 2 ? c->max_loop_rounds / 2 : s.turns;
  return s;
}

static double work_of(const peak_shape *s) {
  return 2.0 * UNROLL * s->turns * s->chains * s->lanes * s->items * s->groups;
}

static size_t outputs_of(const peak_shape *s) { return (size_t)s->chains * s->lanes * s->items * s->groups; }

static qn_status build(const qn_device_caps *caps, const peak_shape *shape, qn_kernel *kernel) {
  qn_kbuild b;
  QN_TRY(qn_kbuild_begin(&b, kernel));
  qn_sink *s = &b.sink;
  kernel->items = shape->items;
  uint32_t offset = qn_kb_new_param(&b);
  uint32_t in = qn_kb_buffer(&b, QN_F32, 0, offset, true, false, INPUTS);
  uint32_t out = qn_kb_buffer(&b, QN_F32, 1, offset, false, true, INPUTS);
  qn_sval acc[32], zero = qs_const(s, QN_I32, 0);
  qn_sval x = qn_kb_load(&b, in, zero, shape->lanes, (qn_sval){0});
  for (uint32_t i = 0; i < shape->chains; i++)
    acc[i] = qn_kb_var(&b, qn_kb_splat(&b, qs_const(s, QN_F32, i), shape->lanes));
  (void)qn_kb_loop(&b, zero, qs_const(s, QN_I32, shape->turns), 1, false);
  for (uint32_t i = 0; i < shape->chains * UNROLL; i++) {
    qn_sval *a = &acc[i % shape->chains], old = qn_kb_get(&b, *a);
    qn_kb_set(&b, *a, caps->fma ? qs_fma(s, x, x, old) : qs_add(s, qs_mul(s, x, x), old));
  }
  qn_kb_close(&b);
  qn_sval at = qs_add(s, qs_mul(s, qs_convert(s, QN_I32, qn_kb_group(&b)), qs_const(s, QN_I32, shape->items)),
                      qs_convert(s, QN_I32, qn_kb_item(&b)));
  at = qs_mul(s, at, qs_const(s, QN_I32, shape->chains * shape->lanes));
  for (uint32_t i = 0; i < shape->chains; i++)
    qn_kb_store(&b, out, qs_add(s, at, qs_const(s, QN_I32, i * shape->lanes)), qn_kb_get(&b, acc[i]), (qn_sval){0});
  return qn_kbuild_end(&b);
}

static qn_status load(qn_device *d, const peak_shape *shape, qn_kernel *kernel, qn_plan *plan, sched_program *prog,
                      qn_program **out_program) {
  const qn_device_caps *caps = qn_device_get_caps(d);
  const qn_compile_desc desc = {.name = "peak"};
  QN_TRY(build(caps, shape, kernel));
  QN_TRY(qn_backend_code(caps, prog, &desc, plan));
  qn_status st = qn_program_create(d, &plan->code, NULL, NULL, out_program);
  plan->code.release = NULL; /* the program's now, or gone */
  plan->code.owner = NULL;
  return st;
}

static qn_status check(const peak_shape *s, const float *y, bool *out_right) {
  *out_right = true;
  for (size_t i = 0; i < outputs_of(s); i++)
    *out_right &= y[i] == (float)(i / s->lanes % s->chains) + factor * factor * (float)(UNROLL * s->turns);
  return QN_OK;
}

static qn_status measure(qn_device *d, const peak_shape *s, qn_program *program, int rounds, double *out_rates,
                         bool *out_right) {
  qn_buffer *buffers[2] = {NULL, NULL};
  float x[INPUTS], *y = malloc(outputs_of(s) * sizeof *y);
  bench_launch launch = {
      .program = program, .groups = s->groups, .param_count = 2, .buffers = buffers, .buffer_count = 2};
  qn_status st = y ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for the peak");
  for (int i = 0; i < INPUTS; i++)
    x[i] = factor;
  QN_TRY_GOTO(st, st, done);
  QN_TRY_GOTO(st, qn_buffer_create(d, &(qn_buffer_desc){.size = sizeof x}, &buffers[0]), done);
  QN_TRY_GOTO(st, qn_buffer_create(d, &(qn_buffer_desc){.size = outputs_of(s) * sizeof *y}, &buffers[1]), done);
  QN_TRY_GOTO(st, qn_buffer_write(buffers[0], 0, sizeof x, x), done);
  QN_TRY_GOTO(st, bench_times(d, &launch, 1, rounds, out_rates), done);
  QN_TRY_GOTO(st, qn_buffer_read(buffers[1], 0, outputs_of(s) * sizeof *y, y), done);
  QN_TRY_GOTO(st, check(s, y, out_right), done);
  for (int i = 0; i < rounds; i++)
    out_rates[i] = work_of(s) / out_rates[i] * 1e-9;
done:
  qn_buffer_release(buffers[0]);
  qn_buffer_release(buffers[1]);
  free(y);
  return st;
}

qn_status bench_peak_rates(qn_device *d, uint32_t groups, int rounds, double *out_rates, bool *out_right) {
  peak_shape shape = shape_of(qn_device_get_caps(d));
  qn_kernel *kernel = calloc(1, sizeof *kernel);
  const char *label = "peak";
  sched_program prog = {.kernels = &kernel, .labels = &label, .kernel_count = 1};
  qn_program *program = NULL;
  qn_plan *plan = NULL;
  qn_status st = kernel ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for a kernel");
  shape.groups = groups ? groups : shape.groups;
  QN_TRY_GOTO(st, st, done);
  QN_TRY_GOTO(st, qn_plan_create("peak", &plan), done);
  QN_TRY_GOTO(st, load(d, &shape, kernel, plan, &prog, &program), done);
  QN_TRY_GOTO(st, measure(d, &shape, program, rounds, out_rates, out_right), done);
done:
  qn_program_release(program);
  qn_plan_free(plan);
  if (kernel && prog.kernel_count) { /* else the program has taken it */
    qn_kernel_free(kernel);
    free(kernel);
  }
  return st;
}

qn_status bench_peak_measure(qn_device *cpu, bench_peak *out_peak) {
  enum { ROUNDS = 40 };
  double rates[ROUNDS];
  bool right;
  *out_peak = (bench_peak){.threads = qn_device_get_caps(cpu)->compute_units};
  QN_TRY(bench_peak_rates(cpu, 1, ROUNDS, rates, &right));
  out_peak->one = bench_max(rates, ROUNDS);
  QN_TRY(bench_peak_rates(cpu, 0, ROUNDS, rates, &right));
  out_peak->all = bench_max(rates, ROUNDS);
  return QN_OK;
}
