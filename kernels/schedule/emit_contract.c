/* Contractions: a register tile of rows by lanes of columns, one pass over k in order, operands by address, epilogue in registers.
 *
 * Each output element is acc = fma(a, b, acc) over k from 0 up, in blocks of 128 of the innermost contracted axis whose sums are then added in order,
 * whatever the tile: the tile only decides which elements share loads. Rows broadcast
 * the left operand; columns are lanes of the right one. Remainders are smaller tiles, the last column vector masked. Shapes of tiles by device
 * class follow measurements (docs/benchmarks.md). */
#include "schedule.h"

#include <string.h>

enum { MAX_ROWS = 12, MAX_VECTORS = 4, LOOPED_VECTORS = 4, SUM_BLOCK = 128 };

typedef struct axes {
  int count;
  int axis[QN_MAX_RANK]; /* of the operand */
  qn_type shape;         /* sizes, in order */
} axes;

typedef struct contract {
  const qn_node *n;
  const qn_attr_dot *dot;
  const qn_type *lhs, *rhs;
  axes rows, cols, batch_l, batch_r, k_l, k_r;
  int64_t m, cols_n, batch, k;
  uint32_t lanes, tile_rows, vectors, unroll; /* unroll: k steps whose left elements come in one load */
} contract;

static void listed_axes(const qn_type *t, const qn_dims *d, axes *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < d->n; i++) {
    out->axis[out->count++] = (int)d->d[i];
    out->shape.dims[out->shape.rank++] = t->dims[d->d[i]];
  }
}

static void free_axes(const qn_type *t, const qn_dims *a, const qn_dims *b, axes *out) {
  memset(out, 0, sizeof *out);
  for (int i = 0; i < t->rank; i++)
    if (!qn_dims_has(a, i) && !qn_dims_has(b, i)) {
      out->axis[out->count++] = i;
      out->shape.dims[out->shape.rank++] = t->dims[i];
    }
}

/* Does the left operand read neighbouring elements along its only contracted axis? */
static bool left_runs_along_k(const qn_schedule *s, const contract *c) {
  if (c->k_l.count != 1)
    return false;
  int64_t axis = c->k_l.axis[0];
  uint32_t v = c->n->operands[0];
  const qn_node *d = qn_graph_def(s->g, v);
  while (!s->values[v].material && d->op == QN_OP_TRANSPOSE) {
    axis = ((const qn_attr_dims *)d->attr)->dims.d[axis];
    v = d->operands[0];
    d = qn_graph_def(s->g, v);
  }
  return axis == qn_graph_type(s->g, v)->rank - 1;
}

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
    for (int r = 1; r <= MAX_ROWS && r <= c->m && r * v + v + 1 < registers; r++) {
      int64_t tiles = c->batch * ((c->m + r - 1) / r) * ((fit + v - 1) / v);
      int64_t rounds = (tiles + units - 1) / units;
      double cost = (double)rounds * (step_cost(r, v) * (double)c->k + 4 * r * v);
      if (best != 0 && cost >= best)
        continue;
      best = cost;
      c->tile_rows = (uint32_t)r;
      c->vectors = (uint32_t)v;
    }
}

static void choose_tile(const qn_schedule *s, contract *c) {
  emit_grid grid = qn_emit_grid(s->caps);
  c->lanes = qn_emit_fit_lanes(grid.lanes, c->cols_n >= grid.lanes / 2 + 1 ? grid.lanes : c->cols_n);
  uint32_t fit = (uint32_t)((c->cols_n + c->lanes - 1) / c->lanes);
  if (grid.items == 1) {
    choose_register_tile(s, c, fit);
  } else {
    c->vectors = fit <= 3 ? fit : 2;
    c->tile_rows = s->caps->device_class == QN_CLASS_GPU ? 4 : s->caps->device_class == QN_CLASS_CPU_SCALAR ? 2 : 8;
    int64_t units = s->caps->compute_units ? s->caps->compute_units : 2;
    while (c->tile_rows > 4 &&
           (c->m % c->tile_rows != 0 || c->batch * (c->m / c->tile_rows) * ((fit + 1) / 2) < units * grid.items))
      c->tile_rows /= 2;
  }
  if (c->tile_rows > c->m)
    c->tile_rows = (uint32_t)c->m;
  c->unroll = grid.items > 1 && c->lanes == 4 && c->k % 4 == 0 && left_runs_along_k(s, c) ? 4 : 1;
}

