/* Convolutions on the CPU, as models have them: forward, both gradients, transposed. Each is a compiled step of its own; the times are the least of
 * many, beside the processor's peak of fused multiply-adds in the same run. Only useful work counts: no zeros between dilated elements. */
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "quern/compile.h"
#include "quern/drivers.h"
#include "quern/op.h"
#include "quern/ops.h"
#include "quern/tree.h"

typedef struct shape {
  const char *name;
  int64_t x[4], w[4], stride;
  bool transposed;
} shape;
static const shape shapes[] = {
    {"3x3, 16x32x32x64 to 64", {16, 32, 32, 64}, {3, 3, 64, 64}, 1, false},
    {"3x3 stride 2, 16x32x32x64 to 128", {16, 32, 32, 64}, {3, 3, 64, 128}, 2, false},
    {"5x5 stride 2, 64x14x14x64 to 128", {64, 14, 14, 64}, {5, 5, 64, 128}, 2, false},
    {"4x4 stride 2, 64x28x28x3 to 64", {64, 28, 28, 3}, {4, 4, 3, 64}, 2, false},
    {"4x4 stride 2 transposed, 64x7x7x128 to 128", {64, 7, 7, 128}, {4, 4, 128, 128}, 2, true},
    {"4x4 stride 2 transposed, 64x14x14x128 to 128", {64, 14, 14, 128}, {4, 4, 128, 128}, 2, true},
    {"5x5 stride 2 transposed, 64x14x14x64 to 1", {64, 14, 14, 64}, {5, 5, 64, 1}, 2, true},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROUNDS = 12 };
typedef enum which { FORWARD, LEFT, RIGHT } which;
static const char *const names[] = {"forward", "dx", "dw"};

typedef struct job {
  const shape *s;
  which what;
} job;

static qn_val convolve(const shape *s, qn_val x, qn_val w) {
  int64_t stride[] = {s->stride, s->stride};
  qn_conv_desc d = {.padding = QN_CONV_SAME, .stride = stride};
  return s->transposed ? qn_conv_transpose(x, w, &d) : qn_conv(x, w, &d);
}

static qn_tree *trace(qn_graph *g, qn_tree *const *args, void *user) {
  const job *j = user;
  qn_val x = qn_tree_get(args[0], "x"), w = qn_tree_get(args[0], "w"), y = convolve(j->s, x, w);
  qn_tree *out = qn_tree_create(g);
  if (j->what != FORWARD) { /* the row's own rule, with the result standing in for its cotangent's shape */
    const qn_node *n = qn_graph_def(g, y.id);
    qn_val in[] = {x, w}, ct = qn_tree_get(args[0], "dy"), d[2] = {QN_NULL_VAL, QN_NULL_VAL};
    bool wanted[] = {j->what == LEFT, j->what == RIGHT};
    qn_rule r = {.g = g,
                 .node = n,
                 .attr = n->attr,
                 .in_count = 2,
                 .out_count = 1,
                 .in = in,
                 .out = &y,
                 .given = &ct,
                 .wanted = wanted};
    qn_op_get(n->op)->vjp(&r, d);
    y = d[j->what == LEFT ? 0 : 1];
  }
  qn_tree_set(out, "y", y);
  return out;
}

static double useful_flops(const shape *s) {
  double taps = (double)(s->w[0] * s->w[1] * s->w[2] * s->w[3]), pixels = (double)(s->x[0] * s->x[1] * s->x[2]);
  return 2 * taps * pixels / (s->transposed ? 1 : (double)(s->stride * s->stride));
}

static qn_status time_step(qn_step *step, qn_tensors *args, double *out_seconds) {
  qn_tensors *const list[] = {args};
  qn_tensors *result = NULL;
  double seconds[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t start = qn_time_ns();
    QN_TRY(qn_step_call(step, list, 1, &result, NULL));
    QN_TRY(qn_step_wait(step));
    seconds[i] = (double)(qn_time_ns() - start) * 1e-9;
  }
  *out_seconds = bench_min(seconds, ROUNDS);
  return QN_OK;
}

