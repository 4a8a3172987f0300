/* A case as one function: its operation's graph, pulled back and pushed forward, with everything that goes in and should come out. */
#include <stdlib.h>
#include <string.h>

#include "quern/autodiff.h"
#include "quern/ops.h"
#include "replay.h"

void qn_replay_function_free(replay_function *f) {
  qn_graph_release(f->graph);
  f->graph = NULL;
}

qn_val qn_replay_not_built(replay_build *b, const char *what) {
  return qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED, REPLAY_NOT_BUILT ": %s", what);
}

typedef struct tensors {
  const qn_safetensor *in[REPLAY_TENSORS], *out[REPLAY_TENSORS], *cotangents[REPLAY_TENSORS], *vjp[REPLAY_TENSORS],
      *tangents[REPLAY_TENSORS], *jvp[REPLAY_TENSORS];
  size_t in_count, out_count, cotangent_count, vjp_count, tangent_count, jvp_count;
  qn_dims diff_inputs, diff_outputs;
} tensors;

static qn_status read_tensors(const replay_suite *s, const cJSON *item, tensors *t) {
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "inputs"), t->in, REPLAY_TENSORS, &t->in_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "outputs"), t->out, REPLAY_TENSORS, &t->out_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "cotangents"), t->cotangents, REPLAY_TENSORS, &t->cotangent_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "vjp"), t->vjp, REPLAY_TENSORS, &t->vjp_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "tangents"), t->tangents, REPLAY_TENSORS, &t->tangent_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "jvp"), t->jvp, REPLAY_TENSORS, &t->jvp_count));
  t->diff_inputs = qn_replay_dims(item, "diff_inputs");
  t->diff_outputs = qn_replay_dims(item, "diff_outputs");
  if (t->in_count + t->cotangent_count + t->tangent_count > REPLAY_TENSORS ||
      t->out_count + t->vjp_count + t->jvp_count > REPLAY_TENSORS)
    return QN_ERR(QN_CORRUPT, "more than %d tensors in one case", REPLAY_TENSORS);
  if ((t->vjp_count && (t->vjp_count != (size_t)t->diff_inputs.n || t->cotangent_count != (size_t)t->diff_outputs.n)) ||
      (t->jvp_count && (t->tangent_count != (size_t)t->diff_inputs.n || t->jvp_count != (size_t)t->diff_outputs.n)))
    return QN_ERR(QN_CORRUPT, "derivatives do not go with diff_inputs and diff_outputs");
  return QN_OK;
}

static bool is_listed(const cJSON *attrs, const char *key, size_t index) {
  qn_dims list = qn_replay_dims(attrs, key);
  return qn_dims_has(&list, (int64_t)index);
}

/* Suites hold complex numbers as pairs of reals along a last axis, and their derivatives are those of a function of such pairs. */
static qn_val from_pairs(qn_val x) {
  const qn_type *t = qn_val_type(x);
  qn_val part[2];
  for (int64_t k = 0; k < 2; k++) {
    int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
    memcpy(limit, t->dims, sizeof limit);
    start[t->rank - 1] = k;
    limit[t->rank - 1] = k + 1;
    part[k] = qn_reshape(qn_slice(x, start, limit, NULL), t->rank - 1, t->dims);
  }
  return qn_complex_of(part[0], part[1]);
}

static qn_val to_pairs(qn_val x) {
  qn_type t = *qn_val_type(x);
  t.dims[t.rank++] = 1;
  const qn_val part[] = {qn_reshape(qn_real(x), t.rank, t.dims), qn_reshape(qn_imag(x), t.rank, t.dims)};
  return qn_concatenate(part, 2, t.rank - 1);
}

/* The operation itself: inputs -> outputs. */
static qn_status build_plain(const cJSON *item, replay_build_fn build, const tensors *t, qn_graph **out) {
  qn_graph *g = NULL;
  qn_val in[REPLAY_TENSORS];
  const cJSON *attrs = qn_replay_get(item, "attrs");
  const qn_type *want[REPLAY_TENSORS];
  *out = NULL;
  QN_TRY(qn_graph_create("case", &g));
  for (size_t i = 0; i < t->in_count; i++)
    in[i] = qn_graph_param(g, t->in[i]->type, NULL);
  for (size_t i = 0; i < t->in_count; i++)
    if (is_listed(attrs, "complex_inputs", i) && t->in[i]->type.rank > 0)
      in[i] = from_pairs(in[i]);
  for (size_t i = 0; i < t->out_count; i++)
    want[i] = &t->out[i]->type;
  replay_build b = {.g = g,
                    .attrs = attrs,
                    .in = in,
                    .in_count = t->in_count,
                    .out_count = t->out_count,
                    .want = want,
                    .op = qn_replay_text(item, "op")};
  build(&b);
  for (size_t i = 0; i < t->out_count; i++)
    if (is_listed(attrs, "complex_outputs", i) && qn_val_ok(b.out[i]))
      b.out[i] = to_pairs(b.out[i]);
  qn_status st = qn_graph_seal(g, b.out, t->out_count);
  if (st != QN_OK) {
    qn_graph_release(g);
    return st;
  }
  *out = g;
  return QN_OK;
}

static int float_position(const qn_safetensor *const *list, int64_t index) {
  int n = 0;
  for (int64_t i = 0; i < index; i++)
    n += qn_dtype_is_float(list[i]->type.dtype);
  return n;
}

typedef struct joint {
  qn_graph *g;
  const tensors *t;
  qn_val in[REPLAY_TENSORS], results[REPLAY_TENSORS];
  size_t result_count;
} joint;

