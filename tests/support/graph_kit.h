/* Graphs on devices: a table of small traced functions, and a runner that compiles one for a device, runs it and gives back its bytes. */
#ifndef QUERN_TEST_GRAPH_KIT_H
#define QUERN_TEST_GRAPH_KIT_H

#include "quern/compile.h"
#include "quern/ops.h"
#include "quern/tree.h"

enum { GRAPH_ARGS = 3, GRAPH_LEAVES = 64 };

typedef struct graph_case {
  const char *name;
  qn_tree_fn fn;
  qn_type args[GRAPH_ARGS]; /* argument i is one leaf "x" */
  int arg_count;
  double lo, hi;    /* of the input values */
  double tolerance; /* relative, against the oracle; 0: exact */
} graph_case;

extern const graph_case graph_cases[];
extern const size_t graph_case_count;

/* Result leaves as malloc'd row-major bytes. */
typedef struct graph_results {
  qn_traced traced;
  void *data[GRAPH_LEAVES];
  size_t count;
} graph_results;
void graph_results_free(graph_results *r);

typedef struct graph_inputs {
  void *data[GRAPH_ARGS];
} graph_inputs;
qn_status graph_inputs_make(const graph_case *c, graph_inputs *out);
void graph_inputs_free(graph_inputs *in);

qn_status graph_run_oracle(const graph_case *c, const graph_inputs *in, graph_results *out);
qn_status graph_run_device(qn_device *d, const graph_case *c, const graph_inputs *in, const qn_compile_desc *desc,
                           graph_results *out);

double graph_element(qn_dtype t, const void *data, int64_t i);
/* First difference beyond the tolerance, described in `why`; false: none. Tolerance 0 compares bytes, but any NaN equals any. */
bool graph_differs(const graph_results *got, const graph_results *want, double tolerance, char why[256]);

#endif
