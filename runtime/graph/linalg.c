/* jax.numpy.linalg on top of the factorisations: solutions, determinants, norms, functions of matrices. */
#include "quern/linalg.h"

#include <math.h>

#include "ops/linalg_matrix.h"

/* The graph of matrix a, or NULL after a failure; `square` asks for as many rows as columns. */
static qn_graph *matrix_graph(const char *name, qn_place at, qn_val a, bool square) {
  qn_graph *g = qn_graph_common(name, &a, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return NULL;
  const qn_type *t = qn_val_type(a);
  if (!qn_dtype_is_float(t->dtype) || t->rank < 2 || (square && qn_matrix_rows(t) != qn_matrix_columns(t))) {
    (void)qn_graph_fail(g, at, QN_INVALID, "%s: operand 0 is %s, expected %s of floats", name, qn_type_str(t),
                        square ? "a square matrix" : "a matrix");
    return NULL;
  }
  return g;
}

/* Everything that is built records the caller's place. */
#define WITH_PLACE(g, at, result, expression)                                                                          \
  do {                                                                                                                 \
    qn_graph_set_place((g), &(at));                                                                                    \
    (result) = (expression);                                                                                           \
    qn_graph_set_place((g), NULL);                                                                                     \
  } while (0)

static qn_val symmetric(qn_val a) { return qn_mul(qn_add(a, qn_matrix_t(a)), qn_like(a, 0.5)); }

qn_val qn_linalg_cholesky_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.cholesky", at, a, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, qn_cholesky(symmetric(a), true));
  return x;
}

/* ---- solutions ---- */

/* A vector as a column beside one matrix; *out_vector says to take it back. */
static qn_val as_columns(qn_val b, bool *out_vector) {
  qn_type t = *qn_val_type(b);
  *out_vector = t.rank == 1;
  if (*out_vector)
    t.dims[t.rank++] = 1;
  return *out_vector ? qn_reshape(b, t.rank, t.dims) : b;
}

static qn_val as_vector(qn_val x, bool vector) {
  int64_t all = -1;
  return vector && qn_val_ok(x) ? qn_reshape(x, 1, &all) : x;
}

static qn_val solve_lu(const qn_lu *f, qn_val b) {
  qn_val x = qn_matrix_solve(f->lu, qn_matrix_take_rows(b, f->permutation), true, true, false, true);
  return qn_matrix_solve(f->lu, x, true, false, false, false);
}

static qn_val solve(qn_val a, qn_val b) {
  bool vector;
  b = as_columns(b, &vector);
  qn_lu f = qn_lu_factor(a);
  return as_vector(solve_lu(&f, b), vector);
}

static qn_graph *pair_graph(const char *name, qn_place at, qn_val a, qn_val b, bool square) {
  const qn_val both[] = {a, b};
  if (!matrix_graph(name, at, a, square) || !qn_graph_common(name, both, 2, at))
    return NULL;
  const qn_type *t = qn_val_type(a), *s = qn_val_type(b);
  bool fits = s->dtype == t->dtype && (s->rank == t->rank || (s->rank == 1 && t->rank == 2)) &&
              s->dims[s->rank == 1 ? 0 : s->rank - 2] == qn_matrix_rows(t);
  if (fits)
    return a.graph;
  (void)qn_graph_fail(a.graph, at, QN_INVALID,
                      "%s: operand 1 is %s, expected columns (or a vector) of %lld rows for %s", name, qn_type_str(s),
                      (long long)qn_matrix_rows(t), qn_type_str(t));
  return NULL;
}

qn_val qn_linalg_solve_at(qn_place at, qn_val a, qn_val b) {
  qn_graph *g = pair_graph("linalg.solve", at, a, b, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, solve(a, b));
  return x;
}

static qn_val cho_solve(qn_val factor, qn_val b, bool lower) {
  bool vector;
  b = as_columns(b, &vector);
  b = qn_matrix_solve(factor, b, true, lower, !lower, false);
  return as_vector(qn_matrix_solve(factor, b, true, lower, lower, false), vector);
}

qn_val qn_linalg_cho_solve_at(qn_place at, qn_val factor, qn_val b, bool lower) {
  qn_graph *g = pair_graph("linalg.cho_solve", at, factor, b, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, cho_solve(factor, b, lower));
  return x;
}

qn_val qn_linalg_inv_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.inv", at, a, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, solve(a, qn_matrix_eye(g, *qn_val_type(a))));
  return x;
}

/* ---- determinants ---- */

