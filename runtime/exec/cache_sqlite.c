/* The cache's file: one table in a SQLite database in write-ahead mode. Nothing is flushed to disk, for a cache that a power failure ruins is found out by its
 * checksums and begun anew. */
#include "cache_store.h"

#include <stdlib.h>
#include <string.h>

#ifdef QN_HAVE_SQLITE

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

enum { APPLICATION = 0x51726e63, SCHEMA = 1, BUSY_MS = 5000, PATH_ROOM = 4200 };

typedef enum statement { GET, TOUCH, DROP, PUT, SUM, OLDEST, KINDS, ALL, CLEAR, STATEMENTS } statement;

static const char *const texts[STATEMENTS] = {
    [GET] = "SELECT id, data, sum FROM entry WHERE kind = ?1 AND key = ?2",
    [TOUCH] = "UPDATE entry SET used = ?2 WHERE id = ?1",
    [DROP] = "DELETE FROM entry WHERE id = ?1",
    [PUT] = "INSERT OR REPLACE INTO entry (kind, key, size, used, sum, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [SUM] = "SELECT COALESCE(SUM(size), 0) FROM entry",
    [OLDEST] = "SELECT id, size FROM entry ORDER BY used LIMIT 1",
    [KINDS] = "SELECT kind, COUNT(*), SUM(size) FROM entry GROUP BY kind ORDER BY kind",
    [ALL] = "SELECT id, data, sum, kind, key FROM entry",
    [CLEAR] = "DELETE FROM entry WHERE ?1 IS NULL OR kind = ?1"};

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL, "
    "size INTEGER NOT NULL, used INTEGER NOT NULL, sum BLOB NOT NULL, data BLOB NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS entry_key ON entry (kind, key);"
    "CREATE INDEX IF NOT EXISTS entry_used ON entry (used, size);";

struct qn_store {
  sqlite3 *db;
  sqlite3_stmt *statements[STATEMENTS];
};

/* ---- results ---- */

static qn_store_result result_of(int code) {
  switch (code & 0xff) {
  case SQLITE_OK:
  case SQLITE_ROW:
  case SQLITE_DONE:
    return QN_STORE_OK;
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_ERROR: /* a table is not what it should be */
  case SQLITE_CONSTRAINT:
  case SQLITE_MISMATCH:
    return QN_STORE_BAD_FILE;
  case SQLITE_NOMEM:
    return QN_STORE_NO_MEMORY;
  default:
    return QN_STORE_REFUSED;
  }
}

static int64_t now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static qn_digest checksum(const char *kind, const void *key, const void *data, size_t size) {
  struct {
    qn_digest key, data;
    uint64_t size;
    char kind[QN_CACHE_KIND_ROOM];
  } all;
  memset(&all, 0, sizeof all);
  memcpy(&all.key, key, sizeof all.key);
  all.data = qn_digest_bytes(data ? data : "", size);
  all.size = size;
  (void)snprintf(all.kind, sizeof all.kind, "%s", kind);
  return qn_digest_bytes(&all, sizeof all);
}

/* ---- statements ---- */

static int use(qn_store *s, statement which, sqlite3_stmt **out) {
  if (!s->statements[which]) {
    int code = sqlite3_prepare_v3(s->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, &s->statements[which], NULL);
    if (code != SQLITE_OK)
      return code;
  }
  *out = s->statements[which];
  return SQLITE_OK;
}

static void finish(sqlite3_stmt *q) {
  (void)sqlite3_reset(q);
  (void)sqlite3_clear_bindings(q);
}

/* Runs a statement that returns no rows, with up to two integers. */
static int run(qn_store *s, statement which, sqlite3_int64 a, sqlite3_int64 b) {
  sqlite3_stmt *q;
  int code = use(s, which, &q);
  if (code != SQLITE_OK)
    return code;
  (void)sqlite3_bind_int64(q, 1, a);
  if (sqlite3_bind_parameter_count(q) > 1)
    (void)sqlite3_bind_int64(q, 2, b);
  code = sqlite3_step(q);
  finish(q);
  return code;
}

static int execute(sqlite3 *db, const char *text) { return sqlite3_exec(db, text, NULL, NULL, NULL); }

