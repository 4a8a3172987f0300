/* Scalar operations on emulated dtypes. Narrow integers compute in 32 bits and are cut back; f16 and bf16 are unpacked to f32, computed, and
 * rounded to nearest even by integer operations, subnormals and NaN included, so that no driver's conversion is involved. */
#include "legalize.h"

static const qn_sval none = {0};

static lword one_word(qn_sval v) { return (lword){{v, none}}; }

static qn_sval emit(legalizer *l, qn_sop op, qn_dtype result, const lword *in) {
  qn_sval v[3] = {in[0].w[0], none, none};
  int n = qn_sop_arity(op);
  for (int i = 1; i < n; ++i)
    v[i] = in[i].w[0];
  return l->s->emit(l->s, op, result, v, n, 0);
}

lword qn_legal_const(legalizer *l, qn_dtype t, uint64_t bits) {
  unsigned w = qn_kdtype_width(t);
  switch (qn_legal_hold(l, t)) {
  case HOLD_NARROW:
    if (qn_dtype_is_signed(t) && (bits >> (w - 1) & 1))
      bits |= UINT64_MAX << w;
    return one_word(qs_bits(l->s, qn_legal_held(l, t), bits));
  case HOLD_HALF:
    return one_word(lu32(l, (uint32_t)bits));
  case HOLD_PAIR:
    return (lword){{lu32(l, (uint32_t)bits), lu32(l, (uint32_t)(bits >> 32))}};
  default:
    return one_word(qs_bits(l->s, t, bits));
  }
}

/* ---- narrow integers ---- */

/* Cuts a 32-bit word (i32 or u32, as t is held) to t's width and extends it again. */
static qn_sval renormalize(legalizer *l, qn_dtype t, qn_sval v) {
  unsigned w = qn_kdtype_width(t);
  if (qn_dtype_is_unsigned(t))
    return qs_and(l->s, v, lu32(l, (UINT32_C(1) << w) - 1));
  qn_sval by = qs_bits(l->s, QN_I32, 32 - w);
  return qs_shr(l->s, qs_shl(l->s, v, by), by);
}

qn_sval qn_legal_to_bits(legalizer *l, qn_dtype t, qn_sval v) {
  switch (qn_legal_hold(l, t)) {
  case HOLD_HALF:
    return v;
  case HOLD_NARROW:
    if (qn_dtype_is_unsigned(t))
      return v;
    return qs_and(l->s, qs_convert(l->s, QN_U32, v), lu32(l, (UINT32_C(1) << qn_kdtype_width(t)) - 1));
  default:
    break;
  }
  if (t == QN_BOOL)
    return qs_convert(l->s, QN_U32, v);
  if (qn_kdtype_width(t) == 32)
    return qs_bitcast(l->s, QN_U32, v);
  if (t == QN_F16)
    v = qs_bitcast(l->s, QN_U16, v);
  qn_sval wide = qs_convert(l->s, QN_U32, v);
  return qn_dtype_is_signed(t) ? qs_and(l->s, wide, lu32(l, (UINT32_C(1) << qn_kdtype_width(t)) - 1)) : wide;
}

qn_sval qn_legal_from_bits(legalizer *l, qn_dtype t, qn_sval bits) {
  switch (qn_legal_hold(l, t)) {
  case HOLD_HALF:
    return bits;
  case HOLD_NARROW:
    return qn_dtype_is_unsigned(t) ? bits : renormalize(l, t, qs_convert(l->s, QN_I32, bits));
  default:
    break;
  }
  if (t == QN_BOOL)
    return qs_ne(l->s, bits, lu32(l, 0));
  if (qn_kdtype_width(t) == 32)
    return qs_bitcast(l->s, t, bits);
  if (t == QN_F16)
    return qs_bitcast(l->s, QN_F16, qs_convert(l->s, QN_U16, bits));
  return qs_convert(l->s, t, bits);
}

static lword narrow_op(legalizer *l, qn_sop op, qn_dtype t, const lword *in) {
  unsigned w = qn_kdtype_width(t);
  qn_dtype held = qn_legal_held(l, t);
  switch (op) {
  case QN_S_EQ:
  case QN_S_NE:
  case QN_S_LT:
  case QN_S_LE:
    return one_word(emit(l, op, QN_BOOL, in));
  case QN_S_AND:
  case QN_S_OR:
  case QN_S_XOR:
  case QN_S_SHR:
  case QN_S_IREM:
    return one_word(emit(l, op, held, in));
  case QN_S_MULHI:
    return one_word(qs_shr(l->s, emit(l, QN_S_MUL, held, in), qs_bits(l->s, held, w)));
  case QN_S_POPCNT:
  case QN_S_CLZ: {
    const lword bits[3] = {one_word(qn_legal_to_bits(l, t, in[0].w[0]))}; /* as long as emit may read */
    qn_sval n = emit(l, op, QN_U32, bits);
    if (op == QN_S_CLZ)
      n = qs_sub(l->s, n, lu32(l, 32 - w));
    return one_word(qs_convert(l->s, held, n));
  }
  default:
    return one_word(renormalize(l, t, emit(l, op, held, in)));
  }
}

