/* asin, acos, atan, atan2: one minimax polynomial each on the reduced range, and the usual reflections.
 * asin x = pi/2 - 2 asin sqrt((1 - x)/2) above 1/2; atan x = pi/2 - atan(1/x) above 1. */
#include "expand.h"

static const double asin_f32[] = {0.166667551, 0.074951902, 0.0454840586, 0.024111094, 0.0422839671}; /* 2^-27.6 */
static const double asin_f64[] = {
    0.16666666666666766,  0.074999999999693284,  0.044642857176054006, 0.030381942637276584, 0.02237221699843088,
    0.017351575577802879, 0.013981260609807962,  0.011395285056825568, 0.010800740827335118, 0.0036283753730809911,
    0.021899000332979739, -0.021272689818753663, 0.032801420759063241}; /* 2^-59.7 */
static const double atan_f32[] = {-0.333332986, 0.199985296,   -0.142640129, 0.109508522,   -0.0839918181,
                                  0.057878416,  -0.0310930815, 0.0108660311, -0.00178209122}; /* 2^-27.5 */
static const double atan_f64[] = {
    -0.33333333333333071,  0.19999999999951745,    -0.14285714282587772,    0.11111111007332047,
    -0.090909070076230475, 0.076922798869250214,   -0.066664044077793527,   0.058805297202679227,
    -0.052535264136092247, 0.047223471995028285,   -0.042192407635654225,   0.036643107435687175,
    -0.02990567141977073,  0.021986992510224939,   -0.013902503389919493,   0.0071978351022791258,
    -0.002885584225727112, 0.00083155077078665035, -0.00015220925517382596, 1.3229814244816813e-05}; /* 2^-55.3 */

typedef struct asin_parts {
  qn_sval big;  /* |x| > 1/2 */
  qn_sval r, v; /* asin of the reduced argument is r + v */
} asin_parts;

static asin_parts reduced_asin(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  qn_sval ax = qs_abs(s, x), half = qn_ex_k(s, m, 0.5);
  asin_parts p;
  p.big = qs_gt(s, ax, half);
  qn_sval z = qs_select(s, p.big, qs_fma(s, ax, qn_ex_k(s, m, -0.5), half), qs_mul(s, x, x));
  p.r = qs_select(s, p.big, qs_sqrt(s, z), ax);
  int n;
  const double *c = QN_EX_PICK(m, asin_f32, asin_f64, &n);
  p.v = qs_mul(s, qs_mul(s, p.r, z), qn_ex_poly(s, z, c, n));
  return p;
}

qn_sval qn_expand_asin(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  asin_parts p = reduced_asin(s, m, in[0]);
  qn_sval small = qs_add(s, p.r, p.v);
  /* pi/2 - 2r - 2v as pi/4 - ((2r - pi/4) + 2v): 2r - pi/4 is exact, or small beside the result */
  qn_sval quarter = qn_ex_k(s, m, m->pi_2_hi / 2), two = qn_ex_k(s, m, 2);
  qn_sval rest = qs_fma(s, p.v, two, qn_ex_k(s, m, -m->pi_2_lo));
  qn_sval big = qs_sub(s, quarter, qs_add(s, qs_fma(s, p.r, two, qn_ex_k(s, m, -m->pi_2_hi / 2)), rest));
  return qn_ex_with_sign(s, m, qs_select(s, p.big, big, small), qn_ex_sign_bit(s, m, in[0]));
}

qn_sval qn_expand_acos(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  asin_parts p = reduced_asin(s, m, in[0]);
  qn_sval sign = qn_ex_sign_bit(s, m, in[0]);
  qn_sval sum = qs_add(s, p.r, p.v);
  qn_sval hi = qn_ex_k(s, m, m->pi_2_hi), lo = qn_ex_k(s, m, m->pi_2_lo);
  qn_sval small = qs_add(s, qs_sub(s, hi, qn_ex_with_sign(s, m, sum, sign)), lo);
  qn_sval twice = qs_add(s, sum, sum);
  qn_sval far = qs_add(s, qs_sub(s, qs_add(s, hi, hi), twice), qs_add(s, lo, lo));
  qn_sval big = qs_select(s, qs_lt(s, in[0], qn_ex_k(s, m, 0)), far, twice);
  return qs_select(s, p.big, big, small);
}

static qn_sval atan_unit(qn_sink *s, const qn_ex_fmt *m, qn_sval t) {
  int n;
  const double *c = QN_EX_PICK(m, atan_f32, atan_f64, &n);
  qn_sval z = qs_mul(s, t, t);
  return qs_fma(s, qs_mul(s, t, z), qn_ex_poly(s, z, c, n), t);
}

qn_sval qn_expand_atan(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval ax = qs_abs(s, in[0]), one = qn_ex_k(s, m, 1);
  qn_sval big = qs_gt(s, ax, one);
  qn_sval t = qs_div(s, qs_select(s, big, one, ax), qs_select(s, big, ax, one));
  qn_sval r = atan_unit(s, m, t);
  qn_sval far = qs_sub(s, qn_ex_k(s, m, m->pi_2_hi), qs_sub(s, r, qn_ex_k(s, m, m->pi_2_lo)));
  return qn_ex_with_sign(s, m, qs_select(s, big, far, r), qn_ex_sign_bit(s, m, in[0]));
}

qn_sval qn_expand_atan2(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval zero = qn_ex_k(s, m, 0), one = qn_ex_k(s, m, 1);
  qn_sval ay = qs_abs(s, in[0]), ax = qs_abs(s, in[1]);
  qn_sval swap = qs_gt(s, ay, ax);
  qn_sval a = qs_select(s, swap, ax, ay), b = qs_select(s, swap, ay, ax);
  /* equal operands cover 0/0 and inf/inf */
  qn_sval t = qs_select(s, qs_eq(s, a, b), qs_select(s, qs_eq(s, b, zero), zero, one), qs_div(s, a, b));
  qn_sval r = atan_unit(s, m, t);
  qn_sval x_sign = qn_ex_sign_bit(s, m, in[1]);
  qn_sval left = qs_ne(s, x_sign, qn_ex_ik(s, m, 0));
  qn_sval turns_hi =
      qs_select(s, swap, qn_ex_k(s, m, m->pi_2_hi), qs_select(s, left, qn_ex_k(s, m, 2 * m->pi_2_hi), zero));
  qn_sval turns_lo =
      qs_select(s, swap, qn_ex_k(s, m, m->pi_2_lo), qs_select(s, left, qn_ex_k(s, m, 2 * m->pi_2_lo), zero));
  r = qs_select(s, qs_xor(s, swap, left), qs_neg(s, r), r);
  r = qs_add(s, turns_hi, qs_add(s, r, turns_lo));
  return qn_ex_with_sign(s, m, r, qn_ex_sign_bit(s, m, in[0]));
}
