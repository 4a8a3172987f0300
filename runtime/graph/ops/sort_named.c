/* Builders of sorts with the usual orders: by one or more keys, places instead of elements. */
#include "infer.h"
#include "move_shape.h"
#include "sort.h"

#include <stdlib.h>

/* Does a come strictly before b: numbers by value, -0 and +0 equal, every NaN behind them? */
static qn_val comes_before(qn_val a, qn_val b) {
  qn_val less = qn_lt(a, b);
  if (!qn_dtype_is_float(qn_val_type(a)->dtype))
    return less;
  return qn_or(less, qn_and(qn_ne(b, b), qn_eq(a, a)));
}

/* Keys compare one after another; the first that differs decides. */
static qn_status keys_region(const qn_val *x, size_t count, size_t keys, bool descending, qn_graph **out_region) {
  QN_TRY(qn_graph_create("region", out_region));
  qn_graph *g = *out_region;
  qn_val y = QN_NULL_VAL, *pairs = QN_NEW(qn_graph_arena(g), qn_val, 2 * count);
  for (size_t i = 0; pairs != NULL && i < 2 * count; ++i)
    pairs[i] = qn_graph_param(g, qn_type_scalar(qn_val_type(x[i / 2])->dtype), NULL);
  for (size_t i = keys; pairs != NULL && i > 0; --i) {
    qn_val a = pairs[2 * i - 2 + descending], b = pairs[2 * i - 1 - descending];
    qn_val less = comes_before(a, b);
    y = qn_val_ok(y) ? qn_or(less, qn_and(y, qn_not(comes_before(b, a)))) : less;
  }
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(g);
    *out_region = NULL;
  }
  return st;
}

void qn_sort_at(qn_place at, const qn_val *x, size_t count, int64_t axis, qn_graph *comparator, qn_val *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("sort", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  if (comparator == NULL) {
    (void)qn_graph_fail(g, at, QN_INVALID, "sort: the comparator is missing");
    return;
  }
  qn_attr_sort a = {.dimension = axis < 0 ? axis + qn_val_type(x[0])->rank : axis, .is_stable = true};
  qn_val first = qn_graph_add(g, QN_OP_SORT, x, count, &a, &comparator, 1, at);
  for (size_t i = 0; i < count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}

void qn_sort_keys_at(qn_place at, const qn_val *x, size_t count, size_t keys, int64_t axis, bool descending,
                     qn_val *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("sort_keys", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  if (keys < 1 || keys > count) {
    (void)qn_graph_fail(g, at, QN_INVALID, "sort_keys: %zu keys, expected 1..%zu", keys, count);
    return;
  }
  for (size_t i = 0; i < keys; ++i)
    if (qn_dtype_is_complex(qn_val_type(x[i])->dtype)) {
      (void)qn_graph_fail(g, at, QN_INVALID, "sort_keys: key %zu is %s, expected ordered elements", i,
                          qn_type_str(qn_val_type(x[i])));
      return;
    }
  qn_graph *less = NULL;
  qn_status st = keys_region(x, count, keys, descending, &less);
  if (st != QN_OK) {
    (void)qn_graph_fail(g, at, st, "sort_keys: %s", qn_error_message());
    return;
  }
  qn_sort_at(at, x, count, axis, less, out);
  qn_graph_release(less);
}

qn_val qn_argsort_at(qn_place at, qn_val x, int64_t axis, bool descending) {
  qn_graph *g = qn_graph_common("argsort", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x);
  if (axis < -t.rank || axis >= t.rank)
    return qn_graph_fail(g, at, QN_INVALID, "argsort: axis %lld is out of range for %s", (long long)axis,
                         qn_type_str(&t));
  t.dtype = QN_I32;
  axis += axis < 0 ? t.rank : 0;
  qn_val pair[2] = {qn_stop_gradient_at(at, x), qn_iota_at(at, g, t, axis)}, out[2];
  qn_sort_keys_at(at, pair, 2, 1, axis, descending, out);
  return out[1];
}
