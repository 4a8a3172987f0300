/* Compiled kernels against the interpreter, byte for byte: control flow and variables, masks, gathers and scatters,
 * arrays, vector parts, offsets, expansions, and random programs. */
#include "expect.h"

#ifdef QN_HAVE_LLVM
#include "llvm_kit.h"

static const qn_dtype floats_and_ints[KIT_BINDINGS] = {QN_F32, QN_I32, QN_F32, QN_I32, QN_DTYPE_NONE};

/* Bindings 0 and 2 hold small floats, 1 and 3 small integers. */
static kit_memory fill(uint64_t seed) {
  kit_memory m = kit_memory_make();
  for (unsigned i = 0; i < KIT_BYTES / 4; ++i) {
    float x = (float)(int)(kit_random(&seed) % 2001 - 1000) * 0.01f;
    int32_t n = (int32_t)(kit_random(&seed) % 64);
    memcpy(m.bytes[0] + 4 * i, &x, 4);
    memcpy(m.bytes[1] + 4 * i, &n, 4);
  }
  return m;
}

/* Sums rows whose lengths come from memory, so that loops run 0, 1 and many times, with a loop inside a loop and two
 * variables. */
static void sum_rows(uint32_t lanes) {
  kit t;
  kit_memory m = fill(lanes);
  kit_begin(&t, floats_and_ints);
  qn_sink *s = &t.b.sink;
  qn_sval g = kit_group(&t), zero = qs_const(s, QN_F32, 0);
  qn_sval sum = qn_kb_var(&t.b, lanes > 1 ? qn_kb_splat(&t.b, zero, lanes) : zero),
          count = qn_kb_var(&t.b, kit_i32(&t, 0));
  qn_sval rows = qs_and(s, qn_kb_load(&t.b, t.buffers[1], g, 1, kit_none), kit_i32(&t, 3));
  qn_sval length =
      qs_and(s, qn_kb_load(&t.b, t.buffers[1], qs_add(s, g, kit_i32(&t, 100)), 1, kit_none), kit_i32(&t, 7));
  qn_sval i = qn_kb_loop(&t.b, kit_i32(&t, 0), rows, 1, false);
  qn_sval j = qn_kb_loop(&t.b, kit_i32(&t, 1), length, 2, true);
  qn_sval at = qs_mul(s, qs_add(s, qs_mul(s, i, kit_i32(&t, 8)), j), kit_i32(&t, (int32_t)lanes));
  qn_kb_set(&t.b, sum, qs_add(s, qn_kb_get(&t.b, sum), qn_kb_load(&t.b, t.buffers[0], at, lanes, kit_none)));
  qn_kb_set(&t.b, count, qs_add(s, qn_kb_get(&t.b, count), kit_i32(&t, 1)));
  qn_kb_close(&t.b);
  qn_kb_set(&t.b, count, qs_add(s, qn_kb_get(&t.b, count), kit_i32(&t, 100)));
  qn_kb_close(&t.b);
  qn_kb_store(&t.b, t.buffers[2], qs_mul(s, g, kit_i32(&t, (int32_t)lanes)), qn_kb_get(&t.b, sum), kit_none);
  qn_kb_store(&t.b, t.buffers[3], g, qn_kb_get(&t.b, count), kit_none);
  kit_compare(&t, "rows", &m, NULL, 0, 61);
  kit_memory_free(&m);
}

Test(llvm_kernels, loops) {
  sum_rows(1);
  sum_rows(8);
  sum_rows(16);
}

