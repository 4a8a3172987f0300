/* What gather, scatter and the dynamic slices share: where windows lie, and index tensors clamped or tested against an operand.
 * Private to the library. */
#ifndef QUERN_OPS_INDEX_WINDOW_H
#define QUERN_OPS_INDEX_WINDOW_H

#include "quern/op.h"
#include "quern/ops.h"

/* Dimension numbers of a gather or scatter in one form. "Outer" is the gathered result or the updates: its axes are split into those that
 * count windows and those inside a window. */
typedef struct qn_windows {
  const qn_type *operand, *indices, *outer;
  int64_t vector_dim;
  qn_dims count_axes;   /* of the indices, without the vector axis; in order the same sizes as outer's at outer_count */
  qn_dims outer_count;  /* axes of outer that count windows */
  qn_dims outer_window; /* axes of outer inside a window, in order of operand_window */
  qn_dims operand_window; /* operand axes inside a window: neither collapsed nor batching */
  qn_dims map;            /* component of an index vector -> operand axis */
  qn_dims operand_batching, indices_batching;
  qn_dims size; /* of a window along each operand axis; 1 along those that are not in it */
} qn_windows;

qn_windows qn_windows_of_gather(const qn_attr_gather *a, const qn_type *operand, const qn_type *indices,
                                const qn_type *result);
qn_windows qn_windows_of_scatter(const qn_attr_scatter *a, const qn_type *operand, const qn_type *indices,
                                 const qn_type *updates);

/* Window number by window number (an index over count_axes): where it starts in the operand. */
void qn_windows_start(const qn_windows *w, const void *indices, const int64_t *number, int64_t *out_start);

/* Checks of both shape rules: vector axis, map, batching axes. */
qn_status qn_check_windows(const qn_infer *c, int operand, int indices, int64_t vector_dim, const qn_dims *map,
                           const char *batching_name, const qn_dims *batching, const char *indices_batching_name,
                           const qn_dims *indices_batching, const char *dropped_name, const qn_dims *dropped);

/* Indices whose components along `vector_dim` are clamped to 0 .. room[component]; vector_dim may be the rank (one component). */
qn_val qn_clamped_indices(qn_val indices, int64_t vector_dim, const int64_t *room);
/* true where every component lies in 0 .. room[component]: bool of the indices' shape without the vector axis. */
qn_val qn_fitting_indices(qn_val indices, int64_t vector_dim, const int64_t *room);
/* A scatter whose body is a binary op, or (QN_OP_PARAMETER) assignment of the update. */
qn_val qn_scatter_named(qn_val x, qn_val indices, qn_val updates, const qn_attr_scatter *dims, qn_op op);

/* Derivatives of scatter. */
void qn_scatter_vjp(qn_rule *r, qn_val *out);
void qn_scatter_jvp(qn_rule *r, qn_val *out);

#endif
