#version 450
layout(local_size_x = 1) in;
layout(set = 0, binding = 0, std430) readonly buffer B_b0_f64 { double d[]; } b0_f64;
layout(set = 0, binding = 1, std430) buffer B_b1_f64 { double d[]; } b1_f64;
layout(set = 0, binding = 2, std430) readonly buffer B_params { uint w[]; } params;
layout(push_constant) uniform push { uint base; };
// k_7bed11360b384210
void main() {
  uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
  if (group >= params.w[base])
    return;
  uint o0 = params.w[base + 1u];
  uint o1 = params.w[base + 2u];
  uint v3 = group * 2u;
  dvec2 v4 = dvec2(b0_f64.d[o0 + v3], b0_f64.d[o0 + v3 + 1u]);
  bvec2 v5 = notEqual(v4, v4);
  dvec2 v7 = dvec2(packDouble2x32(uvec2(0x00000000u, 0x7ff80000u)));
  dvec2 v9 = dvec2(packDouble2x32(uvec2(0x9999999au, 0x3fb99999u)));
  dvec2 v11 = dvec2((-2.5lf));
  precise dvec2 v12 = fma(v4, v9, v11);
  dvec2 v13 = mix(v12, v7, v5);
  b1_f64.d[o1 + v3] = v13.x;
  b1_f64.d[o1 + v3 + 1u] = v13.y;
}
