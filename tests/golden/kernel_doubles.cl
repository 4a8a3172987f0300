#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k_7bed11360b384210(__global uchar *b0, __global uchar *b1, __global const uint *params, uint base) {
  const uint group = (uint)(get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)));
  if (group >= params[base])
    return;
  __global const double *p0 = (__global const double *)b0 + (size_t)params[base + 1u];
  __global double *p1 = (__global double *)b1 + (size_t)params[base + 2u];
  const uint v3 = group * 2u;
  const double2 v4 = *(__global const double2 *)(p0 + v3);
  const int2 v5 = convert_int2(v4 != v4);
  const double2 v7 = (double2)(as_double(0x7ff8000000000000ul));
  const double2 v9 = (double2)(as_double(0x3fb999999999999aul));
  const double2 v11 = (double2)((-2.5));
  const double2 v12 = fma(v4, v9, v11);
  const double2 v13 = as_double2((as_ulong2(v7) & as_ulong2(convert_long2(v5))) | (as_ulong2(v12) & ~as_ulong2(convert_long2(v5))));
  *(__global double2 *)(p1 + v3) = v13;
}
