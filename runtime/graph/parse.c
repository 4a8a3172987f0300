/* Reads operations: operands, attributes, regions, types, in the generic form and the pretty one, and what ends a block.
 * A call becomes the callee's operations. */
#include "text_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 1000000 };

/* ---- failures, tokens ---- */
/* Messages quote the text, which may be anything: what a terminal would obey is shown as '?'. */
static void make_plain(char *message) {
  for (char *c = message; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      *c = '?';
}

static bool failv(qn_parser *p, int line, int column, const char *format, va_list args) {
  if (p->code != QN_OK)
    return false;
  p->code = QN_INVALID;
  int at = snprintf(p->error, sizeof p->error, "%s:%d:%d: ", p->file, line, column);
  if (at >= 0 && at < (int)sizeof p->error)
    (void)vsnprintf(p->error + at, sizeof p->error - (size_t)at, format, args);
  make_plain(p->error);
  return false;
}

bool qn_parse_fail(qn_parser *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)failv(p, p->tok.line, p->tok.column, format, args);
  va_end(args);
  return false;
}

bool qn_parse_fail_at(qn_parser *p, qn_place at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)failv(p, at.line, at.column, format, args);
  va_end(args);
  return false;
}

bool qn_parse_no_memory(qn_parser *p) {
  (void)qn_parse_fail(p, "no memory");
  p->code = QN_OUT_OF_MEMORY;
  return false;
}

/* A builder's failure, which has its place already. */
bool qn_parse_graph_failed(qn_parser *p, const qn_graph *g) {
  if (p->code == QN_OK) {
    p->code = g->failed == QN_OK ? QN_INTERNAL : g->failed;
    (void)snprintf(p->error, sizeof p->error, "%s", g->fail_text);
    make_plain(p->error);
  }
  return false;
}

void qn_parse_next(qn_parser *p) {
  if (p->code == QN_OK)
    p->tok = qn_lex(&p->lexer);
  else
    p->tok.kind = QN_T_END; /* ends every loop */
}

bool qn_parse_is(const qn_parser *p, const char *word) {
  bool kind = p->tok.kind == QN_T_WORD || p->tok.kind == QN_T_PUNCT || p->tok.kind == QN_T_ARROW;
  return kind && strlen(word) == p->tok.size && memcmp(word, p->tok.text, p->tok.size) == 0;
}

bool qn_parse_take(qn_parser *p, const char *word) {
  if (!qn_parse_is(p, word))
    return false;
  qn_parse_next(p);
  return true;
}

bool qn_parse_expect(qn_parser *p, const char *word, const char *what) {
  if (qn_parse_take(p, word))
    return true;
  if (p->tok.kind == QN_T_END)
    return qn_parse_fail(p, "expected %s, got the end of the text", what);
  return qn_parse_fail(p, "expected %s, got '%.*s'", what, p->tok.size > 40 ? 40 : (int)p->tok.size, p->tok.text);
}

char *qn_parse_token_text(qn_parser *p) {
  char *s = qn_arena_alloc(&p->arena, p->tok.size + 1);
  if (s)
    memcpy(s, p->tok.text, p->tok.size);
  else
    (void)qn_parse_no_memory(p);
  return s;
}

bool qn_parse_grow(qn_parser *p, void **data, size_t *capacity, size_t count, size_t size) {
  if (count < *capacity)
    return true;
  if (count >= 1 << 24)
    return qn_parse_fail(p, "the list is too long");
  size_t grown = *capacity ? *capacity * 2 : 4;
  void *old, *moved = qn_arena_alloc(&p->arena, grown * size);
  if (!moved)
    return qn_parse_no_memory(p);
  memcpy(&old, data, sizeof old);
  if (count)
    memcpy(moved, old, count * size);
  memcpy(data, &moved, sizeof moved);
  *capacity = grown;
  return true;
}

qn_place qn_parse_place(const qn_parser *p) { return (qn_place){p->file, p->tok.line, p->tok.column}; }

/* loc(...), behind operations and functions. */
bool qn_parse_skip_location(qn_parser *p) {
  if (!qn_parse_take(p, "loc"))
    return true;
  int depth = 0;
  do {
    if (p->tok.kind == QN_T_END)
      return qn_parse_fail(p, "expected ')' to end the location");
    depth += qn_parse_is(p, "(") ? 1 : qn_parse_is(p, ")") ? -1 : 0;
    qn_parse_next(p);
  } while (depth > 0);
  return true;
}

