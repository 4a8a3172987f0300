/* IDX files: a big-endian header (two zero bytes, type, rank, dimensions), then the elements. Read as a stream, through
 * zlib where there is one, so that gzip files are never held whole; every file is read to its end, so that a damaged
 * tail is found even when only some rows are wanted. Memory grows with what was read, not with what a header says. */
#include "quern/data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef QN_HAVE_ZLIB
#include <zlib.h>
#endif

enum { PATH_ROOM = 4096, CHUNK = 1 << 16, IDX_U8 = 8, MAX_SIDE = 65536, MAX_LABEL = 9 };

/* ---- the stream under a file ---- */

#ifdef QN_HAVE_ZLIB
typedef gzFile stream;

static qn_status stream_open(const char *path, stream *out_s) {
  errno = 0;
  *out_s = gzopen(path, "rb"); /* plain files pass through */
  if (*out_s)
    return QN_OK;
  if (errno == 0 || errno == ENOMEM)
    return QN_ERR(QN_OUT_OF_MEMORY, "open %s: no memory", path);
  return QN_ERR(QN_IO, "open %s: %s", path, strerror(errno));
}

static void stream_close(stream s) { (void)gzclose_r(s); }
static bool stream_is_plain(stream s) { return gzdirect(s) != 0; }

/* Reads up to `size` bytes; fewer only at the end of the file. */
static qn_status stream_read(stream s, const char *path, void *out, size_t size, size_t *out_got) {
  *out_got = 0;
  while (*out_got < size) {
    size_t want = size - *out_got < CHUNK ? size - *out_got : CHUNK;
    int n = gzread(s, (uint8_t *)out + *out_got, (unsigned)want);
    int code = Z_OK;
    const char *why = gzerror(s, &code);
    if (n < 0 && code == Z_ERRNO)
      return QN_ERR(QN_IO, "read %s: %s", path, strerror(errno));
    if (n < 0 && code == Z_MEM_ERROR)
      return QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory", path);
    if (code == Z_BUF_ERROR)
      return QN_ERR(QN_CORRUPT, "%s: the gzip stream is truncated behind %zu bytes of this part", path,
                    *out_got + (n > 0 ? (size_t)n : 0));
    if (n < 0)
      return QN_ERR(QN_CORRUPT, "%s: the gzip stream is damaged: %s", path, why);
    if (n == 0)
      break;
    *out_got += (size_t)n;
  }
  return QN_OK;
}

#else
typedef FILE *stream;

static qn_status stream_open(const char *path, stream *out_s) {
  size_t n = strlen(path);
  if (n > 3 && strcmp(path + n - 3, ".gz") == 0)
    return QN_ERR(QN_UNSUPPORTED, "open %s: this build has no zlib; unpack the file first (gunzip)", path);
  *out_s = fopen(path, "rb");
  return *out_s ? QN_OK : QN_ERR(QN_IO, "open %s: %s", path, strerror(errno));
}

static void stream_close(stream s) { (void)fclose(s); }
static bool stream_is_plain(stream s) { return s != NULL; }

static qn_status stream_read(stream s, const char *path, void *out, size_t size, size_t *out_got) {
  *out_got = fread(out, 1, size, s);
  return ferror(s) ? QN_ERR(QN_IO, "read %s: %s", path, strerror(errno)) : QN_OK;
}
#endif

/* ---- one file ---- */

typedef struct idx_file {
  char path[PATH_ROOM];
  stream s;
  int rank;
  size_t dims[3];
  size_t row_bytes; /* product of dims behind the first */
} idx_file;

