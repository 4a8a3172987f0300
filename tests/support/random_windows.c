/* Windows, running folds, convolutions, Fourier transforms and control flow of the generator in random_kit.h. Bodies of loops and branches carry
 * the bounds beside the values. */
#include "random_kit.h"

#include "quern/control.h"

static const qn_type *type(const random_item *i) { return qn_val_type(i->v); }
static int64_t below(random_gen *z, int64_t n) { return (int64_t)random_below(z, (uint32_t)n); }

/* ---- running folds ---- */

static bool window_running_sum(random_gen *z) {
  random_item *x = random_pick(z, random_below(z, 4) ? QN_F32 : QN_I32, false);
  if (!x || type(x)->rank == 0)
    return false;
  int64_t axis = below(z, type(x)->rank);
  double n = (double)type(x)->dims[axis];
  bool back = random_below(z, 2);
  qn_val v = qn_cumsum(x->v, axis, back), e = QN_NULL_VAL;
  if (type(x)->dtype == QN_I32)
    return random_add(z, v, e, 2147483648.0, true) != NULL;
  if (z->judged)
    e = qn_add(qn_cumsum(random_error(x), axis, back), random_ulps(qn_cumsum(qn_abs(x->v), axis, back), n + 4));
  return random_add(z, v, e, x->bound * n, false) != NULL;
}

static bool window_running_extreme(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0)
    return false;
  int64_t axis = below(z, type(x)->rank);
  bool back = random_below(z, 2), largest = random_below(z, 2);
  qn_val v = largest ? qn_cummax(x->v, axis, back) : qn_cummin(x->v, axis, back), e = QN_NULL_VAL;
  if (z->judged && !x->exact)
    e = qn_cummax(x->e, axis, back);
  return random_add(z, v, e, x->bound, x->exact) != NULL;
}

/* ---- windows ---- */

/* A window over some axes of a type. Without `holes` each sees an element: none falls into padding alone, or between elements. False: too much. */
static bool drawn_window(random_gen *z, const qn_type *t, bool holes, qn_attr_window *w, double *out_length) {
  double work = (double)qn_type_elements(t);
  *w = (qn_attr_window){.size = {t->rank, {0}}};
  *out_length = 1;
  w->stride = w->base_dilation = w->window_dilation = w->pad_low = w->pad_high = w->size;
  for (int i = 0; i < t->rank; i++) {
    int64_t n = t->dims[i], size = random_below(z, 2) ? 1 + below(z, n < 5 ? n + 1 : 6) : 1;
    if (!holes && size > n)
      size = n;
    w->size.d[i] = size;
    w->stride.d[i] = 1 + below(z, 3);
    w->window_dilation.d[i] = holes ? 1 + below(z, 2) : 1;
    w->base_dilation.d[i] = holes && random_below(z, 4) == 0 ? 2 : 1;
    w->pad_low.d[i] = below(z, size);
    w->pad_high.d[i] = below(z, size);
    *out_length *= (double)size;
    int64_t span = (size - 1) * w->window_dilation.d[i] + 1, wide = n ? (n - 1) * w->base_dilation.d[i] + 1 : 0;
    wide += w->pad_low.d[i] + w->pad_high.d[i];
    if (n == 0 || span > wide)
      return false;
    work = work / (double)n * (double)((wide - span) / w->stride.d[i] + 1);
  }
  return t->rank > 0 && work <= RANDOM_LARGEST && work * *out_length < 1e5;
}

static bool window_sum(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  qn_attr_window w;
  double n;
  if (!drawn_window(z, type(x), true, &w, &n))
    return false;
  qn_val v = qn_reduce_window_op(x->v, QN_OP_ADD, &w), e = QN_NULL_VAL;
  if (z->judged)
    e = qn_add(qn_reduce_window_op(random_error(x), QN_OP_ADD, &w),
               random_ulps(qn_reduce_window_op(qn_abs(x->v), QN_OP_ADD, &w), n + 4));
  return random_add(z, v, e, x->bound * n, false) != NULL;
}

static bool window_extreme(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  bool largest = random_below(z, 2);
  qn_attr_window w;
  double n;
  if (!drawn_window(z, type(x), false, &w, &n))
    return false;
  qn_val v = qn_reduce_window_op(x->v, largest ? QN_OP_MAXIMUM : QN_OP_MINIMUM, &w), e = QN_NULL_VAL;
  if (z->judged && !x->exact)
    e = qn_reduce_window_op(x->e, QN_OP_MAXIMUM, &w);
  return random_add(z, v, e, x->bound, x->exact) != NULL;
}

