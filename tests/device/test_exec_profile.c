/* The profiler: rows, table and trace, on the CPU and wherever timestamps are. */
#include "expect.h"
#include "test_exec_kit.h"

static size_t occurrences(const char *text, const char *part) {
  size_t n = 0;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
    n++;
  return n;
}

static void profiles(qn_device *d) {
  qn_step *s = NULL;
  qn_tensors *args[2] = {0};
  const qn_step_row *rows;
  size_t count;
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, &(qn_step_desc){.profile = true}, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  QN_ASSERT_OK(qn_step_profile(s, &rows, &count));
  cr_expect(count == 3 && rows[0].calls == 0);
  for (int i = 0; i < 7; i++) {
    QN_ASSERT_OK(qn_step_call(s, args, 2, NULL, NULL));
    QN_ASSERT_OK(qn_step_wait(s));
  }
  QN_ASSERT_OK(qn_step_profile(s, &rows, &count));
  cr_expect(rows[0].calls == 7 && rows[2].calls == 7, "%s: %llu calls seen", qn_device_get_caps(d)->id,
            (unsigned long long)rows[0].calls);
  cr_expect_str_eq(rows[0].label, "x+=a (step.c:1)");
  cr_expect(rows[0].ns_min * 7 <= rows[0].ns_total + 1e-6 && rows[0].flops == XK_N && rows[0].bytes == 12 * XK_N);
  cr_expect(!kit_computes(d) || rows[0].ns_total > 0);
  cr_expect(rows[1].ns_total == 0 && strcmp(rows[1].label, "barrier") == 0);
  qn_text table = {0}, trace = {0};
  QN_EXPECT_OK(qn_step_profile_print(s, 1e12, 1e11, &table));
  cr_expect(qn_test_contains(table.buf, "y=x+half (step.c:2)") && qn_test_contains(table.buf, "GFLOP/s"));
  cr_expect(occurrences(table.buf, "\n") == 5, "title, header, two kernels, sum");
  qn_text_puts(&trace, "[");
  QN_EXPECT_OK(qn_step_profile_trace(s, &trace));
  QN_EXPECT_OK(qn_step_profile_trace(s, &trace)); /* elements go on with a comma */
  qn_text_puts(&trace, "]");
  cr_expect(occurrences(trace.buf, "\"ph\":\"X\"") == 2 * 7 * 2);
  cr_expect(occurrences(trace.buf, "\"ph\":\"M\"") == 4);
  cr_expect(occurrences(trace.buf, "},\n{") == 2 * (14 + 2) - 1 && trace.buf[1] == '{');
  cr_expect(qn_test_contains(trace.buf, "\"flops\":1000"));
  qn_text_free(&table);
  qn_text_free(&trace);
  qn_step_stats stats;
  qn_step_get_stats(s, &stats);
  cr_expect(stats.profiled_calls == 7);
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
}

Test(exec_profile, rows_table_and_trace) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d = NULL;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    profiles(d);
    qn_device_release(d);
  }
}

Test(exec_profile, never_waits_by_itself) {
  qn_device *d = NULL;
  qn_step *s = NULL;
  qn_tensors *args[2] = {0};
  const qn_step_row *rows;
  size_t count;
  QN_ASSERT_OK(xk_open("cpu", &d));
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, &(qn_step_desc){.profile = true}, &s));
  QN_ASSERT_OK(xk_args(d, 1, args));
  qn_device_stats before, after;
  qn_device_get_stats(d, &before);
  for (int i = 0; i < 100; i++)
    QN_ASSERT_OK(qn_step_call(s, args, 2, NULL, NULL));
  QN_ASSERT_OK(qn_step_profile(s, &rows, &count));
  qn_device_get_stats(d, &after);
  cr_expect(before.host_waits == after.host_waits);
  cr_expect(rows[0].calls <= 100);
  cr_expect(xk_all(args[0], "x", 100));
  QN_ASSERT_OK(qn_step_profile(s, &rows, &count));
  cr_expect(rows[0].calls >= 1, "the newest call of each recording can be had now");
  qn_step_release(s);
  qn_tensors_release(args[0]);
  qn_tensors_release(args[1]);
  qn_device_release(d);
}

Test(exec_profile, has_to_be_asked_for) {
  qn_device *d = NULL;
  qn_step *s = NULL;
  const qn_step_row *rows;
  size_t count = 9;
  qn_text t = {0};
  QN_ASSERT_OK(xk_open("null", &d));
  QN_ASSERT_OK(xk_step(d, (xk_options){0}, NULL, &s));
  QN_EXPECT_FAIL(qn_step_profile(s, &rows, &count), QN_INVALID, "step tiny: it was made without a profile");
  cr_expect(rows == NULL && count == 0);
  QN_EXPECT_FAIL(qn_step_profile_print(s, 0, 0, &t), QN_INVALID, "without a profile");
  QN_EXPECT_FAIL(qn_step_profile_trace(s, &t), QN_INVALID, "without a profile");
  cr_expect(t.buf == NULL);
  qn_step_release(s);
  qn_device_release(d);
}
