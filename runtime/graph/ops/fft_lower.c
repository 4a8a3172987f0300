/* Fourier transforms as contractions. Numbers are held as reals of [before, n, behind, part], where part tells real from imaginary. A short axis is one
 * contraction over n and part with the roots of unity; a long one is split in two factors, contracted one after the other with a turn by
 * more roots between them (Cooley and Tukey); one without a short factor becomes a convolution, which is done by two transforms of a length that is a
 * power of two (Bluestein). Roots are computed exactly enough to be rounded once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "fft.h"
#include "quern/ops.h"

enum { DENSE = 64, LONG_FACTOR = 32, DENSE_PRIME = 128 };

typedef struct plan {
  qn_graph *g;
  qn_place at;
  qn_dtype dtype; /* of the parts */
  bool inverse;   /* turns the other way; the scale is left to the end */
} plan;

static qn_val no_memory(const plan *p) { return qn_graph_fail(p->g, p->at, QN_OUT_OF_MEMORY, "fft: no memory"); }

/* cos and sin of 2 pi k / n, from an angle of the first eighth of the circle. */
static void root(int64_t k, int64_t n, double *out_cos, double *out_sin) {
  k %= n;
  int64_t eighth = 8 * k / n, rest = 8 * k % n;
  long double angle = (long double)((eighth & 1) ? n - rest : rest) / (long double)n * (acosl(-1.0L) / 4);
  double c = (double)cosl(angle), s = (double)sinl(angle);
  const double table[8][2] = {{c, s}, {s, c}, {-s, c}, {-c, s}, {-c, -s}, {-s, -c}, {s, -c}, {c, -s}};
  *out_cos = table[eighth][0];
  *out_sin = table[eighth][1];
}

/* The root that a transform in the plan's direction multiplies by. */
static void turn(const plan *p, int64_t k, int64_t n, double *out_cos, double *out_sin) {
  root(k, n, out_cos, out_sin);
  if (!p->inverse)
    *out_sin = -*out_sin;
}

static qn_val constant(const plan *p, int rank, const int64_t *dims, const double *x) {
  qn_type t = qn_type_make(p->dtype, rank, dims);
  void *data = malloc((size_t)qn_type_bytes(&t) + 8);
  if (data == NULL)
    return no_memory(p);
  qn_oracle_store_f(p->dtype, data, 0, qn_type_elements(&t), x);
  qn_val v = qn_constant_at(p->at, p->g, t, data);
  free(data);
  return v;
}

static qn_val reshape4(const plan *p, qn_val x, int64_t a, int64_t b, int64_t c, int64_t d) {
  return qn_reshape_at(p->at, x, 4, (const int64_t[]){a, b, c, d});
}
static int64_t dim(qn_val x, int axis) { return qn_val_type(x)->dims[axis]; }

/* Entries begin .. end-1 of an axis. */
static qn_val cut(const plan *p, qn_val x, int axis, int64_t begin, int64_t end) {
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK];
  memcpy(limit, qn_val_type(x)->dims, sizeof limit);
  start[axis] = begin;
  limit[axis] = end;
  return qn_slice_at(p->at, x, start, limit, NULL);
}
static qn_val join(const plan *p, qn_val re, qn_val im) {
  const qn_val both[] = {re, im};
  return qn_concatenate_at(p->at, both, 2, 3);
}

/* The contraction over n and part, with `to` results of `parts` parts: [before, behind, to, part]. `weights` multiply the entries, NULL: ones. */
static qn_val contract(const plan *p, qn_val x, int64_t length, int64_t to, int64_t parts, const double *weights) {
  int64_t from = dim(x, 3), n = dim(x, 1);
  double *w = malloc((size_t)(from * n * parts * to) * sizeof *w);
  if (w == NULL)
    return no_memory(p);
  for (int64_t j = 0; j < n; j++)
    for (int64_t k = 0; k < to; k++) {
      double c, s, scale = weights ? weights[j] : 1;
      turn(p, j * k, length, &c, &s);
      const double terms[2][2] = {{c * scale, s * scale}, {-s * scale, c * scale}};
      for (int64_t a = 0; a < from; a++)
        for (int64_t b = 0; b < parts; b++)
          w[((j * from + a) * to + k) * parts + b] = terms[a][b];
    }
  qn_val matrix = constant(p, 4, (const int64_t[]){n, from, to, parts}, w);
  free(w);
  qn_attr_dot dims = {.lhs_contract = {2, {1, 3}}, .rhs_contract = {2, {0, 1}}};
  return qn_dot_general_at(p->at, x, matrix, &dims, QN_DTYPE_NONE);
}

