/* What each scalar operation means, bit for bit, on the host. Every float operation is one C operation of the same
 * width, so nothing is rounded twice and nothing can be contracted. f16 and bf16 compute in f32 and round back,
 * which for one operation equals rounding once. */
#include <math.h>
#include <string.h>

#include "quern/scalar.h"

static float f32_of(uint64_t bits) {
  uint32_t u = (uint32_t)bits;
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

static uint64_t bits_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static double f64_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t bits_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static unsigned width_of(qn_dtype t) { return t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t)); }

static uint64_t cut(uint64_t x, unsigned width) { return width >= 64 ? x : x & ((UINT64_C(1) << width) - 1); }

static int64_t extend(uint64_t x, unsigned width) {
  uint64_t sign = UINT64_C(1) << (width - 1);
  return (int64_t)((cut(x, width) ^ sign) - sign);
}

static uint64_t eval_f32(qn_sop op, const uint64_t *in) {
  float a = f32_of(in[0]);
  switch (op) {
  case QN_S_ADD:
    return bits_f32(a + f32_of(in[1]));
  case QN_S_SUB:
    return bits_f32(a - f32_of(in[1]));
  case QN_S_MUL:
    return bits_f32(a * f32_of(in[1]));
  case QN_S_DIV:
    return bits_f32(a / f32_of(in[1]));
  case QN_S_FMA:
    return bits_f32(fmaf(a, f32_of(in[1]), f32_of(in[2])));
  case QN_S_NEG:
    return in[0] ^ UINT32_C(0x80000000);
  case QN_S_ABS:
    return in[0] & UINT32_C(0x7fffffff);
  case QN_S_SQRT:
    return bits_f32(sqrtf(a));
  case QN_S_FLOOR:
    return bits_f32(floorf(a));
  case QN_S_CEIL:
    return bits_f32(ceilf(a));
  case QN_S_TRUNC:
    return bits_f32(truncf(a));
  case QN_S_RINT:
    return bits_f32(rintf(a));
  case QN_S_EQ:
    return a == f32_of(in[1]);
  case QN_S_NE:
    return a != f32_of(in[1]);
  case QN_S_LT:
    return a < f32_of(in[1]);
  case QN_S_LE:
    return a <= f32_of(in[1]);
  default:
    return 0;
  }
}

static uint64_t eval_f64(qn_sop op, const uint64_t *in) {
  double a = f64_of(in[0]);
  switch (op) {
  case QN_S_ADD:
    return bits_f64(a + f64_of(in[1]));
  case QN_S_SUB:
    return bits_f64(a - f64_of(in[1]));
  case QN_S_MUL:
    return bits_f64(a * f64_of(in[1]));
  case QN_S_DIV:
    return bits_f64(a / f64_of(in[1]));
  case QN_S_FMA:
    return bits_f64(fma(a, f64_of(in[1]), f64_of(in[2])));
  case QN_S_NEG:
    return in[0] ^ UINT64_C(0x8000000000000000);
  case QN_S_ABS:
    return in[0] & UINT64_C(0x7fffffffffffffff);
  case QN_S_SQRT:
    return bits_f64(sqrt(a));
  case QN_S_FLOOR:
    return bits_f64(floor(a));
  case QN_S_CEIL:
    return bits_f64(ceil(a));
  case QN_S_TRUNC:
    return bits_f64(trunc(a));
  case QN_S_RINT:
    return bits_f64(rint(a));
  case QN_S_EQ:
    return a == f64_of(in[1]);
  case QN_S_NE:
    return a != f64_of(in[1]);
  case QN_S_LT:
    return a < f64_of(in[1]);
  case QN_S_LE:
    return a <= f64_of(in[1]);
  default:
    return 0;
  }
}

static uint64_t widen_narrow(qn_dtype t, uint64_t bits) {
  return bits_f32(t == QN_F16 ? qn_f16_to_f32((uint16_t)bits) : qn_bf16_to_f32((uint16_t)bits));
}

