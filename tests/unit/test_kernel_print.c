/* Printed kernels: a dozen texts kept under tests/golden, one a shape of kernel (QN_BLESS=1 rewrites them; read the difference), every
 * operation through glslang, and the same bytes every time. */
#include "kernel_cases.h"

#ifdef QN_HAVE_GLSLANG
#include "quern/spirv.h"
#endif

static const qn_sval none;

typedef struct draft {
  qn_kbuild b;
  qn_sink *s;
} draft;

static void start(draft *d, qn_kernel *k, uint32_t items) {
  memset(k, 0, sizeof *k);
  k->items = items;
  QN_ASSERT_OK(qn_kbuild_begin(&d->b, k));
  d->s = &d->b.sink;
}

static uint32_t input(draft *d, qn_dtype t, uint32_t binding) {
  return qn_kb_buffer(&d->b, t, binding, qn_kb_new_param(&d->b), true, false, 64);
}
static uint32_t output(draft *d, qn_dtype t, uint32_t binding) {
  return qn_kb_buffer(&d->b, t, binding, qn_kb_new_param(&d->b), false, true, 64);
}
static qn_sval u32(draft *d, uint32_t x) { return qs_bits(d->s, QN_U32, x); }
static qn_sval f32(draft *d, double x) { return qs_const(d->s, QN_F32, x); }

/* relu(x + 1.5) in vectors, the last one guarded. */
static void map_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F32, 0), out = output(&d, QN_F32, 1);
  uint32_t t0 = qn_kb_new_param(&d.b);
  qn_sval n = qn_kb_param(&d.b, t0);
  qn_sval t1 = qn_kb_group(&d.b);
  qn_sval t2 = u32(&d, 4);
  qn_sval at = qs_mul(d.s, t1, t2);
  qn_sval t3 = u32(&d, 4);
  qn_sval t4 = qs_add(d.s, at, t3);
  qn_sval fits = qs_le(d.s, t4, n);
  qn_kb_if(&d.b, fits);
  qn_sval t5 = qn_kb_load(&d.b, in, at, 4, none);
  qn_sval t6 = f32(&d, 1.5);
  qn_sval x = qs_add(d.s, t5, t6);
  qn_sval t7 = f32(&d, 0);
  qn_sval t8 = qs_lt(d.s, t7, x);
  qn_sval t9 = f32(&d, 0);
  qn_sval t10 = qs_select(d.s, t8, x, t9);
  qn_kb_store(&d.b, out, at, t10, none);
  qn_kb_else(&d.b);
  qn_sval i = qn_kb_loop(&d.b, at, n, 1, true);
  qn_sval t11 = qn_kb_load(&d.b, in, i, 1, none);
  qn_sval t12 = f32(&d, 1.5);
  qn_sval y = qs_add(d.s, t11, t12);
  qn_sval t13 = f32(&d, 0);
  qn_sval t14 = qs_lt(d.s, t13, y);
  qn_sval t15 = f32(&d, 0);
  qn_sval t16 = qs_select(d.s, t14, y, t15);
  qn_kb_store(&d.b, out, i, t16, none);
  qn_kb_close(&d.b);
  qn_kb_close(&d.b);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Row sums scaled by a value of the row, which leaves the loop. */
