/* How operations are spelt: one row per operation that is more than operands and types, its attributes field by field. */
#include "text_impl.h"

#include <string.h>

#define FIELD(record, member, kind_, name_, ...)                                                                       \
  { .name = (name_), .kind = QN_FIELD_##kind_, .offset = offsetof(record, member), __VA_ARGS__ }

static const char *const directions[] = {"EQ", "NE", "LT", "LE", "GT", "GE", NULL};
static const char *const compare_types[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED", NULL};

static const char *const fft_types[] = {"FFT", "IFFT", "RFFT", "IRFFT", NULL};

static const qn_field broadcast_fields[] = {FIELD(qn_attr_dims, dims, DIMS, "broadcast_dimensions", .pretty = "dims")};
static const qn_field transpose_fields[] = {FIELD(qn_attr_dims, dims, DIMS, "permutation", .pretty = "dims")};
static const qn_field reverse_fields[] = {FIELD(qn_attr_dims, dims, DIMS, "dimensions", .pretty = "dims")};
static const qn_field reduce_fields[] = {FIELD(qn_attr_dims, dims, DIMS, "dimensions", .pretty = "dimensions")};
static const qn_field dynamic_slice_fields[] = {FIELD(qn_attr_dims, dims, DIMS, "slice_sizes", .pretty = "sizes")};
static const qn_field concatenate_fields[] = {FIELD(qn_attr_axis, dimension, I64, "dimension", .pretty = "dim")};
static const qn_field iota_fields[] = {FIELD(qn_attr_axis, dimension, I64, "iota_dimension", .pretty = "dim")};
static const qn_field slice_fields[] = {
    FIELD(qn_attr_slice, limit, DIMS, "limit_indices", .pretty = NULL),
    FIELD(qn_attr_slice, start, DIMS, "start_indices", .pretty = NULL),
    FIELD(qn_attr_slice, stride, DIMS, "strides", .pretty = NULL),
};
static const qn_field pad_fields[] = {
    FIELD(qn_attr_pad, low, DIMS, "edge_padding_low", .pretty = "low"),
    FIELD(qn_attr_pad, high, DIMS, "edge_padding_high", .pretty = "high"),
    FIELD(qn_attr_pad, interior, DIMS, "interior_padding", .pretty = "interior"),
};
static const qn_field compare_fields[] = {
    FIELD(qn_attr_compare, direction, ENUM, "comparison_direction", .words = directions),
    FIELD(qn_attr_compare, type, ENUM, "compare_type", .words = compare_types, .optional = true),
};
static const qn_field precision_fields[] = {
    FIELD(qn_attr_precision, exponent_bits, I32, "exponent_bits", .pretty = NULL),
    FIELD(qn_attr_precision, mantissa_bits, I32, "mantissa_bits", .pretty = NULL),
};
static const qn_field dot_fields[] = {
    FIELD(qn_attr_dot, lhs_batch, DIMS, "lhs_batching_dimensions", .pretty = "batching_dims", .optional = true),
    FIELD(qn_attr_dot, rhs_batch, DIMS, "rhs_batching_dimensions", .pretty = "batching_dims", .second = true,
          .optional = true),
    FIELD(qn_attr_dot, lhs_contract, DIMS, "lhs_contracting_dimensions", .pretty = "contracting_dims",
          .optional = true),
    FIELD(qn_attr_dot, rhs_contract, DIMS, "rhs_contracting_dimensions", .pretty = "contracting_dims", .second = true,
          .optional = true),
};
static const qn_field conv_fields[] = {
    FIELD(qn_attr_conv, stride, DIMS, "window_strides", .pretty = NULL),
    FIELD(qn_attr_conv, pad_low, DIMS, "padding_low", .pretty = NULL),
    FIELD(qn_attr_conv, pad_high, DIMS, "padding_high", .pretty = NULL),
    FIELD(qn_attr_conv, lhs_dilation, DIMS, "lhs_dilation", .pretty = NULL),
    FIELD(qn_attr_conv, rhs_dilation, DIMS, "rhs_dilation", .pretty = NULL),
    FIELD(qn_attr_conv, reversal, DIMS, "window_reversal", .pretty = NULL),
    FIELD(qn_attr_conv, input_batch, I64, "input_batch_dimension", .optional = true),
    FIELD(qn_attr_conv, input_feature, I64, "input_feature_dimension", .optional = true),
    FIELD(qn_attr_conv, input_spatial, DIMS, "input_spatial_dimensions", .optional = true),
    FIELD(qn_attr_conv, kernel_input_feature, I64, "kernel_input_feature_dimension", .optional = true),
    FIELD(qn_attr_conv, kernel_output_feature, I64, "kernel_output_feature_dimension", .optional = true),
    FIELD(qn_attr_conv, kernel_spatial, DIMS, "kernel_spatial_dimensions", .optional = true),
    FIELD(qn_attr_conv, output_batch, I64, "output_batch_dimension", .optional = true),
    FIELD(qn_attr_conv, output_feature, I64, "output_feature_dimension", .optional = true),
    FIELD(qn_attr_conv, output_spatial, DIMS, "output_spatial_dimensions", .optional = true),
    FIELD(qn_attr_conv, feature_group_count, I64, "feature_group_count", .pretty = NULL),
    FIELD(qn_attr_conv, batch_group_count, I64, "batch_group_count", .pretty = NULL),
};
static const qn_field fft_fields[] = {
    FIELD(qn_attr_fft, length, DIMS, "fft_length", .pretty = "length"),
    FIELD(qn_attr_fft, type, ENUM, "fft_type", .pretty = "type", .words = fft_types),
};
static const qn_field gather_fields[] = {
    FIELD(qn_attr_gather, offset_dims, DIMS, "offset_dims", .optional = true),
    FIELD(qn_attr_gather, collapsed_slice_dims, DIMS, "collapsed_slice_dims", .optional = true),
    FIELD(qn_attr_gather, operand_batching_dims, DIMS, "operand_batching_dims", .optional = true),
    FIELD(qn_attr_gather, start_indices_batching_dims, DIMS, "start_indices_batching_dims", .optional = true),
    FIELD(qn_attr_gather, start_index_map, DIMS, "start_index_map", .optional = true),
    FIELD(qn_attr_gather, index_vector_dim, I64, "index_vector_dim", .optional = true),
    FIELD(qn_attr_gather, indices_are_sorted, BOOL, "indices_are_sorted", .pretty = NULL),
    FIELD(qn_attr_gather, slice_sizes, DIMS, "slice_sizes", .pretty = NULL),
};
static const qn_field scatter_fields[] = {
    FIELD(qn_attr_scatter, update_window_dims, DIMS, "update_window_dims", .optional = true),
    FIELD(qn_attr_scatter, inserted_window_dims, DIMS, "inserted_window_dims", .optional = true),
    FIELD(qn_attr_scatter, input_batching_dims, DIMS, "input_batching_dims", .optional = true),
    FIELD(qn_attr_scatter, scatter_indices_batching_dims, DIMS, "scatter_indices_batching_dims", .optional = true),
    FIELD(qn_attr_scatter, scatter_dims_to_operand_dims, DIMS, "scatter_dims_to_operand_dims", .optional = true),
    FIELD(qn_attr_scatter, index_vector_dim, I64, "index_vector_dim", .optional = true),
    FIELD(qn_attr_scatter, indices_are_sorted, BOOL, "indices_are_sorted", .pretty = NULL),
    FIELD(qn_attr_scatter, unique_indices, BOOL, "unique_indices", .pretty = NULL),
};
static const qn_field sort_fields[] = {
    FIELD(qn_attr_sort, dimension, I64, "dimension", .pretty = NULL),
    FIELD(qn_attr_sort, is_stable, BOOL, "is_stable", .pretty = NULL, .optional = true),
};
static const qn_field runs_fields[] = {
    FIELD(qn_attr_runs, dimension, I64, "dimension", .pretty = NULL),
    FIELD(qn_attr_runs, length, I64, "length", .pretty = NULL),
    FIELD(qn_attr_runs, sorted, I64, "sorted", .pretty = NULL),
};
static const char *const rng_algorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX", NULL};
static const qn_field rng_fields[] = {
    FIELD(qn_attr_rng, algorithm, ENUM, "rng_algorithm", .pretty = "algorithm", .words = rng_algorithms),
    FIELD(qn_attr_rng, dtype, I32, "quern.dtype", .optional = true),
    FIELD(qn_attr_rng, shape, DIMS, "quern.shape", .optional = true),
};
static const qn_field top_k_fields[] = {FIELD(qn_attr_top_k, k, I64, "k", .pretty = "k")};

static const qn_field remat_fields[] = {
    FIELD(qn_attr_name, target, TEXT, "policy", .pretty = NULL),
    FIELD(qn_attr_name, config, TEXT, "names", .optional = true),
};
static const qn_field checkpoint_name_fields[] = {FIELD(qn_attr_name, target, TEXT, "name", .pretty = NULL)};
static const qn_field while_fields[] = {
    FIELD(qn_attr_while, trip_count, I64, "quern.trip_count", .optional = true, .absent = -1),
};
static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT", NULL};
static const qn_field cholesky_fields[] = {FIELD(qn_attr_triangle, lower, BOOL, "lower", .pretty = "lower")};
static const qn_field solve_fields[] = {
    FIELD(qn_attr_solve, left_side, BOOL, "left_side", .pretty = NULL),
    FIELD(qn_attr_solve, lower, BOOL, "lower", .pretty = NULL),
    FIELD(qn_attr_solve, transpose_a, ENUM, "transpose_a", .mnemonic = "transpose", .words = transposes),
    FIELD(qn_attr_solve, unit_diagonal, BOOL, "unit_diagonal", .pretty = NULL),
};

#define WINDOW(member, name_, absent_)                                                                                 \
  FIELD(qn_attr_window, member, DIMS, name_, .optional = true, .per_axis = true, .absent = (absent_))
#define PADDING                                                                                                        \
  FIELD(qn_attr_window, pad_low, PAIRS, "padding", .high = offsetof(qn_attr_window, pad_high), .optional = true,       \
        .per_axis = true)
static const qn_field reduce_window_fields[] = {
    WINDOW(base_dilation, "base_dilations", 1), PADDING, WINDOW(window_dilation, "window_dilations", 1),
    FIELD(qn_attr_window, size, DIMS, "window_dimensions", .pretty = NULL), WINDOW(stride, "window_strides", 1)};
static const qn_field windows_fields[] = {WINDOW(base_dilation, "base_dilations", 1),
                                          PADDING,
                                          FIELD(qn_attr_window, phased, BOOL, "phased", .optional = true),
                                          WINDOW(window_dilation, "window_dilations", 1),
                                          WINDOW(size, "window_dimensions", 1),
                                          WINDOW(stride, "window_strides", 1)};
static const qn_field select_and_scatter_fields[] = {PADDING, WINDOW(size, "window_dimensions", 1),
                                                     WINDOW(stride, "window_strides", 1)};
static const qn_field cumulative_fields[] = {
    FIELD(qn_attr_cumulative, block, I64, "block", .optional = true),
    FIELD(qn_attr_cumulative, dimension, I64, "dimension", .pretty = NULL),
    FIELD(qn_attr_cumulative, reverse, BOOL, "reverse", .optional = true),
    FIELD(qn_attr_cumulative, totals, BOOL, "totals", .optional = true),
};

#define FIELDS(list) .fields = (list), .field_count = (int)(sizeof(list) / sizeof *(list))

static const qn_form forms[] = {
    {QN_OP_CONSTANT, .types = QN_TYPES_RESULT, .print = qn_print_constant_form, .parse = qn_parse_constant_form},
    {QN_OP_IOTA, .types = QN_TYPES_RESULT, FIELDS(iota_fields)},
    {QN_OP_BROADCAST_IN_DIM, .types = QN_TYPES_FUNCTIONAL, FIELDS(broadcast_fields)},
    {QN_OP_RESHAPE, .types = QN_TYPES_FUNCTIONAL},
    {QN_OP_TRANSPOSE, .types = QN_TYPES_FUNCTIONAL, FIELDS(transpose_fields)},
    {QN_OP_REVERSE, FIELDS(reverse_fields)},
    {QN_OP_SLICE, .types = QN_TYPES_FUNCTIONAL, FIELDS(slice_fields), .print = qn_print_slice_form,
     .parse = qn_parse_slice_form},
    {QN_OP_PAD, .types = QN_TYPES_FUNCTIONAL, FIELDS(pad_fields)},
    {QN_OP_CONCATENATE, .types = QN_TYPES_FUNCTIONAL, FIELDS(concatenate_fields)},
    {QN_OP_DYNAMIC_SLICE, .types = QN_TYPES_FUNCTIONAL, FIELDS(dynamic_slice_fields)},
    {QN_OP_DYNAMIC_UPDATE_SLICE, .types = QN_TYPES_FUNCTIONAL},
    {QN_OP_BITCAST_CONVERT, .types = QN_TYPES_FUNCTIONAL},
    {QN_OP_COMPARE, .types = QN_TYPES_FUNCTIONAL, FIELDS(compare_fields), .print = qn_print_compare_form},
    {QN_OP_SELECT, .types = QN_TYPES_SELECT},
    {QN_OP_COMPLEX, .types = QN_TYPES_COMPLEX},
    {QN_OP_REDUCE_PRECISION, FIELDS(precision_fields), .print = qn_print_precision_form,
     .parse = qn_parse_precision_form},
    {QN_OP_REDUCE, FIELDS(reduce_fields), .combiner = true, .print = qn_print_reduce_form,
     .parse = qn_parse_reduce_form},
    {QN_OP_REDUCE_WINDOW, FIELDS(reduce_window_fields), .generic = true, .combiner = true},
    {QN_OP_SELECT_AND_SCATTER, FIELDS(select_and_scatter_fields), .generic = true},
    {QN_OP_WINDOWS, FIELDS(windows_fields)},
    {QN_OP_CUMULATIVE, FIELDS(cumulative_fields)},
    {QN_OP_DOT_GENERAL, .types = QN_TYPES_FUNCTIONAL, FIELDS(dot_fields), .group = "dot_dimension_numbers",
     .mnemonic = "dot"},
    {QN_OP_CONVOLUTION, .types = QN_TYPES_FUNCTIONAL, FIELDS(conv_fields), .group = "dimension_numbers",
     .mnemonic = "conv", .print = qn_print_conv_form, .parse = qn_parse_conv_form, .finish = qn_parse_conv_finish},
    {QN_OP_FFT, .types = QN_TYPES_FUNCTIONAL, FIELDS(fft_fields), .print = qn_print_fft_form},
    {QN_OP_GATHER, FIELDS(gather_fields), .group = "dimension_numbers", .mnemonic = "gather", .generic = true},
    {QN_OP_SCATTER, FIELDS(scatter_fields), .group = "scatter_dimension_numbers", .mnemonic = "scatter",
     .generic = true, .combiner = true},
    {QN_OP_WHILE, FIELDS(while_fields), .control = true, .print = qn_print_while_form, .parse = qn_parse_while_form},
    {QN_OP_CASE, .generic = true, .control = true},
    {QN_OP_REMAT, FIELDS(remat_fields)},
    {QN_OP_CHECKPOINT_NAME, FIELDS(checkpoint_name_fields)},
    {QN_OP_IF, .generic = true, .control = true},
    {QN_OP_SORT, FIELDS(sort_fields), .generic = true, .comparator = true},
    {QN_OP_SORT_RUNS, FIELDS(runs_fields), .generic = true, .comparator = true},
    {QN_OP_OPTIMIZATION_BARRIER, .types = QN_TYPES_EACH},
    {QN_OP_RNG_BIT_GENERATOR, .types = QN_TYPES_FUNCTIONAL, FIELDS(rng_fields), .print = qn_print_rng_form,
     .finish = qn_parse_rng_finish},
    {QN_OP_TOP_K, FIELDS(top_k_fields), .print = qn_print_top_k_form},
    {QN_OP_CHOLESKY, FIELDS(cholesky_fields)},
    {QN_OP_TRIANGULAR_SOLVE, FIELDS(solve_fields), .generic = true},
};

/* Linear algebra that StableHLO lacks: XLA's custom calls, without configuration but for the last. LU's is known to its TPU backend alone. */
static const qn_form foreign_forms[] = {
    {QN_OP_GEQRF, .target = "Qr"},
    {QN_OP_HOUSEHOLDER_PRODUCT, .target = "ProductOfElementaryHouseholderReflectors"},
    {QN_OP_LU, .target = "LuDecomposition"},
    {QN_OP_EIGH, .target = "Eigh", .config = "1,1,100,1e-6"}, /* the lower triangle, ascending, sweeps, tolerance */
};

const qn_form *qn_form_get(qn_op op) {
  static const qn_form plain;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].op == op)
      return &forms[i];
  for (size_t i = 0; i < sizeof foreign_forms / sizeof *foreign_forms; i++)
    if (foreign_forms[i].op == op)
      return &foreign_forms[i];
  return &plain;
}

