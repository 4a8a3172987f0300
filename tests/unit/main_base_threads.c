/* Threads, mutexes and conditions; a plain program, so that it also runs under the thread sanitizer. */
#include "support.h"

#include <stdio.h>

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct shared {
  qn_mutex m;
  qn_cond c;
  long counter;
  int turn, done;
} shared;

static void count(void *p) {
  shared *s = p;
  for (int i = 0; i < ROUNDS; i++) {
    qn_mutex_lock(&s->m);
    s->counter++;
    qn_mutex_unlock(&s->m);
  }
}

/* Waits for its turn and hands it on. */
static void wait_turn(void *p) {
  shared *s = p;
  for (int i = 0; i < 500; i++) {
    qn_mutex_lock(&s->m);
    while (s->turn % 2 != 1)
      qn_cond_wait(&s->c, &s->m);
    s->turn++;
    qn_cond_broadcast(&s->c);
    qn_mutex_unlock(&s->m);
  }
}

static void first_use(void *p) {
  (void)qn_env_get(QN_ENV_DEVICE);
  *(qn_status *)p = QN_ERR(QN_TIMEOUT, "from a thread");
}

int main(void) {
  shared s = {0};
  QN_REQUIRE_OK(qn_mutex_init(&s.m));
  QN_REQUIRE_OK(qn_cond_init(&s.c));

  qn_thread t[THREADS];
  for (int i = 0; i < THREADS; i++)
    QN_REQUIRE_OK(qn_thread_start(&t[i], count, &s));
  for (int i = 0; i < THREADS; i++)
    qn_thread_join(t[i]);
  QN_REQUIRE(s.counter == (long)THREADS * ROUNDS);

  QN_REQUIRE_OK(qn_thread_start(&t[0], wait_turn, &s));
  for (int i = 0; i < 500; i++) {
    qn_mutex_lock(&s.m);
    while (s.turn % 2 != 0)
      QN_REQUIRE(qn_cond_wait_until(&s.c, &s.m, UINT64_MAX));
    s.turn++;
    qn_cond_broadcast(&s.c);
    qn_mutex_unlock(&s.m);
  }
  qn_thread_join(t[0]);
  QN_REQUIRE(s.turn == 1000);

  qn_mutex_lock(&s.m);
  uint64_t until = qn_time_ns() + UINT64_C(20000000);
  bool woken = true;
  while (woken && qn_time_ns() < until + UINT64_C(5000000000)) /* spurious wake-ups are allowed */
    woken = qn_cond_wait_until(&s.c, &s.m, until);
  QN_REQUIRE(!woken && qn_time_ns() >= until);
  QN_REQUIRE(!qn_cond_wait_until(&s.c, &s.m, 0));
  qn_mutex_unlock(&s.m);

  qn_status results[THREADS] = {QN_OK};
  for (int i = 0; i < THREADS; i++)
    QN_REQUIRE_OK(qn_thread_start(&t[i], first_use, &results[i]));
  for (int i = 0; i < THREADS; i++) {
    qn_thread_join(t[i]);
    QN_REQUIRE(results[i] == QN_TIMEOUT);
  }
  QN_REQUIRE(qn_error_message()[0] == '\0');
  qn_cond_destroy(&s.c);
  qn_mutex_destroy(&s.m);
  puts("ok");
  return 0;
}
