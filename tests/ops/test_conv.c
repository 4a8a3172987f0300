/* Convolution: what the shape rule refuses and says, gradients against central differences where padding is negative and groups, strides, dilation
 * and reversal meet, the text form, the builders for models. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

/* ---- refusals ---- */

static const qn_attr_conv plain = {.input_batch = 0,
                                   .input_feature = 3,
                                   .input_spatial = {2, {1, 2}},
                                   .kernel_input_feature = 2,
                                   .kernel_output_feature = 3,
                                   .kernel_spatial = {2, {0, 1}},
                                   .output_batch = 0,
                                   .output_feature = 3,
                                   .output_spatial = {2, {1, 2}}};

typedef struct refusal {
  void (*change)(qn_attr_conv *a);
  int64_t x[4], w[4];
  const char *message;
} refusal;

static void nothing(qn_attr_conv *a) { (void)a; }
static void input_twice(qn_attr_conv *a) { a->input_feature = 0; }
static void kernel_out(qn_attr_conv *a) { a->kernel_spatial.d[1] = 4; }
static void output_short(qn_attr_conv *a) { a->output_spatial.n = 1; }
static void stride_none(qn_attr_conv *a) { a->stride = (qn_dims){2, {1, 0}}; }
static void stride_short(qn_attr_conv *a) { a->stride = (qn_dims){1, {1}}; }
static void dilation_negative(qn_attr_conv *a) { a->rhs_dilation = (qn_dims){2, {-1, 1}}; }
static void pad_huge(qn_attr_conv *a) { a->pad_low = (qn_dims){2, {INT64_MAX, 0}}; }
static void pad_away(qn_attr_conv *a) { a->pad_high = (qn_dims){2, {-9, 0}}; }
static void groups_three(qn_attr_conv *a) { a->feature_group_count = 3; }
static void groups_two(qn_attr_conv *a) { a->feature_group_count = 2; }
static void groups_negative(qn_attr_conv *a) { a->feature_group_count = -1; }
static void batches_three(qn_attr_conv *a) { a->batch_group_count = 3; }
static void both_groups(qn_attr_conv *a) { a->feature_group_count = a->batch_group_count = 2; }

static const refusal refusals[] = {
    {nothing,
     {2, 4, 5, 6},
     {3, 3, 5, 8},
     "convolution: operand 1 is f32[3,3,5,8], expected size 6 at axis 2 for 6 features of f32[2,4,5,6] in 1 groups"},
    {nothing,
     {2, 4, 5, 6},
     {3, 0, 6, 8},
     "convolution: operand 1 is f32[3,0,6,8], expected a window of at least 1 at axis 1"},
    {input_twice, {2, 4, 5, 6}, {3, 3, 6, 8}, "input_feature_dimension holds axis 0, which has a role already"},
    {kernel_out, {2, 4, 5, 6}, {3, 3, 6, 8}, "kernel_spatial_dimensions holds 4, expected an axis in 0..3"},
    {output_short, {2, 4, 5, 6}, {3, 3, 6, 8}, "output_spatial_dimensions has 1 entries, expected 2"},
    {stride_none, {2, 4, 5, 6}, {3, 3, 6, 8}, "window_strides holds 0, expected at least 1"},
    {stride_short, {2, 4, 5, 6}, {3, 3, 6, 8}, "window_strides has 1 entries"},
    {dilation_negative, {2, 4, 5, 6}, {3, 3, 6, 8}, "rhs_dilation holds -1, expected at least 1"},
    {pad_huge, {2, 4, 5, 6}, {3, 3, 6, 8}, "padding (low) holds 9223372036854775807"},
    {pad_away, {2, 4, 5, 6}, {3, 3, 6, 8}, "padding [0, -9] takes more than the 4 elements of spatial axis 0"},
    {groups_three,
     {2, 4, 5, 6},
     {3, 3, 2, 8},
     "operand 1 is f32[3,3,2,8], expected a multiple of feature_group_count 3"},
    {groups_two, {2, 4, 5, 7}, {3, 3, 3, 8}, "operand 0 is f32[2,4,5,7], expected a multiple of feature_group_count 2"},
    {groups_negative, {2, 4, 5, 6}, {3, 3, 6, 8}, "feature_group_count is -1, expected at least 1"},
    {batches_three,
     {2, 4, 5, 6},
     {3, 3, 6, 9},
     "operand 0 is f32[2,4,5,6], expected a multiple of batch_group_count 3"},
    {both_groups, {2, 4, 5, 6}, {3, 3, 3, 8}, "expected one of them to be 1"},
};

