/* Factorisations on the cpu against the oracle: matrices small and large enough to be cut, batches, empty ones, dtypes. Results whose
 * signs or rows could be others are multiplied out. */
#include <stdlib.h>

#include "expect.h"
#include "graph_kit.h"
#include "quern/drivers.h"
#include "quern/linalg.h"

#define X(i) qn_tree_get(args[i], "x")
#define CASE(name)                                                                                                     \
  static qn_tree *name(qn_graph *g, qn_tree *const *args, void *user) {                                                \
    qn_tree *r = qn_tree_create(g);                                                                                    \
    (void)user;

static qn_val transposed(qn_val x) {
  int64_t p[QN_MAX_RANK];
  int rank = qn_val_type(x)->rank;
  for (int i = 0; i < rank; i++)
    p[i] = i;
  p[rank - 2] = rank - 1;
  p[rank - 1] = rank - 2;
  return qn_transpose(x, p);
}

static qn_val product(qn_val a, qn_val b) {
  int rank = qn_val_type(a)->rank;
  qn_attr_dot d = {.lhs_contract = {1, {rank - 1}}, .rhs_contract = {1, {rank - 2}}};
  for (int i = 0; i < rank - 2; i++)
    d.lhs_batch.d[d.lhs_batch.n++] = d.rhs_batch.d[d.rhs_batch.n++] = i;
  return qn_dot_general(a, b, &d, QN_DTYPE_NONE);
}

static qn_val heavy(qn_val x, double diagonal) { /* x with more on the diagonal */
  qn_type t = *qn_val_type(x), i = t;
  i.dtype = QN_I32;
  qn_val on = qn_eq(qn_iota(x.graph, i, t.rank - 2), qn_iota(x.graph, i, t.rank - 1));
  return qn_add(x, qn_select(on, qn_like(x, diagonal), qn_like(x, 0)));
}

static qn_val definite(qn_val x) { return heavy(product(x, transposed(x)), 1); }

CASE(cholesky)
qn_tree_set(r, "lower", qn_cholesky(definite(X(0)), true));
qn_tree_set(r, "upper", qn_cholesky(definite(X(0)), false));
return r;
}

CASE(not_definite)
qn_tree_set(r, "lower", qn_cholesky(heavy(qn_add(X(0), transposed(X(0))), 0.5), true));
return r;
}

CASE(triangles)
qn_val a = heavy(qn_mul(X(0), qn_like(X(0), 0.02)), 2), b = X(1), bt = transposed(X(1));
for (int k = 0; k < 16; k++) {
  char name[16];
  qn_attr_solve s = {.left_side = k & 1, .lower = k & 2, .unit_diagonal = k & 4, .transpose_a = k & 8 ? 1 : 0};
  (void)snprintf(name, sizeof name, "x%d", k);
  qn_tree_set(r, name, qn_triangular_solve(a, s.left_side ? b : bt, &s));
}
return r;
}

CASE(lu)
qn_lu f = qn_lu_factor(X(0));
qn_tree_set(r, "lu", f.lu);
qn_tree_set(r, "pivots", f.pivots);
qn_tree_set(r, "permutation", f.permutation);
qn_tree_set(r, "again", qn_pivots_to_permutation(f.pivots, qn_val_type(X(0))->dims[qn_val_type(X(0))->rank - 2]));
return r;
}

CASE(qr)
qn_qr f = qn_qr(X(0));
qn_tree_set(r, "q", f.q);
qn_tree_set(r, "r", f.r);
return r;
}

CASE(eigh)
qn_eigh f = qn_linalg_eigh(X(0));
qn_type t = *qn_val_type(f.vectors);
int64_t axes[QN_MAX_RANK];
for (int i = 0; i < t.rank - 1; i++)
  axes[i] = i + (i == t.rank - 2);
qn_val by = qn_broadcast_in_dim(f.values, t.rank, t.dims, axes);
qn_tree_set(r, "values", f.values);
qn_tree_set(r, "unit", product(transposed(f.vectors), f.vectors));
qn_tree_set(r, "whole", product(qn_mul(f.vectors, by), transposed(f.vectors)));
return r;
}

CASE(svd)
qn_svd f = qn_svd(X(0));
qn_type t = *qn_val_type(f.u);
int64_t axes[QN_MAX_RANK];
for (int i = 0; i < t.rank - 1; i++)
  axes[i] = i + (i == t.rank - 2);
qn_tree_set(r, "values", f.s);
qn_tree_set(r, "whole", product(qn_mul(f.u, qn_broadcast_in_dim(f.s, t.rank, t.dims, axes)), f.vt));
return r;
}

CASE(functions)
qn_val a = heavy(X(0), 3), b = X(1);
qn_slogdet d = qn_linalg_slogdet(a);
qn_tree_set(r, "solve", qn_linalg_solve(a, b));
qn_tree_set(r, "inv", qn_linalg_inv(a));
qn_tree_set(r, "det", qn_linalg_det(a));
qn_tree_set(r, "sign", d.sign);
qn_tree_set(r, "log", d.log);
qn_tree_set(r, "lstsq", qn_linalg_lstsq(a, b));
qn_tree_set(r, "expm", qn_linalg_expm(X(0)));
qn_tree_set(r, "power", qn_linalg_matrix_power(a, -3));
qn_tree_set(r, "norm", qn_linalg_norm(a));
return r;
}

