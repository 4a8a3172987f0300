/* The training loop: epochs of steps, evaluation, checkpoint, test, report. In steady state the host only fills batches
 * and submits; it looks at a loss every hundredth step. */
#include "train_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_EVERY = 100, DEFAULT_EPOCHS = 5, DEFAULT_BATCH = 32 };

typedef struct trainer {
  qn_device *device;
  const qn_device_caps *caps;
  const qn_fit *fit;
  const qn_train_options *options;
  qn_train_files files;
  qn_progress progress;
  qn_fit_steps *steps;
  qn_tensors *state;
  qn_shuffle *shuffle;
  uint32_t *rows;
  qn_history history;
  int epochs;
  qn_train_position at;
  uint64_t steps_per_epoch, steps_run, samples_run; /* run: in this call */
  uint64_t good_step;                               /* newest step whose loss was seen to be finite; 0: none */
  qn_totals seen;                                   /* as last read, for the bar */
  uint64_t began_ns, epoch_ns, epoch_samples;       /* of this call, of this epoch within it */
  double train_seconds;                             /* in training steps alone */
  bool limited;                                     /* the limit of steps was reached */
  qn_totals test;
  int32_t *predictions;
} trainer;

static double seconds_since(uint64_t ns) { return (double)(qn_time_ns() - ns) * 1e-9; }

static uint64_t global_step(const trainer *t) { return t->at.epoch * t->steps_per_epoch + t->at.step; }

static bool stop_asked(const trainer *t) { return t->options->stop && *t->options->stop; }

/* ---- numbers that are none ---- */

static qn_status not_finite(const trainer *t, const char *what, double value) {
  char good[64] = "", kept[64];
  if (t->good_step)
    (void)snprintf(good, sizeof good, " (the loss was finite at step %" PRIu64 ")", t->good_step);
  if (t->history.epoch_count)
    (void)snprintf(kept, sizeof kept, "the checkpoint of epoch %zu is kept", t->history.epoch_count);
  else
    (void)snprintf(kept, sizeof kept, "no checkpoint was written");
  return QN_ERR(QN_DIVERGED, "%s: %s is %s at step %" PRIu64 "%s; %s", t->fit->name, what,
                isnan(value) ? "not a number" : "infinite", global_step(t), good, kept);
}

static qn_status check_finite(trainer *t, const char *what, double value) {
  if (!isfinite(value))
    return not_finite(t, what, value);
  t->good_step = global_step(t);
  return QN_OK;
}

/* ---- checkpoint and stopping ---- */

static qn_status save(trainer *t) {
  QN_TRY(qn_train_save(&t->files, t->fit, t->options, &t->at, t->state, &t->history, t->caps->id));
  return QN_OK;
}

/* Saves between two steps. The losses since the last look are still unseen: a state gone bad must not replace a good one. */
static qn_status save_within_epoch(trainer *t) {
  qn_totals sofar;
  QN_TRY(qn_steps_read_metrics(t->steps, t->state, &sofar));
  if (sofar.rows > 0)
    QN_TRY(check_finite(t, "the loss", sofar.loss));
  t->at.seconds += seconds_since(t->epoch_ns);
  QN_TRY(save(t));
  return QN_OK;
}

/* The message is what whoever called prints: the tool does. */
static qn_status stopped(trainer *t) {
  qn_text command = {0};
  QN_TRY(save_within_epoch(t));
  qn_train_command(&command, t->fit, t->options, t->epochs, t->at.batch);
  qn_status st = QN_ERR(
      QN_CANCELLED, "stopped in epoch %" PRIu64 " behind step %" PRIu64 " of %" PRIu64 ", saved to %s; resume with: %s",
      t->at.epoch + 1, t->at.step, t->steps_per_epoch, t->files.checkpoint,
      command.buf ? command.buf : "quern train --resume");
  qn_text_free(&command);
  return st;
}

/* ---- one epoch ---- */

static void draw_bar(trainer *t) {
  double spent = seconds_since(t->epoch_ns);
  qn_progress_draw(&t->progress, &(qn_progress_bar){
                                     .epoch = (int)t->at.epoch + 1,
                                     .epochs = t->epochs,
                                     .step = t->at.step,
                                     .steps = t->steps_per_epoch,
                                     .loss = t->seen.loss,
                                     .accuracy = t->seen.accuracy,
                                     .samples_per_second = spent > 0 ? (double)t->epoch_samples / spent : 0,
                                 });
}

