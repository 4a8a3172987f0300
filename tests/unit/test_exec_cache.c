/* The kernel cache: round trips, eviction, many processes, and every way a file can be bad. A build without SQLite only has the last test. */
#include "expect.h"
#include "quern/cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static qn_digest key(unsigned n) { return qn_digest_bytes(&n, sizeof n); }

static qn_cache *opened(const char *path) {
  qn_cache *c = NULL;
  (void)unsetenv("QN_CACHE");
  QN_ASSERT_OK(qn_cache_open(path, &c));
  return c;
}

static bool put(qn_cache *c, const char *kind, unsigned n, const char *text) {
  return qn_cache_put(c, kind, key(n), text, strlen(text)) == QN_OK;
}

/* The entry is this text; NULL: it is missing. */
static bool has(qn_cache *c, const char *kind, unsigned n, const char *text) {
  qn_bytes b;
  if (qn_cache_get(c, kind, key(n), &b) != QN_OK)
    return false;
  bool same = text ? b.data && b.size == strlen(text) && memcmp(b.data, text, b.size) == 0 : !b.data && b.size == 0;
  free(b.data);
  return same;
}

#ifdef QN_HAVE_SQLITE

typedef struct place {
  qn_test_temp temp;
  qn_test_path file, damaged;
} place;
static place place_make(void) {
  place p = {.temp = qn_test_temp_make()};
  p.file = qn_test_temp_file(&p.temp, "kernels.db");
  p.damaged = qn_test_temp_file(&p.temp, "kernels.db.damaged");
  return p;
}

Test(exec_cache, keeps_what_it_is_given) {
  place p = place_make();
  qn_cache *c = opened(p.file.s);
  cr_expect(qn_cache_is_on(c) && qn_cache_reason(c)[0] == 0);
  cr_expect_str_eq(qn_cache_path(c), p.file.s);
  cr_expect(has(c, "binary", 1, NULL));
  cr_expect(put(c, "binary", 1, "one") && put(c, "object", 1, "another kind") && put(c, "binary", 2, ""));
  cr_expect(has(c, "binary", 1, "one") && has(c, "object", 1, "another kind") && has(c, "binary", 2, ""));
  cr_expect(put(c, "binary", 1, "one again") && has(c, "binary", 1, "one again"), "a later entry replaces");
  qn_cache_close(c);
  c = opened(p.file.s);
  cr_expect(has(c, "binary", 1, "one again") && has(c, "tuning", 1, NULL));
  qn_cache_stats s;
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.entries == 3 && s.bytes == 9 + 12 && s.hits == 1 && s.misses == 1 && s.limit == QN_CACHE_LIMIT_DEFAULT);
  cr_expect(s.kind_count == 3 && strcmp(s.kinds[0].kind, "binary") == 0 && s.kinds[0].entries == 2 &&
            s.kinds[0].hits == 1);
  cr_expect(strcmp(s.kinds[1].kind, "tuning") == 0 && s.kinds[1].entries == 0 && s.kinds[1].misses == 1);
  cr_expect(strcmp(s.kinds[2].kind, "object") == 0 && s.kinds[2].bytes == 12);
  uint64_t checked, bad;
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(checked == 3 && bad == 0);
  QN_EXPECT_OK(qn_cache_clear(c, "object"));
  cr_expect(has(c, "object", 1, NULL) && has(c, "binary", 1, "one again"));
  QN_EXPECT_OK(qn_cache_clear(c, NULL));
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.entries == 0 && s.bytes == 0);
  QN_EXPECT_FAIL(qn_cache_put(c, "", key(1), "x", 1), QN_INVALID, "kind \"\", expected 1 to 31");
  QN_EXPECT_FAIL(qn_cache_put(c, "a kind that is far too long for this", key(1), "x", 1), QN_INVALID,
                 "expected 1 to 31");
  QN_EXPECT_FAIL(qn_cache_put(c, "binary", key(1), NULL, 1), QN_INVALID, "no data");
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, large_entries) {
  place p = place_make();
  qn_cache *c = opened(p.file.s);
  size_t n = 3000000;
  uint8_t *data = malloc(n);
  for (size_t i = 0; data && i < n; i++)
    data[i] = (uint8_t)(i * i >> 3);
  qn_bytes b;
  QN_EXPECT_OK(qn_cache_put(c, "object", key(1), data, n));
  QN_EXPECT_OK(qn_cache_get(c, "object", key(1), &b));
  cr_expect(b.size == n && memcmp(b.data, data, n) == 0);
  free(b.data);
  free(data);
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, evicts_the_least_recently_used) {
  place p = place_make();
  qn_cache *c = opened(p.file.s);
  char text[101];
  memset(text, 'x', 100);
  text[100] = 0;
  qn_cache_set_limit(c, 1000);
  for (unsigned i = 0; i < 10; i++)
    cr_expect(put(c, "binary", i, text));
  cr_expect(has(c, "binary", 0, text), "ten fit; this one is now the newest in use");
  cr_expect(put(c, "binary", 10, text));
  cr_expect(has(c, "binary", 0, text) && has(c, "binary", 1, NULL) && has(c, "binary", 2, text) &&
            has(c, "binary", 10, text));
  cr_expect(put(c, "binary", 3, "short"));
  qn_cache_stats s;
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.evicted == 1 && s.entries == 10 && s.bytes == 905);
  qn_cache_set_limit(c, 300);
  cr_expect(put(c, "binary", 20, text));
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.bytes <= 300 && has(c, "binary", 20, text) && has(c, "binary", 3, "short"));
  qn_cache_set_limit(c, 50);
  cr_expect(put(c, "binary", 30, text) && has(c, "binary", 30, NULL), "larger than the whole cache");
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.refused == 1 && s.entries > 0, "what is there stays");
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

