/* reduce_window: every window of the operands folded by a combiner region, several operands at once. Padding takes no part: devices fill it with the
 * body's identity, or mark it where the body has none. A window that grows along a whole axis is a running fold, which is made as one. The reference
 * folds the elements of each window in row-major order, in double, 64-bit integers or, for other bodies, by the region itself. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "window.h"

static qn_status reduce_window_infer(qn_infer *c) {
  if (c->region_count != 1 || c->regions[0] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected 1", c->name, c->region_count);
  int n = (int)qn_graph_result_count(c->regions[0]);
  if (n < 1 || c->operand_count < 2 * n)
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected at least %d for a body of %d results", c->name,
                  c->operand_count, n < 1 ? 2 : 2 * n, n);
  const qn_attr_window *a = c->attr;
  QN_TRY(qn_check_length(c, "window_dimensions", &a->size, c->operands[0].rank));
  int64_t dims[QN_MAX_RANK] = {0};
  QN_TRY(qn_window_check(c, a, &c->operands[0], dims));
  for (int i = 0; i < n; ++i) {
    const qn_type *x = &c->operands[i];
    if (!qn_type_same_shape(x, &c->operands[0]))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s", c->name, i, qn_type_str(x),
                    qn_type_str(&c->operands[0]));
    QN_TRY(qn_check_scalar(c, n + i, x->dtype));
    c->out_types[i] = qn_type_make(x->dtype, x->rank, dims);
  }
  QN_TRY(qn_check_combiner(c, 0, n, c->operands, 2 * n));
  c->result_count = n;
  return QN_OK;
}

/* ---- batching ---- */
static void reduce_window_batch(qn_batch *b, qn_val *out) {
  int n = b->out_count;
  qn_graph *body = b->node->regions[0];
  qn_arena *arena = qn_graph_arena(b->g);
  qn_val *in = QN_NEW(arena, qn_val, b->in_count), *late = QN_NEW(arena, qn_val, n);
  if (in == NULL || late == NULL) {
    out[0] = qn_graph_fail(b->g, QN_HERE, QN_OUT_OF_MEMORY, "reduce_window: out of memory");
    return;
  }
  for (int i = 0; i < b->in_count; ++i) {
    qn_op op = i < n || i >= 2 * n ? QN_OP_NONE : qn_combiner_op(body, i - n);
    in[i] = i < n ? qn_batch_lanes(b, i) : b->in[i];
    if (i < n || !b->mapped[i])
      continue;
    if (op == QN_OP_NONE || op == QN_OP_PARAMETER) {
      out[0] =
          qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED,
                        i >= 2 * n ? "vmap: the body of reduce_window captures a value that differs by lane"
                                   : "vmap: reduce_window with an initial value per lane needs a body of one binary "
                                     "operation");
      return;
    }
    late[i - n] = in[i];
    in[i] = qn_fold_identity(b->g, op, qn_val_type(in[i])->dtype);
  }
  qn_attr_window attr = qn_window_lifted(b->attr);
  qn_val first = qn_graph_add(b->g, QN_OP_REDUCE_WINDOW, in, (size_t)b->in_count, &attr, b->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i) {
    out[i] = qn_val_result(first, i);
    if (!qn_val_ok(late[i]))
      continue;
    qn_type t = *qn_val_type(out[i]);
    qn_val pair[] = {qn_broadcast_in_dim(late[i], t.rank, t.dims, (const int64_t[]){0}), out[i]};
    out[i] = qn_graph_add(b->g, qn_combiner_op(body, i), pair, 2, NULL, NULL, 0, QN_HERE);
  }
}

/* ---- lowering ---- */
static bool all_known(const qn_rule *r) {
  for (int i = 0; i < r->out_count; ++i) {
    qn_op op = qn_combiner_op(r->node->regions[0], i);
    if (op == QN_OP_NONE || op == QN_OP_PARAMETER)
      return false;
  }
  return true;
}

