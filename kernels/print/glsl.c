/* GLSL 450 for Vulkan 1.1. Each binding has a block for every view of it that is used: by dtype, and as vectors where an access is known to be
 * aligned; blocks of one binding alias, so none is `restrict`. Narrow integers exist in memory only and are int and uint in registers. Float
 * arithmetic is `precise`, which forbids contraction. */
#include "print.h"

#include <string.h>

static words type(qn_dtype t, uint32_t lanes) {
  static const char *const scalars[QN_DTYPE_COUNT] = {
      [QN_BOOL] = "bool",    [QN_I8] = "int",    [QN_I16] = "int",   [QN_I32] = "int",
      [QN_I64] = "int64_t",  [QN_U8] = "uint",   [QN_U16] = "uint",  [QN_U32] = "uint",
      [QN_U64] = "uint64_t", [QN_F32] = "float", [QN_F64] = "double"};
  static const char *const vectors[QN_DTYPE_COUNT] = {
      [QN_BOOL] = "bvec",  [QN_I8] = "ivec", [QN_I16] = "ivec", [QN_I32] = "ivec",
      [QN_I64] = "i64vec", [QN_U8] = "uvec", [QN_U16] = "uvec", [QN_U32] = "uvec",
      [QN_U64] = "u64vec", [QN_F32] = "vec", [QN_F64] = "dvec"};
  words w;
  if (lanes > 1)
    snprintf(w.s, sizeof w.s, "%s%u", vectors[t] ? vectors[t] : "?", lanes);
  else
    snprintf(w.s, sizeof w.s, "%s", scalars[t] ? scalars[t] : "?");
  return w;
}

/* The type of an element in memory. */
static words memory_type(qn_dtype t, uint32_t lanes) {
  static const char *const small[QN_DTYPE_COUNT] = {
      [QN_BOOL] = "uint8_t", [QN_I8] = "int8_t", [QN_U8] = "uint8_t", [QN_I16] = "int16_t", [QN_U16] = "uint16_t"};
  words w;
  if (!small[t])
    return type(t, lanes);
  snprintf(w.s, sizeof w.s, "%s", small[t]);
  return w;
}

static words literal_float(qn_dtype t, uint64_t bits) {
  words w = qn_print_decimal(qn_print_value(t, bits)), r;
  if (w.s[0])
    snprintf(r.s, sizeof r.s, "%.80s%s%s", w.s, t == QN_F64 ? "lf" : "", w.s[0] == '(' ? ")" : "");
  else if (t == QN_F32)
    snprintf(r.s, sizeof r.s, "uintBitsToFloat(0x%08xu)", (unsigned)bits);
  else
    snprintf(r.s, sizeof r.s, "packDouble2x32(uvec2(0x%08xu, 0x%08xu))", (unsigned)(bits & UINT32_MAX),
             (unsigned)(bits >> 32));
  return r;
}

static words literal(qn_dtype t, uint64_t bits) {
  words w;
  unsigned width = t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t));
  unsigned shift = 64 - width;
  long long x = (long long)((int64_t)(bits << shift) >> shift);
  unsigned long long u = bits;
  if (qn_dtype_is_float(t))
    return literal_float(t, bits);
  if (t == QN_BOOL)
    snprintf(w.s, sizeof w.s, bits & 1 ? "true" : "false");
  else if (t == QN_I64)
    snprintf(w.s, sizeof w.s, x < 0 ? "int64_t(0x%llxul)" : "%llul", u);
  else if (t == QN_U64)
    snprintf(w.s, sizeof w.s, "%lluul", u);
  else if (qn_dtype_is_unsigned(t))
    snprintf(w.s, sizeof w.s, "%lluu", u);
  else if (x == INT32_MIN)
    snprintf(w.s, sizeof w.s, "int(0x80000000u)");
  else
    snprintf(w.s, sizeof w.s, x < 0 ? "(%lld)" : "%lld", x);
  return w;
}

