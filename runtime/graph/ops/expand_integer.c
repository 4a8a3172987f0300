/* Division, remainder and shifts with every operand defined: the scalar operations leave zero divisors, MIN / -1 and
 * over-wide counts to the expansion. */
#include "expand.h"

static qn_sval all_ones(qn_sink *s, qn_dtype t) { return qs_bits(s, t, UINT64_MAX); }

/* Divisor with the two forbidden cases replaced by 1. */
static qn_sval safe_divisor(qn_sink *s, qn_dtype t, qn_sval a, qn_sval b, qn_sval *out_zero, qn_sval *out_wraps) {
  qn_sval one = qs_bits(s, t, 1);
  *out_zero = qs_eq(s, b, qs_bits(s, t, 0));
  qn_sval bad = *out_zero;
  if (qn_dtype_is_signed(t)) {
    qn_sval min = qs_bits(s, t, UINT64_C(1) << (8 * qn_dtype_size(t) - 1));
    *out_wraps = qs_and(s, qs_eq(s, a, min), qs_eq(s, b, all_ones(s, t)));
    bad = qs_or(s, bad, *out_wraps);
  }
  return qs_select(s, bad, one, b);
}

qn_sval qn_expand_divide(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_dtype t = s->dtype(s, in[0]);
  if (qn_dtype_is_float(t))
    return qs_div(s, in[0], in[1]);
  qn_sval zero, wraps;
  qn_sval divisor = safe_divisor(s, t, in[0], in[1], &zero, &wraps);
  qn_sval q = qs_idiv(s, in[0], divisor); /* MIN / 1 is MIN, as MIN / -1 wraps to */
  return qs_select(s, zero, all_ones(s, t), q);
}

/* fmod by long division: from the largest multiple of |y| down, each step takes off the nearest multiple of |y|
 * 2^(kj). A quotient has at most k + 1 bits, so it and the fma that subtracts it are exact; where |y| 2^(kj) is far
 * above the rest the quotient is 0. */
static qn_sval remainder_float(qn_sink *s, qn_sval x, qn_sval y) {
  const qn_ex_fmt *m = qn_ex_fmt_of(s, x);
  enum { STEPS = 41 };
  int steps = m->t == QN_F64 ? STEPS : 13;
  qn_sval zero = qn_ex_k(s, m, 0), inf = qn_ex_inf(s, m), ay = qs_abs(s, y), r = qs_abs(s, x);
  qn_sval multiple[STEPS];
  multiple[0] = ay;
  for (int j = 1; j < steps; ++j)
    multiple[j] = qs_mul(s, multiple[j - 1], qn_ex_k(s, m, qn_ex_sel(m, 0x1p23, 0x1p52)));
  for (int j = steps - 1; j >= 0; --j) {
    qn_sval q = qs_rint(s, qs_div(s, r, multiple[j]));
    qn_sval finite = qs_select(s, qs_lt(s, multiple[j], inf), multiple[j], zero);
    r = qs_fma(s, qs_neg(s, q), finite, r);
  }
  r = qs_select(s, qs_lt(s, r, zero), qs_add(s, r, ay), r);
  r = qn_ex_with_sign(s, m, qs_abs(s, r), qn_ex_sign_bit(s, m, x));
  qn_sval x_finite = qs_lt(s, qs_abs(s, x), inf);
  r = qs_select(s, qs_and(s, x_finite, qs_eq(s, ay, inf)), x, r);
  qn_sval good = qs_and(s, x_finite, qs_gt(s, ay, zero)); /* false for NaN in either */
  return qs_select(s, good, r, qn_ex_nan(s, m));
}

qn_sval qn_expand_remainder(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_dtype t = s->dtype(s, in[0]);
  if (qn_dtype_is_float(t))
    return remainder_float(s, in[0], in[1]);
  qn_sval zero, wraps;
  qn_sval divisor = safe_divisor(s, t, in[0], in[1], &zero, &wraps);
  return qs_select(s, zero, in[0], qs_irem(s, in[0], divisor)); /* MIN rem 1 is 0 too */
}

typedef enum direction { LEFT, RIGHT_LOGICAL, RIGHT_ARITHMETIC } direction;

/* A count read as unsigned is in range or shifts everything out; negative counts are large ones. */
static qn_sval shift(qn_sink *s, qn_sval a, qn_sval count, direction d) {
  qn_dtype t = s->dtype(s, a);
  uint64_t width = 8 * qn_dtype_size(t);
  bool is_signed = qn_dtype_is_signed(t);
  qn_dtype u = is_signed ? (qn_dtype)(t - QN_I8 + QN_U8) : t;
  qn_dtype i = is_signed ? t : (qn_dtype)(t - QN_U8 + QN_I8);
  qn_dtype work = d == RIGHT_ARITHMETIC ? i : u;
  qn_sval n = qs_bitcast(s, u, count);
  qn_sval inside = qs_lt(s, n, qs_bits(s, u, width));
  n = qs_select(s, inside, n, qs_bits(s, u, width - 1));
  qn_sval x = qs_bitcast(s, work, a), c = qs_bitcast(s, work, n);
  qn_sval y = d == LEFT ? qs_shl(s, x, c) : qs_shr(s, x, c);
  if (d != RIGHT_ARITHMETIC) /* an arithmetic shift by width - 1 leaves the sign already */
    y = qs_select(s, inside, y, qs_bits(s, work, 0));
  return qs_bitcast(s, t, y);
}

qn_sval qn_expand_shift_left(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return shift(s, in[0], in[1], LEFT);
}

qn_sval qn_expand_shift_right_logical(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return shift(s, in[0], in[1], RIGHT_LOGICAL);
}

qn_sval qn_expand_shift_right_arithmetic(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return shift(s, in[0], in[1], RIGHT_ARITHMETIC);
}
