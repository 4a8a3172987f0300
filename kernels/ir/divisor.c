/* Divisibility by powers of two, for aligned vector loads. Only powers of two survive the wrap-around of integers, so nothing else is tracked.
 * Exponents stop at 30, which zero has too. */
#include "ir.h"

#include <stdlib.h>

enum { MOST = 30 };

static uint8_t low(uint8_t a, uint8_t b) { return a < b ? a : b; }

static uint8_t of_bits(uint64_t bits) {
  uint8_t n = 0;
  while (n < MOST && !(bits >> n & 1))
    ++n;
  return n;
}

static bool const_of(const qn_kernel *k, uint32_t id, uint64_t *out) {
  const qn_kinst *in = &k->insts[id];
  if (in->kop == QN_K_SPLAT)
    in = &k->insts[in->a];
  *out = in->imm;
  return in->kop == QN_K_SCALAR && in->sop == QN_S_CONST;
}

static uint8_t scalar_exponent(const qn_kernel *k, const qn_kinst *in, const uint8_t *e) {
  uint64_t c = 0;
  bool known = in->b && const_of(k, in->b, &c);
  uint8_t x = in->a ? e[in->a] : 0, y = in->b ? e[in->b] : 0;
  switch (in->sop) {
  case QN_S_CONST:
    return of_bits(in->imm);
  case QN_S_ADD:
  case QN_S_SUB:
  case QN_S_OR:
  case QN_S_XOR:
    return low(x, y);
  case QN_S_MUL:
    return (uint8_t)(x + y > MOST ? MOST : x + y);
  case QN_S_AND:
    return x > y ? x : y;
  case QN_S_NEG:
    return x;
  case QN_S_SHL:
    return (uint8_t)(known && c < 64 ? (x + c > MOST ? MOST : x + c) : x);
  case QN_S_SHR:
    return (uint8_t)(known && c < x ? x - c : 0);
  case QN_S_IDIV:
    return (uint8_t)(known && c && (c & (c - 1)) == 0 && of_bits(c) < x ? x - of_bits(c) : 0);
  case QN_S_IREM:
    return low(x, y);
  case QN_S_SELECT:
    return low(y, e[in->c]);
  case QN_S_CONVERT:
    return qn_dtype_is_int((qn_dtype)k->insts[in->a].dtype) ? x : 0;
  case QN_S_BITCAST:
    return qn_dtype_is_int((qn_dtype)k->insts[in->a].dtype) ? x : 0;
  default:
    return 0;
  }
}

static uint8_t exponent(const qn_kernel *k, const qn_kinst *in, const uint8_t *e) {
  if (!qn_dtype_is_int((qn_dtype)in->dtype))
    return 0;
  switch (in->kop) {
  case QN_K_SCALAR:
    return scalar_exponent(k, in, e);
  case QN_K_SPLAT:
  case QN_K_EXTRACT:
  case QN_K_LOW:
  case QN_K_HIGH:
    return e[in->a];
  case QN_K_JOIN:
    return low(e[in->a], e[in->b]);
  case QN_K_LOOP:
    return low(e[in->a], of_bits(in->imm));
  default:
    return 0;
  }
}

void qn_kernel_divisors(const qn_kernel *k, uint32_t *out) {
  /* The words hold the answers; exponents are kept in a parallel pass to need no memory of their own. */
  uint8_t *e = (uint8_t *)out; /* byte i is written before word i / 4 is widened below */
  for (uint32_t i = 0; i < k->count; ++i)
    e[i] = i ? exponent(k, &k->insts[i], e) : 0;
  for (uint32_t i = (uint32_t)k->count; i-- > 0;)
    out[i] = UINT32_C(1) << e[i];
}

uint32_t qn_kernel_divisor(const qn_kernel *k, uint32_t value) {
  uint32_t *all = malloc(k->count * sizeof *all);
  if (!all)
    return 1;
  qn_kernel_divisors(k, all);
  uint32_t d = value < k->count ? all[value] : 1;
  free(all);
  return d;
}

bool qn_kernel_aligned(const qn_kernel *k, uint32_t buffer, uint32_t divisor, uint32_t lanes) {
  const qn_kbuffer *b = &k->buffers[buffer];
  return b->align % lanes == 0 && divisor % lanes == 0;
}

uint32_t qn_kernel_local_bytes(const qn_kernel *k) {
  uint64_t n = 0;
  for (size_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop == QN_K_ARRAY && in->aux)
      n += (in->imm * qn_dtype_size((qn_dtype)in->dtype) + 15) / 16 * 16;
  }
  return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}
