#version 450
layout(local_size_x = 16) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32x4 { vec4 d[]; } b0_f32x4;
layout(set = 0, binding = 1, std430) buffer B_b1_f32x4 { vec4 d[]; } b1_f32x4;
layout(set = 0, binding = 2, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
shared vec4 v1[16];
shared float v2[16];
// k_d6172410f7da80f2
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint item = gl_LocalInvocationID.x;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint v5 = item * 4u;
  uint v8 = group * 16u;
  uint v9 = item + v8;
  uint v10 = v9 * 4u;
  vec4 v11 = b0_f32x4.d[(o0 + v10) >> 2];
  v1[v5 >> 2] = v11;
  float v13 = v11.z;
  v2[item] = v13;
  barrier();
  uint v17 = 15u - item;
  uint v18 = v17 * 4u;
  vec4 v19 = v1[v18 >> 2];
  float v20 = v2[v17];
  vec4 v21 = vec4(v20);
  precise vec4 v22 = v19 + v21;
  vec2 v23 = v22.zw;
  vec2 v24 = v22.xy;
  vec4 v25 = vec4(v23, v24);
  b1_f32x4.d[(o1 + v10) >> 2] = v25;
}
