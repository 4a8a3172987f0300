/* quern run: a StableHLO program on arrays from files, its results to a file, to the terminal, or against expected ones. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "quern/check.h"
#include "runner.h"

enum { SHOWN = 12, FEW = 6 };

typedef struct job {
  const cli_args *args;
  const char *program, *compare;
  double rtol, atol;
  qn_graph *g;
  qn_device *device;
  qn_cache *cache;
  cli_arrays in, out, want;
  cli_run_stats stats;
  qn_nan_report nans;
  bool failed;
} job;

/* ---- output ---- */
static void add_values(const qn_safetensor *t, qn_text *out) {
  int64_t n = qn_type_elements(&t->type), shown = n <= SHOWN ? n : FEW;
  for (int64_t i = 0; i < shown; i++) {
    qn_text_puts(out, i ? " " : "");
    qn_cli_element(&t->type, t->data, i, out);
  }
  if (shown < n)
    qn_text_add(out, " ... (%lld elements)", (long long)n);
}

static void print_results(const job *j) {
  qn_text t = {0};
  for (size_t i = 0; i < j->out.count; i++) {
    qn_text_add(&t, "%s %s  ", j->out.items[i].name, qn_type_str(&j->out.items[i].type));
    add_values(&j->out.items[i], &t);
    qn_text_puts(&t, "\n");
  }
  if (t.buf)
    fputs(t.buf, stdout);
  qn_text_free(&t);
}

static const char *device_name(const job *j) { return j->device ? qn_device_get_caps(j->device)->id : "cpu-ref"; }

static void add_difference(const job *j, size_t i, const cli_difference *d, qn_text *out) {
  const qn_safetensor *got = &j->out.items[i];
  qn_text_add(out, "%s %s: %lld of %lld elements differ; worst at ", got->name, qn_type_str(&got->type),
              (long long)d->differ, (long long)d->elements);
  qn_cli_index(&got->type, d->worst, out);
  qn_text_puts(out, ": got ");
  qn_cli_element(&got->type, got->data, d->worst, out);
  qn_text_puts(out, ", want ");
  qn_cli_element(&got->type, j->want.items[i].data, d->worst, out);
  qn_text_add(out, " (rtol %g, atol %g)", j->rtol, j->atol);
}

static void add_result(const job *j, size_t i, const cli_difference *d, qn_text *json) {
  qn_text_add(json, "%s{\"name\":\"%s\",\"type\":\"%s\"", i ? "," : "", j->out.items[i].name,
              qn_type_str(&j->out.items[i].type));
  if (j->compare)
    qn_text_add(json, ",\"differ\":%lld,\"elements\":%lld,\"max_abs\":%.9g,\"max_rel\":%.9g", (long long)d->differ,
                (long long)d->elements, d->most_absolute, d->most_relative);
  qn_text_puts(json, "}");
}

/* Compares, says where it differs, and gathers the report. */
static void judge(job *j, bool as_json, qn_text *json) {
  size_t failed = 0;
  qn_text lines = {0};
  for (size_t i = 0; i < j->out.count; i++) {
    cli_difference d = {0};
    if (j->compare)
      d = qn_cli_compare(&j->out.items[i].type, j->out.items[i].data, j->want.items[i].data, j->rtol, j->atol);
    add_result(j, i, &d, json);
    if (d.differ == 0)
      continue;
    failed++;
    add_difference(j, i, &d, &lines);
    qn_text_puts(&lines, "\n");
  }
  j->failed = failed > 0;
  if (lines.buf)
    fputs(lines.buf, as_json ? stderr : stdout);
  if (j->compare && !as_json)
    printf("%zu of %zu results agree\n", j->out.count - failed, j->out.count);
  qn_text_free(&lines);
}

static void report_nans(job *j, bool as_json, qn_text *json) {
  qn_text line = {0};
  bool checked = qn_cli_flag(j->args, "check-nans");
  if (!checked)
    return;
  j->failed |= j->nans.origin != QN_NAN_NONE;
  qn_nan_report_print(&j->nans, &line);
  qn_text_puts(json, ",\"nans\":");
  if (j->nans.origin == QN_NAN_NONE)
    qn_text_puts(json, "null");
  else
    qn_text_json_string(json, line.buf ? line.buf : "");
  if (line.buf && !as_json)
    puts(line.buf);
  qn_text_free(&line);
}

static void report(job *j) {
  bool as_json = qn_cli_flag(j->args, "json");
  const cli_run_stats *s = &j->stats;
  qn_text json = {0};
  qn_text_puts(&json, "{\"program\":");
  qn_text_json_string(&json, j->program);
  qn_text_puts(&json, ",\"device\":");
  qn_text_json_string(&json, device_name(j));
  qn_text_add(&json, ",\"inputs\":%zu,\"results\":[", j->in.count);
  if (!as_json && !j->compare && !qn_cli_text(j->args, "out"))
    print_results(j);
  judge(j, as_json, &json);
  qn_text_puts(&json, "]");
  report_nans(j, as_json, &json);
  qn_text_add(&json, ",\"passed\":%s,\"launches\":%llu,\"fallbacks\":%llu,\"arena_bytes\":%llu,\"flops\":%.6g,",
              j->failed ? "false" : "true", (unsigned long long)s->launches, (unsigned long long)s->fallbacks,
              (unsigned long long)s->arena, s->flops);
  qn_text_add(&json, "\"compile_seconds\":%.6f,\"seconds\":{\"least\":%.9f,\"median\":%.9f}}", s->compile_seconds,
              s->least, s->median);
  if (as_json)
    puts(json.buf ? json.buf : "");
  else
    printf("%s: %llu launches, fallbacks: %llu, compiled in %.3f s, ran in %.6f s (least %.6f)\n", device_name(j),
           (unsigned long long)s->launches, (unsigned long long)s->fallbacks, s->compile_seconds, s->median, s->least);
  qn_text_free(&json);
}

