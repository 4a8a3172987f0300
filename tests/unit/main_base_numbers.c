/* Narrow floats, hashes and element types once more as a plain program: these must hold on every processor, and the
 * cross build has no test framework. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quern/dtype.h"

int main(void) {
  for (uint32_t i = 0; i < 65536; i++) {
    float h = qn_f16_to_f32((uint16_t)i), b = qn_bf16_to_f32((uint16_t)i);
    QN_REQUIRE(isnan(h) ? isnan(qn_f16_to_f32(qn_f32_to_f16(h))) : qn_f32_to_f16(h) == i);
    QN_REQUIRE(isnan(b) ? isnan(qn_bf16_to_f32(qn_f32_to_bf16(b))) : qn_f32_to_bf16(b) == i);
  }
  QN_REQUIRE(qn_f16_to_f32(0x0001) == 0x1p-24f && qn_f16_to_f32(0x7bff) == 65504.0f);
  QN_REQUIRE(qn_f32_to_f16(65520.0f) == 0x7c00 && qn_f32_to_bf16(1.00390625f) == 0x3f80);

  char hex[33];
  qn_digest_hex(qn_digest_bytes("quern", 5), hex);
  QN_REQUIRE(strcmp(hex, "a944637eca44f7bc26f9f75d14dcefa9") == 0);
  QN_REQUIRE(qn_hash_bytes(QN_HASH_INIT, "foobar", 6) == UINT64_C(0x85944171f73967e8));
  QN_REQUIRE(qn_dtype_parse("ui16") == QN_U16 && qn_dtype_size(QN_C128) == 16);

  /* a*b+c is two roundings: 1 + 2^-23 squared loses its last bit before the subtraction. */
  volatile float x = 1 + 0x1p-23f, minus = -(1 + 0x1p-22f);
  QN_REQUIRE(x * x + minus == 0);
  puts("ok");
  return 0;
}
