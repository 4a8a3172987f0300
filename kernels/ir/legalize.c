/* Rewrites a kernel into what a device has. One walk over the list; each instruction is built again from the parts of its operands by the
 * ordinary builder, which folds, merges and sweeps what the emulations leave over. */
#include "legalize.h"

#include <stdlib.h>

typedef void (*lower_fn)(legalizer *l, uint32_t i, const qn_kinst *in);

hold_kind qn_legal_hold(const legalizer *l, qn_dtype t) {
  const qn_device_caps *c = l->caps;
  bool narrow = c->format != QN_CODE_SPIRV; /* shaders have narrow integers in memory only */
  switch (t) {
  case QN_I8:
  case QN_U8:
    return narrow && c->i8 ? HOLD_SAME : HOLD_NARROW;
  case QN_I16:
  case QN_U16:
    return narrow && c->i16 ? HOLD_SAME : HOLD_NARROW;
  case QN_I64:
  case QN_U64:
    return c->i64 ? HOLD_SAME : HOLD_PAIR;
  case QN_F16:
    return c->f16 && c->format == QN_CODE_NATIVE ? HOLD_SAME : HOLD_HALF; /* drivers' conversions are not trusted */
  case QN_BF16:
    return HOLD_HALF;
  default:
    return HOLD_SAME;
  }
}

qn_dtype qn_legal_held(const legalizer *l, qn_dtype t) {
  switch (qn_legal_hold(l, t)) {
  case HOLD_NARROW:
    return qn_dtype_is_signed(t) ? QN_I32 : QN_U32;
  case HOLD_HALF:
  case HOLD_PAIR:
    return QN_U32;
  default:
    return t;
  }
}

static uint32_t parts_of(const legalizer *l, uint32_t lanes) { return lanes > l->max_lanes ? lanes / l->max_lanes : 1; }

void qn_legal_fail(legalizer *l, qn_status st) {
  if (l->st == QN_OK)
    l->st = st;
}

/* ---- parts of values ---- */

static const qn_sval none = {0};

static lword part_of(const legalizer *l, uint32_t id, uint32_t part) { return l->pool[l->first[id] + part]; }
static qn_sval word_of(const legalizer *l, uint32_t id) { return id ? part_of(l, id, 0).w[0] : none; }
static const qn_kinst *inst(const legalizer *l, uint32_t id) { return &l->k->insts[id]; }
static qn_dtype type_of(const legalizer *l, uint32_t id) { return (qn_dtype)inst(l, id)->dtype; }
static uint32_t part_lanes(const legalizer *l, uint32_t lanes) { return lanes < l->max_lanes ? lanes : l->max_lanes; }
static unsigned words_of(const legalizer *l, qn_dtype t) { return qn_legal_hold(l, t) == HOLD_PAIR ? 2 : 1; }

/* Parts of an instruction's value are put in order. */
static void put(legalizer *l, lword v) {
  if (!QN_RESERVE(l->pool, l->pool_capacity, l->pool_count + 1)) {
    l->b.kernel->failed = true;
    return;
  }
  l->pool[l->pool_count++] = v;
}

/* ---- lanes ---- */

static void lower_scalar(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  qn_sop op = (qn_sop)in->sop;
  if (op == QN_S_CONST) {
    put(l, qn_legal_const(l, (qn_dtype)in->dtype, in->imm));
    return;
  }
  qn_dtype operand = type_of(l, op == QN_S_SELECT ? in->b : in->a);
  int arity = qn_sop_arity(op);
  uint32_t parts = parts_of(l, in->lanes);
  for (uint32_t p = 0; p < parts; ++p) {
    lword x[3] = {{{none, none}}, {{none, none}}, {{none, none}}};
    for (int o = 0; o < arity; ++o)
      x[o] = part_of(l, kinst_operand(in, o), p);
    lword y = qn_legal_scalar(l, op, (qn_dtype)in->dtype, operand, x);
    for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w) /* a word that folded may have become a scalar */
      y.w[w] = qn_kb_splat(&l->b, y.w[w], part_lanes(l, in->lanes));
    put(l, y);
  }
}

