/* A suite on a device: cases in batches, each settled as passed, failed, skipped or excluded. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

/* ---- outcomes ---- */

static void settle(replay_run *r, size_t index, replay_outcome outcome, const char *format, va_list args) {
  replay_result *x = &r->results[index];
  char text[1024];
  (void)vsnprintf(text, sizeof text, format, args);
  text[strcspn(text, "\n")] = '\0';
  free(x->why);
  x->outcome = outcome;
  x->why = malloc(strlen(text) + 1);
  if (x->why)
    memcpy(x->why, text, strlen(text) + 1);
}

void qn_replay_pass(replay_run *r, size_t index) { r->results[index].outcome = REPLAY_PASSED; }

void qn_replay_fail(replay_run *r, size_t index, const char *format, ...) {
  va_list args;
  va_start(args, format);
  settle(r, index, REPLAY_FAILED, format, args);
  va_end(args);
}

void qn_replay_skip(replay_run *r, size_t index, bool allowed, const char *format, ...) {
  va_list args;
  va_start(args, format);
  settle(r, index, REPLAY_SKIPPED, format, args);
  va_end(args);
  r->results[index].allowed = allowed;
}

bool qn_replay_over(replay_run *r) { return *r->stop || qn_time_ns() >= r->deadline_ns; }

void qn_replay_count(const replay_run *r, replay_totals *out) {
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < r->suite->case_count; i++) {
    const replay_result *x = &r->results[i];
    out->passed += x->outcome == REPLAY_PASSED;
    out->failed += x->outcome == REPLAY_FAILED;
    out->skipped += x->outcome == REPLAY_SKIPPED;
    out->excluded += x->outcome == REPLAY_EXCLUDED;
    out->refused += x->outcome == REPLAY_SKIPPED && !x->allowed;
  }
}

/* ---- suites ---- */

typedef bool (*make_fn)(replay_run *r, size_t index, replay_function *out);

/* Programs are quicker to compile together, but where a large SPIR-V module costs more than its parts. */
static size_t batch_size(const replay_run *r) {
  if (r->batch && r->batch < REPLAY_BATCH)
    return r->batch;
  return r->device && qn_device_get_caps(r->device)->format == QN_CODE_SPIRV ? REPLAY_BATCH / 4 : REPLAY_BATCH;
}

static void run_functions(replay_run *r, make_fn make) {
  replay_function *batch = calloc(REPLAY_BATCH, sizeof *batch);
  size_t n = 0, room = batch_size(r);
  if (!batch)
    return;
  for (size_t i = 0; i < r->suite->case_count && !qn_replay_over(r); i++) {
    if (r->wanted[i] && make(r, i, &batch[n]))
      n++;
    if (n == room) {
      qn_replay_execute(r, batch, n);
      n = 0;
    }
  }
  qn_replay_execute(r, batch, n);
  free(batch);
}

static void run_ops(replay_run *r) { run_functions(r, qn_replay_function); }
static void run_transforms(replay_run *r) { run_functions(r, qn_replay_transform); }

static const struct {
  const char *suite;
  void (*run)(replay_run *r);
} runners[] = {
    {"ops_elementwise", run_ops},
    {"ops_reduce", run_ops},
    {"ops_shape", run_ops},
    {"ops_contract", run_ops},
    {"control_rng_fft", run_ops},
    {"transforms", run_transforms},
    {"seed_mlp_keras_jax", qn_replay_mlp},
};

void qn_replay_run(replay_run *r) {
  bool known = false;
  for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++)
    if (strcmp(runners[i].suite, r->suite->name) == 0) {
      runners[i].run(r);
      known = true;
    }
  for (size_t i = 0; i < r->suite->case_count; i++) {
    if (!r->wanted[i] || r->results[i].outcome != REPLAY_PENDING)
      continue;
    if (!known)
      qn_replay_skip(r, i, false, "suite not built yet: %s", r->suite->name);
    else if (*r->stop)
      qn_replay_fail(r, i, "not run: interrupted");
    else if (qn_replay_over(r))
      qn_replay_fail(r, i, "not run: the suite's %d seconds are over", REPLAY_SECONDS);
    else
      qn_replay_fail(r, i, "not run: memory ran out");
  }
}
