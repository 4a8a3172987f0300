/* Random numbers by counter: threefry2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and
 * samplers on it whose bits are those of jax.random with its partitionable layout: element i of a tensor is the hash of the 64-bit
 * counter i, so it depends on nothing but key and place. A key is u32[2]: the high and the low word of its seed. */
#include "random_parts.h"

/* x turned left; the counts are constants of x's shape. */
static qn_val rotate(qn_place at, qn_val x, int count) {
  qn_type t = *qn_val_type(x);
  qn_val up = qn_shift_left_at(at, x, qn_full_at(at, x.graph, t, count));
  return qn_or_at(at, up, qn_shift_right_logical_at(at, x, qn_full_at(at, x.graph, t, 32 - count)));
}

void qn_threefry2x32_at(qn_place at, qn_val k0, qn_val k1, qn_val x0, qn_val x1, qn_val *out0, qn_val *out1) {
  static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  *out0 = *out1 = QN_NULL_VAL;
  const qn_val all[4] = {k0, k1, x0, x1};
  qn_graph *g = qn_graph_common("threefry2x32", all, 4, at);
  if (g == NULL)
    return;
  for (int i = 0; i < 4; i++)
    if (qn_val_type(all[i])->dtype != QN_U32) {
      (void)qn_graph_fail(g, at, QN_INVALID, "threefry2x32: operand %d is %s, expected u32", i,
                          qn_type_str(qn_val_type(all[i])));
      return;
    }
  qn_val parity = qn_xor_at(at, qn_xor_at(at, k0, k1), qn_like_at(at, k0, 0x1BD11BDA));
  const qn_val keys[3] = {k0, k1, parity};
  x0 = qn_add_at(at, x0, k0);
  x1 = qn_add_at(at, x1, k1);
  for (int group = 0; group < 5 && !qn_graph_failed(g); group++) {
    for (int i = 0; i < 4; i++) {
      x0 = qn_add_at(at, x0, x1);
      x1 = qn_xor_at(at, rotate(at, x1, turns[group % 2][i]), x0);
    }
    qn_val second = keys[(group + 2) % 3];
    x0 = qn_add_at(at, x0, keys[(group + 1) % 3]);
    x1 = qn_add_at(at, x1, qn_add_at(at, second, qn_like_at(at, second, group + 1)));
  }
  *out0 = x0;
  *out1 = x1;
}

bool qn_random_key(const char *name, qn_place at, qn_val key, qn_val words[2]) {
  qn_graph *g = qn_graph_common(name, &key, 1, at);
  if (g == NULL)
    return false;
  const qn_type *t = qn_val_type(key);
  if (t->dtype != QN_U32 || t->rank != 1 || t->dims[0] != 2) {
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: key is %s, expected u32[2]", name, qn_type_str(t));
    return false;
  }
  for (int64_t i = 0; i < 2; i++) {
    int64_t limit = i + 1;
    words[i] = qn_reshape_at(at, qn_slice_at(at, key, &i, &limit, NULL), 0, NULL);
  }
  return !qn_graph_failed(g);
}

/* Number i in element i of a shape, as two words. */
static void counters(qn_place at, qn_graph *g, const qn_type *shape, qn_val *hi, qn_val *lo) {
  int64_t n = qn_type_elements(shape);
  qn_type words = *shape;
  words.dtype = QN_U32;
  if (n <= INT64_C(1) << 32) {
    *hi = qn_full_at(at, g, words, 0);
    *lo = qn_reshape_at(at, qn_iota_at(at, g, qn_type_of(QN_U32, 1, n), 0), words.rank, words.dims);
    return;
  }
  qn_val wide = qn_reshape_at(at, qn_iota_at(at, g, qn_type_of(QN_U64, 1, n), 0), words.rank, words.dims);
  *lo = qn_convert_at(at, wide, QN_U32);
  *hi = qn_convert_at(at, qn_shift_right_logical_at(at, wide, qn_like_at(at, wide, 32)), QN_U32);
}

