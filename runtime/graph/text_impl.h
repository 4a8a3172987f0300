/* The text form of graphs, private to printer and parser. What is said twice otherwise, once for each of them, is said in
 * one table: the attributes of every operation (fields of its record, with their names in text) and how it is spelt. */
#ifndef QN_TEXT_IMPL_H
#define QN_TEXT_IMPL_H

#include "graph_impl.h"

/* ---- attributes and forms ---- */
typedef enum qn_field_kind {
  QN_FIELD_DIMS,
  QN_FIELD_I64,
  QN_FIELD_I32,
  QN_FIELD_BOOL,
  QN_FIELD_ENUM,
  QN_FIELD_TEXT,
  QN_FIELD_PAIRS /* two lists of one length: dense<[[low, high], ..]> */
} qn_field_kind;

typedef struct qn_field {
  const char *name;   /* in the generic form */
  const char *pretty; /* key in the pretty form: "dims" in "dims = [0, 1]"; NULL: not there, or by position */
  qn_field_kind kind;
  size_t offset;
  const char *mnemonic;     /* ENUM: of the attribute, where it isn't the field's name: #stablehlo<transpose ADJOINT> */
  const char *const *words; /* ENUM: spelling of each value, NULL-terminated; NULL or "" for one that is not printed */
  bool second;              /* the right-hand list of "key = [..] x [..]" */
  bool optional;            /* may be absent, then `absent` */
  int64_t absent;           /* integers */
  bool per_axis;            /* where absent: that for each axis of operand 0 */
  size_t high;              /* PAIRS: offset of the second list */
} qn_field;

typedef enum qn_form_types {
  QN_TYPES_AUTO,       /* ": T" if all types are equal, else ": (T, ..) -> T" */
  QN_TYPES_FUNCTIONAL, /* always ": (T, ..) -> T" */
  QN_TYPES_RESULT,     /* ": T" of the result */
  QN_TYPES_SELECT,     /* ": P, T" */
  QN_TYPES_EACH,       /* ": T, .." of the operands, which the results have too */
  QN_TYPES_COMPLEX,    /* ": T" of the result; operands have its parts' dtype */
  QN_TYPES_ARROW       /* ": T, .. -> T" */
} qn_form_types;

typedef struct qn_printer qn_printer;
typedef struct qn_parser qn_parser;
typedef struct qn_stmt qn_stmt;
typedef struct qn_call_target qn_call_target;

typedef struct qn_form {
  qn_op op;
  qn_form_types types;
  const qn_field *fields;
  int field_count;
  const char *group, *mnemonic; /* optional fields sit in `group = #stablehlo.mnemonic<..>` in the generic form */
  bool generic;                 /* has no pretty form */
  bool comparator;              /* region 0 takes two scalars per sorted operand; what it takes more is captured */
  bool combiner;                /* region 0 takes two scalars per result; what it takes more is captured */
  bool control;                 /* regions use the values around them in the text; here all take the same captures */
  const char *target, *config;  /* the custom call by which XLA knows it, and its backend_config (NULL: none) */
  void (*print)(qn_printer *p, const qn_graph *g, const qn_node *n); /* everything behind "%0 = " */
  bool (*parse)(qn_parser *p, qn_stmt *s);  /* everything behind the op's name, in the pretty form */
  bool (*finish)(qn_parser *p, qn_stmt *s); /* after either form: attributes as `fields` names them */
} qn_form;

/* The form of an op; ops that are not listed are operands and types only. Never NULL. */
const qn_form *qn_form_get(qn_op op);
/* Copies a record field by field into zeroed memory, so that equal attributes have equal bytes. */
void qn_form_copy_attr(qn_op op, void *to, const void *from, size_t size);

/* ---- printer ---- */
typedef enum qn_name_kind {
  QN_NAME_NUMBER,
  QN_NAME_ARG,
  QN_NAME_INT, /* this and what follows: a word, and behind its first use a number */
  QN_NAME_FLOAT,
  QN_NAME_VALUES,
  QN_NAME_INDICES,
  QN_NAME_STATE,
  QN_NAME_OUTPUT,
  QN_NAME_ITER,
  QN_NAME_KINDS
} qn_name_kind;
typedef struct qn_name {
  qn_name_kind kind;
  int number; /* -1: no suffix */
  int result; /* -1: the only one */
} qn_name;
typedef struct qn_names { /* counters of a scope; nested scopes go on from a copy */
  int number, arg, conflict;
  bool used[QN_NAME_KINDS];
} qn_names;
typedef struct qn_scope {
  const struct qn_scope *parent;
  qn_name *names; /* by value id */
  qn_names counters;
  int indent;
} qn_scope;
struct qn_printer {
  qn_text *out;
  const qn_scope *scope;
  const qn_graph **functions; /* private functions to print behind @main, as met */
  size_t function_count, function_capacity;
  bool foreign; /* custom calls have the names by which others know them */
};
void qn_text_operand(qn_printer *p, uint32_t id);
void qn_print_operands(qn_printer *p, const qn_node *n, int first, int count);
void qn_print_types(qn_printer *p, const qn_graph *g, const qn_node *n, qn_form_types how); /* with " : " before */
void qn_print_dims(qn_text *out, const qn_dims *d);
/* Names a region's values, its trailing parameters as what they capture; prints from now on are inside. false: no memory. */
bool qn_print_region_open(qn_printer *p, qn_scope *scope, const qn_graph *region, const qn_node *n);
void qn_print_region_body(qn_printer *p, const qn_graph *region,
                          const char *terminator); /* operations and their return */
