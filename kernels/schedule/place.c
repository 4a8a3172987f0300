/* Levels and places: when each part runs, and where each value in memory lives.
 *
 * A part's level is one above everything it reads; parts of a level run side by side. A donated result is written in place if its part
 * reads the old value only at the element it writes, and every other reader can run at a lower level; else it is computed in the arena and copied at
 * the end. Arena places are reused as soon as the last reader's level is over. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

static uint64_t align_up(uint64_t x) { return (x + QN_SLAB_ALIGN - 1) / QN_SLAB_ALIGN * QN_SLAB_ALIGN; }

/* ---- results and donations ---- */

static bool below(const char *path, const char *prefix, const char **out_rest) {
  size_t n = strlen(prefix);
  if (strncmp(path, prefix, n) != 0 || (path[n] != '\0' && path[n] != '/' && n != 0))
    return false;
  *out_rest = n == 0 ? path : path[n] == '/' ? path + n + 1 : path + n;
  return true;
}

qn_status qn_result_home(const qn_traced *fn, const qn_plan *plan, size_t result, uint32_t *out_slab,
                         uint64_t *out_offset, bool *out_donated) {
  const qn_treedef_leaf *leaf = &fn->result.leaves[result];
  for (size_t i = 0; i < plan->donation_count; i++) {
    const qn_plan_donation *d = &plan->donations[i];
    const char *rest;
    if (!below(leaf->path, d->prefix, &rest))
      continue;
    ptrdiff_t at = qn_layout_find(&plan->args[d->arg], rest);
    if (at < 0)
      return QN_ERR(QN_INVALID, "%s: result '%s' is to take the place of '%s' in argument %zu, which has no such leaf",
                    plan->name, leaf->path, rest, d->arg);
    const qn_treedef_leaf *old = &fn->args[d->arg].leaves[at];
    if (!qn_type_equal(&old->type, &leaf->type))
      return QN_ERR(QN_INVALID, "%s: result '%s' is %s, but argument %zu has %s there", plan->name, leaf->path,
                    qn_type_str(&leaf->type), d->arg, qn_type_str(&old->type));
    *out_slab = (uint32_t)d->arg + 1;
    *out_offset = plan->args[d->arg].entries[at].offset;
    *out_donated = true;
    return QN_OK;
  }
  ptrdiff_t at = qn_layout_find(&plan->result, leaf->path);
  QN_CHECK(at >= 0);
  *out_slab = (uint32_t)plan->arg_count + 1;
  *out_offset = plan->result.entries[at].offset;
  *out_donated = false;
  return QN_OK;
}

/* ---- order ---- */

typedef sched_order order;

/* The part that writes a value's place first: a loop's result is there from its initial carry on. */
static int first_writer(const qn_schedule *s, uint32_t v) {
  return s->values[v].first ? s->values[v].first - 1 : s->values[v].part;
}

static bool reaches(const order *o, size_t a, size_t b, bool *seen) {
  if (a == b)
    return true;
  if (seen[a])
    return false;
  seen[a] = true;
  for (size_t i = 0; i < o->n; i++)
    if (o->edge[a * o->n + i] && reaches(o, i, b, seen))
      return true;
  return false;
}

static void order_inputs(const qn_schedule *s, order *o) {
  for (size_t i = 0; i < s->part_count; i++)
    for (size_t j = 0; j < s->parts[i].input_count; j++) {
      int from = s->values[s->parts[i].inputs[j].value].part;
      if (from >= 0 && (size_t)from != i)
        o->edge[(size_t)from * o->n + i] = true;
    }
}

qn_status qn_order_create(const qn_schedule *s, order *o) {
  *o = (order){calloc(s->part_count * s->part_count + 1, 1), s->part_count};
  if (!o->edge)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to order %zu kernels", s->part_count);
  order_inputs(s, o);
  return QN_OK;
}

static bool set_levels(qn_schedule *s, const order *o) {
  bool changed = true;
  for (size_t i = 0; i < s->part_count; i++)
    s->parts[i].level = 0;
  for (size_t pass = 0; changed; pass++) {
    if (pass > s->part_count)
      return false;
    changed = false;
    for (size_t a = 0; a < o->n; a++)
      for (size_t b = 0; b < o->n; b++)
        if (o->edge[a * o->n + b] && s->parts[b].level <= s->parts[a].level) {
          s->parts[b].level = s->parts[a].level + 1;
          changed = true;
        }
  }
  s->level_count = 0;
  for (size_t i = 0; i < s->part_count; i++)
    if (s->parts[i].level >= s->level_count)
      s->level_count = s->parts[i].level + 1;
  return true;
}

