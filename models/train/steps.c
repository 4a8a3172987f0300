/* The compiled functions of a training, one set per batch size: a data set's last, smaller batch gets a step of its own,
 * compiled when it first comes up. Batches go through a small ring of tensors, so filling one overlaps with the steps
 * that still read the others. */
#include "train_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_LEAVES = 3, PREFIX_ROOM = 128 };

/* What depends on the rows of a batch. */
typedef struct kind {
  struct kind *next;
  size_t rows;
  qn_treedef batch;
  qn_layout layout;
  qn_ring *ring;
  uint8_t *staging; /* a batch in host memory, for devices whose memory is elsewhere */
  void **leaves;
  qn_step *train, *eval;
  bool called; /* the train step, at least once */
} kind;

struct qn_fit_steps {
  qn_device *device;
  const qn_fit *fit;
  const qn_train_options *options;
  qn_traced init, totals;
  qn_layout state_layout, totals_layout;
  uint8_t *zeros; /* what `totals` gives, in its layout; made at first need */
  qn_tensors *eval_totals;
  kind *kinds;
};

static const qn_plan_donation donate_state[] = {{0, "state"}};
static const qn_plan_donation donate_totals[] = {{1, "totals"}};

/* ---- tracing ---- */

static qn_status trace_init(const qn_fit *fit, qn_traced *out_traced) {
  qn_treedef key = {0};
  qn_status st = qn_treedef_add(&key, "key", qn_type_of(QN_U32, 1, 2));
  if (st == QN_OK)
    st = qn_trace(fit->init, fit->user, "init", &key, 1, out_traced);
  qn_treedef_free(&key);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "trace_init");
}

static qn_status trace_train(const qn_fit *fit, const qn_treedef *state, const qn_treedef *batch,
                             qn_traced *out_traced) {
  const qn_treedef args[] = {*state, *batch};
  QN_TRY(qn_trace(fit->train_step, fit->user, "train_step", args, 2, out_traced));
  ptrdiff_t loss = qn_treedef_find(&out_traced->result, "loss");
  if (loss >= 0 && out_traced->result.leaves[loss].type.dtype == QN_F32 &&
      out_traced->result.leaves[loss].type.rank == 0)
    return QN_OK;
  qn_traced_free(out_traced);
  *out_traced = (qn_traced){0};
  return QN_ERR(QN_INVALID, "%s: the training step's result has no scalar f32 leaf \"loss\"", fit->name);
}

static qn_compile_desc train_desc(void) {
  return (qn_compile_desc){.name = "train_step", .donations = donate_state, .donation_count = 1};
}

qn_status qn_fit_trace(const qn_fit *fit, int batch, qn_traced *out_traced, qn_compile_desc *out_desc) {
  qn_traced init = {0};
  qn_treedef def = {0};
  qn_status st;
  *out_traced = (qn_traced){0};
  *out_desc = train_desc();
  QN_TRY(trace_init(fit, &init));
  QN_TRY_GOTO(st, fit->batch(fit->user, batch, &def), done);
  QN_TRY_GOTO(st, trace_train(fit, &init.result, &def, out_traced), done);
done:
  qn_treedef_free(&def);
  qn_traced_free(&init);
  return st;
}

/* ---- the whole ---- */

static qn_status open_steps(qn_fit_steps *s) {
  QN_TRY(trace_init(s->fit, &s->init));
  QN_TRY(qn_trace(s->fit->totals, s->fit->user, "totals", NULL, 0, &s->totals));
  QN_TRY(qn_layout_from_treedef(&s->init.result, &s->state_layout));
  QN_TRY(qn_layout_from_treedef(&s->totals.result, &s->totals_layout));
  return QN_OK;
}

qn_status qn_steps_create(qn_device *d, const qn_fit *fit, const qn_train_options *options, qn_fit_steps **out_steps) {
  *out_steps = NULL;
  qn_fit_steps *s = calloc(1, sizeof *s);
  if (!s)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for its steps", fit->name);
  s->device = d;
  s->fit = fit;
  s->options = options;
  qn_status st = open_steps(s);
  if (st != QN_OK) {
    qn_steps_free(s);
    return qn_error_trace(st, __FILE__, __LINE__, "open_steps");
  }
  *out_steps = s;
  return QN_OK;
}

static void free_kind(kind *k) {
  if (k->train)
    qn_step_release(k->train);
  if (k->eval)
    qn_step_release(k->eval);
  qn_ring_destroy(k->ring);
  qn_layout_free(&k->layout);
  qn_treedef_free(&k->batch);
  free(k->staging);
  free(k->leaves);
  free(k);
}

