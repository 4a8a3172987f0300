/* Running functions: one by one on the reference interpreter, many as one program on a device, and by halves where such a program fails. */
#include <stdlib.h>
#include <string.h>

#include "../traced.h"
#include "quern/compile.h"
#include "replay.h"

/* ---- settling ---- */

static void compare(replay_run *r, const replay_function *f, void *const *got) {
  for (size_t i = 0; i < f->out_count; i++) {
    const qn_type *t = qn_graph_type(f->graph, qn_graph_result(f->graph, i)), *want = &f->want[i]->type;
    char why[256];
    if (!qn_type_equal(t, want)) {
      qn_replay_fail(r, f->index, "%s %d is %s, expected %s", f->part[i], f->number[i], qn_type_str(t),
                     qn_type_str(want));
      return;
    }
    if (!qn_replay_matches(t, got[i], f->want[i]->data, f->rtol, f->atol, why, sizeof why)) {
      qn_replay_fail(r, f->index, "%s %d: %s", f->part[i], f->number[i], why);
      return;
    }
  }
  qn_replay_pass(r, f->index);
}

static bool has_dtype(const qn_graph *g, qn_dtype t) {
  for (uint32_t v = 1; v <= qn_graph_value_count(g); v++)
    if (qn_graph_type(g, v)->dtype == t)
      return true;
  return false;
}

static void free_all(void **rooms, size_t count) {
  for (size_t i = 0; i < count; i++)
    free(rooms[i]);
}

static bool make_rooms(const qn_graph *g, void **rooms) {
  size_t n = qn_graph_result_count(g);
  for (size_t i = 0; i < n; i++) {
    rooms[i] = calloc((size_t)qn_type_bytes(qn_graph_type(g, qn_graph_result(g, i))) + 8, 1);
    if (!rooms[i]) {
      free_all(rooms, i);
      return false;
    }
  }
  return true;
}

/* ---- the reference interpreter ---- */

static void run_reference(replay_run *r, replay_function *f) {
  void *got[REPLAY_TENSORS];
  if (!make_rooms(f->graph, got)) {
    qn_replay_fail(r, f->index, "no memory for results");
    return;
  }
  if (qn_graph_eval_ref(f->graph, f->in, got) == QN_OK)
    compare(r, f, got);
  else
    qn_replay_fail(r, f->index, "%s", qn_error_message());
  free_all(got, f->out_count);
}

/* ---- a device ---- */

/* All functions side by side in one graph. */
static qn_status join(const replay_function *fs, size_t count, qn_graph **out) {
  size_t params = 0, results = 0, at = 0;
  for (size_t i = 0; i < count; i++) {
    params += fs[i].in_count;
    results += fs[i].out_count;
  }
  qn_val *in = calloc(params + 1, sizeof *in), *res = calloc(results + 1, sizeof *res);
  qn_graph *g = NULL;
  qn_status st = in && res ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory to join %zu cases", count);
  if (st == QN_OK)
    QN_TRY_GOTO(st, qn_graph_create("replay", &g), done);
  for (size_t i = 0, n = 0; st == QN_OK && i < count; i++)
    for (size_t k = 0; k < fs[i].in_count; k++)
      in[n++] = qn_graph_param(g, *qn_graph_type(fs[i].graph, qn_graph_param_at(fs[i].graph, k)), NULL);
  params = 0;
  for (size_t i = 0; st == QN_OK && i < count; i++) {
    if (!qn_graph_inline(g, fs[i].graph, in + params, fs[i].in_count, res + at))
      break;
    params += fs[i].in_count;
    at += fs[i].out_count;
  }
  if (st == QN_OK)
    QN_TRY_GOTO(st, qn_graph_seal(g, res, results), done);
done:
  free(in);
  free(res);
  if (st != QN_OK) {
    qn_graph_release(g);
    g = NULL;
  }
  *out = g;
  return st;
}

typedef struct job {
  qn_traced traced;
  qn_step *step;
  qn_tensors *args, *result; /* result is the step's */
} job;

static qn_status start(replay_run *r, const replay_function *fs, size_t count, job *j) {
  qn_graph *g = NULL;
  qn_layout layout = {0};
  qn_status st = QN_OK;
  QN_TRY(join(fs, count, &g));
  QN_TRY(qn_cli_trace_graph(g, &j->traced));
  qn_jit_desc desc = {.compile = {.name = "replay", .cache = r->cache, .at_once = true},
                      .step = {.cache = r->cache, .result_ring = 1}};
  QN_TRY(qn_jit(r->device, &j->traced, &desc, &j->step));
  r->fallbacks += qn_step_plan(j->step)->fallbacks;
  QN_TRY_GOTO(st, qn_layout_from_treedef(&j->traced.args[0], &layout), done);
  QN_TRY_GOTO(st, qn_tensors_create(r->device, &layout, "inputs", &j->args), done);
  for (size_t i = 0, n = 0; i < count; i++)
    for (size_t k = 0; k < fs[i].in_count; k++)
      QN_TRY_GOTO(st, qn_tensors_write_at(j->args, n++, fs[i].in[k]), done);
  QN_TRY_GOTO(st, qn_step_call(j->step, &j->args, 1, &j->result, NULL), done);
  QN_TRY_GOTO(st, qn_step_wait(j->step), done);
done:
  qn_layout_free(&layout);
  return st;
}

static qn_status finish(replay_run *r, const replay_function *fs, size_t count, const job *j) {
  for (size_t i = 0, n = 0; i < count; i++) {
    void *got[REPLAY_TENSORS];
    qn_status st = QN_OK;
    if (!make_rooms(fs[i].graph, got))
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for results");
    for (size_t k = 0; st == QN_OK && k < fs[i].out_count; k++)
      st = qn_tensors_read_at(j->result, n++, got[k]);
    if (st == QN_OK)
      compare(r, &fs[i], got);
    free_all(got, qn_graph_result_count(fs[i].graph));
    QN_TRY(st); /* NOLINT(clang-analyzer-unix.Malloc): the rooms are as many as were made */
  }
  return QN_OK;
}

static void run_device(replay_run *r, const replay_function *fs, size_t count) {
  job j;
  memset(&j, 0, sizeof j);
  if (count == 0)
    return;
  qn_status st = start(r, fs, count, &j);
  if (st == QN_OK)
    st = finish(r, fs, count, &j);
  if (st != QN_OK && count == 1) {
    const char *message = qn_error_message();
    qn_replay_fail(r, fs[0].index, "%s", message);
  }
  qn_tensors_release(j.args);
  qn_step_release(j.step);
  if (j.traced.graph)
    qn_traced_free(&j.traced);
  if (st != QN_OK && count > 1) {
    if (qn_replay_over(r))
      return;
    run_device(r, fs, count / 2);
    run_device(r, fs + count / 2, count - count / 2);
  }
}

void qn_replay_execute(replay_run *r, replay_function *fs, size_t count) {
  size_t ready = 0;
  for (size_t i = 0; i < count; i++) {
    bool refused = r->device && !qn_device_get_caps(r->device)->f64 && has_dtype(fs[i].graph, QN_F64);
    if (refused)
      qn_replay_skip(r, fs[i].index, true, "f64, which %s does not have", qn_device_get_caps(r->device)->id);
    else if (!r->device)
      run_reference(r, &fs[i]);
    if (refused || !r->device)
      qn_replay_function_free(&fs[i]);
    else
      fs[ready++] = fs[i];
  }
  run_device(r, fs, ready);
  for (size_t i = 0; i < ready; i++)
    qn_replay_function_free(&fs[i]);
}
