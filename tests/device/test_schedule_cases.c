/* Graphs that were once scheduled wrongly, in their smallest form, each against the oracle on the cpu, fused and one kernel per node. */
#include "expect.h"
#include "graph_kit.h"
#include "quern/drivers.h"

#define X(i) qn_tree_get(args[i], "x")
#define CASE(name)                                                                                                     \
  static qn_tree *name(qn_graph *g, qn_tree *const *args, void *user) {                                                \
    qn_tree *r = qn_tree_create(g);                                                                                    \
    (void)user;

static const int64_t first[] = {0}, last[] = {-1};

/* A row's result beside that of all other rows: the second product is not to be had while a row is computed. */
CASE(outer_product_of_means)
qn_val m = qn_mean(X(0), 1, last, false), all = qn_mean(X(0), 1, last, true);
qn_val product = qn_mul(all, m);
qn_tree_set(r, "product", product);
qn_tree_set(r, "max", qn_reduce_max(product, 1, last, false));
qn_tree_set(r, "minus", qn_sub(m, qn_reshape(qn_transpose(all, NULL), 1, last)));
return r;
}

/* A map's results in two ranks. */
CASE(units_in_a_map)
qn_val a = qn_mul(qn_tanh(X(0)), qn_exp(qn_add(X(0), qn_reverse(qn_sum(X(0), 1, last, true), 1, first))));
qn_tree_set(r, "dot", qn_dot(qn_transpose(a, NULL), a)); /* has it stored, before the others are looked at */
qn_val wide = qn_reshape(a, 3, ((const int64_t[]){33, 1, 17})),
       ends = qn_reshape(a, 4, ((const int64_t[]){1, 33, 17, 1}));
qn_tree_set(r, "a", a);
qn_tree_set(r, "wide", qn_neg(wide));
qn_tree_set(r, "ends", ends);
qn_tree_set(r, "columns", qn_sum(a, 1, first, false));
return r;
}

/* The product is stored, for the scatter, beside what needs a sum; the sum of its squares may join that first sum and must not wait for the store. */
CASE(stored_after_it_was_used)
qn_graph *body;
if (qn_region_binary(QN_OP_ADD, QN_F32, &body) != QN_OK)
  return r;
qn_val s = qn_sum_all(X(1)), product = qn_mul(X(0), X(1)), squares = qn_mul(product, product),
       t = qn_reverse(qn_mul(X(0), s), 1, first);
qn_attr_scatter a = {.inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = 1};
qn_tree_set(r, "scattered", qn_scatter(t, qn_convert(X(2), QN_I32), product, &a, body));
qn_tree_set(r, "squares", qn_sum_all(squares));
qn_graph_release(body);
return r;
}

/* Behind a concatenation, lanes that begin below zero and end above it are taken apart over other axes. */
CASE(halves_exchanged)
const int64_t there[] = {1, 2, 0}, back[] = {2, 0, 1}, flat[] = {8, 64}, cube[] = {8, 16, 4};
const int64_t none[] = {0, 0}, half[] = {0, 32}, middle[] = {8, 32}, whole[] = {8, 64}, one[] = {1, 1};
qn_val y = qn_reshape(qn_transpose(X(0), there), 2, flat);
qn_val left = qn_slice(y, none, middle, one), right = qn_slice(y, half, whole, one);
qn_val exchanged[] = {qn_mul(X(1), right), qn_mul(X(1), left)};
qn_tree_set(r, "y", qn_transpose(qn_reshape(qn_concatenate(exchanged, 2, 1), 3, cube), back));
return r;
}

/* One kernel of all of it would take a minute to compile: the chain is cut, also where it hangs on a contraction. */
CASE(long_chain)
qn_val y = qn_dot(X(0), qn_transpose(X(0), NULL));
for (int i = 0; i < 400; i++)
  y = qn_sin(qn_add(y, qn_scalar(g, QN_F32, 0.25)));
qn_tree_set(r, "y", y);
return r;
}

/* Two arrays side by side; indexes of 64 bits and unsigned ones that i32 does not hold. */
CASE(two_scattered)
qn_graph *body;
if (qn_graph_create("two", &body) != QN_OK)
  return r;
