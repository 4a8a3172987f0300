/* Pipelines of transforms over StableHLO programs against recorded values, on the oracle. Programs with operations that Quern has not are
 * counted, not checked. */
#include "expect.h"

#ifdef QN_HAVE_CJSON
#include "golden.h"
#include "quern/autodiff.h"

enum { MOST = 24, STEPS = 8 };

typedef struct step {
  qn_transform t;
  int argnums[MOST], in_axes[MOST], out_axes[MOST];
  int n; /* of jvp, vjp, linearize: how many arguments the function has */
} step;

static size_t read_ints(const cJSON *list, int *out) {
  if (cJSON_IsNumber(list)) {
    out[0] = list->valueint;
    return 1;
  }
  size_t n = 0;
  const cJSON *x;
  cJSON_ArrayForEach(x, list) {
    cr_assert_lt(n, MOST);
    out[n++] = cJSON_IsNumber(x) ? x->valueint : QN_NO_LANES;
  }
  return n;
}

static void read_step(const cJSON *item, step *s) {
  QN_ASSERT_OK(qn_transform_find(qn_golden_string(item, "t"), &s->t.kind));
  s->t.has_aux = qn_golden_number(item, "has_aux", 0) > 0;
  s->n = (int)qn_golden_number(item, "n", 0);
  s->t.argnum_count = read_ints(qn_golden_get(item, "argnums"), s->argnums);
  s->t.argnums = s->t.argnum_count > 0 ? s->argnums : NULL;
  (void)read_ints(qn_golden_get(item, "in_axes"), s->in_axes);
  const cJSON *out = qn_golden_get(item, "out_axes");
  for (int i = 0; i < MOST; ++i)
    s->out_axes[i] = cJSON_IsNumber(out) ? out->valueint : 0;
  if (cJSON_IsArray(out))
    (void)read_ints(out, s->out_axes);
  s->t.in_axes = s->in_axes;
  s->t.out_axes = s->out_axes;
}

/* Lane counts follow from the inputs of the whole: from the last transform to the first, each takes off what it added. */
static void find_lanes(step *steps, size_t count, const qn_golden_tensor *in, size_t in_count) {
  qn_type types[MOST];
  size_t n = in_count;
  for (size_t i = 0; i < n; ++i)
    types[i] = in[i].type;
  for (size_t k = count; k-- > 0;) {
    step *s = &steps[k];
    if (s->t.kind == QN_TRANSFORM_HVP || s->t.kind == QN_TRANSFORM_HVP_REV)
      n -= 1;
    if (s->t.kind == QN_TRANSFORM_JVP || s->t.kind == QN_TRANSFORM_VJP || s->t.kind == QN_TRANSFORM_LINEARIZE)
      n = (size_t)s->n;
    for (size_t i = 0; s->t.kind == QN_TRANSFORM_VMAP && i < n; ++i) {
      if (s->in_axes[i] == QN_NO_LANES)
        continue;
      qn_type *t = &types[i];
      int axis = s->in_axes[i] < 0 ? s->in_axes[i] + t->rank : s->in_axes[i];
      s->t.lanes = t->dims[axis];
      for (int d = axis; d + 1 < t->rank; ++d)
        t->dims[d] = t->dims[d + 1];
      t->dims[--t->rank] = 0;
    }
  }
}

static qn_status apply(const qn_graph *f, const step *steps, size_t count, qn_graph **out) {
  qn_graph *g = qn_graph_retain(f);
  for (size_t i = 0; i < count; ++i) {
    qn_graph *next = NULL;
    qn_status st = qn_transform_graph(g, &steps[i].t, &next);
    qn_graph_release(g);
    QN_TRY(st);
    g = next;
  }
  *out = g;
  return QN_OK;
}

