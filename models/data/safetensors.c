/* Safetensors files: a reader that trusts nothing in the header, and a writer that lays tensors out aligned. */
#include "quern/safetensors.h"

#include <stdlib.h>
#include <string.h>

#ifdef QN_HAVE_CJSON
#include <cjson/cJSON.h>
#endif

struct qn_safetensors {
  qn_arena arena; /* names and metadata */
  qn_bytes file;
  qn_safetensor *tensors;
  size_t count, capacity;
  qn_safetensors_pair *meta;
  size_t meta_count, meta_capacity;
};

void qn_safetensors_close(qn_safetensors *f) {
  if (!f)
    return;
  qn_arena_free(&f->arena);
  free(f->file.data);
  free(f->tensors);
  free(f->meta);
  free(f);
}

size_t qn_safetensors_count(const qn_safetensors *f) { return f->count; }
const qn_safetensor *qn_safetensors_at(const qn_safetensors *f, size_t index) { return &f->tensors[index]; }

const char *qn_safetensors_meta(const qn_safetensors *f, const char *key) {
  for (size_t i = 0; i < f->meta_count; i++)
    if (strcmp(f->meta[i].key, key) == 0)
      return f->meta[i].value;
  return NULL;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const qn_safetensor *)a)->name, ((const qn_safetensor *)b)->name);
}

const qn_safetensor *qn_safetensors_find(const qn_safetensors *f, const char *name) {
  qn_safetensor key = {.name = name};
  if (f->count == 0)
    return NULL;
  return bsearch(&key, f->tensors, f->count, sizeof *f->tensors, by_name);
}

/* ---- reading ---- */

#ifdef QN_HAVE_CJSON
static qn_status no_memory(const char *path) {
  return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for the tensors' names", path);
}

/* A non-negative whole number that a double holds exactly. */
static bool whole(const cJSON *x, uint64_t *out) {
  if (!cJSON_IsNumber(x) || !(x->valuedouble >= 0) || x->valuedouble > 9007199254740992.0)
    return false;
  *out = (uint64_t)x->valuedouble;
  return (double)*out == x->valuedouble;
}

/* Bytes of an array, false when they do not fit 62 bits. */
static bool array_bytes(const qn_type *t, uint64_t *out) {
  uint64_t n = qn_dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] == 0) {
      *out = 0;
      return true;
    }
  for (int i = 0; i < t->rank; i++) {
    if (n > (UINT64_C(1) << 62) / (uint64_t)t->dims[i])
      return false;
    n *= (uint64_t)t->dims[i];
  }
  *out = n;
  return true;
}

static qn_status read_type(const char *path, const cJSON *item, qn_type *out) {
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype"),
              *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"), *x;
  memset(out, 0, sizeof *out);
  out->dtype = cJSON_IsString(dtype) ? qn_dtype_parse(dtype->valuestring) : QN_DTYPE_NONE;
  if (out->dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_CORRUPT, "%s: tensor '%s' has the dtype '%s', which is none that Quern knows", path, item->string,
                  cJSON_IsString(dtype) ? dtype->valuestring : "(none)");
  if (!cJSON_IsArray(shape))
    return QN_ERR(QN_CORRUPT, "%s: tensor '%s' has no shape", path, item->string);
  cJSON_ArrayForEach(x, shape) {
    uint64_t d;
    if (out->rank == QN_MAX_RANK)
      return QN_ERR(QN_CORRUPT, "%s: tensor '%s' has more than %d dimensions", path, item->string, QN_MAX_RANK);
    if (!whole(x, &d))
      return QN_ERR(QN_CORRUPT, "%s: dimension %d of tensor '%s' is no size", path, out->rank, item->string);
    out->dims[out->rank++] = (int64_t)d;
  }
  return QN_OK;
}