void qn_print_region_close(qn_printer *p);
void qn_print_newline(qn_printer *p, int deeper);
void qn_print_constant_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_slice_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_compare_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_fft_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_precision_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_rng_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_top_k_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_reduce_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_while_form(qn_printer *p, const qn_graph *g, const qn_node *n);
void qn_print_conv_form(qn_printer *p, const qn_graph *g, const qn_node *n);
/* The one operation that a combiner consists of, applied to its two parameters in order; NONE if it is not so. */
qn_op qn_region_single_op(const qn_graph *region);

/* ---- lexer ---- */
typedef enum qn_token_kind {
  QN_T_END,
  QN_T_WORD,   /* stablehlo.add */
  QN_T_VALUE,  /* %0, %0#1 */
  QN_T_SYMBOL, /* @main; text excludes @ and quotes */
  QN_T_BLOCK,  /* ^bb0 */
  QN_T_ALIAS,  /* #loc, #stablehlo.gather */
  QN_T_BANG,   /* !type */
  QN_T_INT,    /* decimal or hex */
  QN_T_FLOAT,
  QN_T_STRING, /* text includes the escapes, not the quotes */
  QN_T_ARROW,
  QN_T_PUNCT,
  QN_T_BAD
} qn_token_kind;
typedef struct qn_token {
  qn_token_kind kind;
  const char *text;
  size_t size;
  int line, column;
} qn_token;
typedef struct qn_lexer {
  const char *at, *end, *line_start;
  int line;
} qn_lexer;
qn_token qn_lex(qn_lexer *l);

/* ---- parser ---- */
typedef enum qn_value_kind { /* of attributes */
                             QN_A_INT,
                             QN_A_INTS,
                             QN_A_WORD,
                             QN_A_STRING,
                             QN_A_SYMBOL,
                             QN_A_SYMBOLS,
                             QN_A_DICT,
                             QN_A_OTHER
} qn_value_kind;
typedef struct qn_attr {
  const char *name, *text; /* WORD, STRING, SYMBOL */
  struct qn_attr *next;
  struct qn_attr *children; /* DICT; SYMBOLS: one per symbol */
  int64_t *ints, number;
  size_t count;
  qn_value_kind kind;
} qn_attr;

typedef struct qn_binding {
  const char *name;
  size_t size;
  qn_val first;
  int count;
} qn_binding;
typedef struct qn_bindings {  /* one function's or region's values by name */
  struct qn_bindings *parent; /* NULL for functions: they see nothing outside */
  qn_graph *graph;
  qn_binding *slots;
  size_t capacity, count;
  qn_val *captured; /* of the parent's graph, in the order of the trailing parameters */
  size_t captured_count, captured_capacity;
} qn_bindings;

typedef struct qn_function {
  const char *name;
  qn_lexer start; /* behind the name */
  qn_graph *graph;
  bool busy;
  struct qn_function *next, *same; /* in the text's order, backwards; with the same hash */
} qn_function;
enum { QN_FUNCTION_LISTS = 1024 };

struct qn_parser {
  qn_lexer lexer;
  qn_token tok;
  const char *file;
  qn_arena arena;
  qn_function *functions, **lists; /* by the hash of the name */
  const char *module;
  qn_bindings *scope;
  int depth;
  size_t nodes; /* in all graphs made, to bound what calls blow up */
  qn_status code;
  char error[QN_FAIL_TEXT];
};

typedef struct qn_captured {
  const qn_val *values;
  size_t count;
} qn_captured;

struct qn_stmt { /* one operation being read */
  qn_place at;
  const char *name;
  qn_op op;
  const qn_form *form;
  qn_val *operands;
  size_t operand_count, operand_capacity;
  qn_attr *attrs;
  qn_graph **regions;
  size_t region_count, region_capacity;
  qn_val *captures;
  size_t capture_count;
  qn_captured *region_captures; /* control: of each region */
  size_t region_capture_capacity;
  qn_type *operand_types, *result_types;
  size_t operand_type_count, operand_type_capacity, result_type_count, result_type_capacity;
  bool types_read;
  qn_attr_constant constant;
  bool is_constant;
  const qn_call_target *target; /* a custom call by somebody else's name; then `op` is NONE */
};

