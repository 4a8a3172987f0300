/* The walker that prints kernels. One value, one statement: compilers put it together again, and the same kernel gives the same bytes. Constants
 * stand where they are used. Whether a vector access is aligned comes from divisibility, so that dialects may use whole-vector loads. */
#include "print.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- small parts ---- */

void qn_print_indent(printer *p) { qn_text_add(p->out, "%*s", 2 * p->depth, ""); }

void qn_print_line(printer *p, const char *format, ...) {
  va_list args;
  qn_print_indent(p);
  va_start(args, format);
  qn_text_addv(p->out, format, args);
  va_end(args);
  qn_text_puts(p->out, "\n");
}

static words name_of(uint32_t id) {
  words w;
  snprintf(w.s, sizeof w.s, "v%u", id);
  return w;
}

static words word(const char *s) {
  words w;
  snprintf(w.s, sizeof w.s, "%s", s);
  return w;
}

words qn_print_operand(const printer *p, uint32_t id) {
  const qn_kinst *in = print_inst(p, id);
  if (id == 0)
    return word("");
  if (in->kop == QN_K_SCALAR && in->sop == QN_S_CONST)
    return p->d->literal((qn_dtype)in->dtype, in->imm);
  if (in->kop == QN_K_GROUP)
    return word("group");
  if (in->kop == QN_K_ITEM)
    return word("item");
  return name_of(id);
}

words qn_print_lane(const printer *p, uint32_t id, uint32_t lane) {
  words w = qn_print_operand(p, id), r;
  if (print_lanes(p, id) == 1)
    return w;
  snprintf(r.s, sizeof r.s, "%.80s.%s", w.s, p->d->lane(lane));
  return r;
}

bool qn_print_touches(const qn_kinst *in) {
  return in->kop == QN_K_LOAD || in->kop == QN_K_STORE || in->kop == QN_K_GATHER || in->kop == QN_K_SCATTER ||
         in->kop == QN_K_ATOMIC_AND || in->kop == QN_K_ATOMIC_OR;
}

bool qn_print_buffer_used(const qn_kernel *k, uint32_t buffer) {
  for (size_t i = 1; i < k->count; ++i)
    if (qn_print_touches(&k->insts[i]) && k->insts[i].aux == buffer)
      return true;
  return false;
}

bool qn_print_uses(const qn_kernel *k, qn_kop op) {
  for (size_t i = 1; i < k->count; ++i)
    if (k->insts[i].kop == op)
      return true;
  return false;
}

double qn_print_value(qn_dtype t, uint64_t bits) {
  uint64_t wide = qn_scalar_eval(QN_S_CONVERT, QN_F64, t, &bits);
  double x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

words qn_print_decimal(double x) {
  words w = {""};
  double scaled = x * 1024;
  bool negative_zero = x == 0 && signbit(x);
  if (!(scaled > -1e12 && scaled < 1e12) || scaled != (double)(long)scaled || negative_zero)
    return w;
  unsigned long n = (unsigned long)(x < 0 ? -scaled : scaled), fraction = n % 1024;
  char digits[12] = "0";
  int count = 0;
  for (; fraction && count < 10; ++count, fraction %= 1024) { /* at most ten, as 1024 is 2^10 */
    fraction *= 10;
    digits[count] = (char)('0' + fraction / 1024);
    digits[count + 1] = 0;
  }
  snprintf(w.s, sizeof w.s, x < 0 ? "(-%lu.%s" : "%lu.%s", n / 1024, digits);
  return w;
}

words qn_print_offset(const printer *p, uint32_t buffer, const char *w) {
  const qn_kbuffer *b = &p->k->buffers[buffer];
  words r;
  if (b->offset_shift > 0)
    snprintf(r.s, sizeof r.s, "(%s << %d)", w, (int)b->offset_shift);
  else if (b->offset_shift < 0)
    snprintf(r.s, sizeof r.s, "(%s >> %d)", w, -(int)b->offset_shift);
  else
    snprintf(r.s, sizeof r.s, "%s", w);
  return r;
}

bool qn_print_aligned(const printer *p, uint32_t i, uint32_t index, uint32_t lanes) {
  return p->divisors && qn_kernel_aligned(p->k, print_inst(p, i)->aux, p->divisors[index], lanes);
}

/* ---- templates ---- */

static qn_dtype signed_of(qn_dtype t) {
  static const qn_dtype by_size[9] = {[1] = QN_I8, [2] = QN_I16, [4] = QN_I32, [8] = QN_I64};
  return by_size[qn_dtype_size(t)];
}

/* Bool vectors are 32-bit masks where there are masks; a select of other widths wants them converted. */
static void expand_mask(printer *p, const qn_kinst *in) {
  words m = qn_print_operand(p, in->a);
  qn_dtype t = (qn_dtype)in->dtype;
  if (qn_dtype_size(t) == 4 || t == QN_BOOL)
    qn_text_puts(p->out, m.s);
  else
    qn_text_add(p->out, "convert_%s(%s)", p->d->type(signed_of(t), in->lanes).s, m.s);
}

static void expand_narrowed(printer *p, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)print_inst(p, in->a)->dtype;
  if (qn_dtype_size(t) != 4 && t != QN_BOOL)
    qn_text_add(p->out, "convert_int%u", in->lanes);
}

