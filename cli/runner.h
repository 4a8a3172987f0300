/* A graph run on host arrays, by a device or by the reference interpreter. */
#ifndef QUERN_CLI_RUNNER_H
#define QUERN_CLI_RUNNER_H

#include "arrays.h"
#include "quern/cache.h"
#include "quern/hal.h"

typedef struct cli_run_stats {
  double compile_seconds; /* 0 for the reference */
  double least, median;   /* seconds of a run, from the call to the end of the device's work */
  uint64_t launches, arena, fallbacks;
  double flops;
  uint64_t bytes; /* estimates of one run */
} cli_run_stats;

/* Takes over the hold on `g`. device NULL: the reference interpreter. `in` has data, `out` is allocated. */
qn_status qn_cli_run_graph(qn_device *d, qn_cache *cache, qn_graph *g, const cli_arrays *in, cli_arrays *out,
                           int repeat, cli_run_stats *out_stats);

#endif
