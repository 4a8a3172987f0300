/* OpenCL C 1.2. A scalar bool is an int of 0 or 1, a vector of bools an intN mask of 0 and -1. Signed arithmetic goes through unsigned types,
 * since C leaves its overflow undefined and ours wraps. */
#include "print.h"

#include <string.h>

static const char *const names[QN_DTYPE_COUNT] = {
    [QN_BOOL] = "int",  [QN_I8] = "char",  [QN_I16] = "short",  [QN_I32] = "int",
    [QN_I64] = "long",  [QN_U8] = "uchar", [QN_U16] = "ushort", [QN_U32] = "uint",
    [QN_U64] = "ulong", [QN_F16] = "half", [QN_F32] = "float",  [QN_F64] = "double",
};

static words type(qn_dtype t, uint32_t lanes) {
  words w;
  snprintf(w.s, sizeof w.s, lanes > 1 ? "%s%u" : "%s", names[t] ? names[t] : "?", lanes);
  return w;
}

static const char *memory_name(qn_dtype t) { return t == QN_BOOL ? "uchar" : names[t] ? names[t] : "?"; }

/* Hexadecimal floats are exact; what they cannot name is given by its bits. */
static words literal_f32(uint32_t bits) {
  words w = qn_print_decimal(qn_print_value(QN_F32, bits)), r;
  uint32_t e = bits >> 23 & 0xff, m = bits & 0x7fffff;
  const char *minus = bits >> 31 ? "(-" : "", *close = bits >> 31 ? ")" : "";
  if (w.s[0])
    snprintf(r.s, sizeof r.s, "%.80sf%s", w.s, w.s[0] == '(' ? ")" : "");
  else if (e == 0 || e == 255)
    snprintf(r.s, sizeof r.s, "as_float(0x%08xu)", bits);
  else if (m == 0)
    snprintf(r.s, sizeof r.s, "%s0x1p%+df%s", minus, (int)e - 127, close);
  else
    snprintf(r.s, sizeof r.s, "%s0x1.%06xp%+df%s", minus, m << 1, (int)e - 127, close);
  return r;
}

static words literal(qn_dtype t, uint64_t bits) {
  words w;
  unsigned width = t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t));
  unsigned shift = 64 - width;
  long long x = (long long)((int64_t)(bits << shift) >> shift);
  unsigned long long u = bits;
  switch (t) {
  case QN_F32:
    return literal_f32((uint32_t)bits);
  case QN_F64:
    w = qn_print_decimal(qn_print_value(t, bits));
    if (!w.s[0])
      snprintf(w.s, sizeof w.s, "as_double(0x%016llxul)", u);
    else if (w.s[0] == '(')
      memcpy(w.s + strlen(w.s), ")", 2);
    return w;
  case QN_I32:
    snprintf(w.s, sizeof w.s, x == INT32_MIN ? "(-2147483647 - 1)" : x < 0 ? "(%lld)" : "%lld", x);
    return w;
  case QN_I64:
    snprintf(w.s, sizeof w.s, x == INT64_MIN ? "(-9223372036854775807l - 1l)" : x < 0 ? "(%lldl)" : "%lldl", x);
    return w;
  case QN_U32:
    snprintf(w.s, sizeof w.s, "%lluu", u);
    return w;
  case QN_U64:
    snprintf(w.s, sizeof w.s, "%lluul", u);
    return w;
  case QN_BOOL:
    snprintf(w.s, sizeof w.s, "%llu", u & 1);
    return w;
  default:
    if (qn_dtype_is_signed(t))
      snprintf(w.s, sizeof w.s, "(%s)(%lld)", names[t], x);
    else
      snprintf(w.s, sizeof w.s, "(%s)(%lluu)", names[t] ? names[t] : "?", u);
    return w;
  }
}

static const char *lane(uint32_t i) {
  static const char *const lanes[16] = {"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7",
                                        "s8", "s9", "sa", "sb", "sc", "sd", "se", "sf"};
  return lanes[i & 15];
}

#define WRAPPED(op) "($T)(($W)$0 " op " ($W)$1)"
#define WRAPPED_V(op) "as_$T(as_$U($0) " op " as_$U($1))"
#define UNSIGNED(op) "$($C$0 " op " $C$1$)"
#define PLAIN(op) "$0 " op " $1"
#define CAST(op) "$($0 " op " $1$)"
#define MASK(op) "$X($0 " op " $1)"
#define COMPARE(op)                                                                                                    \
  { PLAIN(op), PLAIN(op), PLAIN(op), PLAIN(op), MASK(op), MASK(op), MASK(op), MASK(op) }
