/* Contractions: a register tile of rows by lanes of columns, one pass over k in order, operands by address, epilogue in registers.
 *
 * Each output element is acc = fma(a, b, acc) over k from 0 up, in blocks of 128 of the innermost contracted axis whose sums are then added in order,
 * whatever the tile: the tile only decides which elements share loads. Rows broadcast
 * the left operand; columns are lanes of the right one. Remainders are smaller tiles, the last column vector masked. Shapes of tiles by device
 * class follow measurements (docs/benchmarks.md). */
#include "contract.h"

#include <string.h>

enum {
  MAX_ROWS = 12,
  MAX_VECTORS = 4,
  LOOPED_VECTORS = 4,
  SUM_BLOCK = 128,
  SPAN_BYTES = 32 << 10,
  PACKED_BYTES = 512 << 10, /* of a right operand whose columns are worth a copy */
  PACKED_ROWS = 64,
  STEPS_FEW = 4,
  VECTORS_APART = 8
};

typedef struct contract {
  contraction d;
  uint32_t lanes, tile_rows, vectors, unroll; /* unroll: k steps whose left elements come in one load */
  uint32_t span; /* row tiles that go through each run of k together, while it's in cache */
  bool packed;   /* a span's block of the right operand is copied first */
} contract;

static qn_dtype wide_dtype(const contraction *c) {
  qn_dtype in = qn_dtype_wide(c->lhs->dtype), out = qn_dtype_wide(c->out->dtype);
  return qn_dtype_size(out) >= qn_dtype_size(in) ? out : in;
}

static bool long_axis(const contraction *c) { return c->k.count && c->k.shape.dims[c->k.count - 1] > SUM_BLOCK; }

/* Sums in runs of several axes. */
static bool has_runs(const contraction *c) {
  return c->run_axis > 0 && !long_axis(c) && qn_dtype_is_float(wide_dtype(c));
}

/* A large right operand: a panel's rows lie so far apart that they push each other out of the caches, and it is read for every row tile. */
static bool worth_packing(const contraction *c) {
  if (!long_axis(c) || c->right_by_row || !qn_dtype_is_float(wide_dtype(c)) || c->m < PACKED_ROWS)
    return false;
  if (c->k_n * c->cols_n * (int64_t)qn_dtype_size(wide_dtype(c)) <= PACKED_BYTES)
    return false;
  return c->m % 4 == 0 || c->m % 5 == 0 || c->m % 6 == 0 || c->m % 7 == 0;
}

/* Does the left operand read neighbouring elements along the innermost summed axis? */
static bool left_runs_along_k(const qn_schedule *s, const contraction *c) {
  int64_t axis = -1;
  for (int i = 0; i < c->lhs->rank; i++)
    for (int j = 0; j < c->left.count[i]; j++)
      if (c->left.terms[i][j].kind == LOOP_K && c->left.terms[i][j].axis == c->k.count - 1)
        axis = c->left.terms[i][j].step == 1 ? i : -1;
  if (axis < 0 || c->left_by_column)
    return false;
  uint32_t v = c->left_value;
  const qn_node *d = qn_graph_def(s->g, v);
  while (!s->values[v].material && d->op == QN_OP_TRANSPOSE) {
    axis = ((const qn_attr_dims *)d->attr)->dims.d[axis];
    v = d->operands[0];
    d = qn_graph_def(s->g, v);
  }
  return axis == qn_graph_type(s->g, v)->rank - 1;
}

/* Rows of a large left operand lie far apart, too: each is a stream of its own. */
static const double packed_row_cost = 0.35;

/* Cycles of one k step of a tile on a core with two vector FMAs and two loads a cycle, four cycles of latency. */
static double step_cost(int rows, int vectors) {
  double fma = rows * vectors / 2.0, loads = (rows + vectors) / 2.0, least = 4;
  double cost = fma > loads ? fma : loads;
  return (cost > least ? cost : least) + 0.1 * rows + 0.25 * vectors;
}

