/* reduce: folds axes by a combiner region, several operands at once. The reference folds in row-major order; sums, products and extremes of
 * narrow floats are held in double until the end. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "move_shape.h"
#include "reduce_grad.h"

enum { CHUNK = 256 };

static qn_status reduce_infer(qn_infer *c) {
  if (c->region_count != 1 || c->regions[0] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected 1", c->name, c->region_count);
  int n = (int)qn_graph_result_count(c->regions[0]);
  if (n < 1 || c->operand_count < 2 * n)
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected at least %d for a body of %d results", c->name,
                  c->operand_count, n < 1 ? 2 : 2 * n, n);
  const qn_dims *axes = &((const qn_attr_dims *)c->attr)->dims;
  QN_TRY(qn_check_axes(c, "dimensions", axes, c->operands[0].rank, false));
  for (int i = 0; i < n; ++i) {
    const qn_type *x = &c->operands[i];
    if (!qn_type_same_shape(x, &c->operands[0]))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s", c->name, i, qn_type_str(x),
                    qn_type_str(&c->operands[0]));
    QN_TRY(qn_check_scalar(c, n + i, x->dtype));
    qn_dims kept = qn_dims_rest(x->rank, axes, NULL);
    for (int k = 0; k < kept.n; ++k)
      kept.d[k] = x->dims[kept.d[k]];
    c->out_types[i] = qn_type_make(x->dtype, kept.n, kept.d);
  }
  QN_TRY(qn_check_combiner(c, 0, n, c->operands, 2 * n));
  c->result_count = n;
  return QN_OK;
}

/* ---- batching ---- */
/* The greatest or least integer of a dtype, or all bits set. */
static qn_val extreme_integer(qn_graph *g, qn_op op, qn_dtype dtype) {
  uint64_t bits = op == QN_OP_MAXIMUM ? 0 : UINT64_MAX;
  if (qn_dtype_is_signed(dtype) && op != QN_OP_AND) {
    uint64_t least = UINT64_C(1) << (8 * qn_dtype_size(dtype) - 1);
    bits = op == QN_OP_MAXIMUM ? least : least - 1;
  }
  if (dtype == QN_BOOL)
    bits &= 1;
  uint64_t element = 0;
  int64_t as_signed = (int64_t)bits;
  if (qn_dtype_is_signed(dtype))
    qn_oracle_store_i(dtype, &element, 0, 1, &as_signed);
  else
    qn_oracle_store_u(dtype, &element, 0, 1, &bits);
  return qn_constant(g, qn_type_scalar(dtype), &element);
}

qn_val qn_fold_identity(qn_graph *g, qn_op op, qn_dtype dtype) {
  bool extreme = op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM || op == QN_OP_AND;
  if (extreme && !qn_dtype_is_float(dtype))
    return extreme_integer(g, op, dtype);
  if (extreme)
    return qn_scalar(g, dtype, op == QN_OP_MAXIMUM ? -INFINITY : INFINITY);
  return qn_scalar(g, dtype, op == QN_OP_MULTIPLY ? 1.0 : 0.0);
}

/* Initial values that differ by lane cannot be operands of one reduce: such a result is folded from the identity, the initial value last. */
static void batch_initial(qn_batch *b, int n, qn_val *in, qn_val *late, qn_op *late_op) {
  const qn_graph *body = b->node->regions[0];
  for (int i = 0; i < n; ++i) {
    if (!b->mapped[n + i])
      continue;
    late_op[i] = qn_combiner_op(body, i);
    if (late_op[i] == QN_OP_NONE || late_op[i] == QN_OP_PARAMETER) {
      (void)qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED,
                          "vmap: reduce with an initial value per lane needs a body of one binary operation");
      return;
    }
    late[i] = in[n + i];
    in[n + i] = qn_fold_identity(b->g, late_op[i], qn_val_type(in[i])->dtype);
  }
}

