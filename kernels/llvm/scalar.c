/* Scalar operations as LLVM instructions, lane by lane, to the bit what qn_scalar_eval says. No fast-math flag is ever
 * set, so LLVM may neither contract nor reorder; integer operations wrap. */
#include "walk.h"

#include <string.h>

LLVMTypeRef qn_llvm_int_type(const qn_llvm_walk *w, unsigned bits, unsigned lanes) {
  LLVMTypeRef t = LLVMIntTypeInContext(w->context, bits);
  return lanes > 1 ? LLVMVectorType(t, lanes) : t;
}

static LLVMTypeRef float_type(const qn_llvm_walk *w, qn_dtype t, unsigned lanes) {
  LLVMTypeRef f = t == QN_F64   ? LLVMDoubleTypeInContext(w->context)
                  : t == QN_F32 ? LLVMFloatTypeInContext(w->context)
                                : LLVMHalfTypeInContext(w->context);
  return lanes > 1 ? LLVMVectorType(f, lanes) : f;
}

static unsigned width_of(qn_dtype t) { return t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t)); }

LLVMTypeRef qn_llvm_type(const qn_llvm_walk *w, qn_dtype t, unsigned lanes) {
  if (t == QN_F32 || t == QN_F64)
    return float_type(w, t, lanes);
  return qn_llvm_int_type(w, width_of(t), lanes);
}

LLVMTypeRef qn_llvm_memory_type(const qn_llvm_walk *w, qn_dtype t, unsigned lanes) {
  return t == QN_BOOL ? qn_llvm_int_type(w, 8, lanes) : qn_llvm_type(w, t, lanes);
}

LLVMValueRef qn_llvm_u32(const qn_llvm_walk *w, uint64_t x) {
  return LLVMConstInt(LLVMInt32TypeInContext(w->context), x, 0);
}

LLVMValueRef qn_llvm_uniform(LLVMTypeRef type, unsigned lanes, uint64_t x) {
  if (lanes <= 1)
    return LLVMConstInt(type, x, 0);
  LLVMValueRef all[64];
  LLVMValueRef one = LLVMConstInt(LLVMGetElementType(type), x, 0);
  for (unsigned i = 0; i < lanes; ++i)
    all[i] = one;
  return LLVMConstVector(all, lanes);
}

LLVMValueRef qn_llvm_splat(const qn_llvm_walk *w, LLVMValueRef scalar, unsigned lanes) {
  if (lanes <= 1)
    return scalar;
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
  LLVMValueRef first = LLVMBuildInsertElement(w->b, LLVMGetPoison(type), scalar, qn_llvm_u32(w, 0), "");
  return LLVMBuildShuffleVector(w->b, first, LLVMGetPoison(type), LLVMConstNull(qn_llvm_int_type(w, 32, lanes)), "");
}

LLVMValueRef qn_llvm_intrinsic(const qn_llvm_walk *w, const char *name, LLVMTypeRef *overloads, size_t overload_count,
                               LLVMValueRef *args, unsigned arg_count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(w->module, id, overloads, overload_count);
  LLVMTypeRef type = LLVMIntrinsicGetType(w->context, id, overloads, overload_count);
  return LLVMBuildCall2(w->b, type, fn, args, arg_count, "");
}

static LLVMValueRef unary_intrinsic(const qn_llvm_walk *w, const char *name, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return qn_llvm_intrinsic(w, name, &type, 1, &x, 1);
}

/* ---- narrow floats ---- */

static LLVMValueRef widen_narrow(const qn_llvm_walk *w, qn_dtype t, LLVMValueRef bits, unsigned lanes) {
  LLVMTypeRef f32 = float_type(w, QN_F32, lanes);
  if (t == QN_F16)
    return LLVMBuildFPExt(w->b, LLVMBuildBitCast(w->b, bits, float_type(w, QN_F16, lanes), ""), f32, "");
  LLVMTypeRef u32 = qn_llvm_int_type(w, 32, lanes);
  LLVMValueRef x = LLVMBuildShl(w->b, LLVMBuildZExt(w->b, bits, u32, ""), qn_llvm_uniform(u32, lanes, 16), "");
  return LLVMBuildBitCast(w->b, x, f32, "");
}