/* The tile with the least estimated time for this shape: remainders count as whole tiles, threads take whole tiles. */
static void choose_register_tile(const qn_schedule *s, contract *c, int64_t fit) {
  int registers = qn_emit_grid(s->caps).lanes >= 16 ? 32 : 16;
  int64_t units = s->caps->compute_units ? s->caps->compute_units : 2;
  double best = 0;
  for (int v = 1; v <= MAX_VECTORS && v <= fit; v++)
    for (int r = 1; r <= MAX_ROWS && r <= c->d.m && r * v + v + 1 < registers; r++) {
      if ((c->span > 1 && c->d.m % r != 0) || (c->d.right_by_row && r * v > VECTORS_APART))
        continue;
      int64_t tiles = c->d.batch_n * ((c->d.m + r - 1) / r) * ((fit + v - 1) / v);
      int64_t rounds = (tiles + units - 1) / units;
      double step = step_cost(r, v) + (c->packed ? packed_row_cost * r : 0);
      double cost = (double)rounds * (step * (double)c->d.k_n + 4 * r * v);
      if (best != 0 && cost >= best)
        continue;
      best = cost;
      c->tile_rows = (uint32_t)r;
      c->vectors = (uint32_t)v;
    }
}

static void choose_span(const qn_schedule *s, contract *c) {
  int64_t most = c->packed ? 2 * SPAN_BYTES : SPAN_BYTES; /* a copy wants many readers */
  int64_t bytes = (int64_t)c->tile_rows * c->vectors * c->lanes * (int64_t)qn_dtype_size(wide_dtype(&c->d));
  int64_t tiles = c->d.m / c->tile_rows, width = (int64_t)c->lanes * c->vectors;
  int64_t others = c->d.batch_n * ((c->d.cols_n + width - 1) / width);
  int64_t units = s->caps->compute_units ? s->caps->compute_units : 2;
  c->span = 1;
  for (int64_t n = most / bytes; n > 1 && c->span == 1; n--) {
    int64_t slots = others * (tiles / n);
    if (tiles % n == 0 && (slots % units == 0 || slots >= 4 * units))
      c->span = (uint32_t)n;
  }
}

static void choose_tile(const qn_schedule *s, contract *c) {
  emit_grid grid = qn_emit_grid(s->caps);
  c->lanes = qn_emit_fit_lanes(grid.lanes, c->d.cols_n >= grid.lanes / 2 + 1 ? grid.lanes : c->d.cols_n);
  uint32_t fit = (uint32_t)((c->d.cols_n + c->lanes - 1) / c->lanes);
  if (grid.items == 1) {
    c->packed = worth_packing(&c->d);
    c->span = has_runs(&c->d) || c->packed ? 2 : 1;
    choose_register_tile(s, c, fit);
    if (c->span > 1)
      choose_span(s, c);
    c->packed = c->packed && c->span > 1;
  } else {
    c->vectors = fit <= 3 ? fit : 2;
    c->tile_rows = s->caps->device_class == QN_CLASS_GPU ? 4 : s->caps->device_class == QN_CLASS_CPU_SCALAR ? 2 : 8;
    int64_t units = s->caps->compute_units ? s->caps->compute_units : 2;
    while (c->tile_rows > 4 && (c->d.m % c->tile_rows != 0 ||
                                c->d.batch_n * (c->d.m / c->tile_rows) * ((fit + 1) / 2) < units * grid.items))
      c->tile_rows /= 2;
  }
  if (c->tile_rows > c->d.m)
    c->tile_rows = (uint32_t)c->d.m;
  int last = c->d.k.count - 1;
  bool fours = grid.items > 1 && c->lanes == 4 && last >= 0 && c->d.k.shape.dims[last] % 4 == 0;
  c->unroll = fours && left_runs_along_k(s, &c->d) ? 4 : 1;
}

