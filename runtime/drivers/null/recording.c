/* Recordings of the null device: the copies and fills of the list. */
#include "null.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_null_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording) {
  (void)d;
  null_recording *r = calloc(1, sizeof *r + desc->cmd_count * sizeof r->cmds[0]);
  if (!r)
    return QN_ERR(QN_OUT_OF_MEMORY, "record %zu commands: no memory", desc->cmd_count);
  for (size_t i = 0; i < desc->cmd_count; i++)
    if ((desc->cmds[i].kind == QN_CMD_COPY || desc->cmds[i].kind == QN_CMD_FILL) && desc->cmds[i].size)
      r->cmds[r->count++] = desc->cmds[i];
  *out_recording = &r->base;
  return QN_OK;
}

qn_status qn_null_recording_times(qn_recording *r, uint64_t *out_ns, size_t count) {
  (void)r;
  memset(out_ns, 0, count * sizeof *out_ns);
  return QN_OK;
}

void qn_null_recording_destroy(qn_recording *r) { free(r); }
