/* Adding to an open graph: nodes are checked by their row's shape rule and copied whole into the arena. The first failure
 * sticks to the graph, with the caller's place; whatever is added later gives the null value. */
#include "graph_impl.h"
#include "ops/infer.h"
#include "text_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

qn_val qn_graph_fail(qn_graph *g, qn_place place, qn_status code, const char *format, ...) {
  if (!g || g->sealed || g->failed != QN_OK)
    return QN_NULL_VAL;
  g->failed = code == QN_OK ? QN_INTERNAL : code;
  if (g->has_place)
    place = g->place;
  int at = 0;
  if (place.file && place.column)
    at = snprintf(g->fail_text, QN_FAIL_TEXT, "%s:%d:%d: ", place.file, place.line, place.column);
  va_list args;
  va_start(args, format);
  if (at >= 0 && at < QN_FAIL_TEXT)
    at += vsnprintf(g->fail_text + at, (size_t)(QN_FAIL_TEXT - at), format, args);
  va_end(args);
  if (place.file && !place.column && at >= 0 && at < QN_FAIL_TEXT)
    (void)snprintf(g->fail_text + at, (size_t)(QN_FAIL_TEXT - at), " (%s:%d)", base_name(place.file), place.line);
  return QN_NULL_VAL;
}

void qn_graph_set_place(qn_graph *g, const qn_place *place) {
  if (!g || g->sealed)
    return;
  g->has_place = place != NULL;
  if (place)
    g->place = *place;
}

/* File names of text places live in some graph's arena; this graph keeps its own copy. */
static qn_place own_place(qn_graph *g, qn_place place) {
  if (g->has_place)
    place = g->place;
  if (!place.file || !place.column)
    return place;
  if (place.file != g->file && place.file != g->file_own) {
    if (!g->file_own || strcmp(g->file_own, place.file) != 0)
      g->file_own = qn_arena_strdup(&g->arena, place.file);
    g->file = place.file;
  }
  place.file = g->file_own;
  return place;
}

size_t qn_constant_bytes(const qn_attr_constant *c, const qn_type *t) {
  return (size_t)c->elements * qn_dtype_size(t->dtype);
}

size_t qn_infer_room(size_t operands, qn_graph *const *regions, size_t region_count) {
  size_t room = operands + 2;
  for (size_t i = 0; i < region_count; i++)
    if (qn_graph_result_count(regions[i]) > room)
      room = qn_graph_result_count(regions[i]);
  return room;
}

qn_status qn_infer_run(qn_op op, const qn_type *operands, size_t count, const void *attr, qn_graph *const *regions,
                       size_t region_count, const qn_type *hint, qn_type *out, size_t room, int *out_count) {
  const qn_op_def *row = qn_op_get(op);
  *out_count = 0;
  if (row->arity >= 0 && (size_t)row->arity != count)
    return QN_ERR(QN_INVALID, "%s: %zu operands, expected %d", row->name, count, row->arity);
  if (row->attr_size && !attr)
    return QN_ERR(QN_INVALID, "%s: its attributes are missing", row->name);
  if (count && row->dtypes && !(row->dtypes & qn_dtype_mask(operands[0].dtype)))
    return QN_ERR(QN_INVALID, "%s: operand 0 is %s, expected %s", row->name, qn_type_str(&operands[0]),
                  qn_infer_mask_name(row->dtypes));
  qn_infer ctx = {.op = op,
                  .name = row->name,
                  .operand_count = (int)count,
                  .region_count = (int)region_count,
                  .operands = operands,
                  .attr = attr,
                  .regions = regions,
                  .result_count = 1,
                  .out_types = out};
  if (hint)
    ctx.hint = *hint;
  QN_TRY(row->infer(&ctx));
  if (ctx.result_count < 0 || (size_t)ctx.result_count > room)
    return QN_ERR(QN_INTERNAL, "%s: its shape rule gives %d results", row->name, ctx.result_count);
  for (int i = 0; i < ctx.result_count; i++)
    QN_TRY(qn_type_check(&out[i], row->name));
  *out_count = ctx.result_count;
  return QN_OK;
}

static bool copy_attr(qn_graph *g, const qn_op_def *row, const void *attr, const qn_type *result, qn_node *n) {
  if (!row->attr_size || !attr)
    return true;
  void *own = qn_arena_alloc(&g->arena, row->attr_size);
  n->attr = own;
  if (own)
    qn_form_copy_attr(n->op, own, attr, row->attr_size);
  return own && (!row->attr_own || row->attr_own(&g->arena, own, result));
}

