/* Builders: one call adds one operation (or a small composition) to the graph of its operands and returns the result.
 *
 * qn_add(a, b) and its kin broadcast as NumPy does, by inserting broadcast_in_dim; dtypes must agree. Each call records its place in
 * the caller's source for messages. On a failure the null value comes back and qn_graph_seal tells why. */
#ifndef QUERN_OPS_H
#define QUERN_OPS_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Unary: qn_tanh(x). Binary: qn_add(a, b), NumPy broadcasting. The macros below add the place. */
#define QN_OP_UNARY(NAME, row) qn_val qn_##row##_at(qn_place at, qn_val x);
#define QN_OP_BINARY(NAME, row) qn_val qn_##row##_at(qn_place at, qn_val a, qn_val b);
#define QN_OP_OTHER(NAME, row)
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER

#define qn_abs(x) qn_abs_at(QN_HERE, x)
#define qn_cbrt(x) qn_cbrt_at(QN_HERE, x)
#define qn_ceil(x) qn_ceil_at(QN_HERE, x)
#define qn_count_leading_zeros(x) qn_count_leading_zeros_at(QN_HERE, x)
#define qn_cos(x) qn_cosine_at(QN_HERE, x)
#define qn_exp(x) qn_exponential_at(QN_HERE, x)
#define qn_expm1(x) qn_exponential_minus_one_at(QN_HERE, x)
#define qn_floor(x) qn_floor_at(QN_HERE, x)
#define qn_imag(x) qn_imag_at(QN_HERE, x)
#define qn_is_finite(x) qn_is_finite_at(QN_HERE, x)
#define qn_log(x) qn_log_at(QN_HERE, x)
#define qn_log1p(x) qn_log_plus_one_at(QN_HERE, x)
#define qn_logistic(x) qn_logistic_at(QN_HERE, x)
#define qn_neg(x) qn_negate_at(QN_HERE, x)
#define qn_not(x) qn_not_at(QN_HERE, x)
#define qn_popcnt(x) qn_popcnt_at(QN_HERE, x)
#define qn_real(x) qn_real_at(QN_HERE, x)
#define qn_round_afz(x) qn_round_nearest_afz_at(QN_HERE, x)
#define qn_round_even(x) qn_round_nearest_even_at(QN_HERE, x)
#define qn_rsqrt(x) qn_rsqrt_at(QN_HERE, x)
#define qn_sign(x) qn_sign_at(QN_HERE, x)
#define qn_sin(x) qn_sine_at(QN_HERE, x)
#define qn_sqrt(x) qn_sqrt_at(QN_HERE, x)
#define qn_tan(x) qn_tan_at(QN_HERE, x)
#define qn_tanh(x) qn_tanh_at(QN_HERE, x)
#define qn_acos(x) qn_acos_at(QN_HERE, x)
#define qn_acosh(x) qn_acosh_at(QN_HERE, x)
#define qn_asin(x) qn_asin_at(QN_HERE, x)
#define qn_asinh(x) qn_asinh_at(QN_HERE, x)
#define qn_atan(x) qn_atan_at(QN_HERE, x)
#define qn_atanh(x) qn_atanh_at(QN_HERE, x)
#define qn_bessel_i1e(x) qn_bessel_i1e_at(QN_HERE, x)
#define qn_cosh(x) qn_cosh_at(QN_HERE, x)
#define qn_digamma(x) qn_digamma_at(QN_HERE, x)
#define qn_erf(x) qn_erf_at(QN_HERE, x)
#define qn_erf_inv(x) qn_erf_inv_at(QN_HERE, x)
#define qn_erfc(x) qn_erfc_at(QN_HERE, x)
#define qn_lgamma(x) qn_lgamma_at(QN_HERE, x)
#define qn_sinh(x) qn_sinh_at(QN_HERE, x)
#define qn_square(x) qn_square_at(QN_HERE, x)
#define qn_stop_gradient(x) qn_stop_gradient_at(QN_HERE, x)

