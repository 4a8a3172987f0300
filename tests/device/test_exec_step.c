/* Steps on every device: numbers, steady state by counters, donation, rings, result slabs. */
#include "expect.h"
#include "test_exec_kit.h"

static void each(void (*body)(qn_device *)) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d = NULL;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    body(d);
    qn_device_release(d);
  }
}

static void trains(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *results[2] = {0}, *y = NULL;
  uint64_t ticket = 0, before = 0;
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 2, args));
  for (int i = 0; i < 10; i++) {
    QN_ASSERT_OK(qn_step_call(s, args, 2, &y, &ticket));
    cr_expect(ticket > before && y);
    before = ticket;
    cr_expect(i < 2 || results[i % 2] == y, "result slabs rotate");
    results[i % 2] = y;
  }
  QN_EXPECT_OK(qn_step_wait(s));
  if (kit_computes(d)) {
    const char *id = qn_device_get_caps(d)->id;
    cr_expect(xk_all(args[0], "x", 20), "%s: the state is updated in place", id);
    cr_expect(xk_all(results[1], "y", 20.5f), "%s: newest result", id);
    cr_expect(xk_all(results[0], "y", 18.5f), "%s: the result before it is still there", id);
  }
  qn_step_stats stats;
  qn_step_get_stats(s, &stats);
  cr_expect(stats.calls == 10 && stats.recordings_created == 2 && stats.recordings_live == 2);
  qn_step_trim(s);
  qn_step_get_stats(s, &stats);
  cr_expect(stats.recordings_live == 0, "trim drops what is idle");
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
}
Test(exec_step, trains_on_every_device) { each(trains); }

/* A loop with a ring of batches; from the third turn on, only submissions and written bytes move. */
static void is_steady(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y;
  qn_ring *ring = NULL;
  float values[XK_N];
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 0, args));
  qn_tensors *spare = args[1];
  QN_ASSERT_OK(qn_ring_create(d, qn_tensors_layout(spare), "batch", 0, &ring));
  qn_device_stats before = {0}, after;
  float sum = 0;
  for (int i = 0; i < 24; i++) {
    if (i == 12) {
      QN_EXPECT_OK(qn_step_wait(s)); /* or the ring would have to wait, on a device slower than this loop */
      qn_device_get_stats(d, &before);
    }
    QN_EXPECT_OK(qn_step_wait(s));
    if (i >= 12)
      before.host_waits++;
    QN_ASSERT_OK(qn_ring_next(ring, &args[1]));
    for (size_t k = 0; k < XK_N; k++)
      values[k] = (float)i;
    QN_ASSERT_OK(qn_tensors_write(args[1], "a", values));
    QN_ASSERT_OK(qn_step_call(s, args, 2, &y, NULL));
    sum += (float)i;
  }
  qn_device_get_stats(d, &after);
  cr_expect(after.submits - before.submits == 12);
  cr_expect(after.bytes_written - before.bytes_written == 12 * sizeof values);
  cr_expect(after.recordings == before.recordings, "%s: recorded in steady state", qn_device_get_caps(d)->id);
  cr_expect(after.buffers_created == before.buffers_created && after.bytes_live == before.bytes_live);
  cr_expect(after.programs_compiled == before.programs_compiled);
  cr_expect(after.descriptor_updates == before.descriptor_updates);
  cr_expect(after.host_waits == before.host_waits, "%s: %llu hidden waits", qn_device_get_caps(d)->id,
            (unsigned long long)(after.host_waits - before.host_waits));
  cr_expect(!kit_computes(d) || (xk_all(args[0], "x", sum) && xk_all(y, "y", sum + 0.5f)));
  qn_ring_destroy(ring);
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(spare);
}
Test(exec_step, steady_state_only_submits) { each(is_steady); }

/* Batches are overwritten while earlier calls may still run. */
static void writes_do_not_disturb(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *args[2] = {0};
  float values[XK_N], sum = 0;
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 0, args));
  for (int i = 0; i < 200; i++) {
    for (size_t k = 0; k < XK_N; k++)
      values[k] = (float)(i % 7);
    QN_ASSERT_OK(qn_tensors_write(args[1], "a", values));
    QN_ASSERT_OK(qn_step_call(s, args, 2, NULL, NULL));
    sum += (float)(i % 7);
  }
  cr_expect(!kit_computes(d) || xk_all(args[0], "x", sum), "%s", qn_device_get_caps(d)->id);
  QN_EXPECT_OK(qn_tensors_zero(args[0])); /* in order, too */
  QN_ASSERT_OK(qn_step_call(s, args, 2, NULL, NULL));
  QN_EXPECT_OK(qn_tensors_zero(args[0]));
  cr_expect(xk_all(args[0], "x", 0));
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
}
Test(exec_step, writing_does_not_disturb_what_runs) { each(writes_do_not_disturb); }

