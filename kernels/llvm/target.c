/* The machine that code is made for: found once, never changed. */
#include "walk.h"

#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static qn_llvm_host host;
static char why[256];

static void find_host(void) {
  if (LLVMInitializeNativeTarget() || LLVMInitializeNativeAsmPrinter()) {
    (void)snprintf(why, sizeof why, "LLVM has no code generator for this machine");
    return;
  }
  char *message = NULL;
  host.triple = LLVMGetDefaultTargetTriple();
  host.cpu = LLVMGetHostCPUName();
  host.features = LLVMGetHostCPUFeatures();
  if (LLVMGetTargetFromTriple(host.triple, &host.target, &message))
    (void)snprintf(why, sizeof why, "LLVM: %s", message);
  LLVMDisposeMessage(message);
}

qn_status qn_llvm_host_get(const qn_llvm_host **out_host) {
  *out_host = NULL;
  (void)pthread_once(&once, find_host);
  if (!host.target)
    return QN_ERR(QN_UNSUPPORTED, "%s", why);
  *out_host = &host;
  return QN_OK;
}

qn_status qn_llvm_machine(LLVMTargetMachineRef *out_machine) {
  *out_machine = NULL;
  const qn_llvm_host *h = NULL;
  QN_TRY(qn_llvm_host_get(&h));
  *out_machine = LLVMCreateTargetMachine(h->target, h->triple, h->cpu, h->features, LLVMCodeGenLevelLess, LLVMRelocPIC,
                                         LLVMCodeModelSmall);
  return *out_machine ? QN_OK : QN_ERR(QN_COMPILE, "LLVM: no target machine for %s", h->triple);
}

/* Raise it when the walker's output changes, so that object files made before are not loaded. */
enum { WALKER_REVISION = 1 };

void qn_llvm_identity(qn_text *out) {
  const qn_llvm_host *h = NULL;
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);
  if (qn_llvm_host_get(&h) != QN_OK) {
    qn_text_add(out, "llvm %u.%u.%u, no host", major, minor, patch);
    return;
  }
  char hex[33];
  qn_digest_hex(qn_digest_bytes(h->features, strlen(h->features)), hex);
  qn_text_add(out, "llvm %u.%u.%u %s %s features %.16s walker %d", major, minor, patch, h->triple, h->cpu, hex,
              WALKER_REVISION);
}
