/* Linear algebra: factorisations, and the functions of jax.numpy.linalg on top of them.
 *
 * The last two axes of a value are the rows and columns of a matrix, axes before them are a batch; floats only. Derivatives come from
 * the factorisations' own rules (docs/gradients.md). Builders fail as those of ops.h do. */
#ifndef QUERN_LINALG_H
#define QUERN_LINALG_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- factorisations: one operation each ---- */
/* Reads the named triangle only; the other is 0 in the result. A matrix that isn't positive definite gives NaN. Derivatives take the operand as
 * symmetric. */
qn_val qn_cholesky_at(qn_place at, qn_val a, bool lower);
#define qn_cholesky(a, lower) qn_cholesky_at(QN_HERE, a, lower)
/* op(a) x = b, or x op(a) = b: only the named triangle of a is read, and not its diagonal with unit_diagonal. */
qn_val qn_triangular_solve_at(qn_place at, qn_val a, qn_val b, const qn_attr_solve *attr);
#define qn_triangular_solve(a, b, attr) qn_triangular_solve_at(QN_HERE, a, b, attr)
typedef struct qn_lu {
  qn_val lu;          /* L below the diagonal (its own is 1), U on and above it */
  qn_val pivots;      /* i32 [..., min(rows, columns)]: row i was exchanged with row pivots[i] */
  qn_val permutation; /* i32 [..., rows]: row i of L U is row permutation[i] of the operand */
} qn_lu;
qn_lu qn_lu_at(qn_place at, qn_val a);
#define qn_lu_factor(a) qn_lu_at(QN_HERE, a)
qn_val qn_pivots_to_permutation_at(qn_place at, qn_val pivots, int64_t size); /* i32 [..., k] -> i32 [..., size] */
#define qn_pivots_to_permutation(pivots, size) qn_pivots_to_permutation_at(QN_HERE, pivots, size)
typedef struct qn_packed_qr {
  qn_val a;    /* R on and above the diagonal, below it the reflections */
  qn_val taus; /* their factors */
} qn_packed_qr;
/* Householder QR as LAPACK packs it. */
qn_packed_qr qn_geqrf_at(qn_place at, qn_val a);
#define qn_geqrf(a) qn_geqrf_at(QN_HERE, a)
qn_val qn_householder_product_at(qn_place at, qn_val a, qn_val taus);
#define qn_householder_product(a, taus) qn_householder_product_at(QN_HERE, a, taus)
typedef struct qn_qr {
  qn_val q, r; /* [..., rows, k] and [..., k, columns], k the smaller of rows and columns */
} qn_qr;
qn_qr qn_qr_at(qn_place at, qn_val a);
#define qn_qr(a) qn_qr_at(QN_HERE, a)
typedef struct qn_eigh {
  qn_val values, vectors; /* ascending; column i belongs to values[i], its entry of largest magnitude is positive */
} qn_eigh;
/* Of the lower triangle; derivatives take the operand as symmetric. */
qn_eigh qn_eigh_at(qn_place at, qn_val a);
#define qn_eigh(a) qn_eigh_at(QN_HERE, a)
typedef struct qn_svd {
  qn_val u, s, vt; /* [..., rows, k], [..., k] descending, [..., k, columns] */
} qn_svd;
/* a = u diag(s) vt; columns of u (rows of vt where there are fewer rows than columns) that belong to a singular value of 0 are 0. */
qn_svd qn_svd_at(qn_place at, qn_val a);
#define qn_svd(a) qn_svd_at(QN_HERE, a)

/* ---- jax.numpy.linalg ---- */
qn_val qn_linalg_cholesky_at(qn_place at, qn_val a); /* of (a + a') / 2 */
#define qn_linalg_cholesky(a) qn_linalg_cholesky_at(QN_HERE, a)
/* a x = b; b holds columns [..., n, k], or one vector [n] for one matrix. */
qn_val qn_linalg_solve_at(qn_place at, qn_val a, qn_val b);
#define qn_linalg_solve(a, b) qn_linalg_solve_at(QN_HERE, a, b)
/* Given a's Cholesky factor. */
qn_val qn_linalg_cho_solve_at(qn_place at, qn_val factor, qn_val b, bool lower);
#define qn_linalg_cho_solve(factor, b, lower) qn_linalg_cho_solve_at(QN_HERE, factor, b, lower)
qn_val qn_linalg_inv_at(qn_place at, qn_val a);
#define qn_linalg_inv(a) qn_linalg_inv_at(QN_HERE, a)
qn_val qn_linalg_det_at(qn_place at, qn_val a);
#define qn_linalg_det(a) qn_linalg_det_at(QN_HERE, a)
typedef struct qn_slogdet {
  qn_val sign, log; /* of |det| */
} qn_slogdet;
qn_slogdet qn_linalg_slogdet_at(qn_place at, qn_val a);
#define qn_linalg_slogdet(a) qn_linalg_slogdet_at(QN_HERE, a)
qn_eigh qn_linalg_eigh_at(qn_place at, qn_val a); /* of (a + a') / 2 */
#define qn_linalg_eigh(a) qn_linalg_eigh_at(QN_HERE, a)
qn_val qn_linalg_eigvalsh_at(qn_place at, qn_val a);
#define qn_linalg_eigvalsh(a) qn_linalg_eigvalsh_at(QN_HERE, a)
qn_val qn_linalg_svdvals_at(qn_place at, qn_val a);
#define qn_linalg_svdvals(a) qn_linalg_svdvals_at(QN_HERE, a)
/* The x of least norm among those that make |a x - b| least; singular values below eps * max(rows, columns) * the largest count as 0. */
qn_val qn_linalg_lstsq_at(qn_place at, qn_val a, qn_val b);
#define qn_linalg_lstsq(a, b) qn_linalg_lstsq_at(QN_HERE, a, b)
qn_val qn_linalg_expm_at(qn_place at, qn_val a);
#define qn_linalg_expm(a) qn_linalg_expm_at(QN_HERE, a)
qn_val qn_linalg_matrix_power_at(qn_place at, qn_val a, int64_t n); /* negative: of the inverse */
#define qn_linalg_matrix_power(a, n) qn_linalg_matrix_power_at(QN_HERE, a, n)
/* Frobenius norm of each matrix. */
qn_val qn_linalg_norm_at(qn_place at, qn_val a);
#define qn_linalg_norm(a) qn_linalg_norm_at(QN_HERE, a)

#ifdef __cplusplus
}
#endif
#endif