/* ---- f16 and bf16 ---- */

static qn_sval u32_of(legalizer *l, qn_sval f) { return qs_bitcast(l->s, QN_U32, f); }
static qn_sval f32_of(legalizer *l, qn_sval u) { return qs_bitcast(l->s, QN_F32, u); }

static qn_sval unpack(legalizer *l, qn_dtype t, qn_sval h) {
  qn_sink *s = l->s;
  if (t == QN_BF16)
    return f32_of(l, qs_shl(s, h, lu32(l, 16)));
  qn_sval sign = qs_shl(s, qs_and(s, h, lu32(l, 0x8000)), lu32(l, 16)), em = qs_and(s, h, lu32(l, 0x7fff));
  qn_sval moved = qs_shl(s, em, lu32(l, 13));
  qn_sval normal = qs_add(s, moved, lu32(l, 0x38000000));
  qn_sval special = qs_or(s, moved, lu32(l, 0x7f800000));
  /* below 2^-14 the value is em * 2^-24, a normal f32 */
  qn_sval tiny = u32_of(l, qs_mul(s, qs_convert(s, QN_F32, em), qs_bits(s, QN_F32, 0x33800000)));
  qn_sval x = qs_select(s, qs_lt(s, em, lu32(l, 0x400)), tiny, normal);
  x = qs_select(s, qs_le(s, lu32(l, 0x7c00), em), special, x);
  return f32_of(l, qs_or(s, x, sign));
}

static qn_sval pack_bf16(legalizer *l, qn_sval u) {
  qn_sink *s = l->s;
  qn_sval top = qs_shr(s, u, lu32(l, 16)), odd = qs_and(s, top, lu32(l, 1));
  qn_sval rounded = qs_shr(s, qs_add(s, qs_add(s, u, lu32(l, 0x7fff)), odd), lu32(l, 16));
  qn_sval nan = qs_lt(s, lu32(l, 0x7f800000), qs_and(s, u, lu32(l, 0x7fffffff)));
  return qs_select(s, nan, qs_or(s, top, lu32(l, 0x40)), rounded);
}

static qn_sval pack_f16(legalizer *l, qn_sval u) {
  qn_sink *s = l->s;
  qn_sval sign = qs_and(s, qs_shr(s, u, lu32(l, 16)), lu32(l, 0x8000)), m = qs_and(s, u, lu32(l, 0x7fffffff));
  qn_sval odd = qs_and(s, qs_shr(s, m, lu32(l, 13)), lu32(l, 1));
  qn_sval normal = qs_shr(s, qs_sub(s, qs_add(s, qs_add(s, m, lu32(l, 0xfff)), odd), lu32(l, 0x38000000)), lu32(l, 13));
  /* subnormal: the significand in units of 2^-24; a shift of 31 leaves nothing, which is right for all that is smaller */
  qn_sval e = qs_shr(s, m, lu32(l, 23));
  qn_sval by = qs_select(s, qs_lt(s, e, lu32(l, 96)), lu32(l, 31), qs_sub(s, lu32(l, 126), e));
  by = qs_and(s, by, lu32(l, 31)); /* the shift stays legal where the other arm is taken */
  by = qs_select(s, qs_eq(s, by, lu32(l, 0)), lu32(l, 1), by);
  qn_sval fraction = qs_or(s, qs_and(s, m, lu32(l, 0x7fffff)), lu32(l, 0x800000));
  qn_sval kept_odd = qs_and(s, qs_shr(s, fraction, by), lu32(l, 1));
  qn_sval half = qs_sub(s, qs_shl(s, lu32(l, 1), qs_sub(s, by, lu32(l, 1))), lu32(l, 1));
  qn_sval tiny = qs_shr(s, qs_add(s, qs_add(s, fraction, half), kept_odd), by);
  qn_sval x = qs_select(s, qs_lt(s, m, lu32(l, 0x38800000)), tiny, normal);
  x = qs_select(s, qs_le(s, lu32(l, 0x477ff000), m), lu32(l, 0x7c00), x);
  qn_sval nan = qs_or(s, qs_and(s, qs_shr(s, m, lu32(l, 13)), lu32(l, 0x3ff)), lu32(l, 0x7e00));
  x = qs_select(s, qs_lt(s, lu32(l, 0x7f800000), m), nan, x);
  return qs_or(s, x, sign);
}

