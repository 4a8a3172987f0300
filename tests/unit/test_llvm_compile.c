/* Compiling itself: object files that come back, damaged and foreign ones, several compilers at once, refusals, and the
 * machine code of the loop that matters most. */
#include "expect.h"

#ifdef QN_HAVE_LLVM
#include "llvm_kit.h"

#include "kernels/llvm/assembly.h"

static const qn_dtype one_view[KIT_BINDINGS] = {QN_I32, QN_DTYPE_NONE};

/* Group g's cell becomes 3 * g + add. */
static void build_add(kit *t, int32_t plus) {
  kit_begin(t, one_view);
  qn_sink *s = &t->b.sink;
  qn_sval g = kit_group(t);
  qn_kb_store(&t->b, t->buffers[0], g, qs_add(s, qs_mul(s, g, kit_i32(t, 3)), kit_i32(t, plus)), kit_none);
  QN_ASSERT_OK(qn_kbuild_end(&t->b));
}

enum { SET = 40 };
typedef struct kernel_set {
  kit t[SET];
  const qn_kernel *list[SET];
  qn_code_entry entries[SET];
  qn_code code;
} kernel_set;

static void set_build(kernel_set *s, int32_t first) {
  memset(s, 0, sizeof *s);
  for (int i = 0; i < SET; ++i) {
    build_add(&s->t[i], first + i);
    s->list[i] = &s->t[i].k;
  }
}

static bool set_works(kernel_set *s, int32_t first) {
  int32_t cells[16];
  void *bindings[] = {cells};
  const uint32_t params[] = {16, 0};
  for (int i = 0; i < SET; ++i) {
    s->entries[i].native(s->entries[i].native_context, bindings, params, 0, 16);
    for (int g = 0; g < 16; ++g)
      if (cells[g] != 3 * g + first + i)
        return false;
  }
  s->code.release(s->code.owner);
  return true;
}

static void set_free(kernel_set *s) {
  for (int i = 0; i < SET; ++i)
    qn_kernel_free(&s->t[i].k);
}

Test(llvm_compile, objects_come_back) {
  static kernel_set s;
  qn_bytes object = {0}, again = {0};
  set_build(&s, 10);
  QN_ASSERT_OK(qn_llvm_compile(s.list, SET, NULL, s.entries, &s.code, &object));
  cr_assert(object.size > 1000);
  cr_expect(set_works(&s, 10));
  QN_ASSERT_OK(qn_llvm_compile(s.list, SET, &object, s.entries, &s.code, &again));
  cr_expect(again.size == object.size && memcmp(again.data, object.data, object.size) == 0);
  cr_expect(set_works(&s, 10));
  free(object.data);
  free(again.data);
  set_free(&s);
}

Test(llvm_compile, damaged_objects_are_made_anew) {
  static kernel_set s;
  qn_bytes object = {0};
  set_build(&s, 20);
  QN_ASSERT_OK(qn_llvm_compile(s.list, SET, NULL, s.entries, &s.code, &object));
  cr_expect(set_works(&s, 20));
  for (size_t at = 0; at < object.size; at += object.size / 7) {
    object.data[at] ^= 0x40;
    QN_ASSERT_OK(qn_llvm_compile(s.list, SET, &object, s.entries, &s.code, NULL));
    cr_expect(set_works(&s, 20), "byte %zu", at);
    object.data[at] ^= 0x40;
  }
  for (size_t size = 0; size < object.size; size += object.size / 5) {
    const qn_bytes cut = {object.data, size};
    QN_ASSERT_OK(qn_llvm_compile(s.list, SET, &cut, s.entries, &s.code, NULL));
    cr_expect(set_works(&s, 20), "%zu bytes", size);
  }
  free(object.data);
  set_free(&s);
}

Test(llvm_compile, foreign_objects_are_made_anew) {
  static kernel_set s, other;
  qn_bytes object = {0};
  set_build(&s, 30);
  set_build(&other, 50);
  QN_ASSERT_OK(qn_llvm_compile(s.list, SET, NULL, s.entries, &s.code, &object));
  s.code.release(s.code.owner);
  QN_ASSERT_OK(qn_llvm_compile(other.list, SET, &object, other.entries, &other.code, NULL));
  cr_expect(set_works(&other, 50));
  free(object.data);
  set_free(&s);
  set_free(&other);
}

static void compile_often(void *arg) {
  int32_t first = *(int32_t *)arg;
  kernel_set *s = malloc(sizeof *s);
  bool good = s != NULL;
  if (s) {
    set_build(s, first);
    good = qn_llvm_compile(s->list, SET, NULL, s->entries, &s->code, NULL) == QN_OK && set_works(s, first);
    set_free(s);
    free(s);
  }
  *(int32_t *)arg = good ? 0 : -1;
}

Test(llvm_compile, several_at_once) {
  int32_t firsts[] = {100, 200, 300, 400};
  qn_thread threads[4];
  for (int i = 0; i < 4; ++i)
    QN_ASSERT_OK(qn_thread_start(&threads[i], compile_often, &firsts[i]));
  for (int i = 0; i < 4; ++i) {
    qn_thread_join(threads[i]);
    cr_expect(firsts[i] == 0);
  }
}

Test(llvm_compile, same_kernel_twice) {
  kit t;
  build_add(&t, 5);
  const qn_kernel *list[] = {&t.k, &t.k};
  qn_code_entry entries[2] = {{0}};
  qn_code code = {0};
  QN_ASSERT_OK(qn_llvm_compile(list, 2, NULL, entries, &code, NULL));
  cr_expect(entries[0].native && entries[1].native);
  code.release(code.owner);
  QN_EXPECT_OK(qn_llvm_compile(list, 0, NULL, entries, &code, NULL));
  cr_expect(!code.release && !code.owner);
  qn_kernel_free(&t.k);
}

