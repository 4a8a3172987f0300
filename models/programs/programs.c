/* The list of built-in programs. */
#include "programs.h"

#include <string.h>

const qn_program_def *qn_programs(size_t *out_count) {
  static const qn_program_def *const only = &qn_program_mnist_mlp;
  *out_count = 1;
  return only;
}
