/* The walker: one kernel becomes one function in SSA form, with no pass to run afterwards.
 *
 * Variables never touch memory: the walker knows which ones a loop or a branch sets and makes phis for just those.
 * Loops are tested at the end, behind a guard, with a block before and one after of their own, the form that the code
 * generator's loop passes want. Parameters and the bases of buffers are loaded once in the entry block, before any
 * store could hide that they don't change. */
#include "walk.h"

#include <string.h>

struct qn_llvm_scope {
  qn_llvm_scope *outer;
  uint32_t inst;        /* the LOOP or IF */
  uint32_t *vars;       /* declared outside, set inside */
  LLVMValueRef *before; /* their values at the opening */
  LLVMValueRef *other;  /* LOOP: phis in the body; IF: values at the end of the first branch */
  size_t var_count;
  LLVMValueRef index, end;       /* LOOP: the phi of the counter, the bound */
  LLVMBasicBlockRef body, after; /* LOOP: body, block behind; IF: second branch, block behind */
  LLVMBasicBlockRef from;        /* block that the opening ended, or that a guard left from */
  LLVMBasicBlockRef first_end;   /* IF: where the first branch ended; NULL before ELSE */
  bool guarded;
};

static LLVMBasicBlockRef new_block(qn_llvm_walk *w) {
  return LLVMAppendBasicBlockInContext(w->context, w->function, "");
}

static size_t closing_of(const qn_kernel *k, size_t open) {
  size_t depth = 1, i = open;
  while (depth && ++i < k->count) {
    if (k->insts[i].kop == QN_K_LOOP || k->insts[i].kop == QN_K_IF)
      ++depth;
    else if (k->insts[i].kop == QN_K_END)
      --depth;
  }
  return i;
}

/* Opens a scope: collects the variables of outside that are set inside. */
static qn_status open_scope(qn_llvm_walk *w, uint32_t inst) {
  const qn_kernel *k = w->kernel;
  size_t end = closing_of(k, inst), sets = 0;
  for (size_t i = inst; i < end; ++i)
    sets += k->insts[i].kop == QN_K_SET;
  qn_llvm_scope *s = QN_NEW(&w->arena, qn_llvm_scope, 1);
  uint32_t *vars = QN_NEW(&w->arena, uint32_t, sets + 1);
  LLVMValueRef *before = QN_NEW(&w->arena, LLVMValueRef, sets + 1), *other = QN_NEW(&w->arena, LLVMValueRef, sets + 1);
  bool *seen = QN_NEW(&w->arena, bool, k->count);
  if (!s || !vars || !before || !other || !seen)
    return QN_ERR(QN_OUT_OF_MEMORY, "kernel %s: no memory to walk it", k->name);
  *s = (qn_llvm_scope){.outer = w->scope, .inst = inst, .vars = vars, .before = before, .other = other};
  for (size_t i = inst; i < end; ++i) {
    uint32_t var = k->insts[i].a;
    if (k->insts[i].kop != QN_K_SET || var > inst || seen[var])
      continue;
    seen[var] = true;
    before[s->var_count] = w->current[var];
    vars[s->var_count++] = var;
  }
  w->scope = s;
  return QN_OK;
}

static LLVMValueRef phi(qn_llvm_walk *w, LLVMValueRef x, LLVMBasicBlockRef from_x, LLVMValueRef y,
                        LLVMBasicBlockRef from_y) {
  LLVMValueRef p = LLVMBuildPhi(w->b, LLVMTypeOf(x), "");
  LLVMAddIncoming(p, &x, &from_x, 1);
  if (y)
    LLVMAddIncoming(p, &y, &from_y, 1);
  return p;
}

