/* Derivatives and lanes through loops and branches: against differences, in every composition, and what is kept for the way back. */
#include <math.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

#define BODY(name) static void name(qn_graph *g, const qn_val *in, qn_val *out, void *user)

static qn_graph *open_graph(void) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  return g;
}

static void expect_grads(const qn_graph *f, const void *const *inputs, int order) {
  qn_check_grads_desc desc = {.order = order, .rtol = 2e-5, .atol = 2e-5};
  QN_EXPECT_OK(qn_check_grads(f, inputs, &desc));
}

/* ---- loops ---- */
typedef struct weights {
  qn_val w, b;
} weights;

BODY(rnn_step) {
  const weights *p = user;
  (void)g;
  out[0] = out[1] = qn_tanh(qn_add(qn_add(qn_dot(p->w, in[0]), in[1]), p->b));
}

/* Weights are captured, rows are sliced, hidden states are stacked. */
static qn_graph *rnn(bool reverse) {
  qn_graph *g = open_graph();
  weights p = {.w = qn_graph_param(g, qn_type_of(QN_F64, 2, 2, 2), NULL)};
  p.b = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL);
  qn_val h = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL),
         xs = qn_graph_param(g, qn_type_of(QN_F64, 2, 5, 2), NULL), out[2];
  qn_scan_desc d = {
      .init = &h, .carries = 1, .xs = &xs, .inputs = 1, .outputs = 1, .reverse = reverse, .body = rnn_step, .user = &p};
  qn_scan(g, &d, out);
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  return g;
}

static const double w_in[4] = {0.4, -0.3, 0.2, 0.6}, b_in[2] = {0.1, -0.2}, h_in[2] = {0.3, 0.5},
                    xs_in[10] = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1.0};
static const void *const rnn_in[] = {w_in, b_in, h_in, xs_in};

Test(autodiff_control, scans_are_differentiated_in_every_order) {
  for (int reverse = 0; reverse < 2; reverse++) {
    qn_graph *f = rnn(reverse != 0);
    expect_grads(f, rnn_in, reverse ? 1 : 2);
    qn_graph_release(f);
  }
}

/* The result of a transform, run on the same inputs as f with `more` behind them. */
static void run_with(const qn_graph *g, const void *const *inputs, void *const *outputs) {
  QN_ASSERT_OK(qn_graph_eval_ref(g, inputs, outputs));
}

Test(autodiff_control, optimisation_keeps_derivatives) {
  qn_graph *f = rnn(false), *vjp = NULL, *better = NULL;
  QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
  QN_ASSERT_OK(qn_graph_optimize(vjp, NULL, &better));
  const double ct[2] = {1, -1}, cts[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const void *in[] = {w_in, b_in, h_in, xs_in, ct, cts};
  double got[6][10], want[6][10];
  void *const got_p[] = {got[0], got[1], got[2], got[3], got[4], got[5]}, *const want_p[] = {want[0], want[1], want[2],
                                                                                             want[3], want[4], want[5]};
  run_with(vjp, in, want_p);
  run_with(better, in, got_p);
  static const int sizes[] = {2, 10, 4, 2, 2, 10};
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < sizes[i]; k++)
      cr_expect_float_eq(got[i][k], want[i][k], 1e-12, "result %d, element %d", i, k);
  qn_graph_release(f);
  qn_graph_release(vjp);
  qn_graph_release(better);
}

static const qn_node *find_op(const qn_graph *g, qn_op op, int which) {
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    if (qn_graph_node(g, i)->op == op && which-- == 0)
      return qn_graph_node(g, i);
  return NULL;
}

/* Captures, rows and the counter are no residuals: only the hidden state is stacked, once before and once behind tanh. */
Test(autodiff_control, only_what_changes_is_stacked) {
  qn_graph *f = rnn(false), *vjp = NULL;
  QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
  const qn_node *ahead = find_op(vjp, QN_OP_WHILE, 0);
  cr_assert(ahead != NULL);
  int stacks = ahead->result_count - 4; /* counter, carry, output; its own number */
  cr_expect(stacks <= 2, "%d stacks", stacks);
  for (int i = 0; i < stacks; i++) {
    const qn_type *t = qn_graph_type(vjp, ahead->first_result + 4 + (uint32_t)i);
    cr_expect(t->rank == 2 && t->dims[0] == 5 && t->dims[1] == 2, "%s", qn_type_str(t));
  }
  qn_graph_release(f);
  qn_graph_release(vjp);
}

/* The cotangent of a scan's output is read row by row: it's no carry of the loop back, which has its number, the carry's cotangent and the
 * gradients of two captures, and those of the rows. */