static void lower_leaf(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  qn_sval v = in->kop == QN_K_GROUP  ? qn_kb_group(&l->b)
              : in->kop == QN_K_ITEM ? qn_kb_item(&l->b)
                                     : qn_kb_param(&l->b, (uint32_t)in->imm);
  put(l, (lword){{v, none}});
}

static void lower_iota(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  uint32_t n = part_lanes(l, in->lanes);
  for (uint32_t p = 0; p < parts_of(l, in->lanes); ++p)
    put(l, (lword){{qs_add(l->s, qn_kb_iota(&l->b, n), qs_bits(l->s, QN_I32, p * n)), none}});
}

static void lower_splat(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  lword x = part_of(l, in->a, 0), y = {{none, none}};
  for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
    y.w[w] = qn_kb_splat(&l->b, x.w[w], part_lanes(l, in->lanes));
  for (uint32_t p = 0; p < parts_of(l, in->lanes); ++p)
    put(l, y);
}

static void lower_extract(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  uint32_t n = part_lanes(l, inst(l, in->a)->lanes), lane = (uint32_t)in->imm;
  lword x = part_of(l, in->a, lane / n), y = {{none, none}};
  for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
    y.w[w] = qn_kb_extract(&l->b, x.w[w], lane % n);
  put(l, y);
}

static void lower_half(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  bool high = in->kop == QN_K_HIGH;
  uint32_t source = parts_of(l, 2u * in->lanes), parts = parts_of(l, in->lanes);
  for (uint32_t p = 0; p < parts; ++p) {
    if (source > 1) { /* whole parts */
      put(l, part_of(l, in->a, high ? source / 2 + p : p));
      continue;
    }
    lword x = part_of(l, in->a, 0), y = {{none, none}};
    for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
      y.w[w] = high ? qn_kb_high(&l->b, x.w[w]) : qn_kb_low(&l->b, x.w[w]);
    put(l, y);
  }
}

static void lower_join(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  if (parts_of(l, in->lanes) == 1) {
    lword x = part_of(l, in->a, 0), y = part_of(l, in->b, 0), z = {{none, none}};
    for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
      z.w[w] = qn_kb_join(&l->b, x.w[w], y.w[w]);
    put(l, z);
    return;
  }
  uint32_t each = parts_of(l, in->lanes / 2u);
  for (uint32_t p = 0; p < each; ++p)
    put(l, part_of(l, in->a, p));
  for (uint32_t p = 0; p < each; ++p)
    put(l, part_of(l, in->b, p));
}

/* ---- variables and arrays ---- */

static void lower_var(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  for (uint32_t p = 0; p < parts_of(l, in->lanes); ++p) {
    lword x = part_of(l, in->a, p), y = {{none, none}};
    for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
      y.w[w] = in->kop == QN_K_VAR ? qn_kb_var(&l->b, x.w[w]) : qn_kb_get(&l->b, x.w[w]);
    put(l, y);
  }
}

static void lower_set(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  const qn_kinst *var = inst(l, in->a);
  for (uint32_t p = 0; p < parts_of(l, var->lanes); ++p)
    for (unsigned w = 0; w < words_of(l, (qn_dtype)var->dtype); ++w)
      qn_kb_set(&l->b, part_of(l, in->a, p).w[w], part_of(l, in->b, p).w[w]);
}

static void lower_array(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  lword y = {{none, none}};
  for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
    y.w[w] = qn_kb_array(&l->b, qn_legal_held(l, (qn_dtype)in->dtype), (uint32_t)in->imm, in->aux != 0);
  put(l, y);
}

/* An index as a 32-bit integer: devices without 64-bit integers have no buffer that needs more. */
static qn_sval index_part(legalizer *l, uint32_t id, uint32_t part) { return part_of(l, id, part).w[0]; }

