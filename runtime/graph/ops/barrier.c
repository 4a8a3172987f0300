/* optimization_barrier: its operands as they are. Nothing is moved, merged or folded across it, since no rule knows it; in kernels it costs
 * nothing. */
#include <string.h>

#include "infer.h"
#include "quern/ops.h"

static qn_status barrier_infer(qn_infer *c) {
  if (c->operand_count < 1)
    return QN_ERR(QN_INVALID, "%s: no operands, expected at least one", c->name);
  for (int i = 0; i < c->operand_count; ++i)
    c->out_types[i] = c->operands[i];
  c->result_count = c->operand_count;
  return QN_OK;
}

static qn_val alone(qn_graph *g, qn_val x) {
  return qn_graph_add(g, QN_OP_OPTIMIZATION_BARRIER, &x, 1, NULL, NULL, 0, QN_HERE);
}

static void barrier_vjp(qn_rule *r, qn_val *out) {
  for (int i = 0; i < r->in_count; ++i)
    if (r->wanted[i] && qn_val_ok(r->given[i]))
      out[i] = alone(r->g, r->given[i]);
}

static void barrier_jvp(qn_rule *r, qn_val *out) {
  for (int i = 0; i < r->in_count; ++i)
    if (qn_val_ok(r->given[i]))
      out[i] = alone(r->g, r->given[i]);
}

static void barrier_batch(qn_batch *b, qn_val *out) {
  qn_val first = qn_graph_add(b->g, QN_OP_OPTIMIZATION_BARRIER, b->in, (size_t)b->in_count, NULL, NULL, 0, QN_HERE);
  for (int i = 0; i < b->out_count && qn_val_ok(first); ++i) {
    out[i] = qn_val_result(first, i);
    b->out_mapped[i] = b->mapped[i];
  }
}

/* Each operand by itself: the scheduler knows nothing of several results that are computed apart. */
static bool barrier_lower(qn_rule *r, qn_val *out) {
  if (r->in_count == 1)
    return false;
  for (int i = 0; i < r->in_count; ++i)
    out[i] = alone(r->g, r->in[i]);
  return true;
}

static qn_status barrier_eval(const qn_ref_call *c) {
  for (int i = 0; i < c->out_count; ++i)
    if (qn_type_elements(c->in_types[i]) > 0)
      memcpy(c->out[i], c->in[i], (size_t)qn_type_bytes(c->in_types[i]));
  return QN_OK;
}

const qn_op_def qn_op_optimization_barrier = {
    .name = "optimization_barrier",
    .doc = "The operands as they are; the optimiser keeps what is before it apart from what is behind it.",
    .arity = -1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .infer = barrier_infer,
    .vjp = barrier_vjp,
    .jvp = barrier_jvp,
    .batch = barrier_batch,
    .lower = barrier_lower,
    .eval = barrier_eval,
    .samples = (const qn_sample[]){{.ranks = {2, 1}, .dims = {{5, 7}, {3}}, .lo = -9, .hi = 9}},
    .sample_count = 1,
};

void qn_optimization_barrier_at(qn_place at, const qn_val *x, size_t count, qn_val *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("optimization_barrier", x, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_val first = qn_graph_add(g, QN_OP_OPTIMIZATION_BARRIER, x, count, NULL, NULL, 0, at);
  for (size_t i = 0; i < count && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}
