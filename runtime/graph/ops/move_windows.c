/* quern.windows: lays windows out side by side, as an index map that costs no memory. The operand has the window axes already (a broadcast puts them
 * there), so that element (o, w) of the result is the operand's at (i(o), w); the inverse of such a map is another one, and so the operation is its
 * own transpose. Windowed reductions, their derivatives and select_and_scatter are made of it in front of scheduling. */
#include "../oracle.h"
#include "infer.h"
#include "window.h"

#include <string.h>

/* ---- geometry ---- */
static int64_t extent(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * (dilation < 0 ? -dilation : dilation) + 1;
}
static int64_t dilated(int64_t n, int64_t dilation) { return n == 0 ? 0 : (n - 1) * dilation + 1; }

int64_t qn_window_source(const qn_attr_window *a, int axis, int64_t size, int64_t o, int64_t w) {
  int64_t at = o * a->stride.d[axis] + w * a->window_dilation.d[axis] - a->pad_low.d[axis],
          step = a->base_dilation.d[axis];
  return at < 0 || at % step != 0 || at / step >= size ? -1 : at / step;
}

int64_t qn_window_offset(const qn_attr_window *a, const qn_type *x, const int64_t *o, const int64_t *w) {
  int64_t at = 0;
  for (int i = 0; i < a->size.n; ++i) {
    int64_t k = qn_window_source(a, i, x->dims[i], o[i], w[i]);
    if (k < 0)
      return -1;
    at = at * x->dims[i] + k;
  }
  return at;
}

static qn_status check_positive(const qn_infer *c, const char *what, const qn_dims *d, bool any_sign) {
  for (int i = 0; i < d->n; ++i)
    if (any_sign ? d->d[i] == 0 : d->d[i] < 1)
      return QN_ERR(QN_INVALID, "%s: %s of axis %d is %lld, expected %s", c->name, what, i, (long long)d->d[i],
                    any_sign ? "another number than 0" : "at least 1");
  return QN_OK;
}

qn_status qn_window_check(const qn_infer *c, const qn_attr_window *a, const qn_type *x, int64_t *out_dims) {
  int rank = a->size.n;
  QN_TRY(qn_check_length(c, "window_strides", &a->stride, rank));
  QN_TRY(qn_check_length(c, "base_dilations", &a->base_dilation, rank));
  QN_TRY(qn_check_length(c, "window_dilations", &a->window_dilation, rank));
  QN_TRY(qn_check_length(c, "padding (low)", &a->pad_low, rank));
  QN_TRY(qn_check_length(c, "padding (high)", &a->pad_high, rank));
  QN_TRY(check_positive(c, "window_dimensions", &a->size, false));
  QN_TRY(check_positive(c, "window_strides", &a->stride, false));
  QN_TRY(check_positive(c, "base_dilations", &a->base_dilation, false));
  QN_TRY(check_positive(c, "window_dilations", &a->window_dilation, c->op == QN_OP_WINDOWS));
  for (int i = 0; i < rank; ++i) {
    enum { MOST = 1 << 30 };
    const int64_t each[] = {a->size.d[i],    a->stride.d[i],  a->base_dilation.d[i], a->window_dilation.d[i],
                            a->pad_low.d[i], a->pad_high.d[i]};
    for (int k = 0; k < 6; ++k)
      if (each[k] > MOST || each[k] < -MOST)
        return QN_ERR(QN_INVALID, "%s: %lld along axis %d is too much for a window, expected at most %d", c->name,
                      (long long)each[k], i, (int)MOST);
    if (x->dims[i] > INT64_MAX / MOST / 2)
      return QN_ERR(QN_INVALID, "%s: operand 0 is %s, axis %d is too long for windows", c->name, qn_type_str(x), i);
    int64_t room = a->pad_low.d[i] + dilated(x->dims[i], a->base_dilation.d[i]) + a->pad_high.d[i],
            need = extent(a->size.d[i], a->window_dilation.d[i]);
    out_dims[i] = room < need || room <= 0 ? 0 : (room - need) / a->stride.d[i] + 1;
  }
  return QN_OK;
}

