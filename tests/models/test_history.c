/* history.json: written, read back to a position, written again with the same bytes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "models/train/train_impl.h"

static qn_bytes text_of(const qn_history *h, const char *path) {
  qn_bytes b;
  QN_ASSERT_OK(qn_history_save(h, path, "cpu", UINT64_MAX));
  QN_ASSERT_OK(qn_file_read(path, &b));
  return b;
}

Test(history, the_text_is_exact) {
  qn_test_temp dir = qn_test_temp_make();
  qn_history h = {0};
  QN_ASSERT_OK(qn_history_add_epoch(&h, &(qn_history_epoch){0.5, 0.25, (double)NAN, 1, 0.1}));
  QN_ASSERT_OK(qn_history_add_step(&h, 1, (double)0.1f));
  qn_bytes b = text_of(&h, qn_test_temp_file(&dir, "h.json").s);
  cr_expect_str_eq(
      (const char *)b.data,
      "{\"epochs\":[\n  {\"loss\":0.5,\"accuracy\":0.25,\"val_loss\":null,\"val_accuracy\":1,\"seconds\":0.1}],\n"
      "\"steps\":[\n  {\"step\":1,\"loss\":0.100000001}],\n\"device\":\"cpu\",\"seed\":18446744073709551615}\n");
  free(b.data);
  qn_history_free(&h);
  qn_test_temp_remove(&dir);
}

#ifdef QN_HAVE_CJSON
static qn_history make(void) {
  qn_history h = {0};
  for (int i = 0; i < 3; i++) {
    double x = 1.0 / (3 + i);
    qn_history_epoch e = {x, (double)(float)(x / 7), i == 1 ? (double)NAN : x * 1e-7, x * 1e9, 0.125 * i};
    QN_ASSERT_OK(qn_history_add_epoch(&h, &e));
  }
  QN_ASSERT_OK(qn_history_add_step(&h, 1, (double)2.30258512f));
  for (uint64_t s = 100; s <= 500; s += 100)
    QN_ASSERT_OK(qn_history_add_step(&h, s, (double)(1.0f / (float)s)));
  return h;
}

Test(history, reading_then_writing_changes_nothing) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path one = qn_test_temp_file(&dir, "one.json"), two = qn_test_temp_file(&dir, "two.json");
  qn_history h = make(), again;
  qn_bytes a = text_of(&h, one.s);
  QN_ASSERT_OK(qn_history_load(one.s, 3, 500, &again));
  qn_bytes b = text_of(&again, two.s);
  cr_expect_str_eq((const char *)a.data, (const char *)b.data);
  free(a.data);
  free(b.data);
  qn_history_free(&h);
  qn_history_free(&again);
  qn_test_temp_remove(&dir);
}

Test(history, cut_to_a_position) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "h.json");
  qn_history h = make(), part;
  qn_bytes b = text_of(&h, path.s);
  free(b.data);
  QN_ASSERT_OK(qn_history_load(path.s, 2, 399, &part));
  cr_expect_eq(part.epoch_count, 2);
  cr_expect_eq(part.step_count, 4);
  cr_expect_eq(part.steps[3].step, 300);
  cr_expect(isnan(part.epochs[1].val_loss));
  qn_history_free(&part);
  QN_EXPECT_FAIL(qn_history_load(path.s, 4, 500, &part), QN_CORRUPT, "3 epochs, expected 4");
  cr_expect_null(part.epochs);
  qn_history_free(&h);
  qn_test_temp_remove(&dir);
}

Test(history, damaged_files) {
  static const char *const texts[] = {
      "",
      "{",
      "[]",
      "{\"epochs\":[]}",
      "{\"epochs\":{},\"steps\":[]}",
      "{\"epochs\":[{\"loss\":1}],\"steps\":[]}",
      "{\"epochs\":[7],\"steps\":[]}",
      "{\"epochs\":[{\"loss\":1,\"accuracy\":1,\"val_loss\":\"x\",\"val_accuracy\":1,\"seconds\":1}],\"steps\":[]}",
      "{\"epochs\":[{\"loss\":1,\"accuracy\":1,\"val_loss\":1,\"val_accuracy\":1,\"seconds\":1}],\"steps\":[{\"step\":-"
      "1,\"loss\":1}]}",
      "{\"epochs\":[{\"loss\":1,\"accuracy\":1,\"val_loss\":1,\"val_accuracy\":1,\"seconds\":1}],\"steps\":[{\"loss\":"
      "1}]}",
      "{\"epochs\":[],\"steps\":[]} x"};
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "h.json");
  qn_history h;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    QN_ASSERT_OK(qn_file_write_atomic(path.s, texts[i], strlen(texts[i])));
    QN_EXPECT_FAIL(qn_history_load(path.s, 1, 100, &h), QN_CORRUPT, "h.json");
  }
  QN_EXPECT_FAIL(qn_history_load(qn_test_temp_file(&dir, "none.json").s, 1, 100, &h), QN_NOT_FOUND, "none.json");
  qn_test_temp_remove(&dir);
}
#endif