static qn_sval index_plus(legalizer *l, qn_sval index, uint32_t n) {
  qn_dtype t = l->s->dtype(l->s, index);
  return n ? qs_add(l->s, index, qs_bits(l->s, t, n)) : index;
}

static void lower_aload(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  lword array = part_of(l, in->a, 0);
  uint32_t n = part_lanes(l, in->lanes);
  for (uint32_t p = 0; p < parts_of(l, in->lanes); ++p) {
    lword y = {{none, none}};
    for (unsigned w = 0; w < words_of(l, (qn_dtype)in->dtype); ++w)
      y.w[w] = qn_kb_aload(&l->b, array.w[w], index_plus(l, index_part(l, in->b, 0), p * n), n);
    put(l, y);
  }
}

static void lower_astore(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  lword array = part_of(l, in->a, 0);
  const qn_kinst *value = inst(l, in->c);
  uint32_t n = part_lanes(l, value->lanes);
  for (uint32_t p = 0; p < parts_of(l, value->lanes); ++p)
    for (unsigned w = 0; w < words_of(l, (qn_dtype)value->dtype); ++w)
      qn_kb_astore(&l->b, array.w[w], index_plus(l, index_part(l, in->b, 0), p * n), part_of(l, in->c, p).w[w]);
}

/* ---- memory ---- */

static void lower_read(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  bool gather = in->kop == QN_K_GATHER;
  uint32_t n = part_lanes(l, in->lanes);
  for (uint32_t p = 0; p < parts_of(l, in->lanes); ++p) {
    qn_sval index = gather ? index_part(l, in->b, p) : index_plus(l, index_part(l, in->b, 0), p * n);
    qn_sval mask = in->c ? part_of(l, in->c, gather ? p : 0).w[0] : none;
    put(l, qn_legal_load(l, in->aux, index, n, mask, gather));
  }
}

static void lower_write(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  bool scatter = in->kop == QN_K_SCATTER;
  uint32_t lanes = inst(l, in->c)->lanes, n = part_lanes(l, lanes);
  for (uint32_t p = 0; p < parts_of(l, lanes); ++p) {
    qn_sval index = scatter ? index_part(l, in->b, p) : index_plus(l, index_part(l, in->b, 0), p * n);
    qn_sval mask = in->d ? part_of(l, in->d, scatter ? p : 0).w[0] : none;
    qn_legal_store(l, in->aux, index, part_of(l, in->c, p), n, mask, scatter);
  }
}

static void lower_atomic(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  qn_kb_atomic(&l->b, in->kop == QN_K_ATOMIC_OR, l->views[in->aux].buffer, index_part(l, in->b, 0), word_of(l, in->c),
               word_of(l, in->d));
}

/* ---- control ---- */

/* A 64-bit index is counted in 32 bits from zero and made from the count: rounds are fewer than 2^32 on such devices. */
static void lower_pair_loop(legalizer *l, const qn_kinst *in) {
  bool is_signed = qn_dtype_is_signed((qn_dtype)in->dtype);
  lword begin = part_of(l, in->a, 0), end = part_of(l, in->b, 0);
  lword bounds[2] = {begin, end}, span[2] = {end, begin};
  qn_sval runs = qn_pair_op(l, QN_S_LT, is_signed, bounds).w[0];
  lword count = qn_pair_op(l, QN_S_SUB, false, span);
  if (in->imm > 1) {
    lword up[2] = {count, qn_legal_const(l, QN_U64, in->imm - 1)};
    lword by[2] = {qn_pair_op(l, QN_S_ADD, false, up), qn_legal_const(l, QN_U64, in->imm)};
    count = qn_pair_op(l, QN_S_IDIV, false, by);
  }
  qn_sval rounds = qs_select(l->s, runs, count.w[0], lu32(l, 0));
  lword n = {{qn_kb_loop(&l->b, lu32(l, 0), rounds, 1, in->aux != 0), lu32(l, 0)}};
  lword scale[2] = {n, qn_legal_const(l, QN_U64, in->imm)};
  lword sum[2] = {begin, qn_pair_op(l, QN_S_MUL, false, scale)};
  put(l, qn_pair_op(l, QN_S_ADD, false, sum));
}