/* Appends a checked node. */
static qn_val append(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                     qn_graph *const *regions, size_t region_count, const qn_type *types, int type_count,
                     qn_place place) {
  if (g->values.count + (size_t)type_count >= UINT32_MAX)
    return qn_graph_fail(g, place, QN_INVALID, "graph: too many values");
  qn_node n = {.op = op,
               .operand_count = (int32_t)count,
               .result_count = type_count,
               .region_count = (int32_t)region_count,
               .first_result = (uint32_t)g->values.count + 1,
               .place = own_place(g, place)};
  bool ok = copy_attr(g, qn_op_get(op), attr, types, &n);
  if (ok && count) {
    uint32_t *ids = QN_NEW(&g->arena, uint32_t, count);
    for (size_t i = 0; ids && i < count; i++)
      ids[i] = operands[i].id;
    n.operands = ids;
    ok = ids != NULL;
  }
  if (ok && region_count)
    ok = (n.regions = qn_arena_copy(&g->arena, regions, region_count * sizeof *regions)) != NULL;
  uint32_t index = (uint32_t)g->nodes.count;
  for (int i = 0; ok && i < type_count; i++) {
    qn_value *v = qn_table_push(&g->values, &g->arena, sizeof *v);
    if ((ok = v != NULL))
      *v = (qn_value){types[i], index};
  }
  qn_node *slot = ok ? qn_table_push(&g->nodes, &g->arena, sizeof *slot) : NULL;
  if (!slot)
    return qn_graph_fail(g, place, QN_OUT_OF_MEMORY, "%s: no memory", qn_op_get(op)->name);
  for (size_t i = 0; i < region_count; i++)
    (void)qn_graph_retain(regions[i]);
  *slot = n;
  return (qn_val){g, type_count ? n.first_result : 0};
}

/* Whether the graph takes nodes; a sealed one has nowhere to keep a failure, so the thread's record gets it. */
static bool open_for(qn_graph *g, const char *op) {
  if (g && !g->sealed)
    return g->failed == QN_OK;
  (void)QN_ERR(QN_INVALID, "%s: the graph is %s", op, g ? "sealed" : "null");
  return false;
}

static bool check_operands(qn_graph *g, const char *op, const qn_val *operands, size_t count, qn_place place) {
  for (size_t i = 0; i < count; i++) {
    const char *wrong = !qn_val_ok(operands[i])                                    ? "is the null value"
                        : !qn_graph_sees(g, operands[i].graph)                     ? "belongs to another graph"
                        : (size_t)operands[i].id > operands[i].graph->values.count ? "is no value of its graph"
                                                                                   : NULL;
    if (wrong) {
      (void)qn_graph_fail(g, place, QN_INVALID, "%s: operand %zu %s", op, i, wrong);
      return false;
    }
  }
  return true;
}

/* The innermost graph among g and the operands' that are inside of it. */
static qn_graph *innermost(qn_graph *g, const qn_val *operands, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (qn_val_ok(operands[i]) && operands[i].graph != g && !operands[i].graph->sealed &&
        qn_graph_sees(operands[i].graph, g))
      g = operands[i].graph;
  return g;
}

static bool any_foreign(const qn_graph *g, const qn_val *operands, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (operands[i].graph != g)
      return true;
  return false;
}

/* Operands of graphs around g as g sees them; `own` has room. */
static bool use_operands(qn_graph *g, const qn_val *operands, size_t count, qn_val *own) {
  for (size_t i = 0; i < count; i++) {
    own[i] = qn_graph_use(g, operands[i]);
    if (!qn_val_ok(own[i]))
      return false;
  }
  return true;
}

qn_val qn_graph_use(qn_graph *g, qn_val v) {
  if (!qn_val_ok(v) || v.graph == g || !g)
    return v;
  qn_val outer = g->parent ? qn_graph_use(g->parent, v) : QN_NULL_VAL;
  if (!g->parent)
    return qn_graph_fail(g, (qn_place){0}, QN_INVALID, "%s: a value of another graph", g->name);
  if (!qn_val_ok(outer))
    return outer;
  const qn_node *def = qn_graph_def(outer.graph, outer.id);
  if (def->op == QN_OP_CONSTANT && ((const qn_attr_constant *)def->attr)->elements == 1)
    return qn_graph_copy_node(g, outer.graph, def, NULL);
  for (size_t i = 0; i < g->captured_count; i++)
    if (qn_val_same(g->captured[i], outer))
      return (qn_val){g, qn_graph_param_at(g, g->params.count - g->captured_count + i)};
  if (g->captured_count == g->captured_capacity) {
    size_t grown = g->captured_capacity ? 2 * g->captured_capacity : 8;
    qn_val *moved = QN_NEW(&g->arena, qn_val, grown);
    if (!moved)
      return qn_graph_fail(g, (qn_place){0}, QN_OUT_OF_MEMORY, "%s: no memory", g->name);
    if (g->captured_count)
      memcpy(moved, g->captured, g->captured_count * sizeof *moved);
    g->captured = moved;
    g->captured_capacity = grown;
  }
  qn_val inner = qn_graph_param(g, *qn_val_type(outer), NULL);
  if (qn_val_ok(inner))
    g->captured[g->captured_count++] = outer;
  return inner;
}

