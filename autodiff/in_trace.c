/* Transforms of C functions inside a trace: the function is traced into a region, transformed, and inlined where it is called. */
#include "engine.h"

/* Lanes at an axis that may count from the end; -1: no such axis. */
static int64_t lanes_at(const qn_type *t, int axis) {
  axis = axis < 0 ? axis + t->rank : axis;
  return axis < 0 || axis >= t->rank ? -1 : t->dims[axis];
}

static bool take_axis(qn_type *t, int axis) {
  if (lanes_at(t, axis) < 0)
    return false;
  for (int d = axis < 0 ? axis + t->rank : axis; d + 1 < t->rank; ++d)
    t->dims[d] = t->dims[d + 1];
  t->dims[--t->rank] = 0;
  return true;
}

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
      int64_t n = lanes_at(&t, in_axes[i]);
      if (n < 0 || (lanes >= 0 && n != lanes)) {
        (void)qn_graph_fail(g, at, QN_INVALID, "vmap: operand %zu is %s, axis %d does not have the lanes", i,
                            qn_type_str(&t), in_axes[i]);
        return;
      }
      lanes = n;
      (void)take_axis(&t, in_axes[i]);
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

/* ---- trees ---- */
typedef struct tree_call {
  qn_tree_fn fn;
  void *user;
  qn_tree *const *args;
  size_t arg_count, result_count;
  const char **paths; /* of the result */
} tree_call;

/* The leaves that fn is given, as trees of their graph, and the tree that it gives. */
static qn_tree *call_tree(qn_graph *g, const qn_val *in, const tree_call *c) {
  qn_tree **trees = QN_NEW(qn_graph_arena(g), qn_tree *, c->arg_count + 1);
  size_t n = 0;
  for (size_t a = 0; trees != NULL && a < c->arg_count; ++a) {
    trees[a] = qn_tree_create(g);
    for (size_t i = 0; trees[a] != NULL && i < c->args[a]->count; ++i)
      qn_tree_set(trees[a], c->args[a]->leaves[i].path, in[n++]);
  }
  return trees != NULL && !qn_graph_failed(g) ? c->fn(g, trees, c->user) : NULL;
}

static void tree_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  tree_call *c = user;
  const qn_tree *t = call_tree(g, in, c);
  for (size_t i = 0; t != NULL && i < c->result_count && i < t->count; ++i)
    out[i] = t->leaves[i].val;
}

/* How many leaves the result has and where: fn is traced once for that alone. */
static bool find_result(qn_place at, qn_graph *g, tree_call *c, const qn_type *types, size_t leaves) {
  qn_graph *probe = qn_region_open(g, "vmap");
  qn_val *in = probe != NULL ? QN_NEW(qn_graph_arena(probe), qn_val, leaves + 1) : NULL;
  if (in == NULL)
    return false;
  for (size_t i = 0; i < leaves; ++i)
    in[i] = qn_graph_param(probe, types[i], NULL);
  const qn_tree *t = call_tree(probe, in, c);
  if (t == NULL || qn_graph_failed(probe)) {
    const qn_val *captures;
    size_t count;
    if (!qn_graph_failed(probe))
      (void)qn_graph_fail(g, at, QN_INVALID, "vmap: the function gave no tree");
    else
      (void)qn_region_seal(probe, NULL, 0, &captures, &count);
    return false;
  }
  c->result_count = t->count;
  c->paths = QN_NEW(qn_graph_arena(g), const char *, t->count + 1);
  for (size_t i = 0; c->paths != NULL && i < t->count; ++i)
    c->paths[i] = qn_arena_strdup(qn_graph_arena(g), t->leaves[i].path);
  return c->paths != NULL;
}

qn_tree *qn_vmap_tree_at(qn_place at, qn_graph *g, qn_tree_fn fn, void *user, qn_tree *const *args, const int *in_axes,
                         size_t arg_count, qn_leaf_axis_fn leaf_axis, int out_axis) {
  tree_call c = {.fn = fn, .user = user, .args = args, .arg_count = arg_count};
  size_t leaves = 0, n = 0;
  if (g == NULL || qn_graph_failed(g))
    return NULL;
  for (size_t a = 0; a < arg_count; ++a)
    leaves += args[a]->count;
  qn_arena *arena = qn_graph_arena(g);
  qn_val *in = QN_NEW(arena, qn_val, leaves + 1);
  qn_type *types = QN_NEW(arena, qn_type, leaves + 1);
  int *axes = QN_NEW(arena, int, leaves + 1);
  if (in == NULL || types == NULL || axes == NULL) {
    (void)qn_no_memory(g);
    return NULL;
  }
  for (size_t a = 0; a < arg_count; ++a)
    for (size_t i = 0; i < args[a]->count; ++i, ++n) {
      in[n] = args[a]->leaves[i].val;
      int own = leaf_axis != NULL ? leaf_axis(a, args[a]->leaves[i].path, user) : QN_AXIS_OF_ARGUMENT;
      axes[n] = own == QN_AXIS_OF_ARGUMENT ? in_axes[a] : own;
      types[n] = *qn_val_type(in[n]);
      if (axes[n] != QN_NO_LANES && !take_axis(&types[n], axes[n])) {
        (void)qn_graph_fail(g, at, QN_INVALID, "vmap: '%s' of argument %zu is %s, which has no axis %d",
                            args[a]->leaves[i].path, a, qn_type_str(&types[n]), axes[n]);
        return NULL;
      }
    }
  if (!find_result(at, g, &c, types, leaves))
    return NULL;
  int *out_axes = QN_NEW(arena, int, c.result_count + 1);
  qn_val *out = QN_NEW(arena, qn_val, c.result_count + 1);
  qn_tree *result = qn_tree_create(g);
  if (out_axes == NULL || out == NULL || result == NULL) {
    (void)qn_no_memory(g);
    return NULL;
  }
  for (size_t i = 0; i < c.result_count; ++i)
    out_axes[i] = out_axis;
  qn_vmap_at(at, g, tree_body, &c, in, axes, leaves, out_axes, out, c.result_count);
  for (size_t i = 0; i < c.result_count && !qn_graph_failed(g); ++i)
    qn_tree_set_at(at, result, c.paths[i], out[i]);
  return qn_graph_failed(g) ? NULL : result;
}
