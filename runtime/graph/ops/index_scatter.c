/* scatter: windows of updates combined into operands at starts from an index tensor; a window that does not fit is dropped whole, as XLA
 * does. The reference goes through the windows in order; sums of narrow floats are held in double until the end. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "index_window.h"
#include "infer.h"
#include "move_shape.h"

static qn_status check_updates(const qn_infer *c, const qn_attr_scatter *a, int n) {
  const qn_type *x = &c->operands[0], *t = &c->operands[n], *u = &c->operands[n + 1];
  int counts = t->rank - (a->index_vector_dim < t->rank ? 1 : 0);
  int windows = x->rank - a->inserted_window_dims.n - a->input_batching_dims.n;
  if (u->rank != counts + windows)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected rank %d: %d axes of the indices and %d of a window",
                  c->name, n + 1, qn_type_str(u), counts + windows, counts, windows);
  QN_TRY(qn_check_length(c, "update_window_dims", &a->update_window_dims, windows));
  QN_TRY(qn_check_axes(c, "update_window_dims", &a->update_window_dims, u->rank, true));
  qn_windows w = qn_windows_of_scatter(a, x, t, u);
  for (int i = 0; i < w.outer_count.n; ++i)
    if (u->dims[w.outer_count.d[i]] != t->dims[w.count_axes.d[i]])
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected size %lld at axis %lld as axis %lld of operand %d, %s",
                    c->name, n + 1, qn_type_str(u), (long long)t->dims[w.count_axes.d[i]],
                    (long long)w.outer_count.d[i], (long long)w.count_axes.d[i], n, qn_type_str(t));
  for (int i = 0; i < windows; ++i)
    if (u->dims[w.outer_window.d[i]] > x->dims[w.operand_window.d[i]])
      return QN_ERR(QN_INVALID,
                    "%s: operand %d is %s, expected at most %lld at axis %lld as axis %lld of operand 0, %s", c->name,
                    n + 1, qn_type_str(u), (long long)x->dims[w.operand_window.d[i]], (long long)w.outer_window.d[i],
                    (long long)w.operand_window.d[i], qn_type_str(x));
  return QN_OK;
}

static qn_status scatter_infer(qn_infer *c) {
  if (c->region_count != 1 || c->regions[0] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected 1", c->name, c->region_count);
  int n = (int)qn_graph_result_count(c->regions[0]);
  if (n < 1 || c->operand_count < 2 * n + 1)
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected at least %d for a body of %d results", c->name,
                  c->operand_count, n < 1 ? 3 : 2 * n + 1, n);
  const qn_attr_scatter *a = c->attr;
  for (int i = 0; i < n; ++i) {
    const qn_type *x = &c->operands[i], *u = &c->operands[n + 1 + i];
    if (!qn_type_same_shape(x, &c->operands[0]))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s", c->name, i, qn_type_str(x),
                    qn_type_str(&c->operands[0]));
    if (!qn_type_same_shape(u, &c->operands[n + 1]))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand %d, %s", c->name, n + 1 + i,
                    qn_type_str(u), n + 1, qn_type_str(&c->operands[n + 1]));
    QN_TRY(qn_check_same_dtype(c, n + 1 + i, i));
    c->out_types[i] = *x;
  }
  QN_TRY(qn_check_windows(c, 0, n, a->index_vector_dim, &a->scatter_dims_to_operand_dims, "input_batching_dims",
                          &a->input_batching_dims, "scatter_indices_batching_dims", &a->scatter_indices_batching_dims,
                          "inserted_window_dims", &a->inserted_window_dims));
  QN_TRY(check_updates(c, a, n));
  QN_TRY(qn_check_combiner(c, 0, n, c->operands, 2 * n + 1));
  c->result_count = n;
  return QN_OK;
}

static void scatter_batch(qn_batch *b, qn_val *out) {
  int n = b->out_count;
  const qn_attr_scatter *a = b->attr;
  for (int i = 2 * n + 1; i < b->in_count; ++i)
    if (b->mapped[i]) {
      out[0] = qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED,
                             "vmap: the body of scatter captures a value that differs by lane");
      return;
    }
  qn_val *in = QN_NEW(qn_graph_arena(b->g), qn_val, b->in_count);
  if (in == NULL) {
    out[0] = qn_graph_fail(b->g, QN_HERE, QN_OUT_OF_MEMORY, "scatter: out of memory");
    return;
  }
  for (int i = 0; i < b->in_count; ++i)
    in[i] = i == n || i > 2 * n ? b->in[i] : qn_batch_lanes(b, i);
  bool own = b->mapped[n]; /* with shared indices the lanes are one more axis of the window */
  qn_attr_scatter up = *a;
  up.update_window_dims = qn_dims_lifted(&a->update_window_dims, !own);
  up.inserted_window_dims = qn_dims_lifted(&a->inserted_window_dims, false);
  up.scatter_dims_to_operand_dims = qn_dims_lifted(&a->scatter_dims_to_operand_dims, false);
  up.input_batching_dims = qn_dims_lifted(&a->input_batching_dims, own);
  if (own) {
    up.scatter_indices_batching_dims = qn_dims_lifted(&a->scatter_indices_batching_dims, true);
    up.index_vector_dim++;
  }
  up.indices_are_sorted = a->indices_are_sorted && !own;
  qn_val first = qn_graph_add(b->g, QN_OP_SCATTER, in, (size_t)b->in_count, &up, b->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, i);
}

