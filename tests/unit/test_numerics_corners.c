/* IEEE's corners: NaN, infinities, signed zeros, subnormal numbers and the ends of the range. The C library is the
 * judge, to the sign of zero, for every function that it has too. */
#include "numerics_kit.h"

typedef struct unary {
  const char *name;
  qn_expand_fn f;
  float (*ref)(float);
  double (*ref64)(double);
} unary;

static float logistic_f(float x) { return (float)(1 / (1 + expl(-(long double)x))); }
static double logistic_d(double x) { return (double)(1 / (1 + expl(-(long double)x))); }
static float rsqrt_f(float x) { return 1 / sqrtf(x); }
static double rsqrt_d(double x) { return 1 / sqrt(x); }

static const unary unaries[] = {
    {"exp", qn_expand_exp, expf, exp},
    {"expm1", qn_expand_expm1, expm1f, expm1},
    {"log", qn_expand_log, logf, log},
    {"log1p", qn_expand_log1p, log1pf, log1p},
    {"sin", qn_expand_sin, sinf, sin},
    {"cos", qn_expand_cos, cosf, cos},
    {"tan", qn_expand_tan, tanf, tan},
    {"tanh", qn_expand_tanh, tanhf, tanh},
    {"cbrt", qn_expand_cbrt, cbrtf, cbrt},
    {"rsqrt", qn_expand_rsqrt, rsqrt_f, rsqrt_d},
    {"asin", qn_expand_asin, asinf, asin},
    {"acos", qn_expand_acos, acosf, acos},
    {"atan", qn_expand_atan, atanf, atan},
    {"sinh", qn_expand_sinh, sinhf, sinh},
    {"cosh", qn_expand_cosh, coshf, cosh},
    {"asinh", qn_expand_asinh, asinhf, asinh},
    {"acosh", qn_expand_acosh, acoshf, acosh},
    {"atanh", qn_expand_atanh, atanhf, atanh},
    {"erf", qn_expand_erf, erff, erf},
    {"erfc", qn_expand_erfc, erfcf, erfc},
    {"lgamma", qn_expand_lgamma, lgammaf, lgamma},
    {"logistic", qn_expand_logistic, logistic_f, logistic_d},
};

static const float corners[] = {
    0.0f,        -0.0f,   INFINITY,   -INFINITY,  NAN,        1.0f,        -1.0f,      2.0f,       -2.0f,
    0.5f,        -0.5f,   0x1p-149f,  -0x1p-149f, 0x1p-140f,  -0x1p-130f,  0x1p-126f,  -0x1p-126f, FLT_MAX,
    -FLT_MAX,    0x1p64f, -0x1p64f,   0x1p-64f,   88.722839f, 88.7228470f, -87.33655f, -103.9f,    -103.97208f,
    -103.97284f, -104.5f, 89.415985f, 89.41599f,  -150.0f,    10.05f,      10.1f,      -17.5f,     9.2f,
    -9.2f,       3.0f,    -3.0f,      0.75f,      1e30f,      -1e30f,      1e-30f,     4.0851e36f,
};
enum { CORNERS = sizeof corners / sizeof *corners };

/* Equal up to a few units where both are numbers; the very same kind of thing, sign included, elsewhere. */
static bool agree(double got, double want, double unit, double tiny) {
  if (isnan(got) || isnan(want))
    return isnan(got) && isnan(want);
  if (want == 0 || isinf(want) || isinf(got))
    return got == want && !signbit(got) == !signbit(want);
  return fabs(got - want) <= 5 * unit * fabs(want) + 2 * tiny && !signbit(got) == !signbit(want);
}

Test(numerics_corners, unary_f32) {
  float y[CORNERS];
  for (size_t k = 0; k < sizeof unaries / sizeof *unaries; ++k) {
    kit_expand(unaries[k].f, QN_F32, 1, corners, NULL, y, CORNERS);
    for (int i = 0; i < CORNERS; ++i) {
      float w = unaries[k].ref(corners[i]);
      cr_expect(agree(y[i], w, FLT_EPSILON, 0x1p-149), "%s(%a) = %a, not %a", unaries[k].name, corners[i], y[i], w);
    }
  }
}

Test(numerics_corners, unary_f64) {
  static const double wide[] = {5e-324,
                                -5e-324,
                                2.2250738585072014e-308,
                                DBL_MAX,
                                -DBL_MAX,
                                709.782712893384,
                                709.7827128933841,
                                -745.13,
                                -745.2,
                                -708.5,
                                710.47,
                                710.48,
                                26.5,
                                27.3,
                                -40.0,
                                22.0,
                                1e300,
                                1e-300,
                                0x1p53,
                                0.693147180559945};
  enum { WIDE = sizeof wide / sizeof *wide, ALL = WIDE + CORNERS };
  double x[ALL], y[ALL];
  for (int i = 0; i < ALL; ++i)
    x[i] = i < CORNERS ? corners[i] : wide[i - CORNERS];
  for (size_t k = 0; k < sizeof unaries / sizeof *unaries; ++k) {
    kit_expand(unaries[k].f, QN_F64, 1, x, NULL, y, ALL);
    for (int i = 0; i < ALL; ++i) {
      double w = unaries[k].ref64(x[i]);
      cr_expect(agree(y[i], w, DBL_EPSILON, 5e-324), "%s(%a) = %a, not %a", unaries[k].name, x[i], y[i], w);
    }
  }
}

