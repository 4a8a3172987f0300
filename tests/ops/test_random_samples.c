/* Samplers against values recorded from jax.random: integers, permutations and choices exactly, the others within rounding. Moments of what
 * is drawn by rejection, orthogonality, lanes, refusals. */
#include "graph_run.h"
#include "quern/autodiff.h"
#include "quern/random.h"

enum { MOST = 40, LARGE = 6000 };

typedef qn_val (*sampler)(qn_graph *g, qn_val key);
typedef struct record {
  const char *name;
  sampler draw;
  uint32_t key;
  int count;
  double tolerance; /* relative, and a tenth of it absolute */
  double want[MOST];
} record;

#define DIMS(...)                                                                                                      \
  (const int64_t[]) { __VA_ARGS__ }
#define SAMPLER(name) static qn_val name(qn_graph *g, qn_val key)

SAMPLER(permuted) { return qn_random_permutation(key, qn_iota(g, qn_type_of(QN_I32, 1, 10), 0), 0, false); }
static qn_val table(qn_graph *g, int64_t rows, int64_t columns) {
  return qn_reshape(qn_iota(g, qn_type_of(QN_F32, 1, rows * columns), 0), 2, DIMS(rows, columns));
}
SAMPLER(columns) { return qn_random_permutation(key, table(g, 4, 3), -1, false); }
SAMPLER(independent) { return qn_random_permutation(key, table(g, 3, 6), 1, true); }

static qn_val choice_of(qn_graph *g, qn_val key, int n, int draws, bool replace, const float *p) {
  static const float x[] = {1, 2, 3, 4, 5, 6};
  qn_type t = qn_type_of(QN_F32, 1, n);
  return qn_random_choice(key, qn_constant(g, t, x), 0, 1, DIMS(draws), replace,
                          p ? qn_constant(g, t, p) : QN_NULL_VAL);
}
SAMPLER(choice_without) { return choice_of(g, key, 6, 4, false, NULL); }
SAMPLER(choice_weighted) {
  static const float p[] = {0.09561438858509064F, 0.2998252213001251F, 0.2652554512023926F, 0.10218764841556549F,
                            0.23711732029914856F};
  return choice_of(g, key, 5, 8, true, p);
}
SAMPLER(choice_weighted_without) {
  static const float p[] = {0.15609067678451538F, 0.1325182169675827F, 0.35629093647003174F, 0.15432459115982056F,
                            0.20077557861804962F};
  return choice_of(g, key, 5, 3, false, p);
}
SAMPLER(poisson_3) { return qn_random_poisson(key, qn_scalar(g, QN_F32, 3), qn_type_of(QN_I32, 1, 7)); }
SAMPLER(poisson_20) { return qn_random_poisson(key, qn_scalar(g, QN_F32, 20), qn_type_of(QN_I32, 1, 7)); }
SAMPLER(gamma_half) { return qn_random_gamma(key, qn_scalar(g, QN_F32, 0.5), 1, DIMS(5), false); }
SAMPLER(log_gamma_half) { return qn_exp(qn_random_gamma(key, qn_scalar(g, QN_F32, 0.5), 1, DIMS(5), true)); }
SAMPLER(beta_half) { return qn_random_beta(key, qn_scalar(g, QN_F32, 0.5), qn_scalar(g, QN_F32, 0.5), 1, DIMS(5)); }
SAMPLER(dirichlet_3) {
  static const float alpha[] = {1, 2, 0.5F};
  return qn_random_dirichlet(key, qn_constant(g, qn_type_of(QN_F32, 1, 3), alpha), 1, DIMS(2));
}
SAMPLER(orthogonal_3) {
  (void)g;
  return qn_random_orthogonal(key, qn_type_of(QN_F32, 2, 3, 3));
}

