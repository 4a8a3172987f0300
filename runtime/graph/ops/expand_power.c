/* x^y. Floats: log2 |x| as an unevaluated sum of two, its product with y likewise, then 2^(that), then C99's special
 * cases. Integers: squaring over the bits of the exponent; a negative exponent leaves 0 but for bases 1 and -1, and
 * all bits set for base 0, as a division by zero does. */
#include "expand.h"

/* (atanh(s)/s - 1)/s^2 = 1/3 + z P(z), z = s^2, |s| <= 0.1716 */
static const double tail_f32[] = {0.200000763, 0.142735437, 0.117098838}; /* 2^-36.8 of the logarithm */
static const double tail_f64[] = {0.1999999999999999,   0.14285714285725615,  0.11111111107464056,
                                  0.09090909637819912,  0.076922627731067825, 0.066688057610318777,
                                  0.058237213266477135, 0.061111402336095993}; /* 2^-71 */

/* log2 of the mantissa 1 + f = (1 + s)/(1 - s), s = f/(2 + f): (2/ln2)(s + s z (1/3 + z P(z))), all in pairs. */
static qn_ex_pair log2_mantissa(qn_sink *s, const qn_ex_fmt *m, qn_sval f) {
  qn_sval one = qn_ex_k(s, m, 1);
  qn_sval whole = qs_add(s, f, one);
  qn_sval den = qs_add(s, whole, one);
  qn_sval den_lo = qs_sub(s, whole, qs_sub(s, den, one));
  qn_sval rc = qs_div(s, one, den);
  qn_sval h = qs_mul(s, f, rc);
  qn_sval rest = qs_fma(s, qs_neg(s, h), den, f);
  qn_sval h_lo = qs_mul(s, rc, qs_fma(s, qs_neg(s, h), den_lo, rest));
  qn_sval z = qs_mul(s, h, h);
  qn_sval z_lo = qs_fma(s, qs_add(s, h, h), h_lo, qs_fma(s, h, h, qs_neg(s, z)));
  int n;
  const double *c = QN_EX_PICK(m, tail_f32, tail_f64, &n);
  qn_sval third = qn_ex_k(s, m, qn_ex_sel(m, 0.3333333432674408, 0.33333333333333331));
  qn_sval third_lo = qn_ex_k(s, m, qn_ex_sel(m, -9.9341077586245774e-09, 1.8503717077085941e-17));
  qn_sval p = qs_mul(s, z, qn_ex_poly(s, z, c, n));
  qn_sval u = qs_add(s, third, p);
  qn_sval u_lo = qs_add(s, qs_add(s, qs_sub(s, third, u), p), third_lo);
  qn_sval t = qs_mul(s, z, u);
  qn_sval t_lo = qs_fma(s, z, u, qs_neg(s, t));
  t_lo = qs_add(s, t_lo, qs_fma(s, z, u_lo, qs_mul(s, z_lo, u)));
  qn_sval v = qs_mul(s, h, t);
  qn_sval v_lo = qs_fma(s, h, t, qs_neg(s, v));
  v_lo = qs_add(s, v_lo, qs_fma(s, h, t_lo, qs_mul(s, h_lo, t)));
  qn_sval w = qs_add(s, h, v);
  qn_sval w_lo = qs_add(s, qs_add(s, qs_sub(s, h, w), v), qs_add(s, h_lo, v_lo));
  qn_sval scale = qn_ex_k(s, m, qn_ex_sel(m, 2.885390043258667, 2.8853900817779268));
  qn_sval scale_lo = qn_ex_k(s, m, qn_ex_sel(m, 3.8519260670000222e-08, 4.0710547481862066e-17));
  qn_ex_pair g;
  g.hi = qs_mul(s, w, scale);
  g.lo = qs_fma(s, w, scale, qs_neg(s, g.hi));
  g.lo = qs_add(s, g.lo, qs_fma(s, w, scale_lo, qs_mul(s, w_lo, scale)));
  return g;
}

/* log2 of x >= 0; zero and infinity have their logarithms, NaN stays */
static qn_ex_pair log2_pair(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_sval inf = qn_ex_inf(s, m), zero = qn_ex_k(s, m, 0);
  qn_ex_split parts = qn_ex_log_split(s, m, x);
  qn_ex_pair g = log2_mantissa(s, m, parts.f), y;
  y.hi = qs_add(s, parts.e, g.hi);
  y.lo = qs_add(s, qs_add(s, qs_sub(s, parts.e, y.hi), g.hi), g.lo);
  y.hi = qs_select(s, qs_eq(s, x, zero), qs_neg(s, inf), qs_select(s, qs_lt(s, x, inf), y.hi, x));
  return y;
}

