/* Control flow inside a trace: loops, branches, scans. Bodies are C functions that are called once, with symbolic values of a graph of their
 * own. They may use any value of the graphs around them: what they use is captured.
 *
 * Every function fills `out`; after a failure with null values, and qn_graph_seal tells why. Derivatives and vmap go through all of them;
 * reverse mode needs a loop's number of iterations to be known when it is traced (docs/gradients.md). */
#ifndef QUERN_CONTROL_H
#define QUERN_CONTROL_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `out` from `in`; how many there are of each is said where the function is given. */
typedef void (*qn_body_fn)(qn_graph *g, const qn_val *in, qn_val *out, void *user);

/* cond: carries -> one bool; body: carries -> carries. Runs the body as long as the condition is true. */
void qn_while_at(qn_place at, qn_graph *g, const qn_val *init, size_t count, qn_body_fn cond, qn_body_fn body,
                 void *user, qn_val *out);
#define qn_while(g, init, count, cond, body, user, out) qn_while_at(QN_HERE, g, init, count, cond, body, user, out)
/* body: i (i32), carries -> carries, for i from lo to hi - 1. */
void qn_fori_at(qn_place at, qn_graph *g, int64_t lo, int64_t hi, const qn_val *init, size_t count, qn_body_fn body,
                void *user, qn_val *out);
#define qn_fori(g, lo, hi, init, count, body, user, out) qn_fori_at(QN_HERE, g, lo, hi, init, count, body, user, out)
/* The same between two scalars of one integer dtype, which i has too. */
void qn_fori_between_at(qn_place at, qn_graph *g, qn_val lo, qn_val hi, const qn_val *init, size_t count,
                        qn_body_fn body, void *user, qn_val *out);
#define qn_fori_between(g, lo, hi, init, count, body, user, out)                                                       \
  qn_fori_between_at(QN_HERE, g, lo, hi, init, count, body, user, out)
/* One of two functions of `in`, both with out_count results. */
void qn_cond_at(qn_place at, qn_graph *g, qn_val pred, const qn_val *in, size_t in_count, qn_body_fn on_true,
                qn_body_fn on_false, void *user, qn_val *out, size_t out_count);
#define qn_cond(g, pred, in, in_count, on_true, on_false, user, out, out_count)                                        \
  qn_cond_at(QN_HERE, g, pred, in, in_count, on_true, on_false, user, out, out_count)
/* One of several; the index, any integer scalar, is clamped to 0 .. branch_count - 1. */
void qn_switch_at(qn_place at, qn_graph *g, qn_val index, const qn_body_fn *branches, size_t branch_count,
                  const qn_val *in, size_t in_count, void *user, qn_val *out, size_t out_count);
#define qn_switch(g, index, branches, branch_count, in, in_count, user, out, out_count)                                \
  qn_switch_at(QN_HERE, g, index, branches, branch_count, in, in_count, user, out, out_count)

typedef struct qn_scan_desc {
  const qn_val *init; /* carries */
  size_t carries;
  const qn_val *xs; /* inputs; step i takes row i of each */
  size_t inputs, outputs;
  int64_t length;  /* 0: that of the inputs */
  bool reverse;    /* from the last row to the first; outputs keep their rows' places */
  qn_body_fn body; /* carries, rows of the inputs -> carries, rows of the outputs */
  void *user;
} qn_scan_desc;
/* out: the last carries, then the outputs with their rows stacked. */
void qn_scan_at(qn_place at, qn_graph *g, const qn_scan_desc *desc, qn_val *out);
#define qn_scan(g, desc, out) qn_scan_at(QN_HERE, g, desc, out)
/* fn of each row of the inputs, one after the other, outputs stacked: vmap without its memory. */
void qn_map_rows_at(qn_place at, qn_graph *g, const qn_val *xs, size_t inputs, qn_body_fn fn, void *user, qn_val *out,
                    size_t outputs);
#define qn_map_rows(g, xs, inputs, fn, user, out, outputs)                                                             \
  qn_map_rows_at(QN_HERE, g, xs, inputs, fn, user, out, outputs)
/* All prefixes by an associative function, in a logarithmic number of steps. fn: a.., b.. -> a op b, for arrays of any length along `axis`. */
void qn_associative_scan_at(qn_place at, qn_graph *g, const qn_val *xs, size_t count, int64_t axis, bool reverse,
                            qn_body_fn fn, void *user, qn_val *out);
#define qn_associative_scan(g, xs, count, axis, reverse, fn, user, out)                                                \
  qn_associative_scan_at(QN_HERE, g, xs, count, axis, reverse, fn, user, out)

/* ---- memory for time: a function whose values reverse mode computes again instead of keeping them ---- */
typedef struct qn_remat_policy {
  bool dots;         /* results of contractions are kept */
  const char *names; /* values that are kept, by qn_checkpoint_name, separated by commas; NULL: none */
} qn_remat_policy;
/* fn: in -> out_count results; it may use any value around it. policy NULL: nothing but fn's operands is kept. */
void qn_remat_at(qn_place at, qn_graph *g, const qn_remat_policy *policy, const qn_val *in, size_t count, qn_body_fn fn,
                 void *user, qn_val *out, size_t out_count);
#define qn_remat(g, policy, in, count, fn, user, out, out_count)                                                       \
  qn_remat_at(QN_HERE, g, policy, in, count, fn, user, out, out_count)

#ifdef __cplusplus
}
#endif
#endif
