/* Bodies of Householder reflections (QR) and of sweeps of Jacobi rotations (eigenvalues of symmetric matrices, singular values). */
#include "emit_matrix.h"

#include <math.h>

static qn_dtype type_of(const qn_emit *e, uint32_t v) { return qn_graph_type(e->s->g, v)->dtype; }
static qn_sval number(qn_emit *e, const matrix *m, double x) {
  return qs_const(e->k, e->b->kernel->buffers[m->buffer].dtype, x);
}
static qn_sval larger(qn_emit *e, qn_sval a, qn_sval b) { return qs_select(e->k, qs_gt(e->k, a, b), a, b); }

/* Column j of `q` with the reflection 1 - tau v v' of column p of `a` applied: v has 1 at p, then what is below the diagonal of `a`. */
static void reflect(qn_emit *e, const matrix *q, const matrix *a, qn_sval p, qn_sval j, qn_sval tau) {
  qn_sink *k = e->k;
  qn_sval next = qn_matrix_next(e, p), rows = qn_matrix_i(e, a->rows);
  qn_sval w = qn_matrix_var(e, qn_matrix_get(e, q, p, j));
  qn_sval i = qn_matrix_loop(e, next, rows);
  qn_matrix_gain(e, w, qn_matrix_get(e, a, i, p), qn_matrix_get(e, q, i, j));
  qn_kb_close(e->b);
  qn_sval by = qs_neg(k, qs_mul(k, qn_kb_get(e->b, w), tau));
  qn_matrix_put(e, q, p, j, qs_add(k, qn_matrix_get(e, q, p, j), by));
  i = qn_matrix_loop(e, next, rows);
  qn_matrix_put(e, q, i, j, qs_fma(k, by, qn_matrix_get(e, a, i, p), qn_matrix_get(e, q, i, j)));
  qn_kb_close(e->b);
}

/* LAPACK's geqrf: beta has the sign opposite to the diagonal's, tau is 0 for a column that is zero below it. */
void qn_emit_geqrf(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  matrix in = qn_matrix_of(e, n->operands[0], false, slot, false),
         a = qn_matrix_of(e, n->first_result, false, slot, true);
  matrix taus = qn_matrix_of(e, n->first_result + 1, true, slot, true);
  qn_sval zero = qn_matrix_i(e, 0), rows = qn_matrix_i(e, a.rows), none = number(e, &a, 0), one = number(e, &a, 1);
  qn_matrix_copy(e, &a, &in);
  qn_sval p = qn_matrix_loop(e, zero, qn_matrix_i(e, taus.rows));
  qn_sval next = qn_matrix_next(e, p), alpha = qn_matrix_get(e, &a, p, p);
  qn_sval below = qn_matrix_var(e, none), tau = qn_matrix_var(e, none);
  qn_sval i = qn_matrix_loop(e, next, rows);
  qn_sval size = qs_abs(k, qn_matrix_get(e, &a, i, p)), most = qn_kb_get(e->b, below);
  qn_kb_set(e->b, below, qs_select(k, qs_le(k, size, most), most, size)); /* NaN stays */
  qn_kb_close(e->b);
  qn_kb_if(e->b, qs_ne(k, qn_kb_get(e->b, below), none));
  qn_sval scale = larger(e, qn_kb_get(e->b, below), qs_abs(k, alpha)), a0 = qs_div(k, alpha, scale);
  qn_sval sum = qn_matrix_var(e, qs_mul(k, a0, a0));
  i = qn_matrix_loop(e, next, rows);
  qn_sval x = qs_div(k, qn_matrix_get(e, &a, i, p), scale);
  qn_matrix_gain(e, sum, x, x);
  qn_kb_close(e->b);
  qn_sval norm = qs_mul(k, qs_sqrt(k, qn_kb_get(e->b, sum)), scale);
  qn_sval beta = qs_select(k, qs_ge(k, alpha, none), qs_neg(k, norm), norm);
  qn_kb_set(e->b, tau, qs_div(k, qs_sub(k, beta, alpha), beta));
  qn_sval by = qs_div(k, one, qs_sub(k, alpha, beta));
  i = qn_matrix_loop(e, next, rows);
  qn_matrix_put(e, &a, i, p, qs_mul(k, qn_matrix_get(e, &a, i, p), by));
  qn_kb_close(e->b);
  qn_sval j = qn_matrix_loop(e, next, qn_matrix_i(e, a.cols));
  reflect(e, &a, &a, p, j, qn_kb_get(e->b, tau));
  qn_kb_close(e->b);
  qn_matrix_put(e, &a, p, p, beta);
  qn_kb_close(e->b);
  qn_matrix_put(e, &taus, p, zero, qn_kb_get(e->b, tau));
  qn_kb_close(e->b);
}

