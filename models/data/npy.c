/* NumPy's array format: a magic number, a header that is a Python dict as text, then the elements. */
#include "quern/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC = 6, ALIGN = 64, MOST_HEADER = 1 << 20 };

/* ---- names of element types ---- */
static const struct {
  const char *descr; /* behind the byte order */
  qn_dtype dtype;
} descrs[] = {
    {"b1", QN_BOOL}, {"i1", QN_I8},  {"i2", QN_I16}, {"i4", QN_I32},   {"i8", QN_I64},
    {"u1", QN_U8},   {"u2", QN_U16}, {"u4", QN_U32}, {"u8", QN_U64},   {"f2", QN_F16},
    {"f4", QN_F32},  {"f8", QN_F64}, {"c8", QN_C64}, {"c16", QN_C128}, {"V2", QN_BF16},
};

static qn_dtype find_dtype(const char *descr) {
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
    if (strcmp(descrs[i].descr, descr) == 0)
      return descrs[i].dtype;
  return QN_DTYPE_NONE;
}

/* ---- the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ---- */
typedef struct header {
  const char *name, *at, *end;
  qn_type type;
  bool fortran, has_descr, has_order, has_shape;
} header;

static qn_status damaged(const header *h, const char *what) {
  return QN_ERR(QN_CORRUPT, "%s: damaged npy header, expected %s", h->name, what);
}

static void skip_space(header *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
    h->at++;
}

static bool take(header *h, char c) {
  skip_space(h);
  if (h->at >= h->end || *h->at != c)
    return false;
  h->at++;
  return true;
}

static bool take_word(header *h, const char *word) {
  size_t n = strlen(word);
  skip_space(h);
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
    return false;
  h->at += n;
  return true;
}

/* 'text' or "text" */
static bool take_string(header *h, char *out, size_t room) {
  char quote = take(h, '\'') ? '\'' : take(h, '"') ? '"' : '\0';
  size_t n = 0;
  if (!quote)
    return false;
  while (h->at < h->end && *h->at != quote && n + 1 < room)
    out[n++] = *h->at++;
  out[n] = '\0';
  if (h->at >= h->end || *h->at != quote)
    return false;
  h->at++;
  return true;
}

static qn_status read_descr(header *h) {
  char text[32];
  if (!take_string(h, text, sizeof text))
    return QN_ERR(QN_UNSUPPORTED, "%s: the elements are records or have no plain type", h->name);
  const char *plain = text[0] == '<' || text[0] == '|' || text[0] == '=' ? text + 1 : text;
  h->type.dtype = find_dtype(plain);
  if (text[0] == '>')
    return QN_ERR(QN_UNSUPPORTED, "%s: elements are big-endian ('%.8s'), expected little-endian", h->name, text);
  if (h->type.dtype == QN_DTYPE_NONE) {
    qn_text safe = {0};
    qn_text_json_string(&safe, text);
    qn_status st = QN_ERR(QN_UNSUPPORTED, "%s: elements of type %s, expected bool, integers, floats or complex numbers",
                          h->name, safe.buf ? safe.buf : "");
    qn_text_free(&safe);
    return st;
  }
  h->has_descr = true;
  return QN_OK;
}

static qn_status read_shape(header *h) {
  if (!take(h, '('))
    return damaged(h, "a shape in parentheses");
  while (!take(h, ')')) {
    int64_t d = 0;
    skip_space(h);
    if (h->at >= h->end || *h->at < '0' || *h->at > '9')
      return damaged(h, "a dimension");
    if (h->type.rank == QN_MAX_RANK)
      return QN_ERR(QN_UNSUPPORTED, "%s: more than %d dimensions", h->name, (int)QN_MAX_RANK);
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
      if (d > INT64_MAX / 16)
        return damaged(h, "a dimension that fits in memory");
      d = d * 10 + (*h->at - '0');
    }
    h->type.dims[h->type.rank++] = d;
    (void)take(h, 'L');
    if (!take(h, ',') && (h->at >= h->end || *h->at != ')'))
      return damaged(h, "',' or ')' in the shape");
  }
  h->has_shape = true;
  return QN_OK;
}

static qn_status read_header(header *h) {
  char key[32];
  if (!take(h, '{'))
    return damaged(h, "a dictionary");
  while (!take(h, '}')) {
    if (!take_string(h, key, sizeof key) || !take(h, ':'))
      return damaged(h, "a key and ':'");
    if (strcmp(key, "descr") == 0) {
      QN_TRY(read_descr(h));
    } else if (strcmp(key, "shape") == 0) {
      QN_TRY(read_shape(h));
    } else if (strcmp(key, "fortran_order") == 0) {
      h->fortran = take_word(h, "True");
      if (!h->fortran && !take_word(h, "False"))
        return damaged(h, "True or False as fortran_order");
      h->has_order = true;
    } else {
      return damaged(h, "only descr, fortran_order and shape as keys");
    }
    if (!take(h, ',') && (h->at >= h->end || *h->at != '}'))
      return damaged(h, "',' or '}'");
  }
  return h->has_descr && h->has_order && h->has_shape ? QN_OK : damaged(h, "descr, fortran_order and shape");
}

/* ---- elements ---- */

/* Bytes of an array; false when those of its axes that are not empty do not fit 62 bits. */
static bool array_bytes(const qn_type *t, uint64_t *out) {
  uint64_t n = qn_dtype_size(t->dtype);
  bool empty = false;
  for (int i = 0; i < t->rank; i++) {
    empty = empty || t->dims[i] == 0;
    if (t->dims[i] == 0)
      continue;
    if (n > (UINT64_C(1) << 62) / (uint64_t)t->dims[i])
      return false;
    n *= (uint64_t)t->dims[i];
  }
  *out = empty ? 0 : n;
  return true;
}

