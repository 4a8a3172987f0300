/* Private to the expansions: the float format an expansion works in, polynomials, and the cores of exp and log that
 * others build on. A core takes its format as `m`; constants of f32 are rounded from the same literals as those of
 * f64 where one form serves both. */
#ifndef QUERN_EXPAND_H
#define QUERN_EXPAND_H

#include "quern/scalar.h"

typedef struct qn_ex_fmt {
  qn_dtype t, i, u;      /* the float, and integers of its width */
  int mant, bias;        /* 23, 127 or 52, 1023 */
  double ln2_hi, ln2_lo; /* ln2_hi has enough trailing zeros that k * ln2_hi is exact */
  double magic;          /* 1.5 * 2^mant: adding it rounds to an integer and leaves that in the low bits */
  double min_normal;
  double pi_2_hi, pi_2_lo; /* pi/2 */
  double exp_lo, exp_hi;   /* beyond these exp is 0 or infinite */
} qn_ex_fmt;

typedef struct qn_ex_pair {
  qn_sval hi, lo;
} qn_ex_pair;

const qn_ex_fmt *qn_ex_fmt_of(qn_sink *s, qn_sval x);
#define QN_EX_PICK(m, table32, table64, out_count)                                                                     \
  ((m)->t == QN_F64 ? (*(out_count) = (int)(sizeof(table64) / sizeof(double)), (table64))                              \
                    : (*(out_count) = (int)(sizeof(table32) / sizeof(double)), (table32)))

static inline qn_sval qn_ex_k(qn_sink *s, const qn_ex_fmt *m, double x) { return qs_const(s, m->t, x); }
static inline qn_sval qn_ex_ik(qn_sink *s, const qn_ex_fmt *m, uint64_t bits) { return qs_bits(s, m->i, bits); }
static inline double qn_ex_sel(const qn_ex_fmt *m, double for_f32, double for_f64) {
  return m->t == QN_F64 ? for_f64 : for_f32;
}

qn_sval qn_ex_poly(qn_sink *s, qn_sval x, const double *c,
                   int count); /* c[0] + c[1] x + ... by Horner's rule with fma */
qn_sval qn_ex_inf(qn_sink *s, const qn_ex_fmt *m);
qn_sval qn_ex_nan(qn_sink *s, const qn_ex_fmt *m);
qn_sval qn_ex_is_nan(qn_sink *s, qn_sval x);
qn_sval qn_ex_sign_bit(qn_sink *s, const qn_ex_fmt *m, qn_sval x); /* x's sign as an integer, 0 or the top bit */
qn_sval qn_ex_with_sign(qn_sink *s, const qn_ex_fmt *m, qn_sval x, qn_sval sign); /* x with a sign bit flipped in */
qn_sval qn_ex_below(qn_sink *s, qn_sval x, qn_sval bound);                        /* min(x, bound); NaN in x stays */
qn_sval qn_ex_above(qn_sink *s, qn_sval x, qn_sval bound);                        /* max(x, bound); NaN in x stays */

/* x = k ln2 + r with |r| <= ln2/2; bits holds k in its low bits, under those of m->magic. x within exp's bounds. */
typedef struct qn_ex_reduced {
  qn_sval r, k, bits;
} qn_ex_reduced;
qn_ex_reduced qn_ex_exp_reduce(qn_sink *s, const qn_ex_fmt *m, qn_sval x);
/* p * 2^k, rounded once even where the result is subnormal or overflows. */
qn_sval qn_ex_scale(qn_sink *s, const qn_ex_fmt *m, qn_sval p, qn_sval k_bits);
/* 2^(k + add) for a k that keeps it a normal number. */
qn_sval qn_ex_pow2(qn_sink *s, const qn_ex_fmt *m, qn_sval k_bits, int add);
qn_sval qn_ex_expm1_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval r); /* e^r - 1 for |r| <= ln2/2 */
qn_sval qn_ex_exp_poly(qn_sink *s, const qn_ex_fmt *m, qn_sval r);   /* e^r for |r| <= ln2/2 */
qn_sval qn_ex_exp_below(qn_sink *s, const qn_ex_fmt *m, qn_sval x);  /* e^x for x <= exp_hi, or NaN */

/* Positive x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]; subnormal x too. */
typedef struct qn_ex_split {
  qn_sval e, f;
} qn_ex_split;
qn_ex_split qn_ex_log_split(qn_sink *s, const qn_ex_fmt *m, qn_sval x);
/* e ln2 + log(1 + f) less e ln2_hi, which is exact */
qn_ex_pair qn_ex_log_fraction(qn_sink *s, const qn_ex_fmt *m, qn_ex_split x);
qn_sval qn_ex_log_any(qn_sink *s, const qn_ex_fmt *m, qn_sval x); /* with IEEE's corners */
/* log(1 + a*b) without the rounding of 1 + a*b, for finite operands with 1 + a*b > 0 */
qn_sval qn_ex_log1p_product(qn_sink *s, const qn_ex_fmt *m, qn_sval a, qn_sval b);
qn_sval qn_ex_log1p_any(qn_sink *s, const qn_ex_fmt *m, qn_sval x);
qn_sval qn_ex_pow_pos(qn_sink *s, const qn_ex_fmt *m, qn_sval x, qn_sval y);     /* x^y for x >= 0; power's magnitude */
qn_sval qn_ex_pow_pair(qn_sink *s, const qn_ex_fmt *m, qn_ex_pair x, qn_sval y); /* |x.hi + x.lo|^y */

/* sin and cos of pi * r for |r| <= 1/2: relative accuracy in the sine, absolute in the cosine. */
qn_sval qn_ex_sin_pi(qn_sink *s, const qn_ex_fmt *m, qn_sval r);
qn_sval qn_ex_cos_pi(qn_sink *s, const qn_ex_fmt *m, qn_sval r);

#endif
