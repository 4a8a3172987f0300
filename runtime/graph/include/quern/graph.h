/* Graphs: typed values, nodes, regions; tracing, sealing, walking.
 *
 * A graph is one function: parameters in, results out, nodes in dependency order. It's open while a trace adds to it, and sealed for
 * good after qn_graph_seal: then it never changes, may be shared by threads, and is freed whole by its last qn_graph_release.
 * Operations have StableHLO's names, attributes and semantics. Builders (ops.h) return values, not statuses: the first failure
 * sticks to the graph, later builders return the null value, and qn_graph_seal reports it with the place in the caller's source. */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include "quern/base.h"
#include "quern/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { QN_MAX_RANK = 12, QN_MAX_OPERANDS = 4096 };

typedef struct qn_dims {
  int32_t n;
  int64_t d[QN_MAX_RANK];
} qn_dims;
bool qn_dims_has(const qn_dims *dims, int64_t axis);

typedef struct qn_type {
  qn_dtype dtype;
  int32_t rank;
  int64_t dims[QN_MAX_RANK]; /* row-major; zero-sized dimensions are allowed. Entries at and behind rank are 0 */
} qn_type;

/* A type from dimensions: qn_type_of(QN_F32, 2, 32, 784). */
#define qn_type_of(dtype, rank, ...) qn_type_make((dtype), (rank), (const int64_t[]){__VA_ARGS__, 0})
qn_type qn_type_make(qn_dtype dtype, int rank, const int64_t *dims);
qn_type qn_type_scalar(qn_dtype dtype);
bool qn_type_equal(const qn_type *a, const qn_type *b);
bool qn_type_same_shape(const qn_type *a, const qn_type *b);
bool qn_type_same_but_units(const qn_type *a, const qn_type *b); /* the same dimensions in order, those of 1 left out */
int64_t qn_type_elements(const qn_type *t);
int64_t qn_type_bytes(const qn_type *t);
void qn_type_print(const qn_type *t, qn_text *out); /* tensor<32x784xf32> */
/* "f32[32,784]" for messages; the text lives in a small ring of the thread (8 entries). */
const char *qn_type_str(const qn_type *t);

typedef struct qn_graph qn_graph;

/* A value of a graph: a parameter or a node's result. id 0 is the null value, which builders return after a failure. */
typedef struct qn_val {
  qn_graph *graph;
  uint32_t id;
} qn_val;
#define QN_NULL_VAL ((qn_val){NULL, 0})
static inline bool qn_val_ok(qn_val v) { return v.graph != NULL && v.id != 0; }
static inline bool qn_val_same(qn_val a, qn_val b) { return a.graph == b.graph && a.id == b.id; }

/* A place in the traced C source, or in a parsed text (then `column` is not 0). */
typedef struct qn_place {
  const char *file; /* a literal or text that lives in a graph's arena */
  int line, column;
} qn_place;
#define QN_HERE ((qn_place){__FILE__, __LINE__, 0})

typedef enum qn_op {
  QN_OP_NONE = 0,
#define QN_OP_UNARY(NAME, row) QN_OP_##NAME,
#define QN_OP_BINARY(NAME, row) QN_OP_##NAME,
#define QN_OP_OTHER(NAME, row) QN_OP_##NAME,
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER
  QN_OP_COUNT
} qn_op;

typedef enum qn_compare_direction {
  QN_CMP_EQ,
  QN_CMP_NE,
  QN_CMP_LT,
  QN_CMP_LE,
  QN_CMP_GT,
  QN_CMP_GE
} qn_compare_direction;
typedef enum qn_compare_type {
  QN_CMP_DEFAULT,
  QN_CMP_FLOAT,
  QN_CMP_TOTALORDER,
  QN_CMP_SIGNED,
  QN_CMP_UNSIGNED
} qn_compare_type;
typedef enum qn_rng_algorithm { QN_RNG_DEFAULT, QN_RNG_THREE_FRY, QN_RNG_PHILOX } qn_rng_algorithm;
typedef enum qn_fft_type { QN_FFT, QN_IFFT, QN_RFFT, QN_IRFFT } qn_fft_type;

