/* Every rule of the structural rows against something that does not know the rule: tangents against finite differences, cotangents against
 * tangents by inner products, batches against loops, second derivatives forward over reverse against reverse over reverse. */
#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

enum { MOST = 12, LANES = 3 };

typedef struct subject {
  const char *name;
  int in_count, out_count;
  qn_type in[4];
  void (*build)(qn_graph *g, const qn_val *in, qn_val *out);
  int64_t most; /* largest index that an integer input holds; the smallest is -1 */
} subject;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- subjects ---- */
static void broadcast(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_broadcast_in_dim(in[0], 4, DIMS(2, 4, 3, 5), DIMS(2, 0, 3));
}
static void reshape(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_reshape(in[0], 3, DIMS(2, -1, 2));
}
static void transpose(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_transpose(in[0], DIMS(2, 0, 1));
}
static void reverse(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_reverse(in[0], 2, DIMS(0, 2));
}
static void slice(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_slice(in[0], DIMS(1, 0), DIMS(5, 4), DIMS(2, 3));
}
static void pad(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_pad(in[0], in[1], DIMS(1, -1), DIMS(-1, 2), DIMS(0, 2));
}
static void concatenate(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_concatenate(in, 3, -1);
}
static void dynamic_slice(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_dynamic_slice(in[0], in + 1, DIMS(2, 3));
}
static void dynamic_update(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_dynamic_update_slice(in[0], in[1], in + 2);
}

static void reduced(qn_op op, const qn_val *in, qn_val *out) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_region_binary(op, QN_F64, &body));
  qn_reduce(in, in + 1, 1, 2, DIMS(0, 2), body, out);
  qn_graph_release(body);
}
static void reduce_add(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  reduced(QN_OP_ADD, in, out);
}
static void reduce_multiply(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  reduced(QN_OP_MULTIPLY, in, out);
}
static void reduce_maximum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  reduced(QN_OP_MAXIMUM, in, out);
}
static void reduce_minimum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  reduced(QN_OP_MINIMUM, in, out);
}
static void reduce_named(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_sum(in[0], 1, DIMS(-1), true);
  out[1] = qn_prod(in[0], 0, NULL, false);
  out[2] = qn_reduce_max(in[0], 1, DIMS(1), false);
}

static void pair_body(const qn_val *in, qn_val *out, bool pick, qn_dtype second, int64_t axis) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_graph_create("pair", &body));
  qn_val p[4];
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(body, qn_type_scalar(i % 2 == 0 ? QN_F64 : second), NULL);
  qn_val first = qn_gt(p[0], p[2]), later = qn_or(first, qn_and(qn_eq(p[0], p[2]), qn_lt(p[1], p[3])));
  qn_val r[2] = {pick ? qn_select(first, p[0], p[2]) : qn_add(p[0], p[2]),
                 pick ? qn_select(later, p[1], p[3]) : qn_max(p[1], p[3])};
  QN_ASSERT_OK(qn_graph_seal(body, r, 2));
  qn_reduce(in, in + 2, 2, 1, &axis, body, out);
  qn_graph_release(body);
}
static void reduce_argmax(qn_graph *g, const qn_val *in, qn_val *out) {
  qn_type t = *qn_val_type(in[0]);
  t.dtype = QN_I32;
  qn_val x[] = {in[0], qn_iota(g, t, 1), qn_scalar(g, QN_F64, -INFINITY), qn_scalar(g, QN_I32, 0)};
  pair_body(x, out, true, QN_I32, 1);
}
static void reduce_two(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  pair_body(in, out, false, QN_F64, 0);
}

static void dot(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_dot(in[0], in[1]);
}
static void dot_stacked(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_attr_dot a = {{1, {1}}, {1, {3}}, {2, {3, 0}}, {2, {0, 2}}};
  out[0] = qn_dot_general(in[0], in[1], &a, QN_DTYPE_NONE);
}

