/* Control flow made simpler: branches that are known are inlined, short loops unrolled, and carries, captures and results that do nothing are
 * dropped. Regions are rebuilt with fewer parameters. What is found here is looked at again in the next round. */
#include "rewrite.h"

#include "quern/ops.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TRIPS = 8, MOST_NODES = 64 };

/* A region's nodes that compute something, those of its own regions too. */
static size_t weight(const qn_graph *g) {
  size_t n = 0;
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *node = qn_graph_node(g, i);
    n += node->op != QN_OP_PARAMETER && node->op != QN_OP_CONSTANT;
    for (int r = 0; r < node->region_count; r++)
      n += weight(node->regions[r]);
  }
  return n;
}

/* ---- a node with fewer operands ---- */
typedef struct slim {
  qn_graph *to;
  const qn_graph *from;
  const qn_node *n;
  const qn_val *operands;
  int first;       /* operand 0 of a branch is no parameter */
  int *place;      /* by parameter: its new number; -1: dropped; -2: the constant that the operand is */
  bool *keep;      /* by result */
  uint8_t *needed; /* by parameter */
  int *origin;     /* by new number: the parameter that has it first */
  int params;      /* new ones */
  int carried;     /* of them, carries: their values change */
} slim;

static bool is_small_constant(qn_val v) {
  const qn_node *def = qn_graph_def(v.graph, v.id);
  return def->op == QN_OP_CONSTANT && ((const qn_attr_constant *)def->attr)->elements == 1;
}

static qn_status slim_region(const slim *s, const qn_graph *r, bool all_results, qn_graph **out) {
  size_t params = qn_graph_param_count(r), results = qn_graph_result_count(r), n = 0;
  qn_graph *g = NULL;
  *out = NULL;
  qn_val *args = calloc(params + results + 1, sizeof *args), *made = args ? args + params : NULL;
  qn_status st = args ? qn_graph_create(qn_graph_name(r), &g) : QN_ERR(QN_OUT_OF_MEMORY, "optimize: no memory");
  if (st == QN_OK) {
    for (int k = 0; k < s->params; k++) {
      size_t i = (size_t)s->origin[k];
      args[i] = qn_graph_param(g, *qn_graph_type(r, qn_graph_param_at(r, i)), qn_graph_param_path(r, i));
    }
    for (size_t i = 0; i < params; i++) {
      qn_val v = s->operands[(size_t)s->first + i];
      if (s->place[i] == -2)
        args[i] = qn_graph_copy_node(g, v.graph, qn_graph_def(v.graph, v.id), NULL);
      else if (s->place[i] == -1)
        args[i] = qn_full_at((qn_place){0}, g, *qn_graph_type(r, qn_graph_param_at(r, i)), 0); /* read by nobody */
      else if (!qn_val_ok(args[i]))
        args[i] = (qn_val){g, qn_graph_param_at(g, (size_t)s->place[i])};
    }
    (void)qn_graph_inline(g, r, args, params, made);
    for (size_t i = 0; i < results; i++)
      if (all_results || s->keep[i])
        made[n++] = made[i];
    st = qn_graph_seal(g, made, n);
  }
  free(args);
  if (st == QN_OK)
    *out = g;
  else
    qn_graph_release(g);
  return st;
}

/* Adds the slim node; results that are kept get its values. */
static bool add_slim(slim *s, qn_val *out) {
  const qn_node *n = s->n;
  int count = s->first;
  qn_val *operands = calloc((size_t)n->operand_count + 1, sizeof *operands);
  qn_graph **regions = calloc((size_t)n->region_count + 1, sizeof *regions);
  qn_status st = operands && regions ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "optimize: no memory");
  if (st == QN_OK) {
    if (s->first)
      operands[0] = s->operands[0];
    for (int k = 0; k < s->params; k++)
      operands[count++] = s->operands[s->first + s->origin[k]];
  }
  for (int r = 0; st == QN_OK && r < n->region_count; r++)
    st = slim_region(s, n->regions[r], n->op == QN_OP_WHILE && r == 0, &regions[r]);
  if (st == QN_OK) {
    qn_val first =
        qn_graph_add(s->to, n->op, operands, (size_t)count, n->attr, regions, (size_t)n->region_count, n->place);
    for (int i = 0, k = 0; i < n->result_count && qn_val_ok(first); i++)
      if (s->keep[i])
        out[i] = qn_val_result(first, k++);
  } else {
    (void)qn_graph_fail(s->to, n->place, st, "%s", qn_error_message());
  }
  for (int r = 0; regions && r < n->region_count; r++)
    qn_graph_release(regions[r]);
  free(regions);
  free(operands);
  return true;
}

