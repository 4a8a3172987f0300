/* Shapes, strides and index walks shared by the structural rows. Views are described by a base address and byte strides, so one copy
 * loop serves broadcasting, transposing, reversing, slicing, padding and concatenating. */
#include "move_shape.h"

#include <math.h>
#include <string.h>

#include "../oracle.h"

qn_dims qn_dims_of(int n, const int64_t *d) {
  qn_dims out = {0};
  if (n < 0)
    n = 0;
  if (n > QN_MAX_RANK)
    n = QN_MAX_RANK;
  out.n = n;
  for (int i = 0; i < n; ++i)
    out.d[i] = d[i];
  return out;
}

qn_dims qn_dims_iota(int n) {
  qn_dims out = {0};
  out.n = n;
  for (int i = 0; i < n; ++i)
    out.d[i] = i;
  return out;
}

qn_dims qn_dims_prepend(const qn_dims *dims, int64_t x) {
  qn_dims out = {0};
  out.d[0] = x;
  out.n = 1;
  for (int i = 0; i < dims->n && out.n < QN_MAX_RANK; ++i)
    out.d[out.n++] = dims->d[i];
  return out;
}

qn_dims qn_dims_lifted(const qn_dims *dims, bool lead) {
  qn_dims up = *dims;
  for (int i = 0; i < up.n; ++i)
    up.d[i]++;
  return lead ? qn_dims_prepend(&up, 0) : up;
}

qn_dims qn_dims_rest(int rank, const qn_dims *a, const qn_dims *b) {
  qn_dims out = {0};
  for (int i = 0; i < rank; ++i)
    if ((a == NULL || !qn_dims_has(a, i)) && (b == NULL || !qn_dims_has(b, i)))
      out.d[out.n++] = i;
  return out;
}

qn_status qn_check_axes(const qn_infer *c, const char *what, const qn_dims *axes, int rank, bool sorted) {
  if (axes->n < 0 || axes->n > QN_MAX_RANK)
    return QN_ERR(QN_INVALID, "%s: %s has %d entries, at most %d are allowed", c->name, what, (int)axes->n,
                  QN_MAX_RANK);
  for (int i = 0; i < axes->n; ++i) {
    if (axes->d[i] < 0 || axes->d[i] >= rank)
      return QN_ERR(QN_INVALID, "%s: %s holds %lld, expected an axis in 0..%d", c->name, what, (long long)axes->d[i],
                    rank - 1);
    for (int j = 0; j < i; ++j)
      if (axes->d[j] == axes->d[i])
        return QN_ERR(QN_INVALID, "%s: %s holds axis %lld twice", c->name, what, (long long)axes->d[i]);
    if (sorted && i > 0 && axes->d[i - 1] > axes->d[i])
      return QN_ERR(QN_INVALID, "%s: %s is not ascending: %lld stands before %lld", c->name, what,
                    (long long)axes->d[i - 1], (long long)axes->d[i]);
  }
  return QN_OK;
}

qn_status qn_check_count(const qn_infer *c, int operands, int regions) {
  if (c->operand_count != operands)
    return QN_ERR(QN_INVALID, "%s: got %d operands, expected %d", c->name, c->operand_count, operands);
  if (c->region_count != regions)
    return QN_ERR(QN_INVALID, "%s: got %d regions, expected %d", c->name, c->region_count, regions);
  return QN_OK;
}

qn_status qn_check_length(const qn_infer *c, const char *what, const qn_dims *dims, int n) {
  if (dims->n != n)
    return QN_ERR(QN_INVALID, "%s: %s has %d entries, expected %d", c->name, what, (int)dims->n, n);
  return QN_OK;
}

qn_status qn_check_same_dtype(const qn_infer *c, int operand, int as_operand) {
  if (c->operands[operand].dtype != c->operands[as_operand].dtype)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected elements of %s as operand %d", c->name, operand,
                  qn_type_str(&c->operands[operand]), qn_dtype_name(c->operands[as_operand].dtype), as_operand);
  return QN_OK;
}

qn_status qn_check_scalar(const qn_infer *c, int operand, qn_dtype dtype) {
  const qn_type *t = &c->operands[operand];
  if (t->rank != 0)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected a scalar", c->name, operand, qn_type_str(t));
  if (dtype == QN_DTYPE_NONE ? !qn_dtype_is_int(t->dtype) : t->dtype != dtype)
    return QN_ERR(QN_INVALID, "%s: operand %d is %s, expected %s", c->name, operand, qn_type_str(t),
                  dtype == QN_DTYPE_NONE ? "an integer" : qn_dtype_name(dtype));
  return QN_OK;
}