static qn_status fill(qn_tensors *t) {
  const qn_layout *l = qn_tensors_layout(t);
  for (size_t i = 0; i < l->count; i++) {
    size_t count = l->entries[i].bytes / sizeof(float);
    float *x = malloc(l->entries[i].bytes + 4);
    if (!x)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for inputs");
    for (size_t k = 0; k < count; k++)
      x[k] = (float)((k * 7 + i * 3) % 31) * 0.0625f - 1;
    qn_status st = qn_tensors_write_at(t, i, x);
    free(x);
    QN_TRY(st);
  }
  return QN_OK;
}

static qn_status run(qn_device *d, const job *j, double *out_seconds, uint64_t *out_compile_ns) {
  const shape *s = j->s;
  qn_treedef def = {0};
  qn_traced traced = {0};
  qn_layout layout = {0};
  qn_step *step = NULL;
  qn_tensors *args = NULL;
  int64_t out[] = {s->x[0], s->x[1], s->x[2], s->w[3]};
  for (int i = 1; i < 3; i++)
    out[i] = s->transposed ? out[i] * s->stride : (out[i] + s->stride - 1) / s->stride;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_treedef_add(&def, "x", qn_type_make(QN_F32, 4, s->x)), done);
  QN_TRY_GOTO(st, qn_treedef_add(&def, "w", qn_type_make(QN_F32, 4, s->w)), done);
  QN_TRY_GOTO(st, qn_treedef_add(&def, "dy", qn_type_make(QN_F32, 4, out)), done);
  QN_TRY_GOTO(st, qn_trace(trace, (void *)(uintptr_t)j, "conv", &def, 1, &traced), done);
  QN_TRY_GOTO(st, qn_layout_from_treedef(&def, &layout), done);
  uint64_t start = qn_time_ns();
  qn_jit_desc jit = {0};
  QN_TRY_GOTO(st, qn_jit(d, &traced, &jit, &step), done);
  *out_compile_ns = qn_time_ns() - start;
  QN_TRY_GOTO(st, qn_tensors_create(d, &layout, "args", &args), done);
  QN_TRY_GOTO(st, fill(args), done);
  QN_TRY_GOTO(st, time_step(step, args, out_seconds), done);
done:
  if (args)
    qn_tensors_release(args);
  if (step)
    qn_step_release(step);
  qn_layout_free(&layout);
  qn_traced_free(&traced);
  qn_treedef_free(&def);
  return st;
}

int main(int argc, char **argv) {
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_device *d, *cpu;
  bench_peak peak = {0};
  const char *id = argc > 1 ? argv[1] : "cpu";
  if (qn_device_open(drivers, count, id, &d) != QN_OK || qn_device_open(drivers, count, "cpu", &cpu) != QN_OK ||
      bench_peak_measure(cpu, &peak) != QN_OK) {
    fprintf(stderr, "bench_conv: %s\n", qn_error_message());
    return 1;
  }
  printf("FMA peak: %.0f GFLOP/s on one thread, %.0f on %u\n\n", peak.one, peak.all, peak.threads);
  puts("| convolution | what | ms | GFLOP/s | of peak | compile ms |");
  puts("|---|---|---|---|---|---|");
  int failed = 0;
  for (int i = 0; i < SHAPES; i++)
    for (int w = 0; w < 3; w++) {
      job j = {&shapes[i], (which)w};
      double t = 0;
      uint64_t compile = 0;
      if (run(d, &j, &t, &compile) != QN_OK) {
        fprintf(stderr, "bench_conv: %s\n", qn_error_message());
        failed = 1;
        continue;
      }
      double rate = useful_flops(j.s) / t * 1e-9;
      printf("| %s | %s | %.3f | %.1f | %.0f%% | %.0f |\n", j.s->name, names[w], t * 1e3, rate,
             peak.all > 0 ? 100 * rate / peak.all : 0, (double)compile * 1e-6);
      (void)fflush(stdout);
    }
  qn_device_release(d);
  qn_device_release(cpu);
  return failed;
}
