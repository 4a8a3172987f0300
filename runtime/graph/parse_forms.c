/* Operations with a spelling of their own, read: constants, slices, reductions, custom calls. */
#include "text_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- dense<..> : type ---- */
typedef struct dense {
  qn_type type;
  size_t size;
  char *at; /* where the next element goes */
} dense;

/* The token as text of its own; numbers are short. */
static bool number_text(qn_parser *p, char *text, size_t size) {
  if (p->tok.size >= size)
    return qn_parse_fail(p, "the number is too long");
  memcpy(text, p->tok.text, p->tok.size);
  text[p->tok.size] = '\0';
  return true;
}

static void put_bits(char *out, uint64_t bits, size_t size) {
  for (size_t i = 0; i < size; i++)
    out[i] = (char)(uint8_t)(bits >> (8 * i));
}

static bool integer_element(qn_parser *p, qn_dtype t, char *out) {
  char text[40];
  size_t size = qn_dtype_size(t);
  int bits = t == QN_BOOL ? 1 : (int)(8 * size);
  if (p->tok.kind != QN_T_INT)
    return qn_parse_expect(p, "0", t == QN_BOOL ? "true or false" : "an integer") && false;
  if (!number_text(p, text, sizeof text))
    return false;
  bool hex = strncmp(text, "0x", 2) == 0, negative = text[0] == '-';
  errno = 0;
  uint64_t u = negative ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, hex ? 16 : 10);
  uint64_t top = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  bool fits = errno == 0;
  if (negative) /* i1 is one signed bit: -1 is true */
    fits = fits && !qn_dtype_is_unsigned(t) && (int64_t)u >= -(int64_t)(top / 2) - 1;
  else
    fits = fits && u <= (qn_dtype_is_signed(t) && !hex ? top / 2 : top);
  if (!fits)
    return qn_parse_fail(p, "%s does not fit in %s", text, qn_dtype_mlir_name(t));
  put_bits(out, t == QN_BOOL ? u & 1 : u, size);
  return true;
}

static bool float_element(qn_parser *p, qn_dtype t, char *out) {
  char text[128];
  size_t size = qn_dtype_size(t);
  if (p->tok.kind != QN_T_FLOAT && p->tok.kind != QN_T_INT)
    return qn_parse_expect(p, "0", "a number") && false;
  if (!number_text(p, text, sizeof text))
    return false;
  if (strncmp(text, "0x", 2) == 0) {
    errno = 0;
    uint64_t bits = strtoull(text, NULL, 16);
    if (errno || (size < 8 && bits >> (8 * size)))
      return qn_parse_fail(p, "%s does not fit in %s", text, qn_dtype_mlir_name(t));
    put_bits(out, bits, size);
  } else {
    uint64_t room[2] = {0, 0};
    qn_element_parse(t, text, room);
    memcpy(out, room, size);
  }
  return true;
}

static bool element(qn_parser *p, dense *d) {
  char *out = d->at;
  qn_dtype t = d->type.dtype;
  d->at += d->size;
  bool ok;
  if (t == QN_BOOL && (qn_parse_is(p, "true") || qn_parse_is(p, "false"))) {
    *out = qn_parse_is(p, "true");
    ok = true;
  } else if (qn_dtype_is_complex(t)) {
    qn_dtype part = qn_dtype_part(t);
    ok = qn_parse_expect(p, "(", "'(' and a complex number") && float_element(p, part, out);
    qn_parse_next(p);
    ok = ok && qn_parse_expect(p, ",", "',' and the imaginary part") && float_element(p, part, out + d->size / 2);
    qn_parse_next(p);
    return ok && qn_parse_expect(p, ")", "')' behind the complex number");
  } else if (qn_dtype_is_float(t)) {
    ok = float_element(p, t, out);
  } else {
    ok = integer_element(p, t, out);
  }
  qn_parse_next(p);
  return ok;
}

