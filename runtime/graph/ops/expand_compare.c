/* What is spelt with compare, select and bits because drivers disagree about it: maximum, minimum, sign, abs, clamp,
 * is_finite, rounding away from zero, next_after and the total order. */
#include "expand.h"

/* In a tie of floats the bits are joined: and leaves -0 only if both are, or leaves +0 only if both are. Equal
 * values otherwise agree. */
static qn_sval extremum(qn_sink *s, qn_sval a, qn_sval b, bool maximum) {
  qn_dtype t = s->dtype(s, a);
  if (t == QN_BOOL)
    return maximum ? qs_or(s, a, b) : qs_and(s, a, b);
  qn_sval first = maximum ? qs_gt(s, a, b) : qs_lt(s, a, b);
  qn_sval y = qs_select(s, first, a, b);
  if (!qn_dtype_is_float(t))
    return y;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, a);
  qn_sval ia = qs_bitcast(s, m->i, a), ib = qs_bitcast(s, m->i, b);
  qn_sval tie = qs_bitcast(s, t, maximum ? qs_and(s, ia, ib) : qs_or(s, ia, ib));
  y = qs_select(s, qs_eq(s, a, b), tie, y);
  return qs_select(s, qn_ex_is_nan(s, a), a, y); /* NaN in b fails every compare and is taken already */
}

qn_sval qn_expand_maximum(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return extremum(s, in[0], in[1], true);
}

qn_sval qn_expand_minimum(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return extremum(s, in[0], in[1], false);
}

qn_sval qn_expand_clamp(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return extremum(s, extremum(s, in[1], in[0], true), in[2], false);
}

qn_sval qn_expand_sign(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_sval x = in[0];
  qn_dtype t = s->dtype(s, x);
  qn_sval zero = qs_const(s, t, 0), one = qs_const(s, t, 1);
  qn_sval rest = t == QN_BOOL || qn_dtype_is_unsigned(t) ? x : qs_select(s, qs_lt(s, x, zero), qs_const(s, t, -1), x);
  if (t == QN_BOOL)
    return x;
  return qs_select(s, qs_gt(s, x, zero), one, rest);
}

qn_sval qn_expand_abs(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_dtype t = s->dtype(s, in[0]);
  if (qn_dtype_is_float(t))
    return qs_abs(s, in[0]);
  if (!qn_dtype_is_signed(t))
    return in[0];
  return qs_select(s, qs_lt(s, in[0], qs_bits(s, t, 0)), qs_neg(s, in[0]), in[0]);
}

qn_sval qn_expand_is_finite(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval exponent = qn_ex_ik(s, m, (uint64_t)(2 * m->bias + 1) << m->mant);
  return qs_ne(s, qs_and(s, qs_bitcast(s, m->i, in[0]), exponent), exponent);
}

qn_sval qn_expand_round_afz(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = qs_abs(s, in[0]);
  qn_sval whole = qs_floor(s, x);
  qn_sval up = qs_ge(s, qs_sub(s, x, whole), qn_ex_k(s, m, 0.5));
  qn_sval y = qs_select(s, up, qs_add(s, whole, qn_ex_k(s, m, 1)), whole);
  return qn_ex_with_sign(s, m, y, qn_ex_sign_bit(s, m, in[0]));
}

/* Neighbours are neighbours as integers too: one up away from zero, one down towards it; from zero the least
 * subnormal of y's sign. */
qn_sval qn_expand_next_after(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = in[0], y = in[1], one = qn_ex_ik(s, m, 1), zero = qn_ex_k(s, m, 0);
  qn_sval ix = qs_bitcast(s, m->i, x);
  qn_sval away = qs_eq(s, qs_lt(s, zero, x), qs_lt(s, x, y));
  qn_sval moved = qs_select(s, away, qs_add(s, ix, one), qs_sub(s, ix, one));
  moved = qs_select(s, qs_eq(s, x, zero), qs_or(s, qn_ex_sign_bit(s, m, y), one), moved);
  qn_sval r = qs_select(s, qs_eq(s, x, y), y, qs_bitcast(s, m->t, moved));
  r = qs_select(s, qn_ex_is_nan(s, y), y, r);
  return qs_select(s, qn_ex_is_nan(s, x), x, r);
}

qn_sval qn_expand_total_order_key(qn_sink *s, qn_sval x) {
  const qn_ex_fmt *m = qn_ex_fmt_of(s, x);
  uint64_t width = m->t == QN_F64 ? 64 : 32;
  qn_sval i = qs_bitcast(s, m->i, x);
  qn_sval negative = qs_lt(s, i, qn_ex_ik(s, m, 0));
  return qs_select(s, negative, qs_xor(s, i, qn_ex_ik(s, m, UINT64_MAX >> (65 - width))), i);
}