static void take(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_take(in[0], in[1], 1);
}
/* Operand [5,2,6], indices [2(batch),3,2(vector)]: windows [1,-,4] over axes 2 and 0. */
static void gather(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_attr_gather a = {.offset_dims = {2, {0, 3}},
                      .operand_batching_dims = {1, {1}},
                      .start_indices_batching_dims = {1, {0}},
                      .start_index_map = {2, {2, 0}},
                      .slice_sizes = {3, {3, 1, 4}},
                      .index_vector_dim = 2};
  out[0] = qn_gather(in[0], in[1], &a);
}

/* Operand [5,2,6], indices [2(batch),3,1(vector)], updates [4,2,3]: windows of 4 along axis 2 with axis 0 indexed. */
static void scattered(qn_op op, bool unique, const qn_val *in, qn_val *out) {
  qn_graph *body = NULL;
  qn_attr_scatter a = {.update_window_dims = {1, {0}},
                       .inserted_window_dims = {1, {0}},
                       .input_batching_dims = {1, {1}},
                       .scatter_indices_batching_dims = {1, {0}},
                       .scatter_dims_to_operand_dims = {1, {0}},
                       .index_vector_dim = 2,
                       .unique_indices = unique};
  QN_ASSERT_OK(qn_region_binary(op, QN_F64, &body));
  out[0] = qn_scatter(in[0], in[1], in[2], &a, body);
  qn_graph_release(body);
}
static void scatter_add(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  scattered(QN_OP_ADD, false, in, out);
}
static void scatter_assign(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  scattered(QN_OP_PARAMETER, false, in, out);
}
static void scatter_maximum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  scattered(QN_OP_MAXIMUM, false, in, out);
}
static void scatter_minimum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  scattered(QN_OP_MINIMUM, false, in, out);
}
/* Distinct indices; the last window does not fit. */
static void scatter_multiply(qn_graph *g, const qn_val *in, qn_val *out) {
  int32_t spaced[] = {0, 2, 4, 3, 1, -1};
  qn_val indices = qn_constant(g, qn_type_of(QN_I32, 3, 2, 3, 1), spaced), x[] = {in[0], indices, in[1]};
  scattered(QN_OP_MULTIPLY, true, x, out);
}
/* Two arrays side by side, one added to, one assigned; some windows meet. */
static void scatter_two(qn_graph *g, const qn_val *in, qn_val *out) {
  static const int32_t where[] = {2, 0, 2, 7};
  qn_graph *body = NULL;
  qn_attr_scatter a = {.update_window_dims = {1, {1}},
                       .inserted_window_dims = {1, {0}},
                       .scatter_dims_to_operand_dims = {1, {0}},
                       .index_vector_dim = 1};
  QN_ASSERT_OK(qn_graph_create("two", &body));
  qn_val p[4];
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(body, qn_type_scalar(QN_F64), NULL);
  qn_val r[2] = {qn_add(p[2], p[0]), p[3]};
  QN_ASSERT_OK(qn_graph_seal(body, r, 2));
  qn_val x[] = {in[0], in[1], qn_constant(g, qn_type_of(QN_I32, 1, 4), where), in[2], in[3]};
  qn_val first = qn_graph_add(g, QN_OP_SCATTER, x, 5, &a, &body, 1, QN_HERE);
  for (int i = 0; i < 2; ++i)
    out[i] = qn_val_result(first, i);
  qn_graph_release(body);
}

static void sort_pair(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_sort_keys(in, 2, 1, 1, true, out);
}
static void top_k(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_top_k(in[0], 3, &out[0], &out[1]);
}
static void barrier(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_optimization_barrier(in, 2, out);
}

#include "window_subjects.h"

#define F(rank, ...) qn_type_of(QN_F64, rank, __VA_ARGS__)
#define I(rank, ...) qn_type_of(QN_I32, rank, __VA_ARGS__)

