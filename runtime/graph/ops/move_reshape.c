/* reshape, transpose, reverse: every operand element once, in another order or under another shape. */
#include <string.h>

#include "infer.h"
#include "move_shape.h"

/* ---- reshape ---- */
static qn_status reshape_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_type *x = &c->operands[0], *y = &c->hint;
  if (y->dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_INVALID, "%s: the result's type is not given", c->name);
  if (y->dtype != x->dtype)
    return QN_ERR(QN_INVALID, "%s: the result is %s, expected elements of %s as operand 0", c->name, qn_type_str(y),
                  qn_dtype_name(x->dtype));
  for (int i = 0; i < y->rank; ++i)
    if (y->dims[i] < 0)
      return QN_ERR(QN_INVALID, "%s: axis %d of the result has size %lld", c->name, i, (long long)y->dims[i]);
  if (qn_type_elements(x) != qn_type_elements(y))
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s with %lld elements, expected %lld for %s", c->name, qn_type_str(x),
                  (long long)qn_type_elements(x), (long long)qn_type_elements(y), qn_type_str(y));
  c->out_types[0] = *y;
  return QN_OK;
}

static void reshape_vjp(qn_rule *r, qn_val *out) {
  qn_type x = *qn_val_type(r->in[0]);
  out[0] = qn_reshape(r->given[0], x.rank, x.dims);
}

static void reshape_batch(qn_batch *b, qn_val *out) {
  qn_type y = qn_batch_type(b, 0);
  y = qn_type_lifted(&y, b->size);
  out[0] = qn_reshape(b->in[0], y.rank, y.dims);
}

static qn_status reshape_eval(const qn_ref_call *c) {
  size_t bytes = (size_t)qn_type_bytes(c->out_types[0]);
  if (bytes > 0)
    memcpy(c->out[0], c->in[0], bytes);
  return QN_OK;
}

static const qn_sample reshape_samples[] = {
    {.ranks = {2}, .dims = {{3, 4}}, .lo = -2, .hi = 2, .hint = {QN_F32, 3, {2, 3, 2}}},
    {.ranks = {1}, .dims = {{1}}, .lo = -2, .hi = 2, .hint = {QN_F32, 0, {0}}},
};

const qn_op_def qn_op_reshape = {
    .name = "reshape",
    .doc = "The same elements in row-major order under another shape.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .infer = reshape_infer,
    .linear = true,
    .vjp = reshape_vjp,
    .batch = reshape_batch,
    .eval = reshape_eval,
    .samples = reshape_samples,
    .sample_count = 2,
};

qn_val qn_reshape_at(qn_place at, qn_val x, int rank, const int64_t *dims) {
  qn_graph *g = qn_graph_common("reshape", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  if (rank < 0 || rank > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_INVALID, "reshape: rank %d, expected 0..%d", rank, QN_MAX_RANK);
  qn_type t = *qn_val_type(x);
  qn_dims to = qn_dims_of(rank, dims);
  int open = -1;
  int64_t known = 1;
  for (int i = 0; i < rank; ++i) {
    if (to.d[i] != -1) {
      known *= to.d[i];
      continue;
    }
    if (open >= 0)
      return qn_graph_fail(g, at, QN_INVALID, "reshape: axes %d and %d are both -1", open, i);
    open = i;
  }
  if (open >= 0) {
    int64_t count = qn_type_elements(&t);
    if (known <= 0 || count % known != 0)
      return qn_graph_fail(g, at, QN_INVALID,
                           "reshape: %s has %lld elements, which the other axes, %lld in all, do not divide",
                           qn_type_str(&t), (long long)count, (long long)known);
    to.d[open] = count / known;
  }
  qn_type hint = qn_type_make(t.dtype, to.n, to.d);
  if (qn_type_equal(&hint, &t))
    return x;
  return qn_graph_add_typed(g, QN_OP_RESHAPE, &x, 1, NULL, NULL, 0, &hint, at);
}

/* ---- transpose ---- */
static qn_status transpose_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_dims *p = &((const qn_attr_dims *)c->attr)->dims;
  const qn_type *x = &c->operands[0];
  QN_TRY(qn_check_length(c, "permutation", p, x->rank));
  QN_TRY(qn_check_axes(c, "permutation", p, x->rank, false));
  int64_t dims[QN_MAX_RANK] = {0};
  for (int i = 0; i < x->rank; ++i)
    dims[i] = x->dims[p->d[i]];
  c->out_types[0] = qn_type_make(x->dtype, x->rank, dims);
  return QN_OK;
}

static void transpose_vjp(qn_rule *r, qn_val *out) {
  const qn_dims *p = &((const qn_attr_dims *)r->attr)->dims;
  int64_t inverse[QN_MAX_RANK] = {0};
  for (int i = 0; i < p->n; ++i)
    inverse[p->d[i]] = i;
  out[0] = qn_transpose(r->given[0], inverse);
}

