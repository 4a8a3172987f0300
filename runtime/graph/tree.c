/* Symbolic trees: ordered leaves with path names, in the arena of their graph. */
#include "graph_impl.h"
#include "quern/tree.h"

#include <string.h>

qn_tree *qn_tree_create(qn_graph *g) {
  qn_tree *t = g ? QN_NEW(&g->arena, qn_tree, 1) : NULL;
  if (t)
    t->graph = g;
  else if (g)
    (void)qn_graph_fail(g, (qn_place){0}, QN_OUT_OF_MEMORY, "tree: no memory");
  return t;
}

static qn_leaf *find(const qn_tree *t, const char *path) {
  for (size_t i = 0; i < t->count; i++)
    if (strcmp(t->leaves[i].path, path) == 0)
      return &t->leaves[i];
  return NULL;
}

/* The rest of `path` below `prefix`, or NULL. The empty prefix holds everything. */
static const char *below(const char *path, const char *prefix) {
  size_t n = strlen(prefix);
  if (n == 0)
    return path;
  if (strncmp(path, prefix, n) != 0)
    return NULL;
  return path[n] == '/' ? path + n + 1 : NULL;
}

static bool reserve(qn_tree *t, size_t need) {
  if (need <= t->capacity)
    return true;
  size_t grown = t->capacity ? t->capacity * 2 : 8;
  while (grown < need)
    grown *= 2;
  qn_leaf *leaves = QN_NEW(&t->graph->arena, qn_leaf, grown);
  if (!leaves)
    return false;
  if (t->count)
    memcpy(leaves, t->leaves, t->count * sizeof *leaves);
  t->leaves = leaves;
  t->capacity = grown;
  return true;
}

void qn_tree_set_at(qn_place at, qn_tree *t, const char *path, qn_val v) {
  if (!t)
    return;
  if (qn_val_ok(v) && v.graph != t->graph && qn_graph_sees(t->graph, v.graph))
    v = qn_graph_use(t->graph, v);
  if (qn_val_ok(v) ? v.graph != t->graph : !qn_graph_failed(t->graph)) {
    (void)qn_graph_fail(t->graph, at, QN_INVALID, "tree: the value for '%s' %s", path,
                        qn_val_ok(v) ? "belongs to another graph" : "is the null value");
    return;
  }
  qn_leaf *leaf = find(t, path);
  if (leaf) {
    leaf->val = v;
    return;
  }
  const char *own = reserve(t, t->count + 1) ? qn_arena_strdup(&t->graph->arena, path) : NULL;
  if (own)
    t->leaves[t->count++] = (qn_leaf){own, v};
  else
    (void)qn_graph_fail(t->graph, at, QN_OUT_OF_MEMORY, "tree: no memory");
}

void qn_tree_put_at(qn_place at, qn_tree *t, const char *prefix, const qn_tree *sub) {
  for (size_t i = 0; t && sub && i < sub->count; i++) {
    const char *rest = sub->leaves[i].path;
    const char *path = !*prefix ? rest : !*rest ? prefix : qn_arena_printf(&t->graph->arena, "%s/%s", prefix, rest);
    if (path)
      qn_tree_set_at(at, t, path, sub->leaves[i].val);
    else
      (void)qn_graph_fail(t->graph, at, QN_OUT_OF_MEMORY, "tree: no memory");
  }
}

/* Some of the names there are, for messages. */
static void list_paths(const qn_tree *t, char *out, size_t size) {
  size_t at = 0;
  out[0] = '\0';
  for (size_t i = 0; i < t->count && at < size; i++) {
    int n = snprintf(out + at, size - at, "%s%s", i ? ", " : "", i == 6 ? "..." : t->leaves[i].path);
    if (n < 0 || i == 6)
      break;
    at += (size_t)n;
  }
}

qn_val qn_tree_get_at(qn_place at, const qn_tree *t, const char *path) {
  if (!t)
    return QN_NULL_VAL;
  const qn_leaf *leaf = find(t, path);
  if (leaf)
    return leaf->val;
  char names[256];
  list_paths(t, names, sizeof names);
  return qn_graph_fail(t->graph, at, QN_NOT_FOUND, "tree: no leaf '%s' (there are: %s)", path, names);
}

bool qn_tree_has(const qn_tree *t, const char *path) {
  if (!t)
    return false;
  for (size_t i = 0; i < t->count; i++)
    if (strcmp(t->leaves[i].path, path) == 0 || below(t->leaves[i].path, path))
      return true;
  return false;
}

qn_tree *qn_tree_sub_at(qn_place at, const qn_tree *t, const char *prefix) {
  qn_tree *sub = qn_tree_part_at(at, t, prefix);
  if (sub && sub->count == 0 && *prefix) {
    char names[256];
    list_paths(t, names, sizeof names);
    (void)qn_graph_fail(t->graph, at, QN_NOT_FOUND, "tree: nothing under '%s/' (there are: %s)", prefix, names);
  }
  return sub;
}

qn_tree *qn_tree_part_at(qn_place at, const qn_tree *t, const char *prefix) {
  if (!t)
    return NULL;
  qn_tree *sub = qn_tree_create(t->graph);
  if (!sub)
    return NULL;
  for (size_t i = 0; i < t->count; i++) {
    const char *rest = below(t->leaves[i].path, prefix);
    if (!rest && strcmp(t->leaves[i].path, prefix) == 0)
      rest = ""; /* the subtree is one leaf */
    if (!rest)
      continue;
    if (!reserve(sub, sub->count + 1)) {
      (void)qn_graph_fail(t->graph, at, QN_OUT_OF_MEMORY, "tree: no memory");
      return sub;
    }
    sub->leaves[sub->count++] = (qn_leaf){rest, t->leaves[i].val};
  }
  return sub;
}

qn_tree *qn_tree_map_at(qn_place at, qn_tree *const *trees, size_t count, qn_leaf_fn fn, void *user) {
  enum { MOST = 16 };
  if (count == 0 || !trees[0])
    return NULL;
  const qn_tree *first = trees[0];
  qn_graph *g = first->graph;
  qn_tree *out = qn_tree_create(g);
  if (count > MOST)
    (void)qn_graph_fail(g, at, QN_INVALID, "tree: map of %zu trees, at most %d", count, (int)MOST);
  for (size_t k = 1; k < count && !qn_graph_failed(g); k++) {
    if (!trees[k] || trees[k]->count != first->count) {
      (void)qn_graph_fail(g, at, QN_INVALID, "tree: map of trees with %zu and %zu leaves", first->count,
                          trees[k] ? trees[k]->count : 0);
    } else {
      for (size_t i = 0; i < first->count; i++)
        if (!find(trees[k], first->leaves[i].path)) {
          (void)qn_graph_fail(g, at, QN_INVALID, "tree: map: tree %zu has no leaf '%s'", k, first->leaves[i].path);
          break;
        }
    }
  }
  if (!out || qn_graph_failed(g))
    return out;
  for (size_t i = 0; i < first->count; i++) {
    qn_val leaves[MOST];
    const char *path = first->leaves[i].path;
    for (size_t k = 0; k < count; k++) {
      bool lined_up = strcmp(trees[k]->leaves[i].path, path) == 0;
      leaves[k] = lined_up ? trees[k]->leaves[i].val : find(trees[k], path)->val;
    }
    qn_tree_set_at(at, out, path, fn(g, leaves, path, user));
  }
  return out;
}
