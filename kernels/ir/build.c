/* The kernel builder: appends instructions, folding and merging on the way, and keeps the stack of open loops and conditions. Misuse (a
 * dtype that does not fit, an unbalanced scope) is remembered, makes the null value, and is reported by qn_kbuild_end, so that callers can
 * write formulas without checking each step. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

const kop_info qn_kop_infos[QN_K_COUNT] = {
    [QN_K_SCALAR] = {"scalar", true, true},
    [QN_K_GROUP] = {"group", true, true},
    [QN_K_ITEM] = {"item", true, true},
    [QN_K_PARAM] = {"param", true, true},
    [QN_K_SPLAT] = {"splat", true, true},
    [QN_K_IOTA] = {"iota", true, true},
    [QN_K_EXTRACT] = {"extract", true, true},
    [QN_K_LOW] = {"low", true, true},
    [QN_K_HIGH] = {"high", true, true},
    [QN_K_JOIN] = {"join", true, true},
    [QN_K_VAR] = {"var", true, false},
    [QN_K_GET] = {"get", true, false},
    [QN_K_SET] = {"set", false, false},
    [QN_K_ARRAY] = {"array", true, false},
    [QN_K_ALOAD] = {"aload", true, false},
    [QN_K_ASTORE] = {"astore", false, false},
    [QN_K_LOAD] = {"load", true, false},
    [QN_K_STORE] = {"store", false, false},
    [QN_K_GATHER] = {"gather", true, false},
    [QN_K_SCATTER] = {"scatter", false, false},
    [QN_K_LOOP] = {"loop", true, false},
    [QN_K_IF] = {"if", false, false},
    [QN_K_ELSE] = {"else", false, false},
    [QN_K_END] = {"end", false, false},
    [QN_K_BARRIER] = {"barrier", false, false},
    [QN_K_ATOMIC_AND] = {"atomic_and", false, false},
    [QN_K_ATOMIC_OR] = {"atomic_or", false, false},
};

const char *qn_kop_name(qn_kop op) { return (unsigned)op < QN_K_COUNT ? qn_kop_infos[op].name : "?"; }

static const qn_sval none = {0};

/* ---- appending ---- */

qn_sval qn_kb_fail(qn_kbuild *b, const char *format, ...) {
  kstate *st = kb_state(b);
  if (st && !st->message[0]) {
    va_list args;
    va_start(args, format);
    vsnprintf(st->message, sizeof st->message, format, args);
    va_end(args);
  }
  return none;
}

static qn_sval push(qn_kbuild *b, const qn_kinst *in) {
  qn_kernel *k = b->kernel;
  kstate *st = kb_state(b);
  if (k->failed)
    return none;
  if (k->count >= UINT32_MAX - 1 || !QN_RESERVE(k->insts, k->capacity, k->count + 1) ||
      !QN_RESERVE(st->top, st->top_capacity, k->count + 1)) {
    k->failed = true;
    return none;
  }
  st->top[k->count] = qn_kb_range(b, in);
  k->insts[k->count] = *in;
  return (qn_sval){(uint32_t)k->count++};
}

qn_sval qn_kb_pure(qn_kbuild *b, const qn_kinst *in) {
  kstate *st = kb_state(b);
  uint32_t id = qn_vn_find(&st->vn, b->kernel, in);
  if (id)
    return (qn_sval){id};
  qn_sval v = push(b, in);
  if (v.id && !qn_vn_add(&st->vn, b->kernel, v.id))
    b->kernel->failed = true;
  return v;
}

/* A value of this builder that may be an operand? */
static bool usable(const qn_kbuild *b, qn_sval v) {
  return v.id > 0 && v.id < b->kernel->count && qn_kop_infos[kb_inst(b, v.id)->kop].value;
}

/* Same, remembering the misuse; a null value is a failure that was remembered before. */
static bool check(qn_kbuild *b, qn_sval v, const char *what) {
  if (usable(b, v))
    return true;
  if (v.id || !b->kernel->failed)
    qn_kb_fail(b, "%s: operand %u is not a value", what, v.id);
  return false;
}

