/* Types, building, failures, sealing, inlining, reading. */
#include <math.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"

static const qn_place at = {"/some/where/mnist.c", 41, 0};

static qn_graph *open_graph(void) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  return g;
}

static void expect_failure(qn_graph *g, const char *part) {
  QN_EXPECT_FAIL(qn_graph_seal(g, NULL, 0), QN_INVALID, part);
  qn_graph_release(g);
}

Test(graph, types) {
  qn_type t = qn_type_of(QN_F32, 2, 32, 784), s = qn_type_scalar(QN_BOOL), z = qn_type_of(QN_U8, 2, 0, 3);
  qn_text text = {0};
  qn_type_print(&t, &text);
  qn_type_print(&s, &text);
  qn_type_print(&z, &text);
  cr_expect_str_eq(text.buf, "tensor<32x784xf32>tensor<i1>tensor<0x3xui8>");
  qn_text_free(&text);
  cr_expect_str_eq(qn_type_str(&t), "f32[32,784]");
  cr_expect_str_eq(qn_type_str(&s), "bool[]");
  cr_expect(qn_type_elements(&t) == 32 * 784 && qn_type_bytes(&t) == 4 * 32 * 784);
  cr_expect(qn_type_elements(&s) == 1 && qn_type_elements(&z) == 0);
  qn_type u = qn_type_of(QN_F16, 2, 32, 784);
  cr_expect(qn_type_same_shape(&t, &u) && !qn_type_equal(&t, &u));
  cr_expect(t.dims[2] == 0 && t.dims[QN_MAX_RANK - 1] == 0);
}

Test(graph, op_table_is_whole) {
  for (int i = 1; i < QN_OP_COUNT; i++) {
    const qn_op_def *row = qn_op_get((qn_op)i);
    cr_assert(row && row->name && row->doc && row->infer, "row %d", i);
    cr_expect(qn_op_find(row->name) == (qn_op)i, "%s", row->name);
  }
  cr_expect(qn_op_find("stablehlo.add") == QN_OP_ADD && qn_op_find("nothing") == QN_OP_NONE);
  cr_expect(qn_op_get(QN_OP_NONE) == NULL && qn_op_get(QN_OP_COUNT) == NULL);
}

Test(graph, builds_and_reads) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "x"), y = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL);
  qn_val s = qn_add_at(at, x, y);
  qn_graph_set_result_path(g, 0, "sum");
  QN_ASSERT_OK(qn_graph_seal(g, &s, 1));
  cr_expect_str_eq(qn_graph_name(g), "main");
  cr_expect(qn_graph_node_count(g) == 3 && qn_graph_value_count(g) == 3 && qn_graph_param_count(g) == 2);
  cr_expect_str_eq(qn_graph_param_path(g, 0), "x");
  cr_expect(qn_graph_param_path(g, 1) == NULL);
  const qn_node *n = qn_graph_def(g, qn_graph_result(g, 0));
  cr_expect(n->op == QN_OP_ADD && n->operand_count == 2 && n->operands[0] == x.id && n->operands[1] == y.id &&
            n->place.line == 41);
  cr_expect_str_eq(qn_graph_result_path(g, 0), "sum");
  cr_expect(qn_graph_def_index(g, s.id) == 2);
  QN_EXPECT_OK(qn_graph_verify(g));
  QN_EXPECT_FAIL(qn_graph_seal(g, &s, 1), QN_INVALID, "sealed already");
  cr_expect(!qn_val_ok(qn_add(x, y)), "nothing is added to a sealed graph");
  cr_expect(qn_graph_node_count(g) == 3);
  cr_expect(qn_graph_retain(g) == g);
  qn_graph_release(g);
  qn_graph_release(g);
}

Test(graph, pointers_stay_valid_while_it_grows) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "x"), v = x;
  const qn_type *t = qn_val_type(x);
  const qn_node *n = qn_graph_def(g, x.id);
  for (int i = 0; i < 5000; i++)
    v = qn_neg(v);
  cr_expect(qn_val_type(x) == t && t->dims[0] == 3 && qn_graph_def(g, x.id) == n && n->op == QN_OP_PARAMETER);
  QN_ASSERT_OK(qn_graph_seal(g, &v, 1));
  for (size_t i = 1; i < qn_graph_node_count(g); i++)
    cr_assert(qn_graph_node(g, i)->operands[0] == i);
  qn_graph_release(g);
}

