/* How near code made from kernel IR comes to the machine's peak: f32 products by a 6 x 64 register tile, through the
 * cpu device, beside the peak of fused multiply-adds measured in the same run. Prints the inner loop with --asm. Shows
 * the shape that schedules should have. */
#include <stdlib.h>
#include <string.h>

#include "kernels/llvm/assembly.h"
#include "kit.h"
#include "quern/driver.h"
#include "quern/kernel.h"

enum { LANES = 16, VECTORS = 4, ROWS = 6, WIDTH = LANES * VECTORS };

typedef struct tile {
  qn_kbuild b;
  uint32_t a, bb, c;
  qn_sval n, k;    /* as i32 */
  bool transposed; /* A is stored K x M, m its row length */
  qn_sval m;
} tile;

static qn_sval num(tile *t, int64_t x) { return qs_const(&t->b.sink, QN_I32, (double)x); }
static qn_sval add(tile *t, qn_sval x, qn_sval y) { return qs_add(&t->b.sink, x, y); }
static qn_sval mul(tile *t, qn_sval x, qn_sval y) { return qs_mul(&t->b.sink, x, y); }

/* One tile of `rows` x 64 outputs at (row, column): the accumulators are variables, the loop over k holds nothing but
 * loads and multiply-adds. */
static void emit_tile(tile *t, qn_sval row, qn_sval column, int rows) {
  qn_sink *s = &t->b.sink;
  qn_sval acc[ROWS][VECTORS], zero = qn_kb_splat(&t->b, qs_const(s, QN_F32, 0), LANES);
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < VECTORS; ++v)
      acc[r][v] = qn_kb_var(&t->b, zero);
  qn_sval k = qn_kb_loop(&t->b, num(t, 0), t->k, 1, false);
  qn_sval x[VECTORS], at = add(t, mul(t, k, t->n), column);
  for (int v = 0; v < VECTORS; ++v)
    x[v] = qn_kb_load(&t->b, t->bb, add(t, at, num(t, v * LANES)), LANES, (qn_sval){0});
  for (int r = 0; r < rows; ++r) {
    qn_sval i = add(t, row, num(t, r));
    qn_sval index = t->transposed ? add(t, mul(t, k, t->m), i) : add(t, mul(t, i, t->k), k);
    qn_sval y = qn_kb_splat(&t->b, qn_kb_load(&t->b, t->a, index, 1, (qn_sval){0}), LANES);
    for (int v = 0; v < VECTORS; ++v)
      qn_kb_set(&t->b, acc[r][v], qs_fma(s, y, x[v], qn_kb_get(&t->b, acc[r][v])));
  }
  qn_kb_close(&t->b);
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < VECTORS; ++v) {
      qn_sval index = add(t, add(t, mul(t, add(t, row, num(t, r)), t->n), column), num(t, v * LANES));
      qn_kb_store(&t->b, t->c, index, qn_kb_get(&t->b, acc[r][v]), (qn_sval){0});
    }
}

