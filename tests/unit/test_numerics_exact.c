/* Expansions whose results are exact: remainder, next_after, integer division, shifts and power, conversions,
 * reduce_precision, orders. Each is held to plain C. */
#include "numerics_kit.h"

enum { N = 4096 };

Test(numerics_exact, float_remainder) {
  uint64_t state = 2463534242u;
  static float a[N], b[N], y[N];
  static double c[N], d[N], z[N];
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < N; ++i) {
      uint64_t r = kit_random(&state), q = kit_random(&state);
      a[i] = kit_f32((uint32_t)r);
      b[i] = round & 1 ? kit_f32((uint32_t)q & 0x80ffffffu)
                       : kit_f32((uint32_t)q); /* small and subnormal divisors every second time */
      c[i] = kit_f64(r);
      d[i] = round & 1 ? kit_f64(q & 0x801fffffffffffff) : kit_f64(q);
    }
    kit_expand(qn_expand_remainder, QN_F32, 2, a, b, y, N);
    kit_expand(qn_expand_remainder, QN_F64, 2, c, d, z, N);
    for (int i = 0; i < N; ++i) {
      float w = fmodf(a[i], b[i]);
      double v = fmod(c[i], d[i]);
      cr_assert(kit_bits32(w) == kit_bits32(y[i]) || (isnan(w) && isnan(y[i])), "%a rem %a: %a, not %a", a[i], b[i],
                y[i], w);
      cr_assert(kit_bits64(v) == kit_bits64(z[i]) || (isnan(v) && isnan(z[i])), "%a rem %a: %a, not %a", c[i], d[i],
                z[i], v);
    }
  }
}

Test(numerics_exact, next_after) {
  uint64_t state = 99u;
  static float a[N], b[N], y[N];
  static const float corners[] = {0,        -0.0f,    0x1p-149f, -0x1p-149f, 0x1p-126f, FLT_MAX,
                                  -FLT_MAX, INFINITY, -INFINITY, 1,          NAN};
  enum { C = sizeof corners / sizeof *corners };
  for (int i = 0; i < N; ++i) {
    a[i] = i < C * C ? corners[i / C] : kit_f32((uint32_t)kit_random(&state));
    b[i] = i < C * C ? corners[i % C] : kit_f32((uint32_t)kit_random(&state));
  }
  kit_expand(qn_expand_next_after, QN_F32, 2, a, b, y, N);
  for (int i = 0; i < N; ++i) {
    float w = nextafterf(a[i], b[i]);
    cr_assert(kit_bits32(w) == kit_bits32(y[i]) || (isnan(w) && isnan(y[i])), "next_after(%a, %a) = %a, not %a", a[i],
              b[i], y[i], w);
  }
}

static int8_t shifted(int op, int8_t a, int8_t n) {
  bool outside = n < 0 || n > 7;
  if (op == 2)
    return (int8_t)(a >> (outside ? 7 : n));
  return (int8_t)(outside ? 0 : op ? (uint8_t)a >> n : (uint8_t)a << n);
}

static int8_t powered(int8_t a, int8_t n) {
  if (n < 0)
    return a == 0 ? -1 : a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0;
  uint8_t p = 1;
  for (int i = 0; i < n; ++i)
    p = (uint8_t)(p * (uint8_t)a);
  return (int8_t)p;
}

Test(numerics_exact, all_pairs_of_i8) {
  static int8_t a[65536], b[65536], y[6][65536];
  static const qn_expand_fn f[6] = {
      qn_expand_divide,     qn_expand_remainder,           qn_expand_power,
      qn_expand_shift_left, qn_expand_shift_right_logical, qn_expand_shift_right_arithmetic};
  for (int i = 0; i < 65536; ++i) {
    a[i] = (int8_t)(i & 255);
    b[i] = (int8_t)(i >> 8);
  }
  for (int k = 0; k < 6; ++k)
    kit_expand(f[k], QN_I8, 2, a, b, y[k], 65536);
  for (int i = 0; i < 65536; ++i) {
    int x = a[i], n = b[i];
    int8_t want[6] = {(int8_t)(n ? x / n : -1), (int8_t)(n ? x % n : x), powered(a[i], b[i]),
                      shifted(0, a[i], b[i]),   shifted(1, a[i], b[i]),  shifted(2, a[i], b[i])};
    for (int k = 0; k < 6; ++k)
      cr_assert_eq(y[k][i], want[k], "function %d of %d, %d: %d, not %d", k, x, n, y[k][i], want[k]);
  }
}

