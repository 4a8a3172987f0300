/* Checkpoints: what goes in comes out, every kind of damage is named, and the old file outlives a failed write. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "expect.h"
#include "quern/drivers.h"
#include "quern/train.h"

static qn_device *open_cpu(void) {
  size_t n;
  qn_device *d;
  const qn_driver *const *drivers = qn_drivers(&n);
  QN_ASSERT_OK(qn_device_open(drivers, n, "cpu", &d));
  return d;
}

static void add(qn_layout *l, const char *path, qn_dtype t, int rank, int64_t a, int64_t b) {
  QN_ASSERT_OK(qn_layout_add(l, path, t, rank, (const int64_t[]){a, b}));
}

static qn_tensors *make(qn_device *d, bool filled) {
  qn_layout l = {0};
  qn_tensors *t;
  uint8_t bytes[64];
  add(&l, "w/kernel", QN_F32, 2, 3, 2);
  add(&l, "w/\"odd\"", QN_BF16, 1, 5, 0);
  add(&l, "none", QN_F32, 2, 0, 4);
  add(&l, "t", QN_I32, 0, 0, 0);
  add(&l, "key", QN_U32, 1, 2, 0);
  add(&l, "on", QN_BOOL, 1, 3, 0);
  QN_ASSERT_OK(qn_tensors_create(d, &l, "state", &t));
  QN_ASSERT_OK(qn_tensors_zero(t));
  for (size_t i = 0; filled && i < l.count; i++) {
    for (size_t j = 0; j < sizeof bytes; j++)
      bytes[j] = (uint8_t)(l.entries[i].dtype == QN_BOOL ? j & 1 : i * 50 + j);
    QN_ASSERT_OK(qn_tensors_write_at(t, i, bytes));
  }
  qn_layout_free(&l);
  return t;
}

#ifdef QN_HAVE_CJSON
static bool equal(const qn_tensors *a, const qn_tensors *b) {
  const qn_layout *l = qn_tensors_layout(a);
  for (size_t i = 0; i < l->count; i++) {
    uint8_t x[64] = {0}, y[64] = {0};
    QN_ASSERT_OK(qn_tensors_read_at(a, i, x));
    QN_ASSERT_OK(qn_tensors_read_at(b, i, y));
    if (memcmp(x, y, sizeof x) != 0)
      return false;
  }
  return true;
}
#endif

static const qn_pair meta_in[] = {{"program", "a \"b\" \\ \n"}, {"seed", "18446744073709551615"}};

Test(checkpoint, what_goes_in_comes_out) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *in = make(d, true), *out = make(d, false);
  QN_ASSERT_OK(qn_checkpoint_save(path.s, in, meta_in, 2));
  qn_pair meta[] = {{"seed", ""}, {"absent", "old"}, {"program", ""}};
#ifdef QN_HAVE_CJSON
  QN_ASSERT_OK(qn_checkpoint_load(path.s, out, meta, 3));
  cr_expect(equal(in, out));
  cr_expect_str_eq(meta[0].value, meta_in[1].value);
  cr_expect_str_eq(meta[1].value, "");
  cr_expect_str_eq(meta[2].value, meta_in[0].value);
  meta[0].value[0] = '\0';
  QN_ASSERT_OK(qn_checkpoint_load(path.s, NULL, meta, 1));
  cr_expect_str_eq(meta[0].value, meta_in[1].value);
#else
  QN_EXPECT_FAIL(qn_checkpoint_load(path.s, out, meta, 3), QN_UNSUPPORTED, "no JSON reader");
#endif
  qn_tensors_release(in);
  qn_tensors_release(out);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}

Test(checkpoint, the_layout_of_the_file) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *t = make(d, true);
  qn_bytes b;
  QN_ASSERT_OK(qn_checkpoint_save(path.s, t, meta_in, 1));
  QN_ASSERT_OK(qn_file_read(path.s, &b));
  uint64_t length = b.data[0] | (uint64_t)b.data[1] << 8;
  cr_expect_eq(length % 8, 0, "data begins at a multiple of eight");
  cr_expect_eq(b.size, 8 + length + 24 + 10 + 0 + 4 + 8 + 3);
  cr_expect(qn_test_contains((const char *)b.data + 8,
                             "\"w/kernel\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}"));
  cr_expect(qn_test_contains((const char *)b.data + 8,
                             "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[24,24]}"));
  cr_expect(
      qn_test_contains((const char *)b.data + 8, "\"t\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[24,28]}"));
  free(b.data);
  qn_tensors_release(t);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}

Test(checkpoint, a_failed_write_keeps_the_old_file) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *old = make(d, false), *new = make(d, true);
  qn_bytes before, after;
  QN_ASSERT_OK(qn_checkpoint_save(path.s, old, meta_in, 2));
  QN_ASSERT_OK(qn_file_read(path.s, &before));
  struct rlimit limit, small;
  cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = limit;
  small.rlim_cur = 100; /* as a full disk would */
  (void)signal(SIGXFSZ, SIG_IGN);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  qn_status st = qn_checkpoint_save(path.s, new, meta_in, 2);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  cr_expect_eq(st, QN_IO);
  QN_ASSERT_OK(qn_file_read(path.s, &after));
  cr_assert_eq(before.size, after.size);
  cr_expect_arr_eq(before.data, after.data, before.size);
  QN_EXPECT_FAIL(qn_checkpoint_save("/nowhere/c.safetensors", new, NULL, 0), QN_NOT_FOUND, "/nowhere/c.safetensors");
  free(before.data);
  free(after.data);
  qn_tensors_release(old);
  qn_tensors_release(new);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}

