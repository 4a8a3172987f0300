/* Cases and runner of graph_kit.h. */
#include "graph_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern/autodiff.h"

#define X(i) qn_tree_get(args[i], "x")
#define CASE(name)                                                                                                     \
  static qn_tree *name(qn_graph *g, qn_tree *const *args, void *user) {                                                \
    qn_tree *r = qn_tree_create(g);                                                                                    \
    (void)user;
#define END                                                                                                            \
  return r;                                                                                                            \
  }
#define RESULT(path, value) qn_tree_set(r, path, value);

static const int64_t first[] = {0}, last[] = {-1};

CASE(elementwise)
RESULT("a", qn_mul(qn_add(X(0), X(1)), qn_exp(X(0))))
RESULT("b", qn_select(qn_gt(X(0), qn_like(X(0), 0)), qn_sqrt(qn_abs(X(0))), qn_max(X(0), X(1))))
END

CASE(movement)
qn_val x = X(0);
int64_t axis[] = {1}, low[] = {1, -1}, high[] = {2, 3}, interior[] = {1, 0};
qn_val parts[] = {x, x, qn_neg(x)}, y = qn_transpose(x, NULL);
RESULT("transpose", qn_tanh(y))
RESULT("reshape", qn_reshape(y, 1, last))
RESULT("pad", qn_pad(x, qn_like(x, 7), low, high, interior))
RESULT("concatenate", qn_concatenate(parts, 3, 1))
RESULT("reverse", qn_reverse(x, 1, axis))
END

CASE(softmax)
  RESULT("softmax", qn_softmax(X(0), -1))
  RESULT("log_softmax", qn_log_softmax(X(0), -1))
  RESULT("argmax", qn_argmax(X(0), -1))
END

CASE(reductions)
  RESULT("columns", qn_sum(X(0), 1, first, false))
  RESULT("rows", qn_sum(X(0), 1, last, false))
  RESULT("all", qn_sum_all(X(0)))
  RESULT("max", qn_reduce_max(X(0), 1, last, true))
  RESULT("min", qn_reduce_min(X(0), 1, first, true))
END

CASE(moments)
  RESULT("var", qn_var(X(0), 1, last, 0, false))
  RESULT("mean", qn_mean(X(0), 1, first, false))
END

CASE(logic)
qn_val p = qn_gt(X(0), qn_like(X(0), 0));
RESULT("any", qn_reduce_or(p, 1, last, false))
RESULT("all", qn_reduce_and(p, 1, first, false))
RESULT("not", qn_not(p))
END

CASE(dense)
qn_attr_dot d = {.lhs_contract = {1, {1}}, .rhs_contract = {1, {1}}};
RESULT("relu", qn_relu(qn_add(qn_dot(X(0), X(1)), X(2))))
RESULT("nt", qn_dot_general(X(0), qn_transpose(X(1), NULL), &d, QN_DTYPE_NONE))
END

CASE(batched)
qn_attr_dot d = {.lhs_batch = {1, {0}}, .rhs_batch = {1, {0}}, .lhs_contract = {1, {2}}, .rhs_contract = {1, {1}}};
RESULT("r", qn_dot_general(X(0), X(1), &d, QN_DTYPE_NONE))
END

/* With its bias and activation, whose mask goes back through both gradients. */
CASE(convolved)
int64_t stride[] = {2, 1}, dilation[] = {1, 2}, pixels[] = {0, 1, 2};
qn_conv_desc same = {.padding = QN_CONV_SAME, .stride = stride, .dilation = dilation};
qn_val y = qn_add(qn_conv(X(0), X(1), &same), X(2)), relu = qn_relu(y);
RESULT("relu", relu)
RESULT("bias", qn_sum(relu, 3, pixels, false))
END

    static qn_val
    convolved_loss(qn_graph *g, qn_tree *const *args, qn_tree **out_aux, void *user) {
  (void)g;
  (void)out_aux;
  (void)user;
  int64_t stride[] = {2, 2};
  qn_val y = qn_relu(qn_add(qn_conv(X(0), X(1), &(qn_conv_desc){.padding = QN_CONV_SAME, .stride = stride}), X(2)));
  return qn_sum_all(qn_mul(y, y));
}

CASE(convolved_gradients)
int by[] = {0, 1, 2};
qn_value_grad v =
    qn_value_and_grad(g, convolved_loss, NULL, args, 3, &((qn_grad_desc){.argnums = by, .argnum_count = 3}));
if (!qn_val_ok(v.value))
  return r;
RESULT("loss", v.value)
RESULT("dx", qn_tree_get(v.grads[0], "x"))
RESULT("dw", qn_tree_get(v.grads[1], "x"))
RESULT("db", qn_tree_get(v.grads[2], "x"))
END

