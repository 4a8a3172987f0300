/* Complex numbers: the rows against C's own functions and their corners, compiled graphs against the oracle, derivatives, text, programs of JAX. */
#include "graph_run.h"

#include "quern/autodiff.h"
#include "quern/op.h"
#include "quern/safetensors.h"

typedef qn_val (*unary)(qn_val x);
typedef qn_val (*binary)(qn_val a, qn_val b);

#define UNARY(name)                                                                                                    \
  static qn_val f_##name(qn_val x) { return qn_##name(x); }
UNARY(abs)
UNARY(sign)
UNARY(neg)
UNARY(square)
UNARY(real)
UNARY(imag)
UNARY(conj)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(cbrt)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(logistic)
UNARY(sinh)
UNARY(cosh)
UNARY(tanh)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
static const struct {
  const char *name;
  unary f;
  double tolerance; /* of each part, relative to the number's size, in steps of 2^-23 */
} unaries[] = {
    {"abs", f_abs, 3},       {"sign", f_sign, 4},    {"negate", f_neg, 0},
    {"square", f_square, 2}, {"real", f_real, 0},    {"imag", f_imag, 0},
    {"conj", f_conj, 0},     {"sqrt", f_sqrt, 5},    {"rsqrt", f_rsqrt, 8},
    {"cbrt", f_cbrt, 8},     {"exp", f_exp, 6},      {"expm1", f_expm1, 8},
    {"log", f_log, 6},       {"log1p", f_log1p, 8},  {"sinh", f_sinh, 8},
    {"cosh", f_cosh, 8},     {"tanh", f_tanh, 12},   {"sin", f_sin, 8},
    {"cos", f_cos, 8},       {"tan", f_tan, 12},     {"logistic", f_logistic, 16},
    {"asin", f_asin, 12},    {"acos", f_acos, 12},   {"atan", f_atan, 12},
    {"asinh", f_asinh, 12},  {"acosh", f_acosh, 12}, {"atanh", f_atanh, 12},
};
enum { UNARIES = sizeof unaries / sizeof *unaries };

static qn_val f_add(qn_val a, qn_val b) { return qn_add(a, b); }
static qn_val f_sub(qn_val a, qn_val b) { return qn_sub(a, b); }
static qn_val f_mul(qn_val a, qn_val b) { return qn_mul(a, b); }
static qn_val f_div(qn_val a, qn_val b) { return qn_div(a, b); }
static qn_val f_pow(qn_val a, qn_val b) { return qn_pow(a, b); }
static qn_val f_atan2(qn_val a, qn_val b) { return qn_atan2(a, b); }
static const struct {
  const char *name;
  binary f;
  double tolerance, least; /* sizes below `least` count as that */
} binaries[] = {
    {"add", f_add, 1, 0},    {"subtract", f_sub, 1, 0}, {"multiply", f_mul, 3, 0}, {"divide", f_div, 6, 0},
    {"power", f_pow, 64, 0}, {"atan2", f_atan2, 4, 1}, /* by a logarithm of a number near one */
};
enum { BINARIES = sizeof binaries / sizeof *binaries };

static qn_graph *sealed(qn_graph *g, const qn_val *results, size_t count) {
  QN_ASSERT_OK(qn_graph_seal(g, results, count));
  return g;
}
static qn_graph *all_unaries(qn_type t) {
  qn_graph *g;
  qn_val y[UNARIES];
  QN_ASSERT_OK(qn_graph_create("unaries", &g));
  qn_val x = qn_graph_param(g, t, NULL);
  for (int i = 0; i < UNARIES; i++)
    y[i] = unaries[i].f(x);
  return sealed(g, y, UNARIES);
}
static qn_graph *all_binaries(qn_type t) {
  qn_graph *g;
  qn_val y[BINARIES];
  QN_ASSERT_OK(qn_graph_create("binaries", &g));
  qn_val a = qn_graph_param(g, t, NULL), b = qn_graph_param(g, t, NULL);
  for (int i = 0; i < BINARIES; i++)
    y[i] = binaries[i].f(a, b);
  return sealed(g, y, BINARIES);
}

