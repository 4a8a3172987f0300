/* vmap: every node by its row's batching rule, or as it is where no operand has lanes. */
#include "engine.h"

typedef struct lanes {
  qn_graph *g;
  const qn_graph *f;
  int64_t size;
  qn_arena scratch;
  qn_val *val;  /* by value id of f */
  bool *mapped; /* likewise */
  qn_val *in, *out;
  bool *in_mapped, *out_mapped;
} lanes;

static bool open_lanes(lanes *s, qn_graph *g, const qn_graph *f, int64_t size) {
  size_t values = qn_graph_value_count(f) + 1, widest = qn_widest_node(f);
  s->g = g;
  s->f = f;
  s->size = size;
  s->val = QN_NEW(&s->scratch, qn_val, values);
  s->mapped = QN_NEW(&s->scratch, bool, values);
  s->in = QN_NEW(&s->scratch, qn_val, widest);
  s->out = QN_NEW(&s->scratch, qn_val, widest);
  s->in_mapped = QN_NEW(&s->scratch, bool, widest);
  s->out_mapped = QN_NEW(&s->scratch, bool, widest);
  return s->val && s->mapped && s->in && s->out && s->in_mapped && s->out_mapped;
}

/* ---- custom_vjp: each of its graphs batched ---- */
static qn_status batched(const qn_graph *f, int64_t size, const bool *mapped, qn_arena *scratch, qn_graph **out_graph) {
  size_t n = qn_graph_param_count(f);
  int *axes = QN_NEW(scratch, int, n + 1);
  if (axes == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "vmap: out of memory");
  for (size_t i = 0; i < n; ++i)
    axes[i] = mapped == NULL || mapped[i] ? 0 : -1;
  QN_TRY(qn_vmap_graph(f, size, axes, out_graph));
  return QN_OK;
}

/* The batched backward function; an operand that all lanes share gets the sum of their cotangents. */
static qn_status batched_backward(const qn_graph *f, int64_t size, const bool *mapped, qn_arena *scratch,
                                  qn_graph **out_graph) {
  qn_graph *each = NULL, *g = NULL;
  QN_TRY(batched(f, size, NULL, scratch, &each));
  size_t params = qn_graph_param_count(each), results = qn_graph_result_count(each);
  qn_val *args = QN_NEW(scratch, qn_val, params + 1), *out = QN_NEW(scratch, qn_val, results + 1);
  qn_status st = args && out ? qn_graph_create(qn_graph_name(f), &g) : QN_ERR(QN_OUT_OF_MEMORY, "vmap: out of memory");
  if (st == QN_OK) {
    qn_copy_params(g, each, args);
    if (qn_graph_inline(g, each, args, params, out))
      for (size_t i = 0; i < results; ++i)
        if (!mapped[i] && qn_is_differentiable(qn_val_type(out[i])))
          out[i] = qn_sum(out[i], 1, ((const int64_t[]){0}), false);
    st = qn_finish(g, out, results, out_graph);
  }
  qn_graph_release(each);
  return st;
}

static bool batch_custom(lanes *s, const qn_node *node) {
  qn_graph *part[3] = {NULL, NULL, NULL};
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, batched(node->regions[0], s->size, s->in_mapped, &s->scratch, &part[0]), done);
  QN_TRY_GOTO(st, batched(node->regions[1], s->size, s->in_mapped, &s->scratch, &part[1]), done);
  QN_TRY_GOTO(st, batched_backward(node->regions[2], s->size, s->in_mapped, &s->scratch, &part[2]), done);
  qn_custom_vjp(s->in, (size_t)node->operand_count, part[0], part[1], part[2], s->out);
done:
  for (int i = 0; i < 3; ++i)
    if (part[i] != NULL)
      qn_graph_release(part[i]);
  if (st != QN_OK)
    (void)qn_graph_fail(s->g, node->place, st, "vmap of custom_vjp: %s", qn_error_message());
  return st == QN_OK;
}

/* ---- one node ---- */
static bool has_room(lanes *s, const qn_node *node) {
  int rank = 0;
  for (int i = 0; i < node->operand_count; ++i)
    if (qn_graph_type(s->f, node->operands[i])->rank > rank)
      rank = qn_graph_type(s->f, node->operands[i])->rank;
  for (int i = 0; i < node->result_count; ++i)
    if (qn_graph_type(s->f, node->first_result + (uint32_t)i)->rank > rank)
      rank = qn_graph_type(s->f, node->first_result + (uint32_t)i)->rank;
  if (rank >= QN_MAX_RANK)
    (void)qn_graph_fail(s->g, node->place, QN_UNSUPPORTED,
                        "vmap: %s of rank %d has no room for one more axis, the most is %d", qn_op_get(node->op)->name,
                        rank, QN_MAX_RANK);
  return rank < QN_MAX_RANK;
}

