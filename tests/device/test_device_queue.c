/* Recordings are replayed without making anything new, tickets order work within a device and between devices, device
 * times and binaries come back, counters count. */
#include "expect.h"
#include "kit.h"

static void for_each_device(void (*run)(qn_device *)) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    run(d);
    qn_device_release(d);
  }
}

typedef struct chain {
  qn_program *p;
  qn_buffer *b[2];
  qn_recording *r;
  uint32_t n;
} chain;

/* x -> y -> x by two launches with barriers. */
static void chain_make(qn_device *d, uint32_t n, bool timestamps, chain *c) {
  const uint32_t params[] = {0, n};
  c->n = n;
  QN_ASSERT_OK(kit_program(d, &c->p));
  for (int i = 0; i < 2; i++) {
    QN_ASSERT_OK(kit_buffer(d, n * 4, i ? "y" : "x", &c->b[i]));
  }
  uint32_t *zeros = calloc(n, 4);
  QN_ASSERT_OK(qn_buffer_write(c->b[0], 0, n * 4, zeros));
  free(zeros);
  const qn_cmd cmds[] = {kit_launch(c->p, KIT_CHAIN, n / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
                         {.kind = QN_CMD_BARRIER},
                         kit_launch(c->p, KIT_CHAIN, n / KIT_ITEMS, (const uint32_t[]){1, 0}, params)};
  qn_recording_desc desc = {.cmds = cmds, .cmd_count = 3, .buffers = c->b, .buffer_count = 2, .timestamps = timestamps};
  QN_ASSERT_OK(qn_record(d, &desc, &c->r));
}

static void chain_free(chain *c) {
  qn_recording_release(c->r);
  qn_buffer_release(c->b[0]);
  qn_buffer_release(c->b[1]);
  qn_program_release(c->p);
}

/* x[i] of zeros after `links` links of v * 3 + 1. */
static uint32_t after(uint32_t links) {
  uint32_t v = 0;
  while (links--)
    v = v * 3 + 1;
  return v;
}

static void replay(qn_device *d) {
  chain c;
  qn_device_stats before, now;
  uint64_t first, last = 0;
  chain_make(d, 1024, false, &c);
  QN_ASSERT_OK(qn_submit(d, c.r, NULL, 0, &first));
  qn_device_get_stats(d, &before);
  for (int i = 0; i < 99; i++)
    QN_ASSERT_OK(qn_submit(d, c.r, NULL, 0, &last)); /* many times while in flight */
  QN_EXPECT_OK(qn_device_wait(d, last, 0));
  cr_expect(last == first + 99);
  cr_expect(qn_device_done(d, first) && qn_device_done(d, last));
  qn_device_get_stats(d, &now);
  cr_expect(now.submits == before.submits + 99 && now.launches == before.launches + 198);
  cr_expect(now.buffers_created == before.buffers_created && now.programs_compiled == before.programs_compiled &&
            now.recordings == before.recordings && now.descriptor_updates == before.descriptor_updates &&
            now.bytes_live == before.bytes_live && now.bytes_written == before.bytes_written);
  uint32_t x[1024];
  QN_ASSERT_OK(qn_buffer_read(c.b[0], 0, sizeof x, x));
  if (kit_computes(d))
    cr_expect(x[0] == after(200) && x[1023] == after(200), "%s: %u", qn_device_get_caps(d)->id, x[0]);
  qn_device_get_stats(d, &now);
  cr_expect(now.bytes_read == sizeof x && now.bytes_peak == 2 * sizeof x);
  chain_free(&c);
}
Test(device_queue, replay) { for_each_device(replay); }

static void times(qn_device *d) {
  chain c;
  uint64_t ns[3] = {7, 7, 7}, ticket;
  chain_make(d, 64 * 1024, true, &c);
  if (qn_device_get_caps(d)->software && kit_computes(d))
    QN_EXPECT_FAIL(qn_recording_times(c.r, ns, 3), QN_INVALID, "not submitted");
  for (int i = 0; i < 2; i++)
    QN_ASSERT_OK(qn_submit(d, c.r, NULL, 0, &ticket));
  QN_ASSERT_OK(qn_device_wait(d, ticket, 0));
  QN_EXPECT_FAIL(qn_recording_times(c.r, ns, 2), QN_INVALID, "3");
  QN_EXPECT_OK(qn_recording_times(c.r, ns, 3));
  cr_expect(ns[1] == 0, "a barrier takes no time");
  cr_expect(ns[0] < 60000000000u && ns[2] < 60000000000u, "%s", qn_device_get_caps(d)->id);
  if (kit_computes(d))
    cr_expect(ns[0] > 0 && ns[2] > 0, "%s: %llu, %llu ns", qn_device_get_caps(d)->id, (unsigned long long)ns[0],
              (unsigned long long)ns[2]);
  uint32_t x;
  QN_ASSERT_OK(qn_buffer_read(c.b[0], 0, 4, &x));
  if (kit_computes(d))
    cr_expect(x == after(4));
  chain_free(&c);
  chain_make(d, 64, false, &c);
  QN_EXPECT_FAIL(qn_recording_times(c.r, ns, 3), QN_UNSUPPORTED, "without timestamps");
  chain_free(&c);
}
Test(device_queue, times) { for_each_device(times); }

/* A binary taken after warm-up makes the same program without compiling; rubbish is ignored. */
static void binaries(qn_device *d) {
  qn_program *p;
  qn_bytes binary;
  bool used = true;
  qn_code code = kit_code(d);
  qn_device_stats stats;
  QN_ASSERT_OK(qn_program_create(d, &code, NULL, &used, &p));
  cr_expect(!used);
  QN_EXPECT_OK(qn_program_warm_up(p));
  QN_EXPECT_OK(qn_program_warm_up(p));
  QN_ASSERT_OK(qn_program_binary(p, &binary));
  qn_program_release(p);
  qn_device_get_stats(d, &stats);
  cr_expect(stats.programs_compiled == 1);
  if (code.format == QN_CODE_OPENCL_C)
    cr_expect(binary.size > 0);
  if (binary.size) {
    QN_ASSERT_OK(qn_program_create(d, &code, &binary, &used, &p));
    cr_expect(used, "%s takes its own binary", qn_device_get_caps(d)->id);
    qn_program_release(p);
    qn_device_get_stats(d, &stats);
    cr_expect(stats.programs_compiled == 1);
  }
  if (binary.size) {
    binary.data[binary.size - 1] ^= 1;
    QN_ASSERT_OK(qn_program_create(d, &code, &binary, &used, &p));
    if (code.format == QN_CODE_OPENCL_C)
      cr_expect(!used, "%s refuses a damaged binary", qn_device_get_caps(d)->id);
    qn_program_release(p);
  }
  uint8_t rubbish[100];
  memset(rubbish, 'r', sizeof rubbish);
  qn_bytes bad = {rubbish, sizeof rubbish};
  QN_ASSERT_OK(qn_program_create(d, &code, &bad, &used, &p));
  cr_expect(!used, "%s refuses rubbish", qn_device_get_caps(d)->id);
  qn_program_release(p);
  free(binary.data);
}
Test(device_queue, binaries) { for_each_device(binaries); }

/* The program from a binary computes the same. */
static void binary_computes(qn_device *d) {
  chain c;
  qn_bytes binary;
  bool used;
  qn_code code = kit_code(d);
  chain_make(d, 256, false, &c);
  QN_ASSERT_OK(kit_run(d, NULL, 0, NULL, 0));
  QN_ASSERT_OK(qn_program_warm_up(c.p));
  QN_ASSERT_OK(qn_program_binary(c.p, &binary));
  qn_program *p;
  QN_ASSERT_OK(qn_program_create(d, &code, &binary, &used, &p));
  const uint32_t params[] = {0, 256};
  qn_cmd cmd = kit_launch(p, KIT_CHAIN, 4, (const uint32_t[]){0, 1}, params);
  QN_ASSERT_OK(kit_run(d, &cmd, 1, c.b, 2));
  uint32_t y[256];
  QN_ASSERT_OK(qn_buffer_read(c.b[1], 0, sizeof y, y));
  if (kit_computes(d))
    cr_expect(y[0] == 1 && y[255] == 1);
  qn_program_release(p);
  free(binary.data);
  chain_free(&c);
}
Test(device_queue, binary_computes) { for_each_device(binary_computes); }

/* Host memory that is the device's own: stores and loads without copies. */
static void mapped(qn_device *d) {
  chain c;
  chain_make(d, 256, false, &c);
  uint32_t *x = qn_buffer_map(c.b[0]);
  cr_expect((x != NULL) == qn_device_get_caps(d)->host_memory);
  cr_expect(((uintptr_t)x & 63) == 0);
  for (uint32_t round = 0; x && round < 20; round++) {
    uint64_t ticket;
    for (int i = 0; i < 256; i++)
      x[i] = round;
    QN_ASSERT_OK(qn_submit(d, c.r, NULL, 0, &ticket));
    QN_ASSERT_OK(qn_device_wait(d, ticket, 0));
    for (int i = 0; i < 256 && kit_computes(d); i++)
      cr_assert(x[i] == round * 9 + 4, "%s: x[%d] is %u in round %u", qn_device_get_caps(d)->id, i, x[i], round);
  }
  chain_free(&c);
}
Test(device_queue, mapped) { for_each_device(mapped); }

/* Two devices, one chain: each waits for the other's ticket. The host moves nothing and waits only at the end. */
static void ping_pong(qn_device *a, qn_device *b) {
  enum { N = 8192, ROUNDS = 10 };
  chain ca, cb;
  uint64_t ta = 0, tb = 0;
  chain_make(a, N, false, &ca);
  chain_make(b, N, false, &cb);
  for (int i = 0; i < ROUNDS; i++) {
    qn_wait wait_b = {b, tb};
    QN_ASSERT_OK(qn_submit(a, ca.r, &wait_b, 1, &ta));
    qn_wait wait_a = {a, ta};
    QN_ASSERT_OK(qn_submit(b, cb.r, &wait_a, 1, &tb));
  }
  QN_EXPECT_OK(qn_device_wait(b, tb, 0));
  cr_expect(qn_device_done(a, ta), "b's last submission waited for a's");
  uint32_t x[N];
  QN_ASSERT_OK(qn_buffer_read(ca.b[0], 0, sizeof x, x));
  if (kit_computes(a))
    cr_expect(x[N - 1] == after(2 * ROUNDS));
  chain_free(&ca);
  chain_free(&cb);
}

Test(device_queue, tickets_across_devices) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *a, *b;
    QN_ASSERT_OK(kit_open(list.ids[i], &a));
    QN_ASSERT_OK(kit_open(list.ids[(i + 1) % list.count], &b));
    ping_pong(a, b);
    qn_device_release(a);
    qn_device_release(b);
  }
}

