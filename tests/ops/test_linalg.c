/* Linear algebra on the oracle: what factorisations do with singular, empty and undefined matrices, what shape rules refuse, the text of each
 * operation, and JAX's custom calls. */
#include "conform.h"

#include "quern/autodiff.h"
#include "quern/linalg.h"

typedef qn_val (*function)(const qn_val *x);

/* f of up to two f64 matrices, sealed. */
static qn_status make(function f, const qn_type *types, size_t n, qn_graph **out) {
  qn_val x[2];
  QN_TRY(qn_graph_create("linalg", out));
  for (size_t i = 0; i < n; i++)
    x[i] = qn_graph_param(*out, types[i], NULL);
  qn_val y = f(x);
  qn_status st = qn_graph_seal(*out, &y, 1);
  if (st != QN_OK)
    qn_graph_release(*out);
  return st;
}

static void evaluate(function f, const qn_type *types, size_t n, const void *const *in, void *out) {
  qn_graph *g;
  QN_ASSERT_OK(make(f, types, n, &g));
  QN_EXPECT_OK(qn_graph_eval_ref(g, in, (void *const[]){out}));
  qn_graph_release(g);
}

static qn_val f_cholesky(const qn_val *x) { return qn_cholesky(x[0], true); }
static qn_val f_lu(const qn_val *x) { return qn_lu_factor(x[0]).lu; }
static qn_val f_qr(const qn_val *x) { return qn_qr(x[0]).q; }
static qn_val f_values(const qn_val *x) { return qn_eigh(x[0]).values; }
static qn_val f_vectors(const qn_val *x) { return qn_eigh(x[0]).vectors; }
static qn_val f_s(const qn_val *x) { return qn_svd(x[0]).s; }
static qn_val f_u(const qn_val *x) { return qn_svd(x[0]).u; }
static qn_val f_det(const qn_val *x) { return qn_linalg_det(x[0]); }
static qn_val f_log(const qn_val *x) { return qn_linalg_slogdet(x[0]).log; }
static qn_val f_sign(const qn_val *x) { return qn_linalg_slogdet(x[0]).sign; }
static qn_val f_solve(const qn_val *x) { return qn_linalg_solve(x[0], x[1]); }
static qn_val f_cho_solve(const qn_val *x) { return qn_linalg_cho_solve(x[0], x[1], true); }
static qn_val f_lstsq(const qn_val *x) { return qn_linalg_lstsq(x[0], x[1]); }
static qn_val f_inv(const qn_val *x) { return qn_linalg_inv(x[0]); }
static qn_val f_expm(const qn_val *x) { return qn_linalg_expm(x[0]); }
static qn_val f_power0(const qn_val *x) { return qn_linalg_matrix_power(x[0], 0); }
static qn_val f_product(const qn_val *x) { return qn_householder_product(x[0], x[1]); }
static qn_val f_triangle(const qn_val *x) {
  static const qn_attr_solve lower = {.left_side = true, .lower = true};
  return qn_triangular_solve(x[0], x[1], &lower);
}
static qn_val f_bad_transpose(const qn_val *x) {
  static const qn_attr_solve bad = {.left_side = true, .transpose_a = 3};
  return qn_triangular_solve(x[0], x[1], &bad);
}

#define M(r, c) qn_type_of(QN_F64, 2, r, c)

static void expect_values(const char *what, const double *got, const double *want, int n) {
  for (int i = 0; i < n; i++)
    cr_expect(isnan(want[i]) ? isnan(got[i]) : got[i] == want[i] || fabs(got[i] - want[i]) <= 1e-12,
              "%s: element %d is %.17g, expected %.17g", what, i, got[i], want[i]);
}

