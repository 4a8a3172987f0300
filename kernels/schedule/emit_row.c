/* Row parts: reductions with everything around them. For each result element (or lanes of neighbouring ones) the reduced axes are walked once a
 * phase: a phase computes every reduction whose operand needs no result of the same phase. Softmax is two phases and an output pass.
 *
 * The order of a sum is a function of the shape alone (docs/numerics.md). If the minor-most axis is reduced and has 16 elements or more, sixteen
 * lanes take its elements in turn and are then folded by halves; otherwise elements are folded one after the other, and lanes run along results. */
#include "lower.h"
#include "schedule.h"

#include <math.h>
#include <string.h>

typedef struct row_state {
  const sched_part *p;
  const qn_type *x;        /* domain */
  qn_type results;         /* shape */
  bool minor;              /* lanes run along the minor-most, reduced axis */
  bool outputs;            /* this pass stores; its order doesn't matter */
  qn_sval slice;           /* minor, devices with fewer than 16 lanes: first of the 16 lanes that this round takes */
  qn_ix at[QN_MAX_RANK];   /* index of the domain; reduced axes are set by loops */
  qn_ix pidx[QN_MAX_RANK]; /* index of the results */
  qn_sval mask;            /* of result lanes */
} row_state;

typedef struct accumulator {
  uint32_t node;
  int count;                       /* operands */
  qn_op simple;                    /* body is this one operation, or QN_OP_NONE */
  qn_dtype dtype[8];               /* of the accumulators: narrow floats are held wide under a simple body */
  qn_sval var[8], first;           /* first: bool variable, where no identity is known */
  qn_sval slices[8][REDUCE_LANES]; /* variables that keep the rounds' lanes */
} accumulator;

enum { MAX_PHASE = 16, MAX_WIDE = 8, LONG_WALK = 64 };

static bool lanes_along_minor(const sched_part *p) {
  int minor = p->domain.rank - 1;
  while (minor >= 0 && p->domain.dims[minor] == 1)
    minor--;
  return minor >= 0 && (p->reduced >> minor & 1u) && minor == p->domain.rank - 1 &&
         p->domain.dims[minor] >= REDUCE_LANES;
}

static uint32_t row_lanes(const qn_schedule *s, const sched_part *p) {
  qn_type r = qn_row_results(p);
  return qn_emit_fit_lanes(qn_emit_grid(s->caps).lanes, lanes_along_minor(p) ? REDUCE_LANES : qn_type_elements(&r));
}

static bool has_wide_outputs(const qn_schedule *s, const sched_part *p) {
  for (size_t i = 0; i < p->output_count; i++)
    if (s->values[p->outputs[i]].space == SPACE_PR)
      return true;
  return false;
}

/* Long columns: how many neighbouring vectors of results a processor's slot walks together, so that it reads more than a line of each row. */
static uint32_t wide_vectors(const qn_schedule *s, const sched_part *p) {
  qn_type r = qn_row_results(p);
  int64_t n = qn_type_elements(&r), lanes = row_lanes(s, p),
          units = s->caps->compute_units ? s->caps->compute_units : 2;
  if (qn_emit_grid(s->caps).items != 1 || lanes_along_minor(p) || p->reduce_count != 1 || n == 0 ||
      qn_type_elements(&p->domain) / n < LONG_WALK || has_wide_outputs(s, p))
    return 1;
  uint32_t v = MAX_WIDE;
  while (v > 1 && (n % (lanes * v) != 0 || n / (lanes * v) < 2 * units))
    v /= 2;
  return v;
}

emit_slots qn_row_slots(const qn_schedule *s, const sched_part *p) {
  qn_type r = qn_row_results(p);
  int64_t n = qn_type_elements(&r), lanes = lanes_along_minor(p) ? 1 : row_lanes(s, p) * wide_vectors(s, p);
  double walk = n ? (double)qn_type_elements(&p->domain) / (double)n : 1;
  double cost = lanes_along_minor(p) ? walk / REDUCE_LANES : walk * wide_vectors(s, p);
  return qn_emit_slots(s->caps, (n + lanes - 1) / lanes, 4 + 8 * cost * (double)(p->reduce_count + 1));
}

