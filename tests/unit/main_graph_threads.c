/* One sealed graph, many threads: retains and releases, reads, prints, passes and evaluations at the same time. */
#include <stdlib.h>
#include <string.h>

#include "quern/graph.h"
#include "quern/ops.h"
#include "support.h"

enum { THREADS = 4, ROUNDS = 50 };

static qn_graph *build(void) {
  qn_graph *g;
  QN_REQUIRE_OK(qn_graph_create("shared", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 4, 8), "x");
  qn_val y = qn_sum(qn_mul(qn_tanh(x), qn_like(x, 2)), 1, ((const int64_t[]){1}), true);
  y = qn_add(y, qn_stop_gradient(x));
  QN_REQUIRE_OK(qn_graph_seal(g, &y, 1));
  return g;
}

static void work(void *arg) {
  qn_graph *g = arg;
  float x[32], y[32];
  for (int i = 0; i < 32; i++)
    x[i] = (float)i / 16;
  for (int round = 0; round < ROUNDS; round++) {
    qn_graph *mine = qn_graph_retain(g), *optimized = NULL, *parsed = NULL;
    qn_text t = {0};
    QN_REQUIRE_OK(qn_graph_optimize(mine, NULL, &optimized));
    qn_graph_print(mine, &t);
    QN_REQUIRE_OK(qn_graph_parse(t.buf, t.len, "shared", &parsed));
    QN_REQUIRE(qn_graph_equal(mine, parsed));
    QN_REQUIRE_OK(qn_graph_eval_ref(optimized, (const void *[]){x}, (void *[]){y}));
    qn_text_free(&t);
    qn_graph_release(parsed);
    qn_graph_release(optimized); /* shares its region with the others */
    qn_graph_release(mine);
  }
  qn_graph_release(g);
}

int main(void) {
  qn_graph *g = build();
  qn_thread threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    QN_REQUIRE_OK(qn_thread_start(&threads[i], work, qn_graph_retain(g)));
  qn_graph_release(g); /* the last thread frees it */
  for (int i = 0; i < THREADS; i++)
    qn_thread_join(threads[i]);
  return 0;
}