static const record records[] = {
    {"permutation", permuted, 1234567, 10, 0, {9, 8, 6, 0, 5, 2, 3, 7, 1, 4}},
    {"permutation, columns", columns, 1, 12, 0, {2, 0, 1, 5, 3, 4, 8, 6, 7, 11, 9, 10}},
    {"permutation, independent",
     independent,
     42,
     18,
     0,
     {4, 2, 5, 3, 0, 1, 7, 6, 10, 11, 8, 9, 16, 15, 13, 14, 17, 12}},
    {"choice without replacement", choice_without, 1, 4, 0, {4, 3, 1, 2}},
    {"choice by p", choice_weighted, 42, 8, 0, {3, 2, 2, 3, 3, 3, 5, 2}},
    {"choice by p without replacement", choice_weighted_without, 1234567, 3, 0, {3, 1, 5}},
    {"poisson 3", poisson_3, 0, 7, 0, {0, 0, 4, 4, 1, 2, 2}},
    {"poisson 20", poisson_20, 1, 7, 0, {19, 21, 16, 15, 26, 21, 13}},
    {"gamma",
     gamma_half,
     1,
     5,
     1e-4,
     {0.02227678708732128, 0.5580998659133911, 0.0102927191182971, 1.5135911703109741, 0.0025433970149606466}},
    {"gamma in log space",
     log_gamma_half,
     1,
     5,
     1e-4,
     {0.02227678708732128, 0.5580998659133911, 0.0102927191182971, 1.5135911703109741, 0.0025433970149606466}},
    {"beta",
     beta_half,
     1234567,
     5,
     2e-4,
     {0.9444999098777771, 0.07808264344930649, 0.9060940742492676, 0.21163764595985413, 0.999879002571106}},
    {"dirichlet",
     dirichlet_3,
     1,
     6,
     2e-4,
     {0.21389465034008026, 0.7801597714424133, 0.005945517681539059, 0.14577113091945648, 0.7077435851097107,
      0.14648529887199402}},
    {"orthogonal",
     orthogonal_3,
     0,
     9,
     1e-4,
     {0.9554101228713989, 0.2941357493400574, 0.02599557861685753, -0.04628981649875641, 0.2361408770084381,
      -0.9706156253814697, -0.2916313707828522, 0.9261326193809509, 0.23922686278820038}},
};

static qn_graph *graph_of(sampler draw) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("draw", &g));
  qn_val y = draw(g, qn_graph_param(g, qn_type_of(QN_U32, 1, 2), "key"));
  qn_status st = qn_graph_seal(g, &y, 1);
  cr_assert(st == QN_OK, "%s", qn_error_message());
  return g;
}

static double element(const qn_type *t, const void *data, int64_t i) {
  if (t->dtype == QN_I8)
    return ((const int8_t *)data)[i];
  if (t->dtype == QN_I64)
    return (double)((const int64_t *)data)[i];
  return t->dtype == QN_I32 ? ((const int32_t *)data)[i] : (double)((const float *)data)[i];
}

static void check_records(qn_device *d) {
  for (size_t k = 0; k < sizeof records / sizeof *records; k++) {
    const record *r = &records[k];
    qn_graph *g = graph_of(r->draw);
    const qn_type *t = qn_graph_type(g, qn_graph_result(g, 0));
    cr_assert(qn_type_elements(t) == r->count, "%s: %s", r->name, qn_type_str(t));
    float got[MOST];
    QN_EXPECT_OK(run_graph(d, g, (const void *const[]){(const uint32_t[]){0, r->key}}, (void *[]){got}));
    for (int i = 0; i < r->count; i++)
      cr_expect(fabs(element(t, got, i) - r->want[i]) <= r->tolerance * (fabs(r->want[i]) + 0.1),
                "%s: element %d is %.9g, expected %.9g", r->name, i, element(t, got, i), r->want[i]);
    qn_graph_release(g);
  }
}
Test(random_samples, as_recorded) { check_records(NULL); }
Test(random_samples, as_recorded_on_the_cpu, .timeout = 200) {
  qn_device *d = run_open("cpu");
  check_records(d);
  qn_device_release(d);
}

/* ---- moments ---- */
SAMPLER(gammas) { return qn_random_gamma(key, qn_scalar(g, QN_F32, 2.5), 1, DIMS(LARGE), false); }
SAMPLER(small_gammas) { return qn_random_gamma(key, qn_scalar(g, QN_F32, 0.3), 1, DIMS(LARGE), false); }
SAMPLER(poissons) { return qn_random_poisson(key, qn_scalar(g, QN_F32, 4), qn_type_of(QN_I32, 1, LARGE)); }
SAMPLER(large_poissons) { return qn_random_poisson(key, qn_scalar(g, QN_F32, 60), qn_type_of(QN_I32, 1, LARGE)); }
SAMPLER(dice) {
  (void)g;
  return qn_random_randint(key, qn_type_of(QN_I64, 1, LARGE), -2, 4);
}
SAMPLER(bytes) {
  (void)g;
  return qn_random_randint(key, qn_type_of(QN_I8, 1, LARGE), -128, 128);
}

