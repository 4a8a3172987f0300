/* Loading a plan on a device: the forecast is held against the limits, then the program is made (from the cache where it is there), memory taken,
 * constants uploaded and everything warmed up. Whatever can fail for lack of memory or in a compiler fails here, before any donated slab is touched. */
#include "exec_impl.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_RING = 2, DEFAULT_RECORDINGS = 8, MOST_RING = 256 };

/* ---- the forecast against the limits ---- */

static qn_status too_large(const char *what, uint64_t needed, const char *limit, uint64_t available,
                           const qn_device_caps *caps) {
  char need[32], have[32];
  qn_exec_bytes_text(needed, need, sizeof need);
  qn_exec_bytes_text(available, have, sizeof have);
  return QN_ERR(QN_OUT_OF_MEMORY, "%s needs %s (%llu bytes), device %s has %s (%llu bytes) %s", what, need,
                (unsigned long long)needed, caps->id, have, (unsigned long long)available, limit);
}

static bool bound(const qn_plan *p, uint32_t slab) {
  for (size_t i = 0; i < p->cmd_count; i++)
    for (uint32_t k = 0; p->cmds[i].kind == QN_CMD_LAUNCH && k < p->cmds[i].binding_count; k++)
      if (p->cmds[i].bindings[k] == slab)
        return true;
  return false;
}

static qn_status check_slab(const qn_plan *p, uint32_t slab, uint64_t bytes, const qn_device_caps *caps) {
  char what[48];
  if (slab == 0)
    (void)snprintf(what, sizeof what, "the arena");
  else if (slab <= p->arg_count)
    (void)snprintf(what, sizeof what, "argument %u", slab - 1);
  else
    (void)snprintf(what, sizeof what, "the result");
  if (bytes > caps->max_buffer_bytes)
    return too_large(what, bytes, "a buffer", caps->max_buffer_bytes, caps);
  if (bytes > caps->max_range_bytes && bound(p, slab))
    return too_large(what, bytes, "a binding", caps->max_range_bytes, caps);
  return QN_OK;
}

static qn_status check_limits(const qn_plan *p, qn_device *d, uint32_t ring) {
  const qn_device_caps *caps = qn_device_get_caps(d);
  qn_plan_forecast f;
  qn_device_stats stats;
  qn_plan_get_forecast(p, ring, &f);
  qn_device_get_stats(d, &stats);
  QN_TRY(check_slab(p, 0, p->arena_bytes, caps));
  for (size_t i = 0; i < p->arg_count; i++)
    QN_TRY(check_slab(p, (uint32_t)i + 1, p->args[i].bytes, caps));
  QN_TRY(check_slab(p, (uint32_t)p->arg_count + 1, p->result.bytes, caps));
  if (!caps->memory_bytes)
    return QN_OK;
  if (f.total > caps->memory_bytes)
    return too_large("arena, arguments and results together", f.total, "in all", caps->memory_bytes, caps);
  uint64_t left = stats.bytes_live < caps->memory_bytes ? caps->memory_bytes - stats.bytes_live : 0;
  if (f.arena + f.results > left)
    return too_large("arena and results together", f.arena + f.results, "left beside what is in use", left, caps);
  return QN_OK;
}

/* ---- the program and its binary ---- */

/* Of all that decides what a driver's compiler gives: the code itself, the plan's own key, device, driver and our version. */
static qn_digest binary_key(const qn_plan *p, const qn_device_caps *caps) {
  uint64_t a = QN_HASH_INIT, b = qn_hash_u64(QN_HASH_INIT, 1);
  if (p->code.source) {
    a = qn_hash_bytes(a, p->code.source, p->code.source_bytes);
    b = qn_hash_bytes(b, p->code.source, p->code.source_bytes);
  }
  for (size_t i = 0; i < p->code.entry_count; i++)
    if (p->code.entries[i].spirv) {
      a = qn_hash_bytes(a, p->code.entries[i].spirv, p->code.entries[i].spirv_bytes);
      b = qn_hash_bytes(b, p->code.entries[i].spirv, p->code.entries[i].spirv_bytes);
    }
  struct {
    qn_digest plan;
    uint64_t a, b, format;
    char id[sizeof caps->id], name[sizeof caps->name], driver[sizeof caps->driver], platform[sizeof caps->platform];
    char version[32];
  } key;
  memset(&key, 0, sizeof key);
  key.plan = p->key;
  key.a = a;
  key.b = b;
  key.format = (uint64_t)p->code.format;
  (void)snprintf(key.id, sizeof key.id, "%s", caps->id);
  (void)snprintf(key.name, sizeof key.name, "%s", caps->name);
  (void)snprintf(key.driver, sizeof key.driver, "%s", caps->driver);
  (void)snprintf(key.platform, sizeof key.platform, "%s", caps->platform);
  (void)snprintf(key.version, sizeof key.version, "%s", QN_VERSION);
  return qn_digest_bytes(&key, sizeof key);
}

