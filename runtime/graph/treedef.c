/* Tree definitions: paths and types without a graph, owned by the caller. */
#include "quern/tree.h"

#include <stdlib.h>
#include <string.h>

static qn_status add(qn_treedef *d, const char *prefix, const char *rest, qn_type type) {
  size_t n = strlen(prefix), m = strlen(rest);
  char *path = malloc(n + m + 2);
  if (!path || !QN_RESERVE(d->leaves, d->capacity, d->count + 1)) {
    free(path);
    return QN_ERR(QN_OUT_OF_MEMORY, "tree: no memory");
  }
  memcpy(path, prefix, n);
  if (n && m)
    path[n++] = '/';
  memcpy(path + n, rest, m + 1);
  if (qn_treedef_find(d, path) >= 0) {
    qn_status st = QN_ERR(QN_INVALID, "tree: '%s' is there twice", path);
    free(path);
    return st;
  }
  d->leaves[d->count++] = (qn_treedef_leaf){path, type};
  return QN_OK;
}

qn_status qn_treedef_add(qn_treedef *d, const char *path, qn_type type) { return add(d, "", path, type); }

qn_status qn_treedef_put(qn_treedef *d, const char *prefix, const qn_treedef *sub) {
  for (size_t i = 0, n = sub->count; i < n; i++)
    QN_TRY(add(d, prefix, sub->leaves[i].path, sub->leaves[i].type));
  return QN_OK;
}

ptrdiff_t qn_treedef_find(const qn_treedef *d, const char *path) {
  for (size_t i = 0; i < d->count; i++)
    if (strcmp(d->leaves[i].path, path) == 0)
      return (ptrdiff_t)i;
  return -1;
}

qn_status qn_treedef_copy(const qn_treedef *from, qn_treedef *out_copy) {
  *out_copy = (qn_treedef){0};
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_treedef_put(out_copy, "", from), done);
done:
  if (st != QN_OK)
    qn_treedef_free(out_copy);
  return st;
}

bool qn_treedef_equal(const qn_treedef *a, const qn_treedef *b, const char **out_path) {
  size_t n = a->count < b->count ? a->count : b->count;
  if (out_path)
    *out_path = NULL;
  for (size_t i = 0; i < n; i++)
    if (strcmp(a->leaves[i].path, b->leaves[i].path) != 0 || !qn_type_equal(&a->leaves[i].type, &b->leaves[i].type)) {
      if (out_path)
        *out_path = a->leaves[i].path;
      return false;
    }
  if (a->count == b->count)
    return true;
  if (out_path)
    *out_path = (a->count > n ? a : b)->leaves[n].path;
  return false;
}

void qn_treedef_free(qn_treedef *d) {
  for (size_t i = 0; i < d->count; i++)
    free(d->leaves[i].path);
  free(d->leaves);
  *d = (qn_treedef){0};
}