static qn_val dense(const plan *p, qn_val x, int64_t length, int64_t to, int64_t parts, const double *weights) {
  return qn_transpose_at(p->at, contract(p, x, length, to, parts, weights), (const int64_t[]){0, 2, 1, 3});
}

/* (re + i im) times (c + i s), constants that broadcast; a null im stands for zero. */
static void times(const plan *p, qn_val *re, qn_val *im, qn_val c, qn_val s) {
  qn_val a = *re, b = *im;
  if (!qn_val_ok(b)) {
    *re = qn_multiply_at(p->at, a, c);
    *im = qn_multiply_at(p->at, a, s);
    return;
  }
  *re = qn_subtract_at(p->at, qn_multiply_at(p->at, a, c), qn_multiply_at(p->at, b, s));
  *im = qn_add_at(p->at, qn_multiply_at(p->at, a, s), qn_multiply_at(p->at, b, c));
}

static qn_val whole(const plan *p, qn_val x);

/* ---- two factors: entry j1 * n2 + j2 of x, entry k1 + n1 * k2 of the result ---- */
static int64_t first_factor(int64_t n) {
  int64_t best = 0, least = INT64_MAX;
  for (int64_t d = 2; d <= DENSE && d < n; d++) {
    if (n % d != 0)
      continue;
    if (n / d <= DENSE && d + n / d < least) {
      least = d + n / d;
      best = d;
    }
    if (least == INT64_MAX && d <= LONG_FACTOR)
      best = d;
  }
  return best;
}

static qn_val two_factors(const plan *p, qn_val x, int64_t n1) {
  int64_t before = dim(x, 0), n = dim(x, 1), behind = dim(x, 2), parts = dim(x, 3), n2 = n / n1;
  qn_val y = contract(p, reshape4(p, x, before, n1, n2 * behind, parts), n1, n1, 2, NULL);
  y = qn_reshape_at(p->at, y, 5, (const int64_t[]){before, n2, behind, n1, 2});
  double *w = malloc((size_t)(2 * n) * sizeof *w);
  if (w == NULL)
    return no_memory(p);
  for (int64_t j = 0; j < n2; j++)
    for (int64_t k = 0; k < n1; k++)
      turn(p, j * k, n, &w[j * n1 + k], &w[n + j * n1 + k]);
  const int64_t table[] = {n2, 1, n1}, moved[] = {0, 3, 1, 2};
  qn_val c = constant(p, 3, table, w), s = constant(p, 3, table, w + n);
  free(w);
  qn_val re = reshape4(p, cut(p, y, 4, 0, 1), before, n2, behind, n1);
  qn_val im = reshape4(p, cut(p, y, 4, 1, 2), before, n2, behind, n1);
  times(p, &re, &im, c, s);
  re = reshape4(p, qn_transpose_at(p->at, re, moved), before * n1, n2, behind, 1);
  im = reshape4(p, qn_transpose_at(p->at, im, moved), before * n1, n2, behind, 1);
  y = whole(p, join(p, re, im));
  y = qn_reshape_at(p->at, y, 5, (const int64_t[]){before, n1, n2, behind, 2});
  y = qn_transpose_at(p->at, y, (const int64_t[]){0, 2, 1, 3, 4});
  return reshape4(p, y, before, n, behind, 2);
}

