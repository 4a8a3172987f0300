/* Samples by rejection, draw for draw those of jax.random: gamma (Marsaglia and Tsang, "A simple method for generating gamma variables",
 * 2000), what follows from it, and Poisson (Knuth's products below a mean of 10, Hoermann's transformed rejection above). Every element of a
 * gamma sample has a key of its own; the loops run over all elements at once, and those that are done keep what they have. */
#include <string.h>

#include "quern/control.h"
#include "random_parts.h"

/* ---- one key for each element: two words, u32[n] ---- */
typedef struct lane_keys {
  qn_val w[2];
} lane_keys;

static lane_keys lane_key(lane_keys k, int i) {
  qn_val zero = qn_like(k.w[0], 0);
  lane_keys out;
  qn_threefry2x32(k.w[0], k.w[1], zero, qn_like(k.w[0], i), &out.w[0], &out.w[1]);
  return out;
}

static qn_val lane_unit(lane_keys k, qn_dtype t) {
  qn_val zero = qn_like(k.w[0], 0), a, b;
  qn_threefry2x32(k.w[0], k.w[1], zero, zero, &a, &b);
  return qn_random_unit_bits(QN_HERE, qn_random_word_bits(QN_HERE, a, b, qn_random_drawn(t)), t);
}

static qn_val any(qn_val x) { return qn_reduce_or(x, 0, NULL, false); }

/* ---- gamma ---- */
typedef struct gamma_loop {
  qn_val c, d;
  qn_val active; /* elements whose loop goes on */
} gamma_loop;

/* in: key words, x, v, of elements that look for a positive v */
static void v_is_not_positive(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  (void)user;
  out[0] = any(qn_le(in[3], qn_like(in[3], 0)));
}

static void next_v(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  const gamma_loop *l = user;
  lane_keys key = {{in[0], in[1]}}, next = lane_key(key, 0);
  qn_val active = qn_le(in[3], qn_like(in[3], 0));
  qn_val x = qn_random_normal_of(QN_HERE, lane_unit(lane_key(key, 1), qn_val_type(in[3])->dtype));
  qn_val v = qn_add(qn_like(in[3], 1), qn_mul(x, l->c));
  const qn_val fresh[4] = {next.w[0], next.w[1], x, v};
  for (int i = 0; i < 4; i++)
    out[i] = qn_select(active, fresh[i], in[i]);
}

/* in: key words, x squared, v cubed, u */
static qn_val rejected(const gamma_loop *l, const qn_val *in) {
  qn_val x = in[2], v = in[3], u = in[4], one = qn_like(x, 1);
  qn_val bound = qn_add(qn_mul(x, qn_like(x, 0.5)), qn_mul(l->d, qn_add(qn_sub(one, v), qn_log(v))));
  qn_val squeezed = qn_ge(u, qn_sub(one, qn_mul(qn_like(x, 0.0331), qn_mul(x, x))));
  return qn_and(squeezed, qn_ge(qn_log(u), bound));
}

static void some_rejected(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = any(rejected(user, in));
}

static void draw_again(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  gamma_loop l = *(const gamma_loop *)user;
  lane_keys key = {{in[0], in[1]}}, next = lane_key(key, 0), x_key = lane_key(key, 1);
  qn_dtype t = qn_val_type(in[2])->dtype;
  l.active = rejected(&l, in);
  qn_val start = qn_select(l.active, qn_like(in[2], -1), qn_like(in[2], 1)), found[4];
  const qn_val init[4] = {x_key.w[0], x_key.w[1], qn_zeros_like(in[2]), start};
  qn_while(g, init, 4, v_is_not_positive, next_v, &l, found);
  qn_val x = found[2], v = found[3];
  const qn_val fresh[5] = {next.w[0], next.w[1], qn_mul(x, x), qn_mul(qn_mul(v, v), v), lane_unit(lane_key(key, 2), t)};
  for (int i = 0; i < 5; i++)
    out[i] = qn_select(l.active, fresh[i], in[i]);
}

/* a: [n]. Below 1 a sample of a + 1 is taken, times u^(1/a). */
static qn_val gamma_of(qn_graph *g, lane_keys keys, qn_val a, bool log_space) {
  qn_dtype t = qn_val_type(a)->dtype;
  qn_val one = qn_like(a, 1), third = qn_like(a, 1.0 / 3), plain = qn_ge(a, one), out[5];
  gamma_loop l = {.d = qn_sub(qn_select(plain, a, qn_add(a, one)), third)};
  l.c = qn_div(third, qn_sqrt(l.d));
  lane_keys key = lane_key(keys, 0), boost_key = lane_key(keys, 1);
  const qn_type shape = *qn_val_type(a);
  const qn_val init[5] = {key.w[0], key.w[1], qn_zeros_like(a), qn_full(g, shape, 1), qn_full(g, shape, 2)};
  qn_while(g, init, 5, some_rejected, draw_again, &l, out);
  qn_val u = lane_unit(boost_key, t), inverse = qn_div(one, a);
  if (!log_space)
    return qn_mul(qn_mul(l.d, out[3]), qn_select(plain, one, qn_pow(qn_sub(one, u), inverse)));
  qn_val log_u = qn_log1p(qn_neg(u)), zero = qn_like(a, 0);
  qn_val boost = qn_select(qn_or(plain, qn_eq(log_u, zero)), zero, qn_mul(log_u, inverse));
  return qn_add(qn_add(qn_log(l.d), qn_log(out[3])), boost);
}

