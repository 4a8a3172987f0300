/* The text form: what JAX prints is read, what is read prints the same, and what is wrong is said with its place. */
#include <dirent.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"

static qn_graph *parse(const char *text) {
  qn_graph *g = NULL;
  qn_status st = qn_graph_parse(text, strlen(text), "x.mlir", &g);
  cr_assert(st == QN_OK, "%s\n%s", qn_error_message(), text);
  return g;
}

/* Text -> graph -> text -> graph: the same graph, the same text. Returns the text, to be freed. */
static qn_text round_trip(const qn_graph *g, const char *what) {
  qn_text first = {0}, second = {0};
  qn_graph *again = NULL;
  qn_graph_print(g, &first);
  qn_status st = qn_graph_parse(first.buf, first.len, "printed", &again);
  cr_assert(st == QN_OK, "%s: %s\n%s", what, qn_error_message(), first.buf);
  qn_graph_print(again, &second);
  cr_expect(qn_graph_equal(g, again), "%s: another graph\n%s", what, first.buf);
  cr_expect_str_eq(first.buf, second.buf, "%s", what);
  qn_graph_release(again);
  qn_text_free(&second);
  return first;
}

/* ---- every form, as JAX spells it ---- */
static const char *const lines[] = {
    "%0 = stablehlo.add %arg0, %arg0 : tensor<2x3xf32>",
    "%0 = stablehlo.tanh %arg0 : tensor<2x3xf32>",
    "%0 = stablehlo.is_finite %arg0 : (tensor<2x3xf32>) -> tensor<2x3xi1>",
    "%0 = chlo.erf %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>",
    "%0 = chlo.next_after %arg0, %arg0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>",
    "%0 = stablehlo.convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xbf16>",
    "%0 = stablehlo.convert %arg0 : tensor<2x3xf32>",
    "%0 = stablehlo.bitcast_convert %arg0 : (tensor<2x3xf32>) -> tensor<2x3xui32>",
    "%0 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>",
    "%0 = stablehlo.compare GE, %arg0, %arg0, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
    "%0 = stablehlo.compare EQ, %arg0, %arg0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>",
    "%0 = stablehlo.select %arg2, %arg0, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>",
    "%0 = stablehlo.select %arg3, %arg0, %arg0 : tensor<i1>, tensor<2x3xf32>",
    "%0 = stablehlo.clamp %arg0, %arg0, %arg0 : tensor<2x3xf32>",
    "%0 = stablehlo.clamp %arg4, %arg0, %arg4 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>",
    "%0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 0] : (tensor<2x3xf32>) -> tensor<3x5x2xf32>",
    "%0 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f32>) -> tensor<7xf32>",
    "%0 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<6x1xf32>",
    "%0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
    "%0 = stablehlo.reverse %arg0, dims = [0, 1] : tensor<2x3xf32>",
    "%0 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>",
    "%0 = stablehlo.pad %arg0, %arg4, low = [1, -1], high = [0, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) "
    "-> tensor<3x6xf32>",
    "%0 = stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>",
    "%0 = stablehlo.concatenate %arg0, dim = 0 : (tensor<2x3xf32>) -> tensor<2x3xf32>",
    "%0 = stablehlo.iota dim = 1 : tensor<4x5xui8>",
    "%0 = stablehlo.optimization_barrier %arg0 : tensor<2x3xf32>",
    "%0 = stablehlo.dynamic_slice %arg0, %arg5, %arg5, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> "
    "tensor<1x2xf32>",
    "%0 = stablehlo.dynamic_update_slice %arg0, %arg0, %arg5, %arg5 : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<i32>, "
    "tensor<i32>) -> tensor<2x3xf32>",
    "%0 = stablehlo.reduce(%arg0 init: %arg4) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, "
    "tensor<f32>) -> tensor<2xf32>",
    "%0 = stablehlo.reduce(%arg0 init: %arg4) applies stablehlo.add across dimensions = [] : (tensor<2x3xf32>, "
    "tensor<f32>) -> tensor<2x3xf32>",
    "%0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : "
    "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>",
    "%0 = stablehlo.dot_general %arg0, %arg0, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = "
    "[DEFAULT, DEFAULT] : "
    "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>",
    "%0 = stablehlo.dot_general %arg0, %arg0, contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : "
    "(tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3x2x3xf32>",
    "%0 = \"stablehlo.gather\"(%arg0, %arg6) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], "
    "collapsed_slice_dims = [0], "
    "start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : "
    "(tensor<2x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>",
    "%0 = stablehlo.custom_call @quern.stop_gradient(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
};

static const char head[] =
    "module @main {\n  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi32>, %arg2: tensor<2x3xi1>, "
    "%arg3: tensor<i1>, %arg4: tensor<f32>, %arg5: tensor<i32>, %arg6: tensor<4x1xi32>) -> ";

