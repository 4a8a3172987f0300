/* A stateful function on a device or the reference interpreter. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#include "quern/compile.h"

enum { STATE, BATCH, RESULT };
static const char state_prefix[] = "state/", result_prefix[] = "result/";

static const qn_treedef *def_of(const replay_machine *m, int which) {
  return which == RESULT ? &m->traced.result : &m->traced.args[which];
}

/* ---- the reference ---- */

static qn_status make_host(replay_machine *m) {
  for (int w = STATE; w <= RESULT; w++) {
    const qn_treedef *d = def_of(m, w);
    m->host[w] = calloc(d->count + 1, sizeof(void *));
    for (size_t i = 0; m->host[w] && i < d->count; i++) {
      m->host[w][i] = calloc((size_t)qn_type_bytes(&d->leaves[i].type) + 8, 1);
      if (!m->host[w][i])
        return QN_ERR(QN_OUT_OF_MEMORY, "no memory for %s", d->leaves[i].path);
    }
    if (!m->host[w])
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a state");
  }
  return QN_OK;
}

static void free_host(replay_machine *m) {
  for (int w = STATE; w <= RESULT; w++) {
    for (size_t i = 0; m->host[w] && i < def_of(m, w)->count; i++)
      free(m->host[w][i]);
    free(m->host[w]);
    m->host[w] = NULL;
  }
}

static qn_status call_reference(replay_machine *m) {
  const qn_treedef *s = def_of(m, STATE), *b = def_of(m, BATCH), *r = def_of(m, RESULT);
  const void **in = calloc(s->count + b->count + 1, sizeof *in);
  if (!in)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a call");
  for (size_t i = 0; i < s->count; i++)
    in[i] = m->host[STATE][i];
  for (size_t i = 0; i < b->count; i++)
    in[s->count + i] = m->host[BATCH][i];
  qn_status st = qn_graph_eval_ref(m->traced.graph, in, m->host[RESULT]);
  free(in);
  QN_TRY(st);
  for (size_t i = 0; i < r->count; i++) {
    const char *path = r->leaves[i].path;
    if (strncmp(path, state_prefix, strlen(state_prefix)) != 0)
      continue;
    ptrdiff_t at = qn_treedef_find(s, path + strlen(state_prefix));
    if (at >= 0)
      memcpy(m->host[STATE][at], m->host[RESULT][i], (size_t)qn_type_bytes(&r->leaves[i].type));
  }
  return QN_OK;
}

/* ---- a device ---- */

static qn_status make_tensors(replay_machine *m, const qn_treedef *def, const char *label, qn_tensors **out) {
  qn_layout layout;
  QN_TRY(qn_layout_from_treedef(def, &layout));
  qn_status st = qn_tensors_create(m->device, &layout, label, out);
  qn_layout_free(&layout);
  return st;
}

static qn_status make_device(replay_run *r, replay_machine *m, const char *name) {
  static const qn_plan_donation donate[] = {{0, "state"}};
  qn_jit_desc desc = {
      .compile = {.name = name, .cache = r->cache, .donations = donate, .donation_count = 1, .at_once = true},
      .step = {.cache = r->cache}};
  QN_TRY(qn_jit(m->device, &m->traced, &desc, &m->step));
  r->fallbacks += qn_step_plan(m->step)->fallbacks;
  QN_TRY(make_tensors(m, def_of(m, STATE), "state", &m->state));
  QN_TRY(qn_tensors_zero(m->state));
  return make_tensors(m, def_of(m, BATCH), "batch", &m->batch);
}

/* ---- both ---- */

qn_status qn_replay_machine_create(replay_run *r, const char *name, qn_tree_fn fn, void *user, const qn_treedef *state,
                                   const qn_treedef *batch, replay_machine *m) {
  const qn_treedef args[] = {*state, *batch};
  memset(m, 0, sizeof *m);
  m->device = r->device;
  QN_TRY(qn_trace(fn, user, name, args, 2, &m->traced));
  qn_status st = m->device ? make_device(r, m, name) : make_host(m);
  if (st != QN_OK)
    qn_replay_machine_free(m);
  return st;
}

void qn_replay_machine_free(replay_machine *m) {
  if (m->traced.graph) {
    free_host(m);
    qn_tensors_release(m->state);
    qn_tensors_release(m->batch);
    qn_step_release(m->step);
    qn_traced_free(&m->traced);
  }
  memset(m, 0, sizeof *m);
}

static qn_status find(const replay_machine *m, int which, const char *path, ptrdiff_t *out) {
  *out = qn_treedef_find(def_of(m, which), path);
  return *out >= 0 ? QN_OK : QN_ERR(QN_NOT_FOUND, "there is no leaf '%s'", path);
}

qn_status qn_replay_machine_set(replay_machine *m, bool batch, const char *path, const void *data) {
  ptrdiff_t i;
  int which = batch ? BATCH : STATE;
  QN_TRY(find(m, which, path, &i));
  if (m->device)
    return qn_tensors_write(batch ? m->batch : m->state, path, data);
  memcpy(m->host[which][i], data, (size_t)qn_type_bytes(&def_of(m, which)->leaves[i].type));
  return QN_OK;
}

qn_status qn_replay_machine_get(replay_machine *m, const char *path, void *out_data) {
  ptrdiff_t i;
  bool result = strncmp(path, result_prefix, strlen(result_prefix)) == 0;
  int which = result ? RESULT : STATE;
  path += result ? strlen(result_prefix) : 0;
  QN_TRY(find(m, which, path, &i));
  if (m->device)
    return qn_tensors_read(result ? m->result : m->state, path, out_data);
  memcpy(out_data, m->host[which][i], (size_t)qn_type_bytes(&def_of(m, which)->leaves[i].type));
  return QN_OK;
}

const qn_type *qn_replay_machine_type(const replay_machine *m, const char *path) {
  bool result = strncmp(path, result_prefix, strlen(result_prefix)) == 0;
  const qn_treedef *d = def_of(m, result ? RESULT : STATE);
  ptrdiff_t i = qn_treedef_find(d, result ? path + strlen(result_prefix) : path);
  return i >= 0 ? &d->leaves[i].type : NULL;
}

qn_status qn_replay_machine_call(replay_machine *m) {
  if (!m->device)
    return call_reference(m);
  qn_tensors *args[] = {m->state, m->batch};
  return qn_step_call(m->step, args, 2, &m->result, NULL);
}
