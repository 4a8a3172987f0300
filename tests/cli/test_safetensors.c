/* Safetensors files: what is written comes back, and whatever is wrong with a file is named. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/safetensors.h"

#ifdef QN_HAVE_CJSON
Test(safetensors, round_trip) {
  qn_test_temp temp = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&temp, "a.safetensors");
  const float w[6] = {1, -2, 3.5F, 0, -0.0F, 1e-40F};
  const double d = 0.1;
  const uint8_t mask[3] = {1, 0, 1};
  const uint16_t half[2] = {0x3C00, 0x7C00};
  const qn_safetensor in[] = {
      {.name = "mask", .type = qn_type_of(QN_BOOL, 1, 3), .data = mask},
      {.name = "layers/0/w \"quoted\"", .type = qn_type_of(QN_F32, 2, 2, 3), .data = w},
      {.name = "h", .type = qn_type_of(QN_BF16, 1, 2), .data = half},
      {.name = "scalar", .type = qn_type_scalar(QN_F64), .data = &d},
      {.name = "none", .type = qn_type_of(QN_I64, 2, 3, 0), .data = NULL},
  };
  const qn_safetensors_pair meta[] = {{"step", "17"}, {"text", "a \\ \"b\"\n"}};
  QN_ASSERT_OK(qn_safetensors_write(path.s, in, 5, meta, 2));
  qn_safetensors *f;
  QN_ASSERT_OK(qn_safetensors_open(path.s, &f));
  cr_expect(qn_safetensors_count(f) == 5);
  for (size_t i = 0; i < 5; i++) {
    const qn_safetensor *t = qn_safetensors_find(f, in[i].name);
    cr_assert(t != NULL, "%s", in[i].name);
    cr_expect(qn_type_equal(&t->type, &in[i].type), "%s is %s", in[i].name, qn_type_str(&t->type));
    cr_expect(t->bytes == (size_t)qn_type_bytes(&in[i].type));
    cr_expect(t->bytes == 0 || memcmp(t->data, in[i].data, t->bytes) == 0, "%s", in[i].name);
    cr_expect((uintptr_t)t->data % qn_dtype_size(t->type.dtype) == 0, "%s is not aligned", in[i].name);
  }
  cr_expect(strcmp(qn_safetensors_meta(f, "step"), "17") == 0);
  cr_expect(strcmp(qn_safetensors_meta(f, "text"), "a \\ \"b\"\n") == 0);
  cr_expect(qn_safetensors_meta(f, "other") == NULL);
  cr_expect(qn_safetensors_find(f, "other") == NULL);
  for (size_t i = 1; i < 5; i++)
    cr_expect(strcmp(qn_safetensors_at(f, i - 1)->name, qn_safetensors_at(f, i)->name) < 0);
  qn_safetensors_close(f);
  QN_ASSERT_OK(qn_safetensors_write(path.s, NULL, 0, NULL, 0));
  QN_ASSERT_OK(qn_safetensors_open(path.s, &f));
  cr_expect(qn_safetensors_count(f) == 0 && qn_safetensors_find(f, "w") == NULL);
  qn_safetensors_close(f);
  qn_test_temp_remove(&temp);
}

static void expect_corrupt(const char *header, size_t data, const char *part) {
  qn_test_temp temp = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&temp, "b.safetensors");
  uint64_t length = strlen(header);
  size_t size = 8 + (size_t)length + data;
  uint8_t *bytes = calloc(size, 1);
  cr_assert(bytes != NULL);
  memcpy(bytes, &length, 8);
  memcpy(bytes + 8, header, (size_t)length);
  QN_ASSERT_OK(qn_file_write_atomic(path.s, bytes, size));
  free(bytes);
  qn_safetensors *f = NULL;
  QN_EXPECT_FAIL(qn_safetensors_open(path.s, &f), QN_CORRUPT, part);
  cr_expect(f == NULL);
  qn_test_temp_remove(&temp);
}

Test(safetensors, damage_is_named) {
  expect_corrupt("{", 0, "no JSON object");
  expect_corrupt("[1]", 0, "no JSON object");
  expect_corrupt("{\"a\":3}", 0, "tensor 'a'");
  expect_corrupt("{\"a\":{\"dtype\":\"F7\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'F7'");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension 0");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "dimension 0");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
                 "more than 12");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no data_offsets");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no data_offsets");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "cut short");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "bytes 4 to 0");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "f32[2] but has 4 bytes");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 4,
                 "but has 0 bytes");
  expect_corrupt("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[2]"
                 ",\"data_offsets\":[3,5]}}",
                 8, "overlap");
  expect_corrupt("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                 "\"data_offsets\":[1,2]}}",
                 2, "there twice");
  expect_corrupt("{\"__metadata__\":{\"k\":3}}", 0, "'k' in __metadata__");
}

Test(safetensors, no_such_files) {
  qn_test_temp temp = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&temp, "c.safetensors");
  qn_safetensors *f;
  QN_EXPECT_FAIL(qn_safetensors_open(path.s, &f), QN_NOT_FOUND, "c.safetensors");
  QN_ASSERT_OK(qn_file_write_atomic(path.s, "short", 5));
  QN_EXPECT_FAIL(qn_safetensors_open(path.s, &f), QN_CORRUPT, "5 bytes");
  const uint8_t huge[12] = {255, 255, 255, 255, 255, 255, 255, 255, 1, 2, 3, 4};
  QN_ASSERT_OK(qn_file_write_atomic(path.s, huge, sizeof huge));
  QN_EXPECT_FAIL(qn_safetensors_open(path.s, &f), QN_CORRUPT, "header's length");
  const qn_safetensor complex = {.name = "z", .type = qn_type_scalar(QN_C64), .data = huge};
  QN_EXPECT_FAIL(qn_safetensors_write(path.s, &complex, 1, NULL, 0), QN_INVALID, "'z' is c64");
  qn_test_temp_remove(&temp);
}
#else
Test(safetensors, none) { cr_skip_test("built without cJSON: no safetensors file is read"); }
#endif
