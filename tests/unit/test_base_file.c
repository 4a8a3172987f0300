/* Files: whole reads, atomic writes, folders, the cache folder. Root ignores permissions, so refusals are made with
 * paths below a file. */
#include "expect.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int count_files(const char *folder) {
  int n = 0;
  DIR *d = opendir(folder);
  cr_assert(d);
  for (struct dirent *e = readdir(d); e; e = readdir(d))
    n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

Test(file, round_trips_of_many_sizes) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path p = qn_test_temp_file(&t, "data");
  static const size_t sizes[] = {0, 1, 7, 8, 4095, 4096, 65537, 3000000};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    size_t n = sizes[k];
    uint8_t *data = malloc(n + 1);
    cr_assert(data);
    for (size_t i = 0; i < n; i++)
      data[i] = (uint8_t)(i * 31 + k);
    QN_ASSERT_OK(qn_file_write_atomic(p.s, data, n));
    qn_bytes back;
    QN_ASSERT_OK(qn_file_read(p.s, &back));
    cr_expect(back.size == n && memcmp(back.data, data, n) == 0 && back.data[n] == 0, "%zu bytes", n);
    free(back.data);
    free(data);
  }
  cr_expect(count_files(t.path) == 1, "no temporary file stays");
  qn_test_temp_remove(&t);
  cr_expect(!qn_file_exists(t.path));
}

Test(file, reads_files_of_unknown_size) {
  qn_bytes b;
  QN_ASSERT_OK(qn_file_read("/proc/self/status", &b));
  cr_expect(b.size > 100 && strstr((char *)b.data, "Pid:"));
  free(b.data);
}

Test(file, reading_says_what_is_wrong) {
  qn_test_temp t = qn_test_temp_make();
  qn_bytes b = {(uint8_t *)&t, 3};
  QN_EXPECT_FAIL(qn_file_read(qn_test_temp_file(&t, "absent").s, &b), QN_NOT_FOUND, "absent: No such file");
  cr_expect(b.data == NULL && b.size == 0, "outputs are cleared");
  QN_EXPECT_FAIL(qn_file_read(t.path, &b), QN_INVALID, "it is a folder");
  qn_test_temp_remove(&t);
}

Test(file, a_failed_write_keeps_the_old_file) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path file = qn_test_temp_file(&t, "old");
  QN_ASSERT_OK(qn_file_write_atomic(file.s, "old", 3));
  QN_EXPECT_FAIL(qn_file_write_atomic(qn_test_temp_file(&t, "old/below").s, "new", 3), QN_NOT_FOUND, "old/below");
  QN_EXPECT_FAIL(qn_file_write_atomic(qn_test_temp_file(&t, "no/such").s, "new", 3), QN_NOT_FOUND, "No such file");
  /* The rename fails: a folder that is not empty has the name. */
  qn_test_path folder = qn_test_temp_file(&t, "folder");
  QN_ASSERT_OK(qn_dir_make(qn_test_temp_file(&t, "folder/inside").s));
  QN_EXPECT_FAIL(qn_file_write_atomic(folder.s, "new", 3), QN_IO, "rename");
  qn_bytes b;
  QN_ASSERT_OK(qn_file_read(file.s, &b));
  cr_expect_str_eq((char *)b.data, "old");
  free(b.data);
  cr_expect(count_files(t.path) == 2, "the temporary file of a failed write is gone");
  qn_test_temp_remove(&t);
}

Test(file, a_write_that_stops_half_way_keeps_the_old_file) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path p = qn_test_temp_file(&t, "data");
  QN_ASSERT_OK(qn_file_write_atomic(p.s, "old", 3));
  /* A limit on file sizes stands for a full disk. */
  struct rlimit old, small;
  cr_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &old) == 0);
  small = old;
  small.rlim_cur = 4096;
  cr_assert(setrlimit(RLIMIT_FSIZE, &small) == 0);
  char *big = calloc(1, 100000);
  cr_assert(big);
  qn_status st = qn_file_write_atomic(p.s, big, 100000);
  cr_assert(setrlimit(RLIMIT_FSIZE, &old) == 0);
  QN_EXPECT_FAIL(st, QN_IO, "write");
  qn_bytes b;
  QN_ASSERT_OK(qn_file_read(p.s, &b));
  cr_expect(b.size == 3 && memcmp(b.data, "old", 3) == 0);
  free(b.data);
  free(big);
  cr_expect(count_files(t.path) == 1, "the half-written file is gone");
  qn_test_temp_remove(&t);
}