/* Each part within the tolerance times the size of the number wanted; infinities and NaN alike. */
static void near(const char *name, const qn_type *t, const float *got, const float *want, const float *x,
                 double tolerance, double least) {
  int step = qn_dtype_is_complex(t->dtype) ? 2 : 1;
  int wrong = 0;
  for (int64_t i = 0; i < qn_type_elements(t); i++) {
    const float *g = got + i * step, *w = want + i * step;
    double size = step == 2 ? hypot((double)w[0], (double)w[1]) : fabs((double)w[0]);
    size = size > least ? size : least;
    bool ok = true;
    for (int k = 0; k < step; k++) {
      bool same = g[k] == w[k] || (isnan(g[k]) && isnan(w[k])); /* NOLINT */
      ok = ok && (same || fabs((double)g[k] - (double)w[k]) <= tolerance * 0x1p-23 * size + 0x1p-140);
    }
    if (!ok && wrong++ < 4)
      cr_expect(ok, "%s of %.9g %+.9gi, element %d: %.9g %+.9gi, expected %.9g %+.9gi", name, (double)x[2 * i],
                (double)x[2 * i + 1], (int)i, (double)g[0], step == 2 ? (double)g[1] : 0, (double)w[0],
                step == 2 ? (double)w[1] : 0);
  }
}

static void compare_devices(const char *which, const qn_graph *g, const void *const *in, bool unary_table) {
  qn_device *d = run_open(which);
  if (!d)
    return;
  void *want[UNARIES], *got[UNARIES];
  size_t n = qn_graph_result_count(g);
  for (size_t i = 0; i < n; i++) {
    size_t bytes = (size_t)qn_type_bytes(qn_graph_type(g, qn_graph_result(g, i))) + 16;
    want[i] = calloc(1, bytes);
    got[i] = calloc(1, bytes);
  }
  QN_EXPECT_OK(run_graph(NULL, g, in, want));
  QN_EXPECT_OK(run_graph(d, g, in, got));
  for (size_t i = 0; i < n; i++) {
    near(unary_table ? unaries[i].name : binaries[i].name, qn_graph_type(g, qn_graph_result(g, i)), got[i], want[i],
         in[0], unary_table ? unaries[i].tolerance : binaries[i].tolerance, unary_table ? 0 : binaries[i].least);
    free(want[i]);
    free(got[i]);
  }
  qn_device_release(d);
}

enum { DRAWN = 200 };
static void draw_numbers(float *x, int n, float size) {
  uint32_t state = 777;
  for (int i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = size * ((float)(state >> 8) / 8388608.0F - 1);
  }
}

static void elementwise_on(const char *which) {
  float a[2 * DRAWN], b[2 * DRAWN];
  qn_type t = qn_type_of(QN_C64, 2, 8, DRAWN / 8);
  qn_graph *one = all_unaries(t), *two = all_binaries(t);
  for (int round = 0; round < 2; round++) {
    draw_numbers(a, 2 * DRAWN, round ? 0.01F : 3);
    draw_numbers(b, 2 * DRAWN - 2, 2);
    b[2 * DRAWN - 2] = b[2 * DRAWN - 1] = 0.75F;
    memmove(b + 2, b, (2 * DRAWN - 2) * sizeof *b);
    compare_devices(which, one, (const void *const[]){a}, true);
    compare_devices(which, two, (const void *const[]){a, b}, false);
  }
  qn_graph_release(one);
  qn_graph_release(two);
}
Test(complex, elementwise_cpu) { elementwise_on("cpu"); }
Test(complex, elementwise_pocl, .timeout = 200) { elementwise_on("opencl:pocl"); }
Test(complex, elementwise_lavapipe, .timeout = 200) { elementwise_on("vulkan:llvmpipe"); }
Test(complex, elementwise_swiftshader, .timeout = 200) { elementwise_on("vulkan:swiftshader"); }