static contract describe(const qn_schedule *s, const sched_part *p) {
  contract c = {.lanes = 1, .tile_rows = 1, .vectors = 1, .unroll = 1, .span = 1};
  qn_contraction_of(s->g, qn_graph_node(s->g, p->hero), qn_emit_grid(s->caps).lanes, &c.d);
  if (c.d.m && c.d.cols_n && c.d.batch_n)
    choose_tile(s, &c);
  return c;
}

typedef struct tiling {
  int64_t row_tiles, panels;
} tiling;

static tiling tiles_of(const contract *c) {
  int64_t width = (int64_t)c->lanes * c->vectors;
  return (tiling){(c->d.m + c->tile_rows - 1) / c->tile_rows / c->span, (c->d.cols_n + width - 1) / width};
}

emit_slots qn_contract_slots(const qn_schedule *s, const sched_part *p) {
  contract c = describe(s, p);
  tiling t = tiles_of(&c);
  return qn_emit_slots(s->caps, c.d.batch_n * t.row_tiles * t.panels,
                       (double)(c.tile_rows * c.vectors * c.span) * ((double)c.d.k_n + 16));
}

/* ---- one tile ---- */

typedef struct tile {
  const contract *c;
  uint32_t rows, vectors;
  bool masked; /* last vector */
  qn_ix batch[QN_MAX_RANK];
  qn_ix row[MAX_ROWS][QN_MAX_RANK];
  qn_ix col[MAX_VECTORS][QN_MAX_RANK], flat[MAX_VECTORS];
  qn_sval mask[MAX_VECTORS];
  qn_ix k[QN_MAX_RANK];
  qn_sval acc[MAX_ROWS][MAX_VECTORS];
  qn_dtype wide;
  bool blocked;             /* acc are the sums of a block; the totals are in `room` */
  int run_axis;             /* of k: what is summed from here on is a block; -1: blocks of the last axis */
  qn_sval room;             /* array of the tile's vectors, row by row; of all tiles of a span */
  qn_sval base;             /* where this tile's begin, if not at 0 */
  qn_sval pack, pack_begin; /* array of a block's right vectors, and the k of its first */
} tile;

static void locate(qn_emit *e, const tile *t, const index_map *m, int rank, const qn_ix *row, const qn_ix *col,
                   qn_ix flat, qn_ix *out) {
  const qn_ix *by_kind[] = {
      [LOOP_BATCH] = t->batch, [LOOP_ROW] = row, [LOOP_COL] = col, [LOOP_K] = t->k, [LOOP_COLUMNS] = &flat};
  for (int i = 0; i < rank; i++) {
    for (int j = 0; j < m->count[i]; j++) {
      const index_term *x = &m->terms[i][j];
      qn_ix step = qn_ix_mul_const(e, by_kind[x->kind][x->axis], x->step);
      out[i] = j ? qn_ix_add(e, out[i], step) : step;
    }
    if (m->count[i] == 0)
      out[i] = qn_ix_const(e, 0);
  }
}

static qn_sval left(qn_emit *e, const tile *t, uint32_t row, uint32_t vector) {
  const contraction *c = &t->c->d;
  qn_ix at[QN_MAX_RANK];
  locate(e, t, &c->left, c->lhs->rank, t->row[row], t->col[vector], t->flat[vector], at);
  qn_sval mask = c->left_by_column ? t->mask[vector] : (qn_sval){0};
  return qs_convert(e->k, t->wide, qn_emit_value(e, c->left_value, at, mask));
}

static qn_sval right(qn_emit *e, const tile *t, uint32_t row, uint32_t vector) {
  const contraction *c = &t->c->d;
  qn_ix at[QN_MAX_RANK];
  locate(e, t, &c->right, c->rhs->rank, t->row[row], t->col[vector], t->flat[vector], at);
  return qs_convert(e->k, t->wide, qn_emit_value(e, c->right_value, at, t->mask[vector]));
}

