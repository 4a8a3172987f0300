/* The training step under other people's checkers: Vulkan's core and synchronisation validation, and Oclgrind for races and bad accesses. Each is
 * also shown a planted fault, so that silence means something. */
#include <stdio.h>

#include "expect.h"
#include "kit.h"
#include "train_kit.h"

#if defined(QN_HAVE_VULKAN) || defined(QN_HAVE_OPENCL)
static void set(const char *name, const char *value) { cr_assert(setenv(name, value, 1) == 0); }
#endif

/* ---- Vulkan validation ---- */

#ifdef QN_HAVE_VULKAN
#include "runtime/drivers/vulkan/findings.h"

static int dropped; /* the barrier to leave out, counted from 0; -1: none */

static void drop_barrier(qn_plan *p) {
  int at = 0;
  size_t kept = 0;
  for (size_t i = 0; i < p->cmd_count; i++) {
    bool barrier = p->cmds[i].kind == QN_CMD_BARRIER;
    if (!barrier || at != dropped)
      p->cmds[kept++] = p->cmds[i];
    at += barrier;
  }
  if (p->first_donated_write > kept)
    p->first_donated_write = kept;
  p->cmd_count = kept;
}

/* True when the layer is there. */
static bool open_validated(const char *which, train_kit *k, qn_status *out_status) {
  set("QN_VALIDATION", "on");
  *out_status = train_kit_open(which, 8, drop_barrier, k);
  return *out_status != QN_NOT_FOUND && *out_status != QN_UNSUPPORTED;
}

static void is_silent(const char *which) {
  train_kit k;
  qn_status st;
  dropped = -1;
  if (!open_validated(which, &k, &st)) {
    train_kit_close(&k);
    cr_skip("no validation here: %s", qn_error_message());
  }
  QN_ASSERT_OK(st);
  QN_EXPECT_OK(train_kit_steps(&k, 0, 4, NULL)); /* again in flight, with transfers between */
  QN_EXPECT_OK(train_kit_spin(&k, 3));
  cr_expect(qn_vk_finding_count(k.device) == 0, "%s: %llu findings", which,
            (unsigned long long)qn_vk_finding_count(k.device));
  train_kit_close(&k);
}

Test(checkers, validation_is_silent_on_lavapipe, .timeout = 280) { is_silent("vulkan:llvmpipe"); }
Test(checkers, validation_is_silent_on_swiftshader, .timeout = 280) { is_silent("vulkan:swiftshader"); }

/* A step without one of its barriers: every one of them is missed. */
Test(checkers, validation_misses_every_barrier, .timeout = 280) {
  int barriers = 1;
  for (dropped = 0; dropped < barriers; dropped++) {
    train_kit k;
    qn_status st;
    if (!open_validated("vulkan:llvmpipe", &k, &st)) {
      train_kit_close(&k);
      cr_skip("no validation here: %s", qn_error_message());
    }
    QN_ASSERT_OK(st);
    barriers = 1;
    for (size_t i = 0; i < qn_step_plan(k.step)->cmd_count; i++)
      barriers += qn_step_plan(k.step)->cmds[i].kind == QN_CMD_BARRIER;
    st = train_kit_steps(&k, 0, 1, NULL);
    cr_expect(st == QN_INTERNAL, "barrier %d of %d was not missed", dropped, barriers);
    cr_expect(st == QN_OK || qn_test_contains(qn_error_report(), "SYNC-HAZARD"));
    cr_expect(qn_vk_finding_count(k.device) > 0);
    train_kit_close(&k);
  }
  cr_expect(barriers >= 3, "%d barriers", barriers);
}
#endif

/* ---- Oclgrind ---- */

#ifdef QN_HAVE_OPENCL
static const char oclgrind[] = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/* Makes Oclgrind the only OpenCL there is, its findings in a file; skips where it is not installed. */
static qn_test_temp only_oclgrind(qn_test_path *out_log) {
  char folder[520];
  if (!qn_file_exists(oclgrind))
    cr_skip("Oclgrind is not installed (%s)", oclgrind);
  qn_test_temp t = qn_test_temp_make();
  QN_ASSERT_OK(qn_file_write_atomic(qn_test_temp_file(&t, "oclgrind.icd").s, oclgrind, sizeof oclgrind - 1));
  (void)snprintf(folder, sizeof folder, "%s/", t.path);
  *out_log = qn_test_temp_file(&t, "log");
  set("OCL_ICD_VENDORS", folder);
  set("OCLGRIND_LOG", out_log->s);
  set("OCLGRIND_DATA_RACES", "1");
  return t;
}

