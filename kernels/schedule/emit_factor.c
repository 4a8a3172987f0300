/* Bodies of Cholesky, triangular solves, LU with row exchanges, and of pivots as a permutation. */
#include "emit_matrix.h"

#include <math.h>

static qn_dtype type_of(const qn_emit *e, uint32_t v) { return qn_graph_type(e->s->g, v)->dtype; }

/* Column by column: each element of a column needs the columns to its left only. For an upper factor the transposes are looked at. */
void qn_emit_cholesky(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  qn_dtype t = type_of(e, n->first_result);
  matrix a = qn_matrix_of(e, n->operands[0], false, slot, false),
         l = qn_matrix_of(e, n->first_result, false, slot, true);
  if (!((const qn_attr_triangle *)n->attr)->lower) {
    a = qn_matrix_flip(a);
    l = qn_matrix_flip(l);
  }
  qn_sval zero = qn_matrix_i(e, 0), size = qn_matrix_i(e, l.rows);
  qn_sval failed = qn_matrix_var(e, zero);
  qn_sval j = qn_matrix_loop(e, zero, size);
  qn_sval d = qn_matrix_var(e, qn_matrix_get(e, &a, j, j));
  qn_sval c = qn_matrix_loop(e, zero, j);
  qn_sval x = qn_matrix_get(e, &l, j, c);
  qn_matrix_lose(e, d, x, x);
  qn_kb_close(e->b);
  qn_sval pivot = qn_kb_get(e->b, d);
  qn_kb_set(e->b, failed, qs_select(k, qs_gt(k, pivot, qs_const(k, t, 0)), qn_kb_get(e->b, failed), qn_matrix_i(e, 1)));
  qn_sval root = qs_sqrt(k, pivot);
  qn_matrix_put(e, &l, j, j, root);
  qn_sval i = qn_matrix_loop(e, qn_matrix_next(e, j), size);
  qn_sval s = qn_matrix_var(e, qn_matrix_get(e, &a, i, j));
  c = qn_matrix_loop(e, zero, j);
  qn_matrix_lose(e, s, qn_matrix_get(e, &l, i, c), qn_matrix_get(e, &l, j, c));
  qn_kb_close(e->b);
  qn_matrix_put(e, &l, i, j, qs_div(k, qn_kb_get(e->b, s), root));
  qn_matrix_put(e, &l, j, i, qs_const(k, t, 0));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
  qn_kb_if(e->b, qs_ne(k, qn_kb_get(e->b, failed), zero));
  i = qn_matrix_loop(e, zero, size);
  c = qn_matrix_loop(e, zero, qn_matrix_next(e, i));
  qn_matrix_put(e, &l, i, c, qs_const(k, t, NAN));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}

/* Substitution from the left, for as many neighbouring columns as there are lanes. */
void qn_emit_triangular_solve(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  const qn_attr_solve *at = n->attr;
  const qn_type *xt = qn_graph_type(e->s->g, n->first_result);
  int64_t columns = xt->dims[xt->rank - 1];
  uint32_t lanes = qn_solve_lanes(e->s->caps, columns);
  qn_sval blocks = qn_matrix_i(e, columns / lanes), entry = qs_idiv(k, slot, blocks);
  qn_sval column = qs_mul(k, qs_sub(k, slot, qs_mul(k, entry, blocks)), qn_matrix_i(e, lanes));
  matrix a = qn_matrix_of(e, n->operands[0], false, entry, false);
  matrix b = qn_matrix_of(e, n->operands[1], false, entry, false);
  matrix x = qn_matrix_of(e, n->first_result, false, entry, true);
  if (at->transpose_a)
    a = qn_matrix_flip(a);
  bool forward = at->lower == (at->transpose_a == 0);
  qn_sval zero = qn_matrix_i(e, 0), last = qn_matrix_i(e, x.rows - 1);
  qn_sval step = qn_matrix_loop(e, zero, qn_matrix_i(e, x.rows));
  qn_sval i = forward ? step : qs_sub(k, last, step);
  qn_sval from = qs_add(k, qs_add(k, b.base, qs_mul(k, i, qn_matrix_i(e, columns))), column);
  qn_sval sum = qn_matrix_var(e, qn_kb_load(e->b, b.buffer, from, lanes, (qn_sval){0}));
  qn_sval q = qn_matrix_loop(e, zero, step);
  qn_sval j = forward ? q : qs_sub(k, last, q);
  qn_sval of = qs_add(k, qs_add(k, x.base, qs_mul(k, j, qn_matrix_i(e, columns))), column);
  qn_sval known = qn_kb_load(e->b, x.buffer, of, lanes, (qn_sval){0});
  qn_sval factor = qs_neg(k, qn_matrix_get(e, &a, i, j));
  qn_kb_set(e->b, sum, qs_fma(k, lanes > 1 ? qn_kb_splat(e->b, factor, lanes) : factor, known, qn_kb_get(e->b, sum)));
  qn_kb_close(e->b);
  qn_sval got = qn_kb_get(e->b, sum);
  if (!at->unit_diagonal) {
    qn_sval d = qn_matrix_get(e, &a, i, i);
    got = qs_div(k, got, lanes > 1 ? qn_kb_splat(e->b, d, lanes) : d);
  }
  qn_sval to = qs_add(k, qs_add(k, x.base, qs_mul(k, i, qn_matrix_i(e, columns))), column);
  qn_kb_store(e->b, x.buffer, to, got, (qn_sval){0});
  qn_kb_close(e->b);
}

