/* Lowering by the rows: operations that every device makes of simpler ones (windows, Fourier transforms, samplers ...) are replaced until only
 * those are left that the scheduler knows. */
#include "lower.h"

#include "quern/op.h"

enum { ROUNDS_MOST = 64 };

typedef struct rows_pass {
  qn_text *log;
  size_t lowered;
} rows_pass;

static bool lower_row(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands, qn_val *out,
                      void *user) {
  rows_pass *p = user;
  const qn_op_def *row = qn_op_get(n->op);
  if (!row->lower)
    return false;
  qn_rule r = {.g = to,
               .node = n,
               .from = from,
               .attr = n->attr,
               .in_count = n->operand_count,
               .out_count = n->result_count,
               .in = operands};
  qn_graph_set_place(to, &n->place);
  bool done = row->lower(&r, out);
  qn_graph_set_place(to, NULL);
  if (!done)
    return false;
  p->lowered++;
  if (p->log)
    qn_text_add(p->log, "lower-%s: %s (%s:%d)\n", row->name, qn_type_str(qn_graph_type(from, n->first_result)),
                n->place.file ? n->place.file : "?", n->place.line);
  return true;
}

qn_status qn_lower_rows(const qn_graph *g, qn_text *log, qn_graph **out_graph) {
  qn_graph *now = qn_graph_retain(g);
  size_t lowered = 0;
  *out_graph = NULL;
  for (int round = 0;; round++) {
    rows_pass p = {.log = log};
    qn_graph *next;
    qn_status st = qn_graph_rebuild(now, lower_row, &p, &next);
    qn_graph_release(now);
    QN_TRY(st);
    now = next;
    lowered += p.lowered;
    if (p.lowered == 0)
      break;
    if (round == ROUNDS_MOST) {
      qn_graph_release(now);
      return QN_ERR(QN_INTERNAL, "%s: lowering did not come to an end in %d rounds", qn_graph_name(g), ROUNDS_MOST);
    }
  }
  if (lowered > 0) {
    qn_graph *better;
    qn_status st = qn_graph_optimize(now, NULL, &better);
    qn_graph_release(now);
    QN_TRY(st);
    now = better;
  }
  *out_graph = now;
  return QN_OK;
}
