/* Values at an index: the scalar expression of a part, inlined through everything that isn't in memory.
 *
 * qn_emit_value walks from a value to loads, moving the index as each operation says. Equal (value, index, mask) requests within a scope share one
 * result. Masks guard loads only: masked-off lanes read as zero and what is computed from them is never stored. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

/* ---- failures, masks ---- */

void qn_emit_fail(qn_emit *e, qn_status st) {
  if (e->status == QN_OK)
    e->status = st;
}

qn_sval qn_emit_and(qn_emit *e, qn_sval a, qn_sval b) {
  if (!a.id || !b.id)
    return a.id ? a : b;
  return qs_and(e->k, a, b);
}

qn_sval qn_emit_lane_mask(qn_emit *e, qn_sval base, int64_t limit) {
  qn_ix lane = qn_ix_lanes(e, base, 1, 1);
  return qs_lt(e->k, qn_ix_value(e, lane), qn_emit_i32(e, limit));
}

static const qn_type *type_of(const qn_emit *e, uint32_t v) { return qn_graph_type(e->s->g, v); }

/* ---- memo ---- */

typedef struct memo_entry {
  uint32_t value, mask, rank, next;
  size_t index; /* of its index tuple in the pool */
  qn_sval result;
} memo_entry;
enum { MEMO_BUCKETS = 1024 };
struct emit_memo {
  memo_entry *entries;
  size_t count, capacity;
  qn_ix *pool;
  size_t pool_count, pool_capacity;
  uint32_t buckets[MEMO_BUCKETS]; /* entry + 1 */
};

static uint32_t memo_hash(uint32_t value, const qn_ix *idx, int rank, qn_sval mask) {
  uint64_t h = qn_hash_u64(QN_HASH_INIT, ((uint64_t)value << 32) | mask.id);
  for (int i = 0; i < rank; i++)
    h = qn_hash_u64(h, ((uint64_t)idx[i].base.id << 32) ^ idx[i].vec.id ^ ((uint64_t)idx[i].stride << 17));
  return (uint32_t)(h % MEMO_BUCKETS);
}

static bool memo_same(const emit_memo *m, const memo_entry *x, uint32_t value, const qn_ix *idx, int rank,
                      qn_sval mask) {
  if (x->value != value || x->mask != mask.id)
    return false;
  for (int i = 0; i < rank; i++)
    if (!qn_ix_same(&m->pool[x->index + (size_t)i], &idx[i]))
      return false;
  return true;
}

static qn_sval memo_find(qn_emit *e, uint32_t value, const qn_ix *idx, int rank, qn_sval mask) {
  const emit_memo *m = e->memo;
  if (!m)
    return (qn_sval){0};
  for (uint32_t i = m->buckets[memo_hash(value, idx, rank, mask)]; i; i = m->entries[i - 1].next)
    if (memo_same(m, &m->entries[i - 1], value, idx, rank, mask))
      return m->entries[i - 1].result;
  return (qn_sval){0};
}

static void memo_add(qn_emit *e, uint32_t value, const qn_ix *idx, int rank, qn_sval mask, qn_sval result) {
  if (!e->memo && !(e->memo = calloc(1, sizeof *e->memo)))
    return;
  emit_memo *m = e->memo;
  if (!QN_RESERVE(m->entries, m->capacity, m->count + 1) ||
      !QN_RESERVE(m->pool, m->pool_capacity, m->pool_count + (size_t)rank + 1))
    return; /* only costs time */
  if (rank)
    memcpy(m->pool + m->pool_count, idx, (size_t)rank * sizeof *idx);
  uint32_t *bucket = &m->buckets[memo_hash(value, idx, rank, mask)];
  m->entries[m->count] = (memo_entry){value, mask.id, (uint32_t)rank, *bucket, m->pool_count, result};
  m->pool_count += (size_t)rank;
  *bucket = (uint32_t)++m->count;
}

size_t qn_emit_memo_mark(qn_emit *e) { return e->memo ? e->memo->count : 0; }

void qn_emit_memo_drop(qn_emit *e, size_t mark) {
  emit_memo *m = e->memo;
  while (m && m->count > mark) {
    memo_entry *x = &m->entries[--m->count];
    m->buckets[memo_hash(x->value, m->pool + x->index, (int)x->rank, (qn_sval){x->mask})] = x->next;
    m->pool_count = x->index;
  }
}

