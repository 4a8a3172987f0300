/* What the structural rows and builders refuse, by message: operation, operand, what was expected, what came. Also shapes with nothing in
 * them, which are allowed. */
#include <math.h>
#include <stdlib.h>

#include "expect.h"
#include "quern/op.h"
#include "quern/ops.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct refusal {
  const char *part;
  qn_val (*build)(qn_graph *g, qn_val x, qn_val v, qn_val i, qn_val s); /* f32[2,3], f32[3], i32[4], f32[] */
} refusal;

#define REFUSAL(name, expression)                                                                                      \
  static qn_val name(qn_graph *g, qn_val x, qn_val v, qn_val i, qn_val s) {                                            \
    (void)g;                                                                                                           \
    (void)x;                                                                                                           \
    (void)v;                                                                                                           \
    (void)i;                                                                                                           \
    (void)s;                                                                                                           \
    return expression;                                                                                                 \
  }

static qn_val dot_dims(qn_val l, qn_val r, qn_attr_dot a) { return qn_dot_general(l, r, &a, QN_DTYPE_NONE); }
static qn_val gather_dims(qn_val x, qn_val i, qn_attr_gather a) { return qn_gather(x, i, &a); }
static qn_val scatter_add(qn_val x, qn_val i, qn_val u, qn_attr_scatter a, qn_dtype body_of) {
  qn_graph *body = NULL;
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, body_of, &body));
  qn_val y = qn_scatter(x, i, u, &a, body);
  qn_graph_release(body);
  return y;
}
static qn_val reduce_add(qn_val x, qn_val init, qn_dtype body_of) {
  qn_graph *body = NULL;
  qn_val y;
  QN_ASSERT_OK(qn_region_binary(QN_OP_ADD, body_of, &body));
  qn_reduce(&x, &init, 1, 1, DIMS(0), body, &y);
  qn_graph_release(body);
  return y;
}
static qn_val two(qn_val a, qn_val b) { return qn_concatenate(((const qn_val[]){a, b}), 2, 0); }

REFUSAL(broadcast_size, qn_broadcast_in_dim(x, 2, DIMS(2, 4), DIMS(0, 1)))
REFUSAL(broadcast_axis, qn_broadcast_in_dim(x, 2, DIMS(2, 3), DIMS(0, 2)))
REFUSAL(broadcast_twice, qn_broadcast_in_dim(x, 2, DIMS(2, 3), DIMS(1, 1)))
REFUSAL(broadcast_rank, qn_broadcast_in_dim(x, 13, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3), DIMS(0, 1)))
REFUSAL(broadcast_to_less, qn_broadcast_to(x, 1, DIMS(3)))
REFUSAL(reshape_count, qn_reshape(x, 1, DIMS(7)))
REFUSAL(reshape_open, qn_reshape(x, 2, DIMS(-1, 4)))
REFUSAL(reshape_twice, qn_reshape(x, 2, DIMS(-1, -1)))
REFUSAL(transpose_twice, qn_transpose(x, DIMS(1, 1)))
REFUSAL(reverse_axis, qn_reverse(x, 1, DIMS(2)))
REFUSAL(slice_limit, qn_slice(x, DIMS(0, 0), DIMS(2, 4), NULL))
REFUSAL(slice_order, qn_slice(x, DIMS(2, 0), DIMS(1, 3), NULL))
REFUSAL(slice_stride, qn_slice(x, DIMS(0, 0), DIMS(2, 3), DIMS(1, 0)))
REFUSAL(pad_value, qn_pad(x, v, DIMS(0, 0), DIMS(0, 0), NULL))
REFUSAL(pad_dtype, qn_pad(x, qn_scalar(g, QN_I32, 0), DIMS(0, 0), DIMS(0, 0), NULL))
REFUSAL(pad_size, qn_pad(x, s, DIMS(-3, 0), DIMS(0, 0), NULL))
REFUSAL(pad_interior, qn_pad(x, s, DIMS(0, 0), DIMS(0, 0), DIMS(-1, 0)))
REFUSAL(concatenate_shape, two(x, qn_reshape(x, 2, DIMS(3, 2))))
REFUSAL(concatenate_dtype, two(v, i))
REFUSAL(concatenate_axis, qn_concatenate(&s, 1, 0))
REFUSAL(dynamic_size, qn_dynamic_slice(v, ((const qn_val[]){qn_scalar(g, QN_I32, 0)}), DIMS(4)))
REFUSAL(dynamic_start, qn_dynamic_slice(v, &s, DIMS(1)))
REFUSAL(update_size, qn_dynamic_update_slice(v, qn_full(g, qn_type_of(QN_F32, 1, 4), 0),
                                             ((const qn_val[]){qn_scalar(g, QN_I32, 0)})))