/* One record per op family; a node points to its own (NULL where the op has none). */
typedef struct qn_attr_constant {
  const void *data;
  int64_t elements; /* 1: splat of any shape */
} qn_attr_constant;
typedef struct qn_attr_dims {
  qn_dims dims;
} qn_attr_dims; /* broadcast_in_dim, transpose, reverse, reduce, dynamic_slice (sizes) */
typedef struct qn_attr_axis {
  int64_t dimension;
} qn_attr_axis; /* concatenate, iota, get_dimension_size */
typedef struct qn_attr_slice {
  qn_dims start, limit, stride;
} qn_attr_slice;
typedef struct qn_attr_pad {
  qn_dims low, high, interior;
} qn_attr_pad;
typedef struct qn_attr_compare {
  qn_compare_direction direction;
  qn_compare_type type;
} qn_attr_compare;
typedef struct qn_attr_precision {
  int32_t exponent_bits, mantissa_bits;
} qn_attr_precision;
typedef struct qn_attr_dot {
  qn_dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
} qn_attr_dot;
typedef struct qn_attr_gather {
  qn_dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map,
      slice_sizes;
  int64_t index_vector_dim;
  bool indices_are_sorted;
} qn_attr_gather;
typedef struct qn_attr_scatter {
  qn_dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim;
  bool indices_are_sorted, unique_indices;
} qn_attr_scatter;
typedef struct qn_attr_conv {
  qn_dims stride, pad_low, pad_high, lhs_dilation, rhs_dilation, reversal;
  int64_t input_batch, input_feature, kernel_input_feature, kernel_output_feature, output_batch, output_feature;
  qn_dims input_spatial, kernel_spatial, output_spatial;
  int64_t feature_group_count, batch_group_count;
} qn_attr_conv;
typedef struct qn_attr_window {
  /* select_and_scatter leaves the dilations out */
  qn_dims size, stride, base_dilation, window_dilation, pad_low, pad_high;
  /* quern.windows alone: what falls between elements is left out of windows without dilation, not padding */
  bool phased;
} qn_attr_window;
typedef struct qn_attr_cumulative {
  int64_t dimension, block; /* block 0: the whole axis */
  bool reverse, totals;
} qn_attr_cumulative;
typedef struct qn_attr_sort {
  int64_t dimension;
  bool is_stable;
} qn_attr_sort;
typedef struct qn_attr_runs {
  int64_t dimension, sorted, length; /* stretches of `length`, in which those of `sorted` elements are in order */
} qn_attr_runs;
typedef struct qn_attr_top_k {
  int64_t k;
} qn_attr_top_k;
typedef struct qn_attr_fft {
  qn_fft_type type;
  qn_dims length;
} qn_attr_fft;
typedef struct qn_attr_rng {
  qn_rng_algorithm algorithm;
  qn_dtype dtype; /* of the bits; the text says it by the result's type, and their shape */
  qn_dims shape;
} qn_attr_rng;
typedef struct qn_attr_triangle {
  bool lower;
} qn_attr_triangle; /* cholesky */
typedef struct qn_attr_solve {
  bool left_side, lower, unit_diagonal;
  int32_t transpose_a; /* 0 no, 1 transpose, 2 adjoint */
} qn_attr_solve;
typedef struct qn_attr_while {
  int64_t trip_count; /* how often the body runs; -1: not known. Found by optimisation, not part of the text */
} qn_attr_while;
typedef struct qn_attr_name {
  const char *target, *config;
} qn_attr_name; /* custom_call, remat marks, named values */

typedef struct qn_node {
  qn_op op;
  int32_t operand_count, result_count, region_count;
  const uint32_t *operands; /* value ids */
  uint32_t first_result;    /* its results are first_result, first_result + 1, ... */
  const void *attr;         /* the qn_attr_* record of the op's family, or NULL */
  qn_graph *const
      *regions; /* sealed; captured values are trailing operands of the node and trailing parameters of the region */
  qn_place place;
} qn_node;

/* ---- life ---- */
/* An open, empty graph; `name` is what it prints as (NULL: "main"). */
qn_status qn_graph_create(const char *name, qn_graph **out_graph);
/* Adds a parameter; `path` is its name in messages and text ("layers/0/w"), may be NULL. */
qn_val qn_graph_param(qn_graph *g, qn_type type, const char *path);
/* States the results (may be done once) and seals: verifies, reports the first failure. The graph must be released either way. */
qn_status qn_graph_seal(qn_graph *g, const qn_val *results, size_t count);
qn_graph *qn_graph_retain(const qn_graph *g); /* sealed graphs only; returns g */
void qn_graph_release(qn_graph *g);

