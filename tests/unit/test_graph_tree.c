/* Trees, their definitions, tracing. */
#include "expect.h"
#include "quern/ops.h"
#include "quern/tree.h"

static const qn_type f3 = {.dtype = QN_F32, .rank = 1, .dims = {3}};

Test(tree, symbolic) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  qn_tree *t = qn_tree_create(g), *layer = qn_tree_create(g);
  qn_val w = qn_graph_param(g, f3, "w"), b = qn_graph_param(g, f3, "b");
  qn_tree_set(layer, "w", w);
  qn_tree_set(layer, "b", b);
  qn_tree_put(t, "layers/0", layer);
  qn_tree_put(t, "layers/1", layer);
  qn_tree_set(t, "step", w);
  qn_tree_set(t, "step", b);
  cr_expect(t->count == 5);
  cr_expect_str_eq(t->leaves[2].path, "layers/1/w");
  cr_expect(qn_val_same(qn_tree_get(t, "step"), b) && qn_val_same(qn_tree_get(t, "layers/1/b"), b));
  cr_expect(qn_tree_has(t, "layers") && qn_tree_has(t, "layers/0/w") && !qn_tree_has(t, "lay") &&
            !qn_tree_has(t, "layers/2"));
  qn_tree *sub = qn_tree_sub(t, "layers/0");
  cr_expect(sub->count == 2 && strcmp(sub->leaves[0].path, "w") == 0);
  sub = qn_tree_sub(t, "step");
  cr_expect(sub->count == 1 && *sub->leaves[0].path == '\0', "a subtree that is one leaf");
  qn_tree *again = qn_tree_create(g);
  qn_tree_put(again, "x", sub);
  cr_expect(again->count == 1 && strcmp(again->leaves[0].path, "x") == 0);
  for (int i = 0; i < 100; i++) {
    char path[16];
    (void)snprintf(path, sizeof path, "p%d", i);
    qn_tree_set(t, path, w);
  }
  cr_expect(t->count == 105 && qn_val_same(qn_tree_get(t, "p99"), w));
  cr_expect(!qn_graph_failed(g));
  cr_expect(!qn_val_ok(qn_tree_get(sub, "nothing")));
  QN_EXPECT_FAIL(qn_graph_seal(g, NULL, 0), QN_NOT_FOUND, "no leaf 'nothing'");
  qn_graph_release(g);
}

static void expect_tree_failure(int which, const char *part) {
  qn_graph *g, *other;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  QN_ASSERT_OK(qn_graph_create(NULL, &other));
  qn_tree *t = qn_tree_create(g);
  qn_tree_set(t, "a", qn_graph_param(g, f3, NULL));
  if (which == 0)
    qn_tree_set(t, "b", qn_graph_param(other, f3, NULL));
  else if (which == 1)
    qn_tree_set(t, "b", QN_NULL_VAL);
  else
    cr_expect(qn_tree_sub(t, "b")->count == 0);
  qn_status st = qn_graph_seal(g, NULL, 0);
  cr_expect(st != QN_OK && strstr(qn_error_message(), part) && strstr(qn_error_message(), "test_graph_tree.c:"), "%s",
            qn_error_message());
  qn_graph_release(g);
  qn_graph_release(other);
}

Test(tree, failures_stick_to_the_graph) {
  expect_tree_failure(0, "the value for 'b' belongs to another graph");
  expect_tree_failure(1, "the value for 'b' is the null value");
  expect_tree_failure(2, "nothing under 'b/' (there are: a)");
  cr_expect(qn_tree_sub(NULL, "a") == NULL && !qn_val_ok(qn_tree_get(NULL, "a")) && qn_tree_create(NULL) == NULL);
  qn_tree_set(NULL, "a", QN_NULL_VAL);
}

static qn_val sum_leaves(qn_graph *g, const qn_val *leaves, const char *path, void *user) {
  (void)g;
  (void)path;
  ++*(int *)user;
  return qn_add(leaves[0], leaves[1]);
}

