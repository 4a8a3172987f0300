/* A stateful function on a device or the reference interpreter: state stays where it runs, a batch goes in, small results come out. */
#ifndef QUERN_CLI_MACHINE_H
#define QUERN_CLI_MACHINE_H

#include "quern/exec.h"
#include "quern/tree.h"
#include "replay.h"

/* Arguments are "state" and "batch"; results under state/ replace the state, the others are read after each call. */
typedef struct replay_machine {
  qn_device *device; /* NULL: the reference interpreter */
  qn_traced traced;
  qn_step *step;
  qn_tensors *state, *batch, *result;
  void **host[3]; /* of the reference: leaves of state, batch and result */
} replay_machine;
qn_status qn_replay_machine_create(replay_run *r, const char *name, qn_tree_fn fn, void *user, const qn_treedef *state,
                                   const qn_treedef *batch, replay_machine *out);
void qn_replay_machine_free(replay_machine *m);
/* Whole leaves by path; QN_NOT_FOUND names a stranger. */
qn_status qn_replay_machine_set(replay_machine *m, bool batch, const char *path, const void *data);
qn_status qn_replay_machine_get(replay_machine *m, const char *path,
                                void *out_data); /* of the state, or "result/..." */
const qn_type *qn_replay_machine_type(const replay_machine *m,
                                      const char *path); /* of a state leaf; NULL: there is none */
qn_status qn_replay_machine_call(replay_machine *m);

#endif