static void row_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F32, 0), scale = input(&d, QN_F32, 1), out = output(&d, QN_F32, 2);
  uint32_t t17 = qn_kb_new_param(&d.b);
  qn_sval n = qn_kb_param(&d.b, t17);
  qn_sval g = qn_kb_group(&d.b);
  qn_sval t18 = f32(&d, 0);
  qn_sval acc = qn_kb_var(&d.b, t18);
  qn_sval t19 = u32(&d, 0);
  qn_sval i = qn_kb_loop(&d.b, t19, n, 1, false);
  qn_sval t20 = qs_mul(d.s, g, n);
  qn_sval t21 = qs_add(d.s, t20, i);
  qn_sval x = qn_kb_load(&d.b, in, t21, 1, none);
  qn_sval t22 = qn_kb_load(&d.b, scale, g, 1, none);
  qn_sval t23 = qn_kb_get(&d.b, acc);
  qn_sval t24 = qs_fma(d.s, x, t22, t23);
  qn_kb_set(&d.b, acc, t24);
  qn_kb_close(&d.b);
  qn_sval t25 = qn_kb_get(&d.b, acc);
  qn_kb_store(&d.b, out, g, t25, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* A 2 x 8 register tile: vector B, broadcast A. */
static void tile_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t a = input(&d, QN_F32, 0), b = input(&d, QN_F32, 1), out = output(&d, QN_F32, 2);
  uint32_t t26 = qn_kb_new_param(&d.b);
  qn_sval depth = qn_kb_param(&d.b, t26);
  qn_sval g = qn_kb_group(&d.b);
  qn_sval acc[2];
  for (int r = 0; r < 2; ++r) {
    qn_sval t27 = f32(&d, 0);
    qn_sval t28 = qn_kb_splat(&d.b, t27, 8);
    acc[r] = qn_kb_var(&d.b, t28);
  }
  qn_sval t29 = u32(&d, 0);
  qn_sval i = qn_kb_loop(&d.b, t29, depth, 1, true);
  qn_sval t30 = u32(&d, 8);
  qn_sval t31 = qs_mul(d.s, i, t30);
  qn_sval row = qn_kb_load(&d.b, b, t31, 8, none);
  for (uint32_t r = 0; r < 2; ++r) {
    qn_sval t32 = u32(&d, 2);
    qn_sval t33 = qs_mul(d.s, g, t32);
    qn_sval t34 = u32(&d, r);
    qn_sval t35 = qs_add(d.s, t33, t34);
    qn_sval t36 = qs_mul(d.s, t35, depth);
    qn_sval at = qs_add(d.s, t36, i);
    qn_sval t37 = qn_kb_load(&d.b, a, at, 1, none);
    qn_sval t38 = qn_kb_get(&d.b, acc[r]);
    qn_sval t39 = qs_fma(d.s, t37, row, t38);
    qn_kb_set(&d.b, acc[r], t39);
  }
  qn_kb_close(&d.b);
  for (uint32_t r = 0; r < 2; ++r) {
    qn_sval t40 = u32(&d, 2);
    qn_sval t41 = qs_mul(d.s, g, t40);
    qn_sval t42 = u32(&d, r);
    qn_sval t43 = qs_add(d.s, t41, t42);
    qn_sval t44 = u32(&d, 8);
    qn_sval t45 = qs_mul(d.s, t43, t44);
    qn_sval t46 = qn_kb_get(&d.b, acc[r]);
    qn_kb_store(&d.b, out, t45, t46, none);
  }
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Items stage vectors in local memory and read them back reversed. */
static void staged_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 16);
  uint32_t in = input(&d, QN_F32, 0), out = output(&d, QN_F32, 1);
  qn_sval item = qn_kb_item(&d.b);
  qn_sval tile = qn_kb_array(&d.b, QN_F32, 64, true);
  qn_sval plain = qn_kb_array(&d.b, QN_F32, 16, true);
  qn_sval t47 = qn_kb_group(&d.b);
  qn_sval t48 = u32(&d, 16);
  qn_sval t49 = qs_mul(d.s, t47, t48);
  qn_sval t50 = qs_add(d.s, t49, item);
  qn_sval t51 = u32(&d, 4);
  qn_sval at = qs_mul(d.s, t50, t51);
  qn_sval x = qn_kb_load(&d.b, in, at, 4, none);
  qn_sval t52 = u32(&d, 4);
  qn_sval t53 = qs_mul(d.s, item, t52);
  qn_kb_astore(&d.b, tile, t53, x);
  qn_sval t54 = qn_kb_extract(&d.b, x, 2);
  qn_kb_astore(&d.b, plain, item, t54);
  qn_kb_barrier(&d.b);
  qn_sval t55 = u32(&d, 15);
  qn_sval other = qs_sub(d.s, t55, item);
  qn_sval t56 = u32(&d, 4);
  qn_sval t57 = qs_mul(d.s, other, t56);
  qn_sval t58 = qn_kb_aload(&d.b, tile, t57, 4);
  qn_sval t59 = qn_kb_aload(&d.b, plain, other, 1);
  qn_sval y = qs_add(d.s, t58, t59);
  qn_sval t60 = qn_kb_high(&d.b, y);
  qn_sval t61 = qn_kb_low(&d.b, y);
  qn_sval t62 = qn_kb_join(&d.b, t60, t61);
  qn_kb_store(&d.b, out, at, t62, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Rows picked by an index list and added elsewhere, bounds by masks; indexes are signed. */
static void gather_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F32, 0), index = input(&d, QN_I32, 1), out = output(&d, QN_F32, 2);
  uint32_t t63 = qn_kb_new_param(&d.b);
  qn_sval t64 = qn_kb_param(&d.b, t63);
  qn_sval n = qs_convert(d.s, QN_I32, t64);
  qn_sval t65 = qn_kb_group(&d.b);
  qn_sval t66 = u32(&d, 4);
  qn_sval t67 = qs_mul(d.s, t65, t66);
  qn_sval i = qn_kb_load(&d.b, index, t67, 4, none);
  qn_sval zero = qs_bits(d.s, QN_I32, 0);
  qn_sval t68 = qs_le(d.s, zero, i);
  qn_sval t69 = qs_lt(d.s, i, n);
  qn_sval inside = qs_and(d.s, t68, t69);
  qn_sval x = qn_kb_gather(&d.b, in, i, inside);
  qn_sval t70 = qs_bits(d.s, QN_I32, 1);
  qn_sval t71 = qs_sub(d.s, n, t70);
  qn_sval mirrored = qs_sub(d.s, t71, i);
  qn_sval t72 = f32(&d, -0.3);
  qn_sval t73 = qs_mul(d.s, x, t72);
  qn_kb_scatter(&d.b, out, mirrored, t73, inside);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void halves_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_BF16, 0), out = output(&d, QN_F16, 1);
  qn_sval t74 = qn_kb_group(&d.b);
  qn_sval t75 = u32(&d, 2);
  qn_sval at = qs_mul(d.s, t74, t75);
  qn_sval t76 = qn_kb_load(&d.b, in, at, 2, none);
  qn_sval x = qs_convert(d.s, QN_F32, t76);
  qn_sval t77 = qs_sqrt(d.s, x);
  qn_sval t78 = qs_convert(d.s, QN_F16, t77);
  qn_kb_store(&d.b, out, at, t78, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void bytes_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_U8, 0), flags = input(&d, QN_BOOL, 1), out = output(&d, QN_U8, 2),
           one = output(&d, QN_BOOL, 3);
  qn_sval g = qn_kb_group(&d.b);
  qn_sval t79 = u32(&d, 4);
  qn_sval at = qs_mul(d.s, g, t79);
  qn_sval x = qn_kb_load(&d.b, in, at, 4, none);
  qn_sval p = qn_kb_load(&d.b, flags, at, 4, none);
  qn_sval t80 = qs_bits(d.s, QN_U8, 200);
  qn_sval t81 = qs_add(d.s, x, t80);
  qn_sval t82 = qs_select(d.s, p, t81, x);
  qn_kb_store(&d.b, out, at, t82, none);
  qn_sval t83 = qn_kb_extract(&d.b, p, 1);
  qn_sval t84 = qs_not(d.s, p);
  qn_sval t85 = qn_kb_extract(&d.b, t84, 3);
  qn_sval t86 = qs_xor(d.s, t83, t85);
  qn_kb_store(&d.b, one, g, t86, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void wide_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_I64, 0), out = output(&d, QN_I64, 1), words = output(&d, QN_U32, 2);
  qn_sval g = qn_kb_group(&d.b);
  qn_sval x = qn_kb_load(&d.b, in, g, 1, none);
  qn_sval c = qs_bits(d.s, QN_I64, UINT64_C(0x8000000000000001));
  qn_sval t87 = qs_mul(d.s, x, c);
  qn_sval t88 = qs_bits(d.s, QN_I64, 7);
  qn_sval t89 = qs_shr(d.s, x, t88);
  qn_sval t90 = qs_sub(d.s, t87, t89);
  qn_kb_store(&d.b, out, g, t90, none);
  qn_sval low = qs_convert(d.s, QN_U32, x);
  qn_sval t91 = u32(&d, 0xd2511f53);
  qn_sval t92 = qs_mulhi(d.s, low, t91);
  qn_sval t93 = qs_clz(d.s, low);
  qn_sval t94 = qs_add(d.s, t92, t93);
  qn_kb_store(&d.b, words, g, t94, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void doubles_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F64, 0), out = output(&d, QN_F64, 1);
  qn_sval t95 = qn_kb_group(&d.b);
  qn_sval t96 = u32(&d, 2);
  qn_sval at = qs_mul(d.s, t95, t96);
  qn_sval x = qn_kb_load(&d.b, in, at, 2, none);
  qn_sval t97 = qs_const(d.s, QN_F64, 0.1);
  qn_sval t98 = qs_const(d.s, QN_F64, -2.5);
  qn_sval y = qs_fma(d.s, x, t97, t98);
  qn_sval t99 = qs_ne(d.s, x, x);
  qn_sval t100 = qs_bits(d.s, QN_F64, UINT64_C(0x7ff8000000000000));
  qn_sval t101 = qs_select(d.s, t99, t100, y);
  qn_kb_store(&d.b, out, at, t101, none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Divergent memory of both kinds in a loop over a private array. */
static void private_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_I32, 0), out = output(&d, QN_I32, 1);
  qn_sval g = qn_kb_group(&d.b);
  qn_sval seen = qn_kb_array(&d.b, QN_I32, 8, false);
  uint32_t t102 = qn_kb_new_param(&d.b);
  qn_sval n = qn_kb_param(&d.b, t102);
  qn_sval t103 = u32(&d, 0);
  qn_sval t104 = u32(&d, 8);
  qn_sval i = qn_kb_loop(&d.b, t103, t104, 1, false);
  qn_sval t105 = u32(&d, 8);
  qn_sval t106 = qs_mul(d.s, g, t105);
  qn_sval at = qs_add(d.s, t106, i);
  qn_sval t107 = qs_lt(d.s, at, n);
  qn_sval t108 = qn_kb_load(&d.b, in, at, 1, t107);
  qn_kb_astore(&d.b, seen, i, t108);
  qn_kb_close(&d.b);
  qn_sval t109 = u32(&d, 0);
  qn_sval t110 = u32(&d, 7);
  qn_sval j = qn_kb_loop(&d.b, t109, t110, 2, false);
  qn_sval x = qn_kb_aload(&d.b, seen, j, 1);
  qn_sval t111 = u32(&d, 1);
  qn_sval t112 = qs_add(d.s, j, t111);
  qn_sval y = qn_kb_aload(&d.b, seen, t112, 1);
  qn_sval t113 = u32(&d, 4);
  qn_sval t114 = qs_mul(d.s, g, t113);
  qn_sval t115 = u32(&d, 1);
  qn_sval t116 = qs_shr(d.s, j, t115);
  qn_sval where = qs_add(d.s, t114, t116);
  qn_sval t117 = qs_mul(d.s, x, y);
  qn_sval t118 = qs_neg(d.s, x);
  qn_sval t119 = qs_sub(d.s, t117, t118);
  qn_sval t120 = qs_lt(d.s, where, n);
  qn_kb_store(&d.b, out, where, t119, t120);
  qn_kb_close(&d.b);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