/* ---- bodies ---- */

/* x with op(identity, x) == x for every x, the sign of zero included. */
qn_sval qn_emit_identity(qn_emit *e, qn_op op, qn_dtype t) {
  bool f = qn_dtype_is_float(t);
  unsigned bits = (unsigned)(8 * qn_dtype_size(t));
  uint64_t ones = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1, top = UINT64_C(1) << (bits - 1);
  if (t == QN_BOOL)
    return qs_bits(e->k, t, op == QN_OP_AND || op == QN_OP_MINIMUM || op == QN_OP_MULTIPLY);
  if (op == QN_OP_ADD)
    return qs_bits(e->k, t, f ? top : 0);
  if (op == QN_OP_MULTIPLY)
    return qs_const(e->k, t, 1);
  if (op == QN_OP_AND)
    return qs_bits(e->k, t, ones);
  if (op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM) {
    bool max = op == QN_OP_MAXIMUM;
    if (f)
      return qs_const(e->k, t, max ? -INFINITY : INFINITY);
    if (qn_dtype_is_unsigned(t))
      return qs_bits(e->k, t, max ? 0 : ones);
    return qs_bits(e->k, t, max ? top : ones >> 1);
  }
  return qs_bits(e->k, t, 0); /* or, xor */
}

static const qn_graph *body_of(const qn_emit *e, const accumulator *a) {
  return qn_graph_node(e->s->g, a->node)->regions[0];
}

/* out = body(a, b); may be out == a */
static void combine(qn_emit *e, const accumulator *acc, const qn_sval *a, const qn_sval *b, qn_sval *out) {
  if (acc->simple != QN_OP_NONE) {
    qn_sval in[2] = {a[0], b[0]};
    out[0] = qn_op_get(acc->simple)->expand(e->k, in, NULL);
    return;
  }
  qn_sval args[16], res[8];
  memcpy(args, a, (size_t)acc->count * sizeof *args);
  memcpy(args + acc->count, b, (size_t)acc->count * sizeof *args);
  qn_emit_region(e, body_of(e, acc), args, res);
  memcpy(out, res, (size_t)acc->count * sizeof *out);
}

static qn_sval start_value(qn_emit *e, const accumulator *a, int i) {
  qn_sval init = a->simple != QN_OP_NONE ? qn_emit_identity(e, a->simple, a->dtype[i]) : qs_bits(e->k, a->dtype[i], 0);
  return qn_kb_splat(e->b, init, e->lanes);
}

static void accumulator_describe(qn_emit *e, accumulator *a, uint32_t node) {
  const qn_node *n = qn_graph_node(e->s->g, node);
  memset(a, 0, sizeof *a);
  a->node = node;
  a->count = n->operand_count / 2;
  a->simple = a->count == 1 ? qn_simple_body(n->regions[0]) : QN_OP_NONE;
  if (a->count > 8) {
    qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "reduce: %d operands, at most 8 are supported", a->count));
    a->count = 8;
  }
  for (int i = 0; i < a->count; i++) {
    qn_dtype t = qn_graph_type(e->s->g, n->operands[i])->dtype;
    a->dtype[i] = a->simple != QN_OP_NONE ? qn_dtype_wide(t) : t;
  }
}

static void accumulator_open(qn_emit *e, accumulator *a) {
  for (int i = 0; i < a->count; i++)
    a->var[i] = qn_kb_var(e->b, start_value(e, a, i));
  if (a->simple == QN_OP_NONE)
    a->first = qn_kb_var(e->b, qs_bits(e->k, QN_BOOL, 1));
}

