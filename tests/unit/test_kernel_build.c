/* The kernel builder and what it does on the way: folding, merging, hoisting, dead code, verification, divisibility, dump, names. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "quern/kernel.h"

typedef struct built {
  qn_kernel k;
  qn_kbuild b;
  qn_sink *s;
  uint32_t in, out, n;
} built;

/* One binding in, one out, a parameter word n. */
static void begin(built *t, qn_dtype in, qn_dtype out) {
  memset(t, 0, sizeof *t);
  QN_ASSERT_OK(qn_kbuild_begin(&t->b, &t->k));
  t->s = &t->b.sink;
  uint32_t a = qn_kb_new_param(&t->b), c = qn_kb_new_param(&t->b);
  t->n = qn_kb_new_param(&t->b);
  t->in = qn_kb_buffer(&t->b, in, 0, a, true, false, 64);
  t->out = qn_kb_buffer(&t->b, out, 1, c, false, true, 64);
}

static size_t count_kop(const qn_kernel *k, qn_kop op) {
  size_t n = 0;
  for (size_t i = 1; i < k->count; ++i)
    n += k->insts[i].kop == op;
  return n;
}

static size_t count_sop(const qn_kernel *k, qn_sop op) {
  size_t n = 0;
  for (size_t i = 1; i < k->count; ++i)
    n += k->insts[i].kop == QN_K_SCALAR && k->insts[i].sop == op;
  return n;
}

static bool has(const qn_kernel *k, const char *part) {
  qn_text t = {0};
  qn_kernel_dump(k, &t);
  bool found = qn_test_contains(t.buf, part);
  qn_text_free(&t);
  return found;
}

static const qn_sval none;

Test(kernel_build, index_math_comes_out_clean) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sink *s = t.s;
  qn_sval g = qn_kb_group(&t.b), four = qs_bits(s, QN_U32, 4), zero = qs_bits(s, QN_U32, 0),
          one = qs_bits(s, QN_U32, 1);
  cr_expect_eq(qs_add(s, g, zero).id, g.id);
  cr_expect_eq(qs_add(s, zero, g).id, g.id);
  cr_expect_eq(qs_mul(s, one, g).id, g.id);
  cr_expect_eq(qs_mul(s, g, zero).id, zero.id);
  cr_expect_eq(qs_sub(s, g, g).id, zero.id);
  cr_expect_eq(qs_idiv(s, g, one).id, g.id);
  cr_expect_eq(qs_irem(s, qs_irem(s, g, four), four).id, qs_irem(s, g, four).id, "a remainder is below its divisor");
  cr_expect_eq(qs_idiv(s, qs_irem(s, g, four), four).id, zero.id);
  cr_expect_eq(qs_add(s, qs_add(s, g, four), four).id, qs_add(s, g, qs_bits(s, QN_U32, 8)).id);
  cr_expect_eq(qs_lt(s, qs_irem(s, g, four), four).id, qs_bits(s, QN_BOOL, 1).id);
  cr_expect_eq(qs_le(s, qs_bits(s, QN_U32, 9), qs_irem(s, g, four)).id, qs_bits(s, QN_BOOL, 0).id);
  qn_sval i = qs_convert(s, QN_I32, g), d = qs_idiv(s, i, qs_bits(s, QN_I32, 8));
  cr_expect_eq(d.id, qs_shr(s, i, qs_bits(s, QN_I32, 3)).id, "a group number is not negative");
  cr_expect_eq(qs_convert(s, QN_U32, i).id, g.id);
  qn_sval odd = qs_irem(s, g, qs_bits(s, QN_U32, 3));
  qn_sval x = qn_kb_load(&t.b, t.in, qs_add(s, d, qs_convert(s, QN_I32, odd)), 1, none);
  qn_kb_store(&t.b, t.out, g, x, none);
  QN_EXPECT_OK(qn_kbuild_end(&t.b));
  cr_expect_eq(count_sop(&t.k, QN_S_IDIV), 0);
  cr_expect_eq(count_sop(&t.k, QN_S_IREM), 1);
  qn_kernel_free(&t.k);
}

Test(kernel_build, signed_values_of_unknown_sign_keep_their_division) {
  built t;
  begin(&t, QN_I32, QN_I32);
  qn_sval x = qn_kb_load(&t.b, t.in, qn_kb_group(&t.b), 1, none);
  qn_sval y = qs_idiv(t.s, x, qs_bits(t.s, QN_I32, 8));
  qn_kb_store(&t.b, t.out, qn_kb_group(&t.b), qs_irem(t.s, y, qs_bits(t.s, QN_I32, 4)), none);
  QN_EXPECT_OK(qn_kbuild_end(&t.b));
  cr_expect_eq(count_sop(&t.k, QN_S_IDIV), 1);
  cr_expect_eq(count_sop(&t.k, QN_S_IREM), 1);
  qn_kernel_free(&t.k);
}

