/* Buffers of the null device: host memory, aligned as the contract says. */
#include "null.h"

#include <stdlib.h>
#include <string.h>

qn_status qn_null_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer) {
  (void)d;
  null_buffer *b = calloc(1, sizeof *b);
  if (!b)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no memory", desc->label ? desc->label : "");
  uint64_t room = (desc->size + 256) & ~UINT64_C(255);
  void *data = NULL;
  if (room > SIZE_MAX / 2 || posix_memalign(&data, 256, (size_t)room) != 0) {
    free(b);
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no host memory for %llu bytes", desc->label ? desc->label : "",
                  (unsigned long long)desc->size);
  }
  b->data = data;
  *out_buffer = &b->base;
  return QN_OK;
}

void qn_null_buffer_destroy(qn_buffer *b) {
  free(((null_buffer *)b)->data);
  free(b);
}

void *qn_null_buffer_map(qn_buffer *b) { return ((null_buffer *)b)->data; }

qn_status qn_null_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  memcpy(((null_buffer *)b)->data + offset, data, (size_t)size);
  return QN_OK;
}

qn_status qn_null_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  memcpy(out_data, ((null_buffer *)b)->data + offset, (size_t)size);
  return QN_OK;
}