Test(llvm_kernels, branches) {
  kit t;
  kit_memory m = fill(7);
  kit_begin(&t, floats_and_ints);
  qn_sink *s = &t.b.sink;
  qn_sval g = kit_group(&t), x = qn_kb_load(&t.b, t.buffers[1], g, 1, kit_none);
  qn_sval a = qn_kb_var(&t.b, x), c = qn_kb_var(&t.b, kit_i32(&t, 5));
  qn_kb_if(&t.b, qs_lt(s, x, kit_i32(&t, 40)));
  qn_kb_set(&t.b, a, qs_add(s, x, kit_i32(&t, 1)));
  qn_kb_if(&t.b, qs_lt(s, x, kit_i32(&t, 20)));
  qn_kb_set(&t.b, a, qs_mul(s, qn_kb_get(&t.b, a), kit_i32(&t, 3)));
  qn_kb_close(&t.b);
  qn_kb_else(&t.b);
  (void)qn_kb_loop(&t.b, kit_i32(&t, 40), x, 3, false);
  qn_kb_if(&t.b, qs_eq(s, qs_and(s, qn_kb_get(&t.b, c), kit_i32(&t, 1)), kit_i32(&t, 0)));
  qn_kb_set(&t.b, c, qs_add(s, qn_kb_get(&t.b, c), kit_i32(&t, 7)));
  qn_kb_else(&t.b);
  qn_kb_set(&t.b, c, qs_mul(s, qn_kb_get(&t.b, c), kit_i32(&t, 2)));
  qn_kb_set(&t.b, a, qs_sub(s, qn_kb_get(&t.b, a), kit_i32(&t, 11)));
  qn_kb_close(&t.b);
  qn_kb_close(&t.b);
  qn_kb_close(&t.b);
  qn_kb_store(&t.b, t.buffers[3], g, qs_add(s, qn_kb_get(&t.b, a), qs_mul(s, qn_kb_get(&t.b, c), kit_i32(&t, 1000))),
              kit_none);
  kit_compare(&t, "branches", &m, NULL, 0, 200);
  kit_memory_free(&m);
}

static const qn_dtype element_types[] = {QN_BOOL, QN_I8, QN_U16, QN_F16, QN_BF16, QN_F32, QN_I32, QN_F64, QN_I64};

/* Masked loads, stores, gathers and scatters of each width; indexes beyond the memory where the mask is off. */
static void masked(qn_dtype e, uint32_t lanes, bool consecutive, bool with_mask) {
  kit t;
  kit_memory m = fill(3 + lanes);
  const qn_dtype views[KIT_BINDINGS] = {e, QN_I32, e, QN_BOOL, e};
  kit_begin(&t, views);
  qn_sink *s = &t.b.sink;
  for (unsigned i = 0; i < KIT_BYTES; ++i) {
    m.bytes[3][i] = m.bytes[1][4 * (i % 1024)] % 3 != 0;
    if (e == QN_BOOL)
      m.bytes[0][i] &= 1;
  }
  int32_t n = (int32_t)lanes;
  qn_sval g = kit_group(&t), base = qs_mul(s, g, kit_i32(&t, n));
  qn_sval mask = qn_kb_load(&t.b, t.buffers[3], base, lanes, kit_none), one = qn_kb_extract(&t.b, mask, 1);
  qn_sval index = qs_add(s, qn_kb_iota(&t.b, lanes), qn_kb_splat(&t.b, base, lanes));
  if (!consecutive)
    index = qn_kb_load(&t.b, t.buffers[1], base, lanes, kit_none);
  if (with_mask)
    index = consecutive ? qs_add(s, index, qn_kb_splat(&t.b, kit_i32(&t, 3), lanes))
                        : qs_select(s, mask, index, qn_kb_splat(&t.b, kit_i32(&t, 1 << 30), lanes));
  qn_sval far = qs_select(s, one, base, kit_i32(&t, -(1 << 29)));
  qn_sval x = qn_kb_gather(&t.b, t.buffers[0], index, with_mask ? mask : kit_none);
  qn_sval y = qn_kb_load(&t.b, t.buffers[0], with_mask ? far : base, lanes, with_mask ? one : kit_none);
  qn_kb_scatter(&t.b, t.buffers[2], index, y, with_mask ? mask : kit_none);
  qn_kb_store(&t.b, t.buffers[4], with_mask ? far : base, x, with_mask ? one : kit_none);
  kit_compare(&t, qn_dtype_name(e), &m, NULL, 0, 256 / lanes);
  kit_memory_free(&m);
}

Test(llvm_kernels, memory) {
  for (size_t i = 0; i < sizeof element_types / sizeof *element_types; ++i)
    for (int k = 0; k < 8; ++k)
      masked(element_types[i], k & 1 ? 4 : 16, k & 2, k & 4);
}

/* A scalar masked load and store, and scalar gathers. */
Test(llvm_kernels, scalar_masks) {
  kit t;
  kit_memory m = fill(5);
  kit_begin(&t, floats_and_ints);
  qn_sink *s = &t.b.sink;
  qn_sval g = kit_group(&t), n = qn_kb_load(&t.b, t.buffers[1], g, 1, kit_none), on = qs_lt(s, n, kit_i32(&t, 32));
  qn_sval far = qs_select(s, on, n, kit_i32(&t, 1 << 29));
  qn_sval x = qn_kb_load(&t.b, t.buffers[0], far, 1, on);
  qn_kb_store(&t.b, t.buffers[2], qs_select(s, on, g, kit_i32(&t, 1 << 29)), x, on);
  qn_kb_store(&t.b, t.buffers[2], qs_add(s, g, kit_i32(&t, 1000)), x, kit_none);
  kit_compare(&t, "scalar masks", &m, NULL, 0, 128);
  kit_memory_free(&m);
}

