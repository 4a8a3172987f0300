/* case and if: every branch is transformed, and all give the same results: what one of them lacks is zero there. In reverse the branch that
 * was taken is run again, so nothing of it is kept. */
#include "engine.h"

#include <string.h>

/* Regions that belong to a node under construction. */
typedef struct branches {
  qn_graph **graphs;
  int count;
} branches;

static bool open_branches(qn_call *c, branches *b) {
  b->count = c->node->region_count;
  b->graphs = QN_NEW(c->scratch, qn_graph *, b->count + 1);
  return b->graphs != NULL || qn_no_memory(c->g);
}

static void release(branches *b) {
  for (int r = 0; r < b->count; ++r) {
    qn_graph_release(b->graphs[r]);
    b->graphs[r] = NULL;
  }
}

/* The selector, then `n` operands. The first result; the branches are released. */
static qn_val add(qn_call *c, qn_val *in, size_t n, branches *b) {
  qn_val first = qn_graph_add(c->g, c->node->op, in, n, NULL, b->graphs, (size_t)b->count, c->node->place);
  release(b);
  return first;
}

/* ---- tangents ---- */
static qn_status tangent_branches(qn_call *c, const bool *active, bool *want, branches *b) {
  const qn_node *node = c->node;
  bool *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (has == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "branches: out of memory");
  for (int pass = 0; pass < 2; ++pass)
    for (int r = 0; r < node->region_count; ++r) {
      qn_graph_release(b->graphs[r]);
      b->graphs[r] = NULL;
      QN_TRY(qn_region_jvp(node->regions[r], 0, active, want, has, c->scratch, &b->graphs[r]));
      for (int i = 0; i < node->result_count && pass == 0; ++i)
        want[i] = want[i] || has[i];
    }
  return QN_OK;
}

static bool branches_jvp(qn_call *c) {
  const qn_node *node = c->node;
  int captures = node->operand_count - 1, n = node->operand_count;
  bool *active = QN_NEW(c->scratch, bool, captures + 1), *want = QN_NEW(c->scratch, bool, node->result_count + 1);
  qn_val *in = QN_NEW(c->scratch, qn_val, 2 * node->operand_count + 1);
  branches b;
  if (!active || !want || !in || !open_branches(c, &b))
    return qn_no_memory(c->g);
  for (int i = 0; i < node->operand_count; ++i)
    in[i] = c->in[i];
  for (int i = 0; i < captures; ++i) {
    active[i] = qn_val_ok(c->given[i + 1]);
    if (active[i])
      in[n++] = c->given[i + 1];
  }
  qn_status st = tangent_branches(c, active, want, &b);
  if (st != QN_OK) {
    release(&b);
    return qn_call_failed(c, st);
  }
  qn_val first = add(c, in, (size_t)n, &b);
  for (int i = 0, k = node->result_count; i < node->result_count && qn_val_ok(first); ++i) {
    c->out[i] = qn_val_result(first, i);
    if (want[i])
      c->tangents[i] = qn_val_result(first, k++);
  }
  return !qn_graph_failed(c->g);
}

/* ---- cotangents ---- */
/* One branch pulled back: (captures.., cotangents..) -> gradients of the captures in `any`, zeros where this branch has none. */
static qn_status pulled_back(qn_call *c, const qn_graph *r, const bool *given, const bool *any, bool *has,
                             qn_graph **out) {
  qn_graph *joint = NULL, *g = NULL;
  QN_TRY(qn_region_vjp(r, c->wanted + 1, given, has, c->scratch, &joint));
  size_t params = qn_graph_param_count(joint), results = qn_graph_result_count(joint),
         captures = qn_graph_param_count(r);
  qn_val *args = QN_NEW(c->scratch, qn_val, params + 1), *made = QN_NEW(c->scratch, qn_val, results + 1);
  qn_val *kept = QN_NEW(c->scratch, qn_val, captures + 1);
  qn_status st = args && made && kept ? qn_graph_create("pulled_back", &g) : QN_ERR(QN_OUT_OF_MEMORY, "no memory");
  if (st == QN_OK) {
    size_t n = 0, k = qn_graph_result_count(r);
    qn_copy_params(g, joint, args);
    bool ok = qn_graph_inline(g, joint, args, params, made);
    for (size_t i = 0; i < captures && ok; ++i) {
      qn_val grad = has[i] ? made[k++] : QN_NULL_VAL;
      if (any[i])
        kept[n++] = has[i] ? grad : qn_zeros_like(args[i]);
    }
    st = qn_finish(g, kept, n, out);
  }
  qn_graph_release(joint);
  return st;
}

