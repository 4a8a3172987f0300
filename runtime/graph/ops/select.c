/* select and clamp: the predicate and the bounds may be scalars beside larger operands, as StableHLO allows. */
#include <string.h>

#include "../oracle.h"
#include "ref_special.h"
#include "rows.h"

/* ---- select ---- */
static qn_status select_infer(qn_infer *c) {
  QN_TRY(qn_infer_count(c, 3));
  QN_TRY(qn_infer_dtype(c, 0, QN_D_BOOL));
  QN_TRY(qn_infer_match(c, 2, 1));
  if (c->operands[0].rank != 0 && !qn_type_same_shape(&c->operands[0], &c->operands[1]))
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected a scalar or the shape of %s as operand 1", c->name,
                  qn_type_str(&c->operands[0]), qn_type_str(&c->operands[1]));
  c->out_types[0] = c->operands[1];
  return QN_OK;
}

static qn_val zeros(const qn_rule *r) { return qn_full(r->g, *qn_val_type(r->out[0]), 0); }

static void select_vjp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]))
    return;
  if (r->wanted[1])
    out[1] = qn_select(r->in[0], r->given[0], zeros(r));
  if (r->wanted[2])
    out[2] = qn_select(r->in[0], zeros(r), r->given[0]);
}

static void select_jvp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[1]) && !qn_val_ok(r->given[2]))
    return;
  out[0] = qn_select(r->in[0], qn_val_ok(r->given[1]) ? r->given[1] : zeros(r),
                     qn_val_ok(r->given[2]) ? r->given[2] : zeros(r));
}

static qn_sval select_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_select(s, in[0], in[1], in[2]);
}

static qn_status select_eval(const qn_ref_call *c) {
  const uint8_t *pred = c->in[0];
  size_t size = qn_dtype_size(c->out_types[0]->dtype);
  bool scalar = c->in_types[0]->rank == 0;
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++) {
    const char *from = c->in[pred[scalar ? 0 : i] != 0 ? 1 : 2];
    memcpy((char *)c->out[0] + (size_t)i * size, from + (size_t)i * size, size);
  }
  return QN_OK;
}

static const qn_sample select_samples[] = {
    {.ranks = {2, 2, 2}, .dims = {{5, 7}, {5, 7}, {5, 7}}, .lo = -9, .hi = 9},
    {.ranks = {0, 2, 2}, .dims = {{0}, {5, 7}, {5, 7}}, .lo = -9, .hi = 9},
};

const qn_op_def qn_op_select = {
    .name = "select",
    .doc = "Where the bool of operand 0 holds the element of operand 1, else that of operand 2.",
    .arity = 3,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_BOOL,
    .infer = select_infer,
    .vjp = select_vjp,
    .jvp = select_jvp,
    .batch = qn_batch_elementwise,
    .expand = select_expand,
    .native_narrow = true,
    .eval = select_eval,
    .samples = select_samples,
    .sample_count = sizeof select_samples / sizeof *select_samples,
};

/* ---- clamp ---- */
static qn_status clamp_infer(qn_infer *c) {
  QN_TRY(qn_infer_count(c, 3));
  QN_TRY(qn_infer_dtype(c, 1, QN_D_REAL | QN_D_BOOL));
  for (int i = 0; i < 3; i += 2) {
    if (c->operands[i].dtype != c->operands[1].dtype ||
        (c->operands[i].rank != 0 && !qn_type_same_shape(&c->operands[i], &c->operands[1])))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %s as operand 1, or a scalar of it", c->name, i,
                    qn_type_str(&c->operands[i]), qn_type_str(&c->operands[1]));
  }
  c->out_types[0] = c->operands[1];
  return QN_OK;
}

/* Where operand i's tangent passes: the operand strictly inside, a bound where the operand lies beyond it. */
static qn_val clamp_passes(const qn_rule *r, int i) {
  qn_val lo = r->in[0], x = r->in[1], hi = r->in[2];
  if (i == 0)
    return qn_and(qn_gt(lo, x), qn_lt(lo, hi));
  if (i == 1)
    return qn_and(qn_gt(x, lo), qn_lt(x, hi));
  return qn_gt(x, hi);
}

static void clamp_vjp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]))
    return;
  for (int i = 0; i < 3; i++) {
    if (!r->wanted[i])
      continue;
    out[i] = qn_select(clamp_passes(r, i), r->given[0], zeros(r));
    if (qn_val_type(r->in[i])->rank == 0)
      out[i] = qn_sum_all(out[i]);
  }
}

static void clamp_jvp(qn_rule *r, qn_val *out) {
  for (int i = 0; i < 3; i++) {
    if (!qn_val_ok(r->given[i]))
      continue;
    qn_val part = qn_select(clamp_passes(r, i), r->given[i], zeros(r));
    out[0] = qn_val_ok(out[0]) ? qn_add(out[0], part) : part;
  }
}

static qn_status clamp_eval(const qn_ref_call *c) {
  qn_dtype t = c->out_types[0]->dtype;
  qn_dtype_class class = qn_dtype_classify(t);
  bool lo_scalar = c->in_types[0]->rank == 0, hi_scalar = c->in_types[2]->rank == 0;
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++) {
    const int64_t at[3] = {lo_scalar ? 0 : i, i, hi_scalar ? 0 : i};
    double f[3];
    int64_t n[3];
    uint64_t u[3];
    for (int k = 0; k < 3; k++) {
      if (class == QN_CLASS_FLOAT)
        qn_oracle_load_f(t, c->in[k], at[k], 1, &f[k]);
      else if (class == QN_CLASS_SIGNED)
        qn_oracle_load_i(t, c->in[k], at[k], 1, &n[k]);
      else
        qn_oracle_load_u(t, c->in[k], at[k], 1, &u[k]);
    }
    if (class == QN_CLASS_FLOAT) {
      f[1] = qn_ref_minimum(qn_ref_maximum(f[1], f[0]), f[2]);
      qn_oracle_store_f(t, c->out[0], i, 1, &f[1]);
    } else if (class == QN_CLASS_SIGNED) {
      n[1] = n[1] > n[0] ? n[1] : n[0];
      n[1] = n[1] < n[2] ? n[1] : n[2];
      qn_oracle_store_i(t, c->out[0], i, 1, &n[1]);
    } else {
      u[1] = u[1] > u[0] ? u[1] : u[0];
      u[1] = u[1] < u[2] ? u[1] : u[2];
      qn_oracle_store_u(t, c->out[0], i, 1, &u[1]);
    }
  }
  return QN_OK;
}

static const qn_sample clamp_samples[] = {
    {.ranks = {2, 2, 2}, .dims = {{5, 7}, {5, 7}, {5, 7}}, .lo = -9, .hi = 9},
    {.ranks = {0, 2, 0}, .dims = {{0}, {5, 7}, {0}}, .lo = -9, .hi = 9},
};

const qn_op_def qn_op_clamp = {
    .name = "clamp",
    .doc = "Operand 1, but not below operand 0, then not above operand 2.",
    .arity = 3,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_REAL | QN_D_BOOL,
    .infer = clamp_infer,
    .vjp = clamp_vjp,
    .jvp = clamp_jvp,
    .batch = qn_batch_elementwise,
    .expand = qn_expand_clamp,
    .eval = clamp_eval,
    .samples = clamp_samples,
    .sample_count = sizeof clamp_samples / sizeof *clamp_samples,
};