typedef struct shape {
  const char *name;
  void (*build)(qn_kernel *k);
  bool opencl, vulkan, poor;
} shape;
static const shape shapes[] = {
    {"map", map_kernel, true, true, false},         {"row", row_kernel, true, true, false},
    {"tile", tile_kernel, true, true, false},       {"staged", staged_kernel, true, true, false},
    {"gather", gather_kernel, true, true, false},   {"halves", halves_kernel, true, false, false},
    {"bytes", bytes_kernel, true, true, true},      {"wide", wide_kernel, true, true, true},
    {"doubles", doubles_kernel, true, true, false}, {"private", private_kernel, false, true, false},
};

static char *print_for(const shape *s, const qn_dialect *d, const qn_device_caps *caps) {
  qn_kernel k, legal;
  qn_text t = {0};
  s->build(&k);
  QN_ASSERT_OK(qn_kernel_legalize(&k, caps, &legal));
  qn_dialect_prelude(d, caps, &t);
  qn_kernel_print(&legal, d, caps, &t);
  QN_ASSERT_OK(qn_text_check(&t));
  qn_kernel_free(&k);
  qn_kernel_free(&legal);
  return t.buf;
}

static void expect_golden(const char *file, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "tests/golden/kernel_%s", file);
  const char *bless = getenv("QN_BLESS");
  if (bless && strcmp(bless, "1") == 0)
    QN_EXPECT_OK(qn_file_write_atomic(path, text, strlen(text)));
  qn_bytes want = {0};
  QN_ASSERT_OK(qn_file_read(path, &want));
  cr_expect(want.size == strlen(text) && memcmp(want.data, text, want.size) == 0, "%s differs; printed now:\n%s", path,
            text);
  free(want.data);
}