/* Marks the parameters of r that results in `keep` (NULL: all) depend on. false: no memory. */
static bool mark_needed(const qn_graph *r, const bool *keep, uint8_t *needed) {
  bool *live = calloc(qn_graph_value_count(r) + 1, sizeof *live);
  if (!live)
    return false;
  for (size_t i = 0; i < qn_graph_result_count(r); i++)
    if (!keep || keep[i])
      live[qn_graph_result(r, i)] = true;
  for (size_t i = qn_graph_node_count(r); i-- > 0;) {
    const qn_node *n = qn_graph_node(r, i);
    bool any = false;
    for (int k = 0; k < n->result_count; k++)
      any = any || live[n->first_result + (uint32_t)k];
    for (int k = 0; any && k < n->operand_count; k++)
      live[n->operands[k]] = true;
  }
  for (size_t i = 0; i < qn_graph_param_count(r); i++)
    needed[i] |= live[qn_graph_param_at(r, i)];
  free(live);
  return true;
}

static void take_place(slim *s, int i) {
  s->origin[s->params] = i;
  s->place[i] = s->params++;
}

/* Gives the other parameters their new places: unneeded ones go, constants move in, one stands for several of the same value. */
static bool place_captures(slim *s) {
  int count = s->n->operand_count - s->first;
  bool changed = false;
  for (int i = 0; i < count; i++) {
    if (s->place[i] >= 0)
      continue;
    qn_val v = s->operands[s->first + i];
    int same = 0;
    while (same < i && (s->place[same] < s->carried || !qn_val_same(s->operands[s->first + same], v)))
      same++;
    if (!s->needed[i])
      s->place[i] = -1;
    else if (is_small_constant(v))
      s->place[i] = -2;
    else if (same < i)
      s->place[i] = s->place[same];
    else
      take_place(s, i);
    changed = changed || s->place[i] != i;
  }
  return changed;
}

/* ---- loops ---- */
/* Does the body make carry k of itself as it makes carry i? */
static bool same_step(const qn_node *n, int i, int k) {
  const qn_graph *body = n->regions[1];
  uint32_t own_i = qn_graph_param_at(body, (size_t)i), own_k = qn_graph_param_at(body, (size_t)k);
  uint32_t at_i = qn_graph_result(body, (size_t)i), at_k = qn_graph_result(body, (size_t)k);
  const qn_node *x = qn_graph_def(body, at_i), *y = qn_graph_def(body, at_k);
  if (x->op == QN_OP_PARAMETER || x->region_count || !qn_node_same(body, x, body, y) ||
      at_i - x->first_result != at_k - y->first_result)
    return false;
  for (int p = 0; p < x->operand_count; p++)
    if (x->operands[p] == own_i || y->operands[p] == own_k ? x->operands[p] != own_i || y->operands[p] != own_k
                                                           : x->operands[p] != y->operands[p])
      return false;
  return true;
}

/* An earlier carry that always has the value of carry i: the same start, the same step. */
static int twin_of(const slim *s, int i) {
  for (int k = 0; k < i; k++)
    if (s->keep[k] && qn_val_same(s->operands[k], s->operands[i]) && same_step(s->n, i, k))
      return k;
  return -1;
}

/* Carries that a used result or the condition depends on. */
static bool find_live_carries(slim *s, const bool *used) {
  const qn_node *n = s->n;
  for (int i = 0; i < n->result_count; i++)
    s->keep[i] = used[n->first_result + (uint32_t)i];
  for (bool grown = true; grown;) {
    grown = false;
    memset(s->needed, 0, (size_t)n->operand_count);
    if (!mark_needed(n->regions[0], NULL, s->needed) || !mark_needed(n->regions[1], s->keep, s->needed))
      return false;
    for (int i = 0; i < n->result_count; i++) {
      grown = grown || (s->needed[i] && !s->keep[i]);
      s->keep[i] = s->keep[i] || s->needed[i];
    }
  }
  return true;
}

static bool slim_loop(slim *s, const bool *used, qn_val *out) {
  const qn_node *n = s->n;
  bool changed = false;
  if (!find_live_carries(s, used))
    return false;
  int *twin = calloc((size_t)n->result_count + 1, sizeof *twin);
  if (!twin)
    return false;
  for (int i = 0; i < n->result_count; i++) {
    twin[i] = -1;
    changed = changed || !s->keep[i];
    if (!s->keep[i])
      s->needed[i] = 0;
    else if (qn_while_invariant(n, i)) {
      changed = true;
      s->keep[i] = false;
      out[i] = s->operands[i];
    } else if ((twin[i] = twin_of(s, i)) >= 0) {
      changed = true;
      s->keep[i] = false;
    } else {
      take_place(s, i);
    }
  }
  s->carried = s->params;
  for (int i = 0; i < n->result_count; i++)
    if (twin[i] >= 0)
      s->place[i] = s->place[twin[i]];
  changed = place_captures(s) || changed;
  if (changed && s->params > 0 && add_slim(s, out)) {
    for (int i = 0; i < n->result_count; i++) {
      if (twin[i] >= 0)
        out[i] = out[twin[i]];
      if (!qn_val_ok(out[i])) /* used by nobody */
        out[i] = s->operands[i];
    }
  } else {
    changed = false;
  }
  free(twin);
  return changed;
}

