#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f32 { float d[]; } b0_f32;
layout(set = 0, binding = 1, std430) readonly buffer B_b1_i32x4 { ivec4 d[]; } b1_i32x4;
layout(set = 0, binding = 2, std430) buffer B_b2_f32 { float d[]; } b2_f32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_3cf1de8712a6a1bb
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  uint v1 = params.w[base + 4u];
  int v2 = int(v1);
  int v4 = v2 + (-1);
  ivec4 v5 = ivec4(v4);
  uint v8 = group * 4u;
  ivec4 v9 = b1_i32x4.d[(o1 + v8) >> 2];
  ivec4 v10 = v5 - v9;
  ivec4 v12 = ivec4(0);
  bvec4 v13 = lessThanEqual(v12, v9);
  ivec4 v14 = ivec4(v2);
  bvec4 v15 = lessThan(v9, v14);
  bvec4 v16 = bvec4(uvec4(v13) & uvec4(v15));
  vec4 v17 = vec4(0.0);
  if (v16.x) v17.x = b0_f32.d[o0 + uint(v9.x)];
  if (v16.y) v17.y = b0_f32.d[o0 + uint(v9.y)];
  if (v16.z) v17.z = b0_f32.d[o0 + uint(v9.z)];
  if (v16.w) v17.w = b0_f32.d[o0 + uint(v9.w)];
  vec4 v19 = vec4(uintBitsToFloat(0xbe99999au));
  precise vec4 v20 = v17 * v19;
  if (v16.x) b2_f32.d[o2 + uint(v10.x)] = v20.x;
  if (v16.y) b2_f32.d[o2 + uint(v10.y)] = v20.y;
  if (v16.z) b2_f32.d[o2 + uint(v10.z)] = v20.z;
  if (v16.w) b2_f32.d[o2 + uint(v10.w)] = v20.w;
}
