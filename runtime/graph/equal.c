/* Structural hash and equality, of nodes (for common subexpressions) and of whole graphs (for regions, tests). Attribute
 * records are zero-initialised before they are filled, so plain ones compare by bytes; those with pointers by what these
 * point to. */
#include "graph_impl.h"

#include <string.h>

static uint64_t hash_type(uint64_t h, const qn_type *t) {
  h = qn_hash_u64(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
  return qn_hash_bytes(h, t->dims, (size_t)t->rank * sizeof t->dims[0]);
}

static uint64_t hash_text(uint64_t h, const char *s) {
  return s ? qn_hash_bytes(h, s, strlen(s) + 1) : qn_hash_u64(h, 0);
}

uint64_t qn_node_hash(const qn_graph *g, const qn_node *n) {
  const qn_op_def *row = qn_op_get(n->op);
  uint64_t h = qn_hash_u64(QN_HASH_INIT, (uint64_t)n->op << 32 | (uint64_t)(uint32_t)n->operand_count);
  for (int i = 0; i < n->result_count; i++)
    h = hash_type(h, qn_graph_type(g, n->first_result + (uint32_t)i));
  if (n->op == QN_OP_CONSTANT) {
    const qn_attr_constant *c = n->attr;
    h = qn_hash_bytes(h, c->data, qn_constant_bytes(c, qn_graph_type(g, n->first_result)));
  } else if (n->attr && row->attr_own) {
    const qn_attr_name *a = n->attr; /* the only other record with pointers */
    h = hash_text(hash_text(h, a->target), a->config);
  } else if (n->attr) {
    h = qn_hash_bytes(h, n->attr, row->attr_size);
  }
  for (int i = 0; i < n->region_count; i++)
    h = qn_hash_u64(h, qn_graph_hash(n->regions[i]));
  return h;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_attr(const qn_graph *ga, const qn_node *a, const qn_node *b) {
  const qn_op_def *row = qn_op_get(a->op);
  if (!a->attr || !b->attr)
    return a->attr == b->attr;
  if (a->op == QN_OP_CONSTANT) {
    const qn_attr_constant *x = a->attr, *y = b->attr;
    return x->elements == y->elements &&
           memcmp(x->data, y->data, qn_constant_bytes(x, qn_graph_type(ga, a->first_result))) == 0;
  }
  if (row->attr_own) {
    const qn_attr_name *x = a->attr, *y = b->attr;
    return same_text(x->target, y->target) && same_text(x->config, y->config);
  }
  return memcmp(a->attr, b->attr, row->attr_size) == 0;
}

bool qn_node_same(const qn_graph *ga, const qn_node *a, const qn_graph *gb, const qn_node *b) {
  if (a->op != b->op || a->operand_count != b->operand_count || a->result_count != b->result_count ||
      a->region_count != b->region_count)
    return false;
  for (int i = 0; i < a->result_count; i++)
    if (!qn_type_equal(qn_graph_type(ga, a->first_result + (uint32_t)i),
                       qn_graph_type(gb, b->first_result + (uint32_t)i)))
      return false;
  if (!same_attr(ga, a, b))
    return false;
  for (int i = 0; i < a->region_count; i++)
    if (!qn_graph_equal(a->regions[i], b->regions[i]))
      return false;
  return true;
}

uint64_t qn_graph_hash(const qn_graph *g) {
  uint64_t h = qn_hash_u64(QN_HASH_INIT, g->nodes.count);
  for (size_t i = 0; i < g->nodes.count; i++) {
    const qn_node *n = qn_node_slot(g, i);
    h = qn_hash_u64(h, qn_node_hash(g, n));
    h = qn_hash_bytes(h, n->operands, (size_t)n->operand_count * sizeof *n->operands);
  }
  for (size_t i = 0; i < g->result_count; i++)
    h = qn_hash_u64(h, qn_graph_result(g, i));
  return h;
}

bool qn_graph_equal(const qn_graph *a, const qn_graph *b) {
  if (a == b)
    return true;
  if (a->nodes.count != b->nodes.count || a->values.count != b->values.count || a->result_count != b->result_count)
    return false;
  for (size_t i = 0; i < a->nodes.count; i++) {
    const qn_node *x = qn_node_slot(a, i), *y = qn_node_slot(b, i);
    if (!qn_node_same(a, x, b, y))
      return false;
    if (x->operand_count && memcmp(x->operands, y->operands, (size_t)x->operand_count * sizeof *x->operands) != 0)
      return false;
  }
  for (size_t i = 0; i < a->result_count; i++)
    if (qn_graph_result(a, i) != qn_graph_result(b, i))
      return false;
  return true;
}
