/* A plan as text: what lies where, what runs in which order, what it will need. */
#include "exec_impl.h"

typedef struct sized {
  char s[32];
} sized;

static sized in_bytes(uint64_t n) {
  sized t;
  qn_exec_bytes_text(n, t.s, sizeof t.s);
  return t;
}

static void print_slabs(const qn_plan *p, qn_text *out) {
  uint64_t constant_bytes = 0;
  for (size_t i = 0; i < p->constant_count; i++)
    constant_bytes += p->constants[i].bytes;
  qn_text_add(out, "slabs\n");
  qn_text_add(out, "  %3d  %-10s %12s  %zu constants (%s)\n", 0, "arena", in_bytes(p->arena_bytes).s, p->constant_count,
              in_bytes(constant_bytes).s);
  for (size_t i = 0; i < p->arg_count; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "arg %zu", i);
    qn_text_add(out, "  %3zu  %-10s %12s  %zu leaves", i + 1, name, in_bytes(p->args[i].bytes).s, p->args[i].count);
    for (size_t k = 0; k < p->donation_count; k++)
      if (p->donations[k].arg == i)
        qn_text_add(out, ", donated to %s",
                    p->donations[k].prefix && p->donations[k].prefix[0] ? p->donations[k].prefix : "the result");
    qn_text_puts(out, "\n");
  }
  qn_text_add(out, "  %3zu  %-10s %12s  %zu leaves\n", p->arg_count + 1, "result", in_bytes(p->result.bytes).s,
              p->result.count);
}

static void print_leaves(const char *title, const qn_layout *l, qn_text *out) {
  if (!l->count)
    return;
  qn_text_add(out, "%s\n", title);
  for (size_t i = 0; i < l->count; i++) {
    char type[256];
    qn_layout_entry_text(&l->entries[i], type, sizeof type);
    qn_text_add(out, "  %12llu  %-20s %s\n", (unsigned long long)l->entries[i].offset, type, l->entries[i].path);
  }
}

static void print_constants(const qn_plan *p, qn_text *out) {
  if (!p->constant_count)
    return;
  qn_text_add(out, "constants (in the arena)\n");
  for (size_t i = 0; i < p->constant_count; i++)
    qn_text_add(out, "  %12llu  %zu bytes\n", (unsigned long long)p->constants[i].offset, p->constants[i].bytes);
}

static void print_loop(const qn_plan *p, size_t at, qn_text *out) {
  const qn_plan_cmd *c = &p->cmds[at];
  if (c->kind == QN_CMD_LOOP_END)
    qn_text_add(out, "  %4zu  ---- end of loop\n", at);
  else if (c->trips >= 0)
    qn_text_add(out, "  %4zu  ---- loop, %lld times  %s\n", at, (long long)c->trips, qn_plan_cmd_label(p, c));
  else
    qn_text_add(out, "  %4zu  ---- loop while %u+%llu is set%s  %s\n", at, c->src, (unsigned long long)c->src_offset,
                c->guarded ? ", guarded" : "", qn_plan_cmd_label(p, c));
}

static void print_cmd(const qn_plan *p, size_t at, qn_text *out) {
  const qn_plan_cmd *c = &p->cmds[at];
  char slabs[128] = "";
  if (c->kind == QN_CMD_LOOP || c->kind == QN_CMD_LOOP_END) {
    print_loop(p, at, out);
    return;
  }
  if (c->kind == QN_CMD_BARRIER) {
    qn_text_add(out, "  %4zu  ---- barrier\n", at);
    return;
  }
  int n = 0;
  if (c->kind == QN_CMD_LAUNCH) {
    for (uint32_t i = 0; i < c->binding_count && i < QN_MAX_BINDINGS && n >= 0 && (size_t)n < sizeof slabs; i++)
      n += snprintf(slabs + n, sizeof slabs - (size_t)n, "%s%u", i ? "," : "", c->bindings[i]);
    qn_text_add(out, "  %4zu  %-6s %8u  %-12s", at, "launch", c->groups, slabs);
  } else if (c->kind == QN_CMD_COPY) {
    (void)snprintf(slabs, sizeof slabs, "%u+%llu>%u+%llu", c->src, (unsigned long long)c->src_offset, c->dst,
                   (unsigned long long)c->dst_offset);
    qn_text_add(out, "  %4zu  %-6s %8s  %-12s", at, "copy", "", slabs);
  } else {
    (void)snprintf(slabs, sizeof slabs, "%u+%llu", c->dst, (unsigned long long)c->dst_offset);
    qn_text_add(out, "  %4zu  %-6s %8s  %-12s", at, "fill", "", slabs);
  }
  uint64_t bytes = c->bytes ? c->bytes : c->kind == QN_CMD_LAUNCH ? 0 : c->size;
  qn_text_add(out, " %10.3g %11s  %s%s\n", c->flops, in_bytes(bytes).s, qn_plan_cmd_label(p, c),
              at == p->first_donated_write ? "  <- first donated write" : "");
}

