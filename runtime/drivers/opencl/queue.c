/* The in-order queue: nodes that watch the newest event, bounded waits on their callbacks, submission of a recording. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

static qn_status make_queue(ocl_device *d, cl_command_queue_properties properties, cl_command_queue *out_queue) {
  cl_int error = CL_SUCCESS;
  *out_queue = d->cl->clCreateCommandQueue(d->context, d->id, properties, &error);
  if (!*out_queue)
    return OCL_ERR(error, "open %s: command queue", d->base.caps.id);
  return QN_OK;
}

qn_status qn_ocl_queue_open(ocl_device *d) {
  QN_TRY(qn_mutex_init(&d->lock));
  qn_status st = qn_mutex_init(&d->done_lock);
  if (st != QN_OK) {
    qn_mutex_destroy(&d->lock);
    return qn_error_trace(st, __FILE__, __LINE__, "qn_mutex_init");
  }
  st = qn_cond_init(&d->done_cond);
  if (st == QN_OK) {
    st = make_queue(d, 0, &d->queue);
    if (st != QN_OK)
      qn_cond_destroy(&d->done_cond);
  }
  if (st != QN_OK) {
    qn_mutex_destroy(&d->done_lock);
    qn_mutex_destroy(&d->lock);
  }
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "make_queue");
}

static void free_nodes(ocl_device *d, ocl_node *n) {
  while (n) {
    ocl_node *next = n->next;
    if (n->event)
      (void)d->cl->clReleaseEvent(n->event);
    free(n->staging);
    free(n);
    n = next;
  }
}

void qn_ocl_queue_close(ocl_device *d) {
  uint64_t deadline = qn_time_ns() + QN_WAIT_DEFAULT_NS;
  (void)d->cl->clFlush(d->queue);
  qn_mutex_lock(&d->done_lock);
  bool in_time = true;
  while (d->in_flight && in_time)
    in_time = qn_cond_wait_until(&d->done_cond, &d->done_lock, deadline);
  bool ended = d->in_flight == 0;
  qn_mutex_unlock(&d->done_lock);
  if (!ended)
    return; /* callbacks may still come: everything they touch stays */
  free_nodes(d, d->fired);
  free_nodes(d, d->free_nodes);
  (void)d->cl->clReleaseCommandQueue(d->queue);
  (void)d->cl->clReleaseContext(d->context);
  qn_cond_destroy(&d->done_cond);
  qn_mutex_destroy(&d->done_lock);
  qn_mutex_destroy(&d->lock);
  free(d);
}

qn_status qn_ocl_queue_profile(ocl_device *d) {
  if (d->queue_properties & CL_QUEUE_PROFILING_ENABLE)
    return QN_OK;
  cl_command_queue queue;
  cl_event last = NULL;
  QN_TRY(make_queue(d, CL_QUEUE_PROFILING_ENABLE, &queue));
  /* What was in the old queue stays before what comes into the new one. */
  cl_int error = d->cl->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &last);
  if (error == CL_SUCCESS)
    error = d->cl->clFlush(d->queue);
  if (error == CL_SUCCESS)
    error = d->cl->clEnqueueBarrierWithWaitList(queue, 1, &last, NULL);
  if (last)
    (void)d->cl->clReleaseEvent(last);
  if (error != CL_SUCCESS) {
    (void)d->cl->clReleaseCommandQueue(queue);
    return OCL_ERR(error, "device %s: a queue with profiling", d->base.caps.id);
  }
  (void)d->cl->clReleaseCommandQueue(d->queue);
  d->queue = queue;
  d->queue_properties |= CL_QUEUE_PROFILING_ENABLE;
  return QN_OK;
}

/* ---- nodes ---- */
static void recycle(ocl_device *d) {
  qn_mutex_lock(&d->done_lock);
  ocl_node *n = d->fired;
  d->fired = NULL;
  qn_mutex_unlock(&d->done_lock);
  while (n) {
    ocl_node *next = n->next;
    qn_ocl_node_give(d, n);
    n = next;
  }
}