static qn_sval full(qn_emit *e, qn_sval v) { return qn_kb_lanes(e->b, v) == 1 ? qn_kb_splat(e->b, v, e->lanes) : v; }

static void accumulate(qn_emit *e, const accumulator *a, const qn_ix *at, qn_sval mask, qn_sval lane_mask) {
  const qn_node *n = qn_graph_node(e->s->g, a->node);
  qn_sval x[8], now[8], sum[8];
  for (int i = 0; i < a->count; i++) {
    x[i] = full(e, qs_convert(e->k, a->dtype[i], qn_emit_value(e, n->operands[i], at, mask)));
    now[i] = qn_kb_get(e->b, a->var[i]);
  }
  combine(e, a, now, x, sum);
  qn_sval first = a->first.id ? qn_kb_get(e->b, a->first) : (qn_sval){0};
  for (int i = 0; i < a->count; i++) {
    if (first.id)
      sum[i] = qs_select(e->k, qn_kb_splat(e->b, first, e->lanes), x[i], sum[i]);
    if (lane_mask.id)
      sum[i] = qs_select(e->k, lane_mask, full(e, sum[i]), now[i]);
    qn_kb_set(e->b, a->var[i], full(e, sum[i]));
  }
  if (first.id)
    qn_kb_set(e->b, a->first, qs_bits(e->k, QN_BOOL, 0));
}

/* Folds the 16 lanes by halves: first those kept apart by rounds, then within a vector. */
static void fold_lanes(qn_emit *e, const accumulator *a, uint32_t rounds, qn_sval *v) {
  qn_sval part[REDUCE_LANES][8];
  for (uint32_t r = 0; r < rounds; r++)
    for (int i = 0; i < a->count; i++)
      part[r][i] = rounds > 1 ? qn_kb_get(e->b, a->slices[i][r]) : v[i];
  for (; rounds > 1; rounds /= 2)
    for (uint32_t r = 0; r < rounds / 2; r++)
      combine(e, a, part[r], part[r + rounds / 2], part[r]);
  memcpy(v, part[0], (size_t)a->count * sizeof *v);
  for (uint32_t lanes = e->lanes; lanes > 1; lanes /= 2) {
    qn_sval hi[8];
    for (int i = 0; i < a->count; i++) {
      hi[i] = qn_kb_high(e->b, v[i]);
      v[i] = qn_kb_low(e->b, v[i]);
    }
    combine(e, a, v, hi, v);
  }
}

/* Folds lanes, then the initial value, and names the results. */
static void accumulator_close(qn_emit *e, const accumulator *a, bool minor, bool empty) {
  const qn_node *n = qn_graph_node(e->s->g, a->node);
  uint32_t rounds = minor ? REDUCE_LANES / e->lanes : 1;
  qn_sval v[8], init[8];
  for (int i = 0; i < a->count; i++) {
    init[i] = qs_convert(e->k, a->dtype[i], qn_emit_value(e, n->operands[a->count + i], NULL, (qn_sval){0}));
    if (!empty && rounds == 1)
      v[i] = qn_kb_get(e->b, a->var[i]);
  }
  if (minor && !empty)
    fold_lanes(e, a, rounds, v);
  if (!empty)
    combine(e, a, init, v, v);
  for (int i = 0; i < a->count; i++) {
    qn_dtype t = qn_graph_type(e->s->g, n->first_result + (uint32_t)i)->dtype;
    qn_emit_override(e, n->first_result + (uint32_t)i, qs_convert(e->k, t, empty ? init[i] : v[i]));
  }
}

/* ---- walking the reduced axes ---- */

typedef void (*row_visit)(qn_emit *e, row_state *r, qn_sval mask, qn_sval lane_mask, void *user);