static bool window_integers(random_gen *z) {
  static const qn_op ops[] = {QN_OP_ADD, QN_OP_MAXIMUM, QN_OP_MINIMUM, QN_OP_OR, QN_OP_XOR};
  random_item *x = random_pick(z, QN_I32, true);
  qn_attr_window w;
  double n;
  if (!x || !drawn_window(z, type(x), true, &w, &n))
    return false;
  return random_add(z, qn_reduce_window_op(x->v, ops[random_below(z, 5)], &w), QN_NULL_VAL, 2147483648.0, true) != NULL;
}

/* ---- convolutions ---- */

/* A kernel of that type: the beginning of a value that is large enough, or small numbers that follow a pattern. */
static random_item *drawn_kernel(random_gen *z, qn_type t) {
  int64_t n = qn_type_elements(&t);
  for (int k = 0; k < 3; k++) {
    random_item *x = random_pick(z, QN_F32, false);
    if (qn_type_elements(type(x)) < n || x->bound > 100)
      continue;
    int64_t all = -1, zero = 0;
    qn_val flat = qn_reshape(x->v, 1, &all), e = QN_NULL_VAL;
    qn_val v = qn_reshape(qn_slice(flat, &zero, &n, NULL), t.rank, t.dims);
    if (z->judged && !x->exact)
      e = qn_reshape(qn_slice(qn_reshape(x->e, 1, &all), &zero, &n, NULL), t.rank, t.dims);
    return random_add(z, v, e, x->bound, x->exact);
  }
  qn_type whole = qn_type_of(QN_I32, 1, n);
  qn_val i = qn_iota(z->g, whole, 0), at = qn_rem(qn_mul(i, qn_like(i, 5)), qn_like(i, 7));
  qn_val v = qn_convert(qn_sub(at, qn_like(at, 3)), QN_F32);
  return random_add(z, qn_mul(qn_reshape(v, t.rank, t.dims), qn_like(v, 0.25)), QN_NULL_VAL, 1, true);
}

/* Batch, one or two spatial axes, features; strides, padding on each side, dilations, reversal, groups. False: too much. */
static bool drawn_conv(random_gen *z, const qn_type *t, int64_t features_out, qn_attr_conv *c, qn_type *out_kernel,
                       double *out_length) {
  int spatial = t->rank - 2;
  double size = (double)t->dims[0] * (double)features_out;
  int64_t features = t->dims[t->rank - 1];
  *c = (qn_attr_conv){.input_feature = t->rank - 1, .output_feature = t->rank - 1, .feature_group_count = 1};
  c->batch_group_count = 1;
  c->kernel_input_feature = spatial;
  c->kernel_output_feature = spatial + 1;
  if (features % 2 == 0 && features_out % 2 == 0 && random_below(z, 3) == 0)
    c->feature_group_count = 2;
  *out_kernel = (qn_type){.dtype = QN_F32, .rank = t->rank};
  *out_length = (double)features / (double)c->feature_group_count;
  for (int i = 0; i < spatial; i++) {
    int64_t n = t->dims[1 + i], k = 1 + below(z, n < 4 ? n : 4), wide, span;
    c->stride.d[i] = 1 + below(z, 2);
    c->pad_low.d[i] = below(z, k + 1);
    c->pad_high.d[i] = below(z, k + 1) - (random_below(z, 8) == 0);
    c->lhs_dilation.d[i] = 1 + (random_below(z, 4) == 0);
    c->rhs_dilation.d[i] = 1 + (random_below(z, 4) == 0);
    c->reversal.d[i] = random_below(z, 4) == 0;
    c->input_spatial.d[i] = c->output_spatial.d[i] = 1 + i;
    c->kernel_spatial.d[i] = i;
    out_kernel->dims[i] = k;
    wide = (n - 1) * c->lhs_dilation.d[i] + 1 + c->pad_low.d[i] + c->pad_high.d[i];
    span = (k - 1) * c->rhs_dilation.d[i] + 1;
    if (span > wide)
      return false;
    size *= (double)((wide - span) / c->stride.d[i] + 1);
    *out_length *= (double)k;
  }
  c->stride.n = c->pad_low.n = c->pad_high.n = c->lhs_dilation.n = c->rhs_dilation.n = c->reversal.n = spatial;
  c->input_spatial.n = c->kernel_spatial.n = c->output_spatial.n = spatial;
  out_kernel->dims[spatial] = features / c->feature_group_count;
  out_kernel->dims[spatial + 1] = features_out;
  return size <= RANDOM_LARGEST && size * *out_length < 2e5;
}

