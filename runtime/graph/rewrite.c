/* Matching patterns and applying rules. */
#include "rewrite.h"

#include "quern/ops.h"

#include <math.h>

void qn_rule_index_init(qn_rule_index *index) {
  index->count = 0;
  for (int i = 0; i < QN_OP_COUNT; i++)
    index->first[i] = -1;
}

void qn_rule_index_add(qn_rule_index *index, const qn_rewrites *list) {
  /* From the last to the first, so that chains keep the order of the list. */
  for (int i = list->count - 1; i >= 0; i--) {
    QN_CHECK(index->count < QN_RULES_MOST && list->rules[i].pattern[0].kind == QN_PATTERN_OP);
    int op = list->rules[i].pattern[0].which;
    index->rules[index->count] = &list->rules[i];
    index->next[index->count] = index->first[op];
    index->first[op] = (int16_t)index->count++;
  }
}

static bool is_number(qn_val v, double want) {
  bool splat;
  double x;
  if (!qn_graph_constant(v.graph, v.id, &splat) || !splat || !qn_graph_constant_at(v.graph, v.id, 0, &x))
    return false;
  return x == want && (want != 0 || signbit(x) == signbit(want));
}

/* Matches v against the pattern at *at and moves *at behind it. */
static bool match(qn_match *m, const qn_pattern **at, qn_val v) {
  const qn_pattern *p = (*at)++;
  if (p->kind == QN_PATTERN_OP) {
    const qn_node *n = qn_graph_def(v.graph, v.id);
    if ((int)n->op != p->which || n->result_count != 1 || m->node_count == QN_MATCH_NODES)
      return false;
    m->node[m->node_count++] = n;
    int arity = qn_op_get(n->op)->arity;
    for (int i = 0; i < arity; i++)
      if (!match(m, at, (qn_val){v.graph, n->operands[i]}))
        return false;
    return true;
  }
  if (p->kind == QN_PATTERN_NUMBER)
    return is_number(v, p->number);
  if (p->kind == QN_PATTERN_CONST && qn_graph_def(v.graph, v.id)->op != QN_OP_CONSTANT)
    return false;
  if (p->kind == QN_PATTERN_VAR || p->kind == QN_PATTERN_CONST) {
    if (qn_val_ok(m->v[p->which]))
      return qn_val_same(m->v[p->which], v);
    m->v[p->which] = v;
  }
  return true;
}

const qn_rewrite *qn_rewrite_apply(const qn_rule_index *index, qn_val v, qn_val *out) {
  qn_op op = qn_graph_def(v.graph, v.id)->op;
  for (int i = index->first[op]; i >= 0; i = index->next[i]) {
    const qn_rewrite *rule = index->rules[i];
    const qn_pattern *at = rule->pattern;
    qn_match m = {.g = v.graph, .self = v};
    if (!match(&m, &at, v))
      continue;
    *out = rule->result(&m);
    if (!qn_val_ok(*out) || qn_val_same(*out, v))
      continue;
    if (!qn_type_equal(qn_val_type(*out), qn_val_type(v)))
      *out = qn_graph_fail(v.graph, m.node[0]->place, QN_INTERNAL, "rewrite '%s' gives %s, expected %s", rule->name,
                           qn_type_str(qn_val_type(*out)), qn_type_str(qn_val_type(v)));
    return rule;
  }
  return NULL;
}

qn_val qn_match_add(const qn_match *m, qn_op op, const qn_val *in, int count, const void *attr, const qn_type *hint) {
  return qn_graph_add_typed(m->g, op, in, (size_t)count, attr, NULL, 0, hint, m->node[0]->place);
}

const qn_type *qn_match_type(const qn_match *m) { return qn_val_type(m->self); }

qn_val qn_match_full(const qn_match *m, double x) { return qn_full_at(m->node[0]->place, m->g, *qn_match_type(m), x); }

qn_val qn_match_operand(const qn_match *m, int node, int operand) {
  return (qn_val){m->g, m->node[node]->operands[operand]};
}

bool qn_value_is_exact(qn_val v) {
  qn_dtype t = qn_val_type(v)->dtype;
  return t == QN_BOOL || qn_dtype_is_int(t);
}
