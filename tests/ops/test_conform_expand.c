/* Expansions against references: every elementwise row, run on the host sink as kernels run it, in every dtype, on its samples and on
 * the values where arithmetic is special. Both sides must agree to the sample's tolerance; exactly where that is 0. */
#include "conform.h"

/* Bits of an element, zero-extended, and back. */
static uint64_t bits_at(const tensor *x, int64_t i) {
  uint64_t bits = 0;
  size_t size = qn_dtype_size(x->t.dtype);
  memcpy(&bits, (const char *)x->data + (size_t)i * size, size);
  return bits;
}
static void put_bits(tensor *x, int64_t i, uint64_t bits) {
  size_t size = qn_dtype_size(x->t.dtype);
  memcpy((char *)x->data + (size_t)i * size, &bits, size);
}

static bool is_narrow(qn_dtype t) { return t == QN_F16 || t == QN_BF16; }

/* One element by the row's expansion: narrow floats pass through f32, as lowerings do it. */
static uint64_t expand_one(qn_host_sink *h, qn_op op, const qn_sample *s, const tensor *in, const int64_t *at, int n,
                           qn_dtype to) {
  const qn_op_def *d = qn_op_get(op);
  qn_sink *sink = &h->base;
  qn_sval v[4], y;
  qn_host_sink_clear(h);
  for (int k = 0; k < n; k++) {
    v[k] = qn_host_sink_value(h, in[k].t.dtype, bits_at(&in[k], at[k]));
    if (is_narrow(in[k].t.dtype) && !d->native_narrow)
      v[k] = qs_convert(sink, QN_F32, v[k]);
  }
  if (op == QN_OP_CONVERT)
    y = qn_expand_convert(sink, is_narrow(to) ? QN_F32 : to, v[0]);
  else
    y = d->expand(sink, v, s->attr);
  if (sink->dtype(sink, y) != to)
    y = qs_convert(sink, to, y);
  return qn_host_sink_bits(h, y);
}

static double epsilon(qn_dtype t) {
  return t == QN_F16 ? 0x1p-10 : t == QN_BF16 ? 0x1p-7 : t == QN_F32 ? 0x1p-23 : 0x1p-52;
}
static double least(qn_dtype t) {
  return t == QN_F16 ? 0x1p-24 : t == QN_BF16 ? 0x1p-133 : t == QN_F32 ? 0x1p-149 : 0x1p-1074;
}

/* The tolerance in the result's dtype: what the sample allows in f32, scaled, and one rounding of the narrow types. */
static bool agrees(qn_dtype t, double tol, double want, double got) {
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got);
  if (want == got)
    return tol > 0 || signbit(want) == signbit(got) || !qn_dtype_is_float(t);
  if (tol == 0 || isinf(want) || isinf(got))
    return false;
  double scale = t == QN_F64 ? 0x1p-27 : 1;
  double allowed = tol * scale * fabs(want) + (is_narrow(t) ? epsilon(t) * fabs(want) : 0) + 4 * least(t);
  return fabs(want - got) <= allowed;
}

static int compare_all(qn_op op, const qn_sample *s, const qn_graph *g, const tensor *in, double tol) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  tensor want[1], got;
  results_make(g, want);
  results_make(g, &got);
  QN_EXPECT_OK(run(g, in, want));
  int n = (int)qn_graph_param_count(g), wrong = 0;
  qn_dtype t = got.t.dtype;
  for (int64_t i = 0; i < qn_type_elements(&got.t); i++) {
    int64_t at[4];
    for (int k = 0; k < n; k++)
      at[k] = in[k].t.rank == 0 ? 0 : i;
    put_bits(&got, i, expand_one(&h, op, s, in, at, n, t));
    double a = tensor_get(&want[0], i), b = tensor_get(&got, i);
    bool same = qn_dtype_is_float(t) ? agrees(t, tol, a, b) : bits_at(&want[0], i) == bits_at(&got, i);
    if (!same && wrong++ < 3)
      cr_expect(same, "%s %s -> %s: of %.17g, %.17g, %.17g the reference is %.17g, the expansion %.17g",
                qn_op_get(op)->name, qn_dtype_name(in[0].t.dtype), qn_dtype_name(t), tensor_get(&in[0], at[0]),
                n > 1 ? tensor_get(&in[1], at[1]) : 0, n > 2 ? tensor_get(&in[2], at[2]) : 0, a, b);
  }
  cr_expect(!h.failed);
  tensors_free(want, 1);
  tensor_free(&got);
  qn_host_sink_free(&h);
  return wrong;
}

/* Complex numbers have no expansion: they are made into pairs of reals before (tests/ops/test_complex.c). */
static bool is_subject(const qn_op_def *d, const qn_sample *s, qn_dtype t) {
  return d->kind == QN_KIND_ELEMENTWISE && d != qn_op_get(QN_OP_COMPLEX) && !qn_dtype_is_complex(t) &&
         !qn_dtype_is_complex(s->hint.dtype);
}

