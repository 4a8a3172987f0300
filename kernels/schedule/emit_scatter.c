/* Scatter of one array or several side by side: deterministic, without atomics. Each item owns a range of the result; it copies the operand there, then walks all updates in order and
 * applies those that fall into its range. Windows that don't fit completely are dropped. */
#include "schedule.h"

#include <string.h>

enum { SCATTER_ARRAYS = 16 };

static int64_t range_of(const qn_schedule *s, const sched_part *p) {
  int64_t n = qn_type_elements(&p->domain);
  int64_t owners = 2 * (int64_t)(s->caps->compute_units ? s->caps->compute_units : 8) * qn_emit_grid(s->caps).items;
  int64_t range = (n + owners - 1) / owners;
  return range < 16 ? 16 : (range + 15) / 16 * 16;
}

emit_slots qn_scatter_slots(const qn_schedule *s, const sched_part *p) {
  int64_t n = qn_type_elements(&p->domain), range = range_of(s, p);
  return qn_emit_slots(s->caps, (n + range - 1) / range, 1e6);
}

/* Index of the operand that update element `up` goes to, and whether its whole window fits. */
static qn_sval target(qn_emit *e, const qn_node *n, const qn_attr_scatter *a, const qn_ix *up, qn_ix *at) {
  uint32_t indices = n->operands[n->result_count];
  const qn_type *in = qn_graph_type(e->s->g, n->operands[0]), *st = qn_graph_type(e->s->g, indices);
  const qn_type *ut = qn_graph_type(e->s->g, n->operands[n->result_count + 1]);
  qn_ix where[QN_MAX_RANK];
  int axis = 0, window = 0;
  for (int i = 0; i < ut->rank; i++) {
    if (qn_dims_has(&a->update_window_dims, i))
      continue;
    axis += axis == a->index_vector_dim;
    where[axis++] = up[i];
  }
  int64_t size[QN_MAX_RANK];
  for (int i = 0; i < in->rank; i++) {
    bool gone = qn_dims_has(&a->inserted_window_dims, i) || qn_dims_has(&a->input_batching_dims, i);
    size[i] = gone ? 1 : ut->dims[a->update_window_dims.d[window]];
    at[i] = gone ? qn_ix_const(e, 0) : up[a->update_window_dims.d[window++]];
  }
  qn_sval ok = {0};
  for (int c = 0; c < a->scatter_dims_to_operand_dims.n; c++) {
    if (a->index_vector_dim < st->rank)
      where[a->index_vector_dim] = qn_ix_const(e, c);
    int64_t d = a->scatter_dims_to_operand_dims.d[c];
    qn_sval raw = qn_emit_value(e, indices, where, (qn_sval){0}), fits;
    qn_sval start = qn_emit_start(e, raw, in->dims[d] - size[d], &fits);
    ok = qn_emit_and(e, ok, fits);
    at[d] = qn_ix_add(e, at[d], qn_ix_scalar(e, start, 1));
  }
  for (int i = 0; i < a->input_batching_dims.n; i++)
    at[a->input_batching_dims.d[i]] = where[a->scatter_indices_batching_dims.d[i]];
  return ok;
}

typedef struct walk_state {
  const qn_node *n;
  const qn_attr_scatter *a;
  qn_ix up[QN_MAX_RANK];
  qn_sval begin, end; /* owned range */
} walk_state;

static void apply(qn_emit *e, walk_state *w) {
  const qn_type *out = qn_graph_type(e->s->g, w->n->first_result);
  qn_ix at[QN_MAX_RANK];
  qn_sval ok = target(e, w->n, w->a, w->up, at);
  qn_sval linear = qn_ix_value(e, qn_ix_offset(e, at, out));
  qn_sval mine = qs_and(e->k, qs_ge(e->k, linear, w->begin), qs_lt(e->k, linear, w->end));
  qn_kb_if(e->b, qn_emit_and(e, ok, mine));
  size_t mark = qn_emit_memo_mark(e);
  int n = w->n->result_count;
  qn_sval args[3 * SCATTER_ARRAYS], res[SCATTER_ARRAYS];
  for (int i = 0; i < n; i++) {
    args[i] = qn_emit_reload(e, w->n->first_result + (uint32_t)i, at);
    args[n + i] = qn_emit_value(e, w->n->operands[n + 1 + i], w->up, (qn_sval){0});
  }
  for (int i = 2 * n; i < w->n->operand_count - 1; i++) /* captured */
    args[i] = qn_emit_value(e, w->n->operands[i + 1], NULL, (qn_sval){0});
  qn_emit_region(e, w->n->regions[0], args, res);
  for (int i = 0; i < n; i++)
    qn_emit_store(e, w->n->first_result + (uint32_t)i, at, res[i], (qn_sval){0});
  qn_emit_close(e, mark);
}

