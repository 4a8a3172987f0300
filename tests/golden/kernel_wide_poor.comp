#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_u32 { uint d[]; } b0_u32;
layout(set = 0, binding = 1, std430) buffer B_b1_u32 { uint d[]; } b1_u32;
layout(set = 0, binding = 2, std430) buffer B_b2_u32 { uint d[]; } b2_u32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
uint qn_mulhi(uint a, uint b) { uint hi, lo; umulExtended(a, b, hi, lo); return hi; }
// k_657bdafca0eb0c6f
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = (params.w[base + 1u] << 1);
  uint o1 = (params.w[base + 2u] << 1);
  uint o2 = params.w[base + 3u];
  uint v3 = group << 1u;
  uint v4 = b0_u32.d[o0 + v3];
  uint v5 = v3 + 1u;
  uint v6 = b0_u32.d[o0 + v5];
  uint v8 = v4 * 2147483648u;
  uint v9 = v6 + v8;
  uint v10 = qn_mulhi(v4, 1u);
  uint v11 = v9 + v10;
  int v14 = int(v6);
  int v16 = v14 >> 7;
  uint v17 = uint(v16);
  uint v18 = v4 >> 7u;
  uint v19 = v6 << 1u;
  uint v20 = v19 << 24u;
  uint v21 = v18 | v20;
  bool v22 = v4 < v21;
  uint v23 = uint(v22);
  uint v24 = v4 - v21;
  uint v25 = v11 - v17;
  uint v26 = v25 - v23;
  b1_u32.d[o1 + v3] = v24;
  b1_u32.d[o1 + v5] = v26;
  uint v30 = qn_mulhi(v4, 3528531795u);
  uint v31 = uint(31 - findMSB(v4));
  uint v32 = v30 + v31;
  b2_u32.d[o2 + group] = v32;
}
