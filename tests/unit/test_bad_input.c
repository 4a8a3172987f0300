/* Every builder of ops.h with operands that do not fit: the message names the operation, the operand, what was expected and what came, and the
 * caller's file and line; nothing after the first failure adds to the graph. The unary and binary ones are walked by the op table. Further refusals
 * are in tests/ops/test_structural_errors.c. */
#include <stdio.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"
#include "quern/tree.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define LIST(...) ((const qn_val[]){__VA_ARGS__})

static const qn_place place = {"caller.c", 1234, 0};

/* Seals the graph of one failed build and compares; `name` may be NULL. */
static void refuses(qn_graph *g, qn_val y, const char *name, const char *const *parts, const char *file) {
  char begin[80];
  (void)snprintf(begin, sizeof begin, "%s: ", name ? name : "");
  cr_expect(!qn_val_ok(y), "%s: was not refused (%s)", name ? name : "?", parts[0]);
  qn_val later = qn_graph_param(g, qn_type_of(QN_F32, 1, 2), "later");
  cr_expect(!qn_val_ok(later), "%s: the failure does not stick", begin);
  qn_status st = qn_graph_seal(g, &y, 1);
  cr_expect(st == QN_INVALID || st == QN_UNSUPPORTED || st == QN_NOT_FOUND, "%s: '%s'", begin, qn_status_name(st));
  const char *message = st == QN_OK ? "" : qn_error_message();
  cr_expect(!name || strncmp(message, begin, strlen(begin)) == 0, "\"%s\" does not begin with the operation, %s",
            message, begin);
  for (; *parts; parts++)
    cr_expect(strstr(message, *parts) != NULL, "\"%s\" does not hold \"%s\"", message, *parts);
  cr_expect(strstr(message, file) != NULL, "\"%s\" does not name the place, %s", message, file);
  qn_graph_release(g);
}

static qn_graph *opened(void) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("bad", &g));
  return g;
}

/* ---- by the table ---- */

typedef qn_val (*unary_fn)(qn_place at, qn_val x);
typedef qn_val (*binary_fn)(qn_place at, qn_val a, qn_val b);
typedef struct row {
  qn_op op;
  unary_fn unary;
  binary_fn binary;
} row;
static const row rows[] = {
#define QN_OP_UNARY(NAME, name) {QN_OP_##NAME, qn_##name##_at, NULL},
#define QN_OP_BINARY(NAME, name) {QN_OP_##NAME, NULL, qn_##name##_at},
#define QN_OP_OTHER(NAME, name)
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool takes(const qn_op_def *def, qn_dtype t) {
  qn_graph *g = opened();
  qn_val x = qn_graph_param(g, qn_type_of(t, 2, 2, 3), "x"), in[] = {x, x};
  bool ok = qn_val_ok(qn_graph_add(g, qn_op_find(def->name), in, (size_t)def->arity, NULL, NULL, 0, place));
  qn_graph_release(g);
  return ok;
}

Test(bad_input, unary_dtypes) {
  static const qn_dtype all[] = {QN_BOOL, QN_I8, QN_I32, QN_U32, QN_F16, QN_F32, QN_F64, QN_C64};
  size_t refused = 0;
  for (size_t i = 0; i < ROWS; i++)
    for (size_t k = 0; rows[i].unary && k < sizeof all / sizeof *all; k++) {
      const qn_op_def *def = qn_op_get(rows[i].op);
      if (takes(def, all[k]))
        continue;
      char came[48];
      qn_graph *g = opened();
      qn_type t = qn_type_of(all[k], 2, 2, 3);
      (void)snprintf(came, sizeof came, "operand 0 is %s, expected ", qn_type_str(&t));
      const char *const parts[] = {came, NULL};
      refuses(g, rows[i].unary(place, qn_graph_param(g, t, "x")), def->name, parts, "(caller.c:1234)");
      refused++;
    }
  cr_expect(refused > 50, "%zu refusals", refused);
}

Test(bad_input, null_operands) {
  for (size_t i = 0; i < ROWS; i++) {
    const char *name = qn_op_get(rows[i].op)->name;
    qn_graph *g = opened();
    qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 3), "x");
    if (rows[i].binary) {
      const char *const parts[] = {"operand 1 is the null value", NULL};
      refuses(g, rows[i].binary(place, x, QN_NULL_VAL), name, parts, "(caller.c:1234)");
    } else {
      cr_expect(!qn_val_ok(rows[i].unary(place, QN_NULL_VAL)), "%s of nothing", name);
      qn_graph_release(g);
    }
  }
}

