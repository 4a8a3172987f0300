/* Plans: making, freeing, checking, forecasting. A plan may come from a file, so nothing in it is believed before it was checked. */
#include "exec_impl.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_RING = 2, MOST_DEPTH = 64 };

qn_status qn_plan_create(const char *name, qn_plan **out_plan) {
  *out_plan = NULL;
  qn_plan *p = calloc(1, sizeof *p);
  if (p)
    p->name = qn_arena_strdup(&p->arena, name ? name : "unnamed");
  if (!p || !p->name) {
    free(p);
    return QN_ERR(QN_OUT_OF_MEMORY, "plan %s: no memory", name ? name : "unnamed");
  }
  *out_plan = p;
  return QN_OK;
}

void qn_plan_free(qn_plan *p) {
  if (!p)
    return;
  if (p->code.release)
    p->code.release(p->code.owner);
  for (size_t i = 0; p->args && i < p->arg_count; i++)
    qn_layout_free(&p->args[i]);
  qn_layout_free(&p->result);
  qn_arena_free(&p->arena);
  free(p);
}

const char *qn_plan_cmd_label(const qn_plan *p, const qn_plan_cmd *c) {
  static const char *const plain[] = {
      [QN_CMD_LAUNCH] = "launch",   [QN_CMD_COPY] = "copy", [QN_CMD_FILL] = "fill",
      [QN_CMD_BARRIER] = "barrier", [QN_CMD_LOOP] = "loop", [QN_CMD_LOOP_END] = "end of loop"};
  if (c->label && c->label[0])
    return c->label;
  if (c->kind == QN_CMD_LAUNCH && c->entry < p->code.entry_count) {
    const qn_code_entry *e = &p->code.entries[c->entry];
    if (e->label || e->name)
      return e->label ? e->label : e->name;
  }
  return (size_t)c->kind < sizeof plain / sizeof *plain ? plain[c->kind] : "unknown";
}

static uint64_t slab_bytes(const qn_plan *p, uint32_t slab) {
  if (slab == 0)
    return p->arena_bytes;
  return slab <= p->arg_count ? p->args[slab - 1].bytes : p->result.bytes;
}

static qn_status check_range(const qn_plan *p, size_t at, const char *what, uint32_t slab, uint64_t offset,
                             uint64_t size) {
  if (slab > p->arg_count + 1)
    return QN_ERR(QN_INVALID, "plan %s: command %zu (%s) names slab %u, there are %zu", p->name, at, what, slab,
                  p->arg_count + 2);
  uint64_t bytes = slab_bytes(p, slab);
  if (offset > bytes || size > bytes - offset)
    return QN_ERR(QN_INVALID, "plan %s: command %zu (%s) covers %llu bytes from %llu of slab %u, which has %llu",
                  p->name, at, what, (unsigned long long)size, (unsigned long long)offset, slab,
                  (unsigned long long)bytes);
  return QN_OK;
}

static qn_status check_launch(const qn_plan *p, size_t at, const qn_plan_cmd *c) {
  if (c->entry >= p->code.entry_count)
    return QN_ERR(QN_INVALID, "plan %s: command %zu launches entry %u, the code has %zu", p->name, at, c->entry,
                  p->code.entry_count);
  const qn_code_entry *e = &p->code.entries[c->entry];
  if (c->binding_count != e->binding_count || c->binding_count > QN_MAX_BINDINGS)
    return QN_ERR(QN_INVALID, "plan %s: command %zu (%s) binds %u slabs, expected %u", p->name, at,
                  qn_plan_cmd_label(p, c), c->binding_count, e->binding_count);
  if (c->param_count != e->param_count || (c->param_count && !c->params))
    return QN_ERR(QN_INVALID, "plan %s: command %zu (%s) has %u parameter words, expected %u", p->name, at,
                  qn_plan_cmd_label(p, c), c->params ? c->param_count : 0, e->param_count);
  for (uint32_t i = 0; i < c->binding_count; i++)
    if (c->bindings[i] > p->arg_count + 1)
      return QN_ERR(QN_INVALID, "plan %s: command %zu (%s), binding %u is slab %u, there are %zu", p->name, at,
                    qn_plan_cmd_label(p, c), i, c->bindings[i], p->arg_count + 2);
  return QN_OK;
}

static qn_status check_loop(const qn_plan *p, size_t at, const qn_plan_cmd *c) {
  if (c->trips < -1)
    return QN_ERR(QN_INVALID, "plan %s: command %zu is a loop of %lld trips, expected -1 (its flag decides) or more",
                  p->name, at, (long long)c->trips);
  if (c->trips < 0)
    QN_TRY(check_range(p, at, "loop's flag", c->src, c->src_offset, 1));
  return QN_OK;
}

