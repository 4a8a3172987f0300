/* Memory: buffers, arrays, masks.
 *
 * Addresses are computed in 64 bits. The parts of an i32 index expression (sums, differences, products, shifts, loop
 * counters) are made a second time in 64 bits where the value itself is made, so that the code generator sees plain
 * induction variables and folds constant distances into addressing modes. This rests on one promise of kernels:
 * arithmetic that leads to an index doesn't leave the range of i32. */
#include "walk.h"

#include <stdlib.h>

/* ---- addresses ---- */

static bool widens(const qn_kinst *in) {
  if (in->lanes > 1 || in->dtype != QN_I32)
    return false;
  if (in->kop == QN_K_LOOP)
    return true;
  return in->kop == QN_K_SCALAR && (in->sop == QN_S_ADD || in->sop == QN_S_SUB || in->sop == QN_S_MUL ||
                                    in->sop == QN_S_SHL || in->sop == QN_S_CONST);
}

static void mark(qn_llvm_walk *w, uint32_t id) {
  if (id && w->kernel->insts[id].lanes <= 1)
    w->in_address[id] = true;
}

static void mark_plain(qn_llvm_walk *w, uint32_t id) {
  if (id)
    w->plain[id] = true;
}

/* A vector index that is consecutive lanes: a sum of splats and exactly one IOTA. Gives the scalars (at most `room`).
 * */
static bool consecutive(const qn_kernel *k, uint32_t id, int *iotas, uint32_t *terms, unsigned *term_count,
                        unsigned room) {
  const qn_kinst *in = &k->insts[id];
  if (in->dtype != QN_I32)
    return false;
  if (in->kop == QN_K_IOTA)
    return ++*iotas == 1;
  bool scalar = in->lanes <= 1 || in->kop == QN_K_SPLAT || (in->kop == QN_K_SCALAR && in->sop == QN_S_CONST);
  if (scalar) {
    if (*term_count == room)
      return false;
    terms[(*term_count)++] = in->kop == QN_K_SPLAT ? in->a : id;
    return true;
  }
  return in->kop == QN_K_SCALAR && in->sop == QN_S_ADD && consecutive(k, in->a, iotas, terms, term_count, room) &&
         consecutive(k, in->b, iotas, terms, term_count, room);
}

enum { MAX_TERMS = 8 };

static bool is_consecutive(const qn_kernel *k, uint32_t id, uint32_t terms[MAX_TERMS], unsigned *out_count) {
  int iotas = 0;
  *out_count = 0;
  return k->insts[id].lanes > 1 && consecutive(k, id, &iotas, terms, out_count, MAX_TERMS) && iotas == 1;
}

static void mark_index(qn_llvm_walk *w, uint32_t id) {
  uint32_t terms[MAX_TERMS];
  unsigned count = 0;
  mark(w, id);
  if (w->kernel->insts[id].lanes <= 1)
    return;
  mark_plain(w, id);
  if (is_consecutive(w->kernel, id, terms, &count))
    for (unsigned i = 0; i < count; ++i)
      mark(w, terms[i]);
}

/* From the last instruction to the first: what is needed in 64 bits, and what as it is. Most indexes are needed in 64
 * bits only. */
void qn_llvm_mark_addresses(qn_llvm_walk *w) {
  const qn_kernel *k = w->kernel;
  for (size_t i = k->count; i-- > 1;) {
    const qn_kinst *in = &k->insts[i];
    bool buffer =
        (in->kop >= QN_K_LOAD && in->kop <= QN_K_SCATTER) || in->kop == QN_K_ATOMIC_AND || in->kop == QN_K_ATOMIC_OR;
    bool index = buffer || in->kop == QN_K_ALOAD || in->kop == QN_K_ASTORE;
    bool widened = w->in_address[i] && widens(in) && in->kop != QN_K_LOOP;
    if (index)
      mark_index(w, in->b);
    if (widened) {
      mark(w, in->a);
      mark(w, in->b);
    }
    if (!widened || w->plain[i]) {
      mark_plain(w, in->a);
      if (!index)
        mark_plain(w, in->b);
    }
    mark_plain(w, in->c);
    mark_plain(w, in->d);
  }
}

bool qn_llvm_only_wide(const qn_llvm_walk *w, uint32_t id) {
  const qn_kinst *in = &w->kernel->insts[id];
  return w->in_address[id] && !w->plain[id] && widens(in) && in->kop != QN_K_LOOP && in->sop != QN_S_CONST;
}

