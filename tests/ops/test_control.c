/* while, case, if: text with captures made explicit, shape rules, the oracle. */
#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"

static qn_graph *parsed(const char *text) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_parse(text, strlen(text), "x.mlir", &g));
  return g;
}

/* Text that comes back as it was. */
static void expect_same_text(const qn_graph *g, const char *text) {
  qn_text out = {0};
  qn_graph_print(g, &out);
  cr_expect_str_eq(out.buf, text);
  qn_text_free(&out);
}

/* x and n from outside: the condition captures n, the body captures x. */
static const char power[] =
    "module @power {\n"
    "  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<i32>) -> tensor<3xf32> {\n"
    "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
    "    %cst = stablehlo.constant dense<1.000000e+00> : tensor<3xf32>\n"
    "    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %cst) : tensor<i32>, tensor<3xf32>\n"
    "    cond {\n"
    "      %1 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "      stablehlo.return %1 : tensor<i1>\n"
    "    } do {\n"
    "      %c_1 = stablehlo.constant dense<1> : tensor<i32>\n"
    "      %1 = stablehlo.add %iterArg, %c_1 : tensor<i32>\n"
    "      %2 = stablehlo.multiply %iterArg_0, %arg0 : tensor<3xf32>\n"
    "      stablehlo.return %1, %2 : tensor<i32>, tensor<3xf32>\n"
    "    }\n"
    "    return %0#1 : tensor<3xf32>\n"
    "  }\n"
    "}\n";

Test(control, while_takes_captures_from_text) {
  qn_graph *g = parsed(power);
  const qn_node *n = NULL;
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    if (qn_graph_node(g, i)->op == QN_OP_WHILE)
      n = qn_graph_node(g, i);
  cr_assert(n != NULL);
  cr_expect(n->operand_count == 4 && n->result_count == 2 && qn_node_captures(n) == 2);
  cr_expect(((const qn_attr_while *)n->attr)->trip_count == -1);
  expect_same_text(g, power);
  const float x[] = {1, 2, -3};
  float y[3];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x, &(int32_t){3}}, (void *[]){y}));
  cr_expect(y[0] == 1 && y[1] == 8 && y[2] == -27, "%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){x, &(int32_t){0}}, (void *[]){y}));
  cr_expect(y[0] == 1 && y[1] == 1 && y[2] == 1);
  qn_graph_release(g);
}

static const char branches[] = "module @branches {\n"
                               "  func.func public @main(%arg0: tensor<i32>, %arg1: tensor<f32>, %arg2: tensor<f32>, "
                               "%arg3: tensor<i1>) -> (tensor<f32>, tensor<f32>) {\n"
                               "    %0 = \"stablehlo.case\"(%arg0) ({\n"
                               "      stablehlo.return %arg1 : tensor<f32>\n"
                               "    }, {\n"
                               "      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>\n"
                               "      stablehlo.return %2 : tensor<f32>\n"
                               "    }, {\n"
                               "      %cst = stablehlo.constant dense<7.000000e+00> : tensor<f32>\n"
                               "      stablehlo.return %cst : tensor<f32>\n"
                               "    }) : (tensor<i32>) -> tensor<f32>\n"
                               "    %1 = \"stablehlo.if\"(%arg3) ({\n"
                               "      %2 = stablehlo.negate %0 : tensor<f32>\n"
                               "      stablehlo.return %2 : tensor<f32>\n"
                               "    }, {\n"
                               "      stablehlo.return %arg2 : tensor<f32>\n"
                               "    }) : (tensor<i1>) -> tensor<f32>\n"
                               "    return %0, %1 : tensor<f32>, tensor<f32>\n"
                               "  }\n"
                               "}\n";

Test(control, branches_take_captures_from_text) {
  qn_graph *g = parsed(branches);
  expect_same_text(g, branches);
  static const struct {
    int32_t index;
    bool pred;
    float want[2];
  } runs[] = {{0, true, {2, -2}}, {1, false, {5, 3}}, {2, true, {7, -7}}, {3, false, {7, 3}}, {-1, true, {7, -7}}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    const float a = 2, b = 3;
    float y[2];
    QN_ASSERT_OK(
        qn_graph_eval_ref(g, (const void *[]){&runs[i].index, &a, &b, &runs[i].pred}, (void *[]){&y[0], &y[1]}));
    cr_expect(y[0] == runs[i].want[0] && y[1] == runs[i].want[1], "run %zu: %g %g", i, (double)y[0], (double)y[1]);
  }
  qn_graph_release(g);
}

