#version 450
layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32x4 { vec4 d[]; } b0_f32x4;
layout(set = 0, binding = 1, std430) buffer B_b1_f32x4 { vec4 d[]; } b1_f32x4;
layout(set = 0, binding = 2, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
shared vec4 v2[16];
shared float v3[16];
// k_55d7384145e78728
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint item = gl_LocalInvocationID.x;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint v6 = group * 16u;
  uint v7 = item + v6;
  uint v9 = v7 * 4u;
  vec4 v10 = b0_f32x4.d[(o0 + v9) >> 2];
  uint v11 = item * 4u;
  v2[v11 >> 2] = v10;
  float v13 = v10.z;
  v3[item] = v13;
  barrier();
  uint v17 = 15u - item;
  uint v18 = v17 * 4u;
  vec4 v19 = v2[v18 >> 2];
  float v20 = v3[v17];
  vec4 v21 = vec4(v20);
  precise vec4 v22 = v19 + v21;
  vec2 v23 = v22.zw;
  vec2 v24 = v22.xy;
  vec4 v25 = vec4(v23, v24);
  b1_f32x4.d[(o1 + v9) >> 2] = v25;
}