bool qn_window_padded(const qn_attr_window *a, const qn_type *x, const qn_type *y) {
  for (int i = 0; i < a->size.n; ++i) {
    int64_t last = (y->dims[i] - 1) * a->stride.d[i] + (a->size.d[i] - 1) * a->window_dilation.d[i] - a->pad_low.d[i];
    if (a->window_dilation.d[i] < 0 || a->pad_low.d[i] > 0 || last > x->dims[i] - 1 || a->base_dilation.d[i] != 1)
      return true;
  }
  return false;
}

static bool is_phased(const qn_attr_window *a, int axis) {
  int64_t step = a->window_dilation.d[axis];
  return a->phased && a->base_dilation.d[axis] > 1 && (step == 1 || step == -1);
}

int64_t qn_window_count(const qn_attr_window *a, int axis) {
  int64_t n = a->size.d[axis], step = is_phased(a, axis) ? a->base_dilation.d[axis] : 1;
  return (n + step - 1) / step;
}

qn_dims qn_window_axes(const qn_attr_window *a) {
  qn_dims axes = {0};
  for (int i = 0; i < a->size.n; ++i)
    if (qn_window_count(a, i) != 1)
      axes.d[axes.n++] = i;
  return axes;
}

/* Which of the window's elements is its k-th; beyond its size where it has fewer. */
static int64_t phased_element(const qn_attr_window *a, int axis, int64_t o, int64_t k) {
  int64_t step = a->base_dilation.d[axis];
  if (!is_phased(a, axis))
    return k;
  int64_t at = o * a->stride.d[axis] - a->pad_low.d[axis], toward = a->window_dilation.d[axis] < 0 ? at : -at;
  return (toward % step + step) % step + k * step;
}

int qn_window_prefix_axis(const qn_attr_window *a, const qn_type *x, bool *out_reverse) {
  int axis = -1;
  for (int i = 0; i < a->size.n; ++i) {
    bool idle = a->size.d[i] == 1 && a->pad_low.d[i] == 0 && a->pad_high.d[i] == 0;
    if (a->stride.d[i] != 1 || a->base_dilation.d[i] != 1 || (!idle && (axis >= 0 || a->window_dilation.d[i] != 1)))
      return -1;
    if (idle)
      continue;
    int64_t n = x->dims[i], low = a->pad_low.d[i], high = a->pad_high.d[i];
    if (a->size.d[i] != n || low + high != n - 1 || (low != 0 && high != 0))
      return -1;
    *out_reverse = low == 0;
    axis = i;
  }
  return axis;
}

static qn_dims repeated(int n, int64_t x) {
  qn_dims d = {.n = n};
  for (int i = 0; i < n; ++i)
    d.d[i] = x;
  return d;
}

qn_attr_window qn_window_prefix(int rank, int axis, int64_t size, bool reverse) {
  qn_dims ones = repeated(rank, 1), zeros = repeated(rank, 0);
  qn_attr_window a = {ones, ones, ones, ones, zeros, zeros, false};
  a.size.d[axis] = size;
  (reverse ? &a.pad_high : &a.pad_low)->d[axis] = size - 1;
  return a;
}

qn_attr_window qn_window_lifted(const qn_attr_window *a) {
  return (qn_attr_window){qn_dims_prepend(&a->size, 1),
                          qn_dims_prepend(&a->stride, 1),
                          qn_dims_prepend(&a->base_dilation, 1),
                          qn_dims_prepend(&a->window_dilation, 1),
                          qn_dims_prepend(&a->pad_low, 0),
                          qn_dims_prepend(&a->pad_high, 0),
                          a->phased};
}

qn_attr_window qn_window_plain(const qn_attr_window *a) {
  qn_attr_window full = *a;
  full.base_dilation = full.window_dilation = repeated(a->size.n, 1);
  return full;
}

/* ---- the row ---- */
static qn_status windows_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  const qn_attr_window *a = c->attr;
  qn_type x = c->operands[0];
  qn_dims axes = qn_window_axes(a);
  int n = a->size.n;
  if (x.rank != n + axes.n)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected %d axes and one for each of %d windows", c->name,
                  qn_type_str(&x), n, axes.n);
  int64_t dims[QN_MAX_RANK] = {0};
  QN_TRY(qn_window_check(c, a, &x, dims));
  for (int i = 0; i < axes.n; ++i) {
    dims[n + i] = qn_window_count(a, (int)axes.d[i]);
    if (x.dims[n + i] != dims[n + i])
      return QN_ERR(QN_INVALID, "%s: axis %d of operand 0, %s, has %lld elements, expected the window's %lld", c->name,
                    n + i, qn_type_str(&x), (long long)x.dims[n + i], (long long)dims[n + i]);
  }
  QN_TRY(qn_check_scalar(c, 1, x.dtype));
  c->out_types[0] = qn_type_make(x.dtype, x.rank, dims);
  return QN_OK;
}

