/* Legalized kernels compute what the originals do, bit for bit, for every operation and dtype and for devices from rich to poor. */
#include "kernel_cases.h"

/* Runs both and compares; NaN equals NaN whatever its payload. */
static void compare(const qn_kernel *k, const qn_kernel *legal, op_case c, uint32_t lanes, uint32_t pad,
                    const char *device) {
  case_data x = case_data_make(c, pad, 7 + lanes), y = case_data_make(c, pad, 7 + lanes);
  uint32_t groups = CASE_ELEMENTS / lanes, params[5] = {groups, pad, pad, pad, pad};
  qn_kernel_interpret(k, x.bindings, params, 0, groups);
  qn_kernel_interpret(legal, y.bindings, params, 0, groups);
  for (size_t i = 0; i < CASE_ELEMENTS + pad; ++i) {
    uint64_t a = case_get(x.memory[3], c.result, i), b = case_get(y.memory[3], c.result, i);
    bool same = a == b || (case_nan(c.result, a) && case_nan(c.result, b));
    if (!same) {
      size_t at = i < pad ? 0 : i - pad;
      cr_expect(false, "%s %s -> %s x%u on %s, element %zu (%llx, %llx): %llx, expected %llx", qn_sop_name(c.op),
                qn_dtype_name(c.operand), qn_dtype_name(c.result), lanes, device, at,
                (unsigned long long)case_get(x.memory[0], c.op == QN_S_SELECT ? QN_BOOL : c.operand, i),
                (unsigned long long)case_get(x.memory[1], c.operand, i), (unsigned long long)b, (unsigned long long)a);
      break;
    }
  }
  size_t end = (CASE_ELEMENTS + pad) * qn_dtype_size(c.result);
  cr_expect(memcmp(x.memory[3] + end, y.memory[3] + end, x.bytes - end) == 0, "%s %s x%u on %s writes behind its end",
            qn_sop_name(c.op), qn_dtype_name(c.result), lanes, device);
  case_data_free(&x);
  case_data_free(&y);
}

static void sweep(const case_device *d, uint32_t lanes, uint32_t pad) {
  size_t n = case_list(NULL);
  op_case *cases = malloc(n * sizeof *cases);
  cr_assert_not_null(cases);
  case_list(cases);
  for (size_t i = 0; i < n; ++i) {
    op_case c = cases[i];
    bool f64_bits = c.op == QN_S_BITCAST && (c.operand == QN_F64 || c.result == QN_F64) && !d->caps.i64;
    qn_kernel k, legal;
    case_build(&k, c, lanes);
    for (size_t b = 0; b < k.buffer_count; ++b)
      k.buffers[b].align = pad ? 1 : 64;
    if (f64_bits) {
      QN_EXPECT_FAIL(qn_kernel_legalize(&k, &d->caps, &legal), QN_UNSUPPORTED, "no 64-bit integers");
    } else {
      qn_status st = qn_kernel_legalize(&k, &d->caps, &legal);
      cr_assert(st == QN_OK, "%s %s on %s: %s", qn_sop_name(c.op), qn_dtype_name(c.operand), d->name,
                qn_error_report());
      QN_EXPECT_OK(qn_kernel_verify(&legal));
      compare(&k, &legal, c, lanes, pad, d->name);
      qn_kernel_free(&legal);
    }
    qn_kernel_free(&k);
  }
  free(cases);
}

Test(kernel_legalize, host) { sweep(&case_devices[0], 16, 0), sweep(&case_devices[0], 1, 3); }
Test(kernel_legalize, opencl) { sweep(&case_devices[1], 16, 0), sweep(&case_devices[1], 1, 3); }
Test(kernel_legalize, vulkan) {
  sweep(&case_devices[2], 8, 0), sweep(&case_devices[2], 1, 1), sweep(&case_devices[2], 4, 0);
}
Test(kernel_legalize, poor4) {
  sweep(&case_devices[3], 4, 0), sweep(&case_devices[3], 16, 3), sweep(&case_devices[3], 2, 1),
      sweep(&case_devices[3], 1, 3);
}
Test(kernel_legalize, poor1) { sweep(&case_devices[4], 1, 0), sweep(&case_devices[4], 4, 3); }

