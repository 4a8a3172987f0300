/* The oracle: runs a sealed graph node by node on host memory by the rows' references. A value's memory is taken when its node runs
 * and given back behind its last use; parameters and constants are read where they lie. It judges every device, so it's plain. */
#include "oracle.h"

#include "graph_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
  const qn_graph *graph;
  const void **data;  /* by value id: where the elements lie, NULL before and after their life */
  void **owned;       /* by value id: what to free */
  uint32_t *last_use; /* by value id: node index + 1 of the last reader; results: never */
} walk;

static const uint32_t forever = UINT32_MAX;

static void release_value(walk *w, uint32_t id) {
  free(w->owned[id]);
  w->owned[id] = NULL;
  w->data[id] = NULL;
}

static qn_status allocate(walk *w, uint32_t id) {
  int64_t bytes = qn_type_bytes(qn_graph_type(w->graph, id));
  void *p = calloc(bytes > 0 ? (size_t)bytes : 1, 1);
  if (p == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "oracle: no memory for a value of %s", qn_type_str(qn_graph_type(w->graph, id)));
  w->owned[id] = p;
  w->data[id] = p;
  return QN_OK;
}

/* A constant: the data themselves, or a splat written out. */
static qn_status place_constant(walk *w, uint32_t id) {
  bool splat = false;
  const void *data = qn_graph_constant(w->graph, id, &splat);
  const qn_type *t = qn_graph_type(w->graph, id);
  int64_t n = qn_type_elements(t);
  if (!splat || n == 1) {
    w->data[id] = data;
    return QN_OK;
  }
  QN_TRY(allocate(w, id));
  size_t size = qn_dtype_size(t->dtype);
  char *p = w->owned[id];
  for (int64_t i = 0; i < n; i++)
    memcpy(p + (size_t)i * size, data, size);
  return QN_OK;
}

/* Memory for the views of one node: operands' types and data, results' types and data. */
typedef struct views {
  const qn_type **in_types, **out_types;
  const void **in;
  void **out;
  size_t in_room, out_room;
} views;

static void views_free(views *v) {
  free(v->in_types);
  free(v->out_types);
  free(v->in);
  free(v->out);
}

static qn_status views_reserve(views *v, const qn_graph *g) {
  size_t in = 1, out = 1;
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    in = (size_t)n->operand_count > in ? (size_t)n->operand_count : in;
    out = (size_t)n->result_count > out ? (size_t)n->result_count : out;
  }
  *v = (views){.in_room = in, .out_room = out};
  v->in_types = calloc(in, sizeof *v->in_types);
  v->in = calloc(in, sizeof *v->in);
  v->out_types = calloc(out, sizeof *v->out_types);
  v->out = calloc(out, sizeof *v->out);
  if (v->in_types == NULL || v->in == NULL || v->out_types == NULL || v->out == NULL) {
    views_free(v);
    *v = (views){0};
    return QN_ERR(QN_OUT_OF_MEMORY, "oracle: no memory for a node of %zu operands", in);
  }
  return QN_OK;
}

static qn_ref_call call_of(const qn_graph *g, const qn_node *n, const views *v) {
  return (qn_ref_call){.graph = g,
                       .node = n,
                       .attr = n->attr,
                       .in_count = n->operand_count,
                       .out_count = n->result_count,
                       .in_types = v->in_types,
                       .out_types = v->out_types,
                       .in = v->in,
                       .out = v->out};
}

static qn_status run_node(walk *w, views *v, size_t index) {
  const qn_graph *g = w->graph;
  const qn_node *n = qn_graph_node(g, index);
  if (n->op == QN_OP_PARAMETER)
    return QN_OK;
  if (n->op == QN_OP_CONSTANT)
    return place_constant(w, n->first_result);
  for (int k = 0; k < n->operand_count; k++) {
    v->in_types[k] = qn_graph_type(g, n->operands[k]);
    v->in[k] = w->data[n->operands[k]];
  }
  for (int k = 0; k < n->result_count; k++) {
    uint32_t id = n->first_result + (uint32_t)k;
    QN_TRY(allocate(w, id));
    v->out_types[k] = qn_graph_type(g, id);
    v->out[k] = w->owned[id];
  }
  qn_ref_call call = call_of(g, n, v);
  QN_TRY(qn_oracle_node(&call));
  for (int k = 0; k < n->operand_count; k++)
    if (w->last_use[n->operands[k]] == index + 1)
      release_value(w, n->operands[k]);
  for (int k = 0; k < n->result_count; k++)
    if (w->last_use[n->first_result + (uint32_t)k] == 0)
      release_value(w, n->first_result + (uint32_t)k);
  return QN_OK;
}

