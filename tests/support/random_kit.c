/* Cases, the oracle's and the devices' runs, comparisons of random_kit.h. */
#include "random_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the seed decides before the graph ---- */

static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64};

static random_gen generator(const random_case *c) {
  random_gen z = {.state = c->seed * UINT64_C(0x2545f4914f6cdd1d) + 1, .wide = c->wide};
  for (int i = 0; i < RANDOM_SIZES; i++)
    z.sizes[i] = sizes[random_below(&z, sizeof sizes / sizeof *sizes)];
  if (random_below(&z, 4) == 0)
    z.sizes[0] = 200 + (int64_t)random_below(&z, 200);
  if (random_below(&z, 20) == 0)
    z.sizes[1] = 0;
  return z;
}

static qn_type drawn_type(random_gen *z, qn_dtype t, int most_axes) {
  qn_type out = {.dtype = t};
  int64_t n = 1;
  int rank = most_axes < 2 ? most_axes : 1 + (int)random_below(z, (uint32_t)most_axes);
  for (int i = 0; i < rank; i++) {
    int64_t d = z->sizes[random_below(z, RANDOM_SIZES)];
    if (n * d > 2000)
      d = 1 + (int64_t)random_below(z, 3);
    out.dims[out.rank++] = d;
    n *= d;
  }
  return out;
}

static qn_status draw_args(random_case *c, random_gen *z) {
  static const char *const state[] = {"s0", "s1", "s2"}, *const batch[] = {"x0", "x1", "i0", "i1"};
  uint32_t states = 1 + random_below(z, 3);
  for (uint32_t i = 0; i < states; i++)
    QN_TRY(qn_treedef_add(&c->args[0], state[i], drawn_type(z, QN_F32, 3)));
  for (int i = 0; i < 4; i++)
    QN_TRY(qn_treedef_add(&c->args[1], batch[i], drawn_type(z, i < 2 ? QN_F32 : QN_I32, i < 2 ? 4 : i - 1)));
  return QN_OK;
}

static void *drawn_data(random_gen *z, const qn_type *t) {
  int64_t n = qn_type_elements(t);
  uint32_t *words = calloc((size_t)n + 1, sizeof *words);
  for (int64_t i = 0; words && i < n; i++) {
    if (t->dtype == QN_F32) {
      float x = (float)((double)random_below(z, 1u << 20) / (1 << 19) * 2 - 2);
      x = random_below(z, 4) ? x : (float)((double)(int)(x * 4) / 4); /* some equal ones */
      memcpy(&words[i], &x, sizeof x);
    } else {
      words[i] = random_below(z, 16) - 3;
    }
  }
  return words;
}

/* ---- the function ---- */

typedef struct tracing {
  const random_case *c;
  bool judged;
} tracing;

static void set_result(const random_gen *z, qn_tree *r, const char *path, const random_item *i) {
  char bound[48];
  qn_tree_set(r, path, i->v);
  (void)snprintf(bound, sizeof bound, "bound/%s", path);
  if (z->judged && !i->exact)
    qn_tree_set(r, bound, i->e);
}

/* A new value of a state leaf: something of its shape, or it plus the sum of something; kept within -4 .. 4. */
static random_item *new_state(random_gen *z, int leaf) {
  const random_item *old = &z->items[leaf];
  random_item *from = NULL;
  for (int i = z->count - 1; i >= 0 && !from; i--)
    if (i != leaf && qn_type_equal(qn_val_type(z->items[i].v), qn_val_type(old->v)) && random_below(z, 3))
      from = &z->items[i];
  if (!from) {
    random_item *x = random_pick(z, QN_F32, false);
    double n = (double)qn_type_elements(qn_val_type(x->v));
    qn_val s = qn_mul(qn_sum_all(x->v), qn_like(x->v, 0.01)), e = QN_NULL_VAL, v = qn_add(old->v, s);
    if (z->judged) {
      e = qn_add(qn_sum_all(random_error(x)), random_ulps(qn_sum_all(qn_abs(x->v)), n + 4));
      e = qn_add(qn_mul(e, qn_like(e, 0.011)), random_ulps(v, 4));
    }
    from = random_add(z, v, e, 4 + 0.01 * n * x->bound, false);
  }
  if (!from)
    return NULL;
  qn_val v = qn_clamp(qn_like(from->v, -4), from->v, qn_like(from->v, 4));
  return random_add(z, v, from->e, 4, from->exact);
}

static void set_results(random_gen *z, qn_tree *r, const random_case *c) {
  char path[32];
  int grown = z->count, kept = 0;
  for (size_t i = 0; i < c->args[0].count; i++) {
    const random_item *s = new_state(z, (int)i);
    (void)snprintf(path, sizeof path, "state/%s", c->args[0].leaves[i].path);
    if (s)
      set_result(z, r, path, s);
    else
      qn_tree_set(r, path, z->items[i].v);
  }
  for (int i = grown - 1; i >= 0 && kept < 6; i--) {
    if (z->items[i].uses && random_below(z, 6))
      continue;
    (void)snprintf(path, sizeof path, "r%d", kept++);
    set_result(z, r, path, &z->items[i]);
  }
}