/* The map from operand elements back to windows: o = (i * base_dilation - w * window_dilation + pad_low) / stride. */
static qn_attr_window inverse(const qn_attr_window *a, const int64_t *from, const int64_t *to) {
  qn_attr_window b = {a->size, a->base_dilation, a->stride, a->window_dilation, a->pad_low, a->pad_low, false};
  for (int i = 0; i < a->size.n; ++i) {
    b.window_dilation.d[i] = -a->window_dilation.d[i];
    b.pad_low.d[i] = -a->pad_low.d[i];
    int64_t need = (to[i] - 1) * b.stride.d[i] + extent(a->size.d[i], a->window_dilation.d[i]);
    b.pad_high.d[i] = need - dilated(from[i], b.base_dilation.d[i]) - b.pad_low.d[i];
  }
  return b;
}

static qn_val moved(qn_val x, const qn_attr_window *a, qn_val padding) {
  qn_val in[] = {x, padding};
  if (!qn_val_ok(x) || !qn_val_ok(padding))
    return QN_NULL_VAL;
  return qn_graph_add(x.graph, QN_OP_WINDOWS, in, 2, a, NULL, 0, QN_HERE);
}

/* true where the result holds padding. */
static qn_val holds_padding(qn_graph *g, const qn_attr_window *a, const qn_type *x) {
  qn_type t = *x;
  t.dtype = QN_BOOL;
  return moved(qn_full(g, t, 0.0), a, qn_scalar(g, QN_BOOL, 1.0));
}

static void windows_vjp(qn_rule *r, qn_val *out) {
  if (((const qn_attr_window *)r->attr)->phased) {
    (void)qn_graph_fail(r->g, QN_HERE, QN_UNSUPPORTED,
                        "quern.windows: phased windows are made behind differentiation, they have no derivative");
    return;
  }
  qn_type x = *qn_val_type(r->in[0]), y = *qn_val_type(r->out[0]);
  qn_attr_window back = inverse(r->attr, y.dims, x.dims);
  if (r->wanted[0])
    out[0] = moved(r->given[0], &back, qn_scalar(r->g, x.dtype, 0.0));
  if (r->wanted[1])
    out[1] = qn_sum_all(qn_select(holds_padding(r->g, r->attr, &x), r->given[0], qn_like(r->given[0], 0.0)));
}

static void windows_batch(qn_batch *b, qn_val *out) {
  qn_attr_window a = qn_window_lifted(b->attr);
  qn_val x = qn_batch_lanes(b, 0);
  qn_type t = *qn_val_type(x), y = qn_batch_type(b, 0);
  if (!b->mapped[1]) {
    out[0] = moved(x, &a, b->in[1]);
    return;
  }
  y = qn_type_lifted(&y, b->size);
  qn_val value = qn_broadcast_in_dim(b->in[1], y.rank, y.dims, (const int64_t[]){0});
  out[0] = qn_select(holds_padding(b->g, &a, &t), value, moved(x, &a, qn_scalar(b->g, t.dtype, 0.0)));
}

static qn_status windows_eval(const qn_ref_call *c) {
  const qn_attr_window *a = c->attr;
  const qn_type *x = c->in_types[0], *y = c->out_types[0];
  size_t size = qn_dtype_size(y->dtype);
  qn_dims axes = qn_window_axes(a);
  int64_t index[QN_MAX_RANK] = {0}, count = qn_type_elements(y);
  char *to = c->out[0];
  for (int64_t k = 0; k < count; ++k, to += size, (void)qn_index_step(y->rank, y->dims, index)) {
    int64_t w[QN_MAX_RANK] = {0};
    bool there = true;
    for (int i = 0; i < axes.n; ++i)
      w[axes.d[i]] = index[a->size.n + i];
    for (int i = 0; i < a->size.n; ++i) {
      w[i] = phased_element(a, i, index[i], w[i]);
      there = there && w[i] < a->size.d[i];
    }
    int64_t at = there ? qn_window_offset(a, x, index, w) : -1;
    for (int i = a->size.n; i < x->rank && at >= 0; ++i)
      at = at * x->dims[i] + index[i];
    memcpy(to, at < 0 ? c->in[1] : (const char *)c->in[0] + (size_t)at * size, size);
  }
  return QN_OK;
}

