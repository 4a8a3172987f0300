/* The environment, read once: rows of env.def. Values are copied, so later changes by anyone are not seen and a library
 * that calls setenv cannot pull them away. */
#include "quern/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct env_row {
  const char *name, *doc;
} env_row;

static const env_row rows[QN_ENV_COUNT] = {
#define QN_ENV(name, doc) [QN_ENV_##name] = {"QN_" #name, doc},
#include "quern/env.def"
#undef QN_ENV
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *values[QN_ENV_COUNT];

static void read_all(void) {
  for (int i = 0; i < QN_ENV_COUNT; i++) {
    const char *value = getenv(rows[i].name);
    if (value && value[0])
      values[i] = strdup(value); /* kept for the life of the process */
  }
}

const char *qn_env_get(qn_env which) {
  (void)pthread_once(&once, read_all);
  return (size_t)which < QN_ENV_COUNT ? values[which] : NULL;
}

bool qn_env_on(qn_env which) {
  static const char *const off[] = {"0", "off", "no", "false"};
  const char *value = qn_env_get(which);
  if (!value)
    return false;
  for (size_t i = 0; i < sizeof off / sizeof *off; i++)
    if (strcasecmp(value, off[i]) == 0)
      return false;
  return true;
}

void qn_env_print(FILE *out) {
  for (int i = 0; i < QN_ENV_COUNT; i++) {
    const char *value = qn_env_get((qn_env)i);
    fprintf(out, "%-14s %s\n%-14s   now: %s\n", rows[i].name, rows[i].doc, "", value ? value : "(unset)");
  }
}