/* -1 for an odd number of true entries along the last axis, else 1. */
static qn_val parity(qn_val odd, qn_dtype t) {
  int64_t axis = qn_val_type(odd)->rank - 1;
  qn_val n = qn_sum(qn_convert(odd, QN_I32), 1, &axis, false);
  n = qn_and(n, qn_like(n, 1));
  return qn_convert(qn_sub(qn_like(n, 1), qn_add(n, n)), t);
}

static qn_slogdet slogdet(qn_val a) {
  qn_lu f = qn_lu_factor(a);
  qn_val d = qn_matrix_diagonal(f.lu);
  if (!qn_val_ok(d))
    return (qn_slogdet){d, d};
  qn_type t = *qn_val_type(d), pt = *qn_val_type(f.pivots);
  int64_t axis = t.rank - 1;
  qn_val moved = qn_ne(f.pivots, qn_iota(a.graph, pt, pt.rank - 1)), zero = qn_like(d, 0);
  qn_val sign = qn_mul(parity(moved, t.dtype), parity(qn_lt(d, zero), t.dtype));
  qn_val singular = qn_reduce_or(qn_eq(d, zero), 1, &axis, false);
  qn_val logs = qn_sum(qn_log(qn_abs(d)), 1, &axis, false);
  return (qn_slogdet){qn_select(singular, qn_like(sign, 0), sign), qn_select(singular, qn_like(logs, -INFINITY), logs)};
}

qn_slogdet qn_linalg_slogdet_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.slogdet", at, a, true);
  qn_slogdet x = {QN_NULL_VAL, QN_NULL_VAL};
  if (g)
    WITH_PLACE(g, at, x, slogdet(a));
  return x;
}

/* The product of U's diagonal, with the sign of the exchanges. */
static qn_val det(qn_val a) {
  qn_lu f = qn_lu_factor(a);
  qn_val d = qn_matrix_diagonal(f.lu);
  if (!qn_val_ok(d))
    return d;
  qn_type pt = *qn_val_type(f.pivots);
  int64_t axis = qn_val_type(d)->rank - 1;
  qn_val moved = qn_ne(f.pivots, qn_iota(a.graph, pt, pt.rank - 1));
  return qn_mul(parity(moved, qn_val_type(d)->dtype), qn_prod(d, 1, &axis, false));
}

qn_val qn_linalg_det_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.det", at, a, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, det(a));
  return x;
}

/* ---- spectra ---- */

qn_eigh qn_linalg_eigh_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.eigh", at, a, true);
  qn_eigh x = {QN_NULL_VAL, QN_NULL_VAL};
  if (g)
    WITH_PLACE(g, at, x, qn_eigh(symmetric(a)));
  return x;
}

qn_val qn_linalg_eigvalsh_at(qn_place at, qn_val a) { return qn_linalg_eigh_at(at, a).values; }

qn_val qn_linalg_svdvals_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.svdvals", at, a, false);
  qn_svd x = {QN_NULL_VAL, QN_NULL_VAL, QN_NULL_VAL};
  if (g)
    WITH_PLACE(g, at, x, qn_svd(a));
  return x.s;
}

static qn_val lstsq(qn_val a, qn_val b) {
  bool vector;
  b = as_columns(b, &vector);
  qn_svd f = qn_svd(a);
  if (!qn_val_ok(f.s))
    return f.s;
  qn_type t = *qn_val_type(a);
  int64_t m = qn_matrix_rows(&t), n = qn_matrix_columns(&t), axis = qn_val_type(f.s)->rank - 1;
  double eps = t.dtype == QN_F64 ? 0x1p-52 : t.dtype == QN_F32 ? 0x1p-23 : t.dtype == QN_F16 ? 0x1p-10 : 0x1p-7;
  qn_val bound = qn_mul(qn_reduce_max(f.s, 1, &axis, true), qn_like(f.s, eps * (double)(m > n ? m : n)));
  qn_val kept = qn_and(qn_ge(f.s, bound), qn_gt(f.s, qn_like(f.s, 0)));
  qn_val inverse = qn_select(kept, qn_div(qn_like(f.s, 1), qn_select(kept, f.s, qn_like(f.s, 1))), qn_like(f.s, 0));
  qn_val x = qn_matrix_by_rows(qn_matrix_mul(qn_matrix_t(f.u), b), inverse);
  return as_vector(qn_matrix_mul(qn_matrix_t(f.vt), x), vector);
}