#define CALL1(fn)                                                                                                      \
  { fn "($0)", NULL, NULL, NULL, NULL, NULL, NULL, NULL }

static const spelling spell[QN_S_COUNT] = {
    [QN_S_ADD] = {PLAIN("+"), WRAPPED("+"), UNSIGNED("+"), NULL, NULL, WRAPPED_V("+"), PLAIN("+"), NULL},
    [QN_S_SUB] = {PLAIN("-"), WRAPPED("-"), UNSIGNED("-"), NULL, NULL, WRAPPED_V("-"), PLAIN("-"), NULL},
    [QN_S_MUL] = {PLAIN("*"), WRAPPED("*"), UNSIGNED("*"), NULL, NULL, WRAPPED_V("*"), PLAIN("*"), NULL},
    [QN_S_DIV] = {PLAIN("/"), NULL, NULL, NULL, NULL, NULL, NULL, NULL},
    [QN_S_FMA] = {"fma($0, $1, $2)", NULL, NULL, NULL, NULL, NULL, NULL, NULL},
    [QN_S_NEG] = {"-$0", "($T)(0u - ($W)$0)", "($T)(0u - $0)", NULL, NULL, "as_$T(-as_$U($0))", "-$0", NULL},
    [QN_S_ABS] = CALL1("fabs"),
    [QN_S_SQRT] = CALL1("sqrt"),
    [QN_S_FLOOR] = CALL1("floor"),
    [QN_S_CEIL] = CALL1("ceil"),
    [QN_S_TRUNC] = CALL1("trunc"),
    [QN_S_RINT] = CALL1("rint"),
    [QN_S_IDIV] = {NULL, CAST("/"), CAST("/"), NULL, NULL, PLAIN("/"), PLAIN("/"), NULL},
    [QN_S_IREM] = {NULL, CAST("%"), CAST("%"), NULL, NULL, PLAIN("%"), PLAIN("%"), NULL},
    [QN_S_MULHI] = {NULL, "mul_hi($0, $1)", "mul_hi($0, $1)", NULL, NULL, NULL, NULL, NULL},
    [QN_S_AND] = {NULL, CAST("&"), CAST("&"), PLAIN("&"), NULL, PLAIN("&"), PLAIN("&"), NULL},
    [QN_S_OR] = {NULL, CAST("|"), CAST("|"), PLAIN("|"), NULL, PLAIN("|"), PLAIN("|"), NULL},
    [QN_S_XOR] = {NULL, CAST("^"), CAST("^"), PLAIN("^"), NULL, PLAIN("^"), PLAIN("^"), NULL},
    [QN_S_NOT] = {NULL, "$(~$0$)", "$(~$0$)", "!$0", NULL, "~$0", "~$0", "~$0"},
    [QN_S_SHL] = {NULL, "($T)(($W)$0 << $1)", "$($C$0 << $1$)", NULL, NULL, PLAIN("<<"), PLAIN("<<"), NULL},
    [QN_S_SHR] = {NULL, CAST(">>"), CAST(">>"), NULL, NULL, PLAIN(">>"), PLAIN(">>"), NULL},
    [QN_S_EQ] = COMPARE("=="),
    [QN_S_NE] = COMPARE("!="),
    [QN_S_LT] = COMPARE("<"),
    [QN_S_LE] = COMPARE("<="),
    [QN_S_SELECT] = {"$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", "select($2, $1, $K)",
                     "select($2, $1, $K)", "select($2, $1, $K)", "select($2, $1, $K)"},
    [QN_S_POPCNT] = {NULL, "popcount($0)", "popcount($0)", NULL, NULL, NULL, NULL, NULL},
    [QN_S_CLZ] = {NULL, "clz($0)", "clz($0)", NULL, NULL, NULL, NULL, NULL},
};

static const char *convert(const printer *p, const qn_kinst *in) {
  qn_dtype from = (qn_dtype)print_inst(p, in->a)->dtype, to = (qn_dtype)in->dtype;
  if (in->lanes == 1)
    return "($T)$0";
  if (from == QN_BOOL)
    return "convert_$T(-$0)";
  bool reinterpret = qn_dtype_is_int(from) && qn_dtype_is_int(to) && qn_dtype_size(from) == qn_dtype_size(to);
  return reinterpret ? "as_$T($0)" : "convert_$T($0)";
}

static const char *bitcast(const printer *p, const qn_kinst *in) {
  (void)p;
  (void)in;
  return "as_$T($0)";
}

