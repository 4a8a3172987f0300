/* Marks that say something about a value and change none of it: lowered away before scheduling. */
#include <string.h>

#include "rows.h"

static qn_status stop_gradient_eval(const qn_ref_call *c) {
  int64_t bytes = qn_type_bytes(c->out_types[0]);
  if (bytes > 0)
    memcpy(c->out[0], c->in[0], (size_t)bytes);
  return QN_OK;
}

const qn_op_def qn_op_stop_gradient = {
    .name = "quern.stop_gradient",
    .doc = "The operand itself, taken as a constant by every derivative.",
    .arity = 1,
    .kind = QN_KIND_MARK,
    .dtypes = QN_D_ANY,
    .infer = qn_infer_same,
    .no_grad = "stops derivatives on purpose",
    .batch = qn_batch_elementwise,
    .eval = stop_gradient_eval,
    QN_ROW_SAMPLE1(-9, 9, 0),
};
