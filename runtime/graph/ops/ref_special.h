/* References of the functions that C's library lacks, in double, to some 1e-14: slow and plain. */
#ifndef QUERN_OPS_REF_SPECIAL_H
#define QUERN_OPS_REF_SPECIAL_H

#include <stdint.h>

double qn_ref_erf_inv(double x);
double qn_ref_digamma(double x);
double qn_ref_zeta(double x, double q); /* Hurwitz */
double qn_ref_polygamma(double m, double x);
double qn_ref_bessel_i1e(double x);
double qn_ref_logistic(double x);
double qn_ref_maximum(double a, double b); /* NaN wins, +0 above -0 */
double qn_ref_minimum(double a, double b);
/* Rounds to a format of that many bits; `least_exponent` is the source format's for normal numbers (-126 for f32). */
double qn_ref_reduce_precision(double x, int exponent_bits, int mantissa_bits, int least_exponent,
                               int source_exponent_bits);

#endif
