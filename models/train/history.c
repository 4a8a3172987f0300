/* history.json: a row per epoch, the loss of the first and of every hundredth step. Nine digits give back every f32, so
 * equal runs write equal files but for "seconds", and reading then writing changes nothing. */
#include "train_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#ifdef QN_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

qn_status qn_history_add_epoch(qn_history *h, const qn_history_epoch *row) {
  if (!QN_RESERVE(h->epochs, h->epoch_capacity, h->epoch_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "history: no memory for epoch %zu", h->epoch_count + 1);
  h->epochs[h->epoch_count++] = *row;
  return QN_OK;
}

qn_status qn_history_add_step(qn_history *h, uint64_t step, double loss) {
  if (!QN_RESERVE(h->steps, h->step_capacity, h->step_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "history: no memory for step %" PRIu64, step);
  h->steps[h->step_count++] = (qn_history_step){step, loss};
  return QN_OK;
}

void qn_history_free(qn_history *h) {
  free(h->epochs);
  free(h->steps);
  *h = (qn_history){0};
}

static void number(qn_text *t, const char *name, double x) {
  if (isfinite(x))
    qn_text_add(t, "\"%s\":%.9g", name, x);
  else
    qn_text_add(t, "\"%s\":null", name);
}

static void print(qn_text *t, const qn_history *h, const char *device, uint64_t seed) {
  qn_text_puts(t, "{\"epochs\":[");
  for (size_t i = 0; i < h->epoch_count; i++) {
    const qn_history_epoch *e = &h->epochs[i];
    qn_text_puts(t, i ? ",\n  {" : "\n  {");
    number(t, "loss", e->loss);
    qn_text_puts(t, ",");
    number(t, "accuracy", e->accuracy);
    qn_text_puts(t, ",");
    number(t, "val_loss", e->val_loss);
    qn_text_puts(t, ",");
    number(t, "val_accuracy", e->val_accuracy);
    qn_text_puts(t, ",");
    number(t, "seconds", e->seconds);
    qn_text_puts(t, "}");
  }
  qn_text_puts(t, "],\n\"steps\":[");
  for (size_t i = 0; i < h->step_count; i++) {
    qn_text_add(t, "%s\n  {\"step\":%" PRIu64 ",", i ? "," : "", h->steps[i].step);
    number(t, "loss", h->steps[i].loss);
    qn_text_puts(t, "}");
  }
  qn_text_puts(t, "],\n\"device\":");
  qn_text_json_string(t, device);
  qn_text_add(t, ",\"seed\":%" PRIu64 "}\n", seed);
}

qn_status qn_history_save(const qn_history *h, const char *path, const char *device, uint64_t seed) {
  qn_text t = {0};
  print(&t, h, device, seed);
  qn_status st = qn_text_check(&t);
  if (st == QN_OK)
    st = qn_file_write_atomic(path, t.buf, t.len);
  qn_text_free(&t);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_history_save");
}

#ifdef QN_HAVE_CJSON

static bool get(const cJSON *row, const char *name, double *out) {
  const cJSON *v = cJSON_GetObjectItemCaseSensitive(row, name);
  *out = cJSON_IsNumber(v) ? v->valuedouble : (double)NAN;
  return cJSON_IsNumber(v) || cJSON_IsNull(v);
}

static qn_status read_epochs(const char *path, const cJSON *rows, size_t epochs, qn_history *h) {
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    qn_history_epoch e;
    if (h->epoch_count == epochs)
      break;
    if (!get(row, "loss", &e.loss) || !get(row, "accuracy", &e.accuracy) || !get(row, "val_loss", &e.val_loss) ||
        !get(row, "val_accuracy", &e.val_accuracy) || !get(row, "seconds", &e.seconds))
      return QN_ERR(QN_CORRUPT, "%s: epoch %zu lacks a number", path, h->epoch_count + 1);
    QN_TRY(qn_history_add_epoch(h, &e));
  }
  if (h->epoch_count < epochs)
    return QN_ERR(QN_CORRUPT, "%s: %zu epochs, expected %zu as the checkpoint beside it has", path, h->epoch_count,
                  epochs);
  return QN_OK;
}

static qn_status read_steps(const char *path, const cJSON *rows, uint64_t steps, qn_history *h) {
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    double step, loss;
    if (!get(row, "step", &step) || !get(row, "loss", &loss) || !(step >= 1 && step < 9e15))
      return QN_ERR(QN_CORRUPT, "%s: row %zu of the steps lacks a number", path, h->step_count + 1);
    if ((uint64_t)step <= steps)
      QN_TRY(qn_history_add_step(h, (uint64_t)step, loss));
  }
  return QN_OK;
}

qn_status qn_history_load(const char *path, size_t epochs, uint64_t steps, qn_history *out_history) {
  qn_bytes file;
  cJSON *json;
  qn_status st;
  *out_history = (qn_history){0};
  QN_TRY(qn_file_read(path, &file));
  json = cJSON_ParseWithOpts((const char *)file.data, NULL, 1);
  free(file.data);
  if (!cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, "epochs")) ||
      !cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(json, "steps"))) {
    st = QN_ERR(QN_CORRUPT, "%s: no JSON object with \"epochs\" and \"steps\"", path);
    goto done;
  }
  QN_TRY_GOTO(st, read_epochs(path, cJSON_GetObjectItemCaseSensitive(json, "epochs"), epochs, out_history), done);
  QN_TRY_GOTO(st, read_steps(path, cJSON_GetObjectItemCaseSensitive(json, "steps"), steps, out_history), done);
done:
  cJSON_Delete(json);
  if (st != QN_OK)
    qn_history_free(out_history);
  return st;
}

#else

qn_status qn_history_load(const char *path, size_t epochs, uint64_t steps, qn_history *out_history) {
  (void)epochs;
  (void)steps;
  *out_history = (qn_history){0};
  return QN_ERR(QN_UNSUPPORTED, "%s: this build has no JSON reader (libcjson-dev) and cannot load it", path);
}

#endif
