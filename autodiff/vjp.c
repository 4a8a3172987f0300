/* Reverse mode: the function is copied, then its nodes are walked back to front, each turning the cotangents of its results into those of its
 * operands. Only nodes between a wanted parameter and a result with a cotangent take part. */
#include "engine.h"

typedef struct reverse {
  qn_graph *g;
  const qn_graph *f;
  qn_arena scratch;
  qn_val *val, *ct;    /* by value id of f: its copy, its cotangent so far */
  bool *varies, *felt; /* by value id: depends on a wanted parameter; a result with a cotangent depends on it */
  qn_val **residuals;  /* by node: what a custom_vjp's forward function kept */
  void **kept;         /* by node: what the forward half of a node with functions kept */
  qn_val *in, *out, *given, *made;
  bool *wanted, *result_felt;
} reverse;

static bool open_reverse(reverse *s, qn_graph *g, const qn_graph *f) {
  size_t values = qn_graph_value_count(f) + 1, widest = qn_widest_node(f);
  s->g = g;
  s->f = f;
  s->val = QN_NEW(&s->scratch, qn_val, values);
  s->ct = QN_NEW(&s->scratch, qn_val, values);
  s->varies = QN_NEW(&s->scratch, bool, values);
  s->felt = QN_NEW(&s->scratch, bool, values);
  s->residuals = QN_NEW(&s->scratch, qn_val *, qn_graph_node_count(f) + 1);
  s->in = QN_NEW(&s->scratch, qn_val, widest);
  s->out = QN_NEW(&s->scratch, qn_val, widest);
  s->given = QN_NEW(&s->scratch, qn_val, widest);
  s->made = QN_NEW(&s->scratch, qn_val, widest);
  s->wanted = QN_NEW(&s->scratch, bool, widest);
  s->result_felt = QN_NEW(&s->scratch, bool, widest);
  s->kept = QN_NEW(&s->scratch, void *, qn_graph_node_count(f) + 1);
  return s->val && s->ct && s->varies && s->felt && s->residuals && s->in && s->out && s->given && s->made &&
         s->wanted && s->result_felt && s->kept;
}

/* A value that derivatives pass through: floating point, of an op that has any. */
static bool passes(const reverse *s, uint32_t value) { return qn_is_differentiable(qn_graph_type(s->f, value)); }

static bool has_derivative(const qn_node *node) {
  const qn_op_def *def = qn_op_get(node->op);
  return node->op == QN_OP_CUSTOM_VJP || qn_call_rules_of(node->op) != NULL || def->vjp != NULL ||
         def->partial != NULL || def->no_grad == NULL;
}

static void mark(reverse *s, const bool *wanted, const qn_val *cotangents) {
  for (size_t i = 0; i < qn_graph_param_count(s->f); ++i)
    s->varies[qn_graph_param_at(s->f, i)] = wanted[i] && passes(s, qn_graph_param_at(s->f, i));
  size_t count = qn_graph_node_count(s->f);
  for (size_t i = 0; i < count; ++i) {
    const qn_node *node = qn_graph_node(s->f, i);
    bool any = false;
    for (int k = 0; k < node->operand_count; ++k)
      any = any || s->varies[node->operands[k]];
    if (!any || !has_derivative(node))
      continue;
    for (int k = 0; k < node->result_count; ++k)
      s->varies[node->first_result + (uint32_t)k] = passes(s, node->first_result + (uint32_t)k);
  }
  for (size_t i = 0; i < qn_graph_result_count(s->f); ++i)
    if (qn_val_ok(cotangents[i]))
      s->felt[qn_graph_result(s->f, i)] = true;
  for (size_t i = count; i-- > 0;) {
    const qn_node *node = qn_graph_node(s->f, i);
    bool any = false;
    for (int k = 0; k < node->result_count; ++k)
      any = any || s->felt[node->first_result + (uint32_t)k];
    for (int k = 0; k < node->operand_count && any; ++k)
      s->felt[node->operands[k]] = true;
  }
}

static bool takes_part(const reverse *s, const qn_node *node) {
  for (int k = 0; k < node->result_count; ++k)
    if (s->varies[node->first_result + (uint32_t)k] && s->felt[node->first_result + (uint32_t)k])
      return true;
  return false;
}

static qn_call call_of(reverse *s, size_t index) {
  return (qn_call){.g = s->g,
                   .f = s->f,
                   .node = qn_graph_node(s->f, index),
                   .scratch = &s->scratch,
                   .in = s->in,
                   .wanted = s->wanted,
                   .felt = s->result_felt,
                   .kept = s->kept[index]};
}

/* ---- forward sweep ---- */
static bool call_forward(reverse *s, size_t index, const qn_call_rules *rules) {
  const qn_node *node = qn_graph_node(s->f, index);
  qn_call call = call_of(s, index);
  for (int i = 0; i < node->operand_count; ++i)
    s->wanted[i] = s->varies[node->operands[i]];
  for (int i = 0; i < node->result_count; ++i)
    s->result_felt[i] = s->felt[node->first_result + (uint32_t)i] && s->varies[node->first_result + (uint32_t)i];
  call.out = s->val + node->first_result;
  qn_graph_set_place(s->g, &node->place);
  bool ok = rules->forward(&call);
  qn_graph_set_place(s->g, NULL);
  s->kept[index] = call.kept;
  return ok;
}

