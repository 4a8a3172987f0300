/* For tests of compiled kernels: a kernel under construction, and running it compiled and interpreted over the same
 * bytes. */
#ifndef QUERN_TEST_LLVM_KIT_H
#define QUERN_TEST_LLVM_KIT_H

#include "expect.h"

#include <stdlib.h>

#include "quern/kernel.h"

enum { KIT_BINDINGS = 5, KIT_BYTES = 1 << 14 };

typedef struct kit {
  qn_kbuild b;
  qn_kernel k;
  uint32_t buffers[KIT_BINDINGS];
} kit;

/* Begins a kernel with a view of each given dtype on a binding of its own (QN_DTYPE_NONE ends the list), all read and
 * written; parameter words 1 to count are the views' offsets. */
static inline void kit_begin(kit *t, const qn_dtype *views) {
  memset(t, 0, sizeof *t);
  QN_ASSERT_OK(qn_kbuild_begin(&t->b, &t->k));
  (void)qn_kb_new_param(&t->b);
  for (uint32_t i = 0; i < KIT_BINDINGS && views[i] != QN_DTYPE_NONE; ++i)
    t->buffers[i] = qn_kb_buffer(&t->b, views[i], i, (uint32_t)0, true, true, 1);
  for (uint32_t i = 0; i < t->k.buffer_count; ++i)
    t->k.buffers[i].offset_param = i + 1;
  for (uint32_t i = 0; i < t->k.buffer_count; ++i)
    (void)qn_kb_new_param(&t->b);
}

static inline qn_sval kit_i32(kit *t, int32_t x) { return qs_const(&t->b.sink, QN_I32, (double)x); }
static inline qn_sval kit_group(kit *t) { return qs_convert(&t->b.sink, QN_I32, qn_kb_group(&t->b)); }
static const qn_sval kit_none = {0};

static inline uint64_t kit_random(uint64_t *state) {
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

typedef struct kit_memory {
  uint8_t *bytes[KIT_BINDINGS];
} kit_memory;

static inline kit_memory kit_memory_make(void) {
  kit_memory m;
  for (int i = 0; i < KIT_BINDINGS; ++i) {
    m.bytes[i] = calloc(1, KIT_BYTES);
    cr_assert(m.bytes[i]);
  }
  return m;
}

static inline void kit_memory_free(kit_memory *m) {
  for (int i = 0; i < KIT_BINDINGS; ++i)
    free(m->bytes[i]);
}

/* Ends the kernel, runs `groups` groups both ways from the same start (in two ranges when compiled) and expects the
 * same bytes everywhere. */
static inline void kit_compare(kit *t, const char *what, const kit_memory *start, const uint32_t *extra,
                               uint32_t extra_count, uint32_t groups) {
  uint32_t params[16] = {groups};
  void *bindings[KIT_BINDINGS];
  QN_ASSERT_OK(qn_kbuild_end(&t->b));
  for (uint32_t i = 0; i < extra_count; ++i)
    params[1 + t->k.buffer_count + i] = extra[i];
  const qn_kernel *kernels[] = {&t->k};
  qn_code_entry entry = {0};
  qn_code code = {0};
  QN_ASSERT_OK(qn_llvm_compile(kernels, 1, NULL, &entry, &code, NULL));
  kit_memory mine = kit_memory_make(), theirs = kit_memory_make();
  for (int i = 0; i < KIT_BINDINGS; ++i) {
    memcpy(mine.bytes[i], start->bytes[i], KIT_BYTES);
    memcpy(theirs.bytes[i], start->bytes[i], KIT_BYTES);
    bindings[i] = mine.bytes[i];
  }
  entry.native(entry.native_context, bindings, params, 0, groups / 2);
  entry.native(entry.native_context, bindings, params, groups / 2, groups / 2);
  entry.native(entry.native_context, bindings, params, groups / 2, groups);
  for (int i = 0; i < KIT_BINDINGS; ++i)
    bindings[i] = theirs.bytes[i];
  qn_kernel_interpret(&t->k, bindings, params, 0, groups);
  bool same = true;
  for (int i = 0; i < KIT_BINDINGS; ++i) {
    size_t at = 0;
    while (at < KIT_BYTES && mine.bytes[i][at] == theirs.bytes[i][at])
      ++at;
    cr_expect(at == KIT_BYTES, "%s: binding %d differs from byte %zu on: compiled %02x, interpreted %02x", what, i, at,
              mine.bytes[i][at % KIT_BYTES], theirs.bytes[i][at % KIT_BYTES]);
    same = same && at == KIT_BYTES;
  }
  if (!same) {
    qn_text text = {0};
    qn_kernel_dump(&t->k, &text);
    fprintf(stderr, "%s\n", text.buf ? text.buf : "");
    qn_text_free(&text);
  }
  kit_memory_free(&mine);
  kit_memory_free(&theirs);
  code.release(code.owner);
  qn_kernel_free(&t->k);
}

#endif
