/* Passes over a finished instruction list: loop-invariant code moves in front of its loops, equal values are merged again, and what no store,
 * barrier or atomic depends on goes. Nothing moves out of a condition; loads and divisions leave a loop only when they cannot fail there. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

/* ---- scopes of a flat list ---- */

typedef struct region {
  uint32_t parent, open; /* region 0 is the body; open: its LOOP, IF or ELSE */
  bool loop;
} region;

typedef struct hoister {
  qn_kernel *k;
  region *regions;
  size_t region_count, region_capacity;
  uint32_t *home;         /* region of each instruction */
  uint32_t *front, *last; /* per LOOP: chain of instructions to place before it */
  uint32_t *next;
} hoister;

static bool region_add(hoister *h, uint32_t parent, uint32_t open, bool loop) {
  if (!QN_RESERVE(h->regions, h->region_capacity, h->region_count + 1))
    return false;
  h->regions[h->region_count++] = (region){parent, open, loop};
  return true;
}

static bool const_bits(const qn_kernel *k, uint32_t id, uint64_t *out) {
  const qn_kinst *in = &k->insts[id];
  if (in->kop == QN_K_SPLAT)
    in = &k->insts[in->a];
  *out = in->imm;
  return in->kop == QN_K_SCALAR && in->sop == QN_S_CONST;
}

/* Does the loop surely run? A parameter as the bound counts for loads: shapes are parameters, and what an empty shape would read is there. */
static bool loop_runs(const qn_kernel *k, const qn_kinst *loop, bool trust_params) {
  uint64_t begin, end;
  if (!const_bits(k, loop->a, &begin))
    return false;
  if (const_bits(k, loop->b, &end))
    return begin < end && end <= INT32_MAX;
  const qn_kinst *e = &k->insts[loop->b];
  if (e->kop == QN_K_SCALAR && e->sop == QN_S_CONVERT)
    e = &k->insts[e->a];
  return trust_params && e->kop == QN_K_PARAM && begin == 0;
}

static bool may_leave(const qn_kernel *k, const qn_kinst *in, const qn_kinst *loop) {
  if (in->kop == QN_K_LOAD)
    return in->c == 0 && qn_kernel_read_only(k, in->aux) && loop_runs(k, loop, true);
  if (!qn_kop_infos[in->kop].pure)
    return false;
  if (in->kop == QN_K_SCALAR && (in->sop == QN_S_IDIV || in->sop == QN_S_IREM)) {
    uint64_t c;
    return (const_bits(k, in->b, &c) && c != 0 && c <= INT32_MAX) || loop_runs(k, loop, false);
  }
  return true;
}

/* The region where instruction i may live: as far out as its operands and the rules allow. */
static uint32_t choose_home(const hoister *h, uint32_t i, uint32_t here) {
  const qn_kinst *in = &h->k->insts[i];
  uint32_t r = here;
  while (h->regions[r].loop && may_leave(h->k, in, &h->k->insts[h->regions[r].open])) {
    for (int s = 0; s < 4; ++s) {
      uint32_t id = kinst_operand(in, s);
      if (id && h->home[id] == r)
        return r;
    }
    r = h->regions[r].parent;
  }
  return r;
}

static void put_before(hoister *h, uint32_t loop, uint32_t i) {
  if (h->last[loop])
    h->next[h->last[loop]] = i;
  else
    h->front[loop] = i;
  h->last[loop] = i;
}

/* Sets homes, and chains what moves in front of the outermost loop that it leaves. */
static bool plan(hoister *h) {
  qn_kernel *k = h->k;
  uint32_t here = 0;
  if (!region_add(h, 0, 0, false))
    return false;
  for (uint32_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop == QN_K_END) {
      here = h->regions[here].parent;
      h->home[i] = here;
    } else if (in->kop == QN_K_ELSE) {
      uint32_t parent = h->regions[here].parent;
      if (!region_add(h, parent, i, false))
        return false;
      here = (uint32_t)h->region_count - 1;
      h->home[i] = parent;
    } else if (in->kop == QN_K_LOOP || in->kop == QN_K_IF) {
      if (!region_add(h, here, i, in->kop == QN_K_LOOP))
        return false;
      here = (uint32_t)h->region_count - 1;
      h->home[i] = in->kop == QN_K_LOOP ? here : h->regions[here].parent; /* the index lives inside */
    } else {
      uint32_t r = choose_home(h, i, here);
      h->home[i] = r;
      if (r != here) {
        uint32_t child = here;
        while (h->regions[child].parent != r)
          child = h->regions[child].parent;
        put_before(h, h->regions[child].open, i);
        h->next[i] = 0;
        h->last[i] = i; /* marks it as moved */
      }
    }
  }
  return true;
}

