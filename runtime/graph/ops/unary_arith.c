/* Unary arithmetic: sign, absolute value, rounding, roots, bits. Integer references wrap as two's complement does. */
#include <math.h>

#include "ref_complex.h"
#include "ref_special.h"
#include "rows.h"

/* ---- abs, negate, sign, square ---- */
/* Of a complex number its distance from zero, a real number. */
static qn_status abs_infer(qn_infer *c) {
  QN_TRY(qn_infer_same(c));
  if (qn_dtype_is_complex(c->operands[0].dtype))
    c->out_types[0].dtype = qn_dtype_part(c->operands[0].dtype);
  return QN_OK;
}
/* 1 at both zeros, as JAX has it. Of a complex number the direction, conjugated, and 0 at zero. */
static qn_val abs_slope(qn_rule *r) {
  qn_val x = r->in[0];
  qn_dtype t = qn_val_type(x)->dtype;
  if (!qn_dtype_is_complex(t))
    return qn_select(qn_ge(x, qn_like(x, 0)), qn_like(x, 1), qn_like(x, -1));
  qn_val y = r->out[0], zero = qn_like(y, 0);
  y = qn_select(qn_eq(y, zero), qn_like(y, 1), y);
  return qn_div(qn_conj(x), qn_convert(y, t));
}
static void abs_jvp(qn_rule *r, qn_val *out) {
  qn_val y = qn_rule_product(r->given[0], abs_slope(r));
  out[0] = qn_val_ok(y) && qn_dtype_is_complex(qn_val_type(y)->dtype) ? qn_real(y) : y;
}
static void abs_vjp(qn_rule *r, qn_val *out) {
  qn_dtype t = qn_val_type(r->in[0])->dtype;
  qn_val given = r->given[0];
  if (qn_val_ok(given) && qn_dtype_is_complex(t))
    given = qn_convert(given, t);
  out[0] = qn_rule_product(given, abs_slope(r));
}
static double abs_ref(const double *x) { return fabs(x[0]); }
static int64_t abs_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] < 0 ? (int64_t)(0 - (uint64_t)x[0]) : x[0];
}
const qn_op_def qn_op_abs = {
    .name = "abs",
    .doc = "Absolute value of each element, of a complex one a real number; the least integer stays itself.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_SIGNED | QN_D_FLOAT | QN_D_COMPLEX,
    .infer = abs_infer,
    .batch = qn_batch_elementwise,
    .vjp = abs_vjp,
    .jvp = abs_jvp,
    .expand = qn_expand_abs,
    .ref = abs_ref,
    .ref_i = abs_ref_i,
    .ref_c = qn_refc_abs,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static void negate_linear(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]))
    out[0] = qn_neg(r->given[0]);
}
static qn_sval negate_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_neg(s, in[0]);
}
static double negate_ref(const double *x) { return -x[0]; }
static int64_t negate_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)(0 - (uint64_t)x[0]);
}
static uint64_t negate_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return 0 - x[0];
}
const qn_op_def qn_op_negate = {
    .name = "negate",
    .doc = "Negation of each element; integers wrap.",
    QN_ROW_ELEMENTWISE(1, QN_D_REAL | QN_D_COMPLEX),
    .vjp = negate_linear,
    .jvp = negate_linear,
    .expand = negate_expand,
    .ref = negate_ref,
    .ref_i = negate_ref_i,
    .ref_u = negate_ref_u,
    .ref_c = qn_refc_negate,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static double sign_ref(const double *x) { return x[0] > 0 ? 1 : x[0] < 0 ? -1 : x[0]; }
static int64_t sign_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (x[0] > 0) - (x[0] < 0);
}
static uint64_t sign_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] > 0;
}
const qn_op_def qn_op_sign = {
    .name = "sign",
    .doc = "-1, 0 or 1 by the sign of each element, of a complex one its direction; zeros and NaN stay themselves.",
    QN_ROW_ELEMENTWISE(1, QN_D_REAL | QN_D_COMPLEX),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = qn_expand_sign,
    .ref = sign_ref,
    .ref_i = sign_ref_i,
    .ref_u = sign_ref_u,
    .ref_c = qn_refc_sign,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static qn_val square_partial(qn_rule *r, int i) { return qn_mul(r->in[i], qn_like(r->in[i], 2)); }
static qn_sval square_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_mul(s, in[0], in[0]);
}
static double square_ref(const double *x) { return x[0] * x[0]; }
static int64_t square_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)((uint64_t)x[0] * (uint64_t)x[0]);
}
static uint64_t square_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] * x[0];
}
const qn_op_def qn_op_square = {
    .name = "chlo.square",
    .doc = "Each element times itself.",
    QN_ROW_ELEMENTWISE(1, QN_D_REAL | QN_D_COMPLEX),
    .partial = square_partial,
    .expand = square_expand,
    .ref = square_ref,
    .ref_i = square_ref_i,
    .ref_u = square_ref_u,
    .ref_c = qn_refc_square,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

/* ---- rounding ---- */
static qn_sval ceil_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_ceil(s, in[0]);
}
static double ceil_ref(const double *x) { return ceil(x[0]); }
const qn_op_def qn_op_ceil = {
    .name = "ceil",
    .doc = "Least integral value not below each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = ceil_expand,
    .ref = ceil_ref,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static qn_sval floor_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_floor(s, in[0]);
}
static double floor_ref(const double *x) { return floor(x[0]); }
const qn_op_def qn_op_floor = {
    .name = "floor",
    .doc = "Greatest integral value not above each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = floor_expand,
    .ref = floor_ref,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static double round_afz_ref(const double *x) { return round(x[0]); }
const qn_op_def qn_op_round_nearest_afz = {
    .name = "round_nearest_afz",
    .doc = "Nearest integral value, halves away from zero.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = qn_expand_round_afz,
    .ref = round_afz_ref,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static qn_sval round_even_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_rint(s, in[0]);
}
static double round_even_ref(const double *x) { return rint(x[0]); }
const qn_op_def qn_op_round_nearest_even = {
    .name = "round_nearest_even",
    .doc = "Nearest integral value, halves to the even one.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT),
    .no_grad = QN_NO_GRAD_STEPS,
    .expand = round_even_expand,
    .ref = round_even_ref,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

/* ---- roots ---- */
static qn_val sqrt_partial(qn_rule *r, int i) {
  (void)i;
  return qn_div(qn_like(r->out[0], 0.5), r->out[0]);
}
static qn_sval sqrt_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_sqrt(s, in[0]);
}
static double sqrt_ref(const double *x) { return sqrt(x[0]); }
const qn_op_def qn_op_sqrt = {
    .name = "sqrt",
    .doc = "Square root of each element, correctly rounded; NaN for negative ones.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = sqrt_partial,
    .expand = sqrt_expand,
    .ref = sqrt_ref,
    .ref_c = qn_refc_sqrt,
    QN_ROW_SAMPLE1(0.1, 9, 0),
};

static qn_val rsqrt_partial(qn_rule *r, int i) { return qn_mul(qn_like(r->in[i], -0.5), qn_div(r->out[0], r->in[i])); }
static double rsqrt_ref(const double *x) { return 1 / sqrt(x[0]); }
const qn_op_def qn_op_rsqrt = {
    .name = "rsqrt",
    .doc = "One over the square root of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = rsqrt_partial,
    .expand = qn_expand_rsqrt,
    .ref = rsqrt_ref,
    .ref_c = qn_refc_rsqrt,
    QN_ROW_SAMPLE1(0.1, 9, QN_TOL_2ULP),
};

static qn_val cbrt_partial(qn_rule *r, int i) {
  (void)i;
  return qn_div(qn_like(r->out[0], 1.0 / 3), qn_mul(r->out[0], r->out[0]));
}
static double cbrt_ref(const double *x) { return cbrt(x[0]); }
const qn_op_def qn_op_cbrt = {
    .name = "cbrt",
    .doc = "Cube root of each element.",
    QN_ROW_ELEMENTWISE(1, QN_D_FLOAT | QN_D_COMPLEX),
    .partial = cbrt_partial,
    .expand = qn_expand_cbrt,
    .ref = cbrt_ref,
    .ref_c = qn_refc_cbrt,
    QN_ROW_SAMPLE1(0.1, 9, QN_TOL_2ULP),
};

/* ---- tests and bits ---- */
static double is_finite_ref(const double *x) { return isfinite(x[0]) ? 1 : 0; }
const qn_op_def qn_op_is_finite = {
    .name = "is_finite",
    .doc = "Whether each element is neither infinite nor NaN.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_FLOAT,
    .infer = qn_infer_predicate,
    .batch = qn_batch_elementwise,
    .no_grad = QN_NO_GRAD_BOOL,
    .expand = qn_expand_is_finite,
    .ref = is_finite_ref,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static qn_sval not_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_not(s, in[0]);
}
static int64_t not_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return ~x[0];
}
static uint64_t not_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return ~x[0];
}
const qn_op_def qn_op_not = {
    .name = "not",
    .doc = "Complement of each bit; of a bool, its opposite.",
    QN_ROW_ELEMENTWISE(1, QN_D_BITS),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = not_expand,
    .ref_i = not_ref_i,
    .ref_u = not_ref_u,
    QN_ROW_SAMPLE1(-99, 99, 0),
};