#define qn_add(a, b) qn_add_at(QN_HERE, a, b)
#define qn_and(a, b) qn_and_at(QN_HERE, a, b)
#define qn_atan2(a, b) qn_atan2_at(QN_HERE, a, b)
#define qn_complex_of(re, im) qn_complex_at(QN_HERE, re, im)
#define qn_div(a, b) qn_divide_at(QN_HERE, a, b)
#define qn_max(a, b) qn_maximum_at(QN_HERE, a, b)
#define qn_min(a, b) qn_minimum_at(QN_HERE, a, b)
#define qn_mul(a, b) qn_multiply_at(QN_HERE, a, b)
#define qn_next_after(a, b) qn_next_after_at(QN_HERE, a, b)
#define qn_or(a, b) qn_or_at(QN_HERE, a, b)
#define qn_polygamma(a, b) qn_polygamma_at(QN_HERE, a, b)
#define qn_pow(a, b) qn_power_at(QN_HERE, a, b)
#define qn_rem(a, b) qn_remainder_at(QN_HERE, a, b)
#define qn_shift_left(a, b) qn_shift_left_at(QN_HERE, a, b)
#define qn_shift_right_arithmetic(a, b) qn_shift_right_arithmetic_at(QN_HERE, a, b)
#define qn_shift_right_logical(a, b) qn_shift_right_logical_at(QN_HERE, a, b)
#define qn_sub(a, b) qn_subtract_at(QN_HERE, a, b)
#define qn_xor(a, b) qn_xor_at(QN_HERE, a, b)
#define qn_zeta(a, b) qn_zeta_at(QN_HERE, a, b)

/* ---- constants ---- */
/* `data` is row-major, copied. */
qn_val qn_constant_at(qn_place at, qn_graph *g, qn_type type, const void *data);
#define qn_constant(g, type, data) qn_constant_at(QN_HERE, g, type, data)
/* x rounded to the dtype, in every element. */
qn_val qn_full_at(qn_place at, qn_graph *g, qn_type type, double x);
#define qn_full(g, type, x) qn_full_at(QN_HERE, g, type, x)
#define qn_scalar(g, dtype, x) qn_full_at(QN_HERE, g, qn_type_scalar(dtype), x)
/* A scalar constant of v's graph and dtype, for formulas: qn_mul(x, qn_like(x, 0.5)). */
qn_val qn_like_at(qn_place at, qn_val v, double x);
#define qn_like(v, x) qn_like_at(QN_HERE, v, x)
#define qn_zeros_like(v) qn_full_at(QN_HERE, (v).graph, *qn_val_type(v), 0.0)
qn_val qn_iota_at(qn_place at, qn_graph *g, qn_type type, int64_t dimension);
#define qn_iota(g, type, dimension) qn_iota_at(QN_HERE, g, type, dimension)

/* ---- elementwise with attributes ---- */
qn_val qn_compare_at(qn_place at, qn_val a, qn_val b, qn_compare_direction direction,
                     qn_compare_type type); /* broadcasts; bool */
#define qn_compare(a, b, direction, type) qn_compare_at(QN_HERE, a, b, direction, type)
#define qn_eq(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_EQ, QN_CMP_DEFAULT)
#define qn_ne(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_NE, QN_CMP_DEFAULT)
#define qn_lt(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_LT, QN_CMP_DEFAULT)
#define qn_le(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_LE, QN_CMP_DEFAULT)
#define qn_gt(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_GT, QN_CMP_DEFAULT)
#define qn_ge(a, b) qn_compare_at(QN_HERE, a, b, QN_CMP_GE, QN_CMP_DEFAULT)
qn_val qn_select_at(qn_place at, qn_val pred, qn_val on_true, qn_val on_false); /* broadcasts all three */
#define qn_select(pred, on_true, on_false) qn_select_at(QN_HERE, pred, on_true, on_false)
qn_val qn_clamp_at(qn_place at, qn_val lo, qn_val x, qn_val hi); /* bounds are scalars or of x's shape */
#define qn_clamp(lo, x, hi) qn_clamp_at(QN_HERE, lo, x, hi)
qn_val qn_convert_at(qn_place at, qn_val x, qn_dtype to);
#define qn_convert(x, to) qn_convert_at(QN_HERE, x, to)
qn_val qn_bitcast_convert_at(qn_place at, qn_val x, qn_dtype to);
#define qn_bitcast_convert(x, to) qn_bitcast_convert_at(QN_HERE, x, to)
qn_val qn_conj_at(qn_place at, qn_val x); /* complex conjugate; real numbers stay as they are */
#define qn_conj(x) qn_conj_at(QN_HERE, x)
qn_val qn_reduce_precision_at(qn_place at, qn_val x, int exponent_bits, int mantissa_bits);
#define qn_reduce_precision(x, e, m) qn_reduce_precision_at(QN_HERE, x, e, m)

