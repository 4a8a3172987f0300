/* References of elementwise operations on complex numbers (qn_ref_c), in double. */
#ifndef QUERN_OPS_REF_COMPLEX_H
#define QUERN_OPS_REF_COMPLEX_H

#include "quern/op.h"

qn_complex qn_refc_add(const qn_complex *x);
qn_complex qn_refc_subtract(const qn_complex *x);
qn_complex qn_refc_multiply(const qn_complex *x);
qn_complex qn_refc_divide(const qn_complex *x);
qn_complex qn_refc_negate(const qn_complex *x);
qn_complex qn_refc_square(const qn_complex *x);
qn_complex qn_refc_abs(const qn_complex *x);
qn_complex qn_refc_sign(const qn_complex *x);
qn_complex qn_refc_real(const qn_complex *x);
qn_complex qn_refc_imag(const qn_complex *x);
qn_complex qn_refc_sqrt(const qn_complex *x);
qn_complex qn_refc_rsqrt(const qn_complex *x);
qn_complex qn_refc_cbrt(const qn_complex *x);
qn_complex qn_refc_exp(const qn_complex *x);
qn_complex qn_refc_expm1(const qn_complex *x);
qn_complex qn_refc_log(const qn_complex *x);
qn_complex qn_refc_log1p(const qn_complex *x);
qn_complex qn_refc_logistic(const qn_complex *x);
qn_complex qn_refc_tanh(const qn_complex *x);
qn_complex qn_refc_sinh(const qn_complex *x);
qn_complex qn_refc_cosh(const qn_complex *x);
qn_complex qn_refc_sin(const qn_complex *x);
qn_complex qn_refc_cos(const qn_complex *x);
qn_complex qn_refc_tan(const qn_complex *x);
qn_complex qn_refc_asin(const qn_complex *x);
qn_complex qn_refc_acos(const qn_complex *x);
qn_complex qn_refc_atan(const qn_complex *x);
qn_complex qn_refc_asinh(const qn_complex *x);
qn_complex qn_refc_acosh(const qn_complex *x);
qn_complex qn_refc_atanh(const qn_complex *x);
qn_complex qn_refc_power(const qn_complex *x);
qn_complex qn_refc_atan2(const qn_complex *x);

#endif
