/* Movement, indexing, reductions and contractions of the generator in random_kit.h. Movement is applied to a value and to its bound alike. */
#include "random_kit.h"

#include <math.h>

#define U 5.9604644775390625e-8

static const qn_type *type(const random_item *i) { return qn_val_type(i->v); }

static random_item *any(random_gen *z) {
  static const qn_dtype order[] = {QN_F32, QN_F32, QN_F32, QN_F32, QN_I32, QN_BOOL};
  random_item *i = random_pick(z, order[random_below(z, 6)], false);
  return i ? i : random_pick(z, QN_F32, false);
}

static int64_t below(random_gen *z, int64_t n) { return (int64_t)random_below(z, (uint32_t)n); }

static void shuffled(random_gen *z, int n, int64_t *out) {
  for (int i = 0; i < n; i++)
    out[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int64_t k = below(z, i + 1), t = out[i];
    out[i] = out[k];
    out[k] = t;
  }
}

/* ---- movement ---- */

/* Adds fn(v) and, where there is one, fn(e). */
#define MOVED(x, fn_of_v, fn_of_e)                                                                                     \
  do {                                                                                                                 \
    qn_val moved_ = (fn_of_v), bound_ = QN_NULL_VAL;                                                                   \
    if (z->judged && !(x)->exact)                                                                                      \
      bound_ = (fn_of_e);                                                                                              \
    return random_add(z, moved_, bound_, (x)->bound, (x)->exact) != NULL;                                              \
  } while (0)

static bool move_transpose(random_gen *z) {
  random_item *x = any(z);
  int64_t p[QN_MAX_RANK];
  if (type(x)->rank < 2)
    return false;
  shuffled(z, type(x)->rank, p);
  MOVED(x, qn_transpose(x->v, p), qn_transpose(x->e, p));
}

/* Merges two neighbouring axes, or splits one. */
static bool move_reshape(random_gen *z) {
  random_item *x = any(z);
  const qn_type *t = type(x);
  int64_t d[QN_MAX_RANK + 1];
  int rank = 0, at = t->rank ? (int)below(z, t->rank) : 0;
  bool split = t->rank < 5 && random_below(z, 2);
  for (int i = 0; i < t->rank; i++) {
    if (i == at && split) {
      int64_t f = t->dims[i] % 4 == 0 ? 4 : t->dims[i] % 3 == 0 ? 3 : t->dims[i] % 2 == 0 ? 2 : 1;
      d[rank++] = f;
      d[rank++] = t->dims[i] / f;
    } else if (i == at && i + 1 < t->rank) {
      d[rank++] = t->dims[i] * t->dims[i + 1];
      i++;
    } else {
      d[rank++] = t->dims[i];
    }
  }
  if (t->rank == 0)
    d[rank++] = 1;
  MOVED(x, qn_reshape(x->v, rank, d), qn_reshape(x->e, rank, d));
}

static bool move_flat(random_gen *z) {
  random_item *x = any(z);
  const int64_t d[] = {qn_type_elements(type(x))};
  MOVED(x, qn_reshape(x->v, 1, d), qn_reshape(x->e, 1, d));
}

static bool move_reverse(random_gen *z) {
  random_item *x = any(z);
  int64_t p[QN_MAX_RANK];
  if (type(x)->rank == 0)
    return false;
  shuffled(z, type(x)->rank, p);
  int n = 1 + (int)below(z, type(x)->rank);
  MOVED(x, qn_reverse(x->v, n, p), qn_reverse(x->e, n, p));
}

static bool move_slice(random_gen *z) {
  random_item *x = any(z);
  int64_t start[QN_MAX_RANK] = {0}, limit[QN_MAX_RANK] = {0}, stride[QN_MAX_RANK] = {0};
  if (type(x)->rank == 0)
    return false;
  for (int i = 0; i < type(x)->rank; i++) {
    int64_t n = type(x)->dims[i];
    start[i] = n > 2 && random_below(z, 2) ? below(z, n / 2) : 0;
    limit[i] = random_below(z, 2) ? n : start[i] + (n - start[i] + 1) / 2;
    stride[i] = random_below(z, 3) ? 1 : 1 + below(z, 3);
  }
  MOVED(x, qn_slice(x->v, start, limit, stride), qn_slice(x->e, start, limit, stride));
}

