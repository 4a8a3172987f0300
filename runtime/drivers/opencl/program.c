/* Programs: built from text or from an earlier build's binary, kernels checked against what the caller says of them,
 * failures reported with the compiler's log and the label of the kernel that it points at. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

/* ---- the message of a failed build ---- */
static char *build_log(ocl_device *d, cl_program program) {
  size_t size = 0;
  if (d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS || size == 0)
    return NULL;
  char *log = calloc(size + 1, 1);
  if (log && d->cl->clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, size, log, NULL) != CL_SUCCESS)
    log[0] = 0;
  return log;
}

/* The first "<file>:LINE:COLUMN" of a log; 0 if there is none. */
static size_t line_of(const char *log) {
  for (const char *at = strchr(log, ':'); at; at = strchr(at + 1, ':')) {
    char *end = NULL;
    unsigned long line = strtoul(at + 1, &end, 10);
    if (end != at + 1 && *end == ':' && end[1] >= '0' && end[1] <= '9')
      return (size_t)line;
  }
  return 0;
}

/* The entry whose name is the last one at or before that line. */
static const qn_code_entry *entry_at(const qn_code *code, size_t line) {
  const char *end = code->source;
  const char *stop = code->source + code->source_bytes;
  for (size_t i = 0; i < line && end < stop; end++)
    i += *end == '\n';
  const qn_code_entry *best = &code->entries[0];
  const char *best_at = NULL;
  for (size_t i = 0; i < code->entry_count; i++) {
    size_t n = strlen(code->entries[i].name);
    for (const char *p = code->source; p + n <= end; p++) {
      if (*p != *code->entries[i].name || memcmp(p, code->entries[i].name, n) != 0)
        continue;
      if (!best_at || p > best_at) {
        best = &code->entries[i];
        best_at = p;
      }
    }
  }
  return best;
}

static qn_status build_failed(ocl_device *d, cl_program program, const qn_code *code, cl_int error) {
  char *log = build_log(d, program);
  const qn_code_entry *e = entry_at(code, log ? line_of(log) : 0);
  qn_status st = QN_ERR(QN_COMPILE, "device %s (%.60s): kernel %s [%s] did not compile: %s (%d)\n%.1500s",
                        d->base.caps.id, d->base.caps.name, qn_code_entry_label(e), e->name, qn_ocl_error_name(error),
                        (int)error, log ? log : "(no log)");
  free(log);
  return st;
}

/* ---- building ---- */
static const char *options_of(const ocl_device *d) {
  /* No option that lets the compiler assume finite values or reorder arithmetic, on any device. */
  return d->correct_division ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

/* Binaries travel behind a head of ours: some drivers abort the process over bytes that they do not know. */
typedef struct binary_head {
  char magic[16];
  qn_digest digest; /* of device, driver and what follows */
} binary_head;
static const char binary_magic[16] = "quern opencl 1\n";

static qn_digest digest_of(const ocl_device *d, const void *data, size_t size) {
  qn_digest all[2] = {qn_digest_bytes(data, size), qn_digest_bytes(&d->base.caps.name, sizeof d->base.caps.name)};
  uint64_t h = qn_hash_bytes(QN_HASH_INIT, d->base.caps.driver, sizeof d->base.caps.driver);
  h = qn_hash_bytes(h, d->base.caps.platform, sizeof d->base.caps.platform);
  for (size_t i = 0; i < 8; i++)
    all[1].b[i] = (uint8_t)(all[1].b[i] ^ (h >> 8 * i));
  return qn_digest_bytes(all, sizeof all);
}

static bool ours(const ocl_device *d, const qn_bytes *binary) {
  binary_head head;
  if (binary->size <= sizeof head)
    return false;
  memcpy(&head, binary->data, sizeof head);
  qn_digest want = digest_of(d, binary->data + sizeof head, binary->size - sizeof head);
  return memcmp(head.magic, binary_magic, sizeof head.magic) == 0 && memcmp(&head.digest, &want, sizeof want) == 0;
}

static cl_program from_binary(ocl_device *d, const qn_bytes *binary) {
  if (!ours(d, binary))
    return NULL;
  const unsigned char *data = binary->data + sizeof(binary_head);
  size_t size = binary->size - sizeof(binary_head);
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  cl_program program = d->cl->clCreateProgramWithBinary(d->context, 1, &d->id, &size, &data, &status, &error);
  if (!program)
    return NULL;
  if (error == CL_SUCCESS && status == CL_SUCCESS)
    error = d->cl->clBuildProgram(program, 1, &d->id, options_of(d), NULL, NULL);
  if (error == CL_SUCCESS && status == CL_SUCCESS)
    return program;
  (void)d->cl->clReleaseProgram(program);
  return NULL;
}

static qn_status from_source(ocl_device *d, const qn_code *code, cl_program *out_program) {
  cl_int error = CL_SUCCESS;
  *out_program = d->cl->clCreateProgramWithSource(d->context, 1, (const char *[]){code->source},
                                                  (const size_t[]){code->source_bytes}, &error);
  if (!*out_program)
    return OCL_ERR(error, "device %s: program", d->base.caps.id);
  error = d->cl->clBuildProgram(*out_program, 1, &d->id, options_of(d), NULL, NULL);
  if (error == CL_SUCCESS)
    return QN_OK;
  qn_status st = build_failed(d, *out_program, code, error);
  (void)d->cl->clReleaseProgram(*out_program);
  *out_program = NULL;
  return st;
}

/* The limits that only the built kernel knows. */
static qn_status check_kernel(ocl_device *d, cl_program program, const qn_code_entry *e) {
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = d->cl->clCreateKernel(program, e->name, &error);
  if (!kernel)
    return OCL_ERR(error, "device %s: kernel %s [%s]", d->base.caps.id, qn_code_entry_label(e), e->name);
  cl_uint args = 0;
  size_t items = 0, built_for[3] = {0};
  error = d->cl->clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof args, &args, NULL);
  if (error == CL_SUCCESS)
    error = d->cl->clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof items, &items, NULL);
  if (error == CL_SUCCESS)
    error = d->cl->clGetKernelWorkGroupInfo(kernel, d->id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof built_for,
                                            built_for, NULL);
  (void)d->cl->clReleaseKernel(kernel);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "device %s: kernel %s [%s]", d->base.caps.id, qn_code_entry_label(e), e->name);
  if (args != e->binding_count + 2)
    return QN_ERR(QN_INVALID, "device %s: kernel %s [%s] takes %u arguments, expected %u bindings, params, base",
                  d->base.caps.id, qn_code_entry_label(e), e->name, args, e->binding_count);
  /* Mesa answers 32 for every kernel, also for one that it has built for 64. */
  if (items < e->items && built_for[0] != e->items)
    return QN_ERR(QN_UNSUPPORTED, "device %s: kernel %s [%s] wants %u items a group, once built it allows %zu",
                  d->base.caps.id, qn_code_entry_label(e), e->name, e->items, items);
  return QN_OK;
}

