/* Arrays by number from npy, npz and safetensors files, and results to them. */
#include "arrays.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "quern/npy.h"

/* ---- life ---- */
qn_status qn_cli_arrays_create(const qn_graph *g, bool results, cli_arrays *out) {
  size_t count = results ? qn_graph_result_count(g) : qn_graph_param_count(g);
  *out = (cli_arrays){.items = calloc(count + 1, sizeof *out->items),
                      .owned = calloc(count + 1, sizeof *out->owned),
                      .results = results};
  if (!out->items || !out->owned)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a list of arrays");
  for (; out->count < count; out->count++) {
    qn_safetensor *t = &out->items[out->count];
    t->type = *qn_graph_type(g, results ? qn_graph_result(g, out->count) : qn_graph_param_at(g, out->count));
    t->bytes = (size_t)qn_type_bytes(&t->type);
    t->name = qn_arena_printf(&out->names, "%s%zu", results ? "out" : "in", out->count);
    if (!t->name)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a list of arrays");
  }
  return QN_OK;
}

static qn_status allocate(cli_arrays *a, size_t i) {
  if (!a->owned[i])
    a->owned[i] = calloc(a->items[i].bytes + 8, 1);
  a->items[i].data = a->owned[i];
  return a->owned[i]
             ? QN_OK
             : QN_ERR(QN_OUT_OF_MEMORY, "no memory for %s of %s", a->items[i].name, qn_type_str(&a->items[i].type));
}

qn_status qn_cli_arrays_allocate(cli_arrays *a) {
  for (size_t i = 0; i < a->count; i++)
    QN_TRY(allocate(a, i));
  return QN_OK;
}

void qn_cli_arrays_free(cli_arrays *a) {
  for (size_t i = 0; i < a->count; i++)
    free(a->owned[i]);
  free(a->items);
  free(a->owned);
  qn_arena_free(&a->names);
  *a = (cli_arrays){0};
}

/* ---- files ---- */
typedef enum format { FORMAT_NPY, FORMAT_NPZ, FORMAT_SAFETENSORS, FORMAT_NONE } format;

static format format_of(const char *path) {
  static const char *const endings[] = {".npy", ".npz", ".safetensors"};
  size_t n = strlen(path);
  for (int i = 0; i < FORMAT_NONE; i++) {
    size_t k = strlen(endings[i]);
    if (n > k && strcmp(path + n - k, endings[i]) == 0)
      return (format)i;
  }
  return FORMAT_NONE;
}

static qn_status unknown_format(const char *path) {
  return QN_ERR(QN_INVALID, "%s: expected a file name that ends with .npy, .npz or .safetensors", path);
}

/* ---- reading ---- */
static qn_status put(cli_arrays *a, size_t i, const char *path, const qn_type *type, const void *data) {
  qn_safetensor *want = &a->items[i];
  if (!qn_type_equal(type, &want->type))
    return QN_ERR(QN_INVALID, "%s: %s is %s, expected %s", path, want->name, qn_type_str(type),
                  qn_type_str(&want->type));
  if (want->data)
    return QN_ERR(QN_INVALID, "%s: %s is given twice", path, want->name);
  QN_TRY(allocate(a, i));
  if (want->bytes)
    memcpy(a->owned[i], data, want->bytes);
  return QN_OK;
}

/* A complex array from its parts. */
static qn_status put_parts(cli_arrays *a, size_t i, const char *path, const qn_safetensor *re,
                           const qn_safetensor *im) {
  qn_type part = a->items[i].type;
  part.dtype = qn_dtype_part(part.dtype);
  for (int k = 0; k < 2; k++) {
    const qn_type *t = k ? &im->type : &re->type;
    if (!qn_dtype_is_complex(a->items[i].type.dtype) || !qn_type_equal(t, &part))
      return QN_ERR(QN_INVALID, "%s: %s.%s is %s, expected the parts of %s", path, a->items[i].name, k ? "im" : "re",
                    qn_type_str(t), qn_type_str(&a->items[i].type));
  }
  if (a->items[i].data)
    return QN_ERR(QN_INVALID, "%s: %s is given twice", path, a->items[i].name);
  QN_TRY(allocate(a, i));
  size_t size = qn_dtype_size(part.dtype), count = a->items[i].bytes / (2 * size);
  uint8_t *to = a->owned[i];
  for (size_t e = 0; e < count; e++) {
    memcpy(to + 2 * e * size, (const uint8_t *)re->data + e * size, size);
    memcpy(to + (2 * e + 1) * size, (const uint8_t *)im->data + e * size, size);
  }
  return QN_OK;
}

typedef struct source { /* an open file with names */
  const char *path;
  qn_safetensors *tensors;
  qn_npz *npz;
} source;

static size_t source_count(const source *s) { return s->npz ? qn_npz_count(s->npz) : qn_safetensors_count(s->tensors); }
static const qn_safetensor *source_at(const source *s, size_t i) {
  return s->npz ? qn_npz_at(s->npz, i) : qn_safetensors_at(s->tensors, i);
}

static const qn_safetensor *source_find(const source *s, const char *name, const char *ending) {
  char full[64];
  (void)snprintf(full, sizeof full, "%s%s", name, ending);
  for (size_t i = 0; i < source_count(s); i++)
    if (strcmp(source_at(s, i)->name, full) == 0)
      return source_at(s, i);
  return NULL;
}

