/* The closed set of scalar operations that every device executes the same way, and the sink that op rows lower into.
 *
 * An op row's `.expand` turns one element of the graph's operation into these. A value is a scalar or a vector of lanes: expansions
 * never look at the lane count, so the same code serves both. There is no transcendental function, no min, max or sign here: drivers'
 * own are wrong, so those are spelt with compare and select (see docs/numerics.md). Unless said otherwise operands and result have one dtype. */
#ifndef QUERN_SCALAR_H
#define QUERN_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quern/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_sop {
  QN_S_CONST, /* imm: the bits of the value in its dtype, zero-extended (i8..i64 sign bits cut to width) */
  QN_S_ADD,   /* float: one rounding; integer: wraps */
  QN_S_SUB,
  QN_S_MUL,   /* never contracted with a following add */
  QN_S_DIV,   /* float only, correctly rounded */
  QN_S_FMA,   /* float only, a*b+c with one rounding (f32, f64) */
  QN_S_NEG,   /* float: flips the sign bit, of NaN too; integer: wraps */
  QN_S_ABS,   /* float only: clears the sign bit */
  QN_S_SQRT,  /* float only, correctly rounded; negative gives NaN */
  QN_S_FLOOR, /* float only, exact */
  QN_S_CEIL,
  QN_S_TRUNC,
  QN_S_RINT,  /* float only: to nearest, ties to even */
  QN_S_IDIV,  /* integer, truncating; the expansion guarantees divisor != 0 and no MIN / -1 */
  QN_S_IREM,  /* likewise; sign of the dividend */
  QN_S_MULHI, /* u32, i32 (and u64 where no device emulates): upper half of the product */
  QN_S_AND,   /* integers and bool */
  QN_S_OR,
  QN_S_XOR,
  QN_S_NOT,
  QN_S_SHL, /* integers; the expansion guarantees 0 <= count < width. Count has the operand's dtype */
  QN_S_SHR, /* arithmetic for signed, logical for unsigned dtypes */
  QN_S_EQ,  /* compares: operands of one dtype, result bool. Float: ordered but NE, which is true for NaN */
  QN_S_NE,
  QN_S_LT,
  QN_S_LE,
  QN_S_SELECT,  /* a: bool, b if true, c if false */
  QN_S_CONVERT, /* result dtype differs from operand's. int -> int: wraps or extends by the operand's sign; bool -> 0/1;
                   int -> float: nearest even; float -> int: truncates, the expansion guarantees the range and no NaN;
                   float -> float: nearest even, overflow to infinity, NaN stays NaN. To bool: not allowed (use NE 0) */
  QN_S_BITCAST, /* same width */
  QN_S_POPCNT,  /* u32, u64 and narrower unsigned */
  QN_S_CLZ,     /* unsigned; width for 0 */
  QN_S_COUNT
} qn_sop;

typedef struct qn_sval {
  uint32_t id; /* 0: none */
} qn_sval;

/* Where an expansion writes. The kernel builder is one sink, the host evaluator (constant folding, sweeps) another.
 * Sinks fold constants and reuse equal values, so expansions need not care about either. */
typedef struct qn_sink qn_sink;
struct qn_sink {
  qn_sval (*emit)(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm);
  qn_dtype (*dtype)(const qn_sink *s, qn_sval v);
};

