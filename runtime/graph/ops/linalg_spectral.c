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
  c->result_count = c->op == QN_OP_JACOBI ? 3 : 2;
  c->out_types[0] = a;
  c->out_types[1] = qn_vector_type(&a, qn_matrix_rows(&a), a.dtype);
  if (c->op == QN_OP_JACOBI)
    c->out_types[2] = a;
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

static bool eigh_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_val x = one_node(QN_OP_JACOBI, r->in[0], r->node->place);
  out[0] = x;
  out[1] = qn_val_ok(x) ? qn_val_result(x, 1) : x;
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
  if (c->out_count == 3)
    memset(c->out[2], 0, (size_t)qn_type_bytes(c->out_types[2]));
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

const qn_op_def qn_op_jacobi = {
    .name = "quern.jacobi",
    .doc = "What quern.eigh becomes in front of scheduling: its results, and room for the matrix that is turned.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = eigh_infer,
    .no_grad = "made in front of scheduling: quern.eigh has the derivative",
    .batch = qn_matrix_batch,
    .lower = qn_matrix_widen,
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

/* Kernels take no fewer rows than columns. */
static bool svd_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  const qn_type *t = qn_val_type(r->in[0]);
  if (qn_matrix_rows(t) >= qn_matrix_columns(t))
    return false;
  qn_svd s = qn_svd(qn_matrix_t(r->in[0]));
  out[0] = qn_matrix_t(s.vt);
  out[1] = s.s;
  out[2] = qn_matrix_t(s.u);
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