/* ---- types of an operation ---- */
bool qn_parse_add_type(qn_parser *p, qn_type **list, size_t *count, size_t *capacity) {
  qn_type t;
  if (!qn_parse_type(p, &t) || !qn_parse_grow(p, (void **)list, capacity, *count, sizeof t))
    return false;
  (*list)[(*count)++] = t;
  return true;
}

static bool type_list(qn_parser *p, qn_type **list, size_t *count, size_t *capacity, bool parens) {
  if (parens && qn_parse_take(p, ")"))
    return true;
  do {
    if (!qn_parse_add_type(p, list, count, capacity))
      return false;
  } while (qn_parse_take(p, ","));
  return !parens || qn_parse_expect(p, ")", "')' behind the types");
}

bool qn_parse_types(qn_parser *p, qn_stmt *s) {
  if (!qn_parse_expect(p, ":", "':' and a type"))
    return false;
  s->types_read = true;
  if (qn_parse_take(p, "(")) {
    if (!type_list(p, &s->operand_types, &s->operand_type_count, &s->operand_type_capacity, true) ||
        !qn_parse_expect(p, "->", "'->' and the result types"))
      return false;
    bool parens = qn_parse_take(p, "(");
    if (!parens)
      return qn_parse_add_type(p, &s->result_types, &s->result_type_count, &s->result_type_capacity);
    return type_list(p, &s->result_types, &s->result_type_count, &s->result_type_capacity, true);
  }
  qn_type *t = NULL;
  size_t count = 0, capacity = 0;
  if (!type_list(p, &t, &count, &capacity, false))
    return false;
  if (qn_parse_take(p, "->")) { /* chlo.erf %0 : T -> T */
    s->operand_types = t;
    s->operand_type_count = count;
    bool parens = qn_parse_take(p, "(");
    return type_list(p, &s->result_types, &s->result_type_count, &s->result_type_capacity, parens);
  }
  if (s->form && s->form->types == QN_TYPES_EACH) {
    s->operand_types = s->result_types = t;
    s->operand_type_count = s->result_type_count = count;
    return true;
  }
  size_t want = s->form && s->form->types == QN_TYPES_SELECT && count == 2 ? 2 : 1;
  if (count != want)
    return qn_parse_fail(p, "%zu types, expected one, or (operands) -> results", count);
  for (size_t i = 0; i < s->operand_count; i++) {
    if (!qn_parse_grow(p, (void **)&s->operand_types, &s->operand_type_capacity, i, sizeof *t))
      return false;
    s->operand_types[i] = t[want == 2 && i == 0 ? 0 : want - 1];
    if (s->form && s->form->types == QN_TYPES_COMPLEX)
      s->operand_types[i].dtype = qn_dtype_part(t[0].dtype);
  }
  s->operand_type_count = s->operand_count;
  s->result_types = &t[want - 1];
  s->result_type_count = 1;
  return true;
}

static bool check_types(qn_parser *p, const qn_stmt *s, const qn_type *stated, size_t stated_count, const qn_val *vals,
                        size_t count, const char *what) {
  if (stated_count != count)
    return qn_parse_fail_at(p, s->at, "%s: %zu %s types, expected %zu", s->name, stated_count, what, count);
  for (size_t i = 0; i < count; i++)
    if (!qn_type_equal(&stated[i], qn_val_type(vals[i])))
      return qn_parse_fail_at(p, s->at, "%s: %s %zu is %s, the text says %s", s->name, what, i,
                              qn_type_str(qn_val_type(vals[i])), qn_type_str(&stated[i]));
  return true;
}

/* ---- regions ---- */
bool qn_parse_region_add(qn_parser *p, qn_stmt *s, qn_bindings *scope, qn_graph *region) {
  if (!qn_parse_grow(p, (void **)&s->regions, &s->region_capacity, s->region_count, sizeof *s->regions)) {
    qn_graph_release(region);
    return false;
  }
  s->regions[s->region_count++] = region;
  if (s->form && s->form->control) {
    size_t at = s->region_count - 1;
    if (!qn_parse_grow(p, (void **)&s->region_captures, &s->region_capture_capacity, at, sizeof *s->region_captures))
      return false;
    const qn_val *own = qn_arena_copy(&p->arena, scope->captured, scope->captured_count * sizeof *own);
    s->region_captures[at] = (qn_captured){own, scope->captured_count};
    return own != NULL || scope->captured_count == 0 || qn_parse_no_memory(p);
  }
  if (scope->captured_count == 0)
    return true;
  if (s->region_count > 1 || !s->form || (!s->form->combiner && !s->form->comparator))
    return qn_parse_fail_at(p, s->at, "%s: a region uses values of the block around it", s->name);
  s->captures = qn_arena_copy(&p->arena, scope->captured, scope->captured_count * sizeof *s->captures);
  s->capture_count = scope->captured_count;
  return s->captures != NULL || qn_parse_no_memory(p);
}