static LLVMValueRef round_narrow(const qn_llvm_walk *w, qn_dtype t, LLVMValueRef x, unsigned lanes) {
  LLVMTypeRef u16 = qn_llvm_int_type(w, 16, lanes), u32 = qn_llvm_int_type(w, 32, lanes);
  if (t == QN_F16)
    return LLVMBuildBitCast(w->b, LLVMBuildFPTrunc(w->b, x, float_type(w, QN_F16, lanes), ""), u16, "");
  LLVMValueRef sixteen = qn_llvm_uniform(u32, lanes, 16);
  LLVMValueRef bits = LLVMBuildBitCast(w->b, x, u32, "");
  LLVMValueRef top = LLVMBuildLShr(w->b, bits, sixteen, "");
  LLVMValueRef odd = LLVMBuildAnd(w->b, top, qn_llvm_uniform(u32, lanes, 1), "");
  LLVMValueRef up = LLVMBuildAdd(w->b, LLVMBuildAdd(w->b, bits, qn_llvm_uniform(u32, lanes, 0x7fff), ""), odd, "");
  LLVMValueRef rounded = LLVMBuildLShr(w->b, up, sixteen, "");
  LLVMValueRef quiet = LLVMBuildOr(w->b, top, qn_llvm_uniform(u32, lanes, 0x40), "");
  LLVMValueRef is_nan = LLVMBuildFCmp(w->b, LLVMRealUNO, x, x, "");
  return LLVMBuildTrunc(w->b, LLVMBuildSelect(w->b, is_nan, quiet, rounded, ""), u16, "");
}

/* f64 to f32 with what was lost kept in the last bit, so that rounding again to 16 bits is correct. */
static LLVMValueRef round_odd(const qn_llvm_walk *w, LLVMValueRef x, unsigned lanes) {
  LLVMTypeRef f32 = float_type(w, QN_F32, lanes), u32 = qn_llvm_int_type(w, 32, lanes);
  LLVMValueRef near = LLVMBuildFPTrunc(w->b, x, f32, "");
  LLVMValueRef back = LLVMBuildFPExt(w->b, near, LLVMTypeOf(x), "");
  LLVMValueRef inexact = LLVMBuildFCmp(w->b, LLVMRealONE, back, x, "");
  LLVMValueRef above =
      LLVMBuildFCmp(w->b, LLVMRealOGT, unary_intrinsic(w, "llvm.fabs", back), unary_intrinsic(w, "llvm.fabs", x), "");
  LLVMValueRef bits = LLVMBuildBitCast(w->b, near, u32, "");
  LLVMValueRef down = LLVMBuildSub(w->b, bits, LLVMBuildZExt(w->b, above, u32, ""), "");
  LLVMValueRef odd = LLVMBuildOr(w->b, down, qn_llvm_uniform(u32, lanes, 1), "");
  return LLVMBuildBitCast(w->b, LLVMBuildSelect(w->b, inexact, odd, bits, ""), f32, "");
}

/* ---- conversions ---- */

static LLVMValueRef float_to_float(const qn_llvm_walk *w, qn_dtype to, qn_dtype from, LLVMValueRef x, unsigned lanes) {
  if (from == QN_F16 || from == QN_BF16) {
    x = widen_narrow(w, from, x, lanes);
    from = QN_F32;
  }
  if (to == QN_F64)
    return LLVMBuildFPExt(w->b, x, float_type(w, QN_F64, lanes), "");
  if (to == QN_F32)
    return from == QN_F64 ? LLVMBuildFPTrunc(w->b, x, float_type(w, QN_F32, lanes), "") : x;
  return round_narrow(w, to, from == QN_F64 ? round_odd(w, x, lanes) : x, lanes);
}

