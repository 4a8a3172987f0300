/* Cuts a graph into parts: which values are computed where, and which of them reach memory.
 *
 * One walk in dependency order. Contractions, reductions and scatters open parts (or join one); everything else stays lazy until something
 * needs it in memory: a result, an operand of a contraction that isn't cheap to recompute, a value that another part reads. A lazy value that is
 * aligned with the highest part it depends on is then stored by that part, as its epilogue; any other gets a map part. Because a value only ever
 * joins the highest part it depends on, parts stay numbered in dependency order and no cycle can arise. */
#include "fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COSTLY_SHARED = 48, LONG_COST = 2000 };

static const qn_type *type_of(const qn_schedule *s, uint32_t v) { return qn_graph_type(s->g, v); }

qn_status qn_fuse_open(qn_schedule *s, part_kind kind, const qn_type *domain, uint32_t hero, int *out_part) {
  *out_part = -1;
  if (!QN_RESERVE(s->parts, s->part_capacity, s->part_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for another kernel");
  s->parts[s->part_count] = (sched_part){.kind = kind, .domain = *domain, .hero = hero};
  *out_part = (int)s->part_count++;
  return QN_OK;
}

static qn_status add_output(sched_part *p, uint32_t v) {
  if (!QN_RESERVE(p->outputs, p->output_capacity, p->output_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for the outputs of a kernel");
  p->outputs[p->output_count++] = v;
  return QN_OK;
}

qn_status qn_fuse_store_results(qn_schedule *s, const qn_node *n, int part) {
  for (int i = 0; i < n->result_count; i++) {
    uint32_t v = n->first_result + (uint32_t)i;
    s->values[v] = (sched_value){.dep = part,
                                 .align = -1,
                                 .part = part,
                                 .material = true,
                                 .uses = s->values[v].uses,
                                 .sources = UINT64_C(1) << (v % 64)};
    QN_TRY(add_output(&s->parts[part], v));
  }
  return QN_OK;
}

void qn_fuse_align_results(qn_schedule *s, const qn_node *n, int part) {
  for (int i = 0; i < n->result_count; i++) {
    uint32_t v = n->first_result + (uint32_t)i;
    sched_value *sv = &s->values[v];
    sv->align = sv->dep = part;
    sv->part = -1;
    sv->space = SPACE_P;
    sv->cost = COST_MAX;
    sv->sources = UINT64_C(1) << (v % 64);
  }
}

/* ---- shapes ---- */

/* The shape of a row part's results: the domain without the reduced axes. */
qn_type qn_row_results(const sched_part *p) {
  qn_type t = {.dtype = p->domain.dtype};
  for (int i = 0; i < p->domain.rank; i++)
    if (!(p->reduced >> i & 1u))
      t.dims[t.rank++] = p->domain.dims[i];
  return t;
}

/* Does broadcast_in_dim put a SPACE_P value of row part `p` back over the reduced axes, each axis where it came from? */
static bool broadcast_returns(const sched_part *p, const qn_type *in, const qn_type *out, const qn_dims *axes) {
  if (!qn_type_same_shape(out, &p->domain))
    return false;
  uint32_t covered = 0;
  for (int i = 0; i < in->rank; i++) {
    if (in->dims[i] == 1 && out->dims[axes->d[i]] != 1)
      continue;
    if (p->reduced >> axes->d[i] & 1u && out->dims[axes->d[i]] != 1)
      return false;
    covered |= 1u << axes->d[i];
  }
  for (int i = 0; i < out->rank; i++)
    if (!(p->reduced >> i & 1u) && out->dims[i] != 1 && !(covered >> i & 1u))
      return false;
  return true;
}

/* ---- alignment of one node's result ---- */

static uint32_t own_cost(const qn_node *n) {
  static const struct {
    qn_op op;
    uint32_t cost;
  } costs[] = {{QN_OP_EXPONENTIAL, 16},
               {QN_OP_LOG, 20},
               {QN_OP_TANH, 20},
               {QN_OP_LOGISTIC, 20},
               {QN_OP_POWER, 60},
               {QN_OP_SINE, 40},
               {QN_OP_COSINE, 40},
               {QN_OP_TAN, 50},
               {QN_OP_ERF, 24},
               {QN_OP_ERF_INV, 40},
               {QN_OP_DIVIDE, 6},
               {QN_OP_SQRT, 6},
               {QN_OP_RSQRT, 8},
               {QN_OP_REMAINDER, 40},
               {QN_OP_LGAMMA, 80},
               {QN_OP_DIGAMMA, 80},
               {QN_OP_ATAN2, 40},
               {QN_OP_CBRT, 20},
               {QN_OP_LOG_PLUS_ONE, 24},
               {QN_OP_EXPONENTIAL_MINUS_ONE, 20},
               {QN_OP_POLYGAMMA, 200},
               {QN_OP_ZETA, 200},
               {QN_OP_BESSEL_I1E, 60},
               {QN_OP_GATHER, 8},
               {QN_OP_DYNAMIC_UPDATE_SLICE, 6},
               {QN_OP_CONCATENATE, 4},
               {QN_OP_PAD, 4},
               {QN_OP_WINDOWS, 4}};
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
    if (costs[i].op == n->op)
      return costs[i].cost;
  return qn_op_get(n->op)->kind == QN_KIND_ELEMENTWISE ? 1 : 0;
}

static void inherit(const qn_schedule *s, const qn_node *n, sched_value *out) {
  out->align = -1;
  out->dep = -1;
  out->cost = own_cost(n);
  for (int i = 0; i < n->operand_count; i++) {
    const sched_value *o = &s->values[n->operands[i]];
    if (o->dep > out->dep)
      out->dep = o->dep;
    if (!o->material && out->cost < COST_MAX)
      out->cost += o->cost;
    out->sources |= o->sources;
  }
}

/* What a row, contraction or scatter computes is there only at the element at hand: an operand that depends on it in another way keeps the node out. A
 * map is computed anew at whatever index. */
static bool all_at_hand(const qn_schedule *s, const qn_node *n, const sched_value *as) {
  if (s->parts[as->align].kind == PART_MAP)
    return true;
  for (int i = 0; i < n->operand_count; i++) {
    const sched_value *o = &s->values[n->operands[i]];
    if (o->dep >= as->align && (o->align != as->align || o->space != as->space))
      return false;
  }
  return true;
}

static void align_elementwise(const qn_schedule *s, const qn_node *n, const qn_type *t, sched_value *out) {
  for (int i = 0; i < n->operand_count; i++) {
    const sched_value *o = &s->values[n->operands[i]];
    if (o->align < 0 || o->align != out->dep || !qn_type_same_shape(type_of(s, n->operands[i]), t))
      continue;
    if (!all_at_hand(s, n, o))
      return;
    out->align = o->align;
    out->space = o->space;
    return;
  }
}

static void align_move(const qn_schedule *s, const qn_node *n, const qn_type *t, sched_value *out) {
  const sched_value *o = &s->values[n->operands[0]];
  if (o->align < 0 || o->align != out->dep)
    return;
  const sched_part *p = &s->parts[o->align];
  const qn_type *in = type_of(s, n->operands[0]);
  if (n->op == QN_OP_OPTIMIZATION_BARRIER) {
    out->align = o->align;
    out->space = o->space;
  } else if (n->op == QN_OP_RESHAPE && o->space == SPACE_P && qn_type_same_but_units(in, t)) {
    out->align = o->align;
    out->space = SPACE_P;
  } else if (n->op == QN_OP_BROADCAST_IN_DIM && o->space == SPACE_P && p->kind == PART_ROW &&
             broadcast_returns(p, in, t, &((const qn_attr_dims *)n->attr)->dims)) {
    out->align = o->align;
    out->space = SPACE_PR;
  }
}

/* ---- materialising ---- */

qn_status qn_fuse_add_input(sched_part *p, uint32_t v, bool identity) {
  for (size_t i = 0; i < p->input_count; i++)
    if (p->inputs[i].value == v) {
      p->inputs[i].identity &= identity;
      return QN_OK;
    }
  if (!QN_RESERVE(p->inputs, p->input_capacity, p->input_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for the inputs of a kernel");
  p->inputs[p->input_count++] = (sched_input){v, identity};
  return QN_OK;
}

/* Is operand `i` of `n` read at the same element as the result? */
static bool reads_identity(const qn_schedule *s, const qn_node *n, const qn_type *t, int i) {
  if (qn_op_get(n->op)->kind == QN_KIND_ELEMENTWISE)
    return qn_type_same_shape(type_of(s, n->operands[i]), t);
  if (n->op == QN_OP_DYNAMIC_UPDATE_SLICE)
    return i == 0;
  if (n->op == QN_OP_OPTIMIZATION_BARRIER)
    return true;
  return n->op == QN_OP_RESHAPE && qn_type_same_but_units(type_of(s, n->operands[i]), t);
}

static bool is_hero_of(const qn_schedule *s, int part, uint32_t v) {
  const sched_part *p = &s->parts[part];
  const qn_node *n = qn_graph_def(s->g, v);
  if (qn_part_kinds[p->kind].one_node)
    return n == qn_graph_node(s->g, p->hero);
  for (size_t i = 0; i < p->reduce_count; i++)
    if (n == qn_graph_node(s->g, p->reduces[i]))
      return true;
  return false;
}

/* Makes sure that everything part `part` reads to compute `v` is in memory, and notes it as an input. */
qn_status qn_fuse_need(qn_schedule *s, int part, uint32_t v, bool identity) {
  sched_value *sv = &s->values[v];
  /* What a later part has stored since is computed here once more: waiting for that part could close a circle. */
  if (sv->material && (sv->part < 0 || sv->part < part))
    return qn_fuse_add_input(&s->parts[part], v, identity);
  if (!sv->material && sv->align >= 0 && sv->align != part) {
    QN_TRY(qn_fuse_materialise(s, v));
    return qn_fuse_add_input(&s->parts[part], v, identity);
  }
  if (sv->align == part && is_hero_of(s, part, v))
    return QN_OK;
  const qn_node *n = qn_graph_def(s->g, v);
  const qn_type *t = type_of(s, v);
  /* Walked for this part already; a walk off the element also covers one at it, not the other way round. */
  if (sv->walked_moved == part + 1 || (identity && sv->walked == part + 1))
    return QN_OK;
  *(identity ? &sv->walked : &sv->walked_moved) = part + 1;
  qn_status st = QN_OK;
  for (int i = 0; i < n->operand_count && st == QN_OK; i++)
    st = qn_fuse_need(s, part, n->operands[i], identity && reads_identity(s, n, t, i));
  return st;
}

qn_status qn_fuse_need_all(qn_schedule *s, int part, const uint32_t *values, int count, bool identity) {
  for (int i = 0; i < count; i++)
    QN_TRY(qn_fuse_need(s, part, values[i], identity));
  return QN_OK;
}

qn_status qn_fuse_store(qn_schedule *s, int part, uint32_t v) {
  sched_value *sv = &s->values[v];
  sv->material = true;
  sv->part = part;
  sched_part *p = &s->parts[part];
  p->cost += sv->cost < COST_MAX ? sv->cost : COST_MAX;
  QN_TRY(add_output(p, v));
  if (is_hero_of(s, part, v))
    return QN_OK;
  const qn_node *n = qn_graph_def(s->g, v);
  const qn_type *t = type_of(s, v);
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_need(s, part, n->operands[i], reads_identity(s, n, t, i)));
  return QN_OK;
}

/* A map part of v's shape that v may join: it must not come before anything v depends on. */
static int find_map(const qn_schedule *s, uint32_t v) {
  const sched_value *sv = &s->values[v];
  for (int i = (int)s->part_count - 1; i > sv->dep && i >= 0; i--)
    if (s->parts[i].kind == PART_MAP && s->parts[i].output_count < PART_OUTPUTS &&
        s->parts[i].cost + sv->cost <= 2 * LONG_COST && qn_type_same_shape(&s->parts[i].domain, type_of(s, v)) &&
        (s->parts[i].sources & sv->sources))
      return i;
  return -1;
}

qn_status qn_fuse_materialise(qn_schedule *s, uint32_t v) {
  sched_value *sv = &s->values[v];
  if (sv->material)
    return QN_OK;
  if (sv->align >= 0 && (s->parts[sv->align].output_count < PART_OUTPUTS || is_hero_of(s, sv->align, v)))
    return qn_fuse_store(s, sv->align, v);
  int part = s->no_fusion ? -1 : find_map(s, v);
  if (part < 0)
    QN_TRY(qn_fuse_open(s, PART_MAP, type_of(s, v), (uint32_t)qn_graph_def_index(s->g, v), &part));
  s->parts[part].sources |= sv->sources;
  sv->align = part;
  sv->space = SPACE_P;
  sv->dep = part;
  sv->sources |= UINT64_C(1) << (v % 64);
  return qn_fuse_store(s, part, v);
}

/* Values that another part would have to read are stored before a new part is opened, so that it gets the higher number. */
qn_status qn_fuse_settle(qn_schedule *s, uint32_t v, int joining, uint32_t walk) {
  sched_value *sv = &s->values[v];
  if (sv->material || sv->settled == walk)
    return QN_OK;
  sv->settled = walk;
  if (sv->align >= 0) {
    if (sv->align == joining)
      return QN_OK;
    return qn_fuse_materialise(s, v);
  }
  const qn_node *n = qn_graph_def(s->g, v);
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_settle(s, n->operands[i], joining, walk));
  return QN_OK;
}

/* Every window that holds an element asks for it. */
static qn_status settle_window(qn_schedule *s, const qn_node *n) {
  uint32_t v = n->operands[0];
  const qn_node *x = qn_graph_def(s->g, v);
  while (!s->values[v].material && x->op == QN_OP_BROADCAST_IN_DIM) {
    v = x->operands[0];
    x = qn_graph_def(s->g, v);
  }
  if (!s->values[v].material && s->values[v].cost > CHEAP_COST)
    QN_TRY(qn_fuse_materialise(s, v));
  return QN_OK;
}

/* ---- the walk ---- */

/* What computing `v` from memory takes, each value counted once, as far as `most`. */
static uint32_t distinct_cost(qn_schedule *s, uint32_t v, uint32_t most, uint32_t walk) {
  const qn_node *n = qn_graph_def(s->g, v);
  if (s->values[v].settled == walk)
    return 0;
  s->values[v].settled = walk;
  uint32_t cost = own_cost(n) + 1;
  for (int i = 0; i < n->operand_count && cost < most; i++)
    if (!s->values[n->operands[i]].material)
      cost += distinct_cost(s, n->operands[i], most - cost, walk);
  return cost;
}

/* Compilers take more than twice as long for a function that is twice as long: a chain is cut where it would make a kernel that takes seconds. */
static bool is_long(qn_schedule *s, uint32_t v) {
  return s->values[v].cost > LONG_COST && distinct_cost(s, v, LONG_COST + 1, ++s->walks) > LONG_COST;
}

static qn_status place_lazy(qn_schedule *s, const qn_node *n) {
  const qn_op_def *def = qn_op_get(n->op);
  uint32_t v = n->first_result;
  sched_value *sv = &s->values[v];
  if (n->op == QN_OP_WINDOWS)
    QN_TRY(settle_window(s, n));
  inherit(s, n, sv);
  sv->part = -1;
  if (sv->carry) /* a commit */
    return QN_OK;
  if (s->no_fusion)
    return qn_fuse_materialise(s, v);
  if (def->kind == QN_KIND_ELEMENTWISE)
    align_elementwise(s, n, type_of(s, v), sv);
  else if (def->kind == QN_KIND_MOVE)
    align_move(s, n, type_of(s, v), sv);
  if (is_long(s, v)) {
    sv->align = -1;
    return qn_fuse_materialise(s, v);
  }
  /* A costly scalar would be computed anew by every item. */
  bool single = qn_type_elements(type_of(s, v)) == 1;
  if (sv->align < 0 && (s->needed[v] || (single && sv->cost > COSTLY_SHARED && sv->uses > 1)))
    return qn_fuse_materialise(s, v);
  return QN_OK;
}

/* Kernels index with i32. */
static qn_status check_size(const qn_schedule *s, const qn_node *n) {
  for (int i = 0; i < n->result_count; i++) {
    const qn_type *t = qn_graph_type(s->g, n->first_result + (uint32_t)i);
    if (qn_type_elements(t) <= INT32_MAX)
      continue;
    char place[128] = ""; /* parameters have none */
    if (n->place.file)
      (void)snprintf(place, sizeof place, " (%s:%d)", n->place.file, n->place.line);
    return QN_ERR(QN_UNSUPPORTED, "%s: result %s has more than 2^31-1 elements, which kernels on %s cannot index%s",
                  qn_op_get(n->op)->name, qn_type_str(t), s->caps->id, place);
  }
  return QN_OK;
}

static const fuse_opener *opener_of(qn_op op) {
  for (size_t i = 0; i < qn_fuse_opener_count; i++)
    if (qn_fuse_openers[i].op == op)
      return &qn_fuse_openers[i];
  return NULL;
}

bool qn_op_opens_part(qn_op op) { return opener_of(op) || qn_op_get(op)->kind == QN_KIND_MATRIX; }

static qn_status place_node(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  QN_TRY(check_size(s, n));
  sched_value *sv = &s->values[n->first_result];
  if (n->op == QN_OP_PARAMETER || n->op == QN_OP_CONSTANT) {
    bool splat = false;
    bool constant = qn_graph_constant(s->g, n->first_result, &splat) != NULL;
    *sv = (sched_value){.material = !(constant && splat), .part = -1, .align = -1, .dep = -1, .uses = sv->uses};
    sv->sources = sv->material ? UINT64_C(1) << (n->first_result % 64) : 0;
    return QN_OK;
  }
  const fuse_opener *opener = opener_of(n->op);
  if (opener)
    return opener->open(s, index);
  if (qn_fuse_updates_carry(s, n))
    return qn_fuse_open_update(s, index);
  qn_op_kind kind = qn_op_get(n->op)->kind;
  if (kind == QN_KIND_MATRIX)
    return qn_fuse_open_matrix(s, index);
  if (kind == QN_KIND_ELEMENTWISE || kind == QN_KIND_MOVE || kind == QN_KIND_INDEX || kind == QN_KIND_SOURCE)
    return place_lazy(s, n);
  return QN_ERR(QN_UNSUPPORTED, "%s: no schedule for this operation on %s (%s:%d)", qn_op_get(n->op)->name, s->caps->id,
                n->place.file ? n->place.file : "?", n->place.line);
}

/* Values that depend on a contraction, reduction, scatter, sort or loop. */
static void mark_late(const qn_graph *g, bool *late) {
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    bool is = qn_op_opens_part(n->op);
    for (int j = 0; j < n->operand_count; j++)
      is |= late[n->operands[j]];
    for (int j = 0; j < n->result_count; j++)
      late[n->first_result + (uint32_t)j] = is;
  }
}

qn_status qn_fuse_build(qn_schedule *s, const qn_graph *g, const qn_device_caps *caps, bool no_fusion,
                        const qn_node *loop) {
  memset(s, 0, sizeof *s);
  s->g = g;
  s->loop = loop;
  s->caps = caps;
  s->no_fusion = no_fusion;
  s->values = calloc(qn_graph_value_count(g) + 1, sizeof *s->values);
  if (!s->values)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to schedule %zu values", qn_graph_value_count(g));
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    for (int j = 0; j < n->operand_count; j++)
      s->values[n->operands[j]].uses++;
  }
  /* What needs no contraction, reduction or scatter comes first, so that everything may depend on it. */
  s->needed = calloc(qn_graph_value_count(g) + 1, sizeof *s->needed);
  if (!s->needed)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to schedule %zu values", qn_graph_value_count(g));
  QN_TRY(qn_schedule_contexts(g, s->needed));
  bool *late = calloc(qn_graph_value_count(g) + 1, sizeof *late);
  if (!late)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to schedule %zu values", qn_graph_value_count(g));
  mark_late(g, late);
  uint32_t from = 0;
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    if (qn_schedule_commits(s, i, &from))
      s->values[qn_graph_result(g, i)].carry = (uint32_t)i + 1;
  qn_status st = QN_OK;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < qn_graph_node_count(g) && st == QN_OK; i++)
      if (late[qn_graph_node(g, i)->first_result] == (pass == 1))
        st = place_node(s, (uint32_t)i);
  free(late);
  QN_TRY(st);
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    QN_TRY(qn_fuse_materialise(s, qn_schedule_commits(s, i, &from) ? from : qn_graph_result(g, i)));
  return qn_fuse_add_commits(s);
}

qn_status qn_schedule_build(qn_schedule *s, const qn_graph *g, const qn_device_caps *caps, bool no_fusion) {
  QN_TRY(qn_fuse_build(s, g, caps, no_fusion, NULL));
  return QN_OK;
}

void qn_schedule_free(qn_schedule *s) {
  for (size_t i = 0; i < s->part_count; i++) {
    free(s->parts[i].reduces);
    free(s->parts[i].outputs);
    free(s->parts[i].inputs);
    if (s->parts[i].body)
      qn_schedule_free(s->parts[i].body);
    free(s->parts[i].body);
  }
  free(s->parts);
  free(s->needed);
  free(s->values);
  memset(s, 0, sizeof *s);
}
