/* A contraction as loops: every operand's index is a sum of steps of loop axes, for dot_general and convolution alike. Private to this folder. */
#ifndef QN_CONTRACT_H
#define QN_CONTRACT_H

#include "schedule.h"

typedef enum loop_kind {
  LOOP_BATCH,
  LOOP_ROW,    /* of the register tile; one after the other */
  LOOP_COL,    /* lanes run over the columns' flat index */
  LOOP_K,      /* summed */
  LOOP_COLUMNS /* the flat index itself */
} loop_kind;

typedef struct loop_axes {
  int count;
  qn_type shape; /* sizes, in order */
} loop_axes;

enum { INDEX_TERMS = 3 };
typedef struct index_term {
  loop_kind kind;
  int axis; /* of the loops of its kind */
  int64_t step;
} index_term;
typedef struct index_map { /* by axis of the operand */
  int count[QN_MAX_RANK];
  index_term terms[QN_MAX_RANK][INDEX_TERMS];
} index_map;

typedef struct contraction {
  const qn_node *n;
  uint32_t left_value, right_value; /* the operand that is broadcast, the one whose elements fill lanes */
  const qn_type *lhs, *rhs, *out;   /* of left, right and result */
  loop_axes batch, rows, cols, k;
  index_map left, right, result;
  bool left_by_column; /* the left operand's index depends on the column: depthwise convolutions */
  bool right_by_row;   /* the right operand's on the row: lanes along the input */
  int run_axis;        /* sums over the k axes from here on are made apart, then added; 0: over all of them at once */
  int64_t batch_n, m, cols_n, k_n;
} contraction;

/* `lanes`: of the device's vectors, which decides whether groups share a vector. */
void qn_contraction_of(const qn_graph *g, const qn_node *n, uint32_t lanes, contraction *out);
/* The axis of the right operand that lanes run along; -1: none. */
int64_t qn_contraction_lane_axis(const qn_graph *g, const qn_node *n);
bool qn_is_contraction(qn_op op);

#endif