static void transpose_batch(qn_batch *b, qn_val *out) {
  qn_dims p = qn_dims_lifted(&((const qn_attr_dims *)b->attr)->dims, true);
  out[0] = qn_transpose(b->in[0], p.d);
}

static qn_status transpose_eval(const qn_ref_call *c) {
  const qn_dims *p = &((const qn_attr_dims *)c->attr)->dims;
  const qn_type *y = c->out_types[0];
  int64_t dst[QN_MAX_RANK], own[QN_MAX_RANK], src[QN_MAX_RANK] = {0};
  qn_strides_of(y, dst);
  qn_strides_of(c->in_types[0], own);
  for (int i = 0; i < y->rank; ++i)
    src[i] = own[p->d[i]];
  qn_copy_strided(y->rank, y->dims, qn_dtype_size(y->dtype), c->out[0], dst, c->in[0], src);
  return QN_OK;
}

static const qn_attr_dims rolled = {{3, {2, 0, 1}}};
static const qn_sample transpose_samples[] = {{.ranks = {3}, .dims = {{2, 3, 4}}, .lo = -2, .hi = 2, .attr = &rolled}};

const qn_op_def qn_op_transpose = {
    .name = "transpose",
    .doc = "Axis i of the result is axis permutation[i] of the operand.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dims),
    .infer = transpose_infer,
    .linear = true,
    .vjp = transpose_vjp,
    .batch = transpose_batch,
    .eval = transpose_eval,
    .samples = transpose_samples,
    .sample_count = 1,
};

qn_val qn_transpose_at(qn_place at, qn_val x, const int64_t *permutation) {
  qn_graph *g = qn_graph_common("transpose", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  qn_attr_dims attr = {{0}};
  attr.dims.n = rank;
  for (int i = 0; i < rank; ++i)
    attr.dims.d[i] = permutation != NULL ? permutation[i] : rank - 1 - i;
  return qn_graph_add(g, QN_OP_TRANSPOSE, &x, 1, &attr, NULL, 0, at);
}

/* ---- reverse ---- */
static qn_status reverse_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  QN_TRY(qn_check_axes(c, "dimensions", &((const qn_attr_dims *)c->attr)->dims, c->operands[0].rank, false));
  c->out_types[0] = c->operands[0];
  return QN_OK;
}

static void reverse_vjp(qn_rule *r, qn_val *out) {
  const qn_dims *axes = &((const qn_attr_dims *)r->attr)->dims;
  out[0] = qn_reverse(r->given[0], axes->n, axes->d);
}

static void reverse_batch(qn_batch *b, qn_val *out) {
  qn_dims axes = qn_dims_lifted(&((const qn_attr_dims *)b->attr)->dims, false);
  out[0] = qn_reverse(b->in[0], axes.n, axes.d);
}

static qn_status reverse_eval(const qn_ref_call *c) {
  const qn_dims *axes = &((const qn_attr_dims *)c->attr)->dims;
  const qn_type *y = c->out_types[0];
  if (qn_type_elements(y) == 0)
    return QN_OK;
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK];
  qn_strides_of(y, dst);
  qn_strides_of(y, src);
  const char *from = c->in[0];
  for (int i = 0; i < axes->n; ++i) {
    int64_t axis = axes->d[i];
    from += (y->dims[axis] - 1) * src[axis];
    src[axis] = -src[axis];
  }
  qn_copy_strided(y->rank, y->dims, qn_dtype_size(y->dtype), c->out[0], dst, from, src);
  return QN_OK;
}

static const qn_attr_dims outer_two = {{2, {0, 2}}};
static const qn_sample reverse_samples[] = {{.ranks = {3}, .dims = {{2, 3, 4}}, .lo = -2, .hi = 2, .attr = &outer_two}};

const qn_op_def qn_op_reverse = {
    .name = "reverse",
    .doc = "Reverses the order of elements along the named axes.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dims),
    .infer = reverse_infer,
    .linear = true,
    .vjp = reverse_vjp,
    .batch = reverse_batch,
    .eval = reverse_eval,
    .samples = reverse_samples,
    .sample_count = 1,
};

qn_val qn_reverse_at(qn_place at, qn_val x, int count, const int64_t *dimensions) {
  qn_graph *g = qn_graph_common("reverse", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  if (count < 0 || count > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_INVALID, "reverse: %d dimensions, expected 0..%d", count, QN_MAX_RANK);
  qn_attr_dims attr = {qn_dims_of(count, dimensions)};
  return qn_graph_add(g, QN_OP_REVERSE, &x, 1, &attr, NULL, 0, at);
}
