/* report.html: one file without outside resources. Totals, settings, curves, the confusion matrix of the test split and
 * its misclassified images; colours follow the reader's light or dark setting. */
#include "train_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WRONG = 60, MAX_CLASSES = 100 };

static const char head[] = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
static const char style[] =
    "</title>\n<style>\n"
    ":root{color-scheme:light dark;--bg:#fcfcfb;--fg:#1d1d1b;--dim:#6b6b66;--line:#e2e2dd;--a:#2563a8;--b:#c2570c;"
    "--cell:37,99,168}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#171717;--fg:#ededeb;--dim:#a1a19b;--line:#35352f;--a:#7db4ef;"
    "--b:#f2a05c;--cell:125,180,239}}\n"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1180px;"
    "padding:0 1rem}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .6rem}p{color:var(--dim);margin:.2rem 0}\n"
    ".totals{display:flex;flex-wrap:wrap;gap:1rem 2.4rem;margin:1.4rem 0}.totals div{min-width:6rem}\n"
    ".totals b{display:block;font-size:1.5rem;font-weight:600}.totals span{color:var(--dim)}\n"
    ".charts{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;flex:1 1 440px;max-width:570px}\n"
    "figcaption{font-weight:600}svg{width:100%;height:auto}svg text{fill:var(--dim);font:11px system-ui,sans-serif}\n"
    "svg .grid{stroke:var(--line)}polyline{fill:none;stroke-width:1.8}\n"
    "polyline.a{stroke:var(--a)}polyline.b{stroke:var(--b)}circle.a,svg text.end.a{fill:var(--a)}\n"
    "circle.b,svg text.end.b{fill:var(--b)}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}th{font-weight:500;color:var(--dim)}\n"
    "th,td{padding:.25rem .6rem;text-align:right}td:first-child,th:first-child{text-align:left}\n"
    ".rows tr{border-bottom:1px solid var(--line)}.scroll{overflow-x:auto}\n"
    ".matrix td{text-align:center;min-width:2.2rem;border:1px solid var(--line)}\n"
    ".matrix th{text-align:right;white-space:nowrap}.matrix thead th{text-align:center}\n"
    ".wrong{display:grid;grid-template-columns:repeat(auto-fill,minmax(104px,1fr));gap:1rem}\n"
    ".wrong img{width:84px;height:84px;image-rendering:pixelated;background:#000;display:block}\n"
    ".wrong small{color:var(--dim);display:block;line-height:1.3}.wrong b{color:var(--fg);font-weight:600}\n"
    "</style></head><body>\n";

void qn_report_escape(qn_text *t, const char *s) {
  for (; *s; s++) {
    if (*s == '&')
      qn_text_puts(t, "&amp;");
    else if (*s == '<')
      qn_text_puts(t, "&lt;");
    else if (*s == '>')
      qn_text_puts(t, "&gt;");
    else if (*s == '"')
      qn_text_puts(t, "&quot;");
    else
      qn_text_putn(t, s, 1);
  }
}

/* ---- totals and settings ---- */

static void total(qn_text *t, const char *name, const char *format, double x) {
  char number[64];
  if (!isfinite(x))
    return;
  (void)snprintf(number, sizeof number, format, x);
  qn_text_add(t, "<div><b>%s</b><span>%s</span></div>\n", number, name);
}

static void totals(qn_text *t, const qn_report *r) {
  const qn_history *h = r->history;
  qn_text_puts(t, "<div class=\"totals\">\n");
  total(t, "test accuracy", "%.4f", r->test.accuracy);
  total(t, "test loss", "%.4f", r->test.loss);
  if (h->epoch_count) {
    total(t, "validation accuracy", "%.4f", h->epochs[h->epoch_count - 1].val_accuracy);
    total(t, "training accuracy", "%.4f", h->epochs[h->epoch_count - 1].accuracy);
  }
  total(t, "steps", "%.0f", (double)r->steps);
  total(t, "parameters", "%.0f", (double)r->parameters);
  total(t, "seconds", "%.1f", r->seconds);
  qn_text_puts(t, "</div>\n");
}

static void setting(qn_text *t, const char *name, const char *value) {
  qn_text_add(t, "<tr><td>%s</td><td>", name);
  qn_report_escape(t, value);
  qn_text_puts(t, "</td></tr>\n");
}

static void number_setting(qn_text *t, const char *name, uint64_t x) {
  qn_text_add(t, "<tr><td>%s</td><td>%" PRIu64 "</td></tr>\n", name, x);
}

