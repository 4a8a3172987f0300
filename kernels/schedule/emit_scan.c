/* Running folds. A row is what is walked in order: all elements along the axis, or those of one block. Along a minor-most axis one item takes a row
 * in chunks of 16 neighbours, each folded within itself by a tree of halves and then onto what came before; elsewhere lanes are rows side by side, whose
 * elements are folded one after the other. The order is the shape's and the body's, on every device and with any number of lanes. */
#include "schedule.h"

#include <string.h>

#include "lower.h"

enum { CHUNK = REDUCE_LANES, COMPONENTS = 8, LIGHT_BODY = 9, PANEL = 8 };

typedef struct scan {
  const qn_node *n;
  const qn_attr_cumulative *a;
  const qn_type *x; /* operand */
  qn_type rows;     /* the operand's shape with blocks along the axis */
  int axis, count;  /* components */
  int64_t length, block;
  bool starts, tail; /* rows begin with an offset; the last block is shorter */
  bool chunks;
  qn_op simple; /* body is this one operation, or QN_OP_NONE */
  qn_dtype dtype[COMPONENTS];
  qn_sval carry[COMPONENTS], any; /* variables; any: something is in the carry, where no identity is known */
} scan;

static scan describe(const qn_schedule *s, const sched_part *p) {
  const qn_node *n = qn_graph_node(s->g, p->hero);
  scan c = {.n = n, .a = n->attr, .x = qn_graph_type(s->g, n->operands[0]), .count = n->result_count};
  int64_t inner = 1;
  c.axis = (int)c.a->dimension;
  c.length = c.x->dims[c.axis];
  c.block = c.a->block > 0 && c.a->block < c.length ? c.a->block : c.length;
  c.starts = c.a->block > 0 && !c.a->totals;
  c.tail = c.block > 0 && c.length % c.block != 0;
  c.rows = *c.x;
  c.rows.dims[c.axis] = c.block > 0 ? (c.length + c.block - 1) / c.block : 0;
  for (int i = c.axis + 1; i < c.x->rank; i++)
    inner *= c.x->dims[i];
  c.simple = c.count == 1 ? qn_simple_body(n->regions[0]) : QN_OP_NONE;
  bool light = c.simple != QN_OP_NONE || qn_graph_node_count(n->regions[0]) <= LIGHT_BODY;
  c.chunks = inner == 1 && c.block >= CHUNK && light;
  for (int i = 0; i < c.count && i < COMPONENTS; i++) {
    qn_dtype t = qn_graph_type(s->g, n->operands[i])->dtype;
    c.dtype[i] = c.simple != QN_OP_NONE ? qn_dtype_wide(t) : t;
  }
  return c;
}

static uint32_t scan_lanes(const qn_schedule *s, const scan *c) {
  return qn_emit_fit_lanes(qn_emit_grid(s->caps).lanes, c->chunks ? CHUNK : qn_type_elements(&c->rows));
}

/* How many vectors of neighbouring rows one item walks together, so that a step takes more of a page than one of them. */
static uint32_t scan_panel(const qn_schedule *s, const scan *c) {
  int64_t inner = 1, lanes = scan_lanes(s, c), units = s->caps->compute_units ? s->caps->compute_units : 8,
          panel = PANEL;
  for (int i = c->axis + 1; i < c->x->rank; i++)
    inner *= c->x->dims[i];
  if (c->chunks || c->simple == QN_OP_NONE || qn_emit_grid(s->caps).items > 1)
    return 1;
  while (panel > 1 && (inner % (lanes * panel) != 0 || qn_type_elements(&c->rows) < 4 * units * lanes * panel))
    panel /= 2;
  return (uint32_t)panel;
}

emit_slots qn_scan_slots(const qn_schedule *s, const sched_part *p) {
  scan c = describe(s, p);
  int64_t n = qn_type_elements(&c.rows), lanes = c.chunks ? 1 : scan_lanes(s, &c) * scan_panel(s, &c);
  return qn_emit_slots(s->caps, (n + lanes - 1) / lanes, 4 + 8 * (double)c.block / (c.chunks ? 4 : 1));
}

/* ---- bodies ---- */

/* out = body(a, b), a the earlier one; may be out == a or b */
static void combine(qn_emit *e, const scan *c, const qn_sval *a, const qn_sval *b, qn_sval *out) {
  if (c->simple != QN_OP_NONE) {
    qn_sval in[2] = {a[0], b[0]};
    out[0] = qn_op_get(c->simple)->expand(e->k, in, NULL);
    return;
  }
  qn_sval args[2 * COMPONENTS], res[COMPONENTS];
  memcpy(args, a, (size_t)c->count * sizeof *args);
  memcpy(args + c->count, b, (size_t)c->count * sizeof *args);
  qn_emit_region(e, c->n->regions[0], args, res);
  memcpy(out, res, (size_t)c->count * sizeof *out);
}

