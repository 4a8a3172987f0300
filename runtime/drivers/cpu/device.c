/* The CPU as a device: what it is called, what it can do, how it is opened. */
#include "cpu.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

/* The first line of /proc/cpuinfo with that key, or nothing. */
static void cpuinfo(const char *key, char *out, size_t size) {
  FILE *f = fopen("/proc/cpuinfo", "r");
  char line[512];
  size_t n = strlen(key);
  while (f && fgets(line, sizeof line, f)) {
    const char *value = strchr(line, ':');
    if (strncmp(line, key, n) != 0 || !value)
      continue;
    value += 1 + strspn(value + 1, " \t");
    (void)snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  if (f)
    (void)fclose(f);
}

static uint32_t vector_lanes(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return 16;
  return __builtin_cpu_supports("avx2") ? 8 : 4;
#else
  return 4;
#endif
}

/* Conversions between f16 and f32 in hardware, which compiled code relies on. */
static bool has_f16(void) {
#if defined(__x86_64__) || defined(__i386__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
#else
  return true;
#endif
}

static bool keeps_denormals(void) {
  volatile float tiny = FLT_MIN, half = 0.5f;
  volatile float product = tiny * half;
  return product > 0 && product + product == tiny;
}

static bool fuses(void) {
  volatile float a = 1 + FLT_EPSILON, c = -(1 + 2 * FLT_EPSILON);
  return fmaf(a, a, c) == FLT_EPSILON * FLT_EPSILON;
}

static qn_status thread_count(unsigned *out_threads) {
  const char *text = qn_env_get(QN_ENV_THREADS);
  int processors = qn_cpu_count();
  *out_threads = (unsigned)(processors < CPU_MAX_THREADS ? processors : CPU_MAX_THREADS);
  if (!text)
    return QN_OK;
  char *end = NULL;
  long n = strtol(text, &end, 10);
  if (*end || n < 1 || n > CPU_MAX_THREADS)
    return QN_ERR(QN_INVALID, "QN_THREADS=%s: expected a number from 1 to %d", text, CPU_MAX_THREADS);
  *out_threads = (unsigned)n;
  return QN_OK;
}

qn_status qn_cpu_describe(qn_device_caps *c) {
  unsigned threads = 0;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  uint64_t memory = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 32;
  *c = (qn_device_caps){.device_class = QN_CLASS_CPU_NATIVE,
                        .format = QN_CODE_NATIVE,
                        .host_memory = true,
                        .max_group_items = 1024,
                        .max_groups = {UINT32_MAX, 1, 1},
                        .local_bytes = 1 << 20,
                        .max_bindings = QN_MAX_BINDINGS,
                        .subgroup_size = 1,
                        .vector_lanes = vector_lanes(),
                        .cache_line = 64,
                        .memory_bytes = memory,
                        .max_buffer_bytes = memory,
                        .max_range_bytes = memory,
                        .f16 = has_f16(),
                        .f64 = true,
                        .i64 = true,
                        .i16 = true,
                        .i8 = true,
                        .storage8 = true,
                        .storage16 = true,
                        .max_loop_rounds = UINT32_MAX,
                        .denormals = keeps_denormals(),
                        .fma = fuses()};
  (void)snprintf(c->id, sizeof c->id, "cpu");
  (void)snprintf(c->name, sizeof c->name, "CPU");
  (void)snprintf(c->vendor, sizeof c->vendor, "host");
  cpuinfo("model name", c->name, sizeof c->name);
  cpuinfo("vendor_id", c->vendor, sizeof c->vendor);
  (void)snprintf(c->driver, sizeof c->driver, "quern cpu %s", QN_VERSION);
  (void)snprintf(c->platform, sizeof c->platform, "host");
  QN_TRY(thread_count(&threads));
  c->compute_units = threads;
  return QN_OK;
}

static qn_status cpu_enumerate(qn_device_info **infos, size_t *count, size_t *capacity) {
  qn_device_info row = {.usable = true};
  if (qn_cpu_describe(&row.caps) != QN_OK) {
    row.usable = false;
    (void)snprintf(row.reason, sizeof row.reason, "%s", qn_error_message());
  }
  QN_TRY(qn_device_info_append(infos, count, capacity, &row));
  return QN_OK;
}

static void cpu_destroy(qn_device *dev) {
  cpu_device *d = (cpu_device *)dev;
  qn_cpu_queue_destroy(d);
  qn_cpu_pool_destroy(d->pool);
  qn_cond_destroy(&d->finished);
  qn_cond_destroy(&d->called);
  qn_cond_destroy(&d->pool->work);
  qn_mutex_destroy(&d->pool->mutex);
  free(d->pool);
  free(d);
}

static const qn_device_vt table = {
    .destroy = cpu_destroy,
    .buffer_create = qn_cpu_buffer_create,
    .buffer_destroy = qn_cpu_buffer_destroy,
    .buffer_map = qn_cpu_buffer_map,
    .buffer_write = qn_cpu_buffer_write,
    .buffer_read = qn_cpu_buffer_read,
    .program_create = qn_cpu_program_create,
    .program_binary = qn_cpu_program_binary,
    .program_warm_up = qn_cpu_program_warm_up,
    .program_destroy = qn_cpu_program_destroy,
    .record = qn_cpu_record,
    .recording_times = qn_cpu_recording_times,
    .recording_destroy = qn_cpu_recording_destroy,
    .submit = qn_cpu_submit,
    .wait = qn_cpu_wait,
    .done = qn_cpu_done,
};

static qn_status make_locks(cpu_device *d) {
  qn_status st = QN_OK;
  QN_TRY(qn_mutex_init(&d->pool->mutex));
  QN_TRY_GOTO(st, qn_cond_init(&d->pool->work), no_work);
  QN_TRY_GOTO(st, qn_cond_init(&d->called), no_called);
  QN_TRY_GOTO(st, qn_cond_init(&d->finished), no_finished);
  return QN_OK;
no_finished:
  qn_cond_destroy(&d->called);
no_called:
  qn_cond_destroy(&d->pool->work);
no_work:
  qn_mutex_destroy(&d->pool->mutex);
  return st;
}

static qn_status cpu_open(const qn_device_info *info, qn_device **out_device) {
  cpu_device *d = calloc(1, sizeof *d);
  void *pool = NULL;
  if (!d || posix_memalign(&pool, CPU_LINE, sizeof(cpu_pool)) != 0) {
    free(d);
    return QN_ERR(QN_OUT_OF_MEMORY, "open the cpu: no memory");
  }
  memset(pool, 0, sizeof(cpu_pool));
  d->base.vt = &table;
  d->base.caps = info->caps;
  d->pool = pool;
  qn_status st = make_locks(d);
  if (st != QN_OK) {
    free(pool);
    free(d);
    return qn_error_trace(st, __FILE__, __LINE__, "make_locks");
  }
  qn_cpu_queue_prepare(d);
  st = qn_cpu_pool_start(d->pool, info->caps.compute_units);
  if (st == QN_OK)
    st = qn_cpu_queue_start(d);
  if (st != QN_OK) {
    cpu_destroy(&d->base);
    return qn_error_trace(st, __FILE__, __LINE__, "cpu_open");
  }
  *out_device = &d->base;
  return QN_OK;
}

const qn_driver qn_driver_cpu = {.name = "cpu", .by_nodes = true, .enumerate = cpu_enumerate, .open = cpu_open};