static qn_dtype sink_dtype(const qn_sink *s, qn_sval v) {
  const qn_kbuild *b = (const qn_kbuild *)s;
  return usable(b, v) ? (qn_dtype)kb_inst(b, v.id)->dtype : QN_DTYPE_NONE;
}

static qn_kinst make(qn_kop op, qn_dtype t, uint32_t lanes) {
  return (qn_kinst){.kop = (uint8_t)op, .dtype = (uint8_t)t, .lanes = (uint8_t)lanes};
}

/* ---- begin and end ---- */

qn_status qn_kbuild_begin(qn_kbuild *b, qn_kernel *k) {
  memset(b, 0, sizeof *b);
  b->sink.emit = qn_kb_emit;
  b->sink.dtype = sink_dtype;
  b->kernel = k;
  kstate *st = calloc(1, sizeof *st);
  b->scopes = st;
  if (!st || !QN_RESERVE(k->insts, k->capacity, 64) || !QN_RESERVE(st->top, st->top_capacity, 64)) {
    free(st);
    b->scopes = NULL;
    k->failed = true;
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel builder: no memory");
  }
  memset(&k->insts[0], 0, sizeof k->insts[0]);
  st->top[0] = UINT64_MAX;
  k->count = 1;
  if (k->param_count == 0)
    k->param_count = 1;
  return QN_OK;
}

static void state_free(qn_kbuild *b) {
  kstate *st = kb_state(b);
  if (!st)
    return;
  qn_vn_free(&st->vn);
  free(st->scopes);
  free(st->top);
  free(st);
  b->scopes = NULL;
}

static qn_status finish(qn_kbuild *b) {
  qn_kernel *k = b->kernel;
  kstate *st = kb_state(b);
  if (k->failed || !st)
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel builder: no memory");
  if (st->message[0])
    return QN_ERR(QN_INTERNAL, "kernel builder: %s", st->message);
  if (st->depth)
    return QN_ERR(QN_INTERNAL, "kernel builder: %zu loops or conditions are not closed", st->depth);
  if (k->items == 0)
    k->items = 1;
  if (!qn_kernel_hoist(k) || !qn_kernel_sweep(k) || !qn_kernel_order(k))
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel builder: no memory");
  QN_TRY(qn_kernel_verify(k));
  if (!k->name[0])
    qn_kernel_name(k);
  return QN_OK;
}

qn_status qn_kbuild_end(qn_kbuild *b) {
  qn_status st = finish(b);
  state_free(b);
  if (st != QN_OK && b->kernel)
    b->kernel->failed = true;
  return st;
}

void qn_kbuild_abandon(qn_kbuild *b) {
  state_free(b);
  b->kernel->failed = true;
}

void qn_kernel_free(qn_kernel *k) {
  free(k->buffers);
  free(k->insts);
  memset(k, 0, sizeof *k);
}

/* ---- declarations ---- */

uint32_t qn_kb_buffer(qn_kbuild *b, qn_dtype t, uint32_t binding, uint32_t offset_param, bool read, bool written,
                      uint32_t align) {
  qn_kernel *k = b->kernel;
  if (!QN_RESERVE(k->buffers, k->buffer_capacity, k->buffer_count + 1)) {
    k->failed = true;
    return 0;
  }
  k->buffers[k->buffer_count] = (qn_kbuffer){.dtype = t,
                                             .binding = binding,
                                             .offset_param = offset_param,
                                             .read = read,
                                             .written = written,
                                             .align = align ? align : 1};
  if (binding >= k->binding_count)
    k->binding_count = binding + 1;
  if (offset_param >= k->param_count)
    k->param_count = offset_param + 1;
  return (uint32_t)k->buffer_count++;
}

uint32_t qn_kb_new_param(qn_kbuild *b) { return b->kernel->param_count++; }

static qn_sval leaf(qn_kbuild *b, qn_kop op, uint64_t imm) {
  qn_kinst in = make(op, QN_U32, 1);
  in.imm = imm;
  return qn_kb_pure(b, &in);
}

qn_sval qn_kb_group(qn_kbuild *b) { return leaf(b, QN_K_GROUP, 0); }
qn_sval qn_kb_item(qn_kbuild *b) {
  return b->kernel->items == 1 ? qs_bits(&b->sink, QN_U32, 0) : leaf(b, QN_K_ITEM, 0);
}

