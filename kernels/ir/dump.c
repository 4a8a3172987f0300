/* Kernels as text for people and tests: one instruction a line, indented by scope. */
#include "ir.h"

static void dump_operands(const qn_kinst *in, qn_text *out) {
  for (int i = 0; i < 4; ++i)
    if (kinst_operand(in, i))
      qn_text_add(out, "%s%%%u", i && kinst_operand(in, i - 1) ? ", " : " ", kinst_operand(in, i));
}

static void dump_inst(const qn_kernel *k, uint32_t i, int depth, qn_text *out) {
  const qn_kinst *in = &k->insts[i];
  const kop_info *info = &qn_kop_infos[in->kop];
  qn_text_add(out, "%*s", 2 * depth, "");
  if (info->value)
    qn_text_add(out, "%%%u = ", i);
  qn_text_puts(out, in->kop == QN_K_SCALAR ? qn_sop_name((qn_sop)in->sop) : info->name);
  if (info->value) {
    qn_text_add(out, " %s", qn_dtype_name((qn_dtype)in->dtype));
    if (in->lanes > 1)
      qn_text_add(out, "x%u", in->lanes);
  }
  bool memory = in->kop == QN_K_LOAD || in->kop == QN_K_STORE || in->kop == QN_K_GATHER || in->kop == QN_K_SCATTER ||
                in->kop == QN_K_ATOMIC_AND || in->kop == QN_K_ATOMIC_OR;
  if (memory)
    qn_text_add(out, " b%u", in->aux);
  dump_operands(in, out);
  bool loads = in->kop == QN_K_LOAD || in->kop == QN_K_GATHER;
  if ((loads && in->c) || (memory && !loads && in->d))
    qn_text_puts(out, " masked");
  if (in->kop == QN_K_SCALAR && in->sop == QN_S_CONST)
    qn_text_add(out, " 0x%llx", (unsigned long long)in->imm);
  if (in->kop == QN_K_PARAM || in->kop == QN_K_EXTRACT || in->kop == QN_K_ARRAY)
    qn_text_add(out, " [%llu]", (unsigned long long)in->imm);
  if (in->kop == QN_K_ARRAY)
    qn_text_puts(out, in->aux ? " local" : " private");
  if (in->kop == QN_K_LOOP)
    qn_text_add(out, " step %llu%s", (unsigned long long)in->imm, in->aux ? " rolled" : "");
  qn_text_puts(out, "\n");
}

void qn_kernel_dump(const qn_kernel *k, qn_text *out) {
  qn_text_add(out, "kernel %s: %u items, %u params, %u bindings\n", k->name, k->items, k->param_count,
              k->binding_count);
  for (size_t i = 0; i < k->buffer_count; ++i) {
    const qn_kbuffer *b = &k->buffers[i];
    qn_text_add(out, "  b%zu: %s%s%s, binding %u at word %u", i, qn_dtype_name(b->dtype), b->read ? " read" : "",
                b->written ? " written" : "", b->binding, b->offset_param);
    if (b->offset_shift)
      qn_text_add(out, " shifted %d", (int)b->offset_shift);
    qn_text_add(out, ", align %u\n", b->align);
  }
  int depth = 1;
  for (uint32_t i = 1; i < k->count; ++i) {
    uint8_t op = k->insts[i].kop;
    if ((op == QN_K_END || op == QN_K_ELSE) && depth > 1)
      --depth;
    dump_inst(k, i, depth, out);
    if (op == QN_K_LOOP || op == QN_K_IF || op == QN_K_ELSE)
      ++depth;
  }
}