Test(graph, wrong_operands_name_op_operand_types_and_place) {
  qn_type f3 = qn_type_of(QN_F32, 1, 3), i3 = qn_type_of(QN_I32, 1, 3);
  qn_graph *g = open_graph(), *other = open_graph();
  qn_val in[2] = {qn_graph_param(g, f3, NULL), qn_graph_param(other, f3, NULL)};
  cr_expect(!qn_val_ok(qn_graph_add(g, QN_OP_ADD, in, 2, NULL, NULL, 0, at)));
  cr_expect(qn_graph_failed(g));
  cr_expect(!qn_val_ok(qn_neg(in[0])), "a failed graph gives null values");
  expect_failure(g, "add: operand 1 belongs to another graph (mnist.c:41)");
  qn_graph_release(other);

  g = open_graph();
  in[0] = qn_graph_param(g, f3, NULL);
  in[1] = QN_NULL_VAL;
  (void)qn_graph_add(g, QN_OP_ADD, in, 2, NULL, NULL, 0, at);
  expect_failure(g, "add: operand 1 is the null value (mnist.c:41)");

  g = open_graph();
  in[0] = qn_graph_param(g, f3, NULL);
  in[1] = qn_graph_param(g, i3, NULL);
  (void)qn_graph_add(g, QN_OP_ADD, in, 2, NULL, NULL, 0, at);
  expect_failure(g, "add: operand 1 is i32[3], expected f32[3] as operand 0 (mnist.c:41)");

  g = open_graph();
  in[0] = qn_graph_param(g, i3, NULL);
  (void)qn_graph_add(g, QN_OP_SINE, in, 1, NULL, NULL, 0, at);
  expect_failure(g, "sine: operand 0 is i32[3], expected a float or complex number (mnist.c:41)");

  g = open_graph();
  in[0] = qn_graph_param(g, f3, NULL);
  (void)qn_graph_add(g, QN_OP_ADD, in, 1, NULL, NULL, 0, at);
  expect_failure(g, "add: 1 operands, expected 2");

  g = open_graph();
  (void)qn_graph_add(g, (qn_op)9999, in, 0, NULL, NULL, 0, at);
  expect_failure(g, "there is no operation number 9999");

  g = open_graph();
  in[0] = qn_graph_param(g, f3, NULL);
  (void)qn_graph_add(g, QN_OP_TRANSPOSE, in, 1, NULL, NULL, 0, at);
  expect_failure(g, "transpose: its attributes are missing");

  g = open_graph();
  in[0] = qn_graph_param(g, f3, NULL);
  (void)qn_graph_add(g, QN_OP_ADD, (qn_val[]){in[0], {g, 77}}, 2, NULL, NULL, 0, at);
  expect_failure(g, "add: operand 1 is no value of its graph");
}

Test(graph, the_first_failure_sticks) {
  qn_graph *g = open_graph();
  (void)qn_graph_fail(g, at, QN_UNSUPPORTED, "first: %d", 1);
  (void)qn_graph_fail(g, at, QN_INVALID, "second");
  QN_EXPECT_FAIL(qn_graph_seal(g, NULL, 0), QN_UNSUPPORTED, "first: 1 (mnist.c:41)");
  qn_graph_release(g);
}

