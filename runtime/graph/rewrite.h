/* The rewrite engine: rules are data. A rule is a pattern over a node and what feeds it, in prefix order, and a function
 * that gives the replacement. Rules sit in short arrays (simplify_*.c) and are indexed by their root's operation.
 *
 * The contract of a rule: the replacement has the type and, bit for bit, the value of what it replaces (NaN stays NaN, zeros
 * keep their sign), for every input; it's strictly simpler (fewer or cheaper nodes), so that rewriting ends. A test under the
 * rule's name shows both. */
#ifndef QN_REWRITE_H
#define QN_REWRITE_H

#include "graph_impl.h"

typedef enum qn_pattern_kind {
  QN_PATTERN_END,
  QN_PATTERN_OP,     /* a node of that op; patterns of its operands follow (none for ops of any arity) */
  QN_PATTERN_ANY,    /* whatever it is */
  QN_PATTERN_VAR,    /* any value; the same number means the same value */
  QN_PATTERN_NUMBER, /* a constant all of whose elements are this number; zeros by sign */
  QN_PATTERN_CONST   /* any constant, kept like a variable */
} qn_pattern_kind;
typedef struct qn_pattern {
  qn_pattern_kind kind;
  int which; /* qn_op, or the variable */
  double number;
} qn_pattern;
#define P_(OP)                                                                                                         \
  { QN_PATTERN_OP, QN_OP_##OP, 0 }
#define ANY_                                                                                                           \
  { QN_PATTERN_ANY, 0, 0 }
#define V_(k)                                                                                                          \
  { QN_PATTERN_VAR, (k), 0 }
#define N_(x)                                                                                                          \
  { QN_PATTERN_NUMBER, 0, (x) }
#define C_(k)                                                                                                          \
  { QN_PATTERN_CONST, (k), 0 }

enum { QN_PATTERN_MOST = 8, QN_MATCH_VARS = 6, QN_MATCH_NODES = 6 };

typedef struct qn_match {
  qn_graph *g;
  qn_val self;                         /* the root's result */
  const qn_node *node[QN_MATCH_NODES]; /* nodes of the pattern's ops, in order; [0] is the root */
  int node_count;
  qn_val v[QN_MATCH_VARS];
} qn_match;

typedef struct qn_rewrite {
  const char *name;
  qn_pattern pattern[QN_PATTERN_MOST];
  qn_val (*result)(const qn_match *m); /* the null value means "not here" */
} qn_rewrite;
typedef struct qn_rewrites {
  const qn_rewrite *rules;
  int count;
} qn_rewrites;

extern const qn_rewrites qn_rules_lower, qn_rules_arith, qn_rules_logic, qn_rules_shape, qn_rules_index;

/* Rules by root op, for one run. */
enum { QN_RULES_MOST = 256 };
typedef struct qn_rule_index {
  const qn_rewrite *rules[QN_RULES_MOST];
  int16_t next[QN_RULES_MOST], first[QN_OP_COUNT];
  int count;
} qn_rule_index;
void qn_rule_index_init(qn_rule_index *index);
void qn_rule_index_add(qn_rule_index *index, const qn_rewrites *list);
/* The first rule that applies to the node that made v; NULL if none does. The replacement is in *out. */
const qn_rewrite *qn_rewrite_apply(const qn_rule_index *index, qn_val v, qn_val *out);

/* ---- for rules ---- */
/* Adds a node at the root's place. `hint` may be NULL. */
qn_val qn_match_add(const qn_match *m, qn_op op, const qn_val *in, int count, const void *attr, const qn_type *hint);
qn_val qn_match_full(const qn_match *m, double x); /* a constant of the root's type */
const qn_type *qn_match_type(const qn_match *m);   /* the root's */
qn_val qn_match_operand(const qn_match *m, int node, int operand);
bool qn_value_is_exact(qn_val v); /* integer or bool */

/* ---- control flow ---- */
/* A simpler form of a while, case or if that is copied from `from`: the rule's name, `out` filled; NULL: it stays. used: by value id of
 * `from`, whether anybody reads it. */
const char *qn_simplify_control(qn_graph *to, const qn_graph *from, const qn_node *n, const qn_val *operands,
                                const bool *used, qn_val *out);

/* ---- constant folding ---- */
/* Evaluates the node that made v if its operands are constants; the null value if that is not wise. *budget bounds the bytes
 * of new constants that are no splat. */
qn_val qn_fold(qn_val v, int64_t *budget);

#endif
