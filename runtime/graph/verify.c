/* Sealing and verification. Nodes are checked as they are added, so sealing looks at the results only (and at everything
 * in builds with checks); qn_graph_verify runs every shape rule again. */
#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

static qn_status set_results(qn_graph *g, const qn_val *results, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!qn_val_ok(results[i]))
      return QN_ERR(QN_INVALID, "%s: result %zu is the null value", g->name, i);
    if (results[i].graph != g || (size_t)results[i].id > g->values.count)
      return QN_ERR(QN_INVALID, "%s: result %zu belongs to another graph", g->name, i);
    while (g->results.count <= i)
      if (!qn_table_push(&g->results, &g->arena, sizeof(qn_port)))
        return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory", g->name);
    ((qn_port *)qn_table_slot(&g->results, i, sizeof(qn_port)))->value = results[i].id;
  }
  g->result_count = count;
  return QN_OK;
}

qn_status qn_graph_seal(qn_graph *g, const qn_val *results, size_t count) {
  if (g->sealed)
    return QN_ERR(QN_INVALID, "%s: sealed already", g->name);
  if (g->failed != QN_OK)
    return QN_ERR(g->failed, "%s", g->fail_text);
  QN_TRY(set_results(g, results, count));
  g->sealed = true;
  g->has_place = false;
#ifndef NDEBUG
  qn_status st = qn_graph_verify(g);
  if (st != QN_OK) { /* a sealed graph is a right one */
    g->failed = st;
    (void)snprintf(g->fail_text, sizeof g->fail_text, "%s", qn_error_message());
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_verify(g)");
  }
#endif
  return QN_OK;
}

/* One node: operands come earlier, the rule gives the recorded types. `types` is scratch. */
static qn_status verify_node(const qn_graph *g, size_t index, qn_type *types, size_t room) {
  const qn_node *n = qn_node_slot(g, index);
  const qn_op_def *row = qn_op_get(n->op);
  if (!row)
    return QN_ERR(QN_INVALID, "%s: node %zu has no operation", g->name, index);
  for (int i = 0; i < n->operand_count; i++) {
    uint32_t id = n->operands[i];
    if (id == 0 || id >= n->first_result || qn_value_slot(g, id)->node >= index)
      return QN_ERR(QN_INVALID, "%s: operand %d of node %zu is not defined before it", row->name, i, index);
    types[i] = *qn_graph_type(g, id);
  }
  if (n->op == QN_OP_PARAMETER)
    return qn_type_check(qn_graph_type(g, n->first_result), row->name);
  int count = 0;
  qn_type *got = types + n->operand_count;
  memset(got, 0, room * sizeof *got);
  const qn_type *hint = n->result_count ? qn_graph_type(g, n->first_result) : NULL;
  QN_TRY(qn_infer_run(n->op, types, (size_t)n->operand_count, n->attr, n->regions, (size_t)n->region_count, hint, got,
                      room, &count));
  if (count != n->result_count)
    return QN_ERR(QN_INVALID, "%s: %d results, expected %d", row->name, n->result_count, count);
  for (int i = 0; i < count; i++) {
    const qn_type *have = qn_graph_type(g, n->first_result + (uint32_t)i);
    if (!qn_type_equal(&got[i], have))
      return QN_ERR(QN_INVALID, "%s: result %d is %s, expected %s", row->name, i, qn_type_str(have),
                    qn_type_str(&got[i]));
  }
  return QN_OK;
}

qn_status qn_graph_verify(const qn_graph *g) {
  if (g->failed != QN_OK)
    return QN_ERR(g->failed, "%s", g->fail_text);
  if (!g->sealed)
    return QN_ERR(QN_INVALID, "%s: not sealed", g->name);
  size_t most = 1;
  for (size_t i = 0; i < g->nodes.count; i++) {
    const qn_node *n = qn_node_slot(g, i);
    size_t need =
        (size_t)n->operand_count + qn_infer_room((size_t)n->operand_count, n->regions, (size_t)n->region_count);
    most = need > most ? need : most;
    for (int r = 0; r < n->region_count; r++)
      if (!n->regions[r]->sealed || n->regions[r]->failed != QN_OK)
        return QN_ERR(QN_INVALID, "%s: region %d is not a sealed graph", qn_op_get(n->op)->name, r);
  }
  qn_type *types = malloc(most * sizeof *types);
  if (!types)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory", g->name);
  qn_status st = QN_OK;
  for (size_t i = 0; i < g->nodes.count && st == QN_OK; i++)
    st = verify_node(g, i, types, most - (size_t)qn_node_slot(g, i)->operand_count);
  free(types);
  return st;
}
