/* What qn_compile refuses before it makes a kernel: donations that mean nothing, arrays that kernels cannot index. */
#include "expect.h"
#include "quern/compile.h"
#include "quern/drivers.h"
#include "quern/ops.h"

static qn_tree *count_up(qn_graph *g, qn_tree *const *args, void *user) {
  (void)user;
  qn_tree *result = qn_tree_create(g);
  qn_val n = qn_tree_get(args[0], "n");
  qn_tree_set(result, "state/n", qn_add(n, qn_like(n, 1)));
  return result;
}

/* Compiles count_up of `elements` numbers for the cpu. */
static qn_status compile(int64_t elements, size_t arg, const char *prefix) {
  size_t driver_count;
  const qn_driver *const *drivers = qn_drivers(&driver_count);
  qn_device *d = NULL;
  qn_treedef state = {0};
  qn_traced traced = {0};
  qn_plan *plan = NULL;
  const qn_plan_donation donation = {arg, prefix};
  const qn_compile_desc desc = {.name = "count", .donations = &donation, .donation_count = 1, .interpret = true};
  qn_status st = qn_device_open(drivers, driver_count, "cpu", &d);
  if (st == QN_OK)
    st = qn_treedef_add(&state, "n", qn_type_of(QN_I32, 1, elements));
  if (st == QN_OK)
    st = qn_trace(count_up, NULL, "count", &state, 1, &traced);
  if (st == QN_OK)
    st = qn_compile(qn_device_get_caps(d), &traced, &desc, &plan);
  if (plan)
    qn_plan_free(plan);
  qn_traced_free(&traced);
  qn_treedef_free(&state);
  qn_device_release(d);
  return st;
}

Test(compile_refusals, donations) {
  QN_EXPECT_OK(compile(4, 0, "state"));
  QN_EXPECT_FAIL(compile(4, 7, "state"), QN_INVALID, "argument 7 is donated, but there are only 1");
  QN_EXPECT_FAIL(compile(4, 0, "stat"), QN_INVALID, "below 'stat', but there are none (the first is 'state/n')");
}

Test(compile_refusals, too_many_elements) {
  QN_EXPECT_FAIL(compile(INT64_C(1) << 31, 0, "state"), QN_UNSUPPORTED,
                 "i32[2147483648] has more than 2^31-1 elements");
  cr_expect(strstr(qn_error_message(), "?:0") == NULL, "a parameter has no line: %s", qn_error_message());
}
