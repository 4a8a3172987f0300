/* Helpers of the walks over the op table: fixed random numbers, tensors on the host, one graph per row and sample. */
#ifndef QUERN_TEST_OPS_CONFORM_H
#define QUERN_TEST_OPS_CONFORM_H

#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"
#include "runtime/graph/oracle.h"

static const qn_dtype all_dtypes[] = {QN_BOOL, QN_I8,  QN_I16,  QN_I32, QN_I64, QN_U8,  QN_U16, QN_U32,
                                      QN_U64,  QN_F16, QN_BF16, QN_F32, QN_F64, QN_C64, QN_C128};
enum { DTYPES = sizeof all_dtypes / sizeof *all_dtypes };

static inline bool claims(const qn_op_def *def, qn_dtype t) {
  return (def->dtypes >> (unsigned)qn_dtype_classify(t) & 1U) != 0;
}

/* splitmix64 */
static inline uint64_t draw_bits(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}
static inline double draw(uint64_t *state, double lo, double hi) {
  return lo + (hi - lo) * ((double)(draw_bits(state) >> 11) * 0x1p-53);
}

typedef struct tensor {
  qn_type t;
  void *data;
} tensor;

static inline tensor tensor_make(const qn_type *t) {
  size_t bytes = (size_t)qn_type_bytes(t);
  tensor x = {*t, calloc(bytes + 16, 1)};
  cr_assert(x.data != NULL);
  return x;
}
static inline void tensor_free(tensor *x) {
  free(x->data);
  x->data = NULL;
}

/* Element i as a number, and back (integers are rounded and cut, bools are "not negative"). */
static inline void tensor_set(tensor *x, int64_t i, double v) {
  qn_dtype t = x->t.dtype;
  if (t == QN_BOOL) {
    ((uint8_t *)x->data)[i] = v >= 0;
  } else if (qn_dtype_is_float(t)) {
    qn_oracle_store_f(t, x->data, i, 1, &v);
  } else if (qn_dtype_is_complex(t)) {
    double other = 1 - v / 2;
    qn_oracle_store_f(qn_dtype_part(t), x->data, 2 * i, 1, &v);
    qn_oracle_store_f(qn_dtype_part(t), x->data, 2 * i + 1, 1, &other);
  } else if (qn_dtype_is_signed(t)) {
    int64_t n = (int64_t)rint(v);
    qn_oracle_store_i(t, x->data, i, 1, &n);
  } else {
    uint64_t n = (uint64_t)(int64_t)rint(v);
    qn_oracle_store_u(t, x->data, i, 1, &n);
  }
}
static inline double tensor_get(const tensor *x, int64_t i) {
  qn_dtype t = x->t.dtype;
  double f = 0;
  int64_t n = 0;
  uint64_t u = 0;
  if (qn_dtype_is_float(t)) {
    qn_oracle_load_f(t, x->data, i, 1, &f);
    return f;
  }
  if (qn_dtype_is_complex(t)) {
    qn_oracle_load_f(qn_dtype_part(t), x->data, 2 * i, 1, &f);
    return f;
  }
  if (qn_dtype_is_signed(t)) {
    qn_oracle_load_i(t, x->data, i, 1, &n);
    return (double)n;
  }
  qn_oracle_load_u(t, x->data, i, 1, &u);
  return (double)u;
}
static inline double tensor_imag(const tensor *x, int64_t i) {
  double f = 0;
  if (qn_dtype_is_complex(x->t.dtype))
    qn_oracle_load_f(qn_dtype_part(x->t.dtype), x->data, 2 * i + 1, 1, &f);
  return f;
}
static inline void tensor_draw(tensor *x, uint64_t *state, double lo, double hi) {
  for (int64_t i = 0; i < qn_type_elements(&x->t); i++)
    tensor_set(x, i, draw(state, lo, hi));
}

/* Rows that take their operand as symmetric, and read one triangle of it. */
static inline bool is_symmetric(qn_op op) { return op == QN_OP_CHOLESKY || op == QN_OP_EIGH; }
static inline void tensor_set_imag(tensor *x, int64_t i, double v) {
  if (qn_dtype_is_complex(x->t.dtype))
    qn_oracle_store_f(qn_dtype_part(x->t.dtype), x->data, 2 * i + 1, 1, &v);
}
/* Mirrors the lower triangle of each matrix, conjugated, and adds to the diagonal, which is real. */
static inline void tensor_mirror(tensor *x, double diagonal) {
  int64_t n = x->t.dims[x->t.rank - 1], count = qn_type_elements(&x->t) / (n * n);
  for (int64_t b = 0; b < count; b++)
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++) {
        int64_t low = (b * n + i) * n + j, high = (b * n + j) * n + i;
        double v = tensor_get(x, low) + (i == j ? diagonal : 0), imag = i == j ? 0 : tensor_imag(x, low);
        tensor_set(x, low, v);
        tensor_set(x, high, v);
        tensor_set_imag(x, low, imag);
        tensor_set_imag(x, high, -imag);
      }
}

