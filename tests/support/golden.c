/* Reads recorded suites: cases from JSON, tensors from safetensors. */
#include "support.h"

#ifdef QN_HAVE_CJSON
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/graph/oracle.h"
#include "support.h"

bool qn_golden_open(const char *suite, qn_golden *out) {
  char name[256], path[1024];
  *out = (qn_golden){0};
  (void)snprintf(name, sizeof name, "golden/%s.json", suite);
  if (qn_test_shared_path(name, path, sizeof path) == NULL) {
    (void)fprintf(stderr, "the shared data is not there: %s is not checked\n", name);
    return false;
  }
  qn_bytes json;
  QN_REQUIRE_OK(qn_file_read(path, &json));
  out->json = cJSON_ParseWithLength((const char *)json.data, json.size);
  free(json.data);
  QN_REQUIRE(out->json != NULL);
  out->cases = qn_golden_get(out->json, "cases");
  (void)snprintf(name, sizeof name, "golden/%s.safetensors", suite);
  QN_REQUIRE(qn_test_shared_path(name, path, sizeof path) != NULL);
  QN_REQUIRE_OK(qn_safetensors_open(path, &out->tensors));
  return true;
}

void qn_golden_close(qn_golden *g) {
  cJSON_Delete(g->json);
  qn_safetensors_close(g->tensors);
  *g = (qn_golden){0};
}

const cJSON *qn_golden_get(const cJSON *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

double qn_golden_number(const cJSON *object, const char *key, double otherwise) {
  const cJSON *x = qn_golden_get(object, key);
  return cJSON_IsNumber(x) ? x->valuedouble : cJSON_IsBool(x) ? (double)cJSON_IsTrue(x) : otherwise;
}

const char *qn_golden_string(const cJSON *object, const char *key) {
  const cJSON *x = qn_golden_get(object, key);
  return cJSON_IsString(x) ? x->valuestring : "";
}

qn_dims qn_golden_dims(const cJSON *object, const char *key) {
  const cJSON *list = qn_golden_get(object, key), *x;
  qn_dims out = {0};
  if (cJSON_IsNumber(list)) {
    out.d[out.n++] = (int64_t)list->valuedouble;
    return out;
  }
  cJSON_ArrayForEach(x, list) {
    QN_REQUIRE(out.n < QN_MAX_RANK);
    out.d[out.n++] = (int64_t)x->valuedouble;
  }
  return out;
}

bool qn_golden_tensor_find(const qn_golden *g, const char *name, qn_golden_tensor *out) {
  const qn_safetensor *t = qn_safetensors_find(g->tensors, name);
  if (t == NULL)
    return false;
  *out = (qn_golden_tensor){t->type, t->data};
  return true;
}

size_t qn_golden_tensors(const qn_golden *g, const cJSON *list, qn_golden_tensor *out, size_t room) {
  const cJSON *x;
  size_t n = 0;
  cJSON_ArrayForEach(x, list) {
    QN_REQUIRE(n < room);
    QN_REQUIRE(qn_golden_tensor_find(g, x->valuestring, &out[n]));
    ++n;
  }
  return n;
}

static double element(const qn_type *t, const void *data, int64_t i) {
  if (qn_dtype_is_float(t->dtype)) {
    double x;
    qn_oracle_load_f(t->dtype, data, i, 1, &x);
    return x;
  }
  if (qn_dtype_is_signed(t->dtype)) {
    int64_t x;
    qn_oracle_load_i(t->dtype, data, i, 1, &x);
    return (double)x;
  }
  uint64_t x;
  qn_oracle_load_u(t->dtype, data, i, 1, &x);
  return (double)x;
}

bool qn_golden_matches(const qn_type *t, const void *got, const void *want, double rtol, double atol, char *why,
                       size_t why_size) {
  int64_t worst = -1;
  double by = 0;
  if (!qn_dtype_is_float(t->dtype)) { /* beyond 2^53 doubles cannot tell */
    size_t bytes = (size_t)qn_type_bytes(t);
    if (bytes == 0 || memcmp(got, want, bytes) == 0)
      return true;
  }
  for (int64_t i = 0; i < qn_type_elements(t); ++i) {
    double a = element(t, got, i), b = element(t, want, i);
    if ((isnan(a) && isnan(b)) || (!isnan(a) && !(a < b) && !(a > b)))
      continue;
    double room = atol + rtol * fabs(b), off = isfinite(a) && isfinite(b) ? fabs(a - b) - room : INFINITY;
    if (off > 0 && (worst < 0 || off > by)) {
      worst = i;
      by = off;
    }
  }
  if (worst >= 0)
    (void)snprintf(why, why_size, "element %lld of %s is %.9g, expected %.9g (rtol %g, atol %g)", (long long)worst,
                   qn_type_str(t), element(t, got, worst), element(t, want, worst), rtol, atol);
  return worst < 0;
}
#endif
