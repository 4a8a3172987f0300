/* Faults, limits and caches of steps: what is refused before anything was allocated, what leaves the caller's state intact, what loses it. */
#include "expect.h"
#include "test_exec_kit.h"

static void set(const char *name, const char *value) { cr_assert(setenv(name, value, 1) == 0); }

static qn_device *opened(const char *id) {
  qn_device *d = NULL;
  QN_ASSERT_OK(xk_open(id, &d));
  return d;
}

static void release_args(qn_tensors *args[2]) {
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
}

/* ---- the forecast ---- */

static void refuses(const char *limits, xk_options o, const char *part) {
  set("QN_LIMITS", limits);
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  QN_EXPECT_FAIL(xk_step(d, o, NULL, &s), QN_OUT_OF_MEMORY, part);
  cr_expect(s == NULL);
  qn_device_stats stats;
  qn_device_get_stats(d, &stats);
  cr_expect(stats.buffers_created == 0 && stats.programs_compiled == 0, "nothing was made before the forecast");
  qn_device_release(d);
}
Test(exec_faults, memory_forecast) {
  refuses("memory=20000", (xk_options){0},
          "step tiny: arena, arguments and results together needs 20.4 KiB (20896 bytes), "
          "device cpu has 19.5 KiB (20000 bytes) in all");
}
Test(exec_faults, buffer_forecast) {
  refuses("buffer=100000", (xk_options){.large = 30000},
          "step tiny: the result needs 117.2 KiB (120064 bytes), device cpu has "
          "97.7 KiB (100000 bytes) a buffer");
}
Test(exec_faults, range_forecast) {
  refuses("range=4300", (xk_options){0}, "argument 0 needs 4.2 KiB (4352 bytes), device cpu has");
}
Test(exec_faults, range_of_what_no_kernel_binds_is_no_limit) {
  set("QN_LIMITS", "range=1000");
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  QN_EXPECT_OK(xk_step(d, (xk_options){.copy_only = true}, NULL, &s));
  qn_step_release(s);
  qn_device_release(d);
}
Test(exec_faults, memory_in_use_counts) {
  set("QN_LIMITS", "memory=24000");
  qn_device *d = opened("cpu");
  qn_buffer *b = NULL;
  qn_step *s = NULL;
  QN_ASSERT_OK(kit_buffer(d, 16000, "other", &b));
  QN_EXPECT_FAIL(xk_step(d, (xk_options){0}, NULL, &s), QN_OUT_OF_MEMORY, "left beside what is in use");
  qn_buffer_release(b);
  QN_EXPECT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  qn_step_release(s);
  qn_device_release(d);
}

/* ---- creation ---- */

static bool released;
static void on_release(void *owner) {
  cr_expect(!released && owner == &released);
  released = true;
}

/* Whichever allocation fails, nothing leaks, and the code's owner is let go exactly once. */
static void creation_fails(const char *fault, qn_status code) {
  set("QN_FAULT", fault);
  qn_device *d = opened("cpu");
  qn_plan *p = NULL;
  qn_step *s = NULL;
  QN_ASSERT_OK(xk_plan(d, (xk_options){0}, &p));
  p->code.release = on_release;
  p->code.owner = &released;
  QN_EXPECT_FAIL(qn_step_create(d, p, NULL, &s), code, "step tiny: ");
  cr_expect(released && s == NULL);
  qn_device_stats stats;
  qn_device_get_stats(d, &stats);
  cr_expect(stats.bytes_live == 0);
  qn_device_release(d);
}
Test(exec_faults, no_arena) { creation_fails("alloc:1", QN_OUT_OF_MEMORY); }
Test(exec_faults, no_first_result) { creation_fails("alloc:2", QN_OUT_OF_MEMORY); }
Test(exec_faults, no_second_result) { creation_fails("alloc:3", QN_OUT_OF_MEMORY); }
Test(exec_faults, no_program) { creation_fails("compile:1", QN_COMPILE); }
Test(exec_faults, a_bad_plan_is_freed) {
  qn_device *d = opened("cpu");
  qn_plan *p = NULL;
  qn_step *s = NULL;
  QN_ASSERT_OK(xk_plan(d, (xk_options){0}, &p));
  p->code.release = on_release;
  p->code.owner = &released;
  p->cmds[0].entry = 77;
  QN_EXPECT_FAIL(qn_step_create(d, p, NULL, &s), QN_INVALID, "command 0 launches entry 77, the code has 6");
  cr_expect(released);
  qn_device_release(d);
}

/* ---- calls ---- */

Test(exec_faults, a_refused_submission_leaves_the_state) {
  set("QN_FAULT", "submit:3");
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y;
  uint64_t ticket;
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  QN_EXPECT_OK(qn_step_call(s, args, 2, &y, &ticket));
  QN_EXPECT_OK(qn_step_call(s, args, 2, &y, &ticket));
  QN_EXPECT_FAIL(qn_step_call(s, args, 2, &y, &ticket), QN_OUT_OF_MEMORY, "step tiny: submit to cpu");
  cr_expect(y == NULL && ticket == 0 && !qn_tensors_lost(args[0]));
  cr_expect(xk_all(args[0], "x", 2), "two calls have happened");
  QN_EXPECT_OK(qn_step_call(s, args, 2, &y, &ticket));
  cr_expect(xk_all(args[0], "x", 3) && xk_all(y, "y", 3.5f));
  release_args(args);
  qn_step_release(s);
  qn_device_release(d);
}

