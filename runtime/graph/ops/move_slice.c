/* slice and concatenate: parts of an operand, operands side by side. Each is the other's derivative, with pad where strides leave gaps. */
#include "infer.h"
#include "move_shape.h"

/* ---- slice ---- */
static qn_status slice_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_attr_slice *a = c->attr;
  const qn_type *x = &c->operands[0];
  QN_TRY(qn_check_length(c, "start_indices", &a->start, x->rank));
  QN_TRY(qn_check_length(c, "limit_indices", &a->limit, x->rank));
  QN_TRY(qn_check_length(c, "strides", &a->stride, x->rank));
  int64_t dims[QN_MAX_RANK] = {0};
  for (int i = 0; i < x->rank; ++i) {
    int64_t start = a->start.d[i], limit = a->limit.d[i], stride = a->stride.d[i];
    if (start < 0 || start > limit || limit > x->dims[i])
      return QN_ERR(QN_INVALID, "%s: axis %d takes %lld:%lld of operand 0, %s, expected 0 <= start <= limit <= %lld",
                    c->name, i, (long long)start, (long long)limit, qn_type_str(x), (long long)x->dims[i]);
    if (stride <= 0)
      return QN_ERR(QN_INVALID, "%s: stride of axis %d is %lld, expected at least 1", c->name, i, (long long)stride);
    dims[i] = limit == start ? 0 : (limit - start - 1) / stride + 1;
  }
  c->out_types[0] = qn_type_make(x->dtype, x->rank, dims);
  return QN_OK;
}

static void slice_vjp(qn_rule *r, qn_val *out) {
  const qn_attr_slice *a = r->attr;
  qn_type x = *qn_val_type(r->in[0]), y = *qn_val_type(r->out[0]);
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0}, inner[QN_MAX_RANK] = {0};
  for (int i = 0; i < x.rank; ++i) {
    inner[i] = a->stride.d[i] - 1;
    low[i] = y.dims[i] == 0 ? 0 : a->start.d[i];
    int64_t covered = y.dims[i] == 0 ? 0 : (y.dims[i] - 1) * a->stride.d[i] + 1;
    high[i] = x.dims[i] - low[i] - covered;
  }
  out[0] = qn_pad(r->given[0], qn_scalar(r->g, x.dtype, 0.0), low, high, inner);
}

static void slice_batch(qn_batch *b, qn_val *out) {
  const qn_attr_slice *a = b->attr;
  qn_dims start = qn_dims_prepend(&a->start, 0), limit = qn_dims_prepend(&a->limit, b->size),
          stride = qn_dims_prepend(&a->stride, 1);
  out[0] = qn_slice(b->in[0], start.d, limit.d, stride.d);
}

static qn_status slice_eval(const qn_ref_call *c) {
  const qn_attr_slice *a = c->attr;
  const qn_type *y = c->out_types[0];
  if (qn_type_elements(y) == 0)
    return QN_OK;
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK];
  qn_strides_of(y, dst);
  qn_strides_of(c->in_types[0], src);
  const char *from = c->in[0];
  for (int i = 0; i < y->rank; ++i) {
    from += a->start.d[i] * src[i];
    src[i] *= a->stride.d[i];
  }
  qn_copy_strided(y->rank, y->dims, qn_dtype_size(y->dtype), c->out[0], dst, from, src);
  return QN_OK;
}

static const qn_attr_slice every_other = {{2, {1, 0}}, {2, {5, 4}}, {2, {2, 3}}};
static const qn_sample slice_samples[] = {{.ranks = {2}, .dims = {{6, 5}}, .lo = -2, .hi = 2, .attr = &every_other}};

const qn_op_def qn_op_slice = {
    .name = "slice",
    .doc = "Elements start, start + stride, ... below limit of each axis.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_slice),
    .infer = slice_infer,
    .linear = true,
    .vjp = slice_vjp,
    .batch = slice_batch,
    .eval = slice_eval,
    .samples = slice_samples,
    .sample_count = 1,
};