static void reduce_batch(qn_batch *b, qn_val *out) {
  int n = b->out_count;
  for (int i = 2 * n; i < b->in_count; ++i)
    if (b->mapped[i]) {
      out[0] = qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED,
                             "vmap: the body of reduce captures a value that differs by lane");
      return;
    }
  qn_arena *arena = qn_graph_arena(b->g);
  qn_val *in = QN_NEW(arena, qn_val, b->in_count), *late = QN_NEW(arena, qn_val, n);
  qn_op *late_op = QN_NEW(arena, qn_op, n);
  if (in == NULL || late == NULL || late_op == NULL) {
    out[0] = qn_graph_fail(b->g, QN_HERE, QN_OUT_OF_MEMORY, "reduce: out of memory");
    return;
  }
  for (int i = 0; i < b->in_count; ++i)
    in[i] = i < n ? qn_batch_lanes(b, i) : b->in[i];
  batch_initial(b, n, in, late, late_op);
  if (qn_graph_failed(b->g))
    return;
  qn_attr_dims attr = {qn_dims_lifted(&((const qn_attr_dims *)b->attr)->dims, false)};
  qn_val first = qn_graph_add(b->g, QN_OP_REDUCE, in, (size_t)b->in_count, &attr, b->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i) {
    out[i] = qn_val_result(first, i);
    if (!qn_val_ok(late[i]))
      continue;
    qn_type t = *qn_val_type(out[i]);
    qn_val pair[] = {qn_broadcast_in_dim(late[i], t.rank, t.dims, (const int64_t[]){0}), out[i]};
    out[i] = qn_graph_add(b->g, late_op[i], pair, 2, NULL, NULL, 0, QN_HERE);
  }
}

/* ---- reference ---- */
/* Steps over the rows of the operand (all axes but the last) and tells the result element where a row begins. */
typedef struct row_walk {
  int rank;
  int64_t outer[QN_MAX_RANK], index[QN_MAX_RANK],
      step[QN_MAX_RANK]; /* step: result elements per operand index, 0 where reduced */
  int64_t length, length_step, rows;
} row_walk;

static row_walk walk_open(const qn_type *x, const qn_dims *axes) {
  row_walk w = {.length = 1, .rows = 1};
  int64_t step = 1;
  for (int i = x->rank - 1; i >= 0; --i) {
    int64_t s = qn_dims_has(axes, i) ? 0 : step;
    if (s != 0)
      step *= x->dims[i];
    w.step[i] = s;
  }
  w.rank = x->rank > 0 ? x->rank - 1 : 0;
  if (x->rank > 0) {
    w.length = x->dims[w.rank];
    w.length_step = w.step[w.rank];
  }
  for (int i = 0; i < w.rank; ++i) {
    w.outer[i] = x->dims[i];
    w.rows *= x->dims[i];
  }
  return w;
}

static int64_t walk_at(const row_walk *w) {
  int64_t at = 0;
  for (int i = 0; i < w->rank; ++i)
    at += w->index[i] * w->step[i];
  return at;
}

static void fold_rows_f(const qn_type *t, qn_op op, const void *x, row_walk w, double *acc) {
  double chunk[CHUNK];
  for (int64_t row = 0; row < w.rows; ++row) {
    double *to = acc + walk_at(&w);
    for (int64_t k = 0; k < w.length; k += CHUNK) {
      int64_t n = w.length - k < CHUNK ? w.length - k : CHUNK;
      qn_oracle_load_f(t->dtype, x, row * w.length + k, n, chunk);
      for (int64_t i = 0; i < n; ++i) {
        double *a = to + (k + i) * w.length_step;
        *a = qn_fold_f(op, *a, chunk[i]);
      }
    }
    (void)qn_index_step(w.rank, w.outer, w.index);
  }
}

static void fold_rows_u(const qn_type *t, qn_op op, const void *x, row_walk w, uint64_t *acc) {
  bool is_signed = qn_dtype_is_signed(t->dtype);
  uint64_t chunk[CHUNK];
  for (int64_t row = 0; row < w.rows; ++row) {
    uint64_t *to = acc + walk_at(&w);
    for (int64_t k = 0; k < w.length; k += CHUNK) {
      int64_t n = w.length - k < CHUNK ? w.length - k : CHUNK;
      if (is_signed)
        qn_oracle_load_i(t->dtype, x, row * w.length + k, n, (int64_t *)chunk);
      else
        qn_oracle_load_u(t->dtype, x, row * w.length + k, n, chunk);
      for (int64_t i = 0; i < n; ++i) {
        uint64_t *a = to + (k + i) * w.length_step;
        *a = qn_fold_u(op, t->dtype, *a, chunk[i]);
      }
    }
    (void)qn_index_step(w.rank, w.outer, w.index);
  }
}