static void expand(printer *p, const char *t, const qn_kinst *in) {
  qn_dtype dtype = (qn_dtype)in->dtype;
  const uint32_t operands[3] = {in->a, in->b, in->c};
  for (; *t; ++t) {
    if (*t != '$') {
      qn_text_putn(p->out, t, 1);
      continue;
    }
    switch (*++t) {
    case 'T':
      qn_text_puts(p->out, p->d->type(dtype, in->lanes).s);
      break;
    case 'U':
      qn_text_puts(p->out, p->d->type(qn_dtype_unsigned(dtype), in->lanes).s);
      break;
    case 'W':
      qn_text_puts(p->out, p->d->type(qn_dtype_size(dtype) == 8 ? QN_U64 : QN_U32, 1).s);
      break;
    case 'C':
      qn_text_puts(p->out, qn_dtype_size(dtype) < 4 && in->lanes == 1 ? "(uint)" : "");
      break;
    case '(':
    case ')':
      if (qn_dtype_size(dtype) < 4 && in->lanes == 1)
        qn_text_add(p->out, *t == '(' ? "(%s)(" : ")", p->d->type(dtype, 1).s);
      break;
    case 'K':
      expand_mask(p, in);
      break;
    case 'X':
      expand_narrowed(p, in);
      break;
    case 'N':
      if (in->lanes > 1)
        qn_text_add(p->out, "%u", in->lanes);
      break;
    case 'L':
      qn_text_puts(p->out, p->d->lane((uint32_t)in->imm));
      break;
    default:
      qn_text_puts(p->out, qn_print_operand(p, operands[*t - '0']).s);
      break;
    }
  }
}

static const char *choose(const spelling *s, qn_dtype t, bool vector) {
  qn_dtype_class c = qn_dtype_classify(t);
  const char *scalar = c == QN_CLASS_FLOAT ? s->f : c == QN_CLASS_SIGNED ? s->i : c == QN_CLASS_UNSIGNED ? s->u : s->b;
  const char *v = c == QN_CLASS_FLOAT ? s->vf : c == QN_CLASS_SIGNED ? s->vi : c == QN_CLASS_UNSIGNED ? s->vu : s->vb;
  return vector && v ? v : scalar;
}

static const char *template_of(const printer *p, const qn_kinst *in) {
  if (in->sop == QN_S_CONVERT)
    return p->d->convert(p, in);
  if (in->sop == QN_S_BITCAST)
    return p->d->bitcast(p, in);
  qn_dtype t = (qn_dtype)print_inst(p, in->sop == QN_S_SELECT ? in->b : in->a)->dtype;
  if (in->sop == QN_S_SELECT && in->lanes > 1 && qn_dtype_size(t) == 8 && p->d->select_wide)
    return p->d->select_wide;
  const char *s = choose(&p->d->spell[in->sop], t, in->lanes > 1);
  return s ? s : "$0";
}

/* ---- statements ---- */

static void declare(printer *p, uint32_t i, const char *qualifier) {
  const qn_kinst *in = print_inst(p, i);
  qn_print_indent(p);
  qn_text_add(p->out, "%s%s v%u", qualifier, p->d->type((qn_dtype)in->dtype, in->lanes).s, i);
}

