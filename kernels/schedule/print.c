/* The schedule as text: a block a part, with what it computes, reads and writes, and the launch it goes into. */
#include "schedule.h"

static void print_values(const qn_schedule *s, const char *what, const uint32_t *v, size_t n, qn_text *out) {
  static const char *const homes[] = {"-", "arena", "arg", "result", "const"};
  for (size_t i = 0; i < n; i++) {
    const sched_value *sv = &s->values[v[i]];
    qn_text_add(out, "    %s %%%u %s %s", what, v[i], qn_op_get(qn_graph_def(s->g, v[i])->op)->name,
                qn_type_str(qn_graph_type(s->g, v[i])));
    qn_text_add(out, " @%s %u+%llu\n", homes[sv->home], sv->slab, (unsigned long long)sv->offset);
  }
}

static void print_part(const qn_schedule *s, const sched_part *p, qn_text *out) {
  for (size_t j = 0; j < p->reduce_count; j++) {
    uint32_t r = qn_graph_node(s->g, p->reduces[j])->first_result;
    qn_text_add(out, "    reduces %%%u %s\n", r, qn_type_str(qn_graph_type(s->g, r)));
  }
  for (size_t j = 0; j < p->input_count; j++)
    print_values(s, p->inputs[j].identity ? "reads  " : "gathers", &p->inputs[j].value, 1, out);
  print_values(s, "stores ", p->outputs, p->output_count, out);
}

static void print_loop(const qn_schedule *s, const sched_part *p, size_t index, qn_arena *scratch, qn_text *out) {
  const qn_attr_while *a = p->body->loop->attr;
  qn_text_add(out, "loop, part %zu: ", index);
  if (a->trip_count >= 0)
    qn_text_add(out, "%lld times", (long long)a->trip_count);
  else
    qn_text_add(out, "while its flag is up%s", p->body->guard.on ? ", guarded" : "");
  qn_text_add(out, ": %s\n", qn_part_label(s, p, scratch));
  print_part(s, p, out);
  qn_schedule_print(p->body, out);
  qn_text_add(out, "end of loop, part %zu\n", index);
}

void qn_schedule_print(const qn_schedule *s, qn_text *out) {
  qn_arena scratch = {0};
  for (int level = 0; level < s->level_count; level++) {
    for (size_t i = 0; i < s->part_count; i++) {
      const sched_part *p = &s->parts[i];
      if (p->level != level || p->kind == PART_LOOP || p->output_count == 0)
        continue;
      qn_text_add(out, "launch %d, part %zu: %s over %s, %u groups: %s\n", level, i, qn_part_kinds[p->kind].name,
                  qn_type_str(&p->domain), qn_part_groups(s, p), qn_part_label(s, p, &scratch));
      print_part(s, p, out);
    }
    for (size_t i = 0; i < s->part_count; i++)
      if (s->parts[i].level == level && s->parts[i].kind == PART_LOOP)
        print_loop(s, &s->parts[i], i, &scratch, out);
  }
  qn_arena_free(&scratch);
}