qn_val p[4];
for (int i = 0; i < 4; i++)
  p[i] = qn_graph_param(body, qn_type_scalar(i % 2 ? QN_I32 : QN_F32), NULL);
qn_val sums[2] = {qn_add(p[0], p[2]), qn_max(p[1], p[3])};
if (qn_graph_seal(body, sums, 2) == QN_OK) {
  qn_attr_scatter a = {
      .inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = 1};
  qn_val index = qn_convert(X(2), QN_I64), far = qn_like(index, 4294967296.0);
  qn_val where[2] = {qn_select(qn_lt(index, qn_like(index, 3)), qn_add(index, far), index),
                     qn_convert(qn_convert(X(2), QN_I32), QN_U32)};
  for (int i = 0; i < 2; i++) {
    qn_val in[5] = {X(0), qn_convert(X(1), QN_I32), where[i], X(1), qn_convert(X(0), QN_I32)};
    qn_val both = qn_graph_add(g, QN_OP_SCATTER, in, 5, &a, &body, 1, QN_HERE);
    qn_tree_set(r, i ? "unsigned/a" : "wide/a", qn_val_result(both, 0));
    qn_tree_set(r, i ? "unsigned/b" : "wide/b", qn_val_result(both, 1));
    qn_tree_set(r, i ? "unsigned/taken" : "wide/taken", qn_take(X(0), where[i], 0));
  }
}
qn_graph_release(body);
return r;
}

/* What is behind a barrier joins what is before it, and a reduction's epilogue. */
CASE(barriers)
qn_val in[2] = {qn_exp(X(0)), qn_sum(X(0), 1, last, true)}, out[2];
qn_optimization_barrier(in, 2, out);
qn_tree_set(r, "scaled", qn_mul(out[0], out[1]));
qn_tree_set(r, "sum", qn_sum(qn_mul(out[0], X(0)), 1, last, false));
return r;
}

/* Right operands large enough to be copied in panels, with blocks, columns and panels that do not come out even; one is read across. */
CASE(large_products)
qn_val y = qn_dot(X(0), X(1));
qn_tree_set(r, "product", qn_relu(qn_add(y, qn_sum(X(1), 1, first, false))));
qn_tree_set(r, "across", qn_dot(qn_mul(y, qn_like(y, 0.01)), qn_transpose(X(1), NULL)));
return r;
}

/* Columns long enough to be walked several vectors at a time, of one axis and of two around the results'. */
CASE(long_columns)
qn_val sums = qn_sum(qn_mul(X(0), X(0)), 1, first, false);
qn_tree_set(r, "sums", qn_mul(sums, qn_like(sums, 0.5)));
qn_tree_set(r, "max", qn_reduce_max(qn_reshape(X(0), 3, ((const int64_t[]){96, 8, 64})), 1, first, false));
qn_tree_set(r, "two", qn_sum(qn_reshape(X(0), 3, ((const int64_t[]){2, 48, 512})), 2, ((const int64_t[]){0, 1}), true));
return r;
}

static const graph_case cases[] = {
    {"large",
     large_products,
     {{.dtype = QN_F32, .rank = 2, .dims = {64, 300}}, {.dtype = QN_F32, .rank = 2, .dims = {300, 441}}},
     2,
     -1,
     1,
     1e-5},
    {"columns", long_columns, {{.dtype = QN_F32, .rank = 2, .dims = {96, 512}}}, 1, -2, 2, 1e-5},
    {"exchanged",
     halves_exchanged,
     {{.dtype = QN_F32, .rank = 3, .dims = {4, 8, 16}}, {.dtype = QN_F32, .rank = 2, .dims = {8, 32}}},
     2,
     -2,
     2,
     1e-6},
    {"long", long_chain, {{.dtype = QN_F32, .rank = 2, .dims = {7, 5}}}, 1, -2, 2, 1e-5},
    {"outer", outer_product_of_means, {{.dtype = QN_F32, .rank = 2, .dims = {33, 33}}}, 1, -2, 2, 1e-5},
    {"units", units_in_a_map, {{.dtype = QN_F32, .rank = 2, .dims = {33, 17}}}, 1, -2, 2, 1e-5},
    {"stored",
     stored_after_it_was_used,
     {{.dtype = QN_F32, .rank = 1, .dims = {16}},
      {.dtype = QN_F32, .rank = 1, .dims = {16}},
      {.dtype = QN_F32, .rank = 1, .dims = {16}}},
     3,
     -2,
     18,
     1e-5},
    {"two_scattered",
     two_scattered,
     {{.dtype = QN_F32, .rank = 1, .dims = {16}},
      {.dtype = QN_F32, .rank = 1, .dims = {16}},
      {.dtype = QN_F32, .rank = 1, .dims = {16}}},
     3,
     -5,
     18,
     1e-5},
    {"barriers", barriers, {{.dtype = QN_F32, .rank = 2, .dims = {9, 13}}}, 1, -2, 2, 1e-5},
};