static void multiply_add(qn_emit *e, const tile *t, uint32_t r, uint32_t v, qn_sval a, qn_sval b) {
  qn_sval acc = qn_kb_get(e->b, t->acc[r][v]);
  if (qn_kb_lanes(e->b, b) == 1)
    b = qn_kb_splat(e->b, b, e->lanes);
  if (qn_kb_lanes(e->b, a) == 1)
    a = qn_kb_splat(e->b, a, e->lanes);
  if (t->wide == QN_BOOL)
    acc = qs_or(e->k, acc, qs_and(e->k, a, b));
  else
    acc = qn_dtype_is_float(t->wide) ? qs_fma(e->k, a, b, acc) : qs_add(e->k, acc, qs_mul(e->k, a, b));
  qn_kb_set(e->b, t->acc[r][v], acc);
}

static qn_sval pack_index(qn_emit *e, const tile *t, qn_sval k, uint32_t vector) {
  qn_sval row = qs_mul(e->k, qs_sub(e->k, k, t->pack_begin), qs_const(e->k, QN_I32, t->vectors));
  return qs_mul(e->k, qs_add(e->k, row, qs_const(e->k, QN_I32, vector)), qs_const(e->k, QN_I32, e->lanes));
}

/* One k, or `unroll` of them with the left elements loaded together. */
static void step(qn_emit *e, tile *t, qn_sval k) {
  const contract *c = t->c;
  int last = c->d.k.count - 1;
  qn_sval a[MAX_ROWS];
  if (c->unroll > 1) {
    t->k[last] = qn_ix_lanes(e, k, 1, c->unroll);
    for (uint32_t r = 0; r < t->rows; r++)
      a[r] = left(e, t, r, 0);
  }
  for (uint32_t u = 0; u < c->unroll; u++) {
    if (last >= 0)
      t->k[last] = qn_ix_add_const(e, qn_ix_scalar(e, k, c->unroll), u);
    for (uint32_t v = 0; v < t->vectors; v++) {
      qn_sval copy = {0};
      if (t->pack.id)
        copy = qn_kb_aload(e->b, t->pack, pack_index(e, t, k, v), e->lanes);
      for (uint32_t r = 0; r < t->rows; r++) {
        qn_sval b = t->pack.id ? copy : right(e, t, r, v);
        bool packed = c->unroll > 1 && qn_kb_lanes(e->b, a[r]) > 1;
        qn_sval x = c->unroll == 1 ? left(e, t, r, v) : packed ? qn_kb_extract(e->b, a[r], u) : a[r];
        multiply_add(e, t, r, v, x, b);
      }
    }
  }
}

static void open_accumulators(qn_emit *e, tile *t) {
  for (uint32_t r = 0; r < t->rows; r++)
    for (uint32_t v = 0; v < t->vectors; v++)
      t->acc[r][v] = qn_kb_var(e->b, qn_kb_splat(e->b, qs_const(e->k, t->wide, 0), e->lanes));
}

static qn_sval room_index(qn_emit *e, const tile *t, uint32_t r, uint32_t v) {
  qn_sval at = qs_const(e->k, QN_I32, (double)((r * t->vectors + v) * e->lanes));
  return t->base.id ? qs_add(e->k, t->base, at) : at;
}

static void add_block(qn_emit *e, tile *t) {
  for (uint32_t r = 0; r < t->rows; r++)
    for (uint32_t v = 0; v < t->vectors; v++) {
      qn_sval at = room_index(e, t, r, v), total = qn_kb_aload(e->b, t->room, at, e->lanes);
      qn_kb_astore(e->b, t->room, at, qs_add(e->k, total, qn_kb_get(e->b, t->acc[r][v])));
    }
}

static qn_sval block_end(qn_emit *e, qn_sval begin, int64_t size) {
  qn_sval n = qs_const(e->k, QN_I32, (double)size), end = qs_add(e->k, begin, qs_const(e->k, QN_I32, SUM_BLOCK));
  return size % SUM_BLOCK ? qs_select(e->k, qs_lt(e->k, end, n), end, n) : end;
}