static bool cacheable(const qn_plan *p) {
  return p->code.format == QN_CODE_OPENCL_C || p->code.format == QN_CODE_SPIRV;
}

static qn_status make_program(qn_step *s, qn_cache *cache) {
  qn_plan *p = s->plan;
  const qn_device_caps *caps = qn_device_get_caps(s->device);
  qn_bytes binary = {0};
  bool used = false;
  if (p->code.entry_count == 0)
    return QN_OK;
  qn_digest key = {{0}};
  if (cacheable(p)) {
    key = binary_key(p, caps);
    QN_TRY(qn_cache_get(cache, "binary", key, &binary));
  }
  qn_status st = qn_program_create(s->device, &p->code, &binary, &used, &s->program);
  free(binary.data);
  p->code.release = NULL; /* the program's now, or called already */
  p->code.owner = NULL;
  QN_TRY(st);
  s->stats.binary_cached = used;
  QN_TRY(qn_program_warm_up(s->program));
  if (used || !cacheable(p) || !qn_cache_is_on(cache))
    return QN_OK;
  QN_TRY(qn_program_binary(s->program, &binary));
  st = binary.size ? qn_cache_put(cache, "binary", key, binary.data, binary.size) : QN_OK;
  free(binary.data);
  QN_TRY(st);
  return QN_OK;
}

/* ---- commands of our own ---- */

static int by_offset(const void *a, const void *b) {
  uint64_t x = ((const qn_plan_constant *)a)->offset, y = ((const qn_plan_constant *)b)->offset;
  return (x > y) - (x < y);
}

static size_t add_fill(qn_cmd *cmds, size_t n, uint32_t slab, uint64_t from, uint64_t to) {
  from = (from + 3) & ~UINT64_C(3);
  to &= ~UINT64_C(3);
  if (from < to)
    cmds[n++] =
        (qn_cmd){.kind = QN_CMD_FILL, .dst = slab, .dst_offset = from, .size = to - from, .pattern = UINT32_MAX};
  return n;
}

/* QN_POISON: before each run, NaN wherever nothing may be relied on: the arena between its constants, and the result. */
static qn_status poison_cmds(qn_step *s, qn_cmd *cmds, size_t *out_count) {
  const qn_plan *p = s->plan;
  size_t n = 0;
  uint64_t at = 0;
  qn_plan_constant *sorted = QN_NEW(&s->arena_memory, qn_plan_constant, p->constant_count + 1);
  if (!sorted)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for %zu constants", p->constant_count);
  if (p->constant_count) {
    memcpy(sorted, p->constants, p->constant_count * sizeof *sorted);
    qsort(sorted, p->constant_count, sizeof *sorted, by_offset);
  }
  for (size_t i = 0; i < p->constant_count; i++) {
    n = add_fill(cmds, n, 0, at, sorted[i].offset & ~UINT64_C(3));
    at = at > sorted[i].offset + sorted[i].bytes ? at : sorted[i].offset + sorted[i].bytes;
  }
  n = add_fill(cmds, n, 0, at, p->arena_bytes);
  n = add_fill(cmds, n, (uint32_t)p->arg_count + 1, 0, p->result.bytes);
  if (n)
    cmds[n++] = (qn_cmd){.kind = QN_CMD_BARRIER};
  *out_count = n;
  return QN_OK;
}

static qn_status make_walk(qn_step *s) {
  const qn_plan *p = s->plan;
  qn_cmd *own = NULL;
  size_t count = 0;
  if (qn_env_on(QN_ENV_POISON)) {
    own = QN_NEW(&s->arena_memory, qn_cmd, p->constant_count + 4);
    if (!own)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for its commands");
    QN_TRY(poison_cmds(s, own, &count));
  }
  QN_TRY(qn_step_walk_create(s, own, count));
  return QN_OK;
}

/* ---- memory ---- */

static qn_status make_lists(qn_step *s, uint32_t recordings) {
  const qn_plan *p = s->plan;
  qn_arena *a = &s->arena_memory;
  uint32_t floor = 4 * s->ring > DEFAULT_RECORDINGS ? 4 * s->ring : DEFAULT_RECORDINGS;
  s->entry_limit = recordings ? recordings : floor;
  s->entries = QN_NEW(a, qn_step_entry, s->entry_limit);
  s->donated = QN_NEW(a, bool, p->arg_count + 1);
  s->buffers = QN_NEW(a, qn_buffer *, p->arg_count + 2);
  s->results = QN_NEW(a, qn_tensors *, s->ring);
  s->made = QN_NEW(a, qn_recording *, s->piece_count + 1);
  qn_tensors **args = QN_NEW(a, qn_tensors *, s->entry_limit * (p->arg_count + 1));
  qn_recording **made = QN_NEW(a, qn_recording *, s->entry_limit * (s->piece_count + 1));
  if (!s->entries || !s->donated || !s->buffers || !s->results || !s->made || !args || !made)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for its lists");
  for (size_t i = 0; i < s->entry_limit; i++) {
    s->entries[i].args = args + i * (p->arg_count + 1);
    s->entries[i].recordings = made + i * (s->piece_count + 1);
  }
  for (size_t i = 0; i < p->donation_count; i++)
    s->donated[p->donations[i].arg] = true;
  s->writes_donated = p->donation_count > 0 && p->first_donated_write < p->cmd_count;
  return QN_OK;
}

