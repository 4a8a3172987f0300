/* The oracle itself: walking, memory, regions, rounding, and how it refuses malformed use. */
#include "conform.h"

Test(oracle, walks_a_graph) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("walk", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "x");
  qn_val unused = qn_exp(x);
  qn_val y = qn_mul(qn_add(x, x), qn_like(x, 0.5));
  qn_val results[4] = {y, x, y, qn_full(g, qn_type_of(QN_BF16, 1, 3), 2.5)};
  cr_expect(qn_val_ok(unused));
  QN_ASSERT_OK(qn_graph_seal(g, results, 4));
  const float in[3] = {1, -2, INFINITY};
  float out[3][3];
  uint16_t splat[3];
  const void *inputs[1] = {in};
  void *outputs[4] = {out[0], out[1], out[2], splat};
  QN_EXPECT_OK(qn_graph_eval_ref(g, inputs, outputs));
  for (int i = 0; i < 3; i++) {
    cr_expect(out[0][i] == in[i] && out[1][i] == in[i] && out[2][i] == in[i], "element %d", i);
    cr_expect(qn_bf16_to_f32(splat[i]) == 2.5F);
  }
  qn_graph_release(g);
}

Test(oracle, integers_wrap_and_bools_stay_bools) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("wrap", &g));
  qn_val a = qn_graph_param(g, qn_type_scalar(QN_I8), NULL), b = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
  qn_val results[4] = {qn_mul(a, a), qn_neg(a), qn_not(b), qn_add(b, b)};
  QN_ASSERT_OK(qn_graph_seal(g, results, 4));
  int8_t min = INT8_MIN, product, negated;
  uint8_t truth = 1, not_truth, sum;
  const void *in[2] = {&min, &truth};
  void *out[4] = {&product, &negated, &not_truth, &sum};
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, out));
  cr_expect(product == 0 && negated == INT8_MIN && not_truth == 0 && sum == 1);
  qn_graph_release(g);
}

/* Halfway between two f16 values plus a hair that f32 cannot hold: rounding by way of f32 would go to even, once goes up. */
Test(oracle, stores_round_once) {
  cr_expect(qn_oracle_f64_to_f16(1 + 0x1p-11) == 0x3C00);
  cr_expect(qn_oracle_f64_to_f16(1 + 0x1p-11 + 0x1p-40) == 0x3C01);
  cr_expect(qn_oracle_f64_to_f16(1 + 3 * 0x1p-11 - 0x1p-40) == 0x3C01);
  cr_expect(qn_oracle_f64_to_f16(1 + 3 * 0x1p-11) == 0x3C02);
  cr_expect(qn_oracle_f64_to_f16(65519.999999) == 0x7BFF && qn_oracle_f64_to_f16(65520) == 0x7C00);
  cr_expect(qn_oracle_f64_to_f16(1e300) == 0x7C00 && qn_oracle_f64_to_f16(-1e300) == 0xFC00);
  cr_expect(qn_oracle_f64_to_f16(0x1p-25) == 0 && qn_oracle_f64_to_f16(0x1.0000000001p-25) == 1);
  cr_expect(qn_oracle_f64_to_bf16(1 + 0x1p-8) == 0x3F80 && qn_oracle_f64_to_bf16(1 + 0x1p-8 + 0x1p-40) == 0x3F81);
  cr_expect(qn_oracle_f64_to_bf16(-1e-320) == 0x8000);
  for (uint32_t b = 0; b < 0x10000; b++) {
    float half = qn_f16_to_f32((uint16_t)b), brain = qn_bf16_to_f32((uint16_t)b);
    if (!isnan(half))
      cr_expect(qn_oracle_f64_to_f16(half) == b, "f16 %04x", b);
    if (!isnan(brain))
      cr_expect(qn_oracle_f64_to_bf16(brain) == b, "bf16 %04x", b);
  }
}

Test(oracle, refuses_malformed_use) {
  qn_graph *g;
  QN_EXPECT_FAIL(qn_graph_eval_ref(NULL, NULL, NULL), QN_INVALID, "no graph");
  QN_ASSERT_OK(qn_graph_create("open", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), "x"), y = qn_neg(x);
  QN_EXPECT_FAIL(qn_graph_eval_ref(g, NULL, NULL), QN_INVALID, "not sealed");
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  float data[3] = {1, 2, 3};
  const void *in[1] = {data}, *no_in[1] = {NULL};
  void *out[1] = {data}, *no_out[1] = {NULL};
  QN_EXPECT_FAIL(qn_graph_eval_ref(g, NULL, out), QN_INVALID, "no data for parameter 0 of f32[3]");
  QN_EXPECT_FAIL(qn_graph_eval_ref(g, no_in, out), QN_INVALID, "no data for parameter 0");
  QN_EXPECT_FAIL(qn_graph_eval_ref(g, in, NULL), QN_INVALID, "no room for result 0");
  QN_EXPECT_FAIL(qn_graph_eval_ref(g, in, no_out), QN_INVALID, "no room for result 0 of f32[3]");
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, out)); /* in place */
  cr_expect(data[0] == -1 && data[2] == -3);
  qn_graph_release(g);
}

Test(oracle, empty_tensors_need_no_memory) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("empty", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 0, 3), "x"), y = qn_tanh(x);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  const void *in[1] = {NULL};
  void *out[1] = {NULL};
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, out));
  qn_graph_release(g);
}

Test(oracle, regions_run_on_scalars) {
  qn_graph *body;
  qn_oracle_region *r;
  QN_ASSERT_OK(qn_graph_create("body", &body));
  qn_val a = qn_graph_param(body, qn_type_scalar(QN_F32), NULL), n = qn_graph_param(body, qn_type_scalar(QN_U8), NULL);
  qn_val results[3] = {qn_mul(qn_add(a, a), qn_like(a, 3)), qn_add(n, qn_like(n, 1)), a};
  QN_ASSERT_OK(qn_graph_seal(body, results, 3));
  QN_ASSERT_OK(qn_oracle_region_open(body, &r));
  float x = 1, again;
  uint8_t count = 254;
  const void *in[2] = {&x, &count};
  void *out[3] = {&x, &count, &again};
  for (int i = 0; i < 3; i++)
    QN_EXPECT_OK(qn_oracle_region_run(r, in, out));
  cr_expect(x == 216 && count == 1 && again == 36, "%g %d %g", (double)x, count, (double)again);
  qn_oracle_region_close(r);
  qn_oracle_region_close(NULL);
  qn_graph_release(body);
}

Test(oracle, regions_of_tensors_are_refused) {
  qn_graph *body;
  qn_oracle_region *r;
  QN_EXPECT_FAIL(qn_oracle_region_open(NULL, &r), QN_INVALID, "no region");
  QN_ASSERT_OK(qn_graph_create("body", &body));
  qn_val a = qn_graph_param(body, qn_type_of(QN_F32, 1, 2), NULL), y = qn_neg(a);
  QN_EXPECT_FAIL(qn_oracle_region_open(body, &r), QN_INVALID, "not sealed");
  QN_ASSERT_OK(qn_graph_seal(body, &y, 1));
  QN_EXPECT_FAIL(qn_oracle_region_open(body, &r), QN_UNSUPPORTED, "f32[2], expected single elements");
  cr_expect(r == NULL);
  qn_graph_release(body);
}
