/* Fourier transforms: every way in which a length is taken apart, on devices against the defining sum; round trips, refusals, text. */
#include "graph_run.h"

static void draw(qn_dtype part, void *x, int64_t n) {
  uint32_t state = 4711;
  for (int64_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    double v = (double)(state >> 8) / 8388608.0 - 1;
    if (part == QN_F64)
      ((double *)x)[i] = v;
    else
      ((float *)x)[i] = (float)v;
  }
}

static qn_graph *transform_graph(qn_type t, qn_fft_type type, int count, const int64_t *lengths) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("transform", &g));
  qn_val y = qn_fft_at(QN_HERE, qn_graph_param(g, t, "x"), type, count, lengths);
  QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
  return g;
}

/* `rows` transforms; the error allowed is that of sums of as many roundings, relative to the largest number. */
static void check(qn_device *d, qn_dtype part, qn_fft_type type, int64_t rows, int count, const int64_t *lengths) {
  int64_t dims[4] = {rows};
  for (int i = 0; i < count; i++)
    dims[i + 1] = lengths[i];
  if (type == QN_IRFFT)
    dims[count] = dims[count] / 2 + 1;
  qn_type t = qn_type_make(type == QN_RFFT ? part : qn_dtype_complex(part), count + 1, dims);
  qn_graph *g = transform_graph(t, type, count, lengths);
  void *x = calloc(1, (size_t)qn_type_bytes(&t) + 16), *want[1], *got[1];
  draw(part, x, run_numbers(&t));
  run_rooms(g, want);
  run_rooms(g, got);
  QN_EXPECT_OK(run_graph(NULL, g, (const void *const[]){x}, want));
  QN_EXPECT_OK(run_graph(d, g, (const void *const[]){x}, got));
  const qn_type *to = qn_graph_type(g, qn_graph_result(g, 0));
  double off = run_distance(to, got[0], want[0]), allowed = part == QN_F64 ? 1e-13 : 1e-6;
  cr_expect(off <= allowed, "%s, type %d, length %d: off by %g on %s", qn_dtype_name(part), (int)type,
            (int)lengths[count - 1], off, qn_device_get_caps(d)->id);
  run_free(g, want);
  run_free(g, got);
  free(x);
  qn_graph_release(g);
}

/* Short, prime, of two and of three factors, with a prime factor that is long, and long primes, which become convolutions. */
static const int64_t lengths[] = {1,   2,   3,   5,   8,   15,  31,  64,   67,   97,   100,  127,
                                  128, 131, 134, 192, 257, 402, 521, 1000, 1024, 1009, 4096, 4489};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void lengths_on(const char *which, qn_dtype part, size_t first, size_t step) {
  qn_device *d = run_open(which);
  if (!d)
    return;
  for (size_t i = first; i < LENGTHS; i += step)
    for (int type = QN_FFT; type <= QN_IRFFT; type++)
      if (step == 1 || (size_t)type == i / step % 4)
        check(d, part, (qn_fft_type)type, 2, 1, &lengths[i]);
  qn_device_release(d);
}
Test(fft, lengths_f32, .timeout = 200) { lengths_on("cpu", QN_F32, 0, 1); }
Test(fft, lengths_f64, .timeout = 200) { lengths_on("cpu", QN_F64, 0, 1); }
Test(fft, lengths_pocl, .timeout = 200) { lengths_on("opencl:pocl", QN_F32, 1, 3); }
Test(fft, lengths_lavapipe, .timeout = 200) { lengths_on("vulkan:llvmpipe", QN_F32, 0, 3); }
Test(fft, lengths_swiftshader, .timeout = 200) { lengths_on("vulkan:swiftshader", QN_F32, 2, 3); }

Test(fft, several_axes, .timeout = 200) {
  static const int64_t cases[][3] = {{3, 4, 5}, {70, 6, 3}, {2, 128, 5}, {4, 3, 131}, {1, 1, 7}};
  qn_device *d = run_open("cpu");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int type = QN_FFT; type <= QN_IRFFT; type++) {
      check(d, QN_F32, (qn_fft_type)type, 1, 3, cases[i]);
      check(d, QN_F32, (qn_fft_type)type, 3, 2, cases[i] + 1);
    }
  qn_device_release(d);
}

/* No rows: no elements, and nothing to run. */
Test(fft, empty) {
  qn_device *d = run_open("cpu");
  for (int type = QN_FFT; type <= QN_IRFFT; type++)
    check(d, QN_F32, (qn_fft_type)type, 0, 1, (const int64_t[]){6});
  qn_device_release(d);
}

