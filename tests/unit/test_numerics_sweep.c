/* Holds every function to the bound that docs/numerics.md prints for it, over all of f32 (a stratified sample, or
 * every pattern with QN_TEST_ALL=1), over samples of f64, and over all of f16. The cost that the page prints is held
 * too. */
#include "numerics_kit.h"

#include "numerics_reference.h"
#include "support.h"

enum { BLOCK = 4096 };

/* How an error is measured. */
typedef enum measure {
  ULP,         /* of the result */
  FROM_ONE_UP, /* of the largest of the result, 1 and log|x|: reflected functions are differences of terms that size */
} measure;

typedef struct function {
  const char *row; /* in docs/numerics.md */
  qn_expand_fn f;
  double (*ref)(double);
  long double (*ref_long)(long double);
  double low, high; /* where the function is worth a sample of its own */
  double from, to;  /* what belongs to the row; 0, 0: everything */
  measure measure;
} function;

static double logistic_ref(double x) { return (double)ref_logistic(x); }
static double rsqrt_ref(double x) { return 1 / sqrt(x); }
static double digamma_ref(double x) { return (double)ref_digamma_any(x); }
static double i1e_ref(double x) { return (double)ref_i1e(x); }
static double erf_inv_ref(double x) { return (double)ref_erf_inv(x); }

