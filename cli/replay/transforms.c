/* Programs in StableHLO text with a pipeline of transforms: the last one's function takes the recorded inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/autodiff.h"
#include "replay.h"

enum { STEPS = 12, MOST = 24 };

typedef struct step {
  qn_transform t;
  int argnums[MOST], in_axes[MOST], out_axes[MOST];
  size_t n; /* vjp, jvp, linearize: arguments of the function */
} step;

static size_t read_ints(const cJSON *list, int *out) {
  size_t n = 0;
  const cJSON *x;
  if (cJSON_IsNumber(list)) {
    out[0] = list->valueint;
    return 1;
  }
  cJSON_ArrayForEach(x, list) {
    if (n < MOST)
      out[n++] = cJSON_IsNumber(x) ? x->valueint : QN_NO_LANES;
  }
  return n;
}

static qn_status read_step(const cJSON *item, step *s) {
  QN_TRY(qn_transform_find(qn_replay_text(item, "t"), &s->t.kind));
  s->t.has_aux = qn_replay_number(item, "has_aux", 0) > 0;
  s->n = (size_t)qn_replay_number(item, "n", 0);
  s->t.argnum_count = read_ints(qn_replay_get(item, "argnums"), s->argnums);
  s->t.argnums = s->t.argnum_count ? s->argnums : NULL;
  (void)read_ints(qn_replay_get(item, "in_axes"), s->in_axes);
  const cJSON *out = qn_replay_get(item, "out_axes");
  for (int i = 0; i < MOST; i++)
    s->out_axes[i] = cJSON_IsNumber(out) ? out->valueint : 0;
  if (cJSON_IsArray(out))
    (void)read_ints(out, s->out_axes);
  s->t.in_axes = s->in_axes;
  s->t.out_axes = s->out_axes;
  return QN_OK;
}

static qn_status strip_lanes(step *s, qn_type *types, size_t n) {
  for (size_t i = 0; i < n; i++) {
    qn_type *t = &types[i];
    if (s->in_axes[i] == QN_NO_LANES)
      continue;
    int axis = s->in_axes[i] < 0 ? s->in_axes[i] + t->rank : s->in_axes[i];
    if (axis < 0 || axis >= t->rank)
      return QN_ERR(QN_CORRUPT, "vmap: input %zu is %s, which has no axis %d", i, qn_type_str(t), s->in_axes[i]);
    s->t.lanes = t->dims[axis];
    for (int d = axis; d + 1 < t->rank; d++)
      t->dims[d] = t->dims[d + 1];
    t->dims[--t->rank] = 0;
  }
  return QN_OK;
}

/* Lane counts follow from the recorded inputs: from the last transform to the first, each takes off what it added. */
static qn_status find_lanes(step *steps, size_t count, const qn_safetensor *const *in, size_t in_count) {
  qn_type types[REPLAY_TENSORS];
  size_t n = in_count < MOST ? in_count : MOST;
  for (size_t i = 0; i < n; i++)
    types[i] = in[i]->type;
  for (size_t k = count; k-- > 0;) {
    step *s = &steps[k];
    if (s->t.kind == QN_TRANSFORM_HVP || s->t.kind == QN_TRANSFORM_HVP_REV)
      n -= n > 0;
    if (s->t.kind == QN_TRANSFORM_JVP || s->t.kind == QN_TRANSFORM_VJP || s->t.kind == QN_TRANSFORM_LINEARIZE)
      n = s->n < n ? s->n : n;
    if (s->t.kind == QN_TRANSFORM_VMAP)
      QN_TRY(strip_lanes(s, types, n));
  }
  return QN_OK;
}

static qn_status parse(const replay_suite *s, const char *program, qn_graph **out) {
  char path[1200];
  qn_bytes text;
  (void)snprintf(path, sizeof path, "%.900s/%.200s", s->folder, program);
  QN_TRY(qn_file_read(path, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, program, out);
  free(text.data);
  return st;
}

static qn_status apply(qn_graph **g, const step *steps, size_t count) {
  for (size_t i = 0; i < count; i++) {
    qn_graph *next = NULL;
    QN_TRY(qn_transform_graph(*g, &steps[i].t, &next));
    qn_graph_release(*g);
    *g = next;
  }
  return QN_OK;
}

static qn_status check_signature(const qn_graph *g, const qn_safetensor *const *in, size_t in_count, size_t out_count) {
  if (qn_graph_param_count(g) != in_count || qn_graph_result_count(g) != out_count)
    return QN_ERR(QN_INVALID, "the transformed program takes %zu and gives %zu tensors, recorded are %zu and %zu",
                  qn_graph_param_count(g), qn_graph_result_count(g), in_count, out_count);
  for (size_t i = 0; i < in_count; i++) {
    const qn_type *t = qn_graph_type(g, qn_graph_param_at(g, i));
    if (!qn_type_equal(t, &in[i]->type))
      return QN_ERR(QN_INVALID, "parameter %zu is %s, recorded is %s", i, qn_type_str(t), qn_type_str(&in[i]->type));
  }
  return QN_OK;
}

static qn_status build(const replay_suite *s, const cJSON *item, replay_function *out) {
  const qn_safetensor *in[REPLAY_TENSORS];
  const cJSON *attrs = qn_replay_get(item, "attrs"), *x;
  size_t count = 0;
  step steps[STEPS];
  memset(steps, 0, sizeof steps);
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "inputs"), in, REPLAY_TENSORS, &out->in_count));
  QN_TRY(qn_replay_tensors(s, qn_replay_get(item, "outputs"), out->want, REPLAY_TENSORS, &out->out_count));
  for (size_t i = 0; i < out->in_count; i++)
    out->in[i] = in[i]->data;
  for (size_t i = 0; i < out->out_count; i++) {
    out->part[i] = "output";
    out->number[i] = (int)i;
  }
  cJSON_ArrayForEach(x, qn_replay_get(attrs, "pipeline")) {
    if (count == STEPS)
      return QN_ERR(QN_CORRUPT, "a pipeline of more than %d transforms", STEPS);
    QN_TRY(read_step(x, &steps[count++]));
  }
  QN_TRY(find_lanes(steps, count, in, out->in_count));
  QN_TRY(parse(s, qn_replay_text(attrs, "program"), &out->graph));
  QN_TRY(apply(&out->graph, steps, count));
  return check_signature(out->graph, in, out->in_count, out->out_count);
}

bool qn_replay_transform(replay_run *r, size_t index, replay_function *out) {
  const cJSON *item = r->suite->cases[index], *attrs = qn_replay_get(item, "attrs");
  memset(out, 0, sizeof *out);
  out->index = index;
  out->rtol = qn_replay_number(item, "rtol", 0);
  out->atol = qn_replay_number(item, "atol", 0);
  if (!(qn_replay_number(attrs, "program_exact", 0) > 0)) {
    r->results[index].outcome = REPLAY_EXCLUDED;
    return false;
  }
  qn_status st = build(r->suite, item, out);
  if (st == QN_OK)
    return true;
  const char *message = qn_error_message();
  if (strstr(message, "unknown operation"))
    qn_replay_skip(r, index, false, REPLAY_NOT_BUILT ": %s", message);
  else
    qn_replay_fail(r, index, "%s", message);
  qn_replay_function_free(out);
  return false;
}
