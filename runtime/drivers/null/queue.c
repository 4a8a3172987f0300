/* The null device's queue: everything is done when submit returns. */
#include "null.h"

#include <string.h>

static void run(const qn_recording *r, const qn_cmd *c) {
  uint8_t *dst = ((null_buffer *)r->buffers[c->dst])->data + c->dst_offset;
  if (c->kind == QN_CMD_COPY) {
    memcpy(dst, ((null_buffer *)r->buffers[c->src])->data + c->src_offset, (size_t)c->size);
    return;
  }
  for (uint64_t i = 0; i < c->size; i += 4)
    memcpy(dst + i, &c->pattern, 4);
}

qn_status qn_null_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket) {
  (void)waits;
  (void)wait_count;
  null_recording *mine = (null_recording *)r;
  for (size_t i = 0; i < mine->count; i++)
    run(r, &mine->cmds[i]);
  *out_ticket = atomic_fetch_add(&((null_device *)d)->submitted, 1) + 1;
  return QN_OK;
}

qn_status qn_null_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns) {
  (void)timeout_ns;
  if (!qn_null_done(d, ticket))
    return QN_ERR(QN_TIMEOUT, "null device: ticket %llu", (unsigned long long)ticket);
  return QN_OK;
}

bool qn_null_done(qn_device *d, uint64_t ticket) { return atomic_load(&((null_device *)d)->submitted) >= ticket; }
