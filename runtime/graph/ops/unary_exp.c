/* Exponentials, logarithms and hyperbolic functions. Partials use the result where that is cheaper, as the golden records do. */
#include <math.h>

#include "ref_complex.h"
#include "ref_special.h"
#include "rows.h"

static qn_val one(qn_val v) { return qn_like(v, 1); }

static qn_val exp_partial(qn_rule *r, int i) {
  (void)i;
  return r->out[0];
}
static double exp_ref(const double *x) { return exp(x[0]); }
const qn_op_def qn_op_exponential = {
    .name = "exponential",
    .doc = "e to the power of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = exp_partial,
    .expand = qn_expand_exp,
    .ref = exp_ref,
    .ref_c = qn_refc_exp,
    QN_ROW_SAMPLE1(-5, 5, QN_TOL_2ULP),
};

static qn_val expm1_partial(qn_rule *r, int i) {
  (void)i;
  return qn_add(r->out[0], one(r->out[0]));
}
static double expm1_ref(const double *x) { return expm1(x[0]); }
const qn_op_def qn_op_exponential_minus_one = {
    .name = "exponential_minus_one",
    .doc = "e to the power of each element, minus one, exact near zero.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = expm1_partial,
    .expand = qn_expand_expm1,
    .ref = expm1_ref,
    .ref_c = qn_refc_expm1,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_2ULP),
};

static qn_val log_partial(qn_rule *r, int i) { return qn_div(one(r->in[i]), r->in[i]); }
static double log_ref(const double *x) { return log(x[0]); }
const qn_op_def qn_op_log = {
    .name = "log",
    .doc = "Natural logarithm of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = log_partial,
    .expand = qn_expand_log,
    .ref = log_ref,
    .ref_c = qn_refc_log,
    QN_ROW_SAMPLE1(0.1, 9, QN_TOL_2ULP),
};

static qn_val log1p_partial(qn_rule *r, int i) { return qn_div(one(r->in[i]), qn_add(one(r->in[i]), r->in[i])); }
static double log1p_ref(const double *x) { return log1p(x[0]); }
const qn_op_def qn_op_log_plus_one = {
    .name = "log_plus_one",
    .doc = "Natural logarithm of one plus each element, exact near zero.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = log1p_partial,
    .expand = qn_expand_log1p,
    .ref = log1p_ref,
    .ref_c = qn_refc_log1p,
    QN_ROW_SAMPLE1(-0.9, 5, QN_TOL_2ULP),
};

static qn_val logistic_partial(qn_rule *r, int i) {
  (void)i;
  return qn_mul(r->out[0], qn_sub(one(r->out[0]), r->out[0]));
}
static double logistic_ref(const double *x) { return qn_ref_logistic(x[0]); }
const qn_op_def qn_op_logistic = {
    .name = "logistic",
    .doc = "1 / (1 + e^-x) of each element x.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = logistic_partial,
    .expand = qn_expand_logistic,
    .ref = logistic_ref,
    .ref_c = qn_refc_logistic,
    QN_ROW_SAMPLE1(-6, 6, QN_TOL_2ULP),
};

static qn_val tanh_partial(qn_rule *r, int i) {
  (void)i;
  return qn_mul(qn_add(one(r->out[0]), r->out[0]), qn_sub(one(r->out[0]), r->out[0]));
}
static double tanh_ref(const double *x) { return tanh(x[0]); }
const qn_op_def qn_op_tanh = {
    .name = "tanh",
    .doc = "Hyperbolic tangent of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = tanh_partial,
    .expand = qn_expand_tanh,
    .ref = tanh_ref,
    .ref_c = qn_refc_tanh,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_2ULP),
};

static qn_val sinh_partial(qn_rule *r, int i) { return qn_cosh(r->in[i]); }
static double sinh_ref(const double *x) { return sinh(x[0]); }
const qn_op_def qn_op_sinh = {
    .name = "chlo.sinh",
    .doc = "Hyperbolic sine of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = sinh_partial,
    .expand = qn_expand_sinh,
    .ref = sinh_ref,
    .ref_c = qn_refc_sinh,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_4ULP),
};

static qn_val cosh_partial(qn_rule *r, int i) { return qn_sinh(r->in[i]); }
static double cosh_ref(const double *x) { return cosh(x[0]); }
const qn_op_def qn_op_cosh = {
    .name = "chlo.cosh",
    .doc = "Hyperbolic cosine of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = cosh_partial,
    .expand = qn_expand_cosh,
    .ref = cosh_ref,
    .ref_c = qn_refc_cosh,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_4ULP),
};

static qn_val asinh_partial(qn_rule *r, int i) { return qn_rsqrt(qn_add(qn_square(r->in[i]), one(r->in[i]))); }
static double asinh_ref(const double *x) { return asinh(x[0]); }
const qn_op_def qn_op_asinh = {
    .name = "chlo.asinh",
    .doc = "Inverse hyperbolic sine of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = asinh_partial,
    .expand = qn_expand_asinh,
    .ref = asinh_ref,
    .ref_c = qn_refc_asinh,
    QN_ROW_SAMPLE1(-5, 5, QN_TOL_4ULP),
};

static qn_val acosh_partial(qn_rule *r, int i) {
  qn_val x = r->in[i];
  if (qn_dtype_is_complex(qn_val_type(x)->dtype)) /* the root of the product is another one in the left half plane */
    return qn_mul(qn_rsqrt(qn_sub(x, one(x))), qn_rsqrt(qn_add(x, one(x))));
  return qn_rsqrt(qn_mul(qn_sub(x, one(x)), qn_add(x, one(x))));
}
static double acosh_ref(const double *x) { return acosh(x[0]); }
const qn_op_def qn_op_acosh = {
    .name = "chlo.acosh",
    .doc = "Inverse hyperbolic cosine of each element; NaN for real ones below one.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = acosh_partial,
    .expand = qn_expand_acosh,
    .ref = acosh_ref,
    .ref_c = qn_refc_acosh,
    QN_ROW_SAMPLE1(1.5, 9, QN_TOL_4ULP),
};

static qn_val atanh_partial(qn_rule *r, int i) {
  qn_val x = r->in[i];
  return qn_div(one(x), qn_mul(qn_add(one(x), x), qn_sub(one(x), x)));
}
static double atanh_ref(const double *x) { return atanh(x[0]); }
const qn_op_def qn_op_atanh = {
    .name = "chlo.atanh",
    .doc = "Inverse hyperbolic tangent of each element; NaN for real ones beyond -1 and 1.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = atanh_partial,
    .expand = qn_expand_atanh,
    .ref = atanh_ref,
    .ref_c = qn_refc_atanh,
    QN_ROW_SAMPLE1(-0.9, 0.9, QN_TOL_4ULP),
};
