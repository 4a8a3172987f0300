#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void k_d6172410f7da80f2(__global uchar *b0, __global uchar *b1, __global const uint *params, uint base) {
  __local float v1[64] __attribute__((aligned(64)));
  __local float v2[16] __attribute__((aligned(64)));
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  const uint item = (uint)get_local_id(0);
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global float *p1 = (__global float *)b1 + (size_t)params[base + 2u];
  const uint v5 = item * 4u;
  const uint v8 = group * 16u;
  const uint v9 = item + v8;
  const uint v10 = v9 * 4u;
  const float4 v11 = *(__global const float4 *)(p0 + v10);
  *(__local float4 *)(v1 + v5) = v11;
  const float v13 = v11.s2;
  v2[item] = v13;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint v17 = 15u - item;
  const uint v18 = v17 * 4u;
  const float4 v19 = *(const __local float4 *)(v1 + v18);
  const float v20 = v2[v17];
  const float4 v21 = (float4)(v20);
  const float4 v22 = v19 + v21;
  const float2 v23 = v22.hi;
  const float2 v24 = v22.lo;
  const float4 v25 = (float4)(v23, v24);
  *(__global float4 *)(p1 + v10) = v25;
}
