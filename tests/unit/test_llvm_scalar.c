/* Every scalar operation, compiled, on every dtype that takes it, as a scalar and in vectors: bit for bit the reference
 * evaluator's answer. */
#include "expect.h"

#ifdef QN_HAVE_LLVM
#include "llvm_kit.h"

#include <math.h>

enum { CASES = 512, SPECIALS = 16, MOST = 512 };

typedef struct combo {
  qn_sop op;
  qn_dtype operand, result;
  kit t;
} combo;

static const qn_dtype dtypes[] = {QN_BOOL, QN_I8,  QN_I16, QN_I32,  QN_I64, QN_U8, QN_U16,
                                  QN_U32,  QN_U64, QN_F16, QN_BF16, QN_F32, QN_F64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static const uint64_t f32_specials[SPECIALS] = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                                0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f000000,
                                                0x40200000, 0xc0600000, 0x4b000001, 0x3f7fffff};

static unsigned width_of(qn_dtype t) { return t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t)); }
static uint64_t cut(qn_dtype t, uint64_t x) { return width_of(t) == 64 ? x : x & ((UINT64_C(1) << width_of(t)) - 1); }

static uint64_t special(qn_dtype t, unsigned i) {
  if (qn_dtype_is_float(t))
    return qn_scalar_eval(QN_S_CONVERT, t, QN_F32, &f32_specials[i]);
  uint64_t top = UINT64_C(1) << (width_of(t) - 1);
  const uint64_t ints[SPECIALS] = {
      0,   1,   2,   3,       top, top - 1, top + 1, UINT64_MAX, UINT64_MAX - 1, 7, 0x55, 0xaaaaaaaaaaaaaaaa,
      100, 127, 128, top >> 1};
  return cut(t, ints[i]);
}

/* Half of the cases pair all specials, half are random bits; floats are also drawn near one. */
static uint64_t draw(qn_dtype t, unsigned i, unsigned slot, uint64_t *state) {
  if (i < SPECIALS * SPECIALS)
    return special(t, slot == 0 ? i / SPECIALS : slot == 1 ? i % SPECIALS : (i * 7 + 3) % SPECIALS);
  uint64_t bits = kit_random(state);
  if (qn_dtype_is_float(t) && i % 2) {
    double x = ((double)(bits >> 11) * 0x1p-53 - 0.5) * 1000;
    uint64_t wide;
    memcpy(&wide, &x, sizeof wide);
    return t == QN_F64 ? wide : qn_scalar_eval(QN_S_CONVERT, t, QN_F64, &wide);
  }
  return cut(t, bits);
}

static double number(qn_dtype t, uint64_t bits) {
  double x;
  uint64_t wide = t == QN_F64 ? bits : qn_scalar_eval(QN_S_CONVERT, QN_F64, t, &bits);
  memcpy(&x, &wide, sizeof x);
  return x;
}

/* What expansions guarantee: no division by zero or that overflows, counts below the width, conversions within range.
 * */
static void make_legal(const combo *c, uint64_t *in) {
  qn_dtype t = c->operand;
  if (c->op == QN_S_SHL || c->op == QN_S_SHR)
    in[1] &= width_of(t) - 1;
  if (c->op == QN_S_IDIV || c->op == QN_S_IREM) {
    bool overflows = qn_dtype_is_signed(t) && in[1] == cut(t, UINT64_MAX) && in[0] == UINT64_C(1) << (width_of(t) - 1);
    if (in[1] == 0 || overflows)
      in[1] = 3;
  }
  if (c->op == QN_S_CONVERT && qn_dtype_is_float(t) && qn_dtype_is_int(c->result)) {
    double x = trunc(number(t, in[0])), top = ldexp(1, (int)width_of(c->result) - qn_dtype_is_signed(c->result));
    if (!(x < top && x >= (qn_dtype_is_signed(c->result) ? -top : 0)))
      in[0] = special(t, 12); /* 2.5 */
  }
}

static bool takes(qn_sop op, qn_dtype t) {
  bool f = qn_dtype_is_float(t), i = qn_dtype_is_int(t), b = t == QN_BOOL;
  switch (op) {
  case QN_S_DIV:
  case QN_S_FMA:
  case QN_S_ABS:
  case QN_S_SQRT:
  case QN_S_FLOOR:
  case QN_S_CEIL:
  case QN_S_TRUNC:
  case QN_S_RINT:
    return f;
  case QN_S_ADD:
  case QN_S_SUB:
  case QN_S_MUL:
  case QN_S_NEG:
  case QN_S_LT:
  case QN_S_LE:
    return f || i;
  case QN_S_IDIV:
  case QN_S_IREM:
  case QN_S_SHL:
  case QN_S_SHR:
    return i;
  case QN_S_MULHI:
    return i && width_of(t) >= 32;
  case QN_S_AND:
  case QN_S_OR:
  case QN_S_XOR:
  case QN_S_NOT:
    return i || b;
  case QN_S_POPCNT:
  case QN_S_CLZ:
    return qn_dtype_is_unsigned(t);
  case QN_S_EQ:
  case QN_S_NE:
  case QN_S_SELECT:
    return true;
  default:
    return false;
  }
}

static size_t add_combo(combo *all, size_t n, qn_sop op, qn_dtype operand, qn_dtype result) {
  cr_assert(n < MOST);
  all[n] = (combo){.op = op, .operand = operand, .result = result};
  return n + 1;
}

