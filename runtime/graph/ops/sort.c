/* sort: reorders the rows of several arrays along one axis by a comparator region, always keeping equal elements in order. On devices it
 * is a chain of quern.sort_runs: short stretches are sorted, then merged in pairs until a stretch is a whole row. With a comparator that
 * is no strict weak order the order of the result is not specified. */
#include "sort.h"

#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "move_shape.h"

/* Rows up to SHORT are sorted at once, longer ones in stretches of BLOCK first. */
enum { SHORT = 64, BLOCK = 32 };

/* ---- shape rules ---- */
/* Operand 0 .. count-1 are sorted; what the comparator captures follows. */
static qn_status check_comparator(const qn_infer *c, int count) {
  const qn_graph *less = c->regions[0];
  int params = (int)qn_graph_param_count(less);
  for (int i = 0; i < params; ++i) {
    qn_type want = i < 2 * count ? qn_type_scalar(c->operands[i / 2].dtype) : c->operands[i - count];
    const qn_type *got = qn_graph_type(less, qn_graph_param_at(less, (size_t)i));
    if (!qn_type_equal(got, &want))
      return QN_ERR(QN_INVALID, "%s: parameter %d of the comparator is %s, expected %s", c->name, i, qn_type_str(got),
                    qn_type_str(&want));
  }
  qn_type truth = qn_type_scalar(QN_BOOL);
  if (qn_graph_result_count(less) != 1 || !qn_type_equal(qn_graph_type(less, qn_graph_result(less, 0)), &truth))
    return QN_ERR(QN_INVALID, "%s: the comparator has %zu results, the first %s, expected one bool[]", c->name,
                  qn_graph_result_count(less),
                  qn_graph_result_count(less) ? qn_type_str(qn_graph_type(less, qn_graph_result(less, 0))) : "missing");
  return QN_OK;
}

static qn_status infer_along(qn_infer *c, int64_t axis) {
  if (c->region_count != 1 || c->regions[0] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected a comparator", c->name, c->region_count);
  int params = (int)qn_graph_param_count(c->regions[0]), count = params - c->operand_count;
  if (count < 1 || count > c->operand_count)
    return QN_ERR(QN_INVALID, "%s: the comparator has %d parameters, expected two for each of %d operands", c->name,
                  params, c->operand_count);
  const qn_type *x = &c->operands[0];
  if (axis < 0 || axis >= x->rank)
    return QN_ERR(QN_INVALID, "%s: dimension is %lld, expected an axis of operand 0, %s", c->name, (long long)axis,
                  qn_type_str(x));
  for (int i = 0; i < count; ++i) {
    if (!qn_type_same_shape(&c->operands[i], x))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s", c->name, i,
                    qn_type_str(&c->operands[i]), qn_type_str(x));
    c->out_types[i] = c->operands[i];
  }
  for (int i = count; i < c->operand_count; ++i)
    if (c->operands[i].rank != 0)
      return QN_ERR(QN_INVALID, "%s: the comparator captures %s, expected scalars", c->name,
                    qn_type_str(&c->operands[i]));
  c->result_count = count;
  return check_comparator(c, count);
}

static qn_status sort_infer(qn_infer *c) { return infer_along(c, ((const qn_attr_sort *)c->attr)->dimension); }

static qn_status runs_infer(qn_infer *c) {
  const qn_attr_runs *a = c->attr;
  bool steps = a->sorted == 1 ? a->length >= 1 && a->length <= SHORT : a->length == 2 * a->sorted;
  if (a->sorted < 1 || !steps)
    return QN_ERR(QN_INVALID, "%s: sorted is %lld and length %lld, expected 1 and at most %d, or half and whole",
                  c->name, (long long)a->sorted, (long long)a->length, SHORT);
  if (a->sorted > 1 && (a->sorted & (a->sorted - 1)))
    return QN_ERR(QN_INVALID, "%s: sorted is %lld, expected a power of two", c->name, (long long)a->sorted);
  return infer_along(c, a->dimension);
}