/* Zeros, infinities, NaN and the ends of the range, in both parts. What C leaves open (the sign of a zero or an infinity beside NaN) is not asked. */
Test(complex, corners) {
  static const float v[] = {0.0F, -0.0F, 1, -2.5F, INFINITY, -INFINITY, NAN, 3e38F, -3e38F, 1e-30F};
  enum { N = sizeof v / sizeof *v };
  static const struct {
    const char *name;
    unary f;
    double tolerance;
  } functions[] = {{"abs", f_abs, 3}, {"sqrt", f_sqrt, 5}, {"exp", f_exp, 6}, {"log", f_log, 6}};
  float x[2 * N * N], got[2 * N * N], want[2 * N * N];
  for (int i = 0; i < N * N; i++) {
    x[2 * i] = v[i / N];
    x[2 * i + 1] = v[i % N];
  }
  qn_device *d = run_open("cpu");
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
    qn_graph *g;
    QN_ASSERT_OK(qn_graph_create("corners", &g));
    qn_val y = functions[k].f(qn_graph_param(g, qn_type_of(QN_C64, 1, N * N), NULL));
    g = sealed(g, &y, 1);
    const void *in[] = {x};
    void *out[] = {got}, *ref[] = {want};
    QN_EXPECT_OK(run_graph(NULL, g, in, ref));
    QN_EXPECT_OK(run_graph(d, g, in, out));
    bool complex = qn_dtype_is_complex(qn_graph_type(g, qn_graph_result(g, 0))->dtype);
    for (int i = 0; i < N * N && complex; i++)
      for (int part = 0; part < 2; part++)
        if (isnan(want[2 * i + 1 - part]) && isinf(want[2 * i + part]) && isinf(got[2 * i + part]))
          got[2 * i + part] = want[2 * i + part];
    near(functions[k].name, qn_graph_type(g, qn_graph_result(g, 0)), got, want, x, functions[k].tolerance, 0);
    qn_graph_release(g);
  }
  qn_device_release(d);
}

/* Quotients whose divisor's square overflows or vanishes, and those of zeros and infinities. */
Test(complex, quotients) {
  static const float a[] = {1e30F, 1e30F, 1e-30F, 0, 1, -2, 1, 0, INFINITY, 1, 3, 4, 1e38F, 1e38F},
                     b[] = {1e30F, -1e30F, 1e-30F, 1e-30F, 0, 0, 0, 0, 1, 1, INFINITY, 1, 2e38F, 2e38F};
  enum { N = sizeof a / sizeof *a / 2 };
  float got[2 * N], want[2 * N];
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("quotients", &g));
  qn_type t = qn_type_of(QN_C64, 1, N);
  qn_val x = qn_graph_param(g, t, NULL), y = qn_div(x, qn_graph_param(g, t, NULL));
  g = sealed(g, &y, 1);
  qn_device *d = run_open("cpu");
  QN_EXPECT_OK(run_graph(NULL, g, (const void *const[]){a, b}, (void *[]){want}));
  QN_EXPECT_OK(run_graph(d, g, (const void *const[]){a, b}, (void *[]){got}));
  near("divide", &t, got, want, a, 6, 0);
  qn_device_release(d);
  qn_graph_release(g);
}

