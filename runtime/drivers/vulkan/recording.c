/* Recordings: one command buffer that may be in flight several times, a descriptor set per launch, one buffer with all
 * launches' parameter words. Submitting touches none of them. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

enum {
  WORK_STAGES = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
  WORK_READS = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT,
  WORK_WRITES = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT
};

void qn_vk_full_barrier(const vk_device *d, VkCommandBuffer cmd, bool from_host, bool to_host) {
  VkPipelineStageFlags from = WORK_STAGES | (from_host ? VK_PIPELINE_STAGE_HOST_BIT : 0);
  VkPipelineStageFlags to = WORK_STAGES | (to_host ? VK_PIPELINE_STAGE_HOST_BIT : 0);
  VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                             .srcAccessMask = WORK_WRITES | (from_host ? VK_ACCESS_HOST_WRITE_BIT : 0),
                             .dstAccessMask = WORK_READS | WORK_WRITES |
                                              (to_host ? VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT : 0)};
  d->vk.vkCmdPipelineBarrier(cmd, from, to, 0, 1, &barrier, 0, NULL, 0, NULL);
}

typedef struct totals {
  uint32_t launches, descriptors, words;
} totals;

static qn_status add_up(const qn_recording_desc *desc, totals *out_totals) {
  uint64_t launches = 0, descriptors = 0, words = 0;
  for (size_t i = 0; i < desc->cmd_count; i++) {
    if (desc->cmds[i].kind != QN_CMD_LAUNCH)
      continue;
    launches++;
    descriptors += desc->cmds[i].binding_count + 1;
    words += desc->cmds[i].param_count;
  }
  if (descriptors > UINT32_MAX / 4 || words > UINT32_MAX / 8)
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: too many launches for one recording", desc->cmd_count);
  *out_totals = (totals){(uint32_t)launches, (uint32_t)descriptors, (uint32_t)words};
  return QN_OK;
}

static qn_status make_pools(vk_device *d, vk_recording *r, const totals *t, const qn_recording_desc *desc) {
  VkResult error = VK_SUCCESS;
  if (t->launches) {
    VkDescriptorPoolSize size = {.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .descriptorCount = t->descriptors};
    VkDescriptorPoolCreateInfo sets = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = t->launches,
                                       .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    error = d->vk.vkCreateDescriptorPool(d->handle, &sets, NULL, &r->sets);
  }
  VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = d->family};
  if (error == VK_SUCCESS)
    error = d->vk.vkCreateCommandPool(d->handle, &pool, NULL, &r->pool);
  VkCommandBufferAllocateInfo cmd = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                     .commandPool = r->pool,
                                     .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                     .commandBufferCount = 1};
  if (error == VK_SUCCESS)
    error = d->vk.vkAllocateCommandBuffers(d->handle, &cmd, &r->cmd);
  VkQueryPoolCreateInfo times = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                 .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                 .queryCount = (uint32_t)desc->cmd_count * 2};
  if (error == VK_SUCCESS && desc->timestamps && desc->cmd_count)
    error = d->vk.vkCreateQueryPool(d->handle, &times, NULL, &r->times);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "record %zu commands on %s", desc->cmd_count, d->base.caps.id);
  return QN_OK;
}

/* Parameter words behind one another; word 0 of each launch is its group count. */
static void write_params(const qn_recording_desc *desc, uint32_t *words) {
  for (size_t i = 0; i < desc->cmd_count; i++) {
    const qn_cmd *c = &desc->cmds[i];
    if (c->kind != QN_CMD_LAUNCH)
      continue;
    memcpy(words, c->params, c->param_count * sizeof *words);
    words[0] = c->groups;
    words += c->param_count;
  }
}

