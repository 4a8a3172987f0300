/* One order for equal kernels. Where a call's arguments make instructions, C leaves open which come first, and compilers choose differently. Here every
 * instruction without an order of its own moves to where its value is first asked for, so that the list, its text and its name depend on the kernel alone. */
#include <stdlib.h>
#include <string.h>

#include "ir.h"

static bool is_free(const qn_kernel *k, const qn_kinst *in) {
  return qn_kop_infos[in->kop].pure || qn_kinst_mergeable(k, in);
}

typedef struct orderer {
  const qn_kernel *k;
  uint32_t *rank; /* by instruction: when it's first asked for; 0: not yet */
  uint32_t *stack;
  uint8_t *slot; /* next operand to look at */
  uint32_t next;
} orderer;

static bool commutes(const qn_kernel *k, const qn_kinst *in) {
  static const qn_sop ops[] = {QN_S_ADD, QN_S_MUL, QN_S_MULHI, QN_S_AND, QN_S_OR, QN_S_XOR, QN_S_EQ, QN_S_NE};
  if (in->kop != QN_K_SCALAR || qn_dtype_is_float(k->insts[in->a].dtype))
    return false;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (in->sop == ops[i])
      return true;
  return false;
}

/* A constant, or the same one in all lanes: stays the second operand. */
static bool is_constant(const qn_kernel *k, uint32_t i) {
  const qn_kinst *in = &k->insts[i];
  if (in->kop == QN_K_SPLAT)
    in = &k->insts[in->a];
  return in->kop == QN_K_SCALAR && in->sop == QN_S_CONST;
}

/* Exchangeable integer operands by what they compute instead of by which came first. `hash` is scratch, one word an instruction. */
static void order_operands(qn_kernel *k, uint64_t *hash) {
  uint64_t anchors = 0;
  for (uint32_t i = 1; i < k->count; i++) {
    qn_kinst *in = &k->insts[i];
    if (commutes(k, in) && !is_constant(k, in->b) && !is_constant(k, in->a) && hash[in->a] > hash[in->b]) {
      uint32_t a = in->a;
      in->a = in->b;
      in->b = a;
    }
    uint64_t h = qn_hash_u64(QN_HASH_INIT,
                             (uint64_t)in->kop << 24 | (uint64_t)in->sop << 16 | (uint64_t)in->dtype << 8 | in->lanes);
    h = qn_hash_u64(qn_hash_u64(h, in->aux), in->imm);
    if (!is_free(k, in))
      h = qn_hash_u64(h, ++anchors);
    for (int j = 0; j < 4; j++)
      h = qn_hash_u64(h, hash[kinst_operand(in, j)]);
    hash[i] = h;
  }
}

/* Ranks an instruction behind its operands, these from left to right. */
static void ask(orderer *o, uint32_t root) {
  size_t depth = 0;
  o->stack[depth++] = root;
  while (depth) {
    uint32_t i = o->stack[depth - 1];
    if (o->rank[i]) {
      depth--;
      continue;
    }
    if (o->slot[i] == 4) {
      o->rank[i] = ++o->next;
      depth--;
      continue;
    }
    uint32_t operand = kinst_operand(&o->k->insts[i], o->slot[i]++);
    if (operand && !o->rank[operand])
      o->stack[depth++] = operand;
  }
}

static bool bounds_segment(const qn_kinst *in) {
  return in->kop == QN_K_LOOP || in->kop == QN_K_IF || in->kop == QN_K_ELSE || in->kop == QN_K_END;
}

typedef struct ranked {
  uint32_t rank, inst;
} ranked;

static int by_rank(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Sorts each stretch between control flow by rank: what the list orders by itself keeps its order, as its ranks rise along it. */
static void sort_segments(const orderer *o, ranked *list) {
  size_t begin = 1;
  for (size_t i = 1; i <= o->k->count; i++) {
    if (i < o->k->count)
      list[i] = (ranked){o->rank[i], (uint32_t)i};
    if (i < o->k->count && !bounds_segment(&o->k->insts[i]))
      continue;
    qsort(list + begin, i - begin, sizeof *list, by_rank);
    begin = i + 1;
  }
}

bool qn_kernel_order(qn_kernel *k) {
  size_t n = k->count + 1;
  orderer o = {
      .k = k, .rank = calloc(n, sizeof *o.rank), .stack = malloc(4 * n * sizeof *o.stack), .slot = calloc(n, 1)};
  ranked *list = calloc(n, sizeof *list);
  uint32_t *map = calloc(n, sizeof *map);
  qn_kinst *sorted = malloc(n * sizeof *sorted);
  uint64_t *hash = calloc(n, sizeof *hash);
  bool ok = o.rank && o.stack && o.slot && list && map && sorted && hash;
  if (ok) {
    order_operands(k, hash);
    for (uint32_t i = 1; i < k->count; i++)
      if (!is_free(k, &k->insts[i]))
        ask(&o, i);
    for (uint32_t i = 1; i < k->count; i++)
      ask(&o, i); /* nothing is left where dead code is gone */
    sort_segments(&o, list);
    for (uint32_t i = 1; i < k->count; i++)
      map[list[i].inst] = i;
    for (uint32_t i = 1; i < k->count; i++) {
      sorted[i] = k->insts[list[i].inst];
      kinst_map(&sorted[i], map);
    }
    if (k->count > 1)
      memcpy(k->insts + 1, sorted + 1, (k->count - 1) * sizeof *sorted);
  }
  free(o.rank);
  free(o.stack);
  free(o.slot);
  free(list);
  free(map);
  free(sorted);
  free(hash);
  return ok;
}
