/* grad, value_and_grad in a trace, custom rules, the policy at the corners, and what the transforms refuse. */
#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

enum { MOST = 8 };

static void eval(const qn_graph *g, const float *const *in, float *const *out) {
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *const *)in, (void *const *)out));
}

static qn_graph *sealed(qn_graph *g, qn_val y) {
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  return g;
}

static size_t count_op(const qn_graph *g, qn_op op) {
  size_t n = 0;
  for (size_t i = 0; i < qn_graph_node_count(g); ++i)
    n += qn_graph_node(g, i)->op == op;
  return n;
}

/* ---- graphs ---- */
Test(autodiff_grad, value_aux_and_gradients) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), "x"), n = qn_graph_param(f, qn_type_scalar(QN_I32), "n");
  qn_val w = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), "w");
  qn_val out[] = {qn_sum_all(qn_mul(x, qn_mul(w, w))), qn_mul(n, n)};
  QN_ASSERT_OK(qn_graph_seal(f, out, 2));
  const int both[] = {2, 0}, wrong[] = {1};
  qn_grad_desc desc = {.argnums = both, .argnum_count = 2, .has_aux = true};
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &g));
  const float xs[] = {1, 2, 3}, ws[] = {4, 5, 6};
  const int32_t ns = 7;
  float value = 0, dw[3], dx[3];
  int32_t aux = 0;
  const void *in[] = {xs, &ns, ws};
  void *got[] = {&value, &aux, dw, dx};
  cr_assert_eq(qn_graph_result_count(g), 4);
  QN_ASSERT_OK(qn_graph_eval_ref(g, in, got));
  cr_expect_float_eq(value, 16 + 50 + 108, 0);
  cr_expect_eq(aux, 49);
  for (int i = 0; i < 3; ++i) {
    cr_expect_float_eq(dw[i], 2 * xs[i] * ws[i], 0);
    cr_expect_float_eq(dx[i], ws[i] * ws[i], 0);
  }
  qn_graph_release(g);
  desc.no_value = true; /* gradients, then aux */
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &g));
  void *without[] = {dw, dx, &aux};
  cr_assert_eq(qn_graph_result_count(g), 3);
  QN_ASSERT_OK(qn_graph_eval_ref(g, in, without));
  cr_expect_float_eq(dx[2], 36, 0);
  qn_graph_release(g);
  desc.has_aux = false;
  QN_EXPECT_FAIL(qn_grad_graph(f, &desc, &g), QN_INVALID, "2 results, expected 1 without has_aux");
  desc = (qn_grad_desc){.argnums = wrong, .argnum_count = 1, .has_aux = true};
  QN_EXPECT_FAIL(qn_grad_graph(f, &desc, &g), QN_INVALID, "parameter 1 is i32[], expected a float");
  cr_expect_null(g);
  qn_graph_release(f);
}

Test(autodiff_grad, refuses_what_is_no_scalar) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), NULL);
  sealed(f, qn_mul(x, x));
  QN_EXPECT_FAIL(qn_grad_graph(f, NULL, &g), QN_INVALID, "f32[3], expected a float scalar");
  const int far[] = {3};
  qn_grad_desc desc = {.argnums = far, .argnum_count = 1};
  QN_EXPECT_FAIL(qn_grad_graph(f, &desc, &g), QN_INVALID, "grad:");
  const int axes[] = {2};
  QN_EXPECT_FAIL(qn_vmap_graph(f, 4, axes, &g), QN_INVALID, "axis 2 for parameter 0, f32[3], expected 0..1");
  qn_graph_release(f);
}

Test(autodiff_grad, unused_and_stopped_parameters_get_zeros) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 2), NULL), y = qn_graph_param(f, qn_type_of(QN_F32, 1, 2), NULL);
  (void)qn_graph_param(f, qn_type_of(QN_F32, 1, 2), NULL);
  sealed(f, qn_sum_all(qn_mul(x, qn_stop_gradient(qn_mul(x, y)))));
  const int all[] = {0, 1, 2};
  qn_grad_desc desc = {.argnums = all, .argnum_count = 3};
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &g));
  const float xs[] = {2, 3}, ys[] = {5, 7};
  float value, dx[2], dy[2], dz[2];
  eval(g, (const float *[]){xs, ys, xs}, (float *[]){&value, dx, dy, dz});
  cr_expect_float_eq(dx[0], 10, 0);
  cr_expect_float_eq(dx[1], 21, 0);
  cr_expect(dy[0] == 0 && dy[1] == 0 && dz[0] == 0 && dz[1] == 0);
  qn_graph_release(g);
  qn_graph_release(f);
}