/* ---- graphs: movement, reductions, contractions, in complex numbers in and out ---- */
static qn_graph *mixed_graph(qn_dtype dtype) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("mixed", &g));
  qn_val x = qn_graph_param(g, qn_type_of(dtype, 2, 3, 4), "x"), y = qn_graph_param(g, qn_type_of(dtype, 2, 4, 3), "y");
  const int64_t first = 0, last = 1, low[] = {1, 0}, high[] = {0, 2}, start[] = {0, 1}, limit[] = {3, 4};
  qn_val z = qn_transpose(y, NULL), parts[] = {x, z};
  qn_val starts[] = {qn_scalar(g, QN_I32, 1), qn_scalar(g, QN_I32, 2)};
  const int64_t sizes[] = {2, 2};
  qn_val bits = qn_convert(qn_eq(x, x), QN_I32);
  qn_graph *body[2];
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, dtype, &body[0]));
  QN_ASSERT_OK(qn_region_binary(QN_OP_PARAMETER, dtype, &body[1])); /* the update alone */
  const qn_attr_scatter rows = {.update_window_dims = {1, {1}},
                                .inserted_window_dims = {1, {0}},
                                .scatter_dims_to_operand_dims = {1, {0}},
                                .index_vector_dim = 1};
  const int32_t at[3] = {2, 0, 2};
  qn_val indices = qn_constant(g, qn_type_of(QN_I32, 1, 3), at);
  qn_val result[] = {
      qn_dot(x, y),
      qn_sum(x, 1, &last, false),
      qn_prod(x, 1, &first, false),
      qn_concatenate(parts, 2, 0),
      qn_pad(x, qn_like(x, 2), low, high, NULL),
      qn_reverse(qn_slice(x, start, limit, NULL), 1, &last),
      qn_dynamic_slice(x, starts, sizes),
      qn_select(qn_gt(qn_real(x), qn_imag(z)), x, z),
      qn_take(x, qn_scalar(g, QN_I32, 2), 0),
      qn_add(qn_iota(g, qn_type_of(dtype, 2, 3, 4), 1), qn_convert(bits, dtype)),
      qn_ne(x, z),
      qn_convert(qn_convert(x, dtype == QN_C64 ? QN_C128 : QN_C64), dtype),
      qn_sum_all(qn_abs(x)),
      qn_scatter(x, indices, z, &rows, body[0]),
      qn_scatter(x, indices, z, &rows, body[1]),
      qn_reshape(qn_broadcast_to(qn_sum_all(y), 2, ((const int64_t[]){2, 2})), 1, ((const int64_t[]){4})),
  };
  qn_graph_release(body[0]);
  qn_graph_release(body[1]);
  return sealed(g, result, sizeof result / sizeof *result);
}

static void mixed_on(const char *which) {
  float x[24], y[24];
  draw_numbers(x, 24, 2);
  draw_numbers(y, 24, 1);
  qn_graph *g = mixed_graph(QN_C64);
  qn_device *d = run_open(which);
  void *want[RUN_MOST], *got[RUN_MOST];
  const void *in[] = {x, y};
  run_rooms(g, want);
  run_rooms(g, got);
  QN_EXPECT_OK(run_graph(NULL, g, in, want));
  if (d)
    QN_EXPECT_OK(run_graph(d, g, in, got));
  for (size_t i = 0; d && i < qn_graph_result_count(g); i++) {
    double off = run_distance(qn_graph_type(g, qn_graph_result(g, i)), got[i], want[i]);
    cr_expect(off <= 1e-6, "%s: result %zu is off by %g", which, i, off);
  }
  run_free(g, want);
  run_free(g, got);
  qn_device_release(d);
  qn_graph_release(g);
}
Test(complex, graphs_cpu) { mixed_on("cpu"); }
Test(complex, graphs_pocl, .timeout = 200) { mixed_on("opencl:pocl"); }
Test(complex, graphs_lavapipe, .timeout = 200) { mixed_on("vulkan:llvmpipe"); }

/* A loop that carries complex numbers through a transform; the trip count is an argument. */
static const char loop_text[] =
    "func.func @main(%arg0: tensor<4xcomplex<f32>>, %n: tensor<i32>) -> (tensor<4xcomplex<f32>>, tensor<f32>) {\n"
    "  %c = stablehlo.constant dense<0> : tensor<i32>\n"
    "  %cst = stablehlo.constant dense<(0.5,0.25)> : tensor<4xcomplex<f32>>\n"
    "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %0:3 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0, %iterArg_1 = %z) : tensor<i32>, "
    "tensor<4xcomplex<f32>>, tensor<f32>\n"
    "   cond {\n"
    "    %1 = stablehlo.compare LT, %iterArg, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "    stablehlo.return %1 : tensor<i1>\n"
    "  } do {\n"
    "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
    "    %1 = stablehlo.add %iterArg, %one : tensor<i32>\n"
    "    %2 = stablehlo.fft %iterArg_0, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>\n"
    "    %3 = stablehlo.multiply %2, %cst : tensor<4xcomplex<f32>>\n"
    "    %4 = stablehlo.real %3 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>\n"
    "    %5 = stablehlo.slice %4 [1:2] : (tensor<4xf32>) -> tensor<1xf32>\n"
    "    %6 = stablehlo.reshape %5 : (tensor<1xf32>) -> tensor<f32>\n"
    "    stablehlo.return %1, %3, %6 : tensor<i32>, tensor<4xcomplex<f32>>, tensor<f32>\n"
    "  }\n"
    "  return %0#1, %0#2 : tensor<4xcomplex<f32>>, tensor<f32>\n"
    "}\n";

