/* cholesky and triangular_solve. Large ones are halved in front of scheduling, so that most of the work is multiplication of matrices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer.h"
#include "linalg_matrix.h"
#include "move_shape.h"

enum { WHOLE = 48 }; /* rows up to which a matrix is worked on as a whole */

/* The first of two halves: a multiple of 32. */
static int64_t half_of(int64_t n) { return (n / 2 + 31) / 32 * 32; }

/* ---- cholesky ---- */
static qn_status cholesky_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, true));
  c->out_types[0] = c->operands[0];
  return QN_OK;
}

/* The lower triangle with half of the diagonal. */
static qn_val phi(qn_val x) {
  qn_type t = *qn_val_type(x);
  qn_val half = qn_sub(qn_like(x, 1), qn_mul(qn_matrix_eye(x.graph, t), qn_like(x, 0.5)));
  return qn_mul(qn_matrix_tri(x, true, 0), half);
}

/* Murray, "Differentiation of the Cholesky decomposition", 2016: dL = L phi(L^-1 dA L^-T). An upper factor is the lower one's transpose. */
static void cholesky_jvp(qn_rule *r, qn_val *out) {
  bool lower = ((const qn_attr_triangle *)r->attr)->lower;
  qn_val l = lower ? r->out[0] : qn_matrix_t(r->out[0]), da = lower ? r->given[0] : qn_matrix_t(r->given[0]);
  qn_val x = qn_matrix_solve(l, da, false, true, true, false);
  qn_val dl = qn_matrix_mul(l, phi(qn_matrix_solve(l, x, true, true, false, false)));
  out[0] = lower ? dl : qn_matrix_t(dl);
}

static void cholesky_vjp(qn_rule *r, qn_val *out) {
  bool lower = ((const qn_attr_triangle *)r->attr)->lower;
  qn_val l = lower ? r->out[0] : qn_matrix_t(r->out[0]), ct = lower ? r->given[0] : qn_matrix_t(r->given[0]);
  qn_val x = phi(qn_matrix_mul(qn_matrix_t(l), ct));
  x = qn_matrix_solve(l, x, true, true, true, false);
  x = qn_matrix_solve(l, x, false, true, false, false);
  out[0] = lower ? x : qn_matrix_t(x);
}

/* [a . ; b c] -> [l . ; b l^-T  cholesky(c - b l^-T (b l^-T)')]. What is not positive definite is NaN as a whole. */
static bool cholesky_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_type t = *qn_val_type(r->in[0]);
  int64_t n = qn_matrix_rows(&t), h = half_of(n);
  bool lower = ((const qn_attr_triangle *)r->attr)->lower;
  if (n <= WHOLE)
    return false;
  if (!lower) {
    out[0] = qn_matrix_t(qn_cholesky(qn_matrix_t(r->in[0]), true));
    return true;
  }
  qn_val a = r->in[0], l = qn_cholesky(qn_matrix_part(a, 0, h, 0, h), true);
  qn_val b = qn_matrix_solve(l, qn_matrix_part(a, h, n - h, 0, h), false, true, true, false);
  qn_val c = qn_cholesky(qn_sub(qn_matrix_part(a, h, n - h, h, n - h), qn_matrix_mul(b, qn_matrix_t(b))), true);
  qn_type corner = qn_matrix_type(&t, h, n - h);
  qn_val top = qn_matrix_stack(l, qn_full(r->g, corner, 0), false), bottom = qn_matrix_stack(b, c, false);
  qn_val whole = qn_matrix_stack(top, bottom, true);
  qn_val last = qn_matrix_part(c, n - h - 1, 1, n - h - 1, 1);
  qn_dims axes = qn_dims_iota(t.rank);
  qn_val bad = qn_broadcast_in_dim(qn_ne(last, last), t.rank, t.dims, axes.d);
  out[0] = qn_select(bad, qn_matrix_tri(qn_full(r->g, t, NAN), true, 0), whole);
  return true;
}

/* The reference goes row by row, with dot products. */
static void cholesky_one(const double *a, double *l, int64_t n, bool lower) {
  bool failed = false;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double s = lower ? a[i * n + j] : a[j * n + i];
      for (int64_t k = 0; k < j; k++)
        s -= l[i * n + k] * l[j * n + k];
      failed = failed || (i == j && !(s > 0));
      l[i * n + j] = i == j ? sqrt(s) : s / l[j * n + j];
    }
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double x = failed ? NAN : l[i * n + j];
      l[i * n + j] = l[j * n + i] = 0;
      l[lower ? i * n + j : j * n + i] = x;
    }
}

