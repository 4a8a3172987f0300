/* check_grads: tangents against central differences of the function, cotangents against tangents by <ct, J t> = <J' ct, t>. All by the
 * reference interpreter. The derivatives are functions themselves, so the next order is the same check of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

typedef struct values {
  void **data;
  qn_type *types;
  size_t count;
} values;

static void free_values(values *v) {
  for (size_t i = 0; v->data != NULL && i < v->count; ++i)
    free(v->data[i]);
  free(v->data);
  free(v->types);
  *v = (values){0};
}

/* Zeroed memory for a graph's parameters or results. */
static qn_status make_values(const qn_graph *g, bool params, values *out) {
  size_t n = params ? qn_graph_param_count(g) : qn_graph_result_count(g);
  *out = (values){calloc(n + 1, sizeof *out->data), calloc(n + 1, sizeof *out->types), n};
  bool ok = out->data && out->types;
  for (size_t i = 0; ok && i < n; ++i) {
    out->types[i] = *qn_graph_type(g, params ? qn_graph_param_at(g, i) : qn_graph_result(g, i));
    out->data[i] = calloc((size_t)qn_type_bytes(&out->types[i]) + 1, 1);
    ok = out->data[i] != NULL;
  }
  return ok ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "check_grads: out of memory");
}

static qn_status run(const qn_graph *g, const values *in, values *out) {
  QN_TRY(make_values(g, false, out));
  QN_TRY(qn_graph_eval_ref(g, (const void *const *)in->data, out->data));
  return QN_OK;
}

static double get(const qn_type *t, const void *data, int64_t i) {
  if (t->dtype == QN_F64)
    return ((const double *)data)[i];
  return (double)((const float *)data)[i];
}

static void put(const qn_type *t, void *data, int64_t i, double x) {
  if (t->dtype == QN_F64)
    ((double *)data)[i] = x;
  else
    ((float *)data)[i] = (float)x;
}

static bool is_checked(const qn_type *t) { return t->dtype == QN_F32 || t->dtype == QN_F64; }

static double draw(uint64_t *seed) { /* in -1 .. 1 */
  *seed += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = *seed;
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1.0;
}

static void draw_all(const values *v, size_t from, uint64_t *seed) {
  for (size_t i = from; i < v->count; ++i)
    for (int64_t k = 0; k < qn_type_elements(&v->types[i]); ++k)
      put(&v->types[i], v->data[i], k, draw(seed));
}

/* The first values are the point's. */
static void copy_point(const values *to, const values *point) {
  for (size_t i = 0; i < point->count; ++i)
    memcpy(to->data[i], point->data[i], (size_t)qn_type_bytes(&to->types[i]));
}

typedef struct check {
  const qn_graph *f;
  qn_check_grads_desc d;
  const values *point;
  uint64_t seed;
} check;

/* f at the point moved by `by` along the directions, which are the values of `at` behind the point's. */
static qn_status run_moved(const check *c, const values *at, double by, values *out) {
  values moved = {0};
  qn_status st;
  QN_TRY_GOTO(st, make_values(c->f, true, &moved), done);
  copy_point(&moved, c->point);
  size_t d = c->point->count;
  for (size_t i = 0; i < moved.count; ++i) {
    if (!qn_is_differentiable(&moved.types[i]))
      continue;
    for (int64_t k = 0; k < qn_type_elements(&moved.types[i]); ++k)
      put(&moved.types[i], moved.data[i], k,
          get(&moved.types[i], moved.data[i], k) + by * get(&at->types[d], at->data[d], k));
    d++;
  }
  QN_TRY_GOTO(st, run(c->f, &moved, out), done);
done:
  free_values(&moved);
  return st;
}

static qn_status compare(const check *c, const char *what, size_t result, int64_t k, double got, double want) {
  if (got == want || fabs(got - want) <= c->d.atol + c->d.rtol * fabs(want))
    return QN_OK;
  return QN_ERR(QN_INTERNAL, "check_grads: %s %zu, element %lld is %.9g, expected %.9g", what, result, (long long)k,
                got, want);
}

static qn_status check_forward(check *c, const qn_graph *jvp) {
  values at = {0}, got = {0}, above = {0}, below = {0};
  qn_status st;
  QN_TRY_GOTO(st, make_values(jvp, true, &at), done);
  copy_point(&at, c->point);
  draw_all(&at, c->point->count, &c->seed);
  QN_TRY_GOTO(st, run(jvp, &at, &got), done);
  QN_TRY_GOTO(st, run_moved(c, &at, c->d.step, &above), done);
  QN_TRY_GOTO(st, run_moved(c, &at, -c->d.step, &below), done);
  size_t tangent = above.count;
  for (size_t i = 0; i < above.count; ++i) {
    if (!qn_is_differentiable(&above.types[i]))
      continue;
    for (int64_t k = 0; k < qn_type_elements(&above.types[i]); ++k) {
      double slope =
          (get(&above.types[i], above.data[i], k) - get(&below.types[i], below.data[i], k)) / (2 * c->d.step);
      QN_TRY_GOTO(st, compare(c, "tangent", i, k, get(&got.types[tangent], got.data[tangent], k), slope), done);
    }
    tangent++;
  }
done:
  free_values(&at);
  free_values(&got);
  free_values(&above);
  free_values(&below);
  return st;
}

