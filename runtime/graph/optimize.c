/* The optimiser: rounds of one walk each, until a round changes nothing. In a round every live node is looked up among its
 * equals (common subexpressions), copied, folded if its operands are constants, and rewritten by the rules of its op. What a
 * rule builds is looked at in the next round. Dead nodes are left behind by the walk itself. */
#include "rewrite.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 64, MOST_STEPS = 16, FOLD_BYTES = 64 << 10 };

typedef struct entry {
  uint64_t hash;
  uint32_t first; /* 0: free */
} entry;

typedef struct region_pair {
  const qn_graph *from;
  qn_graph *to;
} region_pair;

typedef struct optimizer {
  const qn_optimize_desc *desc;
  qn_rule_index index;
  entry *table;
  size_t table_size;
  region_pair *regions;
  size_t region_count, region_capacity;
  int64_t budget;
  bool *used; /* by value id of the round's graph: somebody reads it */
  bool changed, trace;
  qn_status st;
} optimizer;

/* ---- the log ---- */
static void describe(const qn_graph *g, uint32_t id, qn_text *out) {
  const qn_node *n = qn_graph_def(g, id);
  qn_text_add(out, "%s(", qn_op_get(n->op)->name);
  for (int i = 0; i < n->operand_count && i < 8; i++)
    qn_text_add(out, "%s%%%" PRIu32, i ? ", " : "", n->operands[i]);
  qn_text_add(out, ") %s", qn_type_str(qn_graph_type(g, id)));
}

static void log_rule(const optimizer *o, const char *name, qn_val before, qn_val after) {
  qn_text line = {0};
  if (!o->desc->log && !o->trace)
    return;
  qn_text_add(&line, "%s: ", name);
  describe(before.graph, before.id, &line);
  qn_text_puts(&line, " -> ");
  describe(after.graph, after.id, &line);
  qn_text_puts(&line, "\n");
  if (o->desc->log && line.buf)
    qn_text_puts(o->desc->log, line.buf);
  if (o->trace && line.buf)
    (void)fputs(line.buf, stderr);
  qn_text_free(&line);
}

/* ---- common subexpressions ---- */
static uint64_t key_of(const qn_graph *from, const qn_node *n, const qn_val *operands) {
  uint64_t h = qn_node_hash(from, n);
  for (int i = 0; i < n->operand_count; i++)
    h = (h ^ operands[i].id) * UINT64_C(0x9fb21c651e98df25);
  return h ^ h >> 29;
}

static bool same_operands(const qn_node *have, const qn_val *operands) {
  for (int i = 0; i < have->operand_count; i++)
    if (have->operands[i] != operands[i].id)
      return false;
  return true;
}

/* The slot of an equal node, or the free one where it belongs. */
static entry *look_up(optimizer *o, const qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands,
                      uint64_t hash) {
  size_t at = (size_t)hash & (o->table_size - 1);
  for (;; at = (at + 1) & (o->table_size - 1)) {
    entry *e = &o->table[at];
    if (!e->first)
      return e;
    const qn_node *have = qn_graph_def(to, e->first);
    if (e->hash == hash && qn_node_same(to, have, from, n) && same_operands(have, operands))
      return e;
  }
}

/* ---- regions ---- */
/* An optimised region, owned by the optimiser; combiners of one operation stay as they are. */
static qn_graph *optimized_region(optimizer *o, qn_graph *region) {
  if (qn_graph_node_count(region) <= qn_graph_param_count(region) + 1)
    return region;
  for (size_t i = 0; i < o->region_count; i++)
    if (o->regions[i].from == region || o->regions[i].to == region)
      return o->regions[i].to;
  if (!QN_RESERVE(o->regions, o->region_capacity, o->region_count + 1)) {
    o->st = QN_ERR(QN_OUT_OF_MEMORY, "optimize: no memory");
    return region;
  }
  qn_graph *to = NULL;
  qn_status st = qn_graph_optimize(region, o->desc, &to);
  if (st != QN_OK) {
    o->st = st;
    return region;
  }
  o->regions[o->region_count++] = (region_pair){qn_graph_retain(region), to};
  return to;
}

static qn_val copy_with_regions(optimizer *o, qn_graph *to, const qn_graph *from, const qn_node *n,
                                const qn_val *operands) {
  qn_graph *few[8];
  if (n->region_count == 0 || n->region_count > 8)
    return qn_graph_copy_node(to, from, n, operands);
  for (int i = 0; i < n->region_count; i++)
    few[i] = optimized_region(o, n->regions[i]);
  return qn_graph_add_typed(to, n->op, operands, (size_t)n->operand_count, n->attr, few, (size_t)n->region_count,
                            qn_graph_type(from, n->first_result), n->place);
}

/* ---- one node ---- */
static qn_val simplify(optimizer *o, qn_val v) {
  for (int step = 0; step < MOST_STEPS && qn_val_ok(v) && !qn_graph_failed(v.graph); step++) {
    const char *name = "fold";
    qn_val better = o->desc->no_fold ? QN_NULL_VAL : qn_fold(v, &o->budget);
    if (!qn_val_ok(better)) {
      const qn_rewrite *rule = qn_rewrite_apply(&o->index, v, &better);
      if (!rule || !qn_val_ok(better))
        return v;
      name = rule->name;
    }
    log_rule(o, name, v, better);
    o->changed = true;
    v = better;
  }
  return v;
}

