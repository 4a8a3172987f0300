/* Rows of `quern bench`: a function, its inputs, the work of one call, and what every element of its results should be. */
#ifndef QN_BENCH_ROWS_H
#define QN_BENCH_ROWS_H

#include "quern/cache.h"
#include "quern/hal.h"
#include "quern/tree.h"

enum { BENCH_INPUTS = 6, BENCH_OUTPUTS = 4, BENCH_SHAPES = 2 };

typedef enum bench_unit { BENCH_GFLOPS, BENCH_GBS, BENCH_US, BENCH_MS } bench_unit;
const char *bench_unit_name(bench_unit u);

typedef struct bench_row bench_row;
typedef struct bench_case {
  const bench_row *row;
  qn_traced fn; /* parameter i is the leaf "x" of argument i */
  float *in[BENCH_INPUTS];
  float *reference; /* whole results where that's how they are checked */
} bench_case;

/* The value of an element, and the size of what was added up for it, by which rounding errors are judged. */
typedef struct bench_expect {
  double value, size;
} bench_expect;

typedef struct bench_conv {
  int64_t x[4], w[4], stride;
  bool transposed;
} bench_conv;

struct bench_row {
  const char *name;
  bench_unit unit;
  double work; /* of a call: operations or bytes */
  int in_count;
  struct {
    int rank;
    int64_t dims[4];
  } in[BENCH_INPUTS];
  qn_tree_fn trace;                                                        /* results y0, y1, ..; user: the row */
  void (*fill)(const bench_case *c, int input, float *out, int64_t count); /* NULL: anything from -1 to 1 */
  qn_status (*prepare)(bench_case *c);                                     /* fills `reference`; may be NULL */
  bench_expect (*expect)(const bench_case *c, int output, int64_t at);
  bench_conv conv[BENCH_SHAPES];
  int conv_count, batch; /* batch: of the network's step */
  /* Rows that are no function of arrays measure themselves. */
  qn_status (*measure)(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out, size_t *out_count,
                       bool *out_correct);
};
enum { BENCH_SAMPLES = 400 }; /* room for times or rates */

const bench_row *bench_rows(size_t *out_count);

typedef struct bench_result {
  double min, median, max; /* of the quantity itself, in the row's unit */
  bool correct;
} bench_result;
/* Checks the row's results and, only if they are right, measures it. */
qn_status bench_measure(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, bench_result *out_result);

/* ---- rows_dense.c, rows_memory.c, step.c ---- */
qn_tree *bench_gemm_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_gemm_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_conv_trace(qn_graph *g, qn_tree *const *args, void *user);
qn_tree *bench_conv_grad_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_conv_expect(const bench_case *c, int output, int64_t at);
bench_expect bench_conv_grad_expect(const bench_case *c, int output, int64_t at);

qn_tree *bench_launch_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_launch_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_triad_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_triad_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_map_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_map_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_reduce_rows_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_reduce_rows_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_reduce_cols_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_reduce_cols_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_softmax_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_softmax_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_layernorm_trace(qn_graph *g, qn_tree *const *args, void *user);
bench_expect bench_layernorm_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_sort_trace(qn_graph *g, qn_tree *const *args, void *user);
qn_status bench_sort_prepare(bench_case *c);
bench_expect bench_sort_expect(const bench_case *c, int output, int64_t at);
qn_tree *bench_cumsum_trace(qn_graph *g, qn_tree *const *args, void *user);
void bench_cumsum_fill(const bench_case *c, int input, float *out, int64_t count);
bench_expect bench_cumsum_expect(const bench_case *c, int output, int64_t at);

qn_status bench_peak_row(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out,
                         size_t *out_count, bool *out_correct);
qn_status bench_step_row(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out,
                         size_t *out_count, bool *out_correct);

/* Seconds that a row is measured for. */
double bench_budget(bool quick);

#endif
