/* dynamic_slice and dynamic_update_slice: windows at run-time starts, which are clamped so that the window fits. */
#include "infer.h"
#include "index_window.h"
#include "move_shape.h"

static qn_status check_starts(const qn_infer *c, int first, int rank) {
  QN_TRY(qn_check_count(c, first + rank, 0));
  for (int i = first; i < c->operand_count; ++i) {
    QN_TRY(qn_check_scalar(c, i, QN_DTYPE_NONE));
    QN_TRY(qn_check_same_dtype(c, i, first));
  }
  return QN_OK;
}

static int64_t clamped_start(const qn_ref_call *c, int operand, int64_t room) {
  int64_t at = qn_load_index(c->in[operand], c->in_types[operand]->dtype, 0);
  if (at > room)
    at = room;
  return at < 0 ? 0 : at;
}

/* Start scalars of a batching rule as one index tensor [lanes, axes] (or [axes] when none is mapped). */
static qn_val stacked_starts(qn_batch *b, int first, int rank) {
  qn_val parts[QN_MAX_RANK];
  for (int i = 0; i < rank; ++i) {
    int64_t dims[] = {b->size, 1};
    parts[i] = qn_reshape(qn_batch_lanes(b, first + i), 2, dims);
  }
  return qn_concatenate(parts, (size_t)rank, 1);
}

static bool any_mapped(const qn_batch *b, int first) {
  for (int i = first; i < b->in_count; ++i)
    if (b->mapped[i])
      return true;
  return false;
}

/* Starts with a zero in front, for the lane axis. */
static void lead_starts(qn_batch *b, int first, qn_val *out) {
  qn_dtype dtype = b->in_count > first ? qn_val_type(b->in[first])->dtype : QN_I32;
  out[0] = qn_scalar(b->g, dtype, 0.0);
  for (int i = first; i < b->in_count; ++i)
    out[1 + i - first] = b->in[i];
}

/* ---- dynamic_slice ---- */
static qn_status slice_infer(qn_infer *c) {
  if (c->operand_count < 1)
    return QN_ERR(QN_INVALID, "%s: no operands, expected at least one", c->name);
  const qn_type *x = &c->operands[0];
  const qn_dims *sizes = &((const qn_attr_dims *)c->attr)->dims;
  QN_TRY(qn_check_length(c, "slice_sizes", sizes, x->rank));
  QN_TRY(check_starts(c, 1, x->rank));
  for (int i = 0; i < x->rank; ++i)
    if (sizes->d[i] < 0 || sizes->d[i] > x->dims[i])
      return QN_ERR(QN_INVALID, "%s: slice_sizes of axis %d is %lld, expected 0..%lld for %s", c->name, i,
                    (long long)sizes->d[i], (long long)x->dims[i], qn_type_str(x));
  c->out_types[0] = qn_type_make(x->dtype, x->rank, sizes->d);
  return QN_OK;
}

static void slice_vjp(qn_rule *r, qn_val *out) {
  if (r->wanted[0])
    out[0] = qn_dynamic_update_slice(qn_zeros_of(r->g, r->in[0]), r->given[0], r->in + 1);
}

static void slice_batch(qn_batch *b, qn_val *out) {
  const qn_dims *sizes = &((const qn_attr_dims *)b->attr)->dims;
  int rank = sizes->n;
  if (any_mapped(b, 1)) {
    qn_attr_gather a = {.offset_dims = qn_dims_iota(rank),
                        .start_index_map = qn_dims_iota(rank),
                        .slice_sizes = *sizes,
                        .index_vector_dim = 1};
    a.offset_dims = qn_dims_lifted(&a.offset_dims, false);
    if (b->mapped[0]) {
      a.start_index_map = qn_dims_lifted(&a.start_index_map, false);
      a.slice_sizes = qn_dims_prepend(sizes, 1);
      a.operand_batching_dims = a.start_indices_batching_dims = (qn_dims){1, {0}};
    }
    out[0] = qn_gather(b->in[0], stacked_starts(b, 1, rank), &a);
    return;
  }
  if (rank + 1 > QN_MAX_RANK) {
    out[0] = qn_batch_lanes(b, 0);
    return;
  }
  qn_val starts[QN_MAX_RANK + 1];
  lead_starts(b, 1, starts);
  qn_dims up = qn_dims_prepend(sizes, b->size);
  out[0] = qn_dynamic_slice(b->in[0], starts, up.d);
}

static qn_status slice_eval(const qn_ref_call *c) {
  const qn_type *x = c->in_types[0], *y = c->out_types[0];
  if (qn_type_elements(y) == 0)
    return QN_OK;
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK];
  qn_strides_of(y, dst);
  qn_strides_of(x, src);
  const char *from = c->in[0];
  for (int i = 0; i < y->rank; ++i)
    from += clamped_start(c, 1 + i, x->dims[i] - y->dims[i]) * src[i];
  qn_copy_strided(y->rank, y->dims, qn_dtype_size(y->dtype), c->out[0], dst, from, src);
  return QN_OK;
}

const qn_op_def qn_op_dynamic_slice = {
    .name = "dynamic_slice",
    .doc = "A window of fixed sizes at starts known at run time, one scalar per axis, clamped so that the window fits.",
    .arity = -1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dims),
    .infer = slice_infer,
    .linear = true,
    .vjp = slice_vjp,
    .batch = slice_batch,
    .eval = slice_eval,
};

