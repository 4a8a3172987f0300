/* The product of a cotangent or tangent and a partial that every derivative rule uses. An infinite partial (1/x at 0 in a branch that was
 * not selected) must not turn a zero into NaN; the guard is left out where the partial cannot be infinite. */
#include "move_shape.h"

#include "../oracle.h"

enum { LOOK_DEPTH = 8 };

typedef bool (*element_test)(double x);
static bool is_finite_number(double x) { return x - x == 0; }
static bool is_one_or_more(double x) { return x >= 1 || x <= -1; }
static bool is_not_zero(double x) { return x < 0 || x > 0; }
static bool is_one(double x) { return x >= 1 && x <= 1; }
static bool is_minus_one(double x) { return x >= -1 && x <= -1; }

/* Every element of a floating-point constant passes. */
static bool constant_passes(qn_val v, element_test test) {
  bool splat = false;
  const void *data = qn_graph_constant(v.graph, v.id, &splat);
  const qn_type *t = qn_val_type(v);
  bool complex = qn_dtype_is_complex(t->dtype);
  if (data == NULL || (!qn_dtype_is_float(t->dtype) && !complex))
    return false;
  int64_t count = splat ? 1 : qn_type_elements(t);
  for (int64_t i = 0; i < count; ++i) {
    double x[2] = {0, 0};
    qn_oracle_load_f(complex ? qn_dtype_part(t->dtype) : t->dtype, data, complex ? 2 * i : i, complex ? 2 : 1, x);
    if (!test(x[0]) || is_not_zero(x[1]) || !is_finite_number(x[1])) /* of complex numbers, real ones are recognised */
      return false;
  }
  return true;
}

static qn_val behind_broadcast(qn_val v) {
  for (int i = 0; i < LOOK_DEPTH; ++i) {
    const qn_node *node = qn_graph_def(v.graph, v.id);
    if (node == NULL || (node->op != QN_OP_BROADCAST_IN_DIM && node->op != QN_OP_RESHAPE))
      break;
    v.id = node->operands[0];
  }
  return v;
}

static bool all_operands(qn_val v, const qn_node *node, int first, int depth, bool (*known)(qn_val, int)) {
  for (int i = first; i < node->operand_count; ++i)
    if (!known((qn_val){v.graph, node->operands[i]}, depth - 1))
      return false;
  return true;
}

/* Finite whatever the parameters are. */
static bool known_finite(qn_val v, int depth) {
  if (depth == 0)
    return false;
  const qn_node *node = qn_graph_def(v.graph, v.id);
  if (node == NULL)
    return false;
  if (node->op == QN_OP_CONSTANT)
    return constant_passes(v, is_finite_number);
  if (node->op == QN_OP_IOTA)
    return qn_val_type(v)->dtype != QN_F16;
  if (node->op == QN_OP_CONVERT) {
    const qn_type *from = qn_graph_type(v.graph, node->operands[0]);
    return from->dtype == QN_BOOL || (qn_dtype_is_int(from->dtype) && qn_val_type(v)->dtype != QN_F16);
  }
  if (node->op == QN_OP_DIVIDE)
    return known_finite((qn_val){v.graph, node->operands[0]}, depth - 1) &&
           constant_passes(behind_broadcast((qn_val){v.graph, node->operands[1]}), is_one_or_more);
  if (node->op == QN_OP_SELECT)
    return all_operands(v, node, 1, depth, known_finite);
  if (node->op == QN_OP_NEGATE || node->op == QN_OP_ABS || node->op == QN_OP_BROADCAST_IN_DIM ||
      node->op == QN_OP_RESHAPE || node->op == QN_OP_TRANSPOSE || node->op == QN_OP_CONCATENATE ||
      node->op == QN_OP_PAD)
    return all_operands(v, node, 0, depth, known_finite);
  return false;
}

static bool known_nonzero(qn_val v, int depth) {
  if (depth == 0)
    return false;
  const qn_node *node = qn_graph_def(v.graph, v.id);
  if (node == NULL)
    return false;
  if (node->op == QN_OP_CONSTANT)
    return constant_passes(v, is_not_zero);
  if (node->op == QN_OP_NEGATE || node->op == QN_OP_BROADCAST_IN_DIM || node->op == QN_OP_RESHAPE)
    return all_operands(v, node, 0, depth, known_nonzero);
  return false;
}

qn_val qn_rule_product(qn_val given, qn_val partial) {
  if (!qn_val_ok(given) || !qn_val_ok(partial))
    return QN_NULL_VAL;
  qn_val plain = behind_broadcast(partial);
  if (constant_passes(plain, is_one))
    return given;
  if (constant_passes(plain, is_minus_one))
    return qn_neg(given);
  qn_val y = qn_mul(given, partial);
  if (known_finite(partial, LOOK_DEPTH) || known_nonzero(given, LOOK_DEPTH))
    return y;
  qn_val zero = qn_like(given, 0.0);
  return qn_select(qn_and(qn_eq(given, zero), qn_ne(y, y)), zero, y);
}
