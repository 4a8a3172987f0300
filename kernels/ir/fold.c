/* Folding while building. Constants are computed by the reference evaluator; integer identities keep index arithmetic short. Known ranges
 * (0 .. top, as integers) turn division and remainder by powers of two into shifts and masks and decide comparisons. Float arithmetic is
 * folded only when every operand is known, so that no rounding, zero sign or NaN changes. */
#include "ir.h"

#include <string.h>

#define NO_RANGE UINT64_MAX

static const qn_sval none = {0};

typedef struct operation {
  qn_sop op;
  qn_dtype result, operand; /* operand: of in[1] for SELECT */
  qn_sval in[3];
  int count;
  uint32_t lanes;
  bool known[3]; /* constants, or splats of constants */
  uint64_t bits[3];
} operation;

bool qn_kb_const(const qn_kbuild *b, uint32_t id, uint64_t *out_bits) {
  const qn_kinst *in = kb_inst(b, id);
  if (in->kop == QN_K_SPLAT)
    in = kb_inst(b, in->a);
  if (in->kop != QN_K_SCALAR || in->sop != QN_S_CONST)
    return false;
  *out_bits = in->imm;
  return true;
}

static uint64_t mask_of(qn_dtype t) {
  unsigned w = qn_kdtype_width(t);
  return w >= 64 ? UINT64_MAX : (UINT64_C(1) << w) - 1;
}

/* The largest value that reads the same as signed and unsigned. */
static uint64_t max_of(qn_dtype t) { return qn_dtype_is_signed(t) ? mask_of(t) >> 1 : mask_of(t); }

static uint64_t top_of(const qn_kbuild *b, uint32_t id) { return kb_state(b)->top[id]; }

static bool exact_log2(uint64_t x, unsigned *out_shift) {
  if (x == 0 || (x & (x - 1)))
    return false;
  unsigned n = 0;
  while (x >>= 1)
    ++n;
  *out_shift = n;
  return true;
}

/* ---- ranges ---- */

static uint64_t scalar_range(const qn_kbuild *b, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)in->dtype;
  uint64_t limit = max_of(t), x = in->a ? top_of(b, in->a) : NO_RANGE, y = in->b ? top_of(b, in->b) : NO_RANGE;
  uint64_t c = 0;
  bool known = in->b && qn_kb_const(b, in->b, &c);
  bool both = x != NO_RANGE && y != NO_RANGE;
  switch (in->sop) {
  case QN_S_CONST:
    return in->imm <= limit ? in->imm : NO_RANGE;
  case QN_S_ADD:
    return both && x <= limit && y <= limit - x ? x + y : NO_RANGE;
  case QN_S_MUL:
    return both && (x == 0 || y <= limit / x) ? x * y : NO_RANGE;
  case QN_S_AND:
    return x < y ? x : y;
  case QN_S_OR:
  case QN_S_XOR: {
    uint64_t m = x | y;
    for (unsigned s = 1; s < 64; s <<= 1)
      m |= m >> s;
    return both ? m : NO_RANGE;
  }
  case QN_S_SHL:
    return x != NO_RANGE && known && c < 64 && x <= limit >> c ? x << c : NO_RANGE;
  case QN_S_SHR:
    return x != NO_RANGE && known && c < 64 ? x >> c : x;
  case QN_S_IDIV:
    return x != NO_RANGE && known && c && c <= limit ? x / c : NO_RANGE;
  case QN_S_IREM:
    return x != NO_RANGE && known && c && c <= limit && c - 1 < x ? c - 1 : x;
  case QN_S_SELECT: {
    uint64_t z = top_of(b, in->c);
    return y != NO_RANGE && z != NO_RANGE ? (y > z ? y : z) : NO_RANGE;
  }
  case QN_S_CONVERT:
  case QN_S_BITCAST:
    if (!qn_dtype_is_int(t) ||
        (!qn_dtype_is_int((qn_dtype)kb_inst(b, in->a)->dtype) && kb_inst(b, in->a)->dtype != QN_BOOL))
      return NO_RANGE;
    return x <= limit ? x : NO_RANGE;
  case QN_S_POPCNT:
  case QN_S_CLZ:
    return qn_kdtype_width(t);
  default:
    return NO_RANGE;
  }
}