static qn_status check_pointers(const qn_graph *g, const void *const *inputs, void *const *outputs) {
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    const qn_type *t = qn_graph_type(g, qn_graph_param_at(g, i));
    if (qn_type_elements(t) > 0 && (inputs == NULL || inputs[i] == NULL))
      return QN_ERR(QN_INVALID, "oracle: no data for parameter %zu of %s", i, qn_type_str(t));
  }
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    const qn_type *t = qn_graph_type(g, qn_graph_result(g, i));
    if (qn_type_elements(t) > 0 && (outputs == NULL || outputs[i] == NULL))
      return QN_ERR(QN_INVALID, "oracle: no room for result %zu of %s", i, qn_type_str(t));
  }
  return QN_OK;
}

static void count_uses(walk *w) {
  const qn_graph *g = w->graph;
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    for (int k = 0; k < n->operand_count; k++)
      w->last_use[n->operands[k]] = (uint32_t)(i + 1);
  }
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    w->last_use[qn_graph_result(g, i)] = forever;
}

static qn_status run_all(walk *w, views *v, const void *const *inputs, void *const *outputs) {
  const qn_graph *g = w->graph;
  for (size_t i = 0; i < qn_graph_param_count(g); i++)
    w->data[qn_graph_param_at(g, i)] = inputs != NULL ? inputs[i] : NULL;
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    QN_TRY(run_node(w, v, i));
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    uint32_t id = qn_graph_result(g, i);
    int64_t bytes = qn_type_bytes(qn_graph_type(g, id));
    if (bytes > 0)
      memmove(outputs[i], w->data[id], (size_t)bytes);
  }
  return QN_OK;
}

qn_status qn_graph_eval_ref(const qn_graph *g, const void *const *inputs, void *const *outputs) {
  if (g == NULL)
    return QN_ERR(QN_INVALID, "oracle: no graph");
  if (!g->sealed || g->failed != QN_OK)
    return QN_ERR(QN_INVALID, "oracle: graph %s is not sealed", g->name);
  QN_TRY(check_pointers(g, inputs, outputs));
  size_t values = qn_graph_value_count(g) + 1;
  walk w = {.graph = g};
  views v = {0};
  qn_status st = QN_OK;
  w.data = calloc(values, sizeof *w.data);
  w.owned = calloc(values, sizeof *w.owned);
  w.last_use = calloc(values, sizeof *w.last_use);
  if (w.data == NULL || w.owned == NULL || w.last_use == NULL) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "oracle: no memory for a graph of %zu values", values - 1);
    goto done;
  }
  QN_TRY_GOTO(st, views_reserve(&v, g), done);
  count_uses(&w);
  QN_TRY_GOTO(st, run_all(&w, &v, inputs, outputs), done);
done:
  for (size_t id = 0; w.owned != NULL && id < values; id++)
    free(w.owned[id]);
  views_free(&v);
  free(w.data);
  free(w.owned);
  free(w.last_use);
  return st;
}

/* ---- regions ---- */

enum { SLOT = 16 }; /* bytes of the largest element */

struct qn_oracle_region {
  const qn_graph *graph;
  unsigned char *slots; /* by value id */
  qn_ref_call *calls;   /* per node that computes */
  size_t call_count;
  const void **ins; /* the calls' views, one after the other */
  void **outs;
  const qn_type **types;
};

void qn_oracle_region_close(qn_oracle_region *r) {
  if (r == NULL)
    return;
  free(r->slots);
  free(r->calls);
  free(r->ins);
  free(r->outs);
  free(r->types);
  free(r);
}