void qn_emit_override(qn_emit *e, uint32_t value, qn_sval val) {
  if (!QN_RESERVE(e->overrides, e->override_capacity, e->override_count + 1)) {
    qn_emit_fail(e, QN_ERR(QN_OUT_OF_MEMORY, "no memory to build a kernel"));
    return;
  }
  e->overrides[e->override_count++] = (emit_override){value, val};
}

void qn_emit_overrides_drop(qn_emit *e, size_t count) { e->override_count = count; }

/* ---- memory ---- */

/* A view on a place of a slab. */
static uint32_t view(qn_emit *e, uint32_t slab, uint64_t bytes, qn_dtype dtype, bool write) {
  if (!e->slab_binding[slab]) {
    if (e->binding_count == QN_MAX_BINDINGS) {
      qn_emit_fail(e, QN_ERR(QN_OUT_OF_MEMORY, "a kernel needs more than %d buffers", QN_MAX_BINDINGS));
      return 0;
    }
    e->bindings[e->binding_count] = slab;
    e->slab_binding[slab] = ++e->binding_count;
  }
  /* Two values at one place (a donated result over its argument) must be seen as one by the kernel's optimiser: they share the offset's word. */
  uint32_t offset = (uint32_t)(bytes / qn_dtype_size(dtype)), binding = e->slab_binding[slab] - 1, word = 0;
  for (size_t i = 0; i < e->b->kernel->buffer_count && !word; i++) {
    const qn_kbuffer *kb = &e->b->kernel->buffers[i];
    if (kb->binding == binding && kb->dtype == dtype && e->params[kb->offset_param] == offset)
      word = kb->offset_param;
  }
  if (!word)
    word = qn_kb_new_param(e->b);
  if (!QN_RESERVE(e->params, e->param_capacity, (size_t)word + 1)) {
    qn_emit_fail(e, QN_ERR(QN_OUT_OF_MEMORY, "no memory for launch parameters"));
    return 0;
  }
  if (word >= e->param_count)
    e->param_count = (size_t)word + 1;
  e->params[word] = offset;
  return qn_kb_buffer(e->b, dtype, binding, word, !write, write, (uint32_t)(QN_SLAB_ALIGN / qn_dtype_size(dtype)));
}

uint32_t qn_emit_buffer(qn_emit *e, uint32_t value, bool write) {
  uint32_t *slot = &e->buffers[value];
  if (*slot) {
    qn_kbuffer *kb = &e->b->kernel->buffers[*slot - 1];
    kb->read |= !write;
    kb->written |= write;
    return *slot - 1;
  }
  const sched_value *sv = &e->s->values[value];
  uint32_t buffer = view(e, sv->slab, sv->offset, type_of(e, value)->dtype, write);
  if (e->status == QN_OK)
    *slot = 1 + buffer;
  return buffer;
}

qn_sval qn_emit_flag(qn_emit *e, const sched_guard *guard) {
  uint32_t buffer = view(e, guard->slab, guard->offset, QN_BOOL, false);
  return qn_kb_load(e->b, buffer, qn_emit_i32(e, 0), 1, (qn_sval){0});
}

static qn_sval vector_mask(qn_emit *e, qn_sval mask) {
  return mask.id && qn_kb_lanes(e->b, mask) == 1 && e->lanes > 1 ? qn_kb_splat(e->b, mask, e->lanes) : mask;
}

/* Does this part write its result where the value lies? */
static bool overwrites(const qn_emit *e, uint32_t value) {
  const sched_value *v = &e->s->values[value];
  for (size_t i = 0; v->home == HOME_ARG && i < e->part->output_count; i++) {
    const sched_value *o = &e->s->values[e->part->outputs[i]];
    if (o->home == HOME_RESULT && o->slab == v->slab && o->offset == v->offset)
      return true;
  }
  return false;
}

/* Drivers turn a masked load into a branch a lane, which costs them dearly to compile and to run: there, masked-off lanes read element 0 instead, or
 * what the first lane reads, if it is on, where another item may be writing element 0. Host code has masked loads. */
