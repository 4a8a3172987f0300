#version 450
#extension GL_EXT_shader_8bit_storage : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_u8 { uint8_t d[]; } b0_u8;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_bool { uint8_t d[]; } b1_bool;
layout(set = 0, binding = 2, std430) buffer B_b2_u8 { uint8_t d[]; } b2_u8;
layout(set = 0, binding = 3, std430) buffer B_b3_bool { uint8_t d[]; } b3_bool;
layout(set = 0, binding = 4, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_47ff3cb17c05ede3
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  uint o3 = params.w[base + 4u];
  uint v3 = group * 4u;
  bvec4 v4 = bvec4((uint(b1_bool.d[o1 + v3]) != 0u), (uint(b1_bool.d[o1 + v3 + 1u]) != 0u), (uint(b1_bool.d[o1 + v3 + 2u]) != 0u), (uint(b1_bool.d[o1 + v3 + 3u]) != 0u));
  uvec4 v5 = uvec4(uint(b0_u8.d[o0 + v3]), uint(b0_u8.d[o0 + v3 + 1u]), uint(b0_u8.d[o0 + v3 + 2u]), uint(b0_u8.d[o0 + v3 + 3u]));
  uvec4 v6 = uvec4(v5);
  uvec4 v8 = uvec4(200u);
  uvec4 v9 = v6 + v8;
  uvec4 v11 = uvec4(255u);
  uvec4 v12 = v9 & v11;
  uvec4 v13 = mix(v6, v12, v4);
  uvec4 v14 = uvec4(v13) & 0xffu;
  b2_u8.d[o2 + v3] = uint8_t(v14.x);
  b2_u8.d[o2 + v3 + 1u] = uint8_t(v14.y);
  b2_u8.d[o2 + v3 + 2u] = uint8_t(v14.z);
  b2_u8.d[o2 + v3 + 3u] = uint8_t(v14.w);
  bool v16 = v4.y;
  bvec4 v17 = not(v4);
  bool v18 = v17.w;
  bool v19 = v16 != v18;
  b3_bool.d[o3 + group] = uint8_t(uint(v19));
}