static void define(printer *p, uint32_t i, const char *qualifier, const char *t) {
  declare(p, i, qualifier);
  qn_text_puts(p->out, " = ");
  expand(p, t, print_inst(p, i));
  qn_text_puts(p->out, ";\n");
}

static void print_scalar(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  if (in->sop == QN_S_CONST)
    return;
  bool arithmetic = qn_dtype_is_float((qn_dtype)in->dtype) && in->sop != QN_S_SELECT && in->sop != QN_S_BITCAST &&
                    in->sop != QN_S_CONVERT;
  define(p, i, arithmetic ? p->d->precise : p->d->constant, template_of(p, in));
}

static void print_leaf(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  if (in->kop != QN_K_PARAM)
    return;
  declare(p, i, p->d->constant);
  qn_text_puts(p->out, " = ");
  qn_text_add(p->out, "%s[base + %uu];\n", p->d->params, (unsigned)in->imm);
}

static void print_lanes_op(printer *p, uint32_t i) {
  const qn_dialect *d = p->d;
  const qn_kinst *in = print_inst(p, i);
  bool truth = in->dtype == QN_BOOL;
  const char *const t[QN_K_COUNT] = {[QN_K_SPLAT] = truth ? d->splat_bool : d->splat,
                                     [QN_K_EXTRACT] = truth ? d->extract_bool : d->extract,
                                     [QN_K_LOW] = d->low,
                                     [QN_K_HIGH] = d->high,
                                     [QN_K_JOIN] = truth && in->lanes == 2 ? d->join_bool : d->join};
  define(p, i, d->constant, t[in->kop]);
}

static void print_iota(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  declare(p, i, p->d->constant);
  qn_text_puts(p->out, " = ");
  qn_kinst head = *in;
  expand(p, p->d->splat[0] == '(' ? "($T)(" : "$T(", &head);
  for (uint32_t l = 0; l < in->lanes; ++l)
    qn_text_add(p->out, "%s%u", l ? ", " : "", l);
  qn_text_puts(p->out, ");\n");
}

static void print_variable(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  if (in->kop == QN_K_SET)
    qn_print_line(p, "v%u = %s;", in->a, qn_print_operand(p, in->b).s);
  else
    define(p, i, in->kop == QN_K_VAR ? "" : p->d->constant, "$0");
}

static void print_load(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  char target[128];
  if (in->kop == QN_K_ALOAD) {
    snprintf(target, sizeof target, "%.20s%.40s v%u", p->d->constant, p->d->type((qn_dtype)in->dtype, in->lanes).s, i);
    p->d->array_load(p, i, target);
    return;
  }
  if (!in->c) {
    snprintf(target, sizeof target, "%.20s%.40s v%u", p->d->constant, p->d->type((qn_dtype)in->dtype, in->lanes).s, i);
    p->d->load(p, i, target);
    return;
  }
  /* Memory behind a mask that is off is not touched. */
  declare(p, i, "");
  qn_kinst zero = {.dtype = in->dtype, .lanes = in->lanes};
  qn_text_puts(p->out, " = ");
  words z = p->d->literal((qn_dtype)in->dtype, 0);
  if (in->lanes > 1) {
    expand(p, p->d->splat[0] == '(' ? "($T)" : "$T", &zero);
    qn_text_add(p->out, "(%s);\n", z.s);
  } else {
    qn_text_add(p->out, "%s;\n", z.s);
  }
  snprintf(target, sizeof target, "v%u", i);
  if (in->kop == QN_K_GATHER) {
    p->d->load(p, i, target);
    return;
  }
  qn_print_line(p, "if (%s) {", qn_print_operand(p, in->c).s);
  ++p->depth;
  p->d->load(p, i, target);
  --p->depth;
  qn_print_line(p, "}");
}

static void print_store(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  if (in->kop == QN_K_ASTORE) {
    p->d->array_store(p, i);
    return;
  }
  bool masked = in->d && in->kop != QN_K_SCATTER;
  if (masked) {
    qn_print_line(p, "if (%s) {", qn_print_operand(p, in->d).s);
    ++p->depth;
  }
  if (in->kop == QN_K_ATOMIC_AND || in->kop == QN_K_ATOMIC_OR)
    p->d->atomic(p, i);
  else
    p->d->store(p, i);
  if (masked) {
    --p->depth;
    qn_print_line(p, "}");
  }
}