static const char *lane(uint32_t i) {
  static const char *const lanes[4] = {"x", "y", "z", "w"};
  return lanes[i & 3];
}

#define INFIX(op) "$0 " op " $1"
#define NUMBERS(op)                                                                                                    \
  { INFIX(op), INFIX(op), INFIX(op), NULL, NULL, NULL, NULL, NULL }
#define INTEGERS(op)                                                                                                   \
  { NULL, INFIX(op), INFIX(op), NULL, NULL, NULL, NULL, NULL }
#define BITS(op, scalar, vector)                                                                                       \
  { NULL, INFIX(op), INFIX(op), scalar, NULL, NULL, NULL, vector }
#define COMPARE(op, fn)                                                                                                \
  { INFIX(op), INFIX(op), INFIX(op), INFIX(op), fn "($0, $1)", fn "($0, $1)", fn "($0, $1)", fn "($0, $1)" }
#define FLOAT1(fn)                                                                                                     \
  { fn "($0)", NULL, NULL, NULL, NULL, NULL, NULL, NULL }
#define PICK "$0 ? $1 : $2"
#define MIX "mix($2, $1, $0)"

static const spelling spell[QN_S_COUNT] = {
    [QN_S_ADD] = NUMBERS("+"),
    [QN_S_SUB] = NUMBERS("-"),
    [QN_S_MUL] = NUMBERS("*"),
    [QN_S_DIV] = NUMBERS("/"),
    [QN_S_FMA] = {"fma($0, $1, $2)", NULL, NULL, NULL, NULL, NULL, NULL, NULL},
    [QN_S_NEG] = {"-$0", "-$0", "-$0", NULL, NULL, NULL, NULL, NULL},
    [QN_S_ABS] = FLOAT1("abs"),
    [QN_S_SQRT] = FLOAT1("sqrt"),
    [QN_S_FLOOR] = FLOAT1("floor"),
    [QN_S_CEIL] = FLOAT1("ceil"),
    [QN_S_TRUNC] = FLOAT1("trunc"),
    [QN_S_RINT] = FLOAT1("roundEven"),
    [QN_S_IDIV] = INTEGERS("/"),
    [QN_S_IREM] = {NULL, "$0 - ($0 / $1) * $1", "$0 % $1", NULL, NULL, NULL, NULL,
                   NULL}, /* % of negative numbers is undefined */
    [QN_S_MULHI] = {NULL, "qn_mulhi($0, $1)", "qn_mulhi($0, $1)", NULL, NULL, NULL, NULL, NULL},
    [QN_S_AND] = BITS("&", "$0 && $1", "$T(uvec$N($0) & uvec$N($1))"),
    [QN_S_OR] = BITS("|", "$0 || $1", "$T(uvec$N($0) | uvec$N($1))"),
    [QN_S_XOR] = BITS("^", "$0 != $1", "notEqual($0, $1)"),
    [QN_S_NOT] = {NULL, "~$0", "~$0", "!$0", NULL, NULL, NULL, "not($0)"},
    [QN_S_SHL] = INTEGERS("<<"),
    [QN_S_SHR] = INTEGERS(">>"),
    [QN_S_EQ] = COMPARE("==", "equal"),
    [QN_S_NE] = COMPARE("!=", "notEqual"),
    [QN_S_LT] = COMPARE("<", "lessThan"),
    [QN_S_LE] = COMPARE("<=", "lessThanEqual"),
    [QN_S_SELECT] = {PICK, PICK, PICK, PICK, MIX, MIX, MIX, MIX},
    [QN_S_POPCNT] = {NULL, "$T(bitCount($0))", "$T(bitCount($0))", NULL, NULL, NULL, NULL, NULL},
    [QN_S_CLZ] = {NULL, "$T(31 - findMSB(uint($0)))", "$T(31 - findMSB($0))", NULL, NULL, NULL, NULL, NULL},
};

