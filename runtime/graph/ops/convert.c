/* Changes of dtype: by value (convert), by bits (bitcast_convert), of precision (reduce_precision). */
#include <math.h>
#include <string.h>

#include "../oracle.h"
#include "ref_special.h"
#include "rows.h"

/* ---- convert ---- */
static qn_status convert_infer(qn_infer *c) {
  QN_TRY(qn_infer_same(c));
  if (qn_dtype_mask(c->hint.dtype) == 0)
    return QN_ERR(QN_INVALID, "%s: to no dtype, expected one", c->name);
  c->out_types[0].dtype = c->hint.dtype;
  return QN_OK;
}

static void convert_vjp(qn_rule *r, qn_val *out) {
  qn_dtype t = qn_val_type(r->in[0])->dtype;
  if (qn_val_ok(r->given[0]) && (qn_dtype_mask(t) & (QN_D_FLOAT | QN_D_COMPLEX)))
    out[0] = qn_convert(r->given[0], t);
}

static void convert_jvp(qn_rule *r, qn_val *out) {
  qn_dtype t = qn_val_type(r->out[0])->dtype;
  if (qn_val_ok(r->given[0]) && (qn_dtype_mask(t) & (QN_D_FLOAT | QN_D_COMPLEX)))
    out[0] = qn_convert(r->given[0], t);
}

/* Floats to integers saturate, NaN becomes 0. The bounds are powers of two, so they are exact in double. */
static int64_t saturate_i(double x, int bits) {
  double bound = ldexp(1, bits - 1);
  if (isnan(x))
    return 0;
  if (x >= bound)
    return (int64_t)(UINT64_MAX >> (65 - bits));
  return x <= -bound ? -(int64_t)(UINT64_MAX >> (65 - bits)) - 1 : (int64_t)x;
}
static uint64_t saturate_u(double x, int bits) {
  if (!(x > 0))
    return 0;
  return x >= ldexp(1, bits) ? UINT64_MAX >> (64 - bits) : (uint64_t)x;
}

/* An integer to a float rounds once: 64-bit ones don't fit a double, so the bits that would be lost are kept as a sticky last bit
 * of one that still rounds right to f32 and narrower; to f64 C's own conversion rounds once. */
static double exact_enough(uint64_t magnitude, qn_dtype to) {
  if (to == QN_F64 || magnitude >> 53 == 0)
    return (double)magnitude;
  return (double)((magnitude & ~UINT64_C(0x7ff)) | ((magnitude & 0x7ff) != 0 ? UINT64_C(0x800) : 0));
}

static void convert_one(const qn_ref_call *c, qn_dtype from, qn_dtype to, int64_t in, int64_t out) {
  double f = 0;
  uint64_t u = 0;
  bool from_float = qn_dtype_is_float(from);
  if (from_float) {
    qn_oracle_load_f(from, c->in[0], in, 1, &f);
  } else if (qn_dtype_is_signed(from)) {
    int64_t n;
    qn_oracle_load_i(from, c->in[0], in, 1, &n);
    u = (uint64_t)n;
    f = n < 0 ? -exact_enough(0 - u, to) : exact_enough(u, to);
  } else {
    qn_oracle_load_u(from, c->in[0], in, 1, &u);
    f = exact_enough(u, to);
  }
  if (qn_dtype_is_float(to)) {
    qn_oracle_store_f(to, c->out[0], out, 1, &f);
  } else if (to == QN_BOOL) {
    ((uint8_t *)c->out[0])[out] = from_float ? f != 0 : u != 0;
  } else if (qn_dtype_is_signed(to)) {
    int64_t n = from_float ? saturate_i(f, qn_oracle_bits(to)) : (int64_t)u;
    qn_oracle_store_i(to, c->out[0], out, 1, &n);
  } else {
    u = from_float ? saturate_u(f, qn_oracle_bits(to)) : u;
    qn_oracle_store_u(to, c->out[0], out, 1, &u);
  }
}

/* A complex number loses its imaginary part on the way to a real dtype, and gets a zero one on the way from it. */
static qn_status convert_complex(const qn_ref_call *c) {
  qn_dtype from = c->in_types[0]->dtype, to = c->out_types[0]->dtype, part = qn_dtype_part(from);
  int64_t n = qn_type_elements(c->out_types[0]);
  if (!qn_dtype_is_complex(from)) {
    part = qn_dtype_part(to);
    for (int64_t i = 0; i < n; i++) {
      double zero = 0;
      convert_one(c, from, part, i, 2 * i);
      qn_oracle_store_f(part, c->out[0], 2 * i + 1, 1, &zero);
    }
    return QN_OK;
  }
  bool both = qn_dtype_is_complex(to);
  for (int64_t i = 0; i < (both ? 2 * n : n); i++)
    convert_one(c, part, both ? qn_dtype_part(to) : to, both ? i : 2 * i, i);
  return QN_OK;
}