Test(llvm_compile, barriers_are_refused) {
  kit t;
  kit_begin(&t, one_view);
  t.k.items = 8;
  qn_sval local = qn_kb_array(&t.b, QN_I32, 8, true), item = qs_convert(&t.b.sink, QN_I32, qn_kb_item(&t.b));
  qn_kb_astore(&t.b, local, item, item);
  qn_kb_barrier(&t.b);
  qn_kb_store(&t.b, t.buffers[0], item, qn_kb_aload(&t.b, local, qs_sub(&t.b.sink, kit_i32(&t, 7), item), 1), kit_none);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  const qn_kernel *list[] = {&t.k};
  qn_code_entry entry = {0};
  qn_code code = {0};
  qn_bytes object = {0};
  QN_EXPECT_FAIL(qn_llvm_compile(list, 1, NULL, &entry, &code, &object), QN_UNSUPPORTED, "barrier");
  cr_expect(!code.release && !code.owner && !object.data && !entry.native);
  qn_kernel_free(&t.k);
}

Test(llvm_compile, identity) {
  qn_text a = {0}, b = {0};
  qn_llvm_identity(&a);
  qn_llvm_identity(&b);
  cr_expect(a.len > 20 && strcmp(a.buf, b.buf) == 0 && qn_test_contains(a.buf, "llvm 19"));
  qn_text_free(&a);
  qn_text_free(&b);
}

/* ---- the contraction tile ---- */

enum { ROWS = 6, VECTORS = 4, LANES = 16 };

static void build_tile(kit *t) {
  const qn_dtype views[KIT_BINDINGS] = {QN_F32, QN_F32, QN_F32, QN_DTYPE_NONE};
  kit_begin(t, views);
  qn_sink *s = &t->b.sink;
  qn_sval acc[ROWS * VECTORS], x[VECTORS], row = qs_mul(s, kit_group(t), kit_i32(t, ROWS));
  for (int i = 0; i < ROWS * VECTORS; ++i)
    acc[i] = qn_kb_var(&t->b, qn_kb_splat(&t->b, qs_const(s, QN_F32, 0), LANES));
  qn_sval k = qn_kb_loop(&t->b, kit_i32(t, 0), kit_i32(t, 784), 1, false);
  for (int v = 0; v < VECTORS; ++v)
    x[v] = qn_kb_load(&t->b, t->buffers[1], qs_add(s, qs_mul(s, k, kit_i32(t, 64)), kit_i32(t, v * LANES)), LANES,
                      kit_none);
  for (int r = 0; r < ROWS; ++r) {
    qn_sval at = qs_add(s, qs_mul(s, qs_add(s, row, kit_i32(t, r)), kit_i32(t, 784)), k);
    qn_sval y = qn_kb_splat(&t->b, qn_kb_load(&t->b, t->buffers[0], at, 1, kit_none), LANES);
    for (int v = 0; v < VECTORS; ++v)
      qn_kb_set(&t->b, acc[r * VECTORS + v], qs_fma(s, y, x[v], qn_kb_get(&t->b, acc[r * VECTORS + v])));
  }
  qn_kb_close(&t->b);
  for (int i = 0; i < ROWS * VECTORS; ++i) {
    qn_sval at =
        qs_add(s, qs_mul(s, qs_add(s, row, kit_i32(t, i / VECTORS)), kit_i32(t, 64)), kit_i32(t, i % VECTORS * LANES));
    qn_kb_store(&t->b, t->buffers[2], at, qn_kb_get(&t->b, acc[i]), kit_none);
  }
  QN_ASSERT_OK(qn_kbuild_end(&t->b));
}

typedef struct loop_facts {
  int instructions, fmas, stack;
} loop_facts;

/* The block with the most multiply-adds: from a label or a jump to the next. */
static loop_facts innermost(const char *text) {
  loop_facts best = {0}, now = {0};
  for (const char *line = text; line && *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? (size_t)(end - line) : strlen(line);
    if (line[0] == '\t' && line[1] != '.') {
      now.instructions++;
      now.fmas += n > 6 && strncmp(line + 1, "vfmadd", 6) == 0;
      for (size_t i = 0; i + 4 < n; ++i)
        now.stack += strncmp(line + i, "%rsp", 4) == 0 || strncmp(line + i, "(%rbp", 5) == 0;
    }
    if (line[0] != '\t' || line[1] == 'j') {
      best = now.fmas > best.fmas ? now : best;
      now = (loop_facts){0};
    }
    line = end ? end + 1 : NULL;
  }
  return now.fmas > best.fmas ? now : best;
}

Test(llvm_compile, tile_stays_in_registers) {
  kit t;
  build_tile(&t);
  qn_text text = {0};
  QN_ASSERT_OK(qn_llvm_assembly(&t.k, &text));
  if (qn_test_contains(text.buf, "zmm")) { /* only the wide registers hold such a tile */
    loop_facts f = innermost(text.buf);
    cr_expect(f.fmas == ROWS * VECTORS, "%d multiply-adds", f.fmas);
    cr_expect(f.instructions <= 38, "%d instructions", f.instructions);
    cr_expect(f.stack == 0, "%d accesses to the stack", f.stack);
  }
  qn_text_free(&text);
  QN_ASSERT_OK(qn_llvm_text(&t.k, &text));
  cr_expect(qn_test_contains(text.buf, "llvm.fma.v16f32"));
  qn_text_free(&text);
  qn_kernel_free(&t.k);
}

#else
Test(llvm_compile, absent) {}
#endif