/* Is everything a value of one graph, the key a key, and the parameter one of floats that fits the shape? */
static qn_graph *check(const char *name, qn_place at, qn_val key, qn_val a, int rank) {
  const qn_val both[2] = {key, a};
  qn_val k[2];
  qn_graph *g = qn_graph_common(name, both, 2, at);
  if (g == NULL || !qn_random_key(name, at, key, k) || !qn_random_float(name, at, key, qn_val_type(a)) ||
      !qn_random_rank(name, g, at, rank))
    return NULL;
  return g;
}

qn_val qn_random_gamma_at(qn_place at, qn_val key, qn_val a, int rank, const int64_t *dims, bool log_space) {
  qn_graph *g = check("random_gamma", at, key, a, rank);
  a = g ? qn_broadcast_to_at(at, a, rank, dims) : QN_NULL_VAL;
  if (!qn_val_ok(a))
    return QN_NULL_VAL;
  const int64_t n = qn_type_elements(qn_val_type(a)), start[2] = {0, 0}, second[2] = {0, 1}, mid[2] = {n, 1},
                end[2] = {n, 2};
  qn_val keys = qn_key_split_at(at, key, n);
  lane_keys lanes = {{qn_reshape_at(at, qn_slice_at(at, keys, start, mid, NULL), 1, &n),
                      qn_reshape_at(at, qn_slice_at(at, keys, second, end, NULL), 1, &n)}};
  qn_val flat = qn_reshape_at(at, a, 1, &n);
  if (qn_graph_failed(g))
    return QN_NULL_VAL;
  return qn_reshape_at(at, gamma_of(g, lanes, flat, log_space), rank, dims);
}

/* a / (a + b) of two gamma samples, from their logarithms. */
qn_val qn_random_beta_at(qn_place at, qn_val key, qn_val a, qn_val b, int rank, const int64_t *dims) {
  const qn_val both[2] = {a, b};
  if (!check("random_beta", at, key, a, rank) || qn_graph_common("random_beta", both, 2, at) == NULL)
    return QN_NULL_VAL;
  qn_val keys = qn_key_split_at(at, key, 2);
  qn_val x = qn_random_gamma_at(at, qn_random_row(at, keys, 0), a, rank, dims, true);
  qn_val y = qn_random_gamma_at(at, qn_random_row(at, keys, 1), b, rank, dims, true);
  qn_val most = qn_maximum_at(at, x, y);
  x = qn_exponential_at(at, qn_subtract_at(at, x, most));
  y = qn_exponential_at(at, qn_subtract_at(at, y, most));
  return qn_divide_at(at, x, qn_add_at(at, x, y));
}

qn_val qn_random_dirichlet_at(qn_place at, qn_val key, qn_val alpha, int rank, const int64_t *dims) {
  qn_graph *g = check("random_dirichlet", at, key, alpha, rank + 1);
  if (g == NULL)
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(alpha);
  if (t->rank < 1 || rank < 0)
    return qn_graph_fail(g, at, QN_INVALID, "random_dirichlet: alpha is %s, expected at least one axis",
                         qn_type_str(t));
  int64_t all[QN_MAX_RANK];
  for (int i = 0; i < rank; i++)
    all[i] = dims[i];
  all[rank] = t->dims[t->rank - 1];
  return qn_softmax_at(at, qn_random_gamma_at(at, key, alpha, rank + 1, all, true), -1);
}

/* ---- Poisson: one key for each round ---- */
typedef struct poisson_loop {
  qn_val mean, log_mean, a, b, inverse_alpha, v_r;
} poisson_loop;

static qn_val not_over(qn_val i) { return qn_lt(i, qn_like(i, INT32_MAX)); }

/* in: round, count, key, logarithm of the product */
static void products_above(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  const poisson_loop *l = user;
  out[0] = qn_and(any(qn_gt(in[3], qn_neg(l->mean))), not_over(in[0]));
}

static void multiply_once(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  const poisson_loop *l = user;
  qn_val keys = qn_key_split(in[2], 2);
  qn_val u = qn_random_uniform(qn_random_row(QN_HERE, keys, 1), *qn_val_type(in[3]), 0, 1);
  qn_val going = qn_gt(in[3], qn_neg(l->mean));
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_select(going, qn_add(in[1], qn_like(in[1], 1)), in[1]);
  out[2] = qn_random_row(QN_HERE, keys, 0);
  out[3] = qn_add(in[3], qn_log(u));
}

