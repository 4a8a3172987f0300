/* Derivatives of every row that has them, in every dtype that has derivatives, on the oracle: forward mode against central differences (in the wide
 * dtypes; the narrow ones against those), reverse mode against forward mode by inner products. Rows without derivative must give zeros. */
#include "conform.h"

#include "quern/autodiff.h"

/* f's jvp and vjp graphs; where the row has no derivative in its first operand, that one is held. */
typedef struct pair {
  qn_graph *f, *jvp, *vjp;
  bool held;
} pair;

static bool refuses_first(qn_status st) {
  return st == QN_UNSUPPORTED && strstr(qn_error_message(), "no derivative in operand 0") != NULL;
}

static bool refuses_all(qn_status st) {
  return st == QN_UNSUPPORTED && strstr(qn_error_message(), "no derivative of a step") != NULL;
}

static bool moves(qn_dtype t) { return qn_dtype_is_float(t) || qn_dtype_is_complex(t); }

static bool pair_make(qn_op op, const qn_sample *s, qn_dtype t, pair *p) {
  *p = (pair){0};
  for (int hold = 0; hold < 2; hold++) {
    if (sample_graph(op, s, t, hold == 1, &p->f) != QN_OK)
      return false;
    p->held = hold == 1;
    qn_status st = qn_jvp_graph(p->f, &p->jvp);
    if (st == QN_OK)
      break;
    if (refuses_all(st)) {
      cr_expect(refuses_all(qn_vjp_graph(p->f, &p->vjp)), "%s: reverse mode takes what forward mode refuses",
                qn_op_get(op)->name);
      qn_graph_release(p->f);
      return false;
    }
    cr_assert(hold == 0 && refuses_first(st), "%s: %s", qn_op_get(op)->name, qn_error_report());
    cr_expect(refuses_first(qn_vjp_graph(p->f, &p->vjp)), "%s: reverse mode takes what forward mode refuses",
              qn_op_get(op)->name);
    qn_graph_release(p->f);
  }
  QN_ASSERT_OK(qn_vjp_graph(p->f, &p->vjp));
  return true;
}

static void pair_free(pair *p) {
  qn_graph_release(p->f);
  qn_graph_release(p->jvp);
  qn_graph_release(p->vjp);
}

/* f at x + h * t, f having `n` parameters of which the floating-point ones move. */
static void shifted(const qn_graph *f, const tensor *x, const tensor *t, double h, size_t n, tensor *out) {
  tensor moved[4];
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    moved[i] = tensor_make(&x[i].t);
    memcpy(moved[i].data, x[i].data, (size_t)qn_type_bytes(&x[i].t));
    if (!moves(x[i].t.dtype))
      continue;
    for (int64_t j = 0; j < qn_type_elements(&x[i].t); j++) {
      tensor_set(&moved[i], j, tensor_get(&x[i], j) + h * tensor_get(&t[k], j));
      tensor_set_imag(&moved[i], j, tensor_imag(&x[i], j) + h * tensor_imag(&t[k], j));
    }
    k++;
  }
  QN_EXPECT_OK(run(f, moved, out));
  tensors_free(moved, n);
}

/* Real part of the sum of products; no factor is conjugated, as in the rules. */
static double dot(const tensor *a, const tensor *b) {
  double sum = 0;
  for (int64_t i = 0; i < qn_type_elements(&a->t); i++)
    sum += tensor_get(a, i) * tensor_get(b, i) - tensor_imag(a, i) * tensor_imag(b, i);
  return sum;
}

/* How large the terms of that sum are. */
static double dot_size(const tensor *a, const tensor *b) {
  double sum = 0;
  for (int64_t i = 0; i < qn_type_elements(&a->t); i++)
    sum += fabs(tensor_get(a, i) * tensor_get(b, i)) + fabs(tensor_imag(a, i) * tensor_imag(b, i));
  return sum;
}

/* Rows that round what they pass on: differences would see the steps, the derivative is that of the identity, rounded as well. */
static bool rounds(qn_op op, const qn_graph *f) {
  return op == QN_OP_REDUCE_PRECISION ||
         (op == QN_OP_CONVERT && qn_graph_type(f, qn_graph_result(f, 0))->dtype != QN_F64);
}
static void identity(const char *name, const tensor *t, const tensor *tangent) {
  for (int64_t i = 0; i < qn_type_elements(&t->t); i++)
    cr_expect(fabs(tensor_get(t, i) - tensor_get(tangent, i)) <= 0.07 * fabs(tensor_get(t, i)) + 0.02,
              "%s: tangent %d is %g, expected %g", name, (int)i, tensor_get(tangent, i), tensor_get(t, i));
}

