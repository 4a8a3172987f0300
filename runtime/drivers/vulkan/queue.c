/* The queue: nodes with fences in order of submission, completion as a counter, bounded waits. Nothing here waits while
 * it holds the lock. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_vk_queue_open(vk_device *d) {
  d->newest = &d->oldest;
  d->vk.vkGetDeviceQueue(d->handle, d->family, 0, &d->queue);
  VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                  .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                  .queueFamilyIndex = d->family};
  VkResult error = d->vk.vkCreateCommandPool(d->handle, &info, NULL, &d->pool);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "open %s: command pool", d->base.caps.id);
  return QN_OK;
}

static void free_nodes(vk_device *d, vk_node *n) {
  while (n) {
    vk_node *next = n->next;
    if (n->fence)
      d->vk.vkDestroyFence(d->handle, n->fence, NULL);
    free(n);
    n = next;
  }
}

bool qn_vk_queue_close(vk_device *d) {
  qn_mutex_lock(&d->lock);
  uint64_t seq = d->seq;
  qn_mutex_unlock(&d->lock);
  if (qn_vk_wait_seq(d, seq, QN_WAIT_DEFAULT_NS) == QN_TIMEOUT)
    return false;
  free_nodes(d, d->oldest);
  free_nodes(d, d->spare);
  d->oldest = d->spare = NULL;
  if (d->pool)
    d->vk.vkDestroyCommandPool(d->handle, d->pool, NULL);
  return true;
}

/* A node with an unsignalled fence: a spare one, or a new one when all are in flight. */
static qn_status take(vk_device *d, vk_node **out_node) {
  vk_node *n = d->spare;
  if (n) {
    d->spare = n->next;
    n->next = NULL;
    *out_node = n;
    return QN_OK;
  }
  n = calloc(1, sizeof *n);
  if (!n)
    return QN_ERR(QN_OUT_OF_MEMORY, "device %s: no memory", d->base.caps.id);
  VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkResult error = d->vk.vkCreateFence(d->handle, &info, NULL, &n->fence);
  if (error != VK_SUCCESS) {
    free(n);
    return VK_ERR(error, "device %s: fence", d->base.caps.id);
  }
  *out_node = n;
  return QN_OK;
}

static void give(vk_device *d, vk_node *n) {
  n->next = d->spare;
  d->spare = n;
}

/* Moves the counters past everything that is done. */
static VkResult look(vk_device *d) {
  uint64_t done = atomic_load_explicit(&d->done_seq, memory_order_relaxed);
  for (vk_node *n = d->oldest; n; n = n->next) {
    VkResult state = n->seq <= done ? VK_SUCCESS : d->vk.vkGetFenceStatus(d->handle, n->fence);
    if (state != VK_SUCCESS)
      return state == VK_NOT_READY ? VK_SUCCESS : state;
    if (n->seq <= done)
      continue;
    atomic_store_explicit(&d->done_seq, n->seq, memory_order_release);
    if (n->ticket)
      atomic_store_explicit(&d->done_ticket, n->ticket, memory_order_release);
  }
  return VK_SUCCESS;
}

qn_status qn_vk_queue_poll(vk_device *d) {
  VkResult state = look(d);
  uint64_t done = atomic_load_explicit(&d->done_seq, memory_order_relaxed);
  /* A fence that somebody looks at stays where it is. */
  while (state == VK_SUCCESS && d->oldest && d->oldest->seq <= done && d->oldest->waiters == 0) {
    vk_node *n = d->oldest;
    state = d->vk.vkResetFences(d->handle, 1, &n->fence);
    d->oldest = n->next;
    if (!d->oldest)
      d->newest = &d->oldest;
    give(d, n);
  }
  if (state != VK_SUCCESS)
    return VK_ERR(state, "device %s", d->base.caps.id);
  return QN_OK;
}

