/* Derivatives of scatter by the body that it recognises. add and assignment are linear; an extreme shares equally among the operand element
 * and the updates that attain it; multiplication needs distinct indices for the updates. Windows that scatter drops take no part: gather
 * would clamp them, so what it reads for them is masked. */
#include "index_window.h"
#include "move_shape.h"

typedef struct view {
  qn_rule *r; /* of one array: operand, indices, updates */
  const qn_attr_scatter *a;
  qn_type x, indices, updates;
  qn_attr_gather gather; /* reads the windows that the scatter writes */
  int64_t room[QN_MAX_RANK];
  qn_dims counts; /* axes of the updates that count windows */
} view;

static view view_of(qn_rule *r) {
  view v = {.r = r, .a = r->attr};
  v.x = *qn_val_type(r->in[0]);
  v.indices = *qn_val_type(r->in[1]);
  v.updates = *qn_val_type(r->in[2]);
  qn_windows w = qn_windows_of_scatter(v.a, &v.x, &v.indices, &v.updates);
  v.counts = w.outer_count;
  v.gather = (qn_attr_gather){.offset_dims = v.a->update_window_dims,
                              .collapsed_slice_dims = v.a->inserted_window_dims,
                              .operand_batching_dims = v.a->input_batching_dims,
                              .start_indices_batching_dims = v.a->scatter_indices_batching_dims,
                              .start_index_map = v.a->scatter_dims_to_operand_dims,
                              .slice_sizes = w.size,
                              .index_vector_dim = v.a->index_vector_dim};
  for (int k = 0; k < w.map.n; ++k)
    v.room[k] = v.x.dims[w.map.d[k]] - w.size.d[w.map.d[k]];
  return v;
}

/* true, of the updates' shape, where the window fits. */
static qn_val fits(const view *v) {
  qn_val mask = qn_fitting_indices(v->r->in[1], v->a->index_vector_dim, v->room);
  return qn_broadcast_in_dim(mask, v->updates.rank, v->updates.dims, v->counts.d);
}

static qn_val windows_of(const view *v, qn_val x) { return qn_gather(x, v->r->in[1], &v->gather); }
static qn_val masked(qn_val mask, qn_val x) { return qn_select(mask, x, qn_like(x, 0.0)); }
static qn_val zeros_of_operand(const view *v) { return qn_zeros_of(v->r->g, v->r->in[0]); }
static qn_val scattered(const view *v, qn_val x, qn_val updates, qn_op op) {
  return qn_scatter_named(x, v->r->in[1], updates, v->a, op);
}

static qn_val sum_of(qn_val a, qn_val b) { return !qn_val_ok(a) ? b : !qn_val_ok(b) ? a : qn_add(a, b); }

/* Of each update element: true where it is the one that the operand's element got. Each window writes its number, and reads it back. */
static qn_val winners(const view *v) {
  if (v->a->unique_indices)
    return fits(v);
  qn_type number = {.dtype = QN_I32, .rank = 1}, ids = v->x;
  number.dims[0] = 1;
  for (int i = 0; i < v->counts.n; ++i)
    number.dims[0] *= v->updates.dims[v->counts.d[i]];
  if (number.dims[0] > INT32_MAX)
    number.dtype = QN_I64;
  qn_dims shape = {0};
  for (int i = 0; i < v->counts.n; ++i)
    shape.d[shape.n++] = v->updates.dims[v->counts.d[i]];
  ids.dtype = number.dtype;
  qn_val own = qn_reshape(qn_iota(v->r->g, number, 0), shape.n, shape.d);
  own = qn_broadcast_in_dim(own, v->updates.rank, v->updates.dims, v->counts.d);
  qn_val written = qn_scatter_named(qn_full(v->r->g, ids, -1.0), v->r->in[1], own, v->a, QN_OP_PARAMETER);
  return qn_and(qn_eq(windows_of(v, written), own), fits(v));
}

/* Shares of an extreme: masks of operand and updates that attain it, and how many do. Narrow floats count in f32. */
typedef struct ties {
  qn_val operand, updates, count;
  qn_dtype wide;
} ties;

static ties ties_of(const view *v) {
  qn_val y = v->r->out[0];
  ties t = {.wide = v->x.dtype == QN_F64 ? QN_F64 : QN_F32};
  t.operand = qn_eq(v->r->in[0], y);
  t.updates = qn_and(qn_eq(windows_of(v, y), v->r->in[2]), fits(v));
  t.count = scattered(v, qn_convert(t.operand, t.wide), qn_convert(t.updates, t.wide), QN_OP_ADD);
  return t;
}

static qn_val shared(const view *v, const ties *t, qn_val x) {
  bool narrow = t->wide != v->x.dtype;
  qn_val y = qn_div(narrow ? qn_convert(x, t->wide) : x, t->count);
  return narrow ? qn_convert(y, v->x.dtype) : y;
}

static bool known(qn_rule *r, qn_op op, bool updates_too, const char *mode) {
  const qn_attr_scatter *a = r->attr;
  const char *why = NULL;
  if (op != QN_OP_ADD && op != QN_OP_PARAMETER && op != QN_OP_MULTIPLY && op != QN_OP_MAXIMUM && op != QN_OP_MINIMUM)
    why = "its body is none of add, multiply, maximum, minimum or assignment";
  else if (op == QN_OP_MULTIPLY && updates_too && !a->unique_indices)
    why = "it multiplies updates whose indices are not marked unique";
  if (why != NULL)
    (void)qn_graph_fail(r->g, QN_HERE, QN_UNSUPPORTED, "scatter has no %s derivative: %s", mode, why);
  return why == NULL;
}

