/* What drivers say of themselves and what they do differ, so four things are measured when a device is opened: whether
 * f32 subnormals survive arithmetic, whether fma rounds once, whether loops run to their end, and whether a buffer made over host memory is that
 * memory. */
#include "ocl.h"

#include <stdlib.h>
#include <string.h>

/* The inputs come from a buffer: constants would be folded by the compiler, on the host's arithmetic. */
static const char source[] = "__kernel void qn_probe(__global float *x) {\n"
                             "#pragma OPENCL FP_CONTRACT OFF\n"
                             "  x[8] = x[0] * x[1];\n"
                             "  x[9] = x[2] + x[2];\n"
                             "  x[10] = fma(x[3], x[3], x[4]);\n"
                             "  x[11] = fma(x[2], x[5], x[6]);\n"
                             "  x[12] = x[7];\n"
                             "  uint n = 1;\n"
                             "  for (uint i = 0; i < (uint)x[13]; i++)\n"
                             "    n = n * 1664525u + i;\n"
                             "  x[14] = as_float(n & 0x1fffffffu | 0x20000000u);\n"
                             "}\n";
enum { FLOATS = 64 };

static const float inputs[14] = {
    0x1p-100f,          0x1p-40f, /* product 2^-140, subnormal */
    0x1p-140f,                    /* doubled: subnormal */
    1.0f + 0x1p-12f,              /* its square less the next is 2^-24 only when rounded once */
    -(1.0f + 0x1p-11f), 1.0f,     0.0f, 42.0f, [QN_PROBE_ROUNDS_AT] = QN_PROBE_ROUNDS,
};

static void judge(ocl_device *d, const float *x) {
  d->base.caps.denormals = x[8] == 0x1p-140f && x[9] == 0x1p-139f && x[11] == 0x1p-140f;
  d->base.caps.fma = x[10] == 0x1p-24f;
  d->base.caps.max_loop_rounds = qn_probe_rounds(&x[14]);
}

static cl_int launch(ocl_device *d, cl_program program, cl_mem mem) {
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = d->cl->clCreateKernel(program, "qn_probe", &error);
  if (!kernel)
    return error;
  const size_t one[1] = {1};
  error = d->cl->clSetKernelArg(kernel, 0, sizeof mem, &mem);
  if (error == CL_SUCCESS)
    error = d->cl->clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, one, one, 0, NULL, NULL);
  if (error == CL_SUCCESS)
    error = d->cl->clFinish(d->queue);
  (void)d->cl->clReleaseKernel(kernel);
  return error;
}

static cl_int measure(ocl_device *d, cl_program program, float *host) {
  cl_int error = CL_SUCCESS;
  memset(host, 0, FLOATS * sizeof *host);
  cl_mem mem =
      d->cl->clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, FLOATS * sizeof *host, host, &error);
  if (!mem)
    return error;
  /* First through the queue, then with plain stores on both sides. */
  float out[FLOATS] = {0};
  error = d->cl->clEnqueueWriteBuffer(d->queue, mem, CL_TRUE, 0, sizeof inputs, inputs, 0, NULL, NULL);
  if (error == CL_SUCCESS)
    error = launch(d, program, mem);
  if (error == CL_SUCCESS)
    error = d->cl->clEnqueueReadBuffer(d->queue, mem, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
  if (error == CL_SUCCESS) {
    judge(d, out);
    if (d->base.caps.software) {
      host[7] = 43.0f;
      error = launch(d, program, mem);
      d->base.caps.host_memory = error == CL_SUCCESS && *(volatile float *)&host[12] == 43.0f;
    }
  }
  (void)d->cl->clReleaseMemObject(mem);
  return error;
}

qn_status qn_ocl_probe(ocl_device *d) {
  cl_int error = CL_SUCCESS;
  cl_program program = d->cl->clCreateProgramWithSource(d->context, 1, (const char *[]){source},
                                                        (const size_t[]){sizeof source - 1}, &error);
  if (!program)
    return OCL_ERR(error, "open %s: probe", d->base.caps.id);
  void *host = NULL;
  error = d->cl->clBuildProgram(program, 1, &d->id, "-cl-std=CL1.2", NULL, NULL);
  if (error == CL_SUCCESS && posix_memalign(&host, 4096, 4096) != 0)
    error = CL_OUT_OF_HOST_MEMORY;
  if (error == CL_SUCCESS)
    error = measure(d, program, host);
  (void)d->cl->clReleaseProgram(program);
  free(host);
  if (error != CL_SUCCESS)
    return OCL_ERR(error, "open %s (%s): its compiler or queue does not work", d->base.caps.id, d->base.caps.name);
  return QN_OK;
}