/* Block parameters: (%a: T, %b: T), behind the parenthesis. */
bool qn_parse_params(qn_parser *p, qn_bindings *scope, bool attrs) {
  while (!qn_parse_take(p, ")")) {
    qn_token name = p->tok;
    if (name.kind != QN_T_VALUE)
      return qn_parse_expect(p, "%", "a parameter or ')'");
    qn_parse_next(p);
    qn_type t;
    if (!qn_parse_expect(p, ":", "':' and the parameter's type") || !qn_parse_type(p, &t))
      return false;
    qn_attr *list = NULL;
    if (attrs && qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &list))
      return false;
    const qn_attr *path = qn_parse_attr_find(list, "jax.arg_info");
    qn_val v = qn_graph_param(scope->graph, t, path && path->kind == QN_A_STRING ? path->text : NULL);
    if (!qn_val_ok(v))
      return qn_parse_graph_failed(p, scope->graph);
    if (!qn_parse_bind(p, scope, &name, v, 1) || !qn_parse_skip_location(p))
      return false;
    if (!qn_parse_is(p, ")") && !qn_parse_expect(p, ",", "',' or ')'"))
      return false;
  }
  return true;
}

static bool operation(qn_parser *p);

/* return %a, %b : T, T */
static bool terminator(qn_parser *p, qn_bindings *scope) {
  qn_stmt s = {.at = qn_parse_place(p), .name = "return"};
  bool generic = p->tok.kind == QN_T_STRING;
  qn_parse_next(p);
  if (generic && !qn_parse_expect(p, "(", "'(' and the results"))
    return false;
  if (!qn_parse_operands(p, &s) || (generic && !qn_parse_expect(p, ")", "')'")))
    return false;
  qn_type *types = NULL;
  size_t count = 0, capacity = 0;
  if (generic) {
    if (!qn_parse_types(p, &s))
      return false;
    types = s.operand_types;
    count = s.operand_type_count;
  } else if (s.operand_count && (!qn_parse_expect(p, ":", "':' and the results' types") ||
                                 !type_list(p, &types, &count, &capacity, false))) {
    return false;
  }
  if (!check_types(p, &s, types, count, s.operands, s.operand_count, "result") || !qn_parse_skip_location(p))
    return false;
  if (qn_graph_seal(scope->graph, s.operands, s.operand_count) != QN_OK)
    return qn_parse_fail_at(p, s.at, "%s", qn_error_message());
  p->nodes += qn_graph_node_count(scope->graph);
  return true;
}

static bool is_terminator(const qn_parser *p) {
  static const char *const words[] = {"return", "func.return", "stablehlo.return"};
  for (size_t i = 0; i < 3; i++)
    if ((p->tok.kind == QN_T_WORD || p->tok.kind == QN_T_STRING) && p->tok.size == strlen(words[i]) &&
        memcmp(p->tok.text, words[i], p->tok.size) == 0)
      return true;
  return false;
}

bool qn_parse_block(qn_parser *p, qn_bindings *scope, qn_graph **out_region) {
  qn_bindings *outer = p->scope;
  *out_region = NULL;
  p->scope = scope;
  bool ok = true;
  while (ok && !is_terminator(p)) {
    if (qn_parse_is(p, "}"))
      ok = qn_parse_fail(p, "expected a return at the end of the block");
    else
      ok = operation(p);
  }
  ok = ok && terminator(p, scope) && qn_parse_expect(p, "}", "'}' behind the return");
  p->scope = outer;
  if (ok)
    *out_region = qn_graph_retain(scope->graph);
  return ok;
}