static const char *convert(const printer *p, const qn_kinst *in) {
  (void)p;
  switch (in->dtype) { /* into memory's narrow types: cut, as they are ints here */
  case QN_I8:
    return "($T($0) << 24) >> 24";
  case QN_I16:
    return "($T($0) << 16) >> 16";
  case QN_U8:
    return "$T($0) & 0xffu";
  case QN_U16:
    return "$T($0) & 0xffffu";
  default:
    return "$T($0)";
  }
}

typedef struct recast {
  uint8_t from, to;
  const char *text;
} recast;
static const recast recasts[] = {
    {QN_F32, QN_U32, "floatBitsToUint($0)"},    {QN_F32, QN_I32, "floatBitsToInt($0)"},
    {QN_U32, QN_F32, "uintBitsToFloat($0)"},    {QN_I32, QN_F32, "intBitsToFloat($0)"},
    {QN_F64, QN_U64, "doubleBitsToUint64($0)"}, {QN_F64, QN_I64, "doubleBitsToInt64($0)"},
    {QN_U64, QN_F64, "uint64BitsToDouble($0)"}, {QN_I64, QN_F64, "int64BitsToDouble($0)"},
};

static const char *bitcast(const printer *p, const qn_kinst *in) {
  uint8_t from = print_inst(p, in->a)->dtype;
  for (size_t i = 0; i < sizeof recasts / sizeof *recasts; ++i)
    if (recasts[i].from == from && recasts[i].to == in->dtype)
      return recasts[i].text;
  return "$T($0)";
}

/* ---- views ---- */

/* Lanes of the view that an access goes through: its own when aligned vectors of 32-bit elements, else single elements. */
static uint32_t view_lanes(const printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  if (in->kop != QN_K_LOAD && in->kop != QN_K_STORE)
    return 1;
  uint32_t lanes = in->kop == QN_K_LOAD ? in->lanes : print_lanes(p, in->c);
  bool whole = (lanes == 2 || lanes == 4) && qn_dtype_size(p->k->buffers[in->aux].dtype) == 4;
  return whole && qn_print_aligned(p, i, in->b, lanes) ? lanes : 1;
}

static words view_name(const qn_kbuffer *b, uint32_t lanes) {
  words w;
  snprintf(w.s, sizeof w.s, lanes > 1 ? "b%u_%sx%u" : "b%u_%s", b->binding, qn_dtype_name(b->dtype), lanes);
  return w;
}

static bool same_view(const qn_kbuffer *x, const qn_kbuffer *y) {
  return x->binding == y->binding && x->dtype == y->dtype;
}

static bool view_used(const printer *p, uint32_t buffer, uint32_t lanes) {
  for (uint32_t i = 1; i < p->k->count; ++i) {
    const qn_kinst *in = print_inst(p, i);
    if (qn_print_touches(in) && same_view(&p->k->buffers[in->aux], &p->k->buffers[buffer]) && view_lanes(p, i) == lanes)
      return true;
  }
  return false;
}

static void declare_views(printer *p) {
  const qn_kernel *k = p->k;
  for (uint32_t b = 0; b < k->buffer_count; ++b) {
    bool first = true, written = false;
    for (uint32_t o = 0; o < k->buffer_count; ++o) {
      first = first && !(o < b && same_view(&k->buffers[o], &k->buffers[b]));
      written = written || (k->buffers[o].binding == k->buffers[b].binding && k->buffers[o].written);
    }
    for (uint32_t lanes = 1; first && lanes <= 4; lanes *= 2) {
      if (!view_used(p, b, lanes))
        continue;
      words name = view_name(&k->buffers[b], lanes);
      qn_text_add(p->out, "layout(set = 0, binding = %u, std430) %sbuffer B_%s { %s d[]; } %s;\n",
                  k->buffers[b].binding, written ? "" : "readonly ", name.s, memory_type(k->buffers[b].dtype, lanes).s,
                  name.s);
    }
  }
  qn_text_add(p->out, "layout(set = 0, binding = %u, std430) readonly buffer B_params { uint w[]; } params;\n",
              k->binding_count);
  qn_text_puts(p->out, "layout(push_constant) uniform push { uint base; };\n");
}

