/* Complex graphs as graphs over pairs of reals, private to the scheduler. */
#ifndef QN_COMPLEX_H
#define QN_COMPLEX_H

#include "quern/graph.h"
#include "quern/op.h"

/* A value: a complex one as its parts, any other in `re` alone, with `im` null. */
typedef struct qn_pair {
  qn_val re, im;
} qn_pair;

/* What a node becomes: its operands as pairs; fills one pair per result. Failures stick to `to`. */
typedef struct qn_complex_node {
  qn_graph *to;
  const qn_graph *from;
  const qn_node *node;
  const qn_pair *in;
  qn_pair *out;
} qn_complex_node;

/* complex_math.c: elementwise operations. false: it has none for this operation. */
bool qn_complex_elementwise(qn_complex_node *n);
/* complex.c: every complex value of a graph becomes two real ones, its parameters and results f32 or f64 with a last axis of 2 (real,
 * imaginary), which is how they lie in memory. A graph without complex values is returned as it is. */
qn_status qn_lower_complex(const qn_graph *g, qn_text *log, qn_graph **out_graph);

#endif