static void settings(qn_text *t, const qn_report *r) {
  const qn_train_options *o = r->options;
  qn_text_puts(t, "<h2>Settings</h2>\n<table class=\"rows\">\n");
  setting(t, "program", r->fit->name);
  setting(t, "device", r->caps->id);
  setting(t, "device name", r->caps->name);
  setting(t, "driver", r->caps->driver);
  if (r->caps->platform[0])
    setting(t, "platform", r->caps->platform);
  number_setting(t, "epochs", (uint64_t)r->epochs);
  number_setting(t, "batch", r->batch);
  number_setting(t, "seed", o->seed);
  number_setting(t, "shuffle buffer", r->fit->shuffle_buffer);
  setting(t, "pixels scaled to 0..1", o->scale ? "yes" : "no");
  setting(t, "batch normalisation", o->batchnorm ? "yes" : "no");
  number_setting(t, "training rows", r->fit->train.rows);
  number_setting(t, "validation rows", r->fit->validation.rows);
  number_setting(t, "test rows", r->fit->test.rows);
  setting(t, "Quern", QN_VERSION);
  qn_text_puts(t, "</table>\n");
}

/* ---- curves ---- */

typedef struct columns {
  double *x, *loss, *accuracy, *val_loss, *val_accuracy, *step, *step_loss;
} columns;

static void epoch_table(qn_text *t, const qn_history *h) {
  qn_text_puts(t, "<h2>Epochs</h2>\n<div class=\"scroll\"><table "
                  "class=\"rows\"><thead><tr><th>epoch</th><th>loss</th><th>accuracy</th>"
                  "<th>val_loss</th><th>val_accuracy</th><th>seconds</th></tr></thead>\n");
  for (size_t i = 0; i < h->epoch_count; i++) {
    const qn_history_epoch *e = &h->epochs[i];
    qn_text_add(t, "<tr><td>%zu</td><td>%.4f</td><td>%.4f</td>", i + 1, e->loss, e->accuracy);
    if (isfinite(e->val_loss))
      qn_text_add(t, "<td>%.4f</td><td>%.4f</td>", e->val_loss, e->val_accuracy);
    else
      qn_text_puts(t, "<td></td><td></td>");
    qn_text_add(t, "<td>%.2f</td></tr>\n", e->seconds);
  }
  qn_text_puts(t, "</table></div>\n");
}

static void curves(qn_text *t, const qn_history *h) {
  size_t n = h->epoch_count, m = h->step_count;
  double *room = malloc((5 * n + 2 * m + 1) * sizeof *room);
  if (!room) {
    t->failed = true;
    return;
  }
  columns c = {room, room + n, room + 2 * n, room + 3 * n, room + 4 * n, room + 5 * n, room + 5 * n + m};
  for (size_t i = 0; i < n; i++) {
    const qn_history_epoch *e = &h->epochs[i];
    c.x[i] = (double)(i + 1);
    c.loss[i] = e->loss;
    c.accuracy[i] = e->accuracy;
    c.val_loss[i] = e->val_loss;
    c.val_accuracy[i] = e->val_accuracy;
  }
  for (size_t i = 0; i < m; i++) {
    c.step[i] = (double)h->steps[i].step;
    c.step_loss[i] = h->steps[i].loss;
  }
  const qn_curve loss[] = {{"train", "a", c.x, c.loss, n}, {"validation", "b", c.x, c.val_loss, n}};
  const qn_curve accuracy[] = {{"train", "a", c.x, c.accuracy, n}, {"validation", "b", c.x, c.val_accuracy, n}};
  const qn_curve steps[] = {{"batch", "a", c.step, c.step_loss, m}};
  qn_text_puts(t, "<div class=\"charts\">\n");
  if (n) {
    qn_report_chart(t, "Loss", "epoch", loss, 2);
    qn_report_chart(t, "Accuracy", "epoch", accuracy, 2);
  }
  if (m)
    qn_report_chart(t, "Loss of single batches", "step", steps, 1);
  qn_text_puts(t, "</div>\n");
  free(room);
  if (n)
    epoch_table(t, h);
}

/* ---- the test split ---- */

static void class_name(qn_text *t, const qn_fit *f, size_t i) {
  if (f->class_names)
    qn_report_escape(t, f->class_names[i]);
  else
    qn_text_add(t, "%zu", i);
}

static bool known(const qn_report *r, size_t row) {
  return r->predictions[row] >= 0 && (size_t)r->predictions[row] < r->fit->class_count &&
         r->fit->test_labels[row] < r->fit->class_count;
}