Test(conv, what_does_not_fit_is_said) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    qn_graph *g;
    qn_attr_conv a = plain;
    refusals[i].change(&a);
    QN_ASSERT_OK(qn_graph_create("f", &g));
    qn_val x = qn_graph_param(g, qn_type_make(QN_F32, 4, refusals[i].x), "x");
    qn_val w = qn_graph_param(g, qn_type_make(QN_F32, 4, refusals[i].w), "w");
    qn_val y = qn_convolution(x, w, &a);
    QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, refusals[i].message);
    qn_graph_release(g);
  }
}

Test(conv, ranks_and_types) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val y = qn_convolution(qn_graph_param(g, qn_type_of(QN_F32, 3, 2, 4, 6), "x"),
                            qn_graph_param(g, qn_type_of(QN_F32, 4, 3, 3, 6, 8), "w"), &plain);
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, "operand 1 is f32[3,3,6,8], expected rank 3 as operand 0");
  qn_graph_release(g);
  QN_ASSERT_OK(qn_graph_create("f", &g));
  y = qn_convolution(qn_graph_param(g, qn_type_of(QN_F32, 4, 2, 4, 4, 6), "x"),
                     qn_graph_param(g, qn_type_of(QN_F64, 4, 3, 3, 6, 8), "w"), &plain);
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, "convolution: operand 1 is f64");
  qn_graph_release(g);
  QN_ASSERT_OK(qn_graph_create("f", &g));
  y = qn_conv(qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 4), "x"), qn_graph_param(g, qn_type_of(QN_F32, 2, 4, 4), "w"),
              NULL);
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, "conv: operands are f32[2,4] and f32[4,4], expected");
  qn_graph_release(g);
}

/* ---- gradients ---- */

typedef struct gradient {
  qn_attr_conv a;
  int64_t x[4], w[4];
} gradient;

#define NHWC                                                                                                           \
  .input_batch = 0, .input_feature = 3, .input_spatial = {2, {1, 2}}, .kernel_input_feature = 2,                       \
  .kernel_output_feature = 3, .kernel_spatial = {2, {0, 1}}, .output_batch = 0, .output_feature = 3,                   \
  .output_spatial = {2, {1, 2}}

static const gradient gradients[] = {
    {{NHWC, .pad_low = {2, {-1, 2}}, .pad_high = {2, {0, -2}}, .stride = {2, {1, 2}}}, {2, 5, 6, 2}, {2, 3, 2, 3}},
    {{NHWC, .feature_group_count = 2, .rhs_dilation = {2, {2, 1}}, .lhs_dilation = {2, {1, 3}}},
     {2, 4, 3, 4},
     {2, 2, 2, 4}},
    {{NHWC, .feature_group_count = 3, .lhs_dilation = {2, {2, 2}}, .stride = {2, {3, 2}}, .pad_low = {2, {1, 1}}},
     {1, 4, 3, 3},
     {3, 2, 1, 6}},
    {{NHWC, .batch_group_count = 2, .reversal = {2, {1, 0}}, .pad_low = {2, {1, 0}}, .pad_high = {2, {-1, 1}}},
     {4, 3, 3, 2},
     {2, 2, 2, 4}},
    {{.input_batch = 1,
      .input_feature = 0,
      .input_spatial = {2, {3, 2}},
      .kernel_input_feature = 3,
      .kernel_output_feature = 0,
      .kernel_spatial = {2, {2, 1}},
      .output_batch = 3,
      .output_feature = 1,
      .output_spatial = {2, {0, 2}},
      .reversal = {2, {1, 1}},
      .rhs_dilation = {2, {1, 2}},
      .stride = {2, {2, 1}}},
     {2, 2, 5, 4},
     {3, 2, 3, 2}},
};

static double *draw(const qn_type *t, uint64_t seed) {
  int64_t n = qn_type_elements(t);
  double *x = malloc((size_t)n * sizeof *x + 8);
  cr_assert(x != NULL);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    x[i] = (double)(seed >> 40) * 0x1p-24 * 2 - 1;
  }
  return x;
}

static double value_of(const qn_graph *loss, const double *x, const double *w) {
  const void *in[] = {x, w};
  double y = 0;
  void *out[] = {&y};
  QN_EXPECT_OK(qn_graph_eval_ref(loss, in, out));
  return y;
}

