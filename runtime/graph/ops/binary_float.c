/* Binary functions of floats: power, atan2, neighbours, and the functions of number theory. */
#include <math.h>
#include <string.h>

#include "../oracle.h"
#include "ref_complex.h"
#include "ref_special.h"
#include "rows.h"

/* ---- power ---- */
/* In the base b*a^(b-1), and 0 where b is 0; in the exponent log(a, with 0 replaced by 1) times the result. */
static qn_val power_partial(qn_rule *r, int i) {
  qn_val a = r->in[0], b = r->in[1];
  if (i == 0) {
    qn_val slope = qn_mul(b, qn_pow(a, qn_sub(b, qn_like(b, 1))));
    return qn_select(qn_eq(b, qn_like(b, 0)), qn_like(b, 0), slope);
  }
  qn_val safe = qn_select(qn_eq(a, qn_like(a, 0)), qn_like(a, 1), a);
  return qn_mul(qn_log(safe), r->out[0]);
}
static double power_ref(const double *x) { return pow(x[0], x[1]); }
static uint64_t power_by_squaring(uint64_t base, uint64_t exponent) {
  uint64_t y = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1)
      y *= base;
    base *= base;
  }
  return y;
}
static int64_t power_ref_i(const int64_t *x, int bits) {
  (void)bits;
  if (x[1] >= 0)
    return (int64_t)power_by_squaring((uint64_t)x[0], (uint64_t)x[1]);
  if (x[0] == 1 || x[0] == -1)
    return x[0] == 1 || (x[1] & 1) == 0 ? 1 : -1;
  return x[0] == 0 ? -1 : 0;
}
static uint64_t power_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return power_by_squaring(x[0], x[1]);
}
const qn_op_def qn_op_power = {
    .name = "power",
    .doc = "Each element of the first operand to the power of the second's.",
    QN_ROW_ELEMENTWISE(2, QN_D_REAL | QN_D_COMPLEX),
    .partial = power_partial,
    .expand = qn_expand_power,
    .ref = power_ref,
    .ref_i = power_ref_i,
    .ref_u = power_ref_u,
    .ref_c = qn_refc_power,
    QN_ROW_SAMPLE2(0.5, 3, QN_TOL_4ULP),
};

