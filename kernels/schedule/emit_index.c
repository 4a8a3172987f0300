/* Index arithmetic: affine in the lane as long as it can be proved, a vector of indexes otherwise. Everything is i32; the planner refuses arrays of
 * 2^31 elements and more. */
#include "schedule.h"

static int64_t gcd(int64_t a, int64_t b) {
  a = a < 0 ? -a : a;
  b = b < 0 ? -b : b;
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

qn_ix qn_ix_const(qn_emit *e, int64_t x) { return (qn_ix){qn_emit_i32(e, x), 0, x, {0}}; }

qn_ix qn_ix_scalar(qn_emit *e, qn_sval v, int64_t divisor) {
  (void)e;
  return (qn_ix){v, 0, divisor, {0}};
}

qn_ix qn_ix_lanes(qn_emit *e, qn_sval base, int64_t stride, int64_t divisor) {
  return (qn_ix){base, e->lanes > 1 ? stride : 0, divisor, {0}};
}

qn_ix qn_ix_vector(qn_emit *e, qn_sval v) {
  if (qn_kb_lanes(e->b, v) == 1)
    return qn_ix_scalar(e, v, 1);
  return (qn_ix){{0}, 0, 1, v};
}

static bool is_vector(const qn_ix *a) { return a->vec.id != 0; }

static qn_sval as_vector(qn_emit *e, qn_ix a) {
  if (is_vector(&a))
    return a.vec;
  qn_sval base = qn_kb_splat(e->b, a.base, e->lanes);
  if (!a.stride)
    return base;
  qn_sval lane = qs_mul(e->k, qn_kb_iota(e->b, e->lanes), qn_kb_splat(e->b, qn_emit_i32(e, a.stride), e->lanes));
  return qs_add(e->k, base, lane);
}

qn_sval qn_ix_value(qn_emit *e, qn_ix a) {
  if (!is_vector(&a) && !a.stride)
    return a.base;
  return as_vector(e, a);
}

bool qn_ix_same(const qn_ix *a, const qn_ix *b) {
  return a->base.id == b->base.id && a->stride == b->stride && a->vec.id == b->vec.id;
}

qn_ix qn_ix_add(qn_emit *e, qn_ix a, qn_ix b) {
  if (is_vector(&a) || is_vector(&b))
    return (qn_ix){{0}, 0, 1, qs_add(e->k, as_vector(e, a), as_vector(e, b))};
  return (qn_ix){qs_add(e->k, a.base, b.base), a.stride + b.stride, gcd(a.divisor, b.divisor), {0}};
}

qn_ix qn_ix_add_const(qn_emit *e, qn_ix a, int64_t c) { return c ? qn_ix_add(e, a, qn_ix_const(e, c)) : a; }

qn_ix qn_ix_mul_const(qn_emit *e, qn_ix a, int64_t c) {
  if (c == 1)
    return a;
  if (c == 0)
    return qn_ix_const(e, 0);
  if (is_vector(&a))
    return (qn_ix){{0}, 0, 1, qs_mul(e->k, a.vec, qn_kb_splat(e->b, qn_emit_i32(e, c), e->lanes))};
  return (qn_ix){qs_mul(e->k, a.base, qn_emit_i32(e, c)), a.stride * c, a.divisor * c, {0}};
}

qn_ix qn_ix_sub_from(qn_emit *e, int64_t c, qn_ix a) { return qn_ix_add_const(e, qn_ix_mul_const(e, a, -1), c); }

/* Do the lanes' steps stay within one multiple of d, whatever the base is? */
static bool lanes_stay(const qn_emit *e, const qn_ix *a, int64_t d) {
  if (a->stride <= 0)
    return a->stride == 0;
  int64_t span = a->stride * (int64_t)e->lanes;
  return d % span == 0 && (a->divisor == 0 || a->divisor % span == 0);
}

/* The base of lanes that may begin below zero, masked there, and reach what is valid: it has to be divided downwards, not towards zero. */
static qn_sval floor_div(qn_emit *e, qn_sval base, int64_t divisor, int64_t d) {
  if (!qn_kb_not_negative(e->b, base) && divisor % d != 0)
    base = qs_select(e->k, qs_lt(e->k, base, qn_emit_i32(e, 0)), qs_sub(e->k, base, qn_emit_i32(e, d - 1)), base);
  return qs_idiv(e->k, base, qn_emit_i32(e, d));
}

static qn_sval floor_mod(qn_emit *e, qn_sval base, int64_t divisor, int64_t d) {
  qn_sval rest = qs_irem(e->k, base, qn_emit_i32(e, d));
  if (qn_kb_not_negative(e->b, base) || divisor % d == 0)
    return rest;
  return qs_select(e->k, qs_lt(e->k, rest, qn_emit_i32(e, 0)), qs_add(e->k, rest, qn_emit_i32(e, d)), rest);
}

qn_ix qn_ix_div_const(qn_emit *e, qn_ix a, int64_t d) {
  if (d == 1)
    return a;
  if (is_vector(&a))
    return (qn_ix){{0}, 0, 1, qs_idiv(e->k, a.vec, qn_kb_splat(e->b, qn_emit_i32(e, d), e->lanes))};
  int64_t divisor = a.divisor % d == 0 ? a.divisor / d : 1;
  if (lanes_stay(e, &a, d))
    return (qn_ix){qs_idiv(e->k, a.base, qn_emit_i32(e, d)), 0, divisor, {0}};
  if (a.stride > 0 && a.stride % d == 0)
    return (qn_ix){floor_div(e, a.base, a.divisor, d), a.stride / d, divisor, {0}};
  return (qn_ix){{0}, 0, 1, qs_idiv(e->k, as_vector(e, a), qn_kb_splat(e->b, qn_emit_i32(e, d), e->lanes))};
}

qn_ix qn_ix_mod_const(qn_emit *e, qn_ix a, int64_t d) {
  if (d == 1)
    return qn_ix_const(e, 0);
  if (is_vector(&a))
    return (qn_ix){{0}, 0, 1, qs_irem(e->k, a.vec, qn_kb_splat(e->b, qn_emit_i32(e, d), e->lanes))};
  int64_t divisor = gcd(a.divisor, d);
  if (lanes_stay(e, &a, d))
    return (qn_ix){qs_irem(e->k, a.base, qn_emit_i32(e, d)), a.stride, divisor, {0}};
  if (a.stride > 0 && a.stride % d == 0)
    return (qn_ix){floor_mod(e, a.base, a.divisor, d), 0, divisor, {0}};
  return (qn_ix){{0}, 0, 1, qs_irem(e->k, as_vector(e, a), qn_kb_splat(e->b, qn_emit_i32(e, d), e->lanes))};
}

/* Unit axes aside, is this tuple the one that the origin's linear index was taken apart into, over the same shape? */
static bool is_origin(const qn_emit *e, const qn_ix *idx, const qn_type *t) {
  const qn_ix_origin *o = &e->origin;
  int i = 0, j = 0;
  for (; o->on; i++, j++) {
    while (i < t->rank && t->dims[i] == 1)
      i++;
    while (j < o->shape.rank && o->shape.dims[j] == 1)
      j++;
    if (i == t->rank || j == o->shape.rank)
      return i == t->rank && j == o->shape.rank;
    if (t->dims[i] != o->shape.dims[j] || !qn_ix_same(&idx[i], &o->idx[j]))
      return false;
  }
  return false;
}

qn_ix qn_ix_offset(qn_emit *e, const qn_ix *idx, const qn_type *t) {
  if (is_origin(e, idx, t))
    return e->origin.linear;
  qn_ix sum = qn_ix_const(e, 0);
  int64_t stride = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (t->dims[i] != 1)
      sum = qn_ix_add(e, sum, qn_ix_mul_const(e, idx[i], stride));
    stride *= t->dims[i];
  }
  return sum;
}

void qn_ix_delinearize(qn_emit *e, qn_ix linear, int rank, const int64_t *dims, qn_ix *out) {
  int first = 0; /* the outermost axis that isn't 1 needs no remainder */
  while (first < rank && dims[first] == 1)
    first++;
  for (int i = rank - 1; i >= 0; i--) {
    if (dims[i] == 1) {
      out[i] = qn_ix_const(e, 0);
      continue;
    }
    out[i] = i == first ? linear : qn_ix_mod_const(e, linear, dims[i]);
    if (i != first)
      linear = qn_ix_div_const(e, linear, dims[i]);
  }
}

void qn_emit_set_origin(qn_emit *e, qn_ix linear, const qn_type *shape, qn_ix *out) {
  e->origin.on = false;
  qn_ix_delinearize(e, linear, shape->rank, shape->dims, out);
  e->origin.on = true;
  e->origin.shape = *shape;
  e->origin.linear = linear;
  for (int i = 0; i < shape->rank; i++)
    e->origin.idx[i] = out[i];
}
