/* Derivatives of reduce by the body that it recognises: sums are linear; a product's partial is the product of the other elements,
 * found without division; an extreme shares equally among the elements that attain it; a pick like argmax's sends everything to the
 * element that its index result names. */
#include "reduce_grad.h"

#include "move_shape.h"

typedef struct fold {
  qn_rule *r;
  int n, index; /* operands folded together; the one at hand */
  qn_dims axes, kept;
  qn_type x;
} fold;

static fold fold_of(qn_rule *r, int index) {
  fold f = {.r = r, .n = r->out_count, .index = index};
  f.axes = ((const qn_attr_dims *)r->attr)->dims;
  f.x = *qn_val_type(r->in[index]);
  f.kept = qn_dims_rest(f.x.rank, &f.axes, NULL);
  return f;
}

/* A value of the result's shape along the reduced axes. */
static qn_val spread(const fold *f, qn_val y) { return qn_broadcast_in_dim(y, f->x.rank, f->x.dims, f->kept.d); }
static qn_val summed(const fold *f, qn_val x) { return qn_sum(x, f->axes.n, f->axes.d, false); }
static qn_val result_sized(const fold *f, qn_val scalar) {
  qn_type y = *qn_val_type(f->r->out[f->index]);
  return qn_broadcast_to(scalar, y.rank, y.dims);
}

static void unsupported(const fold *f, const char *mode) {
  (void)qn_graph_fail(f->r->g, QN_HERE, QN_UNSUPPORTED,
                      "reduce: result %d has no %s derivative: its body is none of add, multiply, maximum, minimum or "
                      "an argmax-like pick",
                      f->index, mode);
}

/* ---- products ---- */
/* For each element the product of init and all others along the reduced axes: products of halves up a binary tree, then down again, each
 * half taking its parent's others times its sibling. */
static qn_val product_of_others(const fold *f, qn_val x, qn_val init) {
  int64_t permutation[QN_MAX_RANK] = {0}, inverse[QN_MAX_RANK] = {0}, moved[QN_MAX_RANK] = {0};
  int64_t rows = 1, n = 1;
  for (int i = 0; i < f->kept.n; ++i) {
    permutation[i] = f->kept.d[i];
    rows *= f->x.dims[f->kept.d[i]];
  }
  for (int i = 0; i < f->axes.n; ++i) {
    permutation[f->kept.n + i] = f->axes.d[i];
    n *= f->x.dims[f->axes.d[i]];
  }
  for (int i = 0; i < f->x.rank; ++i) {
    inverse[permutation[i]] = i;
    moved[i] = f->x.dims[permutation[i]];
  }
  if (rows * n == 0)
    return qn_full(f->r->g, f->x, 1.0);
  int64_t width = 1;
  int levels = 0;
  while (width < n) {
    width *= 2;
    ++levels;
  }
  qn_val up[64];
  up[0] = qn_reshape(qn_transposed(x, permutation), 2, ((const int64_t[]){rows, n}));
  if (width > n)
    up[0] = qn_pad(up[0], qn_scalar(f->r->g, f->x.dtype, 1.0), ((const int64_t[]){0, 0}),
                   ((const int64_t[]){0, width - n}), NULL);
  int64_t half = width / 2;
  qn_val low[64], high[64];
  for (int k = 0; k < levels; ++k, half /= 2) {
    low[k] = qn_slice(up[k], ((const int64_t[]){0, 0}), ((const int64_t[]){rows, half}), NULL);
    high[k] = qn_slice(up[k], ((const int64_t[]){0, half}), ((const int64_t[]){rows, 2 * half}), NULL);
    up[k + 1] = qn_mul(low[k], high[k]);
  }
  qn_val down = qn_broadcast_to(init, 2, ((const int64_t[]){rows, 1}));
  for (int k = levels - 1; k >= 0; --k) {
    qn_val both[] = {qn_mul(down, high[k]), qn_mul(down, low[k])};
    down = qn_concatenate(both, 2, 1);
  }
  if (width > n)
    down = qn_slice(down, ((const int64_t[]){0, 0}), ((const int64_t[]){rows, n}), NULL);
  return qn_transposed(qn_reshape(down, f->x.rank, moved), inverse);
}