/* ---- batching ---- */
static bool batch_operands(qn_batch *b, qn_val *in) {
  for (int i = 0; i < b->in_count; ++i) {
    if (i >= b->out_count && b->mapped[i]) {
      (void)qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED,
                          "vmap: the comparator of sort captures a value that differs by lane");
      return false;
    }
    in[i] = i < b->out_count ? qn_batch_lanes(b, i) : b->in[i];
  }
  return !qn_graph_failed(b->g);
}

static void batch_along(qn_batch *b, const void *attr, qn_val *out) {
  qn_val *in = QN_NEW(qn_graph_arena(b->g), qn_val, b->in_count);
  if (in == NULL || !batch_operands(b, in))
    return;
  qn_val first = qn_graph_add(b->g, b->node->op, in, (size_t)b->in_count, attr, b->node->regions, 1, QN_HERE);
  for (int i = 0; i < b->out_count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, i);
}

static void sort_batch(qn_batch *b, qn_val *out) {
  qn_attr_sort a = *(const qn_attr_sort *)b->attr;
  a.dimension++;
  batch_along(b, &a, out);
}

static void runs_batch(qn_batch *b, qn_val *out) {
  qn_attr_runs a = *(const qn_attr_runs *)b->attr;
  a.dimension++;
  batch_along(b, &a, out);
}

/* ---- reference ---- */
/* Merges sorted halves of `order` over and over. `before` tells whether element b, which stands behind a, has to come before it. */
qn_status qn_stable_order(int64_t *order, int64_t *scratch, int64_t n, qn_before_fn before, void *user) {
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      int64_t middle = begin + run < n ? begin + run : n, end = begin + 2 * run < n ? begin + 2 * run : n;
      int64_t a = begin, b = middle;
      for (int64_t k = begin; k < end; ++k) {
        bool later = a >= middle;
        if (!later && b < end)
          QN_TRY(before(user, order[b], order[a], &later));
        scratch[k] = later ? order[b++] : order[a++];
      }
    }
    memcpy(order, scratch, (size_t)n * sizeof *order);
  }
  return QN_OK;
}

typedef struct sort_walk {
  const qn_ref_call *call;
  qn_oracle_region *less;
  const void **in;
  int64_t base, step; /* of the row, in elements */
} sort_walk;

static qn_status is_less(void *user, int64_t b, int64_t a, bool *out) {
  sort_walk *w = user;
  for (int i = 0; i < w->call->out_count; ++i) {
    size_t size = qn_dtype_size(w->call->in_types[i]->dtype);
    w->in[2 * i] = (const char *)w->call->in[i] + (size_t)(w->base + b * w->step) * size;
    w->in[2 * i + 1] = (const char *)w->call->in[i] + (size_t)(w->base + a * w->step) * size;
  }
  uint8_t truth = 0;
  void *to = &truth;
  QN_TRY(qn_oracle_region_run(w->less, w->in, &to));
  *out = truth != 0;
  return QN_OK;
}

static void write_order(const sort_walk *w, const int64_t *order, int64_t first, int64_t n) {
  for (int i = 0; i < w->call->out_count; ++i) {
    size_t size = qn_dtype_size(w->call->in_types[i]->dtype);
    for (int64_t k = 0; k < n; ++k)
      memcpy((char *)w->call->out[i] + (size_t)(w->base + (first + k) * w->step) * size,
             (const char *)w->call->in[i] + (size_t)(w->base + order[k] * w->step) * size, size);
  }
}

/* Sorts every stretch of `length` elements along the axis. */
static qn_status eval_stretches(const qn_ref_call *c, int64_t axis, int64_t length) {
  const qn_type *x = c->in_types[0];
  int64_t n = x->dims[axis], inner = 1, elements = qn_type_elements(x);
  if (elements == 0)
    return QN_OK;
  for (int i = (int)axis + 1; i < x->rank; ++i)
    inner *= x->dims[i];
  sort_walk w = {.call = c, .step = inner};
  int64_t *order = malloc((size_t)(2 * length) * sizeof *order);
  int captures = c->in_count - c->out_count;
  w.in = calloc((size_t)(2 * c->out_count + captures), sizeof *w.in);
  qn_status st = order && w.in ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "sort: no memory for rows of %lld", (long long)n);
  if (st == QN_OK)
    st = qn_oracle_region_open(c->node->regions[0], &w.less);
  for (int i = 0; st == QN_OK && i < captures; ++i)
    w.in[2 * c->out_count + i] = c->in[c->out_count + i];
  for (int64_t row = 0; st == QN_OK && row < elements / n; ++row) {
    w.base = row / inner * n * inner + row % inner;
    for (int64_t first = 0; st == QN_OK && first < n; first += length) {
      int64_t count = n - first < length ? n - first : length;
      for (int64_t k = 0; k < count; ++k)
        order[k] = first + k;
      st = qn_stable_order(order, order + length, count, is_less, &w);
      if (st == QN_OK)
        write_order(&w, order, first, count);
    }
  }
  qn_oracle_region_close(w.less);
  free(w.in);
  free(order);
  return st;
}

