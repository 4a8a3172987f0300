/* Kernels to code: host code by LLVM or the interpreter, OpenCL C text, SPIR-V by glslang. What takes time is kept in the cache by the text that
 * it was made from. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

#include "quern/cache.h"
#include "tiered.h"
#ifdef QN_HAVE_GLSLANG
#include "quern/spirv.h"
#endif

static qn_status set_entries(sched_program *prog, qn_plan *plan, qn_code_entry **out_entries) {
  qn_code_entry *e = QN_NEW(&plan->arena, qn_code_entry, prog->kernel_count + 1);
  if (!e)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program");
  for (size_t i = 0; i < prog->kernel_count; i++) {
    const qn_kernel *k = prog->kernels[i];
    e[i].name = qn_arena_strdup(&plan->arena, k->name);
    e[i].label = prog->labels[i];
    e[i].items = k->items;
    e[i].binding_count = k->binding_count;
    e[i].param_count = k->param_count;
    if (!e[i].name)
      return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program");
  }
  plan->code.entries = e;
  plan->code.entry_count = prog->kernel_count;
  *out_entries = e;
  return QN_OK;
}

static void explain_kernel(const qn_compile_desc *desc, const char *label, const char *text) {
  if (desc->explain && desc->explain_kernels)
    qn_text_add(desc->explain, "\n---- %s\n%s\n", label, text ? text : "");
}

/* ---- host code ---- */

typedef struct owned_kernels {
  size_t count;
  qn_kernel *kernels[];
} owned_kernels;

static void release_kernels(void *owner) {
  owned_kernels *o = owner;
  for (size_t i = 0; i < o->count; i++) {
    qn_kernel_free(o->kernels[i]);
    free(o->kernels[i]);
  }
  free(o);
}

static qn_status interpreted(sched_program *prog, qn_plan *plan, qn_code_entry *entries) {
  owned_kernels *o = calloc(1, sizeof *o + prog->kernel_count * sizeof *o->kernels);
  if (!o)
    return QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program");
  o->count = prog->kernel_count;
  for (size_t i = 0; i < o->count; i++) {
    o->kernels[i] = prog->kernels[i];
    entries[i].native = qn_kernel_interpret;
    entries[i].native_context = o->kernels[i];
  }
  prog->kernel_count = 0; /* theirs now */
  plan->code.owner = o;
  plan->code.release = release_kernels;
  return QN_OK;
}

#ifdef QN_HAVE_LLVM
static qn_status compiled(sched_program *prog, const qn_compile_desc *desc, qn_plan *plan, qn_code_entry *entries) {
  qn_text id = {0};
  qn_llvm_identity(&id);
  qn_digest key = plan->key;
  uint8_t joined[sizeof key.b + 16];
  qn_digest who = qn_digest_bytes(id.buf, id.len);
  memcpy(joined, key.b, sizeof key.b);
  memcpy(joined + sizeof key.b, who.b, sizeof who.b);
  key = qn_digest_bytes(joined, sizeof joined);
  qn_text_free(&id);
  qn_bytes object = {0}, made = {0};
  bool hit = desc->cache && qn_cache_get(desc->cache, "object", key, &object) == QN_OK && object.size;
  qn_status st = qn_llvm_compile((const qn_kernel *const *)prog->kernels, prog->kernel_count, hit ? &object : NULL,
                                 entries, &plan->code, desc->cache ? &made : NULL);
  if (st == QN_OK && made.size)
    (void)qn_cache_put(desc->cache, "object", key, made.data, made.size);
  free(object.data);
  free(made.data);
  return st;
}
#endif

static qn_status native_code(sched_program *prog, const qn_compile_desc *desc, qn_plan *plan, qn_code_entry *entries) {
  plan->code.format = QN_CODE_NATIVE;
  for (size_t i = 0; desc->explain && desc->explain_kernels && i < prog->kernel_count; i++) {
    qn_text t = {0};
    qn_kernel_dump(prog->kernels[i], &t);
    explain_kernel(desc, prog->labels[i], t.buf);
    qn_text_free(&t);
  }
#ifdef QN_HAVE_LLVM
  if (!desc->interpret && !qn_env_on(QN_ENV_INTERPRET)) {
    bool at_once = desc->at_once || qn_env_get(QN_ENV_INTERPRET) || !qn_tiered_pays(prog);
    return at_once ? compiled(prog, desc, plan, entries) : qn_tiered_code(prog, plan, entries);
  }
#endif
  return interpreted(prog, plan, entries);
}

/* ---- OpenCL C ---- */

static qn_status legal_kernel(const qn_kernel *k, const qn_device_caps *caps, const char *label, qn_kernel *out) {
  memset(out, 0, sizeof *out);
  qn_status st = qn_kernel_legalize(k, caps, out);
  if (st == QN_UNSUPPORTED) {
    qn_error_copy why;
    qn_error_save(st, &why);
    qn_kernel_free(out);
    return QN_ERR(QN_UNSUPPORTED, "%s: %s", label, why.message);
  }
  if (st != QN_OK)
    qn_kernel_free(out);
  return st;
}

