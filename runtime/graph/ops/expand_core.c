/* Formats, polynomials, and the cores of exp and log.
 *
 * exp: Cody and Waite's reduction x = k ln2 + r by fma, a minimax polynomial in r, and scaling by 2^k in two exact
 * halves so that a subnormal result is rounded once. log: x = 2^e (1 + f), then in f32 a minimax polynomial f -
 * f^2/2 + f^3 q(f), in f64 the series in s = f/(2+f) arranged as in fdlibm's e_log.c (f - (f^2/2 - s (f^2/2 +
 * R(s^2)))). Every polynomial in the expansions was fitted by Remez's exchange in 45 digits, with its leading
 * coefficients rounded first and the others refitted; the comment beside a table gives the resulting error relative
 * to the function. */
#include "expand.h"

#include <math.h>

static const qn_ex_fmt fmt_f32 = {
    .t = QN_F32,
    .i = QN_I32,
    .u = QN_U32,
    .mant = 23,
    .bias = 127,
    .ln2_hi = 6.9313812256e-01,
    .ln2_lo = 9.0580006145e-06,
    .magic = 12582912.0,
    .min_normal = 0x1p-126,
    .pi_2_hi = 1.5707963705062866,
    .pi_2_lo = -4.3711388286737929e-08,
    .exp_lo = -104.0,
    .exp_hi = 89.0,
};

static const qn_ex_fmt fmt_f64 = {
    .t = QN_F64,
    .i = QN_I64,
    .u = QN_U64,
    .mant = 52,
    .bias = 1023,
    .ln2_hi = 6.93147180369123816490e-01,
    .ln2_lo = 1.90821492927058770002e-10,
    .magic = 6755399441055744.0,
    .min_normal = 0x1p-1022,
    .pi_2_hi = 1.5707963267948966,
    .pi_2_lo = 6.123233995736766e-17,
    .exp_lo = -746.0,
    .exp_hi = 710.0,
};

const qn_ex_fmt *qn_ex_fmt_of(qn_sink *s, qn_sval x) { return s->dtype(s, x) == QN_F64 ? &fmt_f64 : &fmt_f32; }

qn_sval qn_ex_poly(qn_sink *s, qn_sval x, const double *c, int count) {
  qn_dtype t = s->dtype(s, x);
  qn_sval p = qs_const(s, t, c[count - 1]);
  for (int i = count - 2; i >= 0; --i)
    p = qs_fma(s, p, x, qs_const(s, t, c[i]));
  return p;
}

qn_sval qn_ex_inf(qn_sink *s, const qn_ex_fmt *m) { return qn_ex_k(s, m, INFINITY); }

qn_sval qn_ex_nan(qn_sink *s, const qn_ex_fmt *m) {
  return qs_bits(s, m->t, m->t == QN_F64 ? UINT64_C(0x7ff8000000000000) : UINT64_C(0x7fc00000));
}

qn_sval qn_ex_is_nan(qn_sink *s, qn_sval x) { return qs_ne(s, x, x); }

qn_sval qn_ex_sign_bit(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  return qs_and(s, qs_bitcast(s, m->i, x), qn_ex_ik(s, m, UINT64_C(1) << (m->t == QN_F64 ? 63 : 31)));
}

qn_sval qn_ex_with_sign(qn_sink *s, const qn_ex_fmt *m, qn_sval x, qn_sval sign) {
  return qs_bitcast(s, m->t, qs_xor(s, qs_bitcast(s, m->i, x), sign));
}

qn_sval qn_ex_below(qn_sink *s, qn_sval x, qn_sval bound) { return qs_select(s, qs_gt(s, x, bound), bound, x); }

qn_sval qn_ex_above(qn_sink *s, qn_sval x, qn_sval bound) { return qs_select(s, qs_lt(s, x, bound), bound, x); }

/* ---- exp ---- */

