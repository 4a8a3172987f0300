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
