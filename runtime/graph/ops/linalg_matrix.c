/* Matrices over batch axes: the shape rules and small formulas that factorisations share. */
#include "linalg_matrix.h"

#include <stdlib.h>

#include "../oracle.h"
#include "infer.h"
#include "move_shape.h"

int64_t qn_matrix_rows(const qn_type *t) { return t->dims[t->rank - 2]; }
int64_t qn_matrix_columns(const qn_type *t) { return t->dims[t->rank - 1]; }
int64_t qn_matrix_count(const qn_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank - 2; i++)
    n *= t->dims[i];
  return n;
}

qn_status qn_check_matrix(const qn_infer *c, int operand, bool square) {
  const qn_type *t = &c->operands[operand];
  if (t->rank < 2)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected a matrix (two axes at least)", c->name, operand,
                  qn_type_str(t));
  if (square && qn_matrix_rows(t) != qn_matrix_columns(t))
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected a square matrix", c->name, operand, qn_type_str(t));
  return QN_OK;
}

qn_status qn_check_batch(const qn_infer *c, int operand, int own) {
  const qn_type *t = &c->operands[operand], *first = &c->operands[0];
  int batch = first->rank - 2;
  if (t->rank - own != batch)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %d batch axes as operand 0, %s", c->name, operand,
                  qn_type_str(t), batch, qn_type_str(first));
  for (int i = 0; i < batch; i++)
    if (t->dims[i] != first->dims[i])
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected size %lld at axis %d as operand 0, %s", c->name,
                    operand, qn_type_str(t), (long long)first->dims[i], i, qn_type_str(first));
  return QN_OK;
}

qn_type qn_matrix_type(const qn_type *like, int64_t rows, int64_t columns) {
  qn_type t = *like;
  t.dims[t.rank - 2] = rows;
  t.dims[t.rank - 1] = columns;
  return t;
}

qn_type qn_vector_type(const qn_type *like, int64_t size, qn_dtype dtype) {
  qn_type t = *like;
  t.dtype = dtype;
  t.dims[--t.rank] = 0;
  t.dims[t.rank - 1] = size;
  return t;
}

/* ---- formulas ---- */

qn_val qn_matrix_t(qn_val x) {
  if (!qn_val_ok(x))
    return x;
  int rank = qn_val_type(x)->rank;
  qn_dims order = qn_dims_iota(rank);
  order.d[rank - 2] = rank - 1;
  order.d[rank - 1] = rank - 2;
  return qn_transpose(x, order.d);
}

qn_val qn_matrix_mul(qn_val a, qn_val b) {
  if (!qn_val_ok(a) || !qn_val_ok(b))
    return QN_NULL_VAL;
  int rank = qn_val_type(a)->rank;
  qn_attr_dot dims = {.lhs_batch = qn_dims_iota(rank - 2), .rhs_batch = qn_dims_iota(rank - 2)};
  dims.lhs_contract = (qn_dims){1, {rank - 1}};
  dims.rhs_contract = (qn_dims){1, {rank - 2}};
  return qn_dot_general(a, b, &dims, QN_DTYPE_NONE);
}

static qn_val places(qn_graph *g, qn_type t, int from_end) {
  t.dtype = QN_I32;
  return qn_iota(g, t, t.rank - from_end);
}

static qn_val compare_places(qn_graph *g, const qn_type *t, qn_compare_direction how) {
  return qn_compare(places(g, *t, 2), places(g, *t, 1), how, QN_CMP_DEFAULT);
}

qn_val qn_matrix_tri(qn_val x, bool lower, int strict) {
  if (!qn_val_ok(x))
    return x;
  qn_type t = *qn_val_type(x);
  qn_compare_direction how = lower ? (strict ? QN_CMP_GT : QN_CMP_GE) : (strict ? QN_CMP_LT : QN_CMP_LE);
  return qn_select(compare_places(x.graph, &t, how), x, qn_like(x, 0));
}