Test(graph, bad_types_and_results) {
  qn_graph *g = open_graph();
  (void)qn_graph_param(g, qn_type_of(QN_F32, 2, 3, -1), "w");
  expect_failure(g, "w: dimension 1 is -1");
  g = open_graph();
  (void)qn_graph_param(g, qn_type_of(QN_F32, 3, INT64_MAX / 2, 8, 8), "w");
  expect_failure(g, "too large");
  g = open_graph();
  (void)qn_graph_param(g, (qn_type){0}, "w");
  expect_failure(g, "no dtype");
  g = open_graph();
  (void)qn_graph_param(g, (qn_type){.dtype = QN_F32, .rank = 99}, "w");
  expect_failure(g, "rank 99");
  g = open_graph();
  QN_EXPECT_FAIL(qn_graph_seal(g, &(qn_val){NULL, 0}, 1), QN_INVALID, "result 0 is the null value");
  qn_graph *other = open_graph();
  qn_val x = qn_graph_param(other, qn_type_scalar(QN_F32), NULL);
  QN_EXPECT_FAIL(qn_graph_seal(g, &x, 1), QN_INVALID, "result 0 belongs to another graph");
  qn_graph_release(g);
  qn_graph_release(other);
  QN_EXPECT_OK(QN_OK);
}

Test(graph, set_place_and_common) {
  qn_graph *g = open_graph();
  qn_val x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_graph_set_place(g, &at);
  qn_val y = qn_neg(x);
  qn_graph_set_place(g, NULL);
  qn_val z = qn_neg(x);
  cr_expect(qn_graph_def(g, y.id)->place.line == 41 && qn_graph_def(g, z.id)->place.line != 41);
  cr_expect(qn_graph_common("op", (qn_val[]){x, y}, 2, at) == g);
  cr_expect(qn_graph_common("op", (qn_val[]){x, QN_NULL_VAL}, 2, at) == NULL);
  expect_failure(g, "op: operand 1 is the null value (mnist.c:41)");
  cr_expect(qn_graph_common("op", &(qn_val){NULL, 0}, 1, at) == NULL);
}

Test(graph, a_value_of_a_sealed_graph_is_foreign) {
  qn_graph *sealed = open_graph(), *g = open_graph();
  qn_val x = qn_graph_param(sealed, qn_type_scalar(QN_F32), NULL), y = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  QN_ASSERT_OK(qn_graph_seal(sealed, &x, 1));
  cr_expect(!qn_val_ok(qn_add_at(at, x, y)));
  expect_failure(g, "add: operand 0 belongs to another graph (mnist.c:41)");
  qn_graph_release(sealed);
}

/* ---- constants ---- */
static uint64_t bits_of(qn_dtype t, double x) {
  qn_graph *g = open_graph();
  qn_val c = qn_scalar(g, t, x);
  bool splat;
  const void *p = qn_graph_constant(g, c.id, &splat);
  uint64_t bits = 0;
  cr_assert(p && splat);
  memcpy(&bits, p, qn_dtype_size(t) > 8 ? 8 : qn_dtype_size(t));
  qn_graph_release(g);
  return bits;
}

Test(graph, full_rounds_to_the_dtype) {
  cr_expect(bits_of(QN_F32, 0.1) == 0x3dcccccd);
  cr_expect(bits_of(QN_F16, 1 + 0x1p-11 + 0x1p-40) == 0x3c01, "once, not by way of f32");
  cr_expect(bits_of(QN_BF16, 1 + 0x1p-8) == 0x3f80);
  cr_expect(bits_of(QN_I8, 300) == 127 && bits_of(QN_I8, -300) == 0x80 && bits_of(QN_U8, -3) == 0 &&
            bits_of(QN_U8, 999) == 255);
  cr_expect(bits_of(QN_I64, 1e30) == INT64_MAX && bits_of(QN_U64, 1e30) == UINT64_MAX && bits_of(QN_I32, NAN) == 0);
  cr_expect(bits_of(QN_BOOL, 2) == 1 && bits_of(QN_BOOL, 0) == 0);
  cr_expect(bits_of(QN_C64, 1) == 0x3f800000);
}

