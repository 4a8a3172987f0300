/* Graphs in plain StableHLO: what only Quern knows (marks, custom derivatives, its own operations) is put in simpler words, so that other tools
 * read the text. Values stay the same; derivatives taken afterwards are those of the words. */
#include "text_impl.h"

#include <stdlib.h>
#include <string.h>

#include "quern/op.h"
#include "quern/ops.h"

enum { MOST_ROUNDS = 32, MOST_REGIONS = 8 };

typedef struct plainer {
  qn_status st;
} plainer;

/* Operations that take more element types here than in StableHLO, and how the others are said there. */
static qn_val integer_square(const qn_node *n, const qn_val *in) { return qn_multiply_at(n->place, in[0], in[0]); }
static qn_val unsigned_sign(const qn_node *n, const qn_val *in) {
  return qn_minimum_at(n->place, in[0], qn_like_at(n->place, in[0], 1));
}

typedef qn_val (*spell_fn)(const qn_node *n, const qn_val *in);
static const struct {
  qn_op op;
  unsigned dtypes; /* of operand 0: those that StableHLO lacks */
  spell_fn spell;
} spellings[] = {
    {QN_OP_SQUARE, QN_D_INT, integer_square},
    {QN_OP_SIGN, QN_D_UNSIGNED, unsigned_sign},
};

static spell_fn spelling_of(const qn_graph *g, const qn_node *n) {
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
    if (spellings[i].op == n->op &&
        spellings[i].dtypes >> qn_dtype_classify(qn_graph_type(g, n->operands[0])->dtype) & 1)
      return spellings[i].spell;
  return NULL;
}

static bool is_own(const qn_graph *g, const qn_node *n) {
  bool named = strncmp(qn_op_get(n->op)->name, "quern.", 6) == 0 && !qn_form_get(n->op)->target;
  return named || spelling_of(g, n);
}

static bool has_own(const qn_graph *g) {
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    if (is_own(g, n))
      return true;
    for (int r = 0; r < n->region_count; r++)
      if (has_own(n->regions[r]))
        return true;
  }
  return false;
}

/* A mark gives its operands back. */
static bool is_identity(const qn_graph *g, const qn_node *n) {
  bool same = qn_op_get(n->op)->kind == QN_KIND_MARK && n->operand_count == n->result_count && n->region_count == 0;
  for (int i = 0; same && i < n->result_count; i++)
    same = qn_type_equal(qn_graph_type(g, n->operands[i]), qn_graph_type(g, n->first_result + (uint32_t)i));
  return same;
}

static bool replace_own(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands, qn_val *out) {
  const qn_op_def *row = qn_op_get(n->op);
  spell_fn spell = spelling_of(from, n);
  if (spell) {
    out[0] = spell(n, operands);
    return true;
  }
  qn_rule r = {
      .g = to, .node = n, .attr = n->attr, .in_count = n->operand_count, .out_count = n->result_count, .in = operands};
  qn_graph_set_place(to, &n->place);
  bool done = row->lower && row->lower(&r, out);
  qn_graph_set_place(to, NULL);
  if (done)
    return true;
  if (is_identity(from, n)) {
    for (int i = 0; i < n->result_count; i++)
      out[i] = operands[i];
    return true;
  }
  if (row->kind == QN_KIND_MARK && n->region_count && qn_graph_param_count(n->regions[0]) == (size_t)n->operand_count)
    return qn_graph_inline(to, n->regions[0], operands, (size_t)n->operand_count, out) || qn_graph_failed(to);
  (void)qn_graph_fail(to, n->place, QN_UNSUPPORTED, "%s: it cannot be said in plain StableHLO", row->name);
  return true;
}

static bool step(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands, qn_val *out,
                 void *user) {
  plainer *p = user;
  qn_graph *regions[MOST_REGIONS] = {NULL};
  bool nested = false;
  if (is_own(from, n))
    return replace_own(to, from, n, operands, out);
  for (int r = 0; r < n->region_count; r++)
    nested |= has_own(n->regions[r]);
  if (!nested || n->region_count > MOST_REGIONS)
    return false;
  for (int r = 0; r < n->region_count && p->st == QN_OK; r++)
    p->st = qn_graph_plain(n->regions[r], &regions[r]);
  if (p->st == QN_OK) {
    qn_val first = qn_graph_add_typed(to, n->op, operands, (size_t)n->operand_count, n->attr, regions,
                                      (size_t)n->region_count, qn_graph_type(from, n->first_result), n->place);
    for (int i = 0; i < n->result_count; i++)
      out[i] = qn_val_ok(first) ? qn_val_result(first, i) : QN_NULL_VAL;
  } else {
    (void)qn_graph_fail(to, n->place, p->st, "%s", qn_error_message());
  }
  for (int r = 0; r < n->region_count; r++)
    qn_graph_release(regions[r]);
  return true;
}

qn_status qn_graph_plain(const qn_graph *g, qn_graph **out_graph) {
  qn_graph *now = qn_graph_retain(g);
  *out_graph = NULL;
  for (int round = 0; round < MOST_ROUNDS && has_own(now); round++) {
    plainer p = {QN_OK};
    qn_graph *next = NULL;
    qn_status st = qn_graph_rebuild(now, step, &p, &next);
    qn_graph_release(now);
    QN_TRY(st);
    now = next;
  }
  *out_graph = now;
  return QN_OK;
}
