/* The client dialect in text: operations with rows of their own, and those that become others. */
#include <math.h>

#include "expect.h"
#include "quern/graph.h"

static qn_status read(const char *line, const char *type, const char *result, qn_graph **out) {
  char text[1024];
  int n =
      snprintf(text, sizeof text, "func.func @main(%%x: %s, %%y: tensor<f32>) -> %s {\n  %s\n  return %%r : %s\n}\n",
               type, result, line, result);
  cr_assert(n > 0 && n < (int)sizeof text);
  return qn_graph_parse(text, (size_t)n, "chlo.mlir", out);
}

#define X "tensor<4xf32>"
#define B "tensor<4xi1>"

static const struct {
  const char *line, *type;
  double want[4];
} cases[] = {
    {"%r = chlo.is_inf %x : " X " -> " B, B, {0, 0, 1, 1}},
    {"%r = chlo.is_pos_inf %x : " X " -> " B, B, {0, 0, 1, 0}},
    {"%r = \"chlo.is_neg_inf\"(%x) : (" X ") -> " B, B, {0, 0, 0, 1}},
    {"%r = chlo.broadcast_add %x, %y : (" X ", tensor<f32>) -> " X, X, {3, 1, INFINITY, -INFINITY}},
    {"%r = chlo.broadcast_atan2 %y, %x : (tensor<f32>, " X ") -> " X,
     X,
     {1.1071487177940904, 2.0344439357957027, 0, 3.141592653589793}},
    {"%r = chlo.broadcast_next_after %x, %y : (" X ", tensor<f32>) -> " X,
     X,
     {1 + 0x1p-23, -1 + 0x1p-24, 0x1.fffffep127, -0x1.fffffep127}},
    {"%r = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction LT>} : (" X
     ", tensor<f32>) -> " B,
     B,
     {1, 1, 0, 1}},
    {"%p = chlo.is_inf %x : " X " -> " B " %r = chlo.broadcast_select %p, %y, %x : (" B ", tensor<f32>, " X ") -> " X,
     X,
     {1, -1, 2, 2}},
    {"%r = chlo.conj %x : " X " -> " X, X, {1, -1, INFINITY, -INFINITY}},
    {"%r = chlo.square %x : " X " -> " X, X, {1, 1, INFINITY, INFINITY}},
    {"%r = chlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : " X, X, {1, 2, 3, 4}},
};

Test(chlo, values) {
  const float x[4] = {1, -1, INFINITY, -INFINITY}, y = 2;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    qn_graph *g;
    qn_status st = read(cases[i].line, X, cases[i].type, &g);
    cr_expect(st == QN_OK, "%s: %s", cases[i].line, st == QN_OK ? "" : qn_error_report());
    if (st != QN_OK)
      continue;
    float got[4];
    QN_EXPECT_OK(qn_graph_eval_ref(g, (const void *const[]){x, &y}, (void *[]){got}));
    bool is_bool = qn_graph_type(g, qn_graph_result(g, 0))->dtype == QN_BOOL;
    for (int k = 0; k < 4; k++) {
      double v = is_bool ? ((const uint8_t *)got)[k] : (double)got[k];
      cr_expect(v == cases[i].want[k] || fabs(v - cases[i].want[k]) < 1e-6,
                "%s: element %d is %g, expected %g", /* NOLINT */
                cases[i].line, k, v, cases[i].want[k]);
    }
    qn_graph_release(g);
  }
}

Test(chlo, conjugates) {
  qn_graph *g;
  QN_ASSERT_OK(read("%r = chlo.conj %x : tensor<complex<f32>> -> tensor<complex<f32>>", "tensor<complex<f32>>",
                    "tensor<complex<f32>>", &g));
  const float x[2] = {3, 4}, y = 0;
  float got[2];
  QN_EXPECT_OK(qn_graph_eval_ref(g, (const void *const[]){x, &y}, (void *[]){got}));
  cr_expect(got[0] == 3 && got[1] == -4); /* NOLINT */
  qn_graph_release(g);
}

Test(chlo, refusals) {
  qn_graph *g;
  QN_EXPECT_FAIL(read("%r = chlo.broadcast_frob %x, %y : (" X ", tensor<f32>) -> " X, X, X, &g), QN_INVALID,
                 "chlo.mlir:2:8: unknown operation 'chlo.broadcast_frob'");
  QN_EXPECT_FAIL(read("%r = chlo.broadcast_add %x, %x, %y : (" X ", " X ", tensor<f32>) -> " X, X, X, &g), QN_INVALID,
                 "chlo.broadcast_add: 3 operands, expected 2");
  QN_EXPECT_FAIL(
      read("%r = chlo.broadcast_add %x, %y {broadcast_dimensions = array<i64>} : (" X ", tensor<f32>) -> " X, X, X, &g),
      QN_INVALID, "broadcast_dimensions are not supported");
  QN_EXPECT_FAIL(read("%r = chlo.broadcast_compare %x, %y : (" X ", tensor<f32>) -> " B, X, B, &g), QN_INVALID,
                 "comparison_direction is missing");
  QN_EXPECT_FAIL(read("%r = chlo.is_inf %x : " X " -> " X, X, X, &g), QN_INVALID,
                 "result 0 is bool[4], the text says f32[4]");
  QN_EXPECT_FAIL(read("%r = chlo.broadcast_and %x, %x : (" X ", " X ") -> " X, X, X, &g), QN_INVALID,
                 "and: operand 0 is f32[4]");
}