bool qn_parse_fail(qn_parser *p, const char *format, ...) QN_PRINTF(2, 3); /* at the current token; always false */
bool qn_parse_fail_at(qn_parser *p, qn_place at, const char *format, ...) QN_PRINTF(3, 4);
bool qn_parse_no_memory(qn_parser *p);                       /* always false */
bool qn_parse_graph_failed(qn_parser *p, const qn_graph *g); /* takes over a builder's failure; always false */
qn_place qn_parse_place(const qn_parser *p);                 /* of the current token */
void qn_parse_next(qn_parser *p);
bool qn_parse_is(const qn_parser *p, const char *word); /* the token is this word or punctuation */
bool qn_parse_take(qn_parser *p, const char *word);     /* consumes it if it is */
bool qn_parse_expect(qn_parser *p, const char *word, const char *what);
char *qn_parse_token_text(qn_parser *p); /* copy of the token's text, in the arena */
bool qn_parse_int(qn_parser *p, int64_t *out);
bool qn_parse_ints(qn_parser *p, int64_t **out, size_t *out_count); /* [1, 2] */
bool qn_parse_type(qn_parser *p, qn_type *out);
bool qn_parse_add_type(qn_parser *p, qn_type **list, size_t *count, size_t *capacity);
bool qn_parse_params(qn_parser *p, qn_bindings *scope, bool attrs); /* %a: T, %b: T), behind the opening parenthesis */
bool qn_parse_operand(qn_parser *p, qn_stmt *s);
bool qn_parse_operands(qn_parser *p, qn_stmt *s);      /* zero or more, comma-separated, up to something else */
bool qn_parse_types(qn_parser *p, qn_stmt *s);         /* ": .." */
bool qn_parse_attr_dict(qn_parser *p, qn_attr **list); /* inside of { }, up to and with the brace */
bool qn_parse_attr_value(qn_parser *p, qn_attr *out);
bool qn_parse_skip_location(qn_parser *p);
qn_attr *qn_parse_attr_add(qn_parser *p, qn_attr **list, const char *name);
const qn_attr *qn_parse_attr_find(const qn_attr *list, const char *name);
bool qn_parse_fields(qn_parser *p, const qn_stmt *s, void *record);
bool qn_parse_dense(qn_parser *p, qn_type *type, qn_attr_constant *out); /* dense<..> : type */
/* A region in braces, from behind the brace to the one that ends it; parameters are in `scope` already. */
bool qn_parse_block(qn_parser *p, qn_bindings *scope, qn_graph **out_region);
bool qn_parse_scope_open(qn_parser *p, qn_bindings *scope, qn_bindings *parent, const char *name);
void qn_parse_scope_close(qn_parser *p, qn_bindings *scope);
bool qn_parse_bind(qn_parser *p, qn_bindings *scope, const qn_token *name, qn_val first, int count);
bool qn_parse_region_add(qn_parser *p, qn_stmt *s, qn_bindings *scope, qn_graph *region);
qn_graph *qn_parse_function(qn_parser *p, const char *name); /* borrowed; NULL after a failure */
bool qn_parse_grow(qn_parser *p, void **data, size_t *capacity, size_t count, size_t size); /* room for count + 1 */
bool qn_parse_pretty(qn_parser *p, qn_stmt *s); /* operands, then "key = value" and words, then types */
bool qn_parse_generic(qn_parser *p, qn_stmt *s);
bool qn_parse_precision_form(qn_parser *p, qn_stmt *s);
bool qn_parse_constant_form(qn_parser *p, qn_stmt *s);
bool qn_parse_slice_form(qn_parser *p, qn_stmt *s);
bool qn_parse_reduce_form(qn_parser *p, qn_stmt *s);
bool qn_parse_while_form(qn_parser *p, qn_stmt *s);
/* Gives all regions of a control operation the captures of each: they become s->captures. */
bool qn_parse_unite_captures(qn_parser *p, qn_stmt *s);
/* Statements read as others (parse_expand.c): dynamic forms become static ones; `out_known` tells whether the name is such. */
bool qn_parse_rewritten(qn_parser *p, qn_stmt *s, bool generic, bool *out_known);
bool qn_parse_map(qn_parser *p, qn_stmt *s, bool generic, qn_val *out);
bool qn_parse_rng_finish(qn_parser *p, qn_stmt *s);
bool qn_parse_top_k_call(qn_parser *p, qn_stmt *s);
/* Somebody else's custom calls by name; NULL if it is none. The call is read, its results are added to the graph. */
const qn_call_target *qn_parse_call_target(const char *name);
bool qn_parse_foreign_call(qn_parser *p, qn_stmt *s, qn_val **out, int *out_count);
bool qn_parse_conv_form(qn_parser *p, qn_stmt *s);
bool qn_parse_conv_finish(qn_parser *p, qn_stmt *s);
bool qn_parse_conv_numbers(qn_parser *p, qn_attr **list); /* [b, 0, f]x[0, i, o]->[b, 0, f] */
/* Client operations without a row (parse_chlo.c): read and built. */
bool qn_parse_is_sugar(const char *name);
bool qn_parse_sugar(qn_parser *p, qn_stmt *s, bool generic, qn_val *out);
bool qn_parse_custom_call(qn_parser *p, qn_stmt *s, bool generic);

#endif
