#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_f32 { float d[]; } b1_f32;
layout(set = 0, binding = 2, std430) buffer B_b2_f32 { float d[]; } b2_f32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_3ec82c5c21865c0e
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  float v2 = 0.0;
  uint v4 = params.w[base + 4u];
  uint v6 = group * v4;
  float v7 = b1_f32.d[o1 + group];
  for (uint v8 = 0u; v8 < v4; v8 += 1u) {
    float v9 = v2;
    uint v10 = v8 + v6;
    float v11 = b0_f32.d[o0 + v10];
    precise float v12 = fma(v11, v7, v9);
    v2 = v12;
  }
  float v15 = v2;
  b2_f32.d[o2 + group] = v15;
}