static void lower_control(legalizer *l, uint32_t i, const qn_kinst *in) {
  (void)i;
  switch (in->kop) {
  case QN_K_LOOP:
    if (qn_legal_hold(l, (qn_dtype)in->dtype) == HOLD_PAIR)
      lower_pair_loop(l, in);
    else
      put(l, (lword){{qn_kb_loop(&l->b, word_of(l, in->a), word_of(l, in->b), in->imm, in->aux != 0), none}});
    break;
  case QN_K_IF:
    qn_kb_if(&l->b, word_of(l, in->a));
    break;
  case QN_K_ELSE:
    qn_kb_else(&l->b);
    break;
  case QN_K_END:
    qn_kb_close(&l->b);
    break;
  default:
    qn_kb_barrier(&l->b);
    break;
  }
}

static const lower_fn lowerings[QN_K_COUNT] = {
    [QN_K_SCALAR] = lower_scalar,   [QN_K_GROUP] = lower_leaf,        [QN_K_ITEM] = lower_leaf,
    [QN_K_PARAM] = lower_leaf,      [QN_K_SPLAT] = lower_splat,       [QN_K_IOTA] = lower_iota,
    [QN_K_EXTRACT] = lower_extract, [QN_K_LOW] = lower_half,          [QN_K_HIGH] = lower_half,
    [QN_K_JOIN] = lower_join,       [QN_K_VAR] = lower_var,           [QN_K_GET] = lower_var,
    [QN_K_SET] = lower_set,         [QN_K_ARRAY] = lower_array,       [QN_K_ALOAD] = lower_aload,
    [QN_K_ASTORE] = lower_astore,   [QN_K_LOAD] = lower_read,         [QN_K_STORE] = lower_write,
    [QN_K_GATHER] = lower_read,     [QN_K_SCATTER] = lower_write,     [QN_K_LOOP] = lower_control,
    [QN_K_IF] = lower_control,      [QN_K_ELSE] = lower_control,      [QN_K_END] = lower_control,
    [QN_K_BARRIER] = lower_control, [QN_K_ATOMIC_AND] = lower_atomic, [QN_K_ATOMIC_OR] = lower_atomic,
};

/* ---- the whole ---- */

static qn_status refuse_f64(const qn_kernel *k, const qn_device_caps *caps) {
  if (caps->f64)
    return QN_OK;
  for (size_t i = 1; i < k->count; ++i)
    if (qn_kop_infos[k->insts[i].kop].value && k->insts[i].dtype == QN_F64)
      return QN_ERR(QN_UNSUPPORTED, "kernel %s: %s of f64, which %s (%s) does not have", k->name,
                    k->insts[i].kop == QN_K_SCALAR ? qn_sop_name((qn_sop)k->insts[i].sop)
                                                   : qn_kop_name((qn_kop)k->insts[i].kop),
                    caps->id, caps->name);
  return QN_OK;
}

static uint32_t lane_limit(const qn_device_caps *caps) {
  uint32_t most = caps->format == QN_CODE_SPIRV ? 4 : 16, want = caps->vector_lanes ? caps->vector_lanes : most, n = 1;
  while (2 * n <= want && 2 * n <= most)
    n *= 2;
  return n;
}

static void walk_range(legalizer *l, uint32_t from, uint32_t to);

static uint32_t end_of(const qn_kernel *k, uint32_t open) {
  uint32_t i = open + 1;
  for (int depth = 1;; ++i) {
    depth += (k->insts[i].kop == QN_K_LOOP || k->insts[i].kop == QN_K_IF) - (k->insts[i].kop == QN_K_END);
    if (depth == 0)
      return i;
  }
}

