/* A graph run on host arrays, by a device or by the reference interpreter. */
#include "runner.h"

#include <stdlib.h>

#include "quern/compile.h"
#include "traced.h"

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void set_times(double *seconds, int count, cli_run_stats *s) {
  qsort(seconds, (size_t)count, sizeof *seconds, by_size);
  s->least = seconds[0];
  s->median = seconds[count / 2];
}

static double since(uint64_t begin) { return (double)(qn_time_ns() - begin) * 1e-9; }

static qn_status run_reference(const qn_graph *g, const cli_arrays *in, cli_arrays *out, double *seconds, int repeat) {
  const void **from = calloc(in->count + 1, sizeof *from);
  qn_status st = from ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for a call");
  for (size_t i = 0; st == QN_OK && i < in->count; i++)
    from[i] = in->items[i].data;
  for (int k = 0; st == QN_OK && k < repeat; k++) {
    uint64_t begin = qn_time_ns();
    st = qn_graph_eval_ref(g, from, out->owned);
    seconds[k] = since(begin);
  }
  free(from);
  return st;
}

static void set_plan(const qn_plan *p, cli_run_stats *s) {
  s->arena = p->arena_bytes;
  s->fallbacks = p->fallbacks;
  for (size_t i = 0; i < p->cmd_count; i++) {
    s->launches += p->cmds[i].kind == QN_CMD_LAUNCH;
    s->flops += p->cmds[i].flops;
    s->bytes += p->cmds[i].bytes;
  }
}

static qn_status call(qn_step *step, qn_tensors *args, qn_tensors **out_result, double *seconds, int repeat) {
  for (int k = 0; k < repeat; k++) {
    uint64_t begin = qn_time_ns();
    QN_TRY(qn_step_call(step, &args, 1, out_result, NULL));
    QN_TRY(qn_step_wait(step));
    seconds[k] = since(begin);
  }
  return QN_OK;
}

static qn_status run_device(qn_device *d, qn_cache *cache, const qn_traced *fn, const cli_arrays *in, cli_arrays *out,
                            double *seconds, int repeat, cli_run_stats *s) {
  qn_jit_desc desc = {.compile = {.cache = cache}, .step = {.cache = cache, .result_ring = 1}};
  qn_step *step = NULL;
  qn_layout layout = {0};
  qn_tensors *args = NULL, *result = NULL; /* result is the step's */
  qn_status st = QN_OK;
  uint64_t begin = qn_time_ns();
  QN_TRY_GOTO(st, qn_jit(d, fn, &desc, &step), done);
  s->compile_seconds = since(begin);
  set_plan(qn_step_plan(step), s);
  QN_TRY_GOTO(st, qn_layout_from_treedef(&fn->args[0], &layout), done);
  QN_TRY_GOTO(st, qn_tensors_create(d, &layout, "inputs", &args), done);
  for (size_t i = 0; i < in->count; i++)
    QN_TRY_GOTO(st, qn_tensors_write_at(args, i, in->items[i].data), done);
  QN_TRY_GOTO(st, call(step, args, &result, seconds, repeat), done);
  for (size_t i = 0; i < out->count; i++)
    QN_TRY_GOTO(st, qn_tensors_read_at(result, i, out->owned[i]), done);
done:
  qn_tensors_release(args);
  qn_layout_free(&layout);
  qn_step_release(step);
  return st;
}

qn_status qn_cli_run_graph(qn_device *d, qn_cache *cache, qn_graph *g, const cli_arrays *in, cli_arrays *out,
                           int repeat, cli_run_stats *out_stats) {
  qn_traced fn = {0};
  *out_stats = (cli_run_stats){0};
  QN_TRY(qn_cli_trace_graph(g, &fn));
  double *seconds = calloc((size_t)repeat, sizeof *seconds);
  qn_status st = seconds ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for %d times", repeat);
  if (st == QN_OK)
    st =
        d ? run_device(d, cache, &fn, in, out, seconds, repeat, out_stats) : run_reference(g, in, out, seconds, repeat);
  if (st == QN_OK)
    set_times(seconds, repeat, out_stats);
  free(seconds);
  qn_traced_free(&fn);
  return st;
}