static void check_pairs(const char *name, qn_expand_fn f, float (*ref)(float, float), double (*ref64)(double, double)) {
  static const float some[] = {
      0.0f,           -0.0f, INFINITY, -INFINITY, NAN,           1.0f,       -1.0f,      2.0f,    -2.0f,    0.5f,
      -0.5f,          3.0f,  -3.0f,    2.5f,      -2.5f,         0x1p-149f,  -0x1p-149f, FLT_MAX, -FLT_MAX, 0x1p24f,
      0x1.fffffep23f, 0.75f, 1e10f,    -1e10f,    0x1.000002p0f, -0x1p-126f, 127.0f,     128.0f,  -149.0f,  -150.0f};
  enum { SOME = sizeof some / sizeof *some };
  static float a[SOME * SOME], b[SOME * SOME], y[SOME * SOME];
  static double c[SOME * SOME], d[SOME * SOME], z[SOME * SOME];
  for (int i = 0; i < SOME * SOME; ++i) {
    c[i] = a[i] = some[i / SOME];
    d[i] = b[i] = some[i % SOME];
  }
  kit_expand(f, QN_F32, 2, a, b, y, SOME * SOME);
  kit_expand(f, QN_F64, 2, c, d, z, SOME * SOME);
  for (int i = 0; i < SOME * SOME; ++i) {
    cr_expect(agree(y[i], ref(a[i], b[i]), FLT_EPSILON, 0x1p-149), "%s(%a, %a) = %a, not %a", name, a[i], b[i], y[i],
              ref(a[i], b[i]));
    cr_expect(agree(z[i], ref64(c[i], d[i]), DBL_EPSILON, 5e-324), "%s(%a, %a) = %a, not %a in f64", name, c[i], d[i],
              z[i], ref64(c[i], d[i]));
  }
}

Test(numerics_corners, pairs) {
  check_pairs("power", qn_expand_power, powf, pow);
  check_pairs("atan2", qn_expand_atan2, atan2f, atan2);
  check_pairs("remainder", qn_expand_remainder, fmodf, fmod);
  check_pairs("next_after", qn_expand_next_after, nextafterf, nextafter);
}

/* Those that C has not. */
static void expect1(qn_expand_fn f, float x, float want) {
  float y;
  kit_expand(f, QN_F32, 1, &x, NULL, &y, 1);
  cr_expect(agree(y, want, FLT_EPSILON, 0), "f32 at %a: %a, not %a", x, y, want);
  double x64 = x, y64;
  kit_expand(f, QN_F64, 1, &x64, NULL, &y64, 1);
  cr_expect(agree(y64, want, FLT_EPSILON, 0), "f64 at %a: %a, not %a", x, y64, want);
}

static void expect2(qn_expand_fn f, float a, float b, float want) {
  float y;
  kit_expand(f, QN_F32, 2, &a, &b, &y, 1);
  cr_expect(agree(y, want, FLT_EPSILON, 0), "f32 at %a, %a: %a, not %a", a, b, y, want);
  double a64 = a, b64 = b, y64;
  kit_expand(f, QN_F64, 2, &a64, &b64, &y64, 1);
  cr_expect(agree(y64, want, FLT_EPSILON, 0), "f64 at %a, %a: %a, not %a", a, b, y64, want);
}

Test(numerics_corners, special_functions) {
  expect1(qn_expand_erf_inv, 0.0f, 0.0f);
  expect1(qn_expand_erf_inv, -0.0f, -0.0f);
  expect1(qn_expand_erf_inv, 1, INFINITY);
  expect1(qn_expand_erf_inv, -1, -INFINITY);
  expect1(qn_expand_erf_inv, 1.5f, NAN);
  expect1(qn_expand_erf_inv, NAN, NAN);
  expect1(qn_expand_digamma, 1, -0.577215665f);
  expect1(qn_expand_digamma, 0.0f, NAN);
  expect1(qn_expand_digamma, -3, NAN);
  expect1(qn_expand_digamma, INFINITY, INFINITY);
  expect1(qn_expand_digamma, -INFINITY, NAN);
  expect1(qn_expand_digamma, -0.5f, 0.0364899740f);
  expect1(qn_expand_bessel_i1e, -0.0f, -0.0f);
  expect1(qn_expand_bessel_i1e, INFINITY, 0.0f);
  expect1(qn_expand_bessel_i1e, -INFINITY, -0.0f);
  expect1(qn_expand_bessel_i1e, NAN, NAN);
  expect2(qn_expand_zeta, 2, 1, 1.64493407f);
  expect2(qn_expand_zeta, 1, 2, INFINITY);
  expect2(qn_expand_zeta, 0.5f, 2, NAN);
  expect2(qn_expand_zeta, 2, -3, INFINITY);
  expect2(qn_expand_zeta, 3, -3, NAN);
  expect2(qn_expand_zeta, 2.5f, -3.5f, NAN);
  expect2(qn_expand_zeta, 2, -0.5f, 8.93480220f);
  expect2(qn_expand_zeta, NAN, 2, NAN);
  expect2(qn_expand_zeta, 2, NAN, NAN);
  expect2(qn_expand_polygamma, 0, 1, -0.577215665f);
  expect2(qn_expand_polygamma, 1, 1, 1.64493407f);
  expect2(qn_expand_polygamma, 2, 1, -2.40411381f);
  expect2(qn_expand_polygamma, 1.5f, 1, NAN);
  expect2(qn_expand_polygamma, -1, 1, NAN);
  expect2(qn_expand_polygamma, 3, NAN, NAN);
}
