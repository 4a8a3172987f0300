/* Derivatives of reduce_window. A windowed sum is linear, and its transpose is one too; a windowed extreme passes everything to the window's first
 * winner; any other body is a left-to-right fold y_k = f(y_(k-1), x_k), whose tangents obey t_k = A_k t_(k-1) + B_k dx_k. That recurrence is a running
 * fold as well, of pairs, and its transpose is the same from the other end; so derivatives can be taken again. */
#include "window.h"

static qn_val zero_of(qn_val v) { return qn_like(v, 0.0); }
static qn_val plus(qn_val a, qn_val b) { return !qn_val_ok(a) ? b : !qn_val_ok(b) ? a : qn_add(a, b); }
static qn_val spread_like(qn_val scalar, qn_val v) {
  const qn_type *t = qn_val_type(v);
  return qn_broadcast_to(scalar, t->rank, t->dims);
}

/* ---- sums ---- */
/* The sum over the windows that hold each element: windows of the result, spread by the stride, strided by the operand's dilation. */
static qn_val transposed_sum(qn_val ct, const qn_attr_window *a, const qn_type *x) {
  qn_attr_window b = {a->size, a->base_dilation, a->stride, a->window_dilation, a->pad_low, a->pad_low, false};
  const qn_type *y = qn_val_type(ct);
  for (int i = 0; i < a->size.n; ++i) {
    int64_t reach = (a->size.d[i] - 1) * a->window_dilation.d[i];
    int64_t have = y->dims[i] == 0 ? 0 : (y->dims[i] - 1) * a->stride.d[i] + 1;
    b.pad_low.d[i] = reach - a->pad_low.d[i];
    b.pad_high.d[i] = (x->dims[i] - 1) * a->base_dilation.d[i] + reach + 1 - have - b.pad_low.d[i];
  }
  return qn_reduce_window_op_at(QN_HERE, ct, QN_OP_ADD, &b);
}

/* ---- extremes ---- */
static qn_status chooser_region(const qn_graph *select, qn_dtype dtype, qn_dtype number, qn_graph **out_region) {
  qn_graph *g = NULL;
  *out_region = NULL;
  QN_TRY(qn_graph_create("chooser", &g));
  qn_val p[4], forth = QN_NULL_VAL, back = QN_NULL_VAL;
  for (int i = 0; i < 4; ++i)
    p[i] = qn_graph_param(g, qn_type_scalar(i % 2 ? number : dtype), NULL);
  (void)qn_graph_inline(g, select, (const qn_val[]){p[0], p[2]}, 2, &forth);
  (void)qn_graph_inline(g, select, (const qn_val[]){p[2], p[0]}, 2, &back);
  qn_val zero = qn_like(p[1], 0.0), better = qn_select(qn_le(p[1], p[3]), forth, qn_not(back));
  qn_val keep = qn_or(qn_lt(p[3], zero), qn_and(qn_ge(p[1], zero), better));
  qn_val out[] = {qn_select(keep, p[0], p[2]), qn_select(keep, p[1], p[3])};
  qn_status st = qn_graph_seal(g, out, 2);
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_seal(g, out, 2)");
  }
  *out_region = g;
  return QN_OK;
}

qn_val qn_window_winner(qn_val x, const qn_attr_window *a, const qn_graph *select) {
  qn_graph *g = x.graph, *body = NULL;
  x = qn_stop_gradient(x);
  qn_type t = *qn_val_type(x);
  qn_val numbers = qn_window_numbers(g, &t), none = qn_scalar(g, qn_val_type(numbers)->dtype, -1.0);
  qn_val in[] = {qn_window_view(x, a, qn_scalar(g, t.dtype, 0.0)), qn_window_view(numbers, a, none)}, out[2];
  const qn_val init[] = {qn_scalar(g, t.dtype, 0.0), none};
  qn_status st = chooser_region(select, t.dtype, qn_val_type(none)->dtype, &body);
  if (st != QN_OK)
    return qn_graph_fail(g, QN_HERE, st, "select_and_scatter: %s", qn_error_message());
  int64_t axes[QN_MAX_RANK] = {0};
  int n = qn_val_type(in[0])->rank - t.rank;
  for (int i = 0; i < n; ++i)
    axes[i] = t.rank + i;
  qn_reduce(in, init, 2, n, axes, body, out);
  qn_graph_release(body);
  return out[1];
}