Test(file, absurd_paths_are_refused) {
  char absurd[5000];
  memset(absurd, 'p', sizeof absurd - 1);
  absurd[sizeof absurd - 1] = '\0';
  QN_EXPECT_FAIL(qn_file_write_atomic(absurd, "x", 1), QN_INVALID, "4999 characters");
  QN_EXPECT_FAIL(qn_dir_make(absurd), QN_INVALID, "4999 characters");
  QN_EXPECT_FAIL(qn_dir_make(""), QN_INVALID, "0 characters");
}

Test(file, modes_follow_the_umask_and_the_old_file) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path p = qn_test_temp_file(&t, "mode");
  struct stat info;
  umask(027);
  QN_ASSERT_OK(qn_file_write_atomic(p.s, "1", 1));
  cr_expect(stat(p.s, &info) == 0 && (info.st_mode & 0777) == 0640, "got %o", (unsigned)info.st_mode & 0777u);
  cr_expect(chmod(p.s, 0604) == 0);
  QN_ASSERT_OK(qn_file_write_atomic(p.s, "2", 1));
  cr_expect(stat(p.s, &info) == 0 && (info.st_mode & 0777) == 0604, "got %o", (unsigned)info.st_mode & 0777u);
  qn_test_temp_remove(&t);
}

Test(file, works_in_the_current_folder) {
  qn_test_temp t = qn_test_temp_make();
  cr_assert(chdir(t.path) == 0);
  QN_EXPECT_OK(qn_file_write_atomic("plain", "x", 1));
  cr_expect(qn_file_exists("plain") && !qn_file_exists("other"));
  cr_assert(chdir("/") == 0);
  qn_test_temp_remove(&t);
}

Test(dir, makes_parents_and_accepts_what_exists) {
  qn_test_temp t = qn_test_temp_make();
  qn_test_path p = qn_test_temp_file(&t, "a//b/c/");
  QN_EXPECT_OK(qn_dir_make(p.s));
  QN_EXPECT_OK(qn_dir_make(p.s));
  cr_expect(qn_file_exists(qn_test_temp_file(&t, "a/b/c").s));
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&t, "file").s, "x", 1));
  QN_EXPECT_FAIL(qn_dir_make(qn_test_temp_file(&t, "file").s), QN_IO, "a file has that name");
  QN_EXPECT_FAIL(qn_dir_make(qn_test_temp_file(&t, "file/below").s), QN_IO, "a file has that name");
  qn_test_temp_remove(&t);
}

Test(cache_dir, follows_the_override) {
  setenv("QN_CACHE_DIR", "/somewhere/else", 1);
  char path[64];
  QN_ASSERT_OK(qn_cache_dir(path, sizeof path));
  cr_expect_str_eq(path, "/somewhere/else");
  QN_EXPECT_FAIL(qn_cache_dir(path, 5), QN_INVALID, "needs 16 characters, there is room for 5");
  cr_expect_str_eq(path, "");
}

Test(cache_dir, follows_the_desktop_convention) {
  unsetenv("QN_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  setenv("HOME", "/user/someone", 1);
  char path[256];
  QN_ASSERT_OK(qn_cache_dir(path, sizeof path));
  cr_expect_str_eq(path, "/xdg/quern");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the convention says to ignore it */
  QN_ASSERT_OK(qn_cache_dir(path, sizeof path));
  cr_expect_str_eq(path, "/user/someone/.cache/quern");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  setenv("TMPDIR", "/scratch", 1);
  QN_ASSERT_OK(qn_cache_dir(path, sizeof path));
  cr_expect(strncmp(path, "/scratch/quern-", 15) == 0, "%s", path);
}
