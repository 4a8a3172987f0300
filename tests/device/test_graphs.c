/* Every graph of the kit on every device: against the oracle within its tolerance; one kernel per node, every buffer its own place, and copied
 * instead of donated give the same bytes. */
#include <criterion/criterion.h>

#include "expect.h"
#include "graph_kit.h"
#include "quern/drivers.h"

static void check_case(qn_device *d, const graph_case *c) {
  const char *id = qn_device_get_caps(d)->id;
  graph_inputs in;
  graph_results want, fused, other;
  char why[256];
  QN_ASSERT_OK(graph_inputs_make(c, &in));
  QN_EXPECT_OK(graph_run_oracle(c, &in, &want));
  qn_status st = graph_run_device(d, c, &in, &(qn_compile_desc){0}, &fused);
  cr_expect(st == QN_OK, "%s on %s: %s", c->name, id, st == QN_OK ? "" : qn_error_report());
  if (st == QN_OK) {
    cr_expect(!graph_differs(&fused, &want, c->tolerance, why), "%s on %s: %s", c->name, id, why);
    st = graph_run_device(d, c, &in, &(qn_compile_desc){.no_fusion = true, .no_reuse = true}, &other);
    cr_expect(st == QN_OK, "%s unfused on %s: %s", c->name, id, st == QN_OK ? "" : qn_error_report());
    cr_expect(st != QN_OK || !graph_differs(&other, &fused, 0, why), "%s on %s, unfused against fused: %s", c->name, id,
              why);
    graph_results_free(&other);
  }
  graph_results_free(&fused);
  graph_results_free(&want);
  graph_inputs_free(&in);
}

static void check_device(const char *which, size_t stride) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_status st = qn_device_open(drivers, count, which, &d);
  if (st == QN_NOT_FOUND)
    cr_skip("%s is not here", which);
  QN_ASSERT_OK(st);
  for (size_t i = 0; i < graph_case_count; i += stride)
    check_case(d, &graph_cases[i]);
  qn_device_release(d);
}

Test(graphs, cpu) { check_device("cpu", 1); }
Test(graphs, pocl, .timeout = 280) { check_device("opencl:pocl", 5); }
Test(graphs, rusticl, .timeout = 280) { check_device("opencl:rusticl", 5); }
Test(graphs, lavapipe, .timeout = 280) { check_device("vulkan:llvmpipe", 3); }
Test(graphs, swiftshader, .timeout = 280) { check_device("vulkan:swiftshader", 3); }
