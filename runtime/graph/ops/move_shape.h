/* Shapes, strides and index walks shared by the structural rows: moves, reductions, contractions, indexing. Private to the library. */
#ifndef QUERN_OPS_MOVE_SHAPE_H
#define QUERN_OPS_MOVE_SHAPE_H

#include "quern/op.h"
#include "quern/ops.h"

/* ---- dims ---- */
qn_dims qn_dims_of(int n, const int64_t *d);
qn_dims qn_dims_iota(int n); /* 0, 1, ... n-1 */
/* Every entry of `dims` behind a new leading axis: each moved up by one; `lead` puts 0 in front. */
qn_dims qn_dims_lifted(const qn_dims *dims, bool lead);
/* Axes below `rank` that are in none of the two lists, ascending; either list may be NULL. */
qn_dims qn_dims_rest(int rank, const qn_dims *a, const qn_dims *b);
/* The entries in front of `dims`: n of them, all equal to x. */
qn_dims qn_dims_prepend(const qn_dims *dims, int64_t x);

/* ---- checks of shape rules ---- */
/* Axes in range and none twice; with `sorted`, ascending. `what` names the attribute in the message. */
qn_status qn_check_axes(const qn_infer *c, const char *what, const qn_dims *axes, int rank, bool sorted);
qn_status qn_check_count(const qn_infer *c, int operands, int regions);
qn_status qn_check_length(const qn_infer *c, const char *what, const qn_dims *dims, int n);
qn_status qn_check_same_dtype(const qn_infer *c, int operand, int as_operand);
qn_status qn_check_scalar(const qn_infer *c, int operand, qn_dtype dtype); /* dtype NONE: any integer */
/* A region of scalar parameters and results; `pairs` operands' dtypes give (acc.., x..) and results. */
qn_status qn_check_combiner(const qn_infer *c, int region, int pairs, const qn_type *element, int captures_at);

/* ---- walks over bytes ---- */
void qn_strides_of(const qn_type *t, int64_t *out_strides); /* row-major, in bytes */
bool qn_index_step(int rank, const int64_t *dims,
                   int64_t *index); /* next index, last axis fastest; false behind the last */
/* Copies dims elements of `size` bytes between two strided views; strides may be negative or 0. */
void qn_copy_strided(int rank, const int64_t *dims, size_t size, char *dst, const int64_t *dst_strides, const char *src,
                     const int64_t *src_strides);
void qn_fill_elements(void *dst, const void *element, size_t size, int64_t count);
int64_t qn_load_index(const void *data, qn_dtype dtype, int64_t at); /* an integer element, cut to what int64 holds */

/* ---- rules ---- */
qn_type qn_type_lifted(const qn_type *t, int64_t lanes); /* a new leading axis */
/* Operand of a batching rule with its lanes: broadcast where it is not mapped. */
qn_val qn_batch_lanes(const qn_batch *b, int operand);
/* Type of a node's i-th result in the graph that is batched. */
qn_type qn_batch_type(const qn_batch *b, int result);
qn_val qn_zeros_of(qn_graph *g, qn_val like);
/* Given tangent of an operand, or zeros of its type. */
qn_val qn_given_or_zeros(const qn_rule *r, int operand);
/* transpose, left out when the permutation is the identity. */
qn_val qn_transposed(qn_val x, const int64_t *permutation);
/* Moves an axis to the front. */
qn_val qn_axis_to_front(qn_val x, int64_t axis);

/* ---- regions ---- */
/* The binary op that a combiner is: result `index` equals op(acc, x) of parameters `index` and n + index, in either order. NONE: another body;
 * ASSIGN-like bodies that return x give QN_OP_PARAMETER. */
qn_op qn_combiner_op(const qn_graph *body, int index);
/* The references of the seven that it knows; integers and bool as 64 bits, extended by their sign. */
double qn_fold_f(qn_op op, double a, double x);
/* A scalar that the operation leaves others alone with (reduce.c); 0 for a sum, whose sign it takes. */
qn_val qn_fold_identity(qn_graph *g, qn_op op, qn_dtype dtype);
uint64_t qn_fold_u(qn_op op, qn_dtype dtype, uint64_t a, uint64_t x);

#endif