static qn_status region_check(const qn_graph *body) {
  for (uint32_t id = 1; id <= qn_graph_value_count(body); id++)
    if (qn_type_elements(qn_graph_type(body, id)) != 1)
      return QN_ERR(QN_UNSUPPORTED, "oracle: a region holds a value of %s, expected single elements",
                    qn_type_str(qn_graph_type(body, id)));
  return QN_OK;
}

static void region_prepare(qn_oracle_region *r) {
  const qn_graph *g = r->graph;
  size_t in_at = 0, out_at = 0, type_at = 0;
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    if (n->op == QN_OP_PARAMETER)
      continue;
    if (n->op == QN_OP_CONSTANT) {
      bool splat;
      memcpy(r->slots + (size_t)n->first_result * SLOT, qn_graph_constant(g, n->first_result, &splat),
             qn_dtype_size(qn_graph_type(g, n->first_result)->dtype));
      continue;
    }
    views v = {.in = r->ins + in_at, .out = r->outs + out_at, .in_types = r->types + type_at};
    v.out_types = v.in_types + n->operand_count;
    for (int k = 0; k < n->operand_count; k++) {
      v.in[k] = r->slots + (size_t)n->operands[k] * SLOT;
      v.in_types[k] = qn_graph_type(g, n->operands[k]);
    }
    for (int k = 0; k < n->result_count; k++) {
      v.out[k] = r->slots + ((size_t)n->first_result + (size_t)k) * SLOT;
      v.out_types[k] = qn_graph_type(g, n->first_result + (uint32_t)k);
    }
    in_at += (size_t)n->operand_count;
    out_at += (size_t)n->result_count;
    type_at += (size_t)n->operand_count + (size_t)n->result_count;
    r->calls[r->call_count++] = call_of(g, n, &v);
  }
}

qn_status qn_oracle_region_open(const qn_graph *body, qn_oracle_region **out_region) {
  *out_region = NULL;
  if (body == NULL)
    return QN_ERR(QN_INVALID, "oracle: no region");
  if (!body->sealed || body->failed != QN_OK)
    return QN_ERR(QN_INVALID, "oracle: region %s is not sealed", body->name);
  QN_TRY(region_check(body));
  size_t nodes = qn_graph_node_count(body), ins = 0, outs = 0;
  for (size_t i = 0; i < nodes; i++) {
    ins += (size_t)qn_graph_node(body, i)->operand_count;
    outs += (size_t)qn_graph_node(body, i)->result_count;
  }
  qn_oracle_region *r = calloc(1, sizeof *r);
  if (r == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "oracle: no memory for a region");
  r->graph = body;
  r->slots = calloc(qn_graph_value_count(body) + 1, SLOT);
  r->calls = calloc(nodes + 1, sizeof *r->calls);
  r->ins = calloc(ins + 1, sizeof *r->ins);
  r->outs = calloc(outs + 1, sizeof *r->outs);
  r->types = calloc(ins + outs + 1, sizeof *r->types);
  if (r->slots == NULL || r->calls == NULL || r->ins == NULL || r->outs == NULL || r->types == NULL) {
    qn_oracle_region_close(r);
    return QN_ERR(QN_OUT_OF_MEMORY, "oracle: no memory for a region of %zu nodes", nodes);
  }
  region_prepare(r);
  *out_region = r;
  return QN_OK;
}

qn_status qn_oracle_region_run(qn_oracle_region *r, const void *const *in, void *const *out) {
  const qn_graph *g = r->graph;
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    uint32_t id = qn_graph_param_at(g, i);
    memcpy(r->slots + (size_t)id * SLOT, in[i], qn_dtype_size(qn_graph_type(g, id)->dtype));
  }
  for (size_t i = 0; i < r->call_count; i++)
    QN_TRY(qn_oracle_node(&r->calls[i]));
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    uint32_t id = qn_graph_result(g, i);
    memcpy(out[i], r->slots + (size_t)id * SLOT, qn_dtype_size(qn_graph_type(g, id)->dtype));
  }
  return QN_OK;
}
