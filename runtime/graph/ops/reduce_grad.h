/* Derivatives of reduce. Private to the library. */
#ifndef QUERN_OPS_REDUCE_GRAD_H
#define QUERN_OPS_REDUCE_GRAD_H

#include "quern/op.h"

void qn_reduce_vjp(qn_rule *r, qn_val *out);
void qn_reduce_jvp(qn_rule *r, qn_val *out);

#endif