static uint64_t eval_narrow(qn_sop op, qn_dtype t, const uint64_t *in) {
  if (op == QN_S_NEG)
    return in[0] ^ 0x8000;
  if (op == QN_S_ABS)
    return in[0] & 0x7fff;
  uint64_t wide[3] = {0};
  for (int i = 0; i < qn_sop_arity(op); ++i)
    wide[i] = widen_narrow(t, in[i]);
  uint64_t y = eval_f32(op, wide);
  if (op >= QN_S_EQ && op <= QN_S_LE)
    return y;
  return t == QN_F16 ? qn_f32_to_f16(f32_of(y)) : qn_f32_to_bf16(f32_of(y));
}

/* Upper half of a 64 by 64 bit product by four 32-bit ones. */
static uint64_t mulhi_u64(uint64_t a, uint64_t b) {
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t mid = a1 * b0 + ((a0 * b0) >> 32);
  uint64_t mid2 = a0 * b1 + (uint32_t)mid;
  return a1 * b1 + (mid >> 32) + (mid2 >> 32);
}

static uint64_t eval_mulhi(const uint64_t *in, unsigned width, bool is_signed) {
  if (width == 64) {
    uint64_t hi = mulhi_u64(in[0], in[1]);
    if (is_signed)
      hi -= ((int64_t)in[0] < 0 ? in[1] : 0) + ((int64_t)in[1] < 0 ? in[0] : 0);
    return hi;
  }
  if (is_signed)
    return (uint64_t)(extend(in[0], width) * extend(in[1], width)) >> width;
  return (in[0] * in[1]) >> width;
}

/* The unguarded cases of division have a defined answer here too, so that a wrong expansion cannot trap. */
static uint64_t eval_divide(bool remainder, const uint64_t *in, unsigned width, bool is_signed) {
  if (cut(in[1], width) == 0)
    return remainder ? in[0] : UINT64_MAX;
  if (!is_signed)
    return remainder ? in[0] % in[1] : in[0] / in[1];
  int64_t a = extend(in[0], width), b = extend(in[1], width);
  if (b == -1)
    return remainder ? 0 : 0 - (uint64_t)a;
  return (uint64_t)(remainder ? a % b : a / b);
}

static uint64_t eval_count(qn_sop op, uint64_t a, unsigned width) {
  unsigned n = 0;
  if (op == QN_S_POPCNT) {
    for (; a; a &= a - 1)
      ++n;
    return n;
  }
  while (n < width && !(a >> (width - 1 - n) & 1))
    ++n;
  return n;
}

static uint64_t eval_int(qn_sop op, qn_dtype t, const uint64_t *in) {
  unsigned width = width_of(t);
  bool is_signed = qn_dtype_is_signed(t);
  uint64_t a = in[0];
  uint64_t y = 0;
  switch (op) {
  case QN_S_ADD:
    y = a + in[1];
    break;
  case QN_S_SUB:
    y = a - in[1];
    break;
  case QN_S_MUL:
    y = a * in[1];
    break;
  case QN_S_NEG:
    y = 0 - a;
    break;
  case QN_S_IDIV:
    y = eval_divide(false, in, width, is_signed);
    break;
  case QN_S_IREM:
    y = eval_divide(true, in, width, is_signed);
    break;
  case QN_S_MULHI:
    y = eval_mulhi(in, width, is_signed);
    break;
  case QN_S_AND:
    y = a & in[1];
    break;
  case QN_S_OR:
    y = a | in[1];
    break;
  case QN_S_XOR:
    y = a ^ in[1];
    break;
  case QN_S_NOT:
    y = ~a;
    break;
  case QN_S_SHL:
    y = a << (in[1] & (width - 1));
    break;
  case QN_S_SHR:
    y = is_signed ? (uint64_t)(extend(a, width) >> (in[1] & (width - 1))) : a >> (in[1] & (width - 1));
    break;
  case QN_S_POPCNT:
  case QN_S_CLZ:
    y = eval_count(op, a, width);
    break;
  case QN_S_EQ:
    return a == in[1];
  case QN_S_NE:
    return a != in[1];
  case QN_S_LT:
    return is_signed ? extend(a, width) < extend(in[1], width) : a < in[1];
  case QN_S_LE:
    return is_signed ? extend(a, width) <= extend(in[1], width) : a <= in[1];
  default:
    return 0;
  }
  return cut(y, width);
}

