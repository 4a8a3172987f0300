#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_8ddafe048ae87cb5(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const float *p0 = (__global const float *)b0 + (size_t)params[base + 1u];
  __global const float *p1 = (__global const float *)b1 + (size_t)params[base + 2u];
  __global float *p2 = (__global float *)b2 + (size_t)params[base + 3u];
  const uint v1 = params[base + 4u];
  const float8 v4 = (float8)(0.0f);
  float8 v5 = v4;
  float8 v6 = v4;
  const uint v10 = group * 2u;
  const uint v11 = v1 * v10;
  const uint v13 = v10 + 1u;
  const uint v14 = v1 * v13;
  #pragma unroll 1
  for (uint v15 = 0u; v15 < v1; v15 += 1u) {
    const uint v16 = v15 * 8u;
    const float8 v17 = *(__global const float8 *)(p1 + v16);
    const uint v18 = v11 + v15;
    const float v19 = p0[v18];
    const float8 v20 = v5;
    const float8 v21 = (float8)(v19);
    const float8 v22 = fma(v21, v17, v20);
    v5 = v22;
    const uint v24 = v14 + v15;
    const float v25 = p0[v24];
    const float8 v26 = v6;
    const float8 v27 = (float8)(v25);
    const float8 v28 = fma(v27, v17, v26);
    v6 = v28;
  }
  const uint v32 = group * 16u;
  const float8 v33 = v5;
  *(__global float8 *)(p2 + v32) = v33;
  const uint v35 = v13 * 8u;
  const float8 v36 = v6;
  *(__global float8 *)(p2 + v35) = v36;
}
