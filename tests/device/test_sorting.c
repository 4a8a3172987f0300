/* Sorts on every device: rows shorter and longer than one pass takes, ties, keys with riders, axes, comparators that capture, each bit for
 * bit as the oracle has it, fused and one kernel per node. */
#include "graph_check.h"

#define X(i) qn_tree_get(args[i], "x")
#define CASE(name)                                                                                                     \
  static qn_tree *name(qn_graph *g, qn_tree *const *args, void *user) {                                                \
    qn_tree *r = qn_tree_create(g);                                                                                    \
    (void)user;

/* Few different values, so that most elements have equals. */
static qn_val coarse(qn_val x) { return qn_dtype_is_float(qn_val_type(x)->dtype) ? qn_floor(x) : x; }

static void sorted_as(qn_tree *r, qn_val x, qn_dtype t) {
  qn_val y = qn_convert(coarse(x), t), out[1];
  qn_sort_keys(&y, 1, 1, -1, false, out);
  qn_tree_set(r, qn_dtype_name(t), out[0]);
}
CASE(narrow_types)
sorted_as(r, X(0), QN_U8);
sorted_as(r, X(0), QN_I16);
sorted_as(r, X(0), QN_F16);
sorted_as(r, X(0), QN_BF16);
return r;
}
CASE(wide_types)
sorted_as(r, X(0), QN_F64);
sorted_as(r, X(0), QN_I64);
sorted_as(r, X(0), QN_U32);
return r;
}

CASE(along_the_last)
qn_val x = coarse(X(0)), out[1];
qn_sort_keys(&x, 1, 1, -1, false, out);
qn_tree_set(r, "sorted", out[0]);
qn_tree_set(r, "places", qn_argsort(x, -1, false));
qn_tree_set(r, "back", qn_argsort(x, -1, true));
return r;
}

CASE(along_the_first)
qn_val x = coarse(X(0)), out[1];
qn_sort_keys(&x, 1, 1, 0, true, out);
qn_tree_set(r, "sorted", out[0]);
qn_tree_set(r, "places", qn_argsort(x, 0, false));
return r;
}

/* Two keys of different types, a rider; what comes out is used elementwise. */
CASE(keys_and_riders)
qn_val in[3] = {qn_convert(coarse(X(0)), QN_I8), coarse(X(1)), qn_mul(X(0), X(1))}, out[3];
qn_sort_keys(in, 3, 2, 1, false, out);
qn_tree_set(r, "first", out[0]);
qn_tree_set(r, "second", out[1]);
qn_tree_set(r, "rider", qn_add(out[2], qn_like(out[2], 1)));
return r;
}

CASE(largest)
qn_val values, places;
qn_top_k(coarse(X(0)), 5, &values, &places);
qn_tree_set(r, "values", values);
qn_tree_set(r, "places", places);
return r;
}

/* The distance to a captured number decides. */
CASE(by_distance)
qn_graph *less;
if (qn_graph_create("less", &less) != QN_OK)
  return r;
qn_val p[3];
for (int i = 0; i < 3; i++)
  p[i] = qn_graph_param(less, qn_type_scalar(QN_F32), NULL);
qn_val y = qn_lt(qn_abs(qn_sub(p[0], p[2])), qn_abs(qn_sub(p[1], p[2])));
if (qn_graph_seal(less, &y, 1) == QN_OK) {
  qn_val in[2] = {coarse(X(0)), qn_sum_all(coarse(X(1)))};
  qn_attr_sort a = {.dimension = 1};
  qn_tree_set(r, "sorted", qn_graph_add(g, QN_OP_SORT, in, 2, &a, &less, 1, QN_HERE));
}
qn_graph_release(less);
return r;
}

#define ROW1(dtype_, n)                                                                                                \
  {                                                                                                                    \
    .dtype = (dtype_), .rank = 1, .dims = { n }                                                                        \
  }
#define ROW2(dtype_, m, n)                                                                                             \
  {                                                                                                                    \
    .dtype = (dtype_), .rank = 2, .dims = { m, n }                                                                     \
  }

