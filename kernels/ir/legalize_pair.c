/* 64-bit integers as two 32-bit words: carries by comparison, products from 32-bit halves, division bit by bit. Everything works lane by lane,
 * so vectors come for free. Where a high word is known to be zero the builder's folding leaves the 32-bit operation. */
#include "legalize.h"

#define W(x) ((x).w)

static qn_sval carry(legalizer *l, qn_sval flag) { return qs_convert(l->s, QN_U32, flag); }
static lword pair(qn_sval lo, qn_sval hi) { return (lword){{lo, hi}}; }
static lword flag(qn_sval b) { return (lword){{b, {0}}}; }
static qn_sval negative(legalizer *l, lword x) { return qs_ne(l->s, qs_shr(l->s, W(x)[1], lu32(l, 31)), lu32(l, 0)); }

static lword choose(legalizer *l, qn_sval p, lword x, lword y) {
  return pair(qs_select(l->s, p, W(x)[0], W(y)[0]), qs_select(l->s, p, W(x)[1], W(y)[1]));
}

static lword add(legalizer *l, lword x, lword y) {
  qn_sink *s = l->s;
  qn_sval lo = qs_add(s, W(x)[0], W(y)[0]);
  return pair(lo, qs_add(s, qs_add(s, W(x)[1], W(y)[1]), carry(l, qs_lt(s, lo, W(x)[0]))));
}

static lword sub(legalizer *l, lword x, lword y) {
  qn_sink *s = l->s;
  qn_sval borrow = carry(l, qs_lt(s, W(x)[0], W(y)[0]));
  return pair(qs_sub(s, W(x)[0], W(y)[0]), qs_sub(s, qs_sub(s, W(x)[1], W(y)[1]), borrow));
}

static lword zero(legalizer *l) { return pair(lu32(l, 0), lu32(l, 0)); }
static lword neg(legalizer *l, lword x) { return sub(l, zero(l), x); }

static lword mul(legalizer *l, lword x, lword y) {
  qn_sink *s = l->s;
  qn_sval cross = qs_add(s, qs_mul(s, W(x)[0], W(y)[1]), qs_mul(s, W(x)[1], W(y)[0]));
  return pair(qs_mul(s, W(x)[0], W(y)[0]), qs_add(s, qs_mulhi(s, W(x)[0], W(y)[0]), cross));
}

static lword mulhi(legalizer *l, bool is_signed, lword x, lword y) {
  qn_sink *s = l->s;
  qn_sval z = lu32(l, 0);
  lword p01 = pair(qs_mul(s, W(x)[0], W(y)[1]), qs_mulhi(s, W(x)[0], W(y)[1]));
  lword p10 = pair(qs_mul(s, W(x)[1], W(y)[0]), qs_mulhi(s, W(x)[1], W(y)[0]));
  lword p11 = pair(qs_mul(s, W(x)[1], W(y)[1]), qs_mulhi(s, W(x)[1], W(y)[1]));
  /* the second word of the product only passes its carries on */
  lword middle = add(l, add(l, pair(qs_mulhi(s, W(x)[0], W(y)[0]), z), pair(W(p01)[0], z)), pair(W(p10)[0], z));
  lword hi = add(l, add(l, p11, pair(W(p01)[1], z)), add(l, pair(W(p10)[1], z), pair(W(middle)[1], z)));
  if (is_signed) {
    hi = sub(l, hi, choose(l, negative(l, x), y, zero(l)));
    hi = sub(l, hi, choose(l, negative(l, y), x, zero(l)));
  }
  return hi;
}

/* ---- shifts ---- */

static lword shl(legalizer *l, lword x, qn_sval count) {
  qn_sink *s = l->s;
  qn_sval n = qs_and(s, count, lu32(l, 31)), rest = qs_sub(s, lu32(l, 31), n);
  qn_sval lo = qs_shl(s, W(x)[0], n);
  qn_sval hi = qs_or(s, qs_shl(s, W(x)[1], n), qs_shr(s, qs_shr(s, W(x)[0], lu32(l, 1)), rest));
  qn_sval big = qs_ne(s, qs_and(s, count, lu32(l, 32)), lu32(l, 0));
  return choose(l, big, pair(lu32(l, 0), lo), pair(lo, hi));
}

