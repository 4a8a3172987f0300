/* The interpreter's decoded form, shared by its control loop and its table of scalar operations. */
#ifndef QUERN_KERNELS_INTERP_H
#define QUERN_KERNELS_INTERP_H

#include "quern/kernel.h"

typedef struct kstep kstep;
typedef void (*kstep_fn)(const kstep *s, uint8_t *base);
struct kstep {
  kstep_fn fn; /* NULL: control, see kop */
  uint8_t kop, sop, dtype, lanes;
  uint8_t operand; /* dtype of the operands */
  uint8_t index;   /* dtype of the index operand */
  uint8_t index_size;
  uint16_t size;            /* bytes of one element */
  uint32_t dst, a, b, c, d; /* places of values, bytes from an item's base */
  uint32_t jump;
  bool masked;
  uint8_t *memory; /* buffer, or local array */
  uint64_t imm;
};

/* The function for a scalar operation: a fast one, or the general one that asks the reference evaluator. */
kstep_fn qn_interp_scalar(qn_sop op, qn_dtype result, qn_dtype operand);

#endif
