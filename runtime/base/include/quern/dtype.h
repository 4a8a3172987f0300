/* Element types. Names as they print: StableHLO's (i1, i8, ui8, f32 ...) and the short form of files (bool, i8, u8, f32). */
#ifndef QUERN_DTYPE_H
#define QUERN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_dtype {
  QN_DTYPE_NONE = 0,
  QN_BOOL, /* one byte in memory, 0 or 1 */
  QN_I8,
  QN_I16,
  QN_I32,
  QN_I64,
  QN_U8,
  QN_U16,
  QN_U32,
  QN_U64,
  QN_F16,
  QN_BF16,
  QN_F32,
  QN_F64,
  QN_C64,  /* pair of f32: real, imaginary */
  QN_C128, /* pair of f64 */
  QN_DTYPE_COUNT
} qn_dtype;

typedef enum qn_dtype_class {
  QN_CLASS_BOOL,
  QN_CLASS_SIGNED,
  QN_CLASS_UNSIGNED,
  QN_CLASS_FLOAT,
  QN_CLASS_COMPLEX
} qn_dtype_class;

size_t qn_dtype_size(qn_dtype t); /* bytes of one element in memory */
qn_dtype_class qn_dtype_classify(qn_dtype t);
const char *qn_dtype_name(qn_dtype t);      /* "f32", "u8", "bool" */
const char *qn_dtype_mlir_name(qn_dtype t); /* "f32", "ui8", "i1", "complex<f32>" */
qn_dtype qn_dtype_parse(
    const char *name); /* either form; QN_DTYPE_NONE if unknown. Also safetensors' "F32", "BOOL", "BF16" */
static inline bool qn_dtype_is_float(qn_dtype t) { return t >= QN_F16 && t <= QN_F64; }
static inline bool qn_dtype_is_complex(qn_dtype t) { return t == QN_C64 || t == QN_C128; }
static inline bool qn_dtype_is_signed(qn_dtype t) { return t >= QN_I8 && t <= QN_I64; }
static inline bool qn_dtype_is_unsigned(qn_dtype t) { return t >= QN_U8 && t <= QN_U64; }
static inline bool qn_dtype_is_int(qn_dtype t) { return t >= QN_I8 && t <= QN_U64; }
/* What the parts of a complex dtype are, and the complex dtype with such parts; QN_DTYPE_NONE where there is none. */
qn_dtype qn_dtype_part(qn_dtype t);
qn_dtype qn_dtype_complex(qn_dtype part);
qn_dtype qn_dtype_wide(qn_dtype t);     /* what arithmetic is done in: f32 for f16 and bf16, else t */
qn_dtype qn_dtype_unsigned(qn_dtype t); /* the unsigned integer of t's size; QN_DTYPE_NONE for complex128 and none */

/* Exact conversions on the host; rounding is to nearest even, overflow goes to infinity, NaN stays NaN. */
float qn_f16_to_f32(uint16_t bits);
uint16_t qn_f32_to_f16(float x);
float qn_bf16_to_f32(uint16_t bits);
uint16_t qn_f32_to_bf16(float x);

#ifdef __cplusplus
}
#endif
#endif
