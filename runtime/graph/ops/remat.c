/* Functions kept whole for the transforms, lowered as what they compute: remat, whose values reverse mode computes again instead of keeping
 * them, custom_jvp, whose forward derivative its author gives, and names for values that a remat is to keep. */
#include <string.h>

#include "control_build.h"
#include "infer.h"

/* ---- remat ---- */
static bool own_names(qn_arena *arena, void *attr, const qn_type *result) {
  qn_attr_name *a = attr;
  (void)result;
  if (a->target != NULL && (a->target = qn_arena_strdup(arena, a->target)) == NULL)
    return false;
  return a->config == NULL || (a->config = qn_arena_strdup(arena, a->config)) != NULL;
}

static qn_status check_function(const qn_infer *c, int region, const char *what) {
  const qn_graph *g = c->regions[region];
  if (qn_graph_param_count(g) != (size_t)c->operand_count)
    return QN_ERR(QN_INVALID, "%s: the %s has %zu parameters, expected %d", c->name, what, qn_graph_param_count(g),
                  c->operand_count);
  for (int i = 0; i < c->operand_count; ++i) {
    const qn_type *t = qn_graph_type(g, qn_graph_param_at(g, (size_t)i));
    if (!qn_type_equal(t, &c->operands[i]))
      return QN_ERR(QN_INVALID, "%s: parameter %d of the %s is %s, expected %s", c->name, i, what, qn_type_str(t),
                    qn_type_str(&c->operands[i]));
  }
  return QN_OK;
}

static const qn_type *result_type(const qn_graph *g, size_t i) { return qn_graph_type(g, qn_graph_result(g, i)); }

static void take_results(qn_infer *c, const qn_graph *g) {
  c->result_count = (int)qn_graph_result_count(g);
  for (int i = 0; i < c->result_count; ++i)
    c->out_types[i] = *result_type(g, (size_t)i);
}

static qn_status remat_infer(qn_infer *c) {
  if (c->region_count != 1)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected a function", c->name, c->region_count);
  QN_TRY(check_function(c, 0, "function"));
  take_results(c, c->regions[0]);
  return QN_OK;
}

static qn_status first_region_eval(const qn_ref_call *c) {
  return qn_graph_eval_ref(c->node->regions[0], c->in, c->out);
}

static void function_batch(qn_batch *b, qn_val *out) {
  out[0] = qn_graph_fail(b->g, b->node->place, QN_INTERNAL, "%s: its functions are batched by vmap itself",
                         qn_op_get(b->node->op)->name);
}

const qn_op_def qn_op_remat = {
    .name = "quern.remat",
    .doc = "A function whose values reverse mode computes again where it needs them; what it keeps all the same the "
           "policy says.",
    .arity = -1,
    .kind = QN_KIND_MARK,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_name),
    .infer = remat_infer,
    .no_grad = "the transforms look into its function",
    .batch = function_batch,
    .eval = first_region_eval,
    .attr_own = own_names,
};

void qn_remat_at(qn_place at, qn_graph *g, const qn_remat_policy *policy, const qn_val *in, size_t count, qn_body_fn fn,
                 void *user, qn_val *out, size_t out_count) {
  qn_null_results(out, out_count);
  if (g == NULL || qn_graph_failed(g))
    return;
  for (size_t i = 0; i < count; ++i)
    if (!qn_val_ok(in[i])) {
      (void)qn_graph_fail(g, at, QN_INVALID, "remat: operand %zu is the null value", i);
      return;
    }
  qn_type *types = qn_types_of(g, in, count, 0);
  if (types == NULL)
    return;
  qn_attr_name attr = {policy != NULL && policy->dots ? "dots" : "nothing",
                       policy != NULL && policy->names != NULL ? policy->names : ""};
  qn_traced_region region = qn_region_trace(g, "remat", types, count, out_count, fn, user);
  qn_control_add(at, g, QN_OP_REMAT, in, count, &attr, &region, 1, out, out_count);
}

