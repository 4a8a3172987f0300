/* The recorded gradients that need a rule of the user's own or a stop_gradient, which programs in text have lost: each function is written here
 * over the public builders and compared with the suite. */
#include <math.h>

#include "expect.h"
#include "golden.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

static qn_graph *open_graph(const char *name) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create(name, &g));
  return g;
}

/* ---- functions with rules of their own ---- */
typedef qn_val (*unary)(qn_val x, qn_val ct);
static qn_val clipped(qn_val x, qn_val ct) {
  (void)x;
  return qn_clamp(qn_like(ct, -0.5), ct, qn_like(ct, 0.5));
}
static qn_val negated(qn_val x, qn_val ct) {
  (void)x;
  return qn_neg(ct);
}
/* 2-norm, with gradient 0 at 0. */
static qn_val norm_back(qn_val x, qn_val ct) {
  qn_val n = qn_sqrt(qn_sum_all(qn_mul(x, x))), zero = qn_like(n, 0), none = qn_eq(n, zero);
  return qn_select(none, zero, qn_mul(ct, qn_div(x, qn_select(none, qn_like(n, 1), n))));
}
static qn_val same(qn_val x) { return x; }
static qn_val root_of_squares(qn_val x) { return qn_sqrt(qn_sum_all(qn_mul(x, x))); }

/* value(x), with back(x, ct) as the cotangent of x. */
static qn_val with_vjp(qn_val x, qn_val (*value)(qn_val), unary back) {
  qn_type t = *qn_val_type(x);
  qn_graph *primal = open_graph("primal"), *forward = open_graph("forward"), *backward = open_graph("backward");
  qn_val p = qn_graph_param(primal, t, NULL), y = value(p);
  QN_ASSERT_OK(qn_graph_seal(primal, &y, 1));
  qn_val q = qn_graph_param(forward, t, NULL), both[] = {value(q), q};
  QN_ASSERT_OK(qn_graph_seal(forward, both, 2));
  qn_val r = qn_graph_param(backward, t, NULL),
         ct = qn_graph_param(backward, *qn_graph_type(primal, qn_graph_result(primal, 0)), NULL), dx = back(r, ct), out;
  QN_ASSERT_OK(qn_graph_seal(backward, &dx, 1));
  qn_custom_vjp(&x, 1, primal, forward, backward, &out);
  qn_graph_release(primal);
  qn_graph_release(forward);
  qn_graph_release(backward);
  return out;
}

/* A function of up to two scalars or tensors with rule(x.., dx..) as its tangent. */
static qn_val with_jvp(const qn_val *x, size_t n, qn_val (*value)(const qn_val *),
                       qn_val (*rule)(const qn_val *, const qn_val *)) {
  qn_graph *primal = open_graph("primal"), *g = open_graph("rule");
  qn_val in[2], dx[2], y, both[2], out;
  for (size_t i = 0; i < n; i++)
    in[i] = qn_graph_param(primal, *qn_val_type(x[i]), NULL);
  y = value(in);
  QN_ASSERT_OK(qn_graph_seal(primal, &y, 1));
  for (size_t i = 0; i < n; i++)
    in[i] = qn_graph_param(g, *qn_val_type(x[i]), NULL);
  for (size_t i = 0; i < n; i++)
    dx[i] = qn_graph_param(g, *qn_val_type(x[i]), NULL);
  both[0] = value(in);
  both[1] = rule(in, dx);
  QN_ASSERT_OK(qn_graph_seal(g, both, 2));
  qn_custom_jvp(x, n, primal, g, &out);
  qn_graph_release(primal);
  qn_graph_release(g);
  return out;
}

/* ---- the suite's functions: x.. -> a scalar ---- */
static qn_val cube(qn_val x) { return qn_mul(qn_mul(x, x), x); }
static qn_val clip_gradient(const qn_val *x) { return qn_sum_all(cube(with_vjp(x[0], same, clipped))); }
static qn_val clip_gradient_each(const qn_val *x) { return cube(with_vjp(x[0], same, clipped)); }
static qn_val reverse_grad(const qn_val *x) { return qn_sum_all(qn_square(with_vjp(x[0], same, negated))); }
static qn_val safe_norm(const qn_val *x) { return with_vjp(x[0], root_of_squares, norm_back); }