static void copy_dims(char *to, const char *from) {
  qn_dims d;
  memcpy(&d, from, sizeof d);
  size_t n = d.n < 0 ? 0 : d.n > QN_MAX_RANK ? QN_MAX_RANK : (size_t)d.n;
  memcpy(to, &d.n, sizeof d.n);
  memcpy(to + offsetof(qn_dims, d), d.d, n * sizeof d.d[0]);
}

void qn_form_copy_attr(qn_op op, void *to, const void *from, size_t size) {
  static const size_t sizes[] = {[QN_FIELD_I64] = 8,
                                 [QN_FIELD_I32] = 4,
                                 [QN_FIELD_BOOL] = sizeof(bool),
                                 [QN_FIELD_ENUM] = 4,
                                 [QN_FIELD_TEXT] = sizeof(char *)};
  const qn_form *form = qn_form_get(op);
  if (!form->field_count) {
    memcpy(to, from, size);
    return;
  }
  memset(to, 0, size);
  for (int i = 0; i < form->field_count; i++) {
    const qn_field *f = &form->fields[i];
    char *out = (char *)to + f->offset;
    const char *in = (const char *)from + f->offset;
    if (f->kind == QN_FIELD_DIMS) {
      copy_dims(out, in);
    } else if (f->kind == QN_FIELD_PAIRS) {
      copy_dims(out, in);
      copy_dims((char *)to + f->high, (const char *)from + f->high);
    } else {
      memcpy(out, in, sizes[f->kind]);
    }
  }
}

int qn_node_captures(const qn_node *n) {
  const qn_form *form = qn_form_get(n->op);
  if (n->region_count && form->comparator)
    return 2 * n->operand_count - (int)qn_graph_param_count(n->regions[0]);
  if (n->region_count == 0 || (!form->combiner && !form->control))
    return 0;
  if (form->combiner)
    return (int)qn_graph_param_count(n->regions[0]) - 2 * (int)qn_graph_result_count(n->regions[0]);
  return n->operand_count - (n->op == QN_OP_WHILE ? n->result_count : 1);
}
