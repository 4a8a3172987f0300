/* Graphs as StableHLO text, in the spelling and with the value names of JAX's printer. Regions of Quern's own operations
 * print as private functions of the module. */
#include "text_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void qn_print_newline(qn_printer *p, int deeper) { qn_text_add(p->out, "\n%*s", p->scope->indent + deeper, ""); }

static void print_name(qn_printer *p, qn_name name, bool whole) {
  static const char *const prefixes[] = {[QN_NAME_NUMBER] = "",
                                         [QN_NAME_ARG] = "arg",
                                         [QN_NAME_INT] = "c",
                                         [QN_NAME_FLOAT] = "cst",
                                         [QN_NAME_VALUES] = "values",
                                         [QN_NAME_INDICES] = "indices",
                                         [QN_NAME_STATE] = "output_state",
                                         [QN_NAME_OUTPUT] = "output",
                                         [QN_NAME_ITER] = "iterArg"};
  qn_text_add(p->out, "%%%s", prefixes[name.kind]);
  if (name.number >= 0)
    qn_text_add(p->out, "%s%d", name.kind >= QN_NAME_INT ? "_" : "", name.number);
  if (name.result >= 0 && !whole)
    qn_text_add(p->out, "#%d", name.result);
}

void qn_text_operand(qn_printer *p, uint32_t id) { print_name(p, p->scope->names[id], false); }

void qn_print_operands(qn_printer *p, const qn_node *n, int first, int count) {
  for (int i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", " : "");
    qn_text_operand(p, n->operands[first + i]);
  }
}

void qn_print_dims(qn_text *out, const qn_dims *d) {
  qn_text_puts(out, "[");
  for (int i = 0; i < d->n; i++)
    qn_text_add(out, "%s%" PRId64, i ? ", " : "", d->d[i]);
  qn_text_puts(out, "]");
}

/* Quoted, with MLIR's escapes. */
static void print_string(qn_text *out, const char *s, size_t n) {
  qn_text_puts(out, "\"");
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\')
      qn_text_add(out, "\\%c", c);
    else if (c < 0x20 || c >= 0x7f)
      qn_text_add(out, "\\%02X", c);
    else
      qn_text_putn(out, &s[i], 1);
  }
  qn_text_puts(out, "\"");
}

/* @name, quoted where it is no plain identifier. */
static void print_symbol(qn_text *out, const char *name) {
  size_t n = strlen(name);
  bool plain = n > 0 && !(name[0] >= '0' && name[0] <= '9') &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.") == n;
  qn_text_puts(out, "@");
  if (plain)
    qn_text_puts(out, name);
  else
    print_string(out, name, n);
}

static const qn_type *result_type(const qn_graph *g, const qn_node *n, int i) {
  return qn_graph_type(g, n->first_result + (uint32_t)i);
}

static void print_type_list(qn_printer *p, const qn_graph *g, const uint32_t *ids, uint32_t first, int count) {
  for (int i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", " : "");
    qn_type_print(qn_graph_type(g, ids ? ids[i] : first + (uint32_t)i), p->out);
  }
}

void qn_print_types(qn_printer *p, const qn_graph *g, const qn_node *n, qn_form_types how) {
  int operands = n->operand_count - qn_node_captures(n);
  bool same = n->result_count == 1;
  for (int i = 0; same && i < operands; i++)
    same = qn_type_equal(qn_graph_type(g, n->operands[i]), result_type(g, n, 0));
  qn_text_puts(p->out, " : ");
  if (how == QN_TYPES_RESULT || how == QN_TYPES_COMPLEX || (how == QN_TYPES_AUTO && same)) {
    qn_type_print(result_type(g, n, 0), p->out);
  } else if (how == QN_TYPES_EACH) {
    print_type_list(p, g, n->operands, 0, operands);
  } else if (how == QN_TYPES_ARROW) {
    print_type_list(p, g, n->operands, 0, operands);
    qn_text_puts(p->out, " -> ");
    print_type_list(p, g, NULL, n->first_result, n->result_count);
  } else if (how == QN_TYPES_SELECT) {
    qn_type_print(qn_graph_type(g, n->operands[0]), p->out);
    qn_text_puts(p->out, ", ");
    qn_type_print(result_type(g, n, 0), p->out);
  } else {
    qn_text_puts(p->out, "(");
    print_type_list(p, g, n->operands, 0, operands);
    qn_text_puts(p->out, n->result_count == 1 ? ") -> " : ") -> (");
    print_type_list(p, g, NULL, n->first_result, n->result_count);
    qn_text_puts(p->out, n->result_count == 1 ? "" : ")");
  }
}