static size_t subjects(subject *s) {
  qn_type fs = qn_type_scalar(QN_F64), is = qn_type_scalar(QN_I32);
  size_t n = 0;
  s[n++] = (subject){"broadcast_in_dim", 1, 1, {F(3, 1, 2, 5)}, broadcast, 0};
  s[n++] = (subject){"reshape", 1, 1, {F(2, 3, 4)}, reshape, 0};
  s[n++] = (subject){"transpose", 1, 1, {F(3, 2, 3, 4)}, transpose, 0};
  s[n++] = (subject){"reverse", 1, 1, {F(3, 2, 3, 4)}, reverse, 0};
  s[n++] = (subject){"slice", 1, 1, {F(2, 6, 5)}, slice, 0};
  s[n++] = (subject){"pad", 2, 1, {F(2, 3, 4), fs}, pad, 0};
  s[n++] = (subject){"concatenate", 3, 1, {F(2, 2, 3), F(2, 2, 1), F(2, 2, 4)}, concatenate, 0};
  s[n++] = (subject){"dynamic_slice", 3, 1, {F(2, 4, 5), is, is}, dynamic_slice, 4};
  s[n++] = (subject){"dynamic_update_slice", 4, 1, {F(2, 4, 5), F(2, 2, 3), is, is}, dynamic_update, 4};
  s[n++] = (subject){"reduce_add", 2, 1, {F(3, 2, 3, 4), fs}, reduce_add, 0};
  s[n++] = (subject){"reduce_multiply", 2, 1, {F(3, 2, 3, 3), fs}, reduce_multiply, 0};
  s[n++] = (subject){"reduce_maximum", 2, 1, {F(3, 2, 3, 4), fs}, reduce_maximum, 0};
  s[n++] = (subject){"reduce_minimum", 2, 1, {F(3, 2, 3, 4), fs}, reduce_minimum, 0};
  s[n++] = (subject){"reduce_named", 1, 3, {F(2, 2, 3)}, reduce_named, 0};
  s[n++] = (subject){"reduce_argmax", 1, 2, {F(2, 3, 5)}, reduce_argmax, 0};
  s[n++] = (subject){"reduce_two", 4, 2, {F(2, 3, 2), F(2, 3, 2), fs, fs}, reduce_two, 0};
  n = window_subjects(s, n);
  s[n++] = (subject){"dot", 2, 1, {F(2, 3, 4), F(1, 4)}, dot, 0};
  s[n++] = (subject){"dot_general", 2, 1, {F(4, 2, 3, 2, 4), F(4, 4, 5, 2, 3)}, dot_stacked, 0};
  s[n++] = (subject){"take", 2, 1, {F(3, 2, 4, 3), I(2, 2, 3)}, take, 5};
  s[n++] = (subject){"gather", 2, 1, {F(3, 5, 2, 6), I(3, 2, 3, 2)}, gather, 5};
  s[n++] = (subject){"scatter_add", 3, 1, {F(3, 5, 2, 6), I(3, 2, 3, 1), F(3, 4, 2, 3)}, scatter_add, 5};
  s[n++] = (subject){"scatter_assign", 3, 1, {F(3, 5, 2, 6), I(3, 2, 3, 1), F(3, 4, 2, 3)}, scatter_assign, 5};
  s[n++] = (subject){"scatter_maximum", 3, 1, {F(3, 5, 2, 6), I(3, 2, 3, 1), F(3, 4, 2, 3)}, scatter_maximum, 5};
  s[n++] = (subject){"scatter_minimum", 3, 1, {F(3, 5, 2, 6), I(3, 2, 3, 1), F(3, 4, 2, 3)}, scatter_minimum, 5};
  s[n++] = (subject){"scatter_multiply", 2, 1, {F(3, 5, 2, 6), F(3, 4, 2, 3)}, scatter_multiply, 0};
  s[n++] = (subject){"scatter_two", 4, 2, {F(2, 5, 3), F(2, 5, 3), F(2, 4, 3), F(2, 4, 3)}, scatter_two, 0};
  s[n++] = (subject){"sort", 2, 2, {F(3, 2, 5, 3), F(3, 2, 5, 3)}, sort_pair, 0};
  s[n++] = (subject){"top_k", 1, 2, {F(3, 2, 3, 5)}, top_k, 0};
  s[n++] = (subject){"optimization_barrier", 2, 2, {F(2, 2, 3), F(1, 4)}, barrier, 0};
  return n;
}