static lword pack(legalizer *l, qn_dtype t, qn_sval f) {
  qn_sval u = u32_of(l, f);
  return one_word(t == QN_F16 ? pack_f16(l, u) : pack_bf16(l, u));
}

static lword half_op(legalizer *l, qn_sop op, qn_dtype t, const lword *in) {
  if (op == QN_S_NEG)
    return one_word(qs_xor(l->s, in[0].w[0], lu32(l, 0x8000)));
  if (op == QN_S_ABS)
    return one_word(qs_and(l->s, in[0].w[0], lu32(l, 0x7fff)));
  lword wide[3] = {{{none, none}}, {{none, none}}, {{none, none}}};
  for (int i = 0; i < qn_sop_arity(op); ++i)
    wide[i] = one_word(unpack(l, t, in[i].w[0]));
  if (op >= QN_S_EQ && op <= QN_S_LE)
    return one_word(emit(l, op, QN_BOOL, wide));
  return pack(l, t, emit(l, op, QN_F32, wide));
}

/* ---- conversion ---- */

/* f64 to f32 with what is lost or-ed into the last bit. */
static qn_sval odd_f32(legalizer *l, qn_sval x) {
  qn_sink *s = l->s;
  qn_sval f = qs_convert(s, QN_F32, x), back = qs_convert(s, QN_F64, f), u = u32_of(l, f);
  qn_sval exact = qs_or(s, qs_eq(s, back, x), qs_ne(s, x, x));
  qn_sval above = qs_lt(s, qs_abs(s, x), qs_abs(s, back));
  qn_sval odd = qs_or(s, qs_sub(s, u, qs_convert(s, QN_U32, above)), lu32(l, 1));
  return f32_of(l, qs_select(s, exact, u, odd));
}

/* A 64-bit integer that the device has, as two words all the same. */
static lword split64(legalizer *l, qn_sval x) {
  qn_sval u = qs_convert(l->s, QN_U64, x);
  return (lword){{qs_convert(l->s, QN_U32, u), qs_convert(l->s, QN_U32, qs_shr(l->s, u, qs_bits(l->s, QN_U64, 32)))}};
}

static qn_sval join64(legalizer *l, qn_dtype t, lword x) {
  qn_sval hi = qs_shl(l->s, qs_convert(l->s, QN_U64, x.w[1]), qs_bits(l->s, QN_U64, 32));
  return qs_convert(l->s, t, qs_or(l->s, hi, qs_convert(l->s, QN_U64, x.w[0])));
}

/* Any number to f32 such that rounding it again to f16 or bf16 rounds once. */
static qn_sval to_odd_f32(legalizer *l, qn_dtype from, lword x) {
  qn_sink *s = l->s;
  if (from == QN_F32)
    return x.w[0];
  if (from == QN_F64)
    return odd_f32(l, x.w[0]);
  if (qn_legal_hold(l, from) == HOLD_HALF)
    return unpack(l, from, x.w[0]);
  if (qn_kdtype_width(from) <= 16)
    return qs_convert(s, QN_F32, x.w[0]);
  bool is_signed = qn_dtype_is_signed(from);
  if (qn_kdtype_width(from) == 32) {
    qn_sval hi = is_signed ? qs_convert(s, QN_U32, qs_shr(s, x.w[0], qs_bits(s, QN_I32, 31))) : lu32(l, 0);
    x = (lword){{qs_convert(s, QN_U32, x.w[0]), hi}};
  } else if (qn_legal_hold(l, from) == HOLD_SAME) {
    x = split64(l, x.w[0]);
  }
  return qn_pair_to_odd_f32(l, x, is_signed);
}

static lword to_pair(legalizer *l, qn_dtype to, qn_dtype from, lword x) {
  qn_sink *s = l->s;
  if (from == QN_F32 || from == QN_F64)
    return qn_pair_from_f32(l, x.w[0], qn_dtype_is_signed(to), from);
  if (qn_legal_hold(l, from) == HOLD_PAIR)
    return x;
  if (!qn_dtype_is_signed(from))
    return (lword){{qs_convert(s, QN_U32, x.w[0]), lu32(l, 0)}};
  qn_sval i = qs_convert(s, QN_I32, x.w[0]);
  return (lword){{qs_convert(s, QN_U32, i), qs_convert(s, QN_U32, qs_shr(s, i, qs_bits(s, QN_I32, 31)))}};
}