qn_ex_reduced qn_ex_exp_reduce(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_ex_reduced y;
  qn_sval magic = qn_ex_k(s, m, m->magic);
  qn_sval t = qs_fma(s, x, qn_ex_k(s, m, 1.4426950408889634), magic);
  y.bits = qs_bitcast(s, m->i, t);
  y.k = qs_sub(s, t, magic);
  y.r = qs_fma(s, y.k, qn_ex_k(s, m, -m->ln2_hi), x);
  y.r = qs_fma(s, y.k, qn_ex_k(s, m, -m->ln2_lo), y.r);
  return y;
}

qn_sval qn_ex_pow2(qn_sink *s, const qn_ex_fmt *m, qn_sval k_bits, int add) {
  qn_sval e = qs_shl(s, k_bits, qn_ex_ik(s, m, (uint64_t)m->mant));
  e = qs_add(s, e, qn_ex_ik(s, m, (uint64_t)(m->bias + add) << m->mant));
  return qs_bitcast(s, m->t, e);
}

qn_sval qn_ex_scale(qn_sink *s, const qn_ex_fmt *m, qn_sval p, qn_sval k_bits) {
  qn_sval mant = qn_ex_ik(s, m, (uint64_t)m->mant);
  qn_sval one = qn_ex_ik(s, m, (uint64_t)m->bias << m->mant);
  qn_sval half = qs_shl(s, qs_shr(s, k_bits, qn_ex_ik(s, m, 1)), mant);
  qn_sval rest = qs_sub(s, qs_shl(s, k_bits, mant), half);
  p = qs_mul(s, p, qs_bitcast(s, m->t, qs_add(s, half, one)));
  return qs_mul(s, p, qs_bitcast(s, m->t, qs_add(s, rest, one)));
}

static const double exp_f32[] = {0.49999994, 0.166665182, 0.0416684151, 0.00836899318, 0.00138140318}; /* 2^-27.7 */
static const double exp_f64[] = {0.5,
                                 0.16666666666666682,
                                 0.041666666666666484,
                                 0.0083333333333177346,
                                 0.0013888888889001631,
                                 0.00019841269894938421,
                                 2.4801587076011538e-05,
                                 2.7557236028315805e-06,
                                 2.7557490505943564e-07,
                                 2.511171589577326e-08,
                                 2.0847947756905102e-09}; /* 2^-63.5 */
static const double expm1_f32[] = {0.5,           0.166666657,   0.0416664891,
                                   0.00833354238, 0.00139326206, 0.000197652465}; /* 2^-30.9 */
static const double expm1_f64[] = {0.5,
                                   0.16666666666666677,
                                   0.041666666666666678,
                                   0.0083333333333219291,
                                   0.0013888888888910736,
                                   0.00019841269885058349,
                                   2.480158723039526e-05,
                                   2.7557245267481685e-06,
                                   2.7557376984659343e-07,
                                   2.5108716238510765e-08,
                                   2.087865791357536e-09}; /* 2^-61.2 */

qn_sval qn_ex_expm1_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval r) {
  int n;
  const double *c = QN_EX_PICK(m, expm1_f32, expm1_f64, &n);
  return qs_fma(s, qs_mul(s, r, r), qn_ex_poly(s, r, c, n), r);
}

qn_sval qn_ex_exp_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval r) {
  int n;
  const double *c = QN_EX_PICK(m, exp_f32, exp_f64, &n);
  qn_sval one = qn_ex_k(s, m, 1);
  return qs_fma(s, qs_fma(s, qn_ex_poly(s, r, c, n), r, one), r, one);
}

qn_sval qn_ex_exp_below(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, qn_ex_above(s, x, qn_ex_k(s, m, m->exp_lo)));
  return qn_ex_scale(s, m, qn_ex_exp_poly(s, m, y.r), y.bits);
}

/* ---- log ---- */

static const double log_f32[] = {0.333333135,  -0.250000089, 0.20002073,  -0.166679993, 0.142203197,
                                 -0.124059185, 0.118834674,  -0.11672277, 0.0675238594}; /* 2^-30.1 */