static bool move_pad(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  int64_t low[QN_MAX_RANK] = {0}, high[QN_MAX_RANK] = {0}, interior[QN_MAX_RANK] = {0}, n = 1;
  if (type(x)->rank == 0)
    return false;
  for (int i = 0; i < type(x)->rank; i++) {
    int64_t size = type(x)->dims[i];
    low[i] = below(z, 5) - (size > 2 ? 2 : 0);
    high[i] = below(z, 4) - (size > 4 ? 2 : 0);
    interior[i] = random_below(z, 3) ? 0 : below(z, 3);
    n *= low[i] + high[i] + size + (size > 1 ? (size - 1) * interior[i] : 0);
  }
  if (n > RANDOM_LARGEST || n < 0)
    return false;
  MOVED(x, qn_pad(x->v, qn_like(x->v, -1.5), low, high, interior), qn_pad(x->e, qn_like(x->v, 0), low, high, interior));
}

static bool move_concatenate(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *y = NULL;
  if (type(x)->rank == 0 || 3 * qn_type_elements(type(x)) > RANDOM_LARGEST)
    return false;
  for (int k = 0; k < 6 && !y; k++) {
    random_item *t = random_pick(z, QN_F32, false);
    y = qn_type_equal(type(t), type(x)) ? t : NULL;
  }
  y = y ? y : x;
  int64_t axis = below(z, type(x)->rank);
  qn_val parts[] = {x->v, qn_neg(x->v), y->v}, bounds[3], e = QN_NULL_VAL;
  bool exact = x->exact && y->exact;
  if (z->judged && !exact) {
    bounds[0] = bounds[1] = random_error(x);
    bounds[2] = random_error(y);
    e = qn_concatenate(bounds, 3, axis);
  }
  return random_add(z, qn_concatenate(parts, 3, axis), e, fmax(x->bound, y->bound), exact) != NULL;
}

static bool move_broadcast(random_gen *z) {
  random_item *x = any(z);
  const qn_type *t = type(x);
  int64_t d[QN_MAX_RANK + 1], map[QN_MAX_RANK], size = z->sizes[random_below(z, RANDOM_SIZES)];
  int at = (int)below(z, t->rank + 1);
  if (t->rank > 4 || qn_type_elements(t) * size > RANDOM_LARGEST)
    return false;
  for (int i = 0; i < t->rank; i++) {
    map[i] = i < at ? i : i + 1;
    d[map[i]] = t->dims[i];
  }
  d[at] = size;
  MOVED(x, qn_broadcast_in_dim(x->v, t->rank + 1, d, map), qn_broadcast_in_dim(x->e, t->rank + 1, d, map));
}

static bool move_iota(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  qn_type t = *type(x);
  if (t.rank == 0)
    return false;
  t.dtype = random_below(z, 2) ? QN_F32 : QN_I32;
  return random_add(z, qn_iota(z->g, t, below(z, t.rank)), QN_NULL_VAL, RANDOM_LARGEST, true) != NULL;
}

/* ---- indexing ---- */

static qn_val scalar_index(random_gen *z) {
  random_item *i = random_pick(z, QN_I32, true);
  if (!i || qn_type_elements(type(i)) == 0)
    return qn_scalar(z->g, QN_I32, (double)random_below(z, 5));
  return random_below(z, 2) ? qn_reduce_min(i->v, 0, NULL, false)
                            : qn_and(qn_sum_all(i->v), qn_scalar(z->g, QN_I32, 7));
}

static bool move_dynamic_slice(random_gen *z) {
  random_item *x = any(z);
  qn_val starts[QN_MAX_RANK];
  int64_t sizes[QN_MAX_RANK] = {0};
  if (type(x)->rank == 0)
    return false;
  for (int i = 0; i < type(x)->rank; i++) {
    starts[i] = scalar_index(z);
    sizes[i] = (type(x)->dims[i] + 1) / 2;
  }
  MOVED(x, qn_dynamic_slice(x->v, starts, sizes), qn_dynamic_slice(x->e, starts, sizes));
}

static bool move_dynamic_update(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  qn_val starts[QN_MAX_RANK], e = QN_NULL_VAL;
  int64_t first[QN_MAX_RANK] = {0}, sizes[QN_MAX_RANK] = {0};
  if (type(x)->rank == 0)
    return false;
  for (int i = 0; i < type(x)->rank; i++) {
    starts[i] = scalar_index(z);
    sizes[i] = (type(x)->dims[i] + 1) / 2;
  }
  qn_val update = qn_neg(qn_slice(x->v, first, sizes, NULL));
  if (z->judged && !x->exact)
    e = qn_dynamic_update_slice(x->e, qn_slice(x->e, first, sizes, NULL), starts);
  return random_add(z, qn_dynamic_update_slice(x->v, update, starts), e, x->bound, x->exact) != NULL;
}

