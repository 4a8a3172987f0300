/* Running folds. The builders write them as windows that grow along an axis, as JAX does; in front of scheduling those become quern.cumulative, which a
 * device does in one walk. Where rows are few and long they are cut in blocks: totals of the blocks are folded first, then every block starts from the
 * fold of those before it. Where that is done, and in what order, is decided by shapes alone. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "window.h"

enum { CUT_LENGTH = 4096, CUT_ROWS = 4096, BLOCK = 512 };

static int64_t blocks_of(const qn_attr_cumulative *a, const qn_type *x) {
  return (x->dims[a->dimension] + a->block - 1) / a->block;
}

static qn_status cumulative_infer(qn_infer *c) {
  if (c->region_count != 1 || c->regions[0] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected 1", c->name, c->region_count);
  const qn_attr_cumulative *a = c->attr;
  int n = (int)qn_graph_result_count(c->regions[0]);
  bool starts = a->block > 0 && !a->totals;
  if (n < 1 || c->operand_count != (starts ? 2 * n : n))
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected %d for a body of %d results", c->name, c->operand_count,
                  n < 1    ? 1
                  : starts ? 2 * n
                           : n,
                  n);
  if (a->dimension < 0 || a->dimension >= c->operands[0].rank)
    return QN_ERR(QN_INVALID, "%s: dimension is %lld, expected 0..%d for %s", c->name, (long long)a->dimension,
                  c->operands[0].rank - 1, qn_type_str(&c->operands[0]));
  if (a->block < 0 || (a->totals && a->block == 0))
    return QN_ERR(QN_INVALID, "%s: block is %lld, expected at least %d", c->name, (long long)a->block,
                  a->totals ? 1 : 0);
  for (int i = 0; i < n; ++i) {
    qn_type t = c->operands[i];
    if (!qn_type_same_shape(&t, &c->operands[0]))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected the shape of operand 0, %s", c->name, i,
                    qn_type_str(&t), qn_type_str(&c->operands[0]));
    c->out_types[i] = t;
    if (a->block > 0)
      t.dims[a->dimension] = blocks_of(a, &t);
    if (a->totals)
      c->out_types[i] = t;
    if (starts && !qn_type_equal(&c->operands[n + i], &t))
      return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %s, an element for each block", c->name, n + i,
                    qn_type_str(&c->operands[n + i]), qn_type_str(&t));
  }
  QN_TRY(qn_check_combiner(c, 0, n, c->operands, c->operand_count));
  c->result_count = n;
  return QN_OK;
}

static void cumulative_batch(qn_batch *b, qn_val *out) {
  qn_val *in = QN_NEW(qn_graph_arena(b->g), qn_val, b->in_count);
  if (in == NULL) {
    out[0] = qn_graph_fail(b->g, QN_HERE, QN_OUT_OF_MEMORY, "cumulative: out of memory");
    return;
  }
  for (int i = 0; i < b->in_count; ++i)
    in[i] = qn_batch_lanes(b, i);
  qn_attr_cumulative a = *(const qn_attr_cumulative *)b->attr;
  a.dimension++;
  qn_val first = qn_graph_add(b->g, QN_OP_CUMULATIVE, in, (size_t)b->in_count, &a, b->node->regions, 1, QN_HERE);
  for (int i = 0; i < b->out_count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, i);
}

/* Few long rows: totals of blocks, their running fold, and each block from there. */
static bool cumulative_lower(qn_rule *r, qn_val *out) {
  qn_attr_cumulative a = *(const qn_attr_cumulative *)r->attr;
  const qn_type *x = qn_val_type(r->in[0]);
  int n = r->out_count;
  int64_t length = x->dims[a.dimension], rows = length == 0 ? 0 : qn_type_elements(x) / length;
  if (a.block != 0 || length < CUT_LENGTH || rows >= CUT_ROWS)
    return false;
  qn_val *in = QN_NEW(qn_graph_arena(r->g), qn_val, 2 * n);
  if (in == NULL) {
    (void)qn_graph_fail(r->g, QN_HERE, QN_OUT_OF_MEMORY, "cumulative: out of memory");
    return true;
  }
  memcpy(in, r->in, (size_t)n * sizeof *in);
  qn_attr_cumulative totals = {.dimension = a.dimension, .reverse = a.reverse, .block = BLOCK, .totals = true},
                     whole = a, rest = totals;
  rest.totals = false;
  qn_val first = qn_graph_add(r->g, QN_OP_CUMULATIVE, r->in, (size_t)n, &totals, r->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    in[n + i] = qn_val_result(first, i);
  first = qn_graph_add(r->g, QN_OP_CUMULATIVE, in + n, (size_t)n, &whole, r->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    in[n + i] = qn_val_result(first, i);
  first = qn_graph_add(r->g, QN_OP_CUMULATIVE, in, 2 * (size_t)n, &rest, r->node->regions, 1, QN_HERE);
  for (int i = 0; i < n && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, i);
  return true;
}

/* ---- reference ---- */
typedef struct walk {
  const qn_ref_call *c;
  const qn_attr_cumulative *a;
  qn_oracle_region *region;
  const void **in;
  void **acc;
  int n;
  int64_t length, step, block, blocks; /* elements of a row, between them, in a block; blocks */
} walk;

static size_t width(const walk *w, int i) { return qn_dtype_size(w->c->out_types[i]->dtype); }
static const char *element(const void *data, int64_t at, size_t size) { return (const char *)data + (size_t)at * size; }

/* One block of a row: `row` names outer and inner axes together. */
static qn_status walk_block(const walk *w, int64_t row, int64_t block) {
  int64_t outer = row / w->step, inner = row % w->step, begin = block * w->block, n = w->length - begin;
  bool reverse = w->a->reverse, any = false;
  n = n < w->block ? n : w->block;
  int64_t before = reverse ? block + 1 : block - 1;
  if (w->a->block > 0 && !w->a->totals && before >= 0 && before < w->blocks) {
    any = true;
    for (int i = 0; i < w->n; ++i)
      memcpy(w->acc[i], element(w->c->in[w->n + i], (outer * w->blocks + before) * w->step + inner, width(w, i)),
             width(w, i));
  }
  for (int64_t k = 0; k < n; ++k) {
    int64_t at = (outer * w->length + begin + (reverse ? n - 1 - k : k)) * w->step + inner;
    for (int i = 0; i < w->n; ++i) {
      const char *x = element(w->c->in[i], at, width(w, i));
      w->in[i] = reverse ? x : w->acc[i];
      w->in[w->n + i] = reverse ? w->acc[i] : x;
      if (!any)
        memcpy(w->acc[i], x, width(w, i));
    }
    if (any)
      QN_TRY(qn_oracle_region_run(w->region, w->in, w->acc));
    any = true;
    for (int i = 0; i < w->n && !w->a->totals; ++i)
      memcpy((char *)w->c->out[i] + (size_t)at * width(w, i), w->acc[i], width(w, i));
  }
  for (int i = 0; i < w->n && w->a->totals; ++i)
    memcpy((char *)w->c->out[i] + (size_t)((outer * w->blocks + block) * w->step + inner) * width(w, i), w->acc[i],
           width(w, i));
  return QN_OK;
}

static qn_status cumulative_eval(const qn_ref_call *c) {
  const qn_attr_cumulative *a = c->attr;
  const qn_type *x = c->in_types[0];
  walk w = {.c = c, .a = a, .n = c->out_count, .length = x->dims[a->dimension], .step = 1};
  if (qn_type_elements(x) == 0)
    return QN_OK;
  for (int i = (int)a->dimension + 1; i < x->rank; ++i)
    w.step *= x->dims[i];
  w.block = a->block > 0 ? a->block : w.length;
  w.blocks = (w.length + w.block - 1) / w.block;
  qn_status st = QN_OK;
  char *room = calloc((size_t)w.n, 16);
  w.in = calloc(2 * (size_t)w.n, sizeof *w.in);
  w.acc = calloc((size_t)w.n, sizeof *w.acc);
  if (room == NULL || w.in == NULL || w.acc == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "cumulative: out of memory");
    goto done;
  }
  for (int i = 0; i < w.n; ++i)
    w.acc[i] = room + 16 * i;
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[0], &w.region), done);
  int64_t rows = qn_type_elements(x) / w.length;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t block = 0; block < w.blocks; ++block)
      QN_TRY_GOTO(st, walk_block(&w, row, block), done);
