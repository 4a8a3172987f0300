/* Graphs as traced functions: every parameter and every result is a leaf. */
#include "traced.h"

#include <stdio.h>
#include <stdlib.h>

static qn_status fill(const qn_graph *g, qn_traced *t) {
  char path[32];
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    (void)snprintf(path, sizeof path, "arg%zu", i);
    QN_TRY(qn_treedef_add(&t->args[0], path, *qn_graph_type(g, qn_graph_param_at(g, i))));
  }
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    (void)snprintf(path, sizeof path, "out%zu", i);
    QN_TRY(qn_treedef_add(&t->result, path, *qn_graph_type(g, qn_graph_result(g, i))));
  }
  return QN_OK;
}

qn_status qn_cli_trace_graph(qn_graph *g, qn_traced *out_traced) {
  *out_traced = (qn_traced){.graph = g, .args = calloc(1, sizeof *out_traced->args), .arg_count = 1};
  qn_status st = out_traced->args ? fill(g, out_traced) : QN_ERR(QN_OUT_OF_MEMORY, "no memory for an argument list");
  if (st != QN_OK) {
    out_traced->arg_count = out_traced->args ? 1 : 0;
    qn_traced_free(out_traced);
  }
  return st;
}

qn_status qn_cli_trace_file(const char *path, qn_traced *out_traced) {
  qn_bytes text;
  qn_graph *g = NULL;
  *out_traced = (qn_traced){0};
  QN_TRY(qn_file_read(path, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, path, &g);
  free(text.data);
  QN_TRY(st);
  return qn_cli_trace_graph(g, out_traced);
}