static lword shr(legalizer *l, bool is_signed, lword x, qn_sval count) {
  qn_sink *s = l->s;
  qn_sval n = qs_and(s, count, lu32(l, 31)), rest = qs_sub(s, lu32(l, 31), n), fill = lu32(l, 0), hi;
  if (is_signed) {
    qn_sval top = qs_convert(s, QN_I32, W(x)[1]);
    hi = qs_convert(s, QN_U32, qs_shr(s, top, qs_convert(s, QN_I32, n)));
    fill = qs_convert(s, QN_U32, qs_shr(s, top, qs_bits(s, QN_I32, 31)));
  } else {
    hi = qs_shr(s, W(x)[1], n);
  }
  qn_sval lo = qs_or(s, qs_shr(s, W(x)[0], n), qs_shl(s, qs_shl(s, W(x)[1], lu32(l, 1)), rest));
  qn_sval big = qs_ne(s, qs_and(s, count, lu32(l, 32)), lu32(l, 0));
  return choose(l, big, pair(hi, fill), pair(lo, hi));
}

/* ---- compares and counts ---- */

static qn_sval less(legalizer *l, bool is_signed, lword x, lword y) {
  qn_sink *s = l->s;
  qn_dtype t = is_signed ? QN_I32 : QN_U32;
  qn_sval a = qs_convert(s, t, W(x)[1]), b = qs_convert(s, t, W(y)[1]);
  return qs_or(s, qs_lt(s, a, b), qs_and(s, qs_eq(s, a, b), qs_lt(s, W(x)[0], W(y)[0])));
}

static qn_sval equal(legalizer *l, lword x, lword y) {
  return qs_and(l->s, qs_eq(l->s, W(x)[0], W(y)[0]), qs_eq(l->s, W(x)[1], W(y)[1]));
}

static lword count_leading(legalizer *l, lword x) {
  qn_sink *s = l->s;
  qn_sval low = qs_add(s, qs_clz(s, W(x)[0]), lu32(l, 32));
  return pair(qs_select(s, qs_eq(s, W(x)[1], lu32(l, 0)), low, qs_clz(s, W(x)[1])), lu32(l, 0));
}

/* ---- division ---- */

static lword lanes_like(legalizer *l, lword x, uint32_t lanes) {
  return pair(qn_kb_splat(&l->b, W(x)[0], lanes), qn_kb_splat(&l->b, W(x)[1], lanes));
}

static uint32_t widest(legalizer *l, lword x, lword y) {
  uint32_t n = 1;
  const qn_sval all[4] = {W(x)[0], W(x)[1], W(y)[0], W(y)[1]};
  for (int i = 0; i < 4; ++i)
    n = qn_kb_lanes(&l->b, all[i]) > n ? qn_kb_lanes(&l->b, all[i]) : n;
  return n;
}

static bool high_is_zero(legalizer *l, lword x) {
  uint64_t bits;
  return W(x)[1].id && qn_kb_const(&l->b, W(x)[1].id, &bits) && bits == 0;
}

/* Restoring division, one quotient bit a round; the quotient grows in the low end of the dividend. */
static void divide_bits(legalizer *l, lword x, lword y, lword *out_quotient, lword *out_remainder) {
  qn_sink *s = l->s;
  qn_kbuild *b = &l->b;
  uint32_t lanes = widest(l, x, y);
  lword q0 = lanes_like(l, x, lanes), r0 = lanes_like(l, zero(l), lanes);
  qn_sval q[2] = {qn_kb_var(b, W(q0)[0]), qn_kb_var(b, W(q0)[1])},
          r[2] = {qn_kb_var(b, W(r0)[0]), qn_kb_var(b, W(r0)[1])};
  qn_kb_loop(b, lu32(l, 0), lu32(l, 64), 1, true);
  lword now = pair(qn_kb_get(b, q[0]), qn_kb_get(b, q[1])), rem = pair(qn_kb_get(b, r[0]), qn_kb_get(b, r[1]));
  qn_sval over = negative(l, rem), bit = qs_shr(s, W(now)[1], lu32(l, 31));
  rem = shl(l, rem, lu32(l, 1));
  W(rem)[0] = qs_or(s, W(rem)[0], bit);
  now = shl(l, now, lu32(l, 1));
  qn_sval fits = qs_or(s, over, qs_not(s, less(l, false, rem, y)));
  rem = choose(l, fits, sub(l, rem, y), rem);
  qn_kb_set(b, q[0], qs_or(s, W(now)[0], carry(l, fits)));
  qn_kb_set(b, q[1], W(now)[1]);
  qn_kb_set(b, r[0], W(rem)[0]);
  qn_kb_set(b, r[1], W(rem)[1]);
  qn_kb_close(b);
  *out_quotient = pair(qn_kb_get(b, q[0]), qn_kb_get(b, q[1]));
  *out_remainder = pair(qn_kb_get(b, r[0]), qn_kb_get(b, r[1]));
}

