/* Buffers. On devices where a buffer over host memory is that memory (measured at opening) we own the memory and the
 * driver works on it in place; elsewhere the driver owns it and host copies go through the queue. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

/* Some drivers allocate at first use; asking for it now makes a full memory a failure of this call. */
static qn_status settle(ocl_device *d, ocl_buffer *b) {
  if (d->base.caps.device_class != QN_CLASS_GPU)
    return QN_OK;
  cl_int error =
      d->cl->clEnqueueMigrateMemObjects(d->queue, 1, &b->mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "device %s", d->base.caps.id);
  return QN_OK;
}

static qn_status make(ocl_device *d, const qn_buffer_desc *desc, ocl_buffer *b) {
  const char *label = desc->label ? desc->label : "";
  uint64_t room = desc->size > UINT64_MAX - 255 ? UINT64_MAX : (desc->size + 255) & ~UINT64_C(255);
  if (room == 0)
    room = 256;
  if (room > SIZE_MAX / 2)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: %llu bytes", label, (unsigned long long)desc->size);
  cl_mem_flags flags = CL_MEM_READ_WRITE;
  if (d->base.caps.host_memory) {
    if (posix_memalign(&b->host, 4096, (size_t)room) != 0) {
      b->host = NULL;
      return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no host memory for %llu bytes", label,
                    (unsigned long long)desc->size);
    }
    flags |= CL_MEM_USE_HOST_PTR;
  } else if (d->unified) {
    flags |= CL_MEM_ALLOC_HOST_PTR;
  }
  cl_int error = CL_SUCCESS;
  b->mem = d->cl->clCreateBuffer(d->context, flags, (size_t)room, b->host, &error);
  if (!b->mem)
    return OCL_ERR(error, "buffer %s: %llu bytes on device %s", label, (unsigned long long)desc->size, d->base.caps.id);
  qn_mutex_lock(&d->lock);
  qn_status st = settle(d, b);
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "settle");
}

qn_status qn_ocl_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer) {
  ocl_device *mine = (ocl_device *)d;
  ocl_buffer *b = calloc(1, sizeof *b);
  if (!b)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no memory", desc->label ? desc->label : "");
  qn_status st = make(mine, desc, b);
  if (st != QN_OK) {
    if (b->mem)
      (void)mine->cl->clReleaseMemObject(b->mem);
    free(b->host);
    free(b);
    return qn_error_trace(st, __FILE__, __LINE__, "make");
  }
  *out_buffer = &b->base;
  return QN_OK;
}

void qn_ocl_buffer_destroy(qn_buffer *b) {
  ocl_buffer *mine = (ocl_buffer *)b;
  ocl_device *d = (ocl_device *)b->device;
  if (mine->host) {
    /* A queued write may still go to our memory. */
    qn_mutex_lock(&d->lock);
    uint64_t seq = mine->write_seq;
    qn_mutex_unlock(&d->lock);
    if (qn_ocl_wait_seq(d, seq, QN_WAIT_DEFAULT_NS) == QN_TIMEOUT)
      return; /* leaked rather than freed under the device's hands */
  }
  (void)d->cl->clReleaseMemObject(mine->mem);
  free(mine->host);
  free(mine);
}

void *qn_ocl_buffer_map(qn_buffer *b) { return ((ocl_buffer *)b)->host; }

static bool idle(const ocl_device *d) { return atomic_load_explicit(&d->done_seq, memory_order_acquire) == d->seq; }

/* A copy of the host's bytes that outlives the call, and a command that reads it. */
static qn_status write_queued(ocl_device *d, ocl_buffer *b, size_t offset, size_t size, const void *data) {
  ocl_node *n = qn_ocl_node_take(d);
  if (!n)
    return QN_ERR(QN_OUT_OF_MEMORY, "write to buffer %s: no memory", b->base.label);
  if (n->staging_size < size) {
    free(n->staging);
    n->staging = malloc(size);
    n->staging_size = n->staging ? size : 0;
  }
  if (!n->staging) {
    qn_ocl_node_give(d, n);
    return QN_ERR(QN_OUT_OF_MEMORY, "write to buffer %s: no memory for %zu bytes", b->base.label, size);
  }
  memcpy(n->staging, data, size);
  cl_int error = d->cl->clEnqueueWriteBuffer(d->queue, b->mem, CL_FALSE, offset, size, n->staging, 0, NULL, &n->event);
  if (error != CL_SUCCESS) {
    qn_ocl_node_give(d, n);
    return OCL_ERR(error, "write of %zu bytes to buffer %s of device %s", size, b->base.label, d->base.caps.id);
  }
  b->write_seq = d->seq + 1;
  return qn_ocl_node_watch(d, n);
}

qn_status qn_ocl_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  ocl_buffer *mine = (ocl_buffer *)b;
  ocl_device *d = (ocl_device *)b->device;
  qn_status st = QN_OK;
  qn_mutex_lock(&d->lock);
  if (mine->host && idle(d))
    memcpy((uint8_t *)mine->host + offset, data, (size_t)size);
  else
    st = write_queued(d, mine, (size_t)offset, (size_t)size, data);
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "write_queued");
}

qn_status qn_ocl_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  ocl_buffer *mine = (ocl_buffer *)b;
  ocl_device *d = (ocl_device *)b->device;
  qn_mutex_lock(&d->lock);
  uint64_t seq = d->seq;
  qn_mutex_unlock(&d->lock);
  QN_TRY(qn_ocl_wait_seq(d, seq, QN_WAIT_DEFAULT_NS));
  if (mine->host) {
    memcpy(out_data, (const uint8_t *)mine->host + offset, (size_t)size);
    return QN_OK;
  }
  /* What was queued is over, so this blocks for its own copy only. */
  qn_mutex_lock(&d->lock);
  cl_int error =
      d->cl->clEnqueueReadBuffer(d->queue, mine->mem, CL_TRUE, (size_t)offset, (size_t)size, out_data, 0, NULL, NULL);
  qn_mutex_unlock(&d->lock);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "read of %llu bytes from buffer %s of device %s", (unsigned long long)size, b->label,
                   d->base.caps.id);
  return QN_OK;
}