static void matrix(qn_text *t, const qn_report *r) {
  size_t n = r->fit->class_count;
  size_t *cells = calloc(n * (n + 1) + 1, sizeof *cells), *sums = cells ? cells + n * n : NULL;
  if (!cells) {
    t->failed = true;
    return;
  }
  for (size_t i = 0; i < r->fit->test.rows; i++)
    if (known(r, i)) {
      cells[r->fit->test_labels[i] * n + (size_t)r->predictions[i]]++;
      sums[r->fit->test_labels[i]]++;
    }
  qn_text_puts(
      t, "<h2>Confusion matrix of the test images</h2>\n<p>Rows are the true classes, columns what was predicted.</p>\n"
         "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th></th>");
  for (size_t j = 0; j < n; j++) {
    qn_text_puts(t, "<th>");
    class_name(t, r->fit, j);
    qn_text_puts(t, "</th>");
  }
  qn_text_puts(t, "</tr></thead>\n");
  for (size_t i = 0; i < n; i++) {
    qn_text_puts(t, "<tr><th>");
    class_name(t, r->fit, i);
    qn_text_puts(t, "</th>");
    for (size_t j = 0; j < n; j++)
      qn_text_add(t, "<td style=\"background:rgba(var(--cell),%.2f)\">%zu</td>",
                  sums[i] ? 0.75 * (double)cells[i * n + j] / (double)sums[i] : 0.0, cells[i * n + j]);
    qn_text_puts(t, "</tr>\n");
  }
  qn_text_puts(t, "</table></div>\n");
  free(cells);
}

static void wrong_one(qn_text *t, const qn_report *r, size_t row) {
  const qn_fit *f = r->fit;
  qn_text_puts(t, "<div><img alt=\"\" src=\"");
  qn_report_png(t, f->image(f->user, row), f->image_rows, f->image_columns);
  qn_text_puts(t, "\"><small><b>");
  class_name(t, f, (size_t)r->predictions[row]);
  qn_text_puts(t, "</b><br>is ");
  class_name(t, f, f->test_labels[row]);
  qn_text_add(t, "<br>image %zu</small></div>\n", row);
}

static void wrong_images(qn_text *t, const qn_report *r) {
  size_t wrong = 0, shown = 0;
  for (size_t i = 0; i < r->fit->test.rows; i++)
    wrong += known(r, i) && r->predictions[i] != (int32_t)r->fit->test_labels[i];
  qn_text_add(
      t, "<h2>Misclassified test images</h2>\n<p>%zu of %zu; the first %zu are shown, with what was predicted.</p>\n",
      wrong, r->fit->test.rows, wrong < MAX_WRONG ? wrong : (size_t)MAX_WRONG);
  qn_text_puts(t, "<div class=\"wrong\">\n");
  for (size_t i = 0; i < r->fit->test.rows && shown < MAX_WRONG; i++)
    if (known(r, i) && r->predictions[i] != (int32_t)r->fit->test_labels[i]) {
      wrong_one(t, r, i);
      shown++;
    }
  qn_text_puts(t, "</div>\n");
}

void qn_report_html(qn_text *t, const qn_report *r) {
  const qn_fit *f = r->fit;
  qn_text_puts(t, head);
  qn_report_escape(t, f->name);
  qn_text_puts(t, " on ");
  qn_report_escape(t, r->caps->name);
  qn_text_puts(t, style);
  qn_text_puts(t, "<h1>");
  qn_report_escape(t, f->name);
  qn_text_puts(t, "</h1>\n<p>trained on ");
  qn_report_escape(t, r->caps->name);
  qn_text_puts(t, " (");
  qn_report_escape(t, r->caps->id);
  qn_text_puts(t, ")</p>\n");
  totals(t, r);
  curves(t, r->history);
  if (r->predictions && f->test_labels && f->class_count && f->class_count <= MAX_CLASSES)
    matrix(t, r);
  if (r->predictions && f->test_labels && f->class_count && f->image && f->image_rows && f->image_columns)
    wrong_images(t, r);
  settings(t, r);
  qn_text_puts(t, "</body></html>\n");
}

qn_status qn_report_write(const char *path, const qn_report *r) {
  qn_text t = {0};
  qn_report_html(&t, r);
  qn_status st = qn_text_check(&t);
  if (st == QN_OK)
    st = qn_file_write_atomic(path, t.buf, t.len);
  qn_text_free(&t);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_report_write");
}
