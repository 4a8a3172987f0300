/* Regions transformed: each becomes another sealed graph whose parameters say what the transform added. */
#include "engine.h"

static qn_status no_memory(qn_graph *g) {
  qn_graph_release(g);
  return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a transform");
}

qn_status qn_region_jvp(const qn_graph *r, int carries, const bool *active, const bool *want, bool *out_has,
                        qn_arena *scratch, qn_graph **out_graph) {
  size_t params = qn_graph_param_count(r), results = qn_graph_result_count(r), n = results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("tangents", &g));
  qn_val *args = QN_NEW(scratch, qn_val, 2 * params + 1), *out = QN_NEW(scratch, qn_val, 3 * results + 1);
  if (!args || !out)
    return no_memory(g);
  qn_val *tangents = args + params, *made = out + 2 * results;
  size_t edges[] = {0, (size_t)carries, params};
  for (int part = 0; part < 2; ++part) {
    for (size_t i = edges[part]; i < edges[part + 1]; ++i)
      args[i] = qn_graph_param(g, *qn_graph_type(r, qn_graph_param_at(r, i)), qn_graph_param_path(r, i));
    for (size_t i = edges[part]; i < edges[part + 1]; ++i)
      if (active[i])
        tangents[i] = qn_graph_param(g, *qn_val_type(args[i]), NULL);
  }
  if (want == NULL) {
    (void)qn_graph_inline(g, r, args, params, out);
    return qn_finish(g, out, n, out_graph);
  }
  bool ok = qn_jvp_into(g, r, args, tangents, out, made);
  for (size_t i = 0; ok && i < results; ++i) {
    out_has[i] = qn_val_ok(made[i]);
    if (want[i])
      out[n++] = out_has[i] ? made[i] : qn_zeros_like(out[i]);
  }
  return qn_finish(g, out, n, out_graph);
}

qn_status qn_region_vmap(const qn_graph *r, int64_t size, const bool *mapped, const bool *want, bool *out_mapped,
                         qn_arena *scratch, qn_graph **out_graph) {
  size_t params = qn_graph_param_count(r), results = qn_graph_result_count(r);
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("lanes", &g));
  qn_val *args = QN_NEW(scratch, qn_val, params + 1), *out = QN_NEW(scratch, qn_val, results + 1);
  if (!args || !out)
    return no_memory(g);
  for (size_t i = 0; i < params; ++i) {
    qn_type t = *qn_graph_type(r, qn_graph_param_at(r, i));
    int64_t dims[QN_MAX_RANK + 1] = {size};
    for (int k = 0; k < t.rank; ++k)
      dims[k + 1] = t.dims[k];
    if (mapped[i] && t.rank >= QN_MAX_RANK)
      (void)qn_graph_fail(g, QN_HERE, QN_UNSUPPORTED, "vmap: a value of rank %d has no room for one more axis", t.rank);
    args[i] = qn_graph_param(g, mapped[i] && t.rank < QN_MAX_RANK ? qn_type_make(t.dtype, t.rank + 1, dims) : t,
                             qn_graph_param_path(r, i));
  }
  bool ok = qn_vmap_into(g, r, size, args, mapped, out, out_mapped);
  for (size_t i = 0; ok && i < results; ++i)
    if (want != NULL && want[i] && !out_mapped[i])
      out[i] = qn_with_lanes(out[i], size);
  return qn_finish(g, out, results, out_graph);
}

qn_status qn_region_vjp(const qn_graph *r, const bool *wanted, const bool *given, bool *out_has, qn_arena *scratch,
                        qn_graph **out_graph) {
  size_t params = qn_graph_param_count(r), results = qn_graph_result_count(r), n = results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("cotangents", &g));
  qn_val *args = QN_NEW(scratch, qn_val, 2 * params + 1), *cts = QN_NEW(scratch, qn_val, results + 1),
         *out = QN_NEW(scratch, qn_val, results + params + 1);
  if (!args || !cts || !out)
    return no_memory(g);
  qn_val *grads = args + params;
  qn_copy_params(g, r, args);
  for (size_t i = 0; i < results; ++i)
    if (given[i])
      cts[i] = qn_graph_param(g, *qn_graph_type(r, qn_graph_result(r, i)), NULL);
  bool ok = qn_vjp_into(g, r, args, wanted, cts, out, grads);
  for (size_t i = 0; ok && i < params; ++i) {
    out_has[i] = qn_val_ok(grads[i]);
    if (out_has[i])
      out[n++] = grads[i];
  }
  return qn_finish(g, out, n, out_graph);
}
