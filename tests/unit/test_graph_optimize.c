/* The optimiser: every rule of every list has a case under its name, which shows the graph before and after; both must
 * compute the same bits. Folding, common subexpressions, dead code, lowering, termination. */
#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/ops.h"
#include "runtime/graph/rewrite.h"

typedef struct rule_case {
  const char *name, *type; /* $ in the texts stands for the type */
  const char *params;
  const char *before, *after;
} rule_case;

#define F4 "tensor<4xf32>"
#define I4 "tensor<4xi32>"
#define B4 "tensor<4xi1>"
#define ONE_PARAM "%x: $"
#define TWO_PARAMS "%x: $, %y: $"
#define CONST(x) "%c = stablehlo.constant dense<" x "> : $ "
#define UN(op) "%r = stablehlo." op " %x : $ return %r : $"
#define UN2(op) "%a = stablehlo." op " %x : $ %r = stablehlo." op " %a : $ return %r : $"
#define BIN(op, a, b) "%r = stablehlo." op " " a ", " b " : $ return %r : $"
#define GIVES(v) "return " v " : $"

static const rule_case cases[] = {
    {"stop_gradient(x) -> x", F4, ONE_PARAM,
     "%r = stablehlo.custom_call @quern.stop_gradient(%x) : ($) -> $ return %r : $", GIVES("%x")},
    {"checkpoint_name(x) -> x", F4, ONE_PARAM,
     "%r = stablehlo.custom_call @quern.checkpoint_name(%x) {name = \"h\"} : ($) -> $ return %r : $", GIVES("%x")},
    {"x+0 -> x", I4, ONE_PARAM, CONST("0") BIN("add", "%x", "%c"), GIVES("%x")},
    {"0+x -> x", I4, ONE_PARAM, CONST("0") BIN("add", "%c", "%x"), GIVES("%x")},
    {"x+(-0.0) -> x", F4, ONE_PARAM, CONST("-0.0") BIN("add", "%x", "%c"), GIVES("%x")},
    {"(-0.0)+x -> x", F4, ONE_PARAM, CONST("-0.0") BIN("add", "%c", "%x"), GIVES("%x")},
    {"x+(-y) -> x-y", F4, TWO_PARAMS, "%n = stablehlo.negate %y : $ " BIN("add", "%x", "%n"),
     BIN("subtract", "%x", "%y")},
    {"x-0 -> x", F4, ONE_PARAM, CONST("0.0") BIN("subtract", "%x", "%c"), GIVES("%x")},
    {"x-x -> 0", I4, ONE_PARAM, BIN("subtract", "%x", "%x"), CONST("0") GIVES("%c")},
    {"x-(-y) -> x+y", F4, TWO_PARAMS, "%n = stablehlo.negate %y : $ " BIN("subtract", "%x", "%n"),
     BIN("add", "%x", "%y")},
    {"x*1 -> x", F4, ONE_PARAM, CONST("1.0") BIN("multiply", "%x", "%c"), GIVES("%x")},
    {"1*x -> x", F4, ONE_PARAM, CONST("1.0") BIN("multiply", "%c", "%x"), GIVES("%x")},
    {"x*0 -> 0", I4, ONE_PARAM, CONST("0") BIN("multiply", "%x", "%c"), CONST("0") GIVES("%c")},
    {"0*x -> 0", I4, ONE_PARAM, CONST("0") BIN("multiply", "%c", "%x"), CONST("0") GIVES("%c")},
    {"x/1 -> x", F4, ONE_PARAM, CONST("1.0") BIN("divide", "%x", "%c"), GIVES("%x")},
    {"-(-x) -> x", F4, ONE_PARAM, UN2("negate"), GIVES("%x")},
    {"abs(abs(x)) -> abs(x)", F4, ONE_PARAM, UN2("abs"), UN("abs")},
    {"abs(-x) -> abs(x)", F4, ONE_PARAM, "%n = stablehlo.negate %x : $ %r = stablehlo.abs %n : $ return %r : $",
     UN("abs")},
    {"floor(floor(x)) -> floor(x)", F4, ONE_PARAM, UN2("floor"), UN("floor")},
    {"ceil(ceil(x)) -> ceil(x)", F4, ONE_PARAM, UN2("ceil"), UN("ceil")},
    {"round(round(x)) -> round(x)", F4, ONE_PARAM, UN2("round_nearest_even"), UN("round_nearest_even")},
    {"sign(sign(x)) -> sign(x)", F4, ONE_PARAM, UN2("sign"), UN("sign")},
    {"max(x,x) -> x", F4, ONE_PARAM, BIN("maximum", "%x", "%x"), GIVES("%x")},
    {"min(x,x) -> x", F4, ONE_PARAM, BIN("minimum", "%x", "%x"), GIVES("%x")},
    {"max(x,-inf) -> x", F4, ONE_PARAM, CONST("0xFF800000") BIN("maximum", "%x", "%c"), GIVES("%x")},
    {"max(-inf,x) -> x", F4, ONE_PARAM, CONST("0xFF800000") BIN("maximum", "%c", "%x"), GIVES("%x")},
    {"min(x,inf) -> x", F4, ONE_PARAM, CONST("0x7F800000") BIN("minimum", "%x", "%c"), GIVES("%x")},
    {"min(inf,x) -> x", F4, ONE_PARAM, CONST("0x7F800000") BIN("minimum", "%c", "%x"), GIVES("%x")},
    {"convert to the same dtype -> x", F4, ONE_PARAM, UN("convert"), GIVES("%x")},
    {"convert(widen(x)) -> convert(x)", "tensor<4xi8>", ONE_PARAM,
     "%a = stablehlo.convert %x : ($) -> tensor<4xi32> %r = stablehlo.convert %a : (tensor<4xi32>) -> tensor<4xi16> "
     "return %r : tensor<4xi16>",
     "%r = stablehlo.convert %x : ($) -> tensor<4xi16> return %r : tensor<4xi16>"},
    {"bitcast to the same dtype -> x", F4, ONE_PARAM, "%r = stablehlo.bitcast_convert %x : ($) -> $ return %r : $",
     GIVES("%x")},
    {"bitcast(bitcast(x)) -> bitcast(x)", F4, ONE_PARAM,
     "%a = stablehlo.bitcast_convert %x : ($) -> tensor<4xui32> %r = stablehlo.bitcast_convert %a : (tensor<4xui32>) "
     "-> tensor<4xi32> "
     "return %r : tensor<4xi32>",
     "%r = stablehlo.bitcast_convert %x : ($) -> tensor<4xi32> return %r : tensor<4xi32>"},
    /* bits, comparisons, choices */
    {"not(not(x)) -> x", I4, ONE_PARAM, UN2("not"), GIVES("%x")},
    {"not(compare) -> inverse compare", I4, TWO_PARAMS,
     "%a = stablehlo.compare LT, %x, %y, SIGNED : ($, $) -> tensor<4xi1> %r = stablehlo.not %a : tensor<4xi1> return "
     "%r : tensor<4xi1>",
     "%r = stablehlo.compare GE, %x, %y, SIGNED : ($, $) -> tensor<4xi1> return %r : tensor<4xi1>"},
    {"and(x,x) -> x", I4, ONE_PARAM, BIN("and", "%x", "%x"), GIVES("%x")},
    {"and(x,0) -> 0", I4, ONE_PARAM, CONST("0") BIN("and", "%x", "%c"), CONST("0") GIVES("%c")},
    {"and(0,x) -> 0", I4, ONE_PARAM, CONST("0") BIN("and", "%c", "%x"), CONST("0") GIVES("%c")},
    {"and(x,ones) -> x", B4, ONE_PARAM, CONST("true") BIN("and", "%x", "%c"), GIVES("%x")},
    {"and(ones,x) -> x", I4, ONE_PARAM, CONST("-1") BIN("and", "%c", "%x"), GIVES("%x")},
    {"or(x,x) -> x", I4, ONE_PARAM, BIN("or", "%x", "%x"), GIVES("%x")},
    {"or(x,0) -> x", I4, ONE_PARAM, CONST("0") BIN("or", "%x", "%c"), GIVES("%x")},
    {"or(0,x) -> x", B4, ONE_PARAM, CONST("false") BIN("or", "%c", "%x"), GIVES("%x")},
    {"or(x,ones) -> ones", B4, ONE_PARAM, CONST("true") BIN("or", "%x", "%c"), CONST("true") GIVES("%c")},
    {"or(ones,x) -> ones", I4, ONE_PARAM, CONST("-1") BIN("or", "%c", "%x"), CONST("-1") GIVES("%c")},
    {"xor(x,x) -> 0", I4, ONE_PARAM, BIN("xor", "%x", "%x"), CONST("0") GIVES("%c")},
    {"xor(x,0) -> x", I4, ONE_PARAM, CONST("0") BIN("xor", "%x", "%c"), GIVES("%x")},
    {"xor(0,x) -> x", I4, ONE_PARAM, CONST("0") BIN("xor", "%c", "%x"), GIVES("%x")},
    {"xor(x,ones) -> not(x)", B4, ONE_PARAM, CONST("true") BIN("xor", "%x", "%c"), UN("not")},
    {"shift_left(x,0) -> x", I4, ONE_PARAM, CONST("0") BIN("shift_left", "%x", "%c"), GIVES("%x")},
    {"shift_right_logical(x,0) -> x", I4, ONE_PARAM, CONST("0") BIN("shift_right_logical", "%x", "%c"), GIVES("%x")},
    {"shift_right_arithmetic(x,0) -> x", I4, ONE_PARAM, CONST("0") BIN("shift_right_arithmetic", "%x", "%c"),
     GIVES("%x")},
    {"compare(x,x) -> known", I4, ONE_PARAM,
     "%r = stablehlo.compare LE, %x, %x, SIGNED : ($, $) -> tensor<4xi1> return %r : tensor<4xi1>",
     "%c = stablehlo.constant dense<true> : tensor<4xi1> return %c : tensor<4xi1>"},
    {"select(p,x,x) -> x", F4, "%p: tensor<4xi1>, %x: $",
     "%r = stablehlo.select %p, %x, %x : tensor<4xi1>, $ return %r : $", GIVES("%x")},
    {"select(true,x,y) -> x", F4, TWO_PARAMS,
     "%c = stablehlo.constant dense<true> : tensor<i1> %r = stablehlo.select %c, %x, %y : tensor<i1>, $ return %r : $",
     GIVES("%x")},
    {"select(false,x,y) -> y", F4, TWO_PARAMS,
     "%c = stablehlo.constant dense<false> : tensor<4xi1> %r = stablehlo.select %c, %x, %y : tensor<4xi1>, $ return %r "
     ": $",
     GIVES("%y")},
    {"select(p,true,false) -> p", B4, "%p: $",
     "%t = stablehlo.constant dense<true> : $ %f = stablehlo.constant dense<false> : $ %r = stablehlo.select %p, %t, "
     "%f : $, $ return %r : $",
     GIVES("%p")},
    {"select(not(p),x,y) -> select(p,y,x)", F4, "%p: tensor<4xi1>, %x: $, %y: $",
     "%n = stablehlo.not %p : tensor<4xi1> %r = stablehlo.select %n, %x, %y : tensor<4xi1>, $ return %r : $",
     "%r = stablehlo.select %p, %y, %x : tensor<4xi1>, $ return %r : $"},
    /* shapes */
    {"broadcast of nothing -> x", F4, ONE_PARAM,
     "%r = stablehlo.broadcast_in_dim %x, dims = [0] : ($) -> $ return %r : $", GIVES("%x")},
    {"broadcast(broadcast(x)) -> broadcast(x)", F4, ONE_PARAM,
     "%a = stablehlo.broadcast_in_dim %x, dims = [1] : ($) -> tensor<3x4xf32> "
     "%r = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<3x4xf32>) -> tensor<3x2x4xf32> return %r : "
     "tensor<3x2x4xf32>",
     "%r = stablehlo.broadcast_in_dim %x, dims = [2] : ($) -> tensor<3x2x4xf32> return %r : tensor<3x2x4xf32>"},
    {"broadcast(reshape of units(x)) -> broadcast(x)", F4, ONE_PARAM,
     "%a = stablehlo.reshape %x : ($) -> tensor<1x4xf32> "
     "%r = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<3x4xf32> return %r : "
     "tensor<3x4xf32>",
     "%r = stablehlo.broadcast_in_dim %x, dims = [1] : ($) -> tensor<3x4xf32> return %r : tensor<3x4xf32>"},
    {"broadcast of units -> reshape", F4, ONE_PARAM,
     "%r = stablehlo.broadcast_in_dim %x, dims = [1] : ($) -> tensor<1x4xf32> return %r : tensor<1x4xf32>",
     "%r = stablehlo.reshape %x : ($) -> tensor<1x4xf32> return %r : tensor<1x4xf32>"},
    {"reshape to the same shape -> x", F4, ONE_PARAM, "%r = stablehlo.reshape %x : ($) -> $ return %r : $",
     GIVES("%x")},
    {"reshape(reshape(x)) -> reshape(x)", F4, ONE_PARAM,
     "%a = stablehlo.reshape %x : ($) -> tensor<2x2xf32> %r = stablehlo.reshape %a : (tensor<2x2xf32>) -> "
     "tensor<4x1xf32> return %r : tensor<4x1xf32>",
     "%r = stablehlo.reshape %x : ($) -> tensor<4x1xf32> return %r : tensor<4x1xf32>"},
    {"reshape(broadcast(scalar)) -> broadcast(scalar)", "tensor<f32>", ONE_PARAM,
     "%a = stablehlo.broadcast_in_dim %x, dims = [] : ($) -> tensor<6xf32> %r = stablehlo.reshape %a : (tensor<6xf32>) "
     "-> tensor<2x3xf32> "
     "return %r : tensor<2x3xf32>",
     "%r = stablehlo.broadcast_in_dim %x, dims = [] : ($) -> tensor<2x3xf32> return %r : tensor<2x3xf32>"},
    {"transpose of nothing -> x", "tensor<2x3xf32>", ONE_PARAM,
     "%r = stablehlo.transpose %x, dims = [0, 1] : ($) -> $ return %r : $", GIVES("%x")},
    {"transpose(transpose(x)) -> transpose(x)", "tensor<2x3x4xf32>", ONE_PARAM,
     "%a = stablehlo.transpose %x, dims = [1, 0, 2] : ($) -> tensor<3x2x4xf32> "
     "%r = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<3x2x4xf32>) -> tensor<4x2x3xf32> return %r : "
     "tensor<4x2x3xf32>",
     "%r = stablehlo.transpose %x, dims = [2, 0, 1] : ($) -> tensor<4x2x3xf32> return %r : tensor<4x2x3xf32>"},
    {"transpose(broadcast(x)) -> broadcast(x)", F4, ONE_PARAM,
     "%a = stablehlo.broadcast_in_dim %x, dims = [1] : ($) -> tensor<3x4xf32> "
     "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32> return %r : tensor<4x3xf32>",
     "%r = stablehlo.broadcast_in_dim %x, dims = [0] : ($) -> tensor<4x3xf32> return %r : tensor<4x3xf32>"},
    {"transpose of units -> reshape", "tensor<2x1x3xf32>", ONE_PARAM,
     "%r = stablehlo.transpose %x, dims = [0, 2, 1] : ($) -> tensor<2x3x1xf32> return %r : tensor<2x3x1xf32>",
     "%r = stablehlo.reshape %x : ($) -> tensor<2x3x1xf32> return %r : tensor<2x3x1xf32>"},
    {"reverse of nothing -> x", "tensor<1x3xf32>", ONE_PARAM, "%r = stablehlo.reverse %x, dims = [0] : $ return %r : $",
     GIVES("%x")},
    {"reverse(reverse(x)) -> x", "tensor<2x3xf32>", ONE_PARAM,
     "%a = stablehlo.reverse %x, dims = [0, 1] : $ %r = stablehlo.reverse %a, dims = [1, 0] : $ return %r : $",
     GIVES("%x")},
    {"slice of everything -> x", F4, ONE_PARAM, "%r = stablehlo.slice %x [0:4] : ($) -> $ return %r : $", GIVES("%x")},
    {"slice(slice(x)) -> slice(x)", "tensor<20xf32>", ONE_PARAM,
     "%a = stablehlo.slice %x [2:18:2] : ($) -> tensor<8xf32> %r = stablehlo.slice %a [1:8:3] : (tensor<8xf32>) -> "
     "tensor<3xf32> return %r : tensor<3xf32>",
     "%r = stablehlo.slice %x [4:17:6] : ($) -> tensor<3xf32> return %r : tensor<3xf32>"},
    {"pad by nothing -> x", F4, "%x: $, %v: tensor<f32>",
     "%r = stablehlo.pad %x, %v, low = [0], high = [0], interior = [0] : ($, tensor<f32>) -> $ return %r : $",
     GIVES("%x")},
    {"concatenate without empty operands", F4, "%x: $, %e: tensor<0xf32>",
     "%r = stablehlo.concatenate %e, %x, %e, dim = 0 : (tensor<0xf32>, $, tensor<0xf32>) -> $ return %r : $",
     GIVES("%x")},
    {"concatenate of all entries -> transpose", "tensor<4x2xf32>", "%x: tensor<2x4xf32>",
     "%a = stablehlo.slice %x [0:1, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32> "
     "%b = stablehlo.slice %x [1:2, 0:4] : (tensor<2x4xf32>) -> tensor<1x4xf32> "
     "%c = stablehlo.reshape %a : (tensor<1x4xf32>) -> tensor<4x1xf32> "
     "%d = stablehlo.reshape %b : (tensor<1x4xf32>) -> tensor<4x1xf32> "
     "%r = stablehlo.concatenate %c, %d, dim = 1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> $ return %r : $",
     "%r = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x4xf32>) -> $ return %r : $"},
    {"concatenate of all entries -> transpose", "tensor<3x2x4xf32>", "%x: tensor<2x3x4xf32>",
     "%a = stablehlo.slice %x [0:1, 0:3, 0:4] : (tensor<2x3x4xf32>) -> tensor<1x3x4xf32> "
     "%b = stablehlo.slice %x [1:2, 0:3, 0:4] : (tensor<2x3x4xf32>) -> tensor<1x3x4xf32> "
     "%c = stablehlo.reshape %a : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32> "
     "%d = stablehlo.reshape %b : (tensor<1x3x4xf32>) -> tensor<3x1x4xf32> "
     "%r = stablehlo.concatenate %c, %d, dim = 1 : (tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> $ return %r : $",
     "%r = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<2x3x4xf32>) -> $ return %r : $"},
    {"iota of one -> 0", "tensor<1x3xi32>", "", "%r = stablehlo.iota dim = 0 : $ return %r : $",
     CONST("0") GIVES("%c")},
    /* indexing, reductions, contractions */
    {"dynamic_slice at known starts -> slice", "tensor<5x4xf32>", "%x: $, %i: tensor<i32>",
     "%c = stablehlo.constant dense<9> : tensor<i32> "
     "%r = stablehlo.dynamic_slice %x, %c, %i, sizes = [2, 4] : ($, tensor<i32>, tensor<i32>) -> tensor<2x4xf32> "
     "return %r : tensor<2x4xf32>",
     "%r = stablehlo.slice %x [3:5, 0:4] : ($) -> tensor<2x4xf32> return %r : tensor<2x4xf32>"},
    {"dynamic_update_slice of everything -> update", F4, "%x: $, %y: $, %i: tensor<i32>",
     "%r = stablehlo.dynamic_update_slice %x, %y, %i : ($, $, tensor<i32>) -> $ return %r : $", GIVES("%y")},
    {"reduce of nothing -> init", "tensor<3x0xf32>", "%x: $, %i: tensor<f32>",
     "%r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : ($, tensor<f32>) -> "
     "tensor<3xf32> return %r : tensor<3xf32>",
     "%r = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<f32>) -> tensor<3xf32> return %r : tensor<3xf32>"},
    {"reduce of single elements -> op(init, x)", "tensor<3x1xf32>", "%x: $, %i: tensor<f32>",
     "%r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : ($, tensor<f32>) -> "
     "tensor<3xf32> return %r : tensor<3xf32>",
     "%a = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<f32>) -> tensor<3xf32> %b = stablehlo.reshape %x : ($) "
     "-> tensor<3xf32> "
     "%r = stablehlo.add %a, %b : tensor<3xf32> return %r : tensor<3xf32>"},
    {"dot over nothing -> 0", "tensor<2x0xf32>", "%x: $, %y: tensor<0x3xf32>",
     "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ($, tensor<0x3xf32>) -> tensor<2x3xf32> return "
     "%r : tensor<2x3xf32>",
     "%c = stablehlo.constant dense<0.0> : tensor<2x3xf32> return %c : tensor<2x3xf32>"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The result's type is what stands behind the last " : ". */
static qn_graph *parse(const char *params, const char *body, const char *type) {
  qn_text t = {0};
  const char *last = body;
  for (const char *at = strstr(body, " : "); at; at = strstr(at + 1, " : "))
    last = at + 3;
  const char *parts[] = {"func.func @main(", params, ") -> ", last, " { ", body, " }"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    for (const char *c = parts[i]; *c; c++)
      if (*c == '$')
        qn_text_puts(&t, type);
      else
        qn_text_putn(&t, c, 1);
  qn_graph *g = NULL;
  qn_status st = qn_graph_parse(t.buf, t.len, "case", &g);
  cr_assert(st == QN_OK, "%s\n%s", qn_error_message(), t.buf);
  qn_text_free(&t);
  return g;
}

/* Elements with everything that rules must respect: both zeros, NaN, infinities, extremes. */
static void fill(const qn_type *t, void *out, unsigned seed) {
  static const float floats[] = {1.5f, -0.0f, 0.0f, NAN, -2.25f, INFINITY, -INFINITY, 7.0f, 1e-40f, -3.5f};
  static const int32_t ints[] = {5, 0, -1, INT32_MIN, INT32_MAX, 7, -128, 1, 2, 1000003};
  int64_t n = qn_type_elements(t);
  size_t size = qn_dtype_size(t->dtype);
  for (int64_t i = 0; i < n; i++) {
    unsigned k = ((unsigned)i * 3 + seed) % 10;
    uint8_t bits[4];
    memcpy(bits, t->dtype == QN_F32 ? (const void *)&floats[k] : (const void *)&ints[k], 4);
    if (t->dtype == QN_BOOL)
      bits[0] = k % 3 == 0;
    memcpy((char *)out + (size_t)i * size, bits, size);
  }
}

static bool same_values(const qn_type *t, const void *a, const void *b) {
  int64_t n = qn_type_elements(t);
  size_t size = qn_dtype_size(t->dtype);
  for (int64_t i = 0; i < n; i++) {
    const char *x = (const char *)a + (size_t)i * size, *y = (const char *)b + (size_t)i * size;
    float f = 0, g = 0;
    if (t->dtype == QN_F32) {
      memcpy(&f, x, sizeof f);
      memcpy(&g, y, sizeof g);
    }
    if (memcmp(x, y, size) != 0 && !(f != f && g != g))
      return false;
  }
  return true;
}

static void expect_same_results(const qn_graph *a, const qn_graph *b, const char *what) {
  enum { ROOM = 1024 };
  static double in[4][ROOM], out[2][ROOM];
  const void *inputs[4];
  for (unsigned seed = 0; seed < 10; seed++) {
    for (size_t i = 0; i < qn_graph_param_count(a); i++) {
      fill(qn_graph_type(a, qn_graph_param_at(a, i)), in[i], seed + (unsigned)i);
      inputs[i] = in[i];
    }
    void *outputs[2] = {out[0], out[1]};
    QN_EXPECT_OK(qn_graph_eval_ref(a, inputs, &outputs[0]));
    QN_EXPECT_OK(qn_graph_eval_ref(b, inputs, &outputs[1]));
    cr_expect(same_values(qn_graph_type(a, qn_graph_result(a, 0)), out[0], out[1]), "%s: results differ", what);
  }
}

static void expect_graph(const qn_graph *got, const qn_graph *want, const char *what) {
  qn_text a = {0}, b = {0};
  qn_graph_print(got, &a);
  qn_graph_print(want, &b);
  cr_expect(qn_graph_equal(got, want), "%s: got\n%s\nexpected\n%s", what, a.buf, b.buf);
  qn_text_free(&a);
  qn_text_free(&b);
}

Test(optimize, every_rule_case) {
  for (size_t i = 0; i < CASES; i++) {
    const rule_case *c = &cases[i];
    qn_graph *g = parse(c->params, c->before, c->type), *want = parse(c->params, c->after, c->type), *got = NULL;
    qn_text log = {0};
    QN_ASSERT_OK(qn_graph_optimize(g, &(qn_optimize_desc){.log = &log}, &got));
    cr_expect(log.buf && strstr(log.buf, c->name), "%s was not applied; the log is: %s", c->name,
              log.buf ? log.buf : "empty");
    expect_graph(got, want, c->name);
    expect_same_results(g, got, c->name);
    QN_EXPECT_OK(qn_graph_verify(got));
    qn_text_free(&log);
    qn_graph_release(g);
    qn_graph_release(want);
    qn_graph_release(got);
  }
}

Test(optimize, every_rule_has_a_case) {
  const qn_rewrites *lists[] = {&qn_rules_lower, &qn_rules_arith, &qn_rules_logic, &qn_rules_shape, &qn_rules_index};
  for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
    for (int r = 0; r < lists[l]->count; r++) {
      bool found = false;
      for (size_t i = 0; i < CASES && !found; i++)
        found = strcmp(cases[i].name, lists[l]->rules[r].name) == 0;
      cr_expect(found, "rule \"%s\" has no case", lists[l]->rules[r].name);
    }
}

/* What would change bits must stay. */
static const rule_case kept[] = {
    {"x+0.0 keeps -0", F4, ONE_PARAM, CONST("0.0") BIN("add", "%x", "%c"), NULL},
    {"x-(-0.0)", F4, ONE_PARAM, CONST("-0.0") BIN("subtract", "%x", "%c"), NULL},
    {"x*0.0 keeps NaN", F4, ONE_PARAM, CONST("0.0") BIN("multiply", "%x", "%c"), NULL},
    {"x-x keeps NaN", F4, ONE_PARAM, BIN("subtract", "%x", "%x"), NULL},
    {"x==x asks for NaN", F4, ONE_PARAM,
     "%r = stablehlo.compare EQ, %x, %x, FLOAT : ($, $) -> tensor<4xi1> return %r : tensor<4xi1>", NULL},
    {"not(x<y) with NaN", F4, TWO_PARAMS,
     "%a = stablehlo.compare LT, %x, %y, FLOAT : ($, $) -> tensor<4xi1> %r = stablehlo.not %a : tensor<4xi1> return %r "
     ": tensor<4xi1>",
     NULL},
    {"f32 through bf16 loses bits", F4, ONE_PARAM,
     "%a = stablehlo.convert %x : ($) -> tensor<4xbf16> %r = stablehlo.convert %a : (tensor<4xbf16>) -> $ return %r : "
     "$",
     NULL},
    {"i32 through f32 saturates", I4, ONE_PARAM,
     "%a = stablehlo.convert %x : ($) -> tensor<4xf32> %r = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi8> "
     "return %r : tensor<4xi8>",
     NULL},
    {"(x+y)-y", F4, TWO_PARAMS, "%a = stablehlo.add %x, %y : $ " BIN("subtract", "%a", "%y"), NULL},
    {"a true transpose", "tensor<2x3xf32>", ONE_PARAM,
     "%r = stablehlo.transpose %x, dims = [1, 0] : ($) -> tensor<3x2xf32> return %r : tensor<3x2xf32>", NULL},
    {"unknown start", F4, "%x: $, %i: tensor<i32>",
     "%r = stablehlo.dynamic_slice %x, %i, sizes = [2] : ($, tensor<i32>) -> tensor<2xf32> return %r : tensor<2xf32>",
     NULL},
};

Test(optimize, what_would_change_bits_stays) {
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    qn_graph *g = parse(kept[i].params, kept[i].before, kept[i].type), *got = NULL;
    QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
    expect_graph(got, g, kept[i].name);
    qn_graph_release(g);
    qn_graph_release(got);
  }
}

/* ---- folding ---- */
static const rule_case folds[] = {
    {"splats", F4, ONE_PARAM,
     "%a = stablehlo.constant dense<1.5> : $ %b = stablehlo.constant dense<2.0> : $ %c = stablehlo.multiply %a, %b : "
     "$ " BIN("add", "%x", "%c"),
     CONST("3.0") BIN("add", "%x", "%c")},
    {"arrays", I4, "",
     "%a = stablehlo.constant dense<[1, 2, 3, 4]> : $ %b = stablehlo.constant dense<10> : $ " BIN("multiply", "%a",
                                                                                                  "%b"),
     CONST("[10, 20, 30, 40]") GIVES("%c")},
    {"broadcast of a scalar", "tensor<2x3xf32>", "",
     "%a = stablehlo.constant dense<2.0> : tensor<f32> %r = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) "
     "-> $ return %r : $",
     CONST("2.0") GIVES("%c")},
    {"transpose", "tensor<3x2xi32>", "",
     "%a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32> "
     "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xi32>) -> $ return %r : $",
     CONST("[[1, 4], [2, 5], [3, 6]]") GIVES("%c")},
    {"concatenate", I4, "",
     "%a = stablehlo.constant dense<[1, 2]> : tensor<2xi32> %b = stablehlo.constant dense<7> : tensor<2xi32> "
     "%r = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xi32>, tensor<2xi32>) -> $ return %r : $",
     CONST("[1, 2, 7, 7]") GIVES("%c")},
    {"convert rounds to bf16", "tensor<bf16>", "",
     "%a = stablehlo.constant dense<1.00390625> : tensor<f32> %r = stablehlo.convert %a : (tensor<f32>) -> $ return %r "
     ": $",
     CONST("1.0") GIVES("%c")},
    {"convert saturates", "tensor<i8>", "",
     "%a = stablehlo.constant dense<300.0> : tensor<f32> %r = stablehlo.convert %a : (tensor<f32>) -> $ return %r : $",
     CONST("127") GIVES("%c")},
    {"bitcast", "tensor<ui32>", "",
     "%a = stablehlo.constant dense<1.0> : tensor<f32> %r = stablehlo.bitcast_convert %a : (tensor<f32>) -> $ return "
     "%r : $",
     CONST("1065353216") GIVES("%c")},
    {"compare", B4, "",
     "%a = stablehlo.constant dense<[1, 5, 3, 3]> : tensor<4xi32> %b = stablehlo.constant dense<3> : tensor<4xi32> "
     "%r = stablehlo.compare GT, %a, %b, SIGNED : (tensor<4xi32>, tensor<4xi32>) -> $ return %r : $",
     CONST("[false, true, false, false]") GIVES("%c")},
    {"f16 sum in f32, rounded once", "tensor<f16>", "",
     "%a = stablehlo.constant dense<2048.0> : $ %b = stablehlo.constant dense<1.0> : $ " BIN("add", "%a", "%b"),
     CONST("2048.0") GIVES("%c")},
    {"integer division by zero", "tensor<i32>", "",
     "%a = stablehlo.constant dense<5> : $ %b = stablehlo.constant dense<0> : $ " BIN("divide", "%a", "%b"),
     CONST("-1") GIVES("%c")},
    {"no elements", "tensor<0x3xf32>", ONE_PARAM, BIN("add", "%x", "%x"), CONST("") GIVES("%c")},
};

Test(optimize, folds_constants) {
  for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
    const rule_case *c = &folds[i];
    qn_graph *g = parse(c->params, c->before, c->type), *want = parse(c->params, c->after, c->type), *got = NULL;
    QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
    expect_graph(got, want, c->name);
    qn_graph_release(got);
    QN_ASSERT_OK(qn_graph_optimize(g, &(qn_optimize_desc){.no_fold = true, .no_simplify = true, .no_cse = true}, &got));
    expect_graph(got, g, c->name);
    qn_graph_release(got);
    qn_graph_release(g);
    qn_graph_release(want);
  }
}

Test(optimize, folds_no_more_than_its_budget) {
  qn_graph *g, *got;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  static int32_t data[5000];
  for (int i = 0; i < 5000; i++)
    data[i] = i;
  qn_type t = qn_type_of(QN_I32, 1, 5000);
  qn_val a = qn_constant(g, t, data), r[5];
  for (int i = 0; i < 5; i++)
    r[i] = qn_add(a, qn_full(g, t, i + 1)); /* 20000 bytes each: three fit */
  QN_ASSERT_OK(qn_graph_seal(g, r, 5));
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
  int folded = 0;
  for (size_t i = 0; i < 5; i++)
    folded += qn_graph_def(got, qn_graph_result(got, i))->op == QN_OP_CONSTANT;
  cr_expect(folded == 3, "%d results were folded", folded);
  qn_graph_release(g);
  qn_graph_release(got);
}

/* ---- common subexpressions, dead code, regions, lowering ---- */
Test(optimize, joins_equal_nodes_and_drops_dead_ones) {
  qn_graph *g = parse(TWO_PARAMS,
                      "%a = stablehlo.tanh %x : $ %b = stablehlo.tanh %x : $ %dead = stablehlo.exponential %y : $ " BIN(
                          "multiply", "%a", "%b"),
                      F4);
  qn_graph *want = parse(TWO_PARAMS, "%a = stablehlo.tanh %x : $ " BIN("multiply", "%a", "%a"), F4), *got;
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
  expect_graph(got, want, "cse");
  qn_graph_release(got);
  QN_ASSERT_OK(qn_graph_optimize(g, &(qn_optimize_desc){.no_cse = true}, &got));
  cr_expect(qn_graph_node_count(got) == 5, "only dead code goes without cse");
  qn_graph_release(got);
  qn_graph_release(g);
  qn_graph_release(want);
}

Test(optimize, joins_equal_reductions_and_tells_others_apart) {
  const char *text =
      "%i = stablehlo.constant dense<0.0> : tensor<f32> "
      "%a = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0] : ($, tensor<f32>) -> "
      "tensor<f32> "
      "%b = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0] : ($, tensor<f32>) -> "
      "tensor<f32> "
      "%c = stablehlo.reduce(%x init: %i) applies stablehlo.maximum across dimensions = [0] : ($, tensor<f32>) -> "
      "tensor<f32> "
      "%d = stablehlo.add %a, %b : tensor<f32> %e = stablehlo.add %d, %c : tensor<f32> return %e : tensor<f32>";
  qn_graph *g = parse(ONE_PARAM, text, F4), *got;
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
  int reductions = 0;
  for (size_t i = 0; i < qn_graph_node_count(got); i++)
    reductions += qn_graph_node(got, i)->op == QN_OP_REDUCE;
  cr_expect(reductions == 2, "%d reductions", reductions);
  qn_graph_release(g);
  qn_graph_release(got);
}

Test(optimize, optimises_regions) {
  const char *text = "%i = stablehlo.constant dense<0> : tensor<i32> "
                     "%r = stablehlo.reduce(%x init: %i) across dimensions = [0] : ($, tensor<i32>) -> tensor<i32> "
                     "reducer(%a: tensor<i32>, %b: tensor<i32>) { %z = stablehlo.constant dense<0> : tensor<i32> "
                     "%s = stablehlo.add %a, %z : tensor<i32> %t = stablehlo.add %s, %b : tensor<i32> stablehlo.return "
                     "%t : tensor<i32> } "
                     "return %r : tensor<i32>";
  qn_graph *g = parse(ONE_PARAM, text, I4), *got;
  QN_ASSERT_OK(qn_graph_optimize(g, NULL, &got));
  const qn_node *reduce = qn_graph_def(got, qn_graph_result(got, 0));
  cr_assert(reduce->op == QN_OP_REDUCE && reduce->region_count == 1);
  cr_expect(qn_graph_node_count(reduce->regions[0]) == 3, "two parameters and a sum");
  qn_graph_release(g);
  qn_graph_release(got);
}

static qn_graph *function_of(int results, bool doubled) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 4), NULL), y = qn_graph_param(g, qn_type_of(QN_F32, 1, 4), NULL);
  qn_val r[2] = {qn_mul(x, y), doubled ? y : x};
  QN_ASSERT_OK(qn_graph_seal(g, r, (size_t)results));
  return g;
}