/* "in12" or "in12.re" is number 12 of "in"; false for another name. */
static bool number_of(const char *name, const char *prefix, size_t *out) {
  size_t n = strlen(prefix);
  char *end = NULL;
  if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9')
    return false;
  *out = (size_t)strtoull(name + n, &end, 10);
  return *end == '\0' || strcmp(end, ".re") == 0 || strcmp(end, ".im") == 0;
}

static qn_status read_named(cli_arrays *a, const source *s) {
  const char *prefix = a->results ? "out" : "in";
  size_t number = 0;
  for (size_t i = 0; i < source_count(s); i++)
    if (number_of(source_at(s, i)->name, prefix, &number) && number >= a->count)
      return QN_ERR(QN_INVALID, "%s: it has %s, but the program has only %zu %s", s->path, source_at(s, i)->name,
                    a->count, a->results ? "results" : "inputs");
  for (size_t i = 0; i < a->count; i++) {
    char positional[32];
    (void)snprintf(positional, sizeof positional, "arr_%zu", i);
    const qn_safetensor *t = source_find(s, a->items[i].name, ""), *re = source_find(s, a->items[i].name, ".re"),
                        *im = source_find(s, a->items[i].name, ".im");
    if (!t && s->npz)
      t = source_find(s, positional, "");
    if (t)
      QN_TRY(put(a, i, s->path, &t->type, t->data));
    else if (re && im)
      QN_TRY(put_parts(a, i, s->path, re, im));
  }
  return QN_OK;
}

static qn_status read_npy(cli_arrays *a, const char *path, size_t *position) {
  qn_type type;
  void *data = NULL;
  QN_TRY(qn_npy_read(path, &type, &data));
  qn_status st = *position < a->count ? put(a, *position, path, &type, data)
                                      : QN_ERR(QN_INVALID, "%s: one array too many, expected %zu", path, a->count);
  (*position)++;
  free(data);
  return st;
}

qn_status qn_cli_arrays_read(cli_arrays *a, const char *path, size_t *position) {
  format f = format_of(path);
  source s = {.path = path};
  if (f == FORMAT_NONE)
    return unknown_format(path);
  if (f == FORMAT_NPY)
    return read_npy(a, path, position);
  qn_status st = f == FORMAT_NPZ ? qn_npz_open(path, &s.npz) : qn_safetensors_open(path, &s.tensors);
  if (st == QN_OK)
    st = read_named(a, &s);
  qn_npz_close(s.npz);
  qn_safetensors_close(s.tensors);
  return st;
}

qn_status qn_cli_arrays_complete(const cli_arrays *a, const char *program) {
  for (size_t i = 0; i < a->count; i++)
    if (!a->items[i].data)
      return QN_ERR(QN_INVALID, "%s: %s of %s is missing (%zu are expected)", program, a->items[i].name,
                    qn_type_str(&a->items[i].type), a->count);
  return QN_OK;
}

/* ---- writing ---- */
qn_status qn_cli_arrays_check_name(const cli_arrays *a, const char *path) {
  format f = format_of(path);
  if (f == FORMAT_NONE)
    return unknown_format(path);
  if (f == FORMAT_NPY && a->count != 1)
    return QN_ERR(QN_INVALID,
                  "%s: an npy file holds one array, the program has %zu results; .npz and .safetensors hold "
                  "any number",
                  path, a->count);
  return QN_OK;
}

/* Complex arrays as two, NAME.re and NAME.im. */
static qn_status write_safetensors(const cli_arrays *a, const char *path) {
  qn_arena room = {0};
  qn_safetensor *list = QN_NEW(&room, qn_safetensor, 2 * a->count + 1);
  size_t n = 0;
  qn_status st = QN_OK;
  for (size_t i = 0; list && i < a->count; i++) {
    const qn_safetensor *t = &a->items[i];
    if (!qn_dtype_is_complex(t->type.dtype)) {
      list[n++] = *t;
      continue;
    }
    size_t size = t->type.dtype == QN_C64 ? 4 : 8, count = t->bytes / (2 * size);
    for (size_t k = 0; k < 2; k++) {
      uint8_t *part = qn_arena_alloc(&room, count * size + 1);
      list[n] = (qn_safetensor){.name = qn_arena_printf(&room, "%s.%s", t->name, k ? "im" : "re"),
                                .type = t->type,
                                .data = part,
                                .bytes = count * size};
      list[n].type.dtype = size == 4 ? QN_F32 : QN_F64;
      if (!part || !list[n++].name) {
        list = NULL;
        break;
      }
      for (size_t e = 0; e < count; e++)
        memcpy(part + e * size, (const uint8_t *)t->data + (2 * e + k) * size, size);
    }
  }
  st =
      list ? qn_safetensors_write(path, list, n, NULL, 0) : QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to write it", path);
  qn_arena_free(&room);
  return st;
}

qn_status qn_cli_arrays_write(const cli_arrays *a, const char *path) {
  QN_TRY(qn_cli_arrays_check_name(a, path));
  format f = format_of(path);
  if (f == FORMAT_NPY)
    return qn_npy_write(path, &a->items[0].type, a->items[0].data);
  return f == FORMAT_NPZ ? qn_npz_write(path, a->items, a->count) : write_safetensors(a, path);
}
