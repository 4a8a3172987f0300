/* Shape rules of elementwise operations and their batching: every operand has the result's shape, so one text serves all rows. */
#include "infer.h"

#include "quern/ops.h"

unsigned qn_dtype_mask(qn_dtype t) {
  if (t <= QN_DTYPE_NONE || t >= QN_DTYPE_COUNT)
    return 0;
  return 1U << (unsigned)qn_dtype_classify(t);
}

const char *qn_infer_mask_name(unsigned mask) {
  switch (mask) {
  case QN_D_BOOL:
    return "a bool";
  case QN_D_SIGNED:
    return "a signed integer";
  case QN_D_UNSIGNED:
    return "an unsigned integer";
  case QN_D_FLOAT:
    return "a float";
  case QN_D_COMPLEX:
    return "a complex number";
  case QN_D_INT:
    return "an integer";
  case QN_D_BITS:
    return "an integer or bool";
  case QN_D_REAL:
    return "an integer or float";
  case QN_D_SIGNED | QN_D_FLOAT:
    return "a signed integer or float";
  case QN_D_FLOAT | QN_D_COMPLEX:
    return "a float or complex number";
  case QN_D_REAL | QN_D_COMPLEX:
    return "a number";
  case QN_D_SIGNED | QN_D_FLOAT | QN_D_COMPLEX:
    return "a signed integer, float or complex number";
  case QN_D_REAL | QN_D_BOOL:
    return "an integer, float or bool";
  case QN_D_ANY:
    return "any dtype";
  default:
    return "another dtype";
  }
}

qn_status qn_infer_count(const qn_infer *c, int want) {
  if (c->operand_count != want)
    return QN_ERR(QN_INVALID, "%s: %d operand%s, expected %d", c->name, c->operand_count,
                  c->operand_count == 1 ? "" : "s", want);
  return QN_OK;
}

qn_status qn_infer_dtype(const qn_infer *c, int i, unsigned mask) {
  if ((qn_dtype_mask(c->operands[i].dtype) & mask) == 0)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %s", c->name, i, qn_type_str(&c->operands[i]),
                  qn_infer_mask_name(mask));
  return QN_OK;
}

qn_status qn_infer_match(const qn_infer *c, int i, int j) {
  if (!qn_type_equal(&c->operands[i], &c->operands[j]))
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %s as operand %d", c->name, i,
                  qn_type_str(&c->operands[i]), qn_type_str(&c->operands[j]), j);
  return QN_OK;
}

qn_status qn_infer_same(qn_infer *c) {
  const qn_op_def *def = qn_op_get(c->op);
  QN_TRY(qn_infer_count(c, def->arity));
  QN_TRY(qn_infer_dtype(c, 0, def->dtypes));
  for (int i = 1; i < c->operand_count; i++)
    QN_TRY(qn_infer_match(c, i, 0));
  c->result_count = 1;
  c->out_types[0] = c->operands[0];
  return QN_OK;
}

qn_status qn_infer_predicate(qn_infer *c) {
  QN_TRY(qn_infer_same(c));
  c->out_types[0].dtype = QN_BOOL;
  return QN_OK;
}

/* One operand with the lanes in front: a scalar beside larger operands keeps its lanes on axis 0 and is spread over the rest. */
static qn_val with_lanes(qn_val v, bool mapped, const qn_type *want) {
  const qn_type *t = qn_val_type(v);
  if (mapped && t->rank == want->rank)
    return v;
  int64_t axes[QN_MAX_RANK] = {0};
  int n = 0;
  if (mapped) {
    n = 1;
  } else {
    for (int i = 0; i < t->rank; i++)
      axes[n++] = i + 1;
  }
  return qn_broadcast_in_dim(v, want->rank, want->dims, n > 0 ? axes : NULL);
}

void qn_batch_elementwise(qn_batch *b, qn_val *out) {
  bool any = false;
  int rank = 0;
  const qn_type *widest = NULL;
  for (int i = 0; i < b->in_count; i++) {
    const qn_type *t = qn_val_type(b->in[i]);
    int lanes = b->mapped[i] ? 1 : 0;
    any = any || b->mapped[i];
    if (widest == NULL || t->rank - lanes > rank) {
      rank = t->rank - lanes;
      widest = t;
    }
  }
  if (widest == NULL)
    return;
  if (rank + 1 > QN_MAX_RANK) {
    out[0] =
        qn_graph_fail(b->g, b->node->place, QN_UNSUPPORTED, "%s: vmap would make a tensor of rank %d, the most is %d",
                      qn_op_get(b->node->op)->name, rank + 1, QN_MAX_RANK);
    return;
  }
  qn_val v[4];
  QN_CHECK(b->in_count <= 4);
  qn_type want = {.rank = rank + (any ? 1 : 0)};
  if (any)
    want.dims[0] = b->size;
  for (int i = 0; i < rank; i++)
    want.dims[i + (any ? 1 : 0)] = widest->dims[widest->rank - rank + i];
  for (int i = 0; i < b->in_count; i++)
    v[i] = any ? with_lanes(b->in[i], b->mapped[i], &want) : b->in[i];
  /* Ops whose result dtype does not follow from the operands (convert) keep the primal node's. */
  qn_type hint = want;
  hint.dtype = qn_graph_type(b->from, b->node->first_result)->dtype;
  out[0] = qn_graph_add_typed(b->g, b->node->op, v, (size_t)b->in_count, b->attr, NULL, 0, &hint, b->node->place);
  b->out_mapped[0] = any;
}