Test(graph, constants_are_copied_and_splats_found) {
  qn_graph *g = open_graph();
  float data[4] = {1, 2, 3, 4}, same[4] = {5, 5, 5, 5};
  qn_val a = qn_constant(g, qn_type_of(QN_F32, 2, 2, 2), data), b = qn_constant(g, qn_type_of(QN_F32, 1, 4), same);
  qn_val e = qn_constant(g, qn_type_of(QN_F32, 1, 0), NULL), f = qn_full(g, qn_type_of(QN_F32, 2, 0, 4), 1);
  data[2] = 9;
  bool splat;
  double x = 0;
  cr_expect(((const float *)qn_graph_constant(g, a.id, &splat))[2] == 3 && !splat);
  cr_expect(qn_graph_constant_at(g, a.id, 3, &x) && x == 4 && !qn_graph_constant_at(g, a.id, 4, &x));
  cr_expect(qn_graph_constant(g, b.id, &splat) && splat && qn_graph_constant_at(g, b.id, 3, &x) && x == 5);
  cr_expect(qn_val_ok(e) && qn_val_ok(f) && !qn_graph_constant_at(g, e.id, 0, &x));
  cr_expect(qn_val_ok(qn_like(a, 0.5)) && qn_val_type(qn_like(a, 0.5))->rank == 0);
  cr_expect(qn_graph_constant(g, qn_graph_param(g, qn_type_scalar(QN_F32), NULL).id, &splat) == NULL);
  cr_expect(!qn_graph_failed(g));
  qn_attr_constant bad = {data, 3};
  (void)qn_graph_add_typed(g, QN_OP_CONSTANT, NULL, 0, &bad, NULL, 0,
                           &(qn_type){.dtype = QN_F32, .rank = 1, .dims = {4}}, at);
  expect_failure(g, "constant: 3 elements, expected 4 for f32[4] (mnist.c:41)");
  g = open_graph();
  (void)qn_graph_add(g, QN_OP_IOTA, NULL, 0, &(qn_attr_axis){0}, NULL, 0, at);
  expect_failure(g, "iota: its result type is missing");
  g = open_graph();
  (void)qn_iota(g, qn_type_of(QN_I32, 1, 4), 1);
  expect_failure(g, "iota: dimension 1, expected 0 to 0 for i32[4]");
  cr_expect(!qn_val_ok(qn_iota(NULL, qn_type_of(QN_I32, 1, 4), 0)) && !qn_val_ok(qn_scalar(NULL, QN_F32, 0)) &&
            !qn_val_ok(qn_like(QN_NULL_VAL, 0)));
}

Test(graph, iota_reference) {
  qn_graph *g = open_graph();
  qn_val r[2] = {qn_iota(g, qn_type_of(QN_I32, 2, 2, 3), 1), qn_iota(g, qn_type_of(QN_U8, 1, 300), 0)};
  QN_ASSERT_OK(qn_graph_seal(g, r, 2));
  int32_t a[6];
  uint8_t b[300];
  QN_ASSERT_OK(qn_graph_eval_ref(g, NULL, (void *[]){a, b}));
  for (int i = 0; i < 6; i++)
    cr_expect(a[i] == i % 3);
  for (int i = 0; i < 300; i++)
    cr_expect(b[i] == (uint8_t)i);
  qn_graph_release(g);
}

/* ---- inlining, copying, rebuilding ---- */
static qn_graph *square_plus(void) {
  qn_graph *f;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), "x"), y = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), "y");
  qn_val r[2] = {qn_add(qn_mul(x, x), y), x};
  QN_ASSERT_OK(qn_graph_seal(f, r, 2));
  return f;
}

Test(graph, inlines) {
  qn_graph *f = square_plus(), *g = open_graph();
  qn_val a = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "a"), out[2];
  cr_assert(qn_graph_inline(g, f, (qn_val[]){a, a}, 2, out));
  cr_expect(qn_val_same(out[1], a) && qn_graph_def(g, out[0].id)->op == QN_OP_ADD);
  cr_expect(!qn_graph_inline(g, f, (qn_val[]){a}, 1, out) && !qn_val_ok(out[0]));
  expect_failure(g, "f: 1 arguments, expected 2");
  g = open_graph();
  a = qn_graph_param(g, qn_type_of(QN_F32, 1, 4), "a");
  cr_expect(!qn_graph_inline(g, f, (qn_val[]){a, a}, 2, out));
  expect_failure(g, "f: argument 0 is f32[4], expected f32[3]");
  qn_graph_release(f);
}

