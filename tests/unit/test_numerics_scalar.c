/* The meaning of the scalar operations on the host, the host sink, and the recording sink against it. */
#include "numerics_kit.h"

static uint64_t eval1(qn_sop op, qn_dtype result, qn_dtype operand, uint64_t a) {
  return qn_scalar_eval(op, result, operand, &a);
}

static uint64_t eval2(qn_sop op, qn_dtype result, qn_dtype operand, uint64_t a, uint64_t b) {
  uint64_t in[2] = {a, b};
  return qn_scalar_eval(op, result, operand, in);
}

Test(numerics_scalar, names_and_arities) {
  for (int op = 0; op < QN_S_COUNT; ++op) {
    const char *name = qn_sop_name((qn_sop)op);
    cr_assert(name && *name, "operation %d has no name", op);
    for (int other = 0; other < op; ++other)
      cr_assert_str_neq(name, qn_sop_name((qn_sop)other));
    int arity = qn_sop_arity((qn_sop)op);
    cr_assert(op == QN_S_CONST ? arity == 0 : arity >= 1 && arity <= 3);
  }
  cr_assert_eq(qn_sop_arity(QN_S_FMA), 3);
  cr_assert_str_eq(qn_sop_name(QN_S_COUNT), "?");
}

Test(numerics_scalar, float_rounds_once) {
  /* 1 + 2^-11 + 2^-30 is above half-way in f16; by way of f32 it would become the tie and go to even */
  double x = 1 + 0x1p-11 + 0x1p-40;
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F16, QN_F64, kit_bits64(x)), 0x3c01);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_BF16, QN_F64, kit_bits64(1 + 0x1p-8 + 0x1p-40)), 0x3f81);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_BF16, QN_I64, (UINT64_C(1) << 40) + (UINT64_C(1) << 32) + 1), 0x5381);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F16, QN_F64, kit_bits64(1e300)), 0x7c00);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F16, QN_F64, kit_bits64(-1e-300)), 0x8000);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F32, QN_U64, UINT64_MAX), kit_bits32(0x1p64f));
  uint64_t in[3] = {kit_bits32(1 + 0x1p-23f), kit_bits32(1 + 0x1p-23f), kit_bits32(-(1 + 0x1p-22f))};
  cr_assert_eq(qn_scalar_eval(QN_S_FMA, QN_F32, QN_F32, in), kit_bits32(0x1p-46f));
}

Test(numerics_scalar, float_signs_and_compares) {
  uint64_t nan = 0x7fc00001, minus_zero = 0x80000000;
  cr_assert_eq(eval1(QN_S_NEG, QN_F32, QN_F32, nan), 0xffc00001);
  cr_assert_eq(eval1(QN_S_ABS, QN_F32, QN_F32, 0xffc00001), nan);
  cr_assert_eq(eval1(QN_S_NEG, QN_BF16, QN_BF16, 0x7fc1), 0xffc1);
  cr_assert_eq(eval2(QN_S_NE, QN_BOOL, QN_F32, nan, nan), 1);
  cr_assert_eq(eval2(QN_S_EQ, QN_BOOL, QN_F32, nan, nan), 0);
  cr_assert_eq(eval2(QN_S_LE, QN_BOOL, QN_F32, nan, 0), 0);
  cr_assert_eq(eval2(QN_S_EQ, QN_BOOL, QN_F32, minus_zero, 0), 1);
  cr_assert_eq(eval1(QN_S_RINT, QN_F32, QN_F32, kit_bits32(2.5f)), kit_bits32(2.0f));
  cr_assert_eq(eval1(QN_S_TRUNC, QN_F32, QN_F32, kit_bits32(-0.5f)), minus_zero);
}

