/* Trees of values: parameters, optimizer states, batches. A tree is an ordered list of leaves with path names ("layers/0/w"); a dict is a
 * path component by name, a list one by number. The same paths appear in checkpoints, explain and messages.
 *
 * Symbolic trees live in a graph's arena and hold values; tree definitions (qn_treedef) hold paths and types, are owned by the caller
 * and know no graph. Lookups that fail stick to the graph and give the null value or an empty tree. */
#ifndef QUERN_TREE_H
#define QUERN_TREE_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_leaf {
  const char *path;
  qn_val val;
} qn_leaf;
typedef struct qn_tree {
  qn_graph *graph;
  qn_leaf *leaves;
  size_t count, capacity;
} qn_tree;

typedef struct qn_treedef_leaf {
  char *path;
  qn_type type;
} qn_treedef_leaf;
typedef struct qn_treedef {
  qn_treedef_leaf *leaves;
  size_t count, capacity;
} qn_treedef; /* all zero is a valid empty definition */

/* ---- symbolic ---- */
qn_tree *qn_tree_create(qn_graph *g); /* NULL only when memory is gone (the graph has failed then) */
void qn_tree_set_at(qn_place at, qn_tree *t, const char *path,
                    qn_val v); /* replaces a leaf of that path, else appends */
#define qn_tree_set(t, path, v) qn_tree_set_at(QN_HERE, t, path, v)
void qn_tree_put_at(qn_place at, qn_tree *t, const char *prefix,
                    const qn_tree *sub); /* every leaf of sub under prefix/ */
#define qn_tree_put(t, prefix, sub) qn_tree_put_at(QN_HERE, t, prefix, sub)
qn_val qn_tree_get_at(qn_place at, const qn_tree *t, const char *path);
#define qn_tree_get(t, path) qn_tree_get_at(QN_HERE, t, path)
bool qn_tree_has(const qn_tree *t, const char *path);                       /* a leaf, or a subtree under path/ */
qn_tree *qn_tree_sub_at(qn_place at, const qn_tree *t, const char *prefix); /* leaves under prefix/, prefix removed */
#define qn_tree_sub(t, prefix) qn_tree_sub_at(QN_HERE, t, prefix)
/* The same, but a tree without any such leaf is fine and gives an empty one: a model may have no moving statistics. */
qn_tree *qn_tree_part_at(qn_place at, const qn_tree *t, const char *prefix);
#define qn_tree_part(t, prefix) qn_tree_part_at(QN_HERE, t, prefix)
/* New tree with fn of the leaves at the same place of `count` trees that must have the same paths. */
typedef qn_val (*qn_leaf_fn)(qn_graph *g, const qn_val *leaves, const char *path, void *user);
qn_tree *qn_tree_map_at(qn_place at, qn_tree *const *trees, size_t count, qn_leaf_fn fn, void *user);
#define qn_tree_map(trees, count, fn, user) qn_tree_map_at(QN_HERE, trees, count, fn, user)

/* ---- definitions ---- */
qn_status qn_treedef_add(qn_treedef *d, const char *path,
                         qn_type type); /* QN_INVALID on a path that is there already */
qn_status qn_treedef_put(qn_treedef *d, const char *prefix, const qn_treedef *sub);
ptrdiff_t qn_treedef_find(const qn_treedef *d, const char *path); /* -1: absent */
qn_status qn_treedef_copy(const qn_treedef *from, qn_treedef *out_copy);
bool qn_treedef_equal(const qn_treedef *a, const qn_treedef *b,
                      const char **out_path); /* *out_path: the first leaf that differs */
void qn_treedef_free(qn_treedef *d);

/* ---- tracing ---- */
/* A function of trees that builds its result with builders. It may be called any number of times and must not keep values. */
typedef qn_tree *(*qn_tree_fn)(qn_graph *g, qn_tree *const *args, void *user);
/* A traced function: a sealed graph and the trees that its parameters and results flatten from. */
typedef struct qn_traced {
  qn_graph *graph;
  qn_treedef *args; /* arg_count of them, in order; leaves are the graph's parameters one after the other */
  size_t arg_count;
  qn_treedef result;
} qn_traced;
qn_status qn_trace(qn_tree_fn fn, void *user, const char *name, const qn_treedef *args, size_t arg_count,
                   qn_traced *out_traced);
void qn_traced_free(qn_traced *t);

#ifdef __cplusplus
}
#endif
#endif
