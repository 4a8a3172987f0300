/* Elementwise operations on pairs of reals. The formulas hold where squares of the parts would overflow or vanish, and at zeros and infinities give
 * what C's Annex G gives; products alone are the plain four, as XLA has them. */
#include "complex.h"

#include <math.h>

#include "quern/ops.h"

static qn_val num(qn_val like, double x) { return qn_like(like, x); }
static qn_val equals(qn_val a, double x) { return qn_eq(a, num(a, x)); }
static qn_val is_nan(qn_val a) { return qn_ne(a, a); }
static qn_val is_inf(qn_val a) { return equals(qn_abs(a), INFINITY); }
static qn_val half(qn_val a) { return qn_mul(a, num(a, 0.5)); }
static bool wide(qn_val a) { return qn_val_type(a)->dtype == QN_F64; }

/* Also of a zero: by the sign bit. */
static qn_val is_negative(qn_val b) {
  qn_val bits = qn_bitcast_convert(b, wide(b) ? QN_I64 : QN_I32);
  return qn_lt(bits, num(bits, 0));
}
/* a, not below 0, with the sign of b */
static qn_val with_sign(qn_val a, qn_val b) { return qn_select(is_negative(b), qn_neg(a), a); }

/* ---- arithmetic ---- */
static qn_pair pair_add(const qn_pair *x) { return (qn_pair){qn_add(x[0].re, x[1].re), qn_add(x[0].im, x[1].im)}; }
static qn_pair pair_subtract(const qn_pair *x) { return (qn_pair){qn_sub(x[0].re, x[1].re), qn_sub(x[0].im, x[1].im)}; }
static qn_pair pair_negate(const qn_pair *x) { return (qn_pair){qn_neg(x[0].re), qn_neg(x[0].im)}; }

static qn_pair product(qn_pair a, qn_pair b) {
  return (qn_pair){qn_sub(qn_mul(a.re, b.re), qn_mul(a.im, b.im)), qn_add(qn_mul(a.re, b.im), qn_mul(a.im, b.re))};
}
static qn_pair pair_multiply(const qn_pair *x) { return product(x[0], x[1]); }
static qn_pair pair_square(const qn_pair *x) { return product(x[0], x[0]); }

/* 1 for an infinity and 0 for a finite number, with its sign. */
static qn_val boxed(qn_val a) { return with_sign(qn_select(is_inf(a), num(a, 1), num(a, 0)), a); }

/* What the quotient is where the plain formula gives NaN twice although the operands tell more. */
static qn_pair quotient_corners(qn_pair a, qn_pair b, qn_pair y) {
  qn_val inf = num(a.re, INFINITY), zero = num(a.re, 0);
  qn_val lost = qn_and(is_nan(y.re), is_nan(y.im));
  qn_val by_zero = qn_and(qn_and(equals(b.re, 0), equals(b.im, 0)), qn_not(qn_and(is_nan(a.re), is_nan(a.im))));
  qn_val a_inf = qn_or(is_inf(a.re), is_inf(a.im)), b_inf = qn_or(is_inf(b.re), is_inf(b.im));
  qn_val a_finite = qn_and(qn_is_finite(a.re), qn_is_finite(a.im)),
         b_finite = qn_and(qn_is_finite(b.re), qn_is_finite(b.im));
  qn_val grows = qn_and(a_inf, b_finite), vanishes = qn_and(b_inf, a_finite);
  qn_pair p = {qn_select(grows, boxed(a.re), a.re), qn_select(grows, boxed(a.im), a.im)};
  qn_pair q = {qn_select(grows, b.re, boxed(b.re)), qn_select(grows, b.im, boxed(b.im))};
  qn_val times = qn_select(grows, inf, zero), pole = with_sign(inf, b.re);
  qn_pair far = {qn_mul(times, qn_add(qn_mul(p.re, q.re), qn_mul(p.im, q.im))),
                 qn_mul(times, qn_sub(qn_mul(p.im, q.re), qn_mul(p.re, q.im)))};
  qn_val edge = qn_and(lost, qn_or(grows, vanishes)), at_pole = qn_and(lost, by_zero);
  return (qn_pair){qn_select(at_pole, qn_mul(pole, a.re), qn_select(edge, far.re, y.re)),
                   qn_select(at_pole, qn_mul(pole, a.im), qn_select(edge, far.im, y.im))};
}