/* The innermost axis in blocks: sums of short runs lose less. */
static void walk_blocks(qn_emit *e, tile *t, int64_t size) {
  size_t outer = 0, inner = qn_emit_memo_mark(e);
  qn_sval begin = qn_emit_loop(e, 0, size, SUM_BLOCK, &outer), end = block_end(e, begin, size);
  open_accumulators(e, t);
  qn_sval k = qn_kb_loop(e->b, begin, end, t->c->unroll, true);
  step(e, t, k);
  qn_emit_close(e, inner);
  add_block(e, t);
  qn_emit_close(e, outer);
}

/* Few steps of a processor's code are no loop. */
static bool unrolled(const qn_emit *e, const tile *t, int axis) {
  int64_t size = t->c->d.k.shape.dims[axis];
  return qn_emit_grid(e->s->caps).items == 1 && axis > 0 && size <= STEPS_FEW &&
         size * t->rows * t->vectors <= STEPS_FEW * MAX_ROWS && !t->c->d.right_by_row;
}

static void walk_k(qn_emit *e, tile *t, int axis) {
  const contract *c = t->c;
  int last = c->d.k.count - 1;
  if (last < 0) {
    step(e, t, qs_const(e->k, QN_I32, 0));
    return;
  }
  if (axis == last && t->blocked && t->run_axis < 0) {
    walk_blocks(e, t, c->d.k.shape.dims[axis]);
    return;
  }
  bool run = t->blocked && axis == t->run_axis;
  if (run)
    open_accumulators(e, t);
  size_t mark = 0;
  if (axis == last && unrolled(e, t, axis)) {
    for (int64_t k = 0; k < c->d.k.shape.dims[axis]; k++)
      step(e, t, qs_const(e->k, QN_I32, (double)k));
    if (run)
      add_block(e, t);
    return;
  }
  qn_sval i = qn_emit_loop(e, 0, c->d.k.shape.dims[axis], axis == last ? c->unroll : 1, &mark);
  if (axis == last) {
    step(e, t, i);
  } else {
    t->k[axis] = qn_ix_scalar(e, i, 1);
    walk_k(e, t, axis + 1);
  }
  qn_emit_close(e, mark);
  if (run)
    add_block(e, t);
}

static void epilogue(qn_emit *e, tile *t, const qn_ix *row, const qn_ix *col, qn_ix flat, qn_sval acc, qn_sval mask) {
  const contraction *c = &t->c->d;
  const qn_type *out = c->out;
  qn_ix idx[QN_MAX_RANK], at[QN_MAX_RANK];
  locate(e, t, &c->result, out->rank, row, col, flat, idx);
  qn_sval vals[PART_OUTPUTS_ROOM];
  qn_emit_override(e, c->n->first_result, qs_convert(e->k, out->dtype, acc));
  for (size_t i = 0; i < e->part->output_count; i++) {
    qn_emit_space_index(e, out, idx, qn_graph_type(e->s->g, e->part->outputs[i]), at);
    vals[i] = qn_emit_value(e, e->part->outputs[i], at, mask);
  }
  for (size_t i = 0; i < e->part->output_count; i++) {
    qn_emit_space_index(e, out, idx, qn_graph_type(e->s->g, e->part->outputs[i]), at);
    qn_emit_store(e, e->part->outputs[i], at, vals[i], mask);
  }
  qn_emit_overrides_drop(e, 0);
}

