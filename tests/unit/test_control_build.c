/* Builders of control flow: closures, refusals, prefixes; and what optimisation makes of loops and branches. */
#include <math.h>

#include "expect.h"
#include "quern/control.h"
#include "quern/op.h"
#include "quern/ops.h"

#define BODY(name) static void name(qn_graph *g, const qn_val *in, qn_val *out, void *user)

static qn_graph *open_graph(void) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("f", &g));
  return g;
}

static const qn_node *find_op(const qn_graph *g, qn_op op) {
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    if (qn_graph_node(g, i)->op == op)
      return qn_graph_node(g, i);
  return NULL;
}

static void run(const qn_graph *g, const void *const *in, void *const *out) {
  QN_ASSERT_OK(qn_graph_eval_ref(g, in, out));
}

/* ---- closures ---- */
typedef struct outer {
  qn_val a, b;
} outer;

/* `a` is of the graph around the outer loop, `in` of the loop between: both are seen from the innermost body. */
BODY(inner_sum) {
  const outer *o = user;
  (void)g;
  out[0] = qn_add(qn_add(in[1], qn_mul(o->a, qn_convert(in[0], QN_F32))), o->b);
}
BODY(outer_sum) {
  const outer *o = user;
  outer mine = {o->a, qn_convert(in[0], QN_F32)};
  qn_fori(g, 0, 3, &in[1], 1, inner_sum, &mine, out);
}
Test(control_build, closures_reach_every_graph_around) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL), zero = qn_scalar(g, QN_F32, 0), y;
  outer o = {.a = x};
  qn_fori(g, 0, 4, &zero, 1, outer_sum, &o, &y);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  const qn_node *loop = find_op(g, QN_OP_WHILE);
  cr_assert(loop != NULL);
  cr_expect_eq(qn_node_captures(loop), 1);
  cr_expect_eq(((const qn_attr_while *)loop->attr)->trip_count, 4);
  float in = 10, got;
  run(g, (const void *[]){&in}, (void *[]){&got});
  cr_expect_eq(got, 4 * 10 * 3 + 3 * 6, "%g", (double)got);
  qn_graph_release(g);
}

/* Operations on outer values alone stay outside, so they run once. */
BODY(add_sine) {
  (void)g;
  out[0] = qn_add(in[1], qn_sin(*(const qn_val *)user));
}
Test(control_build, what_needs_no_carry_is_computed_outside) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL), y;
  qn_fori(g, 0, 100, &x, 1, add_sine, &x, &y);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  cr_expect(find_op(g, QN_OP_SINE) != NULL);
  cr_expect(find_op(find_op(g, QN_OP_WHILE)->regions[1], QN_OP_SINE) == NULL);
  qn_graph_release(g);
}

/* A body may give values from outside as they are. */
BODY(give_outer) {
  (void)g;
  (void)in;
  out[0] = *(const qn_val *)user;
}
BODY(give_own) {
  (void)g;
  (void)user;
  out[0] = in[0];
}
Test(control_build, results_may_be_outer_values) {
  qn_graph *g = open_graph();
  qn_val p = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL), x = qn_graph_param(g, qn_type_scalar(QN_I32), NULL),
         w = qn_graph_param(g, qn_type_scalar(QN_I32), NULL), y;
  qn_cond(g, p, &x, 1, give_outer, give_own, &w, &y, 1);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  for (int k = 0; k < 2; k++) {
    bool pred = k == 0;
    int32_t got;
    run(g, (const void *[]){&pred, &(int32_t){5}, &(int32_t){7}}, (void *[]){&got});
    cr_expect_eq(got, pred ? 7 : 5);
  }
  qn_graph_release(g);
}

/* A value that outlives its region is refused wherever it's used. */
BODY(leak) {
  (void)g;
  *(qn_val *)user = out[0] = qn_add(in[1], in[1]);
}
Test(control_build, values_do_not_leave_their_region) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL), y, inside = QN_NULL_VAL;
  qn_fori(g, 0, 2, &x, 1, leak, &inside, &y);
  qn_val z = qn_add(y, inside);
  QN_EXPECT_FAIL(qn_graph_seal(g, &z, 1), QN_INVALID, "add: operand 1 belongs to another graph");
  qn_graph_release(g);
}