/* `dir`/`name`, else the same with .gz. */
static qn_status find_file(const char *dir, const char *name, char *out, size_t room) {
  static const char *const endings[] = {"", ".gz"};
  for (size_t i = 0; i < 2; i++) {
    int n = snprintf(out, room, "%s/%s%s", dir, name, endings[i]);
    if (n < 0 || (size_t)n >= room)
      return QN_ERR(QN_INVALID, "data folder: its path has %zu characters, expected fewer than %zu", strlen(dir),
                    room - strlen(name) - 5);
    if (qn_file_exists(out))
      return QN_OK;
  }
  return QN_ERR(QN_NOT_FOUND, "%s/%s: neither it nor %s.gz is there; --data names the folder with the IDX files", dir,
                name, name);
}

static qn_status read_header(idx_file *f, int rank) {
  uint8_t head[4 + 3 * 4];
  size_t size = 4 + (size_t)rank * 4, got;
  QN_TRY(stream_read(f->s, f->path, head, size, &got));
  if (got >= 4 && (head[0] != 0 || head[1] != 0 || head[2] != IDX_U8 || head[3] != rank))
    return QN_ERR(QN_CORRUPT, "%s: the magic number is 0x%02x%02x%02x%02x, expected 0x0000%02x%02x", f->path, head[0],
                  head[1], head[2], head[3], IDX_U8, (unsigned)rank);
  if (got < size)
    return QN_ERR(QN_CORRUPT, "%s: truncated: the header has %zu bytes, expected %zu", f->path, got, size);
  f->rank = rank;
  f->row_bytes = 1;
  for (int i = 0; i < rank; i++) {
    const uint8_t *b = head + 4 + (size_t)i * 4;
    f->dims[i] = (size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3];
    if (i > 0 && (f->dims[i] == 0 || f->dims[i] > MAX_SIDE))
      return QN_ERR(QN_CORRUPT, "%s: dimension %d is %zu, expected 1 to %d", f->path, i, f->dims[i], MAX_SIDE);
    f->row_bytes *= i > 0 ? f->dims[i] : 1;
  }
  return QN_OK;
}

static qn_status truncated(const idx_file *f, uint64_t got) {
  return QN_ERR(QN_CORRUPT, "%s: truncated: %llu bytes of elements, expected %llu (%zu rows of %zu)", f->path,
                (unsigned long long)got, (unsigned long long)f->dims[0] * f->row_bytes, f->dims[0], f->row_bytes);
}

/* A plain file's size is known before it is read; a gzip stream tells at its end. */
static qn_status check_size(const idx_file *f) {
  struct stat about;
  uint64_t header = 4 + (uint64_t)f->rank * 4, want = (uint64_t)f->dims[0] * f->row_bytes;
  if (!stream_is_plain(f->s) || stat(f->path, &about) != 0 || !S_ISREG(about.st_mode))
    return QN_OK;
  uint64_t size = (uint64_t)about.st_size;
  return size < header + want ? truncated(f, size > header ? size - header : 0) : QN_OK;
}

static qn_status open_file(const char *dir, const char *name, int rank, idx_file *out_f) {
  out_f->s = NULL;
  QN_TRY(find_file(dir, name, out_f->path, sizeof out_f->path));
  QN_TRY(stream_open(out_f->path, &out_f->s));
  QN_TRY(read_header(out_f, rank));
  return check_size(out_f);
}

