/* References in double: eigenvalues by Householder's tridiagonal form and implicit QL steps (Bowdler, Martin, Reinsch and Wilkinson, Handbook for
 * Automatic Computation II), singular values by rotations of rows until they are orthogonal. */
#include "linalg_reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- symmetric matrices ---- */

/* One row of the reduction: reflects rows 0 .. i-1 so that row i keeps its last entry only. d holds the row. */
static double reduce_row(double *v, double *d, double *e, int64_t i, int64_t n, double scale) {
  double h = 0;
  for (int64_t k = 0; k < i; k++) {
    d[k] /= scale;
    h += d[k] * d[k];
  }
  double f = d[i - 1], g = f > 0 ? -sqrt(h) : sqrt(h);
  e[i] = scale * g;
  h -= f * g;
  d[i - 1] = f - g;
  for (int64_t j = 0; j < i; j++)
    e[j] = 0;
  for (int64_t j = 0; j < i; j++) {
    f = d[j];
    v[j * n + i] = f;
    g = e[j] + v[j * n + j] * f;
    for (int64_t k = j + 1; k < i; k++) {
      g += v[k * n + j] * d[k];
      e[k] += v[k * n + j] * f;
    }
    e[j] = g;
  }
  f = 0;
  for (int64_t j = 0; j < i; j++) {
    e[j] /= h;
    f += e[j] * d[j];
  }
  for (int64_t j = 0; j < i; j++)
    e[j] -= f / (h + h) * d[j];
  for (int64_t j = 0; j < i; j++) {
    for (int64_t k = j; k < i; k++)
      v[k * n + j] -= d[j] * e[k] + e[j] * d[k];
    d[j] = v[(i - 1) * n + j];
    v[i * n + j] = 0;
  }
  return h;
}

/* v becomes the reflections' product, d the diagonal and e (from 1) what is beside it. */
static void tridiagonal(double *v, double *d, double *e, int64_t n) {
  for (int64_t j = 0; j < n; j++)
    d[j] = v[(n - 1) * n + j];
  for (int64_t i = n - 1; i > 0; i--) {
    double scale = 0, h = 0;
    for (int64_t k = 0; k < i; k++)
      scale += fabs(d[k]);
    if (scale == 0) {
      e[i] = d[i - 1];
      for (int64_t j = 0; j < i; j++) {
        d[j] = v[(i - 1) * n + j];
        v[i * n + j] = v[j * n + i] = 0;
      }
    } else {
      h = reduce_row(v, d, e, i, n, scale);
    }
    d[i] = h;
  }
  for (int64_t i = 0; i < n - 1; i++) {
    v[(n - 1) * n + i] = v[i * n + i];
    v[i * n + i] = 1;
    double h = d[i + 1];
    for (int64_t k = 0; k <= i && h != 0; k++)
      d[k] = v[k * n + i + 1] / h;
    for (int64_t j = 0; j <= i && h != 0; j++) {
      double g = 0;
      for (int64_t k = 0; k <= i; k++)
        g += v[k * n + i + 1] * v[k * n + j];
      for (int64_t k = 0; k <= i; k++)
        v[k * n + j] -= g * d[k];
    }
    for (int64_t k = 0; k <= i; k++)
      v[k * n + i + 1] = 0;
  }
  for (int64_t j = 0; j < n; j++) {
    d[j] = v[(n - 1) * n + j];
    v[(n - 1) * n + j] = 0;
  }
  v[n * n - 1] = 1;
  e[0] = 0;
}

/* One implicit QL step on entries l .. m; returns how far the diagonal was shifted. */
static double ql_step(double *v, double *d, double *e, int64_t n, int64_t l, int64_t m) {
  double g = d[l], p = (d[l + 1] - g) / (2 * e[l]), r = p < 0 ? -hypot(p, 1) : hypot(p, 1);
  d[l] = e[l] / (p + r);
  d[l + 1] = e[l] * (p + r);
  double dl1 = d[l + 1], el1 = e[l + 1], shift = g - d[l];
  for (int64_t i = l + 2; i < n; i++)
    d[i] -= shift;
  p = d[m];
  double c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
  for (int64_t i = m - 1; i >= l; i--) {
    c3 = c2;
    c2 = c;
    s2 = s;
    g = c * e[i];
    double h = c * p;
    r = hypot(p, e[i]);
    e[i + 1] = s * r;
    s = e[i] / r;
    c = p / r;
    p = c * d[i] - s * g;
    d[i + 1] = h + s * (c * g + s * d[i]);
    for (int64_t k = 0; k < n; k++) {
      h = v[k * n + i + 1];
      v[k * n + i + 1] = s * v[k * n + i] + c * h;
      v[k * n + i] = c * v[k * n + i] - s * h;
    }
  }
  p = -s * s2 * c3 * el1 * e[l] / dl1;
  e[l] = s * p;
  d[l] = c * p;
  return shift;
}

