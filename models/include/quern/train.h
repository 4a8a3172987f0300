/* The training loop around jitted stateless steps: epochs, evaluation, progress, history, checkpoint, resume, report.
 *
 * A program gives four functions of trees and its data; everything else is here. State is one tree with whatever the program keeps in it
 * (trainable, non_trainable, optimizer, metrics ...), donated to every step and updated in place. */
#ifndef QUERN_TRAIN_H
#define QUERN_TRAIN_H

#include <signal.h>

#include "quern/cache.h"
#include "quern/compile.h"
#include "quern/data.h"
#include "quern/exec.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_train_options {
  const char *device; /* as for qn_device_open; NULL: the default */
  int epochs, batch;  /* 0: the program's default */
  uint64_t seed;
  const char *data, *out; /* folders; NULL: the program's default data, ./quern-out/<program> */
  bool resume, scale, batchnorm, profile, json, quiet;
  bool check_nans; /* keep the state of the step before, and name the operation that made a NaN of it; slow */
  int steps_limit; /* stop after that many steps (0: none); for smoke tests */
  qn_cache *cache;
  volatile sig_atomic_t *stop; /* set by Ctrl-C: finish the step, save, say how to resume */
  FILE *log;                   /* lines and progress bar; NULL: stdout */
} qn_train_options;

/* Fills batch leaves from rows of the data: host arrays in the order of the batch definition. */
typedef qn_status (*qn_fill_fn)(void *user, const uint32_t *rows, size_t count, void *const *leaves);
typedef struct qn_split {
  const char *name; /* "train", "validation", "test" */
  size_t rows;
  qn_fill_fn fill;
  void *user;
} qn_split;

typedef struct qn_fit {
  const char *name;
  void *user;
  qn_tree_fn init;       /* args: {key u32[2]}; result: the state */
  qn_tree_fn train_step; /* args: state, batch; result: "state/..." and "loss" */
  qn_tree_fn eval_step;  /* args: state, totals, batch; result: "totals/..." and "prediction" (i32 per row) */
  qn_tree_fn totals;     /* args: none; zeros for a fresh evaluation. Leaves "loss", "hits", "count": sums over rows */
  const char
      *metrics; /* subtree of the state that is reset at the start of each epoch: "metrics"; leaves as of `totals` */
  qn_status (*batch)(void *user, int64_t rows, qn_treedef *out_batch); /* definition of a batch of that many rows */
  qn_split train, validation, test;
  size_t shuffle_buffer;
  const char *const *class_names;
  size_t class_count;
  size_t image_rows, image_columns;
  const uint8_t *(*image)(void *user, size_t row); /* of the test split, for the report's grid; grey, row-major */
  const uint8_t *test_labels;
  int default_epochs, default_batch; /* where the options say 0; 0: 5 and 32 */
} qn_fit;
/* Trains on the opened device. Files in options->out: checkpoint.safetensors, history.json, report.html (and trace.json with profile).
 * QN_CANCELLED when `stop` was set: the checkpoint is written, and the message says how to resume. A loss that is no finite number is QN_DIVERGED
 * and names the step (with check_nans also the operation that made it); the checkpoint before it is kept. */
qn_status qn_fit_run(qn_device *d, const qn_fit *fit, const qn_train_options *options);

/* ---- checkpoints ---- */
/* Whole state, with a string map (position, seed, options) in the header's __metadata__; replaced atomically. Loading checks every leaf's name, dtype
 * and shape against the tensors' layout and names the first that differs (QN_INVALID), damaged files are QN_CORRUPT. */
typedef struct qn_pair {
  const char *key;
  char value[96];
} qn_pair;
qn_status qn_checkpoint_save(const char *path, const qn_tensors *state, const qn_pair *meta, size_t meta_count);
/* Fills the values of the keys given; a key that the file lacks gets "". `state` NULL: only those. */
qn_status qn_checkpoint_load(const char *path, qn_tensors *state, qn_pair *meta, size_t meta_count);

/* ---- programs that the command line knows ---- */
typedef struct qn_program_def {
  const char *name, *summary;
  qn_status (*train)(qn_device *d, const qn_train_options *options);
  qn_status (*trace)(const qn_train_options *options, qn_traced *out_traced,
                     qn_compile_desc *out_desc); /* one training step, for explain */
  int epochs, batch;                             /* defaults */
} qn_program_def;
const qn_program_def *qn_programs(size_t *out_count); /* models/programs/programs.c */
/* The train step of a fit as qn_fit_run compiles it. */
qn_status qn_fit_trace(const qn_fit *fit, int batch, qn_traced *out_traced, qn_compile_desc *out_desc);

#ifdef __cplusplus
}
#endif
#endif