static random_item *indices(random_gen *z) {
  for (int k = 0; k < 4; k++) {
    random_item *i = random_pick(z, QN_I32, true);
    if (i && type(i)->rank <= 2 && qn_type_elements(type(i)) <= 64)
      return i;
  }
  return NULL;
}

static bool move_take(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *i = indices(z);
  if (!i || type(x)->rank == 0)
    return false;
  int64_t axis = below(z, type(x)->rank), n = type(x)->dims[axis];
  if (n == 0 || qn_type_elements(type(x)) / n * qn_type_elements(type(i)) > RANDOM_LARGEST)
    return false;
  MOVED(x, qn_take(x->v, i->v, axis), qn_take(x->e, i->v, axis));
}

/* Windows of half the size at index vectors of two components; starts clamp. */
static bool move_gather(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *i = indices(z);
  if (!i || type(x)->rank != 2 || qn_type_elements(type(i)) == 0)
    return false;
  int64_t h = (type(x)->dims[0] + 1) / 2, w = (type(x)->dims[1] + 1) / 2, n = qn_type_elements(type(i));
  if (n * h * w > RANDOM_LARGEST || h * w == 0)
    return false;
  qn_val flat = qn_reshape(i->v, 2, ((const int64_t[]){n, 1}));
  qn_val pair = qn_concatenate(((const qn_val[]){flat, qn_neg(flat)}), 2, 1);
  bool apart = random_below(z, 2);
  qn_attr_gather a = {.offset_dims = {2, {apart ? 0 : 1, 2}},
                      .start_index_map = {2, {1, 0}},
                      .slice_sizes = {2, {h, w}},
                      .index_vector_dim = 1};
  MOVED(x, qn_gather(x->v, pair, &a), qn_gather(x->e, pair, &a));
}

static bool move_one_hot(random_gen *z) {
  random_item *i = indices(z);
  int64_t classes = 1 + below(z, 12);
  return i && random_add(z, qn_one_hot(i->v, classes, QN_F32), QN_NULL_VAL, 1, true) != NULL;
}

static qn_val added_rows(qn_val x, qn_val rows, qn_val updates, int64_t axes) {
  qn_graph *body;
  if (qn_region_binary(QN_OP_ADD, QN_F32, &body) != QN_OK)
    return QN_NULL_VAL;
  qn_attr_scatter a = {
      .inserted_window_dims = {1, {0}}, .scatter_dims_to_operand_dims = {1, {0}}, .index_vector_dim = 1};
  for (int64_t k = 1; k < axes; k++)
    a.update_window_dims.d[a.update_window_dims.n++] = k;
  qn_val y = qn_scatter(x, rows, updates, &a, body);
  qn_graph_release(body);
  return y;
}

/* Rows of y (x's rows drawn by an index, some of them outside) added to rows of x. */
static bool move_scatter(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false), *i = indices(z);
  if (!i || type(x)->rank == 0 || type(x)->rank > 3 || type(x)->dims[0] == 0)
    return false;
  int64_t n = qn_type_elements(type(i)), row = qn_type_elements(type(x)) / type(x)->dims[0];
  if (n * row > RANDOM_LARGEST)
    return false;
  qn_val rows = qn_reshape(i->v, 1, (const int64_t[]){n}), e = QN_NULL_VAL;
  qn_val updates = qn_neg(qn_take(x->v, rows, 0));
  qn_val v = added_rows(x->v, rows, updates, type(x)->rank);
  if (z->judged) {
    qn_val moved = added_rows(random_error(x), rows, qn_take(random_error(x), rows, 0), type(x)->rank);
    qn_val sizes = added_rows(qn_abs(x->v), rows, qn_abs(updates), type(x)->rank);
    e = qn_add(moved, random_ulps(sizes, (double)n + 2));
  }
  return random_add(z, v, e, x->bound * (double)(n + 1), false) != NULL;
}