/* ---- reference ---- */
/* Goes through update elements in order: windows by number, elements of a window row-major. */
typedef struct scatter_walk {
  qn_windows w;
  const void *indices;
  int64_t counts[QN_MAX_RANK], number[QN_MAX_RANK], dims[QN_MAX_RANK], index[QN_MAX_RANK];
  int64_t to_steps[QN_MAX_RANK], from_steps[QN_MAX_RANK], count_steps[QN_MAX_RANK],
      operand_steps[QN_MAX_RANK]; /* in elements */
  int64_t to_base, from_base;
} scatter_walk;

static void element_steps(const qn_type *t, int64_t *out) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; --i) {
    out[i] = step;
    step *= t->dims[i];
  }
}

static scatter_walk walk_open(const qn_ref_call *c, int n) {
  scatter_walk s = {.w = qn_windows_of_scatter(c->attr, c->in_types[0], c->in_types[n], c->in_types[n + 1]),
                    .indices = c->in[n]};
  int64_t outer[QN_MAX_RANK];
  element_steps(s.w.operand, s.operand_steps);
  element_steps(s.w.outer, outer);
  for (int i = 0; i < s.w.operand_window.n; ++i) {
    s.to_steps[i] = s.operand_steps[s.w.operand_window.d[i]];
    s.from_steps[i] = outer[s.w.outer_window.d[i]];
    s.dims[i] = s.w.size.d[s.w.operand_window.d[i]];
  }
  for (int i = 0; i < s.w.outer_count.n; ++i) {
    s.counts[i] = s.w.outer->dims[s.w.outer_count.d[i]];
    s.count_steps[i] = outer[s.w.outer_count.d[i]];
  }
  return s;
}

/* Sets the bases of window `number`; false if it does not fit. */
static bool walk_window(scatter_walk *s) {
  int64_t start[QN_MAX_RANK];
  qn_windows_start(&s->w, s->indices, s->number, start);
  s->to_base = s->from_base = 0;
  for (int i = 0; i < s->w.operand->rank; ++i) {
    if (start[i] < 0 || start[i] > s->w.operand->dims[i] - s->w.size.d[i])
      return false;
    s->to_base += start[i] * s->operand_steps[i];
  }
  for (int i = 0; i < s->w.outer_count.n; ++i)
    s->from_base += s->number[i] * s->count_steps[i];
  return true;
}

static void walk_element(const scatter_walk *s, int64_t *to, int64_t *from) {
  *to = s->to_base;
  *from = s->from_base;
  for (int i = 0; i < s->w.operand_window.n; ++i) {
    *to += s->index[i] * s->to_steps[i];
    *from += s->index[i] * s->from_steps[i];
  }
}

static void eval_assign(const qn_ref_call *c, size_t size) {
  scatter_walk s = walk_open(c, 1);
  do {
    if (!walk_window(&s))
      continue;
    do {
      int64_t to, from;
      walk_element(&s, &to, &from);
      memcpy((char *)c->out[0] + (size_t)to * size, (const char *)c->in[2] + (size_t)from * size, size);
    } while (qn_index_step(s.w.operand_window.n, s.dims, s.index));
  } while (qn_index_step(s.w.outer_count.n, s.counts, s.number));
}

