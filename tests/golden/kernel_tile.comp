#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_f32x4 { vec4 d[]; } b1_f32x4;
layout(set = 0, binding = 2, std430) buffer B_b2_f32x4 { vec4 d[]; } b2_f32x4;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_de5b98a48ce6fa32
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  uint v1 = params.w[base + 4u];
  vec4 v4 = vec4(0.0);
  vec4 v5 = v4;
  vec4 v6 = v4;
  vec4 v7 = v4;
  vec4 v8 = v4;
  uint v12 = group * 2u;
  uint v13 = v1 * v12;
  uint v15 = v12 + 1u;
  uint v16 = v1 * v15;
  [[dont_unroll]]
  for (uint v18 = 0u; v18 < v1; v18 += 1u) {
    uint v19 = v18 * 8u;
    vec4 v20 = b1_f32x4.d[(o1 + v19) >> 2];
    uint v21 = v19 + 4u;
    vec4 v22 = b1_f32x4.d[(o1 + v21) >> 2];
    uint v23 = v13 + v18;
    float v24 = b0_f32.d[o0 + v23];
    vec4 v25 = v5;
    vec4 v26 = v6;
    vec4 v27 = vec4(v24);
    precise vec4 v28 = fma(v27, v20, v25);
    precise vec4 v29 = fma(v27, v22, v26);
    v5 = v28;
    v6 = v29;
    uint v32 = v16 + v18;
    float v33 = b0_f32.d[o0 + v32];
    vec4 v34 = v7;
    vec4 v35 = v8;
    vec4 v36 = vec4(v33);
    precise vec4 v37 = fma(v36, v20, v34);
    precise vec4 v38 = fma(v36, v22, v35);
    v7 = v37;
    v8 = v38;
  }
  uint v43 = group * 16u;
  vec4 v44 = v5;
  vec4 v45 = v6;
  b2_f32x4.d[(o2 + v43) >> 2] = v44;
  uint v47 = v43 + 4u;
  b2_f32x4.d[(o2 + v47) >> 2] = v45;
  uint v49 = v15 * 8u;
  vec4 v50 = v7;
  vec4 v51 = v8;
  b2_f32x4.d[(o2 + v49) >> 2] = v50;
  uint v53 = v49 + 4u;
  b2_f32x4.d[(o2 + v53) >> 2] = v51;
}