uint64_t qn_kb_range(const qn_kbuild *b, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)in->dtype;
  uint64_t x = NO_RANGE;
  if (!qn_dtype_is_int(t) && t != QN_BOOL)
    return NO_RANGE;
  switch (in->kop) {
  case QN_K_SCALAR:
    x = scalar_range(b, in);
    break;
  case QN_K_GROUP:
    x = INT32_MAX;
    break;
  case QN_K_ITEM:
    x = b->kernel->items ? b->kernel->items - 1 : 0xffff;
    break;
  case QN_K_IOTA:
    x = in->lanes - 1u;
    break;
  case QN_K_SPLAT:
  case QN_K_EXTRACT:
  case QN_K_LOW:
  case QN_K_HIGH:
    x = top_of(b, in->a);
    break;
  case QN_K_JOIN:
    x = top_of(b, in->a) > top_of(b, in->b) ? top_of(b, in->a) : top_of(b, in->b);
    break;
  case QN_K_LOOP:
    if (top_of(b, in->a) != NO_RANGE || qn_dtype_is_unsigned(t)) {
      uint64_t end = top_of(b, in->b);
      x = end == NO_RANGE ? max_of(t) - 1 : end ? end - 1 : 0;
    }
    break;
  default:
    break;
  }
  /* An unsigned value has a range by its type. */
  return x == NO_RANGE && !qn_dtype_is_signed(t) && qn_kdtype_width(t) < 64 ? mask_of(t) : x;
}

/* ---- identities ---- */

static qn_sval constant(qn_kbuild *b, const operation *o, qn_dtype t, uint64_t bits) {
  return qn_kb_splat(b, qs_bits(&b->sink, t, bits), o->lanes);
}

static qn_sval emit2(qn_kbuild *b, qn_sop op, qn_dtype t, qn_sval x, qn_sval y) {
  qn_sval in[2] = {x, y};
  return qn_kb_emit(&b->sink, op, t, in, 2, 0);
}

/* (x op c1) op c2 -> x op (c1 op c2), for an associative operation. */
static qn_sval reassociate(qn_kbuild *b, const operation *o) {
  const qn_kinst x = *kb_inst(b, o->in[0].id);
  uint64_t c;
  if (!o->known[1] || x.kop != QN_K_SCALAR || x.sop != o->op || !qn_kb_const(b, x.b, &c))
    return none;
  uint64_t two[2] = {c, o->bits[1]};
  uint64_t folded = qn_scalar_eval(o->op, o->result, o->operand, two);
  return emit2(b, o->op, o->result, (qn_sval){x.a}, constant(b, o, o->result, folded));
}

static qn_sval fold_sum(qn_kbuild *b, const operation *o) {
  uint64_t c = o->bits[1];
  if (o->known[1] && c == 0)
    return o->in[0];
  if (o->op == QN_S_SUB) {
    if (o->in[0].id == o->in[1].id)
      return constant(b, o, o->result, 0);
    if (o->known[1] && qn_dtype_is_signed(o->result))
      return emit2(b, QN_S_ADD, o->result, o->in[0], constant(b, o, o->result, 0 - c));
    return none;
  }
  return reassociate(b, o);
}

static qn_sval fold_product(qn_kbuild *b, const operation *o) {
  if (!o->known[1])
    return none;
  if (o->bits[1] == 0)
    return o->in[1];
  return o->bits[1] == 1 ? o->in[0] : reassociate(b, o);
}