static qn_status record_launch(vk_device *d, vk_recording *r, const qn_recording_desc *desc, const qn_cmd *c,
                               uint32_t base) {
  vk_entry *e = &((vk_program *)c->program)->entries[c->entry];
  uint32_t n = c->binding_count;
  VkDescriptorSet set;
  VkDescriptorSetAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                      .descriptorPool = r->sets,
                                      .descriptorSetCount = 1,
                                      .pSetLayouts = &d->set_layouts[n]};
  VkResult error = d->vk.vkAllocateDescriptorSets(d->handle, &info, &set);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "record on %s: descriptor set of %u bindings", d->base.caps.id, n + 1);
  VkDescriptorBufferInfo buffers[QN_MAX_BINDINGS + 1];
  VkWriteDescriptorSet writes[QN_MAX_BINDINGS + 1];
  for (uint32_t i = 0; i <= n; i++) {
    const vk_block *b = i == n ? &r->params : &((const vk_buffer *)desc->buffers[c->bindings[i]])->block;
    uint64_t most = d->base.caps.max_range_bytes;
    buffers[i] = (VkDescriptorBufferInfo){.buffer = b->buffer, .range = b->size < most ? b->size : most};
    writes[i] = (VkWriteDescriptorSet){.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                       .dstSet = set,
                                       .dstBinding = i,
                                       .descriptorCount = 1,
                                       .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                       .pBufferInfo = &buffers[i]};
  }
  d->vk.vkUpdateDescriptorSets(d->handle, n + 1, writes, 0, NULL);
  (void)atomic_fetch_add_explicit(&d->base.stats.descriptor_updates, n + 1, memory_order_relaxed);
  uint32_t groups[3];
  QN_CHECK(qn_fold_groups(c->groups, d->base.caps.max_groups, groups));
  d->vk.vkCmdBindPipeline(r->cmd, VK_PIPELINE_BIND_POINT_COMPUTE, e->pipeline);
  d->vk.vkCmdBindDescriptorSets(r->cmd, VK_PIPELINE_BIND_POINT_COMPUTE, d->layouts[n], 0, 1, &set, 0, NULL);
  d->vk.vkCmdPushConstants(r->cmd, d->layouts[n], VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof base, &base);
  d->vk.vkCmdDispatch(r->cmd, groups[0], groups[1], groups[2]);
  return QN_OK;
}

static VkBuffer handle_of(const qn_recording_desc *desc, uint32_t index) {
  return ((const vk_buffer *)desc->buffers[index])->block.buffer;
}

static bool runs(const qn_cmd *c) {
  return c->kind == QN_CMD_LAUNCH ? c->groups > 0 : c->kind != QN_CMD_BARRIER && c->size > 0;
}

static qn_status record_work(vk_device *d, vk_recording *r, const qn_recording_desc *desc, const qn_cmd *c,
                             uint32_t base) {
  if (c->kind == QN_CMD_LAUNCH)
    return record_launch(d, r, desc, c, base);
  if (c->kind == QN_CMD_COPY) {
    VkBufferCopy region = {.srcOffset = c->src_offset, .dstOffset = c->dst_offset, .size = c->size};
    d->vk.vkCmdCopyBuffer(r->cmd, handle_of(desc, c->src), handle_of(desc, c->dst), 1, &region);
  } else {
    d->vk.vkCmdFillBuffer(r->cmd, handle_of(desc, c->dst), c->dst_offset, c->size, c->pattern);
  }
  return QN_OK;
}

static qn_status record_cmd(vk_device *d, vk_recording *r, const qn_recording_desc *desc, size_t at, uint32_t base) {
  const qn_cmd *c = &desc->cmds[at];
  if (c->kind == QN_CMD_BARRIER)
    qn_vk_full_barrier(d, r->cmd, false, false);
  if (!runs(c))
    return QN_OK;
  uint32_t query = (uint32_t)at * 2;
  if (r->times)
    d->vk.vkCmdWriteTimestamp(r->cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times, query);
  QN_TRY(record_work(d, r, desc, c, base));
  if (r->times) {
    d->vk.vkCmdWriteTimestamp(r->cmd, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, r->times, query + 1);
    r->timed[at] = true;
  }
  return QN_OK;
}