/* in: round, sample, accepted, key */
static void not_all_accepted(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  (void)user;
  out[0] = qn_and(any(qn_not(in[2])), not_over(in[0]));
}

static void propose(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  const poisson_loop *l = user;
  const qn_type t = *qn_val_type(in[1]);
  qn_val keys = qn_key_split(in[3], 3), half = qn_like(in[1], 0.5), zero = qn_like(in[1], 0);
  qn_val u = qn_sub(qn_random_uniform(qn_random_row(QN_HERE, keys, 1), t, 0, 1), half);
  qn_val v = qn_random_uniform(qn_random_row(QN_HERE, keys, 2), t, 0, 1);
  qn_val us = qn_sub(half, qn_abs(u)), two = qn_like(u, 2);
  qn_val k = qn_mul(qn_add(qn_div(qn_mul(two, l->a), us), l->b), u);
  k = qn_floor(qn_add(qn_add(k, l->mean), qn_like(u, 0.43)));
  qn_val s = qn_log(qn_div(qn_mul(v, l->inverse_alpha), qn_add(qn_div(l->a, qn_mul(us, us)), l->b)));
  qn_val density = qn_sub(qn_add(qn_neg(l->mean), qn_mul(k, l->log_mean)), qn_lgamma(qn_add(k, qn_like(k, 1))));
  qn_val at_once = qn_and(qn_ge(us, qn_like(us, 0.07)), qn_le(v, l->v_r));
  qn_val never = qn_or(qn_lt(k, zero), qn_and(qn_lt(us, qn_like(us, 0.013)), qn_gt(v, us)));
  qn_val accept = qn_or(at_once, qn_and(qn_not(never), qn_le(s, density)));
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  out[1] = qn_select(accept, k, in[1]);
  out[2] = qn_or(in[2], accept);
  out[3] = qn_random_row(QN_HERE, keys, 0);
}

static qn_val poisson_small(qn_graph *g, qn_val key, qn_val mean) {
  poisson_loop l = {.mean = mean};
  qn_type count = *qn_val_type(mean);
  count.dtype = QN_I32;
  qn_val out[4];
  const qn_val init[4] = {qn_scalar(g, QN_I32, 0), qn_full(g, count, 0), key, qn_zeros_like(mean)};
  qn_while(g, init, 4, products_above, multiply_once, &l, out);
  return qn_convert(qn_sub(out[1], qn_like(out[1], 1)), QN_F32);
}

static qn_val poisson_large(qn_graph *g, qn_val key, qn_val mean) {
  poisson_loop l = {.mean = mean, .log_mean = qn_log(mean)};
  l.b = qn_add(qn_like(mean, 0.931), qn_mul(qn_like(mean, 2.53), qn_sqrt(mean)));
  l.a = qn_add(qn_like(mean, -0.059), qn_mul(qn_like(mean, 0.02483), l.b));
  l.inverse_alpha = qn_add(qn_like(mean, 1.1239), qn_div(qn_like(mean, 1.1328), qn_sub(l.b, qn_like(mean, 3.4))));
  l.v_r = qn_sub(qn_like(mean, 0.9277), qn_div(qn_like(mean, 3.6224), qn_sub(l.b, qn_like(mean, 2))));
  qn_type truth = *qn_val_type(mean);
  qn_val out[4];
  const qn_val none = qn_full(g, truth, -1);
  truth.dtype = QN_BOOL;
  const qn_val init[4] = {qn_scalar(g, QN_I32, 0), none, qn_full(g, truth, 0), key};
  qn_while(g, init, 4, not_all_accepted, propose, &l, out);
  return out[1];
}

qn_val qn_random_poisson_at(qn_place at, qn_val key, qn_val mean, qn_type type) {
  qn_graph *g = check("random_poisson", at, key, mean, type.rank);
  if (g == NULL)
    return QN_NULL_VAL;
  if (!qn_dtype_is_int(type.dtype))
    return qn_graph_fail(g, at, QN_INVALID, "random_poisson: asked for %s, expected integers", qn_type_str(&type));
  mean = qn_broadcast_to_at(at, qn_convert_at(at, mean, QN_F32), type.rank, type.dims);
  if (!qn_val_ok(mean))
    return mean;
  qn_val zero = qn_zeros_like(mean);
  qn_val small = qn_or(qn_ne(mean, mean), qn_lt(mean, qn_like(mean, 10)));
  qn_val few = poisson_small(g, key, qn_select(small, mean, zero));
  qn_val many = poisson_large(g, key, qn_select(small, qn_like(mean, 1e5), mean));
  qn_val y = qn_select(qn_eq(mean, zero), zero, qn_select(small, few, many));
  return qn_convert_at(at, y, type.dtype);
}
