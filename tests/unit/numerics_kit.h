/* For the numerics tests: records an expansion and runs it over arrays, and measures errors in units of the last
 * place. */
#ifndef QUERN_TEST_NUMERICS_KIT_H
#define QUERN_TEST_NUMERICS_KIT_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "quern/scalar.h"

static inline float kit_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t kit_bits32(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline double kit_f64(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t kit_bits64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

/* xorshift: the same numbers everywhere */
static inline uint64_t kit_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Recorded once; `arity` operands of dtype t. The caller frees it with qn_host_program_free. */
static inline void kit_record(qn_host_program *p, qn_expand_fn f, qn_dtype t, int arity) {
  qn_sval in[3] = {{0}, {0}, {0}};
  qn_host_program_init(p);
  for (int i = 0; i < arity; ++i)
    in[i] = qn_host_program_input(p, t);
  cr_assert(qn_host_program_finish(p, f(&p->base, in, NULL)), "the expansion does not record");
}

static inline void kit_run(const qn_host_program *p, const void *a, const void *b, void *out, size_t n) {
  const void *in[2] = {a, b};
  cr_assert(qn_host_program_run(p, in, out, n), "out of memory");
}

static inline void kit_expand(qn_expand_fn f, qn_dtype t, int arity, const void *a, const void *b, void *out,
                              size_t n) {
  qn_host_program p;
  kit_record(&p, f, t, arity);
  kit_run(&p, a, b, out, n);
  qn_host_program_free(&p);
}

/* Error of got in units of the last place that a float of that many bits and least exponent has at want. Infinite
 * when one is NaN and the other is not, or when zeros or infinities differ. Overflow is measured as if the exponent
 * went on. */
static inline double kit_ulp(long double got, long double want, int digits, int max_exp, int min_exp) {
  if (isnan(got) || isnan(want))
    return isnan(got) && isnan(want) ? 0 : INFINITY;
  if (isinf(want))
    return got == want ? 0 : INFINITY;
  long double limit = ldexpl(1, max_exp);
  if (isinf(got)) {
    if (fabsl(want) >= limit)
      return signbit(got) == signbit(want) ? 0 : INFINITY;
    got = got > 0 ? limit : -limit;
  }
  int e = min_exp;
  if (want != 0)
    frexpl(want, &e);
  if (e > max_exp)
    e = max_exp;
  if (e < min_exp)
    e = min_exp;
  return (double)(fabsl(got - want) / ldexpl(1, e - digits));
}

static inline double kit_ulp32(float got, double want) {
  return kit_ulp(got, want, FLT_MANT_DIG, FLT_MAX_EXP, FLT_MIN_EXP);
}
static inline double kit_ulp64(double got, long double want) {
  return kit_ulp(got, want, DBL_MANT_DIG, DBL_MAX_EXP, DBL_MIN_EXP);
}

#endif