/* ---- host side ---- */
static double draw(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void *fill(const qn_type *t, int64_t most, uint64_t *state) {
  int64_t n = qn_type_elements(t);
  void *data = calloc((size_t)n + 1, 8);
  for (int64_t i = 0; i < n; ++i) {
    if (t->dtype == QN_F64)
      ((double *)data)[i] = 3 * draw(state) - 1.5;
    else
      ((int32_t *)data)[i] = (int32_t)floor(draw(state) * (double)(most + 2)) - 1;
  }
  return data;
}

static qn_graph *graph_of(const subject *s) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create(s->name, &g));
  qn_val in[4], out[4];
  for (int i = 0; i < s->in_count; ++i)
    in[i] = qn_graph_param(g, s->in[i], NULL);
  s->build(g, in, out);
  QN_ASSERT_OK(qn_graph_seal(g, out, (size_t)s->out_count));
  return g;
}

static const qn_type *result_type(const qn_graph *g, size_t i) { return qn_graph_type(g, qn_graph_result(g, i)); }
static const qn_type *param_type(const qn_graph *g, size_t i) { return qn_graph_type(g, qn_graph_param_at(g, i)); }

static void run(const qn_graph *g, void *const *in, void **out) {
  for (size_t i = 0; i < qn_graph_result_count(g); ++i)
    out[i] = calloc((size_t)qn_type_elements(result_type(g, i)) + 1, 8);
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *const *)in, out));
}

static void release(void **data, size_t n) {
  for (size_t i = 0; i < n; ++i)
    free(data[i]);
}

static double inner(const qn_type *t, const void *a, const void *b) {
  double sum = 0;
  for (int64_t i = 0; i < qn_type_elements(t); ++i)
    sum += ((const double *)a)[i] * ((const double *)b)[i];
  return sum;
}

/* ---- checks ---- */
static void check_tangents(const subject *s, const qn_graph *f, const qn_graph *jvp, void **in, void **tangent) {
  void *all[MOST], *out[MOST], *lo[MOST], *hi[MOST], *moved[4];
  size_t n = 0;
  for (int i = 0; i < s->in_count; ++i)
    all[n++] = in[i];
  for (int i = 0; i < s->in_count; ++i)
    if (tangent[i] != NULL)
      all[n++] = tangent[i];
  run(jvp, all, out);
  const double h = 1e-6;
  for (int side = 0; side < 2; ++side) {
    for (int i = 0; i < s->in_count; ++i) {
      int64_t count = qn_type_elements(&s->in[i]);
      moved[i] = calloc((size_t)count + 1, 8);
      if (count > 0)
        memcpy(moved[i], in[i], (size_t)qn_type_bytes(&s->in[i]));
      for (int64_t k = 0; tangent[i] != NULL && k < count; ++k)
        ((double *)moved[i])[k] += (side == 0 ? -h : h) * ((double *)tangent[i])[k];
    }
    run(f, moved, side == 0 ? lo : hi);
    release(moved, (size_t)s->in_count);
  }
  size_t at = (size_t)s->out_count;
  for (int r = 0; r < s->out_count; ++r) {
    const qn_type *t = result_type(f, (size_t)r);
    if (t->dtype != QN_F64)
      continue;
    for (int64_t k = 0; k < qn_type_elements(t); ++k) {
      double want = (((double *)hi[r])[k] - ((double *)lo[r])[k]) / (2 * h), got = ((double *)out[at])[k];
      cr_expect(fabs(got - want) <= 1e-6 * (1 + fabs(want)), "%s: tangent %d, element %lld is %g, differences give %g",
                s->name, r, (long long)k, got, want);
    }
    ++at;
  }
  release(out, qn_graph_result_count(jvp));
  release(lo, (size_t)s->out_count);
  release(hi, (size_t)s->out_count);
}