static qn_sval redirect(qn_emit *e, uint32_t value, qn_ix *at, qn_sval mask) {
  if (!mask.id || e->s->caps->device_class == QN_CLASS_CPU_NATIVE)
    return mask;
  bool vector = qn_kb_lanes(e->b, mask) > 1;
  if (!vector && !at->vec.id) {
    at->base = qs_select(e->k, mask, at->base, qn_emit_i32(e, 0));
    return (qn_sval){0};
  }
  qn_sval v = qn_ix_value(e, *at), other = qn_emit_i32(e, 0);
  if (vector && overwrites(e, value)) {
    qn_sval first = qn_kb_lanes(e->b, v) > 1 ? qn_kb_extract(e->b, v, 0) : v;
    other = qs_select(e->k, qn_kb_extract(e->b, mask, 0), first, other);
  }
  *at = qn_ix_vector(e, qs_select(e->k, mask, v, other));
  return (qn_sval){0};
}

static qn_sval load(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval mask) {
  uint32_t buffer = qn_emit_buffer(e, value, false);
  qn_ix at = qn_ix_offset(e, idx, type_of(e, value));
  mask = redirect(e, value, &at, mask);
  bool vmask = mask.id && qn_kb_lanes(e->b, mask) > 1;
  if (!at.vec.id && !vmask && at.stride == 0)
    return qn_kb_load(e->b, buffer, at.base, 1, mask);
  if (!at.vec.id && !vmask && at.stride == 1)
    return qn_kb_load(e->b, buffer, at.base, e->lanes, mask);
  qn_sval v = qn_ix_value(e, at);
  if (qn_kb_lanes(e->b, v) == 1)
    v = qn_kb_splat(e->b, v, e->lanes);
  return qn_kb_gather(e->b, buffer, v, vector_mask(e, mask));
}

qn_sval qn_emit_reload(qn_emit *e, uint32_t value, const qn_ix *idx) { return load(e, value, idx, (qn_sval){0}); }

void qn_emit_store(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval val, qn_sval mask) {
  if (e->status != QN_OK)
    return;
  uint32_t buffer = qn_emit_buffer(e, value, true);
  qn_ix at = qn_ix_offset(e, idx, type_of(e, value));
  bool vmask = mask.id && qn_kb_lanes(e->b, mask) > 1;
  if (!at.vec.id && at.stride == 0) {
    qn_kb_store(e->b, buffer, at.base, val, mask);
    return;
  }
  if (qn_kb_lanes(e->b, val) == 1)
    val = qn_kb_splat(e->b, val, e->lanes);
  if (!at.vec.id && !vmask && at.stride == 1)
    qn_kb_store(e->b, buffer, at.base, val, mask);
  else
    qn_kb_scatter(e->b, buffer, qn_ix_value(e, at), val, vector_mask(e, mask));
}

/* ---- elementwise ---- */

static qn_sval convert_to(qn_emit *e, qn_dtype to, qn_sval x) {
  qn_dtype from = e->k->dtype(e->k, x);
  if (from == QN_F16 || from == QN_BF16)
    x = qs_convert(e->k, QN_F32, x);
  if (from == to)
    return qs_convert(e->k, to, x);
  if (to != QN_F16 && to != QN_BF16)
    return qn_expand_convert(e->k, to, x);
  return qs_convert(e->k, to, qn_expand_convert(e->k, QN_F32, x));
}

static qn_sval elementwise(qn_emit *e, const qn_node *n, qn_dtype result, const qn_sval *in) {
  const qn_op_def *def = qn_op_get(n->op);
  if (n->op == QN_OP_CONVERT)
    return convert_to(e, result, in[0]);
  if (n->op == QN_OP_BITCAST_CONVERT)
    return qs_bitcast(e->k, result, in[0]);
  qn_sval wide[8];
  if (!def->expand || n->operand_count > 8 || qn_dtype_is_complex(result)) {
    qn_emit_fail(
        e, QN_ERR(QN_UNSUPPORTED, "%s: %s has no kernel form on %s", def->name, qn_dtype_name(result), e->s->caps->id));
    return qn_emit_i32(e, 0);
  }
  for (int i = 0; i < n->operand_count; i++) {
    qn_dtype t = e->k->dtype(e->k, in[i]);
    wide[i] = def->native_narrow ? in[i] : qs_convert(e->k, qn_dtype_wide(t), in[i]);
  }
  qn_sval out = def->expand(e->k, wide, n->attr);
  return qs_convert(e->k, result, out);
}