/* Private arrays, items of a group, local memory that needs no barrier. */
Test(llvm_kernels, arrays) {
  kit t;
  kit_memory m = fill(9);
  kit_begin(&t, floats_and_ints);
  t.k.items = 5;
  qn_sink *s = &t.b.sink;
  qn_sval item = qs_convert(s, QN_I32, qn_kb_item(&t.b)),
          at = qs_add(s, qs_mul(s, kit_group(&t), kit_i32(&t, 5)), item);
  qn_sval own = qn_kb_array(&t.b, QN_F32, 16, false), flags = qn_kb_array(&t.b, QN_BOOL, 4, false);
  qn_kb_astore(&t.b, own, kit_i32(&t, 8), qn_kb_load(&t.b, t.buffers[0], qs_mul(s, at, kit_i32(&t, 8)), 8, kit_none));
  qn_sval i = qn_kb_loop(&t.b, kit_i32(&t, 0), kit_i32(&t, 8), 1, false);
  qn_kb_astore(&t.b, own, i, qn_kb_aload(&t.b, own, qs_sub(s, kit_i32(&t, 15), i), 1));
  qn_kb_close(&t.b);
  qn_sval v = qn_kb_aload(&t.b, own, kit_i32(&t, 0), 4), pick = qs_and(s, item, kit_i32(&t, 3));
  qn_kb_astore(&t.b, flags, kit_i32(&t, 0), qs_lt(s, v, qn_kb_splat(&t.b, qs_const(s, QN_F32, 0), 4)));
  qn_sval f = qs_convert(s, QN_F32, qn_kb_aload(&t.b, flags, pick, 1));
  qn_kb_store(&t.b, t.buffers[2], at, qs_add(s, f, qn_kb_aload(&t.b, own, pick, 1)), kit_none);
  kit_compare(&t, "arrays", &m, NULL, 0, 40);
  kit_memory_free(&m);
}

Test(llvm_kernels, vector_parts) {
  kit t;
  kit_memory m = fill(11);
  kit_begin(&t, floats_and_ints);
  qn_sink *s = &t.b.sink;
  qn_sval at = qs_mul(s, kit_group(&t), kit_i32(&t, 16)), v = qn_kb_load(&t.b, t.buffers[0], at, 16, kit_none);
  qn_sval turned = qn_kb_join(&t.b, qn_kb_high(&t.b, v), qn_kb_low(&t.b, v));
  qn_sval sum = qs_add(s, qn_kb_low(&t.b, turned), qn_kb_high(&t.b, v));
  sum = qs_add(s, qn_kb_low(&t.b, sum), qn_kb_high(&t.b, sum));
  sum = qs_add(s, qn_kb_low(&t.b, sum), qn_kb_high(&t.b, sum));
  sum = qs_add(s, qn_kb_low(&t.b, sum), qn_kb_high(&t.b, sum));
  qn_sval pair = qn_kb_join(&t.b, sum, qn_kb_extract(&t.b, v, 13)), mask = qs_lt(s, v, turned);
  qn_kb_store(&t.b, t.buffers[2], at, qs_select(s, mask, turned, qn_kb_splat(&t.b, sum, 16)), kit_none);
  qn_kb_store(&t.b, t.buffers[2], at, pair, qn_kb_extract(&t.b, mask, 3));
  qn_kb_store(&t.b, t.buffers[3], at,
              qs_convert(s, QN_I32, qn_kb_join(&t.b, qn_kb_high(&t.b, mask), qn_kb_low(&t.b, mask))), kit_none);
  kit_compare(&t, "vector parts", &m, NULL, 0, 40);
  kit_memory_free(&m);
}

