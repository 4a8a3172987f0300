/* QR by Householder reflections: LAPACK's packed form, the product of the reflections, and the two as one operation with a derivative. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer.h"
#include "linalg_matrix.h"
#include "move_shape.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static qn_val one_node(const char *name, qn_op op, qn_val a, qn_place at) {
  qn_graph *g = qn_graph_common(name, &a, 1, at);
  return g == NULL || qn_graph_failed(g) ? QN_NULL_VAL : qn_graph_add(g, op, &a, 1, NULL, NULL, 0, at);
}

/* ---- geqrf ---- */
static qn_status geqrf_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, false));
  qn_type a = c->operands[0];
  c->result_count = 2;
  c->out_types[1] = qn_vector_type(&a, smaller(qn_matrix_rows(&a), qn_matrix_columns(&a)), a.dtype);
  c->out_types[0] = a;
  return QN_OK;
}

/* The reference takes each column through all reflections before it, then makes its own. */
static void geqrf_one(double *a, double *taus, int64_t m, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t p = 0; p < smaller(j, m); p++) {
      double w = a[p * n + j];
      for (int64_t i = p + 1; i < m; i++)
        w += a[i * n + p] * a[i * n + j];
      a[p * n + j] -= w * taus[p];
      for (int64_t i = p + 1; i < m; i++)
        a[i * n + j] -= w * taus[p] * a[i * n + p];
    }
    if (j >= m)
      continue;
    double norm = 0, alpha = a[j * n + j];
    for (int64_t i = j + 1; i < m; i++)
      norm = hypot(norm, a[i * n + j]);
    taus[j] = 0;
    if (norm == 0)
      continue;
    double beta = alpha >= 0 ? -hypot(alpha, norm) : hypot(alpha, norm);
    taus[j] = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < m; i++)
      a[i * n + j] /= alpha - beta;
    a[j * n + j] = beta;
  }
}

static qn_status geqrf_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), count = qn_matrix_count(t);
  double *a = qn_matrix_load(c, 0), *taus = qn_matrix_room(c, 1);
  bool ok = a && taus;
  for (int64_t i = 0; ok && i < count; i++)
    geqrf_one(a + i * m * n, taus + i * smaller(m, n), m, n);
  qn_matrix_store(c, 0, a);
  qn_matrix_store(c, 1, taus);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.geqrf: out of memory");
}

static const qn_sample tall_samples[] = {
    {.ranks = {2}, .dims = {{4, 3}}, .lo = -2, .hi = 2, .tol = 1e-5},
    {.ranks = {3}, .dims = {{2, 3, 3}}, .lo = -2, .hi = 2, .tol = 1e-5},
};

const qn_op_def qn_op_geqrf = {
    .name = "quern.geqrf",
    .doc = "Householder QR of matrices as LAPACK packs it: R, the reflections below it, and their factors tau.",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = geqrf_infer,
    .vjp = qn_matrix_refuse,
    .jvp = qn_matrix_refuse,
    .batch = qn_matrix_batch,
    .lower = qn_matrix_widen,
    .eval = geqrf_eval,
    .samples = tall_samples,
    .sample_count = 2,
};

qn_packed_qr qn_geqrf_at(qn_place at, qn_val a) {
  qn_val x = one_node("quern.geqrf", QN_OP_GEQRF, a, at);
  return (qn_packed_qr){x, qn_val_ok(x) ? qn_val_result(x, 1) : x};
}

/* ---- the product of the reflections ---- */
static qn_status product_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  QN_TRY(qn_check_matrix(c, 0, false));
  QN_TRY(qn_check_batch(c, 1, 1));
  const qn_type *a = &c->operands[0], *taus = &c->operands[1];
  int64_t m = qn_matrix_rows(a), n = qn_matrix_columns(a), k = taus->dims[taus->rank - 1];
  if (m < n || k > n)
    return QN_ERR(QN_INVALID,
                  "%s: operands are %s and %s, expected no more columns than rows and no more factors than columns",
                  c->name, qn_type_str(a), qn_type_str(taus));
  c->out_types[0] = *a;
  return QN_OK;
}

/* The reference multiplies from the left: rows of q go through the reflections from the first to the last. */
static void product_one(const double *a, const double *taus, double *q, double *row, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < m; j++)
      row[j] = i == j;
    for (int64_t p = 0; p < k; p++) {
      double w = row[p];
      for (int64_t j = p + 1; j < m; j++)
        w += row[j] * a[j * n + p];
      row[p] -= w * taus[p];
      for (int64_t j = p + 1; j < m; j++)
        row[j] -= w * taus[p] * a[j * n + p];
    }
    memcpy(q + i * n, row, (size_t)n * sizeof *row);
  }
}

static qn_status product_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), count = qn_matrix_count(t);
  int64_t k = c->in_types[1]->dims[c->in_types[1]->rank - 1];
  double *a = qn_matrix_load(c, 0), *taus = qn_matrix_load(c, 1), *q = qn_matrix_room(c, 0);
  double *row = malloc(((size_t)m + 1) * sizeof *row);
  bool ok = a && taus && q && row;
  for (int64_t i = 0; ok && i < count; i++)
    product_one(a + i * m * n, taus + i * k, q + i * m * n, row, m, n, k);
  free(a);
  free(taus);
  free(row);
  qn_matrix_store(c, 0, q);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.householder_product: out of memory");
}

static const qn_sample product_samples[] = {
    {.ranks = {2, 1}, .dims = {{4, 3}, {3}}, .lo = -2, .hi = 2, .tol = 1e-5},
    {.ranks = {3, 2}, .dims = {{2, 3, 3}, {2, 2}}, .lo = -2, .hi = 2, .tol = 1e-5},
};

