#version 450
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_f32x4 { vec4 d[]; } b1_f32x4;
layout(set = 0, binding = 2, std430) buffer B_b2_f32x4 { vec4 d[]; } b2_f32x4;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_62e5b0300ea407e1
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  vec4 v2 = vec4(0.0);
  vec4 v3 = v2;
  vec4 v4 = v2;
  vec4 v5 = v2;
  vec4 v6 = v2;
  uint v8 = params.w[base + 4u];
  uint v11 = group * 2u;
  uint v12 = v11 * v8;
  uint v16 = v11 + 1u;
  uint v17 = v16 * v8;
  [[dont_unroll]]
  for (uint v18 = 0u; v18 < v8; v18 += 1u) {
    vec4 v19 = v3;
    vec4 v20 = v4;
    uint v21 = v12 + v18;
    float v22 = b0_f32.d[o0 + v21];
    vec4 v23 = vec4(v22);
    uint v24 = v18 * 8u;
    vec4 v25 = b1_f32x4.d[(o1 + v24) >> 2];
    precise vec4 v26 = fma(v23, v25, v19);
    v3 = v26;
    uint v28 = v24 + 4u;
    vec4 v29 = b1_f32x4.d[(o1 + v28) >> 2];
    precise vec4 v30 = fma(v23, v29, v20);
    v4 = v30;
    vec4 v32 = v5;
    vec4 v33 = v6;
    uint v34 = v17 + v18;
    float v35 = b0_f32.d[o0 + v34];
    vec4 v36 = vec4(v35);
    precise vec4 v37 = fma(v36, v25, v32);
    v5 = v37;
    precise vec4 v39 = fma(v36, v29, v33);
    v6 = v39;
  }
  vec4 v42 = v3;
  vec4 v43 = v4;
  uint v45 = group * 16u;
  b2_f32x4.d[(o2 + v45) >> 2] = v42;
  uint v47 = v45 + 4u;
  b2_f32x4.d[(o2 + v47) >> 2] = v43;
  vec4 v49 = v5;
  vec4 v50 = v6;
  uint v51 = v16 * 8u;
  b2_f32x4.d[(o2 + v51) >> 2] = v49;
  uint v53 = v51 + 4u;
  b2_f32x4.d[(o2 + v53) >> 2] = v50;
}