/* There and back again, also for numbers of odd count, on a device and by the references. */
Test(fft, round_trips) {
  qn_device *d = run_open("cpu");
  for (int64_t n = 1; n <= 9; n++) {
    qn_graph *g;
    QN_ASSERT_OK(qn_graph_create("trips", &g));
    qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, n), "x"),
           z = qn_complex_of(x, qn_reverse(x, 1, ((const int64_t[]){1})));
    qn_val y[] = {qn_irfft(qn_rfft(x, 1, &n), 1, &n), qn_sub(qn_ifft(qn_fft(z, 1, &n), 1, &n), z)};
    QN_ASSERT_OK(qn_graph_seal(g, y, 2));
    float in[18], trip[18], rest[36];
    draw(QN_F32, in, 2 * n);
    for (int k = 0; k < 2; k++) {
      QN_EXPECT_OK(run_graph(k ? d : NULL, g, (const void *const[]){in}, (void *[]){trip, rest}));
      for (int64_t i = 0; i < 2 * n; i++)
        cr_expect(fabsf(trip[i] - in[i]) < 1e-6F && fabsf(rest[2 * i]) < 1e-6F && fabsf(rest[2 * i + 1]) < 1e-6F,
                  "length %d, element %d", (int)n, (int)i);
    }
    qn_graph_release(g);
  }
  qn_device_release(d);
}

static void refused(qn_type t, qn_fft_type type, int count, const int64_t *n, const char *part) {
  qn_graph *g;
  QN_ASSERT_OK(qn_graph_create("refused", &g));
  qn_val y = qn_fft_at(QN_HERE, qn_graph_param(g, t, "x"), type, count, n);
  QN_EXPECT_FAIL(qn_graph_seal(g, &y, 1), QN_INVALID, part);
  qn_graph_release(g);
}
Test(fft, refusals) {
  const int64_t n[] = {4, 6, 2, 2};
  refused(qn_type_of(QN_F32, 2, 4, 6), QN_FFT, 2, n, "fft: operand 0 is f32[4,6], expected a complex number for FFT");
  refused(qn_type_of(QN_C64, 2, 4, 6), QN_RFFT, 2, n, "fft: operand 0 is c64[4,6], expected f32 or f64 for RFFT");
  refused(qn_type_of(QN_F16, 2, 4, 6), QN_RFFT, 2, n, "fft: operand 0 is f16[4,6], expected f32 or f64");
  refused(qn_type_of(QN_C64, 2, 4, 5), QN_FFT, 2, n, "expected size 6 at axis 1 for FFT of length 6");
  refused(qn_type_of(QN_C64, 2, 4, 6), QN_IRFFT, 2, n, "expected size 4 at axis 1 for IRFFT of length 6");
  refused(qn_type_of(QN_C64, 1, 6), QN_FFT, 2, n, "fft: 2 lengths, expected 1 to 3 and at most the rank");
  refused(qn_type_of(QN_C64, 4, 4, 6, 2, 2), QN_FFT, 4, n, "fft: 4 lengths, expected 1 to 3");
  refused(qn_type_of(QN_C64, 1, 0), QN_FFT, 1, (const int64_t[]){0}, "fft: length 0, expected at least 1");
}

Test(fft, text) {
  qn_graph *g = transform_graph(qn_type_of(QN_F32, 2, 3, 16), QN_RFFT, 2, (const int64_t[]){3, 16}), *again;
  qn_text text = {0};
  qn_graph_print(g, &text);
  cr_expect(strstr(text.buf, "%0 = stablehlo.fft %arg0, type = RFFT, length = [3, 16] : (tensor<3x16xf32>) -> "
                             "tensor<3x9xcomplex<f32>>") != NULL,
            "%s", text.buf);
  QN_ASSERT_OK(qn_graph_parse(text.buf, text.len, "fft.mlir", &again));
  cr_expect(qn_graph_equal(g, again));
  qn_graph_release(again);
  static const char generic[] =
      "func.func @main(%arg0: tensor<3x16xf32>) -> tensor<3x9xcomplex<f32>> {\n  %0 = \"stablehlo.fft\"(%arg0) "
      "<{fft_length = array<i64: 3, 16>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<3x16xf32>) -> "
      "tensor<3x9xcomplex<f32>>\n  return %0 : tensor<3x9xcomplex<f32>>\n}\n";
  QN_ASSERT_OK(qn_graph_parse(generic, sizeof generic - 1, "generic.mlir", &again));
  cr_expect(qn_graph_equal(g, again));
  qn_graph_release(again);
  qn_graph_release(g);
  qn_text_free(&text);
}
