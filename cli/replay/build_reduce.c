/* Reductions, statistics and normalisations. */
#include <math.h>
#include <string.h>

#include "quern/op.h"
#include "quern/ops.h"
#include "replay.h"

#define X b->in[0]

static bool keepdims(const replay_build *b) { return qn_replay_number(b->attrs, "keepdims", 0) > 0; }

/* ---- regions of several values ---- */

static qn_status seal_body(qn_graph *g, const qn_val *results, qn_graph **out) {
  qn_status st = qn_graph_seal(g, results, 2);
  if (st == QN_OK)
    *out = g;
  else
    qn_graph_release(g);
  return st;
}

static qn_status pair_region(const qn_type *first, const qn_type *second, qn_val *v, qn_graph **out) {
  QN_TRY(qn_graph_create("body", out));
  for (int i = 0; i < 4; i++)
    v[i] = qn_graph_param(*out, qn_type_scalar(i % 2 ? second->dtype : first->dtype), NULL);
  return QN_OK;
}

/* The larger (smaller) value, NaN before all, with the lower index among equals. */
static qn_status arg_region(bool largest, const qn_type *x, const qn_type *index, qn_graph **out) {
  qn_val v[4];
  qn_graph *g;
  QN_TRY(pair_region(x, index, v, &g));
  qn_val nan = qn_and(qn_ne(v[0], v[0]), qn_eq(v[2], v[2])), both = qn_and(qn_ne(v[0], v[0]), qn_ne(v[2], v[2]));
  qn_val better = qn_or(largest ? qn_gt(v[0], v[2]) : qn_lt(v[0], v[2]), nan);
  qn_val first = qn_or(better, qn_and(qn_or(qn_eq(v[0], v[2]), both), qn_lt(v[1], v[3])));
  qn_val results[2] = {qn_select(first, v[0], v[2]), qn_select(first, v[1], v[3])};
  return seal_body(g, results, out);
}

static qn_status add_max_region(const qn_type *x, const qn_type *y, qn_graph **out) {
  qn_val v[4];
  qn_graph *g;
  QN_TRY(pair_region(x, y, v, &g));
  qn_val results[2] = {qn_add(v[0], v[2]), qn_max(v[1], v[3])};
  return seal_body(g, results, out);
}

static void variadic(replay_build *b, const char *body) {
  qn_dims d = qn_replay_dims(b->attrs, "dimensions");
  const qn_type *x = qn_val_type(X), *y = qn_val_type(b->in[1]);
  qn_graph *region = NULL;
  bool pair = strcmp(body, "add_max") == 0;
  qn_status st = pair ? add_max_region(x, y, &region) : arg_region(strcmp(body, "argmax") == 0, x, y, &region);
  if (st != QN_OK) {
    (void)qn_graph_fail(b->g, QN_HERE, st, "%s", qn_error_message());
    return;
  }
  qn_reduce(b->in, b->in + 2, 2, d.n, d.d, region, b->out);
  qn_graph_release(region);
}

static void reduce(replay_build *b) {
  const char *body = qn_replay_text(b->attrs, "body");
  qn_dims d = qn_replay_dims(b->attrs, "dimensions");
  if (b->in_count == 4) {
    variadic(b, body);
    return;
  }
  if (b->in_count == 1) {
    b->out[0] = qn_reduce_op_at(QN_HERE, X, qn_op_find(body), d.n, d.d, false);
    return;
  }
  qn_graph *region = NULL;
  qn_status st = qn_region_binary(qn_op_find(body), qn_val_type(X)->dtype, &region);
  if (st != QN_OK) {
    (void)qn_graph_fail(b->g, QN_HERE, st, "%s", qn_error_message());
    return;
  }
  qn_reduce(b->in, b->in + 1, 1, d.n, d.d, region, b->out);
  qn_graph_release(region);
}

/* ---- windows ---- */

static qn_attr_window window_of(const replay_build *b) {
  qn_attr_window a = {.size = qn_replay_dims(b->attrs, "window_dimensions"),
                      .stride = qn_replay_dims(b->attrs, "window_strides")};
  const cJSON *padding = qn_replay_get(b->attrs, "padding");
  bool dilated = qn_replay_get(b->attrs, "base_dilations") != NULL;
  a.base_dilation = qn_replay_dims(b->attrs, "base_dilations");
  a.window_dilation = qn_replay_dims(b->attrs, "window_dilations");
  a.pad_low.n = a.pad_high.n = a.size.n;
  for (int i = 0; i < a.size.n; i++) {
    const cJSON *pair = cJSON_GetArrayItem(padding, i);
    a.pad_low.d[i] = cJSON_GetArrayItem(pair, 0)->valueint;
    a.pad_high.d[i] = cJSON_GetArrayItem(pair, 1)->valueint;
    if (!dilated)
      a.base_dilation.d[i] = a.window_dilation.d[i] = 1;
  }
  if (!dilated)
    a.base_dilation.n = a.window_dilation.n = a.size.n;
  return a;
}

