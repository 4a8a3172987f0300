/* Loops in the form that the scheduler takes. The body is lowered as a graph of its own. Each initial carry is handed over as a value that
 * nobody else reads, so that it can be computed where the carry lies; each result of the body that isn't its own carry is handed on by a node
 * of its own, the commit: the scheduler drops it where the body may write the carry in place, and else stores the result aside and commits it
 * when everybody has read the old value. The commit of a flag ands it with the old one, so that a flag that is down stays down, whatever the
 * body did not do. */
#include "lower.h"

#include <stdlib.h>

#include "quern/op.h"
#include "quern/ops.h"

bool qn_loop_has_flag(const qn_node *loop) { return ((const qn_attr_while *)loop->attr)->trip_count < 0; }

/* A new value that equals x; optimisation would remove it, so none may follow. */
static qn_val again(qn_graph *g, qn_val x, qn_place at) {
  return qn_graph_add_typed(g, QN_OP_RESHAPE, &x, 1, NULL, NULL, 0, qn_val_type(x), at);
}

/* Must the result be stored aside, because it is another carry, a capture or a result already? */
static bool is_shared(const qn_val *params, size_t param_count, const qn_val *results, size_t at) {
  bool shared = false;
  for (size_t i = 0; i < param_count && !shared; i++)
    shared = qn_val_same(params[i], results[at]);
  for (size_t i = 0; i < at && !shared; i++)
    shared = qn_val_same(results[i], results[at]);
  return shared;
}

static void commit_results(qn_graph *g, const qn_node *loop, const qn_val *params, size_t param_count, qn_val *results,
                           size_t count, qn_val *out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = results[i];
    if (qn_val_same(results[i], params[i]))
      continue;
    qn_val r = is_shared(params, param_count, results, i) ? again(g, results[i], loop->place) : results[i];
    qn_val both[2] = {params[0], r};
    bool flag = i == 0 && qn_loop_has_flag(loop);
    out[i] = flag ? qn_graph_add(g, QN_OP_AND, both, 2, NULL, NULL, 0, loop->place) : again(g, r, loop->place);
  }
}

static qn_status lower_body(const qn_node *loop, qn_text *log, qn_graph **out_body) {
  const qn_optimize_desc opt = {.log = log};
  qn_graph *better = NULL, *lowered = NULL, *g = NULL;
  qn_val *room = NULL;
  *out_body = NULL;
  qn_status st;
  QN_TRY_GOTO(st, qn_graph_optimize(loop->regions[1], &opt, &better), done);
  QN_TRY_GOTO(st, qn_lower(better, log, &lowered), done);
  QN_TRY_GOTO(st, qn_graph_create(qn_graph_name(lowered), &g), done);
  size_t params = qn_graph_param_count(lowered), count = qn_graph_result_count(lowered);
  room = calloc(params + 2 * count + 1, sizeof *room);
  if (!room) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "while: no memory to lower it");
    goto done;
  }
  qn_val *results = room + params, *out = results + count;
  for (size_t i = 0; i < params; i++)
    room[i] = qn_graph_param(g, *qn_graph_type(lowered, qn_graph_param_at(lowered, i)), NULL);
  if (qn_graph_inline(g, lowered, room, params, results))
    commit_results(g, loop, room, params, results, count, out);
  QN_TRY_GOTO(st, qn_graph_seal(g, out, count), done);
  *out_body = g;
  g = NULL;
done:
  free(room);
  if (g)
    qn_graph_release(g);
  if (lowered)
    qn_graph_release(lowered);
  if (better)
    qn_graph_release(better);
  return st;
}

bool qn_lower_loop(qn_graph *to, const qn_node *loop, const qn_val *operands, qn_text *log, qn_val *out) {
  qn_graph *regions[2] = {loop->regions[0], NULL};
  size_t count = (size_t)loop->operand_count;
  if (((const qn_attr_while *)loop->attr)->trip_count == 0) {
    for (int i = 0; i < loop->result_count; i++)
      out[i] = operands[i];
    return true;
  }
  qn_val *in = calloc(count + 1, sizeof *in), v;
  qn_status st = in ? lower_body(loop, log, &regions[1]) : QN_ERR(QN_OUT_OF_MEMORY, "while: no memory to lower it");
  if (st == QN_OK) {
    for (size_t i = 0; i < count; i++)
      in[i] = i < (size_t)loop->result_count ? again(to, operands[i], loop->place) : operands[i];
    v = qn_graph_add(to, loop->op, in, count, loop->attr, regions, 2, loop->place);
    qn_graph_release(regions[1]);
  } else {
    v = qn_graph_fail(to, loop->place, st, "%s", qn_error_message());
  }
  for (int i = 0; i < loop->result_count; i++)
    out[i] = qn_val_result(v, i);
  free(in);
  return st == QN_OK;
}
