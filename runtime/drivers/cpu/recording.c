/* Recordings of the CPU: commands become steps, each with the addresses it needs, and it is settled here which steps
 * are shared out and where threads must meet. */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

enum { SHARED_BYTES = 1 << 17 }; /* shorter copies are not worth sharing out */

static cpu_buffer *buffer_at(const qn_recording_desc *desc, uint32_t i) { return (cpu_buffer *)desc->buffers[i]; }

static qn_status launch_step(cpu_recording *r, const qn_recording_desc *desc, const qn_cmd *c, cpu_step *s) {
  s->kind = CPU_LAUNCH;
  s->entry = ((const cpu_program *)c->program)->entries[c->entry];
  s->groups = c->groups;
  s->bindings = QN_NEW(&r->arena, void *, c->binding_count + 1);
  s->params = QN_NEW(&r->arena, uint32_t, c->param_count);
  if (!s->bindings || !s->params)
    return QN_ERR(QN_OUT_OF_MEMORY, "record: no memory for a launch of %u parameter words", c->param_count);
  for (uint32_t i = 0; i < c->binding_count; ++i)
    s->bindings[i] = buffer_at(desc, c->bindings[i])->data;
  memcpy(s->params, c->params, c->param_count * sizeof *s->params);
  s->params[0] = c->groups;
  s->alone = c->groups == 1;
  return QN_OK;
}

static void transfer_step(const qn_recording_desc *desc, const qn_cmd *c, cpu_step *s) {
  s->kind = c->kind == QN_CMD_COPY ? CPU_COPY : CPU_FILL;
  s->dst = buffer_at(desc, c->dst)->data + c->dst_offset;
  s->src = c->kind == QN_CMD_COPY ? buffer_at(desc, c->src)->data + c->src_offset : NULL;
  s->size = c->size;
  s->pattern = c->pattern;
  s->alone = c->size < SHARED_BYTES;
}

static qn_status fill_steps(cpu_recording *r, const qn_recording_desc *desc, unsigned threads) {
  bool owed = false;   /* a barrier was passed that no meeting has made good yet */
  bool shared = false; /* work since the last meeting was done by more than slot 0 */
  for (size_t i = 0; i < desc->cmd_count; ++i) {
    const qn_cmd *c = &desc->cmds[i];
    cpu_step *s = &r->steps[r->step_count];
    bool transfer = c->kind == QN_CMD_COPY || c->kind == QN_CMD_FILL;
    if (c->kind == QN_CMD_BARRIER)
      owed = true;
    if (c->kind == QN_CMD_BARRIER || (c->kind == QN_CMD_LAUNCH && c->groups == 0) || (transfer && c->size == 0))
      continue;
    if (transfer)
      transfer_step(desc, c, s);
    else
      QN_TRY(launch_step(r, desc, c, s));
    s->cmd = i;
    s->alone = s->alone || threads == 1;
    /* What slot 0 alone did before, it need not wait for: the debt stays until others take part. */
    bool need = owed || transfer || desc->timestamps;
    s->join = need && (shared || !s->alone);
    if (s->join)
      owed = shared = false;
    shared = shared || !s->alone;
    owed = owed || transfer;
    r->parallel = r->parallel || !s->alone;
    r->step_count++;
  }
  return QN_OK;
}

qn_status qn_cpu_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording) {
  cpu_recording *r = calloc(1, sizeof *r);
  if (!r)
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  qn_status st = QN_OK;
  r->steps = QN_NEW(&r->arena, cpu_step, desc->cmd_count + 1);
  if (desc->timestamps) {
    r->stamps = QN_NEW(&r->arena, uint64_t, desc->cmd_count + 1);
    r->times = QN_NEW(&r->arena, uint64_t, desc->cmd_count + 1);
  }
  if (!r->steps || (desc->timestamps && (!r->stamps || !r->times))) {
    st = QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
    goto failed;
  }
  QN_TRY_GOTO(st, fill_steps(r, desc, ((cpu_device *)d)->pool->threads), failed);
  *out_recording = &r->base;
  return QN_OK;
failed:
  qn_cpu_recording_destroy(&r->base);
  return st;
}

qn_status qn_cpu_recording_times(qn_recording *r, uint64_t *out_ns, size_t count) {
  cpu_device *d = (cpu_device *)r->device;
  qn_mutex_lock(&d->pool->mutex);
  bool timed = ((cpu_recording *)r)->timed;
  memcpy(out_ns, ((cpu_recording *)r)->times, count * sizeof *out_ns);
  qn_mutex_unlock(&d->pool->mutex);
  return timed ? QN_OK : QN_ERR(QN_INVALID, "recording times: not submitted, or the first run is not over");
}

void qn_cpu_recording_destroy(qn_recording *r) {
  qn_arena_free(&((cpu_recording *)r)->arena);
  free(r);
}

static void fill(uint8_t *dst, uint64_t size, uint32_t pattern) {
  for (uint64_t i = 0; i < size; i += sizeof pattern)
    memcpy(dst + i, &pattern, sizeof pattern);
}

/* A share depends on the slot and the count of slots only, so the same slot touches the same part of a buffer in every
 * launch of equal shape. */
void qn_cpu_step_run(const cpu_step *s, unsigned slot, unsigned threads) {
  if (s->alone) {
    if (slot != 0)
      return;
    threads = 1;
  }
  if (s->kind == CPU_LAUNCH) {
    uint32_t g0 = (uint32_t)((uint64_t)s->groups * slot / threads);
    uint32_t g1 = (uint32_t)((uint64_t)s->groups * (slot + 1) / threads);
    if (g0 < g1)
      s->entry.run(s->entry.context, s->bindings, s->params, g0, g1);
    return;
  }
  uint64_t lines = s->size / CPU_LINE;
  uint64_t from = lines * slot / threads * CPU_LINE,
           to = slot + 1 == threads ? s->size : lines * (slot + 1) / threads * CPU_LINE;
  if (s->kind == CPU_COPY)
    memcpy(s->dst + from, s->src + from, (size_t)(to - from));
  else
    fill(s->dst + from, to - from, s->pattern);
}
