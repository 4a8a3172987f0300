/* Contractions: dot_general with its dimension numbers, einsum by way of it, and convolutions. */
#include <string.h>

#include "quern/ops.h"
#include "replay.h"

static void dot_general(replay_build *b) {
  qn_attr_dot d = {
      .lhs_batch = qn_replay_dims(b->attrs, "lhs_batching_dimensions"),
      .rhs_batch = qn_replay_dims(b->attrs, "rhs_batching_dimensions"),
      .lhs_contract = qn_replay_dims(b->attrs, "lhs_contracting_dimensions"),
      .rhs_contract = qn_replay_dims(b->attrs, "rhs_contracting_dimensions"),
  };
  b->out[0] =
      qn_dot_general(b->in[0], b->in[1], &d, qn_dtype_parse(qn_replay_text(b->attrs, "preferred_element_type")));
}

/* ---- convolutions ---- */

static void pairs(const cJSON *attrs, const char *key, qn_dims *low, qn_dims *high) {
  const cJSON *list = qn_replay_get(attrs, key);
  for (const cJSON *pair = list ? list->child : NULL; pair && low->n < QN_MAX_RANK; pair = pair->next) {
    low->d[low->n++] = (int64_t)cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 0));
    high->d[high->n++] = (int64_t)cJSON_GetNumberValue(cJSON_GetArrayItem(pair, 1));
  }
}

static void convolution(replay_build *b) {
  qn_attr_conv a = {
      .stride = qn_replay_dims(b->attrs, "window_strides"),
      .lhs_dilation = qn_replay_dims(b->attrs, "lhs_dilation"),
      .rhs_dilation = qn_replay_dims(b->attrs, "rhs_dilation"),
      .reversal = qn_replay_dims(b->attrs, "window_reversal"),
      .input_batch = (int64_t)qn_replay_number(b->attrs, "input_batch_dimension", 0),
      .input_feature = (int64_t)qn_replay_number(b->attrs, "input_feature_dimension", 0),
      .input_spatial = qn_replay_dims(b->attrs, "input_spatial_dimensions"),
      .kernel_input_feature = (int64_t)qn_replay_number(b->attrs, "kernel_input_feature_dimension", 0),
      .kernel_output_feature = (int64_t)qn_replay_number(b->attrs, "kernel_output_feature_dimension", 0),
      .kernel_spatial = qn_replay_dims(b->attrs, "kernel_spatial_dimensions"),
      .output_batch = (int64_t)qn_replay_number(b->attrs, "output_batch_dimension", 0),
      .output_feature = (int64_t)qn_replay_number(b->attrs, "output_feature_dimension", 0),
      .output_spatial = qn_replay_dims(b->attrs, "output_spatial_dimensions"),
      .feature_group_count = (int64_t)qn_replay_number(b->attrs, "feature_group_count", 1),
      .batch_group_count = (int64_t)qn_replay_number(b->attrs, "batch_group_count", 1),
  };
  pairs(b->attrs, "padding", &a.pad_low, &a.pad_high);
  b->out[0] = qn_convolution(b->in[0], b->in[1], &a);
}

static void conv_transpose(replay_build *b) {
  static const char *const layout[] = {"NHWC", "HWIO", "NHWC"};
  const cJSON *numbers = qn_replay_get(b->attrs, "dimension_numbers");
  for (int i = 0; i < 3; i++) {
    const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(numbers, i));
    if (!text || strcmp(text, layout[i]) != 0) {
      (void)qn_replay_not_built(b, "these dimension numbers");
      return;
    }
  }
  qn_dims stride = qn_replay_dims(b->attrs, "strides");
  qn_conv_desc d = {.padding = strcmp(qn_replay_text(b->attrs, "padding"), "SAME") == 0 ? QN_CONV_SAME : QN_CONV_VALID,
                    .stride = stride.d,
                    .transpose_kernel = qn_replay_number(b->attrs, "transpose_kernel", 0) != 0};
  b->out[0] = qn_conv_transpose(b->in[0], b->in[1], &d);
}

/* ---- einsum: a value with a letter for each axis ---- */

typedef struct term {
  qn_val v;
  char axes[QN_MAX_RANK + 1];
} term;

static int place(const char *axes, char c) {
  const char *at = c ? strchr(axes, c) : NULL;
  return at ? (int)(at - axes) : -1;
}

/* Letters for "..." are digits, counted from the last axis. */
static bool read_axes(const char *text, size_t length, int rank, char *out) {
  size_t n = 0, letters = 0;
  for (size_t i = 0; i < length; i++)
    letters += text[i] != '.';
  for (size_t i = 0; i < length && n < QN_MAX_RANK; i++) {
    if (text[i] != '.') {
      out[n++] = text[i];
      continue;
    }
    for (int left = rank - (int)letters; left > 0 && n < QN_MAX_RANK; left--)
      out[n++] = (char)('0' + left);
    i += 2;
  }
  out[n] = '\0';
  return (int)n == rank || rank < 0;
}

