/* Builders of while, fori, cond and switch: functions are traced into regions, which then are given the captures of each other. */
#include "control_build.h"

#include "../graph_impl.h"

#include <string.h>

void qn_null_results(qn_val *out, size_t count) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
}

qn_type *qn_types_of(qn_graph *g, const qn_val *v, size_t count, size_t more) {
  qn_type *t = QN_NEW(qn_graph_arena(g), qn_type, count + more + 1);
  if (t == NULL)
    (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "control flow: no memory");
  for (size_t i = 0; t != NULL && i < count; ++i)
    t[i] = *qn_val_type(v[i]);
  return t;
}

qn_traced_region qn_region_trace(qn_graph *g, const char *name, const qn_type *in, size_t in_count, size_t out_count,
                                 qn_body_fn fn, void *user) {
  qn_traced_region r = {NULL, NULL, 0};
  qn_graph *region = qn_region_open(g, name);
  if (region == NULL)
    return r;
  qn_val *args = QN_NEW(qn_graph_arena(region), qn_val, in_count + 1),
         *out = QN_NEW(qn_graph_arena(region), qn_val, out_count + 1);
  if (args == NULL || out == NULL) {
    (void)qn_graph_fail(g, QN_HERE, QN_OUT_OF_MEMORY, "%s: no memory", name);
    return r;
  }
  for (size_t i = 0; i < in_count; ++i)
    args[i] = qn_graph_param(region, in[i], NULL);
  if (!qn_graph_failed(region))
    fn(region, args, out, user);
  r.graph = qn_region_seal(region, out, out_count, &r.captures, &r.capture_count);
  return r;
}

/* ---- one node ---- */
static size_t unite(const qn_traced_region *regions, size_t count, qn_val *all) {
  size_t n = 0;
  for (size_t r = 0; r < count; ++r)
    for (size_t i = 0; i < regions[r].capture_count; ++i) {
      size_t at = 0;
      while (at < n && !qn_val_same(all[at], regions[r].captures[i]))
        ++at;
      if (at == n)
        all[n++] = regions[r].captures[i];
    }
  return n;
}

void qn_control_add(qn_place at, qn_graph *g, qn_op op, const qn_val *in, size_t in_count, const void *attr,
                    const qn_traced_region *regions, size_t region_count, qn_val *out, size_t out_count) {
  size_t most = 0;
  qn_null_results(out, out_count);
  for (size_t r = 0; r < region_count; ++r) {
    if (regions[r].graph == NULL)
      return;
    most += regions[r].capture_count;
  }
  qn_val *all = QN_NEW(qn_graph_arena(g), qn_val, in_count + most + 1);
  qn_graph **united = QN_NEW(qn_graph_arena(g), qn_graph *, region_count + 1);
  if (all == NULL || united == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "%s: no memory", qn_op_get(op)->name);
    return;
  }
  if (in_count > 0)
    memcpy(all, in, in_count * sizeof *in);
  size_t captures = unite(regions, region_count, all + in_count);
  qn_status st = QN_OK;
  for (size_t r = 0; r < region_count && st == QN_OK; ++r)
    st = qn_region_capture(regions[r].graph, regions[r].captures, regions[r].capture_count, all + in_count, captures,
                           &united[r]);
  if (st != QN_OK)
    (void)qn_graph_fail(g, at, st, "%s", qn_error_message());
  qn_val first =
      st == QN_OK ? qn_graph_add(g, op, all, in_count + captures, attr, united, region_count, at) : QN_NULL_VAL;
  for (size_t i = 0; i < out_count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
  for (size_t r = 0; r < region_count; ++r)
    qn_graph_release(united[r]);
}

static bool usable(qn_graph *g, const char *op, const qn_val *in, size_t count, qn_place at) {
  if (g == NULL || qn_graph_failed(g))
    return false;
  for (size_t i = 0; i < count; ++i)
    if (!qn_val_ok(in[i])) {
      (void)qn_graph_fail(g, at, QN_INVALID, "%s: operand %zu is the null value", op, i);
      return false;
    }
  return true;
}

/* ---- loops ---- */
void qn_while_at(qn_place at, qn_graph *g, const qn_val *init, size_t count, qn_body_fn cond, qn_body_fn body,
                 void *user, qn_val *out) {
  qn_attr_while attr = {-1};
  qn_null_results(out, count);
  qn_type *types = usable(g, "while", init, count, at) ? qn_types_of(g, init, count, 0) : NULL;
  if (types == NULL)
    return;
  qn_traced_region regions[2] = {qn_region_trace(g, "condition", types, count, 1, cond, user),
                                 qn_region_trace(g, "body", types, count, count, body, user)};
  qn_control_add(at, g, QN_OP_WHILE, init, count, &attr, regions, 2, out, count);
}

typedef struct fori {
  qn_val hi; /* null: `limit` */
  int64_t limit;
  size_t count;
  qn_body_fn body;
  void *user;
} fori;

static void fori_cond(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  const fori *f = user;
  (void)g;
  out[0] = qn_lt(in[0], qn_val_ok(f->hi) ? f->hi : qn_like(in[0], (double)f->limit));
}

static void fori_body(qn_graph *g, const qn_val *in, qn_val *out, void *user) {
  const fori *f = user;
  f->body(g, in, out + 1, f->user);
  out[0] = qn_add(in[0], qn_like(in[0], 1));
}