static qn_status eval_known(const qn_ref_call *c, qn_op op) {
  const qn_type *x = c->in_types[0];
  int64_t count = qn_type_elements(x), updates = qn_type_elements(c->in_types[2]);
  bool is_float = qn_dtype_is_float(x->dtype), is_signed = qn_dtype_is_signed(x->dtype);
  void *acc = malloc((size_t)count * 8), *with = malloc((size_t)updates * 8);
  if (acc == NULL || with == NULL) {
    free(acc);
    free(with);
    return QN_ERR(QN_OUT_OF_MEMORY, "scatter: out of memory");
  }
  if (is_float) {
    qn_oracle_load_f(x->dtype, c->in[0], 0, count, acc);
    qn_oracle_load_f(x->dtype, c->in[2], 0, updates, with);
  } else if (is_signed) {
    qn_oracle_load_i(x->dtype, c->in[0], 0, count, acc);
    qn_oracle_load_i(x->dtype, c->in[2], 0, updates, with);
  } else {
    qn_oracle_load_u(x->dtype, c->in[0], 0, count, acc);
    qn_oracle_load_u(x->dtype, c->in[2], 0, updates, with);
  }
  scatter_walk s = walk_open(c, 1);
  do {
    if (!walk_window(&s))
      continue;
    do {
      int64_t to, from;
      walk_element(&s, &to, &from);
      if (is_float)
        ((double *)acc)[to] = qn_fold_f(op, ((double *)acc)[to], ((double *)with)[from]);
      else
        ((uint64_t *)acc)[to] = qn_fold_u(op, x->dtype, ((uint64_t *)acc)[to], ((uint64_t *)with)[from]);
    } while (qn_index_step(s.w.operand_window.n, s.dims, s.index));
  } while (qn_index_step(s.w.outer_count.n, s.counts, s.number));
  if (is_float)
    qn_oracle_store_f(x->dtype, c->out[0], 0, count, acc);
  else if (is_signed)
    qn_oracle_store_i(x->dtype, c->out[0], 0, count, acc);
  else
    qn_oracle_store_u(x->dtype, c->out[0], 0, count, acc);
  free(acc);
  free(with);
  return QN_OK;
}

static qn_status eval_region(const qn_ref_call *c, int n) {
  int captures = c->in_count - 2 * n - 1;
  scatter_walk s = walk_open(c, n);
  qn_oracle_region *region = NULL;
  qn_status st = QN_OK;
  const void **in = calloc((size_t)(2 * n + captures), sizeof *in);
  void **out = calloc((size_t)n, sizeof *out);
  if (in == NULL || out == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "scatter: out of memory");
    goto done;
  }
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[0], &region), done);
  for (int i = 0; i < captures; ++i)
    in[2 * n + i] = c->in[2 * n + 1 + i];
  do {
    if (!walk_window(&s))
      continue;
    do {
      int64_t to, from;
      walk_element(&s, &to, &from);
      for (int i = 0; i < n; ++i) {
        size_t size = qn_dtype_size(c->in_types[i]->dtype);
        in[i] = out[i] = (char *)c->out[i] + (size_t)to * size;
        in[n + i] = (const char *)c->in[n + 1 + i] + (size_t)from * size;
      }
      QN_TRY_GOTO(st, qn_oracle_region_run(region, in, out), done);
    } while (qn_index_step(s.w.operand_window.n, s.dims, s.index));
  } while (qn_index_step(s.w.outer_count.n, s.counts, s.number));
done:
  qn_oracle_region_close(region);
  free(in);
  free(out);
  return st;
}

static qn_status scatter_eval(const qn_ref_call *c) {
  int n = c->out_count;
  for (int i = 0; i < n; ++i)
    if (qn_type_elements(c->in_types[i]) > 0)
      memcpy(c->out[i], c->in[i], (size_t)qn_type_bytes(c->in_types[i]));
  if (qn_type_elements(c->in_types[0]) == 0 || qn_type_elements(c->in_types[n + 1]) == 0)
    return QN_OK;
  qn_op op = n == 1 && c->in_count == 3 ? qn_combiner_op(c->node->regions[0], 0) : QN_OP_NONE;
  if (op == QN_OP_PARAMETER) {
    eval_assign(c, qn_dtype_size(c->in_types[0]->dtype));
    return QN_OK;
  }
  if (op != QN_OP_NONE && !qn_dtype_is_complex(c->in_types[0]->dtype))
    return eval_known(c, op);
  return eval_region(c, n);
}

const qn_op_def qn_op_scatter = {
    .name = "scatter",
    .doc = "Combines windows of updates into the operand at starts given by index vectors; a window that does not fit "
           "is dropped.",
    .arity = -1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_scatter),
    .infer = scatter_infer,
    .vjp = qn_scatter_vjp,
    .jvp = qn_scatter_jvp,
    .batch = scatter_batch,
    .eval = scatter_eval,
};

qn_val qn_scatter_at(qn_place at, qn_val x, qn_val indices, qn_val updates, const qn_attr_scatter *dims,
                     qn_graph *body) {
  qn_val in[] = {x, indices, updates};
  qn_graph *g = qn_graph_common("scatter", in, 3, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  return qn_graph_add(g, QN_OP_SCATTER, in, 3, dims, &body, 1, at);
}