/* A body that hands one carry on as the other: no result may be overwritten before it's read. */
Test(control, carries_change_places) {
  static const char text[] = "func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
                             "  %z = stablehlo.constant dense<0> : tensor<i32>\n"
                             "  %0:3 = stablehlo.while(%i = %z, %x = %a, %y = %b) : tensor<i32>, tensor<f32>, "
                             "tensor<f32> cond {\n"
                             "    %n = stablehlo.constant dense<5> : tensor<i32>\n"
                             "    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
                             "    stablehlo.return %1 : tensor<i1>\n"
                             "  } do {\n"
                             "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
                             "    %1 = stablehlo.add %i, %one : tensor<i32>\n"
                             "    stablehlo.return %1, %y, %x : tensor<i32>, tensor<f32>, tensor<f32>\n"
                             "  }\n"
                             "  return %0#1, %0#2 : tensor<f32>, tensor<f32>\n"
                             "}\n";
  qn_graph *g = parsed(text);
  const float a = 1, b = 2;
  float y[2];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){&a, &b}, (void *[]){&y[0], &y[1]}));
  cr_expect(y[0] == 2 && y[1] == 1);
  qn_graph_release(g);
}

/* ---- shape rules ---- */
static qn_graph *region(int params, const qn_type *types, int results, const int *which, qn_dtype convert_to) {
  qn_graph *g = NULL;
  qn_val p[4], out[4];
  QN_ASSERT_OK(qn_graph_create("region", &g));
  for (int i = 0; i < params; i++)
    p[i] = qn_graph_param(g, types[i], NULL);
  for (int i = 0; i < results; i++)
    out[i] = convert_to == QN_DTYPE_NONE ? p[which[i]] : qn_convert(p[which[i]], convert_to);
  QN_ASSERT_OK(qn_graph_seal(g, out, (size_t)results));
  return g;
}

static void expect_refused(qn_op op, const qn_type *types, int count, const void *attr, qn_graph **regions,
                           int region_count, const char *message) {
  qn_graph *g = NULL;
  qn_val in[4];
  QN_ASSERT_OK(qn_graph_create("f", &g));
  for (int i = 0; i < count; i++)
    in[i] = qn_graph_param(g, types[i], NULL);
  qn_val v = qn_graph_add(g, op, in, (size_t)count, attr, regions, (size_t)region_count, QN_HERE);
  cr_expect(!qn_val_ok(v));
  QN_EXPECT_FAIL(qn_graph_seal(g, &v, 1), QN_INVALID, message);
  qn_graph_release(g);
}

Test(control, shape_rules) {
  const qn_type f = qn_type_scalar(QN_F32), i = qn_type_scalar(QN_I32), b = qn_type_scalar(QN_BOOL);
  const int first[] = {0}, both[] = {0, 1};
  const qn_attr_while unknown = {-1}, bad = {-2};
  qn_graph *truth = region(1, &f, 1, first, QN_BOOL), *same = region(1, &f, 1, first, QN_DTYPE_NONE),
           *wide = region(2, (const qn_type[]){f, f}, 2, both, QN_DTYPE_NONE), *cast = region(1, &f, 1, first, QN_F64),
           *of_int = region(1, &i, 1, first, QN_DTYPE_NONE);
  qn_graph *loop[] = {truth, same}, *no_truth[] = {same, same}, *params[] = {wide, same}, *result[] = {truth, cast},
           *ints[] = {truth, of_int}, *two[] = {same, cast}, *counts[] = {same, wide};
  expect_refused(QN_OP_WHILE, &f, 1, &unknown, loop, 1, "while: got 1 regions, expected a condition and a body");
  expect_refused(QN_OP_WHILE, &f, 1, &bad, loop, 2, "while: trip count -2");
  expect_refused(QN_OP_WHILE, &f, 1, &unknown, no_truth, 2, "while: the condition gives f32[], expected bool[]");
  expect_refused(QN_OP_WHILE, &f, 1, &unknown, params, 2, "while: the condition has 2 parameters, expected 1");
  expect_refused(QN_OP_WHILE, &f, 1, &unknown, result, 2, "while: result 0 of the body is f64[], expected f32[]");
  expect_refused(QN_OP_WHILE, &f, 1, &unknown, ints, 2, "while: parameter 0 of the body is i32[], expected f32[]");
  const qn_type cased[] = {i, f}, chosen[] = {b, f}, wrong[] = {f, f};
  expect_refused(QN_OP_CASE, cased, 2, NULL, NULL, 0, "case: 0 regions, expected at least one branch");
  expect_refused(QN_OP_CASE, wrong, 2, NULL, two, 2, "case: operand 0 is f32[]");
  expect_refused(QN_OP_CASE, cased, 2, NULL, two, 2, "case: result 0 of branch 1 is f64[], expected f32[]");
  expect_refused(QN_OP_CASE, cased, 2, NULL, counts, 2, "case: branch 1 has 2 parameters, expected 1");
  expect_refused(QN_OP_IF, chosen, 2, NULL, two, 1, "if: got 1 regions");
  expect_refused(QN_OP_IF, chosen, 2, NULL, two, 2, "if: result 0 of the false branch is f64[], expected f32[]");
  qn_graph *all[] = {truth, same, wide, cast, of_int};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    qn_graph_release(all[k]);
}