static const double log_f64[] = {0.66666666666667351, 0.39999999999409347, 0.28571428743640398, 0.22222198439309576,
                                 0.18183571535637402, 0.15313859868155225, 0.14797919084399122}; /* 2^-59.5 */

/* Exponent and 1 + f of a positive normal number, as bits. */
static qn_sval split_exponent(qn_sink *s, const qn_ex_fmt *m, qn_sval bits) {
  uint64_t sqrt_half = m->t == QN_F64 ? UINT64_C(0x3fe6a09e667f3bcd) : UINT64_C(0x3f3504f3);
  qn_sval mant = qn_ex_ik(s, m, (uint64_t)m->mant);
  return qs_shr(s, qs_sub(s, bits, qn_ex_ik(s, m, sqrt_half)), mant);
}

qn_ex_split qn_ex_log_split(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  double up = qn_ex_sel(m, 0x1p24, 0x1p54);
  qn_sval tiny = qs_lt(s, x, qn_ex_k(s, m, m->min_normal));
  qn_sval scaled = qs_select(s, tiny, qs_mul(s, x, qn_ex_k(s, m, up)), x);
  qn_sval bits = qs_bitcast(s, m->i, scaled);
  qn_sval e = split_exponent(s, m, bits);
  qn_sval one_f = qs_bitcast(s, m->t, qs_sub(s, bits, qs_shl(s, e, qn_ex_ik(s, m, (uint64_t)m->mant))));
  qn_ex_split y;
  y.f = qs_sub(s, one_f, qn_ex_k(s, m, 1));
  qn_sval shift = qs_select(s, tiny, qn_ex_k(s, m, qn_ex_sel(m, -24, -54)), qn_ex_k(s, m, 0));
  y.e = qs_add(s, qs_convert(s, m->t, e), shift);
  return y;
}

qn_ex_pair qn_ex_log_fraction(qn_sink *s, const qn_ex_fmt *m, qn_ex_split x) {
  qn_sval f = x.f;
  qn_sval e_lo = qs_mul(s, x.e, qn_ex_k(s, m, m->ln2_lo));
  qn_ex_pair y;
  if (m->t == QN_F64) {
    qn_sval half = qs_mul(s, qs_mul(s, f, f), qn_ex_k(s, m, 0.5));
    qn_sval r = qs_div(s, f, qs_add(s, f, qn_ex_k(s, m, 2)));
    qn_sval z = qs_mul(s, r, r);
    qn_sval tail = qs_mul(s, z, qn_ex_poly(s, z, log_f64, (int)(sizeof log_f64 / sizeof *log_f64)));
    tail = qs_fma(s, r, qs_add(s, half, tail), e_lo);
    qn_sval rest = qs_sub(s, half, tail);
    y.hi = qs_sub(s, f, rest);
    y.lo = qs_sub(s, qs_sub(s, f, y.hi), rest);
  } else {
    qn_sval p = qn_ex_poly(s, f, log_f32, (int)(sizeof log_f32 / sizeof *log_f32));
    p = qs_fma(s, p, f, qn_ex_k(s, m, -0.5));
    qn_sval rest = qs_fma(s, qs_mul(s, f, f), p, e_lo);
    y.hi = qs_add(s, f, rest);
    y.lo = qs_add(s, qs_sub(s, f, y.hi), rest);
  }
  return y;
}

static qn_sval log_join(qn_sink *s, const qn_ex_fmt *m, qn_ex_split x) {
  return qs_fma(s, x.e, qn_ex_k(s, m, m->ln2_hi), qn_ex_log_fraction(s, m, x).hi);
}

static qn_sval log_pos(qn_sink *s, const qn_ex_fmt *m, qn_sval x) { return log_join(s, m, qn_ex_log_split(s, m, x)); }

qn_sval qn_ex_log_any(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_sval inf = qn_ex_inf(s, m), zero = qn_ex_k(s, m, 0);
  qn_sval y = qs_select(s, qs_lt(s, x, inf), log_pos(s, m, x), x);
  qn_sval edge = qs_select(s, qs_eq(s, x, zero), qs_neg(s, inf), qn_ex_nan(s, m));
  return qs_select(s, qs_gt(s, x, zero), y, edge);
}