/* The number that a query or pragma answers with. */
static int ask(sqlite3 *db, const char *text, sqlite3_int64 *out_value) {
  sqlite3_stmt *q = NULL;
  *out_value = 0;
  int code = sqlite3_prepare_v2(db, text, -1, &q, NULL);
  if (code == SQLITE_OK) {
    code = sqlite3_step(q);
    if (code == SQLITE_ROW)
      *out_value = sqlite3_column_int64(q, 0);
  }
  int end = sqlite3_finalize(q);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : end != SQLITE_OK ? end : code;
}

/* ---- opening ---- */

/* A file that is not empty has to be ours. */
static int check_owner(sqlite3 *db, bool *out_fresh, char reason[QN_STORE_REASON]) {
  sqlite3_int64 application, version, tables;
  int code = ask(db, "PRAGMA application_id", &application);
  if (code == SQLITE_OK)
    code = ask(db, "PRAGMA user_version", &version);
  if (code == SQLITE_OK)
    code = ask(db, "SELECT COUNT(*) FROM sqlite_master", &tables);
  if (code != SQLITE_OK)
    return code;
  *out_fresh = application == 0 && version == 0 && tables == 0;
  if (*out_fresh || (application == APPLICATION && version == SCHEMA))
    return SQLITE_OK;
  (void)snprintf(reason, QN_STORE_REASON, "%s",
                 application == APPLICATION ? "another version of the cache" : "not a kernel cache");
  return SQLITE_NOTADB;
}

/* Two processes may begin the file at once; whoever gets the lock second finds it made. */
static int make_tables(sqlite3 *db, char reason[QN_STORE_REASON]) {
  bool fresh = false;
  int code = execute(db, "BEGIN IMMEDIATE");
  if (code != SQLITE_OK)
    return code;
  code = check_owner(db, &fresh, reason);
  if (code == SQLITE_OK && fresh) {
    char numbers[96];
    (void)snprintf(numbers, sizeof numbers, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION,
                   SCHEMA);
    code = execute(db, schema);
    if (code == SQLITE_OK)
      code = execute(db, numbers);
  }
  if (code == SQLITE_OK)
    code = execute(db, "COMMIT");
  if (code != SQLITE_OK)
    (void)execute(db, "ROLLBACK");
  return code;
}

static int prepare(sqlite3 *db, char reason[QN_STORE_REASON]) {
  bool fresh = false;
  (void)sqlite3_extended_result_codes(db, 1);
  (void)sqlite3_busy_timeout(db, BUSY_MS);
  int code = check_owner(db, &fresh, reason);
  if (code == SQLITE_OK && sqlite3_db_readonly(db, "main") == 1) {
    (void)snprintf(reason, QN_STORE_REASON, "the file is read-only");
    return SQLITE_READONLY;
  }
  if (code == SQLITE_OK && fresh)
    code = execute(db, "PRAGMA auto_vacuum = INCREMENTAL");
  if (code == SQLITE_OK)
    code = execute(db, "PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL");
  if (code == SQLITE_OK && fresh)
    code = make_tables(db, reason);
  sqlite3_int64 count;
  if (code == SQLITE_OK) /* the table is there and has its columns */
    code = ask(db, "SELECT COUNT(*) FROM (SELECT id, kind, key, size, used, sum, data FROM entry LIMIT 1)", &count);
  return code;
}