static qn_status open_loop(qn_llvm_walk *w, uint32_t id) {
  const qn_kinst *in = &w->kernel->insts[id];
  QN_TRY(open_scope(w, id));
  qn_llvm_scope *s = w->scope;
  bool is_signed = qn_dtype_is_signed((qn_dtype)in->dtype), wide = w->in_address[id];
  LLVMValueRef begin = w->value[in->a], end = w->value[in->b];
  if (wide) {
    LLVMTypeRef i64 = LLVMInt64TypeInContext(w->context);
    begin = LLVMBuildIntCast2(w->b, begin, i64, is_signed, "");
    end = LLVMBuildIntCast2(w->b, end, i64, is_signed, "");
  }
  LLVMBasicBlockRef ahead = new_block(w);
  s->body = new_block(w);
  s->end = end;
  s->from = LLVMGetInsertBlock(w->b);
  LLVMValueRef runs = LLVMBuildICmp(w->b, is_signed ? LLVMIntSLT : LLVMIntULT, begin, end, "");
  s->guarded = !(LLVMIsConstant(runs) && LLVMConstIntGetZExtValue(runs));
  s->after = new_block(w);
  if (s->guarded)
    LLVMBuildCondBr(w->b, runs, ahead, s->after);
  else
    LLVMBuildBr(w->b, ahead);
  LLVMPositionBuilderAtEnd(w->b, ahead);
  LLVMBuildBr(w->b, s->body);
  LLVMPositionBuilderAtEnd(w->b, s->body);
  s->index = phi(w, begin, ahead, NULL, NULL);
  for (size_t i = 0; i < s->var_count; ++i)
    w->current[s->vars[i]] = s->other[i] = phi(w, s->before[i], ahead, NULL, NULL);
  w->value[id] = s->index;
  if (wide) {
    w->wide[id] = s->index;
    if (w->plain[id])
      w->value[id] = LLVMBuildTrunc(w->b, s->index, qn_llvm_type(w, (qn_dtype)in->dtype, 1), "");
  }
  return QN_OK;
}

static void close_loop(qn_llvm_walk *w) {
  qn_llvm_scope *s = w->scope;
  const qn_kinst *in = &w->kernel->insts[s->inst];
  bool is_signed = qn_dtype_is_signed((qn_dtype)in->dtype);
  LLVMValueRef step = LLVMConstInt(LLVMTypeOf(s->index), in->imm, 0);
  LLVMValueRef next = is_signed ? LLVMBuildNSWAdd(w->b, s->index, step, "") : LLVMBuildNUWAdd(w->b, s->index, step, "");
  LLVMValueRef again = LLVMBuildICmp(w->b, is_signed ? LLVMIntSLT : LLVMIntULT, next, s->end, "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(w->b), leave = new_block(w);
  LLVMBuildCondBr(w->b, again, s->body, leave);
  LLVMAddIncoming(s->index, &next, &latch, 1);
  for (size_t i = 0; i < s->var_count; ++i)
    LLVMAddIncoming(s->other[i], &w->current[s->vars[i]], &latch, 1);
  LLVMPositionBuilderAtEnd(w->b, leave);
  LLVMBuildBr(w->b, s->after);
  LLVMMoveBasicBlockAfter(s->after, leave);
  LLVMPositionBuilderAtEnd(w->b, s->after);
  for (size_t i = 0; i < s->var_count && s->guarded; ++i) {
    uint32_t var = s->vars[i];
    w->current[var] = phi(w, s->before[i], s->from, w->current[var], leave);
  }
  w->scope = s->outer;
}

static qn_status open_if(qn_llvm_walk *w, uint32_t id) {
  QN_TRY(open_scope(w, id));
  qn_llvm_scope *s = w->scope;
  LLVMBasicBlockRef on = new_block(w);
  s->after = new_block(w);
  s->body = NULL;
  size_t end = closing_of(w->kernel, id), depth = 0;
  for (size_t i = id + 1; i < end; ++i) { /* is there an ELSE of this IF? */
    uint8_t kop = w->kernel->insts[i].kop;
    if (kop == QN_K_LOOP || kop == QN_K_IF)
      ++depth;
    else if (kop == QN_K_END)
      --depth;
    else if (kop == QN_K_ELSE && depth == 0)
      s->body = new_block(w);
  }
  s->from = LLVMGetInsertBlock(w->b);
  LLVMBuildCondBr(w->b, w->value[w->kernel->insts[id].a], on, s->body ? s->body : s->after);
  LLVMPositionBuilderAtEnd(w->b, on);
  return QN_OK;
}

static void turn_else(qn_llvm_walk *w) {
  qn_llvm_scope *s = w->scope;
  s->first_end = LLVMGetInsertBlock(w->b);
  LLVMBuildBr(w->b, s->after);
  for (size_t i = 0; i < s->var_count; ++i) {
    s->other[i] = w->current[s->vars[i]];
    w->current[s->vars[i]] = s->before[i];
  }
  LLVMMoveBasicBlockAfter(s->body, s->first_end);
  LLVMPositionBuilderAtEnd(w->b, s->body);
}

static void close_if(qn_llvm_walk *w) {
  qn_llvm_scope *s = w->scope;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(w->b);
  LLVMBuildBr(w->b, s->after);
  LLVMMoveBasicBlockAfter(s->after, here);
  LLVMPositionBuilderAtEnd(w->b, s->after);
  for (size_t i = 0; i < s->var_count; ++i) {
    uint32_t var = s->vars[i];
    LLVMValueRef x = s->first_end ? s->other[i] : s->before[i];
    w->current[var] = phi(w, x, s->first_end ? s->first_end : s->from, w->current[var], here);
  }
  w->scope = s->outer;
}

static LLVMValueRef part_of_vector(qn_llvm_walk *w, LLVMValueRef v, LLVMValueRef v2, unsigned start, unsigned lanes) {
  LLVMValueRef pick[64];
  for (unsigned i = 0; i < lanes; ++i)
    pick[i] = qn_llvm_u32(w, start + i);
  return LLVMBuildShuffleVector(w->b, v, v2 ? v2 : LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(pick, lanes), "");
}

static LLVMValueRef half_vector(qn_llvm_walk *w, const qn_kinst *in, bool high) {
  LLVMValueRef v = w->value[in->a];
  unsigned start = high ? in->lanes : 0;
  return in->lanes > 1 ? part_of_vector(w, v, NULL, start, in->lanes)
                       : LLVMBuildExtractElement(w->b, v, qn_llvm_u32(w, start), "");
}

static LLVMValueRef join(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMValueRef a = w->value[in->a], b = w->value[in->b];
  if (in->lanes > 2)
    return part_of_vector(w, a, b, 0, in->lanes);
  LLVMValueRef first =
      LLVMBuildInsertElement(w->b, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(a), 2)), a, qn_llvm_u32(w, 0), "");
  return LLVMBuildInsertElement(w->b, first, b, qn_llvm_u32(w, 1), "");
}