/* ({ ^bb0(%a: T): ... }, { ... }), behind the parenthesis. */
static bool regions(qn_parser *p, qn_stmt *s) {
  do {
    qn_bindings scope;
    qn_graph *region = NULL;
    bool ok = qn_parse_scope_open(p, &scope, p->scope, "region") && qn_parse_expect(p, "{", "'{' and a region");
    if (ok && p->tok.kind == QN_T_BLOCK) {
      qn_parse_next(p);
      if (qn_parse_take(p, "("))
        ok = qn_parse_params(p, &scope, false);
      ok = ok && qn_parse_expect(p, ":", "':' behind the block's name");
    }
    ok = ok && qn_parse_block(p, &scope, &region) && qn_parse_region_add(p, s, &scope, region);
    qn_parse_scope_close(p, &scope);
    if (!ok)
      return false;
  } while (qn_parse_take(p, ","));
  return qn_parse_expect(p, ")", "')' behind the regions");
}

/* ---- operations ---- */
/* (%a, %b) <{..}> ({ regions }) {..} : types, behind the quoted name. */
bool qn_parse_generic(qn_parser *p, qn_stmt *s) {
  if (!qn_parse_expect(p, "(", "'(' and the operands") || !qn_parse_operands(p, s) ||
      !qn_parse_expect(p, ")", "')' behind the operands"))
    return false;
  if (qn_parse_take(p, "<")) {
    if (!qn_parse_expect(p, "{", "'{' and the properties") || !qn_parse_attr_dict(p, &s->attrs) ||
        !qn_parse_expect(p, ">", "'>' behind the properties"))
      return false;
  }
  if (qn_parse_take(p, "(") && !regions(p, s))
    return false;
  if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
    return false;
  return qn_parse_types(p, s);
}

/* %a, %b, dims = [0], low = [1], FLOAT : types. Words without '=' go to the enum that has them. */
bool qn_parse_pretty(qn_parser *p, qn_stmt *s) {
  bool parens = qn_parse_take(p, "(");
  do {
    if (p->tok.kind == QN_T_VALUE) {
      if (!qn_parse_operands(p, s))
        return false;
      continue;
    }
    if (p->tok.kind != QN_T_WORD)
      break;
    char *word = qn_parse_token_text(p);
    qn_parse_next(p);
    if (!word)
      return false;
    if (qn_parse_take(p, "=")) {
      qn_attr *a = qn_parse_attr_add(p, &s->attrs, word);
      if (!a || !qn_parse_attr_value(p, a))
        return false;
      if (qn_parse_take(p, "x")) {
        qn_attr *b = qn_parse_attr_add(p, &s->attrs, qn_arena_printf(&p->arena, "%s#2", word));
        if (!b || !qn_parse_attr_value(p, b))
          return false;
      }
    } else {
      qn_attr *a = qn_parse_attr_add(p, &s->attrs, "");
      if (!a)
        return false;
      a->kind = QN_A_WORD;
      a->text = word;
    }
  } while (qn_parse_take(p, ","));
  if (parens && !qn_parse_expect(p, ")", "')'"))
    return false;
  if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
    return false;
  return qn_parse_types(p, s);
}

static void release_regions(qn_stmt *s) {
  for (size_t i = 0; i < s->region_count; i++)
    qn_graph_release(s->regions[i]);
  s->region_count = 0;
}

/* Adds the operation that was read; `out` are its results, in the arena. */
static bool add_operation(qn_parser *p, qn_stmt *s, const qn_val **out, int *out_count) {
  const qn_op_def *row = qn_op_get(s->op);
  qn_graph *g = p->scope->graph;
  if (s->types_read &&
      !check_types(p, s, s->operand_types, s->operand_type_count, s->operands, s->operand_count, "operand"))
    return false;
  if (s->form && s->form->control && !qn_parse_unite_captures(p, s))
    return false;
  for (size_t i = 0; i < s->capture_count; i++) {
    if (!qn_parse_grow(p, (void **)&s->operands, &s->operand_capacity, s->operand_count, sizeof *s->operands))
      return false;
    s->operands[s->operand_count++] = s->captures[i];
  }
  void *attr = NULL;
  if (s->is_constant) {
    attr = &s->constant;
  } else if (row->attr_size) {
    attr = qn_arena_alloc(&p->arena, row->attr_size);
    if (!attr)
      return qn_parse_no_memory(p);
    if (!qn_parse_fields(p, s, attr))
      return false;
  }
  qn_val v = qn_graph_add_typed(g, s->op, s->operands, s->operand_count, attr, s->regions, s->region_count,
                                s->result_type_count ? &s->result_types[0] : NULL, s->at);
  if (qn_graph_failed(g))
    return qn_parse_graph_failed(p, g);
  int count = qn_val_ok(v) ? qn_graph_def(g, v.id)->result_count : 0;
  qn_val *vals = QN_NEW(&p->arena, qn_val, count + 1);
  for (int i = 0; vals && i < count; i++)
    vals[i] = (qn_val){g, v.id + (uint32_t)i};
  *out = vals;
  *out_count = count;
  return vals ? check_types(p, s, s->result_types, s->result_type_count, vals, (size_t)count, "result")
              : qn_parse_no_memory(p);
}