static qn_dtype taken_dtype(const row *r) {
  static const qn_dtype tried[] = {QN_F32, QN_I32, QN_BOOL};
  for (size_t k = 0; k < 3; k++)
    if (takes(qn_op_get(r->op), tried[k]))
      return tried[k];
  return QN_F32;
}

Test(bad_input, binary_shapes_and_dtypes) {
  for (size_t i = 0; i < ROWS; i++) {
    if (!rows[i].binary)
      continue;
    const char *name = qn_op_get(rows[i].op)->name;
    qn_dtype t = taken_dtype(&rows[i]), other = t == QN_F32 ? QN_I32 : QN_F32;
    qn_type a = qn_type_of(t, 2, 2, 3), b = qn_type_of(t, 1, 4), c = qn_type_of(other, 2, 2, 3);
    char first[40], second[40], third[40];
    (void)snprintf(first, sizeof first, "%s", qn_type_str(&a));
    (void)snprintf(second, sizeof second, "%s", qn_type_str(&b));
    (void)snprintf(third, sizeof third, "operand 1 is %s, expected ", qn_type_str(&c));
    qn_graph *g = opened();
    qn_val x = qn_graph_param(g, a, "x"), y = qn_graph_param(g, b, "y");
    const char *const shapes[] = {first, second, NULL};
    refuses(g, rows[i].binary(place, x, y), name, shapes, "(caller.c:1234)");
    g = opened();
    x = qn_graph_param(g, a, "x");
    y = qn_graph_param(g, c, "y");
    const char *const dtypes[] = {third, NULL};
    refuses(g, rows[i].binary(place, x, y), name, dtypes, "(caller.c:1234)");
  }
}

/* ---- the other builders ---- */

typedef struct given {
  qn_graph *g;
  qn_val x, v, i, b, s, foreign; /* f32[2,3], f32[3], i32[4], bool[2,3], f32[]; f32[2,3] of another graph */
} given;
typedef struct refusal {
  const char *name, *part; /* the operation that the message begins with; NULL: any */
  qn_val (*build)(const given *a);
} refusal;

#define REFUSAL(fn, expression)                                                                                        \
  static qn_val fn(const given *a) { return expression; }

static qn_val scattered(qn_val x, qn_val i, qn_val u) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, QN_F32, &body));
  qn_attr_scatter d = {.update_window_dims = {1, {1}},
                       .inserted_window_dims = {1, {0}},
                       .scatter_dims_to_operand_dims = {1, {0}},
                       .index_vector_dim = 1};
  qn_val y = qn_scatter(x, i, u, &d, body);
  qn_graph_release(body);
  return y;
}
static qn_val reduced(qn_val x, qn_val init) {
  qn_graph *body = NULL;
  qn_val y;
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, QN_F32, &body));
  qn_reduce(&x, &init, 1, 1, DIMS(0), body, &y);
  qn_graph_release(body);
  return y;
}
static qn_val gathered(qn_val x, qn_val i) {
  qn_attr_gather d = {.offset_dims = {1, {1}},
                      .collapsed_slice_dims = {1, {0}},
                      .start_index_map = {1, {0}},
                      .slice_sizes = {2, {1, 3}},
                      .index_vector_dim = 1};
  return qn_gather(x, i, &d);
}
static qn_val custom(qn_val x) {
  qn_graph *f = NULL;
  qn_val y;
  QN_ASSERT_OK(qn_graph_create("f", &f));
  y = qn_graph_param(f, qn_type_of(QN_F32, 1, 5), NULL);
  QN_ASSERT_OK(qn_graph_seal(f, &y, 1));
  qn_custom_vjp(&x, 1, f, f, f, &y);
  qn_graph_release(f);
  return y;
}
static qn_val from_tree(const given *a, const char *path) {
  qn_tree *t = qn_tree_create(a->g);
  qn_tree_set(t, "w", a->x);
  return qn_tree_get(t, path);
}