/* A scalar constant that the operation leaves others alone with. */
static bool is_identity(qn_val v, qn_op op) {
  bool splat = false;
  qn_val want = qn_fold_identity(v.graph, op, qn_val_type(v)->dtype);
  const void *have = qn_graph_constant(v.graph, v.id, &splat), *plain = qn_graph_constant(want.graph, want.id, &splat);
  return have != NULL && plain != NULL && memcmp(have, plain, qn_dtype_size(qn_val_type(v)->dtype)) == 0;
}

/* The body with its initial values leaves everything as it is. */
static bool starts_plain(const qn_rule *r, bool reverse) {
  qn_op op = r->out_count == 1 ? qn_combiner_op(r->node->regions[0], 0) : QN_OP_NONE;
  if (op != QN_OP_NONE && op != QN_OP_PARAMETER)
    return is_identity(r->in[1], op);
  return r->out_count == 2 && qn_region_is_affine(r->node->regions[0], reverse) &&
         is_identity(r->in[2], QN_OP_MULTIPLY) && is_identity(r->in[3], QN_OP_ADD);
}

/* A running fold; the initial value is put where it begins. Narrow floats are summed in f32. */
static bool lower_prefix(qn_rule *r, int axis, bool reverse, qn_val *out) {
  int n = r->out_count;
  qn_val in[16], init[16];
  qn_op op = n == 1 ? qn_combiner_op(r->node->regions[0], 0) : QN_OP_NONE;
  qn_dtype t = qn_val_type(r->in[0])->dtype, wide = qn_dtype_wide(t);
  bool widen = wide != t && (op == QN_OP_ADD || op == QN_OP_MULTIPLY);
  if (r->in_count != 2 * n || n > 8)
    return false;
  qn_graph *body = r->node->regions[0], *made = NULL;
  qn_status st = widen ? qn_region_binary(op, wide, &made) : QN_OK;
  if (st != QN_OK) {
    out[0] = qn_graph_fail(r->g, QN_HERE, st, "reduce_window: %s", qn_error_message());
    return true;
  }
  if (made != NULL)
    body = made;
  for (int i = 0; i < n; ++i)
    in[i] = made != NULL ? qn_convert(r->in[i], wide) : r->in[i];
  qn_attr_cumulative attr = {.dimension = axis, .reverse = reverse};
  qn_val first = qn_graph_add(r->g, QN_OP_CUMULATIVE, in, (size_t)n, &attr, &body, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    in[n + i] = qn_val_result(first, i);
  bool plain = starts_plain(r, reverse);
  for (int i = 0; i < n && plain; ++i)
    out[i] = in[n + i];
  for (int i = 0; i < n && !plain && qn_val_ok(first); ++i) {
    const qn_type *y = qn_val_type(in[n + i]);
    init[reverse ? n + i : i] = qn_broadcast_to(qn_convert(r->in[n + i], y->dtype), y->rank, y->dims);
    init[reverse ? i : n + i] = in[n + i];
  }
  bool ok = qn_val_ok(first) && (plain || qn_region_lift(r->g, body, init, NULL, out, NULL));
  if (ok && made != NULL)
    out[0] = qn_convert(out[0], t);
  qn_graph_release(made);
  return true;
}

static bool reduce_window_lower(qn_rule *r, qn_val *out) {
  qn_attr_window phased = *(const qn_attr_window *)r->attr;
  const qn_attr_window *a = &phased;
  phased.phased = true;
  int n = r->out_count, captures = r->in_count - 2 * n;
  qn_type x = *qn_val_type(r->in[0]);
  bool reverse = false, known = all_known(r);
  int axis = qn_window_prefix_axis(a, &x, &reverse);
  if (axis >= 0 && lower_prefix(r, axis, reverse, out))
    return true;
  qn_val *in = QN_NEW(qn_graph_arena(r->g), qn_val, r->in_count + 2),
         *made = QN_NEW(qn_graph_arena(r->g), qn_val, n + 1);
  qn_graph *body = r->node->regions[0], *optional = NULL;
  if (in == NULL || made == NULL) {
    (void)qn_graph_fail(r->g, QN_HERE, QN_OUT_OF_MEMORY, "reduce_window: out of memory");
    return true;
  }
  qn_type y = {.rank = x.rank}; /* only the number of windows is asked for */
  for (int i = 0; i < n; ++i) {
    qn_dtype t = qn_val_type(r->in[i])->dtype;
    qn_val padding = known ? qn_window_identity(r->g, qn_combiner_op(body, i), t) : qn_scalar(r->g, t, 0.0);
    in[i + 1] = qn_window_view(r->in[i], a, padding);
    in[n + i + 2] = r->in[n + i];
  }
  for (int i = 0; i < captures; ++i)
    in[2 * n + 2 + i] = r->in[2 * n + i];
  if (qn_graph_failed(r->g))
    return true;
  memcpy(y.dims, qn_val_type(in[1])->dims, sizeof y.dims);
  int64_t axes[QN_MAX_RANK] = {0};
  int rank = qn_val_type(in[1])->rank;
  for (int i = x.rank; i < rank; ++i)
    axes[i - x.rank] = i;
  qn_attr_dims over = {qn_dims_of(rank - x.rank, axes)};
  bool mark = !known && qn_window_padded(a, &x, &y);
  if (mark && qn_region_optional(body, &optional) != QN_OK) {
    (void)qn_graph_fail(r->g, QN_HERE, QN_OUT_OF_MEMORY, "reduce_window: %s", qn_error_message());
    return true;
  }
  if (mark) {
    x.dtype = QN_BOOL;
    in[0] = qn_window_view(qn_full(r->g, x, 1.0), a, qn_scalar(r->g, QN_BOOL, 0.0));
    in[n + 1] = qn_scalar(r->g, QN_BOOL, 1.0);
    body = optional;
  } else {
    memmove(in + n + 1, in + n + 2, (size_t)(n + captures) * sizeof *in);
  }
  qn_val first = qn_graph_add(r->g, QN_OP_REDUCE, mark ? in : in + 1, (size_t)(r->in_count + (mark ? 2 : 0)), &over,
                              &body, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, mark ? i + 1 : i);
  qn_graph_release(optional);
  return true;
}

/* ---- reference ---- */
typedef union cell {
  double f;
  int64_t i;
  uint64_t u;
} cell;

static cell fold(qn_op op, qn_dtype t, cell a, cell x) {
  if (qn_dtype_is_float(t))
    a.f = qn_fold_f(op, a.f, x.f);
  else
    a.u = qn_fold_u(op, t, a.u, x.u);
  return a;
}

static void load_cells(qn_dtype t, const void *data, int64_t count, cell *out) {
  for (int64_t i = 0; i < count; ++i) {
    if (qn_dtype_is_float(t))
      qn_oracle_load_f(t, data, i, 1, &out[i].f);
    else if (qn_dtype_is_signed(t))
      qn_oracle_load_i(t, data, i, 1, &out[i].i);
    else
      qn_oracle_load_u(t, data, i, 1, &out[i].u);
  }
}

static void store_cell(qn_dtype t, void *data, int64_t at, const cell *x) {
  if (qn_dtype_is_float(t))
    qn_oracle_store_f(t, data, at, 1, &x->f);
  else if (qn_dtype_is_signed(t))
    qn_oracle_store_i(t, data, at, 1, &x->i);
  else
    qn_oracle_store_u(t, data, at, 1, &x->u);
}

/* Rows of a running fold: elements `step` apart, in the order in which they are folded. */
typedef struct prefix {
  int64_t rows, length, step;
  bool reverse;
} prefix;

static prefix prefix_of(const qn_type *x, int axis, bool reverse) {
  prefix p = {.length = x->dims[axis], .step = 1, .reverse = reverse};
  for (int i = axis + 1; i < x->rank; ++i)
    p.step *= x->dims[i];
  p.rows = p.length == 0 ? 0 : qn_type_elements(x) / p.length;
  return p;
}

static int64_t prefix_at(const prefix *p, int64_t row, int64_t k) {
  return (row / p->step * p->length + (p->reverse ? p->length - 1 - k : k)) * p->step + row % p->step;
}

static void known_prefix(const prefix *p, const qn_type *t, qn_op op, const cell *x, cell init, void *out) {
  for (int64_t row = 0; row < p->rows; ++row) {
    cell acc = init;
    for (int64_t k = 0; k < p->length; ++k) {
      int64_t at = prefix_at(p, row, k);
      acc = fold(op, t->dtype, acc, x[at]);
      store_cell(t->dtype, out, at, &acc);
    }
  }
}

static qn_status eval_known(const qn_ref_call *c, int i, qn_op op) {
  const qn_attr_window *a = c->attr;
  const qn_type *x = c->in_types[i], *y = c->out_types[i];
  bool reverse = false;
  int axis = qn_window_prefix_axis(a, x, &reverse);
  int64_t n = qn_type_elements(x), count = qn_type_elements(y), o[QN_MAX_RANK] = {0};
  cell *cells = malloc((size_t)(n + 1) * sizeof *cells), init;
  if (cells == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "reduce_window: out of memory");
  load_cells(x->dtype, c->in[i], n, cells);
  load_cells(x->dtype, c->in[c->out_count + i], 1, &init);
  if (axis >= 0) {
    prefix p = prefix_of(x, axis, reverse);
    known_prefix(&p, y, op, cells, init, c->out[i]);
    count = 0;
  }
  for (int64_t k = 0; k < count; ++k, (void)qn_index_step(y->rank, y->dims, o)) {
    int64_t w[QN_MAX_RANK] = {0};
    cell acc = init;
    do {
      int64_t at = qn_window_offset(a, x, o, w);
      if (at >= 0)
        acc = fold(op, x->dtype, acc, cells[at]);
    } while (qn_index_step(y->rank, a->size.d, w));
    store_cell(y->dtype, c->out[i], k, &acc);
  }
  free(cells);
  return QN_OK;
}

typedef struct runner {
  const qn_ref_call *c;
  qn_oracle_region *region;
  const void **in;
  void **acc; /* one element per result */
  int n;
} runner;

static size_t width(const runner *r, int i) { return qn_dtype_size(r->c->out_types[i]->dtype); }

/* to = body(a, b); an operand is an element of the node's operands (at >= 0) or the accumulator. */
static qn_status combine(const runner *r, int64_t a, int64_t b) {
  for (int i = 0; i < r->n; ++i) {
    r->in[i] = a < 0 ? r->acc[i] : (const char *)r->c->in[i] + (size_t)a * width(r, i);
    r->in[r->n + i] = b < 0 ? r->acc[i] : (const char *)r->c->in[i] + (size_t)b * width(r, i);
  }
  QN_TRY(qn_oracle_region_run(r->region, r->in, r->acc));
  return QN_OK;
}

static void start(const runner *r, const void *const *from, int64_t at) {
  for (int i = 0; i < r->n; ++i)
    memcpy(r->acc[i], (const char *)from[i] + (size_t)at * width(r, i), width(r, i));
}

/* The initial value comes where the fold begins. From the back the accumulator is what follows. */
static qn_status region_prefix(const runner *r, const prefix *p) {
  for (int64_t row = 0; row < p->rows; ++row)
    for (int64_t k = 0; k < p->length; ++k) {
      int64_t at = prefix_at(p, row, k);
      if (k == 0)
        start(r, r->c->in + r->n, 0);
      QN_TRY(combine(r, p->reverse ? at : -1, p->reverse ? -1 : at));
      for (int i = 0; i < r->n; ++i)
        memcpy((char *)r->c->out[i] + (size_t)at * width(r, i), r->acc[i], width(r, i));
    }
  return QN_OK;
}

static qn_status region_windows(const runner *r, const qn_attr_window *a) {
  const qn_type *x = r->c->in_types[0], *y = r->c->out_types[0];
  int64_t count = qn_type_elements(y), o[QN_MAX_RANK] = {0};
  for (int64_t k = 0; k < count; ++k, (void)qn_index_step(y->rank, y->dims, o)) {
    int64_t w[QN_MAX_RANK] = {0};
    start(r, r->c->in + r->n, 0);
    do {
      int64_t at = qn_window_offset(a, x, o, w);
      if (at >= 0)
        QN_TRY(combine(r, -1, at));
    } while (qn_index_step(y->rank, a->size.d, w));
    for (int i = 0; i < r->n; ++i)
      memcpy((char *)r->c->out[i] + (size_t)k * width(r, i), r->acc[i], width(r, i));
  }
  return QN_OK;
}

static qn_status eval_region(const qn_ref_call *c) {
  int n = c->out_count, captures = c->in_count - 2 * n;
  bool reverse = false;
  int axis = qn_window_prefix_axis(c->attr, c->in_types[0], &reverse);
  runner r = {.c = c, .n = n};
  qn_status st = QN_OK;
  r.in = calloc((size_t)(2 * n + captures), sizeof *r.in);
  r.acc = calloc((size_t)n, sizeof *r.acc);
  char *room = calloc((size_t)n, 16);
  if (r.in == NULL || r.acc == NULL || room == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "reduce_window: out of memory");
    goto done;
  }
  for (int i = 0; i < n; ++i)
    r.acc[i] = room + 16 * i;
  for (int i = 0; i < captures; ++i)
    r.in[2 * n + i] = c->in[2 * n + i];
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[0], &r.region), done);
  if (axis >= 0) {
    prefix p = prefix_of(c->in_types[0], axis, reverse);
    QN_TRY_GOTO(st, region_prefix(&r, &p), done);
  } else {
    QN_TRY_GOTO(st, region_windows(&r, c->attr), done);
  }