Test(tree, maps_by_path) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create(NULL, &g));
  qn_val x = qn_graph_param(g, f3, NULL), y = qn_graph_param(g, f3, NULL);
  qn_tree *a = qn_tree_create(g), *b = qn_tree_create(g), *c = qn_tree_create(g);
  qn_tree_set(a, "u", x);
  qn_tree_set(a, "v", y);
  qn_tree_set(b, "v", y); /* another order */
  qn_tree_set(b, "u", x);
  int calls = 0;
  qn_tree *sum = qn_tree_map(((qn_tree *[]){a, b}), 2, sum_leaves, &calls);
  cr_expect(calls == 2 && sum->count == 2);
  const qn_node *n = qn_graph_def(g, qn_tree_get(sum, "v").id);
  cr_expect(n->operands[0] == y.id && n->operands[1] == y.id);
  qn_tree_set(c, "u", x);
  qn_tree_set(c, "w", x);
  (void)qn_tree_map(((qn_tree *[]){a, c}), 2, sum_leaves, &calls);
  QN_EXPECT_FAIL(qn_graph_seal(g, NULL, 0), QN_INVALID, "tree 1 has no leaf 'v'");
  qn_graph_release(g);
}

Test(tree, definitions) {
  qn_treedef d = {0}, e = {0}, copy;
  QN_EXPECT_OK(qn_treedef_add(&d, "w", f3));
  QN_EXPECT_OK(qn_treedef_add(&d, "b", f3));
  QN_EXPECT_FAIL(qn_treedef_add(&d, "w", f3), QN_INVALID, "'w' is there twice");
  QN_EXPECT_OK(qn_treedef_put(&e, "layers/0", &d));
  cr_expect(qn_treedef_find(&e, "layers/0/b") == 1 && qn_treedef_find(&e, "b") == -1);
  QN_EXPECT_OK(qn_treedef_copy(&e, &copy));
  const char *path;
  cr_expect(qn_treedef_equal(&e, &copy, &path) && path == NULL);
  copy.leaves[1].type.dims[0] = 4;
  cr_expect(!qn_treedef_equal(&e, &copy, &path));
  cr_expect_str_eq(path, "layers/0/b");
  cr_expect(!qn_treedef_equal(&d, &e, &path));
  qn_treedef f = {0};
  cr_expect(!qn_treedef_equal(&d, &f, &path));
  cr_expect_str_eq(path, "w");
  qn_treedef_free(&d);
  qn_treedef_free(&e);
  qn_treedef_free(&copy);
  qn_treedef_free(&copy); /* an empty one is fine */
}

/* ---- tracing ---- */
static qn_tree *model(qn_graph *g, qn_tree *const *args, void *user) {
  const char *leaf = user;
  qn_tree *out = qn_tree_create(g);
  qn_tree_set(out, "y", qn_add(qn_tree_get(args[0], leaf), qn_tree_get(args[1], "")));
  qn_tree_set(out, "aux/w", qn_tree_get(args[0], "w"));
  return out;
}
static qn_tree *nothing(qn_graph *g, qn_tree *const *args, void *user) {
  (void)g;
  (void)args;
  (void)user;
  return NULL;
}

Test(tree, traces) {
  qn_treedef args[2] = {{0}, {0}};
  QN_ASSERT_OK(qn_treedef_add(&args[0], "w", f3));
  QN_ASSERT_OK(qn_treedef_add(&args[0], "b", f3));
  QN_ASSERT_OK(qn_treedef_add(&args[1], "", f3));
  qn_traced t;
  QN_ASSERT_OK(qn_trace(model, "b", "model", args, 2, &t));
  cr_expect_str_eq(qn_graph_name(t.graph), "model");
  cr_expect(qn_graph_param_count(t.graph) == 3 && qn_graph_result_count(t.graph) == 2 && t.arg_count == 2);
  cr_expect_str_eq(qn_graph_param_path(t.graph, 1), "arg0/b");
  cr_expect_str_eq(qn_graph_param_path(t.graph, 2), "arg1");
  cr_expect_str_eq(qn_graph_result_path(t.graph, 1), "aux/w");
  cr_expect(t.result.count == 2 && qn_treedef_find(&t.result, "aux/w") == 1 &&
            qn_treedef_equal(&t.args[0], &args[0], NULL));
  qn_traced_free(&t);
  QN_EXPECT_FAIL(qn_trace(model, "c", NULL, args, 2, &t), QN_NOT_FOUND,
                 "no leaf 'c' (there are: w, b) (test_graph_tree.c:");
  cr_expect(t.graph == NULL && t.args == NULL);
  QN_EXPECT_FAIL(qn_trace(nothing, NULL, "f", args, 2, &t), QN_INVALID, "f: the traced function gave no tree");
  qn_treedef_free(&args[0]);
  qn_treedef_free(&args[1]);
}
