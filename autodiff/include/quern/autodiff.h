/* Derivatives: graph in, graph out, composable in any order. Results are sealed graphs that the caller releases.
 *
 * Integer and boolean arguments have no tangents. Zero cotangents are never materialised, fan-in is summed once, only what the asked
 * gradients need is built. A zero cotangent (or tangent) times a non-finite partial is zero: see docs/gradients.md. */
#ifndef QUERN_AUTODIFF_H
#define QUERN_AUTODIFF_H

#include "quern/control.h"
#include "quern/graph.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_grad_desc {
  const int
      *argnums; /* parameters (of a graph) or arguments (of a traced function) to differentiate by; NULL: the first */
  size_t argnum_count;
  bool has_aux;  /* results behind the first are handed through */
  bool no_value; /* grad instead of value_and_grad: gradients, then aux */
} qn_grad_desc;

/* f's first result is a float scalar. Results: value, aux..., then a gradient per argnum, of its dtype. Parameters as f's. */
qn_status qn_grad_graph(const qn_graph *f, const qn_grad_desc *desc, qn_graph **out_graph);
/* Parameters: f's, then a tangent for each floating-point one. Results: f's, then a tangent for each floating-point one. */
qn_status qn_jvp_graph(const qn_graph *f, qn_graph **out_graph);
/* Parameters: f's, then a cotangent for each floating-point result. Results: f's, then a gradient for each floating-point parameter. */
qn_status qn_vjp_graph(const qn_graph *f, qn_graph **out_graph);
/* f over a new leading axis of `size`; in_axes[i] is the lane axis of parameter i, or -1 for none; results have lanes on axis 0. */
qn_status qn_vmap_graph(const qn_graph *f, int64_t size, const int *in_axes, qn_graph **out_graph);

/* Jacobians by the parameters `argnums` (NULL: the first): per result of f and, within it, per argnum, a tensor of the result's shape
 * followed by the parameter's. Parameters as f's. jacfwd takes a pass per parameter element, jacrev one per result element, each batched. */
qn_status qn_jacfwd_graph(const qn_graph *f, const int *argnums, size_t count, qn_graph **out_graph);
qn_status qn_jacrev_graph(const qn_graph *f, const int *argnums, size_t count, qn_graph **out_graph);
qn_status qn_hessian_graph(const qn_graph *f, const int *argnums, size_t count,
                           qn_graph **out_graph); /* jacfwd of jacrev */

/* f as two functions: primal (x..) -> y.., residuals..; linear (residuals.., tangents of the float x..) -> tangents of the float y... */
qn_status qn_linearize_graph(const qn_graph *f, qn_graph **out_primal, qn_graph **out_linear);
/* The Hessian of a float scalar by parameter `argnum`, times a vector: parameters x.., v. Forward over reverse. */
qn_status qn_hvp_graph(const qn_graph *f, int argnum, qn_graph **out_graph);
/* f as one node that reverse mode computes again instead of keeping its values; policy NULL: only its parameters are kept. */
qn_status qn_remat_graph(const qn_graph *f, const qn_remat_policy *policy, qn_graph **out_graph);

/* Checks f's derivatives at `inputs` (row-major, one per parameter) by the reference interpreter: tangents against central differences, and
 * cotangents against tangents by inner products; for order 2 those of the derivatives too. Zero means the default. QN_INTERNAL, with
 * the numbers, where they differ. */
typedef struct qn_check_grads_desc {
  int order; /* 1 */
  bool no_forward, no_reverse;
  double step, rtol, atol; /* by dtype: f64 1e-6, 1e-6, 1e-6; f32 1e-2, 2e-2, 2e-3 */
  uint64_t seed;           /* of the directions */
} qn_check_grads_desc;
qn_status qn_check_grads(const qn_graph *f, const void *const *inputs, const qn_check_grads_desc *desc);

