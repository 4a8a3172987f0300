/* rng_bit_generator: known values, the reference against its lowering on a device for every type and layout, what is refused, text, lanes. */
#include <stdlib.h>

#include "graph_run.h"
#include "quern/autodiff.h"

static qn_graph *generator(qn_type state, qn_rng_algorithm algorithm, qn_type type) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("main", &g));
  qn_val out[2];
  qn_rng_bit_generator(qn_graph_param(g, state, NULL), algorithm, type, &out[0], &out[1]);
  qn_status st = qn_graph_seal(g, out, 2);
  cr_assert(st == QN_OK, "%s", qn_error_message());
  return g;
}

/* "Parallel random numbers: as easy as 1, 2, 3": the authors' vectors of Philox4x32-10 for all zeros and all ones. The default state of two
 * words has the key as the upper half of its counter, so long ones are used. */
Test(rng_bit_generator, known_values) {
  static const struct {
    uint64_t state[3];
    uint32_t want[4];
  } cases[] = {{{0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
               {{UINT64_MAX, UINT64_MAX, UINT64_MAX}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
               {{UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88), UINT64_C(0x0370734413198a2e)},
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  qn_graph *g = generator(qn_type_of(QN_U64, 1, 3), QN_RNG_PHILOX, qn_type_of(QN_U32, 1, 4));
  for (int k = 0; k < 3; k++) {
    uint64_t next[3];
    uint32_t bits[4];
    const void *in[] = {cases[k].state};
    void *out[] = {next, bits};
    QN_ASSERT_OK(qn_graph_eval_ref(g, in, out));
    cr_expect(memcmp(bits, cases[k].want, sizeof bits) == 0, "case %d: %08x %08x %08x %08x", k, bits[0], bits[1],
              bits[2], bits[3]);
    cr_expect(next[0] == cases[k].state[0] && next[1] == cases[k].state[1] + 1 &&
                  next[2] == cases[k].state[2] + (k == 1),
              "case %d: the counter carries", k);
  }
  qn_graph_release(g);
}

static void check(qn_device *d, qn_type state, qn_rng_algorithm algorithm, qn_type type) {
  static const uint32_t words[6] = {0x9abcdef0, 0x12345678, 0xfffffffd, 0xffffffff, 0xffffffff, 7};
  qn_graph *g = generator(state, algorithm, type);
  size_t bytes = (size_t)qn_type_bytes(&type);
  uint32_t next[2][6] = {{0}};
  char *bits[2] = {calloc(bytes + 1, 1), calloc(bytes + 1, 1)};
  const void *in[] = {words};
  for (int k = 0; k < 2; k++) {
    void *out[] = {next[k], bits[k]};
    QN_EXPECT_OK(run_graph(k ? d : NULL, g, in, out));
  }
  cr_expect(memcmp(bits[0], bits[1], bytes) == 0, "algorithm %d, %s: bits differ", (int)algorithm, qn_type_str(&type));
  cr_expect(memcmp(next[0], next[1], sizeof next[0]) == 0, "algorithm %d, %s: states differ", (int)algorithm,
            qn_type_str(&type));
  free(bits[0]);
  free(bits[1]);
  qn_graph_release(g);
}

/* The counter stands three before it carries over all of its words. */
static void on_device(const char *name, bool all) {
  static const qn_dtype dtypes[] = {QN_U32, QN_U64, QN_I8, QN_U16, QN_I32, QN_I64, QN_F32, QN_BF16};
  qn_device *d = run_open(name);
  if (!d)
    return;
  for (size_t k = 0; k < (all ? sizeof dtypes / sizeof *dtypes : 2); k++)
    for (int algorithm = QN_RNG_DEFAULT; algorithm <= QN_RNG_PHILOX; algorithm++) {
      qn_dtype t = dtypes[k];
      qn_type shapes[] = {qn_type_of(t, 3, 3, 5, 3), qn_type_of(t, 2, 5, 4), qn_type_scalar(t), qn_type_of(t, 2, 0, 3)};
      for (int i = 0; i < (all ? 4 : 1); i++)
        check(d, i % 2 ? qn_type_of(QN_U64, 1, 2) : qn_type_of(QN_U32, 1, 4), (qn_rng_algorithm)algorithm, shapes[i]);
    }
  check(d, qn_type_of(QN_U32, 1, 6), QN_RNG_PHILOX, qn_type_of(QN_U32, 1, 21));
  check(d, qn_type_of(QN_U64, 1, 3), QN_RNG_PHILOX, qn_type_of(QN_U32, 1, 21));
  qn_device_release(d);
}

Test(rng_bit_generator, cpu, .timeout = 200) { on_device("cpu", true); }
Test(rng_bit_generator, pocl, .timeout = 200) { on_device("opencl:pocl", false); }
Test(rng_bit_generator, lavapipe, .timeout = 200) { on_device("vulkan:llvmpipe", false); }
Test(rng_bit_generator, swiftshader, .timeout = 200) { on_device("vulkan:swiftshader", false); }

/* A batch of states: each lane as it would be alone. */
Test(rng_bit_generator, lanes) {
  static const uint32_t states[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 0xffffffff, 0}};
  const int axes[1] = {0};
  for (int algorithm = QN_RNG_THREE_FRY; algorithm <= QN_RNG_PHILOX; algorithm++) {
    qn_graph *batched, *f = generator(qn_type_of(QN_U32, 1, 4), (qn_rng_algorithm)algorithm, qn_type_of(QN_U32, 1, 5));
    QN_ASSERT_OK(qn_vmap_graph(f, 3, axes, &batched));
    uint32_t next[3][4], bits[3][5], one_next[4], one[5];
    QN_EXPECT_OK(qn_graph_eval_ref(batched, (const void *const[]){states}, (void *[]){next, bits}));
    for (int i = 0; i < 3; i++) {
      QN_EXPECT_OK(qn_graph_eval_ref(f, (const void *const[]){states[i]}, (void *[]){one_next, one}));
      cr_expect(memcmp(one, bits[i], sizeof one) == 0 && memcmp(one_next, next[i], sizeof one_next) == 0, "lane %d", i);
    }
    qn_graph_release(f);
    qn_graph_release(batched);
  }
}

static void refused(qn_type state, qn_rng_algorithm algorithm, qn_type type, qn_status code, const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val out[2];
  qn_rng_bit_generator(qn_graph_param(g, state, NULL), algorithm, type, &out[0], &out[1]);
  QN_EXPECT_FAIL(qn_graph_seal(g, out, 1), code, part);
  qn_graph_release(g);
}

Test(rng_bit_generator, refusals) {
  const qn_type words = qn_type_of(QN_U32, 1, 8);
  refused(qn_type_of(QN_U64, 1, 3), QN_RNG_THREE_FRY, words, QN_INVALID,
          "rng_bit_generator: operand 0, the state, is u64[3], expected u64[2] or u32[4] for THREE_FRY");
  refused(qn_type_of(QN_U16, 1, 4), QN_RNG_PHILOX, words, QN_INVALID, "is u16[4], expected u64[2], u64[3]");
  refused(qn_type_of(QN_U64, 2, 2, 2), QN_RNG_DEFAULT, words, QN_INVALID, "is u64[2,2], expected u64[2], u64[3]");
  refused(qn_type_of(QN_U64, 1, 2), QN_RNG_DEFAULT, qn_type_of(QN_BOOL, 1, 8), QN_INVALID,
          "asked for bool, expected integers or floats");
  refused(qn_type_of(QN_U64, 1, 2), QN_RNG_DEFAULT, qn_type_of(QN_U32, 1, INT64_C(1) << 36), QN_UNSUPPORTED,
          "takes more than 2^32 blocks");
}

static void parse_fails(const char *body, const char *part) {
  qn_text t = {0};
  qn_graph *g = NULL;
  qn_text_add(&t, "func.func @main(%%arg0: tensor<2xui64>) -> tensor<4xui32> { %s }", body);
  qn_status st = qn_graph_parse(t.buf, t.len, "bad.mlir", &g);
  cr_expect(st != QN_OK && strstr(qn_error_message(), part), "got: %s", qn_error_message());
  qn_graph_release(g);
  qn_text_free(&t);
}

Test(rng_bit_generator, text) {
  qn_graph *again, *g = generator(qn_type_of(QN_U64, 1, 2), QN_RNG_THREE_FRY, qn_type_of(QN_U16, 2, 4, 2));
  qn_text t = {0};
  qn_graph_print(g, &t);
  cr_expect(strstr(t.buf, "%output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : "
                          "(tensor<2xui64>) -> (tensor<2xui64>, tensor<4x2xui16>)"),
            "%s", t.buf);
  QN_ASSERT_OK(qn_graph_parse(t.buf, t.len, "printed.mlir", &again));
  cr_expect(qn_graph_equal(g, again));
  qn_graph_release(again);
  static const char generic[] =
      "func.func @main(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<4x2xui16>) {\n  %0:2 = "
      "\"stablehlo.rng_bit_generator\"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : "
      "(tensor<2xui64>) -> (tensor<2xui64>, tensor<4x2xui16>)\n  return %0#0, %0#1 : tensor<2xui64>, "
      "tensor<4x2xui16>\n}\n";
  QN_ASSERT_OK(qn_graph_parse(generic, sizeof generic - 1, "generic.mlir", &again));
  cr_expect(qn_graph_equal(g, again));
  qn_graph_release(again);
  qn_graph_release(g);
  qn_text_free(&t);
  parse_fails("%0 = stablehlo.rng_bit_generator %arg0, algorithm = DEFAULT : (tensor<2xui64>) -> tensor<4xui32> "
              "return %0 : tensor<4xui32>",
              "1 results, expected 2, the new state and the bits");
  parse_fails("%0:2 = stablehlo.rng_bit_generator %arg0, algorithm = MT : (tensor<2xui64>) -> (tensor<2xui64>, "
              "tensor<4xui32>) return %0#1 : tensor<4xui32>",
              "algorithm");
  parse_fails("%0 = stablehlo.rng %arg0, %arg0, %arg0, distribution = UNIFORM : (tensor<2xui64>, tensor<2xui64>, "
              "tensor<2xui64>) -> tensor<4xui32> return %0 : tensor<4xui32>",
              "use stablehlo.rng_bit_generator");
}