done:
  qn_oracle_region_close(w.region);
  free(room);
  free(w.in);
  free(w.acc);
  return st;
}

const qn_op_def qn_op_cumulative = {
    .name = "quern.cumulative",
    .doc = "Running folds along an axis by an associative region: element k is the fold of those up to k, or from k "
           "on. With "
           "`block`, of each block by itself from the element of the second operands in front of it; with `totals`, "
           "the blocks' "
           "last elements alone.",
    .arity = -1,
    .kind = QN_KIND_REDUCE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_cumulative),
    .infer = cumulative_infer,
    .no_grad = "made of reduce_window in front of scheduling, behind differentiation",
    .batch = cumulative_batch,
    .lower = cumulative_lower,
    .eval = cumulative_eval,
};

/* ---- builders ---- */
static bool prefix_of(const char *name, qn_place at, qn_val x, int64_t *axis, bool reverse, qn_attr_window *out) {
  qn_graph *g = qn_graph_common(name, &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return false;
  const qn_type *t = qn_val_type(x);
  *axis += *axis < 0 ? t->rank : 0;
  if (*axis < 0 || *axis >= t->rank) {
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: axis %lld is out of range for %s", name, (long long)*axis,
                        qn_type_str(t));
    return false;
  }
  *out = qn_window_prefix(t->rank, (int)*axis, t->dims[*axis], reverse);
  return true;
}