static LLVMValueRef iota(qn_llvm_walk *w, const qn_kinst *in) {
  LLVMValueRef lane[64];
  for (unsigned i = 0; i < in->lanes; ++i)
    lane[i] = qn_llvm_u32(w, i);
  return in->lanes > 1 ? LLVMConstVector(lane, in->lanes) : lane[0];
}

static qn_status walk_control(qn_llvm_walk *w, uint32_t id) {
  const qn_kinst *in = &w->kernel->insts[id];
  switch (in->kop) {
  case QN_K_LOOP:
    return open_loop(w, id);
  case QN_K_IF:
    return open_if(w, id);
  case QN_K_ELSE:
    turn_else(w);
    return QN_OK;
  case QN_K_END:
    if (w->kernel->insts[w->scope->inst].kop == QN_K_LOOP)
      close_loop(w);
    else
      close_if(w);
    return QN_OK;
  default:
    return QN_OK; /* BARRIER: nothing to wait for, a group has one item here */
  }
}

static LLVMValueRef set_variable(qn_llvm_walk *w, const qn_kinst *in, uint32_t id) {
  uint32_t var = in->kop == QN_K_VAR ? id : in->a;
  LLVMValueRef x = w->value[in->kop == QN_K_VAR ? in->a : in->b];
  unsigned lanes = w->kernel->insts[var].lanes, have = w->kernel->insts[in->kop == QN_K_VAR ? in->a : in->b].lanes;
  return w->current[var] = lanes > 1 && have <= 1 ? qn_llvm_splat(w, x, lanes) : x;
}