qn_val qn_matrix_eye(qn_graph *g, qn_type t) { return qn_convert(compare_places(g, &t, QN_CMP_EQ), t.dtype); }

qn_val qn_matrix_spread(qn_val d, int axis_from_end, int64_t size) {
  if (!qn_val_ok(d))
    return d;
  qn_type t = *qn_val_type(d), out = t;
  qn_dims axes = qn_dims_iota(t.rank);
  if (axis_from_end == 2)
    axes.d[t.rank - 1]++;
  out.dims[t.rank] = axis_from_end == 1 ? size : t.dims[t.rank - 1];
  if (axis_from_end == 2)
    out.dims[t.rank - 1] = size;
  out.rank++;
  return qn_broadcast_in_dim(d, out.rank, out.dims, axes.d);
}

qn_val qn_matrix_diagonal(qn_val x) {
  if (!qn_val_ok(x))
    return x;
  qn_type t = *qn_val_type(x);
  int64_t axis = t.rank - 1;
  return qn_sum(qn_select(compare_places(x.graph, &t, QN_CMP_EQ), x, qn_like(x, 0)), 1, &axis, false);
}

qn_val qn_matrix_of_diagonal(qn_val d) {
  if (!qn_val_ok(d))
    return d;
  int64_t n = qn_val_type(d)->dims[qn_val_type(d)->rank - 1];
  qn_val x = qn_matrix_spread(d, 1, n);
  qn_type t = *qn_val_type(x);
  return qn_select(compare_places(d.graph, &t, QN_CMP_EQ), x, qn_like(x, 0));
}

qn_val qn_matrix_by_columns(qn_val x, qn_val d) {
  if (!qn_val_ok(x) || !qn_val_ok(d))
    return QN_NULL_VAL;
  return qn_mul(x, qn_matrix_spread(d, 2, qn_matrix_rows(qn_val_type(x))));
}

qn_val qn_matrix_by_rows(qn_val x, qn_val d) {
  if (!qn_val_ok(x) || !qn_val_ok(d))
    return QN_NULL_VAL;
  return qn_mul(x, qn_matrix_spread(d, 1, qn_matrix_columns(qn_val_type(x))));
}

qn_val qn_matrix_part(qn_val x, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  if (!qn_val_ok(x))
    return x;
  qn_type t = *qn_val_type(x);
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
  for (int i = 0; i < t.rank; i++)
    limit[i] = t.dims[i];
  start[t.rank - 2] = row;
  limit[t.rank - 2] = row + rows;
  start[t.rank - 1] = column;
  limit[t.rank - 1] = column + columns;
  return qn_slice(x, start, limit, NULL);
}

qn_val qn_matrix_stack(qn_val a, qn_val b, bool down) {
  const qn_val both[2] = {a, b};
  return qn_val_ok(a) && qn_val_ok(b) ? qn_concatenate(both, 2, qn_val_type(a)->rank - (down ? 2 : 1)) : QN_NULL_VAL;
}

qn_val qn_matrix_take_rows(qn_val x, qn_val order) {
  if (!qn_val_ok(x) || !qn_val_ok(order))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x), o = *qn_val_type(order);
  int batch = t.rank - 2;
  o.dims[o.rank++] = 1;
  qn_attr_gather a = {.offset_dims = {1, {t.rank - 1}},
                      .collapsed_slice_dims = {1, {batch}},
                      .operand_batching_dims = qn_dims_iota(batch),
                      .start_indices_batching_dims = qn_dims_iota(batch),
                      .start_index_map = {1, {batch}},
                      .index_vector_dim = batch + 1};
  a.slice_sizes.n = t.rank;
  for (int i = 0; i < t.rank; i++)
    a.slice_sizes.d[i] = i == t.rank - 1 ? t.dims[i] : 1;
  return qn_gather(x, qn_reshape(order, o.rank, o.dims), &a);
}

