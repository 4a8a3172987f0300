/* The recorded training of a dense network (seed_mlp_keras_jax): the library's own model, loss, metric and optimizers, one jitted step with a
 * donated state, on the recorded rows of Fashion-MNIST. */
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "quern/autodiff.h"
#include "quern/data.h"
#include "quern/losses.h"
#include "quern/model.h"
#include "quern/optim.h"

enum { PIXELS = 784, CLASSES = 10, ROWS = 32, STEPS_MOST = 256, VALIDATION = 50000 };

/* ---- models and steps ---- */

typedef enum mlp_kind { KIND_GRADIENTS, KIND_KERAS, KIND_OPTAX, KIND_REGULARISED, KIND_EVALUATE, KINDS } mlp_kind;

typedef struct network {
  mlp_kind kind;
  qn_model *model;
  qn_adam keras;
  qn_optax_adam optax;
} network;

static qn_layer named(qn_layer l, const char *name) {
  l.name = name;
  return l;
}

static qn_status build_model(network *n) {
  qn_type input = qn_type_of(QN_F32, 2, ROWS, PIXELS);
  const qn_layer first = named(qn_dense(64, qn_act_relu), "dense1"),
                 second = named(qn_dense(64, qn_act_relu), "dense2"),
                 last = named(qn_dense(CLASSES, NULL), "predictions");
  const qn_layer plain[] = {first, second, last};
  const qn_layer regularised[] = {first,
                                  qn_activity_sum(1e-2),
                                  named(qn_batch_normalization(), "bn"),
                                  named(qn_dropout_by_mask(0.25), "dropout"),
                                  second,
                                  last};
  if (n->kind == KIND_REGULARISED)
    return qn_sequential("mlp", &input, regularised, sizeof regularised / sizeof *regularised, &n->model);
  return qn_sequential("mlp", &input, plain, sizeof plain / sizeof *plain, &n->model);
}

/* args: trainable, non-trainable, metric, batch */
static qn_val loss_fn(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  const network *n = user;
  qn_val y = qn_tree_get(args[3], "y");
  qn_model_result out = qn_model_apply(n->model, args[0], args[1], qn_tree_get(args[3], "x"), true);
  *out_aux = qn_tree_create(g);
  qn_tree_put(*out_aux, "non_trainable", out.non_trainable);
  qn_tree_put(*out_aux, "metric", qn_metric_categorical_accuracy.update(args[2], y, out.y));
  qn_tree_set(*out_aux, "logits", out.y);
  qn_tree_set(*out_aux, "activity", out.losses);
  return qn_add(qn_categorical_crossentropy_from_logits(y, out.y), out.losses);
}

static qn_tree *train_step(qn_graph *g, qn_tree *const *args, void *user) {
  const network *n = user;
  qn_tree *trainable = qn_tree_sub(args[0], "trainable"), *result = qn_tree_create(g);
  qn_tree *const loss_args[] = {trainable, qn_tree_part(args[0], "non_trainable"), qn_tree_sub(args[0], "metric"),
                                args[1]};
  qn_value_grad r = qn_value_and_grad(g, loss_fn, user, loss_args, 4, &(qn_grad_desc){.has_aux = true});
  if (!result || !r.grads[0])
    return result;
  qn_tree_set(result, "loss", r.value);
  if (n->kind == KIND_GRADIENTS) {
    qn_tree_put(result, "state", args[0]);
    qn_tree_put(result, "grad", r.grads[0]);
    qn_tree_set(result, "logits", qn_tree_get(r.aux, "logits"));
    return result;
  }
  qn_tree *optimizer = qn_tree_sub(args[0], "optimizer");
  qn_update u = n->kind == KIND_OPTAX ? qn_optax_adam_apply(&n->optax, optimizer, r.grads[0], trainable)
                                      : qn_adam_apply(&n->keras, optimizer, r.grads[0], trainable);
  qn_tree_put(result, "state/trainable", u.params);
  qn_tree_put(result, "state/non_trainable", qn_tree_part(r.aux, "non_trainable"));
  qn_tree_put(result, "state/optimizer", u.state);
  qn_tree_put(result, "state/metric", qn_tree_sub(r.aux, "metric"));
  qn_tree_set(result, "activity", qn_tree_get(r.aux, "activity"));
  return result;
}

