/* The transforms' common ground: each copies a sealed graph into an open one and adds what it derives. Private to the library.
 *
 * The `_into` functions build in `g`; they return false after g has failed, and then leave nothing else behind. Null values among
 * tangents, cotangents and gradients stand for zero. */
#ifndef QUERN_AUTODIFF_ENGINE_H
#define QUERN_AUTODIFF_ENGINE_H

#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/ops.h"

/* args, tangents: one per parameter of f; results, result_tangents: room for one per result. */
bool qn_jvp_into(qn_graph *g, const qn_graph *f, const qn_val *args, const qn_val *tangents, qn_val *results,
                 qn_val *result_tangents);
/* cotangents: one per result of f; wanted, grads: one per parameter. Gradients that are zero stay null. */
bool qn_vjp_into(qn_graph *g, const qn_graph *f, const qn_val *args, const bool *wanted, const qn_val *cotangents,
                 qn_val *results, qn_val *grads);
/* args that are mapped have their lanes on axis 0, and so have results that are. */
bool qn_vmap_into(qn_graph *g, const qn_graph *f, int64_t size, const qn_val *args, const bool *mapped, qn_val *results,
                  bool *out_mapped);

/* ---- nodes that hold functions: control flow, custom rules, remat ---- */
/* One such node being transformed. Failures go to g; functions then return false. */
typedef struct qn_call {
  qn_graph *g;
  const qn_graph *f; /* the node's graph */
  const qn_node *node;
  qn_arena *scratch;   /* lives as long as the transform */
  const qn_val *in;    /* operands */
  const qn_val *given; /* jvp: tangents of the operands; back: cotangents of the results */
  const bool *wanted;  /* forward and back: operands that are differentiated */
  const bool *felt;    /* forward: results that will have a cotangent */
  const bool *mapped;  /* batch */
  int64_t lanes;
  qn_val *out;      /* results; back: cotangents of the operands */
  qn_val *tangents; /* jvp: of the results */
  bool *out_mapped;
  void *kept; /* what `forward` hands to `back` */
} qn_call;
typedef struct qn_call_rules {
  bool (*jvp)(qn_call *c);
  bool (*forward)(qn_call *c); /* NULL: the node is copied */
  bool (*back)(qn_call *c);
  void (*drop)(void *kept); /* gives back graphs in `kept`, which itself is in scratch */
  bool (*batch)(qn_call *c);
} qn_call_rules;
const qn_call_rules *qn_call_rules_of(qn_op op); /* NULL: an operation with a row's rules only */
extern const qn_call_rules qn_rules_while, qn_rules_branches, qn_rules_remat, qn_rules_custom_jvp;
bool qn_while_forward(qn_call *c);
bool qn_while_back(qn_call *c);
void qn_while_drop(void *kept);
/* Fails c->g with what the thread's error says; false. */
bool qn_call_failed(qn_call *c, qn_status st);

/* Which results of f depend on the marked parameters by way of floats. */
void qn_reach(const qn_graph *f, const bool *params, bool *out_results, qn_arena *scratch);
/* a + b for cotangents; a slice written into zeros is added in place. */
qn_val qn_add_cotangents(qn_val a, qn_val b);
qn_val qn_with_lanes(qn_val x, int64_t size); /* broadcast over a new leading axis */

/* A region with tangents: parameters are its `carries` first ones, the tangents of those that are active, the rest, the tangents of those of
 * the rest that are active. Results: its own, then (unless it is a condition) tangents of the results in `want`; out_has tells which have one. */
qn_status qn_region_jvp(const qn_graph *r, int carries, const bool *active, const bool *want, bool *out_has,
                        qn_arena *scratch, qn_graph **out_graph);
/* A region over lanes; results in `want` (NULL: none) get lanes in any case. */
qn_status qn_region_vmap(const qn_graph *r, int64_t size, const bool *mapped, const bool *want, bool *out_mapped,
                         qn_arena *scratch, qn_graph **out_graph);
/* A region pulled back: parameters are its own, then a cotangent of each result in `given`. Results: its own, then a gradient of each parameter
 * in out_has, a subset of `wanted`. */
qn_status qn_region_vjp(const qn_graph *r, const bool *wanted, const bool *given, bool *out_has, qn_arena *scratch,
                        qn_graph **out_graph);

/* ---- splitting a graph in two by what a part of its parameters decides ---- */
typedef struct qn_split qn_split;
/* Is the value of this early node handed over (true), or computed again from its operands? */
typedef bool (*qn_keep_fn)(const qn_graph *j, const qn_node *n, const void *user);
struct qn_split {
  const qn_graph *j;
  size_t early_results;     /* the first so many results depend on early parameters only */
  const bool *late, *free_; /* by parameter; free ones are known to both halves */
  qn_keep_fn keep;          /* NULL: everything but cheap moves */
  const void *user;
  qn_arena *scratch;
  uint32_t *residuals; /* values of j that the first half hands to the second */
  size_t residual_count;
  bool *in_second, *is_late; /* by value */
};
bool qn_split_make(qn_split *s); /* from j, early_results, late, free_, keep, user, scratch; false: no memory */
bool qn_split_first(const qn_split *s, qn_graph *g, const qn_val *args, qn_val *results, qn_val *residuals);
bool qn_split_second(const qn_split *s, qn_graph *g, const qn_val *args, const qn_val *residuals, qn_val *results);

bool qn_is_differentiable(const qn_type *t);
/* Copies f's parameters to g with their paths. */
void qn_copy_params(qn_graph *g, const qn_graph *f, qn_val *out);
/* The most operands and results that a node of f has. */
size_t qn_widest_node(const qn_graph *f);
/* Fails g for lack of memory; false. */
bool qn_no_memory(qn_graph *g);
/* Ends a transform: seals g with the results and hands it out, or releases it. */
qn_status qn_finish(qn_graph *g, const qn_val *results, size_t count, qn_graph **out_graph);

#endif
