/* Binary arithmetic. Integers wrap; division by zero and shifts beyond the width give what StableHLO's users see from XLA: x/0 has all
 * bits set, x rem 0 is x, MIN/-1 is MIN. On bools, add and maximum are "or", multiply and minimum are "and". */
#include <math.h>

#include "ref_complex.h"
#include "ref_special.h"
#include "rows.h"

static bool given(const qn_rule *r, int i) { return qn_val_ok(r->given[i]); }

/* ---- add, subtract ---- */
static void add_vjp(qn_rule *r, qn_val *out) {
  out[0] = r->given[0];
  out[1] = r->given[0];
}
static void add_jvp(qn_rule *r, qn_val *out) {
  if (given(r, 0) && given(r, 1))
    out[0] = qn_add(r->given[0], r->given[1]);
  else
    out[0] = given(r, 0) ? r->given[0] : r->given[1];
}
static qn_sval add_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return s->dtype(s, in[0]) == QN_BOOL ? qs_or(s, in[0], in[1]) : qs_add(s, in[0], in[1]);
}
static double add_ref(const double *x) { return x[0] + x[1]; }
static int64_t add_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)((uint64_t)x[0] + (uint64_t)x[1]);
}
static uint64_t add_ref_u(const uint64_t *x, int bits) { return bits == 1 ? x[0] | x[1] : x[0] + x[1]; }
const qn_op_def qn_op_add = {
    .name = "add",
    .doc = "Sum of two tensors; integers wrap, bools are joined by or.",
    QN_ROW_ELEMENTWISE(2, QN_D_ANY),
    .vjp = add_vjp,
    .jvp = add_jvp,
    .expand = add_expand,
    .ref = add_ref,
    .ref_i = add_ref_i,
    .ref_u = add_ref_u,
    .ref_c = qn_refc_add,
    QN_ROW_SAMPLE2(-9, 9, 0),
};

static void subtract_vjp(qn_rule *r, qn_val *out) {
  out[0] = r->given[0];
  if (given(r, 0) && r->wanted[1])
    out[1] = qn_neg(r->given[0]);
}
static void subtract_jvp(qn_rule *r, qn_val *out) {
  if (given(r, 0) && given(r, 1))
    out[0] = qn_sub(r->given[0], r->given[1]);
  else if (given(r, 1))
    out[0] = qn_neg(r->given[1]);
  else
    out[0] = r->given[0];
}
static qn_sval subtract_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_sub(s, in[0], in[1]);
}
static double subtract_ref(const double *x) { return x[0] - x[1]; }
static int64_t subtract_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)((uint64_t)x[0] - (uint64_t)x[1]);
}
static uint64_t subtract_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] - x[1];
}
const qn_op_def qn_op_subtract = {
    .name = "subtract",
    .doc = "Difference of two tensors; integers wrap.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL | QN_D_COMPLEX),
    .vjp = subtract_vjp,
    .jvp = subtract_jvp,
    .expand = subtract_expand,
    .ref = subtract_ref,
    .ref_i = subtract_ref_i,
    .ref_u = subtract_ref_u,
    .ref_c = qn_refc_subtract,
    QN_ROW_SAMPLE2(-9, 9, 0),
};

/* ---- multiply, divide, remainder ---- */
static qn_val multiply_partial(qn_rule *r, int i) { return r->in[1 - i]; }
static qn_sval multiply_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return s->dtype(s, in[0]) == QN_BOOL ? qs_and(s, in[0], in[1]) : qs_mul(s, in[0], in[1]);
}
static double multiply_ref(const double *x) { return x[0] * x[1]; }
static int64_t multiply_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)((uint64_t)x[0] * (uint64_t)x[1]);
}
static uint64_t multiply_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] * x[1];
}
const qn_op_def qn_op_multiply = {
    .name = "multiply",
    .doc = "Product of two tensors, element by element; integers wrap, bools are joined by and.",
    QN_ROW_ELEMENTWISE(2, QN_D_ANY),
    .partial = multiply_partial,
    .expand = multiply_expand,
    .ref = multiply_ref,
    .ref_i = multiply_ref_i,
    .ref_u = multiply_ref_u,
    .ref_c = qn_refc_multiply,
    QN_ROW_SAMPLE2(-9, 9, 0),
};

