/* Variants of the model library that recorded trainings need: Optax's adam, dropout by a given mask; and the named functions std and norm. */
#include <math.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/model.h"
#include "quern/optim.h"

static qn_tree *optax_step(qn_graph *g, qn_tree *const *args, void *user) {
  const qn_optax_adam a = {.learning_rate = 0.1};
  (void)user;
  qn_update u = qn_optax_adam_apply(&a, args[0], args[1], args[2]);
  qn_tree *t = qn_tree_create(g);
  qn_tree_put(t, "state", u.state);
  qn_tree_put(t, "params", u.params);
  return t;
}

Test(model_variants, optax_adam_corrects_both_moments) {
  qn_treedef params = {0}, args[3] = {{0}, {0}, {0}};
  QN_ASSERT_OK(qn_treedef_add(&params, "w", qn_type_of(QN_F64, 1, 2)));
  QN_ASSERT_OK(qn_optax_adam_state(&(qn_optax_adam){0}, &params, &args[0]));
  QN_ASSERT_OK(qn_treedef_copy(&params, &args[1]));
  QN_ASSERT_OK(qn_treedef_copy(&params, &args[2]));
  qn_traced t;
  QN_ASSERT_OK(qn_trace(optax_step, NULL, "step", args, 3, &t));
  int32_t count = 0, new_count;
  double mu[2] = {0, 0}, nu[2] = {0, 0}, w[2] = {1, -1}, want[2] = {1, -1};
  const double grads[3][2] = {{0.5, -2}, {-1, 0}, {3, 1e-3}};
  double m[2] = {0, 0}, v[2] = {0, 0};
  for (int step = 1; step <= 3; step++) {
    double mu1[2], nu1[2], w1[2];
    const void *in[] = {&count, mu, nu, grads[step - 1], w};
    void *out[] = {&new_count, mu1, nu1, w1};
    QN_ASSERT_OK(qn_graph_eval_ref(t.graph, in, out));
    for (int i = 0; i < 2; i++) {
      double x = grads[step - 1][i];
      m[i] = 0.9 * m[i] + 0.1 * x;
      v[i] = 0.999 * v[i] + 0.001 * x * x;
      want[i] -= 0.1 * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.999, step))) + 1e-8);
      cr_expect(fabs(w1[i] - want[i]) < 2e-6, "step %d: %.12g, expected %.12g", step, w1[i],
                want[i]); /* powers of beta are f32 */
      mu[i] = mu1[i];
      nu[i] = nu1[i];
      w[i] = w1[i];
    }
    count = new_count;
    cr_expect(count == step);
  }
  qn_traced_free(&t);
  for (int i = 0; i < 3; i++)
    qn_treedef_free(&args[i]);
  qn_treedef_free(&params);
}

static qn_tree *dropout_step(qn_graph *g, qn_tree *const *args, void *user) {
  const qn_model *m = user;
  qn_tree *none = qn_tree_create(g), *t = qn_tree_create(g);
  qn_val x = qn_tree_get(args[1], "x");
  qn_tree_set(t, "training", qn_model_apply(m, none, args[0], x, true).y);
  qn_tree_set(t, "inference", qn_model_apply(m, none, args[0], x, false).y);
  return t;
}

Test(model_variants, dropout_takes_the_given_mask) {
  const qn_type type = qn_type_of(QN_F32, 2, 2, 3);
  const qn_layer layer = qn_dropout_by_mask(0.25), wrong = qn_dropout_by_mask(1);
  qn_model *m;
  QN_EXPECT_FAIL(qn_sequential("m", &type, &wrong, 1, &m), QN_INVALID, "rate is 1");
  QN_ASSERT_OK(qn_sequential("m", &type, &layer, 1, &m));
  cr_assert(qn_model_non_trainable(m)->count == 1);
  cr_expect(qn_model_non_trainable(m)->leaves[0].type.dtype == QN_BOOL);
  qn_treedef args[2] = {{0}, {0}};
  QN_ASSERT_OK(qn_treedef_copy(qn_model_non_trainable(m), &args[0]));
  QN_ASSERT_OK(qn_treedef_add(&args[1], "x", type));
  qn_traced t;
  QN_ASSERT_OK(qn_trace(dropout_step, m, "step", args, 2, &t));
  const uint8_t keep[6] = {1, 0, 1, 1, 0, 0};
  const float x[6] = {3, 3, -6, INFINITY, NAN, 1};
  float training[6], inference[6];
  const void *in[] = {keep, x};
  void *out[] = {training, inference};
  QN_ASSERT_OK(qn_graph_eval_ref(t.graph, in, out));
  for (int i = 0; i < 6; i++)
    cr_expect(training[i] == (keep[i] ? x[i] / 0.75F : 0), "element %d: %g", i, (double)training[i]);
  cr_expect(inference[0] == 3 && inference[5] == 1);
  qn_traced_free(&t);
  qn_treedef_free(&args[0]);
  qn_treedef_free(&args[1]);
  qn_model_free(m);
}

/* std and norm of rows, and their gradients: 0 where the root is 0. */
Test(model_variants, std_and_norm_have_finite_derivatives) {
  const int64_t last = -1;
  qn_graph *f, *pulled;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F64, 2, 2, 2), "x");
  const qn_val y[2] = {qn_std(x, 1, &last, 0, false), qn_norm(x, 1, &last, true)};
  QN_ASSERT_OK(qn_graph_seal(f, y, 2));
  QN_ASSERT_OK(qn_vjp_graph(f, &pulled));
  const double at[4] = {0, 0, 3, 4}, none[2] = {0, 0}, ones[2] = {1, 1};
  double std[2], norm[2], grad[4];
  void *out[] = {std, norm, grad};
  QN_ASSERT_OK(qn_graph_eval_ref(pulled, (const void *const[]){at, ones, none}, out));
  cr_expect(std[0] == 0 && std[1] == 0.5 && norm[0] == 0 && norm[1] == 5);
  cr_expect(grad[0] == 0 && grad[1] == 0 && fabs(grad[2] + 0.5) < 1e-15 && fabs(grad[3] - 0.5) < 1e-15, "%g %g %g %g",
            grad[0], grad[1], grad[2], grad[3]);
  QN_ASSERT_OK(qn_graph_eval_ref(pulled, (const void *const[]){at, none, ones}, out));
  cr_expect(grad[0] == 0 && grad[1] == 0 && fabs(grad[2] - 0.6) < 1e-15 && fabs(grad[3] - 0.8) < 1e-15, "%g %g %g %g",
            grad[0], grad[1], grad[2], grad[3]);
  qn_graph_release(f);
  qn_graph_release(pulled);
}