static bool batch_node(lanes *s, const qn_node *node) {
  const qn_op_def *def = qn_op_get(node->op);
  qn_batch b = {.g = s->g,
                .from = s->f,
                .node = node,
                .attr = node->attr,
                .in_count = node->operand_count,
                .out_count = node->result_count,
                .size = s->size,
                .in = s->in,
                .mapped = s->in_mapped,
                .out_mapped = s->out_mapped};
  for (int i = 0; i < node->result_count; ++i) {
    s->out[i] = QN_NULL_VAL;
    s->out_mapped[i] = true;
  }
  if (!has_room(s, node))
    return false;
  const qn_call_rules *rules = qn_call_rules_of(node->op);
  if (node->op == QN_OP_CUSTOM_VJP) {
    if (!batch_custom(s, node))
      return false;
  } else if (rules != NULL) {
    qn_call call = {.g = s->g,
                    .f = s->f,
                    .node = node,
                    .scratch = &s->scratch,
                    .in = s->in,
                    .mapped = s->in_mapped,
                    .lanes = s->size,
                    .out = s->out,
                    .out_mapped = s->out_mapped};
    if (!rules->batch(&call))
      return false;
  } else if (def->batch != NULL) {
    def->batch(&b, s->out);
  } else {
    (void)qn_graph_fail(s->g, node->place, QN_UNSUPPORTED, "%s: no batching rule", def->name);
  }
  for (int i = 0; i < node->result_count && !qn_graph_failed(s->g); ++i) {
    uint32_t id = node->first_result + (uint32_t)i;
    qn_type want = *qn_graph_type(s->f, id);
    const qn_type *got = qn_val_type(s->out[i]);
    bool fits = got->dtype == want.dtype && got->rank == want.rank + (s->out_mapped[i] ? 1 : 0);
    if (!qn_val_ok(s->out[i]) || !fits || (s->out_mapped[i] && got->dims[0] != s->size))
      (void)qn_graph_fail(s->g, node->place, QN_INTERNAL, "%s: its batching rule gave %s for %s in %lld lanes",
                          def->name, qn_type_str(got), qn_type_str(&want), (long long)s->size);
    s->val[id] = s->out[i];
    s->mapped[id] = s->out_mapped[i];
  }
  return !qn_graph_failed(s->g);
}

static bool step(lanes *s, const qn_node *node) {
  bool any = false;
  for (int i = 0; i < node->operand_count; ++i) {
    s->in[i] = s->val[node->operands[i]];
    s->in_mapped[i] = s->mapped[node->operands[i]];
    any = any || s->in_mapped[i];
  }
  qn_graph_set_place(s->g, &node->place);
  if (any)
    return batch_node(s, node);
  qn_val first = qn_graph_copy_node(s->g, s->f, node, s->in);
  for (int i = 0; i < node->result_count && qn_val_ok(first); ++i)
    s->val[node->first_result + (uint32_t)i] = qn_val_result(first, i);
  return qn_val_ok(first) || node->result_count == 0;
}

bool qn_vmap_into(qn_graph *g, const qn_graph *f, int64_t size, const qn_val *args, const bool *mapped, qn_val *results,
                  bool *out_mapped) {
  lanes s = {0};
  bool ok = open_lanes(&s, g, f, size) || qn_no_memory(g);
  for (size_t i = 0; ok && i < qn_graph_param_count(f); ++i) {
    s.val[qn_graph_param_at(f, i)] = args[i];
    s.mapped[qn_graph_param_at(f, i)] = mapped[i];
  }
  for (size_t i = 0; ok && i < qn_graph_node_count(f); ++i) {
    const qn_node *node = qn_graph_node(f, i);
    ok = node->op == QN_OP_PARAMETER || step(&s, node);
  }
  qn_graph_set_place(g, NULL);
  for (size_t i = 0; ok && i < qn_graph_result_count(f); ++i) {
    results[i] = s.val[qn_graph_result(f, i)];
    out_mapped[i] = s.mapped[qn_graph_result(f, i)];
  }
  qn_arena_free(&s.scratch);
  return ok;
}

/* A parameter with its lanes at `axis`, and its value with the lanes in front. */
static qn_val lane_param(qn_graph *g, const qn_graph *f, size_t i, int64_t size, int axis) {
  qn_type t = *qn_graph_type(f, qn_graph_param_at(f, i));
  if (axis < 0)
    return qn_graph_param(g, t, qn_graph_param_path(f, i));
  if (axis > t.rank || t.rank >= QN_MAX_RANK)
    return qn_graph_fail(g, QN_HERE, QN_INVALID, "vmap: axis %d for parameter %zu, %s, expected 0..%d", axis, i,
                         qn_type_str(&t), t.rank);
  int64_t dims[QN_MAX_RANK] = {0}, permutation[QN_MAX_RANK] = {axis};
  for (int k = 0; k <= t.rank; ++k)
    dims[k] = k < axis ? t.dims[k] : k == axis ? size : t.dims[k - 1];
  for (int k = 0, n = 1; k <= t.rank; ++k)
    if (k != axis)
      permutation[n++] = k;
  qn_val x = qn_graph_param(g, qn_type_make(t.dtype, t.rank + 1, dims), qn_graph_param_path(f, i));
  return axis == 0 ? x : qn_transpose(x, permutation);
}

qn_status qn_vmap_graph(const qn_graph *f, int64_t size, const int *in_axes, qn_graph **out_graph) {
  *out_graph = NULL;
  if (size < 0)
    return QN_ERR(QN_INVALID, "vmap: %lld lanes", (long long)size);
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f);
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  qn_arena *arena = qn_graph_arena(g);
  qn_val *args = QN_NEW(arena, qn_val, params + 1), *out = QN_NEW(arena, qn_val, results + 1);
  bool *mapped = QN_NEW(arena, bool, params + 1), *out_mapped = QN_NEW(arena, bool, results + 1);
  if (!args || !out || !mapped || !out_mapped) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "vmap: out of memory");
  }
  for (size_t i = 0; i < params; ++i) {
    mapped[i] = in_axes[i] >= 0;
    args[i] = lane_param(g, f, i, size, in_axes[i]);
  }
  bool ok = !qn_graph_failed(g) && qn_vmap_into(g, f, size, args, mapped, out, out_mapped);
  for (size_t i = 0; ok && i < results; ++i) {
    qn_graph_set_result_path(g, i, qn_graph_result_path(f, i));
    if (!out_mapped[i])
      out[i] = qn_with_lanes(out[i], size);
  }
  return qn_finish(g, out, results, out_graph);
}
