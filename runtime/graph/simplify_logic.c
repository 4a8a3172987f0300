/* Rules of bits, comparisons and choices. */
#include "rewrite.h"

static qn_val first(const qn_match *m) { return m->v[0]; }
static qn_val second(const qn_match *m) { return m->v[1]; }

/* Constants with every bit set: true, -1, the unsigned maximum. */
static bool all_ones(qn_val v) {
  bool splat;
  const uint8_t *p = qn_graph_constant(v.graph, v.id, &splat);
  if (!p || !splat || !qn_value_is_exact(v))
    return false;
  if (qn_val_type(v)->dtype == QN_BOOL)
    return *p == 1;
  for (size_t i = 0; i < qn_dtype_size(qn_val_type(v)->dtype); i++)
    if (p[i] != 0xff)
      return false;
  return true;
}

static qn_val first_if_ones(const qn_match *m) { return all_ones(m->v[1]) ? m->v[0] : QN_NULL_VAL; }
static qn_val ones_if_ones(const qn_match *m) { return all_ones(m->v[1]) ? m->v[1] : QN_NULL_VAL; }
static qn_val zero(const qn_match *m) { return qn_match_full(m, 0); }

static qn_val invert(const qn_match *m) {
  return all_ones(m->v[1]) ? qn_match_add(m, QN_OP_NOT, m->v, 1, NULL, NULL) : QN_NULL_VAL;
}

static qn_val select_swapped(const qn_match *m) {
  qn_val in[3] = {m->v[0], m->v[2], m->v[1]};
  return qn_match_add(m, QN_OP_SELECT, in, 3, NULL, NULL);
}

/* select(p, true, false) is p, where they have one shape. */
static qn_val select_of_bools(const qn_match *m) {
  return qn_type_equal(qn_val_type(m->v[0]), qn_match_type(m)) ? m->v[0] : QN_NULL_VAL;
}

/* x against itself: known for every x where equality is reflexive, and for NaN where the answer is false either way. */
static qn_val compare_same(const qn_match *m) {
  const qn_attr_compare *a = m->node[0]->attr;
  bool reflexive = qn_value_is_exact(m->v[0]) || a->type == QN_CMP_TOTALORDER;
  bool holds = a->direction == QN_CMP_EQ || a->direction == QN_CMP_LE || a->direction == QN_CMP_GE;
  bool strict = a->direction == QN_CMP_LT || a->direction == QN_CMP_GT;
  return reflexive || strict ? qn_match_full(m, holds ? 1 : 0) : QN_NULL_VAL;
}

/* not(x < y) is x >= y, where there is no NaN. */
static qn_val compare_not(const qn_match *m) {
  static const qn_compare_direction inverse[] = {QN_CMP_NE, QN_CMP_EQ, QN_CMP_GE, QN_CMP_GT, QN_CMP_LE, QN_CMP_LT};
  const qn_attr_compare *a = m->node[1]->attr;
  bool equality = a->direction == QN_CMP_EQ || a->direction == QN_CMP_NE;
  if (!qn_value_is_exact(m->v[0]) && a->type != QN_CMP_TOTALORDER && !equality)
    return QN_NULL_VAL;
  qn_attr_compare b = {inverse[a->direction], a->type};
  return qn_match_add(m, QN_OP_COMPARE, m->v, 2, &b, NULL);
}

static const qn_rewrite logic[] = {
    {"not(not(x)) -> x", {P_(NOT), P_(NOT), V_(0)}, first},
    {"not(compare) -> inverse compare", {P_(NOT), P_(COMPARE), V_(0), V_(1)}, compare_not},
    {"and(x,x) -> x", {P_(AND), V_(0), V_(0)}, first},
    {"and(x,0) -> 0", {P_(AND), V_(0), N_(0.0)}, zero},
    {"and(0,x) -> 0", {P_(AND), N_(0.0), V_(0)}, zero},
    {"and(x,ones) -> x", {P_(AND), V_(0), C_(1)}, first_if_ones},
    {"and(ones,x) -> x", {P_(AND), C_(1), V_(0)}, first_if_ones},
    {"or(x,x) -> x", {P_(OR), V_(0), V_(0)}, first},
    {"or(x,0) -> x", {P_(OR), V_(0), N_(0.0)}, first},
    {"or(0,x) -> x", {P_(OR), N_(0.0), V_(0)}, first},
    {"or(x,ones) -> ones", {P_(OR), V_(0), C_(1)}, ones_if_ones},
    {"or(ones,x) -> ones", {P_(OR), C_(1), V_(0)}, ones_if_ones},
    {"xor(x,x) -> 0", {P_(XOR), V_(0), V_(0)}, zero},
    {"xor(x,0) -> x", {P_(XOR), V_(0), N_(0.0)}, first},
    {"xor(0,x) -> x", {P_(XOR), N_(0.0), V_(0)}, first},
    {"xor(x,ones) -> not(x)", {P_(XOR), V_(0), C_(1)}, invert},
    {"shift_left(x,0) -> x", {P_(SHIFT_LEFT), V_(0), N_(0.0)}, first},
    {"shift_right_logical(x,0) -> x", {P_(SHIFT_RIGHT_LOGICAL), V_(0), N_(0.0)}, first},
    {"shift_right_arithmetic(x,0) -> x", {P_(SHIFT_RIGHT_ARITHMETIC), V_(0), N_(0.0)}, first},
    {"compare(x,x) -> known", {P_(COMPARE), V_(0), V_(0)}, compare_same},
    {"select(p,x,x) -> x", {P_(SELECT), V_(1), V_(0), V_(0)}, first},
    {"select(true,x,y) -> x", {P_(SELECT), N_(1), V_(0), V_(1)}, first},
    {"select(false,x,y) -> y", {P_(SELECT), N_(0.0), V_(0), V_(1)}, second},
    {"select(p,true,false) -> p", {P_(SELECT), V_(0), N_(1), N_(0.0)}, select_of_bools},
    {"select(not(p),x,y) -> select(p,y,x)", {P_(SELECT), P_(NOT), V_(0), V_(1), V_(2)}, select_swapped},
};
const qn_rewrites qn_rules_logic = {logic, sizeof logic / sizeof *logic};