/* ---- names ---- */
static qn_name name_word(qn_names *c, qn_name_kind kind) {
  qn_name name = {kind, c->used[kind] ? c->conflict++ : -1, -1};
  c->used[kind] = true;
  return name;
}

static qn_name name_constant(qn_names *c, qn_dtype t) {
  return name_word(c, qn_dtype_is_float(t) || qn_dtype_is_complex(t) ? QN_NAME_FLOAT : QN_NAME_INT);
}

/* Operations whose two results have names of their own; NULL: none. */
static const qn_name_kind *named_results(qn_op op) {
  static const struct {
    qn_op op;
    qn_name_kind names[2];
  } list[] = {{QN_OP_TOP_K, {QN_NAME_VALUES, QN_NAME_INDICES}},
              {QN_OP_RNG_BIT_GENERATOR, {QN_NAME_STATE, QN_NAME_OUTPUT}}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].op == op)
      return list[i].names;
  return NULL;
}

/* `iterates`: the parameters that are not captured are a loop's carries. */
static bool name_values(qn_scope *s, const qn_graph *g, const qn_name *captured, size_t args, bool iterates) {
  s->names = calloc(qn_graph_value_count(g) + 1, sizeof *s->names);
  if (!s->names)
    return false;
  for (size_t i = 0; i < qn_graph_param_count(g); i++)
    s->names[qn_graph_param_at(g, i)] = i >= args  ? captured[i - args]
                                        : iterates ? name_word(&s->counters, QN_NAME_ITER)
                                                   : (qn_name){QN_NAME_ARG, s->counters.arg++, -1};
  for (size_t i = 0; i < qn_graph_node_count(g); i++) {
    const qn_node *n = qn_graph_node(g, i);
    if (n->op == QN_OP_CONSTANT)
      s->names[n->first_result] = name_constant(&s->counters, result_type(g, n, 0)->dtype);
    else if (named_results(n->op)) {
      for (int r = 0; r < 2; r++)
        s->names[n->first_result + (uint32_t)r] = name_word(&s->counters, named_results(n->op)[r]);
    } else if (n->op != QN_OP_PARAMETER && n->result_count) {
      for (int r = 0; r < n->result_count; r++)
        s->names[n->first_result + (uint32_t)r] =
            (qn_name){QN_NAME_NUMBER, s->counters.number, n->result_count == 1 ? -1 : r};
      s->counters.number++;
    }
  }
  return true;
}

bool qn_print_region_open(qn_printer *p, qn_scope *scope, const qn_graph *region, const qn_node *n) {
  const qn_scope *outer = p->scope;
  int captures = qn_node_captures(n);
  size_t args = qn_graph_param_count(region) - (size_t)captures;
  qn_name *captured = calloc((size_t)captures + 1, sizeof *captured);
  *scope = (qn_scope){.parent = outer, .counters = outer->counters, .indent = outer->indent + 2};
  for (int i = 0; captured && i < captures; i++)
    captured[i] = outer->names[n->operands[n->operand_count - captures + i]];
  bool ok = captured && name_values(scope, region, captured, args, n->op == QN_OP_WHILE);
  free(captured);
  if (ok)
    p->scope = scope;
  else
    p->out->failed = true;
  return ok;
}

void qn_print_region_close(qn_printer *p) {
  free(p->scope->names);
  p->scope = p->scope->parent;
}

/* ---- operations ---- */
/* dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>, one number where all are the same. */
static void print_pairs(qn_text *out, const qn_dims *low, const qn_dims *high) {
  bool same = low->n > 0;
  for (int i = 0; i < low->n; i++)
    same = same && low->d[i] == low->d[0] && high->d[i] == low->d[0];
  qn_text_puts(out, "dense<");
  if (same)
    qn_text_add(out, "%" PRId64, low->d[0]);
  for (int i = 0; i < low->n && !same; i++)
    qn_text_add(out, "%s[%" PRId64 ", %" PRId64 "]%s", i ? ", " : "[", low->d[i], high->d[i],
                i + 1 == low->n ? "]" : "");
  qn_text_add(out, "> : tensor<%dx2xi64>", (int)low->n);
}

