/* Random integers, permutations and choices, bit by bit those of jax.random. */
#include <math.h>
#include <string.h>

#include "quern/control.h"
#include "random_parts.h"

static qn_val integer(qn_place at, qn_graph *g, qn_dtype t, uint64_t x) {
  const uint8_t b8 = (uint8_t)x;
  const uint16_t b16 = (uint16_t)x;
  const uint32_t b32 = (uint32_t)x;
  size_t size = qn_dtype_size(t);
  const void *data = size == 1   ? (const void *)&b8
                     : size == 2 ? (const void *)&b16
                     : size == 4 ? (const void *)&b32
                                 : &x;
  return qn_constant_at(at, g, qn_type_scalar(t), data);
}

/* A remainder by 0 is the number itself, which is right for a span of the whole dtype. */
static uint64_t rest(uint64_t x, uint64_t span) { return span ? x % span : x; }

/* Two draws make one of twice the width, reduced by the span: its bias is below 2^-32. Narrow integers are drawn with 32 bits. */
qn_val qn_random_randint_at(qn_place at, qn_val key, qn_type type, int64_t lo, int64_t hi) {
  qn_graph *g = qn_graph_common("random_randint", &key, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  if (!qn_dtype_is_int(type.dtype))
    return qn_graph_fail(g, at, QN_INVALID, "random_randint: asked for %s, expected integers", qn_type_str(&type));
  qn_type drawn = type;
  bool wide = qn_dtype_size(type.dtype) == 8;
  drawn.dtype = wide ? QN_U64 : QN_U32;
  int bits = wide ? 64 : 32;
  uint64_t all = UINT64_MAX >> (64 - bits);
  uint64_t span = hi > lo ? ((uint64_t)hi - (uint64_t)lo) & all : 1;
  uint64_t factor = rest(UINT64_C(1) << (bits / 2), span);
  factor = rest((factor * factor) & all, span);
  qn_val keys = qn_key_split_at(at, key, 2);
  qn_val high = qn_random_bits_at(at, qn_random_row(at, keys, 0), drawn),
         low = qn_random_bits_at(at, qn_random_row(at, keys, 1), drawn);
  qn_val s = integer(at, g, drawn.dtype, span), f = integer(at, g, drawn.dtype, factor);
  if (span) {
    high = qn_multiply_at(at, qn_remainder_at(at, high, s), f);
    low = qn_remainder_at(at, qn_add_at(at, high, qn_remainder_at(at, low, s)), s);
  } else {
    low = qn_add_at(at, qn_multiply_at(at, high, f), low);
  }
  return qn_add_at(at, qn_convert_at(at, low, type.dtype), integer(at, g, type.dtype, (uint64_t)lo));
}

/* ---- orders ---- */
/* Sorts by random words, so often that two elements of n have equal words each time with a probability of at most n^-3. */
static qn_val shuffled(qn_place at, qn_val key, qn_val x, int64_t axis) {
  qn_type words = *qn_val_type(x);
  words.dtype = QN_U32;
  int64_t size = qn_type_elements(&words);
  int rounds = (int)ceil(3 * log((double)(size > 1 ? size : 1)) / log((double)UINT32_MAX));
  for (int i = 0; i < rounds && qn_val_ok(x); i++) {
    qn_val keys = qn_key_split_at(at, key, 2), out[2];
    key = qn_random_row(at, keys, 0);
    const qn_val pair[2] = {qn_random_bits_at(at, qn_random_row(at, keys, 1), words), x};
    qn_sort_keys_at(at, pair, 2, 1, axis, false, out);
    x = out[1];
  }
  return x;
}

qn_val qn_random_permutation_of_at(qn_place at, qn_val key, int64_t n) {
  qn_val k[2];
  if (!qn_random_key("random_permutation_of", at, key, k))
    return QN_NULL_VAL;
  if (n < 0 || n > INT32_MAX)
    return qn_graph_fail(key.graph, at, QN_INVALID, "random_permutation_of: %lld numbers, expected 0 to 2^31 - 1",
                         (long long)n);
  return shuffled(at, key, qn_iota_at(at, key.graph, qn_type_of(QN_I32, 1, n), 0), 0);
}

/* The axis from the front; -1 after a failure. */
static int64_t axis_of(const char *name, qn_place at, qn_val x, int64_t axis) {
  const qn_type *t = qn_val_type(x);
  if (axis >= -t->rank && axis < t->rank)
    return axis < 0 ? axis + t->rank : axis;
  (void)qn_graph_fail(x.graph, at, QN_INVALID, "%s: axis %lld of %s", name, (long long)axis, qn_type_str(t));
  return -1;
}

qn_val qn_random_permutation_at(qn_place at, qn_val key, qn_val x, int64_t axis, bool independent) {
  const qn_val both[2] = {key, x};
  qn_val k[2];
  if (qn_graph_common("random_permutation", both, 2, at) == NULL || !qn_random_key("random_permutation", at, key, k) ||
      (axis = axis_of("random_permutation", at, x, axis)) < 0)
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(x);
  if (independent || t->rank == 1)
    return shuffled(at, key, x, axis);
  return qn_take_at(at, x, qn_random_permutation_of_at(at, key, t->dims[axis]), axis);
}

/* ---- choices ---- */
/* Logits plus Gumbel noise; the largest wins. */
qn_val qn_random_categorical_at(qn_place at, qn_val key, qn_val logits, int64_t axis, int rank, const int64_t *dims) {
  const qn_val both[2] = {key, logits};
  qn_graph *g = qn_graph_common("random_categorical", both, 2, at);
  if (g == NULL || (axis = axis_of("random_categorical", at, logits, axis)) < 0)
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(logits), all = {.dtype = t.dtype, .rank = rank + t.rank};
  if (!qn_random_rank("random_categorical", g, at, rank < 0 ? rank : rank + t.rank))
    return QN_NULL_VAL;
  for (int i = 0; i < all.rank; i++)
    all.dims[i] = i < rank ? dims[i] : t.dims[i - rank];
  qn_val noise = qn_random_gumbel_at(at, key, all);
  return qn_arg_at(at, qn_add_at(at, noise, logits), rank + axis, true);
}

/* How many elements of an ascending vector lie below each query. */
static qn_val places_of(qn_place at, qn_val sorted, qn_val query) {
  qn_type t = *qn_val_type(query);
  int64_t n = qn_val_type(sorted)->dims[0], last = t.rank, dims[QN_MAX_RANK], kept[QN_MAX_RANK];
  for (int i = 0; i < t.rank; i++) {
    dims[i] = t.dims[i];
    kept[i] = i;
  }
  dims[t.rank] = n;
  qn_val q = qn_broadcast_in_dim_at(at, query, t.rank + 1, dims, kept);
  qn_val s = qn_broadcast_in_dim_at(at, sorted, t.rank + 1, dims, &last);
  qn_val below = qn_compare_at(at, s, q, QN_CMP_LT, QN_CMP_DEFAULT);
  return qn_reduce_op_at(at, qn_convert_at(at, below, QN_I32), QN_OP_ADD, 1, &last, false);
}

static void sum_of_two(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  (void)user;
  out[0] = qn_add(in[0], in[1]);
}

static qn_val weighted_with_replacement(qn_place at, qn_val key, qn_val p, int rank, const int64_t *dims) {
  qn_type t = qn_type_make(qn_val_type(p)->dtype, rank, dims);
  int64_t n = qn_val_type(p)->dims[0], last = n - 1;
  qn_val sums;
  qn_associative_scan_at(at, p.graph, &p, 1, 0, false, sum_of_two, NULL, &sums);
  qn_val total = qn_reshape_at(at, qn_slice_at(at, sums, &last, &n, NULL), 0, NULL);
  qn_val u = qn_random_uniform_at(at, key, t, 0, 1);
  if (!qn_val_ok(u) || !qn_val_ok(total))
    return QN_NULL_VAL;
  return places_of(at, sums, qn_multiply_at(at, total, qn_subtract_at(at, qn_like_at(at, u, 1), u)));
}

/* The largest of log p plus Gumbel noise come as draws without replacement would. */
static qn_val weighted_without_replacement(qn_place at, qn_val key, qn_val p, int64_t draws) {
  qn_val values, places, noise = qn_random_gumbel_at(at, key, *qn_val_type(p));
  qn_top_k_at(at, qn_add_at(at, noise, qn_log_at(at, p)), draws, &values, &places);
  return places;
}

static bool choice_fits(const char *name, qn_place at, qn_graph *g, qn_val p, int64_t n, int64_t draws, bool replace) {
  const qn_type *t = qn_val_type(p);
  if (n < 1 && draws > 0)
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: nothing to choose from", name);
  else if (!replace && draws > n)
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: %lld draws from %lld without replacement", name, (long long)draws,
                        (long long)n);
  else if (qn_val_ok(p) && (t->rank != 1 || t->dims[0] != n || !qn_dtype_is_float(t->dtype)))
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: p is %s, expected %lld floats", name, qn_type_str(t), (long long)n);
  else
    return true;
  return false;
}