static void reduce_window(replay_build *b) {
  qn_op op = qn_op_find(qn_replay_text(b->attrs, "body"));
  qn_attr_window a = window_of(b);
  if (b->in_count == 1) {
    b->out[0] = qn_reduce_window_op(X, op, &a);
    return;
  }
  qn_graph *region = NULL;
  qn_status st = qn_region_binary(op, qn_val_type(X)->dtype, &region);
  if (st != QN_OK) {
    (void)qn_graph_fail(b->g, QN_HERE, st, "%s", qn_error_message());
    return;
  }
  qn_reduce_window(b->in, b->in + 1, 1, &a, region, b->out);
  qn_graph_release(region);
}

static void avg_pool(replay_build *b) {
  qn_attr_window a = window_of(b);
  b->out[0] = qn_avg_pool(X, &a, qn_replay_number(b->attrs, "count_include_pad", 0) > 0);
}

static qn_status select_region(const char *name, qn_dtype t, qn_graph **out) {
  static const char *const names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  int direction = 0;
  while (direction < QN_CMP_GE && strcmp(names[direction], name) != 0)
    direction++;
  qn_graph *g;
  QN_TRY(qn_graph_create("select", &g));
  qn_val v[2] = {qn_graph_param(g, qn_type_scalar(t), NULL), QN_NULL_VAL};
  v[1] = qn_graph_param(g, qn_type_scalar(t), NULL);
  qn_val y = qn_compare(v[0], v[1], (qn_compare_direction)direction, QN_CMP_DEFAULT);
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st == QN_OK)
    *out = g;
  else
    qn_graph_release(g);
  return st;
}

static void select_and_scatter(replay_build *b) {
  qn_graph *select = NULL, *scatter = NULL;
  qn_attr_window a = window_of(b);
  qn_dtype t = qn_val_type(X)->dtype;
  qn_status st = select_region(qn_replay_text(b->attrs, "select"), t, &select);
  if (st == QN_OK)
    st = qn_region_binary(qn_op_find(qn_replay_text(b->attrs, "scatter")), t, &scatter);
  if (st != QN_OK)
    (void)qn_graph_fail(b->g, QN_HERE, st, "%s", qn_error_message());
  else
    b->out[0] = qn_select_and_scatter(X, b->in[1], b->in[2], &a, select, scatter);
  qn_graph_release(select);
  qn_graph_release(scatter);
}

/* ---- statistics ---- */

#define AXES                                                                                                           \
  replay_axes room;                                                                                                    \
  const replay_axes *a = qn_replay_axes(b->attrs, "axis", &room)

static qn_val reduced(replay_build *b, qn_val x, qn_op op) {
  AXES;
  return qn_reduce_op_at(QN_HERE, x, op, a->count, a->list, keepdims(b));
}

/* Integers are summed in the type of the result. */
static void sum(replay_build *b) {
  qn_dtype t = b->want[0]->dtype;
  b->out[0] = reduced(b, qn_dtype_is_float(qn_val_type(X)->dtype) ? X : qn_convert(X, t), QN_OP_ADD);
}
static void prod(replay_build *b) {
  qn_dtype t = b->want[0]->dtype;
  b->out[0] = reduced(b, qn_dtype_is_float(qn_val_type(X)->dtype) ? X : qn_convert(X, t), QN_OP_MULTIPLY);
}
static void max_op(replay_build *b) { b->out[0] = reduced(b, X, QN_OP_MAXIMUM); }
static void min_op(replay_build *b) { b->out[0] = reduced(b, X, QN_OP_MINIMUM); }
static void all_op(replay_build *b) { b->out[0] = reduced(b, X, QN_OP_AND); }
static void any_op(replay_build *b) { b->out[0] = reduced(b, X, QN_OP_OR); }
static void nansum(replay_build *b) { b->out[0] = reduced(b, qn_select(qn_ne(X, X), qn_like(X, 0), X), QN_OP_ADD); }

