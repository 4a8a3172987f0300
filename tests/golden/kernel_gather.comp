#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_i32x4 { ivec4 d[]; } b1_i32x4;
layout(set = 0, binding = 2, std430) buffer B_b2_f32 { float d[]; } b2_f32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_8969d3002e00c684
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  uint v1 = params.w[base + 4u];
  int v2 = int(v1);
  uint v5 = group * 4u;
  ivec4 v6 = b1_i32x4.d[(o1 + v5) >> 2];
  ivec4 v8 = ivec4(0);
  bvec4 v9 = lessThanEqual(v8, v6);
  ivec4 v10 = ivec4(v2);
  bvec4 v11 = lessThan(v6, v10);
  bvec4 v12 = bvec4(uvec4(v9) & uvec4(v11));
  vec4 v13 = vec4(0.0);
  if (v12.x) v13.x = b0_f32.d[o0 + uint(v6.x)];
  if (v12.y) v13.y = b0_f32.d[o0 + uint(v6.y)];
  if (v12.z) v13.z = b0_f32.d[o0 + uint(v6.z)];
  if (v12.w) v13.w = b0_f32.d[o0 + uint(v6.w)];
  int v15 = v2 + (-1);
  ivec4 v16 = ivec4(v15);
  ivec4 v17 = v16 - v6;
  vec4 v19 = vec4(uintBitsToFloat(0xbe99999au));
  precise vec4 v20 = v13 * v19;
  if (v12.x) b2_f32.d[o2 + uint(v17.x)] = v20.x;
  if (v12.y) b2_f32.d[o2 + uint(v17.y)] = v20.y;
  if (v12.z) b2_f32.d[o2 + uint(v17.z)] = v20.z;
  if (v12.w) b2_f32.d[o2 + uint(v17.w)] = v20.w;
}
