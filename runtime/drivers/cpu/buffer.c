/* Buffers of the CPU: host memory. Large ones ask for large pages, which saves address translations in contractions. */
#define _DEFAULT_SOURCE /* madvise */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 1 << 21 };

qn_status qn_cpu_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer) {
  (void)d;
  cpu_buffer *b = calloc(1, sizeof *b);
  if (!b)
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no memory", desc->label ? desc->label : "");
  /* Whole lines behind the end, so that the last vector of a row never shares one with somebody else's data. */
  uint64_t room = (desc->size + 256) & ~UINT64_C(255);
  bool large = room >= 4 * (uint64_t)LARGE_PAGE;
  void *data = NULL;
  if (room > SIZE_MAX / 2 || posix_memalign(&data, large ? (size_t)LARGE_PAGE : 256, (size_t)room) != 0) {
    free(b);
    return QN_ERR(QN_OUT_OF_MEMORY, "buffer %s: no host memory for %llu bytes", desc->label ? desc->label : "",
                  (unsigned long long)desc->size);
  }
#ifdef MADV_HUGEPAGE
  if (large)
    (void)madvise(data, (size_t)room, MADV_HUGEPAGE);
#endif
  b->data = data;
  *out_buffer = &b->base;
  return QN_OK;
}

void qn_cpu_buffer_destroy(qn_buffer *b) {
  cpu_buffer *mine = (cpu_buffer *)b;
  if (atomic_load(&mine->pending) && qn_cpu_wait_idle((cpu_device *)b->device, QN_WAIT_DEFAULT_NS) != QN_OK)
    return; /* a queued write still points here: a leak is better than freed memory in use */
  free(mine->data);
  free(mine);
}

void *qn_cpu_buffer_map(qn_buffer *b) { return ((cpu_buffer *)b)->data; }

qn_status qn_cpu_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data) {
  QN_TRY(qn_cpu_queue_write((cpu_device *)b->device, (cpu_buffer *)b, offset, size, data));
  return QN_OK;
}

qn_status qn_cpu_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data) {
  QN_TRY(qn_cpu_wait_idle((cpu_device *)b->device, QN_WAIT_DEFAULT_NS));
  memcpy(out_data, ((cpu_buffer *)b)->data + offset, (size_t)size);
  return QN_OK;
}