static qn_status walk_inst(qn_llvm_walk *w, uint32_t id) {
  const qn_kinst *in = &w->kernel->insts[id];
  LLVMValueRef *v = &w->value[id];
  switch (in->kop) {
  case QN_K_SCALAR:
    if (qn_llvm_only_wide(w, id))
      w->wide[id] = qn_llvm_widen_index(w, id);
    else
      *v = qn_llvm_scalar(w, in);
    break;
  case QN_K_GROUP:
    *v = w->group;
    break;
  case QN_K_ITEM:
    *v = w->item;
    break;
  case QN_K_PARAM:
    *v = qn_llvm_param(w, (uint32_t)in->imm);
    break;
  case QN_K_SPLAT:
    *v = qn_llvm_splat(w, w->value[in->a], in->lanes);
    break;
  case QN_K_IOTA:
    *v = iota(w, in);
    break;
  case QN_K_EXTRACT:
    *v = LLVMBuildExtractElement(w->b, w->value[in->a], qn_llvm_u32(w, in->imm), "");
    break;
  case QN_K_LOW:
    *v = half_vector(w, in, false);
    break;
  case QN_K_HIGH:
    *v = half_vector(w, in, true);
    break;
  case QN_K_JOIN:
    *v = join(w, in);
    break;
  case QN_K_VAR:
  case QN_K_SET:
    *v = set_variable(w, in, id);
    break;
  case QN_K_GET:
    *v = w->current[in->a];
    break;
  case QN_K_ARRAY:
    *v = qn_llvm_array(w, in);
    break;
  case QN_K_ALOAD:
    *v = qn_llvm_aload(w, in);
    break;
  case QN_K_ASTORE:
    qn_llvm_astore(w, in);
    break;
  case QN_K_LOAD:
    *v = qn_llvm_load(w, in);
    break;
  case QN_K_STORE:
    qn_llvm_store(w, in);
    break;
  case QN_K_GATHER:
    *v = qn_llvm_gather(w, in);
    break;
  case QN_K_SCATTER:
    qn_llvm_scatter(w, in);
    break;
  case QN_K_ATOMIC_AND:
  case QN_K_ATOMIC_OR:
    qn_llvm_atomic(w, in);
    break;
  default:
    QN_TRY(walk_control(w, id));
    return QN_OK;
  }
  if (w->in_address[id] && *v && !w->wide[id])
    w->wide[id] = qn_llvm_widen_index(w, id);
  return QN_OK;
}

/* A counted loop of 32 bits around what `body` emits: groups, and items of a group. */
typedef struct range_loop {
  LLVMBasicBlockRef head, body, after;
  LLVMValueRef index, end;
} range_loop;

static range_loop open_range(qn_llvm_walk *w, LLVMValueRef begin, LLVMValueRef end) {
  range_loop l = {.head = new_block(w), .body = new_block(w), .after = new_block(w), .end = end};
  LLVMBuildCondBr(w->b, LLVMBuildICmp(w->b, LLVMIntULT, begin, end, ""), l.head, l.after);
  LLVMPositionBuilderAtEnd(w->b, l.head);
  LLVMBuildBr(w->b, l.body);
  LLVMPositionBuilderAtEnd(w->b, l.body);
  l.index = phi(w, begin, l.head, NULL, NULL);
  return l;
}

