/* What every library needs and no tensor knows: arena, growing text, hash, files, time, threads, environment.
 * Functions that allocate return QN_OUT_OF_MEMORY or NULL as said; none aborts for lack of memory. */
#ifndef QUERN_BASE_H
#define QUERN_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "quern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arena: freed whole, grows by chaining blocks ---- */
typedef struct qn_arena_block qn_arena_block;
typedef struct qn_arena {
  qn_arena_block *head;
  size_t used;                                  /* bytes handed out in all, for reports */
} qn_arena;                                     /* all zero is a valid empty arena */
void *qn_arena_alloc(qn_arena *a, size_t size); /* zeroed, 16-byte aligned; NULL when memory is gone */
void *qn_arena_copy(qn_arena *a, const void *data, size_t size);
char *qn_arena_strdup(qn_arena *a, const char *s);
char *qn_arena_printf(qn_arena *a, const char *format, ...) QN_PRINTF(2, 3);
void qn_arena_free(qn_arena *a); /* leaves it empty and usable */
#define QN_NEW(arena, type, count) ((type *)qn_arena_alloc((arena), sizeof(type) * (size_t)(count)))

/* Grows a malloc'd array so that it holds at least `need` elements; geometric. false when memory is gone (array kept). */
bool qn_array_reserve(void **data, size_t *capacity, size_t need, size_t element_size);
#define QN_RESERVE(ptr, capacity, need) qn_array_reserve((void **)&(ptr), &(capacity), (need), sizeof *(ptr))

/* ---- growing text ---- */
typedef struct qn_text {
  char *buf; /* NUL-terminated once anything was added; NULL before */
  size_t len, cap;
  bool failed; /* memory ran out; later additions are ignored */
} qn_text;     /* all zero is a valid empty text */
void qn_text_add(qn_text *t, const char *format, ...) QN_PRINTF(2, 3);
void qn_text_addv(qn_text *t, const char *format, va_list args);
void qn_text_puts(qn_text *t, const char *s);
void qn_text_putn(qn_text *t, const char *s, size_t n);
void qn_text_json_string(qn_text *t, const char *s); /* quoted and escaped */
void qn_text_free(qn_text *t);
qn_status qn_text_check(const qn_text *t); /* QN_OUT_OF_MEMORY if an addition failed */

/* ---- hash: FNV-1a style 64 bit for tables, and a 128-bit one for cache keys; stable across machines ---- */
#define QN_HASH_INIT UINT64_C(0xcbf29ce484222325)
uint64_t qn_hash_bytes(uint64_t h, const void *data, size_t n);
uint64_t qn_hash_u64(uint64_t h, uint64_t x);
typedef struct qn_digest {
  uint8_t b[16];
} qn_digest;
qn_digest qn_digest_bytes(const void *data, size_t n);
void qn_digest_hex(qn_digest d, char out[33]);

/* ---- files ---- */
typedef struct qn_bytes {
  uint8_t *data;
  size_t size;
} qn_bytes;
qn_status qn_file_read(const char *path,
                       qn_bytes *out_bytes); /* whole file, malloc'd, one NUL byte behind the end; free with free() */
/* Writes to a temporary name beside `path`, flushes to disk, renames: the old file stays whole until the new one is. */
qn_status qn_file_write_atomic(const char *path, const void *data, size_t size);
bool qn_file_exists(const char *path);
qn_status qn_dir_make(const char *path); /* with parents; fine if it exists */
/* Quern's folder in the user's cache (XDG_CACHE_HOME, else ~/.cache, else the temporary folder; QN_CACHE_DIR overrides). */
qn_status qn_cache_dir(char *out_path, size_t size);

/* ---- time and process ---- */
uint64_t qn_time_ns(void);         /* monotonic */
double qn_time_since_start(void);  /* seconds since the process began, as the system counts it */
int qn_cpu_count(void);            /* processors this process may run on */
void qn_thread_pin(int cpu_index); /* the calling thread, to the n-th processor it may run on; best effort */
int qn_cpu_number(int cpu_index);  /* the system's number of the n-th processor the calling thread may run on, or -1 */
int qn_cpu_current(void);          /* number of the processor the calling thread runs on now; -1: unknown */
void qn_thread_pin_to(int number); /* the calling thread, to the processor of that number; best effort */

/* False only where the system shows no node that a GPU's driver could work through: then asking Vulkan and OpenCL would find software devices
 * at most, and costs a fifth of a second. */
bool qn_gpu_possible(void);
bool qn_gpu_nodes_in(const char *dev_folder); /* the same for a folder like /dev; true if it can't be read */

/* ---- shared libraries opened at run time ---- */
typedef struct qn_library qn_library;
/* Tries the names in order (NULL-terminated list); QN_NOT_FOUND names all that were tried and the last reason. */
qn_status qn_library_open(const char *const *names, qn_library **out_library);
/* Copies the symbol's address into *out_fn (a function pointer of the caller's type). QN_NOT_FOUND if it is absent. */
qn_status qn_library_symbol(qn_library *lib, const char *name, void *out_fn);
void qn_library_close(qn_library *lib); /* the code stays mapped: drivers keep threads and exit handlers */

/* ---- threads (pthread underneath) ---- */
typedef struct qn_mutex {
  uint64_t opaque[8];
} qn_mutex;
typedef struct qn_cond {
  uint64_t opaque[8];
} qn_cond;
qn_status qn_mutex_init(qn_mutex *m);
void qn_mutex_destroy(qn_mutex *m);
void qn_mutex_lock(qn_mutex *m);
void qn_mutex_unlock(qn_mutex *m);
qn_status qn_cond_init(qn_cond *c);
void qn_cond_destroy(qn_cond *c);
void qn_cond_wait(qn_cond *c, qn_mutex *m);
bool qn_cond_wait_until(qn_cond *c, qn_mutex *m, uint64_t deadline_ns); /* of qn_time_ns; false when it passed */
void qn_cond_broadcast(qn_cond *c);
typedef struct qn_thread {
  unsigned long opaque;
} qn_thread;
qn_status qn_thread_start(qn_thread *out_thread, void (*run)(void *), void *arg);
void qn_thread_join(qn_thread t);

/* ---- environment: rows of env.def, read once at first use ---- */
typedef enum qn_env {
#define QN_ENV(name, doc) QN_ENV_##name,
#include "quern/env.def"
#undef QN_ENV
  QN_ENV_COUNT
} qn_env;
const char *qn_env_get(qn_env which); /* value, or NULL when unset or empty */
bool qn_env_on(qn_env which);         /* set to something other than 0, off, no, false */
void qn_env_print(FILE *out);

#ifdef __cplusplus
}
#endif
#endif
