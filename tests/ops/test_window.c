/* Windows, choices and running folds: what their shape rules refuse, ties and padding in numbers, text, and blocks of running folds against whole ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "golden.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

#define W(size, stride, base, window, low, high)                                                                       \
  ((qn_attr_window){{1, {size}}, {1, {stride}}, {1, {base}}, {1, {window}}, {1, {low}}, {1, {high}}, false})

static qn_status seal(qn_graph **g, qn_val y) {
  qn_status st = qn_graph_seal(*g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(*g);
    *g = NULL;
  }
  return st;
}

/* ---- shape rules ---- */
static qn_status one_window(const qn_attr_window *a, int rank, qn_dtype init, qn_op op) {
  qn_graph *g = NULL, *body = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val x = qn_graph_param(g, qn_type_make(QN_F32, rank, (const int64_t[]){6, 5}), NULL),
         start = qn_scalar(g, init, 0), y;
  QN_ASSERT_OK(qn_region_binary(op, QN_F32, &body));
  qn_reduce_window(&x, &start, 1, a, body, &y);
  qn_graph_release(body);
  qn_status st = seal(&g, y);
  qn_graph_release(g);
  return st;
}

Test(window, shape_rule) {
  const qn_attr_window good = W(3, 2, 1, 1, 1, 0);
  QN_EXPECT_OK(one_window(&good, 1, QN_F32, QN_OP_ADD));
  QN_EXPECT_OK(one_window(&W(9, 1, 1, 1, 0, 0), 1, QN_F32, QN_OP_ADD)); /* fits nowhere */
  QN_EXPECT_OK(one_window(&W(1, 1, 1, 1, -4, -4), 1, QN_F32, QN_OP_ADD));
  QN_EXPECT_FAIL(one_window(&good, 2, QN_F32, QN_OP_ADD), QN_INVALID,
                 "reduce_window: window_dimensions has 1 entries, expected 2");
  QN_EXPECT_FAIL(one_window(&W(0, 1, 1, 1, 0, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID,
                 "reduce_window: window_dimensions of axis 0 is 0, expected at least 1");
  QN_EXPECT_FAIL(one_window(&W(2, 0, 1, 1, 0, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID, "window_strides of axis 0 is 0");
  QN_EXPECT_FAIL(one_window(&W(2, 1, -1, 1, 0, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID, "base_dilations of axis 0 is -1");
  QN_EXPECT_FAIL(one_window(&W(2, 1, 1, -2, 0, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID,
                 "window_dilations of axis 0 is -2");
  QN_EXPECT_FAIL(one_window(&W(INT64_C(1) << 40, 1, 1, 1, 0, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID,
                 "too much for a window");
  QN_EXPECT_FAIL(one_window(&W(2, 1, 1, 1, INT64_MAX, 0), 1, QN_F32, QN_OP_ADD), QN_INVALID, "too much for a window");
  QN_EXPECT_FAIL(one_window(&good, 1, QN_I32, QN_OP_ADD), QN_INVALID, "operand 1 is i32[], expected f32");
}

static qn_status one_choice(qn_type source, qn_dtype compared, qn_op scatter) {
  qn_graph *g = NULL, *select = NULL, *body = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  QN_ASSERT_OK(qn_graph_create("select", &select));
  qn_val a = qn_graph_param(select, qn_type_scalar(compared), NULL),
         b = qn_graph_param(select, qn_type_scalar(compared), NULL), y = qn_ge(a, b),
         x = qn_graph_param(g, qn_type_of(QN_F32, 1, 6), NULL), s = qn_graph_param(g, source, NULL);
  QN_ASSERT_OK(qn_graph_seal(select, &y, 1));
  QN_ASSERT_OK(qn_region_binary(scatter, QN_F32, &body));
  y = qn_select_and_scatter(x, s, qn_scalar(g, source.dtype, 0), &W(2, 2, 1, 1, 0, 0), select, body);
  qn_graph_release(select);
  qn_graph_release(body);
  qn_status st = seal(&g, y);
  qn_graph_release(g);
  return st;
}

Test(window, shape_rule_of_choices) {
  QN_EXPECT_OK(one_choice(qn_type_of(QN_F32, 1, 3), QN_F32, QN_OP_ADD));
  QN_EXPECT_FAIL(one_choice(qn_type_of(QN_F32, 1, 4), QN_F32, QN_OP_ADD), QN_INVALID,
                 "select_and_scatter: operand 1 is f32[4], expected f32[3], an element for each window");
  QN_EXPECT_FAIL(one_choice(qn_type_of(QN_F32, 1, 3), QN_I32, QN_OP_ADD), QN_INVALID,
                 "parameter 0 of region 0 is i32[], expected f32[]");
  QN_EXPECT_FAIL(one_choice(qn_type_of(QN_I32, 1, 3), QN_F32, QN_OP_ADD), QN_INVALID,
                 "parameter 0 of region 1 is f32[], expected i32[]");
}

/* ---- numbers ---- */
typedef qn_val (*build_fn)(qn_val x);

static void values(build_fn build, int n, const float *x, float *y) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  QN_ASSERT_OK(seal(&g, build(qn_graph_param(g, qn_type_of(QN_F32, 1, n), NULL))));
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x}, (void *[]){y}));
  qn_graph_release(g);
}

/* The gradient of the sum of build's elements, weighed 1, 10, 100 ... */
static void gradient(build_fn build, int n, const float *x, float *out) {
  qn_graph *f = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val y = build(qn_graph_param(f, qn_type_of(QN_F32, 1, n), NULL));
  qn_type t = *qn_val_type(y);
  qn_val weights = qn_exp(qn_mul(qn_iota(f, t, 0), qn_scalar(f, QN_F32, log(10))));
  QN_ASSERT_OK(seal(&f, qn_sum_all(qn_mul(y, weights))));
  QN_ASSERT_OK(qn_grad_graph(f, &(qn_grad_desc){.no_value = true}, &g));
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x}, (void *[]){out}));
  qn_graph_release(f);
  qn_graph_release(g);
}

static void expect_all(const char *what, int n, const float *got, const float *want) {
  for (int i = 0; i < n; ++i)
    cr_expect(fabsf(got[i] - want[i]) <= 1e-4f * fabsf(want[i]), "%s: element %d is %g, expected %g", what, i,
              (double)got[i], (double)want[i]);
}

static qn_val max_of_pairs(qn_val x) { return qn_max_pool(x, &W(2, 1, 1, 1, 1, 0)); }
static qn_val min_with_holes(qn_val x) { return qn_reduce_window_op(x, QN_OP_MINIMUM, &W(2, 2, 1, 2, 0, 1)); }
static qn_val mean_at_edges(qn_val x) { return qn_avg_pool(x, &W(3, 1, 1, 1, 1, 1), false); }
static qn_val beyond(qn_val x) { return qn_reduce_window_op(x, QN_OP_ADD, &W(2, 1, 1, 1, 3, -2)); }
static qn_val running_maximum(qn_val x) { return qn_cummax(x, 0, false); }
static qn_val running_minimum_back(qn_val x) { return qn_cummin(x, 0, true); }
static qn_val running_product(qn_val x) { return qn_cumprod(x, 0, false); }

Test(window, ties_and_padding) {
  float y[8];
  const float ties[] = {2, 2, 1, 2};
  gradient(max_of_pairs, 4, ties, y); /* windows -2, 22, 21, 12 */
  expect_all("first winners", 4, y, (const float[]){11, 100, 0, 1000});
  gradient(min_with_holes, 4, (const float[]){1, 5, 1, 4}, y); /* windows 1.1, 1-padding */
  expect_all("first winners between holes", 4, y, (const float[]){1, 0, 10, 0});
  gradient(running_maximum, 4, ties, y);
  expect_all("running maximum", 4, y, (const float[]){1111, 0, 0, 0});
  gradient(running_minimum_back, 4, (const float[]){3, 1, 1, 2}, y);
  expect_all("running minimum from the end", 4, y, (const float[]){0, 11, 100, 1000});
  gradient(running_product, 4, (const float[]){2, 0, 3, 5}, y); /* exact with a zero */
  expect_all("running product", 4, y, (const float[]){1, 2 * 10 + 6 * 100 + 30 * 1000, 0, 0});
  values(mean_at_edges, 4, (const float[]){1, 3, 5, 9}, y);
  expect_all("mean of what is there", 4, y, (const float[]){2, 3, 17.0f / 3, 7});
  values(beyond, 4, (const float[]){1, 2, 4, 8}, y);
  expect_all("windows of padding alone", 4, y, (const float[]){0, 0, 1, 3});
}

/* Linear in the length: a window over all of it is walked once. */
static qn_val all_before(qn_val x) { return qn_cumsum(x, 0, false); }
Test(window, running_sums_are_one_walk) {
  enum { N = 1 << 20 };
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; ++i)
    x[i] = 1;
  values(all_before, N, x, y);
  cr_expect_float_eq(y[N - 1], (float)N, 0);
  gradient(running_maximum, 8, x, y);
  expect_all("ones", 1, y, (const float[]){11111111});
  free(x);
  free(y);
}

/* ---- quern.cumulative ---- */
static qn_graph *affine_rows(int64_t block, bool reverse) {
  qn_graph *g = NULL, *body = NULL;
  QN_ASSERT_OK(qn_graph_create("affine", &body));
  qn_val p[4];
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(body, qn_type_scalar(QN_F32), NULL);
  int first = reverse ? 2 : 0, second = 2 - first;
  qn_val r[] = {qn_mul(p[0], p[2]), qn_add(qn_mul(p[second], p[first + 1]), p[second + 1])};
  QN_ASSERT_OK(qn_graph_seal(body, r, 2));
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_type t = qn_type_of(QN_F32, 3, 2, 11, 3);
  qn_val in[4] = {qn_graph_param(g, t, NULL), qn_graph_param(g, t, NULL)};
  qn_attr_cumulative a = {.dimension = 1, .reverse = reverse}, totals = a, rest = a;
  qn_val y;
  if (block == 0) {
    y = qn_graph_add(g, QN_OP_CUMULATIVE, in, 2, &a, &body, 1, QN_HERE);
  } else {
    totals.block = rest.block = block;
    totals.totals = true;
    y = qn_graph_add(g, QN_OP_CUMULATIVE, in, 2, &totals, &body, 1, QN_HERE);
    in[2] = y;
    in[3] = qn_val_result(y, 1);
    y = qn_graph_add(g, QN_OP_CUMULATIVE, in + 2, 2, &a, &body, 1, QN_HERE);
    in[2] = y;
    in[3] = qn_val_result(y, 1);
    y = qn_graph_add(g, QN_OP_CUMULATIVE, in, 4, &rest, &body, 1, QN_HERE);
  }
  qn_graph_release(body);
  QN_ASSERT_OK(qn_graph_seal(g, (const qn_val[]){y, qn_val_result(y, 1)}, 2));
  return g;
}

Test(window, blocks_are_the_whole) {
  float a[66], v[66], want[2][66], got[2][66];
  for (int i = 0; i < 66; ++i) {
    a[i] = (float)(i % 7 - 3) / 4;
    v[i] = (float)(i % 5);
  }
  for (int reverse = 0; reverse < 2; ++reverse) {
    qn_graph *whole = affine_rows(0, reverse), *cut = affine_rows(4, reverse);
    QN_ASSERT_OK(qn_graph_eval_ref(whole, (const void *[]){a, v}, (void *[]){want[0], want[1]}));
    QN_ASSERT_OK(qn_graph_eval_ref(cut, (const void *[]){a, v}, (void *[]){got[0], got[1]}));
    for (int k = 0; k < 2; ++k)
      for (int i = 0; i < 66; ++i)
        cr_expect(fabsf(want[k][i] - got[k][i]) < 1e-5f, "reverse %d, result %d, element %d: %g, expected %g", reverse,
                  k, i, (double)got[k][i], (double)want[k][i]);
    int last = reverse ? 0 : 10;
    float z = 0; /* of the first row */
    for (int k = 0; k < 11; ++k) {
      int at = 3 * (reverse ? 10 - k : k);
      z = a[at] * z + v[at];
    }
    cr_expect_float_eq(want[1][3 * last], z, 1e-5f);
    qn_graph_release(whole);
    qn_graph_release(cut);
  }
}

static qn_status cumulative(const qn_attr_cumulative *a, int operands) {
  qn_graph *g = NULL, *body = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, QN_F32, &body));
  qn_val in[2] = {qn_graph_param(g, qn_type_of(QN_F32, 1, 10), NULL),
                  qn_graph_param(g, qn_type_of(QN_F32, 1, 4), NULL)};
  qn_val y = qn_graph_add(g, QN_OP_CUMULATIVE, in, (size_t)operands, a, &body, 1, QN_HERE);
  qn_graph_release(body);
  qn_status st = seal(&g, y);
  qn_graph_release(g);
  return st;
}

