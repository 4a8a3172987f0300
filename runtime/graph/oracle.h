/* The oracle's parts that rows use: typed loads and stores, one node on host memory, and regions on scalars. */
#ifndef QUERN_ORACLE_H
#define QUERN_ORACLE_H

#include "quern/op.h"

/* `count` elements of dtype t, as the class's widest type. Loads are exact; stores round once (floats, to nearest even) or cut
 * to the width (integers; bool: the lowest bit). A bool counts as unsigned. */
void qn_oracle_load_f(qn_dtype t, const void *data, int64_t first, int64_t count, double *out);
void qn_oracle_load_i(qn_dtype t, const void *data, int64_t first, int64_t count, int64_t *out);
void qn_oracle_load_u(qn_dtype t, const void *data, int64_t first, int64_t count, uint64_t *out);
void qn_oracle_store_f(qn_dtype t, void *data, int64_t first, int64_t count, const double *in);
void qn_oracle_store_i(qn_dtype t, void *data, int64_t first, int64_t count, const int64_t *in);
void qn_oracle_store_u(qn_dtype t, void *data, int64_t first, int64_t count, const uint64_t *in);
/* Rounds a double once. */
uint16_t qn_oracle_f64_to_f16(double x);
uint16_t qn_oracle_f64_to_bf16(double x);
/* Width in bits of an element as references see it: 1 for bool. */
int qn_oracle_bits(qn_dtype t);

/* Runs one node: by the row's `eval`, or element by element by its `ref`s. */
qn_status qn_oracle_node(const qn_ref_call *call);

/* A region of scalars (combiners of reduce, scatter, sort ...), prepared once and run per element. Not shared by threads. */
typedef struct qn_oracle_region qn_oracle_region;
qn_status qn_oracle_region_open(const qn_graph *body, qn_oracle_region **out_region);
/* in[i], out[i]: one element each, in the dtypes of the region's parameters and results. `out` may be the same memory as `in`. */
qn_status qn_oracle_region_run(qn_oracle_region *r, const void *const *in, void *const *out);
void qn_oracle_region_close(qn_oracle_region *r); /* NULL is fine */

#endif
