/* grad and value_and_grad of a graph: reverse mode from a cotangent of one. */
#include "engine.h"

typedef struct plan {
  size_t params, results;
  qn_val *args, *cts, *values, *grads, *out;
  bool *wanted;
} plan;

static bool open_plan(plan *p, const qn_graph *f, size_t grads, qn_arena *arena) {
  p->params = qn_graph_param_count(f);
  p->results = qn_graph_result_count(f);
  p->args = QN_NEW(arena, qn_val, p->params + 1);
  p->grads = QN_NEW(arena, qn_val, p->params + 1);
  p->wanted = QN_NEW(arena, bool, p->params + 1);
  p->cts = QN_NEW(arena, qn_val, p->results + 1);
  p->values = QN_NEW(arena, qn_val, p->results + 1);
  p->out = QN_NEW(arena, qn_val, p->results + grads + 1);
  return p->args && p->grads && p->wanted && p->cts && p->values && p->out;
}

static qn_status check(const qn_graph *f, const int *argnums, size_t count, bool has_aux) {
  if (qn_graph_result_count(f) == 0)
    return QN_ERR(QN_INVALID, "grad: the function has no result");
  const qn_type *t = qn_graph_type(f, qn_graph_result(f, 0));
  if (t->rank != 0 || !qn_dtype_is_float(t->dtype))
    return QN_ERR(QN_INVALID, "grad: the function's result is %s, expected a float scalar", qn_type_str(t));
  if (qn_graph_result_count(f) > 1 && !has_aux)
    return QN_ERR(QN_INVALID, "grad: the function has %zu results, expected 1 without has_aux",
                  qn_graph_result_count(f));
  for (size_t i = 0; i < count; ++i) {
    if (argnums[i] < 0 || (size_t)argnums[i] >= qn_graph_param_count(f))
      return QN_ERR(QN_INVALID, "grad: argnum %d, the function has %zu parameters", argnums[i],
                    qn_graph_param_count(f));
    t = qn_graph_type(f, qn_graph_param_at(f, (size_t)argnums[i]));
    if (!qn_is_differentiable(t))
      return QN_ERR(QN_INVALID, "grad: parameter %d is %s, expected a float", argnums[i], qn_type_str(t));
  }
  return QN_OK;
}

qn_status qn_grad_graph(const qn_graph *f, const qn_grad_desc *desc, qn_graph **out_graph) {
  static const int first[] = {0};
  static const qn_grad_desc plain = {0};
  *out_graph = NULL;
  const qn_grad_desc *d = desc != NULL ? desc : &plain;
  const int *argnums = d->argnums != NULL ? d->argnums : first;
  size_t count = d->argnums != NULL ? d->argnum_count : 1, n = 0;
  QN_TRY(check(f, argnums, count, d->has_aux));
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  plan p = {0};
  if (!open_plan(&p, f, count, qn_graph_arena(g))) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "grad: out of memory");
  }
  qn_copy_params(g, f, p.args);
  for (size_t i = 0; i < count; ++i)
    p.wanted[argnums[i]] = true;
  p.cts[0] = qn_scalar(g, qn_graph_type(f, qn_graph_result(f, 0))->dtype, 1.0);
  bool ok = qn_vjp_into(g, f, p.args, p.wanted, p.cts, p.values, p.grads);
  size_t kept = d->no_value ? p.results - 1 : p.results; /* results of f that are handed through */
  for (size_t part = 0; ok && part < 2; ++part) {
    if ((part == 0) == d->no_value) { /* gradients: behind value and aux, but before aux without the value */
      for (size_t i = 0; i < count; ++i) {
        qn_graph_set_result_path(g, n, qn_graph_param_path(f, (size_t)argnums[i]));
        p.out[n++] = qn_val_ok(p.grads[argnums[i]]) ? p.grads[argnums[i]] : qn_zeros_like(p.args[argnums[i]]);
      }
      continue;
    }
    for (size_t i = p.results - kept; i < p.results; ++i) {
      qn_graph_set_result_path(g, n, qn_graph_result_path(f, i));
      p.out[n++] = p.values[i];
    }
  }
  return qn_finish(g, p.out, n, out_graph);
}
