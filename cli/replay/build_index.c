/* Gather and scatter with their dimension numbers, and library functions over them. */
#include <math.h>
#include <string.h>

#include "quern/ops.h"
#include "replay.h"

#define X b->in[0]

static void gather(replay_build *b) {
  qn_attr_gather d = {
      .offset_dims = qn_replay_dims(b->attrs, "offset_dims"),
      .collapsed_slice_dims = qn_replay_dims(b->attrs, "collapsed_slice_dims"),
      .operand_batching_dims = qn_replay_dims(b->attrs, "operand_batching_dims"),
      .start_indices_batching_dims = qn_replay_dims(b->attrs, "start_indices_batching_dims"),
      .start_index_map = qn_replay_dims(b->attrs, "start_index_map"),
      .slice_sizes = qn_replay_dims(b->attrs, "slice_sizes"),
      .index_vector_dim = (int64_t)qn_replay_number(b->attrs, "index_vector_dim", 0),
      .indices_are_sorted = qn_replay_number(b->attrs, "indices_are_sorted", 0) > 0,
  };
  b->out[0] = qn_gather(X, b->in[1], &d);
}

/* (current, update) -> update */
static qn_status assign_region(qn_dtype t, qn_graph **out) {
  QN_TRY(qn_graph_create("assign", out));
  (void)qn_graph_param(*out, qn_type_scalar(t), NULL);
  qn_val update = qn_graph_param(*out, qn_type_scalar(t), NULL);
  qn_status st = qn_graph_seal(*out, &update, 1);
  if (st != QN_OK)
    qn_graph_release(*out);
  return st;
}

static qn_status region_of(const char *body, qn_dtype t, qn_graph **out) {
  static const struct {
    const char *name;
    qn_op op;
  } ops[] = {{"add", QN_OP_ADD},     {"multiply", QN_OP_MULTIPLY}, {"minimum", QN_OP_MINIMUM},
             {"min", QN_OP_MINIMUM}, {"maximum", QN_OP_MAXIMUM},   {"max", QN_OP_MAXIMUM}};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (strcmp(ops[i].name, body) == 0)
      return qn_region_binary(ops[i].op, t, out);
  return assign_region(t, out);
}

qn_val qn_replay_scatter(replay_build *b, const char *body, qn_val x, qn_val indices, qn_val updates,
                         const qn_attr_scatter *d) {
  qn_graph *region = NULL;
  qn_status st = region_of(body, qn_val_type(x)->dtype, &region);
  if (st != QN_OK)
    return qn_graph_fail(b->g, QN_HERE, st, "%s", qn_error_message());
  qn_val y = qn_scatter(x, indices, updates, d, region);
  qn_graph_release(region);
  return y;
}

static void scatter(replay_build *b) {
  qn_attr_scatter d = {
      .update_window_dims = qn_replay_dims(b->attrs, "update_window_dims"),
      .inserted_window_dims = qn_replay_dims(b->attrs, "inserted_window_dims"),
      .input_batching_dims = qn_replay_dims(b->attrs, "input_batching_dims"),
      .scatter_indices_batching_dims = qn_replay_dims(b->attrs, "scatter_indices_batching_dims"),
      .scatter_dims_to_operand_dims = qn_replay_dims(b->attrs, "scatter_dims_to_operand_dims"),
      .index_vector_dim = (int64_t)qn_replay_number(b->attrs, "index_vector_dim", 0),
      .indices_are_sorted = qn_replay_number(b->attrs, "indices_are_sorted", 0) > 0,
      .unique_indices = qn_replay_number(b->attrs, "unique_indices", 0) > 0,
  };
  b->out[0] = qn_replay_scatter(b, qn_replay_text(b->attrs, "body"), X, b->in[1], b->in[2], &d);
}

/* ---- segments: rows scattered by their segment's number; strangers are dropped ---- */

static void segments(replay_build *b, const char *body, double init) {
  qn_type t = *qn_val_type(X);
  qn_attr_scatter d = {
      .inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = 1};
  t.dims[0] = (int64_t)qn_replay_number(b->attrs, "num_segments", 0);
  for (int i = 1; i < t.rank; i++)
    d.update_window_dims.d[d.update_window_dims.n++] = i;
  b->out[0] = qn_replay_scatter(b, body, qn_full(b->g, t, init), b->in[1], X, &d);
}
static void segment_sum(replay_build *b) { segments(b, "add", 0); }
static void segment_max(replay_build *b) { segments(b, "maximum", -INFINITY); }

/* ---- take ---- */

/* Indices as NumPy counts them: negative ones from the end. "wrap" takes them modulo n. */
static qn_val counted(qn_val i, int64_t n, const char *mode) {
  qn_val zero = qn_like(i, 0), size = qn_like(i, (double)n);
  if (strcmp(mode, "wrap") == 0) {
    qn_val rest = qn_rem(i, size);
    return qn_select(qn_lt(rest, zero), qn_add(rest, size), rest);
  }
  return strcmp(mode, "clip") == 0 ? i : qn_select(qn_lt(i, zero), qn_add(i, size), i);
}