/* The unsigned dtype of a signed one's width. */
static qn_dtype unsigned_of(qn_dtype t) { return qn_dtype_is_signed(t) ? (qn_dtype)(t - QN_I8 + QN_U8) : t; }

static qn_sval popcnt_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_dtype t = s->dtype(s, in[0]), u = unsigned_of(t);
  return t == u ? qs_popcnt(s, in[0]) : qs_bitcast(s, t, qs_popcnt(s, qs_bitcast(s, u, in[0])));
}
static uint64_t popcnt_ref_u(const uint64_t *x, int bits) {
  uint64_t n = 0;
  for (int i = 0; i < bits; i++)
    n += x[0] >> i & 1;
  return n;
}
static int64_t popcnt_ref_i(const int64_t *x, int bits) {
  uint64_t u = (uint64_t)x[0];
  return (int64_t)popcnt_ref_u(&u, bits);
}
const qn_op_def qn_op_popcnt = {
    .name = "popcnt",
    .doc = "How many bits of each element are set.",
    QN_ROW_ELEMENTWISE(1, QN_D_INT),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = popcnt_expand,
    .ref_i = popcnt_ref_i,
    .ref_u = popcnt_ref_u,
    QN_ROW_SAMPLE1(-99, 99, 0),
};

static qn_sval clz_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  qn_dtype t = s->dtype(s, in[0]), u = unsigned_of(t);
  return t == u ? qs_clz(s, in[0]) : qs_bitcast(s, t, qs_clz(s, qs_bitcast(s, u, in[0])));
}
static uint64_t clz_ref_u(const uint64_t *x, int bits) {
  uint64_t n = 0;
  for (int i = bits - 1; i >= 0 && (x[0] >> i & 1) == 0; i--)
    n++;
  return n;
}
static int64_t clz_ref_i(const int64_t *x, int bits) {
  uint64_t u = (uint64_t)x[0];
  return (int64_t)clz_ref_u(&u, bits);
}
const qn_op_def qn_op_count_leading_zeros = {
    .name = "count_leading_zeros",
    .doc = "How many bits above the highest set one are clear; the width for zero.",
    QN_ROW_ELEMENTWISE(1, QN_D_INT),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = clz_expand,
    .ref_i = clz_ref_i,
    .ref_u = clz_ref_u,
    QN_ROW_SAMPLE1(-99, 99, 0),
};
