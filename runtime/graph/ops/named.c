/* Functions with names of their own, composed so that plain derivative rules give finite derivatives at their corners, in both modes
 * and of every order: branches are chosen by select, whose untaken side contributes nothing, and shifts are held constant. */
#include "quern/op.h"
#include "quern/ops.h"

#include <math.h>

/* Is x a float, with such an axis (NULL: none is asked for)? Else its graph fails under the function's own name. */
static bool fits(qn_place at, const char *name, qn_val x, const int64_t *axis) {
  qn_graph *g = qn_graph_common(name, &x, 1, at);
  if (g == NULL)
    return false;
  const qn_type *t = qn_val_type(x);
  if (!qn_dtype_is_float(t->dtype) && !qn_dtype_is_complex(t->dtype))
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: operand 0 is %s, expected a float", name, qn_type_str(t));
  else if (axis && (*axis < -t->rank || *axis >= t->rank))
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: axis %lld is out of range for %s", name, (long long)*axis,
                        qn_type_str(t));
  return !qn_graph_failed(g);
}

/* x with NaN kept; the derivative is 0 at 0, since select routes it by x <= 0. */
qn_val qn_relu_at(qn_place at, qn_val x) {
  qn_val zero = qn_like_at(at, x, 0);
  return qn_select_at(at, qn_compare_at(at, x, zero, QN_CMP_LE, QN_CMP_DEFAULT), zero, x);
}

/* log(1 + e^x) as max(x, 0) + log1p(e^-|x|), where both pieces are those of the same side of 0. */
qn_val qn_softplus_at(qn_place at, qn_val x) {
  if (!fits(at, "softplus", x, NULL))
    return QN_NULL_VAL;
  qn_val zero = qn_like_at(at, x, 0);
  qn_val positive = qn_compare_at(at, x, zero, QN_CMP_GT, QN_CMP_DEFAULT);
  qn_val linear = qn_select_at(at, positive, x, zero);
  qn_val falling = qn_select_at(at, positive, qn_negate_at(at, x), x);
  return qn_add_at(at, linear, qn_log_plus_one_at(at, qn_exponential_at(at, falling)));
}

qn_val qn_log_sigmoid_at(qn_place at, qn_val x) {
  if (!fits(at, "log_sigmoid", x, NULL))
    return QN_NULL_VAL;
  return qn_negate_at(at, qn_softplus_at(at, qn_negate_at(at, x)));
}

/* Where x is 0 the logarithm is that of 1, so that neither value nor derivative is NaN; a NaN of y stays. */
qn_val qn_xlogy_at(qn_place at, qn_val x, qn_val y) {
  if (!fits(at, "xlogy", x, NULL) || !fits(at, "xlogy", y, NULL))
    return QN_NULL_VAL;
  qn_val nothing = qn_compare_at(at, x, qn_like_at(at, x, 0), QN_CMP_EQ, QN_CMP_DEFAULT);
  qn_val number = qn_compare_at(at, y, y, QN_CMP_EQ, QN_CMP_DEFAULT);
  qn_val safe = qn_select_at(at, qn_and_at(at, nothing, number), qn_like_at(at, y, 1), y);
  return qn_multiply_at(at, x, qn_log_at(at, safe));
}

/* Near 0 the Taylor series in t^2, whose derivatives of every order are those of sinc; elsewhere the quotient. */
qn_val qn_sinc_at(qn_place at, qn_val x) {
  if (!fits(at, "sinc", x, NULL))
    return QN_NULL_VAL;
  enum { TERMS = 9 };
  qn_val t = qn_multiply_at(at, x, qn_like_at(at, x, 3.14159265358979323846)), zero = qn_like_at(at, x, 0);
  qn_val near = qn_compare_at(at, qn_abs_at(at, t), qn_like_at(at, x, 0.5), QN_CMP_LT, QN_CMP_DEFAULT);
  qn_val small = qn_select_at(at, near, t, zero), s = qn_square_at(at, small), series = qn_like_at(at, x, 1);
  for (int k = TERMS; k >= 1; k--) /* 1 - s/(2 3) (1 - s/(4 5) (1 - ..)) */
    series = qn_subtract_at(
        at, qn_like_at(at, x, 1),
        qn_multiply_at(at, qn_multiply_at(at, s, qn_like_at(at, x, 1.0 / (2 * k * (2 * k + 1)))), series));
  qn_val large = qn_select_at(at, near, qn_like_at(at, x, 1), t);
  return qn_select_at(at, near, series, qn_divide_at(at, qn_sine_at(at, large), large));
}

