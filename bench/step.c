/* One training step of mnist_mlp: the loss and the whole new state of the first are compared with the reference interpreter's, which computes by the plain C
 * functions of the operation table; then steps are timed that are waited for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "quern/compile.h"
#include "quern/train.h"
#include "rows.h"

enum { BATCHES = 3, ROW = 50, WARM_UP = 5 };

/* The step, its inputs on the host, and what the reference says of them. */
typedef struct workload {
  qn_traced fn;
  qn_compile_desc compile;
  qn_layout args[2], result; /* result: all leaves, "loss" and "state/..." */
  uint8_t *state, *batches[BATCHES], *expected;
} workload;

typedef struct verdict {
  double loss, expected_loss, state_error;
  bool right;
} verdict;

/* ---- inputs: the same on every device ---- */

static uint32_t next_word(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 32);
}
static float uniform(uint64_t *state) { return (float)(next_word(state) >> 8) * 0x1p-24f; }

static size_t elements(const qn_layout_entry *e) { return e->bytes / qn_dtype_size(e->dtype); }

/* Kernels as Glorot would have them, everything else zero but for the learning rate. */
static void fill_state(const qn_layout *l, uint8_t *out) {
  uint64_t seed = 1;
  for (size_t i = 0; i < l->count; i++) {
    const qn_layout_entry *e = &l->entries[i];
    float *x = (float *)(void *)(out + e->offset);
    if (strcmp(e->path, "optimizer/learning_rate") == 0)
      *x = 1e-3f;
    if (strncmp(e->path, "trainable/", 10) != 0 || e->rank != 2)
      continue;
    float limit = sqrtf(6.0f / (float)(e->dims[0] + e->dims[1]));
    for (size_t k = 0; k < elements(e); k++)
      x[k] = limit * (2 * uniform(&seed) - 1);
  }
}

/* Grey pixels 0 to 255, one-hot labels. */
static void fill_batch(const qn_layout *l, uint64_t seed, uint8_t *out) {
  float *x = (float *)(void *)(out + l->entries[0].offset), *y = (float *)(void *)(out + l->entries[1].offset);
  size_t rows = (size_t)l->entries[1].dims[0], classes = (size_t)l->entries[1].dims[1];
  for (size_t k = 0; k < elements(&l->entries[0]); k++)
    x[k] = floorf(256 * uniform(&seed));
  for (size_t r = 0; r < rows; r++)
    y[r * classes + next_word(&seed) % classes] = 1;
}

static qn_status run_reference(workload *w) {
  size_t count = w->args[0].count + w->args[1].count, n = 0;
  const void **inputs = calloc(count, sizeof *inputs);
  void **outputs = calloc(w->result.count + 1, sizeof *outputs);
  qn_status st = inputs && outputs ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for the reference");
  if (st == QN_OK) {
    for (size_t i = 0; i < w->args[0].count; i++)
      inputs[n++] = w->state + w->args[0].entries[i].offset;
    for (size_t i = 0; i < w->args[1].count; i++)
      inputs[n++] = w->batches[0] + w->args[1].entries[i].offset;
    for (size_t i = 0; i < w->result.count; i++)
      outputs[i] = w->expected + w->result.entries[i].offset;
    st = qn_graph_eval_ref(w->fn.graph, inputs, outputs);
  }
  free(inputs);
  free(outputs);
  return st;
}

static qn_status open_workload(workload *w, int batch) {
  size_t count;
  const qn_program_def *program = qn_programs(&count);
  const qn_train_options o = {.batch = batch};
  while (count && strcmp(program->name, "mnist_mlp") != 0) {
    program++;
    count--;
  }
  if (!count)
    return QN_ERR(QN_NOT_FOUND, "there is no program mnist_mlp");
  QN_TRY(program->trace(&o, &w->fn, &w->compile));
  QN_TRY(qn_layout_from_treedef(&w->fn.args[0], &w->args[0]));
  QN_TRY(qn_layout_from_treedef(&w->fn.args[1], &w->args[1]));
  QN_TRY(qn_layout_from_treedef(&w->fn.result, &w->result));
  w->state = calloc(1, w->args[0].bytes);
  w->expected = calloc(1, w->result.bytes);
  bool there = w->state && w->expected;
  for (int i = 0; i < BATCHES; i++) {
    w->batches[i] = calloc(1, w->args[1].bytes);
    there = there && w->batches[i];
  }
  if (!there)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for inputs");
  fill_state(&w->args[0], w->state);
  for (int i = 0; i < BATCHES; i++)
    fill_batch(&w->args[1], (uint64_t)i + 17, w->batches[i]);
  return run_reference(w);
}

static void close_workload(workload *w) {
  qn_traced_free(&w->fn);
  qn_layout_free(&w->args[0]);
  qn_layout_free(&w->args[1]);
  qn_layout_free(&w->result);
  free(w->state);
  free(w->expected);
  for (int i = 0; i < BATCHES; i++)
    free(w->batches[i]);
}

/* ---- one device ---- */

