/* Steps of little work on the host. Starting LLVM and its linker takes longer than interpreting such a step many times, so its kernels are interpreted
 * at first, and each call adds what it cost to a sum. When the sum reaches about what compiling costs, the thread that noticed compiles all kernels of
 * the step, and the calls after that run machine code. Both give the same bits, so it does not matter who sees the change when. */
#include "tiered.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* In steps of the interpreter, about 4 ns each. Decoding costs every call some steps for each instruction. */
enum {
  LITTLE = 100000,
  CALL_STEPS = 250,
  DECODE_STEPS = 4,
  START_STEPS = 4000000,
  COMPILE_STEPS = 10000,
  TRIPS_GUESSED = 16
};

typedef enum tier_state { TIER_INTERPRETED, TIER_COMPILING, TIER_COMPILED, TIER_REFUSED } tier_state;

typedef struct tiered tiered;
typedef struct tier_entry {
  tiered *owner;
  double call, group; /* steps */
  size_t index;
} tier_entry;

struct tiered {
  atomic_int state;
  atomic_ullong spent;
  uint64_t hot; /* steps after which it pays to compile */
  size_t count;
  qn_kernel **kernels;
  qn_code code; /* when compiled */
  qn_code_entry *native;
  tier_entry entries[];
};

static double call_steps(const qn_kernel *k) { return CALL_STEPS + (double)DECODE_STEPS * (double)k->count; }

bool qn_tiered_pays(const sched_program *p) {
  double sum = 0, times = 1;
  double *steps = calloc(p->kernel_count + 1, sizeof *steps);
  if (!steps)
    return false;
  for (size_t i = 0; i < p->kernel_count; i++)
    steps[i] = qn_kernel_steps(p->kernels[i]);
  for (size_t i = 0; i < p->launch_count && sum <= LITTLE; i++) {
    const sched_launch *l = &p->launches[i];
    double trips = l->trips >= 0 ? (double)l->trips : TRIPS_GUESSED;
    if (l->kind == LAUNCH_LOOP)
      times *= trips > 1 ? trips : 1;
    else if (l->kind == LAUNCH_KERNEL)
      sum += times * (call_steps(p->kernels[l->kernel]) + l->groups * steps[l->kernel]);
  }
  free(steps);
  return sum <= LITTLE;
}

static void release(void *owner) {
  tiered *t = owner;
  if (t->code.release)
    t->code.release(t->code.owner);
  for (size_t i = 0; i < t->count; i++) {
    qn_kernel_free(t->kernels[i]);
    free(t->kernels[i]);
  }
  free(t->kernels);
  free(t->native);
  free(t);
}

#ifdef QN_HAVE_LLVM
/* Without memory or a code generator the step stays interpreted. */
static void compile(tiered *t) {
  qn_status st = qn_llvm_compile((const qn_kernel *const *)t->kernels, t->count, NULL, t->native, &t->code, NULL);
  atomic_store_explicit(&t->state, st == QN_OK ? TIER_COMPILED : TIER_REFUSED, memory_order_release);
}
#else
static void compile(tiered *t) { atomic_store(&t->state, TIER_REFUSED); }
#endif

static void run(const void *context, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1) {
  const tier_entry *e = context;
  tiered *t = e->owner;
  int state = atomic_load_explicit(&t->state, memory_order_acquire);
  if (state == TIER_COMPILED) {
    const qn_code_entry *n = &t->native[e->index];
    n->native(n->native_context, bindings, params, g0, g1);
    return;
  }
  qn_kernel_interpret(t->kernels[e->index], bindings, params, g0, g1);
  if (state != TIER_INTERPRETED || g0 >= g1)
    return;
  uint64_t cost = (uint64_t)(e->call + e->group * (g1 - g0));
  if (atomic_fetch_add_explicit(&t->spent, cost, memory_order_relaxed) + cost < t->hot)
    return;
  int expected = TIER_INTERPRETED;
  if (atomic_compare_exchange_strong(&t->state, &expected, TIER_COMPILING))
    compile(t);
}

qn_status qn_tiered_code(sched_program *p, qn_plan *plan, qn_code_entry *entries) {
  size_t n = p->kernel_count;
  tiered *t = calloc(1, sizeof *t + (n + 1) * sizeof *t->entries);
  qn_kernel **kernels = calloc(n + 1, sizeof *kernels);
  qn_code_entry *native = calloc(n + 1, sizeof *native);
  if (!t || !kernels || !native) {
    free(t);
    free(kernels);
    free(native);
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program");
  }
  memcpy(kernels, p->kernels, n * sizeof *kernels);
  p->kernel_count = 0; /* theirs now */
  t->kernels = kernels;
  t->native = native;
  t->count = n;
  t->hot = START_STEPS;
  for (size_t i = 0; i < n; i++) {
    const qn_kernel *k = kernels[i];
    t->hot += COMPILE_STEPS * (uint64_t)k->count;
    t->entries[i] = (tier_entry){t, call_steps(k), qn_kernel_steps(k), i};
    entries[i].native = run;
    entries[i].native_context = &t->entries[i];
  }
  plan->code.owner = t;
  plan->code.release = release;
  return QN_OK;
}

bool qn_tiered_is_hot(const qn_code *code) {
  if (code->entry_count == 0 || code->entries[0].native != run)
    return false;
  const tier_entry *e = code->entries[0].native_context;
  return atomic_load(&e->owner->state) == TIER_COMPILED;
}
