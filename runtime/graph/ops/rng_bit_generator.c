/* rng_bit_generator: bits by a key and a counter. THREE_FRY hashes 64-bit counters to two words (threefry2x32), PHILOX and DEFAULT 128-bit ones
 * to four (Philox4x32 with 10 rounds). On devices it is arithmetic on 32-bit words, as few of them have wider products. The layout of the bits is
 * that of XLA: THREE_FRY deals its two words out along one axis, PHILOX fills the array in order. */
#include <string.h>

#include "infer.h"
#include "move_shape.h"
#include "quern/control.h"
#include "quern/op.h"
#include "quern/ops.h"

enum { PHILOX_ROUNDS = 10 };
#define PHILOX_M0 UINT32_C(0xD2511F53)
#define PHILOX_M1 UINT32_C(0xCD9E8D57)
#define PHILOX_W0 UINT32_C(0x9E3779B9)
#define PHILOX_W1 UINT32_C(0xBB67AE85)

/* How many blocks an array takes, and where the two words of a block lie. */
typedef struct layout {
  bool threefry;
  int64_t blocks;
  int width;      /* bits drawn for an element: 32, of which narrow ones take the low end, or 64 */
  int split;      /* THREE_FRY, 32 bits: the axis along which words alternate; -1: a scalar */
  qn_type halves; /* one block each */
} layout;

static layout layout_of(const qn_attr_rng *a) {
  layout l = {.threefry = a->algorithm == QN_RNG_THREE_FRY,
              .width = qn_dtype_size(a->dtype) == 8 ? 64 : 32,
              .split = -1,
              .halves = qn_type_make(QN_U32, a->shape.n, a->shape.d)};
  int64_t n = qn_type_elements(&l.halves), each = l.width == 64 ? 2 : 4;
  if (!l.threefry || l.width == 64) {
    l.blocks = l.threefry ? n : n / each + (n % each != 0);
    return l;
  }
  for (int i = 0; i < a->shape.n && (l.split < 0 || a->shape.d[l.split] % 2); i++)
    if (l.split < 0 || a->shape.d[i] % 2 == 0 || a->shape.d[i] > a->shape.d[l.split])
      l.split = i;
  if (l.split >= 0)
    l.halves.dims[l.split] = a->shape.d[l.split] / 2 + a->shape.d[l.split] % 2;
  l.blocks = qn_type_elements(&l.halves);
  return l;
}

static qn_status rng_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_attr_rng *a = c->attr;
  const qn_type *state = &c->operands[0];
  bool threefry = a->algorithm == QN_RNG_THREE_FRY;
  int64_t words = state->rank == 1 ? state->dims[0] * (state->dtype == QN_U64 ? 2 : 1) : 0;
  if ((state->dtype != QN_U64 && state->dtype != QN_U32) || (words != 4 && (words != 6 || threefry)))
    return QN_ERR(QN_INVALID, "%s: operand 0, the state, is %s, expected %s", c->name, qn_type_str(state),
                  threefry ? "u64[2] or u32[4] for THREE_FRY" : "u64[2], u64[3], u32[4] or u32[6]");
  if (!qn_dtype_is_float(a->dtype) && !qn_dtype_is_signed(a->dtype) && !qn_dtype_is_unsigned(a->dtype))
    return QN_ERR(QN_INVALID, "%s: asked for %s, expected integers or floats", c->name, qn_dtype_name(a->dtype));
  c->out_types[0] = *state;
  c->out_types[1] = qn_type_make(a->dtype, a->shape.n, a->shape.d);
  c->result_count = 2;
  if (layout_of(a).blocks > (int64_t)UINT32_MAX)
    return QN_ERR(QN_UNSUPPORTED, "%s: %s takes more than 2^32 blocks", c->name, qn_type_str(&c->out_types[1]));
  return QN_OK;
}

/* ---- as simpler operations ---- */
static qn_val word(qn_val x, double bits) { return qn_like(x, bits); }

