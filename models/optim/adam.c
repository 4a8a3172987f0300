/* Adam as Keras 3 has it. */
#include "options.h"
#include "quern/optim.h"
#include "slots.h"

qn_status qn_adam_state(const qn_adam *a, const qn_treedef *params, qn_treedef *out_def) {
  (void)a;
  QN_TRY(qn_treedef_add(out_def, "iteration", qn_type_scalar(QN_I32)));
  QN_TRY(qn_treedef_add(out_def, "learning_rate", qn_type_scalar(QN_F32)));
  QN_TRY(qn_treedef_put(out_def, "momentum", params));
  return qn_treedef_put(out_def, "velocity", params);
}

qn_tree *qn_adam_init(const qn_adam *a, qn_graph *g, const qn_treedef *params) {
  static const char *const slots[] = {"momentum", "velocity"};
  qn_tree *t = qn_tree_create(g);
  if (!t)
    return NULL;
  qn_tree_set(t, "iteration", qn_scalar(g, QN_I32, 0));
  qn_tree_set(t, "learning_rate", qn_scalar(g, QN_F32, qn_or_default(a->learning_rate, 1e-3)));
  for (size_t s = 0; s < 2; s++)
    for (size_t i = 0; i < params->count; i++)
      qn_tree_set(t, qn_slot_path(g, slots[s], params->leaves[i].path), qn_full(g, params->leaves[i].type, 0));
  return t;
}

/* Below 2^-100 a moment counts as zero. The moments of weights whose gradient is zero decay for ever, and would end as subnormal numbers, with which
 * processors compute a hundred times slower; at 2^-100 they have long stopped to move any weight. */
static qn_val settled(qn_val moment) {
  return qn_select(qn_lt(qn_abs(moment), qn_like(moment, 0x1p-100)), qn_zeros_like(moment), moment);
}

qn_update qn_adam_apply(const qn_adam *a, const qn_tree *state, const qn_tree *grads, const qn_tree *params) {
  qn_graph *g = params->graph;
  qn_update u = {qn_tree_create(g), qn_tree_create(g)};
  if (!u.params || !u.state)
    return u;
  double b1 = qn_or_default(a->beta_1, 0.9), b2 = qn_or_default(a->beta_2, 0.999),
         eps = qn_or_default(a->epsilon, 1e-7);
  qn_val step = qn_add(qn_tree_get(state, "iteration"), qn_scalar(g, QN_I32, 1));
  qn_val lr = qn_tree_get(state, "learning_rate"), t = qn_convert(step, QN_F32);
  qn_val alpha = qn_div(qn_mul(lr, qn_sqrt(qn_sub(qn_like(t, 1), qn_pow(qn_like(t, b2), t)))),
                        qn_sub(qn_like(t, 1), qn_pow(qn_like(t, b1), t)));
  qn_tree_set(u.state, "iteration", step);
  qn_tree_set(u.state, "learning_rate", lr);
  qn_tree *velocities = qn_tree_create(g);
  for (size_t i = 0; velocities && i < params->count; i++) {
    const char *path = params->leaves[i].path, *slot = qn_slot_path(g, "momentum", path);
    qn_val w = params->leaves[i].val, grad = qn_tree_get(grads, path);
    qn_val m = qn_tree_get(state, slot);
    m = settled(qn_add(m, qn_mul(qn_sub(grad, m), qn_like(m, 1 - b1))));
    qn_tree_set(u.state, slot, m);
    slot = qn_slot_path(g, "velocity", path);
    qn_val v = qn_tree_get(state, slot);
    v = settled(qn_add(v, qn_mul(qn_sub(qn_square(grad), v), qn_like(v, 1 - b2))));
    qn_tree_set(velocities, slot, v);
    qn_tree_set(u.params, path, qn_sub(w, qn_div(qn_mul(m, alpha), qn_add(qn_sqrt(v), qn_like(v, eps)))));
  }
  for (size_t i = 0; velocities && i < velocities->count; i++)
    qn_tree_set(u.state, velocities->leaves[i].path, velocities->leaves[i].val);
  return u;
}
