/* Where a NaN came from: a graph run with every value kept, by a device or by the references, and looked through node by node. */
#ifndef QUERN_CHECK_H
#define QUERN_CHECK_H

#include "quern/exec.h"
#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_nan_origin {
  QN_NAN_NONE,      /* no result holds a NaN */
  QN_NAN_OPERATION, /* an operation made it of operands that hold none */
  QN_NAN_INPUT,     /* it came with an input */
  QN_NAN_CONSTANT   /* it is in a constant of the program */
} qn_nan_origin;

typedef struct qn_nan_report {
  qn_nan_origin origin;
  char op[64];          /* "log" */
  char file[256];       /* its place in the traced source; "" where there is none */
  int line, column;     /* column 0: only the line is known */
  qn_type type;         /* of the value that holds the NaN */
  int64_t count, first; /* NaNs in it, and the index of the first element that is one */
  size_t input;         /* INPUT: which */
} qn_nan_report;

/* Runs g (sealed) on inputs[i], row-major in the parameters' dtypes, and finds the first operation in the graph's order whose NaN reaches a result and
 * whose operands have none. NaNs that a select leaves behind do not count. d NULL: the references. Values are kept in portions of memory, so the
 * program may run more than once; where a value depends on fusion it would be a defect, and is what it is in the plain run. `cache` may be NULL. */
qn_status qn_check_nans(qn_device *d, qn_cache *cache, const qn_graph *g, const void *const *inputs,
                        qn_nan_report *out_report);
/* "log made 3 NaNs in f32[8], the first at [2], of operands without any (model.c:41)" */
void qn_nan_report_print(const qn_nan_report *r, qn_text *out);
/* NaNs among row-major elements, and the first one's index (-1: none). Types that have none give 0. */
int64_t qn_count_nans(const qn_type *t, const void *data, int64_t *out_first);

#ifdef __cplusplus
}
#endif
#endif