Test(autodiff_control, cotangents_of_outputs_are_only_read) {
  for (int reverse = 0; reverse < 2; reverse++) {
    qn_graph *f = rnn(reverse != 0), *vjp = NULL;
    QN_ASSERT_OK(qn_vjp_graph(f, &vjp));
    const qn_node *back = find_op(vjp, QN_OP_WHILE, 1);
    cr_assert(back != NULL);
    cr_expect_eq(back->result_count, 5, "%d results", back->result_count);
    qn_graph_release(f);
    qn_graph_release(vjp);
  }
}

/* With the step in a remat the carry alone is kept. */
BODY(remat_step) { qn_remat(g, NULL, in, 2, rnn_step, user, out, 2); }

Test(autodiff_control, a_remat_step_keeps_the_carry_alone) {
  qn_graph *g = open_graph(), *vjp = NULL;
  weights p = {.w = qn_graph_param(g, qn_type_of(QN_F64, 2, 2, 2), NULL)};
  p.b = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL);
  qn_val h = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL),
         xs = qn_graph_param(g, qn_type_of(QN_F64, 2, 5, 2), NULL), out[2];
  qn_scan_desc d = {.init = &h, .carries = 1, .xs = &xs, .inputs = 1, .outputs = 1, .body = remat_step, .user = &p};
  qn_scan(g, &d, out);
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  QN_ASSERT_OK(qn_vjp_graph(g, &vjp));
  const qn_node *ahead = find_op(vjp, QN_OP_WHILE, 0);
  cr_assert(ahead != NULL);
  cr_expect_eq(ahead->result_count, 5, "%d results: counter, carry, output, number, one stack", ahead->result_count);
  expect_grads(g, rnn_in, 1);
  qn_graph_release(g);
  qn_graph_release(vjp);
}

/* Loops in loops, with an integer carry and a carry that only the inner loop's count feeds. */
BODY(inner_step) {
  (void)g;
  (void)user;
  out[0] = qn_mul(in[1], qn_cos(in[1]));
}
BODY(outer_step) {
  (void)user;
  qn_val made;
  qn_fori(g, 0, 3, &in[1], 1, inner_step, NULL, &made);
  out[0] = qn_add(made, qn_convert(in[0], QN_F64));
  out[1] = qn_add(in[2], in[0]);
}
Test(autodiff_control, nested_loops) {
  qn_graph *g = open_graph(), *grad = NULL;
  qn_val init[] = {qn_graph_param(g, qn_type_of(QN_F64, 1, 3), NULL), qn_scalar(g, QN_I32, 0)}, out[2];
  qn_fori(g, 1, 5, init, 2, outer_step, NULL, out);
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  const double x[] = {0.3, -0.8, 1.1};
  expect_grads(g, (const void *[]){x}, 2);
  qn_graph_release(g);
  qn_graph_release(grad);
}

BODY(below_limit) {
  (void)g;
  (void)user;
  out[0] = qn_lt(in[0], qn_like(in[0], 10));
}
BODY(double_step) {
  (void)g;
  (void)user;
  out[0] = qn_mul(in[0], qn_like(in[0], 2));
}
Test(autodiff_control, uncounted_loops_are_forward_only) {
  qn_graph *g = open_graph(), *vjp = NULL;
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), y;
  qn_while(g, &x, 1, below_limit, double_step, NULL, &y);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  qn_check_grads_desc desc = {.no_reverse = true};
  QN_EXPECT_OK(qn_check_grads(g, (const void *[]){&(double){0.7}}, &desc));
  QN_EXPECT_FAIL(qn_vjp_graph(g, &vjp), QN_UNSUPPORTED,
                 "no reverse derivative of a loop whose number of iterations is known only when it runs; use qn_scan");
  qn_graph_release(g);
}

/* A loop that nothing asked for depends on is no obstacle. */
Test(autodiff_control, uncounted_loops_beside_the_way_are_copied) {
  qn_graph *g = open_graph(), *grad = NULL;
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), n = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), y;
  qn_while(g, &n, 1, below_limit, double_step, NULL, &y);
  qn_val z = qn_mul(x, y);
  QN_ASSERT_OK(qn_graph_seal(g, &z, 1));
  QN_ASSERT_OK(qn_grad_graph(g, NULL, &grad));
  double value, slope;
  run_with(grad, (const void *[]){&(double){2}, &(double){3}}, (void *[]){&value, &slope});
  cr_expect(value == 24 && slope == 12, "%g %g", value, slope);
  qn_graph_release(g);
  qn_graph_release(grad);
}

/* No iteration: the loop is the identity, in reverse too. */
Test(autodiff_control, loops_of_no_iteration) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_of(QN_F64, 1, 3), NULL), y;
  qn_fori(g, 2, 2, &x, 1, inner_step, NULL, &y);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  expect_grads(g, (const void *[]){(double[]){1, 2, 3}}, 1);
  qn_graph_release(g);
}