static qn_status eval_known(const qn_ref_call *c, int i, int n, qn_op op) {
  const qn_type *x = c->in_types[i], *y = c->out_types[i];
  int64_t count = qn_type_elements(y);
  if (count == 0)
    return QN_OK;
  row_walk w = walk_open(x, &((const qn_attr_dims *)c->attr)->dims);
  void *acc = malloc((size_t)count * 8);
  if (acc == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "reduce: out of memory");
  if (qn_dtype_is_float(x->dtype)) {
    double init;
    qn_oracle_load_f(x->dtype, c->in[n + i], 0, 1, &init);
    qn_fill_elements(acc, &init, 8, count);
    fold_rows_f(x, op, c->in[i], w, acc);
    qn_oracle_store_f(y->dtype, c->out[i], 0, count, acc);
  } else if (qn_dtype_is_signed(x->dtype)) {
    int64_t init;
    qn_oracle_load_i(x->dtype, c->in[n + i], 0, 1, &init);
    qn_fill_elements(acc, &init, 8, count);
    fold_rows_u(x, op, c->in[i], w, acc);
    qn_oracle_store_i(y->dtype, c->out[i], 0, count, acc);
  } else {
    uint64_t init;
    qn_oracle_load_u(x->dtype, c->in[n + i], 0, 1, &init);
    qn_fill_elements(acc, &init, 8, count);
    fold_rows_u(x, op, c->in[i], w, acc);
    qn_oracle_store_u(y->dtype, c->out[i], 0, count, acc);
  }
  free(acc);
  return QN_OK;
}

static qn_status eval_region(const qn_ref_call *c) {
  int n = c->out_count, captures = c->in_count - 2 * n;
  row_walk w = walk_open(c->in_types[0], &((const qn_attr_dims *)c->attr)->dims);
  for (int i = 0; i < n; ++i)
    qn_fill_elements(c->out[i], c->in[n + i], qn_dtype_size(c->out_types[i]->dtype), qn_type_elements(c->out_types[i]));
  qn_oracle_region *region = NULL;
  qn_status st = QN_OK;
  const void **in = calloc((size_t)(2 * n + captures), sizeof *in);
  void **out = calloc((size_t)n, sizeof *out);
  if (in == NULL || out == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "reduce: out of memory");
    goto done;
  }
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[0], &region), done);
  for (int i = 0; i < captures; ++i)
    in[2 * n + i] = c->in[2 * n + i];
  for (int64_t row = 0; row < w.rows; ++row) {
    int64_t at = walk_at(&w);
    for (int64_t k = 0; k < w.length; ++k) {
      for (int i = 0; i < n; ++i) {
        size_t size = qn_dtype_size(c->out_types[i]->dtype);
        in[i] = out[i] = (char *)c->out[i] + (size_t)(at + k * w.length_step) * size;
        in[n + i] = (const char *)c->in[i] + (size_t)(row * w.length + k) * size;
      }
      QN_TRY_GOTO(st, qn_oracle_region_run(region, in, out), done);
    }
    (void)qn_index_step(w.rank, w.outer, w.index);
  }
done:
  qn_oracle_region_close(region);
  free(in);
  free(out);
  return st;
}

static qn_status reduce_eval(const qn_ref_call *c) {
  int n = c->out_count;
  bool known = c->in_count == 2 * n;
  for (int i = 0; i < n && known; ++i) {
    qn_op op = qn_combiner_op(c->node->regions[0], i);
    known = op != QN_OP_NONE && op != QN_OP_PARAMETER && !qn_dtype_is_complex(c->in_types[i]->dtype);
  }
  if (!known)
    return eval_region(c);
  for (int i = 0; i < n; ++i)
    QN_TRY(eval_known(c, i, n, qn_combiner_op(c->node->regions[0], i)));
  return QN_OK;
}