/* An integer of 64 bits cut to one that a double holds exactly, without changing how it rounds to 16 bits. */
static LLVMValueRef sticky_u64(const qn_llvm_walk *w, LLVMValueRef x, unsigned lanes) {
  LLVMTypeRef u64 = qn_llvm_int_type(w, 64, lanes);
  LLVMValueRef low = LLVMBuildAnd(w->b, x, qn_llvm_uniform(u64, lanes, 0xffff), "");
  LLVMValueRef lost = LLVMBuildICmp(w->b, LLVMIntNE, low, LLVMConstNull(u64), "");
  LLVMValueRef sticky = LLVMBuildShl(w->b, LLVMBuildZExt(w->b, lost, u64, ""), qn_llvm_uniform(u64, lanes, 16), "");
  LLVMValueRef kept = LLVMBuildAnd(w->b, x, qn_llvm_uniform(u64, lanes, ~UINT64_C(0xffff)), "");
  LLVMValueRef cut = LLVMBuildOr(w->b, kept, sticky, "");
  LLVMValueRef small = LLVMBuildICmp(w->b, LLVMIntULT, x, qn_llvm_uniform(u64, lanes, UINT64_C(1) << 32), "");
  return LLVMBuildSelect(w->b, small, x, cut, "");
}

static LLVMValueRef int_to_float(const qn_llvm_walk *w, qn_dtype to, qn_dtype from, LLVMValueRef x, unsigned lanes) {
  bool is_signed = qn_dtype_is_signed(from);
  if (to == QN_F32 || to == QN_F64) {
    LLVMTypeRef type = float_type(w, to, lanes);
    return is_signed ? LLVMBuildSIToFP(w->b, x, type, "") : LLVMBuildUIToFP(w->b, x, type, "");
  }
  LLVMTypeRef f64 = float_type(w, QN_F64, lanes);
  LLVMValueRef exact;
  if (width_of(from) == 64 && is_signed) {
    LLVMValueRef negative = LLVMBuildICmp(w->b, LLVMIntSLT, x, LLVMConstNull(LLVMTypeOf(x)), "");
    LLVMValueRef size = LLVMBuildSelect(w->b, negative, LLVMBuildNeg(w->b, x, ""), x, "");
    LLVMValueRef d = LLVMBuildUIToFP(w->b, sticky_u64(w, size, lanes), f64, "");
    exact = LLVMBuildSelect(w->b, negative, LLVMBuildFNeg(w->b, d, ""), d, "");
  } else if (width_of(from) == 64) {
    exact = LLVMBuildUIToFP(w->b, sticky_u64(w, x, lanes), f64, "");
  } else {
    exact = is_signed ? LLVMBuildSIToFP(w->b, x, f64, "") : LLVMBuildUIToFP(w->b, x, f64, "");
  }
  return round_narrow(w, to, round_odd(w, exact, lanes), lanes);
}

static LLVMValueRef convert(const qn_llvm_walk *w, qn_dtype to, qn_dtype from, LLVMValueRef x, unsigned lanes) {
  if (to == from)
    return x;
  if (qn_dtype_is_float(from) && qn_dtype_is_float(to))
    return float_to_float(w, to, from, x, lanes);
  if (qn_dtype_is_float(to))
    return int_to_float(w, to, from, x, lanes);
  LLVMTypeRef type = qn_llvm_type(w, to, lanes);
  if (qn_dtype_is_float(from)) {
    if (from == QN_F16 || from == QN_BF16)
      x = widen_narrow(w, from, x, lanes);
    return qn_dtype_is_signed(to) ? LLVMBuildFPToSI(w->b, x, type, "") : LLVMBuildFPToUI(w->b, x, type, "");
  }
  if (width_of(to) <= width_of(from))
    return width_of(to) == width_of(from) ? x : LLVMBuildTrunc(w->b, x, type, "");
  return qn_dtype_is_signed(from) ? LLVMBuildSExt(w->b, x, type, "") : LLVMBuildZExt(w->b, x, type, "");
}

/* ---- operations ---- */

static LLVMValueRef constant(const qn_llvm_walk *w, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)in->dtype;
  LLVMValueRef bits = qn_llvm_uniform(qn_llvm_int_type(w, width_of(t), in->lanes), in->lanes, in->imm);
  return t == QN_F32 || t == QN_F64 ? LLVMConstBitCast(bits, qn_llvm_type(w, t, in->lanes)) : bits;
}

