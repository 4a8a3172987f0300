/* Built-in programs by name. */
#ifndef QUERN_CLI_PROGRAM_H
#define QUERN_CLI_PROGRAM_H

#include "quern/train.h"

const qn_program_def *qn_cli_program(const char *name); /* NULL: there is none */
/* Says which programs there are; returns CLI_USAGE. */
int qn_cli_no_program(const char *command, const char *name);

#endif
