/* The null driver's objects: buffers are host memory, copies and fills happen at submit, launches do nothing. It is the
 * skeleton of every other driver, file by file. */
#ifndef QUERN_DRIVER_NULL_H
#define QUERN_DRIVER_NULL_H

#include "quern/driver.h"

typedef struct null_device {
  qn_device base;
  atomic_ullong submitted;
} null_device;

typedef struct null_buffer {
  qn_buffer base;
  uint8_t *data;
} null_buffer;

typedef struct null_recording {
  qn_recording base;
  size_t count;
  qn_cmd cmds[]; /* of copies and fills only */
} null_recording;

/* buffer.c */
qn_status qn_null_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
void qn_null_buffer_destroy(qn_buffer *b);
void *qn_null_buffer_map(qn_buffer *b);
qn_status qn_null_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
qn_status qn_null_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);
/* program.c */
qn_status qn_null_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                 qn_program **out_program);
qn_status qn_null_program_binary(qn_program *p, qn_bytes *out_binary);
qn_status qn_null_program_warm_up(qn_program *p);
void qn_null_program_destroy(qn_program *p);
/* recording.c */
qn_status qn_null_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
qn_status qn_null_recording_times(qn_recording *r, uint64_t *out_ns, size_t count);
void qn_null_recording_destroy(qn_recording *r);
/* queue.c */
qn_status qn_null_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
qn_status qn_null_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
bool qn_null_done(qn_device *d, uint64_t ticket);

#endif