/* What came before with what comes now, in the operands' order. */
static void onto(qn_emit *e, const scan *c, const qn_sval *before, const qn_sval *now, qn_sval *out) {
  combine(e, c, c->a->reverse ? now : before, c->a->reverse ? before : now, out);
}

static qn_sval spread(qn_emit *e, qn_sval v, uint32_t lanes) {
  return lanes > 1 && qn_kb_lanes(e->b, v) == 1 ? qn_kb_splat(e->b, v, lanes) : v;
}

static qn_sval lane_of(qn_emit *e, qn_sval v, uint32_t lane) {
  return qn_kb_lanes(e->b, v) == 1 ? v : qn_kb_extract(e->b, v, lane);
}

static void read_operands(qn_emit *e, const scan *c, int first, const qn_ix *at, qn_sval mask, qn_sval *out) {
  for (int i = 0; i < c->count; i++)
    out[i] = qs_convert(e->k, c->dtype[i], qn_emit_value(e, c->n->operands[first + i], at, mask));
}

/* Offsets where the row has one, or the identity; `any` says whether it has. `row` indexes c->rows. */
static void open_carry(qn_emit *e, scan *c, const qn_ix *row, qn_sval mask, uint32_t lanes) {
  qn_sval start[COMPONENTS], has = qs_bits(e->k, QN_BOOL, 0);
  int64_t blocks = c->rows.dims[c->axis];
  bool offsets = c->starts && blocks > 1;
  if (offsets) {
    qn_ix at[QN_MAX_RANK];
    memcpy(at, row, sizeof at);
    at[c->axis] = qn_ix_add_const(e, row[c->axis], c->a->reverse ? 1 : -1);
    qn_sval block = qn_ix_value(e, row[c->axis]);
    has = c->a->reverse ? qs_lt(e->k, block, qn_emit_i32(e, blocks - 1)) : qs_lt(e->k, qn_emit_i32(e, 0), block);
    read_operands(e, c, c->count, at, qn_emit_and(e, mask, has), start);
  }
  for (int i = 0; i < c->count; i++) {
    qn_sval none =
        c->simple != QN_OP_NONE ? qn_emit_identity(e, c->simple, c->dtype[i]) : qs_bits(e->k, c->dtype[i], 0);
    none = spread(e, none, lanes);
    c->carry[i] = qn_kb_var(e->b, offsets ? spread(e, qs_select(e->k, has, start[i], none), lanes) : none);
  }
  c->any = c->simple == QN_OP_NONE ? qn_kb_var(e->b, spread(e, has, lanes)) : (qn_sval){0};
}

/* y = carry onto now, in all lanes of that; may be y == now. */
static void from_carry(qn_emit *e, const scan *c, const qn_sval *now, qn_sval *y) {
  qn_sval before[COMPONENTS], v[COMPONENTS];
  memcpy(v, now, (size_t)c->count * sizeof *v);
  uint32_t lanes = qn_kb_lanes(e->b, v[0]);
  for (int i = 0; i < c->count; i++)
    before[i] = spread(e, qn_kb_get(e->b, c->carry[i]), lanes);
  onto(e, c, before, v, y);
  if (!c->any.id)
    return;
  qn_sval any = spread(e, qn_kb_get(e->b, c->any), lanes);
  for (int i = 0; i < c->count; i++)
    y[i] = qs_select(e->k, any, spread(e, y[i], lanes), v[i]);
}

/* ---- results ---- */

static void emit_outputs(qn_emit *e, const scan *c, const qn_ix *at, const qn_sval *y, qn_sval mask) {
  qn_sval vals[PART_OUTPUTS_ROOM];
  qn_ix to[QN_MAX_RANK];
  const sched_part *p = e->part;
  for (int i = 0; i < c->count; i++) {
    uint32_t v = c->n->first_result + (uint32_t)i;
    qn_emit_override(e, v, qs_convert(e->k, qn_graph_type(e->s->g, v)->dtype, y[i]));
  }
  for (size_t i = 0; i < p->output_count; i++) {
    qn_emit_space_index(e, &p->domain, at, qn_graph_type(e->s->g, p->outputs[i]), to);
    vals[i] = qn_emit_value(e, p->outputs[i], to, mask);
  }
  for (size_t i = 0; i < p->output_count; i++) {
    qn_emit_space_index(e, &p->domain, at, qn_graph_type(e->s->g, p->outputs[i]), to);
    qn_emit_store(e, p->outputs[i], to, vals[i], mask);
  }
  qn_emit_overrides_drop(e, 0);
}

