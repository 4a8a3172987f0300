/* Levels to kernels: the parts of a level go side by side into one kernel, each with its own range of groups. Equal kernels are kept once. */
#include "lower.h"
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

/* Drivers' compilers take more than proportionally longer over long kernels. */
enum { BUNDLE_PARTS = 64, BUNDLE_INSTRUCTIONS = 3000 };

/* ---- figures for the profiler ---- */

double qn_part_flops(const qn_schedule *s, const sched_part *p) {
  double elements = (double)qn_type_elements(&p->domain), cost = 0;
  if (qn_part_kinds[p->kind].flops)
    return qn_part_kinds[p->kind].flops(s, p);
  for (size_t i = 0; i < p->reduce_count; i++) {
    uint32_t c = s->values[qn_graph_node(s->g, p->reduces[i])->operands[0]].cost;
    cost += 1 + (c < 4096 ? c : 0);
  }
  for (size_t i = 0; i < p->output_count; i++)
    cost += s->values[p->outputs[i]].cost < 4096 ? s->values[p->outputs[i]].cost : 0;
  return elements * cost;
}

uint64_t qn_part_bytes(const qn_schedule *s, const sched_part *p) {
  int64_t bytes = 0;
  if (p->kind == PART_UPDATE)
    return 2 * (uint64_t)qn_type_bytes(&p->domain);
  for (size_t i = 0; i < p->input_count; i++)
    bytes += qn_type_bytes(qn_graph_type(s->g, p->inputs[i].value));
  for (size_t i = 0; i < p->output_count; i++)
    bytes += qn_type_bytes(qn_graph_type(s->g, p->outputs[i]));
  return (uint64_t)bytes;
}

/* ---- labels ---- */

static const char *short_file(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path ? path : "?";
}

const char *qn_part_label(const qn_schedule *s, const sched_part *p, qn_arena *arena) {
  const qn_node *hero = qn_graph_node(s->g, p->hero);
  qn_text t = {0};
  qn_text_puts(&t, qn_op_get(hero->op)->name);
  int shown = 1;
  for (size_t i = 1; i < p->reduce_count && shown < 3; i++, shown++)
    qn_text_add(&t, "+%s", qn_op_get(qn_graph_node(s->g, p->reduces[i])->op)->name);
  for (size_t i = 0; i < p->output_count && shown < 5; i++) {
    const qn_node *n = qn_graph_def(s->g, p->outputs[i]);
    if (n == hero)
      continue;
    qn_text_add(&t, "+%s", qn_op_get(n->op)->name);
    shown++;
  }
  if (p->output_count > 5)
    qn_text_puts(&t, "...");
  qn_text_add(&t, " (%s:%d)", short_file(hero->place.file), hero->place.line);
  const char *label = t.buf ? qn_arena_strdup(arena, t.buf) : "";
  qn_text_free(&t);
  return label ? label : "";
}

/* ---- building ---- */

static bool part_runs(const qn_schedule *s, const sched_part *p) {
  if (p->kind == PART_LOOP)
    return false;
  for (size_t i = 0; i < p->output_count; i++)
    if (qn_type_elements(qn_graph_type(s->g, p->outputs[i])) > 0)
      return true;
  return false;
}

