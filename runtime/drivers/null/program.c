/* Programs of the null device: nothing to compile, nothing to keep. */
#include "null.h"

#include <stdlib.h>

qn_status qn_null_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                 qn_program **out_program) {
  (void)d;
  (void)code;
  (void)binary;
  *out_binary_used = false;
  qn_program *p = calloc(1, sizeof *p);
  if (!p)
    return QN_ERR(QN_OUT_OF_MEMORY, "program: no memory");
  *out_program = p;
  return QN_OK;
}

qn_status qn_null_program_binary(qn_program *p, qn_bytes *out_binary) {
  (void)p;
  *out_binary = (qn_bytes){0};
  return QN_OK;
}

qn_status qn_null_program_warm_up(qn_program *p) {
  (void)p;
  return QN_OK;
}

void qn_null_program_destroy(qn_program *p) { free(p); }