static qn_sval fold_bits(qn_kbuild *b, const operation *o) {
  uint64_t all = mask_of(o->result), c = o->bits[1];
  bool same = o->in[0].id == o->in[1].id;
  if (same)
    return o->op == QN_S_XOR ? constant(b, o, o->result, 0) : o->in[0];
  if (!o->known[1])
    return none;
  if (o->op == QN_S_AND) {
    uint64_t top = top_of(b, o->in[0].id);
    if (c == 0)
      return o->in[1];
    if (c == all || (top != NO_RANGE && (c & (c + 1)) == 0 && top <= c))
      return o->in[0];
  } else {
    if (c == 0)
      return o->in[0];
    if (c == all && o->op == QN_S_OR)
      return o->in[1];
    if (c == all)
      return qs_not(&b->sink, o->in[0]);
  }
  return reassociate(b, o);
}

static qn_sval fold_shift(qn_kbuild *b, const operation *o) {
  if (o->known[1] && o->bits[1] == 0)
    return o->in[0];
  if (o->known[0] && o->bits[0] == 0)
    return o->in[0];
  uint64_t top = top_of(b, o->in[0].id);
  if (o->op == QN_S_SHR && o->known[1] && top != NO_RANGE && o->bits[1] < 64 && top >> o->bits[1] == 0)
    return constant(b, o, o->result, 0);
  return none;
}

static qn_sval fold_divide(qn_kbuild *b, const operation *o) {
  bool rem = o->op == QN_S_IREM;
  uint64_t c = o->bits[1], top = top_of(b, o->in[0].id);
  unsigned shift;
  if (!o->known[1] || c == 0)
    return none;
  if (c == 1)
    return rem ? constant(b, o, o->result, 0) : o->in[0];
  if (c > max_of(o->result) || top == NO_RANGE)
    return none;
  if (top < c)
    return rem ? o->in[0] : constant(b, o, o->result, 0);
  if (!exact_log2(c, &shift))
    return none;
  return rem ? emit2(b, QN_S_AND, o->result, o->in[0], constant(b, o, o->result, c - 1))
             : emit2(b, QN_S_SHR, o->result, o->in[0], constant(b, o, o->result, shift));
}

/* x < c, x <= c, c < x, c <= x by what is known of x. */
static qn_sval fold_order(qn_kbuild *b, const operation *o) {
  bool strict = o->op == QN_S_LT;
  if (o->in[0].id == o->in[1].id)
    return constant(b, o, QN_BOOL, !strict);
  int known = o->known[1] ? 1 : o->known[0] ? 0 : -1;
  if (known < 0)
    return none;
  uint64_t top = top_of(b, o->in[1 - known].id), c = o->bits[known];
  if (top == NO_RANGE)
    return none;
  bool negative = c > max_of(o->operand);
  if (known == 1) {
    if (negative || (strict && c == 0))
      return constant(b, o, QN_BOOL, 0);
    return (strict ? top < c : top <= c) ? constant(b, o, QN_BOOL, 1) : none;
  }
  if (negative || (!strict && c == 0))
    return constant(b, o, QN_BOOL, 1);
  return (strict ? c >= top : c > top) ? constant(b, o, QN_BOOL, 0) : none;
}

static qn_sval fold_equal(qn_kbuild *b, const operation *o) {
  bool eq = o->op == QN_S_EQ;
  if (o->in[0].id == o->in[1].id)
    return constant(b, o, QN_BOOL, eq);
  if (!o->known[1])
    return none;
  if (o->operand == QN_BOOL)
    return (o->bits[1] & 1) == (uint64_t)eq ? o->in[0] : qs_not(&b->sink, o->in[0]);
  uint64_t top = top_of(b, o->in[0].id);
  return top != NO_RANGE && o->bits[1] > top ? constant(b, o, QN_BOOL, !eq) : none;
}