static void print_field_value(qn_printer *p, const qn_field *f, const void *attr, bool generic, const char *enum_name) {
  const char *at = (const char *)attr + f->offset;
  qn_dims d;
  int64_t wide;
  int32_t narrow;
  bool flag;
  if (f->kind == QN_FIELD_DIMS) {
    memcpy(&d, at, sizeof d);
    if (!generic) {
      qn_print_dims(p->out, &d);
      return;
    }
    qn_text_puts(p->out, d.n ? "array<i64: " : "array<i64");
    for (int i = 0; i < d.n; i++)
      qn_text_add(p->out, "%s%" PRId64, i ? ", " : "", d.d[i]);
    qn_text_puts(p->out, ">");
  } else if (f->kind == QN_FIELD_PAIRS) {
    qn_dims high;
    memcpy(&d, at, sizeof d);
    memcpy(&high, (const char *)attr + f->high, sizeof high);
    print_pairs(p->out, &d, &high);
  } else if (f->kind == QN_FIELD_I64) {
    memcpy(&wide, at, sizeof wide);
    qn_text_add(p->out, generic ? "%" PRId64 " : i64" : "%" PRId64, wide);
  } else if (f->kind == QN_FIELD_TEXT) {
    const char *text;
    memcpy(&text, at, sizeof text);
    print_string(p->out, text ? text : "", text ? strlen(text) : 0);
  } else if (f->kind == QN_FIELD_BOOL) {
    memcpy(&flag, at, sizeof flag);
    qn_text_puts(p->out, flag ? "true" : "false");
  } else {
    memcpy(&narrow, at, sizeof narrow);
    if (f->kind == QN_FIELD_I32)
      qn_text_add(p->out, generic ? "%" PRId32 " : i32" : "%" PRId32, narrow);
    else
      qn_text_add(p->out, generic ? "#stablehlo<%s %s>" : "%.0s%s", enum_name, f->words[narrow]);
  }
}

static bool field_is_zero(const qn_field *f, const void *attr) {
  const char *at = (const char *)attr + f->offset;
  int64_t wide = 0;
  memcpy(&wide, at, f->kind == QN_FIELD_I64 ? 8 : f->kind == QN_FIELD_BOOL ? sizeof(bool) : 4);
  return wide == 0; /* for dims this is their count */
}

/* dimension_numbers = #stablehlo.gather<offset_dims = [1], ...>; what is zero is left out. */
static void print_group(qn_printer *p, const qn_form *form, const void *attr) {
  qn_text_add(p->out, "%s = #stablehlo.%s<", form->group, form->mnemonic);
  const char *comma = "";
  for (int i = 0; i < form->field_count; i++) {
    const qn_field *f = &form->fields[i];
    if (!f->optional || field_is_zero(f, attr))
      continue;
    qn_text_add(p->out, "%s%s = ", comma, f->name);
    print_field_value(p, f, attr, false, f->name);
    comma = ", ";
  }
  qn_text_puts(p->out, ">");
}

/* Properties are sorted by name; a group comes where its name says. */
static void print_properties(qn_printer *p, const qn_form *form, const void *attr) {
  qn_text_puts(p->out, " <{");
  bool group_open = form->group != NULL;
  const char *comma = "";
  for (int i = 0; i < form->field_count; i++) {
    const qn_field *f = &form->fields[i];
    if (form->group && f->optional)
      continue;
    if (group_open && strcmp(form->group, f->name) < 0) {
      qn_text_puts(p->out, comma);
      print_group(p, form, attr);
      comma = ", ";
      group_open = false;
    }
    qn_text_add(p->out, "%s%s = ", comma, f->name);
    print_field_value(p, f, attr, true, f->mnemonic ? f->mnemonic : f->name);
    comma = ", ";
  }
  if (group_open) {
    qn_text_puts(p->out, comma);
    print_group(p, form, attr);
  }
  qn_text_puts(p->out, "}>");
}