/* ---- shape movement; dims arguments are copied ---- */
qn_val qn_broadcast_in_dim_at(qn_place at, qn_val x, int rank, const int64_t *dims, const int64_t *broadcast_dims);
#define qn_broadcast_in_dim(x, rank, dims, broadcast_dims)                                                             \
  qn_broadcast_in_dim_at(QN_HERE, x, rank, dims, broadcast_dims)
qn_val qn_broadcast_to_at(qn_place at, qn_val x, int rank, const int64_t *dims); /* NumPy rule: trailing axes line up */
#define qn_broadcast_to(x, rank, dims) qn_broadcast_to_at(QN_HERE, x, rank, dims)
qn_val qn_reshape_at(qn_place at, qn_val x, int rank, const int64_t *dims); /* one entry may be -1 */
#define qn_reshape(x, rank, dims) qn_reshape_at(QN_HERE, x, rank, dims)
qn_val qn_transpose_at(qn_place at, qn_val x, const int64_t *permutation); /* NULL: reversed axes */
#define qn_transpose(x, permutation) qn_transpose_at(QN_HERE, x, permutation)
qn_val qn_reverse_at(qn_place at, qn_val x, int count, const int64_t *dimensions);
#define qn_reverse(x, count, dimensions) qn_reverse_at(QN_HERE, x, count, dimensions)
qn_val qn_slice_at(qn_place at, qn_val x, const int64_t *start, const int64_t *limit,
                   const int64_t *stride); /* stride NULL: ones */
#define qn_slice(x, start, limit, stride) qn_slice_at(QN_HERE, x, start, limit, stride)
qn_val qn_pad_at(qn_place at, qn_val x, qn_val value, const int64_t *low, const int64_t *high,
                 const int64_t *interior); /* interior NULL: 0 */
#define qn_pad(x, value, low, high, interior) qn_pad_at(QN_HERE, x, value, low, high, interior)
qn_val qn_concatenate_at(qn_place at, const qn_val *x, size_t count, int64_t dimension);
#define qn_concatenate(x, count, dimension) qn_concatenate_at(QN_HERE, x, count, dimension)
qn_val qn_dynamic_slice_at(qn_place at, qn_val x, const qn_val *starts,
                           const int64_t *sizes); /* one scalar start per axis; clamps */
#define qn_dynamic_slice(x, starts, sizes) qn_dynamic_slice_at(QN_HERE, x, starts, sizes)
qn_val qn_dynamic_update_slice_at(qn_place at, qn_val x, qn_val update, const qn_val *starts);
#define qn_dynamic_update_slice(x, update, starts) qn_dynamic_update_slice_at(QN_HERE, x, update, starts)

/* ---- reductions ---- */
/* Combiner region: parameters (acc_0.., x_0..) scalars, results acc. `out` gets `count` results. */
void qn_reduce_at(qn_place at, const qn_val *x, const qn_val *init, size_t count, int axes_count, const int64_t *axes,
                  qn_graph *body, qn_val *out);
#define qn_reduce(x, init, count, axes_count, axes, body, out)                                                         \
  qn_reduce_at(QN_HERE, x, init, count, axes_count, axes, body, out)
/* One operand by a named binary op (add, multiply, maximum, minimum, and, or, xor) from its identity. axes NULL: all. f16/bf16 sums are
 * accumulated in f32 by every device. Reduced axes vanish; keepdims keeps them with size 1. Negative axes count from the end. */
qn_val qn_reduce_op_at(qn_place at, qn_val x, qn_op op, int axes_count, const int64_t *axes, bool keepdims);
#define qn_sum(x, axes_count, axes, keepdims) qn_reduce_op_at(QN_HERE, x, QN_OP_ADD, axes_count, axes, keepdims)
#define qn_prod(x, axes_count, axes, keepdims) qn_reduce_op_at(QN_HERE, x, QN_OP_MULTIPLY, axes_count, axes, keepdims)
#define qn_reduce_max(x, axes_count, axes, keepdims)                                                                   \
  qn_reduce_op_at(QN_HERE, x, QN_OP_MAXIMUM, axes_count, axes, keepdims)