/* With u = 1 + ab only used to find the exponent, f = ab 2^-e + (2^-e - 1) is one fma; the factors of 16 keep 2^-e a
 * normal number. */
qn_sval qn_ex_log1p_product(qn_sink *s, const qn_ex_fmt *m, qn_sval a, qn_sval b) {
  qn_sval u = qs_fma(s, a, b, qn_ex_k(s, m, 1));
  qn_sval e = split_exponent(s, m, qs_bitcast(s, m->i, u));
  qn_sval sixteen = qn_ex_ik(s, m, (uint64_t)(m->bias + 4) << m->mant);
  qn_sval scale = qs_bitcast(s, m->t, qs_sub(s, sixteen, qs_shl(s, e, qn_ex_ik(s, m, (uint64_t)m->mant))));
  qn_sval sixteenth = qn_ex_k(s, m, 0.0625);
  qn_sval rest = qs_fma(s, scale, sixteenth, qn_ex_k(s, m, -1));
  qn_ex_split y;
  y.f = qs_fma(s, qs_mul(s, qs_mul(s, a, sixteenth), scale), b, rest);
  y.e = qs_convert(s, m->t, e);
  return log_join(s, m, y);
}

qn_sval qn_ex_log1p_any(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_sval inf = qn_ex_inf(s, m), minus_one = qn_ex_k(s, m, -1);
  qn_sval y = qn_ex_log1p_product(s, m, x, qn_ex_k(s, m, 1));
  qn_sval as_is = qs_lt(s, qs_abs(s, x), qn_ex_k(s, m, qn_ex_sel(m, 0x1p-25, 0x1p-54)));
  y = qs_select(s, as_is, x, y);
  y = qs_select(s, qs_lt(s, x, inf), y, x);
  qn_sval edge = qs_select(s, qs_eq(s, x, minus_one), qs_neg(s, inf), qn_ex_nan(s, m));
  return qs_select(s, qs_gt(s, x, minus_one), y, edge);
}

/* ---- sin and cos of multiples of pi, for the reflection formulas ---- */

static const double sinpi_f32[] = {-5.16771269, 2.55016017, -0.599212945, 0.0818597749, -0.00671103224}; /* 2^-31.2 */
static const double sinpi_f64[] = {
    -5.1677127800499703,     2.5501640398773748,     -0.59926452932209195,
    0.082145886638951698,    -0.0073704312750770508, 0.00046630507622386471,
    -2.1924420031498382e-05, 8.1460514142960602e-07, -3.9973695822654839e-08}; /* 2^-60.1 */
static const double cospi_f32[] = {-4.93480206, 4.05870533, -1.33516157, 0.234683499,
                                   -0.0239631254}; /* 2^-29.5, absolute */
static const double cospi_f64[] = {
    -4.934802200544679,      4.0587121264167276,     -1.3352627688527909,
    0.23533063032031959,     -0.025806890931578449,  0.0019295711249549541,
    -0.00010462519530212763, 4.2745047969999905e-06, -1.1096542946094163e-07}; /* 2^-59.3, absolute */

qn_sval qn_ex_sin_pi(qn_sink *s, const qn_ex_fmt *m, qn_sval r) {
  int n;
  const double *c = QN_EX_PICK(m, sinpi_f32, sinpi_f64, &n);
  qn_sval z = qs_mul(s, r, r);
  qn_sval p = qs_mul(s, qs_mul(s, r, z), qn_ex_poly(s, z, c, n));
  return qs_fma(s, r, qn_ex_k(s, m, 3.141592653589793), p);
}

qn_sval qn_ex_cos_pi(qn_sink *s, const qn_ex_fmt *m, qn_sval r) {
  int n;
  const double *c = QN_EX_PICK(m, cospi_f32, cospi_f64, &n);
  qn_sval z = qs_mul(s, r, r);
  return qs_fma(s, z, qn_ex_poly(s, z, c, n), qn_ex_k(s, m, 1));
}
