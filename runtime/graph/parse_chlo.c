/* Operations of StableHLO's client dialect that have no row of their own: each is read and becomes a few that have. */
#include "text_impl.h"

#include <math.h>
#include <string.h>

#include "quern/ops.h"

typedef struct sugar {
  const char *name;
  size_t operands;
  qn_val (*build)(qn_parser *p, const qn_stmt *s);
} sugar;

static qn_val build_conj(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return qn_conj_at(s->at, s->operands[0]);
}

static qn_val equals(const qn_stmt *s, qn_val x, double y) {
  return qn_compare_at(s->at, x, qn_like_at(s->at, x, y), QN_CMP_EQ, QN_CMP_DEFAULT);
}
static qn_val build_is_inf(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return equals(s, qn_abs_at(s->at, s->operands[0]), (double)INFINITY);
}
static qn_val build_is_pos_inf(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return equals(s, s->operands[0], (double)INFINITY);
}
static qn_val build_is_neg_inf(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return equals(s, s->operands[0], -(double)INFINITY);
}

static qn_val build_select(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return qn_select_at(s->at, s->operands[0], s->operands[1], s->operands[2]);
}

static int word_of(const qn_stmt *s, const char *name, const char *const *words) {
  const qn_attr *a = qn_parse_attr_find(s->attrs, name);
  for (int i = 0; a && a->kind == QN_A_WORD && words[i]; i++)
    if (strcmp(words[i], a->text) == 0)
      return i;
  return -1;
}
static qn_val build_compare(qn_parser *p, const qn_stmt *s) {
  const qn_form *form = qn_form_get(QN_OP_COMPARE);
  int direction = word_of(s, "comparison_direction", form->fields[0].words);
  int type = word_of(s, "compare_type", form->fields[1].words);
  if (direction < 0) {
    (void)qn_parse_fail_at(p, s->at, "%s: attribute comparison_direction is missing", s->name);
    return QN_NULL_VAL;
  }
  return qn_compare_at(s->at, s->operands[0], s->operands[1], (qn_compare_direction)direction,
                       type < 0 ? QN_CMP_DEFAULT : (qn_compare_type)type);
}

/* broadcast_add and its like: the builder of the binary operation that the rest of the name is. */
static const struct {
  qn_op op;
  qn_val (*build)(qn_place at, qn_val a, qn_val b);
} binaries[] = {
#define QN_OP_UNARY(NAME, row)
#define QN_OP_BINARY(NAME, row) {QN_OP_##NAME, qn_##row##_at},
#define QN_OP_OTHER(NAME, row)
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER
};
static const char broadcast_prefix[] = "chlo.broadcast_";

static int binary_of(const char *name) {
  size_t n = sizeof broadcast_prefix - 1;
  if (strncmp(name, broadcast_prefix, n) != 0)
    return -1;
  for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
    const char *row = qn_op_get(binaries[i].op)->name;
    if (strcmp(name + n, strncmp(row, "chlo.", 5) == 0 ? row + 5 : row) == 0)
      return (int)i;
  }
  return -1;
}
static qn_val build_binary(qn_parser *p, const qn_stmt *s) {
  (void)p;
  return binaries[binary_of(s->name)].build(s->at, s->operands[0], s->operands[1]);
}

static const sugar sugars[] = {
    {"chlo.conj", 1, build_conj},
    {"chlo.is_inf", 1, build_is_inf},
    {"chlo.is_pos_inf", 1, build_is_pos_inf},
    {"chlo.is_neg_inf", 1, build_is_neg_inf},
    {"chlo.broadcast_select", 3, build_select},
    {"chlo.broadcast_compare", 2, build_compare},
};
static const sugar binary = {broadcast_prefix, 2, build_binary};

static const sugar *find(const char *name) {
  for (size_t i = 0; i < sizeof sugars / sizeof *sugars; i++)
    if (strcmp(sugars[i].name, name) == 0)
      return &sugars[i];
  return binary_of(name) >= 0 ? &binary : NULL;
}

bool qn_parse_is_sugar(const char *name) { return find(name) != NULL; }

bool qn_parse_sugar(qn_parser *p, qn_stmt *s, bool generic, qn_val *out) {
  const sugar *x = find(s->name);
  s->form = qn_form_get(QN_OP_NONE);
  if (!(generic ? qn_parse_generic(p, s) : qn_parse_pretty(p, s)))
    return false;
  if (s->operand_count != x->operands)
    return qn_parse_fail_at(p, s->at, "%s: %zu operands, expected %zu", s->name, s->operand_count, x->operands);
  if (qn_parse_attr_find(s->attrs, "broadcast_dimensions"))
    return qn_parse_fail_at(p, s->at, "%s: broadcast_dimensions are not supported, only trailing axes that line up",
                            s->name);
  *out = x->build(p, s);
  if (p->code != QN_OK)
    return false;
  return qn_val_ok(*out) || qn_parse_graph_failed(p, p->scope->graph);
}
