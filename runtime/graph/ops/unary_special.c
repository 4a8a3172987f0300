/* Special functions: error function, gamma's logarithm and its derivatives, Bessel. */
#include <math.h>

#include "ref_special.h"
#include "rows.h"

static const double two_over_sqrt_pi = 1.12837916709551257390;
static const double half_sqrt_pi = 0.88622692545275801365;

/* e^(-x*x) of the operand, times `factor`. */
static qn_val gaussian(qn_val x, double factor) { return qn_mul(qn_like(x, factor), qn_exp(qn_neg(qn_square(x)))); }

static qn_val erf_partial(qn_rule *r, int i) { return gaussian(r->in[i], two_over_sqrt_pi); }
static double erf_ref(const double *x) { return erf(x[0]); }
const qn_op_def qn_op_erf = {
    .name = "chlo.erf",
    .doc = "Error function of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = erf_partial,
    .expand = qn_expand_erf,
    .ref = erf_ref,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_4ULP),
};

static qn_val erfc_partial(qn_rule *r, int i) { return gaussian(r->in[i], -two_over_sqrt_pi); }
static double erfc_ref(const double *x) { return erfc(x[0]); }
const qn_op_def qn_op_erfc = {
    .name = "chlo.erfc",
    .doc = "One minus the error function of each element, exact where that is small.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = erfc_partial,
    .expand = qn_expand_erfc,
    .ref = erfc_ref,
    QN_ROW_SAMPLE1(-3, 3, QN_TOL_4ULP),
};

static qn_val erf_inv_partial(qn_rule *r, int i) {
  (void)i;
  return qn_mul(qn_like(r->out[0], half_sqrt_pi), qn_exp(qn_square(r->out[0])));
}
static double erf_inv_ref(const double *x) { return qn_ref_erf_inv(x[0]); }
const qn_op_def qn_op_erf_inv = {
    .name = "chlo.erf_inv",
    .doc = "The value whose error function is each element; infinite at -1 and 1, NaN beyond.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = erf_inv_partial,
    .expand = qn_expand_erf_inv,
    .ref = erf_inv_ref,
    QN_ROW_SAMPLE1(-0.95, 0.95, QN_TOL_4ULP),
};

static qn_val lgamma_partial(qn_rule *r, int i) { return qn_digamma(r->in[i]); }
static double lgamma_ref(const double *x) { return lgamma(x[0]); }
const qn_op_def qn_op_lgamma = {
    .name = "chlo.lgamma",
    .doc = "Logarithm of the absolute value of the gamma function of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = lgamma_partial,
    .expand = qn_expand_lgamma,
    .ref = lgamma_ref,
    QN_ROW_SAMPLE1(2.5, 20, QN_TOL_4ULP),
};

static qn_val digamma_partial(qn_rule *r, int i) { return qn_polygamma(qn_like(r->in[i], 1), r->in[i]); }
static double digamma_ref(const double *x) { return qn_ref_digamma(x[0]); }
const qn_op_def qn_op_digamma = {
    .name = "chlo.digamma",
    .doc = "Derivative of lgamma at each element; NaN at zero and the negative integers.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = digamma_partial,
    .expand = qn_expand_digamma,
    .ref = digamma_ref,
    QN_ROW_SAMPLE1(2, 20, QN_TOL_4ULP),
};

/* Chebyshev coefficients of e^-x I0(x) on [0, 8] in x/4 - 1, and of sqrt(x) e^-x I0(x) on [8, inf) in 16/x - 1: made by a
 * discrete cosine transform of values computed with 40 digits. */