static qn_status convert_eval(const qn_ref_call *c) {
  if (qn_dtype_is_complex(c->in_types[0]->dtype) || qn_dtype_is_complex(c->out_types[0]->dtype))
    return convert_complex(c);
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++)
    convert_one(c, c->in_types[0]->dtype, c->out_types[0]->dtype, i, i);
  return QN_OK;
}

#define CONVERT_SAMPLE(to)                                                                                             \
  {                                                                                                                    \
    .ranks = {2}, .dims = {{5, 7}}, .lo = -300, .hi = 300, .hint = {.dtype = (to), .rank = 2, .dims = {5, 7} }         \
  }
static const qn_sample convert_samples[] = {
    CONVERT_SAMPLE(QN_BOOL), CONVERT_SAMPLE(QN_I8),  CONVERT_SAMPLE(QN_I16),  CONVERT_SAMPLE(QN_I32),
    CONVERT_SAMPLE(QN_I64),  CONVERT_SAMPLE(QN_U8),  CONVERT_SAMPLE(QN_U16),  CONVERT_SAMPLE(QN_U32),
    CONVERT_SAMPLE(QN_U64),  CONVERT_SAMPLE(QN_F16), CONVERT_SAMPLE(QN_BF16), CONVERT_SAMPLE(QN_F32),
    CONVERT_SAMPLE(QN_F64),  CONVERT_SAMPLE(QN_C64), CONVERT_SAMPLE(QN_C128),
};

/* No `expand`: the dtype to convert to is the result's, which lowerings know (qn_expand_convert). */
const qn_op_def qn_op_convert = {
    .name = "convert",
    .doc = "Elements as another dtype: floats round to nearest even, to integers they truncate and saturate, NaN to "
           "0; complex numbers lose their imaginary parts, or get zero ones.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_ANY,
    .infer = convert_infer,
    .batch = qn_batch_elementwise,
    .vjp = convert_vjp,
    .jvp = convert_jvp,
    .eval = convert_eval,
    .samples = convert_samples,
    .sample_count = sizeof convert_samples / sizeof *convert_samples,
};

/* ---- bitcast_convert ---- */
/* A wider dtype to a narrower one appends an axis of their ratio; the other way the last axis, of just that size, goes. */
static qn_status bitcast_infer(qn_infer *c) {
  QN_TRY(qn_infer_count(c, 1));
  const qn_type *x = &c->operands[0];
  qn_dtype to = c->hint.dtype;
  QN_TRY(qn_infer_dtype(c, 0, QN_D_REAL));
  if ((qn_dtype_mask(to) & QN_D_REAL) == 0)
    return QN_ERR(QN_INVALID, "%s: to %s, expected an integer or float", c->name,
                  to == QN_DTYPE_NONE ? "no dtype" : qn_dtype_name(to));
  int64_t from_size = (int64_t)qn_dtype_size(x->dtype), to_size = (int64_t)qn_dtype_size(to);
  qn_type *out = &c->out_types[0];
  *out = *x;
  out->dtype = to;
  if (from_size > to_size) {
    if (x->rank == QN_MAX_RANK)
      return QN_ERR(QN_INVALID, "%s: operand 0 is %s, its rank cannot grow", c->name, qn_type_str(x));
    out->dims[out->rank++] = from_size / to_size;
  } else if (from_size < to_size) {
    if (x->rank == 0 || x->dims[x->rank - 1] != to_size / from_size)
      return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected a last axis of %lld to make %s", c->name, qn_type_str(x),
                    (long long)(to_size / from_size), qn_dtype_name(to));
    out->dims[--out->rank] = 0;
  }
  return QN_OK;
}

static void bitcast_batch(qn_batch *b, qn_val *out) {
  qn_type hint = {.dtype = qn_graph_type(b->from, b->node->first_result)->dtype};
  out[0] = qn_graph_add_typed(b->g, QN_OP_BITCAST_CONVERT, b->in, 1, NULL, NULL, 0, &hint, b->node->place);
  b->out_mapped[0] = b->mapped[0];
}

static qn_status bitcast_eval(const qn_ref_call *c) {
  int64_t bytes = qn_type_bytes(c->out_types[0]);
  if (bytes > 0)
    memcpy(c->out[0], c->in[0], (size_t)bytes);
  return QN_OK;
}

static const qn_sample bitcast_samples[] = {
    {.ranks = {2}, .dims = {{5, 4}}, .lo = -9, .hi = 9, .hint = {.dtype = QN_U32}},
    {.ranks = {2}, .dims = {{5, 2}}, .lo = -9, .hi = 9, .hint = {.dtype = QN_U16}},
};

