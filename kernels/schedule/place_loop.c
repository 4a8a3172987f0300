/* Places in loops' bodies.
 *
 * A body is placed before the schedule that it's part of, with its own values from byte 0 on and its carries and captures still open;
 * when the schedule around it is placed, everything in it gets its final place. A result is written over its carry where the part that computes it
 * reads the carry only at the element it writes and every other reader runs earlier; else it is stored aside and committed by a part that runs
 * behind all readers. The flag is committed last of all, for the other kernels of an iteration ask it. */
#include "lower.h"
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

static size_t carries_of(const qn_schedule *s) { return (size_t)s->loop->result_count; }

static void drop_part(sched_part *p) { p->input_count = p->output_count = 0; }

/* A commit that isn't needed, because the result is written in place. */
static void drop_commit(qn_schedule *s, uint32_t commit) {
  sched_value *sv = &s->values[commit];
  drop_part(&s->parts[sv->part]);
  sv->material = false;
  sv->carry = 0;
}

static void commit_flag_last(const qn_schedule *s, sched_order *o) {
  for (size_t i = 0; s->flag_part >= 0 && i < s->part_count; i++)
    if ((int)i != s->flag_part)
      o->edge[i * o->n + (size_t)s->flag_part] = true;
}

static qn_status place_carries(qn_schedule *s, sched_order *o) {
  bool *seen = calloc(o->n + 1, 1);
  if (!seen)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory to place carries");
  for (size_t i = 0; i < carries_of(s); i++) {
    uint32_t from = 0, commit = qn_graph_result(s->g, i), old = qn_graph_param_at(s->g, i);
    if (!qn_schedule_commits(s, i, &from))
      continue;
    bool flag = s->values[commit].part == s->flag_part;
    bool in_place = !flag && s->values[from].part >= 0 && qn_order_in_place(s, o, from, old, seen);
    if (!in_place && s->values[from].part >= 0 && s->parts[s->values[from].part].kind == PART_UPDATE)
      qn_part_whole(s, &s->parts[s->values[from].part]);
    if (in_place)
      drop_commit(s, commit);
    else if (!flag)
      QN_CHECK(qn_order_in_place(s, o, commit, old, seen));
    uint32_t v = in_place ? from : commit;
    s->values[v].home = HOME_RESULT;
    s->values[v].carry = (uint32_t)i + 1;
  }
  free(seen);
  commit_flag_last(s, o);
  return QN_OK;
}

static qn_status place_body(qn_schedule *s, bool reuse) {
  sched_order o = {0};
  qn_status st = QN_OK;
  for (size_t i = 0; i < qn_graph_param_count(s->g); i++)
    s->values[qn_graph_param_at(s->g, i)].home = HOME_ARG;
  QN_TRY_GOTO(st, qn_order_create(s, &o), done);
  QN_TRY_GOTO(st, place_carries(s, &o), done);
  QN_TRY_GOTO(st, qn_order_levels(s, &o), done);
  QN_TRY_GOTO(st, qn_place_bodies(s, reuse), done);
  QN_TRY_GOTO(st, qn_place_arena(s, reuse, 0, &s->arena_bytes), done);
done:
  free(o.edge);
  return st;
}

qn_status qn_place_bodies(qn_schedule *s, bool reuse) {
  for (size_t i = 0; i < s->part_count; i++)
    if (s->parts[i].body)
      QN_TRY(place_body(s->parts[i].body, reuse));
  return QN_OK;
}

static void take_place(sched_value *sv, const sched_value *of) {
  sv->slab = of->slab;
  sv->offset = of->offset;
}

/* Iterations too many do no harm where the flag keeps every kernel of the body from running. A body with a loop of its own that asks
 * a flag is watched by the host anyway. */
static sched_guard guard_of(const qn_schedule *around, const qn_schedule *body) {
  if (!qn_loop_has_flag(body->loop))
    return around->guard;
  const sched_value *flag = &around->values[body->loop->first_result];
  return (sched_guard){!qn_schedule_has_flags(body), flag->slab, flag->offset};
}

static void resolve_body(const qn_schedule *around, const sched_part *p, uint64_t base) {
  qn_schedule *s = p->body;
  for (size_t i = 0; i < qn_graph_param_count(s->g); i++) {
    uint32_t outside = i < carries_of(s) ? s->loop->first_result + (uint32_t)i : s->loop->operands[i];
    take_place(&s->values[qn_graph_param_at(s->g, i)], &around->values[outside]);
  }
  for (uint32_t v = 1; v <= qn_graph_value_count(s->g); v++) {
    sched_value *sv = &s->values[v];
    if (sv->carry && sv->material)
      take_place(sv, &around->values[s->loop->first_result + sv->carry - 1]);
    else if (sv->home == HOME_ARENA)
      sv->offset += base;
  }
  s->guard = guard_of(around, s);
  qn_place_resolve(s, base);
}

void qn_place_resolve(qn_schedule *s, uint64_t base) {
  for (size_t i = 0; i < s->part_count; i++) {
    sched_part *p = &s->parts[i];
    if (!p->body)
      continue;
    p->scratch += base;
    resolve_body(s, p, p->scratch);
  }
}