Test(kernel_build, floats_are_folded_only_when_known) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sval x = qn_kb_load(&t.b, t.in, qn_kb_group(&t.b), 1, none), zero = qs_const(t.s, QN_F32, 0);
  qn_sval sum = qs_add(t.s, x, zero);
  cr_expect_neq(sum.id, x.id, "-0 + 0 is 0");
  cr_expect_neq(qs_add(t.s, zero, x).id, sum.id);
  cr_expect_eq(qs_mul(t.s, qs_const(t.s, QN_F32, 3), qs_const(t.s, QN_F32, 0.5)).id, qs_const(t.s, QN_F32, 1.5).id);
  qn_kb_store(&t.b, t.out, qn_kb_group(&t.b), sum, none);
  QN_EXPECT_OK(qn_kbuild_end(&t.b));
  qn_kernel_free(&t.k);
}

Test(kernel_build, values_of_a_closed_scope_are_not_reused) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sink *s = t.s;
  qn_sval g = qn_kb_group(&t.b), n = qn_kb_param(&t.b, t.n);
  qn_kb_if(&t.b, qs_lt(s, g, n));
  qn_sval inside = qs_mul(s, g, n);
  qn_kb_store(&t.b, t.out, inside, qs_const(s, QN_F32, 1), none);
  qn_kb_else(&t.b);
  qn_sval other = qs_mul(s, g, n);
  cr_expect_neq(inside.id, other.id);
  qn_kb_store(&t.b, t.out, other, qs_const(s, QN_F32, 2), none);
  qn_kb_close(&t.b);
  qn_sval after = qs_mul(s, g, n);
  cr_expect_neq(after.id, other.id);
  qn_kb_if(&t.b, qs_lt(s, n, g));
  cr_expect_eq(qs_mul(s, g, n).id, after.id, "an enclosing scope's value is");
  qn_kb_store(&t.b, t.out, after, qs_const(s, QN_F32, 3), none);
  qn_kb_close(&t.b);
  QN_EXPECT_OK(qn_kbuild_end(&t.b));
  qn_kernel_free(&t.k);
}

Test(kernel_build, invariant_code_leaves_loops_but_not_conditions) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sink *s = t.s;
  qn_sval zero = qs_bits(s, QN_U32, 0), n = qn_kb_param(&t.b, t.n), g = qn_kb_group(&t.b);
  qn_sval acc = qn_kb_var(&t.b, qs_const(s, QN_F32, 0));
  qn_sval i = qn_kb_loop(&t.b, zero, n, 1, false);
  qn_sval j = qn_kb_loop(&t.b, zero, n, 1, false);
  qn_sval row = qs_mul(s, g, n);                    /* leaves both */
  qn_sval at = qs_add(s, qs_mul(s, i, n), j);       /* i*n leaves one */
  qn_sval w = qn_kb_load(&t.b, t.in, row, 1, none); /* leaves both: only read, not masked */
  qn_sval masked = qn_kb_load(&t.b, t.in, row, 1, qs_lt(s, row, n));
  qn_kb_if(&t.b, qs_lt(s, j, i));
  qn_sval inside = qs_mul(s, g, i); /* stays in the condition */
  qn_kb_set(&t.b, acc, qs_add(s, qn_kb_get(&t.b, acc), qn_kb_load(&t.b, t.in, qs_add(s, at, inside), 1, none)));
  qn_kb_close(&t.b);
  qn_kb_set(&t.b, acc, qs_add(s, qn_kb_get(&t.b, acc), qs_add(s, w, masked)));
  qn_kb_close(&t.b);
  qn_kb_close(&t.b);
  qn_kb_store(&t.b, t.out, g, qn_kb_get(&t.b, acc), none);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  int depth = 0;
  uint32_t loops = 0, where_rows[3] = {0}, loads[3] = {0};
  for (size_t x = 1; x < t.k.count; ++x) {
    const qn_kinst *in = &t.k.insts[x];
    if (in->kop == QN_K_LOOP || in->kop == QN_K_IF)
      ++depth, loops += in->kop == QN_K_LOOP;
    if (in->kop == QN_K_END)
      --depth;
    if (in->kop == QN_K_SCALAR && in->sop == QN_S_MUL && depth < 3)
      ++where_rows[depth];
    if (in->kop == QN_K_LOAD && depth < 3)
      ++loads[depth];
  }
  cr_expect_eq(loops, 2);
  cr_expect_eq(where_rows[0], 1);
  cr_expect_eq(where_rows[1], 1);
  cr_expect_eq(where_rows[2], 0);
  cr_expect_eq(loads[0], 1);
  cr_expect_eq(loads[2], 1, "the masked load stays");
  qn_kernel_free(&t.k);
}