static bool window_convolution(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  qn_type t = *type(x), kernel;
  qn_attr_conv c;
  double n;
  if (t.rank == 0 || t.rank > 4 || qn_type_elements(&t) == 0 || x->bound > 1e4)
    return false;
  while (t.rank < 3) /* one feature, and one spatial axis */
    t.dims[t.rank++] = 1;
  if (!drawn_conv(z, &t, 1 + below(z, 6), &c, &kernel, &n))
    return false;
  qn_val xv = x->v, xe = z->judged ? random_error(x) : QN_NULL_VAL;
  double bound = x->bound;
  random_item *w = drawn_kernel(z, kernel);
  if (!w)
    return false;
  xv = qn_reshape(xv, t.rank, t.dims);
  qn_val v = qn_convolution(xv, w->v, &c), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val mx = qn_abs(xv), mw = qn_abs(w->v), ew = random_error(w);
    xe = qn_reshape(xe, t.rank, t.dims);
    e = qn_add(qn_convolution(mx, ew, &c), qn_convolution(xe, qn_add(mw, ew), &c));
    e = qn_add(e, random_ulps(qn_convolution(mx, mw, &c), n + 4));
  }
  return random_add(z, v, e, bound * w->bound * n, false) != NULL;
}

/* Real or imaginary part of the spectrum of the last axis. */
static bool window_spectrum(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0 || qn_type_elements(type(x)) == 0)
    return false;
  int64_t last = type(x)->rank - 1, n = type(x)->dims[last];
  qn_val f = qn_rfft(x->v, 1, &n), v = random_below(z, 2) ? qn_real(f) : qn_imag(f), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val size = qn_sum(qn_abs(x->v), 1, &last, true);
    e = qn_add(qn_sum(random_error(x), 1, &last, true), random_ulps(size, 2 * (double)n + 40));
  }
  return random_add(z, v, e, x->bound * (double)n, false) != NULL;
}

/* ---- control flow: in[0] of a counted body is the counter, then the value, then its bound ---- */

static qn_val row_at(qn_val x, qn_val i, int64_t sizes[QN_MAX_RANK], qn_val starts[QN_MAX_RANK]) {
  const qn_type *t = qn_val_type(x);
  for (int k = 0; k < t->rank; k++) {
    starts[k] = k ? qn_like(i, 0) : i;
    sizes[k] = k ? t->dims[k] : 1;
  }
  return qn_dynamic_slice(x, starts, sizes);
}

/* Row i becomes half of what is at its mirror image, its sign changed: no rounding. */
static qn_val mirrored(qn_val x, qn_val i, double by) {
  qn_val starts[QN_MAX_RANK], mirror = qn_sub(qn_like(i, (double)(qn_val_type(x)->dims[0] - 1)), i);
  int64_t sizes[QN_MAX_RANK];
  qn_val row = row_at(x, mirror, sizes, starts);
  (void)row_at(x, i, sizes, starts);
  return qn_dynamic_update_slice(x, qn_mul(row, qn_like(row, by)), starts);
}

static void mirror_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = mirrored(in[1], in[0], -0.5);
  if (*(const int *)user == 2)
    out[1] = mirrored(in[2], in[0], 0.5);
}

static bool window_updating_loop(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0 || qn_type_elements(type(x)) == 0)
    return false;
  int carries = z->judged && !x->exact ? 2 : 1;
  int64_t n = type(x)->dims[0], times = 1 + below(z, n < 6 ? n : 6);
  qn_val in[2] = {x->v, carries == 2 ? x->e : QN_NULL_VAL}, out[2] = {QN_NULL_VAL, QN_NULL_VAL};
  qn_fori(z->g, 0, times, in, (size_t)carries, mirror_body, &carries, out);
  return random_add(z, out[0], out[1], x->bound, x->exact) != NULL;
}

