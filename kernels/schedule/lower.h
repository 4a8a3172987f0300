/* Rewrites between optimisation and scheduling: they fix the arithmetic order and shapes that kernels want. Each is named in the log. */
#ifndef QN_LOWER_H
#define QN_LOWER_H

#include "quern/graph.h"

qn_status qn_lower(const qn_graph *g, qn_text *log, qn_graph **out_graph);

#endif
