/* Plans without a device: checks, print, forecast. A plan may come from a file, so each wrong number has to be found. */
#include "expect.h"
#include "quern/exec.h"

static const uint32_t words[3] = {0, 7, 7};
static const float data[4] = {1, 2, 3, 4};
static const qn_code_entry entries[1] = {
    {.name = "k", .label = "dot (m.c:4)", .items = 1, .binding_count = 2, .param_count = 3}};

static qn_plan *good(void) {
  qn_plan *p = NULL;
  QN_ASSERT_OK(qn_plan_create("step", &p));
  p->args = QN_NEW(&p->arena, qn_layout, 2);
  p->cmds = QN_NEW(&p->arena, qn_plan_cmd, 4);
  p->constants = QN_NEW(&p->arena, qn_plan_constant, 1);
  p->donations = QN_NEW(&p->arena, qn_plan_donation, 1);
  p->arg_count = 2;
  QN_ASSERT_OK(qn_layout_add(&p->args[0], "params/w", QN_F32, 2, (int64_t[]){10, 20}));
  QN_ASSERT_OK(qn_layout_add(&p->args[1], "x", QN_F32, 1, (int64_t[]){3}));
  QN_ASSERT_OK(qn_layout_add(&p->result, "loss", QN_F32, 0, NULL));
  p->code = (qn_code){.format = QN_CODE_NULL, .entries = entries, .entry_count = 1};
  p->cmds[0] = (qn_plan_cmd){.kind = QN_CMD_LAUNCH,
                             .groups = 12,
                             .binding_count = 2,
                             .bindings = {0, 2},
                             .params = words,
                             .param_count = 3,
                             .label = "dot+add (m.c:4)",
                             .flops = 4000,
                             .bytes = 3000};
  p->cmds[1] = (qn_plan_cmd){.kind = QN_CMD_BARRIER};
  p->cmds[2] = (qn_plan_cmd){.kind = QN_CMD_COPY, .src = 0, .dst = 1, .size = 800, .dst_offset = 224};
  p->cmds[3] = (qn_plan_cmd){.kind = QN_CMD_FILL, .dst = 3, .size = 4};
  p->cmd_count = 4;
  p->arena_bytes = 4096;
  p->constants[0] = (qn_plan_constant){.offset = 1024, .data = data, .bytes = sizeof data};
  p->constant_count = 1;
  p->donations[0] = (qn_plan_donation){.arg = 0, .prefix = "params"};
  p->donation_count = 1;
  p->first_donated_write = 2;
  p->copies = 1;
  return p;
}

