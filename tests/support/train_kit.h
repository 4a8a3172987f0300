/* The built-in program's training step on a device, from host data: a state that is the same on every device, batches of real or made-up images,
 * counters and digests. For tests of training. */
#ifndef QUERN_TEST_TRAIN_KIT_H
#define QUERN_TEST_TRAIN_KIT_H

#include "quern/train.h"

enum { TRAIN_BATCHES = 3, TRAIN_MAX_BATCH = 32 };

typedef struct train_kit {
  qn_device *device;
  qn_traced traced;
  qn_step *step;
  int batch;
  uint8_t *init; /* a state in its layout, as host bytes */
  qn_tensors *state, *batches[TRAIN_BATCHES];
  qn_images images; /* count 0: made up */
} train_kit;

/* Opens the device, traces and compiles; QN_NOT_FOUND where it is not there. `edit` (may be NULL) sees the plan before the step is made. */
qn_status train_kit_open(const char *which, int batch, void (*edit)(qn_plan *p), train_kit *out);
void train_kit_close(train_kit *k);
/* Writes the first state again. */
qn_status train_kit_reset(train_kit *k);
/* Fills batch tensors with rows from `first` on, pixels scaled to 0..1. */
qn_status train_kit_fill(train_kit *k, int which, size_t first);
/* `count` steps on new rows each, from step number `first` on; losses (may be NULL) are read after each. */
qn_status train_kit_steps(train_kit *k, size_t first, size_t count, float *out_losses);
/* `count` steps on the three batches as they are, with no wait between them; waits at the end. */
qn_status train_kit_spin(train_kit *k, size_t count);
/* Of the state's bytes. */
qn_status train_kit_digest(train_kit *k, qn_digest *out_digest);

/* Launches of a plan; those that are an optimizer's update and nothing else. */
size_t train_launches(const qn_plan *p);
size_t train_update_launches(const qn_plan *p);

#endif
