/* Layouts and tensors on the null and cpu devices. */
#include "expect.h"
#include "quern/driver.h"
#include "quern/exec.h"

#include <stdlib.h>

static qn_device *opened(const char *id) {
  static const qn_driver *const drivers[] = {&qn_driver_cpu, &qn_driver_null};
  qn_device *d = NULL;
  QN_ASSERT_OK(qn_device_open(drivers, 2, id, &d));
  return d;
}

/* Two leaves of 24 and 5 bytes. */
static qn_layout small(void) {
  qn_layout l = {0};
  QN_ASSERT_OK(qn_layout_add(&l, "layers/0/w", QN_F32, 2, (int64_t[]){2, 3}));
  QN_ASSERT_OK(qn_layout_add(&l, "mask", QN_BOOL, 1, (int64_t[]){5}));
  return l;
}

Test(exec_layout, offsets_follow_from_order) {
  qn_layout l = small();
  QN_ASSERT_OK(qn_layout_add(&l, "step", QN_I64, 0, NULL));
  QN_ASSERT_OK(qn_layout_add(&l, "empty", QN_F64, 2, (int64_t[]){4, 0}));
  QN_ASSERT_OK(qn_layout_add(&l, "z", QN_C64, 1, (int64_t[]){40}));
  QN_ASSERT_OK(qn_layout_add(&l, "", QN_F16, 1, (int64_t[]){1}));
  cr_expect(l.count == 6 && l.bytes == 256 * 3 + 512 + 256);
  static const uint64_t offsets[] = {0, 256, 512, 768, 768, 1280}, bytes[] = {24, 5, 8, 0, 320, 2};
  for (size_t i = 0; i < 6; i++)
    cr_expect(l.entries[i].offset == offsets[i] && l.entries[i].bytes == bytes[i], "leaf %zu", i);
  cr_expect(qn_layout_find(&l, "step") == 2 && qn_layout_find(&l, "") == 5 && qn_layout_find(&l, "steps") == -1);
  char text[64];
  qn_layout_entry_text(&l.entries[0], text, sizeof text);
  cr_expect_str_eq(text, "f32[2,3]");
  qn_layout_entry_text(&l.entries[2], text, sizeof text);
  cr_expect_str_eq(text, "i64[]");
  qn_layout_entry_text(&l.entries[0], text, 6);
  cr_expect_str_eq(text, "f32[2");
  qn_layout_free(&l);
  cr_expect(l.count == 0 && l.entries == NULL && l.bytes == 0);
}

Test(exec_layout, refuses_what_is_wrong) {
  qn_layout l = small();
  QN_EXPECT_FAIL(qn_layout_add(&l, "mask", QN_F32, 0, NULL), QN_INVALID, "two leaves \"mask\"");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_DTYPE_NONE, 0, NULL), QN_INVALID, "unknown dtype 0");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_F32, 13, (int64_t[13]){0}), QN_INVALID, "rank 13, expected 0 to 12");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_F32, -1, NULL), QN_INVALID, "rank -1");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_F32, 1, NULL), QN_INVALID, "rank 1");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_F32, 2, (int64_t[]){3, -2}), QN_INVALID, "dimension 1 is -2");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_F32, 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40}), QN_INVALID,
                 "63 bits");
  QN_EXPECT_FAIL(qn_layout_add(&l, "a", QN_U8, 1, (int64_t[]){INT64_MAX - 100}), QN_INVALID, "63 bits");
  QN_EXPECT_OK(qn_layout_add(&l, "a", QN_F32, 3, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40, 0}));
  cr_expect(l.count == 3 && l.bytes == 512);
  qn_layout_free(&l);
}

Test(exec_layout, equality_names_the_leaf) {
  qn_layout a = small(), b = small(), c = small(), d = {0}, copy;
  const char *path = "?";
  cr_expect(qn_layout_equal(&a, &b, &path) && path == NULL && qn_layout_equal(&a, &b, NULL));
  QN_EXPECT_OK(qn_layout_check("arg", &a, &b));
  QN_ASSERT_OK(qn_layout_copy(&a, &copy));
  cr_expect(qn_layout_equal(&a, &copy, NULL) && copy.entries != a.entries && copy.entries[0].path != a.entries[0].path);
  b.entries[1].dims[0] = 6;
  cr_expect(!qn_layout_equal(&a, &b, &path));
  cr_expect_str_eq(path, "mask");
  QN_EXPECT_FAIL(qn_layout_check("argument 3", &a, &b), QN_INVALID,
                 "argument 3: leaf \"mask\" is bool[6], expected bool[5]");
  QN_ASSERT_OK(qn_layout_add(&c, "more", QN_F32, 0, NULL));
  cr_expect(!qn_layout_equal(&a, &c, &path));
  cr_expect_str_eq(path, "more");
  QN_EXPECT_FAIL(qn_layout_check("x", &a, &c), QN_INVALID, "x: leaf 2 is \"more\" f32[], expected \"\" nothing");
  QN_EXPECT_FAIL(qn_layout_check("x", &c, &a), QN_INVALID, "x: leaf 2 is \"\" nothing, expected \"more\" f32[]");
  cr_expect(!qn_layout_equal(&a, &d, &path));
  cr_expect_str_eq(path, "layers/0/w");
  QN_ASSERT_OK(qn_layout_add(&d, "weights", QN_F32, 2, (int64_t[]){2, 3}));
  QN_EXPECT_FAIL(qn_layout_check("x", &a, &d), QN_INVALID,
                 "leaf 0 is \"weights\" f32[2,3], expected \"layers/0/w\" f32[2,3]");
  qn_layout_free(&a);
  qn_layout_free(&b);
  qn_layout_free(&c);
  qn_layout_free(&d);
  qn_layout_free(&copy);
}