/* chlo.broadcast_add and the like */
static bool sugar(qn_parser *p, qn_stmt *s, bool generic, const qn_val **out, int *out_count) {
  qn_val *v = QN_NEW(&p->arena, qn_val, 1);
  if (!v)
    return qn_parse_no_memory(p);
  if (!qn_parse_sugar(p, s, generic, v))
    return false;
  *out = v;
  *out_count = 1;
  return check_types(p, s, s->operand_types, s->operand_type_count, s->operands, s->operand_count, "operand") &&
         check_types(p, s, s->result_types, s->result_type_count, v, 1, "result");
}

/* @f(%a) : (T) -> U */
static bool call(qn_parser *p, qn_stmt *s, const qn_val **out, int *out_count) {
  const char *callee = NULL;
  if (p->tok.kind == QN_T_SYMBOL) {
    callee = qn_parse_token_text(p);
    qn_parse_next(p);
    if (!qn_parse_expect(p, "(", "'(' and the arguments") || !qn_parse_operands(p, s) ||
        !qn_parse_expect(p, ")", "')' behind the arguments"))
      return false;
    if (qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &s->attrs))
      return false;
    if (!qn_parse_types(p, s))
      return false;
  } else {
    if (!qn_parse_generic(p, s))
      return false;
    const qn_attr *a = qn_parse_attr_find(s->attrs, "callee");
    callee = a && a->kind == QN_A_SYMBOL ? a->text : NULL;
  }
  if (!callee)
    return qn_parse_fail_at(p, s->at, "call: the callee is missing");
  const qn_graph *f = qn_parse_function(p, callee);
  if (!f || !check_types(p, s, s->operand_types, s->operand_type_count, s->operands, s->operand_count, "operand"))
    return false;
  size_t count = qn_graph_result_count(f);
  qn_val *results = QN_NEW(&p->arena, qn_val, count + 1);
  if (!results)
    return qn_parse_no_memory(p);
  p->nodes += qn_graph_node_count(f);
  if (p->nodes > MOST_NODES)
    return qn_parse_fail_at(p, s->at, "the program expands to more than %d operations", (int)MOST_NODES);
  if (qn_graph_param_count(f) != s->operand_count)
    return qn_parse_fail_at(p, s->at, "call: @%s takes %zu arguments, got %zu", callee, qn_graph_param_count(f),
                            s->operand_count);
  for (size_t i = 0; i < s->operand_count; i++) {
    const qn_type *want = qn_graph_type(f, qn_graph_param_at(f, i));
    if (!qn_type_equal(want, qn_val_type(s->operands[i])))
      return qn_parse_fail_at(p, s->at, "call: argument %zu of @%s is %s, expected %s", i, callee,
                              qn_type_str(qn_val_type(s->operands[i])), qn_type_str(want));
  }
  if (!qn_graph_inline(p->scope->graph, f, s->operands, s->operand_count, results))
    return qn_parse_graph_failed(p, p->scope->graph);
  *out = results;
  *out_count = (int)count;
  return check_types(p, s, s->result_types, s->result_type_count, results, count, "result");
}

static bool foreign(qn_parser *p, qn_stmt *s, const qn_val **out, int *out_count) {
  qn_val *results;
  if (!check_types(p, s, s->operand_types, s->operand_type_count, s->operands, s->operand_count, "operand") ||
      !qn_parse_foreign_call(p, s, &results, out_count))
    return false;
  *out = results;
  return check_types(p, s, s->result_types, s->result_type_count, results, (size_t)*out_count, "result");
}

enum { MOST_NAMES = 64 };
typedef struct results_head { /* %0:2 =, %a, %b = */
  qn_token names[MOST_NAMES];
  int counts[MOST_NAMES], name_count, count;
} results_head;