/* ---- the policy at the corners ---- */
Test(autodiff_grad, a_zero_cotangent_beats_an_infinite_partial) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), NULL);
  sealed(f, qn_sum_all(qn_select(qn_gt(x, qn_like(x, 0)), qn_log(x), qn_like(x, 0))));
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &g));
  const float xs[] = {0, 2, -1};
  float value, dx[3];
  eval(g, (const float *[]){xs}, (float *[]){&value, dx});
  cr_expect_float_eq(dx[0], 0, 0);
  cr_expect_float_eq(dx[1], 0.5F, 0);
  cr_expect_float_eq(dx[2], 0, 0);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, second_derivatives_hold_where_a_cotangent_is_zero) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 2), NULL), r = qn_mul(qn_sin(x), qn_exp(x));
  sealed(f, qn_sum_all(qn_mul(r, r))); /* at 0: value 0, cotangent of r 0, second derivative 2 */
  QN_ASSERT_OK(qn_hessian_graph(f, NULL, 0, &g));
  const float xs[] = {0, 0};
  float h[4];
  eval(g, (const float *[]){xs}, (float *[]){h});
  cr_expect_float_eq(h[0], 2, 1e-6);
  cr_expect_float_eq(h[1], 0, 0);
  cr_expect_float_eq(h[2], 0, 0);
  cr_expect_float_eq(h[3], 2, 1e-6);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, guards_are_left_out_where_a_partial_is_finite) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 2), NULL), y = qn_mul(qn_max(x, qn_like(x, 0)), qn_like(x, 3));
  sealed(f, qn_mean(qn_add(y, qn_neg(x)), 0, NULL, false));
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &g));
  for (size_t i = 0; i < qn_graph_node_count(g); ++i) { /* a guard compares a value with itself */
    const qn_node *node = qn_graph_node(g, i);
    cr_expect(node->op != QN_OP_COMPARE || node->operands[0] != node->operands[1], "node %zu guards a finite partial",
              i);
  }
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, derivatives_carry_the_place_of_what_they_differentiate) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_scalar(QN_F32), NULL), y = qn_tanh(x);
  int line = __LINE__ - 1;
  sealed(f, qn_sin(y));
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &g));
  int last = 0;
  for (size_t i = 0; i < qn_graph_node_count(g); ++i)
    if (qn_graph_node(g, i)->place.line == line)
      last = (int)i;
  cr_expect_gt(last, 3, "no derivative node has the place of tanh");
  const qn_node *end = qn_graph_def(g, qn_graph_result(g, 1));
  cr_expect_eq(end->place.line, line);
  cr_expect(strstr(end->place.file, "test_autodiff_grad.c") != NULL);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, ties_share) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F16, 1, 3000), NULL);
  sealed(f, qn_reduce_max(x, 0, NULL, false));
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &g));
  uint16_t *xs = calloc(3000, sizeof *xs), *dx = calloc(3000, sizeof *dx), value;
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){xs}, (void *[]){&value, dx}));
  for (int i = 0; i < 3000; ++i)
    cr_assert_float_eq(qn_f16_to_f32(dx[i]), 1.0 / 3000, 1e-6, "%d", i); /* f16 could not count so many */
  free(xs);
  free(dx);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, a_body_without_a_rule_is_refused) {
  qn_graph *f = NULL, *g = NULL, *body = NULL;
  QN_ASSERT_OK(qn_graph_create("body", &body));
  qn_val a = qn_graph_param(body, qn_type_scalar(QN_F32), NULL), b = qn_graph_param(body, qn_type_scalar(QN_F32), NULL);
  sealed(body, qn_add(qn_mul(a, a), b));
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 4), NULL), init = qn_scalar(f, QN_F32, 0), y;
  qn_reduce(&x, &init, 1, 1, (const int64_t[]){0}, body, &y);
  sealed(f, y);
  QN_EXPECT_FAIL(qn_grad_graph(f, NULL, &g), QN_UNSUPPORTED, "reduce: result 0 has no reverse derivative");
  QN_EXPECT_FAIL(qn_jvp_graph(f, &g), QN_UNSUPPORTED, "reduce: result 0 has no forward derivative");
  const float xs[] = {1, 2, 3, 4};
  float value; /* the value needs no rule: ((0 + 1)^2 + 2)^2 + 3 ... */
  eval(f, (const float *[]){xs}, (float *[]){&value});
  cr_expect_float_eq(value, 12 * 12 + 4, 0);
  qn_graph_release(body);
  qn_graph_release(f);
}

