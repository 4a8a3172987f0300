/* Built-in programs by name. */
#include "program.h"

#include <string.h>

#include "command.h"

const qn_program_def *qn_cli_program(const char *name) {
  size_t count;
  const qn_program_def *all = qn_programs(&count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(all[i].name, name) == 0)
      return &all[i];
  return NULL;
}

int qn_cli_no_program(const char *command, const char *name) {
  size_t count;
  const qn_program_def *all = qn_programs(&count);
  qn_text there = {0};
  for (size_t i = 0; i < count; i++)
    qn_text_add(&there, "%s%s (%s)", i ? ", " : "", all[i].name, all[i].summary);
  int code = qn_cli_usage("%s: there is no program '%s'; there are: %s", command, name, there.buf ? there.buf : "none");
  qn_text_free(&there);
  return code;
}
