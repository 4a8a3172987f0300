/* The command line's own interface: commands and their options are rows of tables, so that parsing, help and messages are written once. */
#ifndef QUERN_CLI_COMMAND_H
#define QUERN_CLI_COMMAND_H

#include <signal.h>

#include "quern/base.h"
#include "quern/hal.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_OPTIONS = 20, CLI_OPERANDS = 8, CLI_GIVEN = 1024 };

typedef enum cli_kind {
  CLI_FLAG,
  CLI_TEXT,
  CLI_NUMBER,
  CLI_LONG
} cli_kind; /* a number fits int, a long number long long */

typedef struct cli_option {
  const char *name;  /* "device", without dashes */
  const char *value; /* what help calls its value: "D"; NULL for a flag */
  cli_kind kind;
  long long least; /* of a number */
  const char *help;
} cli_option;

typedef struct cli_command cli_command;
typedef struct cli_args {
  const cli_command *command;
  const char *operands[CLI_OPERANDS];
  int operand_count;
  struct {
    bool given;
    const char *text;
    long long number;
  } values[CLI_OPTIONS]; /* beside the command's options; of one that is given more than once, the last */
  struct {
    int option; /* index among the command's options */
    const char *text;
  } order[CLI_GIVEN]; /* every option, as given */
  int order_count;
} cli_args;

struct cli_command {
  const char *name, *operands, *summary;
  const char *more; /* lines below the options in --help; may be NULL */
  int least_operands, most_operands;
  cli_option options[CLI_OPTIONS]; /* up to the first without a name */
  int (*run)(const cli_args *args);
};

/* ---- the table ---- */
extern const cli_command qn_cli_bench, qn_cli_cache, qn_cli_devices, qn_cli_explain, qn_cli_replay, qn_cli_run,
    qn_cli_train, qn_cli_transform;

/* ---- arguments (args.c) ---- */
/* Fills args from argv behind the command's name. Says what is wrong and returns CLI_USAGE; --help sets *out_help. */
int qn_cli_parse(const cli_command *command, int argc, char **argv, cli_args *out_args, bool *out_help);
void qn_cli_help(const cli_command *command, FILE *out);
bool qn_cli_flag(const cli_args *args, const char *name);
const char *qn_cli_text(const cli_args *args, const char *name); /* NULL: not given */
long long qn_cli_number(const cli_args *args, const char *name, long long otherwise);
/* The name of the i-th option given, and the value of the i-th one of that name (NULL: there are fewer). */
const char *qn_cli_given(const cli_args *args, int i);
const char *qn_cli_nth(const cli_args *args, const char *name, int i);
/* A finite number of at least 0; says what is wrong and returns CLI_USAGE. Not given: *out stays. */
int qn_cli_real(const cli_args *args, const char *name, double *out);

/* ---- messages (message.c) ---- */
/* "quern: ..." on stderr; returns CLI_USAGE. */
int qn_cli_usage(const char *format, ...) QN_PRINTF(1, 2);
/* The thread's error as one "quern: ..." line; the exit code that belongs to the status. */
int qn_cli_failure(qn_status code);
/* Escape sequences on a terminal, "" elsewhere. */
typedef struct cli_colors {
  const char *bold, *dim, *good, *bad, *off;
} cli_colors;
cli_colors qn_cli_colors(FILE *out);
/* "1.5 GiB" */
const char *qn_cli_bytes(uint64_t bytes, char *room, size_t size);

/* ---- devices (open.c) ---- */
/* True for "cpu-ref", given or by QN_DEVICE: the reference interpreter, which is no device. */
bool qn_cli_is_reference(const char *which);
/* Opens what --device names; the reference interpreter is refused with a word on what runs on it. */
qn_status qn_cli_open(const char *which, const char *command, qn_device **out_device);

/* ---- Ctrl-C (interrupt.c) ---- */
/* Set by SIGINT and SIGTERM once the handler is there; a second signal ends the process. */
volatile sig_atomic_t *qn_cli_catch_interrupt(void);

#endif