/* ---- branches ---- */
BODY(sine_of) {
  (void)g;
  out[0] = qn_mul(qn_sin(in[0]), *(const qn_val *)user);
}
BODY(constant_one) {
  (void)g;
  (void)user;
  out[0] = qn_full(in[0].graph, *qn_val_type(in[0]), 1);
}
BODY(square_of) {
  (void)g;
  (void)user;
  out[0] = qn_mul(in[0], in[0]);
}
static qn_graph *branches(void) {
  static const qn_body_fn all[] = {sine_of, constant_one, square_of};
  qn_graph *g = open_graph();
  qn_val i = qn_graph_param(g, qn_type_scalar(QN_I32), NULL), x = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL),
         w = qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL), y;
  qn_switch(g, i, all, 3, &x, 1, &w, &y, 1);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  return g;
}

Test(autodiff_control, branches_are_differentiated) {
  qn_graph *f = branches();
  for (int32_t i = -1; i < 4; i++)
    expect_grads(f, (const void *[]){&i, (double[]){0.3, -0.9}, (double[]){1.5, 0.5}}, 2);
  qn_graph_release(f);
}

/* ---- lanes ---- */
/* f over lanes against f in each. */
static void expect_lanes(const qn_graph *f, int64_t size, const int *axes, const void *const *in, size_t row_bytes[],
                         double tolerance) {
  qn_graph *mapped = NULL;
  QN_ASSERT_OK(qn_vmap_graph(f, size, axes, &mapped));
  size_t params = qn_graph_param_count(f);
  double got[256], want[256], other[256]; /* a second result is left alone */
  QN_ASSERT_OK(qn_graph_eval_ref(mapped, in, (void *[]){got, other}));
  int64_t each = qn_type_elements(qn_graph_type(f, qn_graph_result(f, 0)));
  for (int64_t lane = 0; lane < size; lane++) {
    const void *one[8];
    for (size_t i = 0; i < params; i++)
      one[i] = (const char *)in[i] + (axes[i] >= 0 ? (size_t)lane * row_bytes[i] : 0);
    QN_ASSERT_OK(qn_graph_eval_ref(f, one, (void *[]){want, other}));
    for (int64_t k = 0; k < each; k++)
      cr_expect(fabs(got[lane * each + k] - want[k]) <= tolerance, "lane %d, element %d: %g, expected %g", (int)lane,
                (int)k, got[lane * each + k], want[k]);
  }
  qn_graph_release(mapped);
}

Test(autodiff_control, lanes_of_branches) {
  qn_graph *f = branches(), *grad = NULL;
  const int32_t i[] = {0, 1, 2, 7};
  const double x[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, w[] = {2, 3};
  size_t bytes[] = {4, 16, 16};
  expect_lanes(f, 4, (const int[]){0, 0, -1}, (const void *[]){i, x, w}, bytes, 0);
  expect_lanes(f, 4, (const int[]){-1, 0, -1}, (const void *[]){&i[2], x, w}, bytes, 0);
  QN_ASSERT_OK(qn_vmap_graph(f, 4, (const int[]){0, 0, -1}, &grad));
  expect_grads(grad, (const void *[]){i, x, w}, 1);
  qn_graph_release(f);
  qn_graph_release(grad);
}

/* Each lane ends by itself; the others' carries stay. */
Test(autodiff_control, lanes_of_loops) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F64), NULL), y;
  qn_while(g, &x, 1, below_limit, double_step, NULL, &y);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  const double in[] = {0.1, 11, 3, 5, 9.5};
  expect_lanes(g, 5, (const int[]){0}, (const void *[]){in}, (size_t[]){8}, 0);
  qn_graph_release(g);
  qn_graph *f = rnn(false);
  const double hs[] = {0.3, 0.5, -0.1, 0.2, 0.7, 0.9};
  expect_lanes(f, 3, (const int[]){-1, -1, 0, -1}, (const void *[]){w_in, b_in, hs, xs_in}, (size_t[]){0, 0, 16, 0},
               1e-15);
  qn_graph *mapped = NULL;
  QN_ASSERT_OK(qn_vmap_graph(f, 3, (const int[]){-1, -1, 0, -1}, &mapped));
  expect_grads(mapped, (const void *[]){w_in, b_in, hs, xs_in}, 1);
  qn_graph_release(f);
  qn_graph_release(mapped);
}

