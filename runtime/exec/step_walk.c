/* What a step submits in which order. A plan's commands are cut into pieces, each recorded as one: loops that are short when written out are written
 * out, others have pieces of their own, the body once and as often as makes a recording of some length. A plan without loops is one piece. */
#include "exec_impl.h"

#include <stdlib.h>
#include <string.h>

enum { WRITTEN_OUT = 256 }; /* commands of one recording that come from loops */

/* ---- commands as recorded ---- */

static qn_status to_cmd(const qn_step *s, const qn_plan_cmd *c, qn_cmd *out) {
  *out = (qn_cmd){.kind = c->kind};
  switch (c->kind) {
  case QN_CMD_LAUNCH:
    out->program = s->program;
    out->entry = c->entry;
    out->groups = c->groups;
    out->binding_count = c->binding_count;
    memcpy(out->bindings, c->bindings, c->binding_count * sizeof c->bindings[0]);
    out->params = c->params;
    out->param_count = c->param_count;
    break;
  case QN_CMD_COPY:
  case QN_CMD_FILL:
    out->src = c->src;
    out->dst = c->dst;
    out->src_offset = c->src_offset;
    out->dst_offset = c->dst_offset;
    out->size = c->size;
    out->pattern = c->pattern;
    break;
  case QN_CMD_BARRIER:
    break;
  case QN_CMD_LOOP:
  case QN_CMD_LOOP_END:
    return QN_ERR(QN_INTERNAL, "a loop reached a recording");
  }
  return QN_OK;
}

static qn_status no_memory(void) { return QN_ERR(QN_OUT_OF_MEMORY, "no memory for its commands"); }

qn_status qn_step_piece_add(qn_step_piece *p, const qn_cmd *c, uint32_t row) {
  if (!QN_RESERVE(p->cmds, p->capacity, p->count + 1) || !QN_RESERVE(p->rows, p->row_capacity, p->count + 1))
    return no_memory();
  p->cmds[p->count] = *c;
  p->rows[p->count++] = row;
  if (row != QN_STEP_NO_ROW && row > p->last_row)
    p->last_row = row;
  return QN_OK;
}

static qn_status new_piece(qn_step *s, uint32_t *out_index) {
  if (!QN_RESERVE(s->pieces, s->piece_capacity, s->piece_count + 1))
    return no_memory();
  memset(&s->pieces[s->piece_count], 0, sizeof *s->pieces);
  *out_index = (uint32_t)s->piece_count++;
  return QN_OK;
}

static qn_status new_node(qn_step *s, qn_step_node node, size_t *out_index) {
  if (!QN_RESERVE(s->walk, s->walk_capacity, s->walk_count + 1))
    return no_memory();
  s->walk[s->walk_count] = node;
  *out_index = s->walk_count++;
  return QN_OK;
}

/* ---- cutting ---- */

static size_t loop_end(const qn_plan *p, size_t loop) {
  size_t depth = 1, i = loop + 1;
  for (; depth > 0; i++)
    depth += p->cmds[i].kind == QN_CMD_LOOP ? 1 : p->cmds[i].kind == QN_CMD_LOOP_END ? SIZE_MAX : 0;
  return i - 1;
}

/* Commands in [begin, end) when loops are written out; WRITTEN_OUT + 1: too many, or a flag decides. */
static uint64_t length(const qn_plan *p, size_t begin, size_t end) {
  uint64_t n = 0;
  for (size_t i = begin; i < end && n <= WRITTEN_OUT; i++) {
    const qn_plan_cmd *c = &p->cmds[i];
    if (c->kind != QN_CMD_LOOP) {
      n++;
      continue;
    }
    size_t last = loop_end(p, i);
    uint64_t body = c->trips < 0 ? WRITTEN_OUT + 1 : length(p, i + 1, last);
    if (body > WRITTEN_OUT || (c->trips > 0 && body > WRITTEN_OUT / (uint64_t)c->trips))
      return WRITTEN_OUT + 1;
    n += body * (uint64_t)c->trips;
    i = last;
  }
  return n <= WRITTEN_OUT ? n : WRITTEN_OUT + 1;
}

