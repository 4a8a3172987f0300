/* Operations without operands: parameters, constants, iota; and the builders of constants. A constant owns its data; one
 * whose elements are all equal is kept as a single element (a splat). */
#include "../graph_impl.h"
#include "quern/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static qn_status need_hint(qn_infer *ctx) {
  if (ctx->hint.dtype == QN_DTYPE_NONE)
    return QN_ERR(QN_INVALID, "%s: its result type is missing", ctx->name);
  ctx->out_types[0] = ctx->hint;
  return QN_OK;
}

static qn_status constant_infer(qn_infer *ctx) {
  QN_TRY(need_hint(ctx));
  const qn_attr_constant *c = ctx->attr;
  int64_t n = qn_type_elements(&ctx->hint);
  if (c->elements != n && (c->elements != 1 || n == 0))
    return QN_ERR(QN_INVALID, "constant: %lld elements, expected %lld for %s", (long long)c->elements, (long long)n,
                  qn_type_str(&ctx->hint));
  if (n > 0 && !c->data)
    return QN_ERR(QN_INVALID, "constant: no data");
  return QN_OK;
}

static bool constant_own(qn_arena *arena, void *attr, const qn_type *result) {
  qn_attr_constant *c = attr;
  size_t size = qn_dtype_size(result->dtype);
  const char *from = c->data;
  if (c->elements > 1 && memcmp(from, from + size, (size_t)(c->elements - 1) * size) == 0)
    c->elements = 1;
  c->data = qn_arena_copy(arena, from, (size_t)c->elements * size);
  return c->data != NULL;
}

static qn_status constant_eval(const qn_ref_call *call) {
  const qn_attr_constant *c = call->attr;
  size_t size = qn_dtype_size(call->out_types[0]->dtype), n = (size_t)qn_type_elements(call->out_types[0]);
  if (c->elements != 1 && n)
    memcpy(call->out[0], c->data, n * size);
  for (size_t i = 0; c->elements == 1 && i < n; i++)
    memcpy((char *)call->out[0] + i * size, c->data, size);
  return QN_OK;
}

const qn_op_def qn_op_parameter = {
    .name = "parameter",
    .doc = "An input of the graph.",
    .arity = 0,
    .kind = QN_KIND_SOURCE,
    .infer = need_hint,
    .no_grad = "it has no operands",
};

const qn_op_def qn_op_constant = {
    .name = "constant",
    .doc = "Numbers known when the graph is built: an array, or one element that stands for all.",
    .arity = 0,
    .kind = QN_KIND_SOURCE,
    .attr_size = sizeof(qn_attr_constant),
    .infer = constant_infer,
    .no_grad = "it has no operands",
    .eval = constant_eval,
    .attr_own = constant_own,
};

/* x rounded to f32 so that a second rounding, to a narrower format, cannot err: an inexact result gets an odd last bit. */
static float round_to_odd(double x) {
  float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (isfinite(f) && (double)f != x && !(bits & 1)) {
    bits = fabs((double)f) < fabs(x) ? bits + 1 : bits - 1;
    memcpy(&f, &bits, sizeof f);
  }
  return f;
}

static uint64_t saturate(double x, qn_dtype t) {
  int bits = 8 * (int)qn_dtype_size(t);
  x = isnan(x) ? 0 : nearbyint(x);
  if (qn_dtype_is_signed(t)) {
    double top = ldexp(1, bits - 1);
    return (uint64_t)(x >= top ? INT64_MAX >> (64 - bits) : x < -top ? INT64_MIN >> (64 - bits) : (int64_t)x);
  }
  double top = ldexp(1, bits);
  return x >= top ? UINT64_MAX >> (64 - bits) : x <= 0 ? 0 : (uint64_t)x;
}

/* A number rounded to the dtype (complex: the real part); `out` has 16 zeroed bytes. */
static void element_store(qn_dtype t, double x, void *out) {
  float f = (float)x;
  if (t == QN_F64 || t == QN_C128) {
    memcpy(out, &x, sizeof x);
  } else if (t == QN_F32 || t == QN_C64) {
    memcpy(out, &f, sizeof f);
  } else if (t == QN_F16 || t == QN_BF16) {
    uint16_t h = t == QN_F16 ? qn_f32_to_f16(round_to_odd(x)) : qn_f32_to_bf16(round_to_odd(x));
    memcpy(out, &h, sizeof h);
  } else if (t == QN_BOOL) {
    *(uint8_t *)out = x != 0; /* NaN is not zero */
  } else {
    uint64_t u = saturate(x, t);
    for (size_t i = 0; i < qn_dtype_size(t); i++)
      ((uint8_t *)out)[i] = (uint8_t)(u >> (8 * i));
  }
}

