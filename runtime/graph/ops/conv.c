/* convolution: the row, its shape rule and its reference. Derivatives are in conv_grad.c, the way to kernels in conv_lower.c, the builders that
 * models use in conv_build.c. The reference brings both operands to [batch][positions][features] and [taps][in][out] of the widest type of their
 * class, and goes over the window of every position, skipping what lies in padding or between dilated elements. */
#include "conv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "move_shape.h"

int64_t qn_conv_dilated(int64_t size, int64_t dilation) { return size == 0 ? 0 : (size - 1) * dilation + 1; }

/* ---- shape rule ---- */

static qn_status check_numbers(const qn_infer *c, const char *what, int rank, int64_t first, const char *first_name,
                               int64_t second, const char *second_name, const qn_dims *spatial) {
  bool seen[QN_MAX_RANK] = {false};
  if (spatial->n != rank - 2)
    return QN_ERR(QN_INVALID, "%s: %s_spatial_dimensions has %d entries, expected %d", c->name, what, (int)spatial->n,
                  rank - 2);
  for (int i = -2; i < spatial->n; ++i) {
    int64_t d = i == -2 ? first : i == -1 ? second : spatial->d[i];
    const char *name = i == -2 ? first_name : i == -1 ? second_name : "spatial_dimensions";
    if (d < 0 || d >= rank)
      return QN_ERR(QN_INVALID, "%s: %s_%s holds %lld, expected an axis in 0..%d", c->name, what, name, (long long)d,
                    rank - 1);
    if (seen[d])
      return QN_ERR(QN_INVALID, "%s: %s_%s holds axis %lld, which has a role already", c->name, what, name,
                    (long long)d);
    seen[d] = true;
  }
  return QN_OK;
}

static qn_status check_window(const qn_infer *c, const qn_attr_conv *a, int n) {
  static const struct {
    const char *name;
    size_t offset;
    int64_t least;
  } lists[] = {{"window_strides", offsetof(qn_attr_conv, stride), 1},
               {"padding (low)", offsetof(qn_attr_conv, pad_low), -INT32_MAX},
               {"padding (high)", offsetof(qn_attr_conv, pad_high), -INT32_MAX},
               {"lhs_dilation", offsetof(qn_attr_conv, lhs_dilation), 1},
               {"rhs_dilation", offsetof(qn_attr_conv, rhs_dilation), 1},
               {"window_reversal", offsetof(qn_attr_conv, reversal), 0}};
  for (size_t k = 0; k < sizeof lists / sizeof *lists; ++k) {
    const qn_dims *d = (const qn_dims *)((const char *)a + lists[k].offset);
    QN_TRY(qn_check_length(c, lists[k].name, d, n));
    for (int i = 0; i < n; ++i)
      if (d->d[i] < lists[k].least || d->d[i] > INT32_MAX)
        return QN_ERR(QN_INVALID, "%s: %s holds %lld, expected at least %lld and at most %d", c->name, lists[k].name,
                      (long long)d->d[i], (long long)lists[k].least, INT32_MAX);
  }
  return QN_OK;
}

static qn_status check_groups(const qn_infer *c, const qn_attr_conv *a, const qn_type *x, const qn_type *y) {
  int64_t groups = a->feature_group_count, batches = a->batch_group_count;
  int64_t in = x->dims[a->input_feature], out = y->dims[a->kernel_output_feature];
  if (groups < 1 || batches < 1)
    return QN_ERR(QN_INVALID, "%s: %s_group_count is %lld, expected at least 1", c->name,
                  groups < 1 ? "feature" : "batch", (long long)(groups < 1 ? groups : batches));
  if (groups > 1 && batches > 1)
    return QN_ERR(QN_INVALID,
                  "%s: feature_group_count is %lld and batch_group_count %lld, expected one of them to be 1", c->name,
                  (long long)groups, (long long)batches);
  if (in % groups != 0)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected a multiple of feature_group_count %lld at axis %lld",
                  c->name, qn_type_str(x), (long long)groups, (long long)a->input_feature);
  if (x->dims[a->input_batch] % batches != 0)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected a multiple of batch_group_count %lld at axis %lld",
                  c->name, qn_type_str(x), (long long)batches, (long long)a->input_batch);
  if (y->dims[a->kernel_input_feature] != in / groups)
    return QN_ERR(QN_INVALID,
                  "%s: operand 1 is %s, expected size %lld at axis %lld for %lld features of %s in %lld groups",
                  c->name, qn_type_str(y), (long long)(in / groups), (long long)a->kernel_input_feature, (long long)in,
                  qn_type_str(x), (long long)groups);
  if (out % (groups * batches) != 0)
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected a multiple of %s_group_count %lld at axis %lld", c->name,
                  qn_type_str(y), groups > 1 ? "feature" : "batch", (long long)(groups * batches),
                  (long long)a->kernel_output_feature);
  return QN_OK;
}

