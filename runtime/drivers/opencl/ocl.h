/* The OpenCL driver's objects. OpenCL 1.2 calls only, through a table filled from the loader opened at run time.
 *
 * One in-order queue a device: barriers between commands are implied. Completion comes by event callbacks, so that waits
 * can be bounded; whatever was queued last (a submission's last command, a write) has a node with its event. */
#ifndef QUERN_DRIVER_OPENCL_H
#define QUERN_DRIVER_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include "quern/driver.h"

#define OCL_CALLS(X)                                                                                                   \
  X(clGetPlatformIDs)                                                                                                  \
  X(clGetPlatformInfo)                                                                                                 \
  X(clGetDeviceIDs)                                                                                                    \
  X(clGetDeviceInfo)                                                                                                   \
  X(clCreateContext)                                                                                                   \
  X(clReleaseContext)                                                                                                  \
  X(clCreateCommandQueue)                                                                                              \
  X(clReleaseCommandQueue)                                                                                             \
  X(clCreateBuffer)                                                                                                    \
  X(clReleaseMemObject)                                                                                                \
  X(clEnqueueReadBuffer)                                                                                               \
  X(clEnqueueWriteBuffer)                                                                                              \
  X(clEnqueueCopyBuffer)                                                                                               \
  X(clEnqueueFillBuffer)                                                                                               \
  X(clEnqueueMigrateMemObjects)                                                                                        \
  X(clEnqueueMarkerWithWaitList)                                                                                       \
  X(clEnqueueBarrierWithWaitList)                                                                                      \
  X(clEnqueueNDRangeKernel)                                                                                            \
  X(clCreateProgramWithSource)                                                                                         \
  X(clCreateProgramWithBinary)                                                                                         \
  X(clBuildProgram)                                                                                                    \
  X(clGetProgramInfo)                                                                                                  \
  X(clGetProgramBuildInfo)                                                                                             \
  X(clReleaseProgram)                                                                                                  \
  X(clCreateKernel)                                                                                                    \
  X(clGetKernelInfo)                                                                                                   \
  X(clGetKernelWorkGroupInfo)                                                                                          \
  X(clSetKernelArg)                                                                                                    \
  X(clReleaseKernel)                                                                                                   \
  X(clSetEventCallback)                                                                                                \
  X(clGetEventInfo)                                                                                                    \
  X(clGetEventProfilingInfo)                                                                                           \
  X(clRetainEvent)                                                                                                     \
  X(clReleaseEvent)                                                                                                    \
  X(clFlush)                                                                                                           \
  X(clFinish)

typedef struct ocl_api {
#define OCL_FIELD(name) cl_api_##name name;
  OCL_CALLS(OCL_FIELD)
#undef OCL_FIELD
} ocl_api;

/* loader.c: the table, or the failure to make one, the same every time. */
qn_status qn_ocl_api(const ocl_api **out_api);
/* Rows for vendor files that name a library which does not open. */
qn_status qn_ocl_report_vendors(qn_device_info **infos, size_t *count, size_t *capacity, size_t *out_vendors);

typedef struct ocl_device ocl_device;

/* One awaited event. Lives in the device's lists; callbacks only mark it. */
typedef struct ocl_node {
  struct ocl_node *next;
  ocl_device *device;
  atomic_bool armed;    /* set when the callback may come: what is written before is seen there */
  uint64_t seq, ticket; /* ticket 0: a write */
  cl_event event;
  void *staging; /* host copy that a write reads from */
  size_t staging_size;
} ocl_node;

struct ocl_device {
  qn_device base;
  const ocl_api *cl;
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  cl_command_queue_properties queue_properties; /* what the queue has */
  bool unified;                                 /* host and device share memory */
  bool correct_division;                        /* the build option for IEEE division and square root exists */
  qn_mutex lock;                                /* orders what goes into the queue; never taken by callbacks */
  uint64_t seq, tickets;
  ocl_node *free_nodes;
  qn_mutex done_lock; /* taken by callbacks; no OpenCL call under it */
  qn_cond done_cond;
  ocl_node *fired; /* to be recycled */
  size_t in_flight;
  atomic_ullong done_seq, done_ticket;
  atomic_int error; /* first negative status of a command */
};

