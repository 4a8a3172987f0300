/* Line charts as inline SVG: a frame, round tick values, one polyline per curve, the last value beside its end. */
#include "train_impl.h"

#include <math.h>

enum { WIDTH = 560, HEIGHT = 260, LEFT = 56, RIGHT = 116, TOP = 16, BOTTOM = 40, TICKS = 5, MAX_POINTS = 2000 };

typedef struct axis {
  double low, high, step;
} axis;

/* A step of 1, 2 or 5 times a power of ten that makes about TICKS intervals. */
static double round_step(double range) {
  double raw = range / TICKS, power = pow(10, floor(log10(raw))), part = raw / power;
  return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

static axis fit_axis(double low, double high) {
  if (!(low <= high))
    low = 0, high = 1;
  if (high - low < 1e-12 * (fabs(high) + 1)) {
    double pad = fabs(high) > 0 ? fabs(high) * 0.1 : 1;
    low -= pad;
    high += pad;
  }
  axis a = {.step = round_step(high - low)};
  a.low = floor(low / a.step) * a.step;
  a.high = ceil(high / a.step) * a.step;
  return a;
}

static void range_of(const qn_curve *curves, size_t count, bool of_y, double *low, double *high) {
  *low = (double)INFINITY;
  *high = -(double)INFINITY;
  for (size_t c = 0; c < count; c++)
    for (size_t i = 0; i < curves[c].count; i++) {
      double v = of_y ? curves[c].y[i] : curves[c].x[i];
      if (!isfinite(v) || !isfinite(curves[c].y[i]))
        continue;
      *low = fmin(*low, v);
      *high = fmax(*high, v);
    }
}

static double place_x(const axis *a, double v) {
  return LEFT + (v - a->low) / (a->high - a->low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const axis *a, double v) {
  return HEIGHT - BOTTOM - (v - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void grid(qn_text *t, const axis *x, const axis *y, const char *x_name) {
  for (int i = 0; y->low + i * y->step <= y->high + y->step / 2; i++) {
    double v = y->low + i * y->step, at = place_y(y, v);
    qn_text_add(t, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", LEFT, at, WIDTH - RIGHT, at);
    qn_text_add(t, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 8, at + 4,
                fabs(v) < y->step * 1e-6 ? 0.0 : v);
  }
  for (int i = 0; x->low + i * x->step <= x->high + x->step * 1e-6; i++) {
    double v = x->low + i * x->step;
    if (x->step < 1 && fabs(v - round(v)) > 1e-6)
      continue; /* x counts epochs or steps */
    qn_text_add(t, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", place_x(x, v),
                HEIGHT - BOTTOM + 18, v);
  }
  qn_text_add(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", LEFT + (WIDTH - LEFT - RIGHT) / 2, HEIGHT - 4);
  qn_report_escape(t, x_name);
  qn_text_puts(t, "</text>\n");
}

static void curve(qn_text *t, const qn_curve *c, const axis *x, const axis *y) {
  size_t stride = c->count / MAX_POINTS + 1, points = 0, last = 0;
  qn_text_add(t, "<polyline class=\"%s\" points=\"", c->css);
  for (size_t i = 0; i < c->count; i++) {
    if (!isfinite(c->y[i]) || (i % stride && i + 1 != c->count))
      continue;
    qn_text_add(t, "%.1f,%.1f ", place_x(x, c->x[i]), place_y(y, c->y[i]));
    last = i;
    points++;
  }
  qn_text_puts(t, "\"/>\n");
  if (points == 1)
    qn_text_add(t, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", c->css, place_x(x, c->x[last]),
                place_y(y, c->y[last]));
}

/* The newest value of each curve at the right edge, kept apart when they end close together. */
static void ends(qn_text *t, const qn_curve *curves, size_t count, const axis *y) {
  double taken = -1e9;
  for (size_t c = 0; c < count; c++) {
    if (curves[c].count == 0 || !isfinite(curves[c].y[curves[c].count - 1]))
      continue;
    double v = curves[c].y[curves[c].count - 1], at = place_y(y, v) + 4;
    if (fabs(at - taken) < 13)
      at = at >= taken && taken + 13 < HEIGHT - BOTTOM ? taken + 13 : taken - 13;
    taken = at;
    qn_text_add(t, "<text class=\"end %s\" x=\"%d\" y=\"%.1f\">", curves[c].css, WIDTH - RIGHT + 6, at);
    qn_report_escape(t, curves[c].name);
    qn_text_add(t, " %.3f</text>\n", v);
  }
}

void qn_report_chart(qn_text *t, const char *title, const char *x_name, const qn_curve *curves, size_t count) {
  double low, high;
  range_of(curves, count, false, &low, &high);
  axis x = fit_axis(low, high);
  if (low < high) /* no room beside the first and last point */
    x.low = low, x.high = high;
  if (x.step >= 1)
    x.low = floor(x.low / x.step) * x.step;
  range_of(curves, count, true, &low, &high);
  axis y = fit_axis(low, high);
  qn_text_puts(t, "<figure><figcaption>");
  qn_report_escape(t, title);
  qn_text_add(t, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
  grid(t, &x, &y, x_name);
  for (size_t c = 0; c < count; c++)
    curve(t, &curves[c], &x, &y);
  ends(t, curves, count, &y);
  qn_text_puts(t, "</svg></figure>\n");
}
