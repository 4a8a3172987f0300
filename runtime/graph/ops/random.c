/* Random numbers by counter: threefry2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and
 * samplers on it whose bits are those of jax.random with its partitionable layout: element i of a tensor is the hash of the 64-bit
 * counter i, so it depends on nothing but key and place. A key is u32[2]: the high and the low word of its seed. */
#include "quern/op.h"
#include "quern/ops.h"

#include <math.h>

static qn_type typed_as(qn_val v, qn_dtype t) {
  qn_type out = *qn_val_type(v);
  out.dtype = t;
  return out;
}

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

/* The key's words as scalars; false after a failure. */
static bool key_words(const char *name, qn_place at, qn_val key, qn_val words[2]) {
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
  if (!key_words("key_split", at, key, k))
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
  if (g == NULL || !key_words("key_fold_in", at, key, k))
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
  if (!key_words("random_bits", at, key, k))
    return QN_NULL_VAL;
  if (!qn_dtype_is_unsigned(type.dtype))
    return qn_graph_fail(key.graph, at, QN_INVALID, "random_bits: asked for %s, expected unsigned integers",
                         qn_type_str(&type));
  counters(at, key.graph, &type, &hi, &lo);
  qn_threefry2x32_at(at, k[0], k[1], hi, lo, &a, &b);
  if (type.dtype != QN_U64)
    return qn_convert_at(at, qn_xor_at(at, a, b), type.dtype);
  qn_val high = qn_convert_at(at, a, QN_U64), low = qn_convert_at(at, b, QN_U64);
  return qn_or_at(at, qn_shift_left_at(at, high, qn_full_at(at, key.graph, type, 32)), low);
}

typedef struct float_form {
  qn_dtype bits; /* unsigned dtype of the same width */
  int width, drawn, mantissa;
  double one;       /* bits of 1.0, as a number */
  double below_one; /* the largest value under 1 */
} float_form;

static float_form form_of(qn_dtype t) {
  if (t == QN_F16)
    return (float_form){QN_U16, 16, 16, 10, 0x3C00, 1 - 0x1p-11};
  if (t == QN_BF16) /* eight random bits are enough for its mantissa of seven */
    return (float_form){QN_U16, 16, 8, 7, 0x3F80, 1 - 0x1p-8};
  if (t == QN_F32)
    return (float_form){QN_U32, 32, 32, 23, 0x3F800000, 1 - 0x1p-24};
  return (float_form){QN_U64, 64, 64, 52, 0x3FF0000000000000, 1 - 0x1p-53};
}

static bool float_type(const char *name, qn_place at, qn_val key, const qn_type *type) {
  qn_graph *g = qn_graph_common(name, &key, 1, at);
  if (g == NULL)
    return false;
  if (qn_dtype_is_float(type->dtype))
    return true;
  (void)qn_graph_fail(g, at, QN_INVALID, "%s: asked for %s, expected floats", name, qn_type_str(type));
  return false;
}

/* Random mantissas under the exponent of 1 give [1, 2); minus 1, scaled, and held above the lower bound against rounding. */
qn_val qn_random_uniform_at(qn_place at, qn_val key, qn_type type, double lo, double hi) {
  if (!float_type("random_uniform", at, key, &type))
    return QN_NULL_VAL;
  qn_graph *g = key.graph;
  float_form f = form_of(type.dtype);
  qn_type drawn = type;
  drawn.dtype = f.drawn == 8 ? QN_U8 : f.bits;
  qn_val bits = qn_convert_at(at, qn_random_bits_at(at, key, drawn), f.bits);
  if (!qn_val_ok(bits))
    return bits;
  qn_type words = typed_as(bits, f.bits);
  bits = qn_shift_right_logical_at(at, bits, qn_full_at(at, g, words, f.drawn - f.mantissa));
  bits = qn_or_at(at, bits, qn_full_at(at, g, words, f.one));
  qn_val unit = qn_subtract_at(at, qn_bitcast_convert_at(at, bits, type.dtype), qn_full_at(at, g, type, 1));
  if (lo == 0 && hi == 1)
    return unit;
  qn_val low = qn_full_at(at, g, qn_type_scalar(type.dtype), lo),
         high = qn_full_at(at, g, qn_type_scalar(type.dtype), hi);
  qn_val scaled = qn_add_at(at, qn_multiply_at(at, unit, qn_subtract_at(at, high, low)), low);
  return qn_maximum_at(at, low, scaled);
}

qn_val qn_random_normal_at(qn_place at, qn_val key, qn_type type) {
  if (!float_type("random_normal", at, key, &type))
    return QN_NULL_VAL;
  qn_val u = qn_random_uniform_at(at, key, type, -form_of(type.dtype).below_one, 1);
  if (!qn_val_ok(u))
    return u;
  return qn_multiply_at(at, qn_like_at(at, u, 1.41421356237309504880), qn_erf_inv_at(at, u));
}

qn_val qn_random_bernoulli_at(qn_place at, qn_val key, double p, int rank, const int64_t *dims) {
  qn_graph *g = qn_graph_common("random_bernoulli", &key, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  if (rank < 0 || rank > QN_MAX_RANK)
    return qn_graph_fail(g, at, QN_INVALID, "random_bernoulli: rank %d, expected 0 to %d", rank, QN_MAX_RANK);
  qn_val u = qn_random_uniform_at(at, key, qn_type_make(QN_F32, rank, dims), 0, 1);
  return qn_val_ok(u) ? qn_compare_at(at, u, qn_like_at(at, u, p), QN_CMP_LT, QN_CMP_DEFAULT) : u;
}
