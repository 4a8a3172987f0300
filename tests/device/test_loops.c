/* Loops and branches on every device, against the oracle: counted and data-dependent, in each other, in branches, with carries of many kinds;
 * in place of donated arguments, several calls in flight, and the way out of one that doesn't end. */
#include <math.h>

#include "graph_check.h"
#include "quern/op.h"

typedef struct loop_case {
  const char *name, *params, *results, *body; /* of @main */
  double tolerance;
  int numbers[3]; /* what integer parameters get, in turn; runs of the case */
  int64_t trips;  /* not 0: what every loop without a trip count gets */
} loop_case;

#define LOOP(results, carries, types) "%" #results " = stablehlo.while(" carries ") : " types
#define BINARY(r, op, a, b, t) "%" #r " = stablehlo." #op " %" #a ", %" #b " : tensor<" t ">\n"
#define LESS(r, a, b, t)                                                                                               \
  "%" #r " = stablehlo.compare LT, %" #a ", %" #b " : (tensor<" t ">, tensor<" t ">) -> tensor<i1>\n"
#define CONST(r, x, t) "%" #r " = stablehlo.constant dense<" #x "> : tensor<" t ">\n"
#define COND_LESS(a, b) " cond {\n" LESS(p, a, b, "i32") "stablehlo.return %p : tensor<i1>\n} do {\n"

