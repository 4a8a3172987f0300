/* From kernels to entry points: walk, generate objects, link them in this process.
 *
 * Kernels are dealt out to as many modules as there are processors, each with a context of its own, compiled side by
 * side. The objects, packed behind a header that names compiler, machine and kernels, are what the cache keeps; a
 * packet that differs in any of those is ignored and made anew. */
#include "walk.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 16, MIN_PART_INSTS = 250, SYMBOL_ROOM = 64 };

typedef struct part {
  const qn_kernel *const *kernels;
  size_t first, count;
  LLVMMemoryBufferRef object;
  qn_error_copy error;
  qn_thread thread;
  bool started;
} part;

static void symbol_of(const qn_kernel *k, size_t index, char out[SYMBOL_ROOM]) {
  (void)snprintf(out, SYMBOL_ROOM, "quern%zu_%s", index, k->name);
}

static qn_status orc_error(LLVMErrorRef e, const char *what) {
  if (!e)
    return QN_OK;
  char *message = LLVMGetErrorMessage(e);
  qn_status st = QN_ERR(QN_COMPILE, "LLVM, %s: %s", what, message);
  LLVMDisposeErrorMessage(message);
  return st;
}

/* ---- code generation ---- */

static qn_status verify(LLVMModuleRef module) {
#ifdef NDEBUG
  (void)module;
#else
  char *message = NULL;
  LLVMBool bad = LLVMVerifyModule(module, LLVMReturnStatusAction, &message);
  qn_status st = bad ? QN_ERR(QN_INTERNAL, "LLVM module does not verify: %s", message) : QN_OK;
  LLVMDisposeMessage(message);
  QN_TRY(st);
#endif
  return QN_OK;
}

/* A context, a module of it and the machine that it is meant for. */
typedef struct workshop {
  LLVMTargetMachineRef machine;
  LLVMContextRef context;
  LLVMModuleRef module;
} workshop;

static qn_status open_workshop(workshop *s) {
  const qn_llvm_host *host = NULL;
  QN_TRY(qn_llvm_host_get(&host));
  QN_TRY(qn_llvm_machine(&s->machine));
  s->context = LLVMContextCreate();
  s->module = LLVMModuleCreateWithNameInContext("quern", s->context);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(s->machine);
  LLVMSetModuleDataLayout(s->module, layout);
  LLVMDisposeTargetData(layout);
  LLVMSetTarget(s->module, host->triple);
  return QN_OK;
}

static void close_workshop(workshop *s) {
  LLVMDisposeModule(s->module);
  LLVMContextDispose(s->context);
  LLVMDisposeTargetMachine(s->machine);
}

static qn_status generate(workshop *s, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *out) {
  QN_TRY(verify(s->module));
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(s->machine, s->module, kind, &message, out)) {
    qn_status st = QN_ERR(QN_COMPILE, "LLVM: %s", message);
    LLVMDisposeMessage(message);
    *out = NULL;
    return st;
  }
  return QN_OK;
}

static qn_status compile_part(part *p) {
  workshop s;
  qn_status st = QN_OK;
  QN_TRY(open_workshop(&s));
  for (size_t i = p->first; i < p->first + p->count; ++i) {
    char symbol[SYMBOL_ROOM];
    symbol_of(p->kernels[i], i, symbol);
    QN_TRY_GOTO(st, qn_llvm_emit(p->kernels[i], s.module, symbol), done);
  }
  QN_TRY_GOTO(st, generate(&s, LLVMObjectFile, &p->object), done);
done:
  close_workshop(&s);
  return st;
}

