/* A suite's files: cases by JSON, tensors by safetensors. Whatever is damaged is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

static qn_status read_json(const char *path, cJSON **out_json) {
  qn_bytes text;
  QN_TRY(qn_file_read(path, &text));
  const char *end = NULL;
  *out_json = cJSON_ParseWithLengthOpts((const char *)text.data, text.size, &end, false);
  size_t at = end ? (size_t)(end - (const char *)text.data) : 0;
  free(text.data);
  return *out_json ? QN_OK : QN_ERR(QN_CORRUPT, "%s: no JSON, from byte %zu on", path, at);
}

static qn_status list_cases(replay_suite *s, const char *path) {
  const cJSON *list = qn_replay_get(s->json, "cases"), *x;
  if (!cJSON_IsArray(list))
    return QN_ERR(QN_CORRUPT, "%s: there is no list of cases", path);
  s->cases = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *s->cases);
  if (!s->cases)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for the cases of %s", path);
  cJSON_ArrayForEach(x, list) {
    if (!qn_replay_text(x, "id")[0])
      return QN_ERR(QN_CORRUPT, "%s: case %zu has no id", path, s->case_count);
    s->cases[s->case_count++] = x;
  }
  return QN_OK;
}

qn_status qn_replay_suite_open(const char *folder, const char *name, replay_suite *out) {
  char path[1024];
  qn_status st = QN_OK;
  memset(out, 0, sizeof *out);
  (void)snprintf(out->name, sizeof out->name, "%s", name);
  (void)snprintf(out->folder, sizeof out->folder, "%s", folder);
  (void)snprintf(path, sizeof path, "%.900s/%.64s.json", folder, name);
  QN_TRY_GOTO(st, read_json(path, &out->json), failed);
  QN_TRY_GOTO(st, list_cases(out, path), failed);
  (void)snprintf(path, sizeof path, "%.900s/%.64s.safetensors", folder, name);
  QN_TRY_GOTO(st, qn_safetensors_open(path, &out->tensors), failed);
  return QN_OK;
failed:
  qn_replay_suite_close(out);
  return st;
}

void qn_replay_suite_close(replay_suite *s) {
  cJSON_Delete(s->json);
  free(s->cases);
  qn_safetensors_close(s->tensors);
  s->json = NULL;
  s->cases = NULL;
  s->tensors = NULL;
}

const cJSON *qn_replay_get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

double qn_replay_number(const cJSON *object, const char *key, double otherwise) {
  const cJSON *x = qn_replay_get(object, key);
  return cJSON_IsNumber(x) ? x->valuedouble : cJSON_IsBool(x) ? (double)cJSON_IsTrue(x) : otherwise;
}

const char *qn_replay_text(const cJSON *object, const char *key) {
  const cJSON *x = qn_replay_get(object, key);
  return cJSON_IsString(x) ? x->valuestring : "";
}

qn_dims qn_replay_dims(const cJSON *object, const char *key) {
  const cJSON *list = qn_replay_get(object, key), *x;
  qn_dims out = {0};
  if (cJSON_IsNumber(list))
    out.d[out.n++] = (int64_t)list->valuedouble;
  cJSON_ArrayForEach(x, list) {
    if (out.n < QN_MAX_RANK && cJSON_IsNumber(x))
      out.d[out.n++] = (int64_t)x->valuedouble;
  }
  return out;
}

qn_status qn_replay_tensors(const replay_suite *s, const cJSON *list, const qn_safetensor **out, size_t room,
                            size_t *out_count) {
  const cJSON *x;
  *out_count = 0;
  cJSON_ArrayForEach(x, list) {
    const char *name = cJSON_IsString(x) ? x->valuestring : "";
    if (*out_count == room)
      return QN_ERR(QN_CORRUPT, "more than %zu tensors in one list", room);
    out[*out_count] = qn_safetensors_find(s->tensors, name);
    if (!out[*out_count])
      return QN_ERR(QN_CORRUPT, "tensor '%s' is not in %s.safetensors", name, s->name);
    ++*out_count;
  }
  return QN_OK;
}
