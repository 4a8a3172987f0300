/* What the samplers share. */
#ifndef QN_OPS_RANDOM_PARTS_H
#define QN_OPS_RANDOM_PARTS_H

#include "quern/random.h"

typedef struct qn_float_form {
  qn_dtype bits; /* unsigned dtype of the same width */
  int width, drawn, mantissa;
  double one;       /* bits of 1.0, as a number */
  double below_one; /* the largest value under 1 */
  double epsilon;   /* from 1 to the next value */
  double tiny;      /* the smallest normal value */
} qn_float_form;
qn_float_form qn_float_form_of(qn_dtype t);

/* Is the key u32[2]? If so its words, scalars; otherwise the graph fails. */
bool qn_random_key(const char *name, qn_place at, qn_val key, qn_val words[2]);
/* Is the key a value, and the type one of floats? Otherwise the graph fails. */
bool qn_random_float(const char *name, qn_place at, qn_val key, const qn_type *type);
/* Bits of an unsigned dtype from both words of a block. */
qn_val qn_random_word_bits(qn_place at, qn_val a, qn_val b, qn_dtype t);
/* The dtype of the bits that make a float. */
qn_dtype qn_random_drawn(qn_dtype t);
qn_val qn_random_unit_bits(qn_place at, qn_val bits, qn_dtype t);        /* numbers of [0, 1) */
qn_val qn_random_scaled(qn_place at, qn_val unit, double lo, double hi); /* of [lo, hi) */
qn_val qn_random_normal_of(qn_place at, qn_val unit);
/* Row i of keys u32[n,2]. */
qn_val qn_random_row(qn_place at, qn_val keys, int64_t i);
/* Dimensions that are too many fail the graph. */
bool qn_random_rank(const char *name, qn_graph *g, qn_place at, int rank);

#endif
