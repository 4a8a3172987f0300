/* MNIST by a dense network: the custom training loop of "Keras in JAX", in C.
 *
 * 784-64-64-10 with ReLU, categorical cross-entropy from logits, Adam 1e-3. The loss function calls the model statelessly, value_and_grad
 * differentiates it, the optimizer is applied statelessly, and one jitted step takes the state (trainable, non-trainable, optimizer, metrics)
 * and gives it back. With --batchnorm the network has batch normalisation, dropout and an activity penalty. */
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#include "quern/autodiff.h"
#include "quern/data.h"
#include "quern/losses.h"
#include "quern/model.h"
#include "quern/optim.h"

enum { PIXELS = 784, CLASSES = 10, TRAIN_ROWS = 50000, VALIDATION_ROWS = 10000, SHUFFLE_BUFFER = 1024 };

typedef struct mnist {
  qn_model *model;
  qn_adam adam;
  const qn_metric *accuracy;
  qn_images train, test; /* the last 10,000 training images validate */
  float pixel_scale;
} mnist;

static qn_status build_model(mnist *p, bool batchnorm) {
  const qn_layer plain[] = {
      qn_dense(64, qn_act_relu),
      qn_dense(64, qn_act_relu),
      qn_dense(CLASSES, NULL),
  };
  const qn_layer regularised[] = {
      qn_dense(64, qn_act_relu), qn_activity_sum(1e-2),     qn_batch_normalization(),
      qn_dropout(0.25, 1),       qn_dense(64, qn_act_relu), qn_dense(CLASSES, NULL),
  };
  qn_type input = qn_type_of(QN_F32, 2, 32, PIXELS);
  p->accuracy = &qn_metric_categorical_accuracy;
  if (batchnorm)
    return qn_sequential("mnist_mlp", &input, regularised, sizeof regularised / sizeof *regularised, &p->model);
  return qn_sequential("mnist_mlp", &input, plain, sizeof plain / sizeof *plain, &p->model);
}

/* ---- the stateless functions ---- */

/* args: trainable, non-trainable, metrics, batch */
static qn_val loss_fn(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  const mnist *p = user;
  qn_val x = qn_tree_get(args[3], "x"), y = qn_tree_get(args[3], "y");
  qn_model_result out = qn_model_apply(p->model, args[0], args[1], x, true);
  qn_val loss = qn_add(qn_categorical_crossentropy_from_logits(y, out.y), out.losses);
  *out_aux = qn_tree_create(g);
  qn_tree_put(*out_aux, "non_trainable", out.non_trainable);
  qn_tree_put(*out_aux, "metrics", qn_totals_update(args[2], loss, qn_accuracy_hits(y, out.y)));
  return loss;
}

/* args: state, batch */
static qn_tree *train_step(qn_graph *g, qn_tree *const *args, void *user) {
  const mnist *p = user;
  qn_tree *trainable = qn_tree_sub(args[0], "trainable"), *non_trainable = qn_tree_part(args[0], "non_trainable");
  qn_tree *optimizer = qn_tree_sub(args[0], "optimizer"), *metrics = qn_tree_sub(args[0], "metrics");
  qn_tree *const loss_args[] = {trainable, non_trainable, metrics, args[1]};
  qn_value_grad r = qn_value_and_grad(g, loss_fn, user, loss_args, 4, &(qn_grad_desc){.has_aux = true});
  qn_update u = qn_adam_apply(&p->adam, optimizer, r.grads[0], trainable);
  qn_tree *result = qn_tree_create(g);
  qn_tree_put(result, "state/trainable", u.params);
  qn_tree_put(result, "state/non_trainable", qn_tree_part(r.aux, "non_trainable"));
  qn_tree_put(result, "state/optimizer", u.state);
  qn_tree_put(result, "state/metrics", qn_tree_sub(r.aux, "metrics"));
  qn_tree_set(result, "loss", r.value);
  return result;
}

/* args: state, totals, batch */
static qn_tree *eval_step(qn_graph *g, qn_tree *const *args, void *user) {
  const mnist *p = user;
  qn_val x = qn_tree_get(args[2], "x"), y = qn_tree_get(args[2], "y");
  qn_model_result out =
      qn_model_apply(p->model, qn_tree_sub(args[0], "trainable"), qn_tree_part(args[0], "non_trainable"), x, false);
  qn_val loss = qn_categorical_crossentropy_from_logits(y, out.y);
  qn_tree *result = qn_tree_create(g);
  qn_tree_put(result, "totals", qn_totals_update(args[1], loss, qn_accuracy_hits(y, out.y)));
  qn_tree_set(result, "prediction", qn_argmax(out.y, -1));
  return result;
}

/* args: key */
static qn_tree *init(qn_graph *g, qn_tree *const *args, void *user) {
  const mnist *p = user;
  qn_tree *state = qn_tree_create(g), *trainable, *non_trainable;
  qn_model_init(p->model, qn_tree_get(args[0], "key"), &trainable, &non_trainable);
  qn_tree_put(state, "trainable", trainable);
  qn_tree_put(state, "non_trainable", non_trainable);
  qn_tree_put(state, "optimizer", qn_adam_init(&p->adam, g, qn_model_trainable(p->model)));
  qn_tree_put(state, "metrics", qn_totals_zero(g));
  return state;
}

