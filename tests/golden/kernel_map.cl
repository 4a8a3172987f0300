#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_fd13d0fff883e86e(__global uchar *b0, __global uchar *b1, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global float *p1 = (__global float *)b1 + (size_t)params[base + 2u];
  const uint v3 = group * 4u;
  const uint v4 = v3 + 4u;
  const uint v5 = params[base + 3u];
  const int v6 = v4 <= v5;
  if (v6) {
    const float4 v9 = (float4)(0.0f);
    const float4 v10 = *(__global const float4 *)(p0 + v3);
    const float4 v12 = (float4)(1.5f);
    const float4 v13 = v10 + v12;
    const int4 v14 = (v9 < v13);
    const float4 v15 = select(v9, v13, v14);
    *(__global float4 *)(p1 + v3) = v15;
  } else {
    #pragma unroll 1
    for (uint v20 = v3; v20 < v5; v20 += 1u) {
      const float v21 = p0[v20];
      const float v22 = v21 + 1.5f;
      const int v23 = 0.0f < v22;
      const float v24 = v23 ? v22 : 0.0f;
      p1[v20] = v24;
    }
  }
}