/* Columns of the product do not meet: each is that of the identity, with the reflections applied from the last to the first. */
void qn_emit_householder(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  const qn_type *t = qn_graph_type(e->s->g, n->first_result);
  qn_sval columns = qn_matrix_i(e, t->dims[t->rank - 1]), entry = qs_idiv(k, slot, columns);
  qn_sval j = qs_sub(k, slot, qs_mul(k, entry, columns)), zero = qn_matrix_i(e, 0);
  matrix a = qn_matrix_of(e, n->operands[0], false, entry, false);
  matrix taus = qn_matrix_of(e, n->operands[1], true, entry, false);
  matrix q = qn_matrix_of(e, n->first_result, false, entry, true);
  qn_sval i = qn_matrix_loop(e, zero, qn_matrix_i(e, q.rows));
  qn_matrix_put(e, &q, i, j, qs_select(k, qs_eq(k, i, j), number(e, &q, 1), number(e, &q, 0)));
  qn_kb_close(e->b);
  qn_sval step = qn_matrix_loop(e, zero, qn_matrix_i(e, taus.rows));
  qn_sval p = qs_sub(k, qn_matrix_i(e, taus.rows - 1), step);
  reflect(e, &q, &a, p, j, qn_matrix_get(e, &taus, p, zero));
  qn_kb_close(e->b);
}

/* ---- rotations ---- */

/* Rutishauser's form, in which what is small stays exact: x -= s (y + h x), y += s (x - h y), h = s / (1 + c). */
typedef struct rotation {
  qn_sval t, s, h; /* tangent, sine, tangent of half the angle */
} rotation;

/* The smaller of the two angles that make [p r; r q] diagonal: tan = sign(z) / (|z| + sqrt(z^2 + 1)) with z = (q - p) / 2r. */
static rotation rotation_of(qn_emit *e, qn_sval p, qn_sval q, qn_sval r, qn_dtype t) {
  qn_sink *k = e->k;
  qn_sval one = qs_const(k, t, 1), z = qs_div(k, qs_sub(k, q, p), qs_add(k, r, r));
  qn_sval tan = qs_div(k, one, qs_add(k, qs_abs(k, z), qs_sqrt(k, qs_fma(k, z, z, one))));
  tan = qs_select(k, qs_lt(k, z, qs_const(k, t, 0)), qs_neg(k, tan), tan);
  qn_sval c = qs_div(k, one, qs_sqrt(k, qs_fma(k, tan, tan, one)));
  qn_sval s = qs_mul(k, tan, c);
  return (rotation){tan, s, qs_div(k, s, qs_add(k, one, c))};
}

/* Columns p and q of `m` turned. */
static void turn(qn_emit *e, const matrix *m, qn_sval p, qn_sval q, rotation r) {
  qn_sink *k = e->k;
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, m->rows));
  qn_sval x = qn_matrix_get(e, m, i, p), y = qn_matrix_get(e, m, i, q);
  qn_matrix_put(e, m, i, p, qs_fma(k, qs_neg(k, r.s), qs_fma(k, r.h, x, y), x));
  qn_matrix_put(e, m, i, q, qs_fma(k, r.s, qs_fma(k, qs_neg(k, r.h), y, x), y));
  qn_kb_close(e->b);
}

/* A sweep over all pairs of neighbouring columns p < q. Both loops stay open. */
typedef struct pair {
  qn_sval p, q;
} pair;

static pair sweep_open(qn_emit *e, int64_t size) {
  qn_sval p = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, size - 1));
  return (pair){p, qn_matrix_loop(e, qn_matrix_next(e, p), qn_matrix_i(e, size))};
}

