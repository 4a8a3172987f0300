/* Where a NaN came from: the first operation whose NaN reaches a result, inputs and constants that hold one, and NaNs that nobody sees. */
#include <math.h>
#include <string.h>

#include "expect.h"
#include "quern/check.h"
#include "quern/drivers.h"

#define MAIN(results, body) "func.func @main(%x: tensor<4xf32>) -> " results " {\n" body "\n}"
#define F4 "tensor<4xf32>"
#define ONE(body) MAIN(F4, body)

static const struct {
  const char *text;
  float x[4];
  const char *message;
} cases[] = {
    {ONE("%0 = stablehlo.sqrt %x : " F4 "\nreturn %0 : " F4), {1, 2, 3, 4}, "no result holds a NaN"},
    {ONE("%0 = stablehlo.sqrt %x : " F4 "\nreturn %0 : " F4),
     {1, 2, -3, -4},
     "sqrt made 2 NaNs in f32[4], the first at [2], of operands without any (p.mlir:2:6)"},
    {ONE("%0 = stablehlo.sqrt %x : " F4 "\nreturn %0 : " F4), {1, NAN, 3, 4}, "input 0 brought 1 NaN in f32[4]"},
    {ONE("%0 = stablehlo.log %x : " F4 "\n%1 = stablehlo.sqrt %x : " F4 "\n%2 = stablehlo.add %1, %1 : " F4
         "\nreturn %2 : " F4),
     {1, -2, 3, 4},
     "sqrt made 1 NaN in f32[4], the first at [1], of operands without any (p.mlir:3:6)"},
    {ONE("%c = stablehlo.constant dense<0.0> : " F4 "\n%0 = stablehlo.compare GT, %x, %c : (" F4 ", " F4
         ") -> tensor<4xi1>\n%1 = stablehlo.log %x : " F4 "\n%2 = stablehlo.select %0, %1, %c : tensor<4xi1>, " F4
         "\nreturn %2 : " F4),
     {1, -2, 3, 4},
     "no result holds a NaN"},
    {ONE("%c = stablehlo.constant dense<0x7FC00000> : tensor<4xf32>\n%0 = stablehlo.add %x, %c : " F4
         "\nreturn %0 : " F4),
     {1, 2, 3, 4},
     "a constant of f32[4] holds a NaN (p.mlir:2:6)"},
    {ONE("%0 = stablehlo.divide %x, %x : " F4 "\n%1 = stablehlo.custom_call @quern.stop_gradient(%0) : (" F4 ") -> " F4
         "\nreturn %1 : " F4),
     {1, 0, 3, 4},
     "divide made 1 NaN in f32[4], the first at [1]"},
    {MAIN("tensor<i1>", "%c = stablehlo.constant dense<true> : tensor<i1>\nreturn %c : tensor<i1>"),
     {NAN, 0, 0, 0},
     "no result holds a NaN"},
};

static void expect_origin(qn_device *d) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const void *inputs[] = {cases[i].x};
    qn_graph *g;
    qn_nan_report r;
    qn_text t = {0};
    QN_ASSERT_OK(qn_graph_parse(cases[i].text, strlen(cases[i].text), "p.mlir", &g));
    QN_ASSERT_OK(qn_check_nans(d, NULL, g, inputs, &r));
    qn_nan_report_print(&r, &t);
    cr_expect(strncmp(t.buf, cases[i].message, strlen(cases[i].message)) == 0, "%zu: %s", i, t.buf);
    qn_text_free(&t);
    qn_graph_release(g);
  }
}

Test(check_nans, on_the_references) { expect_origin(NULL); }

Test(check_nans, on_the_cpu) {
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  qn_device *d;
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  expect_origin(d);
  qn_device_release(d);
}

Test(check_nans, narrow_and_wide_types) {
  const uint16_t half[3] = {0x7c00, 0x7c01, 0xfe00}, brain[3] = {0x7f80, 0x7f81, 0x3f80};
  const double wide[2] = {INFINITY, NAN};
  const float parts[4] = {1, NAN, INFINITY, 0};
  const uint32_t words[2] = {0x7fc00000, 0xffffffff};
  int64_t first;
  qn_type t = qn_type_of(QN_F16, 1, 3);
  cr_expect(qn_count_nans(&t, half, &first) == 2 && first == 1);
  t.dtype = QN_BF16;
  cr_expect(qn_count_nans(&t, brain, &first) == 1 && first == 1);
  t = qn_type_of(QN_F64, 1, 2);
  cr_expect(qn_count_nans(&t, wide, &first) == 1 && first == 1);
  t.dtype = QN_C64;
  cr_expect(qn_count_nans(&t, parts, &first) == 1 && first == 0);
  t.dtype = QN_U32;
  cr_expect(qn_count_nans(&t, words, &first) == 0 && first == -1);
}