Test(complex, loop) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_parse(loop_text, sizeof loop_text - 1, "loop.mlir", &g));
  qn_device *d = run_open("cpu");
  float x[8], want[8], got[8], last[2];
  draw_numbers(x, 8, 2);
  for (int32_t n = 0; n < 4; n++) {
    const void *in[] = {x, &n};
    QN_EXPECT_OK(run_graph(NULL, g, in, (void *[]){want, &last[0]}));
    QN_EXPECT_OK(run_graph(d, g, in, (void *[]){got, &last[1]}));
    double off = run_distance(qn_graph_type(g, qn_graph_result(g, 0)), got, want);
    cr_expect(off <= 1e-6 && fabsf(last[0] - last[1]) < 1e-5F, "%d rounds: off by %g", (int)n, off);
  }
  qn_device_release(d);
  qn_graph_release(g);
}

/* Sorted by a comparator that sees both parts, as JAX sorts complex numbers: by real parts, then by imaginary ones; and behind a barrier. */
static const char sort_text[] =
    "func.func @main(%arg0: tensor<90xcomplex<f32>>, %arg1: tensor<90xi32>) -> (tensor<90xcomplex<f32>>, "
    "tensor<90xi32>) {\n"
    "  %b:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<90xcomplex<f32>>, tensor<90xi32>\n"
    "  %0:2 = \"stablehlo.sort\"(%b#0, %b#1) <{dimension = 0 : i64, is_stable = true}> ({\n"
    "  ^bb0(%a: tensor<complex<f32>>, %c: tensor<complex<f32>>, %i: tensor<i32>, %j: tensor<i32>):\n"
    "    %1 = stablehlo.real %a : (tensor<complex<f32>>) -> tensor<f32>\n"
    "    %2 = stablehlo.real %c : (tensor<complex<f32>>) -> tensor<f32>\n"
    "    %3 = stablehlo.imag %a : (tensor<complex<f32>>) -> tensor<f32>\n"
    "    %4 = stablehlo.imag %c : (tensor<complex<f32>>) -> tensor<f32>\n"
    "    %5 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "    %6 = stablehlo.compare EQ, %1, %2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "    %7 = stablehlo.compare LT, %3, %4, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "    %8 = stablehlo.and %6, %7 : tensor<i1>\n"
    "    %9 = stablehlo.or %5, %8 : tensor<i1>\n"
    "    stablehlo.return %9 : tensor<i1>\n"
    "  }) : (tensor<90xcomplex<f32>>, tensor<90xi32>) -> (tensor<90xcomplex<f32>>, tensor<90xi32>)\n"
    "  return %0#0, %0#1 : tensor<90xcomplex<f32>>, tensor<90xi32>\n}\n";

Test(complex, sorting) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_parse(sort_text, sizeof sort_text - 1, "sort.mlir", &g));
  qn_device *d = run_open("cpu");
  float x[180], want[180], got[180];
  int32_t number[90], order[2][90];
  draw_numbers(x, 180, 4);
  for (int i = 0; i < 90; i++) {
    x[2 * i] = floorf(x[2 * i]);
    number[i] = i;
  }
  QN_EXPECT_OK(run_graph(NULL, g, (const void *const[]){x, number}, (void *[]){want, order[0]}));
  QN_EXPECT_OK(run_graph(d, g, (const void *const[]){x, number}, (void *[]){got, order[1]}));
  cr_expect(memcmp(want, got, sizeof want) == 0 && memcmp(order[0], order[1], sizeof order[0]) == 0);
  for (int i = 1; i < 90; i++)
    cr_expect(got[2 * i - 2] < got[2 * i] || got[2 * i - 1] <= got[2 * i + 1]);
  qn_device_release(d);
  qn_graph_release(g);
}

