#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_u32 { uint d[]; } b0_u32;
layout(set = 0, binding = 1, std430) buffer B_b1_u32 { uint d[]; } b1_u32;
layout(set = 0, binding = 2, std430) buffer B_b2_u32 { uint d[]; } b2_u32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
uint qn_mulhi(uint a, uint b) { uint hi, lo; umulExtended(a, b, hi, lo); return hi; }
// k_2dbe7bbb61e08b73
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
  uint v7 = v6 << 1u;
  uint v9 = v7 << 24u;
  uint v11 = v4 >> 7u;
  uint v12 = v9 | v11;
  uint v13 = v4 - v12;
  b1_u32.d[o1 + v3] = v13;
  uint v16 = v4 * 2147483648u;
  uint v17 = v16 + v6;
  uint v18 = qn_mulhi(v4, 1u);
  uint v19 = v17 + v18;
  int v20 = int(v6);
  int v22 = v20 >> 7;
  uint v23 = uint(v22);
  uint v24 = v19 - v23;
  bool v25 = v4 < v12;
  uint v26 = uint(v25);
  uint v27 = v24 - v26;
  b1_u32.d[o1 + v5] = v27;
  uint v29 = uint(31 - findMSB(v4));
  uint v31 = qn_mulhi(v4, 3528531795u);
  uint v32 = v29 + v31;
  b2_u32.d[o2 + group] = v32;
}
