/* NumPy's .npz: a zip whose members are npy files. The reader goes by the central directory, trusts none of its numbers, and knows stored and
 * deflated members and the 64-bit extension that numpy.savez always writes; the writer stores. */
#include "quern/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#ifdef QN_HAVE_ZLIB
#include <zlib.h>
#endif

enum { END_SIZE = 22, ENTRY_SIZE = 46, LOCAL_SIZE = 30, MOST_COMMENT = 65535, STORED = 0, DEFLATED = 8 };
#define END_MARK UINT32_C(0x06054b50)
#define ENTRY_MARK UINT32_C(0x02014b50)
#define LOCAL_MARK UINT32_C(0x04034b50)
#define END64_MARK UINT32_C(0x06064b50)
#define LOCATOR64_MARK UINT32_C(0x07064b50)

struct qn_npz {
  qn_arena names;
  qn_safetensor *arrays;
  size_t count, capacity;
};

void qn_npz_close(qn_npz *f) {
  if (!f)
    return;
  for (size_t i = 0; i < f->count; i++)
    free((void *)f->arrays[i].data);
  free(f->arrays);
  qn_arena_free(&f->names);
  free(f);
}

size_t qn_npz_count(const qn_npz *f) { return f->count; }
const qn_safetensor *qn_npz_at(const qn_npz *f, size_t index) { return &f->arrays[index]; }

static uint64_t get(const uint8_t *b, int bytes) {
  uint64_t x = 0;
  for (int i = 0; i < bytes; i++)
    x |= (uint64_t)b[i] << (8 * i);
  return x;
}

static uint32_t checksum(const void *data, size_t size) {
#ifdef QN_HAVE_ZLIB
  uLong c = crc32(0, Z_NULL, 0);
  for (size_t at = 0; at < size; at += 1 << 30)
    c = crc32(c, (const Bytef *)data + at, (uInt)(size - at < 1 << 30 ? size - at : 1 << 30));
  return (uint32_t)c;
#else
  uint32_t c = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    c ^= ((const uint8_t *)data)[i];
    for (int k = 0; k < 8; k++)
      c = c >> 1 ^ (c & 1 ? UINT32_C(0xedb88320) : 0);
  }
  return ~c;
#endif
}

/* ---- reading ---- */
typedef struct member {
  char name[256];
  int method;
  uint32_t crc;
  uint64_t packed, size, local;
} member;

static qn_status damaged(const char *path, const char *what) {
  return QN_ERR(QN_CORRUPT, "%s: no npz file, or cut short: %s", path, what);
}

/* Where the central directory lies, and how many members it lists. */
static qn_status find_directory(const char *path, const qn_bytes *f, uint64_t *out_at, uint64_t *out_count) {
  if (f->size < END_SIZE)
    return damaged(path, "no directory");
  size_t least = f->size > END_SIZE + MOST_COMMENT ? f->size - END_SIZE - MOST_COMMENT : 0, at = f->size - END_SIZE;
  while (get(f->data + at, 4) != END_MARK) {
    if (at == least)
      return damaged(path, "no directory");
    at--;
  }
  *out_count = get(f->data + at + 10, 2);
  *out_at = get(f->data + at + 16, 4);
  if ((*out_at == UINT32_MAX || *out_count == UINT16_MAX) && at >= 20 && get(f->data + at - 20, 4) == LOCATOR64_MARK) {
    uint64_t end = get(f->data + at - 12, 8);
    if (end > f->size || f->size - end < 56 || get(f->data + end, 4) != END64_MARK)
      return damaged(path, "the directory's end is not where it should be");
    *out_count = get(f->data + end + 32, 8);
    *out_at = get(f->data + end + 48, 8);
  }
  return *out_at <= f->size ? QN_OK : damaged(path, "the directory lies outside of the file");
}

/* The 64-bit sizes of an entry's extra field, for those that are all ones. */
static void read_extra(const uint8_t *b, size_t n, member *m) {
  for (size_t at = 0; at + 4 <= n;) {
    size_t id = (size_t)get(b + at, 2), length = (size_t)get(b + at + 2, 2), k = at + 4, end = k + length;
    if (end > n)
      return;
    uint64_t *const wide[3] = {&m->size, &m->packed, &m->local};
    for (int i = 0; id == 1 && i < 3; i++)
      if (*wide[i] == UINT32_MAX && k + 8 <= end) {
        *wide[i] = get(b + k, 8);
        k += 8;
      }
    at = end;
  }
}