static void product_vjp(const fold *f, qn_val *out) {
  qn_rule *r = f->r;
  qn_val x = r->in[f->index], init = r->in[f->n + f->index], ct = r->given[f->index];
  if (r->wanted[f->index])
    out[f->index] = qn_rule_product(spread(f, ct), product_of_others(f, x, init));
  if (r->wanted[f->n + f->index])
    out[f->n + f->index] = qn_sum_all(qn_rule_product(ct, qn_prod(x, f->axes.n, f->axes.d, false)));
}

static qn_val product_jvp(const fold *f) {
  const qn_rule *r = f->r;
  qn_val x = r->in[f->index], init = r->in[f->n + f->index], tx = r->given[f->index], ti = r->given[f->n + f->index],
         y = QN_NULL_VAL;
  if (qn_val_ok(tx))
    y = summed(f, qn_rule_product(tx, product_of_others(f, x, init)));
  if (!qn_val_ok(ti))
    return y;
  qn_val z = qn_rule_product(result_sized(f, ti), qn_prod(x, f->axes.n, f->axes.d, false));
  return qn_val_ok(y) ? qn_add(y, z) : z;
}

/* ---- extremes ---- */
/* How many attain the extreme. Narrow floats count in f32: f16 holds no 2049. */
typedef struct ties {
  qn_val mask, init_mask, count;
  qn_dtype wide;
} ties;

static ties ties_of(const fold *f, bool with_init) {
  const qn_rule *r = f->r;
  qn_val y = r->out[f->index];
  ties t = {.wide = f->x.dtype == QN_F64 ? QN_F64 : QN_F32, .init_mask = QN_NULL_VAL};
  t.mask = qn_eq(r->in[f->index], spread(f, y));
  t.count = summed(f, qn_convert(t.mask, t.wide));
  if (with_init) {
    t.init_mask = qn_eq(result_sized(f, r->in[f->n + f->index]), y);
    t.count = qn_add(t.count, qn_convert(t.init_mask, t.wide));
  }
  return t;
}

static qn_val shared(const fold *f, const ties *t, qn_val x) {
  bool narrow = t->wide != f->x.dtype;
  qn_val y = qn_div(narrow ? qn_convert(x, t->wide) : x, t->count);
  return narrow ? qn_convert(y, f->x.dtype) : y;
}

static void extreme_vjp(const fold *f, qn_val *out) {
  qn_rule *r = f->r;
  bool with_init = r->wanted[f->n + f->index];
  ties t = ties_of(f, with_init);
  qn_val share = shared(f, &t, r->given[f->index]);
  if (r->wanted[f->index])
    out[f->index] = qn_select(t.mask, spread(f, share), qn_like(share, 0.0));
  if (with_init)
    out[f->n + f->index] = qn_sum_all(qn_select(t.init_mask, share, qn_like(share, 0.0)));
}

static qn_val extreme_jvp(const fold *f) {
  const qn_rule *r = f->r;
  qn_val tx = r->given[f->index], ti = r->given[f->n + f->index], total = QN_NULL_VAL;
  ties t = ties_of(f, qn_val_ok(ti));
  if (qn_val_ok(tx))
    total = summed(f, qn_select(t.mask, tx, qn_like(tx, 0.0)));
  if (qn_val_ok(ti)) {
    qn_val z = qn_select(t.init_mask, result_sized(f, ti), qn_like(ti, 0.0));
    total = qn_val_ok(total) ? qn_add(total, z) : z;
  }
  return shared(f, &t, total);
}

/* ---- picks ---- */
static bool picks(const qn_graph *body, int index, int n) {
  const qn_node *node = qn_graph_def(body, qn_graph_result(body, (size_t)index));
  if (node == NULL || node->op != QN_OP_SELECT)
    return false;
  uint32_t acc = qn_graph_param_at(body, (size_t)index), x = qn_graph_param_at(body, (size_t)(n + index));
  return (node->operands[1] == acc && node->operands[2] == x) || (node->operands[1] == x && node->operands[2] == acc);
}