/* What a loop's commands count for; one whose flag decides, or that never runs, counts once. */
static double trips_of(const qn_plan_cmd *c) { return c->trips > 0 ? (double)c->trips : 1; }

/* The loop that a command ends; an end without one is taken for its own. */
static const qn_plan_cmd *loop_of(const qn_plan *p, size_t end) {
  size_t depth = 1;
  for (size_t i = end; i > 0 && depth > 0; i--) {
    const qn_plan_cmd *c = &p->cmds[i - 1];
    depth += c->kind == QN_CMD_LOOP_END;
    depth -= c->kind == QN_CMD_LOOP;
    if (depth == 0)
      return c;
  }
  return &p->cmds[end];
}

void qn_plan_print(const qn_plan *p, qn_text *out) {
  size_t kinds[QN_CMD_LOOP_END + 1] = {0};
  double flops = 0, read_and_written = 0, runs = 1;
  for (size_t i = 0; i < p->cmd_count; i++) {
    const qn_plan_cmd *c = &p->cmds[i];
    if ((size_t)c->kind <= QN_CMD_LOOP_END)
      kinds[c->kind]++;
    if (c->kind == QN_CMD_LOOP)
      runs *= trips_of(c);
    else if (c->kind == QN_CMD_LOOP_END)
      runs /= trips_of(loop_of(p, i));
    flops += runs * c->flops;
    read_and_written += runs * (double)c->bytes;
  }
  uint64_t bytes = read_and_written < 9e18 ? (uint64_t)read_and_written : UINT64_MAX;
  qn_text_add(out, "plan %s: %zu launches, %zu copies, %zu fills, %zu barriers; %zu kernels; %llu inserted copies",
              p->name, kinds[QN_CMD_LAUNCH], kinds[QN_CMD_COPY], kinds[QN_CMD_FILL], kinds[QN_CMD_BARRIER],
              p->code.entry_count, (unsigned long long)p->copies);
  if (kinds[QN_CMD_LOOP])
    qn_text_add(out, "; %zu loops, %llu host points", kinds[QN_CMD_LOOP], (unsigned long long)p->host_points);
  qn_text_puts(out, "\n");
  print_slabs(p, out);
  for (size_t i = 0; i < p->arg_count; i++) {
    char title[48];
    (void)snprintf(title, sizeof title, "arg %zu", i);
    print_leaves(title, &p->args[i], out);
  }
  print_leaves("result", &p->result, out);
  print_constants(p, out);
  qn_text_add(out, "commands\n  %4s  %-6s %8s  %-12s %10s %11s  %s\n", "#", "kind", "groups", "slabs", "flops", "bytes",
              "label");
  for (size_t i = 0; i < p->cmd_count; i++)
    print_cmd(p, i, out);
  qn_plan_forecast f;
  qn_plan_get_forecast(p, 0, &f);
  qn_text_add(out, "work of one call: %.4g flops, %s read and written\n", flops, in_bytes(bytes).s);
  qn_text_add(out, "memory forecast: arena %s + arguments %s + results %s = %s\n", in_bytes(f.arena).s,
              in_bytes(f.args).s, in_bytes(f.results).s, in_bytes(f.total).s);
}