/* The maximum along axes, kept, as a constant of every derivative. */
static qn_val shift_of(qn_place at, qn_val x, int axes_count, const int64_t *axes) {
  return qn_stop_gradient_at(at, qn_reduce_op_at(at, x, QN_OP_MAXIMUM, axes_count, axes, true));
}

/* `kept` without the reduced axes, which have size 1. */
static qn_val drop_axes(qn_place at, qn_val kept, int axes_count, const int64_t *axes) {
  if (!qn_val_ok(kept))
    return kept;
  const qn_type *t = qn_val_type(kept);
  int64_t dims[QN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < t->rank; i++) {
    bool gone = axes == NULL;
    for (int k = 0; axes != NULL && k < axes_count; k++)
      gone = gone || axes[k] == i || axes[k] + t->rank == i;
    if (!gone)
      dims[n++] = t->dims[i];
  }
  return qn_reshape_at(at, kept, n, dims);
}

qn_val qn_logsumexp_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, bool keepdims) {
  if (!fits(at, "logsumexp", x, NULL))
    return QN_NULL_VAL;
  qn_val m = shift_of(at, x, axes_count, axes);
  m = qn_select_at(at, qn_is_finite_at(at, m), m, qn_like_at(at, m, 0));
  qn_val e = qn_exponential_at(at, qn_subtract_at(at, x, m));
  qn_val s = qn_reduce_op_at(at, e, QN_OP_ADD, axes_count, axes, true);
  /* Of nothing but -inf the sum is 0: the value is -inf, and no derivative passes through the logarithm. */
  qn_val empty = qn_compare_at(at, s, qn_like_at(at, s, 0), QN_CMP_EQ, QN_CMP_DEFAULT);
  qn_val log_s = qn_log_at(at, qn_select_at(at, empty, qn_like_at(at, s, 1), s));
  qn_val y = qn_add_at(at, qn_select_at(at, empty, qn_like_at(at, s, -INFINITY), log_s), m);
  return keepdims ? y : drop_axes(at, y, axes_count, axes);
}

qn_val qn_log_softmax_at(qn_place at, qn_val x, int64_t axis) {
  if (!fits(at, "log_softmax", x, &axis))
    return QN_NULL_VAL;
  qn_val shifted = qn_subtract_at(at, x, shift_of(at, x, 1, &axis));
  qn_val s = qn_reduce_op_at(at, qn_exponential_at(at, shifted), QN_OP_ADD, 1, &axis, true);
  return qn_subtract_at(at, shifted, qn_log_at(at, s));
}

qn_val qn_softmax_at(qn_place at, qn_val x, int64_t axis) {
  if (!fits(at, "softmax", x, &axis))
    return QN_NULL_VAL;
  qn_val e = qn_exponential_at(at, qn_subtract_at(at, x, shift_of(at, x, 1, &axis)));
  return qn_divide_at(at, e, qn_reduce_op_at(at, e, QN_OP_ADD, 1, &axis, true));
}

/* ---- statistics: narrow floats are computed in f32, integers and bools become f32 ---- */
static qn_val widened(qn_place at, qn_val x) {
  if (!qn_val_ok(x))
    return x;
  qn_dtype t = qn_val_type(x)->dtype;
  return t == QN_F64 || qn_dtype_is_complex(t) ? x : qn_convert_at(at, x, QN_F32);
}