static qn_tree *build(qn_graph *g, qn_tree *const *args, void *user) {
  const tracing *t = user;
  random_gen z = generator(t->c);
  z.g = g;
  z.judged = t->judged;
  z.state ^= UINT64_C(0xabcdef12345);
  for (int a = 0; a < 2; a++)
    for (size_t i = 0; i < args[a]->count; i++)
      (void)random_add(&z, args[a]->leaves[i].val, QN_NULL_VAL, 16, true);
  for (int i = 0; i < t->c->nodes; i++)
    random_grow(&z);
  qn_tree *r = qn_tree_create(g);
  set_results(&z, r, t->c);
  return r;
}

/* ---- cases ---- */

static qn_status fill(random_case *c, random_gen *z) {
  for (size_t i = 0; i < c->args[0].count; i++)
    if (!(c->state[i] = drawn_data(z, &c->args[0].leaves[i].type)))
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a random state");
  for (int b = 0; b < RANDOM_BATCHES; b++)
    for (size_t i = 0; i < c->args[1].count; i++)
      if (!(c->batch[b][i] = drawn_data(z, &c->args[1].leaves[i].type)))
        return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a random batch");
  return QN_OK;
}

qn_status random_case_make(uint64_t seed, int nodes, bool wide, random_case *out) {
  *out = (random_case){.seed = seed, .wide = wide};
  random_gen z = generator(out);
  out->nodes = nodes ? nodes : 6 + (int)random_below(&z, 19);
  QN_TRY(draw_args(out, &z));
  QN_TRY(fill(out, &z));
  char name[32];
  (void)snprintf(name, sizeof name, "seed_%llu", (unsigned long long)seed);
  tracing t = {out, false};
  QN_TRY(qn_trace(build, &t, name, out->args, 2, &out->plain));
  t.judged = true;
  QN_TRY(qn_trace(build, &t, name, out->args, 2, &out->judged));
  return QN_OK;
}

void random_case_free(random_case *c) {
  for (size_t i = 0; i < RANDOM_LEAVES; i++) {
    free(c->state[i]);
    for (int b = 0; b < RANDOM_BATCHES; b++)
      free(c->batch[b][i]);
  }
  qn_treedef_free(&c->args[0]);
  qn_treedef_free(&c->args[1]);
  qn_traced_free(&c->plain);
  qn_traced_free(&c->judged);
  memset(c, 0, sizeof *c);
}

void random_values_free(random_values *v) {
  for (size_t i = 0; i < RANDOM_LEAVES; i++) {
    free(v->leaf[i]);
    free(v->bound[i]);
  }
  memset(v, 0, sizeof *v);
}

static void *room(const qn_type *t) { return calloc(1, (size_t)qn_type_bytes(t) + 1); }

qn_status random_case_oracle(const random_case *c, random_values *out) {
  const void *in[2 * RANDOM_LEAVES];
  void *results[2 * RANDOM_LEAVES];
  size_t n = 0;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < c->args[0].count; i++)
    in[n++] = c->state[i];
  for (size_t i = 0; i < c->args[1].count; i++)
    in[n++] = c->batch[0][i];
  for (size_t i = 0; i < c->judged.result.count; i++) {
    const qn_treedef_leaf *leaf = &c->judged.result.leaves[i];
    bool bound = strncmp(leaf->path, "bound/", 6) == 0;
    ptrdiff_t at = qn_treedef_find(&c->plain.result, bound ? leaf->path + 6 : leaf->path);
    void *p = at >= 0 && at < RANDOM_LEAVES ? room(&leaf->type) : NULL;
    if (!p)
      return QN_ERR(QN_INTERNAL, "the judged graph's result '%s' has no counterpart", leaf->path);
    results[i] = p;
    *(bound ? &out->bound[at] : &out->leaf[at]) = p;
  }
  out->count = c->plain.result.count;
  return qn_graph_eval_ref(c->judged.graph, in, results);
}

/* ---- a device ---- */

qn_status random_case_step(qn_device *d, const random_case *c, const qn_compile_desc *desc, qn_step **out_step) {
  static const qn_plan_donation state[] = {{0, "state"}};
  qn_jit_desc jit = {.compile = *desc};
  jit.compile.donations = state;
  jit.compile.donation_count = 1;
  jit.compile.at_once = true;
  return qn_jit(d, &c->plain, &jit, out_step);
}

static qn_status upload(qn_device *d, const qn_layout *layout, const char *label, void *const *data, qn_tensors **out) {
  QN_TRY(qn_tensors_create(d, layout, label, out));
  for (size_t i = 0; i < layout->count; i++)
    QN_TRY(qn_tensors_write_at(*out, i, data[i]));
  return QN_OK;
}