static qn_status write_out(qn_step *s, uint32_t piece, size_t begin, size_t end) {
  const qn_plan *p = s->plan;
  for (size_t i = begin; i < end; i++) {
    qn_cmd cmd;
    if (p->cmds[i].kind == QN_CMD_LOOP) {
      size_t last = loop_end(p, i);
      for (int64_t t = 0; t < p->cmds[i].trips; t++)
        QN_TRY(write_out(s, piece, i + 1, last));
      i = last;
      continue;
    }
    QN_TRY(to_cmd(s, &p->cmds[i], &cmd));
    QN_TRY(qn_step_piece_add(&s->pieces[piece], &cmd, (uint32_t)i));
  }
  return QN_OK;
}

/* A loop whose body is one piece. */
static qn_status add_repeat(qn_step *s, const qn_plan_cmd *c, size_t begin, size_t end, uint64_t body) {
  qn_step_node node = {.kind = QN_STEP_REPEAT, .trips = c->trips, .slab = c->src, .offset = c->src_offset, .copies = 1};
  size_t at;
  QN_TRY(new_piece(s, &node.once));
  QN_TRY(write_out(s, node.once, begin, end));
  node.many = node.once;
  uint64_t copies = WRITTEN_OUT / (body ? body : 1);
  if (c->trips >= 0 && copies > (uint64_t)c->trips)
    copies = (uint64_t)c->trips;
  if (copies > 1) {
    QN_TRY(new_piece(s, &node.many));
    for (uint64_t k = 0; k < copies; k++)
      QN_TRY(write_out(s, node.many, begin, end));
    node.copies = copies;
  }
  QN_TRY(new_node(s, node, &at));
  return QN_OK;
}

static qn_status cut(qn_step *s, size_t begin, size_t end, uint32_t piece, bool open);

static qn_status add_loop(qn_step *s, size_t loop, size_t last) {
  const qn_plan_cmd *c = &s->plan->cmds[loop];
  uint64_t body = length(s->plan, loop + 1, last);
  if (body <= WRITTEN_OUT && (c->trips >= 0 || c->guarded)) {
    QN_TRY(add_repeat(s, c, loop + 1, last, body));
    return QN_OK;
  }
  size_t at, end;
  QN_TRY(new_node(s, (qn_step_node){QN_STEP_LOOP, .trips = c->trips, .slab = c->src, .offset = c->src_offset}, &at));
  QN_TRY(cut(s, loop + 1, last, 0, false));
  QN_TRY(new_node(s, (qn_step_node){.kind = QN_STEP_END}, &end));
  s->walk[at].end = end;
  return QN_OK;
}

/* open: `piece` takes what comes first. */
static qn_status cut(qn_step *s, size_t begin, size_t end, uint32_t piece, bool open) {
  const qn_plan *p = s->plan;
  size_t at;
  for (size_t i = begin; i < end; i++) {
    size_t last = p->cmds[i].kind == QN_CMD_LOOP ? loop_end(p, i) : i;
    if (last > i && length(p, i, last + 1) > WRITTEN_OUT) {
      QN_TRY(add_loop(s, i, last));
      open = false;
      i = last;
      continue;
    }
    if (!open) {
      QN_TRY(new_piece(s, &piece));
      QN_TRY(new_node(s, (qn_step_node){.kind = QN_STEP_RUN, .once = piece}, &at));
      open = true;
    }
    QN_TRY(write_out(s, piece, i, last + 1));
    i = last;
  }
  return QN_OK;
}

qn_status qn_step_walk_create(qn_step *s, const qn_cmd *prefix, size_t prefix_count) {
  uint32_t first;
  size_t at;
  QN_TRY(new_piece(s, &first));
  QN_TRY(new_node(s, (qn_step_node){.kind = QN_STEP_RUN, .once = first}, &at));
  for (size_t i = 0; i < prefix_count; i++)
    QN_TRY(qn_step_piece_add(&s->pieces[first], &prefix[i], QN_STEP_NO_ROW));
  QN_TRY(cut(s, 0, s->plan->cmd_count, first, true));
  return QN_OK;
}

void qn_step_walk_destroy(qn_step *s) {
  for (size_t i = 0; i < s->piece_count; i++) {
    free(s->pieces[i].cmds);
    free(s->pieces[i].rows);
  }
  free(s->pieces);
  free(s->walk);
}

/* ---- running ---- */