/* ---- custom_vjp ---- */
/* y = scale * x^2 with a backward of its own; `clip` makes that one not linear. */
static void custom_square(qn_graph *g, qn_val x, qn_val scale, bool clip, qn_val *out) {
  qn_graph *primal = NULL, *ahead = NULL, *back = NULL;
  qn_type v = *qn_val_type(x), s = qn_type_scalar(QN_F32);
  (void)g;
  QN_ASSERT_OK(qn_graph_create("primal", &primal));
  qn_val a = qn_graph_param(primal, v, NULL), b = qn_graph_param(primal, s, NULL);
  sealed(primal, qn_mul(b, qn_mul(a, a)));
  QN_ASSERT_OK(qn_graph_create("forward", &ahead));
  a = qn_graph_param(ahead, v, NULL);
  b = qn_graph_param(ahead, s, NULL);
  qn_val kept[] = {qn_mul(b, qn_mul(a, a)), a, b};
  QN_ASSERT_OK(qn_graph_seal(ahead, kept, 3));
  QN_ASSERT_OK(qn_graph_create("backward", &back));
  a = qn_graph_param(back, v, NULL);
  b = qn_graph_param(back, s, NULL);
  qn_val ct = qn_graph_param(back, v, NULL), given = ct;
  if (clip)
    ct = qn_clamp(qn_like(ct, -1), ct, qn_like(ct, 1));
  qn_val cts[] = {qn_mul(qn_mul(ct, a), qn_mul(b, qn_like(b, 2))), qn_sum_all(qn_mul(given, qn_mul(a, a)))};
  QN_ASSERT_OK(qn_graph_seal(back, cts, 2));
  qn_custom_vjp(((const qn_val[]){x, scale}), 2, primal, ahead, back, out);
  qn_graph_release(primal);
  qn_graph_release(ahead);
  qn_graph_release(back);
}

static qn_graph *custom_loss(bool clip, bool summed) {
  qn_graph *f = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), "x"),
         scale = qn_graph_param(f, qn_type_scalar(QN_F32), "scale"), y;
  custom_square(f, x, scale, clip, &y);
  return sealed(f, summed ? qn_sum_all(qn_mul(y, y)) : y);
}

Test(autodiff_grad, custom_rules_are_used) {
  qn_graph *f = custom_loss(true, true), *g = NULL;
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &g));
  cr_expect_eq(count_op(g, QN_OP_CUSTOM_VJP), 0);
  const float xs[] = {1, 2, 0.1F}, scale = 1;
  float value, dx[3];
  eval(g, (const float *[]){xs, &scale}, (float *[]){&value, dx});
  cr_expect_float_eq(dx[0], 1 * 2 * 1, 1e-6); /* cotangent 2 clipped to 1 */
  cr_expect_float_eq(dx[1], 1 * 2 * 2, 1e-6);
  cr_expect_float_eq(dx[2], 0.02F * 0.2F, 1e-6);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(autodiff_grad, custom_rules_go_forward_where_they_are_linear) {
  qn_graph *f = custom_loss(false, false), *clipped = custom_loss(true, false), *g = NULL;
  QN_ASSERT_OK(qn_jvp_graph(f, &g));
  const float xs[] = {1, 2, 3}, scale = 5, tx[] = {1, -1, 0.5F}, ts = 2;
  float y[3], ty[3];
  eval(g, (const float *[]){xs, &scale, tx, &ts}, (float *[]){y, ty});
  for (int i = 0; i < 3; ++i)
    cr_expect_float_eq(ty[i], 2 * scale * xs[i] * tx[i] + ts * xs[i] * xs[i], 1e-5);
  qn_graph_release(g);
  QN_EXPECT_FAIL(qn_jvp_graph(clipped, &g), QN_UNSUPPORTED, "not linear in the cotangents");
  qn_graph_release(f);
  qn_graph_release(clipped);
}

