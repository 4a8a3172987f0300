/* Activation functions by JAX's names and formulas; those with derivatives of their own are Quern's named functions. */
#include <math.h>

#include "quern/ops.h"
#include "replay.h"

#define C(value) qn_like(x, (value))

static qn_val relu(qn_val x) { return qn_relu(x); }
/* As a clamp, whose derivative is 0 on the bounds. */
static qn_val relu6(qn_val x) { return qn_clamp(C(0), x, C(6)); }
static qn_val sigmoid(qn_val x) { return qn_logistic(x); }
static qn_val softplus(qn_val x) { return qn_softplus(x); }
static qn_val log_sigmoid(qn_val x) { return qn_neg(qn_softplus(qn_neg(x))); }
static qn_val soft_sign(qn_val x) { return qn_div(x, qn_add(qn_abs(x), C(1))); }
static qn_val silu(qn_val x) { return qn_mul(x, qn_logistic(x)); }
static qn_val mish(qn_val x) { return qn_mul(x, qn_tanh(qn_softplus(x))); }
static qn_val squareplus(qn_val x) { return qn_mul(C(0.5), qn_add(x, qn_sqrt(qn_add(qn_square(x), C(4))))); }
static qn_val hard_sigmoid(qn_val x) { return qn_div(relu6(qn_add(x, C(3))), C(6)); }
static qn_val hard_swish(qn_val x) { return qn_mul(x, hard_sigmoid(x)); }
static qn_val leaky_relu(qn_val x) { return qn_select(qn_ge(x, C(0)), x, qn_mul(C(0.01), x)); }
static qn_val hard_tanh(qn_val x) { return qn_select(qn_gt(x, C(1)), C(1), qn_select(qn_lt(x, C(-1)), C(-1), x)); }
static qn_val celu(qn_val x) { return qn_add(qn_max(x, C(0)), qn_expm1(qn_min(x, C(0)))); }

static qn_val elu_of(qn_val x, double alpha) {
  qn_val positive = qn_gt(x, C(0));
  return qn_select(positive, x, qn_mul(C(alpha), qn_expm1(qn_select(positive, C(0), x))));
}
static qn_val elu(qn_val x) { return elu_of(x, 1); }
static qn_val selu(qn_val x) {
  return qn_mul(C(1.0507009873554804934193349852946), elu_of(x, 1.6732632423543772848170429916717));
}

static qn_val gelu_exact(qn_val x) { return qn_mul(qn_mul(C(0.5), x), qn_erfc(qn_mul(qn_neg(x), C(sqrt(0.5))))); }
static qn_val gelu_tanh(qn_val x) {
  qn_val cube = qn_mul(x, qn_mul(x, x));
  qn_val inner = qn_mul(C(sqrt(2 / 3.14159265358979323846)), qn_add(x, qn_mul(C(0.044715), cube)));
  return qn_mul(x, qn_mul(C(0.5), qn_add(C(1), qn_tanh(inner))));
}

#define ACTIVATION(name)                                                                                               \
  static void build_##name(replay_build *b) { b->out[0] = name(b->in[0]); }
ACTIVATION(relu)
ACTIVATION(relu6)
ACTIVATION(sigmoid)
ACTIVATION(softplus)
ACTIVATION(log_sigmoid)
ACTIVATION(soft_sign)
ACTIVATION(silu)
ACTIVATION(mish)
ACTIVATION(squareplus)
ACTIVATION(hard_sigmoid)
ACTIVATION(hard_swish)
ACTIVATION(leaky_relu)
ACTIVATION(hard_tanh)
ACTIVATION(celu)
ACTIVATION(elu)
ACTIVATION(selu)
ACTIVATION(gelu_exact)
ACTIVATION(gelu_tanh)

const replay_op qn_replay_activations[] = {
    {"jax.nn.relu", build_relu},
    {"jax.nn.relu6", build_relu6},
    {"jax.nn.sigmoid", build_sigmoid},
    {"jax.nn.softplus", build_softplus},
    {"jax.nn.log_sigmoid", build_log_sigmoid},
    {"jax.nn.soft_sign", build_soft_sign},
    {"jax.nn.silu", build_silu},
    {"jax.nn.mish", build_mish},
    {"jax.nn.squareplus", build_squareplus},
    {"jax.nn.hard_sigmoid", build_hard_sigmoid},
    {"jax.nn.hard_swish", build_hard_swish},
    {"jax.nn.leaky_relu", build_leaky_relu},
    {"jax.nn.hard_tanh", build_hard_tanh},
    {"jax.nn.celu", build_celu},
    {"jax.nn.elu", build_elu},
    {"jax.nn.selu", build_selu},
    {"jax.nn.gelu_exact", build_gelu_exact},
    {"jax.nn.gelu_tanh", build_gelu_tanh},
    {NULL, NULL},
};
