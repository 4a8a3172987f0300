/* Builders of elementwise operations: operands are lined up by NumPy's rule, then one node is added. */
#include "quern/op.h"
#include "quern/ops.h"

/* Widens `to` so that t broadcasts into it; false where sizes clash. */
static bool join_shapes(qn_type *to, const qn_type *t) {
  int rank = to->rank > t->rank ? to->rank : t->rank;
  qn_type out = {.dtype = to->dtype, .rank = rank};
  for (int k = 1; k <= rank; k++) {
    int64_t a = k <= to->rank ? to->dims[to->rank - k] : 1, b = k <= t->rank ? t->dims[t->rank - k] : 1;
    if (a != b && a != 1 && b != 1)
      return false;
    out.dims[rank - k] = a == 1 ? b : a;
  }
  *to = out;
  return true;
}

/* Broadcasts `count` values to their common shape by NumPy's rule, in place. Their graph; NULL after a failure. */
static qn_graph *line_up(const char *name, qn_place at, qn_val *v, int count) {
  qn_graph *g = qn_graph_common(name, v, (size_t)count, at);
  if (g == NULL)
    return NULL;
  qn_type to = *qn_val_type(v[0]);
  for (int i = 1; i < count; i++) {
    if (!join_shapes(&to, qn_val_type(v[i]))) {
      (void)qn_graph_fail(g, at, QN_INVALID, "%s: operand %d is %s, which does not broadcast with %s%s", name, i,
                          qn_type_str(qn_val_type(v[i])), qn_type_str(&to), i == 1 ? " as operand 0" : "");
      return NULL;
    }
  }
  for (int i = 0; i < count; i++)
    if (!qn_type_same_shape(qn_val_type(v[i]), &to))
      v[i] = qn_broadcast_to_at(at, v[i], to.rank, to.dims);
  return qn_graph_failed(g) ? NULL : g;
}

static qn_val add_unary(qn_place at, qn_op op, qn_val x) {
  qn_graph *g = qn_graph_common(qn_op_get(op)->name, &x, 1, at);
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, op, &x, 1, NULL, NULL, 0, at);
}

static qn_val add_binary(qn_place at, qn_op op, qn_val a, qn_val b) {
  qn_val v[2] = {a, b};
  qn_graph *g = line_up(qn_op_get(op)->name, at, v, 2);
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, op, v, 2, NULL, NULL, 0, at);
}

#define QN_OP_UNARY(NAME, row)                                                                                         \
  qn_val qn_##row##_at(qn_place at, qn_val x) { return add_unary(at, QN_OP_##NAME, x); }
#define QN_OP_BINARY(NAME, row)                                                                                        \
  qn_val qn_##row##_at(qn_place at, qn_val a, qn_val b) { return add_binary(at, QN_OP_##NAME, a, b); }
#define QN_OP_OTHER(NAME, row)
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER

qn_val qn_compare_at(qn_place at, qn_val a, qn_val b, qn_compare_direction direction, qn_compare_type type) {
  qn_val v[2] = {a, b};
  qn_graph *g = line_up("compare", at, v, 2);
  qn_attr_compare attr = {.direction = direction, .type = type};
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, QN_OP_COMPARE, v, 2, &attr, NULL, 0, at);
}

qn_val qn_select_at(qn_place at, qn_val pred, qn_val on_true, qn_val on_false) {
  qn_val v[3] = {pred, on_true, on_false};
  qn_graph *g = line_up("select", at, v, 3);
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, QN_OP_SELECT, v, 3, NULL, NULL, 0, at);
}

qn_val qn_clamp_at(qn_place at, qn_val lo, qn_val x, qn_val hi) {
  qn_val v[3] = {lo, x, hi};
  qn_graph *g = qn_graph_common("clamp", v, 3, at);
  if (g == NULL)
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(x);
  for (int i = 0; i < 3; i += 2)
    if (qn_val_type(v[i])->rank == 0 && t->rank != 0)
      v[i] = qn_broadcast_to_at(at, v[i], t->rank, t->dims);
  return qn_graph_add(g, QN_OP_CLAMP, v, 3, NULL, NULL, 0, at);
}

qn_val qn_convert_at(qn_place at, qn_val x, qn_dtype to) {
  qn_graph *g = qn_graph_common("convert", &x, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  if (qn_val_type(x)->dtype == to)
    return x;
  qn_type hint = *qn_val_type(x);
  hint.dtype = to;
  return qn_graph_add_typed(g, QN_OP_CONVERT, &x, 1, NULL, NULL, 0, &hint, at);
}

qn_val qn_bitcast_convert_at(qn_place at, qn_val x, qn_dtype to) {
  qn_graph *g = qn_graph_common("bitcast_convert", &x, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  if (qn_val_type(x)->dtype == to)
    return x;
  qn_type hint = {.dtype = to};
  return qn_graph_add_typed(g, QN_OP_BITCAST_CONVERT, &x, 1, NULL, NULL, 0, &hint, at);
}

qn_val qn_reduce_precision_at(qn_place at, qn_val x, int exponent_bits, int mantissa_bits) {
  qn_graph *g = qn_graph_common("reduce_precision", &x, 1, at);
  qn_attr_precision attr = {.exponent_bits = exponent_bits, .mantissa_bits = mantissa_bits};
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, QN_OP_REDUCE_PRECISION, &x, 1, &attr, NULL, 0, at);
}