static qn_status make_memory(qn_step *s) {
  const qn_plan *p = s->plan;
  char label[96];
  (void)snprintf(label, sizeof label, "%s arena", p->name);
  QN_TRY(qn_buffer_create(s->device, &(qn_buffer_desc){.size = p->arena_bytes, .label = label}, &s->arena));
  for (size_t i = 0; i < p->constant_count; i++)
    if (p->constants[i].bytes)
      QN_TRY(qn_buffer_write(s->arena, p->constants[i].offset, p->constants[i].bytes, p->constants[i].data));
  (void)snprintf(label, sizeof label, "%s result", p->name);
  for (uint32_t i = 0; i < s->ring; i++)
    QN_TRY(qn_tensors_create(s->device, &p->result, label, &s->results[i]));
  return QN_OK;
}

static void trace_plan(const qn_plan *p) {
  const char *wanted = qn_env_get(QN_ENV_TRACE);
  if (!wanted || !strstr(wanted, "plan"))
    return;
  qn_text t = {0};
  qn_plan_print(p, &t);
  if (t.buf)
    (void)fputs(t.buf, stderr);
  qn_text_free(&t);
}

static qn_status build(qn_step *s, const qn_step_desc *desc) {
  QN_TRY(qn_plan_check(s->plan));
  trace_plan(s->plan);
  if (desc->result_ring > MOST_RING || desc->recordings > 4 * MOST_RING)
    return QN_ERR(QN_INVALID, "%u result slabs and %u recordings asked for, expected at most %d and %d",
                  desc->result_ring, desc->recordings, MOST_RING, 4 * MOST_RING);
  s->ring = desc->result_ring ? desc->result_ring : DEFAULT_RING;
  if (s->plan->result.bytes == 0)
    s->ring = 1; /* nothing to keep apart */
  QN_TRY(check_limits(s->plan, s->device, s->ring));
  QN_TRY(make_program(s, desc->cache));
  QN_TRY(make_walk(s));
  QN_TRY(make_lists(s, desc->recordings));
  QN_TRY(make_memory(s));
  if (desc->profile)
    QN_TRY(qn_step_profiler_create(s));
  return QN_OK;
}

/* ---- life ---- */

static void destroy(qn_step *s) {
  for (size_t i = 0; i < s->entry_count; i++) {
    for (size_t k = 0; k < s->piece_count; k++)
      qn_recording_release(s->entries[i].recordings[k]); /* waits if it is in flight */
    for (size_t k = 0; k < s->plan->arg_count; k++)
      qn_tensors_release(s->entries[i].args[k]);
  }
  for (uint32_t i = 0; s->results && i < s->ring; i++)
    qn_tensors_release(s->results[i]);
  qn_step_walk_destroy(s);
  qn_buffer_release(s->arena);
  qn_program_release(s->program);
  qn_plan_free(s->plan);
  qn_device_release(s->device);
  qn_mutex_destroy(&s->mutex);
  qn_arena_free(&s->arena_memory);
  free(s);
}

qn_status qn_step_create(qn_device *d, qn_plan *plan, const qn_step_desc *desc, qn_step **out_step) {
  static const qn_step_desc plain;
  *out_step = NULL;
  qn_step *s = calloc(1, sizeof *s);
  qn_status st = s ? qn_mutex_init(&s->mutex) : QN_ERR(QN_OUT_OF_MEMORY, "step %s: no memory", plan->name);
  if (st != QN_OK) {
    free(s);
    qn_plan_free(plan);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_step_create");
  }
  atomic_init(&s->refs, 1);
  atomic_init(&s->interrupted, false);
  s->device = qn_device_retain(d);
  s->plan = plan;
  st = build(s, desc ? desc : &plain);
  if (st != QN_OK) {
    st = qn_step_fail(plan->name, st);
    destroy(s);
    return st;
  }
  *out_step = s;
  return QN_OK;
}

qn_step *qn_step_retain(qn_step *s) {
  if (s)
    (void)atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

void qn_step_release(qn_step *s) {
  if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
    destroy(s);
}

const qn_plan *qn_step_plan(const qn_step *s) { return s->plan; }
