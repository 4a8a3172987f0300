/* The recording sink: keeps an expansion as a list of operations without duplicates, and runs it over arrays a block
 * of lanes at a time. Common pairs of operation and dtype have a loop of their own that the compiler vectorises; the
 * rest go through qn_scalar_eval. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quern/scalar.h"

enum { BLOCK = 512, NO_REGISTER = -1 };

typedef void (*lane_fn)(void *d, const void *a, const void *b, const void *c, size_t n);

struct qn_host_instr {
  uint8_t op, dtype, operand, count;
  int32_t input; /* index of the input, -1 if this is an operation */
  int32_t reg;
  uint32_t in[3]; /* value ids */
  uint64_t imm;
  lane_fn fn;
};

/* ---- loops ---- */

#define LANES1(name, T, R, expr)                                                                                       \
  static void name(void *d, const void *pa, const void *pb, const void *pc, size_t n) {                                \
    R *restrict y = d;                                                                                                 \
    const T *a = pa;                                                                                                   \
    (void)pb, (void)pc;                                                                                                \
    for (size_t i = 0; i < n; ++i)                                                                                     \
      y[i] = (R)(expr);                                                                                                \
  }
#define LANES2(name, T, R, expr)                                                                                       \
  static void name(void *d, const void *pa, const void *pb, const void *pc, size_t n) {                                \
    R *restrict y = d;                                                                                                 \
    const T *a = pa, *b = pb;                                                                                          \
    (void)pc;                                                                                                          \
    for (size_t i = 0; i < n; ++i)                                                                                     \
      y[i] = (R)(expr);                                                                                                \
  }
