/* Statements that are read as others. Operations whose shape is an operand (dynamic_reshape and its kin) become the static ones: the operand has
 * to be known in the text, from constants. map becomes its body, applied to whole arrays. */
#include "quern/ops.h"
#include "text_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 64 };

/* ---- operands that are known ---- */
typedef struct known {
  qn_graph *graph;
  uint32_t from[MOST_STEPS];
  qn_val to[MOST_STEPS];
  int count;
} known;

/* Copies what `v` is computed from; false if a parameter is among it, or too much. */
static bool copy_known(known *k, qn_val v, int depth, qn_val *out) {
  for (int i = 0; i < k->count; i++)
    if (k->from[i] == v.id) {
      *out = k->to[i];
      return true;
    }
  const qn_node *n = qn_graph_def(v.graph, v.id);
  qn_val operands[MOST_STEPS];
  if (n->op == QN_OP_PARAMETER || n->operand_count > MOST_STEPS || n->result_count != 1 || depth > MOST_STEPS)
    return false;
  for (int i = 0; i < n->operand_count; i++)
    if (!copy_known(k, (qn_val){v.graph, n->operands[i]}, depth + 1, &operands[i]))
      return false;
  if (k->count == MOST_STEPS)
    return false;
  *out = qn_graph_copy_node(k->graph, v.graph, n, operands);
  k->from[k->count] = v.id;
  k->to[k->count++] = *out;
  return qn_val_ok(*out);
}

static bool known_ints(qn_parser *p, const qn_stmt *s, size_t operand, int64_t **out, size_t *out_count) {
  qn_val v = s->operands[operand];
  const qn_type *t = qn_val_type(v);
  int64_t n = qn_type_elements(t);
  if (t->rank != 1 || !qn_dtype_is_int(t->dtype) || n > QN_MAX_RANK)
    return qn_parse_fail_at(p, s->at, "%s: operand %zu is %s, expected a short list of integers", s->name, operand,
                            qn_type_str(t));
  known k = {0};
  qn_val y = QN_NULL_VAL;
  uint64_t raw[QN_MAX_RANK] = {0};
  void *data = raw;
  bool ok = qn_graph_create("known", &k.graph) == QN_OK && copy_known(&k, v, 0, &y);
  ok = k.graph && (qn_graph_seal(k.graph, &y, ok ? 1 : 0) == QN_OK) && ok;
  ok = ok && qn_graph_eval_ref(k.graph, NULL, &data) == QN_OK;
  qn_graph_release(k.graph);
  if (!ok)
    return qn_parse_fail_at(p, s->at, "%s: operand %zu is not constant, and dynamic shapes are not supported", s->name,
                            operand);
  if (!(*out = QN_NEW(&p->arena, int64_t, n + 1)))
    return qn_parse_no_memory(p);
  size_t size = qn_dtype_size(t->dtype);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + (size_t)i * size, size);
    uint64_t sign = qn_dtype_is_signed(t->dtype) ? UINT64_C(1) << (8 * size - 1) : 0;
    (*out)[i] = (int64_t)((bits ^ sign) - sign);
  }
  *out_count = (size_t)n;
  return true;
}

/* ---- dynamic forms ---- */
typedef struct dynamic_form {
  const char *name;
  qn_op op;
  int kept;               /* operands that stay; the others are lists of integers */
  const char *becomes[3]; /* attributes of the static operation; "" where the result's type says it */
} dynamic_form;

static const dynamic_form dynamic_forms[] = {
    {"stablehlo.dynamic_reshape", QN_OP_RESHAPE, 1, {""}},
    {"stablehlo.dynamic_broadcast_in_dim", QN_OP_BROADCAST_IN_DIM, 1, {""}},
    {"stablehlo.dynamic_iota", QN_OP_IOTA, 0, {""}},
    {"stablehlo.dynamic_pad", QN_OP_PAD, 2, {"edge_padding_low", "edge_padding_high", "interior_padding"}},
    {"stablehlo.real_dynamic_slice", QN_OP_SLICE, 1, {"start_indices", "limit_indices", "strides"}},
    {"stablehlo.dynamic_gather", QN_OP_GATHER, 2, {"slice_sizes"}},
};

static bool read_statement(qn_parser *p, qn_stmt *s, bool generic) {
  return generic ? qn_parse_generic(p, s) : qn_parse_pretty(p, s);
}

/* The list that stands for the result's shape says what its type says. */
static bool check_shape(qn_parser *p, const qn_stmt *s, const int64_t *dims, size_t count) {
  const qn_type *t = &s->result_types[0];
  bool same = count == (size_t)t->rank;
  for (size_t i = 0; same && i < count; i++)
    same = dims[i] == t->dims[i];
  return same ||
         qn_parse_fail_at(p, s->at, "%s: the shape operand differs from the result, %s", s->name, qn_type_str(t));
}

