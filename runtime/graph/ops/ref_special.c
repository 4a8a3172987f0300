/* References of special functions. erf_inv: Halley steps on erf or erfc from Winitzki's approximation. digamma, zeta: recurrence,
 * then the asymptotic (Euler-Maclaurin) series with Bernoulli numbers (Abramowitz and Stegun 6.3.18, 23.2). bessel_i1e: power
 * series, from 30 on the asymptotic series (9.6.10, 9.7.1). Corners are those of the chlo functions. */
#include "ref_special.h"

#include <math.h>
#include <stdbool.h>

static const double pi = 3.14159265358979323846;

double qn_ref_erf_inv(double x) {
  if (x == 0 || isnan(x))
    return x;
  double a = fabs(x);
  if (a >= 1)
    return a == 1 ? copysign(INFINITY, x) : (double)NAN;
  double ln = log1p(-a * a), t = 2 / (pi * 0.147) + ln / 2;
  double y = sqrt(sqrt(t * t - ln / 0.147) - t);
  for (int i = 0; i < 5; i++) {
    double slope = 2 / sqrt(pi) * exp(-y * y);
    double f = a < 0.5 ? erf(y) - a : (1 - a) - erfc(y);
    double step = f / slope;
    y -= step / (1 + y * step);
  }
  return copysign(y, x);
}

/* Bernoulli numbers B2, B4, ... B24. */
static const double bernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                   5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                   43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
enum { BERNOULLI = sizeof bernoulli / sizeof *bernoulli };

double qn_ref_digamma(double x) {
  if (isnan(x) || x == -INFINITY || (x <= 0 && x == floor(x)))
    return NAN;
  if (x < 0.5) {
    double fraction = x - rint(x); /* tan has period 1 here, and the difference is exact */
    return qn_ref_digamma(1 - x) - (fabs(fraction) == 0.5 ? 0.0 : pi / tan(pi * fraction));
  }
  double y = 0;
  while (x < 12) {
    y -= 1 / x;
    x += 1;
  }
  double power = 1, sum = 0;
  for (int k = 1; k <= 9; k++) {
    power /= x * x;
    sum += bernoulli[k - 1] / (2 * k) * power;
  }
  return y + (log(x) - 0.5 / x - sum);
}

double qn_ref_zeta(double x, double q) {
  if (isnan(x) || isnan(q) || x < 1)
    return NAN;
  if (x == 1)
    return INFINITY;
  if (q <= 0) {
    if (q == floor(q))
      return fmod(x, 2) == 0 ? (double)INFINITY : (double)NAN;
    if (x != floor(x))
      return NAN;
  }
  double sum = 0, a = q;
  while (a < 14) {
    double term = pow(a, -x);
    sum += term;
    a += 1;
  }
  double ax = pow(a, -x);
  sum += a * ax / (x - 1) + 0.5 * ax;
  double factor = x, power = ax / a, factorial = 2;
  for (int k = 1; k <= BERNOULLI && ax > 0; k++) {
    sum += bernoulli[k - 1] / factorial * factor * power;
    factor *= (x + 2 * k - 1) * (x + 2 * k);
    factorial *= (2.0 * k + 1) * (2.0 * k + 2);
    power /= a * a;
  }
  return sum;
}

double qn_ref_polygamma(double m, double x) {
  if (m == 0)
    return qn_ref_digamma(x);
  if (!(m > 0) || m != floor(m))
    return NAN;
  double y = tgamma(m + 1) * qn_ref_zeta(m + 1, x);
  return fmod(m, 2) == 0 ? -y : y;
}

double qn_ref_bessel_i1e(double x) {
  double a = fabs(x);
  if (isinf(x))
    return copysign(0.0, x);
  if (a > 30) {
    double term = 1, sum = 1;
    for (int k = 1; k <= 30; k++) {
      double odd = 2 * k - 1;
      term *= -(4 - odd * odd) / (8 * k * a);
      sum += term;
    }
    return copysign(sum / (sqrt(2 * pi) * sqrt(a)), x);
  }
  double term = x / 2, sum = term;
  for (int k = 1; k <= 120; k++) {
    term *= (x / 2) * (x / 2) / ((double)k * (k + 1));
    sum += term;
  }
  return sum * exp(-a);
}

double qn_ref_logistic(double x) {
  if (x < 0) {
    double e = exp(x);
    return e / (1 + e);
  }
  return 1 / (1 + exp(-x));
}

double qn_ref_maximum(double a, double b) {
  if (isnan(a) || isnan(b))
    return a + b;
  if (a == b)
    return signbit(a) ? b : a;
  return a > b ? a : b;
}

double qn_ref_minimum(double a, double b) {
  if (isnan(a) || isnan(b))
    return a + b;
  if (a == b)
    return signbit(a) ? a : b;
  return a < b ? a : b;
}

double qn_ref_reduce_precision(double x, int exponent_bits, int mantissa_bits, int least_exponent,
                               int source_exponent_bits) {
  if (x == 0 || isnan(x) || isinf(x))
    return x;
  int e = 0;
  (void)frexp(x, &e); /* |x| = f * 2^e with f in [0.5, 1) */
  int quantum = (e - 1 > least_exponent ? e - 1 : least_exponent) - mantissa_bits;
  if (quantum >= -1074)
    x = ldexp(rint(ldexp(x, -quantum)), quantum);
  if (exponent_bits >= source_exponent_bits)
    return x;
  int bias = (1 << (exponent_bits - 1)) - 1;
  (void)frexp(x, &e);
  if (e - 1 > bias)
    return copysign(INFINITY, x);
  if (e - 1 < 1 - bias)
    return copysign(0.0, x);
  return x;
}