/* ---- building below the builders: rules, rewrites, importers ---- */
/* Adds a node after checking it by the row's shape rule. `attr` is copied (by the row's attribute size). Returns its first result. */
qn_val qn_graph_add(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                    qn_graph *const *regions, size_t region_count, qn_place place);
/* The same with the result type stated, for ops whose result does not follow from operands (convert, bitcast_convert, reshape,
 * broadcast_in_dim, iota, dot_general's element type ...): it reaches the shape rule as qn_infer.hint. NULL: not given. */
qn_val qn_graph_add_typed(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                          qn_graph *const *regions, size_t region_count, const qn_type *hint, qn_place place);
/* The same with the result type of ops whose result does not follow from their operands (qn_infer.hint); NULL: not given. */
qn_val qn_graph_add_typed(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                          qn_graph *const *regions, size_t region_count, const qn_type *hint, qn_place place);
qn_val qn_val_result(qn_val first, int index); /* the index-th result of the node that made `first` */
/* While set, builders record this place instead of their own (a derivative belongs to the line that it differentiates). */
void qn_graph_set_place(qn_graph *g, const qn_place *place);
/* Makes a failure stick to an open graph; the null value comes back, for builders to return. */
qn_val qn_graph_fail(qn_graph *g, qn_place place, qn_status code, const char *format, ...) QN_PRINTF(4, 5);
bool qn_graph_failed(const qn_graph *g);
/* The graph of the first operand that has one; fails that graph if another operand is of another graph or null. */
qn_graph *qn_graph_common(const char *op, const qn_val *operands, size_t count, qn_place place);
/* ---- regions traced in place: an open graph inside of another ---- */
/* Builders may mix a region's values with those of the graphs around it: an operation on outer values alone is added outside, one on both
 * inside, where outer values become trailing parameters (constants of one element are copied). NULL: `around` has failed. The region is
 * borrowed: it lives as long as `around`. */
qn_graph *qn_region_open(qn_graph *around, const char *name);
/* Seals the region; NULL: `around` has failed. *out_captures: what it uses of `around`, in the order of its trailing parameters. They live as
 * long as the region. */
qn_graph *qn_region_seal(qn_graph *region, const qn_val *results, size_t count, const qn_val **out_captures,
                         size_t *out_capture_count);
/* v as a value of g: itself, or what stands for it in a region. The null value after a failure. */
qn_val qn_graph_use(qn_graph *g, qn_val v);

/* Copies a sealed graph's nodes into `g` with its parameters replaced by `args`; fills `out_results`. */
bool qn_graph_inline(qn_graph *g, const qn_graph *callee, const qn_val *args, size_t count, qn_val *out_results);
/* The same for one node: its operands replaced; regions are shared. Returns its first result. */
qn_val qn_graph_copy_node(qn_graph *g, const qn_graph *from, const qn_node *node, const qn_val *operands);
/* Rebuilds a sealed graph as a pass does: live nodes only, in order. For each node `fn` either fills out[0 .. result_count-1] with values
 * of `to` and returns true, or returns false and the node is copied. Parameters, results and their paths are kept. */
typedef bool (*qn_rebuild_fn)(qn_graph *to, const qn_graph *from, const qn_node *node, const qn_val *operands,
                              qn_val *out, void *user);
qn_status qn_graph_rebuild(const qn_graph *g, qn_rebuild_fn fn, void *user, qn_graph **out_graph);
/* Arena of the graph, for attributes and names that live as long as it. */
qn_arena *qn_graph_arena(qn_graph *g);

/* ---- reading ---- */
const char *qn_graph_name(const qn_graph *g);
size_t qn_graph_node_count(
    const qn_graph *g); /* nodes 0 .. count-1 in dependency order; parameters are nodes of QN_OP_PARAMETER */
