/* Small things that all transforms use. */
#include "engine.h"

bool qn_is_differentiable(const qn_type *t) { return qn_dtype_is_float(t->dtype); }

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