/* ---- custom_jvp ---- */
/* rule: a.., tangents of float a.. -> y.., tangents of float y... */
static qn_status check_rule(const qn_infer *c) {
  const qn_graph *primal = c->regions[0], *rule = c->regions[1];
  size_t n = (size_t)c->operand_count, at = n, results = qn_graph_result_count(primal), k = results;
  for (int i = 0; i < c->operand_count; ++i)
    n += qn_dtype_is_float(c->operands[i].dtype);
  if (qn_graph_param_count(rule) != n)
    return QN_ERR(QN_INVALID, "%s: the rule has %zu parameters, expected %zu: operands, then tangents of the floats",
                  c->name, qn_graph_param_count(rule), n);
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < c->operand_count; ++i) {
      if (pass == 1 && !qn_dtype_is_float(c->operands[i].dtype))
        continue;
      size_t p = pass == 0 ? (size_t)i : at++;
      const qn_type *t = qn_graph_type(rule, qn_graph_param_at(rule, p));
      if (!qn_type_equal(t, &c->operands[i]))
        return QN_ERR(QN_INVALID, "%s: parameter %zu of the rule is %s, expected %s", c->name, p, qn_type_str(t),
                      qn_type_str(&c->operands[i]));
    }
  for (size_t i = 0; i < results; ++i)
    k += qn_dtype_is_float(result_type(primal, i)->dtype);
  if (qn_graph_result_count(rule) != k)
    return QN_ERR(QN_INVALID, "%s: the rule has %zu results, expected %zu: results, then tangents of the floats",
                  c->name, qn_graph_result_count(rule), k);
  k = results;
  for (int pass = 0; pass < 2; ++pass)
    for (size_t i = 0; i < results; ++i) {
      if (pass == 1 && !qn_dtype_is_float(result_type(primal, i)->dtype))
        continue;
      size_t r = pass == 0 ? i : k++;
      if (!qn_type_equal(result_type(rule, r), result_type(primal, i)))
        return QN_ERR(QN_INVALID, "%s: result %zu of the rule is %s, expected %s", c->name, r,
                      qn_type_str(result_type(rule, r)), qn_type_str(result_type(primal, i)));
    }
  return QN_OK;
}

static qn_status custom_jvp_infer(qn_infer *c) {
  if (c->region_count != 2)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected a function and its rule", c->name, c->region_count);
  QN_TRY(check_function(c, 0, "function"));
  QN_TRY(check_rule(c));
  take_results(c, c->regions[0]);
  return QN_OK;
}

const qn_op_def qn_op_custom_jvp = {
    .name = "quern.custom_jvp",
    .doc =
        "A function with a forward derivative of the user's own, linear in the tangents; reverse mode transposes it.",
    .arity = -1,
    .kind = QN_KIND_MARK,
    .dtypes = QN_D_ANY,
    .infer = custom_jvp_infer,
    .no_grad = "its own rule is used",
    .batch = function_batch,
    .eval = first_region_eval,
};

void qn_custom_jvp_at(qn_place at, const qn_val *in, size_t count, qn_graph *primal, qn_graph *rule, qn_val *out) {
  size_t results = primal != NULL ? qn_graph_result_count(primal) : 0;
  qn_null_results(out, results);
  qn_graph *g = qn_graph_common("custom_jvp", in, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  if (primal == NULL || rule == NULL) {
    (void)qn_graph_fail(g, at, QN_INVALID, "custom_jvp: the %s is missing", primal == NULL ? "function" : "rule");
    return;
  }
  qn_graph *const regions[] = {primal, rule};
  qn_val first = qn_graph_add(g, QN_OP_CUSTOM_JVP, in, count, NULL, regions, 2, at);
  for (size_t i = 0; i < results && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}

/* ---- names ---- */
static qn_status name_eval(const qn_ref_call *c) {
  int64_t bytes = qn_type_bytes(c->out_types[0]);
  if (bytes > 0)
    memcpy(c->out[0], c->in[0], (size_t)bytes);
  return QN_OK;
}

/* Tangents and cotangents pass without the name. */
static void name_derive(qn_rule *r, qn_val *out) { out[0] = r->given[0]; }

const qn_op_def qn_op_checkpoint_name = {
    .name = "quern.checkpoint_name",
    .doc = "The operand itself, with a name by which a remat's policy may keep it.",
    .arity = 1,
    .kind = QN_KIND_MARK,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_name),
    .infer = qn_infer_same,
    .vjp = name_derive,
    .jvp = name_derive,
    .batch = qn_batch_elementwise,
    .eval = name_eval,
    .attr_own = own_names,
    .samples =
        (const qn_sample[]){
            {.ranks = {2}, .dims = {{5, 7}}, .lo = -9, .hi = 9, .attr = &(const qn_attr_name){"sample", NULL}}},
    .sample_count = 1,
};

qn_val qn_checkpoint_name_at(qn_place at, qn_val x, const char *name) {
  qn_graph *g = qn_graph_common("checkpoint_name", &x, 1, at);
  qn_attr_name attr = {name, NULL};
  return g == NULL ? QN_NULL_VAL : qn_graph_add(g, QN_OP_CHECKPOINT_NAME, &x, 1, &attr, NULL, 0, at);
}
