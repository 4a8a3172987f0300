/* What windowed operations share: the geometry of windows, the move that lays windows out, folds over them and regions lifted to tensors. Private to
 * the library. */
#ifndef QUERN_OPS_WINDOW_H
#define QUERN_OPS_WINDOW_H

#include "move_shape.h"
#include "quern/op.h"
#include "quern/ops.h"

/* ---- geometry: element w of window o is the operand's at (o * stride + w * window_dilation - pad_low) / base_dilation ---- */
/* That position along one axis; -1 where it is between elements or outside. */
int64_t qn_window_source(const qn_attr_window *a, int axis, int64_t size, int64_t o, int64_t w);
/* Steps over o (result dimensions) and w (window sizes) give linear offsets: that of the operand's element, or -1 in the padding. */
int64_t qn_window_offset(const qn_attr_window *a, const qn_type *x, const int64_t *o, const int64_t *w);
/* Checks the lists and gives the result's dimensions. */
qn_status qn_window_check(const qn_infer *c, const qn_attr_window *a, const qn_type *x, int64_t *out_dims);
/* Does any window of the result reach into padding? */
bool qn_window_padded(const qn_attr_window *a, const qn_type *x, const qn_type *y);
/* How many elements a window has along an axis, and the axes where it has more than one. */
int64_t qn_window_count(const qn_attr_window *a, int axis);
qn_dims qn_window_axes(const qn_attr_window *a);
/* The axis along which it is a running fold: a window over the whole axis, padded on one side, and nothing else. -1: none. */
int qn_window_prefix_axis(const qn_attr_window *a, const qn_type *x, bool *out_reverse);
qn_attr_window qn_window_prefix(int rank, int axis, int64_t size, bool reverse);
/* One more axis in front that no window spans. */
qn_attr_window qn_window_lifted(const qn_attr_window *a);
/* Fills in what a record of select_and_scatter leaves out. */
qn_attr_window qn_window_plain(const qn_attr_window *a);

/* ---- quern.windows ---- */
/* All windows of x: [result.., window..], axes with windows of one element left out of the latter. */
qn_val qn_window_view(qn_val x, const qn_attr_window *a, qn_val padding);
/* The way back: values of windows' elements, spread or one per window, at the operand's elements: [x.., window..], 0 (or `padding`) where there is
 * no window. `y`: [result..]. `phased`: without those that fall between windows; has no derivative. */
qn_val qn_window_back(qn_val y, const qn_attr_window *a, const qn_type *x, qn_val padding, bool phased);
/* Its transpose: windows' elements at the operand's, 0 where there is no window. `v`: [result.., window..]. */
qn_val qn_window_undo(qn_val v, const qn_attr_window *a, const qn_type *x);
/* Sums over the window axes, which lie behind `rank` axes. */
qn_val qn_window_sum(qn_val v, int rank);
/* 0, 1, 2 ... of x's elements, i32 or i64. */
qn_val qn_window_numbers(qn_graph *g, const qn_type *x);
/* Scalar x with op(x, y) = y for all y, the sign of zero included. */
qn_val qn_window_identity(qn_graph *g, qn_op op, qn_dtype dtype);

/* ---- regions of scalars ---- */
/* The region on tensors of one shape; false (and the graph fails) where it holds more than elementwise operations. With tangents: of its parameters
 * and, filled in, of its results; the null value stands for zero. */
bool qn_region_lift(qn_graph *g, const qn_graph *region, const qn_val *args, const qn_val *tangents, qn_val *out,
                    qn_val *out_tangents);
/* (acc.., x..) -> body where both are there, else the one that is: operand 0 of each half says whether it is. */
qn_status qn_region_optional(const qn_graph *body, qn_graph **out_region);
/* (p, z), (a, v) -> (p a, a z + v), or with the second pair the earlier one. */
qn_status qn_region_affine(qn_dtype dtype, bool reverse, qn_graph **out_region);
bool qn_region_is_affine(const qn_graph *region, bool reverse);

/* ---- derivatives ---- */
void qn_reduce_window_vjp(qn_rule *r, qn_val *out);
void qn_reduce_window_jvp(qn_rule *r, qn_val *out);
/* y_k = a_k y_(k-1) + v_k along an axis, from nothing; from the end with `reverse`. Written as a reduce_window. */
qn_val qn_affine_scan(qn_val a, qn_val v, int axis, bool reverse);
/* The number of each window's chosen element of x, -1 where a window has none. `select` says of (earlier, later) whether the earlier stays. */
qn_val qn_window_winner(qn_val x, const qn_attr_window *a, const qn_graph *select);
/* Sums at x's elements what the windows that chose them have, and per window what its chosen element has: each other's transpose. */
qn_val qn_window_scatter(qn_val y, qn_val winner, const qn_attr_window *a, const qn_type *x);
qn_val qn_window_chosen(qn_val x, qn_val winner, const qn_attr_window *a);
/* A sealed region (a, b) -> compare(a, b); release it after use. */
qn_status qn_region_compare(qn_compare_direction direction, qn_dtype dtype, qn_graph **out_region);

#endif