/* clang-format off */
static const loop_case cases[] = {
    {"power",
     "%x: tensor<3xf32>, %n: tensor<i32>",
     "tensor<3xf32>, tensor<i32>",
     CONST(z, 0, "i32") CONST(y, 1.0, "3xf32")
     LOOP(0:2, "%i = %z, %a = %y", "tensor<i32>, tensor<3xf32>") COND_LESS(i, n)
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") BINARY(b, multiply, a, x, "3xf32")
     "stablehlo.return %j, %b : tensor<i32>, tensor<3xf32> }\n return %0#1, %0#0 : tensor<3xf32>, tensor<i32>\n",
     1e-5,
     {0, 1, 37},
     0},
    {"counted",
     "%x: tensor<3xf32>",
     "tensor<3xf32>, tensor<i32>",
     CONST(z, 0, "i32") CONST(n, 700, "i32")
     LOOP(0:2, "%i = %z, %a = %x", "tensor<i32>, tensor<3xf32>") COND_LESS(i, n)
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") "%b = stablehlo.sine %a : tensor<3xf32>\n"
     "stablehlo.return %j, %b : tensor<i32>, tensor<3xf32> }\n return %0#1, %0#0 : tensor<3xf32>, tensor<i32>\n",
     1e-5,
     {0},
     700},
    {"swapped", /* a body that hands carries on as others, and a result that is there twice */
     "%x: tensor<70xi32>, %y: tensor<70xi32>, %n: tensor<i32>",
     "tensor<70xi32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32>",
     CONST(z, 0, "i32")
     LOOP(0:5, "%i = %z, %a = %x, %b = %y, %c = %x, %d = %x",
          "tensor<i32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32>")
     COND_LESS(i, n) CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") BINARY(s, add, a, b, "70xi32")
     "stablehlo.return %j, %b, %a, %s, %s : tensor<i32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32> }\n"
     "return %0#1, %0#2, %0#3, %0#4 : tensor<70xi32>, tensor<70xi32>, tensor<70xi32>, tensor<70xi32>\n",
     0,
     {0, 1, 4},
     0},
    {"nested", /* both trip counts from outside, the inner one moves */
     "%x: tensor<5xi32>, %n: tensor<i32>",
     "tensor<5xi32>, tensor<i32>",
     CONST(z, 0, "i32")
     LOOP(0:2, "%i = %z, %a = %x", "tensor<i32>, tensor<5xi32>") COND_LESS(i, n)
     LOOP(1:2, "%k = %z, %b = %a", "tensor<i32>, tensor<5xi32>") COND_LESS(k, i)
     CONST(one, 1, "i32") BINARY(l, add, k, one, "i32") CONST(three, 3, "5xi32") BINARY(c, multiply, b, three, "5xi32")
     "stablehlo.return %l, %c : tensor<i32>, tensor<5xi32> }\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") "%d = stablehlo.add %1#1, %x : tensor<5xi32>\n"
     "stablehlo.return %j, %d : tensor<i32>, tensor<5xi32> }\n return %0#1, %0#0 : tensor<5xi32>, tensor<i32>\n",
     0,
     {0, 2, 6},
     0},
    {"counted_in_flagged",
     "%x: tensor<5xi32>, %n: tensor<i32>",
     "tensor<5xi32>, tensor<i32>",
     CONST(z, 0, "i32") CONST(four, 4, "i32")
     LOOP(0:2, "%i = %z, %a = %x", "tensor<i32>, tensor<5xi32>") COND_LESS(i, n)
     LOOP(1:2, "%k = %z, %b = %a", "tensor<i32>, tensor<5xi32>") COND_LESS(k, four)
     CONST(one, 1, "i32") BINARY(l, add, k, one, "i32") CONST(three, 3, "5xi32") BINARY(c, multiply, b, three, "5xi32")
     "stablehlo.return %l, %c : tensor<i32>, tensor<5xi32> }\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") "%d = stablehlo.add %1#1, %a : tensor<5xi32>\n"
     "stablehlo.return %j, %d : tensor<i32>, tensor<5xi32> }\n return %0#1, %0#0 : tensor<5xi32>, tensor<i32>\n",
     0,
     {0, 2, 11},
     -4},
    {"endless_in_branch", /* a loop that would not end, in the branch that isn't taken */
     "%x: tensor<4xf32>, %n: tensor<i32>",
     "tensor<4xf32>",
     "%0 = \"stablehlo.case\"(%n) ({\n" CONST(z, 0, "i32")
     LOOP(1:2, "%i = %z, %a = %x", "tensor<i32>, tensor<4xf32>")
     " cond {\n" CONST(yes, true, "i1") "stablehlo.return %yes : tensor<i1>\n} do {\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") "%b = stablehlo.negate %a : tensor<4xf32>\n"
     "stablehlo.return %j, %b : tensor<i32>, tensor<4xf32> }\n stablehlo.return %1#1 : tensor<4xf32>\n}, {\n"
     BINARY(b, add, x, x, "4xf32") "stablehlo.return %b : tensor<4xf32>\n}, {\n"
     "stablehlo.return %x : tensor<4xf32>\n}) : (tensor<i32>) -> tensor<4xf32>\n return %0 : tensor<4xf32>\n",
     0,
     {1, 2, -3},
     0},
    {"branch_in_loop",
     "%x: tensor<6xf32>, %n: tensor<i32>",
     "tensor<6xf32>",
     CONST(z, 0, "i32")
     LOOP(0:2, "%i = %z, %a = %x", "tensor<i32>, tensor<6xf32>") COND_LESS(i, n)
     CONST(two, 2, "i32") BINARY(r, remainder, i, two, "i32")
     "%b = \"stablehlo.case\"(%r) ({\n" BINARY(c, add, a, x, "6xf32") "stablehlo.return %c : tensor<6xf32>\n}, {\n"
     CONST(h, 0.5, "6xf32") BINARY(c, multiply, a, h, "6xf32")
     "stablehlo.return %c : tensor<6xf32>\n}) : (tensor<i32>) -> tensor<6xf32>\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32")
     "stablehlo.return %j, %b : tensor<i32>, tensor<6xf32> }\n return %0#1 : tensor<6xf32>\n",
     1e-6,
     {0, 5, 12},
     0},
    {"big", /* several launches a trip, one carry large, a constant and a captured matrix in the body */
     "%x: tensor<64x33xf32>, %w: tensor<33x33xf32>, %n: tensor<i32>",
     "tensor<64x33xf32>, tensor<f32>",
     CONST(z, 0, "i32") CONST(f, 0.0, "f32")
     LOOP(0:3, "%i = %z, %a = %x, %s = %f", "tensor<i32>, tensor<64x33xf32>, tensor<f32>") COND_LESS(i, n)
     "%b = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<64x33xf32>, tensor<33x33xf32>) -> tensor<64x33xf32>\n"
     "%c = stablehlo.tanh %b : tensor<64x33xf32>\n"
     "%t = stablehlo.reduce(%c init: %f) applies stablehlo.add across dimensions = [0, 1] : (tensor<64x33xf32>, tensor<f32>) -> tensor<f32>\n"
     BINARY(u, add, s, t, "f32") "%k = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>\n"
     "%k0 = stablehlo.slice %k [0:1] : (tensor<3xi32>) -> tensor<1xi32>\n"
     "%one = stablehlo.reshape %k0 : (tensor<1xi32>) -> tensor<i32>\n" BINARY(j, add, i, one, "i32")
     "stablehlo.return %j, %c, %u : tensor<i32>, tensor<64x33xf32>, tensor<f32> }\n"
     "return %0#1, %0#2 : tensor<64x33xf32>, tensor<f32>\n",
     1e-4,
     {0, 3, 9},
     0},
    {"stacked", /* as scan does it: rows are read and written by the counter */
     "%x: tensor<9x5xf32>, %n: tensor<i32>",
     "tensor<9x5xf32>, tensor<5xf32>",
     CONST(z, 0, "i32") CONST(f, 0.0, "9x5xf32") CONST(g, 0.0, "5xf32")
     LOOP(0:3, "%i = %z, %y = %f, %c = %g", "tensor<i32>, tensor<9x5xf32>, tensor<5xf32>") COND_LESS(i, n)
     "%r = stablehlo.dynamic_slice %x, %i, %z, sizes = [1, 5] : (tensor<9x5xf32>, tensor<i32>, tensor<i32>) -> tensor<1x5xf32>\n"
     "%q = stablehlo.reshape %r : (tensor<1x5xf32>) -> tensor<5xf32>\n" BINARY(d, add, c, q, "5xf32")
     "%e = stablehlo.reshape %d : (tensor<5xf32>) -> tensor<1x5xf32>\n"
     "%w = stablehlo.dynamic_update_slice %y, %e, %i, %z : (tensor<9x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<9x5xf32>\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32")
     "stablehlo.return %j, %w, %d : tensor<i32>, tensor<9x5xf32>, tensor<5xf32> }\n"
     "return %0#1, %0#2 : tensor<9x5xf32>, tensor<5xf32>\n",
     1e-6,
     {0, 4, 9},
     0},
    {"kinds", /* carries of many dtypes; one that never changes */
     "%x: tensor<3xi8>, %y: tensor<5xui16>, %h: tensor<7xf16>, %l: tensor<2xi64>, %n: tensor<i32>",
     "tensor<3xi8>, tensor<5xui16>, tensor<7xf16>, tensor<2xi64>, tensor<i1>",
     CONST(z, 0, "i32") CONST(no, false, "i1")
     LOOP(0:6, "%i = %z, %a = %x, %b = %y, %c = %h, %d = %l, %e = %no",
          "tensor<i32>, tensor<3xi8>, tensor<5xui16>, tensor<7xf16>, tensor<2xi64>, tensor<i1>")
     COND_LESS(i, n) BINARY(a2, multiply, a, a, "3xi8") BINARY(b2, add, b, y, "5xui16") BINARY(c2, add, c, c, "7xf16")
     BINARY(d2, multiply, d, l, "2xi64") "%e2 = stablehlo.not %e : tensor<i1>\n"
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32")
     "stablehlo.return %j, %a2, %b2, %c2, %d2, %e2 : tensor<i32>, tensor<3xi8>, tensor<5xui16>, tensor<7xf16>, tensor<2xi64>, tensor<i1> }\n"
     "return %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<3xi8>, tensor<5xui16>, tensor<7xf16>, tensor<2xi64>, tensor<i1>\n",
     0,
     {0, 1, 5},
     0},
    {"one_after_another", /* a loop's result is the next one's first carry, and both are results */
     "%x: tensor<4xi32>, %n: tensor<i32>",
     "tensor<4xi32>, tensor<4xi32>, tensor<i32>",
     CONST(z, 0, "i32")
     LOOP(0:2, "%i = %z, %a = %x", "tensor<i32>, tensor<4xi32>") COND_LESS(i, n)
     CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") BINARY(b, add, a, x, "4xi32")
     "stablehlo.return %j, %b : tensor<i32>, tensor<4xi32> }\n"
     LOOP(1:2, "%i = %0#0, %a = %0#1", "tensor<i32>, tensor<4xi32>")
     " cond {\n" CONST(m, 20, "i32") LESS(p, i, m, "i32") "stablehlo.return %p : tensor<i1>\n} do {\n"
     CONST(five, 5, "i32") BINARY(j, add, i, five, "i32") "%b = stablehlo.subtract %a, %0#1 : tensor<4xi32>\n"
     "stablehlo.return %j, %b : tensor<i32>, tensor<4xi32> }\n"
     "return %0#1, %1#1, %1#0 : tensor<4xi32>, tensor<4xi32>, tensor<i32>\n",
     0,
     {0, 3, 25},
     0},
};
/* clang-format on */
enum { CASES = sizeof cases / sizeof *cases };