/* The epilogue's code once, in a loop over the tile's vectors: unrolled, it would be most of the kernel. */
static void looped_epilogue(qn_emit *e, tile *t, qn_sval m0, qn_sval n0) {
  const contract *c = t->c;
  uint32_t width = t->masked ? 1 : t->vectors; /* vectors a round of the loop may take by index */
  for (uint32_t r = 0; !t->blocked && r < t->rows; r++)
    for (uint32_t v = 0; v < t->vectors; v++)
      qn_kb_astore(e->b, t->room, room_index(e, t, r, v), qn_kb_get(e->b, t->acc[r][v]));
  size_t mark;
  qn_sval q = qn_emit_loop(e, 0, (int64_t)t->rows * width, 1, &mark);
  qn_ix at = qn_ix_scalar(e, q, 1), row[QN_MAX_RANK], col[QN_MAX_RANK];
  qn_ix m = qn_ix_add(e, qn_ix_scalar(e, m0, 1), qn_ix_div_const(e, at, width));
  qn_ix_delinearize(e, m, c->d.rows.shape.rank, c->d.rows.shape.dims, row);
  for (uint32_t v = 0; v < (t->masked ? t->vectors : 1); v++) {
    qn_sval vector = t->masked ? qs_const(e->k, QN_I32, v) : qn_ix_value(e, qn_ix_mod_const(e, at, width));
    qn_sval base = qs_add(e->k, n0, qs_mul(e->k, vector, qs_const(e->k, QN_I32, c->lanes)));
    qn_sval slot = t->masked ? qs_add(e->k, qs_mul(e->k, q, qs_const(e->k, QN_I32, t->vectors)), vector) : q;
    qn_ix flat = qn_ix_lanes(e, base, 1, c->lanes);
    qn_ix_delinearize(e, flat, c->d.cols.shape.rank, c->d.cols.shape.dims, col);
    qn_sval from = qs_mul(e->k, slot, qs_const(e->k, QN_I32, e->lanes));
    qn_sval acc = qn_kb_aload(e->b, t->room, t->base.id ? qs_add(e->k, t->base, from) : from, e->lanes);
    epilogue(e, t, row, col, flat, acc, t->mask[v]);
  }
  qn_emit_close(e, mark);
}

static void place_rows(qn_emit *e, tile *t, qn_sval m0) {
  const loop_axes *rows = &t->c->d.rows;
  for (uint32_t r = 0; r < t->rows; r++) {
    qn_ix m = qn_ix_add_const(e, qn_ix_scalar(e, m0, t->c->tile_rows), r);
    qn_ix_delinearize(e, m, rows->shape.rank, rows->shape.dims, t->row[r]);
  }
}

static void place_columns(qn_emit *e, tile *t, qn_sval n0) {
  const contract *c = t->c;
  for (uint32_t v = 0; v < t->vectors; v++) {
    qn_sval base = qs_add(e->k, n0, qs_const(e->k, QN_I32, (double)(v * c->lanes)));
    t->flat[v] = qn_ix_lanes(e, base, 1, c->lanes);
    qn_ix_delinearize(e, t->flat[v], c->d.cols.shape.rank, c->d.cols.shape.dims, t->col[v]);
    if (t->masked && v == t->vectors - 1)
      t->mask[v] = qn_emit_lane_mask(e, base, c->d.cols_n);
  }
}

/* Opens the loop over the tiles of a span; returns the first row of the tile. */
static qn_sval span_open(qn_emit *e, tile *t, qn_sval m0, size_t *mark) {
  qn_sval i = qn_emit_loop(e, 0, t->c->span, 1, mark);
  t->base = qs_mul(e->k, i, qs_const(e->k, QN_I32, (double)(t->rows * t->vectors * e->lanes)));
  return qs_add(e->k, m0, qs_mul(e->k, i, qs_const(e->k, QN_I32, (double)t->rows)));
}

static void walk_runs(qn_emit *e, tile *t, int axis, qn_sval m0) {
  size_t mark;
  if (axis == t->run_axis) {
    place_rows(e, t, span_open(e, t, m0, &mark));
    walk_k(e, t, axis);
  } else {
    t->k[axis] = qn_ix_scalar(e, qn_emit_loop(e, 0, t->c->d.k.shape.dims[axis], 1, &mark), 1);
    walk_runs(e, t, axis + 1, m0);
  }
  qn_emit_close(e, mark);
}

