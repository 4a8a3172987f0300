/* Control flow in front of scheduling.
 *
 * Branches are computed all and chosen from, for functions have no effects; what could run on without end, a loop in a branch that is not
 * taken, gets the branch's predicate into its condition. A loop whose trip count isn't known carries its condition along: the first
 * carry says whether the body runs, and the body computes it anew at its end. So its condition is ready before each iteration without
 * a kernel of its own. */
#include "control_lower.h"

#include <stdlib.h>

#include "quern/ops.h"

static bool no_memory(qn_graph *g, const qn_node *n) {
  (void)qn_graph_fail(g, n->place, QN_OUT_OF_MEMORY, "%s: no memory to lower it", qn_op_get(n->op)->name);
  return true;
}

static int64_t trips_of(const qn_node *n) { return ((const qn_attr_while *)n->attr)->trip_count; }

/* ---- branches ---- */

static bool inline_branch(qn_graph *g, const qn_graph *callee, const qn_val *args, qn_val taken, qn_val *results);

/* The condition of a loop, and a capture more: false where that is. */
static qn_status with_predicate(const qn_graph *cond, qn_graph **out_graph) {
  size_t count = qn_graph_param_count(cond);
  qn_val *args = calloc(count + 1, sizeof *args), result = QN_NULL_VAL;
  qn_graph *g = NULL;
  *out_graph = NULL;
  if (!args)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to lower it", qn_graph_name(cond));
  qn_status st = qn_graph_create(qn_graph_name(cond), &g);
  if (st == QN_OK) {
    for (size_t i = 0; i < count; i++)
      args[i] = qn_graph_param(g, *qn_graph_type(cond, qn_graph_param_at(cond, i)), NULL);
    qn_val taken = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
    if (qn_graph_inline(g, cond, args, count, &result))
      result = qn_and(taken, result);
    st = qn_graph_seal(g, &result, 1);
  }
  free(args);
  if (st == QN_OK)
    *out_graph = g;
  else if (g)
    qn_graph_release(g);
  return st;
}

/* The body, and a parameter more that it doesn't look at. */
static qn_status with_unused(const qn_graph *body, qn_graph **out_graph) {
  size_t count = qn_graph_param_count(body), results = qn_graph_result_count(body);
  qn_val *args = calloc(count + results + 1, sizeof *args);
  qn_graph *g = NULL;
  *out_graph = NULL;
  if (!args)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to lower it", qn_graph_name(body));
  qn_status st = qn_graph_create(qn_graph_name(body), &g);
  if (st == QN_OK) {
    for (size_t i = 0; i < count; i++)
      args[i] = qn_graph_param(g, *qn_graph_type(body, qn_graph_param_at(body, i)), NULL);
    (void)qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
    (void)qn_graph_inline(g, body, args, count, args + count);
    st = qn_graph_seal(g, args + count, results);
  }
  free(args);
  if (st == QN_OK)
    *out_graph = g;
  else if (g)
    qn_graph_release(g);
  return st;
}

static qn_val loop_if_taken(qn_graph *g, const qn_node *n, const qn_val *operands, qn_val taken) {
  qn_graph *regions[2] = {NULL, NULL};
  qn_val *in = calloc((size_t)n->operand_count + 1, sizeof *in), out;
  qn_status st = in ? with_predicate(n->regions[0], &regions[0]) : QN_ERR(QN_OUT_OF_MEMORY, "while: no memory");
  if (st == QN_OK)
    st = with_unused(n->regions[1], &regions[1]);
  if (st == QN_OK) {
    for (int i = 0; i < n->operand_count; i++)
      in[i] = operands[i];
    in[n->operand_count] = taken;
    out = qn_graph_add(g, n->op, in, (size_t)n->operand_count + 1, n->attr, regions, 2, n->place);
  } else {
    out = qn_graph_fail(g, n->place, st, "%s", qn_error_message());
  }
  free(in);
  for (int i = 0; i < 2; i++)
    if (regions[i])
      qn_graph_release(regions[i]);
  return out;
}

static qn_val pick(qn_val taken, qn_val yes, qn_val no) {
  return qn_val_same(yes, no) ? yes : qn_select(taken, yes, no);
}

/* Is branch r of n the chosen one? */
static qn_val chosen(const qn_node *n, qn_val selector, int r) {
  int last = n->region_count - 1;
  if (n->op == QN_OP_IF)
    return r == 0 ? selector : qn_not(selector);
  if (r < last)
    return qn_eq(selector, qn_like(selector, r));
  return qn_or(qn_lt(selector, qn_like(selector, 0)), qn_ge(selector, qn_like(selector, last)));
}

/* `taken` may be null: the node isn't in a branch itself. */
static bool lower_choice(qn_graph *g, const qn_node *n, const qn_val *operands, qn_val taken, qn_val *out) {
  size_t count = (size_t)n->result_count;
  qn_val *results = calloc(count + 1, sizeof *results);
  if (!results)
    return no_memory(g, n);
  for (int r = n->region_count - 1; r >= 0 && !qn_graph_failed(g); r--) {
    qn_val here = chosen(n, operands[0], r), both = qn_val_ok(taken) ? qn_and(taken, here) : here;
    bool last = r == n->region_count - 1;
    if (!inline_branch(g, n->regions[r], operands + 1, n->region_count == 1 ? taken : both, last ? out : results))
      break;
    for (size_t i = 0; !last && i < count; i++)
      out[i] = pick(here, results[i], out[i]);
  }
  free(results);
  return true;
}

