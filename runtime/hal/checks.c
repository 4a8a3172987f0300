/* Argument checks of programs, recordings and ranges, done once for all drivers. Messages name the command, the
 * operand, what was expected and what came. */
#include "state.h"

#include <string.h>

const char *qn_code_entry_label(const qn_code_entry *e) { return e->label ? e->label : e->name ? e->name : "unnamed"; }

static const char *format_name(qn_code_format f) {
  static const char *const names[] = {"native", "OpenCL C", "SPIR-V", "null"};
  return (size_t)f < sizeof names / sizeof *names ? names[f] : "unknown";
}

static qn_status check_entry(const qn_device *d, const qn_code *code, const qn_code_entry *e) {
  const qn_device_caps *caps = &d->caps;
  const char *label = qn_code_entry_label(e);
  if (e->items == 0)
    return QN_ERR(QN_INVALID, "program: kernel %s has 0 items a group, expected at least 1", label);
  if (e->items > caps->max_group_items)
    return QN_ERR(QN_UNSUPPORTED, "program: kernel %s has %u items a group, device %s allows %u", label, e->items,
                  caps->id, caps->max_group_items);
  if (e->binding_count > QN_MAX_BINDINGS || e->binding_count > caps->max_bindings)
    return QN_ERR(QN_UNSUPPORTED, "program: kernel %s binds %u buffers, device %s allows %u", label, e->binding_count,
                  caps->id, caps->max_bindings < QN_MAX_BINDINGS ? caps->max_bindings : (uint32_t)QN_MAX_BINDINGS);
  if (e->param_count == 0)
    return QN_ERR(QN_INVALID, "program: kernel %s has no parameter words, word 0 is the group count", label);
  if (e->local_bytes > caps->local_bytes)
    return QN_ERR(QN_UNSUPPORTED, "program: kernel %s uses %u bytes of local memory, device %s has %u", label,
                  e->local_bytes, caps->id, caps->local_bytes);
  if (code->format == QN_CODE_NATIVE && !e->native)
    return QN_ERR(QN_INVALID, "program: kernel %s has no entry point", label);
  if (code->format == QN_CODE_OPENCL_C && (!e->name || !e->name[0]))
    return QN_ERR(QN_INVALID, "program: kernel %s has no function name", label);
  if (code->format == QN_CODE_SPIRV) {
    uint32_t magic = 0;
    if (e->spirv && e->spirv_bytes >= 20)
      memcpy(&magic, e->spirv, sizeof magic);
    if (magic != 0x07230203u || e->spirv_bytes % 4)
      return QN_ERR(QN_INVALID, "program: kernel %s has no SPIR-V module (%zu bytes)", label, e->spirv_bytes);
  }
  return QN_OK;
}

qn_status qn_check_code(const qn_device *d, const qn_code *code) {
  if (code->format != d->caps.format)
    return QN_ERR(QN_INVALID, "program: code is %s, device %s takes %s", format_name(code->format), d->caps.id,
                  format_name(d->caps.format));
  if (code->entry_count == 0 || !code->entries)
    return QN_ERR(QN_INVALID, "program: no entries");
  if (code->format == QN_CODE_OPENCL_C && (!code->source || !code->source_bytes))
    return QN_ERR(QN_INVALID, "program: no source text");
  for (size_t i = 0; i < code->entry_count; i++)
    QN_TRY(check_entry(d, code, &code->entries[i]));
  return QN_OK;
}

qn_status qn_check_range(const qn_buffer *b, const char *what, uint64_t offset, uint64_t size) {
  if (offset > b->size || size > b->size - offset)
    return QN_ERR(QN_INVALID, "%s: bytes %llu to %llu of buffer %s, which has %llu", what, (unsigned long long)offset,
                  (unsigned long long)(offset + size), b->label[0] ? b->label : "unnamed", (unsigned long long)b->size);
  return QN_OK;
}

static uint32_t share(uint32_t n, uint32_t parts) { return n / parts + (n % parts != 0); }

bool qn_fold_groups(uint32_t groups, const uint32_t max_groups[3], uint32_t out_groups[3]) {
  /* Rows are made even, so that few indexes lie beyond the count. */
  uint32_t rows = share(groups ? groups : 1, max_groups[0]);
  uint32_t layers = share(rows, max_groups[1]);
  out_groups[0] = share(groups, rows);
  out_groups[1] = share(rows, layers);
  out_groups[2] = layers;
  return layers <= max_groups[2] && (uint64_t)out_groups[0] * out_groups[1] * layers <= UINT32_MAX;
}

