/* Programs of the suite of control flow, by their expression. */
#ifndef QUERN_CLI_BUILD_CONTROL_H
#define QUERN_CLI_BUILD_CONTROL_H

#include "quern/control.h"
#include "quern/ops.h"
#include "replay.h"

typedef struct replay_program {
  const char *expr;
  replay_build_fn build;
} replay_program;
/* Ended by a NULL expression. */
extern const replay_program qn_replay_loops[], qn_replay_scans[], qn_replay_branches[];

#endif