/* The value is 0, 1, 2 ... along the axis. */
static bool counts_along(qn_val v, int64_t axis) {
  const qn_node *node = qn_graph_def(v.graph, v.id);
  if (node != NULL && node->op == QN_OP_BROADCAST_IN_DIM) {
    const qn_dims *to = &((const qn_attr_dims *)node->attr)->dims;
    const qn_type *inner = qn_graph_type(v.graph, node->operands[0]);
    int64_t was = axis;
    axis = -1;
    for (int i = 0; i < to->n; ++i)
      if (to->d[i] == was && inner->dims[i] == qn_val_type(v)->dims[was])
        axis = i;
    node = qn_graph_def(v.graph, node->operands[0]);
  }
  return node != NULL && node->op == QN_OP_IOTA && ((const qn_attr_axis *)node->attr)->dimension == axis;
}

/* Mask of the elements that an argmax-like body picked, or null if it is no such body. */
static qn_val picked(const fold *f) {
  const qn_graph *body = f->r->node->regions[0];
  if (f->n != 2 || f->index != 0 || f->axes.n != 1 || !picks(body, 0, 2) || !picks(body, 1, 2))
    return QN_NULL_VAL;
  qn_val index = f->r->in[1];
  if (!qn_dtype_is_int(qn_val_type(index)->dtype) || !counts_along(index, f->axes.d[0]))
    return QN_NULL_VAL;
  return qn_eq(index, spread(f, f->r->out[1]));
}

/* ---- both modes ---- */
/* A body that captures a value derives by it, unless it is one of those that use their parameters alone. */
static bool captures_are_idle(qn_rule *r, const char *mode) {
  for (int i = 2 * r->out_count; i < r->in_count; ++i) {
    if (r->wanted != NULL ? !r->wanted[i] : !qn_val_ok(r->given[i]))
      continue;
    for (int k = 0; k < r->out_count; ++k) {
      fold f = fold_of(r, k);
      qn_op op = qn_combiner_op(r->node->regions[0], k);
      if (op == QN_OP_NONE || op == QN_OP_PARAMETER) {
        unsupported(&f, mode);
        return false;
      }
    }
  }
  return true;
}

void qn_reduce_vjp(qn_rule *r, qn_val *out) {
  if (!captures_are_idle(r, "reverse"))
    return;
  for (int i = 0; i < r->out_count; ++i) {
    bool wants_x = r->wanted[i], wants_init = r->wanted[r->out_count + i];
    if (!qn_val_ok(r->given[i]) || (!wants_x && !wants_init))
      continue;
    fold f = fold_of(r, i);
    qn_op op = qn_combiner_op(r->node->regions[0], i);
    if (op == QN_OP_ADD) {
      if (wants_x)
        out[i] = spread(&f, r->given[i]);
      if (wants_init)
        out[f.n + i] = qn_sum_all(r->given[i]);
    } else if (op == QN_OP_MULTIPLY) {
      product_vjp(&f, out);
    } else if (op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM) {
      extreme_vjp(&f, out);
    } else {
      qn_val mask = wants_init ? QN_NULL_VAL : picked(&f);
      if (!qn_val_ok(mask))
        unsupported(&f, "reverse");
      else
        out[i] = qn_select(mask, spread(&f, r->given[i]), qn_like(r->given[i], 0.0));
    }
  }
}

void qn_reduce_jvp(qn_rule *r, qn_val *out) {
  if (!captures_are_idle(r, "forward"))
    return;
  for (int i = 0; i < r->out_count; ++i) {
    qn_val tx = r->given[i], ti = r->given[r->out_count + i];
    if (!qn_val_ok(tx) && !qn_val_ok(ti))
      continue;
    fold f = fold_of(r, i);
    qn_op op = qn_combiner_op(r->node->regions[0], i);
    if (op == QN_OP_ADD) {
      qn_val y = qn_val_ok(tx) ? summed(&f, tx) : QN_NULL_VAL, z = qn_val_ok(ti) ? result_sized(&f, ti) : QN_NULL_VAL;
      out[i] = !qn_val_ok(y) ? z : qn_val_ok(z) ? qn_add(y, z) : y;
    } else if (op == QN_OP_MULTIPLY) {
      out[i] = product_jvp(&f);
    } else if (op == QN_OP_MAXIMUM || op == QN_OP_MINIMUM) {
      out[i] = extreme_jvp(&f);
    } else {
      qn_val mask = qn_val_ok(ti) ? QN_NULL_VAL : picked(&f);
      if (!qn_val_ok(mask))
        unsupported(&f, "forward");
      else
        out[i] = summed(&f, qn_select(mask, tx, qn_like(tx, 0.0)));
    }
  }
}