static qn_status download(const random_case *c, qn_tensors *state, qn_tensors *result, random_values *out) {
  for (size_t i = 0; i < c->plain.result.count; i++) {
    const qn_treedef_leaf *leaf = &c->plain.result.leaves[i];
    bool of_state = strncmp(leaf->path, "state/", 6) == 0;
    if (!(out->leaf[i] = room(&leaf->type)))
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for results");
    QN_TRY(qn_tensors_read(of_state ? state : result, of_state ? leaf->path + 6 : leaf->path, out->leaf[i]));
  }
  out->count = c->plain.result.count;
  return QN_OK;
}

qn_status random_case_run(qn_step *s, qn_device *d, const random_case *c, int calls, bool waiting, random_values *out) {
  qn_tensors *t[1 + RANDOM_BATCHES] = {NULL}, *result = NULL;
  qn_status st;
  memset(out, 0, sizeof *out);
  QN_TRY_GOTO(st, upload(d, &qn_step_plan(s)->args[0], "state", c->state, &t[0]), done);
  for (int b = 0; b < RANDOM_BATCHES; b++)
    QN_TRY_GOTO(st, upload(d, &qn_step_plan(s)->args[1], "batch", c->batch[b], &t[1 + b]), done);
  for (int k = 0; k < calls; k++) {
    qn_tensors *const args[] = {t[0], t[1 + k % RANDOM_BATCHES]};
    QN_TRY_GOTO(st, qn_step_call(s, args, 2, &result, NULL), done);
    if (waiting)
      QN_TRY_GOTO(st, qn_step_wait(s), done);
  }
  QN_TRY_GOTO(st, download(c, t[0], result, out), done);
done:
  for (int i = 0; i < 1 + RANDOM_BATCHES; i++)
    qn_tensors_release(t[i]);
  return st;
}

/* ---- comparisons ---- */

static const char *leaf_name(const random_case *c, size_t r) { return c->plain.result.leaves[r].path; }

bool random_exceeds(const random_case *c, const random_values *got, const random_values *want, uint64_t *io_judged,
                    uint64_t *io_loose, char why[256]) {
  for (size_t r = 0; r < want->count; r++) {
    const qn_type *t = &c->plain.result.leaves[r].type;
    size_t size = qn_dtype_size(t->dtype);
    for (int64_t i = 0; i < qn_type_elements(t); i++) {
      const char *a = (const char *)got->leaf[r] + (size_t)i * size,
                 *b = (const char *)want->leaf[r] + (size_t)i * size;
      float x = 0, y = 0, bound = want->bound[r] ? ((const float *)want->bound[r])[i] : 0;
      if (t->dtype == QN_F32) {
        memcpy(&x, a, sizeof x);
        memcpy(&y, b, sizeof y);
      }
      bool says = isfinite(bound) && (double)bound <= 0.1 * (1 + fabs((double)y));
      *(says ? io_judged : io_loose) += 1;
      if (!says || memcmp(a, b, size) == 0 || (t->dtype == QN_F32 && x == y))
        continue;
      /* The oracle rounds as well, and so did the bound's own arithmetic. */
      if (t->dtype == QN_F32 && want->bound[r] && fabs((double)x - (double)y) <= 4 * (double)bound)
        continue;
      int64_t u = 0, v = 0;
      memcpy(&u, a, size);
      memcpy(&v, b, size);
      (void)snprintf(why, 256, "result '%s' of %s, element %lld: got %.9g (%llx), the oracle %.9g (%llx), bound %.3g",
                     leaf_name(c, r), qn_type_str(t), (long long)i, (double)x, (unsigned long long)u, (double)y,
                     (unsigned long long)v, (double)bound);
      return true;
    }
  }
  return false;
}

static bool both_nan(const char *p, const char *q) {
  float x, y;
  memcpy(&x, p, sizeof x);
  memcpy(&y, q, sizeof y);
  return isnan(x) && isnan(y);
}

bool random_differs(const random_case *c, const random_values *a, const random_values *b, char why[256]) {
  for (size_t r = 0; r < a->count; r++) {
    const qn_type *t = &c->plain.result.leaves[r].type;
    size_t size = qn_dtype_size(t->dtype), bytes = (size_t)qn_type_bytes(t);
    const char *p = a->leaf[r], *q = b->leaf[r];
    for (size_t i = 0; i < bytes; i += size) {
      if (memcmp(p + i, q + i, size) == 0 || (t->dtype == QN_F32 && both_nan(p + i, q + i)))
        continue;
      uint64_t u = 0, v = 0;
      memcpy(&u, p + i, size);
      memcpy(&v, q + i, size);
      (void)snprintf(why, 256, "result '%s' of %s, element %zu: bits %llx and %llx", leaf_name(c, r), qn_type_str(t),
                     i / size, (unsigned long long)u, (unsigned long long)v);
      return true;
    }
  }
  return false;
}