/* Two words a and b side by side on a new last axis. */
static qn_val paired(qn_place at, qn_val a, qn_val b) {
  if (!qn_val_ok(a) || !qn_val_ok(b))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(a);
  t.dims[t.rank++] = 1;
  const qn_val parts[2] = {qn_reshape_at(at, a, t.rank, t.dims), qn_reshape_at(at, b, t.rank, t.dims)};
  return qn_concatenate_at(at, parts, 2, t.rank - 1);
}

qn_val qn_key_at(qn_place at, qn_graph *g, uint64_t seed) {
  const uint32_t words[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
  return qn_constant_at(at, g, qn_type_of(QN_U32, 1, 2), words);
}

qn_val qn_key_split_at(qn_place at, qn_val key, int64_t count) {
  qn_val k[2], hi, lo, a, b;
  if (!qn_random_key("key_split", at, key, k))
    return QN_NULL_VAL;
  if (count < 0)
    return qn_graph_fail(key.graph, at, QN_INVALID, "key_split: %lld keys", (long long)count);
  qn_type shape = qn_type_of(QN_U32, 1, count);
  counters(at, key.graph, &shape, &hi, &lo);
  qn_threefry2x32_at(at, k[0], k[1], hi, lo, &a, &b);
  return paired(at, a, b);
}

qn_val qn_key_fold_in_at(qn_place at, qn_val key, qn_val data) {
  qn_val k[2], a, b;
  const qn_val both[2] = {key, data};
  qn_graph *g = qn_graph_common("key_fold_in", both, 2, at);
  if (g == NULL || !qn_random_key("key_fold_in", at, key, k))
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(data);
  if (t->rank != 0 || (t->dtype != QN_U32 && t->dtype != QN_I32))
    return qn_graph_fail(g, at, QN_INVALID, "key_fold_in: data is %s, expected u32[] or i32[]", qn_type_str(t));
  data = qn_convert_at(at, data, QN_U32);
  qn_threefry2x32_at(at, k[0], k[1], qn_like_at(at, data, 0), data, &a, &b);
  return paired(at, a, b);
}

qn_val qn_random_bits_at(qn_place at, qn_val key, qn_type type) {
  qn_val k[2], hi, lo, a, b;
  if (!qn_random_key("random_bits", at, key, k))
    return QN_NULL_VAL;
  if (!qn_dtype_is_unsigned(type.dtype))
    return qn_graph_fail(key.graph, at, QN_INVALID, "random_bits: asked for %s, expected unsigned integers",
                         qn_type_str(&type));
  counters(at, key.graph, &type, &hi, &lo);
  qn_threefry2x32_at(at, k[0], k[1], hi, lo, &a, &b);
  return qn_random_word_bits(at, a, b, type.dtype);
}

qn_val qn_random_word_bits(qn_place at, qn_val a, qn_val b, qn_dtype t) {
  if (t != QN_U64)
    return qn_convert_at(at, qn_xor_at(at, a, b), t);
  qn_val high = qn_convert_at(at, a, QN_U64), low = qn_convert_at(at, b, QN_U64);
  return qn_or_at(at, qn_shift_left_at(at, high, qn_like_at(at, high, 32)), low);
}

qn_val qn_random_row(qn_place at, qn_val keys, int64_t i) {
  const int64_t start[2] = {i, 0}, limit[2] = {i + 1, 2}, dims[1] = {2};
  return qn_reshape_at(at, qn_slice_at(at, keys, start, limit, NULL), 1, dims);
}

bool qn_random_rank(const char *name, qn_graph *g, qn_place at, int rank) {
  if (rank >= 0 && rank <= QN_MAX_RANK)
    return true;
  (void)qn_graph_fail(g, at, QN_INVALID, "%s: rank %d, expected 0 to %d", name, rank, QN_MAX_RANK);
  return false;
}

/* ---- the layout that is not partitionable ---- */
static qn_val cut(qn_place at, qn_val x, int64_t begin, int64_t end) { return qn_slice_at(at, x, &begin, &end, NULL); }

/* An odd number of counters is padded with a zero. */
qn_val qn_threefry_run_at(qn_place at, qn_val key, qn_val counters) {
  qn_val k[2], out[2];
  const qn_val both[2] = {key, counters};
  qn_graph *g = qn_graph_common("threefry_run", both, 2, at);
  if (g == NULL || !qn_random_key("threefry_run", at, key, k))
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(counters);
  if (t->rank != 1 || t->dtype != QN_U32)
    return qn_graph_fail(g, at, QN_INVALID, "threefry_run: counters are %s, expected u32[n]", qn_type_str(t));
  int64_t n = t->dims[0], half = n / 2 + n % 2, none = 0, odd = n % 2;
  qn_val padded = qn_pad_at(at, counters, qn_like_at(at, counters, 0), &none, &odd, NULL);
  qn_threefry2x32_at(at, k[0], k[1], cut(at, padded, 0, half), cut(at, padded, half, 2 * half), &out[0], &out[1]);
  return cut(at, qn_concatenate_at(at, out, 2, 0), 0, n);
}

static qn_val run_of(qn_place at, qn_val key, int64_t n) {
  return qn_threefry_run_at(at, key, qn_iota_at(at, key.graph, qn_type_of(QN_U32, 1, n), 0));
}

qn_val qn_key_split_unpartitioned_at(qn_place at, qn_val key, int64_t count) {
  qn_val k[2];
  const int64_t dims[2] = {count, 2};
  if (!qn_random_key("key_split_unpartitioned", at, key, k))
    return QN_NULL_VAL;
  if (count < 0 || count > INT32_MAX)
    return qn_graph_fail(key.graph, at, QN_INVALID, "key_split_unpartitioned: %lld keys", (long long)count);
  return qn_reshape_at(at, run_of(at, key, 2 * count), 2, dims);
}

/* Elements are cut from the words as memory is read, low bits first; a u64 takes its halves from both halves of the run. */
qn_val qn_random_bits_unpartitioned_at(qn_place at, qn_val key, qn_type type) {
  qn_val k[2];
  if (!qn_random_key("random_bits_unpartitioned", at, key, k))
    return QN_NULL_VAL;
  int64_t size = qn_type_elements(&type), bytes = (int64_t)qn_dtype_size(type.dtype);
  if (!qn_dtype_is_unsigned(type.dtype) || size > INT32_MAX)
    return qn_graph_fail(key.graph, at, QN_INVALID,
                         "random_bits_unpartitioned: asked for %s, expected unsigned integers, 2^31 at most",
                         qn_type_str(&type));
  int64_t n = (bytes * size + 3) / 4, each = bytes < 4 ? 4 / bytes : 1;
  qn_val run = run_of(at, key, n);
  if (bytes == 8) {
    qn_val high = qn_convert_at(at, cut(at, run, 0, size), QN_U64),
           low = qn_convert_at(at, cut(at, run, size, 2 * size), QN_U64);
    run = qn_or_at(at, qn_shift_left_at(at, high, qn_like_at(at, high, 32)), low);
  } else if (each > 1) {
    const int64_t dims[2] = {n, each}, rows = 0, flat[1] = {n * each};
    qn_val shift = qn_iota_at(at, key.graph, qn_type_make(QN_U32, 2, dims), 1);
    shift = qn_multiply_at(at, shift, qn_like_at(at, shift, 8 * (double)bytes));
    qn_val parts = qn_shift_right_logical_at(at, qn_broadcast_in_dim_at(at, run, 2, dims, &rows), shift);
    run = cut(at, qn_reshape_at(at, qn_convert_at(at, parts, type.dtype), 1, flat), 0, size);
  }
  return qn_reshape_at(at, run, type.rank, type.dims);
}

/* ---- floats ---- */
qn_float_form qn_float_form_of(qn_dtype t) {
  if (t == QN_F16)
    return (qn_float_form){QN_U16, 16, 16, 10, 0x3C00, 1 - 0x1p-11, 0x1p-10, 0x1p-14};
  if (t == QN_BF16) /* eight random bits are enough for its mantissa of seven */
    return (qn_float_form){QN_U16, 16, 8, 7, 0x3F80, 1 - 0x1p-8, 0x1p-7, 0x1p-126};
  if (t == QN_F32)
    return (qn_float_form){QN_U32, 32, 32, 23, 0x3F800000, 1 - 0x1p-24, 0x1p-23, 0x1p-126};
  return (qn_float_form){QN_U64, 64, 64, 52, 0x3FF0000000000000, 1 - 0x1p-53, 0x1p-52, 0x1p-1022};
}

bool qn_random_float(const char *name, qn_place at, qn_val key, const qn_type *type) {
  qn_graph *g = qn_graph_common(name, &key, 1, at);
  if (g == NULL)
    return false;
  if (qn_dtype_is_float(type->dtype))
    return true;
  (void)qn_graph_fail(g, at, QN_INVALID, "%s: asked for %s, expected floats", name, qn_type_str(type));
  return false;
}

qn_dtype qn_random_drawn(qn_dtype t) { return t == QN_BF16 ? QN_U8 : qn_float_form_of(t).bits; }

/* Random mantissas under the exponent of 1 give [1, 2); minus 1. */
qn_val qn_random_unit_bits(qn_place at, qn_val bits, qn_dtype t) {
  qn_float_form f = qn_float_form_of(t);
  bits = qn_convert_at(at, bits, f.bits);
  if (!qn_val_ok(bits))
    return bits;
  qn_type words = *qn_val_type(bits), type = words;
  type.dtype = t;
  bits = qn_shift_right_logical_at(at, bits, qn_full_at(at, bits.graph, words, f.drawn - f.mantissa));
  bits = qn_or_at(at, bits, qn_full_at(at, bits.graph, words, f.one));
  return qn_subtract_at(at, qn_bitcast_convert_at(at, bits, t), qn_full_at(at, bits.graph, type, 1));
}

/* Held above the lower bound against rounding. */
qn_val qn_random_scaled(qn_place at, qn_val unit, double lo, double hi) {
  if (!qn_val_ok(unit) || (lo == 0 && hi == 1))
    return unit;
  qn_val low = qn_like_at(at, unit, lo), high = qn_like_at(at, unit, hi);
  qn_val scaled = qn_add_at(at, qn_multiply_at(at, unit, qn_subtract_at(at, high, low)), low);
  return qn_maximum_at(at, low, scaled);
}

qn_val qn_random_uniform_at(qn_place at, qn_val key, qn_type type, double lo, double hi) {
  if (!qn_random_float("random_uniform", at, key, &type))
    return QN_NULL_VAL;
  qn_type drawn = type;
  drawn.dtype = qn_random_drawn(type.dtype);
  return qn_random_scaled(at, qn_random_unit_bits(at, qn_random_bits_at(at, key, drawn), type.dtype), lo, hi);
}

qn_val qn_random_normal_of(qn_place at, qn_val unit) {
  if (!qn_val_ok(unit))
    return unit;
  qn_val u = qn_random_scaled(at, unit, -qn_float_form_of(qn_val_type(unit)->dtype).below_one, 1);
  return qn_multiply_at(at, qn_like_at(at, u, 1.41421356237309504880), qn_erf_inv_at(at, u));
}

qn_val qn_random_normal_at(qn_place at, qn_val key, qn_type type) {
  if (!qn_random_float("random_normal", at, key, &type))
    return QN_NULL_VAL;
  return qn_random_normal_of(at, qn_random_uniform_at(at, key, type, 0, 1));
}

qn_val qn_random_bernoulli_at(qn_place at, qn_val key, double p, int rank, const int64_t *dims) {
  qn_graph *g = qn_graph_common("random_bernoulli", &key, 1, at);
  if (g == NULL || !qn_random_rank("random_bernoulli", g, at, rank))
    return QN_NULL_VAL;
  qn_val u = qn_random_uniform_at(at, key, qn_type_make(QN_F32, rank, dims), 0, 1);
  return qn_val_ok(u) ? qn_compare_at(at, u, qn_like_at(at, u, p), QN_CMP_LT, QN_CMP_DEFAULT) : u;
}