qn_sval qn_kb_param(qn_kbuild *b, uint32_t word) {
  if (word >= b->kernel->param_count)
    b->kernel->param_count = word + 1;
  return leaf(b, QN_K_PARAM, word);
}

/* ---- lanes ---- */

uint32_t qn_kb_lanes(const qn_kbuild *b, qn_sval v) { return usable(b, v) ? kb_inst(b, v.id)->lanes : 0; }

static bool lanes_ok(uint32_t n) { return n == 1 || n == 2 || n == 4 || n == 8 || n == 16; }

qn_sval qn_kb_splat(qn_kbuild *b, qn_sval scalar, uint32_t lanes) {
  if (!check(b, scalar, "splat"))
    return none;
  const qn_kinst *a = kb_inst(b, scalar.id);
  if (a->lanes == lanes)
    return scalar;
  if (a->lanes != 1 || !lanes_ok(lanes))
    return qn_kb_fail(b, "splat: operand has %u lanes, wanted %u", a->lanes, lanes);
  qn_kinst in = make(QN_K_SPLAT, (qn_dtype)a->dtype, lanes);
  in.a = scalar.id;
  return qn_kb_pure(b, &in);
}

qn_sval qn_kb_iota(qn_kbuild *b, uint32_t lanes) {
  if (!lanes_ok(lanes))
    return qn_kb_fail(b, "iota: %u lanes", lanes);
  if (lanes == 1)
    return qs_bits(&b->sink, QN_I32, 0);
  qn_kinst in = make(QN_K_IOTA, QN_I32, lanes);
  return qn_kb_pure(b, &in);
}

qn_sval qn_kb_extract(qn_kbuild *b, qn_sval v, uint32_t lane) {
  if (!check(b, v, "extract"))
    return none;
  const qn_kinst a = *kb_inst(b, v.id);
  if (lane >= a.lanes)
    return qn_kb_fail(b, "extract: lane %u of %u", lane, a.lanes);
  if (a.lanes == 1)
    return v;
  if (a.kop == QN_K_SPLAT)
    return (qn_sval){a.a};
  if (a.kop == QN_K_IOTA)
    return qs_bits(&b->sink, QN_I32, lane);
  if (a.kop == QN_K_JOIN)
    return lane < a.lanes / 2u ? qn_kb_extract(b, (qn_sval){a.a}, lane)
                               : qn_kb_extract(b, (qn_sval){a.b}, lane - a.lanes / 2u);
  if (a.kop == QN_K_LOW)
    return qn_kb_extract(b, (qn_sval){a.a}, lane);
  if (a.kop == QN_K_HIGH)
    return qn_kb_extract(b, (qn_sval){a.a}, lane + a.lanes);
  qn_kinst in = make(QN_K_EXTRACT, (qn_dtype)a.dtype, 1);
  in.a = v.id;
  in.imm = lane;
  return qn_kb_pure(b, &in);
}

static qn_sval half(qn_kbuild *b, qn_sval v, bool high) {
  if (!check(b, v, "low/high"))
    return none;
  const qn_kinst a = *kb_inst(b, v.id);
  if (a.lanes < 2)
    return qn_kb_fail(b, "low/high: the operand is a scalar");
  if (a.kop == QN_K_JOIN)
    return (qn_sval){high ? a.b : a.a};
  if (a.kop == QN_K_SPLAT)
    return qn_kb_splat(b, (qn_sval){a.a}, a.lanes / 2u);
  if (a.lanes == 2)
    return qn_kb_extract(b, v, high);
  if (a.kop == QN_K_IOTA && !high)
    return qn_kb_iota(b, a.lanes / 2u);
  qn_kinst in = make(high ? QN_K_HIGH : QN_K_LOW, (qn_dtype)a.dtype, a.lanes / 2u);
  in.a = v.id;
  return qn_kb_pure(b, &in);
}

qn_sval qn_kb_low(qn_kbuild *b, qn_sval v) { return half(b, v, false); }
qn_sval qn_kb_high(qn_kbuild *b, qn_sval v) { return half(b, v, true); }

