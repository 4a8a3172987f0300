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
  qn_sval n = qn_kb_param(&d.b, qn_kb_new_param(&d.b)), at = qs_mul(d.s, qn_kb_group(&d.b), u32(&d, 4));
  qn_sval fits = qs_le(d.s, qs_add(d.s, at, u32(&d, 4)), n);
  qn_kb_if(&d.b, fits);
  qn_sval x = qs_add(d.s, qn_kb_load(&d.b, in, at, 4, none), f32(&d, 1.5));
  qn_kb_store(&d.b, out, at, qs_select(d.s, qs_lt(d.s, f32(&d, 0), x), x, f32(&d, 0)), none);
  qn_kb_else(&d.b);
  qn_sval i = qn_kb_loop(&d.b, at, n, 1, true);
  qn_sval y = qs_add(d.s, qn_kb_load(&d.b, in, i, 1, none), f32(&d, 1.5));
  qn_kb_store(&d.b, out, i, qs_select(d.s, qs_lt(d.s, f32(&d, 0), y), y, f32(&d, 0)), none);
  qn_kb_close(&d.b);
  qn_kb_close(&d.b);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Row sums scaled by a value of the row, which leaves the loop. */
static void row_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F32, 0), scale = input(&d, QN_F32, 1), out = output(&d, QN_F32, 2);
  qn_sval n = qn_kb_param(&d.b, qn_kb_new_param(&d.b)), g = qn_kb_group(&d.b), acc = qn_kb_var(&d.b, f32(&d, 0));
  qn_sval i = qn_kb_loop(&d.b, u32(&d, 0), n, 1, false);
  qn_sval x = qn_kb_load(&d.b, in, qs_add(d.s, qs_mul(d.s, g, n), i), 1, none);
  qn_kb_set(&d.b, acc, qs_fma(d.s, x, qn_kb_load(&d.b, scale, g, 1, none), qn_kb_get(&d.b, acc)));
  qn_kb_close(&d.b);
  qn_kb_store(&d.b, out, g, qn_kb_get(&d.b, acc), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* A 2 x 8 register tile: vector B, broadcast A. */
static void tile_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t a = input(&d, QN_F32, 0), b = input(&d, QN_F32, 1), out = output(&d, QN_F32, 2);
  qn_sval depth = qn_kb_param(&d.b, qn_kb_new_param(&d.b)), g = qn_kb_group(&d.b), acc[2];
  for (int r = 0; r < 2; ++r)
    acc[r] = qn_kb_var(&d.b, qn_kb_splat(&d.b, f32(&d, 0), 8));
  qn_sval i = qn_kb_loop(&d.b, u32(&d, 0), depth, 1, true);
  qn_sval row = qn_kb_load(&d.b, b, qs_mul(d.s, i, u32(&d, 8)), 8, none);
  for (uint32_t r = 0; r < 2; ++r) {
    qn_sval at = qs_add(d.s, qs_mul(d.s, qs_add(d.s, qs_mul(d.s, g, u32(&d, 2)), u32(&d, r)), depth), i);
    qn_kb_set(&d.b, acc[r], qs_fma(d.s, qn_kb_load(&d.b, a, at, 1, none), row, qn_kb_get(&d.b, acc[r])));
  }
  qn_kb_close(&d.b);
  for (uint32_t r = 0; r < 2; ++r)
    qn_kb_store(&d.b, out, qs_mul(d.s, qs_add(d.s, qs_mul(d.s, g, u32(&d, 2)), u32(&d, r)), u32(&d, 8)),
                qn_kb_get(&d.b, acc[r]), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Items stage vectors in local memory and read them back reversed. */
static void staged_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 16);
  uint32_t in = input(&d, QN_F32, 0), out = output(&d, QN_F32, 1);
  qn_sval item = qn_kb_item(&d.b), tile = qn_kb_array(&d.b, QN_F32, 64, true),
          plain = qn_kb_array(&d.b, QN_F32, 16, true);
  qn_sval at = qs_mul(d.s, qs_add(d.s, qs_mul(d.s, qn_kb_group(&d.b), u32(&d, 16)), item), u32(&d, 4));
  qn_sval x = qn_kb_load(&d.b, in, at, 4, none);
  qn_kb_astore(&d.b, tile, qs_mul(d.s, item, u32(&d, 4)), x);
  qn_kb_astore(&d.b, plain, item, qn_kb_extract(&d.b, x, 2));
  qn_kb_barrier(&d.b);
  qn_sval other = qs_sub(d.s, u32(&d, 15), item);
  qn_sval y =
      qs_add(d.s, qn_kb_aload(&d.b, tile, qs_mul(d.s, other, u32(&d, 4)), 4), qn_kb_aload(&d.b, plain, other, 1));
  qn_kb_store(&d.b, out, at, qn_kb_join(&d.b, qn_kb_high(&d.b, y), qn_kb_low(&d.b, y)), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Rows picked by an index list and added elsewhere, bounds by masks; indexes are signed. */
static void gather_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F32, 0), index = input(&d, QN_I32, 1), out = output(&d, QN_F32, 2);
  qn_sval n = qs_convert(d.s, QN_I32, qn_kb_param(&d.b, qn_kb_new_param(&d.b)));
  qn_sval i = qn_kb_load(&d.b, index, qs_mul(d.s, qn_kb_group(&d.b), u32(&d, 4)), 4, none),
          zero = qs_bits(d.s, QN_I32, 0);
  qn_sval inside = qs_and(d.s, qs_le(d.s, zero, i), qs_lt(d.s, i, n));
  qn_sval x = qn_kb_gather(&d.b, in, i, inside), mirrored = qs_sub(d.s, qs_sub(d.s, n, qs_bits(d.s, QN_I32, 1)), i);
  qn_kb_scatter(&d.b, out, mirrored, qs_mul(d.s, x, f32(&d, -0.3)), inside);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void halves_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_BF16, 0), out = output(&d, QN_F16, 1);
  qn_sval at = qs_mul(d.s, qn_kb_group(&d.b), u32(&d, 2)),
          x = qs_convert(d.s, QN_F32, qn_kb_load(&d.b, in, at, 2, none));
  qn_kb_store(&d.b, out, at, qs_convert(d.s, QN_F16, qs_sqrt(d.s, x)), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void bytes_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_U8, 0), flags = input(&d, QN_BOOL, 1), out = output(&d, QN_U8, 2),
           one = output(&d, QN_BOOL, 3);
  qn_sval g = qn_kb_group(&d.b), at = qs_mul(d.s, g, u32(&d, 4));
  qn_sval x = qn_kb_load(&d.b, in, at, 4, none), p = qn_kb_load(&d.b, flags, at, 4, none);
  qn_kb_store(&d.b, out, at, qs_select(d.s, p, qs_add(d.s, x, qs_bits(d.s, QN_U8, 200)), x), none);
  qn_kb_store(&d.b, one, g, qs_xor(d.s, qn_kb_extract(&d.b, p, 1), qn_kb_extract(&d.b, qs_not(d.s, p), 3)), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void wide_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_I64, 0), out = output(&d, QN_I64, 1), words = output(&d, QN_U32, 2);
  qn_sval g = qn_kb_group(&d.b), x = qn_kb_load(&d.b, in, g, 1, none),
          c = qs_bits(d.s, QN_I64, UINT64_C(0x8000000000000001));
  qn_kb_store(&d.b, out, g, qs_sub(d.s, qs_mul(d.s, x, c), qs_shr(d.s, x, qs_bits(d.s, QN_I64, 7))), none);
  qn_sval low = qs_convert(d.s, QN_U32, x);
  qn_kb_store(&d.b, words, g, qs_add(d.s, qs_mulhi(d.s, low, u32(&d, 0xd2511f53)), qs_clz(d.s, low)), none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

static void doubles_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_F64, 0), out = output(&d, QN_F64, 1);
  qn_sval at = qs_mul(d.s, qn_kb_group(&d.b), u32(&d, 2)), x = qn_kb_load(&d.b, in, at, 2, none);
  qn_sval y = qs_fma(d.s, x, qs_const(d.s, QN_F64, 0.1), qs_const(d.s, QN_F64, -2.5));
  qn_kb_store(&d.b, out, at, qs_select(d.s, qs_ne(d.s, x, x), qs_bits(d.s, QN_F64, UINT64_C(0x7ff8000000000000)), y),
              none);
  QN_ASSERT_OK(qn_kbuild_end(&d.b));
}