static void prelude(const qn_device_caps *caps, qn_text *out) {
  if (caps->f64)
    qn_text_puts(out, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
  qn_text_puts(out, "#pragma OPENCL FP_CONTRACT OFF\n");
}

/* ---- declarations ---- */

static void open(printer *p) {
  const qn_kernel *k = p->k;
  qn_text_add(p->out, "__kernel __attribute__((reqd_work_group_size(%u, 1, 1))) void %s(", k->items, k->name);
  for (uint32_t i = 0; i < k->binding_count; ++i)
    qn_text_add(p->out, "__global uchar *b%u, ", i);
  qn_text_puts(p->out, "__global const uint *params, uint base) {\n");
  p->depth = 1;
  for (uint32_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop == QN_K_ARRAY)
      qn_print_line(p, "%s%s v%u[%llu] __attribute__((aligned(64)));", in->aux ? "__local " : "",
                    memory_name((qn_dtype)in->dtype), i, (unsigned long long)(in->imm ? in->imm : 1));
  }
  qn_print_line(p, "const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + "
                   "get_num_groups(1) * get_group_id(2)));");
  qn_print_line(p, "if (group >= params[base])");
  qn_print_line(p, "  return;");
  if (qn_print_uses(k, QN_K_ITEM))
    qn_print_line(p, "const uint item = (uint)get_local_id(0);");
  for (uint32_t i = 0; i < k->buffer_count; ++i) {
    const qn_kbuffer *b = &k->buffers[i];
    if (!qn_print_buffer_used(k, i))
      continue;
    const char *constant = b->written ? "" : "const ", *name = memory_name(b->dtype);
    char offset[48];
    snprintf(offset, sizeof offset, "(size_t)params[base + %uu]", b->offset_param);
    qn_print_line(p, "__global %s%s *p%u = (__global %s%s *)b%u + %s;", constant, name, i, constant, name, b->binding,
                  qn_print_offset(p, i, offset).s);
  }
}

/* ---- memory ---- */

static void load(printer *p, uint32_t i, const char *target) {
  const qn_kinst *in = print_inst(p, i);
  const qn_kbuffer *b = &p->k->buffers[in->aux];
  const char *constant = b->written ? "" : "const ";
  bool truth = in->dtype == QN_BOOL;
  words at = qn_print_operand(p, in->b);
  if (in->kop == QN_K_GATHER && in->c) {
    for (uint32_t l = 0; l < in->lanes; ++l)
      qn_print_line(p, truth ? "if (%s) %s.%s = -(p%u[%s] != 0);" : "if (%s) %s.%s = p%u[%s];",
                    qn_print_lane(p, in->c, l).s, target, lane(l), in->aux, qn_print_lane(p, in->b, l).s);
    return;
  }
  qn_print_indent(p);
  qn_text_add(p->out, "%s = ", target);
  if (in->kop == QN_K_GATHER) {
    qn_text_add(p->out, "(%s)(", type((qn_dtype)in->dtype, in->lanes).s);
    for (uint32_t l = 0; l < in->lanes; ++l)
      qn_text_add(p->out, truth ? "%s-(p%u[%s] != 0)" : "%sp%u[%s]", l ? ", " : "", in->aux,
                  qn_print_lane(p, in->b, l).s);
    qn_text_puts(p->out, ")");
  } else if (in->lanes == 1) {
    qn_text_add(p->out, truth ? "p%u[%s] != 0" : "p%u[%s]", in->aux, at.s);
  } else {
    if (truth)
      qn_text_add(p->out, "convert_int%u(", in->lanes);
    if (qn_print_aligned(p, i, in->b, in->lanes))
      qn_text_add(p->out, "*(__global %s%s%u *)(p%u + %s)", constant, memory_name((qn_dtype)in->dtype), in->lanes,
                  in->aux, at.s);
    else
      qn_text_add(p->out, "vload%u(0, p%u + %s)", in->lanes, in->aux, at.s);
    if (truth)
      qn_text_puts(p->out, ") != 0");
  }
  qn_text_puts(p->out, ";\n");
}

/* A value as it lies in memory: bools as bytes of 0 and 1. */
static words stored(const printer *p, uint32_t id) {
  words v = qn_print_operand(p, id), w;
  if (print_inst(p, id)->dtype != QN_BOOL)
    return v;
  if (print_lanes(p, id) == 1)
    snprintf(w.s, sizeof w.s, "(uchar)(%.60s)", v.s);
  else
    snprintf(w.s, sizeof w.s, "convert_uchar%u(-%.60s)", print_lanes(p, id), v.s);
  return w;
}