Test(autodiff_grad, custom_rules_batch_and_shared_operands_collect) {
  qn_graph *f = custom_loss(false, true), *lanes = NULL, *sum = NULL, *g = NULL, *each = NULL, *back = NULL;
  const int axes[] = {0, -1};
  QN_ASSERT_OK(qn_vmap_graph(f, 2, axes, &lanes));
  cr_expect_eq(count_op(lanes, QN_OP_CUSTOM_VJP), 1);
  qn_transform t = {.kind = QN_TRANSFORM_SUM};
  QN_ASSERT_OK(qn_transform_graph(lanes, &t, &sum));
  const int both[] = {0, 1};
  qn_grad_desc desc = {.argnums = both, .argnum_count = 2};
  QN_ASSERT_OK(qn_grad_graph(sum, &desc, &g)); /* grad of vmap */
  const float xs[] = {1, 2, 3, 0.5F, -1, 2}, scale = 2;
  float value, dx[6], ds, want_dx[6], want_ds[2], values[2];
  eval(g, (const float *[]){xs, &scale}, (float *[]){&value, dx, &ds});
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &each));
  QN_ASSERT_OK(qn_vmap_graph(each, 2, axes, &back)); /* vmap of grad */
  eval(back, (const float *[]){xs, &scale}, (float *[]){values, want_dx, want_ds});
  cr_expect_float_eq(value, values[0] + values[1], 1e-4);
  cr_expect_float_eq(ds, want_ds[0] + want_ds[1], 1e-4);
  for (int i = 0; i < 6; ++i) {
    cr_expect_float_eq(dx[i], want_dx[i], 1e-4);
    cr_expect_float_eq(dx[i], 4 * scale * scale * xs[i] * xs[i] * xs[i], 1e-3);
  }
  qn_graph_release(f);
  qn_graph_release(lanes);
  qn_graph_release(sum);
  qn_graph_release(g);
  qn_graph_release(each);
  qn_graph_release(back);
}

Test(autodiff_grad, named_functions_go_both_ways) {
  qn_graph *f = NULL, *g = NULL, *h = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), NULL);
  sealed(f, qn_add(qn_sum_all(qn_relu(x)), qn_add(qn_sum_all(qn_softplus(x)), qn_logsumexp(x, 0, NULL, false))));
  QN_ASSERT_OK(qn_jvp_graph(f, &g));
  QN_ASSERT_OK(qn_grad_graph(f, NULL, &h));
  const float xs[] = {1, -2, 0.5F}, t[] = {1, 2, -1};
  float y, ty, value, dx[3];
  eval(g, (const float *[]){xs, t}, (float *[]){&y, &ty});
  eval(h, (const float *[]){xs}, (float *[]){&value, dx});
  cr_expect_float_eq(y, value, 1e-6);
  cr_expect_float_eq(ty, dx[0] + 2 * dx[1] - dx[2], 1e-5);
  qn_graph_release(g);
  qn_graph_release(h);
  QN_ASSERT_OK(qn_hessian_graph(f, NULL, 0, &g));
  qn_graph_release(g);
  qn_graph_release(f);
}

/* ---- inside a trace ---- */
static qn_val linear_loss(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)user;
  qn_val y =
      qn_add(qn_dot(qn_tree_get(args[1], "x"), qn_tree_get(args[0], "layer/w")), qn_tree_get(args[0], "layer/b"));
  *out_aux = qn_tree_create(y.graph);
  if (*out_aux != NULL)
    qn_tree_set(*out_aux, "y", y);
  return qn_mean(qn_mul(y, y), 0, NULL, false);
}