qn_val qn_graph_add_typed(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                          qn_graph *const *regions, size_t region_count, const qn_type *hint, qn_place place) {
  const qn_op_def *row = qn_op_get(op);
  const char *name = row ? row->name : "graph";
  if (g)
    g = innermost(g, operands, count);
  if (!open_for(g, name))
    return QN_NULL_VAL;
  if (!row)
    return qn_graph_fail(g, place, QN_INVALID, "graph: there is no operation number %d", (int)op);
  if (count > QN_MAX_OPERANDS || region_count > QN_MAX_OPERANDS)
    return qn_graph_fail(g, place, QN_INVALID, "%s: %zu operands, at most %d", name, count, (int)QN_MAX_OPERANDS);
  if (!check_operands(g, name, operands, count, place))
    return QN_NULL_VAL;
  for (size_t i = 0; i < region_count; i++)
    if (!regions[i] || !regions[i]->sealed || regions[i]->failed != QN_OK)
      return qn_graph_fail(g, place, QN_INVALID, "%s: region %zu is not a sealed graph", name, i);
  if (any_foreign(g, operands, count)) {
    qn_val *own = QN_NEW(&g->arena, qn_val, count);
    if (!own || !use_operands(g, operands, count, own))
      return own ? QN_NULL_VAL : qn_graph_fail(g, place, QN_OUT_OF_MEMORY, "%s: no memory", name);
    operands = own;
  }

  size_t room = qn_infer_room(count, regions, region_count);
  qn_type few[12];
  qn_type *types = count + room <= 12 ? few : malloc((count + room) * sizeof *types);
  if (!types)
    return qn_graph_fail(g, place, QN_OUT_OF_MEMORY, "%s: no memory", name);
  memset(types, 0, (count + room) * sizeof *types);
  for (size_t i = 0; i < count; i++)
    types[i] = qn_value_slot(g, operands[i].id)->type;
  int result_count = 0;
  qn_status st = qn_infer_run(op, types, count, attr, regions, region_count, hint, types + count, room, &result_count);
  qn_val v = st == QN_OK
                 ? append(g, op, operands, count, attr, regions, region_count, types + count, result_count, place)
                 : qn_graph_fail(g, place, st, "%s", qn_error_message());
  if (types != few)
    free(types);
  return v;
}

qn_val qn_graph_add(qn_graph *g, qn_op op, const qn_val *operands, size_t count, const void *attr,
                    qn_graph *const *regions, size_t region_count, qn_place place) {
  return qn_graph_add_typed(g, op, operands, count, attr, regions, region_count, NULL, place);
}

qn_val qn_graph_param(qn_graph *g, qn_type type, const char *path) {
  if (!open_for(g, "parameter"))
    return QN_NULL_VAL;
  qn_status st = qn_type_check(&type, path ? path : "parameter");
  if (st != QN_OK)
    return qn_graph_fail(g, (qn_place){0}, st, "%s", qn_error_message());
  qn_val v = append(g, QN_OP_PARAMETER, NULL, 0, NULL, NULL, 0, &type, 1, (qn_place){0});
  qn_port *p = qn_val_ok(v) ? qn_table_push(&g->params, &g->arena, sizeof *p) : NULL;
  const char *own = path && p ? qn_arena_strdup(&g->arena, path) : NULL;
  if (!p || (path && !own))
    return qn_graph_fail(g, (qn_place){0}, QN_OUT_OF_MEMORY, "parameter: no memory");
  *p = (qn_port){v.id, own};
  return v;
}