/* Positions of the window along spatial axis i. */
static qn_status count_positions(const qn_infer *c, const qn_attr_conv *a, int i, int64_t *out) {
  int64_t size = c->operands[0].dims[a->input_spatial.d[i]], taps = c->operands[1].dims[a->kernel_spatial.d[i]];
  const int64_t most = INT64_C(1) << 60;
  if (taps < 1)
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected a window of at least 1 at axis %lld", c->name,
                  qn_type_str(&c->operands[1]), (long long)a->kernel_spatial.d[i]);
  if (size > most / a->lhs_dilation.d[i] || taps > most / a->rhs_dilation.d[i])
    return QN_ERR(QN_UNSUPPORTED, "%s: spatial axis %d is too large when dilated", c->name, i);
  int64_t padded = qn_conv_dilated(size, a->lhs_dilation.d[i]) + a->pad_low.d[i] + a->pad_high.d[i];
  int64_t window = qn_conv_dilated(taps, a->rhs_dilation.d[i]);
  if (padded < 0)
    return QN_ERR(QN_INVALID, "%s: padding [%lld, %lld] takes more than the %lld elements of spatial axis %d", c->name,
                  (long long)a->pad_low.d[i], (long long)a->pad_high.d[i], (long long)size, i);
  *out = padded < window ? 0 : (padded - window) / a->stride.d[i] + 1;
  return QN_OK;
}

static qn_status conv_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  const qn_type *x = &c->operands[0], *y = &c->operands[1];
  const qn_attr_conv *a = c->attr;
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  if (x->rank < 2)
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected at least a batch and a feature axis", c->name,
                  qn_type_str(x));
  if (y->rank != x->rank)
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected rank %d as operand 0, %s", c->name, qn_type_str(y),
                  x->rank, qn_type_str(x));
  QN_TRY(check_numbers(c, "input", x->rank, a->input_batch, "batch_dimension", a->input_feature, "feature_dimension",
                       &a->input_spatial));
  QN_TRY(check_numbers(c, "kernel", x->rank, a->kernel_input_feature, "input_feature_dimension",
                       a->kernel_output_feature, "output_feature_dimension", &a->kernel_spatial));
  QN_TRY(check_numbers(c, "output", x->rank, a->output_batch, "batch_dimension", a->output_feature, "feature_dimension",
                       &a->output_spatial));
  QN_TRY(check_window(c, a, x->rank - 2));
  QN_TRY(check_groups(c, a, x, y));
  int64_t dims[QN_MAX_RANK] = {0};
  dims[a->output_batch] = x->dims[a->input_batch] / a->batch_group_count;
  dims[a->output_feature] = y->dims[a->kernel_output_feature];
  for (int i = 0; i < x->rank - 2; ++i)
    QN_TRY(count_positions(c, a, i, &dims[a->output_spatial.d[i]]));
  qn_type z = qn_type_make(c->hint.dtype != QN_DTYPE_NONE ? c->hint.dtype : x->dtype, x->rank, dims);
  if (qn_dtype_classify(z.dtype) != qn_dtype_classify(x->dtype))
    return QN_ERR(QN_INVALID, "%s: the result's elements are %s, expected the class of %s", c->name,
                  qn_dtype_name(z.dtype), qn_dtype_name(x->dtype));
  if (c->hint.dtype != QN_DTYPE_NONE && c->hint.rank != 0 && !qn_type_equal(&c->hint, &z))
    return QN_ERR(QN_INVALID, "%s: the result is %s, expected %s", c->name, qn_type_str(&c->hint), qn_type_str(&z));
  c->out_types[0] = z;
  return QN_OK;
}

/* ---- reference ---- */