static void exchange(qn_emit *e, const matrix *m, qn_sval i0, qn_sval j0, qn_sval i1, qn_sval j1) {
  qn_sval x = qn_matrix_get(e, m, i0, j0), y = qn_matrix_get(e, m, i1, j1);
  qn_matrix_put(e, m, i0, j0, y);
  qn_matrix_put(e, m, i1, j1, x);
}

/* The row of the largest magnitude in column j from row j on, the first of equals; it is exchanged with row j. */
static void pivot(qn_emit *e, const matrix *m, const matrix *pivots, const matrix *order, qn_sval j) {
  qn_sink *k = e->k;
  qn_sval zero = qn_matrix_i(e, 0);
  qn_sval best = qn_matrix_var(e, qs_abs(k, qn_matrix_get(e, m, j, j))), at = qn_matrix_var(e, j);
  qn_sval i = qn_matrix_loop(e, qn_matrix_next(e, j), qn_matrix_i(e, m->rows));
  qn_sval size = qs_abs(k, qn_matrix_get(e, m, i, j)), more = qs_gt(k, size, qn_kb_get(e->b, best));
  qn_kb_set(e->b, at, qs_select(k, more, i, qn_kb_get(e->b, at)));
  qn_kb_set(e->b, best, qs_select(k, more, size, qn_kb_get(e->b, best)));
  qn_kb_close(e->b);
  qn_sval p = qn_kb_get(e->b, at);
  qn_matrix_put(e, pivots, j, zero, p);
  qn_kb_if(e->b, qs_ne(k, p, j));
  exchange(e, order, j, zero, p, zero);
  qn_sval c = qn_matrix_loop(e, zero, qn_matrix_i(e, m->cols));
  exchange(e, m, j, c, p, c);
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}

static void count_up(qn_emit *e, const matrix *order) {
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, order->rows));
  qn_dtype t = e->b->kernel->buffers[order->buffer].dtype;
  qn_matrix_put(e, order, i, qn_matrix_i(e, 0), qs_convert(e->k, t, i));
  qn_kb_close(e->b);
}

/* Rank-one updates of what is right and below. A column whose pivot is 0 stays as it is. */
void qn_emit_lu(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  qn_dtype t = type_of(e, n->first_result);
  matrix a = qn_matrix_of(e, n->operands[0], false, slot, false),
         m = qn_matrix_of(e, n->first_result, false, slot, true);
  matrix pivots = qn_matrix_of(e, n->first_result + 1, true, slot, true);
  matrix order = qn_matrix_of(e, n->first_result + 2, true, slot, true);
  qn_matrix_copy(e, &m, &a);
  count_up(e, &order);
  qn_sval j = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, m.rows < m.cols ? m.rows : m.cols));
  pivot(e, &m, &pivots, &order, j);
  qn_sval d = qn_matrix_get(e, &m, j, j), next = qn_matrix_next(e, j);
  qn_sval i = qn_matrix_loop(e, next, qn_matrix_i(e, m.rows));
  qn_sval x = qn_matrix_get(e, &m, i, j);
  x = qs_select(k, qs_eq(k, d, qs_const(k, t, 0)), x, qs_div(k, x, d));
  qn_matrix_put(e, &m, i, j, x);
  qn_sval c = qn_matrix_loop(e, next, qn_matrix_i(e, m.cols));
  qn_matrix_put(e, &m, i, c, qs_fma(k, qs_neg(k, x), qn_matrix_get(e, &m, j, c), qn_matrix_get(e, &m, i, c)));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}

void qn_emit_permutation(qn_emit *e, const qn_node *n, qn_sval slot) {
  matrix pivots = qn_matrix_of(e, n->operands[0], true, slot, false);
  matrix order = qn_matrix_of(e, n->first_result, true, slot, true);
  qn_sval zero = qn_matrix_i(e, 0);
  count_up(e, &order);
  qn_sval j = qn_matrix_loop(e, zero, qn_matrix_i(e, pivots.rows));
  /* What lies outside is left alone. */
  qn_sval p = qn_expand_convert(e->k, QN_I32, qn_matrix_get(e, &pivots, j, zero));
  qn_sval inside = qs_and(e->k, qs_ge(e->k, p, zero), qs_lt(e->k, p, qn_matrix_i(e, order.rows)));
  qn_kb_if(e->b, inside);
  exchange(e, &order, j, zero, p, zero);
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}
