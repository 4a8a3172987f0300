#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32x4 { vec4 d[]; } b0_f32x4;
layout(set = 0, binding = 1, std430) buffer B_b1_f32 { float d[]; } b1_f32;
layout(set = 0, binding = 1, std430) buffer B_b1_f32x4 { vec4 d[]; } b1_f32x4;
layout(set = 0, binding = 2, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_fd13d0fff883e86e
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint v3 = group * 4u;
  uint v4 = v3 + 4u;
  uint v5 = params.w[base + 3u];
  bool v6 = v4 <= v5;
  if (v6) {
    vec4 v9 = vec4(0.0);
    vec4 v10 = b0_f32x4.d[(o0 + v3) >> 2];
    vec4 v12 = vec4(1.5);
    precise vec4 v13 = v10 + v12;
    bvec4 v14 = lessThan(v9, v13);
    vec4 v15 = mix(v9, v13, v14);
    b1_f32x4.d[(o1 + v3) >> 2] = v15;
  } else {
    [[dont_unroll]]
    for (uint v20 = v3; v20 < v5; v20 += 1u) {
      float v21 = b0_f32.d[o0 + v20];
      precise float v22 = v21 + 1.5;
      bool v23 = 0.0 < v22;
      float v24 = v23 ? v22 : 0.0;
      b1_f32.d[o1 + v20] = v24;
    }
  }
}
