/* Types, attributes and dense constants in text. Attribute values are read into neutral records first; the table of forms
 * says which field of the operation's record each belongs to. */
#include "text_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 64 };

/* ---- types ---- */
/* Dimensions and dtype run together ("4x5xf32"), so they are read from the characters. */
bool qn_parse_type(qn_parser *p, qn_type *out) {
  *out = (qn_type){0};
  if (!qn_parse_is(p, "tensor") || p->lexer.at >= p->lexer.end || *p->lexer.at != '<')
    return qn_parse_expect(p, "tensor<", "a tensor type") && false;
  const char *at = p->lexer.at + 1, *end = p->lexer.end;
  while (at < end && ((*at >= '0' && *at <= '9') || *at == '?')) {
    if (*at == '?')
      return qn_parse_fail(p, "dynamic dimensions are not supported");
    if (out->rank == QN_MAX_RANK)
      return qn_parse_fail(p, "the tensor type has more than %d dimensions, which is the most there may be",
                           (int)QN_MAX_RANK);
    int64_t d = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
      if (d > INT64_MAX / 20)
        return qn_parse_fail(p, "the dimension is too large");
      d = d * 10 + (*at - '0');
    }
    if (at >= end || *at != 'x')
      return qn_parse_fail(p, "expected 'x' behind dimension %d of the tensor type", (int)out->rank);
    at++;
    out->dims[out->rank++] = d;
  }
  if (at < end && *at == '-')
    return qn_parse_fail(p, "dimension %d of the tensor type is negative", (int)out->rank);
  char name[24];
  size_t n = 0;
  int open = 0;
  for (; at < end && n < sizeof name - 1 && (*at != '>' || open) && *at != '\n'; at++) {
    open += *at == '<' ? 1 : *at == '>' ? -1 : 0;
    name[n++] = *at;
  }
  name[n] = '\0';
  out->dtype = qn_dtype_parse(name);
  if (out->dtype == QN_DTYPE_NONE || strcmp(qn_dtype_mlir_name(out->dtype), name) != 0)
    return qn_parse_fail(p, "'%s' is not an element type", name);
  if (at >= end || *at != '>')
    return qn_parse_fail(p, "expected '>' at the end of the tensor type");
  if (qn_type_check(out, "type") != QN_OK)
    return qn_parse_fail(p, "%s", qn_error_message());
  p->lexer.at = at + 1;
  qn_parse_next(p);
  return true;
}

/* ---- numbers ---- */
bool qn_parse_int(qn_parser *p, int64_t *out) {
  char text[32];
  *out = 0;
  if (p->tok.kind != QN_T_INT || p->tok.size >= sizeof text)
    return qn_parse_expect(p, "0", "an integer") && false;
  memcpy(text, p->tok.text, p->tok.size);
  text[p->tok.size] = '\0';
  errno = 0;
  *out = strtoll(text, NULL, 0);
  if (errno)
    return qn_parse_fail(p, "%s does not fit in 64 bits", text);
  qn_parse_next(p);
  return true;
}

bool qn_parse_ints(qn_parser *p, int64_t **out, size_t *out_count) {
  size_t capacity = 0;
  *out = NULL;
  *out_count = 0;
  if (!qn_parse_expect(p, "[", "'[' and a list of integers"))
    return false;
  while (!qn_parse_take(p, "]")) {
    if (!qn_parse_grow(p, (void **)out, &capacity, *out_count, sizeof **out) ||
        !qn_parse_int(p, &(*out)[(*out_count)++]))
      return false;
    if (!qn_parse_is(p, "]") && !qn_parse_expect(p, ",", "',' or ']'"))
      return false;
  }
  return true;
}

/* ---- attribute values ---- */
qn_attr *qn_parse_attr_add(qn_parser *p, qn_attr **list, const char *name) {
  qn_attr *a = name ? QN_NEW(&p->arena, qn_attr, 1) : NULL;
  if (!a) {
    (void)qn_parse_no_memory(p);
    return NULL;
  }
  a->name = name;
  a->next = *list;
  *list = a;
  return a;
}

