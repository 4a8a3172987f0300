/* Recordings: a kernel object per launch with its arguments set for good, and one buffer with the parameter words of
 * all launches. Submitting sets nothing. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

static cl_mem mem_of(const qn_recording_desc *desc, uint32_t index) {
  return ((const ocl_buffer *)desc->buffers[index])->mem;
}

/* All launches' words behind one another; word 0 of each is its group count. */
static uint32_t *gather_params(const qn_recording_desc *desc, size_t *out_words) {
  size_t words = 0;
  for (size_t i = 0; i < desc->cmd_count; i++)
    if (desc->cmds[i].kind == QN_CMD_LAUNCH)
      words += desc->cmds[i].param_count;
  uint32_t *all = calloc(words + 1, sizeof *all);
  size_t at = 0;
  for (size_t i = 0; all && i < desc->cmd_count; i++) {
    const qn_cmd *c = &desc->cmds[i];
    if (c->kind != QN_CMD_LAUNCH)
      continue;
    memcpy(all + at, c->params, c->param_count * sizeof *all);
    all[at] = c->groups;
    at += c->param_count;
  }
  *out_words = words + 1;
  return all;
}

/* PoCL compiles a kernel once for global sizes below 65,535 in each dimension and once more for others, in the middle of
 * the first such launch. Wherever it can be, a launch is folded to be of the first kind, as warm-up's is. */
static void fold(const ocl_device *d, const ocl_entry *e, uint32_t count, uint32_t groups[3]) {
  enum { SMALL = 65534 };
  uint32_t tight[3];
  for (int i = 0; i < 3; i++) {
    uint32_t most = i == 0 ? (e->items < SMALL ? SMALL / e->items : 1) : SMALL;
    tight[i] = d->base.caps.max_groups[i] < most ? d->base.caps.max_groups[i] : most;
  }
  if (d->base.caps.software && qn_fold_groups(count, tight, groups))
    return;
  QN_CHECK(qn_fold_groups(count, d->base.caps.max_groups, groups));
}

static qn_status record_launch(ocl_device *d, ocl_recording *r, const qn_recording_desc *desc, const qn_cmd *c,
                               cl_uint base, ocl_op *op) {
  ocl_program *p = (ocl_program *)c->program;
  const ocl_entry *e = &p->entries[c->entry];
  const char *label = c->program->entries[c->entry].label;
  cl_int error = CL_SUCCESS;
  op->kernel = d->cl->clCreateKernel(p->program, e->name, &error);
  if (!op->kernel)
    return OCL_ERR(error, "record on %s: kernel %s", d->base.caps.id, label);
  for (cl_uint i = 0; i < c->binding_count && error == CL_SUCCESS; i++) {
    cl_mem mem = mem_of(desc, c->bindings[i]);
    error = d->cl->clSetKernelArg(op->kernel, i, sizeof mem, &mem);
  }
  if (error == CL_SUCCESS)
    error = d->cl->clSetKernelArg(op->kernel, c->binding_count, sizeof r->params, &r->params);
  if (error == CL_SUCCESS)
    error = d->cl->clSetKernelArg(op->kernel, c->binding_count + 1, sizeof base, &base);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "record on %s: arguments of kernel %s", d->base.caps.id, label);
  (void)atomic_fetch_add_explicit(&d->base.stats.descriptor_updates, c->binding_count + 2, memory_order_relaxed);
  uint32_t groups[3];
  fold(d, e, c->groups, groups);
  for (int i = 0; i < 3; i++) {
    op->local[i] = i == 0 ? e->items : 1;
    op->global[i] = (size_t)groups[i] * op->local[i];
  }
  return QN_OK;
}

static qn_status record_all(ocl_device *d, ocl_recording *r, const qn_recording_desc *desc) {
  cl_uint base = 0;
  for (size_t i = 0; i < desc->cmd_count; i++) {
    const qn_cmd *c = &desc->cmds[i];
    ocl_op *op = &r->ops[i];
    op->kind = c->kind;
    r->count = i + 1;
    if (c->kind == QN_CMD_LAUNCH) {
      if (c->groups)
        QN_TRY(record_launch(d, r, desc, c, base, op));
      base += c->param_count;
    } else if (c->kind == QN_CMD_COPY || c->kind == QN_CMD_FILL) {
      op->dst = mem_of(desc, c->dst);
      op->src = c->kind == QN_CMD_COPY ? mem_of(desc, c->src) : NULL;
      op->dst_offset = (size_t)c->dst_offset;
      op->src_offset = (size_t)c->src_offset;
      op->size = (size_t)c->size;
      op->pattern = c->pattern;
    }
  }
  return QN_OK;
}

static void recording_free(ocl_device *d, ocl_recording *r) {
  for (size_t i = 0; i < r->count; i++) {
    if (r->ops[i].kernel)
      (void)d->cl->clReleaseKernel(r->ops[i].kernel);
    if (r->events && r->events[i])
      (void)d->cl->clReleaseEvent(r->events[i]);
  }
  if (r->params)
    (void)d->cl->clReleaseMemObject(r->params);
  free(r->events);
  free(r);
}

static qn_status prepare(ocl_device *d, ocl_recording *r, const qn_recording_desc *desc) {
  size_t words = 0;
  uint32_t *all = gather_params(desc, &words);
  if (!all || words > UINT32_MAX) {
    free(all);
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  }
  cl_int error = CL_SUCCESS;
  r->params =
      d->cl->clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, words * sizeof *all, all, &error);
  free(all);
  if (!r->params)
    return OCL_ERR(error, "record on %s: %zu parameter words", d->base.caps.id, words);
  if (!desc->timestamps)
    return QN_OK;
  r->events = calloc(desc->cmd_count + 1, sizeof(cl_event));
  if (!r->events)
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  qn_mutex_lock(&d->lock);
  qn_status st = qn_ocl_queue_profile(d);
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_ocl_queue_profile");
}

qn_status qn_ocl_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording) {
  ocl_device *mine = (ocl_device *)d;
  ocl_recording *r = calloc(1, sizeof *r + desc->cmd_count * sizeof r->ops[0]);
  if (!r)
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  qn_status st;
  QN_TRY_GOTO(st, prepare(mine, r, desc), failed);
  QN_TRY_GOTO(st, record_all(mine, r, desc), failed);
  *out_recording = &r->base;
  return QN_OK;
failed:
  recording_free(mine, r);
  return st;
}

static qn_status time_of(ocl_device *d, cl_event event, uint64_t *out_ns) {
  cl_ulong start = 0, end = 0;
  cl_int error = d->cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL);
  if (error == CL_SUCCESS)
    error = d->cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "recording times on %s", d->base.caps.id);
  *out_ns = end > start ? end - start : 0;
  return QN_OK;
}

qn_status qn_ocl_recording_times(qn_recording *r, uint64_t *out_ns, size_t count) {
  ocl_recording *mine = (ocl_recording *)r;
  ocl_device *d = (ocl_device *)r->device;
  memset(out_ns, 0, count * sizeof *out_ns);
  if (!mine->submitted)
    return QN_ERR(QN_INVALID, "recording times: not submitted yet");
  qn_status st = qn_ocl_wait(r->device, atomic_load(&r->last_ticket), QN_WAIT_DEFAULT_NS);
  qn_mutex_lock(&d->lock);
  for (size_t i = 0; i < count && st == QN_OK; i++)
    if (mine->events[i])
      st = time_of(d, mine->events[i], &out_ns[i]);
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "time_of");
}

void qn_ocl_recording_destroy(qn_recording *r) { recording_free((ocl_device *)r->device, (ocl_recording *)r); }
