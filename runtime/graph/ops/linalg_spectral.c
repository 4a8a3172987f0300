/* Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations on devices (kernels/schedule/emit_rotate.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer.h"
#include "linalg_matrix.h"
#include "linalg_reference.h"
#include "move_shape.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static qn_val one_node(qn_op op, qn_val a, qn_place at) {
  qn_graph *g = qn_graph_common(qn_op_get(op)->name, &a, 1, at);
  return g == NULL || qn_graph_failed(g) ? QN_NULL_VAL : qn_graph_add(g, op, &a, 1, NULL, NULL, 0, at);
}

/* 1 / (x[j] - x[i]) off the diagonal, 0 on it. */
static qn_val gaps(qn_val x) {
  int64_t n = qn_val_type(x)->dims[qn_val_type(x)->rank - 1];
  qn_val d = qn_sub(qn_matrix_spread(x, 2, n), qn_matrix_spread(x, 1, n));
  qn_val eye = qn_matrix_eye(x.graph, *qn_val_type(d));
  return qn_sub(qn_div(qn_like(x, 1), qn_add(d, eye)), eye);
}

/* ---- eigh ---- */
static qn_status eigh_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, true));
  qn_type a = c->operands[0];
  c->result_count = 2;
  c->out_types[0] = a;
  c->out_types[1] = qn_vector_type(&a, qn_matrix_rows(&a), a.dtype);
  return QN_OK;
}

/* With x = V' da V: dw is its diagonal, dV = V (x / gaps). */
static void eigh_jvp(qn_rule *r, qn_val *out) {
  qn_val v = r->out[0], x = qn_matrix_mul(qn_matrix_mul(qn_matrix_t(v), r->given[0]), v);
  out[0] = qn_matrix_mul(v, qn_mul(gaps(r->out[1]), x));
  out[1] = qn_matrix_diagonal(x);
}

static void eigh_vjp(qn_rule *r, qn_val *out) {
  qn_val v = r->out[0], x = qn_matrix_of_diagonal(r->given[1]);
  if (qn_val_ok(r->given[0]))
    x = qn_matrix_plus(x, qn_mul(gaps(r->out[1]), qn_matrix_mul(qn_matrix_t(v), r->given[0])));
  out[0] = qn_matrix_mul(qn_matrix_mul(v, x), qn_matrix_t(v));
}

/* Place i of the result gets what is at the place that i - 1 others come before: less, or equal and further to the front. */
static qn_val order_of(qn_val w, bool descending) {
  qn_type t = *qn_val_type(w);
  int64_t n = t.dims[t.rank - 1], axis = t.rank;
  qn_val mine = qn_matrix_spread(w, 1, n), other = qn_matrix_spread(w, 2, n);
  qn_type square = *qn_val_type(mine);
  square.dtype = QN_I32;
  qn_val i = qn_iota(w.graph, square, square.rank - 2), j = qn_iota(w.graph, square, square.rank - 1);
  qn_val less = descending ? qn_gt(other, mine) : qn_lt(other, mine);
  qn_val before = qn_or(less, qn_and(qn_eq(other, mine), qn_lt(j, i)));
  return qn_matrix_inverse_order(qn_sum(qn_convert(before, QN_I32), 1, &axis, false));
}

/* 1 or -1 for each row: what makes the entry of largest magnitude positive. */
static qn_val signs_of(qn_val rows) {
  int64_t axis = qn_val_type(rows)->rank - 1;
  qn_val high = qn_reduce_max(rows, 1, &axis, false), low = qn_neg(qn_reduce_min(rows, 1, &axis, false));
  return qn_select(qn_lt(high, low), qn_like(high, -1), qn_like(high, 1));
}

static qn_val vector_ordered(qn_val v, qn_val order) {
  qn_type t = *qn_val_type(v), column = t;
  column.dims[column.rank++] = 1;
  return qn_reshape(qn_matrix_take_rows(qn_reshape(v, column.rank, column.dims), order), t.rank, t.dims);
}

enum { SWEEPS = 16 }; /* convergence is quadratic: ten are many */

static void sweeps(qn_op op, qn_val *a, qn_val *v, qn_place at) {
  for (int i = 0; i < SWEEPS && qn_val_ok(*a); i++) {
    const qn_val in[] = {*a, *v};
    *a = qn_graph_add(in[0].graph, op, in, 2, NULL, NULL, 0, at);
    *v = qn_val_ok(*a) ? qn_val_result(*a, 1) : QN_NULL_VAL;
  }
}

/* 0 for each matrix, NaN where something is not finite, spread over `like`. */
static qn_val not_finite(qn_val x, qn_val like) {
  qn_type t = *qn_val_type(x), to = *qn_val_type(like);
  const int64_t axes[] = {t.rank - 2, t.rank - 1};
  qn_dims batch = qn_dims_iota(t.rank - 2);
  return qn_broadcast_in_dim(qn_sum(qn_sub(x, x), 2, axes, false), to.rank, to.dims, batch.d);
}