/* Smith: divided through by the larger part of the divisor, so that nothing is squared; of halves, so that no sum of two overflows. */
static qn_pair quotient(qn_pair a, qn_pair b) {
  qn_val by_re = qn_ge(qn_abs(b.re), qn_abs(b.im));
  qn_val large = half(qn_select(by_re, b.re, b.im)), small = half(qn_select(by_re, b.im, b.re));
  qn_val p = half(qn_select(by_re, a.re, a.im)), q = half(qn_select(by_re, a.im, a.re));
  qn_val ratio = qn_div(small, large), scale = qn_add(large, qn_mul(small, ratio));
  qn_val re = qn_div(qn_add(p, qn_mul(q, ratio)), scale), im = qn_div(qn_sub(q, qn_mul(p, ratio)), scale);
  return quotient_corners(a, b, (qn_pair){re, qn_select(by_re, im, qn_neg(im))});
}
static qn_pair pair_divide(const qn_pair *x) { return quotient(x[0], x[1]); }

/* ---- size ---- */
static qn_val size_of(qn_pair z) {
  qn_val a = qn_abs(z.re), b = qn_abs(z.im);
  qn_val most = qn_max(a, b), ratio = qn_div(qn_min(a, b), most);
  qn_val y = qn_mul(most, qn_sqrt(qn_add(num(a, 1), qn_mul(ratio, ratio))));
  y = qn_select(equals(most, 0), most, y);
  return qn_select(qn_or(is_inf(a), is_inf(b)), num(a, INFINITY), y);
}
static qn_pair pair_abs(const qn_pair *x) { return (qn_pair){size_of(x[0]), QN_NULL_VAL}; }
static qn_pair pair_sign(const qn_pair *x) {
  qn_val size = size_of(x[0]), zero = equals(size, 0);
  return (qn_pair){qn_select(zero, x[0].re, qn_div(x[0].re, size)), qn_select(zero, x[0].im, qn_div(x[0].im, size))};
}
static qn_val angle_of(qn_pair z) { return qn_atan2(z.im, z.re); }

/* ---- exponentials, logarithms ---- */
/* e^a cos b and e^a sin b; near the overflow of e^a in two steps, and without sin of an infinity where e^a is 0. */
static qn_pair exponential(qn_pair z) {
  double most = wide(z.re) ? 700 : 80;
  qn_val far = qn_gt(z.re, num(z.re, most)), gone = qn_and(equals(z.re, -INFINITY), qn_not(qn_is_finite(z.im)));
  qn_val base = qn_exp(qn_select(far, num(z.re, most), z.re));
  qn_val more = qn_exp(qn_select(far, qn_sub(z.re, num(z.re, most)), num(z.re, 0)));
  qn_val b = qn_select(gone, num(z.im, 0), z.im);
  qn_val re = qn_mul(qn_mul(base, qn_cos(b)), more), im = qn_mul(qn_mul(base, qn_sin(b)), more);
  qn_val lost = qn_and(equals(z.re, INFINITY), qn_not(qn_is_finite(z.im)));
  return (qn_pair){qn_select(lost, z.re, re), qn_select(equals(z.im, 0), z.im, im)};
}
static qn_pair pair_exp(const qn_pair *x) { return exponential(x[0]); }
static qn_pair pair_expm1(const qn_pair *x) {
  qn_val s = qn_sin(half(x[0].im));
  qn_val re = qn_sub(qn_mul(qn_expm1(x[0].re), qn_cos(x[0].im)), qn_mul(num(s, 2), qn_mul(s, s)));
  return (qn_pair){re, exponential(x[0]).im};
}

