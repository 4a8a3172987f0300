/* A training on disk: its files, the position that goes into a checkpoint's metadata, and the way back from there. The
 * history is written before the checkpoint and cut to the checkpoint's position when read, so a crash between the two
 * leaves a pair that can be resumed. */
#include "train_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ---- */

static qn_status name_file(char out[QN_TRAIN_PATH], const char *folder, const char *name) {
  int n = snprintf(out, QN_TRAIN_PATH, "%s/%s", folder, name);
  if (n < 0 || n >= QN_TRAIN_PATH - 32)
    return QN_ERR(QN_INVALID, "output folder: its path has %zu characters, expected at most %d", strlen(folder),
                  QN_TRAIN_PATH - 64);
  return QN_OK;
}

qn_status qn_train_files_open(const qn_fit *fit, const qn_train_options *options, qn_train_files *out_files) {
  char base[QN_TRAIN_PATH] = "quern-out";
  if (options->out)
    QN_TRY(name_file(out_files->folder, options->out, "."));
  else
    QN_TRY(name_file(out_files->folder, base, fit->name));
  if (options->out)
    out_files->folder[strlen(options->out)] = '\0';
  QN_TRY(name_file(out_files->checkpoint, out_files->folder, "checkpoint.safetensors"));
  QN_TRY(name_file(out_files->history, out_files->folder, "history.json"));
  QN_TRY(name_file(out_files->report, out_files->folder, "report.html"));
  QN_TRY(name_file(out_files->trace, out_files->folder, "trace.json"));
  QN_TRY(qn_dir_make(out_files->folder));
  if (access(out_files->folder, W_OK | X_OK) != 0)
    return QN_ERR(QN_IO, "output folder %s cannot be written; --out names another", out_files->folder);
  return QN_OK;
}

/* ---- metadata ---- */

enum { M_PROGRAM, M_VERSION, M_EPOCH, M_STEP, M_SECONDS, M_SEED, M_BATCH, M_SCALE, M_BATCHNORM, M_ROWS, M_COUNT };
static const char *const keys[M_COUNT] = {"program", "version", "epoch", "step",      "seconds",
                                          "seed",    "batch",   "scale", "batchnorm", "rows"};

static void put_number(qn_pair *p, uint64_t x) { (void)snprintf(p->value, sizeof p->value, "%" PRIu64, x); }

static void name_keys(qn_pair meta[M_COUNT]) {
  memset(meta, 0, M_COUNT * sizeof *meta);
  for (size_t i = 0; i < M_COUNT; i++)
    meta[i].key = keys[i];
}

qn_status qn_train_save(const qn_train_files *files, const qn_fit *fit, const qn_train_options *options,
                        const qn_train_position *at, const qn_tensors *state, const qn_history *history,
                        const char *device) {
  qn_pair meta[M_COUNT];
  name_keys(meta);
  (void)snprintf(meta[M_PROGRAM].value, sizeof meta[M_PROGRAM].value, "%s", fit->name);
  (void)snprintf(meta[M_VERSION].value, sizeof meta[M_VERSION].value, "%s", QN_VERSION);
  (void)snprintf(meta[M_SECONDS].value, sizeof meta[M_SECONDS].value, "%.9g", at->seconds);
  put_number(&meta[M_EPOCH], at->epoch);
  put_number(&meta[M_STEP], at->step);
  put_number(&meta[M_SEED], options->seed);
  put_number(&meta[M_BATCH], at->batch);
  put_number(&meta[M_SCALE], options->scale);
  put_number(&meta[M_BATCHNORM], options->batchnorm);
  put_number(&meta[M_ROWS], fit->train.rows);
  QN_TRY(qn_history_save(history, files->history, device, options->seed));
  QN_TRY(qn_checkpoint_save(files->checkpoint, state, meta, M_COUNT));
  return QN_OK;
}

static qn_status get_number(const char *path, const qn_pair *p, uint64_t limit, uint64_t *out) {
  char *end = NULL;
  *out = strtoull(p->value, &end, 10);
  if (p->value[0] < '0' || p->value[0] > '9' || *end || *out > limit)
    return QN_ERR(QN_CORRUPT, "checkpoint %s: \"%s\" in __metadata__ is \"%s\", expected a number up to %" PRIu64, path,
                  p->key, p->value, limit);
  return QN_OK;
}