#define qn_reduce_min(x, axes_count, axes, keepdims)                                                                   \
  qn_reduce_op_at(QN_HERE, x, QN_OP_MINIMUM, axes_count, axes, keepdims)
#define qn_reduce_and(x, axes_count, axes, keepdims) qn_reduce_op_at(QN_HERE, x, QN_OP_AND, axes_count, axes, keepdims)
#define qn_reduce_or(x, axes_count, axes, keepdims) qn_reduce_op_at(QN_HERE, x, QN_OP_OR, axes_count, axes, keepdims)
#define qn_reduce_xor(x, axes_count, axes, keepdims) qn_reduce_op_at(QN_HERE, x, QN_OP_XOR, axes_count, axes, keepdims)
#define qn_sum_all(x) qn_reduce_op_at(QN_HERE, x, QN_OP_ADD, 0, NULL, false)
qn_val qn_mean_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, bool keepdims);
#define qn_mean(x, axes_count, axes, keepdims) qn_mean_at(QN_HERE, x, axes_count, axes, keepdims)
qn_val qn_var_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, int ddof, bool keepdims); /* two passes */
#define qn_var(x, axes_count, axes, ddof, keepdims) qn_var_at(QN_HERE, x, axes_count, axes, ddof, keepdims)
qn_val qn_std_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, int ddof,
                 bool keepdims); /* derivative 0 where all are equal */
#define qn_std(x, axes_count, axes, ddof, keepdims) qn_std_at(QN_HERE, x, axes_count, axes, ddof, keepdims)
qn_val qn_norm_at(qn_place at, qn_val x, int axes_count, const int64_t *axes,
                  bool keepdims); /* 2-norm; derivative 0 at 0 */
#define qn_norm(x, axes_count, axes, keepdims) qn_norm_at(QN_HERE, x, axes_count, axes, keepdims)
qn_val qn_arg_at(qn_place at, qn_val x, int64_t axis, bool largest); /* i32; first occurrence, first NaN wins */
#define qn_argmax(x, axis) qn_arg_at(QN_HERE, x, axis, true)
#define qn_argmin(x, axis) qn_arg_at(QN_HERE, x, axis, false)
/* A sealed region (acc, x) -> op(acc, x) for scalars of the dtype; release it after use. */
qn_status qn_region_binary(qn_op op, qn_dtype dtype, qn_graph **out_region);

/* ---- windows ---- */
/* As qn_reduce, over each window; padding takes no part. Every list of `window` has an entry per axis. */
void qn_reduce_window_at(qn_place at, const qn_val *x, const qn_val *init, size_t count, const qn_attr_window *window,
                         qn_graph *body, qn_val *out);
#define qn_reduce_window(x, init, count, window, body, out)                                                            \
  qn_reduce_window_at(QN_HERE, x, init, count, window, body, out)
/* One operand by a named binary op from its identity. */
qn_val qn_reduce_window_op_at(qn_place at, qn_val x, qn_op op, const qn_attr_window *window);
#define qn_reduce_window_op(x, op, window) qn_reduce_window_op_at(QN_HERE, x, op, window)
/* Each window chooses the element that `select` (earlier, later) -> bool keeps, and `scatter` combines the windows' sources there. Dilations of
 * `window` are not looked at. */
qn_val qn_select_and_scatter_at(qn_place at, qn_val x, qn_val source, qn_val init, const qn_attr_window *window,
                                qn_graph *select, qn_graph *scatter);
#define qn_select_and_scatter(x, source, init, window, select, scatter)                                                \
  qn_select_and_scatter_at(QN_HERE, x, source, init, window, select, scatter)
