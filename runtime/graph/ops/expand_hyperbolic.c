/* Hyperbolic functions and their inverses.
 *
 * sinh and cosh share e^x's reduction x = k ln2 + r and even and odd polynomials C = cosh r, S = sinh r:
 *   sinh x = (2^(k-1) - 2^(-k-1)) C + (2^(k-1) + 2^(-k-1)) S, and cosh x the same with the signs exchanged,
 * which needs no division and stays accurate at small x, where k is 0. */
#include "expand.h"

static const double cosh_f32[] = {0.5, 0.0416664556, 0.00139358419};           /* 2^-33 */
static const double sinh_f32[] = {0.166666672, 0.00833317637, 0.000199730101}; /* 2^-34 */
static const double cosh_f64[] = {0.5,
                                  0.041666666666666685,
                                  0.0013888888888873216,
                                  2.48015873494589e-05,
                                  2.7557251511549743e-07,
                                  2.0921888856632114e-09}; /* 2^-69 */
static const double sinh_f64[] = {0.16666666666666677, 0.0083333333333213393, 0.00019841269887019264,
                                  2.7557243179339306e-06, 2.5109435759770736e-08}; /* 2^-61 */

typedef struct parts {
  qn_sval sum, diff; /* 2^(k-2) +- 2^(-k-2) */
  qn_sval c, sh;     /* cosh r - 1, sinh r */
} parts;

static parts hyperbolic(qn_sink *s, const qn_ex_fmt *m, qn_sval ax) {
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, qn_ex_below(s, ax, qn_ex_k(s, m, qn_ex_sel(m, 89.6, 710.6))));
  qn_sval shift = qn_ex_ik(s, m, (uint64_t)m->mant);
  qn_sval base = qn_ex_ik(s, m, (uint64_t)(m->bias - 2) << m->mant);
  qn_sval k = qs_shl(s, y.bits, shift);
  qn_sval grow = qs_bitcast(s, m->t, qs_add(s, k, base));
  qn_sval k_max = qn_ex_ik(s, m, UINT64_C(100) << m->mant); /* further down the term no longer counts */
  qn_sval shrink = qs_bitcast(s, m->t, qs_sub(s, base, qn_ex_below(s, k, k_max)));
  int nc, ns;
  const double *cc = QN_EX_PICK(m, cosh_f32, cosh_f64, &nc);
  const double *cs = QN_EX_PICK(m, sinh_f32, sinh_f64, &ns);
  qn_sval z = qs_mul(s, y.r, y.r);
  parts p;
  p.sum = qs_add(s, grow, shrink);
  p.diff = qs_sub(s, grow, shrink);
  p.c = qs_mul(s, z, qn_ex_poly(s, z, cc, nc));
  p.sh = qs_fma(s, qs_mul(s, z, y.r), qn_ex_poly(s, z, cs, ns), y.r);
  return p;
}

qn_sval qn_expand_sinh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval ax = qs_abs(s, in[0]);
  parts p = hyperbolic(s, m, ax);
  qn_sval y = qs_add(s, p.diff, qs_fma(s, p.diff, p.c, qs_mul(s, p.sum, p.sh)));
  y = qn_ex_with_sign(s, m, qs_add(s, y, y), qn_ex_sign_bit(s, m, in[0]));
  qn_sval as_is = qs_lt(s, ax, qn_ex_k(s, m, qn_ex_sel(m, 0x1p-14, 0x1p-28)));
  return qs_select(s, as_is, in[0], y);
}

qn_sval qn_expand_cosh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  parts p = hyperbolic(s, m, qs_abs(s, in[0]));
  qn_sval y = qs_add(s, p.sum, qs_fma(s, p.sum, p.c, qs_mul(s, p.diff, p.sh)));
  return qs_add(s, y, y);
}

/* x + x^3 P(x^2) up to 9/16; beyond, where the result is above a half, 1 - 2 / (1 + e^(2|x|)). */
static const double tanh_f32[] = {-0.333333135, 0.13332437, -0.0538357571, 0.021000376, -0.00616961392}; /* 2^-29.4 */
static const double tanh_f64[] = {-0.33333333333331777,   0.13333333333093217,    -0.053968253839708907,
                                  0.021869485120384093,   -0.0088631832030198667, 0.0035916297953201941,
                                  -0.0014527777875078056, 0.00057784977126715189, -0.00020822271120260068,
                                  4.9599144796284538e-05}; /* 2^-54.8 */

