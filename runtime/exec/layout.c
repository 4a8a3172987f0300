/* Layouts: where the leaves of a tree lie in a slab. Offsets follow from order, types and the alignment alone, so equal trees have equal layouts. */
#include "exec_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void qn_layout_entry_text(const qn_layout_entry *e, char *out, size_t size) {
  if (!size)
    return;
  int n = snprintf(out, size, "%s[", qn_dtype_name(e->dtype));
  for (int32_t i = 0; i < e->rank && n >= 0 && (size_t)n < size; i++)
    n += snprintf(out + n, size - (size_t)n, "%s%" PRId64, i ? "," : "", e->dims[i]);
  if (n >= 0 && (size_t)n < size)
    (void)snprintf(out + n, size - (size_t)n, "]");
}

/* Bytes of a leaf; an empty dimension makes it empty, whatever the others are. */
static qn_status leaf_bytes(const char *path, qn_dtype dtype, int rank, const int64_t *dims, uint64_t *out_bytes) {
  uint64_t bytes = qn_dtype_size(dtype);
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0)
      return QN_ERR(QN_INVALID, "layout: leaf \"%s\", dimension %d is %" PRId64 ", expected at least 0", path, i,
                    dims[i]);
    bytes = dims[i] == 0 ? 0 : bytes;
  }
  for (int i = 0; i < rank && bytes; i++) {
    if (bytes > (uint64_t)INT64_MAX / (uint64_t)dims[i])
      return QN_ERR(QN_INVALID, "layout: leaf \"%s\" has more bytes than 63 bits can count", path);
    bytes *= (uint64_t)dims[i];
  }
  *out_bytes = bytes;
  return QN_OK;
}

qn_status qn_layout_add(qn_layout *l, const char *path, qn_dtype dtype, int rank, const int64_t *dims) {
  uint64_t bytes;
  if (!path)
    path = "";
  if (dtype <= QN_DTYPE_NONE || dtype >= QN_DTYPE_COUNT)
    return QN_ERR(QN_INVALID, "layout: leaf \"%s\" has the unknown dtype %d", path, (int)dtype);
  if (rank < 0 || rank > QN_LAYOUT_RANK || (rank && !dims))
    return QN_ERR(QN_INVALID, "layout: leaf \"%s\" has rank %d, expected 0 to %d", path, rank, QN_LAYOUT_RANK);
  if (qn_layout_find(l, path) >= 0)
    return QN_ERR(QN_INVALID, "layout: there are two leaves \"%s\"", path);
  QN_TRY(leaf_bytes(path, dtype, rank, dims, &bytes));
  if (bytes > (uint64_t)INT64_MAX - QN_SLAB_ALIGN - l->bytes)
    return QN_ERR(QN_INVALID, "layout: with leaf \"%s\" the slab has more bytes than 63 bits can count", path);
  char *copy = malloc(strlen(path) + 1);
  if (!copy || !QN_RESERVE(l->entries, l->capacity, l->count + 1)) {
    free(copy);
    return QN_ERR(QN_OUT_OF_MEMORY, "layout: no memory for leaf \"%s\"", path);
  }
  memcpy(copy, path, strlen(path) + 1);
  qn_layout_entry *e = &l->entries[l->count++];
  *e = (qn_layout_entry){.path = copy, .dtype = dtype, .rank = rank, .offset = l->bytes, .bytes = bytes};
  for (int i = 0; i < rank; i++)
    e->dims[i] = dims[i];
  l->bytes += (bytes + QN_SLAB_ALIGN - 1) / QN_SLAB_ALIGN * QN_SLAB_ALIGN;
  return QN_OK;
}

qn_status qn_layout_copy(const qn_layout *from, qn_layout *out_copy) {
  *out_copy = (qn_layout){0};
  qn_layout_entry *entries = calloc(from->count ? from->count : 1, sizeof *entries);
  bool whole = entries != NULL;
  for (size_t i = 0; whole && i < from->count; i++) {
    size_t n = strlen(from->entries[i].path) + 1;
    entries[i] = from->entries[i];
    entries[i].path = malloc(n);
    whole = entries[i].path != NULL;
    if (whole)
      memcpy(entries[i].path, from->entries[i].path, n);
  }
  if (!whole) {
    for (size_t i = 0; entries && i < from->count && entries[i].path; i++)
      free(entries[i].path);
    free(entries);
    return QN_ERR(QN_OUT_OF_MEMORY, "layout: no memory for a copy of %zu leaves", from->count);
  }
  *out_copy = (qn_layout){entries, from->count, from->count ? from->count : 1, from->bytes};
  return QN_OK;
}

ptrdiff_t qn_layout_find(const qn_layout *l, const char *path) {
  for (size_t i = 0; i < l->count; i++)
    if (strcmp(l->entries[i].path, path) == 0)
      return (ptrdiff_t)i;
  return -1;
}

static bool entry_equal(const qn_layout_entry *a, const qn_layout_entry *b) {
  return a->dtype == b->dtype && a->rank == b->rank && a->offset == b->offset && a->bytes == b->bytes &&
         (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0) &&
         strcmp(a->path, b->path) == 0;
}

/* The first place where the layouts differ, or the larger count; equal layouts give their count. */
static size_t first_difference(const qn_layout *a, const qn_layout *b) {
  size_t shared = a->count < b->count ? a->count : b->count;
  for (size_t i = 0; i < shared; i++)
    if (!entry_equal(&a->entries[i], &b->entries[i]))
      return i;
  return shared;
}

bool qn_layout_equal(const qn_layout *a, const qn_layout *b, const char **out_path) {
  size_t at = first_difference(a, b);
  bool equal = at == a->count && at == b->count && a->bytes == b->bytes;
  if (out_path) {
    *out_path = NULL;
    if (!equal)
      *out_path = at < a->count ? a->entries[at].path : at < b->count ? b->entries[at].path : "";
  }
  return equal;
}

qn_status qn_layout_check(const char *what, const qn_layout *expected, const qn_layout *got) {
  if (qn_layout_equal(expected, got, NULL))
    return QN_OK;
  size_t at = first_difference(expected, got);
  const qn_layout_entry *e = at < expected->count ? &expected->entries[at] : NULL;
  const qn_layout_entry *g = at < got->count ? &got->entries[at] : NULL;
  char want[256] = "nothing", came[256] = "nothing";
  if (e)
    qn_layout_entry_text(e, want, sizeof want);
  if (g)
    qn_layout_entry_text(g, came, sizeof came);
  if (e && g && strcmp(e->path, g->path) == 0)
    return QN_ERR(QN_INVALID, "%s: leaf \"%s\" is %s, expected %s", what, e->path, came, want);
  return QN_ERR(QN_INVALID, "%s: leaf %zu is \"%s\" %s, expected \"%s\" %s", what, at, g ? g->path : "", came,
                e ? e->path : "", want);
}

void qn_layout_free(qn_layout *l) {
  for (size_t i = 0; i < l->count; i++)
    free(l->entries[i].path);
  free(l->entries);
  *l = (qn_layout){0};
}
