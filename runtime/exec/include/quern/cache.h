/* The kernel cache: compiled kernels and tuning records by digest, in one SQLite file that many processes may use at once.
 *
 * A cache is expendable: whatever is wrong with it costs time, never a result. Where it cannot work (folder not writable, QN_CACHE=off, a build without
 * SQLite) it is off: gets miss, puts do nothing, and qn_cache_reason says why. A damaged or foreign file is moved aside (".damaged") and a new
 * one begun, with one line on stderr. Every entry carries a checksum; one that doesn't match is deleted and counts as missing.
 * All functions accept a NULL cache, which is off, and may be called from any thread; a cache isn't carried over a fork. */
#ifndef QUERN_CACHE_H
#define QUERN_CACHE_H

#include "quern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QN_CACHE_KINDS = 16, QN_CACHE_KIND_ROOM = 32 };
#define QN_CACHE_LIMIT_DEFAULT (UINT64_C(256) << 20)

typedef struct qn_cache qn_cache;
/* path NULL: kernels.db in qn_cache_dir(), which is made. Fails only for lack of memory; everything else gives a cache that is off. */
qn_status qn_cache_open(const char *path, qn_cache **out_cache);
void qn_cache_close(qn_cache *c);
bool qn_cache_is_on(const qn_cache *c);
const char *qn_cache_reason(qn_cache *c);     /* why it is off, or "" */
const char *qn_cache_path(const qn_cache *c); /* "" when there is none */
/* Bytes of data kept; the least recently used go first. An entry beyond the limit is not stored. */
void qn_cache_set_limit(qn_cache *c, uint64_t bytes);

/* `kind` is a short word: "binary", "object", "tuning". *out_data is malloc'd; data NULL and size 0 is a miss (an empty entry has data). QN_OUT_OF_MEMORY
 * is the only failure of a get. A put that did not work is no failure either: it is counted, and the cache may be off afterwards. */
qn_status qn_cache_get(qn_cache *c, const char *kind, qn_digest key, qn_bytes *out_data);
qn_status qn_cache_put(qn_cache *c, const char *kind, qn_digest key, const void *data, size_t size);

/* Entries and bytes are the file's; hits, misses, damaged and refused are this cache object's since it was opened. */
typedef struct qn_cache_kind {
  char kind[QN_CACHE_KIND_ROOM];
  uint64_t entries, bytes, hits, misses;
} qn_cache_kind;
typedef struct qn_cache_stats {
  uint64_t entries, bytes, limit, hits, misses, puts, damaged, refused, evicted;
  qn_cache_kind kinds[QN_CACHE_KINDS];
  size_t kind_count;
} qn_cache_stats;
qn_status qn_cache_get_stats(qn_cache *c, qn_cache_stats *out_stats);
/* Checks every entry's checksum and the file's structure; bad entries are deleted. A broken structure begins a new file; *out_bad counts it as one. */
qn_status qn_cache_verify(qn_cache *c, uint64_t *out_checked, uint64_t *out_bad);
qn_status qn_cache_clear(qn_cache *c, const char *kind); /* kind NULL: everything */

#ifdef __cplusplus
}
#endif
#endif
