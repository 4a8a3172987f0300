/* gather: windows of an operand at starts from an index tensor, clamped so that they fit. Its derivative adds the windows back. */
#include "index_window.h"
#include "infer.h"
#include "move_shape.h"

static qn_status check_sizes(const qn_infer *c, const qn_attr_gather *a) {
  const qn_type *x = &c->operands[0];
  QN_TRY(qn_check_length(c, "slice_sizes", &a->slice_sizes, x->rank));
  for (int i = 0; i < x->rank; ++i) {
    int64_t size = a->slice_sizes.d[i];
    bool single = qn_dims_has(&a->collapsed_slice_dims, i) || qn_dims_has(&a->operand_batching_dims, i);
    int64_t most = single && x->dims[i] > 1 ? 1 : x->dims[i];
    if (size < 0 || size > most)
      return QN_ERR(QN_INVALID, "%s: slice_sizes of axis %d is %lld, expected 0..%lld for operand 0, %s", c->name, i,
                    (long long)size, (long long)most, qn_type_str(x));
  }
  return QN_OK;
}

static qn_status gather_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  const qn_attr_gather *a = c->attr;
  const qn_type *x = &c->operands[0], *t = &c->operands[1];
  QN_TRY(qn_check_windows(c, 0, 1, a->index_vector_dim, &a->start_index_map, "operand_batching_dims",
                          &a->operand_batching_dims, "start_indices_batching_dims", &a->start_indices_batching_dims,
                          "collapsed_slice_dims", &a->collapsed_slice_dims));
  QN_TRY(check_sizes(c, a));
  int counts = t->rank - (a->index_vector_dim < t->rank ? 1 : 0);
  int windows = x->rank - a->collapsed_slice_dims.n - a->operand_batching_dims.n;
  QN_TRY(qn_check_length(c, "offset_dims", &a->offset_dims, windows));
  int rank = counts + windows;
  if (rank > QN_MAX_RANK)
    return QN_ERR(QN_UNSUPPORTED, "%s: the result has rank %d, the most is %d", c->name, rank, QN_MAX_RANK);
  QN_TRY(qn_check_axes(c, "offset_dims", &a->offset_dims, rank, true));
  qn_type y = qn_type_make(x->dtype, rank, (const int64_t[QN_MAX_RANK]){0});
  qn_windows w = qn_windows_of_gather(a, x, t, &y);
  for (int i = 0; i < w.outer_count.n; ++i)
    y.dims[w.outer_count.d[i]] = t->dims[w.count_axes.d[i]];
  for (int i = 0; i < windows; ++i)
    y.dims[w.outer_window.d[i]] = a->slice_sizes.d[w.operand_window.d[i]];
  c->out_types[0] = y;
  return QN_OK;
}

static void gather_vjp(qn_rule *r, qn_val *out) {
  if (!r->wanted[0])
    return;
  const qn_attr_gather *a = r->attr;
  qn_type x = *qn_val_type(r->in[0]);
  qn_attr_scatter back = {.update_window_dims = a->offset_dims,
                          .inserted_window_dims = a->collapsed_slice_dims,
                          .input_batching_dims = a->operand_batching_dims,
                          .scatter_indices_batching_dims = a->start_indices_batching_dims,
                          .scatter_dims_to_operand_dims = a->start_index_map,
                          .index_vector_dim = a->index_vector_dim};
  int64_t room[QN_MAX_RANK] = {0};
  for (int k = 0; k < a->start_index_map.n; ++k)
    room[k] = x.dims[a->start_index_map.d[k]] - a->slice_sizes.d[a->start_index_map.d[k]];
  qn_val starts = qn_clamped_indices(r->in[1], a->index_vector_dim, room); /* scatter would drop what gather clamps */
  out[0] = qn_scatter_named(qn_zeros_of(r->g, r->in[0]), starts, r->given[0], &back, QN_OP_ADD);
}

static void gather_batch(qn_batch *b, qn_val *out) {
  const qn_attr_gather *a = b->attr;
  bool x = b->mapped[0], t = b->mapped[1];
  qn_attr_gather up = *a;
  up.offset_dims =
      qn_dims_lifted(&a->offset_dims, x && !t); /* without lanes of their own the indices leave them to the window */
  if (x) {
    up.collapsed_slice_dims = qn_dims_lifted(&a->collapsed_slice_dims, false);
    up.start_index_map = qn_dims_lifted(&a->start_index_map, false);
    up.operand_batching_dims = qn_dims_lifted(&a->operand_batching_dims, t);
    up.slice_sizes = qn_dims_prepend(&a->slice_sizes, t ? (b->size > 0 ? 1 : 0) : b->size);
  }
  if (t) {
    up.start_indices_batching_dims = qn_dims_lifted(&a->start_indices_batching_dims, x);
    up.index_vector_dim++;
  }
  out[0] = qn_gather(b->in[0], b->in[1], &up);
}

