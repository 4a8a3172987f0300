/* Matrix parts: what their emitters share. A matrix is a window of a buffer that the kernel reads and writes in place; indexes are i32. */
#ifndef QN_EMIT_MATRIX_H
#define QN_EMIT_MATRIX_H

#include "schedule.h"

typedef struct matrix {
  uint32_t buffer;
  qn_sval base;     /* element index of its corner */
  int64_t row, col; /* strides; exchanged they make the transpose */
  int64_t rows, cols;
} matrix;

/* Operand or result `value` of the batch entry `entry`; vectors are matrices of one column. */
matrix qn_matrix_of(qn_emit *e, uint32_t value, bool vector, qn_sval entry, bool write);
matrix qn_matrix_flip(matrix m);
qn_sval qn_matrix_get(qn_emit *e, const matrix *m, qn_sval i, qn_sval j);
void qn_matrix_put(qn_emit *e, const matrix *m, qn_sval i, qn_sval j, qn_sval x);
void qn_matrix_copy(qn_emit *e, const matrix *to, const matrix *from);
void qn_matrix_identity(qn_emit *e, const matrix *to);

/* Loop over begin <= index < end; closed by qn_kb_close. */
static inline qn_sval qn_matrix_loop(qn_emit *e, qn_sval begin, qn_sval end) {
  return qn_kb_loop(e->b, begin, end, 1, true);
}
static inline qn_sval qn_matrix_i(qn_emit *e, int64_t x) { return qn_emit_i32(e, x); }
static inline qn_sval qn_matrix_next(qn_emit *e, qn_sval i) { return qs_add(e->k, i, qn_emit_i32(e, 1)); }
static inline qn_sval qn_matrix_var(qn_emit *e, qn_sval init) { return qn_kb_var(e->b, init); }
/* var += a * b, and var -= a * b, in one rounding. */
static inline void qn_matrix_gain(qn_emit *e, qn_sval var, qn_sval a, qn_sval b) {
  qn_kb_set(e->b, var, qs_fma(e->k, a, b, qn_kb_get(e->b, var)));
}
static inline void qn_matrix_lose(qn_emit *e, qn_sval var, qn_sval a, qn_sval b) {
  qn_matrix_gain(e, var, qs_neg(e->k, a), b);
}

/* Bodies by operation: `slot` counts what one item does. */
typedef void (*matrix_emit_fn)(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_cholesky(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_triangular_solve(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_lu(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_permutation(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_geqrf(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_householder(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_jacobi(qn_emit *e, const qn_node *n, qn_sval slot);
void qn_emit_jacobi_columns(qn_emit *e, const qn_node *n, qn_sval slot);
/* Columns that one item of a triangular solve takes at once. */
uint32_t qn_solve_lanes(const qn_device_caps *caps, int64_t columns);

#endif
