/* Tracing: a C function of trees, called once with symbolic values, becomes a sealed graph. */
#include "graph_impl.h"
#include "quern/tree.h"

#include <stdlib.h>
#include <string.h>

static qn_status make_args(qn_graph *g, const qn_treedef *args, size_t arg_count, qn_tree **trees) {
  char path[512];
  for (size_t a = 0; a < arg_count; a++) {
    trees[a] = qn_tree_create(g);
    if (!trees[a])
      return QN_ERR(QN_OUT_OF_MEMORY, "trace: no memory");
    for (size_t i = 0; i < args[a].count; i++) {
      const char *leaf = args[a].leaves[i].path;
      (void)snprintf(path, sizeof path, "arg%zu%s%s", a, *leaf ? "/" : "", leaf);
      qn_tree_set(trees[a], leaf, qn_graph_param(g, args[a].leaves[i].type, path));
    }
  }
  return QN_OK;
}

static qn_status finish(qn_traced *t, const qn_tree *result, const char *name) {
  qn_graph *g = t->graph;
  if (qn_graph_failed(g))
    return qn_graph_seal(g, NULL, 0); /* reports the first failure */
  if (!result)
    return QN_ERR(QN_INVALID, "%s: the traced function gave no tree", name);
  if (result->graph != g)
    return QN_ERR(QN_INVALID, "%s: the traced function's tree belongs to another graph", name);
  qn_val *vals = calloc(result->count + 1, sizeof *vals);
  if (!vals)
    return QN_ERR(QN_OUT_OF_MEMORY, "trace: no memory");
  qn_status st = QN_OK;
  for (size_t i = 0; i < result->count; i++) {
    vals[i] = result->leaves[i].val;
    QN_TRY_GOTO(st, qn_treedef_add(&t->result, result->leaves[i].path, *qn_val_type(vals[i])), done);
    qn_graph_set_result_path(g, i, result->leaves[i].path);
  }
  QN_TRY_GOTO(st, qn_graph_seal(g, vals, result->count), done);
done:
  free(vals);
  return st;
}

qn_status qn_trace(qn_tree_fn fn, void *user, const char *name, const qn_treedef *args, size_t arg_count,
                   qn_traced *out_traced) {
  *out_traced = (qn_traced){0};
  qn_traced t = {0};
  qn_tree **trees = NULL;
  qn_status st = QN_OK;
  t.args = calloc(arg_count + 1, sizeof *t.args);
  trees = calloc(arg_count + 1, sizeof(qn_tree *));
  if (!t.args || !trees) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "trace: no memory");
    goto done;
  }
  for (; t.arg_count < arg_count; t.arg_count++)
    QN_TRY_GOTO(st, qn_treedef_copy(&args[t.arg_count], &t.args[t.arg_count]), done);
  QN_TRY_GOTO(st, qn_graph_create(name, &t.graph), done);
  QN_TRY_GOTO(st, make_args(t.graph, args, arg_count, trees), done);
  QN_TRY_GOTO(st, finish(&t, fn(t.graph, trees, user), qn_graph_name(t.graph)), done);
done:
  free(trees);
  if (st != QN_OK)
    qn_traced_free(&t);
  *out_traced = t;
  return st;
}

void qn_traced_free(qn_traced *t) {
  for (size_t i = 0; i < t->arg_count; i++)
    qn_treedef_free(&t->args[i]);
  free(t->args);
  qn_treedef_free(&t->result);
  qn_graph_release(t->graph);
  *t = (qn_traced){0};
}