/* Elements with the first index running fastest, put in row-major order. */
static void from_fortran(const qn_type *t, const uint8_t *from, uint8_t *to) {
  int64_t stride[QN_MAX_RANK], at[QN_MAX_RANK] = {0}, step = 1, count = qn_type_elements(t), place = 0;
  size_t size = qn_dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    stride[i] = step;
    step *= t->dims[i];
  }
  for (int64_t k = 0; k < count; k++) {
    memcpy(to + (size_t)k * size, from + (size_t)place * size, size);
    for (int i = t->rank - 1; i >= 0; i--) {
      place += stride[i];
      if (++at[i] < t->dims[i])
        break;
      place -= stride[i] * t->dims[i];
      at[i] = 0;
    }
  }
}

/* Length of the preamble, and where the header's text lies. */
static qn_status find_header(const char *name, const uint8_t *b, size_t size, header *h, size_t *out_data) {
  if (size < MAGIC + 4 || memcmp(b, magic, MAGIC) != 0)
    return QN_ERR(QN_CORRUPT, "%s: no npy file, or cut short", name);
  size_t wide = b[MAGIC] == 1 ? 2 : 4, at = MAGIC + 2, length = 0;
  if (b[MAGIC] < 1 || b[MAGIC] > 3)
    return QN_ERR(QN_UNSUPPORTED, "%s: npy format %u.%u, expected 1.0 to 3.0", name, b[MAGIC], b[MAGIC + 1]);
  if (size < at + wide)
    return QN_ERR(QN_CORRUPT, "%s: cut short in the npy header", name);
  for (size_t i = 0; i < wide; i++)
    length |= (size_t)b[at + i] << (8 * i);
  at += wide;
  if (length > size - at || length > MOST_HEADER)
    return QN_ERR(QN_CORRUPT, "%s: the npy header's length is %zu, but %zu bytes are left", name, length, size - at);
  *h = (header){.name = name, .at = (const char *)b + at, .end = (const char *)b + at + length};
  *out_data = at + length;
  return QN_OK;
}

qn_status qn_npy_parse(const char *name, const void *bytes, size_t size, qn_type *out_type, void **out_data) {
  header h;
  size_t at = 0;
  uint64_t need = 0;
  const uint8_t *b = bytes;
  *out_data = NULL;
  *out_type = (qn_type){0};
  QN_TRY(find_header(name, b, size, &h, &at));
  QN_TRY(read_header(&h));
  if (!array_bytes(&h.type, &need) || need != size - at)
    return QN_ERR(QN_CORRUPT, "%s: %s needs %" PRIu64 " bytes, the file has %zu: cut short or damaged", name,
                  qn_type_str(&h.type), need, size - at);
  uint8_t *data = malloc((size_t)need + 1);
  if (!data)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for %s", name, qn_type_str(&h.type));
  if (h.fortran && h.type.rank > 1)
    from_fortran(&h.type, b + at, data);
  else
    memcpy(data, b + at, (size_t)need);
  *out_type = h.type;
  *out_data = data;
  return QN_OK;
}

qn_status qn_npy_read(const char *path, qn_type *out_type, void **out_data) {
  qn_bytes file;
  *out_data = NULL;
  QN_TRY(qn_file_read(path, &file));
  qn_status st = qn_npy_parse(path, file.data, file.size, out_type, out_data);
  free(file.data);
  return st;
}

/* ---- writing ---- */
static void add_header(const qn_type *t, const char *descr, qn_text *h) {
  bool bytes = qn_dtype_size(t->dtype) == 1 || t->dtype == QN_BF16;
  qn_text_add(h, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", bytes ? '|' : '<', descr);
  for (int i = 0; i < t->rank; i++)
    qn_text_add(h, "%s%" PRId64, i ? ", " : "", t->dims[i]);
  qn_text_puts(h, t->rank == 1 ? ",), }" : "), }");
  while (!h->failed && (MAGIC + 4 + h->len + 1) % ALIGN)
    qn_text_puts(h, " ");
  qn_text_puts(h, "\n");
}

qn_status qn_npy_format(const qn_type *type, const void *data, qn_bytes *out_bytes) {
  const char *descr = NULL;
  *out_bytes = (qn_bytes){0};
  for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
    if (descrs[i].dtype == type->dtype)
      descr = descrs[i].descr;
  if (!descr)
    return QN_ERR(QN_INVALID, "npy: no name for elements of %s", qn_type_str(type));
  qn_text h = {0};
  add_header(type, descr, &h);
  size_t bytes = (size_t)qn_type_bytes(type), at = MAGIC + 4 + h.len;
  uint8_t *all = h.failed ? NULL : malloc(at + bytes);
  if (!all) {
    qn_text_free(&h);
    return QN_ERR(QN_OUT_OF_MEMORY, "npy: no memory for %s", qn_type_str(type));
  }
  memcpy(all, magic, MAGIC);
  all[MAGIC] = 1;
  all[MAGIC + 1] = 0;
  all[MAGIC + 2] = (uint8_t)h.len;
  all[MAGIC + 3] = (uint8_t)(h.len >> 8);
  memcpy(all + MAGIC + 4, h.buf, h.len);
  if (bytes)
    memcpy(all + at, data, bytes);
  qn_text_free(&h);
  *out_bytes = (qn_bytes){all, at + bytes};
  return QN_OK;
}

qn_status qn_npy_write(const char *path, const qn_type *type, const void *data) {
  qn_bytes file;
  QN_TRY(qn_npy_format(type, data, &file));
  qn_status st = qn_file_write_atomic(path, file.data, file.size);
  free(file.data);
  return st;
}