static bool eigh_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_val a = qn_matrix_tri(r->in[0], true, 0), v = qn_matrix_eye(r->g, *qn_val_type(r->in[0])), d = a;
  if (qn_type_elements(qn_val_type(a)) == 0) {
    out[0] = r->in[0];
    out[1] = qn_matrix_diagonal(r->in[0]);
    return true;
  }
  d = qn_add(a, qn_matrix_t(qn_matrix_tri(a, true, 1)));
  sweeps(QN_OP_JACOBI, &d, &v, r->node->place);
  qn_val w = qn_matrix_diagonal(d);
  if (!qn_val_ok(w))
    return true;
  qn_val order = order_of(w, false), rows = qn_matrix_take_rows(qn_matrix_t(v), order);
  rows = qn_add(qn_matrix_by_rows(rows, signs_of(rows)), not_finite(a, rows));
  w = vector_ordered(w, order);
  out[0] = qn_matrix_t(rows);
  out[1] = qn_add(w, not_finite(a, w));
  return true;
}

static qn_status eigh_eval(const qn_ref_call *c) {
  int64_t n = qn_matrix_rows(c->in_types[0]), count = qn_matrix_count(c->in_types[0]);
  double *a = qn_matrix_load(c, 0), *w = qn_matrix_room(c, 1), *room = calloc((size_t)n + 1, sizeof *room);
  bool ok = a && w && room;
  for (int64_t i = 0; ok && i < count; i++)
    qn_reference_eigh(a + i * n * n, w + i * n, room, n);
  free(room);
  qn_matrix_store(c, 0, a);
  qn_matrix_store(c, 1, w);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.eigh: out of memory");
}

static const qn_sample eigh_samples[] = {
    {.ranks = {2}, .dims = {{4, 4}}, .lo = -2, .hi = 2, .tol = 1e-4},
    {.ranks = {3}, .dims = {{2, 3, 3}}, .lo = -2, .hi = 2, .tol = 1e-4},
};

const qn_op_def qn_op_eigh = {
    .name = "quern.eigh",
    .doc = "Eigenvectors and ascending eigenvalues of symmetric matrices, of which the lower triangle is read.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = eigh_infer,
    .vjp = eigh_vjp,
    .jvp = eigh_jvp,
    .batch = qn_matrix_batch,
    .lower = eigh_lower,
    .eval = eigh_eval,
    .samples = eigh_samples,
    .sample_count = 2,
};

qn_eigh qn_eigh_at(qn_place at, qn_val a) {
  qn_val x = one_node(QN_OP_EIGH, a, at);
  return (qn_eigh){.vectors = x, .values = qn_val_ok(x) ? qn_val_result(x, 1) : x};
}

/* ---- svd ---- */
static qn_status svd_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, false));
  qn_type a = c->operands[0];
  int64_t m = qn_matrix_rows(&a), n = qn_matrix_columns(&a), k = smaller(m, n);
  c->result_count = 3;
  c->out_types[0] = qn_matrix_type(&a, m, k);
  c->out_types[1] = qn_vector_type(&a, k, a.dtype);
  c->out_types[2] = qn_matrix_type(&a, k, n);
  return QN_OK;
}

/* 1 / (s[j]^2 - s[i]^2), made of differences; 0 on the diagonal. */
static qn_val square_gaps(qn_val s) {
  int64_t n = qn_val_type(s)->dims[qn_val_type(s)->rank - 1];
  qn_val across = qn_matrix_spread(s, 2, n), down = qn_matrix_spread(s, 1, n);
  qn_val d = qn_mul(qn_add(across, down), qn_sub(across, down));
  qn_val eye = qn_matrix_eye(s.graph, *qn_val_type(d));
  return qn_sub(qn_div(qn_like(s, 1), qn_add(d, eye)), eye);
}

static qn_val with_transpose(qn_val x) { return qn_val_ok(x) ? qn_add(x, qn_matrix_t(x)) : x; }
/* What of x lies outside of the space of q's columns, each column divided by its s. */
static qn_val outside(qn_val x, qn_val q, qn_val s) {
  qn_val rest = qn_sub(x, qn_matrix_mul(q, qn_matrix_mul(qn_matrix_t(q), x)));
  return qn_div(rest, qn_matrix_spread(s, 2, qn_matrix_rows(qn_val_type(rest))));
}

/* Townsend, "Differentiating the singular value decomposition", 2016, with x = U' da V. */
static void svd_jvp(qn_rule *r, qn_val *out) {
  qn_type t = *qn_val_type(r->in[0]);
  qn_val u = r->out[0], s = r->out[1], vt = r->out[2], v = qn_matrix_t(vt), da = r->given[0];
  qn_val x = qn_matrix_mul(qn_matrix_mul(qn_matrix_t(u), da), v), f = square_gaps(s);
  qn_val du = qn_matrix_mul(u, qn_mul(f, with_transpose(qn_matrix_by_columns(x, s))));
  qn_val dv = qn_matrix_mul(v, qn_mul(f, with_transpose(qn_matrix_by_rows(x, s))));
  if (qn_matrix_rows(&t) > qn_matrix_columns(&t))
    du = qn_add(du, outside(qn_matrix_mul(da, v), u, s));
  if (qn_matrix_rows(&t) < qn_matrix_columns(&t))
    dv = qn_add(dv, outside(qn_matrix_mul(qn_matrix_t(da), u), v, s));
  out[0] = du;
  out[1] = qn_matrix_diagonal(x);
  out[2] = qn_matrix_t(dv);
}

