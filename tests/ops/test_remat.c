/* remat, custom_jvp and names: shape rules, text, what reverse mode keeps and computes again, derivatives in every order. */
#include <math.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

static void layers(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  (void)user;
  qn_val h = qn_checkpoint_name(qn_tanh(qn_dot(in[0], in[1])), "hidden");
  out[0] = qn_sum_all(qn_sin(qn_dot(h, in[1])));
}

static qn_graph *with_policy(const qn_remat_policy *policy, bool remat) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val in[] = {qn_graph_param(g, qn_type_of(QN_F64, 2, 2, 3), NULL),
                 qn_graph_param(g, qn_type_of(QN_F64, 2, 3, 3), NULL)},
         y = QN_NULL_VAL;
  if (remat)
    qn_remat(g, policy, in, 2, layers, NULL, &y, 1);
  else
    layers(g, in, &y, NULL);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  return g;
}

static size_t count_op(const qn_graph *g, qn_op op) {
  size_t n = 0;
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    n += qn_graph_node(g, i)->op == op;
  return n;
}

static void gradient(const qn_graph *f, double *dx, double *dw) {
  static const double x[6] = {0.1, -0.4, 0.7, 0.2, 0.9, -0.3}, w[9] = {0.5, -0.2, 0.1, 0.3, 0.8, -0.6, 0.4, -0.1, 0.2};
  const int both[] = {0, 1};
  qn_grad_desc desc = {.argnums = both, .argnum_count = 2, .no_value = true};
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &g));
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x, w}, (void *[]){dx, dw}));
  qn_graph_release(g);
}

Test(remat, gradients_are_the_same_under_every_policy) {
  static const qn_remat_policy policies[] = {{0}, {.dots = true}, {.names = "hidden"}, {true, "other,hidden"}};
  double want[2][9], got[2][9];
  qn_graph *plain = with_policy(NULL, false);
  gradient(plain, want[0], want[1]);
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
    qn_graph *f = with_policy(&policies[i], true);
    gradient(f, got[0], got[1]);
    cr_expect(memcmp(got[0], want[0], 6 * sizeof(double)) == 0 && memcmp(got[1], want[1], sizeof want[1]) == 0,
              "policy %zu", i);
    qn_graph_release(f);
  }
  qn_graph_release(plain);
}

/* Gradients as optimised: how many values of one kind are computed. */
static size_t computed(const qn_remat_policy *policy, qn_op op) {
  qn_graph *f = with_policy(policy, true), *g = NULL, *better = NULL;
  const int both[] = {0, 1};
  qn_grad_desc desc = {.argnums = both, .argnum_count = 2};
  QN_ASSERT_OK(qn_grad_graph(f, &desc, &g));
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &better));
  size_t n = count_op(better, op);
  qn_graph_release(f);
  qn_graph_release(g);
  qn_graph_release(better);
  return n;
}

Test(remat, policies_decide_what_is_computed_again) {
  const qn_remat_policy nothing = {0}, dots = {.dots = true}, hidden = {.names = "hidden"}, other = {.names = "hidde"};
  cr_expect_eq(computed(&nothing, QN_OP_TANH), 2);
  cr_expect_eq(computed(&dots, QN_OP_TANH), 2);
  cr_expect_eq(computed(&hidden, QN_OP_TANH), 1);
  cr_expect_eq(computed(&other, QN_OP_TANH), 2);
  /* Two products forward, four on the way back, and those that are computed again: the second one for the derivative of sin, the first to
   * get there. */
  cr_expect_eq(computed(&nothing, QN_OP_DOT_GENERAL), 8);
  cr_expect_eq(computed(&dots, QN_OP_DOT_GENERAL), 6);
  cr_expect_eq(computed(&hidden, QN_OP_DOT_GENERAL), 7);
}

Test(remat, every_transform_goes_through) {
  const double x[6] = {0.1, -0.4, 0.7, 0.2, 0.9, -0.3}, w[9] = {0.5, -0.2, 0.1, 0.3, 0.8, -0.6, 0.4, -0.1, 0.2};
  const qn_remat_policy dots = {.dots = true};
  qn_graph *f = with_policy(&dots, true), *mapped = NULL;
  qn_check_grads_desc desc = {.order = 2, .rtol = 1e-5, .atol = 1e-5};
  QN_EXPECT_OK(qn_check_grads(f, (const void *[]){x, w}, &desc));
  QN_ASSERT_OK(qn_vmap_graph(f, 2, (const int[]){0, -1}, &mapped));
  cr_expect_eq(count_op(mapped, QN_OP_REMAT), 1, "lanes keep the remat");
  double two[12];
  for (int i = 0; i < 12; i++)
    two[i] = x[i % 6] + i / 6;
  desc.order = 1;
  QN_EXPECT_OK(qn_check_grads(mapped, (const void *[]){two, w}, &desc));
  qn_graph_release(f);
  qn_graph_release(mapped);
}

static void expect_text_comes_back(const qn_graph *g) {
  qn_text text = {0}, again = {0};
  qn_graph *back = NULL;
  qn_graph_print(g, &text);
  QN_ASSERT_OK(qn_graph_parse(text.buf, strlen(text.buf), "x.mlir", &back));
  cr_expect(qn_graph_equal(g, back), "%s", text.buf);
  qn_graph_print(back, &again);
  cr_expect_str_eq(again.buf, text.buf);
  qn_text_free(&text);
  qn_text_free(&again);
  qn_graph_release(back);
}

Test(remat, text_comes_back) {
  const qn_remat_policy policy = {true, "hidden,logits"};
  qn_graph *g = with_policy(&policy, true);
  expect_text_comes_back(g);
  qn_graph_release(g);
}