/* ---- chunks of neighbours ---- */

static void fold_lanes(qn_emit *e, const scan *c, qn_sval *v, uint32_t lanes) {
  qn_sval half[2][COMPONENTS], edge[COMPONENTS];
  uint32_t n = lanes / 2;
  bool reverse = c->a->reverse;
  if (n == 0)
    return;
  for (int i = 0; i < c->count; i++) {
    half[0][i] = qn_kb_low(e->b, v[i]);
    half[1][i] = qn_kb_high(e->b, v[i]);
  }
  fold_lanes(e, c, half[0], n);
  fold_lanes(e, c, half[1], n);
  qn_sval *done = half[reverse], *next = half[!reverse];
  for (int i = 0; i < c->count; i++)
    edge[i] = spread(e, lane_of(e, done[i], reverse ? 0 : n - 1), n);
  onto(e, c, edge, next, next);
  for (int i = 0; i < c->count; i++)
    v[i] = qn_kb_join(e->b, half[0][i], half[1][i]);
}

static void fold_vectors(qn_emit *e, const scan *c, qn_sval (*v)[COMPONENTS], uint32_t count) {
  qn_sval edge[COMPONENTS];
  uint32_t n = count / 2;
  bool reverse = c->a->reverse;
  if (n == 0) {
    fold_lanes(e, c, v[0], e->lanes);
    return;
  }
  fold_vectors(e, c, v, n);
  fold_vectors(e, c, v + n, n);
  const qn_sval *last = reverse ? v[n] : v[n - 1];
  for (int i = 0; i < c->count; i++)
    edge[i] = spread(e, lane_of(e, last[i], reverse ? 0 : e->lanes - 1), e->lanes);
  for (uint32_t k = 0; k < n; k++)
    onto(e, c, edge, v[(reverse ? 0 : n) + k], v[(reverse ? 0 : n) + k]);
}

static void set_carry(qn_emit *e, const scan *c, const qn_sval *y, uint32_t lane) {
  for (int i = 0; i < c->count; i++)
    qn_kb_set(e->b, c->carry[i], lane_of(e, y[i], lane));
  if (c->any.id)
    qn_kb_set(e->b, c->any, qs_bits(e->k, QN_BOOL, 1));
}

static void emit_chunk(qn_emit *e, const scan *c, qn_ix *at, qn_sval first) {
  qn_sval v[CHUNK][COMPONENTS];
  uint32_t lanes = e->lanes, vectors = CHUNK / lanes;
  qn_ix pos[CHUNK];
  for (uint32_t k = 0; k < vectors; k++) {
    qn_sval base = k ? qs_add(e->k, first, qn_emit_i32(e, k * lanes)) : first;
    pos[k] = at[c->axis] = qn_ix_lanes(e, base, 1, c->a->reverse || c->block % CHUNK ? 1 : lanes);
    read_operands(e, c, 0, at, (qn_sval){0}, v[k]);
    for (int i = 0; i < c->count; i++)
      v[k][i] = spread(e, v[k][i], lanes);
  }
  fold_vectors(e, c, v, vectors);
  for (uint32_t k = 0; k < vectors; k++)
    from_carry(e, c, v[k], v[k]);
  set_carry(e, c, c->a->reverse ? v[0] : v[vectors - 1], c->a->reverse ? 0 : lanes - 1);
  for (uint32_t k = 0; k < vectors && !c->a->totals; k++) {
    at[c->axis] = pos[k];
    emit_outputs(e, c, at, v[k], (qn_sval){0});
  }
}

static void emit_single(qn_emit *e, const scan *c, qn_ix *at, qn_sval position) {
  qn_sval v[COMPONENTS];
  at[c->axis] = qn_ix_scalar(e, position, 1);
  read_operands(e, c, 0, at, (qn_sval){0}, v);
  from_carry(e, c, v, v);
  set_carry(e, c, v, 0);
  if (!c->a->totals)
    emit_outputs(e, c, at, v, (qn_sval){0});
}