static qn_val softlog(const qn_val *x) { return qn_log1p(qn_exp(x[0])); }
static qn_val softlog_rule(const qn_val *x, const qn_val *dx) {
  qn_val one = qn_like(x[0], 1);
  return qn_mul(dx[0], qn_sub(one, qn_div(one, qn_add(one, qn_exp(x[0])))));
}
static qn_val softplus(const qn_val *x) { return qn_sum_all(with_jvp(x, 1, softlog, softlog_rule)); }

/* The cotangent of x times s; none for s. */
static qn_val scale_grad(const qn_val *x) {
  qn_type t = *qn_val_type(x[0]), u = *qn_val_type(x[1]);
  qn_graph *primal = open_graph("primal"), *forward = open_graph("forward"), *backward = open_graph("backward");
  qn_val p = qn_graph_param(primal, t, NULL), out;
  (void)qn_graph_param(primal, u, NULL);
  QN_ASSERT_OK(qn_graph_seal(primal, &p, 1));
  qn_val q[2] = {qn_graph_param(forward, t, NULL), qn_graph_param(forward, u, NULL)};
  QN_ASSERT_OK(qn_graph_seal(forward, q, 2));
  qn_val s = qn_graph_param(backward, u, NULL), ct = qn_graph_param(backward, t, NULL);
  qn_val back[] = {qn_mul(ct, s), qn_zeros_like(s)};
  QN_ASSERT_OK(qn_graph_seal(backward, back, 2));
  qn_custom_vjp(x, 2, primal, forward, backward, &out);
  qn_graph_release(primal);
  qn_graph_release(forward);
  qn_graph_release(backward);
  return qn_sum_all(qn_square(out));
}

static qn_val stop(const qn_val *x) { return qn_sum_all(qn_mul(x[0], qn_stop_gradient(x[0]))); }
static qn_val stop_target(const qn_val *x) {
  qn_val y = qn_dot(x[1], x[0]);
  return qn_mean(qn_square(qn_sub(y, qn_stop_gradient(qn_tanh(y)))), 0, NULL, false);
}
static qn_val straight_through(qn_val x, qn_val value) { return qn_add(x, qn_stop_gradient(qn_sub(value, x))); }
static qn_val ste_round(const qn_val *x) {
  qn_val y = qn_mul(x[0], qn_like(x[0], 4));
  return qn_sum_all(qn_square(straight_through(y, qn_round_even(y))));
}
static qn_val ste_sign(const qn_val *x) {
  qn_val one = qn_like(x[0], 1), sign = qn_select(qn_ge(x[0], qn_like(x[0], 0)), one, qn_neg(one));
  return qn_square(qn_sum_all(qn_mul(straight_through(x[0], sign), x[1])));
}
static qn_val gumbel(const qn_val *x) {
  qn_val p = qn_softmax(x[0], -1), most = qn_reduce_max(p, 0, NULL, false);
  qn_val hard = qn_select(qn_eq(p, most), qn_like(p, 1), qn_like(p, 0));
  qn_val h = qn_add(qn_sub(hard, qn_stop_gradient(p)), p);
  return qn_sum_all(qn_mul(h, qn_iota(p.graph, *qn_val_type(p), 0)));
}
static qn_val double_stop(const qn_val *x) {
  qn_val first = qn_mul(qn_square(qn_stop_gradient(x[0])), x[0]);
  return qn_sum_all(qn_add(first, qn_stop_gradient(qn_mul(x[0], x[0]))));
}

static qn_val relu(const qn_val *x) { return qn_relu(x[0]); }
static qn_val sinc(const qn_val *x) { return qn_sinc(x[0]); }
/* JAX's rule for xlogy is not finite at (0, 0), unlike qn_xlogy's. */
static qn_val xlogy_value(const qn_val *x) { return qn_xlogy(x[0], x[1]); }
static qn_val xlogy_rule(const qn_val *x, const qn_val *dx) {
  return qn_add(qn_mul(dx[0], qn_log(x[1])), qn_mul(dx[1], qn_div(x[0], x[1])));
}
static qn_val xlogy(const qn_val *x) { return with_jvp(x, 2, xlogy_value, xlogy_rule); }