static qn_sval emit_elementwise(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  qn_sval in[8];
  for (int i = 0; i < n->operand_count && i < 8; i++)
    in[i] = qn_emit_value(e, n->operands[i], idx, mask);
  return elementwise(e, n, t->dtype, in);
}

void qn_emit_region(qn_emit *e, const qn_graph *region, const qn_sval *args, qn_sval *out) {
  size_t count = qn_graph_value_count(region);
  qn_sval *vals = calloc(count + 1, sizeof *vals);
  if (!vals) {
    qn_emit_fail(e, QN_ERR(QN_OUT_OF_MEMORY, "no memory to build a kernel"));
    for (size_t i = 0; i < qn_graph_result_count(region); i++)
      out[i] = args[0];
    return;
  }
  for (size_t i = 0; i < qn_graph_param_count(region); i++)
    vals[qn_graph_param_at(region, i)] = args[i];
  for (size_t i = 0; i < qn_graph_node_count(region); i++) {
    const qn_node *n = qn_graph_node(region, i);
    uint32_t r = n->first_result;
    bool splat;
    const void *data = n->op == QN_OP_CONSTANT ? qn_graph_constant(region, r, &splat) : NULL;
    qn_dtype dt = qn_graph_type(region, r)->dtype;
    if (n->op == QN_OP_PARAMETER)
      continue;
    if (data) {
      uint64_t bits = 0;
      memcpy(&bits, data, qn_dtype_size(dt));
      vals[r] = qs_bits(e->k, dt, bits);
      continue;
    }
    if (qn_op_get(n->op)->kind != QN_KIND_ELEMENTWISE) {
      qn_emit_fail(e, QN_ERR(QN_UNSUPPORTED, "%s: not an elementwise operation, in the body of a reduction",
                             qn_op_get(n->op)->name));
      vals[r] = args[0];
      continue;
    }
    qn_sval in[8];
    for (int j = 0; j < n->operand_count && j < 8; j++)
      in[j] = vals[n->operands[j]];
    vals[r] = elementwise(e, n, dt, in);
  }
  for (size_t i = 0; i < qn_graph_result_count(region); i++)
    out[i] = vals[qn_graph_result(region, i)];
  free(vals);
}

/* ---- movement: result index to operand index ---- */

static qn_sval emit_broadcast(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  (void)t;
  const qn_dims *axes = &((const qn_attr_dims *)n->attr)->dims;
  const qn_type *in = type_of(e, n->operands[0]);
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < in->rank; i++)
    at[i] = in->dims[i] == 1 ? qn_ix_const(e, 0) : idx[axes->d[i]];
  return qn_emit_value(e, n->operands[0], at, mask);
}

/* Axes are matched in runs of equal products, so that only what is really split or merged is divided. */
static qn_sval emit_reshape(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_type *in = type_of(e, n->operands[0]);
  qn_ix at[QN_MAX_RANK];
  int i = 0, o = 0;
  while (i < in->rank || o < t->rank) {
    int i0 = i, o0 = o;
    int64_t pi = i < in->rank ? in->dims[i++] : 1, po = o < t->rank ? t->dims[o++] : 1;
    while (pi != po) {
      if (pi < po && i < in->rank)
        pi *= in->dims[i++];
      else if (o < t->rank)
        po *= t->dims[o++];
      else
        break;
    }
    if (i - i0 == 1 && o - o0 == 1) {
      at[i0] = idx[o0];
      continue;
    }
    qn_type run = {.rank = o - o0};
    memcpy(run.dims, t->dims + o0, (size_t)(o - o0) * sizeof *run.dims);
    qn_ix_delinearize(e, qn_ix_offset(e, idx + o0, &run), i - i0, in->dims + i0, at + i0);
  }
  return qn_emit_value(e, n->operands[0], at, mask);
}

static qn_sval emit_transpose(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_dims *perm = &((const qn_attr_dims *)n->attr)->dims;
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    at[perm->d[i]] = idx[i];
  return qn_emit_value(e, n->operands[0], at, mask);
}

static qn_sval emit_barrier(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  (void)t;
  return qn_emit_value(e, n->operands[0], idx, mask);
}

