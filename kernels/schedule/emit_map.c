/* Map parts: every output element from elements of inputs, lanes along the linear index,
 * which is taken apart only where something other than the shape itself is read. */
#include "schedule.h"

static double part_cost(const qn_schedule *s, const sched_part *p) {
  double cost = 2;
  for (size_t i = 0; i < p->output_count; i++)
    cost += s->values[p->outputs[i]].cost < 4096 ? s->values[p->outputs[i]].cost : 4096;
  return cost;
}

static uint32_t map_lanes(const qn_schedule *s, const sched_part *p) {
  return qn_emit_fit_lanes(qn_emit_grid(s->caps).lanes, qn_type_elements(&p->domain));
}

emit_slots qn_map_slots(const qn_schedule *s, const sched_part *p) {
  int64_t n = qn_type_elements(&p->domain), lanes = map_lanes(s, p);
  return qn_emit_slots(s->caps, (n + lanes - 1) / lanes, part_cost(s, p));
}

/* Outputs may differ from the domain in axes of size 1. */
static void elements(qn_emit *e, const qn_ix *idx, qn_sval mask) {
  qn_sval vals[PART_OUTPUTS_ROOM];
  qn_ix at[QN_MAX_RANK];
  size_t n = e->part->output_count;
  for (size_t i = 0; i < n; i++) {
    qn_emit_space_index(e, &e->part->domain, idx, qn_graph_type(e->s->g, e->part->outputs[i]), at);
    vals[i] = qn_emit_value(e, e->part->outputs[i], at, mask);
  }
  for (size_t i = 0; i < n; i++) {
    qn_emit_space_index(e, &e->part->domain, idx, qn_graph_type(e->s->g, e->part->outputs[i]), at);
    qn_emit_store(e, e->part->outputs[i], at, vals[i], mask);
  }
}

void qn_emit_over_domain(qn_emit *e, qn_emit_body body) {
  const qn_type *t = &e->part->domain;
  int64_t n = qn_type_elements(t);
  e->lanes = map_lanes(e->s, e->part);
  int64_t lanes = e->lanes;
  emit_slots slots = qn_map_slots(e->s, e->part);
  qn_ix idx[QN_MAX_RANK];
  qn_sval slot = qn_emit_slots_open(e, &slots);
  qn_sval base = qs_mul(e->k, slot, qs_const(e->k, QN_I32, (double)lanes));
  qn_emit_set_origin(e, qn_ix_lanes(e, base, 1, lanes), t, idx);
  if (n % lanes == 0) {
    body(e, idx, (qn_sval){0});
  } else {
    qn_kb_if(e->b, qs_le(e->k, base, qs_const(e->k, QN_I32, (double)(n - lanes))));
    size_t mark = qn_emit_memo_mark(e);
    body(e, idx, (qn_sval){0});
    qn_emit_memo_drop(e, mark);
    qn_kb_else(e->b);
    body(e, idx, qn_emit_lane_mask(e, base, n));
    qn_emit_close(e, mark);
  }
  e->origin.on = false;
  qn_emit_slots_close(e, &slots);
}

void qn_emit_map(qn_emit *e) { qn_emit_over_domain(e, elements); }
