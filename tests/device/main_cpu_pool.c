/* The cpu device's threads and queue, by kernels written in C so that the thread sanitizer sees what they touch: order
 * across barriers, work that nobody waits for, writes behind work in flight, many callers, time limits, the
 * floating-point environment. A plain program. */
#include "support.h"

#include <fenv.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "quern/driver.h"

enum { CELLS = 4096 };

/* params: groups, delta. Cell g of binding 1 = cell (g + delta) of binding 0 plus one. */
static void shift_kernel(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1) {
  (void)context;
  const uint32_t *in = bindings[0];
  uint32_t *out = bindings[1];
  for (uint32_t g = g0; g < g1; ++g)
    out[g] = in[(g + params[1]) % params[0]] + 1;
}

/* The rounding mode that a kernel finds, and whether it keeps subnormals. */
static void rounding_kernel(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0,
                            uint32_t g1) {
  (void)context;
  (void)params;
  int *out = bindings[1];
  volatile float tiny = FLT_MIN;
  for (uint32_t g = g0; g < g1; ++g)
    out[g] = fegetround() + (tiny * 0.5f > 0 ? 1 : 0);
}

static void slow_kernel(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1) {
  (void)context;
  uint32_t *out = bindings[1];
  uint64_t until = qn_time_ns() + params[1] * UINT64_C(1000000);
  while (qn_time_ns() < until) {
  }
  for (uint32_t g = g0; g < g1; ++g)
    out[g] += 1;
}

enum { SHIFT, ROUNDING, SLOW, KERNELS };

typedef struct fixture {
  qn_device *device;
  qn_program *program;
  qn_buffer *a, *b;
} fixture;

static uint32_t forced_threads;

static qn_status forced_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  size_t before = *count;
  QN_TRY(qn_driver_cpu.enumerate(infos, count, capacity));
  for (size_t i = before; i < *count; ++i)
    (*infos)[i].caps.compute_units = forced_threads;
  return QN_OK;
}

static qn_status forced_open(const qn_device_info *info, qn_device **out_device) {
  QN_TRY(qn_driver_cpu.open(info, out_device));
  return QN_OK;
}

static fixture open_fixture(uint32_t threads) {
  fixture f = {0};
  forced_threads = threads;
  const qn_driver forced = {.name = "cpu", .enumerate = forced_enumerate, .open = forced_open};
  const qn_driver *drivers[] = {&forced};
  QN_REQUIRE_OK(qn_device_open(drivers, 1, "cpu", &f.device));
  QN_REQUIRE(qn_device_get_caps(f.device)->compute_units == threads);
  static const qn_native_entry kernels[KERNELS] = {shift_kernel, rounding_kernel, slow_kernel};
  qn_code_entry entries[KERNELS];
  for (int i = 0; i < KERNELS; ++i)
    entries[i] =
        (qn_code_entry){.name = "kernel", .items = 1, .binding_count = 2, .param_count = 2, .native = kernels[i]};
  qn_code code = {.format = QN_CODE_NATIVE, .entries = entries, .entry_count = KERNELS};
  QN_REQUIRE_OK(qn_program_create(f.device, &code, NULL, NULL, &f.program));
  qn_buffer_desc desc = {.size = CELLS * sizeof(uint32_t), .label = "cells"};
  QN_REQUIRE_OK(qn_buffer_create(f.device, &desc, &f.a));
  QN_REQUIRE_OK(qn_buffer_create(f.device, &desc, &f.b));
  return f;
}

static void close_fixture(fixture *f) {
  qn_device_release(f->device); /* first: the others hold it */
  qn_buffer_release(f->a);
  qn_buffer_release(f->b);
  qn_program_release(f->program);
}

static qn_cmd launch(const fixture *f, uint32_t entry, uint32_t groups, const uint32_t *params, bool back) {
  return (qn_cmd){.kind = QN_CMD_LAUNCH,
                  .program = f->program,
                  .entry = entry,
                  .groups = groups,
                  .binding_count = 2,
                  .bindings = {back, !back},
                  .params = params,
                  .param_count = 2};
}

static qn_recording *record(const fixture *f, const qn_cmd *cmds, size_t count, bool timestamps) {
  qn_buffer *buffers[] = {f->a, f->b};
  qn_recording_desc desc = {
      .cmds = cmds, .cmd_count = count, .buffers = buffers, .buffer_count = 2, .timestamps = timestamps};
  qn_recording *r = NULL;
  QN_REQUIRE_OK(qn_record(f->device, &desc, &r));
  return r;
}