static qn_status opencl_code(const qn_device_caps *caps, sched_program *prog, const qn_compile_desc *desc,
                             qn_plan *plan, qn_code_entry *entries) {
  qn_text all = {0};
  qn_dialect_prelude(&qn_dialect_opencl, caps, &all);
  for (size_t i = 0; i < prog->kernel_count; i++) {
    qn_kernel k;
    qn_status st = legal_kernel(prog->kernels[i], caps, prog->labels[i], &k);
    if (st != QN_OK) {
      qn_text_free(&all);
      return st;
    }
    size_t begin = all.len;
    qn_kernel_print(&k, &qn_dialect_opencl, caps, &all);
    entries[i].name = qn_arena_strdup(&plan->arena, k.name);
    entries[i].param_count = k.param_count;
    explain_kernel(desc, prog->labels[i], all.buf ? all.buf + begin : NULL);
    qn_kernel_free(&k);
  }
  qn_status st = qn_text_check(&all);
  plan->code.format = QN_CODE_OPENCL_C;
  plan->code.source = st == QN_OK ? qn_arena_copy(&plan->arena, all.buf, all.len + 1) : NULL;
  plan->code.source_bytes = all.len;
  if (all.buf)
    plan->key = qn_digest_bytes(all.buf, all.len);
  qn_text_free(&all);
  if (st == QN_OK && !plan->code.source)
    st = QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program's text");
  return st;
}

/* ---- SPIR-V ---- */

#ifdef QN_HAVE_GLSLANG
static qn_status spirv_of(const qn_text *text, const char *label, qn_cache *cache, qn_bytes *out) {
  qn_digest key = qn_digest_bytes(text->buf, text->len);
  if (cache && qn_cache_get(cache, "spirv", key, out) == QN_OK && out->size)
    return QN_OK;
  QN_TRY(qn_glsl_to_spirv(text->buf, label, out));
  if (cache)
    (void)qn_cache_put(cache, "spirv", key, out->data, out->size);
  return QN_OK;
}

static qn_status spirv_code(const qn_device_caps *caps, sched_program *prog, const qn_compile_desc *desc, qn_plan *plan,
                            qn_code_entry *entries) {
  qn_digest all = {{0}};
  plan->code.format = QN_CODE_SPIRV;
  for (size_t i = 0; i < prog->kernel_count; i++) {
    qn_kernel k;
    QN_TRY(legal_kernel(prog->kernels[i], caps, prog->labels[i], &k));
    qn_text t = {0};
    qn_bytes words = {0};
    qn_kernel_print(&k, &qn_dialect_glsl, caps, &t);
    entries[i].param_count = k.param_count;
    qn_kernel_free(&k);
    qn_status st = qn_text_check(&t);
    if (st == QN_OK)
      st = spirv_of(&t, prog->labels[i], desc->cache, &words);
    if (st == QN_OK) {
      explain_kernel(desc, prog->labels[i], t.buf);
      uint8_t joined[32];
      qn_digest d = qn_digest_bytes(t.buf, t.len);
      memcpy(joined, all.b, 16);
      memcpy(joined + 16, d.b, 16);
      all = qn_digest_bytes(joined, sizeof joined);
      entries[i].spirv = qn_arena_copy(&plan->arena, words.data, words.size);
      entries[i].spirv_bytes = words.size;
      if (!entries[i].spirv)
        st = QN_ERR(QN_OUT_OF_MEMORY, "no memory for a program");
    }
    free(words.data);
    qn_text_free(&t);
    QN_TRY(st);
  }
  plan->key = all;
  return QN_OK;
}
#else
static qn_status spirv_code(const qn_device_caps *caps, sched_program *prog, const qn_compile_desc *desc, qn_plan *plan,
                            qn_code_entry *entries) {
  (void)prog;
  (void)desc;
  (void)entries;
  return QN_ERR(QN_UNSUPPORTED, "%s: %s takes SPIR-V, and this build has no glslang to make it", plan->name, caps->id);
}
#endif

/* ---- entry ---- */

static void digest_kernels(const sched_program *prog, qn_plan *plan) {
  qn_text names = {0};
  for (size_t i = 0; i < prog->kernel_count; i++)
    qn_text_add(&names, "%s;", prog->kernels[i]->name);
  plan->key = qn_digest_bytes(names.buf ? names.buf : "", names.len);
  qn_text_free(&names);
}

qn_status qn_backend_code(const qn_device_caps *caps, sched_program *prog, const qn_compile_desc *desc, qn_plan *plan) {
  qn_code_entry *entries;
  QN_TRY(set_entries(prog, plan, &entries));
  digest_kernels(prog, plan);
  if (caps->format == QN_CODE_NATIVE)
    return native_code(prog, desc, plan, entries);
  if (caps->format == QN_CODE_OPENCL_C)
    return opencl_code(caps, prog, desc, plan, entries);
  if (caps->format == QN_CODE_SPIRV)
    return spirv_code(caps, prog, desc, plan, entries);
  plan->code.format = QN_CODE_NULL;
  return QN_OK;
}
