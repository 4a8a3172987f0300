/* References in double of eigenvalues and singular values, for the rows in linalg_spectral.c. */
#ifndef QUERN_OPS_LINALG_REFERENCE_H
#define QUERN_OPS_LINALG_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

/* a (n x n, its lower triangle) becomes eigenvectors as columns, w the eigenvalues in ascending order; `room` has n numbers. */
void qn_reference_eigh(double *a, double *w, double *room, int64_t n);
/* a (m x n) -> u (m x k), s (k), vt (k x n) with k the smaller size. false: no memory. */
bool qn_reference_svd(const double *a, double *u, double *s, double *vt, int64_t m, int64_t n);

#endif