/* 8-byte elements of `data` with axes in the order [first, spatial.., second] or [spatial.., first, second]. */
static void *packed(const qn_type *t, const void *data, const int64_t *order) {
  int64_t count = qn_type_elements(t), own[QN_MAX_RANK], from[QN_MAX_RANK] = {0}, dims[QN_MAX_RANK] = {0},
          to[QN_MAX_RANK] = {0};
  char *wide = malloc((size_t)count * 8 + 8), *out = malloc((size_t)count * 8 + 8);
  if (wide == NULL || out == NULL) {
    free(wide);
    free(out);
    return NULL;
  }
  if (qn_dtype_is_float(t->dtype))
    qn_oracle_load_f(t->dtype, data, 0, count, (double *)(void *)wide);
  else if (qn_dtype_is_signed(t->dtype))
    qn_oracle_load_i(t->dtype, data, 0, count, (int64_t *)(void *)wide);
  else
    qn_oracle_load_u(t->dtype, data, 0, count, (uint64_t *)(void *)wide);
  qn_type as = *t;
  as.dtype = QN_F64;
  qn_strides_of(&as, own);
  for (int i = 0; i < t->rank; ++i) {
    from[i] = own[order[i]];
    dims[i] = t->dims[order[i]];
  }
  qn_type sorted = qn_type_make(QN_F64, t->rank, dims);
  qn_strides_of(&sorted, to);
  qn_copy_strided(t->rank, dims, 8, out, to, wide, from);
  free(wide);
  return out;
}

typedef struct walk {
  const qn_attr_conv *a;
  int n;                                                        /* spatial axes */
  int64_t in[QN_MAX_RANK], taps[QN_MAX_RANK], out[QN_MAX_RANK]; /* their sizes */
  int64_t features, outputs;                                    /* of a group */
  int64_t groups, all_features, all_outputs;
  qn_dtype dtype;
} walk;

/* Index of the element that tap `k` at position `p` reads; false: a hole or padding. */
static bool tap_reads(const walk *w, const int64_t *p, const int64_t *k, int64_t *out_index) {
  int64_t index = 0;
  for (int i = 0; i < w->n; ++i) {
    int64_t at = p[i] * w->a->stride.d[i] + k[i] * w->a->rhs_dilation.d[i] - w->a->pad_low.d[i];
    if (at < 0 || at % w->a->lhs_dilation.d[i] != 0 || at / w->a->lhs_dilation.d[i] >= w->in[i])
      return false;
    index = index * w->in[i] + at / w->a->lhs_dilation.d[i];
  }
  *out_index = index;
  return true;
}

/* acc[o] += x[i] * y[i][o] for the features of one group. */
static void fold(const walk *w, const void *x, const void *y, void *acc) {
  for (int64_t i = 0; i < w->features; ++i) {
    int64_t row = i * w->all_outputs;
    if (qn_dtype_is_float(w->dtype)) {
      double v = ((const double *)x)[i], *restrict to = acc;
      const double *restrict with = (const double *)y + row;
      for (int64_t o = 0; o < w->outputs; ++o)
        to[o] += v * with[o];
    } else {
      uint64_t v = ((const uint64_t *)x)[i], *restrict to = acc;
      const uint64_t *restrict with = (const uint64_t *)y + row;
      for (int64_t o = 0; o < w->outputs; ++o)
        to[o] = w->dtype == QN_BOOL ? to[o] | (v & with[o]) : to[o] + v * with[o];
    }
  }
}

/* One position of one image: all groups of output features. */
static void position(const walk *w, const char *image, const char *kernel, const int64_t *p, int64_t group,
                     int64_t group_count, char *acc) {
  int64_t k[QN_MAX_RANK] = {0}, tap = 0, index;
  do {
    int64_t from[QN_MAX_RANK];
    for (int i = 0; i < w->n; ++i)
      from[i] = w->a->reversal.d[i] ? w->taps[i] - 1 - k[i] : k[i];
    tap = 0;
    for (int i = 0; i < w->n; ++i)
      tap = tap * w->taps[i] + from[i];
    if (!tap_reads(w, p, k, &index))
      continue;
    for (int64_t g = 0; g < group_count; ++g) {
      int64_t out = (group + g) * w->outputs, in = w->groups > 1 ? g * w->features : 0;
      fold(w, image + (index * w->all_features + in) * 8, kernel + (tap * w->features * w->all_outputs + out) * 8,
           acc + out * 8);
    }
  } while (qn_index_step(w->n, w->taps, k));
}

