/* The kernel cache as others see it: never in the way. Counts hits and misses, and when the file turns out to be damaged moves it aside and begins anew,
 * once with a warning; when that fails, too, the cache is off for the rest of its life. */
#include "cache_store.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_ROOM = 4096 };

struct qn_cache {
  qn_mutex mutex;
  qn_store *store; /* NULL: off */
  char *path;
  char reason[QN_STORE_REASON];
  uint64_t limit;
  qn_cache_stats counts; /* hits, misses and so on; entries and bytes are asked for when wanted */
};

/* ---- opening ---- */

static void switch_off(qn_cache *c, const char *reason) {
  qn_store_close(c->store);
  c->store = NULL;
  (void)snprintf(c->reason, sizeof c->reason, "%s", reason);
}

/* One line on stderr, unless another process was here first. */
static qn_store_result repair(qn_cache *c, const char *why, char reason[QN_STORE_REASON]) {
  bool whole = false;
  bool moved = qn_store_move_aside(c->path, &whole);
  if (!moved) {
    (void)fprintf(stderr, "quern: the kernel cache %s is damaged (%s) and cannot be moved aside; going on without\n",
                  c->path, why);
    return QN_STORE_BAD_FILE;
  }
  if (!whole) {
    (void)fprintf(stderr, "quern: the kernel cache %s is damaged (%s); moved to %s.damaged, a new one is begun\n",
                  c->path, why, c->path);
    c->counts.damaged++;
  }
  return qn_store_open(c->path, &c->store, reason);
}

static bool open_store(qn_cache *c) {
  char reason[QN_STORE_REASON] = "", again[QN_STORE_REASON] = "";
  qn_store_result r = qn_store_open(c->path, &c->store, reason);
  if (r == QN_STORE_BAD_FILE)
    r = repair(c, reason, again);
  if (r != QN_STORE_OK)
    switch_off(c, again[0] ? again : reason);
  return r == QN_STORE_OK;
}

/* The file broke under us. It may look whole at opening all the same, so it is examined first. */
static void reopen(qn_cache *c) {
  char reason[QN_STORE_REASON] = "it broke while in use";
  qn_store_close(c->store);
  c->store = NULL;
  if (repair(c, "found in use", reason) != QN_STORE_OK)
    switch_off(c, reason);
}

static bool choose_path(qn_cache *c, const char *path) {
  char chosen[PATH_ROOM];
  if (path) {
    (void)snprintf(chosen, sizeof chosen, "%s", path);
    if (strlen(path) >= sizeof chosen) {
      switch_off(c, "the path is too long");
      return false;
    }
  } else {
    char folder[PATH_ROOM - 16];
    if (qn_cache_dir(folder, sizeof folder) != QN_OK || qn_dir_make(folder) != QN_OK) {
      switch_off(c, qn_error_message());
      return false;
    }
    (void)snprintf(chosen, sizeof chosen, "%s/kernels.db", folder);
  }
  c->path = malloc(strlen(chosen) + 1);
  if (!c->path) {
    switch_off(c, "no memory");
    return false;
  }
  memcpy(c->path, chosen, strlen(chosen) + 1);
  return true;
}

qn_status qn_cache_open(const char *path, qn_cache **out_cache) {
  *out_cache = NULL;
  qn_cache *c = calloc(1, sizeof *c);
  if (!c)
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel cache: no memory");
  qn_status st = qn_mutex_init(&c->mutex);
  if (st != QN_OK) {
    free(c);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_mutex_init");
  }
  c->limit = QN_CACHE_LIMIT_DEFAULT;
  if (qn_env_get(QN_ENV_CACHE) && !qn_env_on(QN_ENV_CACHE))
    switch_off(c, "QN_CACHE is off");
  else if (choose_path(c, path))
    (void)open_store(c);
  *out_cache = c;
  return QN_OK;
}

void qn_cache_close(qn_cache *c) {
  if (!c)
    return;
  qn_store_close(c->store);
  qn_mutex_destroy(&c->mutex);
  free(c->path);
  free(c);
}

bool qn_cache_is_on(const qn_cache *c) {
  if (!c)
    return false;
  qn_cache *mine = (qn_cache *)(uintptr_t)c; /* the lock is no part of what is asked */
  qn_mutex_lock(&mine->mutex);
  bool on = c->store != NULL;
  qn_mutex_unlock(&mine->mutex);
  return on;
}

const char *qn_cache_reason(qn_cache *c) { return !c ? "no cache" : qn_cache_is_on(c) ? "" : c->reason; }
const char *qn_cache_path(const qn_cache *c) { return c && c->path ? c->path : ""; }

void qn_cache_set_limit(qn_cache *c, uint64_t bytes) {
  if (!c)
    return;
  qn_mutex_lock(&c->mutex);
  c->limit = bytes;
  qn_mutex_unlock(&c->mutex);
}

/* ---- entries ---- */

/* The row of a kind's counters; NULL when there are too many kinds. */
static qn_cache_kind *kind_row(qn_cache_stats *s, const char *kind) {
  for (size_t i = 0; i < s->kind_count; i++)
    if (strcmp(s->kinds[i].kind, kind) == 0)
      return &s->kinds[i];
  if (s->kind_count == QN_CACHE_KINDS)
    return NULL;
  qn_cache_kind *row = &s->kinds[s->kind_count++];
  *row = (qn_cache_kind){0};
  (void)snprintf(row->kind, sizeof row->kind, "%s", kind);
  return row;
}

