/* One graph as two: the first half computes what the late parameters do not reach, and hands over what the second needs of it. What the
 * second half can compute from parameters that both know is not handed over, and neither are broadcasts and other moves, or what simple
 * arithmetic makes of one value: their operand is. */
#include "engine.h"

static bool is_cheap(const qn_graph *j, const qn_node *n) {
  static const bool moves[QN_OP_COUNT] = {
      [QN_OP_BROADCAST_IN_DIM] = true, [QN_OP_RESHAPE] = true, [QN_OP_TRANSPOSE] = true, [QN_OP_REVERSE] = true};
  if (n->op == QN_OP_CONVERT)
    return qn_graph_type(j, n->operands[0])->dtype == QN_BOOL;
  return moves[n->op];
}

/* The value that v is a cheap elementwise function of, together with what is free: itself, or one further down. */
static uint32_t source_of(const qn_graph *j, const bool *bound, uint32_t v, int depth) {
  static const bool simple[QN_OP_COUNT] = {
      [QN_OP_ADD] = true,     [QN_OP_SUBTRACT] = true, [QN_OP_MULTIPLY] = true, [QN_OP_NEGATE] = true,
      [QN_OP_SQUARE] = true,  [QN_OP_SELECT] = true,   [QN_OP_COMPARE] = true,  [QN_OP_CONVERT] = true,
      [QN_OP_MAXIMUM] = true, [QN_OP_MINIMUM] = true,  [QN_OP_AND] = true,      [QN_OP_NOT] = true};
  const qn_node *n = qn_graph_def(j, v);
  uint32_t source = 0;
  if (!simple[n->op] || depth == 0)
    return v;
  for (int k = 0; k < n->operand_count; ++k) {
    if (!bound[n->operands[k]])
      continue;
    uint32_t s = source_of(j, bound, n->operands[k], depth - 1);
    if (source != 0 && s != source)
      return v;
    source = s;
  }
  return source != 0 ? source : v;
}

/* Is it no loss to hand over the source instead? */
static bool follows(const qn_graph *j, const bool *bound, const bool *needed, uint32_t v) {
  enum { DEPTH = 4 };
  uint32_t s = source_of(j, bound, v, DEPTH);
  return s != v && (needed[s] || qn_type_bytes(qn_graph_type(j, s)) <= qn_type_bytes(qn_graph_type(j, v)));
}

/* Marks by value: reached by late parameters; reached by early ones that are not free. */
static void reach(const qn_split *s, bool *is_late, bool *bound) {
  const qn_graph *j = s->j;
  for (size_t i = 0; i < qn_graph_param_count(j); ++i) {
    is_late[qn_graph_param_at(j, i)] = s->late[i];
    bound[qn_graph_param_at(j, i)] = !s->late[i] && !s->free_[i];
  }
  for (size_t i = 0; i < qn_graph_node_count(j); ++i) {
    const qn_node *n = qn_graph_node(j, i);
    bool late = false, early = false;
    for (int k = 0; k < n->operand_count; ++k) {
      late = late || is_late[n->operands[k]];
      early = early || bound[n->operands[k]];
    }
    for (int k = 0; k < n->result_count && n->op != QN_OP_PARAMETER; ++k) {
      is_late[n->first_result + (uint32_t)k] = late;
      bound[n->first_result + (uint32_t)k] = early;
    }
  }
}

static bool is_needed(const qn_node *n, const bool *needed) {
  for (int k = 0; k < n->result_count; ++k)
    if (needed[n->first_result + (uint32_t)k])
      return true;
  return false;
}

/* A value that is kept under a name is kept where it's used without, too: derivatives use what is in front of the name. */
static void mark_named(const qn_split *s, bool *named) {
  for (size_t i = 0; s->keep != NULL && i < qn_graph_node_count(s->j); ++i) {
    const qn_node *n = qn_graph_node(s->j, i);
    if (n->op == QN_OP_CHECKPOINT_NAME && s->keep(s->j, n, s->user))
      named[n->operands[0]] = true;
  }
}