LLVMValueRef qn_llvm_widen_index(qn_llvm_walk *w, uint32_t id) {
  const qn_kinst *in = &w->kernel->insts[id];
  LLVMTypeRef i64 = LLVMInt64TypeInContext(w->context);
  if (widens(in) && in->kop == QN_K_SCALAR && in->sop != QN_S_CONST) {
    LLVMValueRef a = w->wide[in->a], b = w->wide[in->b];
    if (in->sop == QN_S_ADD)
      return LLVMBuildNSWAdd(w->b, a, b, "");
    if (in->sop == QN_S_SHL)
      return LLVMBuildShl(w->b, a, b, "");
    return in->sop == QN_S_SUB ? LLVMBuildNSWSub(w->b, a, b, "") : LLVMBuildNSWMul(w->b, a, b, "");
  }
  return LLVMBuildIntCast2(w->b, w->value[id], i64, qn_dtype_is_signed((qn_dtype)in->dtype), "");
}

LLVMValueRef qn_llvm_param(qn_llvm_walk *w, uint32_t word) {
  if (w->params[word])
    return w->params[word];
  LLVMTypeRef u32 = LLVMInt32TypeInContext(w->context);
  LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(w->context), word, 0);
  LLVMValueRef address = LLVMBuildInBoundsGEP2(w->entry, u32, LLVMGetParam(w->function, 2), &at, 1, "");
  return w->params[word] = LLVMBuildLoad2(w->entry, u32, address, "");
}

static LLVMValueRef buffer_base(qn_llvm_walk *w, uint32_t buffer) {
  if (w->bases[buffer])
    return w->bases[buffer];
  const qn_kbuffer *kb = &w->kernel->buffers[buffer];
  LLVMTypeRef ptr = LLVMPointerTypeInContext(w->context, 0), i64 = LLVMInt64TypeInContext(w->context);
  LLVMValueRef at = LLVMConstInt(i64, kb->binding, 0);
  LLVMValueRef slot = LLVMBuildInBoundsGEP2(w->entry, ptr, LLVMGetParam(w->function, 1), &at, 1, "");
  LLVMValueRef slab = LLVMBuildLoad2(w->entry, ptr, slot, "");
  LLVMValueRef offset = LLVMBuildZExt(w->entry, qn_llvm_param(w, kb->offset_param), i64, "");
  LLVMValueRef shift = LLVMConstInt(i64, (unsigned)abs(kb->offset_shift), 0);
  if (kb->offset_shift)
    offset =
        kb->offset_shift < 0 ? LLVMBuildLShr(w->entry, offset, shift, "") : LLVMBuildShl(w->entry, offset, shift, "");
  LLVMTypeRef element = qn_llvm_memory_type(w, kb->dtype, 1);
  return w->bases[buffer] = LLVMBuildGEP2(w->entry, element, slab, &offset, 1, "");
}

static LLVMValueRef index_of(qn_llvm_walk *w, uint32_t id) {
  return w->wide[id] ? w->wide[id] : qn_llvm_widen_index(w, id);
}

static LLVMValueRef element_address(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMValueRef index = index_of(w, in->b);
  LLVMTypeRef element = qn_llvm_memory_type(w, w->kernel->buffers[in->aux].dtype, 1);
  return LLVMBuildGEP2(w->b, element, buffer_base(w, in->aux), &index, 1, "");
}

/* Address of a vector index's first lane when its lanes are consecutive, else NULL. */
static LLVMValueRef consecutive_address(qn_llvm_walk *w, const qn_kinst *in) {
  uint32_t terms[MAX_TERMS];
  unsigned count = 0;
  if (!is_consecutive(w->kernel, in->b, terms, &count))
    return NULL;
  LLVMTypeRef i64 = LLVMInt64TypeInContext(w->context);
  LLVMValueRef index = LLVMConstInt(i64, 0, 0);
  for (unsigned i = 0; i < count; ++i) {
    const qn_kinst *term = &w->kernel->insts[terms[i]];
    LLVMValueRef part =
        term->lanes > 1 ? LLVMConstInt(i64, (unsigned long long)(int32_t)term->imm, 1) : index_of(w, terms[i]);
    index = LLVMBuildAdd(w->b, index, part, "");
  }
  LLVMTypeRef element = qn_llvm_memory_type(w, w->kernel->buffers[in->aux].dtype, 1);
  return LLVMBuildGEP2(w->b, element, buffer_base(w, in->aux), &index, 1, "");
}

