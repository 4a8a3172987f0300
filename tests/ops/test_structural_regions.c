/* Bodies that are no single binary operation: run element by element, several operands at once, with values captured from outside. */
#include "expect.h"
#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* acc * c + x, with c captured */
static qn_graph *horner_body(void) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("horner", &g));
  qn_val acc = qn_graph_param(g, qn_type_scalar(QN_F32), NULL), x = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_val c = qn_graph_param(g, qn_type_scalar(QN_F32), NULL), y = qn_add(qn_mul(acc, c), x);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  return g;
}

/* (acc0 + x0 * x1, max(acc1, x0)) */
static qn_graph *mixed_body(void) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("mixed", &g));
  qn_val p[4];
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
  qn_val y[] = {qn_add(p[0], qn_mul(p[2], p[3])), qn_max(p[1], p[2])};
  QN_ASSERT_OK(qn_graph_seal(g, y, 2));
  return g;
}

static qn_graph *horner(void) {
  qn_graph *f = NULL, *body = horner_body();
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_val in[] = {qn_graph_param(f, qn_type_of(QN_F32, 2, 2, 3), NULL), qn_scalar(f, QN_F32, 1),
                 qn_graph_param(f, qn_type_scalar(QN_F32), NULL)};
  qn_attr_dims attr = {{1, {1}}};
  qn_val y = qn_graph_add(f, QN_OP_REDUCE, in, 3, &attr, &body, 1, QN_HERE);
  QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
  qn_graph_release(body);
  return f;
}

Test(structural_regions, reduce_captures) {
  qn_graph *f = horner(), *g = NULL;
  const float x[] = {1, 2, 3, 4, 5, 6}, c = 10;
  float y[2];
  QN_ASSERT_OK(qn_graph_eval_ref(f, (const void *[]){x, &c}, (void *[]){y}));
  cr_expect_float_eq(y[0], 1123, 0);
  cr_expect_float_eq(y[1], 1456, 0);
  QN_EXPECT_FAIL(qn_vjp_graph(f, &g), QN_UNSUPPORTED, "reduce: result 0 has no reverse derivative");
  QN_EXPECT_FAIL(qn_jvp_graph(f, &g), QN_UNSUPPORTED, "reduce: result 0 has no forward derivative");
  QN_EXPECT_FAIL(qn_vmap_graph(f, 2, (const int[]){-1, 0}, &g), QN_UNSUPPORTED,
                 "the body of reduce captures a value that differs by lane");
  QN_ASSERT_OK(qn_vmap_graph(f, 2, (const int[]){0, -1}, &g)); /* a shared capture is no obstacle */
  const float two[] = {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1};
  float z[4];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){two, &c}, (void *[]){z}));
  cr_expect_float_eq(z[1], 1456, 0);
  cr_expect_float_eq(z[2], 1654, 0);
  qn_graph_release(g);
  qn_graph_release(f);
}

Test(structural_regions, scatter_of_two_operands) {
  qn_graph *f = NULL, *g = NULL, *body = mixed_body();
  QN_ASSERT_OK(qn_graph_create("f", &f));
  qn_type t = qn_type_of(QN_F32, 1, 3), u = qn_type_of(QN_F32, 1, 4);
  qn_val in[] = {qn_graph_param(f, t, NULL), qn_graph_param(f, t, NULL),
                 qn_graph_param(f, qn_type_of(QN_I32, 1, 4), NULL), qn_graph_param(f, u, NULL),
                 qn_graph_param(f, u, NULL)};
  qn_attr_scatter attr = {
      .inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = 1};
  qn_val first = qn_graph_add(f, QN_OP_SCATTER, in, 5, &attr, &body, 1, QN_HERE);
  qn_val out[] = {qn_val_result(first, 0), qn_val_result(first, 1)};
  QN_ASSERT_OK(qn_graph_seal(f, out, 2));
  qn_graph_release(body);
  const float a[] = {1, 2, 3}, b[] = {0, 9, 0}, p[] = {2, 3, 4, 5}, q[] = {10, 10, 10, 100};
  const int32_t at[] = {1, 1, 3, 0}; /* the third is dropped */
  float y[3], z[3];
  QN_ASSERT_OK(qn_graph_eval_ref(f, (const void *[]){a, b, at, p, q}, (void *[]){y, z}));
  cr_expect(y[0] == 501 && y[1] == 52 && y[2] == 3);
  cr_expect(z[0] == 5 && z[1] == 9 && z[2] == 0);
  QN_EXPECT_FAIL(qn_vjp_graph(f, &g), QN_UNSUPPORTED,
                 "scatter has no reverse derivative: its body is none of add, multiply");
  QN_ASSERT_OK(qn_vmap_graph(f, 2, (const int[]){-1, -1, 0, -1, -1}, &g));
  const int32_t lanes[] = {1, 1, 3, 0, 2, 2, -1, 0};
  float y2[6], z2[6];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){a, b, lanes, p, q}, (void *[]){y2, z2}));
  cr_expect(y2[0] == 501 && y2[1] == 52 && y2[3] == 501 && y2[4] == 2 && y2[5] == 53);
  cr_expect(z2[1] == 9 && z2[5] == 3);
  qn_graph_release(g);
  qn_graph_release(f);
}

/* Initial values that differ by lane. */
Test(structural_regions, initial_values_by_lane) {
  static const qn_op ops[] = {QN_OP_ADD, QN_OP_MULTIPLY, QN_OP_MAXIMUM, QN_OP_MINIMUM};
  const float want[4][2] = {{106, -1}, {600, -42}, {100, 3}, {1, -7}};
  for (size_t k = 0; k < 4; ++k) {
    qn_graph *f = NULL, *g = NULL, *body = NULL;
    QN_ASSERT_OK(qn_region_binary(ops[k], QN_F32, &body));
    QN_ASSERT_OK(qn_graph_create("f", &f));
    qn_val x = qn_graph_param(f, qn_type_of(QN_F32, 1, 3), NULL),
           init = qn_graph_param(f, qn_type_scalar(QN_F32), NULL), y;
    qn_reduce(&x, &init, 1, 1, DIMS(0), body, &y);
    QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
    QN_ASSERT_OK(qn_vmap_graph(f, 2, (const int[]){-1, 0}, &g));
    const float xs[] = {1, 2, 3}, inits[] = {100, -7};
    float got[2];
    QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){xs, inits}, (void *[]){got}));
    cr_expect(got[0] == want[k][0] && got[1] == want[k][1], "%s: %g %g", qn_op_get(ops[k])->name, (double)got[0],
              (double)got[1]);
    qn_graph_release(body);
    qn_graph_release(f);
    qn_graph_release(g);
  }
}