static void check_shader(const char *text, const char *label) {
#ifdef QN_HAVE_GLSLANG
  qn_bytes words = {0};
  qn_status st = qn_glsl_to_spirv(text, label, &words);
  cr_assert(st == QN_OK, "%s\n%s", qn_error_report(), text);
  uint32_t magic = 0;
  cr_assert_geq(words.size, 20);
  memcpy(&magic, words.data, 4);
  cr_expect_eq(magic, 0x07230203);
  free(words.data);
#else
  (void)text;
  (void)label;
#endif
}

Test(kernel_print, goldens) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    const shape *s = &shapes[i];
    char file[64];
    for (int which = 0; which < 3; ++which) {
      if (!(which == 0 ? s->opencl : which == 1 ? s->vulkan : s->poor))
        continue;
      snprintf(file, sizeof file, which == 0 ? "%s.cl" : which == 1 ? "%s.comp" : "%s_poor.comp", s->name);
      char *text = print_for(s, which == 0 ? &qn_dialect_opencl : &qn_dialect_glsl, &case_devices[which + 1].caps);
      expect_golden(file, text);
      if (which > 0)
        check_shader(text, file);
      free(text);
    }
  }
}

Test(kernel_print, is_deterministic) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int which = 1; which < (int)CASE_DEVICES; ++which) {
      const qn_dialect *d = which == 1 ? &qn_dialect_opencl : &qn_dialect_glsl;
      char *x = print_for(&shapes[i], d, &case_devices[which].caps),
           *y = print_for(&shapes[i], d, &case_devices[which].caps);
      cr_expect_str_eq(x, y);
      free(x);
      free(y);
    }
}

