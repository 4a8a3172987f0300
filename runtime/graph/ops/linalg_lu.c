/* LU factors with row exchanges, and pivots as a permutation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "linalg_matrix.h"
#include "move_shape.h"

enum { WHOLE = 48 }; /* columns up to which a matrix is worked on as a whole */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static qn_status lu_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, false));
  const qn_type *t = &c->operands[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t);
  qn_type a = *t;
  c->result_count = 3;
  c->out_types[1] = qn_vector_type(&a, smaller(m, n), QN_I32);
  c->out_types[2] = qn_vector_type(&a, m, QN_I32);
  c->out_types[0] = a;
  return QN_OK;
}

/* Square factors that the packed ones are part of: L with rows x rows, U with columns x columns, each padded by an identity. */
static qn_val whole_factor(qn_val lu, bool lower) {
  qn_type t = *qn_val_type(lu);
  int64_t m = qn_matrix_rows(&t), n = qn_matrix_columns(&t), k = smaller(m, n), size = lower ? m : n;
  qn_type square = qn_matrix_type(&t, size, size);
  qn_val x = lower ? qn_matrix_tri(qn_matrix_part(lu, 0, m, 0, k), true, 1)
                   : qn_matrix_tri(qn_matrix_part(lu, 0, k, 0, n), false, 0);
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
  high[t.rank - (lower ? 1 : 2)] = size - k;
  x = qn_pad(x, qn_like(x, 0), low, high, NULL);
  if (lower)
    return qn_add(x, qn_matrix_eye(lu.graph, square));
  if (k == n)
    return x;
  memset(high, 0, sizeof high);
  low[t.rank - 2] = low[t.rank - 1] = k;
  qn_val rest = qn_matrix_eye(lu.graph, qn_matrix_type(&t, n - k, n - k));
  return qn_add(x, qn_pad(rest, qn_like(rest, 0), low, high, NULL));
}

/* With x = L^-1 P da U^-1: dL = L tril(x, -1), dU = triu(x) U. */
static void lu_jvp(qn_rule *r, qn_val *out) {
  qn_val l = whole_factor(r->out[0], true), u = whole_factor(r->out[0], false);
  qn_val x = qn_matrix_take_rows(r->given[0], r->out[2]);
  x = qn_matrix_solve(l, x, true, true, false, true);
  x = qn_matrix_solve(u, x, false, false, false, false);
  out[0] = qn_add(qn_matrix_mul(l, qn_matrix_tri(x, true, 1)), qn_matrix_mul(qn_matrix_tri(x, false, 0), u));
}

static void lu_vjp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]))
    return;
  qn_val l = whole_factor(r->out[0], true), u = whole_factor(r->out[0], false);
  qn_val x = qn_add(qn_matrix_tri(qn_matrix_mul(qn_matrix_t(l), r->given[0]), true, 1),
                    qn_matrix_tri(qn_matrix_mul(r->given[0], qn_matrix_t(u)), false, 0));
  x = qn_matrix_solve(u, x, false, false, true, false);
  x = qn_matrix_solve(l, x, true, true, true, true);
  out[0] = qn_matrix_take_rows(x, qn_matrix_inverse_order(r->out[2]));
}

static qn_val vector_part(qn_val v, int64_t from, int64_t to) {
  qn_type t = *qn_val_type(v);
  int64_t start[QN_MAX_RANK] = {0};
  start[t.rank - 1] = from;
  t.dims[t.rank - 1] = to;
  return qn_slice(v, start, t.dims, NULL);
}

static qn_val vectors_joined(qn_val a, qn_val b) {
  const qn_val both[2] = {a, b};
  return qn_concatenate(both, 2, qn_val_type(a)->rank - 1);
}