/* ---- graphs from text ---- */

/* Sets trip counts as optimisation would: trips < 0 only where the loop has no other loop in it. */
static bool set_trips(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands, qn_val *out,
                      void *user) {
  (void)from;
  int64_t trips = *(const int64_t *)user;
  if (n->op != QN_OP_WHILE)
    return false;
  qn_graph *regions[2] = {n->regions[0], NULL};
  int64_t outer = trips < 0 ? -1 : trips, inner = trips < 0 ? -trips : trips;
  QN_ASSERT_OK(qn_graph_rebuild(n->regions[1], set_trips, &inner, &regions[1]));
  qn_attr_while attr = {outer};
  qn_val v = qn_graph_add(to, n->op, operands, (size_t)n->operand_count, &attr, regions, 2, n->place);
  for (int i = 0; i < n->result_count; i++)
    out[i] = qn_val_result(v, i);
  qn_graph_release(regions[1]);
  return true;
}

static qn_graph *graph_of(const loop_case *c) {
  qn_text t = {0};
  qn_graph *g = NULL, *counted = NULL;
  qn_text_add(&t, "func.func @main(%s) -> (%s) {\n%s}\n", c->params, c->results, c->body);
  QN_ASSERT_OK(qn_graph_parse(t.buf, t.len, c->name, &g));
  qn_text_free(&t);
  if (!c->trips)
    return g;
  QN_ASSERT_OK(qn_graph_rebuild(g, set_trips, (void *)&(int64_t){c->trips}, &counted));
  qn_graph_release(g);
  return counted;
}

