/* select_and_scatter: each window of the operand chooses one of its elements, which then gets the window's source. Devices gather: every element looks
 * at the windows that hold it, so that no two items write to one place and the order of a sum is that of the windows. Choosing has no derivative. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "window.h"

static qn_status select_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 3, 2));
  qn_attr_window a = qn_window_plain(c->attr);
  const qn_type *x = &c->operands[0];
  int64_t dims[QN_MAX_RANK] = {0};
  QN_TRY(qn_check_length(c, "window_dimensions", &a.size, x->rank));
  QN_TRY(qn_window_check(c, &a, x, dims));
  qn_type source = qn_type_make(c->operands[1].dtype, x->rank, dims), two[2] = {*x, *x};
  if (!qn_type_equal(&source, &c->operands[1]))
    return QN_ERR(QN_INVALID, "%s: operand 1 is %s, expected %s, an element for each window", c->name,
                  qn_type_str(&c->operands[1]), qn_type_str(&source));
  QN_TRY(qn_check_scalar(c, 2, source.dtype));
  const qn_graph *select = c->regions[0];
  qn_type flag = qn_type_scalar(QN_BOOL);
  if (select == NULL || qn_graph_param_count(select) != 2 || qn_graph_result_count(select) != 1 ||
      !qn_type_equal(qn_graph_type(select, qn_graph_result(select, 0)), &flag))
    return QN_ERR(QN_INVALID, "%s: region 0 is no function of two scalars to a bool", c->name);
  for (size_t i = 0; i < 2; ++i) {
    qn_type want = qn_type_scalar(two[i].dtype);
    if (!qn_type_equal(qn_graph_type(select, qn_graph_param_at(select, i)), &want))
      return QN_ERR(QN_INVALID, "%s: parameter %zu of region 0 is %s, expected %s", c->name, i,
                    qn_type_str(qn_graph_type(select, qn_graph_param_at(select, i))), qn_type_str(&want));
  }
  QN_TRY(qn_check_combiner(c, 1, 1, &c->operands[1], 3));
  c->out_types[0] = qn_type_make(source.dtype, x->rank, x->dims);
  return QN_OK;
}

static void select_batch(qn_batch *b, qn_val *out) {
  qn_op op = qn_combiner_op(b->node->regions[1], 0);
  const qn_attr_window *a = b->attr;
  qn_attr_window up = {qn_dims_prepend(&a->size, 1),    qn_dims_prepend(&a->stride, 1),   {0},  {0},
                       qn_dims_prepend(&a->pad_low, 0), qn_dims_prepend(&a->pad_high, 0), false};
  qn_val in[] = {qn_batch_lanes(b, 0), qn_batch_lanes(b, 1), b->in[2]};
  if (b->mapped[2] && (op == QN_OP_NONE || op == QN_OP_PARAMETER)) {
    out[0] = qn_graph_fail(
        b->g, QN_HERE, QN_UNSUPPORTED,
        "vmap: select_and_scatter with an initial value per lane needs a scatter of one binary operation");
    return;
  }
  if (b->mapped[2])
    in[2] = qn_fold_identity(b->g, op, qn_val_type(in[2])->dtype);
  out[0] = qn_graph_add(b->g, QN_OP_SELECT_AND_SCATTER, in, 3, &up, b->node->regions, 2, QN_HERE);
  if (!b->mapped[2] || !qn_val_ok(out[0]))
    return;
  qn_type t = *qn_val_type(out[0]);
  qn_val pair[] = {qn_broadcast_in_dim(b->in[2], t.rank, t.dims, (const int64_t[]){0}), out[0]};
  out[0] = qn_graph_add(b->g, op, pair, 2, NULL, NULL, 0, QN_HERE);
}

/* ---- derivatives: of a sum, by source and initial value ---- */
static bool is_sum(qn_rule *r, const char *mode) {
  if (qn_combiner_op(r->node->regions[1], 0) == QN_OP_ADD)
    return true;
  (void)qn_graph_fail(r->g, QN_HERE, QN_UNSUPPORTED, "select_and_scatter has no %s derivative: its scatter is no sum",
                      mode);
  return false;
}

static void select_vjp(qn_rule *r, qn_val *out) {
  if ((!r->wanted[1] && !r->wanted[2]) || !is_sum(r, "reverse"))
    return;
  qn_attr_window a = qn_window_plain(r->attr);
  if (r->wanted[1])
    out[1] = qn_window_chosen(r->given[0], qn_window_winner(r->in[0], &a, r->node->regions[0]), &a);
  if (r->wanted[2])
    out[2] = qn_sum_all(r->given[0]);
}

static void select_jvp(qn_rule *r, qn_val *out) {
  qn_val source = r->given[1], init = r->given[2];
  if ((!qn_val_ok(source) && !qn_val_ok(init)) || !is_sum(r, "forward"))
    return;
  const qn_type *y = qn_val_type(r->out[0]);
  if (qn_val_ok(source))
    out[0] = qn_select_and_scatter(r->in[0], source, qn_val_ok(init) ? init : qn_scalar(r->g, y->dtype, 0.0), r->attr,
                                   r->node->regions[0], r->node->regions[1]);
  else
    out[0] = qn_broadcast_to(init, y->rank, y->dims);
}