qn_val qn_window_scatter(qn_val y, qn_val winner, const qn_attr_window *a, const qn_type *x) {
  qn_val from = qn_window_back(winner, a, x, qn_like(winner, -1.0), false),
         value = qn_window_back(y, a, x, zero_of(y), false);
  const qn_type *t = qn_val_type(from);
  qn_dims own = qn_dims_iota(x->rank);
  qn_val numbers = qn_broadcast_in_dim(qn_window_numbers(y.graph, x), t->rank, t->dims, own.d);
  return qn_window_sum(qn_select(qn_eq(from, numbers), value, zero_of(value)), x->rank);
}

qn_val qn_window_chosen(qn_val x, qn_val winner, const qn_attr_window *a) {
  qn_val number = qn_window_view(qn_window_numbers(x.graph, qn_val_type(x)), a, qn_like(winner, -1.0)),
         value = qn_window_view(x, a, zero_of(x));
  const qn_type *t = qn_val_type(number);
  qn_dims own = qn_dims_iota(qn_val_type(x)->rank);
  qn_val chosen = qn_broadcast_in_dim(winner, t->rank, t->dims, own.d);
  return qn_window_sum(qn_select(qn_eq(number, chosen), value, zero_of(value)), qn_val_type(x)->rank);
}

typedef struct extreme {
  qn_rule *r;
  qn_op op;
  const qn_attr_window *a;
  qn_val x, init, winner;
  qn_val started; /* where the initial value beats the whole window; null: nowhere */
  qn_graph *select;
} extreme;

static bool open_extreme(qn_rule *r, int i, qn_op op, bool winner, extreme *e) {
  *e = (extreme){.r = r, .op = op, .a = r->attr, .x = r->in[i], .init = r->in[r->out_count + i]};
  bool largest = op == QN_OP_MAXIMUM, splat;
  qn_status st = qn_region_compare(largest ? QN_CMP_GE : QN_CMP_LE, qn_val_type(e->x)->dtype, &e->select);
  if (st != QN_OK) {
    (void)qn_graph_fail(r->g, QN_HERE, st, "reduce_window: %s", qn_error_message());
    return false;
  }
  if (winner)
    e->winner = qn_window_winner(e->x, e->a, e->select);
  double start = 0;
  bool idle = qn_graph_constant(r->g, e->init.id, &splat) != NULL &&
              qn_graph_constant_at(r->g, e->init.id, 0, &start) && (largest ? start < 0 : start > 0) &&
              start - start != 0;
  if (!idle) {
    qn_val best = qn_reduce_window_op_at(QN_HERE, e->x, op, e->a), init = spread_like(e->init, best);
    e->started = largest ? qn_gt(init, best) : qn_lt(init, best);
  }
  return !qn_graph_failed(r->g);
}

static bool has_plain_dilations(const qn_attr_window *a) {
  for (int i = 0; i < a->size.n; ++i)
    if (a->base_dilation.d[i] != 1 || a->window_dilation.d[i] != 1)
      return false;
  return true;
}

static void extreme_vjp(qn_rule *r, int i, qn_op op, qn_val *out) {
  extreme e;
  const qn_attr_window *a = r->attr;
  int n = r->out_count;
  qn_val ct = r->given[i];
  bool plain = has_plain_dilations(a);
  if (open_extreme(r, i, op, !plain && r->wanted[i], &e)) {
    if (qn_val_ok(e.started) && r->wanted[n + i])
      out[n + i] = qn_sum_all(qn_select(e.started, ct, zero_of(ct)));
    if (qn_val_ok(e.started))
      ct = qn_select(e.started, zero_of(ct), ct);
    qn_graph *add = NULL;
    qn_status st = r->wanted[i] && plain ? qn_region_binary(QN_OP_ADD, qn_val_type(ct)->dtype, &add) : QN_OK;
    if (st != QN_OK)
      (void)qn_graph_fail(r->g, QN_HERE, st, "reduce_window: %s", qn_error_message());
    else if (add != NULL)
      out[i] = qn_select_and_scatter(e.x, ct, qn_scalar(r->g, qn_val_type(ct)->dtype, 0.0), a, e.select, add);
    else if (r->wanted[i])
      out[i] = qn_window_scatter(ct, e.winner, a, qn_val_type(e.x));
    qn_graph_release(add);
  }
  qn_graph_release(e.select);
}

