/* Custom calls by which JAX names linear algebra and random bits, read as Quern's operations: XLA's own targets, LAPACK's routines as jaxlib
 * calls them on CPUs (lapack_spotrf_ffi, ...), whose pivots count from 1 and which say in a last result how they went, and the hash of GPUs. */
#include <string.h>

#include "ops/linalg_matrix.h"
#include "text_impl.h"

typedef struct call_view {
  const qn_attr *attrs; /* of the backend's configuration, or of the call */
  const qn_val *in;
  const qn_type *types; /* that the text gives to the results */
  size_t type_count;
  qn_val *out; /* one for each type */
  qn_graph *g;
} call_view;

struct qn_call_target {
  const char *name;
  size_t operands, results;
  void (*build)(call_view *v);
};

/* LAPACK's flags are letters, given as numbers. */
static bool flag_is(const call_view *v, const char *name, char letter) {
  const qn_attr *a = qn_parse_attr_find(v->attrs, name);
  return a && a->kind == QN_A_INT && a->number == letter;
}

static qn_val went_well(const call_view *v, size_t result) { return qn_full(v->g, v->types[result], 0); }

static void call_qr(call_view *v) {
  qn_packed_qr x = qn_geqrf(v->in[0]);
  v->out[0] = x.a;
  v->out[1] = x.taus;
}

static void call_householder(call_view *v) { v->out[0] = qn_householder_product(v->in[0], v->in[1]); }

static void call_lu(call_view *v) {
  qn_lu x = qn_lu_factor(v->in[0]);
  v->out[0] = x.lu;
  v->out[1] = x.pivots;
  v->out[2] = x.permutation;
}

static void call_eigh(call_view *v) {
  qn_eigh x = qn_eigh(v->in[0]);
  v->out[0] = x.vectors;
  v->out[1] = x.values;
}

static void call_cholesky(call_view *v) { v->out[0] = qn_cholesky(v->in[0], true); }

/* A matrix that isn't positive definite has NaN in its last place. */
static void call_potrf(call_view *v) {
  qn_val l = v->out[0] = qn_cholesky(v->in[0], !flag_is(v, "uplo", 'U'));
  if (!qn_val_ok(l))
    return;
  qn_type t = *qn_val_type(l);
  int64_t n = qn_matrix_rows(&t);
  if (n == 0) {
    v->out[1] = went_well(v, 1);
    return;
  }
  qn_val last = qn_reshape(qn_matrix_part(l, n - 1, 1, n - 1, 1), t.rank - 2, t.dims);
  v->out[1] = qn_convert(qn_ne(last, last), QN_I32);
}

static void call_getrf(call_view *v) {
  qn_lu x = qn_lu_factor(v->in[0]);
  v->out[0] = x.lu;
  v->out[1] = qn_val_ok(x.pivots) ? qn_add(x.pivots, qn_like(x.pivots, 1)) : x.pivots;
  v->out[2] = went_well(v, 2);
}

static void call_syevd(call_view *v) {
  qn_eigh x = qn_eigh(flag_is(v, "uplo", 'U') ? qn_matrix_t(v->in[0]) : v->in[0]);
  v->out[0] = x.vectors;
  v->out[1] = x.values;
  v->out[2] = went_well(v, 2);
}

/* Vectors that the text gives another shape are either not asked for or more than there are singular values. */
static void call_gesdd(call_view *v) {
  qn_svd x = qn_svd(v->in[0]);
  v->out[0] = v->in[0];
  v->out[1] = x.s;
  v->out[2] = flag_is(v, "mode", 'N') ? went_well(v, 2) : x.u;
  v->out[3] = flag_is(v, "mode", 'N') ? went_well(v, 3) : x.vt;
  v->out[4] = went_well(v, 4);
}