/* Groups: row tiles inside column panels, so that neighbours in a thread's range share the panel of B. */
static qn_status build(qn_kernel *kernel, uint32_t m, uint32_t n, uint32_t k, bool transposed, uint32_t *out_groups) {
  tile t = {.transposed = transposed};
  uint32_t full = m / ROWS, rest = m % ROWS, tiles = full + (rest > 0);
  QN_TRY(qn_kbuild_begin(&t.b, kernel));
  qn_sink *s = &t.b.sink;
  uint32_t offsets[3];
  for (int i = 0; i < 3; ++i)
    offsets[i] = (uint32_t)i + 1;
  (void)qn_kb_new_param(&t.b);
  for (int i = 0; i < 3; ++i)
    (void)qn_kb_new_param(&t.b);
  t.a = qn_kb_buffer(&t.b, QN_F32, 0, offsets[0], true, false, 64);
  t.bb = qn_kb_buffer(&t.b, QN_F32, 1, offsets[1], true, false, 64);
  t.c = qn_kb_buffer(&t.b, QN_F32, 2, offsets[2], false, true, 64);
  t.n = num(&t, n);
  t.k = num(&t, k);
  t.m = num(&t, m);
  qn_sval g = qs_convert(s, QN_I32, qn_kb_group(&t.b));
  qn_sval column = mul(&t, qs_idiv(s, g, num(&t, tiles)), num(&t, WIDTH));
  qn_sval index = qs_irem(s, g, num(&t, tiles)), row = mul(&t, index, num(&t, ROWS));
  if (rest) {
    qn_kb_if(&t.b, qs_lt(s, index, num(&t, full)));
    emit_tile(&t, row, column, ROWS);
    qn_kb_else(&t.b);
    emit_tile(&t, row, column, (int)rest);
    qn_kb_close(&t.b);
  } else {
    emit_tile(&t, row, column, ROWS);
  }
  *out_groups = tiles * (n / WIDTH);
  QN_TRY(qn_kbuild_end(&t.b));
  return QN_OK;
}

typedef struct shape {
  uint32_t m, n, k;
  bool transposed;
} shape;
static const shape shapes[] = {{32, 64, 784, false}, {784, 64, 32, true},    {128, 64, 64, false},
                               {32, 64, 64, false},  {256, 256, 256, false}, {512, 512, 512, false}};
enum { SHAPES = sizeof shapes / sizeof *shapes, FLOATS = 1 << 20 };

static void nothing(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1) {
  (void)context;
  (void)bindings;
  (void)params;
  (void)g0;
  (void)g1;
}

typedef struct bench {
  qn_device *device;
  qn_buffer *buffers[3];
  qn_program *program, *idle;
  qn_kernel kernels[SHAPES];
  uint32_t groups[SHAPES];
} bench;

static qn_status best(bench *b, qn_program *program, uint32_t entry, uint32_t groups, int repeat, int rounds,
                      double *out_seconds) {
  const bench_launch launch = {
      .program = program, .entry = entry, .groups = groups, .param_count = 4, .buffers = b->buffers, .buffer_count = 3};
  return bench_best(b->device, &launch, repeat, rounds, out_seconds);
}

static qn_status check(bench *b, const shape *s) {
  const float *x = qn_buffer_map(b->buffers[0]), *y = qn_buffer_map(b->buffers[1]), *z = qn_buffer_map(b->buffers[2]);
  for (uint32_t i = 0; i < s->m; i += 7)
    for (uint32_t j = 0; j < s->n; j += 13) {
      double sum = 0;
      for (uint32_t k = 0; k < s->k; ++k)
        sum += (double)(s->transposed ? x[k * s->m + i] : x[i * s->k + k]) * (double)y[k * s->n + j];
      double d = sum - (double)z[i * s->n + j];
      if (d > 1e-3 || d < -1e-3)
        return QN_ERR(QN_INTERNAL, "%u x %u x %u: output %u, %u is wrong: %g, expected %g", s->m, s->n, s->k, i, j,
                      (double)z[i * s->n + j], sum);
    }
  return QN_OK;
}

static qn_status compile(bench *b) {
  const qn_kernel *list[SHAPES];
  qn_code_entry entries[SHAPES] = {0};
  for (int i = 0; i < SHAPES; ++i)
    QN_TRY(build(&b->kernels[i], shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].transposed, &b->groups[i]));
  for (int i = 0; i < SHAPES; ++i) {
    list[i] = &b->kernels[i];
    entries[i] = (qn_code_entry){.name = b->kernels[i].name, .items = 1, .binding_count = 3, .param_count = 4};
  }
  qn_code code = {.format = QN_CODE_NATIVE, .entries = entries, .entry_count = SHAPES};
  qn_bytes object = {0};
  uint64_t start = qn_time_ns();
  QN_TRY(qn_llvm_compile(list, SHAPES, NULL, entries, &code, &object));
  uint64_t compiled = qn_time_ns();
  qn_code again = {0};
  QN_TRY(qn_llvm_compile(list, SHAPES, &object, entries, &again, NULL));
  printf("compile %d kernels %.1f ms, reload %zu bytes %.1f ms\n", SHAPES, (double)(compiled - start) * 1e-6,
         object.size, (double)(qn_time_ns() - compiled) * 1e-6);
  code.release(code.owner);
  code.release = again.release;
  code.owner = again.owner;
  free(object.data);
  QN_TRY(qn_program_create(b->device, &code, NULL, NULL, &b->program));
  return QN_OK;
}