static const qn_attr_window strided = {{2, {3, 1}}, {2, {2, 1}}, {2, {1, 2}}, {2, {2, 1}},
                                       {2, {1, 1}}, {2, {2, 0}}, false};
static const qn_attr_window backwards = {{1, {2}}, {1, {2}}, {1, {3}}, {1, {-2}}, {1, {-1}}, {1, {4}}, false};
static const qn_sample windows_samples[] = {{.ranks = {3, 0}, .dims = {{6, 3, 3}}, .lo = -2, .hi = 2, .attr = &strided},
                                            {.ranks = {2, 0}, .dims = {{4, 2}}, .lo = -2, .hi = 2, .attr = &backwards}};

const qn_op_def qn_op_windows = {
    .name = "quern.windows",
    .doc = "The elements of all windows: [o.., w..] from [i.., w..], i the element that window o has at w, or the "
           "padding value.",
    .arity = 2,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_window),
    .infer = windows_infer,
    .linear = true,
    .vjp = windows_vjp,
    .batch = windows_batch,
    .eval = windows_eval,
    .samples = windows_samples,
    .sample_count = 2,
};

/* ---- helpers of the other rows ---- */
/* x over new axes at the end, one for each window. */
static qn_val over_windows(qn_val x, const qn_attr_window *a) {
  qn_type t = *qn_val_type(x);
  qn_dims axes = qn_window_axes(a), own = qn_dims_iota(t.rank);
  if (t.rank + axes.n > QN_MAX_RANK)
    return qn_graph_fail(x.graph, QN_HERE, QN_UNSUPPORTED,
                         "reduce_window: %s and %d windowed axes make a rank of %d, at most %d are supported",
                         qn_type_str(&t), axes.n, t.rank + axes.n, QN_MAX_RANK);
  for (int i = 0; i < axes.n; ++i)
    t.dims[t.rank + i] = qn_window_count(a, (int)axes.d[i]);
  return axes.n == 0 ? x : qn_broadcast_in_dim(x, t.rank + axes.n, t.dims, own.d);
}

qn_val qn_window_view(qn_val x, const qn_attr_window *a, qn_val padding) {
  return moved(over_windows(x, a), a, padding);
}

qn_val qn_window_back(qn_val y, const qn_attr_window *a, const qn_type *x, qn_val padding, bool phased) {
  qn_attr_window back = inverse(a, qn_val_type(y)->dims, x->dims);
  back.phased = phased;
  return moved(over_windows(y, &back), &back, padding);
}

qn_val qn_window_undo(qn_val v, const qn_attr_window *a, const qn_type *x) {
  qn_attr_window back = inverse(a, qn_val_type(v)->dims, x->dims);
  return moved(v, &back, qn_scalar(v.graph, qn_val_type(v)->dtype, 0.0));
}

qn_val qn_window_sum(qn_val v, int rank) {
  int64_t axes[QN_MAX_RANK] = {0};
  int n = qn_val_type(v)->rank - rank;
  for (int i = 0; i < n; ++i)
    axes[i] = rank + i;
  return n > 0 ? qn_sum(v, n, axes, false) : v;
}

qn_val qn_window_numbers(qn_graph *g, const qn_type *x) {
  int64_t n = qn_type_elements(x);
  qn_type flat = qn_type_make(n > INT32_MAX ? QN_I64 : QN_I32, 1, &n);
  return qn_reshape(qn_iota(g, flat, 0), x->rank, x->dims);
}

qn_val qn_window_identity(qn_graph *g, qn_op op, qn_dtype dtype) {
  if (op == QN_OP_ADD && qn_dtype_is_float(dtype))
    return qn_scalar(g, dtype, -0.0);
  return qn_fold_identity(g, op, dtype);
}