/* Opens what is done for windows that reach into the owned range: all others are left at once. */
static void enter_window(qn_emit *e, walk_state *w) {
  const qn_type *out = qn_graph_type(e->s->g, w->n->first_result),
                *ut = qn_graph_type(e->s->g, w->n->operands[w->n->result_count + 1]);
  qn_ix at[QN_MAX_RANK];
  int64_t stride[QN_MAX_RANK], step = 1, span = 0;
  for (int i = out->rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= out->dims[i];
  }
  for (int i = 0, k = 0; i < out->rank; i++)
    if (!qn_dims_has(&w->a->inserted_window_dims, i) && !qn_dims_has(&w->a->input_batching_dims, i))
      span += (ut->dims[w->a->update_window_dims.d[k++]] - 1) * stride[i];
  for (int k = 0; k < w->a->update_window_dims.n; k++)
    w->up[w->a->update_window_dims.d[k]] = qn_ix_const(e, 0);
  qn_sval ok = target(e, w->n, w->a, w->up, at);
  qn_sval first = qn_ix_value(e, qn_ix_offset(e, at, out)), last = qs_add(e->k, first, qn_emit_i32(e, span));
  qn_sval reaches = qs_and(e->k, qs_ge(e->k, last, w->begin), qs_lt(e->k, first, w->end));
  qn_kb_if(e->b, qn_emit_and(e, ok, reaches));
}

static void walk_updates(qn_emit *e, walk_state *w, const int *order, int depth) {
  const qn_type *ut = qn_graph_type(e->s->g, w->n->operands[w->n->result_count + 1]);
  if (depth == ut->rank) {
    apply(e, w);
    return;
  }
  size_t mark, outer = qn_emit_memo_mark(e);
  bool window = depth == ut->rank - w->a->update_window_dims.n;
  if (window)
    enter_window(e, w);
  qn_sval i = qn_emit_loop(e, 0, ut->dims[order[depth]], 1, &mark);
  w->up[order[depth]] = qn_ix_scalar(e, i, 1);
  walk_updates(e, w, order, depth + 1);
  qn_emit_close(e, mark);
  if (window)
    qn_emit_close(e, outer);
}

void qn_emit_scatter(qn_emit *e) {
  const qn_node *n = qn_graph_node(e->s->g, e->part->hero);
  const qn_type *out = qn_graph_type(e->s->g, n->first_result),
                *ut = qn_graph_type(e->s->g, n->operands[n->result_count + 1]);
  walk_state w = {.n = n, .a = n->attr};
  if (n->result_count > SCATTER_ARRAYS || n->operand_count - 1 > 3 * SCATTER_ARRAYS) {
    qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "scatter: %d arrays, kernels take %d", n->result_count, SCATTER_ARRAYS));
    return;
  }
  int64_t count = qn_type_elements(out), range = range_of(e->s, e->part);
  e->lanes = 1;
  emit_slots slots = qn_scatter_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  w.begin = qs_mul(e->k, slot, qn_emit_i32(e, range));
  w.end = qs_add(e->k, w.begin, qn_emit_i32(e, range));
  if (count % range)
    w.end = qs_select(e->k, qs_lt(e->k, w.end, qn_emit_i32(e, count)), w.end, qn_emit_i32(e, count));
  size_t mark = qn_emit_memo_mark(e);
  qn_sval i = qn_kb_loop(e->b, w.begin, w.end, 1, true);
  qn_ix idx[QN_MAX_RANK];
  qn_emit_set_origin(e, qn_ix_scalar(e, i, 1), out, idx);
  for (int k = 0; k < n->result_count; k++)
    qn_emit_store(e, n->first_result + (uint32_t)k, idx, qn_emit_value(e, n->operands[k], idx, (qn_sval){0}),
                  (qn_sval){0});
  e->origin.on = false;
  qn_emit_close(e, mark);
  /* Scatter axes outside, windows inside: updates of one element are applied in the order of their index vectors. */
  int order[QN_MAX_RANK], k = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int d = 0; d < ut->rank; d++)
      if (qn_dims_has(&w.a->update_window_dims, d) == (pass == 1))
        order[k++] = d;
  walk_updates(e, &w, order, 0);
  qn_emit_slots_close(e, &slots);
}
