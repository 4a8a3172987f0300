/* The half of the cache that knows SQLite, behind functions that know nothing of counters, kinds or warnings. A build without SQLite has a store that says
 * so at opening. Calls are serialised by the cache. */
#ifndef QUERN_CACHE_STORE_H
#define QUERN_CACHE_STORE_H

#include "quern/cache.h"

typedef struct qn_store qn_store;

typedef enum qn_store_result {
  QN_STORE_OK,
  QN_STORE_MISS,
  QN_STORE_BAD_ENTRY, /* the checksum does not match; the entry has been deleted */
  QN_STORE_BAD_FILE,  /* damaged, or not ours */
  QN_STORE_REFUSED,   /* busy, full, read-only: the file may be fine */
  QN_STORE_NO_MEMORY
} qn_store_result;

enum { QN_STORE_REASON = 256 };
/* Makes the file and its tables where they are missing. `reason` says what is wrong with any result but OK. */
qn_store_result qn_store_open(const char *path, qn_store **out_store, char reason[QN_STORE_REASON]);
void qn_store_close(qn_store *s);
/* Moves a damaged file to <path>.damaged, one process at a time. *out_whole: it was whole after all, for another process has begun a new one. False: it
 * could not be moved. */
bool qn_store_move_aside(const char *path, bool *out_whole);

qn_store_result qn_store_get(qn_store *s, const char *kind, qn_digest key, qn_bytes *out_data);
/* Stores the entry and deletes the least recently used ones until at most `limit` bytes of data are left; *out_evicted counts them. */
qn_store_result qn_store_put(qn_store *s, const char *kind, qn_digest key, const void *data, size_t size,
                             uint64_t limit, uint64_t *out_evicted);
qn_store_result qn_store_count(qn_store *s, qn_cache_stats *out_stats); /* entries, bytes and those of the kinds */
qn_store_result qn_store_verify(qn_store *s, uint64_t *out_checked, uint64_t *out_bad);
qn_store_result qn_store_clear(qn_store *s, const char *kind);

#endif
