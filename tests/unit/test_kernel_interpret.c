/* The interpreter: every operation and dtype against the reference evaluator, control flow, masks, local memory between barriers. */
#include "kernel_cases.h"

Test(kernel_interpret, every_operation_is_the_evaluators) {
  size_t n = case_list(NULL);
  op_case *cases = malloc(n * sizeof *cases);
  cr_assert_not_null(cases);
  case_list(cases);
  for (size_t x = 0; x < n; ++x)
    for (uint32_t lanes = 1; lanes <= 16; lanes *= 4) {
      op_case c = cases[x];
      qn_kernel k;
      case_build(&k, c, lanes);
      case_data d = case_data_make(c, 2, 11);
      uint32_t params[5] = {CASE_ELEMENTS / lanes, 2, 2, 2, 2};
      qn_kernel_interpret(&k, d.bindings, params, 0, params[0]);
      for (size_t i = 2; i < CASE_ELEMENTS + 2; ++i) {
        uint64_t in[3] = {0};
        for (int o = 0; o < qn_sop_arity(c.op); ++o)
          in[o] = case_get(d.memory[o], c.op == QN_S_SELECT && o == 0 ? QN_BOOL : c.operand, i);
        uint64_t want = qn_scalar_eval(c.op, c.result, c.operand, in), got = case_get(d.memory[3], c.result, i);
        cr_assert(got == want || (case_nan(c.result, got) && case_nan(c.result, want)),
                  "%s %s -> %s x%u of %llx: %llx, expected %llx", qn_sop_name(c.op), qn_dtype_name(c.operand),
                  qn_dtype_name(c.result), lanes, (unsigned long long)in[0], (unsigned long long)got,
                  (unsigned long long)want);
      }
      cr_expect_eq(case_get(d.memory[3], c.result, 1) & 0xff, 0xa5, "what lies before stays");
      case_data_free(&d);
      qn_kernel_free(&k);
    }
  free(cases);
}

/* Each group sums 64 numbers with 16 items by a tree in local memory. */
Test(kernel_interpret, items_meet_at_barriers) {
  enum { ITEMS = 16, EACH = 4, GROUPS = 5 };
  qn_kernel k = {.items = ITEMS};
  qn_kbuild b;
  QN_ASSERT_OK(qn_kbuild_begin(&b, &k));
  qn_sink *s = &b.sink;
  qn_sval none = {0}, zero = qs_bits(s, QN_U32, 0);
  uint32_t in = qn_kb_buffer(&b, QN_I32, 0, qn_kb_new_param(&b), true, false, 1),
           out = qn_kb_buffer(&b, QN_I32, 1, qn_kb_new_param(&b), false, true, 1);
  qn_sval g = qn_kb_group(&b), item = qn_kb_item(&b), tile = qn_kb_array(&b, QN_I32, ITEMS, true);
  qn_sval acc = qn_kb_var(&b, qs_bits(s, QN_I32, 0));
  qn_sval j = qn_kb_loop(&b, zero, qs_bits(s, QN_U32, EACH), 1, false);
  qn_sval at = qs_add(s, qs_mul(s, g, qs_bits(s, QN_U32, ITEMS * EACH)),
                      qs_add(s, qs_mul(s, j, qs_bits(s, QN_U32, ITEMS)), item));
  qn_kb_set(&b, acc, qs_add(s, qn_kb_get(&b, acc), qn_kb_load(&b, in, at, 1, none)));
  qn_kb_close(&b);
  qn_kb_astore(&b, tile, item, qn_kb_get(&b, acc));
  qn_sval r = qn_kb_loop(&b, zero, qs_bits(s, QN_U32, 4), 1, false);
  qn_kb_barrier(&b);
  qn_sval half = qs_shr(s, qs_bits(s, QN_U32, ITEMS / 2), r);
  qn_kb_if(&b, qs_lt(s, item, half));
  qn_kb_astore(&b, tile, item,
               qs_add(s, qn_kb_aload(&b, tile, item, 1), qn_kb_aload(&b, tile, qs_add(s, item, half), 1)));
  qn_kb_close(&b);
  qn_kb_close(&b);
  qn_kb_barrier(&b);
  qn_kb_if(&b, qs_eq(s, item, zero));
  qn_kb_store(&b, out, g, qn_kb_aload(&b, tile, zero, 1), none);
  qn_kb_close(&b);
  QN_ASSERT_OK(qn_kbuild_end(&b));
  cr_expect_eq(qn_kernel_local_bytes(&k), ITEMS * 4);
  int32_t data[ITEMS * EACH * GROUPS], sums[GROUPS] = {0}, want[GROUPS] = {0};
  for (int i = 0; i < ITEMS * EACH * GROUPS; ++i) {
    data[i] = i * i - 77 * i;
    want[i / (ITEMS * EACH)] += data[i];
  }
  uint32_t params[3] = {GROUPS, 0, 0};
  void *bindings[2] = {data, sums};
  qn_kernel_interpret(&k, bindings, params, 0, 2);
  qn_kernel_interpret(&k, bindings, params, 2, GROUPS);
  cr_expect_arr_eq(sums, want, sizeof want);
  qn_kernel_free(&k);
}

