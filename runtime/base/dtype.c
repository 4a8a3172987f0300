/* The table of element types and the conversions of 16-bit floats, done on bits so that they depend on no compiler. */
#include "quern/dtype.h"

#include <string.h>

typedef struct dtype_row {
  const char *name, *mlir, *file; /* `file` is safetensors' spelling */
  unsigned char size;
  qn_dtype_class class;
} dtype_row;

static const dtype_row rows[QN_DTYPE_COUNT] = {
    [QN_DTYPE_NONE] = {"none", "none", "none", 0, QN_CLASS_BOOL},
    [QN_BOOL] = {"bool", "i1", "BOOL", 1, QN_CLASS_BOOL},
    [QN_I8] = {"i8", "i8", "I8", 1, QN_CLASS_SIGNED},
    [QN_I16] = {"i16", "i16", "I16", 2, QN_CLASS_SIGNED},
    [QN_I32] = {"i32", "i32", "I32", 4, QN_CLASS_SIGNED},
    [QN_I64] = {"i64", "i64", "I64", 8, QN_CLASS_SIGNED},
    [QN_U8] = {"u8", "ui8", "U8", 1, QN_CLASS_UNSIGNED},
    [QN_U16] = {"u16", "ui16", "U16", 2, QN_CLASS_UNSIGNED},
    [QN_U32] = {"u32", "ui32", "U32", 4, QN_CLASS_UNSIGNED},
    [QN_U64] = {"u64", "ui64", "U64", 8, QN_CLASS_UNSIGNED},
    [QN_F16] = {"f16", "f16", "F16", 2, QN_CLASS_FLOAT},
    [QN_BF16] = {"bf16", "bf16", "BF16", 2, QN_CLASS_FLOAT},
    [QN_F32] = {"f32", "f32", "F32", 4, QN_CLASS_FLOAT},
    [QN_F64] = {"f64", "f64", "F64", 8, QN_CLASS_FLOAT},
    [QN_C64] = {"c64", "complex<f32>", "C64", 8, QN_CLASS_COMPLEX},
    [QN_C128] = {"c128", "complex<f64>", "C128", 16, QN_CLASS_COMPLEX},
};

static const dtype_row *row_of(qn_dtype t) {
  size_t i = (size_t)t;
  return &rows[i < QN_DTYPE_COUNT ? i : QN_DTYPE_NONE];
}

size_t qn_dtype_size(qn_dtype t) { return row_of(t)->size; }

qn_dtype_class qn_dtype_classify(qn_dtype t) { return row_of(t)->class; }

const char *qn_dtype_name(qn_dtype t) { return row_of(t)->name; }

const char *qn_dtype_mlir_name(qn_dtype t) { return row_of(t)->mlir; }

qn_dtype qn_dtype_parse(const char *name) {
  if (!name)
    return QN_DTYPE_NONE;
  for (int i = QN_DTYPE_NONE + 1; i < QN_DTYPE_COUNT; i++)
    if (strcmp(name, rows[i].name) == 0 || strcmp(name, rows[i].mlir) == 0 || strcmp(name, rows[i].file) == 0)
      return (qn_dtype)i;
  return QN_DTYPE_NONE;
}

qn_dtype qn_dtype_wide(qn_dtype t) { return t == QN_F16 || t == QN_BF16 ? QN_F32 : t; }

qn_dtype qn_dtype_part(qn_dtype t) { return t == QN_C64 ? QN_F32 : t == QN_C128 ? QN_F64 : QN_DTYPE_NONE; }

qn_dtype qn_dtype_complex(qn_dtype part) { return part == QN_F32 ? QN_C64 : part == QN_F64 ? QN_C128 : QN_DTYPE_NONE; }

qn_dtype qn_dtype_unsigned(qn_dtype t) {
  static const qn_dtype by_size[17] = {[1] = QN_U8, [2] = QN_U16, [4] = QN_U32, [8] = QN_U64};
  return by_size[qn_dtype_size(t)];
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

float qn_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f)
    return float_of(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    /* zero or subnormal: fraction * 2^-24, exact in f32 */
    float magnitude = (float)fraction * 0x1p-24f;
    return float_of(sign | bits_of(magnitude));
  }
  return float_of(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

uint16_t qn_f32_to_f16(float x) {
  uint32_t bits = bits_of(x);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) /* NaN: keep the top of the payload, stay a NaN */
    return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) /* 65520 and above round to infinity */
    return (uint16_t)(sign | 0x7c00u);
  uint32_t shift, fraction, base;
  if (magnitude < 0x38800000u) { /* below 2^-14: subnormal in f16 */
    if (magnitude < 0x33000000u) /* below 2^-25, or an f32 subnormal: rounds to zero */
      return (uint16_t)sign;
    shift = 126u - (magnitude >> 23);
    fraction = (magnitude & 0x7fffffu) | 0x800000u;
    base = 0;
  } else {
    shift = 13;
    fraction = magnitude & 0x7fffffu;
    base = ((magnitude >> 23) - 112u) << 10;
  }
  uint32_t kept = fraction >> shift;
  uint32_t rest = fraction & ((1u << shift) - 1u);
  uint32_t half = 1u << (shift - 1u);
  if (rest > half || (rest == half && (kept & 1u)))
    kept++; /* a carry moves into the exponent, which is what rounding up means */
  return (uint16_t)(sign | (base + kept));
}

float qn_bf16_to_f32(uint16_t bits) { return float_of((uint32_t)bits << 16); }

uint16_t qn_f32_to_bf16(float x) {
  uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return (uint16_t)((bits >> 16) | 0x40u);
  uint32_t odd = (bits >> 16) & 1u;
  return (uint16_t)((bits + 0x7fffu + odd) >> 16);
}
