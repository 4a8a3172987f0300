/* See support.h. */
#include "support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *qn_test_shared_dir(void) {
  const char *chosen = qn_env_get(QN_ENV_SHARED);
  if (chosen)
    return qn_file_exists(chosen) ? chosen : NULL;
  return qn_file_exists("../shared/golden") ? "../shared" : NULL;
}

const char *qn_test_shared_path(const char *relative, char *out, size_t size) {
  const char *folder = qn_test_shared_dir();
  if (!folder)
    return NULL;
  int n = snprintf(out, size, "%s/%s", folder, relative);
  return n > 0 && (size_t)n < size && qn_file_exists(out) ? out : NULL;
}

bool qn_test_all(void) {
  const char *value = getenv("QN_TEST_ALL");
  return value && value[0] && strcmp(value, "0") != 0;
}

qn_test_temp qn_test_temp_make(void) {
  qn_test_temp t;
  const char *folder = getenv("TMPDIR");
  int n = snprintf(t.path, sizeof t.path, "%s/quern-test-XXXXXX", folder && folder[0] ? folder : "/tmp");
  if (n < 0 || (size_t)n >= sizeof t.path || !mkdtemp(t.path))
    qn_test_stop(__FILE__, __LINE__, "a temporary folder", t.path);
  return t;
}

qn_test_path qn_test_temp_file(const qn_test_temp *t, const char *name) {
  qn_test_path p;
  int n = snprintf(p.s, sizeof p.s, "%s/%s", t->path, name);
  if (n < 0 || (size_t)n >= sizeof p.s)
    qn_test_stop(__FILE__, __LINE__, "room for the path", name);
  return p;
}

static void remove_tree(const char *path) {
  struct stat info;
  if (lstat(path, &info) != 0)
    return;
  if (!S_ISDIR(info.st_mode)) {
    (void)unlink(path);
    return;
  }
  DIR *d = opendir(path);
  if (d) {
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
      char below[4096];
      if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
        continue;
      int n = snprintf(below, sizeof below, "%s/%s", path, e->d_name);
      if (n > 0 && (size_t)n < sizeof below)
        remove_tree(below);
    }
    (void)closedir(d);
  }
  (void)rmdir(path);
}

void qn_test_temp_remove(const qn_test_temp *t) { remove_tree(t->path); }

bool qn_test_contains(const char *text, const char *part) {
  if (text && strstr(text, part))
    return true;
  fprintf(stderr, "\"%s\" does not hold \"%s\"\n", text ? text : "(null)", part);
  return false;
}

void qn_test_stop(const char *file, int line, const char *cond, const char *detail) {
  fprintf(stderr, "%s:%d: failed: %s%s%s\n", file, line, cond, detail ? ": " : "", detail ? detail : "");
  exit(1);
}