/* Keeps the diagonal of an axis that is named twice, then sums axes that nothing else names. */
static void simplify(term *t, const char *kept) {
  for (int i = 0; t->axes[i]; i++) {
    int j = place(t->axes + i + 1, t->axes[i]);
    if (j < 0)
      continue;
    j += i + 1;
    qn_type type = *qn_val_type(t->v);
    type.dtype = QN_I32;
    qn_val diagonal = qn_eq(qn_iota(t->v.graph, type, i), qn_iota(t->v.graph, type, j));
    int64_t axis = j;
    t->v = qn_sum(qn_select(diagonal, t->v, qn_like(t->v, 0)), 1, &axis, false);
    memmove(t->axes + j, t->axes + j + 1, strlen(t->axes + j));
    i--;
  }
  for (int i = 0; t->axes[i];) {
    if (place(kept, t->axes[i]) >= 0) {
      i++;
      continue;
    }
    int64_t axis = i;
    t->v = qn_sum(t->v, 1, &axis, false);
    memmove(t->axes + i, t->axes + i + 1, strlen(t->axes + i));
  }
}

static term contract(const term *x, const term *y, const char *kept) {
  term r = {.axes = ""};
  qn_attr_dot d = {0};
  size_t n = 0;
  for (int i = 0; x->axes[i]; i++) {
    int j = place(y->axes, x->axes[i]);
    bool stays = place(kept, x->axes[i]) >= 0;
    qn_dims *l = stays ? &d.lhs_batch : &d.lhs_contract, *rr = stays ? &d.rhs_batch : &d.rhs_contract;
    if (j < 0)
      continue;
    l->d[l->n++] = i;
    rr->d[rr->n++] = j;
    if (stays)
      r.axes[n++] = x->axes[i];
  }
  for (int i = 0; x->axes[i]; i++)
    if (place(y->axes, x->axes[i]) < 0)
      r.axes[n++] = x->axes[i];
  for (int j = 0; y->axes[j]; j++)
    if (place(x->axes, y->axes[j]) < 0)
      r.axes[n++] = y->axes[j];
  r.axes[n] = '\0';
  r.v = qn_dot_general(x->v, y->v, &d, QN_DTYPE_NONE);
  return r;
}

static void einsum(replay_build *b) {
  const char *equation = qn_replay_text(b->attrs, "equation"), *arrow = strstr(equation, "->"), *at = equation;
  term terms[8], result;
  char out[QN_MAX_RANK + 1];
  if (!arrow || b->in_count > 8 || !read_axes(arrow + 2, strlen(arrow + 2), b->want[0]->rank, out)) {
    (void)qn_replay_not_built(b, equation);
    return;
  }
  for (size_t i = 0; i < b->in_count; i++) {
    size_t length = strcspn(at, ",-");
    terms[i].v = b->in[i];
    if (!read_axes(at, length, qn_val_type(b->in[i])->rank, terms[i].axes)) {
      (void)qn_replay_not_built(b, equation);
      return;
    }
    at += length + 1;
  }
  for (size_t i = 0; i < b->in_count; i++) {
    char kept[128];
    (void)snprintf(kept, sizeof kept, "%s", out);
    for (size_t k = i + 1; k < b->in_count; k++)
      (void)snprintf(kept + strlen(kept), sizeof kept - strlen(kept), "%s", terms[k].axes);
    if (i == 0) {
      result = terms[0];
      simplify(&result, kept);
      continue;
    }
    char both[160];
    (void)snprintf(both, sizeof both, "%s%s", kept, result.axes);
    simplify(&terms[i], both);
    result = contract(&result, &terms[i], kept);
  }
  int64_t permutation[QN_MAX_RANK];
  for (int i = 0; out[i]; i++)
    permutation[i] = place(result.axes, out[i]);
  b->out[0] = qn_transpose(result.v, permutation);
}

static void fft(replay_build *b) {
  static const char *const names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  qn_dims length = qn_replay_dims(b->attrs, "fft_length");
  const char *name = qn_replay_text(b->attrs, "fft_type");
  for (int i = 0; i < 4; i++)
    if (strcmp(names[i], name) == 0)
      b->out[0] = qn_fft_at(QN_HERE, b->in[0], (qn_fft_type)i, length.n, length.d);
  if (!qn_val_ok(b->out[0]))
    (void)qn_replay_not_built(b, name);
}

const replay_op qn_replay_contract[] = {
    {"dot_general", dot_general},
    {"convolution", convolution},
    {"conv_transpose", conv_transpose},
    {"einsum", einsum},
    {"fft", fft},
    {NULL, NULL},
};
