/* value_and_grad inside a trace: the loss is traced into a graph of its own, differentiated, and inlined. */
#include "engine.h"

#include <string.h>

typedef struct request {
  qn_place at;
  qn_graph *g;
  qn_tree *const *args;
  size_t arg_count, leaves;
  bool has_aux, no_value;
  const int *argnums;
  size_t argnum_count;
  qn_arena scratch;
} request;

static qn_status open_request(request *q, const qn_grad_desc *desc) {
  static const int first[] = {0};
  q->argnums = first;
  q->argnum_count = 1;
  if (desc != NULL) {
    q->has_aux = desc->has_aux;
    if (desc->argnums != NULL) {
      q->argnums = desc->argnums;
      q->argnum_count = desc->argnum_count;
    }
  }
  if (q->argnum_count > 8)
    return QN_ERR(QN_INVALID, "value_and_grad: %zu argnums, at most 8 are allowed", q->argnum_count);
  for (size_t i = 0; i < q->argnum_count; ++i)
    if (q->argnums[i] < 0 || (size_t)q->argnums[i] >= q->arg_count)
      return QN_ERR(QN_INVALID, "value_and_grad: argnum %d, there are %zu arguments", q->argnums[i], q->arg_count);
  for (size_t i = 0; i < q->arg_count; ++i) {
    if (q->args[i] == NULL)
      return QN_ERR(QN_INVALID, "value_and_grad: argument %zu is NULL", i);
    q->leaves += q->args[i]->count;
    for (size_t k = 0; k < q->args[i]->count; ++k)
      if (q->args[i]->leaves[k].val.graph != q->g)
        return QN_ERR(QN_INVALID, "value_and_grad: '%s' of argument %zu is of another graph",
                      q->args[i]->leaves[k].path, i);
  }
  return QN_OK;
}

/* The loss as a graph whose parameters are the leaves of all arguments. *out_aux lists paths of the aux results, in `scratch`. */
static qn_status trace_loss(request *q, qn_loss_fn fn, void *user, qn_graph **out_graph, const char ***out_aux,
                            size_t *out_aux_count) {
  qn_graph *h = NULL;
  QN_TRY(qn_graph_create("loss", &h));
  qn_status st = QN_OK;
  qn_tree **args = QN_NEW(&q->scratch, qn_tree *, q->arg_count + 1);
  for (size_t i = 0; args != NULL && i < q->arg_count; ++i) {
    args[i] = qn_tree_create(h);
    for (size_t k = 0; args[i] != NULL && k < q->args[i]->count; ++k) {
      const qn_leaf *leaf = &q->args[i]->leaves[k];
      qn_val v = qn_graph_param(h, *qn_val_type(leaf->val), qn_arena_printf(&q->scratch, "%zu/%s", i, leaf->path));
      qn_tree_set_at(q->at, args[i], leaf->path, v);
    }
  }
  qn_tree *aux = NULL;
  qn_val loss = args != NULL && !qn_graph_failed(h) ? fn(h, args, &aux, user) : QN_NULL_VAL;
  size_t n = q->has_aux && aux != NULL ? aux->count : 0;
  qn_val *results = QN_NEW(&q->scratch, qn_val, n + 1);
  *out_aux = QN_NEW(&q->scratch, const char *, n + 1);
  *out_aux_count = n;
  if (args == NULL || results == NULL || *out_aux == NULL) {
    qn_graph_release(h);
    return QN_ERR(QN_OUT_OF_MEMORY, "value_and_grad: out of memory");
  }
  if (q->has_aux && aux == NULL && !qn_graph_failed(h))
    (void)qn_graph_fail(h, q->at, QN_INVALID, "value_and_grad: the function gave no aux tree");
  results[0] = loss;
  for (size_t i = 0; i < n; ++i) {
    results[i + 1] = aux->leaves[i].val;
    (*out_aux)[i] = qn_arena_strdup(&q->scratch, aux->leaves[i].path);
  }
  st = qn_finish(h, results, n + 1, out_graph);
  return st;
}

