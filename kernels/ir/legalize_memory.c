/* Loads and stores of dtypes that memory or registers of the device lack. 64-bit integers are two neighbouring words. 8- and 16-bit elements
 * without such storage share words: a vector that covers whole words stores them, anything else clears and sets its bits by atomic steps, so
 * that neighbours written by other items survive. */
#include "legalize.h"

static const qn_sval none = {0};

static qn_dtype memory_dtype(const legalizer *l, qn_dtype t) { return qn_legal_hold(l, t) == HOLD_HALF ? QN_U16 : t; }

bool qn_legal_views(legalizer *l) {
  for (size_t i = 0; i < l->k->buffer_count; ++i) {
    const qn_kbuffer *b = &l->k->buffers[i];
    size_t size = qn_dtype_size(b->dtype);
    bool stored = size == 1 ? l->caps->storage8 : size == 2 ? l->caps->storage16 : true;
    lview v = {.kind = VIEW_DIRECT, .memory = memory_dtype(l, b->dtype)};
    int32_t shift = 0;
    if (!stored) {
      v.kind = VIEW_PACKED;
      v.shift = size == 1 ? 2 : 1;
      shift = -(int32_t)v.shift;
    } else if (qn_legal_hold(l, b->dtype) == HOLD_PAIR) {
      v.kind = VIEW_PAIR;
      shift = 1;
    }
    if (v.kind != VIEW_DIRECT)
      v.memory = QN_U32;
    uint32_t align = shift > 0 ? b->align << shift : shift < 0 ? b->align >> -shift : b->align;
    v.buffer = qn_kb_buffer(&l->b, v.memory, b->binding, b->offset_param, b->read, b->written, align);
    if (l->b.kernel->failed)
      return false;
    l->b.kernel->buffers[v.buffer].offset_shift = b->offset_shift + shift;
    l->views[i] = v;
  }
  return true;
}

/* ---- elements as they are ---- */

/* What a direct load gives, as the value is held. */
static lword hold(legalizer *l, qn_dtype t, qn_sval v) {
  if (qn_legal_hold(l, t) != HOLD_SAME)
    v = qs_convert(l->s, qn_legal_held(l, t), v);
  return (lword){{v, none}};
}

static qn_sval unhold(legalizer *l, qn_dtype t, qn_sval v) {
  qn_dtype memory = memory_dtype(l, t);
  return qn_legal_hold(l, t) == HOLD_SAME ? v : qs_convert(l->s, memory, v);
}

/* ---- pairs ---- */

static qn_sval index_const(legalizer *l, qn_sval index, uint32_t x) {
  return qs_bits(l->s, l->s->dtype(l->s, index), x);
}

/* The words' indexes: vectors where there are lanes, whether consecutive or not. */
static qn_sval pair_index(legalizer *l, qn_sval index, uint32_t lanes, bool vector, uint32_t word) {
  qn_sink *s = l->s;
  qn_sval twice = qs_shl(s, index, index_const(l, index, 1));
  if (lanes > 1 && !vector) {
    qn_sval iota = qs_convert(s, s->dtype(s, index), qn_kb_iota(&l->b, lanes));
    twice = qs_add(s, twice, qs_shl(s, iota, index_const(l, index, 1)));
  }
  return word ? qs_add(s, twice, index_const(l, index, word)) : twice;
}

/* ---- packed elements ---- */

typedef struct packed {
  qn_sval element; /* index counted from the view's first word */
  uint32_t per_word;
  unsigned bits;
} packed;

static packed packed_at(legalizer *l, uint32_t view, qn_sval index) {
  const qn_kbuffer *b = &l->k->buffers[view];
  packed p = {.per_word = 1u << l->views[view].shift, .bits = 32u >> l->views[view].shift};
  qn_sval i = qs_convert(l->s, QN_U32, index);
  if (b->align % p.per_word || b->offset_shift) /* the view starts inside a word */
    i = qs_add(l->s, i, qs_and(l->s, qn_kb_param(&l->b, b->offset_param), lu32(l, p.per_word - 1)));
  p.element = i;
  return p;
}

static qn_sval word_index(legalizer *l, uint32_t view, qn_sval element) {
  return qs_shr(l->s, element, lu32(l, l->views[view].shift));
}

static qn_sval bit_place(legalizer *l, packed p, qn_sval element) {
  return qs_mul(l->s, qs_and(l->s, element, lu32(l, p.per_word - 1)), lu32(l, p.bits));
}

static uint32_t low_bits(packed p) { return p.bits == 32 ? UINT32_MAX : (UINT32_C(1) << p.bits) - 1; }

/* Does a vector of lanes at p.element begin at a word and cover whole ones? */
static bool whole_words(legalizer *l, packed p, uint32_t lanes) {
  return lanes >= p.per_word && qn_kernel_divisor(l->b.kernel, p.element.id) % p.per_word == 0;
}

static qn_sval join_all(legalizer *l, qn_sval *v, uint32_t n) {
  for (; n > 1; n /= 2)
    for (uint32_t i = 0; i < n / 2; ++i)
      v[i] = qn_kb_join(&l->b, v[2 * i], v[2 * i + 1]);
  return v[0];
}