qn_val qn_cumulative_op_at(qn_place at, qn_val x, qn_op op, int64_t axis, bool reverse) {
  qn_attr_window window;
  if (!prefix_of("cumulative", at, x, &axis, reverse, &window))
    return QN_NULL_VAL;
  return qn_val_type(x)->dims[axis] < 2 ? x : qn_reduce_window_op_at(at, x, op, &window);
}

/* log(exp(a) + exp(b)), as JAX writes it. */
static qn_status logaddexp_region(qn_dtype t, qn_graph **out_region) {
  qn_graph *g = NULL;
  *out_region = NULL;
  QN_TRY(qn_graph_create("logaddexp", &g));
  qn_val a = qn_graph_param(g, qn_type_scalar(t), NULL), b = qn_graph_param(g, qn_type_scalar(t), NULL);
  qn_val most = qn_max(a, b), delta = qn_sub(a, b);
  qn_val y = qn_select(qn_ne(delta, delta), qn_add(a, b), qn_add(most, qn_log1p(qn_exp(qn_neg(qn_abs(delta))))));
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_graph_seal(g, &y, 1)");
  }
  *out_region = g;
  return QN_OK;
}

qn_val qn_cumlogsumexp_at(qn_place at, qn_val x, int64_t axis, bool reverse) {
  qn_attr_window window;
  qn_graph *body = NULL;
  if (!prefix_of("cumlogsumexp", at, x, &axis, reverse, &window))
    return QN_NULL_VAL;
  qn_dtype t = qn_val_type(x)->dtype;
  if (qn_val_type(x)->dims[axis] < 2)
    return x;
  qn_status st = logaddexp_region(t, &body);
  if (st != QN_OK)
    return qn_graph_fail(x.graph, at, st, "cumlogsumexp: %s", qn_error_message());
  qn_val init = qn_fold_identity(x.graph, QN_OP_MAXIMUM, t), y;
  qn_reduce_window_at(at, &x, &init, 1, &window, body, &y);
  qn_graph_release(body);
  return y;
}
