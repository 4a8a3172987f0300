/* Forward mode: every value is carried with its tangent. Elementwise rows give partials, linear rows are applied to the tangents, the rest
 * have rules of their own.
 *
 * A custom_vjp has only a reverse rule. Its backward function is linear in the cotangents, so the forward derivative is that function's
 * transpose in them; a backward function that is not linear (one that clips, say) has none, which is an error. */
#include "engine.h"

#include <string.h>

typedef struct forward {
  qn_graph *g;
  const qn_graph *f;
  qn_arena scratch;
  qn_val *val, *tangent; /* by value id of f */
  qn_val *in, *out, *given, *made;
} forward;

static bool open_forward(forward *s, qn_graph *g, const qn_graph *f) {
  size_t values = qn_graph_value_count(f) + 1, widest = qn_widest_node(f);
  s->g = g;
  s->f = f;
  s->val = QN_NEW(&s->scratch, qn_val, values);
  s->tangent = QN_NEW(&s->scratch, qn_val, values);
  s->in = QN_NEW(&s->scratch, qn_val, widest);
  s->out = QN_NEW(&s->scratch, qn_val, widest);
  s->given = QN_NEW(&s->scratch, qn_val, widest);
  s->made = QN_NEW(&s->scratch, qn_val, widest);
  return s->val && s->tangent && s->in && s->out && s->given && s->made;
}

/* ---- custom_vjp ---- */
/* Does a result depend on the parameters from..to-1? */
static bool depends_on(const qn_graph *h, size_t from, size_t to, bool *mark) {
  for (size_t i = from; i < to; ++i)
    mark[qn_graph_param_at(h, i)] = true;
  for (size_t i = 0; i < qn_graph_node_count(h); ++i) {
    const qn_node *node = qn_graph_node(h, i);
    bool any = false;
    for (int k = 0; k < node->operand_count; ++k)
      any = any || mark[node->operands[k]];
    for (int k = 0; k < node->result_count && any; ++k)
      mark[node->first_result + (uint32_t)k] = true;
  }
  for (size_t i = 0; i < qn_graph_result_count(h); ++i)
    if (mark[qn_graph_result(h, i)])
      return true;
  return false;
}

typedef struct transposed {
  qn_graph *
      graph; /* (residuals.., cotangents.., tangents of the float operands..) -> tangents of the results that have one */
  bool *has; /* per result of the function: whether graph has a result for it */
} transposed;

/* The backward function transposed in its cotangents. */
static qn_status transpose_backward(const qn_graph *backward, size_t residuals, size_t results, qn_arena *scratch,
                                    transposed *out) {
  size_t params = residuals + results, operands = qn_graph_result_count(backward);
  qn_graph *h = NULL;
  QN_TRY(qn_graph_create("transposed", &h));
  qn_val *args = QN_NEW(scratch, qn_val, params + 1), *seeds = QN_NEW(scratch, qn_val, operands + 1),
         *back = QN_NEW(scratch, qn_val, operands + 1);
  qn_val *grads = QN_NEW(scratch, qn_val, params + 1), *kept = QN_NEW(scratch, qn_val, results + 1);
  bool *wanted = QN_NEW(scratch, bool, params + 1);
  out->has = QN_NEW(scratch, bool, results + 1);
  if (!args || !seeds || !back || !grads || !kept || !wanted || !out->has) {
    qn_graph_release(h);
    return QN_ERR(QN_OUT_OF_MEMORY, "custom_vjp: out of memory");
  }
  qn_copy_params(h, backward, args);
  for (size_t i = residuals; i < params; ++i)
    wanted[i] = qn_is_differentiable(qn_val_type(args[i]));
  for (size_t i = 0; i < operands; ++i) {
    const qn_type *t = qn_graph_type(backward, qn_graph_result(backward, i));
    if (qn_is_differentiable(t))
      seeds[i] = qn_graph_param(h, *t, NULL);
  }
  (void)qn_vjp_into(h, backward, args, wanted, seeds, back, grads);
  size_t n = 0;
  for (size_t i = 0; i < results; ++i) {
    out->has[i] = qn_val_ok(grads[residuals + i]);
    if (out->has[i])
      kept[n++] = grads[residuals + i];
  }
  return qn_finish(h, kept, n, &out->graph);
}