done:
  qn_oracle_region_close(r.region);
  free(r.in);
  free(r.acc);
  free(room);
  return st;
}

static qn_status reduce_window_eval(const qn_ref_call *c) {
  bool known = c->in_count == 2 * c->out_count;
  for (int i = 0; i < c->out_count && known; ++i) {
    qn_op op = qn_combiner_op(c->node->regions[0], i);
    known = op != QN_OP_NONE && op != QN_OP_PARAMETER && !qn_dtype_is_complex(c->in_types[i]->dtype);
  }
  if (!known)
    return eval_region(c);
  for (int i = 0; i < c->out_count; ++i)
    QN_TRY(eval_known(c, i, qn_combiner_op(c->node->regions[0], i)));
  return QN_OK;
}

const qn_op_def qn_op_reduce_window = {
    .name = "reduce_window",
    .doc = "Folds the elements of each window into one by a combiner region, from an initial value; padding takes no "
           "part.",
    .arity = -1,
    .kind = QN_KIND_REDUCE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_window),
    .infer = reduce_window_infer,
    .vjp = qn_reduce_window_vjp,
    .jvp = qn_reduce_window_jvp,
    .batch = reduce_window_batch,
    .lower = reduce_window_lower,
    .eval = reduce_window_eval,
};

/* ---- builders ---- */
void qn_reduce_window_at(qn_place at, const qn_val *x, const qn_val *init, size_t count, const qn_attr_window *window,
                         qn_graph *body, qn_val *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("reduce_window", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_val *in = count <= QN_MAX_OPERANDS / 2 ? QN_NEW(qn_graph_arena(g), qn_val, 2 * count) : NULL;
  if (in == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "reduce_window: no memory for %zu operands", count);
    return;
  }
  memcpy(in, x, count * sizeof *in);
  memcpy(in + count, init, count * sizeof *in);
  if (qn_graph_common("reduce_window", in, 2 * count, at) == NULL)
    return;
  qn_val first = qn_graph_add(g, QN_OP_REDUCE_WINDOW, in, 2 * count, window, &body, 1, at);
  for (size_t i = 0; i < count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}

qn_val qn_reduce_window_op_at(qn_place at, qn_val x, qn_op op, const qn_attr_window *window) {
  qn_graph *g = qn_graph_common("reduce_window", &x, 1, at), *body = NULL;
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_dtype t = qn_val_type(x)->dtype;
  qn_status st = qn_region_binary(op, t, &body);
  if (st != QN_OK)
    return qn_graph_fail(g, at, st, "reduce_window: %s", qn_error_message());
  qn_val init = qn_fold_identity(g, op, t), y;
  qn_reduce_window_at(at, &x, &init, 1, window, body, &y);
  qn_graph_release(body);
  return y;
}