/* Sorted along an axis with the places, or the largest and theirs. Keys are exact: an error could exchange two. */
static bool move_sort(random_gen *z) {
  random_item *x = random_pick(z, random_below(z, 4) ? QN_F32 : QN_I32, true);
  if (!x || type(x)->rank == 0)
    return false;
  double bound = x->bound;
  int64_t axis = below(z, type(x)->rank), n = type(x)->dims[axis];
  qn_type t = *type(x);
  t.dtype = QN_I32;
  qn_val pair[2] = {x->v, qn_iota(z->g, t, axis)}, out[2];
  if (random_below(z, 4) == 0) {
    n = t.dims[t.rank - 1];
    qn_top_k(x->v, n ? 1 + below(z, n) : 0, &out[0], &out[1]);
  } else {
    qn_sort_keys(pair, 2, 1, axis, random_below(z, 2), out);
  }
  return random_add(z, out[0], QN_NULL_VAL, bound, true) && random_add(z, out[1], QN_NULL_VAL, (double)n, true);
}

bool (*const random_moves[])(random_gen *z) = {
    move_transpose,   move_reshape,   move_flat,      move_reverse, move_slice,         move_pad,
    move_concatenate, move_broadcast, move_broadcast, move_iota,    move_dynamic_slice, move_dynamic_update,
    move_take,        move_gather,    move_one_hot,   move_scatter, move_sort,
};
const size_t random_move_count = sizeof random_moves / sizeof *random_moves;

/* ---- reductions ---- */

typedef struct axes {
  int n;
  int64_t a[QN_MAX_RANK];
  double length;
} axes;

static axes some_axes(random_gen *z, const qn_type *t) {
  axes r = {0, {0}, 1};
  int64_t p[QN_MAX_RANK];
  shuffled(z, t->rank, p);
  r.n = 1 + (int)below(z, t->rank);
  if (r.n > 1 && random_below(z, 2))
    r.n = 1;
  for (int i = 0; i < r.n; i++) {
    r.a[i] = p[i];
    r.length *= (double)t->dims[p[i]];
  }
  return r;
}

static bool fold_sum(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0)
    return false;
  axes r = some_axes(z, type(x));
  bool keep = random_below(z, 2), mean = random_below(z, 3) == 0 && r.length > 0;
  qn_val v = mean ? qn_mean(x->v, r.n, r.a, keep) : qn_sum(x->v, r.n, r.a, keep), e = QN_NULL_VAL;
  if (z->judged) {
    e = qn_add(qn_sum(random_error(x), r.n, r.a, keep),
               random_ulps(qn_sum(qn_abs(x->v), r.n, r.a, keep), r.length + 4));
    e = mean ? qn_mul(e, qn_like(e, 1 / r.length)) : e;
  }
  return random_add(z, v, e, mean ? x->bound : x->bound * r.length, false) != NULL;
}

static bool fold_extreme(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0)
    return false;
  axes r = some_axes(z, type(x));
  bool keep = random_below(z, 2), largest = random_below(z, 2);
  if (r.length < 1)
    return false; /* infinite */
  MOVED(x, largest ? qn_reduce_max(x->v, r.n, r.a, keep) : qn_reduce_min(x->v, r.n, r.a, keep),
        qn_reduce_max(x->e, r.n, r.a, keep));
}

static bool fold_product(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0)
    return false;
  axes r = some_axes(z, type(x));
  if (r.length > 64)
    return false;
  qn_val near = qn_add(qn_mul(qn_tanh(x->v), qn_like(x->v, 0.1)), qn_like(x->v, 1));
  qn_val v = qn_prod(near, r.n, r.a, false), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val off = qn_add(qn_mul(random_error(x), qn_like(x->v, 0.13)), qn_like(x->v, 8 * U));
    e = qn_mul(qn_expm1(qn_sum(off, r.n, r.a, false)), qn_abs(v));
    e = qn_add(e, random_ulps(v, r.length + 4));
  }
  return random_add(z, v, e, pow(1.1, r.length), false) != NULL;
}

static bool fold_integers(random_gen *z) {
  random_item *x = random_pick(z, QN_I32, true);
  static const qn_op ops[] = {QN_OP_ADD, QN_OP_MULTIPLY, QN_OP_MAXIMUM, QN_OP_MINIMUM, QN_OP_AND, QN_OP_OR, QN_OP_XOR};
  if (!x || type(x)->rank == 0)
    return false;
  axes r = some_axes(z, type(x));
  qn_val v = qn_reduce_op_at(QN_HERE, x->v, ops[random_below(z, 7)], r.n, r.a, random_below(z, 2));
  return random_add(z, v, QN_NULL_VAL, 2147483648.0, true) != NULL;
}

