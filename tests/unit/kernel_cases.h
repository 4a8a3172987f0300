/* Kernels that apply one scalar operation to arrays, inputs within its domain, and sets of device capabilities: for the tests of the interpreter,
 * of legalization and of the printers. */
#ifndef QUERN_TEST_KERNEL_CASES_H
#define QUERN_TEST_KERNEL_CASES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/kernel.h"

enum { CASE_ELEMENTS = 64 };

static const qn_dtype case_dtypes[] = {QN_BOOL, QN_I8,  QN_I16, QN_I32,  QN_I64, QN_U8, QN_U16,
                                       QN_U32,  QN_U64, QN_F16, QN_BF16, QN_F32, QN_F64};
enum { CASE_DTYPES = sizeof case_dtypes / sizeof *case_dtypes };

typedef struct op_case {
  qn_sop op;
  qn_dtype operand, result;
} op_case;

static inline bool case_allowed(qn_sop op, qn_dtype t) {
  bool is_float = qn_dtype_is_float(t), is_int = qn_dtype_is_int(t), is_bool = t == QN_BOOL;
  switch (op) {
  case QN_S_ADD:
  case QN_S_SUB:
  case QN_S_MUL:
  case QN_S_NEG:
  case QN_S_LT:
  case QN_S_LE:
    return is_float || is_int;
  case QN_S_DIV:
  case QN_S_ABS:
  case QN_S_SQRT:
  case QN_S_FLOOR:
  case QN_S_CEIL:
  case QN_S_TRUNC:
  case QN_S_RINT:
    return is_float;
  case QN_S_FMA:
    return t == QN_F32 || t == QN_F64;
  case QN_S_IDIV:
  case QN_S_IREM:
  case QN_S_SHL:
  case QN_S_SHR:
  case QN_S_MULHI:
    return is_int;
  case QN_S_AND:
  case QN_S_OR:
  case QN_S_XOR:
  case QN_S_NOT:
    return is_int || is_bool;
  case QN_S_POPCNT:
  case QN_S_CLZ:
    return qn_dtype_is_unsigned(t);
  case QN_S_EQ:
  case QN_S_NE:
  case QN_S_SELECT:
    return true;
  default:
    return false;
  }
}

/* All operations on all dtypes; returns how many, and writes them where `out` is not NULL. */
static inline size_t case_list(op_case *out) {
  size_t n = 0;
  for (int op = QN_S_ADD; op < QN_S_COUNT; ++op)
    for (size_t i = 0; i < CASE_DTYPES; ++i) {
      qn_dtype t = case_dtypes[i];
      if (op == QN_S_CONVERT || op == QN_S_BITCAST) {
        for (size_t j = 0; j < CASE_DTYPES; ++j) {
          qn_dtype to = case_dtypes[j];
          bool ok = to != t && to != QN_BOOL &&
                    (op == QN_S_CONVERT || (t != QN_BOOL && qn_dtype_size(t) == qn_dtype_size(to)));
          if (ok && out)
            out[n] = (op_case){(qn_sop)op, t, to};
          n += ok;
        }
      } else if (case_allowed((qn_sop)op, t)) {
        if (out)
          out[n] = (op_case){(qn_sop)op, t, op >= QN_S_EQ && op <= QN_S_LE ? QN_BOOL : t};
        ++n;
      }
    }
  return n;
}

/* out[i] = op(a[i], b[i], c[i]), `lanes` elements a group; binding 3 is the result. */
static inline void case_build(qn_kernel *k, op_case c, uint32_t lanes) {
  qn_kbuild b;
  memset(k, 0, sizeof *k);
  QN_ASSERT_OK(qn_kbuild_begin(&b, k));
  int arity = qn_sop_arity(c.op);
  qn_sval none = {0}, in[3] = {none, none, none};
  uint32_t buffers[4];
  for (uint32_t i = 0; i < 3; ++i) {
    qn_dtype t = c.op == QN_S_SELECT && i == 0 ? QN_BOOL : c.operand;
    buffers[i] = qn_kb_buffer(&b, t, i, qn_kb_new_param(&b), true, false, 64);
  }
  buffers[3] = qn_kb_buffer(&b, c.result, 3, qn_kb_new_param(&b), false, true, 64);
  qn_sval at = qs_mul(&b.sink, qn_kb_group(&b), qs_bits(&b.sink, QN_U32, lanes));
  for (int i = 0; i < arity; ++i)
    in[i] = qn_kb_load(&b, buffers[i], at, lanes, none);
  qn_kb_store(&b, buffers[3], at, b.sink.emit(&b.sink, c.op, c.result, in, arity, 0), none);
  QN_ASSERT_OK(qn_kbuild_end(&b));
}

/* ---- inputs ---- */

