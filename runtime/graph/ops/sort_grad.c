/* Derivatives of sort: every element keeps its tangent on the way. A second sort carries the elements' places along; tangents are read at
 * those places, cotangents are sorted back by them. */
#include "move_shape.h"
#include "sort.h"

/* The comparator with two more parameters, for the places, which it does not look at. */
static qn_status widened(const qn_graph *less, int count, qn_graph **out_region) {
  QN_TRY(qn_graph_create("region", out_region));
  qn_graph *g = *out_region;
  int params = (int)qn_graph_param_count(less);
  qn_arena *arena = qn_graph_arena(g);
  qn_val *args = QN_NEW(arena, qn_val, params + 1), y = QN_NULL_VAL;
  for (int i = 0; args != NULL && i <= params; ++i) {
    if (i == 2 * count) {
      (void)qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
      (void)qn_graph_param(g, qn_type_scalar(QN_I32), NULL);
    }
    if (i < params)
      args[i] = qn_graph_param(g, *qn_graph_type(less, qn_graph_param_at(less, (size_t)i)), NULL);
  }
  if (args != NULL)
    (void)qn_graph_inline(g, less, args, (size_t)params, &y);
  else
    (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "sort: out of memory");
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(g);
    *out_region = NULL;
  }
  return st;
}

/* For every place of the result the place that its element had. */
static qn_val places_of(qn_rule *r) {
  const qn_attr_sort *a = r->attr;
  int n = r->out_count;
  qn_type t = *qn_val_type(r->in[0]);
  t.dtype = QN_I32;
  qn_graph *less = NULL;
  qn_status st = widened(r->node->regions[0], n, &less);
  if (st != QN_OK)
    return qn_graph_fail(r->g, QN_HERE, st, "sort: %s", qn_error_message());
  qn_val *in = QN_NEW(qn_graph_arena(r->g), qn_val, r->in_count + 1), y = QN_NULL_VAL;
  if (in != NULL) {
    for (int i = 0; i < r->in_count; ++i)
      in[i + (i >= n)] = r->in[i];
    in[n] = qn_iota(r->g, t, a->dimension);
    qn_val first = qn_graph_add(r->g, QN_OP_SORT, in, (size_t)r->in_count + 1, a, &less, 1, QN_HERE);
    y = qn_val_ok(first) ? qn_val_result(first, n) : first;
  }
  qn_graph_release(less);
  return y;
}

void qn_sort_vjp(qn_rule *r, qn_val *out) {
  const qn_attr_sort *a = r->attr;
  qn_val *in = QN_NEW(qn_graph_arena(r->g), qn_val, 2 * (r->out_count + 1));
  if (in == NULL) {
    (void)qn_graph_fail(r->g, QN_HERE, QN_OUT_OF_MEMORY, "sort: out of memory");
    return;
  }
  qn_val *back = in + r->out_count + 1;
  size_t count = 1;
  for (int i = 0; i < r->out_count; ++i)
    if (r->wanted[i] && qn_val_ok(r->given[i]))
      in[count++] = r->given[i];
  if (count == 1)
    return;
  in[0] = places_of(r);
  if (!qn_val_ok(in[0]))
    return;
  qn_sort_keys(in, count, 1, a->dimension, false, back);
  count = 1;
  for (int i = 0; i < r->out_count; ++i)
    if (r->wanted[i] && qn_val_ok(r->given[i]))
      out[i] = back[count++];
}

void qn_sort_jvp(qn_rule *r, qn_val *out) {
  const qn_attr_sort *a = r->attr;
  qn_val places = QN_NULL_VAL;
  for (int i = 0; i < r->out_count; ++i) {
    if (!qn_val_ok(r->given[i]))
      continue;
    if (!qn_val_ok(places))
      places = places_of(r);
    if (qn_val_ok(places))
      out[i] = qn_take_along(r->given[i], places, a->dimension);
  }
}