/* log of the size: of numbers near the unit circle by log1p of what the squared size is above one. */
static qn_val log_size(qn_pair z) {
  qn_val a = qn_abs(z.re), b = qn_abs(z.im), one = num(a, 1);
  qn_val most = qn_max(a, b), least = qn_min(a, b), ratio = qn_div(least, most);
  qn_val above = qn_add(qn_mul(qn_sub(most, one), qn_add(most, one)), qn_mul(least, least));
  qn_val near = qn_and(qn_gt(most, num(a, 0.5)), qn_lt(most, num(a, 2)));
  ratio = qn_select(qn_or(equals(most, 0), qn_or(is_inf(a), is_inf(b))), num(a, 0), ratio);
  qn_val far = qn_add(qn_log(most), half(qn_log1p(qn_mul(ratio, ratio))));
  far = qn_select(qn_or(is_inf(a), is_inf(b)), num(a, INFINITY), far);
  return qn_select(near, half(qn_log1p(above)), far);
}
static qn_pair logarithm(qn_pair z) { return (qn_pair){log_size(z), angle_of(z)}; }
static qn_pair pair_log(const qn_pair *x) { return logarithm(x[0]); }
static qn_pair pair_log1p(const qn_pair *x) {
  qn_val a = x[0].re, b = x[0].im;
  qn_pair moved = {qn_add(a, num(a, 1)), b};
  qn_val near = qn_and(qn_lt(qn_abs(a), num(a, 0.5)), qn_lt(qn_abs(b), num(a, 0.5)));
  qn_val above = qn_add(qn_mul(a, qn_add(num(a, 2), a)), qn_mul(b, b));
  return (qn_pair){qn_select(near, half(qn_log1p(above)), log_size(moved)), angle_of(moved)};
}
static qn_pair pair_logistic(const qn_pair *x) {
  qn_pair e = exponential(pair_negate(x)), one = {num(e.re, 1), num(e.im, 0)};
  return quotient(one, (qn_pair){qn_add(one.re, e.re), e.im});
}

/* ---- roots ---- */
/* From the root of (size + |a|) / 2, the larger part; scaled by powers of four where that sum overflows or is subnormal. */
static qn_pair square_root(qn_pair z) {
  double top = wide(z.re) ? 0x1p1020 : 0x1p124, bottom = wide(z.re) ? 0x1p-960 : 0x1p-100;
  qn_val most = qn_max(qn_abs(z.re), qn_abs(z.im));
  qn_val large = qn_gt(most, num(most, top)), small = qn_lt(most, num(most, bottom)), one = num(most, 1);
  qn_val scale = qn_select(large, num(most, 0x1p-4), qn_select(small, num(most, 0x1p40), one));
  qn_val undo = qn_select(large, num(most, 4), qn_select(small, num(most, 0x1p-20), one));
  qn_pair w = {qn_mul(z.re, scale), qn_mul(z.im, scale)};
  qn_val root = qn_sqrt(half(qn_add(size_of(w), qn_abs(w.re))));
  qn_val other = qn_div(half(qn_abs(w.im)), root);
  root = qn_mul(root, undo);
  other = qn_mul(other, undo);
  qn_val negative = qn_lt(z.re, num(z.re, 0)), zero = equals(most, 0);
  qn_val re = qn_select(negative, other, root), im = qn_select(negative, root, other);
  /* an infinite imaginary part beats all; an infinite real one leaves 0 beside it, unless the other is NaN */
  qn_val high = is_inf(z.im), far = qn_and(is_inf(z.re), qn_is_finite(z.im)), inf = num(most, INFINITY);
  re = qn_select(high, inf, qn_select(far, qn_select(negative, num(most, 0), inf), re));
  im = qn_select(high, inf, qn_select(far, qn_select(negative, inf, num(most, 0)), im));
  return (qn_pair){qn_select(zero, num(most, 0), re), qn_select(zero, z.im, with_sign(im, z.im))};
}
static qn_pair pair_sqrt(const qn_pair *x) { return square_root(x[0]); }
static qn_pair pair_rsqrt(const qn_pair *x) {
  qn_pair y = square_root(x[0]);
  return quotient((qn_pair){num(y.re, 1), num(y.re, 0)}, y);
}
static qn_pair pair_cbrt(const qn_pair *x) {
  qn_val size = qn_cbrt(size_of(x[0])), angle = qn_div(angle_of(x[0]), num(size, 3));
  return (qn_pair){qn_mul(size, qn_cos(angle)), qn_mul(size, qn_sin(angle))};
}

/* ---- hyperbolic functions, and the trigonometric ones as those of i z ---- */
static qn_pair pair_sinh(const qn_pair *x) {
  qn_val a = x[0].re, b = x[0].im;
  qn_val im = qn_mul(qn_cosh(a), qn_sin(b)), re = qn_mul(qn_sinh(a), qn_cos(b));
  return (qn_pair){qn_select(equals(a, 0), a, re), qn_select(equals(b, 0), b, im)};
}
static qn_pair pair_cosh(const qn_pair *x) {
  qn_val a = x[0].re, b = x[0].im, im = qn_mul(qn_sinh(a), qn_sin(b));
  qn_val real = qn_or(equals(a, 0), equals(b, 0));
  return (qn_pair){qn_mul(qn_cosh(a), qn_cos(b)),
                   qn_select(real, qn_mul(with_sign(num(a, 1), a), qn_select(equals(b, 0), b, num(b, 0))), im)};
}

