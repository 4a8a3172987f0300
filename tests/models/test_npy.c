/* npy and npz files: what is written comes back, other spellings are read, damaged files are refused at every length. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/npy.h"

static qn_bytes npy(const char *header, const void *data, size_t bytes, int version) {
  size_t wide = version == 1 ? 2 : 4, n = strlen(header), at = 8 + wide + n;
  qn_bytes b = {malloc(at + bytes + 1), at + bytes};
  memcpy(b.data, "\x93NUMPY", 6);
  b.data[6] = (uint8_t)version;
  b.data[7] = 0;
  for (size_t i = 0; i < wide; i++)
    b.data[8 + i] = (uint8_t)(n >> (8 * i));
  memcpy(b.data + 8 + wide, header, n);
  if (bytes)
    memcpy(b.data + at, data, bytes);
  return b;
}

Test(npy, every_dtype_comes_back) {
  uint8_t data[2 * 3 * 16];
  for (size_t i = 0; i < sizeof data; i++)
    data[i] = (uint8_t)(i * 7);
  for (int t = QN_BOOL; t < QN_DTYPE_COUNT; t++) {
    qn_type type = qn_type_of((qn_dtype)t, 2, 2, 3), got;
    qn_bytes file;
    void *back;
    QN_ASSERT_OK(qn_npy_format(&type, data, &file));
    cr_expect_eq((file.size - (size_t)qn_type_bytes(&type)) % 64, 0, "the data are aligned");
    QN_ASSERT_OK(qn_npy_parse("x.npy", file.data, file.size, &got, &back));
    cr_expect(qn_type_equal(&type, &got), "%s", qn_type_str(&got));
    cr_expect_arr_eq(back, data, (size_t)qn_type_bytes(&type));
    free(back);
    for (size_t n = 0; n < file.size; n++) {
      cr_expect(qn_npy_parse("x.npy", file.data, n, &got, &back) != QN_OK, "%zu of %zu bytes", n, file.size);
      cr_expect_null(back);
    }
    free(file.data);
  }
}

Test(npy, other_spellings) {
  const float f[6] = {0, 1, 2, 3, 4, 5}, rows[6] = {0, 2, 4, 1, 3, 5};
  static const char *const headers[] = {
      "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }   \n",
      "{\"shape\":(2,3),\"fortran_order\":True,\"descr\":\"<f4\"}",
      "{'descr': '=f4', 'fortran_order': True, 'shape': (2L, 3L)}\n",
  };
  for (size_t i = 0; i < 9; i++) {
    qn_bytes b = npy(headers[i % 3], f, sizeof f, 1 + (int)i / 3);
    qn_type t;
    void *data;
    QN_ASSERT_OK(qn_npy_parse("x", b.data, b.size, &t, &data));
    qn_type want = qn_type_of(QN_F32, 2, 2, 3);
    cr_expect(qn_type_equal(&t, &want));
    cr_expect_arr_eq(data, rows, sizeof rows);
    free(data);
    free(b.data);
  }
  qn_bytes b = npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\1", 1, 1);
  qn_type t;
  void *data;
  QN_ASSERT_OK(qn_npy_parse("x", b.data, b.size, &t, &data));
  cr_expect(t.rank == 0 && t.dtype == QN_BOOL);
  free(data);
  free(b.data);
}

static const struct {
  const char *header;
  qn_status code;
  const char *part;
} bad[] = {
    {"", QN_CORRUPT, "expected a dictionary"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", QN_UNSUPPORTED, "big-endian"},
    {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", QN_UNSUPPORTED, "elements of type \"<U3\""},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", QN_UNSUPPORTED, "records"},
    {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", QN_CORRUPT, "True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", QN_CORRUPT, "a dimension"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 3, }", QN_CORRUPT, "a shape in parentheses"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", QN_CORRUPT,
     "a dimension that fits"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }", QN_CORRUPT, "needs"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (4294967296, 4294967296, 0), }", QN_CORRUPT, "needs"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1), }", QN_UNSUPPORTED,
     "more than 12"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", QN_CORRUPT, "needs 8 bytes, the file has 4"},
    {"{'descr': '<f4', 'fortran_order': False}", QN_CORRUPT, "descr, fortran_order and shape"},
    {"{'descr': '<f4', 'other': False, 'shape': (1,)}", QN_CORRUPT, "as keys"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", QN_CORRUPT, "','"},
};

Test(npy, bad_headers) {
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    qn_bytes b = npy(bad[i].header, "abcd", 4, 1);
    qn_type t;
    void *data;
    QN_EXPECT_FAIL(qn_npy_parse("x.npy", b.data, b.size, &t, &data), bad[i].code, bad[i].part);
    cr_expect_null(data);
    free(b.data);
  }
}

Test(npz, several_come_back_and_damage_is_noticed) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "a.npz");
  const float f[3] = {1, 2, 3};
  const int64_t n[2] = {-1, 5};
  const qn_safetensor arrays[] = {{"out0", qn_type_of(QN_F32, 1, 3), f, sizeof f},
                                  {"out1", qn_type_of(QN_I64, 2, 1, 2), n, sizeof n},
                                  {"out2", qn_type_of(QN_F32, 1, 0), NULL, 0}};
  QN_ASSERT_OK(qn_npz_write(path.s, arrays, 3));
  qn_npz *z;
  QN_ASSERT_OK(qn_npz_open(path.s, &z));
  cr_assert_eq(qn_npz_count(z), 3);
  for (size_t i = 0; i < 3; i++) {
    const qn_safetensor *t = qn_npz_at(z, i);
    cr_expect_str_eq(t->name, arrays[i].name);
    cr_expect(qn_type_equal(&t->type, &arrays[i].type));
    if (arrays[i].bytes)
      cr_expect_arr_eq(t->data, arrays[i].data, arrays[i].bytes);
  }
  qn_npz_close(z);
  qn_bytes file;
  QN_ASSERT_OK(qn_file_read(path.s, &file));
  for (size_t size = 0; size < file.size; size += 3) { /* cut short */
    QN_ASSERT_OK(qn_file_write_atomic(path.s, file.data, size));
    cr_expect(qn_npz_open(path.s, &z) != QN_OK);
    cr_expect_null(z);
  }
  for (size_t at = 0; at < file.size; at += 5) { /* a byte that is another one: refused, or the arrays are whole */
    file.data[at] ^= 0x55;
    QN_ASSERT_OK(qn_file_write_atomic(path.s, file.data, file.size));
    if (qn_npz_open(path.s, &z) == QN_OK)
      qn_npz_close(z);
    file.data[at] ^= 0x55;
  }
  free(file.data);
  qn_test_temp_remove(&dir);
}
