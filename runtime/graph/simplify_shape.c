/* Rules of shape movement: what moves nothing goes, two moves become one. */
#include "rewrite.h"

#include <string.h>

static qn_val same_type(const qn_match *m) {
  return qn_type_equal(qn_val_type(m->v[0]), qn_match_type(m)) ? m->v[0] : QN_NULL_VAL;
}

static qn_val reshape(const qn_match *m) { return qn_match_add(m, QN_OP_RESHAPE, m->v, 1, NULL, qn_match_type(m)); }

static bool is_identity(const qn_dims *d) {
  for (int i = 0; i < d->n; i++)
    if (d->d[i] != i)
      return false;
  return true;
}

static const qn_dims *dims_of(const qn_match *m, int node) {
  return &((const qn_attr_dims *)m->node[node]->attr)->dims;
}

static bool all_are(const qn_dims *d, int64_t x) {
  for (int i = 0; i < d->n; i++)
    if (d->d[i] != x)
      return false;
  return true;
}

/* ---- broadcast_in_dim ---- */
static qn_val broadcast_nothing(const qn_match *m) { return is_identity(dims_of(m, 0)) ? same_type(m) : QN_NULL_VAL; }

static qn_val broadcast(const qn_match *m, const qn_dims *dims) {
  qn_attr_dims attr;
  memset(&attr, 0, sizeof attr);
  attr.dims = *dims;
  return qn_match_add(m, QN_OP_BROADCAST_IN_DIM, m->v, 1, &attr, qn_match_type(m));
}

static qn_val broadcast_twice(const qn_match *m) {
  const qn_dims *outer = dims_of(m, 0), *inner = dims_of(m, 1);
  qn_dims dims = {.n = inner->n};
  for (int i = 0; i < inner->n; i++)
    dims.d[i] = outer->d[inner->d[i]];
  return broadcast(m, &dims);
}

/* A broadcast that only adds dimensions of one, in order, is a reshape. */
static qn_val broadcast_units(const qn_match *m) {
  const qn_type *x = qn_val_type(m->v[0]), *to = qn_match_type(m);
  const qn_dims *dims = dims_of(m, 0);
  for (int i = 0; i < dims->n; i++)
    if ((i && dims->d[i] <= dims->d[i - 1]) || x->dims[i] != to->dims[dims->d[i]])
      return QN_NULL_VAL;
  return qn_type_elements(x) == qn_type_elements(to) ? reshape(m) : QN_NULL_VAL;
}

/* broadcast(reshape(x)) where the reshape only adds or drops dimensions of one. x's own go wherever there is room. */
static qn_val broadcast_reshaped(const qn_match *m) {
  const qn_type *x = qn_val_type(m->v[0]), *mid = qn_val_type(qn_match_operand(m, 0, 0)), *to = qn_match_type(m);
  const qn_dims *outer = dims_of(m, 0);
  bool taken[QN_MAX_RANK] = {false};
  qn_dims dims = {.n = x->rank};
  if (!qn_type_same_but_units(x, mid))
    return QN_NULL_VAL;
  for (int i = 0, j = 0; i < x->rank; i++) {
    if (x->dims[i] == 1)
      continue;
    while (mid->dims[j] == 1)
      j++;
    dims.d[i] = outer->d[j++];
    taken[dims.d[i]] = true;
  }
  for (int i = 0, j = 0; i < x->rank; i++) {
    if (x->dims[i] != 1)
      continue;
    while (j < to->rank && taken[j])
      j++;
    if (j == to->rank)
      return QN_NULL_VAL;
    dims.d[i] = j++;
  }
  return broadcast(m, &dims);
}

static qn_val broadcast_scalar(const qn_match *m) {
  if (qn_val_type(m->v[0])->rank != 0)
    return QN_NULL_VAL;
  qn_dims none = {0};
  return broadcast(m, &none);
}

/* transpose(broadcast(x)): result axis i is broadcast axis p[i]. */
static qn_val transpose_broadcast(const qn_match *m) {
  const qn_dims *p = dims_of(m, 0), *inner = dims_of(m, 1);
  qn_dims dims = {.n = inner->n};
  for (int i = 0; i < inner->n; i++)
    for (int k = 0; k < p->n; k++)
      if (p->d[k] == inner->d[i])
        dims.d[i] = k;
  return broadcast(m, &dims);
}

/* ---- transpose ---- */
static qn_val transpose_nothing(const qn_match *m) { return is_identity(dims_of(m, 0)) ? m->v[0] : QN_NULL_VAL; }

static qn_val transpose_twice(const qn_match *m) {
  const qn_dims *outer = dims_of(m, 0), *inner = dims_of(m, 1);
  qn_attr_dims attr;
  memset(&attr, 0, sizeof attr);
  attr.dims.n = outer->n;
  for (int i = 0; i < outer->n; i++)
    attr.dims.d[i] = inner->d[outer->d[i]];
  if (is_identity(&attr.dims))
    return m->v[0];
  return qn_match_add(m, QN_OP_TRANSPOSE, m->v, 1, &attr, NULL);
}