/* Kahan: by tan b and sinh a; far out the result is one and a trace. */
static qn_pair hyperbolic_tangent(qn_pair z) {
  qn_val a = z.re, b = z.im, limit = num(a, wide(a) ? 20 : 10), one = num(a, 1);
  qn_val far = qn_gt(qn_abs(a), limit), inside = qn_select(far, limit, a);
  qn_val t = qn_tan(b), s = qn_sinh(inside), beta = qn_add(one, qn_mul(t, t));
  qn_val rho = qn_sqrt(qn_add(one, qn_mul(s, s))), scale = qn_add(one, qn_mul(qn_mul(beta, s), s));
  qn_val re = qn_div(qn_mul(qn_mul(beta, rho), s), scale), im = qn_div(t, scale);
  qn_val trace = qn_mul(qn_mul(num(a, 4), qn_mul(qn_sin(b), qn_cos(b))), qn_exp(qn_mul(num(a, -2), qn_abs(a))));
  trace = qn_select(qn_and(is_inf(a), qn_not(qn_is_finite(b))), num(a, 0), trace);
  return (qn_pair){qn_select(far, with_sign(one, a), re), qn_select(far, trace, im)};
}
static qn_pair pair_tanh(const qn_pair *x) { return hyperbolic_tangent(x[0]); }

static qn_pair turned(qn_pair z) { return (qn_pair){qn_neg(z.im), z.re}; }
static qn_pair turned_back(qn_pair z) { return (qn_pair){z.im, qn_neg(z.re)}; }
static qn_pair pair_sine(const qn_pair *x) {
  qn_pair w = turned(x[0]);
  return turned_back(pair_sinh(&w));
}
static qn_pair pair_cosine(const qn_pair *x) {
  qn_pair w = turned(x[0]);
  return pair_cosh(&w);
}
static qn_pair pair_tan(const qn_pair *x) { return turned_back(hyperbolic_tangent(turned(x[0]))); }

/* ---- their inverses, as Kahan has them: by the roots of 1 - z and 1 + z ---- */
typedef struct unit_roots {
  qn_pair below, above; /* of 1 - z, of 1 + z */
} unit_roots;
static unit_roots roots_of(qn_pair z) {
  qn_val one = num(z.re, 1);
  return (unit_roots){square_root((qn_pair){qn_sub(one, z.re), qn_neg(z.im)}),
                      square_root((qn_pair){qn_add(one, z.re), z.im})};
}
static qn_pair inverse_sine(qn_pair z) {
  unit_roots r = roots_of(z);
  qn_val re = qn_sub(qn_mul(r.below.re, r.above.re), qn_mul(r.below.im, r.above.im));
  qn_val im = qn_sub(qn_mul(r.below.re, r.above.im), qn_mul(r.below.im, r.above.re));
  return (qn_pair){qn_atan2(z.re, re), qn_asinh(im)};
}
static qn_pair pair_asin(const qn_pair *x) { return inverse_sine(x[0]); }
static qn_pair pair_acos(const qn_pair *x) {
  unit_roots r = roots_of(x[0]);
  qn_val im = qn_sub(qn_mul(r.above.re, r.below.im), qn_mul(r.above.im, r.below.re));
  return (qn_pair){qn_mul(num(im, 2), qn_atan2(r.below.re, r.above.re)), qn_asinh(im)};
}
static qn_pair pair_asinh(const qn_pair *x) { return turned(inverse_sine(turned_back(x[0]))); }
/* The root of z - 1 takes the place of that of 1 - z. */
static qn_pair pair_acosh(const qn_pair *x) {
  qn_val one = num(x[0].re, 1);
  qn_pair below = square_root((qn_pair){qn_sub(x[0].re, one), x[0].im}),
          above = square_root((qn_pair){qn_add(x[0].re, one), x[0].im});
  qn_val re = qn_add(qn_mul(below.re, above.re), qn_mul(below.im, above.im));
  return (qn_pair){qn_asinh(re), qn_mul(num(re, 2), qn_atan2(below.im, above.re))};
}
static qn_pair inverse_hyperbolic_tangent(qn_pair z) {
  qn_val a = z.re, b = z.im, one = num(a, 1), low = qn_sub(one, a), high = qn_add(one, a), square = qn_mul(b, b);
  qn_val ratio = qn_div(qn_mul(num(a, 4), a), qn_add(qn_mul(low, low), square));
  qn_val angle = qn_atan2(qn_mul(num(b, 2), b), qn_sub(qn_mul(low, high), square));
  return (qn_pair){qn_mul(num(a, 0.25), qn_log1p(ratio)), half(angle)};
}
static qn_pair pair_atanh(const qn_pair *x) { return inverse_hyperbolic_tangent(x[0]); }
static qn_pair pair_atan(const qn_pair *x) { return turned_back(inverse_hyperbolic_tangent(turned(x[0]))); }