static qn_val narrowed(qn_place at, qn_val y, qn_val x) {
  if (!qn_val_ok(y))
    return y;
  qn_dtype t = qn_val_type(x)->dtype;
  return qn_dtype_is_float(t) ? qn_convert_at(at, y, t) : y;
}

/* How many elements go into one of `sum`. */
static double elements_per_result(qn_val x, qn_val sum) {
  int64_t many = 1;
  const qn_type *a = qn_val_type(x), *b = qn_val_type(sum); /* same rank: axes are kept */
  for (int i = 0; i < a->rank; i++)
    many *= b->dims[i] == 1 ? a->dims[i] : 1;
  return (double)many;
}

static qn_val mean_kept(qn_place at, qn_val x, int axes_count, const int64_t *axes) {
  qn_val sum = qn_reduce_op_at(at, x, QN_OP_ADD, axes_count, axes, true);
  if (!qn_val_ok(sum))
    return sum;
  return qn_divide_at(at, sum, qn_like_at(at, sum, elements_per_result(x, sum)));
}

qn_val qn_mean_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, bool keepdims) {
  qn_val y = narrowed(at, mean_kept(at, widened(at, x), axes_count, axes), x);
  return keepdims ? y : drop_axes(at, y, axes_count, axes);
}

qn_val qn_var_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, int ddof, bool keepdims) {
  qn_val wide = widened(at, x);
  qn_val centred = qn_subtract_at(at, wide, mean_kept(at, wide, axes_count, axes));
  qn_val sum = qn_reduce_op_at(at, qn_square_at(at, centred), QN_OP_ADD, axes_count, axes, true);
  if (!qn_val_ok(sum))
    return sum;
  double divisor = elements_per_result(wide, sum) - ddof;
  qn_val y = narrowed(at, qn_divide_at(at, sum, qn_like_at(at, sum, divisor > 0 ? divisor : 0)), x);
  return keepdims ? y : drop_axes(at, y, axes_count, axes);
}

/* The square root of a sum of squares: at 0 its derivative is 0, where the quotient rule has 0 times infinity. */
static qn_val root(qn_place at, qn_val x) {
  qn_val zero = qn_like_at(at, x, 0), empty = qn_compare_at(at, x, zero, QN_CMP_EQ, QN_CMP_DEFAULT);
  return qn_select_at(at, empty, zero, qn_sqrt_at(at, qn_select_at(at, empty, qn_like_at(at, x, 1), x)));
}

qn_val qn_std_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, int ddof, bool keepdims) {
  return narrowed(at, root(at, qn_var_at(at, widened(at, x), axes_count, axes, ddof, keepdims)), x);
}

qn_val qn_norm_at(qn_place at, qn_val x, int axes_count, const int64_t *axes, bool keepdims) {
  qn_val squares = qn_square_at(at, widened(at, x));
  return narrowed(at, root(at, qn_reduce_op_at(at, squares, QN_OP_ADD, axes_count, axes, keepdims)), x);
}

/* ---- argmax, argmin, one_hot ---- */
/* (value, index) pairs: the better value wins, any NaN before all else, the lower index among equals. */
static qn_status arg_body(qn_dtype t, bool largest, qn_graph **out_body) {
  QN_TRY(qn_graph_create("arg", out_body));
  qn_graph *g = *out_body;
  qn_val a = qn_graph_param(g, qn_type_scalar(t), NULL), ai = qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
  qn_val b = qn_graph_param(g, qn_type_scalar(t), NULL), bi = qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
  qn_val better = largest ? qn_gt(a, b) : qn_lt(a, b), same = qn_eq(a, b);
  if (qn_dtype_is_float(t)) {
    qn_val a_nan = qn_ne(a, a), b_nan = qn_ne(b, b);
    better = qn_or(better, qn_and(a_nan, qn_not(b_nan)));
    same = qn_or(same, qn_and(a_nan, b_nan));
  }
  qn_val first = qn_or(better, qn_and(same, qn_lt(ai, bi)));
  qn_val results[2] = {qn_select(first, a, b), qn_select(first, ai, bi)};
  qn_status st = qn_graph_seal(g, results, 2);
  if (st != QN_OK) {
    qn_graph_release(g);
    *out_body = NULL;
    QN_TRY(st);
  }
  return QN_OK;
}