Test(linalg, corners) {
  static const struct {
    const char *name;
    function f;
    double a[4], want[4];
    int n;
  } t[] = {
      {"cholesky reads one triangle", f_cholesky, {4, 99, 2, 10}, {2, 0, 1, 3}, 4},
      {"cholesky, not definite", f_cholesky, {1, 2, 2, 1}, {NAN, 0, NAN, NAN}, 4},
      {"cholesky, semidefinite", f_cholesky, {1, 1, 1, 1}, {NAN, 0, NAN, NAN}, 4},
      {"lu exchanges rows", f_lu, {0, 1, 2, 3}, {2, 3, 0, 1}, 4},
      {"lu, singular", f_lu, {0, 1, 0, 2}, {0, 1, 0, 2}, 4},
      {"det, singular", f_det, {1, 2, 2, 4}, {0}, 1},
      {"det, exchanged", f_det, {0, 1, 1, 0}, {-1}, 1},
      {"log det, singular", f_log, {1, 2, 2, 4}, {-INFINITY}, 1},
      {"sign, singular", f_sign, {1, 2, 2, 4}, {0}, 1},
      {"sign", f_sign, {0, 3, 2, 0}, {-1}, 1},
      {"qr of a triangle", f_qr, {2, 1, 0, 3}, {1, 0, 0, 1}, 4},
      {"eigenvalues ascend", f_values, {3, 99, 0, 1}, {1, 3}, 2},
      {"eigenvectors' signs", f_vectors, {3, 99, 0, 1}, {0, 1, 1, 0}, 4},
      {"eigenvalues of equal ones", f_values, {2, 0, 0, 2}, {2, 2}, 2},
      {"eigenvalues of zeros", f_values, {0, 0, 0, 0}, {0, 0}, 2},
      {"eigenvalues of NaN", f_values, {NAN, 0, 0, 1}, {NAN, NAN}, 2},
      {"singular values descend", f_s, {0, 2, -3, 0}, {3, 2}, 2},
      {"singular values of zeros", f_s, {0, 0, 0, 0}, {0, 0}, 2},
      {"vectors of a singular value 0", f_u, {0, 0, 0, 5}, {0, 0, 1, 0}, 4},
      {"inverse, singular", f_inv, {0, 0, 0, 0}, {NAN, NAN, NAN, NAN}, 4},
      {"expm of zeros", f_expm, {0, 0, 0, 0}, {1, 0, 0, 1}, 4},
      {"expm, scaled", f_expm, {0, 0, 0, 7}, {1, 0, 0, 1096.6331584284585}, 4},
      {"power 0", f_power0, {5, 6, 7, 8}, {1, 0, 0, 1}, 4},
  };
  for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
    double got[4] = {0};
    evaluate(t[i].f, (qn_type[]){M(2, 2)}, 1, (const void *[]){t[i].a}, got);
    if (t[i].f == f_expm) /* relative */
      got[3] = t[i].want[3] * (fabs(got[3] / t[i].want[3] - 1) < 1e-13);
    if (t[i].f == f_inv)
      cr_expect(!isfinite(got[0]) && !isfinite(got[3]), "%s", t[i].name);
    else
      expect_values(t[i].name, got, t[i].want, t[i].n);
  }
}

Test(linalg, least_squares_of_low_rank) {
  const double a[] = {1, 1, 1, 1, 1, 1}, b[] = {1, 2, 3};
  double x[2] = {0};
  evaluate(f_lstsq, (qn_type[]){M(3, 2), qn_type_of(QN_F64, 1, 3)}, 2, (const void *[]){a, b}, x);
  expect_values("least norm", x, (double[]){1, 1}, 2);
}

