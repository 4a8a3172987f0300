/* dot_general: batched contraction. The reference packs both operands as [batch][rows][k] and [batch][k][columns] of the widest type of
 * their class and runs over blocks that stay in cache. */
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "infer.h"
#include "move_shape.h"

enum { BLOCK_K = 64, BLOCK_N = 256 };

/* The dimension numbers with the free axes of both sides spelt out. */
typedef struct dot_axes {
  const qn_attr_dot *a;
  qn_dims lhs_free, rhs_free;
} dot_axes;

static dot_axes axes_of(const qn_attr_dot *a, int lhs_rank, int rhs_rank) {
  return (dot_axes){a, qn_dims_rest(lhs_rank, &a->lhs_batch, &a->lhs_contract),
                    qn_dims_rest(rhs_rank, &a->rhs_batch, &a->rhs_contract)};
}

static qn_status check_side(const qn_infer *c, const char *batch_name, const qn_dims *batch, const char *contract_name,
                            const qn_dims *contract, int rank) {
  QN_TRY(qn_check_axes(c, batch_name, batch, rank, false));
  QN_TRY(qn_check_axes(c, contract_name, contract, rank, false));
  for (int i = 0; i < batch->n; ++i)
    if (qn_dims_has(contract, batch->d[i]))
      return QN_ERR(QN_INVALID, "%s: axis %lld is in both %s and %s", c->name, (long long)batch->d[i], batch_name,
                    contract_name);
  return QN_OK;
}

static qn_status check_pairs(const qn_infer *c, const char *what, const qn_dims *l, const qn_dims *r) {
  if (l->n != r->n)
    return QN_ERR(QN_INVALID, "%s: operand 0 has %d %s axes, operand 1 has %d", c->name, (int)l->n, what, (int)r->n);
  const qn_type *x = &c->operands[0], *y = &c->operands[1];
  for (int i = 0; i < l->n; ++i)
    if (x->dims[l->d[i]] != y->dims[r->d[i]])
      return QN_ERR(QN_INVALID,
                    "%s: operand 1 is %s, expected size %lld at axis %lld as axis %lld of operand 0, %s (%s)", c->name,
                    qn_type_str(y), (long long)x->dims[l->d[i]], (long long)r->d[i], (long long)l->d[i], qn_type_str(x),
                    what);
  return QN_OK;
}

static qn_status dot_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  const qn_type *x = &c->operands[0], *y = &c->operands[1];
  const qn_attr_dot *a = c->attr;
  QN_TRY(qn_check_same_dtype(c, 1, 0));
  QN_TRY(
      check_side(c, "lhs_batching_dimensions", &a->lhs_batch, "lhs_contracting_dimensions", &a->lhs_contract, x->rank));
  QN_TRY(
      check_side(c, "rhs_batching_dimensions", &a->rhs_batch, "rhs_contracting_dimensions", &a->rhs_contract, y->rank));
  QN_TRY(check_pairs(c, "batching", &a->lhs_batch, &a->rhs_batch));
  QN_TRY(check_pairs(c, "contracting", &a->lhs_contract, &a->rhs_contract));
  dot_axes d = axes_of(a, x->rank, y->rank);
  int rank = a->lhs_batch.n + d.lhs_free.n + d.rhs_free.n;
  if (rank > QN_MAX_RANK)
    return QN_ERR(QN_UNSUPPORTED, "%s: the result has rank %d, the most is %d", c->name, rank, QN_MAX_RANK);
  int64_t dims[QN_MAX_RANK] = {0};
  int n = 0;
  for (int i = 0; i < a->lhs_batch.n; ++i)
    dims[n++] = x->dims[a->lhs_batch.d[i]];
  for (int i = 0; i < d.lhs_free.n; ++i)
    dims[n++] = x->dims[d.lhs_free.d[i]];
  for (int i = 0; i < d.rhs_free.n; ++i)
    dims[n++] = y->dims[d.rhs_free.d[i]];
  qn_type z = qn_type_make(c->hint.dtype != QN_DTYPE_NONE ? c->hint.dtype : x->dtype, n, dims);
  if (qn_dtype_classify(z.dtype) != qn_dtype_classify(x->dtype))
    return QN_ERR(QN_INVALID, "%s: the result's elements are %s, expected the class of %s", c->name,
                  qn_dtype_name(z.dtype), qn_dtype_name(x->dtype));
  if (c->hint.dtype != QN_DTYPE_NONE && c->hint.rank != 0 && !qn_type_equal(&c->hint, &z))
    return QN_ERR(QN_INVALID, "%s: the result is %s, expected %s", c->name, qn_type_str(&c->hint), qn_type_str(&z));
  c->out_types[0] = z;
  return QN_OK;
}

