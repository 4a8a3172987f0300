/* Random numbers inside a trace: distributions, permutations, choices, initial values of weights. Keys, bits and uniform numbers are in ops.h.
 *
 * Everything is a function of its key, u32[2], and the draws are those of jax.random with its partitionable layout: integers, booleans,
 * permutations and choices bit by bit, floats up to the rounding of the functions on the way. Builders fail as those of ops.h do.
 * Samples that are found by rejection (gamma, beta, dirichlet, poisson) have no reverse derivative by their parameters, as their loops run as
 * long as they must; forward mode keeps the draws that were accepted and differentiates by way of them. */
#ifndef QUERN_RANDOM_H
#define QUERN_RANDOM_H

#include "quern/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the layout of bits before JAX's partitionable one (threefry_partitionable = false): elements depend on how many there are ---- */
qn_val qn_key_split_unpartitioned_at(qn_place at, qn_val key, int64_t count);
#define qn_key_split_unpartitioned(key, count) qn_key_split_unpartitioned_at(QN_HERE, key, count)
qn_val qn_random_bits_unpartitioned_at(qn_place at, qn_val key, qn_type type); /* u8..u64 */
#define qn_random_bits_unpartitioned(key, type) qn_random_bits_unpartitioned_at(QN_HERE, key, type)
/* The hash over counters u32[n]: words of a block are one in the first and one in the second half. */
qn_val qn_threefry_run_at(qn_place at, qn_val key, qn_val counters);
#define qn_threefry_run(key, counters) qn_threefry_run_at(QN_HERE, key, counters)

/* ---- distributions; `type` is that of the result, floats ---- */
qn_val qn_random_truncated_normal_at(qn_place at, qn_val key, qn_type type, double lower, double upper);
#define qn_random_truncated_normal(key, type, lower, upper)                                                            \
  qn_random_truncated_normal_at(QN_HERE, key, type, lower, upper)
qn_val qn_random_exponential_at(qn_place at, qn_val key, qn_type type);
#define qn_random_exponential(key, type) qn_random_exponential_at(QN_HERE, key, type)
qn_val qn_random_gumbel_at(qn_place at, qn_val key, qn_type type);
#define qn_random_gumbel(key, type) qn_random_gumbel_at(QN_HERE, key, type)
qn_val qn_random_laplace_at(qn_place at, qn_val key, qn_type type);
#define qn_random_laplace(key, type) qn_random_laplace_at(QN_HERE, key, type)
qn_val qn_random_logistic_at(qn_place at, qn_val key, qn_type type);
#define qn_random_logistic(key, type) qn_random_logistic_at(QN_HERE, key, type)
qn_val qn_random_cauchy_at(qn_place at, qn_val key, qn_type type);
#define qn_random_cauchy(key, type) qn_random_cauchy_at(QN_HERE, key, type)
qn_val qn_random_rademacher_at(qn_place at, qn_val key, qn_type type); /* -1 or 1; integers too */
#define qn_random_rademacher(key, type) qn_random_rademacher_at(QN_HERE, key, type)
/* x / keep where it is kept, with probability `keep`, and 0 elsewhere. */
qn_val qn_random_dropout_at(qn_place at, qn_val key, qn_val x, double keep);
#define qn_random_dropout(key, x, keep) qn_random_dropout_at(QN_HERE, key, x, keep)

/* Parameters are values, broadcast to the shape; the result has their dtype. log_space: its logarithm, for shapes near 0. */
qn_val qn_random_gamma_at(qn_place at, qn_val key, qn_val a, int rank, const int64_t *dims, bool log_space);
#define qn_random_gamma(key, a, rank, dims, log_space) qn_random_gamma_at(QN_HERE, key, a, rank, dims, log_space)
qn_val qn_random_beta_at(qn_place at, qn_val key, qn_val a, qn_val b, int rank, const int64_t *dims);
#define qn_random_beta(key, a, b, rank, dims) qn_random_beta_at(QN_HERE, key, a, b, rank, dims)
/* alpha [.., n]; `dims` come in front of n. */
qn_val qn_random_dirichlet_at(qn_place at, qn_val key, qn_val alpha, int rank, const int64_t *dims);
#define qn_random_dirichlet(key, alpha, rank, dims) qn_random_dirichlet_at(QN_HERE, key, alpha, rank, dims)
/* The mean is used in f32; type: integers. */
qn_val qn_random_poisson_at(qn_place at, qn_val key, qn_val mean, qn_type type);
#define qn_random_poisson(key, mean, type) qn_random_poisson_at(QN_HERE, key, mean, type)
/* mean [.., n], covariance [.., n, n]; `dims` come in front of n. */
qn_val qn_random_multivariate_normal_at(qn_place at, qn_val key, qn_val mean, qn_val covariance, int rank,
                                        const int64_t *dims);