/* Sums of blocks need no order within: lanes side by side, folded at the end. */
static void emit_total(qn_emit *e, const scan *c, qn_ix *at, qn_sval begin, qn_sval whole) {
  qn_sval acc[CHUNK], none = qn_emit_identity(e, c->simple, c->dtype[0]);
  uint32_t lanes = e->lanes, vectors = CHUNK / lanes;
  for (uint32_t k = 0; k < vectors; k++)
    acc[k] = qn_kb_var(e->b, spread(e, none, lanes));
  size_t mark = qn_emit_memo_mark(e);
  qn_sval j = qn_kb_loop(e->b, qn_emit_i32(e, 0), whole, CHUNK, true);
  for (uint32_t k = 0; k < vectors; k++) {
    qn_sval base = qs_add(e->k, qs_add(e->k, begin, j), qn_emit_i32(e, k * lanes)), x, now;
    at[c->axis] = qn_ix_lanes(e, base, 1, c->block % CHUNK ? 1 : lanes);
    read_operands(e, c, 0, at, (qn_sval){0}, &x);
    x = spread(e, x, lanes);
    now = qn_kb_get(e->b, acc[k]);
    combine(e, c, &now, &x, &x);
    qn_kb_set(e->b, acc[k], x);
  }
  qn_emit_close(e, mark);
  qn_sval v[CHUNK];
  for (uint32_t k = 0; k < vectors; k++)
    v[k] = qn_kb_get(e->b, acc[k]);
  for (; vectors > 1; vectors /= 2)
    for (uint32_t k = 0; k < vectors / 2; k++)
      combine(e, c, &v[k], &v[k + vectors / 2], &v[k]);
  for (; lanes > 1; lanes /= 2) {
    qn_sval hi = qn_kb_high(e->b, v[0]);
    v[0] = qn_kb_low(e->b, v[0]);
    combine(e, c, &v[0], &hi, &v[0]);
  }
  qn_kb_set(e->b, c->carry[0], v[0]);
}

/* One row: whole chunks first, then single elements; from its end in reverse. */
static void emit_chunks(qn_emit *e, scan *c, const qn_ix *row) {
  qn_ix at[QN_MAX_RANK];
  memcpy(at, row, sizeof at);
  bool reverse = c->a->reverse, totals = c->a->totals && c->simple != QN_OP_NONE;
  uint32_t lanes = e->lanes;
  qn_sval block = qn_ix_value(e, row[c->axis]);
  qn_sval begin = c->block == c->length ? qn_emit_i32(e, 0) : qs_mul(e->k, block, qn_emit_i32(e, c->block));
  qn_sval n = qn_emit_i32(e, c->block), whole = qn_emit_i32(e, c->block - c->block % CHUNK);
  if (c->tail) {
    qn_sval last = qs_eq(e->k, block, qn_emit_i32(e, c->rows.dims[c->axis] - 1));
    int64_t rest = c->length % c->block;
    n = qs_select(e->k, last, qn_emit_i32(e, rest), n);
    whole = qs_select(e->k, last, qn_emit_i32(e, rest - rest % CHUNK), whole);
  }
  qn_sval end = qs_add(e->k, begin, n);
  e->lanes = 1;
  open_carry(e, c, row, (qn_sval){0}, 1);
  e->lanes = lanes;
  if (totals) {
    emit_total(e, c, at, reverse ? qs_sub(e->k, end, whole) : begin, whole);
  } else {
    size_t mark = qn_emit_memo_mark(e);
    qn_sval j = qn_kb_loop(e->b, qn_emit_i32(e, 0), whole, CHUNK, true);
    qn_sval first = reverse ? qs_sub(e->k, qs_sub(e->k, end, qn_emit_i32(e, CHUNK)), j) : qs_add(e->k, begin, j);
    emit_chunk(e, c, at, first);
    qn_emit_close(e, mark);
  }
  e->lanes = 1;
  if (c->block % CHUNK || (c->tail && c->length % c->block % CHUNK)) {
    size_t mark = qn_emit_memo_mark(e);
    qn_sval j = qn_kb_loop(e->b, whole, n, 1, true);
    emit_single(e, c, at, reverse ? qs_sub(e->k, qs_sub(e->k, end, qn_emit_i32(e, 1)), j) : qs_add(e->k, begin, j));
    qn_emit_close(e, mark);
  }
  if (c->a->totals) {
    qn_sval y[COMPONENTS];
    for (int i = 0; i < c->count; i++)
      y[i] = qn_kb_get(e->b, c->carry[i]);
    emit_outputs(e, c, row, y, (qn_sval){0});
  }
  e->lanes = lanes;
}

/* ---- rows side by side ---- */

