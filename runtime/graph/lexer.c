/* Tokens of MLIR text. Comments are skipped; every token knows its line and column, both from 1. */
#include "text_impl.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(char c) { return is_alpha(c) || is_digit(c) || c == '$' || c == '.'; }
static bool is_value(char c) { return is_name(c) || c == '-' || c == '#'; }

static void skip_space(qn_lexer *l) {
  while (l->at < l->end) {
    char c = *l->at;
    if (c == '\n') {
      l->line++;
      l->line_start = l->at + 1;
    } else if (c == '/' && l->end - l->at > 1 && l->at[1] == '/') {
      while (l->at < l->end && *l->at != '\n')
        l->at++;
      continue;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
    l->at++;
  }
}

static const char *run(const char *at, const char *end, bool (*in)(char)) {
  while (at < end && in(*at))
    at++;
  return at;
}

static void number(qn_lexer *l, qn_token *t) {
  const char *at = l->at + (*l->at == '-');
  t->kind = QN_T_INT;
  if (l->end - at > 2 && at[0] == '0' && at[1] == 'x' && is_hex(at[2])) {
    l->at = run(at + 2, l->end, is_hex);
    return;
  }
  at = run(at, l->end, is_digit);
  if (at < l->end && *at == '.') {
    t->kind = QN_T_FLOAT;
    at = run(at + 1, l->end, is_digit);
  }
  if (at < l->end && (*at == 'e' || *at == 'E')) {
    const char *exponent = at + 1;
    if (exponent < l->end && (*exponent == '-' || *exponent == '+'))
      exponent++;
    if (exponent < l->end && is_digit(*exponent)) {
      t->kind = QN_T_FLOAT;
      at = run(exponent, l->end, is_digit);
    }
  }
  l->at = at;
}

/* From the opening quote. A string ends on its own line. */
static bool string(qn_lexer *l, qn_token *t) {
  const char *at = l->at + 1;
  while (at < l->end && *at != '"' && *at != '\n')
    at += *at == '\\' && l->end - at > 1 ? 2 : 1;
  bool closed = at < l->end && *at == '"';
  t->text = l->at + 1;
  t->size = (size_t)(at - t->text);
  l->at = closed ? at + 1 : at;
  return closed;
}

static void sigil(qn_lexer *l, qn_token *t, qn_token_kind kind, bool (*in)(char)) {
  t->text = l->at + 1;
  l->at = run(l->at + 1, l->end, in);
  t->size = (size_t)(l->at - t->text);
  t->kind = t->size ? kind : QN_T_BAD;
}

qn_token qn_lex(qn_lexer *l) {
  skip_space(l);
  qn_token t = {.kind = QN_T_END, .text = l->at, .line = l->line, .column = (int)(l->at - l->line_start) + 1};
  if (l->at >= l->end)
    return t;
  char c = *l->at, next = l->end - l->at > 1 ? l->at[1] : '\0';
  if (is_alpha(c)) {
    t.kind = QN_T_WORD;
    l->at = run(l->at, l->end, is_name);
    t.size = (size_t)(l->at - t.text);
  } else if (is_digit(c) || (c == '-' && is_digit(next))) {
    number(l, &t);
    t.size = (size_t)(l->at - t.text);
  } else if (c == '%') {
    sigil(l, &t, QN_T_VALUE, is_value);
  } else if (c == '@' && next == '"') {
    l->at++;
    t.kind = string(l, &t) ? QN_T_SYMBOL : QN_T_BAD;
  } else if (c == '@') {
    sigil(l, &t, QN_T_SYMBOL, is_name);
  } else if (c == '^') {
    sigil(l, &t, QN_T_BLOCK, is_name);
  } else if (c == '#') {
    sigil(l, &t, QN_T_ALIAS, is_name);
  } else if (c == '!') {
    sigil(l, &t, QN_T_BANG, is_name);
  } else if (c == '"') {
    t.kind = string(l, &t) ? QN_T_STRING : QN_T_BAD;
  } else if (c == '-' && next == '>') {
    t.kind = QN_T_ARROW;
    t.size = 2;
    l->at += 2;
  } else {
    t.kind = c != '\0' && strchr("(){}[]<>:,=*+-?|/", c) ? QN_T_PUNCT : QN_T_BAD;
    t.size = 1;
    l->at++;
  }
  return t;
}
