/* Replaying recorded suites: cases from JSON and safetensors become graphs, run on a device or on the reference interpreter, and are compared. */
#ifndef QUERN_CLI_REPLAY_H
#define QUERN_CLI_REPLAY_H

#include <cjson/cJSON.h>
#include <signal.h>

#include "quern/cache.h"
#include "quern/graph.h"
#include "quern/hal.h"
#include "quern/safetensors.h"

enum { REPLAY_TENSORS = 48, REPLAY_BATCH = 24, REPLAY_SECONDS = 600 };

/* ---- a suite's files (suite.c) ---- */
typedef struct replay_suite {
  char name[64], folder[900];
  cJSON *json;
  const cJSON **cases; /* in order */
  size_t case_count;
  qn_safetensors *tensors;
} replay_suite;
qn_status qn_replay_suite_open(const char *folder, const char *name, replay_suite *out_suite);
void qn_replay_suite_close(replay_suite *s);

const cJSON *qn_replay_get(const cJSON *object, const char *key);
double qn_replay_number(const cJSON *object, const char *key, double otherwise); /* booleans are 0 and 1 */
const char *qn_replay_text(const cJSON *object, const char *key);                /* "" when absent */
qn_dims qn_replay_dims(const cJSON *object,
                       const char *key); /* integers of a list; a number gives one; null or absent none */
/* The tensors that a list of names (may be NULL) names; QN_CORRUPT if one is not there or there is no room. */
qn_status qn_replay_tensors(const replay_suite *s, const cJSON *list, const qn_safetensor **out, size_t room,
                            size_t *out_count);

/* ---- outcomes ---- */
typedef enum replay_outcome {
  REPLAY_PENDING,
  REPLAY_PASSED,
  REPLAY_FAILED,
  REPLAY_SKIPPED,
  REPLAY_EXCLUDED
} replay_outcome;
typedef struct replay_result {
  replay_outcome outcome;
  bool allowed; /* a skip that docs/devices.md lists */
  char *why;    /* of a failure or skip */
} replay_result;

/* One suite on one device. */
typedef struct replay_run {
  const replay_suite *suite;
  qn_device *device; /* NULL: the reference interpreter */
  qn_cache *cache;
  const bool *wanted;     /* per case: chosen by --case */
  replay_result *results; /* per case */
  const char *data;       /* folder of images */
  uint64_t deadline_ns;
  volatile sig_atomic_t *stop;
  size_t batch;
  uint64_t fallbacks; /* operations that ran on another device: none, what a device cannot do is refused */
} replay_run;
void qn_replay_pass(replay_run *r, size_t index);
void qn_replay_fail(replay_run *r, size_t index, const char *format, ...) QN_PRINTF(3, 4);
void qn_replay_skip(replay_run *r, size_t index, bool allowed, const char *format, ...) QN_PRINTF(4, 5);
/* True when time is over or Ctrl-C came: what is pending fails with that reason. */
bool qn_replay_over(replay_run *r);

/* ---- comparing (compare.c) ---- */
/* abs(got - want) <= atol + rtol * abs(want); NaN equals NaN, infinities must match in sign; rtol = atol = 0: equal. `why` tells the worst element. */
bool qn_replay_matches(const qn_type *t, const void *got, const void *want, double rtol, double atol, char *why,
                       size_t why_size);

/* ---- a case as a function (function.c) ---- */
typedef struct replay_function {
  size_t index;    /* of the case */
  qn_graph *graph; /* sealed: inputs, cotangents, tangents -> outputs, vjp, jvp */
  size_t in_count, out_count;
  const void *in[REPLAY_TENSORS];
  const qn_safetensor *want[REPLAY_TENSORS];
  const char *part[REPLAY_TENSORS]; /* "output", "vjp", "jvp" */
  int number[REPLAY_TENSORS];
  double rtol, atol;
} replay_function;
/* What an operation's builder sees. It fills out[0 .. out_count-1]; failures stick to the graph. */
typedef struct replay_build {
  qn_graph *g;
  const cJSON *attrs;
  const qn_val *in;
  size_t in_count;
  qn_val out[REPLAY_TENSORS];
  size_t out_count;           /* as recorded */
  const qn_type *const *want; /* recorded types of the results */
  const char *op;
} replay_build;
typedef void (*replay_build_fn)(replay_build *b);
typedef struct replay_op {
  const char *name;
  replay_build_fn build;
} replay_op;
/* Makes the function of a case by its `op`. Returns false when the case's result is settled already (skipped, failed). */
bool qn_replay_function(replay_run *r, size_t index, replay_function *out);
void qn_replay_function_free(replay_function *f);

/* ---- operations by name (table.c, build_*.c) ---- */
replay_build_fn qn_replay_find_op(const char *name);
extern const replay_op qn_replay_elementwise[], qn_replay_activations[], qn_replay_reduce[], qn_replay_shape[],
    qn_replay_index[], qn_replay_subscript[], qn_replay_contract[], qn_replay_random[], qn_replay_control[],
    qn_replay_linalg[];
/* An axis list of attrs: null or absent means all axes of x (count -1). Negative axes count from the end. */
typedef struct replay_axes {
  int count; /* 0 and list NULL: all */
  const int64_t *list;
  int64_t room[QN_MAX_RANK];
} replay_axes;
const replay_axes *qn_replay_axes(const cJSON *attrs, const char *key, replay_axes *out);
/* A scatter whose region is add, multiply, minimum, maximum (also short: min, max), or else assigns. */
qn_val qn_replay_scatter(replay_build *b, const char *body, qn_val x, qn_val indices, qn_val updates,
                         const qn_attr_scatter *d);
/* Says on the graph that this variant is not built; the case is skipped then. */
qn_val qn_replay_not_built(replay_build *b, const char *what);
#define REPLAY_NOT_BUILT "operation not built yet"

/* ---- running functions (execute.c) ---- */
/* Runs the functions as one program, splits where that fails, and settles each case. Frees them. */
void qn_replay_execute(replay_run *r, replay_function *functions, size_t count);

/* ---- suites with their own runner ---- */
bool qn_replay_transform(replay_run *r, size_t index, replay_function *out); /* transforms.c: as qn_replay_function */
void qn_replay_mlp(replay_run *r); /* mlp.c: the dense network of seed_mlp_keras_jax */

/* ---- driving (run.c) ---- */
typedef struct replay_totals {
  size_t passed, failed, skipped, excluded, refused; /* refused: skips that are not allowed */
} replay_totals;
void qn_replay_run(replay_run *r);
void qn_replay_count(const replay_run *r, replay_totals *out);

#endif
