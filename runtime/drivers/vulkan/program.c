/* Programs: a pipeline per entry, made through one pipeline cache whose data is the program's binary. */
#include "vk.h"

#include <stdlib.h>
#include <string.h>

static qn_status make_layout(vk_device *d, uint32_t n) {
  if (d->layouts[n])
    return QN_OK;
  VkDescriptorSetLayoutBinding bindings[QN_MAX_BINDINGS + 1];
  for (uint32_t i = 0; i <= n; i++)
    bindings[i] = (VkDescriptorSetLayoutBinding){.binding = i,
                                                 .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                                 .descriptorCount = 1,
                                                 .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
  VkDescriptorSetLayoutCreateInfo set = {
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = n + 1, .pBindings = bindings};
  VkResult error = VK_SUCCESS;
  if (!d->set_layouts[n])
    error = d->vk.vkCreateDescriptorSetLayout(d->handle, &set, NULL, &d->set_layouts[n]);
  VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = sizeof(uint32_t)};
  VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                       .setLayoutCount = 1,
                                       .pSetLayouts = &d->set_layouts[n],
                                       .pushConstantRangeCount = 1,
                                       .pPushConstantRanges = &range};
  if (error == VK_SUCCESS)
    error = d->vk.vkCreatePipelineLayout(d->handle, &layout, NULL, &d->layouts[n]);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "device %s: layout of %u bindings", d->base.caps.id, n);
  return QN_OK;
}

static qn_status make_pipeline(vk_device *d, VkPipelineCache cache, const qn_code_entry *e, vk_entry *out_entry) {
  qn_mutex_lock(&d->lock);
  qn_status st = make_layout(d, e->binding_count);
  VkPipelineLayout layout = d->layouts[e->binding_count];
  qn_mutex_unlock(&d->lock);
  QN_TRY(st);
  VkShaderModuleCreateInfo module = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = e->spirv_bytes, .pCode = e->spirv};
  VkShaderModule shader;
  VkResult error = d->vk.vkCreateShaderModule(d->handle, &module, NULL, &shader);
  if (error == VK_SUCCESS) {
    VkComputePipelineCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                  .module = shader,
                                                  .pName = "main"},
                                        .layout = layout};
    error = d->vk.vkCreateComputePipelines(d->handle, cache, 1, &info, NULL, &out_entry->pipeline);
    d->vk.vkDestroyShaderModule(d->handle, shader, NULL);
  }
  out_entry->binding_count = e->binding_count;
  out_entry->param_count = e->param_count;
  if (error == VK_ERROR_OUT_OF_HOST_MEMORY || error == VK_ERROR_OUT_OF_DEVICE_MEMORY || error == VK_ERROR_DEVICE_LOST)
    return VK_ERR(error, "device %s: pipeline of kernel %s", d->base.caps.id, qn_code_entry_label(e));
  if (error != VK_SUCCESS)
    return QN_ERR(QN_COMPILE, "device %s (%.60s): kernel %s did not compile: Vulkan result %d (%zu bytes of SPIR-V)",
                  d->base.caps.id, d->base.caps.name, qn_code_entry_label(e), (int)error, e->spirv_bytes);
  return QN_OK;
}

/* The header that every driver's cache data starts with: data of another device or driver is not taken. */
static bool cache_fits(const vk_device *d, const qn_bytes *binary) {
  struct {
    uint32_t size, version, vendor, device;
    uint8_t uuid[VK_UUID_SIZE];
  } head;
  if (!binary || binary->size <= sizeof head)
    return false;
  memcpy(&head, binary->data, sizeof head);
  return head.size >= sizeof head && head.version == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         head.vendor == d->vendor_id && head.device == d->device_id &&
         memcmp(head.uuid, d->cache_uuid, sizeof head.uuid) == 0;
}

static qn_status make_all(vk_device *d, vk_program *p, const qn_code *code, const qn_bytes *binary, bool *out_used) {
  for (size_t i = 0; i < code->entry_count; i++)
    QN_TRY(qn_vk_check_module(d, &code->entries[i]));
  *out_used = cache_fits(d, binary);
  VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                    .initialDataSize = *out_used ? binary->size : 0,
                                    .pInitialData = *out_used ? binary->data : NULL};
  VkResult error = d->vk.vkCreatePipelineCache(d->handle, &info, NULL, &p->cache);
  if (error != VK_SUCCESS)
    return VK_ERR(error, "device %s: pipeline cache", d->base.caps.id);
  for (size_t i = 0; i < code->entry_count; i++) {
    p->count = i + 1;
    QN_TRY(make_pipeline(d, p->cache, &code->entries[i], &p->entries[i]));
  }
  return qn_vk_check_findings(d);
}