static qn_sval load_words(legalizer *l, uint32_t view, packed p, uint32_t lanes, qn_sval mask) {
  qn_sval out[16],
      words = qn_kb_load(&l->b, l->views[view].buffer, word_index(l, view, p.element), lanes / p.per_word, mask);
  for (uint32_t i = 0; i < lanes; ++i) {
    qn_sval w = qn_kb_extract(&l->b, words, i / p.per_word);
    out[i] = qs_and(l->s, qs_shr(l->s, w, lu32(l, i % p.per_word * p.bits)), lu32(l, low_bits(p)));
  }
  return join_all(l, out, lanes);
}

static qn_sval packed_load(legalizer *l, uint32_t view, qn_sval index, uint32_t lanes, qn_sval mask, bool gather) {
  packed p = packed_at(l, view, index);
  if (!gather && whole_words(l, p, lanes))
    return load_words(l, view, p, lanes, mask);
  qn_sval e = gather ? p.element : qs_add(l->s, p.element, qs_convert(l->s, QN_U32, qn_kb_iota(&l->b, lanes)));
  qn_sval w = qn_kb_gather(&l->b, l->views[view].buffer, word_index(l, view, e), mask);
  return qs_and(l->s, qs_shr(l->s, w, bit_place(l, p, e)), lu32(l, low_bits(p)));
}

static void store_words(legalizer *l, uint32_t view, packed p, qn_sval bits, uint32_t lanes, qn_sval mask) {
  qn_sval words[16];
  for (uint32_t i = 0; i < lanes; ++i) {
    qn_sval part = qs_shl(l->s, qn_kb_extract(&l->b, bits, i), lu32(l, i % p.per_word * p.bits));
    words[i / p.per_word] = i % p.per_word ? qs_or(l->s, words[i / p.per_word], part) : part;
  }
  uint32_t count = lanes / p.per_word;
  qn_kb_store(&l->b, l->views[view].buffer, word_index(l, view, p.element), join_all(l, words, count), mask);
}

static void packed_store(legalizer *l, uint32_t view, qn_sval index, qn_sval bits, uint32_t lanes, qn_sval mask,
                         bool scatter) {
  qn_sink *s = l->s;
  packed p = packed_at(l, view, index);
  bits = qn_kb_splat(&l->b, bits, lanes);
  if (!scatter && whole_words(l, p, lanes)) {
    store_words(l, view, p, bits, lanes, mask);
    return;
  }
  for (uint32_t i = 0; i < lanes; ++i) {
    qn_sval e = scatter ? qn_kb_extract(&l->b, p.element, i) : qs_add(s, p.element, lu32(l, i));
    qn_sval m = mask.id && scatter ? qn_kb_extract(&l->b, mask, i) : mask;
    qn_sval place = bit_place(l, p, e), at = word_index(l, view, e);
    qn_kb_atomic(&l->b, false, l->views[view].buffer, at, qs_not(s, qs_shl(s, lu32(l, low_bits(p)), place)), m);
    qn_kb_atomic(&l->b, true, l->views[view].buffer, at, qs_shl(s, qn_kb_extract(&l->b, bits, i), place), m);
  }
}

/* ---- any ---- */

lword qn_legal_load(legalizer *l, uint32_t view, qn_sval index, uint32_t lanes, qn_sval mask, bool gather) {
  const lview *v = &l->views[view];
  qn_dtype t = l->k->buffers[view].dtype;
  gather = gather && lanes > 1;
  if (v->kind == VIEW_PACKED)
    return (lword){{qn_legal_from_bits(l, t, packed_load(l, view, index, lanes, mask, gather)), none}};
  if (v->kind == VIEW_PAIR) {
    lword y = {{none, none}};
    for (uint32_t w = 0; w < 2; ++w)
      y.w[w] = qn_kb_gather(&l->b, v->buffer, pair_index(l, index, lanes, gather, w), mask);
    return y;
  }
  return hold(l, t,
              gather ? qn_kb_gather(&l->b, v->buffer, index, mask) : qn_kb_load(&l->b, v->buffer, index, lanes, mask));
}

void qn_legal_store(legalizer *l, uint32_t view, qn_sval index, lword value, uint32_t lanes, qn_sval mask,
                    bool scatter) {
  const lview *v = &l->views[view];
  qn_dtype t = l->k->buffers[view].dtype;
  scatter = scatter && lanes > 1;
  if (v->kind == VIEW_PACKED) {
    packed_store(l, view, index, qn_legal_to_bits(l, t, value.w[0]), lanes, mask, scatter);
  } else if (v->kind == VIEW_PAIR) {
    for (uint32_t w = 0; w < 2; ++w)
      qn_kb_scatter(&l->b, v->buffer, pair_index(l, index, lanes, scatter, w), qn_kb_splat(&l->b, value.w[w], lanes),
                    mask);
  } else if (scatter) {
    qn_kb_scatter(&l->b, v->buffer, index, unhold(l, t, value.w[0]), mask);
  } else {
    qn_kb_store(&l->b, v->buffer, index, qn_kb_splat(&l->b, unhold(l, t, value.w[0]), lanes), mask);
  }
}
