/* Helpers that rows share: shape rules with uniform messages, and batching of elementwise operations. */
#ifndef QUERN_OPS_INFER_H
#define QUERN_OPS_INFER_H

#include "quern/op.h"

/* Operand count as `want` says: "add: 1 operands, expected 2". */
qn_status qn_infer_count(const qn_infer *c, int want);
/* Operand i's dtype is one of `mask` (QN_D_*): "sine: operand 0 is i32[4], expected a float". */
qn_status qn_infer_dtype(const qn_infer *c, int i, unsigned mask);
/* Operand i's type equals operand j's: "add: operand 1 is f32[3], expected f32[4] as operand 0". */
qn_status qn_infer_match(const qn_infer *c, int i, int j);
/* Elementwise: the row's arity and dtypes, all operands of one type, which is the result's. */
qn_status qn_infer_same(qn_infer *c);
/* The same with a bool result. */
qn_status qn_infer_predicate(qn_infer *c);
/* Words for a mask: "a float", "an integer or bool". */
const char *qn_infer_mask_name(unsigned mask);
unsigned qn_dtype_mask(qn_dtype t); /* its QN_D_* bit, 0 for none */

/* Elementwise batching: operands that carry no lanes are broadcast over them. */
void qn_batch_elementwise(qn_batch *b, qn_val *out);

#endif
