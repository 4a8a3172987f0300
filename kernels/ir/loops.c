/* Some drivers stop loops, without a word, once an item has run so many rounds of them altogether (llvmpipe: 65,535). This finds how far to
 * unroll which loops so that a kernel stays below. Rounds are counted from constant bounds; where a bound isn't known, a guess is taken. The same
 * counts say what a kernel costs the interpreter. */
#include "legalize.h"

#include <math.h>
#include <stdlib.h>

enum { FACTOR_MOST = 256, CODE_MOST = 60000, ROUNDS_GUESSED = 256 };

typedef struct loop {
  uint32_t open, close;
  int parent; /* loop around it, or -1 */
  double rounds;
  bool guessed;
} loop;

typedef struct loop_list {
  loop *loops;
  size_t count, capacity;
  double *top; /* per value: it lies in 0 .. top; infinity where nothing is known */
} loop_list;

static bool constant(const qn_kernel *k, uint32_t id, double *out_x) {
  const qn_kinst *in = &k->insts[id];
  if (in->kop != QN_K_SCALAR || in->sop != QN_S_CONST || qn_dtype_is_float((qn_dtype)in->dtype))
    return false;
  *out_x = (double)(int32_t)in->imm;
  return true;
}

static double top_of_scalar(const qn_kernel *k, const double *top, const qn_kinst *in) {
  double c = 0, a = top[in->a], b = top[in->b];
  bool by = constant(k, in->b, &c) && c > 0;
  switch (in->sop) {
  case QN_S_CONST:
    return qn_dtype_is_float((qn_dtype)in->dtype) || (int32_t)in->imm < 0 ? INFINITY : (double)(int32_t)in->imm;
  case QN_S_ADD:
    return a + b;
  case QN_S_MUL:
    return a * b;
  case QN_S_IDIV:
    return by ? a / c : a;
  case QN_S_IREM:
    return by && c - 1 < a ? c - 1 : a;
  case QN_S_SHR:
    return by && c < 31 ? a / (double)(1 << (int)c) : a;
  case QN_S_SELECT:
    return top[in->b] > top[in->c] ? top[in->b] : top[in->c];
  case QN_S_CONVERT:
    return a;
  default:
    return INFINITY;
  }
}

static double top_of(const qn_kernel *k, const double *top, const qn_kinst *in) {
  if (in->kop == QN_K_SCALAR)
    return top_of_scalar(k, top, in);
  if (in->kop == QN_K_ITEM)
    return k->items;
  return in->kop == QN_K_LOOP ? top[in->b] : INFINITY;
}

/* Rounds of begin .. end; `end` may be begin plus a constant, or the lesser of that and something else. */
static double rounds_to(const qn_kernel *k, const double *top, uint32_t begin, uint32_t end, double step) {
  const qn_kinst *e = &k->insts[end];
  double first = 0, last, span = INFINITY;
  bool known = constant(k, begin, &first);
  if (known && constant(k, end, &last)) {
    span = last - first;
  } else if (e->kop == QN_K_SCALAR && e->sop == QN_S_ADD && (e->a == begin || e->b == begin)) {
    (void)constant(k, e->a == begin ? e->b : e->a, &span);
  } else if (e->kop == QN_K_SCALAR && e->sop == QN_S_SELECT) {
    double x = rounds_to(k, top, begin, e->b, step), y = rounds_to(k, top, begin, e->c, step);
    return x < y ? x : y;
  } else {
    span = top[end] - (known ? first : 0);
  }
  return span > 0 ? ceil(span / step) : 0;
}

