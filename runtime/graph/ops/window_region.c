/* Regions of scalars as other operations need them: on whole tensors, with tangents, with elements that may be absent, and the body of linear
 * recurrences. */
#include "window.h"

/* ---- on tensors ---- */
typedef struct lift {
  qn_graph *g;
  const qn_graph *region;
  qn_type shape;
  qn_val *val, *tangent; /* by value id of the region; tangent NULL: not asked for */
} lift;

static qn_val spread(const lift *l, qn_val v) { return qn_broadcast_to(v, l->shape.rank, l->shape.dims); }

/* Tangents of one elementwise node. */
static qn_val node_tangent(const lift *l, const qn_node *n, const qn_op_def *def, const qn_val *in,
                           const qn_val *given) {
  qn_val y = l->val[n->first_result], out = QN_NULL_VAL, zeros[8];
  qn_rule r = {.g = l->g, .node = n, .attr = n->attr, .in_count = n->operand_count, .out_count = 1};
  r.in = in;
  r.out = &y;
  r.given = given;
  if (def->jvp != NULL) {
    def->jvp(&r, &out);
  } else if (def->partial != NULL) {
    for (int i = 0; i < n->operand_count; ++i) {
      qn_val term = qn_val_ok(given[i]) ? qn_rule_product(given[i], def->partial(&r, i)) : QN_NULL_VAL;
      if (qn_val_ok(term))
        out = qn_val_ok(out) ? qn_add(out, term) : term;
    }
  } else if (def->linear) {
    for (int i = 0; i < n->operand_count; ++i)
      zeros[i] = qn_dtype_is_float(qn_val_type(in[i])->dtype) ? qn_given_or_zeros(&r, i) : in[i];
    out = qn_graph_add_typed(l->g, n->op, zeros, (size_t)n->operand_count, n->attr, NULL, 0, qn_val_type(y), n->place);
  }
  return qn_val_ok(out) && qn_dtype_is_float(qn_val_type(out)->dtype) ? out : QN_NULL_VAL;
}

static void lift_node(const lift *l, const qn_node *n) {
  const qn_op_def *def = qn_op_get(n->op);
  uint32_t y = n->first_result;
  bool idle = n->operand_count == 1 &&
              (n->op == QN_OP_BROADCAST_IN_DIM || n->op == QN_OP_RESHAPE || n->op == QN_OP_STOP_GRADIENT);
  if (n->op == QN_OP_CONSTANT) {
    l->val[y] = spread(l, qn_graph_copy_node(l->g, l->region, n, NULL));
    return;
  }
  if (idle) {
    l->val[y] = l->val[n->operands[0]];
    if (l->tangent != NULL && n->op != QN_OP_STOP_GRADIENT)
      l->tangent[y] = l->tangent[n->operands[0]];
    return;
  }
  if (def->kind != QN_KIND_ELEMENTWISE || n->operand_count > 8) {
    (void)qn_graph_fail(l->g, QN_HERE, QN_UNSUPPORTED, "%s: not an elementwise operation, in the body of a reduction",
                        def->name);
    return;
  }
  qn_val in[8], given[8];
  bool any = false;
  for (int i = 0; i < n->operand_count; ++i) {
    in[i] = l->val[n->operands[i]];
    given[i] = l->tangent != NULL ? l->tangent[n->operands[i]] : QN_NULL_VAL;
    any = any || qn_val_ok(given[i]);
  }
  qn_type hint = l->shape;
  hint.dtype = qn_graph_type(l->region, y)->dtype;
  l->val[y] = qn_graph_add_typed(l->g, n->op, in, (size_t)n->operand_count, n->attr, NULL, 0, &hint, QN_HERE);
  if (any && qn_val_ok(l->val[y]))
    l->tangent[y] = node_tangent(l, n, def, in, given);
}