const qn_attr *qn_parse_attr_find(const qn_attr *list, const char *name) {
  while (list && strcmp(list->name, name) != 0)
    list = list->next;
  return list;
}

/* Skips what is in brackets, from the opening one on. */
static bool skip_brackets(qn_parser *p) {
  int64_t depth = 0;
  do {
    if (p->tok.kind == QN_T_END)
      return qn_parse_fail(p, "a bracket is never closed");
    if (p->tok.kind == QN_T_PUNCT)
      depth += strchr("({[<", p->tok.text[0]) ? 1 : strchr(")}]>", p->tok.text[0]) ? -1 : 0;
    qn_parse_next(p);
  } while (depth > 0);
  return true;
}

/* Text of a string without MLIR's escapes. */
static const char *unescape(qn_parser *p) {
  char *s = qn_parse_token_text(p), *to = s;
  for (const char *from = s; s && *from; from++) {
    if (*from != '\\' || !from[1]) {
      *to++ = *from;
      continue;
    }
    char hex[3] = {from[1], from[2], '\0'}, *stop;
    long code = strtol(hex, &stop, 16);
    bool is_hex = stop == hex + 2 && hex[0] != '-' && hex[0] != '+' && hex[0] != ' ';
    *to++ = is_hex ? (char)code : from[1] == 'n' ? '\n' : from[1] == 't' ? '\t' : from[1];
    from += is_hex ? 2 : 1;
  }
  if (s)
    *to = '\0';
  return s;
}

static bool list_value(qn_parser *p, qn_attr *out) {
  qn_lexer ahead = p->lexer;
  qn_token first = qn_lex(&ahead);
  if (first.kind == QN_T_INT || (first.kind == QN_T_PUNCT && *first.text == ']')) {
    out->kind = QN_A_INTS;
    return qn_parse_ints(p, &out->ints, &out->count);
  }
  if (first.kind != QN_T_SYMBOL)
    return skip_brackets(p);
  qn_parse_next(p);
  out->kind = QN_A_SYMBOLS;
  qn_attr **tail = &out->children;
  do {
    if (p->tok.kind != QN_T_SYMBOL)
      return qn_parse_expect(p, "@", "a symbol");
    qn_attr *a = qn_parse_attr_add(p, tail, "");
    if (!a || !(a->text = qn_parse_token_text(p)))
      return false;
    tail = &a->next;
    out->count++;
    qn_parse_next(p);
  } while (qn_parse_take(p, ","));
  return qn_parse_expect(p, "]", "']' behind the symbols");
}

/* array<i64: 1, 2>, behind the word. */
static bool array_value(qn_parser *p, qn_attr *out) {
  size_t capacity = 0;
  out->kind = QN_A_INTS;
  if (!qn_parse_expect(p, "<", "'<' behind array"))
    return false;
  qn_parse_next(p); /* the element type */
  if (qn_parse_take(p, ":")) {
    do {
      if (!qn_parse_grow(p, (void **)&out->ints, &capacity, out->count, sizeof *out->ints))
        return false;
      int64_t *slot = &out->ints[out->count++];
      if (qn_parse_take(p, "true"))
        *slot = 1;
      else if (qn_parse_take(p, "false"))
        *slot = 0;
      else if (!qn_parse_int(p, slot))
        return false;
    } while (qn_parse_take(p, ","));
  }
  return qn_parse_expect(p, ">", "'>' behind the array");
}

