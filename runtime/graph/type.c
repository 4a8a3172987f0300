/* Tensor types: making, comparing, sizes, and the two ways they print. */
#include "graph_impl.h"

#include <inttypes.h>
#include <string.h>

qn_type qn_type_make(qn_dtype dtype, int rank, const int64_t *dims) {
  qn_type t = {.dtype = dtype, .rank = rank};
  for (int i = 0; i < rank && i < QN_MAX_RANK; i++)
    t.dims[i] = dims[i];
  return t;
}

qn_type qn_type_scalar(qn_dtype dtype) { return (qn_type){.dtype = dtype}; }

bool qn_dims_has(const qn_dims *dims, int64_t axis) {
  for (int i = 0; i < dims->n; ++i)
    if (dims->d[i] == axis)
      return true;
  return false;
}

bool qn_type_same_but_units(const qn_type *a, const qn_type *b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a->rank && a->dims[i] == 1)
      i++;
    while (j < b->rank && b->dims[j] == 1)
      j++;
    if (i == a->rank || j == b->rank)
      return i == a->rank && j == b->rank;
    if (a->dims[i++] != b->dims[j++])
      return false;
  }
}

bool qn_type_same_shape(const qn_type *a, const qn_type *b) {
  if (a->rank != b->rank)
    return false;
  for (int i = 0; i < a->rank && i < QN_MAX_RANK; i++)
    if (a->dims[i] != b->dims[i])
      return false;
  return true;
}

bool qn_type_equal(const qn_type *a, const qn_type *b) { return a->dtype == b->dtype && qn_type_same_shape(a, b); }

int64_t qn_type_elements(const qn_type *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= t->dims[i];
  return n;
}

int64_t qn_type_bytes(const qn_type *t) { return qn_type_elements(t) * (int64_t)qn_dtype_size(t->dtype); }

qn_status qn_type_check(const qn_type *t, const char *what) {
  if (t->dtype <= QN_DTYPE_NONE || t->dtype >= QN_DTYPE_COUNT)
    return QN_ERR(QN_INVALID, "%s: type has no dtype", what);
  if (t->rank < 0 || t->rank > QN_MAX_RANK)
    return QN_ERR(QN_INVALID, "%s: rank %d, expected 0 to %d", what, (int)t->rank, (int)QN_MAX_RANK);
  /* Zero dimensions do not hide an overflow among the others: strides are computed from them too. */
  int64_t bytes = (int64_t)qn_dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    int64_t d = t->dims[i];
    if (d < 0)
      return QN_ERR(QN_INVALID, "%s: dimension %d is %" PRId64 ", expected 0 or more", what, i, d);
    if (d > 0 && bytes > INT64_MAX / 2 / d)
      return QN_ERR(QN_INVALID, "%s: a tensor of %s is too large", what, qn_type_str(t));
    bytes *= d > 0 ? d : 1;
  }
  return QN_OK;
}

void qn_type_print(const qn_type *t, qn_text *out) {
  qn_text_puts(out, "tensor<");
  for (int i = 0; i < t->rank && i < QN_MAX_RANK; i++)
    qn_text_add(out, "%" PRId64 "x", t->dims[i]);
  qn_text_puts(out, qn_dtype_mlir_name(t->dtype));
  qn_text_puts(out, ">");
}

enum { RING = 8, RING_TEXT = 288 };

const char *qn_type_str(const qn_type *t) {
  static _Thread_local char ring[RING][RING_TEXT];
  static _Thread_local unsigned next;
  char *s = ring[next++ % RING];
  int at = snprintf(s, RING_TEXT, "%s[", t->dtype == QN_DTYPE_NONE ? "none" : qn_dtype_name(t->dtype));
  for (int i = 0; i < t->rank && i < QN_MAX_RANK && at < RING_TEXT; i++)
    at += snprintf(s + at, (size_t)(RING_TEXT - at), "%s%" PRId64, i ? "," : "", t->dims[i]);
  if (at < RING_TEXT)
    (void)snprintf(s + at, (size_t)(RING_TEXT - at), "]");
  return s;
}
