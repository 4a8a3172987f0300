/* Running sums against the traffic of an elementwise map on one device: how much of the bandwidth that reads one array and writes another is left when
 * every element needs all before it. Least time of many calls; the figure counts one read and one write of the array. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"
#include "quern/compile.h"
#include "quern/drivers.h"
#include "quern/ops.h"
#include "quern/tree.h"

enum { ELEMENTS = 1 << 24, CALLS = 25 };

typedef struct shape {
  const char *name;
  int rank;
  int64_t dims[2];
  int axis; /* -1: no sum, the map */
} shape;

static qn_tree *function(qn_graph *g, qn_tree *const *args, void *user) {
  const shape *s = user;
  qn_tree *r = qn_tree_create(g);
  qn_val x = qn_tree_get(args[0], "x");
  qn_tree_set(r, "y", s->axis < 0 ? qn_add(x, qn_like(x, 1)) : qn_cumsum(x, s->axis, false));
  return r;
}

static qn_status time_calls(qn_device *d, qn_step *step, qn_tensors *x, double *out_seconds) {
  qn_tensors *const args[] = {x};
  qn_tensors *result;
  double seconds[CALLS];
  for (int i = 0; i < CALLS; i++) {
    uint64_t begin = qn_time_ns();
    uint64_t ticket;
    QN_TRY(qn_step_call(step, args, 1, &result, &ticket));
    QN_TRY(qn_device_wait(d, ticket, UINT64_MAX));
    seconds[i] = (double)(qn_time_ns() - begin) * 1e-9;
  }
  *out_seconds = bench_min(seconds, CALLS);
  return QN_OK;
}

static qn_status run(qn_device *d, const shape *s) {
  qn_treedef def = {0};
  qn_traced traced;
  qn_step *step = NULL;
  qn_tensors *x = NULL;
  float *data = malloc(ELEMENTS * sizeof *data);
  double seconds = 1;
  qn_status st = data ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for inputs");
  for (int i = 0; i < ELEMENTS && st == QN_OK; i++)
    data[i] = (float)(i % 17) - 8;
  QN_TRY_GOTO(st, st, done);
  QN_TRY_GOTO(st, qn_treedef_add(&def, "x", qn_type_make(QN_F32, s->rank, s->dims)), done);
  QN_TRY_GOTO(st, qn_trace(function, (void *)(uintptr_t)s, "scan", &def, 1, &traced), done);
  QN_TRY_GOTO(st, qn_jit(d, &traced, &(qn_jit_desc){.compile = {.name = s->name}}, &step), done);
  QN_TRY_GOTO(st, qn_tensors_create(d, &qn_step_plan(step)->args[0], "input", &x), done);
  QN_TRY_GOTO(st, qn_tensors_write(x, "x", data), done);
  QN_TRY_GOTO(st, time_calls(d, step, x, &seconds), done);
  printf("%-28s %8.2f ms %8.1f GB/s\n", s->name, seconds * 1e3, 8.0 * ELEMENTS / seconds * 1e-9);
done:
  free(data);
  if (x)
    qn_tensors_release(x);
  if (step)
    qn_step_release(step);
  return st;
}

int main(int argc, char **argv) {
  static const shape shapes[] = {{"map f32[2^24]", 1, {ELEMENTS, 0}, -1},
                                 {"cumsum f32[2^24]", 1, {ELEMENTS, 0}, 0},
                                 {"cumsum f32[4096,4096] axis 0", 2, {4096, 4096}, 0},
                                 {"cumsum f32[4096,4096] axis 1", 2, {4096, 4096}, 1},
                                 {"cumsum f32[2^20,16] axis 1", 2, {1 << 20, 16}, 1},
                                 {"cumsum f32[2^22,4] axis 0", 2, {1 << 22, 4}, 0}};
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_device *d = NULL;
  qn_status st = qn_device_open(drivers, count, argc > 1 ? argv[1] : "cpu", &d);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes && st == QN_OK; i++)
    st = run(d, &shapes[i]);
  if (st != QN_OK)
    fprintf(stderr, "bench_scan: %s\n", qn_error_report());
  qn_device_release(d);
  return st == QN_OK ? 0 : 1;
}
