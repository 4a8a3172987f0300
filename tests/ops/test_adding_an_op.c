/* The example of docs/adding-an-op.md, compiled and run; and a check that the page shows just this code. */
#include "conform.h"

#include "runtime/graph/ops/rows.h"

/* d/dx x^3 = 3 x^2. Rules use the public builders, so second derivatives and vmap of grad come free. */
static qn_val cube_partial(qn_rule *r, int i) { return qn_mul(qn_like(r->in[i], 3), qn_square(r->in[i])); }

/* One element in the closed set of scalar operations that every device executes the same way. */
static qn_sval cube_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_mul(s, qs_mul(s, in[0], in[0]), in[0]);
}

/* The reference: plain C, in double. Integer classes have exact ones of their own, and wrap. */
static double cube_ref(const double *x) { return x[0] * x[0] * x[0]; }
static int64_t cube_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return (int64_t)((uint64_t)x[0] * (uint64_t)x[0] * (uint64_t)x[0]);
}

const qn_op_def qn_op_cube = {
    .name = "quern.cube",
    .doc = "Each element times itself, twice; integers wrap.",
    QN_ROW_ELEMENTWISE(1, QN_D_SIGNED | QN_D_FLOAT),
    .partial = cube_partial,
    .expand = cube_expand,
    .ref = cube_ref,
    .ref_i = cube_ref_i,
    QN_ROW_SAMPLE1(-2, 2, QN_TOL_2ULP),
};

Test(adding_an_op, the_row_works) {
  const qn_op_def *d = &qn_op_cube;
  cr_assert(d->arity == 1 && d->kind == QN_KIND_ELEMENTWISE && d->sample_count == 1);
  qn_host_sink h;
  qn_host_sink_init(&h);
  const double x = -1.5;
  uint64_t bits, got;
  memcpy(&bits, &x, sizeof bits);
  qn_sval in = qn_host_sink_value(&h, QN_F64, bits);
  got = qn_host_sink_bits(&h, d->expand(&h.base, &in, NULL));
  double y;
  memcpy(&y, &got, sizeof y);
  cr_expect(y == d->ref(&x) && y == -3.375);
  qn_host_sink_free(&h);
  const int64_t n = -5;
  cr_expect(d->ref_i(&n, 32) == -125);
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("partial", &g));
  qn_val v = qn_graph_param(g, qn_type_scalar(QN_F64), NULL);
  qn_rule rule = {.g = g, .in_count = 1, .in = &v};
  qn_val slope = d->partial(&rule, 0);
  QN_ASSERT_OK(qn_graph_seal(g, &slope, 1));
  const void *inputs[1] = {&x};
  void *outputs[1] = {&y};
  QN_EXPECT_OK(qn_graph_eval_ref(g, inputs, outputs));
  cr_expect(y == 6.75);
  qn_graph_release(g);
}

Test(adding_an_op, the_page_shows_this_code) {
  qn_bytes page = {0}, self = {0};
  QN_ASSERT_OK(qn_file_read("docs/adding-an-op.md", &page));
  QN_ASSERT_OK(qn_file_read("tests/ops/test_adding_an_op.c", &self));
  int blocks = 0;
  char *at = (char *)page.data;
  while ((at = strstr(at, "```c\n")) != NULL) {
    char *code = at + strlen("```c\n"), *end = strstr(code, "```");
    cr_assert(end != NULL, "a block without end");
    *end = '\0';
    cr_expect(strstr((char *)self.data, code) != NULL, "the page's code is not this test's:\n%s", code);
    at = end + 1;
    blocks++;
  }
  cr_expect(blocks == 1, "%d blocks", blocks);
  free(page.data);
  free(self.data);
}
