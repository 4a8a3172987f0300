/* Products and convolutions, and what their elements are by plain sums in double. Only useful work counts: no zeros between dilated elements. */
#include <math.h>
#include <stdio.h>

#include "quern/autodiff.h"
#include "quern/ops.h"
#include "rows.h"

static void set_result(qn_tree *out, int i, qn_val v) {
  char path[16];
  (void)snprintf(path, sizeof path, "y%d", i);
  qn_tree_set(out, path, v);
}

static void add(bench_expect *e, double a, double b) {
  e->value += a * b;
  e->size += fabs(a * b);
}

/* ---- products: [m,k] by [k,n] ---- */

qn_tree *bench_gemm_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_tree *out = qn_tree_create(g);
  set_result(out, 0, qn_dot(qn_tree_get(args[0], "x"), qn_tree_get(args[1], "x")));
  return out;
}

bench_expect bench_gemm_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  int64_t depth = c->row->in[0].dims[1], columns = c->row->in[1].dims[1];
  const float *a = c->in[0] + at / columns * depth, *b = c->in[1] + at % columns;
  bench_expect e = {0, 0};
  for (int64_t k = 0; k < depth; k++)
    add(&e, (double)a[k], (double)b[k * columns]);
  return e;
}

/* ---- convolutions: inputs x, w, and dy for gradients, of each shape ---- */

static qn_val convolve(const bench_conv *s, qn_val x, qn_val w) {
  int64_t stride[] = {s->stride, s->stride};
  qn_conv_desc d = {.padding = QN_CONV_SAME, .stride = stride};
  return s->transposed ? qn_conv_transpose(x, w, &d) : qn_conv(x, w, &d);
}

qn_tree *bench_conv_trace(qn_graph *g, qn_tree *const *args, void *user) {
  const bench_row *row = user;
  qn_tree *out = qn_tree_create(g);
  for (int i = 0; i < row->conv_count; i++)
    set_result(out, i, convolve(&row->conv[i], qn_tree_get(args[2 * i], "x"), qn_tree_get(args[2 * i + 1], "x")));
  return out;
}

static qn_val weighted(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)out_aux;
  qn_val y = convolve(user, qn_tree_get(args[0], "x"), qn_tree_get(args[1], "x"));
  return qn_sum_all(qn_mul(y, qn_tree_get(args[2], "x")));
}

qn_tree *bench_conv_grad_trace(qn_graph *g, qn_tree *const *args, void *user) {
  static const int both[] = {0, 1};
  const qn_grad_desc desc = {.argnums = both, .argnum_count = 2};
  const bench_row *row = user;
  qn_tree *out = qn_tree_create(g);
  for (int i = 0; i < row->conv_count; i++) {
    bench_conv shape = row->conv[i];
    qn_value_grad r = qn_value_and_grad(g, weighted, &shape, args + 3 * i, 3, &desc);
    for (int k = 0; k < 2 && r.grads[k]; k++)
      set_result(out, 2 * i + k, qn_tree_get(r.grads[k], "x"));
  }
  return out;
}

/* One axis of one shape: which input a tap reads for an output, or -1. */
typedef struct axis {
  int64_t in, out, taps, stride, low;
  bool transposed;
} axis;

static axis axis_of(const bench_conv *s, int i) {
  axis a = {.in = s->x[1 + i], .taps = s->w[i], .stride = s->stride, .transposed = s->transposed};
  if (s->transposed) {
    int64_t total = a.taps + a.stride - 2;
    a.out = a.in * a.stride;
    a.low = a.stride > a.taps - 1 ? a.taps - 1 : (total + 1) / 2;
  } else {
    a.out = (a.in + a.stride - 1) / a.stride;
    int64_t total = (a.out - 1) * a.stride + a.taps - a.in;
    a.low = total > 0 ? total / 2 : 0;
  }
  return a;
}

static int64_t read_by(const axis *a, int64_t out, int64_t tap) {
  int64_t at = a->transposed ? out + tap - a->low : out * a->stride + tap - a->low;
  if (a->transposed) {
    if (at < 0 || at % a->stride)
      return -1;
    at /= a->stride;
  }
  return at >= 0 && at < a->in ? at : -1;
}

bench_expect bench_conv_expect(const bench_case *c, int output, int64_t at) {
  const bench_conv *s = &c->row->conv[output];
  const float *x = c->in[2 * output], *w = c->in[2 * output + 1];
  axis h = axis_of(s, 0), v = axis_of(s, 1);
  int64_t co = at % s->w[3], column = at / s->w[3] % v.out, line = at / s->w[3] / v.out % h.out;
  int64_t image = at / s->w[3] / v.out / h.out;
  bench_expect e = {0, 0};
  for (int64_t i = 0; i < h.taps; i++)
    for (int64_t j = 0; j < v.taps; j++) {
      int64_t p = read_by(&h, line, i), q = read_by(&v, column, j);
      for (int64_t k = 0; p >= 0 && q >= 0 && k < s->w[2]; k++)
        add(&e, (double)x[((image * h.in + p) * v.in + q) * s->w[2] + k],
            (double)w[((i * v.taps + j) * s->w[2] + k) * s->w[3] + co]);
    }
  return e;
}

static bench_expect by_input(const bench_conv *s, const float *w, const float *dy, int64_t at) {
  axis h = axis_of(s, 0), v = axis_of(s, 1);
  int64_t ci = at % s->w[2], column = at / s->w[2] % v.in, line = at / s->w[2] / v.in % h.in;
  int64_t image = at / s->w[2] / v.in / h.in;
  bench_expect e = {0, 0};
  for (int64_t p = 0; p < h.out; p++)
    for (int64_t q = 0; q < v.out; q++)
      for (int64_t i = 0; i < h.taps; i++)
        for (int64_t j = 0; read_by(&h, p, i) == line && j < v.taps; j++)
          for (int64_t k = 0; read_by(&v, q, j) == column && k < s->w[3]; k++)
            add(&e, (double)dy[((image * h.out + p) * v.out + q) * s->w[3] + k],
                (double)w[((i * v.taps + j) * s->w[2] + ci) * s->w[3] + k]);
  return e;
}

static bench_expect by_kernel(const bench_conv *s, const float *x, const float *dy, int64_t at) {
  axis h = axis_of(s, 0), v = axis_of(s, 1);
  int64_t co = at % s->w[3], ci = at / s->w[3] % s->w[2], tap = at / s->w[3] / s->w[2];
  bench_expect e = {0, 0};
  for (int64_t image = 0; image < s->x[0]; image++)
    for (int64_t p = 0; p < h.out; p++)
      for (int64_t q = 0; q < v.out; q++) {
        int64_t line = read_by(&h, p, tap / v.taps), column = read_by(&v, q, tap % v.taps);
        if (line >= 0 && column >= 0)
          add(&e, (double)x[((image * h.in + line) * v.in + column) * s->w[2] + ci],
              (double)dy[((image * h.out + p) * v.out + q) * s->w[3] + co]);
      }
  return e;
}

bench_expect bench_conv_grad_expect(const bench_case *c, int output, int64_t at) {
  const bench_conv *s = &c->row->conv[output / 2];
  float *const *in = c->in + output / 2 * 3;
  return output % 2 ? by_kernel(s, in[0], in[2], at) : by_input(s, in[1], in[2], at);
}
