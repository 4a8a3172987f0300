/* Operations with a spelling of their own: constants, slices, compares, reductions. */
#include "text_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants: numbers as LLVM prints them, so that text from JAX comes back unchanged ---- */
static uint64_t load_bits(const void *p, size_t size) {
  uint64_t bits = 0;
  for (size_t i = 0; i < size; i++)
    bits |= (uint64_t)((const uint8_t *)p)[i] << (8 * i);
  return bits;
}

static double to_double(qn_dtype t, uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  memcpy(&f, &low, sizeof f);
  memcpy(&d, &bits, sizeof d);
  return t == QN_F64   ? d
         : t == QN_F32 ? (double)f
         : t == QN_F16 ? (double)qn_f16_to_f32((uint16_t)bits)
                       : (double)qn_bf16_to_f32((uint16_t)bits);
}

static uint64_t from_text(qn_dtype t, const char *s) {
  uint64_t bits[2] = {0, 0};
  qn_element_parse(t, s, bits);
  return bits[0];
}

/* x's decimal digits as LLVM's printer finds them: all digits of the exact value, cut to about `precision` by a power of ten
 * that the value's bits allow, then rounded half up to `precision`. Trailing zeros go. Returns how many are left; x is not 0. */
static int find_digits(double x, int precision, char *digits, int *out_exponent) {
  char exact[1200]; /* a double has at most 767 digits */
  int e, bits, exact_count;
  double fraction = frexp(fabs(x), &e);
  uint64_t m = (uint64_t)ldexp(fraction, 53);
  for (e -= 53; !(m & 1); e++)
    m >>= 1;
  /* As an integer times a power of ten: m * 2^e, or m * 5^-e * 10^e. */
  bits = 1 + (int)floorl(log2l((long double)m) + (e < 0 ? -(long double)e * log2l(5.0L) : (long double)e));
  (void)snprintf(exact, sizeof exact, "%.*e", 1100, fabs(x));
  *out_exponent = (int)strtol(strchr(exact, 'e') + 1, NULL, 10);
  exact_count = *out_exponent - (e < 0 ? e : 0) + 1;
  int needed = (precision * 196 + 58) / 59, removed = bits > needed ? (bits - needed) * 59 / 196 : 0;
  int n = exact_count - removed;
  bool up = n > precision && exact[precision + 1] >= '5'; /* behind d. */
  n = n > precision ? precision : n;
  digits[0] = exact[0];
  memcpy(digits + 1, exact + 2, (size_t)(n - 1));
  for (; up && n > 0 && digits[n - 1] == '9'; n--)
    ;
  if (up && n == 0) {
    digits[n++] = '1';
    ++*out_exponent;
  } else if (up) {
    digits[n - 1]++;
  }
  while (n > 1 && digits[n - 1] == '0')
    n--;
  digits[n] = '\0';
  return n;
}

