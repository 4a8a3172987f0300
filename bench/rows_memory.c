/* Rows that are bound by memory, and the launch of nearly nothing; their elements by plain C in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quern/ops.h"
#include "rows.h"

enum {
  PERIOD = 17,
  LOWEST = -7
}; /* of the running sum's input: whole numbers, 1 on average, so that all sums are exact */
static const double epsilon = 1e-5;

static qn_val argument(qn_tree *const *args, int i) { return qn_tree_get(args[i], "x"); }

static qn_tree *result(qn_graph *g, qn_val y) {
  qn_tree *out = qn_tree_create(g);
  qn_tree_set(out, "y0", y);
  return out;
}

static const float *row_of(const bench_case *c, int64_t at, int64_t *out_width) {
  *out_width = c->row->in[0].dims[1];
  return c->in[0] + at / *out_width * *out_width;
}

/* ---- maps ---- */

qn_tree *bench_launch_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_val x = argument(args, 0);
  return result(g, qn_add(x, qn_like(x, 1)));
}
bench_expect bench_launch_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  return (bench_expect){1 + (double)c->in[0][at], 2};
}

qn_tree *bench_triad_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_val b = argument(args, 1);
  return result(g, qn_add(argument(args, 0), qn_mul(b, qn_like(b, 3))));
}
bench_expect bench_triad_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  return (bench_expect){(double)c->in[0][at] + 3 * (double)c->in[1][at], 4};
}

qn_tree *bench_map_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_val a = argument(args, 0), b = argument(args, 1), t = qn_mul(a, b);
  return result(g, qn_sub(qn_mul(qn_tanh(qn_add(t, qn_like(t, 1))), a), b));
}
bench_expect bench_map_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  double a = (double)c->in[0][at], b = (double)c->in[1][at];
  return (bench_expect){tanh(a * b + 1) * a - b, fabs(a) + fabs(b)};
}

/* ---- rows and columns ---- */

qn_tree *bench_reduce_rows_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  return result(g, qn_sum(argument(args, 0), 1, ((const int64_t[]){1}), false));
}
static bench_expect sum(const float *x, int64_t count, int64_t stride) {
  bench_expect e = {0, 0};
  for (int64_t k = 0; k < count; k++) {
    e.value += (double)x[k * stride];
    e.size += fabs((double)x[k * stride]);
  }
  return e;
}
bench_expect bench_reduce_rows_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  int64_t width = c->row->in[0].dims[1];
  return sum(c->in[0] + at * width, width, 1);
}

qn_tree *bench_reduce_cols_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  return result(g, qn_sum(argument(args, 0), 1, ((const int64_t[]){0}), false));
}
bench_expect bench_reduce_cols_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  return sum(c->in[0] + at, c->row->in[0].dims[0], c->row->in[0].dims[1]);
}

qn_tree *bench_softmax_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  return result(g, qn_softmax(argument(args, 0), -1));
}
bench_expect bench_softmax_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  int64_t width;
  const float *x = row_of(c, at, &width);
  double total = 0;
  for (int64_t k = 0; k < width; k++)
    total += exp((double)x[k]);
  double y = exp((double)x[at % width]) / total;
  return (bench_expect){y, y};
}

qn_tree *bench_layernorm_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  static const int64_t last[] = {1};
  qn_val x = argument(args, 0), mean = qn_mean(x, 1, last, true), var = qn_var(x, 1, last, 0, true);
  qn_val y = qn_mul(qn_sub(x, mean), qn_rsqrt(qn_add(var, qn_like(var, epsilon))));
  return result(g, qn_add(qn_mul(y, argument(args, 1)), argument(args, 2)));
}
bench_expect bench_layernorm_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  int64_t width, k = at % c->row->in[0].dims[1];
  const float *x = row_of(c, at, &width);
  double mean = sum(x, width, 1).value / (double)width, var = 0;
  for (int64_t i = 0; i < width; i++)
    var += ((double)x[i] - mean) * ((double)x[i] - mean);
  double y = ((double)x[k] - mean) / sqrt(var / (double)width + epsilon);
  return (bench_expect){y * (double)c->in[1][k] + (double)c->in[2][k], 1 + fabs(y)};
}

/* ---- order and running sums ---- */

qn_tree *bench_sort_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_val x = argument(args, 0), y;
  qn_sort_keys(&x, 1, 1, 0, false, &y);
  return result(g, y);
}

static int by_value(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

qn_status bench_sort_prepare(bench_case *c) {
  size_t count = (size_t)c->row->in[0].dims[0];
  c->reference = malloc(count * sizeof *c->reference);
  if (!c->reference)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a sorted copy");
  memcpy(c->reference, c->in[0], count * sizeof *c->reference);
  qsort(c->reference, count, sizeof *c->reference, by_value);
  return QN_OK;
}
bench_expect bench_sort_expect(const bench_case *c, int output, int64_t at) {
  (void)output;
  return (bench_expect){(double)c->reference[at], 0};
}

qn_tree *bench_cumsum_trace(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  return result(g, qn_cumsum(argument(args, 0), 0, false));
}
void bench_cumsum_fill(const bench_case *c, int input, float *out, int64_t count) {
  (void)c;
  (void)input;
  for (int64_t i = 0; i < count; i++)
    out[i] = (float)(i % PERIOD + LOWEST);
}
bench_expect bench_cumsum_expect(const bench_case *c, int output, int64_t at) {
  (void)c;
  (void)output;
  int64_t whole = (at + 1) / PERIOD, rest = (at + 1) % PERIOD;
  int64_t period = PERIOD * (PERIOD - 1) / 2 + PERIOD * LOWEST;
  int64_t sum = whole * period + rest * (rest - 1) / 2 + rest * LOWEST;
  return (bench_expect){(double)sum, 0};
}
