/* The generator of random_kit.h: random numbers, the pool of values, elementwise operations with their error bounds. */
#include "random_kit.h"

#include <math.h>

#define U 5.9604644775390625e-8 /* half a unit in the last place of 1, f32 */

/* ---- numbers and the pool ---- */

static uint64_t next(random_gen *z) {
  uint64_t x = z->state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint32_t random_below(random_gen *z, uint32_t n) { return n ? (uint32_t)((next(z) >> 32) % n) : 0; }

random_item *random_pick(random_gen *z, qn_dtype t, bool exact) {
  int found[RANDOM_POOL], n = 0;
  for (int i = 0; i < z->count; i++)
    if (qn_val_type(z->items[i].v)->dtype == t && (!exact || z->items[i].exact))
      found[n++] = i;
  if (n == 0)
    return NULL;
  int late = n > 4 && random_below(z, 3) ? 4 : n;
  random_item *i = &z->items[found[n - 1 - (int)random_below(z, (uint32_t)late)]];
  i->uses++;
  return i;
}

random_item *random_add(random_gen *z, qn_val v, qn_val e, double bound, bool exact) {
  if (!qn_val_ok(v) || z->count == RANDOM_POOL)
    return NULL;
  random_item *i = &z->items[z->count++];
  if (z->judged && !exact && !qn_type_same_shape(qn_val_type(v), qn_val_type(e)))
    e = qn_add(e, qn_zeros_like(v)); /* one bound for many elements */
  *i = (random_item){v, z->judged && !exact ? e : QN_NULL_VAL, bound, exact, 0};
  return i;
}

qn_val random_error(const random_item *i) { return i->exact ? qn_zeros_like(i->v) : i->e; }

qn_val random_ulps(qn_val v, double k) { return qn_add(qn_mul(qn_abs(v), qn_like(v, k * U)), qn_like(v, 1e-36)); }

/* An item of at most that magnitude: itself, or scaled down. */
static random_item *tamed(random_gen *z, random_item *i, double most) {
  if (!i || i->bound <= most)
    return i;
  qn_val c = qn_like(i->v, most / i->bound), v = qn_mul(i->v, c), e = QN_NULL_VAL;
  if (z->judged)
    e = qn_add(qn_mul(random_error(i), c), random_ulps(v, 2));
  return random_add(z, v, e, most, false);
}

/* ---- unary ---- */

static qn_val through_f16(qn_val x) { return qn_convert(qn_convert(x, QN_F16), QN_F32); }
static qn_val through_bf16(qn_val x) { return qn_convert(qn_convert(x, QN_BF16), QN_F32); }
static qn_val in_f16(qn_val x) {
  qn_val h = qn_convert(x, QN_F16);
  return qn_convert(qn_add(qn_mul(h, qn_like(h, 0.375)), qn_like(h, 1.5)), QN_F32);
}
static qn_val through_bits(qn_val x) { return qn_bitcast_convert(qn_bitcast_convert(x, QN_I32), QN_F32); }
static qn_val through_f64(qn_val x) {
  qn_val d = qn_convert(x, QN_F64);
  return qn_convert(qn_mul(d, qn_like(d, 0.7)), QN_F32);
}
static qn_val reduced(qn_val x) { return qn_reduce_precision(x, 8, 10); }
static qn_val square_root(qn_val x) { return qn_sqrt(qn_add(qn_abs(x), qn_like(x, 0.25))); }
static qn_val reciprocal_root(qn_val x) { return qn_rsqrt(qn_add(qn_abs(x), qn_like(x, 1))); }
static qn_val logarithm(qn_val x) { return qn_log(qn_add(qn_abs(x), qn_like(x, 0.5))); }
static qn_val logarithm_plus_one(qn_val x) { return qn_log1p(qn_abs(x)); }
static qn_val exponential(qn_val x) { return qn_exp(qn_clamp(qn_like(x, -3), x, qn_like(x, 3))); }
static qn_val gelu(qn_val x) { return qn_mul(x, qn_logistic(x)); }
#define SAME(name)                                                                                                     \
  static qn_val plain_##name(qn_val x) { return qn_##name(x); }
/* clang-format off */
SAME(neg) SAME(abs) SAME(tanh) SAME(logistic) SAME(sin) SAME(cos) SAME(relu) SAME(softplus)
SAME(erf) SAME(floor) SAME(round_even) SAME(sign) SAME(atan)
/* clang-format on */
#undef SAME

    /* |f(a) - f(b)| <= slope |a - b|; the computed value is off by ulps * |f| units and `off`; the result's magnitude is at most grow * bound + most. */
    enum {
      INEXACT,
      KEEPS_EXACT = 1,
      EXACT_ONLY = 2,
      WIDE = 4
    };
typedef struct unary {
  qn_val (*make)(qn_val x);
  double slope, ulps, off, grow, most;
  int how;
} unary;
static const unary unaries[] = {
    {plain_neg, 1, 0, 0, 1, 0, KEEPS_EXACT},
    {plain_abs, 1, 0, 0, 1, 0, KEEPS_EXACT},
    {plain_relu, 1, 0, 0, 1, 0, KEEPS_EXACT},
    {through_bits, 1, 0, 0, 1, 0, KEEPS_EXACT},
    {plain_floor, 1, 0, 0, 1, 1, KEEPS_EXACT | EXACT_ONLY},
    {plain_round_even, 1, 0, 0, 1, 1, KEEPS_EXACT | EXACT_ONLY},
    {plain_sign, 1, 0, 0, 0, 1, KEEPS_EXACT | EXACT_ONLY},
    {plain_tanh, 1, 8, 1e-7, 0, 1, INEXACT},
    {plain_logistic, 0.26, 8, 1e-7, 0, 1, INEXACT},
    {plain_sin, 1, 8, 2e-7, 0, 1, INEXACT},
    {plain_cos, 1, 8, 2e-7, 0, 1, INEXACT},
    {plain_erf, 1.2, 8, 1e-7, 0, 1, INEXACT},
    {plain_atan, 1, 8, 1e-7, 0, 1.6, INEXACT},
    {plain_softplus, 1, 12, 2e-7, 1, 0.7, INEXACT},
    {square_root, 1, 8, 0, 1, 1, INEXACT},
    {reciprocal_root, 0.6, 8, 0, 0, 1, INEXACT},
    {logarithm, 2.1, 12, 3e-7, 1, 1, INEXACT},
    {logarithm_plus_one, 1, 12, 2e-7, 1, 0, INEXACT},
    {exponential, 20.2, 12, 0, 0, 20.2, INEXACT},
    {gelu, 1.2, 16, 2e-7, 1, 0, INEXACT},
    {reduced, 1, 8192, 0, 1, 0, INEXACT},
    {through_f16, 1, 16384, 6e-8, 1, 0, INEXACT},
    {through_bf16, 1, 131072, 0, 1, 0, INEXACT},
    {in_f16, 0.375, 16384, 3e-3, 0.375, 1.5, INEXACT},
    {through_f64, 0.7, 4, 0, 0.7, 0, WIDE},
};

static bool grow_unary(random_gen *z) {
  const unary *u = &unaries[random_below(z, sizeof unaries / sizeof *unaries)];
  random_item *x = tamed(z, random_pick(z, QN_F32, (u->how & EXACT_ONLY) != 0), 1000);
  if (!x || ((u->how & WIDE) && !z->wide) || ((u->how & EXACT_ONLY) && !x->exact))
    return false;
  qn_val v = u->make(x->v), e = QN_NULL_VAL;
  if (z->judged) {
    e = qn_add(qn_mul(random_error(x), qn_like(v, u->slope * 1.01)), random_ulps(v, u->ulps));
    e = qn_add(e, qn_like(v, u->off));
  }
  return random_add(z, v, e, u->grow * x->bound + u->most, (u->how & KEEPS_EXACT) && x->exact) != NULL;
}

static bool grow_square(random_gen *z) {
  random_item *x = tamed(z, random_pick(z, QN_F32, false), 30);
  if (!x)
    return false;
  qn_val v = qn_square(x->v), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val ex = random_error(x), two = qn_like(v, 2);
    e = qn_add(qn_mul(ex, qn_add(qn_mul(qn_abs(x->v), two), ex)), random_ulps(v, 2));
  }
  return random_add(z, v, e, x->bound * x->bound, false) != NULL;
}

