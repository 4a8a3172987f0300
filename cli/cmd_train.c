/* quern train: a built-in program on a device. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "program.h"
#include "quern/train.h"

enum { MOST_THREADS = 256 }; /* as the cpu device allows */

static int train(const qn_program_def *program, const char *device, qn_train_options *o) {
  qn_device *d;
  qn_status st = qn_cli_open(device, "train", &d);
  if (st != QN_OK)
    return qn_cli_failure(st);
  qn_cache *cache = NULL;
  st = qn_cache_open(NULL, &cache);
  if (st == QN_OK) {
    o->cache = cache;
    o->stop = qn_cli_catch_interrupt();
    st = program->train(d, o);
  }
  qn_cache_close(cache);
  qn_device_release(d);
  return st == QN_OK ? CLI_OK : qn_cli_failure(st);
}

static int run(const cli_args *args) {
  const qn_program_def *program = qn_cli_program(args->operands[0]);
  if (!program)
    return qn_cli_no_program("train", args->operands[0]);
  const char *threads = qn_cli_text(args, "threads");
  if (qn_cli_number(args, "threads", 1) > MOST_THREADS)
    return qn_cli_usage("train --threads: %s is too large, expected at most %d", threads, MOST_THREADS);
  if (threads)
    (void)setenv("QN_THREADS", threads, 1); /* before the environment is first read */
  qn_train_options o = {
      .device = qn_cli_text(args, "device"),
      .epochs = (int)qn_cli_number(args, "epochs", 0),
      .batch = (int)qn_cli_number(args, "batch", 0),
      .seed = (uint64_t)qn_cli_number(args, "seed", 0),
      .data = qn_cli_text(args, "data"),
      .out = qn_cli_text(args, "out"),
      .resume = qn_cli_flag(args, "resume"),
      .scale = qn_cli_flag(args, "scale"),
      .batchnorm = qn_cli_flag(args, "batchnorm"),
      .profile = qn_cli_flag(args, "profile"),
      .check_nans = qn_cli_flag(args, "check-nans"),
      .json = qn_cli_flag(args, "json"),
      .steps_limit = (int)qn_cli_number(args, "steps", 0),
  };
  return train(program, o.device, &o);
}

const cli_command qn_cli_train = {
    .name = "train",
    .operands = "NAME",
    .summary = "trains a built-in program, with progress, report and checkpoint",
    .least_operands = 1,
    .most_operands = 1,
    .options =
        {
            {"device", "D", CLI_TEXT, 0,
             "cpu, opencl[:N|:TEXT], vulkan[:N|:TEXT]; default: the first in 'quern devices'"},
            {"epochs", "N", CLI_NUMBER, 1, "passes over the data"},
            {"batch", "B", CLI_NUMBER, 1, "rows a step"},
            {"seed", "S", CLI_LONG, 0, "of initial values, shuffling and dropout (default 0)"},
            {"data", "DIR", CLI_TEXT, 0, "folder of the data set, IDX files as MNIST's"},
            {"out", "DIR", CLI_TEXT, 0, "folder of checkpoint, history and report (default quern-out/NAME)"},
            {"resume", NULL, CLI_FLAG, 0, "goes on from the checkpoint in the out folder"},
            {"scale", NULL, CLI_FLAG, 0, "pixels / 255 instead of 0..255"},
            {"batchnorm", NULL, CLI_FLAG, 0, "with batch normalisation, dropout and an activity penalty"},
            {"profile", NULL, CLI_FLAG, 0, "device time of every kernel: a table and trace.json"},
            {"check-nans", NULL, CLI_FLAG, 0, "names the operation that makes a NaN; slow, it looks at every step"},
            {"steps", "N", CLI_NUMBER, 1, "stops after that many steps"},
            {"threads", "N", CLI_NUMBER, 1, "threads of the cpu device"},
            {"json", NULL, CLI_FLAG, 0, "the summary as one line of JSON on stdout, all else on stderr"},
        },
    .more = "Ctrl-C finishes the step, saves, and says how to go on.",
    .run = run,
};
