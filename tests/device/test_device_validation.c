/* Vulkan's core and synchronisation validation: our recordings are clean, a removed barrier is found, and a finding is an
 * error at the next call. Needs a Vulkan device whose driver works with the layer, and the layer. */
#include "expect.h"
#include "kit.h"

#ifdef QN_HAVE_VULKAN
#include "runtime/drivers/vulkan/findings.h"

/* NULL when there is nothing to test with. */
static qn_device *open_validated(void) {
  setenv("QN_VALIDATION", "on", 1);
  static const qn_driver *const only[] = {&qn_driver_vulkan};
  qn_device *d = NULL;
  qn_status st = qn_device_open(only, 1, "vulkan:lavapipe", &d);
  if (st == QN_NOT_FOUND || (st == QN_UNSUPPORTED && strstr(qn_error_message(), "is not installed")))
    cr_skip_test("%s", qn_error_message());
  cr_assert(st == QN_OK, "%s", qn_error_report());
  return d;
}

enum { N = 4096 };

static void make(qn_device *d, qn_program **p, qn_buffer *b[2]) {
  QN_ASSERT_OK(kit_program(d, p));
  for (int i = 0; i < 2; i++)
    QN_ASSERT_OK(kit_buffer(d, N * 4, i ? "y" : "x", &b[i]));
}

static void drop(qn_device *d, qn_program *p, qn_buffer *b[2]) {
  qn_program_release(p);
  qn_buffer_release(b[0]);
  qn_buffer_release(b[1]);
  qn_device_release(d);
}

Test(device_validation, all_that_we_do_is_clean) {
  qn_device *d = open_validated();
  qn_program *p;
  qn_buffer *b[2];
  qn_recording *r;
  static uint32_t x[N];
  uint64_t ticket, ns[8];
  make(d, &p, b);
  QN_ASSERT_OK(qn_program_warm_up(p));
  QN_ASSERT_OK(qn_buffer_write(b[0], 0, sizeof x, x));
  const uint32_t params[] = {0, N};
  const qn_cmd cmds[] = {kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
                         {.kind = QN_CMD_BARRIER},
                         kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){1, 0}, params),
                         {.kind = QN_CMD_BARRIER},
                         {.kind = QN_CMD_COPY, .src = 0, .dst = 1, .size = 100},
                         {.kind = QN_CMD_BARRIER},
                         {.kind = QN_CMD_FILL, .dst = 0, .size = 100, .pattern = 3},
                         {.kind = QN_CMD_BARRIER}};
  qn_recording_desc desc = {.cmds = cmds, .cmd_count = 8, .buffers = b, .buffer_count = 2, .timestamps = true};
  QN_ASSERT_OK(qn_record(d, &desc, &r));
  for (uint32_t i = 0; i < 5; i++) {
    x[0] = i;
    QN_EXPECT_OK(qn_buffer_write(b[0], 0, sizeof x, x)); /* queued behind what is in flight */
    QN_EXPECT_OK(qn_submit(d, r, NULL, 0, NULL));
    QN_EXPECT_OK(qn_submit(d, r, NULL, 0, &ticket));
  }
  QN_EXPECT_OK(qn_device_wait(d, ticket, 0));
  QN_EXPECT_OK(qn_recording_times(r, ns, 8));
  QN_EXPECT_OK(qn_buffer_read(b[1], 0, sizeof x, x));
  cr_expect(qn_vk_finding_count(d) == 0);
  qn_recording_release(r);
  drop(d, p, b);
}

static void hazard(const qn_cmd *cmds, size_t count, qn_device *d, qn_buffer *b[2]) {
  qn_recording *r = NULL;
  qn_recording_desc desc = {.cmds = cmds, .cmd_count = count, .buffers = b, .buffer_count = 2};
  QN_EXPECT_FAIL(qn_record(d, &desc, &r), QN_INTERNAL, "HAZARD");
  cr_expect(r == NULL);
  cr_expect(qn_vk_finding_count(d) > 0);
  uint32_t word = 0;
  QN_EXPECT_FAIL(qn_buffer_read(b[0], 0, 4, &word), QN_INTERNAL, "Vulkan validation");
}

Test(device_validation, read_after_write_without_barrier) {
  qn_device *d = open_validated();
  qn_program *p;
  qn_buffer *b[2];
  make(d, &p, b);
  const uint32_t params[] = {0, N};
  const qn_cmd cmds[] = {kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
                         kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){1, 0}, params)};
  hazard(cmds, 2, d, b);
  drop(d, p, b);
}

Test(device_validation, copy_after_launch_without_barrier) {
  qn_device *d = open_validated();
  qn_program *p;
  qn_buffer *b[2];
  make(d, &p, b);
  const uint32_t params[] = {0, N};
  const qn_cmd cmds[] = {kit_launch(p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
                         {.kind = QN_CMD_COPY, .src = 1, .dst = 0, .size = 64}};
  hazard(cmds, 2, d, b);
  drop(d, p, b);
}
#else
Test(device_validation, built_without_vulkan) { cr_skip_test("built without the Vulkan driver"); }
#endif