/* ---- binary ---- */

/* May the two be broadcast together, into no more than the largest size? */
static bool together(qn_val a, qn_val b) {
  const qn_type *s = qn_val_type(a), *t = qn_val_type(b);
  int rank = s->rank > t->rank ? s->rank : t->rank;
  int64_t n = 1;
  for (int k = 1; k <= rank; k++) {
    int64_t x = k <= s->rank ? s->dims[s->rank - k] : 1, y = k <= t->rank ? t->dims[t->rank - k] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    n *= x == 1 ? y : x;
  }
  return n <= RANDOM_LARGEST;
}

/* A second operand that broadcasts with x: some try of the pool, else a scalar constant. */
static random_item *partner(random_gen *z, const random_item *x, bool exact) {
  qn_dtype t = qn_val_type(x->v)->dtype;
  for (int k = 0; k < 6; k++) {
    random_item *y = random_pick(z, t, exact);
    if (y && y->v.id != x->v.id && together(x->v, y->v))
      return y;
  }
  double c = (double)random_below(z, 9) - 4;
  return random_add(z, qn_like(x->v, t == QN_F32 ? c / 2 : c), QN_NULL_VAL, 4, true);
}

static qn_val sum_of(qn_val a, qn_val b, bool subtract) { return subtract ? qn_sub(a, b) : qn_add(a, b); }
static qn_val larger(qn_val a, qn_val b, bool smaller) { return smaller ? qn_min(a, b) : qn_max(a, b); }

