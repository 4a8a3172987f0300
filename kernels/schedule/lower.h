/* Rewrites between optimisation and scheduling: they fix the arithmetic order and shapes that kernels want. Each is named in the log. */
#ifndef QN_LOWER_H
#define QN_LOWER_H

#include "quern/graph.h"

/* lower_rows.c: the rows' own lowering, over and over until no row has anything to lower; the result is optimised where that changed anything. */
qn_status qn_lower_rows(const qn_graph *g, qn_text *log, qn_graph **out_graph);
qn_status qn_lower(const qn_graph *g, qn_text *log, qn_graph **out_graph);

/* The operation that a body is, when it is op(accumulator, element) and one that the kernels know an identity of; else QN_OP_NONE. */
qn_op qn_simple_body(const qn_graph *body);

#endif
