#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_a22c2cdf0c7b4424(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global uchar *b3, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const uchar *p0 = (__global const uchar *)b0 + (size_t)params[base + 1u];
  __global const uchar *p1 = (__global const uchar *)b1 + (size_t)params[base + 2u];
  __global uchar *p2 = (__global uchar *)b2 + (size_t)params[base + 3u];
  __global uchar *p3 = (__global uchar *)b3 + (size_t)params[base + 4u];
  const uint v3 = group * 4u;
  const int4 v4 = convert_int4(*(__global const uchar4 *)(p1 + v3)) != 0;
  const uchar4 v5 = *(__global const uchar4 *)(p0 + v3);
  const uchar4 v7 = (uchar4)((uchar)(200u));
  const uchar4 v8 = v5 + v7;
  const uchar4 v9 = select(v5, v8, convert_char4(v4));
  *(__global uchar4 *)(p2 + v3) = v9;
  const int v11 = v4.s1 & 1;
  const int4 v12 = ~v4;
  const int v13 = v12.s3 & 1;
  const int v14 = v11 ^ v13;
  p3[group] = (uchar)(v14);
}