qn_sval qn_kb_join(qn_kbuild *b, qn_sval lo, qn_sval hi) {
  if (!check(b, lo, "join") || !check(b, hi, "join"))
    return none;
  const qn_kinst x = *kb_inst(b, lo.id), y = *kb_inst(b, hi.id);
  if (x.dtype != y.dtype || x.lanes != y.lanes || x.lanes > 8)
    return qn_kb_fail(b, "join: operands are %s x %u and %s x %u", qn_dtype_name((qn_dtype)x.dtype), x.lanes,
                      qn_dtype_name((qn_dtype)y.dtype), y.lanes);
  if (lo.id == hi.id && x.lanes == 1)
    return qn_kb_splat(b, lo, 2);
  if (x.kop == QN_K_SPLAT && y.kop == QN_K_SPLAT && x.a == y.a)
    return qn_kb_splat(b, (qn_sval){x.a}, 2u * x.lanes);
  if (x.kop == QN_K_LOW && y.kop == QN_K_HIGH && x.a == y.a)
    return (qn_sval){x.a};
  qn_kinst in = make(QN_K_JOIN, (qn_dtype)x.dtype, 2u * x.lanes);
  in.a = lo.id;
  in.b = hi.id;
  return qn_kb_pure(b, &in);
}

/* ---- variables and arrays ---- */

static bool is_kop(const qn_kbuild *b, qn_sval v, qn_kop op) { return usable(b, v) && kb_inst(b, v.id)->kop == op; }

qn_sval qn_kb_var(qn_kbuild *b, qn_sval init) {
  if (!check(b, init, "var"))
    return none;
  qn_kinst in = make(QN_K_VAR, (qn_dtype)kb_inst(b, init.id)->dtype, kb_inst(b, init.id)->lanes);
  in.a = init.id;
  return push(b, &in);
}

qn_sval qn_kb_get(qn_kbuild *b, qn_sval var) {
  if (!is_kop(b, var, QN_K_VAR))
    return qn_kb_fail(b, "get: operand %u is not a variable", var.id);
  qn_kinst in = make(QN_K_GET, (qn_dtype)kb_inst(b, var.id)->dtype, kb_inst(b, var.id)->lanes);
  in.a = var.id;
  return push(b, &in);
}

void qn_kb_set(qn_kbuild *b, qn_sval var, qn_sval value) {
  if (!is_kop(b, var, QN_K_VAR)) {
    qn_kb_fail(b, "set: operand %u is not a variable", var.id);
    return;
  }
  if (!check(b, value, "set"))
    return;
  value = qn_kb_splat(b, value, kb_inst(b, var.id)->lanes);
  qn_kinst in = {.kop = QN_K_SET, .a = var.id, .b = value.id};
  if (value.id)
    push(b, &in);
}

qn_sval qn_kb_array(qn_kbuild *b, qn_dtype t, uint32_t elements, bool local) {
  qn_kinst in = make(QN_K_ARRAY, t, 1);
  in.imm = elements;
  in.aux = local;
  return push(b, &in);
}

qn_sval qn_kb_aload(qn_kbuild *b, qn_sval array, qn_sval index, uint32_t lanes) {
  if (!is_kop(b, array, QN_K_ARRAY))
    return qn_kb_fail(b, "aload: operand %u is not an array", array.id);
  if (!check(b, index, "aload"))
    return none;
  qn_kinst in = make(QN_K_ALOAD, (qn_dtype)kb_inst(b, array.id)->dtype, lanes);
  in.a = array.id;
  in.b = index.id;
  return push(b, &in);
}

void qn_kb_astore(qn_kbuild *b, qn_sval array, qn_sval index, qn_sval value) {
  if (!is_kop(b, array, QN_K_ARRAY)) {
    qn_kb_fail(b, "astore: operand %u is not an array", array.id);
    return;
  }
  qn_kinst in = {.kop = QN_K_ASTORE, .a = array.id, .b = index.id, .c = value.id};
  if (check(b, index, "astore") && check(b, value, "astore"))
    push(b, &in);
}

/* ---- memory ---- */

