/* Layers: dense, batch normalisation, dropout, activity penalty; activations and initializers by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "quern/model.h"

qn_val qn_act_linear(qn_val x) { return x; }
qn_val qn_act_relu(qn_val x) { return qn_relu(x); }
qn_val qn_act_sigmoid(qn_val x) { return qn_logistic(x); }
qn_val qn_act_tanh(qn_val x) { return qn_tanh(x); }

/* ---- initializers ---- */

qn_val qn_init_zeros(qn_val key, qn_type type) { return qn_full(key.graph, type, 0); }
qn_val qn_init_ones(qn_val key, qn_type type) { return qn_full(key.graph, type, 1); }

qn_val qn_init_glorot_uniform(qn_val key, qn_type type) {
  double field = 1, in = 1, out = 1;
  for (int i = 0; i + 2 < type.rank; i++)
    field *= (double)type.dims[i];
  if (type.rank >= 2) {
    in = field * (double)type.dims[type.rank - 2];
    out = field * (double)type.dims[type.rank - 1];
  } else if (type.rank == 1) {
    in = out = (double)type.dims[0];
  }
  double limit = sqrt(6.0 / (in + out));
  return qn_random_uniform(key, type, -limit, limit);
}

/* ---- helpers ---- */

static void variable(qn_variable *v, const char *path, qn_type type, qn_initializer init, bool trainable) {
  snprintf(v->path, sizeof v->path, "%s", path);
  v->type = type;
  v->init = init;
  v->trainable = trainable;
}

/* ---- dense ---- */

static qn_status dense_build(const qn_layer *l, const qn_type *in, qn_variable *vars, size_t *count, qn_type *out) {
  if (in->rank < 2 || l->units <= 0)
    return QN_ERR(QN_INVALID,
                  "dense '%s': input is %s, expected at least [batch, features], and units %lld, expected more than 0",
                  l->name, qn_type_str(in), (long long)l->units);
  variable(&vars[0], "kernel", qn_type_of(in->dtype, 2, in->dims[in->rank - 1], l->units),
           l->kernel_init ? l->kernel_init : qn_init_glorot_uniform, true);
  *count = 1;
  if (!l->no_bias)
    variable(&vars[(*count)++], "bias", qn_type_of(in->dtype, 1, l->units), l->bias_init ? l->bias_init : qn_init_zeros,
             true);
  *out = *in;
  out->dims[in->rank - 1] = l->units;
  return QN_OK;
}

static qn_val dense_apply(qn_apply *a, qn_val x) {
  qn_val y = qn_dot(x, qn_tree_get(a->trainable, "kernel"));
  if (!a->layer->no_bias)
    y = qn_add(y, qn_tree_get(a->trainable, "bias"));
  return a->layer->activation ? a->layer->activation(y) : y;
}

static const qn_layer_kind dense_kind = {"dense", dense_build, dense_apply};

qn_layer qn_dense(int64_t units, qn_activation activation) {
  return (qn_layer){.kind = &dense_kind, .units = units, .activation = activation};
}

/* ---- batch normalisation ---- */

static qn_status norm_build(const qn_layer *l, const qn_type *in, qn_variable *vars, size_t *count, qn_type *out) {
  if (in->rank < 2)
    return QN_ERR(QN_INVALID, "batch_normalization '%s': input is %s, expected at least [batch, features]", l->name,
                  qn_type_str(in));
  qn_type t = qn_type_of(in->dtype, 1, in->dims[in->rank - 1]);
  variable(&vars[0], "gamma", t, qn_init_ones, true);
  variable(&vars[1], "beta", t, qn_init_zeros, true);
  variable(&vars[2], "moving_mean", t, qn_init_zeros, false);
  variable(&vars[3], "moving_variance", t, qn_init_ones, false);
  *count = 4;
  *out = *in;
  return QN_OK;
}

static qn_val moving(qn_val old, qn_val now, double momentum) {
  return qn_add(qn_mul(old, qn_like(old, momentum)), qn_mul(now, qn_like(now, 1 - momentum)));
}

