/* One op, one row: everything known about an operation. Rows sit beside their helpers in runtime/graph/ops/, one file a family. */
#ifndef QUERN_OP_H
#define QUERN_OP_H

#include "quern/graph.h"
#include "quern/scalar.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_op_kind {
  QN_KIND_SOURCE,      /* parameter, constant, iota */
  QN_KIND_ELEMENTWISE, /* result element from operand elements at the same index; all operands of the result's shape */
  QN_KIND_MOVE,        /* result element is some operand's element (or pad value) */
  QN_KIND_REDUCE,
  QN_KIND_CONTRACT,
  QN_KIND_INDEX,  /* gather, scatter, dynamic slices */
  QN_KIND_MATRIX, /* whole matrices over batch axes: factorisations, triangular solves */
  QN_KIND_CONTROL,
  QN_KIND_MARK /* identity or call-like: lowered away before scheduling */
} qn_op_kind;

/* Shape rule's view. Fills out_types[0 .. result_count-1]; fails with a message naming op, operand, expected, got. */
typedef struct qn_infer {
  qn_op op;
  const char *name;
  int operand_count, region_count;
  const qn_type *operands;
  const void *attr;
  qn_graph *const *regions;
  int result_count;   /* set by the rule; 1 unless said otherwise */
  qn_type *out_types; /* room for operand_count + 2, or for what a region returns, whichever is more */
  qn_type
      hint; /* result type for ops whose result does not follow from operands (convert, reshape, iota, broadcast_in_dim, ...):
                          given by the builder or parser; dtype NONE: not given */
} qn_infer;

/* Derivative rule's view: values of the new graph `g`. */
typedef struct qn_rule {
  qn_graph *g;
  const qn_node *node; /* of the differentiated graph: op, attributes, regions, place */
  const void *attr;    /* node->attr */
  int in_count, out_count;
  const qn_val *in;  /* primal operands */
  const qn_val *out; /* primal results */
  const qn_val
      *given; /* vjp: cotangents of the results; jvp: tangents of the operands. The null value stands for zero */
  const qn_graph *from; /* lowering: the graph of `node`, for the types of its results; NULL otherwise */
  const bool *wanted;   /* vjp: which operands' cotangents are asked for */
} qn_rule;
typedef qn_val (*qn_partial_fn)(qn_rule *r,
                                int i); /* d result / d operand i, elementwise; null value: zero everywhere */
typedef void (*qn_derive_fn)(
    qn_rule *r, qn_val *out); /* vjp: out[in_count] cotangents; jvp: out[out_count] tangents. Preset to null */
/* A cotangent or tangent times a partial, of its shape or a scalar: where `given` is 0 and the partial is not finite the product is 0
 * (docs/gradients.md), and so is its own derivative there. */
qn_val qn_rule_product(qn_val given, qn_val partial);

/* Rewrites one node by simpler operations, in front of scheduling: r holds the new graph, the node and its operands. Fills out[out_count] and
 * returns true, or returns false and the node stays as it is. What it builds may be lowered again. */
typedef bool (*qn_lower_fn)(qn_rule *r, qn_val *out);

/* Batching rule's view: every operand has its lane axis at 0, or none. */
typedef struct qn_batch {
  qn_graph *g;
  const qn_graph
      *from; /* the graph of `node`: qn_graph_type(from, node->first_result) is the result's type without lanes */
  const qn_node *node;
  const void *attr;
  int in_count, out_count;
  int64_t size; /* lanes */
  const qn_val *in;
  const bool *mapped; /* per operand */
  bool *out_mapped;   /* per result; preset to true */
} qn_batch;
typedef void (*qn_batch_fn)(qn_batch *b, qn_val *out);

/* References: by class of the operands' dtype. Elementwise ops give the functions for the classes they claim; others give `eval`. */
typedef struct qn_ref_call {
  const qn_graph *graph;
  const qn_node *node;
  const void *attr;
  int in_count, out_count;
  const qn_type *const *in_types, *const *out_types;
  const void *const *in; /* row-major, in the dtypes given */
  void *const *out;
} qn_ref_call;
typedef double (*qn_ref_f)(const double *x);
typedef int64_t (*qn_ref_i)(const int64_t *x, int bits); /* result is cut to `bits` by the caller */
typedef uint64_t (*qn_ref_u)(const uint64_t *x, int bits);
typedef struct qn_complex {
  double re, im;
} qn_complex;
typedef qn_complex (*qn_ref_c)(const qn_complex *x); /* of a real result only re counts */
typedef qn_status (*qn_ref_eval)(const qn_ref_call *c);

/* Sample for the conformance walk: operand types and ranges from which tests draw. */
typedef struct qn_sample {
  int ranks[4];
  int64_t dims[4][5];
  double lo, hi;    /* range of operand values (integers: rounded) */
  double tol;       /* relative error allowed in f32 against the reference; 0: exact */
  const void *attr; /* attribute record, NULL where the op has none */
  qn_type hint;
} qn_sample;

/* Which dtypes an operation takes. */
enum {
  QN_D_BOOL = 1,
  QN_D_SIGNED = 2,
  QN_D_UNSIGNED = 4,
  QN_D_FLOAT = 8,
  QN_D_COMPLEX = 16,
  QN_D_INT = QN_D_SIGNED | QN_D_UNSIGNED,
  QN_D_BITS = QN_D_INT | QN_D_BOOL,
  QN_D_REAL = QN_D_INT | QN_D_FLOAT,
  QN_D_ANY = 31
};

typedef struct qn_op_def {
  const char *name; /* StableHLO mnemonic: "add"; "chlo.erf"; Quern's own: "quern.stop_gradient" */
  const char *doc;  /* a sentence or two; the generated op list prints it */
  int arity;        /* -1: any */
  qn_op_kind kind;
  unsigned dtypes;  /* of operand 0 (QN_D_*) */
  size_t attr_size; /* of its qn_attr_* record, 0: none */
  qn_status (*infer)(qn_infer *ctx);
  qn_partial_fn partial; /* elementwise: serves both modes */
  bool linear;           /* in every differentiable operand jointly: jvp is the op on tangents */
  qn_derive_fn vjp, jvp;
  const char *no_grad; /* why there is no derivative, where none of the above is given: "result is boolean" */
  qn_batch_fn batch;
  qn_lower_fn lower;   /* operations that are made of simpler ones on every device; NULL: scheduled as they are */
  qn_expand_fn expand; /* elementwise: one element in scalar operations; f16/bf16 arrive as f32 unless native_narrow */
  bool native_narrow;  /* expand takes f16/bf16 as they are (bit operations, moves) */
  qn_ref_f ref;
  qn_ref_i ref_i;
  qn_ref_u ref_u;
  qn_ref_c ref_c;
  qn_ref_eval eval;
  const qn_sample *samples;
  int sample_count;
  /* Attributes with pointers: makes the copied record own what it points to (in the arena); false: no memory. NULL: plain bytes. */
  bool (*attr_own)(qn_arena *arena, void *attr, const qn_type *result);
} qn_op_def;

/* The table, indexed by qn_op; entry 0 is NULL. */
const qn_op_def *qn_op_get(qn_op op);
qn_op qn_op_find(const char *name); /* QN_OP_NONE if unknown */

#ifdef __cplusplus
}
#endif
#endif