/* Drops a mask that is always true; *skip when it is always false. */
static bool memory_ok(qn_kbuild *b, const char *what, uint32_t buffer, qn_sval index, qn_sval *mask, bool *skip) {
  uint64_t bits;
  *skip = false;
  if (buffer >= b->kernel->buffer_count) {
    qn_kb_fail(b, "%s: buffer %u of %zu", what, buffer, b->kernel->buffer_count);
    return false;
  }
  if (!check(b, index, what) || (mask->id && !check(b, *mask, what)))
    return false;
  if (mask->id && qn_kb_const(b, mask->id, &bits)) {
    *skip = !(bits & 1);
    *mask = none;
  }
  return true;
}

static qn_sval read_memory(qn_kbuild *b, qn_kop op, uint32_t buffer, qn_sval index, uint32_t lanes, qn_sval mask) {
  bool skip;
  if (!memory_ok(b, qn_kop_name(op), buffer, index, &mask, &skip))
    return none;
  qn_dtype t = b->kernel->buffers[buffer].dtype;
  if (skip)
    return qn_kb_splat(b, qs_bits(&b->sink, t, 0), lanes);
  if (op == QN_K_GATHER && mask.id)
    mask = qn_kb_splat(b, mask, lanes);
  qn_kinst in = make(op, t, lanes);
  in.aux = buffer;
  in.b = index.id;
  in.c = mask.id;
  return qn_kinst_mergeable(b->kernel, &in) ? qn_kb_pure(b, &in) : push(b, &in);
}

qn_sval qn_kb_load(qn_kbuild *b, uint32_t buffer, qn_sval index, uint32_t lanes, qn_sval mask) {
  return read_memory(b, QN_K_LOAD, buffer, index, lanes, mask);
}

qn_sval qn_kb_gather(qn_kbuild *b, uint32_t buffer, qn_sval indexes, qn_sval mask) {
  uint32_t lanes = qn_kb_lanes(b, indexes);
  return read_memory(b, lanes == 1 ? QN_K_LOAD : QN_K_GATHER, buffer, indexes, lanes, mask);
}

static void write_memory(qn_kbuild *b, qn_kop op, uint32_t buffer, qn_sval index, qn_sval value, qn_sval mask) {
  bool skip;
  if (!memory_ok(b, qn_kop_name(op), buffer, index, &mask, &skip) || !check(b, value, qn_kop_name(op)) || skip)
    return;
  if (op == QN_K_SCATTER) {
    value = qn_kb_splat(b, value, qn_kb_lanes(b, index));
    if (mask.id)
      mask = qn_kb_splat(b, mask, qn_kb_lanes(b, index));
  }
  qn_kinst in = {.kop = (uint8_t)op, .aux = buffer, .b = index.id, .c = value.id, .d = mask.id};
  push(b, &in);
}

void qn_kb_store(qn_kbuild *b, uint32_t buffer, qn_sval index, qn_sval value, qn_sval mask) {
  write_memory(b, QN_K_STORE, buffer, index, value, mask);
}

void qn_kb_scatter(qn_kbuild *b, uint32_t buffer, qn_sval indexes, qn_sval value, qn_sval mask) {
  write_memory(b, qn_kb_lanes(b, indexes) == 1 ? QN_K_STORE : QN_K_SCATTER, buffer, indexes, value, mask);
}

void qn_kb_atomic(qn_kbuild *b, bool is_or, uint32_t buffer, qn_sval index, qn_sval value, qn_sval mask) {
  write_memory(b, is_or ? QN_K_ATOMIC_OR : QN_K_ATOMIC_AND, buffer, index, value, mask);
}

/* ---- control ---- */

static bool scope_open(qn_kbuild *b, scope_kind kind) {
  kstate *st = kb_state(b);
  if (!QN_RESERVE(st->scopes, st->scope_capacity, st->depth + 1)) {
    b->kernel->failed = true;
    return false;
  }
  st->scopes[st->depth++] = (kscope){kind, st->vn.count};
  return true;
}

static int64_t as_signed(qn_dtype t, uint64_t bits) {
  unsigned w = qn_kdtype_width(t);
  return w >= 64 ? (int64_t)bits : (int64_t)(bits ^ (UINT64_C(1) << (w - 1))) - (int64_t)(UINT64_C(1) << (w - 1));
}