/* ---- refusals ---- */
BODY(to_f64) {
  (void)g;
  (void)user;
  out[0] = out[1] = qn_convert(in[0], QN_F64);
}
BODY(nothing) {
  (void)g;
  (void)in;
  (void)out;
  (void)user;
}
static void scan_of_other_type(qn_graph *g, qn_val *out) {
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_scan_desc d = {.init = &x, .carries = 1, .outputs = 1, .length = 3, .body = to_f64};
  qn_scan(g, &d, out);
}
static void scan_without_length(qn_graph *g, qn_val *out) {
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_scan_desc d = {.init = &x, .carries = 1, .body = give_own};
  qn_scan(g, &d, out);
}
static void scan_of_unequal_rows(qn_graph *g, qn_val *out) {
  qn_val xs[] = {qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL), qn_graph_param(g, qn_type_of(QN_F32, 1, 4), NULL)};
  qn_scan_desc d = {.xs = xs, .inputs = 2, .outputs = 1, .body = give_own};
  qn_scan(g, &d, out);
}
static void body_without_result(qn_graph *g, qn_val *out) {
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_fori(g, 0, 3, &x, 1, nothing, NULL, out);
}
static void bounds_of_two_dtypes(qn_graph *g, qn_val *out) {
  qn_val lo = qn_graph_param(g, qn_type_scalar(QN_I32), NULL), hi = qn_graph_param(g, qn_type_scalar(QN_I64), NULL);
  qn_fori_between(g, lo, hi, &lo, 1, give_own, NULL, out);
}
static void switch_by_float(qn_graph *g, qn_val *out) {
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  const qn_body_fn fns[] = {give_own};
  qn_switch(g, x, fns, 1, &x, 1, NULL, out, 1);
}
static void prefixes_of_scalar(qn_graph *g, qn_val *out) {
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_associative_scan(g, &x, 1, 0, false, give_own, NULL, out);
}
Test(control_build, refusals) {
  static const struct {
    void (*build)(qn_graph *g, qn_val *out);
    const char *message;
  } cases[] = {
      {scan_of_other_type, "scan: carry 0 is f32[] at first and f64[] after a step"},
      {scan_without_length, "scan: length 0 and no inputs"},
      {scan_of_unequal_rows, "scan: input 1 is f32[4], expected 3 rows"},
      {body_without_result, "body: result 1 is the null value"},
      {bounds_of_two_dtypes, "fori: from i32[] to i64[], expected two integer scalars of one dtype"},
      {switch_by_float, "switch: the index is f32[], expected an integer scalar"},
      {prefixes_of_scalar, "associative_scan: operand 0 is f32[], which does not fit axis 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    qn_graph *g = open_graph();
    qn_val out[4] = {QN_NULL_VAL};
    cases[i].build(g, out);
    cr_expect(!qn_val_ok(out[0]), "case %zu", i);
    QN_EXPECT_FAIL(qn_graph_seal(g, out, 1), QN_INVALID, cases[i].message);
    qn_graph_release(g);
  }
}

/* ---- prefixes ---- */
/* Composition of affine maps, which does not commute. */
BODY(compose) {
  (void)g;
  (void)user;
  out[0] = qn_mul(in[0], in[2]);
  out[1] = qn_add(qn_mul(in[1], in[2]), in[3]);
}
Test(control_build, prefixes_of_every_length) {
  for (int64_t n = 1; n < 12; n++)
    for (int reverse = 0; reverse < 2; reverse++) {
      qn_graph *g = open_graph();
      qn_type t = qn_type_of(QN_F64, 2, 2, n);
      qn_val x[] = {qn_graph_param(g, t, NULL), qn_graph_param(g, t, NULL)}, y[2];
      qn_associative_scan(g, x, 2, -1, reverse != 0, compose, NULL, y);
      QN_ASSERT_OK(qn_graph_seal(g, y, 2));
      double a[24], b[24], pa[24], pb[24];
      for (int i = 0; i < 24; i++) {
        a[i] = 1 + (i % 3) * 0.5;
        b[i] = i * 0.25 - 1;
      }
      run(g, (const void *[]){a, b}, (void *[]){pa, pb});
      for (int64_t row = 0; row < 2; row++) {
        double ca = 1, cb = 0;
        for (int64_t k = 0; k < n; k++) {
          int64_t at = row * n + (reverse ? n - 1 - k : k);
          cb = cb * a[at] + b[at];
          ca *= a[at];
          cr_expect(fabs(pa[at] - ca) < 1e-9 && fabs(pb[at] - cb) < 1e-9, "%d of %d", (int)k, (int)n);
        }
      }
      qn_graph_release(g);
    }
}

/* ---- optimisation ---- */
static qn_graph *optimized(qn_graph *g, const char *rule) {
  qn_text log = {0};
  qn_optimize_desc desc = {.log = &log};
  qn_graph *better = NULL;
  QN_ASSERT_OK(qn_graph_optimize(g, &desc, &better));
  cr_expect(log.buf && strstr(log.buf, rule), "'%s' did not fire: %s", rule, log.buf ? log.buf : "");
  qn_text_free(&log);
  qn_graph_release(g);
  return better;
}

static qn_graph *parsed(const char *text) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_parse(text, strlen(text), "x.mlir", &g));
  return g;
}