static void check_inner(const subject *s, const qn_graph *f, const qn_graph *jvp, const qn_graph *vjp, void **in,
                        void **tangent, uint64_t *state) {
  void *all[MOST], *forward[MOST], *backward[MOST], *ct[4] = {NULL};
  size_t n = (size_t)s->in_count;
  for (int i = 0; i < s->in_count; ++i)
    all[i] = in[i];
  for (int i = 0; i < s->in_count; ++i)
    if (tangent[i] != NULL)
      all[n++] = tangent[i];
  run(jvp, all, forward);
  n = (size_t)s->in_count;
  for (int r = 0; r < s->out_count; ++r)
    if (result_type(f, (size_t)r)->dtype == QN_F64)
      all[n++] = ct[r] = fill(result_type(f, (size_t)r), 0, state);
  run(vjp, all, backward);
  double a = 0, b = 0;
  size_t at = (size_t)s->out_count;
  for (int r = 0; r < s->out_count; ++r)
    if (ct[r] != NULL)
      a += inner(result_type(f, (size_t)r), ct[r], forward[at++]);
  at = (size_t)s->out_count;
  for (int i = 0; i < s->in_count; ++i)
    if (tangent[i] != NULL)
      b += inner(&s->in[i], tangent[i], backward[at++]);
  cr_expect(fabs(a - b) <= 1e-10 * (1 + fabs(a)), "%s: <ct, jvp> is %.15g, <vjp, t> is %.15g", s->name, a, b);
  release(forward, qn_graph_result_count(jvp));
  release(backward, qn_graph_result_count(vjp));
  release(ct, 4);
}

/* f batched by the axes in `mask`, against one evaluation per lane. */
static void check_batch(const char *name, const qn_graph *f, unsigned mask, int64_t most, uint64_t *state) {
  size_t n = qn_graph_param_count(f), results = qn_graph_result_count(f);
  int axes[MOST];
  void *in[MOST], *lane[MOST], *got[MOST], *want[MOST];
  qn_graph *g = NULL;
  for (size_t i = 0; i < n; ++i)
    axes[i] = (mask >> i & 1U) != 0 ? 0 : -1;
  qn_status st = qn_vmap_graph(f, LANES, axes, &g);
  cr_expect(st == QN_OK, "%s, mapped %#x: %s", name, mask, st == QN_OK ? "" : qn_error_report());
  if (st != QN_OK)
    return;
  for (size_t i = 0; i < n; ++i)
    in[i] = fill(param_type(g, i), most, state);
  run(g, in, got);
  for (size_t k = 0; k < LANES; ++k) {
    for (size_t i = 0; i < n; ++i)
      lane[i] = (char *)in[i] + (axes[i] == 0 ? k * (size_t)qn_type_bytes(param_type(f, i)) : 0);
    run(f, lane, want);
    for (size_t r = 0; r < results; ++r) {
      const qn_type *t = result_type(f, r);
      const char *part = (const char *)got[r] + k * (size_t)qn_type_bytes(t);
      cr_expect_eq(result_type(g, r)->rank, t->rank + 1, "%s", name);
      for (int64_t e = 0; e < qn_type_elements(t); ++e) {
        double a = t->dtype == QN_F64 ? ((const double *)part)[e] : (double)((const int32_t *)part)[e];
        double b = t->dtype == QN_F64 ? ((const double *)want[r])[e] : (double)((const int32_t *)want[r])[e];
        cr_expect(fabs(a - b) <= 1e-12 * (1 + fabs(b)),
                  "%s, mapped %#x: lane %zu of result %zu, element %lld is %g, expected %g", name, mask, k, r,
                  (long long)e, a, b);
      }
    }
    release(want, results);
  }
  release(in, n);
  release(got, results);
  qn_graph_release(g);
}

/* The sum of squares (so that second derivatives do not vanish) of all float results of f. */
static qn_graph *squared(const qn_graph *f) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("squared", &g));
  qn_val in[4], out[4], sum = qn_scalar(g, QN_F64, 0.0);
  for (size_t i = 0; i < qn_graph_param_count(f); ++i)
    in[i] = qn_graph_param(g, *param_type(f, i), NULL);
  cr_assert(qn_graph_inline(g, f, in, qn_graph_param_count(f), out));
  for (size_t i = 0; i < qn_graph_result_count(f); ++i)
    if (result_type(f, i)->dtype == QN_F64)
      sum = qn_add(sum, qn_sum_all(qn_mul(out[i], qn_mul(out[i], out[i]))));
  QN_ASSERT_OK(qn_graph_seal(g, &sum, 1));
  return g;
}