static bool grow_sum(random_gen *z) {
  random_item *a = tamed(z, random_pick(z, QN_F32, false), 1e4), *b = a ? tamed(z, partner(z, a, false), 1e4) : NULL;
  if (!b)
    return false;
  qn_val v = sum_of(a->v, b->v, random_below(z, 2)), e = QN_NULL_VAL;
  if (z->judged)
    e = qn_add(qn_add(random_error(a), random_error(b)), random_ulps(v, 2));
  return random_add(z, v, e, a->bound + b->bound, false) != NULL;
}

static bool grow_product(random_gen *z) {
  random_item *a = tamed(z, random_pick(z, QN_F32, false), 100), *b = a ? tamed(z, partner(z, a, false), 100) : NULL;
  if (!b)
    return false;
  qn_val v = qn_mul(a->v, b->v), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val ea = random_error(a), eb = random_error(b);
    e = qn_add(qn_mul(qn_abs(a->v), eb), qn_mul(qn_add(qn_abs(b->v), eb), ea));
    e = qn_add(e, random_ulps(v, 2));
  }
  return random_add(z, v, e, a->bound * b->bound, false) != NULL;
}

/* a / (1 + |b|) */
static bool grow_quotient(random_gen *z) {
  random_item *a = tamed(z, random_pick(z, QN_F32, false), 1e3), *b = a ? tamed(z, partner(z, a, false), 1e3) : NULL;
  if (!b)
    return false;
  qn_val below = qn_add(qn_like(b->v, 1), qn_abs(b->v)), v = qn_div(a->v, below), e = QN_NULL_VAL;
  if (z->judged) /* the denominator is at least 1 */
    e = qn_add(qn_add(random_error(a), qn_mul(qn_abs(v), random_error(b))), random_ulps(v, 8));
  return random_add(z, v, e, a->bound, false) != NULL;
}

static bool grow_extreme(random_gen *z) {
  random_item *a = random_pick(z, QN_F32, false), *b = a ? partner(z, a, false) : NULL;
  if (!b)
    return false;
  qn_val v = larger(a->v, b->v, random_below(z, 2)), e = QN_NULL_VAL;
  if (z->judged)
    e = qn_max(random_error(a), random_error(b));
  return random_add(z, v, e, fmax(a->bound, b->bound), a->exact && b->exact) != NULL;
}

/* a < b ? a' : b' of values that need not be exact: where the comparison is in doubt, either may come out. */
static bool grow_choice(random_gen *z) {
  random_item *a = random_pick(z, QN_F32, false), *b = a ? partner(z, a, false) : NULL;
  if (!b)
    return false;
  qn_val less = qn_lt(a->v, b->v), x = qn_mul(a->v, qn_like(a->v, 0.5)), y = qn_neg(b->v), e = QN_NULL_VAL;
  qn_val v = qn_select(less, x, y);
  if (z->judged) {
    qn_val ea = random_error(a), eb = random_error(b), both = qn_add(ea, eb);
    qn_val sure = qn_gt(qn_abs(qn_sub(a->v, b->v)), qn_mul(both, qn_like(both, 4)));
    e = qn_select(sure, qn_select(less, ea, eb), qn_add(qn_abs(qn_sub(x, y)), both));
  }
  return random_add(z, v, e, fmax(a->bound, b->bound), a->exact && b->exact) != NULL;
}

/* ---- exact things ---- */