Test(exec_faults, a_lost_device_loses_donated_arguments) {
  set("QN_FAULT", "lost:2");
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y;
  float x[XK_N];
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  QN_EXPECT_OK(qn_step_call(s, args, 2, &y, NULL));
  QN_EXPECT_OK(qn_step_wait(s));
  QN_EXPECT_FAIL(qn_step_call(s, args, 2, &y, NULL), QN_DEVICE_LOST, "step tiny: device cpu lost");
  cr_expect(qn_tensors_lost(args[0]), "it was to be written in place");
  cr_expect(!qn_tensors_lost(args[1]), "it was not");
  QN_EXPECT_FAIL(qn_tensors_read(args[0], "x", x), QN_DEVICE_LOST, "tensors state: the contents are lost");
  QN_EXPECT_FAIL(qn_step_call(s, args, 2, &y, NULL), QN_DEVICE_LOST, "argument 0 (state) is lost");
  QN_EXPECT_FAIL(qn_step_wait(s), QN_DEVICE_LOST, "step tiny: ");
  release_args(args);
  qn_step_release(s);
  qn_device_release(d);
}

Test(exec_faults, a_lost_device_loses_nothing_that_is_not_donated) {
  set("QN_FAULT", "lost:2");
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y;
  QN_ASSERT_OK(xk_step(d, (xk_options){.not_in_place = true}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  QN_EXPECT_OK(qn_step_call(s, args, 2, &y, NULL));
  QN_EXPECT_OK(qn_step_wait(s));
  QN_EXPECT_FAIL(qn_step_call(s, args, 2, &y, NULL), QN_DEVICE_LOST, "step tiny: device cpu lost");
  cr_expect(!qn_tensors_lost(args[0]) && !qn_tensors_lost(args[1]));
  release_args(args);
  qn_step_release(s);
  qn_device_release(d);
}

Test(exec_faults, every_submission_may_be_waited_for) {
  set("QN_SYNC", "1");
  qn_device *d = opened("cpu");
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y;
  uint64_t ticket;
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  for (int i = 0; i < 3; i++) {
    QN_EXPECT_OK(qn_step_call(s, args, 2, &y, &ticket));
    cr_expect(qn_device_done(d, ticket));
  }
  cr_expect(xk_all(args[0], "x", 3));
  release_args(args);
  qn_step_release(s);
  qn_device_release(d);
}

/* ---- binaries ---- */

/* The null device with a compiler: its binary is a text, and one that is not that text is refused. */
static char built[] = "built";
static bool warmed;
static qn_status create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_used,
                        qn_program **out_program) {
  (void)d;
  (void)code;
  *out_used = binary && binary->size == sizeof built && memcmp(binary->data, built, sizeof built) == 0;
  *out_program = calloc(1, sizeof **out_program);
  return *out_program ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory");
}
static qn_status binary_of(qn_program *p, qn_bytes *out_binary) {
  (void)p;
  cr_expect(warmed, "binaries are complete only after the warm-up");
  *out_binary = (qn_bytes){malloc(sizeof built), sizeof built};
  memcpy(out_binary->data, built, sizeof built);
  return QN_OK;
}
static qn_status warm_up(qn_program *p) {
  (void)p;
  warmed = true;
  return QN_OK;
}

/* Makes a step and says whether its binary came from the cache. */
static bool from_cache(qn_cache *cache, const char *driver, const char *source) {
  qn_device *d = opened("null");
  static qn_device_vt table;
  table = *d->vt;
  table.program_create = create;
  table.program_binary = binary_of;
  table.program_warm_up = warm_up;
  const qn_device_vt *own = d->vt;
  d->vt = &table;
  d->caps.format = QN_CODE_OPENCL_C;
  (void)snprintf(d->caps.driver, sizeof d->caps.driver, "%s", driver);
  qn_plan *p = NULL;
  qn_step *s = NULL;
  QN_ASSERT_OK(xk_plan(d, (xk_options){0}, &p));
  p->code.source = source;
  p->code.source_bytes = strlen(source);
  QN_ASSERT_OK(qn_step_create(d, p, &(qn_step_desc){.cache = cache}, &s));
  qn_step_stats stats;
  qn_step_get_stats(s, &stats);
  qn_step_release(s);
  d->vt = own;
  qn_device_release(d);
  return stats.binary_cached;
}

Test(exec_faults, binaries_are_cached) {
  (void)unsetenv("QN_CACHE");
  qn_test_temp t = qn_test_temp_make();
  qn_cache *cache = NULL;
  QN_ASSERT_OK(qn_cache_open(qn_test_temp_file(&t, "k.db").s, &cache));
  if (qn_cache_is_on(cache)) {
    cr_expect(!from_cache(cache, "one 1.0", "text"));
    cr_expect(from_cache(cache, "one 1.0", "text"));
    cr_expect(!from_cache(cache, "one 1.1", "text"), "another driver");
    cr_expect(!from_cache(cache, "one 1.0", "texts"), "another source");
    cr_expect(from_cache(cache, "one 1.1", "text"));
    built[0] =
        'B'; /* the driver has changed without saying so: it refuses the old binary, and the new one replaces it */
    cr_expect(!from_cache(cache, "one 1.0", "text"));
    cr_expect(from_cache(cache, "one 1.0", "text"));
    cr_expect(!from_cache(NULL, "one 1.0", "text"), "no cache");
  }
  qn_cache_close(cache);
  qn_test_temp_remove(&t);
}
