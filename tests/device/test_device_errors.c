/* What goes wrong is said: bad arguments, kernels that do not compile, full memory, injected faults, lost devices, waits
 * that end. Nothing aborts, leaks or hangs, on any device present. */
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

static void bad_arguments(qn_device *d) {
  qn_program *p;
  qn_buffer *b[2];
  uint8_t bytes[16] = {0};
  QN_ASSERT_OK(kit_program(d, &p));
  QN_ASSERT_OK(kit_buffer(d, 64, "first", &b[0]));
  QN_ASSERT_OK(kit_buffer(d, 64, "second", &b[1]));
  QN_EXPECT_FAIL(qn_buffer_write(b[0], 60, 5, bytes), QN_INVALID, "first");
  QN_EXPECT_FAIL(qn_buffer_write(b[0], UINT64_MAX, 2, bytes), QN_INVALID, "first");
  QN_EXPECT_FAIL(qn_buffer_write(b[0], 0, 4, NULL), QN_INVALID, "no data");
  QN_EXPECT_FAIL(qn_buffer_read(b[1], 65, 0, bytes), QN_INVALID, "second");
  QN_EXPECT_FAIL(qn_buffer_read(b[1], 0, 4, NULL), QN_INVALID, "no room");
  const uint32_t params[5] = {0};
  qn_cmd launch = kit_launch(p, KIT_CHAIN, 1, (const uint32_t[]){0, 1}, params);
  qn_cmd c = launch;
  c.entry = KIT_KERNELS;
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "entry");
  c = launch;
  c.binding_count = 1;
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "binds 1 buffers, expected 2");
  c = launch;
  c.param_count = 1;
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "chain (test.c:3)");
  c = launch;
  c.bindings[1] = 2;
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "buffer 2 of 2");
  c = launch;
  c.program = NULL;
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "no program");
  c = (qn_cmd){.kind = QN_CMD_COPY, .src = 0, .dst = 1, .dst_offset = 60, .size = 8};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "second");
  c = (qn_cmd){.kind = QN_CMD_COPY, .src = 0, .dst = 5, .size = 8};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "buffer 5");
  c = (qn_cmd){.kind = QN_CMD_COPY, .src = 0, .dst = 0, .dst_offset = 4, .size = 8};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "overlapping");
  c = (qn_cmd){.kind = QN_CMD_FILL, .dst = 0, .size = 6};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "multiples of 4");
  c = (qn_cmd){.kind = (qn_cmd_kind)17};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_INVALID, "unknown kind");
  qn_buffer *hole[2] = {b[0], NULL};
  QN_EXPECT_FAIL(kit_run(d, &launch, 1, hole, 2), QN_INVALID, "buffer 1 is missing");
  QN_EXPECT_FAIL(qn_submit(d, NULL, NULL, 0, NULL), QN_INVALID, "no recording");
  QN_EXPECT_FAIL(qn_device_wait(d, 1000, 0), QN_INVALID, "1000");
  QN_EXPECT_OK(qn_device_wait(d, 0, 0));
  cr_expect(qn_device_done(d, 0) && !qn_device_done(d, 1000));
  qn_code code = kit_code(d);
  code.format = code.format == QN_CODE_SPIRV ? QN_CODE_OPENCL_C : QN_CODE_SPIRV;
  qn_program *none = p;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &none), QN_INVALID, "takes");
  cr_expect(none == NULL);
  qn_code_entry entry = kit_entries[KIT_COUNT];
  code = kit_code(d);
  code.entries = &entry;
  code.entry_count = 1;
  entry.items = 1u << 20;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &none), QN_UNSUPPORTED, "count (test.c:2)");
  qn_program_release(p);
  qn_buffer_release(b[0]);
  qn_buffer_release(b[1]);
}
Test(device_errors, bad_arguments) { for_each_device(bad_arguments); }

static int releases;
static void count_release(void *owner) { releases += *(int *)owner; }

/* A text that does not compile, a module without an entry point: log and label are in the message, and the code's owner
 * has been told. */
