/* erf, erfc and the inverse of erf.
 *
 * erfc x = e^(-x^2) (1/(x + K)) P(q), q = (x - K)/(x + K): the mapping of Shepherd and Laframboise (Math. Comp. 36,
 * 1981), which takes the half-line to a short interval. e^(-x^2) keeps the rounding error of x^2 by fma. erf near 0
 * is x + x P(x^2); further out f32 takes 1 - e^(-P(x)) and f64 takes 1 - erfc. */
#include "expand.h"

static const double erf_near_f32[] = {0.128379151,  -0.376124889,  0.112817302,
                                      -0.026762927, 0.00498727476, -0.000595910533}; /* 2^-25.7 below 0.93 */
static const double erf_near_f64[] = {0.12837916709551259,     -0.37612638903183754,    0.11283791670955069,
                                      -0.026866170645116896,   0.0052239776252539184,   -0.00085483270087256032,
                                      0.00012055332240973141,  -1.4925625325045033e-05, 1.6461533604190192e-06,
                                      -1.6356553262508683e-07, 1.4706076788198944e-08,  -1.157013412487425e-09,
                                      6.3249017781266424e-11}; /* 2^-56.3 */
static const double erf_far_f32[] = {-0.000177336129, 1.12952769,      0.633321106,   0.108308539, -0.0251378641,
                                     0.00417808443,   -0.000435916998, 2.12214109e-05}; /* 2^-28.6 on [0.93, 3.95] */
static const double erfc_f32[] = {1.02158272,      -0.687160671,   0.279470831,   -0.0364423059,
                                  -0.0214962047,   0.00648065889,  0.00303162192, -0.000850815675,
                                  -0.000560171029, 7.04724371e-05, 6.85025007e-05}; /* 2^-25.7 up to 10.1, K = 2 */
static const double erfc_f64[] = {
    1.0959956610004911,      -0.97654872908088208,    0.77320870226523686,     -0.54085383131322495,
    0.33085158787802321,     -0.17401093724028913,    0.076381514909154291,    -0.026370053334628368,
    0.0061120556567051069,   -0.00028095891581984372, -0.00045505268836157472, 0.00017681308655109515,
    -3.6351517417787639e-06, -1.8861784515825852e-05, 4.6943370383260416e-06,  1.4260928342789024e-06,
    -8.4601778538164283e-07, -7.7978740524608873e-08, 1.2394824294086527e-07,  2.6115313627068165e-09,
    -1.5395387257303341e-08, -3.8391331664744838e-10, 1.0172868872095638e-09}; /* 2^-53.7 up to 27.3, K = 4 */

/* erfc of 0 <= x <= the last x that gives a number. 1/(x + K) carries its rounding error along, for it enters twice. */
static qn_sval erfc_positive(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  double shift = qn_ex_sel(m, 2, 4);
  qn_sval one = qn_ex_k(s, m, 1), k = qn_ex_k(s, m, shift), minus_2k = qn_ex_k(s, m, -2 * shift);
  qn_sval den = qs_add(s, x, k);
  qn_sval den_lo = qs_sub(s, x, qs_sub(s, den, k));
  qn_sval r = qs_div(s, one, den), minus_r = qs_neg(s, r);
  qn_sval r_lo = qs_mul(s, r, qs_fma(s, minus_r, den_lo, qs_fma(s, minus_r, den, one)));
  qn_sval q = qs_fma(s, minus_2k, r_lo, qs_fma(s, minus_2k, r, one)); /* (x - K)/(x + K) = 1 - 2K/(x + K) */
  int n;
  const double *c = QN_EX_PICK(m, erfc_f32, erfc_f64, &n);
  qn_sval square = qs_mul(s, x, x);
  qn_sval lost = qs_fma(s, x, x, qs_neg(s, square));
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, qs_neg(s, square));
  qn_sval e = qs_add(s, qn_ex_expm1_poly(s, m, qs_sub(s, y.r, lost)), one);
  qn_sval p = qs_mul(s, e, qn_ex_poly(s, q, c, n));
  /* the scaling to a subnormal comes last, after every factor */
  return qn_ex_scale(s, m, qs_fma(s, p, r, qs_mul(s, p, r_lo)), y.bits);
}

static qn_sval erf_far(qn_sink *s, const qn_ex_fmt *m, qn_sval ax) {
  qn_sval one = qn_ex_k(s, m, 1);
  if (m->t == QN_F64)
    return qs_sub(s, one, erfc_positive(s, m, qn_ex_below(s, ax, qn_ex_k(s, m, 6))));
  qn_sval x = qn_ex_below(s, ax, qn_ex_k(s, m, 3.95));
  qn_sval p = qn_ex_poly(s, x, erf_far_f32, (int)(sizeof erf_far_f32 / sizeof *erf_far_f32));
  qn_ex_reduced y = qn_ex_exp_reduce(s, m, qs_neg(s, p));
  qn_sval e = qs_add(s, qn_ex_expm1_poly(s, m, y.r), one);
  return qs_fma(s, qs_neg(s, e), qn_ex_pow2(s, m, y.bits, 0), one);
}

static qn_sval erf_near(qn_sink *s, const qn_ex_fmt *m, qn_sval x) {
  int n;
  const double *c = QN_EX_PICK(m, erf_near_f32, erf_near_f64, &n);
  return qs_fma(s, x, qn_ex_poly(s, qs_mul(s, x, x), c, n), x);
}

qn_sval qn_expand_erf(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval ax = qs_abs(s, in[0]);
  qn_sval y = qs_select(s, qs_gt(s, ax, qn_ex_k(s, m, 0.93)), erf_far(s, m, ax), erf_near(s, m, ax));
  return qn_ex_with_sign(s, m, y, qn_ex_sign_bit(s, m, in[0]));
}