void qn_steps_free(qn_fit_steps *s) {
  if (!s)
    return;
  while (s->kinds) {
    kind *k = s->kinds;
    s->kinds = k->next;
    free_kind(k);
  }
  if (s->eval_totals)
    qn_tensors_release(s->eval_totals);
  qn_layout_free(&s->state_layout);
  qn_layout_free(&s->totals_layout);
  qn_traced_free(&s->init);
  qn_traced_free(&s->totals);
  free(s->zeros);
  free(s);
}

static qn_status jit(const qn_fit_steps *s, const qn_traced *fn, qn_compile_desc compile, bool profile,
                     qn_step **out_step) {
  qn_jit_desc desc = {.compile = compile, .step = {.cache = s->options->cache, .profile = profile}};
  desc.compile.cache = s->options->cache;
  return qn_jit(s->device, fn, &desc, out_step);
}

/* A function that runs once: its result outlives the step. */
static qn_status run_once(const qn_fit_steps *s, const qn_traced *fn, const char *name, qn_tensors *const *args,
                          size_t arg_count, qn_tensors **out_result) {
  qn_step *step;
  *out_result = NULL;
  QN_TRY(jit(s, fn, (qn_compile_desc){.name = name}, false, &step));
  qn_status st = qn_step_call(step, args, arg_count, out_result, NULL);
  if (st == QN_OK)
    st = qn_step_wait(step);
  *out_result = st == QN_OK ? qn_tensors_retain(*out_result) : NULL;
  qn_step_release(step);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, name);
}

/* ---- state and totals ---- */

