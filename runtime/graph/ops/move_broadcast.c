/* broadcast_in_dim: operand axes placed among the result's, size-1 axes repeated. Its derivative sums what was repeated. */
#include "infer.h"
#include "move_shape.h"

static qn_status broadcast_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_dims *to = &((const qn_attr_dims *)c->attr)->dims;
  const qn_type *x = &c->operands[0], *y = &c->hint;
  if (y->dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_INVALID, "%s: the result's type is not given", c->name);
  if (y->dtype != x->dtype)
    return QN_ERR(QN_INVALID, "%s: the result is %s, expected elements of %s as operand 0", c->name, qn_type_str(y),
                  qn_dtype_name(x->dtype));
  QN_TRY(qn_check_length(c, "broadcast_dimensions", to, x->rank));
  QN_TRY(qn_check_axes(c, "broadcast_dimensions", to, y->rank, false));
  for (int i = 0; i < x->rank; ++i)
    if (x->dims[i] != 1 && x->dims[i] != y->dims[to->d[i]])
      return QN_ERR(
          QN_INVALID, "%s: axis %d of operand 0, %s, has size %lld, expected 1 or %lld as axis %lld of the result",
          c->name, i, qn_type_str(x), (long long)x->dims[i], (long long)y->dims[to->d[i]], (long long)to->d[i]);
  c->out_types[0] = *y;
  return QN_OK;
}

static void broadcast_vjp(qn_rule *r, qn_val *out) {
  const qn_dims *to = &((const qn_attr_dims *)r->attr)->dims;
  qn_type x = *qn_val_type(r->in[0]), y = *qn_val_type(r->out[0]);
  qn_dims kept = {0}, order = {0}; /* result axes that hold an operand's axis whole, and those operand axes */
  for (int i = 0; i < x.rank; ++i)
    if (x.dims[i] == y.dims[to->d[i]])
      kept.d[kept.n++] = to->d[i];
  qn_dims summed = qn_dims_rest(y.rank, &kept, NULL);
  qn_val ct = r->given[0];
  if (summed.n > 0)
    ct = qn_sum(ct, summed.n, summed.d, false);
  for (int i = 0; i < kept.n; ++i) { /* rank of the result axis among those that are left */
    int64_t at = 0;
    for (int j = 0; j < kept.n; ++j)
      at += kept.d[j] < kept.d[i];
    order.d[order.n++] = at;
  }
  ct = qn_transposed(ct, order.d);
  out[0] = qn_val_type(ct)->rank == x.rank ? ct : qn_reshape(ct, x.rank, x.dims);
}

static void broadcast_batch(qn_batch *b, qn_val *out) {
  qn_type y = qn_batch_type(b, 0);
  y = qn_type_lifted(&y, b->size);
  qn_dims to = qn_dims_lifted(&((const qn_attr_dims *)b->attr)->dims, true);
  out[0] = qn_broadcast_in_dim(b->in[0], y.rank, y.dims, to.d);
}

static qn_status broadcast_eval(const qn_ref_call *c) {
  const qn_dims *to = &((const qn_attr_dims *)c->attr)->dims;
  const qn_type *x = c->in_types[0], *y = c->out_types[0];
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK] = {0}, own[QN_MAX_RANK];
  qn_strides_of(y, dst);
  qn_strides_of(x, own);
  for (int i = 0; i < x->rank; ++i)
    src[to->d[i]] = x->dims[i] == 1 ? 0 : own[i];
  qn_copy_strided(y->rank, y->dims, qn_dtype_size(y->dtype), c->out[0], dst, c->in[0], src);
  return QN_OK;
}

static const qn_attr_dims middle = {{1, {1}}}, swapped = {{2, {2, 0}}};
static const qn_sample broadcast_samples[] = {
    {.ranks = {1}, .dims = {{3}}, .lo = -2, .hi = 2, .attr = &middle, .hint = {QN_F32, 3, {2, 3, 4}}},
    {.ranks = {2}, .dims = {{1, 3}}, .lo = -2, .hi = 2, .attr = &swapped, .hint = {QN_F32, 3, {3, 2, 4}}},
};

const qn_op_def qn_op_broadcast_in_dim = {
    .name = "broadcast_in_dim",
    .doc = "Places the operand's axes at the named axes of a larger shape and repeats elements along the others and "
           "along axes of size 1.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dims),
    .infer = broadcast_infer,
    .linear = true,
    .vjp = broadcast_vjp,
    .batch = broadcast_batch,
    .eval = broadcast_eval,
    .samples = broadcast_samples,
    .sample_count = 2,
};

qn_val qn_broadcast_in_dim_at(qn_place at, qn_val x, int rank, const int64_t *dims, const int64_t *broadcast_dims) {
  qn_graph *g = qn_graph_common("broadcast_in_dim", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  if (rank < 0 || rank > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_INVALID, "broadcast_in_dim: rank %d, expected 0..%d", rank, QN_MAX_RANK);
  const qn_type *t = qn_val_type(x);
  qn_attr_dims attr = {qn_dims_of(t->rank, broadcast_dims)};
  qn_type hint = qn_type_make(t->dtype, rank, dims);
  return qn_graph_add_typed(g, QN_OP_BROADCAST_IN_DIM, &x, 1, &attr, NULL, 0, &hint, at);
}

qn_val qn_broadcast_to_at(qn_place at, qn_val x, int rank, const int64_t *dims) {
  qn_graph *g = qn_graph_common("broadcast_in_dim", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x);
  if (rank < t.rank || rank > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_INVALID, "broadcast_in_dim: cannot broadcast %s to rank %d", qn_type_str(&t), rank);
  bool same = rank == t.rank;
  int64_t to[QN_MAX_RANK] = {0};
  for (int i = 0; i < t.rank; ++i) {
    to[i] = rank - t.rank + i;
    same = same && dims[i] == t.dims[i];
  }
  return same ? x : qn_broadcast_in_dim_at(at, x, rank, dims, to);
}
