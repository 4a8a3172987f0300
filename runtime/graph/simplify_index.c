/* Rules of indexing, reductions and contractions whose work is known. */
#include "rewrite.h"

#include "text_impl.h"

#include <string.h>

/* ---- dynamic slices ---- */
/* A start that is known, moved into range as the operation does it. */
static bool known_start(qn_val start, int64_t size, int64_t full, int64_t *out) {
  double x;
  *out = 0;
  if (size == full) /* no room to move */
    return true;
  if (!qn_graph_constant_at(start.graph, start.id, 0, &x))
    return false;
  double most = (double)(full - size);
  *out = (int64_t)(x < 0 ? 0 : x > most ? most : x);
  return true;
}

static qn_val known_slice(const qn_match *m) {
  const qn_node *n = m->node[0];
  qn_val x = qn_match_operand(m, 0, 0);
  const qn_type *from = qn_val_type(x), *to = qn_match_type(m);
  qn_attr_slice a;
  memset(&a, 0, sizeof a);
  a.start.n = a.limit.n = a.stride.n = from->rank;
  if (n->operand_count != from->rank + 1)
    return QN_NULL_VAL;
  for (int i = 0; i < from->rank; i++) {
    if (!known_start(qn_match_operand(m, 0, i + 1), to->dims[i], from->dims[i], &a.start.d[i]))
      return QN_NULL_VAL;
    a.limit.d[i] = a.start.d[i] + to->dims[i];
    a.stride.d[i] = 1;
  }
  return qn_type_equal(from, to) ? x : qn_match_add(m, QN_OP_SLICE, &x, 1, &a, NULL);
}

static qn_val whole_update(const qn_match *m) {
  qn_val update = qn_match_operand(m, 0, 1);
  return qn_type_equal(qn_val_type(update), qn_match_type(m)) ? update : QN_NULL_VAL;
}

/* ---- reduce ---- */
static qn_val broadcast_scalar(const qn_match *m, qn_val x) {
  qn_attr_dims none;
  memset(&none, 0, sizeof none);
  return qn_match_add(m, QN_OP_BROADCAST_IN_DIM, &x, 1, &none, qn_match_type(m));
}

static int64_t reduced_elements(const qn_match *m) {
  const qn_dims *d = &((const qn_attr_dims *)m->node[0]->attr)->dims;
  int64_t n = 1;
  for (int i = 0; i < d->n; i++)
    n *= qn_val_type(qn_match_operand(m, 0, 0))->dims[d->d[i]];
  return n;
}

/* Nothing to reduce: the initial value. */
static qn_val reduce_nothing(const qn_match *m) {
  if (m->node[0]->operand_count != 2 || reduced_elements(m) != 0)
    return QN_NULL_VAL;
  return broadcast_scalar(m, qn_match_operand(m, 0, 1));
}

/* One element each: the combiner, applied once. */
static qn_val reduce_one(const qn_match *m) {
  const qn_node *n = m->node[0];
  qn_op op = qn_region_single_op(n->regions[0]);
  if (op == QN_OP_NONE || n->operand_count != 2 || reduced_elements(m) != 1)
    return QN_NULL_VAL;
  qn_val x = qn_match_operand(m, 0, 0);
  qn_val in[2] = {broadcast_scalar(m, qn_match_operand(m, 0, 1)),
                  qn_match_add(m, QN_OP_RESHAPE, &x, 1, NULL, qn_match_type(m))};
  return qn_match_add(m, op, in, 2, NULL, NULL);
}

/* ---- dot_general ---- */
static qn_val dot_nothing(const qn_match *m) {
  const qn_attr_dot *a = m->node[0]->attr;
  for (int i = 0; i < a->lhs_contract.n; i++)
    if (qn_val_type(m->v[0])->dims[a->lhs_contract.d[i]] == 0)
      return qn_match_full(m, 0);
  return QN_NULL_VAL;
}

static const qn_rewrite rules[] = {
    {"dynamic_slice at known starts -> slice", {P_(DYNAMIC_SLICE)}, known_slice},
    {"dynamic_update_slice of everything -> update", {P_(DYNAMIC_UPDATE_SLICE)}, whole_update},
    {"reduce of nothing -> init", {P_(REDUCE)}, reduce_nothing},
    {"reduce of single elements -> op(init, x)", {P_(REDUCE)}, reduce_one},
    {"dot over nothing -> 0", {P_(DOT_GENERAL), V_(0), V_(1)}, dot_nothing},
};
const qn_rewrites qn_rules_index = {rules, sizeof rules / sizeof *rules};
