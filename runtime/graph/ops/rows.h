/* Columns that elementwise rows share, so that a row shows what is its own. */
#ifndef QUERN_OPS_ROWS_H
#define QUERN_OPS_ROWS_H

#include "infer.h"
#include "quern/ops.h"

#define QN_ROW_ELEMENTWISE(operands, mask)                                                                             \
  .arity = (operands), .kind = QN_KIND_ELEMENTWISE, .dtypes = (mask), .infer = qn_infer_same,                          \
  .batch = qn_batch_elementwise

/* One sample of a 5x7 tensor per operand; `tol` is relative, in f32. */
#define QN_ROW_SAMPLE1(low, high, error)                                                                               \
  .samples = (const qn_sample[]){{.ranks = {2}, .dims = {{5, 7}}, .lo = (low), .hi = (high), .tol = (error)}},         \
  .sample_count = 1
#define QN_ROW_SAMPLE2(low, high, error)                                                                               \
  .samples =                                                                                                           \
      (const qn_sample[]){{.ranks = {2, 2}, .dims = {{5, 7}, {5, 7}}, .lo = (low), .hi = (high), .tol = (error)}},     \
  .sample_count = 1

/* Relative errors that samples allow: two units in the last place of f32, and four for the hard functions. */
#define QN_TOL_2ULP 2.5e-7
#define QN_TOL_4ULP 5e-7

#define QN_NO_GRAD_STEPS "piecewise constant"
#define QN_NO_GRAD_BOOL "result is boolean"
#define QN_NO_GRAD_BITS "works on bits"

#endif