/* High and low word of a product with a constant: the high one from four products of halves. */
static qn_val product_high(qn_val a, uint32_t b) {
  qn_val half = word(a, 16), mask = word(a, 0xFFFF), bl = word(a, b & 0xFFFF), bh = word(a, b >> 16);
  qn_val al = qn_and(a, mask), ah = qn_shift_right_logical(a, half);
  qn_val across = qn_mul(ah, bl);
  qn_val middle = qn_add(qn_add(qn_shift_right_logical(qn_mul(al, bl), half), qn_and(across, mask)), qn_mul(al, bh));
  qn_val high = qn_add(qn_mul(ah, bh), qn_shift_right_logical(across, half));
  return qn_add(high, qn_shift_right_logical(middle, half));
}

static void philox(qn_val k0, qn_val k1, qn_val c[4]) {
  for (int i = 0; i < PHILOX_ROUNDS && !qn_graph_failed(k0.graph); i++) {
    if (i) {
      k0 = qn_add(k0, word(k0, PHILOX_W0));
      k1 = qn_add(k1, word(k1, PHILOX_W1));
    }
    qn_val high0 = product_high(c[0], PHILOX_M0), low0 = qn_mul(c[0], word(c[0], PHILOX_M0));
    qn_val high1 = product_high(c[2], PHILOX_M1), low1 = qn_mul(c[2], word(c[2], PHILOX_M1));
    c[0] = qn_xor(qn_xor(high1, c[1]), k0);
    c[1] = low1;
    c[2] = qn_xor(qn_xor(high0, c[3]), k1);
    c[3] = low0;
  }
}

/* A number of several words, low first, plus a small one. */
static void advance(const qn_val *words, int count, qn_val by, qn_val *out) {
  for (int i = 0; i < count; i++) {
    out[i] = qn_add(words[i], by);
    by = i + 1 < count ? qn_convert(qn_lt(out[i], by), QN_U32) : by;
  }
}

/* The state's words; for u64[n] low words first. */
static void state_words(qn_val state, int count, qn_val *out) {
  const int64_t flat = count;
  if (qn_val_type(state)->dtype == QN_U64)
    state = qn_reshape(qn_bitcast_convert(state, QN_U32), 1, &flat);
  for (int64_t i = 0; i < count; i++) {
    int64_t end = i + 1;
    out[i] = qn_reshape(qn_slice(state, &i, &end, NULL), 0, NULL);
  }
}

static qn_val state_of(const qn_val *words, int count, qn_dtype dtype) {
  qn_val parts[6];
  const int64_t one = 1, pairs[2] = {count / 2, 2};
  for (int i = 0; i < count; i++)
    parts[i] = qn_reshape(words[i], 1, &one);
  qn_val state = qn_concatenate(parts, (size_t)count, 0);
  return dtype == QN_U64 ? qn_bitcast_convert(qn_reshape(state, 2, pairs), QN_U64) : state;
}

/* Arrays of `t`'s dimensions side by side on a new axis behind `axis`. */
static qn_val side_by_side(const qn_type *t, const qn_val *x, int count, int axis) {
  qn_type thin = *t;
  qn_val parts[4];
  memmove(thin.dims + axis + 2, thin.dims + axis + 1, (size_t)(thin.rank - axis - 1) * sizeof *thin.dims);
  thin.dims[axis + 1] = 1;
  thin.rank++;
  for (int i = 0; i < count; i++)
    parts[i] = qn_reshape(x[i], thin.rank, thin.dims);
  return qn_concatenate(parts, (size_t)count, axis + 1);
}

static qn_val wide(qn_val low, qn_val high) {
  qn_val up = qn_convert(high, QN_U64);
  return qn_or(qn_shift_left(up, qn_like(up, 32)), qn_convert(low, QN_U64));
}

/* Elements 0 .. dims - 1 of an array that may be longer. */
static qn_val front(qn_val x, const int64_t *dims) {
  const int64_t start[QN_MAX_RANK] = {0};
  return qn_slice(x, start, dims, NULL);
}

