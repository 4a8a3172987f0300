/* Regions as functions: which values they capture, and the same region with other captures. */
#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- traced in place ---- */
bool qn_graph_sees(const qn_graph *g, const qn_graph *outer) {
  while (g && g != outer)
    g = g->parent;
  return g != NULL;
}

qn_graph *qn_region_open(qn_graph *around, const char *name) {
  qn_graph *g = NULL;
  if (!around || around->sealed || around->failed != QN_OK)
    return NULL;
  qn_graph **held = qn_graph_create(name, &g) == QN_OK ? qn_table_push(&around->held, &around->arena, sizeof g) : NULL;
  if (held == NULL) {
    qn_graph_release(g);
    (void)qn_graph_fail(around, (qn_place){0}, QN_OUT_OF_MEMORY, "%s: no memory", name);
    return NULL;
  }
  g->parent = around;
  return *held = g;
}

qn_graph *qn_region_seal(qn_graph *region, const qn_val *results, size_t count, const qn_val **out_captures,
                         size_t *out_capture_count) {
  qn_graph *around = region->parent;
  qn_val *own = QN_NEW(&region->arena, qn_val, count + 1);
  for (size_t i = 0; own && i < count; i++)
    own[i] = qn_val_ok(results[i]) && qn_graph_sees(region, results[i].graph) ? qn_graph_use(region, results[i])
                                                                              : results[i];
  qn_status st = own ? qn_graph_seal(region, own, count) : QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory", region->name);
  region->parent = NULL;
  if (st == QN_OK && around->failed == QN_OK) {
    *out_captures = region->captured;
    *out_capture_count = region->captured_count;
    return region;
  }
  if (st != QN_OK)
    (void)qn_graph_fail(around, (qn_place){0}, st, "%s", qn_error_message());
  return NULL;
}

/* ---- other captures ---- */
static size_t find_val(const qn_val *list, size_t count, qn_val v) {
  size_t i = 0;
  while (i < count && !qn_val_same(list[i], v))
    i++;
  return i;
}

/* Parameters of the new graph: the region's own, then one for each value of `all`; args are what the region itself takes. */
static qn_status with_captures(qn_graph *g, const qn_graph *region, size_t own, const qn_val *have, size_t have_count,
                               const qn_val *all, size_t all_count, qn_val *args, qn_val *captured, qn_val *results) {
  for (size_t i = 0; i < own; i++)
    args[i] = qn_graph_param(g, *qn_graph_type(region, qn_graph_param_at(region, i)), qn_graph_param_path(region, i));
  for (size_t i = 0; i < all_count; i++)
    captured[i] = qn_graph_param(g, *qn_val_type(all[i]), NULL);
  for (size_t i = 0; i < have_count; i++) {
    size_t at = find_val(all, all_count, have[i]);
    args[own + i] = at < all_count ? captured[at] : QN_NULL_VAL;
  }
  if (!qn_graph_failed(g))
    (void)qn_graph_inline(g, region, args, own + have_count, results);
  return qn_graph_seal(g, results, qn_graph_result_count(region));
}

qn_status qn_region_capture(const qn_graph *region, const qn_val *have, size_t have_count, const qn_val *all,
                            size_t all_count, qn_graph **out_region) {
  bool same = have_count == all_count;
  for (size_t i = 0; same && i < all_count; i++)
    same = qn_val_same(have[i], all[i]);
  *out_region = same ? qn_graph_retain(region) : NULL;
  if (same)
    return QN_OK;
  size_t params = qn_graph_param_count(region), own = params - have_count;
  size_t results = qn_graph_result_count(region);
  qn_val *room = calloc(params + all_count + results + 1, sizeof *room);
  qn_graph *g = NULL;
  qn_status st = QN_OK;
  if (room == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory", qn_graph_name(region));
  QN_TRY_GOTO(st, qn_graph_create(qn_graph_name(region), &g), done);
  QN_TRY_GOTO(
      st,
      with_captures(g, region, own, have, have_count, all, all_count, room, room + params, room + params + all_count),
      done);
done:
  free(room);
  if (st == QN_OK)
    *out_region = g;
  else
    qn_graph_release(g);
  return st;
}
