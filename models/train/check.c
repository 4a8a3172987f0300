/* Looking for NaNs behind each training step: what the step reads is kept on the host, so that the step can be run again value by value. */
#include "train_impl.h"

#include <stdlib.h>

#include "quern/check.h"

struct qn_kept {
  void **leaves; /* of all arguments, in order */
  size_t count;
};

void qn_kept_free(qn_kept *k) {
  for (size_t i = 0; k && i < k->count; i++)
    free(k->leaves[i]);
  if (k)
    free(k->leaves);
  free(k);
}

qn_status qn_kept_take(qn_tensors *const *args, size_t arg_count, qn_kept **out_kept) {
  size_t count = 0;
  qn_status st = QN_OK;
  *out_kept = NULL;
  for (size_t a = 0; a < arg_count; a++)
    count += qn_tensors_layout(args[a])->count;
  qn_kept *k = calloc(1, sizeof *k);
  if (k)
    k->leaves = calloc(count + 1, sizeof *k->leaves);
  if (!k || !k->leaves) {
    qn_kept_free(k);
    return QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory for %zu leaves", count);
  }
  for (size_t a = 0; a < arg_count && st == QN_OK; a++) {
    const qn_layout *l = qn_tensors_layout(args[a]);
    for (size_t i = 0; i < l->count && st == QN_OK; i++) {
      void *room = k->leaves[k->count++] = malloc((size_t)l->entries[i].bytes + 8);
      st = room ? qn_tensors_read_at(args[a], i, room)
                : QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory for %s", l->entries[i].path);
    }
  }
  if (st != QN_OK) {
    qn_kept_free(k);
    return st;
  }
  *out_kept = k;
  return QN_OK;
}

qn_status qn_kept_count_nans(const qn_tensors *t, int64_t *out_count) {
  const qn_layout *l = qn_tensors_layout(t);
  *out_count = 0;
  for (size_t i = 0; i < l->count; i++) {
    const qn_layout_entry *e = &l->entries[i];
    qn_type type = qn_type_make(e->dtype, e->rank, e->dims);
    int64_t first = -1;
    void *room = malloc((size_t)e->bytes + 8);
    if (!room)
      return QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory for %s", e->path);
    qn_status st = qn_tensors_read_at(t, i, room);
    *out_count += st == QN_OK ? qn_count_nans(&type, room, &first) : 0;
    free(room);
    QN_TRY(st);
  }
  return QN_OK;
}

qn_status qn_kept_explain(const qn_kept *k, qn_device *d, qn_cache *cache, const qn_traced *fn) {
  qn_nan_report report;
  qn_text text = {0};
  QN_TRY(qn_check_nans(d, cache, fn->graph, (const void *const *)k->leaves, &report));
  qn_nan_report_print(&report, &text);
  if (report.origin == QN_NAN_INPUT)
    qn_text_add(&text, " (%s)",
                qn_graph_param_path(fn->graph, report.input) ? qn_graph_param_path(fn->graph, report.input) : "");
  qn_status st = QN_ERR(QN_DIVERGED, "%s", text.buf ? text.buf : "a NaN");
  qn_text_free(&text);
  return st;
}
