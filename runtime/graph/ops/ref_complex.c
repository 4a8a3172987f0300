/* References on complex numbers: C's own functions where it has them. Products are the plain four, as StableHLO's users see them from XLA, without
 * C's recovery of infinities. */
#include "ref_complex.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/* Not re + I * im, which spoils infinities. A complex number lies in memory as its parts. */
static double complex make(double re, double im) {
  const double parts[2] = {re, im};
  double complex z;
  memcpy(&z, parts, sizeof z);
  return z;
}
static double complex in_c(qn_complex x) { return make(x.re, x.im); }
static qn_complex out_c(double complex z) { return (qn_complex){creal(z), cimag(z)}; }

qn_complex qn_refc_add(const qn_complex *x) { return (qn_complex){x[0].re + x[1].re, x[0].im + x[1].im}; }
qn_complex qn_refc_subtract(const qn_complex *x) { return (qn_complex){x[0].re - x[1].re, x[0].im - x[1].im}; }
qn_complex qn_refc_negate(const qn_complex *x) { return (qn_complex){-x[0].re, -x[0].im}; }
qn_complex qn_refc_real(const qn_complex *x) { return (qn_complex){x[0].re, 0}; }
qn_complex qn_refc_imag(const qn_complex *x) { return (qn_complex){x[0].im, 0}; }

static qn_complex product(qn_complex a, qn_complex b) {
  return (qn_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
qn_complex qn_refc_multiply(const qn_complex *x) { return product(x[0], x[1]); }
qn_complex qn_refc_square(const qn_complex *x) { return product(x[0], x[0]); }
qn_complex qn_refc_divide(const qn_complex *x) { return out_c(in_c(x[0]) / in_c(x[1])); }

qn_complex qn_refc_abs(const qn_complex *x) { return (qn_complex){hypot(x[0].re, x[0].im), 0}; }
qn_complex qn_refc_sign(const qn_complex *x) {
  double size = hypot(x[0].re, x[0].im);
  return size > 0 || isnan(size) ? (qn_complex){x[0].re / size, x[0].im / size} : x[0];
}

qn_complex qn_refc_sqrt(const qn_complex *x) { return out_c(csqrt(in_c(x[0]))); }
qn_complex qn_refc_rsqrt(const qn_complex *x) { return out_c(make(1, 0) / csqrt(in_c(x[0]))); }
qn_complex qn_refc_cbrt(const qn_complex *x) {
  double size = cbrt(hypot(x[0].re, x[0].im)), angle = atan2(x[0].im, x[0].re) / 3;
  return (qn_complex){size * cos(angle), size * sin(angle)};
}

qn_complex qn_refc_exp(const qn_complex *x) { return out_c(cexp(in_c(x[0]))); }
/* Both parts of e^x cos(y) - 1 vanish at zero by themselves when it is written as a sum of small terms. */
qn_complex qn_refc_expm1(const qn_complex *x) {
  double half = sin(x[0].im / 2);
  return (qn_complex){expm1(x[0].re) * cos(x[0].im) - 2 * half * half, exp(x[0].re) * sin(x[0].im)};
}
qn_complex qn_refc_log(const qn_complex *x) { return out_c(clog(in_c(x[0]))); }
qn_complex qn_refc_log1p(const qn_complex *x) {
  double a = x[0].re, b = x[0].im;
  double complex far = clog(make(1 + a, b));
  bool near = fabs(a) < 0.5 && fabs(b) < 0.5;
  long double grown = (long double)a * (2 + (long double)a) + (long double)b * (long double)b;
  return (qn_complex){near ? (double)(log1pl(grown) / 2) : creal(far), cimag(far)};
}
qn_complex qn_refc_logistic(const qn_complex *x) {
  return out_c(make(1, 0) / (make(1, 0) + cexp(make(-x[0].re, -x[0].im))));
}
qn_complex qn_refc_tanh(const qn_complex *x) { return out_c(ctanh(in_c(x[0]))); }
qn_complex qn_refc_sinh(const qn_complex *x) { return out_c(csinh(in_c(x[0]))); }
qn_complex qn_refc_cosh(const qn_complex *x) { return out_c(ccosh(in_c(x[0]))); }
qn_complex qn_refc_sin(const qn_complex *x) { return out_c(csin(in_c(x[0]))); }
qn_complex qn_refc_cos(const qn_complex *x) { return out_c(ccos(in_c(x[0]))); }
qn_complex qn_refc_tan(const qn_complex *x) { return out_c(ctan(in_c(x[0]))); }
qn_complex qn_refc_asin(const qn_complex *x) { return out_c(casin(in_c(x[0]))); }
qn_complex qn_refc_acos(const qn_complex *x) { return out_c(cacos(in_c(x[0]))); }
qn_complex qn_refc_atan(const qn_complex *x) { return out_c(catan(in_c(x[0]))); }
qn_complex qn_refc_asinh(const qn_complex *x) { return out_c(casinh(in_c(x[0]))); }
qn_complex qn_refc_acosh(const qn_complex *x) { return out_c(cacosh(in_c(x[0]))); }
qn_complex qn_refc_atanh(const qn_complex *x) { return out_c(catanh(in_c(x[0]))); }

/* Zero to the power of zero is one, to one with a positive real part zero. */
qn_complex qn_refc_power(const qn_complex *x) {
  if (x[1].re == 0 && x[1].im == 0)
    return (qn_complex){1, 0};
  if (x[0].re == 0 && x[0].im == 0)
    return x[1].re > 0 ? (qn_complex){0, 0} : (qn_complex){NAN, NAN};
  return out_c(cpow(in_c(x[0]), in_c(x[1])));
}
/* -i log((x + iy) / sqrt(x^2 + y^2)) */
qn_complex qn_refc_atan2(const qn_complex *x) {
  double complex a = in_c(x[0]), b = in_c(x[1]);
  double complex y = clog((b + make(-cimag(a), creal(a))) / csqrt(b * b + a * a));
  return (qn_complex){cimag(y), -creal(y)};
}
