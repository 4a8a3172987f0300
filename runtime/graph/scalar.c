/* Shorthands that write scalar operations into a sink, and the host sink, which evaluates each operation the moment
 * it is emitted. Nothing here knows about accuracy; the arithmetic itself is in scalar_eval.c. */
#include "quern/scalar.h"

#include <stdlib.h>
#include <string.h>

static const char *const sop_names[QN_S_COUNT] = {
    [QN_S_CONST] = "const",     [QN_S_ADD] = "add",       [QN_S_SUB] = "sub",       [QN_S_MUL] = "mul",
    [QN_S_DIV] = "div",         [QN_S_FMA] = "fma",       [QN_S_NEG] = "neg",       [QN_S_ABS] = "abs",
    [QN_S_SQRT] = "sqrt",       [QN_S_FLOOR] = "floor",   [QN_S_CEIL] = "ceil",     [QN_S_TRUNC] = "trunc",
    [QN_S_RINT] = "rint",       [QN_S_IDIV] = "idiv",     [QN_S_IREM] = "irem",     [QN_S_MULHI] = "mulhi",
    [QN_S_AND] = "and",         [QN_S_OR] = "or",         [QN_S_XOR] = "xor",       [QN_S_NOT] = "not",
    [QN_S_SHL] = "shl",         [QN_S_SHR] = "shr",       [QN_S_EQ] = "eq",         [QN_S_NE] = "ne",
    [QN_S_LT] = "lt",           [QN_S_LE] = "le",         [QN_S_SELECT] = "select", [QN_S_CONVERT] = "convert",
    [QN_S_BITCAST] = "bitcast", [QN_S_POPCNT] = "popcnt", [QN_S_CLZ] = "clz",
};

static const uint8_t sop_arities[QN_S_COUNT] = {
    [QN_S_CONST] = 0, [QN_S_ADD] = 2,  [QN_S_SUB] = 2,    [QN_S_MUL] = 2,     [QN_S_DIV] = 2,     [QN_S_FMA] = 3,
    [QN_S_NEG] = 1,   [QN_S_ABS] = 1,  [QN_S_SQRT] = 1,   [QN_S_FLOOR] = 1,   [QN_S_CEIL] = 1,    [QN_S_TRUNC] = 1,
    [QN_S_RINT] = 1,  [QN_S_IDIV] = 2, [QN_S_IREM] = 2,   [QN_S_MULHI] = 2,   [QN_S_AND] = 2,     [QN_S_OR] = 2,
    [QN_S_XOR] = 2,   [QN_S_NOT] = 1,  [QN_S_SHL] = 2,    [QN_S_SHR] = 2,     [QN_S_EQ] = 2,      [QN_S_NE] = 2,
    [QN_S_LT] = 2,    [QN_S_LE] = 2,   [QN_S_SELECT] = 3, [QN_S_CONVERT] = 1, [QN_S_BITCAST] = 1, [QN_S_POPCNT] = 1,
    [QN_S_CLZ] = 1,
};

const char *qn_sop_name(qn_sop op) { return (unsigned)op < QN_S_COUNT ? sop_names[op] : "?"; }

int qn_sop_arity(qn_sop op) { return (unsigned)op < QN_S_COUNT ? sop_arities[op] : 0; }

static uint64_t width_mask(qn_dtype t) {
  if (t == QN_BOOL)
    return 1;
  size_t bytes = qn_dtype_size(t);
  return bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
}

qn_sval qs_bits(qn_sink *s, qn_dtype t, uint64_t bits) {
  return s->emit(s, QN_S_CONST, t, NULL, 0, bits & width_mask(t));
}

qn_sval qs_const(qn_sink *s, qn_dtype t, double x) {
  uint64_t bits;
  if (t == QN_BOOL) {
    bits = x != 0;
  } else if (qn_dtype_is_float(t)) {
    memcpy(&bits, &x, sizeof bits);
    if (t != QN_F64)
      bits = qn_scalar_eval(QN_S_CONVERT, t, QN_F64, &bits);
  } else {
    bits = x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
  }
  return qs_bits(s, t, bits);
}

static qn_sval emit1(qn_sink *s, qn_sop op, qn_sval a) {
  qn_dtype t = s->dtype(s, a);
  return s->emit(s, op, t, &a, 1, 0);
}

static qn_sval emit2(qn_sink *s, qn_sop op, qn_sval a, qn_sval b) {
  qn_sval in[2] = {a, b};
  qn_dtype t = s->dtype(s, a);
  return s->emit(s, op, t, in, 2, 0);
}

static qn_sval compare(qn_sink *s, qn_sop op, qn_sval a, qn_sval b) {
  qn_sval in[2] = {a, b};
  return s->emit(s, op, QN_BOOL, in, 2, 0);
}