static lword divide(legalizer *l, bool remainder, bool is_signed, lword x, lword y) {
  qn_sink *s = l->s;
  uint64_t lo, hi;
  if (high_is_zero(l, x) && high_is_zero(l, y))
    return pair(remainder ? qs_irem(s, W(x)[0], W(y)[0]) : qs_idiv(s, W(x)[0], W(y)[0]), lu32(l, 0));
  if (!is_signed && qn_kb_const(&l->b, W(y)[0].id, &lo) && qn_kb_const(&l->b, W(y)[1].id, &hi)) {
    uint64_t c = hi << 32 | lo;
    unsigned n = 0;
    while (n < 63 && c >> n != 1)
      ++n;
    if (c == UINT64_C(1) << n && remainder)
      return pair(qs_and(s, W(x)[0], lu32(l, (uint32_t)(c - 1))),
                  qs_and(s, W(x)[1], lu32(l, (uint32_t)((c - 1) >> 32))));
    if (c == UINT64_C(1) << n)
      return shr(l, false, x, lu32(l, n));
  }
  qn_sval x_negative = {0}, flip = {0};
  if (is_signed) {
    x_negative = negative(l, x);
    flip = qs_xor(s, x_negative, negative(l, y));
    x = choose(l, x_negative, neg(l, x), x);
    y = choose(l, negative(l, y), neg(l, y), y);
  }
  lword q, r;
  divide_bits(l, x, y, &q, &r);
  if (is_signed) {
    q = choose(l, flip, neg(l, q), q);
    r = choose(l, x_negative, neg(l, r), r);
  }
  return remainder ? r : q;
}

/* ---- all of them ---- */

static lword bitwise(legalizer *l, qn_sop op, const lword *in) {
  lword y = {{{0}, {0}}};
  for (int w = 0; w < 2; ++w) {
    qn_sval v[2] = {in[0].w[w], op == QN_S_NOT ? (qn_sval){0} : in[1].w[w]};
    y.w[w] = l->s->emit(l->s, op, QN_U32, v, qn_sop_arity(op), 0);
  }
  return y;
}

lword qn_pair_op(legalizer *l, qn_sop op, bool is_signed, const lword *in) {
  qn_sink *s = l->s;
  switch (op) {
  case QN_S_ADD:
    return add(l, in[0], in[1]);
  case QN_S_SUB:
    return sub(l, in[0], in[1]);
  case QN_S_MUL:
    return mul(l, in[0], in[1]);
  case QN_S_NEG:
    return neg(l, in[0]);
  case QN_S_MULHI:
    return mulhi(l, is_signed, in[0], in[1]);
  case QN_S_IDIV:
    return divide(l, false, is_signed, in[0], in[1]);
  case QN_S_IREM:
    return divide(l, true, is_signed, in[0], in[1]);
  case QN_S_SHL:
    return shl(l, in[0], W(in[1])[0]);
  case QN_S_SHR:
    return shr(l, is_signed, in[0], W(in[1])[0]);
  case QN_S_EQ:
    return flag(equal(l, in[0], in[1]));
  case QN_S_NE:
    return flag(qs_not(s, equal(l, in[0], in[1])));
  case QN_S_LT:
    return flag(less(l, is_signed, in[0], in[1]));
  case QN_S_LE:
    return flag(qs_not(s, less(l, is_signed, in[1], in[0])));
  case QN_S_POPCNT:
    return pair(qs_add(s, qs_popcnt(s, W(in[0])[0]), qs_popcnt(s, W(in[0])[1])), lu32(l, 0));
  case QN_S_CLZ:
    return count_leading(l, in[0]);
  default:
    return bitwise(l, op, in);
  }
}

/* ---- floats ---- */