bool qn_region_lift(qn_graph *g, const qn_graph *region, const qn_val *args, const qn_val *tangents, qn_val *out,
                    qn_val *out_tangents) {
  size_t values = qn_graph_value_count(region) + 1;
  lift l = {.g = g, .region = region, .shape = *qn_val_type(args[0])};
  l.val = QN_NEW(qn_graph_arena(g), qn_val, values);
  l.tangent = tangents != NULL ? QN_NEW(qn_graph_arena(g), qn_val, values) : NULL;
  if (l.val == NULL || (tangents != NULL && l.tangent == NULL)) {
    (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "reduce_window: out of memory");
    return false;
  }
  for (size_t i = 0; i < qn_graph_param_count(region); ++i) {
    l.val[qn_graph_param_at(region, i)] = args[i];
    if (tangents != NULL)
      l.tangent[qn_graph_param_at(region, i)] = tangents[i];
  }
  for (size_t i = 0; i < qn_graph_node_count(region) && !qn_graph_failed(g); ++i)
    if (qn_graph_node(region, i)->op != QN_OP_PARAMETER)
      lift_node(&l, qn_graph_node(region, i));
  for (size_t i = 0; i < qn_graph_result_count(region); ++i) {
    out[i] = l.val[qn_graph_result(region, i)];
    if (tangents != NULL)
      out_tangents[i] = l.tangent[qn_graph_result(region, i)];
  }
  return !qn_graph_failed(g);
}

/* ---- made regions ---- */
static qn_status seal_region(qn_graph *g, const qn_val *results, size_t count, qn_graph **out_region) {
  qn_status st = qn_graph_seal(g, results, count);
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_seal(g, results, count)");
  }
  *out_region = g;
  return QN_OK;
}

qn_status qn_region_optional(const qn_graph *body, qn_graph **out_region) {
  size_t n = qn_graph_result_count(body), params = qn_graph_param_count(body);
  qn_graph *g = NULL;
  *out_region = NULL;
  QN_TRY(qn_graph_create("optional", &g));
  qn_val *args = QN_NEW(qn_graph_arena(g), qn_val, params + 1), *out = QN_NEW(qn_graph_arena(g), qn_val, n + 1),
         there[2] = {QN_NULL_VAL, QN_NULL_VAL};
  if (args == NULL || out == NULL) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "reduce_window: out of memory");
  }
  for (size_t i = 0; i < params; ++i) {
    if (i == 0 || i == n)
      there[i / n] = qn_graph_param(g, qn_type_scalar(QN_BOOL), NULL);
    args[i] = qn_graph_param(g, *qn_graph_type(body, qn_graph_param_at(body, i)), NULL);
  }
  if (qn_graph_inline(g, body, args, params, out + 1))
    for (size_t i = 0; i < n; ++i)
      out[i + 1] = qn_select(qn_and(there[0], there[1]), out[i + 1], qn_select(there[0], args[i], args[n + i]));
  out[0] = qn_or(there[0], there[1]);
  QN_TRY(seal_region(g, out, n + 1, out_region));
  return QN_OK;
}

qn_status qn_region_affine(qn_dtype dtype, bool reverse, qn_graph **out_region) {
  qn_graph *g = NULL;
  qn_val p[4];
  *out_region = NULL;
  QN_TRY(qn_graph_create("affine", &g));
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(g, qn_type_scalar(dtype), NULL);
  int first = reverse ? 2 : 0, second = 2 - first; /* applied first, applied to its outcome */
  qn_val out[] = {qn_mul(p[0], p[2]), qn_add(qn_mul(p[second], p[first + 1]), p[second + 1])};
  QN_TRY(seal_region(g, out, 2, out_region));
  return QN_OK;
}

/* As made, or as the optimiser leaves it. */
bool qn_region_is_affine(const qn_graph *region, bool reverse) {
  if (qn_graph_param_count(region) != 4 || qn_graph_result_count(region) != 2)
    return false;
  qn_graph *made = NULL, *better = NULL;
  qn_dtype t = qn_graph_type(region, qn_graph_param_at(region, 0))->dtype;
  bool same = qn_dtype_is_float(t) && qn_region_affine(t, reverse, &made) == QN_OK;
  same = same && (qn_graph_equal(region, made) ||
                  (qn_graph_optimize(made, NULL, &better) == QN_OK && qn_graph_equal(region, better)));
  qn_graph_release(made);
  qn_graph_release(better);
  return same;
}

qn_status qn_region_compare(qn_compare_direction direction, qn_dtype dtype, qn_graph **out_region) {
  qn_graph *g = NULL;
  *out_region = NULL;
  QN_TRY(qn_graph_create("select", &g));
  qn_val a = qn_graph_param(g, qn_type_scalar(dtype), NULL), b = qn_graph_param(g, qn_type_scalar(dtype), NULL);
  qn_val y = qn_compare(a, b, direction, QN_CMP_DEFAULT);
  QN_TRY(seal_region(g, &y, 1, out_region));
  return QN_OK;
}
