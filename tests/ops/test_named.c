/* Named functions and broadcasting builders by the oracle: values, corners, dtypes and refusals. */
#include "conform.h"

/* A function of one tensor on the oracle. `out` has room for what it returns. */
typedef qn_val (*function)(qn_val x);
static qn_type apply(function f, const qn_type *t, const void *in, void *out) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("named", &g));
  qn_val y = f(qn_graph_param(g, *t, "x"));
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  const void *inputs[1] = {in};
  void *outputs[1] = {out};
  qn_type result = *qn_val_type(y);
  QN_EXPECT_OK(qn_graph_eval_ref(g, inputs, outputs));
  qn_graph_release(g);
  return result;
}

static void expect_close(const char *what, const double *got, const double *want, int n) {
  for (int i = 0; i < n; i++) {
    bool same = isnan(want[i]) ? isnan(got[i]) : got[i] == want[i] || fabs(got[i] - want[i]) <= 1e-14 * fabs(want[i]);
    cr_expect(same, "%s: element %d is %.17g, expected %.17g", what, i, got[i], want[i]);
  }
}

static qn_val relu(qn_val x) { return qn_relu(x); }
static qn_val softplus(qn_val x) { return qn_softplus(x); }
Test(named, activations) {
  qn_type t = qn_type_of(QN_F64, 1, 8);
  const double x[8] = {-INFINITY, -800, -1, 0, 2, 800, INFINITY, NAN};
  const double relu_want[8] = {0, 0, 0, 0, 2, 800, INFINITY, NAN};
  const double softplus_want[8] = {0, exp(-800), log1p(exp(-1)), log(2), 2 + log1p(exp(-2)), 800, INFINITY, NAN};
  double y[8];
  (void)apply(relu, &t, x, y);
  expect_close("relu", y, relu_want, 8);
  (void)apply(softplus, &t, x, y);
  expect_close("softplus", y, softplus_want, 8);
}

static const int64_t last[1] = {-1}, first[1] = {0};
static qn_val logsumexp(qn_val x) { return qn_logsumexp(x, 1, last, false); }
static qn_val logsumexp_all(qn_val x) { return qn_logsumexp(x, 0, NULL, true); }
static qn_val softmax(qn_val x) { return qn_softmax(x, -1); }
static qn_val log_softmax(qn_val x) { return qn_log_softmax(x, 1); }
Test(named, logsumexp_and_softmax) {
  qn_type t = qn_type_of(QN_F64, 2, 4, 2);
  const double inf = INFINITY, x[8] = {1000, 1000, -inf, -inf, inf, 0, -inf, 3};
  const double want[4] = {1000 + log(2), -inf, inf, 3};
  double y[8];
  qn_type r = apply(logsumexp, &t, x, y);
  cr_expect(r.rank == 1 && r.dims[0] == 4);
  expect_close("logsumexp", y, want, 4);
  r = apply(logsumexp_all, &t, x, y);
  cr_expect(r.rank == 2 && r.dims[0] == 1 && r.dims[1] == 1);
  cr_expect(y[0] == inf);
  qn_type one = qn_type_of(QN_F64, 2, 1, 2);
  const double z[2] = {log(3), 0}, soft[2] = {0.75, 0.25}, log_soft[2] = {log(0.75), log(0.25)};
  (void)apply(softmax, &one, z, y);
  expect_close("softmax", y, soft, 2);
  (void)apply(log_softmax, &one, z, y);
  expect_close("log_softmax", y, log_soft, 2);
}