/* The left columns first; what is right of them is exchanged, solved for, and the rest is factored less what they explain. */
static bool lu_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_val a = r->in[0];
  qn_type t = *qn_val_type(a);
  int64_t m = qn_matrix_rows(&t), n = qn_matrix_columns(&t), k = smaller(m, n), h = (k / 2 + 31) / 32 * 32;
  if (k <= WHOLE)
    return false;
  qn_lu left = qn_lu_factor(qn_matrix_part(a, 0, m, 0, h));
  qn_val right = qn_matrix_take_rows(qn_matrix_part(a, 0, m, h, n - h), left.permutation);
  qn_val top = qn_matrix_part(left.lu, 0, h, 0, h), below = qn_matrix_part(left.lu, h, m - h, 0, h);
  qn_val u = qn_matrix_solve(top, qn_matrix_part(right, 0, h, 0, n - h), true, true, false, true);
  qn_val rest = qn_sub(qn_matrix_part(right, h, m - h, 0, n - h), qn_matrix_mul(below, u));
  qn_lu last = qn_lu_factor(rest);
  below = qn_matrix_take_rows(below, last.permutation);
  out[0] = qn_matrix_stack(qn_matrix_stack(top, u, false), qn_matrix_stack(below, last.lu, false), true);
  out[1] = vectors_joined(left.pivots, qn_add(last.pivots, qn_like(last.pivots, (double)h)));
  qn_val moved = vector_part(left.permutation, h, m);
  qn_type column = *qn_val_type(moved), flat = column;
  column.dims[column.rank++] = 1;
  moved = qn_matrix_take_rows(qn_reshape(moved, column.rank, column.dims), last.permutation);
  out[2] = vectors_joined(vector_part(left.permutation, 0, h), qn_reshape(moved, flat.rank, flat.dims));
  return true;
}

/* The reference goes column by column (Crout): each column is brought up to date by the ones before it, then its pivot is sought. */
static void lu_one(double *a, double *pivots, double *order, int64_t m, int64_t n) {
  for (int64_t i = 0; i < m; i++)
    order[i] = (double)i;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++)
      for (int64_t k = 0; k < smaller(i, j); k++)
        a[i * n + j] -= a[i * n + k] * a[k * n + j];
    if (j >= m)
      continue;
    int64_t p = j;
    for (int64_t i = j + 1; i < m; i++)
      p = fabs(a[i * n + j]) > fabs(a[p * n + j]) ? i : p;
    pivots[j] = (double)p;
    for (int64_t k = 0; k < n && p != j; k++) {
      double x = a[j * n + k];
      a[j * n + k] = a[p * n + k];
      a[p * n + k] = x;
    }
    double o = order[j];
    order[j] = order[p];
    order[p] = o;
    for (int64_t i = j + 1; i < m && a[j * n + j] != 0; i++)
      a[i * n + j] /= a[j * n + j];
  }
}

static void store_integers(const qn_ref_call *c, int result, double *data) {
  for (int64_t i = 0; data && i < qn_type_elements(c->out_types[result]); i++)
    ((int32_t *)c->out[result])[i] = (int32_t)data[i];
  free(data);
}

static qn_status lu_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), count = qn_matrix_count(t);
  double *a = qn_matrix_load(c, 0), *pivots = qn_matrix_room(c, 1), *order = qn_matrix_room(c, 2);
  bool ok = a && pivots && order;
  for (int64_t i = 0; ok && i < count; i++)
    lu_one(a + i * m * n, pivots + i * smaller(m, n), order + i * m, m, n);
  qn_matrix_store(c, 0, a);
  store_integers(c, 1, pivots);
  store_integers(c, 2, order);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.lu: out of memory");
}

static const qn_sample lu_samples[] = {
    {.ranks = {2}, .dims = {{4, 4}}, .lo = -2, .hi = 2, .tol = 1e-5},
    {.ranks = {3}, .dims = {{2, 4, 3}}, .lo = -2, .hi = 2, .tol = 1e-5},
    {.ranks = {2}, .dims = {{3, 5}}, .lo = -2, .hi = 2, .tol = 1e-5},
};