/* ---- derivatives ---- */
/* The cotangent of one side: the result's cotangent against the other side, over the other side's free axes. `own` is the side asked for. */
static qn_val side_cotangent(qn_rule *r, int side) {
  const qn_attr_dot *a = r->attr;
  qn_type own = *qn_val_type(r->in[side]), other = *qn_val_type(r->in[1 - side]);
  const qn_dims *own_batch = side == 0 ? &a->lhs_batch : &a->rhs_batch,
                *own_contract = side == 0 ? &a->lhs_contract : &a->rhs_contract;
  const qn_dims *other_batch = side == 0 ? &a->rhs_batch : &a->lhs_batch,
                *other_contract = side == 0 ? &a->rhs_contract : &a->lhs_contract;
  qn_dims own_free = qn_dims_rest(own.rank, own_batch, own_contract),
          other_free = qn_dims_rest(other.rank, other_batch, other_contract);
  int batch = own_batch->n;
  qn_attr_dot dims = {.lhs_batch = qn_dims_iota(batch), .rhs_batch = *other_batch, .rhs_contract = other_free};
  dims.lhs_contract.n = other_free.n; /* the other side's free axes in the result */
  for (int i = 0; i < other_free.n; ++i)
    dims.lhs_contract.d[i] = batch + i + (side == 0 ? own_free.n : 0);
  qn_val ct = r->given[0], against = r->in[1 - side];
  qn_dtype wide = qn_val_type(ct)->dtype;
  if (other.dtype != wide)
    against = qn_convert(against, wide);
  qn_val y = qn_dot_general(ct, against, &dims, QN_DTYPE_NONE);
  /* Its axes: batch, own free, then the other side's contracting axes in ascending order. */
  int64_t place[QN_MAX_RANK] = {0};
  int at = 0;
  for (int i = 0; i < batch; ++i)
    place[own_batch->d[i]] = at++;
  for (int i = 0; i < own_free.n; ++i)
    place[own_free.d[i]] = at++;
  for (int axis = 0; axis < other.rank; ++axis)
    for (int i = 0; i < other_contract->n; ++i)
      if (other_contract->d[i] == axis)
        place[own_contract->d[i]] = at++;
  y = qn_transposed(y, place);
  return own.dtype != wide ? qn_convert(y, own.dtype) : y;
}

static void dot_vjp(qn_rule *r, qn_val *out) {
  for (int i = 0; i < 2; ++i)
    if (r->wanted[i])
      out[i] = side_cotangent(r, i);
}

static void dot_jvp(qn_rule *r, qn_val *out) {
  const qn_attr_dot *a = r->attr;
  qn_dtype dtype = qn_val_type(r->out[0])->dtype;
  qn_val x = QN_NULL_VAL, y = QN_NULL_VAL;
  if (qn_val_ok(r->given[0]))
    x = qn_dot_general(r->given[0], r->in[1], a, dtype);
  if (qn_val_ok(r->given[1]))
    y = qn_dot_general(r->in[0], r->given[1], a, dtype);
  out[0] = !qn_val_ok(x) ? y : qn_val_ok(y) ? qn_add(x, y) : x;
}

static void dot_batch(qn_batch *b, qn_val *out) {
  const qn_attr_dot *a = b->attr;
  bool l = b->mapped[0], r = b->mapped[1];
  qn_attr_dot up = {qn_dims_lifted(&a->lhs_batch, l && r), qn_dims_lifted(&a->rhs_batch, l && r),
                    qn_dims_lifted(&a->lhs_contract, false), qn_dims_lifted(&a->rhs_contract, false)};
  if (!l) {
    up.lhs_batch = a->lhs_batch;
    up.lhs_contract = a->lhs_contract;
  }
  if (!r) {
    up.rhs_batch = a->rhs_batch;
    up.rhs_contract = a->rhs_contract;
  }
  qn_type y = qn_batch_type(b, 0);
  qn_val z = qn_dot_general(b->in[0], b->in[1], &up, y.dtype);
  if (qn_val_ok(z) && l != r) { /* the lanes are a free axis: the first of their side */
    int lhs_free = qn_val_type(b->in[0])->rank - a->lhs_batch.n - a->lhs_contract.n;
    z = qn_axis_to_front(z, a->lhs_batch.n + (l ? 0 : lhs_free));
  }
  out[0] = z;
}

