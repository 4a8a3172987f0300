/* quern replay: recorded suites on devices, with passes and failures per case. */
#include "command.h"

#ifdef QN_HAVE_CJSON
#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "quern/cache.h"
#include "quern/data.h"
#include "quern/drivers.h"
#include "replay/replay.h"

enum { MOST_NAMES = 64 };

typedef struct names {
  char name[MOST_NAMES][64];
  size_t count;
} names;

typedef struct session {
  const char *folder, *pattern, *data;
  bool json, verbose;
  size_t batch, part, parts; /* every parts-th case, from the part-th on */
  names suites, devices;
  qn_cache *cache;
  volatile sig_atomic_t *stop;
  qn_text out;
  bool failed;
} session;

static void add_name(names *n, const char *name, size_t length) {
  if (n->count < MOST_NAMES && length > 0 && length < sizeof n->name[0]) {
    memcpy(n->name[n->count], name, length);
    n->name[n->count++][length] = '\0';
  }
}

static int by_name(const void *a, const void *b) { return strcmp(a, b); }

static qn_status find_suites(session *s, const char *only) {
  DIR *d = opendir(s->folder);
  if (!d)
    return QN_ERR(QN_NOT_FOUND, "replay: there is no folder '%s'", s->folder);
  for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
    size_t n = strlen(e->d_name);
    if (n > 5 && strcmp(e->d_name + n - 5, ".json") == 0)
      add_name(&s->suites, e->d_name, n - 5);
  }
  (void)closedir(d);
  qsort(s->suites.name, s->suites.count, sizeof s->suites.name[0], by_name);
  if (s->suites.count == 0)
    return QN_ERR(QN_NOT_FOUND, "replay: there is no suite (NAME.json with NAME.safetensors) in '%s'", s->folder);
  if (!only)
    return QN_OK;
  qn_text there = {0};
  for (size_t i = 0; i < s->suites.count; i++) {
    if (strcmp(s->suites.name[i], only) == 0) {
      s->suites.count = 0;
      add_name(&s->suites, only, strlen(only));
      qn_text_free(&there);
      return QN_OK;
    }
    qn_text_add(&there, "%s%s", i ? ", " : "", s->suites.name[i]);
  }
  qn_status st = QN_ERR(QN_NOT_FOUND, "replay: there is no suite '%s' in %s; there are: %s", only, s->folder,
                        there.buf ? there.buf : "");
  qn_text_free(&there);
  return st;
}

/* "all": the reference and every usable device but the one on which nothing runs. */
static qn_status find_devices(session *s, const char *which) {
  if (!which || strcmp(which, "all") != 0) {
    add_name(&s->devices, which ? which : "", which ? strlen(which) : 0);
    if (s->devices.count == 0)
      s->devices.count = 1; /* the default */
    return QN_OK;
  }
  size_t driver_count, count;
  const qn_driver *const *drivers = qn_drivers(&driver_count);
  qn_device_info *infos;
  QN_TRY(qn_devices_list(drivers, driver_count, &infos, &count));
  add_name(&s->devices, "cpu-ref", strlen("cpu-ref"));
  for (size_t i = 0; i < count; i++)
    if (infos[i].usable && strcmp(infos[i].caps.id, "null") != 0)
      add_name(&s->devices, infos[i].caps.id, strlen(infos[i].caps.id));
  free(infos);
  return QN_OK;
}

/* ---- output ---- */

static void print_cases(const session *s, const replay_run *r) {
  cli_colors k = qn_cli_colors(stdout);
  size_t not_run = 0;
  const char *reason = "";
  for (size_t i = 0; i < r->suite->case_count; i++) {
    const replay_result *x = &r->results[i];
    if (x->outcome == REPLAY_FAILED && x->why && strncmp(x->why, "not run: ", 9) == 0 && !s->verbose) {
      not_run++;
      reason = x->why;
      continue;
    }
    const char *id = qn_replay_text(r->suite->cases[i], "id"), *why = x->why ? x->why : "";
    if (x->outcome == REPLAY_FAILED)
      printf("  %sFAILED%s  %s: %s\n", k.bad, k.off, id, why);
    else if (x->outcome == REPLAY_SKIPPED && s->verbose)
      printf("  %sskipped%s %s: %s\n", k.dim, k.off, id, why);
    else if (x->outcome == REPLAY_EXCLUDED && s->verbose)
      printf("  %sexcluded%s %s: %s\n", k.dim, k.off, id, why);
    else if (x->outcome == REPLAY_PASSED && s->verbose)
      printf("  %spassed%s  %s\n", k.good, k.off, id);
  }
  if (not_run)
    printf("  %sFAILED%s  %zu cases, %s\n", k.bad, k.off, not_run, reason);
}

