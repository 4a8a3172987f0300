/* Data in host memory: arrays, IDX files, shuffling and batching. Deterministic under a seed. */
#ifndef QUERN_DATA_H
#define QUERN_DATA_H

#include "quern/base.h"
#include "quern/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- images and labels in IDX files (MNIST's format), plain or gzip ---- */
typedef struct qn_images_loader qn_images_loader;
typedef struct qn_images {
  size_t count, rows, columns;
  uint8_t *pixels;          /* count * rows * columns, row-major */
  uint8_t *labels;          /* count */
  qn_images_loader *loader; /* while pixels still come in, in the background */
} qn_images;
/* Reads `dir`/{train|t10k}-images-idx3-ubyte[.gz] and labels, count from `first` on (count 0: all that follow). The error names the file and what is wrong:
 * magic, truncation, a damaged gzip stream, label count different from image count, a label above 9 (QN_CORRUPT); missing files (QN_NOT_FOUND). */
qn_status qn_images_load(const char *dir, bool train, size_t first, size_t count, qn_images *out_images);
/* The whole file, in the background: labels and sizes are there at once, pixels follow in order on a thread of their own, so that training begins before
 * everything is inflated. */
qn_status qn_images_begin(const char *dir, bool train, qn_images *out_images);
/* Returns when the first `rows` rows of pixels are there; a failure of the reading comes out here. May be called from any thread. */
qn_status qn_images_wait(const qn_images *im, size_t rows);
void qn_images_free(qn_images *im);
/* Debian's dataset-fashion-mnist. */
#define QN_FASHION_MNIST_DIR "/usr/share/datasets/fashion-mnist"

/* ---- order of rows ---- */
/* tf.data's shuffle: a buffer of `buffer` rows, each draw replaced by the next row of the source. Counter based: order depends on (seed, epoch) alone. */
typedef struct qn_shuffle qn_shuffle;
qn_status qn_shuffle_create(size_t rows, size_t buffer, uint64_t seed,
                            qn_shuffle **out_shuffle); /* buffer 0 or 1: source order */
void qn_shuffle_begin(qn_shuffle *s, uint64_t epoch);
/* Next `want` row numbers, fewer at the end of the epoch, 0 behind it. */
size_t qn_shuffle_next(qn_shuffle *s, size_t want, uint32_t *out_rows);
void qn_shuffle_free(qn_shuffle *s);

#ifdef __cplusplus
}
#endif
#endif
