/* report.html: complete without the network, well nested, with images that decode to the pixels they were made of. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "models/train/train_impl.h"

#ifdef QN_HAVE_PNG
#include <png.h>
#endif

enum { TEST_ROWS = 200, SIDE = 4 };

static uint8_t pixels[TEST_ROWS * SIDE * SIDE], labels[TEST_ROWS];
static int32_t predictions[TEST_ROWS];

static const uint8_t *image_of(void *user, size_t row) {
  (void)user;
  return pixels + row * SIDE * SIDE;
}

static size_t count_of(const char *text, const char *part) {
  size_t n = 0;
  for (const char *p = text; (p = strstr(p, part)); p += strlen(part))
    n++;
  return n;
}

static void expect_nested(const char *text, const char *name) {
  char open[32], close[32];
  (void)snprintf(open, sizeof open, "<%s", name);
  (void)snprintf(close, sizeof close, "</%s>", name);
  size_t opened = 0;
  for (const char *p = text; (p = strstr(p, open)); p += strlen(open))
    opened += strchr(" >", p[strlen(open)]) != NULL;
  cr_expect_eq(opened, count_of(text, close), "<%s>: %zu opened, %zu closed", name, opened, count_of(text, close));
}

static qn_text page(const qn_fit *fit, const qn_history *h, const int32_t *predicted) {
  static const qn_train_options options = {.seed = 5, .scale = true};
  static qn_device_caps caps = {.id = "cpu", .name = "A <fast> & \"odd\" CPU", .driver = "d 1"};
  qn_report r = {.fit = fit,
                 .options = &options,
                 .caps = &caps,
                 .history = h,
                 .epochs = 3,
                 .batch = 32,
                 .steps = 12,
                 .parameters = 99,
                 .seconds = 1.5,
                 .test = {0.5, 0.75, TEST_ROWS},
                 .predictions = predicted};
  qn_text t = {0};
  qn_report_html(&t, &r);
  QN_ASSERT_OK(qn_text_check(&t));
  return t;
}

static void expect_sound(const char *html) {
  static const char *const names[] = {"html", "head",   "body",  "div", "table", "tr",    "td",  "th",
                                      "svg",  "figure", "style", "h2",  "small", "thead", "text"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    expect_nested(html, names[i]);
  cr_expect_eq(count_of(html, "http"), 0, "something is fetched");
  cr_expect_eq(count_of(html, "<script"), 0);
  cr_expect_eq(count_of(html, "nan"), 0);
  cr_expect_eq(count_of(html, "inf"), 0);
  cr_expect(qn_test_contains(html, "prefers-color-scheme:dark"));
  cr_expect(qn_test_contains(html, "A &lt;fast&gt; &amp; &quot;odd&quot; CPU"));
  cr_expect_eq(count_of(html, "<fast>"), 0);
}

Test(report, everything_in_one_file) {
  static const char *const names[] = {"zero", "one", "two & more"};
  qn_fit fit = {.name = "program",
                .class_names = names,
                .class_count = 3,
                .image_rows = SIDE,
                .image_columns = SIDE,
                .image = image_of,
                .test_labels = labels,
                .test = {.name = "test", .rows = TEST_ROWS}};
  qn_history h = {0};
  size_t wrong = 0;
  for (size_t i = 0; i < TEST_ROWS; i++) {
    labels[i] = (uint8_t)(i % 3);
    predictions[i] = (int32_t)(i % 7 ? i % 3 : (i + 1) % 3);
    wrong += predictions[i] != labels[i];
  }
  for (int i = 0; i < 3; i++)
    QN_ASSERT_OK(
        qn_history_add_epoch(&h, &(qn_history_epoch){1.0 / (i + 1), 0.5 + 0.1 * i, 1.1 / (i + 1), 0.4 + 0.1 * i, 1}));
  for (uint64_t s = 1; s < 4000; s++)
    QN_ASSERT_OK(qn_history_add_step(&h, s, 1.0 / (double)s));
  qn_text t = page(&fit, &h, predictions);
  expect_sound(t.buf);
  char line[64];
  (void)snprintf(line, sizeof line, "%zu of %d; the first %zu are shown", wrong, TEST_ROWS, wrong);
  cr_expect(qn_test_contains(t.buf, line));
  cr_expect_eq(count_of(t.buf, "data:image/png;base64,"), wrong);
  cr_expect_eq(count_of(t.buf, "<svg"), 3);
  cr_expect_eq(count_of(t.buf, "<polyline"), 5);
  cr_expect(qn_test_contains(t.buf, "two &amp; more"));
  cr_expect(qn_test_contains(t.buf, "<b>0.7500</b><span>test accuracy"));
  qn_text_free(&t);
  qn_history_free(&h);
}

Test(report, nothing_to_show) {
  qn_fit fit = {.name = "program"};
  qn_history h = {0};
  qn_text t = page(&fit, &h, NULL);
  expect_sound(t.buf);
  cr_expect_eq(count_of(t.buf, "<svg"), 0);
  qn_text_free(&t);
}

Test(report, one_epoch_without_validation) {
  qn_fit fit = {.name = "program"};
  qn_history h = {0};
  QN_ASSERT_OK(qn_history_add_epoch(&h, &(qn_history_epoch){0, 0.5, (double)NAN, (double)NAN, 1}));
  QN_ASSERT_OK(qn_history_add_step(&h, 1, 2.5));
  qn_text t = page(&fit, &h, NULL);
  expect_sound(t.buf);
  cr_expect_eq(count_of(t.buf, "<circle"), 3, "single points are dots");
  qn_text_free(&t);
  qn_history_free(&h);
}

#ifdef QN_HAVE_PNG
static size_t base64_decode(const char *s, uint8_t *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t n = 0;
  uint32_t x = 0;
  int bits = 0;
  for (; *s && *s != '='; s++) {
    const char *at = strchr(digits, *s);
    cr_assert_not_null(at);
    x = x << 6 | (uint32_t)(at - digits);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[n++] = (uint8_t)(x >> bits);
    }
  }
  return n;
}

Test(report, images_decode_to_their_pixels) {
  static const size_t sizes[][2] = {{1, 1}, {28, 28}, {3, 7}, {2, 2}, {300, 400}};
  for (size_t c = 0; c < sizeof sizes / sizeof *sizes; c++) {
    size_t rows = sizes[c][0], columns = sizes[c][1], n = rows * columns;
    uint8_t *in = malloc(n), *out = malloc(n), *file = malloc(2 * n + 1000);
    qn_text t = {0};
    cr_assert(in && out && file);
    for (size_t i = 0; i < n; i++)
      in[i] = (uint8_t)(i * 31 + i / 7);
    qn_report_png(&t, in, rows, columns);
    QN_ASSERT_OK(qn_text_check(&t));
    cr_assert_eq(strncmp(t.buf, "data:image/png;base64,", 22), 0);
    size_t size = base64_decode(t.buf + 22, file);
    png_image image = {.version = PNG_IMAGE_VERSION};
    cr_assert(png_image_begin_read_from_memory(&image, file, size), "%s", image.message);
    cr_expect_eq(image.width, columns);
    cr_expect_eq(image.height, rows);
    image.format = PNG_FORMAT_GRAY;
    cr_assert(png_image_finish_read(&image, NULL, out, 0, NULL), "%s", image.message);
    cr_expect_eq(image.warning_or_error, 0, "%s", image.message);
    cr_expect_arr_eq(in, out, n);
    free(in);
    free(out);
    free(file);
    qn_text_free(&t);
  }
}
#endif
