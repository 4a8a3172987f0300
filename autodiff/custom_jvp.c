/* custom_jvp: the rule stands for the function wherever tangents are. In reverse it is pulled back in its tangents, in which it is linear. */
#include "engine.h"

#include <string.h>

/* Operands, then tangents of the floats; missing ones are zero. */
static size_t rule_args(qn_call *c, const qn_val *tangents, qn_val *out) {
  size_t n = 0;
  for (int i = 0; i < c->node->operand_count; ++i)
    out[n++] = c->in[i];
  for (int i = 0; i < c->node->operand_count; ++i)
    if (qn_is_differentiable(qn_val_type(c->in[i])))
      out[n++] = tangents != NULL && qn_val_ok(tangents[i]) ? tangents[i] : qn_zeros_like(c->in[i]);
  return n;
}

static bool custom_jvp(qn_call *c) {
  const qn_graph *rule = c->node->regions[1];
  qn_val *args = QN_NEW(c->scratch, qn_val, qn_graph_param_count(rule) + 1),
         *made = QN_NEW(c->scratch, qn_val, qn_graph_result_count(rule) + 1);
  if (!args || !made)
    return qn_no_memory(c->g);
  if (!qn_graph_inline(c->g, rule, args, rule_args(c, c->given, args), made))
    return false;
  for (int i = 0, k = c->node->result_count; i < c->node->result_count; ++i) {
    c->out[i] = made[i];
    if (qn_is_differentiable(qn_val_type(made[i])))
      c->tangents[i] = made[k++];
  }
  return true;
}

/* ---- reverse ---- */
typedef struct pullback {
  qn_graph *joint; /* (operands, tangents, cotangents of tangents) -> results, their tangents, gradients in has */
  bool *has;       /* by parameter of the rule */
  bool *ct;        /* by result of the rule */
  qn_split split;
  qn_val *residuals;
} pullback;

/* Which tangents of the rule are asked for, and which of its results have cotangents. */
static void choose(const qn_call *c, bool *wanted, bool *ct) {
  size_t n = (size_t)c->node->operand_count, k = (size_t)c->node->result_count;
  for (int i = 0; i < c->node->operand_count; ++i)
    if (qn_is_differentiable(qn_val_type(c->in[i])))
      wanted[n++] = c->wanted[i];
  for (int i = 0; i < c->node->result_count; ++i)
    if (qn_is_differentiable(qn_graph_type(c->f, c->node->first_result + (uint32_t)i)))
      ct[k++] = c->felt[i];
}

static bool custom_forward(qn_call *c) {
  const qn_graph *rule = c->node->regions[1];
  size_t own = qn_graph_param_count(rule), results = qn_graph_result_count(rule);
  pullback *p = QN_NEW(c->scratch, pullback, 1);
  bool *wanted = QN_NEW(c->scratch, bool, own + 1);
  qn_val *args = QN_NEW(c->scratch, qn_val, own + results + 1), *made = QN_NEW(c->scratch, qn_val, results + 1);
  if (!p || !wanted || !args || !made)
    return qn_no_memory(c->g);
  p->has = QN_NEW(c->scratch, bool, own + 1);
  p->ct = QN_NEW(c->scratch, bool, results + 1);
  if (!p->has || !p->ct)
    return qn_no_memory(c->g);
  choose(c, wanted, p->ct);
  qn_status st = qn_region_vjp(rule, wanted, p->ct, p->has, c->scratch, &p->joint);
  if (st != QN_OK)
    return qn_call_failed(c, st);
  c->kept = p;
  size_t params = qn_graph_param_count(p->joint);
  bool *late = QN_NEW(c->scratch, bool, params + 1), *free_ = QN_NEW(c->scratch, bool, params + 1);
  if (!late || !free_)
    return qn_no_memory(c->g);
  for (size_t i = own; i < params; ++i)
    late[i] = true;
  p->split = (qn_split){.j = p->joint, .early_results = results, .late = late, .free_ = free_, .scratch = c->scratch};
  if (!qn_split_make(&p->split) || !(p->residuals = QN_NEW(c->scratch, qn_val, p->split.residual_count + 1)))
    return qn_no_memory(c->g);
  (void)rule_args(c, NULL, args);
  if (!qn_split_first(&p->split, c->g, args, made, p->residuals))
    return false;
  memcpy(c->out, made, (size_t)c->node->result_count * sizeof *made);
  return true;
}

static bool custom_back(qn_call *c) {
  const pullback *p = c->kept;
  const qn_graph *rule = c->node->regions[1];
  size_t own = qn_graph_param_count(rule), n = own, at = 0, k = (size_t)c->node->result_count;
  qn_val *args = QN_NEW(c->scratch, qn_val, qn_graph_param_count(p->joint) + 1),
         *grads = QN_NEW(c->scratch, qn_val, qn_graph_result_count(p->joint) + 1);
  if (!args || !grads)
    return qn_no_memory(c->g);
  for (int i = 0; i < c->node->result_count; ++i) {
    const qn_type *t = qn_graph_type(c->f, c->node->first_result + (uint32_t)i);
    if (qn_is_differentiable(t) && p->ct[k++])
      args[n++] = qn_val_ok(c->given[i]) ? c->given[i] : qn_full(c->g, *t, 0);
  }
  if (!qn_split_second(&p->split, c->g, args, p->residuals, grads))
    return false;
  n = (size_t)c->node->operand_count;
  for (int i = 0; i < c->node->operand_count; ++i)
    if (qn_is_differentiable(qn_val_type(c->in[i])) && p->has[n++])
      c->out[i] = grads[at++];
  return true;
}

static void custom_drop(void *kept) { qn_graph_release(((pullback *)kept)->joint); }

/* ---- lanes ---- */
static bool custom_batch(qn_call *c) {
  const qn_node *node = c->node;
  const qn_graph *rule = node->regions[1];
  size_t most = qn_graph_param_count(rule) + qn_graph_result_count(rule) + 1, n = (size_t)node->operand_count;
  bool *mapped = QN_NEW(c->scratch, bool, most), *want = QN_NEW(c->scratch, bool, most),
       *has = QN_NEW(c->scratch, bool, most);
  if (!mapped || !want || !has)
    return qn_no_memory(c->g);
  memcpy(mapped, c->mapped, n * sizeof *mapped);
  for (int i = 0; i < node->operand_count; ++i)
    if (qn_is_differentiable(qn_graph_type(c->f, node->operands[i])))
      mapped[n++] = c->mapped[i];
  for (size_t i = 0; i < most; ++i)
    want[i] = true;
  qn_graph *regions[2] = {NULL, NULL};
  qn_status st = QN_OK;
  for (int r = 0; r < 2 && st == QN_OK; ++r)
    st = qn_region_vmap(node->regions[r], c->lanes, mapped, want, has, c->scratch, &regions[r]);
  if (st == QN_OK)
    qn_custom_jvp(c->in, (size_t)node->operand_count, regions[0], regions[1], c->out);
  qn_graph_release(regions[0]);
  qn_graph_release(regions[1]);
  return st == QN_OK ? !qn_graph_failed(c->g) : qn_call_failed(c, st);
}

const qn_call_rules qn_rules_custom_jvp = {
    .jvp = custom_jvp,
    .forward = custom_forward,
    .back = custom_back,
    .drop = custom_drop,
    .batch = custom_batch,
};