Test(checkpoint, a_dtype_the_format_lacks) {
  qn_device *d = open_cpu();
  qn_layout l = {0};
  qn_tensors *t;
  add(&l, "z", QN_C128, 1, 2, 0);
  QN_ASSERT_OK(qn_tensors_create(d, &l, "state", &t));
  QN_EXPECT_FAIL(qn_checkpoint_save("/tmp/never", t, NULL, 0), QN_INVALID, "tensor 'z' is c128");
  qn_layout_free(&l);
  qn_tensors_release(t);
  qn_device_release(d);
}

#ifdef QN_HAVE_CJSON
/* A state of two leaves: "a" f32[2], "b" i32. */
static qn_tensors *pair(qn_device *d) {
  qn_layout l = {0};
  qn_tensors *t;
  add(&l, "a", QN_F32, 1, 2, 0);
  add(&l, "b", QN_I32, 0, 0, 0);
  QN_ASSERT_OK(qn_tensors_create(d, &l, "state", &t));
  QN_ASSERT_OK(qn_tensors_zero(t));
  qn_layout_free(&l);
  return t;
}

static void write_file(const char *path, const char *header, uint64_t length, size_t data) {
  uint8_t file[1024] = {0};
  size_t n = strlen(header);
  cr_assert_lt(8 + n + data, sizeof file);
  for (int i = 0; i < 8; i++)
    file[i] = (uint8_t)(length >> (8 * i));
  memcpy(file + 8, header, n);
  memset(file + 8 + n, 0x3f, data);
  QN_ASSERT_OK(qn_file_write_atomic(path, file, 8 + n + data));
}

typedef struct damage {
  const char *header;
  size_t data;
  qn_status code;
  const char *part;
} damage;

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B "\"b\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[8,12]}"
static const damage damages[] = {
    {"{" A "," B "}", 11, QN_CORRUPT, "'b' lies at bytes 8 to 12 of the data, which has 11"},
    {"{" A "," B, 12, QN_CORRUPT, "no JSON object"},
    {"[" A "]", 12, QN_CORRUPT, "no JSON object"},
    {"", 12, QN_CORRUPT, "no JSON object"},
    {"{" A "}", 8, QN_INVALID, "leaf \"b\" (i32[]) is not in it"},
    {"{" A "," B ",\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[12,12]}}", 12, QN_INVALID,
     "leaf \"c\" is in it"},
    {"{" A "," B ",\"b\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[12,16]}}", 16, QN_CORRUPT,
     "'b' is there twice"},
    {"{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}," B "}", 12, QN_INVALID,
     "leaf \"a\" is f16[4], expected f32[2]"},
    {"{\"a\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}," B "}", 12, QN_INVALID,
     "leaf \"a\" is i32[2], expected f32[2]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}," B "}", 12, QN_INVALID,
     "leaf \"a\" is f32[1,2], expected f32[2]"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}," B "}", 12, QN_CORRUPT, "'a' is no size"},
    {"{\"a\":{\"dtype\":\"F7\",\"shape\":[2],\"data_offsets\":[0,8]}," B "}", 12, QN_CORRUPT, "'a' has the dtype 'F7'"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}," B "}", 12, QN_CORRUPT, "'a' has the dtype '(none)'"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}," B "}", 12, QN_CORRUPT, "'a' has no shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}," B "}", 12, QN_CORRUPT, "'a' has no data_offsets"},
    {"{\"a\":7," B "}", 12, QN_CORRUPT, "'a' has the dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}," B "}", 12, QN_CORRUPT,
     "'a' lies at bytes 8 to 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}," B "}", 12, QN_CORRUPT,
     "'a' has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,1e300]}," B "}", 12, QN_CORRUPT,
     "'a' has no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}," B "}", 12, QN_CORRUPT, "'a' and 'b' overlap"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,7]}," B "}", 12, QN_CORRUPT,
     "'a' is f32[2] but has 7 bytes"},
    {"{\"__metadata__\":{\"seed\":1}," A "," B "}", 12, QN_CORRUPT, "'seed' in __metadata__ is no text"},
    {"{\"__metadata__\":{\"seed\":"
     "\"01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567\"}," A "," B
     "}",
     12, QN_CORRUPT, "\"seed\" in __metadata__ has 98 characters, expected at most 95"},
};