/* ---- one transform by description, for tools that are given a list of them ---- */
typedef enum qn_transform_kind {
  QN_TRANSFORM_IDENTITY, /* jit: the same values */
  QN_TRANSFORM_GRAD,
  QN_TRANSFORM_VALUE_AND_GRAD,
  QN_TRANSFORM_JACFWD,
  QN_TRANSFORM_JACREV,
  QN_TRANSFORM_HESSIAN,
  QN_TRANSFORM_VMAP,
  QN_TRANSFORM_HVP,       /* of a scalar function: x.., then v as x1: Hessian by x1 times v, forward over reverse */
  QN_TRANSFORM_HVP_REV,   /* the same as the gradient of the product of gradient and v */
  QN_TRANSFORM_VJP,       /* x.., then a cotangent of each float result: cotangents of the float x */
  QN_TRANSFORM_JVP,       /* x.., then tangents of the float x: results, then tangents */
  QN_TRANSFORM_LINEARIZE, /* as JVP: the tangents alone */
  QN_TRANSFORM_REMAT,     /* the same values, computed again in reverse mode */
  QN_TRANSFORM_SUM        /* the sum of all entries of the only result */
} qn_transform_kind;
typedef struct qn_transform {
  qn_transform_kind kind;
  const int *argnums; /* NULL: the first */
  size_t argnum_count;
  bool has_aux;
  int64_t
      lanes; /* vmap: lanes, and an axis per parameter (QN_NO_LANES: none) and per result (NULL: 0). Negative axes count from the end */
  const int *in_axes, *out_axes;
} qn_transform;
enum { QN_NO_LANES = -1000 };
qn_status qn_transform_find(const char *name, qn_transform_kind *out_kind); /* "grad", "value_and_grad", "jacfwd" ... */
qn_status qn_transform_graph(const qn_graph *f, const qn_transform *t, qn_graph **out_graph);

/* ---- inside a trace ---- */
/* Returns the loss (a float scalar); *out_aux may be given a tree (only looked at with has_aux). */
typedef qn_val (*qn_loss_fn)(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user);
typedef struct qn_value_grad {
  qn_val value;
  qn_tree *aux;      /* NULL without has_aux */
  qn_tree *grads[8]; /* a tree per argnum, with that argument's paths; leaves that are not floats are left out */
} qn_value_grad;
/* value_and_grad of fn at `args`, inlined into g. On failure g has failed and the result is null. */
qn_value_grad qn_value_and_grad_at(qn_place at, qn_graph *g, qn_loss_fn fn, void *user, qn_tree *const *args,
                                   size_t arg_count, const qn_grad_desc *desc);
#define qn_value_and_grad(g, fn, user, args, arg_count, desc)                                                          \
  qn_value_and_grad_at(QN_HERE, g, fn, user, args, arg_count, desc)

/* fn over lanes: operand i has them at in_axes[i] (QN_NO_LANES: shared by all), result i at out_axes[i] (NULL: 0). fn sees one lane and may use
 * any value around it. Fills out with null values after a failure. */
void qn_vmap_at(qn_place at, qn_graph *g, qn_body_fn fn, void *user, const qn_val *in, const int *in_axes, size_t count,
                const int *out_axes, qn_val *out, size_t out_count);
/* The same of trees: all leaves of argument i have their lanes at in_axes[i], all of the result at out_axis. leaf_axis (may be NULL) says
 * otherwise for a leaf of an argument: QN_AXIS_OF_ARGUMENT leaves it. NULL after a failure. */
enum { QN_AXIS_OF_ARGUMENT = -2000 };
typedef int (*qn_leaf_axis_fn)(size_t argument, const char *path, void *user);
qn_tree *qn_vmap_tree_at(qn_place at, qn_graph *g, qn_tree_fn fn, void *user, qn_tree *const *args, const int *in_axes,
                         size_t arg_count, qn_leaf_axis_fn leaf_axis, int out_axis);
#define qn_vmap_tree(g, fn, user, args, in_axes, arg_count, leaf_axis, out_axis)                                       \
  qn_vmap_tree_at(QN_HERE, g, fn, user, args, in_axes, arg_count, leaf_axis, out_axis)
#define qn_vmap(g, fn, user, in, in_axes, count, out_axes, out, out_count)                                             \
  qn_vmap_at(QN_HERE, g, fn, user, in, in_axes, count, out_axes, out, out_count)

#ifdef __cplusplus
}
#endif
#endif