qn_status qn_steps_init_state(qn_fit_steps *s, uint64_t seed, qn_tensors **out_state) {
  uint32_t words[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
  qn_layout layout = {0};
  qn_tensors *key = NULL;
  qn_status st;
  *out_state = NULL;
  QN_TRY_GOTO(st, qn_layout_from_treedef(&s->init.args[0], &layout), done);
  QN_TRY_GOTO(st, qn_tensors_create(s->device, &layout, "key", &key), done);
  QN_TRY_GOTO(st, qn_tensors_write_at(key, 0, words), done);
  QN_TRY_GOTO(st, run_once(s, &s->init, "init", &key, 1, out_state), done);
done:
  if (key)
    qn_tensors_release(key);
  qn_layout_free(&layout);
  return st;
}

qn_status qn_steps_new_state(qn_fit_steps *s, qn_tensors **out_state) {
  return qn_tensors_create(s->device, &s->state_layout, "state", out_state);
}

static qn_status need_zeros(qn_fit_steps *s) {
  qn_tensors *result;
  if (s->zeros)
    return QN_OK;
  QN_TRY(run_once(s, &s->totals, "totals", NULL, 0, &result));
  uint8_t *zeros = calloc(1, (size_t)s->totals_layout.bytes + 1);
  qn_status st = zeros ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for totals", s->fit->name);
  for (size_t i = 0; i < s->totals_layout.count && st == QN_OK; i++)
    st = qn_tensors_read_at(result, i, zeros + s->totals_layout.entries[i].offset);
  qn_tensors_release(result);
  if (st != QN_OK) {
    free(zeros);
    return qn_error_trace(st, __FILE__, __LINE__, "need_zeros");
  }
  s->zeros = zeros;
  return QN_OK;
}

/* Writes fresh totals over the leaves of `t` below `prefix`. */
static qn_status reset(qn_fit_steps *s, qn_tensors *t, const char *prefix) {
  QN_TRY(need_zeros(s));
  for (size_t i = 0; i < s->totals_layout.count; i++) {
    const qn_layout_entry *e = &s->totals_layout.entries[i];
    char path[PREFIX_ROOM];
    int n = snprintf(path, sizeof path, "%s%s", prefix, e->path);
    if (n < 0 || (size_t)n >= sizeof path)
      return QN_ERR(QN_INVALID, "%s: the path of metric \"%s\" is too long", s->fit->name, e->path);
    QN_TRY(qn_tensors_write(t, path, s->zeros + e->offset));
  }
  return QN_OK;
}

static qn_status read_totals(const qn_fit_steps *s, const qn_tensors *t, const char *prefix, qn_totals *out) {
  static const char *const names[METRIC_LEAVES] = {"loss", "hits", "count"};
  float values[METRIC_LEAVES];
  for (size_t i = 0; i < METRIC_LEAVES; i++) {
    char path[PREFIX_ROOM];
    ptrdiff_t at;
    (void)snprintf(path, sizeof path, "%s%s", prefix, names[i]);
    at = qn_layout_find(qn_tensors_layout(t), path);
    const qn_layout_entry *e = at >= 0 ? &qn_tensors_layout(t)->entries[at] : NULL;
    if (!e || e->dtype != QN_F32 || e->rank != 0)
      return QN_ERR(QN_INVALID, "%s: no scalar f32 leaf \"%s\" to read the metrics from", s->fit->name, path);
    QN_TRY(qn_tensors_read_at(t, (size_t)at, &values[i]));
  }
  out->rows = (double)values[2];
  out->loss = out->rows > 0 ? (double)values[0] / out->rows : (double)NAN;
  out->accuracy = out->rows > 0 ? (double)values[1] / out->rows : (double)NAN;
  return QN_OK;
}

static void metrics_prefix(const qn_fit_steps *s, char out[PREFIX_ROOM]) {
  (void)snprintf(out, PREFIX_ROOM, "%.*s/", PREFIX_ROOM - 2, s->fit->metrics);
}

qn_status qn_steps_zero_metrics(qn_fit_steps *s, qn_tensors *state) {
  char prefix[PREFIX_ROOM];
  metrics_prefix(s, prefix);
  return reset(s, state, prefix);
}

qn_status qn_steps_read_metrics(qn_fit_steps *s, const qn_tensors *state, qn_totals *out_totals) {
  char prefix[PREFIX_ROOM];
  metrics_prefix(s, prefix);
  return read_totals(s, state, prefix, out_totals);
}

/* ---- batches ---- */

static qn_status open_kind(const qn_fit_steps *s, kind *k, size_t rows) {
  k->rows = rows;
  QN_TRY(s->fit->batch(s->fit->user, (int64_t)rows, &k->batch));
  QN_TRY(qn_layout_from_treedef(&k->batch, &k->layout));
  QN_TRY(qn_ring_create(s->device, &k->layout, "batch", 0, &k->ring));
  k->leaves = calloc(k->layout.count + 1, sizeof *k->leaves);
  if (!qn_device_get_caps(s->device)->host_memory)
    k->staging = malloc((size_t)k->layout.bytes + 1);
  if (!k->leaves || (!k->staging && !qn_device_get_caps(s->device)->host_memory))
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for batches of %zu rows", s->fit->name, rows);
  return QN_OK;
}

static qn_status find_kind(qn_fit_steps *s, size_t rows, kind **out_kind) {
  for (*out_kind = s->kinds; *out_kind; *out_kind = (*out_kind)->next)
    if ((*out_kind)->rows == rows)
      return QN_OK;
  kind *k = calloc(1, sizeof *k);
  if (!k)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for batches of %zu rows", s->fit->name, rows);
  qn_status st = open_kind(s, k, rows);
  if (st != QN_OK) {
    free_kind(k);
    return qn_error_trace(st, __FILE__, __LINE__, "open_kind");
  }
  k->next = s->kinds;
  s->kinds = k;
  *out_kind = k;
  return QN_OK;
}

/* Where a device's buffers are host memory, rows are written straight into them: the ring has waited for their last use. */
static qn_status fill_batch(kind *k, const qn_split *split, const uint32_t *rows, qn_tensors **out_batch) {
  QN_TRY(qn_ring_next(k->ring, out_batch));
  uint8_t *base = k->staging ? k->staging : qn_buffer_map(qn_tensors_buffer(*out_batch));
  for (size_t i = 0; i < k->layout.count; i++)
    k->leaves[i] = base + k->layout.entries[i].offset;
  QN_TRY(split->fill(split->user, rows, k->rows, k->leaves));
  for (size_t i = 0; k->staging && i < k->layout.count; i++)
    QN_TRY(qn_tensors_write_at(*out_batch, i, k->leaves[i]));
  return QN_OK;
}

/* ---- training and evaluation ---- */

static qn_status need_train(const qn_fit_steps *s, kind *k) {
  qn_traced fn;
  if (k->train)
    return QN_OK;
  QN_TRY(trace_train(s->fit, &s->init.result, &k->batch, &fn));
  qn_status st = jit(s, &fn, train_desc(), s->options->profile, &k->train);
  qn_traced_free(&fn);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "need_train");
}

static qn_status need_eval(const qn_fit_steps *s, kind *k) {
  const qn_treedef args[] = {s->init.result, s->totals.result, k->batch};
  const qn_compile_desc desc = {.name = "eval_step", .donations = donate_totals, .donation_count = 1};
  qn_traced fn;
  if (k->eval)
    return QN_OK;
  QN_TRY(qn_trace(s->fit->eval_step, s->fit->user, "eval_step", args, 3, &fn));
  ptrdiff_t at = qn_treedef_find(&fn.result, "prediction");
  const qn_type *t = at >= 0 ? &fn.result.leaves[at].type : NULL;
  qn_status st = QN_OK;
  if (!t || t->dtype != QN_I32 || t->rank != 1 || t->dims[0] != (int64_t)k->rows)
    st = QN_ERR(QN_INVALID, "%s: the evaluation step's result has no leaf \"prediction\" of i32[%zu]", s->fit->name,
                k->rows);
  if (st == QN_OK)
    st = jit(s, &fn, desc, false, &k->eval);
  qn_traced_free(&fn);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "need_eval");
}