/* ---- writing the new list ---- */

typedef struct writer {
  qn_kernel *k;
  qn_kinst *old;
  uint32_t *map;
  vn_table vn;
  size_t *marks;
  size_t depth, mark_capacity;
} writer;

static bool write_inst(writer *w, uint32_t i) {
  qn_kernel *k = w->k;
  qn_kinst in = w->old[i];
  kinst_map(&in, w->map);
  bool opens = in.kop == QN_K_LOOP || in.kop == QN_K_IF;
  if (in.kop == QN_K_END || in.kop == QN_K_ELSE)
    qn_vn_pop(&w->vn, in.kop == QN_K_END ? w->marks[--w->depth] : w->marks[w->depth - 1]);
  if (qn_kinst_mergeable(k, &in)) {
    uint32_t found = qn_vn_find(&w->vn, k, &in);
    if (found) {
      w->map[i] = found;
      return true;
    }
  }
  w->map[i] = (uint32_t)k->count;
  k->insts[k->count++] = in;
  if (opens) {
    if (!QN_RESERVE(w->marks, w->mark_capacity, w->depth + 1))
      return false;
    w->marks[w->depth++] = w->vn.count;
  }
  return !qn_kinst_mergeable(k, &in) || qn_vn_add(&w->vn, k, w->map[i]);
}

static bool rewrite(hoister *h, writer *w) {
  size_t count = h->k->count;
  h->k->count = 1;
  for (uint32_t i = 1; i < count; ++i) {
    if (w->old[i].kop != QN_K_LOOP && h->last[i] == i)
      continue;
    if (w->old[i].kop == QN_K_LOOP)
      for (uint32_t m = h->front[i]; m; m = h->next[m])
        if (!write_inst(w, m))
          return false;
    if (!write_inst(w, i))
      return false;
  }
  return true;
}

bool qn_kernel_hoist(qn_kernel *k) {
  size_t n = k->count;
  hoister h = {.k = k};
  uint32_t *words = calloc(5 * n, sizeof *words);
  writer w = {.k = k, .old = malloc(n * sizeof *k->insts)};
  bool ok = words && w.old;
  if (ok) {
    h.home = words;
    h.front = words + n;
    h.last = words + 2 * n;
    h.next = words + 3 * n;
    w.map = words + 4 * n;
    memcpy(w.old, k->insts, n * sizeof *k->insts);
    ok = plan(&h) && rewrite(&h, &w);
  }
  free(words);
  free(w.old);
  free(w.marks);
  qn_vn_free(&w.vn);
  free(h.regions);
  return ok;
}

/* ---- dead code ---- */

typedef struct sweeper {
  qn_kernel *k;
  uint32_t *around; /* the LOOP, IF or ELSE right around an instruction */
  uint32_t *opener; /* ELSE: its IF */
  uint32_t *writes; /* VAR, ARRAY: newest SET or ASTORE; SET, ASTORE: the one before */
  uint32_t *work;
  size_t work_count;
  bool *live;
} sweeper;

static void mark(sweeper *s, uint32_t i) {
  if (i && !s->live[i]) {
    s->live[i] = true;
    s->work[s->work_count++] = i;
  }
}

static void survey(sweeper *s) {
  qn_kernel *k = s->k;
  uint32_t here = 0;
  for (uint32_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    if (in->kop == QN_K_END) {
      here = s->opener[here] ? s->around[s->opener[here]] : s->around[here];
      continue;
    }
    if (in->kop == QN_K_ELSE) {
      s->opener[i] = here;
      s->around[i] = s->around[here];
      here = i;
      continue;
    }
    s->around[i] = here;
    if (in->kop == QN_K_LOOP || in->kop == QN_K_IF)
      here = i;
    if (in->kop == QN_K_SET || in->kop == QN_K_ASTORE) {
      s->writes[i] = s->writes[in->a];
      s->writes[in->a] = i;
    }
  }
}