qn_val qn_linalg_lstsq_at(qn_place at, qn_val a, qn_val b) {
  qn_graph *g = pair_graph("linalg.lstsq", at, a, b, false);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, lstsq(a, b));
  return x;
}

/* ---- functions of matrices ---- */

static qn_val power(qn_val a, int64_t n) {
  uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  qn_val base = n < 0 ? solve(a, qn_matrix_eye(a.graph, *qn_val_type(a))) : a, out = QN_NULL_VAL;
  if (left == 0)
    return qn_matrix_eye(a.graph, *qn_val_type(a));
  for (; left; left >>= 1) {
    if (left & 1)
      out = qn_val_ok(out) ? qn_matrix_mul(out, base) : base;
    if (left > 1)
      base = qn_matrix_mul(base, base);
  }
  return out;
}

qn_val qn_linalg_matrix_power_at(qn_place at, qn_val a, int64_t n) {
  qn_graph *g = matrix_graph("linalg.matrix_power", at, a, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, power(a, n));
  return x;
}

/* Higham, "The scaling and squaring method for the matrix exponential revisited", 2005: the diagonal Pade approximant of degree 13 (7 in f32) at
 * a / 2^s, squared s times. As s depends on the values, all squarings are made and those kept that count. A norm that 16 do not reach gives NaN,
 * as in JAX. */
static qn_val expm(qn_val a) {
  static const double c13[] = {64764752532480000,
                               32382376266240000,
                               7771770303897600,
                               1187353796428800,
                               129060195264000,
                               10559470521600,
                               670442572800,
                               33522128640,
                               1323241920,
                               40840800,
                               960960,
                               16380,
                               182,
                               1};
  static const double c7[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
  qn_type t = *qn_val_type(a);
  bool wide = t.dtype == QN_F64;
  const double *c = wide ? c13 : c7;
  int degree = wide ? 13 : 7, most = 16;
  double reach = wide ? 5.371920351148152 : 3.925724783138660;
  int64_t down = t.rank - 2, across = t.rank - 2;
  qn_val norm = qn_reduce_max(qn_sum(qn_abs(qn_stop_gradient(a)), 1, &down, false), 1, &across, false);
  qn_val scale = qn_like(norm, 1), count = qn_like(norm, 0);
  for (int i = 0; i < most; i++) { /* halves while the norm is out of reach */
    qn_val out = qn_gt(qn_mul(norm, scale), qn_like(norm, reach));
    scale = qn_select(out, qn_mul(scale, qn_like(norm, 0.5)), scale);
    count = qn_select(out, qn_add(count, qn_like(norm, 1)), count);
  }
  qn_dims axes = {.n = t.rank - 2};
  for (int i = 0; i < axes.n; i++)
    axes.d[i] = i;
  qn_val x = qn_mul(a, qn_broadcast_in_dim(scale, t.rank, t.dims, axes.d)), eye = qn_matrix_eye(a.graph, t);
  qn_val x2 = qn_matrix_mul(x, x), even = qn_mul(eye, qn_like(x, c[0])), p = x2;
  qn_val odd = qn_mul(eye, qn_like(x, c[1]));
  for (int k = 2; k < degree; k += 2) {
    p = k == 2 ? x2 : qn_matrix_mul(p, x2);
    even = qn_add(even, qn_mul(p, qn_like(x, c[k])));
    odd = qn_add(odd, qn_mul(p, qn_like(x, c[k + 1])));
  }
  odd = qn_matrix_mul(x, odd);
  qn_val y = solve(qn_sub(even, odd), qn_add(even, odd)), over = qn_gt(qn_mul(norm, scale), qn_like(norm, reach));
  for (int i = 0; i < most; i++) {
    qn_val more = qn_broadcast_in_dim(qn_gt(count, qn_like(count, i)), t.rank, t.dims, axes.d);
    y = qn_select(more, qn_matrix_mul(y, y), y);
  }
  return qn_select(qn_broadcast_in_dim(over, t.rank, t.dims, axes.d), qn_like(y, NAN), y);
}

qn_val qn_linalg_expm_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.expm", at, a, true);
  qn_val x = QN_NULL_VAL;
  if (g)
    WITH_PLACE(g, at, x, expm(a));
  return x;
}

qn_val qn_linalg_norm_at(qn_place at, qn_val a) {
  qn_graph *g = matrix_graph("linalg.norm", at, a, false);
  if (!g)
    return QN_NULL_VAL;
  const int64_t axes[] = {qn_val_type(a)->rank - 2, qn_val_type(a)->rank - 1};
  return qn_norm_at(at, a, 2, axes, false);
}