qn_val qn_max_pool_at(qn_place at, qn_val x, const qn_attr_window *window);
#define qn_max_pool(x, window) qn_max_pool_at(QN_HERE, x, window)
/* count_include_pad: divides by the window's size, else by how many of its elements are there. */
qn_val qn_avg_pool_at(qn_place at, qn_val x, const qn_attr_window *window, bool count_include_pad);
#define qn_avg_pool(x, window, count_include_pad) qn_avg_pool_at(QN_HERE, x, window, count_include_pad)
/* Running folds along an axis, from its end with `reverse`: one walk, whatever the length. Negative axes count from the end. */
qn_val qn_cumulative_op_at(qn_place at, qn_val x, qn_op op, int64_t axis, bool reverse);
#define qn_cumsum(x, axis, reverse) qn_cumulative_op_at(QN_HERE, x, QN_OP_ADD, axis, reverse)
#define qn_cumprod(x, axis, reverse) qn_cumulative_op_at(QN_HERE, x, QN_OP_MULTIPLY, axis, reverse)
#define qn_cummax(x, axis, reverse) qn_cumulative_op_at(QN_HERE, x, QN_OP_MAXIMUM, axis, reverse)
#define qn_cummin(x, axis, reverse) qn_cumulative_op_at(QN_HERE, x, QN_OP_MINIMUM, axis, reverse)
qn_val qn_cumlogsumexp_at(qn_place at, qn_val x, int64_t axis, bool reverse);
#define qn_cumlogsumexp(x, axis, reverse) qn_cumlogsumexp_at(QN_HERE, x, axis, reverse)

/* ---- contractions ---- */
/* preferred NONE: the operands' dtype. Result order: batch, lhs free, rhs free. */
qn_val qn_dot_general_at(qn_place at, qn_val lhs, qn_val rhs, const qn_attr_dot *dims, qn_dtype preferred);
#define qn_dot_general(lhs, rhs, dims, preferred) qn_dot_general_at(QN_HERE, lhs, rhs, dims, preferred)
qn_val qn_dot_at(qn_place at, qn_val lhs, qn_val rhs); /* last axis of lhs with first of rhs (matrices, vectors) */
#define qn_dot(lhs, rhs) qn_dot_at(QN_HERE, lhs, rhs)
/* StableHLO's convolution. In `dims`, lists that are empty and group counts that are 0 mean no stride, padding, dilation, reversal, groups. */
qn_val qn_convolution_at(qn_place at, qn_val lhs, qn_val rhs, const qn_attr_conv *dims);
#define qn_convolution(lhs, rhs, dims) qn_convolution_at(QN_HERE, lhs, rhs, dims)
/* For models: x [batch, spatial.., features], w [spatial.., features / groups, outputs]. A NULL description is all defaults. */
typedef enum qn_conv_padding { QN_CONV_VALID, QN_CONV_SAME } qn_conv_padding;
typedef struct qn_conv_desc {
  qn_conv_padding padding;
  const int64_t *stride, *dilation; /* one for each spatial axis; NULL: ones */
  int64_t groups;                   /* 0: 1 */
  bool transpose_kernel;            /* conv_transpose: w is that of the convolution whose gradient this is */
} qn_conv_desc;
qn_val qn_conv_at(qn_place at, qn_val x, qn_val w, const qn_conv_desc *desc);
#define qn_conv(x, w, ...) qn_conv_at(QN_HERE, x, w, __VA_ARGS__) /* `desc` may be a compound literal */
/* As jax.lax.conv_transpose: strides enlarge, SAME gives stride times the size. */
qn_val qn_conv_transpose_at(qn_place at, qn_val x, qn_val w, const qn_conv_desc *desc);
#define qn_conv_transpose(x, w, ...) qn_conv_transpose_at(QN_HERE, x, w, __VA_ARGS__)

/* ---- Fourier transforms over the last 1 to 3 axes; `lengths` are those of the real side ---- */
qn_val qn_fft_at(qn_place at, qn_val x, qn_fft_type type, int count, const int64_t *lengths);
#define qn_fft(x, count, lengths) qn_fft_at(QN_HERE, x, QN_FFT, count, lengths)
#define qn_ifft(x, count, lengths) qn_fft_at(QN_HERE, x, QN_IFFT, count, lengths)
#define qn_rfft(x, count, lengths) qn_fft_at(QN_HERE, x, QN_RFFT, count, lengths)
#define qn_irfft(x, count, lengths) qn_fft_at(QN_HERE, x, QN_IRFFT, count, lengths)