static void run_fori(qn_place at, qn_graph *g, qn_val lo, fori *f, int64_t trips, const qn_val *init, qn_val *out) {
  qn_arena *arena = qn_graph_arena(g);
  qn_val *in = QN_NEW(arena, qn_val, f->count + 1), *all = QN_NEW(arena, qn_val, f->count + 1);
  if (in == NULL || all == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "fori: no memory");
    return;
  }
  in[0] = lo;
  if (f->count > 0)
    memcpy(in + 1, init, f->count * sizeof *in);
  qn_type *types = qn_types_of(g, in, f->count + 1, 0);
  if (types == NULL)
    return;
  qn_attr_while attr = {trips};
  qn_traced_region regions[2] = {qn_region_trace(g, "condition", types, f->count + 1, 1, fori_cond, f),
                                 qn_region_trace(g, "body", types, f->count + 1, f->count + 1, fori_body, f)};
  qn_control_add(at, g, QN_OP_WHILE, in, f->count + 1, &attr, regions, 2, all, f->count + 1);
  if (f->count > 0)
    memcpy(out, all + 1, f->count * sizeof *out);
}

void qn_fori_at(qn_place at, qn_graph *g, int64_t lo, int64_t hi, const qn_val *init, size_t count, qn_body_fn body,
                void *user, qn_val *out) {
  qn_null_results(out, count);
  if (!usable(g, "fori", init, count, at))
    return;
  if (lo < INT32_MIN || hi > INT32_MAX || hi - lo > INT32_MAX) {
    (void)qn_graph_fail(g, at, QN_INVALID, "fori: from %lld to %lld, the bounds and the count are i32", (long long)lo,
                        (long long)hi);
    return;
  }
  fori f = {.limit = hi, .count = count, .body = body, .user = user};
  run_fori(at, g, qn_full_at(at, g, qn_type_scalar(QN_I32), (double)lo), &f, hi > lo ? hi - lo : 0, init, out);
}

void qn_fori_between_at(qn_place at, qn_graph *g, qn_val lo, qn_val hi, const qn_val *init, size_t count,
                        qn_body_fn body, void *user, qn_val *out) {
  qn_null_results(out, count);
  if (!usable(g, "fori", init, count, at) || !usable(g, "fori", (const qn_val[]){lo, hi}, 2, at))
    return;
  const qn_type *t = qn_val_type(lo);
  if (t->rank != 0 || !qn_dtype_is_int(t->dtype) || !qn_type_equal(t, qn_val_type(hi))) {
    (void)qn_graph_fail(g, at, QN_INVALID, "fori: from %s to %s, expected two integer scalars of one dtype",
                        qn_type_str(t), qn_type_str(qn_val_type(hi)));
    return;
  }
  fori f = {.hi = hi, .count = count, .body = body, .user = user};
  run_fori(at, g, lo, &f, -1, init, out);
}

/* ---- branches ---- */
/* Operands are captures of the branches, in order, in front of what these capture by themselves. */
static void add_branches(qn_place at, qn_graph *g, qn_op op, qn_val selector, const qn_body_fn *fns, size_t fn_count,
                         const qn_val *in, size_t in_count, void *user, qn_val *out, size_t out_count) {
  qn_null_results(out, out_count);
  const char *name = qn_op_get(op)->name;
  if (!usable(g, name, &selector, 1, at) || !usable(g, name, in, in_count, at))
    return;
  qn_arena *arena = qn_graph_arena(g);
  qn_traced_region *regions = QN_NEW(arena, qn_traced_region, fn_count + 1);
  qn_val *operands = QN_NEW(arena, qn_val, in_count + 1);
  qn_type *types = qn_types_of(g, in, in_count, 0);
  if (regions == NULL || operands == NULL || types == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "%s: no memory", name);
    return;
  }
  operands[0] = selector;
  if (in_count > 0)
    memcpy(operands + 1, in, in_count * sizeof *in);
  for (size_t i = 0; i < fn_count; ++i)
    regions[i] = qn_region_trace(g, "branch", types, in_count, out_count, fns[i], user);
  qn_control_add(at, g, op, operands, in_count + 1, NULL, regions, fn_count, out, out_count);
}

void qn_cond_at(qn_place at, qn_graph *g, qn_val pred, const qn_val *in, size_t in_count, qn_body_fn on_true,
                qn_body_fn on_false, void *user, qn_val *out, size_t out_count) {
  const qn_body_fn both[] = {on_true, on_false};
  add_branches(at, g, QN_OP_IF, pred, both, 2, in, in_count, user, out, out_count);
}

void qn_switch_at(qn_place at, qn_graph *g, qn_val index, const qn_body_fn *branches, size_t branch_count,
                  const qn_val *in, size_t in_count, void *user, qn_val *out, size_t out_count) {
  qn_null_results(out, out_count);
  if (!usable(g, "switch", &index, 1, at))
    return;
  const qn_type *t = qn_val_type(index);
  if (t->rank != 0 || !qn_dtype_is_int(t->dtype)) {
    (void)qn_graph_fail(g, at, QN_INVALID, "switch: the index is %s, expected an integer scalar", qn_type_str(t));
    return;
  }
  qn_val i = qn_clamp_at(at, qn_like_at(at, index, 0), index, qn_like_at(at, index, (double)branch_count - 1));
  add_branches(at, g, QN_OP_CASE, qn_convert_at(at, i, QN_I32), branches, branch_count, in, in_count, user, out,
               out_count);
}