static void copy_body(legalizer *l, uint32_t open, uint32_t close, qn_sval index) {
  l->first[open] = (uint32_t)l->pool_count;
  put(l, (lword){{index, none}});
  walk_range(l, open + 1, close);
}

/* A loop with `factor` copies of its body in a round; what's left over comes behind it, or is skipped where the bounds are not constant. */
static void unroll(legalizer *l, uint32_t open, uint32_t close, uint32_t factor) {
  const qn_kinst *in = inst(l, open);
  qn_dtype t = type_of(l, open);
  qn_sval begin = word_of(l, in->a), end = word_of(l, in->b);
  uint64_t first, last;
  bool known = qn_kb_const(&l->b, begin.id, &first) && qn_kb_const(&l->b, end.id, &last);
  int64_t span = known ? (int64_t)(int32_t)last - (int32_t)first : 0, step = (int64_t)in->imm;
  int64_t rounds = span > 0 ? (span + step - 1) / step : 0, left = rounds % factor, whole = (rounds - left) * step;
  qn_sval stop = known ? qs_add(l->s, begin, qs_bits(l->s, t, (uint64_t)whole)) : end;
  qn_sval index = qn_kb_loop(&l->b, begin, stop, in->imm * factor, in->aux != 0);
  for (uint32_t c = 0; c < factor; ++c) {
    qn_sval here = qs_add(l->s, index, qs_bits(l->s, t, (uint64_t)(c * step)));
    if (!known && c > 0)
      qn_kb_if(&l->b, qs_lt(l->s, here, end));
    copy_body(l, open, close, here);
    if (!known && c > 0)
      qn_kb_close(&l->b);
  }
  qn_kb_close(&l->b);
  for (int64_t c = 0; c < left; ++c)
    copy_body(l, open, close, qs_add(l->s, stop, qs_bits(l->s, t, (uint64_t)(c * step))));
}

static void walk_range(legalizer *l, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to && !l->b.kernel->failed && l->st == QN_OK; ++i) {
    l->first[i] = (uint32_t)l->pool_count;
    if (l->factors[i] > 1) {
      uint32_t close = end_of(l->k, i);
      unroll(l, i, close, l->factors[i]);
      i = close;
    } else {
      lowerings[l->k->insts[i].kop](l, i, &l->k->insts[i]);
    }
  }
}

static qn_status walk(legalizer *l) {
  l->s = &l->b.sink;
  if (!qn_legal_views(l))
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel %s: no memory to legalize it", l->k->name);
  walk_range(l, 1, (uint32_t)l->k->count);
  return l->st;
}

qn_status qn_kernel_legalize(const qn_kernel *k, const qn_device_caps *caps, qn_kernel *out_kernel) {
  *out_kernel = (qn_kernel){.items = k->items, .param_count = k->param_count, .binding_count = k->binding_count};
  QN_TRY(refuse_f64(k, caps));
  legalizer l = {.k = k, .caps = caps, .max_lanes = lane_limit(caps), .wide64 = caps->format != QN_CODE_SPIRV};
  qn_status st = qn_kbuild_begin(&l.b, out_kernel), ended = QN_OK;
  if (st == QN_OK) {
    l.first = calloc(k->count, sizeof *l.first);
    l.views = calloc(k->buffer_count + 1, sizeof *l.views);
    l.factors = calloc(k->count, sizeof *l.factors);
    st = l.first && l.views && l.factors ? qn_loops_fit(k, caps, l.factors)
                                         : QN_ERR(QN_OUT_OF_MEMORY, "kernel %s: no memory to legalize it", k->name);
    st = st == QN_OK ? walk(&l) : st;
    if (st == QN_OK)
      QN_TRY_GOTO(ended, qn_kbuild_end(&l.b), done);
    else
      qn_kbuild_abandon(&l.b);
  }
done:
  free(l.first);
  free(l.factors);
  free(l.views);
  free(l.pool);
  st = st != QN_OK ? st : ended;
  if (st != QN_OK)
    qn_kernel_free(out_kernel);
  return st;
}
