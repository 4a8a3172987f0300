/* Windowed reductions and running folds for the checks of test_structural_rules.c. */
#ifndef QUERN_TEST_WINDOW_SUBJECTS_H
#define QUERN_TEST_WINDOW_SUBJECTS_H

/* Operand [5,4] or [7,4]: strides, dilations of both kinds, padding on both sides and cut edges. */
static const qn_attr_window dilated_window = {{2, {3, 2}},  {2, {2, 1}}, {2, {1, 2}}, {2, {1, 2}},
                                              {2, {1, -1}}, {2, {0, 2}}, false};
static const qn_attr_window plain_window = {{2, {2, 3}}, {2, {1, 2}}, {2, {1, 1}}, {2, {1, 1}},
                                            {2, {1, 2}}, {2, {0, 1}}, false};

static void windowed(qn_op op, const qn_attr_window *a, const qn_val *in, qn_val *out) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_region_binary(op, QN_F64, &body));
  qn_reduce_window(in, in + 1, 1, a, body, out);
  qn_graph_release(body);
}
static void window_add(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  windowed(QN_OP_ADD, &dilated_window, in, out);
}
static void window_multiply(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  windowed(QN_OP_MULTIPLY, &dilated_window, in, out);
}
static void window_maximum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  windowed(QN_OP_MAXIMUM, &plain_window, in, out);
}
static void window_minimum(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  windowed(QN_OP_MINIMUM, &dilated_window, in, out);
}

static qn_graph *soft_maximum(void) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_graph_create("soft", &body));
  qn_val a = qn_graph_param(body, qn_type_scalar(QN_F64), NULL), b = qn_graph_param(body, qn_type_scalar(QN_F64), NULL);
  qn_val y = qn_log(qn_add(qn_exp(a), qn_exp(b)));
  QN_ASSERT_OK(qn_graph_seal(body, &y, 1));
  return body;
}
static void window_soft(qn_graph *g, const qn_val *in, qn_val *out) {
  qn_val x[] = {in[0], qn_scalar(g, QN_F64, -1.0)};
  qn_graph *body = soft_maximum();
  qn_reduce_window(x, x + 1, 1, &dilated_window, body, out);
  qn_graph_release(body);
}
static void window_two(qn_graph *g, const qn_val *in, qn_val *out) {
  qn_graph *body = NULL;
  (void)g;
  QN_ASSERT_OK(qn_graph_create("two", &body));
  qn_val p[4];
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(body, qn_type_scalar(QN_F64), NULL);
  qn_val r[2] = {qn_add(p[0], p[2]), qn_max(p[1], p[3])};
  QN_ASSERT_OK(qn_graph_seal(body, r, 2));
  qn_reduce_window(in, in + 2, 2, &dilated_window, body, out);
  qn_graph_release(body);
}
static void window_pools(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_max_pool(in[0], &plain_window);
  out[1] = qn_avg_pool(in[0], &plain_window, true);
  out[2] = qn_avg_pool(in[0], &plain_window, false);
}
static void window_choice(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  qn_graph *select = NULL, *add = NULL;
  QN_ASSERT_OK(qn_graph_create("select", &select));
  qn_val a = qn_graph_param(select, qn_type_scalar(QN_F64), NULL),
         b = qn_graph_param(select, qn_type_scalar(QN_F64), NULL);
  qn_val y = qn_gt(a, b);
  QN_ASSERT_OK(qn_graph_seal(select, &y, 1));
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, QN_F64, &add));
  out[0] = qn_select_and_scatter(in[1], in[0], in[2], &plain_window, select, add);
  qn_graph_release(select);
  qn_graph_release(add);
}

static void running_sums(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_cumsum(in[0], 0, false);
  out[1] = qn_cumsum(in[0], -1, true);
}
static void running_products(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_cumprod(in[0], 1, false);
  out[1] = qn_cumprod(in[0], 0, true);
}
static void running_extremes(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_cummax(in[0], 0, false);
  out[1] = qn_cummin(in[0], 1, true);
}
static void running_soft(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  out[0] = qn_cumlogsumexp(in[0], 0, false);
  out[1] = qn_cumlogsumexp(in[0], 1, true);
}
/* From an initial value that is no identity. */
static void running_from(qn_graph *g, const qn_val *in, qn_val *out) {
  (void)g;
  const qn_attr_window a = {{2, {5, 1}}, {2, {1, 1}}, {2, {1, 1}}, {2, {1, 1}}, {2, {4, 0}}, {2, {0, 0}}, false};
  windowed(QN_OP_MULTIPLY, &a, in, out);
}

static size_t window_subjects(subject *s, size_t n) {
  qn_type f = qn_type_of(QN_F64, 2, 5, 4), fs = qn_type_scalar(QN_F64);
  s[n++] = (subject){"window_add", 2, 1, {f, fs}, window_add, 0};
  s[n++] = (subject){"window_multiply", 2, 1, {f, fs}, window_multiply, 0};
  s[n++] = (subject){"window_maximum", 2, 1, {f, fs}, window_maximum, 0};
  s[n++] = (subject){"window_minimum", 2, 1, {f, fs}, window_minimum, 0};
  s[n++] = (subject){"window_soft", 1, 1, {f}, window_soft, 0};
  s[n++] = (subject){"window_two", 4, 2, {f, f, fs, fs}, window_two, 0};
  s[n++] = (subject){"window_pools", 1, 3, {f}, window_pools, 0};
  s[n++] = (subject){"choice", 3, 1, {qn_type_of(QN_F64, 2, 5, 3), f, fs}, window_choice, 0};
  s[n++] = (subject){"running_sums", 1, 2, {f}, running_sums, 0};
  s[n++] = (subject){"running_products", 1, 2, {f}, running_products, 0};
  s[n++] = (subject){"running_extremes", 1, 2, {f}, running_extremes, 0};
  s[n++] = (subject){"running_soft", 1, 2, {f}, running_soft, 0};
  s[n++] = (subject){"running_from", 2, 1, {f, fs}, running_from, 0};
  return n;
}

#endif
