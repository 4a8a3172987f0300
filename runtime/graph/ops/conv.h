/* Convolutions: what the row, its derivatives and its lowering share. Private to the library. */
#ifndef QUERN_OPS_CONV_H
#define QUERN_OPS_CONV_H

#include "quern/op.h"

void qn_conv_vjp(qn_rule *r, qn_val *out);
void qn_conv_jvp(qn_rule *r, qn_val *out);
void qn_conv_batch(qn_batch *b, qn_val *out);
bool qn_conv_lower(qn_rule *r, qn_val *out);

/* The same operation with the result's element type stated. */
qn_val qn_conv_typed(qn_val lhs, qn_val rhs, const qn_attr_conv *a, qn_dtype dtype);

/* Size of an axis with `dilation - 1` holes between its elements. */
int64_t qn_conv_dilated(int64_t size, int64_t dilation);
/* Splits axis `axis` of x in (groups, size / groups) and moves the groups in front of axis `into`, as the outer part of it. Both name axes of x. */
qn_val qn_conv_groups_into(qn_val x, int64_t axis, int64_t groups, int64_t into);
/* Axis 0 of x goes into axis `into` of what is left, inside its `groups` outer parts: [n][g*d] becomes [g*n*d]. */
qn_val qn_conv_lanes_into(qn_val x, int64_t into, int64_t groups);
/* The other way round: an axis of g*n*d gives [n] in front and g*d at its place. */
qn_val qn_conv_lanes_out(qn_val x, int64_t axis, int64_t groups, int64_t lanes);

#endif