/* What waits for another device, and everything behind it, starts only afterwards; releasing early is allowed. */
Test(device_queue, order_behind_a_foreign_wait) {
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  qn_device *null;
  QN_ASSERT_OK(kit_open("null", &null));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    qn_program *p;
    qn_buffer *b, *nb;
    qn_recording *slow, *fill, *more;
    uint64_t ts, tf, tm;
    const uint32_t params[] = {0, 20000};
    QN_ASSERT_OK(kit_program(d, &p));
    QN_ASSERT_OK(kit_buffer(d, 256 * KIT_ITEMS * 4, "x", &b));
    QN_ASSERT_OK(kit_buffer(null, 64, "n", &nb));
    qn_cmd c = kit_launch(p, KIT_SLOW, 256, (const uint32_t[]){0}, params);
    QN_ASSERT_OK(
        qn_record(d, &(qn_recording_desc){.cmds = &c, .cmd_count = 1, .buffers = &b, .buffer_count = 1}, &slow));
    c = (qn_cmd){.kind = QN_CMD_FILL, .size = 64, .pattern = 1};
    QN_ASSERT_OK(
        qn_record(null, &(qn_recording_desc){.cmds = &c, .cmd_count = 1, .buffers = &nb, .buffer_count = 1}, &fill));
    c.pattern = 2;
    QN_ASSERT_OK(
        qn_record(null, &(qn_recording_desc){.cmds = &c, .cmd_count = 1, .buffers = &nb, .buffer_count = 1}, &more));
    QN_ASSERT_OK(qn_submit(d, slow, NULL, 0, &ts));
    qn_wait wait = {d, ts};
    QN_ASSERT_OK(qn_submit(null, fill, &wait, 1, &tf));
    QN_ASSERT_OK(qn_submit(null, more, NULL, 0, &tm));
    cr_expect(tm == tf + 1);
    qn_recording_release(fill);
    qn_recording_release(slow);
    QN_EXPECT_OK(qn_device_wait(null, tm, 0));
    cr_expect(qn_device_done(d, ts) && qn_device_done(null, tf));
    uint32_t x[16];
    QN_ASSERT_OK(qn_buffer_read(nb, 0, 64, x));
    cr_expect(x[0] == 2 && x[15] == 2);
    qn_recording_release(more);
    qn_buffer_release(nb);
    qn_buffer_release(b);
    qn_program_release(p);
    qn_device_release(d);
  }
  qn_device_release(null);
}

/* QN_SYNC: nothing is in flight when submit returns. */
Test(device_queue, every_submit_waited_for) {
  setenv("QN_SYNC", "on", 1);
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d;
    chain c;
    uint64_t ticket;
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    chain_make(d, 4096, false, &c);
    for (int k = 0; k < 5; k++) {
      QN_ASSERT_OK(qn_submit(d, c.r, NULL, 0, &ticket));
      cr_expect(qn_device_done(d, ticket), "%s", list.ids[i]);
    }
    chain_free(&c);
    qn_device_release(d);
  }
}