REFUSAL(compare_shape, qn_lt(a->x, a->i))
REFUSAL(compare_dtype, qn_lt(a->x, qn_convert(a->x, QN_I32)))
REFUSAL(compare_foreign, qn_eq(a->x, a->foreign))
REFUSAL(select_pred, qn_select(a->x, a->x, a->x))
REFUSAL(select_dtype, qn_select(a->b, a->x, qn_convert(a->x, QN_I32)))
REFUSAL(select_shape, qn_select(a->b, a->x, qn_full(a->g, qn_type_of(QN_F32, 1, 4), 0)))
REFUSAL(select_foreign, qn_select(a->b, a->x, a->foreign))
REFUSAL(clamp_shape, qn_clamp(a->v, a->x, a->s))
REFUSAL(clamp_dtype, qn_clamp(a->s, a->x, qn_scalar(a->g, QN_I32, 1)))
REFUSAL(clamp_foreign, qn_clamp(a->s, a->foreign, a->s))
REFUSAL(convert_dtype, qn_convert(a->x, QN_DTYPE_NONE))
REFUSAL(bitcast_bool, qn_bitcast_convert(a->b, QN_I32))
REFUSAL(bitcast_width, qn_bitcast_convert(a->x, QN_F64))
REFUSAL(precision_bits, qn_reduce_precision(a->x, 0, 3))
REFUSAL(precision_dtype, qn_reduce_precision(a->i, 8, 3))
REFUSAL(iota_axis, qn_iota(a->g, qn_type_of(QN_F32, 1, 4), 1))
REFUSAL(iota_dtype, qn_iota(a->g, qn_type_of(QN_BOOL, 1, 4), 0))
REFUSAL(full_negative, qn_full(a->g, qn_type_of(QN_F32, 1, -4), 0))
REFUSAL(broadcast_foreign, qn_add(a->v, a->foreign))
REFUSAL(pad_foreign, qn_pad(a->x, qn_like(a->foreign, 0), DIMS(1, 1), DIMS(1, 1), NULL))
REFUSAL(concatenate_foreign, qn_concatenate(LIST(a->x, a->foreign), 2, 0))
REFUSAL(concatenate_nothing, qn_concatenate(LIST(QN_NULL_VAL, a->x), 2, 0))
REFUSAL(dynamic_foreign, qn_dynamic_update_slice(a->x, a->foreign, LIST(a->i, a->i)))
REFUSAL(dynamic_start_shape, qn_dynamic_slice(a->x, LIST(a->i, a->i), DIMS(1, 1)))
REFUSAL(reduce_foreign, reduced(a->x, qn_like(a->foreign, 0)))
REFUSAL(reduce_dtype, reduced(a->i, qn_scalar(a->g, QN_I32, 0)))
REFUSAL(mean_axis, qn_mean(a->x, 1, DIMS(2), false))
REFUSAL(var_axis, qn_var(a->x, 1, DIMS(-3), 0, false))
REFUSAL(argmax_axis, qn_argmax(a->x, 2))
REFUSAL(argmax_empty, qn_argmin(qn_full(a->g, qn_type_of(QN_F32, 2, 3, 0), 0), 1))
REFUSAL(sum_bool, qn_prod(qn_full(a->g, qn_type_of(QN_F32, 1, 4), 0), 1, DIMS(1), true))
REFUSAL(and_floats, qn_reduce_and(a->x, 0, NULL, false))
REFUSAL(dot_foreign, qn_dot(a->x, a->foreign))
REFUSAL(gather_foreign, gathered(a->foreign, a->i))
REFUSAL(gather_floats, gathered(a->x, a->v))
REFUSAL(scatter_foreign, scattered(a->x, a->i, a->foreign))
REFUSAL(scatter_floats, scattered(a->x, a->v, a->x))
REFUSAL(take_foreign, qn_take(a->foreign, a->i, 0))
REFUSAL(one_hot_floats, qn_one_hot(a->x, 3, QN_F32))
REFUSAL(one_hot_classes, qn_one_hot(a->i, -1, QN_F32))
REFUSAL(softplus_integers, qn_softplus(a->i))
REFUSAL(logsumexp_integers, qn_logsumexp(a->i, 0, NULL, false))
REFUSAL(logsumexp_axis, qn_logsumexp(a->x, 1, DIMS(5), false))
REFUSAL(softmax_axis, qn_softmax(a->x, 2))
REFUSAL(softmax_integers, qn_softmax(a->i, 0))
REFUSAL(log_softmax_axis, qn_log_softmax(a->x, -3))
REFUSAL(custom_shape, custom(a->x))
REFUSAL(split_type, qn_key_split(a->x, 3))
REFUSAL(split_count, qn_key_split(qn_key(a->g, 1), -1))
REFUSAL(fold_key, qn_key_fold_in(a->i, qn_scalar(a->g, QN_U32, 1)))
REFUSAL(fold_data, qn_key_fold_in(qn_key(a->g, 1), a->s))
REFUSAL(bits_dtype, qn_random_bits(qn_key(a->g, 1), qn_type_of(QN_F32, 1, 3)))
REFUSAL(bits_key, qn_random_bits(a->v, qn_type_of(QN_U32, 1, 3)))
REFUSAL(uniform_dtype, qn_random_uniform(qn_key(a->g, 1), qn_type_of(QN_I32, 1, 3), 0, 1))
REFUSAL(normal_dtype, qn_random_normal(qn_key(a->g, 1), qn_type_of(QN_BOOL, 1, 3)))
REFUSAL(bernoulli_key, qn_random_bernoulli(a->i, 0.5, 1, DIMS(3)))
REFUSAL(tree_path, from_tree(a, "v"))