/* The value that loses against every other. */
static qn_val worst(qn_place at, qn_graph *g, qn_dtype t, bool largest) {
  if (qn_dtype_is_float(t))
    return qn_full_at(at, g, qn_type_scalar(t), largest ? -INFINITY : INFINITY);
  int bits = t == QN_BOOL ? 1 : (int)(8 * qn_dtype_size(t));
  uint64_t all = UINT64_MAX >> (64 - bits);
  uint64_t least = qn_dtype_is_signed(t) ? (all >> 1) + 1 : 0, most = qn_dtype_is_signed(t) ? all >> 1 : all;
  uint64_t pick = largest ? least : most; /* the low bytes are the element, little-endian */
  return qn_constant_at(at, g, qn_type_scalar(t), &pick);
}

qn_val qn_arg_at(qn_place at, qn_val x, int64_t axis, bool largest) {
  const char *name = largest ? "argmax" : "argmin";
  qn_graph *g = qn_graph_common(name, &x, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  const qn_type *t = qn_val_type(x);
  if (axis < -t->rank || axis >= t->rank)
    return qn_graph_fail(g, at, QN_INVALID, "%s: axis %lld is out of range for %s", name, (long long)axis,
                         qn_type_str(t));
  axis += axis < 0 ? t->rank : 0;
  if (t->dims[axis] == 0 || qn_dtype_is_complex(t->dtype))
    return qn_graph_fail(g, at, QN_INVALID, "%s: operand is %s, expected ordered elements along axis %lld", name,
                         qn_type_str(t), (long long)axis);
  qn_graph *body;
  if (arg_body(t->dtype, largest, &body) != QN_OK)
    return qn_graph_fail(g, at, QN_INTERNAL, "%s: %s", name, qn_error_message());
  qn_type index_type = *t;
  index_type.dtype = QN_I32;
  qn_val values[2] = {qn_stop_gradient_at(at, x), qn_iota_at(at, g, index_type, axis)};
  qn_val init[2] = {worst(at, g, t->dtype, largest), qn_full_at(at, g, qn_type_scalar(QN_I32), 0)};
  qn_val out[2] = {QN_NULL_VAL, QN_NULL_VAL};
  qn_reduce_at(at, values, init, 2, 1, &axis, body, out);
  qn_graph_release(body);
  return out[1];
}

qn_val qn_one_hot_at(qn_place at, qn_val indices, int64_t classes, qn_dtype dtype) {
  qn_graph *g = qn_graph_common("one_hot", &indices, 1, at);
  if (g == NULL)
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(indices);
  if (!qn_dtype_is_int(t.dtype) || t.rank >= QN_MAX_RANK || classes < 0)
    return qn_graph_fail(g, at, QN_INVALID, "one_hot: indices are %s and classes %lld, expected integers and a count",
                         qn_type_str(&t), (long long)classes);
  if (qn_dtype_size(t.dtype) < 4) { /* so that every class number fits */
    indices = qn_convert_at(at, indices, QN_I32);
    t.dtype = QN_I32;
  }
  int64_t axes[QN_MAX_RANK];
  for (int i = 0; i < t.rank; i++)
    axes[i] = i;
  t.dims[t.rank++] = classes;
  qn_val wide = qn_broadcast_in_dim_at(at, indices, t.rank, t.dims, axes);
  qn_val hit = qn_compare_at(at, wide, qn_iota_at(at, g, t, t.rank - 1), QN_CMP_EQ, QN_CMP_DEFAULT);
  return qn_convert_at(at, hit, dtype);
}