qn_val qn_val_result(qn_val first, int index) {
  if (!qn_val_ok(first))
    return QN_NULL_VAL;
  const qn_node *n = qn_graph_def(first.graph, first.id);
  if (index < 0 || index >= n->result_count)
    return qn_graph_fail(first.graph, n->place, QN_INVALID, "%s: result %d of %d", qn_op_get(n->op)->name, index,
                         n->result_count);
  return (qn_val){first.graph, n->first_result + (uint32_t)index};
}

qn_graph *qn_graph_common(const char *op, const qn_val *operands, size_t count, qn_place place) {
  qn_graph *g = NULL;
  for (size_t i = 0; i < count; i++)
    if (qn_val_ok(operands[i]) && (!g || g->sealed))
      g = operands[i].graph;
  if (!g || g->sealed) {
    if (g)
      (void)QN_ERR(QN_INVALID, "%s: the graph of its operands is sealed", op);
    return NULL;
  }
  g = innermost(g, operands, count);
  if (g->failed != QN_OK || !check_operands(g, op, operands, count, place))
    return NULL;
  return g;
}

qn_val qn_graph_copy_node(qn_graph *g, const qn_graph *from, const qn_node *node, const qn_val *operands) {
  const char *name = qn_op_get(node->op)->name;
  size_t count = (size_t)node->operand_count;
  if (!open_for(g, name) || !check_operands(g, name, operands, count, node->place))
    return QN_NULL_VAL;
  if (node->op == QN_OP_PARAMETER)
    return qn_graph_fail(g, node->place, QN_INVALID, "parameter: cannot be copied as a node");
  bool same = node->result_count <= 8;
  for (size_t i = 0; same && i < count; i++)
    same = qn_type_equal(qn_val_type(operands[i]), qn_graph_type(from, node->operands[i]));
  if (!same) /* other shapes: the rule decides; the old result type is a hint only where its operands do not tell */
    return qn_graph_add_typed(g, node->op, operands, count, node->attr, node->regions, (size_t)node->region_count,
                              qn_graph_type(from, node->first_result), node->place);
  qn_type types[8];
  for (int i = 0; i < node->result_count; i++)
    types[i] = *qn_graph_type(from, node->first_result + (uint32_t)i);
  return append(g, node->op, operands, count, node->attr, node->regions, (size_t)node->region_count, types,
                node->result_count, node->place);
}

static bool inline_nodes(qn_graph *g, const qn_graph *callee, qn_val *map, qn_val *operands) {
  for (size_t i = 0; i < callee->nodes.count; i++) {
    const qn_node *n = qn_node_slot(callee, i);
    if (n->op == QN_OP_PARAMETER)
      continue;
    for (int k = 0; k < n->operand_count; k++)
      operands[k] = map[n->operands[k]];
    qn_val v = qn_graph_copy_node(g, callee, n, operands);
    if (g->failed != QN_OK)
      return false;
    for (int r = 0; r < n->result_count; r++)
      map[n->first_result + (uint32_t)r] = (qn_val){g, v.id + (uint32_t)r};
  }
  return true;
}

bool qn_graph_inline(qn_graph *g, const qn_graph *callee, const qn_val *args, size_t count, qn_val *out_results) {
  for (size_t i = 0; i < callee->result_count; i++)
    out_results[i] = QN_NULL_VAL;
  qn_place at = {0};
  if (!open_for(g, callee->name) || !check_operands(g, callee->name, args, count, at))
    return false;
  if (count != callee->params.count)
    return qn_val_ok(
        qn_graph_fail(g, at, QN_INVALID, "%s: %zu arguments, expected %zu", callee->name, count, callee->params.count));
  for (size_t i = 0; i < count; i++) {
    const qn_type *want = qn_graph_type(callee, qn_graph_param_at(callee, i)), *got = qn_val_type(args[i]);
    if (!qn_type_equal(want, got))
      return qn_val_ok(qn_graph_fail(g, at, QN_INVALID, "%s: argument %zu is %s, expected %s", callee->name, i,
                                     qn_type_str(got), qn_type_str(want)));
  }
  qn_val *map = calloc(callee->values.count + 1 + QN_MAX_OPERANDS, sizeof *map);
  if (!map)
    return qn_val_ok(qn_graph_fail(g, at, QN_OUT_OF_MEMORY, "%s: no memory", callee->name));
  for (size_t i = 0; i < count; i++)
    map[qn_graph_param_at(callee, i)] = qn_graph_use(g, args[i]);
  bool ok = g->failed == QN_OK && inline_nodes(g, callee, map, map + callee->values.count + 1);
  for (size_t i = 0; ok && i < callee->result_count; i++)
    out_results[i] = map[qn_graph_result(callee, i)];
  free(map);
  return ok;
}