/* Means and variances within five standard errors, the variance's by a kurtosis that is ample for all of these. */
Test(random_samples, moments, .timeout = 200) {
  static const struct {
    const char *name;
    sampler draw;
    double mean, variance, kurtosis, least, most;
  } cases[] = {{"gamma 2.5", gammas, 2.5, 2.5, 6, 0, 1e3},  {"gamma 0.3", small_gammas, 0.3, 0.3, 24, 0, 1e3},
               {"poisson 4", poissons, 4, 4, 4, 0, 100},    {"poisson 60", large_poissons, 60, 60, 4, 0, 200},
               {"-2 .. 3", dice, 0.5, 35.0 / 12, 2, -2, 3}, {"i8", bytes, -0.5, 65535.0 / 12, 2, -128, 127}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    static int64_t data[LARGE];
    qn_graph *g = graph_of(cases[k].draw);
    const qn_type *t = qn_graph_type(g, qn_graph_result(g, 0));
    QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *const[]){(const uint32_t[]){7, 11}}, (void *[]){data}));
    double sum = 0, squares = 0, mean = cases[k].mean, variance = cases[k].variance;
    for (int i = 0; i < LARGE; i++) {
      double x = element(t, data, i);
      cr_assert(x >= cases[k].least && x <= cases[k].most, "%s: %g", cases[k].name, x);
      sum += x - mean;
      squares += (x - mean) * (x - mean);
    }
    cr_expect(fabs(sum / LARGE) < 5 * sqrt(variance / LARGE), "%s: the mean is off by %g", cases[k].name, sum / LARGE);
    cr_expect(fabs(squares / LARGE - variance) < 5 * variance * sqrt(cases[k].kurtosis / LARGE),
              "%s: the variance is %g", cases[k].name, squares / LARGE);
    qn_graph_release(g);
  }
}

/* ---- matrices ---- */
SAMPLER(flat_orthogonal) {
  (void)g;
  return qn_random_orthogonal(key, qn_type_of(QN_F32, 3, 2, 3, 5));
}
Test(random_samples, rows_are_orthonormal) {
  qn_graph *g = graph_of(flat_orthogonal);
  float q[2][3][5];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *const[]){(const uint32_t[]){0, 3}}, (void *[]){q}));
  for (int m = 0; m < 2; m++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        double dot = 0;
        for (int k = 0; k < 5; k++)
          dot += (double)q[m][i][k] * (double)q[m][j][k];
        cr_expect(fabs(dot - (i == j)) < 1e-5, "matrix %d, rows %d and %d: %g", m, i, j, dot);
      }
  qn_graph_release(g);
}

/* Against a QR factorisation in double of normal numbers that were computed apart. The same computation with the layout before the partitionable
 * one gives the example in the documentation of jax.nn.initializers.delta_orthogonal. */
SAMPLER(delta) {
  (void)g;
  return qn_init_delta_orthogonal(key, qn_type_of(QN_F32, 3, 3, 3, 3), 1);
}
Test(random_samples, delta_orthogonal) {
  static const float middle[9] = {-0.0195297F, 0.99526757F,  0.0951896F,   0.10594388F, -0.09261169F,
                                  0.99004998F, -0.99418031F, -0.02942013F, 0.10363383F};
  qn_graph *g = graph_of(delta);
  float w[27];
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *const[]){(const uint32_t[]){0, 42}}, (void *[]){w}));
  for (int i = 0; i < 27; i++) {
    float want = i / 9 == 1 ? middle[i % 9] : 0;
    cr_expect(fabsf(w[i] - want) < 1e-5F, "element %d is %g, expected %g", i, (double)w[i], (double)want);
  }
  qn_graph_release(g);
}