/* As many of the parts as make a kernel of bearable length; *out_taken says how many. */
static qn_status emit_bundle(qn_schedule *s, const int *parts, int count, qn_kernel *k, sched_launch *out,
                             int *out_taken) {
  size_t values = qn_graph_value_count(s->g);
  uint32_t slabs[QN_MAX_BINDINGS];
  qn_kbuild b;
  k->items = qn_emit_grid(s->caps).items;
  QN_TRY(qn_kbuild_begin(&b, k));
  qn_emit e = {.s = s, .b = &b, .k = &b.sink, .bindings = slabs};
  e.buffers = calloc(values + 1, sizeof *e.buffers);
  e.slab_binding = calloc(values + 64, sizeof *e.slab_binding);
  if (!e.buffers || !e.slab_binding)
    e.status = QN_ERR(QN_OUT_OF_MEMORY, "no memory to build a kernel");
  bool guarded = s->guard.on && parts[0] != s->flag_part;
  if (guarded)
    qn_kb_if(&b, qn_emit_flag(&e, &s->guard));
  qn_sval group = qs_bitcast(e.k, QN_I32, qn_kb_group(&b));
  uint32_t begin = 0;
  for (*out_taken = 0; *out_taken < count && k->count <= BUNDLE_INSTRUCTIONS && e.status == QN_OK; ++*out_taken) {
    int i = *out_taken;
    e.part_index = parts[i];
    e.part = &s->parts[parts[i]];
    uint32_t groups = qn_part_groups(s, e.part);
    qn_sval lo = qs_const(e.k, QN_I32, (double)begin), hi = qs_const(e.k, QN_I32, (double)(begin + groups));
    if (count > 1)
      qn_kb_if(&b, i == 0 ? qs_lt(e.k, group, hi) : qs_and(e.k, qs_le(e.k, lo, group), qs_lt(e.k, group, hi)));
    e.group = begin ? qs_sub(e.k, group, lo) : group;
    qn_emit_part(&e);
    if (count > 1)
      qn_kb_close(&b);
    begin += groups;
  }
  if (guarded)
    qn_kb_close(&b);
  k->binding_count = e.binding_count;
  qn_status st = e.status;
  qn_status end = qn_kbuild_end(&b);
  free(e.buffers);
  free(e.slab_binding);
  free(e.overrides);
  qn_emit_free(&e);
  out->groups = begin;
  out->binding_count = e.binding_count;
  memcpy(out->bindings, slabs, e.binding_count * sizeof *slabs);
  out->params = e.params;
  out->param_count = e.param_count > 1 ? e.param_count : 1;
  return st != QN_OK ? st : end;
}

static qn_status keep_kernel(sched_program *p, qn_kernel *k, const char *label, uint32_t *out_index) {
  for (size_t i = 0; i < p->kernel_count; i++)
    if (strcmp(p->kernels[i]->name, k->name) == 0) {
      qn_kernel_free(k);
      free(k);
      *out_index = (uint32_t)i;
      return QN_OK;
    }
  size_t labels = p->kernel_capacity;
  if (!QN_RESERVE(p->kernels, p->kernel_capacity, p->kernel_count + 1) ||
      !QN_RESERVE(p->labels, labels, p->kernel_capacity))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for another kernel");
  p->kernels[p->kernel_count] = k;
  p->labels[p->kernel_count] = label;
  *out_index = (uint32_t)p->kernel_count++;
  return QN_OK;
}

static void describe_launch(const qn_schedule *s, qn_arena *arena, const int *parts, int count, sched_launch *l) {
  qn_text label = {0};
  for (int i = 0; i < count; i++) {
    const sched_part *p = &s->parts[parts[i]];
    if (i < 3)
      qn_text_add(&label, "%s%s", i ? " | " : "", qn_part_label(s, p, arena));
    l->flops += qn_part_flops(s, p);
    l->bytes += qn_part_bytes(s, p);
  }
  if (count > 3)
    qn_text_add(&label, " | %d more", count - 3);
  l->label = label.buf ? qn_arena_strdup(arena, label.buf) : NULL;
  l->label = l->label ? l->label : "";
  qn_text_free(&label);
}

static qn_status add_launch(qn_schedule *s, qn_arena *arena, const int *parts, int count, sched_program *out,
                            int *out_taken) {
  sched_launch l = {.stage = out->stages};
  qn_kernel *k = calloc(1, sizeof *k);
  qn_status st =
      k ? emit_bundle(s, parts, count, k, &l, out_taken) : QN_ERR(QN_OUT_OF_MEMORY, "no memory for another kernel");
  if (st == QN_OK) {
    describe_launch(s, arena, parts, *out_taken, &l);
    if (!QN_RESERVE(out->launches, out->launch_capacity, out->launch_count + 1))
      st = QN_ERR(QN_OUT_OF_MEMORY, "no memory for another launch");
    else
      st = keep_kernel(out, k, l.label, &l.kernel);
  }
  if (st != QN_OK) {
    free(l.params);
    if (k)
      qn_kernel_free(k);
    free(k);
    return st;
  }
  out->launches[out->launch_count++] = l;
  return QN_OK;
}