bool qn_kb_not_negative(const qn_kbuild *b, qn_sval v) { return kb_state(b)->top[v.id] != UINT64_MAX; }

/* A loop of exactly one round needs no loop. */
static bool runs_once(const qn_kbuild *b, qn_sval begin, qn_sval end, uint64_t step) {
  uint64_t x, y;
  if (!qn_kb_const(b, begin.id, &x) || !qn_kb_const(b, end.id, &y))
    return false;
  qn_dtype t = (qn_dtype)kb_inst(b, begin.id)->dtype;
  if (qn_dtype_is_signed(t))
    return as_signed(t, x) < as_signed(t, y) && (uint64_t)as_signed(t, y) - (uint64_t)as_signed(t, x) <= step;
  return x < y && y - x <= step;
}

qn_sval qn_kb_loop(qn_kbuild *b, qn_sval begin, qn_sval end, uint64_t step, bool no_unroll) {
  bool ok = check(b, begin, "loop") && check(b, end, "loop");
  if (ok && (kb_inst(b, begin.id)->dtype != kb_inst(b, end.id)->dtype ||
             !qn_dtype_is_int((qn_dtype)kb_inst(b, begin.id)->dtype))) {
    qn_kb_fail(b, "loop: bounds are %s and %s", qn_dtype_name(sink_dtype(&b->sink, begin)),
               qn_dtype_name(sink_dtype(&b->sink, end)));
    ok = false;
  }
  if (!ok || runs_once(b, begin, end, step)) {
    scope_open(b, SCOPE_INLINE_LOOP);
    return begin;
  }
  qn_kinst in = make(QN_K_LOOP, (qn_dtype)kb_inst(b, begin.id)->dtype, 1);
  in.a = begin.id;
  in.b = end.id;
  in.imm = step;
  in.aux = no_unroll;
  qn_sval v = push(b, &in);
  scope_open(b, SCOPE_LOOP);
  return v;
}

void qn_kb_if(qn_kbuild *b, qn_sval cond) {
  uint64_t bits;
  bool ok = check(b, cond, "if");
  if (!ok || (qn_kb_const(b, cond.id, &bits) && (bits & 1))) {
    scope_open(b, SCOPE_INLINE_IF);
    return;
  }
  qn_kinst in = {.kop = QN_K_IF, .a = cond.id};
  push(b, &in);
  scope_open(b, SCOPE_IF);
}

void qn_kb_else(qn_kbuild *b) {
  kstate *st = kb_state(b);
  kscope *sc = st->depth ? &st->scopes[st->depth - 1] : NULL;
  if (!sc || (sc->kind != SCOPE_IF && sc->kind != SCOPE_INLINE_IF)) {
    qn_kb_fail(b, "else: no open condition");
    return;
  }
  qn_vn_pop(&st->vn, sc->mark);
  if (sc->kind == SCOPE_INLINE_IF) { /* the condition is true: what follows never runs */
    qn_sval no = qs_bits(&b->sink, QN_BOOL, 0);
    qn_kinst in = {.kop = QN_K_IF, .a = no.id};
    if (no.id)
      push(b, &in);
    sc->mark = st->vn.count;
  } else {
    qn_kinst in = {.kop = QN_K_ELSE};
    push(b, &in);
  }
  sc->kind = SCOPE_ELSE;
}

void qn_kb_close(qn_kbuild *b) {
  kstate *st = kb_state(b);
  if (!st->depth) {
    qn_kb_fail(b, "close: nothing is open");
    return;
  }
  kscope sc = st->scopes[--st->depth];
  if (sc.kind == SCOPE_INLINE_LOOP || sc.kind == SCOPE_INLINE_IF)
    return; /* its values are values of the enclosing scope */
  qn_vn_pop(&st->vn, sc.mark);
  qn_kinst in = {.kop = QN_K_END};
  push(b, &in);
}

void qn_kb_barrier(qn_kbuild *b) {
  qn_kinst in = {.kop = QN_K_BARRIER};
  push(b, &in);
}