/* Rows first .. first + count, malloc'd; the rest is read and dropped. */
static qn_status read_rows(idx_file *f, size_t first, size_t count, uint8_t **out_rows) {
  static const size_t slice = 1 << 20;
  uint64_t begin = (uint64_t)first * f->row_bytes, end = (uint64_t)(first + count) * f->row_bytes;
  uint64_t total = (uint64_t)f->dims[0] * f->row_bytes;
  uint8_t *rows = NULL, dropped[4096];
  size_t capacity = 0, got = 0;
  qn_status st = QN_OK;
  *out_rows = NULL;
  for (uint64_t at = 0; at < total && st == QN_OK; at += got) {
    bool wanted = at >= begin && at < end;
    uint64_t stop = at < begin ? begin : wanted ? end : total;
    size_t limit = wanted ? slice : sizeof dropped;
    size_t want = stop - at < limit ? (size_t)(stop - at) : limit;
    if (wanted && !QN_RESERVE(rows, capacity, (size_t)(at - begin) + want))
      st = QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory for %llu bytes", f->path, (unsigned long long)(end - begin));
    if (st == QN_OK)
      st = stream_read(f->s, f->path, wanted ? rows + (at - begin) : dropped, want, &got);
    if (st == QN_OK && got < want)
      st = truncated(f, at + got);
  }
  if (st == QN_OK)
    st = stream_read(f->s, f->path, dropped, 1, &got);
  if (st == QN_OK && got)
    st = QN_ERR(QN_CORRUPT, "%s: bytes behind the %zu rows of %zu that the header promises", f->path, f->dims[0],
                f->row_bytes);
  if (st == QN_OK && !rows && !(rows = malloc(1)))
    st = QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory", f->path);
  if (st != QN_OK) {
    free(rows);
    return qn_error_trace(st, __FILE__, __LINE__, "read_rows");
  }
  *out_rows = rows;
  return QN_OK;
}

static qn_status check_labels(const idx_file *f, size_t first, const qn_images *im) {
  for (size_t i = 0; i < im->count; i++)
    if (im->labels[i] > MAX_LABEL)
      return QN_ERR(QN_CORRUPT, "%s: label %zu is %u, expected 0 to %d", f->path, first + i, (unsigned)im->labels[i],
                    MAX_LABEL);
  return QN_OK;
}

