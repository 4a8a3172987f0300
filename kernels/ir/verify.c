/* The kernel verifier: operands exist and are in scope, dtypes and lanes fit, structure is balanced, memory is what it is used as. A message
 * names the instruction, what was expected and what came. */
#include "ir.h"

#include <stdlib.h>

typedef struct verifier {
  const qn_kernel *k;
  uint32_t at;
  uint32_t *open; /* stack of LOOP, IF, ELSE */
  uint32_t depth;
  bool *in_scope;
  uint32_t *order; /* values in scope, in order of definition; marks[] cut it */
  uint32_t *marks;
  uint32_t order_count;
  bool *by_item; /* differs between the items of a group, as far as seen */
  qn_status st;
} verifier;

#define BAD(v, ...) bad((v), QN_ERR(QN_INTERNAL, __VA_ARGS__))
static bool bad(verifier *v, qn_status st) {
  v->st = st;
  return false;
}

static const qn_kinst *at(const verifier *v, uint32_t id) { return &v->k->insts[id]; }
static const char *tname(const qn_kinst *in) { return qn_dtype_name((qn_dtype)in->dtype); }
static const char *opname(const qn_kinst *in) {
  return in->kop == QN_K_SCALAR ? qn_sop_name((qn_sop)in->sop) : qn_kop_name((qn_kop)in->kop);
}

static bool operand(verifier *v, uint32_t id, char slot) {
  const qn_kinst *in = at(v, v->at);
  if (id == 0 || id >= v->at || !qn_kop_infos[at(v, id)->kop].value)
    return BAD(v, "kernel %s, %u %s: operand %c is %u, not a value before it", v->k->name, v->at, opname(in), slot, id);
  if (!v->in_scope[id])
    return BAD(v, "kernel %s, %u %s: operand %c, value %u, is out of scope", v->k->name, v->at, opname(in), slot, id);
  return true;
}

static bool typed(verifier *v, uint32_t id, char slot, qn_dtype t, uint32_t lanes) {
  const qn_kinst *in = at(v, v->at);
  if (!operand(v, id, slot))
    return false;
  const qn_kinst *x = at(v, id);
  if (x->kop == QN_K_VAR || x->kop == QN_K_ARRAY)
    return BAD(v, "kernel %s, %u %s: operand %c is a %s", v->k->name, v->at, opname(in), slot, opname(x));
  if (x->dtype != t || x->lanes != lanes)
    return BAD(v, "kernel %s, %u %s: operand %c is %s x %u, expected %s x %u", v->k->name, v->at, opname(in), slot,
               tname(x), x->lanes, qn_dtype_name(t), lanes);
  return true;
}

static bool integer(verifier *v, uint32_t id, char slot, uint32_t lanes) {
  if (!operand(v, id, slot))
    return false;
  const qn_kinst *x = at(v, id);
  if (!qn_dtype_is_int((qn_dtype)x->dtype))
    return BAD(v, "kernel %s, %u %s: operand %c is %s, expected an integer", v->k->name, v->at, opname(at(v, v->at)),
               slot, tname(x));
  return typed(v, id, slot, (qn_dtype)x->dtype, lanes);
}

static bool mask(verifier *v, uint32_t id, char slot, uint32_t lanes) {
  return id == 0 || typed(v, id, slot, QN_BOOL, lanes);
}

/* ---- scalar operations ---- */

enum { FLOATS = 1, INTS = 2, BOOLS = 4, ALL = 7 };
static const uint8_t accepts[QN_S_COUNT] = {
    [QN_S_CONST] = ALL,
    [QN_S_ADD] = FLOATS | INTS,
    [QN_S_SUB] = FLOATS | INTS,
    [QN_S_MUL] = FLOATS | INTS,
    [QN_S_DIV] = FLOATS,
    [QN_S_FMA] = FLOATS,
    [QN_S_NEG] = FLOATS | INTS,
    [QN_S_ABS] = FLOATS,
    [QN_S_SQRT] = FLOATS,
    [QN_S_FLOOR] = FLOATS,
    [QN_S_CEIL] = FLOATS,
    [QN_S_TRUNC] = FLOATS,
    [QN_S_RINT] = FLOATS,
    [QN_S_IDIV] = INTS,
    [QN_S_IREM] = INTS,
    [QN_S_MULHI] = INTS,
    [QN_S_AND] = INTS | BOOLS,
    [QN_S_OR] = INTS | BOOLS,
    [QN_S_XOR] = INTS | BOOLS,
    [QN_S_NOT] = INTS | BOOLS,
    [QN_S_SHL] = INTS,
    [QN_S_SHR] = INTS,
    [QN_S_EQ] = ALL,
    [QN_S_NE] = ALL,
    [QN_S_LT] = FLOATS | INTS,
    [QN_S_LE] = FLOATS | INTS,
    [QN_S_SELECT] = ALL,
    [QN_S_CONVERT] = ALL,
    [QN_S_BITCAST] = FLOATS | INTS,
    [QN_S_POPCNT] = INTS,
    [QN_S_CLZ] = INTS,
};

