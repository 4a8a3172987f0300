/* Loop programs: the one kernel IR. Built by the scheduler, printed by dialects (OpenCL C, GLSL), walked by LLVM, run by the interpreter.
 *
 * A kernel runs over a linear count of groups of `items` work-items. Its body is a flat list of instructions in single assignment with
 * structured control flow (LOOP..END, IF..ELSE..END); instruction i defines value i (id 0 is unused). A value has a dtype and `lanes`
 * (1, 2, 4, 8, 16); scalar operations work lane by lane. Mutable state lives in variables (register accumulators) and arrays
 * (private or local memory). Memory is reached through buffers: typed views on bindings with an element offset that is a launch parameter.
 * Same graph, schedule and capabilities give the same bytes of text: it is the cache key. */
#ifndef QUERN_KERNEL_H
#define QUERN_KERNEL_H

#include "quern/base.h"
#include "quern/dtype.h"
#include "quern/hal.h"
#include "quern/scalar.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qn_kop {
  QN_K_SCALAR = 0, /* a scalar operation: `sop` says which */
  QN_K_GROUP,      /* u32: linear group index */
  QN_K_ITEM,       /* u32: item in the group, 0 .. items-1 */
  QN_K_PARAM,      /* u32: launch parameter word `imm` */
  QN_K_SPLAT,      /* a: scalar -> lanes */
  QN_K_IOTA,       /* i32 lanes: 0, 1, 2, ... */
  QN_K_EXTRACT,    /* a: vector, imm: lane -> scalar */
  QN_K_LOW,        /* a: vector -> lower half of the lanes */
  QN_K_HIGH,       /* a: vector -> upper half */
  QN_K_JOIN,       /* a, b: -> lanes of a, then lanes of b */
  QN_K_VAR,        /* declares a mutable variable with initial value a; its value is read by GET */
  QN_K_GET,        /* a: VAR -> its value now */
  QN_K_SET,        /* a: VAR, b: value */
  QN_K_ARRAY,      /* declares `imm` elements of dtype; space in `aux` (0 private, 1 local) */
  QN_K_ALOAD,      /* a: ARRAY, b: element index (i32 scalar); lanes consecutive elements */
  QN_K_ASTORE,     /* a: ARRAY, b: index, c: value */
  QN_K_LOAD, /* aux: buffer, b: element index scalar; lanes consecutive elements. c: scalar bool mask or 0; masked off gives 0 */
  QN_K_STORE,   /* aux: buffer, b: index, c: value; d: scalar bool mask or 0 */
  QN_K_GATHER,  /* aux: buffer, b: vector of indexes (lanes); c: vector bool mask or 0 */
  QN_K_SCATTER, /* aux: buffer, b: vector of indexes, c: value; d: vector bool mask or 0. Lanes in order */
  QN_K_LOOP, /* index value = this instruction; a: begin, b: end (scalars of its dtype), imm: step > 0; runs while index < end. aux: unroll hint (0 none, 1 don't) */
  QN_K_IF,   /* a: scalar bool */
  QN_K_ELSE,
  QN_K_END,     /* closes LOOP or IF */
  QN_K_BARRIER, /* all items of the group; local memory */
  /* made by legalization only */
  QN_K_ATOMIC_AND, /* aux: buffer of u32, b: index scalar, c: u32 scalar; d: scalar bool mask or 0. Word &= c, as one step; no value */
  QN_K_ATOMIC_OR,
  QN_K_COUNT
} qn_kop;

typedef struct qn_kinst {
  uint8_t kop, sop, dtype, lanes;
  uint32_t aux;
  uint32_t a, b, c, d; /* operand values, 0: none */
  uint64_t imm;
} qn_kinst;

