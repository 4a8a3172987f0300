/* Conversions that no device may decide: saturation, NaN to 0, narrow integers by way of 32 bits; and rounding to a
 * smaller format. */
#include "expand.h"

#include <math.h>

/* Clamped to a range whose ends the float holds exactly, converted, and the ends put back. */
static qn_sval float_to_int(qn_sink *s, qn_dtype to, qn_sval x) {
  qn_dtype from = s->dtype(s, x);
  int width = (int)(8 * qn_dtype_size(to));
  bool is_signed = qn_dtype_is_signed(to);
  double low = is_signed ? -ldexp(1, width - 1) : 0, high = ldexp(1, is_signed ? width - 1 : width);
  uint64_t max = (is_signed ? UINT64_MAX >> (65 - width) : UINT64_MAX >> (64 - width));
  qn_sval lo = qs_const(s, from, low), hi = qs_const(s, from, high), zero = qs_const(s, from, 0);
  qn_sval above_low = qs_gt(s, x, lo), below_high = qs_lt(s, x, hi);
  qn_sval inside = qs_select(s, qs_and(s, above_low, below_high), x, zero);
  qn_dtype via = width < 32 ? QN_I32 : to;
  qn_sval y = qs_convert(s, to, qs_convert(s, via, inside));
  y = qs_select(s, qs_ge(s, x, hi), qs_bits(s, to, max), y);
  if (is_signed)
    y = qs_select(s, qs_le(s, x, lo), qs_bits(s, to, UINT64_C(1) << (width - 1)), y);
  return y;
}

qn_sval qn_expand_convert(qn_sink *s, qn_dtype to, qn_sval x) {
  qn_dtype from = s->dtype(s, x);
  if (from == to)
    return x;
  if (to == QN_BOOL)
    return qs_ne(s, x, qs_const(s, from, 0));
  if (qn_dtype_is_float(from) && qn_dtype_is_int(to))
    return float_to_int(s, to, x);
  return qs_convert(s, to, x);
}

/* Adds half of the last kept place (ties to even) to the bits, cuts, then sends what left the exponent's range to
 * infinity or zero. Values below the smaller format's normal range become zero, as XLA's do. */
qn_sval qn_expand_reduce_precision(qn_sink *s, qn_sval x, int exponent_bits, int mantissa_bits) {
  const qn_ex_fmt *m = qn_ex_fmt_of(s, x);
  qn_sval sign = qn_ex_sign_bit(s, m, x);
  qn_sval bits = qs_xor(s, qs_bitcast(s, m->i, x), sign);
  if (mantissa_bits < m->mant) {
    int drop = m->mant - mantissa_bits;
    qn_sval last = qs_shr(s, bits, qn_ex_ik(s, m, (uint64_t)drop));
    qn_sval half = qn_ex_ik(s, m, (UINT64_C(1) << (drop - 1)) - 1);
    bits = qs_add(s, qs_add(s, bits, half), qs_and(s, last, qn_ex_ik(s, m, 1)));
    bits = qs_and(s, bits, qn_ex_ik(s, m, ~((UINT64_C(1) << drop) - 1)));
  }
  int full = m->t == QN_F64 ? 11 : 8;
  if (exponent_bits < full) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint64_t top = ((uint64_t)(m->bias + bias) << m->mant) | ((UINT64_C(1) << m->mant) - 1);
    uint64_t bottom = (uint64_t)(m->bias - bias + 1) << m->mant;
    uint64_t infinity = (uint64_t)(2 * m->bias + 1) << m->mant;
    bits = qs_select(s, qs_gt(s, bits, qn_ex_ik(s, m, top)), qn_ex_ik(s, m, infinity), bits);
    bits = qs_select(s, qs_lt(s, bits, qn_ex_ik(s, m, bottom)), qn_ex_ik(s, m, 0), bits);
  }
  qn_sval y = qs_bitcast(s, m->t, qs_xor(s, bits, sign));
  return qs_select(s, qn_ex_is_nan(s, x), x, y);
}
