/* Trigonometric functions and their inverses. */
#include <math.h>

#include "ref_complex.h"
#include "rows.h"

static qn_val one(qn_val v) { return qn_like(v, 1); }

static qn_val cosine_partial(qn_rule *r, int i) { return qn_neg(qn_sin(r->in[i])); }
static double cosine_ref(const double *x) { return cos(x[0]); }
const qn_op_def qn_op_cosine = {
    .name = "cosine",
    .doc = "Cosine of each element, in radians.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = cosine_partial,
    .expand = qn_expand_cos,
    .ref = cosine_ref,
    .ref_c = qn_refc_cos,
    QN_ROW_SAMPLE1(-6, 6, QN_TOL_2ULP),
};

static qn_val sine_partial(qn_rule *r, int i) { return qn_cos(r->in[i]); }
static double sine_ref(const double *x) { return sin(x[0]); }
const qn_op_def qn_op_sine = {
    .name = "sine",
    .doc = "Sine of each element, in radians.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = sine_partial,
    .expand = qn_expand_sin,
    .ref = sine_ref,
    .ref_c = qn_refc_sin,
    QN_ROW_SAMPLE1(-6, 6, QN_TOL_2ULP),
};

static qn_val tan_partial(qn_rule *r, int i) {
  (void)i;
  return qn_add(one(r->out[0]), qn_square(r->out[0]));
}
static double tan_ref(const double *x) { return tan(x[0]); }
const qn_op_def qn_op_tan = {
    .name = "tan",
    .doc = "Tangent of each element, in radians.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = tan_partial,
    .expand = qn_expand_tan,
    .ref = tan_ref,
    .ref_c = qn_refc_tan,
    QN_ROW_SAMPLE1(-1.3, 1.3, QN_TOL_4ULP),
};

static qn_val asin_partial(qn_rule *r, int i) { return qn_rsqrt(qn_sub(one(r->in[i]), qn_square(r->in[i]))); }
static double asin_ref(const double *x) { return asin(x[0]); }
const qn_op_def qn_op_asin = {
    .name = "chlo.asin",
    .doc = "Inverse sine of each element; NaN for real ones beyond -1 and 1.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = asin_partial,
    .expand = qn_expand_asin,
    .ref = asin_ref,
    .ref_c = qn_refc_asin,
    QN_ROW_SAMPLE1(-0.9, 0.9, QN_TOL_4ULP),
};

static qn_val acos_partial(qn_rule *r, int i) { return qn_neg(asin_partial(r, i)); }
static double acos_ref(const double *x) { return acos(x[0]); }
const qn_op_def qn_op_acos = {
    .name = "chlo.acos",
    .doc = "Inverse cosine of each element; NaN for real ones beyond -1 and 1.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = acos_partial,
    .expand = qn_expand_acos,
    .ref = acos_ref,
    .ref_c = qn_refc_acos,
    QN_ROW_SAMPLE1(-0.9, 0.9, QN_TOL_4ULP),
};

static qn_val atan_partial(qn_rule *r, int i) {
  return qn_div(one(r->in[i]), qn_add(one(r->in[i]), qn_square(r->in[i])));
}
static double atan_ref(const double *x) { return atan(x[0]); }
const qn_op_def qn_op_atan = {
    .name = "chlo.atan",
    .doc = "Inverse tangent of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = atan_partial,
    .expand = qn_expand_atan,
    .ref = atan_ref,
    .ref_c = qn_refc_atan,
    QN_ROW_SAMPLE1(-5, 5, QN_TOL_4ULP),
};
