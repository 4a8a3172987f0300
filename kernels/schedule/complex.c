/* From complex graphs to graphs over pairs of reals, in front of the shape rewrites. Movements move both parts alike, arithmetic follows
 * complex_math.c, contractions become four, and regions take and give the parts side by side. Parameters and results keep their memory: a complex
 * leaf is real numbers with a last axis of 2. */
#include "complex.h"

#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "quern/ops.h"

typedef struct splitting {
  const qn_graph *from;
  qn_graph *to;
  qn_pair *map;  /* by value id of `from` */
  qn_pair *room; /* operands and results of the node at hand */
  qn_val *flat;  /* twice as many values */
  qn_text *log;
  size_t split;
} splitting;

static bool is_complex(const qn_graph *g, uint32_t v) { return qn_dtype_is_complex(qn_graph_type(g, v)->dtype); }

static bool has_complex(const qn_graph *g) {
  for (uint32_t v = 1; v <= qn_graph_value_count(g); v++)
    if (is_complex(g, v))
      return true;
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    for (int r = 0; r < n->region_count; r++)
      if (has_complex(n->regions[r]))
        return true;
  }
  return false;
}

static bool touches_complex(const qn_graph *g, const qn_node *n) {
  for (int i = 0; i < n->operand_count; i++)
    if (is_complex(g, n->operands[i]))
      return true;
  for (int i = 0; i < n->result_count; i++)
    if (is_complex(g, n->first_result + (uint32_t)i))
      return true;
  for (int i = 0; i < n->region_count; i++)
    if (has_complex(n->regions[i]))
      return true;
  return false;
}

static qn_type part_type(const qn_type *t) {
  qn_type part = *t;
  part.dtype = qn_dtype_part(t->dtype);
  return part;
}

/* As it lies in memory: (real, imaginary) along a last axis; a tensor of the highest rank as one row of them. */
static qn_type memory_type(const qn_type *t) {
  qn_type m = part_type(t);
  if (t->rank == QN_MAX_RANK)
    return qn_type_of(m.dtype, 2, qn_type_elements(t), 2);
  m.dims[m.rank++] = 2;
  return m;
}

static qn_val part_of(qn_val memory, const qn_type *t, int64_t which) {
  const qn_type *m = qn_val_type(memory);
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
  memcpy(limit, m->dims, sizeof limit);
  start[m->rank - 1] = which;
  limit[m->rank - 1] = which + 1;
  return qn_reshape(qn_slice(memory, start, limit, NULL), t->rank, t->dims);
}

static qn_val to_memory(qn_pair p, const qn_type *t) {
  qn_type m = memory_type(t);
  m.dims[m.rank - 1] = 1;
  const qn_val both[] = {qn_reshape(p.re, m.rank, m.dims), qn_reshape(p.im, m.rank, m.dims)};
  return qn_concatenate(both, 2, m.rank - 1);
}

/* ---- operations that are neither arithmetic nor movement ---- */

static const qn_type *result_type(const qn_complex_node *n) { return qn_graph_type(n->from, n->node->first_result); }

static void split_constant(qn_complex_node *n) {
  const qn_attr_constant *c = n->node->attr;
  qn_type part = part_type(result_type(n));
  size_t size = qn_dtype_size(part.dtype);
  char *data = malloc((size_t)c->elements * size + 1);
  if (!data) {
    (void)qn_graph_fail(n->to, n->node->place, QN_OUT_OF_MEMORY, "no memory for the parts of a constant");
    return;
  }
  for (size_t k = 0; k < 2; k++) {
    for (size_t i = 0; i < (size_t)c->elements; i++)
      memcpy(data + i * size, (const char *)c->data + (2 * i + k) * size, size);
    qn_attr_constant half = {data, c->elements};
    qn_val v = qn_graph_add_typed(n->to, QN_OP_CONSTANT, NULL, 0, &half, NULL, 0, &part, n->node->place);
    *(k ? &n->out[0].im : &n->out[0].re) = v;
  }
  free(data);
}

static void split_iota(qn_complex_node *n) {
  qn_type part = part_type(result_type(n));
  n->out[0] =
      (qn_pair){qn_iota(n->to, part, ((const qn_attr_axis *)n->node->attr)->dimension), qn_full(n->to, part, 0)};
}