/* All digits: plain if that takes few zeros, else with an exponent; false for an integer, which would read as one. */
static bool all_digits(double x, int precision, char *out, size_t size) {
  char digits[32];
  int exponent, n = find_digits(x, precision, digits, &exponent);
  const char *sign = signbit(x) ? "-" : "";
  if (exponent < 0 && exponent >= -3)
    (void)snprintf(out, size, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
  else if (exponent >= 0 && exponent < n - 1)
    (void)snprintf(out, size, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
  else if (exponent >= 0 && exponent < precision && exponent - (n - 1) <= 3)
    return false;
  else
    (void)snprintf(out, size, "%s%c.%sE%+d", sign, digits[0], n == 1 ? "0" : digits + 1, exponent);
  return true;
}

static void six_digits(double x, char *out, size_t size) {
  char digits[32] = "0";
  int exponent = 0, n = x == 0 ? 1 : find_digits(x, 6, digits, &exponent);
  (void)snprintf(out, size, "%s%c.%s%.*se%c%02d", signbit(x) ? "-" : "", digits[0], digits + 1, 7 - n, "0000000",
                 exponent < 0 ? '-' : '+', abs(exponent));
}

/* The first that reads back as the same number: six digits, all digits, the bits. */
static void print_float(qn_text *out, qn_dtype t, const void *p) {
  static const int digits_of[QN_DTYPE_COUNT] = {[QN_F16] = 5, [QN_BF16] = 4, [QN_F32] = 9, [QN_F64] = 17};
  size_t size = qn_dtype_size(t);
  uint64_t bits = load_bits(p, size);
  double x = to_double(t, bits);
  char text[96];
  bool found = false;
  if (isfinite(x)) {
    six_digits(x, text, sizeof text);
    found =
        from_text(t, text) == bits || (all_digits(x, digits_of[t], text, sizeof text) && from_text(t, text) == bits);
  }
  if (found)
    qn_text_puts(out, text);
  else
    qn_text_add(out, "0x%0*" PRIX64, (int)(2 * size), bits);
}

static void print_element(qn_text *out, qn_dtype t, const void *p) {
  size_t size = qn_dtype_size(t);
  uint64_t bits = t == QN_DTYPE_NONE ? 0 : load_bits(p, size > 8 ? 8 : size);
  if (t == QN_BOOL) {
    qn_text_puts(out, bits ? "true" : "false");
  } else if (qn_dtype_is_float(t)) {
    print_float(out, t, p);
  } else if (qn_dtype_is_complex(t)) {
    qn_dtype part = qn_dtype_part(t);
    qn_text_puts(out, "(");
    print_float(out, part, p);
    qn_text_puts(out, ",");
    print_float(out, part, (const char *)p + size / 2);
    qn_text_puts(out, ")");
  } else if (qn_dtype_is_signed(t)) {
    uint64_t sign = UINT64_C(1) << (8 * size - 1);
    qn_text_add(out, "%" PRId64, (int64_t)((bits ^ sign) - sign));
  } else {
    qn_text_add(out, "%" PRIu64, bits);
  }
}

static void print_nested(qn_text *out, const qn_type *t, int axis, const char **at) {
  if (axis == t->rank) {
    print_element(out, t->dtype, *at);
    *at += qn_dtype_size(t->dtype);
    return;
  }
  qn_text_puts(out, "[");
  for (int64_t i = 0; i < t->dims[axis]; i++) {
    qn_text_puts(out, i ? ", " : "");
    print_nested(out, t, axis + 1, at);
  }
  qn_text_puts(out, "]");
}

static void print_hex(qn_text *out, const uint8_t *p, size_t n) {
  static const char digits[] = "0123456789ABCDEF";
  qn_text_puts(out, "\"0x");
  for (size_t i = 0; i < n; i++)
    qn_text_putn(out, (const char[]){digits[p[i] >> 4], digits[p[i] & 15]}, 2);
  qn_text_puts(out, "\"");
}

void qn_print_constant_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  enum { MOST_LISTED = 100 }; /* as MLIR's printer */
  const qn_attr_constant *c = n->attr;
  const qn_type *t = qn_graph_type(g, n->first_result);
  qn_text_puts(p->out, "stablehlo.constant dense<");
  if (c->elements == 1) {
    print_element(p->out, t->dtype, c->data);
  } else if (c->elements > MOST_LISTED && t->dtype != QN_BOOL) {
    print_hex(p->out, c->data, qn_constant_bytes(c, t));
  } else if (c->elements > 0) {
    const char *at = c->data;
    print_nested(p->out, t, 0, &at);
  }
  qn_text_puts(p->out, ">");
  qn_print_types(p, g, n, QN_TYPES_RESULT);
}

/* ---- the others ---- */
void qn_print_slice_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_slice *a = n->attr;
  qn_text_puts(p->out, "stablehlo.slice ");
  qn_print_operands(p, n, 0, 1);
  qn_text_puts(p->out, " [");
  for (int i = 0; i < a->start.n; i++) {
    qn_text_add(p->out, "%s%" PRId64 ":%" PRId64, i ? ", " : "", a->start.d[i], a->limit.d[i]);
    if (i < a->stride.n && a->stride.d[i] != 1)
      qn_text_add(p->out, ":%" PRId64, a->stride.d[i]);
  }
  qn_text_puts(p->out, "]");
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

void qn_print_compare_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_form *form = qn_form_get(n->op);
  const qn_attr_compare *a = n->attr;
  qn_text_add(p->out, "stablehlo.compare %s, ", form->fields[0].words[a->direction]);
  qn_print_operands(p, n, 0, 2);
  if (a->type != QN_CMP_DEFAULT)
    qn_text_add(p->out, ", %s", form->fields[1].words[a->type]);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

void qn_print_fft_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_fft *a = n->attr;
  qn_text_puts(p->out, "stablehlo.fft ");
  qn_print_operands(p, n, 0, 1);
  qn_text_add(p->out, ", type = %s, length = ", qn_form_get(n->op)->fields[1].words[a->type]);
  qn_print_dims(p->out, &a->length);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

void qn_print_precision_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_precision *a = n->attr;
  qn_text_puts(p->out, "stablehlo.reduce_precision ");
  qn_print_operands(p, n, 0, 1);
  qn_text_add(p->out, ", format = e%dm%d", a->exponent_bits, a->mantissa_bits);
  qn_print_types(p, g, n, QN_TYPES_AUTO);
}