static qn_sval emit_reverse(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_dims *axes = &((const qn_attr_dims *)n->attr)->dims;
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    at[i] = idx[i];
  for (int i = 0; i < axes->n; i++)
    at[axes->d[i]] = qn_ix_sub_from(e, t->dims[axes->d[i]] - 1, at[axes->d[i]]);
  return qn_emit_value(e, n->operands[0], at, mask);
}

static qn_sval emit_slice(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_attr_slice *a = n->attr;
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    at[i] = qn_ix_add_const(e, qn_ix_mul_const(e, idx[i], a->stride.d[i]), a->start.d[i]);
  return qn_emit_value(e, n->operands[0], at, mask);
}

static qn_sval in_range(qn_emit *e, qn_ix at, int64_t lo, int64_t hi, int64_t least, int64_t most) {
  qn_sval ok = {0}, v = qn_ix_value(e, at);
  if (least < lo)
    ok = qs_ge(e->k, v, qn_emit_i32(e, lo));
  if (most >= hi)
    ok = qn_emit_and(e, ok, qs_lt(e->k, v, qn_emit_i32(e, hi)));
  return ok;
}

static qn_sval emit_pad(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_attr_pad *a = n->attr;
  const qn_type *in = type_of(e, n->operands[0]);
  qn_ix at[QN_MAX_RANK];
  qn_sval ok = {0};
  for (int i = 0; i < t->rank; i++) {
    int64_t step = a->interior.d[i] + 1;
    at[i] = qn_ix_add_const(e, idx[i], -a->low.d[i]);
    ok = qn_emit_and(e, ok,
                     in_range(e, at[i], 0, (in->dims[i] - 1) * step + 1, -a->low.d[i], t->dims[i] - 1 - a->low.d[i]));
    if (step == 1)
      continue;
    /* The remainder of a negative position doesn't matter: that lane is masked already. */
    qn_sval rest = qn_ix_value(e, qn_ix_mod_const(e, at[i], step));
    ok = qn_emit_and(e, ok, qs_eq(e->k, rest, qn_emit_i32(e, 0)));
    at[i] = qn_ix_div_const(e, at[i], step);
  }
  qn_sval value = qn_emit_value(e, n->operands[1], NULL, (qn_sval){0});
  if (!ok.id)
    return qn_emit_value(e, n->operands[0], at, mask);
  qn_sval x = qn_emit_value(e, n->operands[0], at, qn_emit_and(e, mask, ok));
  return qs_select(e->k, ok, x, value);
}

/* Along one axis: the operand's index of element `w` of window `o` (of `n`), and where it has one. */
static qn_sval window_index(qn_emit *e, const qn_attr_window *a, int axis, int64_t n, int64_t size, qn_ix o, qn_ix w,
                            qn_ix *out) {
  int64_t step = a->base_dilation.d[axis], dilation = a->window_dilation.d[axis], least = -a->pad_low.d[axis],
          most = (n - 1) * a->stride.d[axis] + least, count = a->size.d[axis];
  qn_ix at = qn_ix_mul_const(e, o, a->stride.d[axis]);
  qn_sval ok = {0};
  if (a->phased && step > 1 && (dilation == 1 || dilation == -1)) { /* the first of them, then by whole elements */
    int64_t up = dilation > 0 ? step - 1 : 0, lift = least < 0 ? (step - 1 - least) / step : 0,
            last = (count - 1) / step;
    at = qn_ix_add_const(e, at, least + lift * step + up);
    if (count % step) {
      qn_ix rest = qn_ix_mod_const(e, at, step), first = dilation > 0 ? qn_ix_sub_from(e, step - 1, rest) : rest;
      qn_sval element = qn_ix_value(e, last ? qn_ix_add(e, first, qn_ix_mul_const(e, w, step)) : first);
      ok = qs_lt(e->k, element, qn_emit_i32(e, count));
    }
    at = qn_ix_add_const(e, qn_ix_div_const(e, at, step), -lift);
    *out = last ? qn_ix_add(e, at, qn_ix_mul_const(e, w, dilation)) : at;
    least = (least + (lift * step) + up) / step - lift - (dilation < 0 ? last : 0);
    most = (most + (lift * step) + up) / step - lift + (dilation > 0 ? last : 0);
    return qn_emit_and(e, ok, in_range(e, *out, 0, size, least, most));
  }
  if (count != 1) {
    int64_t reach = (count - 1) * dilation;
    at = qn_ix_add(e, at, qn_ix_mul_const(e, w, dilation));
    least += reach < 0 ? reach : 0;
    most += reach > 0 ? reach : 0;
  }
  *out = at = qn_ix_add_const(e, at, -a->pad_low.d[axis]);
  ok = in_range(e, at, 0, (size - 1) * step + 1, least, most);
  if (step == 1)
    return ok;
  /* The remainder of a negative position doesn't matter: that lane is masked already. */
  qn_sval rest = qn_ix_value(e, qn_ix_mod_const(e, at, step));
  *out = qn_ix_div_const(e, at, step);
  return qn_emit_and(e, ok, qs_eq(e->k, rest, qn_emit_i32(e, 0)));
}

