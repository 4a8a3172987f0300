/* Distributions that are a function of uniform numbers, element by element, with the formulas of jax.random. */
#include <math.h>

#include "random_parts.h"

static qn_val uniform(qn_place at, qn_val key, qn_type type, double lo, double hi) {
  return qn_random_uniform_at(at, key, type, lo, hi);
}

qn_val qn_random_truncated_normal_at(qn_place at, qn_val key, qn_type type, double lower, double upper) {
  if (!qn_random_float("random_truncated_normal", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = uniform(at, key, type, erf(lower / sqrt(2)), erf(upper / sqrt(2)));
  if (!qn_val_ok(u))
    return u;
  qn_val y = qn_multiply_at(at, qn_like_at(at, u, sqrt(2)), qn_erf_inv_at(at, u));
  qn_val least = qn_next_after_at(at, qn_like_at(at, u, lower), qn_like_at(at, u, INFINITY));
  qn_val most = qn_next_after_at(at, qn_like_at(at, u, upper), qn_like_at(at, u, -INFINITY));
  return qn_clamp_at(at, least, y, most);
}

qn_val qn_random_exponential_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_exponential", at, key, &type))
    return QN_NULL_VAL;
  return qn_negate_at(at, qn_log_plus_one_at(at, qn_negate_at(at, uniform(at, key, type, 0, 1))));
}

qn_val qn_random_gumbel_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_gumbel", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = uniform(at, key, type, qn_float_form_of(type.dtype).tiny, 1);
  return qn_negate_at(at, qn_log_at(at, qn_negate_at(at, qn_log_at(at, u))));
}

qn_val qn_random_laplace_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_laplace", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = uniform(at, key, type, -qn_float_form_of(type.dtype).below_one, 1);
  return qn_multiply_at(at, qn_sign_at(at, u), qn_log_plus_one_at(at, qn_negate_at(at, qn_abs_at(at, u))));
}

qn_val qn_random_logistic_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_logistic", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = uniform(at, key, type, qn_float_form_of(type.dtype).tiny, 1);
  return qn_subtract_at(at, qn_log_at(at, u), qn_log_plus_one_at(at, qn_negate_at(at, u)));
}

qn_val qn_random_cauchy_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_cauchy", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = uniform(at, key, type, qn_float_form_of(type.dtype).epsilon, 1);
  if (!qn_val_ok(u))
    return u;
  qn_val turn = qn_subtract_at(at, u, qn_like_at(at, u, 0.5));
  return qn_tan_at(at, qn_multiply_at(at, qn_like_at(at, u, 3.14159265358979323846), turn));
}

qn_val qn_random_rademacher_at(qn_place at, qn_val key, qn_type type) {
  qn_graph *g = qn_graph_common("random_rademacher", &key, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  if (!qn_dtype_is_float(type.dtype) && !qn_dtype_is_int(type.dtype))
    return qn_graph_fail(g, at, QN_INVALID, "random_rademacher: asked for %s, expected integers or floats",
                         qn_type_str(&type));
  qn_val hit = qn_random_bernoulli_at(at, key, 0.5, type.rank, type.dims);
  if (!qn_val_ok(hit))
    return hit;
  qn_val x = qn_convert_at(at, hit, type.dtype);
  return qn_subtract_at(at, qn_multiply_at(at, x, qn_like_at(at, x, 2)), qn_like_at(at, x, 1));
}

qn_val qn_random_dropout_at(qn_place at, qn_val key, qn_val x, double keep) {
  const qn_val both[2] = {key, x};
  qn_graph *g = qn_graph_common("random_dropout", both, 2, at);
  if (g == NULL)
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(x);
  if (!qn_dtype_is_float(t->dtype) || !(keep > 0 && keep <= 1))
    return qn_graph_fail(g, at, QN_INVALID, "random_dropout: %s kept by %g, expected floats and 0 < keep <= 1",
                         qn_type_str(t), keep);
  qn_val mask = qn_random_bernoulli_at(at, key, keep, t->rank, t->dims);
  return qn_select_at(at, mask, qn_divide_at(at, x, qn_like_at(at, x, keep)), qn_like_at(at, x, 0));
}