static void mean(replay_build *b) {
  AXES;
  b->out[0] = qn_mean(X, a->count, a->list, keepdims(b));
}
static void var(replay_build *b) {
  AXES;
  b->out[0] = qn_var(X, a->count, a->list, (int)qn_replay_number(b->attrs, "ddof", 0), keepdims(b));
}
static void std_op(replay_build *b) {
  AXES;
  b->out[0] = qn_std(X, a->count, a->list, (int)qn_replay_number(b->attrs, "ddof", 0), keepdims(b));
}
static void logsumexp(replay_build *b) {
  AXES;
  b->out[0] = qn_logsumexp(X, a->count, a->list, keepdims(b));
}
static void softmax(replay_build *b) { b->out[0] = qn_softmax(X, (int64_t)qn_replay_number(b->attrs, "axis", -1)); }
static void log_softmax(replay_build *b) {
  b->out[0] = qn_log_softmax(X, (int64_t)qn_replay_number(b->attrs, "axis", -1));
}

static void norm(replay_build *b) {
  AXES;
  const char *word = qn_replay_text(b->attrs, "ord");
  double ord = qn_replay_number(b->attrs, "ord", 0);
  bool vector = qn_val_type(X)->rank == 1 || a->count == 1;
  if (strcmp(word, "fro") == 0 || (vector && ord > 1.5 && ord < 2.5))
    b->out[0] = qn_norm(X, a->count, a->list, keepdims(b));
  else if (vector && ord > 0.5 && ord < 1.5)
    b->out[0] = reduced(b, qn_abs(X), QN_OP_ADD);
  else if (vector && strcmp(word, "inf") == 0)
    b->out[0] = reduced(b, qn_abs(X), QN_OP_MAXIMUM);
  else
    (void)qn_replay_not_built(b, "norm of that order");
}

/* ---- normalisations ---- */

typedef struct channels {
  qn_dims others;
  int64_t feature;
  qn_type type;
} channels;

static channels channels_of(replay_build *b) {
  channels c = {.feature = (int64_t)qn_replay_number(b->attrs, "feature_index", 0), .type = *qn_val_type(X)};
  for (int i = 0; i < c.type.rank; i++)
    if (i != c.feature)
      c.others.d[c.others.n++] = i;
  return c;
}

static qn_val along(const channels *c, qn_val v) {
  return qn_broadcast_in_dim(v, c->type.rank, c->type.dims, &c->feature);
}

static qn_val normalise(replay_build *b, const channels *c, qn_val scale, qn_val offset, qn_val m, qn_val v) {
  qn_val inverse = qn_rsqrt(qn_add(v, qn_like(v, qn_replay_number(b->attrs, "epsilon", 0))));
  qn_val y = qn_mul(qn_sub(X, along(c, m)), along(c, qn_mul(inverse, scale)));
  return qn_add(y, along(c, offset));
}

static void batch_norm_training(replay_build *b) {
  channels c = channels_of(b);
  b->out[1] = qn_mean(X, c.others.n, c.others.d, false);
  b->out[2] = qn_var(X, c.others.n, c.others.d, 0, false);
  b->out[0] = normalise(b, &c, b->in[1], b->in[2], b->out[1], b->out[2]);
}

static void batch_norm_inference(replay_build *b) {
  channels c = channels_of(b);
  b->out[0] = normalise(b, &c, b->in[1], b->in[2], b->in[3], b->in[4]);
}

static void layer_norm(replay_build *b) {
  const int64_t last = -1;
  qn_val m = qn_mean(X, 1, &last, true), v = qn_var(X, 1, &last, 0, true);
  qn_val y = qn_mul(qn_sub(X, m), qn_rsqrt(qn_add(v, qn_like(v, qn_replay_number(b->attrs, "epsilon", 0)))));
  b->out[0] = qn_add(qn_mul(y, b->in[1]), b->in[2]);
}

static void rms_norm(replay_build *b) {
  const int64_t last = -1;
  qn_val m = qn_mean(qn_square(X), 1, &last, true);
  b->out[0] = qn_mul(qn_mul(X, qn_rsqrt(qn_add(m, qn_like(m, qn_replay_number(b->attrs, "epsilon", 0))))), b->in[1]);
}

const replay_op qn_replay_reduce[] = {
    {"reduce", reduce},
    {"reduce_window", reduce_window},
    {"avg_pool", avg_pool},
    {"select_and_scatter", select_and_scatter},
    {"jnp.sum", sum},
    {"jnp.prod", prod},
    {"jnp.max", max_op},
    {"jnp.min", min_op},
    {"jnp.all", all_op},
    {"jnp.any", any_op},
    {"jnp.nansum", nansum},
    {"jnp.mean", mean},
    {"jnp.var", var},
    {"jnp.std", std_op},
    {"logsumexp", logsumexp},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"jnp.linalg.norm", norm},
    {"batch_norm_training", batch_norm_training},
    {"batch_norm_inference", batch_norm_inference},
    {"layer_norm", layer_norm},
    {"rms_norm", rms_norm},
    {NULL, NULL},
};