static void add_result(joint *j, replay_function *f, qn_val v, const qn_safetensor *want, const char *part,
                       size_t number) {
  f->want[j->result_count] = want;
  f->part[j->result_count] = part;
  f->number[j->result_count] = (int)number;
  j->results[j->result_count++] = v;
}

static qn_val add_param(joint *j, replay_function *f, const qn_safetensor *t) {
  f->in[f->in_count++] = t->data;
  return qn_graph_param(j->g, t->type, NULL);
}

/* plain's parameters, then a value for each float one of `list` (recorded, or zero where it is not among `chosen`). */
static void fill_args(joint *j, replay_function *f, const qn_safetensor *const *list, size_t count,
                      const qn_dims *chosen, const qn_safetensor *const *given, qn_val *args, size_t *arg_count) {
  for (size_t i = 0; i < count; i++) {
    if (!qn_dtype_is_float(list[i]->type.dtype))
      continue;
    qn_val v = QN_NULL_VAL;
    for (int k = 0; k < chosen->n; k++)
      if (chosen->d[k] == (int64_t)i)
        v = add_param(j, f, given[k]);
    args[(*arg_count)++] = qn_val_ok(v) ? v : qn_full(j->g, list[i]->type, 0);
  }
}

static qn_status add_vjp(joint *j, replay_function *f, const qn_graph *plain) {
  const tensors *t = j->t;
  qn_graph *pulled = NULL;
  qn_val args[2 * REPLAY_TENSORS], out[2 * REPLAY_TENSORS];
  size_t n = t->in_count;
  memcpy(args, j->in, n * sizeof *args);
  QN_TRY(qn_vjp_graph(plain, &pulled));
  fill_args(j, f, t->out, t->out_count, &t->diff_outputs, t->cotangents, args, &n);
  if (qn_graph_inline(j->g, pulled, args, n, out))
    for (size_t k = 0; k < t->vjp_count; k++)
      add_result(j, f, out[t->out_count + (size_t)float_position(t->in, t->diff_inputs.d[k])], t->vjp[k], "vjp", k);
  qn_graph_release(pulled);
  return QN_OK;
}

static qn_status add_jvp(joint *j, replay_function *f, const qn_graph *plain) {
  const tensors *t = j->t;
  qn_graph *pushed = NULL;
  qn_val args[2 * REPLAY_TENSORS], out[2 * REPLAY_TENSORS];
  size_t n = t->in_count;
  memcpy(args, j->in, n * sizeof *args);
  QN_TRY(qn_jvp_graph(plain, &pushed));
  fill_args(j, f, t->in, t->in_count, &t->diff_inputs, t->tangents, args, &n);
  if (qn_graph_inline(j->g, pushed, args, n, out))
    for (size_t k = 0; k < t->jvp_count; k++)
      add_result(j, f, out[t->out_count + (size_t)float_position(t->out, t->diff_outputs.d[k])], t->jvp[k], "jvp", k);
  qn_graph_release(pushed);
  return QN_OK;
}

static qn_status build_joint(const tensors *t, const qn_graph *plain, replay_function *f) {
  joint j = {.t = t};
  qn_val out[REPLAY_TENSORS];
  qn_status st = QN_OK;
  QN_TRY(qn_graph_create("case", &j.g));
  for (size_t i = 0; i < t->in_count; i++)
    j.in[i] = add_param(&j, f, t->in[i]);
  if (qn_graph_inline(j.g, plain, j.in, t->in_count, out))
    for (size_t i = 0; i < t->out_count; i++)
      add_result(&j, f, out[i], t->out[i], "output", i);
  if (t->vjp_count)
    QN_TRY_GOTO(st, add_vjp(&j, f, plain), failed);
  if (t->jvp_count)
    QN_TRY_GOTO(st, add_jvp(&j, f, plain), failed);
  QN_TRY_GOTO(st, qn_graph_seal(j.g, j.results, j.result_count), failed);
  f->graph = j.g;
  f->out_count = j.result_count;
  return QN_OK;
failed:
  qn_graph_release(j.g);
  return st;
}

static bool settle(replay_run *r, size_t index, qn_status st) {
  if (st == QN_OK)
    return true;
  const char *message = qn_error_message();
  if (st == QN_UNSUPPORTED && strstr(message, REPLAY_NOT_BUILT))
    qn_replay_skip(r, index, false, "%s", strstr(message, REPLAY_NOT_BUILT));
  else
    qn_replay_fail(r, index, "%s", message);
  return false;
}

bool qn_replay_function(replay_run *r, size_t index, replay_function *out) {
  const cJSON *item = r->suite->cases[index];
  replay_build_fn build = qn_replay_find_op(qn_replay_text(item, "op"));
  memset(out, 0, sizeof *out);
  out->index = index;
  out->rtol = qn_replay_number(item, "rtol", 0);
  out->atol = qn_replay_number(item, "atol", 0);
  if (!build) {
    qn_replay_skip(r, index, false, REPLAY_NOT_BUILT ": %s", qn_replay_text(item, "op"));
    return false;
  }
  tensors t;
  memset(&t, 0, sizeof t);
  qn_graph *plain = NULL;
  qn_status st = read_tensors(r->suite, item, &t);
  if (st == QN_OK)
    st = build_plain(item, build, &t, &plain);
  if (st == QN_OK)
    st = build_joint(&t, plain, out);
  qn_graph_release(plain);
  return settle(r, index, st);
}