qn_sval qs_add(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_ADD, a, b); }
qn_sval qs_sub(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_SUB, a, b); }
qn_sval qs_mul(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_MUL, a, b); }
qn_sval qs_div(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_DIV, a, b); }
qn_sval qs_neg(qn_sink *s, qn_sval a) { return emit1(s, QN_S_NEG, a); }
qn_sval qs_abs(qn_sink *s, qn_sval a) { return emit1(s, QN_S_ABS, a); }
qn_sval qs_sqrt(qn_sink *s, qn_sval a) { return emit1(s, QN_S_SQRT, a); }
qn_sval qs_floor(qn_sink *s, qn_sval a) { return emit1(s, QN_S_FLOOR, a); }
qn_sval qs_ceil(qn_sink *s, qn_sval a) { return emit1(s, QN_S_CEIL, a); }
qn_sval qs_trunc(qn_sink *s, qn_sval a) { return emit1(s, QN_S_TRUNC, a); }
qn_sval qs_rint(qn_sink *s, qn_sval a) { return emit1(s, QN_S_RINT, a); }
qn_sval qs_idiv(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_IDIV, a, b); }
qn_sval qs_irem(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_IREM, a, b); }
qn_sval qs_mulhi(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_MULHI, a, b); }
qn_sval qs_and(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_AND, a, b); }
qn_sval qs_or(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_OR, a, b); }
qn_sval qs_xor(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_XOR, a, b); }
qn_sval qs_not(qn_sink *s, qn_sval a) { return emit1(s, QN_S_NOT, a); }
qn_sval qs_shl(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_SHL, a, b); }
qn_sval qs_shr(qn_sink *s, qn_sval a, qn_sval b) { return emit2(s, QN_S_SHR, a, b); }
qn_sval qs_popcnt(qn_sink *s, qn_sval a) { return emit1(s, QN_S_POPCNT, a); }
qn_sval qs_clz(qn_sink *s, qn_sval a) { return emit1(s, QN_S_CLZ, a); }
qn_sval qs_eq(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_EQ, a, b); }
qn_sval qs_ne(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_NE, a, b); }
qn_sval qs_lt(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_LT, a, b); }
qn_sval qs_le(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_LE, a, b); }
qn_sval qs_gt(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_LT, b, a); }
qn_sval qs_ge(qn_sink *s, qn_sval a, qn_sval b) { return compare(s, QN_S_LE, b, a); }

qn_sval qs_fma(qn_sink *s, qn_sval a, qn_sval b, qn_sval c) {
  qn_sval in[3] = {a, b, c};
  qn_dtype t = s->dtype(s, a);
  return s->emit(s, QN_S_FMA, t, in, 3, 0);
}

qn_sval qs_select(qn_sink *s, qn_sval pred, qn_sval on_true, qn_sval on_false) {
  qn_sval in[3] = {pred, on_true, on_false};
  qn_dtype t = s->dtype(s, on_true);
  return s->emit(s, QN_S_SELECT, t, in, 3, 0);
}

qn_sval qs_convert(qn_sink *s, qn_dtype to, qn_sval a) {
  return s->dtype(s, a) == to ? a : s->emit(s, QN_S_CONVERT, to, &a, 1, 0);
}

qn_sval qs_bitcast(qn_sink *s, qn_dtype to, qn_sval a) {
  return s->dtype(s, a) == to ? a : s->emit(s, QN_S_BITCAST, to, &a, 1, 0);
}

/* ---- the host sink ---- */

static qn_sval host_push(qn_host_sink *h, qn_dtype t, uint64_t bits) {
  qn_sval none = {0};
  if (h->count == h->capacity) {
    uint32_t capacity = h->capacity ? 2 * h->capacity : 256;
    uint64_t *grown = realloc(h->bits, capacity * sizeof *grown);
    if (grown)
      h->bits = grown;
    uint8_t *types = realloc(h->dtypes, capacity);
    if (types)
      h->dtypes = types;
    if (!grown || !types) {
      h->failed = true;
      return none;
    }
    h->capacity = capacity;
  }
  h->bits[h->count] = bits;
  h->dtypes[h->count] = (uint8_t)t;
  return (qn_sval){++h->count};
}

static qn_dtype host_dtype(const qn_sink *s, qn_sval v) {
  const qn_host_sink *h = (const qn_host_sink *)s;
  return v.id > 0 && v.id <= h->count ? (qn_dtype)h->dtypes[v.id - 1] : QN_DTYPE_NONE;
}

static qn_sval host_emit(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm) {
  qn_host_sink *h = (qn_host_sink *)s;
  if (op == QN_S_CONST)
    return host_push(h, result, imm);
  uint64_t values[3] = {0};
  bool known = count > 0 && count <= 3;
  for (int i = 0; known && i < count; ++i) {
    known = in[i].id > 0 && in[i].id <= h->count;
    if (known)
      values[i] = h->bits[in[i].id - 1];
  }
  if (!known) {
    h->failed = true;
    return (qn_sval){0};
  }
  qn_dtype operand = host_dtype(s, in[op == QN_S_SELECT ? 1 : 0]);
  return host_push(h, result, qn_scalar_eval(op, result, operand, values));
}

void qn_host_sink_init(qn_host_sink *h) {
  memset(h, 0, sizeof *h);
  h->base.emit = host_emit;
  h->base.dtype = host_dtype;
}

qn_sval qn_host_sink_value(qn_host_sink *h, qn_dtype t, uint64_t bits) { return host_push(h, t, bits & width_mask(t)); }

uint64_t qn_host_sink_bits(const qn_host_sink *h, qn_sval v) {
  return v.id > 0 && v.id <= h->count ? h->bits[v.id - 1] : 0;
}

void qn_host_sink_clear(qn_host_sink *h) {
  h->count = 0;
  h->failed = false;
}

void qn_host_sink_free(qn_host_sink *h) {
  free(h->bits);
  free(h->dtypes);
  qn_host_sink_init(h);
}