/* ---- convolution: j * k is (j^2 + k^2 - (k - j)^2) / 2 ---- */
/* In place, forward, n a power of two: bits reversed, then pairs, fours, eights ... */
static void host_transform(double *x, int64_t n) {
  for (int64_t i = 1, j = 0; i < n; i++) {
    int64_t bit = n / 2;
    for (; j & bit; bit /= 2)
      j ^= bit;
    j ^= bit;
    for (int k = 0; i < j && k < 2; k++) {
      double held = x[2 * i + k];
      x[2 * i + k] = x[2 * j + k];
      x[2 * j + k] = held;
    }
  }
  for (int64_t size = 2; size <= n; size *= 2)
    for (int64_t k = 0; k < size / 2; k++) {
      double c, s;
      root(k, size, &c, &s);
      for (int64_t i = k; i < n; i += size) {
        double *a = x + 2 * i, *b = x + 2 * (i + size / 2);
        double re = b[0] * c + b[1] * s, im = b[1] * c - b[0] * s;
        b[0] = a[0] - re;
        b[1] = a[1] - im;
        a[0] += re;
        a[1] += im;
      }
    }
}

/* chirp: [cos, sin] of n; filter: the transform of its conjugate, wrapped around m, over m. */
static bool make_chirp(const plan *p, int64_t n, int64_t m, qn_val chirp[2], qn_val filter[2]) {
  double *w = calloc((size_t)(2 * n + 4 * m), sizeof *w), *b = w + 2 * n, *split = b + 2 * m;
  if (w == NULL)
    return qn_val_ok(no_memory(p));
  for (int64_t j = 0; j < n; j++) {
    turn(p, j * j % (2 * n), 2 * n, &w[j], &w[n + j]);
    int64_t places[2] = {j, j ? m - j : 0};
    for (int k = 0; k < 2; k++) {
      b[2 * places[k]] = w[j];
      b[2 * places[k] + 1] = -w[n + j];
    }
  }
  host_transform(b, m);
  for (int64_t i = 0; i < m; i++) {
    split[i] = b[2 * i] / (double)m;
    split[m + i] = b[2 * i + 1] / (double)m;
  }
  for (int k = 0; k < 2; k++) {
    chirp[k] = constant(p, 3, (const int64_t[]){n, 1, 1}, w + k * n);
    filter[k] = constant(p, 3, (const int64_t[]){m, 1, 1}, split + k * m);
  }
  free(w);
  return !qn_graph_failed(p->g);
}

static qn_val convolved(const plan *p, qn_val x) {
  int64_t n = dim(x, 1), parts = dim(x, 3), m = 1;
  while (m < 2 * n - 1)
    m *= 2;
  qn_val chirp[2], filter[2];
  if (!make_chirp(p, n, m, chirp, filter))
    return QN_NULL_VAL;
  qn_val re = cut(p, x, 3, 0, 1), im = parts == 2 ? cut(p, x, 3, 1, 2) : QN_NULL_VAL;
  times(p, &re, &im, chirp[0], chirp[1]);
  const int64_t none[4] = {0}, more[4] = {0, m - n, 0, 0};
  qn_val y = qn_pad_at(p->at, join(p, re, im), qn_scalar(p->g, p->dtype, 0), none, more, NULL);
  plan there = *p, back = *p;
  there.inverse = false;
  back.inverse = true;
  y = whole(&there, y);
  re = cut(p, y, 3, 0, 1);
  im = cut(p, y, 3, 1, 2);
  times(p, &re, &im, filter[0], filter[1]);
  y = cut(p, whole(&back, join(p, re, im)), 1, 0, n);
  re = cut(p, y, 3, 0, 1);
  im = cut(p, y, 3, 1, 2);
  times(p, &re, &im, chirp[0], chirp[1]);
  return join(p, re, im);
}

static bool is_dense(int64_t n) { return n <= DENSE || (n <= DENSE_PRIME && first_factor(n) == 0); }

/* [before, n, behind, part] to [before, n, behind, 2], whatever n is. */
static qn_val whole(const plan *p, qn_val x) {
  if (!qn_val_ok(x))
    return x;
  int64_t n = dim(x, 1), n1 = first_factor(n);
  if (is_dense(n))
    return dense(p, x, n, n, 2, NULL);
  return n1 > 0 ? two_factors(p, x, n1) : convolved(p, x);
}

