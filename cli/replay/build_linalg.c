/* Linear algebra by the names of the recorded suites. Factors whose signs are free are recorded with signs fixed, which is done here too. */
#include <string.h>

#include "quern/linalg.h"
#include "quern/ops.h"
#include "replay.h"

static bool flag(const replay_build *b, const char *key) { return qn_replay_number(b->attrs, key, 0) != 0; }

static void cholesky(replay_build *b) { b->out[0] = qn_cholesky(b->in[0], flag(b, "lower")); }
static void jnp_cholesky(replay_build *b) { b->out[0] = qn_linalg_cholesky(b->in[0]); }

static void triangular_solve(replay_build *b) {
  qn_attr_solve a = {.left_side = flag(b, "left_side"),
                     .lower = flag(b, "lower"),
                     .unit_diagonal = flag(b, "unit_diagonal"),
                     .transpose_a = strcmp(qn_replay_text(b->attrs, "transpose_a"), "NO_TRANSPOSE") != 0};
  b->out[0] = qn_triangular_solve(b->in[0], b->in[1], &a);
}

static void solve(replay_build *b) { b->out[0] = qn_linalg_solve(b->in[0], b->in[1]); }
static void cho_solve(replay_build *b) {
  b->out[0] = qn_linalg_cho_solve(qn_linalg_cholesky(b->in[0]), b->in[1], true);
}
static void inv(replay_build *b) { b->out[0] = qn_linalg_inv(b->in[0]); }
static void det(replay_build *b) { b->out[0] = qn_linalg_det(b->in[0]); }
static void slogdet(replay_build *b) {
  qn_slogdet x = qn_linalg_slogdet(b->in[0]);
  b->out[0] = x.sign;
  b->out[1] = x.log;
}
static void eigh(replay_build *b) {
  qn_eigh x = qn_linalg_eigh(b->in[0]);
  b->out[0] = x.values;
  b->out[1] = x.vectors;
}
static void eigvalsh(replay_build *b) { b->out[0] = qn_linalg_eigvalsh(b->in[0]); }
static void svdvals(replay_build *b) { b->out[0] = qn_linalg_svdvals(b->in[0]); }
static void lstsq(replay_build *b) { b->out[0] = qn_linalg_lstsq(b->in[0], b->in[1]); }
static void expm(replay_build *b) { b->out[0] = qn_linalg_expm(b->in[0]); }
static void matrix_power(replay_build *b) {
  b->out[0] = qn_linalg_matrix_power(b->in[0], (int64_t)qn_replay_number(b->attrs, "n", 1));
}
static void lu(replay_build *b) {
  qn_lu x = qn_lu_factor(b->in[0]);
  b->out[0] = x.lu;
  b->out[1] = x.pivots;
  b->out[2] = x.permutation;
}

/* Columns of q and rows of r times the sign of r's diagonal. */
static void qr(replay_build *b) {
  qn_qr x = qn_qr(b->in[0]);
  if (!qn_val_ok(x.r))
    return;
  qn_type t = *qn_val_type(x.r), index = t, q = *qn_val_type(x.q);
  index.dtype = QN_I32;
  int64_t last = t.rank - 1;
  qn_val on = qn_eq(qn_iota(b->g, index, t.rank - 2), qn_iota(b->g, index, t.rank - 1));
  qn_val d = qn_sum(qn_select(on, x.r, qn_like(x.r, 0)), 1, &last, false);
  d = qn_select(qn_lt(d, qn_like(d, 0)), qn_like(d, -1), qn_like(d, 1));
  int64_t rows[QN_MAX_RANK], columns[QN_MAX_RANK];
  for (int i = 0; i < t.rank - 1; i++)
    rows[i] = columns[i] = i;
  columns[t.rank - 2] = t.rank - 1;
  b->out[0] = qn_mul(x.q, qn_broadcast_in_dim(d, q.rank, q.dims, columns));
  b->out[1] = qn_mul(x.r, qn_broadcast_in_dim(d, t.rank, t.dims, rows));
}

const replay_op qn_replay_linalg[] = {
    {"cholesky", cholesky},
    {"jnp.linalg.cholesky", jnp_cholesky},
    {"triangular_solve", triangular_solve},
    {"linalg.solve", solve},
    {"linalg.cho_solve", cho_solve},
    {"linalg.inv", inv},
    {"linalg.det", det},
    {"linalg.slogdet", slogdet},
    {"linalg.eigh", eigh},
    {"linalg.eigvalsh", eigvalsh},
    {"linalg.svdvals", svdvals},
    {"linalg.lstsq", lstsq},
    {"linalg.expm", expm},
    {"linalg.matrix_power", matrix_power},
    {"linalg.lu", lu},
    {"linalg.qr", qr},
    {NULL, NULL},
};
