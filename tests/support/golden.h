/* Recorded cases of the shared data: a suite is NAME.json and NAME.safetensors. Without the shared folder no suite opens, and tests say that
 * they are skipped. */
#ifndef QUERN_TEST_GOLDEN_H
#define QUERN_TEST_GOLDEN_H

#include <cjson/cJSON.h>

#include "quern/safetensors.h"

typedef struct qn_golden {
  cJSON *json;
  const cJSON *cases;
  qn_safetensors *tensors;
} qn_golden;
/* False when the suite is not there; a damaged one ends the test program. */
bool qn_golden_open(const char *suite, qn_golden *out);
void qn_golden_close(qn_golden *g);

typedef struct qn_golden_tensor {
  qn_type type;
  const void *data;
} qn_golden_tensor;
bool qn_golden_tensor_find(const qn_golden *g, const char *name, qn_golden_tensor *out);
/* The tensors that `list` (an array of names, may be NULL) names; the number of them. */
size_t qn_golden_tensors(const qn_golden *g, const cJSON *list, qn_golden_tensor *out, size_t room);

const cJSON *qn_golden_get(const cJSON *object, const char *key);
double qn_golden_number(const cJSON *object, const char *key, double otherwise);
const char *qn_golden_string(const cJSON *object, const char *key); /* "" when absent */
qn_dims qn_golden_dims(const cJSON *object, const char *key);       /* empty when absent; a number gives one entry */

/* abs(got - want) <= atol + rtol * abs(want); NaN equals NaN. On a mismatch `why` tells the worst element. */
bool qn_golden_matches(const qn_type *t, const void *got, const void *want, double rtol, double atol, char *why,
                       size_t why_size);

#endif
