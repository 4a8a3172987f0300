/* fft: discrete Fourier transforms over the last one to three axes, of complex numbers, or between real numbers and the half of their transform that
 * tells the rest. The reference is the defining sum, axis by axis, in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../oracle.h"
#include "fft.h"
#include "infer.h"
#include "move_shape.h"

static const char *const type_names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};

static qn_status check_lengths(const qn_infer *c, const qn_attr_fft *a) {
  const qn_type *x = &c->operands[0];
  int n = a->length.n;
  if ((unsigned)a->type > QN_IRFFT)
    return QN_ERR(QN_INVALID, "%s: type %d is not known", c->name, (int)a->type);
  if (n < 1 || n > 3 || n > x->rank)
    return QN_ERR(QN_INVALID, "%s: %d lengths, expected 1 to 3 and at most the rank of operand 0, which is %s", c->name,
                  n, qn_type_str(x));
  for (int i = 0; i < n; ++i) {
    int64_t got = x->dims[x->rank - n + i], want = a->length.d[i];
    if (want < 1)
      return QN_ERR(QN_INVALID, "%s: length %lld, expected at least 1", c->name, (long long)want);
    if (a->type == QN_IRFFT && i == n - 1)
      want = want / 2 + 1;
    if (got != want)
      return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected size %lld at axis %d for %s of length %lld", c->name,
                    qn_type_str(x), (long long)want, x->rank - n + i, type_names[a->type], (long long)a->length.d[i]);
  }
  return QN_OK;
}

static qn_status fft_infer(qn_infer *c) {
  QN_TRY(qn_check_count(c, 1, 0));
  const qn_attr_fft *a = c->attr;
  const qn_type *x = &c->operands[0];
  QN_TRY(check_lengths(c, a));
  bool real = a->type == QN_RFFT;
  if (real ? x->dtype != QN_F32 && x->dtype != QN_F64 : !qn_dtype_is_complex(x->dtype))
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected %s for %s", c->name, qn_type_str(x),
                  real ? "f32 or f64" : "a complex number", type_names[a->type]);
  qn_type *y = &c->out_types[0];
  *y = *x;
  if (real) {
    y->dtype = qn_dtype_complex(x->dtype);
    y->dims[y->rank - 1] = x->dims[x->rank - 1] / 2 + 1;
  } else if (a->type == QN_IRFFT) {
    y->dtype = qn_dtype_part(x->dtype);
    y->dims[y->rank - 1] = a->length.d[a->length.n - 1];
  }
  return QN_OK;
}

/* ---- derivatives ---- */
/* Of the half transform: what the whole one gives back for a cotangent that is zero on the other half. */
static qn_val rfft_cotangent(const qn_attr_fft *a, qn_val ct) {
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0};
  const qn_type *t = qn_val_type(ct);
  high[t->rank - 1] = a->length.d[a->length.n - 1] - t->dims[t->rank - 1];
  qn_val padded = qn_pad(ct, qn_like(ct, 0), low, high, NULL);
  return qn_real(qn_fft(padded, a->length.n, a->length.d));
}

/* Of its inverse: entries that stand for two count twice; conjugated, as JAX has it. */
static qn_val irfft_cotangent(const qn_attr_fft *a, qn_val ct) {
  qn_val y = qn_rfft(ct, a->length.n, a->length.d);
  if (!qn_val_ok(y))
    return y;
  const qn_type *t = qn_val_type(y);
  qn_dtype part = qn_dtype_part(t->dtype);
  int64_t n = a->length.d[a->length.n - 1], half = t->dims[t->rank - 1];
  double scale = 1;
  for (int i = 0; i < a->length.n; ++i)
    scale /= (double)a->length.d[i];
  double *weights = QN_NEW(qn_graph_arena(y.graph), double, half);
  void *data = QN_NEW(qn_graph_arena(y.graph), double, half);
  if (weights == NULL || data == NULL)
    return qn_graph_fail(y.graph, QN_HERE, QN_OUT_OF_MEMORY, "fft: no memory");
  for (int64_t k = 0; k < half; ++k)
    weights[k] = k == 0 || 2 * k == n ? scale : 2 * scale;
  qn_oracle_store_f(part, data, 0, half, weights);
  qn_val w = qn_constant(y.graph, qn_type_make(part, 1, &half), data);
  return qn_complex_of(qn_mul(qn_real(y), w), qn_neg(qn_mul(qn_imag(y), w)));
}