/* Parameters as loop bounds and strides, unsigned counters, offsets of views. */
Test(llvm_kernels, parameters) {
  kit t;
  kit_memory m = fill(13);
  kit_begin(&t, floats_and_ints);
  qn_sink *s = &t.b.sink;
  const uint32_t extra[] = {9, 3};
  uint32_t word = qn_kb_new_param(&t.b), stride = qn_kb_new_param(&t.b);
  qn_sval sum = qn_kb_var(&t.b, qs_const(s, QN_F32, 0));
  qn_sval i = qn_kb_loop(&t.b, qs_const(s, QN_U32, 0), qn_kb_param(&t.b, word), 2, false);
  qn_sval at = qs_add(s, qs_mul(s, i, qn_kb_param(&t.b, stride)), qn_kb_group(&t.b));
  qn_kb_set(&t.b, sum, qs_add(s, qn_kb_get(&t.b, sum), qn_kb_load(&t.b, t.buffers[0], at, 1, kit_none)));
  qn_kb_close(&t.b);
  qn_kb_store(&t.b, t.buffers[2], qn_kb_group(&t.b), qn_kb_get(&t.b, sum), kit_none);
  kit_compare(&t, "parameters", &m, extra, 2, 100);
  kit_memory_free(&m);
}

static const qn_expand_fn expansions[] = {qn_expand_exp, qn_expand_log,    qn_expand_sin,  qn_expand_tanh,
                                          qn_expand_erf, qn_expand_lgamma, qn_expand_rsqrt};

Test(llvm_kernels, expansions) {
  for (size_t e = 0; e < sizeof expansions / sizeof *expansions; ++e) {
    kit t;
    kit_memory m = fill(17 + e);
    kit_begin(&t, floats_and_ints);
    qn_sval at = qs_mul(&t.b.sink, kit_group(&t), kit_i32(&t, 16)),
            x = qn_kb_load(&t.b, t.buffers[0], at, 16, kit_none);
    qn_kb_store(&t.b, t.buffers[2], at, expansions[e](&t.b.sink, &x, NULL), kit_none);
    kit_compare(&t, "expansion", &m, NULL, 0, 200);
    kit_memory_free(&m);
  }
}

Test(llvm_kernels, atomics) {
  kit t;
  kit_memory m = fill(19);
  const qn_dtype views[KIT_BINDINGS] = {QN_U32, QN_I32, QN_DTYPE_NONE};
  kit_begin(&t, views);
  qn_sink *s = &t.b.sink;
  qn_sval g = kit_group(&t), n = qn_kb_load(&t.b, t.buffers[1], g, 1, kit_none),
          bit = qs_shl(s, qs_const(s, QN_U32, 1), qs_convert(s, QN_U32, qs_and(s, n, kit_i32(&t, 31))));
  qn_kb_atomic(&t.b, true, t.buffers[0], qs_and(s, g, kit_i32(&t, 3)), bit, kit_none);
  qn_kb_atomic(&t.b, false, t.buffers[0], kit_i32(&t, 2), qs_not(s, bit), qs_lt(s, n, kit_i32(&t, 9)));
  kit_compare(&t, "atomics", &m, NULL, 0, 64);
  kit_memory_free(&m);
}

/* ---- random programs ---- */

typedef struct random_program {
  kit t;
  uint64_t state;
  qn_sval ints[64], floats[64], vars[6];
  int int_count, float_count, depth;
} random_program;

static unsigned roll(random_program *p, unsigned n) { return (unsigned)(kit_random(&p->state) % n); }
static qn_sval some_int(random_program *p) { return p->ints[roll(p, (unsigned)p->int_count)]; }
static qn_sval some_float(random_program *p) { return p->floats[roll(p, (unsigned)p->float_count)]; }

static void random_value(random_program *p) {
  static const qn_sop int_ops[] = {QN_S_ADD, QN_S_SUB, QN_S_MUL, QN_S_AND, QN_S_OR, QN_S_XOR, QN_S_MULHI};
  static const qn_sop float_ops[] = {QN_S_ADD, QN_S_SUB, QN_S_MUL, QN_S_FMA, QN_S_ABS, QN_S_FLOOR, QN_S_NEG};
  qn_sink *s = &p->t.b.sink;
  if (roll(p, 2)) {
    qn_sval in[2] = {some_int(p), some_int(p)};
    qn_sval y = s->emit(s, int_ops[roll(p, 7)], QN_I32, in, 2, 0);
    if (roll(p, 4) == 0)
      y = qs_select(s, qs_lt(s, in[0], in[1]), y, in[0]);
    p->ints[p->int_count++ % 64] = y;
  } else {
    qn_sop op = float_ops[roll(p, 7)];
    qn_sval in[3] = {some_float(p), some_float(p), some_float(p)};
    qn_sval y = s->emit(s, op, QN_F32, in, qn_sop_arity(op), 0);
    if (roll(p, 4) == 0)
      y = qs_select(s, qs_lt(s, in[0], in[1]), y, in[2]);
    p->floats[p->float_count++ % 64] = y;
  }
  p->int_count = p->int_count > 64 ? 64 : p->int_count;
  p->float_count = p->float_count > 64 ? 64 : p->float_count;
}

