/* Loops, forward: tangents and lanes are more carries. Which carries have them is found by trying: a region is transformed with those known so
 * far until its results add none. */
#include "engine.h"

/* Primal values and the tangents of active ones, in the order of a tangent region's parameters. */
static size_t line_up(const qn_call *c, const bool *active, const qn_val *tangents, qn_val *out) {
  size_t n = 0;
  int edges[] = {0, c->node->result_count, c->node->operand_count};
  for (int part = 0; part < 2; ++part) {
    for (int i = edges[part]; i < edges[part + 1]; ++i)
      out[n++] = c->in[i];
    for (int i = edges[part]; i < edges[part + 1]; ++i)
      if (active[i])
        out[n++] = qn_val_ok(tangents[i]) ? tangents[i] : qn_zeros_like(c->in[i]);
  }
  return n;
}

/* Carries that a step makes active become active; false: nothing new. */
static bool grow(const qn_node *node, const bool *has, bool *active) {
  bool grown = false;
  for (int i = 0; i < node->result_count; ++i) {
    grown = grown || (has[i] && !active[i]);
    active[i] = active[i] || has[i];
  }
  return grown;
}

static qn_status tangent_body(qn_call *c, bool *active, qn_graph **out_body) {
  const qn_node *node = c->node;
  bool *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (has == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  for (;;) {
    QN_TRY(qn_region_jvp(node->regions[1], node->result_count, active, active, has, c->scratch, out_body));
    if (!grow(node, has, active))
      return QN_OK;
    qn_graph_release(*out_body);
    *out_body = NULL;
  }
}

static bool while_jvp(qn_call *c) {
  const qn_node *node = c->node;
  bool *active = QN_NEW(c->scratch, bool, node->operand_count + 1);
  qn_val *in = QN_NEW(c->scratch, qn_val, 2 * node->operand_count + 1);
  if (!active || !in)
    return qn_no_memory(c->g);
  for (int i = 0; i < node->operand_count; ++i)
    active[i] = qn_val_ok(c->given[i]);
  qn_graph *regions[2] = {NULL, NULL};
  qn_status st = tangent_body(c, active, &regions[1]);
  if (st == QN_OK)
    st = qn_region_jvp(node->regions[0], node->result_count, active, NULL, NULL, c->scratch, &regions[0]);
  if (st == QN_OK) {
    size_t n = line_up(c, active, c->given, in);
    qn_val first = qn_graph_add(c->g, QN_OP_WHILE, in, n, node->attr, regions, 2, node->place);
    for (int i = 0, k = node->result_count; i < node->result_count && qn_val_ok(first); ++i) {
      c->out[i] = qn_val_result(first, i);
      if (active[i])
        c->tangents[i] = qn_val_result(first, k++);
    }
  }
  qn_graph_release(regions[0]);
  qn_graph_release(regions[1]);
  return st == QN_OK ? !qn_graph_failed(c->g) : qn_call_failed(c, st);
}

/* ---- lanes ---- */
/* `pred` per lane against values with lanes in front. */
static qn_val per_lane(qn_val pred, qn_val like) {
  const qn_type *t = qn_val_type(like);
  return t->rank == 1 ? pred : qn_broadcast_in_dim(pred, t->rank, t->dims, ((const int64_t[]){0}));
}

/* Goes on while any lane does. */
static qn_status any_lane(const qn_graph *cond, qn_arena *scratch, qn_graph **out_cond) {
  size_t params = qn_graph_param_count(cond);
  qn_val *args = QN_NEW(scratch, qn_val, params + 1), pred = QN_NULL_VAL;
  qn_graph *g = NULL;
  if (args == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  QN_TRY(qn_graph_create("any_lane", &g));
  qn_copy_params(g, cond, args);
  if (qn_graph_inline(g, cond, args, params, &pred))
    pred = qn_reduce_or(pred, 0, NULL, false);
  return qn_finish(g, &pred, 1, out_cond);
}

/* Lanes that are done keep their carries. */
static qn_status where_going(const qn_graph *cond, const qn_graph *body, const bool *mapped, qn_arena *scratch,
                             qn_graph **out_body) {
  size_t params = qn_graph_param_count(body), results = qn_graph_result_count(body);
  qn_val *args = QN_NEW(scratch, qn_val, params + 1), *out = QN_NEW(scratch, qn_val, results + 1), pred;
  qn_graph *g = NULL;
  if (!args || !out)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  QN_TRY(qn_graph_create("where_going", &g));
  qn_copy_params(g, body, args);
  if (qn_graph_inline(g, cond, args, params, &pred) && qn_graph_inline(g, body, args, params, out))
    for (size_t i = 0; i < results; ++i)
      if (mapped[i])
        out[i] = qn_select(per_lane(pred, out[i]), out[i], args[i]);
  return qn_finish(g, out, results, out_body);
}

static qn_status lane_body(qn_call *c, bool *mapped, qn_graph **out_body) {
  const qn_node *node = c->node;
  bool *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (has == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  for (;;) {
    QN_TRY(qn_region_vmap(node->regions[1], c->lanes, mapped, mapped, has, c->scratch, out_body));
    if (!grow(node, has, mapped))
      return QN_OK;
    qn_graph_release(*out_body);
    *out_body = NULL;
  }
}

/* The loop's regions over lanes, and which operands have some. A condition per lane makes every carry that changes one of the lanes. */
static qn_status lane_regions(qn_call *c, bool *mapped, qn_graph **regions, bool *out_each) {
  const qn_node *node = c->node;
  QN_TRY(lane_body(c, mapped, &regions[1]));
  QN_TRY(qn_region_vmap(node->regions[0], c->lanes, mapped, NULL, out_each, c->scratch, &regions[0]));
  if (!*out_each)
    return QN_OK;
  for (int i = 0; i < node->result_count; ++i)
    mapped[i] = mapped[i] || !qn_while_invariant(node, i);
  for (int r = 0; r < 2; ++r) {
    qn_graph_release(regions[r]);
    regions[r] = NULL;
  }
  qn_graph *plain[2] = {NULL, NULL};
  qn_status st;
  QN_TRY_GOTO(st, lane_body(c, mapped, &plain[1]), done);
  QN_TRY_GOTO(st, qn_region_vmap(node->regions[0], c->lanes, mapped, NULL, out_each, c->scratch, &plain[0]), done);
  QN_TRY_GOTO(st, any_lane(plain[0], c->scratch, &regions[0]), done);
  QN_TRY_GOTO(st, where_going(plain[0], plain[1], mapped, c->scratch, &regions[1]), done);
done:
  qn_graph_release(plain[0]);
  qn_graph_release(plain[1]);
  return st;
}

static bool while_batch(qn_call *c) {
  const qn_node *node = c->node;
  bool *mapped = QN_NEW(c->scratch, bool, node->operand_count + 1), each = false;
  qn_val *in = QN_NEW(c->scratch, qn_val, node->operand_count + 1);
  if (!mapped || !in)
    return qn_no_memory(c->g);
  for (int i = 0; i < node->operand_count; ++i)
    mapped[i] = c->mapped[i];
  qn_graph *regions[2] = {NULL, NULL};
  qn_status st = lane_regions(c, mapped, regions, &each);
  if (st == QN_OK) {
    qn_attr_while attr = {each ? -1 : ((const qn_attr_while *)node->attr)->trip_count};
    for (int i = 0; i < node->operand_count; ++i)
      in[i] = mapped[i] && !c->mapped[i] ? qn_with_lanes(c->in[i], c->lanes) : c->in[i];
    qn_val first = qn_graph_add(c->g, QN_OP_WHILE, in, (size_t)node->operand_count, &attr, regions, 2, node->place);
    for (int i = 0; i < node->result_count && qn_val_ok(first); ++i) {
      c->out[i] = qn_val_result(first, i);
      c->out_mapped[i] = mapped[i];
    }
  }
  qn_graph_release(regions[0]);
  qn_graph_release(regions[1]);
  return st == QN_OK ? !qn_graph_failed(c->g) : qn_call_failed(c, st);
}

const qn_call_rules qn_rules_while = {
    .jvp = while_jvp,
    .forward = qn_while_forward,
    .back = qn_while_back,
    .drop = qn_while_drop,
    .batch = while_batch,
};