static qn_device *cpu(void) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  return d;
}

Test(schedule_cases, against_the_oracle) {
  qn_device *d = cpu();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    graph_inputs in;
    graph_results want, fused, plain;
    char why[256];
    QN_ASSERT_OK(graph_inputs_make(&cases[i], &in));
    QN_EXPECT_OK(graph_run_oracle(&cases[i], &in, &want));
    QN_EXPECT_OK(graph_run_device(d, &cases[i], &in, &(qn_compile_desc){0}, &fused));
    QN_EXPECT_OK(graph_run_device(d, &cases[i], &in, &(qn_compile_desc){.no_fusion = true, .interpret = true}, &plain));
    cr_expect(!graph_differs(&fused, &want, cases[i].tolerance, why), "%s: %s", cases[i].name, why);
    cr_expect(!graph_differs(&plain, &fused, 0, why), "%s, unfused: %s", cases[i].name, why);
    graph_results_free(&plain);
    graph_results_free(&fused);
    graph_results_free(&want);
    graph_inputs_free(&in);
  }
  qn_device_release(d);
}

/* ---- an empty leaf lies where the next one does: it must not be taken for it when that is overwritten ---- */

CASE(counts_up)
qn_val w = qn_tree_get(args[0], "w");
qn_tree_set(r, "state/empty", qn_neg(qn_tree_get(args[0], "empty")));
qn_tree_set(r, "state/w", qn_add(w, qn_like(w, 1)));
qn_tree_set(r, "old", w);
return r;
}

Test(schedule_cases, an_empty_leaf_before_one_in_place) {
  static const qn_plan_donation state[] = {{0, "state"}};
  const qn_jit_desc desc = {.compile = {.donations = state, .donation_count = 1, .interpret = true}};
  qn_device *d = cpu();
  qn_treedef def = {0};
  qn_traced traced;
  qn_step *s;
  qn_tensors *t, *result;
  float w[4] = {1, 2, 3, 4}, got[4], old[4];
  QN_ASSERT_OK(qn_treedef_add(&def, "empty", qn_type_of(QN_F32, 2, 0, 3)));
  QN_ASSERT_OK(qn_treedef_add(&def, "w", qn_type_of(QN_F32, 1, 4)));
  QN_ASSERT_OK(qn_trace(counts_up, NULL, "counts_up", &def, 1, &traced));
  QN_ASSERT_OK(qn_jit(d, &traced, &desc, &s));
  QN_ASSERT_OK(qn_tensors_create(d, &qn_step_plan(s)->args[0], "state", &t));
  QN_ASSERT_OK(qn_tensors_write(t, "w", w));
  QN_ASSERT_OK(qn_step_call(s, &t, 1, &result, NULL));
  QN_ASSERT_OK(qn_tensors_read(t, "w", got));
  QN_ASSERT_OK(qn_tensors_read(result, "old", old));
  for (int i = 0; i < 4; i++)
    cr_expect(got[i] == w[i] + 1 && old[i] == w[i], "%d: %g, before it %g", i, (double)got[i], (double)old[i]);
  qn_tensors_release(t);
  qn_step_release(s);
  qn_traced_free(&traced);
  qn_treedef_free(&def);
  qn_device_release(d);
}