static bool never_runs(const sweeper *s, uint32_t i) {
  uint64_t bits;
  for (uint32_t r = s->around[i]; r; r = s->around[s->opener[r] ? s->opener[r] : r])
    if (s->k->insts[r].kop == QN_K_IF && const_bits(s->k, s->k->insts[r].a, &bits) && !(bits & 1))
      return true;
  return false;
}

static void propagate(sweeper *s) {
  const qn_kernel *k = s->k;
  while (s->work_count) {
    uint32_t i = s->work[--s->work_count];
    const qn_kinst *in = &k->insts[i];
    for (int o = 0; o < 4; ++o)
      mark(s, kinst_operand(in, o));
    mark(s, s->around[i]);
    mark(s, s->opener[i]);
    /* A variable or array that is read needs all its writes; writes alone keep nothing alive. */
    if (in->kop == QN_K_GET || in->kop == QN_K_ALOAD)
      for (uint32_t x = s->writes[in->a]; x; x = s->writes[x])
        if (!never_runs(s, x))
          mark(s, x);
  }
}

static void compact(sweeper *s, uint32_t *map) {
  qn_kernel *k = s->k;
  uint32_t n = 1, here = 0;
  for (uint32_t i = 1; i < k->count; ++i) {
    qn_kinst in = k->insts[i];
    bool keep = s->live[i];
    if (in.kop == QN_K_END) {
      uint32_t open = s->opener[here] ? s->opener[here] : here;
      keep = s->live[open];
      here = s->around[open];
    } else if (in.kop == QN_K_ELSE || in.kop == QN_K_LOOP || in.kop == QN_K_IF) {
      here = i;
    }
    if (!keep)
      continue;
    kinst_map(&in, map);
    map[i] = n;
    k->insts[n++] = in;
  }
  k->count = n;
}

bool qn_kernel_sweep(qn_kernel *k) {
  size_t n = k->count;
  uint32_t *words = calloc(5 * n, sizeof *words);
  bool *live = calloc(n, sizeof *live);
  bool ok = words && live;
  if (ok) {
    sweeper s = {
        .k = k, .around = words, .opener = words + n, .writes = words + 2 * n, .work = words + 3 * n, .live = live};
    survey(&s);
    for (uint32_t i = 1; i < n; ++i) {
      uint8_t op = k->insts[i].kop;
      bool root =
          op == QN_K_STORE || op == QN_K_SCATTER || op == QN_K_BARRIER || op == QN_K_ATOMIC_AND || op == QN_K_ATOMIC_OR;
      if (root && !never_runs(&s, i))
        mark(&s, i);
    }
    propagate(&s);
    compact(&s, words + 4 * n);
  }
  free(words);
  free(live);
  return ok;
}

/* ---- the name ---- */

void qn_kernel_name(qn_kernel *k) {
  uint64_t h = qn_hash_u64(QN_HASH_INIT, (uint64_t)k->items << 32 | k->param_count);
  h = qn_hash_u64(h, k->binding_count);
  for (size_t i = 0; i < k->buffer_count; ++i) {
    const qn_kbuffer *b = &k->buffers[i];
    h = qn_hash_u64(h, (uint64_t)b->dtype | (uint64_t)b->read << 8 | (uint64_t)b->written << 9 |
                           (uint64_t)b->binding << 32);
    h = qn_hash_u64(h, (uint64_t)b->offset_param << 32 | b->align);
    h = qn_hash_u64(h, (uint32_t)b->offset_shift);
  }
  for (size_t i = 1; i < k->count; ++i) {
    const qn_kinst *in = &k->insts[i];
    h = qn_hash_u64(h, (uint64_t)in->kop | (uint64_t)in->sop << 8 | (uint64_t)in->dtype << 16 |
                           (uint64_t)in->lanes << 24 | (uint64_t)in->aux << 32);
    h = qn_hash_u64(h, (uint64_t)in->a << 32 | in->b);
    h = qn_hash_u64(h, (uint64_t)in->c << 32 | in->d);
    h = qn_hash_u64(h, in->imm);
  }
  snprintf(k->name, sizeof k->name, "k_%016llx", (unsigned long long)h);
}