static void print_regions(qn_printer *p, const qn_node *n) {
  qn_text_puts(p->out, " (");
  for (int r = 0; r < n->region_count; r++) {
    qn_scope scope;
    qn_text_puts(p->out, r ? ", {" : "{");
    if (!qn_print_region_open(p, &scope, n->regions[r], n))
      return;
    size_t args = qn_graph_param_count(n->regions[r]) - (size_t)qn_node_captures(n);
    for (size_t i = 0; i < args; i++) {
      if (i == 0) {
        qn_print_newline(p, -2);
        qn_text_puts(p->out, "^bb0(");
      } else {
        qn_text_puts(p->out, ", ");
      }
      qn_text_operand(p, qn_graph_param_at(n->regions[r], i));
      qn_text_puts(p->out, ": ");
      qn_type_print(qn_graph_type(n->regions[r], qn_graph_param_at(n->regions[r], i)), p->out);
      qn_text_puts(p->out, i + 1 == args ? "):" : "");
    }
    qn_print_region_body(p, n->regions[r], "stablehlo.return");
    qn_print_newline(p, -2);
    qn_print_region_close(p);
    qn_text_puts(p->out, "}");
  }
  qn_text_puts(p->out, ")");
}

static void print_generic(qn_printer *p, const qn_graph *g, const qn_node *n, const char *prefix) {
  const qn_form *form = qn_form_get(n->op);
  qn_text_add(p->out, "\"%s%s\"(", prefix, qn_op_get(n->op)->name);
  qn_print_operands(p, n, 0, n->operand_count - qn_node_captures(n));
  qn_text_puts(p->out, ")");
  if (form->field_count)
    print_properties(p, form, n->attr);
  if (n->region_count)
    print_regions(p, n);
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

static size_t function_index(qn_printer *p, const qn_graph *region) {
  for (size_t i = 0; i < p->function_count; i++)
    if (p->functions[i] == region)
      return i;
  if (!QN_RESERVE(p->functions, p->function_capacity, p->function_count + 1)) {
    p->out->failed = true;
    return 0;
  }
  p->functions[p->function_count] = region;
  return p->function_count++;
}

/* Quern's own operations: custom_call @quern.custom_vjp(%0) {called_computations = [@fn_0, @fn_1, @fn_2]}. */
static void print_custom_call(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_form *form = qn_form_get(n->op);
  bool foreign = p->foreign && form->target;
  qn_text_add(p->out, "stablehlo.custom_call @%s(", foreign ? form->target : qn_op_get(n->op)->name);
  qn_print_operands(p, n, 0, n->operand_count);
  qn_text_puts(p->out, ")");
  if (foreign && form->config)
    qn_text_add(p->out, " {backend_config = \"%s\"}", form->config);
  bool braces = n->region_count > 0 || form->field_count > 0;
  qn_text_puts(p->out, braces ? " {" : "");
  for (int r = 0; r < n->region_count; r++)
    qn_text_add(p->out, "%s@fn_%zu", r ? ", " : "called_computations = [", function_index(p, n->regions[r]));
  qn_text_puts(p->out, n->region_count ? "]" : "");
  for (int i = 0; i < form->field_count; i++) {
    qn_text_add(p->out, "%s%s = ", i || n->region_count ? ", " : "", form->fields[i].name);
    print_field_value(p, &form->fields[i], n->attr, true, form->fields[i].name);
  }
  qn_text_puts(p->out, braces ? "}" : "");
  qn_print_types(p, g, n, QN_TYPES_FUNCTIONAL);
}

static void print_pretty(qn_printer *p, const qn_graph *g, const qn_node *n, const char *prefix) {
  const qn_form *form = qn_form_get(n->op);
  qn_text_add(p->out, "%s%s ", prefix, qn_op_get(n->op)->name);
  qn_print_operands(p, n, 0, n->operand_count);
  const char *comma = n->operand_count ? ", " : "";
  for (int i = 0; i < form->field_count; i++) {
    const qn_field *f = &form->fields[i];
    bool pair = i + 1 < form->field_count && form->fields[i + 1].second;
    if (!f->pretty || f->second || (pair && field_is_zero(f, n->attr) && strcmp(f->pretty, "batching_dims") == 0))
      continue;
    qn_text_add(p->out, "%s%s = ", comma, f->pretty);
    print_field_value(p, f, n->attr, false, f->name);
    if (pair) {
      qn_text_puts(p->out, " x ");
      print_field_value(p, f + 1, n->attr, false, f->name);
    }
    comma = ", ";
  }
  if (n->op == QN_OP_DOT_GENERAL)
    qn_text_puts(p->out, ", precision = [DEFAULT, DEFAULT]");
  bool chlo = strncmp(qn_op_get(n->op)->name, "chlo.", 5) == 0;
  qn_print_types(p, g, n, chlo ? QN_TYPES_ARROW : form->types);
}

static void print_node(qn_printer *p, const qn_graph *g, const qn_node *n) {
  const qn_form *form = qn_form_get(n->op);
  const char *name = qn_op_get(n->op)->name;
  const char *prefix = strchr(name, '.') ? "" : "stablehlo.";
  qn_print_newline(p, 0);
  if (n->result_count) {
    print_name(p, p->scope->names[n->first_result], true);
    if (named_results(n->op)) {
      qn_text_puts(p->out, ", ");
      print_name(p, p->scope->names[n->first_result + 1], true);
    } else if (n->result_count > 1) {
      qn_text_add(p->out, ":%d", n->result_count);
    }
    qn_text_puts(p->out, " = ");
  }
  if (form->print)
    form->print(p, g, n);
  else if (strncmp(name, "quern.", 6) == 0 && !form->generic)
    print_custom_call(p, g, n);
  else if (form->generic || n->region_count)
    print_generic(p, g, n, prefix);
  else
    print_pretty(p, g, n, prefix);
}

void qn_print_region_body(qn_printer *p, const qn_graph *g, const char *terminator) {
  for (size_t i = 0; i < qn_graph_node_count(g) && !p->out->failed; i++)
    if (qn_graph_node(g, i)->op != QN_OP_PARAMETER)
      print_node(p, g, qn_graph_node(g, i));
  qn_print_newline(p, 0);
  qn_text_puts(p->out, terminator);
  size_t count = qn_graph_result_count(g);
  for (size_t i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", " : " ");
    qn_text_operand(p, qn_graph_result(g, i));
  }
  for (size_t i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", " : " : ");
    qn_type_print(qn_graph_type(g, qn_graph_result(g, i)), p->out);
  }
}