Test(checkpoint, every_damage_is_named_and_touches_nothing) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *t = pair(d), *zero = pair(d);
  qn_pair meta[] = {{"seed", ""}};
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    write_file(path.s, damages[i].header, strlen(damages[i].header), damages[i].data);
    QN_EXPECT_FAIL(qn_checkpoint_load(path.s, t, meta, 1), damages[i].code, damages[i].part);
    cr_expect(equal(t, zero), "case %zu wrote into the state", i);
  }
  /* The same file undamaged, so that the cases above fail for their own reasons. */
  write_file(path.s, "{" A "," B "}", strlen("{" A "," B "}"), 12);
  QN_EXPECT_OK(qn_checkpoint_load(path.s, t, meta, 1));
  cr_expect_not(equal(t, zero));
  qn_tensors_release(t);
  qn_tensors_release(zero);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}

Test(checkpoint, truncated_anywhere) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *t = make(d, true);
  qn_bytes b;
  QN_ASSERT_OK(qn_checkpoint_save(path.s, t, meta_in, 2));
  QN_ASSERT_OK(qn_file_read(path.s, &b));
  for (size_t size = 0; size < b.size; size++) {
    QN_ASSERT_OK(qn_file_write_atomic(path.s, b.data, size));
    QN_EXPECT_FAIL(qn_checkpoint_load(path.s, t, NULL, 0), QN_CORRUPT, "c.safetensors");
  }
  write_file(path.s, "{}", UINT64_MAX, 0);
  QN_EXPECT_FAIL(qn_checkpoint_load(path.s, t, NULL, 0), QN_CORRUPT, "length is 18446744073709551615");
  QN_EXPECT_FAIL(qn_checkpoint_load(qn_test_temp_file(&dir, "none").s, t, NULL, 0), QN_NOT_FOUND,
                 "without --resume first");
  free(b.data);
  qn_tensors_release(t);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}

/* A byte of the header changed at random: loaded or refused, never worse. */
Test(checkpoint, random_bytes) {
  qn_test_temp dir = qn_test_temp_make();
  qn_test_path path = qn_test_temp_file(&dir, "c.safetensors");
  qn_device *d = open_cpu();
  qn_tensors *t = make(d, true);
  qn_bytes b;
  uint64_t random = 1;
  QN_ASSERT_OK(qn_checkpoint_save(path.s, t, meta_in, 2));
  QN_ASSERT_OK(qn_file_read(path.s, &b));
  for (int i = 0; i < 300; i++) {
    random = qn_hash_u64(random, (uint64_t)i);
    size_t at = (size_t)(random % b.size);
    uint8_t old = b.data[at];
    b.data[at] = (uint8_t)(random >> 40);
    QN_ASSERT_OK(qn_file_write_atomic(path.s, b.data, b.size));
    qn_status st = qn_checkpoint_load(path.s, t, NULL, 0);
    cr_expect(st == QN_OK || st == QN_CORRUPT || st == QN_INVALID, "byte %zu: %s", at, qn_status_name(st));
    b.data[at] = old;
  }
  free(b.data);
  qn_tensors_release(t);
  qn_device_release(d);
  qn_test_temp_remove(&dir);
}
#endif