static qn_status read_entry(const char *path, const qn_bytes *f, uint64_t *at, member *m) {
  if (f->size - *at < ENTRY_SIZE || get(f->data + *at, 4) != ENTRY_MARK)
    return damaged(path, "the directory ends early");
  const uint8_t *b = f->data + *at;
  size_t name = (size_t)get(b + 28, 2), extra = (size_t)get(b + 30, 2), comment = (size_t)get(b + 32, 2);
  if (f->size - *at - ENTRY_SIZE < name + extra + comment)
    return damaged(path, "the directory ends early");
  if (name >= sizeof m->name || memchr(b + ENTRY_SIZE, 0, name))
    return damaged(path, "a member's name is too long or holds a zero");
  *m = (member){.method = (int)get(b + 10, 2),
                .crc = (uint32_t)get(b + 16, 4),
                .packed = get(b + 20, 4),
                .size = get(b + 24, 4),
                .local = get(b + 42, 4)};
  memcpy(m->name, b + ENTRY_SIZE, name);
  read_extra(b + ENTRY_SIZE + name, extra, m);
  if (get(b + 8, 2) & 1)
    return QN_ERR(QN_UNSUPPORTED, "%s: its members are encrypted", path);
  *at += ENTRY_SIZE + name + extra + comment;
  return QN_OK;
}

static qn_status inflate_all(const char *path, const member *m, const uint8_t *from, uint8_t *to) {
#ifdef QN_HAVE_ZLIB
  z_stream z = {0};
  if (m->packed > UINT32_MAX || m->size > UINT32_MAX)
    return QN_ERR(QN_UNSUPPORTED, "%s: a compressed member of more than 4 GiB", path);
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to decompress", path);
  z.next_in = (Bytef *)(uintptr_t)from;
  z.avail_in = (uInt)m->packed;
  z.next_out = to;
  z.avail_out = (uInt)m->size;
  int code = inflate(&z, Z_FINISH);
  bool whole = code == Z_STREAM_END && z.avail_out == 0;
  (void)inflateEnd(&z);
  return whole ? QN_OK : damaged(path, "a compressed member is damaged");
#else
  (void)m, (void)from, (void)to;
  return QN_ERR(QN_UNSUPPORTED, "%s: its members are compressed, and this build has no zlib", path);
#endif
}

static qn_status unpack(const char *path, const qn_bytes *f, const member *m, uint8_t **out) {
  *out = NULL;
  if (m->local > f->size || f->size - m->local < LOCAL_SIZE || get(f->data + m->local, 4) != LOCAL_MARK)
    return damaged(path, "a member is not where the directory says");
  uint64_t at = m->local + LOCAL_SIZE + get(f->data + m->local + 26, 2) + get(f->data + m->local + 28, 2);
  if (at > f->size || f->size - at < m->packed)
    return damaged(path, "a member lies outside of the file");
  if (m->method != STORED && m->method != DEFLATED)
    return QN_ERR(QN_UNSUPPORTED, "%s: compression method %d, expected stored or deflated", path, m->method);
  /* Deflate shrinks by at most 1032 to 1: a larger size is a lie, and no memory is taken for it. */
  if (m->method == STORED ? m->size != m->packed : m->size / 1032 > m->packed + 1)
    return damaged(path, "a member's size does not fit its data");
  uint8_t *data = malloc((size_t)m->size + 1);
  if (!data)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for %s of %" PRIu64 " bytes", path, m->name, m->size);
  qn_status st = QN_OK;
  if (m->method == STORED)
    memcpy(data, f->data + at, (size_t)m->size);
  else
    st = inflate_all(path, m, f->data + at, data);
  if (st == QN_OK && checksum(data, (size_t)m->size) != m->crc)
    st = damaged(path, "a member's checksum is wrong");
  if (st != QN_OK) {
    free(data);
    return st;
  }
  *out = data;
  return QN_OK;
}

static qn_status add_array(qn_npz *z, const char *path, const qn_bytes *f, const member *m) {
  uint8_t *npy = NULL;
  void *data = NULL;
  char label[1024];
  qn_safetensor t = {0};
  QN_TRY(unpack(path, f, m, &npy));
  (void)snprintf(label, sizeof label, "%.700s: %s", path, m->name);
  qn_status st = qn_npy_parse(label, npy, (size_t)m->size, &t.type, &data);
  free(npy);
  QN_TRY(st);
  size_t n = strlen(m->name);
  t.name =
      qn_arena_printf(&z->names, "%.*s", (int)(n > 4 && strcmp(m->name + n - 4, ".npy") == 0 ? n - 4 : n), m->name);
  t.data = data;
  t.bytes = (size_t)qn_type_bytes(&t.type);
  if (!t.name || !QN_RESERVE(z->arrays, z->capacity, z->count + 1)) {
    free(data);
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for its arrays", path);
  }
  z->arrays[z->count++] = t;
  return QN_OK;
}

