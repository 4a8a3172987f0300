/* Graphs as traced functions: every parameter and every result is a leaf. */
#ifndef QUERN_CLI_TRACED_H
#define QUERN_CLI_TRACED_H

#include "quern/tree.h"

/* One argument tree with leaves "arg0", "arg1" ..., one result tree with "out0" ...; takes over the caller's hold on the graph, also on failure. */
qn_status qn_cli_trace_graph(qn_graph *g, qn_traced *out_traced);
/* The same of a file of StableHLO text. */
qn_status qn_cli_trace_file(const char *path, qn_traced *out_traced);

#endif