static void split_convert(qn_complex_node *n) {
  qn_dtype to = result_type(n)->dtype;
  bool complex = qn_dtype_is_complex(to);
  qn_dtype part = complex ? qn_dtype_part(to) : to;
  n->out[0].re = qn_convert(n->in[0].re, part);
  if (complex)
    n->out[0].im = qn_val_ok(n->in[0].im) ? qn_convert(n->in[0].im, part) : qn_zeros_like(n->out[0].re);
}

static void split_compare(qn_complex_node *n) {
  const qn_attr_compare *a = n->node->attr;
  qn_val re = qn_compare(n->in[0].re, n->in[1].re, a->direction, a->type),
         im = qn_compare(n->in[0].im, n->in[1].im, a->direction, a->type);
  n->out[0].re = a->direction == QN_CMP_EQ ? qn_and(re, im) : qn_or(re, im);
}

static void split_dot(qn_complex_node *n) {
  const qn_attr_dot *a = n->node->attr;
  qn_dtype t = qn_dtype_part(result_type(n)->dtype);
  qn_pair x = n->in[0], y = n->in[1];
  n->out[0].re = qn_sub(qn_dot_general(x.re, y.re, a, t), qn_dot_general(x.im, y.im, a, t));
  n->out[0].im = qn_add(qn_dot_general(x.re, y.im, a, t), qn_dot_general(x.im, y.re, a, t));
}

/* The same node on the real parts, then on the imaginary ones, with `regions` for its own; operands that are not complex serve both. */
static void split_by_part(qn_complex_node *n, qn_graph *const *regions) {
  const qn_node *node = n->node;
  size_t count = (size_t)node->operand_count;
  qn_val *in = calloc(count + 1, sizeof *in);
  qn_type part = part_type(result_type(n));
  for (int k = 0; in && k < 2; k++) {
    for (size_t i = 0; i < count; i++)
      in[i] = k && qn_val_ok(n->in[i].im) ? n->in[i].im : n->in[i].re;
    qn_val v = qn_graph_add_typed(n->to, node->op, in, count, node->attr, regions, (size_t)node->region_count, &part,
                                  node->place);
    *(k ? &n->out[0].im : &n->out[0].re) = v;
  }
  if (!in)
    (void)qn_graph_fail(n->to, node->place, QN_OUT_OF_MEMORY, "no memory to split %s", qn_op_get(node->op)->name);
  free(in);
}

static void split_elementwise_by_part(qn_complex_node *n) { split_by_part(n, NULL); }

static const struct {
  qn_op op;
  void (*split)(qn_complex_node *n);
} rules[] = {
    {QN_OP_CONSTANT, split_constant}, {QN_OP_IOTA, split_iota},       {QN_OP_CONVERT, split_convert},
    {QN_OP_COMPARE, split_compare},   {QN_OP_DOT_GENERAL, split_dot}, {QN_OP_SELECT, split_elementwise_by_part},
};

/* ---- regions ---- */

static qn_status split_region(const qn_graph *g, size_t pairs, qn_text *log, qn_graph **out_graph);

/* A comparator's parameters come in twos, (a0, b0, a1, b1, ..), and so must their parts; how many do. */
static size_t compared(const qn_node *n) {
  if (n->op != QN_OP_SORT && n->op != QN_OP_SORT_RUNS)
    return 0;
  return 2 * (qn_graph_param_count(n->regions[0]) - (size_t)n->operand_count);
}

/* A body that combines the parts apart: a sum, or the update alone. */
static qn_op parts_apart(const qn_node *n) {
  const qn_graph *body = n->regions[0];
  if (n->region_count != 1 || n->result_count != 1 || qn_graph_param_count(body) != 2 ||
      qn_graph_result_count(body) != 1)
    return QN_OP_NONE;
  if (qn_graph_result(body, 0) == qn_graph_param_at(body, 1))
    return QN_OP_PARAMETER;
  return qn_simple_body(body) == QN_OP_ADD ? QN_OP_ADD : QN_OP_NONE;
}