/* Numbers of the float leaves of the arguments asked for, argument by argument. */
static int *leaf_argnums(request *q, size_t *out_count) {
  int *list = QN_NEW(&q->scratch, int, q->leaves * q->argnum_count + 1);
  for (size_t i = 0; list != NULL && i < q->argnum_count; ++i) {
    size_t first = 0;
    for (int k = 0; k < q->argnums[i]; ++k)
      first += q->args[k]->count;
    const qn_tree *t = q->args[q->argnums[i]];
    for (size_t k = 0; k < t->count; ++k)
      if (qn_is_differentiable(qn_val_type(t->leaves[k].val)))
        list[(*out_count)++] = (int)(first + k);
  }
  return list;
}

static qn_status run(request *q, qn_loss_fn fn, void *user, qn_value_grad *out) {
  qn_graph *loss = NULL, *both = NULL;
  const char **aux = NULL;
  size_t aux_count = 0, wanted = 0, n = 0;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, trace_loss(q, fn, user, &loss, &aux, &aux_count), done);
  int *argnums = leaf_argnums(q, &wanted);
  qn_val *args = QN_NEW(&q->scratch, qn_val, q->leaves + 1),
         *results = QN_NEW(&q->scratch, qn_val, 1 + aux_count + wanted);
  if (argnums == NULL || args == NULL || results == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "value_and_grad: out of memory");
    goto done;
  }
  qn_grad_desc desc = {.argnums = argnums, .argnum_count = wanted, .has_aux = q->has_aux};
  QN_TRY_GOTO(st, qn_grad_graph(loss, &desc, &both), done);
  for (size_t i = 0; i < q->arg_count; ++i)
    for (size_t k = 0; k < q->args[i]->count; ++k)
      args[n++] = q->args[i]->leaves[k].val;
  if (!qn_graph_inline(q->g, both, args, n, results))
    goto done; /* q->g has failed and knows why */
  out->value = results[0];
  n = 1;
  if (q->has_aux && (out->aux = qn_tree_create(q->g)) != NULL)
    for (size_t i = 0; i < aux_count; ++i)
      qn_tree_set_at(q->at, out->aux, aux[i], results[n++]);
  for (size_t i = 0; i < q->argnum_count; ++i) {
    const qn_tree *t = q->args[q->argnums[i]];
    out->grads[i] = qn_tree_create(q->g);
    for (size_t k = 0; out->grads[i] != NULL && k < t->count; ++k)
      if (qn_is_differentiable(qn_val_type(t->leaves[k].val)))
        qn_tree_set_at(q->at, out->grads[i], t->leaves[k].path, results[n++]);
  }
done:
  if (loss != NULL)
    qn_graph_release(loss);
  if (both != NULL)
    qn_graph_release(both);
  return st;
}

qn_value_grad qn_value_and_grad_at(qn_place at, qn_graph *g, qn_loss_fn fn, void *user, qn_tree *const *args,
                                   size_t arg_count, const qn_grad_desc *desc) {
  qn_value_grad out = {.value = QN_NULL_VAL};
  if (g == NULL || qn_graph_failed(g))
    return out;
  request q = {.at = at, .g = g, .args = args, .arg_count = arg_count};
  qn_status st = open_request(&q, desc);
  if (st == QN_OK)
    st = run(&q, fn, user, &out);
  if (st != QN_OK && !qn_graph_failed(g)) {
    bool captured = strstr(qn_error_message(), "another graph") != NULL;
    (void)qn_graph_fail(g, at, st, "%s%s", qn_error_message(),
                        captured ? "; values from outside the function must be passed to value_and_grad as arguments"
                                 : "");
  }
  qn_arena_free(&q.scratch);
  if (qn_graph_failed(g))
    out = (qn_value_grad){.value = QN_NULL_VAL};
  return out;
}