/* ---- declarations ---- */

static bool uses_width(const qn_kernel *k, size_t size) {
  for (size_t i = 0; i < k->buffer_count; ++i)
    if (qn_dtype_size(k->buffers[i].dtype) == size)
      return true;
  return false;
}

static void declare_extensions(printer *p) {
  const qn_kernel *k = p->k;
  bool wide = false, rolled = false;
  for (size_t i = 1; i < k->count; ++i) {
    wide = wide || k->insts[i].dtype == QN_I64 || k->insts[i].dtype == QN_U64;
    rolled = rolled || (k->insts[i].kop == QN_K_LOOP && k->insts[i].aux);
  }
  const char *const names[] = {
      uses_width(k, 1) ? "GL_EXT_shader_8bit_storage" : NULL, uses_width(k, 2) ? "GL_EXT_shader_16bit_storage" : NULL,
      wide ? "GL_EXT_shader_explicit_arithmetic_types_int64" : NULL, rolled ? "GL_EXT_control_flow_attributes" : NULL};
  qn_text_puts(p->out, "#version 450\n");
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (names[i])
      qn_text_add(p->out, "#extension %s : require\n", names[i]);
}

static void declare_mulhi(printer *p) {
  for (uint32_t lanes = 1; lanes <= 4; lanes *= 2)
    for (int is_signed = 0; is_signed < 2; ++is_signed) {
      qn_dtype t = is_signed ? QN_I32 : QN_U32;
      bool used = false;
      for (size_t i = 1; i < p->k->count; ++i) {
        const qn_kinst *in = &p->k->insts[i];
        used = used || (in->kop == QN_K_SCALAR && in->sop == QN_S_MULHI && in->dtype == t && in->lanes == lanes);
      }
      words w = type(t, lanes);
      if (used)
        qn_text_add(p->out, "%s qn_mulhi(%s a, %s b) { %s hi, lo; %smulExtended(a, b, hi, lo); return hi; }\n", w.s,
                    w.s, w.s, w.s, is_signed ? "i" : "u");
    }
}

static void declare_arrays(printer *p, bool local) {
  for (uint32_t i = 1; i < p->k->count; ++i) {
    const qn_kinst *in = print_inst(p, i);
    if (in->kop != QN_K_ARRAY || (in->aux != 0) != local)
      continue;
    uint32_t lanes = p->array_lanes[i] ? p->array_lanes[i] : 1;
    unsigned long long n = in->imm ? in->imm / lanes : 1;
    qn_print_line(p, "%s%s v%u[%llu];", local ? "shared " : "", type((qn_dtype)in->dtype, lanes).s, i, n);
  }
}

static void open(printer *p) {
  const qn_kernel *k = p->k;
  declare_extensions(p);
  qn_text_add(p->out, "layout(local_size_x = %u) in;\n", k->items);
  declare_views(p);
  p->depth = 0;
  declare_arrays(p, true);
  declare_mulhi(p);
  qn_text_add(p->out, "// %s\nvoid main() {\n", k->name);
  p->depth = 1;
  declare_arrays(p, false);
  qn_print_line(p, "uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * "
                   "gl_WorkGroupID.z);");
  qn_print_line(p, "if (group >= params.w[base])");
  qn_print_line(p, "  return;");
  if (qn_print_uses(k, QN_K_ITEM))
    qn_print_line(p, "uint item = gl_LocalInvocationID.x;");
  for (uint32_t i = 0; i < k->buffer_count; ++i) {
    if (!qn_print_buffer_used(k, i))
      continue;
    char offset[48];
    snprintf(offset, sizeof offset, "params.w[base + %uu]", k->buffers[i].offset_param);
    qn_print_line(p, "uint o%u = %s;", i, qn_print_offset(p, i, offset).s);
  }
}