static const function functions[] = {
    {"exp", qn_expand_exp, exp, expl, -104, 89, 0, 0, ULP},
    {"expm1", qn_expand_expm1, expm1, expm1l, -18, 89, 0, 0, ULP},
    {"log", qn_expand_log, log, logl, 0.5, 2, 0, 0, ULP},
    {"log1p", qn_expand_log1p, log1p, log1pl, -1, 2, 0, 0, ULP},
    {"sin", qn_expand_sin, sin, sinl, -100, 100, 0, 0, ULP},
    {"cos", qn_expand_cos, cos, cosl, -100, 100, 0, 0, ULP},
    {"tan", qn_expand_tan, tan, tanl, -100, 100, 0, 0, ULP},
    {"tanh", qn_expand_tanh, tanh, tanhl, -9.2, 9.2, 0, 0, ULP},
    {"logistic", qn_expand_logistic, logistic_ref, ref_logistic, -104, 20, 0, 0, ULP},
    {"cbrt", qn_expand_cbrt, cbrt, cbrtl, -8, 8, 0, 0, ULP},
    {"rsqrt", qn_expand_rsqrt, rsqrt_ref, ref_rsqrt, 0, 4, 0, 0, ULP},
    {"asin", qn_expand_asin, asin, asinl, -1, 1, 0, 0, ULP},
    {"acos", qn_expand_acos, acos, acosl, -1, 1, 0, 0, ULP},
    {"atan", qn_expand_atan, atan, atanl, -4, 4, 0, 0, ULP},
    {"sinh", qn_expand_sinh, sinh, sinhl, -90, 90, 0, 0, ULP},
    {"cosh", qn_expand_cosh, cosh, coshl, -90, 90, 0, 0, ULP},
    {"asinh", qn_expand_asinh, asinh, asinhl, -4, 4, 0, 0, ULP},
    {"acosh", qn_expand_acosh, acosh, acoshl, 1, 4, 0, 0, ULP},
    {"atanh", qn_expand_atanh, atanh, atanhl, -1, 1, 0, 0, ULP},
    {"erf", qn_expand_erf, erf, erfl, -4, 4, 0, 0, ULP},
    {"erfc", qn_expand_erfc, erfc, erfcl, -4, 10.1, 0, 0, ULP},
    {"erf_inv", qn_expand_erf_inv, erf_inv_ref, ref_erf_inv, -1, 1, 0, 0, ULP},
    {"lgamma, x > 0", qn_expand_lgamma, lgamma, lgammal, 0, 12, 0, INFINITY, ULP},
    {"lgamma, x < 0", qn_expand_lgamma, lgamma, lgammal, -12, 0, -INFINITY, 0, FROM_ONE_UP},
    {"digamma, x > 0", qn_expand_digamma, digamma_ref, ref_digamma_any, 0, 12, 0, INFINITY, ULP},
    {"digamma, x < 0", qn_expand_digamma, digamma_ref, ref_digamma, -12, 0, -INFINITY, 0, FROM_ONE_UP},
    {"bessel_i1e", qn_expand_bessel_i1e, i1e_ref, ref_i1e, -12, 12, 0, 0, ULP},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct row {
  double ulp32, ulp64;
  int ops32, ops64;
} row;

/* "| `name` | f32 | f64 | f32 | f64 |" */
static row documented(const char *name) {
  FILE *page = fopen("docs/numerics.md", "r");
  cr_assert(page != NULL, "docs/numerics.md is not there; tests run in the project's root");
  char line[512], start[80];
  snprintf(start, sizeof start, "| `%s` |", name);
  row r = {0, 0, 0, 0};
  int found = 0;
  while (!found && fgets(line, sizeof line, page))
    if (!strncmp(line, start, strlen(start)))
      found = sscanf(line + strlen(start), " %lf | %lf | %d | %d", &r.ulp32, &r.ulp64, &r.ops32, &r.ops64);
  fclose(page);
  cr_assert_eq(found, 4, "docs/numerics.md has no bounds for %s", name);
  return r;
}

static bool belongs(const function *f, double x) {
  return (f->from == 0 && f->to == 0) || (x >= f->from && x <= f->to) || isnan(x);
}

static double error32(const function *f, float x, float got, double want) {
  double size = fmax(1, log(fabs(x)));
  return f->measure == FROM_ONE_UP && fabs(want) < size ? fabs(got - want) * 0x1p23 / size : kit_ulp32(got, want);
}

static double error64(const function *f, double x, double got, long double want) {
  long double size = fmax(1, log(fabs(x)));
  return f->measure == FROM_ONE_UP && fabsl(want) < size ? (double)(fabsl(got - want) * 0x1p52L / size)
                                                         : kit_ulp64(got, want);
}

typedef struct worst {
  double error, at, got, want;
} worst;

static void sweep_block(const function *f, const qn_host_program *p, const float *x, int n, worst *w) {
  float y[BLOCK];
  kit_run(p, x, NULL, y, (size_t)n);
  for (int i = 0; i < n; ++i) {
    if (!belongs(f, x[i]))
      continue;
    double want = f->ref(x[i]);
    double e = error32(f, x[i], y[i], want);
    if (e > w->error)
      *w = (worst){e, x[i], y[i], want};
  }
}

static void check(const function *f, const char *kind, const worst *w, double bound) {
  if (qn_test_all())
    printf("%-16s %s: %.3f at %a\n", f->row, kind, w->error, w->at);
  cr_expect(w->error <= bound, "%s %s: %.3f ulp at %a (got %a, want %a), the page says %.2f", f->row, kind, w->error,
            w->at, w->got, w->want, bound);
}

static float between(const function *f, uint64_t *state) {
  return (float)(f->low + (f->high - f->low) * (double)(kit_random(state) >> 11) * 0x1p-53);
}

Test(numerics_sweep, f32) {
  uint64_t state = 88172645463325252u;
  float x[BLOCK];
  for (int k = 0; k < FUNCTIONS; ++k) {
    const function *f = &functions[k];
    row r = documented(f->row);
    qn_host_program p;
    kit_record(&p, f->f, QN_F32, 1);
    cr_expect_eq((int)qn_host_program_ops(&p), r.ops32, "%s takes %d operations, the page says %d", f->row,
                 (int)qn_host_program_ops(&p), r.ops32);
    worst w = {0, 0, 0, 0};
    uint64_t step = qn_test_all() ? 1 : (UINT64_C(1) << 32) / (48 * BLOCK);
    for (uint64_t first = 0; first < UINT64_C(1) << 32; first += step * BLOCK) {
      int n = 0;
      for (; n < BLOCK && first + (uint64_t)n * step < UINT64_C(1) << 32; ++n)
        x[n] = kit_f32((uint32_t)(first + (uint64_t)n * step + (step > 1 ? kit_random(&state) % step : 0)));
      sweep_block(f, &p, x, n, &w);
    }
    for (int block = 0; block < 12; ++block) {
      for (int i = 0; i < BLOCK; ++i)
        x[i] = between(f, &state);
      sweep_block(f, &p, x, BLOCK, &w);
    }
    check(f, "f32", &w, r.ulp32);
    qn_host_program_free(&p);
  }
}

Test(numerics_sweep, f64) {
  uint64_t state = 2463534242u;
  static double x[BLOCK], y[BLOCK];
  for (int k = 0; k < FUNCTIONS; ++k) {
    const function *f = &functions[k];
    row r = documented(f->row);
    qn_host_program p;
    kit_record(&p, f->f, QN_F64, 1);
    cr_expect_eq((int)qn_host_program_ops(&p), r.ops64, "%s takes %d operations in f64, the page says %d", f->row,
                 (int)qn_host_program_ops(&p), r.ops64);
    worst w = {0, 0, 0, 0};
    for (int block = 0; block < (qn_test_all() ? 200 : 4); ++block) {
      for (int i = 0; i < BLOCK; ++i) {
        uint64_t bits = kit_random(&state);
        x[i] = block & 1 ? f->low + (f->high - f->low) * (double)(bits >> 11) * 0x1p-53 : kit_f64(bits);
      }
      kit_run(&p, x, NULL, y, BLOCK);
      for (int i = 0; i < BLOCK; ++i) {
        if (!belongs(f, x[i]))
          continue;
        long double want = f->ref_long(x[i]);
        double e = error64(f, x[i], y[i], want);
        if (e > w.error)
          w = (worst){e, x[i], y[i], (double)want};
      }
    }
    check(f, "f64", &w, r.ulp64);
    qn_host_program_free(&p);
  }
}

/* Narrow floats go through f32; what f32 lacks of exactness shows only where the true value is near a tie. */
Test(numerics_sweep, every_f16) {
  static float x[65536], y[65536];
  for (int i = 0; i < 65536; ++i)
    x[i] = qn_f16_to_f32((uint16_t)i);
  for (int k = 0; k < FUNCTIONS; ++k) {
    const function *f = &functions[k];
    if (f->measure != ULP || f->f == qn_expand_erf_inv)
      continue;
    kit_expand(f->f, QN_F32, 1, x, NULL, y, 65536);
    worst w = {0, 0, 0, 0};
    for (int i = 0; i < 65536; ++i) {
      if (!belongs(f, x[i]))
        continue;
      double want = f->ref(x[i]);
      double e = kit_ulp(qn_f16_to_f32(qn_f32_to_f16(y[i])), want, 11, 16, -13);
      if (e > w.error)
        w = (worst){e, x[i], y[i], want};
    }
    check(f, "f16", &w, 0.501);
  }
}

/* ---- two operands ---- */

typedef struct pair_function {
  const char *row;
  qn_expand_fn f;
  long double (*ref)(long double, long double);
  double low[2], high[2];
  bool whole_first, any_sign;
} pair_function;

static const pair_function pairs[] = {
    {"power", qn_expand_power, powl, {-12, -8}, {12, 8}, false, false},
    {"atan2", qn_expand_atan2, atan2l, {-40, -40}, {40, 40}, false, true},
    {"zeta", qn_expand_zeta, ref_zeta, {0.05, -4}, {4, 6}, false, false},
    {"polygamma", qn_expand_polygamma, ref_polygamma, {0, -4}, {8, 6}, true, false},
};

/* Operands are 2 to a uniform power, so that sizes vary. */
static double operand(const pair_function *f, int which, uint64_t *state) {
  double u = f->low[which] + (f->high[which] - f->low[which]) * (double)(kit_random(state) >> 11) * 0x1p-53;
  if (which == 0 && f->whole_first)
    return rint(u);
  double x = exp2(u);
  return f->any_sign && (kit_random(state) >> 40 & 1) ? -x : x;
}

Test(numerics_sweep, pairs) {
  uint64_t state = 521288629u;
  static float a[BLOCK], b[BLOCK], y[BLOCK];
  static double c[BLOCK], d[BLOCK], z[BLOCK];
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k) {
    const pair_function *f = &pairs[k];
    row r = documented(f->row);
    qn_host_program p32, p64;
    kit_record(&p32, f->f, QN_F32, 2);
    kit_record(&p64, f->f, QN_F64, 2);
    int ops32 = (int)qn_host_program_ops(&p32), ops64 = (int)qn_host_program_ops(&p64);
    cr_expect(ops32 == r.ops32 && ops64 == r.ops64, "%s takes %d and %d operations", f->row, ops32, ops64);
    worst w32 = {0, 0, 0, 0}, w64 = {0, 0, 0, 0};
    bool slow = f->f == qn_expand_zeta || f->f == qn_expand_polygamma;
    for (int block = 0; block < (qn_test_all() ? 400 : slow ? 1 : 12); ++block) {
      for (int i = 0; i < BLOCK; ++i) {
        c[i] = operand(f, 0, &state) + (f->f == qn_expand_zeta);
        d[i] = operand(f, 1, &state);
        if (f->f == qn_expand_power && i % 2) /* results up to the ends of the range */
          d[i] = (double)(kit_random(&state) >> 11) * 0x1p-53 * 150 / log2(c[i]);
        a[i] = (float)c[i];
        b[i] = (float)d[i];
      }
      kit_run(&p32, a, b, y, BLOCK);
      kit_run(&p64, c, d, z, BLOCK);
      for (int i = 0; i < BLOCK; ++i) {
        long double want32 = f->ref(a[i], b[i]), want64 = f->ref(c[i], d[i]);
        double e32 = kit_ulp32(y[i], (double)want32), e64 = kit_ulp64(z[i], want64);
        if (e32 > w32.error)
          w32 = (worst){e32, a[i], y[i], (double)want32};
        if (e64 > w64.error)
          w64 = (worst){e64, c[i], z[i], (double)want64};
      }
    }
    function named = {.row = f->row};
    check(&named, "f32", &w32, r.ulp32);
    check(&named, "f64", &w64, r.ulp64);
    qn_host_program_free(&p32);
    qn_host_program_free(&p64);
  }
}