static void broken_kernels(qn_device *d) {
  static const char text[] = "__kernel void fine(__global uchar *b, __global const uint *p, uint base) {}\n"
                             "\n"
                             "__kernel void broken(__global uchar *b, __global const uint *p, uint base) {\n"
                             "  b[0] = undeclared_thing;\n"
                             "}\n";
  uint32_t module[sizeof spirv_count / 4];
  memcpy(module, spirv_count, sizeof module);
  for (size_t i = 0; i + 1 < sizeof module / 4; i++)
    if (module[i] == 0x6e69616d) /* "main" */
      module[i] = 0x6e69616e;
  int one = 1;
  qn_code_entry entries[2] = {kit_entries[KIT_COUNT], kit_entries[KIT_COUNT]};
  entries[0].name = "fine";
  entries[0].label = "the fine one";
  entries[1].name = "broken";
  entries[1].label = "dot+add (net.c:12)";
  entries[1].spirv = module;
  qn_code code = kit_code(d);
  code.source = text;
  code.source_bytes = sizeof text - 1;
  code.entries = entries;
  code.entry_count = 2;
  code.release = count_release;
  code.owner = &one;
  qn_program *p = NULL;
  releases = 0;
  if (code.format == QN_CODE_NATIVE || code.format == QN_CODE_NULL) {
    QN_ASSERT_OK(qn_program_create(d, &code, NULL, NULL, &p));
    cr_expect(releases == 0);
    qn_program_release(p);
  } else {
    QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &p), QN_COMPILE, "dot+add (net.c:12)");
    if (code.format == QN_CODE_OPENCL_C)
      cr_expect(qn_test_contains(qn_error_message(), "undeclared_thing"));
    cr_expect(p == NULL);
  }
  cr_expect(releases == 1, "%s: %d releases", qn_device_get_caps(d)->id, releases);
}
Test(device_errors, broken_kernels) { for_each_device(broken_kernels); }

static void capability_refused(qn_device *d) {
  if (qn_device_get_caps(d)->format != QN_CODE_SPIRV)
    return;
  /* OpCapability Int64 in place of Shader. */
  uint32_t module[sizeof spirv_count / 4];
  memcpy(module, spirv_count, sizeof module);
  cr_assert(module[5] == 0x00020011 && module[6] == 1);
  module[6] = 11;
  qn_code_entry entry = kit_entries[KIT_COUNT];
  entry.spirv = module;
  qn_code code = kit_code(d);
  code.entries = &entry;
  code.entry_count = 1;
  qn_program *p;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &p), QN_COMPILE, "Int64");
  entry.spirv = spirv_count;
  entry.spirv_bytes = sizeof spirv_count - 8;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &p), QN_COMPILE, "broken");
  entry.spirv_bytes = 12;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &p), QN_INVALID, "no SPIR-V module");
  entry.spirv_bytes = sizeof spirv_count;
  entry.items = 32;
  QN_EXPECT_FAIL(qn_program_create(d, &code, NULL, NULL, &p), QN_COMPILE, "64 items a group, expected 32");
}
Test(device_errors, capability_refused) {
  setenv("QN_LIMITS", "i64=0", 1);
  for_each_device(capability_refused);
}

static void too_large(qn_device *d) {
  qn_buffer *b = NULL;
  const qn_device_caps *caps = qn_device_get_caps(d);
  QN_EXPECT_FAIL(kit_buffer(d, UINT64_MAX, "giant", &b), QN_OUT_OF_MEMORY, "giant");
  QN_EXPECT_FAIL(kit_buffer(d, caps->max_buffer_bytes + 1, "giant", &b), QN_OUT_OF_MEMORY, caps->id);
  cr_expect(b == NULL);
  qn_device_stats stats;
  qn_device_get_stats(d, &stats);
  cr_expect(stats.bytes_live == 0 && stats.buffers_created == 0);
}
Test(device_errors, too_large) { for_each_device(too_large); }

