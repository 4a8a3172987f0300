/* Private to kernels/llvm: what the parts of the walker share.
 *
 * Registers hold each dtype as LLVM's type of that name, but for bool (i1) and f16 and bf16 (their bits, i16): narrow
 * floats are widened to float, computed and rounded back around each operation, by the hardware's exact conversions for
 * f16 and by integer operations for bf16, whose hardware conversions flush subnormals. */
#ifndef QUERN_LLVM_WALK_H
#define QUERN_LLVM_WALK_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

#include "assembly.h"

typedef struct qn_llvm_scope qn_llvm_scope;

typedef struct qn_llvm_walk {
  const qn_kernel *kernel;
  qn_arena arena;
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef b;     /* where instructions go */
  LLVMBuilderRef entry; /* end of the entry block: parameters, bases, arrays */
  LLVMValueRef function, group, item;
  LLVMValueRef *value;   /* of each instruction */
  LLVMValueRef *wide;    /* its 64-bit form, where it takes part in an address */
  bool *in_address;      /* needed in 64 bits */
  bool *plain;           /* needed as it is */
  LLVMValueRef *current; /* of each VAR: its value at this point */
  LLVMValueRef *params, *bases;
  LLVMValueRef zeros; /* 128 bytes of zeros, read where a mask is off */
  qn_llvm_scope *scope;
} qn_llvm_walk;

/* Adds function `symbol` for the kernel to the module. */
qn_status qn_llvm_emit(const qn_kernel *kernel, LLVMModuleRef module, const char *symbol);

/* ---- scalar.c ---- */
LLVMTypeRef qn_llvm_type(const qn_llvm_walk *w, qn_dtype t, unsigned lanes);        /* in registers */
LLVMTypeRef qn_llvm_memory_type(const qn_llvm_walk *w, qn_dtype t, unsigned lanes); /* bool: i8 */
LLVMTypeRef qn_llvm_int_type(const qn_llvm_walk *w, unsigned bits, unsigned lanes);
LLVMValueRef qn_llvm_u32(const qn_llvm_walk *w, uint64_t x);
LLVMValueRef qn_llvm_splat(const qn_llvm_walk *w, LLVMValueRef scalar, unsigned lanes);
LLVMValueRef qn_llvm_uniform(LLVMTypeRef type, unsigned lanes, uint64_t x); /* integer constant of that type */
LLVMValueRef qn_llvm_intrinsic(const qn_llvm_walk *w, const char *name, LLVMTypeRef *overloads, size_t overload_count,
                               LLVMValueRef *args, unsigned arg_count);
/* Value of a QN_K_SCALAR instruction. */
LLVMValueRef qn_llvm_scalar(qn_llvm_walk *w, const qn_kinst *in);

/* ---- memory.c ---- */
void qn_llvm_mark_addresses(qn_llvm_walk *w);
bool qn_llvm_only_wide(const qn_llvm_walk *w, uint32_t id);
LLVMValueRef qn_llvm_load(qn_llvm_walk *w, const qn_kinst *in);
void qn_llvm_store(qn_llvm_walk *w, const qn_kinst *in);
LLVMValueRef qn_llvm_gather(qn_llvm_walk *w, const qn_kinst *in);
void qn_llvm_scatter(qn_llvm_walk *w, const qn_kinst *in);
void qn_llvm_atomic(qn_llvm_walk *w, const qn_kinst *in);
LLVMValueRef qn_llvm_array(qn_llvm_walk *w, const qn_kinst *in);
LLVMValueRef qn_llvm_aload(qn_llvm_walk *w, const qn_kinst *in);
void qn_llvm_astore(qn_llvm_walk *w, const qn_kinst *in);
LLVMValueRef qn_llvm_param(qn_llvm_walk *w, uint32_t word);
/* The 64-bit form of an address's part, made where the value itself is made. */
LLVMValueRef qn_llvm_widen_index(qn_llvm_walk *w, uint32_t id);

/* ---- target.c ---- */
typedef struct qn_llvm_host {
  LLVMTargetRef target;
  char *triple, *cpu, *features;
} qn_llvm_host;
qn_status qn_llvm_host_get(const qn_llvm_host **out_host); /* found once, kept for the life of the process */
qn_status qn_llvm_machine(LLVMTargetMachineRef *out_machine);

#endif