qn_status qn_llvm_assembly(const qn_kernel *kernel, qn_text *out) {
  workshop s;
  LLVMMemoryBufferRef text = NULL;
  qn_status st = QN_OK;
  QN_TRY(open_workshop(&s));
  QN_TRY_GOTO(st, qn_llvm_emit(kernel, s.module, kernel->name), done);
  QN_TRY_GOTO(st, generate(&s, LLVMAssemblyFile, &text), done);
  qn_text_putn(out, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
  LLVMDisposeMemoryBuffer(text);
  QN_TRY_GOTO(st, qn_text_check(out), done);
done:
  close_workshop(&s);
  return st;
}

qn_status qn_llvm_text(const qn_kernel *kernel, qn_text *out) {
  workshop s;
  qn_status st = QN_OK;
  QN_TRY(open_workshop(&s));
  QN_TRY_GOTO(st, qn_llvm_emit(kernel, s.module, kernel->name), done);
  char *text = LLVMPrintModuleToString(s.module);
  qn_text_puts(out, text);
  LLVMDisposeMessage(text);
  QN_TRY_GOTO(st, qn_text_check(out), done);
done:
  close_workshop(&s);
  return st;
}

static void run_part(void *arg) {
  part *p = arg;
  qn_error_save(compile_part(p), &p->error);
}

/* Cuts the kernels into runs of about equal instruction counts. */
static size_t deal(const qn_kernel *const *kernels, size_t count, part parts[MAX_PARTS]) {
  size_t insts = 0;
  for (size_t i = 0; i < count; ++i)
    insts += kernels[i]->count;
  size_t n = (size_t)qn_cpu_count();
  n = n < count ? n : count;
  n = n < MAX_PARTS ? n : MAX_PARTS;
  if (n > insts / MIN_PART_INSTS)
    n = insts / MIN_PART_INSTS;
  n = n ? n : 1;
  size_t next = 0, done = 0;
  for (size_t i = 0; i < n; ++i) {
    parts[i] = (part){.kernels = kernels, .first = next};
    while (next < count && (i + 1 == n || done < insts * (i + 1) / n))
      done += kernels[next++]->count;
    parts[i].count = next - parts[i].first;
  }
  return n;
}

static qn_status compile_parts(part *parts, size_t n) {
  for (size_t i = 1; i < n; ++i)
    parts[i].started = qn_thread_start(&parts[i].thread, run_part, &parts[i]) == QN_OK;
  for (size_t i = 0; i < n; ++i) {
    if (!parts[i].started)
      run_part(&parts[i]);
  }
  for (size_t i = 1; i < n; ++i) {
    if (parts[i].started)
      qn_thread_join(parts[i].thread);
  }
  for (size_t i = 0; i < n; ++i) {
    if (parts[i].error.code != QN_OK)
      return qn_error_restore(&parts[i].error);
  }
  return QN_OK;
}

/* ---- the packet of objects ---- */

typedef struct packet_header {
  char magic[8];
  uint32_t objects, kernels;
  qn_digest digest; /* of identity, kernels and everything behind the header */
} packet_header;

static const char packet_magic[8] = "QNCPU01";

static qn_status packet_digest(const qn_kernel *const *kernels, size_t count, const void *data, size_t size,
                               qn_digest *out_digest) {
  qn_text t = {0};
  qn_llvm_identity(&t);
  for (size_t i = 0; i < count; ++i)
    qn_text_add(&t, "\n%s %u", kernels[i]->name, kernels[i]->items);
  qn_digest body = qn_digest_bytes(data, size);
  qn_text_putn(&t, (const char *)body.b, sizeof body.b);
  qn_status st = qn_text_check(&t);
  if (st == QN_OK)
    *out_digest = qn_digest_bytes(t.buf, t.len);
  qn_text_free(&t);
  return st;
}

static qn_status pack(const qn_kernel *const *kernels, size_t count, const part *parts, size_t n, qn_bytes *out) {
  size_t size = sizeof(packet_header) + n * sizeof(uint64_t);
  for (size_t i = 0; i < n; ++i)
    size += LLVMGetBufferSize(parts[i].object);
  uint8_t *data = malloc(size);
  if (!data)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for %zu bytes of object code", size);
  uint8_t *p = data + sizeof(packet_header);
  for (size_t i = 0; i < n; ++i, p += sizeof(uint64_t)) {
    uint64_t bytes = LLVMGetBufferSize(parts[i].object);
    memcpy(p, &bytes, sizeof bytes);
  }
  for (size_t i = 0; i < n; ++i) {
    memcpy(p, LLVMGetBufferStart(parts[i].object), LLVMGetBufferSize(parts[i].object));
    p += LLVMGetBufferSize(parts[i].object);
  }
  packet_header h = {.objects = (uint32_t)n, .kernels = (uint32_t)count};
  memcpy(h.magic, packet_magic, sizeof h.magic);
  qn_status st = packet_digest(kernels, count, data + sizeof h, size - sizeof h, &h.digest);
  if (st != QN_OK) {
    free(data);
    return qn_error_trace(st, __FILE__, __LINE__, "packet_digest");
  }
  memcpy(data, &h, sizeof h);
  *out = (qn_bytes){data, size};
  return QN_OK;
}

/* Cuts a packet into objects; 0 when it is not one that was made here for these kernels. */
static size_t unpack(const qn_kernel *const *kernels, size_t count, const qn_bytes *object,
                     LLVMMemoryBufferRef out[MAX_PARTS]) {
  packet_header h;
  if (!object || object->size < sizeof h)
    return 0;
  memcpy(&h, object->data, sizeof h);
  if (memcmp(h.magic, packet_magic, sizeof h.magic) != 0 || h.kernels != count || h.objects == 0 ||
      h.objects > MAX_PARTS)
    return 0;
  qn_digest d;
  if (packet_digest(kernels, count, object->data + sizeof h, object->size - sizeof h, &d) != QN_OK ||
      memcmp(&d, &h.digest, sizeof d) != 0)
    return 0;
  size_t at = sizeof h + h.objects * sizeof(uint64_t);
  for (size_t i = 0; i < h.objects; ++i) { /* the digest vouches for the sizes */
    uint64_t bytes;
    memcpy(&bytes, object->data + sizeof h + i * sizeof bytes, sizeof bytes);
    out[i] = LLVMCreateMemoryBufferWithMemoryRangeCopy((const char *)object->data + at, (size_t)bytes, "quern");
    at += (size_t)bytes;
  }
  return h.objects;
}

/* ---- linking ---- */

static void release(void *owner) {
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(owner);
  if (e)
    LLVMConsumeError(e);
}

/* Takes the objects, also when it fails. */
static qn_status add_objects(LLVMOrcLLJITRef jit, LLVMMemoryBufferRef *objects, size_t n) {
  qn_status st = QN_OK;
  for (size_t i = 0; i < n; ++i) {
    if (st != QN_OK)
      LLVMDisposeMemoryBuffer(objects[i]);
    else
      st =
          orc_error(LLVMOrcLLJITAddObjectFile(jit, LLVMOrcLLJITGetMainJITDylib(jit), objects[i]), "adding object code");
  }
  return st;
}

static qn_status link(const qn_kernel *const *kernels, size_t count, LLVMMemoryBufferRef *objects, size_t n,
                      qn_code_entry *entries, qn_code *code) {
  LLVMOrcLLJITRef jit = NULL;
  qn_status st = orc_error(LLVMOrcCreateLLJIT(&jit, NULL), "creating the linker");
  if (st != QN_OK) {
    for (size_t i = 0; i < n; ++i)
      LLVMDisposeMemoryBuffer(objects[i]);
    return st;
  }
  QN_TRY_GOTO(st, add_objects(jit, objects, n), failed);
  for (size_t i = 0; i < count; ++i) {
    char symbol[SYMBOL_ROOM];
    symbol_of(kernels[i], i, symbol);
    LLVMOrcExecutorAddress address = 0;
    QN_TRY_GOTO(st, orc_error(LLVMOrcLLJITLookup(jit, &address, symbol), symbol), failed);
    uintptr_t p = (uintptr_t)address;
    memcpy(&entries[i].native, &p, sizeof p);
    entries[i].native_context = NULL;
  }
  code->release = release;
  code->owner = jit;
  return QN_OK;
failed:
  release(jit);
  return st;
}

qn_status qn_llvm_compile(const qn_kernel *const *kernels, size_t count, const qn_bytes *object, qn_code_entry *entries,
                          qn_code *code, qn_bytes *out_object) {
  code->release = NULL;
  code->owner = NULL;
  if (out_object)
    *out_object = (qn_bytes){0};
  if (count == 0)
    return QN_OK;
  const qn_llvm_host *host = NULL;
  QN_TRY(qn_llvm_host_get(&host));
  LLVMMemoryBufferRef objects[MAX_PARTS];
  size_t n = unpack(kernels, count, object, objects);
  if (n > 0 && link(kernels, count, objects, n, entries, code) == QN_OK) {
    if (out_object) {
      uint8_t *copy = malloc(object->size);
      if (copy) {
        memcpy(copy, object->data, object->size);
        *out_object = (qn_bytes){copy, object->size};
      }
    }
    return QN_OK;
  }
  part parts[MAX_PARTS];
  n = deal(kernels, count, parts);
  qn_status st = compile_parts(parts, n);
  if (st == QN_OK && out_object)
    st = pack(kernels, count, parts, n, out_object);
  for (size_t i = 0; i < n; ++i) {
    objects[i] = parts[i].object;
    if (st != QN_OK && objects[i])
      LLVMDisposeMemoryBuffer(objects[i]);
  }
  if (st == QN_OK)
    st = link(kernels, count, objects, n, entries, code);
  if (st != QN_OK && out_object) {
    free(out_object->data);
    *out_object = (qn_bytes){0};
  }
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_llvm_compile");
}
