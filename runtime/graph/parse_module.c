/* Modules and functions. Functions are found first, wherever they stand, and read when they are called or named. */
#include "text_impl.h"

#include <inttypes.h>
#include <string.h>

static bool function_results(qn_parser *p, qn_graph *g, qn_stmt *s) {
  if (!qn_parse_take(p, "->"))
    return true;
  bool parens = qn_parse_take(p, "(");
  if (parens && qn_parse_take(p, ")"))
    return true;
  do {
    if (!qn_parse_add_type(p, &s->result_types, &s->result_type_count, &s->result_type_capacity))
      return false;
    qn_attr *list = NULL;
    if (parens && qn_parse_take(p, "{") && !qn_parse_attr_dict(p, &list))
      return false;
    const qn_attr *path = qn_parse_attr_find(list, "jax.result_info");
    if (path && path->kind == QN_A_STRING)
      qn_graph_set_result_path(g, s->result_type_count - 1, path->text);
  } while (parens && qn_parse_take(p, ","));
  return !parens || qn_parse_expect(p, ")", "')' behind the results");
}

static bool function_body(qn_parser *p, qn_function *f, qn_bindings *scope) {
  qn_stmt s = {.name = f->name, .at = qn_parse_place(p)};
  if (!qn_parse_expect(p, "(", "'(' and the parameters") || !qn_parse_params(p, scope, true) ||
      !function_results(p, scope->graph, &s))
    return false;
  qn_attr *list = NULL;
  if (qn_parse_take(p, "attributes") && (!qn_parse_expect(p, "{", "'{'") || !qn_parse_attr_dict(p, &list)))
    return false;
  if (!qn_parse_expect(p, "{", "'{' and the function's body") || !qn_parse_block(p, scope, &f->graph))
    return false;
  size_t count = qn_graph_result_count(f->graph);
  if (count != s.result_type_count)
    return qn_parse_fail_at(p, s.at, "@%s returns %zu values, expected %zu", f->name, count, s.result_type_count);
  for (size_t i = 0; i < count; i++) {
    const qn_type *got = qn_graph_type(f->graph, qn_graph_result(f->graph, i));
    if (!qn_type_equal(got, &s.result_types[i]))
      return qn_parse_fail_at(p, s.at, "@%s: result %zu is %s, expected %s", f->name, i, qn_type_str(got),
                              qn_type_str(&s.result_types[i]));
  }
  return true;
}

static qn_function **list_of(qn_parser *p, const char *name) {
  return &p->lists[qn_hash_bytes(QN_HASH_INIT, name, strlen(name)) % QN_FUNCTION_LISTS];
}

static qn_function *find(qn_parser *p, const char *name) {
  qn_function *f = *list_of(p, name);
  while (f && strcmp(f->name, name) != 0)
    f = f->same;
  return f;
}

qn_graph *qn_parse_function(qn_parser *p, const char *name) {
  qn_function *f = find(p, name);
  if (!f || f->busy) {
    (void)qn_parse_fail(p, f ? "@%.80s calls itself, which is not possible here" : "there is no function @%.80s", name);
    return NULL;
  }
  if (f->graph)
    return f->graph;
  qn_lexer lexer = p->lexer;
  qn_token tok = p->tok;
  f->busy = true;
  p->lexer = f->start;
  qn_parse_next(p);
  qn_bindings scope;
  bool main = strcmp(name, "main") == 0;
  bool ok = qn_parse_scope_open(p, &scope, NULL, main && p->module ? p->module : name) && function_body(p, f, &scope);
  qn_parse_scope_close(p, &scope);
  p->lexer = lexer;
  p->tok = tok;
  f->busy = false;
  return ok ? f->graph : NULL;
}

/* Skips to behind the bracket that closes the one at hand. */
static bool skip_balanced(qn_parser *p) {
  qn_place open = qn_parse_place(p);
  int64_t depth = 0;
  do {
    if (p->tok.kind == QN_T_END)
      return qn_parse_fail_at(p, open, "this bracket is never closed");
    if (p->tok.kind == QN_T_PUNCT)
      depth += strchr("({[", p->tok.text[0]) ? 1 : strchr(")}]", p->tok.text[0]) ? -1 : 0;
    qn_parse_next(p);
  } while (depth > 0);
  return true;
}

