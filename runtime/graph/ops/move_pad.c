/* pad: edges, which may be negative (then they cut), and padding between elements. */
#include "infer.h"
#include "move_shape.h"

static qn_status pad_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 2, 0));
  const qn_attr_pad *a = c->attr;
  const qn_type *x = &c->operands[0];
  QN_TRY(qn_check_scalar(c, 1, x->dtype));
  QN_TRY(qn_check_length(c, "edge_padding_low", &a->low, x->rank));
  QN_TRY(qn_check_length(c, "edge_padding_high", &a->high, x->rank));
  QN_TRY(qn_check_length(c, "interior_padding", &a->interior, x->rank));
  int64_t dims[QN_MAX_RANK] = {0};
  for (int i = 0; i < x->rank; ++i) {
    if (a->interior.d[i] < 0)
      return QN_ERR(QN_INVALID, "%s: interior_padding of axis %d is %lld, expected at least 0", c->name, i,
                    (long long)a->interior.d[i]);
    int64_t inside = x->dims[i] == 0 ? 0 : (x->dims[i] - 1) * (a->interior.d[i] + 1) + 1;
    dims[i] = a->low.d[i] + inside + a->high.d[i];
    if (dims[i] < 0)
      return QN_ERR(QN_INVALID, "%s: axis %d of operand 0, %s, padded by %lld and %lld has size %lld", c->name, i,
                    qn_type_str(x), (long long)a->low.d[i], (long long)a->high.d[i], (long long)dims[i]);
  }
  c->out_types[0] = qn_type_make(x->dtype, x->rank, dims);
  return QN_OK;
}

/* The part of a padded value that came from the operand: edges are undone by the opposite padding, gaps by a strided slice. */
static qn_val unpadded(qn_rule *r, qn_val ct) {
  const qn_attr_pad *a = r->attr;
  qn_type x = *qn_val_type(r->in[0]);
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0}, start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK] = {0},
          stride[QN_MAX_RANK] = {0};
  bool edges = false, gaps = false;
  for (int i = 0; i < x.rank; ++i) {
    low[i] = -a->low.d[i];
    high[i] = -a->high.d[i];
    stride[i] = a->interior.d[i] + 1;
    limit[i] = x.dims[i] == 0 ? 0 : (x.dims[i] - 1) * stride[i] + 1;
    edges = edges || low[i] != 0 || high[i] != 0;
    gaps = gaps || stride[i] != 1;
  }
  if (edges)
    ct = qn_pad(ct, qn_scalar(r->g, x.dtype, 0.0), low, high, NULL);
  return gaps ? qn_slice(ct, start, limit, stride) : ct;
}

/* true where the padded result holds the pad value. */
static qn_val holds_padding(qn_graph *g, const qn_attr_pad *a, const qn_type *x) {
  qn_type t = *x;
  t.dtype = QN_BOOL;
  return qn_pad(qn_full(g, t, 0.0), qn_scalar(g, QN_BOOL, 1.0), a->low.d, a->high.d, a->interior.d);
}

static void pad_vjp(qn_rule *r, qn_val *out) {
  if (r->wanted[0])
    out[0] = unpadded(r, r->given[0]);
  if (!r->wanted[1])
    return;
  qn_type x = *qn_val_type(r->in[0]);
  qn_val padding = holds_padding(r->g, r->attr, &x);
  out[1] = qn_sum_all(qn_select(padding, r->given[0], qn_like(r->given[0], 0.0)));
}

static void pad_batch(qn_batch *b, qn_val *out) {
  const qn_attr_pad *a = b->attr;
  qn_dims low = qn_dims_prepend(&a->low, 0), high = qn_dims_prepend(&a->high, 0),
          interior = qn_dims_prepend(&a->interior, 0);
  if (!b->mapped[1]) {
    out[0] = qn_pad(b->in[0], b->in[1], low.d, high.d, interior.d);
    return;
  }
  /* A value per lane: pad by zero, then put each lane's value where the padding is. */
  qn_val x = qn_batch_lanes(b, 0);
  qn_type t = *qn_val_type(x), y = qn_batch_type(b, 0), lane = t;
  lane.rank = t.rank - 1;
  for (int i = 0; i < lane.rank; ++i)
    lane.dims[i] = t.dims[i + 1];
  lane.dims[lane.rank] = 0;
  y = qn_type_lifted(&y, b->size);
  qn_val padding = qn_broadcast_to(holds_padding(b->g, a, &lane), y.rank, y.dims);
  qn_val value = qn_broadcast_in_dim(b->in[1], y.rank, y.dims, (const int64_t[]){0});
  out[0] = qn_select(padding, value, qn_pad(x, qn_scalar(b->g, t.dtype, 0.0), low.d, high.d, interior.d));
}

static qn_status pad_eval(const qn_ref_call *c) {
  const qn_attr_pad *a = c->attr;
  const qn_type *x = c->in_types[0], *y = c->out_types[0];
  size_t size = qn_dtype_size(y->dtype);
  if (qn_type_elements(y) == 0)
    return QN_OK;
  qn_fill_elements(c->out[0], c->in[1], size, qn_type_elements(y));
  int64_t dst[QN_MAX_RANK], src[QN_MAX_RANK], dims[QN_MAX_RANK] = {0};
  qn_strides_of(y, dst);
  qn_strides_of(x, src);
  char *to = c->out[0];
  const char *from = c->in[0];
  for (int i = 0; i < x->rank; ++i) { /* operand indices first .. last land inside the result */
    int64_t step = a->interior.d[i] + 1, low = a->low.d[i];
    int64_t first = low >= 0 ? 0 : (-low + step - 1) / step;
    int64_t last = y->dims[i] - 1 - low < 0 ? -1 : (y->dims[i] - 1 - low) / step;
    if (last > x->dims[i] - 1)
      last = x->dims[i] - 1;
    dims[i] = last - first + 1;
    if (dims[i] <= 0)
      return QN_OK;
    to += (low + first * step) * dst[i];
    from += first * src[i];
    dst[i] *= step;
  }
  qn_copy_strided(x->rank, dims, size, to, dst, from, src);
  return QN_OK;
}

static const qn_attr_pad mixed = {{2, {1, -1}}, {2, {-1, 2}}, {2, {0, 2}}};
static const qn_sample pad_samples[] = {{.ranks = {2, 0}, .dims = {{3, 4}}, .lo = -2, .hi = 2, .attr = &mixed}};

const qn_op_def qn_op_pad = {
    .name = "pad",
    .doc =
        "Puts the pad value before, behind and between the elements of each axis; a negative edge cuts elements off.",
    .arity = 2,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_ANY,
    .attr_size = sizeof(qn_attr_pad),
    .infer = pad_infer,
    .linear = true,
    .vjp = pad_vjp,
    .batch = pad_batch,
    .eval = pad_eval,
    .samples = pad_samples,
    .sample_count = 1,
};

qn_val qn_pad_at(qn_place at, qn_val x, qn_val value, const int64_t *low, const int64_t *high,
                 const int64_t *interior) {
  qn_val in[] = {x, value};
  qn_graph *g = qn_graph_common("pad", in, 2, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  int rank = qn_val_type(x)->rank;
  qn_attr_pad attr = {qn_dims_of(rank, low), qn_dims_of(rank, high), {0}};
  attr.interior.n = rank;
  for (int i = 0; i < rank; ++i)
    attr.interior.d[i] = interior != NULL ? interior[i] : 0;
  return qn_graph_add(g, QN_OP_PAD, in, 2, &attr, NULL, 0, at);
}
