/* Where a NaN came from. The program is run once more with all its floating-point values as results, a portion of them at a time where they are
 * many; then NaNs are followed from the results back to the operations that have NaN-free operands, and the first of those is named. */
#include "quern/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "quern/compile.h"
#include "quern/op.h"

enum { PORTION_BYTES = 256 << 20, PORTION_VALUES = 4096 };

/* ---- NaNs in memory ---- */
static bool is_nan(qn_dtype t, const uint8_t *at) {
  uint64_t bits = 0;
  size_t size = qn_dtype_size(t);
  memcpy(&bits, at, size); /* little-endian */
  if (t == QN_F16)
    return (bits & 0x7fff) > 0x7c00;
  if (t == QN_BF16)
    return (bits & 0x7fff) > 0x7f80;
  if (t == QN_F32)
    return (bits & 0x7fffffff) > 0x7f800000;
  return (bits & UINT64_C(0x7fffffffffffffff)) > UINT64_C(0x7ff0000000000000);
}

int64_t qn_count_nans(const qn_type *t, const void *data, int64_t *out_first) {
  int64_t count = 0, n = qn_type_elements(t);
  bool is_complex = qn_dtype_is_complex(t->dtype);
  qn_dtype part = t->dtype == QN_C64 ? QN_F32 : t->dtype == QN_C128 ? QN_F64 : t->dtype;
  size_t size = qn_dtype_size(t->dtype);
  *out_first = -1;
  if (!qn_dtype_is_float(part))
    return 0;
  for (int64_t i = 0; i < n; i++) {
    const uint8_t *at = (const uint8_t *)data + (size_t)i * size;
    if (!is_nan(part, at) && !(is_complex && is_nan(part, at + size / 2)))
      continue;
    if (count++ == 0)
      *out_first = i;
  }
  return count;
}

/* ---- one run with some values as results ---- */
typedef struct search {
  qn_device *device;
  qn_cache *cache;
  const qn_graph *g;
  const void *const *inputs;
  int64_t *count, *first; /* by value id: NaNs, the first one */
  qn_val *made;           /* by value id: in the graph of a portion */
} search;

static bool may_hold(const qn_graph *g, uint32_t id) {
  qn_dtype t = qn_graph_type(g, id)->dtype;
  return qn_dtype_is_float(t) || qn_dtype_is_complex(t);
}

/* The graph up to a node, with the values `ids` as results. */
static qn_status cut(search *s, size_t nodes, const uint32_t *ids, size_t count, qn_graph **out_graph) {
  const qn_graph *g = s->g;
  qn_graph *to = NULL;
  qn_status st = QN_OK;
  qn_val *few = calloc(count + 1, sizeof *few), *operands = NULL;
  size_t room = 1, param = 0;
  *out_graph = NULL;
  for (size_t i = 0; i < nodes; i++)
    room = (size_t)qn_graph_node(g, i)->operand_count > room ? (size_t)qn_graph_node(g, i)->operand_count : room;
  operands = calloc(room, sizeof *operands);
  if (!few || !operands) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory");
    goto done;
  }
  QN_TRY_GOTO(st, qn_graph_create("check_nans", &to), done);
  for (; param < qn_graph_param_count(g); param++) {
    uint32_t id = qn_graph_param_at(g, param);
    s->made[id] = qn_graph_param(to, *qn_graph_type(g, id), qn_graph_param_path(g, param));
  }
  for (size_t i = 0; i < nodes && !qn_graph_failed(to); i++) {
    const qn_node *n = qn_graph_node(g, i);
    if (n->op == QN_OP_PARAMETER)
      continue;
    for (int k = 0; k < n->operand_count; k++)
      operands[k] = s->made[n->operands[k]];
    qn_val v = qn_graph_copy_node(to, g, n, operands);
    for (int k = 0; k < n->result_count && qn_val_ok(v); k++)
      s->made[n->first_result + (uint32_t)k] = qn_val_result(v, k);
  }
  for (size_t i = 0; i < count; i++)
    few[i] = s->made[ids[i]];
  QN_TRY_GOTO(st, qn_graph_seal(to, few, count), done);
  *out_graph = to;
  to = NULL;
done:
  free(few);
  free(operands);
  qn_graph_release(to);
  return st;
}

static qn_status add_leaves(const qn_graph *g, qn_treedef *args, qn_treedef *result) {
  char path[32];
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    (void)snprintf(path, sizeof path, "in%zu", i);
    QN_TRY(qn_treedef_add(args, path, *qn_graph_type(g, qn_graph_param_at(g, i))));
  }
  for (size_t i = 0; i < qn_graph_result_count(g); i++) {
    (void)snprintf(path, sizeof path, "v%zu", i);
    QN_TRY(qn_treedef_add(result, path, *qn_graph_type(g, qn_graph_result(g, i))));
  }
  return QN_OK;
}

