/* Sweeps of Jacobi rotations: what eigenvalues and singular values are made of in front of scheduling. A sweep is an operation of its own, so that
 * no kernel runs for longer than one takes. */
#include <math.h>
#include <stdlib.h>

#include "infer.h"
#include "linalg_matrix.h"
#include "move_shape.h"

static qn_status sweep_infer(qn_infer *c) {
  bool square = c->op == QN_OP_JACOBI;
  QN_TRY(qn_check_count(c, 2, 0));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_FLOAT));
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  QN_TRY(qn_check_matrix(c, 0, square));
  QN_TRY(qn_check_matrix(c, 1, true));
  QN_TRY(qn_check_batch(c, 1, 2));
  qn_type a = c->operands[0], v = c->operands[1];
  if (qn_matrix_columns(&a) != qn_matrix_rows(&v))
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected as many rows as operand 0, %s, has columns", c->name,
                  qn_type_str(&v), qn_type_str(&a));
  c->result_count = 2;
  c->out_types[0] = a;
  c->out_types[1] = v;
  return QN_OK;
}

/* Columns (step 1) or rows of a matrix at p and q, `stride` apart from entry to entry, turned by an angle. */
static void turn(double *p, double *q, int64_t n, int64_t stride, double c, double s) {
  for (int64_t i = 0; i < n; i++) {
    double x = p[i * stride], y = q[i * stride];
    p[i * stride] = c * x - s * y;
    q[i * stride] = s * x + c * y;
  }
}

/* The smaller angle for which [p r; r q] becomes diagonal. */
static double angle_of(double p, double q, double r) {
  double angle = atan2(2 * r, q - p) / 2, quarter = atan(1.0);
  return angle > quarter ? angle - 2 * quarter : angle < -quarter ? angle + 2 * quarter : angle;
}

static void sweep_square(double *d, double *v, int64_t n, double eps) {
  double most = 0;
  for (int64_t i = 0; i < n * n; i++)
    most = fmax(most, fabs(d[i]));
  for (int64_t p = 0; p < n; p++)
    for (int64_t q = p + 1; q < n; q++) {
      if (!(fabs(d[p * n + q]) > most * eps / 4))
        continue;
      double angle = angle_of(d[p * n + p], d[q * n + q], d[p * n + q]), c = cos(angle), s = sin(angle);
      turn(d + p, d + q, n, n, c, s);
      turn(d + p * n, d + q * n, n, 1, c, s);
      turn(v + p, v + q, n, n, c, s);
      d[p * n + q] = d[q * n + p] = 0;
    }
}

static void sweep_columns(double *u, double *vt, int64_t m, int64_t n, double eps) {
  for (int64_t p = 0; p < n; p++)
    for (int64_t q = p + 1; q < n; q++) {
      double pp = 0, qq = 0, pq = 0;
      for (int64_t i = 0; i < m; i++) {
        pp += u[i * n + p] * u[i * n + p];
        qq += u[i * n + q] * u[i * n + q];
        pq += u[i * n + p] * u[i * n + q];
      }
      if (!(fabs(pq) > sqrt(pp) * sqrt(qq) * sqrt((double)m) * eps / 2))
        continue;
      double angle = angle_of(pp, qq, pq), c = cos(angle), s = sin(angle);
      turn(u + p, u + q, m, n, c, s);
      turn(vt + p * n, vt + q * n, n, 1, c, s);
    }
}

static qn_status sweep_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0];
  int64_t m = qn_matrix_rows(t), n = qn_matrix_columns(t), count = qn_matrix_count(t);
  double *a = qn_matrix_load(c, 0), *v = qn_matrix_load(c, 1), eps = t->dtype == QN_F64 ? 0x1p-52 : 0x1p-23;
  bool ok = a && v;
  for (int64_t i = 0; ok && i < count; i++) {
    if (c->node->op == QN_OP_JACOBI)
      sweep_square(a + i * n * n, v + i * n * n, n, eps);
    else
      sweep_columns(a + i * m * n, v + i * n * n, m, n, eps);
  }
  qn_matrix_store(c, 0, a);
  qn_matrix_store(c, 1, v);
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "%s: out of memory", qn_op_get(c->node->op)->name);
}

static const qn_sample square_samples[] = {
    {.ranks = {2, 2}, .dims = {{4, 4}, {4, 4}}, .lo = -2, .hi = 2, .tol = 1e-4},
};
static const qn_sample column_samples[] = {
    {.ranks = {2, 2}, .dims = {{5, 3}, {3, 3}}, .lo = -2, .hi = 2, .tol = 1e-4},
};

const qn_op_def qn_op_jacobi = {
    .name = "quern.jacobi",
    .doc = "One sweep of rotations that make a symmetric matrix diagonal, and the columns of another turned with it.",
    .arity = 2,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = sweep_infer,
    .vjp = qn_matrix_refuse,
    .jvp = qn_matrix_refuse,
    .batch = qn_matrix_batch,
    .lower = qn_matrix_widen,
    .eval = sweep_eval,
    .samples = square_samples,
    .sample_count = 1,
};

const qn_op_def qn_op_jacobi_columns = {
    .name = "quern.jacobi_columns",
    .doc = "One sweep of rotations that make the columns of a matrix orthogonal, and the rows of another turned with "
           "them.",
    .arity = 2,
    .kind = QN_KIND_MATRIX,
    .dtypes = QN_D_FLOAT,
    .infer = sweep_infer,
    .vjp = qn_matrix_refuse,
    .jvp = qn_matrix_refuse,
    .batch = qn_matrix_batch,
    .lower = qn_matrix_widen,
    .eval = sweep_eval,
    .samples = column_samples,
    .sample_count = 1,
};