REFUSAL(update_rank, qn_dynamic_update_slice(v, x, ((const qn_val[]){qn_scalar(g, QN_I32, 0)})))
REFUSAL(reduce_axis, qn_sum(x, 1, DIMS(2), false))
REFUSAL(reduce_negative, qn_sum(x, 1, DIMS(-3), false))
REFUSAL(reduce_twice, qn_sum(x, 2, DIMS(1, -1), false))
REFUSAL(reduce_op, qn_reduce_op_at(QN_HERE, x, QN_OP_SINE, 0, NULL, false))
REFUSAL(reduce_init, reduce_add(x, v, QN_F32))
REFUSAL(reduce_body, reduce_add(x, s, QN_I32))
REFUSAL(dot_sizes, qn_dot(x, x))
REFUSAL(dot_scalar, qn_dot(s, x))
REFUSAL(dot_dtypes, qn_dot(v, i))
REFUSAL(dot_both, dot_dims(x, x, ((qn_attr_dot){{1, {0}}, {1, {0}}, {1, {0}}, {1, {0}}})))
REFUSAL(dot_counts, dot_dims(x, x, ((qn_attr_dot){{1, {0}}, {0}, {0}, {0}})))
REFUSAL(dot_class,
        qn_dot_general(v, v, &((const qn_attr_dot){.lhs_contract = {1, {0}}, .rhs_contract = {1, {0}}}), QN_I32))
REFUSAL(take_axis, qn_take(x, i, 2))
REFUSAL(take_dtype, qn_take(x, v, 0))
REFUSAL(gather_sizes, gather_dims(v, i,
                                  ((qn_attr_gather){.offset_dims = {1, {1}},
                                                    .start_index_map = {1, {0}},
                                                    .slice_sizes = {1, {4}},
                                                    .index_vector_dim = 1})))
REFUSAL(gather_map, gather_dims(x, i,
                                ((qn_attr_gather){.offset_dims = {1, {0}},
                                                  .collapsed_slice_dims = {1, {0}},
                                                  .start_index_map = {1, {0}},
                                                  .slice_sizes = {2, {1, 3}},
                                                  .index_vector_dim = 0})))
REFUSAL(gather_offset, gather_dims(x, i,
                                   ((qn_attr_gather){.offset_dims = {0},
                                                     .collapsed_slice_dims = {1, {0}},
                                                     .start_index_map = {1, {0}},
                                                     .slice_sizes = {2, {1, 3}},
                                                     .index_vector_dim = 1})))
REFUSAL(scatter_rank, scatter_add(v, i, x,
                                  ((qn_attr_scatter){.inserted_window_dims = {1, {0}},
                                                     .scatter_dims_to_operand_dims = {1, {0}},
                                                     .index_vector_dim = 1}),
                                  QN_F32))
REFUSAL(scatter_count, scatter_add(v, i, v,
                                   ((qn_attr_scatter){.inserted_window_dims = {1, {0}},
                                                      .scatter_dims_to_operand_dims = {1, {0}},
                                                      .index_vector_dim = 1}),
                                   QN_F32))
REFUSAL(scatter_body, scatter_add(i, i, i,
                                  ((qn_attr_scatter){.inserted_window_dims = {1, {0}},
                                                     .scatter_dims_to_operand_dims = {1, {0}},
                                                     .index_vector_dim = 1}),
                                  QN_F32))