static qn_status run_on_device(const search *s, qn_graph *g, void *const *out) {
  qn_treedef args = {0};
  qn_traced fn = {.graph = g, .args = &args, .arg_count = 1};
  qn_jit_desc desc = {.compile = {.name = "check_nans", .cache = s->cache}, .step = {.result_ring = 1}};
  qn_layout layout = {0};
  qn_step *step = NULL;
  qn_tensors *in = NULL, *result = NULL; /* result is the step's */
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, add_leaves(g, &args, &fn.result), done);
  QN_TRY_GOTO(st, qn_jit(s->device, &fn, &desc, &step), done);
  QN_TRY_GOTO(st, qn_layout_from_treedef(&args, &layout), done);
  QN_TRY_GOTO(st, qn_tensors_create(s->device, &layout, "inputs", &in), done);
  for (size_t i = 0; i < args.count; i++)
    QN_TRY_GOTO(st, qn_tensors_write_at(in, i, s->inputs[i]), done);
  QN_TRY_GOTO(st, qn_step_call(step, &in, 1, &result, NULL), done);
  for (size_t i = 0; i < fn.result.count; i++)
    QN_TRY_GOTO(st, qn_tensors_read_at(result, i, out[i]), done);
done:
  qn_tensors_release(in);
  qn_layout_free(&layout);
  qn_step_release(step);
  qn_treedef_free(&args);
  qn_treedef_free(&fn.result);
  return st;
}

static qn_status run_portion(search *s, size_t nodes, const uint32_t *ids, size_t count) {
  qn_graph *g = NULL;
  void **out = calloc(count + 1, sizeof *out);
  qn_status st = out ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory");
  for (size_t i = 0; st == QN_OK && i < count; i++)
    if (!(out[i] = calloc((size_t)qn_type_bytes(qn_graph_type(s->g, ids[i])) + 8, 1)))
      st = QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory for %s", qn_type_str(qn_graph_type(s->g, ids[i])));
  if (st == QN_OK)
    st = cut(s, nodes, ids, count, &g);
  if (st == QN_OK)
    st = s->device ? run_on_device(s, g, out) : qn_graph_eval_ref(g, s->inputs, out);
  for (size_t i = 0; st == QN_OK && i < count; i++)
    s->count[ids[i]] = qn_count_nans(qn_graph_type(s->g, ids[i]), out[i], &s->first[ids[i]]);
  for (size_t i = 0; out && i < count; i++)
    free(out[i]);
  free(out);
  qn_graph_release(g);
  return st;
}

/* ---- all of them ---- */
static void look_at_sources(search *s) {
  for (size_t i = 0; i < qn_graph_param_count(s->g); i++) {
    uint32_t id = qn_graph_param_at(s->g, i);
    s->count[id] = qn_count_nans(qn_graph_type(s->g, id), s->inputs[i], &s->first[id]);
  }
  for (uint32_t id = 1; id <= qn_graph_value_count(s->g); id++) {
    bool splat = false;
    const void *data = qn_graph_constant(s->g, id, &splat);
    qn_type t = *qn_graph_type(s->g, id);
    if (!data)
      continue;
    if (splat)
      t = qn_type_scalar(t.dtype);
    s->count[id] = qn_count_nans(&t, data, &s->first[id]);
  }
}

static qn_status look_at_all(search *s) {
  const qn_graph *g = s->g;
  size_t count = 0;
  int64_t bytes = 0;
  qn_status st = QN_OK;
  uint32_t *ids = calloc(PORTION_VALUES + QN_MAX_OPERANDS, sizeof *ids);
  if (!ids)
    return QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory");
  look_at_sources(s);
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    bool last = i + 1 == qn_graph_node_count(g);
    for (int k = 0; k < n->result_count && n->op != QN_OP_PARAMETER && n->op != QN_OP_CONSTANT; k++) {
      uint32_t id = n->first_result + (uint32_t)k;
      if (!may_hold(g, id) || qn_type_elements(qn_graph_type(g, id)) == 0)
        continue;
      ids[count++] = id;
      bytes += qn_type_bytes(qn_graph_type(g, id));
    }
    if (count && (last || count >= PORTION_VALUES || bytes >= PORTION_BYTES)) {
      QN_TRY_GOTO(st, run_portion(s, i + 1, ids, count), done);
      count = 0;
      bytes = 0;
    }
  }
done:
  free(ids);
  return st;
}

static size_t input_of(const qn_graph *g, uint32_t id) {
  size_t i = 0;
  while (i < qn_graph_param_count(g) && qn_graph_param_at(g, i) != id)
    i++;
  return i;
}