static qn_tree *evaluate_step(qn_graph *g, qn_tree *const *args, void *user) {
  const network *n = user;
  qn_val y = qn_tree_get(args[1], "y");
  qn_tree *trainable = qn_tree_sub(args[0], "trainable"), *result = qn_tree_create(g);
  qn_model_result out =
      qn_model_apply(n->model, trainable, qn_tree_part(args[0], "non_trainable"), qn_tree_get(args[1], "x"), false);
  if (!result)
    return NULL;
  qn_tree_put(result, "state/trainable", trainable);
  qn_tree_put(result, "state/metric", qn_metric_categorical_accuracy.update(qn_tree_sub(args[0], "metric"), y, out.y));
  qn_tree_set(result, "loss", qn_categorical_crossentropy_from_logits(y, out.y));
  return result;
}

static qn_status define(const network *n, qn_treedef *state, qn_treedef *batch) {
  qn_treedef part = {0};
  qn_status st = QN_OK;
  QN_TRY(qn_treedef_put(state, "trainable", qn_model_trainable(n->model)));
  QN_TRY(qn_treedef_put(state, "non_trainable", qn_model_non_trainable(n->model)));
  if (n->kind == KIND_KERAS || n->kind == KIND_REGULARISED)
    QN_TRY_GOTO(st, qn_adam_state(&n->keras, qn_model_trainable(n->model), &part), done);
  if (n->kind == KIND_OPTAX)
    QN_TRY_GOTO(st, qn_optax_adam_state(&n->optax, qn_model_trainable(n->model), &part), done);
  QN_TRY_GOTO(st, qn_treedef_put(state, "optimizer", &part), done);
  qn_treedef_free(&part);
  QN_TRY_GOTO(st, qn_metric_categorical_accuracy.state(&part), done);
  QN_TRY_GOTO(st, qn_treedef_put(state, "metric", &part), done);
  QN_TRY_GOTO(st, qn_treedef_add(batch, "x", qn_type_of(QN_F32, 2, ROWS, PIXELS)), done);
  QN_TRY_GOTO(st, qn_treedef_add(batch, "y", qn_type_of(QN_F32, 2, ROWS, CLASSES)), done);
done:
  qn_treedef_free(&part);
  return st;
}

/* ---- a suite's run ---- */

typedef struct mlp {
  replay_run *run;
  qn_images images;
  network networks[KINDS];
  replay_machine machines[KINDS];
  bool made[KINDS];
} mlp;

/* What a case leaves behind, step by step. */
typedef struct trail {
  size_t steps, window;
  float losses[STEPS_MOST], activity[STEPS_MOST], total[STEPS_MOST], count[STEPS_MOST];
} trail;

static qn_status machine_of(mlp *m, mlp_kind k, replay_machine **out) {
  *out = &m->machines[k];
  if (m->made[k])
    return QN_OK;
  qn_treedef state = {0}, batch = {0};
  network *n = &m->networks[k];
  qn_status st = QN_OK;
  n->kind = k;
  QN_TRY(build_model(n));
  QN_TRY_GOTO(st, define(n, &state, &batch), done);
  QN_TRY_GOTO(
      st,
      qn_replay_machine_create(m->run, "mlp", k == KIND_EVALUATE ? evaluate_step : train_step, n, &state, &batch, *out),
      done);
  m->made[k] = true;
done:
  qn_treedef_free(&state);
  qn_treedef_free(&batch);
  if (st != QN_OK) {
    qn_model_free(n->model);
    n->model = NULL;
  }
  return st;
}

/* ---- names: recorded ones to the state's paths ---- */

/* "dense_1_kernel_momentum" -> "optimizer/momentum/dense2/kernel" */
static bool slot_path(const char *name, char *out, size_t size) {
  static const char *const layers[][2] = {
      {"dense_1_", "dense2"}, {"dense_", "dense1"}, {"predictions_", "predictions"}};
  static const char *const rest[][3] = {{"kernel_momentum", "momentum", "kernel"},
                                        {"kernel_velocity", "velocity", "kernel"},
                                        {"bias_momentum", "momentum", "bias"},
                                        {"bias_velocity", "velocity", "bias"}};
  if (strcmp(name, "iteration") == 0 || strcmp(name, "learning_rate") == 0) {
    (void)snprintf(out, size, "optimizer/%s", name);
    return true;
  }
  for (size_t l = 0; l < 3; l++) {
    size_t n = strlen(layers[l][0]);
    if (strncmp(name, layers[l][0], n) != 0)
      continue;
    for (size_t k = 0; k < 4; k++)
      if (strcmp(name + n, rest[k][0]) == 0) {
        (void)snprintf(out, size, "optimizer/%s/%s/%s", rest[k][1], layers[l][1], rest[k][2]);
        return true;
      }
  }
  return false;
}

