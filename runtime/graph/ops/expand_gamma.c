/* lgamma, digamma, polygamma, Hurwitz's zeta.
 *
 * lgamma of x > 0: (x - 1)(x - 2) R(x) on [1, 3), so that both zeros are exact; below 1 by one step of the
 * recurrence, up to 8 by up to five, whose factors share one logarithm; from 8 Stirling's series. digamma likewise:
 * (x - x0) R(x) on [1, 2) around its zero x0. For x < 0 both reflect. Near the zeros of the reflected functions the
 * error is absolute (docs/numerics.md). */
#include "expand.h"

static const double lgamma_f32[] = {0.422784328,    -0.100317277,   0.0329655781,  -0.012384926,  0.00499182986,
                                    -0.00210227328, 0.000943680236, -0.0004251684, 0.00013124822, -5.27722805e-05,
                                    7.79521943e-05, -3.86183201e-05}; /* 2^-25.3, in x - 2 */
static const double lgamma_f64[] = {
    0.42278433509846713,    -0.10031730167435157,    0.032965000621156794,   -0.012384192193607542,
    0.004998641164672862,   -0.0021081308269347218,  0.00091537692231811844, -0.00040570749388911753,
    0.0001825526419159011,  -8.3094389971881489e-05, 3.8168856590171655e-05, -1.7665121830356029e-05,
    8.2223435751374923e-06, -3.8369400454581804e-06, 1.8077693003578292e-06, -8.7351869798272438e-07,
    4.0380317549996753e-07, -1.6515372923782758e-07, 9.2539017098874422e-08, -6.4599303495325024e-08,
    1.7384499836933111e-08, -1.2329942408442066e-09, 8.9817539335331128e-09, -2.765040074983285e-09,
    -1.691452370708445e-09, -1.400384316387485e-09,  1.155762255911103e-09}; /* 2^-52 */
static const double stirling_f32[] = {0.083333306, -0.00276464853};
static const double stirling_f64[] = {0.083333333333333329,    -0.0027777777777740994, 0.00079365078983517092,
                                      -0.00059523660704549142, 0.00084147286168327617, -0.0018905406908595879,
                                      0.0050692652212219243};
static const double digamma_f32[] = {
    0.951055884,  -0.423627436,  0.240541175,  -0.148402765, 0.09502092,  -0.06199532,
    0.0404985435, -0.0261238385, 0.0185435358, -0.015759619, 0.0088302549}; /* 2^-26.5, in x - 3/2 */
static const double digamma_f64[] = {
    0.95105587603183295,    -0.42362742128146036,    0.24054248424072897,    -0.14840492305393829,
    0.094988724461096713,   -0.061922133271587028,   0.040760833488942105,   -0.026975796775743167,
    0.017907261043049186,   -0.011908218357099367,   0.0079268135754627187,  -0.0052799507507476397,
    0.0035202192117960267,  -0.0023454554420233985,  0.0015496995834722357,  -0.0010363186933897497,
    0.00074723170339732834, -0.00048740830966450253, 0.00018165771396505803, -0.00014053611355453218,
    0.00029656915008434236, -0.00018266545671566069}; /* 2^-53.6 */
static const double asymptotic_f32[] = {0.0833331794, -0.00831809826, 0.00353028253};
static const double asymptotic_f64[] = {0.083333333333333218,   -0.0083333333331003321, 0.0039682538253067784,
                                        -0.0041666265112077529, 0.0075697903419938116,  -0.020602826248559917,
                                        0.0617795086464401};

/* What lgamma of a >= 0 is made of; NaN stays. */
typedef struct gamma_parts {
  qn_sval small, big;   /* a < 1, a >= 8 */
  qn_sval mid, product; /* below 8: log of the product, or less log a if small, plus mid */
  qn_sval log_a;        /* of a, or below 8 of the product */
  qn_sval from_half;    /* from 8: from_half * less_hi + rest */
  qn_sval less_hi, rest;
} gamma_parts;

/* Stirling's series multiplies log a - 1 by a, so it needs that as a pair: e ln2_hi - 1 is exact and above the rest. */
static void stirling(qn_sink *s, const qn_ex_fmt *m, qn_sval a, qn_ex_split split, gamma_parts *p) {
  int n;
  const double *c = QN_EX_PICK(m, stirling_f32, stirling_f64, &n);
  qn_ex_pair fraction = qn_ex_log_fraction(s, m, split);
  qn_sval base = qs_fma(s, split.e, qn_ex_k(s, m, m->ln2_hi), qn_ex_k(s, m, -1));
  p->less_hi = qs_add(s, base, fraction.hi);
  qn_sval less_lo = qs_add(s, qs_add(s, qs_sub(s, base, p->less_hi), fraction.hi), fraction.lo);
  p->from_half = qs_sub(s, a, qn_ex_k(s, m, 0.5));
  qn_sval r = qs_div(s, qn_ex_k(s, m, 1), a);
  p->rest = qs_fma(s, qn_ex_poly(s, qs_mul(s, r, r), c, n), r, qn_ex_k(s, m, 0.41893853320467274));
  p->rest = qs_fma(s, p->from_half, less_lo, p->rest);
}

