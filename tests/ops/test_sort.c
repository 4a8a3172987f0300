/* Sorts on the reference: order, ties, NaN, comparators of any kind, what is refused, and the spellings that text may have. */
#include <math.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"

enum { N = 6 };

static qn_graph *sorted(const qn_type *t, bool descending) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val x = qn_graph_param(g, *t, NULL), out[2];
  qn_sort_keys(&x, 1, 1, -1, descending, out);
  out[1] = qn_argsort(x, -1, descending);
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  return g;
}

static void check_order(const float *x, bool descending, const int32_t *want) {
  const qn_type t = qn_type_of(QN_F32, 1, N);
  qn_graph *g = sorted(&t, descending);
  float values[N];
  int32_t places[N];
  const void *in[] = {x};
  void *out[] = {values, places};
  QN_ASSERT_OK(qn_graph_eval_ref(g, in, out));
  for (int i = 0; i < N; i++) {
    cr_expect(places[i] == want[i], "place %d is %d, expected %d", i, places[i], want[i]);
    cr_expect(memcmp(&values[i], &x[want[i]], sizeof values[i]) == 0, "element %d is %g", i, (double)values[i]);
  }
  qn_graph_release(g);
}

Test(sort, equal_elements_keep_their_order) {
  const float x[N] = {0.0F, -0.0F, NAN, -1.0F, -NAN, 0.0F};
  check_order(x, false, (const int32_t[N]){3, 0, 1, 5, 2, 4});
  check_order(x, true, (const int32_t[N]){2, 4, 0, 1, 5, 3});
}

/* a <= b: among equals the later one comes first. */
Test(sort, comparators_that_are_not_strict) {
  qn_graph *less = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("less", &less));
  qn_val p[4];
  for (int i = 0; i < 4; i++)
    p[i] = qn_graph_param(less, qn_type_scalar(QN_I32), NULL);
  qn_val y = qn_le(p[0], p[1]);
  QN_ASSERT_OK(qn_graph_seal(less, &y, 1));
  QN_ASSERT_OK(qn_graph_create("f", &g));
  const qn_type t = qn_type_of(QN_I32, 1, N);
  qn_val in[2] = {qn_graph_param(g, t, NULL), qn_iota(g, t, 0)}, out[2];
  qn_sort(in, 2, 0, less, out);
  QN_ASSERT_OK(qn_graph_seal(g, &out[1], 1));
  qn_graph_release(less);
  const int32_t x[N] = {1, 0, 1, 0, 1, 2}, want[N] = {3, 1, 4, 2, 0, 5};
  int32_t places[N];
  const void *inputs[] = {x};
  void *outputs[] = {places};
  QN_ASSERT_OK(qn_graph_eval_ref(g, inputs, outputs));
  cr_expect(memcmp(places, want, sizeof want) == 0);
  qn_graph_release(g);
}

/* ---- refusals ---- */
static qn_status sort_with(const qn_type *x, const qn_type *y, int params, qn_dtype result, int64_t axis) {
  qn_graph *less = NULL, *g = NULL;
  QN_ASSERT_OK(qn_graph_create("less", &less));
  for (int i = 0; i < params; i++)
    (void)qn_graph_param(less, qn_type_scalar(i < 2 ? x->dtype : y->dtype), NULL);
  qn_val truth = qn_scalar(less, result, 1);
  QN_ASSERT_OK(qn_graph_seal(less, &truth, 1));
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val in[2] = {qn_graph_param(g, *x, NULL), qn_graph_param(g, *y, NULL)}, out[2];
  qn_sort(in, 2, axis, less, out);
  qn_status st = qn_graph_seal(g, out, qn_val_ok(out[1]) ? 2 : 1);
  qn_graph_release(less);
  qn_graph_release(g);
  return st;
}

