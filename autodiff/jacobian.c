/* Jacobians: one forward or reverse pass batched over the identity. */
#include "engine.h"

static const int first_only[] = {0};

/* Rows of the identity over a type's elements: [n, shape]. */
static qn_val basis(qn_graph *g, const qn_type *t, int64_t n) {
  qn_type square = qn_type_of(QN_I32, 2, n, n);
  qn_val one = qn_convert(qn_eq(qn_iota(g, square, 0), qn_iota(g, square, 1)), t->dtype);
  int64_t dims[QN_MAX_RANK + 1] = {n};
  for (int i = 0; i < t->rank; ++i)
    dims[i + 1] = t->dims[i];
  return qn_reshape(one, t->rank + 1, dims);
}

/* The result's shape, then the parameter's. */
static qn_status joined_shape(const qn_type *y, const qn_type *x, qn_type *out) {
  if (y->rank + x->rank > QN_MAX_RANK)
    return QN_ERR(QN_UNSUPPORTED, "jacobian of %s by %s would have rank %d, the most is %d", qn_type_str(y),
                  qn_type_str(x), y->rank + x->rank, QN_MAX_RANK);
  int64_t dims[QN_MAX_RANK] = {0};
  for (int i = 0; i < y->rank; ++i)
    dims[i] = y->dims[i];
  for (int i = 0; i < x->rank; ++i)
    dims[y->rank + i] = x->dims[i];
  *out = qn_type_make(y->dtype, y->rank + x->rank, dims);
  return QN_OK;
}

static qn_status check(const qn_graph *f, const int *argnums, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (argnums[i] < 0 || (size_t)argnums[i] >= qn_graph_param_count(f))
      return QN_ERR(QN_INVALID, "jacobian: argnum %d, the function has %zu parameters", argnums[i],
                    qn_graph_param_count(f));
    const qn_type *x = qn_graph_type(f, qn_graph_param_at(f, (size_t)argnums[i]));
    if (!qn_dtype_is_float(x->dtype))
      return QN_ERR(QN_INVALID, "jacobian: parameter %d is %s, expected a float", argnums[i], qn_type_str(x));
    for (size_t k = 0; k < qn_graph_result_count(f); ++k) {
      const qn_type *y = qn_graph_type(f, qn_graph_result(f, k));
      qn_type unused;
      if (!qn_dtype_is_float(y->dtype))
        return QN_ERR(QN_INVALID, "jacobian: result %zu is %s, expected a float", k, qn_type_str(y));
      QN_TRY(joined_shape(y, x, &unused));
    }
  }
  return QN_OK;
}

/* f pulled back from a cotangent of result `k`, or pushed forward from a tangent of parameter `k`: (f's parameters, that) -> gradients of the
 * argnums, or tangents of the results. */
static qn_status one_pass(const qn_graph *f, bool reverse, size_t k, const int *argnums, size_t count,
                          qn_graph **out_graph) {
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f), n = reverse ? count : results;
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create("pass", &g));
  qn_arena *arena = qn_graph_arena(g);
  size_t most = (params > results ? params : results) + count + 1;
  qn_val *args = QN_NEW(arena, qn_val, most), *seeds = QN_NEW(arena, qn_val, most),
         *values = QN_NEW(arena, qn_val, most);
  qn_val *derived = QN_NEW(arena, qn_val, most), *out = QN_NEW(arena, qn_val, most);
  bool *wanted = QN_NEW(arena, bool, most);
  if (!args || !seeds || !values || !derived || !out || !wanted) {
    qn_graph_release(g);
    return QN_ERR(QN_OUT_OF_MEMORY, "jacobian: out of memory");
  }
  qn_copy_params(g, f, args);
  seeds[k] = qn_graph_param(g, *qn_graph_type(f, reverse ? qn_graph_result(f, k) : qn_graph_param_at(f, k)), NULL);
  for (size_t i = 0; i < count; ++i)
    wanted[argnums[i]] = true;
  bool ok = reverse ? qn_vjp_into(g, f, args, wanted, seeds, values, derived)
                    : qn_jvp_into(g, f, args, seeds, values, derived);
  for (size_t i = 0; ok && i < n; ++i) {
    size_t at = reverse ? (size_t)argnums[i] : i;
    out[i] = qn_val_ok(derived[at]) ? derived[at] : qn_zeros_like(reverse ? args[at] : values[at]);
  }
  return qn_finish(g, out, n, out_graph);
}