static lword to_narrow(legalizer *l, qn_dtype to, qn_dtype from, lword x) {
  qn_sink *s = l->s;
  qn_dtype held = qn_legal_held(l, to);
  qn_sval v = x.w[0];
  if (qn_dtype_is_float(from))
    v = qs_convert(s, QN_I32, v);
  return one_word(renormalize(l, to, qs_convert(s, held, v)));
}

static lword convert_word(legalizer *l, qn_dtype to, qn_dtype from, lword x) {
  qn_sink *s = l->s;
  hold_kind f = qn_legal_hold(l, from), t = qn_legal_hold(l, to);
  if (from == QN_U32 && to == QN_F32)
    return one_word(qn_legal_u32_to_f32(l, x.w[0]));
  if (to == from || (f == HOLD_SAME && t == HOLD_SAME))
    return to == from ? x : one_word(qs_convert(s, to, x.w[0]));
  if (t == HOLD_HALF) {
    if (from == QN_BOOL)
      return one_word(qs_select(s, x.w[0], qn_legal_const(l, to, to == QN_F16 ? 0x3c00 : 0x3f80).w[0], lu32(l, 0)));
    return pack(l, to, to_odd_f32(l, from, x));
  }
  if (f == HOLD_HALF) {
    x = one_word(unpack(l, from, x.w[0]));
    from = QN_F32;
  } else if (f == HOLD_NARROW) {
    from = qn_legal_held(l, from);
  } else if (f == HOLD_PAIR && qn_dtype_is_float(to)) {
    if (to == QN_F16)
      return one_word(qs_convert(s, QN_F16, qn_pair_to_odd_f32(l, x, qn_dtype_is_signed(from))));
    return one_word(qn_pair_to_float(l, to, x, qn_dtype_is_signed(from)));
  } else if (f == HOLD_PAIR && t != HOLD_PAIR) {
    from = QN_U32; /* the low word wraps as it must */
  }
  if (t == HOLD_PAIR)
    return to_pair(l, to, from, x);
  if (t == HOLD_NARROW)
    return to_narrow(l, to, from, x);
  return one_word(qs_convert(s, to, x.w[0]));
}

static lword bitcast(legalizer *l, qn_dtype to, qn_dtype from, lword x) {
  hold_kind f = qn_legal_hold(l, from), t = qn_legal_hold(l, to);
  if (f == HOLD_PAIR && t == HOLD_PAIR)
    return x;
  if (f == HOLD_SAME && t == HOLD_SAME)
    return one_word(qs_bitcast(l->s, to, x.w[0]));
  if (f == HOLD_PAIR || t == HOLD_PAIR) {
    qn_legal_fail(l, QN_ERR(QN_UNSUPPORTED, "kernel %s: the bits of f64 on %s (%s), which has no 64-bit integers",
                            l->k->name, l->caps->id, l->caps->name));
    return x;
  }
  return one_word(qn_legal_from_bits(l, to, qn_legal_to_bits(l, from, x.w[0])));
}

lword qn_legal_scalar(legalizer *l, qn_sop op, qn_dtype result, qn_dtype operand, const lword *in) {
  hold_kind hold = qn_legal_hold(l, operand);
  if (op == QN_S_CONVERT)
    return convert_word(l, result, operand, in[0]);
  if (op == QN_S_BITCAST)
    return bitcast(l, result, operand, in[0]);
  if (op == QN_S_SELECT) {
    lword y = one_word(qs_select(l->s, in[0].w[0], in[1].w[0], in[2].w[0]));
    if (hold == HOLD_PAIR)
      y.w[1] = qs_select(l->s, in[0].w[0], in[1].w[1], in[2].w[1]);
    return y;
  }
  if (hold == HOLD_NARROW)
    return narrow_op(l, op, operand, in);
  if (hold == HOLD_HALF)
    return half_op(l, op, operand, in);
  if (hold == HOLD_PAIR)
    return qn_pair_op(l, op, qn_dtype_is_signed(operand), in);
  bool wide = operand == QN_I64 || operand == QN_U64;
  if (wide && !l->wide64 && (op == QN_S_MULHI || op == QN_S_POPCNT || op == QN_S_CLZ)) {
    lword x[2] = {split64(l, in[0].w[0]), op == QN_S_MULHI ? split64(l, in[1].w[0]) : in[0]};
    return one_word(join64(l, result, qn_pair_op(l, op, qn_dtype_is_signed(operand), x)));
  }
  return one_word(emit(l, op, result, in));
}