static qn_val int_div(qn_val a, qn_val b) { return qn_div(a, qn_or(b, qn_like(b, 1))); }
static qn_val int_rem(qn_val a, qn_val b) { return qn_rem(a, qn_or(b, qn_like(b, 1))); }
static qn_val int_left(qn_val a, qn_val b) { return qn_shift_left(a, qn_and(b, qn_like(b, 7))); }
static qn_val int_right(qn_val a, qn_val b) { return qn_shift_right_arithmetic(a, qn_and(b, qn_like(b, 7))); }
static qn_val int_logical(qn_val a, qn_val b) { return qn_shift_right_logical(a, qn_and(b, qn_like(b, 7))); }
static qn_val int_wide(qn_val a, qn_val b) {
  qn_val x = qn_convert(a, QN_I64), y = qn_convert(b, QN_I64);
  return qn_convert(qn_mul(qn_add(x, qn_like(x, 3e9)), y), QN_I32);
}
static qn_val int_narrow(qn_val a, qn_val b) {
  return qn_convert(qn_add(qn_convert(a, QN_I8), qn_convert(b, QN_I8)), QN_I32);
}
static qn_val int_bytes(qn_val a, qn_val b) {
  return qn_convert(qn_mul(qn_convert(a, QN_U16), qn_convert(b, QN_U16)), QN_I32);
}
#define SAME(name)                                                                                                     \
  static qn_val int_##name(qn_val a, qn_val b) { return qn_##name(a, b); }
/* clang-format off */
SAME(add) SAME(sub) SAME(mul) SAME(max) SAME(min) SAME(and) SAME(or) SAME(xor)
/* clang-format on */
#undef SAME

    static qn_val (*const int_binaries[])(qn_val a, qn_val b) = {
        int_add, int_sub, int_mul,  int_max,   int_min,     int_and,  int_or,     int_xor,
        int_div, int_rem, int_left, int_right, int_logical, int_wide, int_narrow, int_bytes,
};

static bool grow_integers(random_gen *z) {
  random_item *a = random_pick(z, QN_I32, true), *b = a ? partner(z, a, true) : NULL;
  if (!b)
    return false;
  qn_val v = int_binaries[random_below(z, sizeof int_binaries / sizeof *int_binaries)](a->v, b->v);
  return random_add(z, v, QN_NULL_VAL, 2147483648.0, true) != NULL;
}

static bool grow_predicate(random_gen *z) {
  random_item *a = random_pick(z, random_below(z, 2) ? QN_I32 : QN_F32, true), *b = a ? partner(z, a, true) : NULL;
  if (!b)
    return false;
  qn_compare_direction direction = (qn_compare_direction)random_below(z, 6);
  qn_val p = qn_compare(a->v, b->v, direction, QN_CMP_DEFAULT);
  random_item *q = random_pick(z, QN_BOOL, true);
  if (q && together(p, q->v))
    p = random_below(z, 2) ? qn_and(p, qn_not(q->v)) : qn_xor(p, q->v);
  return random_add(z, p, QN_NULL_VAL, 1, true) != NULL;
}

static bool grow_select(random_gen *z) {
  random_item *p = random_pick(z, QN_BOOL, true), *a = random_pick(z, QN_F32, false);
  random_item *b = p && a ? partner(z, a, false) : NULL;
  if (!b || !together(p->v, a->v) || !together(p->v, b->v))
    return false;
  qn_val v = qn_select(p->v, a->v, b->v), e = QN_NULL_VAL;
  if (z->judged)
    e = qn_select(p->v, random_error(a), random_error(b));
  return random_add(z, v, e, fmax(a->bound, b->bound), a->exact && b->exact) != NULL;
}

static bool grow_conversion(random_gen *z) {
  random_item *x = random_pick(z, random_below(z, 2) ? QN_I32 : QN_BOOL, true);
  if (x && random_below(z, 2)) {
    qn_val v = qn_convert(x->v, QN_F32);
    return random_add(z, v, QN_NULL_VAL, x->bound, true) != NULL;
  }
  x = random_pick(z, QN_F32, true);
  return x && random_add(z, qn_convert(x->v, QN_I32), QN_NULL_VAL, fmin(x->bound, 2147483648.0), true) != NULL;
}

/* ---- one more ---- */

static bool (*const pointwise[])(random_gen *z) = {
    grow_unary,   grow_unary,  grow_unary,  grow_square,   grow_sum,       grow_sum,    grow_product,    grow_quotient,
    grow_extreme, grow_choice, grow_select, grow_integers, grow_predicate, grow_select, grow_conversion,
};

void random_grow(random_gen *z) {
  for (int tries = 0; tries < 8 && !qn_graph_failed(z->g); tries++) {
    uint32_t kind = random_below(z, 12);
    bool grown;
    if (kind < 4)
      grown = pointwise[random_below(z, sizeof pointwise / sizeof *pointwise)](z);
    else if (kind < 7)
      grown = random_moves[random_below(z, (uint32_t)random_move_count)](z);
    else if (kind < 10)
      grown = random_folds[random_below(z, (uint32_t)random_fold_count)](z);
    else
      grown = random_windows[random_below(z, (uint32_t)random_window_count)](z);
    if (grown)
      return;
  }
}