/* ---- shorthands; names follow the enum ---- */
qn_sval qs_const(qn_sink *s, qn_dtype t, double x); /* rounds x to t; integers must be exact in double */
qn_sval qs_bits(qn_sink *s, qn_dtype t, uint64_t bits);
qn_sval qs_add(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_sub(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_mul(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_div(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_fma(qn_sink *s, qn_sval a, qn_sval b, qn_sval c);
qn_sval qs_neg(qn_sink *s, qn_sval a);
qn_sval qs_abs(qn_sink *s, qn_sval a);
qn_sval qs_sqrt(qn_sink *s, qn_sval a);
qn_sval qs_floor(qn_sink *s, qn_sval a);
qn_sval qs_ceil(qn_sink *s, qn_sval a);
qn_sval qs_trunc(qn_sink *s, qn_sval a);
qn_sval qs_rint(qn_sink *s, qn_sval a);
qn_sval qs_idiv(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_irem(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_mulhi(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_and(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_or(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_xor(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_not(qn_sink *s, qn_sval a);
qn_sval qs_shl(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_shr(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_eq(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_ne(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_lt(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_le(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_gt(qn_sink *s, qn_sval a, qn_sval b); /* lt with operands swapped */
qn_sval qs_ge(qn_sink *s, qn_sval a, qn_sval b);
qn_sval qs_select(qn_sink *s, qn_sval pred, qn_sval on_true, qn_sval on_false);
qn_sval qs_convert(qn_sink *s, qn_dtype to, qn_sval a); /* a itself when it has the dtype already */
qn_sval qs_bitcast(qn_sink *s, qn_dtype to, qn_sval a);
qn_sval qs_popcnt(qn_sink *s, qn_sval a);
qn_sval qs_clz(qn_sink *s, qn_sval a);

/* Semantics of one scalar operation on the host, bit for bit what devices must do (the interpreter and folding use it).
 * Values are bit patterns in the low bits, as QN_S_CONST's imm. `operand` is the dtype of the operands (of in[1] for SELECT). */
uint64_t qn_scalar_eval(qn_sop op, qn_dtype result, qn_dtype operand, const uint64_t *in);
const char *qn_sop_name(qn_sop op);
int qn_sop_arity(qn_sop op);

/* A host sink: runs an expansion at once. Values are numbers, kept in a growing table. */
typedef struct qn_host_sink {
  qn_sink base;
  uint64_t *bits;
  uint8_t *dtypes;
  uint32_t count, capacity;
  bool failed;
} qn_host_sink;
void qn_host_sink_init(qn_host_sink *h);
qn_sval qn_host_sink_value(qn_host_sink *h, qn_dtype t, uint64_t bits);
uint64_t qn_host_sink_bits(const qn_host_sink *h, qn_sval v);
void qn_host_sink_clear(qn_host_sink *h); /* forgets values, keeps memory */
void qn_host_sink_free(qn_host_sink *h);

/* A recording sink: notes an expansion once and runs it over arrays many times (sweeps, folding of large constants). It folds constants
 * and reuses equal values as kernels do, so `qn_host_program_ops` is the cost of the expansion. Use: init; input for each operand;
 * expand into &p->base; finish with the result; run; free. Not thread-safe while recording; `run` may be called from many threads. */
typedef struct qn_host_instr qn_host_instr;
typedef struct qn_host_program {
  qn_sink base;
  qn_host_instr *code; /* value id - 1 */
  uint32_t *table;     /* hash of values, open addressing */
  uint32_t *order;     /* what finish found live, in order of evaluation */
  uint32_t count, capacity, table_size, order_count;
  uint32_t inputs, result, registers;
  bool failed;
} qn_host_program;
void qn_host_program_init(qn_host_program *p);
qn_sval qn_host_program_input(qn_host_program *p, qn_dtype t);
bool qn_host_program_finish(qn_host_program *p, qn_sval result); /* false: out of memory or a malformed expansion */
uint32_t qn_host_program_ops(const qn_host_program *p);          /* live operations, constants and inputs not counted */
/* Arrays hold elements as in memory (bool: one byte). false when memory is short. */
bool qn_host_program_run(const qn_host_program *p, const void *const *in, void *out, size_t n);
void qn_host_program_free(qn_host_program *p);

/* An element of an operation in scalar operations: `in` are operand elements, `attr` is the op's attribute record (NULL where it
 * has none). Narrow floats (f16, bf16) arrive converted to f32 by the caller, and the result is rounded back by the caller, so rows
 * see f32, f64, integers and bool only. */
typedef qn_sval (*qn_expand_fn)(qn_sink *s, const qn_sval *in, const void *attr);

/* Library of expansions (runtime/graph/ops/expand_*.c). Domain: f32 and f64 by the dtype of in[0]; error bounds in docs/numerics.md.
 * All of IEEE's corners are kept: NaN in gives NaN out, signed zeros and infinities as C99 Annex F says for the function of that name. */
qn_sval qn_expand_exp(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_expm1(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_log(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_log1p(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_sin(qn_sink *s, const qn_sval *in,
                      const void *attr); /* full range: exact (Payne-Hanek or equivalent) reduction */
qn_sval qn_expand_cos(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_tan(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_tanh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_logistic(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_cbrt(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_rsqrt(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_power(qn_sink *s, const qn_sval *in,
                        const void *attr); /* C99 pow; integers: StableHLO's integer power */
qn_sval qn_expand_atan2(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_remainder(qn_sink *s, const qn_sval *in,
                            const void *attr); /* float: C fmod, exact; integers: x rem 0 = x, MIN rem -1 = 0 */
qn_sval qn_expand_divide(qn_sink *s, const qn_sval *in,
                         const void *attr); /* float: DIV; integers: x/0 = all bits set, MIN/-1 = MIN */
qn_sval qn_expand_asin(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_acos(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_atan(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_sinh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_cosh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_asinh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_acosh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_atanh(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_erf(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_erfc(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_erf_inv(qn_sink *s, const qn_sval *in,
                          const void *attr); /* f32: JAX's polynomial (Giles), so that normal samples agree */
qn_sval qn_expand_lgamma(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_digamma(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_bessel_i1e(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_polygamma(qn_sink *s, const qn_sval *in, const void *attr); /* in: m, x */
qn_sval qn_expand_zeta(qn_sink *s, const qn_sval *in, const void *attr);      /* Hurwitz: x, q */
qn_sval qn_expand_next_after(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_maximum(qn_sink *s, const qn_sval *in,
                          const void *attr); /* NaN wins; +0 above -0; bool: or; integers */
qn_sval qn_expand_minimum(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_sign(qn_sink *s, const qn_sval *in, const void *attr); /* NaN -> NaN, -0 -> -0; integers -1, 0, 1 */
qn_sval qn_expand_abs(qn_sink *s, const qn_sval *in, const void *attr);  /* integers wrap at MIN */
qn_sval qn_expand_is_finite(qn_sink *s, const qn_sval *in, const void *attr); /* by bits; result bool */
qn_sval qn_expand_round_afz(qn_sink *s, const qn_sval *in, const void *attr); /* to nearest, ties away from zero */
qn_sval qn_expand_clamp(qn_sink *s, const qn_sval *in,
                        const void *attr); /* min, x, max: minimum(maximum(x, min), max) */
qn_sval qn_expand_shift_left(qn_sink *s, const qn_sval *in,
                             const void *attr); /* over-wide and negative counts shift everything out */
qn_sval qn_expand_shift_right_logical(qn_sink *s, const qn_sval *in, const void *attr);
qn_sval qn_expand_shift_right_arithmetic(qn_sink *s, const qn_sval *in, const void *attr);
/* Saturating StableHLO convert between any two dtypes but f16/bf16 (those pass through f32): float -> int saturates, NaN -> 0;
 * to bool: != 0. Rounding to f16 and bf16 is QN_S_CONVERT. */
qn_sval qn_expand_convert(qn_sink *s, qn_dtype to, qn_sval x);
/* Rounds an f32/f64 value to a format of that many exponent and mantissa bits (StableHLO reduce_precision). */
qn_sval qn_expand_reduce_precision(qn_sink *s, qn_sval x, int exponent_bits, int mantissa_bits);
/* Comparison by IEEE total order, as an integer compare on bits (StableHLO TOTALORDER): a value whose order is that of floats. */
qn_sval qn_expand_total_order_key(qn_sink *s, qn_sval x);

#ifdef __cplusplus
}
#endif
#endif