#define F32(...)                                                                                                       \
  { .dtype = QN_F32, .dims = {__VA_ARGS__}, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) }
#define F64(...)                                                                                                       \
  { .dtype = QN_F64, .dims = {__VA_ARGS__}, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) }
#define F16(...)                                                                                                       \
  { .dtype = QN_F16, .dims = {__VA_ARGS__}, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t) }

static const graph_case cases[] = {
    {"cholesky 1", cholesky, {F32(1, 1)}, 1, -1, 1, 1e-5},
    {"cholesky batch", cholesky, {F32(3, 5, 5)}, 1, -1, 1, 1e-5},
    {"cholesky f64", cholesky, {F64(2, 7, 7)}, 1, -1, 1, 1e-12},
    {"cholesky f16", cholesky, {F16(4, 4)}, 1, -1, 1, 1e-2},
    {"cholesky cut", cholesky, {F32(131, 131)}, 1, -0.1, 0.1, 1e-4},
    {"cholesky none", cholesky, {F32(0, 0)}, 1, -1, 1, 0},
    {"cholesky no batch", cholesky, {F32(0, 3, 3)}, 1, -1, 1, 0},
    {"not definite", not_definite, {F32(4, 4)}, 1, -1, 1, 1e-5},
    {"not definite, cut", not_definite, {F32(90, 90)}, 1, -1, 1, 1e-5},
    {"triangles", triangles, {F32(6, 6), F32(6, 5)}, 2, -1, 1, 1e-5},
    {"triangles of lanes", triangles, {F32(2, 9, 9), F32(2, 9, 32)}, 2, -1, 1, 1e-5},
    {"triangles cut", triangles, {F32(70, 70), F32(70, 3)}, 2, -1, 1, 1e-4},
    {"triangles without columns", triangles, {F32(4, 4), F32(4, 0)}, 2, -1, 1, 0},
    {"lu 1", lu, {F32(1, 1)}, 1, -1, 1, 1e-5},
    {"lu tall", lu, {F32(2, 9, 4)}, 1, -1, 1, 1e-4},
    {"lu wide", lu, {F64(4, 9)}, 1, -1, 1, 1e-10},
    {"lu cut", lu, {F64(2, 120, 110)}, 1, -1, 1, 1e-9},
    {"lu none", lu, {F32(3, 0)}, 1, -1, 1, 0},
    {"qr tall", qr, {F32(2, 9, 4)}, 1, -1, 1, 1e-4},
    {"qr wide", qr, {F32(4, 9)}, 1, -1, 1, 1e-4},
    {"qr column", qr, {F32(5, 1)}, 1, -1, 1, 1e-5},
    {"eigh 1", eigh, {F32(1, 1)}, 1, -1, 1, 1e-5},
    {"eigh batch", eigh, {F32(3, 6, 6)}, 1, -1, 1, 1e-4},
    {"eigh f64", eigh, {F64(40, 40)}, 1, -1, 1, 1e-10},
    {"eigh none", eigh, {F32(0, 0)}, 1, -1, 1, 0},
    {"svd tall", svd, {F32(2, 8, 5)}, 1, -1, 1, 1e-4},
    {"svd wide", svd, {F64(3, 8)}, 1, -1, 1, 1e-10},
    {"functions", functions, {F32(5, 5), F32(5, 2)}, 2, -0.5, 0.5, 1e-4},
    {"functions f64", functions, {F64(5, 5), F64(5)}, 2, -0.5, 0.5, 1e-10},
};

/* The kit draws f32. */
static void retype(const graph_case *c, graph_inputs *in) {
  for (int a = 0; a < c->arg_count; a++) {
    int64_t n = qn_type_elements(&c->args[a]);
    const float *x = in->data[a];
    void *y = malloc((size_t)n * 8 + 16);
    cr_assert(y != NULL);
    for (int64_t i = 0; i < n; i++) {
      if (c->args[a].dtype == QN_F64)
        ((double *)y)[i] = (double)x[i];
      else if (c->args[a].dtype == QN_F16)
        ((uint16_t *)y)[i] = qn_f32_to_f16(x[i]);
      else
        ((float *)y)[i] = x[i];
    }
    free(in->data[a]);
    in->data[a] = y;
  }
}

static void check(qn_device *d, const graph_case *c, bool no_fusion) {
  graph_inputs in;
  graph_results want, got;
  char why[256];
  QN_ASSERT_OK(graph_inputs_make(c, &in));
  retype(c, &in);
  QN_ASSERT_OK(graph_run_oracle(c, &in, &want));
  qn_compile_desc desc = {.no_fusion = no_fusion};
  qn_status st = graph_run_device(d, c, &in, &desc, &got);
  cr_expect(st == QN_OK, "%s: %s", c->name, st == QN_OK ? "" : qn_error_report());
  if (st == QN_OK) {
    cr_expect(!graph_differs(&got, &want, c->tolerance, why), "%s%s: %s", c->name, no_fusion ? ", not fused" : "", why);
    graph_results_free(&got);
  }
  graph_results_free(&want);
  graph_inputs_free(&in);
}

Test(linalg_graphs, against_the_oracle, .timeout = 100) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int no_fusion = 0; no_fusion < 2; no_fusion++)
      check(d, &cases[i], no_fusion == 1);
  qn_device_release(d);
}