Test(conform_expand, samples) {
  uint64_t seed = 2;
  int compared = 0;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int s = 0; s < d->sample_count; s++) {
      for (int k = 0; k < DTYPES; k++) {
        qn_graph *g = NULL;
        if (!is_subject(d, &d->samples[s], all_dtypes[k]) ||
            sample_graph((qn_op)op, &d->samples[s], all_dtypes[k], false, &g) != QN_OK)
          continue;
        tensor in[4];
        params_make(g, in);
        operands_draw((qn_op)op, &d->samples[s], in, qn_graph_param_count(g), &seed);
        /* f64 to a narrow float is rounded by way of f32 in kernels, once in the oracle */
        bool twice = op == QN_OP_CONVERT && all_dtypes[k] == QN_F64;
        (void)compare_all((qn_op)op, &d->samples[s], g, in, twice ? 0x1p-24 : d->samples[s].tol);
        tensors_free(in, qn_graph_param_count(g));
        qn_graph_release(g);
        compared++;
      }
    }
  }
  cr_expect(compared > 600, "only %d comparisons", compared);
}

/* ---- special values: every combination over the operands ---- */
enum { SPECIALS = 12 };

static double special_float(qn_dtype t, int i) {
  double largest = t == QN_F16    ? 65504
                   : t == QN_BF16 ? 0x1.FEp127
                   : t == QN_F32  ? 0x1.FFFFFEp127
                                  : 0x1.FFFFFFFFFFFFFp1023;
  double normal = t == QN_F16 ? 0x1p-14 : t == QN_F64 ? 0x1p-1022 : 0x1p-126;
  const double values[SPECIALS] = {0.0, -0.0,    1,        -1,     INFINITY, -INFINITY,
                                   NAN, largest, -largest, normal, least(t), 2.5};
  return values[i];
}
static uint64_t special_int(qn_dtype t, int i) {
  int bits = qn_oracle_bits(t);
  uint64_t top = UINT64_C(1) << (bits - 1);
  const uint64_t values[SPECIALS] = {
      0, 1, UINT64_MAX, top, top - 1, 2, 3, UINT64_MAX - 1, (uint64_t)bits, (uint64_t)bits - 1, 10, top + 1};
  return values[i];
}

static void fill_specials(tensor *x, int stride) {
  qn_dtype t = x->t.dtype;
  for (int64_t i = 0; i < qn_type_elements(&x->t); i++) {
    int pick = (int)(i / stride % SPECIALS);
    if (t == QN_BOOL)
      ((uint8_t *)x->data)[i] = (uint8_t)(pick & 1);
    else if (qn_dtype_is_float(t))
      tensor_set(x, i, special_float(t, pick));
    else
      put_bits(x, i, special_int(t, pick));
  }
}

/* Functions of an order, which has no meaning at infinity: their sweeps bound them instead. */
static bool is_swept(qn_op op) { return op == QN_OP_POLYGAMMA || op == QN_OP_ZETA; }

Test(conform_expand, special_values) {
  int compared = 0;
  for (int op = 1; op < QN_OP_COUNT; op++) {
    const qn_op_def *d = qn_op_get((qn_op)op);
    for (int s = 0; s < d->sample_count; s++) {
      for (int k = 0; k < DTYPES; k++) {
        qn_sample sample = d->samples[s];
        int64_t total = 1;
        for (int j = 0; j < d->arity; j++)
          total *= SPECIALS;
        for (int j = 0; j < 4; j++) {
          sample.ranks[j] = 1;
          sample.dims[j][0] = total;
        }
        if (sample.hint.dtype != QN_DTYPE_NONE) {
          sample.hint.rank = 1;
          sample.hint.dims[0] = total;
          sample.hint.dims[1] = 0;
        }
        qn_graph *g = NULL;
        if (!is_subject(d, &sample, all_dtypes[k]) || is_swept((qn_op)op) ||
            sample_graph((qn_op)op, &sample, all_dtypes[k], false, &g) != QN_OK)
          continue;
        tensor in[4];
        params_make(g, in);
        for (int j = 0, stride = 1; j < d->arity; j++, stride *= SPECIALS)
          fill_specials(&in[j], stride);
        bool twice = op == QN_OP_CONVERT && all_dtypes[k] == QN_F64;
        (void)compare_all((qn_op)op, &sample, g, in, twice ? 0x1p-24 : sample.tol);
        tensors_free(in, qn_graph_param_count(g));
        qn_graph_release(g);
        compared++;
      }
    }
  }
  cr_expect(compared > 600, "only %d comparisons", compared);
}
