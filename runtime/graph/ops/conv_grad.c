/* Derivatives and batching of convolution. Both cotangents are convolutions again (the arithmetic of their padding is that of JAX's transposes): the
 * left one slides the reversed kernel over the result's cotangent, with stride and dilation exchanged; the right one takes the batch for features.
 * Groups move between batch and features, and so do lanes. */
#include "conv.h"
#include "move_shape.h"

qn_val qn_conv_typed(qn_val lhs, qn_val rhs, const qn_attr_conv *a, qn_dtype dtype) {
  qn_val in[] = {lhs, rhs};
  qn_graph *g = qn_graph_common("convolution", in, 2, QN_HERE);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type hint = {.dtype = dtype};
  return qn_graph_add_typed(g, QN_OP_CONVOLUTION, in, 2, a, NULL, 0, &hint, QN_HERE);
}

/* ---- axes ---- */

qn_val qn_conv_lanes_into(qn_val x, int64_t into, int64_t groups) {
  const qn_type *t = qn_val_type(x);
  if (!qn_val_ok(x))
    return x;
  int64_t dims[QN_MAX_RANK + 1], permutation[QN_MAX_RANK], merged[QN_MAX_RANK];
  int n = 0, m = 0;
  if (groups > 1 && t->rank == QN_MAX_RANK)
    return qn_graph_fail(x.graph, QN_HERE, QN_UNSUPPORTED, "convolution: %s has no room for lanes in groups",
                         qn_type_str(t));
  for (int i = 0; i < t->rank; ++i) { /* the axis is cut in groups and rest */
    if (i == into + 1 && groups > 1) {
      dims[n++] = groups;
      dims[n++] = t->dims[i] / groups;
    } else {
      dims[n++] = t->dims[i];
    }
  }
  if (groups > 1)
    x = qn_reshape(x, n, dims);
  int64_t target = into + (groups > 1 ? 1 : 0); /* the lanes' place among the other axes */
  for (int i = 1, at = 0; i <= n; ++i, ++at) {
    if (at == target)
      permutation[m++] = 0;
    if (i < n)
      permutation[m++] = i;
  }
  x = qn_transposed(x, permutation);
  for (int i = 1; i < t->rank; ++i)
    merged[i - 1] = t->dims[i] * (i - 1 == into ? t->dims[0] : 1);
  return qn_reshape(x, t->rank - 1, merged);
}

qn_val qn_conv_lanes_out(qn_val x, int64_t axis, int64_t groups, int64_t lanes) {
  const qn_type *t = qn_val_type(x);
  if (!qn_val_ok(x))
    return x;
  int64_t dims[QN_MAX_RANK + 2], merged[QN_MAX_RANK + 1];
  int n = 0;
  if (t->rank + (groups > 1 ? 2 : 1) > QN_MAX_RANK)
    return qn_graph_fail(x.graph, QN_HERE, QN_UNSUPPORTED, "convolution: %s has no room for lanes", qn_type_str(t));
  for (int i = 0; i < t->rank; ++i) {
    if (i != axis) {
      dims[n++] = t->dims[i];
      continue;
    }
    if (groups > 1)
      dims[n++] = groups;
    dims[n++] = lanes;
    dims[n++] = t->dims[i] / (groups * lanes);
  }
  x = qn_axis_to_front(qn_reshape(x, n, dims), axis + (groups > 1 ? 1 : 0));
  merged[0] = lanes;
  for (int i = 0; i < t->rank; ++i)
    merged[i + 1] = i == axis ? t->dims[i] / lanes : t->dims[i];
  return qn_reshape(x, t->rank + 1, merged);
}

qn_val qn_conv_groups_into(qn_val x, int64_t axis, int64_t groups, int64_t into) {
  return qn_conv_lanes_into(qn_conv_lanes_out(x, axis, 1, groups), into, 1);
}

static qn_val reversed(qn_val kernel, const qn_attr_conv *a, bool all) {
  int64_t axes[QN_MAX_RANK];
  int n = 0;
  for (int i = 0; i < a->reversal.n; ++i)
    if ((a->reversal.d[i] != 0) != all)
      axes[n++] = a->kernel_spatial.d[i];
  return n ? qn_reverse(kernel, n, axes) : kernel;
}

/* ---- reverse mode ---- */

typedef struct sizes {
  int64_t in, taps, out; /* dilated */
} sizes;

static sizes dilated_sizes(const qn_rule *r, const qn_attr_conv *a, int i) {
  const qn_type *x = qn_val_type(r->in[0]), *y = qn_val_type(r->in[1]), *z = qn_val_type(r->given[0]);
  return (sizes){qn_conv_dilated(x->dims[a->input_spatial.d[i]], a->lhs_dilation.d[i]),
                 qn_conv_dilated(y->dims[a->kernel_spatial.d[i]], a->rhs_dilation.d[i]),
                 qn_conv_dilated(z->dims[a->output_spatial.d[i]], a->stride.d[i])};
}

static qn_val wide(qn_val x, qn_dtype dtype) { return qn_val_type(x)->dtype == dtype ? x : qn_convert(x, dtype); }

static qn_val zeros_of_operand(qn_rule *r, int i) { return qn_full(r->g, *qn_val_type(r->in[i]), 0); }