static void fft_vjp(qn_rule *r, qn_val *out) {
  const qn_attr_fft *a = r->attr;
  if (!qn_val_ok(r->given[0]))
    return;
  out[0] = a->type == QN_RFFT    ? rfft_cotangent(a, r->given[0])
           : a->type == QN_IRFFT ? irfft_cotangent(a, r->given[0])
                                 : qn_fft_at(QN_HERE, r->given[0], a->type, a->length.n, a->length.d);
}

static void fft_batch(qn_batch *b, qn_val *out) {
  const qn_attr_fft *a = b->attr;
  out[0] = qn_fft_at(b->node->place, b->in[0], a->type, a->length.n, a->length.d);
}

/* ---- reference ---- */
/* Complex numbers as pairs of double, row-major in `t`'s dimensions. */
typedef struct field {
  qn_type t;
  double *at;
} field;

static qn_status transform_axis(field *x, int axis, bool inverse) {
  int64_t n = x->t.dims[axis], inner = 1, outer = 1;
  for (int i = 0; i < axis; ++i)
    outer *= x->t.dims[i];
  for (int i = axis + 1; i < x->t.rank; ++i)
    inner *= x->t.dims[i];
  double *roots = malloc((size_t)n * 2 * sizeof *roots), *row = malloc((size_t)n * 2 * sizeof *row);
  if (roots == NULL || row == NULL) {
    free(roots);
    free(row);
    return QN_ERR(QN_OUT_OF_MEMORY, "fft: no memory");
  }
  for (int64_t k = 0; k < n; ++k) {
    double angle = (inverse ? 2 : -2) * acos(-1.0) * (double)k / (double)n;
    roots[2 * k] = cos(angle);
    roots[2 * k + 1] = sin(angle);
  }
  for (int64_t o = 0; o < outer * inner; ++o) {
    double *first = x->at + 2 * (o / inner * n * inner + o % inner);
    for (int64_t k = 0; k < n; ++k) {
      double re = 0, im = 0;
      for (int64_t j = 0, p = 0; j < n; ++j, p = (p + k) % n) {
        const double *v = first + 2 * j * inner, *w = roots + 2 * p;
        re += v[0] * w[0] - v[1] * w[1];
        im += v[0] * w[1] + v[1] * w[0];
      }
      row[2 * k] = inverse ? re / (double)n : re;
      row[2 * k + 1] = inverse ? im / (double)n : im;
    }
    for (int64_t k = 0; k < n; ++k)
      memcpy(first + 2 * k * inner, row + 2 * k, 2 * sizeof *row);
  }
  free(roots);
  free(row);
  return QN_OK;
}

/* The last axis cut, or made up from its half: entry n-k is the conjugate of entry k. */
static qn_status resize_last(field *x, int64_t n) {
  int last = x->t.rank - 1;
  int64_t from = x->t.dims[last], rows = from ? qn_type_elements(&x->t) / from : 0;
  double *made = malloc((size_t)(rows * n * 2 + 1) * sizeof *made);
  if (made == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "fft: no memory");
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t k = 0; k < n; ++k) {
      bool mirrored = k >= from;
      const double *v = x->at + 2 * (i * from + (mirrored ? n - k : k));
      made[2 * (i * n + k)] = v[0];
      made[2 * (i * n + k) + 1] = mirrored ? -v[1] : v[1];
    }
  free(x->at);
  x->at = made;
  x->t.dims[last] = n;
  return QN_OK;
}