qn_status qn_vk_queue_push(vk_device *d, VkCommandBuffer cmd, uint64_t ticket) {
  vk_node *n = NULL;
  QN_TRY(qn_vk_queue_poll(d));
  QN_TRY(take(d, &n));
  VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &cmd};
  VkResult error = d->vk.vkQueueSubmit(d->queue, 1, &info, n->fence);
  if (error != VK_SUCCESS) {
    give(d, n);
    return VK_ERR(error, "submit to %s", d->base.caps.id);
  }
  n->seq = ++d->seq;
  n->ticket = ticket;
  n->next = NULL;
  *d->newest = n;
  d->newest = &n->next;
  return QN_OK;
}

/* The first node at or behind `least`, held so that its fence stays; NULL when that is done already. */
static vk_node *hold(vk_device *d, uint64_t least, bool by_ticket) {
  for (vk_node *n = d->oldest; n; n = n->next)
    if ((by_ticket ? n->ticket : n->seq) >= least) {
      n->waiters++;
      return n;
    }
  return NULL;
}

static qn_status wait_node(vk_device *d, atomic_ullong *done, uint64_t least, bool by_ticket, uint64_t timeout_ns) {
  if (atomic_load_explicit(done, memory_order_acquire) >= least)
    return QN_OK;
  qn_mutex_lock(&d->lock);
  qn_status st = qn_vk_queue_poll(d);
  vk_node *n = NULL;
  if (st == QN_OK && atomic_load(done) < least)
    n = hold(d, least, by_ticket);
  qn_mutex_unlock(&d->lock);
  if (!n)
    return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_vk_queue_poll");
  VkResult result = d->vk.vkWaitForFences(d->handle, 1, &n->fence, VK_TRUE, timeout_ns);
  qn_mutex_lock(&d->lock);
  n->waiters--;
  st = qn_vk_queue_poll(d);
  qn_mutex_unlock(&d->lock);
  if (result != VK_SUCCESS)
    return VK_ERR(result, "wait for %s", d->base.caps.id);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_vk_queue_poll");
}

qn_status qn_vk_wait_seq(vk_device *d, uint64_t seq, uint64_t timeout_ns) {
  return wait_node(d, &d->done_seq, seq, false, timeout_ns);
}

qn_status qn_vk_run_once(vk_device *d, qn_recording *r) {
  qn_mutex_lock(&d->lock);
  qn_status st = qn_vk_queue_push(d, ((vk_recording *)r)->cmd, 0);
  uint64_t seq = d->seq;
  qn_mutex_unlock(&d->lock);
  if (st == QN_OK)
    st = qn_vk_wait_seq(d, seq, QN_WAIT_DEFAULT_NS);
  if (st != QN_TIMEOUT)
    qn_vk_recording_destroy(r);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_vk_run_once");
}

qn_status qn_vk_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  vk_device *mine = (vk_device *)d;
  QN_TRY(wait_node(mine, &mine->done_ticket, ticket, true, timeout_ns));
  return qn_vk_check_findings(mine);
}

bool qn_vk_done(qn_device *d, uint64_t ticket) {
  vk_device *mine = (vk_device *)d;
  if (atomic_load_explicit(&mine->done_ticket, memory_order_acquire) >= ticket)
    return true;
  qn_mutex_lock(&mine->lock);
  (void)qn_vk_queue_poll(mine); /* a lost device says so at the next call that can */
  qn_mutex_unlock(&mine->lock);
  return atomic_load(&mine->done_ticket) >= ticket;
}

qn_status qn_vk_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket) {
  (void)waits;
  (void)wait_count;
  vk_device *mine = (vk_device *)d;
  vk_recording *rec = (vk_recording *)r;
  QN_TRY(qn_vk_check_findings(mine));
  qn_mutex_lock(&mine->lock);
  qn_status st = qn_vk_queue_push(mine, rec->cmd, mine->tickets + 1);
  if (st == QN_OK)
    *out_ticket = ++mine->tickets;
  rec->submitted = rec->submitted || st == QN_OK;
  qn_mutex_unlock(&mine->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_vk_queue_push");
}
