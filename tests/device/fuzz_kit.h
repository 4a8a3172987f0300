/* Ranges of seeds on a device, for the programs that share the 500 random graphs: each takes what a test may take when everything is slow. */
#ifndef QUERN_TEST_FUZZ_KIT_H
#define QUERN_TEST_FUZZ_KIT_H

#include "expect.h"
#include "quern/drivers.h"
#include "random_check.h"

static qn_device *open_or_skip(const char *which) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_status st = qn_device_open(drivers, count, which, &d);
  if (st == QN_NOT_FOUND)
    cr_skip("%s is not here", which);
  QN_ASSERT_OK(st);
  return d;
}

static void check_seeds(const char *which, uint64_t first, uint64_t count, int nodes, random_depth depth) {
  qn_device *d = open_or_skip(which);
  random_tally tally = {0};
  char why[1024];
  for (uint64_t seed = first; seed < first + count; seed++)
    cr_expect(random_check(d, seed, nodes, depth, &tally, why), "%s", why);
  cr_expect(tally.judged > 20 * tally.loose && tally.judged > 100 * count, "%llu elements judged, %llu not",
            (unsigned long long)tally.judged, (unsigned long long)tally.loose);
  qn_device_release(d);
}

#endif