/* ---- atan2 ---- */
static qn_val atan2_partial(qn_rule *r, int i) {
  qn_val y = r->in[0], x = r->in[1];
  return qn_div(i == 0 ? x : qn_neg(y), qn_add(qn_square(y), qn_square(x)));
}
static double atan2_ref(const double *x) { return atan2(x[0], x[1]); }
const qn_op_def qn_op_atan2 = {
    .name = "atan2",
    .doc = "Angle of the point (second operand, first operand), from -pi to pi.",
    QN_ROW_ELEMENTWISE(2, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = atan2_partial,
    .expand = qn_expand_atan2,
    .ref = atan2_ref,
    .ref_c = qn_refc_atan2,
    QN_ROW_SAMPLE2(0.5, 5, QN_TOL_4ULP),
};

/* ---- next_after: steps in the operands' own dtype, so it works on their bits ---- */
static uint64_t next_bits(uint64_t a, uint64_t b, double fa, double fb, int bits) {
  uint64_t sign = UINT64_C(1) << (bits - 1);
  if (fa == fb)
    return b;
  if ((a & ~sign) == 0)
    return fb > 0 ? 1 : sign | 1;
  return (fa < fb) == ((a & sign) == 0) ? a + 1 : a - 1;
}
static qn_status next_after_eval(const qn_ref_call *c) {
  qn_dtype t = c->in_types[0]->dtype;
  size_t size = qn_dtype_size(t);
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++) {
    double a, b;
    qn_oracle_load_f(t, c->in[0], i, 1, &a);
    qn_oracle_load_f(t, c->in[1], i, 1, &b);
    if (isnan(a) || isnan(b)) {
      double nan = a + b;
      qn_oracle_store_f(t, c->out[0], i, 1, &nan);
      continue;
    }
    uint64_t x = 0, y = 0;
    memcpy(&x, (const char *)c->in[0] + (size_t)i * size, size); /* little-endian, as every file format here */
    memcpy(&y, (const char *)c->in[1] + (size_t)i * size, size);
    x = next_bits(x, y, a, b, (int)(8 * size));
    memcpy((char *)c->out[0] + (size_t)i * size, &x, size);
  }
  return QN_OK;
}
/* The same on 16-bit patterns held in i32: numbers are counted from zero in steps of the dtype. */
static qn_sval next_narrow(qn_sink *s, qn_sval a, qn_sval b, qn_dtype t) {
  qn_sval bits[2], magnitude[2], negative[2], count[2], nan[2];
  qn_sval zero = qs_const(s, QN_I32, 0), one = qs_const(s, QN_I32, 1), sign = qs_const(s, QN_I32, 0x8000);
  for (int i = 0; i < 2; i++) {
    bits[i] = qs_convert(s, QN_I32, qs_bitcast(s, QN_U16, i == 0 ? a : b));
    magnitude[i] = qs_and(s, bits[i], qs_const(s, QN_I32, 0x7FFF));
    negative[i] = qs_ge(s, bits[i], sign);
    count[i] = qs_select(s, negative[i], qs_neg(s, magnitude[i]), magnitude[i]);
    nan[i] = qs_gt(s, magnitude[i], qs_const(s, QN_I32, t == QN_F16 ? 0x7C00 : 0x7F80));
  }
  qn_sval step = qs_select(s, qs_lt(s, count[0], count[1]), one, qs_neg(s, one));
  qn_sval next = qs_add(s, count[0], step);
  qn_sval below = qs_or(s, qs_lt(s, next, zero), qs_and(s, qs_eq(s, next, zero), negative[0]));
  qn_sval y = qs_select(s, below, qs_or(s, sign, qs_sub(s, zero, next)), next);
  y = qs_select(s, qs_or(s, qs_eq(s, count[0], count[1]), nan[1]), bits[1], y);
  y = qs_select(s, nan[0], bits[0], y);
  return qs_bitcast(s, t, qs_convert(s, QN_U16, y));
}
static qn_sval next_after_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  qn_dtype t = s->dtype(s, in[0]);
  return t == QN_F16 || t == QN_BF16 ? next_narrow(s, in[0], in[1], t) : qn_expand_next_after(s, in, attr);
}
const qn_op_def qn_op_next_after = {
    .name = "chlo.next_after",
    .doc = "The next value of the dtype after the first operand's elements in the direction of the second's.",
    QN_ROW_ELEMENTWISE(2, QN_D_FLOAT),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = next_after_expand,
    .native_narrow = true,
    .eval = next_after_eval,
    QN_ROW_SAMPLE2(-2, 2, 0),
};

/* ---- polygamma, zeta: only their second operands are differentiable ---- */
static qn_val not_in_order(qn_rule *r, const char *what) {
  return qn_graph_fail(r->g, r->node->place, QN_UNSUPPORTED, "%s: no derivative in operand 0, %s",
                       qn_op_get(r->node->op)->name, what);
}
static qn_val polygamma_partial(qn_rule *r, int i) {
  if (i == 0)
    return not_in_order(r, "the order");
  return qn_polygamma(qn_add(r->in[0], qn_like(r->in[0], 1)), r->in[1]);
}
static double polygamma_ref(const double *x) { return qn_ref_polygamma(x[0], x[1]); }
const qn_op_def qn_op_polygamma = {
    .name = "chlo.polygamma",
    .doc = "Derivative of digamma, of the order that the first operand gives, at the second's elements.",
    QN_ROW_ELEMENTWISE(2, QN_D_FLOAT),
    .partial = polygamma_partial,
    .expand = qn_expand_polygamma,
    .ref = polygamma_ref,
    QN_ROW_SAMPLE2(1, 5, 1e-5),
};

static qn_val zeta_partial(qn_rule *r, int i) {
  if (i == 0)
    return not_in_order(r, "the exponent");
  qn_val x = r->in[0];
  return qn_mul(qn_neg(x), qn_zeta(qn_add(x, qn_like(x, 1)), r->in[1]));
}
static double zeta_ref(const double *x) { return qn_ref_zeta(x[0], x[1]); }
const qn_op_def qn_op_zeta = {
    .name = "chlo.zeta",
    .doc = "Hurwitz zeta function: the sum over k of (q + k)^-x, for x of the first operand and q of the second.",
    QN_ROW_ELEMENTWISE(2, QN_D_FLOAT),
    .partial = zeta_partial,
    .expand = qn_expand_zeta,
    .ref = zeta_ref,
    QN_ROW_SAMPLE2(1.5, 5, 1e-5),
};
