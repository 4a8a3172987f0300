/* Small things that all transforms use. */
#include "engine.h"

bool qn_is_differentiable(const qn_type *t) { return qn_dtype_is_float(t->dtype) || qn_dtype_is_complex(t->dtype); }

void qn_copy_params(qn_graph *g, const qn_graph *f, qn_val *out) {
  for (size_t i = 0; i < qn_graph_param_count(f); ++i)
    out[i] = qn_graph_param(g, *qn_graph_type(f, qn_graph_param_at(f, i)), qn_graph_param_path(f, i));
}

size_t qn_widest_node(const qn_graph *f) {
  size_t most = 1;
  for (size_t i = 0; i < qn_graph_node_count(f); ++i) {
    const qn_node *node = qn_graph_node(f, i);
    if ((size_t)node->operand_count > most)
      most = (size_t)node->operand_count;
    if ((size_t)node->result_count > most)
      most = (size_t)node->result_count;
  }
  return most;
}

bool qn_no_memory(qn_graph *g) {
  (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "no memory for a transform");
  return false;
}

qn_status qn_finish(qn_graph *g, const qn_val *results, size_t count, qn_graph **out_graph) {
  qn_graph_set_place(g, NULL);
  qn_status st = qn_graph_seal(g, results, count);
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_seal(g, results, count)");
  }
  *out_graph = g;
  return QN_OK;
}

bool qn_call_failed(qn_call *c, qn_status st) {
  (void)qn_graph_fail(c->g, c->node->place, st, "%s", qn_error_message());
  return false;
}

const qn_call_rules *qn_call_rules_of(qn_op op) {
  static const qn_call_rules *const rules[QN_OP_COUNT] = {
      [QN_OP_WHILE] = &qn_rules_while, [QN_OP_CASE] = &qn_rules_branches,         [QN_OP_IF] = &qn_rules_branches,
      [QN_OP_REMAT] = &qn_rules_remat, [QN_OP_CUSTOM_JVP] = &qn_rules_custom_jvp,
  };
  return rules[op];
}

qn_val qn_with_lanes(qn_val x, int64_t size) {
  qn_type t = *qn_val_type(x);
  int64_t dims[QN_MAX_RANK + 1] = {size}, to[QN_MAX_RANK + 1] = {0};
  for (int i = 0; i < t.rank; ++i) {
    dims[i + 1] = t.dims[i];
    to[i] = i + 1;
  }
  return qn_broadcast_in_dim(x, t.rank + 1, dims, to);
}

/* A slice written into zeros: the node, or NULL. */
static const qn_node *slice_in_zeros(qn_val v) {
  const qn_node *n = qn_graph_def(v.graph, v.id);
  bool splat = false;
  double x = 1;
  if (n->op != QN_OP_DYNAMIC_UPDATE_SLICE || !qn_graph_constant(v.graph, n->operands[0], &splat) || !splat ||
      !qn_graph_constant_at(v.graph, n->operands[0], 0, &x) || x != 0)
    return NULL;
  return n;
}

qn_val qn_add_cotangents(qn_val a, qn_val b) {
  const qn_node *n = slice_in_zeros(b);
  if (n == NULL && (n = slice_in_zeros(a)) != NULL)
    a = b;
  if (n == NULL)
    return qn_add(a, b);
  qn_val starts[QN_MAX_RANK], update = {a.graph, n->operands[1]};
  for (int i = 2; i < n->operand_count; ++i)
    starts[i - 2] = (qn_val){a.graph, n->operands[i]};
  qn_val now = qn_dynamic_slice(a, starts, qn_val_type(update)->dims);
  return qn_dynamic_update_slice(a, qn_add(now, update), starts);
}
