/* remat: forward the function is run as it is and keeps its operands and what the policy names. On the way back the rest is computed again,
 * behind a barrier that ties it to the cotangents, so that nothing merges it with the forward pass. */
#include "engine.h"

#include <string.h>

typedef struct policy {
  bool dots;
  const char *names; /* separated by commas */
} policy;

static policy policy_of(const qn_node *node) {
  const qn_attr_name *a = node->attr;
  return (policy){a->target != NULL && strcmp(a->target, "dots") == 0, a->config != NULL ? a->config : ""};
}

static bool is_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; n > 0 && (at = strstr(at, name)) != NULL; at += n)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
      return true;
  return false;
}

static bool keeps(const qn_graph *j, const qn_node *n, const void *user) {
  const policy *p = user;
  (void)j;
  if (n->op == QN_OP_CHECKPOINT_NAME)
    return is_listed(p->names, ((const qn_attr_name *)n->attr)->target);
  return p->dots && qn_op_get(n->op)->kind == QN_KIND_CONTRACT;
}

/* ---- tangents and lanes: the same function with more operands ---- */
static bool remat_jvp(qn_call *c) {
  const qn_node *node = c->node;
  int n = node->operand_count;
  bool *active = QN_NEW(c->scratch, bool, n + 1), *want = QN_NEW(c->scratch, bool, node->result_count + 1),
       *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  qn_val *in = QN_NEW(c->scratch, qn_val, 2 * n + 1);
  if (!active || !want || !has || !in)
    return qn_no_memory(c->g);
  size_t count = (size_t)n;
  for (int i = 0; i < n; ++i) {
    in[i] = c->in[i];
    active[i] = qn_val_ok(c->given[i]);
    if (active[i])
      in[count++] = c->given[i];
  }
  qn_graph *region = NULL;
  for (int pass = 0; pass < 2; ++pass) {
    qn_graph_release(region);
    qn_status st = qn_region_jvp(node->regions[0], n, active, want, has, c->scratch, &region);
    if (st != QN_OK)
      return qn_call_failed(c, st);
    memcpy(want, has, (size_t)node->result_count * sizeof *want);
  }
  qn_val first = qn_graph_add(c->g, QN_OP_REMAT, in, count, node->attr, &region, 1, node->place);
  qn_graph_release(region);
  for (int i = 0, k = node->result_count; i < node->result_count && qn_val_ok(first); ++i) {
    c->out[i] = qn_val_result(first, i);
    if (want[i])
      c->tangents[i] = qn_val_result(first, k++);
  }
  return !qn_graph_failed(c->g);
}

static bool remat_batch(qn_call *c) {
  const qn_node *node = c->node;
  qn_graph *region = NULL;
  qn_status st = qn_region_vmap(node->regions[0], c->lanes, c->mapped, NULL, c->out_mapped, c->scratch, &region);
  if (st != QN_OK)
    return qn_call_failed(c, st);
  qn_val first =
      qn_graph_add(c->g, QN_OP_REMAT, c->in, (size_t)node->operand_count, node->attr, &region, 1, node->place);
  qn_graph_release(region);
  for (int i = 0; i < node->result_count && qn_val_ok(first); ++i)
    c->out[i] = qn_val_result(first, i);
  return !qn_graph_failed(c->g);
}

/* ---- reverse ---- */
typedef struct remat {
  policy policy;
  qn_graph *joint; /* (operands, cotangents of results in ct) -> results, gradients of operands in has */
  bool *ct, *has;
  qn_split split;
  qn_val *residuals;
} remat;

static bool remat_forward(qn_call *c) {
  const qn_node *node = c->node;
  size_t n = (size_t)node->operand_count;
  remat *r = QN_NEW(c->scratch, remat, 1);
  if (r == NULL)
    return qn_no_memory(c->g);
  r->policy = policy_of(node);
  r->has = QN_NEW(c->scratch, bool, n + 1);
  r->ct = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (!r->has || !r->ct)
    return qn_no_memory(c->g);
  memcpy(r->ct, c->felt, (size_t)node->result_count * sizeof *r->ct);
  qn_status st = qn_region_vjp(node->regions[0], c->wanted, r->ct, r->has, c->scratch, &r->joint);
  if (st != QN_OK)
    return qn_call_failed(c, st);
  c->kept = r;
  size_t params = qn_graph_param_count(r->joint);
  bool *late = QN_NEW(c->scratch, bool, params + 1), *free_ = QN_NEW(c->scratch, bool, params + 1);
  if (!late || !free_)
    return qn_no_memory(c->g);
  for (size_t i = n; i < params; ++i)
    late[i] = true;
  r->split = (qn_split){.j = r->joint,
                        .early_results = (size_t)node->result_count,
                        .late = late,
                        .free_ = free_,
                        .keep = keeps,
                        .user = &r->policy,
                        .scratch = c->scratch};
  if (!qn_split_make(&r->split))
    return qn_no_memory(c->g);
  r->residuals = QN_NEW(c->scratch, qn_val, r->split.residual_count + 1);
  return r->residuals ? qn_split_first(&r->split, c->g, c->in, c->out, r->residuals) : qn_no_memory(c->g);
}

static bool remat_back(qn_call *c) {
  const qn_node *node = c->node;
  remat *r = c->kept;
  size_t residuals = r->split.residual_count, n = residuals, params = qn_graph_param_count(r->joint);
  qn_val *loose = QN_NEW(c->scratch, qn_val, residuals + params + 1),
         *tied = QN_NEW(c->scratch, qn_val, residuals + params + 1), *args = QN_NEW(c->scratch, qn_val, params + 1),
         *grads = QN_NEW(c->scratch, qn_val, qn_graph_result_count(r->joint) + 1);
  if (!loose || !tied || !args || !grads)
    return qn_no_memory(c->g);
  memcpy(loose, r->residuals, residuals * sizeof *loose);
  for (int i = 0; i < node->result_count; ++i)
    if (r->ct[i])
      loose[n++] = qn_val_ok(c->given[i]) ? c->given[i]
                                          : qn_full(c->g, *qn_graph_type(c->f, node->first_result + (uint32_t)i), 0);
  if (n > 0)
    qn_optimization_barrier(loose, n, tied);
  for (size_t i = 0; residuals + i < n; ++i)
    args[(size_t)node->operand_count + i] = tied[residuals + i];
  if (qn_graph_failed(c->g) || !qn_split_second(&r->split, c->g, args, tied, grads))
    return false;
  for (int i = 0, k = 0; i < node->operand_count; ++i)
    if (r->has[i])
      c->out[i] = grads[k++];
  return !qn_graph_failed(c->g);
}

static void remat_drop(void *kept) { qn_graph_release(((remat *)kept)->joint); }

const qn_call_rules qn_rules_remat = {
    .jvp = remat_jvp,
    .forward = remat_forward,
    .back = remat_back,
    .drop = remat_drop,
    .batch = remat_batch,
};