CASE(convolved_groups)
qn_val x = X(0), w = X(1);
int64_t features = qn_val_type(x)->dims[3], halves = qn_val_type(w)->dims[2];
RESULT("y", qn_mul(qn_conv(x, w, &(qn_conv_desc){.padding = QN_CONV_SAME, .groups = features / halves}), X(2)))
END

CASE(convolved_transposed)
int64_t stride[] = {2, 3};
RESULT("y", qn_relu(qn_add(qn_conv_transpose(X(0), X(1), &(qn_conv_desc){.stride = stride}), X(2))))
END

CASE(indexing)
qn_val i = qn_convert(X(1), QN_I32);
RESULT("take", qn_take(X(0), i, 0))
RESULT("one_hot", qn_one_hot(i, 7, QN_F32))
END

CASE(slices)
qn_val starts[] = {qn_scalar(g, QN_I32, 1), qn_convert(qn_sum_all(X(1)), QN_I32)};
int64_t sizes[] = {2, 3};
qn_val piece = qn_dynamic_slice(X(0), starts, sizes);
RESULT("slice", piece)
RESULT("update", qn_dynamic_update_slice(X(0), qn_neg(piece), starts))
END

CASE(scatter)
qn_graph *body;
if (qn_region_binary(QN_OP_ADD, QN_F32, &body) != QN_OK)
  return r;
qn_attr_scatter a = {.update_window_dims = {1, {1}},
                     .inserted_window_dims = {1, {0}},
                     .scatter_dims_to_operand_dims = {1, {0}},
                     .index_vector_dim = 1};
RESULT("r", qn_scatter(X(0), qn_convert(X(1), QN_I32), X(2), &a, body))
qn_graph_release(body);
END

CASE(random)
qn_val key = qn_convert(X(0), QN_U32);
RESULT("split", qn_key_split(key, 3))
RESULT("bits", qn_random_bits(key, qn_type_of(QN_U8, 1, 37)))
RESULT("uniform", qn_random_uniform(key, qn_type_of(QN_F32, 2, 5, 7), 0, 1))
END

CASE(integers)
qn_val a = qn_convert(X(0), QN_I64), b = qn_convert(X(1), QN_I64), c = qn_convert(X(0), QN_I16);
RESULT("mul", qn_mul(qn_mul(a, qn_like(a, 123456789.0)), b))
RESULT("div", qn_div(qn_mul(a, qn_like(a, 1000003.0)), b))
RESULT("shift", qn_shift_left(a, qn_abs(b)))
RESULT("narrow", qn_mul(c, qn_mul(c, c)))
RESULT("bytes", qn_convert(X(0), QN_U8))
END

    CASE(narrow) RESULT("h", qn_mul(qn_convert(X(0), QN_F16), qn_convert(X(1), QN_F16)))
        RESULT("sum", qn_sum(qn_convert(X(0), QN_BF16), 1, last, false))
            RESULT("dot", qn_dot(qn_convert(X(0), QN_F16), qn_transpose(qn_convert(X(1), QN_F16), NULL))) END

#undef CASE

#define F32(axes, ...)                                                                                                 \
  {                                                                                                                    \
    .dtype = QN_F32, .rank = (axes), .dims = { __VA_ARGS__ }                                                           \
  }
