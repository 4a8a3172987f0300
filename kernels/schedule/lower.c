/* Rewrites before scheduling, decided by shapes alone, so that every device and every fusion sees the same arithmetic:
 *   dot-as-reduce      a contraction without free right axes is a product and a sum, in the order of sums
 *   dot-right-order    the right operand is brought to [batch, contracted, free], so that lanes read neighbours
 *   dot-transposed     a contraction that is only read with rows and columns exchanged is made that way round
 *   split-reduce       a reduction of many elements to few results goes in two steps, so that it has something to run side by side */
#include "complex.h"
#include "lower.h"

#include <stdlib.h>
#include <string.h>

#include "quern/op.h"
#include "quern/ops.h"

enum { SPLIT_ELEMENTS = 8192, SPLIT_RESULTS = 256, SPLIT_MAX = 64, SPLIT_MIN = 4 };

typedef struct lowering {
  const qn_graph *from;
  qn_graph *to;
  qn_val *map;    /* by value id of `from` */
  uint32_t *uses; /* likewise */
  qn_text *log;
} lowering;

static const qn_type *type_of(const lowering *l, uint32_t v) { return qn_graph_type(l->from, v); }

static void note(lowering *l, const char *rule, const qn_node *n) {
  if (l->log)
    qn_text_add(l->log, "%s: %s %s (%s:%d)\n", rule, qn_op_get(n->op)->name, qn_type_str(type_of(l, n->first_result)),
                n->place.file ? n->place.file : "?", n->place.line);
}

/* ---- dot-as-reduce ---- */

static bool dot_as_reduce(lowering *l, const qn_node *n, qn_val *out) {
  const qn_attr_dot *a = n->attr;
  const qn_type *lt = type_of(l, n->operands[0]), *rt = type_of(l, n->operands[1]), *t = type_of(l, n->first_result);
  int64_t free_elements = 1, dims[QN_MAX_RANK], axes[QN_MAX_RANK];
  for (int i = 0; i < rt->rank; i++)
    if (!qn_dims_has(&a->rhs_batch, i) && !qn_dims_has(&a->rhs_contract, i))
      free_elements *= rt->dims[i];
  if (free_elements != 1 || lt->dtype == QN_BOOL || qn_dtype_is_complex(lt->dtype))
    return false;
  /* the right operand without its unit axes, each axis sent to the left one that it meets */
  int rank = 0;
  for (int i = 0; i < rt->rank; i++) {
    int64_t where = -1;
    for (int j = 0; j < a->rhs_batch.n; j++)
      where = a->rhs_batch.d[j] == i ? a->lhs_batch.d[j] : where;
    for (int j = 0; j < a->rhs_contract.n; j++)
      where = a->rhs_contract.d[j] == i ? a->lhs_contract.d[j] : where;
    if (where < 0)
      continue;
    dims[rank] = rt->dims[i];
    axes[rank++] = where;
  }
  qn_dtype w = qn_dtype_size(qn_dtype_wide(t->dtype)) > qn_dtype_size(qn_dtype_wide(lt->dtype))
                   ? qn_dtype_wide(t->dtype)
                   : qn_dtype_wide(lt->dtype);
  qn_val x = qn_convert_at(n->place, l->map[n->operands[0]], w);
  qn_val y = qn_reshape_at(n->place, qn_convert_at(n->place, l->map[n->operands[1]], w), rank, dims);
  y = qn_broadcast_in_dim_at(n->place, y, lt->rank, lt->dims, axes);
  qn_val sum =
      qn_reduce_op_at(n->place, qn_multiply_at(n->place, x, y), QN_OP_ADD, a->lhs_contract.n, a->lhs_contract.d, false);
  if (a->lhs_contract.n == 0)
    sum = qn_multiply_at(n->place, x, y);
  int64_t permutation[QN_MAX_RANK];
  int kept = 0, batch_at = 0;
  for (int pass = 0; pass < 2; pass++) { /* batch axes in the attribute's order, then free ones */
    if (pass == 0)
      for (int j = 0; j < a->lhs_batch.n; j++) {
        int before = 0;
        for (int i = 0; i < a->lhs_batch.d[j]; i++)
          before += !qn_dims_has(&a->lhs_contract, i);
        permutation[kept++] = before;
      }
    for (int i = 0; pass == 1 && i < lt->rank; i++) {
      if (qn_dims_has(&a->lhs_contract, i))
        continue;
      if (!qn_dims_has(&a->lhs_batch, i))
        permutation[kept++] = batch_at;
      batch_at++;
    }
  }
  sum = qn_transpose_at(n->place, sum, permutation);
  *out = qn_convert_at(n->place, qn_reshape_at(n->place, sum, t->rank, t->dims), t->dtype);
  note(l, "dot-as-reduce", n);
  return true;
}

