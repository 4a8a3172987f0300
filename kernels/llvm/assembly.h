/* Private to kernels/llvm and its tests; needs no LLVM header. */
#ifndef QUERN_LLVM_ASSEMBLY_H
#define QUERN_LLVM_ASSEMBLY_H

#include "quern/kernel.h"

/* The machine code of one kernel as text, for people and for tests that look at inner loops. */
qn_status qn_llvm_assembly(const qn_kernel *kernel, qn_text *out);
/* The same before code generation: LLVM's own language. */
qn_status qn_llvm_text(const qn_kernel *kernel, qn_text *out);

#endif