#define SHAPES(name, fn, tol)                                                                                          \
  {name "_5x7", fn, {F32(2, 5, 7), F32(2, 5, 7)}, 2, -2, 2, tol},                                                      \
      {name "_32x64", fn, {F32(2, 32, 64), F32(2, 32, 64)}, 2, -2, 2, tol},                                            \
      {name "_33x17", fn, {F32(2, 33, 17), F32(2, 33, 17)}, 2, -2, 2, tol},                                            \
      {name "_1x1", fn, {F32(2, 1, 1), F32(2, 1, 1)}, 2, -2, 2, tol},                                                  \
      {name "_3x1000", fn, {F32(2, 3, 1000), F32(2, 3, 1000)}, 2, -2, 2, tol}, {                                       \
    name "_0x4", fn, {F32(2, 0, 4), F32(2, 0, 4)}, 2, -2, 2, tol                                                       \
  }

    const graph_case graph_cases[] = {
        SHAPES("elementwise", elementwise, 1e-6),
        SHAPES("movement", movement, 1e-6),
        SHAPES("reductions", reductions, 2e-5),
        SHAPES("logic", logic, 0),
        {"softmax_32x10", softmax, {F32(2, 32, 10)}, 1, -5, 5, 1e-5},
        {"softmax_3x1000", softmax, {F32(2, 3, 1000)}, 1, -5, 5, 1e-5},
        {"moments_33x17", moments, {F32(2, 33, 17)}, 1, -5, 5, 2e-5},
        {"moments_20000x3", moments, {F32(2, 20000, 3)}, 1, -5, 5, 1e-3},
        {"reductions_9000", reductions, {F32(2, 9000, 2)}, 1, 0, 1, 2e-5},
        {"dense_32x64", dense, {F32(2, 32, 78), F32(2, 78, 64), F32(1, 64)}, 3, -1, 1, 1e-5},
        {"dense_7x9", dense, {F32(2, 7, 5), F32(2, 5, 9), F32(1, 9)}, 3, -1, 1, 1e-5},
        {"dense_37x130", dense, {F32(2, 37, 33), F32(2, 33, 130), F32(1, 130)}, 3, -1, 1, 1e-5},
        {"dense_1x1", dense, {F32(2, 1, 40), F32(2, 40, 1), F32(1, 1)}, 3, -1, 1, 1e-5},
        {"dense_k0", dense, {F32(2, 4, 0), F32(2, 0, 6), F32(1, 6)}, 3, -1, 1, 1e-5},
        {"batched", batched, {F32(3, 3, 5, 6), F32(3, 3, 6, 7)}, 2, -1, 1, 1e-5},
        {"convolved", convolved, {F32(4, 2, 7, 9, 5), F32(4, 3, 3, 5, 20), F32(1, 20)}, 3, -1, 1, 1e-5},
        {"convolved_narrow", convolved, {F32(4, 3, 5, 4, 2), F32(4, 2, 3, 2, 3), F32(1, 3)}, 3, -1, 1, 1e-5},
        {"convolved_to_few", convolved, {F32(4, 2, 5, 19, 6), F32(4, 3, 2, 6, 2), F32(1, 2)}, 3, -1, 1, 1e-5},
        {"convolved_deep", convolved, {F32(4, 1, 5, 5, 136), F32(4, 3, 1, 136, 16), F32(1, 16)}, 3, -1, 1, 1e-5},
        {"convolved_gradients",
         convolved_gradients,
         {F32(4, 5, 45, 45, 4), F32(4, 3, 3, 4, 18), F32(1, 18)},
         3,
         -1,
         1,
         1e-5},
        {"convolved_to_one_gradients",
         convolved_gradients,
         {F32(4, 3, 30, 29, 16), F32(4, 4, 4, 16, 1), F32(1, 1)},
         3,
         0,
         1,
         1e-5},
        {"convolved_groups", convolved_groups, {F32(4, 2, 5, 6, 8), F32(4, 3, 3, 4, 24), F32(1, 24)}, 3, -1, 1, 1e-5},
        {"convolved_depthwise",
         convolved_groups,
         {F32(4, 2, 5, 6, 20), F32(4, 3, 3, 1, 40), F32(1, 40)},
         3,
         -1,
         1,
         1e-5},
        {"convolved_transposed",
         convolved_transposed,
         {F32(4, 2, 3, 4, 6), F32(4, 4, 5, 6, 17), F32(1, 17)},
         3,
         -1,
         1,
         1e-5},
        {"indexing", indexing, {F32(2, 7, 5), F32(1, 9)}, 2, -2, 9, 0},
        {"slices", slices, {F32(2, 4, 6), F32(1, 3)}, 2, -1, 2, 0},
        {"scatter", scatter, {F32(2, 7, 5), F32(1, 20), F32(2, 20, 5)}, 3, -2, 9, 1e-5},
        {"random", random, {F32(1, 2)}, 1, 0, 1000, 0},
        {"integers", integers, {F32(2, 6, 7), F32(2, 6, 7)}, 2, -70, 70, 0},
        {"narrow", narrow, {F32(2, 6, 40), F32(2, 6, 40)}, 2, -2, 2, 1e-2},
};
const size_t graph_case_count = sizeof graph_cases / sizeof *graph_cases;

/* ---- running ---- */

qn_status graph_inputs_make(const graph_case *c, graph_inputs *out) {
  uint32_t state = 12345;
  memset(out, 0, sizeof *out);
  for (int a = 0; a < c->arg_count; a++) {
    int64_t n = qn_type_elements(&c->args[a]);
    float *x = malloc((size_t)n * sizeof *x + 16);
    if (!x)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for inputs");
    for (int64_t i = 0; i < n; i++) {
      state = state * 1664525u + 1013904223u;
      x[i] = (float)(c->lo + (c->hi - c->lo) * (double)(state >> 8) / 16777216.0);
    }
    out->data[a] = x;
  }
  return QN_OK;
}

