/* convolution in text: [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f] for the roles of axes, window = {..}, and in the generic form padding as pairs.
 * Reading makes of both the attributes that the table of forms knows. */
#include "text_impl.h"

#include <inttypes.h>
#include <string.h>

/* ---- printing ---- */

static void print_side(qn_text *out, int rank, int64_t first, char first_letter, int64_t second, char second_letter,
                       const qn_dims *spatial) {
  qn_text_puts(out, "[");
  for (int d = 0; d < rank; d++) {
    qn_text_puts(out, d ? ", " : "");
    int number = 0;
    while (number < spatial->n && spatial->d[number] != d)
      number++;
    if (d == first || d == second)
      qn_text_add(out, "%c", d == first ? first_letter : second_letter);
    else
      qn_text_add(out, "%d", number);
  }
  qn_text_puts(out, "]");
}

void qn_print_conv_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_conv *a = n->attr;
  qn_text *out = p->out;
  int rank = a->input_spatial.n + 2;
  qn_text_puts(out, "stablehlo.convolution(");
  qn_print_operands(p, n, 0, 2);
  qn_text_puts(out, ") dim_numbers = ");
  print_side(out, rank, a->input_batch, 'b', a->input_feature, 'f', &a->input_spatial);
  qn_text_puts(out, "x");
  print_side(out, rank, a->kernel_input_feature, 'i', a->kernel_output_feature, 'o', &a->kernel_spatial);
  qn_text_puts(out, "->");
  print_side(out, rank, a->output_batch, 'b', a->output_feature, 'f', &a->output_spatial);
  qn_text_puts(out, ", window = {stride = ");
  qn_print_dims(out, &a->stride);
  qn_text_puts(out, ", pad = [");
  for (int i = 0; i < a->pad_low.n; i++)
    qn_text_add(out, "%s[%" PRId64 ", %" PRId64 "]", i ? ", " : "", a->pad_low.d[i], a->pad_high.d[i]);
  qn_text_puts(out, "], lhs_dilate = ");
  qn_print_dims(out, &a->lhs_dilation);
  qn_text_puts(out, ", rhs_dilate = ");
  qn_print_dims(out, &a->rhs_dilation);
  qn_text_puts(out, ", reverse = [");
  for (int i = 0; i < a->reversal.n; i++)
    qn_text_add(out, "%s%s", i ? ", " : "", a->reversal.d[i] ? "true" : "false");
  qn_text_add(out,
              "]} {batch_group_count = %" PRId64 " : i64, feature_group_count = %" PRId64
              " : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}",
              a->batch_group_count, a->feature_group_count);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

/* ---- reading ---- */

static bool add_number(qn_parser *p, qn_attr **list, const char *name, int64_t x) {
  qn_attr *a = qn_parse_attr_add(p, list, name);
  if (!a)
    return false;
  a->kind = QN_A_INT;
  a->number = x;
  return true;
}

static bool add_numbers(qn_parser *p, qn_attr **list, const char *name, const int64_t *x, size_t count) {
  qn_attr *a = qn_parse_attr_add(p, list, name);
  if (!a || !(a->ints = QN_NEW(&p->arena, int64_t, count + 1)))
    return a ? qn_parse_no_memory(p) : false;
  a->kind = QN_A_INTS;
  a->count = count;
  if (count)
    memcpy(a->ints, x, count * sizeof *x);
  return true;
}

typedef struct side {
  const char *letters;  /* "bf" */
  const char *names[3]; /* of the two letters and of the spatial axes */
} side;

/* [b, 0, 1, f] */
static bool read_side(qn_parser *p, qn_attr **list, const side *s) {
  int64_t letters[2] = {-1, -1}, spatial[QN_MAX_RANK];
  size_t rank = 0, count = 0;
  for (int i = 0; i < QN_MAX_RANK; i++)
    spatial[i] = -1;
  if (!qn_parse_expect(p, "[", "'[' and the roles of axes"))
    return false;
  while (!qn_parse_take(p, "]")) {
    int64_t number = 0;
    if (rank == QN_MAX_RANK)
      return qn_parse_fail(p, "more than %d axes", (int)QN_MAX_RANK);
    int which = p->tok.kind == QN_T_WORD && p->tok.size == 1 && p->tok.text[0] == s->letters[0]   ? 0
                : p->tok.kind == QN_T_WORD && p->tok.size == 1 && p->tok.text[0] == s->letters[1] ? 1
                                                                                                  : 2;
    if (which < 2) {
      if (letters[which] >= 0)
        return qn_parse_fail(p, "'%c' twice", s->letters[which]);
      letters[which] = (int64_t)rank;
      qn_parse_next(p);
    } else {
      if (p->tok.kind != QN_T_INT)
        return qn_parse_fail(p, "expected '%c', '%c' or a number", s->letters[0], s->letters[1]);
      if (!qn_parse_int(p, &number))
        return false;
      if (number < 0 || number >= QN_MAX_RANK || spatial[number] >= 0)
        return qn_parse_fail(p, "spatial axis %" PRId64 ", expected each number from 0 up once", number);
      spatial[number] = (int64_t)rank;
      count++;
    }
    rank++;
    if (!qn_parse_is(p, "]") && !qn_parse_expect(p, ",", "',' or ']'"))
      return false;
  }
  for (size_t i = 0; i < count; i++)
    if (spatial[i] < 0)
      return qn_parse_fail(p, "spatial axis %zu is missing", i);
  for (int i = 0; i < 2; i++)
    if (letters[i] < 0)
      return qn_parse_fail(p, "'%c' is missing", s->letters[i]);
  return add_number(p, list, s->names[0], letters[0]) && add_number(p, list, s->names[1], letters[1]) &&
         add_numbers(p, list, s->names[2], spatial, count);
}