static void pretended_memory(qn_device *d) {
  qn_buffer *b[3] = {0};
  qn_program *p;
  QN_ASSERT_OK(kit_buffer(d, 60000, "one", &b[0]));
  QN_EXPECT_FAIL(kit_buffer(d, 60000, "two", &b[1]), QN_OUT_OF_MEMORY, "60000 in use");
  QN_ASSERT_OK(kit_buffer(d, 30000, "three", &b[1]));
  QN_EXPECT_FAIL(kit_program(d, &p), QN_UNSUPPORTED, "binds 3 buffers");
  qn_code code = kit_code(d);
  code.entries = &kit_entries[KIT_COUNT];
  code.entry_count = 1;
  QN_ASSERT_OK(qn_program_create(d, &code, NULL, NULL, &p));
  const uint32_t param = 0;
  qn_cmd c = {.kind = QN_CMD_LAUNCH, .program = p, .groups = 1, .binding_count = 1, .params = &param, .param_count = 1};
  QN_EXPECT_FAIL(kit_run(d, &c, 1, b, 2), QN_OUT_OF_MEMORY, "buffer one has 60000 bytes");
  c.bindings[0] = 1;
  QN_EXPECT_OK(kit_run(d, &c, 1, b, 2));
  qn_program_release(p);
  qn_buffer_release(b[0]);
  qn_buffer_release(b[1]);
}
Test(device_errors, pretended_memory) {
  setenv("QN_LIMITS", "memory=100000,range=40000,bindings=2", 1);
  for_each_device(pretended_memory);
}

static void injected(qn_device *d) {
  qn_buffer *b, *more;
  qn_program *p;
  QN_ASSERT_OK(kit_buffer(d, 64, "first", &b));
  QN_EXPECT_FAIL(kit_buffer(d, 64, "second", &more), QN_OUT_OF_MEMORY, "QN_FAULT");
  QN_ASSERT_OK(kit_buffer(d, 64, "third", &more));
  QN_EXPECT_FAIL(kit_program(d, &p), QN_COMPILE, "QN_FAULT");
  QN_ASSERT_OK(kit_program(d, &p));
  qn_cmd fill = {.kind = QN_CMD_FILL, .dst = 0, .size = 64, .pattern = 5};
  uint32_t x[16] = {0};
  QN_EXPECT_OK(kit_run(d, &fill, 1, &b, 1));
  QN_EXPECT_OK(kit_run(d, &fill, 1, &b, 1));
  fill.pattern = 6;
  QN_EXPECT_FAIL(kit_run(d, &fill, 1, &b, 1), QN_OUT_OF_MEMORY, "QN_FAULT");
  QN_EXPECT_OK(qn_buffer_read(b, 0, sizeof x, x));
  cr_expect(x[3] == 5, "a submission that failed does nothing");
  QN_EXPECT_OK(kit_run(d, &fill, 1, &b, 1));
  QN_EXPECT_OK(qn_buffer_read(b, 0, sizeof x, x));
  cr_expect(x[3] == 6);
  QN_EXPECT_FAIL(kit_run(d, &fill, 1, &b, 1), QN_DEVICE_LOST, "QN_FAULT");
  /* From here on everything says so, and releasing works. */
  QN_EXPECT_FAIL(qn_buffer_read(b, 0, sizeof x, x), QN_DEVICE_LOST, "lost");
  QN_EXPECT_FAIL(qn_buffer_write(b, 0, sizeof x, x), QN_DEVICE_LOST, "lost");
  QN_EXPECT_FAIL(kit_run(d, &fill, 1, &b, 1), QN_DEVICE_LOST, "lost");
  QN_EXPECT_FAIL(qn_device_wait(d, 1, 0), QN_DEVICE_LOST, "lost");
  qn_buffer *none;
  QN_EXPECT_FAIL(kit_buffer(d, 64, "late", &none), QN_DEVICE_LOST, "lost");
  QN_EXPECT_FAIL(qn_program_warm_up(p), QN_DEVICE_LOST, "lost");
  qn_program_release(p);
  qn_buffer_release(b);
  qn_buffer_release(more);
}
Test(device_errors, injected) {
  setenv("QN_FAULT", "alloc:2,compile:1,submit:3,lost:5", 1);
  for_each_device(injected);
}

