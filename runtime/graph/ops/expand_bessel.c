/* e^-|x| I1(x). Up to 8 the series of I1(x)/x in x^2, whose terms are all positive, times e^-|x|; beyond, a
 * polynomial in 1/x over sqrt(x). */
#include "expand.h"

static const double near_f32[] = {0.5,
                                  0.0625,
                                  0.00260416674,
                                  5.42534253e-05,
                                  6.78176377e-07,
                                  5.65066127e-09,
                                  3.36805896e-11,
                                  1.48751562e-13,
                                  5.51961079e-16,
                                  1.05735261e-18,
                                  5.95225194e-21}; /* 2^-27.6 */
static const double near_f64[] = {0.5,
                                  0.0625,
                                  0.0026041666666666665,
                                  5.4253472222222206e-05,
                                  6.7816840277778394e-07,
                                  5.651403356480075e-09,
                                  3.3639305693550353e-11,
                                  1.5017547182422324e-13,
                                  5.2144261208274196e-16,
                                  1.4484516175789564e-18,
                                  3.2919386735976273e-21,
                                  6.2346418311518096e-24,
                                  9.993313661284526e-27,
                                  1.3698050818370975e-29,
                                  1.6620561618721526e-32,
                                  1.5048820887414723e-35,
                                  2.3652532166732387e-38}; /* 2^-55.4 */
static const double far_f32[] = {0.398942292,   -0.149605453,  -0.0465757735,
                                 -0.0461562313, 0.00969809573, -0.452376008}; /* 2^-25.1 */
static const double far_f64[] = {
    0.39894228040143265,  -0.14960335515046605,  -0.046751048589766551,  -0.040907105631877896, -0.057544929289565942,
    -0.10707358874206183, -0.73610741336471563,  41.128797562878354,     -2773.0399607151544,   138263.65463829416,
    -5317151.2176927878,  159709452.40087211,    -3781751852.4465814,    70962827497.139435,    -1056982312868.882,
    12474139433758.295,   -115997676194621.52,   841516078366239.88,     -4688279807486838,     19578432190250440,
    -58996179624610432,   1.203874427534316e+17, -1.476343901618984e+17, 81087295961408160}; /* 2^-53.5 */

qn_sval qn_expand_bessel_i1e(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  const qn_ex_fmt *m = qn_ex_fmt_of(s, in[0]);
  qn_sval ax = qs_abs(s, in[0]), eight = qn_ex_k(s, m, 8), one = qn_ex_k(s, m, 1);
  qn_sval small = qs_le(s, ax, eight);
  int n;
  const double *c = QN_EX_PICK(m, near_f32, near_f64, &n);
  qn_sval x = qs_select(s, small, ax, eight);
  qn_sval near = qs_mul(s, x, qn_ex_poly(s, qs_mul(s, x, x), c, n));
  near = qs_mul(s, near, qn_ex_exp_below(s, m, qs_neg(s, x)));
  c = QN_EX_PICK(m, far_f32, far_f64, &n);
  qn_sval far = qs_div(s, qn_ex_poly(s, qs_div(s, one, ax), c, n), qs_sqrt(s, ax));
  qn_sval y = qs_select(s, qs_gt(s, ax, eight), far, near);
  y = qs_select(s, qn_ex_is_nan(s, ax), ax, y);
  return qn_ex_with_sign(s, m, y, qn_ex_sign_bit(s, m, in[0]));
}