/* ---- derivatives: of real and imaginary parts by differences ---- */
static double number_of(const qn_graph *g, const double *x, double *y) {
  const void *in[] = {x};
  void *out[] = {y};
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, out));
  return y[0];
}

/* A tangent is the difference of results; a cotangent c pulls back to g with real(c t') = real(g t), as no number is conjugated. */
static void check_derivative(const char *name, unary f, const double *x, int n) {
  qn_graph *g, *jvp, *vjp;
  QN_ASSERT_OK(qn_graph_create(name, &g));
  qn_val y = f(qn_graph_param(g, qn_type_of(QN_C128, 1, n), NULL));
  bool complex = qn_dtype_is_complex(qn_val_type(y)->dtype);
  g = sealed(g, &y, 1);
  QN_ASSERT_OK(qn_jvp_graph(g, &jvp));
  QN_ASSERT_OK(qn_vjp_graph(g, &vjp));
  double t[64], c[64], up[64], down[64], value[64], tangent[64], back[64], moved[64], h = 1e-6, forward = 0,
                                                                                      reverse = 0;
  for (int i = 0; i < 2 * n; i++) {
    t[i] = cos(3.0 * i + 1);
    c[i] = sin(5.0 * i + 2);
    moved[i] = x[i] + h * t[i];
  }
  (void)number_of(g, moved, up);
  for (int i = 0; i < 2 * n; i++)
    moved[i] = x[i] - h * t[i];
  (void)number_of(g, moved, down);
  QN_EXPECT_OK(qn_graph_eval_ref(jvp, (const void *const[]){x, t}, (void *[]){value, tangent}));
  QN_EXPECT_OK(qn_graph_eval_ref(vjp, (const void *const[]){x, c}, (void *[]){value, back}));
  int numbers = (int)run_numbers(qn_graph_type(g, qn_graph_result(g, 0)));
  for (int i = 0; i < numbers; i++) {
    double want = (up[i] - down[i]) / (2 * h);
    cr_expect(fabs(want - tangent[i]) <= 1e-6 * (1 + fabs(want)),
              "%s: number %d has tangent %.12g, differences say %.12g", name, i, tangent[i], want);
    forward += c[i] * tangent[i] * (complex && i % 2 ? -1 : 1);
  }
  for (int i = 0; i < 2 * n; i++)
    reverse += back[i] * t[i] * (i % 2 ? -1 : 1);
  cr_expect(fabs(forward - reverse) <= 1e-10 * (1 + fabs(forward)), "%s: forward mode %.15g, reverse mode %.15g", name,
            forward, reverse);
  qn_graph_release(g);
  qn_graph_release(jvp);
  qn_graph_release(vjp);
}

static qn_val f_dot(qn_val x) {
  return qn_dot(qn_reshape(x, 2, ((const int64_t[]){2, 3})), qn_reshape(x, 2, ((const int64_t[]){3, 2})));
}
static qn_val f_prod(qn_val x) { return qn_prod(x, 0, NULL, true); }
static qn_val f_power(qn_val x) { return qn_pow(x, qn_mul(x, x)); }
static qn_val f_ratio(qn_val x) { return qn_div(x, qn_add(qn_square(x), qn_like(x, 2))); }
static qn_val f_angle(qn_val x) { return qn_atan2(x, qn_add(x, qn_like(x, 2))); }
static qn_val f_round_trip(qn_val x) { return qn_complex_of(qn_imag(x), qn_mul(qn_real(x), qn_real(x))); }
static qn_val f_to_real(qn_val x) { return qn_convert(x, QN_F64); }
static qn_val f_from_real(qn_val x) { return qn_convert(qn_abs(x), QN_C128); }
static qn_val f_select(qn_val x) { return qn_select(qn_gt(qn_real(x), qn_imag(x)), qn_square(x), qn_conj(x)); }