Test(sort, refusals_say_why) {
  const qn_type a = qn_type_of(QN_F32, 1, 4), b = qn_type_of(QN_I32, 1, 4), c = qn_type_of(QN_I32, 1, 5);
  QN_EXPECT_OK(sort_with(&a, &b, 4, QN_BOOL, 0));
  cr_expect(sort_with(&a, &b, 4, QN_BOOL, 1) == QN_INVALID && strstr(qn_error_message(), "dimension is 1"));
  cr_expect(sort_with(&a, &c, 4, QN_BOOL, 0) == QN_INVALID &&
            strstr(qn_error_message(), "operand 1 is i32[5], expected the shape of operand 0, f32[4]"));
  cr_expect(sort_with(&a, &b, 4, QN_F32, 0) == QN_INVALID && strstr(qn_error_message(), "expected one bool[]"));
  cr_expect(sort_with(&a, &b, 6, QN_BOOL, 0) == QN_INVALID &&
            strstr(qn_error_message(), "comparator has 6 parameters"));
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val x = qn_graph_param(g, a, NULL), values, places;
  qn_top_k(x, 5, &values, &places);
  cr_expect(qn_graph_seal(g, &values, 1) == QN_INVALID && strstr(qn_error_message(), "k is 5, expected 0..4"), "%s",
            qn_error_message());
  qn_graph_release(g);
}

/* ---- text ---- */
static qn_status parse(const char *body, qn_graph **out_graph) {
  qn_text t = {0};
  qn_text_add(&t, "func.func @main(%%x: tensor<4x6xf32>, %%s: tensor<f32>, %%n: tensor<2xi32>) -> %s }", body);
  qn_status st = qn_graph_parse(t.buf, t.len, "x.mlir", out_graph);
  qn_text_free(&t);
  return st;
}

static void same(const char *written, const char *plain) {
  qn_graph *a = NULL, *b = NULL, *better = NULL;
  qn_status st = parse(written, &a);
  cr_assert(st == QN_OK, "%s\n%s", qn_error_message(), written);
  QN_ASSERT_OK(parse(plain, &b));
  QN_ASSERT_OK(qn_graph_optimize(a, &(qn_optimize_desc){.no_fold = true, .no_simplify = true}, &better));
  cr_expect(qn_graph_equal(better, b), "%s", written);
  qn_graph_release(better);
  qn_graph_release(a);
  qn_graph_release(b);
}

static void refused(const char *written, const char *why) {
  qn_graph *g = NULL;
  cr_expect(parse(written, &g) != QN_OK && strstr(qn_error_message(), why), "%s\n%s", qn_error_message(), written);
  qn_graph_release(g);
}

#define LIST(name, values, type) "%" name " = stablehlo.constant dense<" values "> : tensor<" type "> "