Test(kernel_legalize, nothing_is_left_that_the_device_lacks) {
  size_t n = case_list(NULL);
  op_case *cases = malloc(n * sizeof *cases);
  cr_assert_not_null(cases);
  case_list(cases);
  for (size_t i = 0; i < n; ++i) {
    qn_kernel k, legal;
    case_build(&k, cases[i], 8);
    if (cases[i].op == QN_S_BITCAST && (cases[i].operand == QN_F64 || cases[i].result == QN_F64)) {
      qn_kernel_free(&k);
      continue;
    }
    QN_ASSERT_OK(qn_kernel_legalize(&k, &case_devices[3].caps, &legal));
    for (size_t x = 1; x < legal.count; ++x) {
      const qn_kinst *in = &legal.insts[x];
      cr_expect_leq(in->lanes, 4);
      cr_expect(in->dtype == 0 || in->dtype == QN_BOOL || in->dtype == QN_I32 || in->dtype == QN_U32 ||
                    in->dtype == QN_F32 || in->dtype == QN_F64,
                "%s of %s leaves %s", qn_sop_name(cases[i].op), qn_dtype_name(cases[i].operand),
                qn_dtype_name((qn_dtype)in->dtype));
    }
    for (size_t x = 0; x < legal.buffer_count; ++x)
      cr_expect_geq(qn_dtype_size(legal.buffers[x].dtype), 4);
    qn_kernel_free(&legal);
    qn_kernel_free(&k);
  }
  free(cases);
}

Test(kernel_legalize, f64_is_refused_by_name) {
  qn_kernel k, legal;
  case_build(&k, (op_case){QN_S_ADD, QN_F64, QN_F64}, 1);
  qn_device_caps caps = case_devices[3].caps;
  caps.f64 = false;
  strcpy(caps.id, "vulkan:1");
  QN_EXPECT_FAIL(qn_kernel_legalize(&k, &caps, &legal), QN_UNSUPPORTED, "vulkan:1");
  qn_kernel_free(&k);
}

/* Running sums in a 64-bit variable over a 64-bit loop, with a shuffle of lanes and a private array of bytes between. */
static void build_structured(qn_kernel *k) {
  qn_kbuild b;
  memset(k, 0, sizeof *k);
  QN_ASSERT_OK(qn_kbuild_begin(&b, k));
  qn_sink *s = &b.sink;
  qn_sval none = {0};
  uint32_t in = qn_kb_buffer(&b, QN_I8, 0, qn_kb_new_param(&b), true, false, 4),
           out = qn_kb_buffer(&b, QN_I64, 1, qn_kb_new_param(&b), false, true, 2);
  uint32_t halves = qn_kb_buffer(&b, QN_F16, 2, qn_kb_new_param(&b), false, true, 2);
  qn_sval n = qn_kb_param(&b, qn_kb_new_param(&b)), g = qn_kb_group(&b);
  qn_sval acc = qn_kb_var(&b, qn_kb_splat(&b, qs_bits(s, QN_I64, 0), 8));
  qn_sval bytes = qn_kb_array(&b, QN_I8, 8, false);
  qn_sval i = qn_kb_loop(&b, qs_bits(s, QN_I64, 1), qs_convert(s, QN_I64, n), 3, true);
  qn_sval at = qs_add(s, qs_convert(s, QN_U32, i), qs_mul(s, g, qs_bits(s, QN_U32, 8)));
  qn_sval x = qn_kb_load(&b, in, at, 8, qs_lt(s, i, qs_bits(s, QN_I64, 20)));
  qn_kb_astore(&b, bytes, qs_bits(s, QN_U32, 0), qn_kb_join(&b, qn_kb_high(&b, x), qn_kb_low(&b, x)));
  qn_sval y = qn_kb_aload(&b, bytes, qs_bits(s, QN_U32, 0), 8);
  qn_sval lane = qs_convert(s, QN_I64, qn_kb_iota(&b, 8));
  qn_sval term = qs_mul(s, qs_add(s, qs_convert(s, QN_I64, y), lane), qs_mul(s, i, qs_bits(s, QN_I64, 0x123456789)));
  qn_kb_if(&b, qs_eq(s, qs_irem(s, i, qs_bits(s, QN_I64, 2)), qs_bits(s, QN_I64, 0)));
  qn_kb_set(&b, acc, qs_add(s, qn_kb_get(&b, acc), term));
  qn_kb_else(&b);
  qn_kb_set(&b, acc, qs_sub(s, qn_kb_get(&b, acc), qs_shr(s, term, qs_bits(s, QN_I64, 5))));
  qn_kb_close(&b);
  qn_kb_close(&b);
  qn_sval sum = qn_kb_get(&b, acc), where = qs_mul(s, g, qs_bits(s, QN_U32, 8));
  qn_kb_store(&b, out, where, sum, none);
  qn_sval odd = qs_eq(s, qs_and(s, qn_kb_iota(&b, 8), qs_bits(s, QN_I32, 1)), qs_bits(s, QN_I32, 1));
  qn_sval places = qs_sub(s, qs_add(s, where, qs_bits(s, QN_U32, 7)), qs_convert(s, QN_U32, qn_kb_iota(&b, 8)));
  qn_kb_scatter(&b, halves, places, qs_convert(s, QN_F16, sum), odd);
  QN_ASSERT_OK(qn_kbuild_end(&b));
}