/* ---- memory ---- */

static words as_uint(const printer *p, uint32_t id, const char *text) {
  words w;
  snprintf(w.s, sizeof w.s, print_inst(p, id)->dtype == QN_U32 ? "%.80s" : "uint(%.80s)", text);
  return w;
}

/* One element of memory as a value. */
static void read_element(printer *p, const qn_kbuffer *b, const char *place) {
  words view = view_name(b, 1);
  if (b->dtype == QN_BOOL)
    qn_text_add(p->out, "(uint(%s.d[%s]) != 0u)", view.s, place);
  else if (qn_dtype_size(b->dtype) < 4)
    qn_text_add(p->out, "%s(%s.d[%s])", type(b->dtype, 1).s, view.s, place);
  else
    qn_text_add(p->out, "%s.d[%s]", view.s, place);
}

static void load(printer *p, uint32_t i, const char *target) {
  const qn_kinst *in = print_inst(p, i);
  const qn_kbuffer *b = &p->k->buffers[in->aux];
  char place[224];
  if (in->kop == QN_K_GATHER) {
    for (uint32_t l = 0; l < in->lanes && in->c; ++l) {
      qn_print_indent(p);
      qn_text_add(p->out, "if (%s) %s.%s = ", qn_print_lane(p, in->c, l).s, target, lane(l));
      snprintf(place, sizeof place, "o%u + %s", in->aux, as_uint(p, in->b, qn_print_lane(p, in->b, l).s).s);
      read_element(p, b, place);
      qn_text_puts(p->out, ";\n");
    }
    if (in->c)
      return;
  }
  words at = as_uint(p, in->b, qn_print_operand(p, in->b).s);
  uint32_t lanes = view_lanes(p, i);
  qn_print_indent(p);
  qn_text_add(p->out, "%s = ", target);
  if (lanes > 1) {
    qn_text_add(p->out, "%s.d[(o%u + %s) >> %d];\n", view_name(b, lanes).s, in->aux, at.s, lanes == 4 ? 2 : 1);
    return;
  }
  if (in->lanes > 1)
    qn_text_add(p->out, "%s(", type((qn_dtype)in->dtype, in->lanes).s);
  for (uint32_t l = 0; l < in->lanes; ++l) {
    if (in->kop == QN_K_GATHER)
      snprintf(place, sizeof place, "o%u + %s", in->aux, as_uint(p, in->b, qn_print_lane(p, in->b, l).s).s);
    else
      snprintf(place, sizeof place, l ? "o%u + %s + %uu" : "o%u + %s", in->aux, at.s, l);
    qn_text_puts(p->out, l ? ", " : "");
    read_element(p, b, place);
  }
  qn_text_puts(p->out, in->lanes > 1 ? ");\n" : ";\n");
}

/* A value as it lies in memory. */
static words stored(qn_dtype t, const char *value) {
  words w;
  if (t == QN_BOOL)
    snprintf(w.s, sizeof w.s, "uint8_t(uint(%.70s))", value);
  else if (qn_dtype_size(t) < 4)
    snprintf(w.s, sizeof w.s, "%.20s(%.70s)", memory_type(t, 1).s, value);
  else
    snprintf(w.s, sizeof w.s, "%.90s", value);
  return w;
}