Test(optimize, lowers_custom_vjp_to_its_primal) {
  qn_graph *primal = function_of(1, false), *forward = function_of(2, false), *backward = function_of(2, true), *g,
           *got;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  qn_val in[2] = {qn_graph_param(g, qn_type_of(QN_F32, 1, 4), "x"), qn_graph_param(g, qn_type_of(QN_F32, 1, 4), "y")},
         out;
  qn_custom_vjp(in, 2, primal, forward, backward, &out);
  QN_ASSERT_OK(qn_graph_seal(g, &out, 1));
  QN_ASSERT_OK(qn_graph_optimize(g, &(qn_optimize_desc){.no_simplify = true, .no_cse = true, .no_fold = true}, &got));
  cr_expect(qn_graph_def(got, qn_graph_result(got, 0))->op == QN_OP_MULTIPLY);
  cr_expect_str_eq(qn_graph_param_path(got, 1), "y");
  qn_graph *all[] = {primal, forward, backward, g, got};
  for (size_t i = 0; i < 5; i++)
    qn_graph_release(all[i]);
}

Test(optimize, shared_programs_keep_their_interface_and_settle) {
  static const char *const files[] = {"stablehlo/seed000_train_step.mlir", "stablehlo/transformer_step.mlir",
                                      "stablehlo/rng_normal.mlir", "stablehlo/gather_scatter.mlir",
                                      "stablehlo/reduce_kinds.mlir"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[1024];
    qn_bytes text;
    qn_graph *g, *once, *twice;
    if (!qn_test_shared_path(files[i], path, sizeof path))
      cr_skip_test("no shared data");
    QN_ASSERT_OK(qn_file_read(path, &text));
    QN_ASSERT_OK(qn_graph_parse((const char *)text.data, text.size, files[i], &g));
    QN_ASSERT_OK(qn_graph_optimize(g, NULL, &once));
    QN_ASSERT_OK(qn_graph_verify(once));
    QN_ASSERT_OK(qn_graph_optimize(once, NULL, &twice));
    cr_expect(qn_graph_equal(once, twice), "%s does not settle", files[i]);
    cr_expect(qn_graph_node_count(once) < qn_graph_node_count(g));
    cr_expect(qn_graph_param_count(once) == qn_graph_param_count(g));
    cr_assert(qn_graph_result_count(once) == qn_graph_result_count(g));
    for (size_t r = 0; r < qn_graph_result_count(g); r++) {
      cr_expect(qn_type_equal(qn_graph_type(g, qn_graph_result(g, r)), qn_graph_type(once, qn_graph_result(once, r))));
      cr_expect_str_eq(qn_graph_result_path(g, r), qn_graph_result_path(once, r));
    }
    qn_graph_release(g);
    qn_graph_release(once);
    qn_graph_release(twice);
    free(text.data);
  }
}
