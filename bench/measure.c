/* One row on one device: compiled as a step of its own, checked element by element, then timed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "quern/compile.h"
#include "rows.h"

enum { CHECKED = 2000 }; /* elements of a result, unless it is compared as a whole */
static const double tolerance = 1e-5, shortest = 2e-4, slow = 0.5; /* seconds of a call */

double bench_budget(bool quick) { return quick ? 0.3 : 2; }

typedef struct runner {
  qn_step *step;
  qn_tensors *args[BENCH_INPUTS], *result;
} runner;

static int64_t elements_of(const bench_row *row, int input) {
  int64_t n = 1;
  for (int i = 0; i < row->in[input].rank; i++)
    n *= row->in[input].dims[i];
  return n;
}

static qn_status trace(const bench_row *row, qn_traced *out) {
  qn_treedef defs[BENCH_INPUTS] = {{0}};
  qn_status st = QN_OK;
  for (int i = 0; st == QN_OK && i < row->in_count; i++)
    st = qn_treedef_add(&defs[i], "x", qn_type_make(QN_F32, row->in[i].rank, row->in[i].dims));
  if (st == QN_OK)
    st = qn_trace(row->trace, (void *)(uintptr_t)row, row->name, defs, (size_t)row->in_count, out);
  for (int i = 0; i < row->in_count; i++)
    qn_treedef_free(&defs[i]);
  return st;
}

/* ---- inputs ---- */

static void fill_any(int input, float *out, int64_t count) {
  uint64_t state = (uint64_t)input * 977 + 1;
  for (int64_t i = 0; i < count; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    out[i] = (float)(int32_t)(state >> 40) * 0x1p-23f - 1;
  }
}

static qn_status fill(bench_case *c) {
  for (int i = 0; i < c->row->in_count; i++) {
    int64_t count = elements_of(c->row, i);
    c->in[i] = malloc((size_t)count * sizeof(float));
    if (!c->in[i])
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for inputs of %s", c->row->name);
    if (c->row->fill)
      c->row->fill(c, i, c->in[i], count);
    else
      fill_any(i, c->in[i], count);
  }
  return c->row->prepare ? c->row->prepare(c) : QN_OK;
}

static qn_status load(bench_case *c, qn_device *d, qn_cache *cache, runner *r) {
  qn_jit_desc jit = {.compile = {.name = c->row->name, .cache = cache}, .step = {.cache = cache, .result_ring = 1}};
  QN_TRY(qn_jit(d, &c->fn, &jit, &r->step));
  const qn_plan *plan = qn_step_plan(r->step);
  for (int i = 0; i < c->row->in_count; i++) {
    QN_TRY(qn_tensors_create(d, &plan->args[i], "input", &r->args[i]));
    QN_TRY(qn_tensors_write_at(r->args[i], 0, c->in[i]));
  }
  return QN_OK;
}

/* ---- the check ---- */

static bool right(const bench_case *c, int output, const float *got, int64_t count) {
  bool whole = c->reference || c->row->fill;
  int64_t step = whole || count <= CHECKED ? 1 : (count / CHECKED) | 1;
  for (int64_t i = 0; i < count; i += step) {
    bench_expect e = c->row->expect(c, output, i);
    if (!(fabs((double)got[i] - e.value) <= tolerance * e.size))
      return false;
  }
  return true;
}

static qn_status check(const bench_case *c, const runner *r, bool *out_right) {
  const qn_layout *l = qn_tensors_layout(r->result);
  *out_right = true;
  for (size_t i = 0; *out_right && i < l->count; i++) {
    float *got = malloc(l->entries[i].bytes + sizeof *got);
    if (!got)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for results of %s", c->row->name);
    qn_status st = qn_tensors_read_at(r->result, i, got);
    if (st == QN_OK)
      *out_right = right(c, (int)i, got, (int64_t)(l->entries[i].bytes / sizeof *got));
    free(got);
    QN_TRY(st);
  }
  return QN_OK;
}

/* ---- times ---- */

static qn_status time_calls(runner *r, int in_count, int calls, double *out_seconds) {
  uint64_t start = qn_time_ns();
  for (int i = 0; i < calls; i++)
    QN_TRY(qn_step_call(r->step, r->args, (size_t)in_count, &r->result, NULL));
  QN_TRY(qn_step_wait(r->step));
  *out_seconds = (double)(qn_time_ns() - start) * 1e-9 / calls;
  return QN_OK;
}

/* Calls that are shorter than the clock and the wait deserve go in a row; a launch is what one costs that is waited for. */
static qn_status time_row(runner *r, const bench_row *row, double budget, double *out, size_t *out_count) {
  double one = 0;
  for (int i = 0; i < 3 && one < slow; i++)
    QN_TRY(time_calls(r, row->in_count, 1, &one));
  int calls = row->unit == BENCH_US || one >= shortest ? 1 : (int)(shortest / one) + 1;
  uint64_t end = qn_time_ns() + (uint64_t)(budget * 1e9);
  size_t least = one >= slow ? 2 : 5;
  while (*out_count < BENCH_SAMPLES && (*out_count < least || qn_time_ns() < end)) {
    QN_TRY(time_calls(r, row->in_count, calls > 200 ? 200 : calls, &out[*out_count]));
    ++*out_count;
  }
  return QN_OK;
}

static double quantity(const bench_row *row, double seconds) {
  static const double scale[] = {[BENCH_US] = 1e6, [BENCH_MS] = 1e3};
  return row->unit == BENCH_GFLOPS || row->unit == BENCH_GBS ? row->work / seconds * 1e-9 : seconds * scale[row->unit];
}

static qn_status measure_function(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out,
                                  size_t *out_count, bool *out_correct) {
  bench_case c = {.row = row};
  runner r = {0};
  qn_status st;
  double first;
  QN_TRY_GOTO(st, trace(row, &c.fn), done);
  QN_TRY_GOTO(st, fill(&c), done);
  QN_TRY_GOTO(st, load(&c, d, cache, &r), done);
  QN_TRY_GOTO(st, time_calls(&r, row->in_count, 1, &first), done);
  QN_TRY_GOTO(st, check(&c, &r, out_correct), done);
  if (*out_correct)
    QN_TRY_GOTO(st, time_row(&r, row, bench_budget(quick), out, out_count), done);
  for (size_t i = 0; i < *out_count; i++)
    out[i] = quantity(row, out[i]);
done:
  for (int i = 0; i < row->in_count; i++) {
    qn_tensors_release(r.args[i]);
    free(c.in[i]);
  }
  free(c.reference);
  qn_step_release(r.step);
  qn_traced_free(&c.fn);
  return st;
}

qn_status bench_measure(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, bench_result *out_result) {
  double values[BENCH_SAMPLES];
  size_t count = 0;
  *out_result = (bench_result){0};
  QN_TRY((row->measure ? row->measure : measure_function)(row, d, cache, quick, values, &count, &out_result->correct));
  if (!out_result->correct)
    return QN_OK;
  out_result->median = bench_median(values, count); /* sorts */
  out_result->min = values[0];
  out_result->max = values[count - 1];
  return QN_OK;
}

qn_status bench_peak_row(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out,
                         size_t *out_count, bool *out_correct) {
  (void)row;
  (void)cache;
  *out_count = quick ? 50 : 300;
  return bench_peak_rates(d, 0, (int)*out_count, out, out_correct);
}
