/* IDX files: what is read, and what is said about damaged ones. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/data.h"

#ifdef QN_HAVE_ZLIB
#include <zlib.h>
#endif

enum { COUNT = 50, ROWS = 3, COLUMNS = 5, IMAGES = 16 + COUNT * ROWS * COLUMNS, LABELS = 8 + COUNT };

typedef struct set {
  qn_test_temp dir;
  uint8_t images[IMAGES + 8], labels[LABELS + 8];
  size_t image_bytes, label_bytes;
} set;

static void be32(uint8_t *out, uint32_t x) {
  for (int i = 0; i < 4; i++)
    out[i] = (uint8_t)(x >> (24 - 8 * i));
}

static set make(void) {
  set s = {.dir = qn_test_temp_make(), .image_bytes = IMAGES, .label_bytes = LABELS};
  be32(s.images, 0x803);
  be32(s.images + 4, COUNT);
  be32(s.images + 8, ROWS);
  be32(s.images + 12, COLUMNS);
  for (size_t i = 16; i < IMAGES; i++)
    s.images[i] = (uint8_t)(i * 37 % 251);
  be32(s.labels, 0x801);
  be32(s.labels + 4, COUNT);
  for (size_t i = 0; i < COUNT; i++)
    s.labels[8 + i] = (uint8_t)(i % 10);
  return s;
}

static void write_plain(const set *s, bool train) {
  qn_test_path images = qn_test_temp_file(&s->dir, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte");
  qn_test_path labels = qn_test_temp_file(&s->dir, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte");
  QN_ASSERT_OK(qn_file_write_atomic(images.s, s->images, s->image_bytes));
  QN_ASSERT_OK(qn_file_write_atomic(labels.s, s->labels, s->label_bytes));
}

static void expect_rows(const qn_images *im, size_t first, size_t count, const set *s) {
  cr_assert_eq(im->count, count);
  cr_expect_eq(im->rows, ROWS);
  cr_expect_eq(im->columns, COLUMNS);
  cr_expect_arr_eq(im->pixels, s->images + 16 + first * ROWS * COLUMNS, count * ROWS * COLUMNS);
  cr_expect_arr_eq(im->labels, s->labels + 8 + first, count);
}

static void expect_fail(const set *s, qn_status code, const char *part) {
  qn_images im;
  QN_EXPECT_FAIL(qn_images_load(s->dir.path, true, 0, 10, &im), code, part);
  cr_expect_null(im.pixels);
  cr_expect_null(im.labels);
}

static void expect_plain_fail(const set *s, qn_status code, const char *part) {
  write_plain(s, true);
  expect_fail(s, code, part);
  qn_test_temp_remove(&s->dir);
}

Test(idx, a_short_plain_file_is_noticed_when_it_is_opened) {
  set s = make();
  qn_images im;
  s.image_bytes -= 1;
  write_plain(&s, true);
  QN_EXPECT_FAIL(qn_images_begin(s.dir.path, true, &im), QN_CORRUPT, "truncated: 749 bytes of elements, expected 750");
  qn_images_free(&im);
  qn_test_temp_remove(&s.dir);
}

Test(idx, plain_files_whole_and_in_part) {
  static const size_t parts[][3] = {{0, 0, COUNT}, {0, 30, 30}, {30, 0, 20}, {30, 20, 20}, {49, 1, 1}, {50, 0, 0}};
  set s = make();
  write_plain(&s, true);
  write_plain(&s, false);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    for (int train = 0; train < 2; train++) {
      qn_images im;
      QN_ASSERT_OK(qn_images_load(s.dir.path, train, parts[i][0], parts[i][1], &im));
      expect_rows(&im, parts[i][0], parts[i][2], &s);
      qn_images_free(&im);
    }
  qn_test_temp_remove(&s.dir);
}

Test(idx, rows_that_are_not_there) {
  qn_images im;
  set s = make();
  write_plain(&s, true);
  QN_EXPECT_FAIL(qn_images_load(s.dir.path, true, 40, 11, &im), QN_INVALID, "has 50 images, 11 from image 40 on");
  QN_EXPECT_FAIL(qn_images_load(s.dir.path, true, 51, 0, &im), QN_INVALID, "has 50 images");
  QN_EXPECT_FAIL(qn_images_load(s.dir.path, true, 1, SIZE_MAX, &im), QN_INVALID, "has 50 images");
  qn_test_temp_remove(&s.dir);
}

Test(idx, missing_files_are_named) {
  set s = make();
  qn_images im;
  QN_EXPECT_FAIL(qn_images_load(s.dir.path, true, 0, 0, &im), QN_NOT_FOUND, "train-images-idx3-ubyte.gz");
  QN_EXPECT_FAIL(qn_images_load("/nowhere/at/all", false, 0, 0, &im), QN_NOT_FOUND, "/nowhere/at/all/t10k-images");
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&s.dir, "train-images-idx3-ubyte").s, s.images, IMAGES));
  QN_EXPECT_FAIL(qn_images_load(s.dir.path, true, 0, 0, &im), QN_NOT_FOUND, "train-labels-idx1-ubyte");
  qn_test_temp_remove(&s.dir);
}

Test(idx, truncated_images) {
  set s = make();
  s.image_bytes = IMAGES - 1;
  expect_plain_fail(&s, QN_CORRUPT, "truncated: 749 bytes of elements, expected 750 (50 rows of 15)");
}

Test(idx, truncated_within_wanted_rows) {
  set s = make();
  s.image_bytes = 16 + 20;
  expect_plain_fail(&s, QN_CORRUPT, "truncated: 20 bytes");
}

Test(idx, truncated_header) {
  set s = make();
  s.image_bytes = 9;
  expect_plain_fail(&s, QN_CORRUPT, "the header has 9 bytes, expected 16");
}

Test(idx, empty_file) {
  set s = make();
  s.label_bytes = 0;
  expect_plain_fail(&s, QN_CORRUPT, "train-labels-idx1-ubyte: truncated: the header has 0 bytes, expected 8");
}

Test(idx, truncated_labels) {
  set s = make();
  s.label_bytes = LABELS - 3;
  expect_plain_fail(&s, QN_CORRUPT, "train-labels-idx1-ubyte: truncated: 47 bytes");
}

Test(idx, bytes_behind_the_end) {
  set s = make();
  s.image_bytes = IMAGES + 1;
  expect_plain_fail(&s, QN_CORRUPT, "bytes behind the 50 rows");
}

Test(idx, wrong_magic) {
  set s = make();
  be32(s.images, 0x903);
  expect_plain_fail(&s, QN_CORRUPT, "the magic number is 0x00000903, expected 0x00000803");
}

Test(idx, labels_in_place_of_images) {
  set s = make();
  memcpy(s.images, s.labels, LABELS);
  s.image_bytes = LABELS;
  expect_plain_fail(&s, QN_CORRUPT, "the magic number is 0x00000801");
}

Test(idx, label_count_differs) {
  set s = make();
  be32(s.labels + 4, COUNT - 1);
  s.label_bytes = LABELS - 1;
  expect_plain_fail(&s, QN_CORRUPT, "has 49 labels, expected 50");
}

Test(idx, label_above_nine) {
  set s = make();
  s.labels[8 + 4] = 10;
  expect_plain_fail(&s, QN_CORRUPT, "label 4 is 10, expected 0 to 9");
}

Test(idx, a_lying_header_costs_no_memory) {
  set s = make();
  be32(s.images + 4, UINT32_MAX);
  be32(s.images + 8, 65536);
  be32(s.images + 12, 65536);
  be32(s.labels + 4, UINT32_MAX);
  expect_plain_fail(&s, QN_CORRUPT, "truncated");
}

Test(idx, sides_of_no_use) {
  set s = make();
  be32(s.images + 8, 0);
  expect_plain_fail(&s, QN_CORRUPT, "dimension 1 is 0");
}

#ifdef QN_HAVE_ZLIB
static void write_gzip(const set *s) {
  const char *names[] = {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"};
  const uint8_t *data[] = {s->images, s->labels};
  size_t sizes[] = {s->image_bytes, s->label_bytes};
  for (size_t i = 0; i < 2; i++) {
    gzFile f = gzopen(qn_test_temp_file(&s->dir, names[i]).s, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(gzwrite(f, data[i], (unsigned)sizes[i]), (int)sizes[i]);
    cr_assert_eq(gzclose(f), Z_OK);
  }
}

/* Rewrites the images' file after `change`. */
static void damage(const set *s, void (*change)(qn_bytes *b)) {
  qn_test_path path = qn_test_temp_file(&s->dir, "train-images-idx3-ubyte.gz");
  qn_bytes b;
  QN_ASSERT_OK(qn_file_read(path.s, &b));
  change(&b);
  QN_ASSERT_OK(qn_file_write_atomic(path.s, b.data, b.size));
  free(b.data);
}

