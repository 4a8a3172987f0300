/* What sort, top_k and their derivatives share. Private to the library. */
#ifndef QUERN_OPS_SORT_H
#define QUERN_OPS_SORT_H

#include "quern/op.h"
#include "quern/ops.h"

/* Reorders `order` by a stable merge sort; `before` tells whether element b, which stands behind a, has to come before it. */
typedef qn_status (*qn_before_fn)(void *user, int64_t b, int64_t a, bool *out);
qn_status qn_stable_order(int64_t *order, int64_t *scratch, int64_t n, qn_before_fn before, void *user);

void qn_sort_vjp(qn_rule *r, qn_val *out);
void qn_sort_jvp(qn_rule *r, qn_val *out);

#endif