/* One pass batched over the identity, inlined into g. out: its results, lanes in front. */
static qn_status all_passes(qn_graph *g, const qn_graph *f, bool reverse, size_t k, const int *argnums, size_t count,
                            qn_val *args, qn_val *out) {
  size_t params = qn_graph_param_count(f);
  qn_type seed = *qn_graph_type(f, reverse ? qn_graph_result(f, k) : qn_graph_param_at(f, k));
  int64_t lanes = qn_type_elements(&seed);
  if (seed.rank >= QN_MAX_RANK)
    return QN_ERR(QN_UNSUPPORTED, "jacobian of %s: no room for one more axis", qn_type_str(&seed));
  int *axes = QN_NEW(qn_graph_arena(g), int, params + 1);
  if (axes == NULL)
    return QN_ERR(QN_OUT_OF_MEMORY, "jacobian: out of memory");
  for (size_t i = 0; i < params; ++i)
    axes[i] = -1;
  qn_graph *pass = NULL, *batched = NULL;
  qn_status st;
  QN_TRY_GOTO(st, one_pass(f, reverse, k, argnums, count, &pass), done);
  QN_TRY_GOTO(st, qn_vmap_graph(pass, lanes, axes, &batched), done);
  args[params] = basis(g, &seed, lanes);
  (void)qn_graph_inline(g, batched, args, params + 1, out);
done:
  if (pass != NULL)
    qn_graph_release(pass);
  if (batched != NULL)
    qn_graph_release(batched);
  return st;
}

/* Lanes in front -> behind the result's axes, as the parameter's shape. */
static qn_val lanes_to_shape(qn_val x, bool reverse, const qn_type *y, const qn_type *p) {
  qn_type want;
  if (!qn_val_ok(x) || joined_shape(y, p, &want) != QN_OK)
    return QN_NULL_VAL;
  int64_t permutation[QN_MAX_RANK + 1] = {0};
  for (int i = 0; i < y->rank; ++i)
    permutation[i] = i + 1;
  permutation[y->rank] = 0;
  if (!reverse && y->rank > 0)
    x = qn_transpose(x, permutation);
  return qn_reshape(x, want.rank, want.dims);
}

static qn_status jacobian(const qn_graph *f, bool reverse, const int *argnums, size_t count, qn_graph **out_graph) {
  *out_graph = NULL;
  if (argnums == NULL) {
    argnums = first_only;
    count = 1;
  }
  QN_TRY(check(f, argnums, count));
  size_t params = qn_graph_param_count(f), results = qn_graph_result_count(f);
  qn_graph *g = NULL;
  QN_TRY(qn_graph_create(qn_graph_name(f), &g));
  qn_arena *arena = qn_graph_arena(g);
  qn_val *args = QN_NEW(arena, qn_val, params + 1), *out = QN_NEW(arena, qn_val, results * count + 1),
         *row = QN_NEW(arena, qn_val, results + count + 1);
  qn_status st = args && out && row ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "jacobian: out of memory");
  if (st == QN_OK)
    qn_copy_params(g, f, args);
  size_t passes = reverse ? results : count;
  for (size_t k = 0; st == QN_OK && k < passes && !qn_graph_failed(g); ++k) {
    st = all_passes(g, f, reverse, reverse ? k : (size_t)argnums[k], argnums, count, args, row);
    for (size_t i = 0; st == QN_OK && i < (reverse ? count : results); ++i) {
      size_t y = reverse ? k : i, x = reverse ? i : k;
      out[y * count + x] = lanes_to_shape(row[i], reverse, qn_graph_type(f, qn_graph_result(f, y)),
                                          qn_graph_type(f, qn_graph_param_at(f, (size_t)argnums[x])));
    }
  }
  if (st != QN_OK) {
    qn_graph_release(g);
    return qn_error_trace(st, __FILE__, __LINE__, "all_passes");
  }
  return qn_finish(g, out, results * count, out_graph);
}

qn_status qn_jacfwd_graph(const qn_graph *f, const int *argnums, size_t count, qn_graph **out_graph) {
  return jacobian(f, false, argnums, count, out_graph);
}

qn_status qn_jacrev_graph(const qn_graph *f, const int *argnums, size_t count, qn_graph **out_graph) {
  return jacobian(f, true, argnums, count, out_graph);
}

qn_status qn_hessian_graph(const qn_graph *f, const int *argnums, size_t count, qn_graph **out_graph) {
  qn_graph *first = NULL;
  *out_graph = NULL;
  QN_TRY(qn_jacrev_graph(f, argnums, count, &first));
  qn_status st = qn_jacfwd_graph(first, argnums, count, out_graph);
  qn_graph_release(first);
  return st;
}