static const char *behind(const char *name, const char *mark) {
  const char *at = strstr(name, mark);
  return at ? at + strlen(mark) : NULL;
}

/* A recorded tensor's place in the state, e.g. ".../w0/dense1/kernel". */
static bool state_path(const replay_machine *m, const char *name, char *out, size_t size) {
  static const char *const weights[] = {"/w0/", "/v0/", "/w/", "/nontrainable/"};
  if (behind(name, "/slot/"))
    return slot_path(behind(name, "/slot/"), out, size);
  for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
    const char *path = behind(name, weights[i]);
    if (!path)
      continue;
    (void)snprintf(out, size, "trainable/%s", path);
    if (!qn_replay_machine_type(m, out))
      (void)snprintf(out, size, "non_trainable/%s", path);
    return qn_replay_machine_type(m, out) != NULL;
  }
  bool total = behind(name, "/metric_total") != NULL, count = behind(name, "/metric_count") != NULL;
  (void)snprintf(out, size, "metric/%s", total ? "total" : "count");
  return total || count;
}

/* ---- running a case ---- */

static qn_status begin(replay_machine *m, const qn_safetensor *const *in, size_t count) {
  float rate = 1e-3F;
  char path[256];
  const qn_treedef *state = &m->traced.args[0];
  for (size_t i = 0; i < state->count; i++) { /* slots and metrics start at zero */
    void *zeros = calloc((size_t)qn_type_bytes(&state->leaves[i].type) + 8, 1);
    if (!zeros)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a state");
    qn_status st = qn_replay_machine_set(m, false, state->leaves[i].path, zeros);
    free(zeros);
    QN_TRY(st);
  }
  if (qn_replay_machine_type(m, "optimizer/learning_rate"))
    QN_TRY(qn_replay_machine_set(m, false, "optimizer/learning_rate", &rate));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(in[i]->name, "shared/batch_indices") == 0 || strcmp(in[i]->name, "shared/dropout_masks") == 0)
      continue;
    if (!state_path(m, in[i]->name, path, sizeof path) || !qn_replay_machine_type(m, path))
      return QN_ERR(QN_CORRUPT, "input '%s' is no part of the state", in[i]->name);
    if (!qn_type_equal(qn_replay_machine_type(m, path), &in[i]->type))
      return QN_ERR(QN_CORRUPT, "input '%s' is %s, expected %s", in[i]->name, qn_type_str(&in[i]->type),
                    qn_type_str(qn_replay_machine_type(m, path)));
    QN_TRY(qn_replay_machine_set(m, false, path, in[i]->data));
  }
  return QN_OK;
}

static qn_status set_batch(const mlp *m, replay_machine *to, const int32_t *rows, float scale) {
  float *x = malloc(sizeof(float) * ROWS * PIXELS), y[ROWS * CLASSES] = {0};
  qn_status st = x ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory for a batch");
  for (size_t i = 0; st == QN_OK && i < ROWS; i++) {
    size_t row = (size_t)rows[i];
    if (rows[i] < 0 || row >= m->images.count) {
      st = QN_ERR(QN_CORRUPT, "row %ld is none of the %zu images", (long)rows[i], m->images.count);
      break;
    }
    for (size_t k = 0; k < PIXELS; k++)
      x[i * PIXELS + k] = (float)m->images.pixels[row * PIXELS + k] * scale;
    y[i * CLASSES + m->images.labels[row]] = 1;
  }
  if (st == QN_OK)
    st = qn_replay_machine_set(to, true, "x", x);
  if (st == QN_OK)
    st = qn_replay_machine_set(to, true, "y", y);
  free(x);
  return st;
}

