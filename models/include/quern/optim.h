/* Optimizers as stateless functions on trees. State leaves: "iteration", "learning_rate", then a slot tree per kind. */
#ifndef QUERN_OPTIM_H
#define QUERN_OPTIM_H

#include "quern/ops.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keras's Adam: w -= lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon), t counted from 1. Moments below 2^-100 count as 0. Zero fields are Keras's defaults. */
typedef struct qn_adam {
  double learning_rate;  /* 1e-3 */
  double beta_1, beta_2; /* 0.9, 0.999 */
  double epsilon;        /* 1e-7, not bias corrected */
} qn_adam;
/* Definition of the state for parameters of `params`: "iteration" i32, "learning_rate" f32, "momentum/<path>", "velocity/<path>". */
qn_status qn_adam_state(const qn_adam *a, const qn_treedef *params, qn_treedef *out_def);
qn_tree *qn_adam_init(const qn_adam *a, qn_graph *g, const qn_treedef *params);
typedef struct qn_update {
  qn_tree *params, *state;
} qn_update;
/* stateless_apply: grads and params have the same paths. */
qn_update qn_adam_apply(const qn_adam *a, const qn_tree *state, const qn_tree *grads, const qn_tree *params);

/* Optax's adam: m and v corrected for bias, w += -lr * mhat / (sqrt(vhat + eps_root) + eps). Zero fields are Optax's defaults. */
typedef struct qn_optax_adam {
  double learning_rate; /* 1e-3 */
  double b1, b2;        /* 0.9, 0.999 */
  double eps;           /* 1e-8 */
  double eps_root;      /* 0 */
} qn_optax_adam;
/* State: "count" i32, "mu/<path>", "nu/<path>". */
qn_status qn_optax_adam_state(const qn_optax_adam *a, const qn_treedef *params, qn_treedef *out_def);
qn_tree *qn_optax_adam_init(const qn_optax_adam *a, qn_graph *g, const qn_treedef *params);
qn_update qn_optax_adam_apply(const qn_optax_adam *a, const qn_tree *state, const qn_tree *grads,
                              const qn_tree *params);

#ifdef __cplusplus
}
#endif
#endif
