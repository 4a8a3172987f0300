/* The built-in training step as a whole: its plan, what moves in steady state, repeatability, agreement of devices, memory that is not there. */
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "quern/drivers.h"
#include "train_kit.h"

enum { BATCH = 32, LOSSES = 200, REPEATED = 50 };

static void open_or_skip(const char *which, int batch, train_kit *k) {
  qn_status st = train_kit_open(which, batch, NULL, k);
  if (st == QN_NOT_FOUND) {
    train_kit_close(k);
    cr_skip("%s is not here", which);
  }
  QN_ASSERT_OK(st);
}

/* ---- the plan ---- */

static void check_plan(const train_kit *k, const char *which) {
  const qn_plan *p = qn_step_plan(k->step);
  cr_expect(train_launches(p) <= 12, "%s: %zu launches", which, train_launches(p));
  cr_expect(train_update_launches(p) <= 1, "%s: %zu launches of updates alone", which, train_update_launches(p));
  cr_expect(p->copies == 0, "%s: %llu copies", which, (unsigned long long)p->copies);
  cr_expect(p->donation_count == 1 && p->first_donated_write < p->cmd_count, "%s: the state is updated in place",
            which);
}

/* The counts above can fail: without fusion and donation they are others. */
Test(training, plans_without_fusion_are_seen) {
  train_kit k;
  open_or_skip("cpu", 8, &k);
  qn_plan *p;
  static const qn_plan_donation state[] = {{0, "state"}};
  const qn_compile_desc desc = {
      .donations = state, .donation_count = 1, .no_fusion = true, .no_donation = true, .interpret = true};
  QN_ASSERT_OK(qn_compile(qn_device_get_caps(k.device), &k.traced, &desc, &p));
  cr_expect(train_launches(p) > 12, "%zu launches", train_launches(p));
  cr_expect(train_update_launches(p) > 1, "%zu launches of updates", train_update_launches(p));
  cr_expect(p->copies >= 20, "%llu copies", (unsigned long long)p->copies);
  qn_plan_free(p);
  train_kit_close(&k);
}

/* ---- steady state ---- */

static void check_steady(train_kit *k, const char *which, size_t count) {
  qn_device_stats a, b;
  QN_ASSERT_OK(train_kit_spin(k, 10)); /* every pair of a batch and a result slab has been recorded */
  qn_device_get_stats(k->device, &a);
  QN_ASSERT_OK(train_kit_spin(k, count));
  qn_device_get_stats(k->device, &b);
  cr_expect(b.submits - a.submits == count, "%s: %llu submissions", which, (unsigned long long)(b.submits - a.submits));
  cr_expect(b.launches - a.launches == count * train_launches(qn_step_plan(k->step)), "%s: launches", which);
  cr_expect(b.buffers_created == a.buffers_created, "%s: buffers were created", which);
  cr_expect(b.bytes_live == a.bytes_live, "%s: %llu bytes live, then %llu", which, (unsigned long long)a.bytes_live,
            (unsigned long long)b.bytes_live);
  cr_expect(b.programs_compiled == a.programs_compiled, "%s: compiled", which);
  cr_expect(b.recordings == a.recordings, "%s: recorded", which);
  cr_expect(b.descriptor_updates == a.descriptor_updates, "%s: descriptors", which);
  cr_expect(b.host_waits - a.host_waits <= 1, "%s: %llu waits, the last one is the test's own", which,
            (unsigned long long)(b.host_waits - a.host_waits));
  cr_expect(b.bytes_written == a.bytes_written && b.bytes_read == a.bytes_read, "%s: transfers", which);
}

/* What check_steady watches does move when something makes it: a batch of its own for every call. */
Test(training, new_slabs_are_seen) {
  train_kit k;
  qn_device_stats a, b;
  open_or_skip("cpu", 8, &k);
  QN_ASSERT_OK(train_kit_spin(&k, 10));
  qn_device_get_stats(k.device, &a);
  for (int i = 0; i < 3; i++) {
    qn_tensors *t;
    QN_ASSERT_OK(qn_tensors_create(k.device, qn_tensors_layout(k.batches[0]), "batch", &t));
    qn_tensors *const args[] = {k.state, t};
    QN_ASSERT_OK(qn_step_call(k.step, args, 2, NULL, NULL));
    qn_tensors_release(t);
  }
  qn_device_get_stats(k.device, &b);
  cr_expect(b.buffers_created == a.buffers_created + 3 && b.recordings == a.recordings + 3);
  cr_expect(b.bytes_live > a.bytes_live);
  train_kit_close(&k);
}

/* ---- one device ---- */

static bool agree(float a, float b) { return fabsf(a - b) <= 1e-4f * fabsf(b); }

