/* Files: read whole, write so that a reader sees either the old content or the new, folders with their parents, and
 * the place of Quern's cache. */
#include "quern/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

static qn_status code_of(int error) {
  qn_status kind = error == ENOMEM ? QN_OUT_OF_MEMORY : QN_IO;
  return error == ENOENT || error == ENOTDIR ? QN_NOT_FOUND : kind;
}

static int open_retry(const char *path, int flags, mode_t mode) {
  int fd;
  do
    fd = open(path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* Reads to the end of the file, whatever its size was said to be: pipes and /proc say nothing. */
static qn_status read_all(int fd, const char *path, size_t hint, qn_bytes *out_bytes) {
  size_t size = 0, capacity = hint + 2; /* one byte to see the end with, one for the NUL */
  uint8_t *data = malloc(capacity);
  qn_status st = QN_OK;
  if (!data)
    return QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory for %zu bytes", path, hint);
  for (;;) {
    if (capacity - size < 2 && !QN_RESERVE(data, capacity, size + (size_t)64 * 1024)) {
      st = QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory behind %zu bytes", path, size);
      break;
    }
    size_t room = capacity - size - 1;
    ssize_t n = read(fd, data + size, room < SSIZE_MAX ? room : SSIZE_MAX);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      st = QN_ERR(QN_IO, "read %s: %s", path, strerror(errno));
      break;
    }
    if (n == 0)
      break;
    size += (size_t)n;
  }
  if (st != QN_OK) {
    free(data);
    return st;
  }
  data[size] = 0;
  *out_bytes = (qn_bytes){data, size};
  return QN_OK;
}

qn_status qn_file_read(const char *path, qn_bytes *out_bytes) {
  *out_bytes = (qn_bytes){0};
  int fd = open_retry(path, O_RDONLY, 0);
  if (fd < 0)
    return QN_ERR(code_of(errno), "open %s: %s", path, strerror(errno));
  struct stat info;
  qn_status st = QN_OK;
  if (fstat(fd, &info) != 0)
    st = QN_ERR(QN_IO, "stat %s: %s", path, strerror(errno));
  else if (S_ISDIR(info.st_mode))
    st = QN_ERR(QN_INVALID, "read %s: it is a folder, expected a file", path);
  else
    st = read_all(fd, path, S_ISREG(info.st_mode) && info.st_size > 0 ? (size_t)info.st_size : 0, out_bytes);
  close(fd);
  return st;
}

static qn_status write_all(int fd, const char *path, const void *data, size_t size) {
  const char *p = data;
  while (size) {
    ssize_t n = write(fd, p, size < SSIZE_MAX ? size : SSIZE_MAX);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return QN_ERR(QN_IO, "write %s: %s", path, strerror(errno));
    p += n;
    size -= (size_t)n;
  }
  /* Some file systems know no fsync (EINVAL); the rename is then all there is. */
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
    return QN_ERR(QN_IO, "flush %s: %s", path, strerror(errno));
  return QN_OK;
}

/* Makes the rename itself durable; a failure here leaves a whole file, old or new, so it is not reported. */
static void flush_folder(const char *path) {
  char folder[PATH_ROOM];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (n >= sizeof folder)
    return;
  if (slash)
    memcpy(folder, path, n ? n : 1);
  else
    folder[0] = '.';
  folder[n ? n : 1] = '\0';
  int fd = open_retry(folder, O_RDONLY | O_DIRECTORY, 0);
  if (fd < 0)
    return;
  (void)fsync(fd);
  close(fd);
}

/* A new file beside `path`, with the mode the umask gives. The name holds process and time; taken names are skipped. */
static qn_status open_temporary(const char *path, char *out_name, size_t room, int *out_fd) {
  for (unsigned attempt = 0; attempt < 1000; attempt++) {
    uint64_t salt = qn_hash_u64(qn_hash_u64(qn_hash_u64(QN_HASH_INIT, qn_time_ns()), (uint64_t)getpid()), attempt);
    int n = snprintf(out_name, room, "%s.%08lx.tmp", path, (unsigned long)(salt >> 32));
    if (n < 0 || (size_t)n >= room)
      return QN_ERR(QN_INVALID, "write: the path has %zu characters, expected at most %zu", strlen(path), room - 14);
    *out_fd = open_retry(out_name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (*out_fd >= 0)
      return QN_OK;
    if (errno != EEXIST)
      return QN_ERR(code_of(errno), "create a file beside %s: %s", path, strerror(errno));
  }
  return QN_ERR(QN_IO, "create a file beside %s: every name tried is taken", path);
}

qn_status qn_file_write_atomic(const char *path, const void *data, size_t size) {
  char temporary[PATH_ROOM];
  int fd;
  QN_TRY(open_temporary(path, temporary, sizeof temporary, &fd));
  qn_status st = write_all(fd, temporary, data, size);
  struct stat old;
  if (st == QN_OK && stat(path, &old) == 0)
    (void)fchmod(fd, old.st_mode & 07777); /* a replaced file keeps its mode */
  if (close(fd) != 0 && st == QN_OK)
    st = QN_ERR(QN_IO, "close %s: %s", temporary, strerror(errno));
  if (st == QN_OK && rename(temporary, path) != 0)
    st = QN_ERR(QN_IO, "rename %s to %s: %s", temporary, path, strerror(errno));
  if (st != QN_OK)
    (void)unlink(temporary);
  else
    flush_folder(path);
  return st;
}

bool qn_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static qn_status make_one(const char *path) {
  if (mkdir(path, 0777) == 0)
    return QN_OK;
  int error = errno;
  struct stat info;
  if (stat(path, &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return QN_OK;
    return QN_ERR(QN_IO, "make folder %s: a file has that name", path);
  }
  return QN_ERR(code_of(error), "make folder %s: %s", path, strerror(error));
}

qn_status qn_dir_make(const char *path) {
  char part[PATH_ROOM];
  size_t n = strlen(path);
  if (n == 0 || n >= sizeof part)
    return QN_ERR(QN_INVALID, "make folder: the path has %zu characters, expected 1 to %d", n, PATH_ROOM - 1);
  memcpy(part, path, n + 1);
  for (size_t i = 1; i < n; i++) {
    if (part[i] != '/' || part[i - 1] == '/')
      continue;
    part[i] = '\0';
    QN_TRY(make_one(part));
    part[i] = '/';
  }
  QN_TRY(make_one(part));
  return QN_OK;
}

qn_status qn_cache_dir(char *out_path, size_t size) {
  if (size)
    out_path[0] = '\0';
  const char *chosen = qn_env_get(QN_ENV_CACHE_DIR);
  const char *xdg = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  const char *temporary = getenv("TMPDIR");
  int n;
  if (chosen)
    n = snprintf(out_path, size, "%s", chosen);
  else if (xdg && xdg[0] == '/')
    n = snprintf(out_path, size, "%s/quern", xdg);
  else if (home && home[0] == '/')
    n = snprintf(out_path, size, "%s/.cache/quern", home);
  else
    n = snprintf(out_path, size, "%s/quern-%lu", temporary && temporary[0] ? temporary : "/tmp",
                 (unsigned long)getuid());
  if (n < 0 || (size_t)n >= size) {
    if (size)
      out_path[0] = '\0';
    return QN_ERR(QN_INVALID, "cache folder: its path needs %d characters, there is room for %zu", n + 1, size);
  }
  return QN_OK;
}