Test(numerics_exact, wide_integers) {
  uint64_t a[6] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 12345678901u, 7},
           b[6] = {0, 0, UINT64_MAX, UINT64_MAX, 1000u, 64}, y[6];
  kit_expand(qn_expand_divide, QN_I64, 2, a, b, y, 6);
  uint64_t q[6] = {UINT64_MAX, UINT64_MAX, 1, UINT64_C(1) << 63, 12345678, 0};
  cr_assert_arr_eq(y, q, sizeof q);
  kit_expand(qn_expand_divide, QN_U64, 2, a, b, y, 6);
  uint64_t qu[6] = {UINT64_MAX, UINT64_MAX, 1, 0, 12345678, 0};
  cr_assert_arr_eq(y, qu, sizeof qu);
  kit_expand(qn_expand_remainder, QN_I64, 2, a, b, y, 6);
  uint64_t r[6] = {0, 1, 0, 0, 901, 7};
  cr_assert_arr_eq(y, r, sizeof r);
  kit_expand(qn_expand_shift_left, QN_U64, 2, a, b, y, 6);
  cr_assert_eq(y[5], 0);
  cr_assert_eq(y[1], 1);
  uint64_t base[4] = {3, UINT64_MAX - 1, 2, 0}, e[4] = {40, 63, 64, 0},
           p[4] = {UINT64_C(12157665459056928801), UINT64_C(1) << 63, 0, 1};
  kit_expand(qn_expand_power, QN_U64, 2, base, e, y, 4);
  cr_assert_arr_eq(y, p, sizeof p);
}

static double clipped(double x, double low, double high) {
  return isnan(x) ? 0 : x < low ? low : x > high ? high : trunc(x);
}

static void check_to_int(qn_dtype from, qn_dtype to, const double *x, size_t n) {
  int width = (int)(8 * qn_dtype_size(to));
  bool is_signed = qn_dtype_is_signed(to);
  qn_host_sink h;
  qn_host_sink_init(&h);
  for (size_t i = 0; i < n; ++i) {
    qn_host_sink_clear(&h);
    qn_sval v = qs_const(&h.base, from, x[i]);
    double exact = from == QN_F32 ? (double)(float)x[i] : x[i];
    uint64_t got = qn_host_sink_bits(&h, qn_expand_convert(&h.base, to, v)), want;
    if (is_signed) {
      double high = ldexp(1, width - 1);
      double c = clipped(exact, -high, high);
      want = c >= high ? UINT64_MAX >> (65 - width) : (uint64_t)(int64_t)c;
    } else {
      double high = ldexp(1, width);
      double c = clipped(exact, 0, high);
      want = c >= high ? UINT64_MAX >> (64 - width) : (uint64_t)c;
    }
    want &= UINT64_MAX >> (64 - width);
    cr_assert_eq(got, want, "%s %a to %s: %llx, not %llx", qn_dtype_name(from), exact, qn_dtype_name(to),
                 (unsigned long long)got, (unsigned long long)want);
  }
  qn_host_sink_free(&h);
}

Test(numerics_exact, float_to_int_saturates) {
  double x[600];
  size_t n = 0;
  x[n++] = NAN;
  x[n++] = INFINITY;
  x[n++] = -INFINITY;
  x[n++] = -0.0;
  for (int e = -2; e <= 70; ++e)
    for (int s = -1; s <= 1; s += 2) {
      x[n++] = s * ldexp(1, e);
      x[n++] = s * (ldexp(1, e) - 0.5);
      x[n++] = s * (ldexp(1, e) + 0.75);
    }
  for (int to = QN_I8; to <= QN_U64; ++to) {
    check_to_int(QN_F32, (qn_dtype)to, x, n);
    check_to_int(QN_F64, (qn_dtype)to, x, n);
  }
}

static uint64_t convert(qn_dtype from, qn_dtype to, uint64_t bits) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  qn_sval v = qn_host_sink_value(&h, from, bits);
  uint64_t y = qn_host_sink_bits(&h, qn_expand_convert(&h.base, to, v));
  qn_host_sink_free(&h);
  return y;
}

Test(numerics_exact, other_conversions) {
  cr_assert_eq(convert(QN_F32, QN_BOOL, kit_bits32(-0.0f)), 0);
  cr_assert_eq(convert(QN_F32, QN_BOOL, kit_bits32(NAN)), 1);
  cr_assert_eq(convert(QN_I8, QN_BOOL, 0x80), 1);
  cr_assert_eq(convert(QN_BOOL, QN_F64, 1), kit_bits64(1));
  cr_assert_eq(convert(QN_I32, QN_U8, 0xffffff80), 0x80);
  cr_assert_eq(convert(QN_U64, QN_F32, UINT64_C(0xffffff7fffffffff)), kit_bits32(0x1.fffffep63f));
  cr_assert_eq(convert(QN_F64, QN_F32, kit_bits64(1e300)), kit_bits32(INFINITY));
}

static float reduced(float x, int e, int m) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  qn_sval v = qn_host_sink_value(&h, QN_F32, kit_bits32(x));
  float y = kit_f32((uint32_t)qn_host_sink_bits(&h, qn_expand_reduce_precision(&h.base, v, e, m)));
  qn_host_sink_free(&h);
  return y;
}