/* A switch that the checkpoint's training had and this one has not, or the other way round. */
static qn_status same_switch(const char *path, const qn_pair *p, bool now) {
  uint64_t then;
  QN_TRY(get_number(path, p, 1, &then));
  if ((then != 0) == now)
    return QN_OK;
  return QN_ERR(QN_INVALID, "checkpoint %s was trained %s --%s: resume it %s --%s, or begin anew without --resume",
                path, then ? "with" : "without", p->key, then ? "with" : "without", p->key);
}

static qn_status same_number(const char *path, const qn_pair *p, uint64_t now) {
  uint64_t then;
  QN_TRY(get_number(path, p, UINT64_MAX, &then));
  if (then == now)
    return QN_OK;
  return QN_ERR(QN_INVALID,
                "checkpoint %s was trained with --%s %" PRIu64 ", got --%s %" PRIu64 ": resume it with --%s %" PRIu64
                ", or begin anew without --resume",
                path, p->key, then, p->key, now, p->key, then);
}

qn_status qn_train_find(const qn_train_files *files, const qn_fit *fit, const qn_train_options *options,
                        qn_train_position *out_at) {
  const char *path = files->checkpoint;
  qn_pair meta[M_COUNT];
  uint64_t batch, rows;
  name_keys(meta);
  *out_at = (qn_train_position){0};
  QN_TRY(qn_checkpoint_load(path, NULL, meta, M_COUNT));
  if (strcmp(meta[M_PROGRAM].value, fit->name) != 0)
    return QN_ERR(QN_INVALID, "checkpoint %s is of program \"%s\", expected \"%s\"", path, meta[M_PROGRAM].value,
                  fit->name);
  QN_TRY(same_number(path, &meta[M_SEED], options->seed));
  QN_TRY(same_switch(path, &meta[M_SCALE], options->scale));
  QN_TRY(same_switch(path, &meta[M_BATCHNORM], options->batchnorm));
  QN_TRY(get_number(path, &meta[M_BATCH], INT32_MAX, &batch));
  if (batch == 0)
    return QN_ERR(QN_CORRUPT, "checkpoint %s: \"batch\" in __metadata__ is 0", path);
  if (options->batch)
    QN_TRY(same_number(path, &meta[M_BATCH], (uint64_t)options->batch));
  QN_TRY(get_number(path, &meta[M_ROWS], UINT64_MAX, &rows));
  if (rows != fit->train.rows)
    return QN_ERR(QN_INVALID, "checkpoint %s was trained on %" PRIu64 " rows, this data has %zu: give the same --data",
                  path, rows, fit->train.rows);
  QN_TRY(get_number(path, &meta[M_EPOCH], INT32_MAX, &out_at->epoch));
  QN_TRY(get_number(path, &meta[M_STEP], (fit->train.rows + batch - 1) / batch, &out_at->step));
  out_at->batch = (size_t)batch;
  out_at->seconds = strtod(meta[M_SECONDS].value, NULL);
  return QN_OK;
}

qn_status qn_train_load(const qn_train_files *files, const qn_train_position *at, uint64_t steps_per_epoch,
                        qn_tensors *state, qn_history *out_history) {
  *out_history = (qn_history){0};
  QN_TRY(qn_checkpoint_load(files->checkpoint, state, NULL, 0));
  QN_TRY(qn_history_load(files->history, (size_t)at->epoch, at->epoch * steps_per_epoch + at->step, out_history));
  return QN_OK;
}

/* ---- the command that resumes ---- */

static void add_path(qn_text *t, const char *option, const char *path) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+=:,@%";
  qn_text_add(t, " %s ", option);
  if (path[0] && strspn(path, plain) == strlen(path)) {
    qn_text_puts(t, path);
    return;
  }
  qn_text_puts(t, "'");
  for (const char *p = path; *p; p++)
    qn_text_puts(t, *p == '\'' ? "'\\''" : (char[]){*p, '\0'});
  qn_text_puts(t, "'");
}

void qn_train_command(qn_text *t, const qn_fit *fit, const qn_train_options *options, int epochs, size_t batch) {
  qn_text_add(t, "quern train %s --resume --epochs %d --batch %zu --seed %" PRIu64, fit->name, epochs, batch,
              options->seed);
  if (options->scale)
    qn_text_puts(t, " --scale");
  if (options->batchnorm)
    qn_text_puts(t, " --batchnorm");
  if (options->device)
    add_path(t, "--device", options->device);
  if (options->data)
    add_path(t, "--data", options->data);
  if (options->out)
    add_path(t, "--out", options->out);
}