/* ---- the operation ---- */
/* x with `axis` of `dims` in the second place. */
static qn_val along(const plan *p, qn_val x, const qn_type *dims, int axis) {
  int64_t before = 1, behind = 1;
  for (int i = 0; i < axis; i++)
    before *= dims->dims[i];
  for (int i = axis + 1; i < dims->rank; i++)
    behind *= dims->dims[i];
  return reshape4(p, x, before, dims->dims[axis], behind, -1);
}

static qn_val real_to_half(const plan *p, qn_val x, int64_t n) {
  return is_dense(n) ? dense(p, x, n, n / 2 + 1, 2, NULL) : cut(p, whole(p, x), 1, 0, n / 2 + 1);
}

/* The other half is the conjugate, backwards; of what follows only the real part is kept. */
static qn_val half_to_real(const plan *p, qn_val x, int64_t n) {
  int64_t half = n / 2 + 1;
  if (is_dense(n)) {
    double weights[DENSE_PRIME];
    for (int64_t k = 0; k < half; k++)
      weights[k] = k == 0 || 2 * k == n ? 1 : 2;
    return dense(p, x, n, n, 1, weights);
  }
  const int64_t axis = 1;
  qn_val rest = qn_reverse_at(p->at, cut(p, x, 1, 1, n - half + 1), 1, &axis);
  rest = join(p, cut(p, rest, 3, 0, 1), qn_negate_at(p->at, cut(p, rest, 3, 1, 2)));
  const qn_val both[] = {x, rest};
  return cut(p, whole(p, qn_concatenate_at(p->at, both, 2, 1)), 3, 0, 1);
}

bool qn_fft_lower(qn_rule *r, qn_val *out) {
  const qn_attr_fft *a = r->attr;
  qn_val x = r->in[0];
  qn_type t = *qn_val_type(x); /* dimensions as they are after the axes done so far */
  bool real = a->type == QN_RFFT, half = a->type == QN_IRFFT;
  plan p = {r->g, r->node->place, real ? t.dtype : qn_dtype_part(t.dtype), a->type == QN_IFFT || half};
  int last = t.rank - 1, count = a->length.n;
  int64_t length = a->length.d[count - 1];
  qn_val y = real ? x : QN_NULL_VAL;
  if (!real) {
    qn_val re = qn_real_at(p.at, x), im = qn_imag_at(p.at, x);
    int64_t n = qn_type_elements(&t);
    y = join(&p, reshape4(&p, re, 1, 1, n, 1), reshape4(&p, im, 1, 1, n, 1));
  }
  if (qn_type_elements(&t) == 0) {
    t.dims[last] = real ? length / 2 + 1 : half ? length : t.dims[last];
    t.dtype = real ? qn_dtype_complex(p.dtype) : half ? p.dtype : t.dtype;
    out[0] = qn_full_at(p.at, p.g, t, 0);
    return true;
  }
  if (!half) {
    y = along(&p, y, &t, last);
    y = real ? real_to_half(&p, y, length) : whole(&p, y);
    t.dims[last] = real ? length / 2 + 1 : length;
  }
  for (int i = count - 2; i >= 0; i--)
    y = whole(&p, along(&p, y, &t, t.rank - count + i));
  if (half) {
    y = half_to_real(&p, along(&p, y, &t, last), length);
    t.dims[last] = length;
  }
  if (p.inverse) {
    double n = 1;
    for (int i = 0; i < count; i++)
      n *= (double)a->length.d[i];
    y = qn_multiply_at(p.at, y, qn_scalar(p.g, p.dtype, 1 / n));
  }
  qn_val part[2] = {QN_NULL_VAL, QN_NULL_VAL};
  for (int i = 0; i < (half ? 1 : 2); i++)
    part[i] = qn_reshape_at(p.at, cut(&p, y, 3, i, i + 1), t.rank, t.dims);
  out[0] = half ? part[0] : qn_complex_at(p.at, part[0], part[1]);
  return true;
}