static void round_trip(const char *id) {
  qn_device *d = opened(id);
  qn_layout l = small();
  qn_tensors *t = NULL;
  QN_ASSERT_OK(qn_tensors_create(d, &l, "params", &t));
  qn_layout_free(&l); /* the tensors have a copy */
  const float w[6] = {1, 2, 3, 4, 5, 6};
  const uint8_t mask[5] = {1, 0, 1, 0, 1};
  float w2[6] = {0};
  uint8_t mask2[5] = {9, 9, 9, 9, 9};
  QN_EXPECT_OK(qn_tensors_write(t, "layers/0/w", w));
  QN_EXPECT_OK(qn_tensors_write_at(t, 1, mask));
  QN_EXPECT_OK(qn_tensors_read_at(t, 0, w2));
  QN_EXPECT_OK(qn_tensors_read(t, "mask", mask2));
  cr_expect(memcmp(w, w2, sizeof w) == 0 && memcmp(mask, mask2, sizeof mask) == 0);
  qn_device_stats stats;
  qn_device_get_stats(d, &stats);
  cr_expect(stats.bytes_written == 29 && stats.bytes_read == 29, "copies in place are counted");
  QN_EXPECT_OK(qn_tensors_zero(t));
  QN_EXPECT_OK(qn_tensors_read(t, "layers/0/w", w2));
  cr_expect(w2[0] == 0 && w2[5] == 0);
  QN_EXPECT_FAIL(qn_tensors_write(t, "bias", w), QN_NOT_FOUND,
                 "tensors params: no leaf \"bias\"; there are: layers/0/w, mask");
  QN_EXPECT_FAIL(qn_tensors_read(t, NULL, w2), QN_NOT_FOUND, "(null)");
  QN_EXPECT_FAIL(qn_tensors_read_at(t, 2, w2), QN_INVALID, "leaf 2 asked for, there are 2");
  QN_EXPECT_FAIL(qn_tensors_write_at(t, 0, NULL), QN_INVALID, "no memory given for leaf \"layers/0/w\"");
  cr_expect(!qn_tensors_lost(t) && qn_tensors_device(t) == d && qn_buffer_size(qn_tensors_buffer(t)) == 512);
  cr_expect(qn_tensors_layout(t)->count == 2);
  cr_expect_str_eq(qn_tensors_label(t), "params");
  qn_tensors *same = qn_tensors_retain(t);
  qn_tensors_release(t);
  QN_EXPECT_OK(qn_tensors_read_at(same, 0, w2));
  qn_tensors_release(same);
  qn_tensors_release(NULL);
  qn_device_get_stats(d, &stats);
  cr_expect(stats.bytes_live == 0);
  qn_device_release(d);
}
Test(exec_layout, tensors_on_null) { round_trip("null"); }
Test(exec_layout, tensors_on_cpu) { round_trip("cpu"); }

Test(exec_layout, empty_trees) {
  qn_device *d = opened("cpu");
  qn_layout none = {0};
  qn_tensors *t = NULL;
  QN_ASSERT_OK(qn_tensors_create(d, &none, NULL, &t));
  QN_EXPECT_OK(qn_tensors_zero(t));
  QN_EXPECT_FAIL(qn_tensors_read(t, "a", &none), QN_NOT_FOUND, "tensors tensors: no leaf \"a\"; there are: none");
  qn_tensors_release(t);
  QN_ASSERT_OK(qn_layout_add(&none, "e", QN_F32, 1, (int64_t[]){0}));
  QN_ASSERT_OK(qn_tensors_create(d, &none, "empty", &t));
  QN_EXPECT_OK(qn_tensors_write(t, "e", NULL));
  QN_EXPECT_OK(qn_tensors_read(t, "e", NULL));
  qn_tensors_release(t);
  qn_layout_free(&none);
  qn_device_release(d);
}

Test(exec_layout, no_memory_is_a_status) {
  cr_assert(setenv("QN_FAULT", "alloc:2", 1) == 0);
  qn_device *d = opened("cpu");
  qn_layout l = small();
  qn_tensors *t = NULL;
  qn_ring *r = NULL;
  QN_EXPECT_FAIL(qn_ring_create(d, &l, "batch", 3, &r), QN_OUT_OF_MEMORY, "buffer batch");
  cr_expect(r == NULL);
  QN_EXPECT_OK(qn_tensors_create(d, &l, "third", &t));
  qn_tensors_release(t);
  qn_layout_free(&l);
  qn_device_release(d);
}
