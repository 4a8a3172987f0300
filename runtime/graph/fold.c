/* Constant folding. Elements are computed by the rows' expansions on the host sink: the scalar operations that every device
 * runs, so that a folded value has the bits that the device would have made. Moves are done by the rows' references, which
 * only copy. Reductions and contractions of constants are left alone: their order belongs to the device's schedule. */
#include "rewrite.h"

#include "quern/ops.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 8 };

typedef struct operand {
  const qn_type *type;
  const qn_attr_constant *constant;
} operand;

static uint64_t load(const operand *o, int64_t i) {
  size_t size = qn_dtype_size(o->type->dtype);
  const uint8_t *p = (const uint8_t *)o->constant->data + (o->constant->elements == 1 ? 0 : (size_t)i) * size;
  uint64_t bits = 0;
  for (size_t k = 0; k < size; k++)
    bits |= (uint64_t)p[k] << (8 * k);
  return bits;
}

static void put(void *out, qn_dtype t, int64_t i, uint64_t bits) {
  size_t size = qn_dtype_size(t);
  for (size_t k = 0; k < size; k++)
    ((uint8_t *)out)[(size_t)i * size + k] = (uint8_t)(bits >> (8 * k));
}

static bool is_narrow(qn_dtype t) { return t == QN_F16 || t == QN_BF16; }

static bool fold_element(qn_host_sink *h, const qn_node *n, const operand *in, qn_dtype to, int64_t i, uint64_t *out) {
  const qn_op_def *row = qn_op_get(n->op);
  qn_sink *s = &h->base;
  qn_sval v[MOST_OPERANDS], r;
  qn_host_sink_clear(h);
  for (int k = 0; k < n->operand_count; k++) {
    v[k] = qn_host_sink_value(h, in[k].type->dtype, load(&in[k], i));
    if (is_narrow(in[k].type->dtype) && !row->native_narrow)
      v[k] = qs_convert(s, QN_F32, v[k]);
  }
  if (n->op == QN_OP_CONVERT)
    r = qn_expand_convert(s, is_narrow(to) ? QN_F32 : to, v[0]);
  else
    r = row->expand(s, v, n->attr);
  if (h->failed)
    return false;
  if (s->dtype(s, r) != to)
    r = qs_convert(s, to, r);
  *out = qn_host_sink_bits(h, r);
  return !h->failed;
}

static bool fold_elements(const qn_node *n, const operand *in, qn_dtype to, void *out, int64_t count) {
  qn_host_sink h;
  qn_host_sink_init(&h);
  bool ok = true;
  for (int64_t i = 0; ok && i < count; i++) {
    uint64_t bits = 0;
    ok = fold_element(&h, n, in, to, i, &bits);
    put(out, to, i, bits);
  }
  qn_host_sink_free(&h);
  return ok;
}

/* By the row's reference, which wants whole arrays. */
static bool fold_move(const qn_graph *g, const qn_node *n, const operand *in, const qn_type *to, void *out) {
  const void *data[MOST_OPERANDS] = {NULL};
  const qn_type *types[MOST_OPERANDS] = {NULL};
  void *whole[MOST_OPERANDS] = {NULL};
  bool ok = true;
  for (int k = 0; ok && k < n->operand_count; k++) {
    int64_t elements = qn_type_elements(in[k].type);
    size_t size = qn_dtype_size(in[k].type->dtype);
    types[k] = in[k].type;
    data[k] = in[k].constant->data;
    if (in[k].constant->elements != 1 || elements == 1)
      continue;
    data[k] = whole[k] = malloc((size_t)elements * size + 1);
    ok = data[k] != NULL;
    for (int64_t i = 0; ok && i < elements; i++)
      memcpy((char *)whole[k] + (size_t)i * size, in[k].constant->data, size);
  }
  qn_ref_call call = {.graph = g,
                      .node = n,
                      .attr = n->attr,
                      .in_count = n->operand_count,
                      .out_count = 1,
                      .in_types = types,
                      .out_types = &to,
                      .in = data,
                      .out = &out};
  ok = ok && qn_op_get(n->op)->eval(&call) == QN_OK;
  for (int k = 0; k < n->operand_count; k++)
    free(whole[k]);
  return ok;
}

static bool fold_into(const qn_graph *g, const qn_node *n, const operand *in, const qn_type *to, bool by_elements,
                      void *out, int64_t count) {
  return by_elements ? fold_elements(n, in, to->dtype, out, count) : fold_move(g, n, in, to, out);
}

static bool known_element_op(const qn_node *n, const operand *in, const qn_type *to) {
  if (qn_dtype_is_complex(to->dtype) || n->operand_count < 1)
    return false;
  for (int k = 0; k < n->operand_count; k++)
    if (qn_dtype_is_complex(in[k].type->dtype))
      return false;
  return n->op == QN_OP_CONVERT || qn_op_get(n->op)->expand;
}

qn_val qn_fold(qn_val v, int64_t *budget) {
  qn_graph *g = v.graph;
  const qn_node *n = qn_graph_def(g, v.id);
  const qn_op_def *row = qn_op_get(n->op);
  const qn_type *to = qn_val_type(v);
  operand in[MOST_OPERANDS];
  if (n->op == QN_OP_CONSTANT || n->op == QN_OP_PARAMETER || n->result_count != 1)
    return QN_NULL_VAL;
  int64_t elements = qn_type_elements(to);
  if (elements == 0)
    return qn_full_at(n->place, g, *to, 0);
  if (n->operand_count < 1 || n->operand_count > MOST_OPERANDS || n->region_count)
    return QN_NULL_VAL;
  bool splat = true;
  for (int k = 0; k < n->operand_count; k++) {
    const qn_node *def = qn_graph_def(g, n->operands[k]);
    if (def->op != QN_OP_CONSTANT)
      return QN_NULL_VAL;
    in[k] = (operand){qn_graph_type(g, n->operands[k]), def->attr};
    splat = splat && in[k].constant->elements == 1;
  }
  bool by_elements = n->op != QN_OP_BITCAST_CONVERT && row->kind == QN_KIND_ELEMENTWISE && known_element_op(n, in, to);
  bool cast = n->op == QN_OP_BITCAST_CONVERT && row->eval;
  bool moves = cast || (row->kind == QN_KIND_MOVE && row->eval);
  if (!by_elements && !moves)
    return QN_NULL_VAL;
  /* A move of one splat is a splat of the same element; broadcasts of arrays cost memory and save nothing. */
  if (moves && splat && n->operand_count == 1 && qn_dtype_size(in[0].type->dtype) == qn_dtype_size(to->dtype)) {
    qn_attr_constant c = {in[0].constant->data, 1};
    return qn_graph_add_typed(g, QN_OP_CONSTANT, NULL, 0, &c, NULL, 0, to, n->place);
  }
  bool one = by_elements && splat;
  int64_t bytes = one ? (int64_t)qn_dtype_size(to->dtype) : qn_type_bytes(to);
  if (!one && (bytes > *budget || n->op == QN_OP_BROADCAST_IN_DIM))
    return QN_NULL_VAL;
  void *data = malloc((size_t)bytes);
  qn_val out = QN_NULL_VAL;
  if (data && fold_into(g, n, in, to, by_elements, data, one ? 1 : elements)) {
    qn_attr_constant c = {data, one ? 1 : elements};
    out = qn_graph_add_typed(g, QN_OP_CONSTANT, NULL, 0, &c, NULL, 0, to, n->place);
    if (!one)
      *budget -= bytes;
  }
  free(data);
  return out;
}