static void drop_attr(qn_stmt *s, const char *name) {
  for (qn_attr **a = &s->attrs; *a; a = &(*a)->next)
    if (strcmp((*a)->name, name) == 0) {
      *a = (*a)->next;
      return;
    }
}

static bool read_dynamic(qn_parser *p, qn_stmt *s, const dynamic_form *f, bool generic) {
  if (!read_statement(p, s, generic))
    return false;
  size_t lists = 0;
  while (lists < 3 && f->becomes[lists])
    lists++;
  if (s->operand_count != (size_t)f->kept + lists || s->operand_type_count != s->operand_count ||
      s->result_type_count != 1)
    return qn_parse_fail_at(p, s->at, "%s: got %zu operands, expected %zu, and one result", s->name, s->operand_count,
                            (size_t)f->kept + lists);
  for (size_t i = 0; i < lists; i++) {
    int64_t *list;
    size_t count;
    if (!known_ints(p, s, (size_t)f->kept + i, &list, &count))
      return false;
    if (!*f->becomes[i]) {
      if (!check_shape(p, s, list, count))
        return false;
      continue;
    }
    qn_attr *a = qn_parse_attr_add(p, &s->attrs, f->becomes[i]);
    if (!a)
      return false;
    a->kind = QN_A_INTS;
    a->ints = list;
    a->count = count;
  }
  drop_attr(s, "known_expanding_dimensions");
  drop_attr(s, "known_nonexpanding_dimensions");
  s->operand_count = s->operand_type_count = (size_t)f->kept;
  s->op = f->op;
  s->form = qn_form_get(f->op);
  return true;
}

static bool read_dimension_size(qn_parser *p, qn_stmt *s, bool generic) {
  if (!read_statement(p, s, generic))
    return false;
  const qn_attr *a = qn_parse_attr_find(s->attrs, "dimension");
  a = a ? a : qn_parse_attr_find(s->attrs, "dim");
  const qn_type *t = s->operand_count == 1 ? qn_val_type(s->operands[0]) : NULL;
  if (!t || !a || a->kind != QN_A_INT || a->number < 0 || a->number >= t->rank)
    return qn_parse_fail_at(p, s->at, "%s: expected one operand and one of its dimensions", s->name);
  int32_t *size = QN_NEW(&p->arena, int32_t, 1);
  if (!size)
    return qn_parse_no_memory(p);
  if (t->dims[a->number] > INT32_MAX)
    return qn_parse_fail_at(p, s->at, "%s: %s does not fit in i32", s->name, qn_type_str(t));
  *size = (int32_t)t->dims[a->number];
  s->constant = (qn_attr_constant){size, 1};
  s->is_constant = true;
  s->operand_count = s->operand_type_count = 0;
  s->op = QN_OP_CONSTANT;
  s->form = qn_form_get(s->op);
  return true;
}

bool qn_parse_rewritten(qn_parser *p, qn_stmt *s, bool generic, bool *out_known) {
  for (size_t i = 0; i < sizeof dynamic_forms / sizeof *dynamic_forms; i++)
    if ((*out_known = strcmp(dynamic_forms[i].name, s->name) == 0))
      return read_dynamic(p, s, &dynamic_forms[i], generic);
  *out_known = strcmp(s->name, "stablehlo.get_dimension_size") == 0;
  return *out_known && read_dimension_size(p, s, generic);
}

/* ---- map ---- */
/* One node of the body on whole arrays. */
static qn_val map_node(qn_parser *p, const qn_stmt *s, const qn_graph *body, const qn_node *n, const qn_val *map) {
  const qn_type *shape = qn_val_type(s->operands[0]);
  qn_type t = *shape;
  t.dtype = qn_graph_type(body, n->first_result)->dtype;
  qn_graph *g = p->scope->graph;
  if (n->op == QN_OP_CONSTANT)
    return qn_graph_add_typed(g, n->op, NULL, 0, n->attr, NULL, 0, &t, s->at);
  qn_val in[8];
  bool simple = qn_op_get(n->op)->kind == QN_KIND_ELEMENTWISE && n->operand_count <= 8;
  if (!simple) {
    (void)qn_parse_fail_at(p, s->at, "%s: %s in the body is not an elementwise operation", s->name,
                           qn_op_get(n->op)->name);
    return QN_NULL_VAL;
  }
  for (int i = 0; i < n->operand_count; i++)
    in[i] = map[n->operands[i]];
  return qn_graph_add_typed(g, n->op, in, (size_t)n->operand_count, n->attr, NULL, 0, &t, s->at);
}

