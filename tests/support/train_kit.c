/* See train_kit.h. */
#include "train_kit.h"

#include <stdlib.h>
#include <string.h>

#include "quern/drivers.h"

enum { PIXELS = 784, CLASSES = 10, ROWS = 6400 };

/* ---- the first state: Glorot's range for kernels, zeros, Adam's rate; from a generator of its own, so that it needs no device ---- */

static float uniform(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static void fill_leaf(const qn_layout_entry *e, float *x, uint32_t *random) {
  static const float limits[] = {0.0841f, 0.2165f, 0.2847f}; /* sqrt(6 / (784 + 64)), ... */
  if (strcmp(e->path, "optimizer/learning_rate") == 0)
    *x = 1e-3f;
  if (strncmp(e->path, "trainable/", 10) != 0 || e->rank != 2)
    return;
  float limit = e->dims[0] == PIXELS ? limits[0] : e->dims[1] == CLASSES ? limits[2] : limits[1];
  for (int64_t i = 0; i < e->dims[0] * e->dims[1]; i++)
    x[i] = limit * uniform(random);
}

static qn_status make_init(train_kit *k) {
  const qn_layout *l = &qn_step_plan(k->step)->args[0];
  uint32_t random = 2024;
  k->init = calloc(1, (size_t)l->bytes + 1);
  if (!k->init)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a state");
  for (size_t i = 0; i < l->count; i++)
    fill_leaf(&l->entries[i], (float *)(void *)(k->init + l->entries[i].offset), &random);
  return QN_OK;
}

qn_status train_kit_reset(train_kit *k) {
  const qn_layout *l = qn_tensors_layout(k->state);
  for (size_t i = 0; i < l->count; i++)
    QN_TRY(qn_tensors_write_at(k->state, i, k->init + l->entries[i].offset));
  return QN_OK;
}

/* ---- batches ---- */

/* Without the data set: a bar whose place is the class, and noise. */
static void make_up(size_t row, float *x, size_t *out_class) {
  uint32_t random = (uint32_t)row * 2654435761u + 17;
  *out_class = row % CLASSES;
  for (size_t i = 0; i < PIXELS; i++)
    x[i] = (i / 28 / 3 == *out_class ? 0.7f : 0.1f) + 0.1f * uniform(&random);
}

qn_status train_kit_fill(train_kit *k, int which, size_t first) {
  static float x[TRAIN_MAX_BATCH * PIXELS], y[TRAIN_MAX_BATCH * CLASSES];
  memset(y, 0, sizeof y);
  for (size_t i = 0; i < (size_t)k->batch; i++) {
    size_t row = first + i, class = 0;
    if (k->images.count) {
      row %= k->images.count;
      for (size_t j = 0; j < PIXELS; j++)
        x[i * PIXELS + j] = (float)k->images.pixels[row * PIXELS + j] / 255.0f;
      class = k->images.labels[row];
    } else {
      make_up(row, x + i * PIXELS, &class);
    }
    y[i * CLASSES + class] = 1;
  }
  QN_TRY(qn_tensors_write(k->batches[which], "x", x));
  return qn_tensors_write(k->batches[which], "y", y);
}

/* ---- open and close ---- */

static qn_status compile(train_kit *k, void (*edit)(qn_plan *p)) {
  size_t count;
  const qn_program_def *program = qn_programs(&count);
  const qn_train_options options = {.batch = k->batch};
  qn_compile_desc desc;
  qn_plan *plan;
  QN_TRY(program->trace(&options, &k->traced, &desc));
  QN_TRY(qn_compile(qn_device_get_caps(k->device), &k->traced, &desc, &plan));
  if (edit)
    edit(plan);
  return qn_step_create(k->device, plan, NULL, &k->step);
}

static qn_status make_tensors(train_kit *k) {
  const qn_plan *p = qn_step_plan(k->step);
  QN_TRY(qn_tensors_create(k->device, &p->args[0], "state", &k->state));
  for (int i = 0; i < TRAIN_BATCHES; i++)
    QN_TRY(qn_tensors_create(k->device, &p->args[1], "batch", &k->batches[i]));
  QN_TRY(make_init(k));
  QN_TRY(train_kit_reset(k));
  for (int i = 0; i < TRAIN_BATCHES; i++)
    QN_TRY(train_kit_fill(k, i, (size_t)i * (size_t)k->batch));
  return QN_OK;
}

qn_status train_kit_open(const char *which, int batch, void (*edit)(qn_plan *p), train_kit *out) {
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  *out = (train_kit){.batch = batch};
  QN_TRY(qn_device_open(drivers, count, which, &out->device));
  if (qn_file_exists(QN_FASHION_MNIST_DIR) &&
      qn_images_load(QN_FASHION_MNIST_DIR, true, 0, ROWS, &out->images) != QN_OK)
    memset(&out->images, 0, sizeof out->images);
  qn_status st = compile(out, edit);
  return st == QN_OK ? make_tensors(out) : st;
}

void train_kit_close(train_kit *k) {
  for (int i = 0; i < TRAIN_BATCHES; i++)
    qn_tensors_release(k->batches[i]);
  qn_tensors_release(k->state);
  qn_step_release(k->step);
  qn_traced_free(&k->traced);
  qn_images_free(&k->images);
  free(k->init);
  if (k->device)
    qn_device_release(k->device);
  memset(k, 0, sizeof *k);
}

/* ---- steps ---- */

qn_status train_kit_steps(train_kit *k, size_t first, size_t count, float *out_losses) {
  qn_tensors *result;
  for (size_t i = 0; i < count; i++) {
    int b = (int)((first + i) % TRAIN_BATCHES);
    QN_TRY(train_kit_fill(k, b, (first + i) * (size_t)k->batch));
    qn_tensors *const args[] = {k->state, k->batches[b]};
    QN_TRY(qn_step_call(k->step, args, 2, &result, NULL));
    if (out_losses)
      QN_TRY(qn_tensors_read(result, "loss", &out_losses[i]));
  }
  return qn_step_wait(k->step);
}

qn_status train_kit_spin(train_kit *k, size_t count) {
  for (size_t i = 0; i < count; i++) {
    qn_tensors *const args[] = {k->state, k->batches[i % TRAIN_BATCHES]};
    QN_TRY(qn_step_call(k->step, args, 2, NULL, NULL));
  }
  return qn_step_wait(k->step);
}

qn_status train_kit_digest(train_kit *k, qn_digest *out_digest) {
  const qn_layout *l = qn_tensors_layout(k->state);
  uint8_t *bytes = calloc(1, (size_t)l->bytes + 1);
  qn_status st = bytes ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for a state");
  for (size_t i = 0; i < l->count && st == QN_OK; i++)
    st = qn_tensors_read_at(k->state, i, bytes + l->entries[i].offset);
  if (st == QN_OK)
    *out_digest = qn_digest_bytes(bytes, (size_t)l->bytes);
  free(bytes);
  return st;
}

/* ---- plans ---- */

size_t train_launches(const qn_plan *p) {
  size_t n = 0;
  for (size_t i = 0; i < p->cmd_count; i++)
    n += p->cmds[i].kind == QN_CMD_LAUNCH;
  return n;
}

size_t train_update_launches(const qn_plan *p) {
  size_t n = 0;
  for (size_t i = 0; i < p->cmd_count; i++) {
    const char *label = p->cmds[i].kind == QN_CMD_LAUNCH ? p->cmds[i].label : "";
    n += strstr(label, "adam.c") && !strstr(label, "dot_general") && !strstr(label, "reduce");
  }
  return n;
}