static bool log_holds(const qn_test_path *log, const char *part) {
  qn_bytes text = {0};
  if (qn_file_read(log->s, &text) != QN_OK)
    return false;
  char *s = calloc(1, text.size + 1);
  if (s && text.size)
    memcpy(s, text.data, text.size);
  bool found = s && strstr(s, part);
  if (s && s[0] && !found)
    fprintf(stderr, "%.2000s\n", s);
  free(s);
  free(text.data);
  return found;
}

static bool log_is_empty(const qn_test_path *log) {
  qn_bytes text = {0};
  if (qn_file_read(log->s, &text) != QN_OK)
    return true;
  bool empty = text.size == 0;
  if (!empty)
    fprintf(stderr, "%.*s\n", (int)(text.size < 4000 ? text.size : 4000), (const char *)text.data);
  free(text.data);
  return empty;
}

/* Batch 8: the same kernels with fewer rows; Oclgrind takes seconds for a step. */
Test(checkers, oclgrind_finds_nothing_in_a_step, .timeout = 280) {
  qn_test_path log;
  qn_test_temp t = only_oclgrind(&log);
  train_kit k;
  float loss[2];
  qn_status st = train_kit_open("opencl:oclgrind", 8, NULL, &k);
  QN_EXPECT_OK(st);
  if (st == QN_OK)
    QN_EXPECT_OK(train_kit_steps(&k, 0, 1, loss));
  train_kit_close(&k);
  cr_expect(st != QN_OK || (loss[0] > 1 && loss[0] < 4), "loss %g", (double)loss[0]);
  cr_expect(log_is_empty(&log));
  qn_test_temp_remove(&t);
}

#define PLANTED_HEAD "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void planted(__global uchar *b, "
#define PLANTED_TAIL                                                                                                   \
  "__global const uint *p, uint base) { __global uint *x = (__global uint *)b; uint i = get_global_id(0); "

/* Runs a kernel over two groups on a buffer of 128 words. */
static void run_planted(const char *body) {
  char source[1024];
  (void)snprintf(source, sizeof source, "%s%s%s }\n", PLANTED_HEAD, PLANTED_TAIL, body);
  const qn_code_entry entry = {
      .name = "planted", .label = "planted", .items = KIT_ITEMS, .binding_count = 1, .param_count = 1};
  const qn_code code = {.format = QN_CODE_OPENCL_C,
                        .source = source,
                        .source_bytes = strlen(source),
                        .entries = &entry,
                        .entry_count = 1};
  uint32_t words[1] = {0};
  qn_device *d = NULL;
  qn_program *p = NULL;
  qn_buffer *b = NULL;
  QN_ASSERT_OK(kit_open("opencl:oclgrind", &d));
  QN_ASSERT_OK(qn_program_create(d, &code, NULL, NULL, &p));
  QN_ASSERT_OK(kit_buffer(d, 128 * 4, "planted", &b));
  qn_cmd c = {.kind = QN_CMD_LAUNCH, .program = p, .groups = 2, .binding_count = 1, .params = words, .param_count = 1};
  QN_EXPECT_OK(kit_run(d, &c, 1, &b, 1));
  qn_buffer_release(b);
  qn_program_release(p);
  qn_device_release(d);
}

Test(checkers, oclgrind_passes_a_clean_kernel, .timeout = 60) {
  qn_test_path log;
  qn_test_temp t = only_oclgrind(&log);
  run_planted("x[i] = i;");
  cr_expect(log_is_empty(&log));
  qn_test_temp_remove(&t);
}

Test(checkers, oclgrind_finds_a_race, .timeout = 60) {
  qn_test_path log;
  qn_test_temp t = only_oclgrind(&log);
  run_planted("x[i / 2] = i;");
  cr_expect(log_holds(&log, "data race"));
  qn_test_temp_remove(&t);
}

Test(checkers, oclgrind_finds_an_overrun, .timeout = 60) {
  qn_test_path log;
  qn_test_temp t = only_oclgrind(&log);
  run_planted("x[i + 1] = i;");
  cr_expect(log_holds(&log, "Invalid write"));
  qn_test_temp_remove(&t);
}
#endif