static void visit_minor(qn_emit *e, row_state *r, int axis, row_visit visit, void *user) {
  int64_t n = r->x->dims[axis], step = r->outputs ? (int64_t)e->lanes : REDUCE_LANES, whole = n - n % step;
  size_t mark;
  qn_sval j = qn_emit_loop(e, 0, whole, step, &mark);
  r->at[axis] = qn_ix_lanes(e, r->slice.id ? qs_add(e->k, j, r->slice) : j, 1, e->lanes);
  visit(e, r, (qn_sval){0}, (qn_sval){0}, user);
  qn_emit_close(e, mark);
  if (whole == n)
    return;
  mark = qn_emit_memo_mark(e);
  qn_sval base = qs_const(e->k, QN_I32, (double)whole);
  base = r->slice.id ? qs_add(e->k, base, r->slice) : base;
  r->at[axis] = qn_ix_lanes(e, base, 1, e->lanes);
  qn_sval lane_mask = qn_emit_lane_mask(e, base, n);
  visit(e, r, lane_mask, lane_mask, user);
  qn_emit_memo_drop(e, mark);
}

static void walk(qn_emit *e, row_state *r, int axis, row_visit visit, void *user) {
  while (axis < r->x->rank && !(r->p->reduced >> axis & 1u))
    axis++;
  if (axis == r->x->rank) {
    visit(e, r, r->mask, (qn_sval){0}, user);
    return;
  }
  if (r->minor && axis == r->x->rank - 1) {
    visit_minor(e, r, axis, visit, user);
    return;
  }
  if (r->x->dims[axis] == 1) {
    r->at[axis] = qn_ix_const(e, 0);
    walk(e, r, axis + 1, visit, user);
    return;
  }
  size_t mark;
  qn_sval i = qn_emit_loop(e, 0, r->x->dims[axis], 1, &mark);
  r->at[axis] = qn_ix_scalar(e, i, 1);
  walk(e, r, axis + 1, visit, user);
  qn_emit_close(e, mark);
}

/* ---- phases ---- */

static bool depends_on(const qn_schedule *s, uint32_t v, const uint32_t *nodes, size_t count, uint32_t walk_id) {
  sched_value *sv = &s->values[v];
  if (sv->settled == walk_id || sv->align < 0)
    return false;
  sv->settled = walk_id;
  const qn_node *n = qn_graph_def(s->g, v);
  for (size_t i = 0; i < count; i++)
    if (n == qn_graph_node(s->g, nodes[i]))
      return true;
  for (int i = 0; i < n->operand_count; i++)
    if (depends_on(s, n->operands[i], nodes, count, walk_id))
      return true;
  return false;
}

/* How many reductions from `from` on make one phase. */
static size_t phase_size(const qn_emit *e, size_t from) {
  const sched_part *p = e->part;
  size_t n = 1;
  for (; from + n < p->reduce_count && n < MAX_PHASE; n++) {
    const qn_node *next = qn_graph_node(e->s->g, p->reduces[from + n]);
    for (int i = 0; i < next->operand_count; i++)
      if (depends_on(e->s, next->operands[i], p->reduces + from, n, ++e->s->walks))
        return n;
  }
  return n;
}

typedef struct phase {
  accumulator acc[MAX_PHASE];
  size_t count;
} phase;

static void visit_phase(qn_emit *e, row_state *r, qn_sval mask, qn_sval lane_mask, void *user) {
  phase *ph = user;
  for (size_t i = 0; i < ph->count; i++)
    accumulate(e, &ph->acc[i], r->at, mask, lane_mask);
}

static void visit_outputs(qn_emit *e, row_state *r, qn_sval mask, qn_sval lane_mask, void *user) {
  (void)user;
  (void)lane_mask;
  qn_sval vals[PART_OUTPUTS_ROOM];
  for (size_t i = 0; i < r->p->output_count; i++)
    if (e->s->values[r->p->outputs[i]].space == SPACE_PR)
      vals[i] = qn_emit_value(e, r->p->outputs[i], r->at, mask);
  for (size_t i = 0; i < r->p->output_count; i++)
    if (e->s->values[r->p->outputs[i]].space == SPACE_PR)
      qn_emit_store(e, r->p->outputs[i], r->at, vals[i], mask);
}