static const refusal refusals[] = {
    {"broadcast_in_dim: axis 1 of operand 0, f32[2,3], has size 3, expected 1 or 4 as axis 1 of the result",
     broadcast_size},
    {"broadcast_in_dim: broadcast_dimensions holds 2, expected an axis in 0..1", broadcast_axis},
    {"broadcast_in_dim: broadcast_dimensions holds axis 1 twice", broadcast_twice},
    {"broadcast_in_dim: rank 13, expected 0..12", broadcast_rank},
    {"broadcast_in_dim: cannot broadcast f32[2,3] to rank 1", broadcast_to_less},
    {"reshape: operand 0 is f32[2,3] with 6 elements, expected 7 for f32[7]", reshape_count},
    {"reshape: f32[2,3] has 6 elements, which the other axes, 4 in all, do not divide", reshape_open},
    {"reshape: axes 0 and 1 are both -1", reshape_twice},
    {"transpose: permutation holds axis 1 twice", transpose_twice},
    {"reverse: dimensions holds 2, expected an axis in 0..1", reverse_axis},
    {"slice: axis 1 takes 0:4 of operand 0, f32[2,3], expected 0 <= start <= limit <= 3", slice_limit},
    {"slice: axis 0 takes 2:1", slice_order},
    {"slice: stride of axis 1 is 0, expected at least 1", slice_stride},
    {"pad: operand 1 is f32[3], expected a scalar", pad_value},
    {"pad: operand 1 is i32[], expected f32", pad_dtype},
    {"pad: axis 0 of operand 0, f32[2,3], padded by -3 and 0 has size -1", pad_size},
    {"pad: interior_padding of axis 0 is -1", pad_interior},
    {"concatenate: operand 1 is f32[3,2], expected the shape of operand 0, f32[2,3], but for axis 0",
     concatenate_shape},
    {"concatenate: operand 1 is i32[4], expected elements of f32 as operand 0", concatenate_dtype},
    {"concatenate: dimension is 0", concatenate_axis},
    {"dynamic_slice: slice_sizes of axis 0 is 4, expected 0..3 for f32[3]", dynamic_size},
    {"dynamic_slice: operand 1 is f32[], expected an integer", dynamic_start},
    {"dynamic_update_slice: axis 0 of operand 1, f32[4], is larger than in operand 0, f32[3]", update_size},
    {"dynamic_update_slice: operand 1 is f32[2,3], expected rank 1 as operand 0, f32[3]", update_rank},
    {"reduce: axis 2 is out of range for f32[2,3]", reduce_axis},
    {"reduce: axis -3 is out of range", reduce_negative},
    {"reduce: axis -1 is there twice", reduce_twice},
    {"reduce: sine", reduce_op},
    {"reduce: operand 1 is f32[3], expected a scalar", reduce_init},
    {"reduce: parameter 0 of region 0 is i32[], expected f32[]", reduce_body},
    {"dot_general: operand 1 is f32[2,3], expected size 3 at axis 0 as axis 1 of operand 0, f32[2,3] (contracting)",
     dot_sizes},
    {"dot: operands are f32[] and f32[2,3], expected at least one axis each", dot_scalar},
    {"dot_general: operand 1 is i32[4], expected elements of f32 as operand 0", dot_dtypes},
    {"dot_general: axis 0 is in both lhs_batching_dimensions and lhs_contracting_dimensions", dot_both},
    {"dot_general: operand 0 has 1 batching axes, operand 1 has 0", dot_counts},
    {"dot_general: the result's elements are i32, expected the class of f32", dot_class},
    {"take: axis 2 is out of range for f32[2,3]", take_axis},
    {"gather: operand 1 is f32[3], expected integers", take_dtype},
    {"gather: slice_sizes of axis 0 is 4, expected 0..3 for operand 0, f32[3]", gather_sizes},
    {"gather: an index vector of operand 1, i32[4], has 4 components, expected 1 as mapped axes", gather_map},
    {"gather: offset_dims has 0 entries, expected 1", gather_offset},
    {"scatter: operand 2 is f32[2,3], expected rank 1: 1 axes of the indices and 0 of a window", scatter_rank},
    {"scatter: operand 2 is f32[3], expected size 4 at axis 0 as axis 0 of operand 1, i32[4]", scatter_count},
    {"scatter: parameter 0 of region 0 is f32[], expected i32[]", scatter_body},
};

Test(structural_errors, messages) {
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; ++k) {
    qn_graph *g = NULL;
    QN_ASSERT_OK(qn_graph_create("g", &g));
    qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 3), NULL),
           v = qn_graph_param(g, qn_type_of(QN_F32, 1, 3), NULL);
    qn_val i = qn_graph_param(g, qn_type_of(QN_I32, 1, 4), NULL), s = qn_graph_param(g, qn_type_scalar(QN_F32), NULL);
    qn_val y = refusals[k].build(g, x, v, i, s);
    cr_expect(!qn_val_ok(y), "expected: %s", refusals[k].part);
    qn_val later = qn_neg(x); /* the first failure sticks */
    cr_expect(!qn_val_ok(later));
    qn_status st = qn_graph_seal(g, &y, 1);
    cr_expect_neq(st, QN_OK, "expected: %s", refusals[k].part);
    cr_expect(st == QN_OK || strstr(qn_error_message(), refusals[k].part) != NULL, "\"%s\" does not hold \"%s\"",
              qn_error_message(), refusals[k].part);
    cr_expect(st == QN_OK || strstr(qn_error_message(), "test_structural_errors.c:") != NULL, "\"%s\" names no place",
              qn_error_message());
    qn_graph_release(g);
  }
}