static qn_status cholesky_eval(const qn_ref_call *c) {
  int64_t n = qn_matrix_rows(c->in_types[0]), count = qn_matrix_count(c->in_types[0]);
  double *a = qn_matrix_load(c, 0), *l = qn_matrix_room(c, 0);
  bool ok = a && l;
  for (int64_t i = 0; ok && i < count; i++)
    cholesky_one(a + i * n * n, l + i * n * n, n, ((const qn_attr_triangle *)c->attr)->lower);
  free(a);
  qn_matrix_store(c, 0, l);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "cholesky: out of memory");
}

static const qn_attr_triangle is_lower = {true}, is_upper = {false};
static const qn_sample cholesky_samples[] = {
    {.ranks = {2}, .dims = {{4, 4}}, .lo = -1, .hi = 1, .tol = 1e-5, .attr = &is_lower},
    {.ranks = {3}, .dims = {{2, 3, 3}}, .lo = -1, .hi = 1, .tol = 1e-5, .attr = &is_upper},
};

const qn_op_def qn_op_cholesky = {
    .name = "cholesky",
    .doc = "Cholesky factor of symmetric positive definite matrices, of which one triangle is read; NaN if they are "
           "not.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .attr_size = sizeof(qn_attr_triangle),
    .infer = cholesky_infer,
    .vjp = cholesky_vjp,
    .jvp = cholesky_jvp,
    .batch = qn_matrix_batch,
    .lower = cholesky_lower,
    .eval = cholesky_eval,
    .samples = cholesky_samples,
    .sample_count = 2,
};

qn_val qn_cholesky_at(qn_place at, qn_val a, bool lower) {
  qn_graph *g = qn_graph_common("cholesky", &a, 1, at);
  qn_attr_triangle attr = {.lower = lower};
  return g == NULL || qn_graph_failed(g) ? QN_NULL_VAL : qn_graph_add(g, QN_OP_CHOLESKY, &a, 1, &attr, NULL, 0, at);
}

/* ---- triangular_solve ---- */
static qn_status solve_infer(qn_infer *c) {
  const qn_attr_solve *a = c->attr;
  QN_TRY(qn_check_count(c, 2, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  QN_TRY(qn_check_matrix(c, 0, true));
  QN_TRY(qn_check_matrix(c, 1, false));
  QN_TRY(qn_check_batch(c, 1, 2));
  const qn_type *x = &c->operands[0], *b = &c->operands[1];
  int axis = b->rank - (a->left_side ? 2 : 1);
  if (b->dims[axis] != qn_matrix_rows(x))
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected size %lld at axis %d as operand 0, %s", c->name,
                  qn_type_str(b), (long long)qn_matrix_rows(x), axis, qn_type_str(x));
  if (a->transpose_a < 0 || a->transpose_a > 2)
    return QN_ERR(QN_INVALID, "%s: transpose_a is %d, expected 0 (none), 1 (transpose) or 2 (adjoint)", c->name,
                  (int)a->transpose_a);
  c->out_types[0] = *b;
  return QN_OK;
}

static qn_val solve_again(const qn_rule *r, qn_val b, bool transposed) {
  const qn_attr_solve *a = r->attr;
  bool t = (a->transpose_a != 0) != transposed;
  return qn_matrix_solve(r->in[0], b, a->left_side, a->lower, t, a->unit_diagonal);
}

/* dx = a^-1 (db - da x), from the other side likewise; of da only what is read of a. */
static void solve_jvp(qn_rule *r, qn_val *out) {
  const qn_attr_solve *a = r->attr;
  qn_val b = r->given[1], da = qn_matrix_tri(r->given[0], a->lower, a->unit_diagonal);
  if (qn_val_ok(da)) {
    da = a->transpose_a ? qn_matrix_t(da) : da;
    qn_val x = qn_neg(a->left_side ? qn_matrix_mul(da, r->out[0]) : qn_matrix_mul(r->out[0], da));
    b = qn_matrix_plus(b, x);
  }
  out[0] = solve_again(r, b, false);
}

static void solve_vjp(qn_rule *r, qn_val *out) {
  const qn_attr_solve *a = r->attr;
  qn_val b = solve_again(r, r->given[0], true), x = r->out[0];
  if (r->wanted[1])
    out[1] = b;
  if (!r->wanted[0])
    return;
  qn_val da = a->left_side ? qn_matrix_mul(b, qn_matrix_t(x)) : qn_matrix_mul(qn_matrix_t(x), b);
  da = a->transpose_a ? qn_matrix_t(da) : da;
  out[0] = qn_matrix_tri(qn_neg(da), a->lower, a->unit_diagonal);
}

/* Solved from the left, in halves where it is large: the half that depends on nothing first, then the other less what the first adds. */
static bool solve_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  const qn_attr_solve *at = r->attr;
  bool t = at->transpose_a != 0, unit = at->unit_diagonal, lower = at->lower;
  qn_val a = r->in[0], b = r->in[1];
  if (!at->left_side) {
    out[0] = qn_matrix_t(qn_matrix_solve(a, qn_matrix_t(b), true, lower, !t, unit));
    return true;
  }
  int64_t n = qn_matrix_rows(qn_val_type(a)), k = qn_matrix_columns(qn_val_type(b)), h = half_of(n);
  if (n <= WHOLE)
    return false;
  bool down = lower != t; /* the upper half first */
  qn_val a0 = qn_matrix_part(a, 0, h, 0, h), a1 = qn_matrix_part(a, h, n - h, h, n - h);
  qn_val cross = lower ? qn_matrix_part(a, h, n - h, 0, h) : qn_matrix_part(a, 0, h, h, n - h);
  cross = t ? qn_matrix_t(cross) : cross;
  qn_val b0 = qn_matrix_part(b, 0, h, 0, k), b1 = qn_matrix_part(b, h, n - h, 0, k);
  qn_val first = qn_matrix_solve(down ? a0 : a1, down ? b0 : b1, true, lower, t, unit);
  qn_val rest = qn_sub(down ? b1 : b0, qn_matrix_mul(cross, first));
  qn_val second = qn_matrix_solve(down ? a1 : a0, rest, true, lower, t, unit);
  out[0] = qn_matrix_stack(down ? first : second, down ? second : first, true);
  return true;
}

