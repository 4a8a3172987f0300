/* scan over while: rows of the inputs are sliced by the counter, rows of the outputs are written into buffers that are carried. */
#include "control_build.h"

#include <string.h>

typedef struct scan {
  const qn_scan_desc *d;
  qn_place at;
  int64_t length;
  const qn_val *xs; /* of the graph around */
  qn_traced_region step;
} scan;

static qn_val row_at(qn_place at, qn_val x, qn_val index) {
  qn_type t = *qn_val_type(x);
  qn_val starts[QN_MAX_RANK];
  int64_t sizes[QN_MAX_RANK];
  for (int k = 0; k < t.rank; ++k) {
    starts[k] = k == 0 ? index : qn_like(index, 0);
    sizes[k] = k == 0 ? 1 : t.dims[k];
  }
  return qn_reshape_at(at, qn_dynamic_slice_at(at, x, starts, sizes), t.rank - 1, t.dims + 1);
}

static qn_val put_row(qn_place at, qn_val all, qn_val row, qn_val index) {
  qn_type t = *qn_val_type(all);
  qn_val starts[QN_MAX_RANK];
  int64_t dims[QN_MAX_RANK];
  for (int k = 0; k < t.rank; ++k) {
    starts[k] = k == 0 ? index : qn_like(index, 0);
    dims[k] = k == 0 ? 1 : t.dims[k];
  }
  return qn_dynamic_update_slice_at(at, all, qn_reshape_at(at, row, t.rank, dims), starts);
}

/* i, carries, outputs -> the same */
static void scan_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  const scan *s = user;
  const qn_scan_desc *d = s->d;
  size_t n = d->carries + d->inputs;
  qn_arena *arena = qn_graph_arena(g);
  qn_val *args = QN_NEW(arena, qn_val, n + s->step.capture_count + 1),
         *made = QN_NEW(arena, qn_val, d->carries + d->outputs + 1);
  if (args == NULL || made == NULL) {
    (void)qn_graph_fail(g, s->at, QN_OUT_OF_MEMORY, "scan: no memory");
    return;
  }
  qn_val row = d->reverse ? qn_sub(qn_like(in[0], (double)(s->length - 1)), in[0]) : in[0];
  for (size_t i = 0; i < d->carries; ++i)
    args[i] = in[1 + i];
  for (size_t i = 0; i < d->inputs; ++i)
    args[d->carries + i] = row_at(s->at, s->xs[i], row);
  for (size_t i = 0; i < s->step.capture_count; ++i)
    args[n + i] = s->step.captures[i];
  out[0] = qn_add(in[0], qn_like(in[0], 1));
  if (!qn_graph_inline(g, s->step.graph, args, n + s->step.capture_count, made))
    return;
  for (size_t i = 0; i < d->carries; ++i)
    out[1 + i] = made[i];
  for (size_t i = 0; i < d->outputs; ++i)
    out[1 + d->carries + i] = put_row(s->at, in[1 + d->carries + i], made[d->carries + i], row);
}

static void scan_cond(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  const scan *s = user;
  (void)g;
  out[0] = qn_lt(in[0], qn_like(in[0], (double)s->length));
}

static bool find_length(qn_graph *g, scan *s) {
  const qn_scan_desc *d = s->d;
  s->length = d->length;
  for (size_t i = 0; i < d->inputs; ++i) {
    const qn_type *t = qn_val_type(d->xs[i]);
    if (t->rank < 1) {
      (void)qn_graph_fail(g, s->at, QN_INVALID, "scan: input %zu is %s, expected rows", i, qn_type_str(t));
      return false;
    }
    if ((i == 0 && d->length == 0) || t->dims[0] == s->length) {
      s->length = t->dims[0];
      continue;
    }
    (void)qn_graph_fail(g, s->at, QN_INVALID, "scan: input %zu is %s, expected %lld rows", i, qn_type_str(t),
                        (long long)s->length);
    return false;
  }
  if (s->length < 0 || s->length > INT32_MAX || (d->inputs == 0 && d->length == 0)) {
    (void)qn_graph_fail(g, s->at, QN_INVALID, "scan: length %lld%s", (long long)s->length,
                        d->inputs == 0 ? " and no inputs" : "");
    return false;
  }
  return true;
}