static qn_val norm_apply(qn_apply *a, qn_val x) {
  int64_t axes[QN_MAX_RANK];
  int rank = qn_val_type(x)->rank;
  for (int i = 0; i + 1 < rank; i++)
    axes[i] = i;
  qn_val mean = qn_tree_get(a->non_trainable, "moving_mean"), var = qn_tree_get(a->non_trainable, "moving_variance");
  if (a->training) {
    double momentum = qn_or_default(a->layer->momentum, 0.99);
    qn_val m = qn_mean(x, rank - 1, axes, false), v = qn_var(x, rank - 1, axes, 0, false);
    qn_tree_set(a->updated, "moving_mean", moving(mean, m, momentum));
    qn_tree_set(a->updated, "moving_variance", moving(var, v, momentum));
    mean = m;
    var = v;
  }
  qn_val scale = qn_mul(qn_rsqrt(qn_add(var, qn_like(var, qn_or_default(a->layer->epsilon, 1e-3)))),
                        qn_tree_get(a->trainable, "gamma"));
  return qn_add(qn_mul(qn_sub(x, mean), scale), qn_tree_get(a->trainable, "beta"));
}

static const qn_layer_kind norm_kind = {"batch_normalization", norm_build, norm_apply};

qn_layer qn_batch_normalization(void) { return (qn_layer){.kind = &norm_kind}; }

/* ---- dropout ---- */

static qn_val seed_init(qn_val key, qn_type type) {
  (void)type;
  return key;
}

static qn_status dropout_build(const qn_layer *l, const qn_type *in, qn_variable *vars, size_t *count, qn_type *out) {
  if (!(l->rate >= 0 && l->rate < 1))
    return QN_ERR(QN_INVALID, "dropout '%s': rate is %g, expected 0 <= rate < 1", l->name, l->rate);
  variable(&vars[0], "seed_state", qn_type_of(QN_U32, 1, 2), seed_init, false);
  *count = 1;
  *out = *in;
  return QN_OK;
}

static qn_val row(qn_val keys, int64_t i) {
  int64_t start[2] = {i, 0}, limit[2] = {i + 1, 2}, dims[1] = {2};
  return qn_reshape(qn_slice(keys, start, limit, NULL), 1, dims);
}

static qn_val dropout_apply(qn_apply *a, qn_val x) {
  if (!a->training || a->layer->rate == 0)
    return x;
  qn_val keys = qn_key_split(qn_tree_get(a->non_trainable, "seed_state"), 2);
  qn_tree_set(a->updated, "seed_state", row(keys, 0));
  const qn_type *t = qn_val_type(x);
  double keep = 1 - a->layer->rate;
  qn_val mask = qn_random_bernoulli(row(keys, 1), keep, t->rank, t->dims);
  return qn_select(mask, qn_div(x, qn_like(x, keep)), qn_zeros_like(x));
}

static const qn_layer_kind dropout_kind = {"dropout", dropout_build, dropout_apply};

qn_layer qn_dropout(double rate, uint64_t seed) {
  return (qn_layer){.kind = &dropout_kind, .rate = rate, .seed = seed};
}

static qn_status mask_build(const qn_layer *l, const qn_type *in, qn_variable *vars, size_t *count, qn_type *out) {
  QN_TRY(dropout_build(l, in, vars, count, out));
  qn_type mask = *in;
  mask.dtype = QN_BOOL;
  variable(&vars[0], "keep", mask, qn_init_ones, false);
  return QN_OK;
}

static qn_val mask_apply(qn_apply *a, qn_val x) {
  if (!a->training)
    return x;
  return qn_select(qn_tree_get(a->non_trainable, "keep"), qn_div(x, qn_like(x, 1 - a->layer->rate)), qn_zeros_like(x));
}

static const qn_layer_kind mask_kind = {"dropout", mask_build, mask_apply};

qn_layer qn_dropout_by_mask(double rate) { return (qn_layer){.kind = &mask_kind, .rate = rate}; }

/* ---- activity penalty ---- */

static qn_status activity_build(const qn_layer *l, const qn_type *in, qn_variable *vars, size_t *count, qn_type *out) {
  (void)l;
  (void)vars;
  *count = 0;
  *out = *in;
  return QN_OK;
}

static qn_val activity_apply(qn_apply *a, qn_val x) {
  qn_val sum = qn_sum_all(x), penalty = qn_mul(sum, qn_like(sum, a->layer->rate));
  a->loss = qn_val_ok(a->loss) ? qn_add(a->loss, penalty) : penalty;
  return x;
}

static const qn_layer_kind activity_kind = {"activity_regularization", activity_build, activity_apply};

qn_layer qn_activity_sum(double rate) { return (qn_layer){.kind = &activity_kind, .rate = rate}; }
