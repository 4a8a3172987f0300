/* Arguments by tables: long options with a value behind '=' or as the next word, operands, `--` before operands that begin with a dash. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

static int option_count(const cli_command *c) {
  int n = 0;
  while (n < CLI_OPTIONS && c->options[n].name)
    n++;
  return n;
}

static int find(const cli_command *c, const char *name, size_t length) {
  for (int i = 0; i < option_count(c); i++)
    if (strlen(c->options[i].name) == length && strncmp(c->options[i].name, name, length) == 0)
      return i;
  return -1;
}

/* Options of one letter have one dash. */
static const char *dashes(const cli_option *o) { return o->name[1] ? "--" : "-"; }

static int unknown(const cli_command *c, const char *word) {
  qn_text there = {0};
  for (int i = 0; i < option_count(c); i++)
    qn_text_add(&there, "%s%s, ", dashes(&c->options[i]), c->options[i].name);
  int code = qn_cli_usage("%s has no option '%s'; there are: %s--help", c->name, word, there.buf ? there.buf : "");
  qn_text_free(&there);
  return code;
}

static int set_number(const cli_command *c, const cli_option *o, const char *text, long long *out) {
  char *end = NULL;
  long long most = o->kind == CLI_LONG ? LLONG_MAX : INT_MAX;
  errno = 0;
  *out = strtoll(text, &end, 10);
  bool beyond = errno == ERANGE && *out > 0;
  if (!*text || *end || (errno && !beyond) || *out < o->least)
    return qn_cli_usage("%s --%s: '%s' is no whole number from %lld on", c->name, o->name, text, o->least);
  if (beyond || *out > most)
    return qn_cli_usage("%s --%s: %s is too large, expected at most %lld", c->name, o->name, text, most);
  return CLI_OK;
}

/* argv[*at] is an option; moves *at to the last word used. */
static int parse_option(const cli_command *c, int argc, char **argv, int *at, cli_args *out) {
  const char *word = argv[*at], *name = word + 1 + (word[1] == '-'), *equals = strchr(name, '=');
  int i = find(c, name, equals ? (size_t)(equals - name) : strlen(name));
  if (i < 0)
    return unknown(c, word);
  const cli_option *o = &c->options[i];
  if (out->order_count == CLI_GIVEN)
    return qn_cli_usage("%s: more than %d options", c->name, (int)CLI_GIVEN);
  out->order[out->order_count++].option = i;
  if (o->kind == CLI_FLAG) {
    if (equals)
      return qn_cli_usage("%s --%s takes no value", c->name, o->name);
    out->values[i].given = true;
    return CLI_OK;
  }
  const char *value = equals ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
  if (!value)
    return qn_cli_usage("%s %s%s needs a value: %s%s %s", c->name, dashes(o), o->name, dashes(o), o->name, o->value);
  out->values[i].given = true;
  out->values[i].text = value;
  out->order[out->order_count - 1].text = value;
  return o->kind == CLI_TEXT ? CLI_OK : set_number(c, o, value, &out->values[i].number);
}

int qn_cli_parse(const cli_command *c, int argc, char **argv, cli_args *out, bool *out_help) {
  bool only_operands = false;
  memset(out, 0, sizeof *out);
  out->command = c;
  *out_help = false;
  for (int i = 0; i < argc; i++) {
    const char *word = argv[i];
    int code = CLI_OK;
    if (!only_operands && strcmp(word, "--") == 0)
      only_operands = true;
    else if (!only_operands && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
      *out_help = true;
    else if (!only_operands && strncmp(word, "--", 2) == 0)
      code = parse_option(c, argc, argv, &i, out);
    else if (!only_operands && word[0] == '-' && word[1])
      code = !word[2] && find(c, word + 1, 1) >= 0 ? parse_option(c, argc, argv, &i, out) : unknown(c, word);
    else if (out->operand_count == c->most_operands || out->operand_count == CLI_OPERANDS)
      code = qn_cli_usage("%s: '%s' is one operand too many (usage: quern %s %s)", c->name, word, c->name, c->operands);
    else
      out->operands[out->operand_count++] = word;
    if (code != CLI_OK)
      return code;
  }
  if (!*out_help && out->operand_count < c->least_operands)
    return qn_cli_usage("%s needs an operand (usage: quern %s %s)", c->name, c->name, c->operands);
  return CLI_OK;
}

void qn_cli_help(const cli_command *c, FILE *out) {
  fprintf(out, "quern %s: %s\n\nusage: quern %s%s%s%s\n", c->name, c->summary, c->name, c->operands[0] ? " " : "",
          c->operands, option_count(c) ? " [OPTIONS]" : "");
  for (int i = 0; i < option_count(c); i++) {
    char left[64];
    (void)snprintf(left, sizeof left, "%s%s%s%s", dashes(&c->options[i]), c->options[i].name,
                   c->options[i].value ? " " : "", c->options[i].value ? c->options[i].value : "");
    fprintf(out, "%s  %-16s %s\n", i ? "" : "\n", left, c->options[i].help);
  }
  if (c->more)
    fprintf(out, "\n%s\n", c->more);
}

static int index_of(const cli_args *a, const char *name) {
  int i = find(a->command, name, strlen(name));
  QN_CHECK(i >= 0);
  return i;
}

bool qn_cli_flag(const cli_args *a, const char *name) { return a->values[index_of(a, name)].given; }
const char *qn_cli_text(const cli_args *a, const char *name) { return a->values[index_of(a, name)].text; }
long long qn_cli_number(const cli_args *a, const char *name, long long otherwise) {
  int i = index_of(a, name);
  return a->values[i].given ? a->values[i].number : otherwise;
}

const char *qn_cli_given(const cli_args *a, int i) { return a->command->options[a->order[i].option].name; }

const char *qn_cli_nth(const cli_args *a, const char *name, int i) {
  int option = index_of(a, name);
  for (int k = 0; k < a->order_count; k++)
    if (a->order[k].option == option && i-- == 0)
      return a->order[k].text;
  return NULL;
}

int qn_cli_real(const cli_args *a, const char *name, double *out) {
  const char *text = qn_cli_text(a, name);
  char *end = NULL;
  if (!text)
    return CLI_OK;
  double x = strtod(text, &end);
  if (!*text || *end || !isfinite(x) || x < 0)
    return qn_cli_usage("%s --%s: '%s' is no number from 0 on", a->command->name, name, text);
  *out = x;
  return CLI_OK;
}