Test(linalg, shapes_that_are_refused) {
  static const struct {
    function f;
    qn_type t[2];
    size_t n;
    const char *part;
  } bad[] = {
      {f_cholesky, {{QN_F64, 2, {2, 3}}}, 1, "cholesky: operand 0 is f64[2,3], expected a square matrix"},
      {f_cholesky, {{QN_F64, 1, {3}}}, 1, "cholesky: operand 0 is f64[3], expected a matrix"},
      {f_cholesky, {{QN_I32, 2, {3, 3}}}, 1, "expected a float"},
      {f_lu, {{QN_F64, 1, {3}}}, 1, "quern.lu: operand 0 is f64[3]"},
      {f_qr, {{QN_I32, 2, {3, 3}}}, 1, "expected a float"},
      {f_values, {{QN_F64, 2, {3, 4}}}, 1, "expected a square matrix"},
      {f_s, {{QN_F64, 0, {0}}}, 1, "quern.svd: operand 0 is f64[]"},
      {f_triangle, {{QN_F64, 2, {3, 3}}, {QN_F64, 2, {4, 2}}}, 2, "expected size 3 at axis 0"},
      {f_triangle, {{QN_F64, 3, {2, 3, 3}}, {QN_F64, 3, {1, 3, 2}}}, 2, "expected size 2 at axis 0"},
      {f_triangle, {{QN_F64, 2, {3, 3}}, {QN_F32, 2, {3, 2}}}, 2, "operand 1"},
      {f_bad_transpose, {{QN_F64, 2, {3, 3}}, {QN_F64, 2, {3, 2}}}, 2, "transpose_a is 3"},
      {f_product, {{QN_F64, 2, {2, 3}}, {QN_F64, 1, {2}}}, 2, "no more columns than rows"},
      {f_solve, {{QN_F64, 2, {3, 3}}, {QN_F64, 1, {4}}}, 2, "linalg.solve: operand 1 is f64[4]"},
      {f_cho_solve, {{QN_F64, 2, {3, 2}}, {QN_F64, 1, {3}}}, 2, "linalg.cho_solve: operand 0"},
      {f_det, {{QN_F64, 2, {3, 2}}}, 1, "linalg.det: operand 0 is f64[3,2]"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    qn_graph *g;
    QN_EXPECT_FAIL(make(bad[i].f, bad[i].t, bad[i].n, &g), QN_INVALID, bad[i].part);
  }
}

Test(linalg, wide_qr_has_no_derivative) {
  qn_graph *g, *d;
  QN_ASSERT_OK(make(f_qr, (qn_type[]){M(2, 3)}, 1, &g));
  QN_EXPECT_FAIL(qn_vjp_graph(g, &d), QN_UNSUPPORTED, "more columns than rows");
  QN_EXPECT_FAIL(qn_jvp_graph(g, &d), QN_UNSUPPORTED, "more columns than rows");
  qn_graph_release(g);
}

/* Text that is read and printed again as it was. */
Test(linalg, text) {
  static const function all[] = {f_cholesky, f_lu, f_qr, f_values, f_s};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    qn_graph *g, *back;
    qn_text text = {0};
    QN_ASSERT_OK(make(all[i], (qn_type[]){M(3, 3)}, 1, &g));
    qn_graph_print(g, &text);
    qn_status st = qn_graph_parse(text.buf, strlen(text.buf), "text", &back);
    cr_expect(st == QN_OK, "%s", st == QN_OK ? "" : qn_error_report());
    if (st == QN_OK) {
      cr_expect(qn_graph_equal(g, back), "%s", text.buf);
      qn_graph_release(back);
    }
    qn_text_free(&text);
    qn_graph_release(g);
  }
  qn_graph *g, *back;
  qn_text text = {0};
  QN_ASSERT_OK(make(f_triangle, (qn_type[]){M(3, 3), M(3, 2)}, 2, &g));
  qn_graph_print(g, &text);
  cr_expect(strstr(text.buf, "<{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, "
                             "unit_diagonal = false}>") != NULL,
            "%s", text.buf);
  QN_ASSERT_OK(qn_graph_parse(text.buf, strlen(text.buf), "text", &back));
  cr_expect(qn_graph_equal(g, back));
  qn_graph_release(back);
  qn_graph_release(g);
  qn_text_free(&text);
}

