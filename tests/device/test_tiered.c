/* Steps of little work on the cpu device: interpreted at first, compiled when they have run often, the same bytes all the way. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "kernels/compile/tiered.h"
#include "quern/compile.h"
#include "quern/drivers.h"

enum { N = 7, CALLS = 60000 };

static void trace_text(const char *text, qn_traced *out) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_parse(text, strlen(text), "tiered", &g));
  *out = (qn_traced){.graph = g, .args = calloc(1, sizeof *out->args), .arg_count = 1};
  QN_ASSERT_OK(qn_treedef_add(&out->args[0], "x", *qn_graph_type(g, qn_graph_param_at(g, 0))));
  QN_ASSERT_OK(qn_treedef_add(&out->result, "y", *qn_graph_type(g, qn_graph_result(g, 0))));
}

static const char little[] = "func.func public @main(%x: tensor<7xf32>) -> tensor<7xf32> {\n"
                             "%a = stablehlo.exponential %x : tensor<7xf32>\n"
                             "%b = stablehlo.multiply %a, %x : tensor<7xf32>\n"
                             "return %b : tensor<7xf32>\n}\n";

static qn_step *step_of(qn_device *d, const qn_traced *t, bool at_once) {
  qn_step *s = NULL;
  const qn_jit_desc desc = {.compile = {.at_once = at_once}, .step = {.result_ring = 1}};
  QN_ASSERT_OK(qn_jit(d, t, &desc, &s));
  return s;
}

static void call(qn_step *s, qn_tensors *args, float out[N]) {
  qn_tensors *result = NULL; /* the step's */
  QN_ASSERT_OK(qn_step_call(s, &args, 1, &result, NULL));
  QN_ASSERT_OK(qn_tensors_read_at(result, 0, out));
}

Test(tiered, the_same_bytes_before_and_after) {
  (void)unsetenv("QN_INTERPRET"); /* the other tests compile everything at once */
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_device *d = NULL;
  qn_traced t;
  qn_tensors *args;
  float x[N], want[N], got[N];
  for (int i = 0; i < N; i++)
    x[i] = 0.37f * (float)(i - 3);
  trace_text(little, &t);
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  qn_step *compiled = step_of(d, &t, true), *s = step_of(d, &t, false);
  QN_ASSERT_OK(qn_tensors_create(d, &qn_step_plan(s)->args[0], "in", &args));
  QN_ASSERT_OK(qn_tensors_write_at(args, 0, x));
  call(compiled, args, want);
  cr_expect(!qn_tiered_is_hot(&qn_step_plan(compiled)->code));
  cr_expect(!qn_tiered_is_hot(&qn_step_plan(s)->code));
  for (int i = 0; i < CALLS; i++) {
    call(s, args, got);
    cr_assert(memcmp(got, want, sizeof got) == 0, "call %d", i);
  }
#ifdef QN_HAVE_LLVM
  cr_expect(qn_tiered_is_hot(&qn_step_plan(s)->code), "%d calls were not many", CALLS);
#endif
  qn_tensors_release(args);
  qn_step_release(s);
  qn_step_release(compiled);
  qn_traced_free(&t);
  qn_device_release(d);
}

/* Rounds of nested loops count, three instructions each at least (a loop of one round is folded away), and rounds that nobody knows beforehand are
 * too many. */
Test(tiered, steps_of_a_kernel) {
  static const struct {
    int outer, inner;
    double least, most;
  } rows[] = {{0, 5, 2, 30}, {10, 0, 20, 100}, {10, 20, 600, 2000}, {1000, 1, 3000, 20000}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int known = 0; known < 2; known++) {
      qn_kernel k = {0};
      qn_kbuild b;
      QN_ASSERT_OK(qn_kbuild_begin(&b, &k));
      (void)qn_kb_new_param(&b);
      uint32_t out = qn_kb_buffer(&b, QN_I32, 0, qn_kb_new_param(&b), false, true, 1);
      qn_sval zero = qs_const(&b.sink, QN_I32, 0), outer = qs_const(&b.sink, QN_I32, rows[i].outer);
      if (!known)
        outer = qs_convert(&b.sink, QN_I32, qn_kb_param(&b, 1));
      qn_sval x = qn_kb_loop(&b, zero, outer, 1, true);
      qn_sval y = qn_kb_loop(&b, zero, qs_const(&b.sink, QN_I32, rows[i].inner), 1, true);
      qn_kb_store(&b, out, qs_add(&b.sink, x, y), y, (qn_sval){0});
      qn_kb_close(&b);
      qn_kb_close(&b);
      QN_ASSERT_OK(qn_kbuild_end(&b));
      double steps = qn_kernel_steps(&k);
      if (known)
        cr_expect(steps >= rows[i].least && steps <= rows[i].most, "row %zu: %g", i, steps);
      else
        cr_expect(steps > 1e300, "row %zu: %g", i, steps);
      qn_kernel_free(&k);
    }
}