/* Covariances per lane of a batch: each as it would be alone. */
static qn_val normals(qn_val key, qn_val mean, qn_val covariance, int64_t count) {
  return qn_random_multivariate_normal(key, mean, covariance, 1, DIMS(count));
}
Test(random_samples, multivariate_normal_by_batch) {
  static const float c[2][2][2] = {{{2, 0.5F}, {0.5F, 1}}, {{2, 0.5F}, {0.5F, 1}}}, m[2] = {1, -1};
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("normals", &g));
  qn_val key = qn_key(g, 5), mean = qn_constant(g, qn_type_of(QN_F32, 1, 2), m);
  qn_val out[2] = {normals(key, mean, qn_constant(g, qn_type_of(QN_F32, 2, 2, 2), c[0]), 2),
                   normals(key, mean, qn_constant(g, qn_type_of(QN_F32, 3, 2, 2, 2), c), 2)};
  QN_ASSERT_OK(qn_graph_seal(g, out, 2));
  float x[4], y[4];
  QN_ASSERT_OK(qn_graph_eval_ref(g, NULL, (void *[]){x, y}));
  for (int i = 0; i < 4; i++)
    cr_expect(fabsf(x[i] - y[i]) < 1e-6F, "element %d: %g and %g", i, (double)x[i], (double)y[i]);
  qn_graph_release(g);
}

/* ---- lanes ---- */
Test(random_samples, vmap_over_keys) {
  static const sampler draws[] = {gamma_half, poisson_3, permuted};
  static const uint32_t keys[3][2] = {{0, 1}, {7, 8}, {0xffffffff, 5}};
  const int axes[1] = {0};
  for (int k = 0; k < 3; k++) {
    qn_graph *batched, *f = graph_of(draws[k]);
    size_t count = (size_t)qn_type_elements(qn_graph_type(f, qn_graph_result(f, 0)));
    QN_ASSERT_OK(qn_vmap_graph(f, 3, axes, &batched));
    float all[3 * MOST], one[MOST];
    QN_EXPECT_OK(qn_graph_eval_ref(batched, (const void *const[]){keys}, (void *[]){all}));
    for (size_t i = 0; i < 3; i++) {
      QN_EXPECT_OK(qn_graph_eval_ref(f, (const void *const[]){keys[i]}, (void *[]){one}));
      cr_expect(memcmp(one, all + i * count, count * sizeof *one) == 0, "sampler %d, lane %zu", k, i);
    }
    qn_graph_release(f);
    qn_graph_release(batched);
  }
}

/* ---- derivatives ---- */
static qn_val total_of_gammas(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)out_aux;
  (void)user;
  return qn_sum_all(qn_random_gamma(qn_key(g, 3), qn_tree_get(args[0], "a"), 1, DIMS(5), false));
}
static qn_val dropped(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)out_aux;
  (void)user;
  return qn_sum_all(qn_random_dropout(qn_key(g, 3), qn_tree_get(args[0], "a"), 0.5));
}

static qn_status gradient(qn_type t, qn_loss_fn loss, const float *x, float *out) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("gradient", &g));
  qn_tree *p = qn_tree_create(g);
  qn_tree_set(p, "a", qn_graph_param(g, t, "a"));
  qn_value_grad vg = qn_value_and_grad(g, loss, NULL, &p, 1, NULL);
  qn_val y = vg.grads[0] ? qn_tree_get(vg.grads[0], "a") : QN_NULL_VAL;
  qn_status st = qn_graph_seal(g, &y, 1);
  if (st == QN_OK)
    st = qn_graph_eval_ref(g, (const void *const[]){x}, (void *[]){out});
  qn_graph_release(g);
  return st;
}

Test(random_samples, derivatives) {
  float x[16], y[16] = {0};
  int kept = 0;
  for (int i = 0; i < 16; i++)
    x[i] = (float)i;
  QN_EXPECT_OK(gradient(qn_type_of(QN_F32, 1, 16), dropped, x, y));
  for (int i = 0; i < 16; i++) {
    cr_expect(y[i] == 0 || y[i] == 2, "element %d: %g", i, (double)y[i]);
    kept += y[i] > 0;
  }
  cr_expect(kept > 2 && kept < 14);
  cr_expect(gradient(qn_type_scalar(QN_F32), total_of_gammas, x, y) != QN_OK);
  cr_expect(strstr(qn_error_message(), "while") != NULL, "%s", qn_error_message());
}

