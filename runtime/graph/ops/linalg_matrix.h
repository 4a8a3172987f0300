/* Matrices over batch axes, for the rows of linear algebra and the library on top: the last two axes are rows and columns. */
#ifndef QUERN_OPS_LINALG_MATRIX_H
#define QUERN_OPS_LINALG_MATRIX_H

#include "quern/linalg.h"
#include "quern/op.h"
#include "quern/ops.h"

/* ---- shape rules ---- */
/* Operand i has at least two axes; with `square`, the last two are equal. */
qn_status qn_check_matrix(const qn_infer *c, int operand, bool square);
/* Operand i's leading axes are those of operand 0, `own` axes left aside at its end. */
qn_status qn_check_batch(const qn_infer *c, int operand, int own);
qn_type qn_matrix_type(const qn_type *like, int64_t rows, int64_t columns); /* with like's batch axes and dtype */
qn_type qn_vector_type(const qn_type *like, int64_t size, qn_dtype dtype);  /* the same with one axis behind them */
int64_t qn_matrix_rows(const qn_type *t);
int64_t qn_matrix_columns(const qn_type *t);
int64_t qn_matrix_count(const qn_type *t); /* how many there are in the batch */

/* ---- formulas: a null value among the operands gives the null value ---- */
qn_val qn_matrix_t(qn_val x);
qn_val qn_matrix_mul(qn_val a, qn_val b);
qn_val qn_matrix_tri(qn_val x, bool lower,
                     int strict); /* what is outside of the triangle becomes 0; strict 1: the diagonal too */
qn_val qn_matrix_eye(qn_graph *g, qn_type t);                       /* ones where row and column are equal */
qn_val qn_matrix_diagonal(qn_val x);                                /* of square ones: [..., n] */
qn_val qn_matrix_of_diagonal(qn_val d);                             /* [..., n] -> [..., n, n] */
qn_val qn_matrix_by_columns(qn_val x, qn_val d);                    /* x[i, j] * d[j] */
qn_val qn_matrix_by_rows(qn_val x, qn_val d);                       /* x[i, j] * d[i] */
qn_val qn_matrix_spread(qn_val d, int axis_from_end, int64_t size); /* [..., n] with a new axis of that size */
qn_val qn_matrix_part(qn_val x, int64_t row, int64_t rows, int64_t column, int64_t columns);
qn_val qn_matrix_stack(qn_val a, qn_val b, bool down); /* a above b, or a left of b */
qn_val qn_matrix_take_rows(qn_val x, qn_val order);    /* row order[i] of x at i; order i32 [..., m] */
qn_val qn_matrix_inverse_order(qn_val order);          /* of a permutation */
qn_val qn_matrix_solve(qn_val a, qn_val b, bool left, bool lower, bool transpose, bool unit);
qn_val qn_matrix_plus(qn_val a, qn_val b); /* a sum in which the null value is 0 */

/* ---- rows ---- */
/* All operands with their lanes, and the operation on them: batch axes are in front anyway. */
void qn_matrix_batch(qn_batch *b, qn_val *out);
/* Derivative of what is only a step of a factorisation: an error. */
void qn_matrix_refuse(qn_rule *r, qn_val *out);
/* f16 and bf16 are worked on in f32. True if that was done. */
bool qn_matrix_widen(qn_rule *r, qn_val *out);
/* References work on doubles: operand i, to be freed; NULL without memory. */
double *qn_matrix_load(const qn_ref_call *c, int operand);
double *qn_matrix_room(const qn_ref_call *c, int result);
/* Stores a result of floats, frees it; then rank-independent: all of it. */
void qn_matrix_store(const qn_ref_call *c, int result, double *data);

#endif
