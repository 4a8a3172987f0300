/* Scalar operations of the interpreter: loops over lanes for f32, f64 and 32-bit integers; all else goes lane by lane through the reference
 * evaluator, whose semantics the fast loops repeat bit for bit. */
#include "interp.h"

#include <math.h>
#include <string.h>

#define IN(type, slot) ((const type *)(const void *)(base + s->slot))
#define OUT(type) ((type *)(void *)(base + s->dst))

/* name, element, result, expression of x, y, z */
#define LANES1(name, T, R, expr)                                                                                       \
  static void name(const kstep *s, uint8_t *base) {                                                                    \
    const T *a = IN(T, a);                                                                                             \
    R *out = OUT(R);                                                                                                   \
    for (unsigned i = 0; i < s->lanes; ++i) {                                                                          \
      T x = a[i];                                                                                                      \
      out[i] = (R)(expr);                                                                                              \
    }                                                                                                                  \
  }
#define LANES2(name, T, R, expr)                                                                                       \
  static void name(const kstep *s, uint8_t *base) {                                                                    \
    const T *a = IN(T, a), *b = IN(T, b);                                                                              \
    R *out = OUT(R);                                                                                                   \
    for (unsigned i = 0; i < s->lanes; ++i) {                                                                          \
      T x = a[i], y = b[i];                                                                                            \
      out[i] = (R)(expr);                                                                                              \
    }                                                                                                                  \
  }
#define LANES3(name, T, expr)                                                                                          \
  static void name(const kstep *s, uint8_t *base) {                                                                    \
    const T *a = IN(T, a), *b = IN(T, b), *c = IN(T, c);                                                               \
    T *out = OUT(T);                                                                                                   \
    for (unsigned i = 0; i < s->lanes; ++i) {                                                                          \
      T x = a[i], y = b[i], z = c[i];                                                                                  \
      out[i] = (expr);                                                                                                 \
    }                                                                                                                  \
  }

LANES2(add_f32, float, float, x + y)
LANES2(sub_f32, float, float, x - y)
LANES2(mul_f32, float, float, x *y)
LANES2(div_f32, float, float, x / y)
LANES3(fma_f32, float, fmaf(x, y, z))
LANES3(fma_f64, double, fma(x, y, z))

/* The same one rounding by the processor's instruction; without it fmaf is a call that may compute in software. */
#if defined(__x86_64__)
__attribute__((target("fma"))) LANES3(fma_f32_cpu, float, __builtin_fmaf(x, y, z)) __attribute__((target("fma")))
LANES3(fma_f64_cpu, double, __builtin_fma(x, y, z)) static bool cpu_has_fma(void) {
  return __builtin_cpu_supports("fma");
}
#else
#define fma_f32_cpu fma_f32
#define fma_f64_cpu fma_f64
static bool cpu_has_fma(void) { return false; }
#endif

LANES1(sqrt_f32, float, float, sqrtf(x))
LANES1(floor_f32, float, float, floorf(x))
LANES1(ceil_f32, float, float, ceilf(x))
LANES1(trunc_f32, float, float, truncf(x))
LANES1(rint_f32, float, float, rintf(x))
LANES2(eq_f32, float, uint8_t, x == y)
LANES2(ne_f32, float, uint8_t, x != y)
LANES2(lt_f32, float, uint8_t, x < y)
LANES2(le_f32, float, uint8_t, x <= y)
LANES1(neg_bits32, uint32_t, uint32_t, x ^ UINT32_C(0x80000000))
LANES1(abs_bits32, uint32_t, uint32_t, x &UINT32_C(0x7fffffff))

LANES2(add_f64, double, double, x + y)
LANES2(sub_f64, double, double, x - y)
LANES2(mul_f64, double, double, x *y)
LANES2(div_f64, double, double, x / y)
LANES2(eq_f64, double, uint8_t, x == y)
LANES2(ne_f64, double, uint8_t, x != y)
LANES2(lt_f64, double, uint8_t, x < y)
LANES2(le_f64, double, uint8_t, x <= y)

LANES2(add_32, uint32_t, uint32_t, x + y)
LANES2(sub_32, uint32_t, uint32_t, x - y)
LANES2(mul_32, uint32_t, uint32_t, x *y)
LANES1(neg_32, uint32_t, uint32_t, 0u - x)
LANES2(and_32, uint32_t, uint32_t, x &y)
LANES2(or_32, uint32_t, uint32_t, x | y)
LANES2(xor_32, uint32_t, uint32_t, x ^ y)
LANES1(not_32, uint32_t, uint32_t, ~x)
LANES2(shl_32, uint32_t, uint32_t, x << (y & 31))
LANES2(shr_u32, uint32_t, uint32_t, x >> (y & 31))
LANES2(shr_i32, int32_t, int32_t, x >> (y & 31))
LANES2(eq_32, uint32_t, uint8_t, x == y)
LANES2(ne_32, uint32_t, uint8_t, x != y)
LANES2(lt_u32, uint32_t, uint8_t, x < y)
LANES2(le_u32, uint32_t, uint8_t, x <= y)
LANES2(lt_i32, int32_t, uint8_t, x < y)
LANES2(le_i32, int32_t, uint8_t, x <= y)
LANES2(mulhi_u32, uint32_t, uint32_t, ((uint64_t)x * y) >> 32)