/* donated: result "state/x<i>" takes the place of parameter x<i>. */
static void trace_of(const loop_case *c, bool donated, qn_traced *out) {
  char path[32];
  *out = (qn_traced){.graph = graph_of(c), .args = calloc(1, sizeof *out->args), .arg_count = 1};
  cr_assert(out->args != NULL);
  for (size_t i = 0; i < qn_graph_param_count(out->graph); i++) {
    (void)snprintf(path, sizeof path, "x%zu", i);
    QN_ASSERT_OK(qn_treedef_add(&out->args[0], path, *qn_graph_type(out->graph, qn_graph_param_at(out->graph, i))));
  }
  for (size_t i = 0; i < qn_graph_result_count(out->graph); i++) {
    (void)snprintf(path, sizeof path, "%sx%zu", donated ? "state/" : "r", i);
    QN_ASSERT_OK(qn_treedef_add(&out->result, path, *qn_graph_type(out->graph, qn_graph_result(out->graph, i))));
  }
}

/* ---- values ---- */

enum { LEAVES = 8 };
typedef struct values {
  void *data[LEAVES];
  size_t count;
} values;

static values room_for(const qn_treedef *def) {
  values v = {.count = def->count};
  for (size_t i = 0; i < def->count; i++) {
    v.data[i] = calloc(1, (size_t)qn_type_bytes(&def->leaves[i].type) + 16);
    cr_assert(v.data[i] != NULL);
  }
  return v;
}