/* ---- many processes ---- */

enum { PROCESSES = 4, WRITES = 60 };

static int writer(const char *path, unsigned self, int start, bool clean) {
  char go;
  if (read(start, &go, 1) < 0)
    return 1;
  qn_cache *c = NULL;
  if (qn_cache_open(path, &c) != QN_OK || !qn_cache_is_on(c))
    return 2;
  int result = 0;
  for (unsigned i = 0; i < WRITES; i++) {
    char text[64];
    (void)snprintf(text, sizeof text, "process %u, entry %u", self, i);
    if (!put(c, "mine", self * 1000 + i, text) || !put(c, "ours", i, "the same from all"))
      result = 3;
    if (!has(c, "mine", self * 1000 + i, text) || !has(c, "ours", i, "the same from all"))
      result = 4;
  }
  qn_cache_stats s;
  if (qn_cache_get_stats(c, &s) != QN_OK || s.refused || (clean && s.damaged))
    result = 5;
  qn_cache_close(c);
  return result;
}

/* Starts the processes, lets them go at once, and counts those that ended well. */
static int race(const char *path, bool clean) {
  int pipes[2], good = 0;
  pid_t pids[PROCESSES];
  cr_assert(pipe(pipes) == 0);
  for (unsigned i = 0; i < PROCESSES; i++) {
    pids[i] = fork();
    cr_assert(pids[i] >= 0);
    if (pids[i] == 0) {
      (void)close(pipes[1]);
      _exit(writer(path, i + 1, pipes[0], clean));
    }
  }
  (void)close(pipes[0]);
  (void)close(pipes[1]); /* the end of the file is the start signal */
  for (unsigned i = 0; i < PROCESSES; i++) {
    int status = 0;
    cr_assert(waitpid(pids[i], &status, 0) == pids[i]);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %u ended with %d", i, status);
  }
  return good;
}