static bool copy_forward(reverse *s, size_t index) {
  const qn_node *node = qn_graph_node(s->f, index);
  for (int i = 0; i < node->operand_count; ++i)
    s->in[i] = s->val[node->operands[i]];
  if (node->op == QN_OP_CUSTOM_VJP && takes_part(s, node)) {
    const qn_graph *ahead = node->regions[1];
    qn_val *made = QN_NEW(&s->scratch, qn_val, qn_graph_result_count(ahead) + 1);
    if (made == NULL)
      return qn_no_memory(s->g);
    if (!qn_graph_inline(s->g, ahead, s->in, (size_t)node->operand_count, made))
      return false;
    for (int i = 0; i < node->result_count; ++i)
      s->val[node->first_result + (uint32_t)i] = made[i];
    s->residuals[index] = made + node->result_count;
    return true;
  }
  const qn_call_rules *rules = qn_call_rules_of(node->op);
  if (rules != NULL && rules->forward != NULL && takes_part(s, node))
    return call_forward(s, index, rules);
  qn_val first = qn_graph_copy_node(s->g, s->f, node, s->in);
  if (!qn_val_ok(first))
    return node->result_count == 0;
  for (int i = 0; i < node->result_count; ++i)
    s->val[node->first_result + (uint32_t)i] = qn_val_result(first, i);
  return true;
}

/* ---- backward sweep ---- */
static bool give(reverse *s, const char *name, uint32_t value, qn_val ct) {
  const qn_type *want = qn_graph_type(s->f, value);
  if (!qn_val_ok(ct))
    return !qn_graph_failed(s->g);
  if (!qn_type_equal(qn_val_type(ct), want)) {
    (void)qn_graph_fail(s->g, QN_HERE, QN_INTERNAL, "%s: its rule gave a cotangent of %s, expected %s", name,
                        qn_type_str(qn_val_type(ct)), qn_type_str(want));
    return false;
  }
  s->ct[value] = qn_val_ok(s->ct[value]) ? qn_add_cotangents(s->ct[value], ct) : ct;
  return qn_val_ok(s->ct[value]);
}

/* An elementwise row: the cotangent times each partial; a scalar operand (a bound of clamp) collects from every element. */
static void partial_cotangents(const qn_op_def *def, qn_rule *r, qn_val *out) {
  int rank = qn_val_type(r->out[0])->rank;
  for (int i = 0; i < r->in_count; ++i) {
    if (!r->wanted[i])
      continue;
    out[i] = qn_rule_product(r->given[0], def->partial(r, i));
    if (qn_val_ok(out[i]) && qn_val_type(r->in[i])->rank == 0 && rank > 0)
      out[i] = qn_sum_all(out[i]);
  }
}

static bool custom_cotangents(reverse *s, const qn_node *node, const qn_val *residuals) {
  const qn_graph *backward = node->regions[2];
  size_t params = qn_graph_param_count(backward), kept = params - (size_t)node->result_count;
  qn_val *args = QN_NEW(&s->scratch, qn_val, params + 1);
  if (args == NULL)
    return qn_no_memory(s->g);
  for (size_t i = 0; i < params; ++i) {
    if (i < kept)
      args[i] = residuals[i];
    else
      args[i] = qn_val_ok(s->given[i - kept]) ? s->given[i - kept] : qn_zeros_like(s->out[i - kept]);
  }
  return qn_graph_inline(s->g, backward, args, params, s->made);
}

static bool step_back(reverse *s, size_t index) {
  const qn_node *node = qn_graph_node(s->f, index);
  bool any = false;
  for (int i = 0; i < node->result_count; ++i) {
    s->out[i] = s->val[node->first_result + (uint32_t)i];
    s->given[i] = s->ct[node->first_result + (uint32_t)i];
    any = any || qn_val_ok(s->given[i]);
  }
  if (!any || !takes_part(s, node))
    return true;
  for (int i = 0; i < node->operand_count; ++i) {
    s->in[i] = s->val[node->operands[i]];
    s->wanted[i] = s->varies[node->operands[i]];
    s->made[i] = QN_NULL_VAL;
  }
  const qn_op_def *def = qn_op_get(node->op);
  qn_rule r = {.g = s->g,
               .node = node,
               .attr = node->attr,
               .in_count = node->operand_count,
               .out_count = node->result_count,
               .in = s->in,
               .out = s->out,
               .given = s->given,
               .wanted = s->wanted};
  qn_graph_set_place(s->g, &node->place);
  const qn_call_rules *rules = qn_call_rules_of(node->op);
  if (node->op == QN_OP_CUSTOM_VJP) {
    if (!custom_cotangents(s, node, s->residuals[index]))
      return false;
  } else if (rules != NULL) {
    qn_call call = call_of(s, index);
    call.given = s->given;
    call.out = s->made;
    if (!rules->back(&call))
      return false;
  } else if (def->vjp != NULL) {
    def->vjp(&r, s->made);
  } else if (def->partial != NULL) {
    partial_cotangents(def, &r, s->made);
  } else {
    (void)qn_graph_fail(s->g, node->place, QN_UNSUPPORTED, "%s: no reverse derivative", def->name);
  }
  for (int i = 0; i < node->operand_count; ++i)
    if (s->wanted[i] && !give(s, def->name, node->operands[i], s->made[i]))
      return false;
  return !qn_graph_failed(s->g);
}

