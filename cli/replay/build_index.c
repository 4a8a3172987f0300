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

const replay_op qn_replay_index[] = {
    {"gather", gather},
    {"scatter", scatter},
    {"jnp.segment_sum", segment_sum},
    {"jnp.segment_max", segment_max},
    {"jnp.take", take},
    {"jnp.take_along_axis", take_along_axis},
    {NULL, NULL},
};
