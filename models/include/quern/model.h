/* Models as stateless functions: layers describe variables and an apply, and hold no values.
 *
 * A model is built once from layers and an input type. Its variables are trees: `trainable` (learnt by gradients) and `non_trainable` (moving
 * statistics, seeds), which go into every apply and come out again. Names, defaults and formulas are those of Keras 3. */
#ifndef QUERN_MODEL_H
#define QUERN_MODEL_H

#include "quern/ops.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- activations and initializers: functions with a name ---- */
typedef qn_val (*qn_activation)(qn_val x);
qn_val qn_act_linear(qn_val x);
qn_val qn_act_relu(qn_val x);
qn_val qn_act_sigmoid(qn_val x);
qn_val qn_act_tanh(qn_val x);
/* A value of `type` from a key (u32[2]). fan_in and fan_out are worked out from the shape as Keras does (last two axes, the others receptive field). */
typedef qn_val (*qn_initializer)(qn_val key, qn_type type);
qn_val qn_init_zeros(qn_val key, qn_type type);
qn_val qn_init_ones(qn_val key, qn_type type);
qn_val qn_init_glorot_uniform(qn_val key, qn_type type); /* U(-l, l), l = sqrt(6 / (fan_in + fan_out)) */

/* ---- layers ---- */
typedef struct qn_layer qn_layer;
typedef struct qn_variable {
  char path[64]; /* below the layer's name: "kernel" */
  qn_type type;
  qn_initializer init;
  bool trainable;
} qn_variable;

/* What a layer's apply sees. */
typedef struct qn_apply {
  qn_graph *g;
  const qn_layer *layer;
  const qn_tree *trainable, *non_trainable; /* this layer's, without its name */
  qn_tree *updated;                         /* takes this layer's new non-trainable values; those not set are kept */
  bool training;
  qn_val loss; /* added penalties so far; null: none */
} qn_apply;

enum { QN_LAYER_VARIABLES = 8 };
typedef struct qn_layer_kind {
  const char *name; /* "dense" */
  /* Fills variables for an input type and gives the result type. */
  qn_status (*build)(const qn_layer *layer, const qn_type *in, qn_variable *out_variables, size_t *out_count,
                     qn_type *out_type);
  qn_val (*apply)(qn_apply *a, qn_val x);
} qn_layer_kind;

/* A description by value; zero fields are defaults. */
struct qn_layer {
  const qn_layer_kind *kind;
  const char *name;                      /* NULL: kind name, numbered as Keras does: dense, dense_1 ... */
  int64_t units;                         /* dense */
  qn_activation activation;              /* dense, activation; NULL: linear */
  qn_initializer kernel_init, bias_init; /* NULL: glorot_uniform, zeros */
  bool no_bias;
  double rate;              /* dropout; activity_l1 */
  double momentum, epsilon; /* batch_normalization; 0: 0.99, 1e-3 */
  uint64_t seed;            /* dropout */
};
qn_layer qn_dense(int64_t units, qn_activation activation);
qn_layer qn_batch_normalization(
    void); /* last axis; y = gamma (x - mean) / sqrt(var + eps) + beta; biased moving variance */
qn_layer qn_dropout(double rate, uint64_t seed); /* where(keep, x / (1 - rate), 0); the seed state is a threefry key */
/* Dropout by a mask that the caller puts into the non-trainable variable "keep" (bool, of the input's shape) before each call. */
qn_layer qn_dropout_by_mask(double rate);
qn_layer qn_activity_sum(double rate); /* adds rate * sum(x) to the model's loss and passes x on */

/* ---- models ---- */
typedef struct qn_model qn_model;
/* A chain of layers on inputs of `input` (with its batch axis). Copies the descriptions. */
qn_status qn_sequential(const char *name, const qn_type *input, const qn_layer *layers, size_t count,
                        qn_model **out_model);
void qn_model_free(qn_model *m);
const char *qn_model_name(const qn_model *m);
/* Variables as tree definitions: "dense/kernel" ... Owned by the model. */
const qn_treedef *qn_model_trainable(const qn_model *m);
const qn_treedef *qn_model_non_trainable(const qn_model *m);
/* Initial values from a key, each variable from its own split. */
void qn_model_init(const qn_model *m, qn_val key, qn_tree **out_trainable, qn_tree **out_non_trainable);
/* Table of layers: name, result shape, parameters. */
void qn_model_summary(const qn_model *m, qn_text *out);

typedef struct qn_model_result {
  qn_val y;
  qn_tree *non_trainable; /* all of them, updated */
  qn_val losses;          /* sum of what layers added; a zero scalar if none did */
} qn_model_result;
/* The stateless call. `x` may have another batch size than the model was built with. */
qn_model_result qn_model_apply(const qn_model *m, const qn_tree *trainable, const qn_tree *non_trainable, qn_val x,
                               bool training);

#ifdef __cplusplus
}
#endif
#endif