static qn_status check_launch(const qn_device *d, const qn_recording_desc *desc, size_t at) {
  const qn_cmd *c = &desc->cmds[at];
  if (!c->program)
    return QN_ERR(QN_INVALID, "record: command %zu launches no program", at);
  if (c->program->device != d)
    return QN_ERR(QN_INVALID, "record: command %zu launches a program of device %s on %s", at,
                  c->program->device->caps.id, d->caps.id);
  if (c->entry >= c->program->entry_count)
    return QN_ERR(QN_INVALID, "record: command %zu launches entry %u, the program has %zu", at, c->entry,
                  c->program->entry_count);
  const struct qn_program_entry *e = &c->program->entries[c->entry];
  if (c->binding_count != e->binding_count)
    return QN_ERR(QN_INVALID, "record: command %zu (%s) binds %u buffers, expected %u", at, e->label, c->binding_count,
                  e->binding_count);
  if (c->param_count != e->param_count || !c->params)
    return QN_ERR(QN_INVALID, "record: command %zu (%s) gives %u parameter words, expected %u", at, e->label,
                  c->params ? c->param_count : 0, e->param_count);
  uint32_t folded[3];
  if (!qn_fold_groups(c->groups, d->caps.max_groups, folded))
    return QN_ERR(QN_UNSUPPORTED, "record: command %zu (%s) has %u groups, device %s allows %u x %u x %u", at, e->label,
                  c->groups, d->caps.id, d->caps.max_groups[0], d->caps.max_groups[1], d->caps.max_groups[2]);
  for (uint32_t i = 0; i < c->binding_count; i++) {
    if (c->bindings[i] >= desc->buffer_count)
      return QN_ERR(QN_INVALID, "record: command %zu (%s), binding %u is buffer %u of %zu", at, e->label, i,
                    c->bindings[i], desc->buffer_count);
    const qn_buffer *b = desc->buffers[c->bindings[i]];
    if (b->size > d->caps.max_range_bytes)
      return QN_ERR(QN_OUT_OF_MEMORY,
                    "record: command %zu (%s), binding %u: buffer %s has %llu bytes, a kernel of "
                    "device %s sees %llu",
                    at, e->label, i, b->label[0] ? b->label : "unnamed", (unsigned long long)b->size, d->caps.id,
                    (unsigned long long)d->caps.max_range_bytes);
  }
  return QN_OK;
}

static qn_status check_transfer(const qn_recording_desc *desc, size_t at) {
  const qn_cmd *c = &desc->cmds[at];
  bool copy = c->kind == QN_CMD_COPY;
  const char *what = copy ? "copy" : "fill";
  if (c->dst >= desc->buffer_count || (copy && c->src >= desc->buffer_count))
    return QN_ERR(QN_INVALID, "record: command %zu (%s) names buffer %u, there are %zu", at, what,
                  c->dst >= desc->buffer_count ? c->dst : c->src, desc->buffer_count);
  QN_TRY(qn_check_range(desc->buffers[c->dst], what, c->dst_offset, c->size));
  if (!copy) {
    if (c->size % 4 || c->dst_offset % 4)
      return QN_ERR(QN_INVALID, "record: command %zu (fill) covers %llu bytes from %llu, expected multiples of 4", at,
                    (unsigned long long)c->size, (unsigned long long)c->dst_offset);
    return QN_OK;
  }
  QN_TRY(qn_check_range(desc->buffers[c->src], what, c->src_offset, c->size));
  if (desc->buffers[c->src] == desc->buffers[c->dst] && c->size && c->src_offset < c->dst_offset + c->size &&
      c->dst_offset < c->src_offset + c->size)
    return QN_ERR(QN_INVALID, "record: command %zu copies between overlapping parts of one buffer", at);
  return QN_OK;
}

qn_status qn_check_recording(const qn_device *d, const qn_recording_desc *desc) {
  if ((desc->cmd_count && !desc->cmds) || (desc->buffer_count && !desc->buffers))
    return QN_ERR(QN_INVALID, "record: a list is missing");
  for (size_t i = 0; i < desc->buffer_count; i++) {
    if (!desc->buffers[i])
      return QN_ERR(QN_INVALID, "record: buffer %zu is missing", i);
    if (desc->buffers[i]->device != d)
      return QN_ERR(QN_INVALID, "record: buffer %zu (%s) belongs to device %s, not to %s", i, desc->buffers[i]->label,
                    desc->buffers[i]->device->caps.id, d->caps.id);
  }
  for (size_t i = 0; i < desc->cmd_count; i++) {
    switch (desc->cmds[i].kind) {
    case QN_CMD_LAUNCH:
      QN_TRY(check_launch(d, desc, i));
      break;
    case QN_CMD_COPY:
    case QN_CMD_FILL:
      QN_TRY(check_transfer(desc, i));
      break;
    case QN_CMD_BARRIER:
      break;
    default:
      return QN_ERR(QN_INVALID, "record: command %zu has unknown kind %d", i, (int)desc->cmds[i].kind);
    }
  }
  return QN_OK;
}