/* A loop of JAX's: everything is a carry, and the limit is a constant. */
#define LOOP(limit, step)                                                                                              \
  "func.func @main(%x: tensor<f32>, %w: tensor<f32>) -> tensor<f32> {\n"                                               \
  "  %z = stablehlo.constant dense<0> : tensor<i32>\n"                                                                 \
  "  %0:5 = stablehlo.while(%a = %w, %i = %z, %y = %x, %k = %z, %d = %x) : tensor<f32>, tensor<i32>, tensor<f32>, "    \
  "tensor<i32>, tensor<f32> cond {\n"                                                                                  \
  "    %n = stablehlo.constant dense<" limit "> : tensor<i32>\n"                                                       \
  "    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"                                 \
  "    stablehlo.return %1 : tensor<i1>\n"                                                                             \
  "  } do {\n"                                                                                                         \
  "    %one = stablehlo.constant dense<" step "> : tensor<i32>\n"                                                      \
  "    %1 = stablehlo.add %i, %one : tensor<i32>\n"                                                                    \
  "    %2 = stablehlo.add %k, %one : tensor<i32>\n"                                                                    \
  "    %3 = stablehlo.convert %k : (tensor<i32>) -> tensor<f32>\n"                                                     \
  "    %4 = stablehlo.multiply %a, %3 : tensor<f32>\n"                                                                 \
  "    %5 = stablehlo.add %y, %4 : tensor<f32>\n"                                                                      \
  "    %6 = stablehlo.sine %d : tensor<f32>\n"                                                                         \
  "    stablehlo.return %a, %1, %5, %2, %6 : tensor<f32>, tensor<i32>, tensor<f32>, tensor<i32>, tensor<f32>\n"        \
  "  }\n"                                                                                                              \
  "  return %0#2 : tensor<f32>\n"                                                                                      \
  "}\n"

static float loop_value(const qn_graph *g) {
  float x = 1, w = 2, y;
  run(g, (const void *[]){&x, &w}, (void *[]){&y});
  return y;
}

Test(control_build, loops_lose_what_does_nothing) {
  qn_graph *g = optimized(parsed(LOOP("30", "1")), "while: carries and captures");
  const qn_node *loop = find_op(g, QN_OP_WHILE);
  cr_assert(loop != NULL);
  cr_expect_eq(loop->result_count, 2, "one counter and y are left, not %d carries", loop->result_count);
  cr_expect_eq(qn_node_captures(loop), 1, "w is captured");
  cr_expect_eq(((const qn_attr_while *)loop->attr)->trip_count, 30);
  cr_expect_eq(loop_value(g), 1 + 2 * 435);
  qn_graph_release(g);
}

Test(control_build, short_loops_are_unrolled) {
  qn_graph *g = optimized(parsed(LOOP("5", "1")), "while: unrolled");
  cr_expect(find_op(g, QN_OP_WHILE) == NULL);
  cr_expect_eq(loop_value(g), 1 + 2 * 10);
  qn_graph_release(g);
  g = optimized(parsed(LOOP("5", "2")), "while: unrolled");
  cr_expect_eq(loop_value(g), 1 + 2 * (0 + 2 + 4));
  qn_graph_release(g);
  g = optimized(parsed(LOOP("-3", "1")), "while: no iteration");
  cr_expect(find_op(g, QN_OP_WHILE) == NULL);
  cr_expect_eq(loop_value(g), 1);
  qn_graph_release(g);
}