static qn_status check_kernels(ocl_device *d, cl_program program, const qn_code *code) {
  for (size_t i = 0; i < code->entry_count; i++)
    QN_TRY(check_kernel(d, program, &code->entries[i]));
  return QN_OK;
}

static qn_status copy_entries(ocl_program *p, const qn_code *code) {
  p->entries = calloc(code->entry_count, sizeof *p->entries);
  if (!p->entries)
    return QN_ERR(QN_OUT_OF_MEMORY, "program of %zu kernels: no memory", code->entry_count);
  for (size_t i = 0; i < code->entry_count; i++) {
    const qn_code_entry *e = &code->entries[i];
    p->entries[i] = (ocl_entry){strdup(e->name), e->items, e->binding_count, e->param_count};
    if (!p->entries[i].name)
      return QN_ERR(QN_OUT_OF_MEMORY, "program of %zu kernels: no memory", code->entry_count);
    p->count++;
  }
  return QN_OK;
}

static void program_free(ocl_device *d, ocl_program *p) {
  if (p->program)
    (void)d->cl->clReleaseProgram(p->program);
  for (size_t i = 0; i < p->count; i++)
    free(p->entries[i].name);
  free(p->entries);
  free(p);
}

qn_status qn_ocl_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                qn_program **out_program) {
  ocl_device *mine = (ocl_device *)d;
  *out_binary_used = false;
  ocl_program *p = calloc(1, sizeof *p);
  if (!p)
    return QN_ERR(QN_OUT_OF_MEMORY, "program: no memory");
  if (binary)
    p->program = from_binary(mine, binary);
  if (p->program && check_kernels(mine, p->program, code) != QN_OK) {
    (void)mine->cl->clReleaseProgram(p->program); /* a binary of something else */
    p->program = NULL;
  }
  qn_status st = QN_OK;
  *out_binary_used = p->program != NULL;
  if (!p->program) {
    QN_TRY_GOTO(st, from_source(mine, code, &p->program), failed);
    QN_TRY_GOTO(st, check_kernels(mine, p->program, code), failed);
  }
  QN_TRY_GOTO(st, copy_entries(p, code), failed);
  *out_program = &p->base;
  return QN_OK;
failed:
  program_free(mine, p);
  return st;
}