static qn_status read_tensor(qn_safetensors *f, const char *path, const cJSON *item, uint64_t base) {
  qn_safetensor t = {0};
  uint64_t begin, end, bytes, room = f->file.size - base;
  QN_TRY(read_type(path, item, &t.type));
  const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
  if (cJSON_GetArraySize(offsets) != 2 || !whole(cJSON_GetArrayItem(offsets, 0), &begin) ||
      !whole(cJSON_GetArrayItem(offsets, 1), &end))
    return QN_ERR(QN_CORRUPT, "%s: tensor '%s' has no data_offsets", path, item->string);
  if (begin > end || end > room)
    return QN_ERR(
        QN_CORRUPT,
        "%s: tensor '%s' lies at bytes %llu to %llu of the data, which has %llu: the file is cut short or damaged",
        path, item->string, (unsigned long long)begin, (unsigned long long)end, (unsigned long long)room);
  if (!array_bytes(&t.type, &bytes) || end - begin != bytes)
    return QN_ERR(QN_CORRUPT, "%s: tensor '%s' is %s but has %llu bytes", path, item->string, qn_type_str(&t.type),
                  (unsigned long long)(end - begin));
  t.name = qn_arena_strdup(&f->arena, item->string);
  t.data = f->file.data + base + begin;
  t.bytes = (size_t)bytes;
  if (!t.name || !QN_RESERVE(f->tensors, f->capacity, f->count + 1))
    return no_memory(path);
  f->tensors[f->count++] = t;
  return QN_OK;
}

static qn_status read_meta(qn_safetensors *f, const char *path, const cJSON *item) {
  const cJSON *x;
  cJSON_ArrayForEach(x, item) {
    if (!cJSON_IsString(x))
      return QN_ERR(QN_CORRUPT, "%s: the value of '%s' in __metadata__ is no text", path, x->string ? x->string : "");
    if (!QN_RESERVE(f->meta, f->meta_capacity, f->meta_count + 1))
      return no_memory(path);
    qn_safetensors_pair *p = &f->meta[f->meta_count];
    p->key = qn_arena_strdup(&f->arena, x->string);
    p->value = qn_arena_strdup(&f->arena, x->valuestring);
    if (!p->key || !p->value)
      return no_memory(path);
    f->meta_count++;
  }
  return QN_OK;
}

static int by_place(const void *a, const void *b) {
  const uint8_t *x = ((const qn_safetensor *)a)->data, *y = ((const qn_safetensor *)b)->data;
  return x < y ? -1 : x > y;
}

static qn_status check_places(qn_safetensors *f, const char *path) {
  const qn_safetensor *last = NULL;
  if (f->count == 0)
    return QN_OK;
  qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
  for (size_t i = 0; i < f->count; i++) {
    const qn_safetensor *t = &f->tensors[i];
    if (t->bytes == 0)
      continue;
    if (last && (const uint8_t *)last->data + last->bytes > (const uint8_t *)t->data)
      return QN_ERR(QN_CORRUPT, "%s: tensors '%s' and '%s' overlap", path, last->name, t->name);
    last = t;
  }
  qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
  for (size_t i = 1; i < f->count; i++)
    if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0)
      return QN_ERR(QN_CORRUPT, "%s: tensor '%s' is there twice", path, f->tensors[i].name);
  return QN_OK;
}

static qn_status read_header(qn_safetensors *f, const char *path) {
  uint64_t length = 0;
  if (f->file.size < 8)
    return QN_ERR(QN_CORRUPT, "%s: %zu bytes are no safetensors file", path, f->file.size);
  for (int i = 0; i < 8; i++)
    length |= (uint64_t)f->file.data[i] << (8 * i);
  if (length > f->file.size - 8)
    return QN_ERR(QN_CORRUPT,
                  "%s: the header's length is %llu, but the file has %zu bytes: no safetensors file, or cut short",
                  path, (unsigned long long)length, f->file.size);
  cJSON *header = cJSON_ParseWithLength((const char *)f->file.data + 8, (size_t)length);
  const cJSON *item;
  qn_status st = QN_OK;
  if (!cJSON_IsObject(header)) {
    cJSON_Delete(header);
    return QN_ERR(QN_CORRUPT, "%s: the header is no JSON object", path);
  }
  cJSON_ArrayForEach(item, header) {
    bool meta = strcmp(item->string, "__metadata__") == 0;
    QN_TRY_GOTO(st, meta ? read_meta(f, path, item) : read_tensor(f, path, item, 8 + length), done);
  }
  QN_TRY_GOTO(st, check_places(f, path), done);
done:
  cJSON_Delete(header);
  return st;
}
#else
static qn_status read_header(qn_safetensors *f, const char *path) {
  (void)f;
  return QN_ERR(QN_UNSUPPORTED, "%s: this build has no JSON reader (libcjson-dev), so it reads no safetensors files",
                path);
}
#endif