static size_t list_combos(combo *all) {
  size_t n = 0;
  for (int op = QN_S_CONST + 1; op < QN_S_COUNT; ++op)
    for (int i = 0; i < DTYPES; ++i) {
      bool compares = op >= QN_S_EQ && op <= QN_S_LE;
      if (takes((qn_sop)op, dtypes[i]))
        n = add_combo(all, n, (qn_sop)op, dtypes[i], compares ? QN_BOOL : dtypes[i]);
    }
  for (int i = 0; i < DTYPES; ++i)
    for (int j = 0; j < DTYPES; ++j) {
      if (i != j && dtypes[j] != QN_BOOL)
        n = add_combo(all, n, QN_S_CONVERT, dtypes[i], dtypes[j]);
      if (i != j && dtypes[i] != QN_BOOL && dtypes[j] != QN_BOOL && width_of(dtypes[i]) == width_of(dtypes[j]))
        n = add_combo(all, n, QN_S_BITCAST, dtypes[i], dtypes[j]);
    }
  return n;
}

static void build(combo *c, uint32_t lanes) {
  bool chooses = c->op == QN_S_SELECT;
  const qn_dtype views[KIT_BINDINGS] = {chooses ? QN_BOOL : c->operand, c->operand, c->operand, c->result,
                                        QN_DTYPE_NONE};
  kit_begin(&c->t, views);
  qn_sval at = qs_mul(&c->t.b.sink, kit_group(&c->t), kit_i32(&c->t, (int32_t)lanes)), in[3];
  int arity = qn_sop_arity(c->op);
  for (int i = 0; i < arity; ++i)
    in[i] = qn_kb_load(&c->t.b, c->t.buffers[i], at, lanes, kit_none);
  qn_sval y = c->t.b.sink.emit(&c->t.b.sink, c->op, c->result, in, arity, 0);
  qn_kb_store(&c->t.b, c->t.buffers[3], at, y, kit_none);
  QN_ASSERT_OK(qn_kbuild_end(&c->t.b));
}

static bool agree(const combo *c, uint64_t got, uint64_t want) {
  bool moves = c->op == QN_S_NEG || c->op == QN_S_ABS || c->op == QN_S_SELECT || c->op == QN_S_BITCAST;
  if (got == want || moves || !qn_dtype_is_float(c->result))
    return got == want;
  return isnan(number(c->result, got)) && isnan(number(c->result, want));
}

static void run(const combo *c, qn_native_entry entry, uint32_t lanes) {
  kit_memory m = kit_memory_make();
  uint64_t state = (uint64_t)c->op * 1000 + (uint64_t)c->operand, in[CASES][3];
  bool chooses = c->op == QN_S_SELECT;
  int arity = qn_sop_arity(c->op), bad = 0;
  for (unsigned i = 0; i < CASES; ++i) {
    for (unsigned s = 0; s < 3; ++s)
      in[i][s] = draw(chooses && s == 0 ? QN_BOOL : c->operand, i, s, &state);
    make_legal(c, in[i]);
    for (int s = 0; s < arity; ++s) {
      size_t size = qn_dtype_size(chooses && s == 0 ? QN_BOOL : c->operand);
      memcpy(m.bytes[s] + i * size, &in[i][s], size);
    }
  }
  void *bindings[KIT_BINDINGS];
  for (int i = 0; i < KIT_BINDINGS; ++i)
    bindings[i] = m.bytes[i];
  const uint32_t params[8] = {CASES / lanes};
  entry(NULL, bindings, params, 0, CASES / lanes);
  for (unsigned i = 0; i < CASES && bad < 4; ++i) {
    uint64_t got = 0, want = qn_scalar_eval(c->op, c->result, c->operand, in[i]);
    size_t size = qn_dtype_size(c->result);
    memcpy(&got, m.bytes[3] + i * size, size);
    bool ok = agree(c, got, want);
    bad += !ok;
    cr_expect(ok, "%s %s -> %s x %u of %llx, %llx, %llx: %llx, expected %llx", qn_sop_name(c->op),
              qn_dtype_name(c->operand), qn_dtype_name(c->result), lanes, (unsigned long long)in[i][0],
              (unsigned long long)in[i][1], (unsigned long long)in[i][2], (unsigned long long)got,
              (unsigned long long)want);
  }
  kit_memory_free(&m);
}

static void check_all(uint32_t lanes) {
  static combo all[MOST];
  static const qn_kernel *kernels[MOST];
  static qn_code_entry entries[MOST];
  qn_code code = {0};
  size_t n = list_combos(all);
  cr_assert(n > 300);
  for (size_t i = 0; i < n; ++i) {
    build(&all[i], lanes);
    kernels[i] = &all[i].t.k;
  }
  QN_ASSERT_OK(qn_llvm_compile(kernels, n, NULL, entries, &code, NULL));
  for (size_t i = 0; i < n; ++i) {
    run(&all[i], entries[i].native, lanes);
    qn_kernel_free(&all[i].t.k);
  }
  code.release(code.owner);
}

Test(llvm_scalar, scalars) { check_all(1); }
Test(llvm_scalar, vectors_of_4) { check_all(4); }
Test(llvm_scalar, vectors_of_16) { check_all(16); }

#else
Test(llvm_scalar, absent) {}
#endif