/* ---- whole graphs ---- */
Test(autodiff_control, linearize_is_the_tangent_at_a_point) {
  qn_graph *f = rnn(false), *primal = NULL, *linear = NULL, *jvp = NULL;
  QN_ASSERT_OK(qn_linearize_graph(f, &primal, &linear));
  QN_ASSERT_OK(qn_jvp_graph(f, &jvp));
  const double t[4][10] = {{1, 2, 3, 4}, {5, 6}, {7, 8}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5}};
  double y[2][10], d[2][10], z[2][10], e[2][10];
  run_with(jvp, (const void *[]){w_in, b_in, h_in, xs_in, t[0], t[1], t[2], t[3]}, (void *[]){y[0], y[1], d[0], d[1]});
  size_t residuals = qn_graph_result_count(primal) - 2;
  cr_assert(residuals <= 16 && qn_graph_param_count(linear) == residuals + 4);
  static double room[16][256];
  void *out[18] = {z[0], z[1]};
  const void *in[20];
  for (size_t i = 0; i < residuals; i++) {
    cr_assert(qn_type_bytes(qn_graph_type(primal, qn_graph_result(primal, 2 + i))) <= (int64_t)sizeof room[0]);
    in[i] = out[2 + i] = room[i];
  }
  run_with(primal, rnn_in, out);
  for (size_t i = 0; i < 4; i++)
    in[residuals + i] = t[i];
  run_with(linear, in, (void *[]){e[0], e[1]});
  for (int k = 0; k < 10; k++) {
    cr_expect(z[1][k] == y[1][k]);
    cr_expect_float_eq(e[1][k], d[1][k], 1e-14);
  }
  qn_graph *all[] = {f, primal, linear, jvp};
  for (size_t i = 0; i < 4; i++)
    qn_graph_release(all[i]);
}

Test(autodiff_control, check_grads_finds_a_wrong_rule) {
  const qn_type t = qn_type_scalar(QN_F64);
  qn_graph *primal = NULL, *rule = NULL, *f = open_graph();
  QN_ASSERT_OK(qn_graph_create("primal", &primal));
  qn_val y = qn_sin(qn_graph_param(primal, t, NULL));
  QN_ASSERT_OK(qn_graph_seal(primal, &y, 1));
  QN_ASSERT_OK(qn_graph_create("rule", &rule));
  qn_val x = qn_graph_param(rule, t, NULL), dx = qn_graph_param(rule, t, NULL), both[] = {qn_sin(x), dx};
  QN_ASSERT_OK(qn_graph_seal(rule, both, 2));
  x = qn_graph_param(f, t, NULL);
  qn_custom_jvp(&x, 1, primal, rule, &y);
  QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
  QN_EXPECT_FAIL(qn_check_grads(f, (const void *[]){&(double){1}}, NULL), QN_INTERNAL, "check_grads: tangent 0");
  qn_graph_release(primal);
  qn_graph_release(rule);
  qn_graph_release(f);
}

/* ---- trees ---- */
static qn_tree *affine(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_tree *t = qn_tree_create(g);
  qn_val y = qn_add(qn_dot(qn_tree_get(args[0], "w"), qn_tree_get(args[1], "x")), qn_tree_get(args[0], "b"));
  qn_tree_set(t, "y", y);
  qn_tree_set(t, "stats/sum", qn_sum_all(y));
  return t;
}
static int shared_bias(size_t argument, const char *path, void *user) {
  (void)user;
  return argument == 0 && strcmp(path, "b") == 0 ? QN_NO_LANES : QN_AXIS_OF_ARGUMENT;
}
Test(autodiff_control, trees_have_axes_by_argument_and_leaf) {
  qn_graph *g = open_graph();
  qn_tree *p = qn_tree_create(g), *batch = qn_tree_create(g);
  qn_tree_set(p, "w", qn_graph_param(g, qn_type_of(QN_F64, 3, 2, 2, 3), NULL)); /* lanes first */
  qn_tree_set(p, "b", qn_graph_param(g, qn_type_of(QN_F64, 1, 2), NULL));
  qn_tree_set(batch, "x", qn_graph_param(g, qn_type_of(QN_F64, 2, 3, 2), NULL)); /* lanes last */
  qn_tree *out = qn_vmap_tree(g, affine, NULL, ((qn_tree *[]){p, batch}), ((const int[]){0, -1}), 2, shared_bias, -1);
  cr_assert(out != NULL);
  qn_val results[] = {qn_tree_get(out, "y"), qn_tree_get(out, "stats/sum")};
  QN_ASSERT_OK(qn_graph_seal(g, results, 2));
  const double w[12] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, b[2] = {10, 20}, x[6] = {1, 4, 2, 5, 3, 6};
  double y[4], s[2];
  run_with(g, (const void *[]){w, b, x}, (void *[]){y, s});
  cr_expect(y[0] == 11 && y[1] == 16 && y[2] == 22 && y[3] == 35, "%g %g %g %g", y[0], y[1], y[2], y[3]);
  cr_expect(s[0] == 33 && s[1] == 51);
  qn_graph_release(g);
}
