/* The table of operations, made from ops.def. */
#include "quern/op.h"

#include <stdlib.h>
#include <string.h>

#define QN_OP_UNARY(NAME, row) extern const qn_op_def qn_op_##row;
#define QN_OP_BINARY(NAME, row) extern const qn_op_def qn_op_##row;
#define QN_OP_OTHER(NAME, row) extern const qn_op_def qn_op_##row;
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER

static const qn_op_def *const table[QN_OP_COUNT] = {
#define QN_OP_UNARY(NAME, row) [QN_OP_##NAME] = &qn_op_##row,
#define QN_OP_BINARY(NAME, row) [QN_OP_##NAME] = &qn_op_##row,
#define QN_OP_OTHER(NAME, row) [QN_OP_##NAME] = &qn_op_##row,
#include "quern/ops.def"
#undef QN_OP_UNARY
#undef QN_OP_BINARY
#undef QN_OP_OTHER
};

const qn_op_def *qn_op_get(qn_op op) { return op > QN_OP_NONE && op < QN_OP_COUNT ? table[op] : NULL; }

qn_op qn_op_find(const char *name) {
  static const char prefix[] = "stablehlo.";
  if (strncmp(name, prefix, sizeof prefix - 1) == 0)
    name += sizeof prefix - 1;
  for (int i = 1; i < QN_OP_COUNT; i++)
    if (strcmp(table[i]->name, name) == 0)
      return (qn_op)i;
  return QN_OP_NONE;
}