/* Only dimensions of one change their place. */
static qn_val transpose_units(const qn_match *m) {
  const qn_dims *p = dims_of(m, 0);
  const qn_type *x = qn_val_type(m->v[0]);
  int64_t last = -1;
  for (int i = 0; i < p->n; i++) {
    if (x->dims[p->d[i]] == 1)
      continue;
    if (p->d[i] < last)
      return QN_NULL_VAL;
    last = p->d[i];
  }
  return reshape(m);
}

/* ---- reverse, slice, pad, concatenate, iota ---- */
static qn_val reverse_nothing(const qn_match *m) {
  const qn_dims *d = dims_of(m, 0);
  for (int i = 0; i < d->n; i++)
    if (qn_match_type(m)->dims[d->d[i]] > 1)
      return QN_NULL_VAL;
  return m->v[0];
}

static qn_val reverse_twice(const qn_match *m) {
  const qn_dims *a = dims_of(m, 0), *b = dims_of(m, 1);
  unsigned axes[2] = {0, 0};
  for (int i = 0; i < a->n; i++)
    axes[0] |= 1u << a->d[i];
  for (int i = 0; i < b->n; i++)
    axes[1] |= 1u << b->d[i];
  return axes[0] == axes[1] ? m->v[0] : QN_NULL_VAL;
}

static qn_val slice_nothing(const qn_match *m) {
  const qn_attr_slice *a = m->node[0]->attr;
  return all_are(&a->start, 0) ? same_type(m) : QN_NULL_VAL;
}

static qn_val slice_twice(const qn_match *m) {
  const qn_attr_slice *outer = m->node[0]->attr, *inner = m->node[1]->attr;
  const qn_type *to = qn_match_type(m);
  qn_attr_slice a;
  memset(&a, 0, sizeof a);
  a.start.n = a.limit.n = a.stride.n = to->rank;
  for (int i = 0; i < to->rank; i++) {
    a.stride.d[i] = to->dims[i] > 1 ? inner->stride.d[i] * outer->stride.d[i] : 1; /* unused strides may be huge */
    if (to->dims[i] == 0)
      continue;
    a.start.d[i] = inner->start.d[i] + outer->start.d[i] * inner->stride.d[i];
    a.limit.d[i] = a.start.d[i] + (to->dims[i] - 1) * a.stride.d[i] + 1;
  }
  return qn_match_add(m, QN_OP_SLICE, m->v, 1, &a, NULL);
}

static qn_val pad_nothing(const qn_match *m) {
  const qn_attr_pad *a = m->node[0]->attr;
  return all_are(&a->low, 0) && all_are(&a->high, 0) ? same_type(m) : QN_NULL_VAL;
}

/* Operands without elements add nothing; one that is left alone is the result. */
static qn_val concatenate(const qn_match *m) {
  enum { MOST = 256 };
  const qn_node *n = m->node[0];
  const qn_attr_axis *a = n->attr;
  qn_val kept[MOST];
  int count = 0;
  if (n->operand_count > MOST)
    return QN_NULL_VAL;
  for (int i = 0; i < n->operand_count; i++) {
    qn_val x = qn_match_operand(m, 0, i);
    if (qn_val_type(x)->dims[a->dimension] != 0)
      kept[count++] = x;
  }
  if (count == 1)
    return kept[0];
  if (count == 0 || count == n->operand_count)
    return QN_NULL_VAL;
  return qn_match_add(m, QN_OP_CONCATENATE, kept, count, a, NULL);
}

/* The value of which v is entry `index` along an axis, the other axes whole, perhaps reshaped; the null value if there is none. */
static qn_val entry_of(qn_val v, int64_t index, int *out_axis) {
  const qn_node *n = qn_graph_def(v.graph, v.id);
  if (n->op == QN_OP_RESHAPE)
    n = qn_graph_def(v.graph, n->operands[0]);
  if (n->op != QN_OP_SLICE)
    return QN_NULL_VAL;
  qn_val from = {v.graph, n->operands[0]};
  const qn_type *t = qn_val_type(from), *got = qn_graph_type(v.graph, n->first_result);
  const qn_attr_slice *a = n->attr;
  *out_axis = -1;
  for (int i = 0; i < t->rank; i++) {
    if (got->dims[i] == t->dims[i])
      continue;
    if (*out_axis >= 0 || got->dims[i] != 1 || a->start.d[i] != index)
      return QN_NULL_VAL;
    *out_axis = i;
  }
  return *out_axis >= 0 ? from : QN_NULL_VAL;
}