#define qn_random_multivariate_normal(key, mean, covariance, rank, dims)                                               \
  qn_random_multivariate_normal_at(QN_HERE, key, mean, covariance, rank, dims)
/* Orthogonal matrices, uniformly: `type` [.., rows, columns], the columns (or rows, whichever are fewer) are orthonormal. */
qn_val qn_random_orthogonal_at(qn_place at, qn_val key, qn_type type);
#define qn_random_orthogonal(key, type) qn_random_orthogonal_at(QN_HERE, key, type)

/* ---- integers ---- */
/* lo <= x < hi, in any integer dtype; hi <= lo gives lo. */
qn_val qn_random_randint_at(qn_place at, qn_val key, qn_type type, int64_t lo, int64_t hi);
#define qn_random_randint(key, type, lo, hi) qn_random_randint_at(QN_HERE, key, type, lo, hi)
/* The slices of x along an axis in random order; `independent`: every line along it in an order of its own. */
qn_val qn_random_permutation_at(qn_place at, qn_val key, qn_val x, int64_t axis, bool independent);
#define qn_random_permutation(key, x, axis, independent) qn_random_permutation_at(QN_HERE, key, x, axis, independent)
qn_val qn_random_permutation_of_at(qn_place at, qn_val key, int64_t n); /* 0 .. n-1, i32 */
#define qn_random_permutation_of(key, n) qn_random_permutation_of_at(QN_HERE, key, n)
/* Indices along the axis of logits, i32; `dims` independent draws come in front of the other axes. */
qn_val qn_random_categorical_at(qn_place at, qn_val key, qn_val logits, int64_t axis, int rank, const int64_t *dims);
#define qn_random_categorical(key, logits, axis, rank, dims)                                                           \
  qn_random_categorical_at(QN_HERE, key, logits, axis, rank, dims)
/* Slices of x along the axis, which `dims` replace. p: their probabilities [n]; the null value: all alike. */
qn_val qn_random_choice_at(qn_place at, qn_val key, qn_val x, int64_t axis, int rank, const int64_t *dims, bool replace,
                           qn_val p);
#define qn_random_choice(key, x, axis, rank, dims, replace, p)                                                         \
  qn_random_choice_at(QN_HERE, key, x, axis, rank, dims, replace, p)

/* ---- initial weights, as jax.nn.initializers: the last axis is the outputs, the one before it the inputs, those in front a window ---- */
typedef enum qn_fan { QN_FAN_IN, QN_FAN_OUT, QN_FAN_AVERAGE } qn_fan;
typedef enum qn_weights { QN_WEIGHTS_UNIFORM, QN_WEIGHTS_NORMAL, QN_WEIGHTS_TRUNCATED_NORMAL } qn_weights;
/* Variance `scale` / fan. */
qn_val qn_init_variance_scaling_at(qn_place at, qn_val key, qn_type type, double scale, qn_fan fan, qn_weights form);
#define qn_init_variance_scaling(key, type, scale, fan, form)                                                          \
  qn_init_variance_scaling_at(QN_HERE, key, type, scale, fan, form)
#define qn_init_glorot_uniform(key, type) qn_init_variance_scaling(key, type, 1, QN_FAN_AVERAGE, QN_WEIGHTS_UNIFORM)
#define qn_init_glorot_normal(key, type)                                                                               \
  qn_init_variance_scaling(key, type, 1, QN_FAN_AVERAGE, QN_WEIGHTS_TRUNCATED_NORMAL)
#define qn_init_he_uniform(key, type) qn_init_variance_scaling(key, type, 2, QN_FAN_IN, QN_WEIGHTS_UNIFORM)
#define qn_init_he_normal(key, type) qn_init_variance_scaling(key, type, 2, QN_FAN_IN, QN_WEIGHTS_TRUNCATED_NORMAL)
#define qn_init_lecun_uniform(key, type) qn_init_variance_scaling(key, type, 1, QN_FAN_IN, QN_WEIGHTS_UNIFORM)
#define qn_init_lecun_normal(key, type) qn_init_variance_scaling(key, type, 1, QN_FAN_IN, QN_WEIGHTS_TRUNCATED_NORMAL)
/* All axes but the last are rows of one orthogonal matrix. */
qn_val qn_init_orthogonal_at(qn_place at, qn_val key, qn_type type, double scale);
#define qn_init_orthogonal(key, type, scale) qn_init_orthogonal_at(QN_HERE, key, type, scale)
/* 0 but for the middle of the window, which is orthogonal; no more inputs than outputs. */
qn_val qn_init_delta_orthogonal_at(qn_place at, qn_val key, qn_type type, double scale);
#define qn_init_delta_orthogonal(key, type, scale) qn_init_delta_orthogonal_at(QN_HERE, key, type, scale)

#ifdef __cplusplus
}
#endif
#endif