static void free_values(values *v) {
  for (size_t i = 0; i < v->count; i++)
    free(v->data[i]);
}

static values inputs_of(const qn_treedef *def, int number) {
  values v = room_for(def);
  uint32_t state = 99;
  for (size_t i = 0; i < def->count; i++) {
    const qn_type *t = &def->leaves[i].type;
    for (int64_t k = 0; k < qn_type_elements(t); k++) {
      state = state * 1664525u + 1013904223u;
      double x = (double)(state >> 8) / 8388608.0 - 1;
      if (t->dtype == QN_F32)
        ((float *)v.data[i])[k] = (float)x;
      else if (t->dtype == QN_F16)
        ((uint16_t *)v.data[i])[k] = qn_f32_to_f16((float)x);
      else if (t->rank == 0)
        ((int32_t *)v.data[i])[k] = number;
      else
        memset((char *)v.data[i] + (size_t)k * qn_dtype_size(t->dtype), (int)(state >> 28), 1);
    }
  }
  return v;
}

static void expect_same(const loop_case *c, const char *id, int number, const qn_treedef *def, const values *got,
                        const values *want) {
  for (size_t i = 0; i < def->count; i++) {
    const qn_type *t = &def->leaves[i].type;
    for (int64_t k = 0; k < qn_type_elements(t); k++) {
      const char *a = (const char *)got->data[i] + (size_t)k * qn_dtype_size(t->dtype),
                 *b = (const char *)want->data[i] + (size_t)k * qn_dtype_size(t->dtype);
      double x = graph_element(t->dtype, a, 0), y = graph_element(t->dtype, b, 0);
      bool same = memcmp(a, b, qn_dtype_size(t->dtype)) == 0 || fabs(x - y) <= c->tolerance * (1 + fabs(y));
      cr_expect(same, "%s(%d) on %s: result %zu, element %lld is %.9g, expected %.9g", c->name, number, id, i,
                (long long)k, x, y);
      if (!same)
        return;
    }
  }
}

/* ---- running ---- */

static void write_all(qn_tensors *t, const values *v) {
  for (size_t i = 0; i < v->count; i++)
    QN_ASSERT_OK(qn_tensors_write_at(t, i, v->data[i]));
}

/* Two calls with different numbers are in flight before the first result is read. */
static void run_pair(const loop_case *c, qn_device *d, qn_step *s, const qn_traced *t, int a, int b) {
  const int numbers[2] = {a, b};
  qn_tensors *args[2], *results[2];
  values in[2];
  for (int i = 0; i < 2; i++) {
    in[i] = inputs_of(&t->args[0], numbers[i]);
    QN_ASSERT_OK(qn_tensors_create(d, &qn_step_plan(s)->args[0], "in", &args[i]));
    write_all(args[i], &in[i]);
  }
  for (int i = 0; i < 2; i++) {
    qn_status st = qn_step_call(s, &args[i], 1, &results[i], NULL);
    cr_assert(st == QN_OK, "%s: %s", c->name, st == QN_OK ? "" : qn_error_report());
  }
  for (int i = 0; i < 2; i++) {
    values got = room_for(&t->result), want = room_for(&t->result);
    QN_ASSERT_OK(qn_graph_eval_ref(t->graph, (const void *const *)in[i].data, want.data));
    for (size_t k = 0; k < got.count; k++)
      QN_ASSERT_OK(qn_tensors_read_at(results[i], k, got.data[k]));
    expect_same(c, qn_device_get_caps(d)->id, numbers[i], &t->result, &got, &want);
    free_values(&got);
    free_values(&want);
  }
  for (int i = 0; i < 2; i++) {
    qn_tensors_release(args[i]);
    free_values(&in[i]);
  }
}