static const refusal refusals[] = {
    {"compare", "f32[2,3]", compare_shape},
    {"compare", "operand 1 is i32[2,3], expected f32", compare_dtype},
    {"compare", "operand 1 belongs to another graph", compare_foreign},
    {"select", "operand 0 is f32[2,3], expected a bool", select_pred},
    {"select", "operand 2 is i32[2,3], expected f32", select_dtype},
    {"select", "f32[4]", select_shape},
    {"select", "operand 2 belongs to another graph", select_foreign},
    {"clamp", "operand 0 is f32[3], expected ", clamp_shape},
    {"clamp", "operand 2 is i32[2,3], expected f32[2,3]", clamp_dtype},
    {"clamp", "belongs to another graph", clamp_foreign},
    {"convert", "expected", convert_dtype},
    {"bitcast_convert", "operand 0 is bool[2,3], expected", bitcast_bool},
    {"bitcast_convert", "f32[2,3]", bitcast_width},
    {"reduce_precision", "exponent", precision_bits},
    {"reduce_precision", "operand 0 is i32[4], expected a float", precision_dtype},
    {"iota", "dimension", iota_axis},
    {"iota", "bool", iota_dtype},
    {NULL, "-4", full_negative},
    {NULL, "operand 1 belongs to another graph", broadcast_foreign},
    {"pad", "operand 1 belongs to another graph", pad_foreign},
    {"concatenate", "operand 1 belongs to another graph", concatenate_foreign},
    {"concatenate", "operand 0 is the null value", concatenate_nothing},
    {"dynamic_update_slice", "operand 1 belongs to another graph", dynamic_foreign},
    {"dynamic_slice", "operand 1 is i32[4], expected", dynamic_start_shape},
    {"reduce", "operand 1 belongs to another graph", reduce_foreign},
    {"reduce", "region 0", reduce_dtype},
    {NULL, "axis 2 is out of range for f32[2,3]", mean_axis},
    {NULL, "axis -3 is out of range for f32[2,3]", var_axis},
    {"argmax", "axis 2 is out of range for f32[2,3]", argmax_axis},
    {NULL, "f32[3,0]", argmax_empty},
    {"reduce", "axis 1 is out of range for f32[4]", sum_bool},
    {NULL, "f32[", and_floats},
    {NULL, "operand 1 belongs to another graph", dot_foreign},
    {"gather", "belongs to another graph", gather_foreign},
    {"gather", "operand 1 is f32[3], expected integers", gather_floats},
    {"scatter", "operand 2 belongs to another graph", scatter_foreign},
    {"scatter", "operand 1 is f32[3], expected integers", scatter_floats},
    {NULL, "belongs to another graph", take_foreign},
    {"one_hot", "f32[2,3] and classes 3, expected integers", one_hot_floats},
    {"one_hot", "-1", one_hot_classes},
    {"softplus", "operand 0 is i32[4], expected a float", softplus_integers},
    {"logsumexp", "operand 0 is i32[4], expected a float", logsumexp_integers},
    {NULL, "axis 5 is out of range for f32[2,3]", logsumexp_axis},
    {"softmax", "axis 2 is out of range for f32[2,3]", softmax_axis},
    {"softmax", "operand 0 is i32[4], expected a float", softmax_integers},
    {"log_softmax", "axis -3 is out of range for f32[2,3]", log_softmax_axis},
    {"quern.custom_vjp", "f32[5], expected f32[2,3]", custom_shape},
    {NULL, "f32[2,3], expected", split_type},
    {NULL, "-1", split_count},
    {NULL, "i32[4], expected", fold_key},
    {NULL, "f32[], expected", fold_data},
    {NULL, "f32[3], expected", bits_dtype},
    {NULL, "f32[3], expected", bits_key},
    {NULL, "i32[3], expected", uniform_dtype},
    {NULL, "bool[3], expected", normal_dtype},
    {NULL, "i32[4], expected", bernoulli_key},
    {NULL, "no leaf 'v' (there are: w)", tree_path},
};

Test(bad_input, other_builders) {
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
    qn_graph *other = opened();
    given a = {.g = opened()};
    a.x = qn_graph_param(a.g, qn_type_of(QN_F32, 2, 2, 3), "x");
    a.v = qn_graph_param(a.g, qn_type_of(QN_F32, 1, 3), "v");
    a.i = qn_graph_param(a.g, qn_type_of(QN_I32, 1, 4), "i");
    a.b = qn_graph_param(a.g, qn_type_of(QN_BOOL, 2, 2, 3), "b");
    a.s = qn_graph_param(a.g, qn_type_scalar(QN_F32), "s");
    a.foreign = qn_graph_param(other, qn_type_of(QN_F32, 2, 2, 3), "foreign");
    const char *const parts[] = {refusals[k].part, NULL};
    qn_val y = refusals[k].build(&a);
    if (qn_graph_failed(other) && !qn_graph_failed(a.g)) { /* the graph of the first operand fails */
      refuses(other, y, refusals[k].name, parts, "test_bad_input.c:");
      qn_graph_release(a.g);
    } else {
      refuses(a.g, y, refusals[k].name, parts, "test_bad_input.c:");
      qn_graph_release(other);
    }
  }
}
