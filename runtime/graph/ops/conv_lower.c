/* What every device runs is a convolution without padding, holes, reversal or groups of the batch, with the output features on the minor-most axis
 * of kernel and result; all else is made of that by moves, one property a round:
 *   batch groups        become feature groups
 *   holes in the left   phases: the positions o = P t + r for each r below P see every Q-th tap of the kernel only, and elements that follow one
 *                       another, so each phase is a convolution without holes; their results are interleaved. Nothing is multiplied by zero
 *   order of axes       a transposed kernel, a transposed result, a transposed input where lanes are to run along it
 *   padding, reversal   pad, reverse */
#include "conv.h"
#include "move_shape.h"

enum { PHASES_MOST = 64, FEATURES_MOST = 64, OUTPUTS_FEW = 4, POSITIONS_MANY = 8 };

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---- phases ---- */

typedef struct phases {     /* along one spatial axis */
  int64_t period, tap_step; /* positions o = period * t + r; taps k = first + tap_step * m */
  int64_t stride, dilation; /* of every phase's convolution */
  int64_t positions;        /* t: as many as the longest phase has */
} phases;

static phases phases_of(const qn_attr_conv *a, int i, int64_t out) {
  int64_t l = a->lhs_dilation.d[i], s = gcd(a->stride.d[i], l), r = gcd(a->rhs_dilation.d[i], l);
  phases p = {.period = l / s, .tap_step = l / r, .stride = a->stride.d[i] / s, .dilation = a->rhs_dilation.d[i] / r};
  p.positions = (out + p.period - 1) / p.period;
  return p;
}

/* The first tap of phase r that meets an element, not a hole; -1: none. */
static int64_t first_tap(const qn_attr_conv *a, int i, const phases *p, int64_t r, int64_t taps) {
  for (int64_t k = 0; k < taps && k < p->tap_step; ++k)
    if ((r * a->stride.d[i] + k * a->rhs_dilation.d[i] - a->pad_low.d[i]) % a->lhs_dilation.d[i] == 0)
      return k;
  return -1;
}

/* What phase r sees along spatial axis i: taps from the first one on, elements from `begin` (negative: padding) on. */
typedef struct view {
  int64_t first, taps, begin, elements;
} view;

static bool view_of(const qn_attr_conv *a, int i, const phases *p, int64_t r, int64_t taps, view *out) {
  int64_t k = first_tap(a, i, p, r, taps);
  if (k < 0)
    return false;
  out->first = k;
  out->taps = (taps - k + p->tap_step - 1) / p->tap_step;
  out->begin = floor_div(r * a->stride.d[i] + k * a->rhs_dilation.d[i] - a->pad_low.d[i], a->lhs_dilation.d[i]);
  out->elements = (p->positions - 1) * p->stride + (out->taps - 1) * p->dilation + 1;
  return true;
}

typedef struct interleaver {
  const qn_attr_conv *a;
  const qn_type *z;
  qn_val x, kernel; /* x with all padding that any phase needs, begin[i] elements of it before x's own */
  int64_t begin[QN_MAX_RANK];
  phases p[QN_MAX_RANK];
  int64_t at[QN_MAX_RANK]; /* the phase at hand */
} interleaver;

static void pad_for_all(interleaver *f) {
  const qn_attr_conv *a = f->a;
  const qn_type *x = qn_val_type(f->x), *w = qn_val_type(f->kernel);
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
  bool pads = false;
  for (int i = 0; i < a->stride.n; ++i) {
    int64_t axis = a->input_spatial.d[i];
    for (int64_t r = 0; r < f->p[i].period; ++r) {
      view v;
      if (!view_of(a, i, &f->p[i], r, w->dims[a->kernel_spatial.d[i]], &v))
        continue;
      int64_t over = v.begin + v.elements - x->dims[axis];
      low[axis] = -v.begin > low[axis] ? -v.begin : low[axis];
      high[axis] = over > high[axis] ? over : high[axis];
    }
    f->begin[i] = low[axis];
    pads |= low[axis] > 0 || high[axis] > 0;
  }
  if (pads)
    f->x = qn_pad(f->x, qn_like(f->x, 0), low, high, NULL);
}