LANES2(add_64, uint64_t, uint64_t, x + y)
LANES2(sub_64, uint64_t, uint64_t, x - y)
LANES2(mul_64, uint64_t, uint64_t, x *y)

LANES2(and_bool, uint8_t, uint8_t, x &y)
LANES2(or_bool, uint8_t, uint8_t, x | y)
LANES2(xor_bool, uint8_t, uint8_t, x ^ y)
LANES1(not_bool, uint8_t, uint8_t, x ^ 1)

LANES1(i32_to_f32, int32_t, float, x)
LANES1(u32_to_f32, uint32_t, float, x)
LANES1(i32_to_64, int32_t, uint64_t, (int64_t)x)
LANES1(u32_to_64, uint32_t, uint64_t, x)
LANES1(f16_to_f32, uint16_t, float, qn_f16_to_f32(x))
LANES1(bf16_to_f32, uint16_t, float, qn_bf16_to_f32(x))
LANES1(f32_to_f16, float, uint16_t, qn_f32_to_f16(x))
LANES1(f32_to_bf16, float, uint16_t, qn_f32_to_bf16(x))
LANES1(u8_to_32, uint8_t, uint32_t, x)

static void copy(const kstep *s, uint8_t *base) { memmove(base + s->dst, base + s->a, (size_t)s->size * s->lanes); }

static void f32_to_i32(const kstep *s, uint8_t *base) {
  const float *a = IN(float, a);
  int32_t *out = OUT(int32_t);
  for (unsigned i = 0; i < s->lanes; ++i) {
    float x = a[i];
    if (x >= -2147483648.0f && x < 2147483648.0f)
      out[i] = (int32_t)x;
    else /* never by a right expansion; the answer is the evaluator's all the same */
      out[i] = x != x ? 0 : x < 0 ? INT32_MIN : INT32_MAX;
  }
}

#define SELECT(name, T)                                                                                                \
  static void name(const kstep *s, uint8_t *base) {                                                                    \
    const uint8_t *p = base + s->a;                                                                                    \
    const T *x = IN(T, b), *y = IN(T, c);                                                                              \
    T *out = OUT(T);                                                                                                   \
    for (unsigned i = 0; i < s->lanes; ++i)                                                                            \
      out[i] = p[i] & 1 ? x[i] : y[i];                                                                                 \
  }
SELECT(select_8, uint8_t)
SELECT(select_16, uint16_t)
SELECT(select_32, uint32_t)
SELECT(select_64, uint64_t)

static uint64_t bits_at(const uint8_t *p, size_t size) {
  uint64_t x = 0;
  uint8_t b8;
  uint16_t b16;
  uint32_t b32;
  switch (size) {
  case 1:
    memcpy(&b8, p, 1);
    return b8;
  case 2:
    memcpy(&b16, p, 2);
    return b16;
  case 4:
    memcpy(&b32, p, 4);
    return b32;
  default:
    memcpy(&x, p, 8);
    return x;
  }
}

static void bits_put(uint8_t *p, size_t size, uint64_t x) {
  uint8_t b8 = (uint8_t)x;
  uint16_t b16 = (uint16_t)x;
  uint32_t b32 = (uint32_t)x;
  switch (size) {
  case 1:
    memcpy(p, &b8, 1);
    return;
  case 2:
    memcpy(p, &b16, 2);
    return;
  case 4:
    memcpy(p, &b32, 4);
    return;
  default:
    memcpy(p, &x, 8);
    return;
  }
}

static void general(const kstep *s, uint8_t *base) {
  size_t from = qn_dtype_size((qn_dtype)s->operand);
  int arity = qn_sop_arity((qn_sop)s->sop);
  const uint32_t places[3] = {s->a, s->b, s->c};
  for (unsigned i = 0; i < s->lanes; ++i) {
    uint64_t in[3] = {0};
    for (int o = 0; o < arity; ++o) {
      size_t size = o == 0 && s->sop == QN_S_SELECT ? 1 : from;
      in[o] = bits_at(base + places[o] + i * size, size);
    }
    bits_put(base + s->dst + i * (size_t)s->size, s->size,
             qn_scalar_eval((qn_sop)s->sop, (qn_dtype)s->dtype, (qn_dtype)s->operand, in));
  }
}

/* ---- choosing ---- */