static contract describe(const qn_schedule *s, const sched_part *p) {
  contract c = {.n = qn_graph_node(s->g, p->hero), .lanes = 1, .tile_rows = 1, .vectors = 1, .unroll = 1};
  c.dot = c.n->attr;
  c.lhs = qn_graph_type(s->g, c.n->operands[0]);
  c.rhs = qn_graph_type(s->g, c.n->operands[1]);
  listed_axes(c.lhs, &c.dot->lhs_batch, &c.batch_l);
  listed_axes(c.rhs, &c.dot->rhs_batch, &c.batch_r);
  listed_axes(c.lhs, &c.dot->lhs_contract, &c.k_l);
  listed_axes(c.rhs, &c.dot->rhs_contract, &c.k_r);
  free_axes(c.lhs, &c.dot->lhs_batch, &c.dot->lhs_contract, &c.rows);
  free_axes(c.rhs, &c.dot->rhs_batch, &c.dot->rhs_contract, &c.cols);
  c.m = qn_type_elements(&c.rows.shape);
  c.cols_n = qn_type_elements(&c.cols.shape);
  c.batch = qn_type_elements(&c.batch_l.shape);
  c.k = qn_type_elements(&c.k_l.shape);
  if (c.m && c.cols_n && c.batch)
    choose_tile(s, &c);
  return c;
}

typedef struct tiling {
  int64_t row_tiles, panels;
} tiling;

static tiling tiles_of(const contract *c) {
  int64_t width = (int64_t)c->lanes * c->vectors;
  return (tiling){(c->m + c->tile_rows - 1) / c->tile_rows, (c->cols_n + width - 1) / width};
}

emit_slots qn_contract_slots(const qn_schedule *s, const sched_part *p) {
  contract c = describe(s, p);
  tiling t = tiles_of(&c);
  return qn_emit_slots(s->caps, c.batch * t.row_tiles * t.panels,
                       (double)(c.tile_rows * c.vectors) * ((double)c.k + 16));
}

/* ---- one tile ---- */

typedef struct tile {
  const contract *c;
  uint32_t rows, vectors;
  bool masked; /* last vector */
  qn_ix batch[QN_MAX_RANK];
  qn_ix row[MAX_ROWS][QN_MAX_RANK];
  qn_ix col[MAX_VECTORS][QN_MAX_RANK];
  qn_sval mask[MAX_VECTORS];
  qn_ix k[QN_MAX_RANK];
  qn_sval acc[MAX_ROWS][MAX_VECTORS];
  qn_dtype wide;
  bool blocked; /* acc are the sums of a block; the totals are in `room` */
  qn_sval room; /* array of the tile's vectors, row by row */
} tile;

static void place(qn_ix *out, const axes *a, const qn_ix *idx) {
  for (int i = 0; i < a->count; i++)
    out[a->axis[i]] = idx[i];
}

static qn_sval left(qn_emit *e, const tile *t, uint32_t row) {
  qn_ix at[QN_MAX_RANK];
  place(at, &t->c->batch_l, t->batch);
  place(at, &t->c->rows, t->row[row]);
  place(at, &t->c->k_l, t->k);
  return qs_convert(e->k, t->wide, qn_emit_value(e, t->c->n->operands[0], at, (qn_sval){0}));
}

