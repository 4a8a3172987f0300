/* One device used by many threads: each has its own buffers and recordings, all submit to one queue; then devices that wait
 * for one another. A plain program, so that it also runs under the thread sanitizer, there only over the devices that are
 * ours to the last line. A device can be named as the argument. */
#include <stdio.h>

#include "kit.h"

enum { THREADS = 8, STEPS = 60, N = 1024 };

typedef struct job {
  qn_device *d;
  qn_program *p;
  uint32_t seed;
} job;

static void steps(void *arg) {
  const job *j = arg;
  qn_buffer *b[2];
  qn_recording *r;
  uint32_t x[N], want = j->seed;
  uint64_t ticket = 0;
  for (int i = 0; i < 2; i++)
    QN_REQUIRE_OK(kit_buffer(j->d, sizeof x, "x", &b[i]));
  for (int i = 0; i < N; i++)
    x[i] = j->seed;
  QN_REQUIRE_OK(qn_buffer_write(b[0], 0, sizeof x, x));
  const uint32_t params[] = {0, N};
  const qn_cmd cmds[] = {kit_launch(j->p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){0, 1}, params),
                         {.kind = QN_CMD_BARRIER},
                         kit_launch(j->p, KIT_CHAIN, N / KIT_ITEMS, (const uint32_t[]){1, 0}, params)};
  qn_recording_desc desc = {.cmds = cmds, .cmd_count = 3, .buffers = b, .buffer_count = 2};
  QN_REQUIRE_OK(qn_record(j->d, &desc, &r));
  for (int i = 0; i < STEPS; i++) {
    QN_REQUIRE_OK(qn_submit(j->d, r, NULL, 0, &ticket));
    want = want * 9 + 4;
    if (i % 7 == 0)
      QN_REQUIRE_OK(qn_device_wait(j->d, ticket, 0));
    else
      (void)qn_device_done(j->d, ticket);
  }
  QN_REQUIRE_OK(qn_buffer_read(b[0], 0, sizeof x, x));
  QN_REQUIRE(qn_device_done(j->d, ticket));
  for (int i = 0; i < N && kit_computes(j->d); i++)
    QN_REQUIRE(x[i] == want);
  qn_recording_release(r);
  qn_buffer_release(b[0]);
  qn_buffer_release(b[1]);
}

static void one_device(const char *id) {
  job jobs[THREADS];
  qn_thread threads[THREADS];
  qn_device *d;
  qn_program *p;
  qn_device_stats stats;
  QN_REQUIRE_OK(kit_open(id, &d));
  QN_REQUIRE_OK(kit_program(d, &p));
  for (uint32_t i = 0; i < THREADS; i++) {
    jobs[i] = (job){d, p, i + 1};
    QN_REQUIRE_OK(qn_thread_start(&threads[i], steps, &jobs[i]));
  }
  for (int i = 0; i < THREADS; i++)
    qn_thread_join(threads[i]);
  qn_device_get_stats(d, &stats);
  QN_REQUIRE(stats.submits == THREADS * STEPS && stats.bytes_live == 0);
  qn_program_release(p);
  qn_device_release(d);
}

/* Two threads, two devices: each step waits for the newest ticket of the other device. */
typedef struct pair {
  qn_device *mine, *other;
  atomic_ullong *newest, *others;
} pair;

static void alternate(void *arg) {
  const pair *j = arg;
  qn_buffer *b;
  qn_recording *r;
  uint64_t ticket = 0;
  QN_REQUIRE_OK(kit_buffer(j->mine, 4096, "b", &b));
  qn_cmd fill = {.kind = QN_CMD_FILL, .size = 4096, .pattern = 9};
  QN_REQUIRE_OK(
      qn_record(j->mine, &(qn_recording_desc){.cmds = &fill, .cmd_count = 1, .buffers = &b, .buffer_count = 1}, &r));
  for (int i = 0; i < STEPS; i++) {
    qn_wait wait = {j->other, atomic_load(j->others)};
    QN_REQUIRE_OK(qn_submit(j->mine, r, &wait, 1, &ticket));
    atomic_store(j->newest, ticket);
  }
  uint32_t word = 0;
  QN_REQUIRE_OK(qn_device_wait(j->mine, ticket, 0));
  QN_REQUIRE_OK(qn_buffer_read(b, 4092, 4, &word));
  QN_REQUIRE(word == 9);
  qn_recording_release(r);
  qn_buffer_release(b);
}

static void two_devices(const char *first, const char *second) {
  qn_device *d[2];
  atomic_ullong newest[2];
  qn_thread threads[2];
  pair pairs[2];
  QN_REQUIRE_OK(kit_open(first, &d[0]));
  QN_REQUIRE_OK(kit_open(second, &d[1]));
  for (int i = 0; i < 2; i++)
    atomic_init(&newest[i], 0);
  for (int i = 0; i < 2; i++) {
    pairs[i] = (pair){d[i], d[1 - i], &newest[i], &newest[1 - i]};
    QN_REQUIRE_OK(qn_thread_start(&threads[i], alternate, &pairs[i]));
  }
  for (int i = 0; i < 2; i++)
    qn_thread_join(threads[i]);
  qn_device_release(d[0]);
  qn_device_release(d[1]);
}

static void all_of(const char *id) {
  one_device(id);
  two_devices("null", id);
  two_devices(id, id);
  printf("threads on null and %s: fine\n", id);
}

/* Drivers have races of their own, which the thread sanitizer cannot tell from ours. */
#if defined(__SANITIZE_THREAD__)
#define ONLY_OURS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ONLY_OURS 1
#endif
#endif

int main(int argc, char **argv) {
  kit_list list = {0};
  one_device("null");
  if (argc > 1) {
    all_of(argv[1]);
    return 0;
  }
#ifdef ONLY_OURS
  (void)kit_devices;
  strcpy(list.ids[list.count++], "cpu");
#else
  QN_REQUIRE_OK(kit_devices(&list));
#endif
  for (size_t i = 0; i < list.count; i++)
    all_of(list.ids[i]);
  return 0;
}