bool qn_parse_conv_numbers(qn_parser *p, qn_attr **list) {
  static const side input = {"bf", {"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"}},
                    kernel = {"io",
                              {"kernel_input_feature_dimension", "kernel_output_feature_dimension",
                               "kernel_spatial_dimensions"}},
                    output = {"bf",
                              {"output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"}};
  return read_side(p, list, &input) && qn_parse_expect(p, "x", "'x' and the kernel's axes") &&
         read_side(p, list, &kernel) && qn_parse_expect(p, "->", "'->' and the result's axes") &&
         read_side(p, list, &output);
}

/* [[1, 1], [0, 2]] or [true, false], flat. */
static bool read_nested(qn_parser *p, int64_t *out, size_t room, size_t *out_count, int depth) {
  if (!qn_parse_expect(p, "[", "'[' and a list"))
    return false;
  while (!qn_parse_take(p, "]")) {
    if (*out_count == room)
      return qn_parse_fail(p, "more than %zu numbers", room);
    if (depth > 1) {
      if (!read_nested(p, out, room, out_count, depth - 1))
        return false;
    } else if (qn_parse_take(p, "true")) {
      out[(*out_count)++] = 1;
    } else if (qn_parse_take(p, "false")) {
      out[(*out_count)++] = 0;
    } else if (!qn_parse_int(p, &out[(*out_count)++])) {
      return false;
    }
    if (!qn_parse_is(p, "]") && !qn_parse_expect(p, ",", "',' or ']'"))
      return false;
  }
  return true;
}

static bool read_window(qn_parser *p, qn_stmt *s) {
  static const struct {
    const char *key, *name;
    int depth;
  } entries[] = {{"stride", "window_strides", 1},
                 {"pad", "padding", 2},
                 {"lhs_dilate", "lhs_dilation", 1},
                 {"rhs_dilate", "rhs_dilation", 1},
                 {"reverse", "window_reversal", 1}};
  if (!qn_parse_expect(p, "{", "'{' and the window"))
    return false;
  while (!qn_parse_take(p, "}")) {
    size_t k = 0, count = 0, known = sizeof entries / sizeof *entries;
    int64_t list[2 * QN_MAX_RANK];
    while (k < known && !qn_parse_is(p, entries[k].key))
      k++;
    if (k == known)
      return qn_parse_fail(p, "expected stride, pad, lhs_dilate, rhs_dilate, reverse or '}'");
    qn_parse_next(p);
    if (!qn_parse_expect(p, "=", "'=' and a list") ||
        !read_nested(p, list, 2 * (size_t)QN_MAX_RANK, &count, entries[k].depth) ||
        !add_numbers(p, &s->attrs, entries[k].name, list, count))
      return false;
    if (!qn_parse_is(p, "}") && !qn_parse_expect(p, ",", "',' or '}'"))
      return false;
  }
  return true;
}

bool qn_parse_conv_form(qn_parser *p, qn_stmt *s) {
  if (!qn_parse_expect(p, "(", "'(' and the operands") || !qn_parse_operands(p, s) ||
      !qn_parse_expect(p, ")", "')' behind the operands") || !qn_parse_expect(p, "dim_numbers", "dim_numbers") ||
      !qn_parse_expect(p, "=", "'=' and the roles of axes") || !qn_parse_conv_numbers(p, &s->attrs))
    return false;
  if (qn_parse_take(p, ",") &&
      (!qn_parse_expect(p, "window", "window") || !qn_parse_expect(p, "=", "'=' and the window") || !read_window(p, s)))
    return false;
  if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
    return false;
  return qn_parse_types(p, s);
}

static void remove_attr(qn_attr **list, const qn_attr *a) {
  while (*list && *list != a)
    list = &(*list)->next;
  if (*list)
    *list = a->next;
}

/* Padding in two lists, and what may be left out. */
bool qn_parse_conv_finish(qn_parser *p, qn_stmt *s) {
  static const struct {
    const char *name;
    int64_t otherwise;
  } lists[] = {{"window_strides", 1}, {"lhs_dilation", 1}, {"rhs_dilation", 1}, {"window_reversal", 0}};
  const qn_attr *group = qn_parse_attr_find(s->attrs, "dimension_numbers");
  const qn_attr *spatial = qn_parse_attr_find(group ? group->children : s->attrs, "input_spatial_dimensions");
  size_t n = spatial && spatial->kind == QN_A_INTS ? spatial->count : 0;
  const qn_attr *padding = qn_parse_attr_find(s->attrs, "padding");
  int64_t sides[2][QN_MAX_RANK] = {{0}}, list[QN_MAX_RANK];
  if (n > QN_MAX_RANK || (padding && (padding->kind != QN_A_INTS || padding->count != 2 * n)))
    return qn_parse_fail_at(p, s->at, "%s: padding, expected %zu pairs of integers", s->name, n);
  for (size_t i = 0; padding && i < 2 * n; i++)
    sides[i % 2][i / 2] = padding->ints[i];
  remove_attr(&s->attrs, padding);
  if (!add_numbers(p, &s->attrs, "padding_low", sides[0], n) || !add_numbers(p, &s->attrs, "padding_high", sides[1], n))
    return false;
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
    for (size_t i = 0; i < n; i++)
      list[i] = lists[k].otherwise;
    if (!qn_parse_attr_find(s->attrs, lists[k].name) && !add_numbers(p, &s->attrs, lists[k].name, list, n))
      return false;
  }
  return true;
}