static qn_val divide_partial(qn_rule *r, int i) {
  qn_val b = r->in[1], one = qn_like(b, 1);
  if (i == 0)
    return qn_div(one, b);
  return qn_mul(qn_neg(r->in[0]), qn_div(one, qn_mul(b, b)));
}
static double divide_ref(const double *x) { return x[0] / x[1]; }
static int64_t divide_ref_i(const int64_t *x, int bits) {
  (void)bits;
  if (x[1] == 0)
    return -1;
  return x[1] == -1 ? (int64_t)(0 - (uint64_t)x[0]) : x[0] / x[1];
}
static uint64_t divide_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[1] == 0 ? UINT64_MAX : x[0] / x[1];
}
const qn_op_def qn_op_divide = {
    .name = "divide",
    .doc = "Quotient of two tensors; integers truncate, and x/0 has all bits set.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL | QN_D_COMPLEX),
    .partial = divide_partial,
    .expand = qn_expand_divide,
    .ref = divide_ref,
    .ref_i = divide_ref_i,
    .ref_u = divide_ref_u,
    .ref_c = qn_refc_divide,
    QN_ROW_SAMPLE2(0.5, 9, 0),
};

static qn_val remainder_partial(qn_rule *r, int i) {
  if (i == 0)
    return qn_like(r->in[0], 1);
  qn_val quotient = qn_div(r->in[0], r->in[1]);
  return qn_neg(qn_mul(qn_sign(quotient), qn_floor(qn_abs(quotient))));
}
static double remainder_ref(const double *x) { return fmod(x[0], x[1]); }
static int64_t remainder_ref_i(const int64_t *x, int bits) {
  (void)bits;
  if (x[1] == 0)
    return x[0];
  return x[1] == -1 ? 0 : x[0] % x[1];
}
static uint64_t remainder_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[1] == 0 ? x[0] : x[0] % x[1];
}
const qn_op_def qn_op_remainder = {
    .name = "remainder",
    .doc = "Remainder of a truncating division, with the dividend's sign; exact.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL),
    .partial = remainder_partial,
    .expand = qn_expand_remainder,
    .ref = remainder_ref,
    .ref_i = remainder_ref_i,
    .ref_u = remainder_ref_u,
    QN_ROW_SAMPLE2(0.5, 9, 0),
};

/* ---- maximum, minimum: all to the winner, half each on a tie ---- */
static qn_val extremum_partial(qn_rule *r, int i) {
  qn_val mine = qn_eq(r->in[i], r->out[0]), other = qn_eq(r->in[1 - i], r->out[0]);
  qn_val x = r->in[i];
  return qn_select(mine, qn_select(other, qn_like(x, 0.5), qn_like(x, 1)), qn_like(x, 0));
}
static double maximum_ref(const double *x) { return qn_ref_maximum(x[0], x[1]); }
static int64_t maximum_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] > x[1] ? x[0] : x[1];
}
static uint64_t maximum_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] > x[1] ? x[0] : x[1];
}
const qn_op_def qn_op_maximum = {
    .name = "maximum",
    .doc = "The larger of two elements; NaN wins.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL | QN_D_BOOL),
    .partial = extremum_partial,
    .expand = qn_expand_maximum,
    .ref = maximum_ref,
    .ref_i = maximum_ref_i,
    .ref_u = maximum_ref_u,
    QN_ROW_SAMPLE2(-9, 9, 0),
};

static double minimum_ref(const double *x) { return qn_ref_minimum(x[0], x[1]); }
static int64_t minimum_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] < x[1] ? x[0] : x[1];
}
static uint64_t minimum_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] < x[1] ? x[0] : x[1];
}
const qn_op_def qn_op_minimum = {
    .name = "minimum",
    .doc = "The smaller of two elements; NaN wins.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL | QN_D_BOOL),
    .partial = extremum_partial,
    .expand = qn_expand_minimum,
    .ref = minimum_ref,
    .ref_i = minimum_ref_i,
    .ref_u = minimum_ref_u,
    QN_ROW_SAMPLE2(-9, 9, 0),
};