static qn_sval right(qn_emit *e, const tile *t, uint32_t vector) {
  qn_ix at[QN_MAX_RANK];
  place(at, &t->c->batch_r, t->batch);
  place(at, &t->c->cols, t->col[vector]);
  place(at, &t->c->k_r, t->k);
  return qs_convert(e->k, t->wide, qn_emit_value(e, t->c->n->operands[1], at, t->mask[vector]));
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

/* One k, or `unroll` of them with the left elements loaded together. */
static void step(qn_emit *e, tile *t, qn_sval k) {
  const contract *c = t->c;
  int last = c->k_l.count - 1;
  qn_sval a[MAX_ROWS];
  if (c->unroll > 1) {
    t->k[last] = qn_ix_lanes(e, k, 1, c->unroll);
    for (uint32_t r = 0; r < t->rows; r++)
      a[r] = left(e, t, r);
  }
  for (uint32_t u = 0; u < c->unroll; u++) {
    if (last >= 0)
      t->k[last] = qn_ix_add_const(e, qn_ix_scalar(e, k, c->unroll), u);
    for (uint32_t v = 0; v < t->vectors; v++) {
      qn_sval b = right(e, t, v);
      for (uint32_t r = 0; r < t->rows; r++) {
        bool packed = c->unroll > 1 && qn_kb_lanes(e->b, a[r]) > 1;
        qn_sval x = c->unroll == 1 ? left(e, t, r) : packed ? qn_kb_extract(e->b, a[r], u) : a[r];
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
  return qs_const(e->k, QN_I32, (double)((r * t->vectors + v) * e->lanes));
}

/* The innermost axis in blocks: sums of short runs lose less. */
static void walk_blocks(qn_emit *e, tile *t, int64_t size) {
  size_t outer = 0, inner = qn_emit_memo_mark(e);
  qn_sval begin = qn_emit_loop(e, 0, size, SUM_BLOCK, &outer), n = qs_const(e->k, QN_I32, (double)size);
  qn_sval end = qs_add(e->k, begin, qs_const(e->k, QN_I32, SUM_BLOCK));
  if (size % SUM_BLOCK)
    end = qs_select(e->k, qs_lt(e->k, end, n), end, n);
  open_accumulators(e, t);
  qn_sval k = qn_kb_loop(e->b, begin, end, t->c->unroll, true);
  step(e, t, k);
  qn_emit_close(e, inner);
  for (uint32_t r = 0; r < t->rows; r++)
    for (uint32_t v = 0; v < t->vectors; v++) {
      qn_sval at = room_index(e, t, r, v), total = qn_kb_aload(e->b, t->room, at, e->lanes);
      qn_kb_astore(e->b, t->room, at, qs_add(e->k, total, qn_kb_get(e->b, t->acc[r][v])));
    }
  qn_emit_close(e, outer);
}

static void walk_k(qn_emit *e, tile *t, int axis) {
  const contract *c = t->c;
  int last = c->k_l.count - 1;
  if (last < 0) {
    step(e, t, qs_const(e->k, QN_I32, 0));
    return;
  }
  if (axis == last && t->blocked) {
    walk_blocks(e, t, c->k_l.shape.dims[axis]);
    return;
  }
  size_t mark;
  qn_sval i = qn_emit_loop(e, 0, c->k_l.shape.dims[axis], axis == last ? c->unroll : 1, &mark);
  if (axis == last) {
    step(e, t, i);
  } else {
    t->k[axis] = qn_ix_scalar(e, i, 1);
    walk_k(e, t, axis + 1);
  }
  qn_emit_close(e, mark);
}

static void epilogue(qn_emit *e, tile *t, const qn_ix *row, const qn_ix *col, qn_sval acc, qn_sval mask) {
  const contract *c = t->c;
  const qn_type *out = qn_graph_type(e->s->g, c->n->first_result);
  qn_ix idx[QN_MAX_RANK], at[QN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < c->batch_l.count; i++)
    idx[n++] = t->batch[i];
  for (int i = 0; i < c->rows.count; i++)
    idx[n++] = row[i];
  for (int i = 0; i < c->cols.count; i++)
    idx[n++] = col[i];
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
  qn_ix_delinearize(e, m, c->rows.shape.rank, c->rows.shape.dims, row);
  for (uint32_t v = 0; v < (t->masked ? t->vectors : 1); v++) {
    qn_sval vector = t->masked ? qs_const(e->k, QN_I32, v) : qn_ix_value(e, qn_ix_mod_const(e, at, width));
    qn_sval base = qs_add(e->k, n0, qs_mul(e->k, vector, qs_const(e->k, QN_I32, c->lanes)));
    qn_sval slot = t->masked ? qs_add(e->k, qs_mul(e->k, q, qs_const(e->k, QN_I32, t->vectors)), vector) : q;
    qn_ix_delinearize(e, qn_ix_lanes(e, base, 1, c->lanes), c->cols.shape.rank, c->cols.shape.dims, col);
    qn_sval acc = qn_kb_aload(e->b, t->room, qs_mul(e->k, slot, qs_const(e->k, QN_I32, e->lanes)), e->lanes);
    epilogue(e, t, row, col, acc, t->mask[v]);
  }
  qn_emit_close(e, mark);
}

static qn_dtype wide_dtype(const qn_emit *e, const contract *c) {
  qn_dtype in = qn_dtype_wide(c->lhs->dtype), out = qn_dtype_wide(qn_graph_type(e->s->g, c->n->first_result)->dtype);
  return qn_dtype_size(out) >= qn_dtype_size(in) ? out : in;
}

static void emit_tile(qn_emit *e, const contract *c, uint32_t rows, uint32_t vectors, bool masked, const qn_ix *batch,
                      qn_sval m0, qn_sval n0) {
  tile t = {.c = c, .rows = rows, .vectors = vectors, .masked = masked, .wide = wide_dtype(e, c)};
  size_t mark = qn_emit_memo_mark(e);
  memcpy(t.batch, batch, sizeof t.batch);
  for (uint32_t r = 0; r < rows; r++) {
    qn_ix m = qn_ix_add_const(e, qn_ix_scalar(e, m0, c->tile_rows), r);
    qn_ix_delinearize(e, m, c->rows.shape.rank, c->rows.shape.dims, t.row[r]);
  }
  for (uint32_t v = 0; v < vectors; v++) {
    qn_sval base = qs_add(e->k, n0, qs_const(e->k, QN_I32, (double)(v * c->lanes)));
    qn_ix_delinearize(e, qn_ix_lanes(e, base, 1, c->lanes), c->cols.shape.rank, c->cols.shape.dims, t.col[v]);
    if (masked && v == vectors - 1)
      t.mask[v] = qn_emit_lane_mask(e, base, c->cols_n);
  }
  bool looped = rows * vectors >= LOOPED_VECTORS;
  t.blocked = qn_dtype_is_float(t.wide) && c->k_l.count && c->k_l.shape.dims[c->k_l.count - 1] > SUM_BLOCK;
  if (looped || t.blocked)
    t.room = qn_kb_array(e->b, t.wide, rows * vectors * e->lanes, false);
  for (uint32_t r = 0; t.blocked && r < rows; r++)
    for (uint32_t v = 0; v < vectors; v++)
      qn_kb_astore(e->b, t.room, room_index(e, &t, r, v), qn_kb_splat(e->b, qs_const(e->k, t.wide, 0), e->lanes));
  if (!t.blocked)
    open_accumulators(e, &t);
  if (c->k > 0)
    walk_k(e, &t, 0);
  if (looped)
    looped_epilogue(e, &t, m0, n0);
  for (uint32_t r = 0; !looped && r < rows; r++)
    for (uint32_t v = 0; v < vectors; v++) {
      qn_sval acc =
          t.blocked ? qn_kb_aload(e->b, t.room, room_index(e, &t, r, v), e->lanes) : qn_kb_get(e->b, t.acc[r][v]);
      epilogue(e, &t, t.row[r], t.col[v], acc, t.mask[v]);
    }
  qn_emit_memo_drop(e, mark);
}

/* Whole or remaining columns of a row tile. */
static void emit_columns(qn_emit *e, const contract *c, uint32_t rows, const qn_ix *batch, qn_sval m0, qn_sval panel) {
  int64_t width = (int64_t)c->lanes * c->vectors, rest = c->cols_n % width, whole = c->cols_n / width;
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
  /* Row tiles run fastest: neighbours share a panel of the right operand. */
  qn_ix s = qn_ix_scalar(e, slot, 1), batch[QN_MAX_RANK] = {0};
  qn_sval row_tile = qn_ix_value(e, qn_ix_mod_const(e, s, t.row_tiles));
  qn_ix rest = qn_ix_div_const(e, s, t.row_tiles);
  qn_sval panel = qn_ix_value(e, c.batch == 1 ? rest : qn_ix_mod_const(e, rest, t.panels));
  qn_ix_delinearize(e, c.batch == 1 ? qn_ix_const(e, 0) : qn_ix_div_const(e, rest, t.panels), c.batch_l.shape.rank,
                    c.batch_l.shape.dims, batch);
  qn_sval m0 = qs_mul(e->k, row_tile, qs_const(e->k, QN_I32, (double)c.tile_rows));
  uint32_t rest_rows = (uint32_t)(c.m % c.tile_rows);
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