Test(text, every_pretty_form_comes_back) {
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const char *type = lines[i];
    for (const char *at = type; (at = strstr(at, "tensor<")) != NULL; at++)
      type = at;
    qn_text t = {0};
    qn_text_add(&t, "%s%s {\n    %s\n    return %%0 : %s\n  }\n}\n", head, type, lines[i], type);
    qn_graph *g = parse(t.buf);
    qn_text printed = round_trip(g, lines[i]);
    cr_expect_str_eq(printed.buf, t.buf);
    qn_text_free(&printed);
    qn_text_free(&t);
    qn_graph_release(g);
  }
}

/* ---- constants ---- */
static const char *const constants[] = {
    "dense<1.000000e+00> : tensor<f32>",
    "dense<-9.99999974E-5> : tensor<f32>",
    "dense<1.41421354> : tensor<f32>",
    "dense<-0.00999999977> : tensor<f32>",
    "dense<-0.000000e+00> : tensor<f32>",
    "dense<0xFF800000> : tensor<f32>",
    "dense<0x7FC00000> : tensor<4xf32>",
    "dense<0x4B800001> : tensor<f32>",
    "dense<1.024000e+03> : tensor<2x0x1xf32>",
    "dense<0.30000000000000004> : tensor<f64>",
    "dense<1.2345678901234568E-5> : tensor<f64>",
    "dense<0.899999976> : tensor<f32>",
    "dense<2.82842708> : tensor<f32>",
    "dense<1.17549435E-38> : tensor<f32>",
    "dense<0x4B800000> : tensor<f32>",
    "dense<-1.000000e+30> : tensor<f32>",
    "dense<1.000000e+300> : tensor<f64>",
    "dense<0x7C00> : tensor<f16>",
    "dense<1.500000e+00> : tensor<bf16>",
    "dense<3.339840e-01> : tensor<bf16>",
    "dense<-128> : tensor<i8>",
    "dense<18446744073709551615> : tensor<ui64>",
    "dense<-9223372036854775808> : tensor<i64>",
    "dense<[1, -2, 3]> : tensor<3xi32>",
    "dense<[[true, false], [false, true]]> : tensor<2x2xi1>",
    "dense<true> : tensor<5xi1>",
    "dense<> : tensor<0xi32>",
    "dense<(2.000000e+00,-1.000000e+00)> : tensor<complex<f32>>",
    "dense<[[[1.000000e+00], [2.500000e+00]]]> : tensor<1x2x1xf32>",
};

Test(text, constants_come_back) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    const char *type = strstr(constants[i], " : ") + 3;
    bool empty = strstr(type, "2x0x1") != NULL;
    qn_text t = {0}, want = {0};
    qn_text_add(&t, "func.func @main() -> %s { %%c = stablehlo.constant %s return %%c : %s }", type, constants[i],
                type);
    qn_text_add(&want, "stablehlo.constant %s\n", empty ? "dense<> : tensor<2x0x1xf32>" : constants[i]);
    qn_graph *g = parse(t.buf);
    qn_text printed = round_trip(g, constants[i]);
    cr_expect(qn_test_contains(printed.buf, want.buf));
    qn_text_free(&printed);
    qn_text_free(&t);
    qn_text_free(&want);
    qn_graph_release(g);
  }
}

