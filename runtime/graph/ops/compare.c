/* compare: six directions; floats by IEEE (only "ne" holds for NaN) or by total order, integers by their dtype's sign. */
#include <string.h>

#include "../oracle.h"
#include "rows.h"

static qn_status compare_infer(qn_infer *c) {
  const qn_attr_compare *a = c->attr;
  QN_TRY(qn_infer_predicate(c));
  qn_dtype_class class = qn_dtype_classify(c->operands[0].dtype);
  if ((unsigned)a->direction > QN_CMP_GE || (unsigned)a->type > QN_CMP_UNSIGNED)
    return QN_ERR(QN_INVALID, "%s: direction %d and type %d are not known", c->name, (int)a->direction, (int)a->type);
  if (class == QN_CLASS_COMPLEX && a->direction > QN_CMP_NE)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, which has no order; expected direction EQ or NE", c->name,
                  qn_type_str(&c->operands[0]));
  bool floats = class == QN_CLASS_FLOAT || class == QN_CLASS_COMPLEX, is_signed = class == QN_CLASS_SIGNED;
  bool fits = a->type == QN_CMP_DEFAULT || (floats && a->type == QN_CMP_FLOAT) ||
              (class == QN_CLASS_FLOAT && a->type == QN_CMP_TOTALORDER) || (is_signed && a->type == QN_CMP_SIGNED) ||
              (!floats && !is_signed && a->type == QN_CMP_UNSIGNED);
  if (!fits) {
    static const char *const names[] = {"default", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
    return QN_ERR(QN_INVALID, "%s: comparison type %s does not fit operand 0, which is %s", c->name, names[a->type],
                  qn_type_str(&c->operands[0]));
  }
  return QN_OK;
}

/* Bools have no order among the scalar operations: false comes before true. */
static qn_sval compare_bool(qn_sink *s, qn_compare_direction d, qn_sval a, qn_sval b) {
  if (d == QN_CMP_NE)
    return qs_xor(s, a, b);
  if (d == QN_CMP_EQ)
    return qs_not(s, qs_xor(s, a, b));
  if (d == QN_CMP_LT)
    return qs_and(s, qs_not(s, a), b);
  if (d == QN_CMP_LE)
    return qs_or(s, qs_not(s, a), b);
  return d == QN_CMP_GT ? qs_and(s, a, qs_not(s, b)) : qs_or(s, a, qs_not(s, b));
}

static qn_sval compare_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  const qn_attr_compare *c = attr;
  qn_sval a = in[0], b = in[1];
  if (s->dtype(s, a) == QN_BOOL)
    return compare_bool(s, c->direction, a, b);
  if (c->type == QN_CMP_TOTALORDER) {
    a = qn_expand_total_order_key(s, a);
    b = qn_expand_total_order_key(s, b);
  }
  static qn_sval (*const emit[])(qn_sink *, qn_sval, qn_sval) = {qs_eq, qs_ne, qs_lt, qs_le, qs_gt, qs_ge};
  return emit[c->direction](s, a, b);
}

static bool holds(qn_compare_direction d, bool less, bool equal, bool greater) {
  if (d == QN_CMP_EQ || d == QN_CMP_NE)
    return equal == (d == QN_CMP_EQ);
  if (d == QN_CMP_LT || d == QN_CMP_LE)
    return less || (equal && d == QN_CMP_LE);
  return greater || (equal && d == QN_CMP_GE);
}

/* An integer that orders as the float's total order: -NaN < -inf < ... < -0 < +0 < ... < +inf < NaN. */
static int64_t total_order_key(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0
             ? (int64_t)(UINT64_C(0x7fffffffffffffff) - ((uint64_t)bits & UINT64_C(0x7fffffffffffffff))) - INT64_MAX - 1
             : bits;
}

/* Numbers whose parts are both equal are equal. */
static bool compare_complex(const qn_attr_compare *c, const qn_ref_call *call, qn_dtype t, int64_t i) {
  double a[2], b[2];
  qn_oracle_load_f(qn_dtype_part(t), call->in[0], 2 * i, 2, a);
  qn_oracle_load_f(qn_dtype_part(t), call->in[1], 2 * i, 2, b);
  return (a[0] == b[0] && a[1] == b[1]) == (c->direction == QN_CMP_EQ);
}

static bool compare_one(const qn_attr_compare *c, const qn_ref_call *call, qn_dtype t, qn_dtype_class class,
                        int64_t i) {
  if (class == QN_CLASS_COMPLEX)
    return compare_complex(c, call, t, i);
  if (class == QN_CLASS_FLOAT) {
    double a, b;
    qn_oracle_load_f(t, call->in[0], i, 1, &a);
    qn_oracle_load_f(t, call->in[1], i, 1, &b);
    if (c->type != QN_CMP_TOTALORDER)
      return holds(c->direction, a<b, a == b, a> b);
    int64_t ka = total_order_key(a), kb = total_order_key(b);
    return holds(c->direction, ka<kb, ka == kb, ka> kb);
  }
  if (class == QN_CLASS_SIGNED) {
    int64_t a, b;
    qn_oracle_load_i(t, call->in[0], i, 1, &a);
    qn_oracle_load_i(t, call->in[1], i, 1, &b);
    return holds(c->direction, a<b, a == b, a> b);
  }
  uint64_t a, b;
  qn_oracle_load_u(t, call->in[0], i, 1, &a);
  qn_oracle_load_u(t, call->in[1], i, 1, &b);
  return holds(c->direction, a<b, a == b, a> b);
}

static qn_status compare_eval(const qn_ref_call *c) {
  qn_dtype t = c->in_types[0]->dtype;
  qn_dtype_class class = qn_dtype_classify(t);
  uint8_t *out = c->out[0];
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++)
    out[i] = compare_one(c->attr, c, t, class, i) ? 1 : 0;
  return QN_OK;
}

static const qn_attr_compare lt = {QN_CMP_LT, QN_CMP_DEFAULT}, le = {QN_CMP_LE, QN_CMP_DEFAULT};
static const qn_attr_compare gt = {QN_CMP_GT, QN_CMP_DEFAULT}, ge = {QN_CMP_GE, QN_CMP_DEFAULT};
static const qn_attr_compare eq = {QN_CMP_EQ, QN_CMP_DEFAULT}, ne = {QN_CMP_NE, QN_CMP_DEFAULT};
#define SAMPLE(direction)                                                                                              \
  { .ranks = {2, 2}, .dims = {{5, 7}, {5, 7}}, .lo = -3, .hi = 3, .attr = &(direction) }
static const qn_sample compare_samples[] = {SAMPLE(lt), SAMPLE(le), SAMPLE(gt), SAMPLE(ge), SAMPLE(eq), SAMPLE(ne)};

const qn_op_def qn_op_compare = {
    .name = "compare",
    .doc = "Compares two tensors in one direction: eq, ne, lt, le, gt, ge. False with NaN, but for ne; complex numbers "
           "are "
           "equal or not.",
    .arity = 2,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_compare),
    .infer = compare_infer,
    .no_grad = QN_NO_GRAD_BOOL,
    .batch = qn_batch_elementwise,
    .expand = compare_expand,
    .eval = compare_eval,
    .samples = compare_samples,
    .sample_count = sizeof compare_samples / sizeof *compare_samples,
};
