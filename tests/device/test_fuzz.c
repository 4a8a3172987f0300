/* Random graphs on every device: each against the oracle within a computed bound, and the ways to run it against each other bit for bit. The
 * planted faults show that a lost launch, a stale input and one wrong bit are noticed. */
#include <math.h>

#include "fuzz_kit.h"

/* 500 in all on the cpu, with test_fuzz_part1.c to 4; elsewhere a few (all in test_fuzz_long.c). */
Test(fuzz, cpu, .timeout = 280) { check_seeds("cpu", 1, 20, 0, RANDOM_ALL_WAYS); }
Test(fuzz, pocl, .timeout = 280) { check_seeds("opencl:pocl", 2000, 2, 16, RANDOM_OTHER); }
Test(fuzz, rusticl, .timeout = 280) { check_seeds("opencl:rusticl", 3000, 2, 8, RANDOM_ONCE); }
Test(fuzz, lavapipe, .timeout = 280) { check_seeds("vulkan:llvmpipe", 4000, 3, 16, RANDOM_OTHER); }
Test(fuzz, swiftshader, .timeout = 280) { check_seeds("vulkan:swiftshader", 5000, 4, 16, RANDOM_OTHER); }

/* ---- planted faults ---- */

static void flip(const random_case *c, random_values *v, size_t leaf) {
  if (qn_type_elements(&c->plain.result.leaves[leaf].type) > 0)
    *(uint8_t *)v->leaf[leaf] ^= 1;
}

static bool empty(const random_case *c, size_t leaf) { return qn_type_bytes(&c->plain.result.leaves[leaf].type) == 0; }

/* One bit of one element, anywhere, is a difference; an error of four times an element's size is beyond every bound that says something. */
Test(fuzz, one_wrong_bit_is_noticed) {
  qn_device *d = open_or_skip("cpu");
  char why[256];
  uint64_t judged = 0, loose = 0;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    random_case c;
    random_values a, b, want;
    qn_step *s;
    QN_ASSERT_OK(random_case_make(seed, 12, true, &c));
    QN_ASSERT_OK(random_case_step(d, &c, &(qn_compile_desc){.interpret = true}, &s));
    QN_ASSERT_OK(random_case_run(s, d, &c, 1, true, &a));
    QN_ASSERT_OK(random_case_run(s, d, &c, 1, true, &b));
    QN_ASSERT_OK(random_case_oracle(&c, &want));
    cr_expect(!random_differs(&c, &a, &b, why) && !random_exceeds(&c, &a, &want, &judged, &loose, why));
    for (size_t i = 0; i < a.count; i++) {
      flip(&c, &b, i);
      cr_expect(empty(&c, i) || random_differs(&c, &a, &b, why), "leaf %zu of seed %llu", i, (unsigned long long)seed);
      flip(&c, &b, i);
      if (empty(&c, i) || c.plain.result.leaves[i].type.dtype != QN_F32)
        continue;
      float *x = b.leaf[i], kept = *x, y = *(const float *)want.leaf[i];
      *x = y + 4.1f * 0.1f * (1 + fabsf(y));
      cr_expect(random_exceeds(&c, &b, &want, &judged, &loose, why), "leaf %zu of seed %llu", i,
                (unsigned long long)seed);
      *x = kept;
    }
    random_values_free(&a);
    random_values_free(&b);
    random_values_free(&want);
    qn_step_release(s);
    random_case_free(&c);
  }
  qn_device_release(d);
}

/* A launch of a plan left out, its result poison: are the results other than they should be? */
static bool drop_launch(qn_device *d, const random_case *c, const random_values *want, size_t at, bool *out_more) {
  static const qn_plan_donation state[] = {{0, "state"}};
  const qn_compile_desc desc = {.donations = state, .donation_count = 1, .interpret = true, .no_fusion = true};
  qn_plan *p;
  qn_step *s;
  random_values got;
  char why[256];
  QN_ASSERT_OK(qn_compile(qn_device_get_caps(d), &c->plain, &desc, &p));
  for (size_t i = 0; i < p->cmd_count; i++)
    if (p->cmds[i].kind == QN_CMD_LAUNCH && p->cmds[i].groups && at-- == 0) {
      p->cmds[i].groups = 0;
      *out_more = true;
    }
  QN_ASSERT_OK(qn_step_create(d, p, NULL, &s));
  QN_ASSERT_OK(random_case_run(s, d, c, 2, true, &got));
  bool differs = random_differs(c, &got, want, why);
  random_values_free(&got);
  qn_step_release(s);
  return differs;
}

/* A predicate that holds everywhere looks like the poison, and what a choice passes over is not seen: not every loss shows. */
Test(fuzz, lost_launches_are_noticed) {
  cr_assert(setenv("QN_POISON", "1", 1) == 0);
  qn_device *d = open_or_skip("cpu");
  size_t launches = 0, noticed = 0;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    random_case c;
    random_values want;
    qn_step *s;
    QN_ASSERT_OK(random_case_make(seed, 10, true, &c));
    QN_ASSERT_OK(random_case_step(d, &c, &(qn_compile_desc){.interpret = true}, &s));
    QN_ASSERT_OK(random_case_run(s, d, &c, 2, true, &want));
    size_t at = 0;
    for (bool more = true; more; at++) {
      more = false;
      noticed += drop_launch(d, &c, &want, at, &more);
    }
    launches += at - 1;
    random_values_free(&want);
    qn_step_release(s);
    random_case_free(&c);
  }
  cr_expect(launches > 40 && noticed * 4 > launches * 3, "%zu of %zu noticed", noticed, launches);
  qn_device_release(d);
}