static qn_status read_all(qn_npz *z, const char *path, const qn_bytes *f) {
  uint64_t at = 0, count = 0;
  QN_TRY(find_directory(path, f, &at, &count));
  for (uint64_t i = 0; i < count; i++) {
    member m;
    QN_TRY(read_entry(path, f, &at, &m));
    QN_TRY(add_array(z, path, f, &m));
  }
  return QN_OK;
}

qn_status qn_npz_open(const char *path, qn_npz **out_file) {
  qn_bytes file;
  *out_file = NULL;
  QN_TRY(qn_file_read(path, &file));
  qn_npz *z = calloc(1, sizeof *z);
  qn_status st = z ? read_all(z, path, &file) : QN_ERR(QN_OUT_OF_MEMORY, "no memory to read %s", path);
  free(file.data);
  if (st != QN_OK) {
    qn_npz_close(z);
    return st;
  }
  *out_file = z;
  return QN_OK;
}

/* ---- writing ---- */
static void put(qn_text *t, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++) {
    char c = (char)(x >> (8 * i) & 255);
    qn_text_putn(t, &c, 1);
  }
}

/* What local header and directory entry have in common, from the version needed on. */
static void put_common(qn_text *t, uint32_t crc, uint64_t size, size_t name, int extra) {
  put(t, 20, 2);
  put(t, 0, 2);
  put(t, STORED, 2);
  put(t, UINT64_C(0x00210000), 4); /* 1980-01-01, so that equal arrays make equal files */
  put(t, crc, 4);
  put(t, size, 4);
  put(t, size, 4);
  put(t, name + 4, 2);
  put(t, (uint64_t)extra, 2);
}

static qn_status put_array(const char *path, const qn_safetensor *a, qn_text *file, qn_text *directory) {
  qn_bytes npy;
  QN_TRY(qn_npy_format(&a->type, a->data, &npy));
  size_t name = strlen(a->name), at = file->len;
  if (npy.size >= UINT32_MAX || at >= UINT32_MAX) {
    free(npy.data);
    return QN_ERR(QN_UNSUPPORTED, "%s: npz files of more than 4 GiB are not written; safetensors files are", path);
  }
  uint32_t crc = checksum(npy.data, npy.size);
  put(file, LOCAL_MARK, 4);
  put_common(file, crc, npy.size, name, 0);
  qn_text_add(file, "%s.npy", a->name);
  qn_text_putn(file, (const char *)npy.data, npy.size);
  put(directory, ENTRY_MARK, 4);
  put(directory, 20, 2);
  put_common(directory, crc, npy.size, name, 0);
  put(directory, 0, 6); /* no comment, disk 0, plain attributes */
  put(directory, 0, 4);
  put(directory, at, 4);
  qn_text_add(directory, "%s.npy", a->name);
  free(npy.data);
  return QN_OK;
}

qn_status qn_npz_write(const char *path, const qn_safetensor *arrays, size_t count) {
  qn_text file = {0}, directory = {0};
  qn_status st = QN_OK;
  if (count >= UINT16_MAX)
    return QN_ERR(QN_UNSUPPORTED, "%s: %zu arrays, an npz file takes at most 65534", path, count);
  for (size_t i = 0; i < count; i++)
    QN_TRY_GOTO(st, put_array(path, &arrays[i], &file, &directory), done);
  size_t at = file.len;
  if (directory.len)
    qn_text_putn(&file, directory.buf, directory.len);
  put(&file, END_MARK, 4);
  put(&file, 0, 4);
  put(&file, count, 2);
  put(&file, count, 2);
  put(&file, directory.len, 4);
  put(&file, at, 4);
  put(&file, 0, 2);
  QN_TRY_GOTO(st, qn_text_check(&file), done);
  QN_TRY_GOTO(st, qn_text_check(&directory), done);
  QN_TRY_GOTO(st, qn_file_write_atomic(path, file.buf, file.len), done);
done:
  qn_text_free(&file);
  qn_text_free(&directory);
  return st;
}