static qn_status record_all(vk_device *d, vk_recording *r, const qn_recording_desc *desc) {
  VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                    .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
  VkResult error = d->vk.vkBeginCommandBuffer(r->cmd, &begin);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "record on %s", d->base.caps.id);
  if (r->times)
    d->vk.vkCmdResetQueryPool(r->cmd, r->times, 0, (uint32_t)desc->cmd_count * 2);
  qn_vk_full_barrier(d, r->cmd, true, false);
  uint32_t base = 0;
  for (size_t i = 0; i < desc->cmd_count; i++) {
    QN_TRY(record_cmd(d, r, desc, i, base));
    if (desc->cmds[i].kind == QN_CMD_LAUNCH)
      base += desc->cmds[i].param_count;
  }
  qn_vk_full_barrier(d, r->cmd, false, true);
  error = d->vk.vkEndCommandBuffer(r->cmd);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "record on %s", d->base.caps.id);
  return QN_OK;
}

static void recording_free(vk_device *d, vk_recording *r) {
  if (r->pool)
    d->vk.vkDestroyCommandPool(d->handle, r->pool, NULL);
  if (r->sets)
    d->vk.vkDestroyDescriptorPool(d->handle, r->sets, NULL);
  if (r->times)
    d->vk.vkDestroyQueryPool(d->handle, r->times, NULL);
  qn_vk_block_destroy(d, &r->params);
  free(r->timed);
  free(r);
}

qn_status qn_vk_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording) {
  vk_device *mine = (vk_device *)d;
  QN_TRY(qn_vk_check_findings(mine));
  if (desc->timestamps && mine->timestamp_ns == 0)
    return QN_ERR(QN_UNSUPPORTED, "record on %s: its queue has no timestamps", d->caps.id);
  totals t;
  QN_TRY(add_up(desc, &t));
  vk_recording *r = calloc(1, sizeof *r);
  if (r)
    r->timed = calloc(desc->cmd_count + 1, sizeof *r->timed);
  if (!r || !r->timed) {
    free(r);
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  }
  r->cmd_count = desc->cmd_count;
  qn_status st;
  if (t.words) {
    QN_TRY_GOTO(st, qn_vk_block_create(mine, (uint64_t)t.words * 4, VK_USE_UPLOAD, &r->params), failed);
    write_params(desc, r->params.host);
  }
  QN_TRY_GOTO(st, make_pools(mine, r, &t, desc), failed);
  QN_TRY_GOTO(st, record_all(mine, r, desc), failed);
  QN_TRY_GOTO(st, qn_vk_check_findings(mine), failed);
  *out_recording = &r->base;
  return QN_OK;
failed:
  recording_free(mine, r);
  return st;
}

qn_status qn_vk_recording_times(qn_recording *r, uint64_t *out_ns, size_t count) {
  vk_recording *mine = (vk_recording *)r;
  vk_device *d = (vk_device *)r->device;
  memset(out_ns, 0, count * sizeof *out_ns);
  if (!mine->submitted)
    return QN_ERR(QN_INVALID, "recording times: not submitted yet");
  QN_TRY(qn_vk_wait(r->device, atomic_load(&r->last_ticket), QN_WAIT_DEFAULT_NS));
  for (size_t i = 0; i < count; i++) {
    uint64_t ticks[2] = {0};
    if (!mine->timed[i])
      continue;
    VkResult error = d->vk.vkGetQueryPoolResults(d->handle, mine->times, (uint32_t)i * 2, 2, sizeof ticks, ticks,
                                                 sizeof ticks[0], VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (error != VK_SUCCESS)
      return VK_ERR(error, "recording times on %s", r->device->caps.id);
    out_ns[i] = (uint64_t)((double)((ticks[1] - ticks[0]) & d->timestamp_mask) * d->timestamp_ns);
  }
  return QN_OK;
}

void qn_vk_recording_destroy(qn_recording *r) { recording_free((vk_device *)r->device, (vk_recording *)r); }