/* 2^(y log2) */
static qn_sval exp2_product(qn_sink *s, const qn_ex_fmt *m, qn_ex_pair log2, qn_sval y) {
  qn_sval hi = log2.hi, lo = log2.lo, zero = qn_ex_k(s, m, 0);
  qn_sval p = qs_mul(s, y, hi);
  qn_sval p_lo = qs_fma(s, y, lo, qs_fma(s, y, hi, qs_neg(s, p)));
  qn_sval bound = qn_ex_k(s, m, qn_ex_sel(m, 152, 1080));
  qn_sval inside = qs_lt(s, qs_abs(s, p), bound);
  p = qn_ex_below(s, qn_ex_above(s, p, qn_ex_k(s, m, qn_ex_sel(m, -152, -1080))),
                  qn_ex_k(s, m, qn_ex_sel(m, 129, 1025)));
  p_lo = qs_select(s, inside, p_lo, zero);
  qn_sval magic = qn_ex_k(s, m, m->magic);
  qn_sval t = qs_add(s, p, magic);
  qn_sval r = qs_add(s, qs_sub(s, p, qs_sub(s, t, magic)), p_lo);
  r = qs_mul(s, r, qn_ex_k(s, m, 0.69314718055994531));
  qn_sval e = qn_ex_exp_poly(s, m, r);
  return qn_ex_scale(s, m, e, qs_bitcast(s, m->i, t));
}

qn_sval qn_ex_pow_pos(qn_sink *s, const qn_ex_fmt *m, qn_sval x, qn_sval y) {
  return exp2_product(s, m, log2_pair(s, m, x), y);
}

qn_sval qn_ex_pow_pair(qn_sink *s, const qn_ex_fmt *m, qn_ex_pair x, qn_sval y) {
  qn_ex_pair log2 = log2_pair(s, m, qs_abs(s, x.hi));
  qn_sval more = qs_div(s, qs_mul(s, x.lo, qn_ex_k(s, m, 1.4426950408889634)), x.hi);
  log2.lo = qs_add(s, log2.lo, more);
  return exp2_product(s, m, log2, y);
}

static qn_sval power_float(qn_sink *s, qn_sval x, qn_sval y) {
  const qn_ex_fmt *m = qn_ex_fmt_of(s, x);
  qn_sval ax = qs_abs(s, x), one = qn_ex_k(s, m, 1), zero = qn_ex_k(s, m, 0), half = qn_ex_k(s, m, 0.5);
  qn_sval p = qn_ex_pow_pos(s, m, ax, y);
  p = qs_select(s, qs_eq(s, ax, one), qs_select(s, qn_ex_is_nan(s, y), y, one), p); /* -1 to an infinite power is 1 */
  qn_sval whole = qs_eq(s, qs_trunc(s, y), y);
  qn_sval y2 = qs_mul(s, y, half);
  qn_sval odd = qs_and(s, whole, qs_ne(s, qs_trunc(s, y2), y2));
  qn_sval sign = qs_select(s, odd, qn_ex_sign_bit(s, m, x), qn_ex_ik(s, m, 0));
  p = qn_ex_with_sign(s, m, p, sign);
  qn_sval finite_negative = qs_and(s, qs_lt(s, x, zero), qs_lt(s, ax, qn_ex_inf(s, m)));
  p = qs_select(s, qs_and(s, finite_negative, qs_not(s, whole)), qn_ex_nan(s, m), p);
  return qs_select(s, qs_or(s, qs_eq(s, y, zero), qs_eq(s, x, one)), one, p);
}

static qn_sval power_int(qn_sink *s, qn_sval x, qn_sval y) {
  qn_dtype t = s->dtype(s, x);
  qn_sval zero = qs_bits(s, t, 0), one = qs_bits(s, t, 1), base = x, p = one;
  bool is_signed = qn_dtype_is_signed(t);
  int bits = (int)(8 * qn_dtype_size(t)) - (is_signed ? 1 : 0);
  for (int i = 0; i < bits; ++i) {
    qn_sval bit = qs_and(s, y, qs_bits(s, t, UINT64_C(1) << i));
    p = qs_select(s, qs_ne(s, bit, zero), qs_mul(s, p, base), p);
    if (i + 1 < bits)
      base = qs_mul(s, base, base);
  }
  if (!is_signed)
    return p;
  qn_sval minus_one = qs_not(s, zero);
  qn_sval odd = qs_ne(s, qs_and(s, y, one), zero);
  qn_sval inverse = qs_select(s, qs_eq(s, x, minus_one), qs_select(s, odd, minus_one, one), zero);
  inverse = qs_select(s, qs_eq(s, x, one), one, inverse);
  inverse = qs_select(s, qs_eq(s, x, zero), minus_one, inverse);
  return qs_select(s, qs_lt(s, y, zero), inverse, p);
}

qn_sval qn_expand_power(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qn_dtype_is_float(s->dtype(s, in[0])) ? power_float(s, in[0], in[1]) : power_int(s, in[0], in[1]);
}
