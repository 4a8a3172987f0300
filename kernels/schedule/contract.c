/* What dot_general and convolution look like as loops. The order of the summed axes belongs to the operation (docs/numerics.md): that of the
 * attribute for dot_general; for convolution, whose window and input features are summed, that of the left operand's axes. */
#include "contract.h"

#include <string.h>

enum { RUN_ELEMENTS = 2048 };

bool qn_is_contraction(qn_op op) { return op == QN_OP_DOT_GENERAL || op == QN_OP_CONVOLUTION; }

static int add_axis(loop_axes *a, int64_t size) {
  a->shape.dims[a->shape.rank++] = size;
  return a->count++;
}

static void add_term(index_map *m, int64_t dim, loop_kind kind, int axis, int64_t step) {
  m->terms[dim][m->count[dim]++] = (index_term){kind, axis, step};
}

/* ---- dot_general ---- */

static void free_axes(const qn_type *t, const qn_dims *a, const qn_dims *b, loop_kind kind, loop_axes *axes,
                      index_map *map) {
  for (int i = 0; i < t->rank; i++)
    if (!qn_dims_has(a, i) && !qn_dims_has(b, i))
      add_term(map, i, kind, add_axis(axes, t->dims[i]), 1);
}

static void describe_dot(contraction *c) {
  const qn_attr_dot *a = c->n->attr;
  for (int i = 0; i < a->lhs_batch.n; i++) {
    int axis = add_axis(&c->batch, c->lhs->dims[a->lhs_batch.d[i]]);
    add_term(&c->left, a->lhs_batch.d[i], LOOP_BATCH, axis, 1);
    add_term(&c->right, a->rhs_batch.d[i], LOOP_BATCH, axis, 1);
  }
  for (int i = 0; i < a->lhs_contract.n; i++) {
    int axis = add_axis(&c->k, c->lhs->dims[a->lhs_contract.d[i]]);
    add_term(&c->left, a->lhs_contract.d[i], LOOP_K, axis, 1);
    add_term(&c->right, a->rhs_contract.d[i], LOOP_K, axis, 1);
  }
  free_axes(c->lhs, &a->lhs_batch, &a->lhs_contract, LOOP_ROW, &c->rows, &c->left);
  free_axes(c->rhs, &a->rhs_batch, &a->rhs_contract, LOOP_COL, &c->cols, &c->right);
  int dim = 0;
  for (int i = 0; i < c->batch.count; i++)
    add_term(&c->result, dim++, LOOP_BATCH, i, 1);
  for (int i = 0; i < c->rows.count; i++)
    add_term(&c->result, dim++, LOOP_ROW, i, 1);
  for (int i = 0; i < c->cols.count; i++)
    add_term(&c->result, dim++, LOOP_COL, i, 1);
}

/* ---- convolution, in the plain form that conv_lower.c leaves ---- */

static int64_t spatial_at(const qn_dims *spatial, int64_t dim) {
  for (int i = 0; i < spatial->n; i++)
    if (spatial->d[i] == dim)
      return i;
  return -1;
}

/* Groups wide enough for a vector run one after the other; narrower ones share vectors. */
static void group_columns(contraction *c, const qn_attr_conv *a, uint32_t lanes) {
  int64_t groups = a->feature_group_count, outputs = c->rhs->dims[a->kernel_output_feature] / groups;
  int64_t features = c->lhs->dims[a->input_feature] / groups;
  if (groups > 1 && outputs > (int64_t)lanes / 2) {
    int g = add_axis(&c->batch, groups), o = add_axis(&c->cols, outputs);
    add_term(&c->left, a->input_feature, LOOP_BATCH, g, features);
    add_term(&c->right, a->kernel_output_feature, LOOP_BATCH, g, outputs);
    add_term(&c->right, a->kernel_output_feature, LOOP_COL, o, 1);
    add_term(&c->result, a->output_feature, LOOP_BATCH, g, outputs);
    add_term(&c->result, a->output_feature, LOOP_COL, o, 1);
    return;
  }
  int g = add_axis(&c->cols, groups);
  (void)add_axis(&c->cols, outputs);
  if (groups > 1)
    add_term(&c->left, a->input_feature, LOOP_COL, g, features);
  c->left_by_column = groups > 1;
  add_term(&c->right, a->kernel_output_feature, LOOP_COLUMNS, 0, 1);
  add_term(&c->result, a->output_feature, LOOP_COLUMNS, 0, 1);
}

/* With few output features lanes run along the input, if its minor-most axis is one of positions or images. Returns the axis of the result; -1: no. */
static int64_t lanes_of_input(const contraction *c, const qn_attr_conv *a, uint32_t lanes) {
  int64_t minor = c->lhs->rank - 1;
  while (minor > 0 && c->lhs->dims[minor] == 1)
    minor--;
  int64_t i = spatial_at(&a->input_spatial, minor), dim = i < 0 ? a->output_batch : a->output_spatial.d[i];
  bool steps = minor == a->input_batch || (i >= 0 && a->stride.d[i] == 1);
  bool few = a->feature_group_count == 1 && c->rhs->dims[a->kernel_output_feature] <= (int64_t)lanes / 4;
  return steps && few && c->out->dims[dim] >= (int64_t)lanes / 2 ? dim : -1;
}