/* The convolution of one phase, all phases of one size; the null value: it sees holes only. */
static qn_val phase(const interleaver *f) {
  const qn_attr_conv *a = f->a;
  const qn_type *w = qn_val_type(f->kernel);
  int64_t start[2][QN_MAX_RANK] = {{0}}, limit[2][QN_MAX_RANK], step[QN_MAX_RANK];
  qn_attr_conv c = *a;
  for (int i = 0; i < w->rank; ++i) {
    limit[0][i] = qn_val_type(f->x)->dims[i];
    limit[1][i] = w->dims[i];
    step[i] = 1;
  }
  for (int i = 0; i < a->stride.n; ++i) {
    int64_t in = a->input_spatial.d[i], axis = a->kernel_spatial.d[i];
    view v;
    if (!view_of(a, i, &f->p[i], f->at[i], w->dims[axis], &v))
      return QN_NULL_VAL;
    start[0][in] = f->begin[i] + v.begin;
    limit[0][in] = start[0][in] + v.elements;
    start[1][axis] = v.first;
    step[axis] = f->p[i].tap_step;
    c.stride.d[i] = f->p[i].stride;
    c.rhs_dilation.d[i] = f->p[i].dilation;
    c.lhs_dilation.d[i] = 1;
    c.pad_low.d[i] = c.pad_high.d[i] = 0;
  }
  return qn_conv_typed(qn_slice(f->x, start[0], limit[0], NULL), qn_slice(f->kernel, start[1], limit[1], step), &c,
                       f->z->dtype);
}

/* All phases along spatial axis i and those behind it, each at its positions. */
static qn_val interleave(interleaver *f, int i) {
  qn_val part[PHASES_MOST];
  if (i == f->a->stride.n) {
    qn_val y = phase(f);
    qn_type t = *f->z;
    for (int k = 0; k < i; ++k)
      t.dims[f->a->output_spatial.d[k]] = f->p[k].positions;
    return qn_val_ok(y) || qn_graph_failed(f->kernel.graph) ? y : qn_full(f->kernel.graph, t, 0);
  }
  int64_t period = f->p[i].period, axis = f->a->output_spatial.d[i], dims[QN_MAX_RANK];
  for (int64_t r = 0; r < period; ++r) {
    f->at[i] = r;
    part[r] = interleave(f, i + 1);
    if (!qn_val_ok(part[r]) || period == 1)
      return part[r];
    const qn_type *t = qn_val_type(part[r]);
    for (int k = 0; k <= t->rank; ++k)
      dims[k] = k <= axis ? t->dims[k] : k == axis + 1 ? 1 : t->dims[k - 1];
    part[r] = qn_reshape(part[r], t->rank + 1, dims);
  }
  qn_val y = qn_concatenate(part, (size_t)period, axis + 1);
  for (int k = 0; k < f->z->rank; ++k)
    dims[k] = qn_val_type(part[0])->dims[k <= axis ? k : k + 1] * (k == axis ? period : 1);
  return qn_reshape(y, f->z->rank, dims);
}

/* Holes as zeros, where there would be too many phases. */
static qn_val with_holes(qn_rule *r, const qn_attr_conv *a) {
  int64_t none[QN_MAX_RANK] = {0}, holes[QN_MAX_RANK] = {0};
  for (int i = 0; i < a->stride.n; ++i)
    holes[a->input_spatial.d[i]] = a->lhs_dilation.d[i] - 1;
  return qn_pad(r->in[0], qn_like(r->in[0], 0), none, none, holes);
}

/* ---- phases as features ---- */

/* Where the kernel's size is a multiple of L, stride and its own dilation 1, every phase has as many taps as any other, and with positions counted from
 * a place where all start at the same element (o = L t + r - a, r from 1 to L, a + padding a multiple of L, k = L m + L - r), the phases are features
 * of one convolution: kernel[m][r][in][out], result [t][r][out], of which positions are t L + r again. That is for few features, which fill no vector
 * alone; more would only make the kernel's rows long. */
static bool phases_fit_features(const qn_attr_conv *a, const qn_type *w) {
  int64_t features = w->dims[a->kernel_output_feature];
  for (int i = 0; i < a->stride.n; ++i) {
    int64_t l = a->lhs_dilation.d[i];
    features = features > FEATURES_MOST ? features : features * l;
    if (l > 1 && (a->stride.d[i] != 1 || a->rhs_dilation.d[i] != 1 || w->dims[a->kernel_spatial.d[i]] % l != 0))
      return false;
  }
  return features <= FEATURES_MOST && w->rank + 2 <= QN_MAX_RANK;
}

/* Axis i of the kernel from [m l] to [m], its l phases, in falling order, in front of the output features of every group. */
static qn_val phases_to_outputs(qn_val kernel, const qn_attr_conv *a, int i) {
  const qn_type *t = qn_val_type(kernel);
  int64_t axis = a->kernel_spatial.d[i], l = a->lhs_dilation.d[i], dims[QN_MAX_RANK + 1], split = axis + 1;
  for (int k = 0; k <= t->rank; ++k)
    dims[k] = k < axis ? t->dims[k] : k == axis ? t->dims[k] / l : k == split ? l : t->dims[k - 1];
  kernel = qn_reverse(qn_reshape(kernel, t->rank + 1, dims), 1, &split);
  return qn_conv_lanes_into(qn_axis_to_front(kernel, split), a->kernel_output_feature, a->feature_group_count);
}