Test(exec_plan, prints_what_it_is) {
  qn_plan *p = good();
  qn_text t = {0};
  QN_EXPECT_OK(qn_plan_check(p));
  qn_plan_print(p, &t);
  static const char *const parts[] = {
      "plan step: 1 launches, 1 copies, 1 fills, 1 barriers; 1 kernels; 1 inserted copies\n",
      "arena           4.0 KiB  1 constants (16 B)",
      "arg 0           1.0 KiB  1 leaves, donated to params\n",
      "f32[10,20]           params/w\n",
      "1024  16 bytes\n",
      "launch       12  0,2",
      "dot+add (m.c:4)\n",
      "copy  <- first donated write",
      "memory forecast: arena 4.0 KiB + arguments 1.2 KiB + results 512 B = 5.8 KiB",
      "work of one call: 4000 flops"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    cr_expect(qn_test_contains(t.buf, parts[i]));
  qn_text_free(&t);
  qn_plan_free(p);
}

Test(exec_plan, forecasts) {
  qn_plan *p = good();
  qn_plan_forecast f;
  qn_plan_get_forecast(p, 0, &f);
  cr_expect(f.arena == 4096 && f.args == 1024 + 256 && f.results == 512 && f.total == 4096 + 1280 + 512);
  qn_plan_get_forecast(p, 5, &f);
  cr_expect(f.results == 1280);
  qn_plan_free(p);
}

/* One damage a time. */
#define DAMAGED(change, part)                                                                                          \
  do {                                                                                                                 \
    qn_plan *p = good();                                                                                               \
    change;                                                                                                            \
    QN_EXPECT_FAIL(qn_plan_check(p), QN_INVALID, part);                                                                \
    qn_plan_free(p);                                                                                                   \
  } while (0)

Test(exec_plan, finds_every_damage) {
  DAMAGED(p->cmds[0].entry = 1, "command 0 launches entry 1, the code has 1");
  DAMAGED(p->cmds[0].binding_count = 3, "binds 3 slabs, expected 2");
  DAMAGED(p->cmds[0].binding_count = 1000000, "binds 1000000 slabs");
  DAMAGED(p->cmds[0].param_count = 2, "has 2 parameter words, expected 3");
  DAMAGED(p->cmds[0].params = NULL, "has 0 parameter words, expected 3");
  DAMAGED(p->cmds[0].bindings[1] = 4, "command 0 (dot+add (m.c:4)), binding 1 is slab 4, there are 4");
  DAMAGED(p->cmds[1].kind = (qn_cmd_kind)9, "command 1 has the unknown kind 9");
  DAMAGED(p->cmds[2].src = 4, "command 2 (copy from) names slab 4, there are 4");
  DAMAGED(p->cmds[2].src_offset = 4000, "command 2 (copy from) covers 800 bytes from 4000 of slab 0, which has 4096");
  DAMAGED(p->cmds[2].dst_offset = 225, "command 2 (copy to) covers 800 bytes from 225 of slab 1, which has 1024");
  DAMAGED(p->cmds[2].dst_offset = UINT64_MAX, "of slab 1, which has 1024");
  DAMAGED(p->cmds[3].size = 257, "command 3 (fill) covers 257 bytes");
  DAMAGED(p->constants[0].offset = 4090, "constant 0 has 16 bytes at 4090 of an arena of 4096");
  DAMAGED(p->constants[0].data = NULL, "constant 0");
  DAMAGED(p->donations[0].arg = 2, "donation 0 is of argument 2, there are 2");
  DAMAGED(p->first_donated_write = 5, "the first donated write is command 5, there are 4");
  DAMAGED(p->cmds = NULL, "plan step: a list is missing");
  DAMAGED(p->code.entries = NULL, "a list is missing");
}

/* The good plan's launch in a loop with a flag, and that in a counted one. */
static qn_plan *looped(void) {
  qn_plan *p = good();
  qn_plan_cmd *cmds = QN_NEW(&p->arena, qn_plan_cmd, 8);
  cr_assert(cmds != NULL);
  cmds[0] = (qn_plan_cmd){.kind = QN_CMD_LOOP, .trips = 5};
  cmds[1] = (qn_plan_cmd){.kind = QN_CMD_LOOP, .trips = -1, .src_offset = 100, .guarded = true};
  cmds[2] = p->cmds[0];
  cmds[3] = p->cmds[1];
  cmds[4] = (qn_plan_cmd){.kind = QN_CMD_LOOP_END};
  cmds[5] = (qn_plan_cmd){.kind = QN_CMD_LOOP_END};
  p->cmds = cmds;
  p->cmd_count = 6;
  p->host_points = 1;
  QN_EXPECT_OK(qn_plan_check(p));
  return p;
}

#define DAMAGED_LOOP(change, part)                                                                                     \
  do {                                                                                                                 \
    qn_plan *p = looped();                                                                                             \
    change;                                                                                                            \
    QN_EXPECT_FAIL(qn_plan_check(p), QN_INVALID, part);                                                                \
    qn_plan_free(p);                                                                                                   \
  } while (0)

Test(exec_plan, finds_damaged_loops) {
  DAMAGED_LOOP(p->cmds[5].kind = QN_CMD_BARRIER, "1 loops without an end");
  DAMAGED_LOOP(p->cmds[0].kind = QN_CMD_BARRIER, "command 5 ends a loop that did not begin");
  DAMAGED_LOOP(p->cmds[0].trips = -2, "command 0 is a loop of -2 trips, expected -1 (its flag decides) or more");
  DAMAGED_LOOP(p->cmds[1].src = 4, "command 1 (loop's flag) names slab 4, there are 4");
  DAMAGED_LOOP(p->cmds[1].src_offset = 4096, "command 1 (loop's flag) covers 1 bytes from 4096 of slab 0");
  DAMAGED_LOOP(p->host_points = 0, "0 host points, expected 1, one for each loop with a flag");
  DAMAGED_LOOP(p->cmds[2].entry = 1, "command 2 launches entry 1");
}

Test(exec_plan, loops_are_not_too_deep) {
  qn_plan *p = good();
  qn_plan_cmd *cmds = QN_NEW(&p->arena, qn_plan_cmd, 2000);
  cr_assert(cmds != NULL);
  for (size_t i = 0; i < 2000; i++)
    cmds[i] = (qn_plan_cmd){.kind = i < 1000 ? QN_CMD_LOOP : QN_CMD_LOOP_END, .trips = 1};
  p->cmds = cmds;
  p->cmd_count = 2000;
  QN_EXPECT_FAIL(qn_plan_check(p), QN_INVALID, "command 64 is a loop in 64 others");
  qn_plan_free(p);
}

Test(exec_plan, prints_loops) {
  qn_plan *p = looped();
  qn_text t = {0};
  qn_plan_print(p, &t);
  cr_expect(qn_test_contains(t.buf, "2 loops, 1 host points"));
  cr_expect(qn_test_contains(t.buf, "---- loop, 5 times"));
  cr_expect(qn_test_contains(t.buf, "---- loop while 0+100 is set, guarded"));
  cr_expect(qn_test_contains(t.buf, "---- end of loop"));
  qn_text_free(&t);
  qn_plan_free(p);
}

static int freed;
static void on_release(void *owner) {
  (void)owner;
  freed++;
}
Test(exec_plan, freeing_lets_the_code_go) {
  qn_plan *p = good();
  p->code.release = on_release;
  qn_plan_free(p);
  cr_expect(freed == 1);
  qn_plan_free(NULL);
}
