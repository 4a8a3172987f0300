/* quern bench: rows of bench/rows.c on one device or all, each checked before it is timed. */
#include <stdlib.h>
#include <string.h>

#include "bench/rows.h"
#include "command.h"
#include "quern/drivers.h"

enum { BENCH_ROWS = 64 };

typedef struct session {
  const bench_row *rows;
  size_t count;
  bool wanted[BENCH_ROWS];
  bool quick, json;
  int code;
  qn_cache *cache;
  qn_text out;
} session;

typedef struct limits {
  bench_result peak, triad;
} limits;

/* ---- which rows ---- */

static int bad_name(const session *s, const char *name, size_t length) {
  qn_text there = {0};
  for (size_t i = 0; i < s->count; i++)
    qn_text_add(&there, "%s%s", i ? ", " : "", s->rows[i].name);
  int code = qn_cli_usage("bench --only: there is no row '%.*s'; there are: %s", (int)length, name,
                          there.buf ? there.buf : "");
  qn_text_free(&there);
  return code;
}

static int select_rows(session *s, const char *names) {
  s->rows = bench_rows(&s->count);
  for (size_t i = 0; i < s->count; i++)
    s->wanted[i] = !names;
  while (names) {
    size_t length = strcspn(names, ","), i = 0;
    while (i < s->count && (strlen(s->rows[i].name) != length || strncmp(s->rows[i].name, names, length) != 0))
      i++;
    if (i == s->count)
      return bad_name(s, names, length);
    s->wanted[i] = true;
    names = names[length] ? names + length + 1 : NULL;
  }
  return CLI_OK;
}

/* ---- output ---- */

static const char *share_of(const limits *l, const bench_row *row, const bench_result *r, const char *none, char *room,
                            size_t size) {
  double most = row->unit == BENCH_GFLOPS ? l->peak.max : row->unit == BENCH_GBS ? l->triad.max : 0;
  if (!r->correct || most <= 0)
    return none;
  (void)snprintf(room, size, "%.4f", r->max / most);
  return room;
}

static void add_row(session *s, const limits *l, const bench_row *row, const bench_result *r, bool first) {
  char share[32];
  if (!s->json) {
    printf("| %s | %s | ", row->name, bench_unit_name(row->unit));
    if (r->correct)
      printf("%.4g | %.4g | %.4g | ", r->min, r->median, r->max);
    else
      fputs("- | - | - | ", stdout);
    printf("%s | %s |\n", share_of(l, row, r, "-", share, sizeof share), r->correct ? "yes" : "NO");
    (void)fflush(stdout);
    return;
  }
  qn_text_add(&s->out, "%s{\"name\":\"%s\",\"unit\":\"%s\",", first ? "" : ",", row->name, bench_unit_name(row->unit));
  if (r->correct)
    qn_text_add(&s->out, "\"min\":%.6g,\"median\":%.6g,\"max\":%.6g,", r->min, r->median, r->max);
  else
    qn_text_puts(&s->out, "\"min\":null,\"median\":null,\"max\":null,");
  qn_text_add(&s->out, "\"of_peak\":%s,\"correct\":%s}", share_of(l, row, r, "null", share, sizeof share),
              r->correct ? "true" : "false");
}

static void add_head(session *s, const qn_device_caps *c) {
  if (!s->json) {
    printf("%s: %s; %s\n\n| row | unit | min | median | max | of peak | correct |\n|---|---|---|---|---|---|---|\n",
           c->id, c->name, c->driver);
    return;
  }
  qn_text_puts(&s->out, "{\"device\":");
  qn_text_json_string(&s->out, c->id);
  qn_text_puts(&s->out, ",\"driver\":");
  qn_text_json_string(&s->out, c->driver);
  qn_text_puts(&s->out, ",\"rows\":[");
}

/* ---- one device ---- */

/* A row that cannot run is a row without figures, and the others go on. */
static void measure(session *s, qn_device *d, const bench_row *row, bench_result *out) {
  if (bench_measure(row, d, s->cache, s->quick, out) != QN_OK) {
    fprintf(stderr, "quern: %s: %s\n", row->name, qn_error_message());
    *out = (bench_result){0};
  } else if (!out->correct) {
    fprintf(stderr, "quern: %s: %s computes something else\n", row->name, qn_device_get_caps(d)->id);
  }
  if (!out->correct)
    s->code = CLI_FAILED;
}

/* Row 0 is the peak, row 1 the triad: what the others are held against, so they are always measured. */
static void run_device(session *s, qn_device *d) {
  limits l;
  bool first = true;
  add_head(s, qn_device_get_caps(d));
  measure(s, d, &s->rows[0], &l.peak);
  measure(s, d, &s->rows[1], &l.triad);
  for (size_t i = 0; i < s->count; i++) {
    bench_result r = i == 0 ? l.peak : l.triad;
    if (!s->wanted[i])
      continue;
    if (i > 1)
      measure(s, d, &s->rows[i], &r);
    add_row(s, &l, &s->rows[i], &r, first);
    first = false;
  }
  if (s->json)
    qn_text_puts(&s->out, "]}");
  else
    puts("");
}

static qn_status run_named(session *s, const char *which) {
  qn_device *d;
  QN_TRY(qn_cli_open(which, "bench", &d));
  run_device(s, d);
  qn_device_release(d);
  return QN_OK;
}

static qn_status run_all(session *s) {
  size_t driver_count, count, done = 0;
  const qn_driver *const *drivers = qn_drivers(&driver_count);
  qn_device_info *infos;
  QN_TRY(qn_devices_list(drivers, driver_count, &infos, &count));
  qn_status st = QN_OK;
  qn_text_puts(&s->out, s->json ? "[" : "");
  for (size_t i = 0; st == QN_OK && i < count; i++) {
    if (!infos[i].usable || strcmp(infos[i].caps.id, "null") == 0)
      continue;
    qn_text_puts(&s->out, s->json && done++ ? "," : "");
    st = run_named(s, infos[i].caps.id);
  }
  qn_text_puts(&s->out, s->json ? "]" : "");
  free(infos);
  return st;
}

static int run(const cli_args *args) {
  session s = {.quick = qn_cli_flag(args, "quick"), .json = qn_cli_flag(args, "json")};
  const char *which = qn_cli_text(args, "device");
  int code = select_rows(&s, qn_cli_text(args, "only"));
  if (code != CLI_OK)
    return code;
  qn_status st = qn_cache_open(NULL, &s.cache);
  if (st == QN_OK)
    st = which && strcmp(which, "all") == 0 ? run_all(&s) : run_named(&s, which);
  if (st == QN_OK)
    st = qn_text_check(&s.out);
  if (st == QN_OK && s.json)
    puts(s.out.buf);
  qn_text_free(&s.out);
  qn_cache_close(s.cache);
  return st != QN_OK ? qn_cli_failure(st) : s.code;
}

const cli_command qn_cli_bench = {
    .name = "bench",
    .operands = "",
    .summary = "measures products, convolutions, memory and training steps, each checked first",
    .options = {{"device", "D", CLI_TEXT, 0, "cpu, opencl[:N|:TEXT], vulkan[:N|:TEXT], or all (default: the best)"},
                {"only", "NAMES", CLI_TEXT, 0, "these rows, separated by commas"},
                {"quick", NULL, CLI_FLAG, 0, "a third of a second for each row instead of two"},
                {"json", NULL, CLI_FLAG, 0, "the same as JSON"}},
    .more = "A row's figures are those of the quantity itself; 'of peak' holds its best against the best of peak_f32 "
            "or triad,\nwhich are measured in the same run.",
    .run = run,
};
