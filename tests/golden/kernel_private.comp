#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_i32 { int d[]; } b0_i32;
layout(set = 0, binding = 1, std430) buffer B_b1_i32 { int d[]; } b1_i32;
layout(set = 0, binding = 2, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_db4731f190b0af7c
void main() {
  int v1[8];
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint v5 = group * 8u;
  uint v6 = params.w[base + 3u];
  for (uint v7 = 0u; v7 < 8u; v7 += 1u) {
    uint v8 = v7 + v5;
    bool v9 = v8 < v6;
    int v10 = 0;
    if (v9) {
      v10 = b0_i32.d[o0 + v8];
    }
    v1[v7] = v10;
  }
  uint v16 = group * 4u;
  for (uint v17 = 0u; v17 < 7u; v17 += 2u) {
    int v18 = v1[v17];
    uint v19 = v17 + 1u;
    int v20 = v1[v19];
    uint v21 = v17 >> 1u;
    uint v22 = v16 + v21;
    int v23 = v18 * v20;
    int v24 = -v18;
    int v25 = v23 - v24;
    bool v26 = v22 < v6;
    if (v26) {
      b1_i32.d[o1 + v22] = v25;
    }
  }
}