/* Blocks of the innermost axis, each copied into a panel that all tiles of the span read. */
static void walk_packed(qn_emit *e, tile *t, int axis, qn_sval m0) {
  int last = t->c->d.k.count - 1;
  int64_t size = t->c->d.k.shape.dims[axis];
  size_t outer, span, inner;
  if (axis < last) {
    t->k[axis] = qn_ix_scalar(e, qn_emit_loop(e, 0, size, 1, &outer), 1);
    walk_packed(e, t, axis + 1, m0);
    qn_emit_close(e, outer);
    return;
  }
  t->pack_begin = qn_emit_loop(e, 0, size, SUM_BLOCK, &outer);
  qn_sval end = block_end(e, t->pack_begin, size);
  inner = qn_emit_memo_mark(e);
  qn_sval k = qn_kb_loop(e->b, t->pack_begin, end, 1, true);
  t->k[last] = qn_ix_scalar(e, k, 1);
  for (uint32_t v = 0; v < t->vectors; v++) {
    qn_sval b = right(e, t, 0, v);
    qn_kb_astore(e->b, t->pack, pack_index(e, t, k, v), qn_kb_lanes(e->b, b) == 1 ? qn_kb_splat(e->b, b, e->lanes) : b);
  }
  qn_emit_close(e, inner);
  place_rows(e, t, span_open(e, t, m0, &span));
  open_accumulators(e, t);
  inner = qn_emit_memo_mark(e);
  step(e, t, qn_kb_loop(e->b, t->pack_begin, end, 1, true));
  qn_emit_close(e, inner);
  add_block(e, t);
  qn_emit_close(e, span);
  qn_emit_close(e, outer);
}

/* Several row tiles at once: each run of k is read by all of them before the next one. The order of every sum is the same. */
static void emit_span(qn_emit *e, tile *t, qn_sval m0, qn_sval n0) {
  uint32_t vectors = t->c->span * t->rows * t->vectors;
  size_t mark;
  t->room = qn_kb_array(e->b, t->wide, vectors * e->lanes, false);
  qn_sval q = qn_emit_loop(e, 0, vectors, 1, &mark);
  qn_kb_astore(e->b, t->room, qs_mul(e->k, q, qs_const(e->k, QN_I32, e->lanes)),
               qn_kb_splat(e->b, qs_const(e->k, t->wide, 0), e->lanes));
  qn_emit_close(e, mark);
  if (t->c->packed) {
    t->pack = qn_kb_array(e->b, t->wide, SUM_BLOCK * t->vectors * e->lanes, false);
    walk_packed(e, t, 0, m0);
  } else {
    walk_runs(e, t, 0, m0);
  }
  qn_sval row = span_open(e, t, m0, &mark);
  looped_epilogue(e, t, row, n0);
  qn_emit_close(e, mark);
}

static void emit_tile(qn_emit *e, const contract *c, uint32_t rows, uint32_t vectors, bool masked, const qn_ix *batch,
                      qn_sval m0, qn_sval n0) {
  tile t = {.c = c, .rows = rows, .vectors = vectors, .masked = masked, .wide = wide_dtype(&c->d)};
  size_t mark = qn_emit_memo_mark(e);
  memcpy(t.batch, batch, sizeof t.batch);
  bool runs = has_runs(&c->d), looped = rows * vectors >= LOOPED_VECTORS;
  t.blocked = runs || (qn_dtype_is_float(t.wide) && long_axis(&c->d));
  t.run_axis = runs ? c->d.run_axis : -1;
  place_columns(e, &t, n0);
  if (c->span > 1) {
    emit_span(e, &t, m0, n0);
    qn_emit_memo_drop(e, mark);
    return;
  }
  place_rows(e, &t, m0);
  if (looped || t.blocked)
    t.room = qn_kb_array(e->b, t.wide, rows * vectors * e->lanes, false);
  for (uint32_t r = 0; t.blocked && r < rows; r++)
    for (uint32_t v = 0; v < vectors; v++)
      qn_kb_astore(e->b, t.room, room_index(e, &t, r, v), qn_kb_splat(e->b, qs_const(e->k, t.wide, 0), e->lanes));
  if (!t.blocked)
    open_accumulators(e, &t);
  if (c->d.k_n > 0)
    walk_k(e, &t, 0);
  if (looped)
    looped_epilogue(e, &t, m0, n0);
  for (uint32_t r = 0; !looped && r < rows; r++)
    for (uint32_t v = 0; v < vectors; v++) {
      qn_sval acc =
          t.blocked ? qn_kb_aload(e->b, t.room, room_index(e, &t, r, v), e->lanes) : qn_kb_get(e->b, t.acc[r][v]);
      epilogue(e, &t, t.row[r], t.col[v], t.flat[v], acc, t.mask[v]);
    }
  qn_emit_memo_drop(e, mark);
}