static gamma_parts gamma_split(qn_sink *s, const qn_ex_fmt *m, qn_sval a) {
  qn_sval one = qn_ex_k(s, m, 1), three = qn_ex_k(s, m, 3);
  gamma_parts p;
  p.small = qs_lt(s, a, one);
  p.big = qs_ge(s, a, qn_ex_k(s, m, 8));
  p.product = one;
  qn_sval y = a;
  for (int i = 0; i < 5; ++i) {
    qn_sval step = qs_ge(s, y, three), down = qs_sub(s, y, one);
    p.product = qs_select(s, step, qs_mul(s, p.product, down), p.product);
    y = qs_select(s, step, down, y);
  }
  qn_sval w = qs_select(s, p.small, a, qs_sub(s, y, one)); /* the argument, a + 1 if a is small, less 1 */
  qn_sval v = qs_sub(s, w, one);
  int n;
  const double *c = QN_EX_PICK(m, lgamma_f32, lgamma_f64, &n);
  p.mid = qs_mul(s, qs_mul(s, v, w), qn_ex_poly(s, v, c, n));
  qn_sval of = qs_select(s, p.big, a, qs_select(s, p.small, a, p.product));
  p.log_a = qn_ex_log_any(s, m, of);
  stirling(s, m, a, qn_ex_log_split(s, m, of), &p);
  return p;
}

static qn_sval lgamma_positive(qn_sink *s, const qn_ex_fmt *m, qn_sval a, const gamma_parts *p) {
  qn_sval near = qs_add(s, p->mid, qs_select(s, p->small, qs_neg(s, p->log_a), p->log_a));
  qn_sval far = qs_fma(s, p->from_half, p->less_hi, p->rest);
  return qs_select(s, p->big, qs_select(s, qs_lt(s, a, qn_ex_inf(s, m)), far, a), near);
}

/* log|Gamma(-a)| = log(pi / (a |sin pi a|)) - log Gamma(a). Below 8 the logarithms are one; from there the large terms
 * of their difference are taken first, which is exact where it nearly cancels. */
static qn_sval lgamma_reflected(qn_sink *s, const qn_ex_fmt *m, qn_sval a, const gamma_parts *p) {
  qn_sval one = qn_ex_k(s, m, 1), inf = qn_ex_inf(s, m);
  qn_sval r = qs_abs(s, qs_sub(s, a, qs_rint(s, a)));
  qn_sval factor = qs_select(s, p->big, a, qs_select(s, p->small, one, qs_mul(s, a, p->product)));
  qn_sval quotient = qs_div(s, qn_ex_k(s, m, 3.141592653589793), qs_mul(s, factor, qn_ex_sin_pi(s, m, r)));
  qn_ex_split split = qn_ex_log_split(s, m, quotient);
  qn_sval fraction = qn_ex_log_fraction(s, m, split).hi, ln2 = qn_ex_k(s, m, m->ln2_hi);
  qn_sval near = qs_sub(s, qs_fma(s, split.e, ln2, fraction), p->mid);
  qn_sval top = qs_fma(s, qs_neg(s, p->from_half), p->less_hi, qs_mul(s, split.e, ln2));
  qn_sval far = qs_add(s, top, qs_sub(s, fraction, p->rest));
  return qs_select(s, qs_eq(s, r, qn_ex_k(s, m, 0)), inf, qs_select(s, p->big, far, near));
}

qn_sval qn_expand_lgamma(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = in[0], a = qs_abs(s, x), inf = qn_ex_inf(s, m);
  gamma_parts p = gamma_split(s, m, a);
  qn_sval tiny = qn_ex_k(s, m, qn_ex_sel(m, -0x1p-30, -0x1p-60)); /* closer to 0 both signs give -log|x| */
  qn_sval y = qs_select(s, qs_lt(s, x, tiny), lgamma_reflected(s, m, a, &p), lgamma_positive(s, m, a, &p));
  return qs_select(s, qs_eq(s, a, inf), inf, y);
}

