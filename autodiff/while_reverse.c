/* Loops in reverse. The number of iterations must be known. The forward loop is run with one more carry for each value that the way back
 * needs of an iteration: a stack with a row per iteration. The backward loop counts down through the stacks; its carries are the
 * cotangents of the carries and the gradients of the captures.
 *
 * What does not change between iterations (captures, carries handed on as they are) and the counter need no stack. */
#include "engine.h"

typedef struct loop {
  qn_call *c;
  int carries, captures;
  int64_t trips;
  qn_counted counted;
  qn_graph *joint; /* (carries, captures, cotangents of carries in ct) -> carries, gradients in has */
  bool *ct, *has;  /* by carry; by operand */
  bool *reads; /* by carry in ct: its cotangent is only read, a row each time, so that it is no carry of the way back */
  qn_split split;
  qn_val *stacks; /* in g, one per residual */
} loop;

static qn_type stacked_type(const qn_type *t, int64_t n) {
  int64_t dims[QN_MAX_RANK + 1] = {n};
  for (int k = 0; k < t->rank; ++k)
    dims[k + 1] = t->dims[k];
  return qn_type_make(t->dtype, t->rank + 1, dims);
}

/* ---- what is needed ---- */
/* Carries that depend on what is differentiated. */
static qn_status find_varying(qn_call *c, bool *varies) {
  const qn_node *node = c->node;
  bool *results = QN_NEW(c->scratch, bool, node->result_count + 1), grown = true;
  if (results == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  for (int i = 0; i < node->operand_count; ++i)
    varies[i] = c->wanted[i];
  while (grown) {
    grown = false;
    qn_reach(node->regions[1], varies, results, c->scratch);
    for (int i = 0; i < node->result_count; ++i) {
      grown = grown || (results[i] && !varies[i]);
      varies[i] = varies[i] || results[i];
    }
  }
  return QN_OK;
}

/* The body pulled back, with a cotangent for every carry that gets one on the way. */
static qn_status find_joint(loop *l, const bool *varies) {
  const qn_node *node = l->c->node;
  for (bool grown = true; grown;) {
    grown = false;
    QN_TRY(qn_region_vjp(node->regions[1], varies, l->ct, l->has, l->c->scratch, &l->joint));
    for (int i = 0; i < l->carries; ++i) {
      grown = grown || (l->has[i] && !l->ct[i]);
      l->ct[i] = l->ct[i] || l->has[i];
    }
    if (grown) {
      qn_graph_release(l->joint);
      l->joint = NULL;
    }
  }
  /* Stacks are in the order of nodes: that of the graph rebuilt, which no compiler's order of evaluation decides. */
  qn_graph *made = l->joint;
  l->joint = NULL;
  qn_status st = qn_graph_rebuild(made, NULL, NULL, &l->joint);
  qn_graph_release(made);
  return st;
}

/* ---- cotangents that are only read ---- */
/* Is v the counter, or a constant less it, and so another row in 0 .. rows - 1 in every iteration? */
static bool is_row_of_its_own(const loop *l, uint32_t v, int64_t rows) {
  const qn_graph *j = l->joint;
  if (l->counted.counter < 0)
    return false;
  uint32_t counter = qn_graph_param_at(j, (size_t)l->counted.counter);
  int64_t first = l->counted.start, step = l->counted.step;
  const qn_node *n = qn_graph_def(j, v);
  double from;
  if (v != counter) {
    if (n->op != QN_OP_SUBTRACT || n->operands[1] != counter || !qn_graph_constant_at(j, n->operands[0], 0, &from))
      return false;
    first = (int64_t)from - first;
    step = -step;
  }
  int64_t last = first + (l->trips - 1) * step;
  return step != 0 && first >= 0 && first < rows && last >= 0 && last < rows;
}

/* ct with zeros written over the row that this iteration reads: by whoever reads a row once, the zeros are never seen. */
static const qn_node *clears_row(const loop *l, uint32_t ct, uint32_t made) {
  const qn_graph *j = l->joint;
  const qn_node *n = qn_graph_def(j, made);
  bool splat = false, own = false;
  double x = 1;
  if (n->op != QN_OP_DYNAMIC_UPDATE_SLICE || n->operands[0] != ct || !qn_graph_constant(j, n->operands[1], &splat) ||
      !splat || !qn_graph_constant_at(j, n->operands[1], 0, &x) || x != 0)
    return NULL;
  const qn_type *t = qn_graph_type(j, ct), *row = qn_graph_type(j, n->operands[1]);
  for (int k = 0; k < t->rank; ++k)
    own = own || (row->dims[k] == 1 && is_row_of_its_own(l, n->operands[2 + k], t->dims[k]));
  return own ? n : NULL;
}

static bool reads_same_row(const loop *l, const qn_node *n, const qn_node *clear) {
  const qn_type *row = qn_graph_type(l->joint, clear->operands[1]);
  if (n->op != QN_OP_DYNAMIC_SLICE || !qn_type_equal(qn_graph_type(l->joint, n->first_result), row))
    return false;
  for (int k = 1; k < n->operand_count; ++k)
    if (n->operands[k] != clear->operands[k + 1])
      return false;
  return true;
}

/* The carry's cotangent is number `param` of joint's parameters and comes back as its result number `result`. */
static bool is_only_read(const loop *l, size_t param, size_t result) {
  const qn_graph *j = l->joint;
  uint32_t ct = qn_graph_param_at(j, param), made = qn_graph_result(j, result);
  const qn_node *clear = clears_row(l, ct, made);
  if (clear == NULL)
    return false;
  for (size_t i = 0; i < qn_graph_node_count(j); ++i) {
    const qn_node *n = qn_graph_node(j, i);
    for (int k = 0; k < n->operand_count; ++k)
      if (n->operands[k] == made || (n->operands[k] == ct && n != clear && !(k == 0 && reads_same_row(l, n, clear))))
        return false;
  }
  for (size_t i = 0; i < qn_graph_result_count(j); ++i)
    if (i != result && (qn_graph_result(j, i) == made || qn_graph_result(j, i) == ct))
      return false;
  return true;
}

static void find_reads(loop *l) {
  size_t param = (size_t)l->c->node->operand_count, result = (size_t)l->carries;
  for (int i = 0; i < l->carries; ++i) {
    if (l->ct[i] && l->has[i] && !l->c->wanted[i])
      l->reads[i] = is_only_read(l, param, result);
    param += l->ct[i];
    result += l->has[i];
  }
}

static bool carries_back(const loop *l, int i) { return l->ct[i] && !l->reads[i]; }

static bool split_joint(loop *l) {
  qn_call *c = l->c;
  size_t params = qn_graph_param_count(l->joint), own = (size_t)c->node->operand_count;
  bool *late = QN_NEW(c->scratch, bool, params + 1), *free_ = QN_NEW(c->scratch, bool, params + 1);
  if (!late || !free_)
    return qn_no_memory(c->g);
  for (size_t i = 0; i < params; ++i) {
    late[i] = i >= own;
    free_[i] = i < own && ((int)i == l->counted.counter || qn_while_invariant(c->node, (int)i));
  }
  l->split = (qn_split){
      .j = l->joint, .early_results = (size_t)l->carries, .late = late, .free_ = free_, .scratch = c->scratch};
  return qn_split_make(&l->split) || qn_no_memory(c->g);
}

/* ---- forward ---- */
/* Parameters of both loops' regions and of the node itself, in order. */
typedef struct frame {
  qn_graph *g;
  qn_val *v;
  size_t n;
} frame;

static bool open_frame(frame *f, qn_arena *scratch, size_t most) {
  f->n = 0;
  f->v = QN_NEW(scratch, qn_val, most + 1);
  f->g = NULL;
  return f->v != NULL && qn_graph_create("iteration", &f->g) == QN_OK;
}

static qn_val frame_param(frame *f, qn_type t) { return f->v[f->n++] = qn_graph_param(f->g, t, NULL); }

static const qn_type *residual_type(const loop *l, size_t r) { return qn_graph_type(l->joint, l->split.residuals[r]); }

static void row_starts(qn_val index, int rank, qn_val *starts) {
  starts[0] = index;
  for (int k = 1; k <= rank; ++k)
    starts[k] = qn_like(index, 0);
}

/* Carries, the iteration's number, stacks, captures. */
static void forward_params(const loop *l, frame *f) {
  const qn_call *c = l->c;
  for (int i = 0; i < l->carries; ++i)
    (void)frame_param(f, *qn_val_type(c->in[i]));
  (void)frame_param(f, qn_type_scalar(QN_I32));
  for (size_t r = 0; r < l->split.residual_count; ++r)
    (void)frame_param(f, stacked_type(residual_type(l, r), l->trips));
  for (int i = 0; i < l->captures; ++i)
    (void)frame_param(f, *qn_val_type(c->in[l->carries + i]));
}

static void own_args(const loop *l, const frame *f, qn_val *args) {
  size_t first_capture = f->n - (size_t)l->captures;
  for (int i = 0; i < l->carries; ++i)
    args[i] = f->v[i];
  for (int i = 0; i < l->captures; ++i)
    args[l->carries + i] = f->v[first_capture + (size_t)i];
}

static qn_status forward_cond(const loop *l, frame *f, qn_graph **out) {
  const qn_node *node = l->c->node;
  qn_val *args = QN_NEW(l->c->scratch, qn_val, node->operand_count + 1), pred = QN_NULL_VAL;
  forward_params(l, f);
  if (args == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  own_args(l, f, args);
  (void)qn_graph_inline(f->g, node->regions[0], args, (size_t)node->operand_count, &pred);
  return qn_finish(f->g, &pred, 1, out);
}

static qn_status forward_body(const loop *l, frame *f, qn_graph **out) {
  size_t residuals = l->split.residual_count, n = (size_t)l->carries;
  qn_arena *scratch = l->c->scratch;
  qn_val *args = QN_NEW(scratch, qn_val, qn_graph_param_count(l->joint) + 1);
  qn_val *results = QN_NEW(scratch, qn_val, n + 1 + residuals), *rows = QN_NEW(scratch, qn_val, residuals + 1);
  forward_params(l, f);
  if (!args || !results || !rows)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  own_args(l, f, args);
  qn_val index = f->v[n];
  if (qn_split_first(&l->split, f->g, args, results, rows)) {
    results[n] = qn_add(index, qn_like(index, 1));
    for (size_t r = 0; r < residuals; ++r) {
      qn_val starts[QN_MAX_RANK + 1];
      qn_type row = stacked_type(residual_type(l, r), 1);
      row_starts(index, row.rank - 1, starts);
      results[n + 1 + r] = qn_dynamic_update_slice(f->v[n + 1 + r], qn_reshape(rows[r], row.rank, row.dims), starts);
    }
  }
  return qn_finish(f->g, results, n + 1 + residuals, out);
}

static qn_status run_forward(loop *l) {
  qn_call *c = l->c;
  size_t residuals = l->split.residual_count, most = (size_t)c->node->operand_count + 1 + residuals, n = 0;
  frame cond, body;
  qn_graph *regions[2] = {NULL, NULL};
  qn_val *in = QN_NEW(c->scratch, qn_val, most + 1);
  l->stacks = QN_NEW(c->scratch, qn_val, residuals + 1);
  if (!in || !l->stacks || !open_frame(&cond, c->scratch, most))
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  QN_TRY(forward_cond(l, &cond, &regions[0]));
  qn_status st = open_frame(&body, c->scratch, most) ? forward_body(l, &body, &regions[1])
                                                     : QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  if (st == QN_OK) {
    for (int i = 0; i < l->carries; ++i)
      in[n++] = c->in[i];
    in[n++] = qn_scalar(c->g, QN_I32, 0);
    for (size_t r = 0; r < residuals; ++r)
      in[n++] = qn_full(c->g, stacked_type(residual_type(l, r), l->trips), 0);
    for (int i = 0; i < l->captures; ++i)
      in[n++] = c->in[l->carries + i];
    qn_attr_while attr = {l->trips};
    qn_val first = qn_graph_add(c->g, QN_OP_WHILE, in, n, &attr, regions, 2, c->node->place);
    for (int i = 0; i < l->carries && qn_val_ok(first); ++i)
      c->out[i] = qn_val_result(first, i);
    for (size_t r = 0; r < residuals && qn_val_ok(first); ++r)
      l->stacks[r] = qn_val_result(first, l->carries + 1 + (int)r);
  }
  qn_graph_release(regions[0]);
  qn_graph_release(regions[1]);
  return st;
}

static bool copy_loop(qn_call *c) {
  qn_val first = qn_graph_copy_node(c->g, c->f, c->node, c->in);
  for (int i = 0; i < c->node->result_count && qn_val_ok(first); ++i)
    c->out[i] = qn_val_result(first, i);
  return qn_val_ok(first);
}

static qn_status prepare(loop *l, const bool *varies) {
  if (l->trips < 0)
    return QN_ERR(QN_UNSUPPORTED,
                  "while: no reverse derivative of a loop whose number of iterations is known only when it runs; use "
                  "qn_scan, qn_fori between constants, or forward mode");
  if (l->trips == 0)
    return QN_OK;
  QN_TRY(find_joint(l, varies));
  find_reads(l);
  if (!split_joint(l))
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  return run_forward(l);
}

bool qn_while_forward(qn_call *c) {
  const qn_node *node = c->node;
  loop *l = QN_NEW(c->scratch, loop, 1);
  bool *varies = QN_NEW(c->scratch, bool, node->operand_count + 1), any = false;
  if (!l || !varies)
    return qn_no_memory(c->g);
  *l = (loop){.c = c, .carries = node->result_count, .captures = node->operand_count - node->result_count};
  l->ct = QN_NEW(c->scratch, bool, l->carries + 1);
  l->has = QN_NEW(c->scratch, bool, node->operand_count + 1);
  l->reads = QN_NEW(c->scratch, bool, l->carries + 1);
  if (!l->ct || !l->has || !l->reads)
    return qn_no_memory(c->g);
  qn_status st = find_varying(c, varies);
  for (int i = 0; i < l->carries; ++i) {
    l->ct[i] = c->felt[i] && varies[i];
    any = any || l->ct[i];
  }
  if (st == QN_OK && !any)
    return copy_loop(c);
  (void)qn_while_counted(c->f, node, &l->counted);
  if (!l->counted.has_start)
    l->counted.counter = -1;
  l->trips = l->counted.trips;
  if (st == QN_OK)
    st = prepare(l, varies);
  if (st == QN_OK && l->trips == 0)
    for (int i = 0; i < l->carries; ++i)
      c->out[i] = c->in[i];
  if (st != QN_OK) {
    qn_graph_release(l->joint);
    return qn_call_failed(c, st);
  }
  c->kept = l;
  return !qn_graph_failed(c->g);
}

void qn_while_drop(void *kept) { qn_graph_release(((loop *)kept)->joint); }

/* ---- backward ---- */
/* The number of iterations done, cotangents of carries, gradients of captures; then captures, first values of carries that stay, cotangents that
 * are only read, stacks. */
static bool stays(const loop *l, int i) { return i < l->carries && qn_while_invariant(l->c->node, i); }

static size_t back_operands(const loop *l, qn_graph *g, qn_val *v) {
  const qn_call *c = l->c;
  size_t n = 0;
  v[n++] = qn_scalar(g, QN_I32, 0);
  for (int i = 0; i < l->carries; ++i)
    if (carries_back(l, i))
      v[n++] = qn_val_ok(c->given[i]) ? c->given[i] : qn_zeros_like(c->in[i]);
  for (int i = 0; i < l->captures; ++i)
    if (l->has[l->carries + i])
      v[n++] = qn_zeros_like(c->in[l->carries + i]);
  for (int i = 0; i < l->captures; ++i)
    v[n++] = c->in[l->carries + i];
  for (int i = 0; i < l->carries; ++i)
    if (stays(l, i))
      v[n++] = c->in[i];
  for (int i = 0; i < l->carries; ++i)
    if (l->reads[i])
      v[n++] = qn_val_ok(c->given[i]) ? c->given[i] : qn_zeros_like(c->in[i]);
  for (size_t r = 0; r < l->split.residual_count; ++r)
    v[n++] = l->stacks[r];
  return n;
}

/* Arguments of the second half: what is free, the cotangents, the rows. `at`: the frame behind its carries. */
static void back_args(const loop *l, const frame *f, size_t at, qn_val index, qn_val *args, qn_val *rows) {
  const qn_call *c = l->c;
  size_t cts = 1, own = (size_t)c->node->operand_count;
  for (int i = 0; i < l->captures; ++i)
    args[l->carries + i] = f->v[at++];
  for (int i = 0; i < l->carries; ++i)
    if (stays(l, i))
      args[i] = f->v[at++];
  for (int i = 0; i < l->carries; ++i)
    if (l->ct[i])
      args[own++] = l->reads[i] ? f->v[at++] : f->v[cts++];
  if (l->counted.counter >= 0) {
    qn_val k = qn_convert(index, qn_val_type(c->in[l->counted.counter])->dtype);
    args[l->counted.counter] =
        qn_add(qn_mul(k, qn_like(k, (double)l->counted.step)), qn_like(k, (double)l->counted.start));
  }
  for (size_t r = 0; r < l->split.residual_count; ++r) {
    qn_val starts[QN_MAX_RANK + 1];
    qn_type t = *residual_type(l, r), row = stacked_type(&t, 1);
    row_starts(index, t.rank, starts);
    rows[r] = qn_reshape(qn_dynamic_slice(f->v[at++], starts, row.dims), t.rank, t.dims);
  }
}

static qn_status back_body(const loop *l, frame *f, size_t carried, qn_graph **out) {
  qn_arena *scratch = l->c->scratch;
  qn_val *args = QN_NEW(scratch, qn_val, qn_graph_param_count(l->joint) + 1),
         *rows = QN_NEW(scratch, qn_val, l->split.residual_count + 1);
  qn_val *grads = QN_NEW(scratch, qn_val, qn_graph_result_count(l->joint) + 1),
         *results = QN_NEW(scratch, qn_val, carried + 1);
  if (!args || !rows || !grads || !results)
    return QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
  qn_val k = f->v[0], index = qn_sub(qn_like(k, (double)(l->trips - 1)), k);
  size_t n = 0, at = 0;
  back_args(l, f, carried, index, args, rows);
  results[n++] = qn_add(k, qn_like(k, 1));
  if (qn_split_second(&l->split, f->g, args, rows, grads)) {
    for (int i = 0; i < l->carries; ++i)
      if (l->reads[i]) {
        at++;
      } else if (l->ct[i]) {
        results[n] = l->has[i] ? grads[at++] : qn_zeros_like(f->v[n]);
        n++;
      }
    for (int i = 0; i < l->captures; ++i)
      if (l->has[l->carries + i]) {
        results[n] = qn_add_cotangents(f->v[n], grads[at++]);
        n++;
      }
  }
  return qn_finish(f->g, results, carried, out);
}

static qn_status run_back(loop *l, qn_val *in, size_t n, size_t carried) {
  qn_call *c = l->c;
  frame part[2];
  qn_graph *regions[2] = {NULL, NULL};
  qn_status st = QN_OK;
  for (int r = 0; r < 2 && st == QN_OK; ++r) {
    if (!open_frame(&part[r], c->scratch, n))
      st = QN_ERR(QN_OUT_OF_MEMORY, "while: out of memory");
    for (size_t i = 0; i < n && st == QN_OK; ++i)
      (void)frame_param(&part[r], *qn_val_type(in[i]));
    if (st == QN_OK && r == 0) {
      qn_val pred = qn_lt(part[0].v[0], qn_like(part[0].v[0], (double)l->trips));
      st = qn_finish(part[0].g, &pred, 1, &regions[0]);
    } else if (st == QN_OK) {
      st = back_body(l, &part[1], carried, &regions[1]);
    }
  }
  if (st == QN_OK) {
    qn_attr_while attr = {l->trips};
    qn_val first = qn_graph_add(c->g, QN_OP_WHILE, in, n, &attr, regions, 2, c->node->place);
    int at = 1;
    for (int i = 0; i < c->node->operand_count && qn_val_ok(first); ++i)
      if (i < l->carries ? carries_back(l, i) : l->has[i]) {
        qn_val grad = qn_val_result(first, at++);
        if (c->wanted[i])
          c->out[i] = grad;
      }
  }
  qn_graph_release(regions[0]);
  qn_graph_release(regions[1]);
  return st;
}

bool qn_while_back(qn_call *c) {
  loop *l = c->kept;
  if (l == NULL)
    return true;
  l->c = c;
  if (l->trips == 0) {
    for (int i = 0; i < l->carries; ++i)
      c->out[i] = c->given[i];
    return true;
  }
  size_t most = 2 * (size_t)c->node->operand_count + 2 * (size_t)l->carries + l->split.residual_count + 2, carried = 1;
  qn_val *in = QN_NEW(c->scratch, qn_val, most);
  if (in == NULL)
    return qn_no_memory(c->g);
  for (int i = 0; i < l->carries; ++i)
    carried += carries_back(l, i);
  for (int i = 0; i < l->captures; ++i)
    carried += l->has[l->carries + i];
  size_t n = back_operands(l, c->g, in);
  qn_status st = run_back(l, in, n, carried);
  return st == QN_OK ? !qn_graph_failed(c->g) : qn_call_failed(c, st);
}