qn_sval qn_expand_tanh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval one = qn_ex_k(s, m, 1), two = qn_ex_k(s, m, 2), ax = qs_abs(s, in[0]);
  int n;
  const double *c = QN_EX_PICK(m, tanh_f32, tanh_f64, &n);
  qn_sval z = qs_mul(s, ax, ax);
  qn_sval near = qs_fma(s, qs_mul(s, ax, z), qn_ex_poly(s, z, c, n), ax);
  qn_sval x = qn_ex_below(s, ax, qn_ex_k(s, m, qn_ex_sel(m, 9.125, 19.125)));
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, qs_add(s, x, x));
  qn_sval e = qs_fma(s, qn_ex_exp_poly(s, m, y.r), qn_ex_pow2(s, m, y.bits, 0), one);
  qn_sval far = qs_sub(s, one, qs_div(s, two, e));
  qn_sval t = qs_select(s, qs_lt(s, ax, qn_ex_k(s, m, 0.5625)), near, far);
  return qn_ex_with_sign(s, m, t, qn_ex_sign_bit(s, m, in[0]));
}

/* log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); far out log|x| + ln2 */
qn_sval qn_expand_asinh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval one = qn_ex_k(s, m, 1), ax = qs_abs(s, in[0]);
  qn_sval far = qs_gt(s, ax, qn_ex_k(s, m, 0x1p57));
  qn_sval root = qs_sqrt(s, qs_fma(s, ax, ax, one));
  qn_sval a = qs_add(s, ax, qs_div(s, qs_mul(s, ax, ax), qs_add(s, one, root)));
  qn_sval y = qn_ex_log1p_product(s, m, qs_select(s, far, ax, a), one);
  y = qs_add(s, y, qs_select(s, far, qn_ex_k(s, m, 0.69314718055994531), qn_ex_k(s, m, 0)));
  y = qn_ex_with_sign(s, m, y, qn_ex_sign_bit(s, m, in[0]));
  qn_sval as_is = qs_lt(s, ax, qn_ex_k(s, m, qn_ex_sel(m, 0x1p-13, 0x1p-28)));
  y = qs_select(s, as_is, in[0], y);
  return qs_select(s, qs_lt(s, ax, qn_ex_inf(s, m)), y, in[0]);
}

/* log1p(t + sqrt(2t + t^2)) with t = x - 1; far out log x + ln2 */
qn_sval qn_expand_acosh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval one = qn_ex_k(s, m, 1), x = in[0];
  qn_sval far = qs_gt(s, x, qn_ex_k(s, m, 0x1p57));
  qn_sval t = qs_sub(s, x, one);
  qn_sval a = qs_add(s, t, qs_sqrt(s, qs_fma(s, t, t, qs_add(s, t, t))));
  qn_sval y = qn_ex_log1p_product(s, m, qs_select(s, far, x, a), one);
  y = qs_add(s, y, qs_select(s, far, qn_ex_k(s, m, 0.69314718055994531), qn_ex_k(s, m, 0)));
  y = qs_select(s, qs_lt(s, x, qn_ex_inf(s, m)), y, x);
  y = qs_select(s, qs_eq(s, x, one), qn_ex_k(s, m, 0), y);
  return qs_select(s, qs_lt(s, x, one), qn_ex_nan(s, m), y);
}

/* log1p(2x + 2x x / (1 - x)) / 2 */
qn_sval qn_expand_atanh(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval one = qn_ex_k(s, m, 1), ax = qs_abs(s, in[0]);
  qn_sval t = qs_add(s, ax, ax);
  qn_sval a = qs_add(s, t, qs_div(s, qs_mul(s, t, ax), qs_sub(s, one, ax)));
  qn_sval y = qs_mul(s, qn_ex_log1p_product(s, m, a, one), qn_ex_k(s, m, 0.5));
  y = qs_select(s, qs_lt(s, ax, one), y, qs_select(s, qs_eq(s, ax, one), qn_ex_inf(s, m), qn_ex_nan(s, m)));
  y = qn_ex_with_sign(s, m, y, qn_ex_sign_bit(s, m, in[0]));
  qn_sval as_is = qs_lt(s, ax, qn_ex_k(s, m, qn_ex_sel(m, 0x1p-13, 0x1p-28)));
  return qs_select(s, as_is, in[0], y);
}