/* A value from outside that the function uses is an operand like the others. */
static void uses_outer(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = qn_mul(in[0], qn_exp(*(const qn_val *)user));
  out[1] = qn_sin(out[0]);
}

Test(remat, closures_are_differentiated) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), w = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), y[2];
  qn_remat(g, NULL, &x, 1, uses_outer, &w, y, 2);
  qn_val z = qn_mul(y[0], y[1]);
  QN_ASSERT_OK(qn_graph_seal(g, &z, 1));
  const double a = 0.3, b = -0.7;
  qn_check_grads_desc desc = {.order = 2};
  QN_EXPECT_OK(qn_check_grads(g, (const void *[]){&a, &b}, &desc));
  qn_graph_release(g);
}

/* ---- custom_jvp ---- */
/* f(x, n) = n x with a tangent of 3 t, so that the rule is seen. */
static void custom_parts(qn_graph **primal, qn_graph **rule) {
  const qn_type t = qn_type_of(QN_F64, 1, 2), i = qn_type_scalar(QN_I32);
  QN_ASSERT_OK(qn_graph_create("primal", primal));
  qn_val x = qn_graph_param(*primal, t, NULL), n = qn_graph_param(*primal, i, NULL);
  qn_val y = qn_mul(x, qn_convert(n, QN_F64));
  QN_ASSERT_OK(qn_graph_seal(*primal, &y, 1));
  QN_ASSERT_OK(qn_graph_create("rule", rule));
  x = qn_graph_param(*rule, t, NULL);
  n = qn_graph_param(*rule, i, NULL);
  qn_val dx = qn_graph_param(*rule, t, NULL), out[] = {qn_mul(x, qn_convert(n, QN_F64)), qn_mul(dx, qn_like(dx, 3))};
  QN_ASSERT_OK(qn_graph_seal(*rule, out, 2));
}

static qn_graph *custom_function(void) {
  qn_graph *primal = NULL, *rule = NULL, *f = NULL;
  custom_parts(&primal, &rule);
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val in[] = {qn_graph_param(f, qn_type_of(QN_F64, 1, 2), NULL), qn_graph_param(f, qn_type_scalar(QN_I32), NULL)}, y;
  qn_custom_jvp(in, 2, primal, rule, &y);
  QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
  qn_graph_release(primal);
  qn_graph_release(rule);
  return f;
}

Test(custom_jvp, the_rule_serves_both_modes_and_lanes) {
  qn_graph *f = custom_function(), *jvp = NULL, *vjp = NULL, *mapped = NULL, *mapped_vjp = NULL;
  const double x[] = {1, 2}, t[] = {10, 20};
  const int32_t n = 5;
  double y[2], d[2];
  QN_ASSERT_OK(qn_jvp_graph(f, &jvp));
  QN_ASSERT_OK(qn_graph_eval_ref(jvp, (const void *[]){x, &n, t}, (void *[]){y, d}));
  cr_expect(y[1] == 10 && d[0] == 30 && d[1] == 60, "%g %g %g", y[1], d[0], d[1]);
  QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
  QN_ASSERT_OK(qn_graph_eval_ref(vjp, (const void *[]){x, &n, t}, (void *[]){y, d}));
  cr_expect(y[1] == 10 && d[0] == 30 && d[1] == 60, "%g %g %g", y[1], d[0], d[1]);
  QN_ASSERT_OK(qn_vmap_graph(f, 2, (const int[]){-1, 0}, &mapped));
  QN_ASSERT_OK(qn_vjp_graph(mapped, &mapped_vjp));
  const int32_t two[] = {5, 7};
  const double cts[] = {1, 2, 10, 20};
  double out[4];
  QN_ASSERT_OK(qn_graph_eval_ref(mapped_vjp, (const void *[]){x, two, cts}, (void *[]){out, d}));
  cr_expect(out[0] == 5 && out[3] == 14 && d[0] == 33 && d[1] == 66, "%g %g %g %g", out[0], out[3], d[0], d[1]);
  expect_text_comes_back(f);
  qn_graph *all[] = {f, jvp, vjp, mapped, mapped_vjp};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    qn_graph_release(all[i]);
}

Test(custom_jvp, refusals) {
  qn_graph *primal = NULL, *rule = NULL, *f = NULL;
  custom_parts(&primal, &rule);
  static const struct {
    bool swap, missing;
    const char *message;
  } cases[] = {{true, false, "custom_jvp: the function has 3 parameters, expected 2"},
               {false, true, "custom_jvp: the rule is missing"}};
  for (size_t i = 0; i < 2; i++) {
    QN_ASSERT_OK(qn_graph_create("f", &f));
    qn_val in[] = {qn_graph_param(f, qn_type_of(QN_F64, 1, 2), NULL), qn_graph_param(f, qn_type_scalar(QN_I32), NULL)},
           y[2];
    qn_custom_jvp(in, 2, cases[i].swap ? rule : primal, cases[i].missing ? NULL : cases[i].swap ? primal : rule, y);
    QN_EXPECT_FAIL(qn_graph_seal(f, y, 1), QN_INVALID, cases[i].message);
    qn_graph_release(f);
  }
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val in[] = {qn_graph_param(f, qn_type_of(QN_F64, 1, 2), NULL), qn_graph_param(f, qn_type_scalar(QN_I32), NULL)}, y;
  qn_custom_jvp(in, 2, primal, primal, &y);
  QN_EXPECT_FAIL(qn_graph_seal(f, &y, 1), QN_INVALID, "custom_jvp: the rule has 2 parameters, expected 3");
  qn_graph_release(f);
  qn_graph_release(primal);
  qn_graph_release(rule);
}