static walk walk_of(const qn_attr_conv *a, const qn_type *x, const qn_type *y, const qn_type *z) {
  walk w = {.a = a, .n = x->rank - 2, .groups = a->feature_group_count, .dtype = x->dtype};
  for (int i = 0; i < w.n; ++i) {
    w.in[i] = x->dims[a->input_spatial.d[i]];
    w.taps[i] = y->dims[a->kernel_spatial.d[i]];
    w.out[i] = z->dims[a->output_spatial.d[i]];
  }
  w.all_features = x->dims[a->input_feature];
  w.all_outputs = y->dims[a->kernel_output_feature];
  w.features = w.all_features / a->feature_group_count;
  w.outputs = w.all_outputs / (a->feature_group_count * a->batch_group_count);
  return w;
}

/* From [batch][positions][features] to the result's order and type. */
static qn_status unpack(const qn_attr_conv *a, const qn_type *z, const char *sums, void *out) {
  int64_t count = qn_type_elements(z), dims[QN_MAX_RANK] = {0}, from[QN_MAX_RANK] = {0}, own[QN_MAX_RANK],
          to[QN_MAX_RANK] = {0}, order[QN_MAX_RANK] = {a->output_batch};
  for (int i = 0; i < z->rank - 2; ++i)
    order[1 + i] = a->output_spatial.d[i];
  order[z->rank - 1] = a->output_feature;
  char *sorted = malloc((size_t)count * 8 + 8);
  if (sorted == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "convolution: out of memory");
  for (int i = 0; i < z->rank; ++i)
    dims[i] = z->dims[order[i]];
  qn_type packed_type = qn_type_make(QN_F64, z->rank, dims), wide = *z;
  wide.dtype = QN_F64;
  qn_strides_of(&packed_type, from);
  qn_strides_of(&wide, own);
  for (int i = 0; i < z->rank; ++i)
    to[i] = own[order[i]];
  qn_copy_strided(z->rank, dims, 8, sorted, to, sums, from);
  if (qn_dtype_is_float(z->dtype))
    qn_oracle_store_f(z->dtype, out, 0, count, (double *)(void *)sorted);
  else if (qn_dtype_is_signed(z->dtype))
    qn_oracle_store_i(z->dtype, out, 0, count, (int64_t *)(void *)sorted);
  else
    qn_oracle_store_u(z->dtype, out, 0, count, (uint64_t *)(void *)sorted);
  free(sorted);
  return QN_OK;
}

static void all_positions(const walk *w, const char *x, const char *y, int64_t batch, char *sums) {
  int64_t pixels = 1, batches = w->a->batch_group_count, image = w->all_features;
  for (int i = 0; i < w->n; ++i) {
    pixels *= w->out[i];
    image *= w->in[i];
  }
  for (int64_t b = 0; b < batch; ++b) {
    int64_t p[QN_MAX_RANK] = {0};
    for (int64_t q = 0; q < pixels; ++q) {
      char *acc = sums + (b * pixels + q) * w->all_outputs * 8;
      for (int64_t g = 0; g < batches; ++g)
        position(w, x + (g * batch + b) * image * 8, y, p, g, w->groups, acc);
      (void)qn_index_step(w->n, w->out, p);
    }
  }
}

static qn_status conv_eval(const qn_ref_call *call) {
  const qn_type *x = call->in_types[0], *y = call->in_types[1], *z = call->out_types[0];
  const qn_attr_conv *a = call->attr;
  int64_t count = qn_type_elements(z), image[QN_MAX_RANK] = {a->input_batch}, kernel[QN_MAX_RANK] = {0};
  if (count == 0)
    return QN_OK;
  int n = x->rank - 2;
  for (int i = 0; i < n; ++i) {
    image[1 + i] = a->input_spatial.d[i];
    kernel[i] = a->kernel_spatial.d[i];
  }
  image[n + 1] = a->input_feature;
  kernel[n] = a->kernel_input_feature;
  kernel[n + 1] = a->kernel_output_feature;
  walk w = walk_of(a, x, y, z);
  char *l = packed(x, call->in[0], image), *r = packed(y, call->in[1], kernel), *sums = calloc((size_t)count, 8);
  qn_status st = QN_OK;
  if (l == NULL || r == NULL || sums == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "convolution: out of memory");
    goto done;
  }
  all_positions(&w, l, r, z->dims[a->output_batch], sums);
  QN_TRY_GOTO(st, unpack(a, z, sums, call->out[0]), done);