static qn_val filled(replay_build *b, qn_val y, qn_val index, int64_t n, int64_t axis) {
  qn_val inside = qn_and(qn_ge(index, qn_like(index, 0)), qn_lt(index, qn_like(index, (double)n)));
  int64_t map[QN_MAX_RANK];
  const qn_type *t = qn_val_type(y);
  for (int i = 0; i < qn_val_type(index)->rank; i++)
    map[i] = axis + i;
  qn_val mask = qn_broadcast_in_dim(inside, t->rank, t->dims, map);
  qn_dtype d = t->dtype;
  double otherwise = qn_dtype_is_float(d)    ? NAN
                     : qn_dtype_is_signed(d) ? -ldexp(1, 8 * (int)qn_dtype_size(d) - 1)
                                             : ldexp(1, 8 * (int)qn_dtype_size(d)) - 1;
  return qn_select(mask, y, qn_like(y, qn_replay_number(b->attrs, "fill_value", otherwise)));
}

static void take(replay_build *b) {
  const char *mode = qn_replay_text(b->attrs, "mode");
  int64_t axis = (int64_t)qn_replay_number(b->attrs, "axis", 0), n = qn_val_type(X)->dims[axis];
  qn_val index = counted(b->in[1], n, mode), y = qn_take(X, index, axis);
  b->out[0] = strcmp(mode, "fill") == 0 ? filled(b, y, index, n, axis) : y;
}

/* Every axis but one is its own index: a gather with that many batching axes. */
static void take_along_axis(replay_build *b) {
  const char *mode = qn_replay_text(b->attrs, "mode");
  const qn_type *t = qn_val_type(X);
  int64_t axis = (int64_t)qn_replay_number(b->attrs, "axis", 0), n = t->dims[axis];
  qn_val index = counted(b->in[1], n, mode);
  qn_attr_gather d = {.collapsed_slice_dims = {1, {axis}}, .start_index_map = {1, {axis}}, .index_vector_dim = t->rank};
  for (int i = 0; i < t->rank; i++) {
    d.slice_sizes.d[d.slice_sizes.n++] = 1;
    if (i == axis)
      continue;
    d.operand_batching_dims.d[d.operand_batching_dims.n++] = i;
    d.start_indices_batching_dims.d[d.start_indices_batching_dims.n++] = i;
  }
  qn_val y = qn_gather(X, index, &d);
  b->out[0] = strcmp(mode, "fill") == 0 ? filled(b, y, index, n, 0) : y;
}

/* ---- sorting ---- */

static void sort(replay_build *b) {
  size_t keys = (size_t)qn_replay_number(b->attrs, "num_keys", 1);
  if (strcmp(qn_replay_text(b->attrs, "comparator"), "LT_TOTAL") != 0)
    b->out[0] = qn_replay_not_built(b, "comparator");
  else
    qn_sort_keys(b->in, b->in_count, keys, (int64_t)qn_replay_number(b->attrs, "dimension", 0), false, b->out);
}

static void top_k(replay_build *b) { qn_top_k(X, (int64_t)qn_replay_number(b->attrs, "k", 0), &b->out[0], &b->out[1]); }

/* Descending is ascending read from behind, as JAX does it. */
static void jnp_sort(replay_build *b) {
  int64_t axis = (int64_t)qn_replay_number(b->attrs, "axis", -1);
  axis += axis < 0 ? qn_val_type(X)->rank : 0;
  qn_sort_keys(&b->in[0], 1, 1, axis, false, b->out);
  if (qn_replay_number(b->attrs, "descending", 0) > 0)
    b->out[0] = qn_reverse(b->out[0], 1, &axis);
}

static void jnp_argsort(replay_build *b) {
  int64_t axis = (int64_t)qn_replay_number(b->attrs, "axis", -1);
  b->out[0] = qn_argsort(X, axis, qn_replay_number(b->attrs, "descending", 0) > 0);
}

/* The middle of the sorted elements, or the mean of the two in the middle; NaN where there is one among them. */
static void jnp_median(replay_build *b) {
  int64_t axis = (int64_t)qn_replay_number(b->attrs, "axis", -1);
  qn_type t = *qn_val_type(X);
  axis += axis < 0 ? t.rank : 0;
  int64_t n = t.dims[axis], start[QN_MAX_RANK] = {0};
  qn_val sorted, halves[2];
  qn_sort_keys(&b->in[0], 1, 1, axis, false, &sorted);
  for (int i = 0; i < 2; i++) {
    start[axis] = i ? n / 2 : (n - 1) / 2;
    t.dims[axis] = start[axis] + 1;
    halves[i] = qn_slice(sorted, start, t.dims, NULL);
  }
  qn_val middle = qn_mul(qn_add(halves[0], halves[1]), qn_like(X, 0.5));
  start[axis] = n - 1;
  t.dims[axis] = n;
  qn_val last = qn_slice(sorted, start, t.dims, NULL);
  middle = qn_select(qn_ne(last, last), last, middle);
  int64_t dims[QN_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < t.rank; i++)
    if (i != axis)
      dims[rank++] = t.dims[i];
  b->out[0] = qn_reshape(middle, rank, dims);
}

const replay_op qn_replay_index[] = {
    {"gather", gather},
    {"scatter", scatter},
    {"jnp.segment_sum", segment_sum},
    {"jnp.segment_max", segment_max},
    {"jnp.take", take},
    {"jnp.take_along_axis", take_along_axis},
    {"sort", sort},
    {"chlo.top_k", top_k},
    {"jnp.sort", jnp_sort},
    {"jnp.argsort", jnp_argsort},
    {"jnp.median", jnp_median},
    {NULL, NULL},
};