static void diagonal(double *v, double *d, double *e, int64_t n) {
  for (int64_t i = 1; i < n; i++)
    e[i - 1] = e[i];
  e[n - 1] = 0;
  double shift = 0, most = 0;
  for (int64_t l = 0; l < n; l++) {
    most = fmax(most, fabs(d[l]) + fabs(e[l]));
    int64_t m = l;
    while (fabs(e[m]) > DBL_EPSILON * most)
      m++;
    for (int step = 0; m > l && step < 100 && (step == 0 || fabs(e[l]) > DBL_EPSILON * most); step++)
      shift += ql_step(v, d, e, n, l, m);
    d[l] += shift;
    e[l] = 0;
  }
}

/* What makes the entry of largest magnitude in a column (or row, by strides) positive. */
static double sign_of(const double *x, int64_t n, int64_t stride) {
  double high = x[0], low = x[0];
  for (int64_t i = 1; i < n; i++) {
    high = fmax(high, x[i * stride]);
    low = fmin(low, x[i * stride]);
  }
  return high < -low ? -1 : 1;
}

static void exchange(double *a, double *b) {
  double x = *a;
  *a = *b;
  *b = x;
}

void qn_reference_eigh(double *a, double *w, double *room, int64_t n) {
  bool finite = true;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      a[j * n + i] = a[i * n + j];
      finite = finite && isfinite(a[i * n + j]);
    }
  if (n == 0)
    return;
  if (!finite) {
    for (int64_t i = 0; i < n * n; i++)
      a[i] = w[i % n] = NAN;
    return;
  }
  tridiagonal(a, w, room, n);
  diagonal(a, w, room, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t least = i;
    for (int64_t j = i + 1; j < n; j++)
      least = w[j] < w[least] ? j : least;
    exchange(&w[i], &w[least]);
    for (int64_t k = 0; k < n; k++)
      exchange(&a[k * n + i], &a[k * n + least]);
    double sign = sign_of(a + i, n, n);
    for (int64_t k = 0; k < n; k++)
      a[k * n + i] *= sign;
  }
}

/* ---- singular values ---- */

static void turn(double *x, double *y, int64_t n, double c, double s) {
  for (int64_t i = 0; i < n; i++) {
    double a = x[i], b = y[i];
    x[i] = c * a + s * b;
    y[i] = c * b - s * a;
  }
}

/* Rows of x (k rows of m numbers) are turned against each other until they are orthogonal, those of v (k x k) with them. */
static void orthogonalise(double *x, double *v, int64_t k, int64_t m) {
  bool turned = true;
  for (int sweep = 0; sweep < 60 && turned; sweep++) {
    turned = false;
    for (int64_t p = k - 1; p > 0; p--)
      for (int64_t q = p - 1; q >= 0; q--) {
        double pp = 0, qq = 0, pq = 0;
        for (int64_t i = 0; i < m; i++) {
          pp += x[p * m + i] * x[p * m + i];
          qq += x[q * m + i] * x[q * m + i];
          pq += x[p * m + i] * x[q * m + i];
        }
        if (!(fabs(pq) > DBL_EPSILON * sqrt(pp) * sqrt(qq)))
          continue;
        double angle = atan2(2 * pq, pp - qq) / 2; /* row p gets the larger part */
        turn(x + p * m, x + q * m, m, cos(angle), sin(angle));
        turn(v + p * k, v + q * k, k, cos(angle), sin(angle));
        turned = true;
      }
  }
}

bool qn_reference_svd(const double *a, double *u, double *s, double *vt, int64_t m, int64_t n) {
  int64_t k = m < n ? m : n, l = m < n ? n : m;
  double *x = malloc(((size_t)(k * l + k * k) + 1) * sizeof *x), *v = x ? x + k * l : NULL;
  if (!x)
    return false;
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = 0; j < l; j++)
      x[i * l + j] = m < n ? a[i * n + j] : a[j * n + i];
  for (int64_t i = 0; i < k * k; i++)
    v[i] = i % (k + 1) == 0;
  orthogonalise(x, v, k, l);
  for (int64_t i = 0; i < k; i++) {
    s[i] = 0;
    for (int64_t j = 0; j < l; j++)
      s[i] += x[i * l + j] * x[i * l + j];
    s[i] = sqrt(s[i]);
  }
  for (int64_t i = 0; i < k; i++) {
    int64_t most = i;
    for (int64_t j = i + 1; j < k; j++)
      most = s[j] > s[most] ? j : most;
    exchange(&s[i], &s[most]);
    for (int64_t j = 0; j < l; j++)
      exchange(&x[i * l + j], &x[most * l + j]);
    for (int64_t j = 0; j < k; j++)
      exchange(&v[i * k + j], &v[most * k + j]);
    double sign = sign_of(v + i * k, k, 1);
    for (int64_t j = 0; j < l; j++) {
      double y = s[i] == 0 ? 0 : sign * x[i * l + j] / s[i];
      *(m < n ? &vt[i * n + j] : &u[j * k + i]) = y;
    }
    for (int64_t j = 0; j < k; j++)
      *(m < n ? &u[j * k + i] : &vt[i * n + j]) = sign * v[i * k + j];
  }
  free(x);
  return true;
}
