/* One transform by description, and the small ones that are made of others: Hessian times vector, linearize, sum, lanes at any axis. */
#include "engine.h"

#include <string.h>

static const struct {
  const char *name;
  qn_transform_kind kind;
} names[] = {
    {"jit", QN_TRANSFORM_IDENTITY},
    {"remat", QN_TRANSFORM_REMAT},
    {"grad", QN_TRANSFORM_GRAD},
    {"value_and_grad", QN_TRANSFORM_VALUE_AND_GRAD},
    {"jacfwd", QN_TRANSFORM_JACFWD},
    {"jacrev", QN_TRANSFORM_JACREV},
    {"hessian", QN_TRANSFORM_HESSIAN},
    {"vmap", QN_TRANSFORM_VMAP},
    {"hvp", QN_TRANSFORM_HVP},
    {"hvp_rev", QN_TRANSFORM_HVP_REV},
    {"vjp", QN_TRANSFORM_VJP},
    {"jvp", QN_TRANSFORM_JVP},
    {"linearize", QN_TRANSFORM_LINEARIZE},
    {"sum", QN_TRANSFORM_SUM},
};

qn_status qn_transform_find(const char *name, qn_transform_kind *out_kind) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i].name, name) == 0) {
      *out_kind = names[i].kind;
      return QN_OK;
    }
  return QN_ERR(QN_NOT_FOUND, "no transform is called '%s'", name);
}

/* A graph that wraps another: its parameters copied, `more` of the given type added, the callee inlined. */
typedef struct wrapper {
  qn_graph *g;
  qn_val *args, *out; /* room for the callee's parameters and results, and one more each */
  size_t params, results;
} wrapper;

static qn_status open_wrapper(wrapper *w, const qn_graph *f) {
  w->params = qn_graph_param_count(f);
  w->results = qn_graph_result_count(f);
  QN_TRY(qn_graph_create(qn_graph_name(f), &w->g));
  w->args = QN_NEW(qn_graph_arena(w->g), qn_val, 2 * w->params + 1);
  w->out = QN_NEW(qn_graph_arena(w->g), qn_val, 2 * w->results + 1);
  if (w->args == NULL || w->out == NULL) {
    qn_graph_release(w->g);
    return QN_ERR(QN_OUT_OF_MEMORY, "transform: out of memory");
  }
  return QN_OK;
}

static qn_status gradient_by(const qn_graph *f, int argnum, qn_graph **out_graph) {
  qn_grad_desc desc = {.argnums = &argnum, .argnum_count = 1, .no_value = true};
  return qn_grad_graph(f, &desc, out_graph);
}

/* Forward over reverse: the gradient's tangent for v in place of the parameter's tangent. */
qn_status qn_hvp_graph(const qn_graph *f, int argnum, qn_graph **out_graph) {
  qn_graph *grad = NULL;
  *out_graph = NULL;
  QN_TRY(gradient_by(f, argnum, &grad));
  wrapper w;
  qn_status st = open_wrapper(&w, grad);
  if (st == QN_OK) {
    qn_copy_params(w.g, grad, w.args);
    qn_val *tangents = w.args + w.params, made = QN_NULL_VAL;
    tangents[argnum] = qn_graph_param(w.g, *qn_val_type(w.args[argnum]), "v");
    if (qn_jvp_into(w.g, grad, w.args, tangents, w.out, &made) && !qn_val_ok(made))
      made = qn_zeros_like(w.args[argnum]);
    st = qn_finish(w.g, &made, 1, out_graph);
  }
  qn_graph_release(grad);
  return st;
}

/* Reverse over reverse: the gradient of the product of gradient and v. */
static qn_status hvp_reverse(const qn_graph *f, qn_graph **out_graph) {
  qn_graph *grad = NULL, *product = NULL;
  QN_TRY(gradient_by(f, 0, &grad));
  wrapper w;
  qn_status st = open_wrapper(&w, grad);
  if (st == QN_OK) {
    qn_copy_params(w.g, grad, w.args);
    qn_val v = qn_graph_param(w.g, *qn_val_type(w.args[0]), "v"), y = QN_NULL_VAL;
    if (qn_graph_inline(w.g, grad, w.args, w.params, w.out))
      y = qn_sum_all(qn_mul(w.out[0], v));
    st = qn_finish(w.g, &y, 1, &product);
  }
  if (st == QN_OK)
    st = gradient_by(product, 0, out_graph);
  qn_graph_release(grad);
  if (product != NULL)
    qn_graph_release(product);
  return st;
}

/* Keeps the results behind the first `skip` of `full`, which it releases. */
static qn_status keep_tail(qn_graph *full, size_t skip, qn_graph **out_graph) {
  wrapper w;
  qn_status st = open_wrapper(&w, full);
  if (st == QN_OK) {
    qn_copy_params(w.g, full, w.args);
    (void)qn_graph_inline(w.g, full, w.args, w.params, w.out);
    st = qn_finish(w.g, w.out + skip, w.results - skip, out_graph);
  }
  qn_graph_release(full);
  return st;
}