const qn_op_def qn_op_householder_product = {
    .name = "quern.householder_product",
    .doc = "The first columns of the product of reflections that are packed below the diagonal of matrices.",
    .arity = 2,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = product_infer,
    .vjp = qn_matrix_refuse,
    .jvp = qn_matrix_refuse,
    .batch = qn_matrix_batch,
    .lower = qn_matrix_widen,
    .eval = product_eval,
    .samples = product_samples,
    .sample_count = 2,
};

qn_val qn_householder_product_at(qn_place at, qn_val a, qn_val taus) {
  const qn_val in[] = {a, taus};
  qn_graph *g = qn_graph_common("quern.householder_product", in, 2, at);
  return g == NULL || qn_graph_failed(g) ? QN_NULL_VAL
                                         : qn_graph_add(g, QN_OP_HOUSEHOLDER_PRODUCT, in, 2, NULL, NULL, 0, at);
}

/* ---- qr ---- */
static qn_status qr_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_matrix(c, 0, false));
  qn_type a = c->operands[0];
  int64_t m = qn_matrix_rows(&a), n = qn_matrix_columns(&a), k = smaller(m, n);
  c->result_count = 2;
  c->out_types[0] = qn_matrix_type(&a, m, k);
  c->out_types[1] = qn_matrix_type(&a, k, n);
  return QN_OK;
}

static bool is_wide(qn_rule *r) {
  const qn_type *t = qn_val_type(r->in[0]);
  if (qn_matrix_rows(t) >= qn_matrix_columns(t))
    return false;
  (void)qn_graph_fail(r->g, r->node->place, QN_UNSUPPORTED,
                      "quern.qr: no derivative for %s, which has more columns than rows", qn_type_str(t));
  return true;
}

/* With d = da R^-1, m = Q' d and o = tril(m, -1) - tril(m, -1)', which is skew: dQ = Q (o - m) + d, dR = (m - o) R. */
static void qr_jvp(qn_rule *r, qn_val *out) {
  if (is_wide(r))
    return;
  qn_val q = r->out[0], rr = r->out[1];
  qn_val d = qn_matrix_solve(rr, r->given[0], false, false, false, false), m = qn_matrix_mul(qn_matrix_t(q), d);
  qn_val low = qn_matrix_tri(m, true, 1), e = qn_sub(qn_sub(low, qn_matrix_t(low)), m);
  out[0] = qn_add(qn_matrix_mul(q, e), d);
  out[1] = qn_neg(qn_matrix_mul(e, rr));
}

static void qr_vjp(qn_rule *r, qn_val *out) {
  if (is_wide(r))
    return;
  qn_val q = r->out[0], rr = r->out[1], cr = r->given[1];
  qn_val e = qn_matrix_mul(qn_matrix_t(q), r->given[0]);
  if (qn_val_ok(cr))
    e = qn_matrix_plus(e, qn_neg(qn_matrix_mul(cr, qn_matrix_t(rr))));
  if (!qn_val_ok(e))
    return;
  qn_val m = qn_sub(qn_matrix_tri(qn_sub(e, qn_matrix_t(e)), true, 1), e);
  qn_val d = qn_matrix_plus(qn_matrix_mul(q, m), r->given[0]);
  out[0] = qn_matrix_solve(rr, d, false, false, true, false);
}

static bool qr_lower(qn_rule *r, qn_val *out) {
  if (qn_matrix_widen(r, out))
    return true;
  qn_type t = *qn_val_type(r->in[0]);
  int64_t m = qn_matrix_rows(&t), n = qn_matrix_columns(&t), k = smaller(m, n);
  qn_packed_qr packed = qn_geqrf(r->in[0]);
  out[0] = qn_householder_product(qn_matrix_part(packed.a, 0, m, 0, k), packed.taus);
  out[1] = qn_matrix_tri(qn_matrix_part(packed.a, 0, k, 0, n), false, 0);
  return true;
}

static qn_status qr_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), k = smaller(m, n), count = qn_matrix_count(t);
  double *a = qn_matrix_load(c, 0), *q = qn_matrix_room(c, 0), *rr = qn_matrix_room(c, 1);
  double *room = calloc((size_t)(k + m + m * k) + 1, sizeof *room), *taus = room, *row = room ? room + k : NULL;
  bool ok = a && q && rr && room;
  for (int64_t b = 0; ok && b < count; b++) {
    double *x = a + b * m * n, *left = row + m;
    geqrf_one(x, taus, m, n);
    for (int64_t i = 0; i < m; i++)
      memcpy(left + i * k, x + i * n, (size_t)k * sizeof *x);
    product_one(left, taus, q + b * m * k, row, m, k, k);
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = i; j < n; j++)
        rr[(b * k + i) * n + j] = x[i * n + j];
  }
  free(a);
  free(room);
  qn_matrix_store(c, 0, q);
  qn_matrix_store(c, 1, rr);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "quern.qr: out of memory");
}

const qn_op_def qn_op_qr = {
    .name = "quern.qr",
    .doc = "Orthonormal columns times an upper triangle, by Householder reflections (signs as LAPACK's).",
    .arity = 1,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = qr_infer,
    .vjp = qr_vjp,
    .jvp = qr_jvp,
    .batch = qn_matrix_batch,
    .lower = qr_lower,
    .eval = qr_eval,
    .samples = tall_samples,
    .sample_count = 2,
};

qn_qr qn_qr_at(qn_place at, qn_val a) {
  qn_val x = one_node("quern.qr", QN_OP_QR, a, at);
  return (qn_qr){x, qn_val_ok(x) ? qn_val_result(x, 1) : x};
}