static bool custom_tangents(forward *s, const qn_node *node) {
  const qn_graph *ahead = node->regions[1], *backward = node->regions[2];
  size_t results = (size_t)node->result_count, residuals = qn_graph_result_count(ahead) - results, n = 0;
  transposed t = {0};
  qn_status st = transpose_backward(backward, residuals, results, &s->scratch, &t);
  if (st != QN_OK) {
    (void)qn_graph_fail(s->g, node->place, st, "custom_vjp: no forward derivative: %s", qn_error_message());
    return false;
  }
  bool *mark = QN_NEW(&s->scratch, bool, qn_graph_value_count(t.graph) + 1);
  qn_val *made = QN_NEW(&s->scratch, qn_val, results + residuals + 1),
         *args = QN_NEW(&s->scratch, qn_val, qn_graph_param_count(t.graph) + 1);
  qn_val *tangents = QN_NEW(&s->scratch, qn_val, results + 1);
  bool ok = mark && made && args && tangents;
  if (!ok) {
    (void)qn_no_memory(s->g);
  } else if (depends_on(t.graph, residuals, residuals + results, mark)) {
    (void)qn_graph_fail(s->g, node->place, QN_UNSUPPORTED,
                        "custom_vjp: no forward derivative: the function has a reverse rule only, and its backward "
                        "function is not linear in the cotangents");
    ok = false;
  }
  ok = ok && qn_graph_inline(s->g, ahead, s->in, (size_t)node->operand_count, made);
  if (ok) {
    for (size_t i = 0; i < residuals; ++i)
      args[n++] = made[results + i];
    for (size_t i = 0; i < results; ++i) {
      s->val[node->first_result + i] = made[i];
      args[n++] = qn_zeros_like(made[i]); /* no result depends on these */
    }
    for (int i = 0; i < node->operand_count; ++i)
      if (qn_is_differentiable(qn_val_type(s->in[i])))
        args[n++] = qn_val_ok(s->given[i]) ? s->given[i] : qn_zeros_like(s->in[i]);
    ok = n == qn_graph_param_count(t.graph) && qn_graph_inline(s->g, t.graph, args, n, tangents);
  }
  for (size_t i = 0, k = 0; ok && i < results; ++i)
    if (t.has[i])
      s->tangent[node->first_result + i] = tangents[k++];
  qn_graph_release(t.graph);
  return ok;
}

/* ---- one node ---- */
/* An elementwise row's scalar operand (a predicate, a bound) acts on every element. */
static qn_val spread_to(qn_val x, const qn_type *t) {
  return qn_val_type(x)->rank == t->rank ? x : qn_broadcast_to(x, t->rank, t->dims);
}

static void partial_tangent(const qn_op_def *def, qn_rule *r, qn_val *out) {
  qn_type t = *qn_val_type(r->out[0]);
  for (int i = 0; i < r->in_count; ++i) {
    if (!qn_val_ok(r->given[i]))
      continue;
    qn_val term = qn_rule_product(spread_to(r->given[i], &t), def->partial(r, i));
    if (qn_val_ok(term))
      out[0] = qn_val_ok(out[0]) ? qn_add(out[0], term) : term;
  }
}

static void linear_tangent(forward *s, const qn_node *node, qn_val *out) {
  qn_val *operands = s->made;
  for (int i = 0; i < node->operand_count; ++i) {
    operands[i] = s->in[i];
    if (qn_is_differentiable(qn_val_type(s->in[i])))
      operands[i] = qn_val_ok(s->given[i]) ? s->given[i] : qn_zeros_like(s->in[i]);
  }
  qn_val first = qn_graph_copy_node(s->g, s->f, node, operands);
  for (int i = 0; i < node->result_count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, i);
}

static bool node_tangents(forward *s, const qn_node *node) {
  const qn_op_def *def = qn_op_get(node->op);
  qn_rule r = {.g = s->g,
               .node = node,
               .attr = node->attr,
               .in_count = node->operand_count,
               .out_count = node->result_count,
               .in = s->in,
               .out = s->out,
               .given = s->given};
  qn_val *out = s->tangent + node->first_result;
  if (def->jvp != NULL)
    def->jvp(&r, out);
  else if (def->partial != NULL)
    partial_tangent(def, &r, out);
  else if (def->linear)
    linear_tangent(s, node, out);
  else if (def->no_grad == NULL)
    (void)qn_graph_fail(s->g, node->place, QN_UNSUPPORTED, "%s: no forward derivative", def->name);
  for (int i = 0; i < node->result_count && !qn_graph_failed(s->g); ++i) {
    const qn_type *want = qn_graph_type(s->f, node->first_result + (uint32_t)i);
    if (qn_val_ok(out[i]) && !qn_is_differentiable(want))
      out[i] = QN_NULL_VAL;
    if (qn_val_ok(out[i]) && !qn_type_equal(qn_val_type(out[i]), want))
      (void)qn_graph_fail(s->g, node->place, QN_INTERNAL, "%s: its rule gave a tangent of %s, expected %s", def->name,
                          qn_type_str(qn_val_type(out[i])), qn_type_str(want));
  }
  return !qn_graph_failed(s->g);
}

