/* Transforms of C functions inside a trace: the function is traced into a region, transformed, and inlined where it is called. */
#include "engine.h"

void qn_vmap_at(qn_place at, qn_graph *g, qn_body_fn fn, void *user, const qn_val *in, const int *in_axes, size_t count,
                const int *out_axes, qn_val *out, size_t out_count) {
  for (size_t i = 0; i < out_count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *region = qn_region_open(g, "vmap");
  if (region == NULL)
    return;
  qn_arena *arena = qn_graph_arena(region);
  qn_val *args = QN_NEW(arena, qn_val, count + 1), *results = QN_NEW(arena, qn_val, out_count + 1);
  if (args == NULL || results == NULL) {
    (void)qn_no_memory(g);
    return;
  }
  int64_t lanes = -1;
  for (size_t i = 0; i < count; ++i) {
    qn_type t = *qn_val_type(in[i]);
    if (in_axes[i] != QN_NO_LANES) {
      int axis = in_axes[i] < 0 ? in_axes[i] + t.rank : in_axes[i];
      if (axis < 0 || axis >= t.rank || (lanes >= 0 && t.dims[axis] != lanes)) {
        (void)qn_graph_fail(g, at, QN_INVALID, "vmap: operand %zu is %s, axis %d does not have the lanes", i,
                            qn_type_str(&t), in_axes[i]);
        return;
      }
      lanes = t.dims[axis];
      for (int d = axis; d + 1 < t.rank; ++d)
        t.dims[d] = t.dims[d + 1];
      t.dims[--t.rank] = 0;
    }
    args[i] = qn_graph_param(region, t, NULL);
  }
  if (lanes < 0) {
    (void)qn_graph_fail(g, at, QN_INVALID, "vmap: no operand has lanes");
    return;
  }
  fn(region, args, results, user);
  const qn_val *captures = NULL;
  size_t captured = 0;
  qn_graph *f = qn_region_seal(region, results, out_count, &captures, &captured), *mapped = NULL;
  int *axes = f != NULL ? QN_NEW(qn_graph_arena(g), int, count + captured + 1) : NULL;
  qn_val *all = f != NULL ? QN_NEW(qn_graph_arena(g), qn_val, count + captured + 1) : NULL;
  if (axes == NULL || all == NULL)
    return;
  for (size_t i = 0; i < count + captured; ++i) {
    axes[i] = i < count ? in_axes[i] : QN_NO_LANES;
    all[i] = i < count ? in[i] : captures[i - count];
  }
  qn_transform t = {.kind = QN_TRANSFORM_VMAP, .lanes = lanes, .in_axes = axes, .out_axes = out_axes};
  qn_status st = qn_transform_graph(f, &t, &mapped);
  if (st == QN_OK)
    (void)qn_graph_inline(g, mapped, all, count + captured, out);
  else
    (void)qn_graph_fail(g, at, st, "%s", qn_error_message());
  qn_graph_release(mapped);
}
