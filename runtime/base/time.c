/* Clocks. The time since the start of the process counts from where the kernel says the process began, so that it holds
 * the dynamic linker's and the sanitizers' share too. */
#include "quern/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t clock_ns(clockid_t id) {
  struct timespec t;
  if (clock_gettime(id, &t) != 0)
    return 0;
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t qn_time_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* Field 22 of the process's stat line: start in clock ticks since boot. The command name before may hold blanks. */
static double start_seconds(void) {
  FILE *f = fopen("/proc/self/stat", "r");
  if (!f)
    return -1;
  char line[1024];
  size_t n = fread(line, 1, sizeof line - 1, f);
  (void)fclose(f);
  line[n] = '\0';
  char *p = strrchr(line, ')');
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  long ticks = sysconf(_SC_CLK_TCK);
  if (!p || ticks <= 0)
    return -1;
  return strtod(p + 1, NULL) / (double)ticks;
}

double qn_time_since_start(void) {
#ifdef CLOCK_BOOTTIME
  double start = start_seconds();
  if (start >= 0) {
    double now = (double)clock_ns(CLOCK_BOOTTIME) * 1e-9;
    if (now >= start)
      return now - start;
  }
#endif
  return (double)clock() / (double)CLOCKS_PER_SEC; /* no such file: the processor time is the best guess */
}
