/* Optimizer states keep every parameter apart, however long the names are. */
#include <string.h>

#include "expect.h"
#include "quern/optim.h"

enum { LONG = 400 };

static qn_treedef two_long_names(void) {
  qn_treedef def = {0};
  char path[LONG + 1];
  memset(path, 'p', LONG);
  path[LONG] = '\0';
  for (char c = 'a'; c <= 'b'; c++) {
    path[LONG - 1] = c;
    QN_ASSERT_OK(qn_treedef_add(&def, path, qn_type_of(QN_F32, 1, 3)));
  }
  return def;
}

/* The state as initialised has the leaves of its definition. */
static void expect_leaves(const qn_tree *t, const qn_treedef *def) {
  cr_assert(t != NULL);
  cr_expect_eq(t->count, def->count);
  for (size_t i = 0; i < def->count; i++)
    cr_expect(qn_tree_has(t, def->leaves[i].path), "no %s", def->leaves[i].path);
}

Test(optim_paths, adam) {
  qn_treedef params = two_long_names(), state = {0};
  qn_graph *g;
  qn_adam a = {0};
  QN_ASSERT_OK(qn_adam_state(&a, &params, &state));
  QN_ASSERT_OK(qn_graph_create("init", &g));
  expect_leaves(qn_adam_init(&a, g, &params), &state);
  qn_graph_release(g);
  qn_treedef_free(&params);
  qn_treedef_free(&state);
}

Test(optim_paths, optax_adam) {
  qn_treedef params = two_long_names(), state = {0};
  qn_graph *g;
  qn_optax_adam a = {0};
  QN_ASSERT_OK(qn_optax_adam_state(&a, &params, &state));
  QN_ASSERT_OK(qn_graph_create("init", &g));
  expect_leaves(qn_optax_adam_init(&a, g, &params), &state);
  qn_graph_release(g);
  qn_treedef_free(&params);
  qn_treedef_free(&state);
}
