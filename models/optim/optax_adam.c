/* Adam as Optax has it. */
#include "options.h"
#include "quern/optim.h"
#include "slots.h"

qn_status qn_optax_adam_state(const qn_optax_adam *a, const qn_treedef *params, qn_treedef *out_def) {
  (void)a;
  QN_TRY(qn_treedef_add(out_def, "count", qn_type_scalar(QN_I32)));
  QN_TRY(qn_treedef_put(out_def, "mu", params));
  return qn_treedef_put(out_def, "nu", params);
}

qn_tree *qn_optax_adam_init(const qn_optax_adam *a, qn_graph *g, const qn_treedef *params) {
  static const char *const slots[] = {"mu", "nu"};
  (void)a;
  qn_tree *t = qn_tree_create(g);
  if (!t)
    return NULL;
  qn_tree_set(t, "count", qn_scalar(g, QN_I32, 0));
  for (size_t s = 0; s < 2; s++)
    for (size_t i = 0; i < params->count; i++)
      qn_tree_set(t, qn_slot_path(g, slots[s], params->leaves[i].path), qn_full(g, params->leaves[i].type, 0));
  return t;
}

static qn_val moment(const qn_tree *state, qn_tree *out, const char *slot, const char *path, qn_val x, double decay) {
  const char *name = qn_slot_path(out->graph, slot, path);
  qn_val old = qn_tree_get(state, name);
  qn_val m = qn_add(qn_mul(x, qn_like(x, 1 - decay)), qn_mul(old, qn_like(old, decay)));
  qn_tree_set(out, name, m);
  return m;
}

qn_update qn_optax_adam_apply(const qn_optax_adam *a, const qn_tree *state, const qn_tree *grads,
                              const qn_tree *params) {
  qn_graph *g = params->graph;
  qn_update u = {qn_tree_create(g), qn_tree_create(g)};
  qn_tree *second = qn_tree_create(g);
  if (!u.params || !u.state || !second)
    return u;
  double b1 = qn_or_default(a->b1, 0.9), b2 = qn_or_default(a->b2, 0.999), eps = qn_or_default(a->eps, 1e-8);
  qn_val count = qn_add(qn_tree_get(state, "count"), qn_scalar(g, QN_I32, 1)), t = qn_convert(count, QN_F32);
  qn_val fix1 = qn_sub(qn_like(t, 1), qn_pow(qn_like(t, b1), t)),
         fix2 = qn_sub(qn_like(t, 1), qn_pow(qn_like(t, b2), t));
  qn_tree_set(u.state, "count", count);
  for (size_t i = 0; i < params->count; i++) {
    const char *path = params->leaves[i].path;
    qn_val w = params->leaves[i].val, grad = qn_tree_get(grads, path);
    qn_dtype t_w = qn_val_type(w)->dtype;
    qn_val m = qn_div(moment(state, u.state, "mu", path, grad, b1), qn_convert(fix1, t_w));
    qn_val v = qn_div(moment(state, second, "nu", path, qn_square(grad), b2), qn_convert(fix2, t_w));
    qn_val root = qn_add(qn_sqrt(qn_add(v, qn_like(v, a->eps_root))), qn_like(v, eps));
    qn_tree_set(u.params, path, qn_add(w, qn_mul(qn_div(m, root), qn_like(w, -qn_or_default(a->learning_rate, 1e-3)))));
  }
  for (size_t i = 0; i < second->count; i++)
    qn_tree_set(u.state, second->leaves[i].path, second->leaves[i].val);
  return u;
}