/* All entries of a value along an axis, put together again along another one: the value with that axis moved. */
static qn_val concatenate_entries(const qn_match *m) {
  const qn_node *n = m->node[0];
  const qn_type *to = qn_match_type(m);
  int at = (int)((const qn_attr_axis *)n->attr)->dimension, axis = -1, other;
  qn_val from = QN_NULL_VAL;
  for (int i = 0; i < n->operand_count; i++) {
    qn_val x = qn_match_operand(m, 0, i), whole = entry_of(x, i, &other);
    if (!qn_val_ok(whole) || qn_val_type(x)->dims[at] != 1 || (i && (whole.id != from.id || other != axis)))
      return QN_NULL_VAL;
    from = whole;
    axis = other;
  }
  const qn_type *t = qn_val_type(from);
  if (n->operand_count < 2 || t->dims[axis] != n->operand_count)
    return QN_NULL_VAL;
  qn_attr_dims first, middle;
  memset(&first, 0, sizeof first);
  memset(&middle, 0, sizeof middle);
  int64_t before = 1, elements = qn_type_elements(to);
  for (int i = 0; i < at; i++)
    before *= to->dims[i];
  if (elements == 0)
    return QN_NULL_VAL;
  bool last = before * n->operand_count == elements; /* else it goes to the front first */
  first.dims.n = t->rank;
  first.dims.d[last ? t->rank - 1 : 0] = axis;
  for (int i = 0, k = last ? 0 : 1; i < t->rank; i++)
    if (i != axis)
      first.dims.d[k++] = i;
  qn_type blocks = qn_type_of(t->dtype, 3, n->operand_count, before, elements / n->operand_count / before);
  middle.dims = (qn_dims){3, {1, 0, 2}};
  qn_val v = qn_match_add(m, QN_OP_TRANSPOSE, &from, 1, &first, NULL);
  if (!last && before > 1) {
    v = qn_match_add(m, QN_OP_RESHAPE, &v, 1, NULL, &blocks);
    v = qn_match_add(m, QN_OP_TRANSPOSE, &v, 1, &middle, NULL);
  }
  return qn_match_add(m, QN_OP_RESHAPE, &v, 1, NULL, to);
}

static qn_val iota_of_one(const qn_match *m) {
  const qn_attr_axis *a = m->node[0]->attr;
  return qn_match_type(m)->dims[a->dimension] == 1 ? qn_match_full(m, 0) : QN_NULL_VAL;
}

static const qn_rewrite shape[] = {
    {"broadcast of nothing -> x", {P_(BROADCAST_IN_DIM), V_(0)}, broadcast_nothing},
    {"broadcast(broadcast(x)) -> broadcast(x)", {P_(BROADCAST_IN_DIM), P_(BROADCAST_IN_DIM), V_(0)}, broadcast_twice},
    {"broadcast(reshape of units(x)) -> broadcast(x)", {P_(BROADCAST_IN_DIM), P_(RESHAPE), V_(0)}, broadcast_reshaped},
    {"broadcast of units -> reshape", {P_(BROADCAST_IN_DIM), V_(0)}, broadcast_units},
    {"reshape to the same shape -> x", {P_(RESHAPE), V_(0)}, same_type},
    {"reshape(reshape(x)) -> reshape(x)", {P_(RESHAPE), P_(RESHAPE), V_(0)}, reshape},
    {"reshape(broadcast(scalar)) -> broadcast(scalar)", {P_(RESHAPE), P_(BROADCAST_IN_DIM), V_(0)}, broadcast_scalar},
    {"transpose of nothing -> x", {P_(TRANSPOSE), V_(0)}, transpose_nothing},
    {"transpose(transpose(x)) -> transpose(x)", {P_(TRANSPOSE), P_(TRANSPOSE), V_(0)}, transpose_twice},
    {"transpose(broadcast(x)) -> broadcast(x)", {P_(TRANSPOSE), P_(BROADCAST_IN_DIM), V_(0)}, transpose_broadcast},
    {"transpose of units -> reshape", {P_(TRANSPOSE), V_(0)}, transpose_units},
    {"reverse of nothing -> x", {P_(REVERSE), V_(0)}, reverse_nothing},
    {"reverse(reverse(x)) -> x", {P_(REVERSE), P_(REVERSE), V_(0)}, reverse_twice},
    {"slice of everything -> x", {P_(SLICE), V_(0)}, slice_nothing},
    {"slice(slice(x)) -> slice(x)", {P_(SLICE), P_(SLICE), V_(0)}, slice_twice},
    {"pad by nothing -> x", {P_(PAD), V_(0), ANY_}, pad_nothing},
    {"concatenate without empty operands", {P_(CONCATENATE)}, concatenate},
    {"concatenate of all entries -> transpose", {P_(CONCATENATE)}, concatenate_entries},
    {"iota of one -> 0", {P_(IOTA)}, iota_of_one},
};
const qn_rewrites qn_rules_shape = {shape, sizeof shape / sizeof *shape};