qn_val qn_random_choice_at(qn_place at, qn_val key, qn_val x, int64_t axis, int rank, const int64_t *dims, bool replace,
                           qn_val p) {
  static const char name[] = "random_choice";
  const qn_val all[3] = {key, x, p};
  qn_val k[2];
  qn_graph *g = qn_graph_common(name, all, qn_val_ok(p) ? 3 : 2, at);
  if (g == NULL || !qn_random_key(name, at, key, k) || (axis = axis_of(name, at, x, axis)) < 0)
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x), out = {.dtype = t.dtype, .rank = t.rank - 1 + rank};
  if (!qn_random_rank(name, g, at, rank < 0 ? rank : out.rank))
    return QN_NULL_VAL;
  int64_t n = t.dims[axis];
  qn_type drawn = qn_type_make(QN_I32, rank, dims);
  int64_t draws = qn_type_elements(&drawn);
  if (!choice_fits(name, at, g, p, n, draws, replace))
    return QN_NULL_VAL;
  for (int64_t i = 0; i < out.rank; i++)
    out.dims[i] = i < axis ? t.dims[i] : i < axis + rank ? dims[i - axis] : t.dims[i - rank + 1];
  if (draws == 0)
    return qn_full_at(at, g, out, 0);
  qn_val y;
  if (!replace && !qn_val_ok(p)) {
    const int64_t start[QN_MAX_RANK] = {0};
    t.dims[axis] = draws;
    y = qn_slice_at(at, qn_random_permutation_at(at, key, x, axis, false), start, t.dims, NULL);
  } else {
    qn_val places = !qn_val_ok(p) ? qn_random_randint_at(at, key, drawn, 0, n)
                    : replace     ? weighted_with_replacement(at, key, p, rank, dims)
                                  : weighted_without_replacement(at, key, p, draws);
    const int64_t flat = draws;
    y = qn_take_at(at, x, qn_reshape_at(at, places, 1, &flat), axis);
  }
  return qn_reshape_at(at, y, out.rank, out.dims);
}