/* One element of each row of a vector; `position` along the axis. */
static void emit_step(qn_emit *e, scan *c, const qn_ix *row, qn_ix position, qn_sval mask) {
  qn_ix at[QN_MAX_RANK];
  qn_sval v[COMPONENTS], y[COMPONENTS], inside = mask;
  memcpy(at, row, sizeof at);
  at[c->axis] = position;
  if (c->tail) {
    qn_sval there = qs_lt(e->k, qn_ix_value(e, position), qn_emit_i32(e, c->length));
    inside = qn_emit_and(e, mask, spread(e, there, e->lanes));
  }
  read_operands(e, c, 0, at, inside, v);
  for (int i = 0; i < c->count; i++)
    v[i] = spread(e, v[i], e->lanes);
  from_carry(e, c, v, y);
  for (int i = 0; i < c->count; i++) {
    y[i] = spread(e, y[i], e->lanes);
    if (c->tail)
      y[i] = qs_select(e->k, inside, y[i], qn_kb_get(e->b, c->carry[i]));
    qn_kb_set(e->b, c->carry[i], y[i]);
  }
  if (c->any.id) {
    qn_sval some = spread(e, qs_bits(e->k, QN_BOOL, 1), e->lanes);
    qn_kb_set(e->b, c->any, c->tail ? qs_or(e->k, qn_kb_get(e->b, c->any), inside) : some);
  }
  if (!c->a->totals)
    emit_outputs(e, c, at, y, inside);
}

/* `count` vectors of rows. */
static void emit_lanes(qn_emit *e, const scan *c, qn_ix (*row)[QN_MAX_RANK], uint32_t count, qn_sval mask) {
  scan each[PANEL];
  for (uint32_t p = 0; p < count; p++) {
    each[p] = *c;
    open_carry(e, &each[p], row[p], mask, e->lanes);
  }
  size_t mark;
  qn_sval k = qn_emit_loop(e, 0, c->block, 1, &mark);
  qn_ix step = qn_ix_scalar(e, k, 1);
  if (c->a->reverse)
    step = qn_ix_sub_from(e, c->block - 1, step);
  for (uint32_t p = 0; p < count; p++) {
    qn_ix begin = c->block == c->length ? qn_ix_const(e, 0) : qn_ix_mul_const(e, row[p][c->axis], c->block);
    emit_step(e, &each[p], row[p], qn_ix_add(e, begin, step), mask);
  }
  qn_emit_close(e, mark);
  for (uint32_t p = 0; p < count && c->a->totals; p++) {
    qn_sval y[COMPONENTS];
    for (int i = 0; i < c->count; i++)
      y[i] = qn_kb_get(e->b, each[p].carry[i]);
    emit_outputs(e, c, row[p], y, mask);
  }
}

void qn_emit_scan(qn_emit *e) {
  scan c = describe(e->s, e->part);
  if (c.count > COMPONENTS) {
    qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "cumulative: %d operands, at most %d are supported", c.count, COMPONENTS));
    return;
  }
  int64_t n = qn_type_elements(&c.rows);
  e->lanes = scan_lanes(e->s, &c);
  emit_slots slots = qn_scan_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  qn_ix row[PANEL][QN_MAX_RANK] = {0};
  if (c.chunks) {
    qn_ix_delinearize(e, qn_ix_scalar(e, slot, 1), c.rows.rank, c.rows.dims, row[0]);
    emit_chunks(e, &c, row[0]);
  } else {
    int64_t lanes = e->lanes;
    uint32_t panel = scan_panel(e->s, &c);
    qn_sval base = qs_mul(e->k, slot, qn_emit_i32(e, lanes * panel));
    for (uint32_t p = 0; p < panel; p++) {
      qn_sval first = p ? qs_add(e->k, base, qn_emit_i32(e, lanes * p)) : base;
      qn_ix_delinearize(e, qn_ix_lanes(e, first, 1, lanes), c.rows.rank, c.rows.dims, row[p]);
    }
    if (n % lanes == 0) {
      emit_lanes(e, &c, row, panel, (qn_sval){0});
    } else {
      qn_kb_if(e->b, qs_le(e->k, base, qn_emit_i32(e, n - lanes)));
      size_t mark = qn_emit_memo_mark(e);
      emit_lanes(e, &c, row, 1, (qn_sval){0});
      qn_emit_memo_drop(e, mark);
      qn_kb_else(e->b);
      emit_lanes(e, &c, row, 1, qn_emit_lane_mask(e, base, n));
      qn_emit_close(e, mark);
    }
  }
  qn_emit_slots_close(e, &slots);
}
