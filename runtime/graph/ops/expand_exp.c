/* exp, expm1, log, log1p, logistic, and the roots. The cores are in expand_core.c. */
#include "expand.h"

qn_sval qn_expand_exp(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  return qn_ex_exp_below(s, m, qn_ex_below(s, in[0], qn_ex_k(s, m, m->exp_hi)));
}

/* 2^k p + (2^k - 1), at half scale so that 2^k may be one past the largest power. */
qn_sval qn_expand_expm1(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = qn_ex_above(s, in[0], qn_ex_k(s, m, qn_ex_sel(m, -18, -40)));
  x = qn_ex_below(s, x, qn_ex_k(s, m, m->exp_hi));
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, x);
  qn_sval half_scale = qn_ex_pow2(s, m, y.bits, -1);
  qn_sval shifted = qs_sub(s, half_scale, qn_ex_k(s, m, 0.5));
  qn_sval p = qs_fma(s, qn_ex_expm1_poly(s, m, y.r), half_scale, shifted);
  qn_sval as_is = qs_lt(s, qs_abs(s, in[0]), qn_ex_k(s, m, qn_ex_sel(m, 0x1p-26, 0x1p-55)));
  return qs_select(s, as_is, in[0], qs_add(s, p, p));
}

qn_sval qn_expand_log(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qn_ex_log_any(s, qn_ex_fmt_of(s, in[0]), in[0]);
}

qn_sval qn_expand_log1p(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qn_ex_log1p_any(s, qn_ex_fmt_of(s, in[0]), in[0]);
}

/* With e = e^-|x|, which never overflows, and q = e / (1 + e): 1 - q for x >= 0, e - e q below, so that the far tail
 * keeps e's precision and the rounding of 1 + e counts only by a part. */
qn_sval qn_expand_logistic(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval one = qn_ex_k(s, m, 1);
  qn_sval e = qn_ex_exp_below(s, m, qs_neg(s, qs_abs(s, in[0])));
  qn_sval q = qs_div(s, e, qs_add(s, one, e));
  qn_sval top = qs_select(s, qs_lt(s, in[0], qn_ex_k(s, m, 0)), e, one);
  return qs_fma(s, qs_neg(s, top), q, top);
}

qn_sval qn_expand_rsqrt(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  return qs_div(s, qn_ex_k(s, m, 1), qs_sqrt(s, in[0]));
}

/* r = |x|^(-1/3) from a guess by dividing the exponent (the bits) by three and third-order steps r += r h (1/3 +
 * 2h/9), h = 1 - |x| r^3, then y = |x| r^2 with one Newton correction. */
qn_sval qn_expand_cbrt(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval third = qn_ex_k(s, m, 1.0 / 3), x = qs_abs(s, in[0]);
  qn_sval tiny = qs_lt(s, x, qn_ex_k(s, m, m->min_normal));
  qn_sval a = qs_select(s, tiny, qs_mul(s, x, qn_ex_k(s, m, qn_ex_sel(m, 0x1p24, 0x1p54))), x);
  qn_sval back = qs_select(s, tiny, qn_ex_k(s, m, qn_ex_sel(m, 0x1p-8, 0x1p-18)), qn_ex_k(s, m, 1));
  double start =
      (m->bias - 0.051) * (4.0 / 3) * (m->t == QN_F64 ? 0x1p52 : 0x1p23); /* 0.051 balances the guess's error */
  qn_sval guess = qs_convert(s, m->t, qs_bitcast(s, m->i, a));
  guess = qs_fma(s, guess, qs_neg(s, third), qn_ex_k(s, m, start));
  qn_sval r = qs_bitcast(s, m->t, qs_convert(s, m->i, guess));
  for (int i = 0; i < (m->t == QN_F64 ? 3 : 2); ++i) {
    qn_sval ar = qs_mul(s, a, r);
    qn_sval h = qs_fma(s, qs_neg(s, ar), qs_mul(s, r, r), qn_ex_k(s, m, 1));
    r = qs_fma(s, qs_mul(s, r, h), qs_fma(s, h, qn_ex_k(s, m, 2.0 / 9), third), r);
  }
  qn_sval y = qs_mul(s, qs_mul(s, a, r), r);
  qn_sval rest = qs_fma(s, qs_neg(s, qs_mul(s, y, y)), y, a);
  y = qs_fma(s, rest, qs_mul(s, qs_mul(s, r, r), third), y);
  y = qn_ex_with_sign(s, m, qs_mul(s, y, back), qn_ex_sign_bit(s, m, in[0]));
  return qs_select(s, qs_lt(s, x, qn_ex_inf(s, m)), y, in[0]);
}