static bool step(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands, qn_val *out,
                 void *user) {
  optimizer *o = user;
  if (qn_op_get(n->op)->kind == QN_KIND_MARK && n->region_count) { /* several results, so no rule can say it */
    o->changed = true;
    return qn_graph_inline(to, n->regions[0], operands, (size_t)n->operand_count, out) || qn_graph_failed(to);
  }
  if (qn_op_get(n->op)->kind == QN_KIND_CONTROL && !o->desc->no_simplify) {
    const char *rule = qn_simplify_control(to, from, n, operands, o->used, out);
    if (rule && n->result_count > 0)
      log_rule(o, rule, (qn_val){(qn_graph *)from, n->first_result}, out[0]);
    o->changed = o->changed || rule;
    if (rule || qn_graph_failed(to))
      return true;
  }
  uint64_t hash = o->desc->no_cse ? 0 : key_of(from, n, operands);
  entry *e = o->desc->no_cse || n->result_count == 0 ? NULL : look_up(o, to, from, n, operands, hash);
  qn_val first;
  if (e && e->first) {
    first = (qn_val){to, e->first};
    qn_val before = {(qn_graph *)from, n->first_result};
    log_rule(o, "cse", before, first);
    o->changed = true;
  } else {
    first = copy_with_regions(o, to, from, n, operands);
    if (e && qn_val_ok(first))
      *e = (entry){hash, first.id};
  }
  for (int i = 0; i < n->result_count; i++)
    out[i] = (qn_val){first.graph, first.id + (uint32_t)i};
  if (n->result_count == 1)
    out[0] = simplify(o, first);
  return true;
}

/* Values that live nodes or the graph's results read, by id. */
static bool *mark_used(const qn_graph *g) {
  bool *used = calloc(qn_graph_value_count(g) + 1, sizeof *used);
  for (size_t i = 0; used && i < qn_graph_result_count(g); i++)
    used[qn_graph_result(g, i)] = true;
  for (size_t i = qn_graph_node_count(g); used && i-- > 0;) {
    const qn_node *n = qn_graph_node(g, i);
    bool live = false;
    for (int k = 0; k < n->result_count; k++)
      live = live || used[n->first_result + (uint32_t)k];
    for (int k = 0; live && k < n->operand_count; k++)
      used[n->operands[k]] = true;
  }
  return used;
}

static qn_status run_round(optimizer *o, const qn_graph *g, qn_graph **out_graph) {
  size_t need = 16;
  while (need < 2 * qn_graph_node_count(g))
    need *= 2;
  if (need > o->table_size) {
    free(o->table);
    o->table_size = need;
    o->table = malloc(need * sizeof *o->table);
    if (!o->table) {
      o->table_size = 0;
      return QN_ERR(QN_OUT_OF_MEMORY, "optimize: no memory");
    }
  }
  memset(o->table, 0, o->table_size * sizeof *o->table);
  o->changed = false;
  free(o->used);
  o->used = mark_used(g);
  if (!o->used)
    return QN_ERR(QN_OUT_OF_MEMORY, "optimize: no memory");
  QN_TRY(qn_graph_rebuild(g, step, o, out_graph));
  if (o->st != QN_OK) {
    qn_graph_release(*out_graph);
    *out_graph = NULL;
    return o->st;
  }
  return QN_OK;
}

qn_status qn_graph_optimize(const qn_graph *g, const qn_optimize_desc *desc, qn_graph **out_graph) {
  static const qn_optimize_desc plain;
  const char *trace = qn_env_get(QN_ENV_TRACE);
  optimizer o = {.desc = desc ? desc : &plain, .budget = FOLD_BYTES, .trace = trace && strstr(trace, "rewrite")};
  *out_graph = NULL;
  qn_rule_index_init(&o.index);
  qn_rule_index_add(&o.index, &qn_rules_lower);
  if (!o.desc->no_simplify) {
    qn_rule_index_add(&o.index, &qn_rules_arith);
    qn_rule_index_add(&o.index, &qn_rules_logic);
    qn_rule_index_add(&o.index, &qn_rules_shape);
    qn_rule_index_add(&o.index, &qn_rules_index);
  }
  qn_status st = QN_OK;
  qn_graph *now = qn_graph_retain(g);
  o.changed = true;
  for (int round = 0; o.changed && round < MOST_ROUNDS; round++) {
    qn_graph *next = NULL;
    QN_TRY_GOTO(st, run_round(&o, now, &next), done);
    qn_graph_release(now);
    now = next;
  }
done:
  for (size_t i = 0; i < o.region_count; i++) {
    qn_graph_release((qn_graph *)o.regions[i].from);
    qn_graph_release(o.regions[i].to);
  }
  free(o.regions);
  free(o.used);
  free(o.table);
  if (st != QN_OK)
    qn_graph_release(now);
  else
    *out_graph = now;
  return st;
}