/* The user's function as a region: carries, rows -> carries, rows. */
static bool trace_step(qn_graph *g, scan *s) {
  const qn_scan_desc *d = s->d;
  qn_type *types = qn_types_of(g, d->init, d->carries, d->inputs);
  if (types == NULL)
    return false;
  for (size_t i = 0; i < d->inputs; ++i) {
    const qn_type *t = qn_val_type(d->xs[i]);
    types[d->carries + i] = qn_type_make(t->dtype, t->rank - 1, t->dims + 1);
  }
  s->step = qn_region_trace(g, "step", types, d->carries + d->inputs, d->carries + d->outputs, d->body, d->user);
  for (size_t i = 0; s->step.graph != NULL && i < d->carries; ++i) {
    const qn_type *t = qn_graph_type(s->step.graph, qn_graph_result(s->step.graph, i));
    if (qn_type_equal(t, &types[i]))
      continue;
    (void)qn_graph_fail(g, s->at, QN_INVALID, "scan: carry %zu is %s at first and %s after a step", i,
                        qn_type_str(&types[i]), qn_type_str(t));
    return false;
  }
  return s->step.graph != NULL;
}

static qn_val empty_stack(qn_graph *g, const scan *s, size_t output) {
  const qn_graph *step = s->step.graph;
  qn_type t = *qn_graph_type(step, qn_graph_result(step, s->d->carries + output));
  int64_t dims[QN_MAX_RANK + 1] = {s->length};
  for (int k = 0; k < t.rank; ++k)
    dims[k + 1] = t.dims[k];
  if (t.rank == QN_MAX_RANK)
    return qn_graph_fail(g, s->at, QN_UNSUPPORTED, "scan: output %zu is %s, which has no room for one more axis",
                         output, qn_type_str(&t));
  return qn_full_at(s->at, g, qn_type_make(t.dtype, t.rank + 1, dims), 0);
}

void qn_scan_at(qn_place at, qn_graph *g, const qn_scan_desc *desc, qn_val *out) {
  scan s = {.d = desc, .at = at, .xs = desc->xs};
  size_t results = desc->carries + desc->outputs;
  qn_null_results(out, results);
  if (g == NULL || qn_graph_failed(g))
    return;
  for (size_t i = 0; i < desc->carries + desc->inputs; ++i)
    if (!qn_val_ok(i < desc->carries ? desc->init[i] : desc->xs[i - desc->carries])) {
      (void)qn_graph_fail(g, at, QN_INVALID, "scan: operand %zu is the null value", i);
      return;
    }
  if (!find_length(g, &s) || !trace_step(g, &s))
    return;
  qn_arena *arena = qn_graph_arena(g);
  qn_val *in = QN_NEW(arena, qn_val, results + 1), *made = QN_NEW(arena, qn_val, results + 1);
  if (in == NULL || made == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "scan: no memory");
    return;
  }
  in[0] = qn_full_at(at, g, qn_type_scalar(QN_I32), 0);
  for (size_t i = 0; i < desc->carries; ++i)
    in[1 + i] = desc->init[i];
  for (size_t i = 0; i < desc->outputs; ++i)
    in[1 + desc->carries + i] = empty_stack(g, &s, i);
  qn_type *types = qn_types_of(g, in, results + 1, 0);
  if (types == NULL || qn_graph_failed(g))
    return;
  memcpy(out, in + 1, results * sizeof *out);
  if (s.length == 0)
    return;
  qn_attr_while attr = {s.length};
  qn_traced_region regions[2] = {qn_region_trace(g, "condition", types, results + 1, 1, scan_cond, &s),
                                 qn_region_trace(g, "body", types, results + 1, results + 1, scan_body, &s)};
  qn_control_add(at, g, QN_OP_WHILE, in, results + 1, &attr, regions, 2, made, results + 1);
  memcpy(out, made + 1, results * sizeof *out);
}

void qn_map_rows_at(qn_place at, qn_graph *g, const qn_val *xs, size_t inputs, qn_body_fn fn, void *user, qn_val *out,
                    size_t outputs) {
  qn_scan_desc desc = {.xs = xs, .inputs = inputs, .outputs = outputs, .body = fn, .user = user};
  qn_scan_at(at, g, &desc, out);
}

/* ---- associative scan ---- */
typedef struct prefixes {
  qn_place at;
  qn_graph *g;
  size_t count;
  int axis;
  qn_body_fn fn;
  void *user;
} prefixes;

/* Every `stride`-th element along the axis, from `start` to in front of `limit`. */
static qn_val pick(const prefixes *p, qn_val x, int64_t start, int64_t limit, int64_t stride) {
  qn_type t = *qn_val_type(x);
  int64_t from[QN_MAX_RANK] = {0}, to[QN_MAX_RANK], by[QN_MAX_RANK];
  for (int k = 0; k < t.rank; ++k) {
    to[k] = t.dims[k];
    by[k] = 1;
  }
  from[p->axis] = start;
  to[p->axis] = limit;
  by[p->axis] = stride;
  return qn_slice_at(p->at, x, from, to, by);
}