static bool unroll(qn_graph *to, const qn_node *n, const qn_val *operands, int64_t trips, qn_val *out) {
  qn_val *in = calloc((size_t)n->operand_count + 1, sizeof *in);
  if (!in)
    return false;
  memcpy(in, operands, (size_t)n->operand_count * sizeof *in);
  for (int64_t k = 0; k < trips && !qn_graph_failed(to); k++) {
    if (qn_graph_inline(to, n->regions[1], in, (size_t)n->operand_count, out))
      memcpy(in, out, (size_t)n->result_count * sizeof *in);
  }
  memcpy(out, in, (size_t)n->result_count * sizeof *out);
  free(in);
  return true;
}

/* ---- branches ---- */
static bool known_branch(const qn_node *n, const qn_val *operands, int *out) {
  double x;
  if (n->op == QN_OP_CASE && n->region_count == 1) {
    *out = 0;
    return true;
  }
  if (!qn_graph_constant_at(operands[0].graph, operands[0].id, 0, &x))
    return false;
  int last = n->region_count - 1;
  if (n->op == QN_OP_IF)
    *out = x != 0 ? 0 : 1;
  else
    *out = x < 0 || x > last ? last : (int)x;
  return true;
}

/* A result that every branch hands on from the same parameter; -1: none. */
static int handed_on(const qn_node *n, int i) {
  int param = qn_while_param(n->regions[0], qn_graph_result(n->regions[0], (size_t)i));
  for (int r = 1; r < n->region_count && param >= 0; r++)
    if (qn_graph_result(n->regions[r], (size_t)i) != qn_graph_param_at(n->regions[r], (size_t)param))
      param = -1;
  return param;
}

static bool slim_branches(slim *s, const bool *used, qn_val *out) {
  const qn_node *n = s->n;
  int kept = 0;
  bool changed = false;
  for (int i = 0; i < n->result_count; i++) {
    int param = handed_on(n, i);
    s->keep[i] = used[n->first_result + (uint32_t)i] && param < 0;
    if (param >= 0)
      out[i] = s->operands[1 + param];
    changed = changed || !s->keep[i];
    kept += s->keep[i];
  }
  for (int r = 0; r < n->region_count; r++)
    if (!mark_needed(n->regions[r], s->keep, s->needed))
      return false;
  changed = place_captures(s) || changed;
  if (!changed)
    return false;
  if (kept > 0)
    (void)add_slim(s, out);
  for (int i = 0; i < n->result_count && !qn_graph_failed(s->to); i++)
    if (!qn_val_ok(out[i])) /* used by nobody */
      out[i] = qn_full_at(n->place, s->to, *qn_graph_type(s->from, n->first_result + (uint32_t)i), 0);
  return true;
}

/* ---- the rules ---- */
static const char *slimmer(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands,
                           const bool *used, qn_val *out) {
  size_t most = (size_t)n->operand_count + 1;
  slim s = {.to = to, .from = from, .n = n, .operands = operands, .first = n->op == QN_OP_WHILE ? 0 : 1};
  s.place = calloc(most, sizeof *s.place);
  s.origin = calloc(most, sizeof *s.origin);
  s.needed = calloc(most, sizeof *s.needed);
  s.keep = calloc((size_t)n->result_count + 1, sizeof *s.keep);
  for (size_t i = 0; s.place && i < most; i++)
    s.place[i] = -1;
  bool done = s.place && s.origin && s.needed && s.keep &&
              (n->op == QN_OP_WHILE ? slim_loop(&s, used, out) : slim_branches(&s, used, out));
  free(s.place);
  free(s.origin);
  free(s.needed);
  free(s.keep);
  return !done ? NULL : n->op == QN_OP_WHILE ? "while: carries and captures" : "branches: captures and results";
}

static const char *simpler_loop(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands,
                                qn_val *out) {
  int64_t trips = qn_while_trips(from, n);
  if (trips == 0) {
    memcpy(out, operands, (size_t)n->result_count * sizeof *out);
    return "while: no iteration";
  }
  if (trips > 0 && trips <= MOST_TRIPS && weight(n->regions[1]) <= MOST_NODES)
    return unroll(to, n, operands, trips, out) ? "while: unrolled" : NULL;
  if (trips < 0 || ((const qn_attr_while *)n->attr)->trip_count == trips)
    return NULL;
  qn_attr_while attr = {trips};
  qn_val first = qn_graph_add(to, QN_OP_WHILE, operands, (size_t)n->operand_count, &attr, n->regions, 2, n->place);
  for (int i = 0; i < n->result_count; i++)
    out[i] = (qn_val){first.graph, first.id + (uint32_t)i};
  return "while: trip count";
}

const char *qn_simplify_control(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands,
                                const bool *used, qn_val *out) {
  int branch;
  const char *rule = NULL;
  if (n->op == QN_OP_WHILE)
    rule = simpler_loop(to, from, n, operands, out);
  else if (known_branch(n, operands, &branch) &&
           qn_graph_inline(to, n->regions[branch], operands + 1, (size_t)n->operand_count - 1, out))
    rule = "branches: a known one";
  if (!rule && !qn_graph_failed(to))
    rule = slimmer(to, from, n, operands, used, out);
  return rule;
}