Test(numerics_scalar, integers_wrap_and_extend) {
  cr_assert_eq(eval2(QN_S_ADD, QN_I8, QN_I8, 0x7f, 1), 0x80);
  cr_assert_eq(eval2(QN_S_MUL, QN_U16, QN_U16, 0xffff, 0xffff), 1);
  cr_assert_eq(eval1(QN_S_NEG, QN_I32, QN_I32, 0x80000000), 0x80000000);
  cr_assert_eq(eval2(QN_S_SHR, QN_I8, QN_I8, 0x80, 7), 0xff);
  cr_assert_eq(eval2(QN_S_SHR, QN_U8, QN_U8, 0x80, 7), 1);
  cr_assert_eq(eval2(QN_S_LT, QN_BOOL, QN_I16, 0xffff, 0), 1);
  cr_assert_eq(eval2(QN_S_LT, QN_BOOL, QN_U16, 0xffff, 0), 0);
  cr_assert_eq(eval2(QN_S_IDIV, QN_I8, QN_I8, 0xf9, 2), 0xfd); /* -7 / 2 = -3 */
  cr_assert_eq(eval2(QN_S_IREM, QN_I8, QN_I8, 0xf9, 2), 0xff);
  cr_assert_eq(eval2(QN_S_MULHI, QN_U32, QN_U32, 0xffffffff, 0xffffffff), 0xfffffffe);
  cr_assert_eq(eval2(QN_S_MULHI, QN_I32, QN_I32, 0xffffffff, 2), 0xffffffff);
  cr_assert_eq(eval2(QN_S_MULHI, QN_U64, QN_U64, UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
  cr_assert_eq(eval2(QN_S_MULHI, QN_I64, QN_I64, UINT64_MAX, 2), UINT64_MAX);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_I64, QN_I8, 0x80), (uint64_t)INT64_C(-128));
  cr_assert_eq(eval1(QN_S_CONVERT, QN_U8, QN_I64, (uint64_t)INT64_C(-1)), 0xff);
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F64, QN_I8, 0x80), kit_bits64(-128));
  cr_assert_eq(eval1(QN_S_CONVERT, QN_F32, QN_BOOL, 1), kit_bits32(1));
  cr_assert_eq(eval1(QN_S_NOT, QN_BOOL, QN_BOOL, 1), 0);
  cr_assert_eq(eval1(QN_S_CLZ, QN_U16, QN_U16, 1), 15);
  cr_assert_eq(eval1(QN_S_CLZ, QN_U64, QN_U64, 0), 64);
  cr_assert_eq(eval1(QN_S_POPCNT, QN_U32, QN_U32, 0xf0f0f0f1), 17);
}

Test(numerics_scalar, constants_round_to_their_dtype) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  cr_assert_eq(qn_host_sink_bits(&h, qs_const(&h.base, QN_F32, 0.1)), kit_bits32(0.1f));
  cr_assert_eq(qn_host_sink_bits(&h, qs_const(&h.base, QN_BF16, 1.0)), 0x3f80);
  cr_assert_eq(qn_host_sink_bits(&h, qs_const(&h.base, QN_I8, -1)), 0xff);
  cr_assert_eq(qn_host_sink_bits(&h, qs_const(&h.base, QN_U64, 0x1p63)), UINT64_C(1) << 63);
  cr_assert_eq(qn_host_sink_bits(&h, qs_const(&h.base, QN_BOOL, 2)), 1);
  cr_assert(!h.failed);
  qs_add(&h.base, (qn_sval){0}, (qn_sval){0});
  cr_assert(h.failed, "an operand that is no value must be noticed");
  qn_host_sink_clear(&h);
  cr_assert(!h.failed && h.count == 0);
  qn_host_sink_free(&h);
}

/* One expansion of each kind, over random bits: both sinks must agree to the bit. */
Test(numerics_scalar, recorded_equals_immediate) {
  static const struct {
    qn_expand_fn f;
    int arity;
  } cases[] = {{qn_expand_exp, 1},   {qn_expand_sin, 1},        {qn_expand_lgamma, 1},
               {qn_expand_power, 2}, {qn_expand_remainder, 2},  {qn_expand_erfc, 1},
               {qn_expand_cbrt, 1},  {qn_expand_next_after, 2}, {qn_expand_maximum, 2}};
  enum { N = 700 };
  uint64_t state = 88172645463325252u;
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    for (int wide = 0; wide < 2; ++wide) {
      qn_dtype t = wide ? QN_F64 : QN_F32;
      size_t size = wide ? 8 : 4;
      static uint64_t a[N], b[N], y[N];
      for (int i = 0; i < N; ++i) {
        a[i] = kit_random(&state);
        b[i] = kit_random(&state);
      }
      kit_expand(cases[c].f, t, cases[c].arity, a, b, y, N);
      qn_host_sink h;
      qn_host_sink_init(&h);
      for (size_t i = 0; i < N; ++i) {
        uint64_t x0 = 0, x1 = 0, want = 0;
        memcpy(&x0, (char *)a + i * size, size);
        memcpy(&x1, (char *)b + i * size, size);
        memcpy(&want, (char *)y + i * size, size);
        qn_host_sink_clear(&h);
        qn_sval in[2] = {qn_host_sink_value(&h, t, x0), qn_host_sink_value(&h, t, x1)};
        uint64_t got = qn_host_sink_bits(&h, cases[c].f(&h.base, in, NULL));
        bool both_nan = wide ? isnan(kit_f64(got)) && isnan(kit_f64(want))
                             : isnan(kit_f32((uint32_t)got)) && isnan(kit_f32((uint32_t)want));
        cr_assert(got == want || both_nan, "case %zu, f%d, operands %llx %llx: %llx, recorded %llx", c, wide ? 64 : 32,
                  (unsigned long long)x0, (unsigned long long)x1, (unsigned long long)got, (unsigned long long)want);
      }
      qn_host_sink_free(&h);
    }
  }
}

