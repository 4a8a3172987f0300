/* Windows, choices and running folds in shapes that reach every path of their schedules, against the oracle, fused and one kernel per node: on the
 * cpu all of them, elsewhere some. */
#include "graph_check.h"

#define X(i) qn_tree_get(args[i], "x")
#define CASE(name)                                                                                                     \
  static qn_tree *name(qn_graph *g, qn_tree *const *args, void *user) {                                                \
    qn_tree *r = qn_tree_create(g);                                                                                    \
    (void)user;
#define END                                                                                                            \
  return r;                                                                                                            \
  }

static const qn_attr_window pool3 = {{4, {1, 3, 3, 1}},
                                     {4, {1, 2, 2, 1}},
                                     {4, {1, 1, 1, 1}},
                                     {4, {1, 1, 1, 1}},
                                     {4, {0, 1, 1, 0}},
                                     {4, {0, 1, 1, 0}},
                                     false};
static const qn_attr_window holes = {{4, {1, 2, 3, 1}},
                                     {4, {1, 1, 2, 1}},
                                     {4, {1, 2, 1, 1}},
                                     {4, {1, 1, 2, 1}},
                                     {4, {0, -1, 3, 0}},
                                     {4, {0, 2, -1, 0}},
                                     false};
static const qn_attr_window long_window = {{1, {37}}, {1, {3}}, {1, {1}}, {1, {1}}, {1, {5}}, {1, {4}}, false};

CASE(pools)
qn_val x = qn_tanh(X(0)), most = qn_max_pool(x, &pool3);
qn_tree_set(r, "max", qn_mul(most, most));
qn_tree_set(r, "mean", qn_avg_pool(x, &pool3, false));
qn_tree_set(r, "holes", qn_reduce_window_op(x, QN_OP_MINIMUM, &holes));
qn_tree_set(r, "sums", qn_reduce_window_op(x, QN_OP_ADD, &holes));
END

CASE(choices)
qn_val x = qn_round_even(X(0)); /* with ties */
qn_graph *less = NULL, *add = NULL, *times = NULL;
if (qn_graph_create("less", &less) != QN_OK || qn_region_binary(QN_OP_ADD, QN_F32, &add) != QN_OK ||
    qn_region_binary(QN_OP_MULTIPLY, QN_F32, &times) != QN_OK)
  return r;
qn_val a = qn_graph_param(less, qn_type_scalar(QN_F32), NULL), b = qn_graph_param(less, qn_type_scalar(QN_F32), NULL),
       y = qn_lt(a, b), source = qn_max_pool(X(0), &pool3);
if (qn_graph_seal(less, &y, 1) == QN_OK) {
  qn_tree_set(r, "add", qn_select_and_scatter(x, source, qn_scalar(g, QN_F32, 0.5), &pool3, less, add));
  qn_tree_set(r, "times", qn_select_and_scatter(x, source, qn_scalar(g, QN_F32, 1), &pool3, less, times));
}
qn_graph_release(less);
qn_graph_release(add);
qn_graph_release(times);
END

/* Every phase of windows over a spread operand, from both ends. */
CASE(phases) for (int low = -2; low < 4; low++) {
  const qn_attr_window a = {{1, {5 + low % 2}}, {1, {1 + (low + 2) % 2}}, {1, {3}}, {1, {1}},
                            {1, {low}},         {1, {4 - low}},           false};
  const qn_attr_window b = {{1, {5 + low % 2}}, {1, {3}}, {0}, {0}, {1, {low}}, {1, {7 - low}}, false};
  qn_val sums = qn_reduce_window_op(X(0), QN_OP_ADD, &a);
  qn_graph *most = NULL, *add = NULL;
  qn_tree_set(r, qn_arena_printf(qn_graph_arena(g), "spread%d", low), sums);
  if (qn_graph_create("most", &most) != QN_OK || qn_region_binary(QN_OP_ADD, QN_F32, &add) != QN_OK)
    return r;
  qn_val p = qn_graph_param(most, qn_type_scalar(QN_F32), NULL), q = qn_graph_param(most, qn_type_scalar(QN_F32), NULL),
         y = qn_ge(p, q);
  int64_t n = (qn_val_type(X(0))->dims[0] + 7 - b.size.d[0]) / 3 + 1;
  if (qn_graph_seal(most, &y, 1) == QN_OK)
    qn_tree_set(r, qn_arena_printf(qn_graph_arena(g), "back%d", low),
                qn_select_and_scatter(X(0), qn_slice(X(0), (const int64_t[]){0}, &n, NULL), qn_scalar(g, QN_F32, 0), &b,
                                      most, add));
  qn_graph_release(most);
  qn_graph_release(add);
}
END

/* A body of no known identity: padding is told from elements. */
CASE(differences)
qn_graph *body = NULL;
if (qn_graph_create("wider", &body) != QN_OK)
  return r;
qn_val a = qn_graph_param(body, qn_type_scalar(QN_F32), NULL), b = qn_graph_param(body, qn_type_scalar(QN_F32), NULL),
       y = qn_select(qn_gt(qn_abs(a), qn_abs(b)), a, b);