qn_status qn_check_combiner(const qn_infer *c, int region, int pairs, const qn_type *element, int captures_at) {
  const qn_graph *body = c->regions[region];
  if (body == NULL)
    return QN_ERR(QN_INVALID, "%s: region %d is missing", c->name, region);
  int captures = c->operand_count - captures_at;
  if (qn_graph_param_count(body) != (size_t)(2 * pairs + captures))
    return QN_ERR(QN_INVALID, "%s: region %d has %zu parameters, expected %d", c->name, region,
                  qn_graph_param_count(body), 2 * pairs + captures);
  if (qn_graph_result_count(body) != (size_t)pairs)
    return QN_ERR(QN_INVALID, "%s: region %d has %zu results, expected %d", c->name, region,
                  qn_graph_result_count(body), pairs);
  for (int i = 0; i < 2 * pairs + captures; ++i) {
    qn_type want = i < 2 * pairs ? qn_type_scalar(element[i % pairs].dtype) : c->operands[captures_at + i - 2 * pairs];
    const qn_type *got = qn_graph_type(body, qn_graph_param_at(body, (size_t)i));
    if (!qn_type_equal(got, &want))
      return QN_ERR(QN_INVALID, "%s: parameter %d of region %d is %s, expected %s", c->name, i, region,
                    qn_type_str(got), qn_type_str(&want));
  }
  for (int i = 0; i < pairs; ++i) {
    qn_type want = qn_type_scalar(element[i].dtype);
    const qn_type *got = qn_graph_type(body, qn_graph_result(body, (size_t)i));
    if (!qn_type_equal(got, &want))
      return QN_ERR(QN_INVALID, "%s: result %d of region %d is %s, expected %s", c->name, i, region, qn_type_str(got),
                    qn_type_str(&want));
  }
  return QN_OK;
}

void qn_strides_of(const qn_type *t, int64_t *out_strides) {
  int64_t step = (int64_t)qn_dtype_size(t->dtype);
  for (int i = t->rank - 1; i >= 0; --i) {
    out_strides[i] = step;
    step *= t->dims[i];
  }
}

bool qn_index_step(int rank, const int64_t *dims, int64_t *index) {
  for (int i = rank - 1; i >= 0; --i) {
    if (++index[i] < dims[i])
      return true;
    index[i] = 0;
  }
  return false;
}

static void copy_row(int64_t n, size_t size, char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
  if (dst_stride == (int64_t)size && src_stride == (int64_t)size) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    memcpy(dst + i * dst_stride, src + i * src_stride, size);
}

void qn_copy_strided(int rank, const int64_t *dims, size_t size, char *dst, const int64_t *dst_strides, const char *src,
                     const int64_t *src_strides) {
  for (int i = 0; i < rank; ++i)
    if (dims[i] <= 0)
      return;
  if (rank == 0) {
    memcpy(dst, src, size);
    return;
  }
  int64_t index[QN_MAX_RANK] = {0};
  int last = rank - 1;
  do {
    int64_t to = 0, from = 0;
    for (int i = 0; i < last; ++i) {
      to += index[i] * dst_strides[i];
      from += index[i] * src_strides[i];
    }
    copy_row(dims[last], size, dst + to, dst_strides[last], src + from, src_strides[last]);
  } while (qn_index_step(last, dims, index));
}

void qn_fill_elements(void *dst, const void *element, size_t size, int64_t count) {
  char *out = (char *)dst;
  for (int64_t i = 0; i < count; ++i)
    memcpy(out + (size_t)i * size, element, size);
}

int64_t qn_load_index(const void *data, qn_dtype dtype, int64_t at) {
  if (qn_dtype_is_signed(dtype)) {
    int64_t x = 0;
    qn_oracle_load_i(dtype, data, at, 1, &x);
    return x;
  }
  uint64_t x = 0;
  qn_oracle_load_u(dtype, data, at, 1, &x);
  return x > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)x;
}

qn_type qn_type_lifted(const qn_type *t, int64_t lanes) {
  qn_dims old = qn_dims_of(t->rank, t->dims);
  qn_dims dims = qn_dims_prepend(&old, lanes);
  return qn_type_make(t->dtype, dims.n, dims.d);
}

