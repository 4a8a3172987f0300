/* Random numbers by JAX's names, in the partitionable layout of bits; the older one is composed for keys and bits. */
#include <math.h>
#include <string.h>

#include "quern/ops.h"
#include "replay.h"

#define KEY b->in[0]

static qn_type type_of(const replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  return qn_type_make(qn_dtype_parse(qn_replay_text(b->attrs, "dtype")), shape.n, shape.d);
}

/* The layout of bits before JAX's partitionable one: counter words are halves of a run of numbers. */
static bool old_layout(const replay_build *b) {
  return cJSON_IsFalse(qn_replay_get(b->attrs, "threefry_partitionable"));
}

static qn_val words_of(qn_val x, int64_t begin, int64_t end) { return qn_slice(x, &begin, &end, NULL); }

/* Threefry over u32[n]: first half and second half are the words of a block; an odd n is padded with a zero. */
static qn_val threefry_run(qn_val key, qn_val counters) {
  int64_t n = qn_val_type(counters)->dims[0], half = (n + 1) / 2, none = 0, odd = n % 2;
  qn_val padded = qn_pad(counters, qn_scalar(key.graph, QN_U32, 0), &none, &odd, NULL), out[2];
  qn_val k0 = qn_reshape(words_of(key, 0, 1), 0, NULL), k1 = qn_reshape(words_of(key, 1, 2), 0, NULL);
  qn_threefry2x32(k0, k1, words_of(padded, 0, half), words_of(padded, half, 2 * half), &out[0], &out[1]);
  return words_of(qn_concatenate(out, 2, 0), 0, n);
}

static qn_val count_up(qn_graph *g, int64_t n) { return qn_iota(g, qn_type_of(QN_U32, 1, n), 0); }

static void threefry(replay_build *b) { b->out[0] = threefry_run(KEY, b->in[1]); }

/* Elements are cut from the words as memory is read: low bits first; a u64 takes its halves from both halves of the run. */
static qn_val old_bits(qn_val key, const qn_type *t) {
  qn_graph *g = key.graph;
  int64_t size = qn_type_elements(t), bytes = (int64_t)qn_dtype_size(t->dtype), n = (bytes * size + 3) / 4,
          each = 4 / bytes;
  qn_val run = threefry_run(key, count_up(g, n));
  if (t->dtype == QN_U64) {
    qn_val high = qn_convert(words_of(run, 0, size), QN_U64), low = qn_convert(words_of(run, size, 2 * size), QN_U64);
    return qn_reshape(qn_or(qn_shift_left(high, qn_like(high, 32)), low), t->rank, t->dims);
  }
  if (each > 1) {
    const int64_t dims[2] = {n, each}, rows = 0, flat[1] = {n * each};
    qn_val shift = qn_mul(qn_iota(g, qn_type_make(QN_U32, 2, dims), 1), qn_scalar(g, QN_U32, 8 * (double)bytes));
    qn_val parts = qn_shift_right_logical(qn_broadcast_in_dim(run, 2, dims, &rows), shift);
    run = words_of(qn_reshape(qn_convert(parts, t->dtype), 1, flat), 0, size);
  }
  return qn_reshape(run, t->rank, t->dims);
}

static void rng_bit_generator(replay_build *b) {
  const char *name = qn_replay_text(b->attrs, "rng_algorithm");
  qn_rng_algorithm algorithm = strcmp(name, "THREE_FRY") == 0 ? QN_RNG_THREE_FRY
                               : strcmp(name, "PHILOX") == 0  ? QN_RNG_PHILOX
                                                              : QN_RNG_DEFAULT;
  qn_rng_bit_generator(b->in[0], algorithm, type_of(b), &b->out[0], &b->out[1]);
}

static void key(replay_build *b) {
  double seed = qn_replay_number(b->attrs, "seed", 0);
  /* Seeds are i64; the largest is no double. */
  uint64_t bits = seed >= 9223372036854775808.0 ? (uint64_t)INT64_MAX : (uint64_t)(int64_t)seed;
  if (!(qn_replay_number(b->attrs, "x64", 0) > 0))
    bits &= UINT32_MAX;
  b->out[0] = qn_key(b->g, bits);
}

static void split(replay_build *b) {
  qn_dims num = qn_replay_dims(b->attrs, "num");
  int64_t count = 1;
  for (int i = 0; i < num.n; i++)
    count *= num.d[i];
  num.d[num.n++] = 2;
  b->out[0] =
      qn_reshape(old_layout(b) ? threefry_run(KEY, count_up(b->g, 2 * count)) : qn_key_split(KEY, count), num.n, num.d);
}