/* ---- running ---- */
static qn_status load(job *j) {
  qn_bytes text;
  QN_TRY(qn_file_read(j->program, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, j->program, &j->g);
  free(text.data);
  QN_TRY(st);
  QN_TRY(qn_cli_arrays_create(j->g, false, &j->in));
  QN_TRY(qn_cli_arrays_create(j->g, true, &j->out));
  QN_TRY(qn_cli_arrays_create(j->g, true, &j->want));
  size_t position = 0;
  const char *path;
  for (int i = 0; (path = qn_cli_nth(j->args, "in", i)) != NULL; i++)
    QN_TRY(qn_cli_arrays_read(&j->in, path, &position));
  QN_TRY(qn_cli_arrays_complete(&j->in, j->program));
  if (j->compare) {
    position = 0;
    QN_TRY(qn_cli_arrays_read(&j->want, j->compare, &position));
    QN_TRY(qn_cli_arrays_complete(&j->want, j->compare));
  }
  if (qn_cli_text(j->args, "out"))
    QN_TRY(qn_cli_arrays_check_name(&j->out, qn_cli_text(j->args, "out")));
  return qn_cli_arrays_allocate(&j->out);
}

static qn_status check_nans(job *j) {
  const void **in = calloc(j->in.count + 1, sizeof *in);
  if (!in)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a list of inputs");
  for (size_t i = 0; i < j->in.count; i++)
    in[i] = j->in.items[i].data;
  qn_status st = qn_check_nans(j->device, j->cache, j->g, in, &j->nans);
  free(in);
  return st;
}

static qn_status execute(job *j) {
  const char *which = qn_cli_text(j->args, "device"), *out = qn_cli_text(j->args, "out");
  QN_TRY(load(j));
  if (!qn_cli_is_reference(which)) {
    QN_TRY(qn_cli_open(which, "run", &j->device));
    QN_TRY(qn_cache_open(NULL, &j->cache));
  }
  QN_TRY(qn_cli_run_graph(j->device, j->cache, qn_graph_retain(j->g), &j->in, &j->out,
                          (int)qn_cli_number(j->args, "repeat", 1), &j->stats));
  if (qn_cli_flag(j->args, "check-nans"))
    QN_TRY(check_nans(j));
  return out ? qn_cli_arrays_write(&j->out, out) : QN_OK;
}

static int run(const cli_args *args) {
  job j = {
      .args = args, .program = args->operands[0], .compare = qn_cli_text(args, "compare"), .rtol = 1e-4, .atol = 1e-5};
  if (qn_cli_real(args, "rtol", &j.rtol) != CLI_OK || qn_cli_real(args, "atol", &j.atol) != CLI_OK)
    return CLI_USAGE;
  qn_status st = execute(&j);
  if (st == QN_OK)
    report(&j);
  int code = st != QN_OK ? qn_cli_failure(st) : j.failed ? CLI_FAILED : CLI_OK;
  qn_cli_arrays_free(&j.in);
  qn_cli_arrays_free(&j.out);
  qn_cli_arrays_free(&j.want);
  qn_cache_close(j.cache);
  qn_device_release(j.device);
  qn_graph_release(j.g);
  return code;
}

const cli_command qn_cli_run = {
    .name = "run",
    .operands = "P.mlir",
    .summary = "runs a StableHLO program on arrays from files",
    .least_operands = 1,
    .most_operands = 1,
    .options =
        {
            {"in", "F", CLI_TEXT, 0,
             "inputs: a .npy (repeat it, in order), or a .npz or .safetensors with in0, in1 ..."},
            {"out", "F", CLI_TEXT, 0, "results: .npy (one result), .npz or .safetensors with out0, out1 ..."},
            {"compare", "F", CLI_TEXT, 0, "expected results; ends with 1 if one differs"},
            {"rtol", "R", CLI_TEXT, 0, "relative tolerance (default 1e-4); integers and bools must be equal"},
            {"atol", "A", CLI_TEXT, 0, "absolute tolerance (default 1e-5)"},
            {"device", "D", CLI_TEXT, 0, "as 'quern devices' names it, or cpu-ref, the reference interpreter"},
            {"repeat", "N", CLI_NUMBER, 1, "runs that often and says the least and the median time"},
            {"check-nans", NULL, CLI_FLAG, 0,
             "names the operation that made the first NaN of a result; ends with 1 then"},
            {"json", NULL, CLI_FLAG, 0, "the report as JSON"},
        },
    .more =
        "P.mlir is StableHLO text as jax.jit(f).lower(...).as_text() prints it. Complex arrays in safetensors files "
        "are two, NAME.re and NAME.im.",
    .run = run,
};