/* #stablehlo<comparison_direction LT>, #stablehlo.gather<offset_dims = [1], ..>, others. */
static bool alias_value(qn_parser *p, qn_attr *out) {
  static const char conv[] = "stablehlo.conv";
  bool numbers = p->tok.size == sizeof conv - 1 && memcmp(p->tok.text, conv, p->tok.size) == 0;
  qn_parse_next(p);
  if (!qn_parse_is(p, "<"))
    return true;
  qn_lexer ahead = p->lexer;
  qn_token first = qn_lex(&ahead);
  if (numbers && first.kind == QN_T_PUNCT && *first.text == '[') {
    out->kind = QN_A_DICT;
    qn_parse_next(p);
    return qn_parse_conv_numbers(p, &out->children) && qn_parse_expect(p, ">", "'>' behind the attribute");
  }
  if (numbers && first.size == 3 && memcmp(first.text, "raw", 3) == 0) {
    qn_parse_next(p);
    first = qn_lex(&ahead);
  }
  qn_token second = qn_lex(&ahead);
  if (first.kind == QN_T_WORD && second.kind == QN_T_WORD) {
    qn_parse_next(p);
    qn_parse_next(p);
    out->kind = QN_A_WORD;
    out->text = qn_parse_token_text(p);
    qn_parse_next(p);
    return out->text && qn_parse_expect(p, ">", "'>' behind the attribute");
  }
  bool empty = first.kind == QN_T_PUNCT && *first.text == '>';
  if (!empty && (first.kind != QN_T_WORD || second.kind != QN_T_PUNCT || *second.text != '='))
    return skip_brackets(p);
  qn_parse_next(p);
  out->kind = QN_A_DICT;
  while (!qn_parse_take(p, ">")) {
    char *name = p->tok.kind == QN_T_WORD ? qn_parse_token_text(p) : NULL;
    if (!name)
      return qn_parse_expect(p, "name", "an attribute's name");
    qn_parse_next(p);
    qn_attr *a = qn_parse_attr_add(p, &out->children, name);
    if (!a || !qn_parse_expect(p, "=", "'=' and the attribute's value") || !qn_parse_attr_value(p, a))
      return false;
    if (!qn_parse_is(p, ">") && !qn_parse_expect(p, ",", "',' or '>'"))
      return false;
  }
  return true;
}

static bool dense_value(qn_parser *p, qn_attr *out) {
  qn_type t;
  qn_attr_constant c;
  if (!qn_parse_dense(p, &t, &c))
    return false;
  out->kind = QN_A_OTHER;
  int64_t n = qn_type_elements(&t);
  if (t.dtype != QN_I64 || n > 4096)
    return true;
  out->kind = QN_A_INTS;
  out->count = (size_t)n;
  if (!(out->ints = QN_NEW(&p->arena, int64_t, n + 1)))
    return qn_parse_no_memory(p);
  for (int64_t i = 0; i < n; i++)
    memcpy(&out->ints[i], (const char *)c.data + (c.elements == 1 ? 0 : i) * 8, 8);
  return true;
}

static bool word_value(qn_parser *p, qn_attr *out) {
  if (qn_parse_is(p, "true") || qn_parse_is(p, "false")) {
    out->kind = QN_A_INT;
    out->number = qn_parse_is(p, "true");
    qn_parse_next(p);
    return true;
  }
  if (qn_parse_is(p, "dense"))
    return dense_value(p, out);
  if (qn_parse_take(p, "array"))
    return array_value(p, out);
  if (qn_parse_is(p, "tensor")) {
    qn_type t;
    return qn_parse_type(p, &t);
  }
  out->kind = QN_A_WORD;
  out->text = qn_parse_token_text(p);
  qn_parse_next(p);
  if (qn_parse_is(p, "<")) {
    out->kind = QN_A_OTHER;
    return skip_brackets(p);
  }
  return out->text != NULL;
}

bool qn_parse_attr_value(qn_parser *p, qn_attr *out) {
  out->kind = QN_A_OTHER;
  if (p->depth >= MOST_NESTED)
    return qn_parse_fail(p, "attributes are nested too deep");
  p->depth++;
  bool ok;
  if (p->tok.kind == QN_T_INT) {
    out->kind = QN_A_INT;
    ok = qn_parse_int(p, &out->number);
  } else if (p->tok.kind == QN_T_STRING || p->tok.kind == QN_T_SYMBOL) {
    out->kind = p->tok.kind == QN_T_STRING ? QN_A_STRING : QN_A_SYMBOL;
    out->text = p->tok.kind == QN_T_STRING ? unescape(p) : qn_parse_token_text(p);
    qn_parse_next(p);
    ok = out->text != NULL;
  } else if (p->tok.kind == QN_T_FLOAT || p->tok.kind == QN_T_BANG) {
    qn_parse_next(p);
    ok = true;
  } else if (p->tok.kind == QN_T_ALIAS) {
    ok = alias_value(p, out);
  } else if (p->tok.kind == QN_T_WORD) {
    ok = word_value(p, out);
  } else if (qn_parse_is(p, "[")) {
    ok = list_value(p, out);
  } else if (qn_parse_take(p, "{")) {
    out->kind = QN_A_DICT;
    ok = qn_parse_attr_dict(p, &out->children);
  } else if (qn_parse_is(p, "<")) {
    ok = skip_brackets(p);
  } else {
    ok = qn_parse_expect(p, "value", "an attribute's value");
  }
  p->depth--;
  return ok;
}