static qn_status step_once(mlp *m, mlp_kind k, replay_machine *to, const cJSON *item, size_t step, trail *t) {
  const qn_safetensor *order = qn_safetensors_find(m->run->suite->tensors, "shared/batch_indices"),
                      *masks = qn_safetensors_find(m->run->suite->tensors, "shared/dropout_masks");
  size_t row = step + (size_t)qn_replay_number(qn_replay_get(item, "config"), "start_step", 0);
  bool scaled = strncmp(qn_replay_text(item, "id"), "mlp_scaled/", 11) == 0;
  int32_t rows[ROWS];
  if (!order || order->type.dtype != QN_I32 || order->type.rank != 2 || order->type.dims[1] != ROWS ||
      (int64_t)row >= order->type.dims[0])
    return QN_ERR(QN_CORRUPT, "shared/batch_indices has no row %zu of %d numbers", row, ROWS);
  memcpy(rows, (const int32_t *)order->data + row * ROWS, sizeof rows);
  for (int32_t i = 0; k == KIND_EVALUATE && i < ROWS; i++)
    rows[i] = VALIDATION + (int32_t)step * ROWS + i;
  QN_TRY(set_batch(m, to, rows, scaled ? 1.0F / 255.0F : 1.0F));
  if (k == KIND_REGULARISED) {
    if (!masks || masks->type.dtype != QN_BOOL || masks->type.rank != 3 || (int64_t)row >= masks->type.dims[0])
      return QN_ERR(QN_CORRUPT, "shared/dropout_masks has no mask %zu", row);
    QN_TRY(
        qn_replay_machine_set(to, false, "non_trainable/dropout/keep", (const uint8_t *)masks->data + row * ROWS * 64));
  }
  QN_TRY(qn_replay_machine_call(to));
  QN_TRY(qn_replay_machine_get(to, "result/loss", &t->losses[step]));
  if (k == KIND_KERAS || k == KIND_REGULARISED)
    QN_TRY(qn_replay_machine_get(to, "result/activity", &t->activity[step]));
  QN_TRY(qn_replay_machine_get(to, "metric/total", &t->total[step]));
  QN_TRY(qn_replay_machine_get(to, "metric/count", &t->count[step]));
  t->steps = step + 1;
  return QN_OK;
}

/* ---- results by recorded name ---- */

static bool copy_series(const float *from, size_t steps, const qn_type *t, void *out) {
  size_t n = (size_t)qn_type_elements(t);
  if (t->dtype != QN_F32 || n > steps || steps == 0)
    return false;
  memcpy(out, t->rank == 0 ? &from[steps - 1] : from, n * sizeof *from);
  return true;
}

static bool from_trail(const trail *t, const char *name, const qn_type *type, void *out) {
  if (strcmp(name, "losses") == 0 || strcmp(name, "loss") == 0)
    return copy_series(t->losses, t->steps, type, out);
  if (strcmp(name, "activity_losses") == 0)
    return copy_series(t->activity, t->steps, type, out);
  if (strcmp(name, "metric_total") == 0)
    return copy_series(t->total, t->steps, type, out);
  if (strcmp(name, "metric_count") == 0)
    return copy_series(t->count, t->steps, type, out);
  float one[STEPS_MOST];
  if (strcmp(name, "accuracy") == 0 || strcmp(name, "val_accuracy") == 0) {
    one[0] = t->total[t->steps - 1] / t->count[t->steps - 1];
    return copy_series(one, 1, type, out);
  }
  if (strcmp(name, "window_mean_loss") != 0 || t->window == 0)
    return false;
  for (size_t w = 0; w < t->steps / t->window; w++) {
    double sum = 0;
    for (size_t i = 0; i < t->window; i++)
      sum += (double)t->losses[w * t->window + i];
    one[w] = (float)(sum / (double)t->window);
  }
  return copy_series(one, t->steps / t->window, type, out);
}

static qn_status value_of(replay_machine *m, const trail *t, const qn_safetensor *want, void *out) {
  const char *name = behind(want->name, "/out/");
  char path[256];
  if (!name)
    return QN_ERR(QN_CORRUPT, "output '%s' has no name behind /out/", want->name);
  if (from_trail(t, name, &want->type, out))
    return QN_OK;
  if (strncmp(name, "grad/", 5) == 0 || strcmp(name, "logits") == 0)
    (void)snprintf(path, sizeof path, "result/%s", name);
  else if (!state_path(m, want->name, path, sizeof path))
    return QN_ERR(QN_CORRUPT, "output '%s' is nothing that a step gives", want->name);
  const qn_type *type = qn_replay_machine_type(m, path);
  if (!type || !qn_type_equal(type, &want->type))
    return QN_ERR(QN_CORRUPT, "output '%s' is %s, expected %s", want->name, type ? qn_type_str(type) : "not there",
                  qn_type_str(&want->type));
  return qn_replay_machine_get(m, path, out);
}

