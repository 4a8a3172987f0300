#version 450
/* c[i] = a[i] * a[i] + b[i], in two roundings: contraction is off; words: groups, n. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
layout(set = 0, binding = 2) buffer C { float c[]; };
layout(set = 0, binding = 3) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
uint group() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z); }
void main() {
  uint g = group();
  if (g >= p[base])
    return;
  uint i = g * 64u + gl_LocalInvocationID.x;
  if (i < p[base + 1]) {
    precise float m = a[i] * a[i];
    precise float s = m + b[i];
    c[i] = s;
  }
}
