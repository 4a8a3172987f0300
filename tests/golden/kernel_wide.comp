#version 450
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_i64 { int64_t d[]; } b0_i64;
layout(set = 0, binding = 1, std430) buffer B_b1_i64 { int64_t d[]; } b1_i64;
layout(set = 0, binding = 2, std430) buffer B_b2_u32 { uint d[]; } b2_u32;
layout(set = 0, binding = 3, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
uint qn_mulhi(uint a, uint b) { uint hi, lo; umulExtended(a, b, hi, lo); return hi; }
// k_b26a8a58a08c6b2b
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint o2 = params.w[base + 3u];
  int64_t v2 = b0_i64.d[o0 + group];
  int64_t v4 = v2 * int64_t(0x8000000000000001ul);
  int64_t v6 = v2 >> 7l;
  int64_t v7 = v4 - v6;
  b1_i64.d[o1 + group] = v7;
  uint v9 = uint(v2);
  uint v11 = qn_mulhi(v9, 3528531795u);
  uint v12 = uint(31 - findMSB(v9));
  uint v13 = v11 + v12;
  b2_u32.d[o2 + group] = v13;
}
