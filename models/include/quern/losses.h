/* Losses and metrics. Losses return the mean over the batch; metrics keep their state in trees that go in and out. */
#ifndef QUERN_LOSSES_H
#define QUERN_LOSSES_H

#include "quern/ops.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Mean over rows of -sum(y * log_softmax(logits)); y: one-hot or soft labels of the logits' shape and dtype. */
qn_val qn_categorical_crossentropy_from_logits(qn_val y, qn_val logits);

/* A metric as a table of stateless functions; the state is a small tree of its own ("total", "count"). */
typedef struct qn_metric {
  const char *name;
  qn_status (*state)(qn_treedef *out_def);
  qn_tree *(*init)(qn_graph *g);
  qn_tree *(*update)(const qn_tree *state, qn_val y, qn_val prediction);
  qn_val (*result)(const qn_tree *state);
} qn_metric;
extern const qn_metric qn_metric_categorical_accuracy; /* argmax(y) == argmax(prediction), averaged over rows */

/* ---- totals: sums over rows that a training loop reads as "loss" and "accuracy" ---- */
/* Leaves "loss", "hits", "count" (f32). Keras weighs a batch's loss by its rows. */
qn_tree *qn_totals_zero(qn_graph *g);
qn_tree *qn_totals_fn(qn_graph *g, qn_tree *const *args, void *user); /* qn_totals_zero as a traced function */
qn_val qn_accuracy_hits(qn_val y, qn_val prediction);                 /* f32 per row: argmax(y) == argmax(prediction) */
qn_tree *qn_totals_update(const qn_tree *totals, qn_val mean_loss, qn_val hits);

#ifdef __cplusplus
}
#endif
#endif