if (qn_graph_seal(body, &y, 1) == QN_OK) {
  const qn_val x = X(0), init = qn_scalar(g, QN_F32, 0);
  qn_reduce_window(&x, &init, 1, &long_window, body, &y);
  qn_tree_set(r, "widest", y);
}
qn_tree_set(r, "sums", qn_reduce_window_op(X(0), QN_OP_ADD, &long_window));
qn_graph_release(body);
END

CASE(running)
qn_val x = X(0);
for (int axis = 0; axis < 2; axis++)
  for (int back = 0; back < 2; back++) {
    char name[32];
    (void)snprintf(name, sizeof name, "%d%d", axis, back);
    qn_tree_set(r, qn_arena_printf(qn_graph_arena(g), "sum%s", name), qn_neg(qn_cumsum(qn_mul(x, x), axis, back)));
    qn_tree_set(r, qn_arena_printf(qn_graph_arena(g), "max%s", name), qn_cummax(x, axis, back));
    qn_tree_set(r, qn_arena_printf(qn_graph_arena(g), "log%s", name), qn_cumlogsumexp(x, axis, back));
  }
END

    /* A linear recurrence, which does not commute: the derivative of running products, both ways. */
    static qn_val
    derivative(qn_val x, qn_val ct, int64_t axis, bool back) {
  qn_val y = qn_cumprod(x, axis, back);
  return qn_mul(qn_cumsum(qn_mul(ct, y), axis, !back), qn_like(x, 0.5));
}
CASE(products)
qn_tree_set(r, "forth", derivative(X(0), X(1), -1, false));
qn_tree_set(r, "back", derivative(X(0), X(1), 0, true));
END

    /* Few rows that are long: in blocks, with a shorter last one; and of integers. */
    CASE(blocks) qn_tree_set(r, "sum", qn_cumsum(X(0), -1, false));
qn_tree_set(r, "back", qn_cumsum(X(0), -1, true));
qn_tree_set(r, "min", qn_cummin(X(0), -1, false));
qn_tree_set(r, "count", qn_cumsum(qn_convert(qn_gt(X(0), qn_like(X(0), 0)), QN_I32), 1, true));
qn_tree_set(r, "log", qn_cumlogsumexp(X(0), 1, false));
END

    CASE(tall) qn_tree_set(r, "sum", qn_cumsum(X(0), 0, false));
qn_tree_set(r, "max", qn_cummax(X(0), 0, true));
qn_tree_set(r, "log", qn_cumlogsumexp(X(0), 0, true));
END

#define F32(rank_, ...)                                                                                                \
  {                                                                                                                    \
    .dtype = QN_F32, .rank = (rank_), .dims = { __VA_ARGS__ }                                                          \
  }
    static const graph_case cases[] = {
        {"pools", pools, {F32(4, 2, 7, 9, 5)}, 1, -2, 2, 1e-5},
        {"choices", choices, {F32(4, 2, 7, 8, 3)}, 1, -2, 2, 1e-5},
        {"phases", phases, {F32(1, 50)}, 1, -2, 2, 1e-5},
        {"differences", differences, {F32(1, 300)}, 1, -2, 2, 1e-5},
        {"running", running, {F32(2, 19, 50)}, 1, -2, 2, 1e-4},
        {"products", products, {F32(2, 20, 33), F32(2, 20, 33)}, 2, 0.8, 1.1, 1e-4},
        {"blocks", blocks, {F32(2, 3, 5000)}, 1, -1, 2, 1e-3},
        {"tall", tall, {F32(2, 4099, 5)}, 1, -1, 2, 1e-3},
};

static void check_device(const char *which, size_t first, size_t stride) {
  graph_check_device(which, cases, sizeof cases / sizeof *cases, first, stride);
}

Test(window, cpu) { check_device("cpu", 0, 1); }
Test(window, pocl, .timeout = 280) { check_device("opencl:pocl", 1, 4); }
Test(window, lavapipe, .timeout = 280) { check_device("vulkan:llvmpipe", 2, 3); }
Test(window, swiftshader, .timeout = 280) { check_device("vulkan:swiftshader", 0, 2); }

/* The interpreter does what the machine code does. */
Test(window, interpreted) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    graph_inputs in;
    graph_results made, interpreted;
    char why[256];
    QN_ASSERT_OK(graph_inputs_make(&cases[i], &in));
    QN_EXPECT_OK(graph_run_device(d, &cases[i], &in, &(qn_compile_desc){0}, &made));
    QN_EXPECT_OK(graph_run_device(d, &cases[i], &in, &(qn_compile_desc){.interpret = true}, &interpreted));
    cr_expect(!graph_differs(&interpreted, &made, 0, why), "%s, interpreted: %s", cases[i].name, why);
    graph_results_free(&interpreted);
    graph_results_free(&made);
    graph_inputs_free(&in);
  }
  qn_device_release(d);
}