/* The kernel is broadcast; rows are output features and all positions but those of the lane axis, and both operands depend on them. */
static void describe_conv_by_input(contraction *c, const qn_attr_conv *a, int64_t lane_dim) {
  const qn_type *x = c->lhs, *w = c->rhs;
  c->left_value = c->n->operands[1];
  c->right_value = c->n->operands[0];
  c->lhs = w;
  c->rhs = x;
  c->right_by_row = true;
  for (int dim = 0; dim < c->out->rank; dim++) {
    int64_t i = spatial_at(&a->output_spatial, dim);
    loop_kind kind = dim == lane_dim ? LOOP_COL : LOOP_ROW;
    int axis = add_axis(kind == LOOP_COL ? &c->cols : &c->rows, c->out->dims[dim]);
    add_term(&c->result, dim, kind, axis, 1);
    if (dim == a->output_feature)
      add_term(&c->left, a->kernel_output_feature, kind, axis, 1);
    else
      add_term(&c->right, i < 0 ? a->input_batch : a->input_spatial.d[i], kind, axis, i < 0 ? 1 : a->stride.d[i]);
  }
}

static void describe_window(contraction *c, const qn_attr_conv *a, const qn_type *x, const qn_type *w, index_map *image,
                            index_map *kernel) {
  for (int dim = 0; dim < x->rank; dim++) {
    int64_t i = spatial_at(&a->input_spatial, dim);
    int64_t other = i < 0 ? a->kernel_input_feature : a->kernel_spatial.d[i], size = w->dims[other];
    if (dim == a->input_batch || size == 1)
      continue;
    int axis = add_axis(&c->k, size);
    add_term(image, dim, LOOP_K, axis, i < 0 ? 1 : a->rhs_dilation.d[i]);
    add_term(kernel, other, LOOP_K, axis, 1);
  }
  int64_t run = 1;
  for (int i = c->k.count - 1; i > 0; i--) {
    run *= c->k.shape.dims[i];
    if (run * c->k.shape.dims[i - 1] > RUN_ELEMENTS) {
      c->run_axis = i;
      break;
    }
  }
}

static void describe_conv(contraction *c, uint32_t lanes) {
  const qn_attr_conv *a = c->n->attr;
  const qn_type *x = c->lhs, *w = c->rhs;
  int64_t lane_dim = lanes_of_input(c, a, lanes);
  if (lane_dim >= 0) {
    describe_conv_by_input(c, a, lane_dim);
    describe_window(c, a, x, w, &c->right, &c->left);
    return;
  }
  group_columns(c, a, lanes);
  for (int dim = 0; dim < c->out->rank; dim++) {
    if (dim == a->output_feature)
      continue;
    int64_t i = spatial_at(&a->output_spatial, dim);
    int axis = add_axis(&c->rows, c->out->dims[dim]);
    add_term(&c->result, dim, LOOP_ROW, axis, 1);
    add_term(&c->left, i < 0 ? a->input_batch : a->input_spatial.d[i], LOOP_ROW, axis, i < 0 ? 1 : a->stride.d[i]);
  }
  describe_window(c, a, x, w, &c->left, &c->right);
}

void qn_contraction_of(const qn_graph *g, const qn_node *n, uint32_t lanes, contraction *out) {
  memset(out, 0, sizeof *out);
  out->n = n;
  out->left_value = n->operands[0];
  out->right_value = n->operands[1];
  out->lhs = qn_graph_type(g, out->left_value);
  out->rhs = qn_graph_type(g, out->right_value);
  out->out = qn_graph_type(g, n->first_result);
  if (n->op == QN_OP_DOT_GENERAL)
    describe_dot(out);
  else
    describe_conv(out, lanes);
  out->batch_n = qn_type_elements(&out->batch.shape);
  out->m = qn_type_elements(&out->rows.shape);
  out->cols_n = qn_type_elements(&out->cols.shape);
  out->k_n = qn_type_elements(&out->k.shape);
}

int64_t qn_contraction_lane_axis(const qn_graph *g, const qn_node *n) {
  if (n->op == QN_OP_CONVOLUTION)
    return ((const qn_attr_conv *)n->attr)->kernel_output_feature;
  const qn_attr_dot *a = n->attr;
  for (int64_t i = qn_graph_type(g, n->operands[1])->rank - 1; i >= 0; i--)
    if (!qn_dims_has(&a->rhs_batch, i) && !qn_dims_has(&a->rhs_contract, i))
      return i;
  return -1;
}