static qn_status check_kind(const char *kind) {
  if (!kind || !kind[0] || strlen(kind) >= QN_CACHE_KIND_ROOM)
    return QN_ERR(QN_INVALID, "kernel cache: kind \"%s\", expected 1 to %d characters", kind ? kind : "(null)",
                  QN_CACHE_KIND_ROOM - 1);
  return QN_OK;
}

/* What a result means for the cache as a whole; the mutex is held. */
static void settle(qn_cache *c, qn_store_result r) {
  if (r == QN_STORE_BAD_ENTRY)
    c->counts.damaged++;
  else if (r == QN_STORE_REFUSED)
    c->counts.refused++;
  else if (r == QN_STORE_BAD_FILE)
    reopen(c);
}

qn_status qn_cache_get(qn_cache *c, const char *kind, qn_digest key, qn_bytes *out_data) {
  *out_data = (qn_bytes){0};
  QN_TRY(check_kind(kind));
  if (!c)
    return QN_OK;
  qn_store_result r = QN_STORE_MISS;
  qn_mutex_lock(&c->mutex);
  if (c->store) {
    r = qn_store_get(c->store, kind, key, out_data);
    settle(c, r);
  }
  bool hit = r == QN_STORE_OK;
  qn_cache_kind *row = kind_row(&c->counts, kind);
  c->counts.hits += hit;
  c->counts.misses += !hit;
  if (row) {
    row->hits += hit;
    row->misses += !hit;
  }
  qn_mutex_unlock(&c->mutex);
  if (r == QN_STORE_NO_MEMORY)
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel cache: no memory for an entry of kind %s", kind);
  return QN_OK;
}

qn_status qn_cache_put(qn_cache *c, const char *kind, qn_digest key, const void *data, size_t size) {
  QN_TRY(check_kind(kind));
  if (!c)
    return QN_OK;
  if (size && !data)
    return QN_ERR(QN_INVALID, "kernel cache: %zu bytes of kind %s, but no data", size, kind);
  qn_mutex_lock(&c->mutex);
  if (c->store && size > c->limit) {
    c->counts.refused++;
  } else if (c->store) {
    uint64_t evicted = 0;
    qn_store_result r = qn_store_put(c->store, kind, key, data, size, c->limit, &evicted);
    settle(c, r);
    if (r == QN_STORE_BAD_FILE && c->store) /* into the new file */
      r = qn_store_put(c->store, kind, key, data, size, c->limit, &evicted);
    c->counts.puts += r == QN_STORE_OK;
    c->counts.evicted += evicted;
  }
  qn_mutex_unlock(&c->mutex);
  return QN_OK;
}

/* ---- the whole ---- */

qn_status qn_cache_get_stats(qn_cache *c, qn_cache_stats *out_stats) {
  *out_stats = (qn_cache_stats){0};
  if (!c)
    return QN_OK;
  qn_mutex_lock(&c->mutex);
  *out_stats = c->counts;
  out_stats->limit = c->limit;
  if (c->store) {
    qn_cache_stats file = {0};
    settle(c, qn_store_count(c->store, &file));
    out_stats->entries = file.entries;
    out_stats->bytes = file.bytes;
    for (size_t i = 0; i < file.kind_count; i++) {
      qn_cache_kind *row = kind_row(out_stats, file.kinds[i].kind);
      if (row) {
        row->entries = file.kinds[i].entries;
        row->bytes = file.kinds[i].bytes;
      }
    }
  }
  qn_mutex_unlock(&c->mutex);
  return QN_OK;
}

qn_status qn_cache_verify(qn_cache *c, uint64_t *out_checked, uint64_t *out_bad) {
  *out_checked = *out_bad = 0;
  if (!c)
    return QN_OK;
  qn_mutex_lock(&c->mutex);
  qn_store_result r = QN_STORE_OK;
  if (c->store) {
    r = qn_store_verify(c->store, out_checked, out_bad);
    c->counts.damaged += *out_bad;
    if (r == QN_STORE_BAD_FILE)
      ++*out_bad;
    settle(c, r);
  }
  qn_mutex_unlock(&c->mutex);
  if (r == QN_STORE_NO_MEMORY)
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel cache: no memory to verify it");
  if (r == QN_STORE_REFUSED)
    return QN_ERR(QN_IO, "kernel cache %s: it cannot be verified now, somebody else may be writing", qn_cache_path(c));
  return QN_OK;
}

qn_status qn_cache_clear(qn_cache *c, const char *kind) {
  if (!c)
    return QN_OK;
  qn_mutex_lock(&c->mutex);
  qn_store_result r = QN_STORE_OK;
  if (c->store) {
    r = qn_store_clear(c->store, kind);
    settle(c, r);
  }
  qn_mutex_unlock(&c->mutex);
  if (r == QN_STORE_REFUSED)
    return QN_ERR(QN_IO, "kernel cache %s: it cannot be cleared now, somebody else may be writing", qn_cache_path(c));
  return QN_OK;
}