static qn_status submit(qn_step *s, qn_step_entry *e, uint32_t piece, uint64_t times) {
  for (uint64_t i = 0; i < times; i++) {
    uint64_t ticket = 0;
    qn_status st = qn_submit(s->device, e->recordings[piece], NULL, 0, &ticket);
    if (ticket) { /* a submission that counts but whose wait (QN_SYNC) failed has its ticket all the same */
      e->ticket = ticket;
      e->reached = s->pieces[piece].last_row > e->reached ? s->pieces[piece].last_row : e->reached;
      for (size_t k = 0; k < s->plan->arg_count; k++)
        qn_tensors_used(e->args[k], ticket);
      qn_tensors_used(e->result, ticket);
    }
    QN_TRY(st);
    if (s->profiler && s->walk_count > 1)
      QN_TRY(qn_step_profiler_piece(s, e, piece));
  }
  return QN_OK;
}

static qn_status submit_trips(qn_step *s, qn_step_entry *e, const qn_step_node *n, uint64_t trips) {
  QN_TRY(submit(s, e, n->many, trips / n->copies));
  QN_TRY(submit(s, e, n->once, trips % n->copies));
  return QN_OK;
}

static qn_buffer *slab_of(const qn_step *s, const qn_step_entry *e, uint32_t slab) {
  if (slab == 0)
    return s->arena;
  return slab <= s->plan->arg_count ? e->args[slab - 1]->buffer : e->result->buffer;
}

/* A host point. */
static qn_status look(qn_step *s, const qn_step_entry *e, const qn_step_node *n, bool *out_up) {
  uint8_t flag = 0;
  *out_up = false;
  if (atomic_exchange(&s->interrupted, false))
    return QN_ERR(QN_CANCELLED,
                  "interrupted in a loop; arguments that it was writing in place have to be loaded again");
  QN_TRY(qn_buffer_read(slab_of(s, e, n->slab), n->offset, sizeof flag, &flag));
  s->stats.host_points++;
  *out_up = flag != 0;
  return QN_OK;
}

/* Iterations too many cost no more than those that were needed; and no chunk takes so long that nobody can interrupt it. */
static qn_status run_guarded(qn_step *s, qn_step_entry *e, const qn_step_node *n) {
  enum { MOST_CHUNK = 4096, LONG_NS = 20 * 1000 * 1000 };
  bool up = true;
  for (uint64_t chunk = 1; up;) {
    uint64_t begin = qn_time_ns();
    QN_TRY(submit_trips(s, e, n, chunk));
    QN_TRY(look(s, e, n, &up));
    uint64_t took = qn_time_ns() - begin;
    if (chunk > 1 && took > 4 * (uint64_t)LONG_NS)
      chunk /= 2;
    else if (chunk < MOST_CHUNK && took < LONG_NS)
      chunk *= 2;
  }
  return QN_OK;
}

static qn_status run(qn_step *s, qn_step_entry *e, size_t begin, size_t end);

static qn_status run_loop(qn_step *s, qn_step_entry *e, size_t at) {
  const qn_step_node *n = &s->walk[at];
  bool up = n->trips != 0;
  for (int64_t t = 0; up; t++) {
    if (n->trips < 0)
      QN_TRY(look(s, e, n, &up));
    if (up)
      QN_TRY(run(s, e, at + 1, n->end));
    if (n->trips >= 0)
      up = t + 1 < n->trips;
  }
  return QN_OK;
}

static qn_status run(qn_step *s, qn_step_entry *e, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++) {
    const qn_step_node *n = &s->walk[i];
    if (n->kind == QN_STEP_RUN)
      QN_TRY(submit(s, e, n->once, 1));
    else if (n->kind == QN_STEP_REPEAT && n->trips >= 0)
      QN_TRY(submit_trips(s, e, n, (uint64_t)n->trips));
    else if (n->kind == QN_STEP_REPEAT)
      QN_TRY(run_guarded(s, e, n));
    else if (n->kind == QN_STEP_LOOP) {
      QN_TRY(run_loop(s, e, i));
      i = n->end;
    }
  }
  return QN_OK;
}

qn_status qn_step_walk_run(qn_step *s, qn_step_entry *e) {
  e->reached = 0;
  QN_TRY(run(s, e, 0, s->walk_count));
  return QN_OK;
}
