#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_3ec82c5c21865c0e(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global const float *p1 = (__global const float *)b1 + (size_t)params[base + 2u];
  __global float *p2 = (__global float *)b2 + (size_t)params[base + 3u];
  float v2 = 0.0f;
  const uint v4 = params[base + 4u];
  const uint v6 = group * v4;
  const float v7 = p1[group];
  for (uint v8 = 0u; v8 < v4; v8 += 1u) {
    const float v9 = v2;
    const uint v10 = v8 + v6;
    const float v11 = p0[v10];
    const float v12 = fma(v11, v7, v9);
    v2 = v12;
  }
  const float v15 = v2;
  p2[group] = v15;
}
