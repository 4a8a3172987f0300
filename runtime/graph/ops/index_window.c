/* Dimension numbers of gather and scatter in one form, and index tensors held against an operand's bounds. */
#include "index_window.h"

#include "../oracle.h"
#include "move_shape.h"

/* The parts that follow alike for both ops. */
static void finish(qn_windows *w, const qn_dims *dropped) {
  for (int i = 0; i < w->indices->rank; ++i)
    if (i != w->vector_dim)
      w->count_axes.d[w->count_axes.n++] = i;
  w->outer_count = qn_dims_rest(w->outer->rank, &w->outer_window, NULL);
  w->operand_window = qn_dims_rest(w->operand->rank, dropped, &w->operand_batching);
}

qn_windows qn_windows_of_gather(const qn_attr_gather *a, const qn_type *operand, const qn_type *indices,
                                const qn_type *result) {
  qn_windows w = {.operand = operand,
                  .indices = indices,
                  .outer = result,
                  .vector_dim = a->index_vector_dim,
                  .outer_window = a->offset_dims,
                  .map = a->start_index_map,
                  .operand_batching = a->operand_batching_dims,
                  .indices_batching = a->start_indices_batching_dims,
                  .size = a->slice_sizes};
  finish(&w, &a->collapsed_slice_dims);
  return w;
}

qn_windows qn_windows_of_scatter(const qn_attr_scatter *a, const qn_type *operand, const qn_type *indices,
                                 const qn_type *updates) {
  qn_windows w = {.operand = operand,
                  .indices = indices,
                  .outer = updates,
                  .vector_dim = a->index_vector_dim,
                  .outer_window = a->update_window_dims,
                  .map = a->scatter_dims_to_operand_dims,
                  .operand_batching = a->input_batching_dims,
                  .indices_batching = a->scatter_indices_batching_dims};
  finish(&w, &a->inserted_window_dims);
  w.size.n = operand->rank;
  for (int i = 0; i < operand->rank; ++i)
    w.size.d[i] = 1;
  for (int i = 0; i < w.operand_window.n; ++i)
    w.size.d[w.operand_window.d[i]] = updates->dims[w.outer_window.d[i]];
  return w;
}

void qn_windows_start(const qn_windows *w, const void *indices, const int64_t *number, int64_t *out_start) {
  int64_t strides[QN_MAX_RANK], at = 0;
  int64_t step = 1;
  for (int i = w->indices->rank - 1; i >= 0; --i) {
    strides[i] = step;
    step *= w->indices->dims[i];
  }
  for (int i = 0; i < w->count_axes.n; ++i)
    at += number[i] * strides[w->count_axes.d[i]];
  for (int i = 0; i < w->operand->rank; ++i)
    out_start[i] = 0;
  for (int k = 0; k < w->map.n; ++k) {
    int64_t component = w->vector_dim < w->indices->rank ? k * strides[w->vector_dim] : 0;
    out_start[w->map.d[k]] = qn_load_index(indices, w->indices->dtype, at + component);
  }
  for (int i = 0; i < w->operand_batching.n; ++i) {
    int64_t axis = w->indices_batching.d[i];
    out_start[w->operand_batching.d[i]] = number[axis > w->vector_dim ? axis - 1 : axis];
  }
}

qn_status qn_check_windows(const qn_infer *c, int operand, int indices, int64_t vector_dim, const qn_dims *map,
                           const char *batching_name, const qn_dims *batching, const char *indices_batching_name,
                           const qn_dims *indices_batching, const char *dropped_name, const qn_dims *dropped) {
  const qn_type *x = &c->operands[operand], *t = &c->operands[indices];
  if (!qn_dtype_is_int(t->dtype))
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected integers", c->name, indices, qn_type_str(t));
  if (vector_dim < 0 || vector_dim > t->rank)
    return QN_ERR(QN_INVALID, "%s: index_vector_dim is %lld, expected 0..%d for %s", c->name, (long long)vector_dim,
                  t->rank, qn_type_str(t));
  int64_t components = vector_dim < t->rank ? t->dims[vector_dim] : 1;
  if (map->n != components)
    return QN_ERR(QN_INVALID, "%s: an index vector of operand %d, %s, has %lld components, expected %d as mapped axes",
                  c->name, indices, qn_type_str(t), (long long)components, (int)map->n);
  QN_TRY(qn_check_axes(c, "the map of index components", map, x->rank, false));
  QN_TRY(qn_check_axes(c, dropped_name, dropped, x->rank, true));
  QN_TRY(qn_check_axes(c, batching_name, batching, x->rank, true));
  QN_TRY(qn_check_axes(c, indices_batching_name, indices_batching, t->rank, false));
  QN_TRY(qn_check_length(c, indices_batching_name, indices_batching, batching->n));
  for (int i = 0; i < batching->n; ++i) {
    if (qn_dims_has(dropped, batching->d[i]) || qn_dims_has(map, batching->d[i]))
      return QN_ERR(QN_INVALID, "%s: axis %lld of %s is also in %s", c->name, (long long)batching->d[i], batching_name,
                    qn_dims_has(dropped, batching->d[i]) ? dropped_name : "the map of index components");
    if (indices_batching->d[i] == vector_dim)
      return QN_ERR(QN_INVALID, "%s: %s holds the index vector's axis %lld", c->name, indices_batching_name,
                    (long long)vector_dim);
    if (x->dims[batching->d[i]] != t->dims[indices_batching->d[i]])
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected size %lld at axis %lld as axis %lld of operand %d, %s",
                    c->name, indices, qn_type_str(t), (long long)x->dims[batching->d[i]],
                    (long long)indices_batching->d[i], (long long)batching->d[i], operand, qn_type_str(x));
  }
  return QN_OK;
}

