/* The op table as a whole: every row says all that it must, names are found again, shape rules agree with the results that the
 * oracle fills, for every dtype a row claims. */
#include "conform.h"

/* Rows whose operands a sample cannot give (regions, integer starts, none at all) and the test file that covers them. */
static const struct {
  qn_op op;
  const char *file;
} elsewhere[] = {
    {QN_OP_PARAMETER, "tests/unit"},
    {QN_OP_CONSTANT, "tests/unit"},
    {QN_OP_DYNAMIC_SLICE, "tests/ops/test_structural"},
    {QN_OP_DYNAMIC_UPDATE_SLICE, "tests/ops/test_structural"},
    {QN_OP_REDUCE, "tests/ops/test_structural"},
    {QN_OP_REDUCE_WINDOW, "tests/ops/test_window.c"},
    {QN_OP_SELECT_AND_SCATTER, "tests/ops/test_window.c"},
    {QN_OP_CUMULATIVE, "tests/ops/test_window.c"},
    {QN_OP_GATHER, "tests/ops/test_structural"},
    {QN_OP_SCATTER, "tests/ops/test_structural"},
    {QN_OP_WHILE, "tests/ops/test_control"},
    {QN_OP_CASE, "tests/ops/test_control"},
    {QN_OP_IF, "tests/ops/test_control"},
    {QN_OP_SORT, "tests/ops/test_sort"},
    {QN_OP_SORT_RUNS, "tests/ops/test_sort"},
    {QN_OP_RNG_BIT_GENERATOR, "tests/ops/test_rng_bit_generator"},
    {QN_OP_CUSTOM_JVP, "tests/ops/test_remat"},
    {QN_OP_REMAT, "tests/ops/test_remat"},
    {QN_OP_CUSTOM_VJP, "tests/ops/test_structural"},
};

static bool covered_elsewhere(qn_op op) {
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    if (elsewhere[i].op == op)
      return true;
  return false;
}

static void check_row(qn_op op, const qn_op_def *d) {
  cr_expect(d->doc != NULL && strlen(d->doc) > 10, "%s: no doc", d->name);
  cr_expect(d->infer != NULL, "%s: no shape rule", d->name);
  bool source = d->kind == QN_KIND_SOURCE;
  cr_expect(source || d->dtypes != 0, "%s: claims no dtype", d->name);
  bool derives = d->partial != NULL || d->vjp != NULL || d->jvp != NULL;
  cr_expect(derives || d->no_grad != NULL, "%s: no derivative and no reason why", d->name);
  cr_expect(!derives || d->no_grad == NULL, "%s: a derivative and a reason why not", d->name);
  cr_expect(d->partial != NULL || d->vjp == NULL || d->jvp != NULL || d->linear || d->kind == QN_KIND_MARK,
            "%s: reverse mode only", d->name);
  cr_expect(source || d->batch != NULL, "%s: no batching rule", d->name);
  bool refs = (!(d->dtypes & QN_D_FLOAT) || d->ref != NULL) && (!(d->dtypes & QN_D_SIGNED) || d->ref_i != NULL) &&
              (!(d->dtypes & (QN_D_UNSIGNED | QN_D_BOOL)) || d->ref_u != NULL) &&
              (!(d->dtypes & QN_D_COMPLEX) || d->ref_c != NULL);
  cr_expect(d->eval != NULL || refs || op == QN_OP_PARAMETER, "%s: a dtype without reference", d->name);
  cr_expect(d->expand != NULL || d->kind != QN_KIND_ELEMENTWISE || op == QN_OP_CONVERT || op == QN_OP_COMPLEX,
            "%s: no expansion", d->name);
  cr_expect(d->sample_count > 0 ? d->samples != NULL : covered_elsewhere(op), "%s: no samples", d->name);
  cr_expect(qn_op_find(d->name) == op, "%s: not found by its name", d->name);
}

Test(conform_table, rows_are_complete) {
  cr_expect(qn_op_get(QN_OP_NONE) == NULL);
  cr_expect(qn_op_find("no_such_operation") == QN_OP_NONE);
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    cr_assert(d != NULL && d->name != NULL, "row %d is absent", op);
    check_row((qn_op)op, d);
  }
}

/* Each claimed dtype is taken by at least one sample; what is not claimed is refused with a message that names the row. */
Test(conform_table, dtypes_are_as_claimed) {
  int graphs = 0;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int k = 0; k < DTYPES && d->sample_count > 0 && d->kind != QN_KIND_SOURCE; k++) {
      int accepted = 0;
      for (int s = 0; s < d->sample_count; s++) {
        qn_graph *g = NULL;
        qn_status st = sample_graph((qn_op)op, &d->samples[s], all_dtypes[k], false, &g);
        accepted += st == QN_OK;
        graphs++;
        cr_expect(st == QN_OK || strstr(qn_error_message(), d->name) != NULL, "%s", qn_error_message());
        qn_graph_release(g);
      }
      bool claimed = walks((qn_op)op, all_dtypes[k]);
      cr_expect(claimed == (accepted > 0), "%s with %s: claimed %d, accepted %d samples", d->name,
                qn_dtype_name(all_dtypes[k]), claimed, accepted);
    }
  }
  cr_expect(graphs > 1000, "only %d graphs", graphs);
}

/* The oracle runs every sample in every dtype, empty and scalar shapes too, and writes bools as 0 and 1. */
static void run_sample(qn_op op, const qn_sample *s, qn_dtype t, uint64_t *seed) {
  qn_graph *g = NULL;
  if ((qn_op_get(op)->arity != 0 && !walks(op, t)) || sample_graph(op, s, t, false, &g) != QN_OK)
    return;
  tensor in[4], out[1];
  params_make(g, in);
  results_make(g, out);
  operands_draw(op, s, in, qn_graph_param_count(g), seed);
  QN_EXPECT_OK(run(g, in, out));
  for (int64_t i = 0; out[0].t.dtype == QN_BOOL && i < qn_type_elements(&out[0].t); i++)
    cr_expect(((uint8_t *)out[0].data)[i] <= 1, "%s", qn_op_get(op)->name);
  tensors_free(in, qn_graph_param_count(g));
  tensors_free(out, 1);
  qn_graph_release(g);
}

Test(conform_table, oracle_runs_every_row) {
  uint64_t seed = 1;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int s = 0; s < d->sample_count; s++) {
      for (int k = 0; k < DTYPES; k++) {
        run_sample((qn_op)op, &d->samples[s], all_dtypes[k], &seed);
        if (d->kind != QN_KIND_ELEMENTWISE)
          continue;
        qn_sample empty = d->samples[s], scalar = d->samples[s];
        for (int j = 0; j < 4; j++) {
          empty.dims[j][0] = 0;
          scalar.ranks[j] = 0;
        }
        run_sample((qn_op)op, &empty, all_dtypes[k], &seed);
        run_sample((qn_op)op, &scalar, all_dtypes[k], &seed);
      }
    }
  }
}