Test(kernel_legalize, structure_lanes_and_memory) {
  enum { GROUPS = 3 };
  qn_kernel k;
  build_structured(&k);
  int8_t in[256];
  for (int i = 0; i < 256; ++i)
    in[i] = (int8_t)(i * 37 + 11);
  int64_t want[8 * GROUPS + 8] = {0};
  uint16_t want_half[8 * GROUPS + 8] = {0};
  uint32_t params[5] = {GROUPS, 4, 2, 2, 23};
  void *bindings[3] = {in, want, want_half};
  qn_kernel_interpret(&k, bindings, params, 0, GROUPS);
  cr_expect_neq(want[5], 0);
  cr_expect_neq(want_half[4], 0);
  cr_expect_eq(want_half[3], 0, "masked off");
  for (size_t d = 0; d < CASE_DEVICES; ++d) {
    qn_kernel legal;
    QN_ASSERT_OK(qn_kernel_legalize(&k, &case_devices[d].caps, &legal));
    int64_t got[8 * GROUPS + 8] = {0};
    uint16_t got_half[8 * GROUPS + 8] = {0};
    bindings[1] = got;
    bindings[2] = got_half;
    qn_kernel_interpret(&legal, bindings, params, 0, GROUPS);
    cr_expect(memcmp(got, want, sizeof got) == 0, "sums on %s", case_devices[d].name);
    cr_expect(memcmp(got_half, want_half, sizeof got_half) == 0, "halves on %s", case_devices[d].name);
    qn_kernel_free(&legal);
  }
  qn_kernel_free(&k);
}

/* Stores of single bytes by many items leave their neighbours alone; aligned vectors store whole words without atomics. */
Test(kernel_legalize, packed_stores) {
  for (uint32_t lanes = 1; lanes <= 8; lanes *= 2) {
    qn_kernel k, legal;
    case_build(&k, (op_case){QN_S_NEG, QN_I8, QN_I8}, lanes);
    QN_ASSERT_OK(qn_kernel_legalize(&k, &case_devices[3].caps, &legal));
    size_t atomics = 0, stores = 0;
    for (size_t i = 1; i < legal.count; ++i) {
      atomics += legal.insts[i].kop == QN_K_ATOMIC_AND || legal.insts[i].kop == QN_K_ATOMIC_OR;
      stores += legal.insts[i].kop == QN_K_STORE;
    }
    cr_expect_eq(atomics, lanes < 4 ? 2 * lanes : 0);
    cr_expect_eq(stores, lanes < 4 ? 0 : lanes / 4);
    qn_kernel_free(&legal);
    qn_kernel_free(&k);
  }
}

Test(kernel_legalize, is_deterministic) {
  qn_kernel k, x, y;
  build_structured(&k);
  QN_ASSERT_OK(qn_kernel_legalize(&k, &case_devices[3].caps, &x));
  QN_ASSERT_OK(qn_kernel_legalize(&k, &case_devices[3].caps, &y));
  cr_expect_str_eq(x.name, y.name);
  qn_text a = {0}, b = {0};
  qn_kernel_dump(&x, &a);
  qn_kernel_dump(&y, &b);
  cr_expect_str_eq(a.buf, b.buf);
  qn_text_free(&a);
  qn_text_free(&b);
  qn_kernel_free(&k);
  qn_kernel_free(&x);
  qn_kernel_free(&y);
}

