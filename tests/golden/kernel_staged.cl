#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(16, 1, 1))) void k_55d7384145e78728(__global uchar *b0, __global uchar *b1, __global const uint *params, uint base) {
  __local float v2[64] __attribute__((aligned(64)));
  __local float v3[16] __attribute__((aligned(64)));
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  const uint item = (uint)get_local_id(0);
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global float *p1 = (__global float *)b1 + (size_t)params[base + 2u];
  const uint v6 = group * 16u;
  const uint v7 = item + v6;
  const uint v9 = v7 * 4u;
  const float4 v10 = *(__global const float4 *)(p0 + v9);
  const uint v11 = item * 4u;
  *(__local float4 *)(v2 + v11) = v10;
  const float v13 = v10.s2;
  v3[item] = v13;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint v17 = 15u - item;
  const uint v18 = v17 * 4u;
  const float4 v19 = *(const __local float4 *)(v2 + v18);
  const float v20 = v3[v17];
  const float4 v21 = (float4)(v20);
  const float4 v22 = v19 + v21;
  const float2 v23 = v22.hi;
  const float2 v24 = v22.lo;
  const float4 v25 = (float4)(v23, v24);
  *(__global float4 *)(p1 + v9) = v25;
}