static bool find_loops(const qn_kernel *k, loop_list *l) {
  int inner = -1;
  uint32_t *open = malloc((k->count + 1) * sizeof *open); /* loops and conditions: loop + 1, 0 for a condition */
  size_t depth = 0;
  bool ok = open != NULL;
  for (uint32_t i = 1; ok && i < k->count; i++) {
    const qn_kinst *in = &k->insts[i];
    l->top[i] = top_of(k, l->top, in);
    if (in->kop == QN_K_LOOP) {
      ok = QN_RESERVE(l->loops, l->capacity, l->count + 1);
      if (!ok)
        break;
      double rounds = rounds_to(k, l->top, in->a, in->b, (double)in->imm);
      l->loops[l->count] = (loop){i, 0, inner, isinf(rounds) ? ROUNDS_GUESSED : rounds, isinf(rounds)};
      inner = (int)l->count++;
      open[depth++] = (uint32_t)inner + 1;
    } else if (in->kop == QN_K_IF) {
      open[depth++] = 0;
    } else if (in->kop == QN_K_END && open[--depth]) {
      l->loops[inner].close = i;
      inner = l->loops[inner].parent;
    }
  }
  free(open);
  return ok;
}

/* Rounds that an item spends in this loop with the factors so far. */
static double spent(const loop_list *l, const uint32_t *factors, size_t i) {
  double n = ceil(l->loops[i].rounds / factors[l->loops[i].open]);
  for (int p = l->loops[i].parent; p >= 0; p = l->loops[p].parent)
    n *= l->loops[p].rounds;
  return n;
}

static double code_size(const loop_list *l, const uint32_t *factors) {
  double size = 0;
  for (size_t i = 0; i < l->count; i++) {
    double copies = factors[l->loops[i].open];
    for (int p = l->loops[i].parent; p >= 0; p = l->loops[p].parent)
      copies *= factors[l->loops[p].open];
    size += copies * (l->loops[i].close - l->loops[i].open);
  }
  return size;
}

qn_status qn_loops_fit(const qn_kernel *k, const qn_device_caps *caps, uint32_t *factors) {
  for (size_t i = 0; i < k->count; i++)
    factors[i] = 1;
  if (caps->max_loop_rounds == 0 || caps->max_loop_rounds == UINT32_MAX)
    return QN_OK;
  loop_list l = {.top = calloc(k->count + 1, sizeof *l.top)};
  qn_status st = QN_OK;
  if (!l.top || !find_loops(k, &l))
    st = QN_ERR(QN_OUT_OF_MEMORY, "kernel %s: no memory to count its loops", k->name);
  double most = 0.9 * caps->max_loop_rounds;
  while (st == QN_OK) {
    double sum = 0, worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < l.count; i++) {
      double n = spent(&l, factors, i);
      sum += n;
      if (n > worst && factors[l.loops[i].open] < FACTOR_MOST &&
          qn_dtype_size((qn_dtype)k->insts[l.loops[i].open].dtype) == 4) {
        worst = n;
        at = i;
      }
    }
    if (sum <= most)
      break;
    if (worst > 0)
      factors[l.loops[at].open] *= 2;
    if (worst == 0 || code_size(&l, factors) > CODE_MOST)
      st = QN_ERR(QN_UNSUPPORTED, "kernel %s: an item runs about %.3g rounds of loops, and %s (%s) stops after %u",
                  k->name, sum, caps->id, caps->name, caps->max_loop_rounds);
  }
  free(l.top);
  free(l.loops);
  return st;
}

double qn_kernel_steps(const qn_kernel *k) {
  loop_list l = {.top = calloc(k->count + 1, sizeof *l.top)};
  double sum = 0, times = 1;
  if (!l.top || !find_loops(k, &l))
    sum = INFINITY;
  for (size_t i = 0; i < l.count; i++)
    if (l.loops[i].guessed)
      sum = INFINITY;
  size_t next = 0;
  int inner = -1;
  for (uint32_t i = 1; isfinite(sum) && i < k->count; i++) {
    if (next < l.count && l.loops[next].open == i) {
      inner = (int)next++;
      times *= l.loops[inner].rounds;
      if (times <= 0) { /* nothing in it runs */
        i = l.loops[inner].close;
        while (next < l.count && l.loops[next].open < i)
          next++;
      }
    }
    sum += times * (1 + k->insts[i].lanes / 4.0);
    if (inner >= 0 && l.loops[inner].close == i) {
      inner = l.loops[inner].parent;
      times = 1;
      for (int p = inner; p >= 0; p = l.loops[p].parent)
        times *= l.loops[p].rounds;
    }
  }
  free(l.top);
  free(l.loops);
  return sum * k->items;
}