Test(numerics_scalar, recording_folds_and_shares) {
  qn_host_program p;
  qn_host_program_init(&p);
  qn_sval x = qn_host_program_input(&p, QN_F32);
  qn_sval two = qs_add(&p.base, qs_const(&p.base, QN_F32, 1), qs_const(&p.base, QN_F32, 1));
  qn_sval a = qs_mul(&p.base, x, two), b = qs_mul(&p.base, x, qs_const(&p.base, QN_F32, 2));
  cr_assert_eq(a.id, b.id);
  qs_sqrt(&p.base, a); /* unused */
  cr_assert(qn_host_program_finish(&p, qs_add(&p.base, a, b)));
  cr_assert_eq(qn_host_program_ops(&p), 2);
  float in[1300], out[1300];
  for (int i = 0; i < 1300; ++i)
    in[i] = (float)i;
  kit_run(&p, in, NULL, out, 1300);
  for (int i = 0; i < 1300; ++i)
    cr_assert_eq(out[i], 4 * (float)i);
  cr_assert(!qn_host_program_finish(&p, (qn_sval){0}));
  qn_host_program_free(&p);
}

/* A host sink that notes the dtypes it is asked for. */
typedef struct watching_sink {
  qn_host_sink host;
  qn_sval (*emit)(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm);
  unsigned seen; /* bit per dtype */
} watching_sink;

static qn_sval watch(qn_sink *s, qn_sop op, qn_dtype result, const qn_sval *in, int count, uint64_t imm) {
  watching_sink *w = (watching_sink *)s;
  w->seen |= 1u << result;
  return w->emit(s, op, result, in, count, imm);
}

/* Devices without f64 and 64-bit integers run every f32 function; and 64-bit products need no upper half anywhere. */
Test(numerics_scalar, f32_needs_32_bits_only) {
  static const qn_expand_fn all[] = {
      qn_expand_exp,     qn_expand_expm1,      qn_expand_log,       qn_expand_log1p,     qn_expand_sin,
      qn_expand_cos,     qn_expand_tan,        qn_expand_tanh,      qn_expand_logistic,  qn_expand_cbrt,
      qn_expand_rsqrt,   qn_expand_power,      qn_expand_atan2,     qn_expand_asin,      qn_expand_acos,
      qn_expand_atan,    qn_expand_sinh,       qn_expand_cosh,      qn_expand_asinh,     qn_expand_acosh,
      qn_expand_atanh,   qn_expand_erf,        qn_expand_erfc,      qn_expand_erf_inv,   qn_expand_lgamma,
      qn_expand_digamma, qn_expand_bessel_i1e, qn_expand_zeta,      qn_expand_polygamma, qn_expand_remainder,
      qn_expand_maximum, qn_expand_minimum,    qn_expand_sign,      qn_expand_abs,       qn_expand_is_finite,
      qn_expand_divide,  qn_expand_round_afz,  qn_expand_next_after};
  unsigned allowed = 1u << QN_F32 | 1u << QN_I32 | 1u << QN_U32 | 1u << QN_BOOL;
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    watching_sink w = {.seen = 0};
    qn_host_sink_init(&w.host);
    w.emit = w.host.base.emit;
    w.host.base.emit = watch;
    qn_sval one = qs_const(&w.host.base, QN_F32, 1), in[3] = {one, one, one};
    all[i](&w.host.base, in, NULL);
    cr_expect_eq(w.seen & ~allowed, 0, "function %zu uses other dtypes: %x", i, w.seen);
    qn_host_sink_free(&w.host);
  }
}