static bool nested(qn_parser *p, dense *d, int axis) {
  if (axis == d->type.rank)
    return element(p, d);
  if (!qn_parse_expect(p, "[", "'[' and a list of elements"))
    return false;
  for (int64_t i = 0; i < d->type.dims[axis]; i++)
    if ((i && !qn_parse_expect(p, ",", "',' and more elements")) || !nested(p, d, axis + 1))
      return false;
  return qn_parse_expect(p, "]", "']' behind the elements");
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* "0x0000803F..": the bytes of all elements or of one; of bools, bytes or packed bits. */
static bool hex_string(qn_parser *p, const qn_type *t, qn_attr_constant *out) {
  size_t size = qn_dtype_size(t->dtype), n = (size_t)qn_type_elements(t), bytes = p->tok.size / 2 - (p->tok.size >= 2);
  if (p->tok.size < 2 || p->tok.size % 2 || strncmp(p->tok.text, "0x", 2) != 0)
    return qn_parse_fail(p, "expected a string of hexadecimal bytes");
  bool packed = t->dtype == QN_BOOL && bytes == (n + 7) / 8 && bytes != n;
  if (!packed && bytes != n * size && (bytes != size || n == 0))
    return qn_parse_fail(p, "%zu bytes of data, expected %zu for %s", bytes, n * size, qn_type_str(t));
  uint8_t *data = qn_arena_alloc(&p->arena, (packed ? n : bytes) + 1);
  if (!data)
    return qn_parse_no_memory(p);
  for (size_t i = 0; i < bytes; i++) {
    int high = hex_digit(p->tok.text[2 + 2 * i]), low = hex_digit(p->tok.text[3 + 2 * i]);
    if (high < 0 || low < 0)
      return qn_parse_fail(p, "expected a string of hexadecimal bytes");
    uint8_t byte = (uint8_t)(high << 4 | low);
    if (!packed)
      data[i] = t->dtype == QN_BOOL ? byte != 0 : byte;
    for (size_t k = 8 * i; packed && k < n && k < 8 * i + 8; k++)
      data[k] = byte >> (k % 8) & 1;
  }
  *out = (qn_attr_constant){data, bytes == size && !packed ? 1 : (int64_t)n};
  qn_parse_next(p);
  return true;
}

static bool dense_body(qn_parser *p, const qn_type *t, qn_attr_constant *out) {
  int64_t n = qn_type_elements(t);
  if (p->tok.kind == QN_T_STRING)
    return hex_string(p, t, out);
  *out = (qn_attr_constant){NULL, 0};
  if (qn_parse_is(p, ">"))
    return n == 0 || qn_parse_fail(p, "no elements, expected %" PRId64 " for %s", n, qn_type_str(t));
  bool splat = !qn_parse_is(p, "[");
  int64_t count = splat ? 1 : n;
  if (count > p->lexer.end - p->lexer.at) /* each element takes at least a character */
    return qn_parse_fail(p, "fewer elements than the %" PRId64 " of %s", n, qn_type_str(t));
  dense d = {*t, qn_dtype_size(t->dtype), qn_arena_alloc(&p->arena, (size_t)count * qn_dtype_size(t->dtype))};
  if (!d.at)
    return qn_parse_no_memory(p);
  *out = (qn_attr_constant){d.at, splat && n == 0 ? 0 : count};
  return nested(p, &d, splat ? t->rank : 0);
}

/* The elements' type comes behind them, so it is read first. */
bool qn_parse_dense(qn_parser *p, qn_type *type, qn_attr_constant *out) {
  qn_parse_next(p); /* dense */
  if (!qn_parse_expect(p, "<", "'<' and the elements"))
    return false;
  qn_lexer body = p->lexer;
  qn_token first = p->tok;
  while (!qn_parse_is(p, ">")) {
    if (p->tok.kind == QN_T_END)
      return qn_parse_fail(p, "expected '>' behind the elements");
    qn_parse_next(p);
  }
  qn_parse_next(p);
  if (!qn_parse_expect(p, ":", "':' and a type") || !qn_parse_type(p, type))
    return false;
  qn_lexer behind = p->lexer;
  qn_token next = p->tok;
  p->lexer = body;
  p->tok = first;
  if (!dense_body(p, type, out))
    return false;
  if (!qn_parse_is(p, ">"))
    return qn_parse_expect(p, ">", "'>' behind the elements");
  p->lexer = behind;
  p->tok = next;
  return true;
}

bool qn_parse_constant_form(qn_parser *p, qn_stmt *s) {
  if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
    return false;
  if (!qn_parse_is(p, "dense"))
    return qn_parse_expect(p, "dense", "dense<..>");
  qn_type *t = QN_NEW(&p->arena, qn_type, 1);
  if (!t)
    return qn_parse_no_memory(p);
  s->is_constant = true;
  s->result_types = t;
  s->result_type_count = 1;
  return qn_parse_dense(p, t, &s->constant);
}

/* ---- slice %0 [0:4:2, 1:3] ---- */
bool qn_parse_slice_form(qn_parser *p, qn_stmt *s) {
  static const char *const names[3] = {"start_indices", "limit_indices", "strides"};
  int64_t *values[3];
  size_t count = 0;
  for (int k = 0; k < 3; k++)
    if (!(values[k] = QN_NEW(&p->arena, int64_t, QN_MAX_RANK)))
      return qn_parse_no_memory(p);
  if (!qn_parse_operand(p, s) || !qn_parse_expect(p, "[", "'[' and the ranges"))
    return false;
  while (!qn_parse_take(p, "]")) {
    if (count == QN_MAX_RANK)
      return qn_parse_fail(p, "more than %d ranges", (int)QN_MAX_RANK);
    values[2][count] = 1;
    if (!qn_parse_int(p, &values[0][count]) || !qn_parse_expect(p, ":", "':' and the limit") ||
        !qn_parse_int(p, &values[1][count]))
      return false;
    if (qn_parse_take(p, ":") && !qn_parse_int(p, &values[2][count]))
      return false;
    count++;
    if (!qn_parse_is(p, "]") && !qn_parse_expect(p, ",", "',' or ']'"))
      return false;
  }
  for (int k = 0; k < 3; k++) {
    qn_attr *a = qn_parse_attr_add(p, &s->attrs, names[k]);
    if (!a)
      return false;
    a->kind = QN_A_INTS;
    a->ints = values[k];
    a->count = count;
  }
  return qn_parse_types(p, s);
}

/* ---- reduce_precision %0, format = e5m10 ---- */
bool qn_parse_precision_form(qn_parser *p, qn_stmt *s) {
  if (!qn_parse_pretty(p, s))
    return false;
  const qn_attr *format = qn_parse_attr_find(s->attrs, "format");
  int bits[2] = {0, 0};
  if (!format || format->kind != QN_A_WORD || sscanf(format->text, "e%4dm%4d", &bits[0], &bits[1]) != 2)
    return qn_parse_fail_at(p, s->at, "%s: expected a format such as e5m10", s->name);
  s->attrs = NULL;
  for (int k = 0; k < 2; k++) {
    qn_attr *a = qn_parse_attr_add(p, &s->attrs, k ? "mantissa_bits" : "exponent_bits");
    if (!a)
      return false;
    a->kind = QN_A_INT;
    a->number = bits[k];
  }
  return true;
}

/* ---- reduce(%0 init: %1), (%2 init: %3) across dimensions = [0] : types reducer(..) (..) {..} ---- */
/* Operands in the order of the text, each with its initial value: values first. */
static bool reduce_operands(qn_parser *p, qn_stmt *s) {
  qn_stmt inits = {.at = s->at};
  do {
    if (!qn_parse_expect(p, "(", "'(' and an operand") || !qn_parse_operand(p, s) ||
        !qn_parse_expect(p, "init", "init:") || !qn_parse_expect(p, ":", "init:") || !qn_parse_operand(p, &inits) ||
        !qn_parse_expect(p, ")", "')' behind the operand"))
      return false;
  } while (qn_parse_take(p, ","));
  for (size_t i = 0; i < inits.operand_count; i++) {
    if (!qn_parse_grow(p, (void **)&s->operands, &s->operand_capacity, s->operand_count, sizeof *s->operands))
      return false;
    s->operands[s->operand_count++] = inits.operands[i];
  }
  return true;
}

/* (acc, x) -> op(acc, x) for scalars of the initial value's dtype. */
static bool applied_region(qn_parser *p, qn_stmt *s, const char *name) {
  qn_bindings scope;
  qn_op op = qn_op_find(name);
  if (op == QN_OP_NONE || !strchr(name, '.'))
    return qn_parse_fail_at(p, s->at, "unknown operation '%.80s'", name);
  qn_type t = qn_type_scalar(qn_val_type(s->operands[s->operand_count - 1])->dtype);
  bool ok = qn_parse_scope_open(p, &scope, p->scope, "region");
  qn_graph *region = NULL;
  if (ok) {
    qn_val in[2] = {qn_graph_param(scope.graph, t, NULL), qn_graph_param(scope.graph, t, NULL)};
    qn_val v = qn_graph_add(scope.graph, op, in, 2, NULL, NULL, 0, s->at);
    ok = qn_graph_seal(scope.graph, &v, 1) == QN_OK;
    if (ok)
      region = qn_graph_retain(scope.graph);
    else
      (void)qn_parse_fail_at(p, s->at, "%s", qn_error_message());
  }
  ok = ok && qn_parse_region_add(p, s, &scope, region);
  qn_parse_scope_close(p, &scope);
  return ok;
}

/* reducer(%acc: T, %x: T) (%acc2: U, %x2: U) { .. }: parameters are accumulators, then elements. */
static bool reducer_region(qn_parser *p, qn_stmt *s) {
  enum { MOST = 64 };
  qn_token names[2][MOST];
  qn_type types[2][MOST];
  int count = 0;
  while (qn_parse_take(p, "(")) {
    if (count == MOST)
      return qn_parse_fail(p, "more than %d pairs of parameters", (int)MOST);
    for (int k = 0; k < 2; k++) {
      if (k && !qn_parse_expect(p, ",", "',' and the second parameter"))
        return false;
      names[k][count] = p->tok;
      if (p->tok.kind != QN_T_VALUE)
        return qn_parse_expect(p, "%", "a parameter");
      qn_parse_next(p);
      if (!qn_parse_expect(p, ":", "':' and the parameter's type") || !qn_parse_type(p, &types[k][count]) ||
          !qn_parse_skip_location(p))
        return false;
    }
    if (!qn_parse_expect(p, ")", "')' behind the parameters"))
      return false;
    count++;
  }
  qn_bindings scope;
  qn_graph *region = NULL;
  bool ok = qn_parse_scope_open(p, &scope, p->scope, "region");
  for (int k = 0; k < 2; k++)
    for (int i = 0; ok && i < count; i++) {
      qn_val v = qn_graph_param(scope.graph, types[k][i], NULL);
      ok = qn_val_ok(v) && qn_parse_bind(p, &scope, &names[k][i], v, 1);
    }
  ok = ok && qn_parse_expect(p, "{", "'{' and the reducer's body") && qn_parse_block(p, &scope, &region) &&
       qn_parse_region_add(p, s, &scope, region);
  qn_parse_scope_close(p, &scope);
  return ok;
}

bool qn_parse_reduce_form(qn_parser *p, qn_stmt *s) {
  char *applies = NULL;
  if (!reduce_operands(p, s))
    return false;
  if (qn_parse_take(p, "applies")) {
    if (p->tok.kind != QN_T_WORD)
      return qn_parse_expect(p, "op", "an operation");
    if (!(applies = qn_parse_token_text(p)))
      return false;
    qn_parse_next(p);
  }
  qn_attr *a = qn_parse_attr_add(p, &s->attrs, "dimensions");
  if (!a)
    return false;
  a->kind = QN_A_INTS;
  if (!qn_parse_expect(p, "across", "across dimensions") || !qn_parse_expect(p, "dimensions", "across dimensions") ||
      !qn_parse_expect(p, "=", "'=' and the dimensions") || !qn_parse_ints(p, &a->ints, &a->count))
    return false;
  if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
    return false;
  if (!qn_parse_types(p, s))
    return false;
  if (applies)
    return applied_region(p, s, applies);
  return qn_parse_expect(p, "reducer", "applies or reducer") && reducer_region(p, s);
}

/* ---- custom_call @quern.name(%0) {called_computations = [@f]} : types ---- */
bool qn_parse_custom_call(qn_parser *p, qn_stmt *s, bool generic) {
  const char *target = NULL;
  if (generic) {
    if (!qn_parse_generic(p, s))
      return false;
    const qn_attr *a = qn_parse_attr_find(s->attrs, "call_target_name");
    target = a && a->kind == QN_A_STRING ? a->text : NULL;
  } else {
    if (p->tok.kind != QN_T_SYMBOL)
      return qn_parse_expect(p, "@", "the target of the call");
    target = qn_parse_token_text(p);
    qn_parse_next(p);
    if (!qn_parse_expect(p, "(", "'(' and the operands") || !qn_parse_operands(p, s) ||
        !qn_parse_expect(p, ")", "')' behind the operands"))
      return false;
    if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
      return false;
    if (!qn_parse_types(p, s))
      return false;
  }
  if (target && (strcmp(target, "TopK") == 0 || strcmp(target, "mhlo.topk") == 0)) {
    s->name = target;
    return qn_parse_top_k_call(p, s);
  }
  s->op = target && strncmp(target, "quern.", 6) == 0 ? qn_op_find(target) : QN_OP_NONE;
  if (s->op == QN_OP_NONE && (s->target = qn_parse_call_target(target)) != NULL) {
    s->name = target;
    return true;
  }
  if (s->op == QN_OP_NONE)
    return qn_parse_fail_at(p, s->at, "unknown target @%.80s of a custom call", target ? target : "");
  s->name = target;
  s->form = qn_form_get(s->op);
  const qn_attr *called = qn_parse_attr_find(s->attrs, "called_computations");
  for (const qn_attr *c = called ? called->children : NULL; c; c = c->next) {
    qn_graph *f = qn_parse_function(p, c->text);
    if (!f || !qn_parse_grow(p, (void **)&s->regions, &s->region_capacity, s->region_count, sizeof *s->regions))
      return false;
    s->regions[s->region_count++] = qn_graph_retain(f);
  }
  return true;
}
