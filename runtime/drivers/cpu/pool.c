/* Threads that walk a recording together. Within a recording they only ever spin: waking a sleeper costs more than most
 * launches. */
#include "cpu.h"

#include <fenv.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
  SPIN_NS = 50 * 1000,   /* after the last job, before sleeping */
  ORPHAN_NS = 10 * 1000, /* before a helper calls the dispatcher: a caller that is about to wait comes sooner */
  FEW = 8                /* up to here each thread looks at all others; beyond, slot 0 collects */
};

void qn_cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void await(const cpu_pool *p, const atomic_ullong *counter, uint64_t target) {
  for (unsigned spins = 0; atomic_load_explicit(counter, memory_order_acquire) < target; ++spins) {
    if (spins < p->patience)
      qn_cpu_pause();
    else
      (void)sched_yield(); /* the one waited for may want this very processor */
  }
}

static void arrive(cpu_slot *me) { atomic_store_explicit(&me->arrived, ++me->met, memory_order_release); }

static void collect(const cpu_pool *p, const cpu_slot *me) {
  for (unsigned i = 0; i < p->threads; ++i) {
    if (i != me->index)
      await(p, &p->slots[i].arrived, me->met);
  }
}

static void meet(cpu_pool *p, cpu_slot *me) {
  arrive(me);
  if (p->threads <= FEW) {
    collect(p, me);
  } else if (me->index == 0) {
    collect(p, me);
    atomic_store_explicit(&p->released, me->met, memory_order_release);
  } else {
    await(p, &p->released, me->met);
  }
}

static void walk(cpu_pool *p, cpu_slot *me, cpu_recording *r, unsigned threads) {
  for (size_t i = 0; i < r->step_count; ++i) {
    const cpu_step *s = &r->steps[i];
    if (s->join && threads > 1)
      meet(p, me);
    if (r->stamps && me->index == 0)
      r->stamps[i] = qn_time_ns();
    qn_cpu_step_run(s, me->index, threads);
  }
}

/* ---- helpers ---- */

/* Sleeps till there is a new recording or the end. */
static void sleep_for_work(cpu_pool *p, uint64_t seen) {
  qn_mutex_lock(&p->mutex);
  (void)atomic_fetch_add(&p->sleepers, 1);
  if (atomic_load(&p->orphan))
    p->call_dispatcher(p->call_arg);
  while (atomic_load(&p->generation) == seen && !atomic_load(&p->stop))
    qn_cond_wait(&p->work, &p->mutex);
  (void)atomic_fetch_sub(&p->sleepers, 1);
  qn_mutex_unlock(&p->mutex);
}

/* Watches for the next recording; false at the end. */
static bool next_job(cpu_pool *p, uint64_t seen) {
  uint64_t idle_since = 0, orphan_since = 0;
  for (unsigned spins = 1;; ++spins) {
    if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen)
      return true;
    if (atomic_load_explicit(&p->stop, memory_order_acquire))
      return false;
    qn_cpu_pause();
    if (spins % 16 && p->spin_ns)
      continue;
    uint64_t now = qn_time_ns();
    idle_since = idle_since ? idle_since : now;
    if (!atomic_load_explicit(&p->orphan, memory_order_relaxed)) {
      orphan_since = 0;
    } else if (!orphan_since) {
      orphan_since = now;
    } else if (now - orphan_since > ORPHAN_NS) {
      qn_mutex_lock(&p->mutex);
      if (atomic_load(&p->orphan))
        p->call_dispatcher(p->call_arg);
      qn_mutex_unlock(&p->mutex);
      orphan_since = now;
    }
    if (now - idle_since >= p->spin_ns)
      sleep_for_work(p, seen);
  }
}

/* The leader may be any thread and is not ours to pin. If it runs where this helper is pinned, the two would take turns
 * for ever, so the helper changes over to the processor that is left. */
static void make_way(cpu_pool *p, cpu_slot *me) {
  if (me->cpu < 0 || me->cpu != p->leader_cpu)
    return;
  me->cpu = atomic_exchange(&p->free_cpu, me->cpu);
  qn_thread_pin_to(me->cpu);
}

static void helper_main(void *arg) {
  cpu_slot *me = arg;
  cpu_pool *p = me->pool;
  qn_thread_pin_to(me->cpu);
  (void)fesetenv(FE_DFL_ENV); /* a new thread begins with its maker's */
  uint64_t seen = 0;
  while (next_job(p, seen)) {
    ++seen;
    make_way(p, me);
    walk(p, me, p->job, p->threads);
    arrive(me); /* the last touch of the recording */
  }
}

/* ---- slot 0 ---- */

void qn_cpu_pool_run(cpu_pool *p, cpu_recording *r) {
  cpu_slot *me = &p->slots[0];
  if (!r->parallel) {
    walk(p, me, r, 1);
  } else {
    p->job = r;
    p->leader_cpu = qn_cpu_current();
    (void)atomic_fetch_add(&p->generation, 1);
    if (atomic_load(&p->sleepers)) { /* in one order with a helper's own count and look at the generation */
      qn_mutex_lock(&p->mutex);
      qn_cond_broadcast(&p->work);
      qn_mutex_unlock(&p->mutex);
    }
    walk(p, me, r, p->threads);
    arrive(me);
    collect(p, me);
  }
  if (r->stamps)
    r->stamps[r->step_count] = qn_time_ns();
}

bool qn_cpu_pool_watches(const cpu_pool *p) { return p->spin_ns > 0 && atomic_load(&p->sleepers) + 1 < p->threads; }

qn_status qn_cpu_pool_start(cpu_pool *p, unsigned threads) {
  unsigned processors = (unsigned)qn_cpu_count();
  p->threads = threads;
  p->spin_ns = threads <= processors ? SPIN_NS : 0;
  p->patience = threads <= processors ? 2000 : 16;
  void *slots = NULL;
  if (posix_memalign(&slots, CPU_LINE, threads * sizeof(cpu_slot)) != 0)
    return QN_ERR(QN_OUT_OF_MEMORY, "cpu: no memory for %u threads", threads);
  memset(slots, 0, threads * sizeof(cpu_slot));
  p->slots = slots;
  for (unsigned i = 0; i < threads; ++i) {
    p->slots[i].pool = p;
    p->slots[i].index = i;
    p->slots[i].cpu = p->spin_ns ? qn_cpu_number((int)i) : -1;
  }
  atomic_store(&p->free_cpu, p->slots[0].cpu);
  for (unsigned i = 1; i < threads; ++i) {
    QN_TRY(qn_thread_start(&p->slots[i].thread, helper_main, &p->slots[i]));
    p->slots[i].started = true;
  }
  return QN_OK;
}

void qn_cpu_pool_destroy(cpu_pool *p) {
  qn_mutex_lock(&p->mutex);
  atomic_store(&p->stop, true);
  qn_cond_broadcast(&p->work);
  qn_mutex_unlock(&p->mutex);
  for (unsigned i = 1; p->slots && i < p->threads; ++i) {
    if (p->slots[i].started)
      qn_thread_join(p->slots[i].thread);
  }
  free(p->slots);
  p->slots = NULL;
}