typedef struct ocl_buffer {
  qn_buffer base;
  cl_mem mem;
  void *host;         /* our memory under it on zero-copy devices */
  uint64_t write_seq; /* newest queued write; under the device's lock */
} ocl_buffer;

typedef struct ocl_entry {
  char *name;
  uint32_t items, binding_count, param_count;
} ocl_entry;

typedef struct ocl_program {
  qn_program base;
  cl_program program;
  ocl_entry *entries;
  size_t count;
} ocl_program;

typedef struct ocl_op {
  qn_cmd_kind kind;
  cl_kernel kernel;
  size_t global[3], local[3];
  cl_mem src, dst;
  size_t src_offset, dst_offset, size;
  cl_uint pattern;
} ocl_op;

typedef struct ocl_recording {
  qn_recording base;
  cl_mem params;
  size_t count;
  cl_event *events; /* one per command of the newest submission, with timestamps only */
  bool submitted;
  ocl_op ops[];
} ocl_recording;

/* error.c */
const char *qn_ocl_error_name(cl_int code);
#define OCL_ERR(code, ...) qn_ocl_fail((code), __FILE__, __LINE__, __VA_ARGS__)
qn_status qn_ocl_fail(cl_int code, const char *file, int line, const char *format, ...) QN_PRINTF(4, 5);
/* probe.c: measures denormals, fma, and whether buffers over host memory are that memory. */
qn_status qn_ocl_probe(ocl_device *d);
/* buffer.c */
qn_status qn_ocl_buffer_create(qn_device *d, const qn_buffer_desc *desc, qn_buffer **out_buffer);
void qn_ocl_buffer_destroy(qn_buffer *b);
void *qn_ocl_buffer_map(qn_buffer *b);
qn_status qn_ocl_buffer_write(qn_buffer *b, uint64_t offset, uint64_t size, const void *data);
qn_status qn_ocl_buffer_read(qn_buffer *b, uint64_t offset, uint64_t size, void *out_data);
/* program.c */
qn_status qn_ocl_program_create(qn_device *d, const qn_code *code, const qn_bytes *binary, bool *out_binary_used,
                                qn_program **out_program);
qn_status qn_ocl_program_binary(qn_program *p, qn_bytes *out_binary);
qn_status qn_ocl_program_warm_up(qn_program *p);
void qn_ocl_program_destroy(qn_program *p);
/* recording.c */
qn_status qn_ocl_record(qn_device *d, const qn_recording_desc *desc, qn_recording **out_recording);
qn_status qn_ocl_recording_times(qn_recording *r, uint64_t *out_ns, size_t count);
void qn_ocl_recording_destroy(qn_recording *r);
/* queue.c */
qn_status qn_ocl_queue_open(ocl_device *d);
void qn_ocl_queue_close(ocl_device *d); /* bounded; leaves a queue that does not end */
/* Makes the queue one that keeps times; the lock is held. */
qn_status qn_ocl_queue_profile(ocl_device *d);
/* A node to be filled; the lock is held. NULL when memory is gone. */
ocl_node *qn_ocl_node_take(ocl_device *d);
void qn_ocl_node_give(ocl_device *d, ocl_node *n);
/* Watches n->event as the newest thing in the queue; the lock is held. */
qn_status qn_ocl_node_watch(ocl_device *d, ocl_node *n);
qn_status qn_ocl_wait_seq(ocl_device *d, uint64_t seq, uint64_t timeout_ns);
qn_status qn_ocl_submit(qn_device *d, qn_recording *r, const qn_wait *waits, size_t wait_count, uint64_t *out_ticket);
qn_status qn_ocl_wait(qn_device *d, uint64_t ticket, uint64_t timeout_ns);
bool qn_ocl_done(qn_device *d, uint64_t ticket);

#endif