static void fold_in(replay_build *b) {
  b->out[0] = qn_key_fold_in(KEY, qn_scalar(b->g, QN_U32, qn_replay_number(b->attrs, "data", 0)));
}

static void bits(replay_build *b) {
  qn_type t = type_of(b);
  b->out[0] = old_layout(b) ? old_bits(KEY, &t) : qn_random_bits(KEY, t);
}

static void uniform(replay_build *b) {
  b->out[0] = qn_random_uniform(KEY, type_of(b), qn_replay_number(b->attrs, "minval", 0),
                                qn_replay_number(b->attrs, "maxval", 1));
}

static void normal(replay_build *b) { b->out[0] = qn_random_normal(KEY, type_of(b)); }

/* p is a value here, so the comparison is spelt out: uniform(0, 1) < p. */
static void bernoulli(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  qn_type t = qn_type_make(QN_F32, shape.n, shape.d);
  b->out[0] = qn_lt(qn_random_uniform(KEY, t, 0, 1), b->in[1]);
}

/* A uniform number of the dtype that is never 0. */
static qn_val positive_uniform(replay_build *b) {
  qn_type t = type_of(b);
  return qn_random_uniform(KEY, t, t.dtype == QN_F64 ? 2.2250738585072014e-308 : (double)1.17549435e-38F, 1);
}

static void exponential(replay_build *b) {
  qn_val u = qn_random_uniform(KEY, type_of(b), 0, 1);
  b->out[0] = qn_neg(qn_log1p(qn_neg(u)));
}
static void gumbel(replay_build *b) { b->out[0] = qn_neg(qn_log(qn_neg(qn_log(positive_uniform(b))))); }
static void laplace(replay_build *b) {
  qn_type t = type_of(b);
  double epsilon = t.dtype == QN_F64 ? ldexp(1, -52) : ldexp(1, -23);
  qn_val u = qn_random_uniform(KEY, t, -1 + epsilon, 1);
  b->out[0] = qn_mul(qn_sign(u), qn_log1p(qn_neg(qn_abs(u))));
}
static void logistic(replay_build *b) {
  qn_type t = type_of(b);
  double epsilon = t.dtype == QN_F64 ? ldexp(1, -52) : ldexp(1, -23);
  qn_val u = qn_random_uniform(KEY, t, epsilon, 1);
  b->out[0] = qn_log(qn_div(u, qn_sub(qn_like(u, 1), u)));
}
static void cauchy(replay_build *b) {
  qn_type t = type_of(b);
  double epsilon = t.dtype == QN_F64 ? ldexp(1, -52) : ldexp(1, -23), pi = 3.14159265358979323846;
  qn_val u = qn_random_uniform(KEY, t, epsilon, 1);
  b->out[0] = qn_tan(qn_mul(qn_like(u, pi), qn_sub(u, qn_like(u, 0.5))));
}
static void rademacher(replay_build *b) {
  qn_type t = type_of(b);
  qn_val hit = qn_random_bernoulli(KEY, 0.5, t.rank, t.dims);
  b->out[0] = qn_convert(
      qn_sub(qn_mul(qn_convert(hit, QN_I32), qn_scalar(b->g, QN_I32, 2)), qn_scalar(b->g, QN_I32, 1)), t.dtype);
}

static void dropout(replay_build *b) {
  double keep = qn_replay_number(b->attrs, "keep", 1);
  const qn_type *t = qn_val_type(b->in[1]);
  qn_val mask = qn_random_bernoulli(KEY, keep, t->rank, t->dims);
  b->out[0] = qn_select(mask, qn_div(b->in[1], qn_like(b->in[1], keep)), qn_like(b->in[1], 0));
}

static qn_val truncated(qn_val key, qn_type t, double lower, double upper) {
  qn_val u = qn_random_uniform(key, t, erf(lower / sqrt(2)), erf(upper / sqrt(2)));
  qn_val y = qn_mul(qn_like(u, sqrt(2)), qn_erf_inv(u));
  return qn_clamp(qn_next_after(qn_like(u, lower), qn_like(u, INFINITY)), y,
                  qn_next_after(qn_like(u, upper), qn_like(u, -INFINITY)));
}
static void truncated_normal(replay_build *b) {
  b->out[0] =
      truncated(KEY, type_of(b), qn_replay_number(b->attrs, "lower", -2), qn_replay_number(b->attrs, "upper", 2));
}

/* x rem 0 is x, which makes a span of the whole dtype work out. */
static uint64_t rest(uint64_t x, uint64_t span) { return span ? x % span : x; }

static qn_val row_of(qn_val keys, int64_t i) {
  const int64_t start[2] = {i, 0}, limit[2] = {i + 1, 2}, dims[1] = {2};
  return qn_reshape(qn_slice(keys, start, limit, NULL), 1, dims);
}

