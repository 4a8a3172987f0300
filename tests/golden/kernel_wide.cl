#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_b26a8a58a08c6b2b(__global uchar *b0, __global uchar *b1, __global uchar *b2, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const long *p0 = (__global const long *)b0 + (size_t)params[base + 1u];
  __global long *p1 = (__global long *)b1 + (size_t)params[base + 2u];
  __global uint *p2 = (__global uint *)b2 + (size_t)params[base + 3u];
  const long v2 = p0[group];
  const long v4 = (long)((ulong)v2 * (ulong)(-9223372036854775807l));
  const long v6 = v2 >> 7l;
  const long v7 = (long)((ulong)v4 - (ulong)v6);
  p1[group] = v7;
  const uint v9 = (uint)v2;
  const uint v11 = mul_hi(v9, 3528531795u);
  const uint v12 = clz(v9);
  const uint v13 = v11 + v12;
  p2[group] = v13;
}
