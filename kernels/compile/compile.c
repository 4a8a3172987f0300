/* From a traced function to a plan: optimise, lower, schedule, place, build kernels, make code for the device's format, list commands. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "quern/compile.h"
#include "../schedule/lower.h"
#include "../schedule/schedule.h"

/* ---- layouts and donations ---- */

qn_status qn_layout_from_treedef(const qn_treedef *def, qn_layout *out_layout) {
  memset(out_layout, 0, sizeof *out_layout);
  for (size_t i = 0; i < def->count; i++) {
    const qn_type *t = &def->leaves[i].type;
    qn_status st = qn_layout_add(out_layout, def->leaves[i].path, t->dtype, t->rank, t->dims);
    if (st != QN_OK) {
      qn_layout_free(out_layout);
      return st;
    }
  }
  return QN_OK;
}

static bool is_below(const char *path, const char *prefix) {
  size_t n = strlen(prefix);
  return n == 0 || (strncmp(path, prefix, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

static bool is_donated(const qn_plan *p, const char *path) {
  for (size_t i = 0; i < p->donation_count; i++)
    if (is_below(path, p->donations[i].prefix))
      return true;
  return false;
}

/* A misspelt prefix would leave the argument as it is, call after call. */
static qn_status check_donation(const qn_plan *p, const qn_traced *fn, const qn_plan_donation *d) {
  const char *prefix = d->prefix ? d->prefix : "";
  if (d->arg >= fn->arg_count)
    return QN_ERR(QN_INVALID, "%s: argument %zu is donated, but there are only %zu", p->name, d->arg, fn->arg_count);
  bool any = fn->result.count == 0 || fn->args[d->arg].count == 0;
  for (size_t i = 0; i < fn->result.count && !any; i++)
    any = is_below(fn->result.leaves[i].path, prefix);
  if (!any)
    return QN_ERR(QN_INVALID,
                  "%s: argument %zu is donated to the results below '%s', but there are none (the first is '%s')",
                  p->name, d->arg, prefix, fn->result.leaves[0].path);
  return QN_OK;
}

static qn_status set_signature(qn_plan *p, const qn_traced *fn, const qn_compile_desc *desc) {
  p->name = qn_arena_strdup(&p->arena, desc->name ? desc->name : qn_graph_name(fn->graph));
  p->donations = QN_NEW(&p->arena, qn_plan_donation, desc->donation_count + 1);
  p->args = QN_NEW(&p->arena, qn_layout, fn->arg_count + 1);
  if (!p->name || !p->donations || !p->args)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a plan");
  for (size_t i = 0; i < desc->donation_count; i++) {
    const qn_plan_donation *d = &desc->donations[i];
    QN_TRY(check_donation(p, fn, d));
    p->donations[i] = (qn_plan_donation){d->arg, qn_arena_strdup(&p->arena, d->prefix ? d->prefix : "")};
    if (!p->donations[i].prefix)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a plan");
  }
  p->donation_count = desc->donation_count;
  for (; p->arg_count < fn->arg_count; p->arg_count++)
    QN_TRY(qn_layout_from_treedef(&fn->args[p->arg_count], &p->args[p->arg_count]));
  for (size_t i = 0; i < fn->result.count; i++) {
    const qn_treedef_leaf *leaf = &fn->result.leaves[i];
    if (!is_donated(p, leaf->path))
      QN_TRY(qn_layout_add(&p->result, leaf->path, leaf->type.dtype, leaf->type.rank, leaf->type.dims));
  }
  return QN_OK;
}

/* ---- commands ---- */

/* Arguments that were copied to the arena live among the constants, but aren't any. */
static bool is_constant(const qn_schedule *s, uint32_t v) {
  return s->values[v].home == HOME_CONSTANT && qn_graph_def(s->g, v)->op == QN_OP_CONSTANT;
}

static size_t count_constants(const qn_schedule *s) {
  size_t count = 0;
  for (uint32_t v = 1; v <= qn_graph_value_count(s->g); v++)
    count += is_constant(s, v);
  for (size_t i = 0; i < s->part_count; i++)
    count += s->parts[i].body ? count_constants(s->parts[i].body) : 0;
  return count;
}

static qn_status add_constants(qn_plan *p, const qn_schedule *s) {
  for (uint32_t v = 1; v <= qn_graph_value_count(s->g); v++) {
    const sched_value *sv = &s->values[v];
    bool splat;
    if (!is_constant(s, v))
      continue;
    size_t bytes = (size_t)qn_type_bytes(qn_graph_type(s->g, v));
    void *data = qn_arena_copy(&p->arena, qn_graph_constant(s->g, v, &splat), bytes);
    if (!data)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for constants");
    p->constants[p->constant_count++] = (qn_plan_constant){sv->offset, data, bytes};
  }
  for (size_t i = 0; i < s->part_count; i++)
    if (s->parts[i].body)
      QN_TRY(add_constants(p, s->parts[i].body));
  return QN_OK;
}

static qn_status set_constants(qn_plan *p, const qn_schedule *s) {
  p->constants = QN_NEW(&p->arena, qn_plan_constant, count_constants(s) + 1);
  if (!p->constants)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for constants");
  QN_TRY(add_constants(p, s));
  return QN_OK;
}

static qn_status set_launch(qn_plan *p, const sched_launch *l, qn_plan_cmd *c) {
  c->kind = QN_CMD_LAUNCH;
  c->entry = l->kernel;
  c->groups = l->groups;
  c->binding_count = l->binding_count;
  memcpy(c->bindings, l->bindings, sizeof c->bindings);
  c->param_count = (uint32_t)l->param_count;
  uint32_t *params = QN_NEW(&p->arena, uint32_t, l->param_count);
  if (!params)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for launch parameters");
  if (l->params)
    memcpy(params, l->params, l->param_count * sizeof *params);
  params[0] = l->groups;
  c->params = params;
  c->label = l->label;
  c->flops = l->flops;
  c->bytes = l->bytes;
  return QN_OK;
}

static void set_loop(qn_plan *p, const sched_launch *l, qn_plan_cmd *c) {
  c->label = l->label;
  c->kind = l->kind == LAUNCH_LOOP ? QN_CMD_LOOP : QN_CMD_LOOP_END;
  if (l->kind == LAUNCH_LOOP_END)
    return;
  c->trips = l->trips;
  if (l->trips >= 0)
    return;
  c->guarded = l->flag.on;
  c->src = l->flag.slab;
  c->src_offset = l->flag.offset;
  p->host_points++;
}

static void set_copy(const sched_copy *from, qn_plan_cmd *c) {
  c->kind = QN_CMD_COPY;
  c->src = from->src_slab;
  c->src_offset = from->src_offset;
  c->dst = from->dst_slab;
  c->dst_offset = from->dst_offset;
  c->size = from->bytes;
  c->bytes = 2 * from->bytes;
  c->label = "copy";
}

static void add_copies(qn_plan *p, const sched_places *places, int stage) {
  bool first = true;
  for (size_t i = 0; i < places->copy_count; i++) {
    if (places->copies[i].stage != stage)
      continue;
    if (first && p->cmd_count)
      p->cmds[p->cmd_count++].kind = QN_CMD_BARRIER;
    first = false;
    set_copy(&places->copies[i], &p->cmds[p->cmd_count++]);
  }
}

static bool is_donated_slab(const qn_plan *p, uint32_t slab) {
  for (size_t i = 0; i < p->donation_count; i++)
    if (p->donations[i].arg + 1 == slab)
      return true;
  return false;
}

static qn_status set_commands(qn_plan *p, const sched_program *prog, const sched_places *places) {
  size_t room = 2 * prog->launch_count + places->copy_count + 8;
  p->cmds = QN_NEW(&p->arena, qn_plan_cmd, room);
  if (!p->cmds)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for commands");
  add_copies(p, places, -1);
  int stage = p->cmd_count ? -1 : prog->launch_count ? prog->launches[0].stage : 0;
  for (size_t i = 0; i < prog->launch_count; i++) {
    const sched_launch *l = &prog->launches[i];
    if (l->kind != LAUNCH_KERNEL) {
      set_loop(p, l, &p->cmds[p->cmd_count++]);
      stage = -1; /* what comes next reads what was there, and what the loop wrote */
      continue;
    }
    if (l->stage != stage)
      p->cmds[p->cmd_count++].kind = QN_CMD_BARRIER;
    stage = l->stage;
    QN_TRY(set_launch(p, l, &p->cmds[p->cmd_count++]));
  }
  add_copies(p, places, 0);
  add_copies(p, places, 1);
  p->copies = places->copy_count;
  p->first_donated_write = p->cmd_count;
  for (size_t i = p->cmd_count; i > 0; i--) {
    const qn_plan_cmd *c = &p->cmds[i - 1];
    for (uint32_t b = 0; c->kind == QN_CMD_LAUNCH && b < c->binding_count; b++)
      if (is_donated_slab(p, c->bindings[b]))
        p->first_donated_write = i - 1;
    if (c->kind == QN_CMD_COPY && is_donated_slab(p, c->dst))
      p->first_donated_write = i - 1;
  }
  return QN_OK;
}

/* ---- the whole way ---- */

static void explain_title(qn_text *t, const char *title) { qn_text_add(t, "\n==== %s ====\n", title); }

typedef struct compilation {
  qn_graph *optimized, *lowered;
  qn_schedule schedule;
  sched_places places;
  sched_program program;
} compilation;

static qn_status run(compilation *c, const qn_device_caps *caps, const qn_traced *fn, const qn_compile_desc *desc,
                     qn_plan *p) {
  qn_text *x = desc->explain;
  qn_optimize_desc opt = {.log = x};
  QN_TRY(set_signature(p, fn, desc));
  if (x) {
    explain_title(x, "graph");
    qn_graph_print(fn->graph, x);
    explain_title(x, "rewrites");
  }
  QN_TRY(qn_graph_optimize(fn->graph, &opt, &c->optimized));
  QN_TRY(qn_lower(c->optimized, x, &c->lowered));
  if (x) {
    explain_title(x, "graph, rewritten");
    qn_graph_print(c->lowered, x);
  }
  QN_TRY(qn_schedule_build(&c->schedule, c->lowered, caps,
                           desc->no_fusion || (qn_env_get(QN_ENV_FUSION) && !qn_env_on(QN_ENV_FUSION))));
  qn_compile_desc place = *desc;
  place.no_reuse |= qn_env_get(QN_ENV_REUSE) && !qn_env_on(QN_ENV_REUSE);
  QN_TRY(qn_schedule_place(&c->schedule, fn, &place, p, &c->places));
  QN_TRY(qn_schedule_launches(&c->schedule, &p->arena, &c->program));
  if (x) {
    explain_title(x, "kernels");
    qn_schedule_print(&c->schedule, x);
  }
  QN_TRY(qn_backend_code(caps, &c->program, desc, p));
  QN_TRY(set_constants(p, &c->schedule));
  p->arena_bytes = c->places.arena_bytes;
  QN_TRY(set_commands(p, &c->program, &c->places));
  if (x) {
    explain_title(x, "plan");
    qn_plan_print(p, x);
  }
  return QN_OK;
}

qn_status qn_compile(const qn_device_caps *caps, const qn_traced *fn, const qn_compile_desc *desc, qn_plan **out_plan) {
  static const qn_compile_desc defaults = {0};
  *out_plan = NULL;
  qn_plan *p = calloc(1, sizeof *p);
  if (!p)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a plan");
  compilation c;
  memset(&c, 0, sizeof c);
  qn_text trace = {0};
  qn_compile_desc own = desc ? *desc : defaults;
  const char *wanted = qn_env_get(QN_ENV_TRACE);
  if (wanted && !own.explain && (strstr(wanted, "fuse") || strstr(wanted, "kernel"))) {
    own.explain = &trace;
    own.explain_kernels = strstr(wanted, "kernel") != NULL;
  }
  qn_status st = run(&c, caps, fn, &own, p);
  if (trace.buf)
    fputs(trace.buf, stderr);
  qn_text_free(&trace);
  qn_schedule_program_free(&c.program);
  qn_schedule_places_free(&c.places);
  qn_schedule_free(&c.schedule);
  if (c.lowered)
    qn_graph_release(c.lowered);
  if (c.optimized)
    qn_graph_release(c.optimized);
  if (st != QN_OK) {
    qn_plan_free(p);
    return st;
  }
  *out_plan = p;
  return QN_OK;
}

qn_status qn_jit(qn_device *d, const qn_traced *fn, const qn_jit_desc *desc, qn_step **out_step) {
  qn_plan *plan;
  qn_compile_desc compile = desc ? desc->compile : (qn_compile_desc){0};
  *out_step = NULL;
  if (desc && !compile.cache)
    compile.cache = desc->step.cache;
  QN_TRY(qn_compile(qn_device_get_caps(d), fn, &compile, &plan));
  QN_TRY(qn_step_create(d, plan, desc ? &desc->step : NULL, out_step));
  return QN_OK;
}