void graph_inputs_free(graph_inputs *in) {
  for (int a = 0; a < GRAPH_ARGS; a++)
    free(in->data[a]);
  memset(in, 0, sizeof *in);
}

void graph_results_free(graph_results *r) {
  for (size_t i = 0; i < r->count; i++)
    free(r->data[i]);
  qn_traced_free(&r->traced);
  memset(r, 0, sizeof *r);
}

static qn_status trace(const graph_case *c, graph_results *out) {
  qn_treedef defs[GRAPH_ARGS] = {{0}};
  qn_status st = QN_OK;
  memset(out, 0, sizeof *out);
  for (int a = 0; a < c->arg_count && st == QN_OK; a++)
    st = qn_treedef_add(&defs[a], "x", c->args[a]);
  if (st == QN_OK)
    st = qn_trace(c->fn, NULL, c->name, defs, (size_t)c->arg_count, &out->traced);
  for (int a = 0; a < c->arg_count; a++)
    qn_treedef_free(&defs[a]);
  for (size_t i = 0; st == QN_OK && i < out->traced.result.count; i++, out->count++)
    if (!(out->data[i] = calloc(1, (size_t)qn_type_bytes(&out->traced.result.leaves[i].type) + 16)))
      st = QN_ERR(QN_OUT_OF_MEMORY, "no memory for results");
  return st;
}

qn_status graph_run_oracle(const graph_case *c, const graph_inputs *in, graph_results *out) {
  QN_TRY(trace(c, out));
  return qn_graph_eval_ref(out->traced.graph, (const void *const *)in->data, out->data);
}

qn_status graph_run_device(qn_device *d, const graph_case *c, const graph_inputs *in, const qn_compile_desc *desc,
                           graph_results *out) {
  QN_TRY(trace(c, out));
  qn_jit_desc jit = {.compile = *desc};
  qn_step *step = NULL;
  qn_tensors *args[GRAPH_ARGS] = {NULL}, *result;
  jit.compile.name = c->name;
  jit.compile.at_once = true;
  qn_status st = qn_jit(d, &out->traced, &jit, &step);
  for (int a = 0; a < c->arg_count && st == QN_OK; a++) {
    st = qn_tensors_create(d, &qn_step_plan(step)->args[a], "input", &args[a]);
    if (st == QN_OK)
      st = qn_tensors_write(args[a], "x", in->data[a]);
  }
  if (st == QN_OK)
    st = qn_step_call(step, args, (size_t)c->arg_count, &result, NULL);
  for (size_t i = 0; i < out->count && st == QN_OK; i++)
    st = qn_tensors_read(result, out->traced.result.leaves[i].path, out->data[i]);
  for (int a = 0; a < c->arg_count; a++)
    if (args[a])
      qn_tensors_release(args[a]);
  if (step)
    qn_step_release(step);
  return st;
}

double graph_element(qn_dtype t, const void *data, int64_t i) {
  switch (t) {
  case QN_F32:
    return (double)((const float *)data)[i];
  case QN_F64:
    return ((const double *)data)[i];
  case QN_F16:
    return (double)qn_f16_to_f32(((const uint16_t *)data)[i]);
  case QN_BF16:
    return (double)qn_bf16_to_f32(((const uint16_t *)data)[i]);
  case QN_I32:
    return ((const int32_t *)data)[i];
  case QN_U32:
    return ((const uint32_t *)data)[i];
  case QN_I64:
    return (double)((const int64_t *)data)[i];
  case QN_I16:
    return ((const int16_t *)data)[i];
  default:
    return ((const uint8_t *)data)[i];
  }
}

bool graph_differs(const graph_results *got, const graph_results *want, double tolerance, char why[256]) {
  for (size_t r = 0; r < want->count; r++) {
    const qn_treedef_leaf *leaf = &want->traced.result.leaves[r];
    size_t size = qn_dtype_size(leaf->type.dtype);
    for (int64_t i = 0; i < qn_type_elements(&leaf->type); i++) {
      const char *a = (const char *)got->data[r] + (size_t)i * size,
                 *b = (const char *)want->data[r] + (size_t)i * size;
      double x = graph_element(leaf->type.dtype, a, 0), y = graph_element(leaf->type.dtype, b, 0);
      if ((isnan(x) && isnan(y)) || memcmp(a, b, size) == 0 || fabs(x - y) <= tolerance * (1 + fabs(y)))
        continue;
      snprintf(why, 256, "result '%s' element %lld: got %.9g, expected %.9g", leaf->path, (long long)i, x, y);
      return true;
    }
  }
  return false;
}