/* ---- indexing ---- */
qn_val qn_gather_at(qn_place at, qn_val x, qn_val starts, const qn_attr_gather *dims);
#define qn_gather(x, starts, dims) qn_gather_at(QN_HERE, x, starts, dims)
/* One operand; `body` combines (current, update). */
qn_val qn_scatter_at(qn_place at, qn_val x, qn_val indices, qn_val updates, const qn_attr_scatter *dims,
                     qn_graph *body);
#define qn_scatter(x, indices, updates, dims, body) qn_scatter_at(QN_HERE, x, indices, updates, dims, body)
qn_val qn_take_at(qn_place at, qn_val x, qn_val indices,
                  int64_t axis); /* rows along an axis (embedding); indices clamp */
#define qn_take(x, indices, axis) qn_take_at(QN_HERE, x, indices, axis)
/* One index per element: y[.., i, ..] = x[.., indices[.., i, ..], ..] along the axis; the other axes agree. Indices clamp. */
qn_val qn_take_along_at(qn_place at, qn_val x, qn_val indices, int64_t axis);
#define qn_take_along(x, indices, axis) qn_take_along_at(QN_HERE, x, indices, axis)
/* Reorders arrays of one shape along an axis. Comparator region: scalars (a0, b0, a1, b1, ..) -> does a come before b? Equal elements keep
 * their order. `out` gets `count` results. */
void qn_sort_at(qn_place at, const qn_val *x, size_t count, int64_t axis, qn_graph *comparator, qn_val *out);
#define qn_sort(x, count, axis, comparator, out) qn_sort_at(QN_HERE, x, count, axis, comparator, out)
/* The first `keys` arrays decide, one after another; -0 equals +0, NaN comes last (first when descending). */
void qn_sort_keys_at(qn_place at, const qn_val *x, size_t count, size_t keys, int64_t axis, bool descending,
                     qn_val *out);
#define qn_sort_keys(x, count, keys, axis, descending, out)                                                            \
  qn_sort_keys_at(QN_HERE, x, count, keys, axis, descending, out)
qn_val qn_argsort_at(qn_place at, qn_val x, int64_t axis, bool descending); /* i32 */
#define qn_argsort(x, axis, descending) qn_argsort_at(QN_HERE, x, axis, descending)
/* The k largest of every row, falling, and their places (i32); the lower place first among equals, NaN above all. */
void qn_top_k_at(qn_place at, qn_val x, int64_t k, qn_val *values, qn_val *places);
#define qn_top_k(x, k, values, places) qn_top_k_at(QN_HERE, x, k, values, places)
qn_val qn_one_hot_at(qn_place at, qn_val indices, int64_t classes, qn_dtype dtype); /* new last axis */
#define qn_one_hot(indices, classes, dtype) qn_one_hot_at(QN_HERE, indices, classes, dtype)

/* ---- named functions: derivatives of their own (docs/gradients.md) ---- */
qn_val qn_relu_at(qn_place at, qn_val x);
#define qn_relu(x) qn_relu_at(QN_HERE, x)
qn_val qn_softplus_at(qn_place at, qn_val x);
#define qn_softplus(x) qn_softplus_at(QN_HERE, x)
qn_val qn_log_sigmoid_at(qn_place at, qn_val x);
#define qn_log_sigmoid(x) qn_log_sigmoid_at(QN_HERE, x)
qn_val qn_xlogy_at(qn_place at, qn_val x, qn_val y); /* x log y, 0 where x is 0 */
#define qn_xlogy(x, y) qn_xlogy_at(QN_HERE, x, y)
qn_val qn_sinc_at(qn_place at, qn_val x); /* sin(pi x) / (pi x), all derivatives at 0 too */
#define qn_sinc(x) qn_sinc_at(QN_HERE, x)
qn_val qn_logsumexp_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, bool keepdims);
#define qn_logsumexp(x, axes_count, axes, keepdims) qn_logsumexp_at(QN_HERE, x, axes_count, axes, keepdims)
qn_val qn_log_softmax_at(qn_place at, qn_val x, int64_t axis);
#define qn_log_softmax(x, axis) qn_log_softmax_at(QN_HERE, x, axis)
qn_val qn_softmax_at(qn_place at, qn_val x, int64_t axis);
#define qn_softmax(x, axis) qn_softmax_at(QN_HERE, x, axis)

