/* Random numbers by JAX's names, in both layouts of bits. */
#include <string.h>

#include "quern/random.h"
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

static void threefry(replay_build *b) { b->out[0] = qn_threefry_run(KEY, b->in[1]); }

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
  qn_val keys = old_layout(b) ? qn_key_split_unpartitioned(KEY, count) : qn_key_split(KEY, count);
  b->out[0] = qn_reshape(keys, num.n, num.d);
}

static void fold_in(replay_build *b) {
  b->out[0] = qn_key_fold_in(KEY, qn_scalar(b->g, QN_U32, qn_replay_number(b->attrs, "data", 0)));
}

static void bits(replay_build *b) {
  qn_type t = type_of(b);
  b->out[0] = old_layout(b) ? qn_random_bits_unpartitioned(KEY, t) : qn_random_bits(KEY, t);
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

static void exponential(replay_build *b) { b->out[0] = qn_random_exponential(KEY, type_of(b)); }
static void gumbel(replay_build *b) { b->out[0] = qn_random_gumbel(KEY, type_of(b)); }
static void laplace(replay_build *b) { b->out[0] = qn_random_laplace(KEY, type_of(b)); }
static void logistic(replay_build *b) { b->out[0] = qn_random_logistic(KEY, type_of(b)); }
static void cauchy(replay_build *b) { b->out[0] = qn_random_cauchy(KEY, type_of(b)); }
static void rademacher(replay_build *b) { b->out[0] = qn_random_rademacher(KEY, type_of(b)); }

static void dropout(replay_build *b) {
  b->out[0] = qn_random_dropout(KEY, b->in[1], qn_replay_number(b->attrs, "keep", 1));
}

static void truncated_normal(replay_build *b) {
  b->out[0] = qn_random_truncated_normal(KEY, type_of(b), qn_replay_number(b->attrs, "lower", -2),
                                         qn_replay_number(b->attrs, "upper", 2));
}

static void randint(replay_build *b) {
  b->out[0] = qn_random_randint(KEY, type_of(b), (int64_t)qn_replay_number(b->attrs, "minval", 0),
                                (int64_t)qn_replay_number(b->attrs, "maxval", 0));
}

static void permutation(replay_build *b) {
  b->out[0] = qn_random_permutation(KEY, b->in[1], (int64_t)qn_replay_number(b->attrs, "axis", 0),
                                    qn_replay_number(b->attrs, "independent", 0) > 0);
}

/* What the shape has more than logits without the axis are independent draws. */
static void categorical(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  int more = shape.n ? shape.n - (qn_val_type(b->in[1])->rank - 1) : 0;
  b->out[0] = qn_random_categorical(KEY, b->in[1], (int64_t)qn_replay_number(b->attrs, "axis", -1), more, shape.d);
}

static void choice(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  b->out[0] = qn_random_choice(KEY, b->in[1], (int64_t)qn_replay_number(b->attrs, "axis", 0), shape.n, shape.d,
                               qn_replay_number(b->attrs, "replace", 1) > 0, b->in_count > 2 ? b->in[2] : QN_NULL_VAL);
}

/* ---- parameters are attributes ---- */
static qn_val parameter(const replay_build *b, const char *name, qn_dtype t) {
  return qn_scalar(b->g, t, qn_replay_number(b->attrs, name, 1));
}

static void gamma_samples(replay_build *b) {
  qn_type t = type_of(b);
  b->out[0] = qn_random_gamma(KEY, parameter(b, "a", t.dtype), t.rank, t.dims, false);
}
static void beta_samples(replay_build *b) {
  qn_type t = type_of(b);
  b->out[0] = qn_random_beta(KEY, parameter(b, "a", t.dtype), parameter(b, "b", t.dtype), t.rank, t.dims);
}
static void poisson(replay_build *b) { b->out[0] = qn_random_poisson(KEY, parameter(b, "lam", QN_F32), *b->want[0]); }
static void dirichlet(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  b->out[0] = qn_random_dirichlet(KEY, b->in[1], shape.n, shape.d);
}
static void multivariate_normal(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "shape");
  b->out[0] = qn_random_multivariate_normal(KEY, b->in[1], b->in[2], shape.n, shape.d);
}
static void orthogonal(replay_build *b) { b->out[0] = qn_random_orthogonal(KEY, *b->want[0]); }

static void initializer(replay_build *b) {
  static const struct {
    const char *name;
    double scale; /* of the variance */
    qn_fan fan;
    qn_weights form;
  } kinds[] = {{"glorot_uniform", 1, QN_FAN_AVERAGE, QN_WEIGHTS_UNIFORM},
               {"glorot_normal", 1, QN_FAN_AVERAGE, QN_WEIGHTS_TRUNCATED_NORMAL},
               {"he_uniform", 2, QN_FAN_IN, QN_WEIGHTS_UNIFORM},
               {"he_normal", 2, QN_FAN_IN, QN_WEIGHTS_TRUNCATED_NORMAL},
               {"lecun_uniform", 1, QN_FAN_IN, QN_WEIGHTS_UNIFORM},
               {"lecun_normal", 1, QN_FAN_IN, QN_WEIGHTS_TRUNCATED_NORMAL}};
  const char *name = qn_replay_text(b->attrs, "initializer");
  qn_type t = type_of(b);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kinds[i].name, name) == 0) {
      b->out[0] = qn_init_variance_scaling(KEY, t, kinds[i].scale, kinds[i].fan, kinds[i].form);
      return;
    }
  if (strcmp(name, "orthogonal") == 0)
    b->out[0] = qn_init_orthogonal(KEY, t, 1);
  else if (strcmp(name, "delta_orthogonal") == 0)
    b->out[0] = qn_init_delta_orthogonal(KEY, t, 1);
  else if (strcmp(name, "uniform") == 0)
    b->out[0] = qn_mul(qn_random_uniform(KEY, t, 0, 1), qn_scalar(b->g, t.dtype, 1e-2));
  else if (strcmp(name, "normal") == 0)
    b->out[0] = qn_mul(qn_random_normal(KEY, t), qn_scalar(b->g, t.dtype, 1e-2));
  else
    (void)qn_replay_not_built(b, name);
}

const replay_op qn_replay_random[] = {
    {"threefry2x32", threefry},
    {"rng_bit_generator", rng_bit_generator},
    {"random.truncated_normal", truncated_normal},
    {"random.randint", randint},
    {"random.permutation", permutation},
    {"random.categorical", categorical},
    {"random.choice", choice},
    {"random.gamma", gamma_samples},
    {"random.beta", beta_samples},
    {"random.dirichlet", dirichlet},
    {"random.poisson", poisson},
    {"random.multivariate_normal", multivariate_normal},
    {"random.orthogonal", orthogonal},
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