static inline uint64_t case_random(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = *state;
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static inline uint64_t case_get(const void *data, qn_dtype t, size_t i) {
  uint64_t x = 0;
  memcpy(&x, (const uint8_t *)data + i * qn_dtype_size(t),
         qn_dtype_size(t)); /* little-endian, as every host of the tests */
  return x;
}

static inline void case_set(void *data, qn_dtype t, size_t i, uint64_t x) {
  memcpy((uint8_t *)data + i * qn_dtype_size(t), &x, qn_dtype_size(t));
}

static inline uint64_t case_float(qn_dtype t, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return qn_scalar_eval(QN_S_CONVERT, t, QN_F64, &bits);
}

static inline double case_double(qn_dtype t, uint64_t bits) {
  uint64_t wide = qn_scalar_eval(QN_S_CONVERT, QN_F64, t, &bits);
  double x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

static inline uint64_t case_input(op_case c, int slot, size_t i, uint64_t *state) {
  static const double special[] = {0.0,     -0.0,  1,     -1,    0.5,  1.5,    2.5,     -2.5,
                                   65504,   65519, 65520, 65536, 6e-5, 6.1e-5, 5.96e-8, 2.98e-8,
                                   2.97e-8, 1e-39, 3e38,  1e30,  255,  256,    257,     4096};
  qn_dtype t = c.op == QN_S_SELECT && slot == 0 ? QN_BOOL : c.operand;
  unsigned width = t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t));
  uint64_t mask = width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1, r = case_random(state);
  if (qn_dtype_is_float(t)) {
    double x =
        i < sizeof special / sizeof *special ? special[(i + (size_t)slot * 5) % (sizeof special / sizeof *special)] : 0;
    if (i == 30)
      x = (double)INFINITY;
    else if (i == 31)
      x = (double)NAN;
    else if (i >= 24)
      x = ldexp((double)(int64_t)r / 9.3e18, (int)(case_random(state) % 40) - 20);
    if (c.op == QN_S_CONVERT && qn_dtype_is_int(c.result)) {
      unsigned w = (unsigned)(8 * qn_dtype_size(c.result));
      double top = ldexp(1.0, (int)w - 1);
      if (!(fabs(x) < top))
        x = top / 2;
      if (qn_dtype_is_unsigned(c.result))
        x = fabs(x) * (i % 2 ? 1.9 : 1);
      /* the wide end, where the low word matters too */
      if (i > 50)
        x = trunc(ldexp((double)(r >> 11) / 9007199254740992.0, (int)w - (int)qn_dtype_is_signed(c.result)));
      if (t != QN_F64 && i > 50 && w > 8)
        x = x / 2; /* rounding to the operand's dtype stays inside */
      double most = ldexp(1.0, (int)w - (int)qn_dtype_is_signed(c.result));
      if (!(case_double(t, case_float(t, x)) < most) || !(case_double(t, case_float(t, x)) > -top))
        x = 1;
      if (qn_dtype_is_signed(c.result) && i % 3 == 0)
        x = -x;
    }
    return case_float(t, x);
  }
  uint64_t x = i % 4 == 0   ? r
               : i % 4 == 1 ? r >> (case_random(state) % 64)
               : i % 4 == 2 ? (uint64_t)((int64_t)r >> (case_random(state) % 64))
                            : i % 8;
  if (i % 16 == 5)
    x = UINT64_C(1) << (width - 1);
  if (slot == 1 && (c.op == QN_S_SHL || c.op == QN_S_SHR))
    x = r % width;
  x &= mask;
  if (slot == 1 && (c.op == QN_S_IDIV || c.op == QN_S_IREM) && (x == 0 || x == mask))
    x = 3;
  return x;
}

/* The four bindings for one case: `pad` elements before the data, all bytes of the result's set to 0xa5. */
typedef struct case_data {
  uint8_t *memory[4];
  void *bindings[4];
  size_t bytes;
} case_data;

static inline case_data case_data_make(op_case c, uint32_t pad, uint64_t seed) {
  case_data d;
  d.bytes = (CASE_ELEMENTS + pad + 16) * 8;
  for (int i = 0; i < 4; ++i) {
    d.memory[i] = malloc(d.bytes);
    cr_assert_not_null(d.memory[i]);
    memset(d.memory[i], 0xa5, d.bytes);
    d.bindings[i] = d.memory[i];
  }
  for (int slot = 0; slot < qn_sop_arity(c.op); ++slot) {
    qn_dtype t = c.op == QN_S_SELECT && slot == 0 ? QN_BOOL : c.operand;
    for (size_t i = 0; i < CASE_ELEMENTS; ++i)
      case_set(d.memory[slot], t, i + pad, case_input(c, slot, i, &seed));
  }
  return d;
}

static inline void case_data_free(case_data *d) {
  for (int i = 0; i < 4; ++i)
    free(d->memory[i]);
}

static inline bool case_nan(qn_dtype t, uint64_t bits) { return qn_dtype_is_float(t) && isnan(case_double(t, bits)); }

/* ---- devices ---- */

typedef struct case_device {
  const char *name;
  qn_device_caps caps;
} case_device;

static const case_device case_devices[] = {
    {"host",
     {.format = QN_CODE_NATIVE,
      .vector_lanes = 16,
      .f16 = true,
      .f64 = true,
      .i64 = true,
      .i16 = true,
      .i8 = true,
      .storage8 = true,
      .storage16 = true,
      .fma = true}},
    {"opencl",
     {.format = QN_CODE_OPENCL_C,
      .vector_lanes = 8,
      .f64 = true,
      .i64 = true,
      .i16 = true,
      .i8 = true,
      .storage8 = true,
      .storage16 = true,
      .fma = true}},
    {"vulkan",
     {.format = QN_CODE_SPIRV,
      .vector_lanes = 4,
      .f64 = true,
      .i64 = true,
      .i16 = true,
      .i8 = true,
      .storage8 = true,
      .storage16 = true,
      .fma = true}},
    {"poor4", {.format = QN_CODE_SPIRV, .vector_lanes = 4, .f64 = true, .fma = true}},
    {"poor1", {.format = QN_CODE_SPIRV, .vector_lanes = 1, .f64 = true, .fma = true}},
};
enum { CASE_DEVICES = sizeof case_devices / sizeof *case_devices };

#endif