static qn_val mean_last(qn_val x) { return qn_mean(x, 1, last, true); }
static qn_val var_all(qn_val x) { return qn_var(x, 0, NULL, 1, false); }
static qn_val mean_none(qn_val x) { return qn_mean(x, 1, first, false); }
Test(named, mean_and_variance) {
  const double x[6] = {1, 2, 6, -1, 0, 4}, mean[2] = {3, 1}, var[1] = {6.8};
  double y[6];
  qn_type t = qn_type_of(QN_F64, 2, 2, 3), r = apply(mean_last, &t, x, y);
  cr_expect(r.rank == 2 && r.dims[0] == 2 && r.dims[1] == 1, "%s", qn_type_str(&r));
  expect_close("mean", y, mean, 2);
  (void)apply(var_all, &t, x, y);
  expect_close("var", y, var, 1);
  qn_type ints = qn_type_of(QN_I32, 2, 1, 3), halves = qn_type_of(QN_F16, 1, 4096);
  const int32_t n[3] = {1, 2, 4};
  float f[3];
  r = apply(mean_last, &ints, n, f);
  cr_expect(r.dtype == QN_F32 && f[0] == 7.0F / 3);
  uint16_t ones[4096], h; /* a sum of 4,096 ones in f16 would stop at 2,048 */
  for (int i = 0; i < 4096; i++)
    ones[i] = 0x3C00;
  r = apply(mean_none, &halves, ones, &h);
  cr_expect(r.dtype == QN_F16 && r.rank == 0 && h == 0x3C00, "%s %04x", qn_type_str(&r), h);
  qn_type none = qn_type_of(QN_F64, 1, 0);
  (void)apply(mean_none, &none, NULL, y);
  cr_expect(isnan(y[0]));
}

static qn_val argmax_last(qn_val x) { return qn_argmax(x, -1); }
static qn_val argmin_first(qn_val x) { return qn_argmin(x, 0); }
Test(named, arg_takes_the_first_and_nan) {
  const float x[12] = {1, 3, 3, NAN, 2, NAN, -INFINITY, -INFINITY, -INFINITY, -0.0F, 0, -0.0F};
  const int32_t want[4] = {1, 0, 0, 0}, columns[3] = {1, 2, 1};
  int32_t y[12];
  qn_type t = qn_type_of(QN_F32, 2, 4, 3), r = apply(argmax_last, &t, x, y);
  cr_expect(r.dtype == QN_I32 && r.rank == 1 && r.dims[0] == 4, "%s", qn_type_str(&r));
  for (int i = 0; i < 4; i++)
    cr_expect(y[i] == want[i], "row %d: %d", i, y[i]);
  (void)apply(argmin_first, &t, x, y);
  cr_expect(y[0] == columns[0], "%d", y[0]); /* NaN in row 1 */
  cr_expect(y[2] == 1, "%d", y[2]);
  const uint8_t u[4] = {0, 0, 0, 0};
  const int64_t min[2] = {INT64_MIN, INT64_MIN};
  const uint8_t truths[3] = {0, 1, 1};
  qn_type bytes = qn_type_of(QN_U8, 1, 4), longs = qn_type_of(QN_I64, 1, 2), bools = qn_type_of(QN_BOOL, 1, 3);
  (void)apply(argmax_last, &bytes, u, y);
  cr_expect(y[0] == 0);
  (void)apply(argmax_last, &longs, min, y);
  cr_expect(y[0] == 0);
  (void)apply(argmax_last, &bools, truths, y);
  cr_expect(y[0] == 1);
}

static qn_val one_hot(qn_val x) { return qn_one_hot(x, 300, QN_F32); }
Test(named, one_hot_leaves_strangers_out) {
  static float y[3 * 300];
  const uint8_t u[3] = {0, 44, 255};
  const int32_t n[3] = {-1, 299, 300};
  qn_type bytes = qn_type_of(QN_U8, 1, 3), ints = qn_type_of(QN_I32, 1, 3), r = apply(one_hot, &bytes, u, y);
  cr_expect(r.dtype == QN_F32 && r.rank == 2 && r.dims[0] == 3 && r.dims[1] == 300);
  float sum = 0;
  for (int i = 0; i < 900; i++)
    sum += y[i];
  cr_expect(sum == 3 && y[0] == 1 && y[344] == 1 && y[855] == 1);
  (void)apply(one_hot, &ints, n, y);
  sum = 0;
  for (int i = 0; i < 900; i++)
    sum += y[i];
  cr_expect(sum == 1 && y[599] == 1);
}