static qn_status gather_eval(const qn_ref_call *c) {
  const qn_type *x = c->in_types[0], *y = c->out_types[0];
  if (qn_type_elements(y) == 0)
    return QN_OK;
  qn_windows w = qn_windows_of_gather(c->attr, x, c->in_types[1], y);
  int64_t own[QN_MAX_RANK], outer[QN_MAX_RANK], src[QN_MAX_RANK] = {0}, dst[QN_MAX_RANK] = {0}, dims[QN_MAX_RANK] = {0};
  qn_strides_of(x, own);
  qn_strides_of(y, outer);
  for (int i = 0; i < w.operand_window.n; ++i) {
    src[i] = own[w.operand_window.d[i]];
    dst[i] = outer[w.outer_window.d[i]];
    dims[i] = w.size.d[w.operand_window.d[i]];
  }
  int64_t counts[QN_MAX_RANK] = {0}, number[QN_MAX_RANK] = {0}, start[QN_MAX_RANK];
  for (int i = 0; i < w.count_axes.n; ++i)
    counts[i] = w.indices->dims[w.count_axes.d[i]];
  do {
    qn_windows_start(&w, c->in[1], number, start);
    const char *from = c->in[0];
    for (int i = 0; i < x->rank; ++i) {
      int64_t room = x->dims[i] - w.size.d[i], at = start[i] > room ? room : start[i];
      from += (at < 0 ? 0 : at) * own[i];
    }
    char *to = c->out[0];
    for (int i = 0; i < w.outer_count.n; ++i)
      to += number[i] * outer[w.outer_count.d[i]];
    qn_copy_strided(w.operand_window.n, dims, qn_dtype_size(x->dtype), to, dst, from, src);
  } while (qn_index_step(w.count_axes.n, counts, number));
  return QN_OK;
}

const qn_op_def qn_op_gather = {
    .name = "gather",
    .doc = "Windows of the operand at starts given by index vectors; a start is clamped so that its window fits.",
    .arity = 2,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_gather),
    .infer = gather_infer,
    .linear = true,
    .vjp = gather_vjp,
    .batch = gather_batch,
    .eval = gather_eval,
};

qn_val qn_gather_at(qn_place at, qn_val x, qn_val starts, const qn_attr_gather *dims) {
  qn_val in[] = {x, starts};
  qn_graph *g = qn_graph_common("gather", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  return qn_graph_add(g, QN_OP_GATHER, in, 2, dims, NULL, 0, at);
}

qn_val qn_take_at(qn_place at, qn_val x, qn_val indices, int64_t axis) {
  qn_val in[] = {x, indices};
  qn_graph *g = qn_graph_common("take", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x), i = *qn_val_type(indices);
  int64_t along = axis < 0 ? axis + t.rank : axis;
  if (along < 0 || along >= t.rank)
    return qn_graph_fail(g, at, QN_INVALID, "take: axis %lld is out of range for %s", (long long)axis, qn_type_str(&t));
  if (t.rank - 1 + i.rank > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_UNSUPPORTED, "take: the result has rank %d, the most is %d", t.rank - 1 + i.rank,
                         QN_MAX_RANK);
  qn_attr_gather a = {.collapsed_slice_dims = {1, {along}},
                      .start_index_map = {1, {along}},
                      .slice_sizes = qn_dims_of(t.rank, t.dims),
                      .index_vector_dim = i.rank};
  a.slice_sizes.d[along] = 1;
  for (int k = 0; k < t.rank; ++k)
    if (k != along)
      a.offset_dims.d[a.offset_dims.n++] = k < along ? k : k - 1 + i.rank;
  return qn_gather_at(at, x, indices, &a);
}

qn_val qn_take_along_at(qn_place at, qn_val x, qn_val indices, int64_t axis) {
  qn_val in[] = {x, indices};
  qn_graph *g = qn_graph_common("take_along", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  if (axis < -rank || axis >= rank)
    return qn_graph_fail(g, at, QN_INVALID, "take_along: axis %lld is out of range for %s", (long long)axis,
                         qn_type_str(qn_val_type(x)));
  axis += axis < 0 ? rank : 0;
  qn_attr_gather a = {.collapsed_slice_dims = {1, {axis}}, .start_index_map = {1, {axis}}, .index_vector_dim = rank};
  for (int i = 0; i < rank; ++i) {
    a.slice_sizes.d[a.slice_sizes.n++] = qn_val_type(x)->dims[i] > 0 ? 1 : 0;
    if (i == axis)
      continue;
    a.operand_batching_dims.d[a.operand_batching_dims.n++] = i;
    a.start_indices_batching_dims.d[a.start_indices_batching_dims.n++] = i;
  }
  return qn_gather_at(at, x, indices, &a);
}
