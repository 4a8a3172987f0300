/* How each kind of part is opened, or joined: which operands have to be in memory before, and what of the results is. */
#include "contract.h"
#include "fuse.h"

static const qn_type *type_of(const qn_schedule *s, uint32_t v) { return qn_graph_type(s->g, v); }

/* ---- contraction operands ---- */

/* Does operand `v` walk memory with stride 1 along its axis `axis`? Follows transposes; anything computed is as good as contiguous. */
static bool contiguous_along(const qn_schedule *s, uint32_t v, int64_t axis) {
  for (;;) {
    const qn_type *t = type_of(s, v);
    const qn_node *n = qn_graph_def(s->g, v);
    bool keeps_axes = n->op == QN_OP_REVERSE || n->op == QN_OP_SLICE;
    if (s->values[v].material || (n->op != QN_OP_TRANSPOSE && !keeps_axes))
      return axis == t->rank - 1 || t->dims[axis] == 1;
    if (n->op == QN_OP_REVERSE && qn_dims_has(&((const qn_attr_dims *)n->attr)->dims, axis))
      return t->dims[axis] == 1;
    axis = keeps_axes ? axis : ((const qn_attr_dims *)n->attr)->dims.d[axis];
    v = n->operands[0];
  }
}

/* A window's elements are read once for every tap and every tile of columns: only movements are made again each time. */
static bool stays_lazy(const qn_schedule *s, const qn_node *n, int operand, bool many_rows) {
  uint32_t v = n->operands[operand];
  if (n->op == QN_OP_CONVOLUTION && (operand == 0 || many_rows))
    return s->values[v].cost == 0;
  return s->values[v].cost <= CHEAP_COST;
}

static qn_status open_contract(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  const qn_type *out = type_of(s, n->first_result);
  int64_t lane_axis = qn_contraction_lane_axis(s->g, n);
  bool many_rows = lane_axis >= 0 && qn_type_elements(out) > 8 * type_of(s, n->operands[1])->dims[lane_axis];
  for (int i = 0; i < 2; i++) {
    uint32_t v = n->operands[i];
    bool strided = i == 1 && many_rows && !contiguous_along(s, v, lane_axis);
    if (!s->values[v].material && (s->no_fusion || strided || !stays_lazy(s, n, i, many_rows)))
      QN_TRY(qn_fuse_materialise(s, v));
    QN_TRY(qn_fuse_settle(s, v, -1, ++s->walks));
  }
  int part;
  QN_TRY(qn_fuse_open(s, PART_CONTRACT, out, index, &part));
  QN_TRY(qn_fuse_need_all(s, part, n->operands, 2, false));
  qn_fuse_align_results(s, n, part);
  return QN_OK;
}

/* ---- reductions ---- */

static uint32_t axes_mask(const qn_dims *d) {
  uint32_t m = 0;
  for (int i = 0; i < d->n; i++)
    m |= 1u << d->d[i];
  return m;
}

/* A row part that this reduce may join as another phase or beside another reduction of the same pass. */
static int find_row(const qn_schedule *s, const qn_node *n, uint32_t mask, int operands) {
  int dep = -1;
  uint64_t sources = 0;
  for (int i = 0; i < n->operand_count; i++) {
    const sched_value *o = &s->values[n->operands[i]];
    dep = o->dep > dep ? o->dep : dep;
    sources |= i < operands ? o->sources : 0;
  }
  const qn_type *x = type_of(s, n->operands[0]);
  for (int p = (int)s->part_count - 1; p >= dep && p >= 0; p--) {
    const sched_part *part = &s->parts[p];
    if (part->kind != PART_ROW || part->reduced != mask || !qn_type_same_shape(&part->domain, x))
      continue;
    bool fits = p > dep && (part->sources & sources);
    if (p == dep) {
      fits = true;
      for (int i = 0; i < n->operand_count; i++) {
        const sched_value *o = &s->values[n->operands[i]];
        fits &= o->dep < p || (i < operands && o->align == p && o->space == SPACE_PR);
      }
    }
    if (fits)
      return p;
  }
  return -1;
}