static bool fold_logic(random_gen *z) {
  random_item *x = random_pick(z, QN_BOOL, true);
  if (!x || type(x)->rank == 0)
    return false;
  axes r = some_axes(z, type(x));
  qn_val v = random_below(z, 2) ? qn_reduce_or(x->v, r.n, r.a, false) : qn_reduce_and(x->v, r.n, r.a, false);
  return random_add(z, v, QN_NULL_VAL, 1, true) != NULL;
}

static bool fold_index(random_gen *z) {
  random_item *x = random_pick(z, random_below(z, 2) ? QN_F32 : QN_I32, true);
  if (!x || type(x)->rank == 0 || qn_type_elements(type(x)) == 0)
    return false;
  int64_t axis = below(z, type(x)->rank);
  qn_val v = random_below(z, 2) ? qn_argmax(x->v, axis) : qn_argmin(x->v, axis);
  return random_add(z, v, QN_NULL_VAL, RANDOM_LARGEST, true) != NULL;
}

/* (sum of x, maximum of y) in one reduction of two operands */
static qn_graph *sum_and_maximum(void) {
  qn_graph *body;
  if (qn_graph_create("body", &body) != QN_OK)
    return NULL;
  qn_val p[4];
  for (int i = 0; i < 4; i++)
    p[i] = qn_graph_param(body, qn_type_scalar(QN_F32), NULL);
  qn_val out[] = {qn_add(p[0], p[2]), qn_max(p[1], p[3])};
  if (qn_graph_seal(body, out, 2) == QN_OK)
    return body;
  qn_graph_release(body);
  return NULL;
}

static bool fold_pair(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0 || qn_type_elements(type(x)) == 0)
    return false;
  axes r = some_axes(z, type(x));
  qn_graph *body = sum_and_maximum();
  if (!body)
    return false;
  qn_val in[] = {x->v, qn_neg(x->v)}, init[] = {qn_like(x->v, 0), qn_like(x->v, -(double)INFINITY)}, out[2];
  qn_val e[2] = {QN_NULL_VAL, QN_NULL_VAL};
  qn_reduce(in, init, 2, r.n, r.a, body, out);
  qn_graph_release(body);
  if (z->judged) {
    e[0] = qn_add(qn_sum(random_error(x), r.n, r.a, false),
                  random_ulps(qn_sum(qn_abs(x->v), r.n, r.a, false), r.length + 4));
    e[1] = x->exact ? QN_NULL_VAL : qn_reduce_max(x->e, r.n, r.a, false);
  }
  return random_add(z, out[0], e[0], x->bound * r.length, false) && random_add(z, out[1], e[1], x->bound, x->exact);
}

/* softmax, log_softmax, logsumexp along one axis */
static bool fold_soft(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank == 0 || qn_type_elements(type(x)) == 0 || x->bound > 1000)
    return false;
  int64_t axis = below(z, type(x)->rank);
  double n = (double)type(x)->dims[axis];
  uint32_t which = random_below(z, 3);
  qn_val v = which == 0   ? qn_softmax(x->v, axis)
             : which == 1 ? qn_log_softmax(x->v, axis)
                          : qn_logsumexp(x->v, 1, &axis, random_below(z, 2));
  qn_val e = QN_NULL_VAL;
  if (z->judged) {
    bool keep = which < 2 || qn_val_type(v)->rank == type(x)->rank;
    qn_val moved = qn_reduce_max(random_error(x), 1, &axis, keep), large = qn_reduce_max(qn_abs(x->v), 1, &axis, keep);
    qn_val own = qn_mul(qn_add(large, qn_like(large, n + 20)), qn_like(large, 4 * U));
    e = qn_add(qn_mul(moved, qn_like(moved, 2)), own);
    if (which == 0)
      e = qn_add(qn_mul(qn_expm1(qn_min(e, qn_like(e, 3))), v), random_ulps(v, n + 20));
  }
  return random_add(z, v, e, which == 0 ? 1 : 2 * x->bound + 8, false) != NULL;
}

/* ---- contractions ---- */

