/* Random vectors and matrices by factorisations, and initial weights as jax.nn.initializers has them. */
#include <math.h>
#include <string.h>

#include "quern/linalg.h"
#include "random_parts.h"

/* mean + factor z, where factor factor' is the covariance. */
qn_val qn_random_multivariate_normal_at(qn_place at, qn_val key, qn_val mean, qn_val covariance, int rank,
                                        const int64_t *dims) {
  static const char name[] = "random_multivariate_normal";
  const qn_val all[3] = {key, mean, covariance};
  qn_graph *g = qn_graph_common(name, all, 3, at);
  if (g == NULL || !qn_random_rank(name, g, at, rank < 0 ? rank : rank + 2))
    return QN_NULL_VAL;
  qn_type m = *qn_val_type(mean), c = *qn_val_type(covariance);
  if (m.rank < 1 || c.rank < 2 || c.dims[c.rank - 1] != m.dims[m.rank - 1] ||
      c.dims[c.rank - 2] != m.dims[m.rank - 1] || c.dtype != m.dtype)
    return qn_graph_fail(g, at, QN_INVALID, "%s: mean is %s, covariance %s, expected [.., n] and [.., n, n]", name,
                         qn_type_str(&m), qn_type_str(&c));
  int64_t n = m.dims[m.rank - 1], full[QN_MAX_RANK + 1] = {0};
  qn_attr_dot d = {.lhs_contract = {1, {rank}}, .rhs_contract = {1, {1}}};
  for (int i = 0; i < rank; i++)
    full[i] = dims[i];
  full[rank] = full[rank + 1] = n;
  qn_val factor = qn_linalg_cholesky_at(at, covariance);
  qn_val z = qn_random_normal_at(at, key, qn_type_make(m.dtype, rank + 1, full)), y;
  if (c.rank == 2) {
    y = qn_dot_general_at(at, z, factor, &d, QN_DTYPE_NONE);
  } else {
    factor = qn_broadcast_to_at(at, factor, rank + 2, full);
    d.rhs_contract.d[0] = rank + 1;
    d.lhs_batch.n = d.rhs_batch.n = rank;
    for (int i = 0; i < rank; i++)
      d.lhs_batch.d[i] = d.rhs_batch.d[i] = i;
    y = qn_dot_general_at(at, z, factor, &d, QN_DTYPE_NONE);
  }
  return qn_add_at(at, mean, y);
}

/* Q of a matrix of normal numbers, its columns turned so that R has a positive diagonal. */
qn_val qn_random_orthogonal_at(qn_place at, qn_val key, qn_type type) {
  static const char name[] = "random_orthogonal";
  if (!qn_random_float(name, at, key, &type))
    return QN_NULL_VAL;
  if (type.rank < 2)
    return qn_graph_fail(key.graph, at, QN_INVALID, "%s: asked for %s, expected at least two axes", name,
                         qn_type_str(&type));
  int row = type.rank - 2, column = type.rank - 1;
  int64_t last = column, rows = type.dims[row], columns = type.dims[column], permutation[QN_MAX_RANK];
  bool flat = rows < columns;
  qn_type tall = type;
  tall.dims[row] = flat ? columns : rows;
  tall.dims[column] = flat ? rows : columns;
  qn_qr x = qn_qr_at(at, qn_random_normal_at(at, key, tall));
  if (!qn_val_ok(x.q) || !qn_val_ok(x.r))
    return QN_NULL_VAL;
  qn_type square = qn_type_of(QN_I32, 2, tall.dims[column], tall.dims[column]);
  qn_val eye = qn_compare_at(at, qn_iota_at(at, key.graph, square, 0), qn_iota_at(at, key.graph, square, 1), QN_CMP_EQ,
                             QN_CMP_DEFAULT);
  qn_val diagonal = qn_reduce_op_at(at, qn_select_at(at, eye, x.r, qn_like_at(at, x.r, 0)), QN_OP_ADD, 1, &last, false);
  qn_type signs = tall;
  signs.dims[row] = 1;
  qn_val q = qn_multiply_at(at, x.q, qn_reshape_at(at, qn_sign_at(at, diagonal), signs.rank, signs.dims));
  if (!flat)
    return q;
  for (int i = 0; i < type.rank; i++)
    permutation[i] = i == row ? column : i == column ? row : i;
  return qn_transpose_at(at, q, permutation);
}

