/* The safetensors format: named arrays in one file, behind a JSON header. Checkpoints, recorded inputs and results are such files.
 *
 * A file is 8 bytes of header length, the header (`name -> dtype, shape, data_offsets`, and `__metadata__` with strings), then raw little-endian,
 * row-major data. Everything is checked when a file is opened, so that what is handed out can be read without a look at its size. */
#ifndef QUERN_SAFETENSORS_H
#define QUERN_SAFETENSORS_H

#include "quern/base.h"
#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_safetensor {
  const char *name;
  qn_type type;
  const void *data; /* row-major, aligned for its dtype where the writer kept to the format */
  size_t bytes;
} qn_safetensor;

/* ---- reading ---- */
typedef struct qn_safetensors qn_safetensors;
/* Reads the whole file. QN_CORRUPT names the file, the tensor and what is wrong: truncation, bad JSON, an unknown dtype, offsets outside of the data,
 * a size that does not follow from dtype and shape, overlapping tensors, a name given twice. QN_UNSUPPORTED in a build without cJSON. */
qn_status qn_safetensors_open(const char *path, qn_safetensors **out_file);
void qn_safetensors_close(qn_safetensors *f);
size_t qn_safetensors_count(const qn_safetensors *f);
const qn_safetensor *qn_safetensors_at(const qn_safetensors *f, size_t index); /* in the order of names */
const qn_safetensor *qn_safetensors_find(const qn_safetensors *f,
                                         const char *name);                /* NULL: absent. Borrowed until close */
const char *qn_safetensors_meta(const qn_safetensors *f, const char *key); /* of __metadata__; NULL: absent */

/* ---- writing ---- */
typedef struct qn_safetensors_pair {
  const char *key, *value;
} qn_safetensors_pair;
/* Replaces the file atomically. Tensors are laid out by falling element size, so that each is aligned; `bytes` may be 0 and follows from the type. */
qn_status qn_safetensors_write(const char *path, const qn_safetensor *tensors, size_t count,
                               const qn_safetensors_pair *meta, size_t meta_count);

#ifdef __cplusplus
}
#endif
#endif