bool qn_parse_attr_dict(qn_parser *p, qn_attr **list) {
  while (!qn_parse_take(p, "}")) {
    const char *name = p->tok.kind == QN_T_WORD     ? qn_parse_token_text(p)
                       : p->tok.kind == QN_T_STRING ? unescape(p)
                                                    : NULL;
    if (!name)
      return qn_parse_expect(p, "name", "an attribute's name or '}'");
    qn_parse_next(p);
    qn_attr *a = qn_parse_attr_add(p, list, name);
    if (!a)
      return false;
    a->kind = QN_A_OTHER; /* a name alone is a flag */
    if (qn_parse_take(p, "=") && !qn_parse_attr_value(p, a))
      return false;
    if (qn_parse_take(p, ":")) { /* the number's type */
      qn_attr ignored = {0};
      if (!qn_parse_attr_value(p, &ignored))
        return false;
    }
    if (!qn_parse_is(p, "}") && !qn_parse_expect(p, ",", "',' or '}'"))
      return false;
  }
  return true;
}

/* ---- from attributes to the op's record ---- */
static int word_index(const qn_field *f, const char *word) {
  for (int i = 0; f->words[i]; i++)
    if (strcmp(f->words[i], word) == 0)
      return i;
  return -1;
}

static const qn_attr *find_field(const qn_form *form, const qn_field *f, const qn_attr *list) {
  const qn_attr *group = form->group ? qn_parse_attr_find(list, form->group) : NULL;
  const qn_attr *a = qn_parse_attr_find(group && f->optional ? group->children : list, f->name);
  if (!a && f->pretty && !f->second)
    a = qn_parse_attr_find(list, f->pretty);
  for (const qn_attr *w = list; !a && f->second && w; w = w->next)
    if (strncmp(w->name, f->pretty, strlen(f->pretty)) == 0 && strcmp(w->name + strlen(f->pretty), "#2") == 0)
      a = w;
  for (const qn_attr *w = list; !a && f->kind == QN_FIELD_ENUM && w; w = w->next)
    if (!*w->name && word_index(f, w->text) >= 0)
      a = w;
  return a;
}

static bool set_field(qn_parser *p, const qn_stmt *s, const qn_field *f, const qn_attr *a, void *record) {
  char *at = (char *)record + f->offset;
  if (f->kind == QN_FIELD_DIMS) {
    qn_dims d = {0};
    if (a->kind != QN_A_INTS || a->count > QN_MAX_RANK)
      return qn_parse_fail_at(p, s->at, "%s: %s is no list of at most %d integers", s->name, f->name, (int)QN_MAX_RANK);
    d.n = (int32_t)a->count;
    if (a->count)
      memcpy(d.d, a->ints, a->count * sizeof *a->ints);
    memcpy(at, &d, sizeof d);
  } else if (f->kind == QN_FIELD_TEXT) {
    if (a->kind != QN_A_STRING)
      return qn_parse_fail_at(p, s->at, "%s: %s is no string", s->name, f->name);
    memcpy(at, &a->text, sizeof a->text);
  } else if (f->kind == QN_FIELD_PAIRS) {
    qn_dims d[2] = {{0}, {0}};
    if (a->kind != QN_A_INTS || a->count > 2 * QN_MAX_RANK || a->count % 2)
      return qn_parse_fail_at(p, s->at, "%s: %s is no list of at most %d pairs of integers", s->name, f->name,
                              (int)QN_MAX_RANK);
    d[0].n = d[1].n = (int32_t)(a->count / 2);
    for (size_t i = 0; i < a->count; i++)
      d[i % 2].d[i / 2] = a->ints[i];
    memcpy(at, &d[0], sizeof d[0]);
    memcpy((char *)record + f->high, &d[1], sizeof d[1]);
  } else if (f->kind == QN_FIELD_ENUM) {
    int32_t x = a->kind == QN_A_WORD ? word_index(f, a->text) : -1;
    if (x < 0)
      return qn_parse_fail_at(p, s->at, "%s: '%.80s' is no %s", s->name, a->kind == QN_A_WORD ? a->text : "this",
                              f->name);
    memcpy(at, &x, sizeof x);
  } else {
    if (a->kind != QN_A_INT)
      return qn_parse_fail_at(p, s->at, "%s: %s is no %s", s->name, f->name,
                              f->kind == QN_FIELD_BOOL ? "bool" : "integer");
    int32_t narrow = (int32_t)a->number;
    if (f->kind == QN_FIELD_I64)
      memcpy(at, &a->number, sizeof a->number);
    else if (f->kind == QN_FIELD_BOOL)
      *(bool *)at = a->number != 0;
    else if (narrow == a->number)
      memcpy(at, &narrow, sizeof narrow);
    else
      return qn_parse_fail_at(p, s->at, "%s: %s is too large", s->name, f->name);
  }
  return true;
}

