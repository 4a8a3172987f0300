/* Bitwise operations and shifts. Counts at or above the width, and negative ones, shift everything out: zeros, or copies of the sign. */
#include "rows.h"

static qn_sval and_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_and(s, in[0], in[1]);
}
static int64_t and_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] & x[1];
}
static uint64_t and_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] & x[1];
}
const qn_op_def qn_op_and = {
    .name = "and",
    .doc = "Bits set in both operands; of bools, whether both hold.",
    QN_ROW_ELEMENTWISE(2, QN_D_BITS),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = and_expand,
    .ref_i = and_ref_i,
    .ref_u = and_ref_u,
    QN_ROW_SAMPLE2(-99, 99, 0),
};

static qn_sval or_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_or(s, in[0], in[1]);
}
static int64_t or_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] | x[1];
}
static uint64_t or_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] | x[1];
}
const qn_op_def qn_op_or = {
    .name = "or",
    .doc = "Bits set in either operand; of bools, whether one holds.",
    QN_ROW_ELEMENTWISE(2, QN_D_BITS),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = or_expand,
    .ref_i = or_ref_i,
    .ref_u = or_ref_u,
    QN_ROW_SAMPLE2(-99, 99, 0),
};

static qn_sval xor_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  (void)attr;
  return qs_xor(s, in[0], in[1]);
}
static int64_t xor_ref_i(const int64_t *x, int bits) {
  (void)bits;
  return x[0] ^ x[1];
}
static uint64_t xor_ref_u(const uint64_t *x, int bits) {
  (void)bits;
  return x[0] ^ x[1];
}
const qn_op_def qn_op_xor = {
    .name = "xor",
    .doc = "Bits set in one operand alone; of bools, whether they differ.",
    QN_ROW_ELEMENTWISE(2, QN_D_BITS),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = xor_expand,
    .ref_i = xor_ref_i,
    .ref_u = xor_ref_u,
    QN_ROW_SAMPLE2(-99, 99, 0),
};

/* ---- shifts ---- */
static uint64_t low_bits(uint64_t x, int bits) { return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1); }

static uint64_t left_ref_u(const uint64_t *x, int bits) { return x[1] >= (uint64_t)bits ? 0 : x[0] << x[1]; }
static int64_t left_ref_i(const int64_t *x, int bits) {
  uint64_t u[2] = {(uint64_t)x[0], (uint64_t)x[1]}; /* a negative count becomes a large one */
  return (int64_t)left_ref_u(u, bits);
}
const qn_op_def qn_op_shift_left = {
    .name = "shift_left",
    .doc = "Bits of the first operand moved up by the second's count.",
    QN_ROW_ELEMENTWISE(2, QN_D_INT),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = qn_expand_shift_left,
    .ref_i = left_ref_i,
    .ref_u = left_ref_u,
    QN_ROW_SAMPLE2(-70, 70, 0),
};

static uint64_t logical_ref_u(const uint64_t *x, int bits) {
  return x[1] >= (uint64_t)bits ? 0 : low_bits(x[0], bits) >> x[1];
}
static int64_t logical_ref_i(const int64_t *x, int bits) {
  uint64_t u[2] = {(uint64_t)x[0], (uint64_t)x[1]};
  return (int64_t)logical_ref_u(u, bits);
}
const qn_op_def qn_op_shift_right_logical = {
    .name = "shift_right_logical",
    .doc = "Bits of the first operand moved down by the second's count; zeros come in.",
    QN_ROW_ELEMENTWISE(2, QN_D_INT),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = qn_expand_shift_right_logical,
    .ref_i = logical_ref_i,
    .ref_u = logical_ref_u,
    QN_ROW_SAMPLE2(-70, 70, 0),
};

static int64_t arithmetic_ref_i(const int64_t *x, int bits) {
  int64_t count = x[1] < 0 || x[1] >= bits ? bits - 1 : x[1];
  return x[0] < 0 ? ~(~x[0] >> count) : x[0] >> count;
}
static uint64_t arithmetic_ref_u(const uint64_t *x, int bits) {
  bool negative = (x[0] >> (bits - 1) & 1) != 0;
  int64_t i[2] = {negative ? (int64_t)(x[0] | ~low_bits(UINT64_MAX, bits)) : (int64_t)x[0],
                  x[1] >= (uint64_t)bits ? -1 : (int64_t)x[1]};
  return (uint64_t)arithmetic_ref_i(i, bits);
}
const qn_op_def qn_op_shift_right_arithmetic = {
    .name = "shift_right_arithmetic",
    .doc = "Bits of the first operand moved down by the second's count; copies of the highest bit come in.",
    QN_ROW_ELEMENTWISE(2, QN_D_INT),
    .no_grad = QN_NO_GRAD_BITS,
    .expand = qn_expand_shift_right_arithmetic,
    .ref_i = arithmetic_ref_i,
    .ref_u = arithmetic_ref_u,
    QN_ROW_SAMPLE2(-70, 70, 0),
};
