/* One training step of mnist_mlp on every device there is: the least and the median time of a step that is waited for, the time
 * of one among many in a row, and the share of the processor's peak of fused multiply-adds, measured in the same run. The first
 * step's loss and new state are compared with the reference interpreter's; a device that computes something else gets no tick,
 * and the program fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "quern/compile.h"
#include "quern/drivers.h"
#include "quern/train.h"

enum { BATCHES = 3, ROW = 50, STREAM = 10, WARM_UP = 20, MAX_STEPS = 100000 };

/* The step, its inputs on the host, and what the reference says of them. */
typedef struct workload {
  qn_traced fn;
  qn_compile_desc compile;
  qn_layout args[2], result; /* result: all leaves, "loss" and "state/..." */
  uint8_t *state, *batches[BATCHES], *expected;
} workload;

typedef struct options {
  const char *device; /* NULL: all that can be used */
  int batch, steps;
  bool json;
} options;

typedef struct row {
  qn_device_caps caps;
  double min, median, streamed; /* seconds */
  double flops;
  double loss, expected_loss, state_error;
  bool right;
} row;

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

static qn_status compare(runner *r, row *out) {
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

/* A row of steps from the same state, so that no run ends in a network that has learnt its three batches by heart. */
static qn_status time_row(runner *r, double *out_seconds) {
  QN_TRY(write_all(r->state, r->w->state));
  QN_TRY(qn_tensors_wait(r->state));
  for (int i = 0; i < ROW; i++) {
    uint64_t start = qn_time_ns();
    QN_TRY(call(r));
    QN_TRY(qn_step_wait(r->step));
    out_seconds[i] = (double)(qn_time_ns() - start) * 1e-9;
  }
  return QN_OK;
}

static qn_status time_stream(runner *r, double *out_seconds) {
  QN_TRY(write_all(r->state, r->w->state));
  QN_TRY(qn_tensors_wait(r->state));
  uint64_t start = qn_time_ns();
  for (int i = 0; i < STREAM; i++)
    QN_TRY(call(r));
  QN_TRY(qn_step_wait(r->step));
  *out_seconds = (double)(qn_time_ns() - start) * 1e-9 / STREAM;
  return QN_OK;
}

static qn_status measure(runner *r, int steps, row *out) {
  int rows = (steps + ROW - 1) / ROW;
  double *seconds = calloc((size_t)rows * ROW, sizeof *seconds), streamed;
  qn_status st = seconds ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for times");
  out->streamed = 1e9;
  for (int i = 0; i < WARM_UP && st == QN_OK; i++)
    st = call(r);
  for (int i = 0; i < rows && st == QN_OK; i++) {
    st = time_row(r, seconds + i * ROW);
    if (st == QN_OK)
      st = time_stream(r, &streamed);
    if (st == QN_OK)
      out->streamed = streamed < out->streamed ? streamed : out->streamed;
  }
  if (st == QN_OK) {
    out->min = bench_min(seconds, (size_t)rows * ROW);
    out->median = bench_median(seconds, (size_t)rows * ROW);
  }
  free(seconds);
  return st;
}

static qn_status run_on(runner *r, qn_device *d, int steps, row *out) {
  qn_jit_desc jit = {.compile = r->w->compile};
  QN_TRY(qn_jit(d, &r->w->fn, &jit, &r->step));
  const qn_plan *plan = qn_step_plan(r->step);
  for (size_t i = 0; i < plan->cmd_count; i++)
    out->flops += plan->cmds[i].flops;
  QN_TRY(qn_tensors_create(d, &r->w->args[0], "state", &r->state));
  QN_TRY(write_all(r->state, r->w->state));
  for (int i = 0; i < BATCHES; i++) {
    QN_TRY(qn_tensors_create(d, &r->w->args[1], "batch", &r->batches[i]));
    QN_TRY(write_all(r->batches[i], r->w->batches[i]));
  }
  QN_TRY(call(r));
  QN_TRY(compare(r, out));
  return measure(r, steps, out);
}

static qn_status bench_device(const workload *w, const char *which, int steps, row *out) {
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_device *d;
  runner r = {.w = w};
  QN_TRY(qn_device_open(drivers, count, which, &d));
  out->caps = *qn_device_get_caps(d);
  qn_status st = run_on(&r, d, steps, out);
  if (r.state)
    qn_tensors_release(r.state);
  for (int i = 0; i < BATCHES; i++)
    if (r.batches[i])
      qn_tensors_release(r.batches[i]);
  if (r.step)
    qn_step_release(r.step);
  qn_device_release(d);
  return st;
}

/* ---- output ---- */

static void print_head(const bench_peak *peak, int batch) {
  if (peak->all > 0)
    printf("FMA peak: %.0f GFLOP/s on one thread, %.0f on %u\n", peak->one, peak->all, peak->threads);
  printf("one training step of mnist_mlp, batch %d\n\n", batch);
  puts("| device | name | min ms | median ms | in a row, ms | GFLOP/s | of peak | loss | right |");
  puts("|---|---|---|---|---|---|---|---|---|");
}

static void print_row(const row *r, const bench_peak *peak) {
  char share[16] = "-";
  /* The peak is the processor's: it says nothing about a device of its own. */
  if (peak->all > 0 && (r->caps.software || r->caps.device_class != QN_CLASS_GPU))
    (void)snprintf(share, sizeof share, "%.1f%%", 100 * r->flops / r->min * 1e-9 / peak->all);
  printf("| %s | %s | %.4f | %.4f | %.4f | %.1f | %s | %.6g | %s |\n", r->caps.id, r->caps.name, r->min * 1e3,
         r->median * 1e3, r->streamed * 1e3, r->flops / r->min * 1e-9, share, r->loss, r->right ? "yes" : "NO");
  if (!r->right)
    printf("  the loss should be %.6g; the state differs by %.2g of its largest value\n", r->expected_loss,
           r->state_error);
  (void)fflush(stdout);
}

static void print_json(const row *r, const bench_peak *peak, int batch) {
  qn_text t = {0};
  qn_text_puts(&t, "{\"bench\":\"step\",\"program\":\"mnist_mlp\",\"device\":");
  qn_text_json_string(&t, r->caps.id);
  qn_text_puts(&t, ",\"name\":");
  qn_text_json_string(&t, r->caps.name);
  qn_text_add(&t, ",\"batch\":%d,\"min_ms\":%.5f,\"median_ms\":%.5f,\"streamed_ms\":%.5f,\"gflops\":%.2f", batch,
              r->min * 1e3, r->median * 1e3, r->streamed * 1e3, r->flops / r->min * 1e-9);
  qn_text_add(&t, ",\"peak_gflops\":%.1f,\"loss\":%.7g,\"expected_loss\":%.7g,\"right\":%s}", peak->all, r->loss,
              r->expected_loss, r->right ? "true" : "false");
  if (t.buf)
    puts(t.buf);
  qn_text_free(&t);
  (void)fflush(stdout);
}

/* One row; returns how many went wrong. */
static int show(const workload *w, const char *which, const options *o, const bench_peak *peak) {
  row r = {.flops = 0};
  if (bench_device(w, which, o->steps, &r) != QN_OK) {
    fprintf(stderr, "bench_step: %s: %s\n", which, qn_error_message());
    return 1;
  }
  if (o->json)
    print_json(&r, peak, o->batch);
  else
    print_row(&r, peak);
  return r.right ? 0 : 1;
}

static qn_status run(const options *o, int *out_wrong) {
  size_t driver_count, count = 0;
  const qn_driver *const *drivers = qn_drivers(&driver_count);
  qn_device_info *infos = NULL;
  qn_device *cpu = NULL;
  workload w = {.state = NULL};
  bench_peak peak;
  qn_status st;
  *out_wrong = 0;
  QN_TRY_GOTO(st, open_workload(&w, o->batch), done);
  QN_TRY_GOTO(st, qn_device_open(drivers, driver_count, "cpu", &cpu), done);
  QN_TRY_GOTO(st, bench_peak_measure(cpu, &peak), done);
  qn_device_release(cpu);
  cpu = NULL;
  if (!o->json)
    print_head(&peak, o->batch);
  if (o->device) {
    *out_wrong += show(&w, o->device, o, &peak);
    goto done;
  }
  QN_TRY_GOTO(st, qn_devices_list(drivers, driver_count, &infos, &count), done);
  for (size_t i = 0; i < count; i++)
    if (infos[i].usable && infos[i].caps.format != QN_CODE_NULL)
      *out_wrong += show(&w, infos[i].caps.id, o, &peak);
done:
  qn_device_release(cpu);
  free(infos);
  close_workload(&w);
  return st;
}

static bool number(const char *text, int most, int *out) {
  char *end;
  long x = strtol(text, &end, 10);
  if (*end || end == text || x < 1 || x > most)
    return false;
  *out = (int)x;
  return true;
}

static bool parse(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--json") == 0)
      o->json = true;
    else if (strcmp(argv[i], "--device") == 0 && value[0])
      o->device = argv[++i];
    else if (strcmp(argv[i], "--batch") == 0 && number(value, 65536, &o->batch))
      i++;
    else if (strcmp(argv[i], "--steps") == 0 && number(value, MAX_STEPS, &o->steps))
      i++;
    else
      return false;
  }
  return true;
}

int main(int argc, char **argv) {
  options o = {.batch = 32, .steps = 1000};
  int wrong;
  if (!parse(argc, argv, &o)) {
    fputs("usage: bench_step [--device D] [--batch B] [--steps N] [--json]\n", stderr);
    return 2;
  }
  if (run(&o, &wrong) != QN_OK) {
    fprintf(stderr, "bench_step: %s\n", qn_error_report());
    return 1;
  }
  return wrong ? 1 : 0;
}