static void recordings_are_bounded(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *sets[12][2];
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, &(qn_step_desc){.result_ring = 1, .recordings = 5}, &s));
  for (int i = 0; i < 12; i++)
    QN_ASSERT_OK(xk_args(d, (float)(i + 1), sets[i]));
  for (int turn = 0; turn < 3; turn++)
    for (int i = 0; i < 12; i++)
      QN_ASSERT_OK(qn_step_call(s, sets[i], 2, NULL, NULL));
  qn_step_stats stats;
  qn_step_get_stats(s, &stats);
  cr_expect(stats.recordings_live == 5 && stats.recordings_created >= 12);
  for (int turn = 0; turn < 4; turn++)
    for (int i = 0; i < 5; i++)
      QN_ASSERT_OK(qn_step_call(s, sets[i], 2, NULL, NULL));
  qn_step_stats later;
  qn_step_get_stats(s, &later);
  cr_expect(later.recordings_created <= stats.recordings_created + 5, "five sets fit");
  for (int i = 0; i < 12; i++) {
    cr_expect(!kit_computes(d) || xk_all(sets[i][0], "x", (float)((i + 1) * (i < 5 ? 7 : 3))));
    qn_tensors_release(sets[i][0]);
    qn_tensors_release(sets[i][1]);
  }
  qn_step_release(s);
}
Test(exec_step, recordings_are_bounded) { each(recordings_are_bounded); }

/* Everything is released while work may still be in flight. */
static void releases_in_any_order(qn_device *d) {
  for (int order = 0; order < 3; order++) {
    qn_step *s = NULL;
    qn_tensors *args[2] = {0}, *y = NULL;
    QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
    QN_ASSERT_OK(xk_args(d, 1, args));
    QN_ASSERT_OK(qn_step_call(s, args, 2, &y, NULL));
    (void)qn_tensors_retain(y);
    if (order == 0)
      qn_step_release(s);
    qn_tensors_release(args[0]);
    qn_tensors_release(args[1]);
    if (order == 1)
      qn_tensors_release(y);
    if (order > 0)
      qn_step_release(s);
    if (order != 1) {
      cr_expect(!kit_computes(d) || xk_all(y, "y", 1.5f), "a result outlives its step");
      qn_tensors_release(y);
    }
  }
}
Test(exec_step, releases_in_any_order) { each(releases_in_any_order); }

static void results_as_arguments(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y = NULL;
  qn_plan *p = NULL;
  QN_ASSERT_OK(xk_plan(d, (xk_options){.copy_only = true}, &p));
  p->result.entries[0].path[0] = 'a'; /* a result that is a batch as well */
  QN_ASSERT_OK(qn_step_create(d, p, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 3, args));
  qn_tensors *mine = args[1];
  for (int i = 0; i < 6; i++) {
    QN_ASSERT_OK(qn_step_call(s, args, 2, &y, NULL));
    args[1] = y;
  }
  cr_expect(xk_all(y, "a", 3), "passed on from slab to slab");
  args[1] = mine;
  QN_ASSERT_OK(qn_step_call(s, args, 2, &args[1], NULL));
  qn_tensors *unused;
  qn_tensors *first[2] = {args[0], args[1]};
  args[1] = mine;
  QN_ASSERT_OK(qn_step_call(s, args, 2, &unused, NULL));
  QN_EXPECT_FAIL(qn_step_call(s, first, 2, &unused, NULL), QN_INVALID, "argument 1 (tiny result) is the result slab");
  cr_expect(unused == NULL);
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(mine);
}
Test(exec_step, results_may_be_arguments) { each(results_as_arguments); }

Test(exec_step, poison_leaves_constants_and_results_alone) {
  cr_assert(setenv("QN_POISON", "1", 1) == 0);
  each(trains);
}