typedef struct qn_kbuffer {
  qn_dtype dtype;
  uint32_t binding;      /* which of the launch's bindings */
  uint32_t offset_param; /* parameter word with the offset in elements */
  bool read, written;
  uint32_t align; /* elements: base offset is a multiple of this */
  int32_t
      offset_shift; /* offset in this view's elements = parameter << shift (>> -shift below 0); 0 but for legalized views */
} qn_kbuffer;
/* A view that is not `written` keeps its contents while the kernel runs, unless a written view has the same binding and offset parameter: its
 * loads are merged and moved out of loops. Views of one binding with different offset parameters are taken not to overlap in that sense. */

typedef struct qn_kernel {
  char name[24];        /* function name; the text's hash by default */
  uint32_t items;       /* work-items a group */
  uint32_t param_count; /* words; word 0 is the group count */
  uint32_t binding_count;
  qn_kbuffer *buffers;
  size_t buffer_count, buffer_capacity;
  qn_kinst *insts; /* insts[0] unused */
  size_t count, capacity;
  bool failed; /* memory ran out while building */
} qn_kernel;

/* ---- building (kernels/ir/build.c) ---- */
/* A builder is a sink for expansions: constants fold, equal pure values of enclosing scopes are reused, operands' lanes are made equal by splats. */
typedef struct qn_kbuild qn_kbuild;
struct qn_kbuild {
  qn_sink sink; /* first: qs_add(&b->sink, x, y) */
  qn_kernel *kernel;
  void *scopes; /* value-numbering tables */
};
qn_status qn_kbuild_begin(qn_kbuild *b, qn_kernel *k); /* k: zeroed */
qn_status qn_kbuild_end(qn_kbuild *b);                 /* dead code, verify, hash name; frees the builder's tables */
void qn_kbuild_abandon(
    qn_kbuild *b); /* instead of qn_kbuild_end: frees the builder's tables, the kernel stays the caller's to free */
void qn_kernel_free(qn_kernel *k);
uint32_t qn_kb_buffer(qn_kbuild *b, qn_dtype t, uint32_t binding, uint32_t offset_param, bool read, bool written,
                      uint32_t align);
uint32_t qn_kb_new_param(qn_kbuild *b); /* next parameter word */
qn_sval qn_kb_group(qn_kbuild *b);
qn_sval qn_kb_item(qn_kbuild *b);
qn_sval qn_kb_param(qn_kbuild *b, uint32_t word);
qn_sval qn_kb_splat(qn_kbuild *b, qn_sval scalar, uint32_t lanes);
qn_sval qn_kb_iota(qn_kbuild *b, uint32_t lanes);
qn_sval qn_kb_extract(qn_kbuild *b, qn_sval v, uint32_t lane);
qn_sval qn_kb_low(qn_kbuild *b, qn_sval v);
qn_sval qn_kb_high(qn_kbuild *b, qn_sval v);
qn_sval qn_kb_join(qn_kbuild *b, qn_sval lo, qn_sval hi);
qn_sval qn_kb_var(qn_kbuild *b, qn_sval init);
qn_sval qn_kb_get(qn_kbuild *b, qn_sval var);
void qn_kb_set(qn_kbuild *b, qn_sval var, qn_sval value);
qn_sval qn_kb_array(qn_kbuild *b, qn_dtype t, uint32_t elements, bool local);
qn_sval qn_kb_aload(qn_kbuild *b, qn_sval array, qn_sval index, uint32_t lanes);
void qn_kb_astore(qn_kbuild *b, qn_sval array, qn_sval index, qn_sval value);
qn_sval qn_kb_load(qn_kbuild *b, uint32_t buffer, qn_sval index, uint32_t lanes, qn_sval mask);
void qn_kb_store(qn_kbuild *b, uint32_t buffer, qn_sval index, qn_sval value, qn_sval mask);
qn_sval qn_kb_gather(qn_kbuild *b, uint32_t buffer, qn_sval indexes, qn_sval mask);
void qn_kb_scatter(qn_kbuild *b, uint32_t buffer, qn_sval indexes, qn_sval value, qn_sval mask);
qn_sval qn_kb_loop(qn_kbuild *b, qn_sval begin, qn_sval end, uint64_t step, bool no_unroll); /* the index */
void qn_kb_if(qn_kbuild *b, qn_sval cond);
void qn_kb_else(qn_kbuild *b);
void qn_kb_close(qn_kbuild *b); /* END of the innermost LOOP or IF */
void qn_kb_barrier(qn_kbuild *b);
uint32_t qn_kb_lanes(const qn_kbuild *b, qn_sval v);
bool qn_kb_not_negative(const qn_kbuild *b, qn_sval v); /* surely so, as far as ranges are known */
void qn_kb_atomic(qn_kbuild *b, bool is_or, uint32_t buffer, qn_sval index, qn_sval value,
                  qn_sval mask); /* see QN_K_ATOMIC_AND */