Test(exec_cache, many_processes_write_at_once) {
  place p = place_make();
  (void)unsetenv("QN_CACHE");
  cr_expect(race(p.file.s, true) == PROCESSES, "they also begin the file together");
  qn_cache *c = opened(p.file.s);
  for (unsigned self = 1; self <= PROCESSES; self++)
    for (unsigned i = 0; i < WRITES; i++) {
      char text[64];
      (void)snprintf(text, sizeof text, "process %u, entry %u", self, i);
      cr_expect(has(c, "mine", self * 1000 + i, text));
    }
  uint64_t checked, bad;
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(checked == (PROCESSES + 1) * WRITES && bad == 0);
  cr_expect(!qn_file_exists(p.damaged.s));
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, many_processes_find_a_damaged_file) {
  place p = place_make();
  (void)unsetenv("QN_CACHE");
  QN_ASSERT_OK(qn_file_write_atomic(p.file.s, "this is no database, it only has its name", 41));
  cr_expect(race(p.file.s, false) == PROCESSES);
  cr_expect(qn_file_exists(p.damaged.s));
  qn_cache *c = opened(p.file.s);
  cr_expect(qn_cache_is_on(c));
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

/* ---- damage ---- */

static void make_full(const char *path) {
  qn_cache *c = opened(path);
  char text[400];
  for (unsigned i = 0; i < 200; i++) {
    (void)snprintf(text, sizeof text, "entry %0300u", i);
    cr_expect(put(c, "binary", i, text));
  }
  qn_cache_close(c);
}

/* Whatever happened to the file: gets give the right bytes or nothing, and afterwards the cache works. */
static void survives(const place *p, const char *what) {
  qn_cache *c = opened(p->file.s);
  char text[400];
  unsigned found = 0;
  for (unsigned i = 0; i < 200; i++) {
    qn_bytes b;
    (void)snprintf(text, sizeof text, "entry %0300u", i);
    QN_ASSERT_OK(qn_cache_get(c, "binary", key(i), &b));
    cr_expect(!b.data || (b.size == strlen(text) && memcmp(b.data, text, b.size) == 0), "%s: entry %u is wrong", what,
              i);
    found += b.data != NULL;
    free(b.data);
  }
  cr_expect(found <= 200);
  uint64_t checked, bad;
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(put(c, "binary", 1000, "new") && has(c, "binary", 1000, "new"), "%s: the cache is of no use any more: %s",
            what, qn_cache_reason(c));
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(bad == 0 && checked >= 1, "%s", what);
  qn_cache_close(c);
}

static void overwrite(const char *path, off_t at, const void *data, size_t n) {
  int fd = open(path, O_WRONLY);
  cr_assert(fd >= 0 && pwrite(fd, data, n, at) == (ssize_t)n && close(fd) == 0);
}

Test(exec_cache, flipped_bytes) {
  place p = place_make();
  make_full(p.file.s);
  qn_bytes whole;
  QN_ASSERT_OK(qn_file_read(p.file.s, &whole));
  uint64_t seed = 12345;
  for (int i = 0; i < 60; i++) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    size_t at = i < 20 ? (size_t)i * 5 : (size_t)(seed >> 20) % whole.size;
    uint8_t flipped = whole.data[at] ^ (uint8_t)(1u << (i % 8));
    char what[64];
    (void)snprintf(what, sizeof what, "bit %d of byte %zu flipped", i % 8, at);
    QN_ASSERT_OK(qn_file_write_atomic(p.file.s, whole.data, whole.size));
    overwrite(p.file.s, (off_t)at, &flipped, 1);
    survives(&p, what);
  }
  free(whole.data);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, a_flipped_byte_of_an_entry_costs_that_entry) {
  place p = place_make();
  make_full(p.file.s);
  qn_bytes whole;
  QN_ASSERT_OK(qn_file_read(p.file.s, &whole));
  size_t at = 0;
  static const char wanted[] = "0000000007"; /* of entry 7: its end */
  for (size_t i = 0; i + sizeof wanted < whole.size && !at; i++)
    if (memcmp(whole.data + i, wanted, sizeof wanted - 1) == 0)
      at = i;
  cr_assert(at);
  overwrite(p.file.s, (off_t)at, "1", 1);
  free(whole.data);
  qn_cache *c = opened(p.file.s);
  cr_expect(has(c, "binary", 7, NULL));
  qn_cache_stats s;
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.damaged == 1 && s.entries == 199 && !qn_file_exists(p.damaged.s));
  cr_expect(put(c, "binary", 7, "rebuilt") && has(c, "binary", 7, "rebuilt"));
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, verify_deletes_bad_entries) {
  place p = place_make();
  make_full(p.file.s);
  qn_bytes whole;
  QN_ASSERT_OK(qn_file_read(p.file.s, &whole));
  int flipped = 0;
  for (size_t i = 0; i + 10 < whole.size && flipped < 5; i++)
    if (memcmp(whole.data + i, "entry 0000", 10) == 0) {
      overwrite(p.file.s, (off_t)i + 7, "9", 1);
      flipped++;
    }
  free(whole.data);
  qn_cache *c = opened(p.file.s);
  uint64_t checked, bad;
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(checked == 200 && bad == 5);
  QN_EXPECT_OK(qn_cache_verify(c, &checked, &bad));
  cr_expect(checked == 195 && bad == 0);
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, truncated_files) {
  place p = place_make();
  make_full(p.file.s);
  qn_bytes whole;
  QN_ASSERT_OK(qn_file_read(p.file.s, &whole));
  static const unsigned thousandths[] = {0, 1, 20, 100, 333, 500, 900, 999};
  for (size_t i = 0; i < sizeof thousandths / sizeof *thousandths; i++) {
    size_t size = whole.size * thousandths[i] / 1000;
    char what[64];
    (void)snprintf(what, sizeof what, "cut to %zu bytes", size);
    QN_ASSERT_OK(qn_file_write_atomic(p.file.s, whole.data, size));
    survives(&p, what);
  }
  free(whole.data);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, somebody_elses_database_is_moved_aside) {
  place p = place_make();
  make_full(p.file.s);
  overwrite(p.file.s, 68, "abcd", 4); /* the application's number */
  qn_bytes before, after;
  QN_ASSERT_OK(qn_file_read(p.file.s, &before));
  qn_cache *c = opened(p.file.s);
  cr_expect(qn_cache_is_on(c) && has(c, "binary", 1, NULL));
  QN_ASSERT_OK(qn_file_read(p.damaged.s, &after));
  cr_expect(before.size == after.size && memcmp(before.data, after.data, before.size) == 0, "it is kept as it was");
  qn_cache_stats s;
  QN_ASSERT_OK(qn_cache_get_stats(c, &s));
  cr_expect(s.damaged == 1);
  free(before.data);
  free(after.data);
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

/* ---- off ---- */

Test(exec_cache, a_folder_that_cannot_be_written) {
  place p = place_make();
  QN_ASSERT_OK(qn_file_write_atomic(p.file.s, "a file", 6));
  qn_test_path below = qn_test_temp_file(&p.temp, "kernels.db/below/kernels.db");
  cr_assert(setenv("QN_CACHE_DIR", below.s, 1) == 0);
  qn_cache *c = opened(below.s);
  cr_expect(!qn_cache_is_on(c) && qn_test_contains(qn_cache_reason(c), "unable to open"));
  cr_expect(put(c, "binary", 1, "x") && has(c, "binary", 1, NULL));
  qn_cache_close(c);
  c = opened(NULL);
  cr_expect(!qn_cache_is_on(c) && qn_test_contains(qn_cache_reason(c), "make folder"));
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, default_place) {
  place p = place_make();
  cr_assert(setenv("QN_CACHE_DIR", qn_test_temp_file(&p.temp, "new/folder").s, 1) == 0);
  qn_cache *c = opened(NULL);
  cr_expect(qn_cache_is_on(c) && put(c, "binary", 1, "x"));
  cr_expect_str_eq(qn_cache_path(c), qn_test_temp_file(&p.temp, "new/folder/kernels.db").s);
  qn_cache_close(c);
  cr_expect(qn_file_exists(qn_test_temp_file(&p.temp, "new/folder/kernels.db").s));
  qn_test_temp_remove(&p.temp);
}

Test(exec_cache, switched_off) {
  place p = place_make();
  cr_assert(setenv("QN_CACHE", "off", 1) == 0);
  qn_cache *c = NULL;
  QN_ASSERT_OK(qn_cache_open(p.file.s, &c));
  cr_expect(!qn_cache_is_on(c) && qn_test_contains(qn_cache_reason(c), "QN_CACHE is off"));
  cr_expect(put(c, "binary", 1, "x") && has(c, "binary", 1, NULL) && !qn_file_exists(p.file.s));
  qn_cache_close(c);
  qn_test_temp_remove(&p.temp);
}

#else

Test(exec_cache, built_without) {
  qn_cache *c = opened("unused");
  cr_expect(!qn_cache_is_on(c) && qn_test_contains(qn_cache_reason(c), "built without SQLite"));
  cr_expect(put(c, "binary", 1, "x") && has(c, "binary", 1, NULL));
  qn_cache_close(c);
}

#endif

Test(exec_cache, no_cache_is_off) {
  qn_cache_stats s;
  uint64_t checked, bad;
  cr_expect(!qn_cache_is_on(NULL) && qn_cache_reason(NULL)[0] && qn_cache_path(NULL)[0] == 0);
  cr_expect(put(NULL, "binary", 1, "x") && has(NULL, "binary", 1, NULL));
  QN_EXPECT_OK(qn_cache_get_stats(NULL, &s));
  QN_EXPECT_OK(qn_cache_verify(NULL, &checked, &bad));
  QN_EXPECT_OK(qn_cache_clear(NULL, NULL));
  qn_cache_set_limit(NULL, 1);
  qn_cache_close(NULL);
}