/* A step with a look at everything that it leaves behind. */
static qn_status train_checked(const qn_fit_steps *s, kind *k, qn_tensors *state, qn_tensors *batch,
                               qn_tensors **out_result) {
  qn_tensors *const args[] = {state, batch};
  qn_kept *kept = NULL;
  qn_traced fn = {0};
  int64_t in_state = 0, in_result = 0;
  qn_status st = QN_OK;
  QN_TRY(qn_kept_take(args, 2, &kept));
  QN_TRY_GOTO(st, qn_step_call(k->train, args, 2, out_result, NULL), done);
  QN_TRY_GOTO(st, qn_kept_count_nans(state, &in_state), done);
  QN_TRY_GOTO(st, qn_kept_count_nans(*out_result, &in_result), done);
  if (in_state + in_result > 0) {
    QN_TRY_GOTO(st, trace_train(s->fit, &s->init.result, &k->batch, &fn), done);
    QN_TRY_GOTO(st, qn_kept_explain(kept, s->device, s->options->cache, &fn), done);
  }
done:
  qn_traced_free(&fn);
  qn_kept_free(kept);
  return st;
}

qn_status qn_steps_train(qn_fit_steps *s, qn_tensors *state, const uint32_t *rows, size_t count,
                         qn_tensors **out_result) {
  kind *k;
  qn_tensors *batch;
  *out_result = NULL;
  QN_TRY(find_kind(s, count, &k));
  QN_TRY(need_train(s, k));
  QN_TRY(fill_batch(k, &s->fit->train, rows, &batch));
  k->called = true;
  if (s->options->check_nans)
    return train_checked(s, k, state, batch, out_result);
  qn_tensors *const args[] = {state, batch};
  QN_TRY(qn_step_call(k->train, args, 2, out_result, NULL));
  return QN_OK;
}

uint64_t qn_steps_fallbacks(const qn_fit_steps *s) {
  uint64_t sum = 0;
  for (const kind *k = s->kinds; k; k = k->next) {
    sum += k->train ? qn_step_plan(k->train)->fallbacks : 0;
    sum += k->eval ? qn_step_plan(k->eval)->fallbacks : 0;
  }
  return sum;
}

static qn_status eval_batch(qn_fit_steps *s, qn_tensors *state, const qn_split *split, const uint32_t *rows,
                            size_t count, int32_t *out_predictions) {
  kind *k;
  qn_tensors *batch, *result;
  QN_TRY(find_kind(s, count, &k));
  QN_TRY(need_eval(s, k));
  QN_TRY(fill_batch(k, split, rows, &batch));
  qn_tensors *const args[] = {state, s->eval_totals, batch};
  QN_TRY(qn_step_call(k->eval, args, 3, &result, NULL));
  if (out_predictions)
    QN_TRY(qn_tensors_read(result, "prediction", out_predictions));
  return QN_OK;
}

qn_status qn_steps_evaluate(qn_fit_steps *s, qn_tensors *state, const qn_split *split, size_t batch,
                            int32_t *out_predictions, bool *out_stopped, qn_totals *out_totals) {
  uint32_t *rows = malloc(batch * sizeof *rows);
  qn_status st = rows ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for row numbers", s->fit->name);
  *out_stopped = false;
  *out_totals = (qn_totals){(double)NAN, (double)NAN, 0};
  if (st != QN_OK)
    goto done;
  if (!s->eval_totals)
    QN_TRY_GOTO(st, qn_tensors_create(s->device, &s->totals_layout, "totals", &s->eval_totals), done);
  QN_TRY_GOTO(st, reset(s, s->eval_totals, ""), done);
  for (size_t at = 0; at < split->rows; at += batch) {
    size_t n = split->rows - at < batch ? split->rows - at : batch;
    *out_stopped = s->options->stop && *s->options->stop;
    if (*out_stopped)
      goto done;
    for (size_t i = 0; i < n; i++)
      rows[i] = (uint32_t)(at + i);
    QN_TRY_GOTO(st, eval_batch(s, state, split, rows, n, out_predictions ? out_predictions + at : NULL), done);
  }
  QN_TRY_GOTO(st, read_totals(s, s->eval_totals, "", out_totals), done);
done:
  free(rows);
  return st;
}

qn_step *qn_steps_train_step(qn_fit_steps *s, size_t rows) {
  for (kind *k = s->kinds; k; k = k->next)
    if (k->rows == rows && k->called)
      return k->train;
  return NULL;
}
