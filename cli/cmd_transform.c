/* quern transform: derivatives and batches of a StableHLO program, as StableHLO again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "quern/autodiff.h"

enum { MOST_NUMBERS = 1024 };

/* ---- lists of numbers ---- */
typedef struct numbers {
  int list[MOST_NUMBERS];
  size_t count;
} numbers;

/* "0,2", and "-" for none where that is allowed. */
static bool read_numbers(const char *text, bool dashes, numbers *out) {
  out->count = 0;
  for (;;) {
    char *end = NULL;
    errno = 0;
    long x = QN_NO_LANES;
    bool dash = dashes && text[0] == '-' && (text[1] == ',' || text[1] == '\0');
    if (dash)
      end = (char *)(uintptr_t)(text + 1);
    else
      x = strtol(text, &end, 10);
    if (end == text || errno || x < QN_NO_LANES || x > MOST_NUMBERS || out->count == MOST_NUMBERS)
      return false;
    out->list[out->count++] = (int)x;
    if (*end == '\0')
      return true;
    if (*end != ',')
      return false;
    text = end + 1;
  }
}

/* ---- the options ---- */
typedef struct job {
  const cli_args *args;
  qn_graph *g;
} job;

static qn_status wrong(const char *option, const char *text, const char *expected) {
  return QN_ERR(QN_INVALID, "transform --%s: '%.60s' is no %s", option, text, expected);
}

static qn_status apply(job *j, const qn_transform *t) {
  qn_graph *next = NULL;
  QN_TRY(qn_transform_graph(j->g, t, &next));
  qn_graph_release(j->g);
  j->g = next;
  return QN_OK;
}

static qn_status by_argnums(job *j, int i, qn_transform_kind kind) {
  const char *text = j->args->order[i].text;
  numbers n;
  if (!read_numbers(text, false, &n))
    return wrong(qn_cli_given(j->args, i), text, "list of argument numbers such as 0,2");
  for (size_t k = 0; k < n.count; k++)
    if (n.list[k] < 0 || (size_t)n.list[k] >= qn_graph_param_count(j->g))
      return QN_ERR(QN_INVALID, "transform --%s: there is no argument %d, the function has %zu",
                    qn_cli_given(j->args, i), n.list[k], qn_graph_param_count(j->g));
  qn_transform t = {.kind = kind, .argnums = n.list, .argnum_count = n.count};
  return apply(j, &t);
}

static qn_status plainly(job *j, int i, qn_transform_kind kind) {
  (void)i;
  qn_graph *next = NULL;
  if (kind != QN_TRANSFORM_VJP) { /* with the values in front of the gradients */
    qn_transform t = {.kind = kind};
    return apply(j, &t);
  }
  QN_TRY(qn_vjp_graph(j->g, &next));
  qn_graph_release(j->g);
  j->g = next;
  return QN_OK;
}

static qn_status by_lanes(job *j, int i, qn_transform_kind kind) {
  const char *text = j->args->order[i].text;
  size_t count = qn_graph_param_count(j->g);
  numbers n;
  if (!read_numbers(text, true, &n) || count > MOST_NUMBERS)
    return wrong("vmap", text, "axis, or list of axes with - for an argument that all lanes share");
  if (n.count != 1 && n.count != count)
    return QN_ERR(QN_INVALID, "transform --vmap: %zu axes, expected one, or one for each of %zu arguments", n.count,
                  count);
  if (i + 1 >= j->args->order_count || strcmp(qn_cli_given(j->args, i + 1), "size") != 0)
    return QN_ERR(QN_INVALID, "transform --vmap %.60s needs the number of lanes behind it: --size N", text);
  for (size_t k = n.count; k < count; k++)
    n.list[k] = n.list[0];
  qn_transform t = {.kind = kind, .lanes = strtoll(j->args->order[i + 1].text, NULL, 10), .in_axes = n.list};
  return apply(j, &t);
}

static qn_status size_of_lanes(job *j, int i, qn_transform_kind kind) {
  (void)kind;
  if (i > 0 && strcmp(qn_cli_given(j->args, i - 1), "vmap") == 0)
    return QN_OK;
  return QN_ERR(QN_INVALID, "transform --size belongs right behind --vmap");
}