static qn_sval emit_windows(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_attr_window *a = n->attr;
  const qn_type *in = type_of(e, n->operands[0]);
  qn_ix at[QN_MAX_RANK];
  qn_sval ok = {0};
  int w = a->size.n;
  for (int i = 0; i < t->rank; i++)
    at[i] = idx[i];
  for (int i = 0; i < a->size.n; i++) {
    int64_t step = a->base_dilation.d[i], dilation = a->window_dilation.d[i], count = a->size.d[i];
    if (a->phased && step > 1 && (dilation == 1 || dilation == -1))
      count = (count + step - 1) / step;
    qn_ix o = t->dims[i] == 1 ? qn_ix_const(e, 0) : idx[i];
    ok = qn_emit_and(
        e, ok, window_index(e, a, i, t->dims[i], in->dims[i], o, count != 1 ? idx[w++] : qn_ix_const(e, 0), &at[i]));
  }
  qn_sval value = qn_emit_value(e, n->operands[1], NULL, (qn_sval){0});
  if (!ok.id)
    return qn_emit_value(e, n->operands[0], at, mask);
  qn_sval x = qn_emit_value(e, n->operands[0], at, qn_emit_and(e, mask, ok));
  return qs_select(e->k, ok, x, value);
}

static qn_sval emit_concatenate(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  int64_t axis = ((const qn_attr_axis *)n->attr)->dimension, begin = t->dims[axis];
  qn_ix at[QN_MAX_RANK];
  memcpy(at, idx, (size_t)t->rank * sizeof *at);
  qn_sval out = {0};
  for (int i = n->operand_count - 1; i >= 0; i--) {
    int64_t size = type_of(e, n->operands[i])->dims[axis], end = begin;
    begin -= size;
    if (!size)
      continue;
    at[axis] = qn_ix_add_const(e, idx[axis], -begin);
    qn_sval mine = in_range(e, idx[axis], begin, end, 0, t->dims[axis] - 1);
    qn_sval x = qn_emit_value(e, n->operands[i], at, qn_emit_and(e, mask, mine));
    out = out.id && mine.id ? qs_select(e->k, mine, x, out) : x;
  }
  return out;
}

static qn_sval emit_iota(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  (void)mask;
  return convert_to(e, t->dtype, qn_ix_value(e, idx[((const qn_attr_axis *)n->attr)->dimension]));
}

/* ---- bit casts between widths: the narrow side has one more axis at the end, least significant first ---- */

static qn_sval emit_bitcast(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_type *in = type_of(e, n->operands[0]);
  size_t from = qn_dtype_size(in->dtype), to = qn_dtype_size(t->dtype);
  if (from == to)
    return emit_elementwise(e, n, t, idx, mask);
  qn_dtype wide = qn_dtype_unsigned(from > to ? in->dtype : t->dtype);
  if (from > to) {
    qn_sval x = qs_bitcast(e->k, wide, qn_emit_value(e, n->operands[0], idx, mask));
    qn_sval shift = qs_mul(e->k, qn_ix_value(e, idx[t->rank - 1]), qn_emit_i32(e, (int64_t)to * 8));
    x = qs_shr(e->k, x, qs_convert(e->k, wide, shift));
    return qs_bitcast(e->k, t->dtype, qs_convert(e->k, qn_dtype_unsigned(t->dtype), x));
  }
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    at[i] = idx[i];
  qn_sval out = {0};
  for (size_t j = 0; j < to / from; j++) {
    at[t->rank] = qn_ix_const(e, (int64_t)j);
    qn_sval x = qs_bitcast(e->k, qn_dtype_unsigned(in->dtype), qn_emit_value(e, n->operands[0], at, mask));
    x = qs_convert(e->k, wide, x);
    x = j ? qs_shl(e->k, x, qs_bits(e->k, wide, j * from * 8)) : x;
    out = out.id ? qs_or(e->k, out, x) : x;
  }
  return qs_bitcast(e->k, t->dtype, out);
}