static qn_tree *gradient_step(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_grad_desc desc = {.has_aux = true};
  qn_value_grad vg = qn_value_and_grad(g, linear_loss, NULL, args, 2, &desc);
  qn_tree *out = qn_tree_create(g);
  if (out == NULL || !qn_val_ok(vg.value))
    return out;
  qn_tree_set(out, "loss", vg.value);
  qn_tree_put(out, "aux", vg.aux);
  qn_tree_put(out, "grads", vg.grads[0]);
  return out;
}

Test(autodiff_trace, value_aux_and_trees) {
  qn_treedef args[2] = {{0}, {0}};
  QN_ASSERT_OK(qn_treedef_add(&args[0], "layer/w", qn_type_of(QN_F32, 2, 2, 1)));
  QN_ASSERT_OK(qn_treedef_add(&args[0], "layer/b", qn_type_of(QN_F32, 1, 1)));
  QN_ASSERT_OK(qn_treedef_add(&args[0], "steps", qn_type_scalar(QN_I32)));
  QN_ASSERT_OK(qn_treedef_add(&args[1], "x", qn_type_of(QN_F32, 2, 2, 2)));
  qn_traced t;
  QN_ASSERT_OK(qn_trace(gradient_step, NULL, "step", args, 2, &t));
  cr_expect_eq(t.result.count, 4);
  cr_expect_str_eq(t.result.leaves[1].path, "aux/y");
  cr_expect_str_eq(t.result.leaves[2].path, "grads/layer/w");
  cr_expect_str_eq(t.result.leaves[3].path, "grads/layer/b");
  const float w[] = {1, 2}, b[] = {3}, x[] = {1, 0, 2, 1};
  const int32_t steps = 0;
  float loss, y[2], dw[2], db[1];
  QN_ASSERT_OK(qn_graph_eval_ref(t.graph, (const void *[]){w, b, &steps, x}, (void *[]){&loss, y, dw, db}));
  cr_expect_float_eq(y[0], 4, 0);
  cr_expect_float_eq(y[1], 7, 0);
  cr_expect_float_eq(loss, (16 + 49) / 2.0, 1e-6);
  cr_expect_float_eq(dw[0], 4 + 14, 1e-5);
  cr_expect_float_eq(dw[1], 7, 1e-5);
  cr_expect_float_eq(db[0], 11, 1e-5);
  qn_traced_free(&t);
  qn_treedef_free(&args[0]);
  qn_treedef_free(&args[1]);
}

static qn_val capturing_loss(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)out_aux;
  return qn_sum_all(qn_mul(qn_tree_get(args[0], "x"), *(qn_val *)user));
}
static qn_val vector_loss(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)out_aux;
  (void)user;
  return qn_tree_get(args[0], "x");
}

static qn_status refused(qn_loss_fn fn, const qn_grad_desc *desc) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("outer", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 2), NULL), outside = qn_neg(x);
  qn_tree *arg = qn_tree_create(g);
  cr_assert_not_null(arg);
  qn_tree_set(arg, "x", x);
  qn_value_grad vg = qn_value_and_grad(g, fn, &outside, &arg, 1, desc);
  cr_expect(!qn_val_ok(vg.value));
  cr_expect_null(vg.grads[0]);
  qn_status st = qn_graph_seal(g, &vg.value, 1);
  qn_graph_release(g);
  return st;
}

Test(autodiff_trace, refusals_say_why) {
  const int far[] = {1};
  qn_grad_desc desc = {.argnums = far, .argnum_count = 1}, aux = {.has_aux = true};
  QN_EXPECT_FAIL(refused(capturing_loss, NULL), QN_INVALID,
                 "values from outside the function must be passed to value_and_grad as arguments");
  QN_EXPECT_FAIL(refused(vector_loss, NULL), QN_INVALID, "f32[2], expected a float scalar");
  QN_EXPECT_FAIL(refused(vector_loss, &desc), QN_INVALID, "argnum 1, there are 1 arguments");
  QN_EXPECT_FAIL(refused(vector_loss, &aux), QN_INVALID, "gave no aux tree");
  QN_EXPECT_FAIL(refused(vector_loss, &aux), QN_INVALID, "test_autodiff_grad.c:");
}