Test(complex, derivatives) {
  double x[12];
  for (int i = 0; i < 12; i++)
    x[i] = 0.4 + 0.7 * sin(2.0 * i + 1);
  for (int i = 0; i < UNARIES; i++)
    if (unaries[i].f != f_sign)
      check_derivative(unaries[i].name, unaries[i].f, x, 6);
  static const struct {
    const char *name;
    unary f;
  } others[] = {{"dot", f_dot},         {"product", f_prod},        {"power", f_power},
                {"ratio", f_ratio},     {"angle", f_angle},         {"parts", f_round_trip},
                {"to real", f_to_real}, {"from real", f_from_real}, {"select", f_select}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    check_derivative(others[i].name, others[i].f, x, 6);
}

/* JAX: grad(lambda z: abs(z)) at 3+4i is 0.6-0.8i, and 0 at 0. */
Test(complex, gradient_of_size) {
  qn_graph *f, *grad;
  QN_ASSERT_OK(qn_graph_create("size", &f));
  qn_val y = qn_abs(qn_graph_param(f, qn_type_scalar(QN_C64), NULL));
  f = sealed(f, &y, 1);
  QN_ASSERT_OK(
      qn_grad_graph(f, &(qn_grad_desc){.argnums = (const int[]){0}, .argnum_count = 1, .no_value = true}, &grad));
  float x[2] = {3, 4}, g[2];
  QN_EXPECT_OK(qn_graph_eval_ref(grad, (const void *const[]){x}, (void *[]){g}));
  cr_expect(fabsf(g[0] - 0.6F) < 1e-6F && fabsf(g[1] + 0.8F) < 1e-6F, "%g %g", (double)g[0], (double)g[1]);
  x[0] = x[1] = 0;
  QN_EXPECT_OK(qn_graph_eval_ref(grad, (const void *const[]){x}, (void *[]){g}));
  cr_expect(fabsf(g[0]) == 0 && fabsf(g[1]) == 0, "%g %g", (double)g[0], (double)g[1]);
  qn_graph_release(f);
  qn_graph_release(grad);
}

/* ---- refusals ---- */
static void refused(qn_val (*make)(qn_graph *g, qn_val z), const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val y = make(g, qn_graph_param(g, qn_type_of(QN_C64, 1, 3), NULL));
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, part);
  qn_graph_release(g);
}
static qn_val make_less(qn_graph *g, qn_val z) {
  (void)g;
  return qn_lt(z, z);
}
static qn_val make_floor(qn_graph *g, qn_val z) {
  (void)g;
  return qn_floor(z);
}
static qn_val make_narrow(qn_graph *g, qn_val z) {
  (void)z;
  qn_val h = qn_scalar(g, QN_F16, 1);
  return qn_complex_of(h, h);
}
static qn_val make_mixed(qn_graph *g, qn_val z) {
  (void)g;
  return qn_add(z, qn_real(z));
}
Test(complex, refusals) {
  refused(make_less, "compare: operand 0 is c64[3], which has no order");
  refused(make_floor, "floor: operand 0 is c64[3], expected a float");
  refused(make_narrow, "complex: operand 0 is f16[], expected f32 or f64");
  refused(make_mixed, "add: operand 1 is f32[3], expected c64[3]");
}