qn_sval qn_expand_erfc(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = in[0], ax = qs_abs(s, x), last = qn_ex_k(s, m, qn_ex_sel(m, 10.1, 27.3));
  qn_sval y = erfc_positive(s, m, qn_ex_below(s, ax, last));
  y = qs_select(s, qs_lt(s, x, qn_ex_k(s, m, 0)), qs_sub(s, qn_ex_k(s, m, 2), y), y);
  qn_sval near = qs_sub(s, qn_ex_k(s, m, 1), erf_near(s, m, x));
  return qs_select(s, qs_lt(s, ax, qn_ex_k(s, m, 0.5)), near, y);
}

/* ---- inverse: M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2010), polynomials in w = -log(1
 * - x^2) ---- */

static const double giles_f32_near[] = {1.50140941f,     0.246640727f,    -0.00417768164f,
                                        -0.00125372503f, 0.00021858087f,  -4.39150654e-06f,
                                        -3.5233877e-06f, 3.43273939e-07f, 2.81022636e-08f};
static const double giles_f32_far[] = {2.83297682f,    1.00167406f,     0.00943887047f,
                                       -0.0076224613f, 0.00573950773f,  -0.00367342844f,
                                       0.00134934322f, 0.000100950558f, -0.000200214257f};
static const double giles_f64_near[] = {
    1.6536545626831027356,      0.24015818242558961693,     -0.0060336708714301490533,  -0.00074070253416626697512,
    0.0001867342080340571352,   -1.3882523362786468719e-05, -1.3654692000834678645e-06, 4.2347877827932403518e-07,
    -2.9070369957882005086e-08, -4.112633980346983697e-09,  1.051212273321532285e-09,   -5.4154120542946279317e-11,
    -1.2975133253453532498e-11, 2.6335093153082322977e-12,  -8.1519341976054721522e-14, -4.0545662729752068639e-14,
    6.6376381343583238325e-15,  2.0972767875968561637e-17,  -1.333171662854620906e-16,  1.115787767802518096e-17,
    1.2858480715256400167e-18,  -1.685059138182016589e-19,  -3.6444120640178196996e-21};
static const double giles_f64_mid[] = {
    3.0838856104922207635,      1.0052589676941592334,     0.005370914553590063617,    -0.0037512085075692412107,
    0.0024914420961078508066,   -0.0016882755560235047313, 0.00095328937973738049703,  -0.0003550375203628474796,
    2.4031110387097893999e-05,  6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
    2.9234449089955446044e-06,  -4.013867526981545969e-06, 1.5027403968909827627e-06,  1.8239629214389227755e-08,
    -2.7517406297064545428e-07, 9.0756561938885390979e-08, 2.2137376921775787049e-09};
static const double giles_f64_far[] = {
    4.8499064014085844221,     1.0103004648645343977,      -0.00013871931833623122026, -0.00021503011930044477347,
    7.5995277030017761139e-05, -1.9681778105531670567e-05, 4.5260625972231537039e-06,  -9.9298272942317002539e-07,
    2.2900482228026654717e-07, -6.7711997758452339498e-08, 2.9147953450901080826e-08,  -1.4960026627149240478e-08,
    7.6157012080783393804e-09, -3.7894654401267369937e-09, 1.5076572693500548083e-09,  -2.5556418169965252055e-10,
    -2.7109920616438573243e-11};

#define TABLE(t) t, (int)(sizeof(t) / sizeof *(t))

/* f32 takes log1p of the rounded -x^2, as XLA does, so that samples drawn through it agree; f64 keeps 1 - x^2 exact. */
qn_sval qn_expand_erf_inv(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval x = in[0], one = qn_ex_k(s, m, 1), p;
  if (m->t == QN_F32) {
    qn_sval w = qs_neg(s, qn_ex_log1p_product(s, m, qs_neg(s, qs_mul(s, x, x)), one));
    qn_sval near = qn_ex_poly(s, qs_sub(s, w, qn_ex_k(s, m, 2.5)), TABLE(giles_f32_near));
    qn_sval far = qn_ex_poly(s, qs_sub(s, qs_sqrt(s, w), qn_ex_k(s, m, 3)), TABLE(giles_f32_far));
    p = qs_select(s, qs_lt(s, w, qn_ex_k(s, m, 5)), near, far);
  } else {
    qn_sval w = qs_neg(s, qn_ex_log1p_product(s, m, qs_neg(s, x), x));
    qn_sval root = qs_sqrt(s, w);
    qn_sval near = qn_ex_poly(s, qs_sub(s, w, qn_ex_k(s, m, 3.125)), TABLE(giles_f64_near));
    qn_sval mid = qn_ex_poly(s, qs_sub(s, root, qn_ex_k(s, m, 3.25)), TABLE(giles_f64_mid));
    qn_sval far = qn_ex_poly(s, qs_sub(s, root, qn_ex_k(s, m, 5)), TABLE(giles_f64_far));
    p = qs_select(s, qs_lt(s, w, qn_ex_k(s, m, 16)), mid, far);
    p = qs_select(s, qs_lt(s, w, qn_ex_k(s, m, 6.25)), near, p);
  }
  qn_sval ax = qs_abs(s, x);
  qn_sval edge = qs_select(s, qs_eq(s, ax, one), qn_ex_inf(s, m), qn_ex_nan(s, m));
  return qs_mul(s, x, qs_select(s, qs_lt(s, ax, one), p, edge));
}