/* ---- dot-right-order ---- */

static bool right_order(lowering *l, const qn_node *n, qn_val lhs, qn_val rhs_in, const qn_attr_dot *a, qn_val *out) {
  const qn_type *rt = qn_val_type(rhs_in);
  int minor = rt->rank - 1;
  while (minor >= 0 && rt->dims[minor] == 1)
    minor--;
  if (minor < 0 || !qn_dims_has(&a->rhs_contract, minor))
    return false;
  int64_t permutation[QN_MAX_RANK];
  int k = 0;
  qn_attr_dot dims = *a;
  for (int i = 0; i < a->rhs_batch.n; i++) {
    dims.rhs_batch.d[i] = k;
    permutation[k++] = a->rhs_batch.d[i];
  }
  for (int i = 0; i < a->rhs_contract.n; i++) {
    dims.rhs_contract.d[i] = k;
    permutation[k++] = a->rhs_contract.d[i];
  }
  for (int i = 0; i < rt->rank; i++)
    if (!qn_dims_has(&a->rhs_batch, i) && !qn_dims_has(&a->rhs_contract, i))
      permutation[k++] = i;
  qn_val rhs = qn_transpose_at(n->place, rhs_in, permutation);
  *out = qn_dot_general_at(n->place, lhs, rhs, &dims, type_of(l, n->first_result)->dtype);
  note(l, "dot-right-order", n);
  return true;
}

/* ---- dot-transposed ---- */

/* Is the transpose an exchange of the left and right free axes behind the batch axes? */
static bool exchanges(const lowering *l, const qn_node *dot, const qn_dims *permutation) {
  const qn_attr_dot *a = dot->attr;
  int batch = a->lhs_batch.n, left = type_of(l, dot->operands[0])->rank - batch - a->lhs_contract.n,
      right = permutation->n - batch - left;
  for (int i = 0; i < permutation->n; i++) {
    int want = i < batch ? i : i < batch + right ? i + left : i - right;
    if (permutation->d[i] != want)
      return false;
  }
  return true;
}

static bool dot_transposed(lowering *l, const qn_node *n, qn_val *out) {
  const qn_node *dot = qn_graph_def(l->from, n->operands[0]);
  if (dot->op != QN_OP_DOT_GENERAL || qn_val_ok(l->map[n->operands[0]]) || l->uses[n->operands[0]] != 1 ||
      !exchanges(l, dot, &((const qn_attr_dims *)n->attr)->dims))
    return false;
  const qn_attr_dot *a = dot->attr;
  qn_attr_dot swapped = {.lhs_batch = a->rhs_batch,
                         .rhs_batch = a->lhs_batch,
                         .lhs_contract = a->rhs_contract,
                         .rhs_contract = a->lhs_contract};
  qn_val lhs = l->map[dot->operands[1]], rhs = l->map[dot->operands[0]];
  if (!right_order(l, dot, lhs, rhs, &swapped, out))
    *out = qn_dot_general_at(dot->place, lhs, rhs, &swapped, type_of(l, n->first_result)->dtype);
  note(l, "dot-transposed", n);
  return true;
}