/* Reads the loss of the newest step: the only place in an epoch where the host waits for the device. */
static qn_status look(trainer *t, qn_tensors *result) {
  float loss;
  uint64_t step = global_step(t);
  QN_TRY(qn_tensors_read(result, "loss", &loss));
  QN_TRY(check_finite(t, "the loss", (double)loss));
  QN_TRY(qn_history_add_step(&t->history, step, (double)loss));
  if (t->progress.bar)
    QN_TRY(qn_steps_read_metrics(t->steps, t->state, &t->seen));
  else if (step % LOOK_EVERY == 0)
    qn_progress_line(&t->progress, "step %" PRIu64 ": loss %.4f", step, (double)loss);
  return QN_OK;
}

/* How long starting took, compilation and data included. */
static qn_status greet(trainer *t, qn_tensors *result) {
  float loss;
  QN_TRY(qn_tensors_read(result, "loss", &loss));
  qn_progress_line(&t->progress, "first step done %.3f s after the start", qn_time_since_start());
  return QN_OK;
}

static void skip_done(trainer *t) {
  for (uint64_t i = 0; i < t->at.step; i++)
    (void)qn_shuffle_next(t->shuffle, t->at.batch, t->rows);
}

static qn_status train_steps(trainer *t) {
  qn_shuffle_begin(t->shuffle, t->at.epoch);
  skip_done(t);
  if (t->at.step == 0)
    QN_TRY(qn_steps_zero_metrics(t->steps, t->state));
  while (t->at.step < t->steps_per_epoch) {
    qn_tensors *result;
    if (stop_asked(t))
      return stopped(t);
    if (t->options->steps_limit > 0 && t->steps_run >= (uint64_t)t->options->steps_limit) {
      t->limited = true;
      return save_within_epoch(t);
    }
    size_t count = qn_shuffle_next(t->shuffle, t->at.batch, t->rows);
    qn_status st = qn_steps_train(t->steps, t->state, t->rows, count, &result);
    if (st == QN_DIVERGED)
      return QN_ERR(QN_DIVERGED, "%s: in step %" PRIu64 " %s", t->fit->name, global_step(t) + 1, qn_error_message());
    QN_TRY(st);
    t->at.step++;
    t->steps_run++;
    t->samples_run += count;
    t->epoch_samples += count;
    if (t->steps_run == 1)
      QN_TRY(greet(t, result));
    if (global_step(t) == 1 || global_step(t) % LOOK_EVERY == 0)
      QN_TRY(look(t, result));
    if (qn_progress_due(&t->progress))
      draw_bar(t);
  }
  return QN_OK;
}

static void epoch_line(trainer *t, const qn_history_epoch *row, double steps_per_second) {
  char validation[96] = "";
  if (isfinite(row->val_loss))
    (void)snprintf(validation, sizeof validation, " - val_loss: %.4f - val_accuracy: %.4f", row->val_loss,
                   row->val_accuracy);
  qn_progress_line(&t->progress, "epoch %" PRIu64 "/%d - %.2fs - %.0f us/step - loss: %.4f - accuracy: %.4f%s",
                   t->at.epoch + 1, t->epochs, row->seconds, steps_per_second > 0 ? 1e6 / steps_per_second : 0.0,
                   row->loss, row->accuracy, validation);
}

/* Ends with the checkpoint of the epoch on disk, or in the middle where a limit or a wish to stop was met. */
static qn_status train_epoch(trainer *t) {
  qn_totals train, val = {(double)NAN, (double)NAN, 0};
  uint64_t run = t->steps_run;
  bool stop = false;
  t->epoch_ns = qn_time_ns();
  t->epoch_samples = 0;
  t->seen = (qn_totals){(double)NAN, (double)NAN, 0};
  QN_TRY(train_steps(t));
  QN_TRY(qn_steps_read_metrics(t->steps, t->state, &train));
  double spent = seconds_since(t->epoch_ns);
  t->train_seconds += spent;
  if (t->limited)
    return QN_OK;
  QN_TRY(check_finite(t, "the loss of the epoch", train.loss));
  if (t->fit->validation.rows)
    QN_TRY(qn_steps_evaluate(t->steps, t->state, &t->fit->validation, t->at.batch, NULL, &stop, &val));
  if (stop)
    return stopped(t);
  if (t->fit->validation.rows)
    QN_TRY(check_finite(t, "the validation loss", val.loss));
  qn_history_epoch row = {train.loss, train.accuracy, val.loss, val.accuracy,
                          t->at.seconds + seconds_since(t->epoch_ns)};
  QN_TRY(qn_history_add_epoch(&t->history, &row));
  epoch_line(t, &row, spent > 0 ? (double)(t->steps_run - run) / spent : 0);
  t->at = (qn_train_position){.epoch = t->at.epoch + 1, .batch = t->at.batch};
  return save(t);
}

