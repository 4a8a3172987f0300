/* Private parts of the training loop: compiled steps, log and progress bar, history, report. */
#ifndef QN_TRAIN_IMPL_H
#define QN_TRAIN_IMPL_H

#include "quern/train.h"

/* ---- steps.c: compiled functions per batch size, batches, state ---- */
typedef struct qn_fit_steps qn_fit_steps;
/* Borrows all three. Traces `init` and `totals`; compiles nothing yet. */
qn_status qn_steps_create(qn_device *d, const qn_fit *fit, const qn_train_options *options, qn_fit_steps **out_steps);
void qn_steps_free(qn_fit_steps *s);
qn_status qn_steps_init_state(qn_fit_steps *s, uint64_t seed, qn_tensors **out_state);
qn_status qn_steps_new_state(qn_fit_steps *s, qn_tensors **out_state); /* contents undefined */
/* Submits one training step on `count` rows of the train split; *out_result holds "loss" and is borrowed for one call. */
qn_status qn_steps_train(qn_fit_steps *s, qn_tensors *state, const uint32_t *rows, size_t count,
                         qn_tensors **out_result);
typedef struct qn_totals {
  double loss, accuracy; /* means over the rows so far; NaN when there was none */
  double rows;
} qn_totals;
qn_status qn_steps_zero_metrics(qn_fit_steps *s, qn_tensors *state);
qn_status qn_steps_read_metrics(qn_fit_steps *s, const qn_tensors *state, qn_totals *out_totals); /* waits */
/* Runs all rows of a split in order, `batch` at a time; predictions (one per row) may be NULL. Ends early, with *out_stopped, when *stop is set. */
qn_status qn_steps_evaluate(qn_fit_steps *s, qn_tensors *state, const qn_split *split, size_t batch,
                            int32_t *out_predictions, bool *out_stopped, qn_totals *out_totals);
/* Device times of the training step of that many rows; NULL where it was never compiled. */
qn_step *qn_steps_train_step(qn_fit_steps *s, size_t rows);

/* Operations of the compiled steps that run elsewhere than on their device; a compiler that met one has refused it. */
uint64_t qn_steps_fallbacks(const qn_fit_steps *s);

/* ---- check.c: options->check_nans ---- */
typedef struct qn_kept qn_kept; /* a call's arguments on the host */
qn_status qn_kept_take(qn_tensors *const *args, size_t arg_count, qn_kept **out_kept);
void qn_kept_free(qn_kept *k);
qn_status qn_kept_count_nans(const qn_tensors *t, int64_t *out_count);
/* Runs the function again on what was kept; always fails, with QN_DIVERGED and the operation's name where all went well. */
qn_status qn_kept_explain(const qn_kept *k, qn_device *d, qn_cache *cache, const qn_traced *fn);

/* ---- progress.c ---- */
typedef struct qn_progress {
  FILE *out;
  bool bar, quiet;  /* bar: out is a terminal */
  bool drawn;       /* a bar stands on the current line */
  uint64_t next_ns; /* not before that */
} qn_progress;
typedef struct qn_progress_bar {
  int epoch, epochs;
  uint64_t step, steps;
  double loss, accuracy; /* as last read; NaN: not yet */
  double samples_per_second;
} qn_progress_bar;
void qn_progress_open(qn_progress *p, FILE *out, bool quiet);
bool qn_progress_due(qn_progress *p); /* at most ten times a second, never without a terminal */
void qn_progress_draw(qn_progress *p, const qn_progress_bar *b);
void qn_progress_clear(qn_progress *p);
/* A whole line; takes the bar away first. Nothing when quiet. */
void qn_progress_line(qn_progress *p, const char *format, ...) QN_PRINTF(2, 3);

/* ---- history.c ---- */
typedef struct qn_history_epoch {
  double loss, accuracy, val_loss, val_accuracy, seconds; /* NaN is written as null */
} qn_history_epoch;
typedef struct qn_history_step {
  uint64_t step; /* of the whole training, counted from 1 */
  double loss;
} qn_history_step;
typedef struct qn_history {
  qn_history_epoch *epochs;
  size_t epoch_count, epoch_capacity;
  qn_history_step *steps;
  size_t step_count, step_capacity;
} qn_history;
qn_status qn_history_add_epoch(qn_history *h, const qn_history_epoch *row);
qn_status qn_history_add_step(qn_history *h, uint64_t step, double loss);
void qn_history_free(qn_history *h);
qn_status qn_history_save(const qn_history *h, const char *path, const char *device, uint64_t seed);
/* Reads what belongs to a position: the first `epochs` rows, and steps up to `steps`. A file that has less is QN_CORRUPT. */
qn_status qn_history_load(const char *path, size_t epochs, uint64_t steps, qn_history *out_history);

/* ---- report.c ---- */
typedef struct qn_report {
  const qn_fit *fit;
  const qn_train_options *options;
  const qn_device_caps *caps;
  const qn_history *history;
  int epochs;
  size_t batch;
  uint64_t steps, parameters; /* parameters: scalars in the state's "trainable" */
  double seconds;
  qn_totals test;
  const int32_t *predictions; /* of the test split; NULL: none */
} qn_report;
qn_status qn_report_write(const char *path, const qn_report *r);
void qn_report_html(qn_text *t, const qn_report *r);
/* One chart of one or two series over x = 1, 2 ...; NaN leaves a gap. */
typedef struct qn_curve {
  const char *name, *css;
  const double *x, *y;
  size_t count;
} qn_curve;
void qn_report_chart(qn_text *t, const char *title, const char *x_name, const qn_curve *curves, size_t count);
void qn_report_escape(qn_text *t, const char *s); /* for HTML */
/* An 8-bit grey image as a PNG data URI. */
void qn_report_png(qn_text *t, const uint8_t *pixels, size_t rows, size_t columns);

/* ---- resume.c: where a training stands, on disk ---- */
enum { QN_TRAIN_PATH = 4096 };
typedef struct qn_train_files {
  char folder[QN_TRAIN_PATH], checkpoint[QN_TRAIN_PATH], history[QN_TRAIN_PATH], report[QN_TRAIN_PATH],
      trace[QN_TRAIN_PATH];
} qn_train_files;
/* Names them and makes the folder; QN_IO where it cannot be written. */
qn_status qn_train_files_open(const qn_fit *fit, const qn_train_options *options, qn_train_files *out_files);
typedef struct qn_train_position {
  uint64_t epoch, step; /* whole epochs done; steps done of the next one */
  size_t batch;
  double seconds; /* spent on the unfinished epoch */
} qn_train_position;
qn_status qn_train_save(const qn_train_files *files, const qn_fit *fit, const qn_train_options *options,
                        const qn_train_position *at, const qn_tensors *state, const qn_history *history,
                        const char *device);
/* The position, after the options were compared with those of the checkpoint. options->batch 0 takes the checkpoint's. */
qn_status qn_train_find(const qn_train_files *files, const qn_fit *fit, const qn_train_options *options,
                        qn_train_position *out_at);
/* The state and the history up to the position. */
qn_status qn_train_load(const qn_train_files *files, const qn_train_position *at, uint64_t steps_per_epoch,
                        qn_tensors *state, qn_history *out_history);
/* "quern train NAME --resume ..." */
void qn_train_command(qn_text *t, const qn_fit *fit, const qn_train_options *options, int epochs, size_t batch);

#endif