static void close_range(qn_llvm_walk *w, range_loop *l) {
  LLVMValueRef next = LLVMBuildNUWAdd(w->b, l->index, qn_llvm_u32(w, 1), "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(w->b), leave = new_block(w);
  LLVMBuildCondBr(w->b, LLVMBuildICmp(w->b, LLVMIntULT, next, l->end, ""), l->body, leave);
  LLVMAddIncoming(l->index, &next, &latch, 1);
  LLVMPositionBuilderAtEnd(w->b, leave);
  LLVMBuildBr(w->b, l->after);
  LLVMMoveBasicBlockAfter(l->after, leave);
  LLVMPositionBuilderAtEnd(w->b, l->after);
}

static void add_attribute(qn_llvm_walk *w, const char *key, const char *value) {
  LLVMAttributeRef a =
      LLVMCreateStringAttribute(w->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(w->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void declare_function(qn_llvm_walk *w, const char *symbol) {
  LLVMTypeRef ptr = LLVMPointerTypeInContext(w->context, 0), u32 = LLVMInt32TypeInContext(w->context);
  LLVMTypeRef args[] = {ptr, ptr, ptr, u32, u32}; /* qn_native_entry */
  w->function = LLVMAddFunction(w->module, symbol, LLVMFunctionType(LLVMVoidTypeInContext(w->context), args, 5, 0));
  static const char nounwind[] = "nounwind";
  unsigned kind = LLVMGetEnumAttributeKindForName(nounwind, sizeof nounwind - 1);
  LLVMAddAttributeAtIndex(w->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(w->context, kind, 0));
  add_attribute(w, "prefer-vector-width", "512");
  add_attribute(w, "no-trapping-math", "true");
  /* Neither the bindings' table nor the parameters change while a kernel runs. */
  static const char readonly[] = "readonly";
  kind = LLVMGetEnumAttributeKindForName(readonly, sizeof readonly - 1);
  for (unsigned i = 2; i <= 3; ++i)
    LLVMAddAttributeAtIndex(w->function, i, LLVMCreateEnumAttribute(w->context, kind, 0));
}

static qn_status walk_body(qn_llvm_walk *w) {
  const qn_kernel *k = w->kernel;
  LLVMBasicBlockRef entry = new_block(w), start = new_block(w);
  LLVMPositionBuilderAtEnd(w->entry, entry);
  LLVMPositionBuilderAtEnd(w->b, start);
  range_loop groups = open_range(w, LLVMGetParam(w->function, 3), LLVMGetParam(w->function, 4)), items = {0};
  w->group = groups.index;
  w->item = qn_llvm_u32(w, 0);
  if (k->items > 1) {
    items = open_range(w, qn_llvm_u32(w, 0), qn_llvm_u32(w, k->items));
    w->item = items.index;
  }
  for (uint32_t id = 1; id < k->count; ++id)
    QN_TRY(walk_inst(w, id));
  if (k->items > 1)
    close_range(w, &items);
  close_range(w, &groups);
  LLVMBuildRetVoid(w->b);
  LLVMBuildBr(w->entry, start);
  return QN_OK;
}

static qn_status check_supported(const qn_kernel *k) {
  for (uint32_t i = 1; i < k->count && k->items > 1; ++i) {
    if (k->insts[i].kop == QN_K_BARRIER)
      return QN_ERR(QN_UNSUPPORTED, "kernel %s: a barrier among %u items a group; host code runs one item at a time",
                    k->name, k->items);
  }
  return QN_OK;
}

qn_status qn_llvm_emit(const qn_kernel *kernel, LLVMModuleRef module, const char *symbol) {
  QN_TRY(check_supported(kernel));
  qn_llvm_walk w = {.kernel = kernel, .module = module, .context = LLVMGetModuleContext(module)};
  size_t n = kernel->count + 1;
  w.value = QN_NEW(&w.arena, LLVMValueRef, n);
  w.wide = QN_NEW(&w.arena, LLVMValueRef, n);
  w.current = QN_NEW(&w.arena, LLVMValueRef, n);
  w.in_address = QN_NEW(&w.arena, bool, n);
  w.plain = QN_NEW(&w.arena, bool, n);
  w.params = QN_NEW(&w.arena, LLVMValueRef, kernel->param_count + 1);
  w.bases = QN_NEW(&w.arena, LLVMValueRef, kernel->buffer_count + 1);
  qn_status st = QN_OK;
  if (!w.value || !w.wide || !w.current || !w.in_address || !w.plain || !w.params || !w.bases) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "kernel %s: no memory to walk it", kernel->name);
    goto done;
  }
  w.b = LLVMCreateBuilderInContext(w.context);
  w.entry = LLVMCreateBuilderInContext(w.context);
  qn_llvm_mark_addresses(&w);
  declare_function(&w, symbol);
  QN_TRY_GOTO(st, walk_body(&w), done);
done:
  if (w.b) {
    LLVMDisposeBuilder(w.b);
    LLVMDisposeBuilder(w.entry);
  }
  qn_arena_free(&w.arena);
  return st;
}
