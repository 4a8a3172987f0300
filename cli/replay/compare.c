/* Comparing results with recorded values, element by element. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"

static double load(qn_dtype t, const void *data, int64_t i) {
  uint64_t bits = 0;
  size_t size = qn_dtype_size(t);
  memcpy(&bits, (const uint8_t *)data + (size_t)i * size, size); /* little-endian */
  if (t == QN_F16)
    return (double)qn_f16_to_f32((uint16_t)bits);
  if (t == QN_BF16)
    return (double)qn_bf16_to_f32((uint16_t)bits);
  if (t == QN_F32) {
    float x;
    memcpy(&x, (const uint8_t *)data + (size_t)i * size, size);
    return (double)x;
  }
  if (t == QN_F64) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  if (!qn_dtype_is_signed(t))
    return (double)bits;
  unsigned shift = 64 - 8 * (unsigned)size;
  return (double)((int64_t)(bits << shift) >> shift);
}

/* By how much an element is outside of its tolerance; 0 if it is inside. */
static double excess(double got, double want, double rtol, double atol) {
  if (isnan(got) || isnan(want))
    return isnan(got) && isnan(want) ? 0 : INFINITY;
  if (!(got < want) && !(got > want))
    return 0;
  if (isinf(got) || isinf(want))
    return INFINITY;
  double off = fabs(got - want) - (atol + rtol * fabs(want));
  return off > 0 ? off : 0;
}

bool qn_replay_matches(const qn_type *t, const void *got, const void *want, double rtol, double atol, char *why,
                       size_t why_size) {
  int64_t worst = -1, outside = 0, elements = qn_type_elements(t);
  double by = -1;
  bool exact = !qn_dtype_is_float(t->dtype) && !(rtol > 0) && !(atol > 0);
  size_t size = qn_dtype_size(t->dtype);
  if (elements == 0 || memcmp(got, want, (size_t)qn_type_bytes(t)) == 0)
    return true;
  for (int64_t i = 0; i < elements; i++) {
    size_t at = (size_t)i * size;
    bool same = memcmp((const uint8_t *)got + at, (const uint8_t *)want + at, size) == 0;
    double off = same ? 0 : exact ? 1 : excess(load(t->dtype, got, i), load(t->dtype, want, i), rtol, atol);
    if (!(off > 0))
      continue;
    outside++;
    if (off > by) {
      by = off;
      worst = i;
    }
  }
  if (outside)
    (void)snprintf(why, why_size, "element %lld of %s is %.9g, expected %.9g (%lld of %lld outside rtol %g, atol %g)",
                   (long long)worst, qn_type_str(t), load(t->dtype, got, worst), load(t->dtype, want, worst),
                   (long long)outside, (long long)elements, rtol, atol);
  return outside == 0;
}