static void call_trsm(call_view *v) {
  qn_attr_solve a = {.left_side = !flag_is(v, "side", 'R'),
                     .lower = !flag_is(v, "uplo", 'U'),
                     .unit_diagonal = flag_is(v, "diag", 'U'),
                     .transpose_a = !flag_is(v, "trans_x", 'N')};
  v->out[0] = qn_triangular_solve(v->in[0], v->in[1], &a);
}

static void call_permutation(call_view *v) {
  const qn_type *t = &v->types[0];
  v->out[0] = t->rank ? qn_pivots_to_permutation(v->in[0], t->dims[t->rank - 1]) : QN_NULL_VAL;
}

static void call_threefry(call_view *v) {
  qn_threefry2x32(v->in[0], v->in[1], v->in[2], v->in[3], &v->out[0], &v->out[1]);
}

static const qn_call_target targets[] = {
    {"Qr", 1, 2, call_qr},
    {"ProductOfElementaryHouseholderReflectors", 2, 1, call_householder},
    {"LuDecomposition", 1, 3, call_lu},
    {"Eigh", 1, 2, call_eigh},
    {"Cholesky", 1, 1, call_cholesky},
    {"lapack_spotrf_ffi", 1, 2, call_potrf},
    {"lapack_dpotrf_ffi", 1, 2, call_potrf},
    {"lapack_sgetrf_ffi", 1, 3, call_getrf},
    {"lapack_dgetrf_ffi", 1, 3, call_getrf},
    {"lapack_sgeqrf_ffi", 1, 2, call_qr},
    {"lapack_dgeqrf_ffi", 1, 2, call_qr},
    {"lapack_sorgqr_ffi", 2, 1, call_householder},
    {"lapack_dorgqr_ffi", 2, 1, call_householder},
    {"lapack_ssyevd_ffi", 1, 3, call_syevd},
    {"lapack_dsyevd_ffi", 1, 3, call_syevd},
    {"lapack_sgesdd_ffi", 1, 5, call_gesdd},
    {"lapack_dgesdd_ffi", 1, 5, call_gesdd},
    {"lapack_strsm_ffi", 2, 1, call_trsm},
    {"lapack_dtrsm_ffi", 2, 1, call_trsm},
    {"cu_lu_pivots_to_permutation", 1, 1, call_permutation},
    {"hip_lu_pivots_to_permutation", 1, 1, call_permutation},
    {"cu_threefry2x32_ffi", 4, 2, call_threefry},
    {"hip_threefry2x32_ffi", 4, 2, call_threefry},
};

const qn_call_target *qn_parse_call_target(const char *name) {
  for (size_t i = 0; name && i < sizeof targets / sizeof *targets; i++)
    if (strcmp(targets[i].name, name) == 0)
      return &targets[i];
  return NULL;
}

bool qn_parse_foreign_call(qn_parser *p, qn_stmt *s, qn_val **out, int *out_count) {
  const qn_call_target *t = s->target;
  qn_graph *g = p->scope->graph;
  if (s->operand_count != t->operands || s->result_type_count != t->results)
    return qn_parse_fail_at(p, s->at, "@%s: %zu operands and %zu results, expected %zu and %zu", t->name,
                            s->operand_count, s->result_type_count, t->operands, t->results);
  const qn_attr *config = qn_parse_attr_find(s->attrs, "mhlo.backend_config");
  if (!config || config->kind != QN_A_DICT)
    config = qn_parse_attr_find(s->attrs, "backend_config");
  call_view v = {.attrs = config && config->kind == QN_A_DICT ? config->children : s->attrs,
                 .in = s->operands,
                 .types = s->result_types,
                 .type_count = s->result_type_count,
                 .out = QN_NEW(&p->arena, qn_val, t->results + 1),
                 .g = g};
  if (!v.out)
    return qn_parse_no_memory(p);
  qn_graph_set_place(g, &s->at);
  t->build(&v);
  qn_graph_set_place(g, NULL);
  if (qn_graph_failed(g))
    return qn_parse_graph_failed(p, g);
  *out = v.out;
  *out_count = (int)t->results;
  return true;
}
