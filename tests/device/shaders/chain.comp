#version 450
/* y[i] = x[n - 1 - i] * 3 + 1, reversed so that a launch depends on all groups of the one before; words: groups, n. */
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(set = 0, binding = 1) buffer Y { uint y[]; };
layout(set = 0, binding = 2) readonly buffer P { uint p[]; };
layout(push_constant) uniform K { uint base; };
uint group() { return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z); }
void main() {
  uint g = group();
  if (g >= p[base])
    return;
  uint i = g * 64u + gl_LocalInvocationID.x;
  uint n = p[base + 1];
  if (i < n)
    y[i] = x[n - 1u - i] * 3u + 1u;
}