void qn_print_rng_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_rng *a = n->attr;
  qn_text_puts(p->out, "stablehlo.rng_bit_generator ");
  qn_print_operands(p, n, 0, 1);
  qn_text_add(p->out, ", algorithm = %s", qn_form_get(n->op)->fields[0].words[a->algorithm]);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

void qn_print_top_k_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  qn_text_puts(p->out, "chlo.top_k(");
  qn_print_operands(p, n, 0, 1);
  qn_text_add(p->out, ", k = %" PRId64 ") : ", ((const qn_attr_top_k *)n->attr)->k);
  qn_type_print(qn_graph_type(g, n->operands[0]), p->out);
  qn_text_puts(p->out, " -> (");
  qn_type_print(qn_graph_type(g, n->first_result), p->out);
  qn_text_puts(p->out, ", ");
  qn_type_print(qn_graph_type(g, n->first_result + 1), p->out);
  qn_text_puts(p->out, ")");
}

qn_op qn_region_single_op(const qn_graph *r) {
  if (qn_graph_param_count(r) != 2 || qn_graph_node_count(r) != 3 || qn_graph_result_count(r) != 1)
    return QN_OP_NONE;
  const qn_node *n = qn_graph_node(r, 2);
  bool in_order =
      n->operand_count == 2 && n->operands[0] == qn_graph_param_at(r, 0) && n->operands[1] == qn_graph_param_at(r, 1);
  bool plain = n->result_count == 1 && n->region_count == 0 && !n->attr && qn_graph_result(r, 0) == n->first_result;
  return in_order && plain ? n->op : QN_OP_NONE;
}

static void print_reducer(qn_printer *p, const qn_node *n, int count) {
  const qn_graph *body = n->regions[0];
  qn_scope scope;
  if (!qn_print_region_open(p, &scope, body, n))
    return;
  qn_text_add(p->out, "\n%*sreducer", scope.indent - 1, "");
  for (int i = 0; i < count; i++) {
    uint32_t pair[2] = {qn_graph_param_at(body, (size_t)i), qn_graph_param_at(body, (size_t)(i + count))};
    qn_text_puts(p->out, i ? " (" : "(");
    for (int k = 0; k < 2; k++) {
      qn_text_puts(p->out, k ? ", " : "");
      qn_text_operand(p, pair[k]);
      qn_text_puts(p->out, ": ");
      qn_type_print(qn_graph_type(body, pair[k]), p->out);
    }
    qn_text_puts(p->out, ")");
  }
  qn_text_puts(p->out, "  {");
  qn_print_region_body(p, body, "stablehlo.return");
  qn_print_newline(p, -2);
  qn_text_puts(p->out, "}");
  qn_print_region_close(p);
}

void qn_print_reduce_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_attr_dims *a = n->attr;
  int count = n->result_count;
  qn_op op = count == 1 ? qn_region_single_op(n->regions[0]) : QN_OP_NONE;
  qn_text_puts(p->out, "stablehlo.reduce");
  for (int i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", (" : "(");
    qn_text_operand(p, n->operands[i]);
    qn_text_puts(p->out, " init: ");
    qn_text_operand(p, n->operands[count + i]);
    qn_text_puts(p->out, ")");
  }
  const char *name = op != QN_OP_NONE ? qn_op_get(op)->name : NULL;
  if (name)
    qn_text_add(p->out, " applies %s%s", strchr(name, '.') ? "" : "stablehlo.", name);
  qn_text_puts(p->out, " across dimensions = ");
  qn_print_dims(p->out, &a->dims);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
  if (!name)
    print_reducer(p, n, count);
}