/* Against the conversions to bf16, and to f16 in its normal range. */
Test(numerics_exact, reduce_precision) {
  uint64_t state = 5u;
  for (int i = 0; i < 20000; ++i) {
    float x = kit_f32((uint32_t)kit_random(&state));
    float y = reduced(x, 8, 7), w = qn_bf16_to_f32(qn_f32_to_bf16(x));
    if (!isnan(x))
      cr_assert_eq(kit_bits32(y), kit_bits32(w), "%a to bf16: %a, not %a", x, y, w);
    float half = ldexpf(1 + (float)(i % 4099) / 4099, i % 29 - 13);
    y = reduced(half, 5, 10);
    w = qn_f16_to_f32(qn_f32_to_f16(half));
    cr_assert_eq(y, w, "%a to f16: %a, not %a", half, y, w);
    cr_assert_eq(kit_bits32(reduced(x, 8, 23)), kit_bits32(x));
  }
  cr_assert(isinf(reduced(65520.0f, 5, 10)) && isnan(reduced(NAN, 5, 2)) && isinf(reduced(-INFINITY, 4, 3)));
  cr_assert_eq(kit_bits32(reduced(-0x1p-15f, 5, 10)), kit_bits32(-0.0f));
}

static uint64_t order_key(float x) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  uint64_t y = qn_host_sink_bits(&h, qn_expand_total_order_key(&h.base, qn_host_sink_value(&h, QN_F32, kit_bits32(x))));
  qn_host_sink_free(&h);
  return y;
}

Test(numerics_exact, total_order) {
  float nan = kit_f32(0x7fc00000), minus_nan = kit_f32(0xffc00000);
  float up[] = {minus_nan, -INFINITY, -1, -0x1p-149f, -0.0f, 0, 0x1p-149f, 1, FLT_MAX, INFINITY, nan};
  for (size_t i = 1; i < sizeof up / sizeof *up; ++i)
    cr_assert((int32_t)order_key(up[i - 1]) < (int32_t)order_key(up[i]), "%a is not below %a", up[i - 1], up[i]);
}

Test(numerics_exact, extrema_sign_rounding) {
  float a[8] = {0.0f, -0.0f, NAN, 1, -INFINITY, 3, -0.0f, 2}, b[8] = {-0.0f, 0.0f, 1, NAN, 5, 3, -0.0f, 7}, y[8];
  float max[8] = {0.0f, 0.0f, NAN, NAN, 5, 3, -0.0f, 7}, min[8] = {-0.0f, -0.0f, NAN, NAN, -INFINITY, 3, -0.0f, 2};
  kit_expand(qn_expand_maximum, QN_F32, 2, a, b, y, 8);
  for (int i = 0; i < 8; ++i)
    cr_assert(isnan(max[i]) ? isnan(y[i]) : kit_bits32(y[i]) == kit_bits32(max[i]), "maximum %d: %a", i, y[i]);
  kit_expand(qn_expand_minimum, QN_F32, 2, a, b, y, 8);
  for (int i = 0; i < 8; ++i)
    cr_assert(isnan(min[i]) ? isnan(y[i]) : kit_bits32(y[i]) == kit_bits32(min[i]), "minimum %d: %a", i, y[i]);
  float x[8] = {0.5f, -0.5f, 2.5f, -0.25f, 0x1p23f + 1, 0.49999997f, INFINITY, NAN};
  float r[8] = {1, -1, 3, -0.0f, 0x1p23f + 1, 0, INFINITY, NAN};
  kit_expand(qn_expand_round_afz, QN_F32, 1, x, NULL, y, 8);
  for (int i = 0; i < 8; ++i)
    cr_assert(isnan(r[i]) ? isnan(y[i]) : kit_bits32(y[i]) == kit_bits32(r[i]), "round %a: %a", x[i], y[i]);
  float sign[8] = {1, -1, 1, -1, 1, 1, 1, NAN};
  kit_expand(qn_expand_sign, QN_F32, 1, x, NULL, y, 8);
  for (int i = 0; i < 8; ++i)
    cr_assert(isnan(sign[i]) ? isnan(y[i]) : y[i] == sign[i], "sign %a: %a", x[i], y[i]);
  float zero[2] = {0.0f, -0.0f};
  kit_expand(qn_expand_sign, QN_F32, 1, zero, NULL, y, 2);
  cr_assert_eq(kit_bits32(y[0]) | kit_bits32(y[1]), 0x80000000u);
  uint8_t finite[8];
  kit_expand(qn_expand_is_finite, QN_F32, 1, x, NULL, finite, 8);
  for (int i = 0; i < 8; ++i)
    cr_assert_eq(finite[i], i < 6);
  int8_t n[3] = {-128, -5, 5}, m[3];
  kit_expand(qn_expand_abs, QN_I8, 1, n, NULL, m, 3);
  cr_assert(m[0] == -128 && m[1] == 5 && m[2] == 5);
  uint8_t p[4] = {0, 0, 1, 1}, q[4] = {0, 1, 0, 1}, either[4];
  kit_expand(qn_expand_maximum, QN_BOOL, 2, p, q, either, 4);
  cr_assert(either[0] == 0 && either[1] == 1 && either[2] == 1 && either[3] == 1);
}