/* ---- devices that end loops after so many rounds ---- */

/* sum over i < 701 of (sum over j < 300 of x[j] * i) + (sum over j from i up to 701 of x[j]), in order */
static void build_loops(qn_kernel *k, uint64_t outer) {
  qn_kbuild b;
  *k = (qn_kernel){.items = 1, .binding_count = 2, .param_count = 1};
  QN_ASSERT_OK(qn_kbuild_begin(&b, k));
  uint32_t in = qn_kb_buffer(&b, QN_F32, 0, qn_kb_new_param(&b), true, false, 1);
  uint32_t out = qn_kb_buffer(&b, QN_F32, 1, qn_kb_new_param(&b), false, true, 1);
  qn_sink *s = &b.sink;
  qn_sval zero = qs_bits(s, QN_I32, 0), end = qs_bits(s, QN_I32, outer);
  qn_sval sum = qn_kb_var(&b, qs_const(s, QN_F32, 0));
  qn_sval i = qn_kb_loop(&b, zero, end, 1, true);
  qn_sval j = qn_kb_loop(&b, zero, qs_bits(s, QN_I32, 300), 1, true);
  qn_sval x = qn_kb_load(&b, in, j, 1, (qn_sval){0});
  qn_kb_set(&b, sum, qs_add(s, qn_kb_get(&b, sum), qs_mul(s, x, qs_convert(s, QN_F32, i))));
  qn_kb_close(&b);
  j = qn_kb_loop(&b, i, end, 1, true);
  x = qn_kb_load(&b, in, j, 1, (qn_sval){0});
  qn_kb_set(&b, sum, qs_add(s, qn_kb_get(&b, sum), x));
  qn_kb_close(&b);
  qn_kb_close(&b);
  qn_kb_store(&b, out, zero, qn_kb_get(&b, sum), (qn_sval){0});
  QN_ASSERT_OK(qn_kbuild_end(&b));
}

/* Rounds of one item at most, the loops' ends being constants. */
static double rounds_of(const qn_kernel *k) {
  double sum = 0, around[8] = {1};
  int depth = 0;
  for (size_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop == QN_K_LOOP) {
      double n = (double)k->insts[in->b].imm / (double)in->imm;
      around[depth + 1] = around[depth] * n;
      sum += around[depth + 1];
      ++depth;
    } else if (in->kop == QN_K_IF) {
      around[depth + 1] = around[depth];
      ++depth;
    } else if (in->kop == QN_K_END) {
      --depth;
    }
  }
  return sum;
}

Test(kernel_legalize, loops_stay_below_a_bound_on_rounds) {
  static float x[701], got[2];
  qn_device_caps caps = case_devices[0].caps;
  caps.max_loop_rounds = 65535;
  for (int i = 0; i < 701; ++i)
    x[i] = (float)(i * 37 % 101) / 64;
  qn_kernel k, legal;
  build_loops(&k, 701);
  cr_expect(rounds_of(&k) > 400000);
  QN_ASSERT_OK(qn_kernel_legalize(&k, &caps, &legal));
  QN_EXPECT_OK(qn_kernel_verify(&legal));
  cr_expect(rounds_of(&legal) < 65535, "%g rounds", rounds_of(&legal));
  uint32_t params[3] = {1, 0, 0};
  qn_kernel_interpret(&k, (void *[]){x, &got[0]}, params, 0, 1);
  qn_kernel_interpret(&legal, (void *[]){x, &got[1]}, params, 0, 1);
  cr_expect(got[0] == got[1] && got[0] != 0, "%g, expected %g", (double)got[1], (double)got[0]);
  qn_kernel_free(&legal);
  qn_kernel_free(&k);
}

Test(kernel_legalize, too_many_rounds_are_refused) {
  qn_device_caps caps = case_devices[0].caps;
  caps.max_loop_rounds = 1000;
  qn_kernel k, legal;
  build_loops(&k, 70001);
  QN_EXPECT_FAIL(qn_kernel_legalize(&k, &caps, &legal), QN_UNSUPPORTED, "rounds of loops");
  qn_kernel_free(&k);
}
