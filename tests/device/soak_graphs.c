/* Random graphs on the cpu device for as long as asked: soak_graphs SECONDS [SEED [DEVICE]]. Seeds are fresh unless one is given; a failure prints
 * its own, and `soak_graphs 0 SEED` runs just that one again. One in eight is compiled in every way. Without a time it runs until 20,000 are done:
 * `soak_graphs all [SEED [DEVICE]]`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/drivers.h"
#include "random_check.h"

enum { ALL = 20000 };

int main(int argc, char **argv) {
  bool all = argc > 1 && strcmp(argv[1], "all") == 0;
  double seconds = all ? HUGE_VAL : argc > 1 ? strtod(argv[1], NULL) : 60;
  uint64_t begin = qn_time_ns(), seed = argc > 2 ? strtoull(argv[2], NULL, 0) : begin % 1000000 * 1000;
  const char *device = argc > 3 ? argv[3] : "cpu";
  bool native = strcmp(device, "cpu") == 0;
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  random_tally tally = {0};
  char why[1024];
  int failures = 0;
  if (qn_device_open(drivers, count, device, &d) != QN_OK) {
    fprintf(stderr, "%s\n", qn_error_report());
    return 1;
  }
  printf("random graphs on %s, first seed %llu\n", device, (unsigned long long)seed);
  do {
    random_depth depth = native ? RANDOM_ALL_WAYS : RANDOM_QUICK;
    if (seconds > 0 && seed % 8)
      depth = native ? RANDOM_QUICK : RANDOM_OTHER;
    if (!random_check(d, seed, 0, depth, &tally, why)) {
      fprintf(stderr, "FAILED: %s\n", why);
      failures++;
    }
    seed++;
  } while ((double)(qn_time_ns() - begin) < seconds * 1e9 && failures < 20 && !(all && tally.cases == ALL));
  printf("%llu graphs, %llu derivatives, %llu elements within their bounds, %llu with none that says anything, %d "
         "failures\n",
         (unsigned long long)tally.cases, (unsigned long long)tally.backward, (unsigned long long)tally.judged,
         (unsigned long long)tally.loose, failures);
  qn_device_release(d);
  return failures ? 1 : 0;
}