/* ---- values in memory and in registers ---- */

static LLVMValueRef from_memory(qn_llvm_walk *w, qn_dtype t, LLVMValueRef x) {
  return t == QN_BOOL ? LLVMBuildICmp(w->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "") : x;
}

static LLVMValueRef to_memory(qn_llvm_walk *w, qn_dtype t, unsigned lanes, LLVMValueRef x) {
  return t == QN_BOOL ? LLVMBuildZExt(w->b, x, qn_llvm_int_type(w, 8, lanes), "") : x;
}

/* Only elements are known to be aligned. More would bring nothing: vector moves of any alignment cost the same where
 * the address is aligned in fact. */
static unsigned alignment_of(qn_dtype t) { return (unsigned)qn_dtype_size(t); }

/* Zeros to read from where a mask is off: choosing the address costs one instruction and no branch. */
static LLVMValueRef zeros(qn_llvm_walk *w) {
  if (w->zeros)
    return w->zeros;
  LLVMValueRef found = LLVMGetNamedGlobal(w->module, "quern_zeros");
  if (!found) {
    LLVMTypeRef type = LLVMArrayType2(LLVMInt64TypeInContext(w->context), 16);
    found = LLVMAddGlobal(w->module, type, "quern_zeros");
    LLVMSetInitializer(found, LLVMConstNull(type));
    LLVMSetGlobalConstant(found, 1);
    LLVMSetLinkage(found, LLVMPrivateLinkage);
    LLVMSetAlignment(found, 64);
  }
  return w->zeros = found;
}

LLVMValueRef qn_llvm_load(qn_llvm_walk *w, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)in->dtype;
  LLVMValueRef address = element_address(w, in);
  if (in->c)
    address = LLVMBuildSelect(w->b, w->value[in->c], address, zeros(w), "");
  LLVMValueRef x = LLVMBuildLoad2(w->b, qn_llvm_memory_type(w, t, in->lanes), address, "");
  LLVMSetAlignment(x, alignment_of(t));
  return from_memory(w, t, x);
}

static LLVMValueRef stored_value(qn_llvm_walk *w, uint32_t id, qn_dtype t, unsigned lanes) {
  LLVMValueRef x = w->value[id];
  if (lanes > 1 && w->kernel->insts[id].lanes <= 1)
    x = qn_llvm_splat(w, x, lanes);
  return to_memory(w, t, lanes, x);
}