qn_status qn_order_levels(qn_schedule *s, const order *o) {
  if (!set_levels(s, o))
    return QN_ERR(QN_INTERNAL, "%s: kernels depend on each other in a circle", qn_graph_name(s->g));
  return QN_OK;
}

/* May `result` overwrite parameter `param`? If so, every other reader of it is ordered before the writer. */
bool qn_order_in_place(const qn_schedule *s, order *o, uint32_t result, uint32_t param, bool *seen) {
  int writer = first_writer(s, result);
  if (writer < 0 || !qn_part_kinds[s->parts[writer].kind].in_place)
    return false;
  for (size_t i = 0; i < s->part_count; i++)
    for (size_t j = 0; j < s->parts[i].input_count; j++) {
      const sched_input *in = &s->parts[i].inputs[j];
      if (in->value != param)
        continue;
      if ((int)i == writer && !in->identity)
        return false;
      memset(seen, 0, o->n);
      if ((int)i != writer && reaches(o, (size_t)writer, i, seen))
        return false;
    }
  for (size_t i = 0; i < s->part_count; i++)
    for (size_t j = 0; j < s->parts[i].input_count; j++)
      if (s->parts[i].inputs[j].value == param && (int)i != writer)
        o->edge[i * o->n + (size_t)writer] = true;
  return true;
}

/* ---- homes ---- */

static qn_status add_copy(sched_places *p, sched_copy c) {
  if (!QN_RESERVE(p->copies, p->copy_capacity, p->copy_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to plan a copy");
  p->copies[p->copy_count++] = c;
  return QN_OK;
}

static uint32_t param_at(const qn_schedule *s, const qn_plan *plan, uint32_t slab, uint64_t offset) {
  for (size_t i = 0; i < qn_graph_param_count(s->g); i++) {
    const sched_value *v = &s->values[qn_graph_param_at(s->g, i)];
    bool some = qn_type_bytes(qn_graph_type(s->g, qn_graph_param_at(s->g, i))) >
                0; /* an empty leaf lies where the next one does */
    if (some && v->slab == slab && v->offset == offset)
      return qn_graph_param_at(s->g, i);
  }
  (void)plan;
  return 0;
}

/* Slabs that a kernel may bind: the arena, the results, and as many arguments as fit. */
static size_t bindable_args(const qn_schedule *s) {
  uint32_t limit =
      s->caps->max_bindings && s->caps->max_bindings < QN_MAX_BINDINGS ? s->caps->max_bindings : QN_MAX_BINDINGS;
  return limit > 2 ? limit - 2 : 1;
}

/* Arguments beyond what a kernel can bind are copied into the arena first, and read there. */
static qn_status place_params(qn_schedule *s, const qn_plan *plan, sched_places *out) {
  size_t k = 0, bound = bindable_args(s);
  for (size_t a = 0; a < plan->arg_count; a++) {
    bool copied = plan->arg_count > bound && a >= bound - 1;
    for (size_t i = 0; i < plan->args[a].count; i++, k++) {
      const qn_layout_entry *leaf = &plan->args[a].entries[i];
      sched_value *v = &s->values[qn_graph_param_at(s->g, k)];
      v->home = copied ? HOME_CONSTANT : HOME_ARG;
      v->slab = copied ? 0 : (uint32_t)a + 1;
      v->offset = copied ? out->constant_bytes : leaf->offset;
      if (!copied || leaf->bytes == 0)
        continue;
      QN_TRY(add_copy(out, (sched_copy){(uint32_t)a + 1, 0, leaf->offset, v->offset, leaf->bytes, -1}));
      out->constant_bytes += align_up(leaf->bytes);
    }
  }
  return QN_OK;
}

static bool is_result_twice(const qn_schedule *s, uint32_t v) {
  size_t n = 0;
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++)
    n += qn_graph_result(s->g, i) == v;
  return n > 1;
}

static bool is_result(const qn_schedule *s, uint32_t v) {
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++)
    if (qn_graph_result(s->g, i) == v)
      return true;
  return false;
}