static void store(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  const qn_kbuffer *b = &p->k->buffers[in->aux];
  uint32_t lanes = print_lanes(p, in->c), whole = view_lanes(p, i);
  words at = as_uint(p, in->b, qn_print_operand(p, in->b).s);
  if (whole > 1) {
    qn_print_line(p, "%s.d[(o%u + %s) >> %d] = %s;", view_name(b, whole).s, in->aux, at.s, whole == 4 ? 2 : 1,
                  qn_print_operand(p, in->c).s);
    return;
  }
  for (uint32_t l = 0; l < lanes; ++l) {
    words value = stored(b->dtype, qn_print_lane(p, in->c, l).s);
    qn_print_indent(p);
    if (in->kop == QN_K_SCATTER) {
      if (in->d)
        qn_text_add(p->out, "if (%s) ", qn_print_lane(p, in->d, l).s);
      qn_text_add(p->out, "%s.d[o%u + %s] = %s;\n", view_name(b, 1).s, in->aux,
                  as_uint(p, in->b, qn_print_lane(p, in->b, l).s).s, value.s);
    } else {
      qn_text_add(p->out, l ? "%s.d[o%u + %s + %uu] = " : "%s.d[o%u + %s] = ", view_name(b, 1).s, in->aux, at.s, l);
      qn_text_add(p->out, "%s;\n", value.s);
    }
  }
}

static void array_load(printer *p, uint32_t i, const char *target) {
  const qn_kinst *in = print_inst(p, i);
  words at = as_uint(p, in->b, qn_print_operand(p, in->b).s);
  uint32_t lanes = p->array_lanes[in->a];
  qn_print_indent(p);
  qn_text_add(p->out, "%s = ", target);
  if (in->lanes == 1 || lanes == in->lanes) {
    qn_text_add(p->out, in->lanes == 1 ? "v%u[%s];\n" : "v%u[%s >> %d];\n", in->a, at.s, lanes == 4 ? 2 : 1);
    return;
  }
  qn_text_add(p->out, "%s(", type((qn_dtype)in->dtype, in->lanes).s);
  for (uint32_t l = 0; l < in->lanes; ++l)
    qn_text_add(p->out, l ? ", v%u[%s + %uu]" : "v%u[%s]", in->a, at.s, l);
  qn_text_puts(p->out, ");\n");
}

static void array_store(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  words at = as_uint(p, in->b, qn_print_operand(p, in->b).s);
  uint32_t lanes = print_lanes(p, in->c), whole = p->array_lanes[in->a];
  if (lanes > 1 && whole == lanes) {
    qn_print_line(p, "v%u[%s >> %d] = %s;", in->a, at.s, lanes == 4 ? 2 : 1, qn_print_operand(p, in->c).s);
    return;
  }
  for (uint32_t l = 0; l < lanes; ++l) {
    qn_print_indent(p);
    qn_text_add(p->out, l ? "v%u[%s + %uu]" : "v%u[%s]", in->a, at.s, l);
    qn_text_add(p->out, " = %s;\n", qn_print_lane(p, in->c, l).s);
  }
}

static void atomic(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  words at = as_uint(p, in->b, qn_print_operand(p, in->b).s);
  qn_print_line(p, "atomic%s(%s.d[o%u + %s], %s);", in->kop == QN_K_ATOMIC_OR ? "Or" : "And",
                view_name(&p->k->buffers[in->aux], 1).s, in->aux, at.s, qn_print_operand(p, in->c).s);
}

const qn_dialect qn_dialect_glsl = {
    .name = "glsl",
    .constant = "",
    .precise = "precise ",
    .barrier = "barrier();",
    .dont_unroll = "[[dont_unroll]]",
    .params = "params.w",
    .splat = "$T($0)",
    .splat_bool = "$T($0)",
    .extract = "$0.$L",
    .extract_bool = "$0.$L",
    .low = "$0.xy",
    .high = "$0.zw",
    .join = "$T($0, $1)",
    .join_bool = "$T($0, $1)",
    .spell = spell,
    .type = type,
    .literal = literal,
    .lane = lane,
    .convert = convert,
    .bitcast = bitcast,
    .open = open,
    .load = load,
    .store = store,
    .array_load = array_load,
    .array_store = array_store,
    .atomic = atomic,
};