static void losses_of_cpu(float *out) {
  train_kit k;
  QN_ASSERT_OK(train_kit_open("cpu", BATCH, NULL, &k));
  QN_ASSERT_OK(train_kit_steps(&k, 0, LOSSES, out));
  train_kit_close(&k);
}

static void trains(const char *which, size_t steady) {
  float losses[LOSSES], expected[LOSSES];
  train_kit k;
  qn_digest a, b;
  open_or_skip(which, BATCH, &k);
  losses_of_cpu(expected);
  check_plan(&k, which);
  QN_ASSERT_OK(train_kit_steps(&k, 0, REPEATED, losses));
  QN_ASSERT_OK(train_kit_digest(&k, &a));
  QN_ASSERT_OK(train_kit_steps(&k, REPEATED, LOSSES - REPEATED, losses + REPEATED));
  for (int i = 0; i < LOSSES; i++)
    cr_expect(agree(losses[i], expected[i]), "%s, step %d: loss %.7g, on the cpu %.7g", which, i + 1, (double)losses[i],
              (double)expected[i]);
  cr_expect(losses[LOSSES - 1] < 0.6f * losses[0], "%s learns: %g, then %g", which, (double)losses[0],
            (double)losses[LOSSES - 1]);
  QN_ASSERT_OK(train_kit_reset(&k));
  QN_ASSERT_OK(train_kit_steps(&k, 0, REPEATED, NULL)); /* none is waited for */
  QN_ASSERT_OK(train_kit_digest(&k, &b));
  cr_expect(memcmp(&a, &b, sizeof a) == 0, "%s: %d steps from the same state gave another one", which, REPEATED);
  check_steady(&k, which, steady);
  train_kit_close(&k);
}

Test(training, cpu, .timeout = 280) { trains("cpu", 1000); }
Test(training, pocl, .timeout = 280) { trains("opencl:pocl", 200); }
/* Its compiler takes minutes for the step's kernels, unless they lie in its cache. */
Test(training, rusticl, .timeout = 290) {
  if (!qn_test_all())
    cr_skip("in the long form only");
  trains("opencl:rusticl", 60);
}
Test(training, lavapipe, .timeout = 280) { trains("vulkan:llvmpipe", 100); }
Test(training, swiftshader, .timeout = 280) { trains("vulkan:swiftshader", 60); }

/* ---- the same bits under other circumstances: each in a process of its own, because the environment is read once ---- */

static qn_status digest_in(const char *variable, const char *value, size_t steps, qn_digest *out) {
  train_kit k;
  if (variable && setenv(variable, value, 1) != 0)
    return QN_ERR(QN_IO, "setenv");
  qn_status st = train_kit_open("cpu", BATCH, NULL, &k);
  if (st == QN_OK)
    st = train_kit_steps(&k, 0, steps, NULL);
  if (st == QN_OK)
    st = train_kit_digest(&k, out);
  train_kit_close(&k);
  return st;
}

static qn_digest digest_with(const char *variable, const char *value, size_t steps) {
  int pipes[2];
  qn_digest d = {{0}};
  cr_assert(pipe(pipes) == 0);
  pid_t child = fork();
  cr_assert(child >= 0);
  if (child == 0) {
    qn_status st = digest_in(variable, value, steps, &d);
    if (st != QN_OK)
      fprintf(stderr, "%s=%s: %s\n", variable ? variable : "", value ? value : "", qn_error_report());
    _exit(st == QN_OK && write(pipes[1], &d, sizeof d) == (ssize_t)sizeof d ? 0 : 1);
  }
  (void)close(pipes[1]);
  ssize_t n = read(pipes[0], &d, sizeof d);
  (void)close(pipes[0]);
  int status = 0;
  (void)waitpid(child, &status, 0);
  cr_assert(n == (ssize_t)sizeof d && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s=%s: the child failed",
            variable ? variable : "", value ? value : "");
  return d;
}

Test(training, the_same_bits_under_other_circumstances, .timeout = 280) {
  static const struct {
    const char *variable, *value;
  } ways[] = {{"QN_THREADS", "1"}, {"QN_THREADS", "2"}, {"QN_THREADS", "5"}, {"QN_FUSION", "off"},
              {"QN_REUSE", "off"}, {"QN_SYNC", "on"},   {"QN_POISON", "on"}, {"QN_LIMITS", "lanes=4,bindings=4"}};
  qn_digest usual = digest_with(NULL, NULL, REPEATED), fewer = digest_with(NULL, NULL, REPEATED - 1);
  cr_expect(memcmp(&usual, &fewer, sizeof usual) != 0, "a step less is another state");
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    qn_digest d = digest_with(ways[i].variable, ways[i].value, REPEATED);
    cr_expect(memcmp(&d, &usual, sizeof d) == 0, "%s=%s: another state", ways[i].variable, ways[i].value);
  }
}