static const graph_case cases[] = {
    {"none", along_the_last, {ROW2(QN_F32, 3, 0)}, 1, -9, 9, 0},
    {"one", along_the_last, {ROW2(QN_F32, 5, 1)}, 1, -9, 9, 0},
    {"two", along_the_last, {ROW2(QN_F32, 5, 2)}, 1, -9, 9, 0},
    {"short", along_the_last, {ROW2(QN_F32, 7, 19)}, 1, -9, 9, 0},
    {"one_pass", along_the_last, {ROW1(QN_F32, 64)}, 1, -9, 9, 0},
    {"one_more", along_the_last, {ROW1(QN_F32, 65)}, 1, -9, 9, 0},
    {"three_stretches", along_the_last, {ROW2(QN_F32, 3, 96)}, 1, -99, 99, 0},
    {"long", along_the_last, {ROW1(QN_F32, 5003)}, 1, -99, 99, 0},
    {"rows", along_the_last, {ROW2(QN_F32, 37, 130)}, 1, -99, 99, 0},
    {"narrow", narrow_types, {ROW2(QN_F32, 3, 301)}, 1, 0, 99, 0},
    {"columns", along_the_first, {ROW2(QN_F32, 48, 5)}, 1, -9, 9, 0},
    {"long_columns", along_the_first, {ROW2(QN_F32, 200, 6)}, 1, -99, 99, 0},
    {"keys", keys_and_riders, {ROW2(QN_F32, 4, 50), ROW2(QN_F32, 4, 50)}, 2, -3, 3, 0},
    {"long_keys", keys_and_riders, {ROW2(QN_F32, 2, 700), ROW2(QN_F32, 2, 700)}, 2, -3, 3, 0},
    {"largest", largest, {ROW2(QN_F32, 6, 40)}, 1, -9, 9, 0},
    {"distance", by_distance, {ROW2(QN_F32, 3, 90), ROW1(QN_F32, 3)}, 2, -9, 9, 0},
};
static const graph_case wide_cases[] = {
    {"wide", wide_types, {ROW2(QN_F32, 2, 333)}, 1, -99, 99, 0},
};

static void check_device(const char *which, size_t first, size_t stride) {
  qn_device *d = graph_device(which);
  for (size_t i = first; i < sizeof cases / sizeof *cases; i += stride)
    graph_check_case(d, &cases[i]);
  for (size_t i = 0; i < sizeof wide_cases / sizeof *wide_cases && qn_device_get_caps(d)->f64; i++)
    graph_check_case(d, &wide_cases[i]);
  qn_device_release(d);
}

Test(sorting, cpu) { check_device("cpu", 0, 1); }
Test(sorting, pocl, .timeout = 280) { check_device("opencl:pocl", 1, 3); }
Test(sorting, lavapipe, .timeout = 280) { check_device("vulkan:llvmpipe", 0, 2); }
Test(sorting, swiftshader, .timeout = 280) { check_device("vulkan:swiftshader", 1, 2); }

/* A million numbers: in order, and none lost. */
CASE(million)
qn_val x = X(0), out[1];
qn_sort_keys(&x, 1, 1, 0, false, out);
qn_val ahead = qn_slice(out[0], ((const int64_t[]){1}), ((const int64_t[]){1000000}), NULL);
qn_val behind = qn_slice(out[0], ((const int64_t[]){0}), ((const int64_t[]){999999}), NULL);
qn_tree_set(r, "falls", qn_sum_all(qn_convert(qn_lt(ahead, behind), QN_I32)));
qn_val mixed = qn_convert(qn_bitcast_convert(qn_mul(x, qn_like(x, 3)), QN_U32), QN_U32);
qn_val mixed_out = qn_bitcast_convert(qn_mul(out[0], qn_like(x, 3)), QN_U32);
qn_tree_set(r, "lost", qn_sub(qn_sum_all(mixed), qn_sum_all(mixed_out)));
return r;
}

Test(sorting, a_million, .timeout = 120) {
  static const graph_case c = {"million", million, {ROW1(QN_F32, 1000000)}, 1, -1000, 1000, 0};
  qn_device *d = NULL;
  size_t count;
  const qn_driver *const *drivers = qn_drivers(&count);
  graph_inputs in;
  graph_results got;
  QN_ASSERT_OK(qn_device_open(drivers, count, "cpu", &d));
  QN_ASSERT_OK(graph_inputs_make(&c, &in));
  QN_ASSERT_OK(graph_run_device(d, &c, &in, &(qn_compile_desc){0}, &got));
  cr_expect(*(const int32_t *)got.data[0] == 0, "%d elements are less than the one before", *(int32_t *)got.data[0]);
  cr_expect(*(const uint32_t *)got.data[1] == 0, "elements were lost");
  graph_results_free(&got);
  graph_inputs_free(&in);
  qn_device_release(d);
}