static void differences(const char *name, const pair *p, const tensor *x, const tensor *t, const tensor *tangent,
                        size_t n, bool steps) {
  const double h = 1e-6;
  tensor up[1], down[1];
  results_make(p->f, up);
  results_make(p->f, down);
  shifted(p->f, x, t, h, n, up);
  shifted(p->f, x, t, -h, n, down);
  for (int64_t i = 0; i < qn_type_elements(&up[0].t); i++) {
    double want = steps ? 0 : (tensor_get(&up[0], i) - tensor_get(&down[0], i)) / (2 * h), got = tensor_get(tangent, i);
    if (isnan(want) && isnan(got))
      continue;
    double want_imag = steps ? 0 : (tensor_imag(&up[0], i) - tensor_imag(&down[0], i)) / (2 * h);
    cr_expect(fabs(tensor_imag(tangent, i) - want_imag) <= 1e-6 * (1 + fabs(want_imag)),
              "%s: element %d has tangent %.12g in its imaginary part, differences say %.12g", name, (int)i,
              tensor_imag(tangent, i), want_imag);
    cr_expect(fabs(got - want) <= 1e-6 * (1 + fabs(want)), "%s: element %d has tangent %.12g, differences say %.12g",
              name, (int)i, got, want);
  }
  tensors_free(up, 1);
  tensors_free(down, 1);
}

/* Half the distance from 1 to the next number, roughly, by dtype. */
static double unit_of(qn_dtype t) {
  switch (t) {
  case QN_BF16:
    return 0x1p-8;
  case QN_F16:
    return 0x1p-11;
  case QN_F32:
  case QN_C64:
    return 0x1p-24;
  default:
    return 0x1p-53;
  }
}

static void reverse_mode(qn_op op, const pair *p, qn_dtype t, const tensor *in, const tensor *tangent, uint64_t *seed) {
  const char *name = qn_op_get(op)->name;
  size_t n = qn_graph_param_count(p->f), moving = qn_graph_param_count(p->jvp) - n;
  tensor back_in[5], back_out[5];
  params_make(p->vjp, back_in);
  results_make(p->vjp, back_out);
  cr_assert(qn_graph_param_count(p->vjp) == n + 1 && qn_graph_result_count(p->vjp) == 1 + moving);
  for (size_t i = 0; i < n; i++)
    memcpy(back_in[i].data, in[i].data, (size_t)qn_type_bytes(&in[i].t));
  tensor_draw(&back_in[n], seed, -1, 1);
  QN_EXPECT_OK(run(p->vjp, back_in, back_out));
  double forward = dot(&back_in[n], tangent), backward = 0, scale = dot_size(&back_in[n], tangent);
  for (size_t i = 0; i < moving; i++) {
    cr_expect(back_out[1 + i].t.dtype == in[n + i].t.dtype, "%s %s: gradient %zu is %s", name, qn_dtype_name(t), i,
              qn_type_str(&back_out[1 + i].t));
    backward += dot(&back_out[1 + i], &in[n + i]);
    scale += dot_size(&back_out[1 + i], &in[n + i]);
  }
  double most = unit_of(t) > 0x1p-53 ? 256 * unit_of(t) : 1e-11;
  cr_expect(!p->held || dot(&back_out[1], &back_out[1]) == 0, "%s: a gradient where there is none", name);
  cr_expect(fabs(forward - backward) <= (rounds(op, p->f) ? 0.1 : most) * (1 + scale),
            "%s %s: forward mode gives %.17g, reverse mode %.17g, of terms of %.3g", name, qn_dtype_name(t), forward,
            backward, scale);
  tensors_free(back_in, n + 1);
  tensors_free(back_out, 1 + moving);
}