/* The interpreter takes a tenth of a second a step: fewer of them. */
Test(training, interpreted_is_compiled, .timeout = 280) {
  qn_digest usual = digest_with(NULL, NULL, 3), other = digest_with("QN_INTERPRET", "on", 3);
  cr_expect(memcmp(&usual, &other, sizeof usual) == 0);
}

/* ---- memory that is not there ---- */

static qn_status second_step(train_kit *k) {
  static const qn_plan_donation state[] = {{0, "state"}};
  const qn_jit_desc desc = {
      .compile = {.name = "train_step", .donations = state, .donation_count = 1, .interpret = true}};
  qn_step *s = NULL;
  qn_status st = qn_jit(k->device, &k->traced, &desc, &s);
  qn_step_release(s);
  return st;
}

/* A device that has room for the first step and its tensors, and not for another step beside them. */
Test(training, a_full_device_leaves_the_state, .timeout = 120) {
  cr_assert(setenv("QN_LIMITS", "memory=860000", 1) == 0);
  train_kit k;
  qn_digest a, b;
  qn_device_stats before, after;
  open_or_skip("cpu", 8, &k);
  QN_ASSERT_OK(train_kit_spin(&k, 3));
  QN_ASSERT_OK(train_kit_digest(&k, &a));
  qn_tensors *more[8] = {NULL};
  for (int i = 0; i < 8 && qn_tensors_create(k.device, qn_tensors_layout(k.batches[0]), "more", &more[i]) == QN_OK;)
    i++;
  qn_device_get_stats(k.device, &before);
  QN_EXPECT_FAIL(second_step(&k), QN_OUT_OF_MEMORY, "step train_step: arena and results together needs ");
  cr_expect(qn_test_contains(qn_error_message(), " bytes), device cpu has "));
  cr_expect(qn_test_contains(qn_error_message(), " left beside what is in use"));
  qn_device_get_stats(k.device, &after);
  cr_expect(after.bytes_live == before.bytes_live && after.buffers_created == before.buffers_created);
  QN_ASSERT_OK(train_kit_digest(&k, &b));
  cr_expect(memcmp(&a, &b, sizeof a) == 0, "the state is intact");
  for (int i = 0; i < 8; i++)
    qn_tensors_release(more[i]);
  QN_EXPECT_OK(train_kit_spin(&k, 3));
  QN_EXPECT_OK(second_step(&k)); /* there is room again */
  train_kit_close(&k);
}

Test(training, a_small_device_refuses_by_numbers) {
  cr_assert(setenv("QN_LIMITS", "memory=600000", 1) == 0);
  train_kit k;
  QN_EXPECT_FAIL(train_kit_open("cpu", 8, NULL, &k), QN_OUT_OF_MEMORY,
                 "step train_step: arena, arguments and results together needs ");
  cr_expect(qn_test_contains(qn_error_message(), "device cpu has 585.9 KiB (600000 bytes) in all"));
  train_kit_close(&k);
}

/* ---- a kernel that does not compile ---- */

/* Puts a word that nobody knows into the plan's last kernel. */
static void break_source(qn_plan *p) {
  static const char bad[] = " undeclared_thing = 1; ";
  const char *name = p->code.entries[p->code.entry_count - 1].name, *at = strstr(p->code.source, name);
  at = at ? strchr(at, '{') : NULL;
  cr_assert(at != NULL);
  size_t before = (size_t)(at + 1 - p->code.source), all = p->code.source_bytes + sizeof bad - 1;
  char *text = qn_arena_alloc(&p->arena, all + 1);
  cr_assert(text != NULL);
  memcpy(text, p->code.source, before);
  memcpy(text + before, bad, sizeof bad - 1);
  memcpy(text + before + sizeof bad - 1, p->code.source + before, p->code.source_bytes - before);
  text[all] = 0;
  p->code.source = text;
  p->code.source_bytes = all;
}

Test(training, a_broken_kernel_is_named_with_the_drivers_log, .timeout = 280) {
  train_kit k;
  qn_status st = train_kit_open("opencl:pocl", 8, break_source, &k);
  if (st == QN_NOT_FOUND) {
    train_kit_close(&k);
    cr_skip("opencl:pocl is not here");
  }
  QN_EXPECT_FAIL(st, QN_COMPILE, "undeclared_thing");
  cr_expect(qn_test_contains(qn_error_message(), "step train_step: "));
  cr_expect(qn_test_contains(qn_error_message(), "kernel dot_general+subtract"));
  train_kit_close(&k);
}
