/* Hashes: known values (tables and cache keys must not change between machines or versions) and spread. */
#include "expect.h"

#include <stdlib.h>

Test(hash, fnv_known_values) {
  cr_expect(qn_hash_bytes(QN_HASH_INIT, "", 0) == UINT64_C(0xcbf29ce484222325));
  cr_expect(qn_hash_bytes(QN_HASH_INIT, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
  cr_expect(qn_hash_bytes(QN_HASH_INIT, "foobar", 6) == UINT64_C(0x85944171f73967e8));
  uint64_t split = qn_hash_bytes(qn_hash_bytes(QN_HASH_INIT, "foo", 3), "bar", 3);
  cr_expect(split == UINT64_C(0x85944171f73967e8), "hashing in parts is hashing the whole");
}

Test(hash, u64_is_little_endian_bytes) {
  static const uint8_t bytes[8] = {8, 7, 6, 5, 4, 3, 2, 1};
  cr_expect(qn_hash_u64(QN_HASH_INIT, UINT64_C(0x0102030405060708)) == qn_hash_bytes(QN_HASH_INIT, bytes, 8));
}

static const char *hex_of(const char *s, char out[33]) {
  qn_digest_hex(qn_digest_bytes(s, strlen(s)), out);
  return out;
}

Test(digest, known_values_stay) {
  char hex[33];
  cr_expect_str_eq(hex_of("", hex), "a9b89efb6fe5a3c6cd644f4d85ea24f2");
  cr_expect_str_eq(hex_of("quern", hex), "a944637eca44f7bc26f9f75d14dcefa9");
  cr_expect_str_eq(hex_of("0123456789abcdef0123456789abcdef!", hex), "6e5a8c53a2014d28a4d27198e7b3846b");
}

static int compare(const void *a, const void *b) { return memcmp(a, b, sizeof(qn_digest)); }

Test(digest, every_changed_bit_and_length_changes_it) {
  enum { SIZE = 67, COUNT = SIZE * 8 + SIZE };
  uint8_t data[SIZE];
  for (int i = 0; i < SIZE; i++)
    data[i] = (uint8_t)(i * 37);
  qn_digest *all = calloc(COUNT, sizeof *all);
  cr_assert(all);
  int n = 0;
  for (int bit = 0; bit < SIZE * 8; bit++) {
    data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1 << bit % 8));
    all[n++] = qn_digest_bytes(data, SIZE);
    data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1 << bit % 8));
  }
  memset(data, 0, sizeof data);
  for (size_t length = 0; length < SIZE; length++) /* zeros: only the length differs */
    all[n++] = qn_digest_bytes(data, length);
  cr_assert(n == COUNT);
  qsort(all, COUNT, sizeof *all, compare);
  for (int i = 1; i < COUNT; i++)
    cr_assert(compare(&all[i - 1], &all[i]) != 0);
  free(all);
}

Test(digest, bits_are_balanced) {
  int counts[128] = {0};
  enum { ROUNDS = 4096 };
  for (uint32_t i = 0; i < ROUNDS; i++) {
    qn_digest d = qn_digest_bytes(&i, sizeof i);
    for (int b = 0; b < 128; b++)
      counts[b] += d.b[b / 8] >> b % 8 & 1;
  }
  for (int b = 0; b < 128; b++) /* half, within seven standard deviations of 32 */
    cr_expect(counts[b] > ROUNDS / 2 - 224 && counts[b] < ROUNDS / 2 + 224, "bit %d: %d", b, counts[b]);
}

Test(digest, does_not_depend_on_alignment) {
  uint8_t room[80];
  char first[33], other[33];
  for (size_t shift = 0; shift < 16; shift++) {
    for (size_t i = 0; i < 50; i++)
      room[shift + i] = (uint8_t)i;
    qn_digest_hex(qn_digest_bytes(room + shift, 50), shift ? other : first);
    cr_expect(shift == 0 || strcmp(first, other) == 0);
  }
}
