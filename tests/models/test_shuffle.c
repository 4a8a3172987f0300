/* The shuffle buffer: every row once, never from beyond the buffer, the same order however it is asked for. */
#include <stdlib.h>

#include "expect.h"
#include "quern/data.h"

enum { ROOM = 4096 };

static size_t order(size_t rows, size_t buffer, uint64_t seed, uint64_t epoch, size_t want, uint32_t *out) {
  qn_shuffle *s;
  size_t n = 0, got;
  QN_ASSERT_OK(qn_shuffle_create(rows, buffer, seed, &s));
  qn_shuffle_begin(s, epoch);
  while ((got = qn_shuffle_next(s, want, out + n)) > 0)
    n += got;
  qn_shuffle_free(s);
  return n;
}

Test(shuffle, every_row_comes_once_and_not_too_early) {
  static const size_t sizes[][2] = {{0, 8},    {1, 8},     {2, 2},      {7, 3},      {100, 16},
                                    {100, 99}, {100, 100}, {100, 5000}, {3000, 1024}};
  static uint32_t got[ROOM];
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
    size_t rows = sizes[c][0], buffer = sizes[c][1];
    unsigned char seen[ROOM] = {0};
    cr_expect_eq(order(rows, buffer, 7, 3, 32, got), rows);
    for (size_t i = 0; i < rows; i++) {
      cr_assert_lt(got[i], rows);
      cr_expect_eq(seen[got[i]]++, 0, "row %u twice", got[i]);
      cr_expect_lt(got[i], i + buffer, "draw %zu gave row %u with a buffer of %zu", i, got[i], buffer);
    }
  }
}

Test(shuffle, no_buffer_is_source_order) {
  uint32_t got[50];
  for (size_t buffer = 0; buffer < 2; buffer++) {
    cr_expect_eq(order(50, buffer, 1, 1, 7, got), 50);
    for (uint32_t i = 0; i < 50; i++)
      cr_expect_eq(got[i], i);
  }
}

Test(shuffle, order_depends_on_seed_and_epoch_alone) {
  static uint32_t a[ROOM], b[ROOM];
  (void)order(1000, 64, 5, 2, 32, a);
  (void)order(1000, 64, 5, 2, 1, b);
  cr_expect_arr_eq(a, b, 1000 * sizeof *a);
  (void)order(1000, 64, 5, 3, 32, b);
  cr_expect_arr_neq(a, b, 1000 * sizeof *a);
  (void)order(1000, 64, 6, 2, 32, b);
  cr_expect_arr_neq(a, b, 1000 * sizeof *a);
  /* Epoch e of seed s is not epoch e+1 of seed s-1, as adding them would make it. */
  (void)order(1000, 64, 4, 3, 32, b);
  cr_expect_arr_neq(a, b, 1000 * sizeof *a);
}

Test(shuffle, an_epoch_can_be_begun_again) {
  qn_shuffle *s;
  uint32_t first[40], again[40];
  QN_ASSERT_OK(qn_shuffle_create(100, 16, 9, &s));
  qn_shuffle_begin(s, 4);
  cr_expect_eq(qn_shuffle_next(s, 40, first), 40);
  qn_shuffle_begin(s, 5);
  (void)qn_shuffle_next(s, 11, again);
  qn_shuffle_begin(s, 4);
  cr_expect_eq(qn_shuffle_next(s, 40, again), 40);
  cr_expect_arr_eq(first, again, sizeof first);
  qn_shuffle_free(s);
}

/* Histories and checkpoints of old runs stay valid only while this order does. */
Test(shuffle, the_order_is_fixed_for_all_time) {
  static const uint32_t expected[12] = {0, 4, 3, 1, 7, 8, 2, 6, 11, 10, 5, 9};
  uint32_t got[12];
  cr_expect_eq(order(12, 4, 42, 1, 12, got), 12);
  for (size_t i = 0; i < 12; i++)
    cr_expect_eq(got[i], expected[i], "draw %zu is %u, expected %u", i, got[i], expected[i]);
}

Test(shuffle, draws_are_even) {
  enum { ROWS = 16, RUNS = 4000 };
  size_t hits[ROWS] = {0};
  uint32_t got[ROWS];
  for (uint64_t seed = 0; seed < RUNS; seed++) {
    (void)order(ROWS, ROWS, seed, 0, ROWS, got);
    hits[got[0]]++;
  }
  for (size_t i = 0; i < ROWS; i++) /* 250 expected, deviation 15.3: six of them */
    cr_expect(hits[i] > 158 && hits[i] < 342, "row %zu came first %zu times in %d", i, hits[i], RUNS);
}

Test(shuffle, too_many_rows) {
  qn_shuffle *s;
  if (sizeof(size_t) < 8)
    return;
  QN_EXPECT_FAIL(qn_shuffle_create((size_t)UINT32_MAX + 1, 4, 0, &s), QN_INVALID, "4294967296 rows");
  cr_expect_null(s);
}