static qn_val extreme_jvp(qn_rule *r, int i, qn_op op) {
  extreme e;
  qn_val tx = r->given[i], ti = r->given[r->out_count + i], y = QN_NULL_VAL;
  if (open_extreme(r, i, op, qn_val_ok(tx), &e)) {
    qn_val start = qn_val_ok(ti) && qn_val_ok(e.started) ? spread_like(ti, e.started) : QN_NULL_VAL;
    if (qn_val_ok(tx))
      y = qn_window_chosen(tx, e.winner, e.a);
    if (qn_val_ok(e.started) && (qn_val_ok(y) || qn_val_ok(start)))
      y = qn_select(e.started, qn_val_ok(start) ? start : zero_of(y), qn_val_ok(y) ? y : zero_of(start));
  }
  qn_graph_release(e.select);
  return y;
}

/* ---- folds ---- */
qn_val qn_affine_scan(qn_val a, qn_val v, int axis, bool reverse) {
  const qn_type *t = qn_val_type(v);
  qn_graph *g = v.graph, *body = NULL;
  if (!qn_val_ok(a) || !qn_val_ok(v))
    return QN_NULL_VAL;
  qn_attr_window w = qn_window_prefix(t->rank, axis, t->dims[axis], reverse);
  const qn_val in[] = {a, v}, init[] = {qn_scalar(g, t->dtype, 1.0), qn_scalar(g, t->dtype, 0.0)};
  qn_val out[2];
  qn_status st = qn_region_affine(t->dtype, reverse, &body);
  if (st != QN_OK)
    return qn_graph_fail(g, QN_HERE, st, "reduce_window: %s", qn_error_message());
  qn_reduce_window(in, init, 2, &w, body, out);
  qn_graph_release(body);
  return out[1];
}

/* Each element's predecessor in the fold; `start` for the first. */
static qn_val shifted(qn_val v, qn_val start, int axis, bool reverse) {
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
  low[axis] = reverse ? -1 : 1;
  high[axis] = -low[axis];
  return qn_pad(v, start, low, high, NULL);
}

enum { FOLDED = 9 }; /* operands of a fold, one of them marks padding */

/* A fold along an axis: of the operation itself, or of each window's elements in a row along a last axis, its outcome at the end. Of its operands one
 * is differentiated. */
typedef struct running {
  qn_graph *g;
  const qn_attr_window *a;
  qn_type x_type;
  bool whole; /* the operation is a running fold itself */
  int axis, count, at;
  bool reverse;
  qn_val x[FOLDED], init[FOLDED], y[FOLDED];
  const qn_graph *body;
  qn_graph *made;        /* owned, may be NULL */
  qn_val from_y, from_x; /* partials of f(y_(k-1), x_k) */
} running;

/* In forward mode through the body. A tie of extremes goes to the earlier. */
static void partials(running *f, qn_op op) {
  qn_val x = f->x[f->at], one = spread_like(qn_like(x, 1.0), x), zero = spread_like(zero_of(x), x);
  qn_val args[2 * FOLDED], tangents[2 * FOLDED], y[FOLDED], t[FOLDED];
  int n = f->count;
  for (int i = 0; i < n; ++i) {
    qn_val before = shifted(f->y[i], f->init[i], f->axis, f->reverse);
    args[i] = f->reverse ? f->x[i] : before;
    args[n + i] = f->reverse ? before : f->x[i];
  }
  if (op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM) {
    qn_val keeps = op == QN_OP_MAXIMUM ? qn_ge(args[0], args[1]) : qn_le(args[0], args[1]);
    *(f->reverse ? &f->from_x : &f->from_y) = qn_select(keeps, one, zero);
    *(f->reverse ? &f->from_y : &f->from_x) = qn_select(keeps, zero, one);
    return;
  }
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < 2 * n; ++i)
      tangents[i] = i == k * n + f->at ? one : QN_NULL_VAL;
    if (!qn_region_lift(f->g, f->body, args, tangents, y, t))
      return;
    *((k == 0) == f->reverse ? &f->from_x : &f->from_y) = qn_val_ok(t[f->at]) ? t[f->at] : zero;
  }
}