static void add_ids(qn_text *t, const char *key, const replay_run *r, replay_outcome outcome, bool with_why) {
  bool first = true;
  qn_text_add(t, ",\"%s\":%s", key, with_why ? "{" : "[");
  for (size_t i = 0; i < r->suite->case_count; i++) {
    if (r->results[i].outcome != outcome)
      continue;
    qn_text_puts(t, first ? "" : ",");
    first = false;
    qn_text_json_string(t, qn_replay_text(r->suite->cases[i], "id"));
    if (with_why) {
      qn_text_puts(t, ":");
      qn_text_json_string(t, r->results[i].why ? r->results[i].why : "");
    }
  }
  qn_text_puts(t, with_why ? "}" : "]");
}

static void add_suite(session *s, const replay_run *r, const replay_totals *n, double seconds) {
  qn_text_puts(&s->out, "{\"name\":");
  qn_text_json_string(&s->out, r->suite->name);
  qn_text_add(&s->out,
              ",\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu,\"excluded\":%zu,\"fallbacks\":%llu,\"seconds\":%.1f",
              n->passed, n->failed, n->skipped, n->excluded, (unsigned long long)r->fallbacks, seconds);
  add_ids(&s->out, "failures", r, REPLAY_FAILED, false);
  if (s->verbose) {
    add_ids(&s->out, "reasons", r, REPLAY_FAILED, true);
    add_ids(&s->out, "skips", r, REPLAY_SKIPPED, true);
  }
  qn_text_puts(&s->out, "}");
}

static void report(session *s, const char *device, const replay_run *r, double seconds) {
  replay_totals n;
  qn_replay_count(r, &n);
  s->failed |= n.failed > 0 || n.refused > 0;
  if (s->json) {
    add_suite(s, r, &n, seconds);
    return;
  }
  cli_colors k = qn_cli_colors(stdout);
  print_cases(s, r);
  printf("%s%-10s %-20s%s %5zu passed %4zu failed %4zu skipped", k.bold, device, r->suite->name, k.off, n.passed,
         n.failed, n.skipped);
  if (n.refused)
    printf(" (%zu of them not allowed)", n.refused);
  if (n.excluded)
    printf(" %4zu excluded", n.excluded);
  printf("  %.1f s\n", seconds);
  (void)fflush(stdout);
}

/* ---- running ---- */

static size_t choose(const session *s, const replay_suite *suite, bool *wanted) {
  size_t count = 0;
  for (size_t i = 0; i < suite->case_count; i++) {
    wanted[i] =
        (!s->pattern || fnmatch(s->pattern, qn_replay_text(suite->cases[i], "id"), 0) == 0) && i % s->parts == s->part;
    count += wanted[i];
  }
  return count;
}

static qn_status run_suite(session *s, const char *name, qn_device *d, const char *label, size_t *out_chosen) {
  replay_suite suite;
  QN_TRY(qn_replay_suite_open(s->folder, name, &suite));
  uint64_t begin = qn_time_ns();
  replay_run r = {.suite = &suite,
                  .device = d,
                  .cache = s->cache,
                  .data = s->data,
                  .deadline_ns = begin + (uint64_t)REPLAY_SECONDS * 1000000000u,
                  .stop = s->stop,
                  .batch = s->batch};
  bool *wanted = calloc(suite.case_count + 1, sizeof *wanted);
  r.results = calloc(suite.case_count + 1, sizeof *r.results);
  r.wanted = wanted;
  qn_status st = QN_OK;
  if (!wanted || !r.results) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "no memory to replay %s", name);
    goto done;
  }
  *out_chosen = choose(s, &suite, wanted);
  if (*out_chosen > 0) {
    if (s->json && s->out.len && s->out.buf[s->out.len - 1] == '}')
      qn_text_puts(&s->out, ",");
    qn_replay_run(&r);
    report(s, label, &r, (double)(qn_time_ns() - begin) * 1e-9);
  }
done:
  for (size_t i = 0; r.results && i < suite.case_count; i++)
    free(r.results[i].why);
  free(r.results);
  free(wanted);
  qn_replay_suite_close(&suite);
  return st;
}