/* The same values, which the optimiser keeps apart from what they were computed from. `out` gets `count` results. */
void qn_optimization_barrier_at(qn_place at, const qn_val *x, size_t count, qn_val *out);
#define qn_optimization_barrier(x, count, out) qn_optimization_barrier_at(QN_HERE, x, count, out)

/* A function with a derivative of the user's own. All three are sealed and retained by the node. With operands a.., results y..:
 * primal (a..) -> y..;  forward (a..) -> y.., residuals..;  backward (residuals.., cotangents of y..) -> cotangents of a... */
void qn_custom_vjp_at(qn_place at, const qn_val *in, size_t count, qn_graph *primal, qn_graph *forward,
                      qn_graph *backward, qn_val *out);
#define qn_custom_vjp(in, count, primal, forward, backward, out)                                                       \
  qn_custom_vjp_at(QN_HERE, in, count, primal, forward, backward, out)

/* The same with a forward derivative: primal (a..) -> y..;  rule (a.., tangents of the float a..) -> y.., tangents of the float y... The rule is
 * linear in the tangents, and reverse mode transposes it. */
void qn_custom_jvp_at(qn_place at, const qn_val *in, size_t count, qn_graph *primal, qn_graph *rule, qn_val *out);
#define qn_custom_jvp(in, count, primal, rule, out) qn_custom_jvp_at(QN_HERE, in, count, primal, rule, out)
/* x, with a name by which the policy of a remat around it keeps it (control.h). */
qn_val qn_checkpoint_name_at(qn_place at, qn_val x, const char *name);
#define qn_checkpoint_name(x, name) qn_checkpoint_name_at(QN_HERE, x, name)

/* ---- random numbers: counter based, JAX's bits. A key is u32[2] ---- */
qn_val qn_key_at(qn_place at, qn_graph *g, uint64_t seed);
#define qn_key(g, seed) qn_key_at(QN_HERE, g, seed)
qn_val qn_key_split_at(qn_place at, qn_val key,
                       int64_t count); /* u32[count,2]; jax.random.split, partitionable layout */
#define qn_key_split(key, count) qn_key_split_at(QN_HERE, key, count)
qn_val qn_key_fold_in_at(qn_place at, qn_val key, qn_val data); /* data: u32 or i32 scalar */
#define qn_key_fold_in(key, data) qn_key_fold_in_at(QN_HERE, key, data)
qn_val qn_random_bits_at(qn_place at, qn_val key, qn_type type); /* u8..u64 */
#define qn_random_bits(key, type) qn_random_bits_at(QN_HERE, key, type)
qn_val qn_random_uniform_at(qn_place at, qn_val key, qn_type type, double lo, double hi);
#define qn_random_uniform(key, type, lo, hi) qn_random_uniform_at(QN_HERE, key, type, lo, hi)
qn_val qn_random_normal_at(qn_place at, qn_val key, qn_type type);
#define qn_random_normal(key, type) qn_random_normal_at(QN_HERE, key, type)
qn_val qn_random_bernoulli_at(qn_place at, qn_val key, double p, int rank, const int64_t *dims); /* bool */
#define qn_random_bernoulli(key, p, rank, dims) qn_random_bernoulli_at(QN_HERE, key, p, rank, dims)
/* StableHLO's generator. The state is a key and a counter, u64[2] or the same as u32[4], low words first; PHILOX also takes a counter of 128
 * bits, u64[3] or u32[6]. Any type of integers or floats: floats are bits as they come. */
void qn_rng_bit_generator_at(qn_place at, qn_val state, qn_rng_algorithm algorithm, qn_type type, qn_val *new_state,
                             qn_val *bits);
#define qn_rng_bit_generator(state, algorithm, type, new_state, bits)                                                  \
  qn_rng_bit_generator_at(QN_HERE, state, algorithm, type, new_state, bits)
/* threefry2x32 over pairs: x0, x1 u32 arrays of one shape; key words scalars. */
void qn_threefry2x32_at(qn_place at, qn_val k0, qn_val k1, qn_val x0, qn_val x1, qn_val *out0, qn_val *out1);
#define qn_threefry2x32(k0, k1, x0, x1, out0, out1) qn_threefry2x32_at(QN_HERE, k0, k1, x0, x1, out0, out1)

#ifdef __cplusplus
}
#endif
#endif
