#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_f77b7dca0930ceda(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global const float *p1 = (__global const float *)b1 + (size_t)params[base + 2u];
  __global float *p2 = (__global float *)b2 + (size_t)params[base + 3u];
  const float8 v2 = (float8)(0.0f);
  float8 v3 = v2;
  float8 v4 = v2;
  const uint v6 = params[base + 4u];
  const uint v9 = group * 2u;
  const uint v10 = v9 * v6;
  const uint v13 = v9 + 1u;
  const uint v14 = v13 * v6;
  #pragma unroll 1
  for (uint v15 = 0u; v15 < v6; v15 += 1u) {
    const float8 v16 = v3;
    const uint v17 = v15 + v10;
    const float v18 = p0[v17];
    const float8 v19 = (float8)(v18);
    const uint v20 = v15 * 8u;
    const float8 v21 = *(__global const float8 *)(p1 + v20);
    const float8 v22 = fma(v19, v21, v16);
    v3 = v22;
    const float8 v24 = v4;
    const uint v25 = v14 + v15;
    const float v26 = p0[v25];
    const float8 v27 = (float8)(v26);
    const float8 v28 = fma(v27, v21, v24);
    v4 = v28;
  }
  const float8 v31 = v3;
  const uint v33 = group * 16u;
  *(__global float8 *)(p2 + v33) = v31;
  const float8 v35 = v4;
  const uint v36 = v13 * 8u;
  *(__global float8 *)(p2 + v36) = v35;
}