static void check_case(const loop_case *c, qn_device *d, const qn_compile_desc *desc) {
  qn_traced t;
  qn_step *s = NULL;
  trace_of(c, false, &t);
  qn_status st = qn_jit(d, &t, &(qn_jit_desc){.compile = *desc}, &s);
  cr_expect(st == QN_OK, "%s on %s: %s", c->name, qn_device_get_caps(d)->id, st == QN_OK ? "" : qn_error_report());
  if (st == QN_OK) {
    run_pair(c, d, s, &t, c->numbers[0], c->numbers[2]);
    run_pair(c, d, s, &t, c->numbers[1], c->numbers[0]);
    qn_step_release(s);
  }
  qn_traced_free(&t);
}

static void check_device(const char *which) {
  qn_device *d = graph_device(which);
  for (size_t i = 0; i < CASES; i++)
    check_case(&cases[i], d, &(qn_compile_desc){0});
  qn_device_release(d);
}

Test(loops, cpu, .timeout = 120) { check_device("cpu"); }
Test(loops, pocl, .timeout = 280) { check_device("opencl:pocl"); }
Test(loops, lavapipe, .timeout = 280) { check_device("vulkan:llvmpipe"); }
Test(loops, swiftshader, .timeout = 280) { check_device("vulkan:swiftshader"); }

/* Fusion, reuse and the interpreter change nothing. */
Test(loops, other_ways, .timeout = 120) {
  qn_device *d = graph_device("cpu");
  for (size_t i = 0; i < CASES; i++)
    check_case(&cases[i], d, &(qn_compile_desc){.no_fusion = true, .no_reuse = true, .interpret = true});
  qn_device_release(d);
}

static const loop_case *named(const char *name) {
  for (size_t i = 0; i < CASES; i++)
    if (strcmp(cases[i].name, name) == 0)
      return &cases[i];
  cr_assert_fail("no case %s", name);
  return NULL;
}

/* ---- what a plan says, and when the host looks ---- */

Test(loops, host_points_are_counted) {
  static const struct {
    const char *name;
    uint64_t points;
  } plans[] = {{"power", 1}, {"counted", 0}, {"nested", 2}, {"counted_in_flagged", 1}, {"branch_in_loop", 1}};
  qn_device *d = graph_device("cpu");
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
    qn_traced t;
    qn_plan *p;
    trace_of(named(plans[i].name), false, &t);
    QN_ASSERT_OK(qn_compile(qn_device_get_caps(d), &t, NULL, &p));
    cr_expect(p->host_points == plans[i].points, "%s: %llu host points", plans[i].name,
              (unsigned long long)p->host_points);
    QN_EXPECT_OK(qn_plan_check(p));
    qn_plan_free(p);
    qn_traced_free(&t);
  }
  qn_device_release(d);
}

/* A counted loop, however long, is left to the device. */
Test(loops, counted_ones_do_not_wait) {
  qn_device *d = graph_device("cpu");
  const loop_case *c = named("counted");
  qn_traced t;
  qn_step *s;
  qn_step_stats stats;
  trace_of(c, false, &t);
  QN_ASSERT_OK(qn_jit(d, &t, NULL, &s));
  run_pair(c, d, s, &t, 0, 0);
  qn_step_get_stats(s, &stats);
  cr_expect(stats.host_points == 0 && stats.calls == 2);
  qn_step_release(s);
  qn_traced_free(&t);
  qn_device_release(d);
}

/* ---- donated state ---- */

