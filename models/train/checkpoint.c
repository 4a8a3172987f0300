/* Checkpoints: a state's leaves under their paths in a safetensors file, with a map of strings. Every leaf is compared
 * with the layout before the first one is touched. */
#include "quern/safetensors.h"
#include "quern/train.h"

#include <stdlib.h>
#include <string.h>

static qn_type type_of(const qn_layout_entry *e) {
  qn_type t = {.dtype = e->dtype, .rank = e->rank};
  for (int32_t i = 0; i < e->rank && i < QN_MAX_RANK; i++)
    t.dims[i] = e->dims[i];
  return t;
}

qn_status qn_checkpoint_save(const char *path, const qn_tensors *state, const qn_pair *meta, size_t meta_count) {
  const qn_layout *l = qn_tensors_layout(state);
  qn_safetensor *tensors = calloc(l->count + 1, sizeof *tensors);
  qn_safetensors_pair *pairs = calloc(meta_count + 1, sizeof *pairs);
  uint8_t *data = malloc((size_t)l->bytes + 1);
  qn_status st = QN_OK;
  if (!tensors || !pairs || !data) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "checkpoint %s: no memory for %llu bytes", path, (unsigned long long)l->bytes);
    goto done;
  }
  for (size_t i = 0; i < l->count; i++) {
    const qn_layout_entry *e = &l->entries[i];
    tensors[i] = (qn_safetensor){e->path, type_of(e), data + e->offset, (size_t)e->bytes};
    if (e->bytes)
      QN_TRY_GOTO(st, qn_tensors_read_at(state, i, data + e->offset), done);
  }
  for (size_t i = 0; i < meta_count; i++)
    pairs[i] = (qn_safetensors_pair){meta[i].key, meta[i].value};
  QN_TRY_GOTO(st, qn_safetensors_write(path, tensors, l->count, pairs, meta_count), done);
done:
  free(tensors);
  free(pairs);
  free(data);
  return st;
}

/* ---- reading ---- */

static qn_status check_leaf(const char *path, const qn_safetensors *f, const qn_layout_entry *e) {
  const qn_safetensor *t = qn_safetensors_find(f, e->path);
  qn_type expected = type_of(e);
  char text[128];
  qn_layout_entry_text(e, text, sizeof text);
  if (!t)
    return QN_ERR(QN_INVALID, "checkpoint %s: leaf \"%s\" (%s) is not in it", path, e->path, text);
  if (!qn_type_equal(&t->type, &expected))
    return QN_ERR(QN_INVALID, "checkpoint %s: leaf \"%s\" is %s, expected %s", path, e->path, qn_type_str(&t->type),
                  text);
  return QN_OK;
}

static qn_status check_leaves(const char *path, const qn_safetensors *f, const qn_layout *l) {
  for (size_t i = 0; i < l->count; i++)
    QN_TRY(check_leaf(path, f, &l->entries[i]));
  for (size_t i = 0; i < qn_safetensors_count(f); i++)
    if (qn_layout_find(l, qn_safetensors_at(f, i)->name) < 0)
      return QN_ERR(QN_INVALID, "checkpoint %s: leaf \"%s\" is in it, the state has none of that name", path,
                    qn_safetensors_at(f, i)->name);
  return QN_OK;
}

static qn_status fill_meta(const char *path, const qn_safetensors *f, qn_pair *meta, size_t meta_count) {
  for (size_t i = 0; i < meta_count; i++) {
    const char *value = qn_safetensors_meta(f, meta[i].key);
    int n = snprintf(meta[i].value, sizeof meta[i].value, "%s", value ? value : "");
    if (n < 0 || (size_t)n >= sizeof meta[i].value)
      return QN_ERR(QN_CORRUPT, "checkpoint %s: \"%s\" in __metadata__ has %d characters, expected at most %zu", path,
                    meta[i].key, n, sizeof meta[i].value - 1);
  }
  return QN_OK;
}

static qn_status fill_state(const qn_safetensors *f, qn_tensors *state) {
  const qn_layout *l = qn_tensors_layout(state);
  for (size_t i = 0; i < l->count; i++)
    if (l->entries[i].bytes)
      QN_TRY(qn_tensors_write_at(state, i, qn_safetensors_find(f, l->entries[i].path)->data));
  return QN_OK;
}

qn_status qn_checkpoint_load(const char *path, qn_tensors *state, qn_pair *meta, size_t meta_count) {
  qn_safetensors *f;
  qn_status st = qn_safetensors_open(path, &f);
  if (st == QN_NOT_FOUND)
    return QN_ERR(QN_NOT_FOUND, "there is no checkpoint %s; train without --resume first", path);
  QN_TRY(st);
  if (state)
    QN_TRY_GOTO(st, check_leaves(path, f, qn_tensors_layout(state)), done);
  QN_TRY_GOTO(st, fill_meta(path, f, meta, meta_count), done);
  if (state)
    QN_TRY_GOTO(st, fill_state(f, state), done);
done:
  qn_safetensors_close(f);
  return st;
}