static void split_combiner_by_part(qn_complex_node *n, qn_op op) {
  qn_graph *body;
  qn_status st = qn_region_binary(op, qn_dtype_part(result_type(n)->dtype), &body);
  if (st != QN_OK) {
    (void)qn_graph_fail(n->to, n->node->place, st, "%s", qn_error_message());
    return;
  }
  split_by_part(n, &body);
  qn_graph_release(body);
}

/* Parts side by side: among the operands, and in what the regions take and give. */
static void split_regions(splitting *s, qn_complex_node *n) {
  const qn_node *node = n->node;
  size_t count = 0, made = 0;
  qn_graph **regions = calloc((size_t)node->region_count + 1, sizeof *regions);
  qn_status st = regions ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory to split %s", qn_op_get(node->op)->name);
  for (; st == QN_OK && made < (size_t)node->region_count; made += st == QN_OK)
    st = split_region(node->regions[made], compared(node), s->log, &regions[made]);
  for (int i = 0; i < node->operand_count; i++) {
    s->flat[count++] = n->in[i].re;
    if (qn_val_ok(n->in[i].im))
      s->flat[count++] = n->in[i].im;
  }
  qn_val first = QN_NULL_VAL;
  if (st == QN_OK)
    first = qn_graph_add(n->to, node->op, s->flat, count, node->attr, regions, made, node->place);
  else
    (void)qn_graph_fail(n->to, node->place, st, "%s", qn_error_message());
  int at = 0;
  for (int i = 0; i < node->result_count && qn_val_ok(first); i++) {
    n->out[i].re = qn_val_result(first, at++);
    if (is_complex(n->from, node->first_result + (uint32_t)i))
      n->out[i].im = qn_val_result(first, at++);
  }
  for (size_t i = 0; i < made; i++)
    qn_graph_release(regions[i]);
  free(regions);
}

/* ---- the walk ---- */

static void copy_node(splitting *s, const qn_complex_node *n) {
  const qn_node *node = n->node;
  for (int i = 0; i < node->operand_count; i++)
    s->flat[i] = n->in[i].re;
  qn_val first = qn_graph_copy_node(s->to, s->from, node, s->flat);
  for (int i = 0; i < node->result_count && qn_val_ok(first); i++)
    n->out[i].re = qn_val_result(first, i);
}

static void split_node(splitting *s, qn_complex_node *n) {
  qn_op_kind kind = qn_op_get(n->node->op)->kind;
  s->split++;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == n->node->op) {
      rules[i].split(n);
      return;
    }
  if (qn_complex_elementwise(n))
    return;
  qn_op apart = n->node->region_count ? parts_apart(n->node) : QN_OP_NONE;
  if (apart != QN_OP_NONE && is_complex(s->from, n->node->first_result))
    split_combiner_by_part(n, apart);
  else if (n->node->region_count || n->node->result_count > 1)
    split_regions(s, n);
  else if (kind == QN_KIND_MOVE || kind == QN_KIND_INDEX || kind == QN_KIND_MARK)
    split_by_part(n, NULL);
  else
    (void)qn_graph_fail(s->to, n->node->place, QN_UNSUPPORTED, "%s: no form for complex numbers",
                        qn_op_get(n->node->op)->name);
}

static void walk_node(splitting *s, const qn_node *node) {
  qn_complex_node n = {s->to, s->from, node, s->room, s->room + node->operand_count};
  for (int i = 0; i < node->operand_count; i++)
    s->room[i] = s->map[node->operands[i]];
  for (int i = 0; i < node->result_count; i++)
    n.out[i] = (qn_pair){QN_NULL_VAL, QN_NULL_VAL};
  qn_graph_set_place(s->to, &node->place);
  if (touches_complex(s->from, node))
    split_node(s, &n);
  else
    copy_node(s, &n);
  qn_graph_set_place(s->to, NULL);
  for (int i = 0; i < node->result_count; i++)
    s->map[node->first_result + (uint32_t)i] = n.out[i];
}

