/* Updates in place: a loop's body that writes a window of a carry (as a scan writes a row of what it stacks) writes that window and nothing else. The
 * part's domain is the window; where the carry can't be written in place, the part is an ordinary map over the whole result (place_loop.c). */
#include "schedule.h"

void qn_part_whole(const qn_schedule *s, sched_part *p) {
  p->kind = PART_MAP;
  p->domain = *qn_graph_type(s->g, p->outputs[0]);
}

static void body(qn_emit *e, const qn_ix *idx, qn_sval mask) {
  const qn_node *n = qn_graph_node(e->s->g, e->part->hero);
  const qn_type *t = qn_graph_type(e->s->g, n->first_result), *up = &e->part->domain;
  qn_ix at[QN_MAX_RANK] = {0};
  for (int i = 0; i < t->rank; i++) {
    qn_sval raw = qn_emit_value(e, n->operands[2 + i], NULL, (qn_sval){0});
    at[i] = qn_ix_add(e, idx[i], qn_ix_vector(e, qn_emit_start(e, raw, t->dims[i] - up->dims[i], NULL)));
  }
  qn_sval x = qn_emit_value(e, n->operands[1], idx, mask);
  qn_emit_store(e, n->first_result, at, x, mask);
}

void qn_emit_update(qn_emit *e) { qn_emit_over_domain(e, body); }