/* Each window's elements in a row, behind the first. */
static qn_val rows_of_windows(qn_val first, qn_val x, const qn_attr_window *a) {
  qn_val v = qn_window_view(x, a, qn_scalar(x.graph, qn_val_type(x)->dtype, 0.0));
  qn_type t = *qn_val_type(v);
  int64_t n = 1;
  for (int i = a->size.n; i < t.rank; ++i)
    n *= t.dims[i];
  t.dims[a->size.n] = n;
  qn_val rows[2] = {QN_NULL_VAL, qn_reshape(v, a->size.n + 1, t.dims)};
  t.dims[a->size.n] = 1;
  rows[0] = qn_broadcast_to(first, a->size.n + 1, t.dims);
  return qn_concatenate(rows, 2, a->size.n);
}

/* Windows in rows that begin with the initial value, folded along them; elements of the padding are marked absent. */
static bool fold_rows(running *f) {
  if (f->x_type.rank == QN_MAX_RANK) {
    (void)qn_graph_fail(f->g, QN_HERE, QN_UNSUPPORTED, "reduce_window: no derivative at rank %d, the most is %d",
                        QN_MAX_RANK, QN_MAX_RANK - 1);
    return false;
  }
  qn_type flags = f->x_type;
  flags.dtype = QN_BOOL;
  for (int i = f->count; i > 0; --i) {
    f->x[i] = rows_of_windows(f->init[i - 1], f->x[i - 1], f->a);
    f->init[i] = zero_of(f->init[i - 1]);
  }
  f->x[0] = rows_of_windows(qn_scalar(f->g, QN_BOOL, 1.0), qn_full(f->g, flags, 1.0), f->a);
  f->init[0] = qn_scalar(f->g, QN_BOOL, 0.0);
  qn_status st = qn_region_optional(f->body, &f->made);
  if (st != QN_OK || qn_graph_failed(f->g)) {
    if (st != QN_OK)
      (void)qn_graph_fail(f->g, QN_HERE, st, "reduce_window: %s", qn_error_message());
    return false;
  }
  f->body = f->made;
  f->count++;
  f->at++;
  f->axis = f->x_type.rank;
  const qn_type *t = qn_val_type(f->x[0]);
  qn_attr_window w = qn_window_prefix(t->rank, f->axis, t->dims[f->axis], false);
  qn_reduce_window(f->x, f->init, (size_t)f->count, &w, f->made, f->y);
  return true;
}

/* A known operation is folded by itself, whatever stands beside it. */
static bool unroll(qn_rule *r, int i, const qn_graph *body, qn_op op, running *f) {
  bool known = op != QN_OP_NONE && op != QN_OP_PARAMETER;
  *f = (running){.g = r->g, .a = r->attr, .body = body, .count = known ? 1 : r->out_count, .at = known ? 0 : i};
  f->x_type = *qn_val_type(r->in[i]);
  for (int k = 0; k < f->count; ++k) {
    f->x[k] = r->in[known ? i : k];
    f->init[k] = r->in[r->out_count + (known ? i : k)];
    f->y[k] = r->out[known ? i : k];
  }
  f->axis = qn_window_prefix_axis(f->a, &f->x_type, &f->reverse);
  f->whole = f->axis >= 0;
  if (!f->whole && !fold_rows(f))
    return false;
  partials(f, op);
  return !qn_graph_failed(r->g);
}

/* Where the fold begins: true there along the axis. */
static qn_val first_of(const running *f, qn_val v) {
  qn_type t = *qn_val_type(v);
  int64_t n = t.dims[f->axis];
  t.dtype = QN_I32;
  qn_val at = qn_iota(f->g, t, f->axis);
  return qn_eq(at, qn_like(at, f->reverse ? (double)(n - 1) : 0.0));
}

/* The row's elements from `begin` on, or its first. */
static qn_val part_of_rows(const running *f, qn_val v, bool first) {
  qn_type t = *qn_val_type(v);
  int64_t start[QN_MAX_RANK] = {0};
  start[f->axis] = first ? 0 : 1;
  t.dims[f->axis] = first ? 1 : t.dims[f->axis];
  return qn_slice(v, start, t.dims, NULL);
}

