/* Runs a kernel without a compiler. A call decodes the list once into steps with places for all values, then runs group after group. Items of
 * a group run one after another, or, where barriers or local memory tie them together, each up to the next barrier, in turn. */
#include "interp.h"
#include "ir.h"

#include <stdlib.h>
#include <string.h>

typedef struct machine {
  const qn_kernel *k;
  kstep *steps; /* steps[i] for instruction i, and a last one that stops */
  uint8_t *items;
  size_t item_bytes;
  uint32_t *pcs;
  bool lockstep;
} machine;

static inline int64_t int_at(uint8_t dtype, const uint8_t *p) {
  switch (dtype) {
  case QN_I32: {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  case QN_U32: {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  case QN_I64:
  case QN_U64: {
    int64_t x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  case QN_I16: {
    int16_t x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  case QN_U16: {
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
  }
  case QN_I8:
    return (int8_t)*p;
  default:
    return *p;
  }
}

static void int_put(size_t size, uint8_t *p, int64_t x) {
  uint8_t b8 = (uint8_t)x;
  uint16_t b16 = (uint16_t)x;
  uint32_t b32 = (uint32_t)x;
  const void *from = size == 1   ? (const void *)&b8
                     : size == 2 ? (const void *)&b16
                     : size == 4 ? (const void *)&b32
                                 : &x;
  memcpy(p, from, size);
}

/* ---- steps that only move ---- */

static inline void move(uint8_t *to, const uint8_t *from, size_t n) {
  switch (n) { /* the usual sizes without a call */
  case 4:
    memcpy(to, from, 4);
    break;
  case 8:
    memcpy(to, from, 8);
    break;
  case 16:
    memcpy(to, from, 16);
    break;
  case 32:
    memcpy(to, from, 32);
    break;
  case 64:
    memcpy(to, from, 64);
    break;
  default:
    memcpy(to, from, n);
    break;
  }
}

static void do_splat(const kstep *s, uint8_t *base) {
  if (s->size == 4) {
    uint32_t x, *out = (uint32_t *)(void *)(base + s->dst);
    memcpy(&x, base + s->a, 4);
    for (unsigned i = 0; i < s->lanes; ++i)
      out[i] = x;
    return;
  }
  for (unsigned i = 0; i < s->lanes; ++i)
    move(base + s->dst + i * (size_t)s->size, base + s->a, s->size);
}

static void do_part(const kstep *s, uint8_t *base) { /* EXTRACT, LOW, HIGH: `imm` is the first lane */
  move(base + s->dst, base + s->a + s->imm * s->size, (size_t)s->size * s->lanes);
}

static void do_join(const kstep *s, uint8_t *base) {
  size_t n = (size_t)s->size * s->lanes / 2;
  move(base + s->dst, base + s->a, n);
  move(base + s->dst + n, base + s->b, n);
}

static void do_copy(const kstep *s, uint8_t *base) { move(base + s->dst, base + s->a, (size_t)s->size * s->lanes); }

static uint8_t *array_at(const kstep *s, uint8_t *base) {
  uint8_t *start = s->memory ? s->memory : base + s->a;
  return start + int_at(s->index, base + s->b) * (int64_t)s->size;
}

static void do_aload(const kstep *s, uint8_t *base) {
  move(base + s->dst, array_at(s, base), (size_t)s->size * s->lanes);
}
static void do_astore(const kstep *s, uint8_t *base) {
  move(array_at(s, base), base + s->c, (size_t)s->size * s->lanes);
}

static uint8_t *memory_at(const kstep *s, uint8_t *base, unsigned lane) {
  return s->memory + int_at(s->index, base + s->b + lane * (size_t)s->index_size) * (int64_t)s->size;
}

static void truth(uint8_t *p, unsigned lanes) { /* any byte but 0 in memory is true */
  for (unsigned i = 0; i < lanes; ++i)
    p[i] = p[i] != 0;
}

static void do_load(const kstep *s, uint8_t *base) {
  size_t n = (size_t)s->size * s->lanes;
  if (s->masked && !base[s->c])
    memset(base + s->dst, 0, n);
  else
    move(base + s->dst, memory_at(s, base, 0), n);
  if (s->dtype == QN_BOOL)
    truth(base + s->dst, s->lanes);
}

static void do_store(const kstep *s, uint8_t *base) {
  if (!s->masked || base[s->d])
    move(memory_at(s, base, 0), base + s->c, (size_t)s->size * s->lanes);
}

static void do_gather(const kstep *s, uint8_t *base) {
  for (unsigned i = 0; i < s->lanes; ++i) {
    uint8_t *to = base + s->dst + i * (size_t)s->size;
    if (s->masked && !base[s->c + i])
      memset(to, 0, s->size);
    else
      move(to, memory_at(s, base, i), s->size);
  }
  if (s->dtype == QN_BOOL)
    truth(base + s->dst, s->lanes);
}

static void do_scatter(const kstep *s, uint8_t *base) {
  for (unsigned i = 0; i < s->lanes; ++i)
    if (!s->masked || base[s->d + i])
      move(memory_at(s, base, i), base + s->c + i * (size_t)s->size, s->size);
}

static void do_atomic(const kstep *s, uint8_t *base) {
  uint32_t x;
  if (s->masked && !base[s->d])
    return;
  memcpy(&x, base + s->c, sizeof x);
  uint32_t *word = (uint32_t *)(void *)memory_at(s, base, 0);
  if (s->kop == QN_K_ATOMIC_OR)
    __atomic_fetch_or(word, x, __ATOMIC_RELAXED);
  else
    __atomic_fetch_and(word, x, __ATOMIC_RELAXED);
}

static const kstep_fn functions[QN_K_COUNT] = {
    [QN_K_SPLAT] = do_splat,   [QN_K_EXTRACT] = do_part,    [QN_K_LOW] = do_part,          [QN_K_HIGH] = do_part,
    [QN_K_JOIN] = do_join,     [QN_K_VAR] = do_copy,        [QN_K_GET] = do_copy,          [QN_K_SET] = do_copy,
    [QN_K_ALOAD] = do_aload,   [QN_K_ASTORE] = do_astore,   [QN_K_LOAD] = do_load,         [QN_K_STORE] = do_store,
    [QN_K_GATHER] = do_gather, [QN_K_SCATTER] = do_scatter, [QN_K_ATOMIC_AND] = do_atomic, [QN_K_ATOMIC_OR] = do_atomic,
};

/* ---- decoding ---- */

typedef struct layout {
  uint32_t *place; /* per value: bytes from an item's base; local arrays: from the local block */
  size_t item_bytes, local_bytes;
  bool lockstep;
} layout;

static void lay_out(const qn_kernel *k, layout *l) {
  for (size_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    l->lockstep = l->lockstep || in->kop == QN_K_BARRIER || (in->kop == QN_K_ARRAY && in->aux);
    if (!qn_kop_infos[in->kop].value)
      continue;
    size_t bytes = qn_dtype_size((qn_dtype)in->dtype) * (in->kop == QN_K_ARRAY ? (size_t)in->imm : in->lanes);
    size_t *end = in->kop == QN_K_ARRAY && in->aux ? &l->local_bytes : &l->item_bytes;
    l->place[i] = (uint32_t)*end;
    *end += (bytes + 15) / 16 * 16;
  }
}

/* Fields by operand, which differ between kinds in what they are. */
static void decode_inst(const qn_kernel *k, uint32_t i, const layout *l, uint8_t *local, uint8_t *const *bases,
                        kstep *s) {
  const qn_kinst *in = &k->insts[i];
  const qn_kinst *insts = k->insts;
  *s = (kstep){.kop = in->kop,
               .sop = in->sop,
               .dtype = in->dtype,
               .lanes = in->lanes,
               .imm = in->imm,
               .dst = l->place[i],
               .a = l->place[in->a],
               .b = l->place[in->b],
               .c = l->place[in->c],
               .d = l->place[in->d],
               .fn = functions[in->kop]};
  s->size = (uint16_t)qn_dtype_size((qn_dtype)in->dtype);
  s->index = insts[in->b].dtype;
  s->index_size = (uint8_t)qn_dtype_size((qn_dtype)s->index);
  switch (in->kop) {
  case QN_K_SCALAR:
    s->operand = insts[in->sop == QN_S_SELECT ? in->b : in->a].dtype;
    s->fn = in->sop == QN_S_CONST ? NULL : qn_interp_scalar((qn_sop)in->sop, (qn_dtype)in->dtype, (qn_dtype)s->operand);
    break;
  case QN_K_LOW:
    s->imm = 0;
    break;
  case QN_K_HIGH:
    s->imm = in->lanes;
    break;
  case QN_K_SET:
    s->dst = l->place[in->a];
    s->a = l->place[in->b];
    s->lanes = insts[in->a].lanes;
    s->size = (uint16_t)qn_dtype_size((qn_dtype)insts[in->a].dtype);
    break;
  case QN_K_ALOAD:
  case QN_K_ASTORE:
    s->memory = insts[in->a].aux ? local + l->place[in->a] : NULL;
    s->size = (uint16_t)qn_dtype_size((qn_dtype)insts[in->a].dtype);
    s->lanes = in->kop == QN_K_ALOAD ? in->lanes : insts[in->c].lanes;
    break;
  case QN_K_LOAD:
  case QN_K_GATHER:
    s->memory = bases[in->aux];
    s->masked = in->c != 0;
    break;
  case QN_K_STORE:
  case QN_K_SCATTER:
  case QN_K_ATOMIC_AND:
  case QN_K_ATOMIC_OR:
    s->memory = bases[in->aux];
    s->masked = in->d != 0;
    s->size = (uint16_t)qn_dtype_size(k->buffers[in->aux].dtype);
    s->lanes = insts[in->c].lanes;
    break;
  default:
    break;
  }
}

/* Where control goes: an IF behind its ELSE or END, an ELSE behind its END, a LOOP behind its END, a LOOP's END to the LOOP. */
static void link_jumps(const qn_kernel *k, kstep *steps, uint32_t *stack) {
  uint32_t depth = 0;
  for (uint32_t i = 1; i < k->count; ++i) {
    uint8_t op = k->insts[i].kop;
    if (op == QN_K_LOOP || op == QN_K_IF)
      stack[depth++] = i;
    if (op == QN_K_ELSE) {
      steps[stack[depth - 1]].jump = i + 1;
      stack[depth - 1] = i;
    }
    if (op == QN_K_END) {
      uint32_t open = stack[--depth];
      steps[open].jump = i + 1;
      steps[i].jump = k->insts[open].kop == QN_K_LOOP ? open : 0;
    }
  }
}

/* ---- running ---- */

/* Fills what does not change: constants, parameters, iotas. */
static void prepare_item(const machine *m, uint8_t *base, const uint32_t *params) {
  const qn_kernel *k = m->k;
  for (size_t i = 1; i < k->count; ++i) {
    const kstep *s = &m->steps[i];
    if (s->kop == QN_K_SCALAR && s->sop == QN_S_CONST)
      int_put(s->size, base + s->dst, (int64_t)s->imm);
    else if (s->kop == QN_K_PARAM)
      memcpy(base + s->dst, &params[s->imm], 4);
    else if (s->kop == QN_K_IOTA)
      for (unsigned l = 0; l < s->lanes; ++l)
        int_put(4, base + s->dst + 4 * l, l);
  }
}

static bool loop_goes_on(const kstep *s, uint8_t *base, int64_t index) {
  int64_t end = int_at(s->dtype, base + s->b);
  bool on = s->dtype == QN_U64 ? (uint64_t)index < (uint64_t)end : index < end;
  if (on)
    int_put(s->size, base + s->dst, index);
  return on;
}

/* From pc to the end or past the next barrier; the new pc, 0 at the end. */
static uint32_t run_item(const machine *m, uint8_t *base, uint32_t group, uint32_t item, uint32_t pc) {
  for (;;) {
    const kstep *s = &m->steps[pc];
    if (s->fn) {
      s->fn(s, base);
      ++pc;
      continue;
    }
    switch (s->kop) {
    case QN_K_COUNT:
      return 0;
    case QN_K_BARRIER:
      return pc + 1;
    case QN_K_GROUP:
      memcpy(base + s->dst, &group, 4);
      ++pc;
      break;
    case QN_K_ITEM:
      memcpy(base + s->dst, &item, 4);
      ++pc;
      break;
    case QN_K_LOOP:
      pc = loop_goes_on(s, base, int_at(s->dtype, base + s->a)) ? pc + 1 : s->jump;
      break;
    case QN_K_IF:
      pc = base[s->a] & 1 ? pc + 1 : s->jump;
      break;
    case QN_K_ELSE:
      pc = s->jump;
      break;
    case QN_K_END:
      if (s->jump) {
        const kstep *loop = &m->steps[s->jump];
        int64_t index = int_at(loop->dtype, base + loop->dst), next;
        bool over = __builtin_add_overflow(index, (int64_t)loop->imm, &next);
        pc = !over && loop_goes_on(loop, base, next) ? s->jump + 1 : pc + 1;
      } else {
        ++pc;
      }
      break;
    default:
      ++pc;
      break;
    }
  }
}

static void run_group(const machine *m, uint32_t group) {
  uint32_t n = m->k->items;
  if (!m->lockstep) {
    for (uint32_t item = 0; item < n; ++item)
      run_item(m, m->items, group, item, 1);
    return;
  }
  for (uint32_t item = 0; item < n; ++item)
    m->pcs[item] = 1;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t item = 0; item < n; ++item)
      if (m->pcs[item]) {
        m->pcs[item] = run_item(m, m->items + item * m->item_bytes, group, item, m->pcs[item]);
        more = more || m->pcs[item];
      }
  }
}

static uint8_t *view_base(const qn_kbuffer *b, void *const *bindings, const uint32_t *params) {
  uint64_t offset = params[b->offset_param];
  offset = b->offset_shift >= 0 ? offset << b->offset_shift : offset >> -b->offset_shift;
  return (uint8_t *)bindings[b->binding] + offset * qn_dtype_size(b->dtype);
}

static size_t up16(size_t n) { return (n + 15) / 16 * 16; }

void qn_kernel_interpret(const void *kernel, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1) {
  const qn_kernel *k = kernel;
  if (g0 >= g1)
    return;
  /* Two blocks: the places, which size the rest, then everything else. */
  layout l = {.place = calloc(k->count, sizeof *l.place)};
  QN_CHECK(l.place != NULL);
  lay_out(k, &l);
  size_t copies = l.lockstep ? k->items : 1;
  size_t steps = up16((k->count + 1) * sizeof(kstep)), bases = up16((k->buffer_count + 1) * sizeof(uint8_t *));
  size_t pcs = up16((k->items + k->count) * sizeof(uint32_t)), values = up16(l.item_bytes + 16);
  uint8_t *block = malloc(steps + bases + pcs + values * copies + up16(l.local_bytes + 16));
  QN_CHECK(block != NULL);
  machine m = {.k = k, .steps = (kstep *)(void *)block, .item_bytes = values, .lockstep = l.lockstep};
  uint8_t **views = (uint8_t **)(void *)(block + steps);
  m.pcs = (uint32_t *)(void *)(block + steps + bases);
  m.items = block + steps + bases + pcs;
  uint8_t *local = m.items + values * copies;
  for (size_t i = 0; i < k->buffer_count; ++i)
    views[i] = view_base(&k->buffers[i], bindings, params);
  for (uint32_t i = 1; i < k->count; ++i)
    decode_inst(k, i, &l, local, views, &m.steps[i]);
  m.steps[k->count] = (kstep){.kop = QN_K_COUNT};
  link_jumps(k, m.steps, m.pcs + k->items);
  for (size_t i = 0; i < copies; ++i)
    prepare_item(&m, m.items + i * values, params);
  for (uint32_t g = g0; g < g1; ++g)
    run_group(&m, g);
  free(block);
  free(l.place);
}