qn_val qn_matrix_inverse_order(qn_val order) {
  if (!qn_val_ok(order))
    return order;
  int64_t n = qn_val_type(order)->dims[qn_val_type(order)->rank - 1];
  qn_val x = qn_matrix_spread(order, 1, n); /* [i, j] = order[i]; where it is j, i goes to j */
  qn_type t = *qn_val_type(x);
  int64_t axis = t.rank - 2;
  return qn_sum(qn_select(qn_eq(x, places(x.graph, t, 1)), places(x.graph, t, 2), qn_like(x, 0)), 1, &axis, false);
}

qn_val qn_matrix_solve(qn_val a, qn_val b, bool left, bool lower, bool transpose, bool unit) {
  if (!qn_val_ok(a) || !qn_val_ok(b))
    return QN_NULL_VAL;
  qn_attr_solve attr = {.left_side = left, .lower = lower, .unit_diagonal = unit, .transpose_a = transpose ? 1 : 0};
  return qn_triangular_solve(a, b, &attr);
}

qn_val qn_matrix_plus(qn_val a, qn_val b) { return !qn_val_ok(a) ? b : !qn_val_ok(b) ? a : qn_add(a, b); }

/* ---- rows ---- */

void qn_matrix_batch(qn_batch *b, qn_val *out) {
  qn_val in[2] = {QN_NULL_VAL, QN_NULL_VAL};
  for (int i = 0; i < b->in_count; i++)
    in[i] = qn_batch_lanes(b, i);
  qn_type hint = qn_batch_type(b, 0);
  hint = qn_type_lifted(&hint, b->size);
  qn_val first =
      qn_graph_add_typed(b->g, b->node->op, in, (size_t)b->in_count, b->attr, NULL, 0, &hint, b->node->place);
  for (int i = 0; i < b->out_count && qn_val_ok(first); i++)
    out[i] = qn_val_result(first, i);
}

void qn_matrix_refuse(qn_rule *r, qn_val *out) {
  (void)out;
  (void)qn_graph_fail(r->g, r->node->place, QN_UNSUPPORTED,
                      "%s: no derivative of a step of a factorisation; quern.qr, quern.eigh and quern.svd have one",
                      qn_op_get(r->node->op)->name);
}

bool qn_matrix_widen(qn_rule *r, qn_val *out) {
  qn_dtype t = qn_val_type(r->in[0])->dtype;
  if (t != QN_F16 && t != QN_BF16)
    return false;
  qn_val in[2] = {QN_NULL_VAL, QN_NULL_VAL};
  for (int i = 0; i < r->in_count; i++)
    in[i] = qn_convert(r->in[i], QN_F32);
  qn_val first = qn_graph_add_typed(r->g, r->node->op, in, (size_t)r->in_count, r->attr, NULL, 0, NULL, r->node->place);
  for (int i = 0; i < r->out_count && qn_val_ok(first); i++) {
    out[i] = qn_val_result(first, i);
    if (qn_val_type(out[i])->dtype == QN_F32)
      out[i] = qn_convert(out[i], t);
  }
  return true;
}

double *qn_matrix_load(const qn_ref_call *c, int operand) {
  int64_t n = qn_type_elements(c->in_types[operand]);
  double *x = malloc(((size_t)n + 1) * sizeof *x);
  if (x)
    qn_oracle_load_f(c->in_types[operand]->dtype, c->in[operand], 0, n, x);
  return x;
}

double *qn_matrix_room(const qn_ref_call *c, int result) {
  return calloc((size_t)qn_type_elements(c->out_types[result]) + 1, sizeof(double));
}

void qn_matrix_store(const qn_ref_call *c, int result, double *data) {
  if (data)
    qn_oracle_store_f(c->out_types[result]->dtype, c->out[result], 0, qn_type_elements(c->out_types[result]), data);
  free(data);
}
