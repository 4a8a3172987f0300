/* Complex numbers and their parts: complex, real, imag, and the conjugate made of them. Derivatives follow JAX: tangents and cotangents are multiplied
 * by derivatives as they are, none is conjugated, so the cotangent of an imaginary part carries a minus. */
#include "../oracle.h"
#include "ref_complex.h"
#include "rows.h"

/* ---- complex ---- */
static qn_status complex_infer(qn_infer *c) {
  QN_TRY(qn_infer_same(c));
  c->out_types[0].dtype = qn_dtype_complex(c->operands[0].dtype);
  if (c->out_types[0].dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected f32 or f64", c->name, qn_type_str(&c->operands[0]));
  return QN_OK;
}

static void complex_vjp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]))
    return;
  if (r->wanted[0])
    out[0] = qn_real(r->given[0]);
  if (r->wanted[1])
    out[1] = qn_neg(qn_imag(r->given[0]));
}

static void complex_jvp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]) && !qn_val_ok(r->given[1]))
    return;
  qn_val re = qn_val_ok(r->given[0]) ? r->given[0] : qn_zeros_like(r->in[0]);
  qn_val im = qn_val_ok(r->given[1]) ? r->given[1] : qn_zeros_like(r->in[1]);
  out[0] = qn_complex_of(re, im);
}

static qn_status complex_eval(const qn_ref_call *c) {
  qn_dtype part = c->in_types[0]->dtype;
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++)
    for (int k = 0; k < 2; k++) {
      double x;
      qn_oracle_load_f(part, c->in[k], i, 1, &x);
      qn_oracle_store_f(part, c->out[0], 2 * i + k, 1, &x);
    }
  return QN_OK;
}

const qn_op_def qn_op_complex = {
    .name = "complex",
    .doc = "Complex numbers of a tensor of real and one of imaginary parts, f32 or f64.",
    .arity = 2,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_FLOAT,
    .infer = complex_infer,
    .vjp = complex_vjp,
    .jvp = complex_jvp,
    .batch = qn_batch_elementwise,
    .eval = complex_eval,
    QN_ROW_SAMPLE2(-9, 9, 0),
};

/* ---- real, imag ---- */
static qn_status part_infer(qn_infer *c) {
  QN_TRY(qn_infer_same(c));
  if (qn_dtype_is_complex(c->operands[0].dtype))
    c->out_types[0].dtype = qn_dtype_part(c->operands[0].dtype);
  return QN_OK;
}

static bool of_complex(const qn_rule *r) { return qn_dtype_is_complex(qn_val_type(r->in[0])->dtype); }

static void real_vjp(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]))
    out[0] = of_complex(r) ? qn_complex_of(r->given[0], qn_zeros_like(r->given[0])) : r->given[0];
}
static void real_jvp(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]))
    out[0] = qn_real(r->given[0]);
}
static qn_sval real_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)s;
  (void)attr;
  return in[0];
}
static double real_ref(const double *x) { return x[0]; }
const qn_op_def qn_op_real = {
    .name = "real",
    .doc = "Real part of each element.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_FLOAT | QN_D_COMPLEX,
    .infer = part_infer,
    .vjp = real_vjp,
    .jvp = real_jvp,
    .batch = qn_batch_elementwise,
    .expand = real_expand,
    .native_narrow = true,
    .ref = real_ref,
    .ref_c = qn_refc_real,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

static void imag_vjp(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]) && of_complex(r))
    out[0] = qn_complex_of(qn_zeros_like(r->given[0]), qn_neg(r->given[0]));
}
static void imag_jvp(qn_rule *r, qn_val *out) {
  if (qn_val_ok(r->given[0]) && of_complex(r))
    out[0] = qn_imag(r->given[0]);
}
static qn_sval imag_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_const(s, s->dtype(s, in[0]), 0);
}
static double imag_ref(const double *x) {
  (void)x;
  return 0;
}
const qn_op_def qn_op_imag = {
    .name = "imag",
    .doc = "Imaginary part of each element, zero for real ones.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_FLOAT | QN_D_COMPLEX,
    .infer = part_infer,
    .vjp = imag_vjp,
    .jvp = imag_jvp,
    .batch = qn_batch_elementwise,
    .expand = imag_expand,
    .ref = imag_ref,
    .ref_c = qn_refc_imag,
    QN_ROW_SAMPLE1(-9, 9, 0),
};

qn_val qn_conj_at(qn_place at, qn_val x) {
  if (!qn_val_ok(x) || !qn_dtype_is_complex(qn_val_type(x)->dtype))
    return x;
  return qn_complex_at(at, qn_real_at(at, x), qn_negate_at(at, qn_imag_at(at, x)));
}