qn_sval qn_expand_digamma(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = in[0], a = qs_abs(s, x), zero = qn_ex_k(s, m, 0), one = qn_ex_k(s, m, 1), two = qn_ex_k(s, m, 2);
  int steps = m->t == QN_F64 ? 6 : 2;
  qn_sval small = qs_lt(s, a, one), big = qs_ge(s, a, qn_ex_k(s, m, steps + 2));
  /* psi(y + k) = psi(y) + 1/y + ... as one fraction */
  qn_sval y = a, num = zero, den = one;
  for (int i = 0; i < steps; ++i) {
    qn_sval step = qs_ge(s, y, two), down = qs_sub(s, y, one);
    num = qs_select(s, step, qs_fma(s, num, down, den), num);
    den = qs_select(s, step, qs_mul(s, den, down), den);
    y = qs_select(s, step, down, y);
  }
  qn_sval u = qs_select(s, small, a, qs_sub(s, y, one));                                  /* argument less 1 */
  qn_sval zero_hi = qn_ex_k(s, m, qn_ex_sel(m, 0.4616321325302124, 0.46163214496836236)); /* x0 - 1 */
  qn_sval zero_lo = qn_ex_k(s, m, qn_ex_sel(m, 1.243815006546356e-08, -1.5522348162858677e-17));
  qn_sval distance = qs_sub(s, qs_sub(s, u, zero_hi), zero_lo);
  int n;
  const double *c = QN_EX_PICK(m, digamma_f32, digamma_f64, &n);
  qn_sval p = qn_ex_poly(s, qs_sub(s, u, qn_ex_k(s, m, 0.5)), c, n);
  qn_sval near = qs_fma(s, distance, p, qs_div(s, num, den)); /* psi(a), or psi(a + 1) if a is small */
  qn_sval recip = qs_div(s, one, a), z = qs_mul(s, recip, recip);
  const double *asymptotic = QN_EX_PICK(m, asymptotic_f32, asymptotic_f64, &n);
  qn_sval rest = qs_fma(s, z, qn_ex_poly(s, z, asymptotic, n), qs_mul(s, recip, qn_ex_k(s, m, 0.5)));
  qn_sval far = qs_sub(s, qn_ex_log_any(s, m, a), rest);
  qn_sval psi = qs_select(s, big, far, near);
  qn_sval positive = qs_select(s, small, qs_sub(s, psi, recip), psi);
  /* psi(-a) = psi(a + 1) + pi cot(pi a) */
  qn_sval r = qs_sub(s, a, qs_rint(s, a));
  qn_sval cot = qs_div(s, qn_ex_cos_pi(s, m, r), qn_ex_sin_pi(s, m, r));
  qn_sval next = qs_select(s, small, psi, qs_add(s, psi, recip));
  qn_sval negative = qs_fma(s, cot, qn_ex_k(s, m, 3.141592653589793), next);
  qn_sval result = qs_select(s, qs_le(s, x, zero), negative, positive);
  qn_sval pole = qs_and(s, qs_le(s, x, zero), qs_eq(s, r, zero));
  return qs_select(s, pole, qn_ex_nan(s, m), result);
}

/* ---- zeta and polygamma ---- */

enum { TERMS = 10, CORRECTIONS = 12 };

/* B(2j) / (2j)! */
static const double bernoulli[CORRECTIONS] = {
    0.083333333333333329,   -0.0013888888888888889,  3.3068783068783071e-05, -8.2671957671957675e-07,
    2.08767569878681e-08,   -5.2841901386874932e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.5860620562778452e-15, -2.1748686985580619e-16, 5.5090028283602295e-18, -1.3954464685812522e-19};

/* (q + k)^-x for a base of either sign and, where it is negative, an integer x. The power magnifies the rounding of
 * q + k x times, so that goes in too. */
static qn_sval power_term(qn_sink *s, const qn_ex_fmt *m, qn_sval q, int k, qn_sval minus_x, qn_sval odd_sign) {
  qn_sval step = qn_ex_k(s, m, k), base = k ? qs_add(s, q, step) : q, p;
  if (k) {
    qn_sval got = qs_sub(s, base, q);
    qn_sval lost = qs_add(s, qs_sub(s, q, qs_sub(s, base, got)), qs_sub(s, step, got));
    p = qn_ex_pow_pair(s, m, (qn_ex_pair){base, lost}, minus_x);
  } else {
    p = qn_ex_pow_pos(s, m, qs_abs(s, base), minus_x);
  }
  return qn_ex_with_sign(s, m, p, qs_and(s, odd_sign, qn_ex_sign_bit(s, m, base)));
}

