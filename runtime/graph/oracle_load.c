/* Typed loads and stores of the oracle: memory in any dtype to the class's widest type and back. Stores round once: a narrow float
 * is made from the double by way of a float rounded to odd, which leaves the one rounding to the last step. */
#include <string.h>

#include "oracle.h"

int qn_oracle_bits(qn_dtype t) { return t == QN_BOOL ? 1 : (int)(8 * qn_dtype_size(t)); }

/* x as a float whose last bit says "inexact": rounding that to fewer bits equals rounding x. */
static float round_to_odd(double x) {
  float f = (float)x;
  if ((double)f == x || x != x)
    return f;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  double magnitude = x < 0 ? -x : x;
  double got = f < 0 ? -(double)f : (double)f;
  if (got > magnitude)
    bits -= 1;
  bits |= 1;
  memcpy(&f, &bits, sizeof f);
  return f;
}

uint16_t qn_oracle_f64_to_f16(double x) { return qn_f32_to_f16(round_to_odd(x)); }
uint16_t qn_oracle_f64_to_bf16(double x) { return qn_f32_to_bf16(round_to_odd(x)); }

#define LOAD(type, expr)                                                                                               \
  do {                                                                                                                 \
    const type *p = (const type *)data + first;                                                                        \
    for (int64_t i = 0; i < count; i++)                                                                                \
      out[i] = (expr);                                                                                                 \
  } while (0)
#define STORE(type, expr)                                                                                              \
  do {                                                                                                                 \
    type *p = (type *)data + first;                                                                                    \
    for (int64_t i = 0; i < count; i++)                                                                                \
      p[i] = (type)(expr);                                                                                             \
  } while (0)

void qn_oracle_load_f(qn_dtype t, const void *data, int64_t first, int64_t count, double *out) {
  switch (t) {
  case QN_F16:
    LOAD(uint16_t, (double)qn_f16_to_f32(p[i]));
    break;
  case QN_BF16:
    LOAD(uint16_t, (double)qn_bf16_to_f32(p[i]));
    break;
  case QN_F32:
    LOAD(float, (double)p[i]);
    break;
  case QN_F64:
    LOAD(double, p[i]);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "a float dtype");
  }
}

void qn_oracle_load_i(qn_dtype t, const void *data, int64_t first, int64_t count, int64_t *out) {
  switch (t) {
  case QN_I8:
    LOAD(int8_t, p[i]);
    break;
  case QN_I16:
    LOAD(int16_t, p[i]);
    break;
  case QN_I32:
    LOAD(int32_t, p[i]);
    break;
  case QN_I64:
    LOAD(int64_t, p[i]);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "a signed dtype");
  }
}

void qn_oracle_load_u(qn_dtype t, const void *data, int64_t first, int64_t count, uint64_t *out) {
  switch (t) {
  case QN_BOOL:
    LOAD(uint8_t, p[i] != 0);
    break;
  case QN_U8:
    LOAD(uint8_t, p[i]);
    break;
  case QN_U16:
    LOAD(uint16_t, p[i]);
    break;
  case QN_U32:
    LOAD(uint32_t, p[i]);
    break;
  case QN_U64:
    LOAD(uint64_t, p[i]);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "an unsigned dtype");
  }
}

void qn_oracle_store_f(qn_dtype t, void *data, int64_t first, int64_t count, const double *in) {
  switch (t) {
  case QN_F16:
    STORE(uint16_t, qn_oracle_f64_to_f16(in[i]));
    break;
  case QN_BF16:
    STORE(uint16_t, qn_oracle_f64_to_bf16(in[i]));
    break;
  case QN_F32:
    STORE(float, in[i]);
    break;
  case QN_F64:
    STORE(double, in[i]);
    break;
  case QN_BOOL:
    STORE(uint8_t, in[i] != 0);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "a float dtype");
  }
}

void qn_oracle_store_i(qn_dtype t, void *data, int64_t first, int64_t count, const int64_t *in) {
  switch (t) {
  case QN_I8:
    STORE(int8_t, in[i]);
    break;
  case QN_I16:
    STORE(int16_t, in[i]);
    break;
  case QN_I32:
    STORE(int32_t, in[i]);
    break;
  case QN_I64:
    STORE(int64_t, in[i]);
    break;
  case QN_BOOL:
    STORE(uint8_t, in[i] & 1);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "a signed dtype");
  }
}

void qn_oracle_store_u(qn_dtype t, void *data, int64_t first, int64_t count, const uint64_t *in) {
  switch (t) {
  case QN_BOOL:
    STORE(uint8_t, in[i] & 1);
    break;
  case QN_U8:
    STORE(uint8_t, in[i]);
    break;
  case QN_U16:
    STORE(uint16_t, in[i]);
    break;
  case QN_U32:
    STORE(uint32_t, in[i]);
    break;
  case QN_U64:
    STORE(uint64_t, in[i]);
    break;
  default:
    qn_check_failed(__FILE__, __LINE__, "an unsigned dtype");
  }
}