static qn_status run_device(session *s, const char *which, size_t *chosen) {
  qn_device *d = NULL;
  bool reference = qn_cli_is_reference(which);
  qn_status st = QN_OK;
  if (!reference)
    QN_TRY(qn_cli_open(which, "replay", &d));
  const char *label = reference ? "cpu-ref" : qn_device_get_caps(d)->id;
  if (s->json) {
    qn_text_puts(&s->out, "{\"device\":");
    qn_text_json_string(&s->out, label);
    qn_text_puts(&s->out, ",\"suites\":[");
  }
  for (size_t i = 0; i < s->suites.count && st == QN_OK; i++) {
    size_t n = 0;
    st = run_suite(s, s->suites.name[i], d, label, &n);
    *chosen += n;
  }
  if (s->json)
    qn_text_puts(&s->out, "]}");
  qn_device_release(d);
  return st;
}

static qn_status run_all(session *s) {
  size_t chosen = 0;
  bool list = s->devices.count > 1;
  if (list && s->json)
    qn_text_puts(&s->out, "[");
  for (size_t i = 0; i < s->devices.count; i++) {
    if (i && s->json)
      qn_text_puts(&s->out, ",\n");
    QN_TRY(run_device(s, s->devices.name[i], &chosen));
  }
  if (chosen == 0)
    return QN_ERR(QN_NOT_FOUND, "replay: no case is chosen; ids do not match '%s'", s->pattern ? s->pattern : "*");
  if (list && s->json)
    qn_text_puts(&s->out, "]");
  if (s->json && s->out.buf)
    puts(s->out.buf);
  return qn_text_check(&s->out);
}

static qn_status read_part(const char *text, session *s) {
  unsigned part = 1, parts = 1;
  char more;
  if (text && (sscanf(text, "%4u/%4u%c", &part, &parts, &more) != 2 || part < 1 || part > parts))
    return QN_ERR(QN_INVALID, "replay --part: '%s' is no part, as 1/10", text);
  s->part = part - 1;
  s->parts = parts;
  return QN_OK;
}

static int run(const cli_args *args) {
  session *s = calloc(1, sizeof *s);
  if (!s)
    return qn_cli_failure(QN_ERR(QN_OUT_OF_MEMORY, "no memory"));
  s->folder = args->operands[0];
  s->pattern = qn_cli_text(args, "case");
  s->data = qn_cli_text(args, "data") ? qn_cli_text(args, "data") : QN_FASHION_MNIST_DIR;
  s->json = qn_cli_flag(args, "json");
  s->verbose = qn_cli_flag(args, "verbose");
  s->batch = (size_t)qn_cli_number(args, "batch", 0);
  s->stop = qn_cli_catch_interrupt();
  qn_status st = read_part(qn_cli_text(args, "part"), s);
  if (st == QN_OK)
    st = find_suites(s, qn_cli_text(args, "suite"));
  if (st == QN_OK)
    st = find_devices(s, qn_cli_text(args, "device"));
  if (st == QN_OK)
    st = qn_cache_open(NULL, &s->cache);
  if (st == QN_OK)
    st = run_all(s);
  int code = st != QN_OK ? qn_cli_failure(st) : s->failed ? CLI_FAILED : CLI_OK;
  qn_cache_close(s->cache);
  qn_text_free(&s->out);
  free(s);
  return code;
}
#else
static int run(const cli_args *args) {
  (void)args;
  return qn_cli_failure(
      QN_ERR(QN_UNSUPPORTED, "replay: this build has no JSON reader (libcjson-dev), so it reads no suites"));
}
#endif

const cli_command qn_cli_replay = {
    .name = "replay",
    .operands = "DIR",
    .summary = "runs recorded suites on a device and compares the results",
    .least_operands = 1,
    .most_operands = 1,
    .options =
        {
            {"suite", "S", CLI_TEXT, 0, "one suite; default: every NAME.json in DIR"},
            {"case", "GLOB", CLI_TEXT, 0, "cases whose id matches, as 'unary/*'"},
            {"part", "K/N", CLI_TEXT, 0, "every N-th case from the K-th on"},
            {"device", "D", CLI_TEXT, 0, "a device, cpu-ref (the reference interpreter) or all"},
            {"data", "DIR", CLI_TEXT, 0, "folder of the images that training suites name"},
            {"batch", "N", CLI_NUMBER, 1, "cases compiled as one program (most and default: 24; on Vulkan 6)"},
            {"verbose", NULL, CLI_FLAG, 0, "every case, and why it was skipped"},
            {"json", NULL, CLI_FLAG, 0, "counts and failing ids as JSON; with --verbose also reasons"},
        },
    .more = "Ends with 1 when a case failed, or was skipped for a reason that docs/devices.md does not list. A suite "
            "has 600 seconds a device.",
    .run = run,
};
