/* Programs of the CPU: entry points that somebody else compiled or interprets. */
#include "cpu.h"

#include <stdlib.h>

qn_status qn_cpu_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                qn_program **out_program) {
  (void)d;
  (void)binary;
  *out_binary_used = false;
  cpu_program *p = calloc(1, sizeof *p + code->entry_count * sizeof p->entries[0]);
  if (!p)
    return QN_ERR(QN_OUT_OF_MEMORY, "program of %zu entries: no memory", code->entry_count);
  for (size_t i = 0; i < code->entry_count; ++i)
    p->entries[i] = (cpu_entry){code->entries[i].native, code->entries[i].native_context};
  *out_program = &p->base;
  return QN_OK;
}

/* The compiler's object file is what a cache keeps, and the compiler hands it out itself. */
qn_status qn_cpu_program_binary(qn_program *p, qn_bytes *out_binary) {
  (void)p;
  *out_binary = (qn_bytes){0};
  return QN_OK;
}

qn_status qn_cpu_program_warm_up(qn_program *p) {
  (void)p;
  return QN_OK;
}

void qn_cpu_program_destroy(qn_program *p) { free(p); }
