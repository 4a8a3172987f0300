/* Sequential models: names, variables, initial values, the stateless call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/model.h"

typedef struct built_layer {
  qn_layer layer;
  char name[64];
  qn_variable variables[QN_LAYER_VARIABLES];
  size_t variable_count;
  qn_type out;
} built_layer;

struct qn_model {
  char name[64];
  built_layer *layers;
  size_t count;
  qn_treedef trainable, non_trainable;
};

/* dense, dense_1, dense_2: the count of earlier layers of the kind. */
static void name_layer(qn_model *m, size_t i) {
  built_layer *b = &m->layers[i];
  size_t same = 0;
  for (size_t j = 0; j < i; j++)
    same += m->layers[j].layer.kind == b->layer.kind;
  if (b->layer.name)
    snprintf(b->name, sizeof b->name, "%s", b->layer.name);
  else if (same)
    snprintf(b->name, sizeof b->name, "%s_%zu", b->layer.kind->name, same);
  else
    snprintf(b->name, sizeof b->name, "%s", b->layer.kind->name);
  b->layer.name = b->name;
}

static qn_status build_layer(qn_model *m, size_t i, const qn_type *in) {
  built_layer *b = &m->layers[i];
  name_layer(m, i);
  QN_TRY(b->layer.kind->build(&b->layer, in, b->variables, &b->variable_count, &b->out));
  for (size_t v = 0; v < b->variable_count; v++) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", b->name, b->variables[v].path);
    QN_TRY(qn_treedef_add(b->variables[v].trainable ? &m->trainable : &m->non_trainable, path, b->variables[v].type));
  }
  return QN_OK;
}

qn_status qn_sequential(const char *name, const qn_type *input, const qn_layer *layers, size_t count,
                        qn_model **out_model) {
  *out_model = NULL;
  qn_model *m = calloc(1, sizeof *m);
  if (m)
    m->layers = calloc(count + 1, sizeof *m->layers);
  if (!m || !m->layers) {
    free(m);
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for model '%s'", name);
  }
  snprintf(m->name, sizeof m->name, "%s", name);
  m->count = count;
  qn_status st = QN_OK;
  for (size_t i = 0; i < count; i++) {
    m->layers[i].layer = layers[i];
    QN_TRY_GOTO(st, build_layer(m, i, i ? &m->layers[i - 1].out : input), failed);
  }
  *out_model = m;
  return QN_OK;
failed:
  qn_model_free(m);
  return st;
}

void qn_model_free(qn_model *m) {
  if (!m)
    return;
  qn_treedef_free(&m->trainable);
  qn_treedef_free(&m->non_trainable);
  free(m->layers);
  free(m);
}

const char *qn_model_name(const qn_model *m) { return m->name; }
const qn_treedef *qn_model_trainable(const qn_model *m) { return &m->trainable; }
const qn_treedef *qn_model_non_trainable(const qn_model *m) { return &m->non_trainable; }

static qn_val key_at(qn_val keys, int64_t i) {
  int64_t start[2] = {i, 0}, limit[2] = {i + 1, 2}, dims[1] = {2};
  return qn_reshape(qn_slice(keys, start, limit, NULL), 1, dims);
}

void qn_model_init(const qn_model *m, qn_val key, qn_tree **out_trainable, qn_tree **out_non_trainable) {
  int64_t total = (int64_t)(m->trainable.count + m->non_trainable.count), k = 0;
  *out_trainable = qn_tree_create(key.graph);
  *out_non_trainable = qn_tree_create(key.graph);
  if (!*out_trainable || !*out_non_trainable || total == 0)
    return;
  qn_val keys = qn_key_split(key, total);
  for (size_t i = 0; i < m->count; i++) {
    const built_layer *b = &m->layers[i];
    for (size_t v = 0; v < b->variable_count; v++) {
      char path[160];
      snprintf(path, sizeof path, "%s/%s", b->name, b->variables[v].path);
      qn_val own = key_at(keys, k++);
      if (b->layer.seed)
        own = qn_key_fold_in(own, qn_scalar(key.graph, QN_U32, (double)(uint32_t)b->layer.seed));
      qn_tree_set(b->variables[v].trainable ? *out_trainable : *out_non_trainable, path,
                  b->variables[v].init(own, b->variables[v].type));
    }
  }
}

qn_model_result qn_model_apply(const qn_model *m, const qn_tree *trainable, const qn_tree *non_trainable, qn_val x,
                               bool training) {
  qn_model_result r = {.y = x, .non_trainable = qn_tree_create(trainable->graph)};
  qn_apply a = {.g = trainable->graph, .training = training};
  for (size_t i = 0; i < m->count && r.non_trainable; i++) {
    const built_layer *b = &m->layers[i];
    bool has[2] = {false, false};
    for (size_t v = 0; v < b->variable_count; v++)
      has[b->variables[v].trainable] = true;
    qn_tree *none = qn_tree_create(a.g), *old = has[0] ? qn_tree_sub(non_trainable, b->name) : none;
    a.layer = &b->layer;
    a.trainable = has[1] ? qn_tree_sub(trainable, b->name) : none;
    a.non_trainable = old;
    a.updated = qn_tree_create(a.g);
    r.y = b->layer.kind->apply(&a, r.y);
    for (size_t v = 0; v < b->variable_count; v++) {
      const char *path = b->variables[v].path;
      if (b->variables[v].trainable)
        continue;
      char whole[160];
      snprintf(whole, sizeof whole, "%s/%s", b->name, path);
      qn_tree_set(r.non_trainable, whole, qn_tree_get(qn_tree_has(a.updated, path) ? a.updated : old, path));
    }
  }
  r.losses = qn_val_ok(a.loss) ? a.loss : qn_scalar(trainable->graph, qn_val_type(r.y)->dtype, 0);
  return r;
}

void qn_model_summary(const qn_model *m, qn_text *out) {
  int64_t total = 0;
  qn_text_add(out, "%-28s %-18s %12s\n", "layer", "result", "parameters");
  for (size_t i = 0; i < m->count; i++) {
    int64_t n = 0;
    for (size_t v = 0; v < m->layers[i].variable_count; v++)
      n += qn_type_elements(&m->layers[i].variables[v].type);
    qn_text_add(out, "%-28s %-18s %12lld\n", m->layers[i].name, qn_type_str(&m->layers[i].out), (long long)n);
    total += n;
  }
  qn_text_add(out, "%-28s %-18s %12lld\n", "total", "", (long long)total);
}