Test(named, builders_broadcast_as_numpy) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("broadcast", &g));
  qn_val column = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 1), NULL),
         row = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL);
  qn_val pred = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
  qn_val results[4] = {qn_add(column, row), qn_select(pred, column, row),
                       qn_clamp(qn_like(row, 15), row, qn_like(row, 25)), qn_lt(row, column)};
  QN_ASSERT_OK(qn_graph_seal(g, results, 4));
  const float c[2] = {1, 2}, r[3] = {10, 20, 30};
  const uint8_t yes = 1;
  float sum[6], picked[6], clamped[3];
  uint8_t less[6];
  const void *in[3] = {c, r, &yes};
  void *out[4] = {sum, picked, clamped, less};
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, out));
  for (int i = 0; i < 6; i++)
    cr_expect(sum[i] == c[i / 3] + r[i % 3] && picked[i] == c[i / 3] && less[i] == 0, "element %d", i);
  cr_expect(clamped[0] == 15 && clamped[1] == 20 && clamped[2] == 25);
  qn_graph_release(g);
}

static void expect_refusal(int which, const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val a = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL), b = qn_graph_param(g, qn_type_of(QN_F32, 1, 4), NULL);
  qn_val n = qn_graph_param(g, qn_type_of(QN_I32, 1, 3), NULL),
         none = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 0), NULL), y = a;
  if (which == 0)
    y = qn_add(a, b);
  else if (which == 1)
    y = qn_add(a, n);
  else if (which == 2)
    y = qn_exp(n);
  else if (which == 3)
    y = qn_select(n, a, a);
  else if (which == 4)
    y = qn_compare(a, a, QN_CMP_LT, QN_CMP_SIGNED);
  else if (which == 5)
    y = qn_bitcast_convert(a, QN_C64);
  else if (which == 6)
    y = qn_bitcast_convert(a, QN_F64);
  else if (which == 7)
    y = qn_reduce_precision(a, 0, 3);
  else if (which == 8)
    y = qn_clamp(b, a, a);
  else if (which == 9)
    y = qn_argmax(none, 1);
  else if (which == 10)
    y = qn_argmax(a, 1);
  else if (which == 11)
    y = qn_one_hot(a, 3, QN_F32);
  else
    y = qn_mul(a, QN_NULL_VAL);
  cr_expect(!qn_val_ok(y), "%s", part);
  cr_expect(!qn_val_ok(qn_neg(y)));
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, part);
  cr_expect(strstr(qn_error_message(), "test_named.c:") != NULL, "%s", qn_error_message());
  qn_graph_release(g);
}

Test(named, refusals_name_op_operand_and_place) {
  expect_refusal(0, "add: operand 1 is f32[4], which does not broadcast with f32[3] as operand 0");
  expect_refusal(1, "add: operand 1 is i32[3], expected f32[3] as operand 0");
  expect_refusal(2, "exponential: operand 0 is i32[3], expected a float");
  expect_refusal(3, "select: operand 0 is i32[3], expected a bool");
  expect_refusal(4, "compare: comparison type SIGNED does not fit operand 0, which is f32[3]");
  expect_refusal(5, "bitcast_convert: to c64");
  expect_refusal(6, "bitcast_convert: operand 0 is f32[3], expected a last axis of 2 to make f64");
  expect_refusal(7, "reduce_precision: 0 exponent and 3 mantissa bits");
  expect_refusal(8, "clamp: operand 0 is f32[4], expected f32[3] as operand 1");
  expect_refusal(9, "argmax: operand is f32[2,0], expected ordered elements along axis 1");
  expect_refusal(10, "argmax: axis 1 is out of range for f32[3]");
  expect_refusal(11, "one_hot: indices are f32[3]");
  expect_refusal(12, "multiply: operand 1 is the null value");
}
