/* Rules of arithmetic. Bits are kept: x+0 is x only where x has no -0 to lose, and nothing is reassociated. */
#include "rewrite.h"

#include <math.h>

static qn_val first(const qn_match *m) { return m->v[0]; }
static qn_val exact_first(const qn_match *m) { return qn_value_is_exact(m->v[0]) ? m->v[0] : QN_NULL_VAL; }
static qn_val exact_zero(const qn_match *m) { return qn_value_is_exact(m->v[0]) ? qn_match_full(m, 0) : QN_NULL_VAL; }
static qn_val inner(const qn_match *m) { return qn_match_operand(m, 0, 0); } /* the first operand of the root */

static qn_val subtract(const qn_match *m) { return qn_match_add(m, QN_OP_SUBTRACT, m->v, 2, NULL, NULL); }
static qn_val add(const qn_match *m) { return qn_match_add(m, QN_OP_ADD, m->v, 2, NULL, NULL); }
static qn_val absolute(const qn_match *m) { return qn_match_add(m, QN_OP_ABS, m->v, 1, NULL, NULL); }

static qn_val same_type(const qn_match *m) {
  return qn_type_equal(qn_val_type(m->v[0]), qn_match_type(m)) ? m->v[0] : QN_NULL_VAL;
}

/* Every value of `from` is one of `to`. */
static bool widens(qn_dtype from, qn_dtype to) {
  size_t a = qn_dtype_size(from), b = qn_dtype_size(to);
  if (from == QN_BOOL)
    return qn_dtype_is_int(to) || qn_dtype_is_float(to);
  if (qn_dtype_is_float(from) && qn_dtype_is_float(to))
    return a < b;
  return a < b &&
         ((qn_dtype_is_signed(from) && qn_dtype_is_signed(to)) || (qn_dtype_is_unsigned(from) && qn_dtype_is_int(to)));
}

/* x to a wider dtype and on: the first step changes no value, so it can go, where the second looks at the value alone. Between
 * integers and floats it may wrap in one case and saturate in the other, so these stay; a bool is 0 or 1 everywhere. */
static qn_val convert_twice(const qn_match *m) {
  qn_dtype from = qn_val_type(m->v[0])->dtype, mid = qn_val_type(inner(m))->dtype, to = qn_match_type(m)->dtype;
  if (!widens(from, mid) || (qn_dtype_is_float(from) != qn_dtype_is_float(mid) && from != QN_BOOL))
    return QN_NULL_VAL;
  if (from == to)
    return m->v[0];
  return qn_match_add(m, QN_OP_CONVERT, m->v, 1, NULL, qn_match_type(m));
}

static qn_val bitcast_twice(const qn_match *m) {
  size_t a = qn_dtype_size(qn_val_type(m->v[0])->dtype), b = qn_dtype_size(qn_val_type(inner(m))->dtype);
  if (a != b || a != qn_dtype_size(qn_match_type(m)->dtype))
    return QN_NULL_VAL;
  if (qn_type_equal(qn_val_type(m->v[0]), qn_match_type(m)))
    return m->v[0];
  return qn_match_add(m, QN_OP_BITCAST_CONVERT, m->v, 1, NULL, qn_match_type(m));
}

/* stop_gradient and the like: identities that only transforms care for. */
static const qn_rewrite lower[] = {
    {"stop_gradient(x) -> x", {P_(STOP_GRADIENT), V_(0)}, first},
    {"checkpoint_name(x) -> x", {P_(CHECKPOINT_NAME), V_(0)}, first},
};
const qn_rewrites qn_rules_lower = {lower, sizeof lower / sizeof *lower};

static const qn_rewrite arith[] = {
    {"x+0 -> x", {P_(ADD), V_(0), N_(0.0)}, exact_first},
    {"0+x -> x", {P_(ADD), N_(0.0), V_(0)}, exact_first},
    {"x+(-0.0) -> x", {P_(ADD), V_(0), N_(-0.0)}, first},
    {"(-0.0)+x -> x", {P_(ADD), N_(-0.0), V_(0)}, first},
    {"x+(-y) -> x-y", {P_(ADD), V_(0), P_(NEGATE), V_(1)}, subtract},
    {"x-0 -> x", {P_(SUBTRACT), V_(0), N_(0.0)}, first},
    {"x-x -> 0", {P_(SUBTRACT), V_(0), V_(0)}, exact_zero},
    {"x-(-y) -> x+y", {P_(SUBTRACT), V_(0), P_(NEGATE), V_(1)}, add},
    {"x*1 -> x", {P_(MULTIPLY), V_(0), N_(1)}, first},
    {"1*x -> x", {P_(MULTIPLY), N_(1), V_(0)}, first},
    {"x*0 -> 0", {P_(MULTIPLY), V_(0), N_(0.0)}, exact_zero},
    {"0*x -> 0", {P_(MULTIPLY), N_(0.0), V_(0)}, exact_zero},
    {"x/1 -> x", {P_(DIVIDE), V_(0), N_(1)}, first},
    {"-(-x) -> x", {P_(NEGATE), P_(NEGATE), V_(0)}, first},
    {"abs(abs(x)) -> abs(x)", {P_(ABS), P_(ABS), V_(0)}, inner},
    {"abs(-x) -> abs(x)", {P_(ABS), P_(NEGATE), V_(0)}, absolute},
    {"floor(floor(x)) -> floor(x)", {P_(FLOOR), P_(FLOOR), V_(0)}, inner},
    {"ceil(ceil(x)) -> ceil(x)", {P_(CEIL), P_(CEIL), V_(0)}, inner},
    {"round(round(x)) -> round(x)", {P_(ROUND_NEAREST_EVEN), P_(ROUND_NEAREST_EVEN), V_(0)}, inner},
    {"sign(sign(x)) -> sign(x)", {P_(SIGN), P_(SIGN), V_(0)}, inner},
    {"max(x,x) -> x", {P_(MAXIMUM), V_(0), V_(0)}, first},
    {"min(x,x) -> x", {P_(MINIMUM), V_(0), V_(0)}, first},
    {"max(x,-inf) -> x", {P_(MAXIMUM), V_(0), N_(-INFINITY)}, first},
    {"max(-inf,x) -> x", {P_(MAXIMUM), N_(-INFINITY), V_(0)}, first},
    {"min(x,inf) -> x", {P_(MINIMUM), V_(0), N_(INFINITY)}, first},
    {"min(inf,x) -> x", {P_(MINIMUM), N_(INFINITY), V_(0)}, first},
    {"convert to the same dtype -> x", {P_(CONVERT), V_(0)}, same_type},
    {"convert(widen(x)) -> convert(x)", {P_(CONVERT), P_(CONVERT), V_(0)}, convert_twice},
    {"bitcast to the same dtype -> x", {P_(BITCAST_CONVERT), V_(0)}, same_type},
    {"bitcast(bitcast(x)) -> bitcast(x)", {P_(BITCAST_CONVERT), P_(BITCAST_CONVERT), V_(0)}, bitcast_twice},
};
const qn_rewrites qn_rules_arith = {arith, sizeof arith / sizeof *arith};