/* Results that can be written where they belong get that home; the others stay homeless and are copied from the arena. */
static qn_status place_results(qn_schedule *s, const qn_traced *fn, const qn_compile_desc *desc, const qn_plan *plan,
                               order *o, sched_places *out) {
  bool *seen = calloc(o->n + 1, 1);
  if (!seen)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to place results");
  qn_status st = QN_OK;
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++) {
    uint32_t v = qn_graph_result(s->g, i), slab;
    uint64_t offset;
    bool donated;
    QN_TRY_GOTO(st, qn_result_home(fn, plan, i, &slab, &offset, &donated), done);
    sched_value *sv = &s->values[v];
    if (sv->part < 0 || is_result_twice(s, v))
      continue;
    if (donated && qn_type_bytes(qn_graph_type(s->g, v)) > 0) {
      uint32_t old = param_at(s, plan, slab, offset);
      if (desc->no_donation || !old || is_result(s, old) || !qn_order_in_place(s, o, v, old, seen))
        continue;
      out->in_place++;
    }
    sv->home = HOME_RESULT;
    sv->slab = slab;
    sv->offset = offset;
  }
done:
  free(seen);
  return st;
}

typedef struct hole {
  uint64_t offset, bytes;
} hole;
typedef struct arena_plan {
  hole *free;
  size_t count, capacity;
  uint64_t top;
} arena_plan;

static uint64_t arena_take(arena_plan *a, uint64_t bytes) {
  size_t best = SIZE_MAX;
  for (size_t i = 0; i < a->count; i++)
    if (a->free[i].bytes >= bytes && (best == SIZE_MAX || a->free[i].bytes < a->free[best].bytes))
      best = i;
  if (best == SIZE_MAX) {
    uint64_t at = a->top;
    a->top += bytes;
    return at;
  }
  uint64_t at = a->free[best].offset;
  a->free[best].offset += bytes;
  a->free[best].bytes -= bytes;
  if (!a->free[best].bytes)
    a->free[best] = a->free[--a->count];
  return at;
}