ocl_node *qn_ocl_node_take(ocl_device *d) {
  recycle(d);
  ocl_node *n = d->free_nodes;
  if (n)
    d->free_nodes = n->next;
  else
    n = calloc(1, sizeof *n);
  if (n) {
    n->next = NULL;
    n->device = d;
    n->ticket = 0;
  }
  return n;
}

enum { KEEP_STAGING = 1 << 22 };

void qn_ocl_node_give(ocl_device *d, ocl_node *n) {
  if (n->event)
    (void)d->cl->clReleaseEvent(n->event);
  n->event = NULL;
  if (n->staging_size > KEEP_STAGING) {
    free(n->staging);
    n->staging = NULL;
    n->staging_size = 0;
  }
  n->next = d->free_nodes;
  d->free_nodes = n;
}

static void raise_to(atomic_ullong *value, uint64_t to) {
  unsigned long long now = atomic_load_explicit(value, memory_order_relaxed);
  while (now < to &&
         !atomic_compare_exchange_weak_explicit(value, &now, to, memory_order_release, memory_order_relaxed)) {
  }
}

static void CL_CALLBACK fired(cl_event event, cl_int status, void *arg) {
  (void)event;
  ocl_node *n = arg;
  (void)atomic_load_explicit(&n->armed, memory_order_acquire);
  ocl_device *d = n->device;
  qn_mutex_lock(&d->done_lock);
  if (status < 0) {
    int none = 0;
    (void)atomic_compare_exchange_strong(&d->error, &none, (int)status);
  }
  raise_to(&d->done_seq, n->seq);
  raise_to(&d->done_ticket, n->ticket);
  n->next = d->fired;
  d->fired = n;
  d->in_flight--;
  qn_cond_broadcast(&d->done_cond);
  qn_mutex_unlock(&d->done_lock);
}

qn_status qn_ocl_node_watch(ocl_device *d, ocl_node *n) {
  n->seq = ++d->seq;
  qn_mutex_lock(&d->done_lock);
  d->in_flight++;
  qn_mutex_unlock(&d->done_lock);
  atomic_store_explicit(&n->armed, true, memory_order_release);
  cl_int error = d->cl->clSetEventCallback(n->event, CL_COMPLETE, fired, n);
  if (error != CL_SUCCESS) {
    qn_mutex_lock(&d->done_lock);
    d->in_flight--;
    qn_mutex_unlock(&d->done_lock);
    return QN_ERR(QN_DEVICE_LOST, "device %s: event callback: %s (%d)", d->base.caps.id, qn_ocl_error_name(error),
                  (int)error);
  }
  error = d->cl->clFlush(d->queue);
  if (error != CL_SUCCESS)
    return QN_ERR(QN_DEVICE_LOST, "device %s: flush: %s (%d)", d->base.caps.id, qn_ocl_error_name(error), (int)error);
  return QN_OK;
}

/* ---- waiting ---- */
static qn_status check_error(ocl_device *d) {
  int error = atomic_load(&d->error);
  if (error == 0)
    return QN_OK;
  return QN_ERR(QN_DEVICE_LOST, "device %s: a command failed: %s (%d)", d->base.caps.id, qn_ocl_error_name(error),
                error);
}

static qn_status wait_value(ocl_device *d, atomic_ullong *value, uint64_t least, uint64_t timeout_ns) {
  if (atomic_load_explicit(value, memory_order_acquire) < least) {
    uint64_t now = qn_time_ns();
    uint64_t deadline = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
    bool in_time = true;
    qn_mutex_lock(&d->done_lock);
    while (atomic_load(value) < least && in_time)
      in_time = qn_cond_wait_until(&d->done_cond, &d->done_lock, deadline);
    bool reached = atomic_load(value) >= least;
    qn_mutex_unlock(&d->done_lock);
    if (!reached)
      return QN_ERR(QN_TIMEOUT, "device %s: not done in time", d->base.caps.id);
  }
  return check_error(d);
}

qn_status qn_ocl_wait_seq(ocl_device *d, uint64_t seq, uint64_t timeout_ns) {
  return wait_value(d, &d->done_seq, seq, timeout_ns);
}