/* Rounds to f32 keeping a trace of what was lost in the last bit, so that a second, coarser rounding is still
 * correct. */
static float round_odd(double x) {
  float f = (float)x;
  if (isnan(x) || (double)f == x)
    return f;
  uint32_t u = (uint32_t)bits_f32(f);
  if (fabs((double)f) > fabs(x))
    --u;
  return f32_of(u | 1);
}

static uint64_t round_to(qn_dtype to, double x) {
  switch (to) {
  case QN_F64:
    return bits_f64(x);
  case QN_F32:
    return bits_f32((float)x);
  case QN_F16:
    return qn_f32_to_f16(round_odd(x));
  default:
    return qn_f32_to_bf16(round_odd(x));
  }
}

static uint64_t int_to_float(qn_dtype to, uint64_t magnitude, bool negative) {
  if (to == QN_F64)
    return bits_f64(negative ? -(double)magnitude : (double)magnitude);
  if (to == QN_F32)
    return bits_f32(negative ? -(float)magnitude : (float)magnitude);
  int shift = 0; /* narrow the integer to 32 bits, or-ing what falls off into the last */
  while (magnitude >> 32) {
    magnitude = magnitude >> 1 | (magnitude & 1);
    ++shift;
  }
  double x = ldexp((double)magnitude, shift);
  return round_to(to, negative ? -x : x);
}

static uint64_t float_to_int(qn_dtype to, double x) {
  unsigned width = width_of(to);
  if (isnan(x))
    return 0;
  x = trunc(x);
  if (qn_dtype_is_signed(to)) {
    double bound = ldexp(1.0, (int)width - 1);
    if (x >= bound)
      return cut(UINT64_MAX, width - 1);
    return x <= -bound ? UINT64_C(1) << (width - 1) : cut((uint64_t)(int64_t)x, width);
  }
  if (x <= 0)
    return 0;
  return x >= ldexp(1.0, (int)width) ? cut(UINT64_MAX, width) : (uint64_t)x;
}

static uint64_t eval_convert(qn_dtype to, qn_dtype from, uint64_t a) {
  if (to == from)
    return a;
  if (qn_dtype_is_float(from)) {
    double x = from == QN_F64 ? f64_of(a) : from == QN_F32 ? (double)f32_of(a) : (double)f32_of(widen_narrow(from, a));
    return qn_dtype_is_float(to) ? round_to(to, x) : float_to_int(to, x);
  }
  bool negative = qn_dtype_is_signed(from) && extend(a, width_of(from)) < 0;
  uint64_t value = negative ? (uint64_t)extend(a, width_of(from)) : a;
  if (qn_dtype_is_float(to))
    return int_to_float(to, negative ? 0 - value : value, negative);
  return cut(value, width_of(to));
}

uint64_t qn_scalar_eval(qn_sop op, qn_dtype result, qn_dtype operand, const uint64_t *in) {
  switch (op) {
  case QN_S_SELECT:
    return in[0] & 1 ? in[1] : in[2];
  case QN_S_CONVERT:
    return eval_convert(result, operand, in[0]);
  case QN_S_CONST:
  case QN_S_BITCAST:
    return in[0];
  default:
    break;
  }
  switch (operand) {
  case QN_F32:
    return eval_f32(op, in);
  case QN_F64:
    return eval_f64(op, in);
  case QN_F16:
  case QN_BF16:
    return eval_narrow(op, operand, in);
  default:
    return eval_int(op, operand, in);
  }
}
