/* Movement of elements: broadcasts, slices, padding, concatenation, and the library functions made of them. */
#include <string.h>

#include "quern/ops.h"
#include "replay.h"

#define X b->in[0]

static int64_t number(const replay_build *b, const char *key, double otherwise) {
  return (int64_t)qn_replay_number(b->attrs, key, otherwise);
}

static void broadcast_in_dim(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "result_shape"), d = qn_replay_dims(b->attrs, "broadcast_dimensions");
  b->out[0] = qn_broadcast_in_dim(X, shape.n, shape.d, d.d);
}
static void reshape(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "result_shape");
  b->out[0] = qn_reshape(X, shape.n, shape.d);
}
static void transpose(replay_build *b) {
  qn_dims d = qn_replay_dims(b->attrs, "permutation");
  b->out[0] = qn_transpose(X, d.d);
}
static void reverse(replay_build *b) {
  qn_dims d = qn_replay_dims(b->attrs, "dimensions");
  b->out[0] = qn_reverse(X, d.n, d.d);
}
static void slice(replay_build *b) {
  qn_dims start = qn_replay_dims(b->attrs, "start_indices"), limit = qn_replay_dims(b->attrs, "limit_indices"),
          stride = qn_replay_dims(b->attrs, "strides");
  b->out[0] = qn_slice(X, start.d, limit.d, stride.d);
}
static void pad(replay_build *b) {
  qn_dims low = qn_replay_dims(b->attrs, "edge_padding_low"), high = qn_replay_dims(b->attrs, "edge_padding_high"),
          interior = qn_replay_dims(b->attrs, "interior_padding");
  b->out[0] = qn_pad(X, b->in[1], low.d, high.d, interior.d);
}
static void concatenate(replay_build *b) { b->out[0] = qn_concatenate(b->in, b->in_count, number(b, "dimension", 0)); }
static void iota(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "result_shape");
  qn_dtype t = qn_dtype_parse(qn_replay_text(b->attrs, "dtype"));
  b->out[0] = qn_iota(b->g, qn_type_make(t, shape.n, shape.d), number(b, "iota_dimension", 0));
}
static void dynamic_slice(replay_build *b) {
  qn_dims sizes = qn_replay_dims(b->attrs, "slice_sizes");
  b->out[0] = qn_dynamic_slice(X, b->in + 1, sizes.d);
}
static void dynamic_update_slice(replay_build *b) { b->out[0] = qn_dynamic_update_slice(X, b->in[1], b->in + 2); }

/* ---- library functions ---- */

/* Elements begin .. end-1 of an axis. */
static qn_val part(qn_val x, int64_t axis, int64_t begin, int64_t end) {
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
  memcpy(limit, qn_val_type(x)->dims, sizeof limit);
  start[axis] = begin;
  limit[axis] = end;
  return qn_slice(x, start, limit, NULL);
}

static void roll(replay_build *b) {
  int64_t axis = number(b, "axis", 0), n = qn_val_type(X)->dims[axis], shift = number(b, "shift", 0) % n;
  shift += shift < 0 ? n : 0;
  qn_val parts[2] = {part(X, axis, n - shift, n), part(X, axis, 0, n - shift)};
  b->out[0] = qn_concatenate(parts, 2, axis);
}

static void tile(replay_build *b) {
  qn_dims reps = qn_replay_dims(b->attrs, "reps");
  qn_val y = X;
  for (int axis = 0; axis < reps.n; axis++) {
    qn_val copies[16];
    size_t n = 0;
    while (n < 16 && (int64_t)n < reps.d[axis])
      copies[n++] = y;
    y = qn_concatenate(copies, n, axis);
  }
  b->out[0] = y;
}

static void repeat(replay_build *b) {
  int64_t axis = number(b, "axis", 0), times = number(b, "repeats", 1), dims[QN_MAX_RANK], map[QN_MAX_RANK];
  qn_type t = *qn_val_type(X);
  for (int i = 0, n = 0; i < t.rank; i++) {
    map[i] = n;
    dims[n++] = t.dims[i];
    if (i == axis)
      dims[n++] = times;
  }
  qn_val y = qn_broadcast_in_dim(X, t.rank + 1, dims, map);
  t.dims[axis] *= times;
  b->out[0] = qn_reshape(y, t.rank, t.dims);
}

static void stack(replay_build *b) {
  int64_t axis = number(b, "axis", 0), dims[QN_MAX_RANK];
  const qn_type *t = qn_val_type(X);
  qn_val parts[REPLAY_TENSORS];
  for (int i = 0, n = 0; n <= t->rank; n++)
    dims[n] = n == axis ? 1 : t->dims[i++];
  for (size_t i = 0; i < b->in_count; i++)
    parts[i] = qn_reshape(b->in[i], t->rank + 1, dims);
  b->out[0] = qn_concatenate(parts, b->in_count, axis);
}

static void split(replay_build *b) {
  qn_dims at = qn_replay_dims(b->attrs, "indices");
  int64_t axis = number(b, "axis", 0), begin = 0;
  for (size_t i = 0; i < b->out_count; i++) {
    int64_t end = i < (size_t)at.n ? at.d[i] : qn_val_type(X)->dims[axis];
    b->out[i] = part(X, axis, begin, end);
    begin = end;
  }
}