/* One round in that dtype. Only the wide ones are fit for differences. */
static int check(qn_op op, const qn_sample *s, qn_dtype t, uint64_t *seed) {
  const qn_op_def *d = qn_op_get(op);
  pair p;
  if (!pair_make(op, s, t, &p))
    return 0;
  size_t n = qn_graph_param_count(p.f), all = qn_graph_param_count(p.jvp);
  bool moved = qn_graph_result_count(p.jvp) == 2;
  cr_assert(moved || !moves(qn_graph_type(p.f, qn_graph_result(p.f, 0))->dtype));
  if (moved) {
    tensor in[8], out[2];
    params_make(p.jvp, in);
    results_make(p.jvp, out);
    operands_draw(op, s, in, n, seed);
    for (size_t i = n; i < all; i++)
      tensor_draw(&in[i], seed, -1, 1);
    if (is_symmetric(op))
      tensor_mirror(&in[n], 0);
    if (p.held)
      memset(in[n].data, 0, (size_t)qn_type_bytes(&in[n].t));
    QN_EXPECT_OK(run(p.jvp, in, out));
    cr_expect(out[1].t.dtype == out[0].t.dtype, "%s %s: the tangent is %s", d->name, qn_dtype_name(t),
              qn_type_str(&out[1].t));
    if (rounds(op, p.f) && t == QN_F64)
      identity(d->name, &in[n], &out[1]);
    else if (!rounds(op, p.f) && (t == QN_F64 || t == QN_C128))
      differences(d->name, &p, in, in + n, &out[1], n, d->no_grad != NULL);
    reverse_mode(op, &p, t, in, &out[1], seed);
    tensors_free(in, all);
    tensors_free(out, 2);
  }
  pair_free(&p);
  return moved;
}

static void check_rows(const qn_dtype *dtypes, size_t count, int least) {
  uint64_t seed = 3;
  int checked = 0;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int s = 0; s < d->sample_count && d->kind != QN_KIND_SOURCE; s++)
      for (size_t k = 0; k < count; k++)
        for (int round = 0; round < 3 && walks((qn_op)op, dtypes[k]); round++)
          checked += check((qn_op)op, &d->samples[s], dtypes[k], &seed);
  }
  cr_expect(checked > least, "only %d derivatives", checked);
}

Test(conform_derive, every_row) { check_rows((const qn_dtype[]){QN_F64}, 1, 250); }
Test(conform_derive, every_row_complex) { check_rows((const qn_dtype[]){QN_C64, QN_C128}, 2, 300); }
Test(conform_derive, every_row_narrow) { check_rows((const qn_dtype[]){QN_F16, QN_BF16, QN_F32}, 3, 700); }

/* ---- derivatives in force at corners: rows (operands, cotangent 1) -> gradients ---- */
typedef qn_val (*function)(const qn_val *x);
static qn_val f_abs(const qn_val *x) { return qn_abs(x[0]); }
static qn_val f_sqrt(const qn_val *x) { return qn_sqrt(x[0]); }
static qn_val f_log(const qn_val *x) { return qn_log(x[0]); }
static qn_val f_max(const qn_val *x) { return qn_max(x[0], x[1]); }
static qn_val f_min(const qn_val *x) { return qn_min(x[0], x[1]); }
static qn_val f_pow(const qn_val *x) { return qn_pow(x[0], x[1]); }
static qn_val f_div(const qn_val *x) { return qn_div(x[0], x[1]); }
static qn_val f_rem(const qn_val *x) { return qn_rem(x[0], x[1]); }
static qn_val f_clamp(const qn_val *x) { return qn_clamp(qn_like(x[0], 0), x[0], qn_like(x[0], 1)); }
static qn_val f_relu(const qn_val *x) { return qn_relu(x[0]); }
static qn_val f_softplus(const qn_val *x) { return qn_softplus(x[0]); }
static qn_val f_safe_sqrt(const qn_val *x) {
  return qn_select(qn_gt(x[0], qn_like(x[0], 0)), qn_sqrt(x[0]), qn_like(x[0], 0));
}
static qn_val f_logsumexp(const qn_val *x) {
  const qn_val both[2] = {qn_reshape(x[0], 1, (const int64_t[]){1}), qn_reshape(x[1], 1, (const int64_t[]){1})};
  return qn_logsumexp(qn_concatenate(both, 2, 0), 0, NULL, false);
}
static qn_val f_i1e(const qn_val *x) { return qn_bessel_i1e(x[0]); }