/* Operations and dtypes print to shaders that glslang takes, on rich and poor devices: each with vectors or scalars, all with QN_TEST_ALL=1. */
static void sweep_shaders(size_t first, const case_device *d, uint32_t lanes) {
  size_t step = qn_test_all() ? 1 : 2;
  size_t n = case_list(NULL);
  op_case *cases = malloc(n * sizeof *cases);
  cr_assert_not_null(cases);
  case_list(cases);
  for (size_t i = step == 1 ? 0 : first; i < n; i += step) {
    op_case c = cases[i];
    if (c.op == QN_S_BITCAST && (c.operand == QN_F64 || c.result == QN_F64) && !d->caps.i64)
      continue;
    qn_kernel k, legal;
    qn_text t = {0};
    case_build(&k, c, lanes);
    QN_ASSERT_OK(qn_kernel_legalize(&k, &d->caps, &legal));
    qn_kernel_print(&legal, &qn_dialect_glsl, &d->caps, &t);
    check_shader(t.buf, qn_sop_name(c.op));
    qn_text_free(&t);
    qn_kernel_free(&legal);
    qn_kernel_free(&k);
  }
  free(cases);
}

Test(kernel_print, shaders_of_operations_on_vectors) { sweep_shaders(0, &case_devices[2], 4); }
Test(kernel_print, shaders_of_operations_on_scalars) { sweep_shaders(1, &case_devices[2], 1); }
Test(kernel_print, shaders_of_operations_emulated) { sweep_shaders(0, &case_devices[3], 2); }
Test(kernel_print, shaders_of_operations_emulated_on_scalars) { sweep_shaders(1, &case_devices[4], 2); }