qn_val qn_slice_at(qn_place at, qn_val x, const int64_t *start, const int64_t *limit, const int64_t *stride) {
  qn_graph *g = qn_graph_common("slice", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  qn_attr_slice attr = {qn_dims_of(rank, start), qn_dims_of(rank, limit), {0}};
  attr.stride.n = rank;
  for (int i = 0; i < rank; ++i)
    attr.stride.d[i] = stride != NULL ? stride[i] : 1;
  return qn_graph_add(g, QN_OP_SLICE, &x, 1, &attr, NULL, 0, at);
}

/* ---- concatenate ---- */
static qn_status concatenate_infer(qn_infer *c) {
  if (c->operand_count < 1)
    return QN_ERR(QN_INVALID, "%s: no operands, expected at least one", c->name);
  QN_TRY(qn_check_count(c, c->operand_count, 0));
  const qn_type *x = &c->operands[0];
  int64_t axis = ((const qn_attr_axis *)c->attr)->dimension;
  if (axis < 0 || axis >= x->rank)
    return QN_ERR(QN_INVALID, "%s: dimension is %lld, expected 0..%d for %s", c->name, (long long)axis, x->rank - 1,
                  qn_type_str(x));
  qn_type y = *x;
  for (int i = 1; i < c->operand_count; ++i) {
    qn_type t = c->operands[i];
    QN_TRY(qn_check_same_dtype(c, i, 0));
    if (t.rank == x->rank) {
      y.dims[axis] += t.dims[axis];
      t.dims[axis] = x->dims[axis];
    }
    if (!qn_type_same_shape(&t, x))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s, but for axis %lld", c->name,
                    i, qn_type_str(&c->operands[i]), qn_type_str(x), (long long)axis);
  }
  c->out_types[0] = y;
  return QN_OK;
}

static void concatenate_vjp(qn_rule *r, qn_val *out) {
  int64_t axis = ((const qn_attr_axis *)r->attr)->dimension, at = 0;
  for (int i = 0; i < r->in_count; ++i) {
    qn_type t = *qn_val_type(r->in[i]);
    int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK] = {0};
    for (int k = 0; k < t.rank; ++k)
      limit[k] = t.dims[k];
    start[axis] = at;
    at += t.dims[axis];
    limit[axis] = at;
    if (r->wanted[i])
      out[i] = qn_slice(r->given[0], start, limit, NULL);
  }
}

static void concatenate_batch(qn_batch *b, qn_val *out) {
  qn_val *x = QN_NEW(qn_graph_arena(b->g), qn_val, b->in_count);
  if (x == NULL) {
    out[0] = qn_graph_fail(b->g, QN_HERE, QN_OUT_OF_MEMORY, "concatenate: out of memory");
    return;
  }
  for (int i = 0; i < b->in_count; ++i)
    x[i] = qn_batch_lanes(b, i);
  out[0] = qn_concatenate(x, (size_t)b->in_count, ((const qn_attr_axis *)b->attr)->dimension + 1);
}

static qn_status concatenate_eval(const qn_ref_call *c) {
  int64_t axis = ((const qn_attr_axis *)c->attr)->dimension;
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK];
  qn_strides_of(c->out_types[0], dst);
  int64_t at = 0;
  for (int i = 0; i < c->in_count; ++i) {
    const qn_type *t = c->in_types[i];
    if (qn_type_elements(t) == 0)
      continue;
    qn_strides_of(t, src);
    qn_copy_strided(t->rank, t->dims, qn_dtype_size(t->dtype), (char *)c->out[0] + at * dst[axis], dst, c->in[i], src);
    at += t->dims[axis];
  }
  return QN_OK;
}

static const qn_attr_axis second = {1};
static const qn_sample concatenate_samples[] = {
    {.ranks = {2, 2, 2}, .dims = {{2, 3}, {2, 1}, {2, 4}}, .lo = -2, .hi = 2, .attr = &second}};

const qn_op_def qn_op_concatenate = {
    .name = "concatenate",
    .doc = "Operands one behind the other along an axis.",
    .arity = -1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_axis),
    .infer = concatenate_infer,
    .linear = true,
    .vjp = concatenate_vjp,
    .batch = concatenate_batch,
    .eval = concatenate_eval,
    .samples = concatenate_samples,
    .sample_count = 1,
};

qn_val qn_concatenate_at(qn_place at, const qn_val *x, size_t count, int64_t dimension) {
  qn_graph *g = qn_graph_common("concatenate", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x[0])->rank;
  qn_attr_axis attr = {dimension < 0 ? dimension + rank : dimension};
  return qn_graph_add(g, QN_OP_CONCATENATE, x, count, &attr, NULL, 0, at);
}