static void result_outputs(qn_emit *e, row_state *r) {
  qn_sval vals[PART_OUTPUTS_ROOM];
  qn_ix at[QN_MAX_RANK];
  for (size_t i = 0; i < r->p->output_count; i++) {
    const qn_type *t = qn_graph_type(e->s->g, r->p->outputs[i]);
    if (e->s->values[r->p->outputs[i]].space != SPACE_P)
      continue;
    qn_emit_space_index(e, &r->results, r->pidx, t, at);
    vals[i] = qn_emit_value(e, r->p->outputs[i], at, r->mask);
  }
  for (size_t i = 0; i < r->p->output_count; i++) {
    const qn_type *t = qn_graph_type(e->s->g, r->p->outputs[i]);
    if (e->s->values[r->p->outputs[i]].space != SPACE_P)
      continue;
    qn_emit_space_index(e, &r->results, r->pidx, t, at);
    qn_emit_store(e, r->p->outputs[i], at, vals[i], r->mask);
  }
}

static void run_phase(qn_emit *e, row_state *r, phase *ph) {
  for (size_t i = 0; i < ph->count; i++)
    accumulator_open(e, &ph->acc[i]);
  walk(e, r, 0, visit_phase, ph);
}

/* Fewer lanes than 16: a loop over rounds, each of which walks the axes for its share of the lanes. The order within a lane is the same. */
static void run_rounds(qn_emit *e, row_state *r, phase *ph) {
  uint32_t rounds = REDUCE_LANES / e->lanes;
  for (size_t i = 0; i < ph->count; i++)
    for (int j = 0; j < ph->acc[i].count; j++)
      for (uint32_t k = 0; k < rounds; k++)
        ph->acc[i].slices[j][k] = qn_kb_var(e->b, start_value(e, &ph->acc[i], j));
  size_t mark;
  r->slice = qn_emit_loop(e, 0, REDUCE_LANES, e->lanes, &mark);
  run_phase(e, r, ph);
  for (size_t i = 0; i < ph->count; i++)
    for (int j = 0; j < ph->acc[i].count; j++)
      for (uint32_t k = 0; k < rounds; k++) {
        qn_sval mine = qs_eq(e->k, r->slice, qs_const(e->k, QN_I32, (double)(k * e->lanes)));
        qn_sval slot = ph->acc[i].slices[j][k], now = qn_kb_get(e->b, ph->acc[i].var[j]);
        qn_kb_set(e->b, slot, qs_select(e->k, qn_kb_splat(e->b, mine, e->lanes), now, qn_kb_get(e->b, slot)));
      }
  qn_emit_close(e, mark);
  r->slice = (qn_sval){0};
}

static void row_body(qn_emit *e, row_state *r) {
  int axis = 0;
  for (int i = 0; i < r->x->rank; i++)
    if (!(r->p->reduced >> i & 1u))
      r->at[i] = r->pidx[axis++];
  bool empty = qn_type_elements(r->x) == 0;
  phase ph;
  for (size_t done = 0; done < r->p->reduce_count; done += ph.count) {
    ph.count = phase_size(e, done);
    for (size_t i = 0; i < ph.count; i++)
      accumulator_describe(e, &ph.acc[i], r->p->reduces[done + i]);
    if (!empty && r->minor && e->lanes < REDUCE_LANES)
      run_rounds(e, r, &ph);
    else if (!empty)
      run_phase(e, r, &ph);
    for (size_t i = 0; i < ph.count; i++)
      accumulator_close(e, &ph.acc[i], r->minor, empty);
  }
  r->outputs = true;
  if (has_wide_outputs(e->s, r->p) && !empty)
    walk(e, r, 0, visit_outputs, NULL);
  r->outputs = false;
  result_outputs(e, r);
  qn_emit_overrides_drop(e, 0);
}