static bool inline_branch(qn_graph *g, const qn_graph *callee, const qn_val *args, qn_val taken, qn_val *results) {
  size_t most = 1;
  for (size_t i = 0; i < qn_graph_node_count(callee); i++)
    if ((size_t)qn_graph_node(callee, i)->operand_count > most)
      most = (size_t)qn_graph_node(callee, i)->operand_count;
  qn_val *map = calloc(qn_graph_value_count(callee) + 1 + most, sizeof *map);
  if (!map)
    return !no_memory(g, qn_graph_node(callee, 0));
  qn_val *in = map + qn_graph_value_count(callee) + 1;
  for (size_t i = 0; i < qn_graph_param_count(callee); i++)
    map[qn_graph_param_at(callee, i)] = args[i];
  for (size_t i = 0; i < qn_graph_node_count(callee) && !qn_graph_failed(g); i++) {
    const qn_node *n = qn_graph_node(callee, i);
    if (n->op == QN_OP_PARAMETER)
      continue;
    for (int k = 0; k < n->operand_count; k++)
      in[k] = map[n->operands[k]];
    if (n->op == QN_OP_CASE || n->op == QN_OP_IF) {
      (void)lower_choice(g, n, in, taken, map + n->first_result);
      continue;
    }
    bool endless = n->op == QN_OP_WHILE && trips_of(n) < 0 && qn_val_ok(taken);
    qn_val v = endless ? loop_if_taken(g, n, in, taken) : qn_graph_copy_node(g, callee, n, in);
    for (int k = 0; k < n->result_count; k++)
      map[n->first_result + (uint32_t)k] = qn_val_result(v, k);
  }
  for (size_t i = 0; i < qn_graph_result_count(callee); i++)
    results[i] = map[qn_graph_result(callee, i)];
  free(map);
  return !qn_graph_failed(g);
}

bool qn_lower_choice(qn_rule *r, qn_val *out) { return lower_choice(r->g, r->node, r->in, QN_NULL_VAL, out); }

/* ---- loops ---- */

/* Does the condition hand on the first carry? */
static bool is_rotated(const qn_node *n) {
  const qn_graph *cond = n->regions[0];
  return n->result_count > 0 && qn_graph_result(cond, 0) == qn_graph_param_at(cond, 0);
}

static void copy_params(qn_graph *g, const qn_graph *from, qn_val *out) {
  out[0] = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
  for (size_t i = 0; i < qn_graph_param_count(from); i++)
    out[i + 1] = qn_graph_param(g, *qn_graph_type(from, qn_graph_param_at(from, i)), NULL);
}

static qn_status rotated_condition(const qn_graph *cond, qn_val *room, qn_graph **out_graph) {
  QN_TRY(qn_graph_create(qn_graph_name(cond), out_graph));
  copy_params(*out_graph, cond, room);
  return qn_graph_seal(*out_graph, room, 1);
}

/* room: parameters, results, and the condition's arguments */
static qn_status rotated_body(const qn_node *n, qn_val *room, qn_graph **out_graph) {
  const qn_graph *cond = n->regions[0], *body = n->regions[1];
  size_t params = qn_graph_param_count(body), carries = (size_t)n->result_count;
  qn_val *p = room, *results = room + params + 1, *args = results + carries + 1;
  QN_TRY(qn_graph_create(qn_graph_name(body), out_graph));
  copy_params(*out_graph, body, p);
  if (qn_graph_inline(*out_graph, body, p + 1, params, results + 1)) {
    for (size_t i = 0; i < params; i++)
      args[i] = i < carries ? results[i + 1] : p[i + 1];
    (void)qn_graph_inline(*out_graph, cond, args, params, results);
  }
  return qn_graph_seal(*out_graph, results, carries + 1);
}

bool qn_lower_while(qn_rule *r, qn_val *out) {
  const qn_node *n = r->node;
  if (trips_of(n) >= 0 || is_rotated(n))
    return false;
  size_t params = (size_t)n->operand_count;
  qn_val *room = calloc(3 * params + 4, sizeof *room);
  if (!room)
    return no_memory(r->g, n);
  qn_graph *regions[2] = {NULL, NULL};
  qn_status st = rotated_condition(n->regions[0], room, &regions[0]);
  if (st == QN_OK)
    st = rotated_body(n, room, &regions[1]);
  if (st != QN_OK) {
    (void)qn_graph_fail(r->g, n->place, st, "%s", qn_error_message());
  } else if (qn_graph_inline(r->g, n->regions[0], r->in, params, room)) {
    for (size_t i = 0; i < params; i++)
      room[i + 1] = r->in[i];
    qn_val v = qn_graph_add(r->g, n->op, room, params + 1, n->attr, regions, 2, n->place);
    for (int i = 0; i < n->result_count; i++)
      out[i] = qn_val_result(v, i + 1);
  }
  for (int i = 0; i < 2; i++)
    if (regions[i])
      qn_graph_release(regions[i]);
  free(room);
  return true;
}
