/* Scoped value numbering: a hash table of instructions whose newest entries can be forgotten when a loop or condition closes, so that a value
 * made inside is never reused outside. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

unsigned qn_kdtype_width(qn_dtype t) { return t == QN_BOOL ? 1 : (unsigned)(8 * qn_dtype_size(t)); }

bool qn_kernel_read_only(const qn_kernel *k, uint32_t buffer) {
  const qn_kbuffer *b = &k->buffers[buffer];
  for (size_t i = 0; i < k->buffer_count; ++i) {
    const qn_kbuffer *o = &k->buffers[i];
    if (o->written && o->binding == b->binding && o->offset_param == b->offset_param)
      return false;
  }
  return true;
}

bool qn_kinst_mergeable(const qn_kernel *k, const qn_kinst *in) {
  if (in->kop == QN_K_LOAD || in->kop == QN_K_GATHER)
    return qn_kernel_read_only(k, in->aux);
  return qn_kop_infos[in->kop].pure;
}

static uint64_t inst_hash(const qn_kinst *in) {
  uint64_t head = (uint64_t)in->kop | (uint64_t)in->sop << 8 | (uint64_t)in->dtype << 16 | (uint64_t)in->lanes << 24 |
                  (uint64_t)in->aux << 32;
  uint64_t h = qn_hash_u64(QN_HASH_INIT, head);
  h = qn_hash_u64(h, (uint64_t)in->a << 32 | in->b);
  h = qn_hash_u64(h, (uint64_t)in->c << 32 | in->d);
  return qn_hash_u64(h, in->imm);
}

static bool same(const qn_kinst *x, const qn_kinst *y) {
  return x->kop == y->kop && x->sop == y->sop && x->dtype == y->dtype && x->lanes == y->lanes && x->aux == y->aux &&
         x->a == y->a && x->b == y->b && x->c == y->c && x->d == y->d && x->imm == y->imm;
}

uint32_t qn_vn_find(const vn_table *t, const qn_kernel *k, const qn_kinst *in) {
  if (!t->head_count)
    return 0;
  uint64_t h = inst_hash(in);
  for (uint32_t e = t->heads[h & (t->head_count - 1)]; e; e = t->entries[e - 1].next)
    if (t->entries[e - 1].hash == h && same(&k->insts[t->entries[e - 1].inst], in))
      return t->entries[e - 1].inst;
  return 0;
}

static void link_entry(vn_table *t, size_t i) {
  uint32_t *head = &t->heads[t->entries[i].hash & (t->head_count - 1)];
  t->entries[i].next = *head;
  *head = (uint32_t)i + 1;
}

static bool grow(vn_table *t) {
  size_t want = t->head_count ? 2 * t->head_count : 128;
  uint32_t *heads = calloc(want, sizeof *heads);
  if (!heads)
    return false;
  free(t->heads);
  t->heads = heads;
  t->head_count = want;
  for (size_t i = 0; i < t->count; ++i) /* oldest first, so that popping finds the newest at the head */
    link_entry(t, i);
  return true;
}

bool qn_vn_add(vn_table *t, const qn_kernel *k, uint32_t inst) {
  if (t->count >= t->head_count && !grow(t))
    return false;
  if (!QN_RESERVE(t->entries, t->capacity, t->count + 1))
    return false;
  t->entries[t->count] = (vn_entry){.hash = inst_hash(&k->insts[inst]), .inst = inst};
  link_entry(t, t->count++);
  return true;
}

void qn_vn_pop(vn_table *t, size_t mark) {
  while (t->count > mark) {
    const vn_entry *e = &t->entries[--t->count];
    t->heads[e->hash & (t->head_count - 1)] = e->next;
  }
}

void qn_vn_free(vn_table *t) {
  free(t->heads);
  free(t->entries);
  memset(t, 0, sizeof *t);
}
