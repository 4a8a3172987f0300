/* Matrix parts: one item works through one matrix of the batch (or through one column where columns do not meet), in loops over memory: the input
 * is copied to the result, which is then worked on in place. The order of every sum is fixed by the loops, so that all devices agree. */
#include "emit_matrix.h"

typedef enum slot_kind { SLOT_MATRIX, SLOT_COLUMN, SLOT_LANES } slot_kind;
static const struct {
  qn_op op;
  slot_kind slots; /* what one slot is: a matrix, a column of the result, several neighbouring columns */
  matrix_emit_fn emit;
} forms[] = {
    {QN_OP_CHOLESKY, SLOT_MATRIX, qn_emit_cholesky},
    {QN_OP_TRIANGULAR_SOLVE, SLOT_LANES, qn_emit_triangular_solve},
    {QN_OP_LU, SLOT_MATRIX, qn_emit_lu},
    {QN_OP_PIVOTS_TO_PERMUTATION, SLOT_MATRIX, qn_emit_permutation},
    {QN_OP_GEQRF, SLOT_MATRIX, qn_emit_geqrf},
    {QN_OP_HOUSEHOLDER_PRODUCT, SLOT_COLUMN, qn_emit_householder},
    {QN_OP_JACOBI, SLOT_MATRIX, qn_emit_jacobi},
    {QN_OP_JACOBI_COLUMNS, SLOT_MATRIX, qn_emit_jacobi_columns},
};

static int form_of(qn_op op) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].op == op)
      return (int)i;
  return -1;
}

uint32_t qn_solve_lanes(const qn_device_caps *caps, int64_t columns) {
  uint32_t lanes = qn_emit_grid(caps).lanes;
  while (lanes > 1 && columns % lanes)
    lanes /= 2;
  return lanes;
}

emit_slots qn_matrix_slots(const qn_schedule *s, const sched_part *p) {
  const qn_type *t = &p->domain;
  int form = form_of(qn_graph_node(s->g, p->hero)->op);
  slot_kind kind = form < 0 ? SLOT_MATRIX : forms[form].slots;
  int own = qn_graph_node(s->g, p->hero)->op == QN_OP_PIVOTS_TO_PERMUTATION ? 1 : 2; /* axes of one matrix */
  int64_t count = 1;
  for (int i = 0; i < t->rank - own; i++)
    count *= t->dims[i];
  int64_t columns = t->dims[t->rank - 1];
  if (kind == SLOT_COLUMN)
    count *= columns;
  if (kind == SLOT_LANES)
    count *= columns / qn_solve_lanes(s->caps, columns);
  double elements = (double)qn_type_elements(t) / (double)(count > 0 ? count : 1);
  return qn_emit_slots(s->caps, count, 4 * elements * (double)t->dims[t->rank - own]);
}

void qn_emit_matrix(qn_emit *e) {
  const qn_node *n = qn_graph_node(e->s->g, e->part->hero);
  int form = form_of(n->op);
  if (form < 0) {
    qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "%s: no kernel form on %s", qn_op_get(n->op)->name, e->s->caps->id));
    return;
  }
  e->lanes = 1;
  emit_slots slots = qn_matrix_slots(e->s, e->part);
  qn_sval slot = qn_emit_slots_open(e, &slots);
  forms[form].emit(e, n, slot);
  qn_emit_slots_close(e, &slots);
}

/* ---- windows ---- */

matrix qn_matrix_of(qn_emit *e, uint32_t value, bool vector, qn_sval entry, bool write) {
  const qn_type *t = qn_graph_type(e->s->g, value);
  matrix m = {.buffer = qn_emit_buffer(e, value, write), .col = 1};
  if (write)
    (void)qn_emit_buffer(e, value, false); /* results are read back */
  m.cols = vector ? 1 : t->dims[t->rank - 1];
  m.rows = t->dims[t->rank - (vector ? 1 : 2)];
  m.row = m.cols;
  m.base = qs_mul(e->k, entry, qn_emit_i32(e, m.rows * m.cols));
  return m;
}

matrix qn_matrix_flip(matrix m) {
  return (matrix){.buffer = m.buffer, .base = m.base, .row = m.col, .col = m.row, .rows = m.cols, .cols = m.rows};
}

static qn_sval place(qn_emit *e, const matrix *m, qn_sval i, qn_sval j) {
  qn_sval row = qs_add(e->k, m->base, qs_mul(e->k, i, qn_emit_i32(e, m->row)));
  return qs_add(e->k, row, qs_mul(e->k, j, qn_emit_i32(e, m->col)));
}

qn_sval qn_matrix_get(qn_emit *e, const matrix *m, qn_sval i, qn_sval j) {
  return qn_kb_load(e->b, m->buffer, place(e, m, i, j), 1, (qn_sval){0});
}

void qn_matrix_put(qn_emit *e, const matrix *m, qn_sval i, qn_sval j, qn_sval x) {
  qn_kb_store(e->b, m->buffer, place(e, m, i, j), x, (qn_sval){0});
}

void qn_matrix_copy(qn_emit *e, const matrix *to, const matrix *from) {
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, to->rows));
  qn_sval j = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, to->cols));
  qn_matrix_put(e, to, i, j, qn_matrix_get(e, from, i, j));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}

void qn_matrix_identity(qn_emit *e, const matrix *to) {
  qn_dtype t = e->b->kernel->buffers[to->buffer].dtype;
  qn_sval i = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, to->rows));
  qn_sval j = qn_matrix_loop(e, qn_matrix_i(e, 0), qn_matrix_i(e, to->cols));
  qn_matrix_put(e, to, i, j, qs_select(e->k, qs_eq(e->k, i, j), qs_const(e->k, t, 1), qs_const(e->k, t, 0)));
  qn_kb_close(e->b);
  qn_kb_close(e->b);
}