qn_status qn_safetensors_open(const char *path, qn_safetensors **out_file) {
  *out_file = NULL;
  qn_safetensors *f = calloc(1, sizeof *f);
  if (!f)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to read %s", path);
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_file_read(path, &f->file), failed);
  QN_TRY_GOTO(st, read_header(f, path), failed);
  *out_file = f;
  return QN_OK;
failed:
  qn_safetensors_close(f);
  return st;
}

/* ---- writing ---- */

static const char *format_name(qn_dtype t) {
  static const char *const names[QN_DTYPE_COUNT] = {
      [QN_BOOL] = "BOOL", [QN_I8] = "I8",   [QN_I16] = "I16", [QN_I32] = "I32", [QN_I64] = "I64",
      [QN_U8] = "U8",     [QN_U16] = "U16", [QN_U32] = "U32", [QN_U64] = "U64", [QN_F16] = "F16",
      [QN_BF16] = "BF16", [QN_F32] = "F32", [QN_F64] = "F64",
  };
  return t < QN_DTYPE_COUNT ? names[t] : NULL;
}

static void add_header(qn_text *h, const qn_safetensor *t, uint64_t begin, uint64_t end) {
  qn_text_json_string(h, t->name);
  qn_text_add(h, ":{\"dtype\":\"%s\",\"shape\":[", format_name(t->type.dtype));
  for (int i = 0; i < t->type.rank; i++)
    qn_text_add(h, "%s%lld", i ? "," : "", (long long)t->type.dims[i]);
  qn_text_add(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
}

static void add_meta(qn_text *h, const qn_safetensors_pair *meta, size_t count) {
  qn_text_puts(h, "\"__metadata__\":{");
  for (size_t i = 0; i < count; i++) {
    if (i)
      qn_text_puts(h, ",");
    qn_text_json_string(h, meta[i].key);
    qn_text_puts(h, ":");
    qn_text_json_string(h, meta[i].value);
  }
  qn_text_puts(h, "}");
}

/* Header with its length, padded to a multiple of 8; *out_data: bytes of data behind it. Tensors in order of falling element size. */
static qn_status make_header(const qn_safetensor *tensors, size_t count, const qn_safetensors_pair *meta,
                             size_t meta_count, qn_text *h, uint64_t *out_data) {
  uint64_t at = 0;
  bool first = meta_count == 0;
  qn_text_puts(h, "{");
  if (meta_count)
    add_meta(h, meta, meta_count);
  for (size_t size = 8; size >= 1; size /= 2)
    for (size_t i = 0; i < count; i++) {
      if (!format_name(tensors[i].type.dtype))
        return QN_ERR(QN_INVALID, "tensor '%s' is %s, which safetensors files do not hold", tensors[i].name,
                      qn_type_str(&tensors[i].type));
      if (qn_dtype_size(tensors[i].type.dtype) != size)
        continue;
      uint64_t bytes = (uint64_t)qn_type_bytes(&tensors[i].type);
      qn_text_puts(h, first ? "" : ",");
      first = false;
      add_header(h, &tensors[i], at, at + bytes);
      at += bytes;
    }
  qn_text_puts(h, "}");
  while (!h->failed && h->len % 8)
    qn_text_puts(h, " ");
  *out_data = at;
  return qn_text_check(h);
}

qn_status qn_safetensors_write(const char *path, const qn_safetensor *tensors, size_t count,
                               const qn_safetensors_pair *meta, size_t meta_count) {
  qn_text h = {0};
  uint64_t data = 0;
  uint8_t *all = NULL;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, make_header(tensors, count, meta, meta_count, &h, &data), done);
  size_t at = 8 + h.len;
  all = malloc(at + (size_t)data);
  if (!all) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "no memory to write %s", path);
    goto done;
  }
  for (int i = 0; i < 8; i++)
    all[i] = (uint8_t)((uint64_t)h.len >> (8 * i));
  memcpy(all + 8, h.buf, h.len);
  for (size_t size = 8; size >= 1; size /= 2)
    for (size_t i = 0; i < count; i++) {
      size_t bytes = (size_t)qn_type_bytes(&tensors[i].type);
      if (qn_dtype_size(tensors[i].type.dtype) != size || bytes == 0)
        continue;
      memcpy(all + at, tensors[i].data, bytes);
      at += bytes;
    }
  QN_TRY_GOTO(st, qn_file_write_atomic(path, all, at), done);
done:
  free(all);
  qn_text_free(&h);
  return st;
}