static qn_status add_launches(qn_schedule *s, qn_arena *arena, const int *parts, int count, sched_program *out) {
  for (int taken = 0; count > 0; parts += taken, count -= taken)
    QN_TRY(add_launch(s, arena, parts, count, out, &taken));
  return QN_OK;
}

/* Heavier parts first: what is cut finely fills the end. */
static void sort_by_weight(const qn_schedule *s, int *parts, int count) {
  for (int i = 1; i < count; i++)
    for (int j = i; j > 0 && qn_part_flops(s, &s->parts[parts[j]]) > qn_part_flops(s, &s->parts[parts[j - 1]]); j--) {
      int t = parts[j];
      parts[j] = parts[j - 1];
      parts[j - 1] = t;
    }
}

static qn_status add_levels(qn_schedule *s, qn_arena *arena, sched_program *out);

static qn_status add_mark(sched_program *out, sched_launch mark) {
  if (!QN_RESERVE(out->launches, out->launch_capacity, out->launch_count + 1))
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a loop");
  mark.stage = out->stages++;
  out->launches[out->launch_count++] = mark;
  return QN_OK;
}

static qn_status add_loop(const qn_schedule *s, const sched_part *p, qn_arena *arena, sched_program *out) {
  const qn_node *n = p->body->loop;
  bool flag = qn_loop_has_flag(n);
  const sched_value *first = &s->values[n->first_result];
  QN_TRY(add_mark(out, (sched_launch){.kind = LAUNCH_LOOP,
                                      .trips = flag ? -1 : ((const qn_attr_while *)n->attr)->trip_count,
                                      .flag = {p->body->guard.on && flag, first->slab, first->offset},
                                      .label = qn_part_label(s, p, arena)}));
  QN_TRY(add_levels(p->body, arena, out));
  QN_TRY(add_mark(out, (sched_launch){.kind = LAUNCH_LOOP_END, .label = ""}));
  return QN_OK;
}

static qn_status add_level(qn_schedule *s, int level, qn_arena *arena, sched_program *out) {
  int limit = s->no_fusion ? 1 : BUNDLE_PARTS, bundle[BUNDLE_PARTS], count = 0;
  for (size_t i = 0; i < s->part_count; i++) {
    if (s->parts[i].level != level || !part_runs(s, &s->parts[i]))
      continue;
    bundle[count++] = (int)i;
    if (count < limit)
      continue;
    sort_by_weight(s, bundle, count);
    QN_TRY(add_launches(s, arena, bundle, count, out));
    count = 0;
  }
  sort_by_weight(s, bundle, count);
  QN_TRY(add_launches(s, arena, bundle, count, out));
  out->stages++;
  return QN_OK;
}

static qn_status add_levels(qn_schedule *s, qn_arena *arena, sched_program *out) {
  for (int level = 0; level < s->level_count; level++) {
    QN_TRY(add_level(s, level, arena, out));
    for (size_t i = 0; i < s->part_count; i++)
      if (s->parts[i].level == level && s->parts[i].kind == PART_LOOP)
        QN_TRY(add_loop(s, &s->parts[i], arena, out));
  }
  return QN_OK;
}

qn_status qn_schedule_launches(qn_schedule *s, qn_arena *arena, sched_program *out) {
  memset(out, 0, sizeof *out);
  QN_TRY(add_levels(s, arena, out));
  return QN_OK;
}

void qn_schedule_program_free(sched_program *p) {
  for (size_t i = 0; i < p->kernel_count; i++) {
    qn_kernel_free(p->kernels[i]);
    free(p->kernels[i]);
  }
  for (size_t i = 0; i < p->launch_count; i++)
    free(p->launches[i].params);
  free(p->kernels);
  free(p->labels);
  free(p->launches);
  memset(p, 0, sizeof *p);
}