/* ---- several arrays ---- */
/* Array `i` of a scatter by itself. A body that is known gives each result from the pair of its own. */
typedef struct single {
  qn_rule r;
  qn_val in[3], given[3];
  bool wanted[3];
} single;

static single *single_of(qn_rule *r, int i, single *s) {
  int n = r->out_count, from[3] = {i, n, n + 1 + i};
  s->r = *r;
  s->r.in_count = 3;
  s->r.out_count = 1;
  s->r.in = s->in;
  s->r.out = r->out + i;
  s->r.given = s->given;
  s->r.wanted = s->wanted;
  for (int k = 0; k < 3; ++k) {
    s->in[k] = r->in[from[k]];
    s->given[k] = r->wanted != NULL ? (k == 0 ? r->given[i] : QN_NULL_VAL) : r->given[from[k]];
    s->wanted[k] = r->wanted != NULL && r->wanted[from[k]];
  }
  return s;
}

static void single_vjp(qn_rule *r, qn_op op, qn_val *out) {
  if (!known(r, op, r->wanted[2], "reverse"))
    return;
  view v = view_of(r);
  qn_val ct = r->given[0];
  bool x = r->wanted[0], u = r->wanted[2];
  if (qn_type_elements(&v.x) == 0 || qn_type_elements(&v.updates) == 0) {
    out[0] = x ? ct : QN_NULL_VAL;
    return;
  }
  if (op == QN_OP_ADD) {
    out[0] = x ? ct : QN_NULL_VAL;
    out[2] = u ? masked(fits(&v), windows_of(&v, ct)) : QN_NULL_VAL;
  } else if (op == QN_OP_PARAMETER) {
    out[0] = x ? scattered(&v, ct, qn_zeros_of(r->g, r->in[2]), QN_OP_PARAMETER) : QN_NULL_VAL;
    out[2] = u ? masked(winners(&v), windows_of(&v, ct)) : QN_NULL_VAL;
  } else if (op == QN_OP_MULTIPLY) {
    if (x)
      out[0] = qn_rule_product(ct, scattered(&v, qn_full(r->g, v.x, 1.0), r->in[2], QN_OP_MULTIPLY));
    if (u)
      out[2] = masked(fits(&v), windows_of(&v, qn_rule_product(ct, r->in[0])));
  } else {
    ties t = ties_of(&v);
    qn_val share = shared(&v, &t, ct);
    out[0] = x ? masked(t.operand, share) : QN_NULL_VAL;
    out[2] = u ? masked(t.updates, windows_of(&v, share)) : QN_NULL_VAL;
  }
}

static void single_jvp(qn_rule *r, qn_op op, qn_val *out) {
  bool x = qn_val_ok(r->given[0]), u = qn_val_ok(r->given[2]);
  if (!known(r, op, u, "forward"))
    return;
  view v = view_of(r);
  if (qn_type_elements(&v.x) == 0 || qn_type_elements(&v.updates) == 0) {
    out[0] = r->given[0];
    return;
  }
  if (op == QN_OP_ADD || op == QN_OP_PARAMETER) {
    out[0] = op == QN_OP_ADD && !u ? r->given[0] : scattered(&v, qn_given_or_zeros(r, 0), qn_given_or_zeros(r, 2), op);
  } else if (op == QN_OP_MULTIPLY) {
    qn_val from_x = QN_NULL_VAL, from_u = QN_NULL_VAL;
    if (x)
      from_x = qn_rule_product(r->given[0], scattered(&v, qn_full(r->g, v.x, 1.0), r->in[2], QN_OP_MULTIPLY));
    if (u)
      from_u = scattered(&v, zeros_of_operand(&v), qn_rule_product(r->given[2], windows_of(&v, r->in[0])), QN_OP_ADD);
    out[0] = sum_of(from_x, from_u);
  } else {
    ties t = ties_of(&v);
    qn_val total = x ? masked(t.operand, r->given[0]) : zeros_of_operand(&v);
    if (u)
      total = scattered(&v, total, masked(t.updates, r->given[2]), QN_OP_ADD);
    out[0] = shared(&v, &t, total);
  }
}

/* Bodies that are known use their pairs alone; another's captured values would have a derivative. */
static bool captures_are_idle(qn_rule *r, const char *mode) {
  int n = r->out_count;
  for (int i = 2 * n + 1; i < r->in_count; ++i) {
    if (r->wanted != NULL ? !r->wanted[i] : !qn_val_ok(r->given[i]))
      continue;
    for (int k = 0; k < n; ++k)
      if (!known(r, qn_combiner_op(r->node->regions[0], k), false, mode))
        return false;
  }
  return true;
}

void qn_scatter_vjp(qn_rule *r, qn_val *out) {
  int n = r->out_count;
  if (!captures_are_idle(r, "reverse"))
    return;
  for (int i = 0; i < n; ++i) {
    single s;
    qn_val back[3] = {QN_NULL_VAL, QN_NULL_VAL, QN_NULL_VAL};
    if (!qn_val_ok(r->given[i]) || (!r->wanted[i] && !r->wanted[n + 1 + i]))
      continue;
    single_vjp(&single_of(r, i, &s)->r, qn_combiner_op(r->node->regions[0], i), back);
    out[i] = back[0];
    out[n + 1 + i] = back[2];
  }
}

void qn_scatter_jvp(qn_rule *r, qn_val *out) {
  int n = r->out_count;
  if (!captures_are_idle(r, "forward"))
    return;
  for (int i = 0; i < n; ++i) {
    single s;
    if (qn_val_ok(r->given[i]) || qn_val_ok(r->given[n + 1 + i]))
      single_jvp(&single_of(r, i, &s)->r, qn_combiner_op(r->node->regions[0], i), &out[i]);
  }
}