/* ---- data ---- */

static qn_status batch_def(void *user, int64_t rows, qn_treedef *out_batch) {
  (void)user;
  QN_TRY(qn_treedef_add(out_batch, "x", qn_type_of(QN_F32, 2, rows, PIXELS)));
  return qn_treedef_add(out_batch, "y", qn_type_of(QN_F32, 2, rows, CLASSES));
}

/* Rows `first` + rows[i] of the images, as floats and one-hot labels; pixels may still be on their way. */
static qn_status fill(const mnist *p, const qn_images *im, size_t first, const uint32_t *rows, size_t count,
                      void *const *leaves) {
  float *x = leaves[0], *y = leaves[1];
  memset(y, 0, count * CLASSES * sizeof *y);
  for (size_t i = 0; i < count; i++) {
    size_t row = first + rows[i];
    QN_TRY(qn_images_wait(im, row + 1));
    const uint8_t *pixels = im->pixels + row * PIXELS;
    for (size_t j = 0; j < PIXELS; j++)
      x[i * PIXELS + j] = (float)pixels[j] * p->pixel_scale;
    y[i * CLASSES + im->labels[row]] = 1;
  }
  return QN_OK;
}

static qn_status fill_train(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  const mnist *p = user;
  return fill(p, &p->train, 0, rows, count, leaves);
}

static qn_status fill_validation(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  const mnist *p = user;
  return fill(p, &p->train, TRAIN_ROWS, rows, count, leaves);
}

static qn_status fill_test(void *user, const uint32_t *rows, size_t count, void *const *leaves) {
  const mnist *p = user;
  return fill(p, &p->test, 0, rows, count, leaves);
}

static const uint8_t *test_image(void *user, size_t row) { return ((mnist *)user)->test.pixels + row * PIXELS; }

static qn_status load(mnist *p, const char *dir) {
  const char *from = dir ? dir : QN_FASHION_MNIST_DIR;
  QN_TRY(qn_images_begin(from, true, &p->train));
  QN_TRY(qn_images_begin(from, false, &p->test));
  if (p->train.count < TRAIN_ROWS + VALIDATION_ROWS)
    return QN_ERR(QN_INVALID, "mnist_mlp: %s has %zu training images, expected at least %d", from, p->train.count,
                  TRAIN_ROWS + VALIDATION_ROWS);
  const qn_images *all[] = {&p->train, &p->test};
  for (size_t i = 0; i < 2; i++)
    if (all[i]->rows * all[i]->columns != PIXELS)
      return QN_ERR(QN_INVALID, "mnist_mlp: images in %s are %zux%zu, expected 28x28", from, all[i]->rows,
                    all[i]->columns);
  return QN_OK;
}

/* ---- the program ---- */

static const char *const garments[CLASSES] = {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                              "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
static const char *const digits[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

static qn_fit describe(mnist *p, const qn_train_options *o) {
  return (qn_fit){
      .name = "mnist_mlp",
      .user = p,
      .init = init,
      .train_step = train_step,
      .eval_step = eval_step,
      .totals = qn_totals_fn,
      .metrics = "metrics",
      .batch = batch_def,
      .train = {"train", TRAIN_ROWS, fill_train, p},
      .validation = {"validation", VALIDATION_ROWS, fill_validation, p},
      .test = {"test", p->test.count, fill_test, p},
      .shuffle_buffer = SHUFFLE_BUFFER,
      .class_names = o->data ? digits : garments,
      .class_count = CLASSES,
      .image_rows = 28,
      .image_columns = 28,
      .image = test_image,
      .test_labels = p->test.labels,
  };
}

static void clear(mnist *p) {
  qn_images_free(&p->train);
  qn_images_free(&p->test);
  qn_model_free(p->model);
}

static qn_status train(qn_device *d, const qn_train_options *o) {
  mnist p = {.pixel_scale = o->scale ? 1.0f / 255.0f : 1.0f};
  qn_status st = build_model(&p, o->batchnorm);
  if (st == QN_OK)
    st = load(&p, o->data);
  if (st == QN_OK) {
    qn_fit fit = describe(&p, o);
    st = qn_fit_run(d, &fit, o);
  }
  clear(&p);
  return st;
}

static qn_status trace(const qn_train_options *o, qn_traced *out_traced, qn_compile_desc *out_desc) {
  mnist p = {0};
  qn_status st = build_model(&p, o->batchnorm);
  if (st == QN_OK) {
    qn_fit fit = describe(&p, o);
    st = qn_fit_trace(&fit, o->batch ? o->batch : 32, out_traced, out_desc);
  }
  clear(&p);
  return st;
}

const qn_program_def qn_program_mnist_mlp = {
    .name = "mnist_mlp",
    .summary = "dense network 784-64-64-10 on Fashion-MNIST (or MNIST with --data)",
    .train = train,
    .trace = trace,
    .epochs = 5,
    .batch = 32,
};