/* A contraction whose only reader is such a transpose is made there. */
static bool left_to_transpose(const lowering *l, const qn_node *dot) {
  if (l->uses[dot->first_result] != 1)
    return false;
  for (size_t i = qn_graph_def_index(l->from, dot->first_result) + 1; i < qn_graph_node_count(l->from); i++) {
    const qn_node *n = qn_graph_node(l->from, i);
    for (int j = 0; j < n->operand_count; j++)
      if (n->operands[j] == dot->first_result)
        return n->op == QN_OP_TRANSPOSE && exchanges(l, dot, &((const qn_attr_dims *)n->attr)->dims);
  }
  return false;
}

static bool lower_dot(lowering *l, const qn_node *n, qn_val *out) {
  if (dot_as_reduce(l, n, out))
    return true;
  if (left_to_transpose(l, n)) {
    *out = QN_NULL_VAL;
    return true;
  }
  return right_order(l, n, l->map[n->operands[0]], l->map[n->operands[1]], n->attr, out);
}

/* ---- split-reduce ---- */

qn_op qn_simple_body(const qn_graph *body) {
  static const qn_op ops[] = {QN_OP_ADD, QN_OP_MULTIPLY, QN_OP_MAXIMUM, QN_OP_MINIMUM, QN_OP_AND, QN_OP_OR, QN_OP_XOR};
  if (qn_graph_param_count(body) != 2 || qn_graph_result_count(body) != 1)
    return QN_OP_NONE;
  const qn_node *n = qn_graph_def(body, qn_graph_result(body, 0));
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (n->op == ops[i] && n->operands[0] == qn_graph_param_at(body, 0) && n->operands[1] == qn_graph_param_at(body, 1))
      return n->op;
  return QN_OP_NONE;
}

static int64_t split_factor(int64_t n) {
  for (int64_t s = SPLIT_MAX; s >= SPLIT_MIN; s--)
    if (n % s == 0)
      return s;
  return 1;
}

/* The first reduced axis is cut in [s, n/s]; the inner part is reduced with the other axes first. Only where
 * the first axis is reduced: elsewhere there are results enough. */
static bool split_reduce(lowering *l, const qn_node *n, qn_val *out) {
  const qn_dims *axes = &((const qn_attr_dims *)n->attr)->dims;
  const qn_type *x = type_of(l, n->operands[0]), *t = type_of(l, n->first_result);
  if (n->operand_count != 2 || !qn_dims_has(axes, 0))
    return false;
  qn_op op = qn_simple_body(n->regions[0]);
  int64_t results = qn_type_elements(t), s = split_factor(x->dims[0]), dims[QN_MAX_RANK], inner[QN_MAX_RANK];
  if (op == QN_OP_NONE || results == 0 || results > SPLIT_RESULTS || qn_type_elements(x) / results < SPLIT_ELEMENTS ||
      s == 1 || x->rank == QN_MAX_RANK)
    return false;
  dims[0] = s;
  dims[1] = x->dims[0] / s;
  for (int i = 1; i < x->rank; i++)
    dims[i + 1] = x->dims[i];
  for (int i = 0; i < axes->n; i++)
    inner[i] = i + 1;
  qn_val part = qn_convert_at(n->place, qn_reshape_at(n->place, l->map[n->operands[0]], x->rank + 1, dims),
                              op == QN_OP_ADD || op == QN_OP_MULTIPLY ? qn_dtype_wide(x->dtype) : x->dtype);
  part = qn_reduce_op_at(n->place, part, op, axes->n, inner, false);
  int64_t zero = 0;
  qn_val whole = qn_reduce_op_at(n->place, part, op, 1, &zero, false);
  qn_val init = qn_convert_at(n->place, l->map[n->operands[1]], qn_val_type(whole)->dtype);
  init = qn_broadcast_to_at(n->place, init, t->rank, t->dims);
  qn_val in[2] = {init, whole};
  *out = qn_convert_at(n->place, qn_graph_add(l->to, op, in, 2, NULL, NULL, 0, n->place), t->dtype);
  note(l, "split-reduce", n);
  return true;
}