Test(exec_step, poison_shows_what_a_plan_forgets) {
  cr_assert(setenv("QN_POISON", "1", 1) == 0);
  qn_device *d = NULL;
  qn_plan *p = NULL;
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *y = NULL;
  float x[XK_N];
  QN_ASSERT_OK(xk_open("cpu", &d));
  QN_ASSERT_OK(xk_plan(d, (xk_options){.copy_only = true}, &p));
  p->cmds[0].size = 4; /* of 4000 */
  QN_ASSERT_OK(qn_step_create(d, p, &(qn_step_desc){.result_ring = 1}, &s));
  QN_ASSERT_OK(xk_args(d, 3, args));
  QN_ASSERT_OK(qn_step_call(s, args, 2, &y, NULL));
  QN_ASSERT_OK(qn_tensors_zero(y));
  QN_ASSERT_OK(qn_step_call(s, args, 2, &y, NULL));
  QN_ASSERT_OK(qn_tensors_read(y, "y", x));
  cr_expect(x[0] == 3 && x[1] != x[1] && x[XK_N - 1] != x[XK_N - 1], "the rest is NaN in every call");
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
  qn_device_release(d);
}

Test(exec_step, wrong_calls_name_step_and_leaf) {
  qn_device *d = NULL, *other = NULL;
  qn_step *s = NULL;
  qn_tensors *args[2] = {0}, *foreign[2] = {0}, *y = NULL;
  QN_ASSERT_OK(xk_open("cpu", &d));
  QN_ASSERT_OK(xk_open("null", &other));
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_ASSERT_OK(xk_args(d, 2, args));
  QN_ASSERT_OK(xk_args(other, 2, foreign));
  QN_EXPECT_FAIL(qn_step_call(s, args, 1, &y, NULL), QN_INVALID, "step tiny: called with 1 arguments, expected 2");
  QN_EXPECT_FAIL(qn_step_call(s, NULL, 2, &y, NULL), QN_INVALID, "step tiny: called with 0 arguments");
  QN_EXPECT_FAIL(qn_step_call(s, (qn_tensors *[2]){args[0], NULL}, 2, &y, NULL), QN_INVALID, "argument 1 is missing");
  QN_EXPECT_FAIL(qn_step_call(s, foreign, 2, &y, NULL), QN_INVALID,
                 "argument 0 (state) is on device null, expected cpu");
  QN_EXPECT_FAIL(qn_step_call(s, (qn_tensors *[2]){args[0], args[0]}, 2, &y, NULL), QN_INVALID,
                 "argument 0 (state) is donated and also given as argument 1");
  qn_layout shape;
  qn_tensors *wrong = NULL;
  QN_ASSERT_OK(xk_layout("a", XK_N - 1, &shape));
  QN_ASSERT_OK(qn_tensors_create(d, &shape, "short", &wrong));
  QN_EXPECT_FAIL(qn_step_call(s, (qn_tensors *[2]){args[0], wrong}, 2, &y, NULL), QN_INVALID,
                 "step tiny: argument 1 (short): leaf \"a\" is f32[999], expected f32[1000]");
  qn_step_stats stats;
  qn_step_get_stats(s, &stats);
  cr_expect(stats.calls == 0 && stats.recordings_created == 0);
  QN_EXPECT_OK(qn_step_wait(s));
  qn_layout_free(&shape);
  qn_tensors_release(wrong);
  for (int i = 0; i < 2; i++) {
    qn_tensors_release(args[i]);
    qn_tensors_release(foreign[i]);
  }
  qn_step_release(s);
  qn_device_release(d);
  qn_device_release(other);
}

Test(exec_step, a_ring_rotates_and_outlives_its_use) {
  qn_device *d = NULL;
  qn_ring *ring = NULL;
  qn_layout l;
  qn_tensors *t[8];
  QN_ASSERT_OK(xk_open("cpu", &d));
  QN_ASSERT_OK(xk_layout("a", XK_N, &l));
  QN_EXPECT_FAIL(qn_ring_create(d, &l, "batch", 5000, &ring), QN_INVALID, "ring batch: 5000");
  cr_expect(ring == NULL);
  QN_ASSERT_OK(qn_ring_create(d, &l, NULL, 0, &ring));
  for (int i = 0; i < 8; i++)
    QN_ASSERT_OK(qn_ring_next(ring, &t[i]));
  cr_expect(t[0] != t[1] && t[1] != t[2] && t[0] != t[2] && t[3] == t[0] && t[7] == t[1]);
  (void)qn_tensors_retain(t[0]);
  qn_ring_destroy(ring);
  cr_expect_str_eq(qn_tensors_label(t[0]), "ring");
  qn_tensors_release(t[0]);
  qn_layout_free(&l);
  qn_device_release(d);
}