static void fold_vjp(qn_rule *r, int i, const qn_graph *body, qn_op op, qn_val *out) {
  running f;
  int n = r->out_count;
  bool ok = unroll(r, i, body, op, &f);
  qn_graph_release(f.made);
  if (!ok)
    return;
  qn_val ct = r->given[i], zero = zero_of(ct);
  if (!f.whole) { /* only the last outcome is felt */
    qn_type t = *qn_val_type(f.x[f.at]);
    int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
    low[f.axis] = t.dims[f.axis] - 1;
    t.dims[f.axis] = 1;
    ct = qn_pad(qn_reshape(ct, t.rank, t.dims), zero, low, high, NULL);
  }
  qn_val behind = shifted(f.from_y, zero, f.axis, !f.reverse);
  qn_val felt = qn_affine_scan(behind, ct, f.axis, !f.reverse);
  qn_val dx = qn_rule_product(felt, f.from_x);
  if (f.whole) {
    qn_val di = qn_rule_product(felt, f.from_y);
    out[i] = dx;
    out[n + i] = r->wanted[n + i] ? qn_sum_all(qn_select(first_of(&f, di), di, zero)) : QN_NULL_VAL;
    return;
  }
  if (r->wanted[n + i])
    out[n + i] = qn_sum_all(part_of_rows(&f, dx, true));
  if (!r->wanted[i])
    return;
  qn_type t = *qn_val_type(r->out[i]);
  qn_dims axes = qn_window_axes(f.a);
  for (int k = 0; k < axes.n; ++k)
    t.dims[t.rank + k] = f.a->size.d[axes.d[k]];
  dx = qn_window_undo(qn_reshape(part_of_rows(&f, dx, false), t.rank + axes.n, t.dims), f.a, &f.x_type);
  out[i] = qn_window_sum(dx, f.x_type.rank);
}

static qn_val fold_jvp(qn_rule *r, int i, const qn_graph *body, qn_op op) {
  running f;
  bool ok = unroll(r, i, body, op, &f);
  qn_graph_release(f.made);
  if (!ok)
    return QN_NULL_VAL;
  qn_val tx = r->given[i], ti = r->given[r->out_count + i], v = QN_NULL_VAL;
  if (!f.whole) {
    qn_val x = qn_given_or_zeros(r, i), init = qn_given_or_zeros(r, r->out_count + i);
    v = qn_rule_product(rows_of_windows(init, x, f.a), f.from_x);
    qn_val t = qn_affine_scan(f.from_y, v, f.axis, false);
    if (!qn_val_ok(t))
      return t;
    qn_type rows = *qn_val_type(t);
    int64_t start[QN_MAX_RANK] = {0};
    start[f.axis] = rows.dims[f.axis] - 1;
    return qn_reshape(qn_slice(t, start, rows.dims, NULL), rows.rank - 1, rows.dims);
  }
  if (qn_val_ok(tx))
    v = qn_rule_product(tx, f.from_x);
  if (qn_val_ok(ti)) {
    qn_val at = qn_rule_product(spread_like(ti, f.from_y), f.from_y);
    v = plus(v, qn_select(first_of(&f, at), at, zero_of(at)));
  }
  return qn_affine_scan(f.from_y, v, f.axis, f.reverse);
}

/* ---- linear recurrences ---- */
static void affine_vjp(qn_rule *r, int axis, bool reverse, qn_val *out) {
  const double starts[] = {1.0, 0.0};
  qn_val zero = zero_of(r->in[1]), behind = shifted(r->in[0], zero, axis, !reverse), da = QN_NULL_VAL;
  for (int k = 0; k < 2; ++k) {
    if (!qn_val_ok(r->given[k]))
      continue;
    qn_val felt = qn_affine_scan(behind, r->given[k], axis, !reverse);
    if (r->wanted[0])
      da = plus(da, qn_rule_product(felt, shifted(r->out[k], qn_like(felt, starts[k]), axis, reverse)));
    if (k == 1 && r->wanted[1])
      out[1] = felt;
  }
  out[0] = da;
}

static void affine_jvp(qn_rule *r, int axis, bool reverse, qn_val *out) {
  const double starts[] = {1.0, 0.0};
  for (int k = 0; k < 2; ++k) {
    qn_val v = k == 1 ? r->given[1] : QN_NULL_VAL;
    if (qn_val_ok(r->given[0]))
      v = plus(v, qn_rule_product(r->given[0], shifted(r->out[k], qn_like(r->out[k], starts[k]), axis, reverse)));
    if (qn_val_ok(v))
      out[k] = qn_affine_scan(r->in[0], v, axis, reverse);
  }
}

/* ---- both modes ---- */
static void unsupported(qn_rule *r, int i, const char *mode, const char *why) {
  (void)qn_graph_fail(r->g, QN_HERE, QN_UNSUPPORTED, "reduce_window: result %d has no %s derivative: %s", i, mode, why);
}