/* Keeps the lower or upper triangle of the last two axes. */
static void triangle(replay_build *b) {
  qn_type t = *qn_val_type(X);
  bool lower = strcmp(qn_replay_text(b->attrs, "part"), "lower") == 0;
  t.dtype = QN_I32;
  qn_val row = qn_iota(b->g, t, t.rank - 2), column = qn_iota(b->g, t, t.rank - 1),
         k = qn_like(row, qn_replay_number(b->attrs, "k", 0));
  qn_val keep = lower ? qn_ge(qn_add(row, k), column) : qn_le(qn_add(row, k), column);
  b->out[0] = qn_select(keep, X, qn_like(X, 0));
}

/* One axis padded by copies of its own elements, one element at a time. */
static qn_val pad_axis(qn_val x, int64_t axis, int64_t low, int64_t high, const char *mode) {
  qn_val parts[32];
  int64_t n = qn_val_type(x)->dims[axis];
  size_t count = 0;
  for (int64_t i = -low; i < n + high && count < 32; i++) {
    int64_t from = i;
    if (i < 0)
      from = strcmp(mode, "edge") == 0        ? 0
             : strcmp(mode, "reflect") == 0   ? -i
             : strcmp(mode, "symmetric") == 0 ? -i - 1
                                              : i + n;
    if (i >= n)
      from = strcmp(mode, "edge") == 0        ? n - 1
             : strcmp(mode, "reflect") == 0   ? 2 * (n - 1) - i
             : strcmp(mode, "symmetric") == 0 ? 2 * n - 1 - i
                                              : i - n;
    parts[count++] = part(x, axis, from, from + 1);
  }
  return qn_concatenate(parts, count, axis);
}

static void jnp_pad(replay_build *b) {
  const cJSON *widths = qn_replay_get(b->attrs, "pad_width");
  qn_val y = X;
  for (int i = 0; i < cJSON_GetArraySize(widths); i++) {
    const cJSON *w = cJSON_GetArrayItem(widths, i);
    y = pad_axis(y, i, cJSON_GetArrayItem(w, 0)->valueint, cJSON_GetArrayItem(w, 1)->valueint,
                 qn_replay_text(b->attrs, "mode"));
  }
  b->out[0] = y;
}

/* How many elements of the sorted array lie before each query. */
static void searchsorted(replay_build *b) {
  int64_t n = qn_val_type(X)->dims[0], m = qn_val_type(b->in[1])->dims[0];
  int64_t dims[2] = {m, n}, rows = 0, columns = 1, last = 1;
  qn_val sorted = qn_broadcast_in_dim(X, 2, dims, &columns), query = qn_broadcast_in_dim(b->in[1], 2, dims, &rows);
  qn_val before = strcmp(qn_replay_text(b->attrs, "side"), "left") == 0 ? qn_lt(sorted, query) : qn_le(sorted, query);
  b->out[0] = qn_sum(qn_convert(before, QN_I32), 1, &last, false);
}

static void argmax(replay_build *b) { b->out[0] = qn_argmax(X, number(b, "axis", 0)); }
static void argmin(replay_build *b) { b->out[0] = qn_argmin(X, number(b, "axis", 0)); }

/* lax.cumsum, cumprod, cummax, cummin. */
static void cumulative(replay_build *b, qn_op op) {
  b->out[0] = qn_cumulative_op_at(QN_HERE, X, op, number(b, "axis", 0), number(b, "reverse", 0) > 0);
}
static void cumsum(replay_build *b) { cumulative(b, QN_OP_ADD); }
static void cumprod(replay_build *b) { cumulative(b, QN_OP_MULTIPLY); }
static void cummax(replay_build *b) { cumulative(b, QN_OP_MAXIMUM); }
static void cummin(replay_build *b) { cumulative(b, QN_OP_MINIMUM); }
static void cumlogsumexp(replay_build *b) {
  b->out[0] = qn_cumlogsumexp(X, number(b, "axis", 0), number(b, "reverse", 0) > 0);
}

static void one_hot(replay_build *b) {
  int rank = qn_val_type(X)->rank + 1;
  int64_t axis = number(b, "axis", -1), permutation[QN_MAX_RANK];
  axis += axis < 0 ? rank : 0;
  qn_val y = qn_one_hot(X, number(b, "num_classes", 0), qn_dtype_parse(qn_replay_text(b->attrs, "dtype")));
  for (int i = 0, n = 0; i < rank; i++)
    permutation[i] = i == axis ? rank - 1 : n++;
  b->out[0] = qn_transpose(y, permutation);
}

const replay_op qn_replay_shape[] = {
    {"broadcast_in_dim", broadcast_in_dim},
    {"reshape", reshape},
    {"transpose", transpose},
    {"reverse", reverse},
    {"slice", slice},
    {"pad", pad},
    {"concatenate", concatenate},
    {"iota", iota},
    {"dynamic_slice", dynamic_slice},
    {"dynamic_update_slice", dynamic_update_slice},
    {"jnp.roll", roll},
    {"jnp.tile", tile},
    {"jnp.repeat", repeat},
    {"jnp.stack", stack},
    {"jnp.split", split},
    {"jnp.tril", triangle},
    {"jnp.triu", triangle},
    {"jnp.pad", jnp_pad},
    {"jnp.searchsorted", searchsorted},
    {"jnp.argmax", argmax},
    {"jnp.argmin", argmin},
    {"lax.cumsum", cumsum},
    {"lax.cumprod", cumprod},
    {"lax.cummax", cummax},
    {"lax.cummin", cummin},
    {"lax.cumlogsumexp", cumlogsumexp},
    {"one_hot", one_hot},
    {NULL, NULL},
};