Test(kernel_build, loads_of_written_memory_are_not_merged) {
  built t;
  begin(&t, QN_F32, QN_F32);
  uint32_t both = qn_kb_buffer(&t.b, QN_F32, 2, 1, true, true, 1);
  qn_sval g = qn_kb_group(&t.b);
  qn_sval x = qn_kb_load(&t.b, t.in, g, 1, none), y = qn_kb_load(&t.b, t.in, g, 1, none);
  cr_expect_eq(x.id, y.id);
  qn_sval u = qn_kb_load(&t.b, both, g, 1, none);
  qn_kb_store(&t.b, both, g, x, none);
  qn_sval v = qn_kb_load(&t.b, both, g, 1, none);
  cr_expect_neq(u.id, v.id);
  qn_kb_store(&t.b, t.out, g, qs_add(t.s, u, v), none);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  cr_expect_eq(count_kop(&t.k, QN_K_LOAD), 3);
  qn_kernel_free(&t.k);
}

Test(kernel_build, dead_code_goes) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sink *s = t.s;
  qn_sval g = qn_kb_group(&t.b), n = qn_kb_param(&t.b, t.n);
  qn_sval unread = qn_kb_var(&t.b, qs_const(s, QN_F32, 0));
  qn_kb_loop(&t.b, qs_bits(s, QN_U32, 0), n, 1, false); /* only feeds the unread variable */
  qn_kb_set(&t.b, unread, qs_add(s, qn_kb_get(&t.b, unread), qs_const(s, QN_F32, 1)));
  qn_kb_close(&t.b);
  qn_sval array = qn_kb_array(&t.b, QN_F32, 8, false);
  qn_kb_astore(&t.b, array, qs_bits(s, QN_U32, 0), qs_const(s, QN_F32, 1));
  qn_kb_if(&t.b, qs_bits(s, QN_BOOL, 0));
  qn_kb_store(&t.b, t.out, g, qs_const(s, QN_F32, 9), none);
  qn_kb_close(&t.b);
  qn_kb_if(&t.b, qs_bits(s, QN_BOOL, 1));
  qn_kb_store(&t.b, t.out, g, qs_const(s, QN_F32, 7), none);
  qn_kb_else(&t.b);
  qn_kb_store(&t.b, t.out, g, qs_const(s, QN_F32, 8), none);
  qn_kb_close(&t.b);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  cr_expect_eq(count_kop(&t.k, QN_K_STORE), 1);
  cr_expect_eq(count_kop(&t.k, QN_K_LOOP) + count_kop(&t.k, QN_K_IF) + count_kop(&t.k, QN_K_ARRAY), 0);
  cr_expect_eq(t.k.count, 4, "group, constant, store");
  qn_kernel_free(&t.k);
}

Test(kernel_build, a_loop_of_one_round_is_none) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sval i = qn_kb_loop(&t.b, qs_bits(t.s, QN_U32, 2), qs_bits(t.s, QN_U32, 6), 4, false);
  qn_kb_store(&t.b, t.out, i, qs_const(t.s, QN_F32, 1), none);
  qn_kb_close(&t.b);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  cr_expect_eq(count_kop(&t.k, QN_K_LOOP), 0);
  qn_kernel_free(&t.k);
}

Test(kernel_build, scalars_are_splat_and_splats_are_stripped) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sval x = qn_kb_load(&t.b, t.in, qn_kb_group(&t.b), 4, none), two = qs_const(t.s, QN_F32, 2);
  qn_sval y = qs_mul(t.s, x, two);
  cr_expect_eq(qn_kb_lanes(&t.b, y), 4);
  qn_sval three = qs_add(t.s, qn_kb_splat(&t.b, two, 4), qs_const(t.s, QN_F32, 1));
  cr_expect_eq(qn_kb_extract(&t.b, three, 2).id, qs_const(t.s, QN_F32, 3).id);
  cr_expect_eq(qn_kb_join(&t.b, qn_kb_low(&t.b, y), qn_kb_high(&t.b, y)).id, y.id);
  qn_kb_store(&t.b, t.out, qn_kb_group(&t.b), qs_add(t.s, y, three), none);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  cr_expect(has(&t.k, "load f32x4 b0"));
  qn_kernel_free(&t.k);
}