Test(window, shape_rule_of_running_folds) {
  QN_EXPECT_OK(cumulative(&(qn_attr_cumulative){.block = 3}, 2));
  QN_EXPECT_FAIL(cumulative(&(qn_attr_cumulative){.block = 3}, 1), QN_INVALID, "got 1 operands, expected 2");
  QN_EXPECT_FAIL(cumulative(&(qn_attr_cumulative){.block = 4}, 2), QN_INVALID,
                 "operand 1 is f32[4], expected f32[3], an element for each block");
  QN_EXPECT_FAIL(cumulative(&(qn_attr_cumulative){.dimension = 1}, 1), QN_INVALID, "dimension is 1, expected 0..0");
  QN_EXPECT_FAIL(cumulative(&(qn_attr_cumulative){.totals = true}, 1), QN_INVALID, "block is 0, expected at least 1");
}

/* ---- text ---- */
static void expect_round_trip(const char *what, const qn_graph *g) {
  qn_text first = {0}, second = {0};
  qn_graph *back = NULL;
  qn_graph_print(g, &first);
  QN_ASSERT_OK(qn_graph_parse(first.buf, strlen(first.buf), what, &back));
  qn_graph_print(back, &second);
  cr_expect_str_eq(second.buf, first.buf);
  cr_expect(qn_graph_equal(g, back), "%s", what);
  qn_graph_release(back);
  qn_text_free(&first);
  qn_text_free(&second);
}