/* ---- the pass ---- */

static const struct {
  qn_op op;
  bool (*rule)(lowering *l, const qn_node *n, qn_val *out);
} rules[] = {{QN_OP_DOT_GENERAL, lower_dot}, {QN_OP_TRANSPOSE, dot_transposed}, {QN_OP_REDUCE, split_reduce}};

static void lower_node(lowering *l, const qn_node *n) {
  qn_val out = QN_NULL_VAL, in[8], *operands = in, *heap = NULL;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (rules[i].op == n->op && rules[i].rule(l, n, &out)) {
      l->map[n->first_result] = out;
      return;
    }
  if (n->operand_count > 8)
    operands = heap = malloc((size_t)n->operand_count * sizeof *heap);
  if (!operands) {
    (void)qn_graph_fail(l->to, n->place, QN_OUT_OF_MEMORY, "no memory to lower %s", qn_op_get(n->op)->name);
    return;
  }
  for (int i = 0; i < n->operand_count; i++)
    operands[i] = l->map[n->operands[i]];
  if (n->op == QN_OP_WHILE) {
    (void)qn_lower_loop(l->to, n, operands, l->log, l->map + n->first_result);
    free(heap);
    return;
  }
  out = qn_graph_copy_node(l->to, l->from, n, operands);
  for (int i = 0; i < n->result_count; i++)
    l->map[n->first_result + (uint32_t)i] = qn_val_result(out, i);
  free(heap);
}

static void count_uses(lowering *l) {
  for (size_t i = 0; i < qn_graph_node_count(l->from); i++) {
    const qn_node *n = qn_graph_node(l->from, i);
    for (int j = 0; j < n->operand_count; j++)
      l->uses[n->operands[j]]++;
  }
  for (size_t i = 0; i < qn_graph_result_count(l->from); i++)
    l->uses[qn_graph_result(l->from, i)]++;
}

static qn_status lower_shapes(const qn_graph *g, qn_text *log, qn_graph **out_graph) {
  lowering l = {.from = g, .log = log};
  qn_val *results = NULL;
  *out_graph = NULL;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_graph_create(qn_graph_name(g), &l.to), done);
  size_t count = qn_graph_result_count(g);
  l.map = calloc(qn_graph_value_count(g) + 1, sizeof *l.map);
  l.uses = calloc(qn_graph_value_count(g) + 1, sizeof *l.uses);
  results = calloc(count + 1, sizeof *results);
  if (!l.map || !l.uses || !results) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "no memory to lower a graph of %zu nodes", qn_graph_node_count(g));
    goto done;
  }
  count_uses(&l);
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    uint32_t v = qn_graph_param_at(g, i);
    l.map[v] = qn_graph_param(l.to, *qn_graph_type(g, v), qn_graph_param_path(g, i));
  }
  for (size_t i = 0; i < qn_graph_node_count(g); i++)
    if (qn_graph_node(g, i)->op != QN_OP_PARAMETER)
      lower_node(&l, qn_graph_node(g, i));
  for (size_t i = 0; i < count; i++) {
    results[i] = l.map[qn_graph_result(g, i)];
    qn_graph_set_result_path(l.to, i, qn_graph_result_path(g, i));
  }
  QN_TRY_GOTO(st, qn_graph_seal(l.to, results, count), done);
  *out_graph = l.to;
  l.to = NULL;
done:
  if (l.to)
    qn_graph_release(l.to);
  free(l.map);
  free(l.uses);
  free(results);
  return st;
}

qn_status qn_lower(const qn_graph *g, qn_text *log, qn_graph **out_graph) {
  qn_graph *rows, *real;
  *out_graph = NULL;
  QN_TRY(qn_lower_rows(g, log, &rows));
  qn_status st = qn_lower_complex(rows, log, &real);
  qn_graph_release(rows);
  QN_TRY(st);
  st = lower_shapes(real, log, out_graph);
  qn_graph_release(real);
  return st;
}
