/* Rewrites between optimisation and scheduling: they fix the arithmetic order and shapes that kernels want. Each is named in the log. */
#ifndef QN_LOWER_H
#define QN_LOWER_H

#include "quern/graph.h"

/* lower_rows.c: the rows' own lowering, over and over until no row has anything to lower; the result is optimised where that changed anything. */
qn_status qn_lower_rows(const qn_graph *g, qn_text *log, qn_graph **out_graph);
qn_status qn_lower(const qn_graph *g, qn_text *log, qn_graph **out_graph);

/* lower_loop.c: a while whose body is lowered and in the form that the scheduler takes; out: its results. */
bool qn_lower_loop(qn_graph *to, const qn_node *loop, const qn_val *operands, qn_text *log, qn_val *out);
/* Is the node a loop that runs as long as its first carry says so? Else it is a counted one. */
bool qn_loop_has_flag(const qn_node *loop);

/* The operation that a body is, when it is op(accumulator, element) and one that the kernels know an identity of; else QN_OP_NONE. */
qn_op qn_simple_body(const qn_graph *body);

#endif