/* Words of all blocks, each [blocks], as an array of the shape that was asked for. */
static qn_val arranged(const layout *l, const qn_attr_rng *a, const qn_val *words) {
  int count = l->threefry ? 2 : 4;
  qn_val x, pairs[2];
  if (l->split >= 0) {
    qn_type dealt = l->halves;
    dealt.dims[l->split] *= 2;
    return front(qn_reshape(side_by_side(&l->halves, words, 2, l->split), dealt.rank, dealt.dims), a->shape.d);
  }
  if (l->width == 64) {
    for (int i = 0; i < count; i += 2)
      pairs[i / 2] = wide(words[i], words[i + 1]);
    words = pairs;
    count /= 2;
  }
  if (l->threefry) { /* a scalar, or 64 bits: one element a block */
    x = words[0];
  } else {
    qn_type line = qn_type_of(QN_U32, 1, l->blocks);
    const int64_t all = l->blocks * count;
    qn_type shape = qn_type_make(a->dtype, a->shape.n, a->shape.d);
    const int64_t n = qn_type_elements(&shape);
    x = front(qn_reshape(side_by_side(&line, words, count, 0), 1, &all), &n);
  }
  return qn_reshape(x, a->shape.n, a->shape.d);
}

static bool rng_lower(qn_rule *r, qn_val *out) {
  const qn_attr_rng *a = r->attr;
  layout l = layout_of(a);
  const qn_type *t = qn_val_type(r->in[0]);
  qn_dtype kept = t->dtype;
  int count = (int)t->dims[0] * (kept == QN_U64 ? 2 : 1), moving = count - 2;
  qn_val s[6], c[4];
  state_words(r->in[0], count, s);
  qn_val index = qn_iota(r->g, qn_type_of(QN_U32, 1, l.blocks), 0);
  if (l.threefry) {
    advance(s + 2, 2, index, c);
    qn_threefry2x32(s[0], s[1], c[0], c[1], &c[0], &c[1]);
  } else {
    const qn_val short_counter[4] = {s[2], s[3], s[0], s[1]};
    advance(count == 4 ? short_counter : s + 2, 4, index, c);
    philox(s[0], s[1], c);
  }
  out[1] = arranged(&l, a, c);
  if (!qn_graph_failed(r->g) && qn_dtype_size(a->dtype) < 4)
    out[1] = qn_convert(out[1], qn_dtype_size(a->dtype) == 1 ? QN_U8 : QN_U16);
  if (!qn_graph_failed(r->g) && !qn_dtype_is_unsigned(a->dtype))
    out[1] = qn_bitcast_convert(out[1], a->dtype);
  advance(s + 2, moving, qn_scalar(r->g, QN_U32, (double)l.blocks), s + 2);
  out[0] = state_of(s, count, kept);
  return true;
}

/* ---- vmap: one generator after the other ---- */
static void one_lane(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  const qn_attr_rng *a = user;
  qn_rng_bit_generator(in[0], a->algorithm, qn_type_make(a->dtype, a->shape.n, a->shape.d), &out[0], &out[1]);
}

static void rng_batch(qn_batch *b, qn_val *out) {
  qn_attr_rng a = *(const qn_attr_rng *)b->attr;
  qn_map_rows(b->g, b->in, 1, one_lane, &a, out, 2);
}

/* ---- reference ---- */
static void threefry_ref(const uint32_t key[2], uint64_t counter, uint32_t out[2]) {
  static const int turns[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ UINT32_C(0x1BD11BDA)};
  uint32_t x = (uint32_t)counter + keys[0], y = (uint32_t)(counter >> 32) + keys[1];
  for (uint32_t i = 0; i < 20; i++) {
    x += y;
    y = (y << turns[i % 8] | y >> (32 - turns[i % 8])) ^ x;
    if (i % 4 == 3) {
      x += keys[(i / 4 + 1) % 3];
      y += keys[(i / 4 + 2) % 3] + i / 4 + 1;
    }
  }
  out[0] = x;
  out[1] = y;
}

static void philox_ref(const uint32_t key[2], uint64_t low, uint64_t high, uint32_t out[4]) {
  uint32_t k0 = key[0], k1 = key[1];
  uint32_t c[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
  for (int i = 0; i < PHILOX_ROUNDS; i++) {
    uint64_t p = (uint64_t)c[0] * PHILOX_M0, q = (uint64_t)c[2] * PHILOX_M1;
    c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0;
    c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)q;
    c[3] = (uint32_t)p;
    k0 += PHILOX_W0;
    k1 += PHILOX_W1;
  }
  memcpy(out, c, sizeof c);
}