static bool map_body(qn_parser *p, const qn_stmt *s, qn_val *map, qn_val *out) {
  const qn_graph *body = s->regions[0];
  const qn_type *shape = qn_val_type(s->operands[0]);
  size_t params = qn_graph_param_count(body);
  if (params != s->operand_count + s->capture_count || qn_graph_result_count(body) != 1)
    return qn_parse_fail_at(p, s->at, "%s: the body takes %zu scalars, expected %zu, and gives one", s->name, params,
                            s->operand_count);
  for (size_t i = 0; i < params; i++) {
    qn_val v = i < s->operand_count ? s->operands[i] : s->captures[i - s->operand_count];
    uint32_t id = qn_graph_param_at(body, i);
    if (qn_graph_type(body, id)->rank != 0 || qn_graph_type(body, id)->dtype != qn_val_type(v)->dtype)
      return qn_parse_fail_at(p, s->at, "%s: parameter %zu of the body is %s, expected a scalar of %s", s->name, i,
                              qn_type_str(qn_graph_type(body, id)), qn_type_str(qn_val_type(v)));
    map[id] = i < s->operand_count ? v : qn_broadcast_to_at(s->at, v, shape->rank, shape->dims);
    if (!qn_type_same_shape(qn_val_type(map[id]), shape))
      return qn_parse_fail_at(p, s->at, "%s: operand %zu is %s, expected the shape of %s", s->name, i,
                              qn_type_str(qn_val_type(v)), qn_type_str(shape));
  }
  for (size_t i = 0; i < qn_graph_node_count(body); i++) {
    const qn_node *n = qn_graph_node(body, i);
    if (n->op == QN_OP_PARAMETER)
      continue;
    map[n->first_result] = map_node(p, s, body, n, map);
    if (!qn_val_ok(map[n->first_result]))
      return qn_parse_graph_failed(p, p->scope->graph);
  }
  *out = map[qn_graph_result(body, 0)];
  return true;
}

bool qn_parse_map(qn_parser *p, qn_stmt *s, bool generic, qn_val *out) {
  static const qn_form combiner = {.combiner = true}; /* the body may capture */
  s->form = &combiner;
  if (!read_statement(p, s, generic))
    return false;
  if (s->region_count != 1 || s->operand_count < 1)
    return qn_parse_fail_at(p, s->at, "%s: got %zu operands and %zu regions, expected a body", s->name,
                            s->operand_count, s->region_count);
  for (size_t i = 0; i < s->operand_count; i++)
    if (i >= s->operand_type_count || !qn_type_equal(&s->operand_types[i], qn_val_type(s->operands[i])))
      return qn_parse_fail_at(p, s->at, "%s: operand %zu is %s, the text says otherwise", s->name, i,
                              qn_type_str(qn_val_type(s->operands[i])));
  qn_val *map = calloc(qn_graph_value_count(s->regions[0]) + 1, sizeof *map);
  bool ok = map ? map_body(p, s, map, out) : qn_parse_no_memory(p);
  free(map);
  if (ok && (s->result_type_count != 1 || !qn_type_equal(&s->result_types[0], qn_val_type(*out))))
    return qn_parse_fail_at(p, s->at, "%s: the result is %s, the text says otherwise", s->name,
                            qn_type_str(qn_val_type(*out)));
  return ok;
}

/* ---- rng_bit_generator: what is asked for is the type of the second result ---- */
bool qn_parse_rng_finish(qn_parser *p, qn_stmt *s) {
  if (s->result_type_count != 2)
    return qn_parse_fail_at(p, s->at, "%s: %zu results, expected 2, the new state and the bits", s->name,
                            s->result_type_count);
  const qn_type *t = &s->result_types[1];
  qn_attr *shape = qn_parse_attr_add(p, &s->attrs, "quern.shape"),
          *dtype = qn_parse_attr_add(p, &s->attrs, "quern.dtype");
  int64_t *dims = QN_NEW(&p->arena, int64_t, QN_MAX_RANK);
  if (!shape || !dtype || !dims)
    return qn_parse_no_memory(p);
  memcpy(dims, t->dims, sizeof t->dims);
  shape->kind = QN_A_INTS;
  shape->ints = dims;
  shape->count = (size_t)t->rank;
  dtype->kind = QN_A_INT;
  dtype->number = t->dtype;
  return true;
}

/* ---- custom_call @TopK, @mhlo.topk: the k largest along the last axis ---- */
bool qn_parse_top_k_call(qn_parser *p, qn_stmt *s) {
  const qn_attr *attrs = qn_parse_attr_find(s->attrs, "mhlo.attributes");
  attrs = attrs ? attrs : qn_parse_attr_find(s->attrs, "mhlo.backend_config");
  const qn_attr *largest = attrs ? qn_parse_attr_find(attrs->children, "largest") : NULL;
  if (largest && largest->kind == QN_A_INT && !largest->number)
    return qn_parse_fail_at(p, s->at, "%s: largest = false is not supported", s->name);
  if (s->result_type_count != 2 || s->result_types[0].rank < 1)
    return qn_parse_fail_at(p, s->at, "%s: expected two results, values and places", s->name);
  s->attrs = NULL;
  qn_attr *k = qn_parse_attr_add(p, &s->attrs, "k");
  if (!k)
    return false;
  k->kind = QN_A_INT;
  k->number = s->result_types[0].dims[s->result_types[0].rank - 1];
  s->op = QN_OP_TOP_K;
  s->form = qn_form_get(s->op);
  return true;
}