/* Attributes that change no result here, and discardable ones, whose names have a dot. */
static bool is_ignored(const char *name) {
  static const char *const names[] = {"precision",   "precision_config",    "algorithm",        "backend_config",
                                      "api_version", "called_computations", "call_target_name", "has_side_effect"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0)
      return true;
  return strchr(name, '.') != NULL;
}

static bool check_known(qn_parser *p, const qn_stmt *s, const qn_attr *list) {
  for (const qn_attr *a = list; a; a = a->next) {
    bool known = is_ignored(a->name) || (s->form->group && strcmp(a->name, s->form->group) == 0);
    for (int i = 0; !known && i < s->form->field_count; i++) {
      const qn_field *f = &s->form->fields[i];
      size_t n = f->pretty ? strlen(f->pretty) : 0;
      known = strcmp(a->name, f->name) == 0 ||
              (n && strncmp(a->name, f->pretty, n) == 0 && (!a->name[n] || strcmp(a->name + n, "#2") == 0)) ||
              (!*a->name && f->kind == QN_FIELD_ENUM && word_index(f, a->text) >= 0);
    }
    if (!known)
      return qn_parse_fail_at(p, s->at, "%s: unknown attribute '%.80s'", s->name, *a->name ? a->name : a->text);
  }
  return true;
}

/* What the text may leave out, for each axis of operand 0. */
static void fill_axes(const qn_stmt *s, const qn_field *f, void *record) {
  qn_dims d = {0};
  d.n = s->operand_count > 0 ? qn_val_type(s->operands[0])->rank : 0;
  for (int i = 0; i < d.n; i++)
    d.d[i] = f->absent;
  memcpy((char *)record + f->offset, &d, sizeof d);
  if (f->kind == QN_FIELD_PAIRS)
    memcpy((char *)record + f->high, &d, sizeof d);
}

bool qn_parse_fields(qn_parser *p, const qn_stmt *s, void *record) {
  const qn_form *form = s->form;
  const qn_attr *group = form->group ? qn_parse_attr_find(s->attrs, form->group) : NULL;
  if (!check_known(p, s, s->attrs) || (group && !check_known(p, s, group->children)))
    return false;
  for (int i = 0; i < form->field_count; i++) {
    const qn_attr *a = find_field(form, &form->fields[i], s->attrs);
    if (!a && form->fields[i].per_axis) {
      fill_axes(s, &form->fields[i], record);
      continue;
    }
    if (!a && form->fields[i].optional) {
      if (form->fields[i].absent)
        memcpy((char *)record + form->fields[i].offset, &form->fields[i].absent, sizeof(int64_t));
      continue;
    }
    if (!a)
      return qn_parse_fail_at(p, s->at, "%s: attribute %s is missing", s->name, form->fields[i].name);
    if (!set_field(p, s, &form->fields[i], a, record))
      return false;
  }
  return true;
}
