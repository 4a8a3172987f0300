/* quern explain: what becomes of a program on a device: graph, rewrites, kernels, plan, and the memory it will take. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "program.h"
#include "quern/compile.h"
#include "traced.h"

/* What one run computes and moves, by the estimates that the profiler goes by. */
static void add_work(const qn_plan *plan, qn_text *out) {
  char room[32];
  double flops = 0;
  uint64_t bytes = 0;
  for (size_t i = 0; i < plan->cmd_count; i++) {
    flops += plan->cmds[i].flops;
    bytes += plan->cmds[i].bytes;
  }
  qn_text_add(out, "estimated work of a run: %.4g MFLOP, %s read and written, %.3g FLOP a byte\n", flops * 1e-6,
              qn_cli_bytes(bytes, room, sizeof room), bytes ? flops / (double)bytes : 0.0);
}

/* The plan's forecast against what the device has, before anything is allocated. */
static void add_verdict(const qn_plan *plan, const qn_device_caps *caps, qn_text *out) {
  qn_plan_forecast f;
  char room[4][32];
  qn_plan_get_forecast(plan, 0, &f);
  add_work(plan, out);
  uint64_t largest = f.arena > f.results ? f.arena : f.results;
  for (size_t i = 0; i < plan->arg_count; i++)
    largest = plan->args[i].bytes > largest ? plan->args[i].bytes : largest;
  qn_text_add(out, "%s (%s): %s of %s, largest buffer %s of %s: %s\n", caps->id, caps->name,
              qn_cli_bytes(f.total, room[0], sizeof room[0]), qn_cli_bytes(caps->memory_bytes, room[1], sizeof room[1]),
              qn_cli_bytes(largest, room[2], sizeof room[2]),
              qn_cli_bytes(caps->max_buffer_bytes, room[3], sizeof room[3]),
              f.total <= caps->memory_bytes && largest <= caps->max_buffer_bytes ? "it fits" : "it does not fit");
}

static qn_status trace(const cli_args *args, qn_traced *out_traced, qn_compile_desc *out_desc) {
  const char *name = args->operands[0];
  const qn_program_def *program = qn_cli_program(name);
  if (!program)
    return qn_cli_trace_file(name, out_traced);
  qn_train_options o = {.batchnorm = qn_cli_flag(args, "batchnorm"), .batch = (int)qn_cli_number(args, "batch", 0)};
  return program->trace(&o, out_traced, out_desc);
}

static qn_status explain(const cli_args *args, qn_text *out) {
  qn_traced traced = {0};
  qn_compile_desc desc = {0};
  qn_device *d = NULL;
  qn_plan *plan = NULL;
  qn_status st = QN_OK;
  QN_TRY_GOTO(st, trace(args, &traced, &desc), done);
  QN_TRY_GOTO(st, qn_cli_open(qn_cli_text(args, "device"), "explain", &d), done);
  desc.explain = out;
  desc.explain_kernels = qn_cli_flag(args, "kernels");
  QN_TRY_GOTO(st, qn_compile(qn_device_get_caps(d), &traced, &desc, &plan), done);
  add_verdict(plan, qn_device_get_caps(d), out);
done:
  qn_plan_free(plan);
  qn_device_release(d);
  qn_traced_free(&traced);
  return st;
}

static int run(const cli_args *args) {
  const char *name = args->operands[0];
  if (!qn_cli_program(name) && !qn_file_exists(name))
    return strchr(name, '.') || strchr(name, '/') ? qn_cli_usage("explain: there is no file '%s'", name)
                                                  : qn_cli_no_program("explain", name);
  qn_text out = {0};
  qn_status st = explain(args, &out);
  if (out.buf)
    fputs(out.buf, stdout);
  qn_text_free(&out);
  return st == QN_OK ? CLI_OK : qn_cli_failure(st);
}

const cli_command qn_cli_explain = {
    .name = "explain",
    .operands = "NAME|P.mlir",
    .summary = "shows graph, rewrites, kernels, plan and memory forecast of a program",
    .least_operands = 1,
    .most_operands = 1,
    .options =
        {
            {"device", "D", CLI_TEXT, 0, "the device to compile for"},
            {"kernels", NULL, CLI_FLAG, 0, "with the text of every kernel"},
            {"batch", "B", CLI_NUMBER, 1, "rows a step of a built-in program"},
            {"batchnorm", NULL, CLI_FLAG, 0, "the variant with batch normalisation"},
        },
    .more = "NAME is a built-in program, of which one training step is shown; P.mlir is StableHLO text as "
            "jax.jit(f).lower(...).as_text() prints it.",
    .run = run,
};