static const double i0e_small[] = {
    0.338397637204738042,     -0.304682672343198399,    0.171620901522208775,    -0.0949010970480476444,
    0.0493052842396707085,    -0.0237374148058994688,   0.0105464603945949983,   -0.00432430999505057594,
    0.0016394756169413358,    -0.000576375574538582366, 0.000188502885095841656, -0.000057541950100821037,
    0.0000164484480707288971, -4.41673835845875056e-6,  1.11738753912010372e-6,  -2.67079385394061173e-7,
    6.04699502254191895e-8,   -1.30002500998624804e-8,  2.65982372468238665e-9,  -5.18979560163526291e-10,
    9.67580903537323691e-11,  -1.72682629144155571e-11, 2.95505266312963983e-12, -4.85644678311192946e-13,
    7.67618549860493562e-14,  -1.16853328779934517e-14, 1.71539128555513303e-15, -2.43127984654795469e-16,
    3.3307945188222381e-17,   -4.41534164647933938e-18,
};
static const double i0e_large[] = {
    0.402245205507054416,     0.00336911647825569409,   0.0000688975834691682398, 2.89137052083475648e-6,
    2.04891858946906374e-7,   2.26666899049817806e-8,   3.39623202570838635e-9,   4.94060238822496959e-10,
    1.18891471078464383e-11,  -3.14991652796324136e-11, -1.32158118404477131e-11, -1.79417853150680612e-12,
    7.18012445138366623e-13,  3.8527783827421427e-13,   1.54008621752140983e-14,  -4.15056934728722209e-14,
    -9.55484669882830765e-15, 3.81168066935262242e-15,  1.77256013305652638e-15,  -3.42548561967721913e-16,
    -2.82762398051658348e-16, 3.46122286769746109e-17,  4.46562142029676e-17,     -4.83050448594418207e-18,
};

/* Clenshaw's recurrence for the sum of c[k] T_k(t). */
static qn_val chebyshev(qn_val t, const double *c, int count) {
  qn_val twice = qn_mul(t, qn_like(t, 2));
  qn_val b1 = qn_like(t, c[count - 1]), b2 = qn_like(t, 0);
  for (int k = count - 2; k >= 1; k--) {
    qn_val b0 = qn_add(qn_sub(qn_mul(twice, b1), b2), qn_like(t, c[k]));
    b2 = b1;
    b1 = b0;
  }
  return qn_add(qn_sub(qn_mul(t, b1), b2), qn_like(t, c[0]));
}

/* e^-|x| I0(x), which no operation gives. */
static qn_val bessel_i0e(qn_val x) {
  bool wide = qn_val_type(x)->dtype == QN_F64;
  qn_val a = qn_abs(x), eight = qn_like(x, 8), one = qn_like(x, 1);
  qn_val near = qn_sub(qn_div(qn_min(a, eight), qn_like(x, 4)), one);
  qn_val far = qn_max(a, eight);
  qn_val large = qn_div(chebyshev(qn_sub(qn_div(qn_like(x, 16), far), one), i0e_large, wide ? 24 : 8), qn_sqrt(far));
  return qn_select(qn_le(a, eight), chebyshev(near, i0e_small, wide ? 30 : 18), large);
}

/* I1e' = I0e - I1e * (sign(x) + 1/x); close to zero its limit, one half. */
static qn_val bessel_i1e_partial(qn_rule *r, int i) {
  qn_val x = r->in[i];
  qn_dtype t = qn_val_type(x)->dtype;
  qn_val tiny = qn_like(x, t == QN_F64 ? 0x1p-52 : t == QN_F32 ? 0x1p-23 : t == QN_F16 ? 0x1p-10 : 0x1p-7);
  qn_val far = qn_gt(qn_abs(x), tiny);
  qn_val safe = qn_select(far, x, tiny);
  qn_val slope = qn_add(qn_sign(safe), qn_div(qn_like(x, 1), safe));
  return qn_select(far, qn_sub(bessel_i0e(safe), qn_mul(r->out[0], slope)), qn_like(x, 0.5));
}
static double bessel_i1e_ref(const double *x) { return qn_ref_bessel_i1e(x[0]); }
const qn_op_def qn_op_bessel_i1e = {
    .name = "chlo.bessel_i1e",
    .doc = "e^-|x| times the modified Bessel function of order one of each element x.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .partial = bessel_i1e_partial,
    .expand = qn_expand_bessel_i1e,
    .ref = bessel_i1e_ref,
    QN_ROW_SAMPLE1(-12, 12, QN_TOL_4ULP),
};