static qn_val phases_as_features(qn_rule *r, qn_val kernel, const qn_attr_conv *a, const qn_type *z) {
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
  int n = a->stride.n;
  qn_attr_conv c = *a;
  for (int k = 0; k < z->rank; ++k)
    limit[k] = z->dims[k];
  for (int i = n - 1; i >= 0; --i) {
    int64_t l = a->lhs_dilation.d[i], low = a->pad_low.d[i];
    if (l == 1)
      continue;
    int64_t taps = qn_val_type(kernel)->dims[a->kernel_spatial.d[i]] / l, out = z->dims[a->output_spatial.d[i]];
    int64_t first = l - (low - floor_div(low, l) * l), positions = (out + first - 2) / l + 1;
    c.lhs_dilation.d[i] = 1;
    c.pad_low.d[i] = (first + low) / l - 1;
    c.pad_high.d[i] = positions + taps - 1 - c.pad_low.d[i] - qn_val_type(r->in[0])->dims[a->input_spatial.d[i]];
    start[a->output_spatial.d[i]] = first - 1;
    limit[a->output_spatial.d[i]] = first - 1 + out;
    kernel = phases_to_outputs(kernel, a, i);
  }
  qn_val y = qn_conv_typed(r->in[0], kernel, &c, z->dtype);
  for (int i = 0; i < n && qn_val_ok(y); ++i)
    if (a->lhs_dilation.d[i] > 1) {
      int64_t axis = a->output_spatial.d[i], positions = qn_val_type(y)->dims[axis];
      y = qn_conv_lanes_out(y, a->output_feature, a->feature_group_count, a->lhs_dilation.d[i]);
      y = qn_conv_lanes_into(y, axis, positions);
    }
  return qn_slice(y, start, limit, NULL);
}

static qn_val split_in_phases(qn_rule *r, const qn_attr_conv *a, const qn_type *z) {
  interleaver f = {.x = r->in[0], .kernel = r->in[1], .a = a, .z = z};
  int64_t axes[QN_MAX_RANK], total = 1, none[QN_MAX_RANK] = {0};
  qn_attr_conv plain = *a;
  int reversals = 0;
  for (int i = 0; i < a->stride.n; ++i) {
    f.p[i] = phases_of(a, i, z->dims[a->output_spatial.d[i]]);
    total = total > PHASES_MOST ? total : total * f.p[i].period;
    if (a->reversal.d[i])
      axes[reversals++] = a->kernel_spatial.d[i];
    plain.reversal.d[i] = 0;
  }
  if (total > PHASES_MOST || z->rank == QN_MAX_RANK) {
    for (int i = 0; i < a->stride.n; ++i)
      plain.lhs_dilation.d[i] = 1;
    plain.reversal = a->reversal;
    return qn_conv_typed(with_holes(r, a), r->in[1], &plain, z->dtype);
  }
  f.a = &plain;
  if (reversals)
    f.kernel = qn_reverse(r->in[1], reversals, axes);
  if (phases_fit_features(&plain, qn_val_type(f.kernel)))
    return phases_as_features(r, f.kernel, &plain, z);
  pad_for_all(&f);
  qn_val y = interleave(&f, 0);
  return qn_val_ok(y) && !qn_type_equal(qn_val_type(y), z) ? qn_slice(y, none, z->dims, NULL) : y;
}

/* ---- order of axes ---- */

static bool is_minor(const qn_type *t, int64_t axis) {
  int minor = t->rank - 1;
  while (minor > 0 && t->dims[minor] == 1)
    minor--;
  return t->dims[axis] == 1 || axis == minor;
}

static qn_val with_kernel_in_order(qn_rule *r, const qn_attr_conv *a, qn_dtype dtype) {
  qn_attr_conv c = *a;
  int64_t permutation[QN_MAX_RANK];
  int n = a->stride.n;
  for (int i = 0; i < n; ++i) {
    permutation[i] = a->kernel_spatial.d[i];
    c.kernel_spatial.d[i] = i;
  }
  permutation[n] = a->kernel_input_feature;
  permutation[n + 1] = a->kernel_output_feature;
  c.kernel_input_feature = n;
  c.kernel_output_feature = n + 1;
  return qn_conv_typed(r->in[0], qn_transpose(r->in[1], permutation), &c, dtype);
}