static void svd_vjp(qn_rule *r, qn_val *out) {
  qn_type t = *qn_val_type(r->in[0]);
  qn_val u = r->out[0], s = r->out[1], vt = r->out[2], v = qn_matrix_t(vt);
  qn_val cu = r->given[0], cv = qn_matrix_t(r->given[2]), x = qn_matrix_of_diagonal(r->given[1]), a = QN_NULL_VAL;
  if (qn_val_ok(cu)) {
    qn_val y = with_transpose(qn_mul(square_gaps(s), qn_matrix_mul(qn_matrix_t(u), cu)));
    x = qn_matrix_plus(x, qn_matrix_by_columns(y, s));
    if (qn_matrix_rows(&t) > qn_matrix_columns(&t))
      a = qn_matrix_mul(outside(cu, u, s), vt);
  }
  if (qn_val_ok(cv)) {
    qn_val y = with_transpose(qn_mul(square_gaps(s), qn_matrix_mul(vt, cv)));
    x = qn_matrix_plus(x, qn_matrix_by_rows(y, s));
    if (qn_matrix_rows(&t) < qn_matrix_columns(&t))
      a = qn_matrix_plus(a, qn_matrix_mul(u, qn_matrix_t(outside(cv, v, s))));
  }
  out[0] = qn_matrix_plus(qn_matrix_mul(qn_matrix_mul(u, x), vt), a);
}

/* Columns of u are made orthogonal; there are no more of them than rows. */
static bool svd_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_val a = r->in[0];
  qn_type t = *qn_val_type(a);
  int64_t n = qn_matrix_columns(&t);
  if (qn_matrix_rows(&t) < n) {
    qn_svd s = qn_svd(qn_matrix_t(a));
    out[0] = qn_matrix_t(s.vt);
    out[1] = s.s;
    out[2] = qn_matrix_t(s.u);
    return true;
  }
  qn_val u = a, vt = qn_matrix_eye(r->g, qn_matrix_type(&t, n, n));
  sweeps(QN_OP_JACOBI_COLUMNS, &u, &vt, r->node->place);
  if (!qn_val_ok(u))
    return true;
  int64_t axis = t.rank - 1;
  qn_val ut = qn_matrix_t(u), s = qn_sqrt(qn_sum(qn_mul(ut, ut), 1, &axis, false)), order = order_of(s, true);
  s = vector_ordered(s, order);
  vt = qn_matrix_take_rows(vt, order);
  qn_val sign = signs_of(vt), zero = qn_eq(s, qn_like(s, 0));
  qn_val scale = qn_select(zero, qn_like(s, 0), qn_div(sign, qn_select(zero, qn_like(s, 1), s)));
  out[0] = qn_matrix_t(qn_matrix_by_rows(qn_matrix_take_rows(ut, order), scale));
  out[1] = s;
  out[2] = qn_matrix_by_rows(vt, sign);
  return true;
}

static qn_status svd_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), k = smaller(m, n), count = qn_matrix_count(t);
  double *a = qn_matrix_load(c, 0), *u = qn_matrix_room(c, 0), *s = qn_matrix_room(c, 1), *vt = qn_matrix_room(c, 2);
  bool ok = a && u && s && vt;
  for (int64_t i = 0; ok && i < count; i++)
    ok = qn_reference_svd(a + i * m * n, u + i * m * k, s + i * k, vt + i * k * n, m, n);
  free(a);
  qn_matrix_store(c, 0, u);
  qn_matrix_store(c, 1, s);
  qn_matrix_store(c, 2, vt);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.svd: out of memory");
}

static const qn_sample svd_samples[] = {
    {.ranks = {2}, .dims = {{4, 3}}, .lo = -2, .hi = 2, .tol = 1e-4},
    {.ranks = {3}, .dims = {{2, 3, 3}}, .lo = -2, .hi = 2, .tol = 1e-4},
    {.ranks = {2}, .dims = {{2, 4}}, .lo = -2, .hi = 2, .tol = 1e-4},
};

const qn_op_def qn_op_svd = {
    .name = "quern.svd",
    .doc = "Singular values of matrices in descending order, with left vectors as columns and right ones as rows.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = svd_infer,
    .vjp = svd_vjp,
    .jvp = svd_jvp,
    .batch = qn_matrix_batch,
    .lower = svd_lower,
    .eval = svd_eval,
    .samples = svd_samples,
    .sample_count = 3,
};

qn_svd qn_svd_at(qn_place at, qn_val a) {
  qn_val x = one_node(QN_OP_SVD, a, at);
  if (!qn_val_ok(x))
    return (qn_svd){QN_NULL_VAL, QN_NULL_VAL, QN_NULL_VAL};
  return (qn_svd){x, qn_val_result(x, 1), qn_val_result(x, 2)};
}