static void print_control(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  words a = qn_print_operand(p, in->a), b = qn_print_operand(p, in->b), step;
  switch (in->kop) {
  case QN_K_LOOP:
    step = p->d->literal((qn_dtype)in->dtype, in->imm);
    if (in->aux)
      qn_print_line(p, "%s", p->d->dont_unroll);
    qn_print_line(p, "for (%s v%u = %s; v%u < %s; v%u += %s) {", p->d->type((qn_dtype)in->dtype, 1).s, i, a.s, i, b.s,
                  i, step.s);
    ++p->depth;
    break;
  case QN_K_IF:
    qn_print_line(p, "if (%s) {", a.s);
    ++p->depth;
    break;
  case QN_K_ELSE:
    --p->depth;
    qn_print_line(p, "} else {");
    ++p->depth;
    break;
  case QN_K_END:
    --p->depth;
    qn_print_line(p, "}");
    break;
  default:
    qn_print_line(p, "%s", p->d->barrier);
    break;
  }
}

typedef void (*print_fn)(printer *p, uint32_t i);
static const print_fn statements[QN_K_COUNT] = {
    [QN_K_SCALAR] = print_scalar,   [QN_K_PARAM] = print_leaf,       [QN_K_SPLAT] = print_lanes_op,
    [QN_K_IOTA] = print_iota,       [QN_K_EXTRACT] = print_lanes_op, [QN_K_LOW] = print_lanes_op,
    [QN_K_HIGH] = print_lanes_op,   [QN_K_JOIN] = print_lanes_op,    [QN_K_VAR] = print_variable,
    [QN_K_GET] = print_variable,    [QN_K_SET] = print_variable,     [QN_K_ALOAD] = print_load,
    [QN_K_LOAD] = print_load,       [QN_K_GATHER] = print_load,      [QN_K_ASTORE] = print_store,
    [QN_K_STORE] = print_store,     [QN_K_SCATTER] = print_store,    [QN_K_ATOMIC_AND] = print_store,
    [QN_K_ATOMIC_OR] = print_store, [QN_K_LOOP] = print_control,     [QN_K_IF] = print_control,
    [QN_K_ELSE] = print_control,    [QN_K_END] = print_control,      [QN_K_BARRIER] = print_control,
};

/* ---- the whole ---- */

/* An array whose every access is an aligned vector of the same lanes may be declared as one of vectors. */
static void choose_array_lanes(printer *p) {
  const qn_kernel *k = p->k;
  for (uint32_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop != QN_K_ALOAD && in->kop != QN_K_ASTORE)
      continue;
    uint32_t lanes = in->kop == QN_K_ALOAD ? in->lanes : print_lanes(p, in->c);
    const qn_kinst *array = &k->insts[in->a];
    bool fits = lanes <= 4 && qn_dtype_size((qn_dtype)array->dtype) == 4 && array->imm % lanes == 0 &&
                p->divisors[in->b] % lanes == 0;
    uint8_t *seen = &p->array_lanes[in->a];
    *seen = !fits || (*seen && *seen != lanes) ? 1 : (uint8_t)lanes;
  }
}

void qn_kernel_print(const qn_kernel *k, const qn_dialect *d, const qn_device_caps *caps, qn_text *out) {
  printer p = {.k = k, .d = d, .caps = caps, .out = out};
  p.divisors = malloc(k->count * sizeof *p.divisors);
  p.array_lanes = calloc(k->count, 1);
  if (!p.divisors || !p.array_lanes) {
    out->failed = true;
  } else {
    qn_kernel_divisors(k, p.divisors);
    choose_array_lanes(&p);
    d->open(&p);
    p.depth = 1;
    for (uint32_t i = 1; i < k->count; ++i)
      if (statements[k->insts[i].kop])
        statements[k->insts[i].kop](&p, i);
    qn_text_puts(out, "}\n");
  }
  free(p.divisors);
  free(p.array_lanes);
}

void qn_dialect_prelude(const qn_dialect *d, const qn_device_caps *caps, qn_text *out) {
  if (d->prelude)
    d->prelude(caps, out);
}
