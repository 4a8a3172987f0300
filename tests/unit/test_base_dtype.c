/* Element types and the 16-bit floats. */
#include "expect.h"

#include <math.h>

#include "quern/dtype.h"

Test(dtype, names_parse_back) {
  for (int i = QN_DTYPE_NONE + 1; i < QN_DTYPE_COUNT; i++) {
    qn_dtype t = (qn_dtype)i;
    cr_expect(qn_dtype_parse(qn_dtype_name(t)) == t, "%s", qn_dtype_name(t));
    cr_expect(qn_dtype_parse(qn_dtype_mlir_name(t)) == t, "%s", qn_dtype_mlir_name(t));
    cr_expect(qn_dtype_size(t) > 0);
  }
  cr_expect(qn_dtype_parse("F32") == QN_F32 && qn_dtype_parse("BF16") == QN_BF16 && qn_dtype_parse("BOOL") == QN_BOOL);
  cr_expect(qn_dtype_parse("U8") == QN_U8 && qn_dtype_parse("i1") == QN_BOOL && qn_dtype_parse("ui64") == QN_U64);
  cr_expect(qn_dtype_parse("complex<f64>") == QN_C128);
  cr_expect(qn_dtype_parse("f8") == QN_DTYPE_NONE && qn_dtype_parse("") == QN_DTYPE_NONE);
  cr_expect(qn_dtype_parse(NULL) == QN_DTYPE_NONE && qn_dtype_parse("none") == QN_DTYPE_NONE);
}

Test(dtype, sizes_and_classes) {
  static const struct {
    qn_dtype t;
    size_t size;
    qn_dtype_class class;
  } rows[] = {
      {QN_BOOL, 1, QN_CLASS_BOOL},    {QN_I8, 1, QN_CLASS_SIGNED},    {QN_I16, 2, QN_CLASS_SIGNED},
      {QN_I32, 4, QN_CLASS_SIGNED},   {QN_I64, 8, QN_CLASS_SIGNED},   {QN_U8, 1, QN_CLASS_UNSIGNED},
      {QN_U16, 2, QN_CLASS_UNSIGNED}, {QN_U32, 4, QN_CLASS_UNSIGNED}, {QN_U64, 8, QN_CLASS_UNSIGNED},
      {QN_F16, 2, QN_CLASS_FLOAT},    {QN_BF16, 2, QN_CLASS_FLOAT},   {QN_F32, 4, QN_CLASS_FLOAT},
      {QN_F64, 8, QN_CLASS_FLOAT},    {QN_C64, 8, QN_CLASS_COMPLEX},  {QN_C128, 16, QN_CLASS_COMPLEX},
  };
  cr_assert(sizeof rows / sizeof *rows == QN_DTYPE_COUNT - 1);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    qn_dtype t = rows[i].t;
    cr_expect(qn_dtype_size(t) == rows[i].size && qn_dtype_classify(t) == rows[i].class, "%s", qn_dtype_name(t));
    cr_expect(qn_dtype_is_float(t) == (rows[i].class == QN_CLASS_FLOAT));
    cr_expect(qn_dtype_is_complex(t) == (rows[i].class == QN_CLASS_COMPLEX));
    cr_expect(qn_dtype_is_signed(t) == (rows[i].class == QN_CLASS_SIGNED));
    cr_expect(qn_dtype_is_unsigned(t) == (rows[i].class == QN_CLASS_UNSIGNED));
    cr_expect(qn_dtype_is_int(t) == (qn_dtype_is_signed(t) || qn_dtype_is_unsigned(t)));
    cr_expect(qn_dtype_wide(t) == (rows[i].class == QN_CLASS_FLOAT && rows[i].size == 2 ? QN_F32 : t));
    qn_dtype bits = qn_dtype_unsigned(t);
    cr_expect(rows[i].size == 16 ? bits == QN_DTYPE_NONE
                                 : qn_dtype_is_unsigned(bits) && qn_dtype_size(bits) == rows[i].size,
              "%s", qn_dtype_name(t));
  }
  cr_expect(qn_dtype_size(QN_DTYPE_NONE) == 0 && qn_dtype_size((qn_dtype)99) == 0);
}