/* The magnitude at most halves and one is added. */
static void shrink_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = qn_add(qn_mul(in[1], qn_like(in[1], 0.5)), qn_like(in[1], 1));
  if (*(const int *)user == 2)
    out[1] = qn_add(qn_mul(in[2], qn_like(in[2], 0.5)), random_ulps(out[0], 4));
}

/* As often as the data say, none or up to three times. */
static bool window_counted_loop(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *i = random_pick(z, QN_I32, true);
  if (!i)
    return false;
  int carries = z->judged ? 2 : 1;
  qn_val sum = qn_sum_all(i->v), hi = qn_and(sum, qn_like(sum, 3));
  qn_val in[2] = {x->v, z->judged ? random_error(x) : QN_NULL_VAL}, out[2] = {QN_NULL_VAL, QN_NULL_VAL};
  double bound = x->bound;
  if (random_below(z, 2))
    qn_fori(z->g, 0, 1 + below(z, 4), in, (size_t)carries, shrink_body, &carries, out);
  else
    qn_fori_between(z->g, qn_like(hi, 0), hi, in, (size_t)carries, shrink_body, &carries, out);
  return random_add(z, out[0], out[1], bound + 2, false) != NULL;
}

/* carry, its bound, row, its bound -> carry, its bound, output, its bound */
static void decay_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  int each = *(const int *)user;
  (void)g;
  out[0] = out[each] = qn_add(qn_mul(in[0], qn_like(in[0], 0.5)), in[each]);
  if (each == 2)
    out[1] = out[3] = qn_add(qn_add(qn_mul(in[1], qn_like(in[1], 0.5)), in[3]), random_ulps(out[0], 4));
}

static bool window_scan(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0 || qn_type_elements(type(x)) == 0 || type(x)->dims[0] > 40)
    return false;
  int each = z->judged ? 2 : 1;
  qn_type row = {.dtype = QN_F32, .rank = type(x)->rank - 1};
  for (int k = 0; k < row.rank; k++)
    row.dims[k] = type(x)->dims[k + 1];
  qn_val zero = qn_full(z->g, row, 0), init[2] = {zero, zero}, out[4] = {QN_NULL_VAL};
  qn_val xs[2] = {x->v, z->judged ? random_error(x) : QN_NULL_VAL};
  double bound = 2 * x->bound;
  size_t n = (size_t)each;
  qn_scan(z->g,
          (&(qn_scan_desc){.init = init,
                           .carries = n,
                           .xs = xs,
                           .inputs = n,
                           .outputs = n,
                           .reverse = random_below(z, 2),
                           .body = decay_body,
                           .user = &each}),
          out);
  return random_add(z, out[0], z->judged ? out[1] : QN_NULL_VAL, bound, false) &&
         random_add(z, out[n], z->judged ? out[3] : QN_NULL_VAL, bound, false);
}

static void half_branch(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = qn_mul(in[0], qn_like(in[0], -0.5));
  if (*(const int *)user == 2)
    out[1] = in[1];
}
static void more_branch(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  (void)g;
  out[0] = qn_add(in[0], qn_like(in[0], 1.5));
  if (*(const int *)user == 2)
    out[1] = qn_add(in[1], random_ulps(out[0], 2));
}

static bool window_branch(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *i = random_pick(z, QN_I32, true);
  if (!i)
    return false;
  int carries = z->judged ? 2 : 1;
  qn_val sum = qn_sum_all(i->v), odd = qn_eq(qn_and(sum, qn_like(sum, 1)), qn_like(sum, 1));
  qn_val in[2] = {x->v, z->judged ? random_error(x) : QN_NULL_VAL}, out[2] = {QN_NULL_VAL, QN_NULL_VAL};
  double bound = x->bound;
  qn_cond(z->g, odd, in, (size_t)carries, half_branch, more_branch, &carries, out, (size_t)carries);
  return random_add(z, out[0], out[1], bound + 1.5, false) != NULL;
}

bool (*const random_windows[])(random_gen *z) = {
    window_running_sum, window_running_extreme, window_sum,           window_extreme,      window_integers,
    window_convolution, window_spectrum,        window_updating_loop, window_counted_loop, window_scan,
    window_branch,
};
const size_t random_window_count = sizeof random_windows / sizeof *random_windows;