static qn_status transform(field *x, const qn_attr_fft *a) {
  int n = a->length.n, last = x->t.rank - 1;
  bool inverse = a->type == QN_IFFT || a->type == QN_IRFFT;
  for (int i = 0; i < n - 1; ++i)
    QN_TRY(transform_axis(x, x->t.rank - n + i, inverse));
  if (a->type == QN_IRFFT)
    QN_TRY(resize_last(x, a->length.d[n - 1]));
  QN_TRY(transform_axis(x, last, inverse));
  if (a->type == QN_RFFT)
    QN_TRY(resize_last(x, a->length.d[n - 1] / 2 + 1));
  return QN_OK;
}

static qn_status fft_eval(const qn_ref_call *c) {
  const qn_type *t = c->in_types[0], *to = c->out_types[0];
  int64_t count = qn_type_elements(t);
  if (count == 0)
    return QN_OK;
  bool from_real = !qn_dtype_is_complex(t->dtype), to_real = !qn_dtype_is_complex(to->dtype);
  qn_dtype part = from_real ? t->dtype : qn_dtype_part(t->dtype);
  field x = {*t, calloc((size_t)count * 2, sizeof(double))};
  if (x.at == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "fft: no memory");
  qn_status st = QN_OK;
  if (!from_real)
    qn_oracle_load_f(part, c->in[0], 0, 2 * count, x.at);
  for (int64_t i = 0; from_real && i < count; ++i)
    qn_oracle_load_f(part, c->in[0], i, 1, x.at + 2 * i);
  QN_TRY_GOTO(st, transform(&x, c->attr), done);
  count = qn_type_elements(to);
  if (!to_real)
    qn_oracle_store_f(part, c->out[0], 0, 2 * count, x.at);
  for (int64_t i = 0; to_real && i < count; ++i)
    qn_oracle_store_f(part, c->out[0], i, 1, x.at + 2 * i);
done:
  free(x.at);
  return st;
}

static const qn_attr_fft forward = {QN_FFT, {1, {6}}}, plane = {QN_FFT, {2, {3, 4}}}, back = {QN_IFFT, {1, {5}}},
                         real = {QN_RFFT, {2, {3, 6}}}, odd = {QN_RFFT, {1, {7}}}, real_back = {QN_IRFFT, {1, {8}}};
static const qn_sample fft_samples[] = {
    {.ranks = {2}, .dims = {{2, 6}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &forward},
    {.ranks = {2}, .dims = {{3, 4}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &plane},
    {.ranks = {1}, .dims = {{5}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &back},
    {.ranks = {3}, .dims = {{2, 3, 6}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &real},
    {.ranks = {1}, .dims = {{7}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &odd},
    {.ranks = {2}, .dims = {{2, 5}}, .lo = -2, .hi = 2, .tol = 1e-6, .attr = &real_back},
};

const qn_op_def qn_op_fft = {
    .name = "fft",
    .doc =
        "Discrete Fourier transform over the last one to three axes: FFT, IFFT, and RFFT, IRFFT between real numbers "
        "and the first half of their transform.",
    .arity = 1,
    .kind = QN_KIND_CONTRACT,
    .dtypes = QN_D_FLOAT | QN_D_COMPLEX,
    .attr_size = sizeof(qn_attr_fft),
    .infer = fft_infer,
    .linear = true,
    .vjp = fft_vjp,
    .batch = fft_batch,
    .lower = qn_fft_lower,
    .eval = fft_eval,
    .samples = fft_samples,
    .sample_count = sizeof fft_samples / sizeof *fft_samples,
};

qn_val qn_fft_at(qn_place at, qn_val x, qn_fft_type type, int count, const int64_t *lengths) {
  qn_graph *g = qn_graph_common("fft", &x, 1, at);
  if (g == NULL || qn_graph_failed(g))
    return QN_NULL_VAL;
  if (count < 1 || count > 3)
    return qn_graph_fail(g, at, QN_INVALID, "fft: %d lengths, expected 1 to 3", count);
  qn_attr_fft attr = {type, qn_dims_of(count, lengths)};
  return qn_graph_add(g, QN_OP_FFT, &x, 1, &attr, NULL, 0, at);
}