/* ---- before the first epoch ---- */

static qn_status choose(trainer *t) {
  const qn_train_options *o = t->options;
  const qn_fit *f = t->fit;
  if (o->epochs < 0 || o->batch < 0)
    return QN_ERR(QN_INVALID, "%s: %d epochs of batches of %d, expected positive numbers", f->name, o->epochs,
                  o->batch);
  if (f->train.rows == 0 || f->train.rows > UINT32_MAX)
    return QN_ERR(QN_INVALID, "%s: the training data has %zu rows, expected 1 to %u", f->name, f->train.rows,
                  UINT32_MAX);
  if (o->resume)
    QN_TRY(qn_train_find(&t->files, f, o, &t->at));
  else
    t->at.batch = (size_t)(o->batch ? o->batch : f->default_batch ? f->default_batch : DEFAULT_BATCH);
  if (t->at.batch > f->train.rows)
    return QN_ERR(QN_INVALID, "%s: --batch %zu, but the training data has %zu rows", f->name, t->at.batch,
                  f->train.rows);
  t->epochs = o->epochs ? o->epochs : f->default_epochs ? f->default_epochs : DEFAULT_EPOCHS;
  t->steps_per_epoch = (f->train.rows + t->at.batch - 1) / t->at.batch;
  return QN_OK;
}

static qn_status begin(trainer *t) {
  const char *name = t->fit->name;
  t->rows = malloc(t->at.batch * sizeof *t->rows);
  if (!t->rows)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for row numbers", name);
  QN_TRY(qn_shuffle_create(t->fit->train.rows, t->fit->shuffle_buffer, t->options->seed, &t->shuffle));
  QN_TRY(qn_steps_create(t->device, t->fit, t->options, &t->steps));
  qn_progress_line(&t->progress, "%s on %s: %s (%s); %s", name, t->caps->id, t->caps->name, t->caps->driver,
                   qn_device_why(t->device));
  qn_progress_line(&t->progress, "%zu training rows, %zu validation, %zu test; batch %zu, %d epochs, seed %" PRIu64,
                   t->fit->train.rows, t->fit->validation.rows, t->fit->test.rows, t->at.batch, t->epochs,
                   t->options->seed);
  if (!t->options->resume) {
    if (qn_file_exists(t->files.checkpoint))
      qn_progress_line(&t->progress, "%s will be replaced (--resume would continue it)", t->files.checkpoint);
    return qn_steps_init_state(t->steps, t->options->seed, &t->state);
  }
  QN_TRY(qn_steps_new_state(t->steps, &t->state));
  QN_TRY(qn_train_load(&t->files, &t->at, t->steps_per_epoch, t->state, &t->history));
  qn_progress_line(&t->progress, "resumed from %s: %" PRIu64 " epochs and %" PRIu64 " steps are done",
                   t->files.checkpoint, t->at.epoch, t->at.step);
  if (t->at.epoch >= (uint64_t)t->epochs)
    qn_progress_line(&t->progress, "nothing left to train: --epochs %d are done", t->epochs);
  return QN_OK;
}

/* ---- behind the last epoch ---- */

static qn_status test(trainer *t) {
  const qn_split *split = &t->fit->test;
  bool stop = false;
  t->test = (qn_totals){(double)NAN, (double)NAN, 0};
  if (split->rows == 0)
    return QN_OK;
  t->predictions = malloc(split->rows * sizeof *t->predictions);
  if (!t->predictions)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory for predictions", t->fit->name);
  QN_TRY(qn_steps_evaluate(t->steps, t->state, split, t->at.batch, t->predictions, &stop, &t->test));
  if (stop)
    return QN_ERR(QN_CANCELLED, "stopped while testing; the training is done and saved to %s", t->files.checkpoint);
  qn_progress_line(&t->progress, "test - loss: %.4f - accuracy: %.4f", t->test.loss, t->test.accuracy);
  return QN_OK;
}

static uint64_t count_parameters(const qn_layout *l) {
  uint64_t sum = 0;
  for (size_t i = 0; i < l->count; i++)
    if (strncmp(l->entries[i].path, "trainable/", 10) == 0)
      sum += l->entries[i].bytes / qn_dtype_size(l->entries[i].dtype);
  return sum;
}

static qn_status write_report(trainer *t) {
  const qn_report report = {
      .fit = t->fit,
      .options = t->options,
      .caps = t->caps,
      .history = &t->history,
      .epochs = t->epochs,
      .batch = t->at.batch,
      .steps = global_step(t),
      .parameters = count_parameters(qn_tensors_layout(t->state)),
      .seconds = seconds_since(t->began_ns),
      .test = t->test,
      .predictions = t->predictions,
  };
  QN_TRY(qn_report_write(t->files.report, &report));
  qn_progress_line(&t->progress, "report: %s", t->files.report);
  return QN_OK;
}