static void check_gradient(const gradient *c, size_t index) {
  qn_graph *loss, *grad;
  qn_type xt = qn_type_make(QN_F64, 4, c->x), wt = qn_type_make(QN_F64, 4, c->w);
  QN_ASSERT_OK(qn_graph_create("loss", &loss));
  qn_val x = qn_graph_param(loss, xt, "x"), w = qn_graph_param(loss, wt, "w"), y = qn_convolution(x, w, &c->a);
  qn_val sum = qn_sum_all(qn_mul(qn_tanh(y), y));
  QN_ASSERT_OK(qn_graph_seal(loss, &sum, 1));
  int by[] = {0, 1};
  QN_ASSERT_OK(qn_grad_graph(loss, &(qn_grad_desc){.argnums = by, .argnum_count = 2, .no_value = true}, &grad));
  double *in[] = {draw(&xt, index + 1), draw(&wt, index + 77)}, *d[] = {draw(&xt, 0), draw(&wt, 0)};
  const void *args[] = {in[0], in[1]};
  void *out[] = {d[0], d[1]};
  QN_ASSERT_OK(qn_graph_eval_ref(grad, args, out));
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < qn_type_elements(k ? &wt : &xt); i++) {
      double old = in[k][i], h = 1e-6;
      in[k][i] = old + h;
      double up = value_of(loss, in[0], in[1]);
      in[k][i] = old - h;
      double down = value_of(loss, in[0], in[1]);
      in[k][i] = old;
      double want = (up - down) / (2 * h);
      cr_expect(fabs(d[k][i] - want) <= 1e-6 * (1 + fabs(want)),
                "case %zu, operand %d, element %lld: %g, differences %g", index, k, (long long)i, d[k][i], want);
    }
  for (int k = 0; k < 2; k++) {
    free(in[k]);
    free(d[k]);
  }
  qn_graph_release(grad);
  qn_graph_release(loss);
}

Test(conv, gradients_agree_with_differences) {
  for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
    check_gradient(&gradients[i], i);
}

/* ---- nothing to do ---- */

Test(conv, windows_that_do_not_fit_give_nothing) {
  qn_graph *loss, *grad;
  QN_ASSERT_OK(qn_graph_create("loss", &loss));
  qn_val x = qn_graph_param(loss, qn_type_of(QN_F64, 4, 1, 2, 2, 1), "x");
  qn_val w = qn_graph_param(loss, qn_type_of(QN_F64, 4, 3, 3, 1, 2), "w");
  qn_val y = qn_conv(x, w, NULL), sum = qn_sum_all(y);
  cr_expect(qn_type_elements(qn_val_type(y)) == 0);
  QN_ASSERT_OK(qn_graph_seal(loss, &sum, 1));
  int by[] = {0, 1};
  QN_ASSERT_OK(qn_grad_graph(loss, &(qn_grad_desc){.argnums = by, .argnum_count = 2, .no_value = true}, &grad));
  double in[2][18] = {{1, 2, 3, 4}, {5}}, dx[4] = {9, 9, 9, 9}, dw[18] = {9};
  const void *args[] = {in[0], in[1]};
  void *out[] = {dx, dw};
  QN_ASSERT_OK(qn_graph_eval_ref(grad, args, out));
  for (int i = 0; i < 4; i++)
    cr_expect(dx[i] == 0);
  for (int i = 0; i < 18; i++)
    cr_expect(dw[i] == 0);
  qn_graph_release(grad);
  qn_graph_release(loss);
}

/* ---- text ---- */

static const char generic[] =
    "func.func @main(%x: tensor<2x7x8x4xf32>, %w: tensor<3x3x2x6xf32>) -> tensor<2x4x8x6xf32> {\n"
    "  %0 = \"stablehlo.convolution\"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = "
    "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, padding = "
    "dense<[[1, 1], [2, 2]]> : tensor<2x2xi64>, rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: true, "
    "false>, "
    "window_strides = array<i64: 2, 1>}> : (tensor<2x7x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x4x8x6xf32>\n"
    "  return %0 : tensor<2x4x8x6xf32>\n}\n";
static const char raw[] =
    "func.func @main(%x: tensor<2x7x8x4xf32>, %w: tensor<3x3x2x6xf32>) -> tensor<2x4x8x6xf32> {\n"
    "  %0 = \"stablehlo.convolution\"(%x, %w) {batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<raw "
    "input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], "
    "kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1], "
    "output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]>, "
    "feature_group_count = 2 : i64, padding = dense<[[1, 1], [2, 2]]> : tensor<2x2xi64>, rhs_dilation = array<i64: 1, "
    "2>, "
    "window_reversal = array<i1: true, false>, window_strides = array<i64: 2, 1>} : (tensor<2x7x8x4xf32>, "
    "tensor<3x3x2x6xf32>) -> tensor<2x4x8x6xf32>\n"
    "  return %0 : tensor<2x4x8x6xf32>\n}\n";
static const char pretty[] =
    "%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride "
    "= "
    "[2, 1], pad = [[1, 1], [2, 2]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [true, false]} "
    "{batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, "
    "#stablehlo<precision DEFAULT>]} : (tensor<2x7x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<2x4x8x6xf32>";