static double inner_product(const values *a, size_t a_from, const values *b, size_t b_from) {
  double sum = 0;
  for (size_t i = 0; a_from + i < a->count; ++i)
    for (int64_t k = 0; k < qn_type_elements(&a->types[a_from + i]); ++k)
      sum += get(&a->types[a_from + i], a->data[a_from + i], k) * get(&b->types[b_from + i], b->data[b_from + i], k);
  return sum;
}

static qn_status check_reverse(check *c, const qn_graph *jvp, const qn_graph *vjp) {
  values push = {0}, pushed = {0}, pull = {0}, pulled = {0};
  qn_status st;
  size_t results = qn_graph_result_count(c->f), params = c->point->count;
  QN_TRY_GOTO(st, make_values(jvp, true, &push), done);
  QN_TRY_GOTO(st, make_values(vjp, true, &pull), done);
  copy_point(&push, c->point);
  copy_point(&pull, c->point);
  draw_all(&push, params, &c->seed);
  draw_all(&pull, params, &c->seed);
  QN_TRY_GOTO(st, run(jvp, &push, &pushed), done);
  QN_TRY_GOTO(st, run(vjp, &pull, &pulled), done);
  QN_TRY_GOTO(st,
              compare(c, "inner product of cotangents of result", 0, 0, inner_product(&pulled, results, &push, params),
                      inner_product(&pushed, results, &pull, params)),
              done);
done:
  free_values(&push);
  free_values(&pushed);
  free_values(&pull);
  free_values(&pulled);
  return st;
}

/* The next order: the same check of a derivative, at the point and a drawn direction. */
static qn_status check_next(check *c, const qn_graph *derivative) {
  values at = {0};
  qn_check_grads_desc d = c->d;
  d.order--;
  d.seed = c->seed + 1;
  qn_status st;
  QN_TRY_GOTO(st, make_values(derivative, true, &at), done);
  copy_point(&at, c->point);
  draw_all(&at, c->point->count, &c->seed);
  QN_TRY_GOTO(st, qn_check_grads(derivative, (const void *const *)at.data, &d), done);
done:
  free_values(&at);
  return st;
}

static qn_status fill_point(const qn_graph *f, const void *const *inputs, values *point, bool *narrow) {
  QN_TRY(make_values(f, true, point));
  for (size_t i = 0; i < point->count; ++i) {
    const qn_type *t = &point->types[i];
    if (qn_is_differentiable(t) && !is_checked(t))
      return QN_ERR(QN_UNSUPPORTED, "check_grads: parameter %zu is %s, expected f32 or f64", i, qn_type_str(t));
    *narrow = *narrow || t->dtype == QN_F32;
    memcpy(point->data[i], inputs[i], (size_t)qn_type_bytes(t));
  }
  for (size_t i = 0; i < qn_graph_result_count(f); ++i) {
    const qn_type *t = qn_graph_type(f, qn_graph_result(f, i));
    if (qn_is_differentiable(t) && !is_checked(t))
      return QN_ERR(QN_UNSUPPORTED, "check_grads: result %zu is %s, expected f32 or f64", i, qn_type_str(t));
  }
  return QN_OK;
}

qn_status qn_check_grads(const qn_graph *f, const void *const *inputs, const qn_check_grads_desc *desc) {
  static const qn_check_grads_desc plain;
  values point = {0};
  bool narrow = false;
  qn_graph *jvp = NULL, *vjp = NULL;
  check c = {.f = f, .d = desc != NULL ? *desc : plain, .point = &point};
  qn_status st;
  QN_TRY_GOTO(st, fill_point(f, inputs, &point, &narrow), done);
  c.seed = c.d.seed;
  c.d.step = c.d.step > 0 ? c.d.step : narrow ? 1e-2 : 1e-6;
  c.d.rtol = c.d.rtol > 0 ? c.d.rtol : narrow ? 2e-2 : 1e-6;
  c.d.atol = c.d.atol > 0 ? c.d.atol : narrow ? 2e-3 : 1e-6;
  QN_TRY_GOTO(st, qn_jvp_graph(f, &jvp), done);
  if (!c.d.no_forward)
    QN_TRY_GOTO(st, check_forward(&c, jvp), done);
  if (!c.d.no_reverse) {
    QN_TRY_GOTO(st, qn_vjp_graph(f, &vjp), done);
    QN_TRY_GOTO(st, check_reverse(&c, jvp, vjp), done);
  }
  if (c.d.order > 1 && !c.d.no_forward)
    QN_TRY_GOTO(st, check_next(&c, jvp), done);
  if (c.d.order > 1 && !c.d.no_reverse)
    QN_TRY_GOTO(st, check_next(&c, vjp), done);
done:
  free_values(&point);
  qn_graph_release(jvp);
  qn_graph_release(vjp);
  return st;
}