static bool accepted(qn_sop op, qn_dtype t) {
  if (t == QN_BOOL)
    return accepts[op] & BOOLS;
  return qn_dtype_is_float(t) ? accepts[op] & FLOATS : qn_dtype_is_int(t) && (accepts[op] & INTS);
}

static bool check_scalar(verifier *v, const qn_kinst *in) {
  qn_sop op = (qn_sop)in->sop;
  if (in->sop >= QN_S_COUNT)
    return BAD(v, "kernel %s, %u: scalar operation %u", v->k->name, v->at, in->sop);
  if (op == QN_S_CONST)
    return accepted(op, (qn_dtype)in->dtype) || BAD(v, "kernel %s, %u const: dtype %s", v->k->name, v->at, tname(in));
  int arity = qn_sop_arity(op), first = op == QN_S_SELECT;
  if (first && !typed(v, in->a, 'a', QN_BOOL, in->lanes))
    return false;
  if (!operand(v, kinst_operand(in, first), (char)('a' + first)))
    return false;
  qn_dtype t = (qn_dtype)at(v, kinst_operand(in, first))->dtype;
  if (!accepted(op, t))
    return BAD(v, "kernel %s, %u %s: not for %s", v->k->name, v->at, opname(in), qn_dtype_name(t));
  for (int i = first; i < arity; ++i)
    if (!typed(v, kinst_operand(in, i), (char)('a' + i), t, in->lanes))
      return false;
  bool compare = op >= QN_S_EQ && op <= QN_S_LE;
  qn_dtype want = compare ? QN_BOOL : op == QN_S_CONVERT || op == QN_S_BITCAST ? (qn_dtype)in->dtype : t;
  if (in->dtype != want)
    return BAD(v, "kernel %s, %u %s: result is %s, expected %s", v->k->name, v->at, opname(in), tname(in),
               qn_dtype_name(want));
  if (op == QN_S_CONVERT && (in->dtype == QN_BOOL || !accepted(op, (qn_dtype)in->dtype)))
    return BAD(v, "kernel %s, %u convert: to %s", v->k->name, v->at, tname(in));
  if (op == QN_S_BITCAST && qn_kdtype_width((qn_dtype)in->dtype) != qn_kdtype_width(t))
    return BAD(v, "kernel %s, %u bitcast: %s to %s", v->k->name, v->at, qn_dtype_name(t), tname(in));
  return true;
}

/* ---- the other kinds ---- */

static bool check_lanes(verifier *v, const qn_kinst *in) {
  const qn_kinst *x = at(v, in->a);
  switch (in->kop) {
  case QN_K_SPLAT:
    return typed(v, in->a, 'a', (qn_dtype)in->dtype, 1);
  case QN_K_EXTRACT:
    return operand(v, in->a, 'a') && typed(v, in->a, 'a', (qn_dtype)in->dtype, x->lanes) &&
           (in->imm < x->lanes ||
            BAD(v, "kernel %s, %u extract: lane %llu of %u", v->k->name, v->at, (unsigned long long)in->imm, x->lanes));
  case QN_K_LOW:
  case QN_K_HIGH:
    return typed(v, in->a, 'a', (qn_dtype)in->dtype, 2u * in->lanes);
  default:
    return typed(v, in->a, 'a', (qn_dtype)in->dtype, in->lanes / 2u) &&
           typed(v, in->b, 'b', (qn_dtype)in->dtype, in->lanes / 2u);
  }
}

static bool is_a(verifier *v, uint32_t id, qn_kop op) {
  return operand(v, id, 'a') &&
         (at(v, id)->kop == op || BAD(v, "kernel %s, %u %s: operand a is a %s, expected a %s", v->k->name, v->at,
                                      opname(at(v, v->at)), opname(at(v, id)), qn_kop_name(op)));
}