static bool is_recurrence(const qn_rule *r, int *out_axis, bool *out_reverse) {
  if (r->out_count != 2 || r->in_count != 4)
    return false;
  *out_axis = qn_window_prefix_axis(r->attr, qn_val_type(r->in[0]), out_reverse);
  return *out_axis >= 0 && qn_region_is_affine(r->node->regions[0], *out_reverse);
}

static bool captures_are_idle(qn_rule *r, const char *mode) {
  for (int i = 2 * r->out_count; i < r->in_count; ++i)
    if (r->wanted != NULL ? r->wanted[i] : qn_val_ok(r->given[i])) {
      unsupported(r, 0, mode, "its body captures a value that is differentiated");
      return false;
    }
  return true;
}

static void derive(qn_rule *r, int i, qn_op op, const char *mode, qn_val *out) {
  bool back = r->wanted != NULL, reverse = false, known = op != QN_OP_NONE && op != QN_OP_PARAMETER;
  qn_graph *body = NULL;
  int axis = qn_window_prefix_axis(r->attr, qn_val_type(r->in[i]), &reverse);
  if ((op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM) && axis < 0) {
    if (back)
      extreme_vjp(r, i, op, out);
    else
      out[i] = extreme_jvp(r, i, op);
    return;
  }
  int floats = 0;
  for (int k = 0; k < r->out_count; ++k)
    floats += qn_dtype_is_float(qn_val_type(r->in[k])->dtype);
  if (!known && (floats != 1 || r->out_count >= FOLDED || r->in_count != 2 * r->out_count)) {
    unsupported(r, i, mode,
                floats != 1 ? "its body is none of add, multiply, maximum, minimum and folds several floats"
                            : "its body captures values or folds too many operands");
    return;
  }
  qn_status st = known ? qn_region_binary(op, qn_val_type(r->in[i])->dtype, &body) : QN_OK;
  if (st != QN_OK)
    (void)qn_graph_fail(r->g, QN_HERE, st, "reduce_window: %s", qn_error_message());
  else if (back)
    fold_vjp(r, i, known ? body : r->node->regions[0], op, out);
  else
    out[i] = fold_jvp(r, i, known ? body : r->node->regions[0], op);
  qn_graph_release(body);
}

void qn_reduce_window_vjp(qn_rule *r, qn_val *out) {
  int n = r->out_count, axis = -1;
  bool reverse = false;
  if (!captures_are_idle(r, "reverse"))
    return;
  if (is_recurrence(r, &axis, &reverse) && !r->wanted[2] && !r->wanted[3]) {
    affine_vjp(r, axis, reverse, out);
    return;
  }
  for (int i = 0; i < n && !qn_graph_failed(r->g); ++i) {
    qn_op op = qn_combiner_op(r->node->regions[0], i);
    if (!qn_val_ok(r->given[i]) || (!r->wanted[i] && !r->wanted[n + i]))
      continue;
    if (op != QN_OP_ADD) {
      derive(r, i, op, "reverse", out);
      continue;
    }
    if (r->wanted[i])
      out[i] = transposed_sum(r->given[i], r->attr, qn_val_type(r->in[i]));
    if (r->wanted[n + i])
      out[n + i] = qn_sum_all(r->given[i]);
  }
}

void qn_reduce_window_jvp(qn_rule *r, qn_val *out) {
  int n = r->out_count, axis = -1;
  bool reverse = false;
  if (!captures_are_idle(r, "forward"))
    return;
  if (is_recurrence(r, &axis, &reverse) && !qn_val_ok(r->given[2]) && !qn_val_ok(r->given[3])) {
    affine_jvp(r, axis, reverse, out);
    return;
  }
  for (int i = 0; i < n && !qn_graph_failed(r->g); ++i) {
    qn_op op = qn_combiner_op(r->node->regions[0], i);
    qn_val tx = r->given[i], ti = r->given[n + i];
    if (!qn_val_ok(tx) && !qn_val_ok(ti))
      continue;
    if (op != QN_OP_ADD) {
      derive(r, i, op, "forward", out);
      continue;
    }
    qn_val sums = qn_val_ok(tx) ? qn_reduce_window_op_at(QN_HERE, tx, QN_OP_ADD, r->attr) : QN_NULL_VAL;
    out[i] = plus(sums, qn_val_ok(ti) ? spread_like(ti, r->out[i]) : QN_NULL_VAL);
  }
}
