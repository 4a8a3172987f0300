/* top_k: the largest elements of every row and their places, the lower place first among equals, NaN above every number. On devices it is a
 * sort, of which the front is kept. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "index_window.h"
#include "infer.h"
#include "move_shape.h"
#include "sort.h"

static qn_status top_k_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_REAL));
  const qn_type *x = &c->operands[0];
  int64_t k = ((const qn_attr_top_k *)c->attr)->k;
  if (x->rank < 1)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected at least one axis", c->name, qn_type_str(x));
  if (k < 0 || k > x->dims[x->rank - 1])
    return QN_ERR(QN_INVALID, "%s: k is %lld, expected 0..%lld for operand 0, %s", c->name, (long long)k,
                  (long long)x->dims[x->rank - 1], qn_type_str(x));
  for (int i = 0; i < 2; ++i) {
    c->out_types[i] = *x;
    c->out_types[i].dims[x->rank - 1] = k;
  }
  c->out_types[1].dtype = QN_I32;
  c->result_count = 2;
  return QN_OK;
}

static void top_k_vjp(qn_rule *r, qn_val *out) {
  if (!r->wanted[0] || !qn_val_ok(r->given[0]))
    return;
  int axis = qn_val_type(r->in[0])->rank - 1;
  qn_attr_scatter back = {.inserted_window_dims = {1, {axis}},
                          .input_batching_dims = qn_dims_iota(axis),
                          .scatter_indices_batching_dims = qn_dims_iota(axis),
                          .scatter_dims_to_operand_dims = {1, {axis}},
                          .index_vector_dim = axis + 1,
                          .unique_indices = true};
  out[0] = qn_scatter_named(qn_zeros_of(r->g, r->in[0]), r->out[1], r->given[0], &back, QN_OP_ADD);
}

static void top_k_jvp(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]))
    out[0] = qn_take_along(r->given[0], r->out[1], -1);
}

static void top_k_batch(qn_batch *b, qn_val *out) {
  qn_top_k(b->in[0], ((const qn_attr_top_k *)b->attr)->k, &out[0], &out[1]);
}

/* (a, b, i, j) -> a > b, or a alone is NaN */
static qn_status larger_region(qn_dtype t, qn_graph **out_region) {
  QN_TRY(qn_graph_create("region", out_region));
  qn_graph *g = *out_region;
  qn_val a = qn_graph_param(g, qn_type_scalar(t), NULL), b = qn_graph_param(g, qn_type_scalar(t), NULL);
  (void)qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
  (void)qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
  qn_val y = qn_gt(a, b);
  if (qn_dtype_is_float(t))
    y = qn_or(y, qn_and(qn_ne(a, a), qn_eq(b, b)));
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(g);
    *out_region = NULL;
  }
  return st;
}

static bool top_k_lower(qn_rule *r, qn_val *out) {
  qn_type t = *qn_val_type(r->in[0]), places = t;
  places.dtype = QN_I32;
  int64_t start[QN_MAX_RANK] = {0};
  qn_graph *larger = NULL;
  qn_status st = larger_region(t.dtype, &larger);
  if (st != QN_OK) {
    out[0] = qn_graph_fail(r->g, QN_HERE, st, "top_k: %s", qn_error_message());
    return true;
  }
  qn_val pair[2] = {r->in[0], qn_iota(r->g, places, t.rank - 1)};
  qn_sort(pair, 2, t.rank - 1, larger, out);
  qn_graph_release(larger);
  t.dims[t.rank - 1] = ((const qn_attr_top_k *)r->attr)->k;
  for (int i = 0; i < 2 && qn_val_ok(out[i]); ++i)
    out[i] = qn_slice(out[i], start, t.dims, NULL);
  return true;
}

/* ---- reference ---- */
typedef struct row_view {
  qn_dtype dtype;
  const double *f;
  const int64_t *i;
  const uint64_t *u;
} row_view;

static qn_status is_larger(void *user, int64_t b, int64_t a, bool *out) {
  const row_view *v = user;
  if (qn_dtype_is_float(v->dtype))
    *out = v->f[b] > v->f[a] || (v->f[b] != v->f[b] && v->f[a] == v->f[a]);
  else
    *out = qn_dtype_is_signed(v->dtype) ? v->i[b] > v->i[a] : v->u[b] > v->u[a];
  return QN_OK;
}

static qn_status top_k_eval(const qn_ref_call *c) {
  const qn_type *x = c->in_types[0];
  int64_t n = x->dims[x->rank - 1], k = c->out_types[0]->dims[x->rank - 1];
  if (qn_type_elements(x) == 0 || k == 0)
    return QN_OK;
  size_t size = qn_dtype_size(x->dtype);
  int64_t *order = malloc((size_t)(2 * n) * sizeof *order);
  void *row = malloc((size_t)n * 8);
  qn_status st = order && row ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "top_k: no memory for rows of %lld", (long long)n);
  row_view v = {.dtype = x->dtype, .f = row, .i = row, .u = row};
  for (int64_t at = 0; st == QN_OK && at < qn_type_elements(x) / n; ++at) {
    if (qn_dtype_is_float(x->dtype))
      qn_oracle_load_f(x->dtype, c->in[0], at * n, n, row);
    else if (qn_dtype_is_signed(x->dtype))
      qn_oracle_load_i(x->dtype, c->in[0], at * n, n, row);
    else
      qn_oracle_load_u(x->dtype, c->in[0], at * n, n, row);
    for (int64_t i = 0; i < n; ++i)
      order[i] = i;
    st = qn_stable_order(order, order + n, n, is_larger, &v);
    for (int64_t i = 0; st == QN_OK && i < k; ++i) {
      memcpy((char *)c->out[0] + (size_t)(at * k + i) * size,
             (const char *)c->in[0] + (size_t)(at * n + order[i]) * size, size);
      ((int32_t *)c->out[1])[at * k + i] = (int32_t)order[i];
    }
  }
  free(order);
  free(row);
  return st;
}

const qn_op_def qn_op_top_k = {
    .name = "chlo.top_k",
    .doc = "The k largest elements of every row, in falling order, and their places (i32); the lower place first among "
           "equals.",
    .arity = 1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_REAL,
    .attr_size = sizeof(qn_attr_top_k),
    .infer = top_k_infer,
    .vjp = top_k_vjp,
    .jvp = top_k_jvp,
    .batch = top_k_batch,
    .lower = top_k_lower,
    .eval = top_k_eval,
    .samples =
        (const qn_sample[]){
            {.ranks = {2}, .dims = {{5, 7}}, .lo = -9, .hi = 9, .attr = &(const qn_attr_top_k){.k = 3}}},
    .sample_count = 1,
};

void qn_top_k_at(qn_place at, qn_val x, int64_t k, qn_val *values, qn_val *places) {
  *values = *places = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("top_k", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_attr_top_k a = {.k = k};
  qn_val first = qn_graph_add(g, QN_OP_TOP_K, &x, 1, &a, NULL, 0, at);
  if (!qn_val_ok(first))
    return;
  *values = qn_val_result(first, 0);
  *places = qn_val_result(first, 1);
}