Test(sort, dynamic_forms_become_static_ones) {
  same("tensor<2x12xf32> { " LIST("c", "[2, 12]",
                                  "2xi32") "%r = stablehlo.dynamic_reshape %x, %c : (tensor<4x6xf32>, "
                                           "tensor<2xi32>) -> tensor<2x12xf32> return %r : tensor<2x12xf32>",
       "tensor<2x12xf32> { %r = stablehlo.reshape %x : (tensor<4x6xf32>) -> tensor<2x12xf32> return %r : "
       "tensor<2x12xf32>");
  same("tensor<3x4x6xf32> { " LIST("c", "3", "1xi64") LIST(
           "d", "[4, 6]",
           "2xi64") "%b = stablehlo.concatenate %c, %d, dim = 0 : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64> "
                    "%r = \"stablehlo.dynamic_broadcast_in_dim\"(%x, %b) <{broadcast_dimensions = array<i64: 1, 2>, "
                    "known_nonexpanding_dimensions = array<i64: 0, 1>}> : (tensor<4x6xf32>, tensor<3xi64>) -> "
                    "tensor<3x4x6xf32> "
                    "return %r : tensor<3x4x6xf32>",
       "tensor<3x4x6xf32> { %r = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x6xf32>) -> tensor<3x4x6xf32> "
       "return %r : tensor<3x4x6xf32>");
  same("tensor<5xi32> { " LIST("c", "5", "1xi64") "%r = stablehlo.dynamic_iota %c, dim = 0 : (tensor<1xi64>) -> "
                                                  "tensor<5xi32> return %r : tensor<5xi32>",
       "tensor<5xi32> { %r = stablehlo.iota dim = 0 : tensor<5xi32> return %r : tensor<5xi32>");
  same("tensor<6x8xf32> { " LIST("l", "[1, -1]", "2xi64") LIST("h", "[1, 3]", "2xi64")
           LIST("i", "0", "2xi64") "%r = stablehlo.dynamic_pad %x, %s, %l, %h, %i : (tensor<4x6xf32>, tensor<f32>, "
                                   "tensor<2xi64>, tensor<2xi64>, "
                                   "tensor<2xi64>) -> tensor<6x8xf32> return %r : tensor<6x8xf32>",
       "tensor<6x8xf32> { %r = stablehlo.pad %x, %s, low = [1, -1], high = [1, 3], interior = [0, 0] : "
       "(tensor<4x6xf32>, tensor<f32>) -> tensor<6x8xf32> return %r : tensor<6x8xf32>");
  same(
      "tensor<2x3xf32> { " LIST("l", "[1, 0]", "2xi64") LIST("h", "[3, 6]", "2xi64") LIST(
          "i", "[1, 2]",
          "2xi64") "%r = stablehlo.real_dynamic_slice %x, %l, %h, %i : (tensor<4x6xf32>, tensor<2xi64>, tensor<2xi64>, "
                   "tensor<2xi64>) -> tensor<2x3xf32> return %r : tensor<2x3xf32>",
      "tensor<2x3xf32> { %r = stablehlo.slice %x [1:3, 0:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32> return %r : "
      "tensor<2x3xf32>");
  same("tensor<2x6xf32> { " LIST(
           "c", "[1, 6]",
           "2xi32") "%r = \"stablehlo.dynamic_gather\"(%x, %n, %c) <{dimension_numbers = #stablehlo.gather<offset_dims "
                    "= [1], "
                    "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = "
                    "false}> : "
                    "(tensor<4x6xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x6xf32> return %r : tensor<2x6xf32>",
       "tensor<2x6xf32> { %r = \"stablehlo.gather\"(%x, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
       "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, "
       "slice_sizes = array<i64: 1, 6>}> : (tensor<4x6xf32>, tensor<2xi32>) -> tensor<2x6xf32> return %r : "
       "tensor<2x6xf32>");
  same("tensor<i32> { %r = stablehlo.get_dimension_size %x, dim = 1 : (tensor<4x6xf32>) -> tensor<i32> return %r : "
       "tensor<i32>",
       "tensor<i32> { %r = stablehlo.constant dense<6> : tensor<i32> return %r : tensor<i32>");
}

Test(sort, dynamic_forms_that_are_refused) {
  refused("tensor<2x12xf32> { %r = stablehlo.dynamic_reshape %x, %n : (tensor<4x6xf32>, tensor<2xi32>) -> "
          "tensor<2x12xf32> return %r : tensor<2x12xf32>",
          "operand 1 is not constant");
  refused(
      "tensor<2x12xf32> { " LIST(
          "c", "[3, 8]", "2xi32") "%r = stablehlo.dynamic_reshape %x, %c : "
                                  "(tensor<4x6xf32>, tensor<2xi32>) -> tensor<2x12xf32> return %r : tensor<2x12xf32>",
      "the shape operand differs from the result, f32[2,12]");
  refused("tensor<i32> { %r = stablehlo.get_dimension_size %x, dim = 2 : (tensor<4x6xf32>) -> tensor<i32> return %r : "
          "tensor<i32>",
          "one of its dimensions");
  refused("tensor<5xi32> { %r = stablehlo.dynamic_iota dim = 0 : () -> tensor<5xi32> return %r : tensor<5xi32>",
          "got 0 operands, expected 1");
}