/* Pairs of equal axes of a and b, in random order, become contracting or batching ones. */
static bool pair_axes(random_gen *z, const qn_type *a, const qn_type *b, qn_attr_dot *d, double *out_length,
                      double *out_size) {
  int64_t p[QN_MAX_RANK], q[QN_MAX_RANK];
  bool used[QN_MAX_RANK] = {false};
  double batch = 1;
  *out_length = 1;
  shuffled(z, a->rank, p);
  shuffled(z, b->rank, q);
  for (int i = 0; i < a->rank; i++)
    for (int k = 0; k < b->rank; k++) {
      if (used[k] || a->dims[p[i]] != b->dims[q[k]] || random_below(z, 4) == 0)
        continue;
      used[k] = true;
      bool is_batch = random_below(z, 3) == 0;
      qn_dims *l = is_batch ? &d->lhs_batch : &d->lhs_contract, *r = is_batch ? &d->rhs_batch : &d->rhs_contract;
      l->d[l->n++] = p[i];
      r->d[r->n++] = q[k];
      *(is_batch ? &batch : out_length) *= (double)a->dims[p[i]];
      break;
    }
  double all = (double)qn_type_elements(a) * (double)qn_type_elements(b);
  *out_size = all > 0 ? all / batch / *out_length / *out_length : 0;
  return a->rank + b->rank - d->lhs_batch.n - 2 * d->lhs_contract.n <= 6 && *out_size <= RANDOM_LARGEST;
}

static bool fold_dot(random_gen *z) {
  random_item *a = random_pick(z, QN_F32, false), *b = random_pick(z, QN_F32, false);
  qn_attr_dot d = {.lhs_batch = {0, {0}}};
  double length, size;
  if (type(a)->rank == 0 || type(b)->rank == 0 || a->bound > 1e4 || b->bound > 1e4 ||
      !pair_axes(z, type(a), type(b), &d, &length, &size) || size * length > 3e5)
    return false;
  bool narrow = random_below(z, 4) == 0;
  qn_val x = narrow ? qn_convert(a->v, QN_BF16) : a->v, y = narrow ? qn_convert(b->v, QN_BF16) : b->v;
  qn_val v = qn_dot_general(x, y, &d, narrow ? QN_F32 : QN_DTYPE_NONE), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val ma = qn_abs(a->v), mb = qn_abs(b->v), ea = random_error(a), eb = random_error(b);
    if (narrow) {
      ea = qn_add(ea, random_ulps(ma, 131072));
      eb = qn_add(eb, random_ulps(mb, 131072));
    }
    e = qn_add(qn_dot_general(ma, eb, &d, QN_DTYPE_NONE), qn_dot_general(ea, qn_add(mb, eb), &d, QN_DTYPE_NONE));
    e = qn_add(e, random_ulps(qn_dot_general(ma, mb, &d, QN_DTYPE_NONE), length + 4));
  }
  return random_add(z, v, e, a->bound * b->bound * length, false) != NULL;
}

/* relu(x w + b), the shape that everything is tuned for */
static bool fold_dense(random_gen *z) {
  random_item *x = random_pick(z, QN_F32, false);
  if (type(x)->rank != 2 || x->bound > 100 || qn_type_elements(type(x)) == 0)
    return false;
  int64_t k = type(x)->dims[1], n = z->sizes[random_below(z, RANDOM_SIZES)];
  qn_type t = qn_type_of(QN_F32, 2, k, n), row = qn_type_of(QN_F32, 1, n);
  if (type(x)->dims[0] * n > RANDOM_LARGEST || k * n == 0)
    return false;
  qn_val w = qn_sin(qn_add(qn_iota(z->g, t, 0), qn_mul(qn_iota(z->g, t, 1), qn_scalar(z->g, QN_F32, 3))));
  qn_val b = qn_cos(qn_iota(z->g, row, 0)), v = qn_relu(qn_add(qn_dot(x->v, w), b)), e = QN_NULL_VAL;
  if (z->judged) {
    qn_val size = qn_add(qn_dot(qn_abs(x->v), qn_abs(w)), qn_like(v, 1));
    e = qn_add(qn_dot(random_error(x), qn_abs(w)), random_ulps(size, (double)k + 8));
    e = qn_add(e, qn_mul(qn_sum(qn_abs(x->v), 1, (const int64_t[]){1}, true), qn_like(v, 4e-7)));
    e = qn_add(e, qn_like(e, 4e-7));
  }
  return random_add(z, v, e, x->bound * (double)k + 1, false) != NULL;
}

bool (*const random_folds[])(random_gen *z) = {
    fold_sum,  fold_sum,  fold_extreme, fold_product, fold_integers, fold_logic, fold_index,
    fold_pair, fold_soft, fold_soft,    fold_dot,     fold_dot,      fold_dot,   fold_dense,
};
const size_t random_fold_count = sizeof random_folds / sizeof *random_folds;
