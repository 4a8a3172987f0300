/* quern: finds the command, parses its arguments by its table of options, runs it. */
#include <stdio.h>
#include <string.h>

#include "command.h"

static const cli_command *const commands[] = {&qn_cli_devices, &qn_cli_train,  &qn_cli_run,   &qn_cli_transform,
                                              &qn_cli_explain, &qn_cli_replay, &qn_cli_bench, &qn_cli_cache};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void help(FILE *out) {
  fputs("quern: traces, differentiates, compiles and runs training steps on whatever accelerator is there\n\nusage: "
        "quern COMMAND [OPTIONS]\n\n",
        out);
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(out, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
  fputs("\nquern COMMAND --help tells a command's options; quern --version the version.\n", out);
}

static const cli_command *find(const char *name) {
  for (size_t i = 0; i < COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

static int unknown(const char *name) {
  qn_text there = {0};
  for (size_t i = 0; i < COMMANDS; i++)
    qn_text_add(&there, "%s%s", i ? ", " : "", commands[i]->name);
  int code = qn_cli_usage("there is no command '%s'; there are: %s", name, there.buf ? there.buf : "");
  qn_text_free(&there);
  return code;
}

static int run(int argc, char **argv) {
  if (argc < 2) {
    help(stderr);
    return CLI_USAGE;
  }
  const char *name = argv[1];
  bool asked = strcmp(name, "help") == 0;
  if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
    printf("quern %s\n", QN_VERSION);
    return CLI_OK;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (asked && argc == 2)) {
    help(stdout);
    return CLI_OK;
  }
  const cli_command *command = find(asked ? argv[2] : name);
  if (!command)
    return unknown(asked ? argv[2] : name);
  cli_args args;
  int code = asked ? CLI_OK : qn_cli_parse(command, argc - 2, argv + 2, &args, &asked);
  if (code != CLI_OK)
    return code;
  if (asked) {
    qn_cli_help(command, stdout);
    return CLI_OK;
  }
  return command->run(&args);
}

int main(int argc, char **argv) {
  int code = run(argc, argv);
  if (fflush(stdout) != 0 && code == CLI_OK) {
    fputs("quern: the output could not be written\n", stderr);
    return CLI_FAILED;
  }
  return code;
}