qn_val qn_batch_lanes(const qn_batch *b, int operand) {
  qn_val x = b->in[operand];
  if (b->mapped[operand] || !qn_val_ok(x))
    return x;
  qn_type t = *qn_val_type(x);
  if (t.rank >= QN_MAX_RANK)
    return qn_graph_fail(b->g, QN_HERE, QN_UNSUPPORTED, "vmap: %s has no room for one more axis (at most %d)",
                         qn_type_str(&t), QN_MAX_RANK);
  qn_type up = qn_type_lifted(&t, b->size);
  qn_dims from = qn_dims_iota(t.rank);
  from = qn_dims_lifted(&from, false);
  return qn_broadcast_in_dim(x, up.rank, up.dims, from.d);
}

qn_type qn_batch_type(const qn_batch *b, int result) {
  return *qn_graph_type(b->from, b->node->first_result + (uint32_t)result);
}

qn_val qn_zeros_of(qn_graph *g, qn_val like) {
  qn_type t = *qn_val_type(like);
  return qn_full(g, t, 0.0);
}

qn_val qn_given_or_zeros(const qn_rule *r, int operand) {
  return qn_val_ok(r->given[operand]) ? r->given[operand] : qn_zeros_of(r->g, r->in[operand]);
}

qn_val qn_transposed(qn_val x, const int64_t *permutation) {
  int rank = qn_val_type(x)->rank;
  for (int i = 0; i < rank; ++i)
    if (permutation[i] != i)
      return qn_transpose(x, permutation);
  return x;
}

qn_val qn_axis_to_front(qn_val x, int64_t axis) {
  int rank = qn_val_type(x)->rank;
  int64_t permutation[QN_MAX_RANK] = {axis};
  for (int i = 0, n = 1; i < rank; ++i)
    if (i != axis)
      permutation[n++] = i;
  return qn_transposed(x, permutation);
}

qn_op qn_combiner_op(const qn_graph *body, int index) {
  size_t n = qn_graph_result_count(body);
  if (index < 0 || (size_t)index >= n || qn_graph_param_count(body) < 2 * n)
    return QN_OP_NONE;
  uint32_t acc = qn_graph_param_at(body, (size_t)index), x = qn_graph_param_at(body, n + (size_t)index);
  uint32_t result = qn_graph_result(body, (size_t)index);
  if (result == x)
    return QN_OP_PARAMETER;
  const qn_node *node = qn_graph_def(body, result);
  if (node == NULL || node->operand_count != 2 || node->result_count != 1 || node->region_count != 0)
    return QN_OP_NONE;
  bool straight = node->operands[0] == acc && node->operands[1] == x,
       crossed = node->operands[0] == x && node->operands[1] == acc;
  static const qn_op known[] = {QN_OP_ADD, QN_OP_MULTIPLY, QN_OP_MAXIMUM, QN_OP_MINIMUM,
                                QN_OP_AND, QN_OP_OR,       QN_OP_XOR};
  for (size_t i = 0; (straight || crossed) && i < sizeof known / sizeof *known; ++i)
    if (node->op == known[i])
      return node->op;
  return QN_OP_NONE;
}

double qn_fold_f(qn_op op, double a, double x) {
  if (op == QN_OP_ADD)
    return a + x;
  if (op == QN_OP_MULTIPLY)
    return a * x;
  if (isnan(a) || isnan(x))
    return NAN;
  bool largest = op == QN_OP_MAXIMUM;
  if (a > x || a < x)
    return largest == (a > x) ? a : x;
  return largest == (signbit(a) != 0) ? x : a; /* +0 is above -0 */
}

uint64_t qn_fold_u(qn_op op, qn_dtype dtype, uint64_t a, uint64_t x) {
  if (op == QN_OP_ADD)
    return dtype == QN_BOOL ? a | x : a + x;
  if (op == QN_OP_MULTIPLY)
    return a * x;
  if (op == QN_OP_AND)
    return a & x;
  if (op == QN_OP_OR)
    return a | x;
  if (op == QN_OP_XOR)
    return a ^ x;
  bool less = qn_dtype_is_signed(dtype) ? (int64_t)a < (int64_t)x : a < x;
  return less == (op == QN_OP_MAXIMUM) ? x : a;
}
