/* Values by name. A region sees what is around it; a value of the block outside that it uses becomes a capture: a trailing
 * operand of the region's operation and a trailing parameter of the region. Constants are copied into the region instead. */
#include "text_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64 };

bool qn_parse_scope_open(qn_parser *p, qn_bindings *scope, qn_bindings *parent, const char *name) {
  *scope = (qn_bindings){.parent = parent};
  if (++p->depth > MOST_DEPTH)
    return qn_parse_fail(p, "regions and calls are nested more than %d deep", (int)MOST_DEPTH);
  if (qn_graph_create(name, &scope->graph) != QN_OK)
    return qn_parse_no_memory(p);
  return true;
}

void qn_parse_scope_close(qn_parser *p, qn_bindings *scope) {
  p->depth--;
  free(scope->slots);
  free(scope->captured);
  qn_graph_release(scope->graph);
  *scope = (qn_bindings){0};
}

static qn_binding *slot_of(const qn_bindings *scope, const char *name, size_t size) {
  size_t at = (size_t)qn_hash_bytes(QN_HASH_INIT, name, size) & (scope->capacity - 1);
  while (scope->slots[at].name && (scope->slots[at].size != size || memcmp(scope->slots[at].name, name, size) != 0))
    at = (at + 1) & (scope->capacity - 1);
  return &scope->slots[at];
}

static bool bind(qn_parser *p, qn_bindings *scope, const char *name, size_t size, qn_val first, int count) {
  if (2 * (scope->count + 1) > scope->capacity) {
    qn_bindings grown = {.capacity = scope->capacity ? scope->capacity * 2 : 16};
    if (!(grown.slots = calloc(grown.capacity, sizeof *grown.slots)))
      return qn_parse_no_memory(p);
    for (size_t i = 0; i < scope->capacity; i++)
      if (scope->slots[i].name)
        *slot_of(&grown, scope->slots[i].name, scope->slots[i].size) = scope->slots[i];
    free(scope->slots);
    scope->slots = grown.slots;
    scope->capacity = grown.capacity;
  }
  *slot_of(scope, name, size) = (qn_binding){name, size, first, count};
  scope->count++;
  return true;
}

static const qn_binding *find(const qn_bindings *scope, const char *name, size_t size) {
  if (!scope->capacity)
    return NULL;
  const qn_binding *b = slot_of(scope, name, size);
  return b->name ? b : NULL;
}

bool qn_parse_bind(qn_parser *p, qn_bindings *scope, const qn_token *name, qn_val first, int count) {
  for (const qn_bindings *s = scope; s; s = s->parent)
    if (find(s, name->text, name->size)) {
      qn_place at = {p->file, name->line, name->column};
      return qn_parse_fail_at(p, at, "%%%.*s is defined twice", (int)name->size, name->text);
    }
  return bind(p, scope, name->text, name->size, first, count);
}

/* The value inside `scope` that stands for `outer` of the block around it. */
static qn_val capture(qn_parser *p, qn_bindings *scope, qn_val outer) {
  const qn_node *def = qn_graph_def(outer.graph, outer.id);
  if (def->op == QN_OP_CONSTANT)
    return qn_graph_copy_node(scope->graph, outer.graph, def, NULL);
  for (size_t i = 0; i < scope->captured_count; i++)
    if (qn_val_same(scope->captured[i], outer)) {
      size_t first = qn_graph_param_count(scope->graph) - scope->captured_count;
      return (qn_val){scope->graph, qn_graph_param_at(scope->graph, first + i)};
    }
  if (!QN_RESERVE(scope->captured, scope->captured_capacity, scope->captured_count + 1)) {
    (void)qn_parse_no_memory(p);
    return QN_NULL_VAL;
  }
  scope->captured[scope->captured_count++] = outer;
  return qn_graph_param(scope->graph, *qn_val_type(outer), NULL);
}

/* A name as it's written: %x, or %x#1 of which `size` characters are before the #. Results of calls and captures are bound
 * under the full name. */
static qn_val resolve(qn_parser *p, qn_bindings *scope, const qn_token *full, size_t size, int index) {
  const qn_binding *b = find(scope, full->text, full->size);
  if (b && size < full->size)
    index = 0;
  if (!b)
    b = find(scope, full->text, size);
  if (b && qn_val_ok(b->first) && index < b->count)
    return (qn_val){b->first.graph, b->first.id + (uint32_t)index};
  if (b) {
    (void)qn_parse_fail(p, "%%%.*s is one of %d results of %%%.*s", (int)full->size, full->text, b->count, (int)size,
                        full->text);
    return QN_NULL_VAL;
  }
  if (!scope->parent) {
    (void)qn_parse_fail(p, "%%%.*s is not defined", (int)size, full->text);
    return QN_NULL_VAL;
  }
  qn_val outer = resolve(p, scope->parent, full, size, index);
  qn_val inner = qn_val_ok(outer) ? capture(p, scope, outer) : QN_NULL_VAL;
  return qn_val_ok(inner) && bind(p, scope, full->text, full->size, inner, 1) ? inner : QN_NULL_VAL;
}

bool qn_parse_operand(qn_parser *p, qn_stmt *s) {
  if (p->tok.kind != QN_T_VALUE)
    return qn_parse_expect(p, "%", "a value");
  const char *hash = memchr(p->tok.text, '#', p->tok.size);
  size_t size = hash ? (size_t)(hash - p->tok.text) : p->tok.size;
  int index = 0;
  for (const char *c = hash ? hash + 1 : NULL; c && c < p->tok.text + p->tok.size; c++) {
    if (*c < '0' || *c > '9' || index > 100000)
      return qn_parse_fail(p, "bad result number in '%%%.*s'", (int)p->tok.size, p->tok.text);
    index = index * 10 + (*c - '0');
  }
  qn_val v = resolve(p, p->scope, &p->tok, size, index);
  if (!qn_val_ok(v))
    return p->code == QN_OK ? qn_parse_graph_failed(p, p->scope->graph) : false;
  if (!qn_parse_grow(p, (void **)&s->operands, &s->operand_capacity, s->operand_count, sizeof *s->operands))
    return false;
  s->operands[s->operand_count++] = v;
  qn_parse_next(p);
  return true;
}

bool qn_parse_operands(qn_parser *p, qn_stmt *s) {
  if (p->tok.kind != QN_T_VALUE)
    return true;
  while (p->tok.kind == QN_T_VALUE) {
    if (!qn_parse_operand(p, s))
      return false;
    qn_lexer before = p->lexer;
    qn_token comma = p->tok;
    if (!qn_parse_take(p, ","))
      return true;
    if (p->tok.kind != QN_T_VALUE) { /* the comma belongs to what follows */
      p->lexer = before;
      p->tok = comma;
      return true;
    }
  }
  return true;
}
