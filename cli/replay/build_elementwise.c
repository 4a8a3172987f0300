/* Elementwise operations: everything unary and binary by the operation's own name, the rest with its attributes. */
#include <stdlib.h>
#include <string.h>

#include "quern/op.h"
#include "quern/ops.h"
#include "replay.h"

#define X b->in[0]
#define Y b->in[1]

static void by_name(replay_build *b) {
  b->out[0] = qn_graph_add(b->g, qn_op_find(b->op), b->in, b->in_count, NULL, NULL, 0, QN_HERE);
}

/* Recorded with operands of one shape, so that the builder's broadcasting has nothing to do. */
static void compare(replay_build *b) {
  static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  static const char *const types[] = {"", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
  const char *direction = qn_replay_text(b->attrs, "comparison_direction"),
             *type = qn_replay_text(b->attrs, "compare_type");
  int d = -1, t = 0;
  for (int i = 0; i < 6; i++)
    d = strcmp(directions[i], direction) == 0 ? i : d;
  for (int i = 1; i < 5; i++)
    t = strcmp(types[i], type) == 0 ? i : t;
  if (d < 0)
    (void)qn_replay_not_built(b, "comparison_direction");
  else
    b->out[0] = qn_compare(X, Y, (qn_compare_direction)d, (qn_compare_type)t);
}

static void convert(replay_build *b) { b->out[0] = qn_convert(X, qn_dtype_parse(qn_replay_text(b->attrs, "dtype"))); }
static void bitcast_convert(replay_build *b) {
  b->out[0] = qn_bitcast_convert(X, qn_dtype_parse(qn_replay_text(b->attrs, "dtype")));
}

static void reduce_precision(replay_build *b) {
  b->out[0] = qn_reduce_precision(X, (int)qn_replay_number(b->attrs, "exponent_bits", 0),
                                  (int)qn_replay_number(b->attrs, "mantissa_bits", 0));
}

static void select_op(replay_build *b) { b->out[0] = qn_select(X, Y, b->in[2]); }
static void clamp(replay_build *b) { b->out[0] = qn_clamp(X, Y, b->in[2]); }

/* x to a whole power by squaring, as lax.integer_power. */
static void integer_power(replay_build *b) {
  int n = (int)qn_replay_number(b->attrs, "exponent", 1);
  qn_val power = X, y = QN_NULL_VAL;
  for (unsigned left = (unsigned)abs(n); left; left >>= 1) {
    if (left & 1)
      y = qn_val_ok(y) ? qn_mul(y, power) : power;
    if (left > 1)
      power = qn_mul(power, power);
  }
  if (n == 0)
    y = qn_full(b->g, *qn_val_type(X), 1);
  b->out[0] = n < 0 ? qn_div(qn_like(y, 1), y) : y;
}

static void binary_broadcast(replay_build *b) {
  qn_dims shape = qn_replay_dims(b->attrs, "result_shape"), lhs = qn_replay_dims(b->attrs, "lhs_broadcast_dimensions"),
          rhs = qn_replay_dims(b->attrs, "rhs_broadcast_dimensions");
  qn_val operands[2] = {qn_broadcast_in_dim(X, shape.n, shape.d, lhs.d),
                        qn_broadcast_in_dim(Y, shape.n, shape.d, rhs.d)};
  b->out[0] = qn_graph_add(b->g, qn_op_find(qn_replay_text(b->attrs, "binary")), operands, 2, NULL, NULL, 0, QN_HERE);
}

/* ---- library functions ---- */

static void floor_divide(replay_build *b) {
  qn_val zero = qn_like(X, 0), one = qn_like(X, 1);
  qn_dtype t = qn_val_type(X)->dtype;
  if (qn_dtype_is_unsigned(t)) {
    b->out[0] = qn_div(X, Y);
    return;
  }
  qn_val rest = qn_rem(X, Y), mixed;
  if (qn_dtype_is_int(t)) {
    mixed = qn_and(qn_ne(qn_sign(X), qn_sign(Y)), qn_ne(rest, zero));
    qn_val q = qn_div(X, Y);
    b->out[0] = qn_select(mixed, qn_sub(q, one), q);
    return;
  }
  mixed = qn_and(qn_ne(rest, zero), qn_ne(qn_sign(Y), qn_sign(rest)));
  qn_val q = qn_div(qn_sub(X, rest), Y);
  b->out[0] = qn_round_afz(qn_select(mixed, qn_sub(q, one), q));
}

static void mod(replay_build *b) {
  qn_val zero = qn_like(X, 0), rest = qn_rem(X, Y);
  qn_val mixed = qn_and(qn_ne(qn_lt(rest, zero), qn_lt(Y, zero)), qn_ne(rest, zero));
  b->out[0] = qn_select(mixed, qn_add(rest, Y), rest);
}

static void hypotenuse(replay_build *b) {
  qn_val x = qn_abs(X), y = qn_abs(Y), zero = qn_like(x, 0);
  qn_val most = qn_max(x, y), least = qn_min(x, y), none = qn_eq(most, zero);
  qn_val ratio = qn_div(least, qn_select(none, qn_like(x, 1), most));
  b->out[0] = qn_select(none, most, qn_mul(most, qn_sqrt(qn_add(qn_like(x, 1), qn_mul(ratio, ratio)))));
}

/* log(e^x + e^y); infinities of one sign give themselves. */
static void log_add_exp(replay_build *b) {
  qn_val delta = qn_sub(X, Y), nan = qn_ne(delta, delta);
  qn_val y = qn_add(qn_max(X, Y), qn_log1p(qn_exp(qn_neg(qn_abs(delta)))));
  b->out[0] = qn_select(nan, qn_add(X, Y), y);
}

#undef X
#undef Y

const replay_op qn_replay_elementwise[] = {
    {"abs", by_name},
    {"cbrt", by_name},
    {"ceil", by_name},
    {"count_leading_zeros", by_name},
    {"cosine", by_name},
    {"exponential", by_name},
    {"exponential_minus_one", by_name},
    {"floor", by_name},
    {"is_finite", by_name},
    {"log", by_name},
    {"log_plus_one", by_name},
    {"logistic", by_name},
    {"negate", by_name},
    {"not", by_name},
    {"popcnt", by_name},
    {"round_nearest_afz", by_name},
    {"round_nearest_even", by_name},
    {"rsqrt", by_name},
    {"sign", by_name},
    {"sine", by_name},
    {"sqrt", by_name},
    {"tan", by_name},
    {"tanh", by_name},
    {"chlo.acos", by_name},
    {"chlo.acosh", by_name},
    {"chlo.asin", by_name},
    {"chlo.asinh", by_name},
    {"chlo.atan", by_name},
    {"chlo.atanh", by_name},
    {"chlo.bessel_i1e", by_name},
    {"chlo.cosh", by_name},
    {"chlo.digamma", by_name},
    {"chlo.erf", by_name},
    {"chlo.erf_inv", by_name},
    {"chlo.erfc", by_name},
    {"chlo.lgamma", by_name},
    {"chlo.sinh", by_name},
    {"chlo.square", by_name},
    {"add", by_name},
    {"and", by_name},
    {"atan2", by_name},
    {"divide", by_name},
    {"maximum", by_name},
    {"minimum", by_name},
    {"multiply", by_name},
    {"chlo.next_after", by_name},
    {"or", by_name},
    {"chlo.polygamma", by_name},
    {"power", by_name},
    {"remainder", by_name},
    {"shift_left", by_name},
    {"shift_right_arithmetic", by_name},
    {"shift_right_logical", by_name},
    {"subtract", by_name},
    {"xor", by_name},
    {"chlo.zeta", by_name},
    {"compare", compare},
    {"convert", convert},
    {"bitcast_convert", bitcast_convert},
    {"reduce_precision", reduce_precision},
    {"select", select_op},
    {"clamp", clamp},
    {"integer_power", integer_power},
    {"binary_broadcast", binary_broadcast},
    {"jnp.floor_divide", floor_divide},
    {"jnp.mod", mod},
    {"jnp.hypot", hypotenuse},
    {"jnp.logaddexp", log_add_exp},
    {"jnp.where", select_op},
    {NULL, NULL},
};