typedef struct runner {
  const workload *w;
  qn_step *step;
  qn_tensors *state, *batches[BATCHES], *result;
  int next;
} runner;

static qn_status write_all(qn_tensors *t, const uint8_t *from) {
  const qn_layout *l = qn_tensors_layout(t);
  for (size_t i = 0; i < l->count; i++)
    QN_TRY(qn_tensors_write_at(t, i, from + l->entries[i].offset));
  return QN_OK;
}

static qn_status call(runner *r) {
  qn_tensors *const args[] = {r->state, r->batches[r->next]};
  r->next = (r->next + 1) % BATCHES;
  return qn_step_call(r->step, args, 2, &r->result, NULL);
}

/* Largest difference of a leaf, beside the largest value in it. */
static double leaf_error(const qn_layout_entry *e, const void *got, const void *expected) {
  const float *a = got, *b = expected;
  double worst = 0, scale = 1e-12;
  if (e->dtype != QN_F32)
    return memcmp(got, expected, e->bytes) == 0 ? 0 : (double)INFINITY;
  for (size_t k = 0; k < elements(e); k++) {
    double d = fabs((double)a[k] - (double)b[k]);
    worst = d > worst || isnan(d) ? d : worst;
    scale = fabs((double)b[k]) > scale ? fabs((double)b[k]) : scale;
  }
  return worst / scale;
}

static qn_status compare(runner *r, verdict *out) {
  const workload *w = r->w;
  float loss;
  QN_TRY(qn_tensors_read(r->result, "loss", &loss));
  out->loss = (double)loss;
  for (size_t i = 0; i < w->result.count; i++) {
    const qn_layout_entry *e = &w->result.entries[i];
    const uint8_t *expected = w->expected + e->offset;
    if (strcmp(e->path, "loss") == 0) {
      float x;
      memcpy(&x, expected, sizeof x);
      out->expected_loss = (double)x;
      continue;
    }
    uint8_t *got = malloc(e->bytes);
    if (!got)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory to compare");
    qn_status st = qn_tensors_read(r->state, e->path + strlen("state/"), got);
    double error = st == QN_OK ? leaf_error(e, got, expected) : 0;
    free(got);
    QN_TRY(st);
    out->state_error = error > out->state_error || isnan(error) ? error : out->state_error;
  }
  out->right = fabs(out->loss - out->expected_loss) <= 1e-4 * fabs(out->expected_loss) && out->state_error <= 1e-3;
  return QN_OK;
}

static qn_status open_runner(runner *r, qn_device *d, qn_cache *cache) {
  qn_jit_desc jit = {.compile = r->w->compile, .step = {.cache = cache}};
  jit.compile.cache = cache;
  QN_TRY(qn_jit(d, &r->w->fn, &jit, &r->step));
  QN_TRY(qn_tensors_create(d, &r->w->args[0], "state", &r->state));
  QN_TRY(write_all(r->state, r->w->state));
  for (int i = 0; i < BATCHES; i++) {
    QN_TRY(qn_tensors_create(d, &r->w->args[1], "batch", &r->batches[i]));
    QN_TRY(write_all(r->batches[i], r->w->batches[i]));
  }
  return QN_OK;
}

static void close_runner(runner *r) {
  qn_tensors_release(r->state);
  for (int i = 0; i < BATCHES; i++)
    qn_tensors_release(r->batches[i]);
  qn_step_release(r->step);
}

/* Every ROW steps begin with the first state again, so that no run ends in a network that has learnt its three batches by heart. */
static qn_status time_steps(runner *r, double budget, double *out, size_t *out_count) {
  for (int i = 0; i < WARM_UP; i++)
    QN_TRY(call(r));
  QN_TRY(qn_step_wait(r->step));
  uint64_t end = qn_time_ns() + (uint64_t)(budget * 1e9);
  while (*out_count < BENCH_SAMPLES && (*out_count < 5 || qn_time_ns() < end)) {
    if (*out_count % ROW == 0) {
      QN_TRY(write_all(r->state, r->w->state));
      QN_TRY(qn_tensors_wait(r->state));
    }
    uint64_t start = qn_time_ns();
    QN_TRY(call(r));
    QN_TRY(qn_step_wait(r->step));
    out[*out_count] = (double)(qn_time_ns() - start) * 1e-6;
    ++*out_count;
  }
  return QN_OK;
}

qn_status bench_step_row(const bench_row *row, qn_device *d, qn_cache *cache, bool quick, double *out,
                         size_t *out_count, bool *out_correct) {
  workload w = {.state = NULL};
  runner r = {.w = &w};
  verdict v = {0};
  qn_status st;
  QN_TRY_GOTO(st, open_workload(&w, row->batch), done);
  QN_TRY_GOTO(st, open_runner(&r, d, cache), done);
  QN_TRY_GOTO(st, call(&r), done);
  QN_TRY_GOTO(st, compare(&r, &v), done);
  *out_correct = v.right;
  if (v.right)
    QN_TRY_GOTO(st, time_steps(&r, bench_budget(quick), out, out_count), done);
done:
  close_runner(&r);
  close_workload(&w);
  return st;
}