/* Sum over k of (q + k)^-x by Euler and Maclaurin after TERMS terms. */
static qn_sval zeta(qn_sink *s, const qn_ex_fmt *m, qn_sval x, qn_sval q) {
  qn_sval zero = qn_ex_k(s, m, 0), one = qn_ex_k(s, m, 1), inf = qn_ex_inf(s, m), nan = qn_ex_nan(s, m);
  qn_sval half = qs_mul(s, x, qn_ex_k(s, m, 0.5));
  qn_sval whole_x = qs_eq(s, qs_trunc(s, x), x), even_x = qs_eq(s, qs_trunc(s, half), half);
  qn_sval odd_sign = qs_select(s, even_x, qn_ex_ik(s, m, 0), qn_ex_ik(s, m, UINT64_C(1) << (m->t == QN_F64 ? 63 : 31)));
  qn_sval minus_x = qs_neg(s, x), a = qs_add(s, q, qn_ex_k(s, m, TERMS));
  qn_sval last = power_term(s, m, q, TERMS, minus_x, odd_sign);
  /* at a large exponent the correction is 0 times something, which must be finite */
  qn_sval xc = qn_ex_below(s, x, qn_ex_k(s, m, 500)), r = qs_div(s, one, a), z = qs_mul(s, r, r), tail = zero;
  int corrections = m->t == QN_F64 ? CORRECTIONS : 6;
  for (int j = corrections - 1; j >= 0; --j) {
    qn_sval grow = qs_mul(s, qs_add(s, xc, qn_ex_k(s, m, 2 * j + 1)), qs_add(s, xc, qn_ex_k(s, m, 2 * j + 2)));
    tail = qs_fma(s, qs_mul(s, grow, z), tail, qn_ex_k(s, m, bernoulli[j]));
  }
  qn_sval rest = qs_fma(s, qs_mul(s, xc, r), tail, qn_ex_k(s, m, 0.5));
  rest = qs_add(s, rest, qs_div(s, a, qs_sub(s, x, one)));
  /* the least terms first, the first last; the rest is the largest where q is large */
  qn_sval y = power_term(s, m, q, TERMS - 1, minus_x, odd_sign);
  for (int k = TERMS - 2; k >= 1; --k)
    y = qs_add(s, y, power_term(s, m, q, k, minus_x, odd_sign));
  y = qs_select(s, qs_eq(s, last, zero), y, qs_fma(s, last, rest, y));
  y = qs_add(s, y, power_term(s, m, q, 0, minus_x, odd_sign));
  qn_sval whole_q = qs_eq(s, qs_trunc(s, q), q), not_positive = qs_le(s, q, zero);
  qn_sval pole = qs_select(s, even_x, inf, nan);
  qn_sval left = qs_select(s, whole_q, pole, qs_select(s, whole_x, y, nan));
  left = qs_select(s, qs_gt(s, a, one), left, nan); /* the corrections need a last term well right of 0 */
  y = qs_select(s, qs_eq(s, q, inf), zero, y);
  y = qs_select(s, not_positive, left, y);
  y = qs_select(s, qs_gt(s, x, one), y, qs_select(s, qs_eq(s, x, one), inf, nan));
  return qs_select(s, qn_ex_is_nan(s, q), q, y);
}

qn_sval qn_expand_zeta(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return zeta(s, qn_ex_fmt_of(s, in[0]), in[0], in[1]);
}

/* Gamma(a) from 8: the exponential magnifies the rounding of its argument, so what that lost goes in. */
static qn_sval exp_lgamma_big(qn_sink *s, const qn_ex_fmt *m, const gamma_parts *p) {
  qn_sval product = qs_mul(s, p->from_half, p->less_hi);
  qn_sval product_lo = qs_fma(s, p->from_half, p->less_hi, qs_neg(s, product));
  qn_sval hi = qs_add(s, product, p->rest);
  qn_sval lo = qs_add(s, qs_add(s, qs_sub(s, product, hi), p->rest), product_lo);
  qn_sval e = qn_ex_exp_below(s, m, qn_ex_below(s, hi, qn_ex_k(s, m, m->exp_hi)));
  return qs_select(s, qs_lt(s, e, qn_ex_inf(s, m)), qs_fma(s, e, lo, e), e);
}

/* (-1)^(n+1) n! zeta(n + 1, x); order 0 is digamma */
qn_sval qn_expand_polygamma(qn_sink *s, const qn_sval *in, const void *attr) {
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval n = in[0], zero = qn_ex_k(s, m, 0), one = qn_ex_k(s, m, 1);
  qn_sval next = qs_add(s, n, one), half = qs_mul(s, n, qn_ex_k(s, m, 0.5));
  qn_sval even = qs_eq(s, qs_trunc(s, half), half);
  gamma_parts p = gamma_split(s, m, next);
  qn_sval factorial = exp_lgamma_big(s, m, &p);
  factorial = qs_select(s, p.big, factorial, p.product); /* below, the product is n! itself */
  qn_sval y = qs_mul(s, factorial, zeta(s, m, next, in[1]));
  y = qs_select(s, even, qs_neg(s, y), y);
  y = qs_select(s, qs_eq(s, n, zero), qn_expand_digamma(s, &in[1], attr), y);
  qn_sval defined = qs_and(s, qs_ge(s, n, zero), qs_eq(s, qs_trunc(s, n), n));
  return qs_select(s, defined, y, qn_ex_nan(s, m));
}
