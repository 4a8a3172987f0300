/* The walk of every pass: live nodes into a new graph, each copied or replaced, every node as soon as the results need it. That order follows from
 * the graph alone: how a compiler ordered the arguments of nested builders is forgotten. */
#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct visit {
  size_t node;
  int next; /* operand */
} visit;
typedef struct rebuild {
  const qn_graph *from;
  qn_graph *to;
  uint8_t *seen; /* per node */
  visit *stack;
  size_t *order, count; /* live nodes, operands first */
  qn_val *map;          /* per value */
  qn_val *operands, *results;
} rebuild;

/* Operands first, from the results down, without recursion: graphs may be a million nodes deep. */
static void find_order(rebuild *r) {
  const qn_graph *g = r->from;
  for (size_t i = 0; i < g->result_count; i++) {
    size_t depth = 0;
    r->stack[depth++] = (visit){qn_graph_def_index(g, qn_graph_result(g, i)), 0};
    while (depth > 0) {
      visit *top = &r->stack[depth - 1];
      const qn_node *n = qn_node_slot(g, top->node);
      if (r->seen[top->node]) {
        depth--;
      } else if (top->next < n->operand_count) {
        size_t operand = qn_graph_def_index(g, n->operands[top->next++]);
        if (!r->seen[operand])
          r->stack[depth++] = (visit){operand, 0};
      } else {
        r->seen[top->node] = 1;
        r->order[r->count++] = top->node;
        depth--;
      }
    }
  }
}

static void copy_node(rebuild *r, const qn_node *n, qn_rebuild_fn fn, void *user) {
  for (int k = 0; k < n->operand_count; k++)
    r->operands[k] = r->map[n->operands[k]];
  for (int k = 0; k < n->result_count; k++)
    r->results[k] = QN_NULL_VAL;
  if (!fn || !fn(r->to, r->from, n, r->operands, r->results, user)) {
    qn_val first = qn_graph_copy_node(r->to, r->from, n, r->operands);
    for (int k = 0; k < n->result_count; k++)
      r->results[k] = (qn_val){first.graph, first.id + (uint32_t)k};
  }
  for (int k = 0; k < n->result_count; k++)
    r->map[n->first_result + (uint32_t)k] = r->results[k];
}

static qn_status run(rebuild *r, qn_rebuild_fn fn, void *user) {
  const qn_graph *g = r->from;
  find_order(r);
  for (size_t i = 0; i < g->params.count; i++) {
    uint32_t id = qn_graph_param_at(g, i);
    r->map[id] = qn_graph_param(r->to, *qn_graph_type(g, id), qn_graph_param_path(g, i));
  }
  for (size_t i = 0; i < r->count && r->to->failed == QN_OK; i++) {
    const qn_node *n = qn_node_slot(g, r->order[i]);
    if (n->op != QN_OP_PARAMETER)
      copy_node(r, n, fn, user);
  }
  for (size_t i = 0; i < g->result_count; i++) {
    r->results[i] = r->map[qn_graph_result(g, i)];
    if (qn_graph_result_path(g, i))
      qn_graph_set_result_path(r->to, i, qn_graph_result_path(g, i));
  }
  return qn_graph_seal(r->to, r->results, g->result_count);
}

qn_status qn_graph_rebuild(const qn_graph *g, qn_rebuild_fn fn, void *user, qn_graph **out_graph) {
  *out_graph = NULL;
  if (!g->sealed || g->failed != QN_OK)
    return QN_ERR(QN_INVALID, "%s: not a sealed graph", g->name);
  size_t most = g->result_count; /* operands or results of one node, or results of the graph */
  for (size_t i = 0; i < g->nodes.count; i++) {
    const qn_node *n = qn_node_slot(g, i);
    most = (size_t)n->operand_count > most ? (size_t)n->operand_count : most;
    most = (size_t)n->result_count > most ? (size_t)n->result_count : most;
  }
  size_t values = g->values.count + 1;
  rebuild r = {.from = g,
               .seen = calloc(g->nodes.count + 1, 1),
               .stack = malloc((g->nodes.count + 1) * sizeof *r.stack),
               .order = malloc((g->nodes.count + 1) * sizeof *r.order),
               .map = calloc(values + 2 * most + 2, sizeof *r.map)};
  qn_status st = QN_OK;
  if (!r.seen || !r.stack || !r.order || !r.map) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory", g->name);
    goto done;
  }
  r.operands = r.map + values;
  r.results = r.operands + most + 1;
  QN_TRY_GOTO(st, qn_graph_create(g->name, &r.to), done);
  QN_TRY_GOTO(st, run(&r, fn, user), done);
done:
  free(r.seen);
  free(r.stack);
  free(r.order);
  free(r.map);
  if (st != QN_OK)
    qn_graph_release(r.to);
  else
    *out_graph = r.to;
  return st;
}