/* Calls as jaxlib prints them; `want` are the results one after another. */
static const struct {
  const char *body;
  double a[4], want[12];
  int results;
} calls[] = {
    {"%0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, operand_layouts = "
     "[dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)\n"
     "%1 = stablehlo.convert %0#1 : (tensor<i32>) -> tensor<f64>\n"
     "return %0#0, %1 : tensor<2x2xf64>, tensor<f64>",
     {4, 9, 2, 10},
     {2, 0, 1, 3, 0},
     2},
    {"%0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 85 : ui8}} : "
     "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)\n"
     "%1 = stablehlo.convert %0#1 : (tensor<i32>) -> tensor<f64>\n"
     "return %0#0, %1 : tensor<2x2xf64>, tensor<f64>",
     {1, 2, 9, 1},
     {NAN, NAN, 0, NAN, 1},
     2},
    {"%0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<2x2xf64>) -> "
     "(tensor<2x2xf64>, tensor<2xi32>, tensor<i32>)\n"
     "%1 = stablehlo.convert %0#1 : (tensor<2xi32>) -> tensor<2xf64>\n"
     "return %0#0, %1 : tensor<2x2xf64>, tensor<2xf64>",
     {0, 1, 2, 3},
     {2, 3, 0, 1, 2, 2},
     2},
    {"%0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : "
     "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>, tensor<i32>)\n"
     "return %0#0, %0#1 : tensor<2x2xf64>, tensor<2xf64>",
     {3, 9, 0, 1},
     {0, 1, 1, 0, 1, 3},
     2},
    {"%0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a) {mhlo.backend_config = {mode = 78 : ui8}} : "
     "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<i32>)\n"
     "return %0#1 : tensor<2xf64>",
     {0, 2, -3, 0},
     {3, 2},
     1},
    {"%0 = stablehlo.custom_call @lapack_dtrsm_ffi(%a, %a) {mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, "
     "trans_x = 78 : ui8, uplo = 76 : ui8}} : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>\n"
     "return %0 : tensor<2x2xf64>",
     {2, 0, 4, 8},
     {1, 0, 0, 1},
     1},
    {"%0:2 = stablehlo.custom_call @Qr(%a) {backend_config = \"\"} : (tensor<2x2xf64>) -> (tensor<2x2xf64>, "
     "tensor<2xf64>)\n"
     "%1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) {backend_config = \"\"} : "
     "(tensor<2x2xf64>, tensor<2xf64>) -> tensor<2x2xf64>\n"
     "return %1 : tensor<2x2xf64>",
     {3, 0, 4, 5},
     {-0.6, -0.8, -0.8, 0.6},
     1},
    {"%p = stablehlo.constant dense<[1, 1]> : tensor<2xi32>\n"
     "%0 = stablehlo.custom_call @cu_lu_pivots_to_permutation(%p) : (tensor<2xi32>) -> tensor<3xi32>\n"
     "%1 = stablehlo.convert %0 : (tensor<3xi32>) -> tensor<3xf64>\n"
     "return %1 : tensor<3xf64>",
     {0},
     {1, 0, 2},
     1},
};

Test(linalg, calls_of_jax) {
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    qn_graph *g;
    char text[2000];
    const char *back = strrchr(calls[i].body, ':');
    (void)snprintf(text, sizeof text, "module @m { func.func public @main(%%a: tensor<2x2xf64>) -> (%s) { %s } }",
                   back + 1, calls[i].body);
    qn_status st = qn_graph_parse(text, strlen(text), "text", &g);
    cr_expect(st == QN_OK, "%s\n%s", text, st == QN_OK ? "" : qn_error_report());
    if (st != QN_OK)
      continue;
    double got[12] = {0};
    void *out[2] = {got, NULL};
    size_t first = (size_t)qn_type_elements(qn_graph_type(g, qn_graph_result(g, 0)));
    out[1] = got + first;
    QN_EXPECT_OK(qn_graph_eval_ref(g, (const void *[]){calls[i].a}, out));
    int n = (int)first;
    if (calls[i].results == 2)
      n += (int)qn_type_elements(qn_graph_type(g, qn_graph_result(g, 1)));
    expect_values(calls[i].body, got, calls[i].want, n);
    qn_graph_release(g);
  }
}

Test(linalg, calls_that_are_refused) {
  static const char *const bad[][2] = {
      {"%0 = stablehlo.custom_call @Qr(%a) : (tensor<2x2xf64>) -> tensor<2x2xf64> return %0 : tensor<2x2xf64>",
       "@Qr: 1 operands and 1 results, expected 1 and 2"},
      {"%0:2 = stablehlo.custom_call @Qr(%a) : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<3xf64>) return %0#0 : "
       "tensor<2x2xf64>",
       "the text says"},
      {"%0 = stablehlo.custom_call @Nothing(%a) : (tensor<2x2xf64>) -> tensor<2x2xf64> return %0 : tensor<2x2xf64>",
       "unknown target @Nothing"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    qn_graph *g;
    char text[1000];
    (void)snprintf(text, sizeof text,
                   "module @m { func.func public @main(%%a: tensor<2x2xf64>) -> tensor<2x2xf64> { %s } }", bad[i][0]);
    QN_EXPECT_FAIL(qn_graph_parse(text, strlen(text), "text", &g), QN_INVALID, bad[i][1]);
  }
}