static void random_block(random_program *p, int length);

static void random_statement(random_program *p) {
  qn_sink *s = &p->t.b.sink;
  unsigned kind = roll(p, p->depth < 3 ? 12 : 8);
  int ints = p->int_count, floats = p->float_count; /* values of inner scopes end with them */
  if (kind < 4) {
    if (ints < 60 && floats < 60)
      random_value(p);
  } else if (kind < 6) {
    unsigned v = roll(p, 6);
    qn_kb_set(&p->t.b, p->vars[v], v < 3 ? some_int(p) : some_float(p));
  } else if (kind == 6 && ints < 60) {
    p->ints[p->int_count++] = qn_kb_get(&p->t.b, p->vars[roll(p, 3)]);
  } else if (kind == 7 && floats < 60) {
    qn_sval at = qs_and(s, some_int(p), kit_i32(&p->t, 1023));
    p->floats[p->float_count++] =
        qn_kb_load(&p->t.b, p->t.buffers[0], at, 1, roll(p, 2) ? qs_lt(s, some_int(p), some_int(p)) : kit_none);
  } else if (kind >= 8) {
    p->depth++;
    if (kind < 10) {
      qn_sval i = qn_kb_loop(&p->t.b, kit_i32(&p->t, (int32_t)roll(p, 3)), qs_and(s, some_int(p), kit_i32(&p->t, 7)),
                             1 + roll(p, 2), roll(p, 2));
      if (p->int_count < 60)
        p->ints[p->int_count++] = i;
    } else {
      qn_kb_if(&p->t.b, qs_lt(s, some_int(p), some_int(p)));
    }
    random_block(p, 4);
    p->int_count = ints;
    p->float_count = floats;
    if (kind == 11) {
      qn_kb_else(&p->t.b);
      random_block(p, 3);
      p->int_count = ints;
      p->float_count = floats;
    }
    qn_kb_close(&p->t.b);
    p->depth--;
  }
}

static void random_block(random_program *p, int length) {
  for (int i = 0; i < length; ++i)
    random_statement(p);
}

static void random_run(uint64_t seed) {
  random_program p = {.state = seed};
  kit_memory m = fill(seed);
  kit_begin(&p.t, floats_and_ints);
  qn_sink *s = &p.t.b.sink;
  qn_sval g = kit_group(&p.t);
  p.ints[p.int_count++] = g;
  p.ints[p.int_count++] = kit_i32(&p.t, 12);
  p.ints[p.int_count++] = qn_kb_load(&p.t.b, p.t.buffers[1], g, 1, kit_none);
  p.floats[p.float_count++] = qn_kb_load(&p.t.b, p.t.buffers[0], g, 1, kit_none);
  p.floats[p.float_count++] = qs_const(s, QN_F32, 0.5);
  for (int i = 0; i < 6; ++i)
    p.vars[i] = qn_kb_var(&p.t.b, i < 3 ? some_int(&p) : some_float(&p));
  random_block(&p, 25);
  for (int i = 0; i < 6; ++i) {
    qn_sval at = qs_add(s, qs_mul(s, g, kit_i32(&p.t, 8)), kit_i32(&p.t, i)), x = qn_kb_get(&p.t.b, p.vars[i]);
    if (i >= 3) /* NaN's bits are nobody's promise */
      x = qs_select(s, qs_eq(s, x, x), x, qs_const(s, QN_F32, 77));
    qn_kb_store(&p.t.b, p.t.buffers[i < 3 ? 3 : 2], at, x, kit_none);
  }
  char what[64];
  (void)snprintf(what, sizeof what, "random program %llu", (unsigned long long)seed);
  kit_compare(&p.t, what, &m, NULL, 0, 40);
  kit_memory_free(&m);
}

Test(llvm_kernels, random_programs) {
  for (uint64_t seed = 1; seed <= (qn_test_all() ? 2000u : 120u); ++seed)
    random_run(seed);
}

#else
Test(llvm_kernels, absent) {}
#endif