static void describe(const search *s, uint32_t id, qn_nan_report *r) {
  const qn_node *n = qn_graph_def(s->g, id);
  r->origin = n->op == QN_OP_PARAMETER ? QN_NAN_INPUT : n->op == QN_OP_CONSTANT ? QN_NAN_CONSTANT : QN_NAN_OPERATION;
  (void)snprintf(r->op, sizeof r->op, "%s", qn_op_get(n->op)->name);
  (void)snprintf(r->file, sizeof r->file, "%s", n->place.file ? n->place.file : "");
  r->line = n->place.line;
  r->column = n->place.column;
  r->type = *qn_graph_type(s->g, id);
  r->count = s->count[id];
  r->first = s->first[id];
  r->input = input_of(s->g, id);
}

/* Follows NaNs from the results; of the values whose operands have none, an operation is preferred, then the graph's order. */
static qn_status find_origin(const search *s, qn_nan_report *r) {
  const qn_graph *g = s->g;
  bool *reached = calloc(qn_graph_value_count(g) + 1, sizeof *reached);
  uint32_t operation = 0, source = 0;
  if (!reached)
    return QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory");
  for (size_t i = 0; i < qn_graph_result_count(g); i++)
    reached[qn_graph_result(g, i)] = s->count[qn_graph_result(g, i)] > 0;
  for (size_t i = qn_graph_node_count(g); i-- > 0;) {
    const qn_node *n = qn_graph_node(g, i);
    for (int k = 0; k < n->result_count; k++) {
      uint32_t id = n->first_result + (uint32_t)k;
      bool fresh = true;
      if (!reached[id])
        continue;
      for (int o = 0; o < n->operand_count; o++)
        if (s->count[n->operands[o]] > 0) {
          reached[n->operands[o]] = true;
          fresh = false;
        }
      if (fresh && n->operand_count)
        operation = id;
      else if (fresh)
        source = id;
    }
  }
  free(reached);
  if (operation || source)
    describe(s, operation ? operation : source, r);
  return QN_OK;
}

qn_status qn_check_nans(qn_device *d, qn_cache *cache, const qn_graph *g, const void *const *inputs,
                        qn_nan_report *out_report) {
  qn_graph *plain = NULL;
  qn_status st = QN_OK;
  search s = {.device = d, .cache = cache, .inputs = inputs};
  *out_report = (qn_nan_report){0};
  QN_TRY(qn_graph_plain(g, &plain)); /* so that what is inside of marks is looked at, too */
  s.g = plain;
  size_t values = qn_graph_value_count(plain) + 1;
  s.count = calloc(values, sizeof *s.count);
  s.first = calloc(values, sizeof *s.first);
  s.made = calloc(values, sizeof *s.made);
  if (!s.count || !s.first || !s.made)
    st = QN_ERR(QN_OUT_OF_MEMORY, "check for NaNs: no memory for %zu values", values);
  if (st == QN_OK)
    st = look_at_all(&s);
  if (st == QN_OK)
    st = find_origin(&s, out_report);
  free(s.count);
  free(s.first);
  free(s.made);
  qn_graph_release(plain);
  return st;
}

void qn_nan_report_print(const qn_nan_report *r, qn_text *out) {
  if (r->origin == QN_NAN_NONE) {
    qn_text_puts(out, "no result holds a NaN");
    return;
  }
  if (r->origin == QN_NAN_INPUT)
    qn_text_add(out, "input %zu brought %" PRId64 " NaN%s in %s", r->input, r->count, r->count == 1 ? "" : "s",
                qn_type_str(&r->type));
  else if (r->origin == QN_NAN_CONSTANT)
    qn_text_add(out, "a constant of %s holds a NaN", qn_type_str(&r->type));
  else
    qn_text_add(out, "%s made %" PRId64 " NaN%s in %s, the first at ", r->op, r->count, r->count == 1 ? "" : "s",
                qn_type_str(&r->type));
  if (r->origin == QN_NAN_OPERATION) {
    int64_t at[QN_MAX_RANK], rest = r->first;
    for (int i = r->type.rank - 1; i >= 0; i--) {
      at[i] = rest % r->type.dims[i];
      rest /= r->type.dims[i];
    }
    qn_text_puts(out, "[");
    for (int i = 0; i < r->type.rank; i++)
      qn_text_add(out, "%s%" PRId64, i ? "," : "", at[i]);
    qn_text_puts(out, "], of operands without any");
  }
  if (r->file[0] && r->origin != QN_NAN_INPUT && r->column)
    qn_text_add(out, " (%s:%d:%d)", r->file, r->line, r->column);
  else if (r->file[0] && r->origin != QN_NAN_INPUT)
    qn_text_add(out, " (%s:%d)", r->file, r->line);
}
