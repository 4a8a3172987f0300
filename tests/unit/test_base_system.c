/* Environment, shared libraries, clocks, processors. */
#include "expect.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

Test(env, is_read_once) {
  setenv("QN_DEVICE", "opencl:pocl", 1);
  setenv("QN_CACHE", "off", 1);
  setenv("QN_FUSION", "", 1);
  setenv("QN_SYNC", "on", 1);
  setenv("QN_POISON", "FALSE", 1);
  setenv("QN_INTERPRET", "0", 1);
  unsetenv("QN_TRACE");
  cr_expect_str_eq(qn_env_get(QN_ENV_DEVICE), "opencl:pocl");
  setenv("QN_DEVICE", "cpu", 1);
  cr_expect_str_eq(qn_env_get(QN_ENV_DEVICE), "opencl:pocl", "later changes are not seen");
  cr_expect(qn_env_get(QN_ENV_FUSION) == NULL, "empty is unset");
  cr_expect(qn_env_get(QN_ENV_TRACE) == NULL && !qn_env_on(QN_ENV_TRACE));
  cr_expect(qn_env_get(QN_ENV_COUNT) == NULL);
  cr_expect(qn_env_on(QN_ENV_SYNC) && qn_env_on(QN_ENV_DEVICE));
  cr_expect(!qn_env_on(QN_ENV_CACHE) && !qn_env_on(QN_ENV_POISON) && !qn_env_on(QN_ENV_INTERPRET));
}

Test(env, print_lists_every_row) {
  setenv("QN_THREADS", "3", 1);
  char *buf = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&buf, &n);
  cr_assert(f);
  qn_env_print(f);
  cr_assert(fclose(f) == 0);
#define QN_ENV(name, doc) cr_expect(qn_test_contains(buf, "QN_" #name " ") && qn_test_contains(buf, doc));
#include "quern/env.def"
#undef QN_ENV
  cr_expect(qn_test_contains(buf, "now: 3\n"));
  free(buf);
}

Test(library, opens_the_first_that_is_there) {
  static const char *const names[] = {"libquern-absent.so.1", "libm.so.6", NULL};
  qn_library *lib;
  QN_ASSERT_OK(qn_library_open(names, &lib));
  double (*cosine)(double) = NULL;
  QN_ASSERT_OK(qn_library_symbol(lib, "cos", &cosine));
  cr_assert(cosine);
  cr_expect(cosine(0) == 1);
  QN_EXPECT_FAIL(qn_library_symbol(lib, "quern_absent", &cosine), QN_NOT_FOUND, "libm.so.6 has no symbol quern_absent");
  cr_expect(cosine == NULL, "outputs are cleared");
  QN_ASSERT_OK(qn_library_symbol(lib, "cos", &cosine));
  qn_library_close(lib);
  cr_expect(cosine(0) == 1, "the code stays mapped");
  qn_library_close(NULL);
}

Test(library, names_all_that_were_tried) {
  static const char *const names[] = {"libquern-absent.so.1", "libquern-missing.so", NULL};
  static const char *const none[] = {NULL};
  qn_library *lib = (qn_library *)(uintptr_t)8;
  QN_EXPECT_FAIL(qn_library_open(names, &lib), QN_NOT_FOUND, "[libquern-absent.so.1, libquern-missing.so]");
  cr_expect(lib == NULL);
  cr_expect(qn_test_contains(qn_error_message(), "cannot open shared object"));
  QN_EXPECT_FAIL(qn_library_open(none, &lib), QN_NOT_FOUND, "no name was given");
}

static void pause_ms(long ms) {
  struct timespec t = {.tv_nsec = ms * 1000000};
  nanosleep(&t, NULL);
}

Test(time, goes_forward) {
  uint64_t a = qn_time_ns();
  pause_ms(2);
  uint64_t b = qn_time_ns();
  cr_expect(b >= a + 1000000);
  double s = qn_time_since_start();
  cr_expect(s >= 0 && s < 3600 && isfinite(s), "%g", s);
  pause_ms(30);
  cr_expect(qn_time_since_start() >= s + 0.02, "it counts on");
}

Test(process, processors) {
  int n = qn_cpu_count();
  cr_expect(n >= 1 && n <= 65536);
  qn_thread_pin(-1);
  qn_thread_pin(1 << 20);
  cr_expect(qn_cpu_count() == n, "an impossible processor changes nothing");
  qn_thread_pin(0);
  cr_expect(qn_cpu_count() == 1);
}
