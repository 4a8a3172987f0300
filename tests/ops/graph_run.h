/* One graph on one device or on the oracle: every parameter and every result is a leaf. */
#ifndef QUERN_TEST_OPS_GRAPH_RUN_H
#define QUERN_TEST_OPS_GRAPH_RUN_H

#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/compile.h"
#include "quern/drivers.h"
#include "quern/ops.h"
#include "quern/tree.h"

enum { RUN_MOST = 16 };

/* NULL where the device is not there. */
static inline qn_device *run_open(const char *which) {
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_status st = qn_device_open(drivers, count, which, &d);
  cr_assert(st == QN_OK || st == QN_NOT_FOUND, "%s: %s", which, qn_error_report());
  return d;
}

static inline qn_status run_trace(const qn_graph *g, qn_traced *out) {
  char path[32];
  *out = (qn_traced){.graph = qn_graph_retain(g), .args = calloc(1, sizeof *out->args), .arg_count = 1};
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    (void)snprintf(path, sizeof path, "in%zu", i);
    QN_TRY(qn_treedef_add(&out->args[0], path, *qn_graph_type(g, qn_graph_param_at(g, i))));
  }
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    (void)snprintf(path, sizeof path, "out%zu", i);
    QN_TRY(qn_treedef_add(&out->result, path, *qn_graph_type(g, qn_graph_result(g, i))));
  }
  return QN_OK;
}

/* d NULL: the oracle. */
static inline qn_status run_graph(qn_device *d, const qn_graph *g, const void *const *in, void *const *out) {
  if (!d)
    return qn_graph_eval_ref(g, in, out);
  qn_traced traced;
  qn_step *step = NULL;
  qn_tensors *args = NULL, *result = NULL;
  qn_jit_desc jit = {.compile = {.name = "test"}};
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, run_trace(g, &traced), done);
  QN_TRY_GOTO(st, qn_jit(d, &traced, &jit, &step), done);
  QN_TRY_GOTO(st, qn_tensors_create(d, &qn_step_plan(step)->args[0], "inputs", &args), done);
  for (size_t i = 0; i < qn_graph_param_count(g); i++)
    QN_TRY_GOTO(st, qn_tensors_write_at(args, i, in[i]), done);
  QN_TRY_GOTO(st, qn_step_call(step, &args, 1, &result, NULL), done);
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    QN_TRY_GOTO(st, qn_tensors_read_at(result, i, out[i]), done);
done:
  if (args)
    qn_tensors_release(args);
  if (step)
    qn_step_release(step);
  qn_traced_free(&traced);
  return st;
}

/* Room for every result of a graph. */
static inline void run_rooms(const qn_graph *g, void **out) {
  cr_assert(qn_graph_result_count(g) <= RUN_MOST);
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    out[i] = calloc(1, (size_t)qn_type_bytes(qn_graph_type(g, qn_graph_result(g, i))) + 16);
}
static inline void run_free(const qn_graph *g, void **out) {
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    free(out[i]);
}

/* Number i of a tensor, of which a complex one holds two an element. */
static inline double run_number(qn_dtype t, const void *data, int64_t i) {
  if (t == QN_F64 || t == QN_C128)
    return ((const double *)data)[i];
  if (t == QN_F32 || t == QN_C64)
    return (double)((const float *)data)[i];
  return t == QN_BOOL ? ((const uint8_t *)data)[i] : (double)((const int32_t *)data)[i];
}
static inline int64_t run_numbers(const qn_type *t) {
  return qn_type_elements(t) * (qn_dtype_is_complex(t->dtype) ? 2 : 1);
}

/* Largest difference relative to the largest number that is wanted; infinity where only one is NaN or infinite. */
static inline double run_distance(const qn_type *t, const void *got, const void *want) {
  double most = 0, off = 0;
  for (int64_t i = 0; i < run_numbers(t); i++) {
    double a = run_number(t->dtype, got, i), b = run_number(t->dtype, want, i);
    if ((isnan(a) && isnan(b)) || a == b) /* NOLINT */
      continue;
    if (!isfinite(a) || !isfinite(b))
      return INFINITY;
    off = fabs(a - b) > off ? fabs(a - b) : off;
    most = fabs(b) > most ? fabs(b) : most;
  }
  for (int64_t i = 0; i < run_numbers(t); i++) {
    double b = run_number(t->dtype, want, i);
    most = isfinite(b) && fabs(b) > most ? fabs(b) : most;
  }
  return most > 0 ? off / most : off;
}

#endif