static qn_val left_cotangent(qn_rule *r) {
  const qn_attr_conv *a = r->attr;
  qn_dtype dtype = qn_val_type(r->given[0])->dtype;
  int64_t groups = a->feature_group_count * a->batch_group_count;
  qn_val kernel = reversed(wide(r->in[1], dtype), a, true);
  if (groups > 1) /* the groups of output features become those of input features */
    kernel = qn_conv_groups_into(kernel, a->kernel_output_feature, groups, a->kernel_input_feature);
  qn_attr_conv t = *a;
  t.stride = a->lhs_dilation;
  t.lhs_dilation = a->stride;
  t.reversal = (qn_dims){.n = a->reversal.n};
  t.input_batch = a->output_batch;
  t.input_feature = a->output_feature;
  t.input_spatial = a->output_spatial;
  t.output_batch = a->input_batch;
  t.output_feature = a->input_feature;
  t.output_spatial = a->input_spatial;
  t.kernel_input_feature = a->kernel_output_feature;
  t.kernel_output_feature = a->kernel_input_feature;
  t.feature_group_count = groups;
  t.batch_group_count = 1;
  for (int i = 0; i < a->stride.n; ++i) {
    sizes s = dilated_sizes(r, a, i);
    t.pad_low.d[i] = s.taps - a->pad_low.d[i] - 1;
    t.pad_high.d[i] = s.in + s.taps - 1 - s.out - t.pad_low.d[i];
  }
  qn_val dx = qn_conv_typed(r->given[0], kernel, &t, dtype);
  if (a->batch_group_count > 1)
    dx = qn_conv_groups_into(dx, a->input_feature, a->batch_group_count, a->input_batch);
  return wide(dx, qn_val_type(r->in[0])->dtype);
}

static qn_val right_cotangent(qn_rule *r) {
  const qn_attr_conv *a = r->attr;
  qn_dtype dtype = qn_val_type(r->given[0])->dtype;
  qn_attr_conv t = *a;
  t.stride = a->rhs_dilation;
  t.rhs_dilation = a->stride;
  t.reversal = (qn_dims){.n = a->reversal.n};
  t.input_batch = a->input_feature;
  t.input_feature = a->input_batch;
  t.kernel_input_feature = a->output_batch;
  t.kernel_output_feature = a->output_feature;
  t.kernel_spatial = a->output_spatial;
  t.output_batch = a->kernel_input_feature;
  t.output_feature = a->kernel_output_feature;
  t.output_spatial = a->kernel_spatial;
  t.feature_group_count = a->batch_group_count;
  t.batch_group_count = a->feature_group_count;
  for (int i = 0; i < a->stride.n; ++i) {
    sizes s = dilated_sizes(r, a, i);
    t.pad_high.d[i] = s.out - s.in + s.taps - a->pad_low.d[i] - 1;
  }
  qn_val dw = reversed(qn_conv_typed(wide(r->in[0], dtype), r->given[0], &t, dtype), a, false);
  return wide(dw, qn_val_type(r->in[1])->dtype);
}

void qn_conv_vjp(qn_rule *r, qn_val *out) {
  if (!qn_val_ok(r->given[0]))
    return;
  bool nothing = qn_type_elements(qn_val_type(r->given[0])) == 0;
  if (r->wanted[0])
    out[0] = nothing ? zeros_of_operand(r, 0) : left_cotangent(r);
  if (r->wanted[1])
    out[1] = nothing ? zeros_of_operand(r, 1) : right_cotangent(r);
}

void qn_conv_jvp(qn_rule *r, qn_val *out) {
  qn_dtype dtype = qn_val_type(r->out[0])->dtype;
  qn_val x = QN_NULL_VAL, y = QN_NULL_VAL;
  if (qn_val_ok(r->given[0]))
    x = qn_conv_typed(r->given[0], r->in[1], r->attr, dtype);
  if (qn_val_ok(r->given[1]))
    y = qn_conv_typed(r->in[0], r->given[1], r->attr, dtype);
  out[0] = !qn_val_ok(x) ? y : qn_val_ok(y) ? qn_add(x, y) : x;
}

/* ---- batching ---- */

void qn_conv_batch(qn_batch *b, qn_val *out) {
  qn_attr_conv a = *(const qn_attr_conv *)b->attr;
  qn_dtype dtype = qn_batch_type(b, 0).dtype;
  int64_t groups = a.feature_group_count, batches = a.batch_group_count, n = b->size;
  qn_val x = b->in[0], y = b->in[1];
  if (n == 0) {
    qn_type z = qn_batch_type(b, 0);
    out[0] = qn_full(b->g, qn_type_lifted(&z, 0), 0);
    return;
  }
  if (b->mapped[0] && b->mapped[1]) { /* each lane is a group of its own */
    x = qn_conv_lanes_into(x, batches > 1 ? a.input_batch : a.input_feature, 1);
    y = qn_conv_lanes_into(y, a.kernel_output_feature, 1);
    *(batches > 1 ? &a.batch_group_count : &a.feature_group_count) *= n;
    out[0] = qn_conv_lanes_out(qn_conv_typed(x, y, &a, dtype), a.output_feature, 1, n);
  } else if (b->mapped[0]) { /* more images */
    x = qn_conv_lanes_into(x, a.input_batch, batches);
    out[0] = qn_conv_lanes_out(qn_conv_typed(x, y, &a, dtype), a.output_batch, 1, n);
  } else { /* more output features */
    y = qn_conv_lanes_into(y, a.kernel_output_feature, groups * batches);
    out[0] = qn_conv_lanes_out(qn_conv_typed(x, y, &a, dtype), a.output_feature, groups * batches, n);
  }
}