/* even[0], odd[0], even[1], ...: both padded apart and added up by selection. */
static qn_val interleave(const prefixes *p, qn_val even, qn_val odd) {
  qn_type t = *qn_val_type(even);
  int64_t n = t.dims[p->axis], m = qn_val_type(odd)->dims[p->axis], total = n + m;
  qn_val part[2];
  for (int k = 0; k < 2; ++k) {
    qn_val x = k == 0 ? even : odd;
    int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0}, interior[QN_MAX_RANK] = {0};
    int64_t have = k == 0 ? n : m;
    interior[p->axis] = 1;
    low[p->axis] = k;
    high[p->axis] = total - k - (2 * have - 1);
    part[k] = qn_pad_at(p->at, x, qn_like(x, 0), low, high, interior);
  }
  qn_type whole = t;
  whole.dims[p->axis] = total;
  whole.dtype = QN_I32;
  qn_val i = qn_iota_at(p->at, p->g, whole, p->axis);
  return qn_select(qn_eq(qn_and(i, qn_like(i, 1)), qn_like(i, 0)), part[0], part[1]);
}

static qn_val joined(const prefixes *p, qn_val a, qn_val b) {
  const qn_val both[] = {a, b};
  return qn_concatenate_at(p->at, both, 2, p->axis);
}

/* Pairs are combined, the prefixes of the pairs found, and those between them made of these: x -> out. */
static void find_prefixes(const prefixes *p, const qn_val *x, qn_val *out) {
  int64_t n = qn_val_type(x[0])->dims[p->axis], half = n / 2;
  memcpy(out, x, p->count * sizeof *out);
  if (n < 2 || qn_graph_failed(p->g))
    return;
  qn_val *v = QN_NEW(qn_graph_arena(p->g), qn_val, 5 * p->count);
  if (v == NULL) {
    (void)qn_graph_fail(p->g, p->at, QN_OUT_OF_MEMORY, "associative_scan: no memory");
    return;
  }
  qn_val *pair = v, *combined = v + 2 * p->count, *odd = combined + p->count, *even = odd + p->count;
  for (size_t i = 0; i < p->count; ++i) {
    pair[i] = pick(p, x[i], 0, 2 * half - 1, 2);
    pair[p->count + i] = pick(p, x[i], 1, 2 * half, 2);
  }
  p->fn(p->g, pair, combined, p->user);
  for (size_t i = 0; i < p->count; ++i)
    if (!qn_val_ok(combined[i]))
      return;
  find_prefixes(p, combined, odd);
  for (size_t i = 0; i < p->count; ++i) {
    int64_t behind = n - half - 1; /* even places behind the first */
    pair[i] = pick(p, odd[i], 0, behind, 1);
    pair[p->count + i] = behind > 0 ? pick(p, x[i], 2, n, 2) : QN_NULL_VAL;
    even[i] = pick(p, x[i], 0, 1, 1);
  }
  if (n > 2) {
    p->fn(p->g, pair, combined, p->user);
    for (size_t i = 0; i < p->count; ++i)
      even[i] = joined(p, even[i], combined[i]);
  }
  for (size_t i = 0; i < p->count; ++i)
    out[i] = interleave(p, even[i], odd[i]);
}

void qn_associative_scan_at(qn_place at, qn_graph *g, const qn_val *xs, size_t count, int64_t axis, bool reverse,
                            qn_body_fn fn, void *user, qn_val *out) {
  qn_null_results(out, count);
  if (g == NULL || qn_graph_failed(g) || count == 0)
    return;
  for (size_t i = 0; i < count; ++i) {
    const qn_type *t = qn_val_type(xs[i]);
    int64_t own = axis < 0 ? axis + t->rank : axis;
    if (!qn_val_ok(xs[i]) || own < 0 || own >= t->rank || t->dims[own] != qn_val_type(xs[0])->dims[own]) {
      (void)qn_graph_fail(g, at, QN_INVALID, "associative_scan: operand %zu is %s, which does not fit axis %lld of %s",
                          i, qn_type_str(t), (long long)axis, qn_type_str(qn_val_type(xs[0])));
      return;
    }
  }
  int64_t from_front = axis < 0 ? axis + qn_val_type(xs[0])->rank : axis;
  prefixes p = {.at = at, .g = g, .count = count, .axis = (int)from_front, .fn = fn, .user = user};
  qn_val *in = QN_NEW(qn_graph_arena(g), qn_val, count);
  if (in == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "associative_scan: no memory");
    return;
  }
  for (size_t i = 0; i < count; ++i)
    in[i] = reverse ? qn_reverse_at(at, xs[i], 1, &from_front) : xs[i];
  find_prefixes(&p, in, out);
  for (size_t i = 0; reverse && i < count; ++i)
    out[i] = qn_val_ok(out[i]) ? qn_reverse_at(at, out[i], 1, &from_front) : out[i];
}