/* !(x == y) -> x != y; !(x < y) -> y <= x where there is no NaN; !!x -> x. */
static qn_sval fold_not(qn_kbuild *b, const operation *o) {
  const qn_kinst x = *kb_inst(b, o->in[0].id);
  if (x.kop != QN_K_SCALAR)
    return none;
  qn_sval p = {x.a}, q = {x.b};
  if (x.sop == QN_S_NOT)
    return p;
  if (o->result != QN_BOOL)
    return none;
  if (x.sop == QN_S_EQ || x.sop == QN_S_NE)
    return emit2(b, x.sop == QN_S_EQ ? QN_S_NE : QN_S_EQ, QN_BOOL, p, q);
  if ((x.sop == QN_S_LT || x.sop == QN_S_LE) && !qn_dtype_is_float((qn_dtype)kb_inst(b, x.a)->dtype))
    return emit2(b, x.sop == QN_S_LT ? QN_S_LE : QN_S_LT, QN_BOOL, q, p);
  return none;
}

static qn_sval fold_select(qn_kbuild *b, const operation *o) {
  if (o->known[0])
    return o->bits[0] & 1 ? o->in[1] : o->in[2];
  if (o->in[1].id == o->in[2].id)
    return o->in[1];
  if (o->result == QN_BOOL && o->known[1] && o->known[2])
    return o->bits[1] & 1 ? o->in[0] : qs_not(&b->sink, o->in[0]);
  return none;
}

static qn_sval fold_cast(qn_kbuild *b, const operation *o) {
  if (o->result == o->operand)
    return o->in[0];
  const qn_kinst x = *kb_inst(b, o->in[0].id);
  if (x.kop != QN_K_SCALAR || x.sop != o->op)
    return none;
  qn_dtype from = (qn_dtype)kb_inst(b, x.a)->dtype;
  if (o->op == QN_S_BITCAST)
    return qs_bitcast(&b->sink, o->result, (qn_sval){x.a});
  /* There and back through a type of at least the width loses nothing; widening twice the same way is widening once. */
  if (!qn_dtype_is_int(from) || !qn_dtype_is_int(o->operand) || !qn_dtype_is_int(o->result))
    return none;
  unsigned w0 = qn_kdtype_width(from), w1 = qn_kdtype_width(o->operand), w2 = qn_kdtype_width(o->result);
  bool fits = w2 <= w1 || (w0 < w1 && qn_dtype_is_signed(from) == qn_dtype_is_signed(o->operand));
  return fits ? qs_convert(&b->sink, o->result, (qn_sval){x.a}) : none;
}

typedef qn_sval (*fold_fn)(qn_kbuild *b, const operation *o);
typedef struct fold_rule {
  fold_fn fn;
  bool commutes, any_dtype; /* any_dtype: exact for floats too */
} fold_rule;
static const fold_rule rules[QN_S_COUNT] = {
    [QN_S_ADD] = {fold_sum, true, false},      [QN_S_SUB] = {fold_sum, false, false},
    [QN_S_MUL] = {fold_product, true, false},  [QN_S_AND] = {fold_bits, true, false},
    [QN_S_OR] = {fold_bits, true, false},      [QN_S_XOR] = {fold_bits, true, false},
    [QN_S_SHL] = {fold_shift, false, false},   [QN_S_SHR] = {fold_shift, false, false},
    [QN_S_IDIV] = {fold_divide, false, false}, [QN_S_IREM] = {fold_divide, false, false},
    [QN_S_LT] = {fold_order, false, false},    [QN_S_LE] = {fold_order, false, false},
    [QN_S_EQ] = {fold_equal, true, false},     [QN_S_NE] = {fold_equal, true, false},
    [QN_S_NOT] = {fold_not, false, true},      [QN_S_SELECT] = {fold_select, false, true},
    [QN_S_CONVERT] = {fold_cast, false, true}, [QN_S_BITCAST] = {fold_cast, false, true},
};

/* ---- the sink ---- */