/* ---- reference ---- */
/* A side with its axes reordered, as one contiguous array of the widest elements of its class. */
static void *packed(const qn_type *t, const void *data, const qn_dims *first, const qn_dims *second,
                    const qn_dims *third) {
  int64_t count = qn_type_elements(t), own[QN_MAX_RANK], from[QN_MAX_RANK] = {0}, dims[QN_MAX_RANK] = {0},
          to[QN_MAX_RANK] = {0};
  size_t size = qn_dtype_is_complex(t->dtype) ? 16 : 8, bytes = (size_t)count * size;
  char *wide = malloc(bytes), *out = malloc(bytes);
  if (wide == NULL || out == NULL) {
    free(wide);
    free(out);
    return NULL;
  }
  if (qn_dtype_is_complex(t->dtype))
    qn_oracle_load_f(qn_dtype_part(t->dtype), data, 0, 2 * count, (double *)wide);
  else if (qn_dtype_is_float(t->dtype))
    qn_oracle_load_f(t->dtype, data, 0, count, (double *)wide);
  else if (qn_dtype_is_signed(t->dtype))
    qn_oracle_load_i(t->dtype, data, 0, count, (int64_t *)wide);
  else
    qn_oracle_load_u(t->dtype, data, 0, count, (uint64_t *)wide);
  qn_type as = *t;
  as.dtype = size == 16 ? QN_C128 : QN_F64;
  qn_strides_of(&as, own);
  const qn_dims *parts[] = {first, second, third};
  int n = 0;
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < parts[p]->n; ++i, ++n) {
      from[n] = own[parts[p]->d[i]];
      dims[n] = t->dims[parts[p]->d[i]];
    }
  qn_type order = qn_type_make(as.dtype, n, dims);
  qn_strides_of(&order, to);
  qn_copy_strided(n, dims, size, out, to, wide, from);
  free(wide);
  return out;
}

static int64_t product_of(const qn_type *t, const qn_dims *axes) {
  int64_t n = 1;
  for (int i = 0; i < axes->n; ++i)
    n *= t->dims[axes->d[i]];
  return n;
}

/* c[m][n] += a[m][k] b[k][n], k ascending for every element. */
static void multiply_f(int64_t m, int64_t n, int64_t k, const double *restrict a, const double *restrict b,
                       double *restrict c) {
  for (int64_t n0 = 0; n0 < n; n0 += BLOCK_N) {
    int64_t width = n - n0 < BLOCK_N ? n - n0 : BLOCK_N;
    for (int64_t k0 = 0; k0 < k; k0 += BLOCK_K) {
      int64_t k1 = k - k0 < BLOCK_K ? k : k0 + BLOCK_K;
      for (int64_t i = 0; i < m; ++i) {
        double *restrict row = c + i * n + n0;
        for (int64_t p = k0; p < k1; ++p) {
          double x = a[i * k + p];
          const double *restrict column = b + p * n + n0;
          for (int64_t j = 0; j < width; ++j)
            row[j] += x * column[j];
        }
      }
    }
  }
}

static void multiply_c(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      double re = a[2 * (i * k + p)], im = a[2 * (i * k + p) + 1];
      const double *column = b + 2 * p * n;
      double *row = c + 2 * i * n;
      for (int64_t j = 0; j < n; ++j) {
        row[2 * j] += re * column[2 * j] - im * column[2 * j + 1];
        row[2 * j + 1] += re * column[2 * j + 1] + im * column[2 * j];
      }
    }
}

static void multiply_u(int64_t m, int64_t n, int64_t k, const uint64_t *restrict a, const uint64_t *restrict b,
                       uint64_t *restrict c, bool is_bool) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) {
      uint64_t x = a[i * k + p];
      const uint64_t *restrict column = b + p * n;
      uint64_t *restrict row = c + i * n;
      for (int64_t j = 0; j < n; ++j)
        row[j] = is_bool ? row[j] | (x & column[j]) : row[j] + x * column[j];
    }
}

