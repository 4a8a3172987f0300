/* Threads, mutexes and conditions over pthread. Conditions wait by the monotonic clock, that of qn_time_ns, so that a
 * changed wall clock never stretches a timeout. */
#define _GNU_SOURCE /* sched_getaffinity, CPU_* */
#include "quern/base.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(qn_mutex), "qn_mutex is too small");
_Static_assert(sizeof(pthread_cond_t) <= sizeof(qn_cond), "qn_cond is too small");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(qn_mutex), "qn_mutex is not aligned");
_Static_assert(_Alignof(pthread_cond_t) <= _Alignof(qn_cond), "qn_cond is not aligned");
_Static_assert(sizeof(pthread_t) <= sizeof(qn_thread), "qn_thread is too small");

static pthread_mutex_t *mutex_of(qn_mutex *m) { return (pthread_mutex_t *)(void *)m->opaque; }
static pthread_cond_t *cond_of(qn_cond *c) { return (pthread_cond_t *)(void *)c->opaque; }

qn_status qn_mutex_init(qn_mutex *m) {
  memset(m, 0, sizeof *m);
  int error = pthread_mutex_init(mutex_of(m), NULL);
  return error ? QN_ERR(QN_OUT_OF_MEMORY, "make a mutex: %s", strerror(error)) : QN_OK;
}

void qn_mutex_destroy(qn_mutex *m) { (void)pthread_mutex_destroy(mutex_of(m)); }

void qn_mutex_lock(qn_mutex *m) {
  int error = pthread_mutex_lock(mutex_of(m));
  QN_CHECK(error == 0);
}

void qn_mutex_unlock(qn_mutex *m) {
  int error = pthread_mutex_unlock(mutex_of(m));
  QN_CHECK(error == 0);
}

qn_status qn_cond_init(qn_cond *c) {
  memset(c, 0, sizeof *c);
  pthread_condattr_t attributes;
  int error = pthread_condattr_init(&attributes);
  if (error)
    return QN_ERR(QN_OUT_OF_MEMORY, "make a condition: %s", strerror(error));
  error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  if (!error)
    error = pthread_cond_init(cond_of(c), &attributes);
  (void)pthread_condattr_destroy(&attributes);
  return error ? QN_ERR(QN_OUT_OF_MEMORY, "make a condition: %s", strerror(error)) : QN_OK;
}

void qn_cond_destroy(qn_cond *c) { (void)pthread_cond_destroy(cond_of(c)); }

void qn_cond_wait(qn_cond *c, qn_mutex *m) {
  int error = pthread_cond_wait(cond_of(c), mutex_of(m));
  QN_CHECK(error == 0);
}

bool qn_cond_wait_until(qn_cond *c, qn_mutex *m, uint64_t deadline_ns) {
  struct timespec until;
  uint64_t seconds = deadline_ns / UINT64_C(1000000000);
  /* "For ever" (UINT64_MAX) is within a 64-bit time_t; a narrower one is clamped. */
  until.tv_sec = sizeof(time_t) < 8 && seconds > INT32_MAX ? (time_t)INT32_MAX : (time_t)seconds;
  until.tv_nsec = (long)(deadline_ns % UINT64_C(1000000000));
  int error = pthread_cond_timedwait(cond_of(c), mutex_of(m), &until);
  QN_CHECK(error == 0 || error == ETIMEDOUT);
  return error == 0;
}

void qn_cond_broadcast(qn_cond *c) { (void)pthread_cond_broadcast(cond_of(c)); }

typedef struct thread_start {
  void (*run)(void *);
  void *arg;
} thread_start;

static void *thread_main(void *p) {
  thread_start start = *(thread_start *)p;
  free(p);
  start.run(start.arg);
  return NULL;
}

qn_status qn_thread_start(qn_thread *out_thread, void (*run)(void *), void *arg) {
  *out_thread = (qn_thread){0};
  thread_start *start = malloc(sizeof *start);
  if (!start)
    return QN_ERR(QN_OUT_OF_MEMORY, "start a thread: no memory");
  *start = (thread_start){run, arg};
  pthread_t handle;
  int error = pthread_create(&handle, NULL, thread_main, start);
  if (error) {
    free(start);
    return QN_ERR(QN_OUT_OF_MEMORY, "start a thread: %s", strerror(error));
  }
  memcpy(&out_thread->opaque, &handle, sizeof handle);
  return QN_OK;
}

void qn_thread_join(qn_thread t) {
  pthread_t handle;
  memcpy(&handle, &t.opaque, sizeof handle);
  int error = pthread_join(handle, NULL);
  QN_CHECK(error == 0);
}

int qn_cpu_count(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return CPU_COUNT(&set);
  /* More processors than the fixed set has room for, or a kernel that does not say. */
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 && online < 65536 ? (int)online : 1;
}

int qn_cpu_number(int cpu_index) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (cpu_index < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return -1;
  int left = cpu_index;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET((size_t)cpu, &allowed) && left-- == 0)
      return cpu;
  }
  return -1;
}

int qn_cpu_current(void) { return sched_getcpu(); }

void qn_thread_pin_to(int number) {
  cpu_set_t one;
  if (number < 0 || number >= CPU_SETSIZE)
    return;
  CPU_ZERO(&one);
  CPU_SET((size_t)number, &one);
  (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

void qn_thread_pin(int cpu_index) { qn_thread_pin_to(qn_cpu_number(cpu_index)); }