/* Whole or remaining columns of a row tile. */
static void emit_columns(qn_emit *e, const contract *c, uint32_t rows, const qn_ix *batch, qn_sval m0, qn_sval panel) {
  int64_t width = (int64_t)c->lanes * c->vectors, rest = c->d.cols_n % width, whole = c->d.cols_n / width;
  qn_sval n0 = qs_mul(e->k, panel, qs_const(e->k, QN_I32, (double)width));
  uint32_t rest_vectors = (uint32_t)((rest + c->lanes - 1) / c->lanes);
  bool masked = rest % c->lanes != 0;
  if (rest && whole)
    qn_kb_if(e->b, qs_lt(e->k, panel, qs_const(e->k, QN_I32, (double)whole)));
  if (whole)
    emit_tile(e, c, rows, c->vectors, false, batch, m0, n0);
  if (rest && whole)
    qn_kb_else(e->b);
  if (rest)
    emit_tile(e, c, rows, rest_vectors, masked, batch, m0, n0);
  if (rest && whole)
    qn_kb_close(e->b);
}

void qn_emit_contract(qn_emit *e) {
  contract c = describe(e->s, e->part);
  tiling t = tiles_of(&c);
  e->lanes = c.lanes;
  emit_slots slots = qn_contract_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  /* Row tiles run fastest: neighbours share a panel of the right operand. Spans that copy it share their rows of the left one instead. */
  qn_ix s = qn_ix_scalar(e, slot, 1), batch[QN_MAX_RANK] = {0};
  int64_t fast = c.packed ? t.panels : t.row_tiles, slow = c.packed ? t.row_tiles : t.panels;
  qn_sval first = qn_ix_value(e, qn_ix_mod_const(e, s, fast));
  qn_ix rest = qn_ix_div_const(e, s, fast);
  qn_sval second = qn_ix_value(e, c.d.batch_n == 1 ? rest : qn_ix_mod_const(e, rest, slow));
  qn_sval row_tile = c.packed ? second : first, panel = c.packed ? first : second;
  qn_ix_delinearize(e, c.d.batch_n == 1 ? qn_ix_const(e, 0) : qn_ix_div_const(e, rest, slow), c.d.batch.shape.rank,
                    c.d.batch.shape.dims, batch);
  qn_sval m0 = qs_mul(e->k, row_tile, qs_const(e->k, QN_I32, (double)(c.tile_rows * c.span)));
  uint32_t rest_rows = (uint32_t)(c.d.m % c.tile_rows);
  if (rest_rows) {
    int64_t whole = t.row_tiles - 1; /* the last tile of rows is the short one */
    qn_kb_if(e->b, qs_lt(e->k, row_tile, qs_const(e->k, QN_I32, (double)whole)));
    emit_columns(e, &c, c.tile_rows, batch, m0, panel);
    qn_kb_else(e->b);
    emit_columns(e, &c, rest_rows, batch, m0, panel);
    qn_kb_close(e->b);
  } else {
    emit_columns(e, &c, c.tile_rows, batch, m0, panel);
  }
  qn_emit_slots_close(e, &slots);
}