Test(text, constants_in_other_spellings) {
  static const struct {
    const char *constant;
    double want[3];
  } cases[] = {
      {"dense<[0x3F800000, 2, 3.5e0]> : tensor<3xf32>", {1, 2, 3.5}},
      {"dense<\"0x010000000200000003000000\"> : tensor<3xi32>", {1, 2, 3}},
      {"dense<\"0x0000C03F\"> : tensor<3xf32>", {1.5, 1.5, 1.5}},
      {"dense<\"0x05\"> : tensor<3xi1>", {1, 0, 1}}, /* packed bits */
      {"dense<\"0x010001\"> : tensor<3xi1>", {1, 0, 1}},
      {"dense<[-1, 0, 1]> : tensor<3xi1>", {1, 0, 1}},
      {"dense<0xFF> : tensor<3xui8>", {255, 255, 255}},
      {"dense<[1.0, 0x7E00, 65504.0]> : tensor<3xf16>", {1, 0.0 / 0.0, 65504}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *type = strstr(cases[i].constant, " : ") + 3;
    qn_text t = {0};
    qn_text_add(&t, "func.func @main() -> %s { %%c = stablehlo.constant %s return %%c : %s }", type, cases[i].constant,
                type);
    qn_graph *g = parse(t.buf);
    for (int k = 0; k < 3; k++) {
      double x = -1, want = cases[i].want[k];
      cr_expect(qn_graph_constant_at(g, qn_graph_result(g, 0), k, &x) && (x == want || (x != x && want != want)),
                "%s [%d] is %g", cases[i].constant, k, x);
    }
    qn_text_free(&t);
    qn_graph_release(g);
  }
}

Test(text, large_constants_print_as_bytes) {
  qn_graph *g;
  float data[128];
  for (int i = 0; i < 128; i++)
    data[i] = (float)i;
  QN_ASSERT_OK(qn_graph_create("big", &g));
  qn_val c = qn_constant(g, qn_type_of(QN_F32, 2, 32, 4), data);
  QN_ASSERT_OK(qn_graph_seal(g, &c, 1));
  qn_text t = round_trip(g, "large constant");
  cr_expect(qn_test_contains(t.buf, "dense<\"0x000000000000803F00000040"));
  qn_text_free(&t);
  qn_graph_release(g);
}

/* ---- generic forms, regions, calls, marks ---- */
static void expect_same_graph(const char *a, const char *b) {
  qn_graph *x = parse(a), *y = parse(b);
  qn_text s = {0}, t = {0};
  qn_graph_print(x, &s);
  qn_graph_print(y, &t);
  cr_expect(qn_graph_equal(x, y), "%s\n%s", s.buf, t.buf);
  qn_text_free(&s);
  qn_text_free(&t);
  qn_graph_release(x);
  qn_graph_release(y);
}

Test(text, generic_forms_mean_the_same) {
  expect_same_graph(
      "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {\n"
      "  %0 = \"stablehlo.add\"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>\n"
      "  %1 = \"stablehlo.transpose\"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n"
      "  \"func.return\"(%1) : (tensor<3x2xf32>) -> ()\n}",
      "func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> { %0 = stablehlo.add %x, %x : tensor<2x3xf32> "
      "%1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32> return %1 : tensor<3x2xf32> "
      "}");
  expect_same_graph(
      "func.func @main(%x: tensor<3xf32>) -> tensor<3xi1> { %0 = \"stablehlo.compare\"(%x, %x) {comparison_direction = "
      "#stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type FLOAT>} : (tensor<3xf32>, "
      "tensor<3xf32>) -> "
      "tensor<3xi1> return %0 : tensor<3xi1> }",
      "func.func @main(%x: tensor<3xf32>) -> tensor<3xi1> { %0 = stablehlo.compare LT, %x, %x, FLOAT : (tensor<3xf32>, "
      "tensor<3xf32>) -> tensor<3xi1> return %0 : tensor<3xi1> }");
  expect_same_graph("func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> tensor<2x4xf32> { %0 = "
                    "\"stablehlo.dot_general\"(%x, %y) "
                    "<{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
                    "rhs_contracting_dimensions = [0]>, precision_config = "
                    "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x3xf32>, "
                    "tensor<3x4xf32>) -> tensor<2x4xf32> "
                    "return %0 : tensor<2x4xf32> }",
                    "func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> tensor<2x4xf32> { %0 = "
                    "stablehlo.dot_general %x, %y, "
                    "contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32> return %0 : "
                    "tensor<2x4xf32> }");
  expect_same_graph("func.func @main(%x: tensor<2x3xf32>, %i: tensor<f32>) -> tensor<2xf32> { %0 = "
                    "\"stablehlo.reduce\"(%x, %i) <{dimensions = "
                    "array<i64: 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %s = stablehlo.add %a, %b : "
                    "tensor<f32> stablehlo.return %s : "
                    "tensor<f32> }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> return %0 : tensor<2xf32> }",
                    "func.func @main(%x: tensor<2x3xf32>, %i: tensor<f32>) -> tensor<2xf32> { %0 = stablehlo.reduce(%x "
                    "init: %i) applies "
                    "stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> return %0 "
                    ": tensor<2xf32> }");
}

Test(text, locations_comments_and_attributes_are_skipped) {
  qn_graph *g = parse("#loc = loc(unknown)\n#loc1 = loc(\"f.py\":1:2)\nmodule @jit_f attributes {mhlo.num_partitions = "
                      "1 : i32, x = {y = [1, 2]}} {\n"
                      "  // a comment\n"
                      "  func.func public @main(%arg0: tensor<3xf32> {mhlo.sharding = \"{replicated}\", jax.arg_info = "
                      "\"a\\22b\"} loc(\"x\")) -> "
                      "(tensor<3xf32> {jax.result_info = \"out['w']\"}) attributes {foo} {\n"
                      "    %0 = stablehlo.negate %arg0 : tensor<3xf32> loc(#loc1)\n"
                      "    return %0 : tensor<3xf32> loc(fused[#loc, \"x)\"])\n  } loc(#loc)\n} loc(#loc)\n#loc2 = "
                      "loc(\"g\"(#loc1))\n");
  cr_expect_str_eq(qn_graph_name(g), "jit_f");
  cr_expect_str_eq(qn_graph_param_path(g, 0), "a\"b");
  cr_expect_str_eq(qn_graph_result_path(g, 0), "out['w']");
  cr_expect(qn_graph_node(g, 1)->place.line == 6 && qn_graph_node(g, 1)->place.column == 10);
  cr_expect_str_eq(qn_graph_node(g, 1)->place.file, "x.mlir");
  qn_text t = round_trip(g, "attributes");
  cr_expect(qn_test_contains(t.buf, "{jax.arg_info = \"a\\\"b\"}"));
  qn_text_free(&t);
  qn_graph_release(g);
}

Test(text, calls_are_inlined) {
  const char *text = "module { func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
                     "  %0:2 = call @twice(%x) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)\n"
                     "  %1, %2 = func.call @twice(%0#1) : (tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)\n"
                     "  %3 = \"func.call\"(%2) <{callee = @once}> : (tensor<3xf32>) -> tensor<3xf32>\n"
                     "  %4 = stablehlo.add %3, %0#0 : tensor<3xf32>\n  return %4 : tensor<3xf32> }\n"
                     "func.func private @twice(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) { %0 = call "
                     "@once(%x) : (tensor<3xf32>) -> "
                     "tensor<3xf32> return %x, %0 : tensor<3xf32>, tensor<3xf32> }\n"
                     "func.func private @once(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = stablehlo.negate %x : "
                     "tensor<3xf32> return %0 : tensor<3xf32> } }";
  qn_graph *g = parse(text);
  cr_expect(qn_graph_node_count(g) == 5, "%zu nodes", qn_graph_node_count(g));
  const qn_node *sum = qn_graph_def(g, qn_graph_result(g, 0));
  cr_expect(sum->operands[1] == qn_graph_param_at(g, 0) && qn_graph_def(g, sum->operands[0])->op == QN_OP_NEGATE);
  qn_graph_release(g);
}

Test(text, regions_capture_what_is_around_them) {
  const char *text =
      "func.func @main(%x: tensor<4xi32>, %k: tensor<i32>) -> tensor<i32> { %i = stablehlo.constant dense<0> : "
      "tensor<i32> "
      "%c = stablehlo.constant dense<3> : tensor<i32> %n = stablehlo.negate %k : tensor<i32>\n"
      "%r = stablehlo.reduce(%x init: %i) across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>\n"
      " reducer(%a: tensor<i32>, %b: tensor<i32>) { %m = stablehlo.multiply %b, %n : tensor<i32> %p = "
      "stablehlo.multiply %m, %n : "
      "tensor<i32> %q = stablehlo.add %p, %c : tensor<i32> %s = stablehlo.add %a, %q : tensor<i32> stablehlo.return %s "
      ": tensor<i32> }\n"
      "return %r : tensor<i32> }";
  qn_graph *g = parse(text);
  const qn_node *reduce = qn_graph_def(g, qn_graph_result(g, 0));
  cr_expect(reduce->operand_count == 3 && qn_graph_param_count(reduce->regions[0]) == 3,
            "one capture; the constant is copied");
  qn_text t = round_trip(g, "captures");
  cr_expect(qn_test_contains(t.buf, "reducer(%arg2: tensor<i32>, %arg3: tensor<i32>)  {"));
  cr_expect(qn_test_contains(t.buf, "%2 = stablehlo.multiply %arg3, %0 : tensor<i32>"));
  int32_t x[4] = {1, 2, 3, 4}, k = 2, out = 0;
  QN_EXPECT_OK(qn_graph_eval_ref(g, (const void *[]){x, &k}, (void *[]){&out}));
  cr_expect(out == 4 * 10 + 3 * 4, "%d", out);
  qn_text_free(&t);
  qn_graph_release(g);
}

Test(text, custom_vjp_prints_its_functions) {
  qn_graph *f[3], *g;
  qn_type t3 = qn_type_of(QN_F32, 1, 3);
  for (int k = 0; k < 3; k++) {
    QN_ASSERT_OK(qn_graph_create("f", &f[k]));
    qn_val x = qn_graph_param(f[k], t3, NULL), y = k == 2 ? qn_graph_param(f[k], t3, NULL) : x;
    qn_val r[2] = {k == 2 ? qn_mul(x, y) : qn_exp(x), x};
    QN_ASSERT_OK(qn_graph_seal(f[k], r, k == 1 ? 2 : 1));
  }
  QN_ASSERT_OK(qn_graph_create("user", &g));
  qn_val x = qn_graph_param(g, t3, "x"), y, z;
  qn_custom_vjp(&x, 1, f[0], f[1], f[2], &y);
  y = qn_stop_gradient(y);
  qn_custom_vjp(&y, 1, f[0], f[1], f[2], &z);
  QN_ASSERT_OK(qn_graph_seal(g, &z, 1));
  qn_text t = round_trip(g, "custom_vjp");
  cr_expect(qn_test_contains(
      t.buf, "%0 = stablehlo.custom_call @quern.custom_vjp(%arg0) {called_computations = [@fn_0, @fn_1, @fn_2]} : "
             "(tensor<3xf32>) -> tensor<3xf32>"));
  cr_expect(qn_test_contains(t.buf,
                             "func.func private @fn_2(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {"));
  cr_expect(!strstr(t.buf, "@fn_3"), "shared functions print once");
  qn_text_free(&t);
  qn_graph_release(g);
  for (int k = 0; k < 3; k++)
    qn_graph_release(f[k]);
}

/* ---- bad input ---- */
#define MAIN(body) "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n  " body "\n}"
static const struct {
  const char *text, *message;
} errors[] = {
    {"", "x.mlir:1:1: there is no function @main"},
    {"module @m {", "x.mlir:1:12: expected '}' to end the module, got the end of the text"},
    {"func.func private @f() { return }", "there is no function @main"},
    {"hello", "x.mlir:1:1: expected 'module' or 'func.func', got 'hello'"},
    {"func.func @main(", "x.mlir:1:16: this bracket is never closed"},
    {"func.func @main() { return } func.func @main() { return }", "@main is defined twice"},
    {MAIN("%0 = stablehlo.whirl %x : tensor<3xf32> return %0 : tensor<3xf32>"),
     "x.mlir:2:8: unknown operation 'stablehlo.whirl'"},
    {MAIN("%0 = foo.bar %x"), "x.mlir:2:8: unknown operation 'foo.bar'"},
    {MAIN("%0 = add %x, %x : tensor<3xf32>"), "x.mlir:2:8: unknown operation 'add'"},
    {MAIN("%0 = stablehlo.parameter : tensor<3xf32>"), "unknown operation 'stablehlo.parameter'"},
    {MAIN("%0 = stablehlo.add %x, %x foo"), "x.mlir:2:29: expected ':' and a type, got 'foo'"},
    {MAIN("%0 = stablehlo.add %x, %x : f32"), "x.mlir:2:31: expected a tensor type, got 'f32'"},
    {MAIN("%0 = stablehlo.add %x, %y : tensor<3xf32>"), "x.mlir:2:26: %y is not defined"},
    {MAIN("%0 = stablehlo.add %x, %x : tensor<4xf32>"),
     "x.mlir:2:8: stablehlo.add: operand 0 is f32[3], the text says f32[4]"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<-3xf32>"), "dimension 0 of the tensor type is negative"},
    {MAIN("%0 = stablehlo.add %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>"),
     "x.mlir:2:8: stablehlo.add: result 0 is f32[3], the text says f32[4]"},
    {MAIN("%0 = stablehlo.add %x : tensor<3xf32>"), "x.mlir:2:8: add: 1 operands, expected 2"},
    {MAIN("%0 = stablehlo.not %x : tensor<3xf32>"),
     "x.mlir:2:8: not: operand 0 is f32[3], expected an integer or bool"},
    {MAIN("%0 = stablehlo.transpose %x, dims = [1] : (tensor<3xf32>) -> tensor<3xf32>"), "x.mlir:2:8: transpose: "},
    {MAIN("%0 = stablehlo.transpose %x : (tensor<3xf32>) -> tensor<3xf32>"), "attribute permutation is missing"},
    {MAIN("%0 = stablehlo.transpose %x, dims = 0 : (tensor<3xf32>) -> tensor<3xf32>"),
     "permutation is no list of at most 12 integers"},
    {MAIN("%0 = stablehlo.transpose %x, dims = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] : (tensor<3xf32>) -> "
          "tensor<3xf32>"),
     "permutation is no list of at most 12 integers"},
    {MAIN("%0 = stablehlo.transpose %x, dims = [0], wrong = 3 : (tensor<3xf32>) -> tensor<3xf32>"),
     "unknown attribute 'wrong'"},
    {MAIN("%0 = stablehlo.transpose %x, dims = [99999999999999999999] : (tensor<3xf32>) -> tensor<3xf32>"),
     "does not fit in 64 bits"},
    {MAIN("%0 = stablehlo.compare FOO, %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>"),
     "unknown attribute 'FOO'"},
    {MAIN("%0 = stablehlo.compare %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>"),
     "attribute comparison_direction is missing"},
    {MAIN("%0 = stablehlo.reduce_precision %x, format = q : tensor<3xf32>"), "expected a format such as e5m10"},
    {MAIN("%0 = stablehlo.constant dense<1.0> : tensor<3xf32> return %0"),
     "x.mlir:3:1: expected ':' and the results' types, got '}'"},
    {MAIN("%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>"), "expected ',' and more elements, got ']'"},
    {MAIN("%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<3xf32>"),
     "expected ']' behind the elements, got ','"},
    {MAIN("%0 = stablehlo.constant dense<[1.0]> : tensor<1000000000xf32>"), "fewer elements than the 1000000000"},
    {MAIN("%0 = stablehlo.constant dense<256> : tensor<ui8>"), "256 does not fit in ui8"},
    {MAIN("%0 = stablehlo.constant dense<-1> : tensor<ui8>"), "-1 does not fit in ui8"},
    {MAIN("%0 = stablehlo.constant dense<1.5> : tensor<i32>"), "expected an integer, got '1.5'"},
    {MAIN("%0 = stablehlo.constant dense<true> : tensor<f32>"), "expected a number, got 'true'"},
    {MAIN("%0 = stablehlo.constant dense<0x1FFFFFFFF> : tensor<f32>"), "does not fit in f32"},
    {MAIN("%0 = stablehlo.constant dense<\"0x0000\"> : tensor<3xf32>"), "2 bytes of data, expected 12"},
    {MAIN("%0 = stablehlo.constant dense<\"0xZZ\"> : tensor<i8>"), "expected a string of hexadecimal bytes"},
    {MAIN("%0 = stablehlo.constant dense<> : tensor<3xf32>"), "no elements, expected 3"},
    {MAIN("%0 = stablehlo.constant 5"), "expected dense<..>, got '5'"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<?xf32>"), "dynamic dimensions are not supported"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<3xf8>"), "'f8' is not an element type"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<3x>"), "'' is not an element type"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<99999999999999999999xf32>"), "the dimension is too large"},
    {MAIN("%0 = stablehlo.iota dim = 0 : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1xf32>"), "more than 12 dimensions"},
    {MAIN("%0 = stablehlo.slice %x [0:1:1:1] : (tensor<3xf32>) -> tensor<1xf32>"), "expected ',' or ']', got ':'"},
    {MAIN("%0 = stablehlo.slice %x [2:9] : (tensor<3xf32>) -> tensor<7xf32>"), "x.mlir:2:8: slice: "},
    {MAIN("%0 = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "there is no function @f"},
    {MAIN("%0 = call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "@main calls itself"},
    {MAIN(
         "%0 = call @g(%x) : (tensor<3xf32>) -> tensor<3xf32> return %0 : tensor<3xf32>") " func.func @g(%x: "
                                                                                          "tensor<4xf32>) -> "
                                                                                          "tensor<4xf32> { "
                                                                                          "return %x : tensor<4xf32> }",
     "call: argument 0 of @g is f32[3], expected f32[4]"},
    {MAIN("%0:2 = call @g(%x) : (tensor<3xf32>) -> tensor<3xf32>") " func.func @g(%x: tensor<3xf32>) -> tensor<3xf32> "
                                                                   "{ return %x : tensor<3xf32> }",
     "call: 1 results, the text names 2"},
    {MAIN("%0:2 = stablehlo.negate %x : tensor<3xf32>"), "1 results, the text names 2"},
    {MAIN("%0:9999999 = stablehlo.negate %x : tensor<3xf32>"), "9999999 results, expected 1 to 4096"},
    {MAIN("stablehlo.negate %x : tensor<3xf32>"), "1 results, the text names 0"},
    {MAIN("%x = stablehlo.negate %x : tensor<3xf32>"), "x.mlir:2:3: %x is defined twice"},
    {MAIN("%0 = stablehlo.negate %x#1 : tensor<3xf32>"), "%x#1 is one of 1 results of %x"},
    {MAIN("return %x : tensor<4xf32>"), "return: result 0 is f32[3], the text says f32[4]"},
    {MAIN("return %x, %x : tensor<3xf32>, tensor<3xf32>"), "@main returns 2 values, expected 1"},
    {MAIN(""), "expected a return at the end of the block"},
    {MAIN("%0 = stablehlo.custom_call @foo(%x) : (tensor<3xf32>) -> tensor<3xf32>"),
     "unknown target @foo of a custom call"},
    {MAIN("%0 = stablehlo.custom_call @quern.custom_vjp(%x) : (tensor<3xf32>) -> tensor<3xf32>"), "quern.custom_vjp: "},
    {MAIN("%0 = stablehlo.reduce(%x init: %x) applies stablehlo.foo across dimensions = [0] : (tensor<3xf32>, "
          "tensor<3xf32>) -> tensor<f32>"),
     "unknown operation 'stablehlo.foo'"},
    {MAIN("%0 = stablehlo.reduce(%x init: %x) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, "
          "tensor<3xf32>) -> tensor<f32>"),
     "x.mlir:2:8: reduce: operand 1 is f32[3]"},
    {MAIN("%0 = stablehlo.reduce(%x) across dimensions = [0]"), "expected init:, got ')'"},
    {MAIN("%0 = \"stablehlo.negate\"(%x) ({ stablehlo.return %x : tensor<3xf32> }) : (tensor<3xf32>) -> tensor<3xf32>"),
     "a region uses values of the block around it"},
    {MAIN("%0 = \"stablehlo.gather\"(%x, %x) <{slice_sizes = array<i64: 1}> : () -> ()"),
     "expected '>' behind the array"},
    {MAIN("%0 = \"stablehlo.negate\"(%x) {a = \"unended} : () -> ()"), "x.mlir:1:53: this bracket is never closed"},
    {MAIN("%0 = \"stablehlo.negate\"(%x) {a = } : () -> ()"), "expected an attribute's value, got '}'"},
    {MAIN("%0 = stablehlo.negate \xc3\xa9 : tensor<3xf32>"), "expected ':' and a type"},
    {"func.func @main(%x: tensor<3xf32>, %x: tensor<3xf32>) { return }", "%x is defined twice"},
    {"func.func @main(%x) { return }", "expected ':' and the parameter's type"},
    {"func.func @main() -> tensor<3xf32> { return }", "@main returns 0 values, expected 1"},
    {"func.func @main() attributes { return }", "expected '{' and the function's body, got the end"},
};

Test(text, what_is_wrong_is_said_with_its_place) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    qn_graph *g = (qn_graph *)&g;
    QN_EXPECT_FAIL(qn_graph_parse(errors[i].text, strlen(errors[i].text), "x.mlir", &g), QN_INVALID, errors[i].message);
    cr_expect(g == NULL);
    cr_expect(qn_test_contains(qn_error_message(), "x.mlir:"));
  }
}

Test(text, nesting_and_expansion_are_bounded) {
  qn_text t = {0};
  qn_graph *g;
  qn_text_puts(&t, "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { %0 = \"stablehlo.negate\"(%x) {a = ");
  for (int i = 0; i < 100000; i++)
    qn_text_puts(&t, "{a = ");
  for (int i = 0; i < 100002; i++)
    qn_text_puts(&t, "}");
  QN_EXPECT_FAIL(qn_graph_parse(t.buf, t.len, "x.mlir", &g), QN_INVALID, "attributes are nested too deep");
  t.len = 0;
  qn_text_puts(&t, "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { ");
  for (int i = 0; i < 100000; i++)
    qn_text_puts(&t, "%0 = \"stablehlo.negate\"(%x) ({ ");
  for (int i = 0; i < 100000; i++)
    qn_text_puts(&t, "})");
  qn_text_puts(&t, "}");
  QN_EXPECT_FAIL(qn_graph_parse(t.buf, t.len, "x.mlir", &g), QN_INVALID, "nested more than");
  t.len = 0; /* each function calls the next one twice: 2^40 operations */
  for (int i = 0; i < 40; i++)
    qn_text_add(&t,
                "func.func @%s%d(%%x: tensor<f32>) -> tensor<f32> { %%0 = call @f%d(%%x) : (tensor<f32>) -> "
                "tensor<f32> %%1 = call "
                "@f%d(%%0) : (tensor<f32>) -> tensor<f32> return %%1 : tensor<f32> }\n",
                i ? "f" : "main//\n", i, i + 1, i + 1);
  qn_text_puts(&t, "func.func @f40(%x: tensor<f32>) -> tensor<f32> { %0 = stablehlo.negate %x : tensor<f32> return %0 "
                   ": tensor<f32> }");
  char *zero = strstr(t.buf, "//\n0");
  cr_assert(zero != NULL);
  memset(zero, ' ', 4);
  QN_EXPECT_FAIL(qn_graph_parse(t.buf, t.len, "x.mlir", &g), QN_INVALID, "expands to more than");
  qn_text_free(&t);
}

/* ---- damaged text never crashes ---- */
Test(text, damaged_text_is_refused_or_read) {
  char path[1024];
  qn_bytes text;
  qn_graph *g;
  if (!qn_test_shared_path("stablehlo/reduce_kinds.mlir", path, sizeof path))
    cr_skip_test("no shared data");
  QN_ASSERT_OK(qn_file_read(path, &text));
  for (size_t n = 0; n < text.size; n += 7)
    if (qn_graph_parse((const char *)text.data, n, "cut", &g) == QN_OK)
      qn_graph_release(g);
  uint32_t state = 12345;
  static const char inserts[] = "<>(){}[]%#@^\"0x-:,=. a\n";
  for (int i = 0; i < 1500; i++) {
    uint8_t kept[4];
    size_t at[4];
    for (int k = 0; k < 4; k++) {
      state = state * 1664525u + 1013904223u;
      at[k] = (state >> 8) % text.size;
      kept[k] = text.data[at[k]];
      text.data[at[k]] = (uint8_t)inserts[(state >> 3) % (sizeof inserts - 1)];
    }
    if (qn_graph_parse((const char *)text.data, text.size, "damaged", &g) == QN_OK)
      qn_graph_release(g);
    for (int k = 4; k-- > 0;)
      text.data[at[k]] = kept[k];
  }
  free(text.data);
}

/* Every beginning of a program is refused with a place, or is a program by itself. */
Test(text, truncated_at_any_byte) {
  static const char *const files[] = {"score", "marks", "dynamic_slice"};
  for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
    char path[256];
    qn_bytes text;
    int line, column;
    (void)snprintf(path, sizeof path, "tests/data/programs/%s.mlir", files[f]);
    QN_ASSERT_OK(qn_file_read(path, &text));
    for (size_t n = 0; n + 2 < text.size; n++) {
      qn_graph *g = NULL;
      qn_status st = qn_graph_parse((const char *)text.data, n, "cut", &g);
      cr_expect_eq(st, QN_INVALID, "%s cut to %zu bytes", path, n);
      cr_expect(sscanf(qn_error_message(), "cut:%d:%d: ", &line, &column) == 2, "%s", qn_error_message());
      qn_graph_release(g);
    }
    free(text.data);
  }
}

Test(text, messages_are_short_and_plain) {
  qn_text t = {0};
  qn_graph *g;
  qn_text_puts(&t, "func.func @main() { %0 = stablehlo.");
  for (int i = 0; i < 100000; i++)
    qn_text_puts(&t, "a");
  qn_text_puts(&t, " : tensor<f32> }");
  QN_EXPECT_FAIL(qn_graph_parse(t.buf, t.len, "x.mlir", &g), QN_INVALID, "unknown operation 'stablehlo.aaa");
  cr_expect_lt(strlen(qn_error_message()), 200);
  qn_text_free(&t);
  static const char bell[] = "func.func @main() { %0 = \"\033[31m\a\"() : () -> () }";
  QN_EXPECT_FAIL(qn_graph_parse(bell, strlen(bell), "x.mlir", &g), QN_INVALID, "unknown operation '?[31m?'");
}

Test(text, many_functions_are_found_quickly) {
  qn_text t = {0};
  qn_graph *g;
  uint64_t begin = qn_time_ns();
  qn_text_puts(&t, "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n");
  for (int i = 0; i < 50000; i++)
    qn_text_add(&t, "func.func @f%d(%%x: tensor<f32>) -> tensor<f32> { return %%x : tensor<f32> }\n", i);
  QN_ASSERT_OK(qn_graph_parse(t.buf, t.len, "x.mlir", &g));
  qn_graph_release(g);
  qn_text_puts(&t, "func.func @f49999() { return }\n");
  QN_EXPECT_FAIL(qn_graph_parse(t.buf, t.len, "x.mlir", &g), QN_INVALID, "x.mlir:50002:11: @f49999 is defined twice");
  cr_expect(qn_time_ns() - begin < UINT64_C(20000000000));
  qn_text_free(&t);
}

/* ---- every program that JAX printed ---- */
/* Whether each stablehlo and chlo operation in the text has a row. */
static bool all_known(const char *text) {
  for (const char *at = text; (at = strpbrk(at, "sc")) != NULL; at++) {
    bool stable = strncmp(at, "stablehlo.", 10) == 0;
    if ((!stable && strncmp(at, "chlo.", 5) != 0) || (at > text && at[-1] == '#'))
      continue;
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789.");
    char name[64] = {0};
    memcpy(name, at, n < 63 ? n : 63);
    if (strcmp(name, "stablehlo.return") != 0 && qn_op_find(name) == QN_OP_NONE)
      return false;
  }
  return true;
}

static const char *behind_first_line(const char *s) { return strchr(s, '\n') + 1; }

static void read_program(const char *path, int *known, int *same) {
  qn_bytes text;
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_file_read(path, &text));
  const char *s = (const char *)text.data;
  qn_status st = qn_graph_parse(s, text.size, path, &g);
  if (!all_known(s)) {
    cr_expect(st == QN_OK || strstr(qn_error_message(), path), "%s", qn_error_message());
  } else {
    cr_expect(st == QN_OK, "%s", qn_error_message());
    ++*known;
  }
  if (st == QN_OK) {
    qn_text printed = round_trip(g, path);
    if (!strstr(s, "call @") && !strstr(s, "HIGHEST")) { /* these two print another way on purpose */
      cr_expect_str_eq(behind_first_line(printed.buf), behind_first_line(s), "%s", path);
      ++*same;
    }
    qn_text_free(&printed);
    qn_graph_release(g);
  }
  free(text.data);
}

Test(text, reads_every_program_that_jax_printed, .timeout = 50) {
  static const char *const folders[] = {"stablehlo", "golden/transforms"};
  int files = 0, known = 0, same = 0;
  for (size_t i = 0; i < 2; i++) {
    char folder[1024], path[2048];
    if (!qn_test_shared_path(folders[i], folder, sizeof folder))
      cr_skip_test("no shared data");
    DIR *dir = opendir(folder);
    cr_assert(dir != NULL);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
      const char *dot = strrchr(e->d_name, '.');
      if (!dot || strcmp(dot, ".mlir") != 0)
        continue;
      (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
      files++;
      read_program(path, &known, &same);
    }
    closedir(dir);
  }
  cr_expect(files >= 190 && known >= 147 && same >= 70, "%d files, %d of known operations, %d print as JAX does", files,
            known, same);
}