const qn_op_def qn_op_bitcast_convert = {
    .name = "bitcast_convert",
    .doc = "The same bits read as another dtype; where widths differ the last axis is made or consumed.",
    .arity = 1,
    .kind = QN_KIND_MOVE,
    .dtypes = QN_D_REAL,
    .infer = bitcast_infer,
    .no_grad = QN_NO_GRAD_BITS,
    .batch = bitcast_batch,
    .eval = bitcast_eval,
    .samples = bitcast_samples,
    .sample_count = sizeof bitcast_samples / sizeof *bitcast_samples,
};

/* ---- reduce_precision ---- */
static qn_status precision_infer(qn_infer *c) {
  const qn_attr_precision *a = c->attr;
  QN_TRY(qn_infer_same(c));
  if (a->exponent_bits < 1 || a->exponent_bits > 11 || a->mantissa_bits < 0 || a->mantissa_bits > 52)
    return QN_ERR(QN_INVALID, "%s: %d exponent and %d mantissa bits, expected 1 to 11 and 0 to 52", c->name,
                  a->exponent_bits, a->mantissa_bits);
  return QN_OK;
}

static qn_val rounded(const qn_rule *r, qn_val v) {
  const qn_attr_precision *a = r->attr;
  return qn_val_ok(v) ? qn_reduce_precision(v, a->exponent_bits, a->mantissa_bits) : v;
}
static void precision_linear(qn_rule *r, qn_val *out) { out[0] = rounded(r, r->given[0]); }

static qn_sval precision_expand(qn_sink *s, const qn_sval *in, const void *attr) {
  const qn_attr_precision *a = attr;
  qn_dtype t = s->dtype(s, in[0]);
  if (t != QN_F16 && t != QN_BF16)
    return qn_expand_reduce_precision(s, in[0], a->exponent_bits, a->mantissa_bits);
  /* Computed in f32; a range no smaller than f16's own must not flush its subnormal numbers. */
  int exponent = t == QN_F16 && a->exponent_bits >= 5 ? 8 : a->exponent_bits;
  return qs_convert(s, t, qn_expand_reduce_precision(s, qs_convert(s, QN_F32, in[0]), exponent, a->mantissa_bits));
}

/* Widths of a float dtype's own exponent and mantissa. */
static qn_attr_precision precision_of(qn_dtype t) {
  if (t == QN_F16)
    return (qn_attr_precision){5, 10};
  if (t == QN_BF16)
    return (qn_attr_precision){8, 7};
  return t == QN_F32 ? (qn_attr_precision){8, 23} : (qn_attr_precision){11, 52};
}

static qn_status precision_eval(const qn_ref_call *c) {
  const qn_attr_precision *a = c->attr;
  qn_dtype t = c->in_types[0]->dtype;
  qn_attr_precision own = precision_of(t);
  int mantissa = a->mantissa_bits < own.mantissa_bits ? a->mantissa_bits : own.mantissa_bits;
  int least = t == QN_F64 ? -1022 : -126; /* narrow floats are computed in f32 */
  for (int64_t i = 0; i < qn_type_elements(c->out_types[0]); i++) {
    double x;
    qn_oracle_load_f(t, c->in[0], i, 1, &x);
    x = qn_ref_reduce_precision(x, a->exponent_bits, mantissa, least, own.exponent_bits);
    qn_oracle_store_f(t, c->out[0], i, 1, &x);
  }
  return QN_OK;
}

static const qn_attr_precision half = {5, 10}, brain = {8, 7}, tiny = {4, 3};
static const qn_sample precision_samples[] = {
    {.ranks = {2}, .dims = {{5, 7}}, .lo = -9, .hi = 9, .attr = &half},
    {.ranks = {2}, .dims = {{5, 7}}, .lo = -9, .hi = 9, .attr = &brain},
    {.ranks = {2}, .dims = {{5, 7}}, .lo = -900, .hi = 900, .attr = &tiny},
};

const qn_op_def qn_op_reduce_precision = {
    .name = "reduce_precision",
    .doc = "Each element rounded to a float of fewer exponent and mantissa bits, kept in its dtype.",
    .arity = 1,
    .kind = QN_KIND_ELEMENTWISE,
    .dtypes = QN_D_FLOAT,
    .attr_size = sizeof(qn_attr_precision),
    .infer = precision_infer,
    .batch = qn_batch_elementwise,
    .vjp = precision_linear,
    .jvp = precision_linear,
    .expand = precision_expand,
    .native_narrow = true,
    .eval = precision_eval,
    .samples = precision_samples,
    .sample_count = sizeof precision_samples / sizeof *precision_samples,
};
