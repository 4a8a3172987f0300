/* The life of a graph and all reads of it. Building is in build.c, checks in verify.c. */
#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_graph_create(const char *name, qn_graph **out_graph) {
  *out_graph = NULL;
  qn_graph *g = calloc(1, sizeof *g);
  if (!g)
    return QN_ERR(QN_OUT_OF_MEMORY, "graph: no memory");
  atomic_init(&g->refs, 1);
  g->name = qn_arena_strdup(&g->arena, name ? name : "main");
  if (!g->name) {
    free(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "graph: no memory");
  }
  *out_graph = g;
  return QN_OK;
}

qn_graph *qn_graph_retain(const qn_graph *g) {
  qn_graph *counted = (qn_graph *)g;
  if (counted)
    (void)atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
  return counted;
}

void qn_graph_release(qn_graph *g) {
  if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
    return;
  for (size_t i = 0; i < g->nodes.count; i++) {
    const qn_node *n = qn_node_slot(g, i);
    for (int r = 0; r < n->region_count; r++)
      qn_graph_release(n->regions[r]);
  }
  for (size_t i = 0; i < g->held.count; i++)
    qn_graph_release(*(qn_graph **)qn_table_slot(&g->held, i, sizeof(qn_graph *)));
  qn_arena_free(&g->arena);
  free(g);
}

qn_arena *qn_graph_arena(qn_graph *g) { return &g->arena; }
bool qn_graph_failed(const qn_graph *g) { return g->failed != QN_OK; }
const char *qn_graph_name(const qn_graph *g) { return g->name; }
size_t qn_graph_node_count(const qn_graph *g) { return g->nodes.count; }
const qn_node *qn_graph_node(const qn_graph *g, size_t index) { return qn_node_slot(g, index); }
size_t qn_graph_value_count(const qn_graph *g) { return g->values.count; }
const qn_type *qn_graph_type(const qn_graph *g, uint32_t value) { return &qn_value_slot(g, value)->type; }
size_t qn_graph_def_index(const qn_graph *g, uint32_t value) { return qn_value_slot(g, value)->node; }
const qn_node *qn_graph_def(const qn_graph *g, uint32_t value) {
  return qn_node_slot(g, qn_value_slot(g, value)->node);
}

static const qn_port *param_slot(const qn_graph *g, size_t i) { return qn_table_slot(&g->params, i, sizeof(qn_port)); }
static qn_port *result_slot(const qn_graph *g, size_t i) { return qn_table_slot(&g->results, i, sizeof(qn_port)); }

size_t qn_graph_param_count(const qn_graph *g) { return g->params.count; }
uint32_t qn_graph_param_at(const qn_graph *g, size_t index) { return param_slot(g, index)->value; }
const char *qn_graph_param_path(const qn_graph *g, size_t index) { return param_slot(g, index)->path; }
size_t qn_graph_result_count(const qn_graph *g) { return g->result_count; }
uint32_t qn_graph_result(const qn_graph *g, size_t index) { return result_slot(g, index)->value; }

const char *qn_graph_result_path(const qn_graph *g, size_t index) {
  return index < g->results.count ? result_slot(g, index)->path : NULL;
}

void qn_graph_set_result_path(qn_graph *g, size_t index, const char *path) {
  if (!g || g->sealed || index > (size_t)1 << 24)
    return;
  while (g->results.count <= index)
    if (!qn_table_push(&g->results, &g->arena, sizeof(qn_port))) {
      (void)qn_graph_fail(g, (qn_place){0}, QN_OUT_OF_MEMORY, "result path: no memory");
      return;
    }
  result_slot(g, index)->path = path ? qn_arena_strdup(&g->arena, path) : NULL;
}

const qn_type *qn_val_type(qn_val v) {
  static const qn_type none;
  return qn_val_ok(v) ? &qn_value_slot(v.graph, v.id)->type : &none;
}

const void *qn_graph_constant(const qn_graph *g, uint32_t value, bool *out_splat) {
  const qn_node *n = qn_graph_def(g, value);
  if (out_splat)
    *out_splat = false;
  if (n->op != QN_OP_CONSTANT)
    return NULL;
  const qn_attr_constant *c = n->attr;
  if (out_splat)
    *out_splat = c->elements == 1;
  return c->data;
}

typedef double (*read_fn)(const void *p);
#define READER(name, type, expr)                                                                                       \
  static double name(const void *p) {                                                                                  \
    type x;                                                                                                            \
    memcpy(&x, p, sizeof x);                                                                                           \
    return (double)(expr);                                                                                             \
  }
READER(read_bool, uint8_t, x != 0)
READER(read_i8, int8_t, x)
READER(read_i16, int16_t, x)
READER(read_i32, int32_t, x)
READER(read_i64, int64_t, x)
READER(read_u8, uint8_t, x)
READER(read_u16, uint16_t, x)
READER(read_u32, uint32_t, x)
READER(read_u64, uint64_t, x)
READER(read_f16, uint16_t, qn_f16_to_f32(x))
READER(read_bf16, uint16_t, qn_bf16_to_f32(x))
READER(read_f32, float, x)
READER(read_f64, double, x)

static const read_fn readers[QN_DTYPE_COUNT] = {
    [QN_BOOL] = read_bool, [QN_I8] = read_i8,   [QN_I16] = read_i16, [QN_I32] = read_i32, [QN_I64] = read_i64,
    [QN_U8] = read_u8,     [QN_U16] = read_u16, [QN_U32] = read_u32, [QN_U64] = read_u64, [QN_F16] = read_f16,
    [QN_BF16] = read_bf16, [QN_F32] = read_f32, [QN_F64] = read_f64,
};

bool qn_graph_constant_at(const qn_graph *g, uint32_t value, int64_t index, double *out_x) {
  const qn_node *n = qn_graph_def(g, value);
  if (n->op != QN_OP_CONSTANT)
    return false;
  const qn_attr_constant *c = n->attr;
  const qn_type *t = qn_graph_type(g, value);
  if (!readers[t->dtype] || index < 0 || index >= qn_type_elements(t))
    return false;
  if (c->elements == 1)
    index = 0;
  *out_x = readers[t->dtype]((const char *)c->data + (size_t)index * qn_dtype_size(t->dtype));
  return true;
}
