/* linearize: the forward derivative split in what the point decides and what is linear in the tangents. And a graph as one remat. */
#include "engine.h"

/* A loop or branch carries values and tangents together, and cannot be split: where a result comes out of one, the first function is f and hands
 * its parameters over, and the second computes all again. */
typedef struct parts {
  bool whole;
  qn_split split;
  qn_arena scratch;
  qn_graph *joint; /* (x.., tangents..) -> y.., tangents.. */
} parts;

static qn_status open_parts(parts *p, const qn_graph *f) {
  QN_TRY(qn_jvp_graph(f, &p->joint));
  size_t params = qn_graph_param_count(p->joint);
  bool *late = QN_NEW(&p->scratch, bool, params + 1), *free_ = QN_NEW(&p->scratch, bool, params + 1);
  if (!late || !free_)
    return QN_ERR(QN_OUT_OF_MEMORY, "linearize: out of memory");
  for (size_t i = qn_graph_param_count(f); i < params; ++i)
    late[i] = true;
  p->split = (qn_split){
      .j = p->joint, .early_results = qn_graph_result_count(f), .late = late, .free_ = free_, .scratch = &p->scratch};
  bool made = qn_split_make(&p->split);
  for (size_t i = 0; made && i < p->split.early_results; ++i)
    p->whole = p->whole || p->split.is_late[qn_graph_result(p->joint, i)];
  for (size_t i = 0; p->whole && i < qn_graph_param_count(f); ++i)
    p->split.residuals[i] = qn_graph_param_at(p->joint, i);
  if (p->whole)
    p->split.residual_count = qn_graph_param_count(f);
  return made ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "linearize: out of memory");
}

static qn_status first_part(parts *p, const qn_graph *f, qn_graph **out) {
  size_t results = p->split.early_results, n = results + p->split.residual_count;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  qn_val *args = QN_NEW(&p->scratch, qn_val, qn_graph_param_count(p->joint) + 1),
         *made = QN_NEW(&p->scratch, qn_val, n + 1);
  if (args && made) {
    qn_copy_params(g, f, args);
    if (p->whole)
      (void)qn_graph_inline(g, f, args, qn_graph_param_count(f), made);
    else
      (void)qn_split_first(&p->split, g, args, made, made + results);
    for (size_t i = 0; p->whole && i < p->split.residual_count; ++i)
      made[results + i] = args[i];
  } else {
    (void)qn_no_memory(g);
  }
  for (size_t i = 0; i < results; ++i)
    qn_graph_set_result_path(g, i, qn_graph_result_path(f, i));
  return qn_finish(g, made, made ? n : 0, out);
}

static qn_status second_part(parts *p, const qn_graph *f, qn_graph **out) {
  size_t own = qn_graph_param_count(f), params = qn_graph_param_count(p->joint),
         n = qn_graph_result_count(p->joint) - p->split.early_results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("linear", &g));
  qn_val *args = QN_NEW(&p->scratch, qn_val, params + 1),
         *made = QN_NEW(&p->scratch, qn_val, qn_graph_result_count(p->joint) + 1), *out_vals = made;
  qn_val *residuals = QN_NEW(&p->scratch, qn_val, p->split.residual_count + 1);
  if (args && made && residuals) {
    for (size_t i = 0; i < p->split.residual_count; ++i)
      residuals[i] = qn_graph_param(g, *qn_graph_type(p->joint, p->split.residuals[i]), NULL);
    for (size_t i = own; i < params; ++i) {
      uint32_t v = qn_graph_param_at(p->joint, i);
      args[i] = qn_graph_param(g, *qn_graph_type(p->joint, v), qn_graph_param_path(p->joint, i));
    }
    for (size_t i = 0; p->whole && i < own; ++i)
      args[i] = residuals[i];
    if (p->whole && qn_graph_inline(g, p->joint, args, params, made))
      out_vals = made + p->split.early_results;
    else if (!p->whole)
      (void)qn_split_second(&p->split, g, args, residuals, made);
  } else {
    (void)qn_no_memory(g);
  }
  return qn_finish(g, out_vals, made ? n : 0, out);
}

qn_status qn_linearize_graph(const qn_graph *f, qn_graph **out_primal, qn_graph **out_linear) {
  parts p = {.joint = NULL};
  *out_primal = *out_linear = NULL;
  qn_status st;
  QN_TRY_GOTO(st, open_parts(&p, f), done);
  QN_TRY_GOTO(st, first_part(&p, f, out_primal), done);
  QN_TRY_GOTO(st, second_part(&p, f, out_linear), done);
done:
  if (st != QN_OK) {
    qn_graph_release(*out_primal);
    *out_primal = NULL;
  }
  qn_graph_release(p.joint);
  qn_arena_free(&p.scratch);
  return st;
}

qn_status qn_remat_graph(const qn_graph *f, const qn_remat_policy *policy, qn_graph **out_graph) {
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f);
  qn_graph *g = NULL, *region = qn_graph_retain(f);
  *out_graph = NULL;
  qn_status st;
  QN_TRY_GOTO(st, qn_graph_create(qn_graph_name(f), &g), done);
  qn_val *args = QN_NEW(qn_graph_arena(g), qn_val, params + 1), *out = QN_NEW(qn_graph_arena(g), qn_val, results + 1);
  qn_attr_name attr = {policy != NULL && policy->dots ? "dots" : "nothing",
                       policy != NULL && policy->names != NULL ? policy->names : ""};
  if (args && out) {
    qn_copy_params(g, f, args);
    qn_val first = qn_graph_add(g, QN_OP_REMAT, args, params, &attr, &region, 1, QN_HERE);
    for (size_t i = 0; i < results && qn_val_ok(first); ++i) {
      out[i] = qn_val_result(first, (int)i);
      qn_graph_set_result_path(g, i, qn_graph_result_path(f, i));
    }
  } else {
    (void)qn_no_memory(g);
  }
  st = qn_finish(g, out, out ? results : 0, out_graph);
done:
  qn_graph_release(region);
  return st;
}