/* ---- refusals ---- */
static void refused(sampler draw, const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val y = draw(g, qn_graph_param(g, qn_type_of(QN_U32, 1, 2), "key"));
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, part);
  qn_graph_release(g);
}
SAMPLER(float_randint) { return (void)g, qn_random_randint(key, qn_type_of(QN_F32, 1, 4), 0, 2); }
SAMPLER(too_many) { return choice_of(g, key, 5, 6, false, NULL); }
SAMPLER(wrong_p) {
  static const float p[2] = {0.5F, 0.5F};
  return qn_random_choice(key, table(g, 3, 4), 1, 1, DIMS(2), true, qn_constant(g, qn_type_of(QN_F32, 1, 2), p));
}
SAMPLER(wrong_axis) { return qn_random_permutation(key, table(g, 3, 4), 2, false); }
SAMPLER(integer_gamma) { return qn_random_gamma(key, qn_scalar(g, QN_I32, 2), 1, DIMS(2), false); }
SAMPLER(float_poisson) { return qn_random_poisson(key, qn_scalar(g, QN_F32, 2), qn_type_of(QN_F32, 1, 4)); }
SAMPLER(wrong_covariance) { return normals(key, qn_full(g, qn_type_of(QN_F32, 1, 4), 0), table(g, 3, 3), 2); }
SAMPLER(thin_orthogonal) { return (void)g, qn_random_orthogonal(key, qn_type_of(QN_F32, 1, 4)); }
SAMPLER(wide_delta) { return (void)g, qn_init_delta_orthogonal(key, qn_type_of(QN_F32, 3, 3, 4, 2), 1); }
SAMPLER(no_scale) {
  return (void)g, qn_init_variance_scaling(key, qn_type_of(QN_F32, 2, 3, 4), 0, QN_FAN_IN, QN_WEIGHTS_NORMAL);
}
SAMPLER(no_keep) { return qn_random_dropout(key, table(g, 2, 2), 0); }
SAMPLER(long_categorical) {
  static const int64_t dims[QN_MAX_RANK] = {0};
  return qn_random_categorical(key, table(g, 2, 2), 0, QN_MAX_RANK, dims);
}
SAMPLER(scalar_counters) { return qn_threefry_run(key, qn_scalar(g, QN_U32, 2)); }

Test(random_samples, refusals) {
  refused(float_randint, "random_randint: asked for f32[4], expected integers");
  refused(too_many, "random_choice: 6 draws from 5 without replacement");
  refused(wrong_p, "random_choice: p is f32[2], expected 4 floats");
  refused(wrong_axis, "random_permutation: axis 2 of f32[3,4]");
  refused(integer_gamma, "random_gamma: asked for i32[], expected floats");
  refused(float_poisson, "random_poisson: asked for f32[4], expected integers");
  refused(wrong_covariance, "mean is f32[4], covariance f32[3,3], expected [.., n] and [.., n, n]");
  refused(thin_orthogonal, "random_orthogonal: asked for f32[4], expected at least two axes");
  refused(wide_delta, "init_delta_orthogonal: 4 inputs, expected no more than the outputs, 2");
  refused(no_scale, "init_variance_scaling: scale 0, expected more than 0");
  refused(no_keep, "random_dropout: f32[2,2] kept by 0, expected floats and 0 < keep <= 1");
  refused(long_categorical, "random_categorical: rank 14, expected 0 to 12");
  refused(scalar_counters, "threefry_run: counters are u32[], expected u32[n]");
}

/* The hash as jaxlib names it on GPUs. */
Test(random_samples, custom_call_of_the_hash) {
  static const char text[] =
      "func.func @main(%a: tensor<1xui32>, %b: tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>) {\n"
      "  %0:2 = stablehlo.custom_call @cu_threefry2x32_ffi(%a, %a, %b, %b) {mhlo.backend_config = {}, operand_layouts "
      "= "
      "[dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : "
      "tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>]} : (tensor<1xui32>, "
      "tensor<1xui32>, tensor<1xui32>, tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)\n"
      "  return %0#0, %0#1 : tensor<1xui32>, tensor<1xui32>\n}\n";
  qn_graph *g;
  qn_status st = qn_graph_parse(text, sizeof text - 1, "call.mlir", &g);
  cr_assert(st == QN_OK, "%s", qn_error_message());
  const uint32_t ones = 0xffffffff;
  uint32_t a, b;
  QN_EXPECT_OK(qn_graph_eval_ref(g, (const void *const[]){&ones, &ones}, (void *[]){&a, &b}));
  cr_expect(a == 0x1cb996fc && b == 0xbb002be7, "%08x %08x", a, b);
  qn_graph_release(g);
}