/* ---- indexing ---- */

/* Held in its own type: wide and unsigned indexes have values that i32 has not. */
qn_sval qn_emit_start(qn_emit *e, qn_sval raw, int64_t most, qn_sval *out_fits) {
  qn_dtype t = e->k->dtype(e->k, raw);
  if (qn_dtype_size(t) < 4) {
    raw = qs_convert(e->k, QN_I32, raw);
    t = QN_I32;
  }
  qn_sval zero = qs_bits(e->k, t, 0), limit = qs_bits(e->k, t, (uint64_t)most), below = qs_le(e->k, raw, limit);
  qn_sval held = qs_select(e->k, below, raw, limit);
  if (qn_dtype_is_signed(t)) {
    qn_sval above = qs_ge(e->k, raw, zero);
    held = qs_select(e->k, above, held, zero);
    below = qs_and(e->k, below, above);
  }
  if (out_fits)
    *out_fits = below;
  return qs_convert(e->k, QN_I32, held);
}

static qn_sval start_index(qn_emit *e, qn_sval raw, int64_t most) { return qn_emit_start(e, raw, most, NULL); }

static qn_sval emit_dynamic_slice(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_type *in = type_of(e, n->operands[0]);
  qn_ix at[QN_MAX_RANK];
  for (int i = 0; i < t->rank; i++) {
    qn_sval raw = qn_emit_value(e, n->operands[1 + i], NULL, (qn_sval){0});
    at[i] = qn_ix_add(e, idx[i], qn_ix_vector(e, start_index(e, raw, in->dims[i] - t->dims[i])));
  }
  return qn_emit_value(e, n->operands[0], at, mask);
}

static qn_sval emit_dynamic_update(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_type *up = type_of(e, n->operands[1]);
  qn_ix at[QN_MAX_RANK] = {0};
  qn_sval inside = {0};
  for (int i = 0; i < t->rank; i++) {
    qn_sval raw = qn_emit_value(e, n->operands[2 + i], NULL, (qn_sval){0});
    qn_sval start = start_index(e, raw, t->dims[i] - up->dims[i]);
    at[i] = qn_ix_add(e, idx[i], qn_ix_mul_const(e, qn_ix_vector(e, start), -1));
    if (up->dims[i] != t->dims[i])
      inside = qn_emit_and(e, inside, in_range(e, at[i], 0, up->dims[i], -1, up->dims[i]));
  }
  qn_sval x = qn_emit_value(e, n->operands[1], at, qn_emit_and(e, mask, inside));
  return inside.id ? qs_select(e->k, inside, x, qn_emit_value(e, n->operands[0], idx, mask)) : x;
}

static qn_sval emit_gather(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask) {
  const qn_attr_gather *a = n->attr;
  const qn_type *in = type_of(e, n->operands[0]), *st = type_of(e, n->operands[1]);
  qn_ix where[QN_MAX_RANK], at[QN_MAX_RANK];
  int axis = 0;
  for (int i = 0; i < t->rank;
       i++) { /* batch axes of the result, in order, index the start array around the vector axis */
    if (qn_dims_has(&a->offset_dims, i))
      continue;
    axis += axis == a->index_vector_dim;
    where[axis++] = idx[i];
  }
  int offset = 0;
  for (int i = 0; i < in->rank; i++) {
    bool gone = qn_dims_has(&a->collapsed_slice_dims, i) || qn_dims_has(&a->operand_batching_dims, i);
    at[i] = gone ? qn_ix_const(e, 0) : idx[a->offset_dims.d[offset++]];
  }
  for (int c = 0; c < a->start_index_map.n; c++) {
    if (a->index_vector_dim < st->rank)
      where[a->index_vector_dim] = qn_ix_const(e, c);
    int64_t d = a->start_index_map.d[c];
    qn_sval start = start_index(e, qn_emit_value(e, n->operands[1], where, mask), in->dims[d] - a->slice_sizes.d[d]);
    at[d] = qn_ix_add(e, at[d], qn_ix_vector(e, start));
  }
  for (int i = 0; i < a->operand_batching_dims.n; i++)
    at[a->operand_batching_dims.d[i]] = where[a->start_indices_batching_dims.d[i]];
  return qn_emit_value(e, n->operands[0], at, mask);
}

