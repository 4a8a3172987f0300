/* libFuzzer: any bytes as StableHLO text are refused with a place, or make a graph that verifies, prints, and reads again as the same one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/graph.h"

static void stop(const char *what, const char *text) {
  fprintf(stderr, "%s: %s\n%s\n", what, qn_error_message(), text ? text : "");
  abort();
}

/* A refusal says where: "f:line:column: ..." */
static void check_refusal(qn_status st) {
  const char *message = qn_error_message();
  int line = 0, column = 0;
  if (st == QN_OUT_OF_MEMORY)
    return;
  if (sscanf(message, "f:%d:%d: ", &line, &column) != 2 || line < 1 || column < 1 || strpbrk(message, "\n\033"))
    stop("a refusal without its place", NULL);
}

static void check_graph(qn_graph *g) {
  qn_graph *again = NULL;
  qn_text text = {0}, second = {0};
  if (qn_graph_verify(g) != QN_OK)
    stop("it was read, but does not verify", NULL);
  qn_graph_print(g, &text);
  if (text.failed)
    return;
  if (qn_graph_parse(text.buf, text.len, "f", &again) != QN_OK)
    stop("what was printed is refused", text.buf);
  qn_graph_print(again, &second);
  if (!second.failed && (!qn_graph_equal(g, again) || strcmp(text.buf, second.buf) != 0))
    stop("what was printed reads as something else", text.buf);
  qn_text_free(&text);
  qn_text_free(&second);
  qn_graph_release(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  qn_graph *g = NULL;
  qn_status st = qn_graph_parse((const char *)data, size, "f", &g);
  if (st != QN_OK)
    check_refusal(st);
  else
    check_graph(g);
  qn_graph_release(g);
  return 0;
}
