/* See random_check.h. */
#include "random_check.h"

#include <stdio.h>

enum { CALLS = 4 };

static bool fail(const qn_device *d, const random_case *c, const char *way, const char *what, char why[1024]) {
  (void)snprintf(why, 1024, "seed %llu (%d nodes%s%s%s) on %s, %s: %.700s", (unsigned long long)c->seed, c->nodes,
                 c->wide ? ", wide" : "", c->kind ? ", " : "", c->kind ? c->kind : "", qn_device_get_caps(d)->id, way,
                 what);
  return false;
}

/* One call of a step against the oracle. */
static bool against_oracle(qn_step *s, qn_device *d, const random_case *c, random_tally *t, char why[1024]) {
  random_values got, want = {.count = 0};
  char what[256];
  bool ok = false;
  if (random_case_run(s, d, c, 1, true, &got) != QN_OK)
    (void)fail(d, c, "one call", qn_error_report(), why);
  else if (random_case_oracle(c, &want) != QN_OK)
    (void)fail(d, c, "the oracle", qn_error_report(), why);
  else if (random_exceeds(c, &got, &want, &t->judged, &t->loose, what))
    (void)fail(d, c, "against the oracle", what, why);
  else
    ok = true;
  random_values_free(&got);
  random_values_free(&want);
  return ok;
}

/* Several calls of a step give these bytes. */
static bool same(qn_step *s, qn_device *d, const random_case *c, const char *way, bool waiting, random_values *want,
                 char why[1024]) {
  random_values got;
  char what[256];
  bool ok = false;
  if (random_case_run(s, d, c, CALLS, waiting, &got) != QN_OK)
    (void)fail(d, c, way, qn_error_report(), why);
  else if (random_differs(c, &got, want, what))
    (void)fail(d, c, way, what, why);
  else
    ok = true;
  random_values_free(&got);
  return ok;
}

typedef struct way {
  const char *name;
  qn_compile_desc desc;
} way;
static const way others[] = {
    {"unfused, no reuse, copied", {.no_fusion = true, .no_reuse = true, .no_donation = true}},
    {"interpreted", {.interpret = true}},
    {"interpreted, no reuse", {.interpret = true, .no_reuse = true}},
    {"interpreted, copied", {.interpret = true, .no_donation = true}},
    {"interpreted, unfused", {.interpret = true, .no_fusion = true}},
};

static const size_t other_count[] = {
    [RANDOM_ONCE] = 0, [RANDOM_OTHER] = 1, [RANDOM_ALL_WAYS] = sizeof others / sizeof *others};
/* Without the compiler: cheap. */
static const way quick[] = {
    {"interpreted, unfused, no reuse", {.interpret = true, .no_fusion = true, .no_reuse = true}},
    {"interpreted, copied", {.interpret = true, .no_donation = true}},
};

static bool other_way(qn_device *d, const random_case *c, const way *w, random_values *want, char why[1024]) {
  qn_step *s = NULL;
  bool ok = random_case_step(d, c, &w->desc, &s) == QN_OK ? same(s, d, c, w->name, false, want, why)
                                                          : fail(d, c, w->name, qn_error_report(), why);
  qn_step_release(s);
  return ok;
}

static bool check(qn_device *d, const random_case *c, qn_compile_desc plain, const way *ways, size_t count,
                  random_tally *t, char why[1024]) {
  qn_step *s = NULL;
  random_values want = {.count = 0};
  if (random_case_step(d, c, &plain, &s) != QN_OK)
    return fail(d, c, "compiling", qn_error_report(), why);
  bool ok = !c->judged.graph || against_oracle(s, d, c, t, why);
  if (ok && random_case_run(s, d, c, CALLS, false, &want) != QN_OK)
    ok = fail(d, c, "calls in flight", qn_error_report(), why);
  ok = ok && same(s, d, c, "called one by one", true, &want, why);
  for (size_t i = 0; i < count && ok; i++)
    ok = other_way(d, c, &ways[i], &want, why);
  random_values_free(&want);
  qn_step_release(s);
  return ok;
}

/* Lanes and the derivative are interpreted where the device can: they have many kernels. */
static bool check_derived(qn_device *d, const random_case *c, random_depth depth, random_tally *t, char why[1024]) {
  const bool thorough = depth == RANDOM_ALL_WAYS;
  const qn_compile_desc how = {.interpret = true};
  random_case lanes, backward;
  char what[256];
  bool ok = random_case_lanes(c, &lanes) == QN_OK || fail(d, &lanes, "tracing", qn_error_report(), why);
  if (ok && random_lanes_differ(c, &lanes, what))
    ok = fail(d, &lanes, "against a loop", what, why);
  ok = ok && check(d, &lanes, how, quick, thorough ? 2 : 1, t, why);
  if (ok) {
    qn_status st = random_case_backward(c, &backward);
    if (st == QN_OK)
      ok = check(d, &backward, how, quick, thorough ? 2 : 1, t, why);
    else if (st != QN_UNSUPPORTED)
      ok = fail(d, &backward, "tracing", qn_error_report(), why);
    t->backward += st == QN_OK;
    random_case_free(&backward);
  }
  random_case_free(&lanes);
  return ok;
}

bool random_check(qn_device *d, uint64_t seed, int nodes, random_depth depth, random_tally *io_tally, char why[1024]) {
  static const qn_compile_desc compiled = {0};
  const bool fast = depth == RANDOM_QUICK;
  random_case c;
  bool ok = random_case_make(seed, nodes, qn_device_get_caps(d)->f64, &c) == QN_OK
                ? check(d, &c, compiled, fast ? quick : others, fast ? 2 : other_count[depth], io_tally, why)
                : fail(d, &c, "tracing", qn_error_report(), why);
  if (ok && (fast || depth == RANDOM_ALL_WAYS))
    ok = check_derived(d, &c, depth, io_tally, why);
  io_tally->cases++;
  random_case_free(&c);
  return ok;
}