/* x[i] of op(a) x = b, for one column given by its stride. */
static void solve_one(const double *a, double *x, int64_t n, int64_t stride, bool upper, bool transposed, bool unit) {
  bool back = upper != transposed;
  for (int64_t q = 0; q < n; q++) {
    int64_t i = back ? n - 1 - q : q;
    double s = x[i * stride];
    for (int64_t j = back ? i + 1 : 0; j < (back ? n : i); j++)
      s -= (transposed ? a[j * n + i] : a[i * n + j]) * x[j * stride];
    x[i * stride] = unit ? s : s / a[i * n + i];
  }
}

static qn_status solve_eval(const qn_ref_call *c) {
  const qn_attr_solve *at = c->attr;
  int64_t n = qn_matrix_rows(c->in_types[0]), count = qn_matrix_count(c->in_types[0]);
  int64_t rows = qn_matrix_rows(c->in_types[1]), columns = qn_matrix_columns(c->in_types[1]);
  double *a = qn_matrix_load(c, 0), *x = qn_matrix_load(c, 1);
  bool ok = a && x, t = at->transpose_a != 0;
  for (int64_t i = 0; ok && i < count; i++)
    for (int64_t k = 0; k < (at->left_side ? columns : rows); k++) {
      double *first = x + i * rows * columns + (at->left_side ? k : k * columns);
      solve_one(a + i * n * n, first, n, at->left_side ? columns : 1, !at->lower, at->left_side ? t : !t,
                at->unit_diagonal);
    }
  free(a);
  qn_matrix_store(c, 0, x);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "triangular_solve: out of memory");
}

static const qn_attr_solve solve_plain = {.left_side = true, .lower = true},
                           solve_other = {.left_side = false, .lower = false, .transpose_a = 1},
                           solve_unit = {.left_side = true, .unit_diagonal = true, .transpose_a = 2};
static const qn_sample solve_samples[] = {
    {.ranks = {2, 2}, .dims = {{3, 3}, {3, 4}}, .lo = 1, .hi = 2, .tol = 1e-5, .attr = &solve_plain},
    {.ranks = {3, 3}, .dims = {{2, 3, 3}, {2, 2, 3}}, .lo = 1, .hi = 2, .tol = 1e-5, .attr = &solve_other},
    {.ranks = {2, 2}, .dims = {{3, 3}, {3, 1}}, .lo = -1, .hi = 1, .tol = 1e-5, .attr = &solve_unit},
};

const qn_op_def qn_op_triangular_solve = {
    .name = "triangular_solve",
    .doc = "Solves op(a) x = b or x op(a) = b for triangular matrices; only the named triangle is read.",
    .arity = 2,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .attr_size = sizeof(qn_attr_solve),
    .infer = solve_infer,
    .vjp = solve_vjp,
    .jvp = solve_jvp,
    .batch = qn_matrix_batch,
    .lower = solve_lower,
    .eval = solve_eval,
    .samples = solve_samples,
    .sample_count = 3,
};

qn_val qn_triangular_solve_at(qn_place at, qn_val a, qn_val b, const qn_attr_solve *attr) {
  const qn_val in[] = {a, b};
  qn_graph *g = qn_graph_common("triangular_solve", in, 2, at);
  return g == NULL || qn_graph_failed(g) ? QN_NULL_VAL
                                         : qn_graph_add(g, QN_OP_TRIANGULAR_SOLVE, in, 2, attr, NULL, 0, at);
}