static const struct {
  const char *id;
  qn_val (*fn)(const qn_val *x);
} cases[] = {
    {"custom/clip_gradient/grad", clip_gradient},
    {"custom/reverse_grad/grad", reverse_grad},
    {"custom/custom_jvp_softplus/grad", softplus},
    {"custom/safe_norm_zero/grad", safe_norm},
    {"custom/scale_grad/grad", scale_grad},
    {"custom/stop_gradient/grad", stop},
    {"custom/stop_gradient_target/grad", stop_target},
    {"custom/ste_round/grad", ste_round},
    {"custom/ste_sign/grad", ste_sign},
    {"custom/gumbel_straight_through/grad", gumbel},
    {"custom/double_stop/grad", double_stop},
    {"custom/clip_gradient/vmap_grad", clip_gradient_each},
    {"nan/relu_at_0/grad", relu},
    {"nan/xlogy_at_0/grad", xlogy},
    {"nan/sinc_at_0/hessian", sinc},
};

static size_t read_ints(const cJSON *list, int *out) {
  size_t n = 0;
  const cJSON *x;
  if (cJSON_IsNumber(list))
    out[n++] = list->valueint;
  cJSON_ArrayForEach(x, list) out[n++] = x->valueint;
  return n;
}

/* One transform; vmap's lanes are all at axis 0. */
static qn_graph *transformed(qn_graph *f, const cJSON *item, int64_t lanes) {
  int argnums[4], axes[4] = {0};
  qn_transform t = {.argnums = argnums, .in_axes = axes, .lanes = lanes};
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_transform_find(qn_golden_string(item, "t"), &t.kind));
  t.argnum_count = read_ints(qn_golden_get(item, "argnums"), argnums);
  QN_ASSERT_OK(qn_transform_graph(f, &t, &g));
  qn_graph_release(f);
  return g;
}

static void run_case(const qn_golden *suite, const cJSON *c, qn_val (*fn)(const qn_val *)) {
  qn_golden_tensor in[4], out[4];
  const char *id = qn_golden_string(c, "id");
  size_t ins = qn_golden_tensors(suite, qn_golden_get(c, "inputs"), in, 4),
         outs = qn_golden_tensors(suite, qn_golden_get(c, "outputs"), out, 4);
  const cJSON *pipeline = qn_golden_get(qn_golden_get(c, "attrs"), "pipeline"), *step;
  bool lanes = cJSON_GetArraySize(pipeline) > 1;
  qn_graph *g = open_graph("f");
  qn_val x[4];
  for (size_t i = 0; i < ins; i++) {
    qn_type t = in[i].type;
    x[i] = qn_graph_param(g, lanes ? qn_type_make(t.dtype, t.rank - 1, t.dims + 1) : t, NULL);
  }
  qn_val y = fn(x);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  cJSON_ArrayForEach(step, pipeline) g = transformed(g, step, in[0].type.dims[0]);
  cr_assert_eq(qn_graph_result_count(g), outs, "%s", id);
  float room[4][256];
  const void *inputs[4];
  void *outputs[4];
  for (size_t i = 0; i < 4; i++) {
    inputs[i] = i < ins ? in[i].data : NULL;
    outputs[i] = room[i];
  }
  QN_ASSERT_OK(qn_graph_eval_ref(g, inputs, outputs));
  char why[256];
  for (size_t i = 0; i < outs; i++) {
    cr_assert(qn_type_bytes(&out[i].type) <= (int64_t)sizeof room[0]);
    cr_expect(qn_golden_matches(&out[i].type, room[i], out[i].data, qn_golden_number(c, "rtol", 0),
                                qn_golden_number(c, "atol", 0), why, sizeof why),
              "%s: %s", id, why);
  }
  qn_graph_release(g);
}

