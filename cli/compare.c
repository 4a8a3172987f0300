/* Comparing arrays element by element, and elements as text. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "arrays.h"

typedef struct number {
  double re, im;
} number;

static double real_at(qn_dtype t, const void *data, size_t i) {
  const uint8_t *b = data;
  uint16_t half;
  float single;
  double wide;
  if (t == QN_F16 || t == QN_BF16) {
    memcpy(&half, b + i * 2, 2);
    return (double)(t == QN_F16 ? qn_f16_to_f32(half) : qn_bf16_to_f32(half));
  }
  if (t == QN_F32) {
    memcpy(&single, b + i * 4, 4);
    return (double)single;
  }
  memcpy(&wide, b + i * 8, 8);
  return wide;
}

static number number_at(qn_dtype t, const void *data, int64_t i) {
  size_t k = (size_t)i;
  if (!qn_dtype_is_complex(t))
    return (number){real_at(t, data, k), 0};
  qn_dtype part = qn_dtype_part(t);
  return (number){real_at(part, data, 2 * k), real_at(part, data, 2 * k + 1)};
}

/* Integers and bools: 64 bits of them, extended by sign. */
static uint64_t word_at(qn_dtype t, const void *data, int64_t i) {
  uint64_t bits = 0;
  size_t size = qn_dtype_size(t);
  memcpy(&bits, (const uint8_t *)data + (size_t)i * size, size); /* little-endian */
  unsigned shift = 64 - 8 * (unsigned)size;
  return qn_dtype_is_signed(t) ? (uint64_t)((int64_t)(bits << shift) >> shift) : bits;
}

static bool differs(double a, double b) { return a < b || a > b; }

/* By how much a real part is outside, where it is not a matter of distance. */
static double odd(double got, double want) {
  if (isnan(got) || isnan(want))
    return isnan(got) && isnan(want) ? 0 : INFINITY;
  return (isinf(got) || isinf(want)) && differs(got, want) ? INFINITY : 0;
}

typedef struct tally {
  double worst_by, rtol, atol;
  cli_difference d;
} tally;

static void add(tally *t, int64_t i, number got, number want) {
  double by = fmax(odd(got.re, want.re), odd(got.im, want.im));
  bool finite = isfinite(got.re) && isfinite(got.im) && isfinite(want.re) && isfinite(want.im);
  if (finite) {
    double off = hypot(got.re - want.re, got.im - want.im), size = hypot(want.re, want.im);
    by = off - (t->atol + t->rtol * size);
    t->d.most_absolute = fmax(t->d.most_absolute, off);
    if (size > 0)
      t->d.most_relative = fmax(t->d.most_relative, off / size);
  }
  if (!(by > 0))
    return;
  t->d.differ++;
  if (t->d.worst < 0 || by > t->worst_by) {
    t->worst_by = by;
    t->d.worst = i;
  }
}

cli_difference qn_cli_compare(const qn_type *type, const void *got, const void *want, double rtol, double atol) {
  qn_dtype dt = type->dtype;
  tally t = {.rtol = rtol, .atol = atol, .d = {.elements = qn_type_elements(type), .worst = -1}};
  bool exact = !qn_dtype_is_float(dt) && !qn_dtype_is_complex(dt);
  for (int64_t i = 0; i < t.d.elements; i++) {
    if (!exact) {
      add(&t, i, number_at(dt, got, i), number_at(dt, want, i));
      continue;
    }
    uint64_t a = word_at(dt, got, i), b = word_at(dt, want, i);
    if (a == b)
      continue;
    bool below = qn_dtype_is_signed(dt) ? (int64_t)a < (int64_t)b : a < b;
    double off = (double)(below ? b - a : a - b);
    t.d.differ++;
    if (t.d.worst < 0 || off > t.d.most_absolute)
      t.d.worst = i;
    t.d.most_absolute = fmax(t.d.most_absolute, off);
  }
  return t.d;
}

void qn_cli_element(const qn_type *t, const void *data, int64_t index, qn_text *out) {
  qn_dtype dt = t->dtype;
  int digits = dt == QN_F64 || dt == QN_C128 ? 17 : dt == QN_F32 || dt == QN_C64 ? 9 : 5;
  if (qn_dtype_is_float(dt) || qn_dtype_is_complex(dt)) {
    number x = number_at(dt, data, index);
    x.re = isnan(x.re) ? (double)NAN : x.re; /* whatever its sign */
    if (qn_dtype_is_complex(dt))
      qn_text_add(out, "(%.*g,%.*g)", digits, x.re, digits, x.im);
    else
      qn_text_add(out, "%.*g", digits, x.re);
  } else if (dt == QN_BOOL) {
    qn_text_puts(out, word_at(dt, data, index) ? "true" : "false");
  } else if (qn_dtype_is_signed(dt)) {
    qn_text_add(out, "%" PRId64, (int64_t)word_at(dt, data, index));
  } else {
    qn_text_add(out, "%" PRIu64, word_at(dt, data, index));
  }
}

void qn_cli_index(const qn_type *t, int64_t index, qn_text *out) {
  int64_t at[QN_MAX_RANK];
  for (int i = t->rank - 1; i >= 0; i--) {
    at[i] = index % t->dims[i];
    index /= t->dims[i];
  }
  qn_text_puts(out, "[");
  for (int i = 0; i < t->rank; i++)
    qn_text_add(out, "%s%" PRId64, i ? "," : "", at[i]);
  qn_text_puts(out, "]");
}
