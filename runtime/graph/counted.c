/* Counted loops: a while whose condition compares a counter that its body moves by a constant step. */
#include "graph_impl.h"

#include <math.h>

/* An integer scalar that is known: a constant of the region, or a parameter that never changes and starts as a constant of the graph around.
 * `results`: how many parameters are carries. */
static bool known_integer(const qn_graph *g, const qn_node *n, const qn_graph *region, uint32_t v, int64_t *out) {
  double x;
  const qn_node *def = qn_graph_def(region, v);
  while (def->op == QN_OP_CONVERT && qn_type_equal(qn_graph_type(region, def->operands[0]), qn_graph_type(region, v))) {
    v = def->operands[0];
    def = qn_graph_def(region, v);
  }
  if (qn_graph_type(region, v)->rank != 0)
    return false;
  if (def->op == QN_OP_PARAMETER) {
    int i = qn_while_param(region, v);
    if (i < 0 || !qn_while_invariant(n, i) || !qn_graph_constant_at(g, n->operands[i], 0, &x))
      return false;
  } else if (!qn_graph_constant_at(region, v, 0, &x)) {
    return false;
  }
  *out = (int64_t)x;
  return fabs(x) < 9e15;
}

int qn_while_param(const qn_graph *region, uint32_t v) {
  for (size_t i = 0; i < qn_graph_param_count(region); i++)
    if (qn_graph_param_at(region, i) == v)
      return (int)i;
  return -1;
}

bool qn_while_invariant(const qn_node *n, int i) {
  const qn_graph *body = n->regions[1];
  return i >= n->result_count || qn_graph_result(body, (size_t)i) == qn_graph_param_at(body, (size_t)i);
}

static uint32_t behind_converts(const qn_graph *g, uint32_t v) {
  const qn_node *def = qn_graph_def(g, v);
  while (def->op == QN_OP_CONVERT && qn_type_equal(qn_graph_type(g, def->operands[0]), qn_graph_type(g, v))) {
    v = def->operands[0];
    def = qn_graph_def(g, v);
  }
  return v;
}

/* The step that the body adds to carry i. */
static bool known_step(const qn_graph *g, const qn_node *n, int i, int64_t *out) {
  const qn_graph *body = n->regions[1];
  uint32_t carry = qn_graph_param_at(body, (size_t)i);
  const qn_node *def = qn_graph_def(body, behind_converts(body, qn_graph_result(body, (size_t)i)));
  if (def->op != QN_OP_ADD && def->op != QN_OP_SUBTRACT)
    return false;
  bool left = behind_converts(body, def->operands[0]) == carry,
       right = def->op == QN_OP_ADD && behind_converts(body, def->operands[1]) == carry;
  if (!left && !right)
    return false;
  if (!known_integer(g, n, body, def->operands[left ? 1 : 0], out))
    return false;
  if (def->op == QN_OP_SUBTRACT)
    *out = -*out;
  return true;
}

/* How often the body runs; -1 where it does not end by itself or a counter would overflow. */
static int64_t count_trips(qn_compare_direction direction, int64_t start, int64_t limit, int64_t step, qn_dtype t) {
  int64_t trips = -1;
  if (direction == QN_CMP_GT || direction == QN_CMP_GE) {
    start = -start;
    limit = -limit;
    step = -step;
    direction = direction == QN_CMP_GT ? QN_CMP_LT : QN_CMP_LE;
  }
  if (direction == QN_CMP_LE) {
    limit++;
    direction = QN_CMP_LT;
  }
  if (direction == QN_CMP_LT)
    trips = start >= limit ? 0 : step > 0 ? (limit - start + step - 1) / step : -1;
  else if (direction == QN_CMP_NE)
    trips = start == limit                                                           ? 0
            : step != 0 && (limit - start) % step == 0 && (limit - start) / step > 0 ? (limit - start) / step
                                                                                     : -1;
  double bits = 8.0 * (double)qn_dtype_size(t), top = ldexp(1, (int)bits - (qn_dtype_is_signed(t) ? 1 : 0));
  double last = fabs((double)start + (double)trips * (double)step);
  return trips > 0 && (last >= top || trips > INT32_MAX) ? -1 : trips;
}

bool qn_while_counted(const qn_graph *g, const qn_node *n, qn_counted *out) {
  const qn_graph *cond = n->regions[0];
  *out = (qn_counted){.counter = -1, .trips = ((const qn_attr_while *)n->attr)->trip_count};
  const qn_node *test = qn_graph_def(cond, qn_graph_result(cond, 0));
  if (test->op != QN_OP_COMPARE)
    return false;
  qn_compare_direction direction = ((const qn_attr_compare *)test->attr)->direction;
  static const qn_compare_direction swapped[] = {
      [QN_CMP_EQ] = QN_CMP_EQ, [QN_CMP_NE] = QN_CMP_NE, [QN_CMP_LT] = QN_CMP_GT,
      [QN_CMP_LE] = QN_CMP_GE, [QN_CMP_GT] = QN_CMP_LT, [QN_CMP_GE] = QN_CMP_LE};
  for (int side = 0; side < 2; side++) {
    uint32_t v = behind_converts(cond, test->operands[side]), limit = test->operands[1 - side];
    int i = qn_graph_def(cond, v)->op == QN_OP_PARAMETER ? qn_while_param(cond, v) : -1;
    if (i < 0 || i >= n->result_count || !qn_dtype_is_int(qn_graph_type(cond, v)->dtype) ||
        qn_graph_type(cond, v)->rank != 0 || qn_while_invariant(n, i) || !known_step(g, n, i, &out->step))
      continue;
    double start;
    int64_t end;
    out->counter = i;
    out->direction = side ? swapped[direction] : direction;
    out->has_start = qn_graph_constant_at(g, n->operands[i], 0, &start) && fabs(start) < 9e15;
    out->start = out->has_start ? (int64_t)start : 0;
    if (out->trips < 0 && out->has_start && known_integer(g, n, cond, limit, &end))
      out->trips = count_trips(out->direction, out->start, end, out->step, qn_graph_type(cond, v)->dtype);
    return true;
  }
  return false;
}

int64_t qn_while_trips(const qn_graph *g, const qn_node *n) {
  qn_counted c;
  (void)qn_while_counted(g, n, &c);
  return c.trips;
}