static qn_status sort_eval(const qn_ref_call *c) {
  int64_t axis = ((const qn_attr_sort *)c->attr)->dimension;
  return eval_stretches(c, axis, c->in_types[0]->dims[axis]);
}

static qn_status runs_eval(const qn_ref_call *c) {
  const qn_attr_runs *a = c->attr;
  return eval_stretches(c, a->dimension, a->length);
}

/* ---- lowering ---- */
static bool one_pass(const qn_rule *r, const qn_attr_runs *a, qn_val *in, qn_val *out) {
  qn_val first = qn_graph_add(r->g, QN_OP_SORT_RUNS, in, (size_t)r->in_count, a, r->node->regions, 1, QN_HERE);
  for (int i = 0; i < r->out_count && qn_val_ok(first); ++i)
    in[i] = out[i] = qn_val_result(first, i);
  return qn_val_ok(first);
}

static bool sort_lower(qn_rule *r, qn_val *out) {
  qn_type t = *qn_val_type(r->in[0]);
  int64_t axis = ((const qn_attr_sort *)r->attr)->dimension, n = t.dims[axis], swap[QN_MAX_RANK];
  qn_val *in = QN_NEW(qn_graph_arena(r->g), qn_val, r->in_count);
  if (in == NULL) {
    out[0] = qn_graph_fail(r->g, QN_HERE, QN_OUT_OF_MEMORY, "sort: out of memory");
    return true;
  }
  for (int i = 0; i < r->in_count; ++i)
    in[i] = r->in[i];
  if (n <= 1 || qn_type_elements(&t) == 0) {
    memcpy(out, in, (size_t)r->out_count * sizeof *out);
    return true;
  }
  qn_attr_runs a = {.dimension = axis, .sorted = 1, .length = n};
  if (n <= SHORT) {
    (void)one_pass(r, &a, in, out); /* a failure sticks to the graph */
    return true;
  }
  for (int i = 0; i < t.rank; ++i)
    swap[i] = i == axis ? t.rank - 1 : i == t.rank - 1 ? axis : i;
  a.dimension = t.rank - 1; /* merging walks along rows */
  for (int i = 0; i < r->out_count; ++i)
    in[i] = qn_transposed(in[i], swap);
  a.length = BLOCK;
  if (!one_pass(r, &a, in, out))
    return true;
  while (a.length < n) {
    a.sorted = a.length;
    a.length *= 2;
    if (!one_pass(r, &a, in, out))
      return true;
  }
  for (int i = 0; i < r->out_count; ++i)
    out[i] = qn_transposed(in[i], swap);
  return true;
}

const qn_op_def qn_op_sort = {
    .name = "sort",
    .doc = "Reorders arrays along an axis by a comparator region (a0, b0, a1, b1, ..) that tells whether a comes "
           "before b; equal elements keep their order.",
    .arity = -1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_sort),
    .infer = sort_infer,
    .vjp = qn_sort_vjp,
    .jvp = qn_sort_jvp,
    .batch = sort_batch,
    .lower = sort_lower,
    .eval = sort_eval,
};

const qn_op_def qn_op_sort_runs = {
    .name = "quern.sort_runs",
    .doc = "One pass of a sort: every stretch of `length` elements along the axis is sorted, in which stretches of "
           "`sorted` elements were sorted before.",
    .arity = -1,
    .kind = QN_KIND_INDEX,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_runs),
    .infer = runs_infer,
    .no_grad = "made by lowering, when derivatives are taken already",
    .batch = runs_batch,
    .eval = runs_eval,
};