static qn_status open_pair(idx_file *images, idx_file *labels, const char *dir, bool train) {
  QN_TRY(open_file(dir, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", 3, images));
  QN_TRY(open_file(dir, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", 1, labels));
  if (labels->dims[0] != images->dims[0])
    return QN_ERR(QN_CORRUPT, "%s has %zu labels, expected %zu as there are images in %s", labels->path,
                  labels->dims[0], images->dims[0], images->path);
  return QN_OK;
}

static qn_status load(idx_file *images, idx_file *labels, const char *dir, bool train, size_t first, size_t count,
                      qn_images *out_images) {
  QN_TRY(open_pair(images, labels, dir, train));
  size_t there = images->dims[0];
  if (first > there || count > there - first)
    return QN_ERR(QN_INVALID, "%s has %zu images, %zu from image %zu on were asked for", images->path, there, count,
                  first);
  out_images->count = count ? count : there - first;
  out_images->rows = images->dims[1];
  out_images->columns = images->dims[2];
  QN_TRY(read_rows(images, first, out_images->count, &out_images->pixels));
  QN_TRY(read_rows(labels, first, out_images->count, &out_images->labels));
  QN_TRY(check_labels(labels, first, out_images));
  return QN_OK;
}

static void close_file(idx_file *f) {
  if (f->s)
    stream_close(f->s);
  f->s = NULL;
}

qn_status qn_images_load(const char *dir, bool train, size_t first, size_t count, qn_images *out_images) {
  *out_images = (qn_images){0};
  idx_file *files = calloc(2, sizeof *files);
  if (!files)
    return QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory", dir);
  qn_status st = load(&files[0], &files[1], dir, train, first, count, out_images);
  close_file(&files[0]);
  close_file(&files[1]);
  free(files);
  if (st != QN_OK) {
    qn_images_free(out_images);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_images_load");
  }
  return QN_OK;
}

/* ---- in the background ---- */

struct qn_images_loader {
  idx_file images, labels;
  uint8_t *pixels;
  qn_thread thread;
  bool started;
  qn_mutex mutex;
  qn_cond more;
  size_t rows;          /* there already */
  bool stop;            /* nobody wants the rest */
  qn_error_copy failed; /* code QN_OK: not */
};

static void publish(qn_images_loader *l, size_t rows, qn_status st, bool *out_stop) {
  qn_mutex_lock(&l->mutex);
  l->rows = rows;
  if (st != QN_OK)
    qn_error_save(st, &l->failed);
  *out_stop = l->stop;
  qn_cond_broadcast(&l->more);
  qn_mutex_unlock(&l->mutex);
}

static void inflate_rows(void *arg) {
  enum { SLICE_ROWS = 512 };
  qn_images_loader *l = arg;
  idx_file *f = &l->images;
  size_t got, at = 0;
  bool stop = false;
  qn_status st = QN_OK;
  while (at < f->dims[0] && st == QN_OK && !stop) {
    size_t rows = f->dims[0] - at < SLICE_ROWS ? f->dims[0] - at : SLICE_ROWS, want = rows * f->row_bytes;
    st = stream_read(f->s, f->path, l->pixels + at * f->row_bytes, want, &got);
    if (st == QN_OK && got < want)
      st = truncated(f, (uint64_t)at * f->row_bytes + got);
    at += st == QN_OK ? rows : 0;
    uint8_t behind;
    if (st == QN_OK && at == f->dims[0])
      st = stream_read(f->s, f->path, &behind, 1, &got);
    if (st == QN_OK && at == f->dims[0] && got)
      st = QN_ERR(QN_CORRUPT, "%s: bytes behind the %zu rows of %zu that the header promises", f->path, f->dims[0],
                  f->row_bytes);
    publish(l, at, st, &stop);
  }
}

static qn_status begin(qn_images_loader *l, const char *dir, bool train, qn_images *out_images) {
  QN_TRY(open_pair(&l->images, &l->labels, dir, train));
  const idx_file *f = &l->images;
  out_images->count = f->dims[0];
  out_images->rows = f->dims[1];
  out_images->columns = f->dims[2];
  QN_TRY(read_rows(&l->labels, 0, f->dims[0], &out_images->labels));
  QN_TRY(check_labels(&l->labels, 0, out_images));
  l->pixels = out_images->pixels = malloc(f->dims[0] * f->row_bytes + 1);
  if (!l->pixels)
    return QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory for %zu images", f->path, f->dims[0]);
  QN_TRY(qn_thread_start(&l->thread, inflate_rows, l));
  l->started = true;
  return QN_OK;
}

qn_status qn_images_begin(const char *dir, bool train, qn_images *out_images) {
  *out_images = (qn_images){0};
  qn_images_loader *l = calloc(1, sizeof *l);
  if (!l)
    return QN_ERR(QN_OUT_OF_MEMORY, "read %s: no memory", dir);
  qn_status st = qn_mutex_init(&l->mutex);
  if (st == QN_OK && (st = qn_cond_init(&l->more)) != QN_OK)
    qn_mutex_destroy(&l->mutex);
  if (st != QN_OK) {
    free(l);
    return st;
  }
  out_images->loader = l;
  st = begin(l, dir, train, out_images);
  if (st != QN_OK) {
    qn_images_free(out_images);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_images_begin");
  }
  return QN_OK;
}

qn_status qn_images_wait(const qn_images *im, size_t rows) {
  qn_images_loader *l = im->loader;
  if (!l)
    return QN_OK;
  qn_mutex_lock(&l->mutex);
  while (l->rows < rows && l->failed.code == QN_OK)
    qn_cond_wait(&l->more, &l->mutex);
  qn_error_copy failed = l->failed;
  qn_mutex_unlock(&l->mutex);
  return failed.code == QN_OK ? QN_OK : qn_error_restore(&failed);
}

static void loader_free(qn_images_loader *l) {
  if (l->started) {
    qn_mutex_lock(&l->mutex);
    l->stop = true;
    qn_mutex_unlock(&l->mutex);
    qn_thread_join(l->thread);
  }
  close_file(&l->images);
  close_file(&l->labels);
  qn_cond_destroy(&l->more);
  qn_mutex_destroy(&l->mutex);
  free(l);
}

void qn_images_free(qn_images *im) {
  if (im->loader)
    loader_free(im->loader);
  free(im->pixels);
  free(im->labels);
  *im = (qn_images){0};
}
