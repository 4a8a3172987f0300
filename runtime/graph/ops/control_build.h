/* Regions from C functions, for the builders of control flow. */
#ifndef QUERN_OPS_CONTROL_BUILD_H
#define QUERN_OPS_CONTROL_BUILD_H

#include "quern/control.h"
#include "quern/ops.h"

/* A function traced into a region of g. */
typedef struct qn_traced_region {
  qn_graph *graph; /* borrowed from g; NULL: g has failed */
  const qn_val *captures;
  size_t capture_count;
} qn_traced_region;
/* in: types of the parameters. */
qn_traced_region qn_region_trace(qn_graph *g, const char *name, const qn_type *in, size_t in_count, size_t out_count,
                                 qn_body_fn fn, void *user);
/* Adds a node over such regions: operands, then what any of them captures. Fills out with its results, at most out_count. */
void qn_control_add(qn_place at, qn_graph *g, qn_op op, const qn_val *in, size_t in_count, const void *attr,
                    const qn_traced_region *regions, size_t region_count, qn_val *out, size_t out_count);
void qn_null_results(qn_val *out, size_t count);
/* Types of values, in g's arena; NULL: g has failed. */
qn_type *qn_types_of(qn_graph *g, const qn_val *v, size_t count, size_t more);

#endif
