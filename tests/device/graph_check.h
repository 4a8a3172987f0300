/* What the tests of graphs on devices share: each case against the oracle within its tolerance, and without fusion to the same bytes. */
#ifndef QUERN_TEST_GRAPH_CHECK_H
#define QUERN_TEST_GRAPH_CHECK_H

#include <criterion/criterion.h>

#include "expect.h"
#include "graph_kit.h"
#include "quern/drivers.h"

/* Skips the test where the device is not here. */
static inline qn_device *graph_device(const char *which) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_status st = qn_device_open(drivers, count, which, &d);
  if (st == QN_NOT_FOUND)
    cr_skip("%s is not here", which);
  QN_ASSERT_OK(st);
  return d;
}

static inline void graph_check_case(qn_device *d, const graph_case *c) {
  const char *id = qn_device_get_caps(d)->id;
  graph_inputs in;
  graph_results want, fused, other;
  char why[256];
  QN_ASSERT_OK(graph_inputs_make(c, &in));
  QN_ASSERT_OK(graph_run_oracle(c, &in, &want));
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

/* Every `stride`-th case from `first` on: drivers that compile slowly take a part, the CPU takes all. */
static inline void graph_check_device(const char *which, const graph_case *cases, size_t count, size_t first,
                                      size_t stride) {
  qn_device *d = graph_device(which);
  for (size_t i = first; i < count; i += stride)
    graph_check_case(d, &cases[i]);
  qn_device_release(d);
}

#endif