/* A branch around what a scalar mask switches off. */
static LLVMBasicBlockRef open_mask(qn_llvm_walk *w, uint32_t mask) {
  if (!mask)
    return NULL;
  LLVMBasicBlockRef on = LLVMAppendBasicBlockInContext(w->context, w->function, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(w->context, w->function, "");
  LLVMBuildCondBr(w->b, w->value[mask], on, after);
  LLVMPositionBuilderAtEnd(w->b, on);
  return after;
}

static void close_mask(qn_llvm_walk *w, LLVMBasicBlockRef after) {
  if (!after)
    return;
  LLVMBuildBr(w->b, after);
  LLVMPositionBuilderAtEnd(w->b, after);
}

void qn_llvm_store(qn_llvm_walk *w, const qn_kinst *in) {
  qn_dtype t = w->kernel->buffers[in->aux].dtype;
  LLVMValueRef x = stored_value(w, in->c, t, w->kernel->insts[in->c].lanes), address = element_address(w, in);
  LLVMBasicBlockRef after = open_mask(w, in->d);
  LLVMSetAlignment(LLVMBuildStore(w->b, x, address), alignment_of(t));
  close_mask(w, after);
}

void qn_llvm_atomic(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMValueRef address = element_address(w, in);
  LLVMBasicBlockRef after = open_mask(w, in->d);
  LLVMAtomicRMWBinOp op = in->kop == QN_K_ATOMIC_OR ? LLVMAtomicRMWBinOpOr : LLVMAtomicRMWBinOpAnd;
  (void)LLVMBuildAtomicRMW(w->b, op, address, w->value[in->c], LLVMAtomicOrderingMonotonic, 0);
  close_mask(w, after);
}

/* ---- gather and scatter ---- */

static LLVMValueRef lane_mask(qn_llvm_walk *w, uint32_t id, unsigned lanes) {
  if (!id)
    return qn_llvm_uniform(qn_llvm_int_type(w, 1, lanes), lanes, 1);
  return w->kernel->insts[id].lanes > 1 ? w->value[id] : qn_llvm_splat(w, w->value[id], lanes);
}

static LLVMValueRef lane_addresses(qn_llvm_walk *w, const qn_kinst *in, unsigned lanes) {
  const qn_kinst *index = &w->kernel->insts[in->b];
  LLVMValueRef i = LLVMBuildIntCast2(w->b, w->value[in->b], qn_llvm_int_type(w, 64, lanes),
                                     qn_dtype_is_signed((qn_dtype)index->dtype), "");
  LLVMTypeRef element = qn_llvm_memory_type(w, w->kernel->buffers[in->aux].dtype, 1);
  return LLVMBuildGEP2(w->b, element, buffer_base(w, in->aux), &i, 1, "");
}

LLVMValueRef qn_llvm_gather(qn_llvm_walk *w, const qn_kinst *in) {
  unsigned lanes = in->lanes;
  if (lanes <= 1)
    return qn_llvm_load(w, in);
  qn_dtype t = (qn_dtype)in->dtype;
  LLVMTypeRef type = qn_llvm_memory_type(w, t, lanes);
  LLVMValueRef first = consecutive_address(w, in), x;
  if (first && !in->c) {
    x = LLVMBuildLoad2(w->b, type, first, "");
    LLVMSetAlignment(x, alignment_of(t));
    return from_memory(w, t, x);
  }
  LLVMValueRef addresses = first ? first : lane_addresses(w, in, lanes);
  LLVMTypeRef overloads[] = {type, LLVMTypeOf(addresses)};
  LLVMValueRef args[] = {addresses, qn_llvm_u32(w, alignment_of(t)), lane_mask(w, in->c, lanes), LLVMConstNull(type)};
  x = qn_llvm_intrinsic(w, first ? "llvm.masked.load" : "llvm.masked.gather", overloads, 2, args, 4);
  return from_memory(w, t, x);
}

void qn_llvm_scatter(qn_llvm_walk *w, const qn_kinst *in) {
  unsigned lanes = w->kernel->insts[in->b].lanes;
  if (lanes <= 1) {
    qn_llvm_store(w, in);
    return;
  }
  qn_dtype t = w->kernel->buffers[in->aux].dtype;
  LLVMValueRef x = stored_value(w, in->c, t, lanes), first = consecutive_address(w, in);
  LLVMValueRef addresses = first ? first : lane_addresses(w, in, lanes);
  if (first && !in->d) {
    LLVMSetAlignment(LLVMBuildStore(w->b, x, first), alignment_of(t));
    return;
  }
  LLVMTypeRef overloads[] = {LLVMTypeOf(x), LLVMTypeOf(addresses)};
  LLVMValueRef args[] = {x, addresses, qn_llvm_u32(w, alignment_of(t)), lane_mask(w, in->d, lanes)};
  (void)qn_llvm_intrinsic(w, first ? "llvm.masked.store" : "llvm.masked.scatter", overloads, 2, args, 4);
}

/* ---- arrays ---- */

LLVMValueRef qn_llvm_array(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMTypeRef element = qn_llvm_memory_type(w, (qn_dtype)in->dtype, 1);
  LLVMValueRef a = LLVMBuildAlloca(w->entry, LLVMArrayType2(element, in->imm ? in->imm : 1), "");
  LLVMSetAlignment(a, 64);
  return a;
}

static LLVMValueRef array_address(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMValueRef index = index_of(w, in->b);
  LLVMTypeRef element = qn_llvm_memory_type(w, (qn_dtype)w->kernel->insts[in->a].dtype, 1);
  return LLVMBuildGEP2(w->b, element, w->value[in->a], &index, 1, "");
}

LLVMValueRef qn_llvm_aload(qn_llvm_walk *w, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)in->dtype;
  LLVMValueRef x = LLVMBuildLoad2(w->b, qn_llvm_memory_type(w, t, in->lanes), array_address(w, in), "");
  LLVMSetAlignment(x, alignment_of(t));
  return from_memory(w, t, x);
}

void qn_llvm_astore(qn_llvm_walk *w, const qn_kinst *in) {
  qn_dtype t = (qn_dtype)w->kernel->insts[in->a].dtype;
  LLVMValueRef x = stored_value(w, in->c, t, w->kernel->insts[in->c].lanes);
  LLVMSetAlignment(LLVMBuildStore(w->b, x, array_address(w, in)), alignment_of(t));
}