static bool step(forward *s, const qn_node *node) {
  bool any = false;
  for (int i = 0; i < node->operand_count; ++i) {
    s->in[i] = s->val[node->operands[i]];
    s->given[i] = s->tangent[node->operands[i]];
    any = any || qn_val_ok(s->given[i]);
  }
  qn_graph_set_place(s->g, &node->place);
  if (any && node->op == QN_OP_CUSTOM_VJP)
    return custom_tangents(s, node);
  const qn_call_rules *rules = qn_call_rules_of(node->op);
  if (any && rules != NULL) {
    qn_call call = {.g = s->g,
                    .f = s->f,
                    .node = node,
                    .scratch = &s->scratch,
                    .in = s->in,
                    .given = s->given,
                    .out = s->val + node->first_result,
                    .tangents = s->tangent + node->first_result};
    return rules->jvp(&call);
  }
  qn_val first = qn_graph_copy_node(s->g, s->f, node, s->in);
  if (!qn_val_ok(first) && node->result_count > 0)
    return false;
  for (int i = 0; i < node->result_count; ++i)
    s->out[i] = s->val[node->first_result + (uint32_t)i] = qn_val_result(first, i);
  return !any || node_tangents(s, node);
}

bool qn_jvp_into(qn_graph *g, const qn_graph *f, const qn_val *args, const qn_val *tangents, qn_val *results,
                 qn_val *result_tangents) {
  forward s = {0};
  bool ok = open_forward(&s, g, f) || qn_no_memory(g);
  for (size_t i = 0; ok && i < qn_graph_param_count(f); ++i) {
    uint32_t id = qn_graph_param_at(f, i);
    s.val[id] = args[i];
    s.tangent[id] = tangents[i];
  }
  for (size_t i = 0; ok && i < qn_graph_node_count(f); ++i) {
    const qn_node *node = qn_graph_node(f, i);
    ok = node->op == QN_OP_PARAMETER || step(&s, node);
  }
  qn_graph_set_place(g, NULL);
  for (size_t i = 0; ok && i < qn_graph_result_count(f); ++i) {
    results[i] = s.val[qn_graph_result(f, i)];
    result_tangents[i] = s.tangent[qn_graph_result(f, i)];
  }
  qn_arena_free(&s.scratch);
  return ok;
}

qn_status qn_jvp_graph(const qn_graph *f, qn_graph **out_graph) {
  *out_graph = NULL;
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f), n = results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  qn_val *args = QN_NEW(qn_graph_arena(g), qn_val, params + 1),
         *tangents = QN_NEW(qn_graph_arena(g), qn_val, params + 1);
  qn_val *out = QN_NEW(qn_graph_arena(g), qn_val, 2 * results + 1),
         *made = QN_NEW(qn_graph_arena(g), qn_val, results + 1);
  if (!args || !tangents || !out || !made) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "jvp: out of memory");
  }
  qn_copy_params(g, f, args);
  for (size_t i = 0; i < params; ++i) {
    const char *path = qn_graph_param_path(f, i);
    if (qn_is_differentiable(qn_val_type(args[i])))
      tangents[i] = qn_graph_param(g, *qn_val_type(args[i]),
                                   path ? qn_arena_printf(qn_graph_arena(g), "tangent/%s", path) : NULL);
  }
  bool ok = qn_jvp_into(g, f, args, tangents, out, made);
  for (size_t i = 0; ok && i < results; ++i)
    if (qn_is_differentiable(qn_val_type(out[i])))
      out[n++] = qn_val_ok(made[i]) ? made[i] : qn_zeros_like(out[i]);
  return qn_finish(g, out, n, out_graph);
}