static int64_t trips(const char *compare, const char *start, const char *limit, const char *step) {
  qn_text text = {0};
  qn_text_add(&text,
              "func.func @main() -> tensor<i32> {\n"
              "  %%z = stablehlo.constant dense<%s> : tensor<i32>\n"
              "  %%n = stablehlo.constant dense<%s> : tensor<i32>\n"
              "  %%0 = stablehlo.while(%%i = %%z) : tensor<i32> cond {\n"
              "    %%1 = stablehlo.compare %s, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
              "    stablehlo.return %%1 : tensor<i1>\n"
              "  } do {\n"
              "    %%s = stablehlo.constant dense<%s> : tensor<i32>\n"
              "    %%1 = stablehlo.add %%s, %%i : tensor<i32>\n"
              "    stablehlo.return %%1 : tensor<i32>\n"
              "  }\n"
              "  return %%0 : tensor<i32>\n"
              "}\n",
              start, limit, compare, step);
  qn_graph *g = parsed(text.buf);
  int64_t n = qn_while_trips(g, find_op(g, QN_OP_WHILE));
  qn_graph_release(g);
  qn_text_free(&text);
  return n;
}

Test(control_build, trip_counts) {
  cr_expect_eq(trips("LT", "0", "10", "1"), 10);
  cr_expect_eq(trips("LE", "0", "10", "1"), 11);
  cr_expect_eq(trips("LT", "0", "10", "3"), 4);
  cr_expect_eq(trips("GT", "10", "0", "-3"), 4);
  cr_expect_eq(trips("GE", "10", "0", "-5"), 3);
  cr_expect_eq(trips("NE", "10", "0", "-5"), 2);
  cr_expect_eq(trips("NE", "10", "0", "-3"), -1, "steps over its limit");
  cr_expect_eq(trips("LT", "10", "0", "1"), 0);
  cr_expect_eq(trips("LT", "0", "10", "-1"), -1, "counts the wrong way");
  cr_expect_eq(trips("LT", "0", "10", "0"), -1, "stands still");
  cr_expect_eq(trips("LE", "0", "2147483647", "1"), -1, "wraps around");
  cr_expect_eq(trips("EQ", "0", "0", "1"), -1);
}

Test(control_build, known_branches_are_inlined) {
  static const char text[] = "func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
                             "  %c = stablehlo.constant dense<9> : tensor<i32>\n"
                             "  %0:2 = \"stablehlo.case\"(%c) ({\n"
                             "    %1 = stablehlo.sine %x : tensor<f32>\n"
                             "    stablehlo.return %1, %x : tensor<f32>, tensor<f32>\n"
                             "  }, {\n"
                             "    %1 = stablehlo.negate %x : tensor<f32>\n"
                             "    stablehlo.return %1, %x : tensor<f32>, tensor<f32>\n"
                             "  }) : (tensor<i32>) -> (tensor<f32>, tensor<f32>)\n"
                             "  return %0#0, %0#1 : tensor<f32>, tensor<f32>\n"
                             "}\n";
  qn_graph *g = optimized(parsed(text), "branches: a known one");
  cr_expect(find_op(g, QN_OP_CASE) == NULL && find_op(g, QN_OP_SINE) == NULL && find_op(g, QN_OP_NEGATE) != NULL);
  qn_graph_release(g);
  qn_text other = {0};
  qn_text_puts(&other, text);
  char *at = strstr(other.buf, "\"(%c)");
  memcpy(at, "\"(%i)", 5);
  g = optimized(parsed(other.buf), "branches: captures and results");
  const qn_node *n = find_op(g, QN_OP_CASE);
  cr_assert(n != NULL);
  cr_expect_eq(n->result_count, 1, "the second result is x in each branch");
  const float x = 2;
  float y[2];
  run(g, (const void *[]){&(int32_t){1}, &x}, (void *[]){&y[0], &y[1]});
  cr_expect(y[0] == -2 && y[1] == 2);
  qn_text_free(&other);
  qn_graph_release(g);
}
