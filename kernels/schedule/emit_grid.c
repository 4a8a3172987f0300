/* How work is cut into groups and items, and the scopes of loops. Cuts never change a result: every element is computed by one item in an order
 * that the operation fixes. */
#include "schedule.h"

emit_grid qn_emit_grid(const qn_device_caps *caps) {
  static const emit_grid by_class[] = {[QN_CLASS_CPU_NATIVE] = {1, 16},
                                       [QN_CLASS_CPU_TILE] = {1, 16},
                                       [QN_CLASS_CPU_SIMT] = {8, 4},
                                       [QN_CLASS_CPU_SCALAR] = {8, 1},
                                       [QN_CLASS_GPU] = {64, 4}};
  emit_grid g = by_class[caps->device_class];
  if (caps->max_group_items && g.items > caps->max_group_items)
    g.items = caps->max_group_items;
  if (caps->vector_lanes && g.lanes > caps->vector_lanes)
    g.lanes = caps->vector_lanes;
  return g;
}

uint32_t qn_emit_fit_lanes(uint32_t lanes, int64_t count) {
  while (lanes > 1 && lanes > count)
    lanes /= 2;
  return lanes;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

emit_slots qn_emit_slots(const qn_device_caps *caps, int64_t count, double cost) {
  uint32_t items = qn_emit_grid(caps).items;
  int64_t units = caps->compute_units ? caps->compute_units : 8;
  int64_t least = cost > 0 ? (int64_t)(2000.0 / cost) : 2000; /* slots that make a group worth its start */
  int64_t share = (count + 16 * units * items - 1) / (16 * units * items), most = items == 1 ? 4096 : 16;
  int64_t per_item = clamp(share > least ? share : least, 1, most);
  if (items > 1) /* spread over groups first: an item's loop is for large arrays */
    per_item = clamp(share, 1, most);
  int64_t per_group = per_item * items;
  return (emit_slots){count, per_item, (uint32_t)((count + per_group - 1) / per_group), items};
}

qn_sval qn_emit_loop(qn_emit *e, int64_t begin, int64_t end, int64_t step, size_t *out_mark) {
  *out_mark = qn_emit_memo_mark(e);
  return qn_kb_loop(e->b, qs_bits(e->k, QN_I32, (uint64_t)begin), qs_bits(e->k, QN_I32, (uint64_t)end), (uint64_t)step,
                    true);
}

void qn_emit_close(qn_emit *e, size_t mark) {
  qn_emit_memo_drop(e, mark);
  qn_kb_close(e->b);
}

static bool divides(const emit_slots *s) { return s->count % (s->per_item * s->items) == 0; }

qn_sval qn_emit_slots_open(qn_emit *e, const emit_slots *s) {
  if (s->items == 1) {
    if (s->per_item == 1)
      return e->group;
    qn_sval begin = qs_mul(e->k, e->group, qn_emit_i32(e, s->per_item));
    qn_sval end = qs_add(e->k, begin, qn_emit_i32(e, s->per_item));
    if (!divides(s))
      end = qs_select(e->k, qs_lt(e->k, end, qn_emit_i32(e, s->count)), end, qn_emit_i32(e, s->count));
    return qn_kb_loop(e->b, begin, end, 1, true);
  }
  qn_sval item = qs_bitcast(e->k, QN_I32, qn_kb_item(e->b));
  qn_sval first = qs_mul(e->k, e->group, qn_emit_i32(e, s->per_item));
  qn_sval t = first;
  if (s->per_item > 1)
    t = qs_add(e->k, first, qn_kb_loop(e->b, qn_emit_i32(e, 0), qn_emit_i32(e, s->per_item), 1, true));
  qn_sval slot = qs_add(e->k, qs_mul(e->k, t, qn_emit_i32(e, s->items)), item);
  if (!divides(s))
    qn_kb_if(e->b, qs_lt(e->k, slot, qn_emit_i32(e, s->count)));
  return slot;
}

void qn_emit_slots_close(qn_emit *e, const emit_slots *s) {
  qn_emit_memo_drop(e, 0);
  if (s->items > 1 && !divides(s))
    qn_kb_close(e->b);
  if (s->per_item > 1)
    qn_kb_close(e->b);
}

uint32_t qn_part_groups(const qn_schedule *s, const sched_part *p) { return qn_part_kinds[p->kind].slots(s, p).groups; }

void qn_emit_part(qn_emit *e) {
  e->origin.on = false;
  for (size_t i = 0; i < e->part->input_count; i++)
    e->s->values[e->part->inputs[i].value].read_by = e->part_index + 1;
  e->lanes = qn_emit_grid(e->s->caps).lanes;
  qn_part_kinds[e->part->kind].emit(e);
  qn_emit_memo_drop(e, 0);
  qn_emit_overrides_drop(e, 0);
}