Test(sort, map_is_its_body) {
  same("tensor<4x6xf32> { %r = \"stablehlo.map\"(%x) <{dimensions = array<i64: 0, 1>}> ({ ^bb0(%a: tensor<f32>): "
       "%m = stablehlo.multiply %a, %s : tensor<f32> stablehlo.return %m : tensor<f32> }) : (tensor<4x6xf32>) -> "
       "tensor<4x6xf32> return %r : tensor<4x6xf32>",
       "tensor<4x6xf32> { %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x6xf32> "
       "%r = stablehlo.multiply %x, %b : tensor<4x6xf32> return %r : tensor<4x6xf32>");
  refused("tensor<4x6xf32> { %r = \"stablehlo.map\"(%x) <{dimensions = array<i64: 0, 1>}> ({ ^bb0(%a: tensor<i32>): "
          "stablehlo.return %a : tensor<i32> }) : (tensor<4x6xf32>) -> tensor<4x6xf32> return %r : tensor<4x6xf32>",
          "parameter 0 of the body is i32[], expected a scalar of f32[4,6]");
}

Test(sort, other_spellings_of_top_k) {
  const char *plain = "(tensor<4x2xf32>, tensor<4x2xi32>) { %v, %i = chlo.top_k(%x, k = 2) : tensor<4x6xf32> -> "
                      "(tensor<4x2xf32>, tensor<4x2xi32>) return %v, %i : tensor<4x2xf32>, tensor<4x2xi32>";
  same("(tensor<4x2xf32>, tensor<4x2xi32>) { %r:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 2 : "
       "i64, largest = true}, mhlo.version = 1 : i64} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) "
       "return %r#0, %r#1 : tensor<4x2xf32>, tensor<4x2xi32>",
       plain);
  same("(tensor<4x2xf32>, tensor<4x2xi32>) { %r:2 = \"stablehlo.custom_call\"(%x) <{call_target_name = \"TopK\"}> : "
       "(tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) return %r#0, %r#1 : tensor<4x2xf32>, tensor<4x2xi32>",
       plain);
  refused("(tensor<4x2xf32>, tensor<4x2xi32>) { %r:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = "
          "{largest = false}} : (tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>) return %r#0, %r#1 : "
          "tensor<4x2xf32>, tensor<4x2xi32>",
          "largest = false");
}

/* A comparator that captures, and what it becomes in front of scheduling, print and are read again. */
Test(sort, prints_and_is_read) {
  const char *const texts[] = {
      "tensor<4x6xf32> { %r = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({ ^bb0(%a: "
      "tensor<f32>, %b: tensor<f32>): %m = stablehlo.multiply %a, %s : tensor<f32> %l = stablehlo.compare LT, %m, %b : "
      "(tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %l : tensor<i1> }) : (tensor<4x6xf32>) -> "
      "tensor<4x6xf32> return %r : tensor<4x6xf32>",
      "tensor<4x6xf32> { %r = \"quern.sort_runs\"(%x) <{dimension = 1 : i64, length = 6 : i64, sorted = 1 : i64}> ({ "
      "^bb0(%a: tensor<f32>, %b: tensor<f32>): %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> "
      "tensor<i1> stablehlo.return %l : tensor<i1> }) : (tensor<4x6xf32>) -> tensor<4x6xf32> return %r : "
      "tensor<4x6xf32>"};
  for (int i = 0; i < 2; i++) {
    qn_graph *g = NULL, *again = NULL;
    qn_text t = {0};
    qn_status st = parse(texts[i], &g);
    cr_assert(st == QN_OK, "%s", qn_error_message());
    qn_graph_print(g, &t);
    QN_ASSERT_OK(qn_graph_parse(t.buf, t.len, "printed", &again));
    cr_expect(qn_graph_equal(g, again), "%s", t.buf);
    qn_text_free(&t);
    qn_graph_release(g);
    qn_graph_release(again);
  }
}