/* The first `pairs` parameters of a region come in twos. */
static void split_params(splitting *s, bool region, size_t pairs) {
  for (size_t i = 0; i < qn_graph_param_count(s->from); i++) {
    uint32_t v = qn_graph_param_at(s->from, i);
    const qn_type *t = qn_graph_type(s->from, v);
    const char *path = qn_graph_param_path(s->from, i);
    qn_pair *p = &s->map[v];
    if (!is_complex(s->from, v)) {
      p->re = qn_graph_param(s->to, *t, path);
    } else if (i < pairs) {
      if (i % 2)
        continue;
      qn_pair *other = &s->map[qn_graph_param_at(s->from, i + 1)];
      qn_val *order[4] = {&p->re, &other->re, &p->im, &other->im};
      for (int k = 0; k < 4; k++)
        *order[k] = qn_graph_param(s->to, part_type(t), NULL);
    } else if (region) {
      p->re = qn_graph_param(s->to, part_type(t), path);
      p->im = qn_graph_param(s->to, part_type(t), path);
    } else {
      qn_val memory = qn_graph_param(s->to, memory_type(t), path);
      if (qn_val_ok(memory))
        *p = (qn_pair){part_of(memory, t, 0), part_of(memory, t, 1)};
    }
  }
}

static size_t split_results(splitting *s, bool region) {
  size_t count = 0;
  for (size_t i = 0; i < qn_graph_result_count(s->from); i++) {
    uint32_t v = qn_graph_result(s->from, i);
    qn_pair p = s->map[v];
    if (is_complex(s->from, v) && !region && !qn_graph_failed(s->to))
      p = (qn_pair){to_memory(p, qn_graph_type(s->from, v)), QN_NULL_VAL};
    if (!region)
      qn_graph_set_result_path(s->to, i, qn_graph_result_path(s->from, i));
    s->flat[count++] = p.re;
    if (qn_val_ok(p.im))
      s->flat[count++] = p.im;
  }
  return count;
}

static size_t widest(const qn_graph *g) {
  size_t most = qn_graph_result_count(g);
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    size_t width = (size_t)n->operand_count + (size_t)n->result_count;
    most = width > most ? width : most;
  }
  return most;
}

static qn_status split_graph(const qn_graph *g, bool region, size_t pairs, qn_text *log, qn_graph **out_graph) {
  splitting s = {.from = g, .log = log};
  *out_graph = NULL;
  size_t most = widest(g) + 1;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_graph_create(qn_graph_name(g), &s.to), done);
  s.map = calloc(qn_graph_value_count(g) + 1, sizeof *s.map);
  s.room = calloc(most, sizeof *s.room);
  s.flat = calloc(2 * most, sizeof *s.flat);
  if (!s.map || !s.room || !s.flat) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "no memory to split a graph of %zu nodes", qn_graph_node_count(g));
    goto done;
  }
  split_params(&s, region, pairs);
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    if (qn_graph_node(g, i)->op != QN_OP_PARAMETER)
      walk_node(&s, qn_graph_node(g, i));
  size_t count = split_results(&s, region);
  QN_TRY_GOTO(st, qn_graph_seal(s.to, s.flat, count), done);
  if (log && !region)
    qn_text_add(log, "complex: %zu operations on complex numbers are done on their parts\n", s.split);
  *out_graph = s.to;
  s.to = NULL;
done:
  if (s.to)
    qn_graph_release(s.to);
  free(s.map);
  free(s.room);
  free(s.flat);
  return st;
}

/* Regions have not been lowered by the rows yet: a transform in a loop's body is one still. */
static qn_status split_region(const qn_graph *g, size_t pairs, qn_text *log, qn_graph **out_graph) {
  qn_graph *rows;
  *out_graph = NULL;
  QN_TRY(qn_lower_rows(g, log, &rows));
  qn_status st = split_graph(rows, true, pairs, log, out_graph);
  qn_graph_release(rows);
  return st;
}

qn_status qn_lower_complex(const qn_graph *g, qn_text *log, qn_graph **out_graph) {
  *out_graph = NULL;
  if (!has_complex(g)) {
    *out_graph = qn_graph_retain(g);
    return QN_OK;
  }
  qn_graph *parts;
  QN_TRY(split_graph(g, false, 0, log, &parts));
  qn_status st = qn_graph_optimize(parts, NULL, out_graph);
  qn_graph_release(parts);
  return st;
}