Test(window, text_comes_back) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val in[] = {qn_graph_param(g, qn_type_of(QN_F32, 2, 7, 3), NULL), qn_scalar(g, QN_F32, -1)};
  const qn_attr_window a = W(3, 2, 1, -2, 1, 5);
  qn_val y = qn_graph_add(g, QN_OP_WINDOWS, in, 2, &a, NULL, 0, QN_HERE);
  QN_ASSERT_OK(seal(&g, qn_cumlogsumexp(y, 0, true)));
  expect_round_trip("windows", g);
  qn_graph_release(g);
  g = affine_rows(4, true);
  expect_round_trip("cumulative", g);
  qn_graph_release(g);
}

/* What may be left out is one, or no padding. */
Test(window, text_with_defaults) {
  static const char text[] =
      "func.func @main(%a: tensor<6xf32>, %s: tensor<5xf32>) -> (tensor<5xf32>, tensor<6xf32>) {\n"
      "  %i = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "  %0 = \"stablehlo.reduce_window\"(%a, %i) ({\n"
      "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
      "    %z = stablehlo.add %x, %y : tensor<f32>\n"
      "    stablehlo.return %z : tensor<f32>\n"
      "  }) {window_dimensions = array<i64: 2>} : (tensor<6xf32>, tensor<f32>) -> tensor<5xf32>\n"
      "  %1 = \"stablehlo.select_and_scatter\"(%a, %s, %i) <{window_dimensions = array<i64: 2>}> ({\n"
      "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
      "    %z = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
      "    stablehlo.return %z : tensor<i1>\n"
      "  }, {\n"
      "  ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
      "    %z = stablehlo.add %x, %y : tensor<f32>\n"
      "    stablehlo.return %z : tensor<f32>\n"
      "  }) : (tensor<6xf32>, tensor<5xf32>, tensor<f32>) -> tensor<6xf32>\n"
      "  return %0, %1 : tensor<5xf32>, tensor<6xf32>\n"
      "}\n";
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_parse(text, sizeof text - 1, "defaults", &g));
  expect_round_trip("defaults", g);
  const float a[] = {1, 3, 2, 2, 5, 4}, s[] = {1, 10, 100, 1000, 10000};
  float sums[5], chosen[6];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){a, s}, (void *[]){sums, chosen}));
  expect_all("sums", 5, sums, (const float[]){4, 5, 4, 7, 9});
  expect_all("chosen", 6, chosen, (const float[]){0, 11, 100, 0, 11000, 0});
  qn_graph_release(g);
}