bool qn_split_make(qn_split *s) {
  const qn_graph *j = s->j;
  size_t values = qn_graph_value_count(j) + 1;
  bool *bound = QN_NEW(s->scratch, bool, values), *residual = QN_NEW(s->scratch, bool, values),
       *named = QN_NEW(s->scratch, bool, values);
  s->is_late = QN_NEW(s->scratch, bool, values);
  s->in_second = QN_NEW(s->scratch, bool, values);
  s->residuals = QN_NEW(s->scratch, uint32_t, values);
  if (!bound || !residual || !named || !s->is_late || !s->in_second || !s->residuals)
    return false;
  reach(s, s->is_late, bound);
  mark_named(s, named);
  bool *needed = s->in_second;
  for (size_t i = s->early_results; i < qn_graph_result_count(j); ++i)
    needed[qn_graph_result(j, i)] = true;
  for (size_t i = qn_graph_node_count(j); i-- > 0;) {
    const qn_node *n = qn_graph_node(j, i);
    if (!is_needed(n, needed))
      continue;
    uint32_t v = n->first_result;
    bool early = !s->is_late[v] && bound[v];
    bool hand = early && (n->op == QN_OP_PARAMETER || is_needed(n, named) ||
                          (s->keep ? s->keep(j, n, s->user) : !is_cheap(j, n) && !follows(j, bound, needed, v)));
    for (int k = 0; hand && k < n->result_count; ++k)
      residual[v + (uint32_t)k] = needed[v + (uint32_t)k];
    for (int k = 0; !hand && k < n->operand_count; ++k)
      needed[n->operands[k]] = true;
  }
  s->residual_count = 0;
  for (uint32_t v = 1; v < values; ++v)
    if (residual[v])
      s->residuals[s->residual_count++] = v;
  return true;
}

/* Copies the nodes of needed values, whose operands are in `map` by then. */
static bool emit(const qn_split *s, qn_graph *g, const bool *needed, qn_val *map) {
  const qn_graph *j = s->j;
  qn_val *operands = QN_NEW(s->scratch, qn_val, qn_widest_node(j) + 1);
  if (operands == NULL)
    return qn_no_memory(g);
  for (size_t i = 0; i < qn_graph_node_count(j); ++i) {
    const qn_node *n = qn_graph_node(j, i);
    bool missing = false;
    for (int k = 0; k < n->result_count; ++k)
      missing = missing || (needed[n->first_result + (uint32_t)k] && !qn_val_ok(map[n->first_result + (uint32_t)k]));
    if (!missing || n->op == QN_OP_PARAMETER)
      continue;
    for (int k = 0; k < n->operand_count; ++k)
      operands[k] = map[n->operands[k]];
    qn_val first = qn_graph_copy_node(g, j, n, operands);
    if (!qn_val_ok(first))
      return false;
    for (int k = 0; k < n->result_count; ++k)
      map[n->first_result + (uint32_t)k] = (qn_val){g, first.id + (uint32_t)k};
  }
  return true;
}

bool qn_split_first(const qn_split *s, qn_graph *g, const qn_val *args, qn_val *results, qn_val *residuals) {
  const qn_graph *j = s->j;
  size_t values = qn_graph_value_count(j) + 1;
  bool *needed = QN_NEW(s->scratch, bool, values);
  qn_val *map = QN_NEW(s->scratch, qn_val, values);
  if (!needed || !map)
    return qn_no_memory(g);
  for (size_t i = 0; i < qn_graph_param_count(j); ++i)
    map[qn_graph_param_at(j, i)] = s->late[i] ? QN_NULL_VAL : args[i];
  for (size_t i = 0; i < s->early_results; ++i)
    needed[qn_graph_result(j, i)] = true;
  for (size_t i = 0; i < s->residual_count; ++i)
    needed[s->residuals[i]] = true;
  for (size_t i = qn_graph_node_count(j); i-- > 0;) {
    const qn_node *n = qn_graph_node(j, i);
    for (int k = 0; k < n->operand_count && is_needed(n, needed); ++k)
      needed[n->operands[k]] = true;
  }
  if (!emit(s, g, needed, map))
    return false;
  for (size_t i = 0; i < s->early_results; ++i)
    results[i] = map[qn_graph_result(j, i)];
  for (size_t i = 0; i < s->residual_count; ++i)
    residuals[i] = map[s->residuals[i]];
  return true;
}

bool qn_split_second(const qn_split *s, qn_graph *g, const qn_val *args, const qn_val *residuals, qn_val *results) {
  const qn_graph *j = s->j;
  qn_val *map = QN_NEW(s->scratch, qn_val, qn_graph_value_count(j) + 1);
  if (!map)
    return qn_no_memory(g);
  for (size_t i = 0; i < qn_graph_param_count(j); ++i)
    map[qn_graph_param_at(j, i)] = s->late[i] || s->free_[i] ? args[i] : QN_NULL_VAL;
  for (size_t i = 0; i < s->residual_count; ++i)
    map[s->residuals[i]] = residuals[i];
  if (!emit(s, g, s->in_second, map))
    return false;
  for (size_t i = s->early_results; i < qn_graph_result_count(j); ++i)
    results[i - s->early_results] = map[qn_graph_result(j, i)];
  return true;
}