static const kstep_fn fast_f32[QN_S_COUNT] = {
    [QN_S_ADD] = add_f32,     [QN_S_SUB] = sub_f32,    [QN_S_MUL] = mul_f32,     [QN_S_DIV] = div_f32,
    [QN_S_FMA] = fma_f32,     [QN_S_NEG] = neg_bits32, [QN_S_ABS] = abs_bits32,  [QN_S_SQRT] = sqrt_f32,
    [QN_S_FLOOR] = floor_f32, [QN_S_CEIL] = ceil_f32,  [QN_S_TRUNC] = trunc_f32, [QN_S_RINT] = rint_f32,
    [QN_S_EQ] = eq_f32,       [QN_S_NE] = ne_f32,      [QN_S_LT] = lt_f32,       [QN_S_LE] = le_f32,
};
static const kstep_fn fast_f64[QN_S_COUNT] = {
    [QN_S_ADD] = add_f64, [QN_S_SUB] = sub_f64, [QN_S_MUL] = mul_f64, [QN_S_DIV] = div_f64, [QN_S_FMA] = fma_f64,
    [QN_S_EQ] = eq_f64,   [QN_S_NE] = ne_f64,   [QN_S_LT] = lt_f64,   [QN_S_LE] = le_f64,
};
static const kstep_fn fast_u32[QN_S_COUNT] = {
    [QN_S_ADD] = add_32, [QN_S_SUB] = sub_32, [QN_S_MUL] = mul_32, [QN_S_NEG] = neg_32, [QN_S_AND] = and_32,
    [QN_S_OR] = or_32,   [QN_S_XOR] = xor_32, [QN_S_NOT] = not_32, [QN_S_SHL] = shl_32, [QN_S_SHR] = shr_u32,
    [QN_S_EQ] = eq_32,   [QN_S_NE] = ne_32,   [QN_S_LT] = lt_u32,  [QN_S_LE] = le_u32,  [QN_S_MULHI] = mulhi_u32,
};
static const kstep_fn fast_i32[QN_S_COUNT] = {
    [QN_S_ADD] = add_32, [QN_S_SUB] = sub_32, [QN_S_MUL] = mul_32, [QN_S_NEG] = neg_32, [QN_S_AND] = and_32,
    [QN_S_OR] = or_32,   [QN_S_XOR] = xor_32, [QN_S_NOT] = not_32, [QN_S_SHL] = shl_32, [QN_S_SHR] = shr_i32,
    [QN_S_EQ] = eq_32,   [QN_S_NE] = ne_32,   [QN_S_LT] = lt_i32,  [QN_S_LE] = le_i32,
};
static const kstep_fn fast_64[QN_S_COUNT] = {[QN_S_ADD] = add_64, [QN_S_SUB] = sub_64, [QN_S_MUL] = mul_64};
static const kstep_fn fast_bool[QN_S_COUNT] = {
    [QN_S_AND] = and_bool, [QN_S_OR] = or_bool, [QN_S_XOR] = xor_bool, [QN_S_NOT] = not_bool};

static const kstep_fn *const fast[QN_DTYPE_COUNT] = {
    [QN_F32] = fast_f32, [QN_F64] = fast_f64, [QN_U32] = fast_u32,   [QN_I32] = fast_i32,
    [QN_U64] = fast_64,  [QN_I64] = fast_64,  [QN_BOOL] = fast_bool,
};

typedef struct conversion {
  uint8_t from, to;
  kstep_fn fn;
} conversion;
static const conversion conversions[] = {
    {QN_I32, QN_F32, i32_to_f32},   {QN_U32, QN_F32, u32_to_f32},   {QN_F32, QN_I32, f32_to_i32},
    {QN_I32, QN_U32, copy},         {QN_U32, QN_I32, copy},         {QN_I32, QN_I64, i32_to_64},
    {QN_I32, QN_U64, i32_to_64},    {QN_U32, QN_I64, u32_to_64},    {QN_U32, QN_U64, u32_to_64},
    {QN_F16, QN_F32, f16_to_f32},   {QN_BF16, QN_F32, bf16_to_f32}, {QN_F32, QN_F16, f32_to_f16},
    {QN_F32, QN_BF16, f32_to_bf16}, {QN_U8, QN_U32, u8_to_32},      {QN_U8, QN_I32, u8_to_32},
    {QN_BOOL, QN_U32, u8_to_32},    {QN_BOOL, QN_I32, u8_to_32},    {QN_I64, QN_U64, copy},
    {QN_U64, QN_I64, copy},
};

kstep_fn qn_interp_scalar(qn_sop op, qn_dtype result, qn_dtype operand) {
  static const kstep_fn selects[9] = {[1] = select_8, [2] = select_16, [4] = select_32, [8] = select_64};
  if (op == QN_S_BITCAST)
    return copy;
  if (op == QN_S_SELECT)
    return selects[qn_dtype_size(operand)];
  if (op == QN_S_CONVERT) {
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; ++i)
      if (conversions[i].from == operand && conversions[i].to == result)
        return conversions[i].fn;
    return general;
  }
  if (op == QN_S_FMA && (operand == QN_F32 || operand == QN_F64) && cpu_has_fma())
    return operand == QN_F32 ? fma_f32_cpu : fma_f64_cpu;
  return fast[operand] && fast[operand][op] ? fast[operand][op] : general;
}