static qn_status write_profile(trainer *t) {
  qn_step *step = qn_steps_train_step(t->steps, t->at.batch);
  qn_text table = {0}, events = {0};
  qn_status st;
  if (!step)
    return QN_OK;
  QN_TRY_GOTO(st, qn_step_profile_print(step, 0, 0, &table), done);
  qn_text_puts(&events, "{\"traceEvents\":[\n");
  QN_TRY_GOTO(st, qn_step_profile_trace(step, &events), done);
  qn_text_puts(&events, "\n]}\n");
  QN_TRY_GOTO(st, qn_text_check(&events), done);
  QN_TRY_GOTO(st, qn_file_write_atomic(t->files.trace, events.buf, events.len), done);
  qn_progress_line(&t->progress, "%s", table.buf ? table.buf : "");
  qn_progress_line(&t->progress, "trace: %s", t->files.trace);
done:
  qn_text_free(&table);
  qn_text_free(&events);
  return st;
}

static void put_number(qn_text *j, const char *name, double x) {
  if (isfinite(x))
    qn_text_add(j, ",\"%s\":%.9g", name, x);
  else
    qn_text_add(j, ",\"%s\":null", name);
}

static void put_string(qn_text *j, const char *name, const char *s) {
  qn_text_add(j, ",\"%s\":", name);
  qn_text_json_string(j, s);
}

static void write_summary(const trainer *t) {
  const qn_history *h = &t->history;
  const qn_history_epoch none = {(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
  const qn_history_epoch *last = h->epoch_count ? &h->epochs[h->epoch_count - 1] : &none;
  qn_text j = {0};
  qn_text_puts(&j, "{\"program\":");
  qn_text_json_string(&j, t->fit->name);
  put_string(&j, "device", t->caps->id);
  put_string(&j, "device_name", t->caps->name);
  qn_text_add(&j, ",\"seed\":%" PRIu64 ",\"batch\":%zu,\"epochs\":%zu,\"steps\":%" PRIu64, t->options->seed,
              t->at.batch, h->epoch_count, global_step(t));
  put_number(&j, "loss", last->loss);
  put_number(&j, "accuracy", last->accuracy);
  put_number(&j, "val_loss", last->val_loss);
  put_number(&j, "val_accuracy", last->val_accuracy);
  put_number(&j, "test_loss", t->test.loss);
  put_number(&j, "test_accuracy", t->test.accuracy);
  put_number(&j, "seconds", seconds_since(t->began_ns));
  put_number(&j, "samples_per_second", t->train_seconds > 0 ? (double)t->samples_run / t->train_seconds : (double)NAN);
  qn_text_add(&j, ",\"fallbacks\":%" PRIu64, qn_steps_fallbacks(t->steps));
  put_string(&j, "checkpoint", t->files.checkpoint);
  put_string(&j, "history", t->files.history);
  put_string(&j, "report", t->files.report);
  qn_text_puts(&j, "}");
  if (j.buf && !j.failed) {
    puts(j.buf);
    (void)fflush(stdout);
  }
  qn_text_free(&j);
}

/* ---- all of it ---- */

static qn_status run(trainer *t) {
  QN_TRY(qn_train_files_open(t->fit, t->options, &t->files));
  QN_TRY(choose(t));
  QN_TRY(begin(t));
  while (t->at.epoch < (uint64_t)t->epochs && !t->limited)
    QN_TRY(train_epoch(t));
  QN_TRY(test(t));
  QN_TRY(write_report(t));
  if (t->options->profile)
    QN_TRY(write_profile(t));
  if (t->options->json)
    write_summary(t);
  return QN_OK;
}

qn_status qn_fit_run(qn_device *d, const qn_fit *fit, const qn_train_options *options) {
  trainer *t = calloc(1, sizeof *t);
  if (!t)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to train", fit->name);
  t->device = d;
  t->caps = qn_device_get_caps(d);
  t->fit = fit;
  t->options = options;
  t->began_ns = qn_time_ns();
  qn_progress_open(&t->progress, options->log ? options->log : options->json ? stderr : stdout, options->quiet);
  qn_status st = run(t);
  qn_progress_clear(&t->progress);
  if (t->state)
    qn_tensors_release(t->state);
  qn_steps_free(t->steps);
  qn_shuffle_free(t->shuffle);
  qn_history_free(&t->history);
  free(t->rows);
  free(t->predictions);
  free(t);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "run");
}
