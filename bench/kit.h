/* What the benchmark programs share: the processor's peak, measured in the same run, and a list of times. */
#ifndef QN_BENCH_KIT_H
#define QN_BENCH_KIT_H

#include "quern/hal.h"

/* Peak of f32 multiply-adds, GFLOP/s, by independent chains of the widest vectors: `rounds` rates, and whether their sums were right. `groups`:
 * 0 for as many as fill the device. */
qn_status bench_peak_rates(qn_device *d, uint32_t groups, int rounds, double *out_rates, bool *out_right);
/* The best of them, on one thread and on all. `cpu`: an opened cpu device. */
typedef struct bench_peak {
  double one, all;
  uint32_t threads;
} bench_peak;
qn_status bench_peak_measure(qn_device *cpu, bench_peak *out_peak);

/* Seconds of one launch, by each of `rounds` submissions of `repeat` launches with a barrier behind each; the least of them. */
typedef struct bench_launch {
  qn_program *program;
  uint32_t entry, groups, param_count;
  qn_buffer *const *buffers;
  uint32_t buffer_count;
} bench_launch;
qn_status bench_times(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds);
qn_status bench_best(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds);

/* Seconds, in any order; median sorts them. */
double bench_min(const double *seconds, size_t count);
double bench_max(const double *seconds, size_t count);
double bench_median(double *seconds, size_t count);

#endif