static qn_status arena_give(arena_plan *a, uint64_t offset, uint64_t bytes) {
  for (size_t i = 0; i < a->count;) { /* merge with neighbours */
    hole h = a->free[i];
    if (h.offset + h.bytes != offset && offset + bytes != h.offset) {
      i++;
      continue;
    }
    offset = h.offset < offset ? h.offset : offset;
    bytes += h.bytes;
    a->free[i] = a->free[--a->count];
    i = 0;
  }
  if (!QN_RESERVE(a->free, a->capacity, a->count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to plan the arena");
  a->free[a->count++] = (hole){offset, bytes};
  return QN_OK;
}

static int last_level(const qn_schedule *s, uint32_t v) {
  int last = s->parts[s->values[v].part].level;
  for (size_t i = 0; i < s->part_count; i++)
    for (size_t j = 0; j < s->parts[i].input_count; j++)
      if (s->parts[i].inputs[j].value == v && s->parts[i].level > last)
        last = s->parts[i].level;
  return is_result(s, v) ? s->level_count : last;
}

/* A loop's own values are there while it runs. */
static void place_scratch(qn_schedule *s, arena_plan *a, int level) {
  for (size_t i = 0; i < s->part_count; i++) {
    sched_part *p = &s->parts[i];
    if (p->level == level && p->body && p->body->arena_bytes)
      p->scratch = arena_take(a, p->body->arena_bytes);
  }
}

static qn_status give_scratch(const qn_schedule *s, arena_plan *a, int level) {
  for (size_t i = 0; i < s->part_count; i++) {
    const sched_part *p = &s->parts[i];
    if (p->level == level && p->body && p->body->arena_bytes)
      QN_TRY(arena_give(a, p->scratch, p->body->arena_bytes));
  }
  return QN_OK;
}

/* An initial carry lies where the loop's result does. */
static void share_places(qn_schedule *s) {
  for (uint32_t v = 1; v <= qn_graph_value_count(s->g); v++) {
    sched_value *sv = &s->values[v];
    if (!sv->shares)
      continue;
    const sched_value *with = &s->values[sv->shares];
    sv->home = with->home;
    sv->slab = with->slab;
    sv->offset = with->offset;
    sv->carry = with->carry;
  }
}

qn_status qn_place_arena(qn_schedule *s, bool reuse, uint64_t begin, uint64_t *out_end) {
  arena_plan a = {.top = begin};
  size_t values = qn_graph_value_count(s->g);
  int *last = malloc((values + 1) * sizeof *last);
  qn_status st = last ? QN_OK : QN_ERR(QN_OUT_OF_MEMORY, "no memory to plan the arena");
  for (uint32_t v = 1; st == QN_OK && v <= values; v++) {
    const sched_value *sv = &s->values[v];
    last[v] = sv->material && sv->part >= 0 && sv->home == HOME_NONE && !sv->shares ? last_level(s, v) : -1;
  }
  for (int level = 0; st == QN_OK && level < s->level_count; level++) {
    for (uint32_t v = 1; v <= values; v++) {
      sched_value *sv = &s->values[v];
      if (last[v] < 0 || s->parts[first_writer(s, v)].level != level)
        continue;
      sv->home = HOME_ARENA;
      sv->slab = 0;
      sv->offset = arena_take(&a, align_up((uint64_t)qn_type_bytes(qn_graph_type(s->g, v))));
    }
    place_scratch(s, &a, level);
    for (uint32_t v = 1; reuse && st == QN_OK && v <= values; v++)
      if (last[v] == level)
        st = arena_give(&a, s->values[v].offset, align_up((uint64_t)qn_type_bytes(qn_graph_type(s->g, v))));
    if (reuse && st == QN_OK)
      st = give_scratch(s, &a, level);
  }
  share_places(s);
  *out_end = a.top;
  free(a.free);
  free(last);
  return st;
}

static uint64_t place_constants(qn_schedule *s, uint64_t top) {
  for (uint32_t v = 1; v <= qn_graph_value_count(s->g); v++) {
    sched_value *sv = &s->values[v];
    if (!sv->material || sv->part >= 0 || sv->home != HOME_NONE)
      continue;
    sv->home = HOME_CONSTANT;
    sv->slab = 0;
    sv->offset = top;
    top += align_up((uint64_t)qn_type_bytes(qn_graph_type(s->g, v)));
  }
  for (size_t i = 0; i < s->part_count; i++)
    if (s->parts[i].body)
      top = place_constants(s->parts[i].body, top);
  return top;
}

/* Copies for results that aren't written in place. What comes from an argument goes through the arena when an argument is written, so that no copy
 * reads what another has overwritten. */
static qn_status copy_results(qn_schedule *s, const qn_traced *fn, const qn_plan *plan, sched_places *out) {
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++) {
    uint32_t v = qn_graph_result(s->g, i), slab;
    uint64_t offset, bytes = (uint64_t)qn_type_bytes(qn_graph_type(s->g, v));
    bool donated;
    QN_TRY(qn_result_home(fn, plan, i, &slab, &offset, &donated));
    const sched_value *sv = &s->values[v];
    if (bytes == 0 || (sv->slab == slab && sv->offset == offset))
      continue;
    sched_copy c = {sv->slab, slab, sv->offset, offset, bytes, 1};
    if (sv->home == HOME_ARG && plan->donation_count) {
      QN_TRY(add_copy(out, (sched_copy){sv->slab, 0, sv->offset, out->arena_bytes, bytes, 0}));
      c.src_slab = 0;
      c.src_offset = out->arena_bytes;
      out->arena_bytes += align_up(bytes);
    }
    QN_TRY(add_copy(out, c));
  }
  return QN_OK;
}

qn_status qn_schedule_place(qn_schedule *s, const qn_traced *fn, const qn_compile_desc *desc, const qn_plan *plan,
                            sched_places *out) {
  memset(out, 0, sizeof *out);
  order o = {0};
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, qn_order_create(s, &o), done);
  QN_TRY_GOTO(st, place_params(s, plan, out), done);
  QN_TRY_GOTO(st, place_results(s, fn, desc, plan, &o, out), done);
  QN_TRY_GOTO(st, qn_order_levels(s, &o), done);
  QN_TRY_GOTO(st, qn_place_bodies(s, !desc->no_reuse), done);
  out->constant_bytes = place_constants(s, out->constant_bytes);
  QN_TRY_GOTO(st, qn_place_arena(s, !desc->no_reuse, out->constant_bytes, &out->arena_bytes), done);
  qn_place_resolve(s, 0);
  QN_TRY_GOTO(st, copy_results(s, fn, plan, out), done);
done:
  free(o.edge);
  return st;
}

void qn_schedule_places_free(sched_places *p) {
  free(p->copies);
  memset(p, 0, sizeof *p);
}
