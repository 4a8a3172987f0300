/* The table of rows. */
#include "rows.h"

#define MATRIX(m, n)                                                                                                   \
  {                                                                                                                    \
    2, { m, n }                                                                                                        \
  }
#define VECTOR(n)                                                                                                      \
  {                                                                                                                    \
    1, { n }                                                                                                           \
  }
#define IMAGES(n, h, w, c)                                                                                             \
  {                                                                                                                    \
    4, { n, h, w, c }                                                                                                  \
  }
#define GEMM(label, m, n, k)                                                                                           \
  {                                                                                                                    \
    .name = "gemm_f32_" label, .unit = BENCH_GFLOPS, .work = 2.0 * (m) * (n) * (k), .in_count = 2,                     \
    .in = {MATRIX(m, k), MATRIX(k, n)}, .trace = bench_gemm_trace, .expect = bench_gemm_expect                         \
  }

enum { LARGE = 1 << 24, ROWS = 4096, COLUMNS = 1024, MILLION = 1 << 20 };
static const double conv3_work = 2.0 * 9 * 64 * 64 * 16 * 32 * 32, convt_work = 2.0 * 16 * 128 * 128 * 64 * (49 + 196);
#define CONV3 .conv = {{.x = {16, 32, 32, 64}, .w = {3, 3, 64, 64}, .stride = 1}}, .conv_count = 1
#define CONVT                                                                                                          \
  .conv = {{.x = {64, 7, 7, 128}, .w = {4, 4, 128, 128}, .stride = 2, .transposed = true},                             \
           {.x = {64, 14, 14, 128}, .w = {4, 4, 128, 128}, .stride = 2, .transposed = true}},                          \
  .conv_count = 2

static const bench_row rows[] = {
    {.name = "peak_f32", .unit = BENCH_GFLOPS, .measure = bench_peak_row},
    {.name = "triad",
     .unit = BENCH_GBS,
     .work = 12.0 * LARGE,
     .in_count = 2,
     .in = {VECTOR(LARGE), VECTOR(LARGE)},
     .trace = bench_triad_trace,
     .expect = bench_triad_expect},
    {.name = "launch",
     .unit = BENCH_US,
     .work = 1,
     .in_count = 1,
     .in = {VECTOR(16)},
     .trace = bench_launch_trace,
     .expect = bench_launch_expect},
    GEMM("64", 64, 64, 64),
    GEMM("256", 256, 256, 256),
    GEMM("512", 512, 512, 512),
    GEMM("1024", 1024, 1024, 1024),
    GEMM("2048", 2048, 2048, 2048),
    GEMM("32x784x64", 32, 64, 784),
    GEMM("784x32x64", 784, 64, 32),
    {.name = "conv3x3_fwd",
     .unit = BENCH_GFLOPS,
     .work = conv3_work,
     .in_count = 2,
     .in = {IMAGES(16, 32, 32, 64), IMAGES(3, 3, 64, 64)},
     .trace = bench_conv_trace,
     .expect = bench_conv_expect,
     CONV3},
    {.name = "conv3x3_grad",
     .unit = BENCH_GFLOPS,
     .work = 2 * conv3_work,
     .in_count = 3,
     .in = {IMAGES(16, 32, 32, 64), IMAGES(3, 3, 64, 64), IMAGES(16, 32, 32, 64)},
     .trace = bench_conv_grad_trace,
     .expect = bench_conv_grad_expect,
     CONV3},
    {.name = "convt4x4s2_fwd",
     .unit = BENCH_GFLOPS,
     .work = convt_work,
     .in_count = 4,
     .in = {IMAGES(64, 7, 7, 128), IMAGES(4, 4, 128, 128), IMAGES(64, 14, 14, 128), IMAGES(4, 4, 128, 128)},
     .trace = bench_conv_trace,
     .expect = bench_conv_expect,
     CONVT},
    {.name = "convt4x4s2_grad",
     .unit = BENCH_GFLOPS,
     .work = 2 * convt_work,
     .in_count = 6,
     .in = {IMAGES(64, 7, 7, 128), IMAGES(4, 4, 128, 128), IMAGES(64, 14, 14, 128), IMAGES(64, 14, 14, 128),
            IMAGES(4, 4, 128, 128), IMAGES(64, 28, 28, 128)},
     .trace = bench_conv_grad_trace,
     .expect = bench_conv_grad_expect,
     CONVT},
    {.name = "map_16m",
     .unit = BENCH_GBS,
     .work = 12.0 * LARGE,
     .in_count = 2,
     .in = {VECTOR(LARGE), VECTOR(LARGE)},
     .trace = bench_map_trace,
     .expect = bench_map_expect},
    {.name = "reduce_rows",
     .unit = BENCH_GBS,
     .work = 4.0 * ROWS * COLUMNS + 4.0 * ROWS,
     .in_count = 1,
     .in = {MATRIX(ROWS, COLUMNS)},
     .trace = bench_reduce_rows_trace,
     .expect = bench_reduce_rows_expect},
    {.name = "reduce_cols",
     .unit = BENCH_GBS,
     .work = 4.0 * ROWS * COLUMNS + 4.0 * COLUMNS,
     .in_count = 1,
     .in = {MATRIX(ROWS, COLUMNS)},
     .trace = bench_reduce_cols_trace,
     .expect = bench_reduce_cols_expect},
    {.name = "softmax",
     .unit = BENCH_GBS,
     .work = 8.0 * ROWS * COLUMNS,
     .in_count = 1,
     .in = {MATRIX(ROWS, COLUMNS)},
     .trace = bench_softmax_trace,
     .expect = bench_softmax_expect},
    {.name = "layernorm",
     .unit = BENCH_GBS,
     .work = 8.0 * ROWS * COLUMNS,
     .in_count = 3,
     .in = {MATRIX(ROWS, COLUMNS), VECTOR(COLUMNS), VECTOR(COLUMNS)},
     .trace = bench_layernorm_trace,
     .expect = bench_layernorm_expect},
    {.name = "sort_1m",
     .unit = BENCH_GBS,
     .work = 8.0 * MILLION,
     .in_count = 1,
     .in = {VECTOR(MILLION)},
     .trace = bench_sort_trace,
     .prepare = bench_sort_prepare,
     .expect = bench_sort_expect},
    {.name = "cumsum_16m",
     .unit = BENCH_GBS,
     .work = 8.0 * LARGE,
     .in_count = 1,
     .in = {VECTOR(LARGE)},
     .trace = bench_cumsum_trace,
     .fill = bench_cumsum_fill,
     .expect = bench_cumsum_expect},
    {.name = "mlp_b32", .unit = BENCH_MS, .measure = bench_step_row, .batch = 32},
    {.name = "mlp_b1024", .unit = BENCH_MS, .measure = bench_step_row, .batch = 1024},
};

const bench_row *bench_rows(size_t *out_count) {
  *out_count = sizeof rows / sizeof rows[0];
  return rows;
}

const char *bench_unit_name(bench_unit u) {
  static const char *const names[] = {
      [BENCH_GFLOPS] = "GFLOP/s", [BENCH_GBS] = "GB/s", [BENCH_US] = "us", [BENCH_MS] = "ms"};
  return names[u];
}