static qn_status dot_eval(const qn_ref_call *call) {
  const qn_type *x = call->in_types[0], *y = call->in_types[1], *z = call->out_types[0];
  int64_t count = qn_type_elements(z);
  if (count == 0)
    return QN_OK;
  const qn_attr_dot *a = call->attr;
  dot_axes d = axes_of(a, x->rank, y->rank);
  int64_t batch = product_of(x, &a->lhs_batch), k = product_of(x, &a->lhs_contract);
  int64_t m = product_of(x, &d.lhs_free), n = product_of(y, &d.rhs_free);
  bool complex = qn_dtype_is_complex(x->dtype);
  void *c = calloc((size_t)count, complex ? 16 : 8), *l = NULL, *r = NULL;
  qn_status st = QN_OK;
  if (k > 0) {
    l = packed(x, call->in[0], &a->lhs_batch, &d.lhs_free, &a->lhs_contract);
    r = packed(y, call->in[1], &a->rhs_batch, &a->rhs_contract, &d.rhs_free);
  }
  if (c == NULL || (k > 0 && (l == NULL || r == NULL))) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "dot_general: out of memory");
    goto done;
  }
  for (int64_t i = 0; i < batch && k > 0; ++i) {
    if (complex)
      multiply_c(m, n, k, (double *)l + 2 * i * m * k, (double *)r + 2 * i * k * n, (double *)c + 2 * i * m * n);
    else if (qn_dtype_is_float(x->dtype))
      multiply_f(m, n, k, (double *)l + i * m * k, (double *)r + i * k * n, (double *)c + i * m * n);
    else
      multiply_u(m, n, k, (uint64_t *)l + i * m * k, (uint64_t *)r + i * k * n, (uint64_t *)c + i * m * n,
                 x->dtype == QN_BOOL);
  }
  if (complex)
    qn_oracle_store_f(qn_dtype_part(z->dtype), call->out[0], 0, 2 * count, c);
  else if (qn_dtype_is_float(z->dtype))
    qn_oracle_store_f(z->dtype, call->out[0], 0, count, c);
  else if (qn_dtype_is_signed(z->dtype))
    qn_oracle_store_i(z->dtype, call->out[0], 0, count, c);
  else
    qn_oracle_store_u(z->dtype, call->out[0], 0, count, c);
done:
  free(c);
  free(l);
  free(r);
  return st;
}

static const qn_attr_dot matrices = {{0}, {0}, {1, {1}}, {1, {0}}}, stacks = {{1, {2}}, {1, {0}}, {1, {0}}, {1, {2}}};
static const qn_sample dot_samples[] = {
    {.ranks = {2, 2}, .dims = {{3, 4}, {4, 5}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &matrices},
    {.ranks = {3, 3}, .dims = {{4, 3, 2}, {2, 5, 4}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &stacks},
};

const qn_op_def qn_op_dot_general = {
    .name = "dot_general",
    .doc = "Sums products over the contracting axes for every batch index; axes of the result: batch, free of the "
           "left, free of the right.",
    .arity = 2,
    .kind = QN_KIND_CONTRACT,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_dot),
    .infer = dot_infer,
    .vjp = dot_vjp,
    .jvp = dot_jvp,
    .batch = dot_batch,
    .eval = dot_eval,
    .samples = dot_samples,
    .sample_count = 2,
};

/* ---- builders ---- */
qn_val qn_dot_general_at(qn_place at, qn_val lhs, qn_val rhs, const qn_attr_dot *dims, qn_dtype preferred) {
  qn_val in[] = {lhs, rhs};
  qn_graph *g = qn_graph_common("dot_general", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  qn_type hint = {.dtype = preferred};
  return qn_graph_add_typed(g, QN_OP_DOT_GENERAL, in, 2, dims, NULL, 0, preferred != QN_DTYPE_NONE ? &hint : NULL, at);
}

qn_val qn_dot_at(qn_place at, qn_val lhs, qn_val rhs) {
  qn_val in[] = {lhs, rhs};
  qn_graph *g = qn_graph_common("dot", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  const qn_type *x = qn_val_type(lhs), *y = qn_val_type(rhs);
  if (x->rank == 0 || y->rank == 0)
    return qn_graph_fail(g, at, QN_INVALID, "dot: operands are %s and %s, expected at least one axis each",
                         qn_type_str(x), qn_type_str(y));
  qn_attr_dot dims = {.lhs_contract = {1, {x->rank - 1}}, .rhs_contract = {1, {0}}};
  return qn_dot_general_at(at, lhs, rhs, &dims, QN_DTYPE_NONE);
}