/* Upper bounds as a value that compares with the indices: a scalar where all are equal. */
static qn_val bounds_of(qn_val indices, int64_t vector_dim, const int64_t *room) {
  qn_type t = *qn_val_type(indices);
  int64_t components = vector_dim < t.rank ? t.dims[vector_dim] : 1;
  bool narrow = qn_dtype_size(t.dtype) < 8, equal = true;
  int64_t most = !narrow
                     ? INT64_MAX
                     : (INT64_C(1) << (8 * (int)qn_dtype_size(t.dtype) - (qn_dtype_is_signed(t.dtype) ? 1 : 0))) - 1;
  int64_t bound[QN_MAX_RANK] = {0}, data[QN_MAX_RANK] = {0}; /* data: the bounds in the indices' dtype */
  for (int64_t k = 0; k < components && k < QN_MAX_RANK; ++k) {
    bound[k] = room[k] > most ? most : room[k] < 0 ? 0 : room[k];
    equal = equal && bound[k] == bound[0];
  }
  qn_type scalar = qn_type_scalar(t.dtype), vector = qn_type_make(t.dtype, 1, &components);
  if (qn_dtype_is_signed(t.dtype))
    qn_oracle_store_i(t.dtype, data, 0, components, bound);
  else
    qn_oracle_store_u(t.dtype, data, 0, components, (const uint64_t *)bound);
  if (equal)
    return qn_broadcast_to(qn_constant(indices.graph, scalar, data), t.rank, t.dims);
  return qn_broadcast_in_dim(qn_constant(indices.graph, vector, data), t.rank, t.dims, &vector_dim);
}

qn_val qn_clamped_indices(qn_val indices, int64_t vector_dim, const int64_t *room) {
  if (!qn_val_ok(indices) || qn_type_elements(qn_val_type(indices)) == 0)
    return indices;
  qn_type t = *qn_val_type(indices);
  qn_val bound = bounds_of(indices, vector_dim, room), zero = qn_broadcast_to(qn_like(indices, 0.0), t.rank, t.dims);
  return qn_clamp(zero, indices, bound);
}

qn_val qn_fitting_indices(qn_val indices, int64_t vector_dim, const int64_t *room) {
  if (!qn_val_ok(indices))
    return indices;
  qn_type t = *qn_val_type(indices);
  if (qn_type_elements(&t) == 0) { /* no window, or windows without an index: all fit */
    qn_type all = {.dtype = QN_BOOL};
    for (int i = 0; i < t.rank; ++i)
      if (i != vector_dim)
        all.dims[all.rank++] = t.dims[i];
    return qn_full(indices.graph, all, 1.0);
  }
  qn_val fits = qn_le(indices, bounds_of(indices, vector_dim, room));
  if (qn_dtype_is_signed(t.dtype))
    fits = qn_and(fits, qn_ge(indices, qn_like(indices, 0.0)));
  return vector_dim < t.rank ? qn_reduce_and(fits, 1, &vector_dim, false) : fits;
}

qn_val qn_scatter_named(qn_val x, qn_val indices, qn_val updates, const qn_attr_scatter *dims, qn_op op) {
  if (!qn_val_ok(x))
    return x;
  qn_graph *body = NULL;
  qn_status st = qn_region_binary(op, qn_val_type(x)->dtype, &body);
  if (st != QN_OK)
    return qn_graph_fail(x.graph, QN_HERE, st, "scatter: %s", qn_error_message());
  qn_val y = qn_scatter(x, indices, updates, dims, body);
  qn_graph_release(body);
  return y;
}