static void cut(qn_bytes *b) { b->size /= 2; }
static void cut_checksum(qn_bytes *b) { b->size -= 5; }
static void flip(qn_bytes *b) { b->data[b->size / 2] ^= 0x55; }
static void flip_checksum(qn_bytes *b) { b->data[b->size - 7] ^= 1; }
static void no_gzip(qn_bytes *b) { b->data[0] = 0; }

Test(idx, gzip_files) {
  set s = make();
  qn_images im;
  write_gzip(&s);
  QN_ASSERT_OK(qn_images_load(s.dir.path, true, 5, 20, &im));
  expect_rows(&im, 5, 20, &s);
  qn_images_free(&im);
  qn_test_temp_remove(&s.dir);
}

Test(idx, damaged_gzip_files) {
  static const struct {
    void (*change)(qn_bytes *b);
    const char *part;
  } cases[] = {
      {cut, "the gzip stream is truncated"},     {cut_checksum, "the gzip stream is truncated"},
      {flip, "the gzip stream is damaged"},      {flip_checksum, "the gzip stream is damaged"},
      {no_gzip, "the magic number is 0x008b08"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    set s = make();
    write_gzip(&s);
    damage(&s, cases[i].change);
    expect_fail(&s, QN_CORRUPT, cases[i].part);
    qn_test_temp_remove(&s.dir);
  }
}
#else
Test(idx, gzip_files_need_zlib) {
  set s = make();
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&s.dir, "train-images-idx3-ubyte.gz").s, s.images, IMAGES));
  expect_fail(&s, QN_UNSUPPORTED, "no zlib");
  qn_test_temp_remove(&s.dir);
}
#endif

Test(idx, fashion_mnist) {
  qn_images im;
  if (!qn_file_exists(QN_FASHION_MNIST_DIR))
    cr_skip_test("dataset-fashion-mnist is not installed");
#ifdef QN_HAVE_ZLIB
  QN_ASSERT_OK(qn_images_load(QN_FASHION_MNIST_DIR, false, 0, 0, &im));
  cr_expect_eq(im.count, 10000);
  cr_expect_eq(im.rows * im.columns, 784);
  cr_expect_eq(im.labels[0], 9);
  size_t per_class[10] = {0};
  for (size_t i = 0; i < im.count; i++)
    per_class[im.labels[i]]++;
  for (size_t i = 0; i < 10; i++)
    cr_expect_eq(per_class[i], 1000);
  qn_images_free(&im);
#else
  (void)im;
#endif
}