/* ---- initial weights ---- */
static bool weights(const char *name, qn_place at, qn_val key, const qn_type *type, int axes) {
  if (!qn_random_float(name, at, key, type))
    return false;
  if (type->rank >= axes)
    return true;
  (void)qn_graph_fail(key.graph, at, QN_INVALID, "%s: asked for %s, expected at least %d axes", name, qn_type_str(type),
                      axes);
  return false;
}

qn_val qn_init_variance_scaling_at(qn_place at, qn_val key, qn_type type, double scale, qn_fan fan, qn_weights form) {
  static const char name[] = "init_variance_scaling";
  if (!weights(name, at, key, &type, 2))
    return QN_NULL_VAL;
  double field = 1;
  for (int i = 0; i + 2 < type.rank; i++)
    field *= (double)type.dims[i];
  double in = field * (double)type.dims[type.rank - 2], out = field * (double)type.dims[type.rank - 1];
  double inputs = fan == QN_FAN_IN ? in : fan == QN_FAN_OUT ? out : (in + out) / 2;
  if (!(scale > 0))
    return qn_graph_fail(key.graph, at, QN_INVALID, "%s: scale %g, expected more than 0", name, scale);
  double variance = inputs > 0 ? scale / inputs : 0, factor = sqrt(variance);
  qn_val x;
  if (form == QN_WEIGHTS_UNIFORM) {
    x = qn_random_uniform_at(at, key, type, -1, 1);
    factor = sqrt(3 * variance);
  } else if (form == QN_WEIGHTS_NORMAL) {
    x = qn_random_normal_at(at, key, type);
  } else { /* the standard deviation of what two standard deviations leave */
    x = qn_random_truncated_normal_at(at, key, type, -2, 2);
    factor /= 0.87962566103423978;
  }
  return qn_val_ok(x) ? qn_multiply_at(at, x, qn_like_at(at, x, factor)) : x;
}

qn_val qn_init_orthogonal_at(qn_place at, qn_val key, qn_type type, double scale) {
  if (!weights("init_orthogonal", at, key, &type, 2))
    return QN_NULL_VAL;
  int64_t rows = 1;
  for (int i = 0; i + 1 < type.rank; i++)
    rows *= type.dims[i];
  qn_val q = qn_random_orthogonal_at(at, key, qn_type_of(type.dtype, 2, rows, type.dims[type.rank - 1]));
  if (!qn_val_ok(q))
    return q;
  return qn_multiply_at(at, qn_reshape_at(at, q, type.rank, type.dims), qn_like_at(at, q, scale));
}

qn_val qn_init_delta_orthogonal_at(qn_place at, qn_val key, qn_type type, double scale) {
  static const char name[] = "init_delta_orthogonal";
  if (!weights(name, at, key, &type, 3))
    return QN_NULL_VAL;
  int64_t in = type.dims[type.rank - 2], out = type.dims[type.rank - 1];
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
  if (in > out)
    return qn_graph_fail(key.graph, at, QN_INVALID, "%s: %lld inputs, expected no more than the outputs, %lld", name,
                         (long long)in, (long long)out);
  qn_type middle = type;
  for (int i = 0; i + 2 < type.rank; i++) {
    if (type.dims[i] < 1)
      return qn_full_at(at, key.graph, type, 0);
    middle.dims[i] = 1;
    low[i] = (type.dims[i] - 1) / 2;
    high[i] = type.dims[i] - 1 - low[i];
  }
  qn_val q = qn_init_orthogonal_at(at, key, qn_type_of(type.dtype, 2, in, out), scale);
  if (!qn_val_ok(q))
    return q;
  q = qn_reshape_at(at, q, middle.rank, middle.dims);
  return qn_pad_at(at, q, qn_like_at(at, q, 0), low, high, NULL);
}