/* ---- quern.windows without what lies between elements ---- */
static void window_sums(qn_attr_window a, bool phased, int64_t count, const float *x, int64_t *out_n, float *out) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  const int64_t dims[] = {7, count};
  a.phased = phased;
  qn_val in[] = {qn_graph_param(g, qn_type_of(QN_F32, 1, 7), NULL), qn_scalar(g, QN_F32, 0)};
  if (count > 1)
    in[0] = qn_broadcast_in_dim(in[0], 2, dims, (const int64_t[]){0});
  qn_val y = qn_graph_add(g, QN_OP_WINDOWS, in, 2, &a, NULL, 0, QN_HERE);
  y = count > 1 ? qn_sum(y, 1, (const int64_t[]){1}, false) : y;
  *out_n = qn_val_type(y)->dims[0];
  QN_ASSERT_OK(seal(&g, y));
  cr_assert(*out_n <= 64);
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x}, (void *[]){out}));
  qn_graph_release(g);
}

Test(window, phases) {
  const float x[] = {1, 2, 4, 8, 16, 32, 64};
  float whole[64], phased[64];
  int64_t n = 0, m = 0;
  for (int64_t size = 2; size < 8; ++size)
    for (int64_t base = 1; base < 4; ++base)
      for (int64_t stride = 1; stride < 4; ++stride)
        for (int64_t low = -3; low < 5; ++low)
          for (int64_t toward = -1; toward < 2; toward += 2) {
            const qn_attr_window a = W(size, stride, base, toward, low, 9);
            window_sums(a, false, size, x, &n, whole);
            window_sums(a, true, (size + base - 1) / base, x, &m, phased);
            cr_assert(n == m && memcmp(whole, phased, (size_t)n * sizeof *whole) == 0,
                      "size %d, base dilation %d, stride %d, padding %d, toward %d", (int)size, (int)base, (int)stride,
                      (int)low, (int)toward);
          }
}
