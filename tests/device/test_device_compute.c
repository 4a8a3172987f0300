/* Every device present computes what it is told: kernels with offsets, dependent launches, copies, fills, host copies in
 * between, local memory, empty buffers, and counts of groups that have to be folded. */
#include "expect.h"
#include "kit.h"

static void fill_floats(float *x, size_t n, float step) {
  for (size_t i = 0; i < n; i++)
    x[i] = (float)i * step;
}

static void add_with_offsets(qn_device *d) {
  enum { N = 1000, ROOM = 1100 };
  float a[ROOM], b[ROOM], c[ROOM];
  qn_program *p;
  qn_buffer *buf[3];
  fill_floats(a, ROOM, 0.5f);
  fill_floats(b, ROOM, -3.0f);
  memset(c, 0, sizeof c);
  QN_ASSERT_OK(kit_program(d, &p));
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(kit_buffer(d, sizeof a, "abc", &buf[i]));
  QN_ASSERT_OK(qn_buffer_write(buf[0], 0, sizeof a, a));
  QN_ASSERT_OK(qn_buffer_write(buf[1], 0, sizeof b, b));
  QN_ASSERT_OK(qn_buffer_write(buf[2], 0, sizeof c, c));
  const uint32_t params[] = {0, N, 7, 11, 64};
  qn_cmd cmd = kit_launch(p, KIT_ADD, 16, (const uint32_t[]){0, 1, 2}, params);
  QN_ASSERT_OK(kit_run(d, &cmd, 1, buf, 3));
  QN_ASSERT_OK(qn_buffer_read(buf[2], 0, sizeof c, c));
  for (size_t i = 0; i < ROOM && kit_computes(d); i++) {
    float want = i >= 64 && i < 64 + N ? a[i - 64 + 7] + b[i - 64 + 11] : 0;
    cr_assert(c[i] == want, "%s: c[%zu] is %g, expected %g", qn_device_get_caps(d)->id, i, (double)c[i], (double)want);
  }
  for (int i = 0; i < 3; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

/* A long chain of launches, each reading all of what the one before wrote. */
static void dependent_launches(qn_device *d) {
  enum { N = 4096, LINKS = 40 };
  static uint32_t x[N], y[N];
  qn_program *p;
  qn_buffer *buf[2];
  qn_cmd cmds[2 * LINKS];
  const uint32_t params[] = {0, N};
  for (uint32_t i = 0; i < N; i++)
    x[i] = i * 7;
  QN_ASSERT_OK(kit_program(d, &p));
  for (int i = 0; i < 2; i++)
    QN_ASSERT_OK(kit_buffer(d, sizeof x, "xy", &buf[i]));
  QN_ASSERT_OK(qn_buffer_write(buf[0], 0, sizeof x, x));
  for (uint32_t i = 0; i < LINKS; i++) {
    cmds[2 * i] = kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){i % 2, 1 - i % 2}, params);
    cmds[2 * i + 1] = (qn_cmd){.kind = QN_CMD_BARRIER};
  }
  QN_ASSERT_OK(kit_run(d, cmds, 2 * LINKS, buf, 2));
  QN_ASSERT_OK(qn_buffer_read(buf[0], 0, sizeof y, y));
  for (int k = 0; k < LINKS; k++)
    for (uint32_t i = 0; i < N / 2; i++) {
      uint32_t low = x[i];
      x[i] = x[N - 1 - i] * 3 + 1;
      x[N - 1 - i] = low * 3 + 1;
    }
  if (kit_computes(d))
    cr_expect(memcmp(x, y, sizeof x) == 0, "%s: a chain of %d launches", qn_device_get_caps(d)->id, LINKS);
  for (int i = 0; i < 2; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

static void copies_and_fills(qn_device *d) {
  uint8_t in[256], out[256], want[256];
  qn_buffer *buf[2];
  for (int i = 0; i < 256; i++)
    in[i] = (uint8_t)i;
  for (int i = 0; i < 2; i++)
    QN_ASSERT_OK(kit_buffer(d, 256, "bytes", &buf[i]));
  QN_ASSERT_OK(qn_buffer_write(buf[0], 0, 256, in));
  const qn_cmd cmds[] = {
      {.kind = QN_CMD_FILL, .dst = 1, .size = 256, .pattern = 0x04030201},
      {.kind = QN_CMD_BARRIER},
      {.kind = QN_CMD_COPY, .src = 0, .dst = 1, .src_offset = 3, .dst_offset = 101, .size = 57},
      {.kind = QN_CMD_COPY, .src = 0, .dst = 1, .size = 0},
      {.kind = QN_CMD_BARRIER},
      {.kind = QN_CMD_FILL, .dst = 1, .dst_offset = 200, .size = 16, .pattern = 0},
      {.kind = QN_CMD_FILL, .dst = 1, .size = 0, .pattern = 7},
      {.kind = QN_CMD_COPY, .src = 1, .dst = 1, .src_offset = 0, .dst_offset = 240, .size = 16},
  };
  QN_ASSERT_OK(kit_run(d, cmds, sizeof cmds / sizeof *cmds, buf, 2));
  QN_ASSERT_OK(qn_buffer_read(buf[1], 0, 256, out));
  for (int i = 0; i < 256; i++)
    want[i] = (uint8_t)(1 + i % 4);
  memcpy(want + 101, in + 3, 57);
  memset(want + 200, 0, 16);
  memcpy(want + 240, want, 16);
  cr_expect(memcmp(out, want, 256) == 0, "%s: copies and fills", qn_device_get_caps(d)->id);
  /* Parts, at odd places. */
  QN_ASSERT_OK(qn_buffer_write(buf[1], 13, 5, in + 200));
  QN_ASSERT_OK(qn_buffer_read(buf[1], 11, 9, out));
  memcpy(want + 13, in + 200, 5);
  cr_expect(memcmp(out, want + 11, 9) == 0, "%s: parts", qn_device_get_caps(d)->id);
  for (int i = 0; i < 2; i++)
    qn_buffer_release(buf[i]);
}

/* Writes come behind what was submitted and before what is submitted after, without waiting. */
static void writes_in_order(qn_device *d) {
  enum { N = 64 * 256 };
  static uint32_t x[N], y[N];
  qn_program *p;
  qn_buffer *buf[3];
  qn_recording *r;
  const uint32_t params[] = {0, N};
  QN_ASSERT_OK(kit_program(d, &p));
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(kit_buffer(d, sizeof x, "xyz", &buf[i]));
  const qn_cmd cmds[] = {
      kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
      {.kind = QN_CMD_BARRIER},
      {.kind = QN_CMD_COPY, .src = 1, .dst = 2, .size = 4},
  };
  QN_ASSERT_OK(qn_record(d, &(qn_recording_desc){.cmds = cmds, .cmd_count = 3, .buffers = buf, .buffer_count = 3}, &r));
  for (uint32_t round = 0; round < 30; round++) {
    for (uint32_t i = 0; i < N; i++)
      x[i] = round;
    QN_ASSERT_OK(qn_buffer_write(buf[0], 0, sizeof x, x));
    QN_ASSERT_OK(qn_submit(d, r, NULL, 0, NULL));
    memset(x, 0xff, sizeof x); /* ours again at once */
  }
  QN_ASSERT_OK(qn_buffer_read(buf[1], 0, sizeof y, y));
  for (uint32_t i = 0; i < N && kit_computes(d); i++)
    cr_assert(y[i] == 29 * 3 + 1, "%s: y[%u] is %u", qn_device_get_caps(d)->id, i, y[i]);
  qn_recording_release(r);
  for (int i = 0; i < 3; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

static void local_memory(qn_device *d) {
  enum { G = 33 };
  uint32_t x[G * KIT_ITEMS], y[G];
  qn_program *p;
  qn_buffer *buf[2];
  for (uint32_t i = 0; i < G * KIT_ITEMS; i++)
    x[i] = i * i;
  QN_ASSERT_OK(kit_program(d, &p));
  QN_ASSERT_OK(kit_buffer(d, sizeof x, "x", &buf[0]));
  QN_ASSERT_OK(kit_buffer(d, sizeof y, "y", &buf[1]));
  QN_ASSERT_OK(qn_buffer_write(buf[0], 0, sizeof x, x));
  qn_cmd cmd = kit_launch(p, KIT_LOCAL, G, (const uint32_t[]){0, 1}, (const uint32_t[]){0});
  QN_ASSERT_OK(kit_run(d, &cmd, 1, buf, 2));
  QN_ASSERT_OK(qn_buffer_read(buf[1], 0, sizeof y, y));
  for (uint32_t g = 0; g < G && kit_computes(d); g++) {
    uint32_t want = 0;
    for (uint32_t i = 0; i < KIT_ITEMS; i++)
      want += x[g * KIT_ITEMS + i];
    cr_expect(y[g] == want, "%s: group %u", qn_device_get_caps(d)->id, g);
  }
  for (int i = 0; i < 2; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

/* Nothing may make a*a+b one rounding where the kernel writes two. */
static void no_contraction(qn_device *d) {
  enum { N = 2048 };
  static float a[N], b[N], c[N];
  qn_program *p;
  qn_buffer *buf[3];
  for (uint32_t i = 0; i < N; i++) {
    a[i] = 1.0f + (float)(i + 1) * 0x1p-13f;
    b[i] = -(a[i] * a[i]);
  }
  QN_ASSERT_OK(kit_program(d, &p));
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(kit_buffer(d, sizeof a, "abc", &buf[i]));
  QN_ASSERT_OK(qn_buffer_write(buf[0], 0, sizeof a, a));
  QN_ASSERT_OK(qn_buffer_write(buf[1], 0, sizeof b, b));
  qn_cmd cmd = kit_launch(p, KIT_FUSED, N / KIT_ITEMS, (const uint32_t[]){0, 1, 2}, (const uint32_t[]){0, N});
  QN_ASSERT_OK(kit_run(d, &cmd, 1, buf, 3));
  QN_ASSERT_OK(qn_buffer_read(buf[2], 0, sizeof c, c));
  for (uint32_t i = 0; i < N && kit_computes(d); i++)
    cr_assert(c[i] == 0, "%s: c[%u] is %g: contracted", qn_device_get_caps(d)->id, i, (double)c[i]);
  for (int i = 0; i < 3; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

static void empty_things(qn_device *d) {
  qn_program *p;
  qn_buffer *buf[3];
  QN_ASSERT_OK(kit_program(d, &p));
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(kit_buffer(d, 0, "empty", &buf[i]));
  cr_expect(qn_buffer_size(buf[0]) == 0);
  QN_EXPECT_OK(qn_buffer_write(buf[0], 0, 0, NULL));
  QN_EXPECT_OK(qn_buffer_read(buf[0], 0, 0, NULL));
  QN_EXPECT_FAIL(qn_buffer_write(buf[0], 0, 1, "x"), QN_INVALID, "empty");
  const uint32_t params[] = {0, 0, 0, 0, 0};
  const qn_cmd cmds[] = {kit_launch(p, KIT_ADD, 1, (const uint32_t[]){0, 1, 2}, params),
                         kit_launch(p, KIT_ADD, 0, (const uint32_t[]){0, 1, 2}, params),
                         {.kind = QN_CMD_COPY, .src = 0, .dst = 1},
                         {.kind = QN_CMD_FILL, .dst = 0},
                         {.kind = QN_CMD_BARRIER}};
  QN_EXPECT_OK(kit_run(d, cmds, 5, buf, 3));
  QN_EXPECT_OK(kit_run(d, cmds, 0, buf, 0));
  QN_EXPECT_OK(kit_run(d, cmds + 4, 1, NULL, 0));
  for (int i = 0; i < 3; i++)
    qn_buffer_release(buf[i]);
  qn_program_release(p);
}

static void count_groups(qn_device *d, uint32_t groups) {
  uint32_t *x = calloc(groups + 8, sizeof *x);
  qn_program *p;
  qn_buffer *b;
  cr_assert(x);
  QN_ASSERT_OK(kit_program(d, &p));
  QN_ASSERT_OK(kit_buffer(d, (groups + 8) * sizeof *x, "x", &b));
  QN_ASSERT_OK(qn_buffer_write(b, 0, (groups + 8) * sizeof *x, x));
  qn_cmd cmd = kit_launch(p, KIT_COUNT, groups, (const uint32_t[]){0}, (const uint32_t[]){12345});
  QN_ASSERT_OK(kit_run(d, &cmd, 1, &b, 1));
  QN_ASSERT_OK(qn_buffer_read(b, 0, (groups + 8) * sizeof *x, x));
  for (uint32_t g = 0; g < groups + 8 && kit_computes(d); g++)
    cr_assert(x[g] == (g < groups), "%s: group %u of %u ran %u times", qn_device_get_caps(d)->id, g, groups, x[g]);
  qn_buffer_release(b);
  qn_program_release(p);
  free(x);
}

static void for_each_device(void (*run)(qn_device *)) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    run(d);
    qn_device_stats stats;
    qn_device_get_stats(d, &stats);
    cr_expect(stats.bytes_live == 0, "%s: %llu bytes live", list.ids[i], (unsigned long long)stats.bytes_live);
    qn_device_release(d);
  }
}

Test(device_compute, add_with_offsets) { for_each_device(add_with_offsets); }
Test(device_compute, dependent_launches) { for_each_device(dependent_launches); }
Test(device_compute, copies_and_fills) { for_each_device(copies_and_fills); }
Test(device_compute, writes_in_order) { for_each_device(writes_in_order); }
Test(device_compute, local_memory) { for_each_device(local_memory); }
Test(device_compute, no_contraction) { for_each_device(no_contraction); }
Test(device_compute, empty_things) { for_each_device(empty_things); }

static void all_counts(qn_device *d) {
  static const uint32_t counts[] = {1, 2, 6, 7, 8, 35, 36, 71, 104, 105};
  uint32_t folded[3];
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (qn_fold_groups(counts[i], qn_device_get_caps(d)->max_groups,
                       folded)) /* not all devices have three dimensions */
      count_groups(d, counts[i]);
}

/* 7 x 5 x 3 groups at most. */
Test(device_compute, folded_groups) {
  setenv("QN_LIMITS", "groups=7,5,3", 1);
  for_each_device(all_counts);
}

static void too_many_groups(qn_device *d) {
  qn_program *p;
  qn_buffer *b;
  QN_ASSERT_OK(kit_program(d, &p));
  QN_ASSERT_OK(kit_buffer(d, 1024, "x", &b));
  qn_cmd cmd = kit_launch(p, KIT_COUNT, 106, (const uint32_t[]){0}, (const uint32_t[]){0});
  QN_EXPECT_FAIL(kit_run(d, &cmd, 1, &b, 1), QN_UNSUPPORTED, "count (test.c:2)");
  qn_buffer_release(b);
  qn_program_release(p);
}

Test(device_compute, too_many_groups) {
  setenv("QN_LIMITS", "groups=7,5,3", 1);
  for_each_device(too_many_groups);
}

static void many_groups(qn_device *d) {
  if (!qn_device_get_caps(d)->software || qn_device_get_caps(d)->device_class == QN_CLASS_CPU_TILE)
    count_groups(d, 70000);
}
Test(device_compute, more_than_65535_groups) { for_each_device(many_groups); }