static void check_donated(const char *which) {
  static const qn_plan_donation state[] = {{0, "state"}};
  const loop_case c = {
      .name = "donated",
      .params = "%x: tensor<70xi32>, %y: tensor<i32>",
      .results = "tensor<70xi32>, tensor<i32>",
      .body = CONST(n, 5, "i32") CONST(z, 0, "i32") LOOP(0 : 3, "%i = %z, %a = %x, %b = %y",
                                                         "tensor<i32>, tensor<70xi32>, tensor<i32>") COND_LESS(i, n)
          CONST(one, 1, "i32") BINARY(j, add, i, one, "i32") BINARY(c, add, a, a, "70xi32")
              BINARY(d, add, b, i, "i32") "stablehlo.return %j, %c, %d : tensor<i32>, tensor<70xi32>, tensor<i32> }\n"
                                          "return %0#1, %0#2 : tensor<70xi32>, tensor<i32>\n"};
  qn_device *d = graph_device(which);
  qn_traced t;
  qn_step *s;
  qn_tensors *args;
  trace_of(&c, true, &t);
  const qn_jit_desc desc = {.compile = {.donations = state, .donation_count = 1}};
  QN_ASSERT_OK(qn_jit(d, &t, &desc, &s));
  cr_expect(qn_step_plan(s)->copies == 0);
  values in = inputs_of(&t.args[0], 3), got = room_for(&t.args[0]);
  QN_ASSERT_OK(qn_tensors_create(d, &qn_step_plan(s)->args[0], "in", &args));
  write_all(args, &in);
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(qn_step_call(s, &args, 1, NULL, NULL));
  for (size_t i = 0; i < got.count; i++)
    QN_ASSERT_OK(qn_tensors_read_at(args, i, got.data[i]));
  for (int i = 0; i < 70; i++)
    cr_assert(((int32_t *)got.data[0])[i] == ((int32_t *)in.data[0])[i] << 15, "element %d", i);
  cr_expect(*(int32_t *)got.data[1] == 3 + 30);
  free_values(&in);
  free_values(&got);
  qn_tensors_release(args);
  qn_step_release(s);
  qn_traced_free(&t);
  qn_device_release(d);
}

Test(loops, donated_on_cpu) { check_donated("cpu"); }
Test(loops, donated_on_lavapipe, .timeout = 60) { check_donated("vulkan:llvmpipe"); }

/* ---- the way out ---- */

Test(loops, an_endless_one_can_be_interrupted, .timeout = 60) {
  qn_device *d = graph_device("cpu");
  qn_traced t;
  qn_step *s;
  qn_tensors *args;
  trace_of(named("endless_in_branch"), false, &t);
  QN_ASSERT_OK(qn_jit(d, &t, NULL, &s));
  values in = inputs_of(&t.args[0], 0);
  QN_ASSERT_OK(qn_tensors_create(d, &qn_step_plan(s)->args[0], "in", &args));
  write_all(args, &in);
  qn_step_interrupt(s);
  QN_EXPECT_FAIL(qn_step_call(s, &args, 1, NULL, NULL), QN_CANCELLED, "interrupted in a loop");
  QN_ASSERT_OK(qn_tensors_write_at(args, 1, &(int32_t){1}));
  QN_EXPECT_OK(qn_step_call(s, &args, 1, NULL, NULL)); /* the next call is none the worse */
  free_values(&in);
  qn_tensors_release(args);
  qn_step_release(s);
  qn_traced_free(&t);
  qn_device_release(d);
}

/* ---- the profiler counts repeats ---- */

Test(loops, profiler_counts_repeats) {
  qn_device *d = graph_device("cpu");
  const loop_case *c = named("counted");
  qn_traced t;
  qn_step *s;
  const qn_step_row *rows;
  size_t count;
  uint64_t most = 0;
  trace_of(c, false, &t);
  QN_ASSERT_OK(qn_jit(d, &t, &(qn_jit_desc){.step.profile = true}, &s));
  run_pair(c, d, s, &t, 0, 0);
  QN_ASSERT_OK(qn_step_profile(s, &rows, &count));
  for (size_t i = 0; i < count; i++)
    most = rows[i].calls > most ? rows[i].calls : most;
  cr_expect(most == 2 * 700, "%llu", (unsigned long long)most);
  qn_step_release(s);
  qn_traced_free(&t);
  qn_device_release(d);
}