/* ---- text ---- */
Test(complex, text_round_trip) {
  qn_graph *g = mixed_graph(QN_C128), *again;
  qn_text text = {0}, second = {0};
  qn_graph_print(g, &text);
  QN_ASSERT_OK(qn_graph_parse(text.buf, text.len, "mixed.mlir", &again));
  qn_graph_print(again, &second);
  cr_expect(strcmp(text.buf, second.buf) == 0 && qn_graph_equal(g, again), "%s", text.buf);
  static const char parts[] =
      "module @m {\n  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> "
      "tensor<2xcomplex<f32>> {\n    %0 = stablehlo.complex %arg0, %arg1 : "
      "tensor<2xcomplex<f32>>\n    %1 = \"stablehlo.real\"(%0) : (tensor<2xcomplex<f32>>) -> "
      "tensor<2xf32>\n    %2 = \"stablehlo.complex\"(%1, %arg1) : (tensor<2xf32>, "
      "tensor<2xf32>) -> tensor<2xcomplex<f32>>\n    return %2 : tensor<2xcomplex<f32>>\n  }\n}\n";
  qn_graph *small;
  QN_ASSERT_OK(qn_graph_parse(parts, sizeof parts - 1, "parts.mlir", &small));
  qn_graph_release(small);
  qn_text_free(&text);
  qn_text_free(&second);
  qn_graph_release(g);
  qn_graph_release(again);
}

/* ---- programs of JAX with their recorded results ---- */
/* A recorded tensor; a complex one is two entries, which are joined in `room`. */
static const void *recorded(const qn_safetensors *f, const char *kind, size_t i, const qn_type *t, float *room) {
  char name[32];
  (void)snprintf(name, sizeof name, "%s%zu", kind, i);
  const qn_safetensor *x = qn_safetensors_find(f, name);
  if (x)
    return x->data;
  for (int k = 0; k < 2; k++) {
    (void)snprintf(name, sizeof name, "%s%zu.%s", kind, i, k ? "im" : "re");
    x = qn_safetensors_find(f, name);
    cr_assert(x != NULL && qn_type_elements(&x->type) == qn_type_elements(t) && qn_type_elements(t) <= 512, "%s", name);
    for (int64_t j = 0; j < qn_type_elements(t); j++)
      memcpy(&room[2 * j + k], (const char *)x->data + j * 4, 4);
  }
  return room;
}

static void program(const char *name) {
  char path[1024], file[64];
  (void)snprintf(file, sizeof file, "stablehlo/%s.mlir", name);
  if (!qn_test_shared_path(file, path, sizeof path))
    cr_skip_test("no shared data");
  qn_bytes text;
  qn_graph *g;
  QN_ASSERT_OK(qn_file_read(path, &text));
  QN_ASSERT_OK(qn_graph_parse((const char *)text.data, text.size, file, &g));
  free(text.data);
  (void)snprintf(file, sizeof file, "stablehlo/%s.safetensors", name);
  cr_assert(qn_test_shared_path(file, path, sizeof path) != NULL);
  qn_safetensors *f;
  QN_ASSERT_OK(qn_safetensors_open(path, &f));
  static const char *const devices[] = {NULL, "cpu", "opencl:pocl", "vulkan:llvmpipe", "vulkan:swiftshader"};
  for (size_t k = 0; k < sizeof devices / sizeof *devices; k++) {
    qn_device *d = devices[k] ? run_open(devices[k]) : NULL;
    if (devices[k] && !d)
      continue;
    static float in_room[RUN_MOST][1024], want_room[1024];
    const void *in[RUN_MOST];
    void *got[RUN_MOST];
    run_rooms(g, got);
    for (size_t i = 0; i < qn_graph_param_count(g); i++)
      in[i] = recorded(f, "in", i, qn_graph_type(g, qn_graph_param_at(g, i)), in_room[i]);
    QN_EXPECT_OK(run_graph(d, g, in, got));
    for (size_t i = 0; i < qn_graph_result_count(g); i++) {
      const qn_type *t = qn_graph_type(g, qn_graph_result(g, i));
      double off = run_distance(t, got[i], recorded(f, "out", i, t, want_room));
      cr_expect(off <= 1e-5, "%s on %s: result %zu is off by %g", name, devices[k] ? devices[k] : "cpu-ref", i, off);
    }
    run_free(g, got);
    qn_device_release(d);
  }
  qn_safetensors_close(f);
  qn_graph_release(g);
}
Test(complex, program_complex_math, .timeout = 100) { program("complex_math"); }
Test(complex, program_fft, .timeout = 100) { program("fft"); }
Test(complex, program_special_fns, .timeout = 100) { program("special_fns"); }
