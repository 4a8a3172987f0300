/* Arenas, growing arrays and growing text. */
#include "expect.h"

#include <stdlib.h>
#include <wchar.h>

/* No byte sequence of the C locale stands for it, so formatting it fails. */
static const wchar_t unprintable[] = {0x1234, 0};

Test(arena, memory_is_zeroed_aligned_and_apart) {
  qn_arena a = {0};
  unsigned char *last_end = NULL;
  size_t sum = 0;
  for (size_t i = 0; i < 3000; i++) {
    size_t n = i * 7 % 501;
    unsigned char *p = qn_arena_alloc(&a, n);
    cr_assert(p && (uintptr_t)p % 16 == 0);
    for (size_t k = 0; k < n; k++)
      cr_assert(p[k] == 0);
    memset(p, 0xff, n);
    sum += n;
    cr_assert(p != last_end || n == 0 || last_end != NULL);
    last_end = p + n;
  }
  cr_expect(a.used >= sum);
  qn_arena_free(&a);
  cr_expect(a.head == NULL && a.used == 0);
  cr_expect(qn_arena_alloc(&a, 1) != NULL, "an arena is usable after it was freed");
  qn_arena_free(&a);
  qn_arena_free(&a);
}

Test(arena, large_requests_keep_the_small_block_in_use) {
  qn_arena a = {0};
  char *small = qn_arena_alloc(&a, 16);
  int *big = QN_NEW(&a, int, 4 << 20);
  cr_assert(small && big);
  big[(4 << 20) - 1] = 5;
  char *next = qn_arena_alloc(&a, 16);
  cr_expect(next == small + 16, "the first block's rest is still used");
  qn_arena_free(&a);
}

Test(arena, absurd_sizes_give_null) {
  qn_arena a = {0};
  cr_expect(qn_arena_alloc(&a, SIZE_MAX) == NULL);
  cr_expect(qn_arena_alloc(&a, SIZE_MAX - 40) == NULL);
  cr_expect(qn_arena_alloc(&a, SIZE_MAX / 4) == NULL);
  cr_expect(qn_arena_copy(&a, "x", 0) != NULL);
  qn_arena_free(&a);
}

Test(arena, copies_and_formats) {
  qn_arena a = {0};
  char *s = qn_arena_strdup(&a, "hello");
  int numbers[] = {1, 2, 3};
  int *n = qn_arena_copy(&a, numbers, sizeof numbers);
  char *p = qn_arena_printf(&a, "%s-%d-%s", "a", 42, "zz");
  cr_assert(s && n && p);
  cr_expect_str_eq(s, "hello");
  cr_expect(n[0] == 1 && n[2] == 3);
  cr_expect_str_eq(p, "a-42-zz");
  cr_expect(qn_arena_printf(&a, "%ls", unprintable) == NULL);
  qn_arena_free(&a);
}

Test(array, grows_and_keeps) {
  int *v = NULL;
  size_t capacity = 0;
  for (int i = 0; i < 10000; i++) {
    cr_assert(QN_RESERVE(v, capacity, (size_t)i + 1));
    v[i] = i;
  }
  for (int i = 0; i < 10000; i++)
    cr_assert(v[i] == i);
  cr_expect(capacity >= 10000 && capacity < 20000);
  int *before = v;
  size_t old = capacity;
  cr_expect(!QN_RESERVE(v, capacity, SIZE_MAX / 2));
  cr_expect(!QN_RESERVE(v, capacity, SIZE_MAX / 8));
  cr_expect(v == before && capacity == old && v[9999] == 9999, "a failed growth keeps the array");
  cr_expect(QN_RESERVE(v, capacity, 3) && v == before);
  free(v);
}

Test(text, grows_over_many_additions) {
  qn_text t = {0};
  QN_EXPECT_OK(qn_text_check(&t));
  for (int i = 0; i < 5000; i++)
    qn_text_add(&t, "%d,", i % 10);
  cr_assert(t.len == 10000 && strlen(t.buf) == 10000);
  cr_expect(strncmp(t.buf, "0,1,2,3,", 8) == 0 && strcmp(t.buf + 9996, "8,9,") == 0);
  QN_EXPECT_OK(qn_text_check(&t));
  qn_text_free(&t);
  cr_expect(t.buf == NULL && t.len == 0 && t.cap == 0);
  qn_text_free(&t);
}

Test(text, every_length_around_the_capacity) {
  static char source[200];
  memset(source, 'x', sizeof source - 1);
  for (int n = 0; n < 199; n++) {
    qn_text t = {0};
    qn_text_add(&t, "%.*s", n, source);
    qn_text_add(&t, "%.*s", n, source);
    qn_text_putn(&t, source, (size_t)n);
    cr_assert(t.len == (size_t)n * 3 && t.buf && strlen(t.buf) == t.len, "n = %d", n);
    qn_text_free(&t);
  }
}

Test(text, empty_additions_give_an_empty_string) {
  qn_text t = {0};
  qn_text_puts(&t, "");
  cr_assert(t.buf);
  cr_expect_str_eq(t.buf, "");
  qn_text_putn(&t, "abc\0def", 7);
  cr_expect(t.len == 7 && memcmp(t.buf, "abc\0def", 8) == 0);
  qn_text_free(&t);
}

Test(text, a_failed_addition_sticks) {
  qn_text t = {0};
  qn_text_puts(&t, "kept");
  qn_text_putn(&t, "", SIZE_MAX - 4);
  QN_EXPECT_FAIL(qn_text_check(&t), QN_OUT_OF_MEMORY, "behind 4 bytes");
  qn_text_puts(&t, "ignored");
  qn_text_add(&t, "%s", "ignored");
  cr_expect_str_eq(t.buf, "kept");
  qn_text_free(&t);
  cr_expect(!t.failed);
  qn_text_add(&t, "%ls", unprintable);
  QN_EXPECT_FAIL(qn_text_check(&t), QN_OUT_OF_MEMORY, "");
  qn_text_free(&t);
}

Test(text, json_strings_are_escaped) {
  qn_text t = {0};
  qn_text_json_string(&t, "a\"b\\c\n\t\r\x01\x1f\x7f\xc3\xa4/");
  cr_expect_str_eq(t.buf, "\"a\\\"b\\\\c\\n\\t\\r\\u0001\\u001f\\u007f\xc3\xa4/\"");
  qn_text_free(&t);
}