void qn_element_parse(qn_dtype t, const char *text, void *out) {
  if (t == QN_F32) {
    float f = strtof(text, NULL);
    memcpy(out, &f, sizeof f);
  } else {
    element_store(t, strtod(text, NULL), out);
  }
}

static qn_status iota_infer(qn_infer *ctx) {
  QN_TRY(need_hint(ctx));
  const qn_attr_axis *a = ctx->attr;
  if (ctx->hint.dtype == QN_BOOL)
    return QN_ERR(QN_INVALID, "iota: result is %s, expected numbers", qn_type_str(&ctx->hint));
  if (a->dimension < 0 || a->dimension >= ctx->hint.rank)
    return QN_ERR(QN_INVALID, "iota: dimension %lld, expected 0 to %d for %s", (long long)a->dimension,
                  (int)ctx->hint.rank - 1, qn_type_str(&ctx->hint));
  return QN_OK;
}

static qn_status iota_eval(const qn_ref_call *call) {
  const qn_attr_axis *a = call->attr;
  const qn_type *t = call->out_types[0];
  size_t size = qn_dtype_size(t->dtype);
  int64_t inner = 1, n = qn_type_elements(t);
  for (int i = (int)a->dimension + 1; i < t->rank; i++)
    inner *= t->dims[i];
  for (int64_t i = 0; i < n; i++) {
    uint8_t element[16] = {0};
    int64_t at = i / inner % t->dims[a->dimension];
    if (qn_dtype_is_int(t->dtype)) /* wraps */
      for (size_t k = 0; k < size; k++)
        element[k] = (uint8_t)((uint64_t)at >> (8 * k));
    else
      element_store(t->dtype, (double)at, element);
    memcpy((char *)call->out[0] + (size_t)i * size, element, size);
  }
  return QN_OK;
}

static const qn_sample iota_samples[] = {
    {.attr = &(const qn_attr_axis){0}, .hint = {QN_I32, 2, {3, 4}}},
    {.attr = &(const qn_attr_axis){1}, .hint = {QN_F32, 2, {3, 4}}},
    {.attr = &(const qn_attr_axis){0}, .hint = {QN_U8, 1, {300}}},
};

const qn_op_def qn_op_iota = {
    .name = "iota",
    .doc = "Counts 0, 1, 2, ... along one dimension.",
    .arity = 0,
    .kind = QN_KIND_SOURCE,
    .attr_size = sizeof(qn_attr_axis),
    .infer = iota_infer,
    .no_grad = "it has no operands",
    .eval = iota_eval,
    .samples = iota_samples,
    .sample_count = sizeof iota_samples / sizeof *iota_samples,
};

static qn_val add_constant(qn_place at, qn_graph *g, const qn_type *type, const void *data, int64_t elements) {
  if (!g) {
    (void)QN_ERR(QN_INVALID, "constant: the graph is null");
    return QN_NULL_VAL;
  }
  qn_attr_constant c = {data, elements};
  return qn_graph_add_typed(g, QN_OP_CONSTANT, NULL, 0, &c, NULL, 0, type, at);
}

qn_val qn_constant_at(qn_place at, qn_graph *g, qn_type type, const void *data) {
  bool sane = type.rank >= 0 && type.rank <= QN_MAX_RANK;
  return add_constant(at, g, &type, data, sane ? qn_type_elements(&type) : 0);
}

qn_val qn_full_at(qn_place at, qn_graph *g, qn_type type, double x) {
  uint64_t element[2] = {0, 0};
  if (type.dtype > QN_DTYPE_NONE && type.dtype < QN_DTYPE_COUNT)
    element_store(type.dtype, x, element);
  bool empty = type.rank >= 0 && type.rank <= QN_MAX_RANK && qn_type_elements(&type) == 0;
  return add_constant(at, g, &type, element, empty ? 0 : 1);
}

qn_val qn_like_at(qn_place at, qn_val v, double x) {
  if (!qn_val_ok(v))
    return QN_NULL_VAL;
  return qn_full_at(at, v.graph, qn_type_scalar(qn_val_type(v)->dtype), x);
}

qn_val qn_iota_at(qn_place at, qn_graph *g, qn_type type, int64_t dimension) {
  if (!g) {
    (void)QN_ERR(QN_INVALID, "iota: the graph is null");
    return QN_NULL_VAL;
  }
  qn_attr_axis a = {dimension};
  return qn_graph_add_typed(g, QN_OP_IOTA, NULL, 0, &a, NULL, 0, &type, at);
}