#define FLOAT_LANES(t, T, U, SIGN, suffix)                                                                             \
  LANES2(add_##t, T, T, a[i] + b[i])                                                                                   \
  LANES2(sub_##t, T, T, a[i] - b[i])                                                                                   \
  LANES2(mul_##t, T, T, a[i] * b[i])                                                                                   \
  LANES2(div_##t, T, T, a[i] / b[i])                                                                                   \
  LANES1(neg_##t, U, U, a[i] ^ SIGN)                                                                                   \
  LANES1(abs_##t, U, U, a[i] & ~SIGN)                                                                                  \
  LANES1(sqrt_##t, T, T, sqrt##suffix(a[i]))                                                                           \
  LANES1(floor_##t, T, T, floor##suffix(a[i]))                                                                         \
  LANES1(ceil_##t, T, T, ceil##suffix(a[i]))                                                                           \
  LANES1(trunc_##t, T, T, trunc##suffix(a[i]))                                                                         \
  LANES1(rint_##t, T, T, rint##suffix(a[i]))                                                                           \
  static void fma_##t(void *d, const void *pa, const void *pb, const void *pc, size_t n) {                             \
    T *restrict y = d;                                                                                                 \
    const T *a = pa, *b = pb, *c = pc;                                                                                 \
    for (size_t i = 0; i < n; ++i)                                                                                     \
      y[i] = fma##suffix(a[i], b[i], c[i]);                                                                            \
  }
#define COMPARE_LANES(t, T)                                                                                            \
  LANES2(eq_##t, T, uint8_t, a[i] == b[i])                                                                             \
  LANES2(ne_##t, T, uint8_t, a[i] != b[i])                                                                             \
  LANES2(lt_##t, T, uint8_t, a[i] < b[i])                                                                              \
  LANES2(le_##t, T, uint8_t, a[i] <= b[i])
#define INT_LANES(bits, U)                                                                                             \
  LANES2(add_u##bits, U, U, a[i] + b[i])                                                                               \
  LANES2(sub_u##bits, U, U, a[i] - b[i])                                                                               \
  LANES2(mul_u##bits, U, U, a[i] * b[i])                                                                               \
  LANES2(and_u##bits, U, U, a[i] & b[i])                                                                               \
  LANES2(or_u##bits, U, U, a[i] | b[i])                                                                                \
  LANES2(xor_u##bits, U, U, a[i] ^ b[i])                                                                               \
  LANES2(shl_u##bits, U, U, a[i] << (b[i] & ((bits)-1)))                                                               \
  LANES2(shr_u##bits, U, U, a[i] >> (b[i] & ((bits)-1)))                                                               \
  static void select_##bits(void *d, const void *pa, const void *pb, const void *pc, size_t n) {                       \
    U *restrict y = d;                                                                                                 \
    const uint8_t *p = pa;                                                                                             \
    const U *b = pb, *c = pc;                                                                                          \
    for (size_t i = 0; i < n; ++i)                                                                                     \
      y[i] = p[i] ? b[i] : c[i];                                                                                       \
  }

FLOAT_LANES(f32, float, uint32_t, UINT32_C(0x80000000), f)
FLOAT_LANES(f64, double, uint64_t, UINT64_C(0x8000000000000000), )
COMPARE_LANES(f32, float)
COMPARE_LANES(f64, double)
COMPARE_LANES(u32, uint32_t)
COMPARE_LANES(i32, int32_t)
COMPARE_LANES(u64, uint64_t)
COMPARE_LANES(i64, int64_t)
INT_LANES(32, uint32_t)
INT_LANES(64, uint64_t)
LANES2(shr_i32, int32_t, int32_t, a[i] >> (b[i] & 31))
LANES2(shr_i64, int64_t, int64_t, a[i] >> (b[i] & 63))
LANES2(mulhi_u32, uint32_t, uint32_t, (uint64_t)a[i] * b[i] >> 32)
LANES2(and_bool, uint8_t, uint8_t, a[i] & b[i])
LANES2(or_bool, uint8_t, uint8_t, a[i] | b[i])
LANES2(xor_bool, uint8_t, uint8_t, a[i] ^ b[i])
LANES1(not_bool, uint8_t, uint8_t, !a[i])
LANES1(copy_32, uint32_t, uint32_t, a[i])
LANES1(copy_64, uint64_t, uint64_t, a[i])
LANES1(i32_to_f32, int32_t, float, a[i])
LANES1(u32_to_f32, uint32_t, float, a[i])
LANES1(f32_to_i32, float, int32_t, a[i])
LANES1(i64_to_f64, int64_t, double, a[i])
LANES1(f64_to_i64, double, int64_t, a[i])
LANES1(f32_to_f64, float, double, a[i])
LANES1(f64_to_f32, double, float, a[i])

static const lane_fn f32_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_f32,      [QN_S_SUB] = sub_f32,   [QN_S_MUL] = mul_f32,     [QN_S_DIV] = div_f32,
    [QN_S_FMA] = fma_f32,      [QN_S_NEG] = neg_f32,   [QN_S_ABS] = abs_f32,     [QN_S_SQRT] = sqrt_f32,
    [QN_S_FLOOR] = floor_f32,  [QN_S_CEIL] = ceil_f32, [QN_S_TRUNC] = trunc_f32, [QN_S_RINT] = rint_f32,
    [QN_S_EQ] = eq_f32,        [QN_S_NE] = ne_f32,     [QN_S_LT] = lt_f32,       [QN_S_LE] = le_f32,
    [QN_S_SELECT] = select_32,
};
static const lane_fn f64_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_f64,      [QN_S_SUB] = sub_f64,   [QN_S_MUL] = mul_f64,     [QN_S_DIV] = div_f64,
    [QN_S_FMA] = fma_f64,      [QN_S_NEG] = neg_f64,   [QN_S_ABS] = abs_f64,     [QN_S_SQRT] = sqrt_f64,
    [QN_S_FLOOR] = floor_f64,  [QN_S_CEIL] = ceil_f64, [QN_S_TRUNC] = trunc_f64, [QN_S_RINT] = rint_f64,
    [QN_S_EQ] = eq_f64,        [QN_S_NE] = ne_f64,     [QN_S_LT] = lt_f64,       [QN_S_LE] = le_f64,
    [QN_S_SELECT] = select_64,
};
static const lane_fn u32_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_u32, [QN_S_SUB] = sub_u32, [QN_S_MUL] = mul_u32,     [QN_S_AND] = and_u32,      [QN_S_OR] = or_u32,
    [QN_S_XOR] = xor_u32, [QN_S_SHL] = shl_u32, [QN_S_SHR] = shr_u32,     [QN_S_EQ] = eq_u32,        [QN_S_NE] = ne_u32,
    [QN_S_LT] = lt_u32,   [QN_S_LE] = le_u32,   [QN_S_MULHI] = mulhi_u32, [QN_S_SELECT] = select_32,
};
static const lane_fn i32_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_u32, [QN_S_SUB] = sub_u32, [QN_S_MUL] = mul_u32,      [QN_S_AND] = and_u32, [QN_S_OR] = or_u32,
    [QN_S_XOR] = xor_u32, [QN_S_SHL] = shl_u32, [QN_S_SHR] = shr_i32,      [QN_S_EQ] = eq_i32,   [QN_S_NE] = ne_i32,
    [QN_S_LT] = lt_i32,   [QN_S_LE] = le_i32,   [QN_S_SELECT] = select_32,
};
static const lane_fn u64_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_u64, [QN_S_SUB] = sub_u64, [QN_S_MUL] = mul_u64,      [QN_S_AND] = and_u64, [QN_S_OR] = or_u64,
    [QN_S_XOR] = xor_u64, [QN_S_SHL] = shl_u64, [QN_S_SHR] = shr_u64,      [QN_S_EQ] = eq_u64,   [QN_S_NE] = ne_u64,
    [QN_S_LT] = lt_u64,   [QN_S_LE] = le_u64,   [QN_S_SELECT] = select_64,
};
static const lane_fn i64_fns[QN_S_COUNT] = {
    [QN_S_ADD] = add_u64, [QN_S_SUB] = sub_u64, [QN_S_MUL] = mul_u64,      [QN_S_AND] = and_u64, [QN_S_OR] = or_u64,
    [QN_S_XOR] = xor_u64, [QN_S_SHL] = shl_u64, [QN_S_SHR] = shr_i64,      [QN_S_EQ] = eq_i64,   [QN_S_NE] = ne_i64,
    [QN_S_LT] = lt_i64,   [QN_S_LE] = le_i64,   [QN_S_SELECT] = select_64,
};
static const lane_fn bool_fns[QN_S_COUNT] = {
    [QN_S_AND] = and_bool, [QN_S_OR] = or_bool, [QN_S_XOR] = xor_bool, [QN_S_NOT] = not_bool};
static const lane_fn *const fns[QN_DTYPE_COUNT] = {
    [QN_BOOL] = bool_fns, [QN_F32] = f32_fns, [QN_F64] = f64_fns, [QN_U32] = u32_fns,
    [QN_I32] = i32_fns,   [QN_U64] = u64_fns, [QN_I64] = i64_fns,
};
static const lane_fn converts[QN_DTYPE_COUNT][QN_DTYPE_COUNT] = {
    [QN_I32][QN_F32] = i32_to_f32, [QN_U32][QN_F32] = u32_to_f32, [QN_F32][QN_I32] = f32_to_i32,
    [QN_I64][QN_F64] = i64_to_f64, [QN_F64][QN_I64] = f64_to_i64, [QN_F32][QN_F64] = f32_to_f64,
    [QN_F64][QN_F32] = f64_to_f32,
};

static lane_fn find_lanes(const qn_host_instr *c) {
  if (c->op == QN_S_CONVERT)
    return converts[c->operand][c->dtype];
  if (c->op == QN_S_BITCAST)
    return qn_dtype_size((qn_dtype)c->dtype) == 4 ? copy_32 : qn_dtype_size((qn_dtype)c->dtype) == 8 ? copy_64 : NULL;
  return fns[c->operand] ? fns[c->operand][c->op] : NULL;
}

/* ---- recording ---- */

static uint32_t hash_instr(const qn_host_instr *c) {
  uint64_t h = c->op | (uint64_t)c->dtype << 8 | (uint64_t)(uint32_t)c->input << 16;
  h = (h ^ c->imm) * UINT64_C(0x9e3779b97f4a7c15);
  for (int i = 0; i < 3; ++i)
    h = (h ^ h >> 29 ^ c->in[i]) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(h >> 32);
}

static bool same_instr(const qn_host_instr *a, const qn_host_instr *b) {
  return a->op == b->op && a->dtype == b->dtype && a->input == b->input && a->imm == b->imm &&
         !memcmp(a->in, b->in, sizeof a->in);
}

static bool grow(qn_host_program *p) {
  uint32_t capacity = p->capacity ? 2 * p->capacity : 256;
  qn_host_instr *code = realloc(p->code, capacity * sizeof *code);
  if (code)
    p->code = code;
  uint32_t *table = calloc((size_t)4 * capacity, sizeof *table);
  if (!code || !table) {
    free(table);
    return false;
  }
  free(p->table);
  p->table = table;
  p->table_size = 4 * capacity;
  p->capacity = capacity;
  for (uint32_t i = 0; i < p->count; ++i) {
    uint32_t slot = hash_instr(&code[i]) % p->table_size;
    while (table[slot])
      slot = (slot + 1) % p->table_size;
    table[slot] = i + 1;
  }
  return true;
}

static qn_sval record(qn_host_program *p, const qn_host_instr *c) {
  if (p->count == p->capacity && !grow(p)) {
    p->failed = true;
    return (qn_sval){0};
  }
  uint32_t slot = hash_instr(c) % p->table_size;
  for (; p->table[slot]; slot = (slot + 1) % p->table_size)
    if (same_instr(&p->code[p->table[slot] - 1], c))
      return (qn_sval){p->table[slot]};
  p->code[p->count] = *c;
  p->table[slot] = ++p->count;
  return (qn_sval){p->count};
}

static qn_dtype program_dtype(const qn_sink *s, qn_sval v) {
  const qn_host_program *p = (const qn_host_program *)s;
  return v.id > 0 && v.id <= p->count ? (qn_dtype)p->code[v.id - 1].dtype : QN_DTYPE_NONE;
}

static qn_sval program_emit(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm) {
  qn_host_program *p = (qn_host_program *)s;
  qn_host_instr c = {.op = (uint8_t)op, .dtype = (uint8_t)result, .count = (uint8_t)count, .input = -1, .imm = imm};
  uint64_t values[3] = {0};
  bool constant = op != QN_S_CONST;
  for (int i = 0; i < count; ++i) {
    if (in[i].id == 0 || in[i].id > p->count) {
      p->failed = true;
      return (qn_sval){0};
    }
    const qn_host_instr *arg = &p->code[in[i].id - 1];
    constant = constant && arg->op == QN_S_CONST && arg->input < 0;
    values[i] = arg->imm;
    c.in[i] = in[i].id;
  }
  if (count)
    c.operand = (uint8_t)program_dtype(s, in[op == QN_S_SELECT ? 1 : 0]);
  if (constant) {
    imm = qn_scalar_eval(op, result, (qn_dtype)c.operand, values);
    c = (qn_host_instr){.op = QN_S_CONST, .dtype = (uint8_t)result, .input = -1, .imm = imm};
  } else if (count) {
    c.fn = find_lanes(&c);
  }
  return record(p, &c);
}

void qn_host_program_init(qn_host_program *p) {
  memset(p, 0, sizeof *p);
  p->base.emit = program_emit;
  p->base.dtype = program_dtype;
}

qn_sval qn_host_program_input(qn_host_program *p, qn_dtype t) {
  qn_host_instr c = {.op = QN_S_CONST, .dtype = (uint8_t)t, .input = (int32_t)p->inputs++};
  return record(p, &c);
}

/* Marks what the result needs and gives values registers, reused after their last reader. */
bool qn_host_program_finish(qn_host_program *p, qn_sval result) {
  if (p->failed || result.id == 0 || result.id > p->count)
    return false;
  uint32_t *last = calloc(p->count, sizeof *last);
  int32_t *pool = malloc(p->count * sizeof *pool);
  free(p->order);
  p->order = malloc(p->count * sizeof *p->order);
  if (!last || !pool || !p->order) {
    free(last);
    free(pool);
    return false;
  }
  p->result = result.id;
  p->order_count = p->registers = 0;
  last[result.id - 1] = p->count + 1;
  for (uint32_t i = p->count; i-- > 0;)
    for (int j = 0; last[i] && j < p->code[i].count; ++j)
      if (!last[p->code[i].in[j] - 1])
        last[p->code[i].in[j] - 1] = i + 1;
  uint32_t spare = 0;
  for (uint32_t i = 0; i < p->count; ++i) {
    qn_host_instr *c = &p->code[i];
    c->reg = NO_REGISTER;
    if (!last[i])
      continue;
    p->order[p->order_count++] = i;
    if (c->input < 0) /* a constant's register is its own, for it is filled once */
      c->reg = spare && c->op != QN_S_CONST ? pool[--spare] : (int32_t)p->registers++;
    for (int j = 0; j < c->count; ++j) {
      uint32_t k = c->in[j] - 1;
      bool again = (j > 0 && c->in[0] == c->in[j]) || (j > 1 && c->in[1] == c->in[j]);
      if (last[k] == i + 1 && !again && p->code[k].input < 0 && p->code[k].op != QN_S_CONST)
        pool[spare++] = p->code[k].reg;
    }
  }
  free(last);
  free(pool);
  return true;
}

uint32_t qn_host_program_ops(const qn_host_program *p) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->order_count; ++i)
    n += p->code[p->order[i]].op != QN_S_CONST && p->code[p->order[i]].op != QN_S_BITCAST;
  return n;
}

/* ---- running ---- */

static uint64_t load(const void *base, qn_dtype t, size_t i) {
  uint64_t x = 0;
  size_t size = t == QN_BOOL ? 1 : qn_dtype_size(t);
  memcpy(&x, (const char *)base + i * size, size);
  return x;
}

static void run_slow(const qn_host_instr *c, void *d, const void *const *in, const qn_dtype *types, size_t n) {
  size_t size = c->dtype == QN_BOOL ? 1 : qn_dtype_size((qn_dtype)c->dtype);
  for (size_t i = 0; i < n; ++i) {
    uint64_t values[3] = {0};
    for (int j = 0; j < c->count; ++j)
      values[j] = load(in[j], types[j], i);
    uint64_t y =
        c->op == QN_S_CONST ? c->imm : qn_scalar_eval((qn_sop)c->op, (qn_dtype)c->dtype, (qn_dtype)c->operand, values);
    memcpy((char *)d + i * size, &y, size);
  }
}

static const void *lanes_of(const qn_host_program *p, uint32_t id, char *regs, const void *const *in, size_t first) {
  const qn_host_instr *c = &p->code[id - 1];
  if (c->input >= 0)
    return (const char *)in[c->input] + first * (c->dtype == QN_BOOL ? 1 : qn_dtype_size((qn_dtype)c->dtype));
  return regs + (size_t)c->reg * BLOCK * 8;
}

bool qn_host_program_run(const qn_host_program *p, const void *const *in, void *out, size_t n) {
  char *regs = malloc(((size_t)p->registers + 1) * BLOCK * 8);
  if (!regs || !p->result) {
    free(regs);
    return false;
  }
  qn_dtype type = (qn_dtype)p->code[p->result - 1].dtype;
  size_t size = type == QN_BOOL ? 1 : qn_dtype_size(type);
  for (size_t first = 0; first < n; first += BLOCK) {
    size_t lanes = n - first < BLOCK ? n - first : BLOCK;
    for (uint32_t i = 0; i < p->order_count; ++i) {
      const qn_host_instr *c = &p->code[p->order[i]];
      if (c->input >= 0 || (c->op == QN_S_CONST && first))
        continue; /* constants keep their registers, filled by the first block */
      const void *args[3] = {NULL, NULL, NULL};
      qn_dtype types[3] = {QN_DTYPE_NONE, QN_DTYPE_NONE, QN_DTYPE_NONE};
      for (int j = 0; j < c->count; ++j) {
        args[j] = lanes_of(p, c->in[j], regs, in, first);
        types[j] = (qn_dtype)p->code[c->in[j] - 1].dtype;
      }
      char *d = regs + (size_t)c->reg * BLOCK * 8;
      if (c->fn)
        c->fn(d, args[0], args[1], args[2], lanes);
      else
        run_slow(c, d, args, types, c->op == QN_S_CONST ? BLOCK : lanes);
    }
    memcpy((char *)out + first * size, lanes_of(p, p->result, regs, in, first), lanes * size);
  }
  free(regs);
  return true;
}

void qn_host_program_free(qn_host_program *p) {
  free(p->code);
  free(p->table);
  free(p->order);
  qn_host_program_init(p);
}