/* A kernel that takes a while: a short wait ends with the label and the age, a longer one finds it done. */
static void timeouts(qn_device *d) {
  const qn_device_caps *caps = qn_device_get_caps(d);
  if (!kit_computes(d))
    return;
  qn_program *p;
  qn_buffer *b;
  qn_recording *r;
  uint64_t ticket = 0;
  enum { GROUPS = 64 };
  QN_ASSERT_OK(kit_program(d, &p));
  QN_ASSERT_OK(qn_program_warm_up(p));
  QN_ASSERT_OK(kit_buffer(d, GROUPS * KIT_ITEMS * 4, "x", &b));
  uint32_t params[] = {0, 4000};
  for (int tries = 0; tries < 12; tries++, params[1] *= 2) {
    qn_cmd c = kit_launch(p, KIT_SLOW, GROUPS, (const uint32_t[]){0}, params);
    QN_ASSERT_OK(qn_record(d, &(qn_recording_desc){.cmds = &c, .cmd_count = 1, .buffers = &b, .buffer_count = 1}, &r));
    QN_ASSERT_OK(qn_submit(d, r, NULL, 0, &ticket));
    qn_status st = qn_device_wait(d, ticket, 1000);
    qn_recording_release(r); /* in flight: waits by itself */
    cr_expect(qn_device_done(d, ticket));
    QN_EXPECT_OK(qn_device_wait(d, ticket, 1));
    if (st == QN_OK)
      continue; /* too fast to be caught */
    cr_expect(st == QN_TIMEOUT, "%s: %s", caps->id, qn_error_report());
    cr_expect(qn_test_contains(qn_error_message(), "add (test.c:1)") || qn_test_contains(qn_error_message(), "slow"),
              "%s: names the work", caps->id);
    cr_expect(qn_test_contains(qn_error_message(), "s old"));
    break;
  }
  qn_program_release(p);
  qn_buffer_release(b);
}
Test(device_errors, timeouts) { for_each_device(timeouts); }

Test(device_errors, objects_of_another_device) {
  qn_device *a, *b;
  qn_buffer *buf;
  qn_program *p;
  qn_recording *r;
  QN_ASSERT_OK(kit_open("null", &a));
  QN_ASSERT_OK(kit_open("null", &b));
  QN_ASSERT_OK(kit_buffer(a, 64, "mine", &buf));
  QN_ASSERT_OK(kit_program(a, &p));
  qn_cmd c = {.kind = QN_CMD_FILL, .size = 64};
  QN_EXPECT_FAIL(kit_run(b, &c, 1, &buf, 1), QN_INVALID, "belongs to device");
  c = kit_launch(p, KIT_COUNT, 1, (const uint32_t[]){0}, (const uint32_t[]){0});
  qn_buffer *other;
  QN_ASSERT_OK(kit_buffer(b, 64, "other", &other));
  QN_EXPECT_FAIL(kit_run(b, &c, 1, &other, 1), QN_INVALID, "program of device");
  QN_ASSERT_OK(qn_record(a, &(qn_recording_desc){.buffers = &buf, .buffer_count = 1}, &r));
  QN_EXPECT_FAIL(qn_submit(b, r, NULL, 0, NULL), QN_INVALID, "belongs to device");
  qn_wait hole = {0};
  QN_EXPECT_FAIL(qn_submit(a, r, &hole, 1, NULL), QN_INVALID, "names no device");
  /* Any order of release. */
  qn_device_release(a);
  qn_device_release(b);
  qn_program_release(p);
  qn_buffer_release(buf);
  cr_expect(qn_buffer_size(other) == 64);
  qn_buffer_release(other);
  qn_recording_release(r);
}

Test(device_errors, poison) {
  setenv("QN_POISON", "on", 1);
  kit_list list;
  QN_ASSERT_OK(kit_devices(&list));
  for (size_t i = 0; i < list.count; i++) {
    qn_device *d;
    qn_buffer *b;
    uint32_t x[2500];
    QN_ASSERT_OK(kit_open(list.ids[i], &d));
    QN_ASSERT_OK(kit_buffer(d, sizeof x, "x", &b));
    QN_ASSERT_OK(qn_buffer_read(b, 0, sizeof x, x));
    cr_expect(x[0] == UINT32_MAX && x[1200] == UINT32_MAX && x[2499] == UINT32_MAX, "%s", list.ids[i]);
    qn_buffer_release(b);
    qn_device_release(d);
  }
}