/* Truncates; the caller's expansion has seen to the range. `t` is f32 or f64, both exact in every step here. */
lword qn_pair_from_f32(legalizer *l, qn_sval x, bool is_signed, qn_dtype t) {
  qn_sink *s = l->s;
  qn_sval a = qs_trunc(s, qs_abs(s, x));
  qn_sval high = qs_floor(s, qs_mul(s, a, qs_const(s, t, 0x1p-32)));
  qn_sval low = qs_sub(s, a, qs_mul(s, high, qs_const(s, t, 0x1p32)));
  lword y = pair(qs_convert(s, QN_U32, low), qs_convert(s, QN_U32, high));
  return is_signed ? choose(l, qs_lt(s, x, qs_const(s, t, 0)), neg(l, y), y) : y;
}

qn_sval qn_legal_u32_to_f32(legalizer *l, qn_sval x) {
  qn_sink *s = l->s;
  if (l->caps->format != QN_CODE_SPIRV)
    return qs_convert(s, QN_F32, x);
  /* SwiftShader adds 2^31 to the rounded rest. Both halves are exact, so their sum rounds once. */
  qn_sval high = qs_convert(s, QN_F32, qs_convert(s, QN_I32, qs_shr(s, x, lu32(l, 16))));
  qn_sval low = qs_convert(s, QN_F32, qs_convert(s, QN_I32, qs_and(s, x, lu32(l, 0xffff))));
  return qs_add(s, qs_mul(s, high, qs_const(s, QN_F32, 0x1p16)), low);
}

/* The magnitude's leading 32 bits, the rest or-ed into the last, and the power of two that belongs to them. */
static qn_sval leading_bits(legalizer *l, lword x, qn_sval *out_scale, uint32_t extra) {
  qn_sink *s = l->s;
  qn_sval small = qs_eq(s, W(x)[1], lu32(l, 0));
  lword y = choose(l, small, pair(lu32(l, 0), W(x)[0]), x);
  qn_sval n = qs_and(s, qs_clz(s, W(y)[1]), lu32(l, 31));
  y = shl(l, y, n);
  qn_sval sticky = carry(l, qs_ne(s, W(y)[0], lu32(l, 0)));
  qn_sval exponent = qs_sub(s, qs_select(s, small, lu32(l, 127 + extra), lu32(l, 159 + extra)), n);
  *out_scale = qs_bitcast(s, QN_F32, qs_shl(s, exponent, lu32(l, 23)));
  return qs_or(s, W(y)[1], sticky);
}

static qn_sval signed_float(legalizer *l, qn_sval minus, qn_sval f) {
  return qs_select(l->s, minus, qs_neg(l->s, f), f);
}

qn_sval qn_pair_to_float(legalizer *l, qn_dtype to, lword x, bool is_signed) {
  qn_sink *s = l->s;
  if (to == QN_F64) { /* both halves are exact, so the sum rounds once */
    qn_sval hi = is_signed ? qs_convert(s, QN_I32, W(x)[1]) : W(x)[1];
    return qs_add(s, qs_mul(s, qs_convert(s, QN_F64, hi), qs_const(s, QN_F64, 0x1p32)), qs_convert(s, QN_F64, W(x)[0]));
  }
  qn_sval minus = {0}, scale;
  if (is_signed) {
    minus = negative(l, x);
    x = choose(l, minus, neg(l, x), x);
  }
  qn_sval bits = leading_bits(l, x, &scale, 0);
  qn_sval f = qs_mul(s, qn_legal_u32_to_f32(l, bits), scale);
  return is_signed ? signed_float(l, minus, f) : f;
}

qn_sval qn_pair_to_odd_f32(legalizer *l, lword x, bool is_signed) {
  qn_sink *s = l->s;
  qn_sval minus = {0}, scale;
  if (is_signed) {
    minus = negative(l, x);
    x = choose(l, minus, neg(l, x), x);
  }
  qn_sval bits = leading_bits(l, x, &scale, 8);
  qn_sval sticky = carry(l, qs_ne(s, qs_and(s, bits, lu32(l, 255)), lu32(l, 0)));
  qn_sval cut = qs_or(s, qs_shr(s, bits, lu32(l, 8)), sticky);
  qn_sval f = qs_mul(s, qs_convert(s, QN_F32, cut), scale);
  return is_signed ? signed_float(l, minus, f) : f;
}