/* ---- lowering ---- */
static bool select_lower(qn_rule *r, qn_val *out) {
  qn_attr_window a = qn_window_plain(r->attr);
  qn_type x = *qn_val_type(r->in[0]);
  qn_dtype t = qn_val_type(r->in[1])->dtype;
  qn_op op = qn_combiner_op(r->node->regions[1], 0);
  bool known = op != QN_OP_NONE && op != QN_OP_PARAMETER;
  qn_val winner = qn_window_winner(r->in[0], &a, r->node->regions[0]);
  qn_val from = qn_window_back(winner, &a, &x, qn_like(winner, -1.0), true);
  qn_val value = qn_window_back(r->in[1], &a, &x, qn_scalar(r->g, t, 0.0), true);
  if (qn_graph_failed(r->g))
    return true;
  qn_type all = *qn_val_type(from);
  qn_dims own = qn_dims_iota(x.rank);
  qn_val mine = qn_eq(from, qn_broadcast_in_dim(qn_window_numbers(r->g, &x), all.rank, all.dims, own.d));
  int64_t axes[QN_MAX_RANK] = {0};
  int n = all.rank - x.rank;
  for (int i = 0; i < n; ++i)
    axes[i] = x.rank + i;
  if (known) {
    qn_val init = r->in[2];
    value = qn_select(mine, value, qn_window_identity(r->g, op, t));
    qn_reduce(&value, &init, 1, n, axes, r->node->regions[1], out);
    return true;
  }
  qn_graph *optional = NULL;
  const qn_val in[] = {mine, value}, init[] = {qn_scalar(r->g, QN_BOOL, 1.0), r->in[2]};
  qn_val both[2] = {QN_NULL_VAL, QN_NULL_VAL};
  qn_status st = qn_region_optional(r->node->regions[1], &optional);
  if (st != QN_OK)
    (void)qn_graph_fail(r->g, QN_HERE, st, "select_and_scatter: %s", qn_error_message());
  else
    qn_reduce(in, init, 2, n, axes, optional, both);
  qn_graph_release(optional);
  out[0] = both[1];
  return true;
}

/* ---- reference ---- */
typedef struct picker {
  const qn_ref_call *c;
  qn_attr_window a;
  qn_oracle_region *select, *scatter;
  size_t size; /* of an operand's element */
} picker;

/* The element that window o chooses; -1: there is none. */
static qn_status pick(const picker *p, const int64_t *o, int64_t *out_at) {
  const qn_type *x = p->c->in_types[0];
  int64_t w[QN_MAX_RANK] = {0};
  *out_at = -1;
  do {
    int64_t at = qn_window_offset(&p->a, x, o, w);
    if (at < 0)
      continue;
    uint8_t stays = 0;
    if (*out_at >= 0) {
      const char *data = p->c->in[0];
      const void *in[] = {data + (size_t)*out_at * p->size, data + (size_t)at * p->size};
      void *out[] = {&stays};
      QN_TRY(qn_oracle_region_run(p->select, in, out));
    }
    *out_at = stays ? *out_at : at;
  } while (qn_index_step(x->rank, p->a.size.d, w));
  return QN_OK;
}

static qn_status scatter_windows(const picker *p) {
  const qn_type *s = p->c->in_types[1];
  size_t size = qn_dtype_size(s->dtype);
  int64_t o[QN_MAX_RANK] = {0}, count = qn_type_elements(s), at = -1;
  for (int64_t k = 0; k < count; ++k, (void)qn_index_step(s->rank, s->dims, o)) {
    QN_TRY(pick(p, o, &at));
    if (at < 0)
      continue;
    char *to = (char *)p->c->out[0] + (size_t)at * size;
    const void *in[] = {to, (const char *)p->c->in[1] + (size_t)k * size};
    void *out[] = {to};
    QN_TRY(qn_oracle_region_run(p->scatter, in, out));
  }
  return QN_OK;
}

static qn_status select_eval(const qn_ref_call *c) {
  picker p = {.c = c, .a = qn_window_plain(c->attr), .size = qn_dtype_size(c->in_types[0]->dtype)};
  qn_status st = QN_OK;
  qn_fill_elements(c->out[0], c->in[2], qn_dtype_size(c->out_types[0]->dtype), qn_type_elements(c->out_types[0]));
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[0], &p.select), done);
  QN_TRY_GOTO(st, qn_oracle_region_open(c->node->regions[1], &p.scatter), done);
  QN_TRY_GOTO(st, scatter_windows(&p), done);
done:
  qn_oracle_region_close(p.select);
  qn_oracle_region_close(p.scatter);
  return st;
}

const qn_op_def qn_op_select_and_scatter = {
    .name = "select_and_scatter",
    .doc =
        "Each window of the operand chooses one element by a region; the windows' sources are combined there, from an "
        "initial value.",
    .arity = 3,
    .kind = QN_KIND_REDUCE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_window),
    .infer = select_infer,
    .vjp = select_vjp,
    .jvp = select_jvp,
    .batch = select_batch,
    .lower = select_lower,
    .eval = select_eval,
};

/* ---- builders ---- */
qn_val qn_select_and_scatter_at(qn_place at, qn_val x, qn_val source, qn_val init, const qn_attr_window *window,
                                qn_graph *select, qn_graph *scatter) {
  qn_val in[] = {x, source, init};
  qn_graph *regions[] = {select, scatter}, *g = qn_graph_common("select_and_scatter", in, 3, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_attr_window a = *window;
  a.base_dilation = a.window_dilation = (qn_dims){0};
  return qn_graph_add(g, QN_OP_SELECT_AND_SCATTER, in, 3, &a, regions, 2, at);
}