/* ---- shapes with nothing in them ---- */
Test(structural_errors, empty_shapes) {
  qn_graph *g = NULL;
  QN_ASSERT_OK(qn_graph_create("empty", &g));
  qn_val x = qn_graph_param(g, qn_type_of(QN_F32, 2, 0, 3), NULL),
         y = qn_graph_param(g, qn_type_of(QN_F32, 2, 2, 3), NULL);
  qn_val i = qn_graph_param(g, qn_type_of(QN_I32, 1, 0), NULL);
  qn_val out[] = {
      qn_transpose(x, NULL),
      qn_reverse(x, 2, DIMS(0, 1)),
      qn_concatenate(((const qn_val[]){x, y, x}), 3, 0),
      qn_pad(x, qn_scalar(g, QN_F32, 7), DIMS(1, 0), DIMS(1, 0), NULL),
      qn_sum(x, 1, DIMS(0), false),
      qn_reduce_max(x, 0, NULL, false),
      qn_dot(qn_transpose(x, NULL), x),
      qn_take(y, i, 0),
      qn_slice(y, DIMS(1, 1), DIMS(1, 3), NULL),
      qn_broadcast_to(x, 3, DIMS(2, 0, 3)),
  };
  enum { COUNT = sizeof out / sizeof *out };
  QN_ASSERT_OK(qn_graph_seal(g, out, COUNT));
  float data[6] = {1, 2, 3, 4, 5, 6};
  float *got[COUNT];
  for (size_t k = 0; k < COUNT; ++k)
    got[k] = calloc((size_t)qn_type_elements(qn_graph_type(g, qn_graph_result(g, k))) + 1, sizeof(float));
  QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){data, data, data}, (void *const *)got));
  for (int k = 0; k < 6; ++k) {
    cr_expect_float_eq(got[2][k], data[k], 0);
    cr_expect_float_eq(got[3][k], 7, 0);
  }
  cr_expect_float_eq(got[4][1], 0, 0);
  cr_expect(isinf(got[5][0]) && got[5][0] < 0);
  cr_expect_float_eq(got[6][8], 0, 0);
  for (size_t k = 0; k < COUNT; ++k)
    free(got[k]);
  qn_graph_release(g);
}

/* Every integer dtype from its own identity. */
Test(structural_errors, identities_of_integers) {
  static const qn_dtype dtypes[] = {QN_I8, QN_I16, QN_I32, QN_I64, QN_U8, QN_U16, QN_U32, QN_U64, QN_BOOL};
  static const qn_op ops[] = {QN_OP_ADD, QN_OP_MULTIPLY, QN_OP_MAXIMUM, QN_OP_MINIMUM, QN_OP_AND, QN_OP_OR, QN_OP_XOR};
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d)
    for (size_t k = 0; k < sizeof ops / sizeof *ops; ++k) {
      bool arithmetic = ops[k] == QN_OP_ADD || ops[k] == QN_OP_MULTIPLY;
      if (dtypes[d] == QN_BOOL && arithmetic)
        continue;
      for (int value = 0; value < 2; ++value) { /* a single element folds to itself, extremes included */
        qn_graph *g = NULL;
        QN_ASSERT_OK(qn_graph_create("one", &g));
        qn_val y =
            qn_reduce_op_at(QN_HERE, qn_graph_param(g, qn_type_of(dtypes[d], 1, 1), NULL), ops[k], 0, NULL, false);
        QN_ASSERT_OK(qn_graph_seal(g, &y, 1));
        uint64_t in = value == 0 ? 0 : dtypes[d] == QN_BOOL ? 1 : UINT64_MAX, out = 0;
        size_t size = qn_dtype_size(dtypes[d]);
        if (value == 1 && qn_dtype_is_signed(dtypes[d])) /* the least integer */
          in = UINT64_C(1) << (8 * size - 1);
        QN_ASSERT_OK(qn_graph_eval_ref(g, (const void *[]){&in}, (void *[]){&out}));
        cr_expect_eq(memcmp(&in, &out, size), 0, "%s of %s: %llx gave %llx", qn_op_get(ops[k])->name,
                     qn_dtype_name(dtypes[d]), (unsigned long long)in, (unsigned long long)out);
        qn_graph_release(g);
      }
    }
}