Test(conv, text_goes_round) {
  qn_graph *a, *b, *c;
  qn_text t = {0};
  QN_ASSERT_OK(qn_graph_parse(generic, strlen(generic), "x.mlir", &a));
  QN_ASSERT_OK(qn_graph_parse(raw, strlen(raw), "x.mlir", &b));
  cr_expect(qn_graph_equal(a, b));
  qn_graph_print(a, &t);
  cr_expect(strstr(t.buf, pretty) != NULL, "%s", t.buf);
  QN_ASSERT_OK(qn_graph_parse(t.buf, t.len, "x.mlir", &c));
  cr_expect(qn_graph_equal(a, c));
  qn_text_free(&t);
  qn_graph_release(a);
  qn_graph_release(b);
  qn_graph_release(c);
}

#define TEXT(numbers, rest)                                                                                            \
  "func.func @main(%x: tensor<2x7x4xf32>, %w: tensor<3x4x6xf32>) -> tensor<2x5x6xf32> {\n"                             \
  "%0 = stablehlo.convolution(%x, %w) dim_numbers = " numbers rest                                                     \
  " {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x7x4xf32>, tensor<3x4x6xf32>) -> "         \
  "tensor<2x5x6xf32>\nreturn %0 : tensor<2x5x6xf32>\n}\n"

Test(conv, text_that_is_wrong) {
  static const struct {
    const char *text, *message;
  } errors[] = {
      {TEXT("[b, 0, c]x[0, i, o]->[b, 0, f]", ""), "x.mlir:2:57: expected 'b', 'f' or a number"},
      {TEXT("[b, 0, b]x[0, i, o]->[b, 0, f]", ""), "'b' twice"},
      {TEXT("[b, 0]x[0, i, o]->[b, 0, f]", ""), "'f' is missing"},
      {TEXT("[b, 1, f]x[0, i, o]->[b, 0, f]", ""), "spatial axis 0 is missing"},
      {TEXT("[b, 0, f, 99]x[0, i, o]->[b, 0, f]", ""), "spatial axis 99"},
      {TEXT("[b, 0, f]x[0, i, o]->[b, 0, f]", ", window = {stride = 3}"), "expected '[' and a list"},
      {TEXT("[b, 0, f]x[0, i, o]->[b, 0, f]", ", window = {step = [3]}"), "expected stride, pad,"},
      {TEXT("[b, 0, f]x[0, i, o]->[b, 0, f]", ", window = {pad = [[1, 2, 3]]}"), "padding, expected 1 pairs"},
      {TEXT("[b, 0, f]x[0, i, o]->[b, 0, f]", ", window = {stride = [2]}"), "result"},
  };
  static const char bare[] = TEXT("[b, 0, f]x[0, i, o]->[b, 0, f]", "");
  qn_graph *g = NULL;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    QN_EXPECT_FAIL(qn_graph_parse(errors[i].text, strlen(errors[i].text), "x.mlir", &g), QN_INVALID, errors[i].message);
  QN_ASSERT_OK(qn_graph_parse(bare, strlen(bare), "x.mlir", &g));
  qn_graph_release(g);
}

/* ---- builders for models ---- */

Test(conv, sizes_by_name_of_padding) {
  static const struct {
    qn_conv_padding padding;
    int64_t stride, taps, size, forward, transposed;
  } cases[] = {{QN_CONV_SAME, 1, 3, 7, 7, 7},   {QN_CONV_SAME, 2, 3, 7, 4, 14},  {QN_CONV_SAME, 3, 2, 7, 3, 21},
               {QN_CONV_VALID, 1, 3, 7, 5, 9},  {QN_CONV_VALID, 2, 4, 7, 2, 16}, {QN_CONV_VALID, 3, 2, 7, 2, 21},
               {QN_CONV_SAME, 2, 5, 14, 7, 28}, {QN_CONV_SAME, 2, 1, 7, 4, 14}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    qn_graph *g;
    QN_ASSERT_OK(qn_graph_create("f", &g));
    qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 3, 2, cases[i].size, 4), "x");
    qn_val w = qn_graph_param(g, qn_type_of(QN_F32, 3, cases[i].taps, 4, 5), "w");
    qn_conv_desc d = {.padding = cases[i].padding, .stride = &cases[i].stride};
    qn_val y[] = {qn_conv(x, w, &d), qn_conv_transpose(x, w, &d)};
    cr_expect(qn_val_type(y[0])->dims[1] == cases[i].forward, "case %zu: %s", i, qn_type_str(qn_val_type(y[0])));
    cr_expect(qn_val_type(y[1])->dims[1] == cases[i].transposed, "case %zu: %s", i, qn_type_str(qn_val_type(y[1])));
    QN_EXPECT_OK(qn_graph_seal(g, y, 2));
    qn_graph_release(g);
  }
}