/* ---- two operands ---- */
/* |z|^c e^(-d angle), turned by c angle + d log|z|. */
static qn_pair pair_power(const qn_pair *x) {
  qn_val c = x[1].re, d = x[1].im, angle = angle_of(x[0]), log = log_size(x[0]);
  qn_val size = qn_mul(qn_pow(size_of(x[0]), c), qn_exp(qn_neg(qn_mul(d, angle))));
  qn_val turn = qn_add(qn_mul(c, angle), qn_mul(d, log));
  qn_val none = qn_and(equals(x[0].re, 0), equals(x[0].im, 0)), once = qn_and(equals(c, 0), equals(d, 0));
  qn_val at_zero = qn_select(qn_gt(c, num(c, 0)), num(c, 0), num(c, NAN));
  qn_val re = qn_select(none, at_zero, qn_mul(size, qn_cos(turn))),
         im = qn_select(none, at_zero, qn_mul(size, qn_sin(turn)));
  return (qn_pair){qn_select(once, num(c, 1), re), qn_select(once, num(c, 0), im)};
}
static qn_pair pair_atan2(const qn_pair *x) {
  qn_pair up = turned(x[0]), sum = {qn_add(x[1].re, up.re), qn_add(x[1].im, up.im)};
  qn_pair a = product(x[0], x[0]), b = product(x[1], x[1]);
  qn_pair size = square_root((qn_pair){qn_add(b.re, a.re), qn_add(b.im, a.im)});
  return turned_back(logarithm(quotient(sum, size)));
}
static qn_pair pair_complex(const qn_pair *x) { return (qn_pair){x[0].re, x[1].re}; }
static qn_pair pair_real(const qn_pair *x) { return (qn_pair){x[0].re, QN_NULL_VAL}; }
static qn_pair pair_imag(const qn_pair *x) { return (qn_pair){x[0].im, QN_NULL_VAL}; }

static const struct {
  qn_op op;
  qn_pair (*make)(const qn_pair *x);
} rules[] = {
    {QN_OP_ADD, pair_add},           {QN_OP_SUBTRACT, pair_subtract},
    {QN_OP_NEGATE, pair_negate},     {QN_OP_MULTIPLY, pair_multiply},
    {QN_OP_SQUARE, pair_square},     {QN_OP_DIVIDE, pair_divide},
    {QN_OP_ABS, pair_abs},           {QN_OP_SIGN, pair_sign},
    {QN_OP_EXPONENTIAL, pair_exp},   {QN_OP_EXPONENTIAL_MINUS_ONE, pair_expm1},
    {QN_OP_LOG, pair_log},           {QN_OP_LOG_PLUS_ONE, pair_log1p},
    {QN_OP_LOGISTIC, pair_logistic}, {QN_OP_SQRT, pair_sqrt},
    {QN_OP_RSQRT, pair_rsqrt},       {QN_OP_CBRT, pair_cbrt},
    {QN_OP_SINH, pair_sinh},         {QN_OP_COSH, pair_cosh},
    {QN_OP_TANH, pair_tanh},         {QN_OP_SINE, pair_sine},
    {QN_OP_COSINE, pair_cosine},     {QN_OP_TAN, pair_tan},
    {QN_OP_ASIN, pair_asin},         {QN_OP_ACOS, pair_acos},
    {QN_OP_ATAN, pair_atan},         {QN_OP_ASINH, pair_asinh},
    {QN_OP_ACOSH, pair_acosh},       {QN_OP_ATANH, pair_atanh},
    {QN_OP_POWER, pair_power},       {QN_OP_ATAN2, pair_atan2},
    {QN_OP_COMPLEX, pair_complex},   {QN_OP_REAL, pair_real},
    {QN_OP_IMAG, pair_imag},
};

bool qn_complex_elementwise(qn_complex_node *n) {
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == n->node->op) {
      n->out[0] = rules[i].make(n->in);
      return true;
    }
  return false;
}