static bool check_state(verifier *v, const qn_kinst *in) {
  const qn_kinst *x = at(v, in->a);
  switch (in->kop) {
  case QN_K_VAR:
    return typed(v, in->a, 'a', (qn_dtype)in->dtype, in->lanes);
  case QN_K_GET:
    return is_a(v, in->a, QN_K_VAR) &&
           (x->dtype == in->dtype && x->lanes == in->lanes
                ? true
                : BAD(v, "kernel %s, %u get: type differs from its variable's", v->k->name, v->at));
  case QN_K_SET:
    return is_a(v, in->a, QN_K_VAR) && typed(v, in->b, 'b', (qn_dtype)x->dtype, x->lanes);
  case QN_K_ALOAD:
    return is_a(v, in->a, QN_K_ARRAY) && integer(v, in->b, 'b', 1) &&
           (x->dtype == in->dtype || BAD(v, "kernel %s, %u aload: dtype differs from its array's", v->k->name, v->at));
  default:
    return is_a(v, in->a, QN_K_ARRAY) && integer(v, in->b, 'b', 1) && operand(v, in->c, 'c') &&
           typed(v, in->c, 'c', (qn_dtype)x->dtype, at(v, in->c)->lanes);
  }
}

static bool check_memory(verifier *v, const qn_kinst *in) {
  if (in->aux >= v->k->buffer_count)
    return BAD(v, "kernel %s, %u %s: buffer %u of %zu", v->k->name, v->at, opname(in), in->aux, v->k->buffer_count);
  const qn_kbuffer *b = &v->k->buffers[in->aux];
  bool reads = in->kop == QN_K_LOAD || in->kop == QN_K_GATHER;
  bool atomic = in->kop == QN_K_ATOMIC_AND || in->kop == QN_K_ATOMIC_OR;
  if (reads ? !b->read : !b->written)
    return BAD(v, "kernel %s, %u %s: buffer %u is not declared %s", v->k->name, v->at, opname(in), in->aux,
               reads ? "read" : "written");
  if (reads && in->dtype != b->dtype)
    return BAD(v, "kernel %s, %u %s: result is %s, buffer %u holds %s", v->k->name, v->at, opname(in), tname(in),
               in->aux, qn_dtype_name(b->dtype));
  if (atomic && b->dtype != QN_U32)
    return BAD(v, "kernel %s, %u %s: buffer %u holds %s, expected u32", v->k->name, v->at, opname(in), in->aux,
               qn_dtype_name(b->dtype));
  if (in->kop == QN_K_LOAD)
    return integer(v, in->b, 'b', 1) && mask(v, in->c, 'c', 1);
  if (in->kop == QN_K_GATHER)
    return integer(v, in->b, 'b', in->lanes) && mask(v, in->c, 'c', in->lanes);
  if (!operand(v, in->c, 'c'))
    return false;
  uint32_t lanes = atomic ? 1 : at(v, in->c)->lanes, each = in->kop == QN_K_SCATTER ? lanes : 1;
  return typed(v, in->c, 'c', b->dtype, lanes) && integer(v, in->b, 'b', each) && mask(v, in->d, 'd', each);
}

static void enter(verifier *v) {
  v->open[v->depth] = v->at;
  v->marks[v->depth++] = v->order_count;
}

static void leave(verifier *v, uint32_t mark_at) {
  while (v->order_count > mark_at)
    v->in_scope[v->order[--v->order_count]] = false;
}

static bool check_control(verifier *v, const qn_kinst *in) {
  uint32_t top = v->depth ? v->open[v->depth - 1] : 0;
  switch (in->kop) {
  case QN_K_LOOP:
    if (!integer(v, in->a, 'a', 1) || !typed(v, in->b, 'b', (qn_dtype)at(v, in->a)->dtype, 1))
      return false;
    if (in->imm == 0 || in->imm > INT32_MAX || in->dtype != at(v, in->a)->dtype)
      return BAD(v, "kernel %s, %u loop: step %llu of %s", v->k->name, v->at, (unsigned long long)in->imm, tname(in));
    enter(v);
    return true;
  case QN_K_IF:
    if (!typed(v, in->a, 'a', QN_BOOL, 1))
      return false;
    enter(v);
    return true;
  case QN_K_ELSE:
    if (!top || at(v, top)->kop != QN_K_IF)
      return BAD(v, "kernel %s, %u else: no open condition", v->k->name, v->at);
    leave(v, v->marks[v->depth - 1]);
    v->open[v->depth - 1] = v->at;
    return true;
  case QN_K_END:
    if (!top)
      return BAD(v, "kernel %s, %u end: nothing is open", v->k->name, v->at);
    leave(v, v->marks[--v->depth]);
    return true;
  default:
    break;
  }
  for (uint32_t i = 0; i < v->depth; ++i)
    if (v->by_item[v->open[i]])
      return BAD(v, "kernel %s, %u barrier: inside %u %s, which items of a group may leave at different times",
                 v->k->name, v->at, v->open[i], opname(at(v, v->open[i])));
  return true;
}