/* One sweep of cyclic two-sided Jacobi: entries off the diagonal that count are turned to 0, and the columns of v with them. */
void qn_emit_jacobi(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  qn_dtype t = type_of(e, n->first_result);
  matrix d0 = qn_matrix_of(e, n->operands[0], false, slot, false),
         v0 = qn_matrix_of(e, n->operands[1], false, slot, false);
  matrix d = qn_matrix_of(e, n->first_result, false, slot, true), rows = qn_matrix_flip(d);
  matrix v = qn_matrix_of(e, n->first_result + 1, false, slot, true);
  qn_sval none = qs_const(k, t, 0), most = qn_matrix_var(e, none);
  qn_matrix_copy(e, &v, &v0);
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, d.rows));
  qn_sval j = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, d.rows));
  qn_sval x = qn_matrix_get(e, &d0, i, j);
  qn_matrix_put(e, &d, i, j, x);
  qn_kb_set(e->b, most, larger(e, qs_abs(k, x), qn_kb_get(e->b, most)));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
  qn_sval least = qs_mul(k, qn_kb_get(e->b, most), qs_const(k, t, t == QN_F64 ? 0x1p-54 : 0x1p-25));
  pair s = sweep_open(e, v.rows);
  qn_sval r = qn_matrix_get(e, &d, s.p, s.q);
  qn_kb_if(e->b, qs_gt(k, qs_abs(k, r), least));
  qn_sval dp = qn_matrix_get(e, &d, s.p, s.p), dq = qn_matrix_get(e, &d, s.q, s.q);
  rotation by = rotation_of(e, dp, dq, r, t);
  turn(e, &d, s.p, s.q, by);
  turn(e, &rows, s.p, s.q, by);
  turn(e, &v, s.p, s.q, by);
  qn_matrix_put(e, &d, s.p, s.p, qs_fma(k, qs_neg(k, by.t), r, dp));
  qn_matrix_put(e, &d, s.q, s.q, qs_fma(k, by.t, r, dq));
  qn_matrix_put(e, &d, s.p, s.q, none);
  qn_matrix_put(e, &d, s.q, s.p, none);
  for (int close = 0; close < 3; close++)
    qn_kb_close(e->b);
}

/* One sweep of one-sided Jacobi (Hestenes): columns of u that are not orthogonal are turned until they are, and rows of vt with them. */
void qn_emit_jacobi_columns(qn_emit *e, const qn_node *n, qn_sval slot) {
  qn_sink *k = e->k;
  qn_dtype t = type_of(e, n->first_result);
  matrix u0 = qn_matrix_of(e, n->operands[0], false, slot, false),
         v0 = qn_matrix_of(e, n->operands[1], false, slot, false);
  matrix u = qn_matrix_of(e, n->first_result, false, slot, true);
  matrix vt = qn_matrix_of(e, n->first_result + 1, false, slot, true), v = qn_matrix_flip(vt);
  qn_sval none = qs_const(k, t, 0), close = qs_const(k, t, sqrt((double)u.rows) * (t == QN_F64 ? 0x1p-53 : 0x1p-24));
  qn_matrix_copy(e, &u, &u0);
  qn_matrix_copy(e, &vt, &v0);
  pair s = sweep_open(e, u.cols);
  qn_sval pp = qn_matrix_var(e, none), qq = qn_matrix_var(e, none), pq = qn_matrix_var(e, none);
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, u.rows));
  qn_sval x = qn_matrix_get(e, &u, i, s.p), y = qn_matrix_get(e, &u, i, s.q);
  qn_matrix_gain(e, pp, x, x);
  qn_matrix_gain(e, qq, y, y);
  qn_matrix_gain(e, pq, x, y);
  qn_kb_close(e->b);
  qn_sval p2 = qn_kb_get(e->b, pp), q2 = qn_kb_get(e->b, qq), r = qn_kb_get(e->b, pq);
  qn_sval bound = qs_mul(k, qs_mul(k, qs_sqrt(k, p2), qs_sqrt(k, q2)), close);
  qn_kb_if(e->b, qs_gt(k, qs_abs(k, r), bound));
  rotation by = rotation_of(e, p2, q2, r, t);
  turn(e, &u, s.p, s.q, by);
  turn(e, &v, s.p, s.q, by);
  for (int open = 0; open < 3; open++)
    qn_kb_close(e->b);
}
