#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_3cf1de8712a6a1bb(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global const int *p1 = (__global const int *)b1 + (size_t)params[base + 2u];
  __global float *p2 = (__global float *)b2 + (size_t)params[base + 3u];
  const uint v1 = params[base + 4u];
  const int v2 = (int)v1;
  const int v4 = (int)((uint)v2 + (uint)(-1));
  const int4 v5 = (int4)(v4);
  const uint v8 = group * 4u;
  const int4 v9 = *(__global const int4 *)(p1 + v8);
  const int4 v10 = as_int4(as_uint4(v5) - as_uint4(v9));
  const int4 v12 = (int4)(0);
  const int4 v13 = (v12 <= v9);
  const int4 v14 = (int4)(v2);
  const int4 v15 = (v9 < v14);
  const int4 v16 = v13 & v15;
  float4 v17 = (float4)(0.0f);
  if (v16.s0) v17.s0 = p0[v9.s0];
  if (v16.s1) v17.s1 = p0[v9.s1];
  if (v16.s2) v17.s2 = p0[v9.s2];
  if (v16.s3) v17.s3 = p0[v9.s3];
  const float4 v19 = (float4)((-0x1.333334p-2f));
  const float4 v20 = v17 * v19;
  if (v16.s0) p2[v10.s0] = v20.s0;
  if (v16.s1) p2[v10.s1] = v20.s1;
  if (v16.s2) p2[v10.s2] = v20.s2;
  if (v16.s3) p2[v10.s3] = v20.s3;
}
