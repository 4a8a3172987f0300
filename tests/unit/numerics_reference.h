/* References for the numerics sweeps beyond the C library: special functions in long double, by series that differ
 * from the expansions'. */
#ifndef QUERN_TEST_NUMERICS_REFERENCE_H
#define QUERN_TEST_NUMERICS_REFERENCE_H

#include <math.h>

static const long double ref_pi = 3.14159265358979323846264338327950288L;

static inline long double ref_logistic(long double x) { return 1 / (1 + expl(-x)); }
static inline long double ref_rsqrt(long double x) { return 1 / sqrtl(x); }

/* B(2j) / 2j */
static inline long double ref_bernoulli(int j) {
  static const long double b[] = {1.0L / 12,       -1.0L / 120, 1.0L / 252,      -1.0L / 240,      1.0L / 132,
                                  -691.0L / 32760, 1.0L / 12,   -3617.0L / 8160, 43867.0L / 14364, -174611.0L / 6600};
  return b[j - 1];
}

static inline long double ref_digamma(long double x) {
  if (isnan(x) || (isinf(x) && x > 0))
    return x;
  if (x <= 0) {
    long double r = x - rintl(x);
    if (r == 0 || isinf(x))
      return NAN;
    return ref_digamma(1 - x) - ref_pi / tanl(ref_pi * r);
  }
  long double sum = 0;
  for (; x < 24; x += 1)
    sum -= 1 / x;
  long double z = 1 / (x * x), tail = 0;
  for (int j = 10; j >= 1; --j)
    tail = z * (ref_bernoulli(j) + tail);
  return sum + logl(x) - 0.5L / x - tail;
}

/* digamma loses its relative accuracy at its zero; there its Taylor series keeps it, whatever the width of long
 * double. */
static inline long double ref_digamma_any(long double x) {
  static const long double zero_lo = 9.549995429965697715184e-17L; /* beyond the double below */
  static const long double taylor[] = {
      0.9676722454476211704274L,   -0.4427631689835921060929L,   0.2584997609556510106244L,
      -0.1639427054424065275043L,  0.1078240506912623657572L,    -0.07219956125645471092612L,
      0.04880428816414310722509L,  -0.03316112647484735929226L,  0.02259764823221810465962L,
      -0.0154247659049489591388L,  0.01053879161661217538812L,   -0.00720453438635686824097L,
      0.004926781395729853446354L, -0.003369801655439328082793L, 0.002305126326734927836938L,
      -0.001576936771430197259271L};
  long double d = (x - (long double)0x1.762d86356be3fp+0) - zero_lo, y = 0;
  if (!(fabsl(d) < 0.06L))
    return ref_digamma(x);
  for (int k = 15; k >= 0; --k)
    y = d * (taylor[k] + y);
  return y;
}

static inline long double ref_i1e(long double x) {
  long double a = fabsl(x), y;
  if (isnan(x) || a == 0)
    return x;
  if (a < 40) {
    long double term = a / 2, z = a * a / 4;
    y = term;
    for (int k = 1; k < 200 && term > y * 1e-22L; ++k) {
      term *= z / ((long double)k * (k + 1));
      y += term;
    }
    y *= expl(-a);
  } else {
    long double term = 1, sum = 1;
    for (int k = 1; k < 30; ++k) {
      long double odd = 2 * k - 1;
      term *= (odd * odd - 4) / (8 * k * a);
      sum += term;
    }
    y = sum / sqrtl(2 * ref_pi * a);
  }
  return x < 0 ? -y : y;
}

/* Newton on erf, or on erfc of the exact 1 - |x| in the tails. */
static inline long double ref_erf_inv(long double x) {
  long double a = fabsl(x);
  if (isnan(x) || a > 1)
    return NAN;
  if (a == 1 || a == 0)
    return a == 1 ? copysignl(INFINITY, x) : x;
  long double l = logl((1 - a) * (1 + a)), h = 2 / (ref_pi * 0.147L) + l / 2;
  long double y = sqrtl(sqrtl(h * h - l / 0.147L) - h);
  if (a < 1e-3L)
    y = a * 0.88622692545275801365L * (1 + ref_pi / 12 * a * a);
  for (int i = 0; i < 4; ++i) {
    long double miss = a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y);
    long double slope = 1.12837916709551257390L * expl(-y * y);
    y -= miss / (slope + y * miss); /* Halley's step */
  }
  return copysignl(y, x);
}

static inline long double ref_zeta(long double x, long double q) {
  long double sum = 0, a = q;
  for (int k = 0; k < 40; ++k, a += 1)
    sum += powl(a, -x);
  long double last = powl(a, -x), rise = x, scale = 1 / a, factorial = 1;
  sum += last * (a / (x - 1) + 0.5L);
  for (int j = 1; j <= 10; ++j) {
    factorial *= j == 1 ? 1 : (long double)(2 * j - 1) * (2 * j - 2);
    sum += last * ref_bernoulli(j) / factorial * rise * scale;
    rise *= (x + 2 * j - 1) * (x + 2 * j);
    scale /= a * a;
  }
  return sum;
}

static inline long double ref_polygamma(long double n, long double x) {
  if (n == 0)
    return ref_digamma_any(x);
  return (fmodl(n, 2) == 0 ? -1 : 1) * tgammal(n + 1) * ref_zeta(n + 1, x);
}

#endif