typedef bool (*check_fn)(verifier *v, const qn_kinst *in);
static const check_fn checks[QN_K_COUNT] = {
    [QN_K_SCALAR] = check_scalar,     [QN_K_SPLAT] = check_lanes,      [QN_K_EXTRACT] = check_lanes,
    [QN_K_LOW] = check_lanes,         [QN_K_HIGH] = check_lanes,       [QN_K_JOIN] = check_lanes,
    [QN_K_VAR] = check_state,         [QN_K_GET] = check_state,        [QN_K_SET] = check_state,
    [QN_K_ALOAD] = check_state,       [QN_K_ASTORE] = check_state,     [QN_K_LOAD] = check_memory,
    [QN_K_STORE] = check_memory,      [QN_K_GATHER] = check_memory,    [QN_K_SCATTER] = check_memory,
    [QN_K_ATOMIC_AND] = check_memory, [QN_K_ATOMIC_OR] = check_memory, [QN_K_LOOP] = check_control,
    [QN_K_IF] = check_control,        [QN_K_ELSE] = check_control,     [QN_K_END] = check_control,
    [QN_K_BARRIER] = check_control,
};

static void spread_item(verifier *v, const qn_kinst *in) {
  bool differs = in->kop == QN_K_ITEM;
  for (int i = 0; i < 4; ++i)
    differs = differs || v->by_item[kinst_operand(in, i)];
  v->by_item[v->at] = differs && in->kop != QN_K_LOAD && in->kop != QN_K_GATHER;
  if (in->kop == QN_K_ELSE)
    v->by_item[v->at] = true;
}

static bool check_all(verifier *v) {
  const qn_kernel *k = v->k;
  for (v->at = 1; v->at < k->count; ++v->at) {
    const qn_kinst *in = at(v, v->at);
    if (in->kop >= QN_K_COUNT)
      return BAD(v, "kernel %s, %u: unknown kind %u", k->name, v->at, in->kop);
    bool value = qn_kop_infos[in->kop].value;
    uint32_t n = in->lanes;
    if (value &&
        ((n != 1 && n != 2 && n != 4 && n != 8 && n != 16) || in->dtype == QN_DTYPE_NONE || in->dtype > QN_F64))
      return BAD(v, "kernel %s, %u %s: %s x %u is no value", k->name, v->at, opname(in), tname(in), n);
    if (in->kop == QN_K_PARAM && in->imm >= k->param_count)
      return BAD(v, "kernel %s, %u param: word %llu of %u", k->name, v->at, (unsigned long long)in->imm,
                 k->param_count);
    bool else_of_uniform = in->kop == QN_K_ELSE && v->depth && !v->by_item[v->open[v->depth - 1]];
    if (checks[in->kop] && !checks[in->kop](v, in))
      return false;
    spread_item(v, in);
    if (else_of_uniform)
      v->by_item[v->at] = false;
    if (value) {
      v->in_scope[v->at] = true;
      v->order[v->order_count++] = v->at;
    }
  }
  return v->depth == 0 || BAD(v, "kernel %s: %u loops or conditions are not closed", k->name, v->depth);
}

static qn_status check_header(const qn_kernel *k) {
  if (k->count == 0 || k->items == 0 || k->param_count == 0)
    return QN_ERR(QN_INTERNAL, "kernel %s: %zu instructions, %u items, %u parameter words", k->name, k->count, k->items,
                  k->param_count);
  for (size_t i = 0; i < k->buffer_count; ++i) {
    const qn_kbuffer *b = &k->buffers[i];
    if (b->binding >= k->binding_count || b->offset_param >= k->param_count || b->dtype == QN_DTYPE_NONE ||
        b->dtype > QN_F64)
      return QN_ERR(QN_INTERNAL, "kernel %s: buffer %zu (%s, binding %u of %u, offset in word %u of %u) is wrong",
                    k->name, i, qn_dtype_name(b->dtype), b->binding, k->binding_count, b->offset_param, k->param_count);
  }
  return QN_OK;
}

qn_status qn_kernel_verify(const qn_kernel *k) {
  QN_TRY(check_header(k));
  size_t n = k->count;
  verifier v = {.k = k};
  uint32_t *words = calloc(3 * n, sizeof *words);
  bool *flags = calloc(2 * n, sizeof *flags);
  if (!words || !flags) {
    v.st = QN_ERR(QN_OUT_OF_MEMORY, "kernel verifier: no memory");
  } else {
    v.open = words;
    v.marks = words + n;
    v.order = words + 2 * n;
    v.in_scope = flags;
    v.by_item = flags + n;
    check_all(&v);
  }
  free(words);
  free(flags);
  return v.st;
}
