/* NumPy's files: one array (.npy) or several by name in a zip (.npz). Read from any version, order and compression that numpy.save and
 * numpy.savez write; written as version 1.0, row-major, without compression.
 *
 * bfloat16 has no name in this format: its arrays are raw words of two bytes ('V2'), as NumPy itself saves ml_dtypes.bfloat16. */
#ifndef QUERN_NPY_H
#define QUERN_NPY_H

#include "quern/graph.h"
#include "quern/safetensors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of `size` bytes in memory; `name` is for messages. *out_data is row-major, malloc'd and the caller's. QN_CORRUPT says what is wrong:
 * no such file, a header that makes no sense, too few or too many bytes. QN_UNSUPPORTED: big-endian, text, objects, records. */
qn_status qn_npy_parse(const char *name, const void *bytes, size_t size, qn_type *out_type, void **out_data);
qn_status qn_npy_read(const char *path, qn_type *out_type, void **out_data);
qn_status qn_npy_write(const char *path, const qn_type *type, const void *data);
/* The file as bytes. */
qn_status qn_npy_format(const qn_type *type, const void *data, qn_bytes *out_bytes);

/* ---- .npz ---- */
typedef struct qn_npz qn_npz;
/* Reads every array. Names are without ".npy". Compressed ones need zlib (else QN_UNSUPPORTED); checksums are compared. */
qn_status qn_npz_open(const char *path, qn_npz **out_file);
void qn_npz_close(qn_npz *f);
size_t qn_npz_count(const qn_npz *f);
const qn_safetensor *qn_npz_at(const qn_npz *f, size_t index); /* in the file's order; borrowed until close */
qn_status qn_npz_write(const char *path, const qn_safetensor *arrays, size_t count);

#ifdef __cplusplus
}
#endif
#endif
