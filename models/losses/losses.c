/* Losses and metrics, from log-sum-exp where logits are given. */
#include "quern/losses.h"

qn_val qn_categorical_crossentropy_from_logits(qn_val y, qn_val logits) {
  int64_t last = -1;
  qn_val rows = qn_neg(qn_sum(qn_mul(y, qn_log_softmax(logits, -1)), 1, &last, false));
  return qn_mean(rows, 0, NULL, false);
}

/* ---- categorical accuracy ---- */

static qn_status mean_state(qn_treedef *out_def) {
  QN_TRY(qn_treedef_add(out_def, "total", qn_type_scalar(QN_F32)));
  return qn_treedef_add(out_def, "count", qn_type_scalar(QN_F32));
}

static qn_tree *mean_init(qn_graph *g) {
  qn_tree *t = qn_tree_create(g);
  if (t) {
    qn_tree_set(t, "total", qn_scalar(g, QN_F32, 0));
    qn_tree_set(t, "count", qn_scalar(g, QN_F32, 0));
  }
  return t;
}

qn_val qn_accuracy_hits(qn_val y, qn_val prediction) {
  return qn_convert(qn_eq(qn_argmax(y, -1), qn_argmax(prediction, -1)), QN_F32);
}

static qn_tree *accuracy_update(const qn_tree *state, qn_val y, qn_val prediction) {
  qn_tree *t = qn_tree_create(state->graph);
  if (!t)
    return NULL;
  qn_val hits = qn_accuracy_hits(y, prediction);
  qn_val total = qn_tree_get(state, "total"), count = qn_tree_get(state, "count");
  qn_tree_set(t, "total", qn_add(total, qn_sum_all(hits)));
  qn_tree_set(t, "count", qn_add(count, qn_like(count, (double)qn_type_elements(qn_val_type(hits)))));
  return t;
}

/* 0 / 0 is 0, as in Keras. */
static qn_val mean_result(const qn_tree *state) {
  qn_val total = qn_tree_get(state, "total"), count = qn_tree_get(state, "count");
  return qn_select(qn_eq(count, qn_like(count, 0)), qn_like(total, 0), qn_div(total, count));
}

const qn_metric qn_metric_categorical_accuracy = {"categorical_accuracy", mean_state, mean_init, accuracy_update,
                                                  mean_result};

/* ---- totals ---- */

qn_tree *qn_totals_zero(qn_graph *g) {
  static const char *const leaves[] = {"loss", "hits", "count"};
  qn_tree *t = qn_tree_create(g);
  for (size_t i = 0; t && i < 3; i++)
    qn_tree_set(t, leaves[i], qn_scalar(g, QN_F32, 0));
  return t;
}

qn_tree *qn_totals_fn(qn_graph *g, qn_tree *const *args, void *user) {
  (void)args;
  (void)user;
  return qn_totals_zero(g);
}

qn_tree *qn_totals_update(const qn_tree *totals, qn_val mean_loss, qn_val hits) {
  qn_tree *t = qn_tree_create(totals->graph);
  if (!t)
    return NULL;
  double rows = (double)qn_type_elements(qn_val_type(hits));
  qn_val count = qn_tree_get(totals, "count");
  qn_tree_set(t, "loss", qn_add(qn_tree_get(totals, "loss"), qn_mul(mean_loss, qn_like(mean_loss, rows))));
  qn_tree_set(t, "hits", qn_add(qn_tree_get(totals, "hits"), qn_sum_all(hits)));
  qn_tree_set(t, "count", qn_add(count, qn_like(count, rows)));
  return t;
}