/* The value of a 16-bit float from its definition, in double: independent of the code under test. */
static double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = (int)(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  double fraction = (double)(bits & ((1u << fraction_bits) - 1u));
  double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0)
    return sign * ldexp(fraction, 1 - bias - fraction_bits);
  return sign * ldexp(ldexp(1, fraction_bits) + fraction, exponent - bias - fraction_bits);
}

static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

Test(dtype, all_f16_values) {
  for (uint32_t i = 0; i < 65536; i++) {
    float x = qn_f16_to_f32((uint16_t)i);
    cr_assert(same((double)x, value_of(i, 5, 10)), "f16 %04x became %a", i, (double)x);
    uint16_t back = qn_f32_to_f16(x);
    if (isnan(x))
      cr_assert(isnan(qn_f16_to_f32(back)) && (back & 0x8000) == (i & 0x8000), "NaN %04x became %04x", i, back);
    else
      cr_assert(back == i, "f16 %04x came back as %04x", i, back);
  }
}

Test(dtype, all_bf16_values) {
  for (uint32_t i = 0; i < 65536; i++) {
    float x = qn_bf16_to_f32((uint16_t)i);
    cr_assert(same((double)x, value_of(i, 8, 7)), "bf16 %04x became %a", i, (double)x);
    uint16_t back = qn_f32_to_bf16(x);
    if (isnan(x))
      cr_assert(isnan(qn_bf16_to_f32(back)) && (back & 0x8000) == (i & 0x8000), "NaN %04x became %04x", i, back);
    else
      cr_assert(back == i, "bf16 %04x came back as %04x", i, back);
  }
}

/* Between two neighbours the middle goes to the even one; a hair to either side goes to that side. */
static void check_rounding(uint16_t (*narrow)(float), float (*widen)(uint16_t), uint32_t infinity) {
  for (uint32_t i = 0; i + 1 < infinity; i++) {
    float low = widen((uint16_t)i), high = widen((uint16_t)(i + 1));
    double exact = ((double)low + (double)high) / 2;
    float middle = (float)exact;
    if ((double)middle != exact)
      continue; /* below f32's own resolution: no such input */
    uint16_t even = (uint16_t)(i & 1 ? i + 1 : i);
    cr_assert(narrow(middle) == even, "middle of %04x and its successor", i);
    cr_assert(narrow(nextafterf(middle, 0)) == i || nextafterf(middle, 0) < low, "below the middle after %04x", i);
    cr_assert(narrow(nextafterf(middle, INFINITY)) == i + 1, "above the middle after %04x", i);
    cr_assert(narrow(-middle) == (even | 0x8000));
  }
}

Test(dtype, rounding_is_to_nearest_even) {
  check_rounding(qn_f32_to_f16, qn_f16_to_f32, 0x7c00);
  check_rounding(qn_f32_to_bf16, qn_bf16_to_f32, 0x7f80);
}

Test(dtype, overflow_and_underflow) {
  cr_expect(qn_f32_to_f16(65519.996f) == 0x7bff && qn_f32_to_f16(65520.0f) == 0x7c00);
  cr_expect(qn_f32_to_f16(-1e30f) == 0xfc00 && qn_f32_to_f16(INFINITY) == 0x7c00);
  cr_expect(qn_f32_to_f16(0x1p-25f) == 0 && qn_f32_to_f16(0x1.000002p-25f) == 1 && qn_f32_to_f16(-0x1p-30f) == 0x8000);
  cr_expect(qn_f32_to_f16(0x1p-149f) == 0 && qn_f32_to_f16(-0.0f) == 0x8000);
  cr_expect(qn_f32_to_bf16(0x1.fffffep127f) == 0x7f80 && qn_f32_to_bf16(-INFINITY) == 0xff80);
  uint32_t quiet_low = 0x7f800001u; /* a NaN whose payload sits below bf16 and f16 */
  float nan_low;
  memcpy(&nan_low, &quiet_low, sizeof nan_low);
  cr_expect(isnan(qn_bf16_to_f32(qn_f32_to_bf16(nan_low))));
  cr_expect(isnan(qn_f16_to_f32(qn_f32_to_f16(nan_low))));
}