static qn_status summed(const qn_graph *f, qn_graph **out_graph) {
  if (qn_graph_result_count(f) != 1)
    return QN_ERR(QN_INVALID, "sum: the function has %zu results, expected 1", qn_graph_result_count(f));
  wrapper w;
  QN_TRY(open_wrapper(&w, f));
  qn_copy_params(w.g, f, w.args);
  qn_val y = QN_NULL_VAL;
  if (qn_graph_inline(w.g, f, w.args, w.params, w.out))
    y = qn_sum_all(w.out[0]);
  return qn_finish(w.g, &y, 1, out_graph);
}

/* ---- vmap with negative and result axes ---- */
static qn_status lane_axis(int axis, int rank, int *out) {
  *out = axis < 0 ? axis + rank : axis;
  if (*out < 0 || *out >= rank)
    return QN_ERR(QN_INVALID, "vmap: axis %d is out of range for %d axes", axis, rank);
  return QN_OK;
}

static qn_status move_results(qn_graph *mapped, const int *out_axes, qn_graph **out_graph) {
  wrapper w;
  QN_TRY(open_wrapper(&w, mapped));
  qn_copy_params(w.g, mapped, w.args);
  bool ok = qn_graph_inline(w.g, mapped, w.args, w.params, w.out);
  for (size_t i = 0; ok && i < w.results; ++i) {
    int rank = qn_val_type(w.out[i])->rank, axis = 0;
    if (lane_axis(out_axes[i], rank, &axis) != QN_OK) {
      (void)qn_graph_fail(w.g, QN_HERE, QN_INVALID, "%s", qn_error_message());
      break;
    }
    int64_t permutation[QN_MAX_RANK] = {0};
    for (int k = 0; k < rank; ++k)
      permutation[k] = k < axis ? k + 1 : k == axis ? 0 : k;
    if (axis != 0)
      w.out[i] = qn_transpose(w.out[i], permutation);
  }
  return qn_finish(w.g, w.out, w.results, out_graph);
}

static qn_status vmapped(const qn_graph *f, const qn_transform *t, qn_graph **out_graph) {
  size_t n = qn_graph_param_count(f);
  qn_arena scratch = {0};
  qn_graph *front = NULL;
  qn_status st = QN_OK;
  int *axes = QN_NEW(&scratch, int, n + 1);
  if (axes == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "vmap: out of memory");
  for (size_t i = 0; i < n; ++i) {
    axes[i] = -1;
    if (t->in_axes[i] != QN_NO_LANES)
      QN_TRY_GOTO(st, lane_axis(t->in_axes[i], qn_graph_type(f, qn_graph_param_at(f, i))->rank + 1, &axes[i]), done);
  }
  QN_TRY_GOTO(st, qn_vmap_graph(f, t->lanes, axes, &front), done);
  if (t->out_axes != NULL)
    QN_TRY_GOTO(st, move_results(front, t->out_axes, out_graph), done);
  else
    *out_graph = qn_graph_retain(front);
done:
  if (front != NULL)
    qn_graph_release(front);
  qn_arena_free(&scratch);
  return st;
}

qn_status qn_transform_graph(const qn_graph *f, const qn_transform *t, qn_graph **out_graph) {
  *out_graph = NULL;
  qn_grad_desc desc = {.argnums = t->argnums,
                       .argnum_count = t->argnum_count,
                       .has_aux = t->has_aux,
                       .no_value = t->kind == QN_TRANSFORM_GRAD};
  qn_graph *full = NULL;
  switch (t->kind) {
  case QN_TRANSFORM_IDENTITY:
    *out_graph = qn_graph_retain(f);
    return QN_OK;
  case QN_TRANSFORM_GRAD:
  case QN_TRANSFORM_VALUE_AND_GRAD:
    return qn_grad_graph(f, &desc, out_graph);
  case QN_TRANSFORM_JACFWD:
    return qn_jacfwd_graph(f, t->argnums, t->argnum_count, out_graph);
  case QN_TRANSFORM_JACREV:
    return qn_jacrev_graph(f, t->argnums, t->argnum_count, out_graph);
  case QN_TRANSFORM_HESSIAN:
    return qn_hessian_graph(f, t->argnums, t->argnum_count, out_graph);
  case QN_TRANSFORM_VMAP:
    return vmapped(f, t, out_graph);
  case QN_TRANSFORM_REMAT:
    return qn_remat_graph(f, NULL, out_graph);
  case QN_TRANSFORM_HVP:
    return qn_hvp_graph(f, 0, out_graph);
  case QN_TRANSFORM_HVP_REV:
    return hvp_reverse(f, out_graph);
  case QN_TRANSFORM_JVP:
    return qn_jvp_graph(f, out_graph);
  case QN_TRANSFORM_VJP:
    QN_TRY(qn_vjp_graph(f, &full));
    return keep_tail(full, qn_graph_result_count(f), out_graph);
  case QN_TRANSFORM_LINEARIZE:
    QN_TRY(qn_jvp_graph(f, &full));
    return keep_tail(full, qn_graph_result_count(f), out_graph);
  case QN_TRANSFORM_SUM:
    return summed(f, out_graph);
  }
  return QN_ERR(QN_INVALID, "no transform of number %d", (int)t->kind);
}
