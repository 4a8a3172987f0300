/* The error record: message, trail, limits, and its copy to another thread. */
#include "expect.h"

#include <signal.h>

static qn_status deepest(int x) { return x < 0 ? QN_ERR(QN_INVALID, "x: got %d, expected at least 0", x) : QN_OK; }

static qn_status middle(int x) {
  QN_TRY(deepest(x));
  return QN_OK;
}

static qn_status owner(int x, int *released) {
  qn_status st;
  QN_TRY_GOTO(st, middle(x), done);
done:
  ++*released;
  return st;
}

Test(status, success_leaves_no_failure) {
  int released = 0;
  cr_expect(owner(1, &released) == QN_OK);
  cr_expect(released == 1);
  cr_expect_str_eq(qn_error_report(), "", "a thread without failures has an empty report");
  cr_expect_str_eq(qn_error_message(), "");
}

Test(status, trail_names_every_hop) {
  int released = 0;
  cr_expect(owner(-3, &released) == QN_INVALID);
  cr_expect(released == 1);
  cr_expect_str_eq(qn_error_message(), "x: got -3, expected at least 0");
  const char *report = qn_error_report();
  cr_expect(qn_test_contains(report, "x: got -3, expected at least 0 (test_base_status.c:"));
  const char *first = strstr(report, "from deepest(x) (test_base_status.c:");
  const char *second = strstr(report, "from middle(x) (test_base_status.c:");
  cr_assert(first && second);
  cr_expect(first < second);
  cr_expect(!strstr(report, "from owner"));
}

Test(status, a_new_failure_replaces_the_old_one) {
  cr_expect(middle(-1) == QN_INVALID);
  cr_expect(QN_ERR(QN_IO, "second") == QN_IO);
  cr_expect_str_eq(qn_error_message(), "second");
  cr_expect(!strstr(qn_error_report(), "deepest"));
}

Test(status, a_message_may_quote_the_one_before) {
  cr_expect(QN_ERR(QN_IO, "disk full") == QN_IO);
  cr_expect(QN_ERR(QN_CORRUPT, "cache: %s", qn_error_message()) == QN_CORRUPT);
  cr_expect_str_eq(qn_error_message(), "cache: disk full");
}

Test(status, long_messages_and_trails_are_cut_and_say_so) {
  static char big[10000];
  memset(big, 'a', sizeof big - 1);
  cr_expect(QN_ERR(QN_COMPILE, "log: %s", big) == QN_COMPILE);
  size_t n = strlen(qn_error_message());
  cr_expect(n > 2000 && n < sizeof big);
  cr_expect_str_eq(qn_error_message() + n - 3, "...");
  for (int i = 0; i < 40; i++)
    cr_expect(qn_error_trace(QN_COMPILE, "some/dir/file.c", 7, big) == QN_COMPILE);
  const char *report = qn_error_report();
  cr_expect(qn_test_contains(report, "and 24 more"));
  cr_expect(qn_test_contains(report, "...") && !strstr(report, "some/dir"));
}

Test(status, a_failure_is_never_a_success) {
  int code = QN_OK; /* as an expression that went wrong would give it */
  cr_expect(QN_ERR((qn_status)code, "nothing wrong") == QN_INTERNAL);
}

Test(status, codes_have_names) {
  for (int i = QN_OK; i <= QN_INTERNAL; i++) {
    const char *name = qn_status_name((qn_status)i);
    cr_expect(name && name[0] && strcmp(name, "unknown status") != 0, "code %d", i);
    for (int j = QN_OK; j < i; j++)
      cr_expect_str_neq(name, qn_status_name((qn_status)j));
  }
  cr_expect_str_eq(qn_status_name((qn_status)1000), "unknown status");
}

static void worker(void *p) {
  qn_error_copy *copy = p;
  qn_error_save(QN_ERR(QN_DEVICE_LOST, "device 3 stopped"), copy);
}

Test(status, failures_are_per_thread_and_can_be_carried) {
  cr_expect(QN_ERR(QN_IO, "mine") == QN_IO);
  qn_error_copy copy;
  qn_thread t;
  QN_ASSERT_OK(qn_thread_start(&t, worker, &copy));
  qn_thread_join(t);
  cr_expect_str_eq(qn_error_message(), "mine", "another thread's failure must not show here");
  QN_EXPECT_FAIL(qn_error_restore(&copy), QN_DEVICE_LOST, "device 3 stopped");
  qn_error_save(QN_OK, &copy);
  cr_expect(qn_error_restore(&copy) == QN_OK);
}

Test(status, saving_a_long_message_cuts_it) {
  static char big[4000];
  memset(big, 'b', sizeof big - 1);
  qn_error_copy copy;
  qn_error_save(QN_ERR(QN_COMPILE, "%s", big), &copy);
  cr_expect(strlen(copy.message) == sizeof copy.message - 1);
  cr_expect_str_eq(copy.message + sizeof copy.message - 4, "...");
}

Test(status, check_passes) { QN_CHECK(1 + 1 == 2); }
Test(status, check_aborts, .signal = SIGABRT) { QN_CHECK(1 + 1 == 3); }