Test(kernel_build, misuse_is_reported_at_the_end) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qs_add(t.s, qs_const(t.s, QN_F32, 1), qs_bits(t.s, QN_I32, 1));
  QN_EXPECT_FAIL(qn_kbuild_end(&t.b), QN_INTERNAL, "add: operand 1 is i32, expected f32");
  qn_kernel_free(&t.k);
  begin(&t, QN_F32, QN_F32);
  qn_kb_store(&t.b, t.out, qn_kb_group(&t.b), qs_bits(t.s, QN_I32, 1), none);
  QN_EXPECT_FAIL(qn_kbuild_end(&t.b), QN_INTERNAL, "store: operand c is i32 x 1, expected f32 x 1");
  qn_kernel_free(&t.k);
  begin(&t, QN_F32, QN_F32);
  qn_kb_loop(&t.b, qs_bits(t.s, QN_I32, 0), qs_convert(t.s, QN_I32, qn_kb_param(&t.b, t.n)), 1, false);
  QN_EXPECT_FAIL(qn_kbuild_end(&t.b), QN_INTERNAL, "not closed");
  qn_kernel_free(&t.k);
  begin(&t, QN_F32, QN_F32);
  t.k.items = 8;
  qn_kb_if(&t.b, qs_lt(t.s, qn_kb_item(&t.b), qs_bits(t.s, QN_U32, 3)));
  qn_kb_barrier(&t.b);
  qn_kb_close(&t.b);
  QN_EXPECT_FAIL(qn_kbuild_end(&t.b), QN_INTERNAL, "barrier: inside");
  qn_kernel_free(&t.k);
}

Test(kernel_build, the_verifier_sees_broken_lists) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sval n = qn_kb_param(&t.b, t.n);
  qn_kb_loop(&t.b, qs_bits(t.s, QN_U32, 0), n, 1, false);
  qn_kb_store(&t.b, t.out, n, qs_const(t.s, QN_F32, 1), none);
  qn_kb_close(&t.b);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  qn_kernel k = t.k;
  qn_kinst saved[16];
  cr_assert_leq(k.count, 16);
  memcpy(saved, k.insts, k.count * sizeof *saved);
  size_t checked = 0;
  for (size_t i = 1; i < k.count; ++i)
    for (int slot = 0; slot < 3; ++slot) {
      uint32_t *w = slot == 0 ? &k.insts[i].a : slot == 1 ? &k.insts[i].b : &k.insts[i].c;
      if (!*w)
        continue;
      *w = (uint32_t)i; /* itself */
      QN_EXPECT_FAIL(qn_kernel_verify(&k), QN_INTERNAL, "not a value before it");
      memcpy(k.insts, saved, k.count * sizeof *saved);
      ++checked;
    }
  cr_expect_geq(checked, 4);
  k.count -= 1;
  QN_EXPECT_FAIL(qn_kernel_verify(&k), QN_INTERNAL, "not closed");
  qn_kernel_free(&t.k);
}

Test(kernel_build, divisors) {
  built t;
  begin(&t, QN_F32, QN_F32);
  qn_sink *s = t.s;
  qn_sval g = qn_kb_group(&t.b), n = qn_kb_param(&t.b, t.n), four = qs_bits(s, QN_U32, 4);
  qn_sval i = qn_kb_loop(&t.b, qs_bits(s, QN_U32, 0), n, 8, false);
  qn_sval at = qs_add(s, qs_mul(s, qs_mul(s, g, n), four), i);
  qn_kb_store(&t.b, t.out, at, qs_const(s, QN_F32, 1), none);
  qn_kb_store(&t.b, t.out, qs_add(s, at, qs_bits(s, QN_U32, 6)), qs_const(s, QN_F32, 1), none);
  qn_kb_close(&t.b);
  QN_ASSERT_OK(qn_kbuild_end(&t.b));
  uint32_t seen[2] = {0}, count = 0;
  for (uint32_t x = 1; x < t.k.count; ++x)
    if (t.k.insts[x].kop == QN_K_STORE)
      seen[count++ & 1] = qn_kernel_divisor(&t.k, t.k.insts[x].b);
  cr_expect_eq(count, 2);
  cr_expect_eq(seen[0], 4);
  cr_expect_eq(seen[1], 2);
  cr_expect(qn_kernel_aligned(&t.k, t.out, 4, 4));
  cr_expect_not(qn_kernel_aligned(&t.k, t.out, 2, 4));
  qn_kernel_free(&t.k);
}

static void make_named(built *t, double c) {
  begin(t, QN_F32, QN_F32);
  qn_sval g = qn_kb_group(&t->b);
  qn_kb_store(&t->b, t->out, g, qs_add(t->s, qn_kb_load(&t->b, t->in, g, 1, none), qs_const(t->s, QN_F32, c)), none);
  QN_ASSERT_OK(qn_kbuild_end(&t->b));
}

Test(kernel_build, names_follow_content) {
  built x, y, z;
  make_named(&x, 1);
  make_named(&y, 1);
  make_named(&z, 2);
  cr_expect_eq(strlen(x.k.name), 18);
  cr_expect_str_eq(x.k.name, y.k.name);
  cr_expect_str_neq(x.k.name, z.k.name);
  qn_kernel_free(&x.k);
  qn_kernel_free(&y.k);
  qn_kernel_free(&z.k);
}