#define INF INFINITY
static const struct {
  const char *name;
  function f;
  int n;
  double x[2], want[2];
} corners[] = {
    {"abs", f_abs, 1, {0}, {1}},
    {"abs below", f_abs, 1, {-2}, {-1}},
    {"sqrt", f_sqrt, 1, {0}, {INF}},
    {"log", f_log, 1, {0}, {INF}},
    {"maximum tie", f_max, 2, {2, 2}, {0.5, 0.5}},
    {"maximum", f_max, 2, {3, 2}, {1, 0}},
    {"minimum tie", f_min, 2, {2, 2}, {0.5, 0.5}},
    {"minimum", f_min, 2, {3, 2}, {0, 1}},
    {"power 0^0", f_pow, 2, {0, 0}, {0, 0}},
    {"power 0^2", f_pow, 2, {0, 2}, {0, 0}},
    {"power 0^1", f_pow, 2, {0, 1}, {1, 0}},
    {"power inf^0", f_pow, 2, {INF, 0}, {0, INF}},
    {"power (-2)^0", f_pow, 2, {-2, 0}, {0, NAN}},
    {"divide by 0", f_div, 2, {1, 0}, {INF, -INF}},
    {"divide 0 by 0", f_div, 2, {0, 0}, {INF, NAN}},
    {"remainder", f_rem, 2, {7, -2}, {1, 3}},
    {"clamp low", f_clamp, 1, {0}, {0}},
    {"clamp high", f_clamp, 1, {1}, {0}},
    {"clamp inside", f_clamp, 1, {0.5}, {1}},
    {"relu", f_relu, 1, {0}, {0}},
    {"relu above", f_relu, 1, {3}, {1}},
    {"softplus 0", f_softplus, 1, {0}, {0.5}},
    {"softplus inf", f_softplus, 1, {INF}, {1}},
    {"softplus -inf", f_softplus, 1, {-INF}, {0}},
    {"sqrt not taken", f_safe_sqrt, 1, {0}, {0}},
    {"logsumexp", f_logsumexp, 2, {-INF, 0}, {0, 1}},
    {"logsumexp of -inf", f_logsumexp, 2, {-INF, -INF}, {0, 0}},
    {"bessel_i1e", f_i1e, 1, {0}, {0.5}},
};

static bool same(double a, double b) {
  return isnan(a) || isnan(b) ? isnan(a) && isnan(b) : a == b || fabs(a - b) <= 1e-14;
}

/* Gradients in both modes: forward mode with a unit tangent in one operand and zeros elsewhere. */
Test(conform_derive, corners) {
  for (size_t c = 0; c < sizeof corners / sizeof *corners; c++) {
    qn_graph *f, *vjp, *jvp;
    qn_val x[2];
    int n = corners[c].n;
    QN_ASSERT_OK(qn_graph_create(corners[c].name, &f));
    for (int i = 0; i < n; i++)
      x[i] = qn_graph_param(f, qn_type_scalar(QN_F64), NULL);
    qn_val y = corners[c].f(x);
    QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
    QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
    QN_ASSERT_OK(qn_jvp_graph(f, &jvp));
    double value, grads[2], tangent, ct = 1, unit[2] = {0, 0};
    const void *in[3] = {&corners[c].x[0], n > 1 ? (const void *)&corners[c].x[1] : &ct, &ct};
    void *out[3] = {&value, &grads[0], &grads[1]};
    QN_EXPECT_OK(qn_graph_eval_ref(vjp, in, out));
    for (int i = 0; i < n; i++) {
      cr_expect(same(grads[i], corners[c].want[i]), "%s: gradient %d is %g, expected %g", corners[c].name, i, grads[i],
                corners[c].want[i]);
      unit[0] = i == 0;
      unit[1] = i == 1;
      const void *jin[4] = {&corners[c].x[0], n > 1 ? &corners[c].x[1] : &unit[0], &unit[0], &unit[1]};
      void *jout[2] = {&value, &tangent};
      QN_EXPECT_OK(qn_graph_eval_ref(jvp, jin, jout));
      cr_expect(same(tangent, corners[c].want[i]), "%s: tangent %d is %g, expected %g", corners[c].name, i, tangent,
                corners[c].want[i]);
    }
    qn_graph_release(f);
    qn_graph_release(vjp);
    qn_graph_release(jvp);
  }
}

/* Second derivatives at the corner where a careless softplus loses its curvature. */
Test(conform_derive, softplus_has_curvature_at_zero) {
  qn_graph *f, *first, *second;
  QN_ASSERT_OK(qn_graph_create("softplus", &f));
  qn_val y = qn_softplus(qn_graph_param(f, qn_type_scalar(QN_F64), NULL));
  QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
  QN_ASSERT_OK(qn_vjp_graph(f, &first));
  QN_ASSERT_OK(qn_jvp_graph(first, &second));
  double x = 0, one = 1, zero = 0, value, grad, value_t, grad_t;
  const void *in[4] = {&x, &one, &one, &zero};
  void *out[4] = {&value, &grad, &value_t, &grad_t};
  QN_EXPECT_OK(qn_graph_eval_ref(second, in, out));
  cr_expect(same(grad, 0.5) && same(grad_t, 0.25), "%g %g", grad, grad_t);
  qn_graph_release(f);
  qn_graph_release(first);
  qn_graph_release(second);
}