static LLVMValueRef float_op(const qn_llvm_walk *w, qn_sop op, LLVMValueRef *x) {
  LLVMTypeRef type = LLVMTypeOf(x[0]);
  switch (op) {
  case QN_S_ADD:
    return LLVMBuildFAdd(w->b, x[0], x[1], "");
  case QN_S_SUB:
    return LLVMBuildFSub(w->b, x[0], x[1], "");
  case QN_S_MUL:
    return LLVMBuildFMul(w->b, x[0], x[1], "");
  case QN_S_DIV:
    return LLVMBuildFDiv(w->b, x[0], x[1], "");
  case QN_S_FMA:
    return qn_llvm_intrinsic(w, "llvm.fma", &type, 1, x, 3);
  case QN_S_NEG:
    return LLVMBuildFNeg(w->b, x[0], "");
  case QN_S_ABS:
    return unary_intrinsic(w, "llvm.fabs", x[0]);
  case QN_S_SQRT:
    return unary_intrinsic(w, "llvm.sqrt", x[0]);
  case QN_S_FLOOR:
    return unary_intrinsic(w, "llvm.floor", x[0]);
  case QN_S_CEIL:
    return unary_intrinsic(w, "llvm.ceil", x[0]);
  case QN_S_TRUNC:
    return unary_intrinsic(w, "llvm.trunc", x[0]);
  case QN_S_RINT:
    return unary_intrinsic(w, "llvm.roundeven", x[0]);
  case QN_S_EQ:
    return LLVMBuildFCmp(w->b, LLVMRealOEQ, x[0], x[1], "");
  case QN_S_NE:
    return LLVMBuildFCmp(w->b, LLVMRealUNE, x[0], x[1], "");
  case QN_S_LT:
    return LLVMBuildFCmp(w->b, LLVMRealOLT, x[0], x[1], "");
  case QN_S_LE:
    return LLVMBuildFCmp(w->b, LLVMRealOLE, x[0], x[1], "");
  default:
    return NULL;
  }
}

static LLVMValueRef narrow_op(const qn_llvm_walk *w, qn_sop op, qn_dtype t, LLVMValueRef *x, unsigned lanes) {
  LLVMTypeRef u16 = qn_llvm_int_type(w, 16, lanes);
  if (op == QN_S_NEG)
    return LLVMBuildXor(w->b, x[0], qn_llvm_uniform(u16, lanes, 0x8000), "");
  if (op == QN_S_ABS)
    return LLVMBuildAnd(w->b, x[0], qn_llvm_uniform(u16, lanes, 0x7fff), "");
  LLVMValueRef wide[3] = {NULL};
  for (int i = 0; i < qn_sop_arity(op); ++i)
    wide[i] = widen_narrow(w, t, x[i], lanes);
  LLVMValueRef y = float_op(w, op, wide);
  return op >= QN_S_EQ && op <= QN_S_LE ? y : round_narrow(w, t, y, lanes);
}

static LLVMValueRef mulhi(const qn_llvm_walk *w, qn_dtype t, LLVMValueRef *x, unsigned lanes) {
  unsigned width = width_of(t);
  LLVMTypeRef twice = qn_llvm_int_type(w, 2 * width, lanes);
  LLVMValueRef a, b;
  if (qn_dtype_is_signed(t)) {
    a = LLVMBuildSExt(w->b, x[0], twice, "");
    b = LLVMBuildSExt(w->b, x[1], twice, "");
  } else {
    a = LLVMBuildZExt(w->b, x[0], twice, "");
    b = LLVMBuildZExt(w->b, x[1], twice, "");
  }
  LLVMValueRef product = LLVMBuildMul(w->b, a, b, "");
  LLVMValueRef high = LLVMBuildLShr(w->b, product, qn_llvm_uniform(twice, lanes, width), "");
  return LLVMBuildTrunc(w->b, high, LLVMTypeOf(x[0]), "");
}

static LLVMValueRef count_zeros(const qn_llvm_walk *w, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  LLVMValueRef args[] = {x, LLVMConstInt(LLVMInt1TypeInContext(w->context), 0, 0)};
  return qn_llvm_intrinsic(w, "llvm.ctlz", &type, 1, args, 2);
}

