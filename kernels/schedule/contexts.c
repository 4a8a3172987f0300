/* Values that would be computed over and over if they stayed lazy.
 *
 * A kernel computes a lazy value once for every different index at which it's asked for: one asked for by both halves of a concatenation is computed
 * twice, and along a chain of such the count doubles at each link. Walking from results to operands, every value collects the indexes at which it's
 * asked for, each named by the path of movements that led there; where they are many, the value has to be in memory. */
#include <stdlib.h>
#include <string.h>

#include "schedule.h"

enum { CONTEXT_LIMIT = 4, CHEAP_TO_REPEAT = 6 };

typedef struct contexts {
  uint64_t id[CONTEXT_LIMIT];
  uint32_t count; /* CONTEXT_LIMIT + 1: more */
} contexts;

static void add_context(contexts *c, uint64_t id) {
  for (uint32_t i = 0; i < c->count && i < CONTEXT_LIMIT; i++)
    if (c->id[i] == id)
      return;
  if (c->count < CONTEXT_LIMIT)
    c->id[c->count] = id;
  if (c->count <= CONTEXT_LIMIT)
    c->count++;
}

/* Scalar operations behind a value when nothing but parameters is in memory; saturating. */
static void add_costs(const qn_graph *g, uint32_t *cost) {
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    qn_op_kind kind = qn_op_get(n->op)->kind;
    uint32_t sum = kind == QN_KIND_ELEMENTWISE || n->op == QN_OP_PAD || n->op == QN_OP_WINDOWS ||
                   n->op == QN_OP_CONCATENATE || n->op == QN_OP_GATHER;
    for (int j = 0; j < n->operand_count && sum < 1u << 16; j++)
      sum += cost[n->operands[j]];
    for (int j = 0; j < n->result_count; j++)
      cost[n->first_result + (uint32_t)j] = sum;
  }
}

static void ask_operands(const qn_node *n, const contexts *own, contexts *all) {
  bool in_place = qn_op_get(n->op)->kind == QN_KIND_ELEMENTWISE;
  for (int j = 0; j < n->operand_count; j++)
    for (uint32_t k = 0; k < own->count && k < CONTEXT_LIMIT; k++) {
      uint64_t step = qn_hash_u64(qn_hash_u64(own->id[k], n->first_result), (uint64_t)j);
      add_context(&all[n->operands[j]], in_place ? own->id[k] : step);
    }
}

qn_status qn_schedule_contexts(const qn_graph *g, bool *out_needed) {
  size_t values = qn_graph_value_count(g);
  contexts *all = calloc(values + 1, sizeof *all);
  uint32_t *cost = calloc(values + 1, sizeof *cost);
  if (!all || !cost) {
    free(all);
    free(cost);
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to schedule %zu values", values);
  }
  add_costs(g, cost);
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    add_context(&all[qn_graph_result(g, i)], qn_graph_result(g, i));
  for (size_t i = qn_graph_node_count(g); i > 0; i--) {
    const qn_node *n = qn_graph_node(g, i - 1);
    contexts own = all[n->first_result];
    for (int j = 1; j < n->result_count; j++)
      for (uint32_t k = 0; k < all[n->first_result + (uint32_t)j].count && k < CONTEXT_LIMIT; k++)
        add_context(&own, all[n->first_result + (uint32_t)j].id[k]);
    bool stored = qn_op_opens_part(n->op);
    if (own.count > CONTEXT_LIMIT && cost[n->first_result] >= CHEAP_TO_REPEAT)
      out_needed[n->first_result] = stored = true;
    if (stored) { /* computed once, at an index of its own */
      own.count = 0;
      add_context(&own, n->first_result);
    }
    ask_operands(n, &own, all);
  }
  free(all);
  free(cost);
  return QN_OK;
}
