/* Control flow in text. There regions use the values around them; here each takes them as trailing parameters, and all regions of one
 * operation take the same. */
#include "text_impl.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- captures ---- */
static size_t unite(const qn_stmt *s, qn_val *all) {
  size_t count = 0;
  for (size_t r = 0; r < s->region_count; r++)
    for (size_t i = 0; i < s->region_captures[r].count; i++) {
      qn_val v = s->region_captures[r].values[i];
      size_t at = 0;
      while (at < count && !qn_val_same(all[at], v))
        at++;
      if (at == count)
        all[count++] = v;
    }
  return count;
}

bool qn_parse_unite_captures(qn_parser *p, qn_stmt *s) {
  size_t most = 0;
  for (size_t r = 0; r < s->region_count; r++)
    most += s->region_captures[r].count;
  if (most == 0)
    return true;
  qn_val *all = QN_NEW(&p->arena, qn_val, most);
  if (!all)
    return qn_parse_no_memory(p);
  size_t count = unite(s, all);
  for (size_t r = 0; r < s->region_count; r++) {
    qn_graph *united = NULL;
    if (qn_region_capture(s->regions[r], s->region_captures[r].values, s->region_captures[r].count, all, count,
                          &united) != QN_OK)
      return qn_parse_fail_at(p, s->at, "%s", qn_error_message());
    qn_graph_release(s->regions[r]);
    s->regions[r] = united;
  }
  s->captures = all;
  s->capture_count = count;
  return true;
}

/* ---- while(%a = %0, %b = %1) : types cond {..} do {..} ---- */
typedef struct carry_names {
  qn_token *names;
  size_t count, capacity;
} carry_names;

static bool while_operands(qn_parser *p, qn_stmt *s, carry_names *c) {
  if (!qn_parse_expect(p, "(", "'(' and the carries"))
    return false;
  while (!qn_parse_take(p, ")")) {
    if (!qn_parse_grow(p, (void **)&c->names, &c->capacity, c->count, sizeof *c->names))
      return false;
    if (p->tok.kind != QN_T_VALUE)
      return qn_parse_expect(p, "%", "a carry's name or ')'");
    c->names[c->count++] = p->tok;
    qn_parse_next(p);
    if (!qn_parse_expect(p, "=", "'=' and the carry's first value") || !qn_parse_operand(p, s))
      return false;
    if (!qn_parse_is(p, ")") && !qn_parse_expect(p, ",", "',' or ')'"))
      return false;
  }
  return true;
}

static bool while_types(qn_parser *p, qn_stmt *s, size_t count) {
  s->types_read = true;
  if (count == 0)
    return true;
  if (!qn_parse_expect(p, ":", "':' and the carries' types"))
    return false;
  do {
    if (!qn_parse_add_type(p, &s->operand_types, &s->operand_type_count, &s->operand_type_capacity))
      return false;
  } while (qn_parse_take(p, ","));
  if (s->operand_type_count != count)
    return qn_parse_fail_at(p, s->at, "%s: %zu types, expected %zu", s->name, s->operand_type_count, count);
  s->result_types = s->operand_types;
  s->result_type_count = count;
  return true;
}

static bool while_region(qn_parser *p, qn_stmt *s, const carry_names *c) {
  qn_bindings scope;
  qn_graph *region = NULL;
  bool ok = qn_parse_scope_open(p, &scope, p->scope, "region");
  for (size_t i = 0; ok && i < c->count; i++) {
    qn_val v = qn_graph_param(scope.graph, s->operand_types[i], NULL);
    ok = qn_val_ok(v) ? qn_parse_bind(p, &scope, &c->names[i], v, 1) : qn_parse_graph_failed(p, scope.graph);
  }
  ok = ok && qn_parse_expect(p, "{", "'{' and a region") && qn_parse_block(p, &scope, &region) &&
       qn_parse_region_add(p, s, &scope, region);
  qn_parse_scope_close(p, &scope);
  return ok;
}

bool qn_parse_while_form(qn_parser *p, qn_stmt *s) {
  carry_names carries = {0};
  if (!while_operands(p, s, &carries) || !while_types(p, s, carries.count))
    return false;
  if (qn_parse_take(p, "attributes") &&
      (!qn_parse_expect(p, "{", "'{' and the attributes") || !qn_parse_attr_dict(p, &s->attrs)))
    return false;
  return qn_parse_expect(p, "cond", "cond and its region") && while_region(p, s, &carries) &&
         qn_parse_expect(p, "do", "do and its region") && while_region(p, s, &carries);
}

void qn_print_while_form(qn_printer *p, const qn_graph *g, const qn_node *n) {
  static const char *const words[] = {"cond {", "} do {"};
  qn_text_puts(p->out, "stablehlo.while(");
  for (int r = 0; r < 2; r++) {
    const qn_scope *outer = p->scope;
    qn_scope scope;
    if (!qn_print_region_open(p, &scope, n->regions[r], n))
      return;
    for (int i = 0; r == 0 && i < n->result_count; i++) {
      qn_text_puts(p->out, i ? ", " : "");
      qn_text_operand(p, qn_graph_param_at(n->regions[r], (size_t)i));
      qn_text_puts(p->out, " = ");
      p->scope = outer;
      qn_text_operand(p, n->operands[i]);
      p->scope = &scope;
    }
    if (r == 0) {
      qn_text_puts(p->out, n->result_count ? ") : " : ")");
      for (int i = 0; i < n->result_count; i++) {
        qn_text_puts(p->out, i ? ", " : "");
        qn_type_print(qn_graph_type(g, n->operands[i]), p->out);
      }
    }
    if (r == 0)
      qn_print_newline(p, -2);
    qn_text_puts(p->out, words[r]);
    qn_print_region_body(p, n->regions[r], "stablehlo.return");
    qn_print_newline(p, -2);
    qn_print_region_close(p);
  }
  qn_text_puts(p->out, "}");
}