/* a -> b -> a -> ... over barriers, `rounds` times there and back; each cell grows by 2 * rounds. */
static qn_recording *record_rounds(const fixture *f, uint32_t groups, int rounds) {
  qn_cmd cmds[64];
  size_t n = 0;
  const uint32_t params[] = {0, groups / 2};
  const qn_cmd barrier = {.kind = QN_CMD_BARRIER};
  for (int i = 0; i < rounds; ++i) {
    cmds[n++] = launch(f, SHIFT, groups, params, false);
    cmds[n++] = barrier;
    cmds[n++] = launch(f, SHIFT, groups, params, true);
    cmds[n++] = barrier;
  }
  return record(f, cmds, n, false);
}

static void zero(fixture *f) {
  static const uint32_t zeros[CELLS];
  QN_REQUIRE_OK(qn_buffer_write(f->a, 0, sizeof zeros, zeros));
  QN_REQUIRE_OK(qn_buffer_write(f->b, 0, sizeof zeros, zeros));
}

static void expect_cells(fixture *f, uint32_t count, uint32_t value) {
  static uint32_t cells[CELLS];
  QN_REQUIRE_OK(qn_buffer_read(f->a, 0, count * sizeof cells[0], cells));
  for (uint32_t i = 0; i < count; ++i)
    QN_REQUIRE(cells[i] == value);
}

/* Many threads on few processors hand over by yielding, which takes its time: fewer times, then. */
static void test_order(uint32_t threads) {
  const int times = threads <= 2 ? 200 : 20;
  fixture f = open_fixture(threads);
  static const uint32_t group_counts[] = {1, 2, 3, 97, CELLS};
  for (size_t k = 0; k < sizeof group_counts / sizeof *group_counts; ++k) {
    qn_recording *r = record_rounds(&f, group_counts[k], 5);
    uint64_t ticket = 0;
    zero(&f);
    for (int i = 0; i < times; ++i) { /* waited for each time: the caller leads */
      QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &ticket));
      QN_REQUIRE_OK(qn_device_wait(f.device, ticket, 0));
    }
    expect_cells(&f, group_counts[k], (uint32_t)times * 10);
    zero(&f);
    for (int i = 0; i < times; ++i)
      QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &ticket));
    while (!qn_device_done(f.device, ticket)) { /* nobody waits: the dispatcher leads */
    }
    expect_cells(&f, group_counts[k], (uint32_t)times * 10);
    qn_recording_release(r);
  }
  close_fixture(&f);
}

/* Single-group launches need no meeting, until one of many groups comes. */
static void test_alone_then_shared(void) {
  fixture f = open_fixture(2);
  const uint32_t one[] = {0, 0}, all[] = {0, 1};
  const qn_cmd barrier = {.kind = QN_CMD_BARRIER};
  const qn_cmd fill = {.kind = QN_CMD_FILL, .dst = 0, .size = CELLS * 4, .pattern = 7};
  const qn_cmd copy = {.kind = QN_CMD_COPY, .src = 1, .dst = 0, .size = CELLS * 4};
  const qn_cmd cmds[] = {fill,
                         barrier,
                         launch(&f, SHIFT, 1, one, false),
                         barrier,
                         launch(&f, SHIFT, 1, one, true),
                         barrier,
                         launch(&f, SHIFT, CELLS, all, false),
                         barrier,
                         copy};
  qn_recording *r = record(&f, cmds, sizeof cmds / sizeof *cmds, false);
  for (int i = 0; i < 100; ++i) {
    uint64_t ticket = 0;
    uint32_t cells[CELLS];
    QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &ticket));
    QN_REQUIRE_OK(qn_buffer_read(f.a, 0, sizeof cells, cells));
    for (uint32_t k = 0; k < CELLS; ++k)
      QN_REQUIRE(cells[k] == (k == CELLS - 1 ? 10u : 8u));
  }
  qn_recording_release(r);
  close_fixture(&f);
}