static qn_status compare(mlp *m, size_t index, replay_machine *machine, const trail *t) {
  const cJSON *item = m->run->suite->cases[index];
  const qn_safetensor *want[REPLAY_TENSORS];
  size_t count;
  QN_TRY(qn_replay_tensors(m->run->suite, qn_replay_get(item, "outputs"), want, REPLAY_TENSORS, &count));
  for (size_t i = 0; i < count; i++) {
    char why[256];
    void *got = calloc(want[i]->bytes + 8, 1);
    qn_status st = got ? value_of(machine, t, want[i], got) : QN_ERR(QN_OUT_OF_MEMORY, "no memory for a result");
    bool same = st == QN_OK && qn_replay_matches(&want[i]->type, got, want[i]->data, qn_replay_number(item, "rtol", 0),
                                                 qn_replay_number(item, "atol", 0), why, sizeof why);
    free(got);
    QN_TRY(st);
    if (!same) {
      qn_replay_fail(m->run, index, "%s: %s", behind(want[i]->name, "/out/"), why);
      return QN_OK;
    }
  }
  qn_replay_pass(m->run, index);
  return QN_OK;
}

static mlp_kind kind_of(const cJSON *item) {
  const char *kind = qn_replay_text(item, "kind"), *id = qn_replay_text(item, "id");
  const char *optimizer = qn_replay_text(qn_replay_get(qn_replay_get(item, "config"), "optimizer"), "name");
  if (strcmp(kind, "eval") == 0)
    return KIND_EVALUATE;
  if (strcmp(kind, "train_step_internals") == 0)
    return KIND_GRADIENTS;
  if (strncmp(id, "mlp_bn_", 7) == 0)
    return KIND_REGULARISED;
  return strcmp(optimizer, "optax.adam") == 0 ? KIND_OPTAX : KIND_KERAS;
}

static qn_status run_case(mlp *m, size_t index, trail *t) {
  const cJSON *item = m->run->suite->cases[index], *config = qn_replay_get(item, "config");
  const qn_safetensor *in[REPLAY_TENSORS];
  size_t count, steps = (size_t)qn_replay_number(config, "steps", 1);
  mlp_kind k = kind_of(item);
  replay_machine *machine;
  memset(t, 0, sizeof *t);
  t->window = (size_t)qn_replay_number(config, "window", 0);
  steps = k == KIND_EVALUATE ? 10 : steps > STEPS_MOST ? STEPS_MOST : steps;
  QN_TRY(qn_replay_tensors(m->run->suite, qn_replay_get(item, "inputs"), in, REPLAY_TENSORS, &count));
  QN_TRY(machine_of(m, k, &machine));
  QN_TRY(begin(machine, in, count));
  for (size_t i = 0; i < steps; i++) {
    if (qn_replay_over(m->run))
      return QN_ERR(QN_TIMEOUT, "not finished: step %zu of %zu when the time was over", i, steps);
    QN_TRY(step_once(m, k, machine, item, i, t));
  }
  return compare(m, index, machine, t);
}

void qn_replay_mlp(replay_run *r) {
  mlp *m = calloc(1, sizeof *m);
  trail *t = calloc(1, sizeof *t);
  qn_status st = m && t ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory");
  if (st == QN_OK) {
    m->run = r;
    st = qn_images_load(r->data, true, 0, 0, &m->images);
  }
  if (st == QN_OK && m->images.rows * m->images.columns != PIXELS)
    st = QN_ERR(QN_INVALID, "images in %s are %zux%zu, expected 28x28", r->data, m->images.rows, m->images.columns);
  for (size_t i = 0; i < r->suite->case_count && !qn_replay_over(r); i++) {
    if (!r->wanted[i])
      continue;
    if (st != QN_OK || run_case(m, i, t) != QN_OK)
      qn_replay_fail(r, i, "%s", qn_error_message());
  }
  for (int k = 0; m && k < KINDS; k++) {
    if (m->made[k])
      qn_replay_machine_free(&m->machines[k]);
    qn_model_free(m->networks[k].model);
  }
  if (m)
    qn_images_free(&m->images);
  free(t);
  free(m);
}