/* Every loop ends, and none ends that did not begin. */
static qn_status check_loops(const qn_plan *p) {
  size_t depth = 0, flags = 0;
  for (size_t i = 0; i < p->cmd_count; i++) {
    const qn_plan_cmd *c = &p->cmds[i];
    flags += c->kind == QN_CMD_LOOP && c->trips < 0;
    if (c->kind == QN_CMD_LOOP && ++depth > MOST_DEPTH)
      return QN_ERR(QN_INVALID, "plan %s: command %zu is a loop in %d others", p->name, i, MOST_DEPTH);
    if (c->kind == QN_CMD_LOOP_END && depth-- == 0)
      return QN_ERR(QN_INVALID, "plan %s: command %zu ends a loop that did not begin", p->name, i);
  }
  if (depth)
    return QN_ERR(QN_INVALID, "plan %s: %zu loops without an end", p->name, depth);
  if (flags != p->host_points)
    return QN_ERR(QN_INVALID, "plan %s: %llu host points, expected %zu, one for each loop with a flag", p->name,
                  (unsigned long long)p->host_points, flags);
  return QN_OK;
}

static qn_status check_cmd(const qn_plan *p, size_t at) {
  const qn_plan_cmd *c = &p->cmds[at];
  if (c->kind == QN_CMD_BARRIER || c->kind == QN_CMD_LOOP_END)
    return QN_OK;
  if (c->kind == QN_CMD_LOOP) {
    QN_TRY(check_loop(p, at, c));
    return QN_OK;
  }
  if (c->kind == QN_CMD_LAUNCH) {
    QN_TRY(check_launch(p, at, c));
    return QN_OK;
  }
  if (c->kind != QN_CMD_COPY && c->kind != QN_CMD_FILL)
    return QN_ERR(QN_INVALID, "plan %s: command %zu has the unknown kind %d", p->name, at, (int)c->kind);
  QN_TRY(check_range(p, at, c->kind == QN_CMD_COPY ? "copy to" : "fill", c->dst, c->dst_offset, c->size));
  if (c->kind == QN_CMD_COPY)
    QN_TRY(check_range(p, at, "copy from", c->src, c->src_offset, c->size));
  return QN_OK;
}

qn_status qn_plan_check(const qn_plan *p) {
  if ((p->cmd_count && !p->cmds) || (p->arg_count && !p->args) || (p->constant_count && !p->constants) ||
      (p->donation_count && !p->donations) || (p->code.entry_count && !p->code.entries) || !p->name)
    return QN_ERR(QN_INVALID, "plan %s: a list is missing", p->name ? p->name : "unnamed");
  if (p->arg_count > UINT32_MAX - 2)
    return QN_ERR(QN_INVALID, "plan %s: %zu arguments", p->name, p->arg_count);
  for (size_t i = 0; i < p->cmd_count; i++)
    QN_TRY(check_cmd(p, i));
  QN_TRY(check_loops(p));
  for (size_t i = 0; i < p->constant_count; i++) {
    const qn_plan_constant *k = &p->constants[i];
    if (k->offset > p->arena_bytes || k->bytes > p->arena_bytes - k->offset || (k->bytes && !k->data))
      return QN_ERR(QN_INVALID, "plan %s: constant %zu has %zu bytes at %llu of an arena of %llu", p->name, i, k->bytes,
                    (unsigned long long)k->offset, (unsigned long long)p->arena_bytes);
  }
  for (size_t i = 0; i < p->donation_count; i++)
    if (p->donations[i].arg >= p->arg_count)
      return QN_ERR(QN_INVALID, "plan %s: donation %zu is of argument %zu, there are %zu", p->name, i,
                    p->donations[i].arg, p->arg_count);
  if (p->first_donated_write > p->cmd_count)
    return QN_ERR(QN_INVALID, "plan %s: the first donated write is command %llu, there are %zu", p->name,
                  (unsigned long long)p->first_donated_write, p->cmd_count);
  return QN_OK;
}

void qn_plan_get_forecast(const qn_plan *p, uint32_t result_ring, qn_plan_forecast *out_forecast) {
  qn_plan_forecast f = {.arena = p->arena_bytes};
  for (size_t i = 0; i < p->arg_count; i++)
    f.args += p->args[i].bytes;
  f.results = p->result.bytes * (result_ring ? result_ring : DEFAULT_RING);
  f.total = f.arena + f.args + f.results;
  *out_forecast = f;
}

void qn_exec_bytes_text(uint64_t bytes, char *out, size_t size) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double x = (double)bytes;
  size_t u = 0;
  for (; x >= 1024 && u + 1 < sizeof units / sizeof *units; u++)
    x /= 1024;
  (void)snprintf(out, size, u ? "%.1f %s" : "%.0f %s", x, units[u]);
}