qn_status qn_ocl_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  ocl_device *mine = (ocl_device *)d;
  return wait_value(mine, &mine->done_ticket, ticket, timeout_ns);
}

bool qn_ocl_done(qn_device *d, uint64_t ticket) {
  return atomic_load_explicit(&((ocl_device *)d)->done_ticket, memory_order_acquire) >= ticket;
}

/* ---- submission ---- */
static cl_int enqueue(ocl_device *d, const ocl_op *op, cl_event *event) {
  const ocl_api *cl = d->cl;
  if (op->kind == QN_CMD_LAUNCH)
    return cl->clEnqueueNDRangeKernel(d->queue, op->kernel, 3, NULL, op->global, op->local, 0, NULL, event);
  if (op->kind == QN_CMD_COPY)
    return cl->clEnqueueCopyBuffer(d->queue, op->src, op->dst, op->src_offset, op->dst_offset, op->size, 0, NULL,
                                   event);
  if (op->kind == QN_CMD_FILL)
    return cl->clEnqueueFillBuffer(d->queue, op->dst, &op->pattern, sizeof op->pattern, op->dst_offset, op->size, 0,
                                   NULL, event);
  return CL_SUCCESS;
}

static void drop_events(ocl_device *d, ocl_recording *r) {
  for (size_t i = 0; i < r->count; i++) {
    if (r->events[i])
      (void)d->cl->clReleaseEvent(r->events[i]);
    r->events[i] = NULL;
  }
}

static bool runs(const ocl_op *op) {
  return op->kind == QN_CMD_LAUNCH ? op->kernel != NULL : op->kind != QN_CMD_BARRIER && op->size > 0;
}

/* All commands; the last one's event, or a marker's, goes to the node. */
static qn_status enqueue_all(ocl_device *d, ocl_recording *r, ocl_node *n) {
  size_t last = r->count, sent = 0;
  for (size_t i = 0; i < r->count; i++)
    if (runs(&r->ops[i]))
      last = i;
  if (r->events)
    drop_events(d, r);
  cl_int error = CL_SUCCESS;
  for (size_t i = 0; i < r->count && error == CL_SUCCESS; i++) {
    if (!runs(&r->ops[i]))
      continue;
    cl_event *event = r->events ? &r->events[i] : i == last ? &n->event : NULL;
    error = enqueue(d, &r->ops[i], event);
    sent += error == CL_SUCCESS;
    if (error == CL_SUCCESS && r->events && i == last) {
      n->event = r->events[i];
      error = d->cl->clRetainEvent(n->event);
    }
  }
  if (error == CL_SUCCESS && last == r->count)
    error = d->cl->clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &n->event);
  if (error == CL_SUCCESS)
    return QN_OK;
  if (sent)
    return QN_ERR(QN_DEVICE_LOST, "submit to %s: stopped after %zu commands: %s (%d)", d->base.caps.id, sent,
                  qn_ocl_error_name(error), (int)error);
  return OCL_ERR(error, "submit to %s", d->base.caps.id);
}

static qn_status submit_locked(ocl_device *d, ocl_recording *r) {
  ocl_node *n = qn_ocl_node_take(d);
  if (!n)
    return QN_ERR(QN_OUT_OF_MEMORY, "submit to %s: no memory", d->base.caps.id);
  qn_status st = enqueue_all(d, r, n);
  if (st == QN_OK) {
    n->ticket = d->tickets + 1;
    st = qn_ocl_node_watch(d, n);
    d->tickets += st == QN_OK;
    r->submitted = true;
    return st;
  }
  qn_ocl_node_give(d, n);
  return st;
}

qn_status qn_ocl_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket) {
  (void)waits;
  (void)wait_count;
  ocl_device *mine = (ocl_device *)d;
  QN_TRY(check_error(mine));
  qn_mutex_lock(&mine->lock);
  qn_status st = submit_locked(mine, (ocl_recording *)r);
  *out_ticket = mine->tickets;
  qn_mutex_unlock(&mine->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "submit_locked");
}