/* func.func public @name(..) -> .. { .. }: remembers where it starts. */
static bool index_function(qn_parser *p) {
  while (qn_parse_take(p, "public") || qn_parse_take(p, "private") || qn_parse_take(p, "nested"))
    ;
  if (p->tok.kind != QN_T_SYMBOL)
    return qn_parse_expect(p, "@", "the function's name");
  qn_function *f = QN_NEW(&p->arena, qn_function, 1);
  if (!f || !(f->name = qn_parse_token_text(p)))
    return qn_parse_no_memory(p);
  if (find(p, f->name))
    return qn_parse_fail(p, "@%.80s is defined twice", f->name);
  qn_function **list = list_of(p, f->name);
  f->same = *list;
  *list = f;
  f->start = p->lexer;
  f->next = p->functions;
  p->functions = f;
  qn_parse_next(p);
  if (!qn_parse_is(p, "("))
    return qn_parse_expect(p, "(", "'(' and the parameters");
  if (!skip_balanced(p))
    return false;
  while (p->tok.kind != QN_T_END && !qn_parse_is(p, "{")) {
    bool attributes = qn_parse_take(p, "attributes");
    if (attributes || qn_parse_is(p, "(")) {
      if (!skip_balanced(p))
        return false;
    } else {
      qn_parse_next(p);
    }
  }
  if (!qn_parse_is(p, "{"))
    return qn_parse_expect(p, "{", "'{' and the function's body");
  return skip_balanced(p) && qn_parse_skip_location(p);
}

/* Functions, in a module or bare; aliases (#loc = ..) between them are skipped. */
static bool index_module(qn_parser *p) {
  bool inside = false, done = false;
  while (p->tok.kind != QN_T_END && p->code == QN_OK) {
    if (p->tok.kind == QN_T_ALIAS) {
      int line = p->tok.line;
      while (p->tok.kind != QN_T_END && p->tok.line == line)
        qn_parse_next(p);
    } else if (!inside && !done && qn_parse_take(p, "module")) {
      if (p->tok.kind == QN_T_SYMBOL) {
        p->module = qn_parse_token_text(p);
        qn_parse_next(p);
      }
      if (qn_parse_take(p, "attributes") && qn_parse_is(p, "{") && !skip_balanced(p))
        return false;
      if (!qn_parse_expect(p, "{", "'{' and the module's functions"))
        return false;
      inside = true;
    } else if (inside && qn_parse_take(p, "}")) {
      inside = false;
      done = true;
      if (!qn_parse_skip_location(p))
        return false;
    } else if (qn_parse_take(p, "func.func")) {
      if (!index_function(p))
        return false;
    } else {
      return qn_parse_expect(p, "func.func", inside ? "'func.func' or '}'" : "'module' or 'func.func'");
    }
  }
  if (inside)
    return qn_parse_fail(p, "expected '}' to end the module, got the end of the text");
  return p->code == QN_OK;
}

qn_status qn_graph_parse(const char *text, size_t size, const char *name, qn_graph **out_graph) {
  *out_graph = NULL;
  qn_parser p = {.lexer = {text, text + size, text, 1}, .file = name ? name : "text"};
  p.lists = QN_NEW(&p.arena, qn_function *, QN_FUNCTION_LISTS);
  if (!p.lists)
    return QN_ERR(QN_OUT_OF_MEMORY, "%s: no memory to read it", p.file);
  qn_parse_next(&p);
  qn_graph *g = index_module(&p) ? qn_parse_function(&p, "main") : NULL;
  if (g)
    *out_graph = qn_graph_retain(g);
  for (qn_function *f = p.functions; f; f = f->next)
    qn_graph_release(f->graph);
  qn_arena_free(&p.arena);
  if (!g)
    return QN_ERR(p.code == QN_OK ? QN_INTERNAL : p.code, "%s", p.error);
  return QN_OK;
}