/* How large the product was, in all. */
static double check_second(const subject *s, const qn_graph *f, void **in, void **tangent) {
  qn_graph *loss = squared(f), *forward = NULL, *backward = NULL;
  qn_transform a = {.kind = QN_TRANSFORM_HVP}, b = {.kind = QN_TRANSFORM_HVP_REV};
  double size = 0;
  QN_EXPECT_OK(qn_transform_graph(loss, &a, &forward));
  QN_EXPECT_OK(qn_transform_graph(loss, &b, &backward));
  if (forward != NULL && backward != NULL) {
    void *all[MOST], *x[MOST], *y[MOST];
    for (int i = 0; i < s->in_count; ++i)
      all[i] = in[i];
    all[s->in_count] = tangent[0];
    run(forward, all, x);
    run(backward, all, y);
    for (int64_t k = 0; k < qn_type_elements(&s->in[0]); ++k) {
      double p = ((double *)x[0])[k], q = ((double *)y[0])[k];
      size += fabs(p);
      cr_expect(fabs(p - q) <= 1e-9 * (1 + fabs(q)), "%s: Hessian times vector, element %lld: %g forward, %g reverse",
                s->name, (long long)k, p, q);
    }
    release(x, 1);
    release(y, 1);
  }
  qn_graph_release(loss);
  if (forward != NULL)
    qn_graph_release(forward);
  if (backward != NULL)
    qn_graph_release(backward);
  return size;
}

static void check_subject(const subject *s, uint64_t seed) {
  uint64_t state = seed;
  qn_graph *f = graph_of(s), *jvp = NULL, *vjp = NULL;
  QN_ASSERT_OK(qn_jvp_graph(f, &jvp));
  QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
  void *in[4], *tangent[4] = {NULL};
  double second = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < s->in_count; ++i) {
      in[i] = fill(&s->in[i], s->most, &state);
      tangent[i] = s->in[i].dtype == QN_F64 ? fill(&s->in[i], 0, &state) : NULL;
    }
    check_tangents(s, f, jvp, in, tangent);
    check_inner(s, f, jvp, vjp, in, tangent, &state);
    second += check_second(s, f, in, tangent);
    release(in, (size_t)s->in_count);
    release(tangent, (size_t)s->in_count);
  }
  cr_expect(second > 0, "%s: the second derivative vanishes", s->name);
  for (unsigned mask = 1; mask < 1U << s->in_count; ++mask)
    check_batch(s->name, f, mask, s->most, &state);
  unsigned all = (1U << qn_graph_param_count(vjp)) - 1;
  check_batch(s->name, vjp, all, s->most, &state);
  check_batch(s->name, vjp, all & ~1U, s->most, &state);
  check_batch(s->name, jvp, 1U, s->most, &state);
  qn_graph_release(f);
  qn_graph_release(jvp);
  qn_graph_release(vjp);
}

static void check_named(const char *prefix) {
  subject s[96];
  size_t n = subjects(s), found = 0;
  for (size_t i = 0; i < n; ++i)
    if (strncmp(s[i].name, prefix, strlen(prefix)) == 0) {
      check_subject(&s[i], 1000 + i);
      ++found;
    }
  cr_expect(found > 0, "no subject is called %s", prefix);
}

Test(structural_rules, broadcast_in_dim) { check_named("broadcast_in_dim"); }
Test(structural_rules, reshape) { check_named("reshape"); }
Test(structural_rules, transpose) { check_named("transpose"); }
Test(structural_rules, reverse) { check_named("reverse"); }
Test(structural_rules, slice) { check_named("slice"); }
Test(structural_rules, pad) { check_named("pad"); }
Test(structural_rules, concatenate) { check_named("concatenate"); }
Test(structural_rules, dynamic) { check_named("dynamic"); }
Test(structural_rules, reduce) { check_named("reduce"); }
Test(structural_rules, window) { check_named("window"); }
Test(structural_rules, choice) { check_named("choice"); }
Test(structural_rules, running) { check_named("running"); }
Test(structural_rules, dot) { check_named("dot"); }
Test(structural_rules, take) { check_named("take"); }
Test(structural_rules, gather) { check_named("gather"); }
Test(structural_rules, scatter) { check_named("scatter"); }
Test(structural_rules, sort) { check_named("sort"); }
Test(structural_rules, top_k) { check_named("top_k"); }
Test(structural_rules, optimization_barrier) { check_named("optimization_barrier"); }