static qn_status place_reduce(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  int operands = n->operand_count / 2;
  uint32_t mask = axes_mask(&((const qn_attr_dims *)n->attr)->dims);
  int part = s->no_fusion ? -1 : find_row(s, n, mask, operands);
  for (int i = 0; i < n->operand_count; i++) {
    if (s->no_fusion)
      QN_TRY(qn_fuse_materialise(s, n->operands[i]));
    QN_TRY(qn_fuse_settle(s, n->operands[i], part, ++s->walks));
  }
  if (part < 0) {
    QN_TRY(qn_fuse_open(s, PART_ROW, type_of(s, n->operands[0]), index, &part));
    s->parts[part].reduced = mask;
  }
  sched_part *p = &s->parts[part];
  if (!QN_RESERVE(p->reduces, p->reduce_capacity, p->reduce_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a reduction");
  p->reduces[p->reduce_count++] = index;
  for (int i = 0; i < operands; i++)
    p->sources |= s->values[n->operands[i]].sources;
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_need(s, part, n->operands[i], i < operands));
  qn_fuse_align_results(s, n, part);
  return QN_OK;
}

/* ---- scatters, sorts, factorisations, running folds ---- */

/* All operands in memory, all results there: what a scatter and a factorisation are. */
static qn_status open_in_memory(qn_schedule *s, part_kind kind, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_materialise(s, n->operands[i]));
  int part;
  QN_TRY(qn_fuse_open(s, kind, type_of(s, n->first_result), index, &part));
  QN_TRY(qn_fuse_need_all(s, part, n->operands, n->operand_count, false));
  return qn_fuse_store_results(s, n, part);
}

static qn_status open_scatter(qn_schedule *s, uint32_t index) { return open_in_memory(s, PART_SCATTER, index); }

qn_status qn_fuse_open_matrix(qn_schedule *s, uint32_t index) { return open_in_memory(s, PART_MATRIX, index); }

/* The first pass reads an element once for each of its stretch, so only what is as good as a load stays lazy. */
static qn_status open_sort(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  bool first = ((const qn_attr_runs *)n->attr)->sorted == 1;
  for (int i = 0; i < n->operand_count; i++) {
    if (s->no_fusion || !first || s->values[n->operands[i]].cost > CHEAP_COST)
      QN_TRY(qn_fuse_materialise(s, n->operands[i]));
    QN_TRY(qn_fuse_settle(s, n->operands[i], -1, ++s->walks));
  }
  int part;
  QN_TRY(qn_fuse_open(s, PART_SORT, type_of(s, n->first_result), index, &part));
  QN_TRY(qn_fuse_need_all(s, part, n->operands, n->operand_count, false));
  return qn_fuse_store_results(s, n, part);
}

/* Rows are walked once or twice, so operands that cost much are computed before. */
static qn_status open_scan(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  bool twice = ((const qn_attr_cumulative *)n->attr)->block > 0;
  for (int i = 0; i < n->operand_count; i++) {
    uint32_t v = n->operands[i];
    if (!s->values[v].material && (s->no_fusion || (twice && s->values[v].cost > CHEAP_COST)))
      QN_TRY(qn_fuse_materialise(s, v));
    QN_TRY(qn_fuse_settle(s, v, -1, ++s->walks));
  }
  int part;
  QN_TRY(qn_fuse_open(s, PART_SCAN, type_of(s, n->first_result), index, &part));
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_need(s, part, n->operands[i],
                        qn_type_same_shape(type_of(s, n->operands[i]), type_of(s, n->first_result))));
  qn_fuse_align_results(s, n, part);
  return QN_OK;
}

/* ---- the table ---- */

const fuse_opener qn_fuse_openers[] = {{QN_OP_DOT_GENERAL, open_contract}, {QN_OP_CONVOLUTION, open_contract},
                                       {QN_OP_REDUCE, place_reduce},       {QN_OP_SCATTER, open_scatter},
                                       {QN_OP_SORT_RUNS, open_sort},       {QN_OP_CUMULATIVE, open_scan},
                                       {QN_OP_WHILE, qn_fuse_open_loop}};
const size_t qn_fuse_opener_count = sizeof qn_fuse_openers / sizeof *qn_fuse_openers;