const qn_node *qn_graph_node(const qn_graph *g, size_t index);
size_t qn_graph_value_count(const qn_graph *g); /* ids run from 1 to this, inclusive */
const qn_type *qn_graph_type(const qn_graph *g, uint32_t value);
const qn_node *qn_graph_def(const qn_graph *g, uint32_t value);
size_t qn_graph_def_index(const qn_graph *g, uint32_t value); /* index of the defining node */
size_t qn_graph_param_count(const qn_graph *g);
uint32_t qn_graph_param_at(const qn_graph *g, size_t index);
const char *qn_graph_param_path(const qn_graph *g, size_t index);
size_t qn_graph_result_count(const qn_graph *g);
uint32_t qn_graph_result(const qn_graph *g, size_t index);
/* Trailing operands of a node that its regions capture: the last parameters of each region. 0 for ops without such regions. */
int qn_node_captures(const qn_node *n);

/* ---- loops: nodes of QN_OP_WHILE in g ---- */
typedef struct qn_counted {
  int counter;                    /* the carry that counts */
  bool has_start;                 /* it starts as a constant: `start` */
  qn_compare_direction direction; /* the body runs while counter `direction` limit */
  int64_t start, step, trips;     /* trips -1: not known before the program runs */
} qn_counted;
/* Does an integer counter, moved by a constant step, end the loop? out->trips is also set where the attribute alone tells it. */
bool qn_while_counted(const qn_graph *g, const qn_node *n, qn_counted *out);
int64_t qn_while_trips(const qn_graph *g, const qn_node *n); /* -1: not known */
bool qn_while_invariant(const qn_node *n, int i);            /* operand i is the same in each iteration */
int qn_while_param(const qn_graph *region, uint32_t v);      /* the number of parameter v; -1: none */
/* Pointers to types, nodes and attributes stay valid while the graph lives, also while it grows. */
const qn_type *qn_val_type(qn_val v); /* a static NONE-typed one for the null value */
/* Text names of results ("loss", "layers/0/w"), for messages, plans and checkpoints; may be NULL. Set before sealing. */
void qn_graph_set_result_path(qn_graph *g, size_t index, const char *path);
const char *qn_graph_result_path(const qn_graph *g, size_t index);
/* Constant data of a value made by `constant`, NULL otherwise; *out_splat tells one element from all of them. */
const void *qn_graph_constant(const qn_graph *g, uint32_t value, bool *out_splat);

/* A constant's element at `index` (0 for a splat) as a number; false if the value is no real constant. Exact to double's 53 bits. */
bool qn_graph_constant_at(const qn_graph *g, uint32_t value, int64_t index, double *out_x);
/* Same structure: ops, attributes, types, regions, results. Names, paths and places do not count. The hash agrees with it. */
bool qn_graph_equal(const qn_graph *a, const qn_graph *b);
uint64_t qn_graph_hash(const qn_graph *g);

/* ---- checks, text ---- */
qn_status qn_graph_verify(const qn_graph *g); /* types by the rows' rules, order, regions; sealing does it */
/* StableHLO text: one module with @main. */
void qn_graph_print(const qn_graph *g, qn_text *out);
/* The same values without marks, custom derivatives and quern.* operations, but for linear algebra that XLA knows by custom calls. QN_UNSUPPORTED
 * names an operation that cannot be said in StableHLO. */
qn_status qn_graph_plain(const qn_graph *g, qn_graph **out_graph);
/* Text of that for others to read: QR, LU and eigenvalues have XLA's names. */
qn_status qn_graph_print_plain(const qn_graph *g, qn_text *out);
/* Reads such text, or what JAX prints: several functions, calls (inlined), regions, pretty and generic forms. `name` is the file's name
 * for messages ("file:line:column: expected ..."). The result is sealed. */
qn_status qn_graph_parse(const char *text, size_t size, const char *name, qn_graph **out_graph);

/* ---- optimisation: each returns a new sealed graph (same parameters and results) ---- */
typedef struct qn_optimize_desc {
  bool no_fold, no_cse, no_simplify; /* for tests: leave a phase out */
  qn_text *log;                      /* not NULL: one line per applied rule: "name: before -> after" */
} qn_optimize_desc;
/* Simplify, fold constants, common subexpressions, dead code, to a fixed point; custom_vjp and marks are lowered away first. */
qn_status qn_graph_optimize(const qn_graph *g, const qn_optimize_desc *desc, qn_graph **out_graph);

/* ---- the oracle: C references of the op rows, typed by class, one node at a time ---- */
/* inputs[i] and outputs[i] point to row-major elements in the dtypes of parameters and results. */
qn_status qn_graph_eval_ref(const qn_graph *g, const void *const *inputs, void *const *outputs);

#ifdef __cplusplus
}
#endif
#endif
