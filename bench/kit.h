/* What the benchmark programs share: the processor's peak, measured in the same run, and a list of times. */
#ifndef QN_BENCH_KIT_H
#define QN_BENCH_KIT_H

#include "quern/hal.h"

/* Peak of fused f32 multiply-adds, GFLOP/s, by independent chains of the widest vectors through the cpu device. All zero in a
 * build without LLVM. `cpu`: an opened cpu device. */
typedef struct bench_peak {
  double one, all;
  uint32_t threads;
} bench_peak;
qn_status bench_peak_measure(qn_device *cpu, bench_peak *out_peak);

/* Best seconds of one launch, out of `rounds` submissions of `repeat` launches with a barrier behind each. */
typedef struct bench_launch {
  qn_program *program;
  uint32_t entry, groups, param_count;
  qn_buffer *const *buffers;
  uint32_t buffer_count;
} bench_launch;
qn_status bench_best(qn_device *d, const bench_launch *launch, int repeat, int rounds, double *out_seconds);

/* Seconds, in any order; median sorts them. */
double bench_min(const double *seconds, size_t count);
double bench_median(double *seconds, size_t count);

#endif