qn_val qn_dynamic_slice_at(qn_place at, qn_val x, const qn_val *starts, const int64_t *sizes) {
  qn_val in[1 + QN_MAX_RANK] = {x};
  qn_graph *g = qn_graph_common("dynamic_slice", in, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  for (int i = 0; i < rank; ++i)
    in[1 + i] = starts[i];
  if (qn_graph_common("dynamic_slice", in, (size_t)rank + 1, at) == NULL)
    return QN_NULL_VAL;
  qn_attr_dims attr = {qn_dims_of(rank, sizes)};
  return qn_graph_add(g, QN_OP_DYNAMIC_SLICE, in, (size_t)rank + 1, &attr, NULL, 0, at);
}

/* ---- dynamic_update_slice ---- */
static qn_status update_infer(qn_infer *c) {
  if (c->operand_count < 2)
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected at least 2", c->name, c->operand_count);
  const qn_type *x = &c->operands[0], *u = &c->operands[1];
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  if (u->rank != x->rank)
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected rank %d as operand 0, %s", c->name, qn_type_str(u),
                  x->rank, qn_type_str(x));
  for (int i = 0; i < x->rank; ++i)
    if (u->dims[i] > x->dims[i])
      return QN_ERR(QN_INVALID, "%s: axis %d of operand 1, %s, is larger than in operand 0, %s", c->name, i,
                    qn_type_str(u), qn_type_str(x));
  QN_TRY(check_starts(c, 2, x->rank));
  c->out_types[0] = *x;
  return QN_OK;
}

static void update_vjp(qn_rule *r, qn_val *out) {
  qn_type u = *qn_val_type(r->in[1]);
  if (r->wanted[0])
    out[0] = qn_dynamic_update_slice(r->given[0], qn_zeros_of(r->g, r->in[1]), r->in + 2);
  if (r->wanted[1])
    out[1] = qn_dynamic_slice(r->given[0], r->in + 2, u.dims);
}

static void update_batch(qn_batch *b, qn_val *out) {
  qn_type u = *qn_val_type(b->in[1]);
  int rank = b->in_count - 2;
  int64_t window[QN_MAX_RANK] = {0};
  for (int i = 0; i < rank; ++i)
    window[i] = u.dims[i + (b->mapped[1] ? 1 : 0)];
  qn_val x = qn_batch_lanes(b, 0), update = qn_batch_lanes(b, 1);
  if (!qn_val_ok(x) || !qn_val_ok(update))
    return;
  if (!any_mapped(b, 2)) {
    qn_val starts[QN_MAX_RANK + 1];
    lead_starts(b, 2, starts);
    out[0] = qn_dynamic_update_slice(x, update, starts);
    return;
  }
  qn_attr_scatter a = {.update_window_dims = qn_dims_iota(rank),
                       .scatter_dims_to_operand_dims = qn_dims_iota(rank),
                       .index_vector_dim = 1,
                       .input_batching_dims = {1, {0}},
                       .scatter_indices_batching_dims = {1, {0}},
                       .unique_indices = true};
  a.update_window_dims = qn_dims_lifted(&a.update_window_dims, false);
  a.scatter_dims_to_operand_dims = qn_dims_lifted(&a.scatter_dims_to_operand_dims, false);
  qn_type t = *qn_val_type(x);
  int64_t room[QN_MAX_RANK] = {0};
  for (int i = 0; i < rank; ++i)
    room[i] = t.dims[i + 1] - window[i];
  qn_val starts = qn_clamped_indices(stacked_starts(b, 2, rank), 1, room);
  out[0] = qn_scatter_named(x, starts, update, &a, QN_OP_PARAMETER);
}

static qn_status update_eval(const qn_ref_call *c) {
  const qn_type *x = c->in_types[0], *u = c->in_types[1];
  size_t size = qn_dtype_size(x->dtype);
  if (qn_type_elements(x) == 0)
    return QN_OK;
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK];
  qn_strides_of(x, dst);
  qn_copy_strided(x->rank, x->dims, size, c->out[0], dst, c->in[0], dst);
  if (qn_type_elements(u) == 0)
    return QN_OK;
  qn_strides_of(u, src);
  char *to = c->out[0];
  for (int i = 0; i < x->rank; ++i)
    to += clamped_start(c, 2 + i, x->dims[i] - u->dims[i]) * dst[i];
  qn_copy_strided(u->rank, u->dims, size, to, dst, c->in[1], src);
  return QN_OK;
}

const qn_op_def qn_op_dynamic_update_slice = {
    .name = "dynamic_update_slice",
    .doc = "The operand with a window replaced, at starts known at run time, clamped so that the window fits.",
    .arity = -1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .infer = update_infer,
    .linear = true,
    .vjp = update_vjp,
    .batch = update_batch,
    .eval = update_eval,
};

qn_val qn_dynamic_update_slice_at(qn_place at, qn_val x, qn_val update, const qn_val *starts) {
  qn_val in[2 + QN_MAX_RANK] = {x, update};
  qn_graph *g = qn_graph_common("dynamic_update_slice", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  for (int i = 0; i < rank; ++i)
    in[2 + i] = starts[i];
  if (qn_graph_common("dynamic_update_slice", in, (size_t)rank + 2, at) == NULL)
    return QN_NULL_VAL;
  return qn_graph_add(g, QN_OP_DYNAMIC_UPDATE_SLICE, in, (size_t)rank + 2, NULL, NULL, 0, at);
}
