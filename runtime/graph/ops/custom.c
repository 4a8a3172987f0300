/* custom_vjp: a function whose reverse derivative its author gives. Evaluated and lowered as its primal graph; the transforms in autodiff
 * look into the other two. */
#include "infer.h"
#include "move_shape.h"

#include <stdlib.h>
#include <string.h>

static qn_status check_params(const qn_infer *c, int region, const char *what, int n, const qn_type *const *want) {
  const qn_graph *g = c->regions[region];
  if (qn_graph_param_count(g) != (size_t)n)
    return QN_ERR(QN_INVALID, "%s: the %s function has %zu parameters, expected %d", c->name, what,
                  qn_graph_param_count(g), n);
  for (int i = 0; i < n; ++i) {
    const qn_type *t = qn_graph_type(g, qn_graph_param_at(g, (size_t)i));
    if (!qn_type_equal(t, want[i]))
      return QN_ERR(QN_INVALID, "%s: parameter %d of the %s function is %s, expected %s", c->name, i, what,
                    qn_type_str(t), qn_type_str(want[i]));
  }
  return QN_OK;
}

static const qn_type *result_type(const qn_graph *g, int i) { return qn_graph_type(g, qn_graph_result(g, (size_t)i)); }

/* forward: a.. -> y.., residuals..; backward: residuals.., cotangents of y.. -> cotangents of a... */
static qn_status check_rules(const qn_infer *c, const qn_type **scratch) {
  const qn_graph *primal = c->regions[0], *forward = c->regions[1], *backward = c->regions[2];
  int n = c->operand_count, results = (int)qn_graph_result_count(primal), given = (int)qn_graph_result_count(forward);
  for (int i = 0; i < n; ++i)
    scratch[i] = &c->operands[i];
  QN_TRY(check_params(c, 0, "primal", n, scratch));
  QN_TRY(check_params(c, 1, "forward", n, scratch));
  if (given < results)
    return QN_ERR(QN_INVALID, "%s: the forward function has %d results, expected at least %d", c->name, given, results);
  for (int i = 0; i < results; ++i)
    if (!qn_type_equal(result_type(forward, i), result_type(primal, i)))
      return QN_ERR(QN_INVALID, "%s: result %d of the forward function is %s, expected %s", c->name, i,
                    qn_type_str(result_type(forward, i)), qn_type_str(result_type(primal, i)));
  for (int i = 0; i < given; ++i)
    scratch[i < results ? given - results + i : i - results] = result_type(forward, i);
  QN_TRY(check_params(c, 2, "backward", given, scratch));
  if (qn_graph_result_count(backward) != (size_t)n)
    return QN_ERR(QN_INVALID, "%s: the backward function has %zu results, expected %d", c->name,
                  qn_graph_result_count(backward), n);
  for (int i = 0; i < n; ++i)
    if ((qn_dtype_mask(c->operands[i].dtype) & (QN_D_FLOAT | QN_D_COMPLEX)) &&
        !qn_type_equal(result_type(backward, i), &c->operands[i]))
      return QN_ERR(QN_INVALID, "%s: result %d of the backward function is %s, expected %s", c->name, i,
                    qn_type_str(result_type(backward, i)), qn_type_str(&c->operands[i]));
  return QN_OK;
}

static qn_status custom_infer(qn_infer *c) {
  if (c->region_count != 3 || c->regions[0] == NULL || c->regions[1] == NULL || c->regions[2] == NULL)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected primal, forward and backward", c->name, c->region_count);
  size_t room = (size_t)c->operand_count + qn_graph_result_count(c->regions[1]) + 1;
  const qn_type **scratch = calloc(room, sizeof *scratch);
  if (scratch == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: out of memory", c->name);
  qn_status st;
  QN_TRY_GOTO(st, check_rules(c, scratch), done);
  c->result_count = (int)qn_graph_result_count(c->regions[0]);
  for (int i = 0; i < c->result_count; ++i)
    c->out_types[i] = *result_type(c->regions[0], i);
done:
  free(scratch);
  return st;
}

static void custom_batch(qn_batch *b, qn_val *out) {
  out[0] = qn_graph_fail(b->g, QN_HERE, QN_INTERNAL, "custom_vjp: its graphs are batched by vmap itself");
}

static qn_status custom_eval(const qn_ref_call *c) { return qn_graph_eval_ref(c->node->regions[0], c->in, c->out); }

const qn_op_def qn_op_custom_vjp = {
    .name = "quern.custom_vjp",
    .doc = "A function with a reverse derivative of the user's own: graphs for the value, for the value with "
           "residuals, and for the cotangents.",
    .arity = -1,
    .kind = QN_KIND_MARK,
    .dtypes = QN_D_ANY,
    .infer = custom_infer,
    .no_grad = "its own forward and backward graphs are used",
    .batch = custom_batch,
    .eval = custom_eval,
};

void qn_custom_vjp_at(qn_place at, const qn_val *in, size_t count, qn_graph *primal, qn_graph *forward,
                      qn_graph *backward, qn_val *out) {
  size_t results = primal != NULL ? qn_graph_result_count(primal) : 0;
  for (size_t i = 0; i < results; ++i)
    out[i] = QN_NULL_VAL;
  qn_graph *g = qn_graph_common("custom_vjp", in, count, at);
  if (g == NULL || qn_graph_failed(g))
    return;
  qn_graph *const regions[] = {primal, forward, backward};
  if (primal == NULL || forward == NULL || backward == NULL) {
    (void)qn_graph_fail(g, at, QN_INVALID, "custom_vjp: the %s function is missing",
                        primal == NULL    ? "primal"
                        : forward == NULL ? "forward"
                                          : "backward");
    return;
  }
  qn_val first = qn_graph_add(g, QN_OP_CUSTOM_VJP, in, count, NULL, regions, 3, at);
  for (size_t i = 0; i < results && qn_val_ok(first); ++i)
    out[i] = qn_val_result(first, (int)i);
}
