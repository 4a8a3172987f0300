/* Loops as parts, and what is particular to the schedule of a loop's body: commits and updates of carries. */
#include "fuse.h"
#include "lower.h"

#include <stdlib.h>

static const qn_type *type_of(const qn_schedule *s, uint32_t v) { return qn_graph_type(s->g, v); }

bool qn_schedule_commits(const qn_schedule *s, size_t result, uint32_t *out_from) {
  uint32_t v = qn_graph_result(s->g, result);
  const qn_node *n = qn_graph_def(s->g, v);
  if (!s->loop || v == qn_graph_param_at(s->g, result))
    return false;
  *out_from = n->operands[n->operand_count - 1];
  return true;
}

bool qn_schedule_has_flags(const qn_schedule *s) {
  for (size_t i = 0; i < s->part_count; i++)
    if (s->parts[i].kind == PART_LOOP &&
        (qn_loop_has_flag(s->parts[i].body->loop) || qn_schedule_has_flags(s->parts[i].body)))
      return true;
  return false;
}

qn_status qn_fuse_open_loop(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_materialise(s, n->operands[i]));
  int part;
  QN_TRY(qn_fuse_open(s, PART_LOOP, type_of(s, n->first_result), index, &part));
  qn_schedule *body = s->parts[part].body = calloc(1, sizeof *body);
  if (!body)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a loop");
  for (int i = 0; i < n->operand_count; i++)
    QN_TRY(qn_fuse_add_input(&s->parts[part], n->operands[i], false));
  QN_TRY(qn_fuse_store_results(s, n, part));
  for (int i = 0; i < n->result_count; i++) {
    uint32_t v = n->first_result + (uint32_t)i;
    sched_value *sv = &s->values[v], *initial = &s->values[n->operands[i]];
    sv->cost = COST_MAX;
    sv->first = 1 + initial->part;
    initial->shares = v;
  }
  QN_TRY(qn_fuse_build(body, n->regions[1], s->caps, s->no_fusion, n));
  return QN_OK;
}

/* The new value of a carry that differs from the old one in a window only. */
bool qn_fuse_updates_carry(const qn_schedule *s, const qn_node *n) {
  if (!s->loop || n->op != QN_OP_DYNAMIC_UPDATE_SLICE)
    return false;
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++) {
    uint32_t from = 0;
    if (qn_schedule_commits(s, i, &from) && from == n->first_result)
      return n->operands[0] == qn_graph_param_at(s->g, i);
  }
  return false;
}

qn_status qn_fuse_open_update(qn_schedule *s, uint32_t index) {
  const qn_node *n = qn_graph_node(s->g, index);
  for (int i = 1; i < n->operand_count; i++) {
    if (s->no_fusion)
      QN_TRY(qn_fuse_materialise(s, n->operands[i]));
    QN_TRY(qn_fuse_settle(s, n->operands[i], -1, ++s->walks));
  }
  int part;
  QN_TRY(qn_fuse_open(s, PART_UPDATE, type_of(s, n->operands[1]), index, &part));
  QN_TRY(qn_fuse_need(s, part, n->operands[0], true));
  QN_TRY(qn_fuse_need_all(s, part, n->operands + 1, n->operand_count - 1, false));
  return qn_fuse_store_results(s, n, part);
}

/* A part for each result that is handed on by a node of its own, behind all others. */
qn_status qn_fuse_add_commits(qn_schedule *s) {
  s->flag_part = -1;
  for (size_t i = 0; i < qn_graph_result_count(s->g); i++) {
    uint32_t from = 0, v = qn_graph_result(s->g, i);
    if (!qn_schedule_commits(s, i, &from))
      continue;
    int part;
    QN_TRY(qn_fuse_open(s, PART_MAP, type_of(s, v), (uint32_t)qn_graph_def_index(s->g, v), &part));
    s->values[v].align = s->values[v].dep = part;
    s->values[v].space = SPACE_P;
    QN_TRY(qn_fuse_store(s, part, v));
    if (i == 0 && qn_loop_has_flag(s->loop))
      s->flag_part = part;
  }
  return QN_OK;
}