static void put(const qn_ref_call *c, int64_t i, uint64_t bits) {
  size_t size = qn_dtype_size(c->out_types[1]->dtype);
  const uint8_t b8 = (uint8_t)bits;
  const uint16_t b16 = (uint16_t)bits;
  const uint32_t b32 = (uint32_t)bits;
  const void *from = size == 1   ? (const void *)&b8
                     : size == 2 ? (const void *)&b16
                     : size == 4 ? (const void *)&b32
                                 : &bits;
  memcpy((char *)c->out[1] + (size_t)i * size, from, size);
}

/* Places of the words of block i: element (.., 2 j, ..) and the next along the axis, where there is one. */
static void deal_ref(const qn_ref_call *c, const layout *l, int64_t i, const uint32_t words[2]) {
  const qn_type *t = c->out_types[1];
  int64_t inner = 1, half = 1, full = 1;
  for (int d = l->split + 1; d < t->rank; d++)
    inner *= t->dims[d];
  if (l->split >= 0) {
    half = l->halves.dims[l->split];
    full = t->dims[l->split];
  }
  int64_t rest = i % inner, at = i / inner % half * 2, outer = i / inner / half;
  for (int k = 0; k < 2 && at + k < full; k++)
    put(c, (outer * full + at + k) * inner + rest, words[k]);
}

static qn_status rng_eval(const qn_ref_call *c) {
  const qn_attr_rng *a = c->attr;
  layout l = layout_of(a);
  int64_t n = qn_type_elements(c->out_types[1]);
  uint64_t s[3] = {0};
  memcpy(s, c->in[0], (size_t)qn_type_bytes(c->in_types[0]));
  bool long_counter = qn_type_bytes(c->in_types[0]) == 24;
  const uint32_t key[2] = {(uint32_t)s[0], (uint32_t)(s[0] >> 32)};
  uint64_t low = s[1], high = long_counter ? s[2] : s[0];
  for (int64_t i = 0; i < l.blocks; i++) {
    uint32_t words[4];
    if (l.threefry)
      threefry_ref(key, low, words);
    else
      philox_ref(key, low, high, words);
    if (l.threefry && l.width == 32)
      deal_ref(c, &l, i, words);
    int each = l.width == 64 ? (l.threefry ? 1 : 2) : l.threefry ? 0 : 4;
    for (int k = 0; k < each && i * each + k < n; k++)
      put(c, i * each + k, l.width == 64 ? words[2 * k] | (uint64_t)words[2 * k + 1] << 32 : words[k]);
    high += ++low == 0;
  }
  s[1] = low;
  s[2] = high;
  memcpy(c->out[0], s, (size_t)qn_type_bytes(c->in_types[0]));
  return QN_OK;
}

const qn_op_def qn_op_rng_bit_generator = {
    .name = "rng_bit_generator",
    .doc = "The next state of a counter-based generator and random bits: THREE_FRY (threefry2x32), PHILOX and DEFAULT "
           "(Philox4x32, 10 rounds).",
    .arity = 1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_UNSIGNED,
    .attr_size = sizeof(qn_attr_rng),
    .infer = rng_infer,
    .no_grad = "results are random bits",
    .batch = rng_batch,
    .lower = rng_lower,
    .eval = rng_eval,
};

void qn_rng_bit_generator_at(qn_place at, qn_val state, qn_rng_algorithm algorithm, qn_type type, qn_val *new_state,
                             qn_val *bits) {
  *new_state = *bits = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("rng_bit_generator", &state, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_attr_rng a = {.algorithm = algorithm, .dtype = type.dtype, .shape = {.n = type.rank}};
  memcpy(a.shape.d, type.dims, sizeof a.shape.d);
  qn_val first = qn_graph_add(g, QN_OP_RNG_BIT_GENERATOR, &state, 1, &a, NULL, 0, at);
  if (!qn_val_ok(first))
    return;
  *new_state = qn_val_result(first, 0);
  *bits = qn_val_result(first, 1);
}