static bool vjp_in_order(qn_graph *g, const qn_graph *f, const qn_val *args, const bool *wanted,
                         const qn_val *cotangents, qn_val *results, qn_val *grads) {
  reverse s = {0};
  bool ok = open_reverse(&s, g, f) || qn_no_memory(g);
  size_t nodes = qn_graph_node_count(f);
  if (ok)
    mark(&s, wanted, cotangents);
  for (size_t i = 0; ok && i < qn_graph_param_count(f); ++i)
    s.val[qn_graph_param_at(f, i)] = args[i];
  for (size_t i = 0; ok && i < nodes; ++i)
    ok = qn_graph_node(f, i)->op == QN_OP_PARAMETER || copy_forward(&s, i);
  for (size_t i = 0; ok && i < qn_graph_result_count(f); ++i) {
    results[i] = s.val[qn_graph_result(f, i)];
    if (qn_val_ok(cotangents[i]) && s.varies[qn_graph_result(f, i)])
      ok = give(&s, "vjp", qn_graph_result(f, i), cotangents[i]);
  }
  for (size_t i = nodes; ok && i-- > 0;)
    ok = qn_graph_node(f, i)->op == QN_OP_PARAMETER || step_back(&s, i);
  qn_graph_set_place(g, NULL);
  for (size_t i = 0; ok && i < qn_graph_param_count(f); ++i)
    grads[i] = wanted[i] ? s.ct[qn_graph_param_at(f, i)] : QN_NULL_VAL;
  for (size_t i = 0; s.kept != NULL && i < nodes; ++i)
    if (s.kept[i] != NULL)
      qn_call_rules_of(qn_graph_node(f, i)->op)->drop(s.kept[i]);
  qn_arena_free(&s.scratch);
  return ok;
}

void qn_reach(const qn_graph *f, const bool *params, bool *out_results, qn_arena *scratch) {
  reverse s = {.f = f};
  s.varies = QN_NEW(scratch, bool, qn_graph_value_count(f) + 1);
  s.felt = QN_NEW(scratch, bool, qn_graph_value_count(f) + 1);
  qn_val *none = QN_NEW(scratch, qn_val, qn_graph_result_count(f) + 1);
  bool known = s.varies && s.felt && none;
  if (known)
    mark(&s, params, none);
  for (size_t i = 0; i < qn_graph_result_count(f); ++i)
    out_results[i] =
        known ? s.varies[qn_graph_result(f, i)] : qn_is_differentiable(qn_graph_type(f, qn_graph_result(f, i)));
}

/* Cotangents are summed in the order of nodes: it's that of the graph rebuilt, which no compiler's order of evaluation decides. */
bool qn_vjp_into(qn_graph *g, const qn_graph *f, const qn_val *args, const bool *wanted, const qn_val *cotangents,
                 qn_val *results, qn_val *grads) {
  qn_graph *ordered;
  if (qn_graph_rebuild(f, NULL, NULL, &ordered) != QN_OK)
    return qn_no_memory(g);
  bool ok = vjp_in_order(g, ordered, args, wanted, cotangents, results, grads);
  qn_graph_release(ordered);
  return ok;
}

qn_status qn_vjp_graph(const qn_graph *f, qn_graph **out_graph) {
  *out_graph = NULL;
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f), n = results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  qn_arena *arena = qn_graph_arena(g);
  qn_val *args = QN_NEW(arena, qn_val, params + 1), *grads = QN_NEW(arena, qn_val, params + 1),
         *cts = QN_NEW(arena, qn_val, results + 1);
  qn_val *out = QN_NEW(arena, qn_val, results + params + 1);
  bool *wanted = QN_NEW(arena, bool, params + 1);
  if (!args || !grads || !cts || !out || !wanted) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "vjp: out of memory");
  }
  qn_copy_params(g, f, args);
  for (size_t i = 0; i < params; ++i)
    wanted[i] = qn_is_differentiable(qn_val_type(args[i]));
  for (size_t i = 0; i < results; ++i) {
    const qn_type *t = qn_graph_type(f, qn_graph_result(f, i));
    const char *path = qn_graph_result_path(f, i);
    if (qn_is_differentiable(t))
      cts[i] = qn_graph_param(g, *t, path ? qn_arena_printf(arena, "cotangent/%s", path) : NULL);
  }
  bool ok = qn_vjp_into(g, f, args, wanted, cts, out, grads);
  for (size_t i = 0; ok && i < params; ++i)
    if (wanted[i])
      out[n++] = qn_val_ok(grads[i]) ? grads[i] : qn_zeros_like(args[i]);
  return qn_finish(g, out, n, out_graph);
}