/* ---- working on a finished kernel ---- */
qn_status qn_kernel_verify(const qn_kernel *k);
void qn_kernel_dump(const qn_kernel *k, qn_text *out); /* readable text */
const char *qn_kop_name(qn_kop op);
bool qn_kernel_read_only(const qn_kernel *k, uint32_t buffer); /* no view in this kernel writes what this one reads */
/* For every value the largest power of two (up to 2^30) that is known to divide it; 1 where nothing is known. out: k->count words. */
void qn_kernel_divisors(const qn_kernel *k, uint32_t *out);
uint32_t qn_kernel_divisor(const qn_kernel *k, uint32_t value); /* one of them, by itself: slower when asked often */
/* True when lanes consecutive elements at `index` are aligned to their whole size, given the index's divisor. */
bool qn_kernel_aligned(const qn_kernel *k, uint32_t buffer, uint32_t divisor, uint32_t lanes);
uint32_t qn_kernel_local_bytes(const qn_kernel *k); /* local arrays, as qn_code_entry.local_bytes */
/* Rewrites what the device lacks into what it has: f16/bf16 arithmetic in f32 (rounding after each operation), 64-bit integers as pairs of u32, narrow
 * elements as packed words (lanes that own whole words store them; others use atomic and/or on the word), lanes wider than the device's vectors split.
 * QN_UNSUPPORTED only for f64 where there is none. */
qn_status qn_kernel_legalize(const qn_kernel *k, const qn_device_caps *caps, qn_kernel *out_kernel);

/* ---- printing: one walker, many dialects ---- */
typedef struct qn_dialect qn_dialect;
extern const qn_dialect qn_dialect_opencl, qn_dialect_glsl;
/* Function text for OpenCL C (many kernels make one program, behind qn_dialect_prelude), a whole shader for GLSL. */
void qn_kernel_print(const qn_kernel *k, const qn_dialect *d, const qn_device_caps *caps, qn_text *out);
void qn_dialect_prelude(const qn_dialect *d, const qn_device_caps *caps, qn_text *out);

/* ---- running without a compiler ---- */
/* Interprets groups g0 <= g < g1; a qn_native_entry whose context is the (legalized or not) kernel. Same results as compiled code, bit for bit. */
void qn_kernel_interpret(const void *kernel, void *const *bindings, const uint32_t *params, uint32_t g0, uint32_t g1);
/* What a group costs the interpreter, in its steps on four lanes; infinite where rounds of a loop are not known beforehand. */
double qn_kernel_steps(const qn_kernel *k);

/* ---- LLVM (kernels/llvm; only when built with it) ---- */
/* Compiles kernels to host code; fills entries[i].native and sets code->release/owner. `object` as for qn_program_create's binary: if given and valid it
 * is loaded instead; *out_object (may be NULL) gets the object file for the cache. */
qn_status qn_llvm_compile(const qn_kernel *const *kernels, size_t count, const qn_bytes *object, qn_code_entry *entries,
                          qn_code *code, qn_bytes *out_object);
/* Text that changes when code for this machine would: LLVM version, CPU, features. */
void qn_llvm_identity(qn_text *out);

#ifdef __cplusplus
}
#endif
#endif