static qn_status nothing(job *j, int i, qn_transform_kind kind) {
  (void)j, (void)i, (void)kind;
  return QN_OK;
}

static const struct {
  const char *option;
  qn_status (*apply)(job *j, int i, qn_transform_kind kind);
  qn_transform_kind kind;
} steps[] = {
    {"grad", by_argnums, QN_TRANSFORM_GRAD},
    {"value-and-grad", by_argnums, QN_TRANSFORM_VALUE_AND_GRAD},
    {"hessian", by_argnums, QN_TRANSFORM_HESSIAN},
    {"jacfwd", by_argnums, QN_TRANSFORM_JACFWD},
    {"jacrev", by_argnums, QN_TRANSFORM_JACREV},
    {"jvp", plainly, QN_TRANSFORM_JVP},
    {"vjp", plainly, QN_TRANSFORM_VJP},
    {"remat", plainly, QN_TRANSFORM_REMAT},
    {"vmap", by_lanes, QN_TRANSFORM_VMAP},
    {"size", size_of_lanes, QN_TRANSFORM_IDENTITY},
    {"o", nothing, QN_TRANSFORM_IDENTITY},
};

static qn_status transform(job *j, const char *path, qn_text *out) {
  qn_bytes text;
  QN_TRY(qn_file_read(path, &text));
  qn_status st = qn_graph_parse((const char *)text.data, text.size, path, &j->g);
  free(text.data);
  QN_TRY(st);
  for (int i = 0; i < j->args->order_count; i++) {
    const char *name = qn_cli_given(j->args, i);
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
      if (strcmp(steps[k].option, name) == 0)
        QN_TRY(steps[k].apply(j, i, steps[k].kind));
  }
  return qn_graph_print_plain(j->g, out);
}

static int run(const cli_args *args) {
  job j = {.args = args};
  qn_text out = {0};
  const char *to = qn_cli_text(args, "o");
  qn_status st = transform(&j, args->operands[0], &out);
  if (st == QN_OK && to)
    st = qn_file_write_atomic(to, out.buf, out.len);
  else if (st == QN_OK)
    fputs(out.buf, stdout);
  qn_text_free(&out);
  qn_graph_release(j.g);
  return st == QN_OK ? CLI_OK : qn_cli_failure(st);
}

const cli_command qn_cli_transform = {
    .name = "transform",
    .operands = "P.mlir",
    .summary = "differentiates or batches a StableHLO program, and prints StableHLO",
    .least_operands = 1,
    .most_operands = 1,
    .options =
        {
            {"grad", "ARGS", CLI_TEXT, 0, "gradients by arguments such as 0,2 of a function with one scalar result"},
            {"value-and-grad", "ARGS", CLI_TEXT, 0, "the value, then the gradients"},
            {"jvp", NULL, CLI_FLAG, 0, "takes also a tangent per float argument; gives values, then tangents"},
            {"vjp", NULL, CLI_FLAG, 0, "takes also a cotangent per float result; gives values, then gradients"},
            {"vmap", "AXES", CLI_TEXT, 0, "a batch: one axis for all arguments, or a list with - for shared ones"},
            {"size", "N", CLI_NUMBER, 0, "behind --vmap: how many lanes; results have them on axis 0"},
            {"hessian", "ARGS", CLI_TEXT, 0, "second derivatives by every pair of ARGS"},
            {"jacfwd", "ARGS", CLI_TEXT, 0, "Jacobians, a pass per argument element"},
            {"jacrev", "ARGS", CLI_TEXT, 0, "Jacobians, a pass per result element"},
            {"remat", NULL, CLI_FLAG, 0, "derivatives taken later compute values again instead of keeping them"},
            {"o", "Q.mlir", CLI_TEXT, 0, "the file to write; default: standard output"},
        },
    .more =
        "Options apply from left to right: --vmap 0 --size 8 --grad 0 differentiates the batch. The result is plain "
        "StableHLO (and chlo), as JAX reads it.",
    .run = run,
};