Test(kernel_print, numbers_keep_their_bits) {
  static const uint32_t bits[] = {0,          0x80000000, 1,          0x7f800000, 0xff800000, 0x7fc00000,
                                  0x3f800000, 0xbfc00000, 0x3eaaaaab, 0x7f7fffff, 0x33800000, 0xc9742000};
  static const char *const opencl[] = {"0.0f",
                                       "as_float(0x80000000u)",
                                       "as_float(0x00000001u)",
                                       "as_float(0x7f800000u)",
                                       "as_float(0xff800000u)",
                                       "as_float(0x7fc00000u)",
                                       "1.0f",
                                       "(-1.5f)",
                                       "0x1.555556p-2f",
                                       "0x1.fffffep+127f",
                                       "0x1p-24f",
                                       "(-999936.0f)"};
  for (size_t i = 0; i < sizeof bits / sizeof *bits; ++i) {
    draft d;
    qn_kernel k;
    qn_text t = {0};
    start(&d, &k, 1);
    uint32_t out = output(&d, QN_F32, 0);
    qn_kb_store(&d.b, out, qn_kb_group(&d.b), qs_bits(d.s, QN_F32, bits[i]), none);
    QN_ASSERT_OK(qn_kbuild_end(&d.b));
    qn_kernel_print(&k, &qn_dialect_opencl, &case_devices[1].caps, &t);
    char want[64];
    snprintf(want, sizeof want, "= %s;", opencl[i]);
    cr_expect(qn_test_contains(t.buf, want));
    qn_text_free(&t);
    qn_kernel_print(&k, &qn_dialect_glsl, &case_devices[2].caps, &t);
    check_shader(t.buf, "number");
    qn_text_free(&t);
    qn_kernel_free(&k);
  }
}

#ifdef QN_HAVE_GLSLANG
Test(kernel_print, shader_errors_show_the_line) {
  qn_bytes words;
  const char *text = "#version 450\nlayout(local_size_x = 1) in;\nvoid main() {\n  uint x = nonsense;\n}\n";
  QN_EXPECT_FAIL(qn_glsl_to_spirv(text, "relu (mlp.c:12)", &words), QN_COMPILE, "relu (mlp.c:12)");
  cr_expect(qn_test_contains(qn_error_message(), ">    4 |   uint x = nonsense;"));
  cr_expect_null(words.data);
  QN_EXPECT_FAIL(qn_glsl_to_spirv("", "empty", &words), QN_COMPILE, "empty");
}
#endif