static bool read_operands(qn_kbuild *b, operation *o) {
  for (int i = 0; i < o->count; ++i) {
    uint32_t id = o->in[i].id;
    if (id == 0 || id >= b->kernel->count || !qn_kop_infos[kb_inst(b, id)->kop].value) {
      qn_kb_fail(b, "%s: operand %d (%u) is not a value", qn_sop_name(o->op), i, id);
      return false;
    }
    if (kb_inst(b, id)->lanes > o->lanes)
      o->lanes = kb_inst(b, id)->lanes;
  }
  o->operand = (qn_dtype)kb_inst(b, o->in[o->op == QN_S_SELECT].id)->dtype;
  for (int i = o->op == QN_S_SELECT ? 1 : 0; i < o->count; ++i)
    if (kb_inst(b, o->in[i].id)->dtype != o->operand) {
      qn_kb_fail(b, "%s: operand %d is %s, expected %s", qn_sop_name(o->op), i,
                 qn_dtype_name((qn_dtype)kb_inst(b, o->in[i].id)->dtype), qn_dtype_name(o->operand));
      return false;
    }
  return true;
}

/* A vector operation on splats alone is one on scalars. */
static bool strip_splats(qn_kbuild *b, operation *o) {
  qn_sval scalar[3] = {{0}, {0}, {0}};
  for (int i = 0; i < o->count; ++i) {
    const qn_kinst *in = kb_inst(b, o->in[i].id);
    if (in->lanes != 1 && in->kop != QN_K_SPLAT)
      return false;
    scalar[i] = in->lanes == 1 ? o->in[i] : (qn_sval){in->a};
  }
  memcpy(o->in, scalar, sizeof scalar);
  return true;
}

qn_sval qn_kb_emit(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm) {
  qn_kbuild *b = (qn_kbuild *)s;
  qn_kinst inst = {.kop = QN_K_SCALAR, .sop = (uint8_t)op, .dtype = (uint8_t)result, .lanes = 1};
  if (op == QN_S_CONST) {
    inst.imm = imm & mask_of(result);
    return qn_kb_pure(b, &inst);
  }
  operation o = {.op = op, .result = result, .count = count, .lanes = 1};
  if ((unsigned)op >= QN_S_COUNT || count != qn_sop_arity(op))
    return qn_kb_fail(b, "%s: %d operands", qn_sop_name(op), count);
  memcpy(o.in, in, (size_t)count * sizeof *in);
  if (!read_operands(b, &o))
    return none;
  if (o.lanes > 1 && strip_splats(b, &o))
    return qn_kb_splat(b, qn_kb_emit(s, op, result, o.in, count, 0), o.lanes);
  bool all = true;
  for (int i = 0; i < count; ++i) {
    o.in[i] = qn_kb_splat(b, o.in[i], o.lanes);
    if (!o.in[i].id)
      return none;
    o.known[i] = qn_kb_const(b, o.in[i].id, &o.bits[i]);
    all = all && o.known[i];
  }
  if (all)
    return constant(b, &o, result, qn_scalar_eval(op, result, o.operand, o.bits));
  const fold_rule *r = &rules[op];
  if (r->commutes && !qn_dtype_is_float(o.operand) && (o.known[0] || (!o.known[1] && o.in[0].id > o.in[1].id))) {
    qn_sval v = o.in[0];
    o.in[0] = o.in[1];
    o.in[1] = v;
    o.known[1] = o.known[0];
    o.bits[1] = o.bits[0];
    o.known[0] = false;
  }
  if (r->fn && (r->any_dtype || !qn_dtype_is_float(o.operand))) {
    qn_sval v = r->fn(b, &o);
    if (v.id)
      return v;
  }
  inst.lanes = (uint8_t)o.lanes;
  inst.a = o.in[0].id;
  inst.b = count > 1 ? o.in[1].id : 0;
  inst.c = count > 2 ? o.in[2].id : 0;
  return qn_kb_pure(b, &inst);
}