const qn_op_def qn_op_lu = {
    .name = "quern.lu",
    .doc = "LU factors of matrices in one packed matrix, with the row exchanges as pivots and as a permutation.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = lu_infer,
    .vjp = lu_vjp,
    .jvp = lu_jvp,
    .batch = qn_matrix_batch,
    .lower = lu_lower,
    .eval = lu_eval,
    .samples = lu_samples,
    .sample_count = 3,
};

qn_lu qn_lu_at(qn_place at, qn_val a) {
  qn_graph *g = qn_graph_common("quern.lu", &a, 1, at);
  qn_val x = g == NULL || qn_graph_failed(g) ? QN_NULL_VAL : qn_graph_add(g, QN_OP_LU, &a, 1, NULL, NULL, 0, at);
  if (!qn_val_ok(x))
    return (qn_lu){QN_NULL_VAL, QN_NULL_VAL, QN_NULL_VAL};
  return (qn_lu){x, qn_val_result(x, 1), qn_val_result(x, 2)};
}

/* ---- pivots ---- */
static qn_status permutation_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_type *p = &c->operands[0], *y = &c->hint;
  QN_TRY(qn_infer_dtype(c, 0, QN_D_SIGNED));
  if (p->rank < 1)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected one axis at least", c->name, qn_type_str(p));
  if (y->dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_INVALID, "%s: the result's type is not given", c->name);
  bool fits = y->dtype == p->dtype && y->rank == p->rank && y->dims[y->rank - 1] >= p->dims[p->rank - 1];
  for (int i = 0; fits && i < p->rank - 1; i++)
    fits = y->dims[i] == p->dims[i];
  if (!fits)
    return QN_ERR(QN_INVALID,
                  "%s: the result is %s, expected the dtype and batch axes of operand 0, %s, and no fewer rows",
                  c->name, qn_type_str(y), qn_type_str(p));
  c->out_types[0] = *y;
  return QN_OK;
}

static qn_status permutation_eval(const qn_ref_call *c) {
  const qn_type *p = c->in_types[0], *y = c->out_types[0];
  int64_t k = p->dims[p->rank - 1], n = y->dims[y->rank - 1], count = n ? qn_type_elements(y) / n : 0;
  int64_t *order = malloc(((size_t)n + 1) * sizeof *order);
  if (!order)
    return QN_ERR(QN_OUT_OF_MEMORY, "quern.pivots_to_permutation: out of memory");
  for (int64_t b = 0; b < count; b++) {
    for (int64_t i = 0; i < n; i++)
      order[i] = i;
    for (int64_t i = 0; i < k; i++) {
      int64_t pivot = qn_load_index(c->in[0], p->dtype, b * k + i);
      if (pivot < 0 || pivot >= n)
        continue;
      int64_t x = order[i];
      order[i] = order[pivot];
      order[pivot] = x;
    }
    qn_oracle_store_i(y->dtype, c->out[0], b * n, n, order);
  }
  free(order);
  return QN_OK;
}

static const qn_sample permutation_samples[] = {
    {.ranks = {2}, .dims = {{2, 3}}, .lo = 0, .hi = 4, .hint = {.dtype = QN_I32, .rank = 2, .dims = {2, 5}}}};

const qn_op_def qn_op_pivots_to_permutation = {
    .name = "quern.pivots_to_permutation",
    .doc = "Row exchanges, each with the row that its pivot names, as the permutation that they make.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_SIGNED,
    .infer = permutation_infer,
    .no_grad = "works on integers",
    .batch = qn_matrix_batch,
    .eval = permutation_eval,
    .samples = permutation_samples,
    .sample_count = 1,
};

qn_val qn_pivots_to_permutation_at(qn_place at, qn_val pivots, int64_t size) {
  qn_graph *g = qn_graph_common("quern.pivots_to_permutation", &pivots, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(pivots);
  if (t.rank > 0)
    t.dims[t.rank - 1] = size;
  return qn_graph_add_typed(g, QN_OP_PIVOTS_TO_PERMUTATION, &pivots, 1, NULL, NULL, 0, &t, at);
}