static void print_port(qn_printer *p, const qn_type *t, const char *key, const char *path) {
  qn_type_print(t, p->out);
  if (!path)
    return;
  qn_text_add(p->out, " {%s = ", key);
  print_string(p->out, path, strlen(path));
  qn_text_puts(p->out, "}");
}

static void print_function(qn_printer *p, const qn_graph *g, const char *visibility, const char *name) {
  qn_scope scope = {.indent = 4};
  if (!name_values(&scope, g, NULL, qn_graph_param_count(g), false)) {
    p->out->failed = true;
    return;
  }
  p->scope = &scope;
  qn_text_add(p->out, "  func.func %s @%s(", visibility, name);
  for (size_t i = 0; i < qn_graph_param_count(g); i++) {
    qn_text_puts(p->out, i ? ", " : "");
    qn_text_operand(p, qn_graph_param_at(g, i));
    qn_text_puts(p->out, ": ");
    print_port(p, qn_graph_type(g, qn_graph_param_at(g, i)), "jax.arg_info", qn_graph_param_path(g, i));
  }
  size_t count = qn_graph_result_count(g);
  bool bare = count == 1 && !qn_graph_result_path(g, 0);
  qn_text_puts(p->out, count == 0 ? ")" : bare ? ") -> " : ") -> (");
  for (size_t i = 0; i < count; i++) {
    qn_text_puts(p->out, i ? ", " : "");
    print_port(p, qn_graph_type(g, qn_graph_result(g, i)), "jax.result_info", qn_graph_result_path(g, i));
  }
  qn_text_puts(p->out, bare || count == 0 ? " {" : ") {");
  qn_print_region_body(p, g, "return");
  qn_text_puts(p->out, "\n  }\n");
  free(scope.names);
  p->scope = NULL;
}

static void print_module(const qn_graph *g, bool foreign, qn_text *out) {
  qn_printer p = {.out = out, .foreign = foreign};
  qn_text_puts(out, "module ");
  print_symbol(out, qn_graph_name(g));
  qn_text_puts(out, " {\n");
  print_function(&p, g, "public", "main");
  for (size_t i = 0; i < p.function_count; i++) { /* grows meanwhile */
    char name[32];
    (void)snprintf(name, sizeof name, "fn_%zu", i);
    print_function(&p, p.functions[i], "private", name);
  }
  qn_text_puts(out, "}\n");
  free(p.functions);
}

void qn_graph_print(const qn_graph *g, qn_text *out) { print_module(g, false, out); }

qn_status qn_graph_print_plain(const qn_graph *g, qn_text *out) {
  qn_graph *plain = NULL;
  QN_TRY(qn_graph_plain(g, &plain));
  print_module(plain, true, out);
  qn_graph_release(plain);
  return qn_text_check(out);
}