static void store(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  uint32_t lanes = print_lanes(p, in->c);
  words v = stored(p, in->c), at = qn_print_operand(p, in->b);
  const char *name = memory_name(p->k->buffers[in->aux].dtype);
  if (in->kop == QN_K_SCATTER) {
    bool truth = print_inst(p, in->c)->dtype == QN_BOOL;
    for (uint32_t l = 0; l < lanes; ++l) {
      qn_print_indent(p);
      if (in->d)
        qn_text_add(p->out, "if (%s) ", qn_print_lane(p, in->d, l).s);
      qn_text_add(p->out, truth ? "p%u[%s] = (uchar)(%s & 1);\n" : "p%u[%s] = %s;\n", in->aux,
                  qn_print_lane(p, in->b, l).s, qn_print_lane(p, in->c, l).s);
    }
  } else if (lanes == 1) {
    qn_print_line(p, "p%u[%s] = %s;", in->aux, at.s, v.s);
  } else if (qn_print_aligned(p, i, in->b, lanes)) {
    qn_print_line(p, "*(__global %s%u *)(p%u + %s) = %s;", name, lanes, in->aux, at.s, v.s);
  } else {
    qn_print_line(p, "vstore%u(%s, 0, p%u + %s);", lanes, v.s, in->aux, at.s);
  }
}

static const char *space_of(const printer *p, uint32_t array) {
  return print_inst(p, array)->aux ? "__local" : "__private";
}

static void array_load(printer *p, uint32_t i, const char *target) {
  const qn_kinst *in = print_inst(p, i);
  words at = qn_print_operand(p, in->b);
  const char *name = memory_name((qn_dtype)in->dtype);
  const char *before = in->dtype == QN_BOOL && in->lanes > 1 ? "convert_int" : "";
  qn_print_indent(p);
  qn_text_add(p->out, "%s = ", target);
  if (before[0])
    qn_text_add(p->out, "%s%u(", before, in->lanes);
  if (in->lanes == 1)
    qn_text_add(p->out, "v%u[%s]", in->a, at.s);
  else if (in->lanes && p->divisors[in->b] % in->lanes == 0)
    qn_text_add(p->out, "*(const %s %s%u *)(v%u + %s)", space_of(p, in->a), name, in->lanes, in->a, at.s);
  else
    qn_text_add(p->out, "vload%u(0, v%u + %s)", in->lanes, in->a, at.s);
  qn_text_puts(p->out, before[0] ? ") != 0;\n" : ";\n");
}

static void array_store(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  uint32_t lanes = print_lanes(p, in->c);
  words v = stored(p, in->c), at = qn_print_operand(p, in->b);
  const char *name = memory_name((qn_dtype)print_inst(p, in->a)->dtype);
  if (lanes == 1)
    qn_print_line(p, "v%u[%s] = %s;", in->a, at.s, v.s);
  else if (p->divisors[in->b] % lanes == 0)
    qn_print_line(p, "*(%s %s%u *)(v%u + %s) = %s;", space_of(p, in->a), name, lanes, in->a, at.s, v.s);
  else
    qn_print_line(p, "vstore%u(%s, 0, v%u + %s);", lanes, v.s, in->a, at.s);
}

static void atomic(printer *p, uint32_t i) {
  const qn_kinst *in = print_inst(p, i);
  qn_print_line(p, "atomic_%s((volatile __global uint *)(p%u + %s), %s);", in->kop == QN_K_ATOMIC_OR ? "or" : "and",
                in->aux, qn_print_operand(p, in->b).s, qn_print_operand(p, in->c).s);
}

const qn_dialect qn_dialect_opencl = {
    .name = "opencl",
    .constant = "const ",
    .precise = "const ",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
    .dont_unroll = "#pragma unroll 1",
    .params = "params",
    .splat = "($T)($0)",
    .splat_bool = "($T)(-$0)",
    .extract = "$0.$L",
    .extract_bool = "$0.$L & 1",
    .low = "$0.lo",
    .high = "$0.hi",
    .join = "($T)($0, $1)",
    .join_bool = "($T)(-$0, -$1)",
    .spell = spell,
    /* rusticl's own select takes the wrong lanes here */
    .select_wide = "as_$T((as_$U($1) & as_$U($K)) | (as_$U($2) & ~as_$U($K)))",
    .type = type,
    .literal = literal,
    .lane = lane,
    .convert = convert,
    .bitcast = bitcast,
    .prelude = prelude,
    .open = open,
    .load = load,
    .store = store,
    .array_load = array_load,
    .array_store = array_store,
    .atomic = atomic,
};