Test(kernel_interpret, masks_keep_memory_unread_and_unwritten) {
  qn_kernel k = {0};
  qn_kbuild b;
  QN_ASSERT_OK(qn_kbuild_begin(&b, &k));
  qn_sink *s = &b.sink;
  uint32_t in = qn_kb_buffer(&b, QN_F32, 0, qn_kb_new_param(&b), true, false, 1),
           out = qn_kb_buffer(&b, QN_F32, 1, qn_kb_new_param(&b), false, true, 1);
  qn_sval g = qn_kb_group(&b), lane = qs_convert(s, QN_U32, qn_kb_iota(&b, 4));
  qn_sval at = qs_add(s, qs_mul(s, g, qs_bits(s, QN_U32, 4)), lane),
          inside = qs_lt(s, at, qn_kb_param(&b, qn_kb_new_param(&b)));
  qn_sval x = qn_kb_gather(&b, in, at, inside);
  qn_kb_scatter(&b, out, at, qs_add(s, x, qs_const(s, QN_F32, 1)),
                qs_and(s, inside, qs_ne(s, lane, qs_bits(s, QN_U32, 2))));
  QN_ASSERT_OK(qn_kbuild_end(&b));
  float *data = malloc(6 * sizeof *data),
        result[8] = {9, 9, 9, 9, 9, 9, 9, 9}; /* a read behind the sixth element is an error of the sanitizer */
  cr_assert_not_null(data);
  for (int i = 0; i < 6; ++i)
    data[i] = (float)i;
  void *bindings[2] = {data, result};
  uint32_t params[4] = {2, 0, 0, 6};
  qn_kernel_interpret(&k, bindings, params, 0, 2);
  const float want[8] = {1, 2, 9, 4, 5, 6, 9, 9};
  cr_expect_arr_eq(result, want, sizeof want);
  free(data);
  qn_kernel_free(&k);
}

static int64_t count_rounds(qn_dtype t, int64_t begin, int64_t end, uint64_t step) {
  qn_kernel k = {0};
  qn_kbuild b;
  QN_ASSERT_OK(qn_kbuild_begin(&b, &k));
  qn_sink *s = &b.sink;
  qn_sval none = {0}, zero = qs_bits(s, QN_U32, 0);
  uint32_t in = qn_kb_buffer(&b, t, 0, qn_kb_new_param(&b), true, false, 1),
           out = qn_kb_buffer(&b, QN_I64, 1, qn_kb_new_param(&b), false, true, 1);
  qn_sval n = qn_kb_var(&b, qs_bits(s, QN_I64, 0));
  qn_kb_loop(&b, qn_kb_load(&b, in, zero, 1, none), qn_kb_load(&b, in, qs_bits(s, QN_U32, 1), 1, none), step, false);
  qn_kb_set(&b, n, qs_add(s, qn_kb_get(&b, n), qs_bits(s, QN_I64, 1)));
  qn_kb_close(&b);
  qn_kb_store(&b, out, zero, qn_kb_get(&b, n), none);
  QN_ASSERT_OK(qn_kbuild_end(&b));
  uint8_t bounds[16];
  int64_t result = -1;
  case_set(bounds, t, 0, (uint64_t)begin);
  case_set(bounds, t, 1, (uint64_t)end);
  void *bindings[2] = {bounds, &result};
  uint32_t params[3] = {1, 0, 0};
  qn_kernel_interpret(&k, bindings, params, 0, 1);
  qn_kernel_free(&k);
  return result;
}

Test(kernel_interpret, loops_end_where_they_should) {
  cr_expect_eq(count_rounds(QN_I32, -3, 4, 2), 4);
  cr_expect_eq(count_rounds(QN_I32, 4, 4, 1), 0);
  cr_expect_eq(count_rounds(QN_I32, 5, 4, 1), 0);
  cr_expect_eq(count_rounds(QN_I32, INT32_MAX - 2, INT32_MAX, 3), 1, "no wrap at the end");
  cr_expect_eq(count_rounds(QN_U32, UINT32_MAX - 2, UINT32_MAX, 1), 2);
  cr_expect_eq(count_rounds(QN_I8, -128, 127, 100), 3);
  cr_expect_eq(count_rounds(QN_U8, 250, 255, 4), 2);
  cr_expect_eq(count_rounds(QN_I64, INT64_MAX - 2, INT64_MAX, 3), 1);
  cr_expect_eq(count_rounds(QN_U64, 5, 3, 1), 0);
}