/* The axes of the result in their order, but for the features, which go last; transposed to what was asked for. */
static qn_val with_result_in_order(qn_rule *r, const qn_attr_conv *a, const qn_type *z) {
  qn_attr_conv c = *a;
  int64_t permutation[QN_MAX_RANK], f = a->output_feature;
  for (int i = 0; i < z->rank; ++i)
    permutation[i] = i < f ? i : i == f ? z->rank - 1 : i - 1;
  c.output_batch = permutation[a->output_batch];
  c.output_feature = z->rank - 1;
  for (int i = 0; i < a->stride.n; ++i)
    c.output_spatial.d[i] = permutation[a->output_spatial.d[i]];
  return qn_transpose(qn_conv_typed(r->in[0], r->in[1], &c, z->dtype), permutation);
}

/* With few output features, lanes run along the last spatial axis: the input's features change places with it. */
static bool input_goes_in_lanes(const qn_attr_conv *a, const qn_type *x, const qn_type *w, const qn_type *z) {
  int last = a->stride.n - 1;
  return last >= 0 && a->feature_group_count == 1 && w->dims[a->kernel_output_feature] <= OUTPUTS_FEW &&
         x->dims[a->input_feature] > 1 && is_minor(x, a->input_feature) && a->stride.d[last] == 1 &&
         z->dims[a->output_spatial.d[last]] >= POSITIONS_MANY;
}

static qn_val with_input_in_lanes(qn_rule *r, const qn_attr_conv *a, qn_dtype dtype) {
  qn_attr_conv c = *a;
  int64_t permutation[QN_MAX_RANK], f = a->input_feature, last = a->input_spatial.d[a->stride.n - 1];
  for (int i = 0; i < qn_val_type(r->in[0])->rank; ++i)
    permutation[i] = i == f ? last : i == last ? f : i;
  c.input_feature = last;
  c.input_spatial.d[a->stride.n - 1] = f;
  return qn_conv_typed(qn_transpose(r->in[0], permutation), r->in[1], &c, dtype);
}

/* ---- padding, reversal ---- */

static qn_val padded(qn_rule *r, const qn_attr_conv *a, qn_dtype dtype) {
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0}, axes[QN_MAX_RANK];
  qn_attr_conv c = *a;
  qn_val x = r->in[0], y = r->in[1];
  bool pads = false;
  int reversals = 0;
  for (int i = 0; i < a->stride.n; ++i) {
    low[a->input_spatial.d[i]] = a->pad_low.d[i];
    high[a->input_spatial.d[i]] = a->pad_high.d[i];
    pads |= a->pad_low.d[i] != 0 || a->pad_high.d[i] != 0;
    c.pad_low.d[i] = c.pad_high.d[i] = c.reversal.d[i] = 0;
    if (a->reversal.d[i])
      axes[reversals++] = a->kernel_spatial.d[i];
  }
  if (!pads && !reversals)
    return QN_NULL_VAL;
  if (pads)
    x = qn_pad(x, qn_like(x, 0), low, high, NULL);
  if (reversals)
    y = qn_reverse(y, reversals, axes);
  return qn_conv_typed(x, y, &c, dtype);
}

/* ---- the row's rule ---- */

static qn_val without_batch_groups(qn_rule *r, const qn_attr_conv *a, qn_dtype dtype) {
  qn_attr_conv c = *a;
  c.feature_group_count = a->batch_group_count;
  c.batch_group_count = 1;
  return qn_conv_typed(qn_conv_groups_into(r->in[0], a->input_batch, a->batch_group_count, a->input_feature), r->in[1],
                       &c, dtype);
}

bool qn_conv_lower(qn_rule *r, qn_val *out) {
  const qn_attr_conv *a = r->attr;
  const qn_type *z = qn_graph_type(r->from, r->node->first_result);
  const qn_type *x = qn_val_type(r->in[0]), *w = qn_val_type(r->in[1]);
  bool holes = false;
  for (int i = 0; i < a->stride.n; ++i)
    holes |= a->lhs_dilation.d[i] > 1;
  if (qn_type_elements(z) == 0)
    out[0] = qn_full(r->g, *z, 0);
  else if (a->batch_group_count > 1)
    out[0] = without_batch_groups(r, a, z->dtype);
  else if (input_goes_in_lanes(a, x, w, z) && !(holes && phases_fit_features(a, w)))
    out[0] = with_input_in_lanes(r, a, z->dtype);
  else if (holes)
    out[0] = split_in_phases(r, a, z);
  else if (!is_minor(w, a->kernel_output_feature))
    out[0] = with_kernel_in_order(r, a, z->dtype);
  else if (!is_minor(z, a->output_feature))
    out[0] = with_result_in_order(r, a, z);
  else
    out[0] = padded(r, a, z->dtype);
  return qn_val_ok(out[0]) || qn_graph_failed(r->g);
}
