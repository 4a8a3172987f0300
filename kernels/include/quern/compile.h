/* From graphs to runnable steps: optimise, schedule, print or emit, plan; and the user's one call for all of it, qn_jit. */
#ifndef QUERN_COMPILE_H
#define QUERN_COMPILE_H

#include "quern/exec.h"
#include "quern/graph.h"
#include "quern/tree.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_compile_desc {
  const char *name;                  /* of the step, for messages and explain */
  const qn_plan_donation *donations; /* arguments whose slab takes results (prefix as in exec.h) */
  size_t donation_count;
  qn_cache *cache;      /* of compiled objects; may be NULL */
  bool no_fusion;       /* one kernel per node */
  bool no_reuse;        /* every buffer its own place in the arena */
  bool no_donation;     /* donated results are computed in the arena and copied */
  qn_text *explain;     /* not NULL: graph before and after, rewrites, clusters, kernels, plan, forecast */
  bool explain_kernels; /* with the printed text of every kernel */
  bool interpret;       /* the cpu device interprets the kernels, as QN_INTERPRET makes all of them do */
  /* The cpu device compiles steps of little work too, which it interprets until they have run often; QN_INTERPRET=off likewise. */
  bool at_once;
} qn_compile_desc;

/* Compiles a traced function for a device. The plan is owned by the caller until qn_step_create takes it. QN_INTERPRET or a build
 * without LLVM make the cpu device run the interpreter. */
qn_status qn_compile(const qn_device_caps *caps, const qn_traced *fn, const qn_compile_desc *desc, qn_plan **out_plan);

/* qn_compile and qn_step_create in one. */
typedef struct qn_jit_desc {
  qn_compile_desc compile;
  qn_step_desc step;
} qn_jit_desc;
qn_status qn_jit(qn_device *d, const qn_traced *fn, const qn_jit_desc *desc, qn_step **out_step);
/* Layout of a tree definition in a slab. */
qn_status qn_layout_from_treedef(const qn_treedef *def, qn_layout *out_layout);

#ifdef __cplusplus
}
#endif
#endif