qn_status qn_ocl_program_binary(qn_program *p, qn_bytes *out_binary) {
  ocl_program *mine = (ocl_program *)p;
  ocl_device *d = (ocl_device *)p->device;
  size_t size = 0;
  cl_int error = d->cl->clGetProgramInfo(mine->program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "device %s: size of a program's binary", d->base.caps.id);
  if (size == 0)
    return QN_OK;
  uint8_t *data = malloc(sizeof(binary_head) + size);
  if (!data)
    return QN_ERR(QN_OUT_OF_MEMORY, "program binary of %zu bytes: no memory", size);
  unsigned char *body = data + sizeof(binary_head);
  error = d->cl->clGetProgramInfo(mine->program, CL_PROGRAM_BINARIES, sizeof body, &body, NULL);
  if (error != CL_SUCCESS) {
    free(data);
    return OCL_ERR(error, "device %s: a program's binary", d->base.caps.id);
  }
  binary_head head = {.digest = digest_of(d, body, size)};
  memcpy(head.magic, binary_magic, sizeof head.magic);
  memcpy(data, &head, sizeof head);
  *out_binary = (qn_bytes){data, sizeof head + size};
  return QN_OK;
}

/* ---- warm-up: one group of every kernel, with a group count of zero, so that it returns at once ---- */
static cl_int warm_up_kernel(ocl_device *d, cl_program program, const ocl_entry *e, cl_mem scratch, cl_mem params) {
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = d->cl->clCreateKernel(program, e->name, &error);
  if (!kernel)
    return error;
  cl_uint base = 0;
  for (cl_uint i = 0; i < e->binding_count && error == CL_SUCCESS; i++)
    error = d->cl->clSetKernelArg(kernel, i, sizeof scratch, &scratch);
  if (error == CL_SUCCESS)
    error = d->cl->clSetKernelArg(kernel, e->binding_count, sizeof params, &params);
  if (error == CL_SUCCESS)
    error = d->cl->clSetKernelArg(kernel, e->binding_count + 1, sizeof base, &base);
  const size_t size[3] = {e->items, 1, 1};
  if (error == CL_SUCCESS)
    error = d->cl->clEnqueueNDRangeKernel(d->queue, kernel, 3, NULL, size, size, 0, NULL, NULL);
  (void)d->cl->clReleaseKernel(kernel);
  return error;
}

/* The queue's newest place, as something to wait for; the lock is held. */
static qn_status mark(ocl_device *d, uint64_t *out_seq) {
  ocl_node *n = qn_ocl_node_take(d);
  if (!n)
    return QN_ERR(QN_OUT_OF_MEMORY, "device %s: no memory", d->base.caps.id);
  cl_int error = d->cl->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &n->event);
  if (error != CL_SUCCESS) {
    qn_ocl_node_give(d, n);
    return OCL_ERR(error, "device %s: marker", d->base.caps.id);
  }
  QN_TRY(qn_ocl_node_watch(d, n));
  *out_seq = d->seq;
  return QN_OK;
}

static qn_status warm_up_locked(ocl_device *d, ocl_program *p, cl_mem scratch, cl_mem params, uint64_t *out_seq) {
  for (size_t i = 0; i < p->count; i++) {
    cl_int error = warm_up_kernel(d, p->program, &p->entries[i], scratch, params);
    if (error != CL_SUCCESS)
      return OCL_ERR(error, "device %s: first launch of kernel %s", d->base.caps.id, p->entries[i].name);
  }
  return mark(d, out_seq);
}

qn_status qn_ocl_program_warm_up(qn_program *p) {
  ocl_program *mine = (ocl_program *)p;
  ocl_device *d = (ocl_device *)p->device;
  uint32_t words = 1;
  for (size_t i = 0; i < mine->count; i++)
    words = mine->entries[i].param_count > words ? mine->entries[i].param_count : words;
  uint32_t *zeros = calloc(words, sizeof *zeros);
  if (!zeros)
    return QN_ERR(QN_OUT_OF_MEMORY, "warm-up: no memory");
  cl_int error = CL_SUCCESS;
  cl_mem params =
      d->cl->clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, words * sizeof *zeros, zeros, &error);
  cl_mem scratch = params ? d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE, 4096, NULL, &error) : NULL;
  free(zeros);
  qn_status st = QN_OK;
  if (!params || !scratch) {
    st = OCL_ERR(error, "device %s: buffers for warm-up", d->base.caps.id);
  } else {
    uint64_t seq = 0;
    qn_mutex_lock(&d->lock);
    st = warm_up_locked(d, mine, scratch, params, &seq);
    qn_mutex_unlock(&d->lock);
    if (st == QN_OK) /* drivers that compile at the first launch take many seconds for a kernel */
      st = qn_ocl_wait_seq(d, seq, QN_WAIT_DEFAULT_NS * (mine->count + 1));
  }
  if (scratch)
    (void)d->cl->clReleaseMemObject(scratch);
  if (params)
    (void)d->cl->clReleaseMemObject(params);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "warm_up");
}

void qn_ocl_program_destroy(qn_program *p) { program_free((ocl_device *)p->device, (ocl_program *)p); }