static void check_values(const char *id, const cJSON *item, const qn_graph *g, const qn_golden_tensor *in,
                         size_t in_count, const qn_golden_tensor *want, size_t want_count) {
  const void *from[MOST];
  void *got[MOST] = {NULL};
  cr_expect_eq(qn_graph_param_count(g), in_count, "%s: %zu parameters, expected %zu", id, qn_graph_param_count(g),
               in_count);
  cr_expect_eq(qn_graph_result_count(g), want_count, "%s: %zu results, expected %zu", id, qn_graph_result_count(g),
               want_count);
  if (qn_graph_param_count(g) != in_count || qn_graph_result_count(g) != want_count)
    return;
  for (size_t i = 0; i < in_count; ++i)
    from[i] = in[i].data;
  for (size_t i = 0; i < want_count; ++i)
    got[i] = calloc((size_t)qn_type_bytes(qn_graph_type(g, qn_graph_result(g, i))) + 1, 1);
  QN_EXPECT_OK(qn_graph_eval_ref(g, from, got));
  double rtol = qn_golden_number(item, "rtol", 0), atol = qn_golden_number(item, "atol", 0);
  for (size_t i = 0; i < want_count; ++i) {
    const qn_type *t = qn_graph_type(g, qn_graph_result(g, i));
    char why[256] = "";
    cr_expect(qn_type_equal(t, &want[i].type), "%s: result %zu is %s, expected %s", id, i, qn_type_str(t),
              qn_type_str(&want[i].type));
    if (qn_type_equal(t, &want[i].type))
      cr_expect(qn_golden_matches(t, got[i], want[i].data, rtol, atol, why, sizeof why), "%s: result %zu: %s", id, i,
                why);
    free(got[i]);
  }
}

/* false: the program has an operation that is not there yet */
static bool check_case(const qn_golden *golden, const cJSON *item) {
  const char *id = qn_golden_string(item, "id");
  const cJSON *attrs = qn_golden_get(item, "attrs"), *x;
  char name[256], path[1024];
  (void)snprintf(name, sizeof name, "golden/%s", qn_golden_string(attrs, "program"));
  cr_assert(qn_test_shared_path(name, path, sizeof path) != NULL, "%s", name);
  qn_bytes text;
  QN_ASSERT_OK(qn_file_read(path, &text));
  qn_graph *f = NULL, *g = NULL;
  qn_status st = qn_graph_parse((const char *)text.data, text.size, path, &f);
  free(text.data);
  if (st != QN_OK) {
    cr_expect(strstr(qn_error_message(), "unknown operation") != NULL, "%s: %s", id, qn_error_message());
    return false;
  }
  qn_golden_tensor in[MOST], want[MOST];
  size_t in_count = qn_golden_tensors(golden, qn_golden_get(item, "inputs"), in, MOST);
  size_t want_count = qn_golden_tensors(golden, qn_golden_get(item, "outputs"), want, MOST), count = 0;
  static step steps[STEPS];
  memset(steps, 0, sizeof steps);
  cJSON_ArrayForEach(x, qn_golden_get(attrs, "pipeline")) {
    cr_assert_lt(count, STEPS);
    read_step(x, &steps[count++]);
  }
  find_lanes(steps, count, in, in_count);
  st = apply(f, steps, count, &g);
  cr_expect(st == QN_OK, "%s: %s", id, st == QN_OK ? "" : qn_error_message());
  if (st == QN_OK) {
    check_values(id, item, g, in, in_count, want, want_count);
    qn_graph_release(g);
  }
  qn_graph_release(f);
  return true;
}

Test(autodiff_golden, pipelines) {
  qn_golden golden;
  if (!qn_golden_open("transforms", &golden)) {
    cr_skip_test("the shared data is not there: recorded transforms are not checked");
    return;
  }
  const cJSON *item;
  int checked = 0, lacking = 0, inexact = 0;
  cJSON_ArrayForEach(item, golden.cases) {
    if (qn_golden_number(qn_golden_get(item, "attrs"), "program_exact", 0) < 1)
      ++inexact; /* the lowering lost a rule: the program alone cannot give the result */
    else if (check_case(&golden, item))
      ++checked;
    else
      ++lacking;
  }
  (void)fprintf(stderr, "%d pipelines checked, %d need operations that are not there, %d are not exact as programs\n",
                checked, lacking, inexact);
  cr_expect_geq(checked, 180, "%d pipelines were checked", checked);
  qn_golden_close(&golden);
}
#else
Test(autodiff_golden, none) { cr_skip_test("built without cJSON: recorded transforms are not checked"); }
#endif