static bool is_busy(int code) { return (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED; }

static int open_once(const char *path, sqlite3 **out_db, char reason[QN_STORE_REASON]) {
  sqlite3 *db = NULL;
  reason[0] = 0;
  int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
  if (code == SQLITE_OK)
    code = prepare(db, reason);
  if (code != SQLITE_OK && !reason[0])
    (void)snprintf(reason, QN_STORE_REASON, "%s", db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
  if (code != SQLITE_OK) {
    (void)sqlite3_close(db);
    db = NULL;
  }
  *out_db = db;
  return code;
}

static void doze(void) { (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); }

/* A lock on a file beside the database: shared while it is opened, exclusive while it is moved, so that nobody makes new files between the moving of the
 * database and that of its journal. -1 when it cannot be had in time; then it has to go without. */
static int lock_beside(const char *path, short type) {
  char name[PATH_ROOM];
  (void)snprintf(name, sizeof name, "%s.lock", path);
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  struct flock all = {.l_type = type, .l_whence = SEEK_SET};
  uint64_t until = qn_time_ns() + BUSY_MS * UINT64_C(1000000);
  while (fd >= 0 && fcntl(fd, F_SETLK, &all) != 0) {
    if (qn_time_ns() < until) {
      doze();
      continue;
    }
    (void)close(fd);
    fd = -1;
  }
  return fd;
}

static void unlock(int fd) {
  if (fd >= 0)
    (void)close(fd);
}

qn_store_result qn_store_open(const char *path, qn_store **out_store, char reason[QN_STORE_REASON]) {
  *out_store = NULL;
  qn_store *s = calloc(1, sizeof *s);
  if (!s) {
    (void)snprintf(reason, QN_STORE_REASON, "no memory");
    return QN_STORE_NO_MEMORY;
  }
  /* Switching the journal's mode does not wait for other processes by itself. */
  uint64_t until = qn_time_ns() + BUSY_MS * UINT64_C(1000000);
  int lock = lock_beside(path, F_RDLCK);
  int code = open_once(path, &s->db, reason);
  while (is_busy(code) && qn_time_ns() < until) {
    doze();
    code = open_once(path, &s->db, reason);
  }
  unlock(lock);
  if (code != SQLITE_OK) {
    free(s);
    return result_of(code);
  }
  *out_store = s;
  return QN_STORE_OK;
}

void qn_store_close(qn_store *s) {
  if (!s)
    return;
  for (int i = 0; i < STATEMENTS; i++)
    (void)sqlite3_finalize(s->statements[i]);
  (void)sqlite3_close(s->db);
  free(s);
}

static bool sound(sqlite3 *db, int *out_code) {
  sqlite3_stmt *q = NULL;
  bool ok = false;
  *out_code = sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &q, NULL);
  if (*out_code == SQLITE_OK)
    *out_code = sqlite3_step(q);
  if (*out_code == SQLITE_ROW) {
    const char *verdict = (const char *)sqlite3_column_text(q, 0);
    ok = verdict && strcmp(verdict, "ok") == 0;
  }
  (void)sqlite3_finalize(q);
  return ok;
}

static bool whole(const char *path) {
  char reason[QN_STORE_REASON];
  sqlite3 *db = NULL;
  int code;
  bool ok = open_once(path, &db, reason) == SQLITE_OK && sound(db, &code);
  (void)sqlite3_close(db);
  return ok;
}

bool qn_store_move_aside(const char *path, bool *out_whole) {
  static const char *const beside[] = {"-wal", "-shm", "-journal"};
  char name[PATH_ROOM];
  int lock = lock_beside(path, F_WRLCK);
  bool done = true;
  *out_whole = whole(path);
  if (!*out_whole) {
    (void)snprintf(name, sizeof name, "%s.damaged", path);
    done = rename(path, name) == 0 || errno == ENOENT;
    for (size_t i = 0; done && i < sizeof beside / sizeof *beside; i++) {
      (void)snprintf(name, sizeof name, "%s%s", path, beside[i]);
      (void)unlink(name);
    }
  }
  unlock(lock);
  return done;
}

/* ---- entries ---- */

/* Takes the row's data over if its checksum is right. */
static qn_store_result take(sqlite3_stmt *q, const char *kind, const void *key, qn_bytes *out_data) {
  const void *data = sqlite3_column_blob(q, 1);
  size_t size = (size_t)sqlite3_column_bytes(q, 1);
  const void *sum = sqlite3_column_blob(q, 2);
  bool summed = sum && sqlite3_column_bytes(q, 2) == (int)sizeof(qn_digest);
  qn_digest right = checksum(kind, key, data, size);
  if (!summed || memcmp(sum, &right, sizeof right) != 0)
    return QN_STORE_BAD_ENTRY;
  if (!out_data)
    return QN_STORE_OK;
  out_data->data = malloc(size + 1);
  if (!out_data->data)
    return QN_STORE_NO_MEMORY;
  if (size)
    memcpy(out_data->data, data, size);
  out_data->data[size] = 0;
  out_data->size = size;
  return QN_STORE_OK;
}

qn_store_result qn_store_get(qn_store *s, const char *kind, qn_digest key, qn_bytes *out_data) {
  sqlite3_stmt *q;
  int code = use(s, GET, &q);
  if (code != SQLITE_OK)
    return result_of(code);
  (void)sqlite3_bind_text(q, 1, kind, -1, SQLITE_STATIC);
  (void)sqlite3_bind_blob(q, 2, &key, sizeof key, SQLITE_STATIC);
  code = sqlite3_step(q);
  qn_store_result r = code == SQLITE_DONE ? QN_STORE_MISS : result_of(code);
  sqlite3_int64 id = 0;
  if (code == SQLITE_ROW) {
    id = sqlite3_column_int64(q, 0);
    r = take(q, kind, &key, out_data);
  }
  finish(q);
  /* The order of use is a nicety: if it cannot be written now, so be it. */
  if (r == QN_STORE_OK)
    (void)run(s, TOUCH, id, now());
  else if (r == QN_STORE_BAD_ENTRY)
    (void)run(s, DROP, id, 0);
  return r;
}

static int insert(qn_store *s, const char *kind, const qn_digest *key, const void *data, size_t size) {
  sqlite3_stmt *q;
  qn_digest sum = checksum(kind, key, data, size);
  int code = use(s, PUT, &q);
  if (code != SQLITE_OK)
    return code;
  (void)sqlite3_bind_text(q, 1, kind, -1, SQLITE_STATIC);
  (void)sqlite3_bind_blob(q, 2, key, sizeof *key, SQLITE_STATIC);
  (void)sqlite3_bind_int64(q, 3, (sqlite3_int64)size);
  (void)sqlite3_bind_int64(q, 4, now());
  (void)sqlite3_bind_blob(q, 5, &sum, sizeof sum, SQLITE_STATIC);
  code = sqlite3_bind_blob64(q, 6, size ? data : "", size, SQLITE_STATIC);
  if (code == SQLITE_OK)
    code = sqlite3_step(q);
  finish(q);
  return code;
}

/* The first row of a query of one or two numbers. */
static int first_row(qn_store *s, statement which, sqlite3_int64 out[2]) {
  sqlite3_stmt *q;
  int code = use(s, which, &q);
  out[0] = out[1] = 0;
  if (code != SQLITE_OK)
    return code;
  code = sqlite3_step(q);
  for (int i = 0; code == SQLITE_ROW && i < 2 && i < sqlite3_column_count(q); i++)
    out[i] = sqlite3_column_int64(q, i);
  finish(q);
  return code;
}

static int evict(qn_store *s, uint64_t limit, uint64_t *out_evicted) {
  sqlite3_int64 row[2];
  int code = first_row(s, SUM, row);
  sqlite3_int64 total = row[0];
  while (code == SQLITE_ROW && total > 0 && (uint64_t)total > limit) {
    code = first_row(s, OLDEST, row);
    if (code != SQLITE_ROW)
      break;
    int dropped = run(s, DROP, row[0], 0);
    if (dropped != SQLITE_DONE)
      return dropped;
    total -= row[1];
    ++*out_evicted;
  }
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

qn_store_result qn_store_put(qn_store *s, const char *kind, qn_digest key, const void *data, size_t size,
                             uint64_t limit, uint64_t *out_evicted) {
  *out_evicted = 0;
  int code = execute(s->db, "BEGIN IMMEDIATE");
  if (code != SQLITE_OK)
    return result_of(code);
  code = insert(s, kind, &key, data, size);
  if (code == SQLITE_DONE)
    code = evict(s, limit, out_evicted);
  if (code == SQLITE_OK)
    code = execute(s->db, "COMMIT");
  if (code != SQLITE_OK) {
    (void)execute(s->db, "ROLLBACK");
    *out_evicted = 0;
  } else if (*out_evicted) {
    (void)execute(s->db, "PRAGMA incremental_vacuum");
  }
  return result_of(code);
}

qn_store_result qn_store_count(qn_store *s, qn_cache_stats *out_stats) {
  sqlite3_stmt *q;
  int code = use(s, KINDS, &q);
  if (code != SQLITE_OK)
    return result_of(code);
  while ((code = sqlite3_step(q)) == SQLITE_ROW) {
    const char *kind = (const char *)sqlite3_column_text(q, 0);
    uint64_t entries = (uint64_t)sqlite3_column_int64(q, 1), bytes = (uint64_t)sqlite3_column_int64(q, 2);
    out_stats->entries += entries;
    out_stats->bytes += bytes;
    if (out_stats->kind_count == QN_CACHE_KINDS)
      continue;
    qn_cache_kind *row = &out_stats->kinds[out_stats->kind_count++];
    *row = (qn_cache_kind){.entries = entries, .bytes = bytes};
    (void)snprintf(row->kind, sizeof row->kind, "%s", kind ? kind : "");
  }
  finish(q);
  return result_of(code);
}

/* ---- the whole ---- */

typedef struct ids {
  sqlite3_int64 *data;
  size_t count, capacity;
} ids;

static qn_store_result find_bad(qn_store *s, ids *bad, uint64_t *out_checked) {
  sqlite3_stmt *q;
  int code = use(s, ALL, &q);
  if (code != SQLITE_OK)
    return result_of(code);
  qn_store_result r = QN_STORE_OK;
  while (r == QN_STORE_OK && (code = sqlite3_step(q)) == SQLITE_ROW) {
    const char *kind = (const char *)sqlite3_column_text(q, 3);
    const void *key = sqlite3_column_blob(q, 4);
    bool keyed = kind && key && sqlite3_column_bytes(q, 4) == (int)sizeof(qn_digest);
    ++*out_checked;
    if (keyed && take(q, kind, key, NULL) == QN_STORE_OK)
      continue;
    if (QN_RESERVE(bad->data, bad->capacity, bad->count + 1))
      bad->data[bad->count++] = sqlite3_column_int64(q, 0);
    else
      r = QN_STORE_NO_MEMORY;
  }
  finish(q);
  return r == QN_STORE_OK ? result_of(code) : r;
}

qn_store_result qn_store_verify(qn_store *s, uint64_t *out_checked, uint64_t *out_bad) {
  int code;
  ids bad = {0};
  if (!sound(s->db, &code))
    return code == SQLITE_ROW ? QN_STORE_BAD_FILE : result_of(code);
  qn_store_result r = find_bad(s, &bad, out_checked);
  for (size_t i = 0; i < bad.count; i++)
    (void)run(s, DROP, bad.data[i], 0);
  *out_bad = bad.count;
  free(bad.data);
  return r;
}

qn_store_result qn_store_clear(qn_store *s, const char *kind) {
  sqlite3_stmt *q;
  int code = use(s, CLEAR, &q);
  if (code != SQLITE_OK)
    return result_of(code);
  if (kind)
    (void)sqlite3_bind_text(q, 1, kind, -1, SQLITE_STATIC);
  code = sqlite3_step(q);
  finish(q);
  if (code == SQLITE_DONE)
    (void)execute(s->db, "PRAGMA incremental_vacuum");
  return result_of(code);
}

#else /* an interface that is always off */

qn_store_result qn_store_open(const char *path, qn_store **out_store, char reason[QN_STORE_REASON]) {
  (void)path;
  *out_store = NULL;
  (void)snprintf(reason, QN_STORE_REASON, "built without SQLite");
  return QN_STORE_REFUSED;
}
void qn_store_close(qn_store *s) { (void)s; }
bool qn_store_move_aside(const char *path, bool *out_whole) {
  (void)path;
  *out_whole = false;
  return false;
}
qn_store_result qn_store_get(qn_store *s, const char *kind, qn_digest key, qn_bytes *out_data) {
  (void)s;
  (void)kind;
  (void)key;
  (void)out_data;
  return QN_STORE_MISS;
}
qn_store_result qn_store_put(qn_store *s, const char *kind, qn_digest key, const void *data, size_t size,
                             uint64_t limit, uint64_t *out_evicted) {
  (void)s;
  (void)kind;
  (void)key;
  (void)data;
  (void)size;
  (void)limit;
  *out_evicted = 0;
  return QN_STORE_REFUSED;
}
qn_store_result qn_store_count(qn_store *s, qn_cache_stats *out_stats) {
  (void)s;
  (void)out_stats;
  return QN_STORE_OK;
}
qn_store_result qn_store_verify(qn_store *s, uint64_t *out_checked, uint64_t *out_bad) {
  (void)s;
  (void)out_checked;
  (void)out_bad;
  return QN_STORE_OK;
}
qn_store_result qn_store_clear(qn_store *s, const char *kind) {
  (void)s;
  (void)kind;
  return QN_STORE_OK;
}

#endif