const qn_op_def qn_op_reduce = {
    .name = "reduce",
    .doc = "Folds the elements along axes into one by a combiner region, from an initial value; several operands may "
           "be folded together.",
    .arity = -1,
    .kind = QN_KIND_REDUCE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dims),
    .infer = reduce_infer,
    .vjp = qn_reduce_vjp,
    .jvp = qn_reduce_jvp,
    .batch = reduce_batch,
    .eval = reduce_eval,
};

/* ---- builders ---- */
void qn_reduce_at(qn_place at, const qn_val *x, const qn_val *init, size_t count, int axes_count, const int64_t *axes,
                  qn_graph *body, qn_val *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("reduce", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_val *in = count <= QN_MAX_OPERANDS / 2 ? QN_NEW(qn_graph_arena(g), qn_val, 2 * count) : NULL;
  if (in == NULL) {
    (void)qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "reduce: no memory for %zu operands", count);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    in[i] = x[i];
    in[count + i] = init[i];
  }
  if (qn_graph_common("reduce", in, 2 * count, at) == NULL)
    return;
  if (axes_count < 0 || axes_count > QN_MAX_RANK) {
    (void)qn_graph_fail(g, at, QN_INVALID, "reduce: %d axes, expected 0..%d", axes_count, QN_MAX_RANK);
    return;
  }
  qn_attr_dims attr = {qn_dims_of(axes_count, axes)};
  qn_val first = qn_graph_add(g, QN_OP_REDUCE, in, 2 * count, &attr, &body, 1, at);
  for (size_t i = 0; i < count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}

qn_status qn_region_binary(qn_op op, qn_dtype dtype, qn_graph **out_region) {
  *out_region = NULL;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("region", &g));
  qn_val pair[2] = {qn_graph_param(g, qn_type_scalar(dtype), NULL), QN_NULL_VAL};
  pair[1] = qn_graph_param(g, qn_type_scalar(dtype), NULL);
  qn_val y = op == QN_OP_PARAMETER ? pair[1] : qn_graph_add(g, op, pair, 2, NULL, NULL, 0, QN_HERE);
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_seal(g, &y, 1)");
  }
  *out_region = g;
  return QN_OK;
}

/* Axes counted from the front; false after it has made the graph fail. */
static bool normal_axes(qn_graph *g, qn_place at, const qn_type *t, int count, const int64_t *axes, qn_dims *out) {
  if (axes == NULL) {
    *out = qn_dims_iota(t->rank);
    return true;
  }
  *out = (qn_dims){0};
  if (count < 0 || count > t->rank) {
    (void)qn_graph_fail(g, at, QN_INVALID, "reduce: %d axes, %s has %d", count, qn_type_str(t), t->rank);
    return false;
  }
  for (int i = 0; i < count; ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + t->rank : axes[i];
    if (axis < 0 || axis >= t->rank || qn_dims_has(out, axis)) {
      (void)qn_graph_fail(g, at, QN_INVALID, "reduce: axis %lld is %s for %s", (long long)axes[i],
                          axis < 0 || axis >= t->rank ? "out of range" : "there twice", qn_type_str(t));
      return false;
    }
    out->d[out->n++] = axis;
  }
  return true;
}

qn_val qn_reduce_op_at(qn_place at, qn_val x, qn_op op, int axes_count, const int64_t *axes, bool keepdims) {
  qn_graph *g = qn_graph_common("reduce", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type t = *qn_val_type(x);
  qn_dims over;
  if (!normal_axes(g, at, &t, axes_count, axes, &over))
    return QN_NULL_VAL;
  if (over.n == 0)
    return x;
  qn_graph *body = NULL;
  qn_status st = qn_region_binary(op, t.dtype, &body);
  if (st != QN_OK)
    return qn_graph_fail(g, at, st, "reduce: %s", qn_error_message());
  qn_val init = qn_fold_identity(g, op, t.dtype), y;
  qn_reduce_at(at, &x, &init, 1, over.n, over.d, body, &y);
  qn_graph_release(body);
  if (!keepdims || !qn_val_ok(y))
    return y;
  for (int i = 0; i < over.n; ++i)
    t.dims[over.d[i]] = 1;
  return qn_reshape_at(at, y, t.rank, t.dims);
}
