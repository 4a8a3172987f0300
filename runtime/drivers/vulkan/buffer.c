/* Buffers and host copies. Mapped memory is written directly while the queue is idle; otherwise, and on devices with
 * memory of their own, bytes go through a staging buffer whose copy takes its place in the queue. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_vk_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer) {
  vk_buffer *b = calloc(1, sizeof *b);
  if (!b)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no memory", desc->label ? desc->label : "");
  uint64_t room = desc->size > UINT64_MAX - 255 ? desc->size : (desc->size + 255) & ~UINT64_C(255);
  qn_status st = qn_vk_block_create((vk_device *)d, room ? room : 256, VK_USE_DEVICE, &b->block);
  if (st != QN_OK) {
    free(b);
    if (st != QN_OUT_OF_MEMORY)
      return qn_error_trace(st, __FILE__, __LINE__, "qn_vk_block_create");
    return QN_ERR(st, "buffer %s: device %s has no room for %llu bytes", desc->label ? desc->label : "", d->caps.id,
                  (unsigned long long)desc->size);
  }
  *out_buffer = &b->base;
  return QN_OK;
}

void qn_vk_buffer_destroy(qn_buffer *b) {
  vk_buffer *mine = (vk_buffer *)b;
  vk_device *d = (vk_device *)b->device;
  qn_mutex_lock(&d->lock);
  uint64_t seq = mine->write_seq;
  qn_mutex_unlock(&d->lock);
  if (qn_vk_wait_seq(d, seq, QN_WAIT_DEFAULT_NS) == QN_TIMEOUT)
    return; /* leaked rather than freed under the device's hands */
  qn_vk_block_destroy(d, &mine->block);
  free(mine);
}

void *qn_vk_buffer_map(qn_buffer *b) { return ((vk_buffer *)b)->block.host; }

/* ---- transfers ---- */
static qn_status new_transfer(vk_device *d, vk_transfer **out_transfer) {
  vk_transfer *t = calloc(1, sizeof *t);
  if (!t)
    return QN_ERR(QN_OUT_OF_MEMORY, "device %s: no memory", d->base.caps.id);
  VkCommandBufferAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                      .commandPool = d->pool,
                                      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                      .commandBufferCount = 1};
  VkResult error = d->vk.vkAllocateCommandBuffers(d->handle, &info, &t->cmd);
  if (error != VK_SUCCESS) {
    free(t);
    return VK_ERR(error, "device %s: command buffer for a copy", d->base.caps.id);
  }
  t->next = d->transfers;
  d->transfers = t;
  *out_transfer = t;
  return QN_OK;
}

/* One that is free and has room, else one that is free, else a new one; the lock is held. */
static qn_status take_transfer(vk_device *d, uint64_t size, vk_transfer **out_transfer) {
  QN_TRY(qn_vk_queue_poll(d));
  uint64_t done = atomic_load(&d->done_seq);
  vk_transfer *best = NULL;
  for (vk_transfer *t = d->transfers; t; t = t->next)
    if (t->seq <= done && (!best || (best->block.size < size && t->block.size > best->block.size)))
      best = t;
  if (!best)
    QN_TRY(new_transfer(d, &best));
  if (best->block.size < size) {
    qn_vk_block_destroy(d, &best->block);
    uint64_t room = 65536;
    while (room < size)
      room *= 2;
    QN_TRY(qn_vk_block_create(d, room, VK_USE_READBACK, &best->block));
  }
  *out_transfer = best;
  return QN_OK;
}

void qn_vk_transfers_free(vk_device *d) {
  while (d->transfers) {
    vk_transfer *t = d->transfers;
    d->transfers = t->next;
    qn_vk_block_destroy(d, &t->block);
    free(t);
  }
}

static qn_status copy_queued(vk_device *d, vk_transfer *t, VkBuffer from, VkBuffer to, VkBufferCopy region) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  VkResult error = d->vk.vkBeginCommandBuffer(t->cmd, &begin);
  if (error == VK_SUCCESS) {
    qn_vk_full_barrier(d, t->cmd, true, false);
    d->vk.vkCmdCopyBuffer(t->cmd, from, to, 1, &region);
    qn_vk_full_barrier(d, t->cmd, false, true);
    error = d->vk.vkEndCommandBuffer(t->cmd);
  }
  if (error != VK_SUCCESS)
    return VK_ERR(error, "device %s: recording a copy", d->base.caps.id);
  QN_TRY(qn_vk_queue_push(d, t->cmd, 0));
  t->seq = d->seq;
  return QN_OK;
}

static qn_status write_locked(vk_device *d, vk_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  QN_TRY(qn_vk_queue_poll(d));
  if (b->block.host && atomic_load(&d->done_seq) == d->seq) {
    memcpy((uint8_t *)b->block.host + offset, data, (size_t)size);
    return QN_OK;
  }
  vk_transfer *t = NULL;
  QN_TRY(take_transfer(d, size, &t));
  memcpy(t->block.host, data, (size_t)size);
  QN_TRY(copy_queued(d, t, t->block.buffer, b->block.buffer, (VkBufferCopy){.dstOffset = offset, .size = size}));
  b->write_seq = d->seq;
  return QN_OK;
}

qn_status qn_vk_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  vk_device *d = (vk_device *)b->device;
  QN_TRY(qn_vk_check_findings(d));
  qn_mutex_lock(&d->lock);
  qn_status st = write_locked(d, (vk_buffer *)b, offset, size, data);
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "write_locked");
}

static qn_status read_staged(vk_device *d, vk_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  vk_transfer *t = NULL;
  qn_mutex_lock(&d->lock);
  qn_status st = take_transfer(d, size, &t);
  if (st == QN_OK)
    st = copy_queued(d, t, b->block.buffer, t->block.buffer, (VkBufferCopy){.srcOffset = offset, .size = size});
  uint64_t seq = d->seq;
  if (st == QN_OK)
    t->seq = UINT64_MAX; /* nobody takes it till its bytes are out */
  qn_mutex_unlock(&d->lock);
  QN_TRY(st);
  st = qn_vk_wait_seq(d, seq, QN_WAIT_DEFAULT_NS);
  if (st == QN_OK)
    memcpy(out_data, t->block.host, (size_t)size);
  qn_mutex_lock(&d->lock);
  t->seq = seq;
  qn_mutex_unlock(&d->lock);
  return st == QN_OK ? QN_OK : qn_error_trace(st, __FILE__, __LINE__, "qn_vk_wait_seq");
}

qn_status qn_vk_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  vk_buffer *mine = (vk_buffer *)b;
  vk_device *d = (vk_device *)b->device;
  QN_TRY(qn_vk_check_findings(d));
  if (!mine->block.host) {
    QN_TRY(read_staged(d, mine, offset, size, out_data));
    return qn_vk_check_findings(d);
  }
  qn_mutex_lock(&d->lock);
  uint64_t seq = d->seq;
  qn_mutex_unlock(&d->lock);
  QN_TRY(qn_vk_wait_seq(d, seq, QN_WAIT_DEFAULT_NS));
  memcpy(out_data, (const uint8_t *)mine->block.host + offset, (size_t)size);
  return qn_vk_check_findings(d);
}