static qn_status pull_back_all(qn_call *c, const bool *given, bool *any, branches *b) {
  const qn_node *node = c->node;
  bool *has = QN_NEW(c->scratch, bool, node->operand_count + 1);
  if (has == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "branches: out of memory");
  for (int pass = 0; pass < 2; ++pass) {
    for (int r = 0; r < node->region_count; ++r) {
      qn_graph *g = NULL;
      QN_TRY(pulled_back(c, node->regions[r], given, any, has, &g));
      for (int i = 0; i < node->operand_count - 1 && pass == 0; ++i)
        any[i] = any[i] || has[i];
      if (pass == 1)
        b->graphs[r] = g;
      else
        qn_graph_release(g);
    }
  }
  return QN_OK;
}

static bool branches_back(qn_call *c) {
  const qn_node *node = c->node;
  int n = node->operand_count;
  bool *given = QN_NEW(c->scratch, bool, node->result_count + 1), *any = QN_NEW(c->scratch, bool, n + 1);
  qn_val *in = QN_NEW(c->scratch, qn_val, n + node->result_count + 1);
  branches b;
  if (!given || !any || !in || !open_branches(c, &b))
    return qn_no_memory(c->g);
  memcpy(in, c->in, (size_t)n * sizeof *in);
  for (int i = 0; i < node->result_count; ++i) {
    given[i] = qn_val_ok(c->given[i]);
    if (given[i])
      in[n++] = c->given[i];
  }
  qn_status st = pull_back_all(c, given, any, &b);
  if (st != QN_OK) {
    release(&b);
    return qn_call_failed(c, st);
  }
  qn_val first = add(c, in, (size_t)n, &b);
  for (int i = 0, k = 0; i < node->operand_count - 1 && qn_val_ok(first); ++i)
    if (any[i])
      c->out[i + 1] = qn_val_result(first, k++);
  return !qn_graph_failed(c->g);
}

/* ---- lanes ---- */
/* The same branch in all lanes. */
static qn_status lane_branches(qn_call *c, bool *want, branches *b) {
  const qn_node *node = c->node;
  bool *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (has == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "branches: out of memory");
  for (int pass = 0; pass < 2; ++pass)
    for (int r = 0; r < node->region_count; ++r) {
      qn_graph_release(b->graphs[r]);
      b->graphs[r] = NULL;
      QN_TRY(qn_region_vmap(node->regions[r], c->lanes, c->mapped + 1, want, has, c->scratch, &b->graphs[r]));
      for (int i = 0; i < node->result_count && pass == 0; ++i)
        want[i] = want[i] || has[i];
    }
  return QN_OK;
}

/* Lanes take branches of their own: all run, and each lane selects. */
static bool select_lanes(qn_call *c) {
  const qn_node *node = c->node;
  qn_val *out = QN_NEW(c->scratch, qn_val, node->result_count + 1);
  bool *has = QN_NEW(c->scratch, bool, node->result_count + 1);
  if (!out || !has)
    return qn_no_memory(c->g);
  for (int r = node->region_count; r-- > 0;) {
    if (!qn_vmap_into(c->g, node->regions[r], c->lanes, c->in + 1, c->mapped + 1, out, has))
      return false;
    qn_val mine = node->op == QN_OP_IF ? c->in[0] : qn_eq(c->in[0], qn_like(c->in[0], r));
    for (int i = 0; i < node->result_count; ++i) {
      qn_val x = has[i] ? out[i] : qn_with_lanes(out[i], c->lanes);
      const qn_type *t = qn_val_type(x);
      if (r < node->region_count - 1)
        x = qn_select(qn_broadcast_in_dim(mine, t->rank, t->dims, ((const int64_t[]){0})), x, c->out[i]);
      c->out[i] = x;
    }
  }
  return !qn_graph_failed(c->g);
}

static bool branches_batch(qn_call *c) {
  const qn_node *node = c->node;
  if (c->mapped[0])
    return select_lanes(c);
  bool *want = QN_NEW(c->scratch, bool, node->result_count + 1);
  qn_val *in = QN_NEW(c->scratch, qn_val, node->operand_count + 1);
  branches b;
  if (!want || !in || !open_branches(c, &b))
    return qn_no_memory(c->g);
  memcpy(in, c->in, (size_t)node->operand_count * sizeof *in);
  qn_status st = lane_branches(c, want, &b);
  if (st != QN_OK) {
    release(&b);
    return qn_call_failed(c, st);
  }
  qn_val first = add(c, in, (size_t)node->operand_count, &b);
  for (int i = 0; i < node->result_count && qn_val_ok(first); ++i) {
    c->out[i] = qn_val_result(first, i);
    c->out_mapped[i] = want[i];
  }
  return !qn_graph_failed(c->g);
}

const qn_call_rules qn_rules_branches = {
    .jvp = branches_jvp,
    .back = branches_back,
    .batch = branches_batch,
};