Test(autodiff_custom, recorded_gradients_of_functions_with_rules) {
  qn_golden suite;
  size_t done = 0, inexact = 0;
  if (!qn_golden_open("transforms", &suite))
    cr_skip_test("no shared data");
  const cJSON *c;
  cJSON_ArrayForEach(c, suite.cases) {
    inexact += qn_golden_number(qn_golden_get(c, "attrs"), "program_exact", 1) == 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      if (strcmp(qn_golden_string(c, "id"), cases[i].id) == 0) {
        run_case(&suite, c, cases[i].fn);
        done++;
      }
  }
  cr_expect(done == sizeof cases / sizeof *cases && done == inexact, "%zu of %zu", done, inexact);
  qn_golden_close(&suite);
}

/* ---- named functions at their corners ---- */
static qn_val log_sigmoid(const qn_val *x) { return qn_log_sigmoid(x[0]); }
static qn_val own_xlogy(const qn_val *x) { return qn_xlogy(x[0], x[1]); }
static qn_val norm(const qn_val *x) { return qn_norm(x[0], 0, NULL, false); }
static qn_val deviation(const qn_val *x) { return qn_std(x[0], 0, NULL, 0, false); }
static qn_val logsumexp(const qn_val *x) { return qn_logsumexp(x[0], 0, NULL, false); }
static qn_val soft(const qn_val *x) { return qn_softplus(x[0]); }
static qn_val power(const qn_val *x) { return qn_pow(x[0], x[1]); }

/* Value and gradients by both arguments at (x, y), element for element of a vector of two for `vector`. */
static void at_corner(const char *what, qn_val (*fn)(const qn_val *), bool vector, double x, double y, double value,
                      double dx, double dy) {
  qn_graph *f = open_graph(what), *g = NULL;
  qn_type t = vector ? qn_type_of(QN_F64, 1, 2) : qn_type_scalar(QN_F64);
  qn_val in[] = {qn_graph_param(f, t, NULL), qn_graph_param(f, qn_type_scalar(QN_F64), NULL)}, z = fn(in);
  QN_ASSERT_OK(qn_graph_seal(f, &z, 1));
  const int both[] = {0, 1};
  qn_grad_desc d = {.argnums = both, .argnum_count = 2};
  QN_ASSERT_OK(qn_grad_graph(f, &d, &g));
  const double two[] = {x, x};
  double got[4];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){two, &y}, (void *[]){&got[0], &got[1], &got[3]}));
  cr_expect(got[0] == value || fabs(got[0] - value) < 1e-12, "%s: value %g, expected %g", what, got[0], value);
  cr_expect(fabs(got[1] - dx) < 1e-12, "%s: by x %g, expected %g", what, got[1], dx);
  cr_expect(fabs(got[3] - dy) < 1e-12, "%s: by y %g, expected %g", what, got[3], dy);
  qn_graph_release(f);
  qn_graph_release(g);
}

Test(autodiff_custom, named_functions_are_finite_at_their_corners) {
  at_corner("relu", relu, false, 0, 0, 0, 0, 0);
  at_corner("softplus", soft, false, 800, 0, 800, 1, 0);
  at_corner("softplus", soft, false, -800, 0, 0, 0, 0);
  at_corner("log_sigmoid", log_sigmoid, false, -800, 0, -800, 1, 0);
  at_corner("log_sigmoid", log_sigmoid, false, 800, 0, 0, 0, 0);
  at_corner("sinc", sinc, false, 0, 0, 1, 0, 0);
  at_corner("xlogy", own_xlogy, false, 0, 0, 0, 0, 0);
  at_corner("xlogy", own_xlogy, false, 2, 1, 0, 0, 2);
  at_corner("norm", norm, true, 0, 0, 0, 0, 0);
  at_corner("std", deviation, true, 3, 0, 0, 0, 0);
  at_corner("logsumexp", logsumexp, true, -INFINITY, 0, -INFINITY, 0, 0);
  at_corner("power", power, false, 0, 0, 1, 0, 0);
  at_corner("power", power, false, 0, 1, 0, 1, 0);
}