static void program_free(vk_device *d, vk_program *p) {
  for (size_t i = 0; i < p->count; i++)
    if (p->entries[i].pipeline)
      d->vk.vkDestroyPipeline(d->handle, p->entries[i].pipeline, NULL);
  if (p->cache)
    d->vk.vkDestroyPipelineCache(d->handle, p->cache, NULL);
  free(p);
}

qn_status qn_vk_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                               qn_program **out_program) {
  vk_device *mine = (vk_device *)d;
  *out_binary_used = false;
  QN_TRY(qn_vk_check_findings(mine));
  vk_program *p = calloc(1, sizeof *p + code->entry_count * sizeof p->entries[0]);
  if (!p)
    return QN_ERR(QN_OUT_OF_MEMORY, "program of %zu entries: no memory", code->entry_count);
  qn_status st = make_all(mine, p, code, binary, out_binary_used);
  if (st != QN_OK) {
    program_free(mine, p);
    return qn_error_trace(st, __FILE__, __LINE__, "make_all");
  }
  *out_program = &p->base;
  return QN_OK;
}

qn_status qn_vk_program_binary(qn_program *p, qn_bytes *out_binary) {
  vk_device *d = (vk_device *)p->device;
  vk_program *mine = (vk_program *)p;
  size_t size = 0;
  VkResult error = d->vk.vkGetPipelineCacheData(d->handle, mine->cache, &size, NULL);
  /* Some drivers give a header and nothing behind it. */
  if (error == VK_SUCCESS && size <= 64)
    return QN_OK;
  void *data = error == VK_SUCCESS ? malloc(size) : NULL;
  if (error == VK_SUCCESS && !data)
    return QN_ERR(QN_OUT_OF_MEMORY, "program binary of %zu bytes: no memory", size);
  if (error == VK_SUCCESS)
    error = d->vk.vkGetPipelineCacheData(d->handle, mine->cache, &size, data);
  if (error != VK_SUCCESS) {
    free(data);
    return VK_ERR(error, "device %s: pipeline cache data", d->base.caps.id);
  }
  *out_binary = (qn_bytes){data, size};
  return QN_OK;
}

/* ---- warm-up: some drivers compile at the first dispatch; one group that sees a group count of zero is enough ---- */
static qn_status warm_up_run(vk_device *d, vk_program *p, qn_buffer *scratch) {
  qn_device *base = &d->base;
  uint32_t words = 1;
  for (size_t i = 0; i < p->count; i++)
    words = p->entries[i].param_count > words ? p->entries[i].param_count : words;
  uint32_t *zeros = calloc(words, sizeof *zeros);
  qn_cmd *cmds = calloc(p->count * 2, sizeof *cmds);
  qn_recording *r = NULL;
  qn_status st = QN_OK;
  if (!zeros || !cmds)
    QN_TRY_GOTO(st, QN_ERR(QN_OUT_OF_MEMORY, "warm-up: no memory"), done);
  for (size_t i = 0; i < p->count; i++) {
    /* Recorded as one group; the word that says how many there are is cleared behind it. */
    qn_cmd *c = &cmds[2 * i];
    *c = (qn_cmd){.kind = QN_CMD_LAUNCH, .program = &p->base, .entry = (uint32_t)i, .groups = 1, .params = zeros};
    c->binding_count = p->entries[i].binding_count;
    c->param_count = p->entries[i].param_count;
    c[1].kind = QN_CMD_BARRIER; /* all share the scratch buffer */
  }
  qn_recording_desc desc = {.cmds = cmds, .cmd_count = p->count * 2, .buffers = &scratch, .buffer_count = 1};
  QN_TRY_GOTO(st, qn_vk_record(base, &desc, &r), done);
  r->device = base;
  memset(((vk_recording *)r)->params.host, 0, (size_t)((vk_recording *)r)->params.size);
  st = qn_vk_run_once(d, r);
done:
  free(zeros);
  free(cmds);
  return st;
}

qn_status qn_vk_program_warm_up(qn_program *p) {
  qn_device *d = p->device;
  qn_buffer *scratch = NULL;
  QN_TRY(qn_vk_buffer_create(d, &(qn_buffer_desc){.size = 4096, .label = "warm-up"}, &scratch));
  scratch->device = d;
  scratch->size = 4096;
  qn_status st = warm_up_run((vk_device *)d, (vk_program *)p, scratch);
  if (st != QN_TIMEOUT)
    qn_vk_buffer_destroy(scratch);
  QN_TRY(st);
  return qn_vk_check_findings((vk_device *)d);
}

void qn_vk_program_destroy(qn_program *p) { program_free((vk_device *)p->device, (vk_program *)p); }