done:
  free(l);
  free(r);
  free(sums);
  return st;
}

/* ---- the row ---- */

#define NHWC                                                                                                           \
  .input_batch = 0, .input_feature = 3, .input_spatial = {2, {1, 2}}, .kernel_input_feature = 2,                       \
  .kernel_output_feature = 3, .kernel_spatial = {2, {0, 1}}, .output_batch = 0, .output_feature = 3,                   \
  .output_spatial = {2, {1, 2}}
#define NCHW                                                                                                           \
  .input_batch = 0, .input_feature = 1, .input_spatial = {2, {2, 3}}, .kernel_input_feature = 1,                       \
  .kernel_output_feature = 0, .kernel_spatial = {2, {2, 3}}, .output_batch = 0, .output_feature = 1,                   \
  .output_spatial = {2, {2, 3}}
static const qn_attr_conv same = {NHWC,
                                  .stride = {2, {1, 1}},
                                  .pad_low = {2, {1, 1}},
                                  .pad_high = {2, {1, 0}},
                                  .lhs_dilation = {2, {1, 1}},
                                  .rhs_dilation = {2, {1, 1}},
                                  .reversal = {2, {0, 0}},
                                  .feature_group_count = 1,
                                  .batch_group_count = 1},
                          groups = {NCHW,
                                    .stride = {2, {2, 1}},
                                    .pad_low = {2, {1, -1}},
                                    .pad_high = {2, {0, 2}},
                                    .lhs_dilation = {2, {1, 1}},
                                    .rhs_dilation = {2, {1, 2}},
                                    .reversal = {2, {1, 0}},
                                    .feature_group_count = 2,
                                    .batch_group_count = 1},
                          batches = {NHWC,
                                     .stride = {2, {1, 3}},
                                     .pad_low = {2, {0, 1}},
                                     .pad_high = {2, {1, 1}},
                                     .lhs_dilation = {2, {2, 2}},
                                     .rhs_dilation = {2, {1, 1}},
                                     .reversal = {2, {0, 1}},
                                     .feature_group_count = 1,
                                     .batch_group_count = 2},
                          line = {.input_batch = 2,
                                  .input_feature = 0,
                                  .input_spatial = {1, {1}},
                                  .kernel_input_feature = 1,
                                  .kernel_output_feature = 2,
                                  .kernel_spatial = {1, {0}},
                                  .output_batch = 1,
                                  .output_feature = 0,
                                  .output_spatial = {1, {2}},
                                  .stride = {1, {2}},
                                  .pad_low = {1, {3}},
                                  .pad_high = {1, {-1}},
                                  .lhs_dilation = {1, {3}},
                                  .rhs_dilation = {1, {2}},
                                  .reversal = {1, {0}},
                                  .feature_group_count = 3,
                                  .batch_group_count = 1};
static const qn_sample conv_samples[] = {
    {.ranks = {4, 4}, .dims = {{2, 4, 5, 3}, {2, 3, 3, 4}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &same},
    {.ranks = {4, 4}, .dims = {{2, 4, 5, 4}, {4, 2, 2, 2}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &groups},
    {.ranks = {4, 4}, .dims = {{4, 3, 3, 2}, {2, 3, 2, 4}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &batches},
    {.ranks = {3, 3}, .dims = {{3, 5, 2}, {4, 1, 3}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &line},
};

const qn_op_def qn_op_convolution = {
    .name = "convolution",
    .doc = "Sums products of a window of the left operand with the right one at every position: strides, padding "
           "(negative too), dilation of both, groups, any order of axes.",
    .arity = 2,
    .kind = QN_KIND_CONTRACT,
    .dtypes = QN_D_REAL | QN_D_BOOL,
    .attr_size = sizeof(qn_attr_conv),
    .infer = conv_infer,
    .vjp = qn_conv_vjp,
    .jvp = qn_conv_jvp,
    .batch = qn_conv_batch,
    .lower = qn_conv_lower,
    .eval = conv_eval,
    .samples = conv_samples,
    .sample_count = sizeof conv_samples / sizeof *conv_samples,
};