/* Values for a row's operands. Orders of polygamma are whole numbers, a clamp's bounds lie apart. */
static inline void operands_draw(qn_op op, const qn_sample *s, tensor *in, size_t n, uint64_t *state) {
  double middle = (s->lo + s->hi) / 2;
  for (size_t k = 0; k < n; k++)
    tensor_draw(&in[k], state, op == QN_OP_CLAMP && k == 2 ? middle : s->lo,
                op == QN_OP_CLAMP && k == 0 ? middle : s->hi);
  if (is_symmetric(op))
    tensor_mirror(&in[0], op == QN_OP_CHOLESKY ? 4 * s->hi : 0);
  for (int64_t i = 0; op == QN_OP_POLYGAMMA && i < qn_type_elements(&in[0].t); i++)
    tensor_set(&in[0], i, rint(tensor_get(&in[0], i)));
}

/* Operands of a sample for the row walked with dtype t. A select's predicate is bool whatever t is; its branches take t. */
static inline int sample_types(qn_op op, const qn_sample *s, qn_dtype t, qn_type *out) {
  const qn_op_def *def = qn_op_get(op);
  int n = def->arity >= 0 ? def->arity : 2;
  for (int k = 0; k < n; k++)
    out[k] = qn_type_make(op == QN_OP_SELECT && k == 0 ? QN_BOOL : t, s->ranks[k], s->dims[k]);
  return n;
}

/* Dtypes that the walk gives to a row: those it claims; for select, whose operand 0 is always bool, every one of its branches. */
static inline bool walks(qn_op op, qn_dtype t) {
  bool narrow = t == QN_F16 || t == QN_BF16;
  if (narrow && (op == QN_OP_COMPLEX || op == QN_OP_FFT)) /* there are no complex numbers of narrow parts */
    return false;
  return op == QN_OP_SELECT || claims(qn_op_get(op), t);
}

/* The sealed graph of one node. With `hold`, operand 0 goes through stop_gradient. */
static inline qn_status sample_graph(qn_op op, const qn_sample *s, qn_dtype t, bool hold, qn_graph **out_graph) {
  const qn_op_def *def = qn_op_get(op);
  qn_type types[4];
  int n = sample_types(op, s, t, types);
  qn_val in[4];
  QN_TRY(qn_graph_create(def->name, out_graph));
  for (int k = 0; k < n; k++)
    in[k] = qn_graph_param(*out_graph, types[k], NULL);
  if (hold)
    in[0] = qn_stop_gradient(in[0]);
  qn_type hint = s->hint;
  if (n > 0 && op != QN_OP_CONVERT && op != QN_OP_BITCAST_CONVERT && hint.dtype != QN_DTYPE_NONE)
    hint.dtype = t;
  qn_val y = qn_graph_add_typed(*out_graph, op, in, (size_t)n, s->attr, NULL, 0,
                                hint.dtype == QN_DTYPE_NONE ? NULL : &hint, QN_HERE);
  qn_status st = qn_graph_seal(*out_graph, &y, 1);
  if (st != QN_OK) {
    qn_graph_release(*out_graph);
    *out_graph = NULL;
    QN_TRY(st);
  }
  return QN_OK;
}

static inline qn_status run(const qn_graph *g, const tensor *in, tensor *out) {
  const void *inputs[24];
  void *outputs[24];
  size_t n = qn_graph_param_count(g), m = qn_graph_result_count(g);
  cr_assert(n <= 24 && m <= 24);
  for (size_t i = 0; i < n; i++)
    inputs[i] = in[i].data;
  for (size_t i = 0; i < m; i++)
    outputs[i] = out[i].data;
  return qn_graph_eval_ref(g, inputs, outputs);
}

static inline void params_make(const qn_graph *g, tensor *out) {
  for (size_t i = 0; i < qn_graph_param_count(g); i++)
    out[i] = tensor_make(qn_graph_type(g, qn_graph_param_at(g, i)));
}
static inline void results_make(const qn_graph *g, tensor *out) {
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    out[i] = tensor_make(qn_graph_type(g, qn_graph_result(g, i)));
}
static inline void tensors_free(tensor *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    tensor_free(&x[i]);
}

#endif
