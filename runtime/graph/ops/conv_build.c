/* Builders of convolution: StableHLO's own, and the two that models use, with axes [batch, spatial.., features], [spatial.., in, out] and
 * padding by name, as jax.lax.conv_general_dilated and jax.lax.conv_transpose understand them. */
#include "conv.h"
#include "quern/ops.h"

static void fill(qn_dims *d, int n, int64_t x) {
  if (d->n != 0 || n > QN_MAX_RANK)
    return;
  d->n = n;
  for (int i = 0; i < n; ++i)
    d->d[i] = x;
}

qn_val qn_convolution_at(qn_place at, qn_val lhs, qn_val rhs, const qn_attr_conv *dims) {
  qn_val in[] = {lhs, rhs};
  qn_graph *g = qn_graph_common("convolution", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_attr_conv a = *dims;
  int n = a.input_spatial.n;
  fill(&a.stride, n, 1);
  fill(&a.pad_low, n, 0);
  fill(&a.pad_high, n, 0);
  fill(&a.lhs_dilation, n, 1);
  fill(&a.rhs_dilation, n, 1);
  fill(&a.reversal, n, 0);
  a.feature_group_count = a.feature_group_count == 0 ? 1 : a.feature_group_count;
  a.batch_group_count = a.batch_group_count == 0 ? 1 : a.batch_group_count;
  return qn_graph_add(g, QN_OP_CONVOLUTION, in, 2, &a, NULL, 0, at);
}

/* [batch, spatial.., features] for operands and result of this rank. */
static qn_attr_conv features_last(int rank) {
  qn_attr_conv a = {.input_feature = rank - 1,
                    .output_feature = rank - 1,
                    .kernel_input_feature = rank - 2,
                    .kernel_output_feature = rank - 1};
  for (int i = 0; i < rank - 2; ++i) {
    a.input_spatial.d[i] = a.output_spatial.d[i] = i + 1;
    a.kernel_spatial.d[i] = i;
  }
  a.input_spatial.n = a.output_spatial.n = a.kernel_spatial.n = rank - 2;
  fill(&a.stride, rank - 2, 1);
  fill(&a.pad_low, rank - 2, 0);
  fill(&a.pad_high, rank - 2, 0);
  fill(&a.lhs_dilation, rank - 2, 1);
  fill(&a.rhs_dilation, rank - 2, 1);
  fill(&a.reversal, rank - 2, 0);
  a.feature_group_count = a.batch_group_count = 1;
  return a;
}

/* The description's lists; false: they or the operands' ranks do not fit, and the graph has failed. */
static bool describe(qn_place at, const char *op, qn_val x, qn_val w, const qn_conv_desc *d, qn_attr_conv *out,
                     int64_t *stride, int64_t *window) {
  qn_val in[] = {x, w};
  qn_graph *g = qn_graph_common(op, in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return false;
  const qn_type *xt = qn_val_type(x), *wt = qn_val_type(w);
  if (xt->rank < 3 || wt->rank != xt->rank) {
    (void)qn_graph_fail(g, at, QN_INVALID,
                        "%s: operands are %s and %s, expected [batch, spatial.., features] and "
                        "[spatial.., in, out] of one rank, at least 3",
                        op, qn_type_str(xt), qn_type_str(wt));
    return false;
  }
  *out = features_last(xt->rank);
  out->feature_group_count = d && d->groups ? d->groups : 1;
  for (int i = 0; i < xt->rank - 2; ++i) {
    int64_t dilation = d && d->dilation ? d->dilation[i] : 1;
    stride[i] = d && d->stride ? d->stride[i] : 1;
    out->rhs_dilation.d[i] = dilation;
    window[i] = qn_conv_dilated(wt->dims[i], dilation);
    if (stride[i] < 1 || dilation < 1 || stride[i] > INT32_MAX || dilation > INT32_MAX) {
      (void)qn_graph_fail(g, at, QN_INVALID,
                          "%s: stride %lld and dilation %lld of spatial axis %d, expected at least 1", op,
                          (long long)stride[i], (long long)dilation, i);
      return false;
    }
  }
  return true;
}

qn_val qn_conv_at(qn_place at, qn_val x, qn_val w, const qn_conv_desc *desc) {
  qn_attr_conv a;
  int64_t stride[QN_MAX_RANK], window[QN_MAX_RANK];
  if (!describe(at, "conv", x, w, desc, &a, stride, window))
    return QN_NULL_VAL;
  for (int i = 0; i < a.stride.n; ++i) {
    a.stride.d[i] = stride[i];
    if (!desc || desc->padding != QN_CONV_SAME)
      continue;
    int64_t size = qn_val_type(x)->dims[i + 1], positions = (size + stride[i] - 1) / stride[i];
    int64_t pad = (positions - 1) * stride[i] + window[i] - size;
    a.pad_low.d[i] = pad > 0 ? pad / 2 : 0;
    a.pad_high.d[i] = pad > 0 ? pad - pad / 2 : 0;
  }
  return qn_convolution_at(at, x, w, &a);
}

qn_val qn_conv_transpose_at(qn_place at, qn_val x, qn_val w, const qn_conv_desc *desc) {
  qn_attr_conv a;
  int64_t stride[QN_MAX_RANK], window[QN_MAX_RANK], axes[QN_MAX_RANK], permutation[QN_MAX_RANK];
  if (!describe(at, "conv_transpose", x, w, desc, &a, stride, window))
    return QN_NULL_VAL;
  int n = a.stride.n;
  for (int i = 0; i < n; ++i) {
    int64_t k = window[i], s = stride[i];
    bool same = desc && desc->padding == QN_CONV_SAME;
    int64_t total = k + s - 2 + (!same && k > s ? k - s : 0);
    a.lhs_dilation.d[i] = s;
    a.pad_low.d[i] = !same || s > k - 1 ? k - 1 : (total + 1) / 2;
    a.pad_high.d[i] = total - a.pad_low.d[i];
    axes[i] = permutation[i] = i;
  }
  if (desc && desc->transpose_kernel) {
    permutation[n] = n + 1;
    permutation[n + 1] = n;
    w = qn_transpose_at(at, qn_reverse_at(at, w, n, axes), permutation);
  }
  return qn_convolution_at(at, x, w, &a);
}