/* Divergent memory of both kinds in a loop over a private array. */
static void private_kernel(qn_kernel *k) {
  draft d;
  start(&d, k, 1);
  uint32_t in = input(&d, QN_I32, 0), out = output(&d, QN_I32, 1);
  qn_sval g = qn_kb_group(&d.b), seen = qn_kb_array(&d.b, QN_I32, 8, false),
          n = qn_kb_param(&d.b, qn_kb_new_param(&d.b));
  qn_sval i = qn_kb_loop(&d.b, u32(&d, 0), u32(&d, 8), 1, false);
  qn_sval at = qs_add(d.s, qs_mul(d.s, g, u32(&d, 8)), i);
  qn_kb_astore(&d.b, seen, i, qn_kb_load(&d.b, in, at, 1, qs_lt(d.s, at, n)));
  qn_kb_close(&d.b);
  qn_sval j = qn_kb_loop(&d.b, u32(&d, 0), u32(&d, 7), 2, false);
  qn_sval x = qn_kb_aload(&d.b, seen, j, 1), y = qn_kb_aload(&d.b, seen, qs_add(d.s, j, u32(&d, 1)), 1);
  qn_sval where = qs_add(d.s, qs_mul(d.s, g, u32(&d, 4)), qs_shr(d.s, j, u32(&d, 1)));
  qn_kb_store(&d.b, out, where, qs_sub(d.s, qs_mul(d.s, x, y), qs_neg(d.s, x)), qs_lt(d.s, where, n));
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