static qn_status open_bench(bench *b) {
  const qn_driver *drivers[] = {&qn_driver_cpu};
  QN_TRY(qn_device_open(drivers, 1, "cpu", &b->device));
  for (int i = 0; i < 3; ++i) {
    qn_buffer_desc desc = {.size = FLOATS * sizeof(float)};
    QN_TRY(qn_buffer_create(b->device, &desc, &b->buffers[i]));
    float *x = qn_buffer_map(b->buffers[i]);
    for (int k = 0; k < FLOATS; ++k)
      x[k] = (float)((k * 7 + i * 3) % 31 - 15) * 0.0625f;
  }
  qn_code_entry entry = {.name = "nothing", .items = 1, .binding_count = 3, .param_count = 4, .native = nothing};
  qn_code code = {.format = QN_CODE_NATIVE, .entries = &entry, .entry_count = 1};
  QN_TRY(qn_program_create(b->device, &code, NULL, NULL, &b->idle));
  QN_TRY(compile(b));
  return QN_OK;
}

static qn_status measure(bench *b) {
  bench_peak peak;
  double t = 0;
  QN_TRY(bench_peak_measure(b->device, &peak));
  printf("peak %.1f GFLOP/s on one thread, %.1f on %u\n", peak.one, peak.all, peak.threads);
  for (uint32_t i = 0; i < SHAPES; ++i) {
    const shape *s = &shapes[i];
    double work = 2.0 * s->m * s->n * s->k;
    QN_TRY(best(b, b->program, i, b->groups[i], (int)(2e7 / work) + 1, 200, &t));
    QN_TRY(check(b, s));
    printf("%4u x %3u x %3u%s: %6.1f GFLOP/s, %5.1f%% of peak, %.2f us\n", s->m, s->n, s->k,
           s->transposed ? " (A transposed)" : "", work / t * 1e-9, 100 * work / t * 1e-9 / peak.all, t * 1e6);
  }
  QN_TRY(best(b, b->idle, 0, 0, 1, 20000, &t));
  printf("submit and wait, nothing to do: %.2f us\n", t * 1e6);
  QN_TRY(best(b, b->idle, 0, 64, 12, 20000, &t));
  printf("a step of 12 launches that do nothing: %.2f us\n", t * 12e6);
  QN_TRY(best(b, b->idle, 0, 64, 2000, 100, &t));
  printf("a launch and a meeting of all threads: %.3f us\n", t * 1e6);
  return QN_OK;
}

int main(int argc, char **argv) {
  bench b = {0};
  qn_status st = open_bench(&b);
  if (st == QN_OK)
    st = measure(&b);
  if (st == QN_OK && argc > 1 && strcmp(argv[1], "--asm") == 0) {
    qn_text text = {0};
    st = qn_llvm_assembly(&b.kernels[0], &text);
    if (st == QN_OK)
      puts(text.buf);
    qn_text_free(&text);
  }
  if (st != QN_OK)
    fprintf(stderr, "%s\n", qn_error_report());
  qn_program_release(b.program);
  qn_program_release(b.idle);
  for (int i = 0; i < 3; ++i)
    qn_buffer_release(b.buffers[i]);
  for (int i = 0; i < SHAPES; ++i)
    qn_kernel_free(&b.kernels[i]);
  qn_device_release(b.device);
  return st != QN_OK;
}