/* Several vectors of results whose columns are walked together: a row's lines are read one after the other. */
typedef struct wide_state {
  uint32_t vectors;
  accumulator acc[MAX_WIDE];
  qn_ix at[MAX_WIDE][QN_MAX_RANK], pidx[MAX_WIDE][QN_MAX_RANK];
} wide_state;

static void visit_wide(qn_emit *e, row_state *r, qn_sval mask, qn_sval lane_mask, void *user) {
  wide_state *w = user;
  for (uint32_t v = 0; v < w->vectors; v++) {
    for (int i = 0; i < r->x->rank; i++)
      if (r->p->reduced >> i & 1u)
        w->at[v][i] = r->at[i];
    accumulate(e, &w->acc[v], w->at[v], mask, lane_mask);
  }
}

static void wide_body(qn_emit *e, row_state *r, qn_sval slot, uint32_t vectors) {
  wide_state w = {.vectors = vectors};
  for (uint32_t v = 0; v < vectors; v++) {
    qn_sval first = qs_mul(e->k, slot, qs_const(e->k, QN_I32, (double)(vectors * e->lanes)));
    qn_sval base = qs_add(e->k, first, qs_const(e->k, QN_I32, (double)(v * e->lanes)));
    qn_ix_delinearize(e, qn_ix_lanes(e, base, 1, e->lanes), r->results.rank, r->results.dims, w.pidx[v]);
    for (int i = 0, axis = 0; i < r->x->rank; i++)
      if (!(r->p->reduced >> i & 1u))
        w.at[v][i] = w.pidx[v][axis++];
    accumulator_describe(e, &w.acc[v], r->p->reduces[0]);
    accumulator_open(e, &w.acc[v]);
  }
  walk(e, r, 0, visit_wide, &w);
  for (uint32_t v = 0; v < vectors; v++) {
    size_t mark = qn_emit_memo_mark(e);
    accumulator_close(e, &w.acc[v], false, false);
    memcpy(r->pidx, w.pidx[v], sizeof r->pidx);
    result_outputs(e, r);
    qn_emit_overrides_drop(e, 0);
    qn_emit_memo_drop(e, mark);
  }
}

void qn_emit_row(qn_emit *e) {
  row_state r = {
      .p = e->part, .x = &e->part->domain, .results = qn_row_results(e->part), .minor = lanes_along_minor(e->part)};
  int64_t n = qn_type_elements(&r.results);
  e->lanes = row_lanes(e->s, e->part);
  emit_slots slots = qn_row_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  if (r.minor) {
    qn_ix_delinearize(e, qn_ix_scalar(e, slot, 1), r.results.rank, r.results.dims, r.pidx);
    row_body(e, &r);
  } else if (wide_vectors(e->s, e->part) > 1) {
    wide_body(e, &r, slot, wide_vectors(e->s, e->part));
  } else {
    int64_t lanes = e->lanes;
    qn_sval base = qs_mul(e->k, slot, qs_const(e->k, QN_I32, (double)lanes));
    qn_emit_set_origin(e, qn_ix_lanes(e, base, 1, lanes), &r.results, r.pidx);
    if (n % lanes == 0) {
      row_body(e, &r);
    } else {
      qn_kb_if(e->b, qs_le(e->k, base, qs_const(e->k, QN_I32, (double)(n - lanes))));
      size_t mark = qn_emit_memo_mark(e);
      row_body(e, &r);
      qn_emit_memo_drop(e, mark);
      qn_kb_else(e->b);
      r.mask = qn_emit_lane_mask(e, base, n);
      row_body(e, &r);
      qn_emit_close(e, mark);
    }
    e->origin.on = false;
  }
  qn_emit_slots_close(e, &slots);
}