/* ---- dispatch ---- */

typedef qn_sval (*emit_fn)(qn_emit *e, const qn_node *n, const qn_type *t, const qn_ix *idx, qn_sval mask);
static const struct {
  qn_op op;
  emit_fn fn;
} forms[] = {{QN_OP_BROADCAST_IN_DIM, emit_broadcast},
             {QN_OP_RESHAPE, emit_reshape},
             {QN_OP_TRANSPOSE, emit_transpose},
             {QN_OP_OPTIMIZATION_BARRIER, emit_barrier},
             {QN_OP_REVERSE, emit_reverse},
             {QN_OP_SLICE, emit_slice},
             {QN_OP_PAD, emit_pad},
             {QN_OP_WINDOWS, emit_windows},
             {QN_OP_CONCATENATE, emit_concatenate},
             {QN_OP_IOTA, emit_iota},
             {QN_OP_BITCAST_CONVERT, emit_bitcast},
             {QN_OP_DYNAMIC_SLICE, emit_dynamic_slice},
             {QN_OP_GATHER, emit_gather},
             {QN_OP_DYNAMIC_UPDATE_SLICE, emit_dynamic_update}};

static emit_fn form_of(const qn_node *n) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].op == n->op)
      return forms[i].fn;
  return qn_op_get(n->op)->kind == QN_KIND_ELEMENTWISE ? emit_elementwise : NULL;
}

static qn_sval compute(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval mask) {
  const qn_node *n = qn_graph_def(e->s->g, value);
  const qn_type *t = type_of(e, value);
  bool splat = false;
  const void *data = qn_graph_constant(e->s->g, value, &splat);
  if (data && splat) {
    uint64_t bits = 0;
    memcpy(&bits, data, qn_dtype_size(t->dtype));
    return qs_bits(e->k, t->dtype, bits);
  }
  emit_fn fn = form_of(n);
  if (!fn) {
    qn_emit_fail(e, QN_ERR(QN_INTERNAL, "%s: reached inside a kernel that cannot compute it", qn_op_get(n->op)->name));
    return qs_bits(e->k, t->dtype, 0);
  }
  return fn(e, n, t, idx, mask);
}

qn_sval qn_emit_value(qn_emit *e, uint32_t value, const qn_ix *idx, qn_sval mask) {
  const qn_type *t = type_of(e, value);
  if (e->status != QN_OK)
    return qs_bits(e->k, t->dtype, 0);
  for (size_t i = e->override_count; i > 0; i--)
    if (e->overrides[i - 1].value == value)
      return e->overrides[i - 1].val;
  qn_ix at[QN_MAX_RANK] = {0};
  for (int i = 0; i < t->rank; i++)
    at[i] = t->dims[i] == 1 ? qn_ix_const(e, 0) : idx[i];
  qn_sval got = memo_find(e, value, at, t->rank, mask);
  if (got.id)
    return got;
  /* What another part stored later is still computed here, if this part was cut before: it doesn't wait for that one. */
  bool read = e->s->values[value].read_by == e->part_index + 1;
  got = read ? load(e, value, at, mask) : compute(e, value, at, mask);
  memo_add(e, value, at, t->rank, mask, got);
  return got;
}

void qn_emit_space_index(qn_emit *e, const qn_type *from, const qn_ix *idx, const qn_type *to, qn_ix *out) {
  int j = 0;
  for (int i = 0; i < to->rank; i++) {
    if (to->dims[i] == 1) {
      out[i] = qn_ix_const(e, 0);
      continue;
    }
    while (j < from->rank && from->dims[j] == 1)
      j++;
    out[i] = idx[j++];
  }
}

void qn_emit_free(qn_emit *e) {
  if (!e->memo)
    return;
  free(e->memo->entries);
  free(e->memo->pool);
  free(e->memo);
  e->memo = NULL;
}