/* Writes wait in the queue behind work in flight, in order, and are there once the ticket before them is done. */
static void test_writes(void) {
  fixture f = open_fixture(2);
  const uint32_t params[] = {0, 2};
  const qn_cmd slow = launch(&f, SLOW, 2, params, true);
  qn_recording *r = record(&f, &slow, 1, false);
  const uint32_t *mapped = qn_buffer_map(f.a);
  zero(&f);
  uint64_t first = 0, second = 0;
  for (uint32_t i = 1; i <= 20; ++i) {
    const uint32_t value[] = {10 * i, 20 * i};
    QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &first));
    QN_REQUIRE_OK(qn_buffer_write(f.a, 0, sizeof value, value));
    QN_REQUIRE_OK(qn_device_wait(f.device, first, 0));
    QN_REQUIRE(mapped[0] == 10 * i && mapped[1] == 20 * i);
    QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &second));
    QN_REQUIRE(second == first + 1);
    QN_REQUIRE_OK(qn_device_wait(f.device, second, 0));
    QN_REQUIRE(mapped[0] == 10 * i + 1 && mapped[1] == 20 * i + 1);
  }
  /* A buffer that goes while a write to it is queued. */
  qn_buffer *gone = NULL;
  qn_buffer_desc desc = {.size = 64};
  QN_REQUIRE_OK(qn_buffer_create(f.device, &desc, &gone));
  QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &first));
  QN_REQUIRE_OK(qn_buffer_write(gone, 0, 8, "12345678"));
  qn_buffer_release(gone);
  QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &first));
  qn_recording_release(r); /* in flight */
  close_fixture(&f);
}

static void test_timeout(void) {
  fixture f = open_fixture(2);
  const uint32_t params[] = {0, 100};
  const qn_cmd slow = launch(&f, SLOW, 2, params, false);
  qn_recording *r = record(&f, &slow, 1, true);
  uint64_t ticket = 0, times[1] = {0};
  QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &ticket));
  QN_REQUIRE(qn_device_wait(f.device, ticket, 1000000) == QN_TIMEOUT);
  QN_REQUIRE(!qn_device_done(f.device, ticket));
  QN_REQUIRE_OK(qn_device_wait(f.device, ticket, 0));
  QN_REQUIRE_OK(qn_recording_times(r, times, 1));
  QN_REQUIRE(times[0] >= 100000000);
  qn_recording_release(r);
  close_fixture(&f);
}

/* Kernels round to nearest and keep subnormals whatever the caller, or the thread that opened the device, does. */
static void test_environment(void) {
  QN_REQUIRE(fesetround(FE_UPWARD) == 0);
#ifdef __SSE2__
  unsigned control = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(control | 0x8040); /* flush subnormals, in and out */
#endif
  fixture f = open_fixture(2);
  const uint32_t params[] = {0, 0};
  const qn_cmd cmd = launch(&f, ROUNDING, CELLS, params, true);
  qn_recording *r = record(&f, &cmd, 1, false);
  for (int i = 0; i < 2; ++i) {
    uint64_t ticket = 0;
    zero(&f);
    QN_REQUIRE_OK(qn_submit(f.device, r, NULL, 0, &ticket));
    while (i && !qn_device_done(f.device, ticket)) {
    }
    QN_REQUIRE_OK(qn_device_wait(f.device, ticket, 0));
    QN_REQUIRE(fegetround() == FE_UPWARD);
    expect_cells(&f, CELLS, FE_TONEAREST + 1);
  }
#ifdef __SSE2__
  __builtin_ia32_ldmxcsr(control);
#endif
  QN_REQUIRE(fesetround(FE_TONEAREST) == 0);
  qn_recording_release(r);
  close_fixture(&f);
}

enum { CALLERS = 3, CALLS = 200 };
typedef struct caller {
  fixture *f;
  qn_recording *r;
} caller;

static void call(void *arg) {
  caller *c = arg;
  uint64_t ticket = 0;
  for (int i = 0; i < CALLS; ++i) {
    QN_REQUIRE_OK(qn_submit(c->f->device, c->r, NULL, 0, &ticket));
    if (i % 3 == 0)
      QN_REQUIRE_OK(qn_device_wait(c->f->device, ticket, 0));
  }
  QN_REQUIRE_OK(qn_device_wait(c->f->device, ticket, 0));
}

static void test_callers(void) {
  fixture f = open_fixture(2);
  zero(&f);
  caller c = {&f, record_rounds(&f, 64, 2)};
  qn_thread threads[CALLERS];
  for (int i = 0; i < CALLERS; ++i)
    QN_REQUIRE_OK(qn_thread_start(&threads[i], call, &c));
  for (int i = 0; i < CALLERS; ++i)
    qn_thread_join(threads[i]);
  expect_cells(&f, 64, CALLERS * CALLS * 4);
  qn_recording_release(c.r);
  close_fixture(&f);
}

int main(void) {
  test_order(1);
  test_order(2);
  test_order(3);
  test_order(11); /* past the point where slot 0 collects for all */
  test_alone_then_shared();
  test_writes();
  test_timeout();
  test_environment();
  test_callers();
  puts("ok");
  return 0;
}