/* Two draws make one of twice the width, reduced by the span. */
static void randint(replay_build *b) {
  qn_type t = type_of(b), u = t;
  bool wide = qn_dtype_size(t.dtype) == 8; /* narrow integers are drawn with 32 bits */
  u.dtype = wide ? QN_U64 : QN_U32;
  unsigned bits = wide ? 64 : 32;
  uint64_t all = UINT64_MAX >> (64 - bits);
  double least = qn_replay_number(b->attrs, "minval", 0);
  uint64_t span = (uint64_t)(qn_replay_number(b->attrs, "maxval", 0) - least) & all;
  uint64_t factor = rest(UINT64_C(1) << (bits / 2), span);
  factor = rest((factor * factor) & all, span);
  qn_val keys = qn_key_split(KEY, 2), high = qn_random_bits(row_of(keys, 0), u),
         low = qn_random_bits(row_of(keys, 1), u);
  qn_val s = qn_like(high, (double)span);
  qn_val offset = qn_rem(qn_add(qn_mul(qn_rem(high, s), qn_like(high, (double)factor)), qn_rem(low, s)), s);
  qn_val y = qn_convert(offset, t.dtype);
  b->out[0] = qn_add(y, qn_like(y, least));
}

/* Logits plus Gumbel noise; the largest wins. */
static void categorical(replay_build *b) {
  const qn_type *logits = qn_val_type(b->in[1]);
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  int axis = (int)qn_replay_number(b->attrs, "axis", -1), prefix = shape.n ? shape.n - (logits->rank - 1) : 0;
  qn_type t = *logits;
  axis -= axis >= 0 ? logits->rank : 0;
  for (int i = 0; i < prefix; i++)
    t.dims[i] = shape.d[i];
  for (int i = 0; i < logits->rank; i++)
    t.dims[prefix + i] = logits->dims[i];
  t.rank = prefix + logits->rank;
  qn_val u = qn_random_uniform(KEY, t, (double)1.17549435e-38F, 1);
  b->out[0] = qn_argmax(qn_add(qn_neg(qn_log(qn_neg(qn_log(u)))), b->in[1]), axis);
}

static void initializer(replay_build *b) {
  static const struct {
    const char *name;
    double scale; /* of the variance; 0: none */
    bool mean_fan, uniform;
  } kinds[] = {{"glorot_uniform", 1, true, true}, {"glorot_normal", 1, true, false}, {"he_uniform", 2, false, true},
               {"he_normal", 2, false, false},    {"lecun_uniform", 1, false, true}, {"lecun_normal", 1, false, false},
               {"uniform", 0, false, true},       {"normal", 0, false, false}};
  const char *name = qn_replay_text(b->attrs, "initializer");
  qn_type t = type_of(b);
  double field = 1;
  for (int i = 0; i + 2 < t.rank; i++)
    field *= (double)t.dims[i];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && t.rank >= 2; i++) {
    if (strcmp(kinds[i].name, name) != 0)
      continue;
    double in = field * (double)t.dims[t.rank - 2], out = field * (double)t.dims[t.rank - 1];
    double variance = kinds[i].scale / (kinds[i].mean_fan ? (in + out) / 2 : in), factor = 1e-2;
    qn_val y;
    if (!(kinds[i].scale > 0)) {
      y = kinds[i].uniform ? qn_random_uniform(KEY, t, 0, 1) : qn_random_normal(KEY, t);
    } else if (kinds[i].uniform) {
      y = qn_random_uniform(KEY, t, -1, 1);
      factor = sqrt(3 * variance);
    } else {
      y = truncated(KEY, t, -2, 2);
      factor = sqrt(variance) / 0.87962566103423978; /* the standard deviation of what is left */
    }
    b->out[0] = qn_mul(y, qn_like(y, factor));
    return;
  }
  (void)qn_replay_not_built(b, name);
}

const replay_op qn_replay_random[] = {
    {"threefry2x32", threefry},
    {"rng_bit_generator", rng_bit_generator},
    {"random.truncated_normal", truncated_normal},
    {"random.randint", randint},
    {"random.categorical", categorical},
    {"random.initializer", initializer},
    {"random.key", key},
    {"random.split", split},
    {"random.fold_in", fold_in},
    {"random.bits", bits},
    {"random.uniform", uniform},
    {"random.normal", normal},
    {"random.bernoulli", bernoulli},
    {"random.exponential", exponential},
    {"random.gumbel", gumbel},
    {"random.laplace", laplace},
    {"random.logistic", logistic},
    {"random.cauchy", cauchy},
    {"random.rademacher", rademacher},
    {"random.dropout", dropout},
    {NULL, NULL},
};
