/* Steps, tensors, rings and the cache from many threads at once. A plain program, so that it runs under the thread sanitizer. */
#include "support.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "quern/cache.h"
#include "quern/driver.h"
#include "quern/exec.h"

enum { N = 256, THREADS = 4, CALLS = 200 };

/* x += a, N elements. */
static void add(const void *context, void *const *b, const uint32_t *params, uint32_t g0, uint32_t g1) {
  (void)context;
  (void)params;
  for (uint32_t i = g0 * 64; i < g1 * 64; i++)
    ((float *)b[0])[i] += ((const float *)b[1])[i];
}

static qn_plan *make_plan(void) {
  static const uint32_t params[1];
  static const qn_code_entry entry = {.label = "add", .items = 1, .binding_count = 2, .param_count = 1, .native = add};
  qn_plan *p = NULL;
  int64_t n = N;
  QN_REQUIRE_OK(qn_plan_create("threads", &p));
  p->args = QN_NEW(&p->arena, qn_layout, 2);
  p->cmds = QN_NEW(&p->arena, qn_plan_cmd, 3);
  p->donations = QN_NEW(&p->arena, qn_plan_donation, 1);
  QN_REQUIRE(p->args && p->cmds && p->donations);
  p->arg_count = 2;
  p->donation_count = 1;
  QN_REQUIRE_OK(qn_layout_add(&p->args[0], "x", QN_F32, 1, &n));
  QN_REQUIRE_OK(qn_layout_add(&p->args[1], "a", QN_F32, 1, &n));
  QN_REQUIRE_OK(qn_layout_add(&p->result, "y", QN_F32, 1, &n));
  p->code = (qn_code){.format = QN_CODE_NATIVE, .entries = &entry, .entry_count = 1};
  p->cmds[0] =
      (qn_plan_cmd){.groups = N / 64, .binding_count = 2, .bindings = {1, 2}, .params = params, .param_count = 1};
  p->cmds[1] = (qn_plan_cmd){.kind = QN_CMD_BARRIER};
  p->cmds[2] = (qn_plan_cmd){.kind = QN_CMD_COPY, .src = 1, .dst = 3, .size = N * sizeof(float)};
  p->cmd_count = 3;
  return p;
}

typedef struct shared {
  qn_device *d;
  qn_step *step;
  qn_tensors *x;
  qn_ring *ring;
  qn_cache *cache;
  qn_mutex batch; /* taking, writing and using a batch belong together */
  atomic_int failures;
  atomic_uint names;
} shared;

static bool one_call(shared *s, unsigned self, unsigned i) {
  float a[N];
  qn_tensors *args[2] = {s->x, NULL};
  for (size_t k = 0; k < N; k++)
    a[k] = 1;
  qn_mutex_lock(&s->batch);
  bool good = qn_ring_next(s->ring, &args[1]) == QN_OK && qn_tensors_write(args[1], "a", a) == QN_OK &&
              qn_step_call(s->step, args, 2, NULL, NULL) == QN_OK;
  qn_mutex_unlock(&s->batch);
  if (i % 16 == 0)
    good = good && qn_step_wait(s->step) == QN_OK;
  if (i % 32 == 0) {
    const qn_step_row *rows;
    size_t count;
    qn_text t = {0};
    good = good && qn_step_profile_trace(s->step, &t) == QN_OK &&
           (self || qn_step_profile(s->step, &rows, &count) == QN_OK);
    qn_text_free(&t);
    qn_step_trim(s->step);
  }
  return good;
}

static bool one_entry(shared *s, unsigned self, unsigned i) {
  unsigned name = i % 8;
  qn_digest key = qn_digest_bytes(&name, sizeof name);
  qn_bytes b;
  (void)self;
  bool good = qn_cache_put(s->cache, "binary", key, &name, sizeof name) == QN_OK &&
              qn_cache_get(s->cache, "binary", key, &b) == QN_OK;
  if (good && b.data)
    good = b.size == sizeof name && memcmp(b.data, &name, sizeof name) == 0;
  if (good)
    free(b.data);
  return good;
}

static void worker(void *arg) {
  shared *s = arg;
  unsigned self = atomic_fetch_add(&s->names, 1);
  for (unsigned i = 0; i < CALLS; i++) {
    if (!one_call(s, self, i) || (i % 8 == 0 && !one_entry(s, self, i)))
      (void)atomic_fetch_add(&s->failures, 1);
  }
}

int main(void) {
  static const qn_driver *const drivers[] = {&qn_driver_cpu};
  shared s = {0};
  qn_thread threads[THREADS];
  qn_layout l = {0};
  int64_t n = N;
  float x[N];
  qn_test_temp temp = qn_test_temp_make();
  QN_REQUIRE_OK(qn_cache_open(qn_test_temp_file(&temp, "kernels.db").s, &s.cache));
  QN_REQUIRE_OK(qn_mutex_init(&s.batch));
  QN_REQUIRE_OK(qn_device_open(drivers, 1, "cpu", &s.d));
  QN_REQUIRE_OK(qn_step_create(s.d, make_plan(), &(qn_step_desc){.profile = true, .cache = s.cache}, &s.step));
  QN_REQUIRE_OK(qn_layout_add(&l, "a", QN_F32, 1, &n));
  QN_REQUIRE_OK(qn_ring_create(s.d, &l, "batch", 3, &s.ring));
  l.entries[0].path[0] = 'x';
  QN_REQUIRE_OK(qn_tensors_create(s.d, &l, "x", &s.x));
  QN_REQUIRE_OK(qn_tensors_zero(s.x));
  for (int i = 0; i < THREADS; i++)
    QN_REQUIRE_OK(qn_thread_start(&threads[i], worker, &s));
  for (int i = 0; i < THREADS; i++)
    qn_thread_join(threads[i]);
  QN_REQUIRE(atomic_load(&s.failures) == 0);
  QN_REQUIRE_OK(qn_tensors_read(s.x, "x", x));
  for (size_t i = 0; i < N; i++)
    QN_REQUIRE(x[i] == (float)(THREADS * CALLS));
  qn_step_stats stats;
  qn_step_get_stats(s.step, &stats);
  QN_REQUIRE(stats.calls == THREADS * CALLS);
  qn_ring_destroy(s.ring);
  qn_tensors_release(s.x);
  qn_step_release(s.step);
  qn_device_release(s.d);
  qn_layout_free(&l);
  qn_mutex_destroy(&s.batch);
  qn_cache_close(s.cache);
  qn_test_temp_remove(&temp);
  return 0;
}