static bool read_head(qn_parser *p, results_head *h) {
  h->count = h->name_count = 0;
  if (p->tok.kind != QN_T_VALUE)
    return true;
  do {
    int64_t n = 1;
    if (h->name_count == MOST_NAMES)
      return qn_parse_fail(p, "more than %d names for results", (int)MOST_NAMES);
    if (p->tok.kind != QN_T_VALUE)
      return qn_parse_expect(p, "%", "a result's name");
    h->names[h->name_count] = p->tok;
    qn_parse_next(p);
    if (qn_parse_take(p, ":") && !qn_parse_int(p, &n))
      return false;
    if (n < 1 || n > QN_MAX_OPERANDS)
      return qn_parse_fail(p, "%" PRId64 " results, expected 1 to %d", n, (int)QN_MAX_OPERANDS);
    h->counts[h->name_count++] = (int)n;
    h->count += (int)n;
  } while (qn_parse_take(p, ","));
  return qn_parse_expect(p, "=", "'=' behind the result's name");
}

/* Names results. Callees give theirs from anywhere in the graph, so those of several are bound one by one. */
static bool bind_results(qn_parser *p, const results_head *h, const qn_val *results, bool side_by_side) {
  for (int k = 0; k < h->name_count; k++) {
    const qn_token *name = &h->names[k];
    int count = h->counts[k];
    bool one = count == 1 || side_by_side;
    for (int i = 0; !one && i < count; i++) {
      char *full = qn_arena_printf(&p->arena, "%.*s#%d", (int)name->size, name->text, i);
      if (!full)
        return qn_parse_no_memory(p);
      qn_token token = {.text = full, .size = strlen(full), .line = name->line, .column = name->column};
      if (!qn_parse_bind(p, p->scope, &token, results[i], 1))
        return false;
    }
    if (!qn_parse_bind(p, p->scope, name, one ? results[0] : QN_NULL_VAL, count))
      return false;
    results += count;
  }
  return true;
}

static bool read_operation(qn_parser *p, qn_stmt *s, const results_head *h) {
  bool generic = p->tok.kind == QN_T_STRING;
  if (!generic && p->tok.kind != QN_T_WORD)
    return qn_parse_expect(p, "%", "an operation");
  s->at = qn_parse_place(p);
  s->name = qn_parse_token_text(p);
  qn_parse_next(p);
  if (!s->name)
    return false;
  const qn_val *results = NULL;
  int count = 0;
  bool is_call = strcmp(s->name, "call") == 0 || strcmp(s->name, "func.call") == 0, rewritten = false;
  qn_val mapped;
  if (is_call) {
    if (!call(p, s, &results, &count))
      return false;
  } else if (strcmp(s->name, "stablehlo.map") == 0) {
    if (!qn_parse_map(p, s, generic, &mapped))
      return false;
    results = &mapped;
    count = 1;
  } else if (qn_parse_is_sugar(s->name)) {
    if (!sugar(p, s, generic, &results, &count))
      return false;
  } else {
    if (!qn_parse_rewritten(p, s, generic, &rewritten) && rewritten)
      return false;
    if (rewritten) {
      /* read as another operation */
    } else if (strcmp(s->name, "stablehlo.custom_call") == 0) {
      if (!qn_parse_custom_call(p, s, generic))
        return false;
    } else {
      s->op = qn_op_find(s->name);
      if (s->op == QN_OP_NONE && strncmp(s->name, "chlo.", 5) == 0)
        s->op = qn_op_find(s->name + 5);
      if (strcmp(s->name, "stablehlo.rng") == 0)
        return qn_parse_fail_at(p, s->at,
                                "%s: its numbers depend on no state, so no two devices would agree; use "
                                "stablehlo.rng_bit_generator",
                                s->name);
      if (s->op <= QN_OP_PARAMETER || !strchr(s->name, '.'))
        return qn_parse_fail_at(p, s->at, "unknown operation '%.80s'", s->name);
      s->form = qn_form_get(s->op);
      if (!(generic ? qn_parse_generic(p, s) : s->form->parse ? s->form->parse(p, s) : qn_parse_pretty(p, s)))
        return false;
      if (s->form->finish && !s->form->finish(p, s))
        return false;
    }
    if (s->target ? !foreign(p, s, &results, &count) : !add_operation(p, s, &results, &count))
      return false;
  }
  if (h->count != count)
    return qn_parse_fail_at(p, s->at, "%s: %d results, the text names %d", s->name, count, h->count);
  return bind_results(p, h, results, !is_call && !s->target);
}

static bool operation(qn_parser *p) {
  results_head h;
  if (!read_head(p, &h))
    return false;
  qn_stmt s = {0};
  bool ok = read_operation(p, &s, &h);
  release_regions(&s);
  return ok && qn_parse_skip_location(p);
}