Test(graph, copies_a_node_to_other_shapes) {
  qn_graph *f = square_plus(), *g = open_graph();
  qn_val a = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 2), "a");
  qn_val v = qn_graph_copy_node(g, f, qn_graph_node(f, 2), (qn_val[]){a, a});
  cr_expect(qn_val_ok(v) && qn_val_type(v)->rank == 2);
  (void)qn_graph_copy_node(g, f, qn_graph_node(f, 0), NULL);
  expect_failure(g, "parameter: cannot be copied");
  qn_graph_release(f);
}

static bool negate_instead(qn_graph *to, const qn_graph *from, const qn_node *node, const qn_val *operands, qn_val *out,
                           void *user) {
  (void)to;
  (void)from;
  ++*(int *)user;
  if (node->op != QN_OP_MULTIPLY)
    return false;
  out[0] = qn_neg(operands[0]);
  return true;
}

Test(graph, rebuilds) {
  qn_graph *f = square_plus(), *g;
  int count = 0;
  QN_ASSERT_OK(qn_graph_rebuild(f, negate_instead, &count, &g));
  cr_expect(count == 2 && qn_graph_param_count(g) == 2 && qn_graph_result_count(g) == 2);
  cr_expect_str_eq(qn_graph_param_path(g, 1), "y");
  cr_expect(qn_graph_node(g, 2)->op == QN_OP_NEGATE && qn_graph_node(g, 3)->op == QN_OP_ADD);
  qn_graph_release(g);
  QN_ASSERT_OK(qn_graph_rebuild(f, NULL, NULL, &g));
  cr_expect(qn_graph_equal(f, g) && qn_graph_hash(f) == qn_graph_hash(g));
  qn_graph_release(g);
  qn_graph_release(f);
  g = open_graph();
  qn_graph *out;
  QN_EXPECT_FAIL(qn_graph_rebuild(g, NULL, NULL, &out), QN_INVALID, "not a sealed graph");
  QN_EXPECT_FAIL(qn_graph_verify(g), QN_INVALID, "not sealed");
  qn_graph_release(g);
}

Test(graph, equality_looks_at_everything) {
  static const int64_t same[] = {0, 1};
  qn_graph *g[6];
  for (int k = 0; k < 6; k++) {
    g[k] = open_graph();
    qn_val x = qn_graph_param(g[k], qn_type_of(k == 1 ? QN_F64 : QN_F32, 2, 3, 3), NULL);
    qn_val v = k == 2 ? qn_sub(x, x) : qn_add(x, x);
    v = qn_transpose(v, k == 3 ? same : NULL);
    v = qn_add(v, qn_full(g[k], *qn_val_type(v), k == 4 ? 2 : 1));
    QN_ASSERT_OK(qn_graph_seal(g[k], k == 5 ? &x : &v, 1));
  }
  for (int k = 1; k < 6; k++)
    cr_expect(!qn_graph_equal(g[0], g[k]) && qn_graph_hash(g[0]) != qn_graph_hash(g[k]), "graph %d", k);
  for (int k = 0; k < 6; k++)
    qn_graph_release(g[k]);
}

Test(graph, regions_are_checked_and_kept) {
  qn_graph *body, *g = open_graph(), *unsealed = open_graph();
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, QN_F32, &body));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 3), NULL), zero = qn_scalar(g, QN_F32, 0);
  qn_attr_dims axes = {.dims = {.n = 1, .d = {1}}};
  qn_val r = qn_graph_add(g, QN_OP_REDUCE, (qn_val[]){x, zero}, 2, &axes, (qn_graph *[]){body}, 1, at);
  qn_graph_release(body); /* the node keeps it */
  cr_expect(qn_val_ok(r) && qn_val_type(r)->rank == 1 && qn_val_type(r)->dims[0] == 2);
  cr_expect(qn_graph_result_count(qn_graph_def(g, r.id)->regions[0]) == 1);
  (void)qn_graph_add(g, QN_OP_REDUCE, (qn_val[]){x, zero}, 2, &axes, (qn_graph *[]){unsealed}, 1, at);
  expect_failure(g, "reduce: region 0 is not a sealed graph (mnist.c:41)");
  qn_graph_release(unsealed);
}