static LLVMValueRef int_op(const qn_llvm_walk *w, qn_sop op, qn_dtype t, LLVMValueRef *x, unsigned lanes) {
  bool is_signed = qn_dtype_is_signed(t);
  switch (op) {
  case QN_S_ADD:
    return LLVMBuildAdd(w->b, x[0], x[1], "");
  case QN_S_SUB:
    return LLVMBuildSub(w->b, x[0], x[1], "");
  case QN_S_MUL:
    return LLVMBuildMul(w->b, x[0], x[1], "");
  case QN_S_NEG:
    return LLVMBuildNeg(w->b, x[0], "");
  case QN_S_IDIV:
    return is_signed ? LLVMBuildSDiv(w->b, x[0], x[1], "") : LLVMBuildUDiv(w->b, x[0], x[1], "");
  case QN_S_IREM:
    return is_signed ? LLVMBuildSRem(w->b, x[0], x[1], "") : LLVMBuildURem(w->b, x[0], x[1], "");
  case QN_S_MULHI:
    return mulhi(w, t, x, lanes);
  case QN_S_AND:
    return LLVMBuildAnd(w->b, x[0], x[1], "");
  case QN_S_OR:
    return LLVMBuildOr(w->b, x[0], x[1], "");
  case QN_S_XOR:
    return LLVMBuildXor(w->b, x[0], x[1], "");
  case QN_S_NOT:
    return LLVMBuildNot(w->b, x[0], "");
  case QN_S_SHL:
    return LLVMBuildShl(w->b, x[0], x[1], "");
  case QN_S_SHR:
    return is_signed ? LLVMBuildAShr(w->b, x[0], x[1], "") : LLVMBuildLShr(w->b, x[0], x[1], "");
  case QN_S_EQ:
    return LLVMBuildICmp(w->b, LLVMIntEQ, x[0], x[1], "");
  case QN_S_NE:
    return LLVMBuildICmp(w->b, LLVMIntNE, x[0], x[1], "");
  case QN_S_LT:
    return LLVMBuildICmp(w->b, is_signed ? LLVMIntSLT : LLVMIntULT, x[0], x[1], "");
  case QN_S_LE:
    return LLVMBuildICmp(w->b, is_signed ? LLVMIntSLE : LLVMIntULE, x[0], x[1], "");
  case QN_S_POPCNT:
    return unary_intrinsic(w, "llvm.ctpop", x[0]);
  case QN_S_CLZ:
    return count_zeros(w, x[0]);
  default:
    return NULL;
  }
}

LLVMValueRef qn_llvm_scalar(qn_llvm_walk *w, const qn_kinst *in) {
  qn_sop op = (qn_sop)in->sop;
  unsigned lanes = in->lanes;
  if (op == QN_S_CONST)
    return constant(w, in);
  const qn_kinst *insts = w->kernel->insts;
  uint32_t ids[3] = {in->a, in->b, in->c};
  LLVMValueRef x[3] = {NULL};
  for (int i = 0; i < qn_sop_arity(op); ++i) {
    x[i] = w->value[ids[i]];
    if (lanes > 1 && insts[ids[i]].lanes <= 1)
      x[i] = qn_llvm_splat(w, x[i], lanes);
  }
  qn_dtype operand = (qn_dtype)insts[in->a].dtype;
  switch (op) {
  case QN_S_SELECT:
    return LLVMBuildSelect(w->b, x[0], x[1], x[2], "");
  case QN_S_CONVERT:
    return convert(w, (qn_dtype)in->dtype, operand, x[0], lanes);
  case QN_S_BITCAST:
    return LLVMBuildBitCast(w->b, x[0], qn_llvm_type(w, (qn_dtype)in->dtype, lanes), "");
  default:
    break;
  }
  if (operand == QN_F32 || operand == QN_F64)
    return float_op(w, op, x);
  if (operand == QN_F16 || operand == QN_BF16)
    return narrow_op(w, op, operand, x, lanes);
  return int_op(w, op, operand, x, lanes);
}
